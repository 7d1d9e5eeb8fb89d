"""INT and TERM of a command that works on Spark: it ends soon, at whatever moment they come.

Spark's Python is not to be interrupted by an exception at any place, so the work is done on a thread, and the
main thread waits for signals. Never lives here: what the work does when it is to stop.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, NoReturn, Self, TypeVar

from headrace.interruption import SIGNALLED, on_end

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    T = TypeVar("T")

GRACE: Final = 10.0
"""Seconds that work may take to end; then the process is ended without it."""

_SAID: Final = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Ending:
    """The effect of signals within a `with`: the first ends the work, the second ends it at once.

    Before there is work nothing is lost, and the process ends where it is. Work looks at `stop`. Work that is
    set `heeded` ends in order; of other work the tools are taken away (`cut` of `run`), so that it fails.
    """

    def __init__(self, name: str) -> None:
        self.stop: Final = threading.Event()
        self.heeded: Final = threading.Event()
        self._name = name
        self._number: int | None = None
        self._cut: Callable[[], None] | None = None
        self._is_cut = False

    @property
    def code(self) -> int | None:
        """The exit code, if there was a signal."""
        return None if self._number is None else SIGNALLED + self._number

    def run(self, work: Callable[[], T], cut: Callable[[], None]) -> T:
        """Do the work; return and raise what it does.

        Once its tools were taken away, the process ends here instead.
        """
        result: Future[T] = Future()

        def working() -> None:
            try:
                result.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                result.set_exception(error)

        self._cut = cut
        threading.Thread(target=working, name="work", daemon=True).start()
        failure = result.exception()  # signals are handled meanwhile
        if self._number is not None:
            cut()
        if self._is_cut:
            self._leave()
        if failure is not None:
            raise failure
        return result.result()

    def _asked(self, number: int) -> None:
        if self._number is not None or self._cut is None:
            self._number = self._number or number
            self._say(_SAID[signal.Signals(number)])
            self._leave()
        self._number = number
        self._say(_SAID[signal.Signals(number)])
        timer = threading.Timer(GRACE, self._give_up)
        timer.daemon = True
        timer.start()
        self._is_cut = not self.heeded.is_set()
        self.stop.set()
        if self._is_cut:
            self._take_tools(self._cut)

    def _give_up(self) -> None:
        self._say(f"did not stop in {GRACE:g} s, ended")
        self._leave()

    def _leave(self) -> NoReturn:
        assert self.code is not None
        if self._cut is not None:
            self._take_tools(self._cut)
        os._exit(self.code)  # what is left of Spark's Python would complain

    def _take_tools(self, cut: Callable[[], None]) -> None:
        """End what the work uses, the log and warnings: calls that fail from here on are not told of."""
        logging.disable()
        warnings.simplefilter("ignore")  # PySpark warns when it stops a session whose JVM is gone
        cut()

    def _say(self, text: str) -> None:
        # Not by print: the signal may have come while something is printed.
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{self._name}: {text}\n".encode())

    def __enter__(self) -> Self:
        self._before = on_end(self._asked)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as signal gave it
