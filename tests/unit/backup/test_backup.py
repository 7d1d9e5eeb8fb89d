"""Backups of a store that somebody writes meanwhile: what is in them, copied, and wrong with them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec
import pytest
from msgspec.structs import astuple, replace

from headrace.backup import copying
from headrace.backup.manifest import MANIFESTS, BackupError, backups_in, chosen, next_name
from headrace.backup.restoring import restore_backup, wrong_parts
from headrace.backup.taking import LogChoice, take_backup
from headrace.errors import StorageError, StoreLocked, StoreTaken
from headrace.log.encryption import Cipher
from headrace.log.port import Limits, NewMessage
from headrace.log.store import FileStore
from headrace.objects.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.log.port import MessageLog

STATE: Final = b"A/state"
LOGS: Final = [b"A/streams/ONE", b"A/streams/TWO", b"n" * 300]
SEGMENT: Final = 4096


class Bench:
    def __init__(self, folder: Path, cipher: Cipher | None = None) -> None:
        self.folder = folder
        self.cipher = cipher
        self.home = folder / "live"
        self.target = LocalStore(folder / "backups")
        self.store = FileStore(self.home, segment_bytes=SEGMENT, cipher=cipher)
        self.wanted = LogChoice(self.home, lambda name: name == STATE)

    def fill(self, name: bytes, count: int) -> MessageLog:
        log = self.store.open(name)
        for _ in range(count):
            log.append([NewMessage(b"s", b"%d" % (log.state().last_sequence + 1) * 20)])
        log.sync()
        return log

    def take(self, told: Callable[[int, int], object] = lambda _done, _of: None) -> tuple[int, int]:
        """(segments copied, segments of all)."""
        taken = take_backup(self.target, self.wanted, told)
        return taken.copied, taken.segments

    def restored(self, name: str | None = None) -> FileStore:
        new = self.folder / "new"
        restore_backup(self.target, chosen(self.target, name)[1], new, self.folder / "new.unfinished")
        return FileStore(new, segment_bytes=SEGMENT, cipher=self.cipher)


@pytest.fixture(params=[None, Cipher(bytes(32))], ids=["plain", "sealed"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(tmp_path, request.param)


def held(log: MessageLog) -> dict[int, bytes]:
    found, sequence = {}, 1
    while sequence <= log.state().last_sequence:
        page = log.read_from(sequence)
        assert page.damaged == []
        found |= {m.sequence: m.payload for m in page.messages}
        sequence = page.next_sequence
    return found


def test_a_store_comes_back_as_it_was(bench: Bench) -> None:
    for name in [STATE, *LOGS]:
        log = bench.fill(name, 100)
        log.remove([5, 6, 70])
        log.purge(up_to=3)
    assert bench.take()[0] > 8
    again = bench.restored()
    assert again.names() == bench.store.names()
    for name in [STATE, *LOGS]:
        assert held(again.open(name)) == held(bench.store.open(name))
        assert astuple(again.open(name).state())[:6] == astuple(bench.store.open(name).state())[:6]
        assert again.open(name).append([NewMessage(b"s", b"next")]) == 101


def test_only_what_is_new_is_copied(bench: Bench) -> None:
    bench.fill(LOGS[0], 100)
    bench.fill(LOGS[1], 100)
    first, of = bench.take()
    assert first == of > 4
    assert bench.take() == (0, of)
    bench.fill(LOGS[1], 1)
    copied, of = bench.take()
    assert copied == 1
    bench.fill(LOGS[1], 200)
    copied, more = bench.take()
    assert more - of <= copied <= more - of + 1  # the one that was the last has grown
    assert len(backups_in(bench.target)) == 4
    assert len(held(bench.restored().open(LOGS[1]))) == 301


@pytest.mark.parametrize("seed", range(8))
def test_a_server_goes_on_meanwhile(tmp_path: Path, seed: int) -> None:
    """Appends, removals, rewritten and compressed segments, purges, at every step of the copying."""
    bench, random = Bench(tmp_path), Random(seed)
    log = bench.fill(LOGS[0], 200)
    log.limits = Limits(compresses=seed % 2 == 0)
    bench.fill(STATE, 3)
    gone_before = set(random.sample(range(1, 200), 60))
    log.remove(gone_before)
    log.sync()
    before = held(log)
    removed: set[int] = set()
    turns = iter(range(40))

    def meanwhile(_done: int, _of: int) -> None:
        if next(turns, None) is None:
            return
        some = random.sample(range(1, log.state().last_sequence), 12)
        removed.update(some)
        log.remove(some)
        bench.fill(LOGS[0], random.randrange(40))
        if random.random() < 0.2:
            up_to = random.randrange(1, 60)
            removed.update(range(1, up_to))
            log.purge(up_to=up_to)
        log.sync()

    bench.take(meanwhile)
    after = bench.restored().open(LOGS[0])
    found = held(after)
    assert not found.keys() & gone_before, "what was removed came back"
    assert before.keys() - removed <= found.keys(), "messages are missing"
    assert all(payload == b"%d" % sequence * 20 for sequence, payload in found.items())
    assert after.state().damaged == ()


def test_a_log_that_is_removed_meanwhile(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for name in LOGS:
        bench.fill(name, 60)
    gone = iter([LOGS[1]])

    def meanwhile(_done: int, _of: int) -> None:
        for name in gone:
            bench.store.remove(name)

    bench.take(meanwhile)
    assert bench.restored().names() == sorted({LOGS[0], LOGS[2]})


def test_a_log_that_is_made_again_meanwhile(bench: Bench) -> None:
    """What the state says of the one that was there may not stand beside what is in the new one."""
    bench.fill(STATE, 3)
    bench.fill(LOGS[0], 60)
    bench.fill(LOGS[1], 60)
    again = iter([LOGS[1]])

    def meanwhile(_done: int, _of: int) -> None:
        for name in again:
            bench.store.remove(name)
            bench.fill(name, 70)
            bench.fill(STATE, 1)

    bench.take(meanwhile)
    store = bench.restored()
    assert len(held(store.open(LOGS[1]))) == 70
    assert len(held(store.open(STATE))) == 4


def test_the_newest_backup_is_the_last_one_also_when_a_clock_goes_back() -> None:
    now = datetime(2026, 11, 22, 21, 43, 52, tzinfo=UTC)
    names: list[str] = []
    for moment in (now, now, now + timedelta(hours=1), now, now):
        names.append(next_name(names, moment))
        assert names == sorted(names)
    assert names[0] == "20261122T214352Z-000000"
    assert names[-1] == "20261122T224352Z-000004"


def test_a_change_in_the_moment_of_a_backup_is_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a tick of the file system's clock a file changes without another time."""
    bench = Bench(tmp_path)
    bench.fill(LOGS[0], 200)
    bench.take()
    first = min((bench.home / "logs").rglob("*.log"))
    was = first.stat()
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    with first.open("r+b") as file:
        file.write(content)
    os.utime(first, ns=(was.st_atime_ns, was.st_mtime_ns))

    assert bench.take()[0] == 1
    monkeypatch.setattr(copying, "_SETTLED_NS", -1 << 63)  # all of it was written long ago
    bench.take()
    assert all(part.mark for part in chosen(bench.target, None)[1].logs[0].parts[:-1])


