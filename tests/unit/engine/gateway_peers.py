"""Servers of clusters without sockets: brokers whose gateway links are fed by each other, or by a test."""

from __future__ import annotations

from typing import Any, Final

from engine_peers import QUIET, Peer
from route_peers import GLOBAL, OtherEnd, RouteSession, Server

from headrace.engine.gateway import GatewayLink, join_gateways

A_HASH: Final = b"NUmM6c"
B_HASH: Final = b"BBBBBB"
OWN_HASH: Final = b"SRVone"
OTHER_HASH: Final = b"SRVtwo"
START: Final = b'INFO {"cmd":2}\r\n'
COMPLETE: Final = b'INFO {"cmd":3}\r\n'
PREFIX: Final = b"_GR_.NUmM6c.SRVone."


class GatewayServer(Server):
    """A server of cluster A."""

    def __init__(self, way: str = "whole", server_hash: bytes = OWN_HASH, **router_options: Any) -> None:
        super().__init__(way, **router_options)
        join_gateways(self.router, A_HASH, server_hash)
        self.router.now = 1_000_000_000

    def client_of(self, account: bytes) -> Peer:
        """A client that acts in an account."""
        peer = self.peer(b"")
        peer.link.interest = self.accounts[account]
        return peer.send(QUIET)

    def gateway(
        self,
        *serves: bytes,
        outbound: bool = True,
        headers: bool = True,
        cluster: bytes = B_HASH,
        interest_only: bool = False,
        traces: bool = False,
        **limits: Any,
    ) -> Gateway:
        """A connection that has had its handshake and serves these accounts, $G when none is given."""
        gateway = Gateway(self, outbound=outbound, **limits)
        hashes = {"cluster_hash": cluster} if outbound else {}
        gateway.link.configure(headers=headers, interest_only=interest_only, traces=traces, **hashes)
        for name in serves or (GLOBAL,):
            gateway.link.serve(name, self.accounts[name], start=START, complete=COMPLETE)
        return gateway


class Gateway(OtherEnd[RouteSession, GatewayLink]):
    """One connection to a server of another cluster."""

    def __init__(self, server: GatewayServer, *, outbound: bool, **limits: Any) -> None:
        session = RouteSession(server.accounts)
        super().__init__(server, session, GatewayLink(server.router, session, is_outbound=outbound, **limits))

    def switched(self, account: bytes = GLOBAL) -> Gateway:
        """The peer has told all it wants."""
        self.link.switch(account, complete=False)
        self.link.switch(account, complete=True)
        return self
