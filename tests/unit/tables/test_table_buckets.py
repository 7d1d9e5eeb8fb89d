"""Key-value buckets as tables: of their latest values, and of their history."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from table_makers import START, Unsynced
from table_streams import Streams

from headrace.client.blocking import connect
from headrace.log.memory import MemoryLog
from headrace.log.port import Limits, NewMessage
from headrace.objects.local import LocalStore
from headrace.tables import Table
from headrace.tables.archive import ArchiveReport, archive
from headrace.tables.errors import SourceChanged, SourceMissing, TableConflict
from headrace.tables.files import FileLimits
from headrace.tables.latest import archive_latest
from headrace.tables.manifest import TableKind
from headrace.tables.rewrite import compact
from headrace.tables.source import LogSource, ServerStreamSource
from headrace.tables.verify import verify
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DELETED = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
PURGED = b"NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n\r\n"
EXPIRED = b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n\r\n"
SMALL = FileLimits(file_bytes=1, group_rows=4)


class Bucket(LogSource):
    """A bucket in memory that keeps some values of each key; times are START and up."""

    def __init__(self, history: int = 1) -> None:
        self.log = MemoryLog(Limits(max_messages_per_subject=history))
        self.created_ns = 7
        self._times = count(START)
        self.on_batch: Callable[[], object] = lambda: None
        self.on_look: Callable[[], object] = lambda: None
        self.looks = 0
        super().__init__(self.log, "KV_settings", 7, keeps_order=False)

    def put(self, **values: bytes | str) -> None:
        for key, value in values.items():
            self.store(key, value if isinstance(value, bytes) else value.encode())

    def store(self, key: str, value: bytes = b"", headers: bytes = b"") -> None:
        subject = f"$KV.settings.{key}".encode()
        self.log.append([NewMessage(subject, value, b"", headers, next(self._times))])

    def state(self) -> Any:
        self._created_ns = self.created_ns
        return super().state()

    def batches(self, first: int, end: int) -> Any:
        yield from super().batches(first, end)
        self.on_batch()

    def present(self, first: int, end: int) -> Any:
        self.looks += 1
        self.on_look()
        yield from super().batches(first, end)


def values(table: Table) -> dict[str, bytes]:
    found = rows(table)
    assert len({row["key"] for row in found}) == len(found), "a key is there once"
    assert [row["revision"] for row in found] == [row["sequence"] for row in found]
    assert [row["sequence"] for row in found] == sorted(row["sequence"] for row in found)
    return {row["key"]: row["data"] for row in found}


def rows(table: Table) -> list[dict[str, Any]]:
    batches = list(table.batches())
    found: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist() if batches else []
    return found


def latest(table: Table, bucket: Any, **how: Any) -> ArchiveReport:
    return archive_latest(table, bucket, **how)


# -- latest values


@pytest.mark.parametrize("history", [1, 5])
def test_row_for_each_key_that_has_a_value(table: Table, history: int) -> None:
    bucket = Bucket(history)
    bucket.put(a="1", b="1", c="1")
    assert latest(table, bucket).rows == 3
    assert values(table) == {"a": b"1", "b": b"1", "c": b"1"}
    bucket.put(a="2", d="1")
    bucket.put(a="3")
    bucket.store("b", headers=DELETED)
    bucket.store("c", headers=PURGED)
    report = latest(table, bucket)
    assert (report.rows, report.removed, report.next) == (2, 3, 9)
    assert values(table) == {"a": b"3", "d": b"1"}
    assert verify(table) == []
    bucket.put(c="again")
    latest(table, bucket)
    assert values(table) == {"a": b"3", "d": b"1", "c": b"again"}


def test_keys_of_several_words_and_values_that_were_never_put_alone(table: Table) -> None:
    bucket = Bucket(5)
    bucket.store("eu.berlin.mode", b"x")
    bucket.store("gone", headers=DELETED)
    bucket.store("expired", b"1")
    bucket.store("expired", headers=EXPIRED)
    latest(table, bucket)
    assert values(table) == {"eu.berlin.mode": b"x"}
    [row] = rows(table)
    assert (row["stream"], row["subject"]) == ("KV_settings", "$KV.settings.eu.berlin.mode")


def test_run_with_nothing_new_writes_nothing_and_reads_nothing(table: Table) -> None:
    bucket = Bucket()
    bucket.put(a="1", b="2")
    latest(table, bucket)
    before, looks = table.manifest(), bucket.looks
    assert latest(table, bucket).rows == 0
    assert (table.manifest(), bucket.looks) == (before, looks)


def test_keys_that_go_without_a_marker_leave_the_table(table: Table) -> None:
    """Ages, TTL and purges by an administrator leave nothing that could be read: the bucket is compared."""
    bucket = Bucket(3)
    bucket.put(a="1", b="1", c="1")
    latest(table, bucket)
    bucket.log.delete(2)
    assert latest(table, bucket).removed == 1
    assert values(table) == {"a": b"1", "c": b"1"}
    bucket.log.purge(up_to=4)
    assert latest(table, bucket).removed == 2
    assert (values(table), table.locations()) == ({}, [])


def test_replaced_values_stay_aside_and_deleted_ones_go_for_good(table: Table, directory: Path) -> None:
    bucket = Bucket()
    bucket.put(a="1", b="1")
    latest(table, bucket)
    reader = table.batches()
    first = next(reader)
    bucket.put(a="2")
    latest(table, bucket)
    aside = directory / "_headrace" / "replaced"
    assert len(list(aside.iterdir())) == 1, "for readers that began before"
    assert first.column("data").to_pylist() == [b"1", b"1"]
    bucket.store("b", headers=PURGED)
    latest(table, bucket)
    assert not list(aside.iterdir()), "it had the value that was purged"
    assert values(table) == {"a": b"2"}


def test_values_that_come_while_a_run_reads_are_in_its_version(table: Table) -> None:
    """With one value a key, the old one is gone before it is read: the key must not be missing for that."""
    bucket = Bucket()
    bucket.put(a="1", b="1")
    more = iter([{"a": "2"}, {"b": "2", "c": "1"}])
    bucket.on_batch = lambda: bucket.put(**next(more, {}))
    latest(table, bucket)
    assert values(table) == {"a": b"2", "b": b"2", "c": b"1"}


def test_value_that_is_replaced_while_a_run_compares_is_not_taken_for_removed(table: Table) -> None:
    bucket = Bucket()
    bucket.put(a="1", b="1")
    latest(table, bucket)
    bucket.put(c="1")
    more = iter([{"a": "2"}])
    bucket.on_look = lambda: bucket.put(**next(more, {}))
    latest(table, bucket)
    assert values(table) == {"a": b"2", "b": b"1", "c": b"1"}


def test_bucket_that_never_rests_is_caught_up_with_later(table: Table) -> None:
    bucket, numbers = Bucket(), count()
    bucket.put(a="1")
    bucket.on_batch = lambda: bucket.put(busy=str(next(numbers)))
    latest(table, bucket)
    assert values(table)["a"] == b"1"
    bucket.on_batch = lambda: None
    latest(table, bucket)
    last = next(numbers) - 1
    assert values(table) == {"a": b"1", "busy": b"%d" % last}


def test_many_files_and_a_compaction_between(table: Table) -> None:
    bucket = Bucket(2)
    for turn in range(6):
        for key in range(20):
            bucket.put(**{f"k{(key * 7 + turn) % 25}": f"{turn}.{key}"})
        latest(table, bucket, limits=SMALL)
        if turn == 3:
            with table.writing() as writer:
                compact(writer)
        expected = {
            key: bucket.log.last(f"$KV.settings.{key}".encode()).payload  # type: ignore[union-attr]
            for key in {f"k{n}" for n in range(25)}
            if bucket.log.last(f"$KV.settings.{key}".encode()) is not None
        }
        assert values(table) == expected
        assert verify(table) == []


def test_one_version_has_all_of_a_run(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket()
    bucket.put(a="1", b="1", c="1")
    latest(table, bucket)
    bucket.put(a="2", b="2")
    bucket.store("c", headers=DELETED)
    seen: list[dict[str, bytes]] = []
    create = table.store.create

    def look(*arguments: Any) -> None:
        create(*arguments)
        seen.append(values(table))

    monkeypatch.setattr(table.store, "create", look)
    latest(table, bucket)
    assert seen
    assert all(one == {"a": b"2", "b": b"2"} for one in seen)


def test_run_that_ends_before_its_version_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each change of a file: what was there stays, and the next run has all."""

    class Killed(BaseException):
        """The end of the process."""

    def bucket_now() -> Bucket:
        bucket = Bucket()
        bucket.put(a="1", b="1")
        return bucket

    for number in count():
        store = LocalStore(tmp_path / str(number), Unsynced())
        table, bucket = Table(store), bucket_now()
        latest(table, bucket)
        bucket.put(a="2", c="1")
        calls = iter(range(number))

        def call(*arguments: Any, calls: Any = calls, create: Any = store.create, **how: Any) -> Any:
            if next(calls, None) is None:
                raise Killed
            return create(*arguments, **how)

        def remove(*arguments: Any, calls: Any = calls, delete: Any = store.delete) -> Any:
            if next(calls, None) is None:
                raise Killed
            return delete(*arguments)

        monkeypatch.setattr(store, "create", call)
        monkeypatch.setattr(store, "delete", remove)
        try:
            latest(table, bucket)
            was_whole = True
        except Killed:
            was_whole = False
        monkeypatch.undo()
        assert values(table) in ({"a": b"1", "b": b"1"}, {"a": b"2", "b": b"1", "c": b"1"})
        latest(table, bucket)
        assert values(table) == {"a": b"2", "b": b"1", "c": b"1"}
        if was_whole:
            break
    assert number > 1


