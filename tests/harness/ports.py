"""Ports for servers that are to come back at the same address; all others let the system choose."""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from pathlib import Path
from typing import Final

_LOWEST: Final = 10_000
_FIRST_EPHEMERAL: Final = 32_768
"""Linux's own; others begin higher."""
_draw: Final = random.SystemRandom()
_given: Final[deque[int]] = deque(maxlen=1000)


def free_port() -> int:
    """One on 127.0.0.1 that nobody listens on now, and that was not given lately.

    It is none that the system gives to connections by itself: those take a server's port while it is away.
    Each of several processes of tests (pytest-xdist) has ports of its own, since who got one may begin to
    listen much later.

    Raises: OSError when there is none.
    """
    first = _first_ephemeral()
    process, processes = _process()
    for _ in range(1000):
        port = _draw.randrange(_LOWEST + process, first, processes) if first > _LOWEST + process else 0
        if port in _given:
            continue
        try:
            with socket.create_server(("127.0.0.1", port)) as sock:
                found = int(sock.getsockname()[1])
        except OSError:
            continue
        if found not in _given:
            _given.append(found)
            return found
    raise OSError(f"no free port between {_LOWEST} and {first}")


def _process() -> tuple[int, int]:
    """The number of this process among those of one run of the tests, and how many they are."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return int(number), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def _first_ephemeral() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    except FileNotFoundError:
        return _FIRST_EPHEMERAL
    return int(text.split()[0])
