"""The addresses at which the servers of another cluster are reached.

Never lives here: when they are reached (`gateways`), what happens on a connection (`gateway`). Source:
nats-server 2.15.1, gateway specification, section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.conf.peer_options import parse_peer_url
from headrace.protocol.peers import TELL_OF_GATEWAY, PeerInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.conf.peer_options import PeerURL, RemoteGatewayOptions


class RemoteCluster:
    """The addresses of another cluster.

    `configured`: its options; None: it was heard of. `urls`: by text, of its servers.
    """

    def __init__(self, name: str, configured: RemoteGatewayOptions | None) -> None:
        self.name: Final = name
        self.configured: Final = configured
        self.attempts = 0
        self.urls: dict[str, PeerURL] = {}
        self.learn(())

    @property
    def is_explicit(self) -> bool:
        """True where the configuration names the cluster."""
        return self.configured is not None

    def told_by(self, server_id: str) -> bytes:
        """The INFO by which a server tells of the cluster; b"" when no address is known."""
        if not self.urls:
            return b""
        info = PeerInfo(
            server_id=server_id,
            gateway=self.name,
            gateway_urls=tuple(self.urls),
            gateway_cmd=TELL_OF_GATEWAY,
        )
        return info.line()

    def learn(self, addresses: Iterable[str]) -> None:
        """Replace the addresses by those that one of its servers says; those of the configuration stay."""
        self.urls = {str(url): url for url in self.configured.urls} if self.configured is not None else {}
        self.add(addresses)

    def add(self, addresses: Iterable[str]) -> None:
        """Add `host:port` of more of its servers; what is no address is passed over."""
        for address in addresses:
            if address in self.urls or len(self.urls) >= limits.GATEWAY_UNKNOWN:
                continue
            try:
                url = parse_peer_url(f"nats://{address}")
            except ValueError:
                continue
            if url.user is None:
                self.urls[str(url)] = url
