"""All leaf links of one server: the hubs it connects to, leaf nodes that connect to it, circles among them.

Never lives here: what is said on one connection (`leaf`), sockets and users (`leaf_port`).
Source: leaf node specification, sections 4 and 6; when to connect again from nats-server 2.15.1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.cluster.attempts import Attempts, shuffle
from headrace.cluster.leaf import LeafSession
from headrace.conf.peer_options import PeerURL
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cluster.leaf_port import LeafPort
    from headrace.cluster.port import Wire
    from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote
    from headrace.protocol.peers import PeerInfo


class Leafs:
    """The leaf links of one server.

    `sessions`: every connection, also those whose handshake goes on. `remotes`: the hubs, in the order of the
    configuration.
    """

    def __init__(self, port: LeafPort[LeafSession], options: LeafNodeOptions) -> None:
        self.port: Final = port
        self.options = options
        self.sessions: dict[LeafSession, None] = {}
        self.remotes: list[Hub] = [Hub(self, each) for each in options.remotes]
        self.is_stopped = False
        self._loops: dict[str, bytes] = {}

    def start(self) -> None:
        """Begin to reach the hubs. Connections may be accepted from now on."""
        for remote in self.remotes:
            remote.start()

    def stop(self) -> None:
        """Close all connections, and begin no more."""
        self.is_stopped = True
        for remote in self.remotes:
            remote.stop()
        for session in list(self.sessions):
            session.close(CloseReason.SERVER_SHUTDOWN)

    def reload(self, options: LeafNodeOptions) -> None:
        """Take over other options; the port stays as it is.

        A hub that is not named any more, or is disabled, is left; one that is named otherwise is left and
        connected to anew. Leaf nodes that connected come back where compression is to be negotiated anew.
        """
        before, self.options = self.options, options
        if before.compression != options.compression:
            for session in list(self.sessions):
                if session.remote is None:
                    session.close(CloseReason.CLIENT_CLOSED)
        kept = {remote.options.key: remote for remote in self.remotes if remote.options in options.remotes}
        for remote in self.remotes:
            if remote.options.key not in kept:
                remote.stop()
                for session in list(self.sessions):
                    if session.remote is remote:
                        session.may_reconnect = False
                        session.close(CloseReason.CLIENT_CLOSED)
        self.remotes = [kept.get(each.key) or Hub(self, each) for each in options.remotes]
        for remote in self.remotes:
            if remote.options.key not in kept:
                remote.start()

    # -- facts ------------------------------------------------------------------------------------

    def registered(self) -> Iterator[LeafSession]:
        """The connections over which interest and messages pass."""
        return (session for session in self.sessions if session.is_registered)

    def info(self) -> PeerInfo:
        """This server's INFO for leaf nodes, as of now."""
        return replace(self.port.identity(), cluster=self.port.cluster_name)

    def loop_subject(self, account: str) -> bytes:
        """The subject that only this account subscribes to: who hears of it from elsewhere is in a circle."""
        subject = self._loops.get(account)
        if subject is None:
            subject = self._loops[account] = f"$LDS.{self.port.new_name()}".encode()
        return subject

    def has_accepted(self, account: str, cluster: str) -> bool:
        """Return True when servers of that cluster are leaf nodes of this one in the account."""
        return any(
            session.remote is None
            and not session.is_spoke
            and (session.account, session.remote_cluster) == (account, cluster)
            for session in self.registered()
        )

    def is_current(self, session: LeafSession) -> bool:
        """Return True for a connection to a hub that the configuration still names."""
        return session.remote in self.remotes and not self.is_stopped

    # -- connections ------------------------------------------------------------------------------

    def accepted(self, wire: Wire) -> LeafSession | None:
        """Begin a session on the port for leaf nodes. None: the server is stopping, close the connection."""
        return None if self.is_stopped else self._enter(LeafSession(self, wire))

    def solicited(self, wire: Wire, remote: Hub, url: PeerURL) -> LeafSession:
        """Begin a session with a hub that was reached."""
        return self._enter(LeafSession(self, wire, remote, url))

    def _enter(self, session: LeafSession) -> LeafSession:
        self.sessions[session] = None
        return session

    def replace_duplicate(self, session: LeafSession) -> None:
        """Close the same server's older connection for the same two accounts: it will not be alive."""

        def key(of: LeafSession) -> tuple[str, ...]:
            return of.remote_name, of.remote_cluster, of.account, of.remote_account

        if not session.remote_name or not session.remote_account:
            return
        for other in list(self.registered()):
            if other is not session and other.remote is None and key(other) == key(session):
                reason = CloseReason.DUPLICATE_LEAF_NODE
                other.refuse_loudly(reason.text, reason)
                session.log(logging.WARNING, "Replacing connection from same server")
                return

    def ended(self, session: LeafSession) -> None:
        """Forget a connection that is over. The hub may have to be reached again."""
        self.sessions.pop(session, None)
        self.port.forget(session)
        if session.is_registered:
            session.is_registered = False
            self.port.ended(session)
        if session.remote is not None and session.may_reconnect and self.is_current(session):
            session.remote.reconnect(was_registered=session.link.is_open)

    # -- changes ----------------------------------------------------------------------------------

    def accounts_changed(self) -> None:
        """Compare the accounts with those of before; called after a change."""
        for session in list(self.registered()):
            interest = self.port.interest(session.account)
            if interest is not session.link.interest:
                session.close(CloseReason.MISSING_ACCOUNT)
            else:
                session.link.wants(self.port.always_wanted(session.account))
        self.port.wake()

    def urls_changed(self) -> None:
        """Tell leaf nodes where else they can connect."""
        for session in self.registered():
            if session.remote is None:
                session.link.send(self.info().line())
        self.port.wake()


