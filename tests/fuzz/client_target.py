"""What a fuzz input means, and what must hold whatever it is.

An input is what clients send, mostly as it is: its bytes go to the link chosen last. A byte 255 ends a chunk
and makes the byte after it a command (`_COMMANDS`): choose another link, end the tick, take from an outbox,
hold, stall, close. So a file of plain protocol text is an input, and any cut of one too.

Each input is played twice, its chunks whole and cut at random, and both must come to the same.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from engine_peers import ALLOWED, FILTERED, REFUSED, Broker, Peer

from fuzz.frames import read_frames
from headrace.engine.memory import live_objects
from headrace.engine.reasons import CloseReason
from headrace.engine.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ESCAPE: Final = 0xFF
LINKS: Final = 5

LIMITS: Final[tuple[dict[str, int], ...]] = (
    {},
    {"must_connect": True},
    {"max_payload": 48, "max_control_line": 64, "max_subscriptions": 3, "max_subscription_tokens": 3},
    {"max_payload": 1 << 20, "max_control_line": 1 << 17},
    {},
)
"""Of each link. The last but one takes what is larger than every buffer, the last has a writer of its own."""


@dataclass(slots=True)
class Side:
    """One link and everything that was written to it."""

    peer: Peer
    written: bytearray = field(default_factory=bytearray)

    def take(self, limit: int = 1 << 62) -> None:
        self.written += self.peer.link.take(limit)


class Play:
    """One playing of an input."""

    def __init__(self, cut: random.Random | None) -> None:
        self._cut = cut
        with contextlib.redirect_stdout(io.StringIO()):
            self.broker = Broker(max_pending=400_000, congestion_mark=3_000)
        self.ended: list[tuple[int, bytes, CloseReason]] = []
        self.chosen = 0
        self.sides = [self._open(n) for n in range(LINKS)]

    def _open(self, number: int) -> Side:
        side = Side(self.broker.peer(b"", **LIMITS[number]))
        hooks = side.peer.session.hooks
        hooks["subscribe_verdict"] = _subscribe_verdict
        hooks["publish_refused"] = lambda subject: subject.startswith(b"r")
        hooks["op_before_connect"] = side.peer.link.adopt
        if number == LINKS - 1:
            side.peer.link.use_writer(side.take)
        return side

    def run(self, data: bytes) -> None:
        for chunk, command in chunks(data):
            self._feed(chunk)
            if command is not None:
                number, argument = command % len(_COMMANDS), command // len(_COMMANDS)
                _COMMANDS[number](self, argument)
        self._check_counts()

    def _feed(self, chunk: bytes) -> None:
        link = self.sides[self.chosen].peer.link
        sizes = (1, 2, 5, 30, 1000) if len(chunk) < 5000 else (1, 100, 3000, 20_000, 65_536)
        at = 0
        while at < len(chunk) and not link.is_closing:
            size = len(chunk) if self._cut is None else self._cut.choice(sizes)
            link.feed(chunk[at : at + size])
            at += size

    def _check_counts(self) -> None:
        held = sum(side.peer.link.subscriptions_count for side in self.sides)
        assert self.broker.interest.statistics()["subscriptions"] == held

    # -- commands

    def choose(self, argument: int) -> None:
        self.chosen = argument % LINKS

    def end_tick(self, _argument: int) -> None:
        for link in self.broker.router.end_tick():
            assert link.is_closing
            assert CloseReason(link.reason) is not CloseReason.NONE
        self.broker.router.now += 1_000_000

    def take(self, argument: int) -> None:
        self.sides[self.chosen].take((argument + 1) * 50)

    def take_all(self, _argument: int) -> None:
        for side in self.sides:
            side.take()

    def close(self, _argument: int) -> None:
        """The chosen link ends, and another takes its place."""
        self._end(self.chosen)
        self.sides[self.chosen] = self._open(self.chosen)

    def _end(self, number: int) -> None:
        side = self.sides[number]
        side.take()
        self.ended.append((number, bytes(side.written), side.peer.reason))
        side.peer.link.detach()

    def doom(self, _argument: int) -> None:
        self.sides[self.chosen].peer.link.doom(CloseReason.STALE_CONNECTION)

    def hold(self, _argument: int) -> None:
        self.sides[self.chosen].peer.link.hold()

    def release(self, _argument: int) -> None:
        self.sides[self.chosen].peer.link.release()

    def block(self, _argument: int) -> None:
        self.sides[self.chosen].peer.link.report_blocked()

    def let_drained_go(self, argument: int) -> None:
        self.broker.router.now += argument * 1_000_000
        for side in self.sides:
            side.peer.link.release_if_drained()

    def trace(self, argument: int) -> None:
        self.sides[self.chosen].peer.link.traced = bool(argument & 1)

    def restrict(self, argument: int) -> None:
        link = self.sides[self.chosen].peer.link
        publish = Verdicts(_may_publish) if argument & 1 else None
        deliver = Verdicts(_may_be_delivered) if argument & 2 else None
        link.restrict(publish, deliver, bool(argument & 4), bool(argument & 8))

    def map_subjects(self, argument: int) -> None:
        mappers: tuple[Any, ...] = (None, _mapped, _mapped_each_time)
        self.broker.interest.mapper = mappers[argument % 3]

    def look_up(self, argument: int) -> None:
        self.broker.interest.receivers(b"a.b" if argument else b"a")

    # -- the end

    def result(self) -> tuple[list[tuple[int, bytes, CloseReason]], int]:
        """Everything that can be seen from outside; the broker is gone then."""
        for number in range(LINKS):
            self._end(number)
        delivered = self.broker.router.statistics()["out_msgs"]
        self.broker.router.end_tick()
        assert self.broker.interest.statistics()["subscriptions"] == 0
        assert (self.broker.router.stalled, self.broker.router.blocked) == (0, 0)
        self.broker.stop()
        self.sides.clear()
        return self.ended, delivered


_COMMANDS: Final[tuple[Callable[[Play, int], None], ...]] = (
    Play.choose,
    Play.end_tick,
    Play.take,
    Play.take_all,
    Play.close,
    Play.doom,
    Play.hold,
    Play.release,
    Play.block,
    Play.let_drained_go,
    Play.trace,
    Play.restrict,
    Play.map_subjects,
    Play.look_up,
)


_QUEUE_SUBSCRIPTION: Final = re.compile(rb"(?is)s.{0,4}u.{0,4}b[^\n]*[ \t\r][^\n]*[ \t\r][^\n]*[ \t\r]")
"""Any line that might be a SUB with a queue group, commands between its letters included."""


def command(method: Callable[[Play, int], None], argument: int = 0) -> bytes:
    """The two bytes of a command."""
    number = _COMMANDS.index(method) + argument * len(_COMMANDS)
    return bytes([ESCAPE, number])


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


def _subscribe_verdict(subject: bytes, _queue: bytes | None) -> int:
    return {b"n": REFUSED, b"f": FILTERED, b"*": FILTERED}.get(subject[:1], ALLOWED)


def _may_publish(subject: bytes) -> bool:
    return not subject.startswith((b"n", b"r"))


def _may_be_delivered(key: bytes) -> bool:
    return b"n" not in key


def _mapped(subject: bytes) -> tuple[bytes, bool] | None:
    return (b"b" + subject[1:], True) if subject.startswith(b"a") else None


def _mapped_each_time(subject: bytes) -> tuple[bytes, bool] | None:
    return (b"" if len(subject) == 5 else b"c.d", False) if subject.startswith(b"a") else None


def check(data: bytes) -> None:
    """Plays one input both ways.

    Raises: AssertionError or ValueError when something does not hold; and whatever the engine raises.
    """
    before = live_objects()
    plays = [Play(None), Play(random.Random(zlib.crc32(data)))]
    results = []
    for play in plays:
        play.run(data)
        results.append(play.result())
    for ended, _ in results:
        for _, written, _ in ended:
            read_frames(written)
    if not _QUEUE_SUBSCRIPTION.search(data):  # which member of a group gets a message is drawn
        whole, cut = (([(n, sorted(read_frames(w)), r) for n, w, r in ended], d) for ended, d in results)
        assert whole == cut
    plays.clear()
    assert live_objects() == before
