"""Requests to the system account and their answers.

Here lives which request is answered with what; the documents are those of monitoring over HTTP. What takes
long is done in one task, one request after the other, so that messages go on meanwhile. Never lives here:
how requests are read (`options`), what they make the server do (`control`).
Source: forms and errors compared with the Go server 2.15.1. Without a reply subject nothing is answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from headrace.internal_errors import INTERNAL_ERROR
from headrace.server.monitor import links
from headrace.server.monitor.accountz import accountz
from headrace.server.monitor.accstatz import statistics
from headrace.server.monitor.connz import connz
from headrace.server.monitor.gathered import GatheredSource, gathered, in_steps, is_long
from headrace.server.monitor.healthz import healthz
from headrace.server.monitor.jsz import account_jsz_steps, jsz_steps
from headrace.server.monitor.query import QueryError
from headrace.server.monitor.subsz import subsz
from headrace.server.monitor.text import encode
from headrace.server.monitor.varz import varz
from headrace.server.snapshot import ServerMonitor, account_snapshot
from headrace.server.system import control, options, users
from headrace.server.system.config_difference import config_difference
from headrace.server.system.encoding import encoded
from headrace.server.system.tables_state import tables_state

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from headrace.core.account import Account
    from headrace.core.service import Delivery, Host
    from headrace.server.port import AccountsHost
    from headrace.server.snapshot import HasTraffic, MonitoredServer
    from headrace.server.system.events import Events
    from headrace.server.system.messages import SystemMessages
    from headrace.server.system.options import Form
    from headrace.server.worker import Worker

    class AskedServer(MonitoredServer, AccountsHost, Protocol):
        """A server, as requests to the system account see it."""

        @property
        def info(self) -> Mapping[str, Any]: ...
        @property
        def system(self) -> HasTraffic: ...
        @property
        def events(self) -> Events: ...
        @property
        def worker(self) -> Worker | None: ...

        def reload(self) -> None:
            """Take over what has changed in the configuration file. Raises: ConfigError, StartError."""


MOST_WAITING: Final = 512
"""Long requests that wait for their turn; one more is passed over, as if the server were not there."""

_BAD_REQUEST, _FAILED = 400, 500
_STATES: Final = {0: "open", 1: "closed", 2: "all"}
_ACCOUNT_TOKEN: Final = 3
_ANYBODY: Final = "PING"

Values = dict[str, Any]
Document = dict[str, Any]


class Skip(Exception):
    """This server has nothing to say to that request."""


class SystemRequest(NamedTuple):
    """One kind of request: how it is read, and its answer; `is_long`: it is answered in turn.

    `refused_with_data`: what the Go server shows beside an error, null, where it has the type of an answer.
    """

    form: Form
    answer: Callable[[ServerRequests, Values, str], Document | Awaitable[Document]]
    is_long: bool = False
    refused_with_data: bool = True


class ServerRequests:
    """Answers for one server; `host` is where they go out."""

    def __init__(self, server: AskedServer, host: Host, messages: SystemMessages) -> None:
        self.server: Final = server
        self.source: Final = ServerMonitor(server)
        self.messages: Final = messages
        self._host = host
        self._waiting: deque[tuple[SystemRequest, Delivery, Values]] = deque()
        self._worker: asyncio.Task[None] | None = None

    def end(self) -> None:
        self._waiting.clear()

    # -- taking -----------------------------------------------------------------------------------

    def take(self, scope: str, name: str, request: Delivery) -> None:
        """One message of a subscription; see `service` for scopes and names."""
        try:
            self._take(scope, name, request)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and who asked is told
            self.mistaken(error, request)

    def mistaken(self, error: Exception, request: Delivery) -> None:
        """Log a mistake of ours in one line, and answer the request with an error."""
        self._host.failed(error, request.subject.decode("utf-8", "replace"))
        self.send(request.reply, self.messages.refusal(_FAILED, INTERNAL_ERROR))

    def _take(self, scope: str, name: str, request: Delivery) -> None:
        if scope == "command":
            control.take(self, name, request)
        elif scope == "user":
            users.take(self, name, request)
        elif scope == "server" and name == "IDZ":
            self.send(request.reply, self.messages.identity())
        elif scope == "server" and name == "STATSZ":
            self._take_statsz(request)
        elif scope == "account" and name == "CONNS":
            self._take_connections(request)
        else:
            self._take_question((_ACCOUNT if scope == "account" else _SERVER)[name], request)

    def read(self, request: Delivery, form: Form) -> Values | None:
        """Read a request. None: it cannot be read, which was answered, or it is meant for other servers."""
        try:
            values = options.read(request.payload, form)
        except options.BadRequest as error:
            self.send(request.reply, self.messages.refusal(_BAD_REQUEST, str(error)))
            return None
        return values if self._is_meant(values) else None

    def send(self, reply: bytes, message: bytes, headers: bytes = b"") -> None:
        if reply:
            self._host.publish(reply, message, headers=headers)

    def account(self, name: str) -> Account | None:
        """The account of that name, if there is one."""
        try:
            return self.server.accounts[name]
        except KeyError:
            return None

    def statsz(self) -> bytes:
        active = sum(account.connections > 0 for account in self.server.accounts)
        return self.messages.statsz(self.source.server(), active, self.source.jetstream())

    def _is_meant(self, values: Values) -> bool:
        """True if the filters of a request let this server answer. There are no clusters here."""
        facts = {"server_name": self.server.name, "host": self.server.info["host"], "cluster": ""}
        for key, fact in facts.items():
            wanted = values.get(key, "")
            if wanted and (wanted != fact if values.get("exact_match") else wanted not in fact):
                return False
        tags = {tag.lower() for tag in self.server.options.server_tags}
        jetstream = self.server.options.jetstream
        domain = jetstream.domain if jetstream is not None else ""
        if values.get("domain", domain) not in ("", domain):
            return False
        return {tag.strip().lower() for tag in values.get("tags", ())} <= tags

    def _take_statsz(self, request: Delivery) -> None:
        if self.read(request, options.STATSZ) is None:
            return
        if request.reply:
            self.send(request.reply, self.statsz())
        else:  # one without a reply subject asks for the event
            self.server.events.tell_statsz()

    def _take_connections(self, request: Delivery) -> None:
        """The oldest of these requests has no envelope, and no words for what is wrong with it."""
        name = _account_of(request)
        try:
            asked = options.read(request.payload, options.ACCOUNT_CONNECTIONS).get("acc", name)
        except options.BadRequest as error:
            self.server.log.error("Error unmarshalling account connections request message: %s", error)
            return
        account = self.account(name)
        if asked == name and account is not None and account.connections:
            event = self.messages.connections(account)
            self.send(request.reply, self.messages.numbered(event))

    # -- questions --------------------------------------------------------------------------------

    def _take_question(self, question: SystemRequest, request: Delivery) -> None:
        if not request.reply:
            return
        values = self.read(request, question.form)
        if values is None:
            return
        if not question.is_long:
            self._answer(question, request, lambda: question.answer(self, values, _account_of(request)))
        elif len(self._waiting) < MOST_WAITING:
            self._waiting.append((question, request, values))
            if self._worker is None:
                self._worker = self.server.tasks.run(self._work())

    def _answer(self, question: SystemRequest, request: Delivery, ask: Callable[[], Any]) -> None:
        try:
            document = self.messages.answer(ask())
        except Skip:
            return
        except QueryError as error:
            self._refuse(question, request, error)
            return
        self._send_encoded(request, encode(document, indent=False))

    def _refuse(self, question: SystemRequest, request: Delivery, error: QueryError) -> None:
        message = self.messages.refusal(_FAILED, str(error), has_data=question.refused_with_data)
        self.send(request.reply, message)

    def _send_encoded(self, request: Delivery, message: bytes) -> None:
        self.send(request.reply, *encoded(message, request.headers))

    async def _work(self) -> None:
        """Long requests in turn, until none waits."""
        try:
            while self._waiting:
                question, request, values = self._waiting.popleft()
                try:
                    await self._answer_long(question, request, values)
                except Skip:
                    continue
                except QueryError as error:
                    self._refuse(question, request, error)
                except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and who asked is told
                    self.mistaken(error, request)
        finally:
            self._worker = None

    async def _answer_long(self, question: SystemRequest, request: Delivery, values: Values) -> None:
        found = question.answer(self, values, _account_of(request))
        data = await found if not isinstance(found, dict) else found
        document = self.messages.answer(data)
        if is_long(data):
            # The server was read on the event loop; writing a long listing out need not hold it up.
            self._send_encoded(request, await asyncio.to_thread(encode, document, indent=False))
        else:
            self._send_encoded(request, encode(document, indent=False))


def _account_of(request: Delivery) -> str:
    """The account in the subject of a request about one; anything for other requests."""
    tokens = request.subject.split(b".")
    return tokens[_ACCOUNT_TOKEN].decode("utf-8", "replace") if len(tokens) > _ACCOUNT_TOKEN else ""


def _query(values: Values, *names: str, **renamed: str) -> dict[str, str]:
    """Values as the query of an HTTP request says them."""
    wanted = {name: name for name in names} | renamed
    return {query: _text(values[name]) for query, name in wanted.items() if name in values}


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, int) else str(value)


async def _connz(requests: ServerRequests, values: Values, account: str = "") -> Document:
    account = account or values.get("acc", "")
    query = _query(values, "sort", "auth", "offset", "limit", "cid", "mqtt_client", "user", "filter_subject")
    state = values.get("state", 0)
    query |= {"acc": account, "state": _STATES.get(state, "open"), "subs": _listed(values)}
    source = requests.source
    found = requests.account(account)
    if account and found is None:
        return _no_connections(connz(GatheredSource(source, []), {**query, "state": "open"}))
    if state not in _STATES:
        return connz(GatheredSource(source, []), query)
    return connz(await gathered(source, None if found is None else source.open_in(found)), query)


def _no_connections(document: Document) -> Document:
    """The document about connections of an account that does not exist: it does not even name the server."""
    return {**document, "server_id": "", "connections": None}


def _listed(values: Values) -> str:
    if values.get("subscriptions_detail"):
        return "detail"
    return "1" if values.get("subscriptions") else ""


def _connz_of_all(requests: ServerRequests, values: Values, _: str) -> Awaitable[Document]:
    return _connz(requests, values)


def _connz_of_one(requests: ServerRequests, values: Values, account: str) -> Awaitable[Document]:
    return _connz(requests, values, account)


def _subsz(requests: ServerRequests, values: Values, _: str) -> Document:
    query = _query(values, "offset", "limit", "test", subs="subscriptions", acc="account")
    return subsz(requests.source, query)


def _subsz_of_one(requests: ServerRequests, values: Values, account: str) -> Document:
    return _subsz(requests, {**values, "subscriptions": True, "account": account}, account)


def _info(requests: ServerRequests, values: Values, account: str) -> Document:
    detail: Document = accountz(requests.source, {"acc": account})["account_detail"]  # type: ignore[assignment]
    return detail


def _statz(requests: ServerRequests, values: Values, account: str) -> Document:
    server = requests.server
    names = values.get("accounts", ()) if account == _ANYBODY else (account,)
    wanted = [found for name in names if (found := requests.account(name))] if names else server.accounts
    include_unused = values.get("include_unused", False)
    chosen = [each for each in wanted if include_unused or each.connections]
    if not chosen and not include_unused:
        raise Skip
    snapshots = [account_snapshot(each, server.config_load_ns) for each in chosen]
    return statistics(server.server_id, time_ns(), snapshots)


def _healthz(requests: ServerRequests, values: Values, _: str) -> Document:
    status, document = healthz(requests.source, _query(values, *values))
    first = {"status": document.pop("status"), "status_code": int(status)}
    return {**first, **document}


def _varz(requests: ServerRequests, values: Values, _: str) -> Document:
    return varz(requests.source.server(), {}, requests.source.jetstream())


async def _jsz(requests: ServerRequests, values: Values, _: str) -> Document:
    if values.get("leader_only") and requests.server.options.jetstream is None:
        raise Skip
    return await in_steps(jsz_steps(requests.source, _jsz_query(values)))


async def _jsz_of_one(requests: ServerRequests, values: Values, account: str) -> Document:
    return await in_steps(account_jsz_steps(requests.source, account, _jsz_query(values)))


def _jsz_query(values: Values) -> dict[str, str]:
    renamed = {"acc": "account", "consumers": "consumer", "direct-consumers": "direct_consumer"}
    return _query(values, "accounts", "streams", "config", "offset", "limit", "raft", **renamed)


def _profilez(requests: ServerRequests, values: Values, _: str) -> Document:
    """Refuse every profile: they are of Go programs."""
    name = values.get("name", "")
    error = f'Profile "{name}" not found' if name else "Profile name not specified"
    return {"profile": None, "error": error}


def _expvarz(requests: ServerRequests, values: Values, _: str) -> Document:
    raise QueryError("variables of the Go runtime are not available in this server")


def _config_diff(requests: ServerRequests, values: Values, _: str) -> Document:
    return config_difference(requests.server)


def _tables_state(requests: ServerRequests, values: Values, _: str) -> Document:
    return tables_state(requests.server, values)


def _nothing(requests: ServerRequests, values: Values, _: str) -> Document:
    """Raft groups and internal queues, of which there are none."""
    return {}


def _routez(requests: ServerRequests, values: Values, _: str) -> Document:
    wants = "detail" if values.get("subscriptions_detail") else "1" if values.get("subscriptions") else "0"
    return links.routez(requests.source, {"subs": wants})


def _page(
    page: Callable[[Any, Mapping[str, str]], Document],
) -> Callable[[ServerRequests, Values, str], Document]:
    return lambda requests, values, _: page(requests.source, {})


def _gatewayz(requests: ServerRequests, values: Values, _: str) -> Document:
    query = _query(values, gw_name="name", accs="accounts", acc_name="account_name")
    return links.gatewayz(requests.source, query | {"subs": _listed(values)})


def _leafz(requests: ServerRequests, values: Values, _: str) -> Document:
    return links.leafz(requests.source, _query(values, subs="subscriptions", acc="account"))


def _leafz_of_one(requests: ServerRequests, values: Values, account: str) -> Document:
    return _leafz(requests, {**values, "account": account}, account)


_SERVER: Final[Mapping[str, SystemRequest]] = {
    "VARZ": SystemRequest(options.VARZ, _varz),
    "SUBSZ": SystemRequest(options.SUBSZ, _subsz, is_long=True),
    "CONNZ": SystemRequest(options.CONNZ, _connz_of_all, is_long=True),
    "ROUTEZ": SystemRequest(options.ROUTEZ, _routez),
    "GATEWAYZ": SystemRequest(options.GATEWAYZ, _gatewayz),
    "LEAFZ": SystemRequest(options.LEAFZ, _leafz),
    "ACCOUNTZ": SystemRequest(
        options.ACCOUNTZ,
        lambda requests, values, _: accountz(requests.source, _query(values, acc="account")),
    ),
    "JSZ": SystemRequest(options.JSZ, _jsz, is_long=True),
    "HEALTHZ": SystemRequest(options.HEALTHZ, _healthz),
    "PROFILEZ": SystemRequest(options.PROFILEZ, _profilez),
    "EXPVARZ": SystemRequest(options.EXPVARZ, _expvarz, refused_with_data=False),
    "IPQUEUESZ": SystemRequest(options.IPQUEUESZ, _nothing),
    "RAFTZ": SystemRequest(options.RAFTZ, _nothing),
    "TABLES.STATE": SystemRequest(options.TABLES_STATE, _tables_state, is_long=True, refused_with_data=False),
    "CONFIG.DIFF": SystemRequest(options.FILTERS, _config_diff, is_long=True, refused_with_data=False),
}
_ACCOUNT: Final[Mapping[str, SystemRequest]] = {
    "CONNZ": SystemRequest(options.CONNZ, _connz_of_one, is_long=True),
    "SUBSZ": SystemRequest(options.SUBSZ, _subsz_of_one, is_long=True),
    "LEAFZ": SystemRequest(options.LEAFZ, _leafz_of_one),
    "JSZ": SystemRequest(options.JSZ, _jsz_of_one, is_long=True),
    "INFO": SystemRequest(options.ACCOUNT_INFO, _info),
    "STATZ": SystemRequest(options.ACCOUNT_STATZ, _statz),
}
