"""Other clusters: where their servers are, and the attempts to reach one of them.

Never lives here: what happens on a connection (`gateway`). Source: nats-server 2.15.1, gateway specification,
section 5.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.cluster.port import Address
from headrace.conf.peer_options import parse_peer_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.cluster.gateway import GatewaySession
    from headrace.cluster.gateways import Gateways
    from headrace.cluster.port import Timer, Wire
    from headrace.conf.peer_options import PeerURL, RemoteGatewayOptions

_FIRST_REPORTS: Final = (
    3600  # of a cluster that was never reached, every so many failures are told; else each
)


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


class Reaching:
    """The attempts to reach a cluster, at each of its addresses in turn.

    `gateways.reaching` has it until it is done. `is_first`: it was not reached before, so that failures are
    told less often.
    """

    def __init__(self, gateways: Gateways, other: Remote, *, is_first: bool) -> None:
        self.other: Final = other
        self._gateways = gateways
        self._is_first = is_first
        self._attempts = 0
        self._delay = limits.ROUTE_RETRY
        self._left: list[PeerURL] = []
        self._timer: Timer | None = None
        self._is_done = False
        gateways.reaching[other.name] = self

    def start(self, delay: float = 0.0) -> None:
        """Begins after that many seconds."""
        if delay:
            self._timer = self._gateways.port.call_later(delay, self._begin)
        else:
            self._begin()

    def stop(self) -> None:
        """No more attempts; one that is under way comes to nothing."""
        self._is_done = True
        if self._gateways.reaching.get(self.other.name) is self:
            del self._gateways.reaching[self.other.name]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        """Goes through the addresses once, in any order."""
        self._timer = None
        self._attempts += 1
        self._left = list(self.other.urls.values())
        if not self._left:
            self.stop()
            return
        random = self._gateways.port.random
        for place in range(len(self._left) - 1, 0, -1):
            other = int(random() * (place + 1))
            self._left[place], self._left[other] = self._left[other], self._left[place]
        self._next()

    def _next(self) -> None:
        if not self._left:
            self._again()
            return
        url = self._left.pop()
        address = Address(url.host, url.port)
        self._tell(logging.INFO, f"Connecting to {self._what} at {address} (attempt {self._attempts})")

        def connected(wire: Wire) -> GatewaySession | None:
            if self._is_done:
                return None
            self.stop()
            return self._gateways.reached(wire, self.other, url)

        def failed(reason: str | None) -> None:
            if self._is_done:
                return
            text = f"Error connecting to {self._what} at {address} (attempt {self._attempts}): "
            self._tell(logging.ERROR, text + (reason or "that is this server"))
            self._next()

        self._gateways.port.dial(self.other.name, address, connected, failed)

    def _again(self) -> None:
        """Nobody answered: once more after a while, unless it was only heard of."""
        options = self._gateways.options
        gives_up = not self.other.is_explicit and self._attempts > max(options.connect_retries, 0)
        if gives_up and not self._gateways.has_inbound(self.other.name):
            self.stop()
            self._gateways.forget(self.other)
            return
        self._timer = self._gateways.port.call_later(self._delay, self._begin)
        if options.connect_backoff:
            self._delay = min(2 * self._delay, limits.ROUTE_RETRY_MOST)

    @property
    def _what(self) -> str:
        kind = "explicit" if self.other.is_explicit else "implicit"
        return f'{kind} gateway "{self.other.name}"'

    def _tell(self, level: int, text: str) -> None:
        every = _FIRST_REPORTS if self._is_first else 1
        is_told = self._attempts == 1 or self._attempts % every == 0
        self._gateways.port.log(level if is_told else logging.DEBUG, text)
