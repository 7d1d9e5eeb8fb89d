"""What a fuzz input of the route protocol of before 2.0 means, and what must hold whatever it is.

An input is what three other servers, two of them of before 2.0, and two clients send, with commands between
(`playing`). At the end each server must have been told, in its protocol, exactly what the clients want, and
what the servers of the other protocol want while this one bridges the two.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from engine_peers import QUIET_WITH_HEADERS
from route_peers import GLOBAL, Remote

from fuzz.frames import read_frames
from fuzz.playing import play_twice
from fuzz.route_frames import read_legacy_lines, read_route_lines
from fuzz.route_target import QUEUE, ROUTES, RoutePlay

LEGACY: Final = 2
"""The first so many links are of before 2.0; then comes a route of 2.x, then clients in $G."""


class LegacyPlay(RoutePlay):
    """One playing of an input, by three other servers and two clients."""

    is_bridge = False

    def _side(self, number: int) -> Any:
        self.is_restricted[number] = False
        if number >= ROUTES:
            return self.server.peer(QUIET_WITH_HEADERS)
        if number < LEGACY:
            side = self.server.legacy_route(max_payload=70_000 if number else 48)
        else:
            side = self.server.route(max_payload=70_000)
        self._take_side(number, side)
        return side

    def _take_side(self, number: int, side: Remote) -> None:
        side.link.take_side((1 if number < LEGACY else 2) if self.is_bridge else 0)

    def map_or_bridge(self, argument: int) -> None:
        if not argument & 2:
            self.map_subjects(argument)
            return
        self.is_bridge = bool(argument & 1)
        for number in range(ROUTES):
            self._take_side(number, self.sides[number])

    COMMANDS = (*RoutePlay.COMMANDS[:-1], map_or_bridge)

    def serve(self, side: Remote) -> None:
        side.link.serve(GLOBAL, self.server.interest, dedicated=True)

    def _check_told(self) -> None:
        wanted: Counter[tuple[bytes, bytes | None]] = Counter()
        for side in self.sides[ROUTES:]:
            if not side.link.is_detached:
                wanted.update((subject, queue) for subject, queue, *_ in side.link.subscriptions())
        old, new = self._across()
        for n in range(ROUTES):
            self.take_from(n)
            if self.sides[n].link.is_closing or self.is_restricted[n]:
                continue
            if n < LEGACY:
                told_here = Counter(read_legacy_lines(self.written(n)).values())
                assert told_here == wanted + new, f"route {n}"
            else:
                told = read_route_lines(self.written(n), None)
                expected = {(GLOBAL, *key): m if key[1] else 1 for key, m in (wanted + old).items()}
                assert told == expected, f"route {n}"

    def _across(self) -> tuple[Counter[tuple[bytes, bytes | None]], Counter[tuple[bytes, bytes | None]]]:
        """What peers of 1.x want, as those of 2.x are told, and the other way about."""
        old: Counter[tuple[bytes, bytes | None]] = Counter()
        new: Counter[tuple[bytes, bytes | None]] = Counter()
        for n in range(ROUTES if self.is_bridge else 0):
            if self.sides[n].link.is_detached:
                continue
            for account, subject, queue, weight in self.sides[n].link.interest_rows():
                if n < LEGACY:
                    old[subject, queue] += 1
                elif weight and account == GLOBAL:
                    new[subject, None] += 1
        return old, new


def _read(number: int, written: bytes) -> list[Any]:
    if number >= ROUTES:
        return sorted(read_frames(written))
    if number < LEGACY:
        read_legacy_lines(written)
    else:
        read_route_lines(written, None)
    return sorted(written.split(b"\r\n"))


def check(data: bytes) -> None:
    """Plays one input both ways; raises as `play_twice`."""
    play_twice(data, LegacyPlay, _read, QUEUE)
