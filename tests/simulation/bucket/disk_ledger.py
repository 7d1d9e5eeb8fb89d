"""What servers with `commit: disk` promised, and which losses take what of it.

A promise is what a sync of the owner's disk has covered. It may be lost with that disk, or to a server that
takes the shard over meanwhile, as far as the bucket had not followed: publications of `max_lag` at most.
Whatever is lost once is lost for ever: a sequence that another owner has used since is not used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from harness.linearizable import NEVER
from headrace.bucket.wal_object import Kind
from simulation.bucket.ledger import Ledger
from simulation.scenario import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from simulation.bucket.records import Record
    from simulation.bucket.truth import Truth


class Stored(NamedTuple):
    """A record in the log of an owner, stored at a time (s). `position`: that of its journal behind it."""

    sequence: int
    identity: str
    machine: str
    epoch: int
    position: int
    at: float


class Loss(NamedTuple):
    """Promises that one owner has lost: when the first one was made, and when the last one was stored."""

    first: float
    last: float


class DiskLedger(Ledger):
    """The promises of all servers. `slack_s`: seconds for which publications may be taken in beyond
    `max_lag`, until the next look at the lag.

    `violate` is called for what servers do, outside of the coroutine of the run.
    """

    def __init__(
        self,
        now: Callable[[], float],
        truth: Truth,
        *,
        max_lag: float,
        slack_s: float,
        violate: Callable[[Violation], None],
        reads_lag_s: float,
    ) -> None:
        super().__init__(now, reads_lag_s)
        self.lost: Final[list[Stored]] = []
        """Promises that were lost, every one as it may be."""
        self.inherited = 0
        """Promises that only the disk had when their owner died, and that the next one has."""
        self._truth: Final = truth
        self._most_lost_s: Final = max_lag + slack_s
        self._violate: Final = violate
        self._epoch = 0
        """The epoch of the last owner that began to serve."""
        self._stored: Final[dict[tuple[int, int], Stored]] = {}
        """Records by the epoch in which they were stored, and their sequence."""
        self._live: Final[dict[int, Stored]] = {}
        """Promises that count, by sequence."""
        self._possible: dict[tuple[int, str], Stored] = {}
        """Records that the next owner may have, promised or not, by sequence and identity."""
        self._losses: Final[dict[tuple[str, int], Loss]] = {}
        self._promised: Final[set[tuple[int, str]]] = set()
        """Everything that was ever promised, by sequence and identity."""
        self._promised_at: Final[dict[Stored, float]] = {}
        """The time of each promise. What was lost and is published again may be the same one at the same
        sequence: it is promised anew."""

    # -- what servers do ------------------------------------------------------------------------------

    def stored(self, machine: str, epoch: int, record: Record, position: int) -> None:
        """A record is in the log of an owner."""
        made = Stored(record.sequence, record.identity, machine, epoch, position, self._now())
        self._stored[epoch, record.sequence] = made
        if epoch >= self._epoch:
            self._possible[record.sequence, record.identity] = made

    def promise(self, epoch: int, record: Record) -> None:
        """A record is on the disk of the owner that stored it: it may be acknowledged, delivered and read."""
        made = self._stored[epoch, record.sequence]
        if epoch >= self._epoch or self._possible.get((made.sequence, made.identity)) == made:
            self._count(made)
            return
        self._note_promise(made)
        try:
            self._lose(made)
        except Violation as violation:
            self._violate(violation)

    def _note_promise(self, made: Stored) -> None:
        self._promised.add((made.sequence, made.identity))
        self._promised_at.setdefault(made, self._now())

    def _count(self, made: Stored) -> None:
        self._note_promise(made)
        self._live[made.sequence] = made
        self.seen[made.sequence] = made.identity, made.identity

    def begins(self, epoch: int, machine: str, records: Iterable[Record]) -> None:
        """An owner begins to serve, with these records, and promises them. Raises: Violation."""
        if epoch < self._epoch:
            return  # it slept since its claim, and has no proof to serve with
        held = {record.sequence: record.identity for record in records}
        known = self._possible
        if strange := [one for one in held.items() if one not in known]:
            raise Violation(f"{machine} has {strange[:3]}, which were lost before, or never stored")
        self._possible = {one: known[one] for one in held.items()}
        self._epoch = epoch
        claimants = self._claimants()
        missing = [one for sequence, one in self._live.items() if held.get(sequence) != one.identity]
        for one in missing:
            since = {claimants.get(each, machine) for each in range(one.epoch, epoch + 1)}
            if since == {one.machine}:
                raise Violation(f"{machine} lost {one}, and nobody else had claimed since")
            del self._live[one.sequence], self.seen[one.sequence]
            self._lose(one)
        if missing and max(held, default=0) > max(self._live, default=0) >= min(missing).sequence:
            raise Violation(f"{machine} lost {min(missing)}, and has what came later")
        for made in self._possible.values():
            self._count(made)
        position = self._fence_position(epoch)
        alone = [one for one in self._live.values() if one.machine == machine and one.position > position]
        self.inherited += len(alone)

    def _lose(self, one: Stored) -> None:
        """Note a promise that is lost. Raises: Violation if it may not be."""
        self.lost.append(one)
        for epoch, claimant in sorted(self._claimants().items()):
            if epoch > one.epoch and claimant != one.machine:
                if one.position <= self._fence_position(epoch):
                    raise Violation(f"{one} was lost to epoch {epoch}, and the bucket had it")
                break
        else:
            raise Violation(f"{one} was lost, and nobody else has claimed")
        loss = Loss(self._promised_at[one], one.at)
        before = self._losses.get((one.machine, epoch), loss)
        loss = Loss(min(before.first, loss.first), max(before.last, loss.last))
        self._losses[one.machine, epoch] = loss
        if loss.last - loss.first > self._most_lost_s:
            raise Violation(
                f"epoch {epoch} lost {loss} of {one.machine}: more than {self._most_lost_s:.2f} s"
            )

    # -- what the bucket says -------------------------------------------------------------------------

    def _fences(self) -> list[Any]:
        return [found for found in self._truth.effective() if found.kind is Kind.FENCE]

    def _claimants(self) -> dict[int, str]:
        return {fence.epoch: fence.payload.decode() for fence in self._fences()}

    def _fence_position(self, epoch: int) -> int:
        return next((fence.position for fence in self._fences() if fence.epoch == epoch), 0)

    def check_positions(self) -> None:
        """Raises: Violation where an object covers less of the journal than one before it."""
        last = 0
        for found in self._truth.effective():
            if found.position < last or (found.kind is Kind.FENCE and found.position > last):
                raise Violation(f"object {found.number} is at position {found.position}, behind {last}")
            last = found.position

    # -- what clients know ----------------------------------------------------------------------------

    def note(self, sequence: int, identity: str, value: str) -> None:
        """Somebody was told of a record. Raises: Violation if it was on no disk."""
        if identity != value or (sequence, identity) not in self._promised:
            raise Violation(f"{identity} was told to be at {sequence}, and was on no disk")

    def acknowledge(self, sequence: int, identity: str, value: str) -> None:
        self.note(sequence, identity, value)
        self.acknowledged[identity] = sequence

    def check(self, held: dict[int, tuple[str, str]], where: str, time: float = NEVER) -> None:
        """Compare with all promises that count, whenever they were made. Raises: Violation."""
        del time
        for sequence, record in self.seen.items():
            if held.get(sequence) != record:
                raise Violation(f"{where} has {held.get(sequence)} at {sequence}, promised was {record}")

    def check_histories(self) -> None:
        """Check them where nothing was lost: else keys went back by what was."""
        if not self.lost:
            super().check_histories()
