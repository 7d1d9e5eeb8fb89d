"""What a fuzz input of the client protocol means, and what must hold whatever it is.

An input is what clients send, mostly as it is, with commands between (`playing`): choose another link, end
the tick, take from an outbox, hold, stall, close. So a file of plain protocol text is an input, and any cut
of one too.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from engine_peers import ALLOWED, FILTERED, REFUSED, Broker, Peer

from fuzz.frames import read_frames
from fuzz.playing import EVERYTHING, Playing, any_line, mapped, play_twice
from headrace.engine.permission_cache import PermissionCache
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    import random

    from headrace.engine.client import ClientLink
    from headrace.engine.interest import Interest
    from headrace.engine.link import Router

LIMITS: Final[tuple[dict[str, int], ...]] = (
    {},
    {"must_connect": True},
    {"max_payload": 48, "max_control_line": 64, "max_subscriptions": 3, "max_subscription_tokens": 3},
    {"max_payload": 1 << 20, "max_control_line": 1 << 17},
    {},
)
"""The limits of each link.

The last but one takes what is larger than every buffer, the last has a writer of its own.
"""


@dataclass(slots=True)
class Side:
    """One link and everything that was written to it."""

    peer: Peer
    written: bytearray = field(default_factory=bytearray)

    def take(self, limit: int = EVERYTHING) -> None:
        self.written += self.peer.link.take(limit)


class Play(Playing):
    """One playing of an input, by five clients."""

    def __init__(self, cut: random.Random | None) -> None:
        super().__init__(cut)
        with contextlib.redirect_stdout(io.StringIO()):
            self.broker = Broker(max_pending=400_000, congestion_mark=3_000)
        self.sides = [self._side(n) for n in range(self.LINKS)]

    def _side(self, number: int) -> Side:
        side = Side(self.broker.peer(b"", **LIMITS[number]))
        hooks = side.peer.session.hooks
        hooks["subscribe_permission"] = _subscribe_permission
        hooks["publish_refused"] = lambda subject: subject.startswith(b"r")
        hooks["op_before_connect"] = side.peer.link.adopt
        if number == self.LINKS - 1:
            side.peer.link.use_writer(side.take)
        return side

    @property
    def router(self) -> Router:
        return self.broker.router

    @property
    def interests(self) -> list[Interest]:
        return [self.broker.interest]

    def link(self, number: int) -> ClientLink:
        return self.sides[number].peer.link

    def open(self, number: int) -> None:
        self.sides[number] = self._side(number)

    def take_from(self, number: int, limit: int = EVERYTHING) -> None:
        self.sides[number].take(limit)

    def written(self, number: int) -> bytes:
        return bytes(self.sides[number].written)

    def stop(self) -> None:
        self.broker.stop()
        self.sides.clear()

    # -- commands

    def take_all(self, _argument: int) -> None:
        for side in self.sides:
            side.take()

    def doom(self, _argument: int) -> None:
        self.link(self.chosen).doom(CloseReason.STALE_CONNECTION)

    def hold(self, _argument: int) -> None:
        self.link(self.chosen).hold()

    def release(self, _argument: int) -> None:
        self.link(self.chosen).release()

    def let_drained_go(self, argument: int) -> None:
        self.router.now += argument * 1_000_000
        for side in self.sides:
            side.peer.link.release_if_drained()

    def restrict(self, argument: int) -> None:
        publish = PermissionCache(_may_publish) if argument & 1 else None
        deliver = PermissionCache(_may_be_delivered) if argument & 2 else None
        self.link(self.chosen).restrict(publish, deliver, bool(argument & 4), bool(argument & 8))

    def map_subjects(self, argument: int) -> None:
        mappers: tuple[Any, ...] = (None, mapped, _mapped_each_time)
        self.broker.interest.mapper = mappers[argument % 3]

    def look_up(self, argument: int) -> None:
        self.broker.interest.receivers(b"a.b" if argument else b"a")

    COMMANDS = (
        Playing.choose,
        Playing.end_tick,
        Playing.take,
        take_all,
        Playing.close,
        doom,
        hold,
        release,
        Playing.block,
        let_drained_go,
        Playing.trace,
        restrict,
        map_subjects,
        look_up,
    )


_QUEUE: Final = any_line((b"SUB", 3))
"""Any line that might put a member into a queue group."""


def _subscribe_permission(subject: bytes, _queue: bytes | None) -> int:
    return {b"n": REFUSED, b"f": FILTERED, b"*": FILTERED}.get(subject[:1], ALLOWED)


def _may_publish(subject: bytes) -> bool:
    return not subject.startswith((b"n", b"r"))


def _may_be_delivered(key: bytes) -> bool:
    return b"n" not in key


def _mapped_each_time(subject: bytes) -> tuple[bytes, bool] | None:
    return (b"" if len(subject) == 5 else b"c.d", False) if subject.startswith(b"a") else None


def check(data: bytes) -> None:
    """Plays one input both ways; raises as `play_twice`."""
    play_twice(data, Play, lambda _, written: sorted(read_frames(written)), _QUEUE)
