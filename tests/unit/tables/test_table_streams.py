"""Streams of a running server, and of its store when it is stopped, as sources of a table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_makers import sequences
from table_streams import Streams

from headrace.cli import jetstream_source
from headrace.client.blocking import connect
from headrace.client.errors import JetStreamError
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.jetstream.assets import stream_log
from headrace.log.port import Limits
from headrace.log.store import log_directory
from headrace.log.store_cipher import store_cipher
from headrace.protocol.rfc3339 import parse_time
from headrace.schemas import metadata
from headrace.tables.archive import ArchiveReport, archive
from headrace.tables.errors import SourceChanged, SourceMissing
from headrace.tables.files import FileLimits
from headrace.tables.source import ServerStreamSource
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.tables import Table


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(jetstream=tmp_path / "store") as server:
        yield server


@pytest.fixture
def streams(server: Server) -> Iterator[Streams]:
    with connect(server.url) as connection:
        yield Streams(connection)


def archived(table: Table, streams: Streams, name: str = "ORDERS", **how: Any) -> ArchiveReport:
    return archive(table, ServerStreamSource(streams.connection, name), **how)


def rows(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.Table.from_batches(table.batches()).to_pylist()
    return found


def offline(directory: Path, table: Table, name: str = "ORDERS", cipher: Any = None) -> ArchiveReport:
    with jetstream_source.opened(directory, cipher) as store:
        record = jetstream_source.stored_streams(store, "$G")[name]
        return archive(table, jetstream_source.log_source(store, "$G", name, record))


def test_rows_are_the_messages_of_the_stream(table: Table, streams: Streams) -> None:
    streams.make()
    streams.publish(1, 5)
    archived(table, streams)
    found = rows(table)
    assert [(row["sequence"], row["subject"], row["data"]) for row in found] == [
        (n, f"orders.{n % 4}", b"%d" % n) for n in range(1, 6)
    ]
    assert {(row["stream"], row["reply"]) for row in found} == {("ORDERS", None)}
    assert [row["headers"] for row in found[:2]] == [None, [("Kind", ["even", "two"])]]
    info = streams.api.ask("STREAM.MSG.GET.ORDERS", {"seq": 3})["message"]
    assert info["time"].startswith(found[2]["timestamp"].strftime("%Y-%m-%dT%H:%M:%S"))
    assert found[2]["timestamp_ns"] % 1000 or found[2]["timestamp_ns"] > 10**18


def test_later_run_adds_what_is_new_and_removes_what_went(table: Table, streams: Streams) -> None:
    streams.make()
    streams.publish(1, 20)
    assert archived(table, streams).rows == 20
    streams.delete(15)
    streams.purge(up_to=6)
    streams.publish(21, 5)

    report = archived(table, streams)

    assert (report.rows, report.removed, report.next, report.missed) == (5, 6, 26, ())
    assert sequences(table) == [n for n in range(6, 26) if n != 15]


def test_messages_that_limits_took_before_they_were_archived_are_told_of(
    table: Table, streams: Streams
) -> None:
    streams.make(max_msgs=10)
    streams.publish(1, 5)
    archived(table, streams)
    streams.publish(6, 25)

    report = archived(table, streams)

    assert report.missed == ((6, 20),)
    assert sequences(table) == list(range(21, 31))


def test_newest_of_each_subject_leave_no_loss_behind(table: Table, streams: Streams) -> None:
    """What was replaced is gone by the stream's own rule: nothing is reported as missed."""
    streams.make(max_msgs_per_subject=1)
    streams.publish(1, 40)
    report = archived(table, streams, retain="forever")
    assert (report.missed, sequences(table)) == ((), [37, 38, 39, 40])
    streams.publish(41, 4)
    assert archived(table, streams).removed == 0, "forever: what was replaced since stays"
    assert sequences(table) == list(range(37, 45))


