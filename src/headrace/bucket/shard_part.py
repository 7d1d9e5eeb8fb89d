"""Parts of a shard: some files as they are at one moment, apart from the rest.

A store is opened over them that may write, or another process gets them, which reads the bucket itself.

What objects of the bucket hold is named, not copied; what the write-ahead log alone holds goes along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.bucket.changes import Write
from headrace.bucket.shard_files import ShardFiles
from headrace.bucket.tree import Directory, FileEntry, Tree, TreeFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headrace.bucket.extent_contents import ExtentContents

    Spans = Sequence[tuple[int, int]]
    """Bytes [start, end) of a file."""


class ShardPart(Struct, frozen=True):
    """Files of a shard, and the directories they are in. Can be pickled."""

    directories: tuple[str, ...]
    """The directories of these files, each behind the one that it is in."""
    files: tuple[FileEntry, ...]
    writes: tuple[Write, ...]
    """The bytes of these files that no object has."""

    def opened(self, contents: ExtentContents, directory: Path) -> ShardFiles:
        """Return these files alone, as if they were below a directory."""
        tree = Tree.of(self.directories, self.files, max((one.id for one in self.files), default=0) + 1)
        found = ShardFiles(contents, tree, directory)
        for write in self.writes:
            tree.apply(write)
            found.unsaved.put(write.file, write.offset, write.data)
        return found


def directories_of(files: ShardFiles, directories: Iterable[Path]) -> ShardPart:
    """Return some directories with everything below them; those that are not there are left out."""
    found: list[Directory] = []
    for path in directories:
        node = files.tree.find(path.relative_to(files.directory).as_posix())
        if isinstance(node, Directory):
            found.append(node)
    inside = [one for directory in found for one in _below(directory)]
    chosen = [one for one in inside if isinstance(one, TreeFile)]
    return _part(
        files, [one for one in inside if isinstance(one, Directory)], [(one, None) for one in chosen]
    )


def spans_of(files: ShardFiles, wanted: Mapping[Path, Spans | None]) -> ShardPart:
    """Return files with some spans of their bytes, None: all; no other bytes of them may be read.

    Raises: FileNotFoundError.
    """
    chosen: list[tuple[TreeFile, Spans | None]] = []
    for path, spans in wanted.items():
        file = files.tree.file_at(path.relative_to(files.directory).as_posix())
        if file is None:
            raise FileNotFoundError(f"{path} is not there")
        chosen.append((file, spans))
    return _part(files, [], chosen)


def _below(directory: Directory) -> Iterator[Directory | TreeFile]:
    yield directory
    for node in directory.entries.values():
        if isinstance(node, Directory):
            yield from _below(node)
        else:
            yield node


def _part(
    files: ShardFiles, directories: Iterable[Directory], chosen: Sequence[tuple[TreeFile, Spans | None]]
) -> ShardPart:
    above: dict[str, None] = {}
    for directory in [*directories, *(file.parent for file, _ in chosen)]:
        way, node = [], directory
        while node is not None and node.parent is not None:
            way.append(node.path)
            node = node.parent
        above |= dict.fromkeys(reversed(way))
    entries, writes = [], []
    for file, spans in chosen:
        wanted = [(0, file.size)] if spans is None else spans
        extents = dict.fromkeys(one for start, end in wanted for one in file.extents_in(start, end))
        ordered = tuple(sorted(extents, key=lambda one: one.start))
        entries.append(FileEntry(file.id, file.path, file.size, ordered))
        for start, end in wanted:
            for ranges in (file.copying, file.dirty):
                writes += [
                    Write(file.id, first, files.unsaved.read(file.id, first, behind))
                    for first, behind in ranges.within(start, end)
                ]
    return ShardPart(tuple(above), tuple(entries), tuple(writes))
