"""One simulated server.

A real router, real accounts with clients in them, and a mesh over a simulated port.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from headrace.cluster.mesh import Mesh
from headrace.conf.account_options import AccountOptions
from headrace.conf.options import Options
from headrace.core.accounts import Accounts
from headrace.engine.client import ClientLink
from headrace.engine.link import Router
from headrace.engine.reasons import CloseReason
from headrace.protocol.peers import PeerInfo
from simulation.network import End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.cluster.port import Address
    from headrace.cluster.route import RouteSession
    from headrace.conf.peer_options import ClusterOptions
    from headrace.core.accounts import Meter
    from headrace.engine.interest import Interest
    from simulation.clock import Call
    from simulation.network import Network

_FRAME = re.compile(rb"MSG (\S+) (\S+) (?:(\S+) )?(\d+)\r\n")


class SimulatedClient:
    """A client without a socket, and without a session's policy."""

    def __init__(self, node: Node, account: str) -> None:
        self.node = node
        self.account = account
        self.subscriptions: dict[int, tuple[str, str]] = {}
        self.got: Counter[tuple[int, bytes]] = Counter()
        self._last_sid = 0
        self._unread = b""
        self.link = ClientLink(node.router, self)
        self.link.configure(
            verbose=False, pedantic=False, echo=True, headers=True, no_responders=False, info_on_ping=False
        )
        self.link.interest = node.accounts[account].interest
        self.link.use_writer(self._read)

    def subscribe(self, subject: str, queue: str = "") -> int:
        self._last_sid += 1
        self.subscriptions[self._last_sid] = (subject, queue)
        self._say(f"SUB {subject} {queue} {self._last_sid}\r\n")
        return self._last_sid

    def unsubscribe(self, sid: int) -> None:
        del self.subscriptions[sid]
        self._say(f"UNSUB {sid}\r\n")

    def publish(self, subject: str, payload: str) -> None:
        self._say(f"PUB {subject} {len(payload)}\r\n{payload}\r\n")

    def _say(self, text: str) -> None:
        self.link.feed(text.encode())
        self.node.settle()

    def _read(self) -> None:
        self._unread += self.link.take()
        while (found := _FRAME.match(self._unread)) is not None:
            end = found.end() + int(found[4])
            if len(self._unread) < end + 2:
                return
            self.got[int(found[2]), self._unread[found.end() : end]] += 1
            self._unread = self._unread[end + 2 :]
        assert not self._unread or self._unread.startswith((b"M", b"PING")), self._unread

    def close(self) -> None:
        self.link.detach()
        self.node.clients.remove(self)
        self.node.settle()


