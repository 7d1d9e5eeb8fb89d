"""The core of a log on disk (`headrace.engine.log_core`): it appends what `FileLog` appends by itself.

Scripts of appends, removals, limits and restarts are played twice, with the core and without it; files, what
the log says and what it raises must be the same.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING, Any, Final

import pytest
from log_makers import LIMITS

from headrace.engine.log_core import Cursors
from headrace.engine.messages import NewMessages
from headrace.errors import LogError
from headrace.log import segments as segments_module
from headrace.log.file import FileLog
from headrace.log.port import FOREVER, Limits, NewMessage, SyncPolicy

if TYPE_CHECKING:
    from pathlib import Path

START: Final = 1_800_000_000_000_000_000
CORE_LIMITS: Final = (*LIMITS, Limits(compresses=True, max_messages=60))


class _Player:
    """One log and its script; `outcome` is what it said."""

    def __init__(self, directory: Path, seed: int, *, with_core: bool) -> None:
        self._dice = random.Random(seed)
        self._directory = directory
        self._with_core = with_core
        self._limits = self._dice.choice(CORE_LIMITS)
        self._policy = self._dice.choice(list(SyncPolicy))
        self._segment_bytes = self._dice.choice((2000, 1 << 20))
        self.now = START
        self.outcome: list[Any] = []
        self.by_core = 0
        self._open()

    def _open(self) -> None:
        self.log = FileLog(
            self._directory,
            limits=self._limits,
            clock=lambda: self.now,
            segment_bytes=self._segment_bytes,
            sync=self._policy,
        )

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self._dice.choice((0, 1, 7))
            step = self._dice.choice(
                [self._append] * 12 + [self._remove, self._expire, self._change, self._restart]
            )
            try:
                self.outcome.append(step())
            except (LogError, ValueError) as error:
                self.outcome.append((type(error), str(error).replace(str(self._directory), "")))
            self.outcome.append(
                (self.log.state(), self.log.written, self.log.next_expiry(), self.log.unsynced)
            )
        self.outcome.append(list(self.log.read_from(1, max_messages=10_000).messages))
        self.log.close()

    def _message(self) -> NewMessage:
        dice = self._dice
        return NewMessage(
            b"s.%d" % dice.randrange(4),
            bytes(dice.randrange(90)),
            reply=dice.choice((b"", b"", b"r")),
            headers=dice.choice((b"", b"", b"NATS/1.0\r\nA: 1\r\n\r\n")),
            time_ns=dice.choice((0, 0, START - 5, self.now + 3)),
            ttl_ns=dice.choice((0, 0, 0, 11, 40, FOREVER)),
        )

    def _append(self) -> int:
        batch = NewMessages(
            NewMessage, [self._message() for _ in range(self._dice.choice((0, 1, 1, 1, 2, 9)))]
        )
        if self._dice.random() < 0.05:
            return self.log.append(batch, self.log.state().last_sequence + self._dice.randrange(4))
        if not self._with_core:
            self.log._core.is_quiet = False
        before = self.log.written
        first = self.log.append(batch)
        self.by_core += self.log._core.is_quiet and self._with_core and self.log.written > before
        return first

    def _remove(self) -> Any:
        last = self.log.state().last_sequence
        if self._dice.random() < 0.5:
            return self.log.delete(self._dice.randrange(1, last + 2))
        return self.log.purge(b"s.1", keep=1)

    def _expire(self) -> int:
        return self.log.expire(self.now)

    def _change(self) -> None:
        other = self._dice.choice(CORE_LIMITS)
        self._limits = self.log.limits = other

    def _restart(self) -> None:
        self.log.sync()
        self.log.close()
        self._open()


@pytest.mark.parametrize("seed", range(60))
def test_core_appends_as_the_log_does(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    players = []
    for with_core in (True, False):
        monkeypatch.setattr(segments_module, "new_salt", itertools.count(1).__next__)
        player = _Player(tmp_path / str(with_core), seed, with_core=with_core)
        player.play(80)
        players.append(player)
    with_core, without = players
    assert with_core.outcome == without.outcome
    assert _files(tmp_path / "True") == _files(tmp_path / "False")
    assert with_core.by_core > 0


def _files(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.name.endswith(".log")
    }


def _log(directory: Path, **options: Any) -> FileLog:
    log = FileLog(directory, clock=lambda: START, **options)
    log.append([NewMessage(b"s", b"first")])
    return log


def test_message_of_some_time_is_stored_with_that_of_the_last_one(tmp_path: Path) -> None:
    log = _log(tmp_path)
    batch = NewMessages(
        NewMessage, [NewMessage(b"s", b"", time_ns=5), NewMessage(b"s", b"", time_ns=START + 9)]
    )
    assert log._core.append(batch) == 2
    assert [m.time_ns for m in log.read_from(1).messages] == [START, START, START + 9]
    log.close()


@pytest.mark.parametrize(
    "message",
    [
        NewMessage(bytes(65536), b""),
        NewMessage(b"s", b"", reply=bytes(65536)),
        NewMessage(b"s", bytes(65 << 20)),
    ],
)
def test_message_that_is_too_large_is_left_to_the_log(message: NewMessage, tmp_path: Path) -> None:
    log = _log(tmp_path)
    state = log.state()
    assert log._core.append(NewMessages(NewMessage, [NewMessage(b"s", b""), message])) == 0
    assert log.state() == state
    log.close()


def test_what_the_core_appends_is_counted_in_its_segment(tmp_path: Path) -> None:
    log = FileLog(tmp_path, clock=lambda: START, segment_bytes=2000)
    for _ in range(40):
        log.append([NewMessage(b"s", b"x" * 100)])
    occupancy = log._ledger.occupancy
    counted = [occupancy.of(segment.base) for segment in log._segments.all]
    log.close()

    assert len(counted) > 2
    assert sum(messages for messages, _ in counted) == 40
    assert {size // messages for messages, size in counted} == {48 + 1 + 100}


@pytest.mark.parametrize("seed", range(20))
def test_live_messages_of_each_segment_are_counted_whatever_goes(seed: int, tmp_path: Path) -> None:
    """The core keeps the counts of the active segment: no segment with its base may be begun again."""
    dice = random.Random(seed)
    limits = Limits(max_messages=dice.choice((0, 0, 30)), max_messages_per_subject=dice.choice((0, 0, 5)))
    log = FileLog(tmp_path, limits=limits, clock=lambda: START, segment_bytes=2000)
    bases: list[int] = []
    for _ in range(300):
        last = log.state().last_sequence
        step = dice.choice(("append", "append", "append", "delete", "gap", "purge", "purge up to", "sync"))
        if step == "append":
            log.append(
                [NewMessage(b"s.%d" % dice.randrange(9), bytes(dice.randrange(150)))] * dice.choice((1, 4))
            )
        elif step == "delete" and last:
            log.remove(dice.randrange(1, last + 1) for _ in range(4))
        elif step == "gap":
            log.append([], last + dice.choice((1, 2, 40)))
        elif step == "purge":
            log.purge()
        elif step == "purge up to":
            log.purge(up_to=last - dice.randrange(20))
        else:
            log.sync()
        segments, occupancy = log._segments.all, log._ledger.occupancy
        if segments and (not bases or bases[-1] != segments[-1].base):
            bases.append(segments[-1].base)
        live = [message.sequence for message in log.read_from(0, max_messages=10_000).messages]
        ends = [segment.base for segment in segments[1:]] + [1 << 62]
        counted = [occupancy.of(segment.base)[0] for segment in segments]
        assert counted == [
            sum(segment.base <= sequence < end for sequence in live)
            for segment, end in zip(segments, ends, strict=True)
        ]
    log.close()

    assert len(bases) > 3
    assert bases == sorted(set(bases))


def test_cursors_remember_the_last_places() -> None:
    cursors, segments = Cursors(), [object(), object()]
    for n in range(100):
        cursors.remember(n, segments[n % 2], 10 * n)

    assert len(cursors) == 64
    assert [cursors.find(n) for n in (0, 35)] == [None, None]
    assert [cursors.find(n) for n in (36, 99)] == [(segments[0], 360), (segments[1], 990)]
    cursors.remember(36, segments[1], 7)
    assert (cursors.find(36), len(cursors)) == ((segments[1], 7), 64)
    cursors.clear()
    assert (cursors.find(99), len(cursors)) == (None, 0)
    cursors.remember(1 << 63, segments[0], 1)
    assert cursors.find(1 << 63) == (segments[0], 1)


def test_core_of_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = _log(tmp_path)
    core = log._core
    assert core.append(NewMessages(NewMessage, [NewMessage(b"s", b"")])) == 2
    log.close()
    assert core.append(NewMessages(NewMessage, [NewMessage(b"s", b"")])) == 0


def test_write_to_a_file_that_is_gone_is_refused_and_counts_nothing(tmp_path: Path) -> None:
    log = _log(tmp_path)
    state = log.state()
    segments, working = log._segments, log._segments.active_descriptor
    segments.write_to(segments.active, os.open(tmp_path, os.O_RDONLY))
    batch = NewMessages(NewMessage, [NewMessage(b"s", b"lost")])
    with pytest.raises(LogError, match="cannot write"):
        log._core.append(batch)
    os.close(segments.active_descriptor)
    segments.write_to(segments.active, working)
    assert log.state() == state
    assert log.append([NewMessage(b"s", b"second")]) == 2
    assert [m.payload for m in log.read_from(1).messages] == [b"first", b"second"]
    log.close()
