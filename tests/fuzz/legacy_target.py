"""What a fuzz input of the route protocol of before 2.0 means, and what must hold whatever it is.

An input is what three other servers, two of them of before 2.0, and two clients send, with commands between
(`playing`). At the end each server must have been told, in its protocol, exactly what the clients want.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from engine_peers import QUIET_WITH_HEADERS
from route_peers import GLOBAL, Far

from fuzz.frames import read_frames
from fuzz.playing import play_twice
from fuzz.route_frames import read_legacy_lines, read_route_lines
from fuzz.route_target import QUEUE, ROUTES, RoutePlay

LEGACY: Final = 2
"""The first so many links are of before 2.0; then comes a route of 2.x, then clients in $G."""


class LegacyPlay(RoutePlay):
    """One playing of an input, by three other servers and two clients."""

    def _side(self, number: int) -> Any:
        self.is_restricted[number] = False
        if number < LEGACY:
            return self.server.legacy_route(max_payload=70_000 if number else 48)
        if number < ROUTES:
            return self.server.route(max_payload=70_000)
        return self.server.peer(QUIET_WITH_HEADERS)

    def serve(self, side: Far) -> None:
        side.link.serve(GLOBAL, self.server.interest, dedicated=True)

    def _check_told(self) -> None:
        wanted: Counter[tuple[bytes, bytes | None]] = Counter()
        for side in self.sides[ROUTES:]:
            if not side.link.is_detached:
                wanted.update((subject, queue) for subject, queue, *_ in side.link.subscriptions())
        for n in range(ROUTES):
            self.take_from(n)
            if self.sides[n].link.is_closing or self.is_restricted[n]:
                continue
            if n < LEGACY:
                assert Counter(read_legacy_lines(self.written(n)).values()) == wanted, f"route {n}"
            else:
                told = read_route_lines(self.written(n), None)
                expected = {(GLOBAL, *key): m if key[1] else 1 for key, m in wanted.items()}
                assert told == expected, f"route {n}"


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
