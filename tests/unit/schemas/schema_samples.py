"""Schemas and readers that tests of several modules use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.schemas.metadata import SchemaText, metadata, read_schemas
from headrace.schemas.payloads import payload_reader

if TYPE_CHECKING:
    from headrace.schemas.payloads import PayloadReader

ORDER: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "amount": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
"""A JSON Schema."""


def schema_text(schema: object, kind: str = "json", **more: Any) -> SchemaText:
    """A schema as the metadata say it."""
    (found,) = read_schemas(metadata(schema, kind, **more)).schemas
    return found.schema


def reader_of(schema: object, kind: str = "json", **more: Any) -> PayloadReader:
    return payload_reader(schema_text(schema, kind, **more))