def test_a_part_that_is_taken_away_since_it_is_damaged_is_copied_again(bench: Bench) -> None:
    bench.fill(LOGS[0], 200)
    bench.take()
    manifest = chosen(bench.target, None)[1]
    (bench.folder / "backups" / f"{manifest.logs[0].parts[1].sha256}.segment").unlink()
    assert len(list(wrong_parts(bench.target, manifest))) == 1

    assert bench.take()[0] == 1
    assert list(wrong_parts(bench.target, manifest)) == []


def test_a_backup_that_was_cut_off_is_none_and_the_next_one_uses_it(bench: Bench) -> None:
    bench.fill(LOGS[0], 300)
    seen = iter(range(5))

    def killed(_done: int, _of: int) -> None:
        if next(seen, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.take(killed)
    with pytest.raises(BackupError, match="there is no whole backup in"):
        chosen(bench.target, None)
    copied, of = bench.take()
    assert of - 6 <= copied < of
    assert len(held(bench.restored().open(LOGS[0]))) == 300


def test_what_is_wrong_is_named(bench: Bench) -> None:
    bench.fill(LOGS[0], 100)
    bench.fill(LOGS[1], 100)
    bench.take()
    name, manifest = chosen(bench.target, None)
    assert list(wrong_parts(bench.target, manifest)) == []
    one, two = (log.parts[1] for log in manifest.logs[:2])
    flipped = bench.folder / "backups" / f"{one.sha256}.segment"
    content = bytearray(flipped.read_bytes())
    content[500] ^= 1
    flipped.write_bytes(content)
    (bench.folder / "backups" / f"{two.sha256}.segment").unlink()
    assert list(wrong_parts(bench.target, manifest)) == [
        f"A/streams/ONE: segment {one.name} is damaged ({one.sha256}.segment)",
        f"A/streams/TWO: segment {two.name} is missing ({two.sha256}.segment)",
    ]
    with pytest.raises(BackupError, match=r"A/streams/ONE: segment .* is damaged"):
        bench.restored()
    assert not (bench.folder / "new").exists()
    manifest_file = bench.folder / "backups" / MANIFESTS / f"{name}.json"
    content = bytearray(manifest_file.read_bytes())
    content[30] ^= 1
    manifest_file.write_bytes(content)
    with pytest.raises(BackupError, match=f"backup {name} is damaged, or no backup"):
        chosen(bench.target, None)
    with pytest.raises(BackupError, match="is damaged"):
        bench.take()


def test_a_manifest_that_names_other_files_is_refused(tmp_path: Path) -> None:
    """Whoever can write to a target cannot have files written elsewhere by a restore."""
    bench = Bench(tmp_path)
    bench.fill(LOGS[0], 10)
    bench.take()
    name, manifest = chosen(bench.target, None)
    log = manifest.logs[0]
    for bad in (
        replace(log.parts[0], name="../../../evil.log"),
        replace(log.parts[0], name="checkpoint"),
        replace(log.parts[0], sha256="../" * 21 + "x"),
    ):
        wrong = replace(manifest, logs=(replace(log, parts=(bad,)),))
        (tmp_path / "backups" / MANIFESTS / f"{name}.json").write_bytes(wrong.encode())
        with pytest.raises(BackupError, match="has a part that is no segment"):
            chosen(bench.target, None)
    later = msgspec.json.encode({"version": 2, "logs": "elsewhere"})
    path = tmp_path / "backups" / MANIFESTS / f"{name}.json"
    path.write_bytes(later + b"\n" + sha256(later).hexdigest().encode())
    with pytest.raises(BackupError, match="is of version 2; this Headrace reads 1"):
        chosen(bench.target, None)
    odd = replace(manifest, logs=(replace(log, name=b"../../x"),))
    (tmp_path / "backups" / MANIFESTS / f"{name}.json").write_bytes(odd.encode())
    assert bench.restored().names() == [b"../../x"]  # below `logs`, percent-encoded


def test_targets_that_are_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "a")
    bench.fill(LOGS[0], 10)
    bench.take()
    other = Bench(tmp_path / "b")
    other.fill(LOGS[0], 10)
    other.target = bench.target
    with pytest.raises(
        BackupError, match=r"has backups of .*a/live, not of .*b/live: it needs its own target"
    ):
        other.take()
    with pytest.raises(BackupError, match="has no streams of account B"):
        take_backup(LocalStore(tmp_path / "b-only"), LogChoice(bench.home, lambda _: False, "B", b"B/"))
    assert not (tmp_path / "b-only").exists()
    bench.wanted = LogChoice(bench.home, lambda _: False, "A", b"A/")
    with pytest.raises(BackupError, match="has backups of all accounts: others need their own target"):
        bench.take()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("dear")
    other.target = LocalStore(tmp_path / "full")
    with pytest.raises(BackupError, match=r"is not empty .* and has no backup"):
        other.take()
    with pytest.raises(BackupError, match="has no streams of Headrace"):
        take_backup(LocalStore(tmp_path / "c"), LogChoice(tmp_path / "nowhere", lambda _: False))


