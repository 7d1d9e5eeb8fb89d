"""Logs of a shard for tests, written by hand into a store in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.memory_objects import PROMPT, START_NS, Fate, MemoryObjects, Request
from headrace.bucket.follower import Point, WalFollower
from headrace.bucket.keys import ShardKeys
from headrace.bucket.wal_object import Kind, WalObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

KEYS: Final = ShardKeys("js")


def writer_of(epoch: int) -> bytes:
    return bytes([epoch]) * 16


def commit(number: int, epoch: int = 1, payload: bytes | None = None) -> WalObject:
    content = f"change {number}".encode() if payload is None else payload
    return WalObject("js", epoch, writer_of(epoch), number, Kind.COMMIT, START_NS, content)


def fence(number: int, epoch: int, writer: bytes | None = None) -> WalObject:
    return WalObject("js", epoch, writer or writer_of(epoch), number, Kind.FENCE, START_NS, b"server")


def release(number: int, epoch: int = 1) -> WalObject:
    return WalObject("js", epoch, writer_of(epoch), number, Kind.RELEASE, START_NS)


def wall_ns() -> int:
    return START_NS


class Bucket(MemoryObjects):
    """A store with the log of one shard in it."""

    def __init__(
        self, objects: Iterable[WalObject] = (), fate: Callable[[Request], Fate] = lambda _request: PROMPT
    ) -> None:
        super().__init__(fate)
        for made in objects:
            self.write(made)

    def write(self, made: WalObject) -> bool:
        """Create an object: False if its number is taken."""
        key = KEYS.wal(made.number)
        if key in self.objects:
            return False
        self.objects[key] = made.pack(), START_NS
        return True

    def remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.objects.pop(KEYS.wal(number), None)

    def at(self, number: int) -> WalObject | None:
        found = self.objects.get(KEYS.wal(number))
        return None if found is None else WalObject.unpack(found[0], "js", number)


class Reader(WalFollower):
    """A follower that keeps what it was given."""

    def __init__(self, bucket: Bucket, point: Point = Point()) -> None:  # noqa: B008  # a constant
        self.applied: Final[list[WalObject]] = []
        super().__init__(bucket, KEYS, point, self.applied.append)

    @property
    def numbers(self) -> list[int]:
        return [found.number for found in self.applied]

    @property
    def changes(self) -> list[bytes]:
        """The payloads of commits that changed something."""
        return [found.payload for found in self.applied if found.kind is Kind.COMMIT and found.payload]


def log_until(last: int, epoch: int = 1) -> list[WalObject]:
    """The log of one owner: its fence, then commits, with a milestone where one belongs."""
    return [
        fence(1, epoch),
        *(commit(number, epoch, b"" if number % 1000 == 0 else None) for number in range(2, last + 1)),
    ]
