"""The tree: the directories and files of a shard, and where their bytes are.

Here lives the state machine that the changes of the write-ahead log drive. The same changes give the same
tree, on the owner, on a server that stands by, and for who reads the bucket alone. Never here: bytes of
files, a file system, the bucket.

The bytes of a file are in its extents, which objects of the bucket hold; over them lie those that only the
write-ahead log holds (`dirty`, and `copying` while a snapshot takes them into objects); where there is
neither, zeros. An extent may lie below dirty bytes: the snapshot before needs it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.bucket.changes import (
    LARGEST_NUMBER,
    Change,
    Create,
    FileExtent,
    Mkdir,
    Rename,
    Rmdir,
    SnapshotBegun,
    SnapshotTaken,
    StoreUploaded,
    Truncate,
    Unlink,
    Write,
)
from headrace.bucket.errors import Behind, DamagedObject
from headrace.bucket.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class FileEntry(Struct, frozen=True):
    """A file of a tree at one moment, without bytes that only the write-ahead log holds."""

    id: int
    path: str
    size: int
    extents: tuple[FileExtent, ...]


class Directory(Struct, eq=False):
    """A directory; the one at the top has no name and no parent."""

    name: str
    parent: Directory | None
    entries: dict[str, Node] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path from the top, whose own is empty."""
        return _path(self)


class TreeFile(Struct, eq=False):
    """A file: its number, its size in bytes, and where its bytes are."""

    id: int
    name: str
    parent: Directory | None
    """The directory it is in; None once the file is gone."""
    size: int = 0
    extents: list[FileExtent] = field(default_factory=list)
    """Ascending; none lies over another."""
    dirty: Ranges = field(default_factory=Ranges)
    """The bytes that only the write-ahead log holds."""
    copying: Ranges = field(default_factory=Ranges)
    """The bytes that the snapshot at hand takes into objects; what is written meanwhile is dirty, too."""
    least: int = LARGEST_NUMBER
    """The smallest size since the snapshot at hand began: what it stored behind that is of the past."""

    @property
    def path(self) -> str:
        """The path from the top of the tree."""
        return _path(self)

    @property
    def is_gone(self) -> bool:
        """True if the file was removed, or another took its path."""
        return self.parent is None

    def write(self, offset: int, size: int) -> None:
        """Note bytes that were written."""
        end = offset + size
        if size:
            self.dirty.add(offset, end)
            self.size = max(self.size, end)

    def truncate(self, size: int) -> None:
        """Note another size."""
        if size < self.size:
            self.dirty.cut(size)
            self.copying.cut(size)
            self.least = min(self.least, size)
            self._cut_extents(size)
        self.size = size

    def lay(self, extent: FileExtent) -> None:
        """Lay an extent over those that are there."""
        extents, start, end = self.extents, extent.start, extent.end
        first = bisect_right(extents, start, key=_end_of)
        last = bisect_left(extents, end, key=_start_of)
        laid = [extent]
        if first < last:
            if extents[first].start < start:
                laid.insert(0, piece(extents[first], extents[first].start, start))
            if extents[last - 1].end > end:
                laid.append(piece(extents[last - 1], end, extents[last - 1].end))
        extents[first : max(first, last)] = laid

    def extents_in(self, start: int, end: int) -> Iterator[FileExtent]:
        """The extents that have bytes of [start, end), whole."""
        place = bisect_right(self.extents, start, key=_end_of)
        while place < len(self.extents) and self.extents[place].start < end:
            yield self.extents[place]
            place += 1

    def begin_snapshot(self) -> None:
        """Have the snapshot at hand take what is dirty, and what an earlier one that came to nothing had."""
        if self.copying:
            for start, end in self.dirty:
                self.copying.add(start, end)
            self.dirty.clear()
        else:
            self.dirty, self.copying = self.copying, self.dirty
        self.least = LARGEST_NUMBER

    def end_snapshot(self, extents: Iterable[FileExtent]) -> None:
        """Take what a snapshot stored for what it took; what it left out stays dirty."""
        for extent in extents:
            end = min(extent.end, self.least)
            if extent.start < end:
                self.lay(extent if end == extent.end else piece(extent, extent.start, end))
                self.copying.remove(extent.start, end)
        for start, end in self.copying:
            self.dirty.add(start, end)
        self.copying.clear()
        self.least = LARGEST_NUMBER

    def _cut_extents(self, size: int) -> None:
        extents = self.extents
        del extents[bisect_left(extents, size, key=_start_of) :]
        if extents and extents[-1].end > size:
            extents[-1] = piece(extents[-1], extents[-1].start, size)


