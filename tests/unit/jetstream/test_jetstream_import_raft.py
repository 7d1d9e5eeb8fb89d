"""What Raft groups say of streams and consumers: entries as a log has them, replayed, cut off anywhere."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from headrace.engine.s2 import encode_block
from headrace.jetstream.importing.model import Extent, SourceStreamMessage
from headrace.jetstream.importing.raft_consumers import replayed
from headrace.jetstream.importing.raft_log import _entries
from headrace.jetstream.importing.raft_streams import read_tail
from headrace.protocol.jetstream.configs import AckPolicy, ConsumerConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.importing.findings import Finding

HEADERS = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n"


class Logs:
    """A group that was told these operations."""

    def __init__(self, *operations: tuple[int, bytes], snapshot: bytes = b"") -> None:
        self._operations = operations
        self._snapshot = snapshot

    def group(self, *_owner: str) -> str:
        return "G"

    def operations(self, _group: str, _findings: list[Finding]) -> Iterator[tuple[int, bytes]]:
        yield from self._operations

    def snapshot(self, _group: str, _findings: list[Finding]) -> bytes:
        return self._snapshot


def message(time_ns: int, subject: bytes = b"s", payload: bytes = b"p", identity: bytes = b"") -> bytes:
    headers = HEADERS % identity if identity else b""
    parts = [struct.pack("<Qq", 0, time_ns)]
    parts += [struct.pack("<H", len(part)) + part for part in (subject, b"reply", headers)]
    return b"".join([*parts, struct.pack("<I", len(payload)), payload, b"\0"])


def tail(*operations: tuple[int, bytes], last: int = 5, time_ns: int = 50) -> tuple[list[int], list[str]]:
    """Times of what was not stored yet, and findings."""
    found = read_tail(Logs(*operations), "$G", "S", Extent(1, last, time_ns))  # type: ignore[arg-type]
    assert [one.sequence for one in found.messages] == list(range(last + 1, last + 1 + len(found.messages)))
    return [one.time_ns for one in found.messages], [str(finding) for finding in found.findings]


def varints(*numbers: int) -> bytes:
    found = bytearray()
    for number in numbers:
        rest = number
        while rest > 0x7F:
            found.append(rest & 0x7F | 0x80)
            rest >>= 7
        found.append(rest)
    return bytes(found)


def test_what_is_behind_the_last_stored_message_comes_after_it() -> None:
    operations = [(4, message(time_ns)) for time_ns in (40, 50, 45, 60)]  # the next leader's clock is behind

    assert tail(*operations) == ([45, 60], [])
    assert tail(*operations, time_ns=0) == ([40, 50, 45, 60], [])
    assert tail(*operations, time_ns=55) == ([60], [])


def test_compressed_ones_batches_and_what_comes_twice() -> None:
    batch = b"\x02\x00id"
    assert tail(
        (14, encode_block(message(60))),
        (16, batch + b"\x01\x04" + message(61)),
        (4, message(63, identity=b"x")),
        (17, batch + b"\x02\x04" + message(62)),
        (4, message(64, identity=b"x")),
        (16, b"\x02\x00no\x01\x04" + message(65)),
    ) == ([60, 63, 61, 62], [])


def test_deletions_and_purges() -> None:
    logs = Logs((6, b'{"stream":"S","seq":3}'), (4, message(50)), (5, b"{}"))
    found = read_tail(logs, "$G", "S", Extent(1, 5, 50))  # type: ignore[arg-type]

    assert found.deleted == {3}
    assert [str(one) for one in found.findings] == ["$SYS/_js_/G: a purge that was not done yet is not done"]


def test_a_message_is_read_as_it_was_sent() -> None:
    data = message(60, b"a.b", b"payload", b"id")
    found = read_tail(Logs((4, data)), "$G", "S", Extent(1, 5, 50))  # type: ignore[arg-type]

    assert found.messages == [SourceStreamMessage(6, 60, b"a.b", HEADERS % b"id", b"payload")]


@pytest.mark.parametrize("kind", [4, 14, 16, 17, 6])
def test_an_operation_that_is_cut_off_is_named(kind: int) -> None:
    whole = {
        4: message(60), 14: encode_block(message(60)), 16: b"\x01\x00i\x01\x04" + message(60),
        17: b"\x01\x00i\x01\x04" + message(60), 6: b'{"stream":"S","seq":3}',
    }[kind]  # fmt: skip
    for size in range(len(whole) - 1):
        times, findings = tail((kind, whole[:size]))
        if kind == 16:  # a batch that does not end is none
            assert not times
        else:
            assert times == []
            assert findings == [f"$SYS/_js_/G: {findings[0].removeprefix('$SYS/_js_/G: ')}"]


@pytest.mark.parametrize(
    "operation",
    [
        (6, b'{"seq":0}'),
        (6, b'{"seq":-1}'),
        (6, b'{"seq":9223372036854775807}'),
        (6, b'{"x":' + b"[" * 100_000),
        (16, b"\x01\x00i\x01" * 1000 + b"\x10"),
        (17, b"\x01\x00i\x01\x11\x01\x00i\x01\x04" + message(60)),
        (4, message(-1)),
    ],
)
def test_an_operation_that_cannot_be_is_named(operation: tuple[int, bytes]) -> None:
    logs = Logs(operation)
    found = read_tail(logs, "$G", "S", Extent(1, 5, 50))  # type: ignore[arg-type]

    assert (found.messages, found.deleted) == ([], set())
    (finding,) = map(str, found.findings)
    assert "cannot be read" in finding


@pytest.mark.parametrize(
    "operation",
    [
        (7, varints(1 << 63, 1, 1, 0)), (7, varints(1, 1 << 64, 1, 0)), (7, varints(1, 1, 1 << 65, 0)),
        (8, varints(1, 1 << 63)), (10, varints(1 << 64)), (18, varints(1 << 63)),
    ],
)  # fmt: skip
def test_a_number_of_a_consumer_that_cannot_be_is_named(operation: tuple[int, bytes]) -> None:
    findings: list[Finding] = []
    state = replayed(Logs(operation), "G", ConsumerConfig(), None, findings)  # type: ignore[arg-type]

    assert state is None
    assert "is impossible" in str(findings[0])


def test_entries_of_a_log() -> None:
    head = struct.pack("<8sQQQQH", b"leader..", 1, 2, 3, 4, 3)
    entries = [(0, b"\x04abc"), (2, b"peers"), (0, b"\x07d")]
    body = b"".join(struct.pack("<IB", 1 + len(data), kind) + data for kind, data in entries)

    assert list(_entries(head + body + varints(9))) == [(4, b"abc"), (7, b"d")]
    for size in range(len(head + body)):
        with pytest.raises((ValueError, struct.error)):
            list(_entries((head + body)[:size]))


def consumer(*operations: tuple[int, bytes], policy: AckPolicy = AckPolicy.EXPLICIT) -> tuple[object, ...]:
    config = ConsumerConfig(ack_policy=policy, max_deliver=-1)
    findings: list[Finding] = []
    state = replayed(Logs(*operations), "G", config, None, findings)  # type: ignore[arg-type]
    assert not findings
    assert state is not None
    return state.numbers, dict(state.pending.items()), state.redelivered


DELIVERED = [(7, varints(number, number + 10, 1, 2 * number)) for number in range(1, 6)]


def test_what_was_delivered_and_acknowledged() -> None:
    assert consumer(*DELIVERED, (8, varints(1, 11)), (8, varints(3, 13)), (8, varints(2, 12))) == (
        (5, 15, 3, 13), {14: (4, 4), 15: (5, 5)}, {}
    )  # fmt: skip
    assert consumer(*DELIVERED, (8, varints(3, 13)), policy=AckPolicy.ALL) == (
        (5, 15, 3, 13), {14: (4, 4), 15: (5, 5)}, {}
    )  # fmt: skip
    assert consumer(*DELIVERED, policy=AckPolicy.NONE) == ((5, 15, 5, 15), {}, {})


def test_what_was_sent_again_passed_over_and_reset() -> None:
    assert consumer(*DELIVERED[:2], (7, varints(3, 11, 2, 20))) == (
        (3, 12, 0, 0), {11: (1, 10), 12: (2, 2)}, {11: 1}
    )  # fmt: skip
    assert consumer((10, varints(21))) == ((0, 20, 0, 0), {}, {})
    assert consumer(*DELIVERED, (18, varints(3))) == ((0, 2, 0, 2), {}, {})


def test_done_twice_is_done_once() -> None:
    operations = [*DELIVERED, (8, varints(1, 11)), (8, varints(3, 13))]

    assert consumer(*operations, *operations) == consumer(*operations)
