"""The files of a shard in memory: what an owner's logs write, recorded, and what others make of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.bucket.capture import LOCAL_NAMES, CapturingFileSystem
from headrace.bucket.changes import decode
from headrace.bucket.journal import Journal
from headrace.bucket.mirror import Mirror
from headrace.bucket.tree import Tree
from headrace.testing.faultfs import MemoryFileSystem, image_of

if TYPE_CHECKING:
    from headrace.bucket.changes import Change
    from headrace.log.filesystem import FileSystem

ROOT: Final = Path("/")
ALL: Final = 1 << 60


class Owner:
    """The files of an owner; `files` is what its logs are given. `inner`: where they are, with the tree."""

    def __init__(self, inner: FileSystem | None = None, tree: Tree | None = None) -> None:
        self.inner: FileSystem = MemoryFileSystem() if inner is None else inner
        self.tree = tree or Tree()
        self.journal = Journal()
        self.files = CapturingFileSystem(self.inner, ROOT, self.tree, self.journal)

    def take(self) -> bytes:
        """The payload of an object with all that was recorded and not taken yet."""
        taken = self.journal.take(ALL)
        return b"" if taken is None else b"".join(taken.parts)

    def take_changes(self) -> list[Change]:
        """All changes that were recorded and not taken yet, one by one."""
        found: list[Change] = []
        while (taken := self.journal.take(1)) is not None:
            found += decode(b"".join(taken.parts))
        return found


class Standby:
    """The files of a server that reads along."""

    def __init__(self) -> None:
        self.inner = MemoryFileSystem()
        self.tree = Tree()
        self.mirror = Mirror(self.inner, ROOT, self.tree)

    def promoted(self) -> Owner:
        """It owns the files now."""
        self.mirror.close()
        return Owner(self.inner, self.tree)


def shown(tree: Tree) -> object:
    """All that is in a tree."""
    return (
        list(tree.directories()),
        [(e, list(tree.files[e.id].dirty), list(tree.files[e.id].copying)) for e in tree.entries()],
        tree.next_id,
    )


def recorded_image(files: FileSystem) -> dict[Path, bytes]:
    """The files that are there, without those that mean something on one machine only."""
    return {path: data for path, data in image_of(files, ROOT).items() if path.name not in LOCAL_NAMES}
