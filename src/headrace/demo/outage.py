"""The kill in the middle: when the demonstration's server dies, and when it is back with what it had.

Decides the moment and measures; the killing and starting is `server`'s, the words on the screen are `run`'s.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.demo.server import DemoServer


class Outage:
    """One SIGKILL, once half of the feed is acknowledged, while more of it is on its way.

    `killed_at` is how many rows were acknowledged then, `away` the seconds from the kill until the server
    answered again; None before. Called by two threads: one hears of acknowledgements, the other starts.
    """

    def __init__(self, server: DemoServer) -> None:
        self._server = server
        self._dead = threading.Event()
        self._killed_time = 0.0
        self.killed_at: int | None = None
        self.away: float | None = None

    def published(self, count: int, total: int) -> None:
        """Rows acknowledged so far; kills when it is time, at once, since publishing does not wait."""
        if self.killed_at is None and count >= max(total // 2, 1):
            self.killed_at = count
            self._killed_time = time.monotonic()
            self._server.kill()
            self._dead.set()

    def start_again(self) -> bool:
        """Start the server if it is dead; return True if it was. Raises: DemoServerError, OSError."""
        if not self._dead.is_set():
            return False
        self._dead.clear()
        self._server.start()
        self.away = time.monotonic() - self._killed_time
        return True
