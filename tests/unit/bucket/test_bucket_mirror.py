"""The files of a standby: at every place of the journal they are a store with what was stored by then."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest
from msgspec import Struct

from harness import depth
from harness.captured import ROOT, Owner, Standby, recorded_image, shown
from harness.tallies import note
from headrace.bucket import mirror as module
from headrace.bucket.changes import Create, Mkdir, Rename, SnapshotBegun, Truncate, Unlink, Write, encode
from headrace.bucket.errors import CacheFailed, DamagedObject
from headrace.bucket.mirror import Mirror
from headrace.bucket.tree import Tree
from headrace.errors import LogFull, StorageError
from headrace.log.encryption import Cipher
from headrace.log.filesystem import FileMode
from headrace.log.port import Limits, LogDiscard, NewMessage, StoredMessage, SyncPolicy
from headrace.log.store import FileStore
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem, holding, image_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.bucket.changes import Change
    from headrace.log.damage import Damage
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import MessageLog

SEEDS: Final = 60
STEPS: Final = 60
STORE: Final = ROOT / "store"
NAMES: Final = [b"orders", b"lock", b"closed", b"n" * 250]
LIMITS: Final = [
    Limits(**limits, waits_for_expire=True)
    for limits in (
        {},
        {"max_messages": 20},
        {"max_messages_per_subject": 2},
        {"max_bytes": 4000, "compresses": True},
        {"max_messages": 30, "discard": LogDiscard.NEW},
        {"compresses": True},
    )
]
START: Final = 1_700_000_000_000_000_000

Held: TypeAlias = dict[bytes, tuple[int, list[StoredMessage]]]
"""The last sequence and the messages of each log."""


class Step(Struct, frozen=True):
    """The end of a step: the number of changes, what was stored, and what it takes to open it."""

    changes: int
    held: Held
    limits: dict[bytes, Limits]
    cipher: Cipher | None
    now: int


class Walk:
    """Random operations on the logs of an owner's store, and what they held after each."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = START
        self.owner = Owner()
        self.changes: list[Change] = []
        self.steps: list[Step] = []
        self.limits: dict[bytes, Limits] = {}
        self.ciphers = [self.random.choice([None, None, Cipher(b"k" * 32)])]
        self.store = self.open_store()
        self.end_step()

    def open_store(self) -> FileStore:
        return store_over(self.owner.files, self.now, self.ciphers[-1])

    def run(self, steps: int) -> None:
        actions: list[Callable[[], object]] = (
            [self.append] * 12
            + [self.delete] * 5
            + [self.purge, self.expire, self.set_limits]
            + [self.remove, self.reopen, self.write_beside]
        )
        for _ in range(steps):
            self.random.choice(actions)()
            self.end_step()

    def end_step(self) -> None:
        held = held_by(self.store, self.limits)
        self.changes += self.owner.take_changes()
        self.steps.append(Step(len(self.changes), held, dict(self.limits), self.ciphers[-1], self.now))

    def log(self) -> MessageLog:
        name = self.random.choice(NAMES)
        return self.store.open(name, self.limits.setdefault(name, self.random.choice(LIMITS)))

    def append(self) -> None:
        random, log = self.random, self.log()
        batch = [
            NewMessage(
                random.choice([b"a", b"b", b"a.b"]),
                random.choice([random.randbytes, bytes])(int(random.paretovariate(0.8)) % 900),
                time_ns=self.now,
                ttl_ns=random.choice([0, 0, 500]),
            )
            for _ in range(random.choice([1, 1, 1, 3, 20]))
        ]
        try:
            log.append(batch, random.choice([0, 0, 0, 0, log.state().last_sequence + 5]))
        except LogFull:
            note("bucket: batches that a full log refused", 1)

    def delete(self) -> None:
        log = self.log()
        state = log.state()
        if state.messages:
            sequence = self.random.randint(state.first_sequence, state.last_sequence)
            if self.random.random() < 0.5:
                log.delete(sequence, erase=self.random.random() < 0.6)
            else:  # so many that segments are rewritten
                log.remove(s for s in range(state.first_sequence, sequence) if s % 7)

    def purge(self) -> None:
        self.log().purge(self.random.choice([None, b"a"]), keep=self.random.choice([0, 5]))

    def expire(self) -> None:
        self.now += self.random.randrange(1000)
        self.log().expire(self.now)

    def set_limits(self) -> None:
        name = self.random.choice(NAMES)
        if name in self.limits:
            self.limits[name] = limits = self.random.choice(LIMITS)
            self.store.open(name, limits)

    def remove(self) -> None:
        name = self.random.choice(NAMES)
        self.store.remove(name)
        self.limits.pop(name, None)

    def reopen(self) -> None:
        """Close the store, or kill its process; sometimes another key is there afterwards."""
        if self.random.random() < 0.5:
            self.store.close()
        else:
            assert isinstance(self.owner.inner, MemoryFileSystem)
            self.owner.inner.kill()
        if self.random.random() < 0.5:
            known = tuple(cipher for cipher in self.ciphers if cipher is not None)
            self.ciphers.append(Cipher(self.random.randbytes(32), previous=known))
        self.store = self.open_store()

    def write_beside(self) -> None:
        """Files that are no log's, and a snapshot that begins."""
        files = self.owner.files
        handle = files.open(ROOT / "other", self.random.choice([FileMode.APPEND, FileMode.CREATE]))
        files.truncate(handle, self.random.randrange(100))
        files.close(handle)
        files.note(SnapshotBegun())


