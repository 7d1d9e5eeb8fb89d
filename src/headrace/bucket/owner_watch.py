"""The watch over an owner: a standby claims the shard after what it heard, or did not hear, of it.

Here lives the decision to try. Whether the try succeeds is decided by the fence (`claim`), so a wrong guess
costs a short pause and nothing else. Never here: messages between servers, requests to the store.
"""

from __future__ import annotations

from typing import Final

BEAT_S: Final = 0.5
"""Seconds between two signs of life that an owner gives its peers."""
SILENCE_S: Final = 2.0
"""Seconds without a sign of life after which the owner is taken for dead."""

YIELD_S: Final = 5.0
"""Seconds for which an owner's wish that a certain server is the next one holds."""


class OwnerWatch:
    """The time at which this server tries to claim. All times are the event loop's, in seconds.

    `is_alone`: the server has no peers, so it hears no owner. It claims once, when it starts; one that lost
    its shard to a server it cannot hear leaves it to that one, else the two would take turns.
    """

    def __init__(self, now: float, *, is_alone: bool) -> None:
        self._is_alone: Final = is_alone
        self._is_suspected = False
        self._yields_until = now
        self.due: float | None = now if is_alone else now + SILENCE_S
        """The time of the next try; None: not before something is heard."""

    def beat(self, now: float) -> None:
        """The owner said that it lives."""
        self._is_suspected = False
        self._wait(now)

    def wrote(self, now: float) -> None:
        """An object of the owner was found. It may be the last one of an owner that has gone since.

        To a server without peers it may be of its own process before this one: it still claims, but later.
        """
        if self._is_alone:
            self.due = None if self.due is None else now + SILENCE_S
        elif not self._is_suspected:
            self._wait(now)

    def stay(self, until: float) -> None:
        """Leave the shard to its owner for so long, unless that is known to be gone."""
        if self.due is not None and not self._is_alone and not self._is_suspected:
            self.due = max(self.due, until)

    def suspect(self, now: float) -> None:
        """The connections to the owner are gone."""
        self._is_suspected = True
        self.due = now

    def released(self, now: float, *, by_us: bool) -> None:
        """The owner gave the shard up. Others go first if it was this server, or if it wants another one."""
        self._is_suspected = False
        self.due = now + SILENCE_S if by_us or now < self._yields_until else now

    def succeeded_by_another(self, now: float) -> None:
        """The owner is about to give the shard up, and wants another server to have it."""
        self._yields_until = now + YIELD_S

    def overtaken(self, now: float) -> None:
        """Note that another server has claimed the shard, perhaps this server's."""
        self.beat(now)

    def failed(self, now: float) -> None:
        """Note that this server cannot serve what it has claimed: others go first, then it tries again."""
        self._is_suspected = False
        self.due = now + SILENCE_S

    def _wait(self, now: float) -> None:
        self.due = None if self._is_alone else now + SILENCE_S
