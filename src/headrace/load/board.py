"""Memory that the processes of a load share: how far each client is, whether it is to stop. There is no lock.

Each number is written by one process. Never here: what a client does, or when a load ends.
"""

from __future__ import annotations

import mmap
import os
import time
from typing import Final

_STOP: Final = 0
_LOOK_NS: Final = 200_000_000


class LoadBoard:
    """Numbers in memory that processes share which are forked from this one."""

    def __init__(self, clients: int) -> None:
        self._numbers = memoryview(mmap.mmap(-1, 8 * (1 + clients))).cast("q")
        self._owner = os.getpid()

    def stop(self) -> None:
        """Tell all clients to end."""
        self._numbers[_STOP] = 1

    @property
    def is_stopped(self) -> bool:
        return self._numbers[_STOP] != 0

    @property
    def is_left(self) -> bool:
        """True in a client whose parent process is gone."""
        return os.getpid() != self._owner and os.getppid() != self._owner

    def tell(self, client: int, count: int) -> None:
        """Say how many messages a client has done."""
        self._numbers[1 + client] = count

    def counts(self) -> list[int]:
        """Return how many messages each client has done."""
        return list(self._numbers[1:])

    @property
    def total(self) -> int:
        """The messages that all clients have done."""
        return sum(self._numbers[1:])


class LoadShare:
    """A client's part of a load: how much it is to do, how fast, and until when.

    `messages`: its own, None where only a stop or the time ends it; with `is_common` those of all clients
    together, whoever does them. `rate`: messages a second of its own.
    """

    def __init__(
        self,
        board: LoadBoard,
        client: int,
        *,
        messages: int | None = None,
        is_common: bool = False,
        duration: float | None = None,
        rate: float | None = None,
    ) -> None:
        self.messages = messages
        self.interval_ns = 1e9 / rate if rate is not None else 0.0
        self.begun_ns = 0
        self._board = board
        self._is_common = is_common
        self._client = client
        self._duration_ns = None if duration is None else int(duration * 1e9)
        self._look_ns = 0

    def begin(self) -> None:
        """Start the time: all clients are ready."""
        self.begun_ns = time.monotonic_ns()

    def allowed(self, written: int, now_ns: int) -> int:
        """Return how many more messages may be sent now, when so many were."""
        left = (1 << 40) if self.messages is None else self.messages - written
        if self.interval_ns:
            left = min(left, int((now_ns - self.begun_ns) / self.interval_ns) + 1 - written)
        return max(left, 0)

    def pause(self, written: int, now_ns: int, most: float) -> float:
        """Return the seconds until the next message may be sent, at most `most`."""
        if not self.interval_ns:
            return most
        due = self.begun_ns + written * self.interval_ns
        return min(max((due - now_ns) / 1e9, 0.0), most)

    def is_over(self, done: int, now_ns: int) -> bool:
        """True if the client must end by now; tell the others how many messages it has done."""
        board = self._board
        board.tell(self._client, done)
        if now_ns >= self._look_ns:
            self._look_ns = now_ns + _LOOK_NS
            if board.is_left:
                board.stop()
        if board.is_stopped:
            return True
        return self._duration_ns is not None and now_ns - self.begun_ns >= self._duration_ns

    def left(self, done: int) -> int | None:
        """Return how many messages are left when this client has done so many; None: they do not end."""
        if self.messages is None:
            return None
        return max(self.messages - (self._board.total if self._is_common else done), 0)
