"""The in-process client of the system account: its subscriptions, and where what they bring goes.

Here live the subjects and the life of the parts. Never lives here: answers (`requests`), events (`events`).
Source: the subjects of the Go server 2.15.1; those between servers, and those of account tokens, are not
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.core.account_defaults import SUBSCRIBERS, USER
from headrace.core.service import Taking
from headrace.server.system.events import Events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.service import Delivery, Host
    from headrace.core.tracing import MessageTrace
    from headrace.engine.batches import Gathered
    from headrace.server.system.messages import SystemMessages
    from headrace.server.system.requests import AskedServer, ServerRequests

    class _Server(AskedServer, Protocol):
        @property
        def cluster_name(self) -> str | None: ...
        @property
        def system(self) -> SystemService: ...


SERVER_REQUESTS: Final = (
    *("IDZ", "STATSZ", "VARZ", "SUBSZ", "CONNZ", "ROUTEZ", "GATEWAYZ", "LEAFZ", "ACCOUNTZ", "JSZ", "HEALTHZ"),
    *("PROFILEZ", "EXPVARZ", "IPQUEUESZ", "RAFTZ"),
)
"""Requests to every server (`$SYS.REQ.SERVER.PING.*`) and to one (`$SYS.REQ.SERVER.<id>.*`)."""

COMMANDS: Final = ("RELOAD", "KICK", "LDM")
"""Commands to one server (`$SYS.REQ.SERVER.<id>.*`)."""

OWN_REQUESTS: Final = ("CONFIG.DIFF",)
"""Requests to one server (`$SYS.REQ.SERVER.<id>.*`) that are this server's alone."""

TABLES_STATE: Final = "$HEADRACE.TABLES.STATE"
"""The request for the tables that this server makes; a server that makes none does not listen to it."""

ACCOUNT_REQUESTS: Final = ("CONNZ", "SUBSZ", "LEAFZ", "JSZ", "INFO", "STATZ", "CONNS")
"""Requests about one account (`$SYS.REQ.ACCOUNT.<name>.*`)."""

_NOTHING: Final = {"in_msgs": 0, "in_bytes": 0, "out_msgs": 0, "out_bytes": 0}


class SystemService:
    """A `core.service.Service` of the server itself; `events` is told by others what happens."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self.host: Host | None = None
        self.events = Events(server, self.messages)
        self._composed: SystemMessages | None = None
        self._requests: ServerRequests | None = None
        self._kinds: dict[int, tuple[str, str]] = {}

    # -- Service ----------------------------------------------------------------------------------

    def start(self, host: Host) -> None:
        self.host = host
        server_id = self._server.server_id
        self._subscribe(host, "server", "STATSZ", "$SYS.REQ.SERVER.PING")
        for name in SERVER_REQUESTS:
            for whom in ("PING", server_id):
                self._subscribe(host, "server", name, f"$SYS.REQ.SERVER.{whom}.{name}")
        for name in COMMANDS:
            self._subscribe(host, "command", name, f"$SYS.REQ.SERVER.{server_id}.{name}", named=True)
        for name in OWN_REQUESTS:
            self._subscribe(host, "server", name, f"$SYS.REQ.SERVER.{server_id}.{name}")
        for name in ACCOUNT_REQUESTS:
            self._subscribe(host, "account", name, f"$SYS.REQ.ACCOUNT.*.{name}")
        if self._makes_tables:
            self._subscribe(host, "server", "TABLES.STATE", TABLES_STATE)
        self._subscribe(host, "user", "INFO", USER % "*")
        self._subscribe(host, "user", "SUBSCRIBERS", SUBSCRIBERS)
        self.events.begin(host)

    @property
    def _makes_tables(self) -> bool:
        """True if a service of this server archives: it tells of its tables (`tables_state`)."""
        hosted = self._server.account_services
        services = [*self._server.services, *([] if hosted is None else [hosted.services])]
        return any(getattr(each, "tables", None) is not None for each in services)

    def _subscribe(self, host: Host, scope: str, name: str, subject: str, *, named: bool = False) -> None:
        self._kinds[host.subscribe(subject.encode(), named=named)] = (scope, name)

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        requests = self._answerer()
        for request in batch:
            assert isinstance(request, tuple), "no subscription asked for runs"
            requests.take(*self._kinds[request.sid], request)

    def take_trace(self, trace: MessageTrace, sid: int, subject: bytes) -> Taking:
        """Requests to the server are answered, as by the Go server, whether they are only traced or not."""
        return Taking.SILENT

    def stop(self) -> None:
        self.events.end()
        if self._requests is not None:
            self._requests.end()

    # -- parts, loaded when they are needed -------------------------------------------------------

    def statsz(self) -> bytes:
        """The server's statistics now, as an event or an answer."""
        return self._answerer().statsz()

    @property
    def traffic(self) -> dict[str, int]:
        """Messages and bytes of this service, which the server's totals have and should not."""
        own = next((host for host in self._server.hosts if host.service is self), None)
        return _NOTHING if own is None else dict(zip(_NOTHING, own.link.counters[:4], strict=True))

    def messages(self) -> SystemMessages:
        """The messages of the system account, which its other services may use; loaded with the first use."""
        if self._composed is None:
            from headrace.server.system.messages import SystemMessages

            self._composed = SystemMessages(self._server)
        return self._composed

    def _answerer(self) -> ServerRequests:
        if self._requests is None:
            from headrace.server.system.requests import ServerRequests

            assert self.host is not None, "it has been started"
            self._requests = ServerRequests(self._server, self.host, self.messages())
        return self._requests