def test_a_restore_that_was_cut_off_goes_on(bench: Bench) -> None:
    bench.fill(LOGS[0], 200)
    bench.take()
    _, manifest = chosen(bench.target, None)
    seen = iter(range(3))

    def killed(_done: int, _of: int) -> None:
        if next(seen, None) is None:
            raise KeyboardInterrupt

    new, unfinished = bench.folder / "new", bench.folder / "new.unfinished"
    with pytest.raises(KeyboardInterrupt):
        restore_backup(bench.target, manifest, new, unfinished, killed)
    assert not new.exists()
    parts = sum(len(log.parts) for log in manifest.logs)
    assert restore_backup(bench.target, manifest, new, unfinished) == parts - 4
    assert len(held(FileStore(new, cipher=bench.cipher).open(LOGS[0]))) == 200
    with pytest.raises(StoreTaken, match="is not empty"):
        restore_backup(bench.target, manifest, new, unfinished)


def test_a_restore_keeps_nothing_of_another_import_or_restore_that_was_cut_off(bench: Bench) -> None:
    """Streams that are gone since, segments that no longer are, indexes and checkpoints of other segments."""
    bench.fill(LOGS[0], 200)
    bench.fill(LOGS[2], 200)
    bench.take()
    first = chosen(bench.target, None)[1]
    new, unfinished = bench.folder / "new", bench.folder / "new.unfinished"
    other = FileStore(unfinished, segment_bytes=SEGMENT, cipher=bench.cipher)
    for name in (LOGS[0], b"IMPORTED"):
        log = other.open(name)
        log.append([NewMessage(b"s", b"other")] * 500)
        log.sync()
    other.close()  # with its checkpoints

    def killed(done: int, of: int) -> None:
        if done == of:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore_backup(bench.target, first, new, unfinished, killed)
    bench.store.remove(LOGS[2])
    bench.store.open(LOGS[0]).purge(up_to=150)
    bench.fill(LOGS[0], 5)
    bench.take()

    again = bench.restored()

    assert again.names() == bench.store.names() == [LOGS[0]]
    assert held(again.open(LOGS[0])) == held(bench.store.open(LOGS[0]))


