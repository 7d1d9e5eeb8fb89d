"""What servers have promised to clients, and what must be true of it whatever happens to the servers.

Times are seconds of one clock, `time.monotonic` of the test's process.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from harness.linearizable import Operation, Read, Write, check, register

READS_LAG_S: Final = 1.5
"""Seconds for which a read, or a refusal, may be from the past: one (docs/bucket.md), and a busy machine."""


class PromiseBroken(AssertionError):
    """Something that a server had promised is not so."""


class Promises:
    """Everything that clients were told of a stream and of a key-value bucket."""

    def __init__(self) -> None:
        self.stored: Final[dict[str, int]] = {}
        """Sequences of publications that were acknowledged, by their ids."""
        self.seen: Final[dict[int, str]] = {}
        """Ids of messages by their sequences: of what was acknowledged or delivered."""
        self.confirmed: Final[set[int]] = set()
        """Sequences whose acknowledgement a server has confirmed to a consumer."""
        self.delivered: Final[set[int]] = set()
        self.duplicates = 0
        """Publications of which a server said that it had them already."""
        self.deliveries = 0
        self.changes = 0
        """Changes of keys that were confirmed."""
        self._revisions: Final[dict[int, tuple[str, str]]] = {}
        self._histories: Final[dict[str, list[Operation[Read | Write]]]] = {}
        self._waiting: Final[list[tuple[float, asyncio.Future[float]]]] = []
        self._last_ack = time.monotonic()
        self._longest_gap = 0.0

    # -- the stream

    def note(self, sequence: int, identity: str) -> None:
        """Somebody was told of a message. Raises: PromiseBroken."""
        known = self.seen.setdefault(sequence, identity)
        if known != identity:
            raise PromiseBroken(f"message {sequence} was {known} and is {identity}")

    def acknowledge(self, identity: str, sequence: int, invoked: float, *, is_duplicate: bool) -> None:
        """A publisher was told the sequence of its message. `invoked`: when it was sent, the last time.

        Raises: PromiseBroken.
        """
        self.note(sequence, identity)
        known = self.stored.setdefault(identity, sequence)
        if known != sequence:
            raise PromiseBroken(f"{identity} was acknowledged as message {known} and as message {sequence}")
        self.duplicates += is_duplicate
        now = time.monotonic()
        self._longest_gap = max(self._longest_gap, now - self._last_ack)
        self._last_ack = now
        for since, waiter in self._waiting:
            if invoked >= since and not waiter.done():
                waiter.set_result(now)
        self._waiting[:] = [each for each in self._waiting if not each[1].done()]

    async def acknowledged_since(self, since: float) -> float:
        """Wait for the acknowledgement of a message that was sent after a time; return when it came."""
        waiter: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((since, waiter))
        return await waiter

    def longest_gap(self) -> float:
        """Return the longest time between two acknowledgements since this was asked last, in seconds."""
        found = max(self._longest_gap, time.monotonic() - self._last_ack)
        self._longest_gap = 0.0
        return found

    def deliver(self, sequence: int, identity: str, *, asked: float) -> None:
        """A consumer was given a message for what it asked at a time. Raises: PromiseBroken."""
        self.note(sequence, identity)
        self.delivered.add(sequence)
        self.deliveries += 1
        if sequence in self.confirmed:
            raise PromiseBroken(
                f"message {sequence} ({identity}) was delivered again, for a request that was made at "
                f"{asked:.3f}, after the confirmation of its acknowledgement"
            )

    def confirm(self, sequence: int) -> None:
        """A consumer was told that its acknowledgement of a message is kept."""
        self.confirmed.add(sequence)

    # -- keys

    def revision(self, key: str, revision: int, value: str) -> None:
        """Somebody was told of a revision of a key. Raises: PromiseBroken."""
        known = self._revisions.setdefault(revision, (key, value))
        if known != (key, value):
            raise PromiseBroken(f"revision {revision} was {known} and is {(key, value)}")

    def did(self, key: str, invoked: float, returned: float, call: Read | Write) -> None:
        """An operation on a key has come to its end. NEVER: nobody was told of its outcome."""
        if isinstance(call, Read) or call.is_done is False:
            invoked -= READS_LAG_S
        self.changes += isinstance(call, Write) and call.is_done is True
        self._histories.setdefault(key, []).append(Operation(invoked, returned, call))

    def read_at_last(self, key: str, value: str | None) -> None:
        """Note the value of a key after everything; it may not be from the past."""
        self._histories[key].append(Operation(time.monotonic(), time.monotonic(), Read(value)))

    @property
    def keys(self) -> list[str]:
        """The keys of which anything is known."""
        return list(self._histories)

    @property
    def operations(self) -> int:
        """The number of operations on keys."""
        return sum(map(len, self._histories.values()))

    def check_histories(self) -> None:
        """Raises: PromiseBroken where what clients did with a key cannot have happened in any order."""
        for key, history in self._histories.items():
            verdict = check(history, None, register)
            if not verdict.is_linearizable:
                raise PromiseBroken(f"key {key}: {verdict}")

    def check_revisions(self, held: dict[int, tuple[str, str]]) -> None:
        """Compare with keys and values by revision, of all that a bucket keeps: of each key the last ones.

        Raises: PromiseBroken.
        """
        first: dict[str, int] = {}
        for revision, (key, _) in sorted(held.items()):
            first.setdefault(key, revision)
        for revision, known in self._revisions.items():
            if known[0] not in first or (revision >= first[known[0]] and held.get(revision) != known):
                raise PromiseBroken(f"revision {revision} was {known} and is {held.get(revision)}")

    # -- the end

    def check_stream(self, held: dict[int, str], where: str) -> None:
        """Compare with the ids by sequence of what a stream has. Raises: PromiseBroken."""
        twice: dict[str, int] = {}
        for sequence, identity in held.items():
            if identity in twice:
                raise PromiseBroken(
                    f"{where}: {identity} is message {twice[identity]} and message {sequence}"
                )
            twice[identity] = sequence
        for identity, sequence in self.stored.items():
            if held.get(sequence) != identity:
                found = f"has {held.get(sequence)} there and it at {twice.get(identity)}"
                raise PromiseBroken(
                    f"{where}: {identity} was acknowledged as message {sequence}; the stream {found}"
                )
        for sequence, identity in self.seen.items():
            if held.get(sequence) != identity:
                raise PromiseBroken(
                    f"{where}: {sequence} was delivered as {identity}, it is {held.get(sequence)}"
                )
