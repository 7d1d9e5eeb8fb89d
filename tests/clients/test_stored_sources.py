"""What the readers of every kind of stored stream must do, against real servers and without a JVM."""

from __future__ import annotations

import logging
import pickle
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from harness.stored_sources import KINDS, GoStream, Source, stored_source
from headrace.client.blocking import connect
from headrace.client.jetstream import DEFAULT_TIMEOUT, WINDOW_BYTES, JetStream
from headrace.spark.datasource import NatsDataSource
from headrace.spark.errors import DataLossError, StoredStreamError
from headrace.spark.options import read_options
from headrace.spark.stored_link import idle
from headrace.spark.stored_reader import link_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL = ReadAllAvailable()


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    with stored_source(request.param, tmp_path) as made:
        yield made
        idle.clear()


def stream(source: Source, **options: str) -> Any:
    found = NatsDataSource({**source.options(), "startingOffsets": "earliest", **options})
    return found.streamReader(found.schema())


def table(source: Source, **options: str) -> Any:
    found = NatsDataSource({**source.options(), **options})
    return found.reader(found.schema())


def rows(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    return [
        row
        for partition in partitions
        for batch in reader.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def numbers(reader: Any, partitions: Any) -> list[int]:
    found = rows(reader, partitions)
    assert all(int(row["data"]) == row["sequence"] for row in found)
    return [row["sequence"] for row in found]


def test_source_gives_every_message_once_in_batches_of_the_limit(source: Source) -> None:
    source.publish(25)
    one = stream(source)
    at = one.initialOffset()
    seen: list[int] = []
    for _ in range(3):
        end = one.latestOffset(at, ReadMaxRows(10))
        seen += numbers(one, one.partitions(at, end))
        at = end
    assert seen == list(range(1, 26))
    assert one.latestOffset(at, ALL) == at


def test_source_tells_what_waits_and_when_the_first_of_it_was_stored(source: Source) -> None:
    source.publish(25)
    one = stream(source)
    start = one.initialOffset()
    end = one.latestOffset(start, ReadMaxRows(10))
    waits = one.reportLatestOffset()["behind"]["a"]
    assert waits["messages"] == 15
    assert isinstance(waits["ms"], int)
    [stored] = [row["timestamp"] for row in rows(one, one.partitions(end, one.latestOffset(end, ALL)))][:1]
    link = link_of(read_options(source.options()))
    found = link.time_at("a", 11, ())
    assert found is not None
    assert found // 1000 == round(stored.timestamp() * 1e6)
    assert link.time_at("a", 26, ()) is None
    one.latestOffset(end, ALL)
    assert one.reportLatestOffset()["behind"] == {"a": {"messages": 0, "ms": 0}}


def test_source_reads_the_same_rows_again_in_another_process_whatever_came_since(source: Source) -> None:
    source.publish(20)
    one = stream(source)
    end = one.latestOffset(one.initialOffset(), ALL)
    plan = one.partitions(one.initialOffset(), end)
    first = rows(one, plan)
    source.publish(20)
    again = pickle.loads(pickle.dumps(stream(source)))
    assert rows(again, again.partitions(one.initialOffset(), end)) == first


def test_source_cuts_a_large_range_into_parts_that_cover_it(source: Source) -> None:
    source.publish(30_000)
    one = table(source, minPartitions="3")
    plan = one.partitions()
    assert len(plan) == 3
    assert numbers(one, plan) == list(range(1, 30_001))


def test_source_columns_say_stream_and_time(source: Source) -> None:
    source.publish(3)
    found = rows(table(source), table(source).partitions())
    assert [row["stream"] for row in found] == ["a"] * 3
    assert found[0]["timestamp"] <= found[1]["timestamp"] <= found[2]["timestamp"]
    assert {row["headers"] for row in found} == {None}
    one = table(source, startingTimestamp=found[1]["timestamp"].isoformat())
    assert [row["sequence"] for row in rows(one, one.partitions())][-2:] == [2, 3]
    late = table(source, startingTimestamp="2100-01-01T00:00:00Z")
    assert rows(late, late.partitions()) == []
    early = table(source, endingTimestamp="2000-01-01T00:00:00Z")
    assert rows(early, early.partitions()) == []


def test_source_that_was_cut_before_it_was_read_is_a_loss(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.publish(20)
    one = stream(source)
    start = one.initialOffset()
    plan = one.partitions(start, one.latestOffset(start, ALL))
    source.keep_last(5)
    text = f"{source.word} a begins at sequence 16 now: 1 to 15 were removed"
    with pytest.raises(DataLossError, match=text):
        rows(one, plan)
    with pytest.raises(DataLossError, match=text):
        one.latestOffset(start, ALL)
    caplog.set_level(logging.WARNING)
    lossy = stream(source, failOnDataLoss="false")
    assert numbers(lossy, lossy.partitions(start, lossy.latestOffset(start, ALL))) == [16, 17, 18, 19, 20]
    assert "going on because failOnDataLoss is false" in caplog.text


def test_source_purged_whole_after_it_was_planned_is_a_loss(source: Source) -> None:
    source.publish(20)
    one = stream(source)
    start = one.initialOffset()
    plan = one.partitions(start, one.latestOffset(start, ALL))
    source.keep_last(0)
    with pytest.raises(DataLossError, match="1 to 20 were removed"):
        rows(one, plan)
    source.publish(1)
    text = "begins at sequence 21 now: 1 to 20 were removed by its limits or a purge before they were read"
    with pytest.raises(DataLossError, match=text):
        one.latestOffset(start, ALL)
    source.keep_last(0)
    assert numbers(table(source), table(source).partitions()) == []


def test_source_deleted_and_made_again_is_noticed(source: Source) -> None:
    source.publish(20)
    one = stream(source)
    start = one.initialOffset()
    end = one.latestOffset(start, ALL)
    plan = one.partitions(start, end)
    source.delete()
    with pytest.raises(DataLossError, match=f"{source.word} a was deleted"):
        rows(one, plan)
    with pytest.raises(DataLossError, match="it had been read up to sequence 20"):
        one.latestOffset(end, ALL)
    lossy = stream(source, failOnDataLoss="false")
    assert lossy.latestOffset(end, ALL) == end, "waits for one of that name"
    source.publish(30)
    text = f"{source.word} a was deleted and made again"
    with pytest.raises(DataLossError, match=text):
        rows(one, plan)
    with pytest.raises(
        DataLossError, match=f"{text} since it was read up to sequence 20; the new one begins"
    ):
        one.latestOffset(end, ALL)
    assert numbers(lossy, lossy.partitions(end, lossy.latestOffset(end, ALL))) == list(range(1, 31))


def test_source_from_a_backup_is_shorter_than_what_was_read(source: Source, tmp_path: Path) -> None:
    source.publish(12)
    source.stop()
    shutil.copytree(source.store, tmp_path / "backup")
    source.start()
    source.publish(8)
    one = stream(source)
    end = one.latestOffset(one.initialOffset(), ALL)
    source.kill()
    shutil.rmtree(source.store)
    shutil.copytree(tmp_path / "backup", source.store)
    source.start()
    text = f"{source.word} a ends at sequence 12, and was read up to 20 before"
    with pytest.raises(DataLossError, match=text):
        one.latestOffset(end, ALL)
    lossy = stream(source, failOnDataLoss="false")
    shorter = lossy.latestOffset(end, ALL)
    assert numbers(lossy, lossy.partitions(end, shorter)) == []
    source.publish(3)
    assert numbers(lossy, lossy.partitions(shorter, lossy.latestOffset(shorter, ALL))) == [13, 14, 15]


def test_source_not_there_yet_is_waited_for_and_no_table(source: Source) -> None:
    one = stream(source)
    start = one.initialOffset()
    assert one.latestOffset(start, ALL) == start
    with pytest.raises(StoredStreamError, match=f"there is no {source.word} a"):
        table(source).partitions()
    source.publish(3)
    assert numbers(one, one.partitions(start, one.latestOffset(start, ALL))) == [1, 2, 3]


def test_source_goes_on_behind_the_last_message_when_its_server_was_killed(source: Source) -> None:
    source.publish(60_000)
    one = table(source, minPartitions="1")
    [partition] = one.partitions()
    parts = one.read(partition)
    seen = next(parts).column("sequence").to_pylist()
    assert len(seen) < 60_000
    source.kill()
    source.start()
    for batch in parts:
        seen += batch.column("sequence").to_pylist()
    assert seen == list(range(1, 60_001))


def test_source_whose_server_stays_away_is_given_up_with_its_name(source: Source) -> None:
    source.publish(1)
    one = stream(source, reconnectTimeout="200ms")
    source.kill()
    idle.clear()
    with pytest.raises(StoredStreamError) as caught:
        one.initialOffset()
    text = str(caught.value)
    assert text.startswith(f"cannot read {source.word} a")
    assert f" at {source.url.rstrip('/')}: cannot connect to" in text
    assert text.endswith("(tried for 0.2 s, option reconnectTimeout)")


# -- what only JetStream has


@pytest.fixture
def go_stream(tmp_path: Path) -> Iterator[Any]:
    made: list[GoStream] = []

    def make(config: str = "", **fields: Any) -> GoStream:
        made.append(GoStream(tmp_path, config, **fields))
        return made[-1]

    yield make
    idle.clear()
    for one in made:
        one.stop()


def consumers(source: GoStream) -> int:
    count: int = source.api("STREAM.INFO.a")["state"]["consumer_count"]
    return count


def test_stream_filters_are_the_servers_and_nothing_stays_behind(go_stream: Any) -> None:
    source = go_stream()
    source.publish(30)
    for given, expected in (("a.1", range(1, 31, 3)), ("a.1,a.2", [n for n in range(1, 31) if n % 3])):
        one = table(source, filterSubjects=given)
        assert numbers(one, one.partitions()) == list(expected)
    idle.clear()
    assert consumers(source) == 0


def test_stream_time_of_the_first_message_that_waits_is_one_of_its_subjects(go_stream: Any) -> None:
    source = go_stream()
    source.publish(9)
    link = link_of(read_options(source.options()))
    assert link.time_at("a", 4, ("a.2",)) == link.time_at("a", 5, ())
    assert link.time_at("a", 4, ("b",)) is None
    source.delete()
    assert link.time_at("a", 4, ()) is None


def test_stream_limits_that_removed_messages_are_a_loss(go_stream: Any) -> None:
    source = go_stream(max_msgs=10)
    source.publish(5)
    one = stream(source)
    start = one.initialOffset()
    source.publish(20)
    with pytest.raises(DataLossError, match="begins at sequence 16 now: 1 to 15 were removed by its limits"):
        one.latestOffset(start, ALL)


def test_stream_that_keeps_the_newest_of_each_subject_loses_nothing(go_stream: Any) -> None:
    source = go_stream(max_msgs_per_subject=1)
    source.publish(30)
    one = stream(source)
    start = one.initialOffset()
    source.publish(3)
    assert numbers(one, one.partitions(start, one.latestOffset(start, ALL))) == [31, 32, 33]


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_stream_whose_messages_go_when_consumed_keeps_them_when_read(go_stream: Any, retention: str) -> None:
    source = go_stream(retention="limits" if retention == "interest" else retention)
    source.publish(0)
    if retention == "interest":
        source.delete()
        config = {"name": "a", "subjects": ["a.>"], "retention": retention, "allow_direct": True}
        source.api("STREAM.CREATE.a", config)
        durable = {"durable_name": "d", "ack_policy": "explicit"}
        source.api("CONSUMER.DURABLE.CREATE.a.d", {"stream_name": "a", "config": durable})
        source._stream = {"retention": retention, "storage": "file"}
    source.publish(10)
    for _ in range(2):
        one = table(source, startingTimestamp="1")
        assert numbers(one, one.partitions()) == list(range(1, 11))


def test_stream_without_room_for_consumers_is_read_with_direct_gets(go_stream: Any) -> None:
    source = go_stream(max_consumers=1)
    source.publish(20)
    pull = {"durable_name": "d", "ack_policy": "explicit"}
    source.api("CONSUMER.DURABLE.CREATE.a.d", {"stream_name": "a", "config": pull})
    one = table(source, filterSubjects="a.0,a.1", startingOffsets='{"a": 5}')
    assert numbers(one, one.partitions()) == [n for n in range(5, 21) if n % 3 != 2]


def test_stream_without_room_for_consumers_nor_direct_gets_is_an_error(go_stream: Any) -> None:
    source = go_stream(max_consumers=1, allow_direct=False)
    source.publish(20)
    pull = {"durable_name": "d", "ack_policy": "explicit"}
    source.api("CONSUMER.DURABLE.CREATE.a.d", {"stream_name": "a", "config": pull})
    with pytest.raises(StoredStreamError, match=r"cannot read stream a at .*allow_direct.*maximum consumers"):
        numbers(table(source), table(source).partitions())


def test_stream_reading_goes_on_when_its_consumer_is_removed(
    go_stream: Any, caplog: pytest.LogCaptureFixture
) -> None:
    source = go_stream()
    source.publish(60_000)
    one = table(source, minPartitions="1")
    parts = one.read(one.partitions()[0])
    seen = next(parts).column("sequence").to_pylist()
    assert len(seen) < 60_000
    [name] = source.api("CONSUMER.NAMES.a")["consumers"]
    source.api(f"CONSUMER.DELETE.a.{name}")
    for batch in parts:
        seen += batch.column("sequence").to_pylist()
    assert seen == list(range(1, 60_001))
    assert "the consumer that reads stream a is gone; trying again" in caplog.text


def test_stream_message_larger_than_a_window_is_read(go_stream: Any) -> None:
    source = go_stream("max_payload: 8MB\n")
    source.publish(1)
    with connect(source.url) as nc:
        nc.request("a.big", b"x" * (6 << 20))
    source.publish(1)
    found = rows(table(source), table(source).partitions())
    assert [len(row["data"]) for row in found] == [1, 6 << 20, 1]


@pytest.mark.parametrize("missing", [0, 1], ids=["full to the byte", "one byte less"])
def test_stream_window_that_is_full_to_the_byte_ends_without_a_word(go_stream: Any, missing: int) -> None:
    """What the server counts of a message: subject, ack subject, headers and payload."""
    source = go_stream("max_payload: 8MB\n")
    source.publish(0)
    ack = f"$JS.ACK.a.headrace-{'0' * 16}.1.1.1.{time.time_ns()}.1"
    sizes = [WINDOW_BYTES - len("a.big") - len(ack) - missing, 7]
    with connect(source.url) as nc:
        for size in sizes:
            nc.request("a.big", b"x" * size)
        begun = time.monotonic()
        found = [list(map(len, batch.payloads)) for batch in JetStream(nc).read("a", 1, 3)]
    assert found == [[size] for size in sizes]
    assert time.monotonic() - begun < DEFAULT_TIMEOUT


def test_stream_wrong_credentials_are_not_tried_again(go_stream: Any) -> None:
    users = "accounts { A { jetstream: enabled, users: [{user: u, password: p}] } }\nno_auth_user: u\n"
    source = go_stream(users)
    source.publish(3)
    with pytest.raises(StoredStreamError, match=r"cannot read stream a at .*Authorization Violation"):
        stream(source, user="u", password="wrong").initialOffset()
    assert numbers(table(source, user="u", password="p"), table(source).partitions()) == [1, 2, 3]


def test_stream_user_without_permission_to_create_consumers_reads_with_direct_gets(go_stream: Any) -> None:
    allowed = '"$JS.API.STREAM.INFO.>", "$JS.API.DIRECT.GET.>"'
    users = (
        "accounts { A { jetstream: enabled, users: [{user: u, password: p}, {user: r, password: p, "
        f'permissions: {{publish: [{allowed}], subscribe: ["_INBOX.r.>"]}}}}] }} }}\nno_auth_user: u\n'
    )
    source = go_stream(users)
    source.publish(20)
    one = table(source, user="r", password="p", inboxPrefix="_INBOX.r", startingTimestamp="1")
    assert numbers(one, one.partitions()) == list(range(1, 21))


def test_stream_of_an_account_without_jetstream_is_given_up(go_stream: Any) -> None:
    source = go_stream("accounts { A { users: [{user: u, password: p}] } }\n")
    with pytest.raises(StoredStreamError, match=r"cannot read stream a at .*\(tried for 0.2 s"):
        stream(source, user="u", password="p", reconnectTimeout="200ms").initialOffset()
