"""Which entries of a stream's metadata say what its payloads are."""

from __future__ import annotations

import pytest
from schema_samples import ORDER

from headrace.schemas.errors import SchemaError
from headrace.schemas.metadata import MOST_EARLIER, SchemaText, metadata, read_schemas


def test_a_stream_without_entries_has_no_schema() -> None:
    found = read_schemas({"team": "a", "headrace.require_msg_id": "true", "headrace.schemas": "x"})
    assert (found.schemas, found.check) == ((), False)


def test_what_is_made_is_read() -> None:
    made = metadata({"type": "object"}, earlier=[{"type": "string"}, '{"type": "null"}'], check=True)
    assert made == {
        "headrace.schema": '{"type":"object"}',
        "headrace.schema.type": "json",
        "headrace.schema.earlier": r'["{\"type\":\"string\"}","{\"type\": \"null\"}"]',
        "headrace.schema.check": "true",
    }
    found = read_schemas(made)
    earlier = ('{"type":"string"}', '{"type": "null"}')
    assert found.schemas[0].schema == SchemaText("json", '{"type":"object"}', "", earlier)
    assert found.check


def test_earlier_schemas_may_be_documents() -> None:
    entries = metadata("{}") | {"headrace.schema.earlier": '[{"type": "string"}]'}
    assert read_schemas(entries).schemas[0].schema.earlier == ('{"type":"string"}',)


def test_bytes_are_written_in_base64() -> None:
    made = metadata(b"\x0a\x00", "protobuf", message="shop.Order")
    assert (made["headrace.schema"], made["headrace.schema.message"]) == ("CgA=", "shop.Order")


def test_schemas_with_a_filter_come_before_the_one_for_all_others() -> None:
    entries = (
        metadata(ORDER) | metadata("{}", subjects="orders.eu.*") | metadata("{}", subjects="orders.us.>")
    )
    assert [one.filter for one in read_schemas(entries).schemas] == ["orders.eu.*", "orders.us.>", ""]


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"headrace.schema": "{}"}, "headrace.schema.type is missing"),
        ({"headrace.schema.type": "json"}, "headrace.schema is missing"),
        ({"headrace.schema@a.*": "{}"}, "headrace.schema.type@a.* is missing"),
        (
            {"headrace.schema": "{}", "headrace.schema.type": "xml"},
            "'xml' is not one of json, avro, protobuf",
        ),
        ({"headrace.schema.typ": "json"}, "headrace.schema.typ: unknown"),
        ({"headrace.schema.typ@a": "json"}, "headrace.schema.typ@a: unknown"),
        ({"headrace.schema.check@a": "true"}, "headrace.schema.check@a: unknown"),
        ({"headrace.schema@": "{}"}, "'' is not a subject"),
        ({"headrace.schema@a..b": "{}"}, "'a..b' is not a subject"),
        ({"headrace.schema.check": "true"}, "there is no headrace.schema"),
        (metadata("{}") | {"headrace.schema.check": "yes"}, "true or false is needed"),
        (metadata("{}") | {"headrace.schema.message": "a.B"}, "goes with type protobuf"),
        ({"headrace.schema": "", "headrace.schema.type": "protobuf"}, "goes with type protobuf"),
        (metadata(b"", "protobuf", message="B") | {"headrace.schema.earlier": "[]"}, "protobuf needs none"),
        (metadata("{}") | {"headrace.schema.earlier": "{}"}, "not a JSON list"),
        (metadata("{}") | {"headrace.schema.earlier": "["}, "headrace.schema.earlier: not JSON"),
        (metadata("{}") | {"headrace.schema.earlier": str([1] * (MOST_EARLIER + 1))}, "at most 64"),
        (
            metadata("{}", subjects="a.*") | metadata("{}", subjects="*.b"),
            "headrace.schema@*.b overlaps with headrace.schema@a.*",
        ),
    ],
)
def test_entries_that_mean_nothing_are_refused(entries: dict[str, str], text: str) -> None:
    with pytest.raises(SchemaError) as refused:
        read_schemas(entries)
    assert text in str(refused.value)


def test_nothing_is_made_that_would_be_refused() -> None:
    with pytest.raises(SchemaError, match="'yaml' is not one of"):
        metadata({}, "yaml")