def test_archiver_that_was_slower_drops_its_files(table: Table, directory: Path) -> None:
    bucket = Bucket()
    bucket.put(a="1")
    latest(table, bucket)
    bucket.put(b="1")

    class Unlocked(LocalStore):
        @contextmanager
        def lock(self) -> Iterator[bool]:
            yield False  # as in an object store

    table = Table(Unlocked(directory, Unsynced()))

    def other() -> None:
        bucket.on_batch = lambda: None
        latest(table, bucket)

    bucket.on_batch = other
    with pytest.raises(TableConflict, match="another archiver was quicker"):
        latest(table, bucket)
    assert values(table) == {"a": b"1", "b": b"1"}
    assert len(list(directory.glob("*.parquet"))) == len(table.manifest().files)


def test_bucket_that_is_not_there_or_made_again(table: Table) -> None:
    bucket = Bucket()
    bucket.put(a="1")
    latest(table, bucket)
    bucket.created_ns = 8
    with pytest.raises(SourceChanged, match="was deleted and made again"):
        latest(table, bucket)
    latest(table, bucket, restart=True)
    assert (values(table), table.manifest().kind) == ({"a": b"1"}, TableKind.LATEST)


def test_table_of_one_kind_is_none_of_another(table: Table) -> None:
    bucket = Bucket()
    bucket.put(a="1")
    latest(table, bucket)
    with pytest.raises(
        SourceChanged, match="has the latest values of a bucket, not the messages of a stream"
    ):
        archive(table, bucket)
    with pytest.raises(SourceChanged, match="not the history of a bucket"):
        archive(table, bucket, kind=TableKind.HISTORY)


