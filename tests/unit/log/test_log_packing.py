"""Compressed segments: the same log in less room, whatever is done with it, whatever byte is damaged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import Clock

from headrace.errors import StorageError
from headrace.log.encryption import Cipher
from headrace.log.file import FileLog
from headrace.log.filesystem import FileMode
from headrace.log.packing import FRAME, Packed, Packer
from headrace.log.port import Limits, NewMessage
from headrace.log.view import LogView, read_slice
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem, holding, image_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.log.filesystem import FileSystem

HOME: Final = Path("/log")
CIPHER: Final = Cipher(bytes(range(32)))
COUNT: Final = 400
SEGMENT: Final = 100 << 10
"""Two frames of most segments."""


@pytest.fixture(params=[None, CIPHER], ids=["plain", "sealed"])
def cipher(request: pytest.FixtureRequest) -> Cipher | None:
    found: Cipher | None = request.param
    return found


def message(number: int) -> NewMessage:
    return NewMessage(b"s.%d" % (number % 7), b"%06d" % number * 150, headers=b"NATS/1.0\r\nA: b\r\n\r\n")


def open_log(files: FileSystem, cipher: Cipher | None, *, compresses: bool = True) -> FileLog:
    limits = Limits(compresses=compresses)
    return FileLog(HOME, clock=Clock(), filesystem=files, segment_bytes=SEGMENT, cipher=cipher, limits=limits)


def fill(log: FileLog, numbers: Iterable[int]) -> None:
    for number in numbers:
        log.append([message(number)])
        log.sync()


def payloads(log: FileLog) -> dict[int, bytes]:
    found, sequence = {}, 1
    while sequence <= log.state().last_sequence:
        page = log.read_from(sequence, max_messages=50)
        assert page.damaged == []
        found |= {m.sequence: m.payload for m in page.messages}
        sequence = page.next_sequence
    return found


def on_disk(files: MemoryFileSystem) -> int:
    return sum(len(data) for path, data in image_of(files, HOME).items() if path.suffix == ".log")


def viewed(files: MemoryFileSystem, cipher: Cipher | None) -> dict[int, bytes]:
    seen = LogView(HOME, filesystem=files, cipher=cipher)
    return {
        m.sequence: m.payload
        for part in seen.slices(1, COUNT + 1, 5)
        for messages, damaged in read_slice(part, filesystem=files, cipher=cipher)
        for m in messages
        if not damaged
    }


EXPECTED: Final = {number: message(number).payload for number in range(1, COUNT + 1)}


def test_the_same_in_less_room(cipher: Cipher | None) -> None:
    plain, packed = MemoryFileSystem(), MemoryFileSystem()
    fill(open_log(plain, cipher, compresses=False), range(1, COUNT + 1))
    log = open_log(packed, cipher)
    fill(log, range(1, COUNT + 1))
    assert on_disk(packed) * 2 < on_disk(plain)
    assert payloads(log) == viewed(packed, cipher) == EXPECTED
    assert [m.sequence for m in log.read_from(1, filters=[b"s.3"], max_messages=1000).messages] == [
        n for n in EXPECTED if n % 7 == 3
    ]
    for sequence in Random(1).sample(range(1, COUNT + 1), 50):
        found = log.read(sequence)
        assert found is not None
        assert (found.payload, found.subject) == (EXPECTED[sequence], message(sequence).subject)
    assert log.state().bytes == sum(
        32 + len(m.subject) + len(m.headers) + len(m.payload) for m in map(message, EXPECTED)
    )


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("forgets", [True, False], ids=["records alone", "checkpoint"])
def test_it_is_opened_again(cipher: Cipher | None, is_closed: bool, forgets: bool) -> None:
    files = MemoryFileSystem()
    log = open_log(files, cipher)
    fill(log, range(1, COUNT + 1))
    log.delete(5)
    state = log.state()
    if is_closed:
        log.close()
    image = image_of(files, HOME)
    kept = {p: d for p, d in image.items() if not forgets or p.suffix == ".log"}
    for compresses in (True, False):
        again = open_log(holding(kept), cipher, compresses=compresses)
        assert again.state() == state
        assert payloads(again) == {n: p for n, p in EXPECTED.items() if n != 5}
        assert again.append([message(7)]) == COUNT + 1


def test_a_log_is_compressed_later_and_goes_on_plain(cipher: Cipher | None) -> None:
    files = MemoryFileSystem()
    log = open_log(files, cipher, compresses=False)
    fill(log, range(1, 201))
    before = on_disk(files)
    log.limits = Limits(compresses=True)
    fill(log, range(201, 301))
    assert on_disk(files) < before
    log.limits = Limits()
    fill(log, range(301, COUNT + 1))
    assert payloads(log) == EXPECTED
    log.close()
    assert payloads(open_log(files, cipher)) == EXPECTED


def test_a_log_that_is_not_there_before_its_first_message() -> None:
    files = MemoryFileSystem()
    log = FileLog(
        HOME, clock=Clock(), filesystem=files, segment_bytes=SEGMENT, limits=Limits(compresses=True),
        make=lambda: files.mkdir(HOME),
    )  # fmt: skip
    assert log.expire(1) == 0
    assert log.purge() == 0
    log.limits = Limits(compresses=True, max_messages=1000)
    fill(log, range(1, COUNT + 1))
    assert payloads(log) == EXPECTED


def test_what_saves_nothing_stays_as_it_is() -> None:
    files, random = MemoryFileSystem(), Random(3)
    log = open_log(files, None)
    for _ in range(80):
        log.append([NewMessage(b"a", random.randbytes(4000))])
        log.sync()
    assert log._compaction.rewritten == 0
    assert log._compaction.is_idle


def test_removed_and_erased_messages(cipher: Cipher | None) -> None:
    files = MemoryFileSystem()
    log = open_log(files, cipher)
    fill(log, range(1, COUNT + 1))
    gone = {n for n in range(1, 200) if n % 3}
    log.remove(gone)
    fill(log, range(COUNT + 1, COUNT + 50))
    erased = 300
    before = image_of(files, HOME)
    assert log.delete(erased, erase=True)
    after = image_of(files, HOME)
    changed = [path for path in before if path.suffix == ".log" and after.get(path) != before[path]]
    assert len(changed) >= 2  # where it was, and where it is said
    log.close()
    again = open_log(files, cipher)
    assert payloads(again) == {
        n: message(n).payload for n in range(1, COUNT + 50) if n not in gone and n != erased
    }
    assert viewed(files, cipher).keys() == {n for n in EXPECTED if n not in gone and n != erased}


@pytest.mark.parametrize("has_read", [True, False], ids=["read before", "not read before"])
def test_a_message_is_erased_or_not_when_a_call_fails(has_read: bool) -> None:
    """All others can be read all the same, by the same log and by the next one; no file stays open."""
    calls = 1
    at = 0
    while at < calls:
        at += 1
        inner = MemoryFileSystem()
        files = FaultyFileSystem(inner)
        log = open_log(files, None)
        fill(log, range(1, COUNT + 1))
        if not has_read:
            log.close()
            log = open_log(files, None)
        else:
            assert payloads(log) == EXPECTED
        opened = inner.open_handles
        before, files.fail_at = files.calls, files.calls + at
        with suppress(StorageError):
            log.delete(300, erase=True)
        calls, files.fail_at = files.calls - before, 0
        assert inner.open_handles <= opened, files.failed
        kept = {n: payload for n, payload in EXPECTED.items() if n != 300}
        assert payloads(log) in (kept, EXPECTED), files.failed
        log.close()
        assert payloads(open_log(files, None)) in (kept, EXPECTED), files.failed


def test_a_damaged_frame_is_mended_once_for_all_that_is_read_of_it_in_a_row() -> None:
    plain = b"".join(b"%06d:%s" % (n, Random(n).randbytes(20)) for n in range(30_000))
    out = bytearray(176)
    packer = Packer(out.extend, 77)
    packer.add(plain)
    packer.finish(None)
    out[200] ^= 0x55
    files = FaultyFileSystem(holding({HOME: bytes(out)}))
    handle = files.open(HOME, FileMode.READ)
    packed = Packed.load(files, handle, 77)
    assert packed is not None
    for at in range(0, FRAME - 100, 100):
        assert packed.read(files, handle, 100, at) == plain[at : at + 100]
    assert files.calls < len(plain) // FRAME + 10


def test_every_byte_of_a_frame_can_be_lost() -> None:
    """And of all that is behind the frames; the header is a segment's as any other."""
    plain = b"".join(b"%06d:%s" % (n, Random(n).randbytes(20)) for n in range(8000))
    files = MemoryFileSystem()
    out = bytearray(176)
    packer = Packer(out.extend, 77)
    packer.add(plain)
    packer.finish(None)
    assert len(plain) > 3 * FRAME
    random = Random(5)
    places = {*range(176, 200), *range(len(out) - 120, len(out)), *random.sample(range(176, len(out)), 200)}
    for place in places:
        damaged = bytearray(out)
        damaged[place] ^= 0x55
        files = holding({HOME: bytes(damaged)})
        found = read_packed(files, 77)
        assert found == plain, place
    for start in random.sample(range(176, len(out) - 4096), 30):  # a block of zeros: two neighbours at most
        files = holding({HOME: bytes(out[:start]) + bytes(4096) + bytes(out[start + 4096 :])})
        assert read_packed(files, 77) == plain, start


