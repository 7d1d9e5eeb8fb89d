"""Asking a streaming server about stored channels and reading them, through its outages.

Used beside the driver (how far is a channel?) and in executors (give me these sequences). A server that
refuses, closes or does not answer is tried again until `reconnectTimeout` has passed without anything coming
of it; reading goes on behind the last message that came. What was lost or made again is not judged here.
Connections wait in the process for the next task, since Spark uses its workers again.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.client.blocking import Connection, connect
from headrace.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectError,
    ConnectionLostError,
    NoRespondersError,
    StreamingRefusedError,
)
from headrace.client.handshake import resolve_addresses
from headrace.client.replay import channel_state, replay_columns
from headrace.spark.errors import ChannelError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from headrace.client.replay import ChannelState, ReplayBatch
    from headrace.protocol.columns import Columns
    from headrace.spark.options import SourceOptions

_OUTAGE: Final = (ConnectError, ConnectionLostError, ClientTimeoutError, NoRespondersError)
"""What may pass by itself: no server, a server that went, one whose streaming service is not up yet."""

KEPT: Final = 30.0
"""Seconds a connection waits for its next use; nobody answers the server's pings meanwhile."""

_NOT_FOUND: Final = 404
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0

_log = logging.getLogger("headrace.spark")

_Result = TypeVar("_Result")


class Idle:
    """One waiting connection for each server and user; whoever finds none opens one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, tuple[Connection, float]] = {}

    def take(self, key: Hashable) -> Connection | None:
        """One that waits, unless it does so for so long that the server may have given it up."""
        with self._lock:
            connection, since = self._waiting.pop(key, (None, 0.0))
        if connection is not None and self._clock() - since > KEPT:
            connection.close()
            return None
        return connection

    def give(self, key: Hashable, connection: Connection) -> None:
        with self._lock:
            before, _ = self._waiting.get(key, (None, 0.0))
            self._waiting[key] = connection, self._clock()
        if before is not None:
            before.close()

    def clear(self) -> None:
        with self._lock:
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for connection, _ in waiting:
            connection.close()


idle: Final = Idle()
"""The waiting connections of this process."""


class ChannelLink:
    """The streaming server that some options name. One thread at a time; copies begin without connection."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._options = options
        self._key = (
            options.url, options.credentials, options.tls_ca_file, options.tls_cert_file,
            options.tls_key_file, options.tls_first, options.connection_name,
        )  # fmt: skip
        self._clock = clock
        self._pause = pause

    def state(self, channel: str) -> ChannelState | None:
        """How far a channel has come; None if there is no such channel. Raises: ChannelError."""
        outage = _Outage(self, channel)
        while True:
            try:
                return self._with_connection(
                    lambda connection: channel_state(connection, self._options.cluster_id, channel)
                )
            except _OUTAGE as error:
                outage.wait(error)
            except ClientError as error:
                raise self._failed(channel, error) from error

    def batches(self, channel: str, first: int, end: int) -> Iterator[Columns | ReplayBatch]:
        """The stored messages with sequences [first, end), in order, each once. Raises: ChannelError."""
        outage = _Outage(self, channel)
        at = first
        while at < end:
            try:
                for batch in self._replay(channel, at, end - 1):
                    yield batch
                    at = batch.sequences[-1] + 1 if len(batch) else at
                    outage.over()
                return
            except StreamingRefusedError as error:
                if (
                    error.code == _NOT_FOUND
                ):  # deleted since: who asked for the messages sees that they are gone
                    return
                raise self._failed(channel, error) from error
            except _OUTAGE as error:
                outage.wait(error)
            except ClientError as error:
                raise self._failed(channel, error) from error

    def _replay(self, channel: str, first: int, last: int) -> Iterator[Columns | ReplayBatch]:
        connection = self._connection()
        try:
            yield from replay_columns(connection, self._options.cluster_id, channel, first, last)
        except BaseException:
            connection.close()
            raise
        idle.give(self._key, connection)

    def _with_connection(self, ask: Callable[[Connection], _Result]) -> _Result:
        connection = self._connection()
        try:
            answer = ask(connection)
        except BaseException:
            connection.close()
            raise
        idle.give(self._key, connection)
        return answer

    def _connection(self) -> Connection:
        waiting = idle.take(self._key)
        return waiting or connect(self._options.url, self._options.connect_options())

    def _failed(self, channel: str, error: ClientError, tried: str = "") -> ChannelError:
        where = ", ".join(map(str, resolve_addresses(self._options.url)))  # never shows credentials
        return ChannelError(
            f"cannot read channel {channel} of cluster {self._options.cluster_id} at {where}: {error}{tried}"
        )


class _Outage:
    """From the first failure to the next success: how long, and whether to try once more."""

    def __init__(self, link: ChannelLink, channel: str) -> None:
        self._link = link
        self._channel = channel
        self.over()

    def over(self) -> None:
        self._since: float | None = None
        self._next = _FIRST_PAUSE

    def wait(self, error: ClientError) -> None:
        """Raises: ChannelError once this has gone on for `reconnectTimeout`."""
        link, limit = self._link, self._link._options.reconnect_timeout
        now = link._clock()
        if self._since is None:
            self._since = now
            _log.warning("channel %s: %s; trying again for %g s", self._channel, error, limit)
        left = self._since + limit - now
        if left <= 0:
            raise link._failed(
                self._channel, error, f" (tried for {limit:g} s, option reconnectTimeout)"
            ) from error
        link._pause(min(self._next, left))
        self._next = min(self._next * 2, _LONGEST_PAUSE)
