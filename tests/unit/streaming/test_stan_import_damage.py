"""Cut anywhere, changed anywhere: nothing before the damage is lost, nothing is invented, it is reported."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest
from stan_import_store import GOLDEN, GOLDEN_NAMES, read_all

from headrace.importing.findings import ImportFailed
from headrace.streaming.importing.model import SourceChannelMessage, SourceSubscription
from headrace.streaming.importing.reader import SourceChannelStore, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.importing.findings import Finding

_CUTS = 8
_FLIPS = 8

Whole = dict[bytes, list[SourceChannelMessage]]

FILES = [
    pytest.param(path.relative_to(GOLDEN), id=str(path.relative_to(GOLDEN)).replace("/", "-"))
    for name in GOLDEN_NAMES
    for path in sorted((GOLDEN / name / "store").rglob("*"))
    if path.is_file() and (name != "killed" or path.name == "subs.dat")  # the rest is as in `clean`
]


def _read(store: SourceChannelStore) -> tuple[Whole, list[Finding]]:
    messages: Whole = {}
    findings = list(store.findings)
    for channel in store.channels:
        messages[channel.name], found = read_all(channel)
        findings += [*channel.findings, *found]
    return messages, findings


@pytest.fixture(scope="module")
def whole() -> dict[str, tuple[SourceChannelStore, Whole]]:
    stores = {name: open_store(GOLDEN / name / "store") for name in GOLDEN_NAMES}
    return {name: (store, _read(store)[0]) for name, store in stores.items()}


def _ends_before(path: Path, damage: int, messages: list[SourceChannelMessage]) -> int:
    """How many of a data file's messages end before `damage`, told from its own lengths."""
    data = path.read_bytes()
    offset, count = 4, 0
    while offset + 8 <= len(data):
        offset += 8 + int.from_bytes(data[offset : offset + 4], "little")
        if offset > damage:
            break
        count += 1
    return count


def _check(
    original: tuple[SourceChannelStore, Whole], path: Path, copy: Path, damage: int, *, verify: bool = True
) -> list[Finding]:
    """Read a damaged copy of a golden store and hold it against the whole one."""
    before, messages = original
    try:
        store = open_store(copy, verify=verify)
    except ImportFailed:
        assert path.name == "server.dat"
        return []
    found, findings = _read(store)
    for name, expected in messages.items():
        got = found[name]
        if verify:
            assert set(got) <= set(expected), "a message was invented"
        else:
            assert {m.sequence for m in got} <= {m.sequence for m in expected}
        there = {message.sequence for message in got}
        missing = [message.sequence for message in expected if message.sequence not in there]
        if path.parent.name != name.decode() or path.suffix != ".dat" or path.name == "subs.dat":
            assert not missing
        elif missing:
            first = expected[0].sequence + 25 * (int(path.name.split(".")[1]) - 1)
            assert min(missing) >= first + _ends_before(path, damage, expected)
            assert any(finding.is_damage for finding in findings)
    # Whole records taken out leave no trace.
    if verify and (path.name != "subs.dat" or any(finding.is_damage for finding in findings)):
        _check_subscriptions(before, store, at_end_of_record=damage in _ends(path))
    return findings


def _ends(path: Path) -> set[int]:
    """Where a file of typed records could end and nobody would know."""
    data = path.read_bytes()
    ends = {0, 4}
    offset = 4
    while offset + 8 <= len(data):
        offset += 8 + int.from_bytes(data[offset : offset + 3], "little")
        ends.add(offset)
    return ends


def _check_subscriptions(
    before: SourceChannelStore, after: SourceChannelStore, *, at_end_of_record: bool
) -> None:
    """Nothing that was not acknowledged is passed over, unless it is the whole subscription that is lost."""
    for one, other in zip(before.channels, after.channels, strict=True):
        expected = {s.state.id: s for s in one.subscriptions}
        for subscription in other.subscriptions:
            if subscription.state.id in expected:
                _check_pending(expected[subscription.state.id], subscription)
            else:
                assert other.findings or at_end_of_record, "a removed subscription came back unreported"


def _check_pending(expected: SourceSubscription, got: SourceSubscription) -> None:
    assert got.state.last_sent <= expected.state.last_sent
    passed_over = {n for n in expected.pending if n <= got.state.last_sent} - set(got.pending)
    assert not passed_over


@pytest.mark.parametrize("file", FILES)
def test_cut_at_any_offset(
    file: Path, tmp_path: Path, whole: dict[str, tuple[SourceChannelStore, Whole]]
) -> None:
    name = file.parts[0]
    copy = tmp_path / "store"
    shutil.copytree(GOLDEN / name / "store", copy)
    original = GOLDEN / file
    data = original.read_bytes()
    dice = random.Random(str(file))
    offsets = {0, 1, 4, 11, 12, len(data) - 1, *(dice.randrange(len(data)) for _ in range(_CUTS))}
    for offset in sorted(offset for offset in offsets if offset < len(data)):
        (copy / file.relative_to(f"{name}/store")).write_bytes(data[:offset])
        _check(whole[name], original, copy, offset)
        _check(whole[name], original, copy, offset, verify=False)


@pytest.mark.parametrize("file", FILES)
def test_bytes_changed_at_any_offset(
    file: Path, tmp_path: Path, whole: dict[str, tuple[SourceChannelStore, Whole]]
) -> None:
    name = file.parts[0]
    copy = tmp_path / "store"
    shutil.copytree(GOLDEN / name / "store", copy)
    original = GOLDEN / file
    data = original.read_bytes()
    dice = random.Random(str(file))
    for _ in range(_FLIPS):
        damaged = bytearray(data)
        places = sorted(dice.randrange(len(data)) for _ in range(dice.choice((1, 1, 1, 3))))
        for place in places:
            damaged[place] ^= dice.randrange(1, 256)
        (copy / file.relative_to(f"{name}/store")).write_bytes(damaged)
        if damaged == data:
            continue
        findings = _check(whole[name], original, copy, places[0])
        # No checksum covers a record's type: some stay possible, and cost a repeated delivery at most.
        only_types = {place - 3 for place in places} <= _ends(original)
        if original.suffix == ".dat" and original.name != "server.dat" and not only_types:
            assert any(finding.is_damage for finding in findings), "damage went unreported"
        _check(whole[name], original, copy, places[0], verify=False)


@pytest.mark.parametrize("name", ["clean", "sliced"])
def test_bytes_overwritten_inserted_and_removed(
    name: str, tmp_path: Path, whole: dict[str, tuple[SourceChannelStore, Whole]]
) -> None:
    """Whole runs of bytes: records swallowed, shifted, overwritten by zeros or noise."""
    copy = tmp_path / "store"
    shutil.copytree(GOLDEN / name / "store", copy)
    dice = random.Random(name)
    for path in sorted((GOLDEN / name / "store").rglob("*.dat")):
        data = path.read_bytes()
        target = copy / path.relative_to(GOLDEN / name / "store")
        for _ in range(_CUTS):
            start = dice.randrange(len(data))
            length = dice.randrange(1, 200)
            put = dice.choice((b"", bytes(length), dice.randbytes(length), dice.randbytes(7)))
            damaged = data[:start] + put + data[start + (length if dice.random() < 0.8 else 0) :]
            target.write_bytes(damaged)
            _check(whole[name], path, copy, start)
            _check(whole[name], path, copy, start, verify=False)
        target.write_bytes(data)