def test_one_restore_at_a_time_makes_a_store(bench: Bench) -> None:
    bench.fill(LOGS[0], 20)
    bench.take()
    _, manifest = chosen(bench.target, None)
    new, unfinished = bench.folder / "new", bench.folder / "new.unfinished"

    def second(_done: int, _of: int) -> None:
        with pytest.raises(StoreLocked, match="another import or restore writes to"):
            restore_backup(bench.target, manifest, new, unfinished)

    restore_backup(bench.target, manifest, new, unfinished, second)
    assert len(held(FileStore(new, cipher=bench.cipher).open(LOGS[0]))) == 20


def test_a_restored_store_is_converted_from_the_key_it_was_backed_up_with(tmp_path: Path) -> None:
    before, now = Cipher(bytes(32)), b"n" * 32
    bench = Bench(tmp_path, before)
    expected = held(bench.fill(LOGS[0], 200))
    bench.take()
    bench.restored().close()
    new = tmp_path / "new"
    refusing = FileStore(new, cipher=Cipher(now))
    with pytest.raises(StorageError, match="encrypted with another key"):
        refusing.open(LOGS[0])
    refusing.close()
    FileStore(new, cipher=Cipher(now, previous=(before,)), converted=lambda _: None).close()
    assert held(FileStore(new, cipher=Cipher(now)).open(LOGS[0])) == expected


def test_files_and_directories_are_the_owners_alone(bench: Bench) -> None:
    """Of a backup and of a restored store, whatever the process lets others do with new files."""
    before = os.umask(0)
    try:
        for name in (STATE, *LOGS):
            bench.fill(name, 50)
        bench.take()
        bench.restored().close()
    finally:
        os.umask(before)
    for folder in (bench.folder / "backups", bench.folder / "new"):
        there = [folder, *folder.rglob("*")]
        assert {path.stat().st_mode & 0o777 for path in there if not path.is_dir()} == {0o600}
        assert {path.stat().st_mode & 0o777 for path in there if path.is_dir()} == {0o700}


def test_a_damaged_record_of_the_last_segment_costs_what_it_costs_the_server(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fill(LOGS[0], 12)
    (path,) = (bench.home / "logs").rglob("*1.log")
    content = bytearray(path.read_bytes())
    content[content.rindex(b"6" * 10)] ^= 1
    path.write_bytes(content)
    bench.take()
    log = bench.restored().open(LOGS[0])
    found = log.read_from(1, max_messages=100)
    assert [m.sequence for m in found.messages] == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]
    assert found.damaged == [6]
