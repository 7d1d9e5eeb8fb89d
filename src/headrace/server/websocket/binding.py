"""Binding the WebSocket port, or the first free one of those that may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from headrace.errors import StartError
from headrace.server.listener import bind, bind_and_listen

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from headrace.conf.websocket_options import WebSocketOptions

T = TypeVar("T")


def bind_websocket(options: WebSocketOptions) -> socket.socket:
    """Return the bound socket, which listens only where a free port was looked for. Raises: StartError."""
    return first_bound(options, bind if options.last_port is None else bind_and_listen)


def first_bound(options: WebSocketOptions, bind_at: Callable[[str, int], T]) -> T:
    """Return what a function gives for the first port of the options at which it can bind.

    Raises: StartError, for the last port that was tried.
    """
    port = options.port
    while True:
        try:
            return bind_at(options.host, port)
        except StartError as error:
            if options.last_port is None or port >= options.last_port:
                raise StartError(f"Unable to listen for websocket connections: {error}") from error
        port += 1