# -- history


def test_history_says_what_was_done(table: Table) -> None:
    bucket = Bucket(5)
    bucket.put(a="1", b="1")
    bucket.put(a="2")
    bucket.store("a", headers=DELETED)
    bucket.store("b", headers=PURGED)
    bucket.store("c", headers=b"NATS/1.0\r\nNats-Marker-Reason: Remove\r\n\r\n")
    bucket.store("d", headers=b"NATS/1.0\r\nKind: own\r\n\r\n")
    archive(table, bucket, kind=TableKind.HISTORY)
    assert [(row["key"], row["operation"], row["revision"], row["data"]) for row in rows(table)] == [
        ("a", "PUT", 1, b"1"),
        ("b", "PUT", 2, b"1"),
        ("a", "PUT", 3, b"2"),
        ("a", "DEL", 4, b""),
        ("b", "PURGE", 5, b""),
        ("c", "DEL", 6, b""),
        ("d", "PUT", 7, b""),
    ]
    assert rows(table)[6]["headers"] == [("Kind", ["own"])]
    assert verify(table) == []


@pytest.mark.parametrize(
    "block",
    [
        b"nonsense",
        b"NATS/1.0\r\nKV-Operation:\r\n\r\n",
        b"NATS/1.0\r\nKV-Operation: del\r\n\r\n",
        b"NATS/1.0\r\nKV-Operation: PUT\r\nKV-Operation: DEL\r\n\r\n",
        b"NATS/1.0\r\nNats-Marker-Reason: \xff\xfe\r\n\r\n",
        b"NATS/1.0\r\n" + b"A: b\r\n" * 3000 + b"\r\n",
    ],
)
def test_headers_that_mean_no_operation_leave_a_value(block: bytes, tmp_path: Path) -> None:
    """As for clients: whoever may publish cannot end a run with a header, nor hide a key by accident."""
    bucket = Bucket(5)
    bucket.store("a", b"1", block)
    bucket.log.append([NewMessage(b"elsewhere", b"2", b"", b"", START + 9)])
    now, done = (Table(LocalStore(tmp_path / name, Unsynced())) for name in ("now", "done"))
    latest(now, bucket)
    archive(done, bucket, kind=TableKind.HISTORY)
    assert values(now) == {"a": b"1", "elsewhere": b"2"}
    assert [row["operation"] for row in rows(done)] == ["PUT", "PUT"]
    assert verify(now) == verify(done) == []


