"""One server as several processes: a parent that supervises, children that are servers (ADR 0025).

Reading order: `plan` (which options each process gets), `channel` (what parent and children say to each
other), `supervisor` (the parent), `worker` (a child's end of it), `monitoring` (process snapshots, from
one process to another).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.conf.processes import count

if TYPE_CHECKING:
    from headrace.conf.options import Options


def run(options: Options) -> int:
    """Serve until a signal says otherwise; returns the exit code.

    Raises: StartError when the log file cannot be opened. Later failures to start are logged.
    """
    if count(options.processes) == 1:
        from headrace import app

        return app.run(options)
    from headrace.processes.supervisor import supervise

    return supervise(options)
