"""The reader of channels over a stand-in for the server, without a JVM: Spark's calls are made by hand."""

from __future__ import annotations

import json
import logging
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from headrace.client.replay import ChannelState, ReplayBatch
from headrace.errors import UnsupportedError
from headrace.spark import channel_reader
from headrace.spark.channel_reader import ChannelBatchReader, ChannelStreamReader
from headrace.spark.errors import ChannelError, DataLossError, OptionError
from headrace.spark.offsets import Place, channels_to_json
from headrace.spark.options import read_options
from headrace.spark.progress import messages_before
from headrace.spark.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ALL = ReadAllAvailable()
SECOND = 1_000_000_000


class Shelf:
    """A channel as the server has it. `page` messages come in one batch."""

    def __init__(self, count: int = 0, created: int = 7, page: int = 4) -> None:
        self.messages = {sequence: b"%d" % sequence for sequence in range(1, count + 1)}
        self.first = 1
        self.last = count
        self.created = created
        self.page = page
        self.damaged: tuple[int, ...] = ()

    def add(self, count: int) -> None:
        self.messages |= {s: b"%d" % s for s in range(self.last + 1, self.last + count + 1)}
        self.last += count

    def remove_below(self, sequence: int) -> None:
        self.first = sequence
        self.messages = {s: data for s, data in self.messages.items() if s >= sequence}


class StandIn:
    """What `ChannelLink` gives, from shelves; `on_page` is called before each batch."""

    def __init__(self, **shelves: Shelf | None) -> None:
        self.shelves = shelves
        self.on_page: Callable[[], object] = lambda: None

    def state(self, channel: str) -> ChannelState | None:
        shelf = self.shelves[channel]
        if shelf is None:
            return None
        return ChannelState(shelf.first, shelf.last, len(shelf.messages), shelf.created)

    def batches(self, channel: str, first: int, end: int) -> Iterator[ReplayBatch]:
        at = first
        while True:
            self.on_page()
            shelf = self.shelves[channel]
            if shelf is None:
                return
            page = [s for s in sorted(shelf.messages) if at <= s < end][: shelf.page]
            if not page:
                return
            name, rows = channel.encode(), len(page)
            yield ReplayBatch(
                [name] * rows, [name] * rows, page, [s * SECOND + 999 for s in page], [None] * rows,
                [None] * rows, [shelf.messages[s] for s in page],
                ((name, tuple((s, s) for s in shelf.damaged if at <= s < end)),) if shelf.damaged else (),
            )  # fmt: skip
            at = page[-1] + 1


def on_second_page(link: StandIn, happens: Callable[[], object]) -> None:
    pages = 0

    def count() -> None:
        nonlocal pages
        pages += 1
        if pages == 2:
            happens()

    link.on_page = count


def reader(link: StandIn, schema: StructType = COLUMNS, **options: str) -> ChannelStreamReader:
    given = {"channel": ",".join(link.shelves), "startingOffsets": "earliest", **options}
    return ChannelStreamReader(read_options(given), schema, link)  # type: ignore[arg-type]


def table(link: StandIn, **options: str) -> ChannelBatchReader:
    given = {"channel": ",".join(link.shelves), **options}
    return ChannelBatchReader(read_options(given), COLUMNS, link)  # type: ignore[arg-type]


