"""File systems that fail: one in memory that loses power, one that refuses its Nth call.

Here live the two sides of `headrace.log.filesystem.FileSystem` that tests of durability stand on; never the
real one, and no assertion. The power-loss model is as strict as POSIX: what was not synced may survive whole,
in part, out of order or not at all, a name lives apart from its file, and a failed fsync loses its data.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import threading
from enum import Enum
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from msgspec import Struct, field

from headrace.log.filesystem import FileMode, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path
    from random import Random

    from headrace.log.filesystem import Bytes, FileSystem, Identity

P = ParamSpec("P")
R = TypeVar("R")

SECTOR: Final = 512
"""The bytes that a disk writes at once."""


class _Write(Struct, frozen=True):
    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        end = self.offset + len(self.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        content[self.offset : end] = self.data

    def torn(self, random: Random) -> _Write:
        """Return a torn form of the write: its head, or all of it with some sectors as zeros."""
        if random.random() < 0.5:
            return _Write(self.offset, self.data[: random.randrange(len(self.data) + 1)])
        data = bytearray(self.data)
        first = self.offset - self.offset % SECTOR
        for start in range(first, self.offset + len(data), SECTOR):
            if random.random() < 0.5:
                begin, end = max(start - self.offset, 0), min(start - self.offset + SECTOR, len(data))
                data[begin:end] = bytes(end - begin)
        return _Write(self.offset, bytes(data))


class _Resize(Struct, frozen=True):
    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


class _Reserve(_Resize, frozen=True):
    def apply(self, content: bytearray) -> None:
        content.extend(bytes(max(self.size - len(content), 0)))


_numbers: Final = itertools.count(1)


class _Inode(Struct, eq=False):
    """A file: what calls see, what the disk has, and what lies between, in order."""

    number: int = field(default_factory=_numbers.__next__)
    changes: int = 0
    """The number of changes. A power loss does not count, since no program can rely on seeing it."""
    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Write | _Resize] = field(default_factory=list)

    def change(self, change: _Write | _Resize) -> None:
        change.apply(self.data)
        self.changes += 1
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def forget_read(self) -> None:
        self.data = bytearray(self.durable)
        for change in self.pending:
            change.apply(self.data)

    def lose_power(self, random: Random) -> None:
        for change in _survivors(self.pending, random):
            torn = isinstance(change, _Write) and random.random() < 0.2
            (change.torn(random) if torn and isinstance(change, _Write) else change).apply(self.durable)
        self.pending.clear()
        self.data = bytearray(self.durable)


_Node: TypeAlias = "_Inode | _Directory"


class _Entries(Struct, frozen=True):
    """A change of names in one directory that happens whole: None is a name that goes away."""

    names: dict[str, _Node | None]

    def apply(self, entries: dict[str, _Node]) -> None:
        for name, node in self.names.items():
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node


class _Directory(Struct, eq=False):
    number: int = field(default_factory=_numbers.__next__)
    changes: int = 0
    entries: dict[str, _Node] = field(default_factory=dict)
    durable: dict[str, _Node] = field(default_factory=dict)
    pending: list[_Entries] = field(default_factory=list)

    def change(self, names: dict[str, _Node | None]) -> None:
        change = _Entries(names)
        change.apply(self.entries)
        self.changes += 1
        self.pending.append(change)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def lose_power(self, random: Random) -> None:
        for change in _survivors(self.pending, random):
            change.apply(self.durable)
        self.pending.clear()
        self.entries = dict(self.durable)
        for node in dict.fromkeys(self.entries.values()):  # a set has another order every time
            node.lose_power(random)


class _Handle(Struct):
    inode: _Inode
    mode: FileMode
    locked: bool = False


C = TypeVar("C")


def _survivors(changes: list[C], random: Random) -> list[C]:
    """Choose the unsynced changes that reached the disk: none, all, those up to a moment, or any of them."""
    match random.randrange(4):
        case 0:
            return []
        case 1:
            return list(changes)
        case 2:
            return changes[: random.randrange(len(changes) + 1)]
    return [change for change in changes if random.random() < 0.5]


def _locked(
    method: Callable[Concatenate[MemoryFileSystem, P], R],
) -> Callable[Concatenate[MemoryFileSystem, P], R]:
    @functools.wraps(method)
    def call(self: MemoryFileSystem, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._mutex:
            return method(self, *args, **kwargs)

    return call


class MemoryFileSystem:
    """Files in memory, with what of them is on the disk. Only the root directory is there at first.

    `capacity`: bytes that all files may hold; what is over is ENOSPC, after as much as fits. May be changed.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self._mutex = threading.RLock()
        self._root = _Directory()
        self._handles: dict[int, _Handle] = {}
        self._next_handle = 3

    # What tests do to it

    @_locked
    def kill(self) -> None:
        """The process dies: handles and locks are gone, everything written stays."""
        self._handles.clear()

    @_locked
    def crash(self, random: Random) -> None:
        """The power goes: `kill`, and of what was not synced only what `random` spares is left."""
        self.kill()
        self._root.lose_power(random)

    @_locked
    def lose_unsynced(self, handle: int) -> None:
        """Let fsync fail: unsynced data can be read until the next crash and is never written."""
        inode = self._handle(handle).inode
        inode.pending = [change for change in inode.pending if isinstance(change, _Resize)]

    @property
    def open_handles(self) -> int:
        return len(self._handles)

    @_locked
    def used(self) -> int:
        """Bytes in all files that have a name or a handle."""
        inodes = {handle.inode for handle in self._handles.values()}
        directories = [self._root]
        while directories:
            for node in directories.pop().entries.values():
                if isinstance(node, _Directory):
                    directories.append(node)
                else:
                    inodes.add(node)
        return sum(len(inode.data) for inode in inodes)

    # The port

    @_locked
    def open(self, path: Path, mode: FileMode) -> int:
        directory = self._directory(path.parent)
        node = directory.entries.get(path.name)
        if isinstance(node, _Directory):
            raise _error(errno.EISDIR, path)
        if node is None:
            if mode not in (FileMode.APPEND, FileMode.CREATE):
                raise _error(errno.ENOENT, path)
            node = _Inode()
            directory.change({path.name: node})
        self._next_handle += 1
        self._handles[self._next_handle] = _Handle(node, mode)
        return self._next_handle

    @_locked
    def close(self, handle: int) -> None:
        self._handle(handle)
        del self._handles[handle]

    @_locked
    def pread(self, handle: int, size: int, offset: int) -> bytes:
        return bytes(self._handle(handle).inode.data[offset : offset + size])

    @_locked
    def write(self, handle: int, data: Bytes) -> int:
        inode = self._handle(handle, FileMode.APPEND).inode
        return self._write(inode, bytes(data), len(inode.data))

    @_locked
    def pwrite(self, handle: int, data: Bytes, offset: int) -> int:
        return self._write(self._handle(handle, FileMode.CREATE, FileMode.UPDATE).inode, bytes(data), offset)

    @_locked
    def reserve(self, handle: int, offset: int, size: int) -> None:
        inode = self._handle(handle, FileMode.CREATE, FileMode.UPDATE).inode
        self._room(offset + size - len(inode.data))
        inode.change(_Reserve(offset + size))

    def descriptor(self, handle: int) -> int | None:
        return None

    @_locked
    def truncate(self, handle: int, size: int) -> None:
        inode = self._handle(handle, FileMode.APPEND, FileMode.CREATE, FileMode.UPDATE).inode
        self._room(size - len(inode.data))
        inode.change(_Resize(size))

    @_locked
    def size(self, handle: int) -> int:
        return len(self._handle(handle).inode.data)

    @_locked
    def identity(self, path: Path) -> Identity:
        node = self._directory(path.parent).entries.get(path.name)
        if node is None:
            raise _error(errno.ENOENT, path)
        return node.number, len(node.entries if isinstance(node, _Directory) else node.data), node.changes

    @_locked
    def fsync(self, handle: int) -> None:
        self._handle(handle).inode.sync()

    fdatasync = fsync

    @_locked
    def forget_read(self, handle: int) -> None:
        self._handle(handle).inode.forget_read()

    @_locked
    def rename(self, old: Path, new: Path) -> None:
        source, target = self._directory(old.parent), self._directory(new.parent)
        node, replaced = source.entries.get(old.name), target.entries.get(new.name)
        if node is None:
            raise _error(errno.ENOENT, old)
        if isinstance(replaced, _Directory) and (isinstance(node, _Inode) or replaced.entries):
            raise _error(errno.EISDIR if isinstance(node, _Inode) else errno.ENOTEMPTY, new)
        if isinstance(replaced, _Inode) and isinstance(node, _Directory):
            raise _error(errno.ENOTDIR, new)
        if source is target:
            if old.name != new.name:
                source.change({old.name: None, new.name: node})
        else:  # two directories, two changes: a crash may leave both names or none
            target.change({new.name: node})
            source.change({old.name: None})

    @_locked
    def link(self, old: Path, new: Path) -> None:
        node, target = self._directory(old.parent).entries.get(old.name), self._directory(new.parent)
        if not isinstance(node, _Inode):
            raise _error(errno.ENOENT, old)
        if new.name in target.entries:
            raise _error(errno.EEXIST, new)
        target.change({new.name: node})

    @_locked
    def unlink(self, path: Path) -> None:
        directory = self._directory(path.parent)
        node = directory.entries.get(path.name)
        if node is None or isinstance(node, _Directory):
            raise _error(errno.ENOENT if node is None else errno.EISDIR, path)
        directory.change({path.name: None})

    @_locked
    def listdir(self, directory: Path) -> list[str]:
        return list(self._directory(directory).entries)

    @_locked
    def is_directory(self, path: Path) -> bool:
        try:
            self._directory(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @_locked
    def mkdir(self, directory: Path) -> None:
        parent = self._directory(directory.parent)
        if directory == directory.parent or directory.name in parent.entries:
            raise _error(errno.EEXIST, directory)
        parent.change({directory.name: _Directory()})

    @_locked
    def rmdir(self, directory: Path) -> None:
        if self._directory(directory).entries:
            raise _error(errno.ENOTEMPTY, directory)
        self._directory(directory.parent).change({directory.name: None})

    @_locked
    def fsync_dir(self, directory: Path) -> None:
        self._directory(directory).sync()

    @_locked
    def lock(self, path: Path) -> int:
        handle = self.open(path, FileMode.APPEND)
        inode = self._handles[handle].inode
        if any(other.locked and other.inode is inode for other in self._handles.values()):
            self.close(handle)
            raise _error(errno.EWOULDBLOCK, path)
        self._handles[handle].locked = True
        return handle

    def _handle(self, handle: int, *modes: FileMode) -> _Handle:
        found = self._handles.get(handle)
        if found is None or (modes and found.mode not in modes):
            raise _error(errno.EBADF)
        return found

    def _directory(self, path: Path) -> _Directory:
        node: _Node = self._root
        for name in path.parts[1:] if path.is_absolute() else path.parts:
            if isinstance(node, _Inode):
                raise _error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[name]
        if isinstance(node, _Inode):
            raise _error(errno.ENOTDIR, path)
        return node

    def _write(self, inode: _Inode, data: bytes, offset: int) -> int:
        grows = offset + len(data) - len(inode.data)
        if self.capacity is not None and grows > 0:
            data = data[: max(len(data) - max(self.used() + grows - self.capacity, 0), 0)]
            if not data:
                raise _error(errno.ENOSPC)
        if data:
            inode.change(_Write(offset, data))
        return len(data)

    def _room(self, grows: int) -> None:
        if self.capacity is not None and grows > 0 and self.used() + grows > self.capacity:
            raise _error(errno.ENOSPC)


class Fault(Enum):
    """The way in which a call fails."""

    RAISE = "raise"
    """The call has no effect. A failing fsync loses the unsynced data, as Linux does."""
    PARTIAL = "partial"
    """The call fails as with RAISE, but half of a write is in the file."""
    SHORT = "short"
    """Half of a write is in the file and counted; the call after it fails. Other calls: as RAISE."""


class FaultyFileSystem:
    """Hands calls on and lets those numbered `fail_at`, up to `failures` in a row, fail with `error`.

    Calls count from 1, those named in `only` if any are; `close` never counts nor fails. 0 only counts.
    `calls` is how many there were; `failed` their names. All may be changed between calls.
    """

    def __init__(
        self,
        inner: FileSystem,
        fail_at: int = 0,
        error: int = errno.EIO,
        *,
        failures: int = 1,
        fault: Fault = Fault.RAISE,
        only: Collection[str] = (),
    ) -> None:
        self.inner = inner
        self.fail_at = fail_at
        self.error = error
        self.failures = failures
        self.fault = fault
        self.only = frozenset(only)
        self.calls = 0
        self.failed: list[str] = []
        self._mutex = threading.Lock()

    def open(self, path: Path, mode: FileMode) -> int:
        self._count("open", path)
        return self.inner.open(path, mode)

    def close(self, handle: int) -> None:
        self.inner.close(handle)

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        self._count("pread")
        return self.inner.pread(handle, size, offset)

    def write(self, handle: int, data: Bytes) -> int:
        return self._write("write", data, functools.partial(self.inner.write, handle))

    def pwrite(self, handle: int, data: Bytes, offset: int) -> int:
        return self._write("pwrite", data, lambda part: self.inner.pwrite(handle, part, offset))

    def reserve(self, handle: int, offset: int, size: int) -> None:
        self._count("reserve")
        self.inner.reserve(handle, offset, size)

    def descriptor(self, handle: int) -> int | None:
        return None  # else faults would be passed by

    def truncate(self, handle: int, size: int) -> None:
        self._count("truncate")
        self.inner.truncate(handle, size)

    def size(self, handle: int) -> int:
        self._count("size")
        return self.inner.size(handle)

    def identity(self, path: Path) -> Identity:
        self._count("identity", path)
        return self.inner.identity(path)

    def fsync(self, handle: int) -> None:
        self._sync("fsync", handle)
        self.inner.fsync(handle)

    def fdatasync(self, handle: int) -> None:
        self._sync("fdatasync", handle)
        self.inner.fdatasync(handle)

    def forget_read(self, handle: int) -> None:
        self._count("forget_read")
        self.inner.forget_read(handle)

    def rename(self, old: Path, new: Path) -> None:
        self._count("rename", old)
        self.inner.rename(old, new)

    def unlink(self, path: Path) -> None:
        self._count("unlink", path)
        self.inner.unlink(path)

    def listdir(self, directory: Path) -> list[str]:
        self._count("listdir", directory)
        return self.inner.listdir(directory)

    def is_directory(self, path: Path) -> bool:
        return self.inner.is_directory(path)

    def mkdir(self, directory: Path) -> None:
        self._count("mkdir", directory)
        self.inner.mkdir(directory)

    def rmdir(self, directory: Path) -> None:
        self._count("rmdir", directory)
        self.inner.rmdir(directory)

    def fsync_dir(self, directory: Path) -> None:
        self._count("fsync_dir", directory)
        self.inner.fsync_dir(directory)

    def lock(self, path: Path) -> int:
        self._count("lock", path)
        return self.inner.lock(path)

    def _fails(self, name: str) -> bool:
        if self.only and name not in self.only:
            return False
        with self._mutex:
            self.calls += 1
            fails = self.fail_at > 0 and self.fail_at <= self.calls < self.fail_at + self.failures
            if fails:
                self.failed.append(name)
            return fails

    def _failure(self, name: str) -> int:
        """Count a call; return the error with which it fails, 0 if it does not."""
        return self.error if self._fails(name) else 0

    def _count(self, name: str, path: Path | None = None) -> None:
        if error := self._failure(name):
            raise _error(error, path)

    def _write(self, name: str, data: Bytes, write: Callable[[Bytes], int]) -> int:
        error = self._failure(name)
        if not error:
            return write(data)
        half = memoryview(data).cast("B")[: len(data) // 2]
        if self.fault is not Fault.RAISE and half:
            taken = write(half)
            if self.fault is Fault.SHORT:
                self.fail_at, self.fault = self.calls + 1, Fault.RAISE
                return taken
        raise _error(error)

    def _sync(self, name: str, handle: int) -> None:
        if error := self._failure(name):
            if isinstance(self.inner, MemoryFileSystem):
                self.inner.lose_unsynced(handle)
            raise _error(error)


def _error(number: int, path: Path | None = None) -> OSError:
    """OSError picks its own subclass by the number."""
    arguments: tuple[Any, ...] = (number, os.strerror(number), *([str(path)] if path else []))
    return OSError(*arguments)


def holding(image: Mapping[Path, bytes]) -> MemoryFileSystem:
    """A file system that holds these files, all of them durable."""
    files = MemoryFileSystem()
    for path, data in image.items():
        for parent in [*reversed(path.parents)][1:]:
            if not files.is_directory(parent):
                files.mkdir(parent)
                files.fsync_dir(parent.parent)
        handle = files.open(path, FileMode.APPEND)
        files.write(handle, data)
        files.fsync(handle)
        files.close(handle)
        files.fsync_dir(path.parent)
    return files


def image_of(files: FileSystem, directory: Path) -> dict[Path, bytes]:
    """Return every file below a directory, as a process sees it."""
    found: dict[Path, bytes] = {}
    for name in files.listdir(directory):
        path = directory / name
        found |= image_of(files, path) if files.is_directory(path) else {path: read_file(files, path)}
    return found
