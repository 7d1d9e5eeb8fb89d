"""The port that other servers connect to.

Never lives here: what is said there (`headrace.cluster`), handshakes of TLS (`opening`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.server.acceptor import Acceptor

if TYPE_CHECKING:
    import socket

    from headrace.server.peers.host import PeerHost
    from headrace.server.port import Runtime


class PeerListener(Acceptor):
    """Hands each connection to the host of its kind."""

    def __init__(self, server: Runtime, peers: PeerHost[Any], sock: socket.socket, host: str) -> None:
        super().__init__(server, sock, host)
        self._peers = peers

    def _open(self, sock: socket.socket, address: tuple[str, int]) -> None:
        work = self._peers.accepted(sock, address)
        if work is not None:
            self._run(work, sock)
