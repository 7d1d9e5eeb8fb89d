"""What was promised to anybody: acknowledgements, deliveries, answers; and the histories of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.linearizable import NEVER, Operation, Read, Write, check, register
from simulation.scenario import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

READS_LAG_S: Final = 3.0
"""Seconds for which a read, or a refusal, may be from the past: an owner that was overtaken does not know it
earlier.
"""
SLACK_S: Final = 0.000001


class Ledger:
    """Everything that clients know. Sequences are those of records. `reads_lag_s`: as READS_LAG_S."""

    def __init__(self, now: Callable[[], float], reads_lag_s: float = READS_LAG_S) -> None:
        self._now: Final = now
        self._reads_lag: Final = reads_lag_s + SLACK_S
        self._since: Final[dict[int, float]] = {}
        """The time at which somebody was told of a sequence first."""
        self.seen: Final[dict[int, tuple[str, str]]] = {}
        """Identity and value by sequence, of what was acknowledged, delivered or answered."""
        self.acknowledged: Final[dict[str, int]] = {}
        """The sequence by identity."""
        self._sequences: Final[dict[str, int]] = {}
        self._history: Final[dict[str, list[Operation[Read | Write]]]] = {}

    def note(self, sequence: int, identity: str, value: str) -> None:
        """Somebody was told of a record. Raises: Violation."""
        self._since.setdefault(sequence, self._now())
        known = self.seen.setdefault(sequence, (identity, value))
        if known != (identity, value):
            raise Violation(f"{sequence} was {known} and is {(identity, value)}")
        if self._sequences.setdefault(identity, sequence) != sequence:
            raise Violation(f"{identity} is at {sequence} and at {self._sequences[identity]}")

    def acknowledge(self, sequence: int, identity: str, value: str) -> None:
        """A publisher was told that its record is durable. Raises: Violation."""
        self.note(sequence, identity, value)
        self.acknowledged[identity] = sequence

    def did(self, key: str, invoked: float, returned: float, call: Read | Write) -> None:
        """An operation on a key has come to its end. NEVER: nobody was told of its outcome."""
        if isinstance(call, Read) or call.is_done is False:
            invoked -= self._reads_lag
        self._history.setdefault(key, []).append(Operation(invoked, returned, call))

    def check_histories(self) -> None:
        """Raises: Violation where what clients did with a key cannot have happened in any order."""
        for key, history in self._history.items():
            verdict = check(history, None, register)
            if not verdict.is_linearizable:
                raise Violation(f"key {key}: {verdict}")

    def check(self, held: dict[int, tuple[str, str]], where: str, time: float = NEVER) -> None:
        """Compare with identities and values by sequence of what is there, or was at a time.

        Raises: Violation if anything that anybody had been told of by then is missing.
        """
        for sequence, record in self.seen.items():
            if self._since[sequence] <= time and held.get(sequence) != record:
                raise Violation(f"{where} has {held.get(sequence)} at {sequence}, promised was {record}")
