"""Ports for servers that are to come back at the same address; all others let the system choose."""

from __future__ import annotations

import socket


def free_port() -> int:
    """One on 127.0.0.1 that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port
