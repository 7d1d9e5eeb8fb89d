"""A terminal that a command has for itself: its wait for keys ends with every signal."""

from __future__ import annotations

import os
import pty
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.waiting import PATIENCE
from headrace.cli.screen import Screen


def test_a_signal_that_another_thread_gets_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that comes just before the wait: the system interrupts no call of the main thread."""
    main, side = pty.openpty()
    begins = threading.Event()
    state = Path(f"/proc/self/task/{threading.get_native_id()}/stat")

    def interrupt_the_wait() -> None:
        begins.wait(PATIENCE)
        asleep = 0
        while asleep < 100:  # in a row: then it does not wait for this thread alone
            asleep = asleep + 1 if " S " in state.read_text() else 0
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt_the_wait, name="interrupting")
    with (
        os.fdopen(main, "wb"),
        os.fdopen(side, "rb", closefd=False) as terminal,
        os.fdopen(side, "w") as shown,
    ):
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys, "stdout", shown)
        interrupting.start()
        with Screen() as screen:
            started = time.monotonic()
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - a signal that comes before the wait, too
                begins.set()
                screen.wait(2 * PATIENCE)
            waited = time.monotonic() - started
    interrupting.join()
    assert waited < PATIENCE
