"""What the log of a shard is, whoever reads it: every object that was ever created, deleted ones too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.bucket import keys as bucket_keys
from headrace.bucket.wal_object import Kind, WalObject
from simulation.bucket.records import Broken, Records
from simulation.bucket.store import START_NS
from simulation.scenario import Violation

if TYPE_CHECKING:
    from headrace.bucket.keys import ShardKeys
    from simulation.bucket.store import Bucket

NS: Final = 1_000_000_000


class Truth:
    """Watches a bucket. Changes that no part may make raise Violation."""

    def __init__(self, bucket: Bucket, keys: ShardKeys, history_s: float) -> None:
        self.objects: Final[dict[int, WalObject]] = {}
        """The object that was created first at each number."""
        self._bucket: Final = bucket
        self._keys: Final = keys
        self._history_ns: Final = int(history_s * NS)
        self._gone: Final[set[int]] = set()
        bucket.watch = self._changed

    def effective(self) -> list[WalObject]:
        """Return the objects that count, up to the first number that was never used. Raises: Violation."""
        chosen = []
        epoch, writer = 0, b""
        number = 1
        while (found := self.objects.get(number)) is not None:
            number += 1
            if found.epoch < epoch:
                continue
            if found.kind is Kind.FENCE:
                if found.epoch != epoch + 1:
                    raise Violation(f"epoch {found.epoch} begins at {found.number}, behind epoch {epoch}")
                epoch, writer = found.epoch, found.writer
            elif (found.epoch, found.writer) != (epoch, writer):
                raise Violation(f"{found.number} is of epoch {found.epoch}, but not by its owner")
            chosen.append(found)
        return chosen

    def records(self) -> Records:
        """Return what a reader of everything would have. Raises: Violation."""
        records = Records()
        try:
            for found in self.effective():
                records.apply(found)
        except Broken as error:
            raise Violation(f"the log contradicts itself: {error}") from error
        return records

    def _changed(self, key: str, data: bytes | None) -> None:
        number = self._keys.number_of(key)
        if number is None or not key.startswith(self._keys.wal_prefix):
            return
        if data is None:
            self._deleted(number)
        elif number not in self.objects:
            self.objects[number] = WalObject.unpack(data, self._keys.shard, number)
        elif number not in self._gone:
            raise Violation(f"{key} was written again")

    def _deleted(self, number: int) -> None:
        self._gone.add(number)
        if number % bucket_keys.MILESTONE == 0:
            raise Violation(f"milestone {number} was deleted")
        if self.objects[number].kind is Kind.FENCE and self.objects[number] in self.effective():
            raise Violation(f"the fence {number} was deleted")
        if not self._is_covered(number):
            raise Violation(f"{number} was deleted, and no snapshot that is old enough has what was in it")

    def _is_covered(self, number: int) -> bool:
        """True if a reader that began before the history does not need an object any more."""
        prefix = self._keys.snapshots_prefix
        now = START_NS + int(self._bucket.now() * NS)
        return any(
            (self._keys.number_of(key) or 0) >= number and time <= now - self._history_ns
            for key, (_, time) in self._bucket.objects.items()
            if key.startswith(prefix)
        )
