"""Other clusters: where their servers are, and the attempts to reach one of them.

Never lives here: what happens on a connection (`gateway`). Source: nats-server 2.15.1, gateway specification,
section 5.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.cluster.attempts import Attempts, shuffle
from headrace.cluster.port import Address
from headrace.conf.peer_options import parse_peer_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.cluster.gateway import GatewaySession
    from headrace.cluster.gateways import Gateways
    from headrace.cluster.port import Wire
    from headrace.conf.peer_options import PeerURL, RemoteGatewayOptions


class Remote:
    """One other cluster. `configured`: what the configuration says of it; None: it was heard of."""

    def __init__(self, name: str, configured: RemoteGatewayOptions | None) -> None:
        self.name: Final = name
        self.configured: Final = configured
        self.attempts = 0
        self.urls: dict[str, PeerURL] = {}
        self.learn(())

    @property
    def is_explicit(self) -> bool:
        return self.configured is not None

    def learn(self, addresses: Iterable[str]) -> None:
        """A server of it has said where all are; those of the configuration stay."""
        self.urls = {str(url): url for url in self.configured.urls} if self.configured is not None else {}
        self.add(addresses)

    def add(self, addresses: Iterable[str]) -> None:
        """`host:port` of more of its servers; what is no address is passed over."""
        for address in addresses:
            if address in self.urls or len(self.urls) >= limits.GATEWAY_UNKNOWN:
                continue
            try:
                url = parse_peer_url(f"nats://{address}")
            except ValueError:
                continue
            if url.user is None:
                self.urls[str(url)] = url


class Reaching(Attempts):
    """The attempts to reach a cluster, at each of its addresses in turn.

    `gateways.reaching` has it until it is done.
    """

    def __init__(self, gateways: Gateways, other: Remote, *, is_first: bool) -> None:
        super().__init__(gateways.port, is_first=is_first)
        self.other: Final = other
        self._gateways = gateways
        self._left: list[PeerURL] = []
        gateways.reaching[other.name] = self

    def stop(self) -> None:
        super().stop()
        if self._gateways.reaching.get(self.other.name) is self:
            del self._gateways.reaching[self.other.name]

    def _try(self) -> None:
        """Goes through the addresses once, in any order."""
        self.attempts += 1
        self._left = list(self.other.urls.values())
        if not self._left:
            self.stop()
            return
        shuffle(self._left, self._host.random)
        self._next()

    def _next(self) -> None:
        if not self._left:
            self._failed()
            return
        url = self._left.pop()
        address = Address(url.host, url.port)
        self._tell(logging.INFO, f"Connecting to {self._what} at {address} (attempt {self.attempts})")

        def connected(wire: Wire) -> GatewaySession | None:
            if self._is_done:
                return None
            self.stop()
            return self._gateways.reached(wire, self.other, url)

        def failed(reason: str | None) -> None:
            if self._is_done:
                return
            text = f"Error connecting to {self._what} at {address} (attempt {self.attempts}): "
            self._tell(logging.ERROR, text + (reason or "that is this server"))
            self._next()

        self._gateways.port.dial(self.other.name, address, connected, failed)

    def _failed(self) -> None:
        """Nobody answered: once more after a while, unless it was only heard of."""
        if self._is_renewed and not self.other.is_explicit:
            self.attempts = 0
            self._due()
            return
        options = self._gateways.options
        gives_up = not self.other.is_explicit and self.attempts > max(options.connect_retries, 0)
        if gives_up and not self._gateways.has_inbound(self.other.name):
            self.stop()
            self._gateways.forget(self.other)
            return
        self._again(backs_off=options.connect_backoff)

    @property
    def _what(self) -> str:
        kind = "explicit" if self.other.is_explicit else "implicit"
        return f'{kind} gateway "{self.other.name}"'
