"""Every byte of every file of small stores, damaged one at a time: it costs one message at most.

Whatever is read is what was written, nothing that was removed comes back, and no sequence is made up.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import Clock

from headrace.errors import MessageDamaged
from headrace.log.damage import Damage, DamageNotes
from headrace.log.encryption import Cipher
from headrace.log.file import FileLog
from headrace.log.ledger import Ledger
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.log.view import LogView, read_slice
from headrace.testing.faultfs import MemoryFileSystem, holding, image_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME: Final = Path("/log")
SEGMENT: Final = 520
REMOVED: Final = {3, 4}
LAST: Final = 6
CIPHER: Final = Cipher(bytes(range(32)))

Image = dict[Path, bytes]


def payload(sequence: int) -> bytes:
    return b"%d" % sequence * 9


def open_log(files: MemoryFileSystem, cipher: Cipher | None, reports: list[Damage] | None = None) -> FileLog:
    report = None if reports is None else reports.append
    return FileLog(HOME, clock=Clock(), filesystem=files, segment_bytes=SEGMENT, cipher=cipher, report=report)


def written(cipher: Cipher | None, *, is_closed: bool) -> Image:
    """Six messages in two segments or more, of which two were removed. Killed: what was left then."""
    files = MemoryFileSystem()
    log = open_log(files, cipher)
    for sequence in range(1, LAST):
        log.append([NewMessage(b"a", payload(sequence))])
    log.delete(3)
    log.remove([4])
    log.append([NewMessage(b"b", payload(LAST))])
    log.sync()
    if is_closed:
        log.close()
    return image_of(files, HOME)


def damages(image: Image, mask: int) -> Iterator[tuple[Path, int, Image]]:
    """(file, place, everything with that byte changed)."""
    for path, data in image.items():
        for place in range(len(data.rstrip(b"\0")) + 1 if path.suffix == ".log" else len(data)):
            if place < len(data):
                changed = bytearray(data)
                changed[place] ^= mask
                yield path, place, {**image, path: bytes(changed)}


def read_all(log: FileLog) -> dict[int, bytes]:
    found, sequence = {}, 1
    while sequence <= log.state().last_sequence:
        page = log.read_from(sequence)
        found |= {m.sequence: m.payload for m in page.messages}
        sequence = max(page.next_sequence, sequence + 1)
    return found


@pytest.mark.parametrize(
    ("cipher", "is_closed"), [(None, False), (CIPHER, True)], ids=["plain and killed", "sealed and closed"]
)
def test_one_byte_costs_one_message_at_most(cipher: Cipher | None, is_closed: bool) -> None:
    whole = {s: payload(s) for s in range(1, LAST + 1) if s not in REMOVED}
    image = written(cipher, is_closed=is_closed)
    assert sum(path.suffix == ".log" for path in image) >= 2
    costs: dict[int, int] = {}
    for path, place, damaged in damages(image, 0x41):
        where = f"{path.name} at {place}"
        reports: list[Damage] = []
        log = open_log(holding(damaged), cipher, reports)
        found = read_all(log)
        assert found.items() <= whole.items(), where
        lost = whole.keys() - found.keys()
        assert len(lost) <= 1, where
        costs[len(lost)] = costs.get(len(lost), 0) + 1
        state = log.state()
        # The last record of a killed process cannot be told from one that was never written whole.
        is_cut = not is_closed and lost == {LAST}
        assert state.last_sequence == LAST - is_cut, where
        told = {s for damage in reports for s in range(damage.first, damage.last + 1)}
        assert told == (set() if is_cut else lost), where
        assert len(reports) <= 1, where
        for sequence in told:
            with pytest.raises(MessageDamaged):
                log.read(sequence)
        assert log.append([NewMessage(b"c", b"next")]) == state.last_sequence + 1, where
    assert costs.keys() == {0, 1}


def test_readers_of_the_files_lose_no_more() -> None:
    whole = {s: payload(s) for s in range(1, LAST + 1) if s not in REMOVED}
    for path, place, damaged in damages(written(None, is_closed=True), 0xFF):
        files = holding(damaged)
        seen = LogView(HOME, filesystem=files)
        found = {
            m.sequence: m.payload
            for part in seen.slices(1, LAST + 1, 2)
            for messages, _ in read_slice(part, filesystem=files)
            for m in messages
        }
        assert found.items() <= whole.items()
        assert len(whole) - len(found) <= 1, f"{path.name} at {place}"


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
def test_a_file_that_is_cut_short_costs_what_was_behind_the_cut(is_closed: bool) -> None:
    """At any byte of any file; of the segment that was written it may be a write that was cut off."""
    image = written(None, is_closed=is_closed)
    for path, data in image.items():
        for size in range(0, len(data), 7):
            log = open_log(holding({**image, path: data[:size]}), None)
            found = read_all(log)
            kept = {
                s for s in range(1, LAST + 1)
                if any(payload(s) in (d[:size] if p == path else d) for p, d in image.items())
            }  # fmt: skip
            assert found.keys() >= kept - REMOVED - set(), f"{path.name} cut at {size}"
            assert all(found[s] == payload(s) for s in found)


def test_a_store_keeps_the_name_of_a_log() -> None:
    """A name that is too long for a file system is in two files."""
    name = b"n" * 300
    files = MemoryFileSystem()
    store = FileStore(Path("/store"), filesystem=files)
    store.open(name).append([NewMessage(b"a", b"1")])
    store.close()
    image = image_of(files, Path("/store"))
    names = [path for path, data in image.items() if data == name]
    assert len(names) == 2
    for path in names:
        for place in (0, 150, 299):
            changed = bytearray(name)
            changed[place] ^= 1
            again = FileStore(Path("/store"), filesystem=holding({**image, path: bytes(changed)}))
            assert again.names() == [name]
            assert again.open(name).state().messages == 1


def test_headers_of_earlier_versions_are_known_from_the_index() -> None:
    """Of segments that have their header once."""
    golden = Path(__file__).with_name("golden") / "v1"
    image = {HOME / path.name: path.read_bytes() for path in golden.iterdir()}
    whole = read_all(open_log(holding(image), None))
    for path, data in image.items():
        for place in range(64 if path.suffix == ".log" else 0):
            changed = bytearray(data)
            changed[place] ^= 0xFF
            assert read_all(open_log(holding({**image, path: bytes(changed)}), None)) == whole


def test_a_log_of_which_nothing_can_be_read() -> None:
    """Its header is gone in both places and known from nowhere: what is lost is said, and the log goes on."""
    image = {path: data for path, data in written(None, is_closed=True).items() if path.suffix == ".log"}
    path = min(image)
    gone = {path: bytes(512) + image[path][512:]}
    seen = LogView(HOME, filesystem=holding(gone))
    assert seen.damaged == [(1, seen.last_sequence)]
    assert [len(part.pieces) for part in seen.slices(1, 100, 3)] in ([], [0])
    reports: list[Damage] = []
    log = open_log(holding(gone), None, reports)
    assert [str(one) for one in reports] == [
        f"messages 1 to {seen.last_sequence} are damaged: its record on disk is damaged"
    ]
    assert log.append([NewMessage(b"a", b"next")]) == seen.last_sequence + 1
    assert log.read_from(1).messages[0].payload == b"next"


def test_a_run_of_lost_sequences_is_one_report_however_long_it_is() -> None:
    """A loop over them would never end."""
    ledger, reports = Ledger(), list[Damage]()
    ledger.removed.add(5, 5)
    new = ledger.add_unreadable([(10, 1 << 50), (7, 1 << 49), (3, 6)])
    assert new == [(3, 4), (6, 1 << 50)]
    assert ledger.add_unreadable([(3, 1 << 50)]) == []
    notes = DamageNotes(reports.append)
    notes.add(new, "lost")
    assert [str(one) for one in reports] == [
        "messages 3 to 4 are damaged: lost",
        f"messages 6 to {1 << 50} are damaged: lost",
    ]
    assert len(notes.sequences) == 1000
    notes.add([(one, one) for one in range(50)], "lost")
    assert len(reports) == 21
    assert str(reports[-1]) == "more of it is damaged than is reported one by one"
