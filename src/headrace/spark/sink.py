"""Writing a DataFrame to NATS: what tasks do, and what Spark is given for it.

A task checks its Arrow batches, turns them into messages and publishes them through a `PublishPipeline`.
For a stream written exactly once it first notes where the batch begins, and leaves out what an earlier
attempt has stored. The driver's part is small: what was acknowledged cannot be taken back, so commit and
abort only report.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from headrace.client.blocking import connect
from headrace.client.core_publish import CoreWire
from headrace.client.errors import ClientError, JetStreamError
from headrace.client.jetstream_api import STREAM_NOT_FOUND, JetStreamApi
from headrace.client.jetstream_publish import JetStreamWire
from headrace.client.options import resolve_addresses
from headrace.client.pipeline import OUTAGE, PublishPipeline
from headrace.client.retries import Patience
from headrace.client.streaming_publish import StreamingWire
from headrace.errors import ProtocolError
from headrace.spark.errors import OptionError, RowError, SinkError
from headrace.spark.jetstream_link import JetStreamLink
from headrace.spark.sink_ledger import BatchLedger
from headrace.spark.sink_options import Guarantee, SinkTarget
from headrace.spark.sink_rows import PublishLimits, RowReader, RowsIdentity, check_sink_columns, chosen
from headrace.spark.stored_link import Idle
from headrace.spark.typed_payloads import payloads_of
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from headrace.client.blocking import Connection
    from headrace.client.jetstream_api import StreamFacts
    from headrace.client.pipeline import MessageColumns, PublishCounts, PublishFormat
    from headrace.errors import HeadraceError
    from headrace.spark.sink_ledger import Begun
    from headrace.spark.sink_options import SinkOptions

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"

_log = logging.getLogger("headrace.spark")
_idle: Final = Idle()
"""The waiting connections of this process."""


@dataclass(frozen=True)
class SinkCommit(WriterCommitMessage):
    """The result of one task. `duplicates` were stored before, by an earlier attempt or under the same id."""

    stored: int = 0
    duplicates: int = 0
    resent: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class TaskSurroundings:
    """The world of a task; tests bring their own."""

    open: Callable[[], Connection]
    give_back: Callable[[Connection], object]
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep


def surroundings(options: SinkOptions) -> TaskSurroundings:
    """Real connections, kept in this process between tasks."""
    server = options.server
    key = server.connection_key()
    return TaskSurroundings(
        lambda: _idle.take(key) or connect(server.url, server.connect_options()),
        lambda connection: _idle.give(key, connection),
    )


@dataclass(slots=True)
class _Fence:
    """The stream, and when this attempt was last seen to be the newest."""

    facts: StreamFacts
    checked_at: float


class SinkTask:
    """One attempt of one task."""

    def __init__(self, options: SinkOptions, rows: RowsIdentity, token: str, world: TaskSurroundings) -> None:
        """Prepare one attempt. `token` is the same for all tasks of one run of a query or of one write."""
        self._options = options
        self._rows = rows
        self._token = token
        self._world = world
        self._patience = Patience(options.server.reconnect_timeout, world.clock, world.pause)
        self._seen: set[bytes] = set()
        self._skipped = 0
        self._until: float | None = None
        self._is_first = False
        self._attempt = secrets.token_hex(8)
        self._fence: _Fence | None = None
        self.pipeline: PublishPipeline | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Publish all rows; every one is acknowledged when this returns. Raises: SinkError, RowError."""
        pipeline: PublishPipeline | None = None
        try:
            connection, wire, limits = self._prepare()
            self.pipeline = pipeline = self._pipeline(connection, wire)
            pipeline.start()  # owns the connection from here on, even if no row comes
            reader = RowReader(self._options, self._rows, limits)
            for batch in batches:
                self._check_time()
                self._check_alone()
                pipeline.send(self._unseen(reader.read(batch)))
            counts = pipeline.finish()
            self._check_keys(counts)
            pipeline.close(reuse=self._world.give_back)
        except (ClientError, ProtocolError) as error:
            raise self._failed(error, pipeline) from error
        except RowError as error:
            raise RowError(f"{error}{_already(pipeline)}") from None
        finally:
            if pipeline is not None:
                pipeline.close()
        return SinkCommit(counts.stored, counts.duplicates + self._skipped, counts.resent, reader.dropped)

    def _pipeline(self, connection: Connection, wire: PublishFormat) -> PublishPipeline:
        first = [connection]
        return PublishPipeline(
            lambda: first.pop() if first else self._world.open(),
            wire,
            self._patience,
            window=self._options.max_in_flight,
        )

    def _prepare(self) -> tuple[Connection, PublishFormat, PublishLimits]:
        """A connection, and what is to be known before the first row."""
        while True:
            connection = None
            try:
                connection = self._world.open()
                wire, limits = self._meet(connection)
            except OUTAGE as error:
                if connection is not None:
                    connection.close()
                self._patience.wait(error)
            except BaseException:
                if connection is not None:
                    connection.close()
                raise
            else:
                self._patience.over()
                return connection, wire, limits

    def _meet(self, connection: Connection) -> tuple[PublishFormat, PublishLimits]:
        options, most = self._options, connection.max_payload
        if options.target is SinkTarget.SUBJECT:
            return CoreWire(), PublishLimits(most)
        if options.target is SinkTarget.CHANNEL:
            name = f"headrace-spark-{secrets.token_hex(8)}"
            streaming = StreamingWire(options.server.cluster_id, name)
            return streaming, PublishLimits(most, overhead=streaming.overhead)
        api = JetStreamApi(connection, options.api_prefix)
        facts = self._facts(api)
        exactly = options.guarantee is Guarantee.EXACTLY_ONCE
        if exactly:
            ledger = BatchLedger(api, options.bucket)
            begun = ledger.begin(facts, self._rows, self._token, self._attempt)
            self._fence = _Fence(facts, self._world.clock())
            self._is_first = begun is None
            if begun is not None:
                self._look_back(api, begun)
        wire = JetStreamWire(
            facts,
            prefix=options.api_prefix,
            with_ids=exactly,
            window=options.max_in_flight,
            clock=self._world.clock,
        )
        if facts.max_message >= 0:
            most = min(most, facts.max_message)
        return wire, PublishLimits(most, refusal=lambda subject: _refusal(facts, subject))

    def _facts(self, api: JetStreamApi) -> StreamFacts:
        name = self._options.name or ""
        try:
            facts = api.stream(name)
        except JetStreamError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise SinkError(f"there is no stream {name} at {self._where()}") from error
            raise
        if not facts.acknowledges:
            raise SinkError(f"stream {name} has no_ack set: nothing that is published to it is confirmed")
        if not facts.subjects:
            raise SinkError(f"stream {name} takes no subjects (a mirror, or filled from sources only)")
        return facts

    def _look_back(self, api: JetStreamApi, begun: Begun) -> None:
        """Find what is stored of this batch already. Raises: SinkError if that cannot be told."""
        rows = self._rows
        facts = api.stream(self._options.name or "")
        whole = False
        if facts.keeps_until_limits:
            prefix = b"" if self._options.id_column else rows.batch_prefix
            prefix = rows.task_prefix if self._options.positional_ids else prefix
            self._seen, count = api.stored_ids(
                facts, begun.last_sequence + 1, lambda one: one.startswith(prefix)
            )
            whole = count == max(facts.last_sequence - begun.last_sequence, 0)
        if whole:
            return
        # Something was removed since. Only the server's own memory of ids covers that, while it lasts.
        passed = facts.now_ns - begun.at_ns if facts.now_ns else facts.duplicate_window_ns
        left = (facts.duplicate_window_ns - passed) / 1e9
        self._until = self._world.clock() + left
        self._check_time()

    def _check_keys(self, counts: PublishCounts) -> None:
        """Check that no row of another partition has the keys of one of these. Raises: SinkError."""
        if self._options.key_columns and self._is_first and counts.duplicates and not counts.resent:
            raise SinkError(
                f"option keyColumns: {counts.duplicates} rows of this micro-batch have the same "
                f"{', '.join(self._options.key_columns)} as rows of other partitions, and were taken for them"
            )

    def _check_time(self) -> None:
        if self._until is None or self._world.clock() < self._until:
            return
        rows = self._rows
        raise SinkError(
            f"batch {rows.batch} of {rows.write} was begun before, messages stored since were removed from "
            f"stream {self._options.name}, and its duplicate window is over: which rows are stored already "
            "cannot be told. Set deliveryGuarantee to at-least-once to write the batch again, or make the "
            "stream's duplicate window longer than a restart takes"
        )

    def _check_alone(self) -> None:
        """Check that this is still the newest attempt, often enough for the duplicate window to cover the
        time in which two attempts overlap. Raises: SinkError if it is not.
        """
        fence = self._fence
        if fence is None or (self._world.clock() - fence.checked_at) * 4e9 < fence.facts.duplicate_window_ns:
            return
        patience = Patience(self._options.server.reconnect_timeout, self._world.clock, self._world.pause)
        while True:
            try:
                # The pipeline's own connection is full of acknowledgements.
                connection = self._world.open()
                try:
                    api = JetStreamApi(connection, self._options.api_prefix)
                    ledger = BatchLedger(api, self._options.bucket)
                    holds = ledger.holds(fence.facts, self._rows, self._attempt)
                except BaseException:
                    connection.close()
                    raise
                self._world.give_back(connection)
                break
            except OUTAGE as error:
                patience.wait(error)
        if not holds:
            raise SinkError(
                f"another attempt of partition {self._rows.partition} of batch {self._rows.batch} has begun: "
                "this one ends"
            )
        fence.checked_at = self._world.clock()

    def _unseen(self, columns: MessageColumns) -> MessageColumns:
        if not self._seen or columns.ids is None:
            return columns
        new = [row for row, one in enumerate(columns.ids) if one not in self._seen]
        self._skipped += len(columns) - len(new)
        return columns if len(new) == len(columns) else chosen(columns, new)

    def _where(self) -> str:
        return ", ".join(map(str, resolve_addresses(self._options.server.url)))  # never shows credentials

    def _failed(self, error: HeadraceError, pipeline: PublishPipeline | None) -> SinkError:
        limit = self._options.server.reconnect_timeout
        tried = f" (tried for {limit:g} s, option reconnectTimeout)" if isinstance(error, OUTAGE) else ""
        return SinkError(
            f"cannot write to {self._options.title} at {self._where()}: {error}{tried}{_already(pipeline)}"
        )