def store_over(files: FileSystem, now: int, cipher: Cipher | None) -> FileStore:
    def damaged(name: bytes, damage: Damage) -> None:
        raise AssertionError((name, damage))

    return FileStore(
        STORE,
        clock=lambda: now,
        sync=SyncPolicy.NEVER,
        segment_bytes=2048,
        cipher=cipher,
        filesystem=files,
        report=damaged,
        converted=lambda _: None,
    )


def held_by(store: FileStore, limits: dict[bytes, Limits]) -> Held:
    """What the logs of a store hold under their limits; one that was never written to counts as none."""
    found: Held = {}
    for name in store.names():
        log = store.open(name, limits.get(name, LIMITS[0]))
        page = log.read_from(1, max_messages=10_000, max_bytes=1 << 30)
        if last := log.state().last_sequence:
            assert page.next_sequence == last + 1
            found[name] = last, list(page.messages)
    return found


def held_at(files: FileSystem, step: Step) -> Held:
    """What a server finds that starts with these files."""
    store = store_over(holding(recorded_image(files)), step.now, step.cipher)
    held = held_by(store, step.limits)
    store.close()
    return held


def each_message(held: Held) -> set[tuple[bytes, StoredMessage]]:
    return {(name, message) for name, (_, messages) in held.items() for message in messages}


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_a_standby_has_at_every_place_what_was_stored_by_then(seed: int) -> None:
    walk, standby = Walk(seed), Standby()
    walk.run(STEPS)

    at, before = 0, Step(0, {}, {}, None, START)
    for step in walk.steps:
        for change in walk.changes[at : step.changes]:
            standby.mirror.apply(encode([change]))
            at += 1
            if at == step.changes:
                break
            found = each_message(held_at(standby.inner, step))
            old, new = each_message(before.held), each_message(step.held)
            assert old & new <= found <= old | new
        assert held_at(standby.inner, step) == step.held
        before = step
    assert recorded_image(standby.inner) == recorded_image(walk.owner.inner)
    assert shown(standby.tree) == shown(walk.owner.tree)


def test_the_walks_make_every_kind_of_change() -> None:
    renamed: set[str] = set()
    changed: list[Change] = []
    for seed in range(4):
        walk = Walk(seed)
        walk.run(80)
        changed += walk.changes
        renamed |= {change.old.rpartition("/")[2] for change in walk.changes if type(change) is Rename}

    assert any(name.endswith(".log.new") for name in renamed)  # rewritten, erased or sealed again
    assert {"orders", "lock", "closed"} & renamed  # removed
    assert any(type(change) is Unlink and change.path.endswith(".log") for change in changed)
    assert any(type(change) is Truncate for change in changed)
    for path in (change.path for change in changed if type(change) is Create):
        assert path.rpartition("/")[2] not in {"lock", "closed", "closed.new"}


