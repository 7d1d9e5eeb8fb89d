"""The schemas of a stream, in its metadata: which keys there are, and what they mean.

    headrace.schema            the schema: JSON Schema, Avro, or a FileDescriptorSet in base64
    headrace.schema.type       json, avro or protobuf
    headrace.schema.message    of protobuf, the message
    headrace.schema.earlier    the schemas before it, newest first, as a JSON list (not of protobuf)
    headrace.schema.check      true: the server refuses what does not fit

The first four are there once more for some subjects of the stream, with `@` and a filter behind them, such as
`headrace.schema@orders.eu.>`; filters do not overlap, and the keys without one are for all other subjects.
Metadata are kept by every NATS server, and shown by `STREAM.INFO`: nobody needs to ask anything else.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from msgspec import Struct, json

from headrace.schemas.errors import SchemaError
from headrace.schemas.json_schema import parse_json
from headrace.subjects.grammar import is_valid_subject, overlaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SCHEMA: Final = "headrace.schema"
TYPE: Final = SCHEMA + ".type"
MESSAGE: Final = SCHEMA + ".message"
EARLIER: Final = SCHEMA + ".earlier"
CHECK: Final = SCHEMA + ".check"

TYPES: Final = ("json", "avro", "protobuf")
MOST_EARLIER: Final = 64
"""Earlier schemas of a schema."""
_KEYS: Final = (SCHEMA, TYPE, MESSAGE, EARLIER)


class SchemaText(Struct, frozen=True):
    """A schema as it is written down. `earlier`: those before it, newest first."""

    type: str
    text: str
    message: str = ""
    earlier: tuple[str, ...] = ()


class SubjectSchema(Struct, frozen=True):
    """The schema of some subjects of a stream. `filter`: with wildcards; empty for all other subjects."""

    filter: str
    schema: SchemaText


class StreamSchemas(Struct, frozen=True):
    """The schemas of a stream, those with a filter first. `check`: payloads that do not fit are refused."""

    schemas: tuple[SubjectSchema, ...] = ()
    check: bool = False


def is_schema_key(key: str) -> bool:
    """True if an entry of the metadata is about schemas."""
    return key == SCHEMA or key.startswith((SCHEMA + ".", SCHEMA + "@"))


def read_schemas(metadata: Mapping[str, str]) -> StreamSchemas:
    """The schemas that a stream's metadata have; nothing of them is compiled. Raises: SchemaError."""
    found: dict[str, dict[str, str]] = {}
    check = "false"
    for key, value in metadata.items():
        if not is_schema_key(key):
            continue
        if key == CHECK:
            check = value
            continue
        name, at, subjects = key.partition("@")
        if name not in _KEYS:
            raise SchemaError(f"{key}: unknown")
        if at and not is_valid_subject(subjects.encode()):
            raise SchemaError(f"{key}: {subjects!r} is not a subject")
        found.setdefault(subjects, {})[name] = value
    if check not in ("true", "false"):
        raise SchemaError(f"{CHECK}: true or false is needed")
    _check_overlaps([subjects for subjects in found if subjects])
    schemas = [SubjectSchema(subjects, _schema(subjects, found[subjects])) for subjects in found]
    schemas.sort(key=lambda one: not one.filter)
    if check == "true" and not schemas:
        raise SchemaError(f"{CHECK}: there is no {SCHEMA}")
    return StreamSchemas(tuple(schemas), check == "true")


def _check_overlaps(filters: Sequence[str]) -> None:
    for number, one in enumerate(filters):
        for other in filters[:number]:
            if overlaps(one.encode(), other.encode()):
                raise SchemaError(f"{SCHEMA}@{one} overlaps with {SCHEMA}@{other}")


def _schema(subjects: str, given: Mapping[str, str]) -> SchemaText:
    at = f"@{subjects}" if subjects else ""
    for key in (SCHEMA, TYPE):
        if key not in given:
            raise SchemaError(f"{key}{at} is missing")
    kind, message = given[TYPE], given.get(MESSAGE, "")
    if kind not in TYPES:
        raise SchemaError(f"{TYPE}{at}: {kind!r} is not one of {', '.join(TYPES)}")
    if (kind == "protobuf") != bool(message):
        raise SchemaError(f"{MESSAGE}{at} goes with type protobuf, and it needs one")
    if kind == "protobuf" and EARLIER in given:
        raise SchemaError(f"{EARLIER}{at}: protobuf needs none, its fields have numbers")
    try:
        earlier = _earlier(given.get(EARLIER, "[]"))
    except SchemaError as error:
        raise SchemaError(f"{EARLIER}{at}: {error}") from error
    return SchemaText(kind, given[SCHEMA], message, earlier)


def _earlier(text: str) -> tuple[str, ...]:
    """The earlier schemas; each is a schema, or its text."""
    listed = parse_json(text)
    if type(listed) is not list or len(listed) > MOST_EARLIER:
        raise SchemaError(f"not a JSON list of at most {MOST_EARLIER} schemas")
    return tuple(as_text(one) for one in listed)


def metadata(
    schema: object,
    kind: str = "json",
    *,
    message: str = "",
    earlier: Iterable[object] = (),
    subjects: str = "",
    check: bool = False,
) -> dict[str, str]:
    """Return the entries of a stream's metadata that give it a schema.

        StreamConfig(name="ORDERS", subjects=["orders.>"], metadata=metadata(order_schema, check=True))

    `schema`: a document as Python has it, or as text; of protobuf the bytes of a FileDescriptorSet. `kind`:
    json, avro or protobuf. `subjects`: a filter, if it is the schema of some subjects. Raises: SchemaError.
    """
    at = f"@{subjects}" if subjects else ""
    made = {SCHEMA + at: as_text(schema), TYPE + at: kind}
    if message:
        made[MESSAGE + at] = message
    before = [as_text(one) for one in earlier]
    if before:
        made[EARLIER + at] = json.encode(before).decode()
    if check:
        made[CHECK] = "true"
    read_schemas(made)
    return made


def entries_of(one: SubjectSchema) -> dict[str, str]:
    """Return the entries of a stream's metadata that say a schema."""
    schema = one.schema
    return metadata(
        schema.text, schema.type, message=schema.message, earlier=schema.earlier, subjects=one.filter
    )


def as_text(schema: object) -> str:
    """Return a schema as text: JSON of a document, base64 of bytes."""
    if isinstance(schema, bytes):
        return base64.b64encode(schema).decode()
    return schema if isinstance(schema, str) else json.encode(schema).decode()
