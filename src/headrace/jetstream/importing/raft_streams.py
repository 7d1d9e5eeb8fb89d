"""The tail of a stream in a Raft log: messages that a member of a cluster was told and had not stored yet.

A member stores a message a moment after its log has it: after a kill the end of a stream may be in the log
alone. Stored messages are found in the log by their time, which the leader gave them; those after the last
one that is stored get the sequences after its own. Source: nats-server 2.15 (jetstream_cluster.go:
encodeStreamMsg, applyStreamEntries).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from headrace.engine.s2 import decode_block
from headrace.importing.findings import Finding, Severity
from headrace.jetstream.importing.model import SourceStreamMessage
from headrace.jetstream.importing.raft_log import HOME
from headrace.jetstream.importing.stream_index import Varints
from headrace.jetstream.stream.dedupe import MSG_ID
from headrace.log.port import LARGEST_SEQUENCE, LARGEST_TIME
from headrace.protocol.jetstream import headers as block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.jetstream.importing.model import Extent
    from headrace.jetstream.importing.raft_log import RaftLogs

_MESSAGE, _PURGE, _DELETE, _COMPRESSED, _BATCHED, _BATCH_END = 4, 5, 6, 14, 16, 17
_LARGEST: Final = 65 << 20
"""Bytes of a message that was compressed: payloads have 64 MiB at most."""
_HEAD: Final = 8
"""Bytes of a message that say which sequence was the last one before."""


class _Deletion(msgspec.Struct):
    seq: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_SEQUENCE)]


class Tail(NamedTuple):
    """The messages that were not stored yet.

    One without a subject stands for a sequence without a message.
    """

    messages: list[SourceStreamMessage]
    deleted: set[int]
    findings: list[Finding]


def read_tail(logs: RaftLogs, account: str, stream: str, stored: Extent) -> Tail:
    """Read the messages of a stream's Raft log after the last stored one. Raises: SourceUnusable."""
    group = logs.group(account, stream)
    if group is None:
        text = "its Raft group is not here: what was not stored yet, if anything, is not known"
        return Tail([], set(), [Finding(Severity.NOTE, f"{account}/{stream}", text)])
    tail = Tail([], set(), [])
    waiting: dict[bytes, list[bytes]] = {}
    found = False
    for kind, data in logs.operations(group, tail.findings):
        try:
            if kind == _DELETE:
                tail.deleted.add(msgspec.json.decode(data, type=_Deletion).seq)
            messages = [_message(encoded) for encoded in _whole(kind, data, waiting)]
        except (ValueError, IndexError, RecursionError) as error:
            text = f"an operation of kind {kind} cannot be read: {error}"
            tail.findings.append(Finding(Severity.DAMAGED, f"{HOME}/{group}", text))
            continue
        if kind == _PURGE and (found or tail.messages):
            text = "a purge that was not done yet is not done"
            tail.findings.append(Finding(Severity.NOTE, f"{HOME}/{group}", text))
        for message in messages:
            if message.time_ns == stored.last_time_ns:
                found = True
                tail.messages.clear()
            elif found or message.time_ns > stored.last_time_ns:
                tail.messages.append(message)
    return Tail(list(_numbered(tail.messages, stored.last_sequence)), tail.deleted, tail.findings)


def _whole(kind: int, data: bytes, waiting: dict[bytes, list[bytes]]) -> list[bytes]:
    """The messages of an operation, plain; those of a batch come with its last one. Raises: ValueError."""
    if kind == _MESSAGE:
        return [data]
    if kind == _COMPRESSED:
        return [decode_block(data, _LARGEST)]
    if kind not in (_BATCHED, _BATCH_END):
        return []
    size = int.from_bytes(data[:2], "little")
    reader = Varints(data, 2 + size)
    if reader.unsigned() == 1:
        waiting.pop(data[2 : 2 + size], None)
    batch = waiting.setdefault(data[2 : 2 + size], [])
    if data[reader.at] not in (_MESSAGE, _COMPRESSED):
        raise ValueError(f"a batch has an operation of kind {data[reader.at]} in it")
    batch += _whole(data[reader.at], data[reader.at + 1 :], {})
    return waiting.pop(data[2 : 2 + size]) if kind == _BATCH_END else []


def _message(data: bytes) -> SourceStreamMessage:
    """Return the message that an entry of a stream's raft log stores. Raises: ValueError."""
    reader = Varints(data, _HEAD)
    time_ns = int.from_bytes(reader.bytes(8), "little")
    if time_ns > LARGEST_TIME:
        raise ValueError("a time is impossible")
    subject, _reply, headers = (reader.bytes(int.from_bytes(reader.bytes(2), "little")) for _ in range(3))
    payload = reader.bytes(int.from_bytes(reader.bytes(4), "little"))
    return SourceStreamMessage(0, time_ns, subject, headers, payload)


def _numbered(messages: list[SourceStreamMessage], last: int) -> Iterator[SourceStreamMessage]:
    """Yield messages with the sequences that a server gives them when it stores them."""
    seen: set[bytes] = set()
    for message in messages:
        identity = block.value(message.headers, MSG_ID) if message.headers else b""
        if identity and identity in seen:
            continue
        seen.add(identity)
        last += 1
        yield message._replace(sequence=last)