def test_stream_that_is_not_there_or_made_again_is_refused(table: Table, streams: Streams) -> None:
    with pytest.raises(SourceMissing, match="there is no stream ORDERS"):
        archived(table, streams)
    streams.make()
    streams.publish(1, 5)
    archived(table, streams)
    streams.api.ask("STREAM.DELETE.ORDERS")
    streams.make()
    streams.publish(1, 3)
    with pytest.raises(SourceChanged, match="stream ORDERS was deleted and made again"):
        archived(table, streams)
    assert archived(table, streams, restart=True).rows == 3
    assert sequences(table) == [1, 2, 3]


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_stream_that_consumers_empty_keeps_its_messages(
    table: Table, streams: Streams, retention: str
) -> None:
    """They are read with direct gets: a consumer would take them away."""
    streams.make(retention=retention, allow_direct=True)
    config = {"durable_name": "w", "ack_policy": "explicit"}
    streams.api.ask("CONSUMER.DURABLE.CREATE.ORDERS.w", {"stream_name": "ORDERS", "config": config})
    streams.publish(1, 12)
    assert archived(table, streams).rows == 12
    assert streams.api.ask("STREAM.INFO.ORDERS")["state"]["messages"] == 12


def test_stream_that_nobody_may_read_says_why(table: Table, streams: Streams) -> None:
    streams.make(retention="workqueue")
    streams.publish(1, 2)
    with pytest.raises(JetStreamError, match="allow_direct"):
        archived(table, streams)


def test_sealed_stream_is_archived(table: Table, streams: Streams) -> None:
    streams.make()
    streams.publish(1, 7)
    streams.change(sealed=True)
    assert archived(table, streams).rows == 7


def test_sequences_begin_where_the_stream_says(table: Table, streams: Streams) -> None:
    streams.make(first_seq=1000)
    assert archived(table, streams).rows == 0
    streams.publish(1, 3)
    report = archived(table, streams)
    assert (report.missed, sequences(table)) == ((), [1000, 1001, 1002])


def test_writer_that_is_killed_between_files_goes_on_behind_them(table: Table, streams: Streams) -> None:
    streams.make()
    streams.publish(1, 60)
    limits = FileLimits(file_bytes=1, group_rows=10)
    source = ServerStreamSource(streams.connection, "ORDERS")

    class Killed(BaseException):
        """The end of the process."""

    def end(progress: Any) -> None:
        if progress.rows:
            raise Killed

    class InPages(ServerStreamSource):
        def batches(self, first: int, end: int) -> Any:
            for at in range(first, end, 10):
                yield from super().batches(at, min(at + 10, end))

    with pytest.raises(Killed):
        archive(table, InPages(streams.connection, "ORDERS"), limits=limits, progress=end)
    assert sequences(table) == list(range(1, 11))
    assert archive(table, source).rows == 50
    assert sequences(table) == list(range(1, 61))


def test_store_of_a_stopped_server_goes_on_where_its_server_was(tmp_path: Path, table: Table) -> None:
    """Both say in the same way which stream it is."""
    where = tmp_path / "js"
    with Server(jetstream=where) as server, connect(server.url) as connection:
        streams = Streams(connection)
        streams.make()
        streams.publish(1, 30)
        archived(table, streams)
        streams.publish(31, 5)
        streams.delete(33)
    report = offline(where, table)
    assert (report.rows, report.missed) == (4, ())
    assert sequences(table) == [n for n in range(1, 36) if n != 33]
    with Server(jetstream=where) as server, connect(server.url) as connection:
        streams = Streams(connection)
        streams.publish(36, 2)
        archived(table, streams)
    assert sequences(table) == [n for n in range(1, 38) if n != 33]


def test_server_and_store_say_what_payloads_are(tmp_path: Path, table: Table) -> None:
    pytest.importorskip("fastjsonschema")
    where = tmp_path / "js"
    with Server(jetstream=where) as server, connect(server.url) as connection:
        streams = Streams(connection)
        streams.make(metadata=metadata({"type": "integer"}))
        streams.publish(1, 3)
        archived(table, streams)
        said = table.manifest().payloads
        assert said is not None
        assert said.schema.text == '{"type":"integer"}'
        streams.publish(4, 2)
    assert offline(where, table).rows == 2
    assert table.manifest().payloads == said
    found = [pq.read_table(where)["value"].to_pylist() for where in table.locations()]
    assert found == [[1, 2, 3], [4, 5]]


