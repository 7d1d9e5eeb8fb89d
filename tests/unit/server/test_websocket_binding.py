"""The WebSocket port, where the first free one is looked for: servers that start together get one each."""

from __future__ import annotations

import pytest

from harness.ports import free_port
from headrace.conf.websocket_options import WebSocketOptions
from headrace.errors import StartError
from headrace.server.websocket.binding import bind_websocket


def test_servers_that_start_together_have_ports_of_their_own() -> None:
    port = free_port()
    options = WebSocketOptions(host="127.0.0.1", port=port, last_port=port + 20, no_tls=True)
    with bind_websocket(options) as first, bind_websocket(options) as second:
        ports = [sock.getsockname()[1] for sock in (first, second)]
        assert port <= ports[0] < ports[1]


def test_no_free_port_is_an_error() -> None:
    port = free_port()
    options = WebSocketOptions(host="127.0.0.1", port=port, last_port=port, no_tls=True)
    with (
        bind_websocket(options),
        pytest.raises(StartError, match="Unable to listen for websocket connections"),
    ):
        bind_websocket(options)
