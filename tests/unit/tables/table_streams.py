"""Streams of a running server to archive, over the blocking client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from headrace.client.blocking import Connection


class Streams:
    """The streams of the account that a connection belongs to: made, filled, changed."""

    def __init__(self, connection: Connection, api: str = "$JS.API") -> None:
        self.connection = connection
        self.api = JetStreamApi(connection, api)

    def make(self, name: str = "ORDERS", **config: Any) -> None:
        subjects = config.pop("subjects", [f"{name.lower()}.>"])
        self.api.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, **config})

    def change(self, name: str = "ORDERS", **config: Any) -> None:
        now = self.api.ask(f"STREAM.INFO.{name}")["config"]
        self.api.ask(f"STREAM.UPDATE.{name}", {**now, **config})

    def publish(self, first: int, count: int, subject: str = "orders.{}") -> None:
        """So many messages from number `first` on, which is their payload; every second one has headers."""
        for number in range(first, first + count):
            headers = {"Kind": ["even", "two"]} if number % 2 == 0 else None
            where = subject.format(number % 4)
            self.connection.request(where, b"%d" % number, headers=headers, timeout=10)

    def put(self, bucket: str, key: str, value: bytes, **headers: str) -> None:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self.connection.request(f"$KV.{bucket}.{key}", value, headers=named or None, timeout=10)

    def delete(self, sequence: int, name: str = "ORDERS") -> None:
        self.api.ask(f"STREAM.MSG.DELETE.{name}", {"seq": sequence})

    def purge(self, up_to: int, name: str = "ORDERS") -> None:
        self.api.ask(f"STREAM.PURGE.{name}", {"seq": up_to})


def filled(url: str, count: int, name: str = "ORDERS", **config: Any) -> None:
    """Make a stream with so many messages."""
    with connect(url) as connection:
        streams = Streams(connection)
        streams.make(name, **config)
        streams.publish(1, count, f"{name.lower()}.{{}}")