def read_packed(files: MemoryFileSystem, salt: int) -> bytes:
    handle = files.open(HOME, FileMode.READ)
    packed = Packed.load(files, handle, salt)
    assert packed is not None
    return packed.read(files, handle, packed.size, 0)


def test_a_damaged_byte_of_a_compressed_log_costs_nothing(cipher: Cipher | None) -> None:
    files = MemoryFileSystem()
    log = open_log(files, cipher)
    fill(log, range(1, COUNT + 1))
    log.close()
    image = image_of(files, HOME)
    path = min(path for path in image if path.suffix == ".log")
    assert image[path][8] == 2
    random = Random(9)
    for place in [*range(64), *random.sample(range(64, len(image[path])), 60)]:
        changed = bytearray(image[path])
        changed[place] ^= 0x40
        again = holding({**image, path: bytes(changed)})
        assert payloads(open_log(again, cipher)) == EXPECTED, place
        assert viewed(holding({**image, path: bytes(changed)}), cipher) == EXPECTED, place


def test_the_segment_behind_a_compressed_one_is_lost() -> None:
    """Nothing is added to a compressed one."""
    files = MemoryFileSystem()
    log = open_log(files, None)
    fill(log, range(1, COUNT + 1))
    log.close()
    image = image_of(files, HOME)
    plain = [path for path, data in image.items() if path.suffix == ".log" and data[8] == 1]
    again = open_log(holding({p: d for p, d in image.items() if p not in plain}), None)
    last = again.state().last_sequence
    assert again.append([message(1)]) == last + 1
    assert payloads(again) == {n: EXPECTED[n] for n in range(1, last + 1)} | {last + 1: EXPECTED[1]}
