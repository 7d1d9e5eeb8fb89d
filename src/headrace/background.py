"""An event loop on a thread of its own, for programs that are not asynchronous themselves.

Here lives the life of the thread; what runs on the loop is its user's. The server has a loop of its own:
`server.loop`.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    T = TypeVar("T")


class LoopThread:
    """An event loop on a thread of its own.

    `with LoopThread("name") as loop: loop.run(coroutine())`. One instance is used once.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop and wait for it; return and raise what it does."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
