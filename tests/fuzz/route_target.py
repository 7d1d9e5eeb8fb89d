"""What a fuzz input of the route protocol means, and what must hold whatever it is.

An input is what two other servers and two clients send, with commands between (`playing`). Account A has a
connection of its own, on which lines name no account. At the end each server must have been told, by the
lines it was written, exactly what the clients want.
"""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from engine_peers import QUIET_WITH_HEADERS, Peer
from route_peers import GLOBAL, Remote, Server

from fuzz.frames import read_frames
from fuzz.playing import EVERYTHING, Playing, any_line, mapped, play_twice
from fuzz.route_frames import Told, read_route_lines

if TYPE_CHECKING:
    import random

    from fuzz.playing import Ended
    from headrace.engine.interest import Interest
    from headrace.engine.link import Link, Router

A: Final = b"A"
ROUTES: Final = 3
"""The first so many links: two for all accounts but A, one for A alone. Then come clients, in $G and in A."""
DEDICATED: Final = 2

QUEUE: Final = any_line((b"SUB", 3), (b"RS+", 3), (b"LS+", 4))
"""Any line that might put a member into a queue group."""


class RoutePlay(Playing):
    """One playing of an input, by two other servers (three routes) and two clients."""

    SERVER: ClassVar[type[Server]] = Server

    def __init__(self, cut: random.Random | None) -> None:
        super().__init__(cut)
        with contextlib.redirect_stdout(io.StringIO()):
            self.server = self.SERVER(max_pending=400_000, congestion_mark=3_000)
        self.server.account(A)
        self._written = [bytearray() for _ in range(self.LINKS)]
        self.is_restricted = [False] * self.LINKS
        self.sides = [self._side(n) for n in range(self.LINKS)]

    def _side(self, number: int) -> Any:
        self.is_restricted[number] = False
        if number < 2:
            is_new = number == 0
            return self.server.route(headers=is_new, origin_unsub=is_new, traces=is_new, max_payload=70_000)
        if number == DEDICATED:
            return self.server.route(A, dedicated=True, max_payload=48, max_control_line=64)
        return self.client(GLOBAL if number == 3 else A)

    def client(self, account: bytes) -> Peer:
        """A client that acts in an account."""
        peer = self.server.peer(b"")
        peer.link.interest = self.server.accounts[account]
        return peer.send(QUIET_WITH_HEADERS)

    @property
    def router(self) -> Router:
        return self.server.router

    @property
    def interests(self) -> list[Interest]:
        return list(self.server.accounts.values())

    def link(self, number: int) -> Link:
        return self.sides[number].link

    def open(self, number: int) -> None:
        self.sides[number] = self._side(number)
        self._written[number].clear()

    def take_from(self, number: int, limit: int = EVERYTHING) -> None:
        self._written[number] += self.sides[number].link.take(limit)

    def written(self, number: int) -> bytes:
        return bytes(self._written[number])

    def stop(self) -> None:
        self.server.stop()
        self.sides.clear()

    def result(self) -> tuple[list[Ended], int]:
        self._check_told()
        return super().result()

    def _check_told(self) -> None:
        """Every route that is open knows what the clients want, and nothing else."""
        wanted: Counter[Told] = Counter()
        for side, account in ((self.sides[3], GLOBAL), (self.sides[4], A)):
            if not side.link.is_detached:
                for subject, queue, *_ in side.link.subscriptions():
                    wanted[account, subject, queue] += 1
        for n in range(ROUTES):
            self.take_from(n)
            told = read_route_lines(self.written(n), A if n == DEDICATED else None)
            if not (self.sides[n].link.is_closing or self.is_restricted[n]):
                served = (A,) if n == DEDICATED else (GLOBAL,)
                expected = {key: 1 if key[2] is None else m for key, m in wanted.items() if key[0] in served}
                assert told == expected, f"route {n}: told {told}, wanted {expected}"

    # -- commands

    def hold(self, argument: int) -> None:
        link = self.link(self.chosen)
        if argument & 1:
            link.hold()
        else:
            link.release()

    def restrict(self, argument: int) -> None:
        side = self.sides[self.chosen]
        if isinstance(side, Remote) and self.chosen == 1:
            self.is_restricted[1] = True
            side.link.restrict(has_no_n if argument & 1 else None, has_no_n if argument & 2 else None)

    def withdraw(self, argument: int) -> None:
        side = self.sides[self.chosen]
        if isinstance(side, Remote) and self.chosen < 2:
            side.link.withdraw(GLOBAL, tell=True)
            if argument & 1:
                self.serve(side)
            else:
                self.is_restricted[self.chosen] = True

    def serve(self, side: Remote) -> None:
        """A route serves the account of most again."""
        side.link.serve(GLOBAL, self.server.interest)

    def map_subjects(self, argument: int) -> None:
        self.server.interest.mapper = mapped if argument & 1 else None

    COMMANDS = (
        Playing.choose,
        Playing.end_tick,
        Playing.take,
        Playing.close,
        hold,
        Playing.block,
        restrict,
        withdraw,
        Playing.trace,
        map_subjects,
    )


def has_no_n(subject: bytes) -> bool:
    return b"n" not in subject


def _read(number: int, written: bytes) -> list[Any]:
    if number >= ROUTES:
        return sorted(read_frames(written))
    read_route_lines(written, A if number == DEDICATED else None)
    return sorted(written.split(b"\r\n"))


def check(data: bytes) -> None:
    """Plays one input both ways; raises as `play_twice`."""
    play_twice(data, RoutePlay, _read, QUEUE)
