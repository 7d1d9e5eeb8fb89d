"""Connecting to other servers: names to addresses, one of them at random, a second for each attempt.

Never lives here: when to try again (`headrace.cluster.soliciting`), TLS (`routes`).
Source: nats-server 2.15.1, its words for what went wrong too.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from typing import TYPE_CHECKING

from headrace import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cluster.port import Address

    _IsOwn = Callable[[str, int], bool]


class DialError(Exception):
    """Why a peer could not be reached; without a text: every address of its name is this server's own."""


async def connect(
    address: Address, is_own: _IsOwn, seconds: float = limits.ROUTE_DIAL_TIMEOUT
) -> tuple[socket.socket, tuple[str, int]]:
    """A connected, non-blocking socket and the address it is connected to. Raises: DialError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise DialError(f"dial tcp: lookup {address.host}: i/o timeout") from None
    except OSError:
        raise DialError(f"dial tcp: lookup {address.host}: no such host") from None
    others = [each for each in found if not is_own(str(each[4][0]), address.port)]
    if not others:
        raise DialError
    family, _, _, _, place = random.choice(others)
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(seconds):
            await loop.sock_connect(sock, place)
    except BaseException as error:
        sock.close()
        where = f"dial tcp {address}"
        if isinstance(error, TimeoutError):
            raise DialError(f"{where}: i/o timeout") from None
        if isinstance(error, OSError):
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise DialError(f"{where}: connect: {reason}") from None
        raise
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock, (str(place[0]), address.port)
