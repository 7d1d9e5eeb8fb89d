"""What a fuzz input of the route protocol means, and what must hold whatever it is.

An input is what two other servers and two clients send. As in `client_target`, a byte 255 ends a chunk and
makes the byte after it a command. Account A has a connection of its own, on which lines name no account.

Each input is played twice, its chunks whole and cut at random, and both must come to the same. At the end
each server must have been told, by the lines it was written, exactly what the clients want.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Final

from engine_peers import QUIET_WITH_HEADERS, Peer
from route_peers import GLOBAL, Far, Server

from fuzz.client_target import ESCAPE, chunks
from fuzz.frames import read_frames
from fuzz.route_frames import Interest, read_route_lines
from headrace.engine.memory import live_objects
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable

A: Final = b"A"
LINKS: Final = 5
"""Two routes for all accounts but A, one for A alone, a client in $G, a client in A."""

_QUEUE: Final = re.compile(
    rb"(?is)(?:s.{0,4}u.{0,4}b|r.{0,4}s.{0,4}\+)[^\n]*[ \t\r][^\n]*[ \t\r][^\n]*[ \t\r]"
    rb"|l.{0,4}s.{0,4}\+(?:[^\n]*[ \t\r]){4}"
)
"""Any line that might put a member into a queue group, commands between its letters included."""


class RoutePlay:
    """One playing of an input."""

    def __init__(self, cut: random.Random | None) -> None:
        self._cut = cut
        with contextlib.redirect_stdout(io.StringIO()):
            self.server = Server(max_pending=400_000, congestion_mark=3_000)
        self.server.account(A)
        self.chosen = 0
        self.written = [bytearray() for _ in range(LINKS)]
        self.ended: list[tuple[int, bytes, CloseReason]] = []
        self.is_restricted = [False] * LINKS
        self.sides: list[Far | Peer] = []
        for n in range(LINKS):
            self.sides.append(self._open(n))

    def _open(self, number: int) -> Far | Peer:
        self.is_restricted[number] = False
        if number < 2:
            return self.server.route(headers=number == 0, origin_unsub=number == 0, max_payload=70_000)
        if number == 2:
            return self.server.route(A, dedicated=True, max_payload=48, max_control_line=64)
        peer = self.server.peer(b"")
        peer.link.interest = self.server.accounts[GLOBAL if number == 3 else A]
        return peer.send(QUIET_WITH_HEADERS)

    def run(self, data: bytes) -> None:
        for chunk, command in chunks(data):
            self._feed(chunk)
            if command is not None:
                number, argument = command % len(COMMANDS), command // len(COMMANDS)
                COMMANDS[number](self, argument)
        self._check_counts()

    def _feed(self, chunk: bytes) -> None:
        link = self.sides[self.chosen].link
        sizes = (1, 2, 5, 30, 1000) if len(chunk) < 5000 else (1, 100, 3000, 20_000, 65_536)
        at = 0
        while at < len(chunk) and not link.is_closing:
            size = len(chunk) if self._cut is None else self._cut.choice(sizes)
            link.feed(chunk[at : at + size])
            at += size

    def _check_counts(self) -> None:
        held = sum(side.link.subscriptions_count for side in self.sides)
        assert (
            sum(interest.statistics()["subscriptions"] for interest in self.server.accounts.values()) == held
        )

    def _check_told(self) -> None:
        """Every route that is open knows what the clients want, and nothing else."""
        wanted: Counter[Interest] = Counter()
        for side, account in ((self.sides[3], GLOBAL), (self.sides[4], A)):
            if not side.link.is_detached:
                for subject, queue, *_ in side.link.subscriptions():
                    wanted[account, subject, queue] += 1
        for n in range(3):
            self._take(n)
            told = read_route_lines(bytes(self.written[n]), A if n == 2 else None)
            if not (self.sides[n].link.is_closing or self.is_restricted[n]):
                served = (A,) if n == 2 else (GLOBAL,)
                expected = {key: 1 if key[2] is None else m for key, m in wanted.items() if key[0] in served}
                assert told == expected, f"route {n}: told {told}, wanted {expected}"

    # -- commands

    def choose(self, argument: int) -> None:
        self.chosen = argument % LINKS

    def end_tick(self, _argument: int) -> None:
        for link in self.server.router.end_tick():
            assert link.is_closing
            assert CloseReason(link.reason) is not CloseReason.NONE
        self.server.router.now += 1_000_000

    def _take(self, number: int, limit: int = 1 << 62) -> None:
        self.written[number] += self.sides[number].link.take(limit)

    def take(self, argument: int) -> None:
        self._take(self.chosen, (argument + 1) * 50)

    def close(self, _argument: int) -> None:
        """The chosen link ends, and another takes its place."""
        self._end(self.chosen)
        self.sides[self.chosen] = self._open(self.chosen)

    def _end(self, number: int) -> None:
        side = self.sides[number]
        self._take(number)
        self.ended.append((number, bytes(self.written[number]), side.reason))
        self.written[number].clear()
        side.link.detach()

    def hold(self, argument: int) -> None:
        link = self.sides[self.chosen].link
        if argument & 1:
            link.hold()
        else:
            link.release()

    def block(self, _argument: int) -> None:
        self.sides[self.chosen].link.report_blocked()

    def restrict(self, argument: int) -> None:
        side = self.sides[self.chosen]
        if isinstance(side, Far) and self.chosen == 1:
            self.is_restricted[1] = True
            side.link.restrict(_has_no_n if argument & 1 else None, _has_no_n if argument & 2 else None)

    def withdraw(self, argument: int) -> None:
        side = self.sides[self.chosen]
        if isinstance(side, Far) and self.chosen < 2:
            side.link.withdraw(GLOBAL, tell=True)
            if argument & 1:
                side.link.serve(GLOBAL, self.server.interest)
            else:
                self.is_restricted[self.chosen] = True

    def trace(self, argument: int) -> None:
        self.sides[self.chosen].link.traced = bool(argument & 1)

    def map_subjects(self, argument: int) -> None:
        self.server.interest.mapper = _mapped if argument & 1 else None

    # -- the end

    def result(self) -> tuple[list[tuple[int, bytes, CloseReason]], int]:
        """Everything that can be seen from outside; the server is gone then."""
        self._check_told()
        for number in reversed(range(LINKS)):
            self._end(number)
        delivered = self.server.router.statistics()["out_msgs"]
        self.server.router.end_tick()
        assert all(i.statistics()["subscriptions"] == 0 for i in self.server.accounts.values())
        self.server.stop()
        self.sides.clear()
        return self.ended, delivered


def _has_no_n(subject: bytes) -> bool:
    return b"n" not in subject


def _mapped(subject: bytes) -> tuple[bytes, bool] | None:
    return (b"b" + subject[1:], True) if subject.startswith(b"a") else None


COMMANDS: Final[tuple[Callable[[RoutePlay, int], None], ...]] = (
    RoutePlay.choose,
    RoutePlay.end_tick,
    RoutePlay.take,
    RoutePlay.close,
    RoutePlay.hold,
    RoutePlay.block,
    RoutePlay.restrict,
    RoutePlay.withdraw,
    RoutePlay.trace,
    RoutePlay.map_subjects,
)


def route_command(method: Callable[[RoutePlay, int], None], argument: int = 0) -> bytes:
    """The two bytes of a command."""
    return bytes([ESCAPE, COMMANDS.index(method) + argument * len(COMMANDS)])


def _comparable(number: int, written: bytes) -> list[str]:
    return sorted(map(repr, read_frames(written) if number > 2 else written.split(b"\r\n")))


def check(data: bytes) -> None:
    """Plays one input both ways.

    Raises: AssertionError or ValueError when something does not hold; and whatever the engine raises.
    """
    before = live_objects()
    plays = [RoutePlay(None), RoutePlay(random.Random(zlib.crc32(data)))]
    results = []
    for play in plays:
        play.run(data)
        results.append(play.result())
    for ended, _ in results:
        for number, written, _ in ended:
            if number < 3:
                read_route_lines(written, A if number == 2 else None)
            else:
                read_frames(written)
    if not _QUEUE.search(data):  # which member of a group gets a message is drawn
        whole, cut = (([(n, _comparable(n, w), r) for n, w, r in ended], d) for ended, d in results)
        assert whole == cut
    plays.clear()
    assert live_objects() == before
