"""Servers with a port for MQTT, and where they listen for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.processes import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from harness.processes import Program

_MQTT: Final = r"Listening for MQTT clients on (?:mqtt|tls)://\S+:(\d+)$"
_WEBSOCKET: Final = r"Listening for websocket clients on wss?://\S+:(\d+)$"


def configuration(
    folder: Path, *, mqtt: str = "", websocket: str | None = None, more: str = "", port: int = -1
) -> str:
    """Return the text of a configuration with JetStream and MQTT, and with a block `websocket` if given."""
    browser = f'websocket {{ listen: "127.0.0.1:-1"\n{websocket} }}\n' if websocket is not None else ""
    return (
        f'server_name: mqtt-server\njetstream {{ store_dir: "{folder}/js" }}\n'
        f'mqtt {{ host: "127.0.0.1", port: {port}\n{mqtt} }}\n{browser}{more}\n'
    )


def started(
    program: Program,
    folder: Path,
    *,
    mqtt: str = "",
    websocket: str | None = None,
    more: str = "",
    port: int = -1,
) -> ServerProcess:
    """Return a running server of this configuration."""
    text = configuration(folder, mqtt=mqtt, websocket=websocket, more=more, port=port)
    return ServerProcess(program, folder, config=text)


def mqtt_port(server: ServerProcess) -> int:
    """Return the port for MQTT clients."""
    return int(server.wait_for_line(_MQTT)[1])


def websocket_port(server: ServerProcess) -> int:
    """Return the port for WebSocket clients."""
    return int(server.wait_for_line(_WEBSOCKET)[1])
