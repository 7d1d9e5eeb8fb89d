"""The columns of a table's files: those of every message, and the fields of payloads that have a schema.

A file has the columns that its table had when it was written; a file that is written anew gets those of the
table now, from the payloads, which are in each file as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.schemas.arrow import CORRUPT, arrow_type, column_values, described, table_columns
from headrace.schemas.errors import SchemaError
from headrace.schemas.metadata import read_schemas
from headrace.schemas.payloads import payload_reader
from headrace.tables.columns import layout_of
from headrace.tables.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.schemas.metadata import SubjectSchema
    from headrace.tables.manifest import TableManifest


class PayloadColumns:
    """Adds the columns of a table's schema of payloads to its rows; without such a schema nothing.

    `schema`: of the rows that it makes.
    """

    def __init__(self, table: TableManifest) -> None:
        """Make the reader of payloads. Raises: TableError for a schema that cannot be used."""
        self._payloads = payloads = table.payloads
        self.schema: pa.Schema = layout_of(table).schema
        if payloads is None:
            return
        try:
            self._reader = payload_reader(payloads.schema)
        except SchemaError as error:
            raise TableError(f"the schema of payloads cannot be used: {error}") from error
        columns = table_columns(self._reader.type, self.schema.names)
        self._columns = [(one, arrow_type(one.type)) for one in columns]
        fields = [pa.field(one.name, kind) for one, kind in self._columns]
        self.schema = pa.schema([*self.schema, *fields, pa.field(CORRUPT, pa.binary())])

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch in the table's layout, with the columns of their payloads."""
        if self._payloads is None:
            return batch
        payloads = batch.column("data").to_pylist()
        of = described(self._payloads.filter, batch.column("subject"), payloads)
        values = column_values(self._reader, self._columns, of)
        arrays = [*batch.columns, *(values.columns[one.name] for one, _ in self._columns), values.corrupt]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def payloads_in(metadata: Mapping[str, str]) -> SubjectSchema | None:
    """The schema of a stream's payloads; None if its metadata have none, or several for its subjects.

    Raises: TableError for metadata that mean nothing.
    """
    try:
        schemas = read_schemas(metadata).schemas
    except SchemaError as error:
        raise TableError(f"the metadata of the stream: {error}") from error
    return schemas[0] if len(schemas) == 1 else None
