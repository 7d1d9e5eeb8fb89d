"""`/stacksz` and `/debug/vars`: the process itself, for who looks for a mistake in it.

Here lives what Python knows of its threads, tasks and memory. Never lives here: values of variables, and what
stood on the command line beside the program: either may be a secret.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import threading
import traceback
from io import StringIO
from typing import TYPE_CHECKING

from headrace.engine.memory import live_objects

if TYPE_CHECKING:
    from headrace.server.monitor.source import MonitorSource


def stacks() -> str:
    """Return the stacks of every thread, and of every task of the running event loop."""
    text = StringIO()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        print(f"thread {ident} [{names.get(ident, 'not of Python')}]:", file=text)
        print(*traceback.format_stack(frame), sep="", file=text)
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        print(f"task {task.get_name()}:", file=text)
        task.print_stack(file=text)
        print(file=text)
    return text.getvalue()


def variables(source: MonitorSource) -> dict[str, object]:
    """Return the variables of Go's expvar: Go's names where Python has the value too, and the engine's
    counters by kind.
    """
    resident = source.server().memory_bytes
    passes = gc.get_stats()
    return {
        "cmdline": sys.argv[:1],
        "memstats": {
            "Alloc": resident,
            "Sys": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "HeapAlloc": resident,
            "HeapObjects": sys.getallocatedblocks(),
            "NumGC": sum(each["collections"] for each in passes),
            "EnableGC": gc.isenabled(),
            "DebugGC": bool(gc.get_debug()),
        },
        "engine": live_objects(),
    }
