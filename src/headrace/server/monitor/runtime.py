"""`/stacksz`, `/debug/vars` and `/ipqueuesz`: the process itself, for who looks for a mistake in it.

Here lives what Python knows of its threads, tasks and memory, and what waits to be dealt with. Queues have
the names that the Go server gives to those of its own that this server has too: most of what waits there
between threads is one turn of the event loop here. Never lives here: values of variables, and what stood on
the command line beside the program: either may be a secret.
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
from headrace.server.monitor import query as options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.server.monitor.jetstream import JetStreamStats
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


def ipqueuesz(source: MonitorSource, query: Mapping[str, str]) -> dict[str, object]:
    """The document: queues by name; empty ones only with `all`, `queues` is part of the names.

    Raises: QueryError for an option that cannot be understood.
    """
    shows_all, part = options.boolean(query, "all"), query.get("queues", "")
    return {
        name: {"pending": pending}
        for name, pending in _queues(source.jetstream())
        if (pending or shows_all) and part in name
    }


def _queues(stats: JetStreamStats | None) -> Iterator[tuple[str, int]]:
    if stats is None:
        return
    yield "JetStream API queue", stats.api_inflight
    for account in stats.accounts:
        for stream in account.streams:
            yield f"[ACC:{account.name}] stream '{stream.name}' messages", stream.waiting
