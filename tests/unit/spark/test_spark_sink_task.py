"""What a task of the sink does against real servers, without a JVM: exactly once, by every way to fail."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from harness.cutting_proxy import Cut, CuttingProxy
from harness.processes import NATS_SERVER, SIDES, ServerProcess
from headrace.client.blocking import connect
from headrace.client.errors import ConnectionLostError
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.replay import replay
from headrace.conf.streaming_options import StreamingOptions
from headrace.spark import sink
from headrace.spark.errors import RowError, SinkError
from headrace.spark.sink import NatsBatchWriter, SinkCommit, SinkTask, TaskSurroundings
from headrace.spark.sink_options import read_sink_options
from headrace.spark.sink_rows import RowsIdentity
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.clients

QUERY = "5c3f"
PROBE = b"probe"


@pytest.fixture(scope="module", params=list(SIDES))
def jetstream(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server with JetStream; every test has streams of its own."""
    folder = tmp_path_factory.mktemp("jetstream")
    with ServerProcess(SIDES[request.param], folder, "-js", "-sd", str(folder / "store")) as server:
        yield server


class Stream:
    """A stream of the test's own and what is in it."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.name = name
        self.prefix = name.lower()

    def make(self, **config: Any) -> None:
        with connect(self.url) as nc:
            given = {"name": self.name, "subjects": [f"{self.prefix}.>"], **config}
            JetStreamApi(nc).ask(f"STREAM.CREATE.{self.name}", given)

    def change(self, verb: str, request: dict[str, Any] | None = None) -> None:
        with connect(self.url) as nc:
            JetStreamApi(nc).ask(f"STREAM.{verb}.{self.name}", request)

    def payloads(self) -> list[bytes]:
        with connect(self.url) as nc:
            inbox = f"_INBOX.{secrets.token_hex(8)}"  # consumers of earlier calls are still there
            nc.subscribe(inbox)
            api = JetStreamApi(nc)
            api.ask(
                f"CONSUMER.CREATE.{self.name}",
                {"stream_name": self.name, "config": {"deliver_subject": inbox, "ack_policy": "none"}},
            )
            found: list[bytes] = []
            wanted = int(api.ask(f"STREAM.INFO.{self.name}")["state"]["messages"])
            while len(found) < wanted:
                found += nc.receive(5).payloads
            return [data for data in found if data != PROBE]

    def consumers(self) -> int:
        with connect(self.url) as nc:
            return int(JetStreamApi(nc).ask(f"STREAM.INFO.{self.name}")["state"]["consumer_count"])

    def batches(self, first: int, last: int, size: int = 100) -> list[pa.RecordBatch]:
        return [numbers(self.prefix, at, min(at + size - 1, last)) for at in range(first, last + 1, size)]


def numbers(prefix: str, first: int, last: int) -> pa.RecordBatch:
    values = range(first, last + 1)
    return pa.record_batch(
        {
            "subject": [f"{prefix}.{value % 3}" for value in values],
            "data": [b"%d" % value for value in values],
            "id": [f"id-{value}" for value in values],
        }
    )


@pytest.fixture
def stream(jetstream: ServerProcess, request: pytest.FixtureRequest) -> Stream:
    made = Stream(jetstream.url, request.node.originalname.removeprefix("test_").upper())
    made.make()
    return made


class Clock:
    """The time of a task; a pause passes at once."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def task(
    stream: Stream, partition: int = 0, batch: int = 1, token: str = "run1", url: str = "", **options: str
) -> SinkTask:
    given = {"stream": stream.name, "url": url or stream.url, "positionalIds": "true", **options}
    return make_task(given, RowsIdentity(f"{QUERY}{stream.name}", batch, partition), token)


def make_task(given: dict[str, str], identity: RowsIdentity, token: str = "run1") -> SinkTask:
    chosen = read_sink_options({key: value for key, value in given.items() if value})
    clock = Clock()
    world = TaskSurroundings(
        lambda: connect(given["url"], chosen.server.connect_options()),
        lambda connection: connection.close(),
        clock,
        clock.pause,
    )
    return SinkTask(chosen, identity, token, world)


def expected(first: int, last: int) -> list[bytes]:
    return [b"%d" % value for value in range(first, last + 1)]