class Node:
    """A server.

    `address` is where its peers reach it; a restarted one is a new node with the same address.
    """

    def __init__(
        self,
        network: Network,
        address: Address,
        options: ClusterOptions,
        *,
        accounts: Iterable[str],
        server_id: str,
        told: list[str] | None,
    ) -> None:
        self.network = network
        self.address = address
        self.server_id = server_id
        self.is_up = True
        self.started_ns = network.clock.now_ns + 1
        self.is_settling = False
        self.has_mistake = ""
        self.clients: list[SimulatedClient] = []
        self.router = Router(unsubscribes=2)
        self._told = told
        self._names = 0
        everything = Options(accounts=tuple(map(AccountOptions, accounts)))
        self.accounts = Accounts(everything, self.router, self._failed, self._no_meter)
        self.mesh = Mesh(self, options, "$SYS")
        network.listening[address] = self
        self.mesh.start()
        self.settle()

    # -- the port ---------------------------------------------------------------------------------

    max_payload = 1 << 20
    max_control_line = 4096
    ping_interval = 120.0
    ping_max = 2

    def identity(self) -> PeerInfo:
        return PeerInfo(
            server_id=self.server_id,
            server_name=f"name-{self.server_id}",
            version="2.15.1",
            proto=3,
            git_commit="headrace-0",
            go="python3",
            host=self.address.host,
            port=self.address.port,
            headers=True,
            auth_required=self.mesh.options.user is not None,
            max_payload=self.max_payload,
            connect_urls=(f"{self.address.host}:4222",),
            started_ns=self.started_ns,
        )

    def now_ns(self) -> int:
        return self.network.clock.now_ns

    def reports(self, attempts: int, *, is_first: bool) -> bool:
        return attempts == 1 or not is_first

    def call_later(self, seconds: float, call: Callable[[], object]) -> Call:
        def later() -> None:
            if self.is_up:
                call()
                self.settle()

        return self.network.clock.later(seconds, later)

    def random(self) -> float:
        return self.network.chance.random()

    def new_nonce(self) -> str:
        return "nonce"

    def new_name(self) -> str:
        self._names += 1
        return f"{self.server_id}-{self._names}"

    def wake(self) -> None:
        """Whoever calls into a node settles it afterwards."""

    def dial(
        self,
        address: Address,
        connected: Callable[[End], RouteSession | None],
        failed: Callable[[str | None], object],
    ) -> None:
        self.network.dial(self, address, connected, failed)

    def account_names(self) -> Iterable[str]:
        return [account.name for account in self.accounts]

    def interest(self, account: str) -> Interest | None:
        return self.accounts[account].interest if account in self.accounts else None

    def compare(self, stored: str, given: str, judged: Callable[[bool], object]) -> None:
        judged(stored == given)

    def left(self, server_id: str) -> None:
        """Nobody waits for it."""

    def hear_anew(self, change: Callable[[], object]) -> None:
        raise AssertionError("no node here has JetStream")

    def must_end(self, reason: str) -> None:
        raise AssertionError(reason)  # no node here serves what only one can

    def peers_changed(self) -> None:
        """Nobody is told."""

    def log(self, level: int, text: str) -> None:
        if self._told is not None:
            self._told.append(f"{self.now_ns() / 1e9:9.4f} {self.server_id} {text}")
        if "internal error" in text or "parse error" in text or "parser" in text.lower():
            self.has_mistake = text

    def _failed(self, error: Exception) -> None:
        raise error

    def _no_meter(self, *_: object) -> Meter:
        raise NotImplementedError("simulated accounts measure nothing")

    # -- life -------------------------------------------------------------------------------------

    def settle(self) -> None:
        """The end of a tick: outboxes go out, doomed connections are closed."""
        if self.is_settling or not self.is_up:
            return
        self.is_settling = True
        while True:
            self.router.touch()
            leaving = self.router.end_tick()
            for link in leaving:
                session = link.session
                if isinstance(session, SimulatedClient):
                    raise AssertionError(f"{self.server_id}: a client was closed: {CloseReason(link.reason)}")
                self._close(session)
            if not leaving and not self.router.has_due and not self.router.has_doomed:
                break
        self.is_settling = False

    def _close(self, session: RouteSession) -> None:
        if session.is_closed:
            return
        end = session.wire
        assert isinstance(end, End)
        if end.session is session:
            end.send(session.link.take())
        end.close()
        session.ended(CloseReason(session.link.reason))
        session.link.detach()

    def lost(self, session: RouteSession) -> None:
        """The other end is gone."""
        session.link.doom(CloseReason.CLIENT_CLOSED)
        self.settle()

    def change(self, options: ClusterOptions, accounts: Iterable[str]) -> None:
        """Other options, and accounts that are new."""
        new = [AccountOptions(name) for name in accounts if name not in self.accounts]
        if new:
            self.accounts.replace(new)
            self.mesh.accounts_changed()
        if options != self.mesh.options:
            self.mesh.reload(options)

    def stop(self) -> None:
        """As when a server is stopped: its peers are told by the end of each connection."""
        self._leave()
        self.mesh.stop()
        self.settle()
        self._end()

    def crash(self, *, is_noticed: bool) -> None:
        """At once. Where nobody notices its peers find out by themselves."""
        self._leave()
        for pair in self.network.ends():
            for end in pair:
                if end.node is self and end.other is not None:
                    if is_noticed:
                        end.close()
                    end.is_lost = True
        self.mesh.stop()
        self.settle()
        self._end()

    def _leave(self) -> None:
        if self.network.listening.get(self.address) is self:
            del self.network.listening[self.address]

    def _end(self) -> None:
        for client in list(self.clients):
            client.close()
        self.is_up = False
        self.accounts.close()
        self.router.end_tick()

    def client(self, account: str) -> SimulatedClient:
        made = SimulatedClient(self, account)
        self.clients.append(made)
        return made
