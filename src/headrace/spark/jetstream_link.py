"""JetStream streams as stored streams: what `stored_link` does, said to a server with JetStream.

Nothing is retried here.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from headrace.client.errors import JetStreamError, NoRespondersError
from headrace.client.jetstream import JetStream
from headrace.client.jetstream_api import STREAM_NOT_FOUND
from headrace.spark.offsets import STREAM
from headrace.spark.schema import stored_record_batch
from headrace.spark.stored_link import StoredLink, StoredRows, StoredState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from pyspark.sql.types import StructType

    from headrace.client.blocking import Connection
    from headrace.client.errors import ClientError
    from headrace.client.jetstream import StreamState
    from headrace.spark.offsets import StoredRange

    _Result = TypeVar("_Result")

_UNAVAILABLE: Final = 503


class JetStreamLink(StoredLink):
    """The server with JetStream that some options name."""

    kind = STREAM

    def _streams(self, connection: Connection) -> JetStream:
        return JetStream(connection, self._options.jetstream_api)

    def _state(self, connection: Connection, name: str) -> StoredState | None:
        state = self._found(connection, name)
        if state is None:
            return None
        return StoredState(
            state.first_sequence,
            state.last_sequence,
            state.messages,
            state.bytes,
            state.created_ns,
            state.keeps_order,
            state.metadata,
        )

    def _matching(self, connection: Connection, pattern: str) -> dict[str, StoredState]:
        names = _waiting_for_it(self._streams(connection).names)
        states = {name: self._state(connection, name) for name in names if self.kind.matches(pattern, name)}
        return {name: state for name, state in states.items() if state is not None}

    def _found(self, connection: Connection, name: str) -> StreamState | None:
        return _waiting_for_it(lambda: self._streams(connection).state(name))

    def _sequence_at(self, connection: Connection, name: str, time_ns: int) -> int:
        state = self._found(connection, name)
        if state is None:
            return 1
        direct = not state.consumable
        return _waiting_for_it(lambda: self._streams(connection).sequence_at(name, time_ns, direct=direct))

    def _time_at(
        self, connection: Connection, name: str, sequence: int, filters: Sequence[str]
    ) -> int | None:
        state = self._found(connection, name)
        if state is None:
            return None
        direct = not state.consumable
        found = self._streams(connection).read(
            name, sequence, state.last_sequence + 1, filters, direct=direct, headers_only=True, window=1
        )
        with closing(found) as batches:
            try:
                return next((batch.timestamps[0] for batch in batches), None)
            except JetStreamError as error:
                raise _passing(error) from error

    def _read(
        self, connection: Connection, span: StoredRange, filters: Sequence[str], columns: StructType
    ) -> Iterator[StoredRows]:
        state = self._found(connection, span.name)
        if state is None:
            return
        streams = self._streams(connection)
        batches = streams.read(span.name, span.first, span.end, filters, direct=not state.consumable)
        try:
            for batch in batches:
                yield StoredRows(batch.sequences, stored_record_batch(span.name, batch, columns))
        except JetStreamError as error:
            raise _passing(error) from error

    def _is_gone(self, error: ClientError) -> bool:
        return isinstance(error, JetStreamError) and error.err_code == STREAM_NOT_FOUND


def _waiting_for_it(ask: Callable[[], _Result]) -> _Result:
    try:
        return ask()
    except JetStreamError as error:
        raise _passing(error) from error


def _passing(error: JetStreamError) -> ClientError:
    """JetStream that is not up yet, or has no leader at the moment, may pass as an absent server does."""
    return NoRespondersError(str(error)) if error.code == _UNAVAILABLE else error
