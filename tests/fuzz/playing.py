"""What all fuzz targets have in common: what an input means, and that it is played twice.

Its bytes go to the link chosen last. A byte 255 ends a chunk and makes the byte after it a command, one of
its target's. Each input is played with its chunks whole and cut at random, and both must come to the same.
"""

from __future__ import annotations

import random
import re
import zlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fuzz.tracing import Tracer
from headrace.engine.memory import live_objects
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.engine.interest import Interest
    from headrace.engine.link import Link, Router

ESCAPE: Final = 0xFF
EVERYTHING: Final = 1 << 62
"""More bytes than any outbox has."""

Ended = tuple[int, bytes, CloseReason]
"""The number of a link that is gone, all that was written to it, and why it went."""


class Playing(ABC):
    """One playing of an input. `cut`: how its chunks are cut; None: not at all."""

    COMMANDS: ClassVar[tuple[Callable[[Any, int], None], ...]]
    """The kept corpus goes by their order."""
    LINKS: ClassVar[int] = 5

    def __init__(self, cut: random.Random | None) -> None:
        self._cut = cut
        self.chosen = 0
        self.ended: list[Ended] = []
        self._tracer = Tracer()

    @property
    @abstractmethod
    def router(self) -> Router:
        """The router of all links."""

    @property
    @abstractmethod
    def interests(self) -> list[Interest]:
        """The interests that the links' subscriptions are in."""

    @abstractmethod
    def link(self, number: int) -> Link:
        """The link with this number."""

    @abstractmethod
    def open(self, number: int) -> None:
        """A new link takes the place of the one with this number."""

    @abstractmethod
    def take_from(self, number: int, limit: int = EVERYTHING) -> None:
        """What was written to a link is kept for `written`."""

    @abstractmethod
    def written(self, number: int) -> bytes:
        """All that was taken from this link."""

    @abstractmethod
    def stop(self) -> None:
        """The links are gone: so is the rest."""

    def run(self, data: bytes) -> None:
        self.router.tracer = self._tracer
        for interest in self.interests:
            interest.is_traced = True
        for chunk, number in chunks(data):
            self._feed(chunk)
            if number is not None:
                self.COMMANDS[number % len(self.COMMANDS)](self, number // len(self.COMMANDS))
        assert self._subscriptions() == self._held()

    def _held(self) -> int:
        """How many subscriptions the links say they have."""
        return sum(self.link(number).subscriptions_count for number in range(self.LINKS))

    def _subscriptions(self) -> int:
        return sum(interest.statistics()["subscriptions"] for interest in self.interests)

    def _feed(self, chunk: bytes) -> None:
        link = self.link(self.chosen)
        sizes = (1, 2, 5, 30, 1000) if len(chunk) < 5000 else (1, 100, 3000, 20_000, 65_536)
        at = 0
        while at < len(chunk) and not link.is_closing:
            size = len(chunk) if self._cut is None else self._cut.choice(sizes)
            link.feed(chunk[at : at + size])
            at += size

    # -- commands

    def choose(self, argument: int) -> None:
        """Bytes go to this link from now on, or to another in its place when it has come to its end."""
        self.chosen = argument % self.LINKS
        if self.link(self.chosen).is_closing:
            self.close(0)

    def end_tick(self, _argument: int) -> None:
        for link in self.router.end_tick():
            assert link.is_closing
            assert CloseReason(link.reason) is not CloseReason.NONE
        self.router.now += 1_000_000

    def take(self, argument: int) -> None:
        self.take_from(self.chosen, (argument + 1) * 50)

    def close(self, _argument: int) -> None:
        """The chosen link ends, and another takes its place."""
        self._end(self.chosen)
        self.open(self.chosen)

    def block(self, _argument: int) -> None:
        self.link(self.chosen).report_blocked()

    def trace(self, argument: int) -> None:
        self.link(self.chosen).traced = bool(argument & 1)

    # -- the end

    def _end(self, number: int) -> None:
        self.take_from(number)
        link = self.link(number)
        self.ended.append((number, self.written(number), CloseReason(link.reason)))
        link.detach()

    def result(self) -> tuple[list[Ended], int]:
        """Return all that can be seen from outside; the links are gone then."""
        for number in reversed(range(self.LINKS)):
            self._end(number)
        delivered = self.router.statistics()["out_msgs"]
        self.router.end_tick()
        assert self._subscriptions() == 0
        assert (self.router.stalled, self.router.blocked) == (0, 0)
        assert self._tracer.begun == self._tracer.ended
        self.stop()
        return self.ended, delivered


def chunks(data: bytes) -> Iterator[tuple[bytes, int | None]]:
    """(what is sent, the command after it)"""
    at = 0
    while at < len(data):
        escape = data.find(ESCAPE, at)
        if escape < 0 or escape + 1 >= len(data):
            yield data[at:], None
            return
        yield data[at:escape], data[escape + 1]
        at = escape + 2


def mapped(subject: bytes) -> tuple[bytes, bool] | None:
    """A mapper of subjects: what begins with an `a` becomes what begins with a `b`."""
    return (b"b" + subject[1:], True) if subject.startswith(b"a") else None


def any_line(*kinds: tuple[bytes, int]) -> re.Pattern[bytes]:
    """Finds any line that might be of this op, commands between its letters included, with so many words."""
    return re.compile(
        b"(?is)"
        + b"|".join(
            b"%b(?:[^ \\t\\r\\n]*[ \\t\\r]+[^ \\t\\r\\n]){%d}"
            % (b".{0,4}".join(re.escape(op[n : n + 1]) for n in range(len(op))), words)
            for op, words in kinds
        )
    )


def command(commands: tuple[Callable[[Any, int], None], ...], method: Any, argument: int = 0) -> bytes:
    """The two bytes of a command."""
    return bytes([ESCAPE, commands.index(method) + argument * len(commands)])


def play_twice(
    data: bytes,
    make: Callable[[random.Random | None], Playing],
    read: Callable[[int, bytes], Any],
    drawn: re.Pattern[bytes],
) -> None:
    """Plays one input both ways.

    `read(number, written)` gives what is to be the same of all that was written to a link, and raises
    ValueError for what no server writes. Where `drawn` is in the input, chance decides who gets a message.

    Raises: AssertionError or ValueError when something does not hold; and whatever the engine raises.
    """
    before = live_objects()
    plays = [make(None), make(random.Random(zlib.crc32(data)))]
    results = []
    for play in plays:
        play.run(data)
        ended, delivered = play.result()
        results.append(([(number, read(number, text), why) for number, text, why in ended], delivered))
    if not drawn.search(data):
        whole, cut = results
        assert whole == cut
    plays.clear()
    del play
    after = live_objects()  # fewer when what earlier tests left in cycles went meanwhile
    assert all(0 <= after[kind] <= before[kind] for kind in before), f"before {before}, after {after}"
