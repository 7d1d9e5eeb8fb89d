"""What engine tests stand on: links without sockets, a session that does as CONNECT says, ways to split.

Not here: anything of the server. The fake session answers the engine's calls as the real one does, with
no authentication; what a test needs otherwise it sets on the session itself.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Final

from headrace.engine.client import ClientLink
from headrace.engine.interest import Interest
from headrace.engine.link import Link, Router
from headrace.engine.reasons import CloseReason
from headrace.errors import ProtocolError
from headrace.protocol.info import ClientConnect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUIET: Final = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
QUIET_WITH_HEADERS: Final = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
NO_RESPONDERS: Final = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'

WAYS: Final = ("whole", "byte by byte", "random splits")

LONG: Final = 2000
"""Byte by byte means the first and the last so many bytes of a chunk; a long middle goes by 997."""

REFUSED, ALLOWED, FILTERED = 0, 1, 2


class Splitter:
    """Cuts input in one of the three ways; the seed of the random one is printed."""

    def __init__(self, way: str, seed: int | None = None) -> None:
        self.way = way
        self._random = random.Random()
        if way == "random splits":
            seed = random.SystemRandom().getrandbits(32) if seed is None else seed
            print(f"Splitter({way!r}, seed={seed})")
            self._random.seed(seed)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            if self.way == "whole":
                size = len(data)
            elif self.way == "byte by byte":
                size = 1 if at < LONG or at >= len(data) - LONG else min(997, len(data) - LONG - at)
            else:
                size = self._random.choice((1, 2, 3, 7, 19, 64, 4096, 65536))
            yield data[at : at + size]
            at += size

    def ends_tick(self) -> bool:
        """Whether a tick ends between two pieces: always when byte by byte, sometimes at random."""
        return self.way == "byte by byte" or (self.way == "random splits" and self._random.random() < 0.3)


class Session:
    """A session without policy. Every call of the engine is kept in `calls`.

    `hooks[name]`, when there is one, is called in place of the method `name`.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.hooks: dict[str, Callable[..., Any]] = {}
        self._options = ClientConnect()
        self.link: ClientLink

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            answer = self.hooks.get(name) or getattr(type(self), f"_{name}", None)
            if answer is None:
                return None
            return answer(*arguments) if name in self.hooks else answer(self, *arguments)

        return call

    def _connect(self, text: bytes) -> None:
        link = self.link
        try:
            options = self._options.merged(text)
        except ProtocolError:
            link.doom(CloseReason.PROTOCOL_VIOLATION)
            return
        if link.subscriptions_count:
            link.drop_subscriptions()
        refused = _refusal(options)
        if refused is not None:
            link.send(f"-ERR '{refused[0]}'\r\n".encode())
            link.doom(refused[1])
            return
        self._options = options
        link.configure(
            verbose=options.verbose,
            pedantic=options.pedantic,
            echo=options.echo,
            headers=options.headers,
            no_responders=options.no_responders,
            info_on_ping=options.protocol >= 1,
        )
        if options.verbose:
            link.send(b"+OK\r\n")

    def _op_before_connect(self) -> None:
        self.link.send(b"-ERR 'Authorization Violation'\r\n")
        self.link.doom(CloseReason.AUTHENTICATION_VIOLATION)

    def _first_ping(self) -> None:
        self.link.send(b'INFO {"connect_info":true} \r\n')

    def _peer_info(self, text: bytes) -> None:
        try:
            json.loads(text)
        except ValueError:
            self.link.doom(CloseReason.PROTOCOL_VIOLATION)

    def _subscribe_permission(self, subject: bytes, queue: bytes | None) -> int:
        return ALLOWED

    def _publish_refused(self, subject: bytes) -> bool:
        self.link.send(b"-ERR 'Permissions Violation for Publish to \"%b\"'\r\n" % subject)
        return False

    def _reply_refused(self, reply: bytes) -> None:
        self.link.send(b"-ERR 'Permissions Violation for Publish with Reply of \"%b\"'\r\n" % reply)

    def _failed(self, error: Exception) -> None:
        self.link.doom(CloseReason.INTERNAL_ERROR)

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of `name` so far."""
        return [call[1:] for call in self.calls if call[0] == name]


def _refusal(options: ClientConnect) -> tuple[str, CloseReason] | None:
    if options.account:
        return "Authorization Violation", CloseReason.AUTHENTICATION_VIOLATION
    if not 0 <= options.protocol <= 1:
        return "invalid client protocol", CloseReason.BAD_CLIENT_PROTOCOL_VERSION
    if options.no_responders and not options.headers:
        return "no responders requires headers support", CloseReason.NO_RESPONDERS_REQUIRES_HEADERS
    return None


class Peer:
    """One client as its link sees it: `send` is what it writes, `received` what it is written."""

    def __init__(self, broker: Broker, **limits: Any) -> None:
        self._broker = broker
        self.session = Session()
        self.link = ClientLink(broker.router, self.session, **limits)
        self.session.link = self.link
        self.link.interest = broker.interest

    def send(self, data: bytes) -> Peer:
        """Feeds `data` in this test's way of splitting, until the link closes."""
        self._broker.feed(self.link, data)
        return self

    def received(self) -> bytes:
        """What was written to it since it was last asked."""
        return self.link.take()

    @property
    def reason(self) -> CloseReason:
        """Why it is to be closed; NONE while it is open."""
        return CloseReason(self.link.reason)


class Broker:
    """A router, one account's interest, and the peers of a test. `closed` lists links in closing order."""

    def __init__(self, way: str = "whole", **router_options: Any) -> None:
        self.splitter = Splitter(way)
        self.router = Router(**router_options)
        self.interest = Interest()
        self.closed: list[Link] = []
        self._peers: list[Peer] = []

    def peer(self, hello: bytes = QUIET, **limits: Any) -> Peer:
        """A new client that has sent `hello`."""
        peer = Peer(self, **limits)
        self._peers.append(peer)
        if hello:
            peer.send(hello)
        return peer

    def feed(self, link: Link, data: bytes) -> None:
        """In this test's way of splitting, until the link closes."""
        for piece in self.splitter.pieces(data):
            if link.is_closing:
                break
            link.feed(piece)
            if self.splitter.ends_tick():
                self.end_tick()

    def end_tick(self) -> None:
        self.closed += self.router.end_tick()

    def stop(self) -> None:
        """Detaches every link and lets go of everything: the broker is of no use afterwards."""
        for peer in self._peers:
            peer.link.detach()
            vars(peer.session).clear()
        self.end_tick()
        while self.router.is_unsubscribing:
            self.end_tick()
        vars(self).clear()
