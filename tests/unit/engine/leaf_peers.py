"""Leaf links without sockets: brokers whose links are fed by each other, or by a test."""

from __future__ import annotations

from typing import Any

from route_peers import GLOBAL, OtherEnd, RemoteSession, Server

from headrace.engine.leaf import LeafLink


class LeafSession(RemoteSession):
    """`responses` may be published all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.responses: set[bytes] = set()

    def loop_detected(self) -> None:
        self.calls.append(("loop_detected",))
        self.link.send(b"-ERR 'Loop detected'\r\n")

    def message_refused(self, subject: bytes) -> bool:
        self.calls.append(("message_refused", subject))
        return subject in self.responses

    def request_info(self, *_arguments: object) -> bytes | None:
        return b'{"acc":"leaf"}'


class Hub(Server):
    """A broker that may have leaf links, and routes. Its clients act in $G."""

    def leaf(
        self,
        origin: bytes = b"",
        *,
        is_spoke: bool = False,
        headers: bool = True,
        account: bytes = GLOBAL,
        **more: Any,
    ) -> Leaf:
        """A leaf link that has had its handshake; `is_spoke`: the hub is at the other end."""
        leaf = Leaf(self)
        leaf.link.open(self.accounts[account], is_spoke=is_spoke, headers=headers, origin=origin, **more)
        return leaf


class Leaf(OtherEnd[LeafSession, LeafLink]):
    """One leaf link."""

    def __init__(self, hub: Hub, **limits: Any) -> None:
        session = LeafSession()
        super().__init__(hub, session, LeafLink(hub.router, session, **limits))