@pytest.mark.parametrize("limits", [limits for limits in LIMITS if limits.discard is LogDiscard.OLD])
def test_a_store_of_a_shard_that_is_lost_gives_its_files_back(limits: Limits) -> None:
    owner = Owner()
    store = store_over(owner.files, START, None)
    log = store.open(b"orders", limits)
    for number in range(200):
        log.append([NewMessage(b"%d" % (number % 5), bytes(100))])
        if number % 3:
            log.delete(log.state().first_sequence)
    before = recorded_image(owner.inner)
    owner.journal.end("another server owns the shard")

    with pytest.raises(StorageError, match="another server owns the shard"):
        log.append([NewMessage(b"a", b"late")])
    with suppress(StorageError):  # if there was something left to write
        store.close()

    assert isinstance(owner.inner, MemoryFileSystem)
    assert owner.inner.open_handles == 0
    assert recorded_image(owner.inner) == before
    assert owner.journal.take(1) is None


# ---- the local files ------------------------------------------------------------------------------


def test_few_files_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_FILES", 3)
    standby = Standby()
    standby.mirror.apply(encode([Create(str(number)) for number in range(9)]))
    for number in (1, 9, 2, 8, 1, 3):
        standby.mirror.apply(encode([Write(number, 0, b"%d" % number)]))
        assert standby.inner.open_handles <= 3
    standby.mirror.apply(encode([Unlink("0"), Rename("1", "2")]))
    standby.mirror.apply(encode([Write(2, 1, b"!")]))
    standby.mirror.close()

    assert standby.inner.open_handles == 0
    image = image_of(standby.inner, ROOT)
    assert image[ROOT / "2"] == b"2!"
    assert ROOT / "0" not in image


def test_what_an_earlier_life_left_is_in_nobodys_way() -> None:
    standby = Standby()
    standby.inner.mkdir(ROOT / "d")
    handle = standby.inner.open(ROOT / "f", FileMode.APPEND)
    standby.inner.write(handle, b"stale")

    standby.mirror.apply(encode([Mkdir("d"), Create("f"), Write(1, 0, b"new")]))

    assert image_of(standby.inner, ROOT) == {ROOT / "f": b"new"}


def test_a_change_that_cannot_be_is_damage() -> None:
    standby = Standby()
    with pytest.raises(DamagedObject):
        standby.mirror.apply(encode([Create("f"), Create("f")]))
    with pytest.raises(DamagedObject):
        standby.mirror.apply(b"no changes")


def test_a_full_disk_is_told_by_its_name() -> None:
    mirror = Mirror(MemoryFileSystem(capacity=3), ROOT, Tree())

    with pytest.raises(CacheFailed, match="f: No space left on device"):
        mirror.apply(encode([Create("f"), Write(1, 0, b"more than there is")]))


@pytest.mark.parametrize("call", ["open", "pwrite", "truncate", "rename", "unlink", "mkdir", "rmdir"])
def test_each_call_that_fails_is_told(call: str) -> None:
    walk = Owner()
    for make in (
        lambda files: files.mkdir(ROOT / "d"),
        lambda files: files.open(ROOT / "f", FileMode.CREATE),
        lambda files: files.pwrite(4, b"x", 0),
        lambda files: files.truncate(4, 0),
        lambda files: files.rename(ROOT / "f", ROOT / "g"),
        lambda files: files.unlink(ROOT / "g"),
        lambda files: files.rmdir(ROOT / "d"),
    ):
        make(walk.files)
    mirror = Mirror(FaultyFileSystem(MemoryFileSystem(), 1, errno.EIO, only=(call,)), ROOT, Tree())

    with pytest.raises(CacheFailed, match="Input/output error"):
        mirror.apply(walk.take())