class Hub(Attempts):
    """A hub, and the attempts to reach it. `delay`: seconds before the next one, beside the usual ones."""

    def __init__(self, leafs: Leafs, options: LeafRemote) -> None:
        super().__init__(leafs.port, is_first=True)
        self.options: Final = options
        self.delay = 0.0
        self._leafs = leafs
        self._urls = list(options.urls)
        if not options.no_randomize:
            shuffle(self._urls, leafs.port.random)
        named = next((url for url in self._urls if url.user is not None), None)
        self._user = ("", "") if named is None else (named.user or "", named.password)

    def start(self, delay: float = 0.0) -> None:
        if self.options.disabled or not self._urls:
            return
        if self.options.proxy is not None and not self.options.is_websocket:
            text = f"the proxy of remote {self.options} is not used: its URLs are not of WebSocket (ws://, wss://)"
            self._leafs.port.log(logging.WARNING, text)
        super().start(delay)

    def reconnect(self, *, was_registered: bool) -> None:
        """Reach the hub again, after a connection is over."""
        if was_registered:
            self._is_first = False
        self.attempts = 0
        self._rotate()
        delay, self.delay = self.delay, 0.0
        self._arm(self._leafs.options.reconnect + delay)

    def user_of(self, url: PeerURL | None) -> tuple[str, str | None]:
        """User and password for a hub at this URL; without a password the user is a token.

        One that the URL does not name is that of the first URL which names one.
        """
        if url is not None and url.user is not None:
            return url.user, url.password
        return self._user

    def learn(self, info: PeerInfo) -> None:
        """Take over the addresses that a hub says of itself and of its cluster."""
        urls = info.ws_connect_urls if self.options.is_websocket else info.leafnode_urls
        if not urls or self.options.ignore_discovered_servers:
            return
        scheme = self.options.urls[0].scheme if self.options.is_websocket else "nats-leaf"
        known = {(url.host, url.port) for url in self.options.urls}
        found = []
        for text in urls:
            place = _place(text)
            if place is None:
                self._leafs.port.log(logging.ERROR, f'Error parsing url "{text}"')
            elif place not in known:
                known.add(place)
                found.append(PeerURL(*place, scheme=scheme))
        self._urls = [*found, *self.options.urls]

    # -- attempts ---------------------------------------------------------------------------------

    def _rotate(self) -> None:
        """Give the next attempt to another URL."""
        self._urls.append(self._urls.pop(0))

    def _arm(self, seconds: float) -> None:
        if not self._is_done:
            self._later(seconds)

    def _try(self) -> None:
        if self._is_done or self._leafs.is_stopped:
            return
        url = self._urls[0]
        port = self._leafs.port
        port.log(logging.DEBUG, f'Trying to connect as leafnode to remote server on "{url}"')
        port.dial(self.options, url, lambda wire: self._connected(wire, url), self._failed)

    def _connected(self, wire: Wire, url: PeerURL) -> LeafSession | None:
        if self._is_done or self._leafs.is_stopped:
            return None
        return self._leafs.solicited(wire, self, url)

    def _failed(self, reason: str | None) -> None:
        if self._is_done or self._leafs.is_stopped:
            return
        self.attempts += 1
        text = (
            f'Error trying to connect as leafnode to remote server "{self._urls[0]}" '
            f"(attempt {self.attempts}): {reason}"
        )
        if reason is not None:
            self._tell(logging.ERROR, text)
        self._rotate()
        wait = self._leafs.options.reconnect
        self._arm(wait + wait * self._host.random())


def _place(text: str) -> tuple[str, int] | None:
    """Host and port of `host:port` or `[host]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port[:6]) < 65536:
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)
