"""An owner of a shard with files in a directory, and readers of its bucket, as small as they can be.

The owner changes real files and records it; what is in the WAL then is written without any request, so that
a test decides when. For each WAL object it keeps what the files held: readers are compared with that.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from headrace.bucket.changes import (
    Create,
    Mkdir,
    Rename,
    SnapshotBegun,
    SnapshotTaken,
    Truncate,
    Unlink,
    Write,
    decode,
    encode,
)
from headrace.bucket.extents import fetches, pieces
from headrace.bucket.keys import ShardKeys
from headrace.bucket.manifest import Manifest
from headrace.bucket.snapshots import Snapshotter, Term
from headrace.bucket.tree import Tree
from headrace.bucket.wal_object import Kind, WalObject
from headrace.log.filesystem import RealFileSystem
from headrace.objects.errors import KeyMissing
from headrace.objects.port import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random

    from harness.memory_objects import MemoryObjects
    from headrace.bucket.changes import Change
    from headrace.bucket.snapshots import PutAdmission
    from headrace.bucket.tree import TreeFile

KEYS = ShardKeys("orders")
TERM = Term("orders", 1, b"w" * 16)
SECOND = 10**9


async def at_once(*, is_late: bool) -> None:
    """Admit a put: there is no budget."""


async def inline(work: Callable[[], Any]) -> Any:
    return work()


class Reads:
    """The objects of a store for threads. `fail`: called with each request; may raise."""

    location = "memory"

    def __init__(self, store: MemoryObjects, fail: Callable[[str], object] = lambda _key: None) -> None:
        self._objects = store.objects
        self.fail = fail
        self.requests: list[tuple[str, int, int]] = []

    def get(self, key: str) -> bytes:
        self.fail(key)
        if key not in self._objects:
            raise KeyMissing(f"{key} is not there")
        return self._objects[key][0]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.requests.append((key, start, end))
        return self.get(key)[start:end]

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        for key in sorted(self._objects):
            if key.startswith(f"{prefix}/") and key > after:
                yield ObjectInfo(key, len(self._objects[key][0]))


class Owner:
    """An owner: its files, its tree, and the WAL that it has written."""

    def __init__(
        self,
        directory: Path,
        store: MemoryObjects,
        *,
        term: Term = TERM,
        tree: Tree | None = None,
        number: int = 0,
        admit: PutAdmission = at_once,
    ) -> None:
        self.directory = directory
        self.store = store
        self.term = term
        self.tree = tree if tree is not None else Tree()
        self.number = number
        self.states: dict[int, dict[str, bytes]] = {}
        """What the files held behind each WAL object."""
        self.fences: list[int] = []
        self._recorded: list[Change] = []
        self._before = 0
        self._cuts: dict[int, dict[str, bytes]] = {}
        self.lock = threading.RLock()
        self.snapshotter = Snapshotter(
            store,
            KEYS,
            term,
            tree=self.tree,
            recorder=self,
            files=RealFileSystem(),
            directory=directory,
            fences=self.fences,
            wall_ns=lambda: self.number * SECOND,
            admit=admit,
            offload=inline,
        )

    # ---- what a snapshotter sees ------------------------------------------------------------

    def record(self, change: Change) -> None:
        self._recorded.append(change)

    @property
    def position(self) -> int:
        return self._before + len(self._recorded)

    def cut(self) -> int:
        self._cuts[self.position] = self.contents()
        return self.position

    def _change(self, change: Change) -> None:
        self.tree.apply(change)
        self.record(change)

    # ---- files ------------------------------------------------------------------------------

    def contents(self) -> dict[str, bytes]:
        return {file.path: (self.directory / file.path).read_bytes() for file in self.tree.files.values()}

    def make(self, path: str, data: bytes = b"") -> TreeFile:
        """Create a file, with the directories above it, and write to it."""
        for at in [at for at, letter in enumerate(path) if letter == "/"]:
            if self.tree.find(path[:at]) is None:
                (self.directory / path[:at]).mkdir()
                self._change(Mkdir(path[:at]))
        (self.directory / path).touch()
        self._change(Create(path))
        file = self.tree.file_at(path)
        assert file is not None
        if data:
            self.write(file, 0, data)
        return file

    def write(self, file: TreeFile, offset: int, data: bytes) -> None:
        with (self.directory / file.path).open("r+b") as opened:
            opened.seek(offset)
            opened.write(data)
        self._change(Write(file.id, offset, data))

    def truncate(self, file: TreeFile, size: int) -> None:
        with (self.directory / file.path).open("r+b") as opened:
            opened.truncate(size)
        self._change(Truncate(file.id, size))

    def rename(self, file: TreeFile, path: str) -> None:
        old = file.path
        (self.directory / old).replace(self.directory / path)
        self._change(Rename(old, path))

    def unlink(self, file: TreeFile) -> None:
        (self.directory / file.path).unlink()
        self._change(Unlink(file.path))

    def anything(self, random: Random, largest: int = 5000) -> None:
        """Do something to the files, drawn by `random`."""
        files = list(self.tree.files.values())
        what = random.random()
        if not files or what < 0.1:
            name = f"d{random.randrange(3)}/f{random.randrange(6)}"
            if self.tree.find(name) is None:
                self.make(name, random.randbytes(random.randrange(largest)))
            return
        file = random.choice(files)
        if what < 0.5:
            self.write(file, file.size, random.randbytes(random.randrange(1, largest)))
        elif what < 0.75:
            at = random.randrange(file.size + largest // 10)
            self.write(file, at, random.randbytes(random.randrange(1, 300)))
        elif what < 0.9:
            self.truncate(file, random.randrange(file.size + largest // 5))
        elif what < 0.95:
            self.unlink(file)
        else:
            other = f"d{random.randrange(3)}/f{random.randrange(6)}"
            parent = other.partition("/")[0]
            if self.tree.find(parent) is not None and other != file.path:
                self.rename(file, other)

    # ---- the WAL ----------------------------------------------------------------------------

    def commit(self, kind: Kind = Kind.COMMIT) -> None:
        """Write all that is recorded to WAL objects; each cut ends one."""
        for cut in sorted(self._cuts):
            self._commit(cut, self._cuts.pop(cut), kind)
        self._commit(self.position, self.contents(), kind)

    def _commit(self, end: int, state: dict[str, bytes], kind: Kind) -> None:
        count = end - self._before
        payload = encode(self._recorded[:count])
        del self._recorded[:count]
        self._before = end
        self.number += 1
        shard, epoch, writer = self.term
        made = WalObject(shard, epoch, writer, self.number, kind, self.number * SECOND, payload)
        self.store.objects[KEYS.wal(self.number)] = made.pack(), self.number * SECOND
        self.states[self.number] = state
        self.snapshotter.committed(end, self.number, len(payload))


class Reader:
    """Who starts from a snapshot, or from nothing, and applies WAL objects. Files are in memory."""

    def __init__(self, store: MemoryObjects, manifest: Manifest | None = None) -> None:
        self._store = store
        self.number = manifest.number if manifest is not None else 0
        self.tree = manifest.tree() if manifest is not None else Tree()
        self.files = {number: self._content(file) for number, file in self.tree.files.items()}

    def _content(self, file: TreeFile) -> bytearray:
        content = bytearray(file.size)
        for fetch in fetches(file.extents):
            data, _ = self._store.objects[KEYS.segment(fetch.object)]
            for at, piece in pieces(fetch, data[fetch.start : fetch.end]):
                content[at : at + len(piece)] = piece
        return content

    def read_to(self, number: int) -> Reader:
        while self.number < number:
            self.number += 1
            data, _ = self._store.objects[KEYS.wal(self.number)]
            for change in decode(WalObject.unpack(data, KEYS.shard, self.number).payload):
                self._apply(change)
        return self

    def _apply(self, change: Change) -> None:
        file = self.tree.apply(change)
        match change:
            case Create():
                assert file is not None
                self.files[file.id] = bytearray()
            case Write(number, offset, data):
                content = self.files[number]
                content += bytes(max(offset - len(content), 0))
                content[offset : offset + len(data)] = data
            case Truncate(number, size):
                content = self.files[number]
                content += bytes(max(size - len(content), 0))
                del content[size:]
            case Unlink() | Rename() if file is not None:
                del self.files[file.id]
            case SnapshotBegun() | SnapshotTaken() | _:
                pass

    def contents(self) -> dict[str, bytes]:
        return {self.tree.files[number].path: bytes(data) for number, data in self.files.items()}

    def known(self) -> list[Any]:
        """All that the tree says, but for bytes below dirty ones: extents lie there or do not."""
        return [
            (file.id, file.path, file.size, file.extents, file.dirty, file.copying)
            for file in self.tree.files.values()
        ]


def manifests(store: MemoryObjects) -> dict[int, Manifest]:
    """The snapshots in a bucket, by number."""
    prefix = KEYS.snapshots_prefix
    numbers = [
        n for key in store.objects if key.startswith(prefix) and (n := KEYS.number_of(key)) is not None
    ]
    return {n: Manifest.unpack(store.objects[KEYS.snapshot(n)][0], KEYS.shard, n) for n in sorted(numbers)}
