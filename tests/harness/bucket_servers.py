"""A server of a test's own with its streams or channels in a bucket, a directory, and messages for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from harness.waiting import wait_until
from headrace.client import stan
from headrace.client.blocking import connect
from headrace.client.errors import NoRespondersError
from headrace.client.jetstream_api import JetStreamApi
from headrace.conf.bucket_options import BucketOptions
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.streaming_options import StreamingOptions
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path


class AwayBucket:
    """A bucket that is a directory, and may be away: all requests fail then, of all servers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._aside = directory.with_suffix(".away")

    def take_away(self) -> None:
        """Have all requests fail: a file stands where the directory was."""
        self._directory.rename(self._aside)
        self._directory.write_bytes(b"")

    def bring_back(self) -> None:
        self._directory.unlink()
        self._aside.rename(self._directory)


def directory_bucket(place: Path) -> BucketOptions:
    """The bucket that is a directory below a test's own."""
    return BucketOptions(f"file://{place}/bucket")


def serving(place: Path, store: str = "store", **more: Any) -> Server:
    """A server over that bucket; `store`: its local directory. It is started by `with`."""
    return Server(
        jetstream=JetStreamOptions(store_dir=str(place / store), bucket=directory_bucket(place), **more)
    )


def serving_channels(place: Path, store: str = "channels", **more: Any) -> Server:
    """A streaming server with the cluster ID c over that bucket."""
    return Server(
        streaming=StreamingOptions(
            cluster_id="c",
            store_type="FILE",
            directory=str(place / store),
            bucket=directory_bucket(place),
            **more,
        )
    )


def fill_channel(url: str, channel: str, first: int, count: int) -> None:
    """Publish numbers, as text, to a channel of the cluster ID c; all of them are acknowledged on return."""

    async def publish() -> None:
        async with await stan.connect("c", "filler", servers=url) as client:
            await asyncio.gather(
                *(client.publish(channel, b"%d" % number) for number in range(first, first + count))
            )

    asyncio.run(publish())


def create(url: str, name: str = "ORDERS", **config: Any) -> None:
    """Create a stream that takes `<name>.>`, in lower case. JetStream may begin after its server."""
    with connect(url) as connection:
        api = JetStreamApi(connection, "$JS.API")
        wait_until(lambda: _answers(api), "JetStream answers")
        api.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"], **config})


def _answers(api: JetStreamApi) -> bool:
    try:
        api.ask("INFO")
    except NoRespondersError:
        return False
    return True


def fill(url: str, first: int, count: int, subject: str = "orders.new", size: int = 0) -> None:
    """Publish numbers, as text with zero bytes behind it; all of them are acknowledged on return."""
    with connect(url) as connection:
        api = JetStreamApi(connection, "$JS.API")
        for number in range(first, first + count - 1):
            connection.publish(subject, b"%d" % number + bytes(size))
        api.put(subject, b"%d" % (first + count - 1) + bytes(size))
