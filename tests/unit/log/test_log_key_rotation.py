"""A store that is sealed with another key than it was: the same messages, nothing under the old key."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from log_makers import Clock, is_sound

from harness import depth
from harness.tallies import note
from headrace.errors import StorageError
from headrace.log.closing import NAME as MARK
from headrace.log.encryption import Cipher
from headrace.log.file import FileLog
from headrace.log.key_rotation import Conversion, Told
from headrace.log.port import Limits, NewMessage
from headrace.log.recovery import CHECKPOINT
from headrace.log.segment import BEGINNING, PACKED, Header
from headrace.log.store import FileStore
from headrace.testing.faultfs import Fault, FaultyFileSystem, MemoryFileSystem, holding, image_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.log.filesystem import FileSystem
    from headrace.log.port import LogState

HOME: Final = Path("/store")
OLD: Final = Cipher(bytes(range(32)))
NEW: Final = Cipher(b"n" * 32, "chacha20-poly1305")
BOTH: Final = Cipher(b"n" * 32, "chacha20-poly1305", (OLD,))
OTHER: Final = Cipher(b"o" * 32)
HEADERS: Final = b"NATS/1.0\r\nA: secret\r\n\r\n"
NAMES: Final = [b"a", b"b"]
KINDS: Final = {
    "sealed": (OLD, False),
    "plain": (None, False),
    "compressed": (None, True),
    "both": (OLD, True),
}

Contents = dict[bytes, tuple["LogState", dict[int, "object"]]]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def open_store(files: FileSystem, cipher: Cipher | None, told: list[Conversion] | None = None) -> FileStore:
    """`told`: what is sealed otherwise is converted."""
    converted = None if told is None else told.append
    return FileStore(
        HOME, clock=Clock(), segment_bytes=4000, cipher=cipher, filesystem=files, converted=converted
    )


def filled(kind: str, *, count: int = 60, is_closed: bool = True) -> MemoryFileSystem:
    """Two logs of many segments, with messages that are removed, erased and that expire; perhaps killed."""
    files = MemoryFileSystem()
    cipher, compresses = KINDS[kind]
    store = open_store(files, cipher)
    for name in NAMES:
        log = store.open(name, Limits(compresses=compresses))
        for number in range(count):
            text = b"secret %06d " % number * 20
            log.append([
                NewMessage(b"secret.%d" % (number % 3), text, b"reply.secret", HEADERS),
                NewMessage(b"secret.ttl", b"secret", ttl_ns=10**18),
            ])  # fmt: skip
            log.sync()
        log.remove(range(3, count, 2))
        log.delete(10, erase=True)
        log.append([NewMessage(b"secret.last", b"secret")])
        log.sync()
    if is_closed:
        store.close()
    else:
        files.kill()
    return files


def contents(files: FileSystem, cipher: Cipher | None, told: list[Conversion] | None = None) -> Contents:
    store = open_store(files, cipher, told)
    found: Contents = {}
    for name in NAMES:
        log = store.open(name)
        page = log.read_from(1, max_messages=10_000, max_bytes=1 << 30)
        messages = {m.sequence: (m.subject, m.payload, m.reply, m.headers, m.time_ns) for m in page.messages}
        assert isinstance(log, FileLog)
        found[name] = log.state(), messages
        assert not page.damaged
        is_sound(log)
    store.close()
    return found


def headers(image: Mapping[Path, bytes]) -> list[Header]:
    found = [Header.read(data[:BEGINNING]) for path, data in image.items() if path.suffix == ".log"]
    assert None not in found
    return [header for header in found if header is not None]


def test_everything_is_there_under_the_new_key_alone(kind: str) -> None:
    files = filled(kind)
    image = image_of(files, HOME)
    expected = contents(holding(image), KINDS[kind][0])
    assert any(header.flags & PACKED for header in headers(image)) is KINDS[kind][1]

    open_store(files, BOTH, told := []).close()

    assert [at.log for at in told if at.is_begun] == NAMES
    assert {at.was_plain for at in told} == {KINDS[kind][0] is None}
    assert told[-1].done == told[-1].total == sum(len(d) for p, d in image.items() if p.suffix == ".log")
    converted = image_of(files, HOME)
    assert not any(path.suffix == ".new" for path in converted)
    for header in headers(converted):
        assert header.check == NEW.segment(header.salt, header.base).check
    assert b"secret" not in b"".join(converted.values())
    assert contents(files, NEW) == expected
    assert contents(files, BOTH, told := []) == expected
    assert told == []
    with pytest.raises(StorageError, match="encrypted with another key"):
        contents(files, OLD)


@pytest.mark.parametrize("kind", ["sealed", "both"])
def test_what_was_sealed_keeps_its_indexes_and_its_checkpoint(kind: str) -> None:
    files = filled(kind)
    before = {p: d for p, d in image_of(files, HOME).items() if p.suffix == ".index"}
    open_store(files, BOTH, []).close()
    assert {p: d for p, d in image_of(files, HOME).items() if p.suffix == ".index"} == before
    store = open_store(files, NEW)
    for name in NAMES:
        log = store.open(name)
        assert isinstance(log, FileLog)
        assert log.opened_from_checkpoint
        assert log.append([NewMessage(b"more", b"more")]) == log.state().last_sequence


def test_a_checkpoint_of_plain_segments_still_knows_what_was_given() -> None:
    """Sequences that were acknowledged and lost are not given again."""
    files = filled("plain")
    image = image_of(files, HOME)
    last = max(path for path in image if path.suffix == ".log" and path.parent.name == "a")
    cut = holding({**image, last: image[last][:-100]})
    state = contents_with_damage(cut, None)

    converted = holding({**image, last: image[last][:-100]})
    open_store(converted, BOTH, []).close()
    assert contents_with_damage(converted, NEW) == state


def contents_with_damage(files: FileSystem, cipher: Cipher | None) -> list[tuple[int, list[int], list[int]]]:
    store = open_store(files, cipher)
    found = []
    for name in NAMES:
        log = store.open(name)
        page = log.read_from(1, max_messages=10_000, max_bytes=1 << 30)
        found.append((log.state().last_sequence, [m.sequence for m in page.messages], page.damaged))
    store.close()
    return found


def test_a_killed_server_and_one_that_never_wrote_a_checkpoint(kind: str) -> None:
    files = filled(kind, is_closed=False)
    image = image_of(files, HOME)
    for kept in (image, {p: d for p, d in image.items() if p.name != CHECKPOINT and p.suffix != ".index"}):
        expected = contents(holding(kept), KINDS[kind][0])
        assert contents(holding(kept), BOTH, []) == expected


def test_a_key_that_fits_nothing_changes_nothing(kind: str) -> None:
    files = filled(kind)
    sealed = filled("sealed", count=5)
    image = image_of(files, HOME) | {
        HOME / "logs" / "z" / path.name: data for path, data in image_of(sealed, HOME / "logs" / "a").items()
    }
    image.pop(HOME / MARK, None)  # whoever opens a store takes it away
    files = holding(image)
    wrong = Cipher(b"w" * 32, previous=(OTHER, *([Cipher(b"x" * 32)])))
    with pytest.raises(StorageError, match=r"0{19}1.log is encrypted with another key or algorithm"):
        open_store(files, wrong, [])
    assert image_of(files, HOME).items() >= image.items()
    open_store(files, BOTH, []).close()  # nobody holds its lock


def test_without_being_asked_nothing_is_converted() -> None:
    files = filled("sealed")
    with pytest.raises(StorageError, match="encrypted with another key"):
        contents(files, BOTH)


@pytest.mark.parametrize("kind", ["sealed", "plain", "both"])
@pytest.mark.parametrize("fault", [Fault.RAISE, Fault.PARTIAL])
def test_any_call_may_fail_and_the_next_start_goes_on(kind: str, fault: Fault) -> None:
    image = image_of(filled(kind, count=16, is_closed=False), HOME)
    expected = contents(holding(image), KINDS[kind][0])
    counting = FaultyFileSystem(holding(image))
    open_store(counting, BOTH, [])
    for n in (1 + number for number in depth.every(counting.calls)):
        inner = holding(image)
        files = FaultyFileSystem(inner, n, errno.ENOSPC if n % 2 else errno.EIO, fault=fault)
        try:
            open_store(files, BOTH, [])
        except StorageError:
            inner.kill()
        else:
            inner.crash(Random(n))
        assert contents(inner, BOTH, []) == expected, n
        assert contents(inner, NEW) == expected, n
        note("log: calls that failed", 1)


class Dies(FaultyFileSystem):
    """From its Nth call on no call does anything: the process is gone."""

    def _fails(self, name: str) -> bool:
        self.failures = 1 << 30
        return super()._fails(name)


@pytest.mark.parametrize("kind", ["sealed", "plain", "compressed", "both"])
@pytest.mark.parametrize("loses_power", [False, True], ids=["killed", "power lost"])
def test_the_end_may_come_at_any_call(kind: str, loses_power: bool) -> None:
    """And then at another: both keys open what is left, messages and all."""
    image = image_of(filled(kind, count=16, is_closed=False), HOME)
    expected = contents(holding(image), KINDS[kind][0])
    counting = FaultyFileSystem(holding(image))
    open_store(counting, BOTH, [])
    for n in (1 + number for number in depth.every(counting.calls)):
        random, inner = Random(n), holding(image)
        for at in (n, random.randrange(1, counting.calls)):
            with_end = Dies(inner, at)
            try:
                open_store(with_end, BOTH, [])
            except (StorageError, OSError):
                pass
            inner.crash(random) if loses_power else inner.kill()
        assert contents(inner, BOTH, []) == expected, n
        assert contents(inner, NEW) == expected, n
        note("log: power losses" if loses_power else "log: calls that failed", 1)


@pytest.mark.parametrize("kind", ["sealed", "plain", "both", "compressed"])
def test_a_damaged_byte_costs_what_it_costs_without(kind: str) -> None:
    image = image_of(filled(kind, count=16), HOME)
    kept = {p: d for p, d in image.items() if p.name != CHECKPOINT and p.suffix != ".index"}
    path = min(p for p in kept if p.suffix == ".log")
    for place in [*range(BEGINNING), *Random(4).sample(range(BEGINNING, len(kept[path])), 200)]:
        changed = bytearray(kept[path])
        changed[place] ^= 0x41
        damaged = {**kept, path: bytes(changed)}
        expected = contents_with_damage(holding(damaged), KINDS[kind][0])
        files = holding(damaged)
        open_store(files, BOTH, []).close()
        assert b"secret" not in b"".join(image_of(files, HOME).values())
        assert contents_with_damage(files, NEW) == expected, place


@pytest.mark.parametrize("kind", ["sealed", "plain", "compressed"])
def test_a_header_that_is_damaged_twice_is_made_again(kind: str) -> None:
    """The salt is in the index; which key it was, the records tell."""
    image = image_of(filled(kind), HOME)
    expected = contents(holding(image), KINDS[kind][0])
    path = min(p for p in image if p.suffix == ".log" and p.with_suffix(".index") in image)
    damaged = {**image, path: bytes(BEGINNING) + image[path][BEGINNING:]}
    files = holding(damaged)
    open_store(files, BOTH, []).close()
    assert {n: found for n, (_, found) in contents(files, NEW).items()} == {
        n: found for n, (_, found) in expected.items()
    }


def test_a_segment_of_which_nothing_can_be_found_stays_lost(kind: str) -> None:
    image = image_of(filled(kind), HOME)
    kept = {p: d for p, d in image.items() if p.suffix == ".log"}
    path = min(kept)
    for beginning in (image[path][:BEGINNING], bytes(BEGINNING)):
        damaged = {**kept, path: beginning + bytes(len(image[path]) - BEGINNING)}
        expected = contents_with_damage(holding(damaged), KINDS[kind][0])
        files = holding(damaged)
        open_store(files, BOTH, []).close()
        assert contents_with_damage(files, NEW) == expected


def test_drafts_and_damaged_checkpoints_are_removed() -> None:
    image = image_of(filled("plain"), HOME)
    home = HOME / "logs" / "a"
    image |= {home / "00000000000000000001.log.new": b"secret", home / CHECKPOINT: b"secret"}
    files = holding(image)
    open_store(files, BOTH, []).close()
    assert b"secret" not in b"".join(image_of(files, HOME).values())


def test_what_is_told() -> None:
    said: list[str] = []
    told = Told(BOTH, lambda name: f"log {name.decode()}", said.append)
    told.end()
    assert said == []
    gib = 1 << 30
    for at in (
        Conversion(b"a", was_plain=True, is_begun=True, done=0, total=3 * gib),
        Conversion(b"a", was_plain=True, is_begun=False, done=gib // 2, total=3 * gib),
        Conversion(b"a", was_plain=True, is_begun=False, done=gib, total=3 * gib),
        Conversion(b"b", was_plain=False, is_begun=True, done=gib, total=3 * gib),
        Conversion(b"b", was_plain=False, is_begun=False, done=3 * gib, total=3 * gib),
    ):
        told(at)
    told.end()
    assert said == [
        "Encrypting log a",
        "Encrypted 1024 of 3072 MB",
        "Converting to ChaCha20-Poly1305 for log b",
        "Encrypted 3072 of 3072 MB",
        "All that is stored is encrypted with the key and cipher of the configuration now",
    ]
