"""The addresses under which clients and leaf nodes reach the peers of a mesh, as INFO tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from headrace.conf.peer_options import ClusterOptions
    from headrace.protocol.peers import PeerInfo


class _Port(Protocol):
    def peers_changed(self) -> None: ...


class _Mesh(Protocol):
    @property
    def options(self) -> ClusterOptions: ...


class ClientAddresses:
    """The addresses of peers: for clients, for those over WebSocket, and for leaf nodes; each sorted.

    Those for clients are none under the option `no_advertise`.
    """

    def __init__(self, port: _Port, mesh: _Mesh) -> None:
        self.connect_urls: tuple[str, ...] = ()
        self.ws_connect_urls: tuple[str, ...] = ()
        self.leafnode_urls: tuple[str, ...] = ()
        self._port: Final = port
        self._mesh: Final = mesh
        self._peers: Final[dict[str, PeerInfo]] = {}

    def add(self, info: PeerInfo) -> None:
        """Take the addresses of a peer, in the place of what it said before."""
        self._peers[info.server_id] = info
        self._count()

    def remove(self, server_id: str) -> None:
        """Leave out the addresses of a peer that is gone or wants no more clients."""
        if self._peers.pop(server_id, None) is not None:
            self._count()

    def _count(self) -> None:
        peers = self._peers.values()
        shown = () if self._mesh.options.no_advertise else tuple(peers)
        urls = tuple(sorted({url for peer in shown for url in peer.connect_urls}))
        ws_urls = tuple(sorted({url for peer in shown for url in peer.ws_connect_urls}))
        leaf_urls = tuple(sorted({url for peer in peers for url in peer.leafnode_urls}))
        if (urls, ws_urls, leaf_urls) != (self.connect_urls, self.ws_connect_urls, self.leafnode_urls):
            self.connect_urls, self.ws_connect_urls, self.leafnode_urls = urls, ws_urls, leaf_urls
            self._port.peers_changed()
