"""The tree of a shard: what its changes do, against files that are kept as bytes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from harness.captured import shown
from headrace.bucket.changes import (
    Change,
    Create,
    FileExtent,
    Mkdir,
    Rename,
    Rmdir,
    SnapshotBegun,
    SnapshotTaken,
    Truncate,
    Unlink,
    Write,
)
from headrace.bucket.errors import DamagedObject
from headrace.bucket.tree import FileEntry, Tree, TreeFile, piece

if TYPE_CHECKING:
    from collections.abc import Sequence


def tree_of(*changes: Change) -> Tree:
    tree = Tree()
    for change in changes:
        tree.apply(change)
    return tree


def test_files_get_numbers_in_the_order_of_their_creation() -> None:
    tree = tree_of(Mkdir("logs"), Create("logs/a"), Create("b"), Unlink("b"), Create("b"))

    assert [(entry.id, entry.path) for entry in tree.entries()] == [(1, "logs/a"), (3, "b")]
    assert tree.next_id == 4
    assert tree.file_at("logs") is None
    assert tree.file_at("logs/a/c") is None
    assert tree.find("logs/c") is None


def test_a_renamed_directory_takes_its_files_along() -> None:
    tree = tree_of(
        Mkdir("logs"), Mkdir("logs/a"), Create("logs/a/1"), Mkdir("empty"), Rename("logs/a", "empty")
    )

    assert list(tree.directories()) == ["logs", "empty"]
    assert [entry.path for entry in tree.entries()] == ["empty/1"]


def test_a_file_that_is_renamed_over_is_gone() -> None:
    tree = tree_of(Create("a"), Write(1, 0, b"1"), Create("b"), Write(2, 0, b"22"))
    gone = tree.files[1]

    assert tree.apply(Rename("b", "a")) is gone
    assert gone.is_gone
    assert [(entry.id, entry.path, entry.size) for entry in tree.entries()] == [(2, "a", 2)]
    assert set(tree.unsaved) == {2}


@pytest.mark.parametrize(
    "change",
    [
        Create("d"),
        Create("f"),
        Create("none/f"),
        Create("f/g"),
        Write(9, 0, b""),
        Truncate(9, 0),
        Rename("none", "n"),
        Rename("f", "f"),
        Rename("f", "d"),
        Rename("d", "f"),
        Rename("d", "full"),
        Rename("full", "full/d"),
        Rename("f", "none/f"),
        Unlink("none"),
        Unlink("d"),
        Mkdir("d"),
        Mkdir("f"),
        Mkdir("none/d"),
        Rmdir("f"),
        Rmdir("full"),
        Rmdir("none"),
    ],
)
def test_changes_that_cannot_be_leave_all_as_it_is(change: Change) -> None:
    tree = tree_of(Mkdir("d"), Create("f"), Write(1, 0, b"1"), Mkdir("full"), Create("full/f"))
    before = shown(tree)

    with pytest.raises(DamagedObject):
        tree.apply(change)

    assert shown(tree) == before


def test_what_was_cut_off_does_not_come_back_with_a_snapshot() -> None:
    tree = tree_of(Create("f"), Write(1, 0, b"x" * 10), SnapshotBegun(), Truncate(1, 4), Truncate(1, 10))

    tree.apply(SnapshotTaken(7, ((1, FileExtent(0, 10, "o", 100, 10, 5)),)))

    assert tree.files[1].extents == [FileExtent(0, 4, "o", 100, 10, 5)]
    assert not tree.unsaved


def test_bytes_that_a_snapshot_left_out_stay_dirty() -> None:
    tree = tree_of(Create("f"), Write(1, 0, b"x" * 10), SnapshotBegun(), Write(1, 20, b"y"))

    tree.apply(SnapshotTaken(7, ((1, FileExtent(3, 2, "o", 0, 2, 5)), (8, FileExtent(0, 1, "o", 0, 1, 0)))))

    assert list(tree.files[1].dirty) == [(0, 3), (5, 10), (20, 21)]
    assert tree.unsaved_bytes == 9


def test_a_snapshot_that_came_to_nothing_is_taken_up_by_the_next() -> None:
    tree = tree_of(Create("f"), Write(1, 0, b"xx"), SnapshotBegun(), Write(1, 5, b"y"), SnapshotBegun())

    assert list(tree.files[1].copying) == [(0, 2), (5, 6)]
    assert not tree.files[1].dirty


def test_pieces_know_where_their_stored_run_begins() -> None:
    extent = FileExtent(10, 10, "o", 1000, 10, 5)

    part = piece(piece(extent, 12, 18), 15, 18)

    assert part == FileExtent(15, 3, "o", 1000, 10, 5, skip=5)
    assert part.end == 18


@pytest.mark.parametrize(
    ("directories", "files", "next_id"),
    [
        (["a/b"], [], 1),
        (["a", "a"], [], 1),
        ([], [FileEntry(2, "f", 0, ())], 2),
        ([], [FileEntry(0, "f", 0, ())], 2),
        ([], [FileEntry(1, "f", 0, ()), FileEntry(1, "g", 0, ())], 2),
        ([], [FileEntry(1, "f", 0, ()), FileEntry(2, "f", 0, ())], 3),
        ([], [FileEntry(1, "f", 4, (FileExtent(0, 5, "o", 0, 5, 0),))], 2),
        ([], [FileEntry(1, "f", 9, (FileExtent(0, 5, "o", 0, 5, 0), FileExtent(4, 5, "o", 0, 5, 0)))], 2),
    ],
)
def test_snapshots_of_no_tree_are_refused(
    directories: Sequence[str], files: Sequence[FileEntry], next_id: int
) -> None:
    with pytest.raises(DamagedObject):
        Tree.of(directories, files, next_id)


class Play:
    """Random changes of a tree, beside the bytes of its files and the objects of snapshots."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.tree = Tree()
        self.bytes: dict[int, bytearray] = {}
        self.objects: dict[str, bytes] = {}
        self.copying: dict[int, list[tuple[int, int]]] | None = None
        self.at_cut: tuple[list[str], list[FileEntry], int] | None = None
        self.since_cut: list[Change] = []
        self.snapshots = 0

    def apply(self, change: Change) -> None:
        self.tree.apply(change)
        self.since_cut.append(change)

    def step(self) -> None:
        random, tree = self.random, self.tree
        files = list(tree.files.values())
        if not files or random.random() < 0.1:
            path = random.choice("abcdefgh")
            if tree.find(path) is None:
                self.bytes[tree.next_id] = bytearray()
                self.apply(Create(path))
            return
        file = random.choice(files)
        match random.randrange(9):
            case 0 | 1 | 2:
                self.write(file, file.size, random.randbytes(random.randrange(6)))
            case 3 | 4:
                self.write(file, random.randrange(file.size + 5), random.randbytes(random.randrange(1, 9)))
            case 5:
                self.truncate(file, random.choice([0, file.size, random.randrange(file.size + 8)]))
            case 6 if random.random() < 0.3:
                self.apply(Unlink(file.path))
            case 7 if random.random() < 0.5:
                other = random.choice("abcdefgh")
                if other != file.path:
                    self.apply(Rename(file.path, other))
            case 8 if random.random() < 0.5:
                self.snapshot()

    def write(self, file: TreeFile, offset: int, data: bytes) -> None:
        content = self.bytes[file.id]
        if data:
            content.extend(bytes(max(offset - len(content), 0)))
            content[offset : offset + len(data)] = data
        self.apply(Write(file.id, offset, data))

    def truncate(self, file: TreeFile, size: int) -> None:
        content = self.bytes[file.id]
        del content[size:]
        content.extend(bytes(size - len(content)))
        self.apply(Truncate(file.id, size))

    def snapshot(self) -> None:
        """Begin one, or finish the one that was begun; sometimes begin another instead."""
        tree = self.tree
        if self.copying is None or self.random.random() < 0.2:
            self.apply(SnapshotBegun())
            self.copying = {file.id: list(file.copying) for file in tree.unsaved.values()}
            self.at_cut = list(tree.directories()), tree.entries(), tree.next_id
            self.since_cut = []
            return
        self.snapshots += 1
        stored: list[tuple[int, FileExtent]] = []
        for number, ranges in self.copying.items():
            stored += [(number, self.store(number, start, end)) for start, end in ranges]
        assert self.at_cut is not None
        for entry in self.at_cut[1]:  # what lay in objects already is put together
            if entry.size and self.random.random() < 0.2:
                stored = [one for one in stored if one[0] != entry.id]
                stored.append((entry.id, self.store(entry.id, 0, entry.size)))
        taken = SnapshotTaken(self.snapshots, tuple(stored))
        self.apply(taken)
        self.check_from_manifest(taken)
        self.copying = None

    def store(self, number: int, start: int, end: int) -> FileExtent:
        """An object with bytes of a file, as they are now: redoing later changes gives the same."""
        name = f"o{len(self.objects)}"
        before = self.random.randrange(4)
        data = bytes(self.bytes[number][start:end]).ljust(end - start, b"\0")
        self.objects[name] = bytes(before) + data
        return FileExtent(start, end - start, name, before, end - start, 0)

    def check_from_manifest(self, taken: SnapshotTaken) -> None:
        """A reader that begins at the snapshot has the same tree as one that was there before it."""
        assert self.at_cut is not None
        directories, files, next_id = self.at_cut
        at_cut = Tree.of(directories, files, next_id)
        at_cut.apply(taken)
        again = Tree.of(list(at_cut.directories()), at_cut.entries(), at_cut.next_id)
        for change in self.since_cut:
            again.apply(change)
        assert shown(again) == shown(self.tree)

    def check(self) -> None:
        for file in self.tree.files.values():
            content = self.bytes[file.id]
            assert file.size == len(content)
            built = bytearray(file.size)
            before = 0
            for extent in file.extents:
                assert before <= extent.start < extent.end <= file.size
                before = extent.end
                at = extent.offset + extent.skip
                assert extent.skip + extent.size <= extent.stored
                built[extent.start : extent.end] = self.objects[extent.object][at : at + extent.size]
            for start, end in (*file.dirty, *file.copying):
                assert 0 <= start < end <= file.size
                built[start:end] = content[start:end]
            assert built == content
            if file.dirty or file.copying:
                assert file.id in self.tree.unsaved


@pytest.mark.parametrize("seed", range(40))
def test_random_changes(seed: int) -> None:
    play = Play(seed)
    for _ in range(400):
        play.step()
        play.check()
    assert play.snapshots > 3
