"""JSON Schema: its columns, what fits, and schemas that are refused before any code is made of them."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_samples import ORDER, reader_of

from headrace.schemas.column_types import (
    BOOLEAN,
    DATE,
    DEEPEST,
    DOUBLE,
    LONG,
    MOST_TYPES,
    STRING,
    TIMESTAMP,
    ColumnType,
    array_of,
    map_of,
)
from headrace.schemas.errors import Misfit, SchemaError

pytest.importorskip("fastjsonschema")


def type_of(schema: Any) -> ColumnType:
    """The type of a property with this schema."""
    (column,) = reader_of({"type": "object", "properties": {"p": schema}}).type.fields
    return column.type


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, LONG),
        ({"type": "number"}, DOUBLE),
        ({"type": "boolean"}, BOOLEAN),
        ({"type": "string"}, STRING),
        ({"type": ["string", "null"]}, STRING),
        ({"type": ["integer", "number"]}, DOUBLE),
        ({"type": "string", "format": "date"}, DATE),
        ({"type": "string", "format": "date-time"}, TIMESTAMP),
        ({"type": "string", "format": "email"}, STRING),
        ({"enum": ["a", "b", None]}, STRING),
        ({"enum": [1, 2.5]}, DOUBLE),
        ({"const": 1}, LONG),
        ({"type": "array", "items": {"type": "integer"}}, array_of(LONG)),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, map_of(LONG)),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, LONG),
        ({"oneOf": [{"type": "null"}, {"allOf": [{"type": "integer"}]}]}, LONG),
    ],
)
def test_a_type_has_its_column(schema: Any, kind: ColumnType) -> None:
    assert type_of(schema) == kind


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": ["string", "integer"]},
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "array"},
        {"type": "array", "items": [{"type": "string"}]},
        {"type": "object"},
        {"enum": [{"a": 1}]},
    ],
)
def test_what_has_no_one_type_is_its_json(schema: Any) -> None:
    assert type_of(schema) == STRING
    read = reader_of({"type": "object", "properties": {"p": schema}}).read
    for value in ("x", 1, ["x"], {"a": 1}):
        try:
            row = read(json.dumps({"p": value}).encode())
        except Misfit:
            continue
        assert json.loads(row["p"]) == value
        return
    pytest.fail("no value fits")


def test_a_payload_becomes_values() -> None:
    schema = {
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "to": {"$ref": "#/$defs/address"},
            "more": {"type": "object", "additionalProperties": {"type": "number"}},
            "absent": {"type": "string"},
        },
        "$defs": {"address": {"type": "object", "properties": {"zip~/": {"type": "string"}}}},
    }
    payload = {"id": 1.0, "at": "2026-01-31T01:00:00.1234569+01:00", "day": "2026-01-31", "x": 1}
    row = reader_of(schema).read(json.dumps(payload | {"to": {"zip~/": "1"}, "more": {"a": 1}}).encode())
    assert row == {
        "id": 1,
        "at": datetime(2026, 1, 31, 0, 0, 0, 123456, UTC),
        "day": date(2026, 1, 31),
        "to": {"zip~/": "1"},
        "more": [("a", 1.0)],
        "absent": None,
    }


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not JSON"),
        (b'{"id": 1', "not JSON"),
        (b'{"id": NaN}', "not JSON"),
        (b'{"id": "\xff"}', "not JSON"),
        (b'{"tags": ' + b"[" * 100_000, "not JSON"),
        (b"[]", "must be object"),
        (b"{}", "must contain"),
        (b'{"id": 0}', "data.id must be bigger than or equal to 1"),
        (b'{"id": true}', "data.id must be integer"),
        (b'{"id": 9223372036854775808}', "id: not a whole number of 64 bits"),
        (b'{"id": 1, "amount": 1' + b"0" * 400 + b"}", "amount: a number too large"),
        (b'{"id": 1, "tags": ["a", 1]}', "data.tags[1] must be string"),
    ],
)
def test_what_does_not_fit_says_why(payload: bytes, reason: str) -> None:
    with pytest.raises(Misfit) as refused:
        reader_of(ORDER).read(payload)
    assert reason in str(refused.value)


@pytest.mark.parametrize("text", ["2026-1-31", "20260131", "2026-W01-1", "2026-02-30", ""])
def test_a_date_is_a_date(text: str) -> None:
    with pytest.raises(Misfit, match="p: not a date"):
        reader_of({"properties": {"p": {"type": "string", "format": "date"}}}).read(
            json.dumps({"p": text}).encode()
        )


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31",
        "2026-01-31T00:00:00",
        "2026-01-31T25:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "2026-01-31T00Z",
    ],
)
def test_a_date_time_is_a_time(text: str) -> None:
    with pytest.raises(Misfit, match="p: not a date-time"):
        reader_of({"properties": {"p": {"type": "string", "format": "date-time"}}}).read(
            json.dumps({"p": text}).encode()
        )


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "3 is not a schema"),
        ({"type": "text"}, 'type "text" is not one of'),
        ({"type": {}}, "is not one of"),
        ({"properties": []}, "properties is not an object"),
        ({"properties": {"a": 1}}, "1 is not a schema"),
        ({"required": "a"}, "required is not a list"),
        ({"required": [1]}, "not supported as a name"),
        ({"required": ["a", "a"]}, "unique"),
        ({"allOf": []}, "allOf is not a list"),
        ({"minimum": "1"}, "minimum is not a number"),
        ({"minimum": True}, "minimum is not a number"),
        ({"multipleOf": 0}, "multipleOf is not above 0"),
        ({"minLength": 1.5}, "minLength is not a whole number"),
        ({"maxItems": -1}, "maxItems is not a whole number"),
        ({"uniqueItems": "yes"}, "uniqueItems is neither true nor false"),
        ({"enum": 1}, "enum is not a list"),
        ({"pattern": "("}, "is not a regular expression"),
        ({"pattern": 1}, "is not a regular expression"),
        ({"patternProperties": {"[": {}}}, "is not a regular expression"),
        ({"prefixItems": [{}]}, "keyword prefixItems is not supported"),
        ({"$dynamicRef": "#a"}, "keyword $dynamicRef is not supported"),
        ({"$ref": "http://127.0.0.1:1/a.json"}, "does not point into the schema"),
        ({"$ref": "file:///etc/passwd"}, "does not point into the schema"),
        ({"$ref": "#anchor"}, "does not point into the schema"),
        ({"$ref": 1}, "does not point into the schema"),
        ({"$ref": "#/$defs/a"}, "points to nothing"),
        ({"$ref": "#"}, "recursion is not supported"),
        ({"properties": {"a": {"$ref": "#"}}}, "recursion is not supported"),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}},
            },
            "recursion is not supported",
        ),
        ({"properties": {"p": {"type": "integer", "default": "x"}}}, "the default of p: not a whole number"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, text: str) -> None:
    with pytest.raises(SchemaError) as refused:
        reader_of(schema)
    assert text in str(refused.value)


def test_a_schema_does_not_grow_beyond_its_limit() -> None:
    """Each definition has the next one twice: 2 ** 12 of them would be checked."""
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(12)}
    with pytest.raises(SchemaError, match=f"more than {MOST_TYPES} types"):
        reader_of({"$ref": "#/$defs/d0", "$defs": doubled | {"d12": {}}})


@pytest.mark.parametrize("keyword", ["items", "not"])
def test_a_schema_is_not_deeper_than_its_limit(keyword: str) -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(DEEPEST + 1):
        deep = {keyword: deep}
    with pytest.raises(SchemaError, match="levels"):
        reader_of(deep)
    with pytest.raises(SchemaError, match="more levels of lists and alternatives than can be checked"):
        reader_of({"anyOf": [deep["not"]["not"]]} if keyword == "not" else {"items": deep["items"]["items"]})


PIECES = st.sampled_from(
    (
        *(
            '"',
            "'",
            "\\",
            "{",
            "}",
            "{0.__class__}",
            "{data}",
            "\n",
            "\r",
            "\x00",
            "#",
            "]",
            ")",
            "a",
            "é",
            " ",
        ),
        *('"]; raise SystemExit #', "']; raise SystemExit #", '\\"]; raise SystemExit #', "\u2028", "$", ":"),
    )
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)


@given(TEXTS, TEXTS, st.sampled_from(["properties", "dependencies", "enum", "const", "patternProperties"]))
def test_no_text_of_a_schema_becomes_code(first: str, second: str, keyword: str) -> None:
    schema: dict[str, Any] = {
        "properties": {first: {"properties": {second: {"type": "integer", "title": first}}}, second: True},
        "dependencies": {first: [second]},
        "enum": [first, {second: first}, 1, [second]],
        "const": {first: second},
        "patternProperties": {first: {"required": [second]}},
    }
    try:
        reader = reader_of(
            {keyword: schema[keyword], "description": first, "$comment": second, first: second}
        )
    except SchemaError:
        return
    for value in ({first: {second: "x"}, second: 1}, first, {second: first}):
        try:
            reader.read(json.dumps(value).encode())
        except Misfit:
            continue


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), st.lists))
def test_any_json_fits_or_does_not(value: Any) -> None:
    schema = {
        "properties": {"p": {"type": "integer", "multipleOf": 0.01}},
        "items": {"type": "number", "multipleOf": 3},
        "uniqueItems": True,
    }
    with suppress(Misfit):
        reader_of(schema).read(json.dumps(value).encode())


# -- evolution


def test_a_payload_of_an_earlier_schema_takes_defaults() -> None:
    newer = {
        "type": "object",
        "required": ["id", "currency"],
        "properties": {
            "id": {"type": "number"},
            "currency": {"type": "string", "default": "EUR"},
            "note": {"type": "string"},
        },
    }
    read = reader_of(newer, earlier=[ORDER]).read
    assert read(b'{"id": 7, "amount": 1}') == {"id": 7.0, "currency": "EUR", "note": None}
    assert read(b'{"id": 7, "currency": "USD"}') == {"id": 7.0, "currency": "USD", "note": None}


def test_a_field_without_a_default_is_missed() -> None:
    newer = {"type": "object", "required": ["note"], "properties": {"note": {"type": "string"}}}
    with pytest.raises(Misfit, match="note is missing, and has no default"):
        reader_of(newer, earlier=[ORDER]).read(b'{"id": 7}')


def test_a_type_that_became_another_does_not_fit() -> None:
    newer = {"type": "object", "properties": {"id": {"type": "string"}}}
    with pytest.raises(Misfit, match="id: not a string"):
        reader_of(newer, earlier=[ORDER]).read(b'{"id": 7}')


def test_regular_expressions_are_known() -> None:
    assert reader_of(ORDER).is_bounded
    assert not reader_of({"pattern": "^a"}).is_bounded
    assert not reader_of({"properties": {"a": {"patternProperties": {"^a": {}}}}}).is_bounded
    assert not reader_of(ORDER, earlier=[{"pattern": "^a"}]).is_bounded
    with pytest.raises(Misfit):
        reader_of({"type": "string", "pattern": "^a"}).read(b'"b"')
