"""The class Spark knows as `format("nats")`: it looks at the options and picks a reader.

No reading here. Core subjects and stored streams have readers of their own, with the same columns, so that
a job changes one option; later kinds are picked here too. Spark pickles this object.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
)

from headrace.bucket.errors import BucketError
from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.errors import UnsupportedError
from headrace.objects.errors import StoreError
from headrace.spark.core_reader import CoreStreamReader
from headrace.spark.errors import OptionError, StoredStreamError
from headrace.spark.log_reader import LogBatchReader, LogStreamReader
from headrace.spark.offsets import STREAM
from headrace.spark.option_bucket import InBucket
from headrace.spark.option_places import Edge, points_to_time
from headrace.spark.options import for_executors, read_options
from headrace.spark.schema import check_columns
from headrace.spark.sink import NatsBatchWriter, NatsStreamWriter, batch_writer, stream_writer
from headrace.spark.sink_options import read_sink_options
from headrace.spark.stored_reader import (
    FilteringBatchReader,
    StoredBatchReader,
    StoredStreamReader,
    described_payloads,
    states_of,
)
from headrace.spark.typed_payloads import payloads_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headrace.spark.options import SourceOptions
    from headrace.spark.typed_payloads import StreamPayloads


class NatsDataSource(DataSource):
    """NATS subjects, STAN channels and JetStream streams as DataFrames; see docs/spark.md."""

    _payloads: StreamPayloads | None = None
    """The schema whose columns the frame was made with; it travels with this object to the planner."""

    @classmethod
    def name(cls) -> str:
        return "nats"

    def schema(self) -> StructType:
        """The columns; called when the DataFrame is made, so wrong options show there.

        Raises: OptionError, UnsupportedError.
        """
        options = self._described(read_options(self.options))
        self._payloads = options.value_format.payloads
        return _columns(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """A reader of core subjects or stored streams. Raises: OptionError, UnsupportedError."""
        options, columns = self._settled(schema)
        if options.ending is not None:
            raise OptionError(
                "options endingOffsets and endingTimestamp are for spark.read: a stream has no end"
            )
        if options.pushdown:
            raise OptionError("option pushdown is for spark.read: Spark has none for streams")
        if options.path:
            return _path_stream(_located(options), columns)
        if options.stored_names:
            return StoredStreamReader(for_executors(options), columns)
        return CoreStreamReader(options, columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of what stored streams hold. Raises: OptionError, UnsupportedError."""
        options, columns = self._settled(schema)
        if not options.stored_names and not options.path:
            _refuse(
                "spark.read of subjects (they keep nothing to read); use spark.readStream, or read a stream "
                "that takes them"
            )
        if options.starting is Edge.LATEST:
            raise OptionError("option startingOffsets: latest would read nothing; say earliest or sequences")
        if options.path:
            return _path_reader(_located(for_executors(options) if options.url else options), columns)
        kind = FilteringBatchReader if options.pushdown else StoredBatchReader
        return kind(for_executors(options), columns)

    def _settled(self, schema: StructType) -> tuple[SourceOptions, StructType]:
        """The options with the stream's schema where columns of it are wanted, and the wanted columns."""
        options = read_options(self.options)
        if self._payloads is not None:
            options = _with_payloads(options, self._payloads)
        elif not set(schema.names) <= set(_columns(options).names):
            options = self._described(options)
        return options, check_columns(schema, _columns(options))

    def _described(self, options: SourceOptions) -> SourceOptions:
        """The options with the schema that the stream's metadata give, unless another format is asked for.

        Raises: OptionError, StoredStreamError.
        """
        is_asked_for = options.value_format.name == "schema"
        is_free = "valueformat" not in map(str.lower, self.options)
        if not (is_asked_for or is_free):
            return options
        if options.path:
            return _with_payloads(options, _payloads_of_path(_located(options), is_asked_for=is_asked_for))
        if options.streams:
            found = described_payloads(for_executors(options), is_asked_for=is_asked_for)
            return _with_payloads(options, found)
        return options

    def writer(self, schema: StructType, overwrite: bool) -> NatsBatchWriter:
        """A writer of a whole frame. Raises: OptionError, UnsupportedError."""
        return batch_writer(read_sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NatsStreamWriter:  # noqa: N802
        """A writer of micro-batches; `complete` mode publishes the whole result each time.

        Raises: OptionError, UnsupportedError.
        """
        return stream_writer(read_sink_options(self.options), schema)


def _located(options: SourceOptions) -> SourceOptions:
    """The options with the URL of the bucket where their path is one of streams or channels.

    Without `stream` and `channel` all streams of the account are read.

    It costs one request. Raises: OptionError, StoredStreamError.
    """
    from headrace.bucket_streams import bucket_at  # other queries have no use for it

    assert options.path is not None
    try:
        found = bucket_at(options.path)
    except (BucketError, StoreError, UnsupportedError) as error:
        raise StoredStreamError(f"cannot read {options.path}: {error}") from error
    if found is None:
        return options
    if options.log_path is not None:
        raise OptionError(f"option logPath does not go with {options.path}, a bucket of streams")
    if not options.channels:
        return replace(options, path=found.url, streams=options.streams or ("*",), is_of_bucket=True)
    given = {"account": options.in_bucket.account != GLOBAL_ACCOUNT, "filterSubjects": bool(options.filters)}
    for name, is_given in given.items():
        if is_given:
            raise OptionError(f"option {name} is for streams: say clusterId for channels, and their names")
    return replace(options, path=found.url, is_of_bucket=True)


def _check_bucket_only(options: SourceOptions) -> None:
    """Raise OptionError for options of buckets with another path."""
    given = {"filterSubjects": bool(options.filters), "account, keyFile": options.in_bucket != InBucket()}
    for name, is_given in given.items():
        if is_given:
            raise OptionError(
                f"option {name} with option path is for buckets of streams, and {options.path} is none"
            )


def _path_stream(options: SourceOptions, columns: StructType) -> DataSourceStreamReader:
    """A stream of channels that reads from files what it can. Raises: OptionError, UnsupportedError."""
    from headrace.spark.table_reader import holds_tables

    assert options.path is not None
    if options.is_of_bucket:
        from headrace.spark.bucket_reader import BucketStreamReader

        return BucketStreamReader(for_executors(options) if options.url else options, columns)
    _check_bucket_only(options)
    if holds_tables(options.path):
        _refuse("spark.readStream of tables (option path); read the channel from its server")
    if not options.url or not options.channels:
        raise OptionError(
            "spark.readStream with option path needs options url and channel too: only the server of a store "
            "knows what of it is durable"
        )
    return LogStreamReader(for_executors(options), columns)


def _path_reader(options: SourceOptions, columns: StructType) -> DataSourceReader:
    """A reader of the tables or logs in a directory. Raises: OptionError."""
    from headrace.spark.table_reader import FilteringTableReader, TableBatchReader, holds_tables

    assert options.path is not None
    if options.is_of_bucket:
        from headrace.spark.bucket_reader import BucketBatchReader, FilteringBucketReader

        return (FilteringBucketReader if options.pushdown else BucketBatchReader)(options, columns)
    _check_bucket_only(options)
    if options.streams and (options.log_path is not None or not holds_tables(options.path)):
        raise OptionError(
            "option stream with option path is for tables, with what is behind them from option url: logs of "
            "streams are read through their server"
        )
    if holds_tables(options.path):
        return (
            FilteringTableReader(options, columns) if options.pushdown else TableBatchReader(options, columns)
        )
    only = {
        "pushdown": options.pushdown,
        "logPath": options.log_path is not None,
        "startingTimestamp": points_to_time(options.starting),
        "endingTimestamp": points_to_time(options.ending),
    }
    for name, is_given in only.items():
        if is_given:
            raise OptionError(
                f"option {name} is for paths of tables, and there is no table in {options.path}"
            )
    return LogBatchReader(options, columns)


def _payloads_of_path(options: SourceOptions, *, is_asked_for: bool) -> StreamPayloads | None:
    """The schema of the tables in a place. Raises: OptionError, StoredStreamError."""
    from headrace.spark.table_reader import described_tables, holds_tables

    assert options.path is not None
    if options.is_of_bucket:
        from headrace.spark.bucket_link import BucketLink

        if options.channels:
            if is_asked_for:
                raise OptionError(
                    "option valueFormat schema is for streams and tables: channels say no schema"
                )
            return None
        states = states_of(BucketLink(options), STREAM, options.streams)
        metadata = {name: state.metadata for name, state in states.items() if state is not None}
        return payloads_of(metadata, options.filters, is_asked_for=is_asked_for)
    if holds_tables(options.path):
        return described_tables(options, is_asked_for=is_asked_for)
    if is_asked_for:
        raise OptionError("option valueFormat schema is for streams and tables: logs say no schema")
    return None


def _with_payloads(options: SourceOptions, payloads: StreamPayloads | None) -> SourceOptions:
    return replace(options, value_format=replace(options.value_format, payloads=payloads))


def _columns(options: SourceOptions) -> StructType:
    return options.value_format.columns(headers=options.include_headers)


def _refuse(what: str) -> NoReturn:
    raise UnsupportedError(f'format("nats") of this version does not support {what}')