def test_history_follows_the_bucket_or_keeps_all(tmp_path: Path) -> None:
    bucket = Bucket(1)
    follows, keeps = (Table(LocalStore(tmp_path / name, Unsynced())) for name in ("follows", "keeps"))
    for turn in range(3):
        bucket.put(a=str(turn), b=str(turn))
        archive(follows, bucket, kind=TableKind.HISTORY)
        archive(keeps, bucket, kind=TableKind.HISTORY, retain="forever")
    assert [row["revision"] for row in rows(follows)] == [5, 6]
    assert [row["revision"] for row in rows(keeps)] == [1, 2, 3, 4, 5, 6]
    with keeps.writing() as writer:
        compact(writer)
    assert [row["operation"] for row in rows(keeps)] == ["PUT"] * 6


# -- of a server


def test_bucket_of_a_server(table: Table, tmp_path: Path) -> None:
    with Server(jetstream=True) as server, connect(server.url) as connection:
        streams = Streams(connection)
        with pytest.raises(SourceMissing, match="no stream KV_settings"):
            latest(table, ServerStreamSource(connection, "KV_settings"))
        streams.make(
            "KV_settings", subjects=["$KV.settings.>"], max_msgs_per_subject=2, allow_rollup_hdrs=True
        )
        source = ServerStreamSource(connection, "KV_settings")
        for key in ("a", "b", "c"):
            streams.put("settings", key, b"1")
        latest(table, source)
        streams.put("settings", "a", b"2")
        streams.put("settings", "b", b"", KV_Operation="DEL")
        streams.put("settings", "c", b"", KV_Operation="PURGE", Nats_Rollup="sub")
        streams.put("settings", "d", b"\x00\xff")
        latest(table, source)
        assert values(table) == {"a": b"2", "d": b"\x00\xff"}
        streams.api.ask("STREAM.PURGE.KV_settings", {"filter": "$KV.settings.d"})
        latest(table, source)
        assert values(table) == {"a": b"2"}
        history = Table(LocalStore(tmp_path / "history", Unsynced()))
        archive(history, source, kind=TableKind.HISTORY)
        assert [(row["key"], row["operation"]) for row in rows(history)] == [
            ("a", "PUT"), ("b", "PUT"), ("a", "PUT"), ("b", "DEL"), ("c", "PURGE")
        ]  # fmt: skip
