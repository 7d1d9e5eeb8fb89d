"""The logs of a cluster's Raft groups on one member: which group is whose, and what it was told.

    jetstream/$SYS/_js_/_meta_/    which group a stream or consumer has
    jetstream/$SYS/_js_/GROUP/     what its group was told: the last snapshot, and the log behind it

A log is a store of messages like any stream's; each message has entries, and an entry is an operation: its
kind, and what is to be done. Nothing tells operations that only this member has received from those that a
majority has: all of them count. Source: nats-server 2.15 (raft.go, jetstream_cluster.go).
"""

from __future__ import annotations

import hashlib
import re
import struct
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.engine import message_blocks
from headrace.engine.s2 import Stream, decode_block
from headrace.importing.findings import Finding, Severity
from headrace.jetstream.importing.block_files import BlockFiles, read_file
from headrace.jetstream.importing.crypt import KEY_FILE, WrongKey
from headrace.jetstream.importing.stream_messages import StreamMessages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.jetstream.importing.crypt import Keys

HOME: Final = "$SYS/_js_"
_META: Final = "_meta_"
_SNAPSHOTS: Final = "snapshots"
_GROUP: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
"""Names of Raft groups, and of their directories."""
_SNAPSHOT: Final = re.compile(r"snap\.([0-9]{1,20})\.([0-9]{1,20})")
"""Its term and index."""
_HEAD: Final = struct.Struct("<8sQQQQH")
"""Leader, term, commit, term and index of the one before, how many entries."""
_ENTRY: Final = struct.Struct("<IB")
"""Length of the type and the data, type; 0 is what the group's owner is told."""
_SNAPSHOT_HEAD: Final = struct.Struct("<QQI")
"""Term, index, bytes of what is known of the peers; its own data and a checksum follow."""
_CHECKSUM: Final = 8
_LARGEST: Final = 1 << 30
"""Bytes of all assignments, plain."""
_STREAM, _CONSUMER, _UPDATED_STREAM, _COMPRESSED_CONSUMER = 0, 1, 11, 9


class _Named(msgspec.Struct):
    name: str


class _Client(msgspec.Struct):
    acc: str = ""
    svc: str = ""


class _OfConsumer(msgspec.Struct):
    name: str
    group: _Named
    stream: str = ""
    client: _Client | None = None


class _OfStream(msgspec.Struct):
    stream: _Named
    group: _Named
    client: _Client | None = None
    consumers: list[_OfConsumer] | None = msgspec.field(name="Consumers", default=None)


class RaftLogs:
    """The Raft logs of one server. `home`: its directory `jetstream`."""

    def __init__(self, home: Path, keys: Keys) -> None:
        self._home = home / HOME
        self._keys = keys
        self._groups: dict[tuple[str, ...], str] | None = None

    def group(self, *owner: str) -> str | None:
        """The name of the group of a stream, or of a consumer; None when it is not here.

        `owner`: account and stream, or account, stream and consumer.

        Raises: SourceUnusable.
        """
        if self._groups is None:
            self._groups = {}
            self._read_groups(self._groups)
        group = self._groups.get(owner, "")
        return group if _GROUP.fullmatch(group) and (self._home / group).is_dir() else None

    def operations(self, group: str, findings: list[Finding]) -> Iterator[tuple[int, bytes]]:
        """The operations for the group's owner, each its kind and the rest; `findings` gets what is damaged.

        Raises: SourceUnusable.
        """
        directory = self._home / group
        shown = f"{HOME}/{group}"
        files = BlockFiles(directory, group, group, self._keys, shown)
        key = directory / KEY_FILE
        try:
            opened = self._keys.open(group, group, read_file(key)) if key.is_file() else None
        except WrongKey as error:
            findings.append(Finding(Severity.DAMAGED, f"{shown}/{KEY_FILE}", str(error)))
            return
        for item in StreamMessages(files, group, opened, shown).items():
            if isinstance(item, Finding):
                findings.append(item)
                continue
            try:
                yield from _entries(item.payload)
            except (ValueError, struct.error) as error:
                text = f"entry {item.sequence} of the log cannot be read: {error}"
                findings.append(Finding(Severity.DAMAGED, shown, text))

    def snapshot(self, group: str, findings: list[Finding]) -> bytes:
        """Return the snapshot that replaces the beginning of the log; empty if there is none, or it is
        damaged.
        """
        directory = self._home / group / _SNAPSHOTS
        names = [found for path in directory.glob("snap.*") if (found := _SNAPSHOT.fullmatch(path.name))]
        if not names:
            return b""
        newest = max(names, key=lambda name: (int(name[1]), int(name[2])))[0]
        data = read_file(directory / newest)
        body, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
        key = hashlib.sha256(group.encode()).digest()
        if len(body) < _SNAPSHOT_HEAD.size or message_blocks.checksum(key, body) != checksum:
            shown = f"{HOME}/{group}/{_SNAPSHOTS}/{newest}"
            findings.append(Finding(Severity.DAMAGED, shown, "its checksum does not hold", 0, len(data)))
            return b""
        return body[_SNAPSHOT_HEAD.size + _SNAPSHOT_HEAD.unpack_from(body)[2] :]

    # -- which group is whose ----------------------------------------------------------------------------

    def _read_groups(self, groups: dict[tuple[str, ...], str]) -> None:
        """Streams whose group cannot be read stay without one; each of them gets a finding for that later."""
        if not (self._home / _META).is_dir():
            return
        try:
            body = self.snapshot(_META, [])
            if body:
                for one in msgspec.json.decode(decode_block(body, _LARGEST), type=list[_OfStream]):
                    _enter(groups, one)
        except (ValueError, RecursionError):
            groups.clear()
        for kind, data in self.operations(_META, []):
            try:
                if kind in (_STREAM, _UPDATED_STREAM):
                    _enter(groups, msgspec.json.decode(data, type=_OfStream))
                elif kind in (_CONSUMER, _COMPRESSED_CONSUMER):
                    plain = Stream().decompress(data) if kind == _COMPRESSED_CONSUMER else data
                    consumer = msgspec.json.decode(plain, type=_OfConsumer)
                    groups[_account(consumer.client), consumer.stream, consumer.name] = consumer.group.name
            except (ValueError, RecursionError):
                continue


def _enter(groups: dict[tuple[str, ...], str], one: _OfStream) -> None:
    account, stream = _account(one.client), one.stream.name
    groups[account, stream] = one.group.name
    for consumer in one.consumers or ():
        groups[account, stream, consumer.name] = consumer.group.name


def _account(client: _Client | None) -> str:
    return (client and (client.svc or client.acc)) or "$G"


def _entries(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the data of each entry of a raft message. Raises: ValueError, struct.error."""
    *_, count = _HEAD.unpack_from(data)
    at = _HEAD.size
    for _ in range(count):
        size, kind = _ENTRY.unpack_from(data, at)
        end = at + 4 + size
        if size < 1 or end > len(data):
            raise ValueError("it is cut off")
        if kind == 0 and size > 1:
            yield data[at + _ENTRY.size], data[at + _ENTRY.size + 1 : end]
        at = end
