"""Asking a server about stored streams and reading them, through its outages.

Used beside the driver (how far is a stream?) and in executors (give me these sequences). A server that
refuses, closes or does not answer is tried again until `reconnectTimeout` has passed without anything coming
of it; reading goes on behind the last message that came. What was lost or made again is not judged here.
What a kind of stream says on the wire is in `channel_link` and `jetstream_link`.
Connections wait in the process for the next task, since Spark uses its workers again.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.client.blocking import Connection, connect
from headrace.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectError,
    ConnectionLostError,
    NoRespondersError,
    ReadInterruptedError,
)
from headrace.client.options import resolve_addresses
from headrace.client.retries import Patience
from headrace.spark.errors import StoredStreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from headrace.protocol.replay import Damage
    from headrace.spark.offsets import StoredKind, StoredRange
    from headrace.spark.options import SourceOptions

_OUTAGE: Final = (
    ConnectError, ConnectionLostError, ClientTimeoutError, NoRespondersError, ReadInterruptedError,
)  # fmt: skip
"""Errors that may pass by themselves: no server, a lost one, one whose streams have not started."""

KEPT: Final = 30.0
"""Seconds a connection waits for its next use; nobody answers the server's pings meanwhile."""


_log = logging.getLogger("headrace.spark")

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class StoredState:
    """The first and last sequence of a stream; the first sequence of an empty one is one above its last.

    `created_ns` tells one incarnation from another. `keeps_order`: a first sequence that rises means that
    messages were removed by limits or a purge; else only that they were consumed or replaced.
    """

    first_sequence: int
    last_sequence: int
    messages: int
    bytes: int
    created_ns: int
    keeps_order: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Messages in order: their sequences, their columns, and those that the server could not read."""

    sequences: Sequence[int]
    table: pa.RecordBatch
    damaged: Damage = ()


class StoredAnswers(Protocol):
    """The answers that readers of stored streams need: of a server (`StoredLink`), or of a bucket."""

    @property
    def kind(self) -> StoredKind:
        """The kind of the streams."""

    def state(self, name: str) -> StoredState | None:
        """Ask for the state of a stream; None if there is no such stream. Raises: StoredStreamError."""

    def matching(self, pattern: str) -> dict[str, StoredState]:
        """Ask for the states of the streams that match a pattern, in the order of names.

        Raises: StoredStreamError.
        """

    def sequence_at(self, name: str, time_ns: int) -> int:
        """The first sequence stored at that time or later, above the last one if there is none.

        Raises: StoredStreamError.
        """

    def time_at(self, name: str, sequence: int, filters: Sequence[str]) -> int | None:
        """Ask when the first message with this sequence or a later one was stored, ns since 1970 UTC; with
        `filters` the first of these subjects. None if there is none.

        Raises: StoredStreamError.
        """

    def rows(self, wanted: StoredRange, filters: Sequence[str], columns: StructType) -> Iterator[StoredRows]:
        """The stored messages of a range, in order, each once; with `filters` those of these subjects only.

        Raises: StoredStreamError.
        """

    def place(self, name: str) -> str:
        """The stream in words, for errors."""


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


class StoredLink(ABC):
    """The server that some options name. One thread at a time; copies begin without connection."""

    kind: StoredKind

    def __init__(
        self,
        options: SourceOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._options = options
        self._key = options.connection_key()
        self._clock = clock
        self._pause = pause

    def state(self, name: str) -> StoredState | None:
        """Ask for the state of a stream; None if there is no such stream. Raises: StoredStreamError."""
        return self._ask(name, lambda connection: self._state(connection, name))

    def matching(self, pattern: str) -> dict[str, StoredState]:
        """Ask for the states of the streams that match a pattern, in the order of names.

        Raises: StoredStreamError.
        """
        found = self._ask(pattern, lambda connection: self._matching(connection, pattern))
        return dict(sorted(found.items()))

    def sequence_at(self, name: str, time_ns: int) -> int:
        """The first sequence stored at that time or later, above the last one if there is none.

        Raises: StoredStreamError.
        """
        return self._ask(name, lambda connection: self._sequence_at(connection, name, time_ns))

    def time_at(self, name: str, sequence: int, filters: Sequence[str]) -> int | None:
        """Ask when the first message with this sequence or a later one was stored, ns since 1970 UTC; with
        `filters` the first of these subjects. None if there is none.

        Raises: StoredStreamError.
        """
        return self._ask(name, lambda connection: self._time_at(connection, name, sequence, filters))

    def rows(self, wanted: StoredRange, filters: Sequence[str], columns: StructType) -> Iterator[StoredRows]:
        """The stored messages of a range, in order, each once; with `filters` those of these subjects only.

        Raises: StoredStreamError.
        """
        name, left = wanted.name, wanted
        outage = _Outage(self, name)
        while left.first < left.end:
            try:
                for rows in self._pooled(left, filters, columns):
                    yield rows
                    if rows.sequences:
                        left = replace(left, first=rows.sequences[-1] + 1)
                    outage.over()
                return
            except _OUTAGE as error:
                outage.wait(error)
            except ClientError as error:
                if self._is_gone(error):  # deleted since: who asked for the messages sees that they are gone
                    return
                raise self._failed(name, error) from error

    @abstractmethod
    def _state(self, connection: Connection, name: str) -> StoredState | None: ...

    @abstractmethod
    def _matching(self, connection: Connection, pattern: str) -> dict[str, StoredState]:
        """The streams that a pattern means."""

    @abstractmethod
    def _sequence_at(self, connection: Connection, name: str, time_ns: int) -> int: ...

    @abstractmethod
    def _time_at(
        self, connection: Connection, name: str, sequence: int, filters: Sequence[str]
    ) -> int | None: ...

    @abstractmethod
    def _read(
        self, connection: Connection, span: StoredRange, filters: Sequence[str], columns: StructType
    ) -> Iterator[StoredRows]: ...

    @abstractmethod
    def _is_gone(self, error: ClientError) -> bool:
        """True if an error says that there is no such stream."""

    def place(self, name: str) -> str:
        """The stream in words, for errors."""
        return f"{self.kind.word} {name}"

    def _ask(self, name: str, ask: Callable[[Connection], _Result]) -> _Result:
        outage = _Outage(self, name)
        while True:
            try:
                return self._with_connection(ask)
            except _OUTAGE as error:
                outage.wait(error)
            except ClientError as error:
                raise self._failed(name, error) from error

    def _pooled(self, span: StoredRange, filters: Sequence[str], columns: StructType) -> Iterator[StoredRows]:
        connection = self._connection()
        try:
            yield from self._read(connection, span, filters, columns)
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

    def _failed(self, name: str, error: ClientError, tried: str = "") -> StoredStreamError:
        where = ", ".join(map(str, resolve_addresses(self._options.url)))  # never shows credentials
        told = f"cannot read {self.place(name)} at {where}: {error}{tried}"
        return StoredStreamError(f"{told}{self._advice(name, error)}")

    def _advice(self, name: str, error: ClientError) -> str:
        """The end of an error's text: what this kind of stream knows to do about it. Nothing by default."""
        return ""


class _Outage:
    """The time that one stream cannot be read, from the first failure to the next success."""

    def __init__(self, link: StoredLink, name: str) -> None:
        self._link = link
        self._name = name
        self._patience = Patience(link._options.reconnect_timeout, link._clock, link._pause)
        self.over = self._patience.over

    def wait(self, error: ClientError) -> None:
        """Pause before the next try.

        Raises: StoredStreamError once this has gone on for `reconnectTimeout`.
        """
        link, limit = self._link, self._patience.limit
        if not self._patience.is_tried:
            _log.warning("%s %s: %s; trying again for %g s", link.kind.word, self._name, error, limit)
        try:
            self._patience.wait(error)
        except ClientError:
            raise link._failed(
                self._name, error, f" (tried for {limit:g} s, option reconnectTimeout)"
            ) from error