def _already(pipeline: PublishPipeline | None) -> str:
    """Return the text about messages that stay stored, whatever Spark does about the failure."""
    if pipeline is None or not pipeline.counts.stored:
        return ""
    return f"; {pipeline.counts.stored} messages of this task are stored already"


def _refusal(facts: StreamFacts, subject: bytes) -> str | None:
    if any(matches(pattern.encode(), subject) for pattern in facts.subjects):
        return None
    return (
        f"{subject.decode(errors='replace')!r} does not belong to stream {facts.name}, whose subjects are "
        f"{', '.join(facts.subjects)}"
    )


@dataclass
class _Writer:
    """The common part of both kinds of writer. Made beside the driver, pickled to the tasks."""

    options: SinkOptions
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    def _write(self, identity: RowsIdentity, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        return SinkTask(self.options, identity, self.token, surroundings(self.options)).run(iterator)

    def _report(self, what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
        done = [one for one in messages if isinstance(one, SinkCommit)]
        dropped = sum(one.dropped for one in done)
        _log.info(
            "%s to %s: %d messages stored, %d there already, %d sent again",
            what,
            self.options.title,
            sum(one.stored for one in done),
            sum(one.duplicates for one in done),
            sum(one.resent for one in done),
        )
        if dropped:
            _log.warning("%s to %s: %d malformed rows were left out", what, self.options.title, dropped)


class NatsBatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of `df.write.format("nats")`."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish one partition. Runs in executors. Raises: SinkError, RowError."""
        return self._write(
            RowsIdentity(self.options.write_id or self.token, 0, _context().partitionId()), iterator
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._report("write", messages)
        self._forget()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._report("failed write", messages)
        self._forget()

    def _forget(self) -> None:
        """Remove the records of a write without a name: no later run can come back to it."""
        options = self.options
        if options.guarantee is not Guarantee.EXACTLY_ONCE or options.write_id is not None:
            return
        world = surroundings(options)
        try:
            connection = world.open()
            try:
                BatchLedger(JetStreamApi(connection, options.api_prefix), options.bucket).forget(self.token)
            except BaseException:
                connection.close()
                raise
            world.give_back(connection)
        except (ClientError, ProtocolError) as error:  # what was written is written
            _log.warning("bucket %s keeps the records of write %s: %s", options.bucket, self.token, error)


class NatsStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of `df.writeStream.format("nats")`."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish one partition of a micro-batch. Runs in executors. Raises: SinkError, RowError."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise SinkError("Spark does not say which query and batch this task belongs to")
        return self._write(RowsIdentity(query, int(batch), context.partitionId()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._report(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._report(f"failed batch {batchId}", messages)


def batch_writer(options: SinkOptions, schema: StructType, *, overwrite: bool) -> NatsBatchWriter:
    """A checked writer. Raises: OptionError."""
    if overwrite:
        raise OptionError(f'{options.title} cannot be overwritten, only appended to: use mode("append")')
    return NatsBatchWriter(_checked(options, schema))


def stream_writer(options: SinkOptions, schema: StructType) -> NatsStreamWriter:
    """A checked writer. Raises: OptionError."""
    if options.write_id is not None:
        raise OptionError("option writeId is for df.write; a streaming query is known by its checkpoint")
    return NatsStreamWriter(_checked(options, schema))


def _checked(options: SinkOptions, schema: StructType) -> SinkOptions:
    """The options, with the schema of the stream where a frame without payloads needs it.

    Raises: OptionError if the frame cannot be written; StoredStreamError.
    """
    if options.target is SinkTarget.STREAM and "data" not in schema.names:
        connecting = replace(options.server.connecting, jetstream_api=options.api_prefix)
        link = JetStreamLink(replace(options.server, connecting=connecting))
        state = link.state(options.name or "")
        metadata = {} if state is None else state.metadata
        filters = (options.subject,) if options.subject else ()
        found = payloads_of({options.name or "": metadata}, filters, is_asked_for=False)
        options = replace(options, payloads=found)
    check_sink_columns(schema, options)
    return options


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SinkError("writing happens in Spark's tasks only")
    return context
