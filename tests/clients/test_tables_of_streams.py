"""Streams and buckets of both servers become tables, and say the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.stored_sources import GoStream, HeadraceStream
from headrace.client.blocking import connect
from headrace.objects.local import LocalStore
from headrace.tables import Table
from headrace.tables.archive import ArchiveReport, archive
from headrace.tables.errors import SourceChanged
from headrace.tables.latest import archive_latest
from headrace.tables.manifest import TableKind
from headrace.tables.source import ServerStreamSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=[GoStream, HeadraceStream], ids=["nats-server", "headrace"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GoStream]:
    made = request.param(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(LocalStore(tmp_path / "table"))


def archived(server: GoStream, table: Table, name: str = "a", **how: Any) -> ArchiveReport:
    with connect(server.url) as connection:
        return archive(table, ServerStreamSource(connection, name), **how)


def rows(table: Table) -> list[dict[str, Any]]:
    return [row for batch in table.batches() for row in batch.to_pylist()]


def sequences(table: Table) -> list[int]:
    return [row["sequence"] for row in rows(table)]


def test_table_follows_its_stream_over_deletes_purges_and_a_kill(server: GoStream, table: Table) -> None:
    server.publish(100)
    assert archived(server, table).rows == 100
    assert [int(row["data"]) for row in rows(table)] == list(range(1, 101))
    server.publish(20)
    server.api("STREAM.MSG.DELETE.a", {"seq": 50})
    server.kill()
    server.start()
    server.keep_last(90)
    report = archived(server, table)
    assert (report.rows, report.missed) == (20, ())
    assert sequences(table) == [n for n in range(30, 121) if n != 50]
    server.delete()
    server.publish(5)
    with pytest.raises(SourceChanged, match="deleted and made again"):
        archived(server, table)


def test_what_limits_took_is_told_of(server: GoStream, table: Table) -> None:
    server.publish(30)
    archived(server, table)
    server.publish(30)
    server.keep_last(10)
    report = archived(server, table)
    assert report.missed == ((31, 50),)
    assert sequences(table) == list(range(51, 61))


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_stream_that_consumers_empty_is_read_with_direct_gets(
    server: GoStream, table: Table, retention: str
) -> None:
    config = {"name": "Q", "subjects": ["q.>"], "retention": retention, "allow_direct": True}
    assert "error" not in server.api("STREAM.CREATE.Q", config)
    consumer = {"durable_name": "w", "ack_policy": "explicit"}
    server.api("CONSUMER.DURABLE.CREATE.Q.w", {"stream_name": "Q", "config": consumer})
    with connect(server.url) as connection:
        for number in range(1, 21):
            connection.request(f"q.{number % 3}", b"%d" % number, timeout=10)
    assert archived(server, table, "Q").rows == 20
    assert sequences(table) == list(range(1, 21))
    assert server.api("STREAM.INFO.Q")["state"]["messages"] == 20


def test_bucket_of_latest_values_and_its_history(server: GoStream, tmp_path: Path) -> None:
    config = {
        "name": "KV_settings", "subjects": ["$KV.settings.>"], "max_msgs_per_subject": 3, "discard": "new",
        "allow_rollup_hdrs": True, "allow_direct": True, "allow_msg_ttl": True,
        "subject_delete_marker_ttl": 3_600_000_000_000,
    }  # fmt: skip
    assert "error" not in server.api("STREAM.CREATE.KV_settings", config)
    latest, history = (Table(LocalStore(tmp_path / name)) for name in ("latest", "history"))

    def put(key: str, value: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): text for name, text in headers.items()} or None
        answer = connection.request(f"$KV.settings.{key}", value, headers=named, timeout=10)
        assert "error" not in json.loads(answer.data), answer.data

    def values() -> dict[str, bytes]:
        archive_latest(latest, source)
        return {row["key"]: row["data"] for row in rows(latest)}

    with connect(server.url) as connection:
        source = ServerStreamSource(connection, "KV_settings")
        for key in ("a", "b", "c", "d"):
            put(key, b"1")
        assert values() == dict.fromkeys("abcd", b"1")
        put("a", b"2")
        put("b", KV_Operation="DEL")
        put("c", KV_Operation="PURGE", Nats_Rollup="sub")
        put("e.f", b"1")
        assert values() == {"a": b"2", "d": b"1", "e.f": b"1"}
        archive(history, source, kind=TableKind.HISTORY)
        server.api("STREAM.PURGE.KV_settings", {"filter": "$KV.settings.d"})
        assert values() == {"a": b"2", "e.f": b"1"}
    operations = [(row["key"], row["operation"], row["revision"]) for row in rows(history)]
    assert operations == [
        ("a", "PUT", 1),
        ("b", "PUT", 2),
        ("d", "PUT", 4),
        ("a", "PUT", 5),
        ("b", "DEL", 6),
        ("c", "PURGE", 7),
        ("e.f", "PUT", 8),
    ]