def test_sink_rows_are_stored_in_order_with_ids(stream: Stream) -> None:
    done = task(stream).run(iter(stream.batches(1, 250)))
    assert done == SinkCommit(stored=250)
    assert stream.payloads() == expected(1, 250)
    with connect(stream.url) as nc:
        api = JetStreamApi(nc)
        ids, count = api.stored_ids(api.stream(stream.name), 1)
    assert count == 250
    assert b"%b/1/0/249" % f"{QUERY}{stream.name}".encode() in ids


def test_sink_task_tried_again_adds_only_what_is_missing(stream: Stream) -> None:
    short(stream)

    def dying() -> Iterator[pa.RecordBatch]:
        yield from stream.batches(1, 300)
        raise RuntimeError("the executor dies")

    with pytest.raises(RuntimeError):
        task(stream).run(dying())
    outlast(stream)
    done = task(stream).run(iter(stream.batches(1, 500)))
    assert done.stored + done.duplicates == 500
    assert done.duplicates >= 1
    assert stream.consumers() == 0
    assert stream.payloads() == expected(1, 500)


def short(stream: Stream) -> None:
    """The shortest duplicate window there is, so that the server's memory does not do the work."""
    stream.change(
        "UPDATE", {"name": stream.name, "subjects": [f"{stream.prefix}.>"], "duplicate_window": 100_000_000}
    )


def outlast(stream: Stream) -> None:
    """Return when the server no longer knows an id that it was told before: the window is over."""
    with connect(stream.url) as nc:
        subject, headers = f"{stream.prefix}.probe", {"Nats-Msg-Id": "probe"}
        seen = 0
        while seen < 2:
            answer = json.loads(nc.request(subject, PROBE, headers=headers).data)
            seen += not answer.get("duplicate")


@pytest.mark.parametrize("ids", [{"positionalIds": ""}], ids=["columns"])
@pytest.mark.parametrize("column", ["idColumn", "keyColumns"])
def test_sink_query_restarted_after_the_window_adds_nothing(
    jetstream: ServerProcess, ids: dict[str, str], column: str
) -> None:
    stream = Stream(jetstream.url, f"RESTART_{column}")
    stream.make(duplicate_window=100_000_000)
    options = {**ids, column: "id"}
    task(stream, 0, **options).run(iter(stream.batches(1, 150)))
    task(stream, 1, **options).run(iter(stream.batches(151, 200)))
    with connect(stream.url) as nc:
        for _ in range(20):  # what others publish meanwhile is neither taken for ours nor in the way
            nc.request(f"{stream.prefix}.other", b"other")
    outlast(stream)
    # After a shuffle the rows come in other partitions, and there are more of them.
    halves = [stream.batches(101, 200), stream.batches(1, 100), stream.batches(201, 210)]
    done = [task(stream, n, token="run2", **options).run(iter(rows)) for n, rows in enumerate(halves)]
    assert [(one.stored, one.duplicates) for one in done] == [(0, 100), (0, 100), (10, 0)]
    found = stream.payloads()
    assert sorted(set(found) - {b"other"}, key=int) == expected(1, 210)
    assert len(found) == 230


def test_sink_attempt_that_was_overtaken_ends(stream: Stream) -> None:
    """Spark may start a task anew while the old one, cut off from the driver, still runs."""
    old = task(stream)

    def rows() -> Iterator[pa.RecordBatch]:
        first, second, third = stream.batches(1, 300)
        yield first
        old._world.clock.now += 31  # type: ignore[attr-defined]  # a quarter of the window is 30 s
        yield second
        assert task(stream).run(iter(stream.batches(1, 300))).stored >= 100
        old._world.clock.now += 31  # type: ignore[attr-defined]
        yield third
        raise AssertionError("it went on")

    with pytest.raises(SinkError, match="another attempt of partition 0 of batch 1 has begun"):
        old.run(rows())
    assert sorted(map(int, stream.payloads())) == list(range(1, 301))


def test_sink_empty_partition_is_done_and_gives_its_connection_back(stream: Stream) -> None:
    assert task(stream).run(iter(())) == SinkCommit()
    assert task(stream).run(iter(stream.batches(1, 0, 1))) == SinkCommit()
    assert stream.payloads() == []


