"""The fields of INFO that all clients are sent: this server as its options and its state are now.

Never lives here: what INFO says to one client alone (`session`), and to other servers (`peers.host`).
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, Final

from headrace.protocol.info import COMPATIBLE_VERSION, JETSTREAM_API_LEVEL, PortInfo
from headrace.version import __version__

if TYPE_CHECKING:
    from headrace.server.port import InfoHost

GIT_COMMIT: Final = f"headrace-{__version__}"
"""The name and version of this program, in the field where nats-server has its commit."""

LANGUAGE: Final = f"python{platform.python_version()}"
"""The version of Python, in the field that nats-server calls `go`."""


def client_info(server: InfoHost) -> PortInfo:
    """Gather the fields of INFO that all clients are sent."""
    return PortInfo(_fields(server))


def _fields(server: InfoHost) -> dict[str, Any]:
    options = server.options
    host, port = server.listeners.advertised_address
    return {
        "server_id": server.server_id,
        "server_name": server.name,
        "version": COMPATIBLE_VERSION,
        "proto": 1,
        "git_commit": GIT_COMMIT,
        "go": LANGUAGE,
        "host": host,
        "port": port,
        "headers": not options.no_header_support,
        "auth_required": server.authenticator.required,
        "tls_required": options.tls is not None and not options.allow_non_tls,
        "tls_verify": options.tls is not None and options.tls.verify,
        "tls_available": options.tls is not None and options.allow_non_tls,
        "max_payload": options.max_payload,
        "jetstream": _offers_jetstream(server),
        "domain": options.jetstream.domain if options.jetstream is not None else "",
        "api_lvl": JETSTREAM_API_LEVEL,
        "xkey": server.authorizer.curve_key if server.authorizer is not None else None,
        **_cluster_info(server),
        **({"ldm": True} if server.is_lame_duck else {}),
    }


def _offers_jetstream(server: InfoHost) -> bool:
    return server.options.jetstream is not None or (
        server.worker is not None and server.worker.runs_jetstream
    )


def websocket_urls(server: InfoHost) -> tuple[str, ...]:
    """The addresses of a cluster at which clients over WebSocket can connect."""
    is_private = server.worker is not None and server.worker.has_private_mesh
    return () if server.routes is None or is_private else server.routes.ws_connect_urls


def _cluster_info(server: InfoHost) -> dict[str, object]:
    """The fields of INFO about a cluster, for clients."""
    if server.worker is not None and server.worker.has_private_mesh:
        return {}
    named = {} if server.cluster_name is None else {"cluster": server.cluster_name}
    return named | (server.routes.client_info() if server.routes is not None else {})