def test_store_expires_nothing_while_it_is_archived(tmp_path: Path, table: Table) -> None:
    """An age that ended while the server was away takes nothing before it is archived."""
    where = tmp_path / "js"
    with Server(jetstream=where, faults=True) as server, connect(server.url) as connection:
        streams = Streams(connection)
        streams.make(max_age=500_000_000)
        streams.publish(1, 3)
        newest = parse_time(streams.api.ask("STREAM.MSG.GET.ORDERS", {"seq": 3})["message"]["time"])
        server.kill()
    while time.time_ns() < newest + 500_000_000:
        pass
    with jetstream_source.opened(where) as store:
        there = store.open(stream_log("$G", "ORDERS"), Limits(waits_for_expire=True)).state()
    report = offline(where, table)
    assert (report.rows, report.missed) == (there.messages, ())
    assert report.rows


def test_stream_that_never_had_a_message_begins_at_its_first_sequence(tmp_path: Path, table: Table) -> None:
    where = tmp_path / "js"
    with Server(jetstream=where) as server, connect(server.url) as connection:
        Streams(connection).make(first_seq=500)
    assert (offline(where, table).rows, table.manifest().next) == (0, 500)


def test_store_that_is_encrypted_needs_its_key(tmp_path: Path, table: Table) -> None:
    where = tmp_path / "js"
    options = JetStreamOptions(store_dir=str(where), encryption_key="s3cret", encryption_cipher="CHACHA")
    with Server(jetstream=options) as server, connect(server.url) as connection:
        streams = Streams(connection)
        streams.make()
        streams.publish(1, 9)
    with pytest.raises(jetstream_source.StreamSourceError, match="say --key-file"):
        offline(where, table)
    with pytest.raises(jetstream_source.StreamSourceError, match="another key"):
        offline(where, table, cipher=store_cipher("wrong", "CHACHA"))
    assert offline(where, table, cipher=store_cipher("s3cret", "CHACHA")).rows == 9
    assert sequences(table) == list(range(1, 10))


def test_damaged_messages_are_told_of(tmp_path: Path, table: Table) -> None:
    where = tmp_path / "js"
    with Server(jetstream=where) as server, connect(server.url) as connection:
        streams = Streams(connection)
        streams.make()
        streams.publish(1, 50)
    [segment] = log_directory(where / "jetstream", stream_log("$G", "ORDERS")).glob("*.log")
    data = bytearray(segment.read_bytes())
    at = data.index(b"orders.1", data.index(b"orders.1") + 8)  # message 5
    data[at] ^= 0xFF
    segment.write_bytes(data)
    with Server(jetstream=where) as server, connect(server.url) as connection:
        report = archived(table, Streams(connection))
    assert report.damaged == ((5, 5),)
    assert sequences(table) == [n for n in range(1, 51) if n != 5]


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
def test_messages_that_are_still_being_written_are_not_passed_over(
    tmp_path: Path, table: Table, retention: str
) -> None:
    """The state of a stream counts them before they are on disk, and before anybody can read them."""
    with (
        Server(jetstream=tmp_path / "js", faults=True) as server,
        connect(server.url) as connection,
        connect(server.url) as other,
    ):
        streams = Streams(connection)
        streams.make(retention=retention, allow_direct=True)
        streams.publish(1, 5)
        assert server.disk is not None
        server.disk.sync_seconds = 0.3
        for number in range(6, 10):
            other.publish("orders.new", b"%d" % number)
            other.flush(10)
            archived(table, streams)
        server.disk.sync_seconds = 0.0
        streams.publish(10, 1)
        archived(table, streams)
    assert sequences(table) == list(range(1, 11))
