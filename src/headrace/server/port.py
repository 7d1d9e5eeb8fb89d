"""Protocols of a server as its parts see it, and of whoever wants in.

A part takes one of these types and never the class that fulfils it, so no part knows its whole: `Server` and
`ClientSession` fulfil them as they are. What only one part sees of the server stands in that part's module.
Loaded by nobody at run time. Never here: code that does anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable, Iterable, Sequence
    from logging import Logger

    from headrace.conf.options import Options
    from headrace.core.account import Account
    from headrace.core.accounts import Accounts
    from headrace.core.service import Host, Service
    from headrace.engine.link import Link, Router
    from headrace.engine.reasons import CloseReason
    from headrace.protocol.info import ClientConnect, PortInfo
    from headrace.server.auth import ApplicantAccess, Authenticator, CredentialCheck, Identity
    from headrace.server.deadlines import Deadlines
    from headrace.server.handshakes import PeerCheck
    from headrace.server.log_limits import LogLimits
    from headrace.server.ownership import OneOfProcesses, TellsOfPeers
    from headrace.server.services import ServiceHost
    from headrace.server.ticks import Tasks, Ticks


class LogHost(Protocol):
    """The log of a server."""

    @property
    def options(self) -> Options:
        """The options as they are now: a reload replaces them."""

    @property
    def log(self) -> Logger: ...
    @property
    def log_limits(self) -> LogLimits:
        """The limit on lines that peers cause."""


class PeerChecks(Protocol):
    """The checks of peers whose TLS handshake has ended."""

    async def vet(self, connection: ssl.SSLObject, check: PeerCheck) -> None:
        """Check one. Raises: PeerRefused."""


class Runtime(LogHost, Protocol):
    """The event loop of a server: its connections, its ticks and its tasks."""

    @property
    def router(self) -> Router: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def ticks(self) -> Ticks: ...
    @property
    def tasks(self) -> Tasks: ...
    @property
    def tls(self) -> PeerChecks: ...


class AccountsHost(Runtime, Protocol):
    """A server with its accounts."""

    @property
    def accounts(self) -> Accounts: ...


class HasServiceHost(Protocol):
    """The service of the system account, with its host."""

    @property
    def host(self) -> Host | None:
        """The host; None: there is no system account, or the server is not there yet."""


class LinkHost(Protocol):
    """A server, as what it publishes in accounts by itself sees it."""

    @property
    def router(self) -> Router: ...
    @property
    def accounts(self) -> Accounts: ...
    @property
    def system(self) -> HasServiceHost: ...


class Applicant(Protocol):
    """A client or a leaf node that wants in, as those who decide about it see it."""

    refusal: CloseReason
    """The reason that monitoring shows if it is refused."""

    @property
    def cid(self) -> int:
        """The number of the connection."""

    @property
    def address(self) -> str:
        """The host at the other end; behind a proxy, the one that the proxy names."""

    @property
    def access(self) -> ApplicantAccess: ...
    @property
    def credentials(self) -> CredentialCheck: ...
    @property
    def proxy_key(self) -> str:
        """The key of the trusted proxy that signed for it; empty: none did."""

    @property
    def tls_version(self) -> str:
        """Empty without TLS."""

    @property
    def tls_cipher(self) -> str: ...

    def debug(self, text: str) -> None:
        """Log a line with the connection in front."""

    def error(self, text: str) -> None:
        """Log an error line, unless there were too many like it just now."""


class Authorizer(Protocol):
    """The decision about users where the configuration does not have them: tokens, or a callout."""

    @property
    def curve_key(self) -> str:
        """The public key that callouts may encrypt their answers to; INFO has it."""

    async def identity(self, applicant: Applicant, connect: ClientConnect, /) -> Identity | None:
        """Decide about one CONNECT; None: it is refused, and the log has said why."""

    async def load(self, accounts: Iterable[str]) -> None:
        """Load accounts, as far as there are tokens of them."""


class ConnectedClient(Protocol):
    """A client, as messages about clients describe it."""

    @property
    def cid(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def options(self) -> ClientConnect:
        """The fields of its CONNECT."""

    @property
    def identity(self) -> Identity | None:
        """The user that it acts as; None before that is settled."""

    @property
    def account(self) -> Account | None: ...
    @property
    def link(self) -> Link: ...
    @property
    def access(self) -> ApplicantAccess: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def stop_ns(self) -> int:
        """0 while it is connected."""

    @property
    def rtt_ns(self) -> int:
        """0: not measured yet."""

    @property
    def estimated_rtt_ns(self) -> int:
        """The time to its CONNECT until a round trip was measured."""

    @property
    def close_reason(self) -> CloseReason: ...
    @property
    def mqtt_client(self) -> str:
        """The client identifier of one over MQTT; empty for every other client."""


class ClientEvents(Protocol):
    """The events that a client's session causes in the system account."""

    def connected(self, session: ConnectedClient) -> None:
        """Tell that a client has got in."""

    def refused(self, session: ConnectedClient, reason: str) -> None:
        """Tell that credentials were wrong or missing."""

    def connections_changed(self, account: Account) -> None:
        """Tell that an account has one client more or less."""


