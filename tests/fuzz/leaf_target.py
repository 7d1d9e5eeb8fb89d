"""What a fuzz input of the leaf node protocol means, and what must hold whatever it is.

An input is what two leaf nodes, a hub and two clients send. As in `client_target`, a byte 255 ends a chunk
and makes the byte after it a command.

Each input is played twice, its chunks whole and cut at random, and both must come to the same. At the end
each leaf node must have been told, by the lines it was written, exactly what is wanted by others than itself.
"""

from __future__ import annotations

import random
import re
import zlib
from typing import TYPE_CHECKING, Final

from engine_peers import QUIET_WITH_HEADERS, Peer
from leaf_peers import Hub, Leaf

from fuzz.client_target import ESCAPE, chunks
from fuzz.frames import read_frames
from fuzz.leaf_frames import read_leaf_lines
from headrace.engine.memory import live_objects
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable

    _Rules = tuple[Callable[[bytes], bool] | None, ...]

LINKS: Final = 5
"""A leaf node of cluster `one`, one of `two`, a hub, two clients."""

_CLUSTERS: Final = (b"one", b"two", b"up")
_LOOP: Final = b"$LDS.own"
_QUEUE: Final = re.compile(rb"(?i)(?:SUB\s+\S+|LS\+\s+\S+)[ \t]+\S+[ \t]+\S+")


