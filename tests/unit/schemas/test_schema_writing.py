"""Rows back to payloads: what a reader makes of a payload, a writer makes into one that means the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from schema_samples import reader_of, schema_text

from headrace.schemas.errors import Misfit
from headrace.schemas.payloads import payload_writer

if TYPE_CHECKING:
    from types import ModuleType

pa: ModuleType = pytest.importorskip("pyarrow")

from headrace.schemas.arrow import arrow_type  # noqa: E402

ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["id", "comment"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "comment": {"type": ["string", "null"]},
        "amount": {"type": "number"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "any": {"oneOf": [{"type": "string"}, {"type": "array"}]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}


def through_arrow(value: Any, schema: Any, kind: str, **more: Any) -> Any:
    """A value as a column of its type gives it."""
    return pa.array([value], arrow_type(reader_of(schema, kind, **more).type)).to_pylist()[0]


def written(value: Any, schema: Any, kind: str = "json", **more: Any) -> bytes:
    return payload_writer(schema_text(schema, kind, **more)).write(value)


def test_json_is_written_as_it_was() -> None:
    pytest.importorskip("fastjsonschema")
    payload = {
        "id": 1,
        "comment": None,
        "amount": 1.5,
        "day": "2026-01-31",
        "at": "2026-01-31T10:00:00.500000Z",
        "any": ["x", 1],
        "lines": [{"n": 1}, {}],
        "counts": {"a": 1},
    }
    value = through_arrow(reader_of(ORDER).read(json.dumps(payload).encode()), ORDER, "json")
    assert json.loads(written(value, ORDER)) == payload


def test_a_null_is_left_out_unless_it_is_required() -> None:
    pytest.importorskip("fastjsonschema")
    nothing = dict.fromkeys(ORDER["properties"])
    assert json.loads(written({**nothing, "id": 1}, ORDER)) == {"id": 1, "comment": None}
    with pytest.raises(Misfit, match=r"data\.id must be integer"):
        written(nothing, ORDER)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("id", 0, "data.id must be bigger"),
        ("amount", float("nan"), "amount: not a number that JSON has"),
        ("any", "{", "any: not JSON"),
        ("any", "1", "data.any must be valid"),
    ],
)
def test_a_row_that_is_not_of_the_schema_is_refused(field: str, value: Any, reason: str) -> None:
    pytest.importorskip("fastjsonschema")
    with pytest.raises(Misfit) as refused:
        written({**dict.fromkeys(ORDER["properties"]), "id": 1, field: value}, ORDER)
    assert reason in str(refused.value)


def test_a_value_that_is_no_structure_is_written() -> None:
    pytest.importorskip("fastjsonschema")
    assert written(5, {"type": "integer"}) == b"5"


def test_avro_is_written_as_a_single_object() -> None:
    pytest.importorskip("fastavro")
    from test_schema_avro import EVERYTHING, everything

    reader = reader_of(EVERYTHING, "avro")
    row = through_arrow(reader.read(everything()), EVERYTHING, "avro")
    payload = written(row, EVERYTHING, "avro")
    assert payload[:2] == b"\xc3\x01"
    assert payload[10:] == everything()
    assert reader.read(payload) == reader.read(everything())


@pytest.mark.parametrize(
    ("field", "value"),
    [("kind", "LOST"), ("key", b"12345"), ("either", "{"), ("at", None)],
)
def test_a_row_that_is_not_of_the_avro_schema_is_refused(field: str, value: Any) -> None:
    pytest.importorskip("fastavro")
    from test_schema_avro import EVERYTHING, everything

    row = through_arrow(reader_of(EVERYTHING, "avro").read(everything()), EVERYTHING, "avro")
    with pytest.raises(Misfit):
        written({**row, field: value}, EVERYTHING, "avro")


def test_protobuf_is_written_as_it_was() -> None:
    pytest.importorskip("google.protobuf")
    from test_schema_protobuf import file_set
    from test_schema_protobuf import written as message

    schema, more = file_set().SerializeToString(), {"message": "shop.Order"}
    payload = message(
        id=-1,
        large=2**64 - 1,
        key=b"k",
        kind=1,
        at={"seconds": -1, "nanos": 1000},
        line={"item": "z"},
        lines=[{"item": "a"}, {}],
        tags=["x"],
        counts={"a": 1},
    )
    reader = reader_of(schema, "protobuf", **more)
    row = through_arrow(reader.read(payload), schema, "protobuf", **more)
    assert written(row, schema, "protobuf", **more) == payload
    empty = written(dict.fromkeys(row), schema, "protobuf", **more)
    assert empty == b""
    for field, value in (("kind", "LOST"), ("lines", [None]), ("id", 2**70), ("large", -1)):
        with pytest.raises(Misfit):
            written({**row, field: value}, schema, "protobuf", **more)
    assert reader.read(written({**row, "kind": "7"}, schema, "protobuf", **more))["kind"] == "7"
