"""The port of a machine of `headrace.cluster`: the server as that machine sees it, whatever kind it is of.

It keeps the contract `headrace.cluster.port.ClusterHost`; the port of each kind adds what its machine needs
besides.
Never lives here: sockets and connections (`host`).
"""

from __future__ import annotations

import random
from time import monotonic_ns
from typing import TYPE_CHECKING, Generic

from headrace.cluster.port import SessionT
from headrace.protocol import nkeys
from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.protocol.nuid import new_nuid
from headrace.protocol.peers import ROUTE_PROTOCOL, PeerInfo
from headrace.server import passwords
from headrace.server.info import GIT_COMMIT, LANGUAGE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from headrace.cluster.port import Address
    from headrace.engine.interest import Interest
    from headrace.engine.link import Router
    from headrace.server.peers.host import PeerHost
    from headrace.server.peers.port import PeersServer


class MachinePort(Generic[SessionT]):
    """The server as a machine sees it. `host`: the sockets and options of the machine's kind."""

    def __init__(self, server: PeersServer, host: PeerHost[SessionT]) -> None:
        self._server = server
        self._host = host

    def _identity(self, address: Address, *, has_users: bool) -> PeerInfo:
        """The fields of INFO that are alike for all kinds. `has_users`: a peer must be one of the users."""
        server, tls = self._server, self._host.tls
        return PeerInfo(
            server_id=server.server_id,
            server_name=server.name,
            version=COMPATIBLE_VERSION,
            proto=ROUTE_PROTOCOL,
            git_commit=GIT_COMMIT,
            go=LANGUAGE,
            host=address.host,
            port=address.port,
            headers=not server.options.no_header_support,
            auth_required=has_users,
            tls_required=tls is not None,
            tls_verify=tls is not None,
            max_payload=server.options.max_payload,
        )

    @property
    def router(self) -> Router:
        return self._server.router

    @property
    def max_payload(self) -> int:
        return self._server.options.max_payload

    @property
    def max_control_line(self) -> int:
        return self._server.options.max_control_line

    @property
    def ping_interval(self) -> float:
        return self._server.options.ping_interval

    @property
    def ping_max(self) -> int:
        return self._server.options.ping_max

    def now_ns(self) -> int:
        return monotonic_ns()

    def reports(self, attempts: int, *, is_first: bool) -> bool:
        options = self._server.options
        every = options.connect_error_reports if is_first else options.reconnect_error_reports
        return attempts == 1 or attempts % every == 0

    def call_later(self, seconds: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        return self._server.loop.call_later(seconds, call)

    def new_nonce(self) -> str:
        return nkeys.new_nonce().decode()

    def new_name(self) -> str:
        return new_nuid()

    def random(self) -> float:
        return random.random()

    def wake(self) -> None:
        self._server.ticks.wake()

    def account_names(self) -> Iterator[str]:
        return (account.name for account in self._server.accounts)

    def interest(self, account: str) -> Interest | None:
        accounts = self._server.accounts
        return accounts[account].interest if account in accounts else None

    def compare(self, stored: str, given: str, judged: Callable[[bool], object]) -> None:
        if not passwords.is_bcrypt(stored):
            judged(passwords.matches(stored, given))
            return

        async def compare() -> None:
            loop = self._server.loop
            judged(await loop.run_in_executor(None, passwords.matches, stored, given))

        self._server.tasks.run(compare())

    def log(self, level: int, text: str) -> None:
        self._server.log.log(level, "%s", text)
