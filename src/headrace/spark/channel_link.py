"""STAN channels as stored streams: what `stored_link` does, said to a streaming server.

A channel's messages all have the channel as their subject. They come as columns, from an older server one
by one. Nothing is retried here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientError, NoRespondersError, StreamingRefusedError
from headrace.client.jetstream import JetStream
from headrace.client.replay import channel_state, replay_columns
from headrace.client.streaming_admin import StreamingAdmin
from headrace.protocol.columns import Columns
from headrace.protocol.documents import name_of, raw_name
from headrace.spark.offsets import CHANNEL
from headrace.spark.schema import arrow_schema, columns_record_batch, stored_record_batch
from headrace.spark.stored_link import StoredLink, StoredRows, StoredState
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from headrace.client.blocking import Connection
    from headrace.spark.offsets import StoredRange

_NOT_FOUND: Final = 404


class ChannelLink(StoredLink):
    """The streaming server that some options name."""

    kind = CHANNEL

    def place(self, name: str) -> str:
        return f"channel {name} of cluster {self._options.cluster_id}"

    def _state(self, connection: Connection, name: str) -> StoredState | None:
        state = channel_state(connection, self._options.cluster_id, name)
        if state is None:
            return None
        return StoredState(
            state.first_sequence, state.last_sequence, state.messages, state.bytes, state.created_ns
        )

    def _matching(self, connection: Connection, pattern: str) -> dict[str, StoredState]:
        return {
            name_of(raw_name(one.name)): StoredState(
                one.first_seq, one.last_seq, one.msgs, one.bytes, one.created_ns
            )
            for one in StreamingAdmin(connection, self._options.cluster_id).channels(pattern)
        }

    def _sequence_at(self, connection: Connection, name: str, time_ns: int) -> int:
        cluster = self._options.cluster_id
        for batch in replay_columns(connection, cluster, name, start_time_ns=time_ns, max_messages=1):
            if len(batch):
                return batch.sequences[0]
        state = channel_state(connection, cluster, name)
        return 1 if state is None else state.last_sequence + 1

    def _time_at(
        self, connection: Connection, name: str, sequence: int, filters: Sequence[str]
    ) -> int | None:
        for batch in replay_columns(connection, self._options.cluster_id, name, sequence, max_messages=1):
            if len(batch):
                return batch.times[0] if isinstance(batch, Columns) else batch.timestamps[0]
        return None

    def _read(
        self, connection: Connection, span: StoredRange, filters: Sequence[str], columns: StructType
    ) -> Iterator[StoredRows]:
        if filters and not any(matches(one.encode(), span.name.encode()) for one in filters):
            return
        cluster, schema = self._options.cluster_id, arrow_schema(columns)
        for batch in replay_columns(connection, cluster, span.name, span.first, span.end - 1):
            if isinstance(batch, Columns):
                table = columns_record_batch(batch, schema)
            else:  # an older server
                table = stored_record_batch(span.name, batch, columns, batch.replies)
            yield StoredRows(batch.sequences, table, batch.damaged)

    def _advice(self, name: str, error: ClientError) -> str:
        """Say what a channel is, and which streams may be meant, where there is no streaming server."""
        if not isinstance(error, NoRespondersError):
            return ""
        said = "; channels are those of NATS Streaming (STAN)"
        try:
            streams = self._with_connection(lambda connection: JetStream(connection).like(name))
        except ClientError:  # there is no JetStream either
            return said
        if not streams:
            return said
        return f"{said}, option stream reads JetStream: there is a stream {', '.join(streams)}"

    def _is_gone(self, error: ClientError) -> bool:
        return isinstance(error, StreamingRefusedError) and error.code == _NOT_FOUND
