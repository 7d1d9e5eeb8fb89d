"""A signal to work whose tools are taken away: one line, and nothing of what fails then."""

from __future__ import annotations

import signal
import subprocess
import sys

from harness.waiting import PATIENCE

WORK = """
import logging, os, signal, threading, warnings
from headrace.cli.ending import Ending

gone = threading.Event()

def work():
    os.kill(os.getpid(), signal.SIGTERM)
    gone.wait()
    logging.getLogger("py4j").error("the tools are gone")
    warnings.warn("the tools are gone", RuntimeWarning)

with Ending("headrace demo") as ending:
    ending.run(work, gone.set)
"""


def test_work_whose_tools_are_gone_complains_of_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WORK], capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert ended.stderr == "headrace demo: terminated\n"
    assert ended.returncode == 128 + signal.SIGTERM