Node: TypeAlias = TreeFile | Directory


def _path(node: Node) -> str:
    names = [node.name]
    parent = node.parent
    while parent is not None and parent.parent is not None:
        names.append(parent.name)
        parent = parent.parent
    return "/".join(reversed(names))


def _start_of(extent: FileExtent) -> int:
    return extent.start


def _end_of(extent: FileExtent) -> int:
    return extent.end


def piece(extent: FileExtent, start: int, end: int) -> FileExtent:
    """Return the part [start, end) of an extent, in places of the file."""
    return replace(extent, start=start, size=end - start, skip=extent.skip + start - extent.start)


class Tree:
    """The directories and files of a shard. `apply` is the one way to change it.

    `files`: those that are there, by number. `unsaved`: those of them with bytes that only the write-ahead
    log holds, or that were cut while a snapshot is made.
    """

    def __init__(self) -> None:
        self.root: Final = Directory("", None)
        self.files: Final[dict[int, TreeFile]] = {}
        self.unsaved: Final[dict[int, TreeFile]] = {}
        self.next_id = 1
        self._apply: Final[dict[type[Change], Callable[..., TreeFile | None]]] = {
            Create: self._create,
            Write: self._write,
            Truncate: self._truncate,
            Rename: self._rename,
            Unlink: self._unlink,
            Mkdir: self._mkdir,
            Rmdir: self._rmdir,
            SnapshotBegun: self._begin_snapshot,
            SnapshotTaken: self._end_snapshot,
            StoreUploaded: self._refuse_to_follow,
        }

    @classmethod
    def of(cls, directories: Iterable[str], files: Iterable[FileEntry], next_id: int) -> Tree:
        """Return the tree of a snapshot; each directory comes behind the one that it is in.

        Raises: DamagedObject.
        """
        tree = cls()
        for path in directories:
            tree.apply(Mkdir(path))
        for entry in files:
            tree.next_id = entry.id
            if entry.id in tree.files or not 0 < entry.id < next_id:
                raise DamagedObject(f"a file has the number {entry.id}, which it cannot have")
            file = tree._create(Create(entry.path))
            file.size = entry.size
            for extent in entry.extents:
                if extent.end > entry.size or (file.extents and file.extents[-1].end > extent.start):
                    raise DamagedObject(f"{entry.path}: an extent at {extent.start} lies where it cannot")
                file.extents.append(extent)
        tree.next_id = next_id
        return tree

    # ---- what is there ----------------------------------------------------------------------

    def find(self, path: str) -> Node | None:
        """Return what is at a path; None: nothing."""
        node: Node | None = self.root
        for name in path.split("/"):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(name)
        return node

    def file_at(self, path: str) -> TreeFile | None:
        """Return the file at a path; None: there is none."""
        node = self.find(path)
        return node if isinstance(node, TreeFile) else None

    def directories(self) -> Iterator[str]:
        """Paths of all directories but the top one; each comes behind the one that it is in."""
        waiting = [self.root]
        for directory in waiting:
            if directory is not self.root:
                yield directory.path
            waiting += [node for node in directory.entries.values() if isinstance(node, Directory)]

    def entries(self) -> list[FileEntry]:
        """Return all files as they are now, by number."""
        return [FileEntry(file.id, file.path, file.size, tuple(file.extents)) for file in self.files.values()]

    @property
    def unsaved_bytes(self) -> int:
        """Bytes that only the write-ahead log holds."""
        return sum(file.dirty.size + file.copying.size for file in self.unsaved.values())

    # ---- changes ----------------------------------------------------------------------------

    def apply(self, change: Change) -> TreeFile | None:
        """Apply a change; return its file, if it is about one: also one that is gone by it.

        Raises: DamagedObject for a change of what is not there, Behind where a store was uploaded, whose
        snapshot has to be begun with; then nothing is different.
        """
        return self._apply[type(change)](change)

    def _create(self, change: Create) -> TreeFile:
        directory, name = self._place(change.path)
        if name in directory.entries:
            raise DamagedObject(f"{change.path} is created, and is there")
        file = TreeFile(self.next_id, name, directory)
        self.next_id += 1
        self.files[file.id] = directory.entries[name] = file
        return file

    def _write(self, change: Write) -> TreeFile:
        file = self._file(change.file)
        self.note_write(file, change.offset, len(change.data))
        return file

    def note_write(self, file: TreeFile, offset: int, size: int) -> None:
        """Apply a write to a file that is there, as `apply` does."""
        file.write(offset, size)
        self.unsaved[file.id] = file

    def _truncate(self, change: Truncate) -> TreeFile:
        file = self._file(change.file)
        file.truncate(change.size)
        self.unsaved[file.id] = file
        return file

    def _rename(self, change: Rename) -> TreeFile | None:
        node = self.find(change.old)
        directory, name = self._place(change.new)
        target = directory.entries.get(name)
        if node is None or target is node or _is_in(directory, node):
            raise DamagedObject(f"{change.old} is renamed to {change.new}, which cannot be")
        if target is not None:
            if isinstance(target, Directory) and (target.entries or isinstance(node, TreeFile)):
                raise DamagedObject(f"{change.new} is a directory that cannot be replaced")
            if isinstance(target, TreeFile) and isinstance(node, Directory):
                raise DamagedObject(f"{change.new} is a file, and a directory is renamed to it")
            self._forget(target)
        assert node.parent is not None
        del node.parent.entries[node.name]
        node.name, node.parent = name, directory
        directory.entries[name] = node
        return target if isinstance(target, TreeFile) else None

    def _unlink(self, change: Unlink) -> TreeFile:
        file = self.find(change.path)
        if not isinstance(file, TreeFile):
            raise DamagedObject(f"{change.path} is removed, and is no file")
        self._forget(file)
        return file

    def _mkdir(self, change: Mkdir) -> None:
        directory, name = self._place(change.path)
        if name in directory.entries:
            raise DamagedObject(f"{change.path} is made, and is there")
        directory.entries[name] = Directory(name, directory)

    def _rmdir(self, change: Rmdir) -> None:
        node = self.find(change.path)
        if not isinstance(node, Directory) or node.entries:
            raise DamagedObject(f"{change.path} is removed, and is no empty directory")
        self._forget(node)

    def _begin_snapshot(self, change: SnapshotBegun) -> None:
        del change
        for file in list(self.unsaved.values()):
            file.begin_snapshot()
            if not file.copying:
                del self.unsaved[file.id]

    def _end_snapshot(self, change: SnapshotTaken) -> None:
        stored: dict[int, list[FileExtent]] = {}
        for number, extent in change.extents:
            stored.setdefault(number, []).append(extent)
        for number in [*self.unsaved, *(number for number in stored if number not in self.unsaved)]:
            file = self.files.get(number)
            if file is None:  # it went meanwhile
                continue
            file.end_snapshot(stored.get(number, ()))
            if not file.dirty:
                self.unsaved.pop(number, None)

    def _refuse_to_follow(self, change: StoreUploaded) -> None:
        del change
        raise Behind("a store was uploaded, and its snapshot is not there: the upload has to be run again")

    # ---- places -----------------------------------------------------------------------------

    def _file(self, number: int) -> TreeFile:
        file = self.files.get(number)
        if file is None:
            raise DamagedObject(f"file {number} is changed, and is not there")
        return file

    def _place(self, path: str) -> tuple[Directory, str]:
        """Return the directory that a path leads to, and the last name of the path."""
        above, _, name = path.rpartition("/")
        directory = self.find(above) if above else self.root
        if not isinstance(directory, Directory) or not name:
            raise DamagedObject(f"{path}: there is no such directory")
        return directory, name

    def _forget(self, node: Node) -> None:
        assert node.parent is not None
        del node.parent.entries[node.name]
        node.parent = None
        if isinstance(node, TreeFile):
            del self.files[node.id]
            self.unsaved.pop(node.id, None)


def _is_in(directory: Directory, node: Node) -> bool:
    """True if a directory is `node`, or below it."""
    above: Directory | None = directory
    while above is not None:
        if above is node:
            return True
        above = above.parent
    return False