def read(one: ChannelStreamReader | ChannelBatchReader, partitions: Any) -> list[dict[str, Any]]:
    return [
        row
        for partition in partitions
        for batch in one.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def sequences(one: ChannelStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [row["sequence"] for row in read(one, one.partitions(start, end))]


def offset(next_: int, created: int | None = 7, channel: str = "a") -> dict[str, Any]:
    return channels_to_json({channel: Place(next_, created)})


# -- offsets


def test_channel_reader_gives_every_message_once_with_its_columns() -> None:
    link = StandIn(a=Shelf(10))
    one = reader(link)
    start = one.initialOffset()
    assert start == offset(1)
    middle = one.latestOffset(start, ReadMaxRows(3))
    assert middle == offset(4)
    end = one.latestOffset(middle, ALL)
    assert end == offset(11)
    assert one.latestOffset(end, ALL) == end
    assert sequences(one, start, middle) + sequences(one, middle, end) == list(range(1, 11))
    [first, *_] = read(one, one.partitions(start, middle))
    assert first["timestamp"].timestamp() == 1.0
    assert {**first, "timestamp": None} == {
        "stream": "a", "subject": "a", "sequence": 1, "timestamp": None, "reply": None, "headers": None,
        "data": b"1",
    }  # fmt: skip
    assert one.reportLatestOffset() == offset(11)


def test_channel_reader_reads_the_same_range_again_whatever_came_since() -> None:
    link = StandIn(a=Shelf(10))
    one = reader(link)
    plan = one.partitions(offset(3), offset(8))
    link.shelves["a"].add(90)  # type: ignore[union-attr]
    assert one.partitions(offset(3), offset(8)) == plan
    assert reader(link).partitions(offset(3), offset(8)) == plan
    assert [row["sequence"] for row in read(one, plan)] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        ("earliest", 5),
        ("latest", 11),
        ('{"a": 7}', 7),
        ('{"a": -2}', 5),
        ('{"a": -1}', 11),
        ('{"a": 11}', 11),
    ],
)
def test_channel_reader_starts_where_it_is_told(starting: str, expected: int) -> None:
    shelf = Shelf(10)
    shelf.remove_below(5)
    assert reader(StandIn(a=shelf), startingOffsets=starting).initialOffset() == offset(expected)


def test_channel_reader_without_a_start_begins_with_what_comes() -> None:
    one = ChannelStreamReader(read_options({"channel": "a"}), COLUMNS, StandIn(a=Shelf(3)))  # type: ignore[arg-type]
    assert one.initialOffset() == offset(4)


def test_channel_reader_start_behind_the_end_is_refused() -> None:
    with pytest.raises(OptionError, match=r"startingOffsets: sequence 12 .* the next one is 11"):
        reader(StandIn(a=Shelf(10)), startingOffsets='{"a": 12}').initialOffset()


def test_channel_reader_waits_for_a_channel_that_is_not_there_yet(caplog: pytest.LogCaptureFixture) -> None:
    link = StandIn(a=None)
    one = reader(link)
    start = one.initialOffset()
    assert start == offset(1, None)
    assert "channel a is not there yet" in caplog.text
    assert one.latestOffset(start, ALL) == start
    link.shelves["a"] = Shelf(3)
    end = one.latestOffset(start, ALL)
    assert end == offset(4)
    assert sequences(one, start, end) == [1, 2, 3]


def test_channel_reader_shares_a_limit_among_channels() -> None:
    link = StandIn(a=Shelf(30), b=Shelf(10, created=8))
    one = reader(link)
    start = one.initialOffset()
    end = one.latestOffset(start, ReadMaxRows(20))
    assert end == channels_to_json({"a": Place(16, 7), "b": Place(6, 8)})
    rows = read(one, one.partitions(start, end))
    assert [(row["stream"], row["sequence"]) for row in rows] == [
        *(("a", s) for s in range(1, 16)), *(("b", s) for s in range(1, 6)),
    ]  # fmt: skip
    last = one.latestOffset(end, ReadMaxRows(20))
    assert messages_before(last) == 40


def test_channel_reader_partitions_are_small_and_as_many_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_reader, "ROWS_PER_TASK", 10)
    one = reader(StandIn(a=Shelf(101)), minPartitions="4")
    assert len(one.partitions(offset(1), offset(102))) == 4
    assert len(one.partitions(offset(1), offset(12))) == 2
    assert len(one.partitions(offset(1), offset(2))) == 1
    assert one.partitions(offset(5), offset(5)) == []


def test_channel_reader_own_schema_gives_those_columns_in_that_order() -> None:
    schema = StructType([StructField("data", BinaryType()), StructField("sequence", LongType())])
    one = reader(StandIn(a=Shelf(1)), schema)
    assert read(one, one.partitions(offset(1), offset(2))) == [{"data": b"1", "sequence": 1}]


