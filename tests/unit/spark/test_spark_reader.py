"""The stream reader against an embedded server, without a JVM: Spark's calls are made by hand."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from headrace.client.blocking import connect
from headrace.conf.account_options import AuthorizationOptions, Permissions, SubjectPermission, UserOptions
from headrace.errors import UnsupportedError
from headrace.spark import core_reader
from headrace.spark.core_reader import CoreStreamReader
from headrace.spark.errors import CaptureError, DataLossError
from headrace.spark.offsets import CoreOffset
from headrace.spark.options import read_options
from headrace.spark.progress import messages_before
from headrace.spark.schema import COLUMNS
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Make = Callable[..., CoreStreamReader]

ALL = ReadAllAvailable()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def make(server: Server, tmp_path: Path) -> Iterator[Make]:
    made: list[CoreStreamReader] = []

    def reader(schema: StructType = COLUMNS, **options: str) -> CoreStreamReader:
        given = {"subject": "a.>", "url": server.url, "spoolDir": str(tmp_path), **options}
        made.append(CoreStreamReader(read_options(given), schema))
        return made[-1]

    yield reader
    for one in made:
        one.stop()
    assert not list(tmp_path.glob("*capture*"))


def publish(server: Server, count: int, subject: str = "a.b") -> None:
    with connect(server.url) as nc:
        for number in range(count):
            nc.publish(subject, b"%d" % number)
        nc.flush()


def wait_captured(reader: CoreStreamReader, count: int) -> None:
    deadline = time.monotonic() + 10
    while (messages_before(reader.reportLatestOffset()) or 0) < count:
        assert time.monotonic() < deadline, f"{reader.reportLatestOffset()} after 10 s"
        time.sleep(0.002)


def ask_until_it_fails(reader: CoreStreamReader, start: dict[str, Any]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        reader.latestOffset(start, ALL)


def read(reader: CoreStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    far = pickle.loads(pickle.dumps(reader))  # tasks read with a copy that came over the wire
    return [
        row
        for partition in reader.partitions(start, end)
        for batch in far.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def test_reader_gives_every_message_once_in_order(server: Server, make: Make) -> None:
    reader = make()
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    assert reader.partitions(start, start) == []
    publish(server, 1000)
    publish(server, 10, "other")
    wait_captured(reader, 1000)
    middle = reader.latestOffset(start, ReadMaxRows(300))
    assert messages_before(middle) == 300
    end = reader.latestOffset(middle, ALL)
    rows = read(reader, start, middle) + read(reader, middle, end)
    assert [row["data"] for row in rows] == [b"%d" % number for number in range(1000)]
    assert [row["sequence"] for row in rows] == list(range(1, 1001))
    assert {row["subject"] for row in rows} == {"a.b"}
    assert read(reader, start, middle) == rows[:300]


def test_reader_partitions_are_small_and_as_many_as_asked(
    server: Server, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_reader, "ROWS_PER_TASK", 100)
    reader = make(minPartitions="4")
    start = reader.initialOffset()
    publish(server, 1001)
    wait_captured(reader, 1001)
    partitions = reader.partitions(start, reader.latestOffset(start, ALL))
    assert len(partitions) == 4
    assert all(len(pickle.dumps(partition)) < 1000 for partition in partitions)
    rows = [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row["sequence"] for row in rows] == list(range(1, 1002))
    few = CoreOffset.from_json(start)
    assert len(reader.partitions(start, CoreOffset(few.capture, 101).to_json())) == 1


def test_reader_default_limit_comes_from_the_option(make: Make) -> None:
    assert make().getDefaultReadLimit() == ALL
    assert make(maxOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    reader = make()
    with pytest.raises(UnsupportedError, match="ReadMaxBytes"):
        reader.latestOffset(reader.initialOffset(), ReadMaxBytes(1))


def test_reader_of_some_columns_gives_those(server: Server, make: Make) -> None:
    reader = make(StructType([StructField("data", BinaryType()), StructField("sequence", LongType())]))
    start = reader.initialOffset()
    publish(server, 2)
    wait_captured(reader, 2)
    assert read(reader, start, reader.latestOffset(start, ALL)) == [
        {"data": b"0", "sequence": 1},
        {"data": b"1", "sequence": 2},
    ]


def test_reader_several_subjects_and_headers(server: Server, make: Make) -> None:
    reader = make(subject="x, y.*")
    start = reader.initialOffset()
    with connect(server.url) as nc:
        nc.publish("x", b"1", headers={"K": ["v", "w"]}, reply="r")
        nc.publish("y.z", b"2")
        nc.publish("z", b"3")
        nc.flush()
    wait_captured(reader, 2)
    first, second = read(reader, start, reader.latestOffset(start, ALL))
    assert (first["subject"], first["reply"], first["headers"]) == ("x", "r", [("K", ["v", "w"])])
    assert (second["subject"], second["reply"], second["headers"]) == ("y.z", None, None)


def test_readers_of_one_queue_group_share_the_messages(server: Server, make: Make) -> None:
    readers = [make(queue="q"), make(queue="q")]
    starts = [reader.initialOffset() for reader in readers]
    publish(server, 200)
    deadline = time.monotonic() + 10
    while sum(messages_before(reader.reportLatestOffset()) for reader in readers) < 200:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    rows = [
        row["data"]
        for reader, start in zip(readers, starts, strict=True)
        for row in read(reader, start, reader.latestOffset(start, ALL))
    ]
    assert sorted(rows) == sorted(b"%d" % number for number in range(200))


def test_reader_commit_frees_the_spool(server: Server, make: Make) -> None:
    reader = make(spoolMaxBytes="64KiB")
    offset = reader.initialOffset()
    total = 0
    for _round in range(20):
        publish(server, 200)
        total += 200
        wait_captured(reader, total)
        following = reader.latestOffset(offset, ALL)
        assert len(read(reader, offset, following)) == 200
        reader.commit(following)
        offset = following


def test_reader_spool_full_fails_and_names_the_option(server: Server, make: Make) -> None:
    reader = make(spoolMaxBytes="20KiB")
    start = reader.initialOffset()
    publish(server, 5000)
    with pytest.raises(CaptureError, match="spoolMaxBytes"):
        ask_until_it_fails(reader, start)


def test_reader_after_restart_refuses_the_old_offset(make: Make) -> None:
    reader = make()
    reader.initialOffset()
    old = CoreOffset("earlier", 50).to_json()
    with pytest.raises(DataLossError, match=r"capture earlier, up to sequence 49.*failOnDataLoss"):
        reader.latestOffset(old, ALL)
    with pytest.raises(DataLossError):
        reader.partitions(CoreOffset("earlier", 1).to_json(), old)


def test_reader_after_restart_goes_on_if_told_to(server: Server, make: Make) -> None:
    reader = make(failOnDataLoss="false", maxOffsetsPerTrigger="3")
    old = CoreOffset("earlier", 50).to_json()
    assert reader.partitions(CoreOffset("earlier", 1).to_json(), old) == []
    assert reader.latestOffset(old, ALL) == old
    publish(server, 5)
    wait_captured(reader, 49 + 5)
    middle = reader.latestOffset(old, ReadMaxRows(3))
    end = reader.latestOffset(middle, ReadMaxRows(3))
    rows = read(reader, old, middle) + read(reader, middle, end)
    assert [row["sequence"] for row in rows] == [50, 51, 52, 53, 54]
    assert [row["data"] for row in rows] == [b"%d" % number for number in range(5)]
    assert reader.latestOffset(end, ALL) == end
    reader.commit(end)


def test_reader_server_gone_fails_with_the_reason(make: Make) -> None:
    with Server() as server:
        reader = make(url=server.url)
        start = reader.initialOffset()
        publish(server, 3)
        wait_captured(reader, 3)
    with pytest.raises(CaptureError, match=r"listening to a.> at nats://.* ended after 3 messages"):
        ask_until_it_fails(reader, start)


def test_reader_available_now_without_duration_says_what_to_do(make: Make) -> None:
    with pytest.raises(UnsupportedError, match="captureDuration"):
        make().prepareForTriggerAvailableNow()


def test_reader_available_now_freezes_the_target(server: Server, make: Make) -> None:
    reader = make(captureDuration="200ms")
    start = reader.initialOffset()
    publish(server, 10)
    wait_captured(reader, 10)
    reader.prepareForTriggerAvailableNow()
    publish(server, 10)
    wait_captured(reader, 20)
    middle = reader.latestOffset(start, ReadMaxRows(6))
    end = reader.latestOffset(middle, ReadMaxRows(6))
    assert [messages_before(middle), messages_before(end)] == [6, 10]
    assert reader.latestOffset(end, ReadMaxRows(6)) == end


def test_reader_server_unreachable_names_it(make: Make) -> None:
    with pytest.raises(CaptureError, match=r"cannot listen to a.>: cannot connect to nats://127.0.0.1:1"):
        make(url="nats://127.0.0.1:1").initialOffset()


def test_reader_wrong_credentials_say_so(tmp_path: Path) -> None:
    with Server(authorization=AuthorizationOptions(token="right")) as server:
        options = {"subject": "a", "url": server.url, "spoolDir": str(tmp_path)}
        with pytest.raises(CaptureError, match="Authorization Violation"):
            CoreStreamReader(read_options({**options, "token": "wrong"}), COLUMNS).initialOffset()
        reader = CoreStreamReader(read_options({**options, "token": "right"}), COLUMNS)
        reader.initialOffset()
        reader.stop()


def test_reader_without_permission_says_so(tmp_path: Path) -> None:
    only_b = Permissions(subscribe=SubjectPermission(allow=("b",)))
    users = (UserOptions(user="u", password="p", permissions=only_b),)
    with Server(authorization=AuthorizationOptions(users=users)) as server:
        options = {"subject": "a", "url": server.url, "spoolDir": str(tmp_path), "user": "u", "password": "p"}
        with pytest.raises(CaptureError, match='Permissions Violation for Subscription to "a"'):
            CoreStreamReader(read_options(options), COLUMNS).initialOffset()
    assert not list(tmp_path.iterdir())


def test_reader_cut_off_as_a_slow_consumer_fails_with_that_reason(make: Make) -> None:
    listening = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            far, _ = listener.accept()
            with far:
                far.sendall(b'INFO {"max_payload":1000}\r\n')
                for _ in range(2):  # after CONNECT, after SUB
                    while not far.recv(4096).endswith(b"PING\r\n"):
                        pass
                    far.sendall(b"PONG\r\n")
                listening.wait()
                far.sendall(b"MSG a.b 1 1\r\nx\r\n-ERR 'Slow Consumer'\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        reader = make(url=f"nats://127.0.0.1:{listener.getsockname()[1]}")
        start = reader.initialOffset()
        listening.set()
        thread.join()
        with pytest.raises(CaptureError, match=r"ended after 1 messages: the server says: Slow Consumer"):
            ask_until_it_fails(reader, start)


def test_reader_spool_dir_that_cannot_be_made_names_the_option(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match="spoolDir"):
        make(spoolDir=str(tmp_path / "file" / "below")).initialOffset()
