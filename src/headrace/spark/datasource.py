"""The class Spark knows as `format("nats")`: it looks at the options and picks a reader.

No reading here. Core subjects and stored channels have readers of their own, with the same columns, so that
a job changes one option; later kinds are picked here too. Spark pickles this object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
)

from headrace.errors import UnsupportedError
from headrace.spark.channel_reader import ChannelBatchReader, ChannelStreamReader
from headrace.spark.core_reader import CoreStreamReader
from headrace.spark.errors import OptionError
from headrace.spark.log_reader import LogBatchReader
from headrace.spark.options import Edge, for_executors, read_options
from headrace.spark.schema import COLUMNS, check_columns
from headrace.spark.sink import NatsBatchWriter, NatsStreamWriter, batch_writer, stream_writer
from headrace.spark.sink_options import read_sink_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class NatsDataSource(DataSource):
    """NATS subjects and stored channels as DataFrames; see docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "nats"

    def schema(self) -> StructType:
        """The columns; called when the DataFrame is made, so wrong options show there.

        Raises: OptionError, UnsupportedError.
        """
        read_options(self.options)
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """A reader of core subjects or channels. Raises: OptionError, UnsupportedError."""
        options, columns = read_options(self.options), check_columns(schema)
        if options.ending is not None:
            raise OptionError("option endingOffsets is for spark.read: a stream has no end")
        if options.path:
            _refuse("spark.readStream of log files (option path); read the channel from its server")
        if options.channels:
            return ChannelStreamReader(for_executors(options), columns)
        return CoreStreamReader(options, columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of what channels hold. Raises: OptionError, UnsupportedError."""
        options, columns = read_options(self.options), check_columns(schema)
        if not options.channels and not options.path:
            _refuse("spark.read of subjects (they keep nothing to read); use spark.readStream or a channel")
        if options.starting is Edge.LATEST:
            raise OptionError("option startingOffsets: latest would read nothing; say earliest or sequences")
        if options.path:
            return LogBatchReader(for_executors(options) if options.url else options, columns)
        return ChannelBatchReader(for_executors(options), columns)

    def writer(self, schema: StructType, overwrite: bool) -> NatsBatchWriter:
        """A writer of a whole frame. Raises: OptionError, UnsupportedError."""
        return batch_writer(read_sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NatsStreamWriter:  # noqa: N802
        """A writer of micro-batches; `complete` mode publishes the whole result each time.

        Raises: OptionError, UnsupportedError.
        """
        return stream_writer(read_sink_options(self.options), schema)


def _refuse(what: str) -> NoReturn:
    raise UnsupportedError(f'format("nats") of this version does not support {what}')
