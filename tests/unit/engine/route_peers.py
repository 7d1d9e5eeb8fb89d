"""Servers of a cluster without sockets: brokers whose route links are fed by each other, or by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from engine_peers import Broker

from headrace.engine.interest import Interest
from headrace.engine.legacy_route import LegacyRouteLink
from headrace.engine.reasons import CloseReason
from headrace.engine.route import RouteLink

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.engine.link import Link

GLOBAL: Final = b"$G"

SessionT = TypeVar("SessionT", bound="RemoteSession")
LinkT = TypeVar("LinkT", bound="Link")


class RemoteSession:
    """A session without policy, of a connection to another server: keeps every call in `calls`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.link: Link

    def unauthenticated(self) -> None:
        self.link.send(b"-ERR 'Authorization Violation'\r\n")
        self.link.doom(CloseReason.AUTHENTICATION_VIOLATION)

    def failed(self, error: Exception) -> None:
        raise error

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: self.calls.append((name, *arguments))

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of `name` so far."""
        return [call[1:] for call in self.calls if call[0] == name]


class RouteSession(RemoteSession):
    """Knows the accounts it is given."""

    def __init__(self, accounts: dict[bytes, Interest]) -> None:
        super().__init__()
        self.accounts = accounts

    def account_interest(self, name: bytes) -> Interest | None:
        self.calls.append(("account_interest", name))
        return self.accounts.get(name)


class OtherEnd(Generic[SessionT, LinkT]):
    """One connection to another server: `say` is what that writes, `heard` what it is written."""

    def __init__(self, server: Server, session: SessionT, link: LinkT) -> None:
        self._server = server
        self.session = session
        self.link = link
        session.link = link
        server.others.append(self)

    def say(self, data: bytes) -> Self:
        self._server.feed(self.link, data)
        return self

    def heard(self) -> bytes:
        return self.link.take()

    @property
    def reason(self) -> CloseReason:
        return CloseReason(self.link.reason)


class Server(Broker):
    """A broker that may have connections to other servers, `others`. Its clients act in $G."""

    def __init__(self, way: str = "whole", **router_options: Any) -> None:
        super().__init__(way, **router_options)
        self.accounts = {GLOBAL: self.interest}
        self.interest.account = GLOBAL
        self.others: list[OtherEnd[Any, Any]] = []

    def account(self, name: bytes) -> Interest:
        """One more account."""
        interest = self.accounts[name] = Interest()
        interest.account = name
        return interest

    def route(
        self,
        *serves: bytes,
        headers: bool = True,
        origins: bool = True,
        origin_unsub: bool = True,
        dedicated: bool = False,
        traces: bool = False,
        **limits: Any,
    ) -> Remote:
        """A route that has had its handshake and serves these accounts, $G when none is given."""
        remote = Remote(self, **limits)
        remote.link.configure(headers=headers, has_origin=origins, origin_unsub=origin_unsub, traces=traces)
        for name in serves or (GLOBAL,):
            remote.link.serve(name, self.accounts[name], dedicated=dedicated)
        return remote

    def legacy_route(self, **limits: Any) -> Remote:
        """A route of before 2.0 that has had its handshake and serves $G."""
        remote = Remote(self, LegacyRouteLink, **limits)
        assert isinstance(remote.link, LegacyRouteLink)
        remote.link.speak_legacy()
        remote.link.configure(headers=False, has_origin=False, origin_unsub=False)
        remote.link.serve(GLOBAL, self.accounts[GLOBAL], dedicated=True)
        return remote

    def end_routes(self) -> None:
        """And what else leads to other servers."""
        for remote in self.others:
            remote.link.detach()
            vars(remote.session).clear()
        self.others.clear()

    def stop(self) -> None:
        self.end_routes()
        super().stop()


class Remote(OtherEnd[RouteSession, RouteLink]):
    """One route."""

    def __init__(self, server: Server, kind: type[RouteLink] = RouteLink, **limits: Any) -> None:
        session = RouteSession(server.accounts)
        super().__init__(server, session, kind(server.router, session, **limits))


def exchange(*pairs: tuple[Remote, Remote]) -> None:
    """What each side of each pair has written is taken in by the other, until nobody has anything to say."""
    is_silent = False
    while not is_silent:
        is_silent = True
        for one, other in pairs:
            for source, target in ((one, other), (other, one)):
                data = source.heard()
                if data:
                    is_silent = False
                    target.say(data)
