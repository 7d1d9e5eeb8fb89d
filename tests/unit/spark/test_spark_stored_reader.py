"""The reader of stored streams over a stand-in for the server, without a JVM: Spark's calls by hand."""

from __future__ import annotations

import json
import logging
import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, LessThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from headrace.client.jetstream import StreamBatch
from headrace.errors import UnsupportedError
from headrace.spark import stored_reader
from headrace.spark.errors import DataLossError, OptionError, StoredStreamError, ValueFormatError
from headrace.spark.offsets import CHANNEL, STREAM, Place, StoredKind, StoredRange, places_to_json
from headrace.spark.options import read_options
from headrace.spark.progress import messages_before
from headrace.spark.schema import COLUMNS, stored_record_batch
from headrace.spark.stored_link import StoredRows, StoredState
from headrace.spark.stored_reader import (
    ASK_AGAIN,
    FilteringBatchReader,
    StoredBatchReader,
    StoredStreamReader,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
        self.keeps_order = True

    def add(self, count: int) -> None:
        self.messages |= {s: b"%d" % s for s in range(self.last + 1, self.last + count + 1)}
        self.last += count

    def remove_below(self, sequence: int) -> None:
        self.first = sequence
        self.messages = {s: data for s, data in self.messages.items() if s >= sequence}


class StandIn:
    """What a `StoredLink` gives, from shelves; `on_page` is called before each batch."""

    kind: StoredKind = CHANNEL

    def __init__(self, **shelves: Shelf | None) -> None:
        self.shelves = shelves
        self.asked: list[tuple[StoredRange, tuple[str, ...]]] = []
        self.timed: list[tuple[str, int, tuple[str, ...]]] = []
        self.on_page: Callable[[], object] = lambda: None

    def place(self, name: str) -> str:
        return f"{self.kind.word} {name} of a stand-in"

    def state(self, name: str) -> StoredState | None:
        shelf = self.shelves[name]
        if shelf is None:
            return None
        size = sum(map(len, shelf.messages.values())) * 100
        return StoredState(
            shelf.first, shelf.last, len(shelf.messages), size, shelf.created, shelf.keeps_order
        )

    def matching(self, pattern: str) -> dict[str, StoredState]:
        states = {n: self.state(n) for n in sorted(self.shelves) if self.kind.matches(pattern, n)}
        return {name: state for name, state in states.items() if state is not None}

    def sequence_at(self, name: str, time_ns: int) -> int:
        shelf = self.shelves[name]
        assert shelf is not None
        return min((s for s in shelf.messages if s * SECOND >= time_ns), default=shelf.last + 1)

    def time_at(self, name: str, sequence: int, filters: Sequence[str]) -> int | None:
        self.timed.append((name, sequence, tuple(filters)))
        shelf = self.shelves[name]
        assert shelf is not None
        return min((s * SECOND for s in shelf.messages if s >= sequence), default=None)

    def rows(self, wanted: StoredRange, filters: Sequence[str], columns: StructType) -> Iterator[StoredRows]:
        self.asked.append((wanted, tuple(filters)))
        name, at, end = wanted.name, wanted.first, wanted.end
        while True:
            self.on_page()
            shelf = self.shelves[name]
            if shelf is None:
                return
            page = [s for s in sorted(shelf.messages) if at <= s < end][: shelf.page]
            if not page:
                return
            rows = len(page)
            batch = StreamBatch(
                [name.encode()] * rows, page, [s * SECOND + 999 for s in page], [None] * rows,
                [shelf.messages[s] for s in page],
            )  # fmt: skip
            damaged = tuple((s, s) for s in shelf.damaged if at <= s < end)
            damage = ((name.encode(), damaged),) if damaged else ()
            yield StoredRows(page, stored_record_batch(name, batch, columns), damage)
            at = page[-1] + 1


def on_second_page(link: StandIn, happens: Callable[[], object]) -> None:
    pages = 0

    def count() -> None:
        nonlocal pages
        pages += 1
        if pages == 2:
            happens()

    link.on_page = count


def reader(link: StandIn, schema: StructType = COLUMNS, **options: str) -> StoredStreamReader:
    given = {"channel": ",".join(link.shelves), "startingOffsets": "earliest", **options}
    return StoredStreamReader(read_options(given), schema, link)  # type: ignore[arg-type]


def table(link: StandIn, **options: str) -> StoredBatchReader:
    given = {"channel": ",".join(link.shelves), **options}
    return StoredBatchReader(read_options(given), COLUMNS, link)  # type: ignore[arg-type]


def read(one: StoredStreamReader | StoredBatchReader, partitions: Any) -> list[dict[str, Any]]:
    return [
        row
        for partition in partitions
        for batch in one.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def sequences(one: StoredStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [row["sequence"] for row in read(one, one.partitions(start, end))]


def offset(
    next_: int, created: int | None = 7, channel: str = "a", began: Place | None = None
) -> dict[str, Any]:
    """With `began` the end of a query's first batch."""
    return places_to_json(CHANNEL, {channel: Place(next_, created)}, began and {channel: began})


# -- lag


def test_stored_reader_reports_what_waits_and_for_how_long() -> None:
    now = 100.25
    link = StandIn(a=Shelf(10), b=Shelf(2))
    given = read_options({"channel": "a,b", "startingOffsets": "earliest"})
    one = StoredStreamReader(given, COLUMNS, link, clock=lambda: now, now=lambda: now)  # type: ignore[arg-type]
    assert one.reportLatestOffset() is None

    def behind() -> Any:
        report = one.reportLatestOffset()
        assert report is not None
        return report["behind"]

    start = one.initialOffset()
    end = one.latestOffset(start, ReadMaxRows(6))
    assert {name: place["next"] for name, place in end["channels"].items()} == {"a": 6, "b": 2}
    assert behind() == {"a": {"messages": 5, "ms": 94_250}, "b": {"messages": 1, "ms": 98_250}}
    assert link.timed == [("a", 6, ()), ("b", 2, ())]
    now += ASK_AGAIN / 2
    end = one.latestOffset(end, ReadMaxRows(3))
    assert behind() == {"a": {"messages": 3, "ms": 94_750}, "b": {"messages": 0, "ms": 0}}
    assert len(link.timed) == 2, "asked again within the second"
    now += ASK_AGAIN / 2
    end = one.latestOffset(end, ReadMaxRows(1))
    assert behind()["a"] == {"messages": 2, "ms": 92_250}
    assert link.timed[2:] == [("a", 9, ())]
    end = one.latestOffset(end, ALL)
    assert behind() == {"a": {"messages": 0, "ms": 0}, "b": {"messages": 0, "ms": 0}}


def test_stored_reader_does_not_know_how_long_what_is_gone_has_waited_and_no_clock_is_before_it() -> None:
    link = StandIn(a=Shelf(10))
    link.kind = STREAM
    given = read_options({"stream": "a", "startingOffsets": "earliest", "filterSubjects": "a.b"})
    one = StoredStreamReader(given, COLUMNS, link, now=lambda: 3.0)  # type: ignore[arg-type]
    start = one.initialOffset()
    one.latestOffset(start, ReadMaxRows(5))
    report = one.reportLatestOffset()
    assert report is not None
    assert report["behind"] == {"a": {"messages": 5, "ms": 0}}
    assert link.timed == [("a", 6, ("a.b",))]
    shelf = link.shelves["a"]
    assert shelf is not None
    shelf.messages = dict.fromkeys(range(1, 6), b"")
    other = StoredStreamReader(given, COLUMNS, link)  # type: ignore[arg-type]
    other.latestOffset(start, ReadMaxRows(5))
    report = other.reportLatestOffset()
    assert report is not None
    assert report["behind"] == {"a": {"messages": 5, "ms": None}}


def test_stored_reader_that_waits_for_more_messages_reports_them_as_behind() -> None:
    link = StandIn(a=Shelf(4))
    one = reader(link, minOffsetsPerTrigger="10")
    start = one.latestOffset(one.initialOffset(), ALL)
    link.shelves["a"].add(3)  # type: ignore[union-attr]
    assert one.latestOffset(start, ALL) == start
    report = one.reportLatestOffset()
    assert report is not None
    assert report["behind"]["a"]["messages"] == 3


# -- offsets


def test_stored_reader_gives_every_message_once_with_its_columns() -> None:
    link = StandIn(a=Shelf(10))
    one = reader(link)
    start = one.initialOffset()
    assert start == offset(1)
    middle = one.latestOffset(start, ReadMaxRows(3))
    assert middle == offset(4, began=Place(1, 7))
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
    assert one.reportLatestOffset() == offset(11) | {"behind": {"a": {"messages": 0, "ms": 0}}}


def test_stored_reader_reads_the_same_range_again_whatever_came_since() -> None:
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
def test_stored_reader_starts_where_it_is_told(starting: str, expected: int) -> None:
    shelf = Shelf(10)
    shelf.remove_below(5)
    assert reader(StandIn(a=shelf), startingOffsets=starting).initialOffset() == offset(expected)


def test_stored_reader_without_a_start_begins_with_what_comes() -> None:
    one = StoredStreamReader(read_options({"channel": "a"}), COLUMNS, StandIn(a=Shelf(3)))  # type: ignore[arg-type]
    assert one.initialOffset() == offset(4)


def test_stored_reader_start_behind_the_end_is_refused() -> None:
    with pytest.raises(OptionError, match=r"startingOffsets: sequence 12 .* the next one is 11"):
        reader(StandIn(a=Shelf(10)), startingOffsets='{"a": 12}').initialOffset()


def test_stored_reader_waits_for_a_channel_that_is_not_there_yet(caplog: pytest.LogCaptureFixture) -> None:
    link = StandIn(a=None)
    one = reader(link)
    start = one.initialOffset()
    assert start == offset(1, None)
    assert "channel a is not there yet" in caplog.text
    assert one.latestOffset(start, ALL) == start
    link.shelves["a"] = Shelf(3)
    end = one.latestOffset(start, ALL)
    assert end == offset(4, began=Place(1, None))
    assert one.latestOffset(end, ALL) == end, "the same JSON, else Spark would take it for new data"
    assert sequences(one, start, end) == [1, 2, 3]


@pytest.mark.parametrize("starting", ["earliest", "latest", '{"a": 7}'])
def test_stored_reader_repeats_a_first_batch_as_it_was_planned(starting: str) -> None:
    """Spark asks the new run where to begin, and gets another answer by then."""
    link = StandIn(a=Shelf(10))
    one = reader(link, startingOffsets=starting)
    start = one.initialOffset()
    link.shelves["a"].add(5)  # type: ignore[union-attr]
    end = json.loads(json.dumps(one.latestOffset(start, ALL)))
    rows = sequences(one, start, end)
    assert rows[-1] == 15
    link.shelves["a"].add(5)  # type: ignore[union-attr]
    again = reader(link, startingOffsets="latest")
    assert sequences(again, again.initialOffset(), end) == rows
    link.shelves["a"].remove_below(rows[0] + 1)  # type: ignore[union-attr]
    late = reader(link, startingOffsets="earliest")
    with pytest.raises(DataLossError, match="were removed by its limits or a purge"):
        sequences(late, late.initialOffset(), end)
    follow = late.latestOffset(end, ALL)
    assert follow == offset(21)
    assert sequences(late, end, follow) == [16, 17, 18, 19, 20]


def places(one: StoredStreamReader, start: Any, end: Any) -> list[tuple[str, int]]:
    return [(row["stream"], row["sequence"]) for row in read(one, one.partitions(start, end))]


def of(name: str, *spans: range) -> list[tuple[str, int]]:
    return [(name, sequence) for span in spans for sequence in span]


@pytest.mark.parametrize("names", ["x.*", "x.>,y", "y,x.*"])
def test_stored_reader_repeats_a_first_batch_of_wildcards_as_it_was_planned(names: str) -> None:
    """Of streams that were there, that appeared while it was planned, and not of those that came later."""
    link = StandIn(**{"x.old": Shelf(10), "y": Shelf(2, created=9), "x.dead": Shelf(3, created=6)})
    one = reader(link, channel=names, startingOffsets="latest")
    start = one.initialOffset()
    link.shelves["x.old"].add(5)  # type: ignore[union-attr]
    link.shelves["y"].add(1)  # type: ignore[union-attr]
    link.shelves["x.dead"].add(1)  # type: ignore[union-attr]
    link.shelves["x.new"] = Shelf(4, created=8)
    end = json.loads(json.dumps(one.latestOffset(start, ALL)))
    rows = places(one, start, end)
    expected = of("x.old", range(11, 16)) + of("x.new", range(1, 5)) + of("x.dead", range(4, 5))
    assert sorted(rows) == sorted(expected + (of("y", range(3, 4)) if "y" in names else []))

    link.shelves["x.old"].add(5)  # type: ignore[union-attr]
    link.shelves["x.new"].add(1)  # type: ignore[union-attr]
    link.shelves["x.later"] = Shelf(2, created=10)
    for starting in ("latest", "earliest"):
        again = reader(link, channel=names, startingOffsets=starting)
        assert places(again, again.initialOffset(), end) == rows
        follow = again.latestOffset(end, ALL)
        assert "began" not in follow
        assert sorted(places(again, end, follow)) == sorted(
            of("x.old", range(16, 21)) + of("x.new", range(5, 6)) + of("x.later", range(1, 3))
        )
    link.shelves["x.dead"] = None
    late = reader(link, channel=names)
    with pytest.raises(DataLossError, match=r"channel x\.dead was deleted, sequences 4 to 4 cannot be read"):
        places(late, late.initialOffset(), end)
    lossy = reader(link, channel=names, failOnDataLoss="false")
    found = places(lossy, lossy.initialOffset(), end)
    assert found == [row for row in rows if row[0] != "x.dead"]


def test_stored_reader_first_batch_of_wildcards_that_meant_nothing_at_first() -> None:
    link = StandIn()
    one = reader(link, channel="x.*")
    start = one.initialOffset()
    assert start == {"v": 1, "channels": {}}
    assert one.latestOffset(start, ALL) == start
    link.shelves["x.a"] = Shelf(3)
    end = one.latestOffset(start, ReadMaxRows(2))
    assert end == offset(3, channel="x.a", began=Place(1, None))
    link.shelves["x.b"] = Shelf(1, created=8)
    again = reader(link, channel="x.*", startingOffsets="latest")
    assert places(again, again.initialOffset(), end) == of("x.a", range(1, 3))
    assert places(again, end, again.latestOffset(end, ALL)) == [("x.a", 3), ("x.b", 1)]


def test_stored_reader_first_end_to_itself_is_no_batch() -> None:
    one = reader(StandIn(a=Shelf(5)))
    end = one.latestOffset(one.initialOffset(), ALL)
    assert end == offset(6, began=Place(1, 7))
    assert one.partitions(end, end) == []


@pytest.mark.parametrize("began", [None, 7, {}, {"a": {"next": 0, "created": 7}}, {"b": {}}])
def test_stored_reader_first_batch_whose_begin_is_damaged_is_refused(began: object) -> None:
    one = reader(StandIn(a=Shelf(5)))
    with pytest.raises(DataLossError, match="checkpoint"):
        one.partitions(offset(1), {**offset(6), "began": began})


def test_stored_reader_shares_a_limit_among_channels() -> None:
    link = StandIn(a=Shelf(30), b=Shelf(10, created=8))
    one = reader(link)
    start = one.initialOffset()
    end = one.latestOffset(start, ReadMaxRows(20))
    began = {"a": Place(1, 7), "b": Place(1, 8)}
    assert end == places_to_json(CHANNEL, {"a": Place(16, 7), "b": Place(6, 8)}, began)
    rows = read(one, one.partitions(start, end))
    assert [(row["stream"], row["sequence"]) for row in rows] == [
        *(("a", s) for s in range(1, 16)), *(("b", s) for s in range(1, 6)),
    ]  # fmt: skip
    last = one.latestOffset(end, ReadMaxRows(20))
    assert messages_before(last) == 40


def test_stored_reader_partitions_are_small_and_as_many_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_reader, "ROWS_PER_TASK", 10)
    one = reader(StandIn(a=Shelf(101)), minPartitions="4")
    assert len(one.partitions(offset(1), offset(102))) == 4
    assert len(one.partitions(offset(1), offset(12))) == 2
    assert len(one.partitions(offset(1), offset(2))) == 1
    assert one.partitions(offset(5), offset(5)) == []


def test_stored_reader_own_schema_gives_those_columns_in_that_order() -> None:
    schema = StructType([StructField("data", BinaryType()), StructField("sequence", LongType())])
    one = reader(StandIn(a=Shelf(1)), schema)
    assert read(one, one.partitions(offset(1), offset(2))) == [{"data": b"1", "sequence": 1}]


def test_stored_reader_does_not_know_a_limit_by_bytes() -> None:
    with pytest.raises(UnsupportedError, match="read limit"):
        reader(StandIn(a=Shelf(1))).latestOffset(offset(1), ReadMaxBytes(1))
    assert reader(StandIn(a=None), maxOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(StandIn(a=None)).getDefaultReadLimit() == ALL


def test_stored_reader_available_now_ends_at_what_was_there() -> None:
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


def test_stored_reader_over_pickle_reads_the_same() -> None:
    one = StoredStreamReader(read_options({"channel": "a", "password": "p", "user": "u"}), COLUMNS)
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
def test_stored_reader_loss_before_a_batch_is_planned_ends_the_query(
    happens: Callable[[StandIn], None], text: str
) -> None:
    link = StandIn(a=Shelf(10))
    one = reader(link)
    happens(link)
    with pytest.raises(DataLossError, match=f"{text}.*failOnDataLoss"):
        one.latestOffset(offset(5), ALL)


@pytest.mark.parametrize(("happens", "text"), LOSSES)
def test_stored_reader_loss_after_a_batch_was_planned_ends_the_task(
    happens: Callable[[StandIn], None], text: str
) -> None:
    link = StandIn(a=Shelf(10))
    one = reader(link)
    plan = one.partitions(offset(5), offset(11))
    happens(link)
    with pytest.raises(DataLossError, match=f"{text}.*failOnDataLoss"):
        read(one, plan)


@pytest.mark.parametrize(("happens", "text"), [(case, text) for case, text in LOSSES if case is not purged])
def test_stored_reader_loss_while_a_task_reads_ends_it(happens: Callable[[StandIn], None], text: str) -> None:
    link = StandIn(a=Shelf(10, page=2))
    one = reader(link)
    on_second_page(link, lambda: happens(link))
    with pytest.raises(DataLossError, match=text):
        read(one, one.partitions(offset(5), offset(11)))


def test_stored_reader_messages_removed_between_two_pages_are_a_loss() -> None:
    link = StandIn(a=Shelf(10, page=2))
    one = reader(link)
    on_second_page(link, lambda: link.shelves["a"].remove_below(9))  # type: ignore[union-attr]
    with pytest.raises(DataLossError, match="begins at sequence 9 now: 5 to 8 were removed"):
        read(one, one.partitions(offset(3), offset(11)))


def test_stored_reader_range_that_was_removed_whole_is_a_loss() -> None:
    link = StandIn(a=Shelf(20))
    one = reader(link)
    plan = one.partitions(offset(5), offset(11))
    link.shelves["a"].remove_below(15)  # type: ignore[union-attr]
    with pytest.raises(DataLossError, match="begins at sequence 15 now: 5 to 10 were removed"):
        read(one, plan)


def test_stored_reader_end_of_a_range_removed_while_it_is_read_is_a_loss() -> None:
    link = StandIn(a=Shelf(20, page=2))
    one = reader(link)
    on_second_page(link, lambda: link.shelves["a"].remove_below(15))  # type: ignore[union-attr]
    with pytest.raises(DataLossError, match="begins at sequence 15 now: 7 to 10 were removed"):
        read(one, one.partitions(offset(5), offset(11)))


@pytest.mark.parametrize(
    ("happens", "start", "rows"),
    [(made_again, 5, list(range(1, 21))), (deleted, 5, []), (purged, 5, [8, 9, 10]), (rolled_back, 5, [])],
)
def test_stored_reader_loss_that_is_fine_is_told_and_the_rest_is_read(
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


def test_stored_reader_deleted_single_messages_are_no_loss() -> None:
    shelf = Shelf(10)
    del shelf.messages[4], shelf.messages[10]
    one = reader(StandIn(a=shelf))
    assert sequences(one, offset(1), offset(11)) == [1, 2, 3, 5, 6, 7, 8, 9]


def test_stored_reader_damaged_messages_are_a_loss_and_named(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf(10)
    del shelf.messages[4]
    shelf.damaged = (4,)
    link = StandIn(a=shelf)
    one = reader(link)
    with pytest.raises(DataLossError, match="channel a is damaged on disk: sequences 4 cannot be read"):
        read(one, one.partitions(offset(1), offset(11)))
    assert len(sequences(reader(link, failOnDataLoss="false"), offset(1), offset(11))) == 9
    assert "sequences 4 cannot be read" in caplog.text


def test_stored_reader_checkpoint_of_another_channel_is_refused() -> None:
    one = reader(StandIn(a=Shelf(3)))
    with pytest.raises(DataLossError, match="the checkpoint is one of the channels b"):
        one.latestOffset(offset(1, channel="b"), ALL)


# -- a table


def test_stored_table_reads_what_is_there_between_two_places() -> None:
    link = StandIn(a=Shelf(10))
    assert [row["sequence"] for row in read(table(link), table(link).partitions())] == list(range(1, 11))
    some = table(link, startingOffsets='{"a": 3}', endingOffsets='{"a": 6}')
    assert [row["sequence"] for row in read(some, some.partitions())] == [3, 4, 5]


def test_stored_table_of_nothing_has_a_partition_without_rows() -> None:
    empty = table(StandIn(a=Shelf(0)))
    assert len(empty.partitions()) == 1
    assert read(empty, empty.partitions()) == []


def test_stored_table_that_is_not_there_is_an_error() -> None:
    with pytest.raises(StoredStreamError, match="there is no channel a of a stand-in"):
        table(StandIn(a=None)).partitions()


def test_stored_table_end_that_is_not_there_yet_is_refused() -> None:
    with pytest.raises(OptionError, match="endingOffsets: sequence 20 of channel a is not there yet"):
        table(StandIn(a=Shelf(3)), endingOffsets=json.dumps({"a": 20})).partitions()


# -- limits of a trigger, times, filters, kinds


def test_stored_reader_of_streams_has_offsets_of_streams_and_reads_only_the_filters() -> None:
    link = StandIn(a=Shelf(10))
    link.kind = STREAM
    options = read_options({"stream": "a", "startingOffsets": "earliest", "filterSubjects": "x.*,y"})
    one = StoredStreamReader(options, COLUMNS, link)  # type: ignore[arg-type]
    start = one.initialOffset()
    assert start == {"v": 1, "streams": {"a": {"next": 1, "created": 7}}}
    end = one.latestOffset(start, ALL)
    assert sequences(one, start, end) == list(range(1, 11))
    assert link.asked[0][1] == ("x.*", "y")
    with pytest.raises(DataLossError, match="not written by a source that reads JetStream streams"):
        one.latestOffset(offset(1), ALL)


def test_stored_reader_bytes_of_a_trigger_are_kept_by_the_mean_size() -> None:
    link = StandIn(a=Shelf(9))  # payloads of one byte, said to be 100 each
    one = reader(link, maxBytesPerTrigger="350")
    start = one.initialOffset()
    middle = one.latestOffset(start, ALL)
    assert middle == offset(4, began=Place(1, 7))
    assert one.latestOffset(middle, ReadMaxRows(2)) == offset(6)
    tiny = reader(link, maxBytesPerTrigger="1")
    assert tiny.latestOffset(start, ALL) == offset(2)


def test_stored_reader_waits_for_enough_messages_or_long_enough() -> None:
    now = [100.0]
    link = StandIn(a=Shelf(3))
    options = read_options(
        {
            "channel": "a",
            "startingOffsets": "earliest",
            "minOffsetsPerTrigger": "5",
            "maxTriggerDelay": "10s",
        }
    )
    one = StoredStreamReader(options, COLUMNS, link, lambda: now[0])  # type: ignore[arg-type]
    first = one.latestOffset(offset(1), ALL)
    assert first == offset(4)  # the first does not wait, as with Spark's Kafka source
    link.shelves["a"].add(4)  # type: ignore[union-attr]
    now[0] += 9
    assert one.latestOffset(first, ALL) == first
    link.shelves["a"].add(1)  # type: ignore[union-attr]
    assert one.latestOffset(first, ALL) == offset(9)
    link.shelves["a"].add(1)  # type: ignore[union-attr]
    assert one.latestOffset(offset(9), ALL) == offset(9)
    now[0] += 10
    assert one.latestOffset(offset(9), ALL) == offset(10)
    one.prepareForTriggerAvailableNow()
    assert one.latestOffset(offset(8), ALL) == offset(10)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingTimestamp": "4000"}, [4, 5, 6, 7, 8, 9, 10]),
        ({"startingTimestamp": "1970-01-01T00:00:03.5Z", "endingTimestamp": "6000"}, [4, 5]),
        ({"startingOffsetsByTimestamp": '{"a": 9000}', "endingOffsets": '{"a": 10}'}, [9]),
        ({"startingTimestamp": "99000"}, []),
        ({"endingTimestamp": "1"}, []),
    ],
)
def test_stored_table_between_times(options: dict[str, str], expected: list[int]) -> None:
    one = table(StandIn(a=Shelf(10)), **options)
    assert [row["sequence"] for row in read(one, one.partitions())] == expected


def test_stored_reader_time_of_a_channel_not_there_yet_is_its_first_message() -> None:
    one = reader(StandIn(a=None), startingOffsets="earliest")
    assert one.initialOffset() == offset(1, None)
    given = {"channel": "a", "startingTimestamp": "1"}
    later = StoredStreamReader(read_options(given), COLUMNS, StandIn(a=None))  # type: ignore[arg-type]
    assert later.initialOffset() == offset(1, None)


def test_stored_reader_first_sequence_means_nothing_where_messages_are_replaced() -> None:
    shelf = Shelf(10)
    shelf.remove_below(8)
    shelf.keeps_order = False
    one = reader(StandIn(a=shelf))
    assert sequences(one, offset(1), one.latestOffset(offset(1), ALL)) == [8, 9, 10]


def test_stored_table_conditions_of_the_query_narrow_what_is_read() -> None:
    link = StandIn(a=Shelf(10), b=Shelf(10))
    options = read_options({"channel": "a,b", "pushdown": "true"})
    one = FilteringBatchReader(options, COLUMNS, link)  # type: ignore[arg-type]
    conditions = [
        GreaterThan(("sequence",), 3),
        LessThanOrEqual(("timestamp",), datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)),
        EqualTo(("stream",), "a"),
        EqualTo(("data",), b"x"),
    ]
    assert one.pushFilters(conditions) == conditions
    assert [(row["stream"], row["sequence"]) for row in read(one, one.partitions())] == [
        ("a", 4), ("a", 5), ("a", 6), ("a", 7),
    ]  # fmt: skip
    nothing = FilteringBatchReader(options, COLUMNS, link)  # type: ignore[arg-type]
    nothing.pushFilters([EqualTo(("stream",), "c")])
    assert read(nothing, nothing.partitions()) == []


def test_stored_reader_values_of_another_format_are_made_and_bad_ones_named() -> None:
    shelf = Shelf(3)
    shelf.messages = {1: b'{"id": 1}', 2: b"no", 3: b'{"id": 3}'}
    given = {"channel": "a", "valueFormat": "json", "valueSchema": "id int"}
    columns = StructType([StructField("data", StructType([StructField("id", IntegerType())]))])

    def values(**more: str) -> list[Any]:
        one = StoredBatchReader(read_options({**given, **more}), columns, StandIn(a=shelf))  # type: ignore[arg-type]
        return [row["data"] for row in read(one, one.partitions())]

    assert values() == [{"id": 1}, None, {"id": 3}]
    assert values(valueMode="dropmalformed") == [{"id": 1}, {"id": 3}]
    with pytest.raises(ValueFormatError, match=r"sequence 2 of channel a is not JSON .*b'no'"):
        values(valueMode="failfast")