class AccessHost(Protocol):
    """A server, as the rules for one of its ports see it."""

    @property
    def options(self) -> Options: ...
    @property
    def authenticator(self) -> Authenticator: ...
    @property
    def authorizer(self) -> Authorizer | None: ...
    @property
    def info(self) -> PortInfo:
        """The fields of INFO that all clients get; another object when one of them changes."""


class AllClients(Protocol):
    """The clients of a server, as one of them sees the others."""

    slow_consumers: int
    stale_connections: int

    def admitted(self, session: Applicant) -> None:
        """Note that a client has said who it is, or will not any more: it does not wait for that."""

    def forget(self, cid: int, reason: CloseReason) -> None:
        """Note that a connection is over; its session is given back."""


class SessionHost(Runtime, AccessHost, Protocol):
    """A server, as the session of a client sees it."""

    @property
    def name(self) -> str: ...
    @property
    def accounts(self) -> Accounts: ...
    @property
    def events(self) -> ClientEvents: ...
    @property
    def clients(self) -> AllClients: ...
    @property
    def deadlines(self) -> Deadlines: ...


class PeerProcesses(Protocol):
    """The other processes of one server, as INFO describes them."""

    @property
    def has_private_mesh(self) -> bool: ...
    @property
    def runs_jetstream(self) -> bool: ...


class ClusterURLs(Protocol):
    """The cluster of a server, as INFO describes it."""

    @property
    def ws_connect_urls(self) -> tuple[str, ...]: ...

    def client_info(self) -> dict[str, object]:
        """The fields of INFO about the cluster."""


class Addresses(Protocol):
    """The addresses that clients are told to connect to."""

    @property
    def advertised_address(self) -> tuple[str, int]: ...
    @property
    def websocket_urls(self) -> tuple[str, ...]:
        """The addresses for clients over WebSocket. `host:port` each."""


class InfoHost(AccessHost, Protocol):
    """A server, as its INFO describes it."""

    @property
    def server_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def listeners(self) -> Addresses: ...
    @property
    def is_lame_duck(self) -> bool: ...
    @property
    def cluster_name(self) -> str | None: ...
    @property
    def worker(self) -> PeerProcesses | None: ...
    @property
    def routes(self) -> ClusterURLs | None: ...


class AccountServicesHost(LogHost, Protocol):
    """A server, as the services of its accounts see it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def name(self) -> str: ...
    @property
    def server_id(self) -> str: ...
    @property
    def cluster_name(self) -> str | None: ...
    @property
    def accounts(self) -> Accounts: ...
    @property
    def routes(self) -> TellsOfPeers | None: ...
    @property
    def worker(self) -> OneOfProcesses | None: ...
    @property
    def ticks(self) -> Ticks: ...
    @property
    def authorizer(self) -> Authorizer | None: ...

    def start_service(
        self,
        service: Service,
        account: Account,
        *,
        maps: bool = True,
        proof: Callable[[], int] | None = None,
    ) -> ServiceHost:
        """Start a service in an account. Raises: StartError, as the service does."""

    def stop_services(self, hosts: Sequence[ServiceHost], *, at_once: bool = False) -> None:
        """Stop services while the server goes on; their last words still go out.

        `at_once`: what they have taken and not answered yet they never answer.
        """