def test_sink_same_key_in_two_partitions_is_an_error(stream: Stream) -> None:
    keyed = {"positionalIds": "", "keyColumns": "id"}
    task(stream, 0, **keyed).run(iter(stream.batches(1, 10)))
    with pytest.raises(SinkError, match="1 rows of this micro-batch have the same id as rows of other part"):
        task(stream, 1, **keyed).run(iter(stream.batches(10, 19)))


def test_sink_write_without_a_name_leaves_no_records(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"stream": stream.name, "url": stream.url, "positionalIds": "true", "batchBucket": stream.name}
    writer = NatsBatchWriter(read_sink_options(given))
    writer.commit([])  # no task has begun: there is no bucket
    make_task(given, RowsIdentity(writer.token, 0, 0), writer.token).run(iter(stream.batches(1, 10)))
    make_task({**given, "writeId": "mine"}, RowsIdentity("mine", 0, 0)).run(iter(stream.batches(1, 10)))
    with connect(stream.url) as nc:
        api = JetStreamApi(nc)
        records = lambda: api.ask(f"STREAM.INFO.KV_{stream.name}")["state"]["messages"]  # noqa: E731
        assert records() == 4
        writer.commit([SinkCommit(stored=10, dropped=1), None])
        assert records() == 2
        NatsBatchWriter(read_sink_options({**given, "writeId": "mine"})).abort([None])
        assert records() == 2
    assert "1 malformed rows were left out" in caplog.text
    NatsBatchWriter(read_sink_options({**given, "url": "nats://127.0.0.1:1"})).abort([])
    assert "keeps the records of write" in caplog.text
    sink._idle.clear()


def test_sink_next_batch_is_new_and_an_older_one_is_refused(stream: Stream) -> None:
    for batch in (1, 2):
        assert task(stream, batch=batch).run(iter(stream.batches(1, 10))).stored == 10
    with pytest.raises(SinkError, match="batch 2 of the same query was begun before"):
        task(stream, batch=1).run(iter(stream.batches(1, 10)))


def test_sink_stream_made_again_is_written_anew(stream: Stream) -> None:
    assert task(stream).run(iter(stream.batches(1, 10))).stored == 10
    stream.change("DELETE")
    stream.make()
    assert task(stream, token="run2").run(iter(stream.batches(1, 10))).stored == 10


def test_sink_messages_removed_before_a_restart_end_it_once_the_window_is_over(stream: Stream) -> None:
    assert task(stream).run(iter(stream.batches(1, 10))).stored == 10
    stream.change("PURGE", {"keep": 3})
    within = task(stream, token="run2").run(iter(stream.batches(1, 10)))
    assert (within.stored, within.duplicates) == (0, 10)
    short(stream)
    outlast(stream)
    with pytest.raises(SinkError, match="duplicate window is over") as caught:
        task(stream, token="run3").run(iter(stream.batches(1, 10)))
    assert "at-least-once" in str(caught.value)


def test_sink_work_queue_relies_on_the_window_and_says_so_when_it_is_over(jetstream: ServerProcess) -> None:
    stream = Stream(jetstream.url, "QUEUE")
    stream.make(retention="workqueue")
    assert task(stream).run(iter(stream.batches(1, 10))).stored == 10
    again = task(stream, token="run2").run(iter(stream.batches(1, 10)))
    assert (again.stored, again.duplicates) == (0, 10)
    late = task(stream, token="run3")

    def slow() -> Iterator[pa.RecordBatch]:
        yield stream.batches(1, 5)[0]
        late._world.clock.now += 200  # type: ignore[attr-defined]
        yield stream.batches(6, 10)[0]

    with pytest.raises(SinkError, match="duplicate window is over"):
        late.run(slow())


@pytest.mark.parametrize(
    "cuts",
    [
        [Cut(from_client=20_000)],
        [Cut(from_server=9_000)],
        [Cut(from_server=9_000), Cut(from_client=12_000), Cut(from_server=30_000)],
        [Cut(from_client=900), Cut(from_server=1_500)],
    ],
    ids=["messages cut", "acks lost", "again and again", "while it begins"],
)
def test_sink_connection_cut_in_the_middle_stores_every_row_once(
    jetstream: ServerProcess, cuts: list[Cut], request: pytest.FixtureRequest
) -> None:
    stream = Stream(jetstream.url, f"CUT{abs(hash(request.node.name))}")
    stream.make(duplicate_window=100_000_000)
    with CuttingProxy(jetstream.port, *cuts) as proxy:
        done = task(stream, url=proxy.url, maxInFlight="256").run(iter(stream.batches(1, 2000)))
        assert proxy.connections > len(cuts)
    assert done.stored + done.duplicates == 2000
    assert sorted(map(int, stream.payloads())) == list(range(1, 2001))


