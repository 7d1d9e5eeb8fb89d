"""Rows into messages: ids that repeat, and what every kind of bad row is told."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from headrace.spark.errors import OptionError, RowError, SinkError
from headrace.spark.schema import COLUMNS, CORRUPT
from headrace.spark.sink_options import read_sink_options
from headrace.spark.sink_rows import PublishLimits, RowReader, RowsIdentity, check_sink_columns

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))
STREAM = {"stream": "S", "positionalIds": "true"}
IDENTITY = RowsIdentity("query", 7, 3)
WINDOW = StructType([StructField("start", TimestampType()), StructField("end", TimestampType())])


def reader(limits: PublishLimits | None = None, **given: str) -> RowReader:
    options = {key: value for key, value in {**STREAM, **given}.items() if value}
    return RowReader(read_sink_options(options), IDENTITY, limits or PublishLimits(1000))


def batch(**columns: Any) -> pa.RecordBatch:
    given = {"subject": ["a", "b"], "data": [b"x", b"y"], **columns}
    return pa.record_batch(given)


def test_sink_rows_position_counts_over_batches_and_dropped_rows() -> None:
    rows = reader(mode="dropmalformed")
    assert rows.read(batch()).ids == [b"query/7/3/0", b"query/7/3/1"]
    assert rows.read(batch(subject=["a b", "b"])).ids == [b"query/7/3/3"]
    assert rows.read(batch()).ids == [b"query/7/3/4", b"query/7/3/5"]
    assert rows.dropped == 1


def test_sink_rows_id_column_is_the_id_as_it_is() -> None:
    for column in (["one", "two"], [b"one", b"two"]):
        assert reader(positionalIds="", idColumn="id").read(batch(id=column)).ids == [b"one", b"two"]
    assert reader(positionalIds="", idColumn="id").read(batch(id=[17, -1])).ids == [b"17", b"-1"]


@pytest.mark.parametrize("bad", [None, "", " x", "a\r\nNats-Rollup: all", "a\nb", "a\0"])
def test_sink_rows_bad_id_is_refused(bad: str | None) -> None:
    with pytest.raises(RowError, match="row 1 of partition 3: column id"):
        reader(positionalIds="", idColumn="id").read(batch(id=["ok", bad]))


def test_sink_rows_keys_tell_rows_apart_by_type_null_and_place() -> None:
    stamp = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
    cases: list[dict[str, Any]] = [
        {"k": ["a", "b"], "l": ["b", "a"]},
        {"k": ["ab", "a"], "l": ["c", "bc"]},
        {"k": [None, "-"], "l": ["", None]},
        {"k": [1, 2], "l": [True, False]},
        {"k": [1.5, 2.5], "l": [Decimal("1.50"), Decimal("2.50")]},
        {"k": [stamp, stamp.replace(microsecond=1)], "l": [stamp.date(), None]},
    ]
    seen = set()
    for columns in cases:
        ids = reader(positionalIds="", keyColumns="k,l").read(batch(**columns)).ids
        assert ids == reader(positionalIds="", keyColumns="k, l").read(batch(**columns)).ids
        assert ids is not None
        assert all(one.startswith(b"query/7/") for one in ids)
        seen.update(ids)
    assert len(seen) == 12


def test_sink_rows_fields_of_a_structure_are_keys() -> None:
    windows = [{"start": 1, "end": 2}, {"start": 2, "end": 2}, None, {"start": None, "end": 2}]
    count = {"subject": ["a"] * 4, "data": [b"x"] * 4}
    ids = (
        reader(positionalIds="", keyColumns="window.start,k")
        .read(batch(window=windows, k=["a", "a", "a", "b"], **count))
        .ids
    )
    flat = (
        reader(positionalIds="", keyColumns="start,k")
        .read(batch(start=[1, 2, None, None], k=["a", "a", "a", "b"], **count))
        .ids
    )
    assert ids is not None
    assert ids == flat
    dotted = (
        reader(positionalIds="", keyColumns="window.start")
        .read(batch(**{"window.start": [1, 2, 3, 4]}, window=windows, **count))
        .ids
    )
    assert dotted is not None
    assert len(set(dotted)) == 4, "the column of that very name"


def test_sink_rows_same_key_twice_in_a_batch_is_an_error_even_when_dropping() -> None:
    rows = reader(positionalIds="", keyColumns="k", mode="dropmalformed")
    rows.read(batch(k=[1, 2]))
    with pytest.raises(SinkError, match="two rows of this micro-batch have the same k"):
        rows.read(batch(k=[3, 1]))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"data": [b"x", None]}, "row 1 of partition 3: column data is null"),
        ({"data": ["x", None]}, "column data is null"),
        ({"subject": ["a", None]}, "column subject is null"),
        ({"subject": ["a", "a.*"]}, r"column subject: 'a\.\*' is empty somewhere or has blanks or wildcards"),
        ({"subject": ["a", ">"]}, "column subject"),
        ({"subject": ["a", "a..b"]}, "column subject"),
        ({"subject": ["a", ""]}, "column subject"),
        ({"subject": ["a", "b c"]}, "column subject"),
        ({"subject": ["a", "b\r\nPUB x 0"]}, "column subject"),
        ({"subject": ["a", "b\0"]}, "column subject"),
        ({"reply": [None, "x"]}, "column reply: a stream takes none"),
        ({"headers": pa.array([None, [("K", ["a\r\nb"])]], HEADERS)}, "column headers: header 'K'"),
        ({"headers": pa.array([None, [("K: x", ["a"])]], HEADERS)}, "column headers: header 'K: x'"),
        ({"headers": pa.array([None, [("", ["a"])]], HEADERS)}, "column headers: header ''"),
        ({"headers": pa.array([None, [("K", [None])]], HEADERS)}, "header 'K' has a null"),
        ({"headers": pa.array([None, [("K", None)]], HEADERS)}, "header 'K' has a null"),
        ({"headers": pa.array([None, [("nats-msg-id", ["1"])]], HEADERS)}, "is the sink's own"),
        ({"data": [b"x", b"x" * 1000]}, r"columns data and headers: a message of 10\d\d bytes, the target"),
    ],
)
def test_sink_rows_that_cannot_be_messages(columns: dict[str, Any], text: str) -> None:
    with pytest.raises(RowError, match=text):
        reader().read(batch(**columns))
    dropping = reader(mode="dropmalformed")
    assert len(dropping.read(batch(**columns))) == 1
    assert dropping.dropped == 1


def test_sink_rows_size_is_counted_to_the_byte() -> None:
    id_block = len(b"NATS/1.0\r\nNats-Msg-Id: query/7/3/0\r\n\r\n")
    headers = pa.array([[("K", ["v"])]], HEADERS)
    full = id_block + len("K: v\r\n") + 100
    rows = pa.record_batch({"subject": ["a"], "data": [b"x" * 100], "headers": headers})
    assert len(reader(PublishLimits(full)).read(rows)) == 1
    with pytest.raises(RowError, match=f"a message of {full} bytes, the target takes {full - 1}"):
        reader(PublishLimits(full - 1)).read(rows)
    plain = {"positionalIds": "", "deliveryGuarantee": "at-least-once"}
    bare = pa.record_batch({"subject": ["a"], "data": [b"x" * 100]})
    assert len(reader(PublishLimits(100), **plain).read(bare)) == 1
    with pytest.raises(RowError, match="a message of 100 bytes"):
        reader(PublishLimits(99), **plain).read(bare)


def test_sink_rows_headers_are_lines_and_absent_ones_cost_nothing() -> None:
    with_one = batch(headers=pa.array([None, [("K", ["a", "b"]), ("L", [""])]], HEADERS))
    assert reader().read(with_one).headers == [b"", b"K: a\r\nK: b\r\nL: \r\n"]
    assert reader().read(batch(headers=pa.array([None, None], HEADERS))).headers is None
    flat = pa.array([None, [("K", "a")]], pa.map_(pa.string(), pa.string()))
    assert reader().read(batch(headers=flat)).headers == [b"", b"K: a\r\n"]
    once = {"positionalIds": "", "deliveryGuarantee": "at-least-once"}
    own = batch(headers=pa.array([None, [("Nats-Msg-Id", ["1"])]], HEADERS))
    assert reader(**once).read(own).headers == [b"", b"Nats-Msg-Id: 1\r\n"]


def test_sink_rows_option_wins_over_the_column() -> None:
    assert reader(subject="fixed").read(batch()).subjects == [b"fixed", b"fixed"]
    channel = {"stream": "", "positionalIds": "", "channel": "c"}
    assert reader(**channel).read(pa.record_batch({"data": ["x"]})).subjects == [b"c"]
    with pytest.raises(RowError, match="NATS Streaming carry no headers"):
        reader(**channel).read(batch(headers=pa.array([None, [("K", ["a"])]], HEADERS)))


def test_sink_rows_from_unicode_slices_and_empty_batches() -> None:
    rows = batch(subject=["ä.b", "c"], data=["ö", "u"])
    assert reader().read(rows).payloads == ["ö".encode(), b"u"]
    assert reader().read(rows.slice(0, 1)).subjects == ["ä.b".encode()]
    assert reader().read(rows.slice(1)).subjects == [b"c"]
    assert len(reader().read(rows.slice(0, 0))) == 0


def frame(**kinds: Any) -> StructType:
    given = {"subject": StringType(), "data": BinaryType(), **kinds}
    return StructType([StructField(name, kind) for name, kind in given.items() if kind is not None])


def test_sink_columns_of_the_source_can_be_written_as_they_are() -> None:
    check_sink_columns(COLUMNS, read_sink_options(STREAM))
    check_sink_columns(StructType([*COLUMNS, CORRUPT]), read_sink_options(STREAM))
    flat = MapType(StringType(), StringType())
    check_sink_columns(frame(data=StringType(), headers=flat), read_sink_options(STREAM))


@pytest.mark.parametrize(
    ("kinds", "given", "text"),
    [
        ({"data": None}, {}, "column data is missing"),
        ({"subject": None}, {}, "column subject is missing, and option subject is not set"),
        ({"data": LongType()}, {}, "column data has type bigint, not binary or string"),
        ({"subject": BinaryType()}, {}, "column subject has type binary, not string"),
        ({"headers": StringType()}, {}, "column headers has type string, not map<string,array<string>>"),
        ({"header": StringType()}, {}, "column 'header' is not one of subject, data, headers, reply"),
        ({}, {"idColumn": "id"}, "there is no column 'id'"),
        ({"id": TimestampType()}, {"idColumn": "id"}, "column id has type timestamp, not string"),
        (
            {"k": ArrayType(StringType())},
            {"keyColumns": "k"},
            r"column k cannot be a key, since it has type array<string>; select .* to_json\(k\), and name",
        ),
        (
            {"window": WINDOW},
            {"keyColumns": "window"},
            r"column window cannot be a key, since it has type struct<start:timestamp,end:timestamp>; name "
            r"its fields instead: window\.start, window\.end",
        ),
        ({"window": WINDOW}, {"keyColumns": "window.begin"}, "there is no column 'begin' in window"),
        ({"window": WINDOW}, {"keyColumns": "window.end.day"}, "there is no column 'day' in window.end"),
        ({"window": WINDOW}, {"keyColumns": "subject"}, "column 'window' is not one of subject, data"),
        ({"k": VariantType()}, {"keyColumns": "k"}, "column k cannot be a key, since it has type variant"),
        ({}, {"keyColumns": "subject,k"}, "there is no column 'k'"),
    ],
)
def test_sink_columns_that_cannot_be_written(kinds: dict[str, Any], given: dict[str, str], text: str) -> None:
    options = read_sink_options({"stream": "S", **(given or {"positionalIds": "true"})})
    with pytest.raises(OptionError, match=text):
        check_sink_columns(frame(**kinds), options)