def test_channel_reader_does_not_know_a_limit_by_bytes() -> None:
    with pytest.raises(UnsupportedError, match="read limit"):
        reader(StandIn(a=Shelf(1))).latestOffset(offset(1), ReadMaxBytes(1))
    assert reader(StandIn(a=None), maxOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(StandIn(a=None)).getDefaultReadLimit() == ALL


def test_channel_reader_available_now_ends_at_what_was_there() -> None:
    link = StandIn(a=Shelf(10), b=None)
    one = reader(link)
    start = one.initialOffset()
    one.prepareForTriggerAvailableNow()
    link.shelves["a"].add(10)  # type: ignore[union-attr]
    link.shelves["b"] = Shelf(5, created=8)
    middle = one.latestOffset(start, ReadMaxRows(6))
    end = one.latestOffset(middle, ReadMaxRows(6))
    assert [messages_before(middle), messages_before(end)] == [6, 10]
    assert one.latestOffset(end, ReadMaxRows(6)) == end


def test_channel_reader_over_pickle_reads_the_same() -> None:
    one = ChannelStreamReader(read_options({"channel": "a", "password": "p", "user": "u"}), COLUMNS)
    assert pickle.loads(pickle.dumps(one)).partitions(offset(1), offset(9)) == one.partitions(
        offset(1), offset(9)
    )


# -- what is lost


def made_again(link: StandIn) -> None:
    link.shelves["a"] = Shelf(20, created=8)


def deleted(link: StandIn) -> None:
    link.shelves["a"] = None


def purged(link: StandIn) -> None:
    link.shelves["a"].remove_below(8)  # type: ignore[union-attr]


def rolled_back(link: StandIn) -> None:
    link.shelves["a"] = Shelf(3)


LOSSES = [
    (made_again, "channel a was deleted and made again"),
    (deleted, "channel a was deleted"),
    (purged, r"channel a begins at sequence 8 now: 5 to 7 were removed"),
    (rolled_back, "channel a ends at sequence 3"),
]


@pytest.mark.parametrize(("happens", "text"), LOSSES)
def test_channel_reader_loss_before_a_batch_is_planned_ends_the_query(
    happens: Callable[[StandIn], None], text: str
) -> None:
    link = StandIn(a=Shelf(10))
    one = reader(link)
    happens(link)
    with pytest.raises(DataLossError, match=f"{text}.*failOnDataLoss"):
        one.latestOffset(offset(5), ALL)


@pytest.mark.parametrize(("happens", "text"), LOSSES)
def test_channel_reader_loss_after_a_batch_was_planned_ends_the_task(
    happens: Callable[[StandIn], None], text: str
) -> None:
    link = StandIn(a=Shelf(10))
    one = reader(link)
    plan = one.partitions(offset(5), offset(11))
    happens(link)
    with pytest.raises(DataLossError, match=f"{text}.*failOnDataLoss"):
        read(one, plan)


@pytest.mark.parametrize(("happens", "text"), [(case, text) for case, text in LOSSES if case is not purged])
def test_channel_reader_loss_while_a_task_reads_ends_it(
    happens: Callable[[StandIn], None], text: str
) -> None:
    link = StandIn(a=Shelf(10, page=2))
    one = reader(link)
    on_second_page(link, lambda: happens(link))
    with pytest.raises(DataLossError, match=text):
        read(one, one.partitions(offset(5), offset(11)))


def test_channel_reader_messages_removed_between_two_pages_are_a_loss() -> None:
    link = StandIn(a=Shelf(10, page=2))
    one = reader(link)
    on_second_page(link, lambda: link.shelves["a"].remove_below(9))  # type: ignore[union-attr]
    with pytest.raises(DataLossError, match="begins at sequence 9 now: 5 to 8 were removed"):
        read(one, one.partitions(offset(3), offset(11)))


def test_channel_reader_range_that_was_removed_whole_is_a_loss() -> None:
    link = StandIn(a=Shelf(20))
    one = reader(link)
    plan = one.partitions(offset(5), offset(11))
    link.shelves["a"].remove_below(15)  # type: ignore[union-attr]
    with pytest.raises(DataLossError, match="begins at sequence 15 now: 5 to 10 were removed"):
        read(one, plan)


def test_channel_reader_end_of_a_range_removed_while_it_is_read_is_a_loss() -> None:
    link = StandIn(a=Shelf(20, page=2))
    one = reader(link)
    on_second_page(link, lambda: link.shelves["a"].remove_below(15))  # type: ignore[union-attr]
    with pytest.raises(DataLossError, match="begins at sequence 15 now: 7 to 10 were removed"):
        read(one, one.partitions(offset(5), offset(11)))


@pytest.mark.parametrize(
    ("happens", "start", "rows"),
    [(made_again, 5, list(range(1, 21))), (deleted, 5, []), (purged, 5, [8, 9, 10]), (rolled_back, 5, [])],
)
def test_channel_reader_loss_that_is_fine_is_told_and_the_rest_is_read(
    happens: Callable[[StandIn], None], start: int, rows: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    link = StandIn(a=Shelf(10))
    one = reader(link, failOnDataLoss="false")
    happens(link)
    end = one.latestOffset(offset(start), ALL)
    assert sequences(one, offset(start), end) == rows
    assert [record.levelno for record in caplog.records][:1] == [logging.WARNING]
    assert "going on because failOnDataLoss is false" in caplog.text
    if happens is rolled_back:
        link.shelves["a"].add(2)  # type: ignore[union-attr]
        assert sequences(one, end, one.latestOffset(end, ALL)) == [4, 5]


def test_channel_reader_deleted_single_messages_are_no_loss() -> None:
    shelf = Shelf(10)
    del shelf.messages[4], shelf.messages[10]
    one = reader(StandIn(a=shelf))
    assert sequences(one, offset(1), offset(11)) == [1, 2, 3, 5, 6, 7, 8, 9]


def test_channel_reader_damaged_messages_are_a_loss_and_named(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf(10)
    del shelf.messages[4]
    shelf.damaged = (4,)
    link = StandIn(a=shelf)
    one = reader(link)
    with pytest.raises(DataLossError, match="channel a is damaged on disk: sequences 4 cannot be read"):
        read(one, one.partitions(offset(1), offset(11)))
    assert len(sequences(reader(link, failOnDataLoss="false"), offset(1), offset(11))) == 9
    assert "sequences 4 cannot be read" in caplog.text


def test_channel_reader_checkpoint_of_another_channel_is_refused() -> None:
    one = reader(StandIn(a=Shelf(3)))
    with pytest.raises(DataLossError, match="the checkpoint is one of the channels b"):
        one.latestOffset(offset(1, channel="b"), ALL)


# -- a table


def test_channel_table_reads_what_is_there_between_two_places() -> None:
    link = StandIn(a=Shelf(10))
    assert [row["sequence"] for row in read(table(link), table(link).partitions())] == list(range(1, 11))
    some = table(link, startingOffsets='{"a": 3}', endingOffsets='{"a": 6}')
    assert [row["sequence"] for row in read(some, some.partitions())] == [3, 4, 5]


def test_channel_table_of_nothing_has_a_partition_without_rows() -> None:
    empty = table(StandIn(a=Shelf(0)))
    assert len(empty.partitions()) == 1
    assert read(empty, empty.partitions()) == []


def test_channel_table_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ChannelError, match="there is no channel a in cluster test-cluster"):
        table(StandIn(a=None)).partitions()


def test_channel_table_end_that_is_not_there_yet_is_refused() -> None:
    with pytest.raises(OptionError, match="endingOffsets: sequence 20 of channel a is not there yet"):
        table(StandIn(a=Shelf(3)), endingOffsets=json.dumps({"a": 20})).partitions()
