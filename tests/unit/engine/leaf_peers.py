"""Leaf links without sockets: brokers whose links are fed by each other, or by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from route_peers import GLOBAL, Server

from headrace.engine.leaf import LeafLink
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable


class LeafSession:
    """A session without policy: keeps every call in `calls`; `responses` may be published all the same."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.responses: set[bytes] = set()
        self.link: LeafLink

    def unauthenticated(self) -> None:
        self.link.send(b"-ERR 'Authorization Violation'\r\n")
        self.link.doom(CloseReason.AUTHENTICATION_VIOLATION)

    def loop_detected(self) -> None:
        self.calls.append(("loop_detected",))
        self.link.send(b"-ERR 'Loop detected'\r\n")

    def message_refused(self, subject: bytes) -> bool:
        self.calls.append(("message_refused", subject))
        return subject in self.responses

    def request_info(self, *_arguments: object) -> bytes | None:
        return b'{"acc":"leaf"}'

    def failed(self, error: Exception) -> None:
        raise error

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self.calls.append((name, *arguments))

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of `name` so far."""
        return [call[1:] for call in self.calls if call[0] == name]


class Hub(Server):
    """A broker that may have leaf links, and routes. Its clients act in $G."""

    def __init__(self, way: str = "whole", **router_options: Any) -> None:
        super().__init__(way, **router_options)
        self.leafs: list[Leaf] = []

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

    def stop(self) -> None:
        for leaf in self.leafs:
            leaf.link.detach()
            vars(leaf.session).clear()
        self.leafs.clear()
        super().stop()


class Leaf:
    """One leaf link: `say` is what the other server writes, `heard` what it is written."""

    def __init__(self, hub: Hub, **limits: Any) -> None:
        self._hub = hub
        self.session = LeafSession()
        self.link = LeafLink(hub.router, self.session, **limits)
        self.session.link = self.link
        hub.leafs.append(self)

    def say(self, data: bytes) -> Leaf:
        for piece in self._hub.splitter.pieces(data):
            if self.link.is_closing:
                break
            self.link.feed(piece)
            if self._hub.splitter.ends_tick():
                self._hub.end_tick()
        return self

    def heard(self) -> bytes:
        return self.link.take()

    @property
    def reason(self) -> CloseReason:
        return CloseReason(self.link.reason)