def test_sink_server_killed_and_started_again_stores_every_row_once(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    server = ServerProcess(NATS_SERVER, tmp_path, "-js", "-sd", store)
    port = server.port
    stream = Stream(server.url, "KILLED")
    stream.make()
    running = [server]

    def rows() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(stream.batches(1, 3000)):
            if number in (10, 20):
                running[-1].kill()
                listen = ("-a", "127.0.0.1", "-p", str(port))
                running.append(ServerProcess(NATS_SERVER, tmp_path, "-js", "-sd", store, listen=listen))
            yield batch

    try:
        done = task(stream, maxInFlight="64").run(rows())
        assert done.stored + done.duplicates == 3000
        assert sorted(map(int, stream.payloads())) == list(range(1, 3001))
    finally:
        running[-1].stop()


def test_sink_at_least_once_has_neither_ids_nor_records(stream: Stream) -> None:
    options = {"positionalIds": "", "deliveryGuarantee": "at-least-once"}
    for _ in range(2):
        assert task(stream, **options).run(iter(stream.batches(1, 10))).stored == 10
    assert stream.payloads() == expected(1, 10) * 2


def test_sink_bad_targets_are_named(jetstream: ServerProcess, stream: Stream) -> None:
    with pytest.raises(SinkError, match="there is no stream NOPE at nats://127"):
        task(Stream(jetstream.url, "NOPE")).run(iter(()))
    elsewhere = pa.record_batch({"subject": ["elsewhere.a"], "data": [b"x"]})
    with pytest.raises(RowError, match=r"'elsewhere\.a' does not belong to stream"):
        task(stream).run(iter([elsewhere]))
    full = Stream(jetstream.url, "FULL")
    full.make(max_msgs=5, discard="new")
    with pytest.raises(SinkError, match=r"maximum messages exceeded.*5 messages of this task are stored"):
        task(full).run(iter(full.batches(1, 10)))
    deaf = Stream(jetstream.url, "DEAF")
    deaf.make(no_ack=True)
    with pytest.raises(SinkError, match="no_ack"):
        task(deaf).run(iter(()))


def test_sink_message_larger_than_stream_or_server_takes(jetstream: ServerProcess) -> None:
    small = Stream(jetstream.url, "SMALL")
    small.make(max_msg_size=200)
    rows = pa.record_batch({"subject": ["small.a", "small.b"], "data": [b"x", b"x" * 200]})
    with pytest.raises(
        RowError, match=r"row 1 of partition 0: columns data and headers: a message of \d+ bytes"
    ):
        task(small).run(iter([rows]))
    assert task(small, mode="dropmalformed").run(iter([rows])) == SinkCommit(stored=1, dropped=1)


def test_sink_wrong_credentials_and_a_server_that_is_not_there(tmp_path: Path) -> None:
    identity = RowsIdentity("q", 0, 0)
    given = {"stream": "S", "positionalIds": "true", "reconnectTimeout": "3s"}
    with pytest.raises(SinkError, match=r"cannot write to stream S at nats://127.0.0.1:1: .*tried for 3 s"):
        make_task({**given, "url": "nats://127.0.0.1:1"}, identity).run(iter(()))
    with (
        ServerProcess(NATS_SERVER, tmp_path, "--auth", "right") as closed,
        pytest.raises(SinkError, match="Authorization Violation"),
    ):
        make_task({**given, "url": closed.url, "token": "wrong"}, identity).run(iter(()))
    with Server() as server, pytest.raises(SinkError, match="no JetStream answers"):
        make_task({**given, "url": server.url}, identity).run(iter(()))


def test_sink_core_subjects_reach_whoever_listens_with_headers_and_reply() -> None:
    with Server() as server, connect(server.url) as listener:
        listener.subscribe("core.>")
        listener.flush()
        rows = pa.record_batch(
            {
                "subject": ["core.a", "core.b"],
                "data": ["one", "two"],
                "reply": [None, "answer.here"],
                "headers": pa.array([None, [("K", ["v", "w"])]], pa.map_(pa.string(), pa.list_(pa.string()))),
            }
        )
        done = make_task({"target": "subject", "url": server.url}, RowsIdentity("q", 0, 0)).run(iter([rows]))
        assert done.stored == 2
        got = list(listener.messages(1))
    assert [(one.subject, one.data, one.reply, one.headers) for one in got] == [
        ("core.a", b"one", None, {}),
        ("core.b", b"two", "answer.here", {"K": ["v", "w"]}),
    ]


def read_channel(url: str, channel: str) -> list[bytes]:
    with connect(url) as nc:
        return [data for batch in replay(nc, "mine", channel) for data in batch.payloads]


def test_sink_channels_take_every_row_and_the_client_leaves() -> None:
    with Server(streaming=StreamingOptions(cluster_id="mine"), monitoring=True) as server:
        given = {"channel": "orders", "clusterId": "mine", "url": server.url}
        done = make_task(given, RowsIdentity("q", 0, 0)).run(
            iter([numbers("x", 1, 900), numbers("x", 901, 1500)])
        )
        assert done == SinkCommit(stored=1500)
        assert read_channel(server.url, "orders") == expected(1, 1500)
        by_row = {"target": "channel", "clusterId": "mine", "url": server.url}
        make_task(by_row, RowsIdentity("q", 0, 0)).run(iter([numbers("y", 0, 5)]))
        assert read_channel(server.url, "y.1") == [b"1", b"4"]
        empty = pa.record_batch({"data": [b"", b"x" * 300]})
        make_task({**given, "channel": "edge"}, RowsIdentity("q", 0, 0)).run(iter([empty]))
        assert read_channel(server.url, "edge") == [b"", b"x" * 300]


@pytest.mark.parametrize("cut", [Cut(from_server=6_000), Cut(from_client=20_000)], ids=["acks", "messages"])
def test_sink_channel_connection_cut_stores_every_row_at_least_once(cut: Cut) -> None:
    with (
        Server(streaming=StreamingOptions(cluster_id="mine")) as server,
        CuttingProxy(server.port, cut) as proxy,
    ):
        given = {"channel": "a", "clusterId": "mine", "url": proxy.url, "maxInFlight": "64"}
        done = make_task(given, RowsIdentity("q", 0, 0)).run(iter([numbers("x", 1, 1000)]))
        assert done.stored == 1000
        assert done.resent > 0
        assert set(read_channel(server.url, "a")) == set(expected(1, 1000))


def test_sink_channel_without_streaming_server_is_named() -> None:
    with Server() as server:
        given = {"channel": "a", "clusterId": "mine", "url": server.url, "reconnectTimeout": "2s"}
        with pytest.raises(SinkError, match="no streaming server of cluster mine is there"):
            make_task(given, RowsIdentity("q", 0, 0)).run(iter([numbers("x", 1, 2)]))


def test_sink_streaming_server_that_forgot_the_client_is_told_again() -> None:
    with Server(streaming=StreamingOptions(cluster_id="mine")) as first:
        servers = [first]

        def open_one() -> Any:
            return connect(servers[-1].url)

        given = {"channel": "a", "clusterId": "mine", "url": first.url}
        clock = Clock()
        world = TaskSurroundings(open_one, lambda connection: connection.close(), clock, clock.pause)
        writing = SinkTask(read_sink_options(given), RowsIdentity("q", 0, 0), "t", world)
        with Server(streaming=StreamingOptions(cluster_id="mine")) as second:

            def rows() -> Iterator[pa.RecordBatch]:
                yield numbers("x", 1, 10)
                servers.append(second)
                break_line(writing)
                yield numbers("x", 11, 20)

            done = writing.run(rows())
            assert done.stored == 20
            assert read_channel(second.url, "a") == expected(1, 20)  # none had left for the first one yet


def break_line(task: SinkTask) -> None:
    pipeline = task.pipeline
    assert pipeline is not None
    assert pipeline.connection is not None
    pipeline.connection._lose(ConnectionLostError("cut by the test"))
