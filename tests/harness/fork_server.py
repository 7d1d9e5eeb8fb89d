"""The process that `harness.forking` starts: it imports all that a server may load, then forks servers.

Each request comes with the descriptor that the server
writes its log to. A child goes on where the executable `headrace` begins: with its arguments, environment
and folder, and default handlers of signals.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

REQUEST_BYTES: Final = 1 << 20
PACKAGES: Final = (
    *("headrace.cli.serve", "headrace.cli.streaming", "headrace.app", "headrace.shared_channels"),
    *("headrace.conf", "headrace.core", "headrace.cluster", "headrace.engine", "headrace.log"),
    *("headrace.protocol", "headrace.server", "headrace.jetstream", "headrace.streaming"),
)


def load() -> None:
    """Imports these packages and everything in them, as the executable does with the command line first."""
    importlib.import_module("headrace.cli.main")
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(getattr(package, "__path__", []), f"{name}."):
            if not is_left_over(found):
                importlib.import_module(found.name)
    gc.collect()
    gc.freeze()


def is_left_over(module: pkgutil.ModuleInfo) -> bool:
    """True if a module was compiled from a source that has another name by now."""
    spec = module.module_finder.find_spec(module.name, None)
    origin = Path(spec.origin) if spec is not None and spec.origin else Path()
    return origin.suffix == ".so" and not origin.with_name(f"{origin.name.partition('.')[0]}.pyx").exists()


def serve(control: socket.socket) -> None:
    """Forks for each request and reaps when asked to; returns in a child, ready to be a server.

    Raises: SystemExit at the end of `control`, after servers that are left have been killed.
    """
    children: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, 1)
        if not data:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            sys.exit(0)
        request = json.loads(data)
        if "reap" in request:
            pid = request["reap"]
            children.remove(pid)
            control.send(json.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
            continue
        (log,) = descriptors
        assert threading.active_count() == 1, "a process with threads cannot be forked"
        pid = os.fork()
        if not pid:
            control.close()
            become(request, log)
            return
        os.close(log)
        children.add(pid)
        control.send(json.dumps(pid).encode())


def become(request: dict[str, Any], log: int) -> None:
    """Makes the process what `subprocess.Popen` would have made of it."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor, replaced in ((null, 0), (null, 1), (log, 2)):
        os.dup2(descriptor, replaced)
    os.close(null)
    os.close(log)
    # Text streams remember what their descriptors were: those of a server are made for what these are now.
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = request["command"]


if __name__ == "__main__":
    load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests: they end what they started
    serve(socket.socket(fileno=int(sys.argv[1])))
    from headrace.cli.main import main

    sys.exit(main())
