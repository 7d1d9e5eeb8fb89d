"""The class Spark knows as `format("nats")`: it looks at the options and picks a reader.

No reading here. This version has one reader, for core subjects; a reader for streams of later versions is
picked here, with the same columns, so that a job changes one option. Spark pickles this object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

from headrace.errors import UnsupportedError
from headrace.spark.core_reader import CoreStreamReader
from headrace.spark.options import read_options
from headrace.spark.schema import COLUMNS, check_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class NatsDataSource(DataSource):
    """NATS subjects as a streaming DataFrame; see docs/spark.md."""

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
        """A reader of core subjects. Raises: OptionError, UnsupportedError."""
        return CoreStreamReader(read_options(self.options), check_columns(schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        _refuse("spark.read (core subjects keep nothing to read); use spark.readStream")

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        _refuse("writing; publish from foreachBatch with headrace.client.blocking")

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        _refuse("writing; publish from foreachBatch with headrace.client.blocking")


def _refuse(what: str) -> NoReturn:
    raise UnsupportedError(f'format("nats") of this version does not support {what}')
