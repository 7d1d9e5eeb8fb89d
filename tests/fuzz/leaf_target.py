"""What a fuzz input of the leaf node protocol means, and what must hold whatever it is.

An input is what two leaf nodes, a hub and two clients send, with commands between (`playing`). At the end
each leaf node must have been told, by the lines it was written, exactly what is wanted by others than itself.
"""

from __future__ import annotations

from typing import Any, Final

from engine_peers import QUIET_WITH_HEADERS
from leaf_peers import Hub, Leaf

from fuzz.frames import read_frames
from fuzz.playing import Playing, any_line, play_twice
from fuzz.route_frames import read_leaf_lines
from fuzz.route_target import RoutePlay, has_no_n

LEAFS: Final = 3
"""The first so many links: a leaf node of cluster `one`, one of `two`, a hub. Then come clients."""

LOOP: Final = b"$LDS.own"
_CLUSTERS: Final = (b"one", b"two", b"up")
_QUEUE: Final = any_line((b"SUB", 3), (b"LS+", 3))
"""Any line that might put a member into a queue group."""


class LeafPlay(RoutePlay):
    """One playing of an input, by two leaf nodes, a hub and two clients."""

    SERVER = Hub
    server: Hub
    _rules = 0
    """The rules of the leaf link that begins next, a bit for each."""

    def _side(self, number: int) -> Any:
        self.is_restricted[number] = False
        if number >= LEAFS:
            return self.server.peer(QUIET_WITH_HEADERS)
        leaf = Leaf(self.server)
        leaf.link.restrict(*(has_no_n if self._rules >> bit & 1 else None for bit in range(3)))
        leaf.link.open(
            self.server.interest,
            is_spoke=number == 2,
            headers=True,
            origin=_CLUSTERS[number],
            loop=LOOP,
            always=(b"always.x",),
            traces=number == 0,
        )
        return leaf

    def _check_told(self) -> None:
        for number in range(LEAFS):
            self.take_from(number)
            told = read_leaf_lines(self.written(number))
            if not (self.sides[number].link.is_closing or self.is_restricted[number]):
                told.pop((b"a", None), None)  # `wants` may have asked for it
                wanted = self._wanted_beside(number)
                wanted.pop((b"a", None), None)
                assert told == wanted, f"leaf node {number}: told {told}, wanted {wanted}"

    def _wanted_beside(self, number: int) -> dict[tuple[bytes, bytes | None], int]:
        """What the clients and the other leaf nodes want."""
        found: dict[tuple[bytes, bytes | None], int] = {(LOOP, None): 1, (b"always.x", None): 1}
        for other, side in enumerate(self.sides):
            if other == number:
                continue
            if other < LEAFS:
                rows = side.link.interest_rows()
            else:
                rows = [(subject, queue, 1) for subject, queue, *_ in side.link.subscriptions()]
            for subject, queue, weight in rows:
                if queue is None:
                    found[subject, None] = 1
                elif weight:
                    found[subject, queue] = found.get((subject, queue), 0) + weight
        return found

    # -- commands

    def restrict(self, argument: int) -> None:
        """A leaf link begins anew, with rules of which each concerns something else."""
        if self.chosen < LEAFS:
            self._rules = argument
            self.close(0)
            self._rules = 0
            self.is_restricted[self.chosen] = True

    def wants(self, argument: int) -> None:
        side = self.sides[self.chosen]
        if isinstance(side, Leaf):
            side.link.wants([b"always.x", b"a"] if argument & 1 else [b"always.x"])

    COMMANDS = (
        Playing.choose,
        Playing.end_tick,
        Playing.take,
        Playing.close,
        RoutePlay.hold,
        restrict,
        wants,
        Playing.trace,
        RoutePlay.map_subjects,
    )


def _read(number: int, written: bytes) -> list[Any]:
    if number >= LEAFS:
        return sorted(read_frames(written))
    read_leaf_lines(written)
    return sorted(written.split(b"\r\n"))


def check(data: bytes) -> None:
    """Plays one input both ways; raises as `play_twice`."""
    play_twice(data, LeafPlay, _read, _QUEUE)
