from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from headrace.client.codec import FrameParser, MessageBatch
from headrace.client.replay import ReplayBatch
from headrace.engine.columns import ColumnsBuilder
from headrace.engine.messages import StoredMessages
from headrace.log.port import StoredMessage
from headrace.protocol.columns import Columns, pack
from headrace.protocol.replay import ReplayedMessage
from headrace.spark.errors import OptionError
from headrace.spark.schema import (
    COLUMNS,
    arrow_schema,
    check_columns,
    columns_record_batch,
    stored_record_batch,
    to_record_batch,
)


def parsed(wire: bytes) -> MessageBatch:
    parser = FrameParser()
    parser.feed(wire)
    return parser.take_messages()


def test_record_batch_of_messages_has_every_column() -> None:
    batch = parsed(b"MSG a.b 1 r 2\r\nhi\r\n")
    block = b"NATS/1.0\r\nK: 1\r\nK:2\r\n\r\n"
    batch.extend(parsed(b"HMSG c 1 %d %d\r\n%b\xff\r\n" % (len(block), len(block) + 1, block)))
    rows = to_record_batch(batch, 7, [1_000_000, 2_000_000], arrow_schema())
    assert rows.schema == arrow_schema()
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert rows.to_pylist() == [
        {
            "stream": None,
            "subject": "a.b",
            "sequence": 7,
            "timestamp": epoch + datetime.timedelta(seconds=1),
            "reply": "r",
            "headers": None,
            "data": b"hi",
        },
        {
            "stream": None,
            "subject": "c",
            "sequence": 8,
            "timestamp": epoch + datetime.timedelta(seconds=2),
            "reply": None,
            "headers": [("K", ["1", "2"])],
            "data": b"\xff",
        },
    ]


def test_record_batch_subject_that_is_not_utf8_is_escaped() -> None:
    rows = to_record_batch(parsed(b"MSG a.\xff 1 0\r\n\r\n"), 1, [0], arrow_schema())
    assert rows.column("subject").to_pylist() == ["a.\\xff"]


def test_record_batch_of_nothing_is_empty() -> None:
    assert to_record_batch(MessageBatch(), 1, [], arrow_schema()).num_rows == 0


def test_arrow_schema_is_what_spark_expects() -> None:
    assert arrow_schema().field("timestamp").type == pa.timestamp("us", "UTC")
    assert arrow_schema().names == COLUMNS.fieldNames()


def test_check_columns_some_in_another_order_is_fine() -> None:
    wanted = StructType([StructField("data", BinaryType()), StructField("sequence", LongType())])
    assert check_columns(wanted) is wanted


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (StructField("payload", BinaryType()), "'payload' is not one of stream, subject"),
        (StructField("data", StringType()), "column data has type binary, not string; cast"),
    ],
)
def test_check_columns_wrong_column_says_what_to_do(column: StructField, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        check_columns(StructType([column]))


@pytest.mark.parametrize("names", [COLUMNS.names, ["data", "sequence"], ["headers"], ["timestamp", "reply"]])
@pytest.mark.parametrize(
    ("subject", "reply", "block"),
    [
        (b"a", b"", b""),
        (b"a", b"re", b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"),
        (b"\xff.b", b"r\xfe", b""),
        ("\u00e9".encode(), b"", b""),
    ],
)
def test_columns_are_the_rows_that_single_messages_are(
    names: list[str], subject: bytes, reply: bytes, block: bytes
) -> None:
    stored = [
        StoredMessage(n, 1_700_000_000_123_456_789 + n, subject, reply if n % 2 else b"", block, b"%d" % n)
        for n in range(1, 21)
    ]
    builder = ColumnsBuilder()
    builder.add(StoredMessages(StoredMessage, stored), 0, 20, b"chan", 1 << 20)
    batch = ReplayBatch()
    for m in stored:
        replayed = ReplayedMessage(
            b"chan", m.subject, m.sequence, m.time_ns, m.reply or None, m.headers or None
        )
        batch.append(replayed, m.payload)
    wanted = StructType([COLUMNS[name] for name in names])
    found = columns_record_batch(Columns.read(pack(builder)), arrow_schema(wanted))
    found.validate(full=True)
    assert found == stored_record_batch("chan", batch, wanted, batch.replies)
    assert found.schema == arrow_schema(wanted)


def test_columns_of_nothing_are_an_empty_batch() -> None:
    assert columns_record_batch(Columns.read(pack(ColumnsBuilder())), arrow_schema()).num_rows == 0
