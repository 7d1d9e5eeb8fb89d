"""Streams, buckets and consumers that a load needs, made before it begins and removed again.

What was there before is never removed, and only emptied where that was asked for. Filling a stream is a load
of its own (`running`).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from headrace.client.errors import JetStreamError
from headrace.client.jetstream_api import STREAM_NOT_FOUND, JetStreamApi
from headrace.load.errors import LoadError
from headrace.load.options import READS_STREAM, WRITES_STREAM, Publishing, Scenario

if TYPE_CHECKING:
    from headrace.client.blocking import Connection
    from headrace.load.options import LoadOptions

MOST_BYTES: Final = 1 << 30
"""The limit of a stream or bucket that a load makes, in bytes; the oldest messages go then."""

_CONSUMER_NOT_FOUND: Final = 10014
_INACTIVE_NS: Final = 60_000_000_000
_UNACKNOWLEDGED: Final = 100_000
_FILLS: Final = ("max_msgs", "max_bytes", "max_age", "max_msgs_per_subject")


class PreparedStream:
    """The stream of a load, and the consumers of its clients. Raises: as `JetStreamApi`."""

    def __init__(self, options: LoadOptions) -> None:
        self._options = options
        self.name = options.stream_name
        self._consumers: list[str] = []
        self.was_made = False

    @property
    def is_untidy(self) -> bool:
        """True if something was made that is to be removed."""
        return bool(self._consumers) or (self.was_made and not self._options.keep)

    def make(self, connection: Connection) -> None:
        """Make the stream if it is missing and that is wanted, and empty it if that is wanted.

        Raises: LoadError for a stream that does not take what the load will publish.
        """
        api = self._api(connection)
        try:
            found = api.ask(f"STREAM.INFO.{self.name}")["config"]
        except JetStreamError as error:
            if error.err_code != STREAM_NOT_FOUND or not self._options.create:
                raise
            api.ask(f"STREAM.CREATE.{self.name}", stream_config(self._options))
            self.was_made = True
            return
        self._check(found)
        if self._options.purge:
            api.ask(f"STREAM.PURGE.{self.name}")

    def stored(self, connection: Connection) -> tuple[int, int, int]:
        """Return the first and last sequence of the stream, and how many messages it has."""
        state = self._api(connection).ask(f"STREAM.INFO.{self.name}")["state"]
        return int(state["first_seq"]), int(state["last_seq"]), int(state["messages"])

    def limitless(self, connection: Connection) -> bool:
        """True if the stream is there and nothing limits what it keeps."""
        try:
            config = self._api(connection).ask(f"STREAM.INFO.{self.name}")["config"]
        except JetStreamError as error:
            if error.err_code == STREAM_NOT_FOUND:
                return False
            raise
        return not any(int(config.get(key, 0)) > 0 for key in _FILLS)

    def consumers(self, connection: Connection, count: int) -> list[str]:
        """Make the consumers of so many clients and return the subjects of their pulls.

        Those of `js ordered` have one each, others share one.
        """
        api, options = self._api(connection), self._options
        ordered = options.scenario is Scenario.JS_ORDERED
        number = count if ordered else 1
        for _ in range(number):
            name = f"headrace-bench-{secrets.token_hex(4)}"
            config: dict[str, Any] = {
                "name": name,
                "deliver_policy": "all",
                "ack_policy": "explicit" if options.acknowledge and not ordered else "none",
                "replay_policy": "instant",
                "inactive_threshold": _INACTIVE_NS,
            }
            if ordered:
                config |= {"mem_storage": True, "num_replicas": 1, "max_deliver": 1}
            else:
                config |= {"durable_name": name, "max_ack_pending": _UNACKNOWLEDGED}
            request = {"stream_name": self.name, "config": config}
            api.ask(f"CONSUMER.CREATE.{self.name}.{name}", request)
            self._consumers.append(name)
        subjects = [api.subject(f"CONSUMER.MSG.NEXT.{self.name}.{name}") for name in self._consumers]
        return subjects if ordered else subjects * count

    def clean(self, connection: Connection) -> None:
        """Remove what was made, unless it is to be kept."""
        api = self._api(connection)
        for name in self._consumers:
            _remove(api, f"CONSUMER.DELETE.{self.name}.{name}", _CONSUMER_NOT_FOUND)
        self._consumers.clear()
        if self.was_made and not self._options.keep:
            _remove(api, f"STREAM.DELETE.{self.name}", STREAM_NOT_FOUND)
            self.was_made = False

    def _api(self, connection: Connection) -> JetStreamApi:
        return JetStreamApi(connection, self._options.api_prefix, timeout=self._options.timeout)

    def _check(self, config: dict[str, Any]) -> None:
        """Raise LoadError if messages of this load would not get into a stream with this configuration."""
        options = self._options
        if options.scenario is not Scenario.JS_PUB:
            return
        needed = {Publishing.BATCH: "allow_atomic", Publishing.FAST: "allow_batched"}.get(options.publishing)
        if needed is not None and not config.get(needed):
            raise LoadError(f"stream {self.name} takes no {options.publishing.value}: it lacks {needed}")


def _remove(api: JetStreamApi, verb: str, missing: int) -> None:
    try:
        api.ask(verb)
    except JetStreamError as error:
        if error.err_code != missing:
            raise


def stream_config(options: LoadOptions) -> dict[str, Any]:
    """Return the configuration of the stream that a load makes."""
    config: dict[str, Any] = {
        "name": options.stream_name,
        "subjects": [options.subscribed],
        "storage": options.storage,
        "num_replicas": options.replicas,
        "retention": "limits",
        "discard": "old",
        "max_bytes": MOST_BYTES,
        "allow_direct": True,
    }
    if options.is_key_value:
        config |= {
            "subjects": [f"$KV.{options.bucket}.>"],
            "max_msgs_per_subject": 1,
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "discard": "new",
        }
    elif options.publishing is Publishing.BATCH:
        config["allow_atomic"] = True
    elif options.publishing is Publishing.FAST:
        config["allow_batched"] = True
    return config


def fills_without_limit(connection: Connection, options: LoadOptions) -> bool:
    """True if the load would publish into a stream that is there and keeps everything: ask before.

    Raises: as `JetStreamApi`.
    """
    return options.scenario in WRITES_STREAM and PreparedStream(options).limitless(connection)


def reads_what_it_fills(options: LoadOptions, *, was_made: bool) -> bool:
    """True if the stream that was made must be filled before its messages can be read."""
    return was_made and options.scenario in READS_STREAM