class LeafPlay:
    """One input against one server, whole or (with `rng`) cut."""

    def __init__(self, rng: random.Random | None) -> None:
        self.rng = rng
        self.hub = Hub()
        self.chosen = 0
        self.is_judged = [False] * LINKS
        self.written: list[bytearray] = [bytearray() for _ in range(LINKS)]
        self.ended: list[tuple[int, bytes, CloseReason]] = []
        self.sides: dict[int, Leaf | Peer] = {}
        for number in range(LINKS):
            self._begin(number)

    def _begin(self, number: int, rules: _Rules | None = None) -> None:
        if number < 3:
            side = Leaf(self.hub)
            if rules is not None:
                self.is_judged[number] = True
                side.link.restrict(*rules)
            side.link.open(
                self.hub.interest,
                is_spoke=number == 2,
                headers=True,
                origin=_CLUSTERS[number],
                loop=_LOOP,
                always=(b"always.x",),
            )
            self.sides[number] = side
        else:
            self.sides[number] = self.hub.peer(QUIET_WITH_HEADERS)

    # -- bytes

    def run(self, data: bytes) -> None:
        for chunk, command in chunks(data):
            self._feed(chunk)
            if command is not None:
                COMMANDS[command % len(COMMANDS)](self, command // len(COMMANDS))

    def _feed(self, chunk: bytes) -> None:
        link = self.sides[self.chosen].link
        at = 0
        while at < len(chunk) and not link.is_closing:
            size = len(chunk) if self.rng is None else self.rng.choice((1, 2, 5, 17, 300, 70_000))
            link.feed(chunk[at : at + size])
            at += size
        self._renew()

    def _renew(self) -> None:
        """Links that came to their end are others from now on."""
        for number, side in list(self.sides.items()):
            if side.link.is_closing:
                self._end(number)
                self._begin(number)

    def _end(self, number: int) -> None:
        side = self.sides.pop(number)
        written = bytes(self.written[number]) + side.link.take()
        self.written[number].clear()
        self.ended.append((number, written, CloseReason(side.link.reason)))
        self.is_judged[number] = False
        side.link.detach()
        vars(side.session).clear()
        if isinstance(side, Leaf):
            self.hub.leafs.remove(side)
        self.hub.end_tick()

    # -- commands

    def choose(self, argument: int) -> None:
        self.chosen = argument % LINKS

    def end_tick(self, _argument: int) -> None:
        self.hub.end_tick()
        self._renew()

    def take(self, _argument: int) -> None:
        self.written[self.chosen] += self.sides[self.chosen].link.take()

    def close(self, _argument: int) -> None:
        self.sides[self.chosen].link.doom(CloseReason.CLIENT_CLOSED)
        self._renew()

    def hold(self, argument: int) -> None:
        link = self.sides[self.chosen].link
        if argument & 1:
            link.hold()
        else:
            link.release()
        self._renew()

    def restrict(self, argument: int) -> None:
        """A leaf link begins anew, with rules of which each concerns something else."""
        if self.chosen < 3:
            self._end(self.chosen)
            self._begin(self.chosen, tuple(_has_no_n if argument >> bit & 1 else None for bit in range(3)))

    def wants(self, argument: int) -> None:
        side = self.sides[self.chosen]
        if isinstance(side, Leaf):
            side.link.wants([b"always.x", b"a"] if argument & 1 else [b"always.x"])

    def trace(self, argument: int) -> None:
        self.sides[self.chosen].link.traced = bool(argument & 1)

    def map_subjects(self, argument: int) -> None:
        self.hub.interest.mapper = _mapped if argument & 1 else None

    # -- the end

    def result(self) -> tuple[list[tuple[int, bytes, CloseReason]], int]:
        """Everything that can be seen from outside; the server is gone then."""
        self._check_told()
        for number in reversed(range(LINKS)):
            self._end(number)
        delivered = self.hub.router.statistics()["out_msgs"]
        self.hub.router.end_tick()
        assert self.hub.interest.statistics()["subscriptions"] == 0
        self.hub.interest.mapper = None
        self.hub.stop()
        return self.ended, delivered

    def _check_told(self) -> None:
        for number in range(3):
            side = self.sides[number]
            assert isinstance(side, Leaf)
            self.written[number] += side.link.take()
            told = read_leaf_lines(bytes(self.written[number]))
            if not self.is_judged[number]:
                told.pop((b"a", None), None)  # `wants` may have asked for it
                wanted = self._wanted(number)
                wanted.pop((b"a", None), None)
                assert told == wanted, (number, told, wanted)

    def _wanted(self, number: int) -> dict[tuple[bytes, bytes | None], int]:
        """By the rules: clients, and the leaf nodes; of a hub's interest only leaf nodes hear."""
        found: dict[tuple[bytes, bytes | None], int] = {(_LOOP, None): 1, (b"always.x", None): 1}
        for other, side in self.sides.items():
            if other == number:
                continue
            if isinstance(side, Leaf):
                for subject, queue, weight in side.link.interest_rows():
                    if queue is None:
                        found[subject, None] = 1
                    elif weight:
                        found[subject, queue] = found.get((subject, queue), 0) + weight
            else:
                for subject, queue, *_ in side.link.subscriptions():
                    found[subject, queue] = 1 if queue is None else found.get((subject, queue), 0) + 1
        return found


def _has_no_n(subject: bytes) -> bool:
    return b"n" not in subject


def _mapped(subject: bytes) -> tuple[bytes, bool] | None:
    return (b"b" + subject[1:], True) if subject.startswith(b"a") else None


COMMANDS: Final[tuple[Callable[[LeafPlay, int], None], ...]] = (
    LeafPlay.choose,
    LeafPlay.end_tick,
    LeafPlay.take,
    LeafPlay.close,
    LeafPlay.hold,
    LeafPlay.restrict,
    LeafPlay.wants,
    LeafPlay.trace,
    LeafPlay.map_subjects,
)


def leaf_command(method: Callable[[LeafPlay, int], None], argument: int = 0) -> bytes:
    """The two bytes of a command."""
    return bytes([ESCAPE, COMMANDS.index(method) + argument * len(COMMANDS)])


def _comparable(number: int, written: bytes) -> list[str]:
    return sorted(map(repr, read_frames(written) if number > 2 else written.split(b"\r\n")))


def check(data: bytes) -> None:
    """Plays one input both ways.

    Raises: AssertionError or ValueError when something does not hold; and whatever the engine raises.
    """
    before = live_objects()
    plays = [LeafPlay(None), LeafPlay(random.Random(zlib.crc32(data)))]
    results = []
    for play in plays:
        play.run(data)
        results.append(play.result())
    for ended, _ in results:
        for number, written, _ in ended:
            (read_leaf_lines if number < 3 else read_frames)(written)
    if not _QUEUE.search(data):  # which member of a group gets a message is drawn
        whole, cut = (([(n, _comparable(n, w), r) for n, w, r in ended], d) for ended, d in results)
        assert whole == cut
    plays.clear()
    assert live_objects() == before
