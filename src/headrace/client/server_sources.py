"""Documents of servers: connections, routes, JetStream, health and what else monitoring shows.

    with connect(url) as nc:
        for answer in SystemSource(nc).ask("CONNZ", {"limit": 10}).answers:
            answer.name, answer.data["connections"]

Three sources give the same documents: requests of a user of the system account (`SystemSource`), the pages of
monitoring ports (`MonitoringSource`), and what every account may ask about itself (`AccountSource`). Options
are those of system requests; a page gets them by the names that it has for them. Never lives here: what is
made of a document.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct, field

from headrace.client.blocking import DEFAULT_TIMEOUT
from headrace.client.errors import ClientError, ClientTimeoutError, NoRespondersError
from headrace.client.system import QUIET, SystemRequestError, ask_one, document_of, gather
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from http.client import HTTPConnection
    from urllib.parse import SplitResult

    from headrace.client.blocking import Connection

Document = dict[str, Any]

ENDPOINTS: Final = (
    *("VARZ", "CONNZ", "SUBSZ", "ROUTEZ", "GATEWAYZ", "LEAFZ", "ACCOUNTZ", "JSZ", "HEALTHZ", "STATSZ", "IDZ"),
    "ACCSTATZ",
)
"""The documents of a server. ACCSTATZ are the statistics of accounts, `STATZ` of the system's requests."""

NO_ANSWER: Final = "no answer"

_EXTENT: Final = 1024
"""The connections or subscriptions that are asked for at once; servers show so many by themselves."""

MOST_OF_A_PAGE: Final = 256 << 20
"""Bytes of a monitoring page that are read; what is longer is no answer."""


class ServerSourceError(ClientError):
    """A source has no such document: it takes a user of the system account, or a monitoring port."""


class ServerFilter(Struct, frozen=True):
    """The servers that are asked: all, or those with a name, host, cluster and all tags.

    Names, hosts and clusters match in part, as servers do it, without `is_exact`.
    """

    name: str | None = None
    host: str | None = None
    cluster: str | None = None
    tags: tuple[str, ...] = ()
    is_exact: bool = False

    def request(self) -> Document:
        """Return the keys of a system request for this filter."""
        found: Document = {"server_name": self.name, "host": self.host, "cluster": self.cluster}
        found = {name: value for name, value in found.items() if value}
        if self.tags:
            found["tags"] = list(self.tags)
        return {**found, "exact_match": True} if found and self.is_exact else found

    def takes(self, server: Mapping[str, Any]) -> bool:
        """True if a server, as its answers describe it, is one of those."""
        parts = ((self.name, "name"), (self.host, "host"), (self.cluster, "cluster"))
        for wanted, key in parts:
            has = str(server.get(key, ""))
            if wanted and (wanted != has if self.is_exact else wanted not in has):
                return False
        has_tags = {str(tag).lower() for tag in server.get("tags") or ()}
        return all(tag.lower() in has_tags for tag in self.tags)


EVERY_SERVER: Final = ServerFilter()


class ServerAnswer(Struct, frozen=True):
    """The answer of one server: `server` describes it, `data` is the document, or `error` says why not."""

    server: Document
    data: Document
    error: str | None = None
    rtt_ns: int = 0
    """The time from the question until this answer, in ns."""

    @property
    def name(self) -> str:
        return str(self.server.get("name") or self.server.get("id") or "")

    @property
    def cluster(self) -> str:
        return str(self.server.get("cluster") or "")


class ServerAnswers(Struct, frozen=True):
    """The answers of servers by their clusters and names, and the servers without one.

    `missing`: objects with `server`, its name, and `error`.
    """

    answers: list[ServerAnswer]
    missing: list[Document] = field(default_factory=list)


class ServerSource(Protocol):
    """A source of documents of servers."""

    @property
    def scope(self) -> str:
        """The servers and accounts that the documents are of: "system", "monitor" or "account"."""
        ...

    def ask(
        self,
        endpoint: str,
        options: Mapping[str, object] | None = None,
        *,
        among: ServerFilter = EVERY_SERVER,
        expect: int | None = None,
    ) -> ServerAnswers:
        """Return a document of each server.

        `expect`: so many servers; no further one is waited for, and fewer are missing ones. Raises: as the
        connection; ServerSourceError if this source does not have it.
        """
        ...


class SystemSource:
    """Documents by requests of a user of the system account.

    Answers end once all expected servers have answered, else after `QUIET` seconds of silence; a server that
    others have routes to is waited for until `timeout` seconds are over. Then it is missing.
    """

    scope: Final = "system"

    def __init__(self, connection: Connection, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Ask over a connection.

        Raises: ServerSourceError if its user is not one of the system account; ClientTimeoutError.
        """
        self.connection = connection
        self.timeout = timeout
        facts = connection.server_info
        self._own_cluster = str(facts.fields.get("cluster", ""))
        self._known = self._neighbours(facts.server_id, first=True)

    def ask(
        self,
        endpoint: str,
        options: Mapping[str, object] | None = None,
        *,
        among: ServerFilter = EVERY_SERVER,
        expect: int | None = None,
    ) -> ServerAnswers:
        request = {**(options or {}), **among.request()}
        answered: set[str] = set()
        answers = []
        for answer in self._answers(endpoint, request, among, expect, answered):
            if answer.server.get("id") in answered:
                continue
            answered.add(str(answer.server.get("id")))
            answers.append(answer)
        return _ordered(answers, self._missing(answers, answered, among, expect), expect)

    def _answers(
        self,
        endpoint: str,
        request: Document,
        among: ServerFilter,
        expect: int | None,
        answered: set[str],
    ) -> Iterator[ServerAnswer]:
        subject = "ACCOUNT.PING.STATZ" if endpoint == "ACCSTATZ" else f"SERVER.PING.{endpoint}"
        waited_for = {} if expect is not None else self._waited_for(among)
        began = time.perf_counter_ns()
        for answer in gather(
            self.connection,
            f"$SYS.REQ.{subject}",
            json.dumps(request).encode() if request else b"",
            count=expect,
            timeout=self.timeout,
            is_incomplete=lambda: bool(waited_for.keys() - answered),
        ):
            yield _answer_of(document_of(answer), endpoint, time.perf_counter_ns() - began)

    def _waited_for(self, among: ServerFilter) -> dict[str, str]:
        """The known servers, names by ids, that a request asks."""
        if among.host or among.tags:
            return {}  # nothing says which of them have these
        return {
            server_id: name
            for server_id, name in self._known.items()
            if among.takes({"name": name, "cluster": self._own_cluster})
        }

    def _missing(
        self, answers: list[ServerAnswer], answered: set[str], among: ServerFilter, expect: int | None
    ) -> list[Document]:
        # Of each other cluster one server says who its neighbours are.
        known = self._waited_for(among)
        if not among.host and not among.tags:
            others = {
                answer.cluster: answer for answer in answers if answer.cluster not in ("", self._own_cluster)
            }
            for cluster, answer in others.items():
                found = self._neighbours(str(answer.server.get("id")))
                known |= {k: v for k, v in found.items() if among.takes({"name": v, "cluster": cluster})}
        absent = sorted(name for server_id, name in known.items() if server_id not in answered)
        if expect is not None:
            absent = absent[: max(expect - len(answers), 0)]
        return [{"server": name, "error": NO_ANSWER} for name in absent]

    def _neighbours(self, server_id: str, *, first: bool = False) -> dict[str, str]:
        """Names by ids of the servers that a server has routes to.

        Raises, if `first`: ServerSourceError; ClientTimeoutError, since a server that is silent would not be
        missed then.
        """
        try:
            routes = ask_one(self.connection, f"$SYS.REQ.SERVER.{server_id}.ROUTEZ", timeout=self.timeout)
        except NoRespondersError as error:
            if first:
                raise ServerSourceError("only a user of the system account may ask servers") from error
            return {}
        except ClientTimeoutError:
            if first:
                raise
            return {}
        except SystemRequestError:
            return {}
        return {
            str(route["remote_id"]): str(route.get("remote_name") or route["remote_id"])
            for route in routes.get("routes") or ()
            if route.get("remote_id")
        }


class AccountSource:
    """Documents that every account may ask for about itself: its connections, its statistics."""

    scope: Final = "account"

    _SUBJECTS: Final = {"CONNZ": "CONNZ", "ACCSTATZ": "STATZ"}

    def __init__(self, connection: Connection, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.connection = connection
        self.timeout = timeout

    def ask(
        self,
        endpoint: str,
        options: Mapping[str, object] | None = None,
        *,
        among: ServerFilter = EVERY_SERVER,
        expect: int | None = None,
    ) -> ServerAnswers:
        if endpoint not in self._SUBJECTS:
            raise ServerSourceError(
                f"{endpoint} takes a user of the system account, or the server's monitoring port"
            )
        request = {**(options or {}), **among.request()}
        data = json.dumps(request).encode() if request else b""
        subject = f"$SYS.REQ.ACCOUNT.PING.{self._SUBJECTS[endpoint]}"
        began = time.perf_counter_ns()
        found = [
            _answer_of(document_of(answer), endpoint, time.perf_counter_ns() - began)
            for answer in gather(
                self.connection, subject, data, count=expect, quiet=QUIET, timeout=self.timeout
            )
        ]
        return _ordered(found, [], expect)


class MonitoringSource:
    """Documents by the pages of monitoring ports, one server an address such as `http://127.0.0.1:8222`.

    `user` and `password`, or a `token`, are shown to each; those of an address come first.
    """

    scope: Final = "monitor"

    def __init__(
        self,
        urls: Sequence[str],
        *,
        user: str | None = None,
        password: str = "",
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Read from these addresses. Raises: ValueError for one that is no address of a page."""
        self.timeout = timeout
        self._tls = tls
        self._header = _authorization(user, password, token)
        self._places = [_monitor_address(url) for url in urls]

    def ask(
        self,
        endpoint: str,
        options: Mapping[str, object] | None = None,
        *,
        among: ServerFilter = EVERY_SERVER,
        expect: int | None = None,
    ) -> ServerAnswers:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(len(self._places), 8)) as pool:
            found = list(pool.map(lambda place: self._ask(place, endpoint, options or {}), self._places))
        answers = [each for each in found if isinstance(each, ServerAnswer) and among.takes(each.server)]
        missing = [each for each in found if isinstance(each, dict)]
        if missing and len(missing) == len(self._places):
            from headrace.client.errors import ConnectError

            raise ConnectError("; ".join(f"{each['server']}: {each['error']}" for each in missing))
        return _ordered(answers, missing, expect)

    def _ask(
        self, place: SplitResult, endpoint: str, options: Mapping[str, object]
    ) -> ServerAnswer | Document:
        try:
            began = time.perf_counter_ns()
            status, varz = self._page(place, "varz", {})
            took = time.perf_counter_ns() - began
            if status != 200:
                return {"server": _shown(place), "error": _refused(status, varz)}
            server = _server_of(varz)
            if endpoint in _OF_VARZ:
                return ServerAnswer(server, _OF_VARZ[endpoint](varz), None, took)
            began = time.perf_counter_ns()
            status, page = self._page(place, endpoint.lower(), _query(endpoint, options))
            took = time.perf_counter_ns() - began
        except (OSError, ProtocolError) as error:
            return {"server": _shown(place), "error": f"{NO_ANSWER}: {error}"}
        if endpoint == "HEALTHZ" and isinstance(page.get("status"), str):
            code = {} if "status_code" in page else {"status_code": status}
            return ServerAnswer(server, {**page, **code}, None, took)
        if status != 200:
            return ServerAnswer(server, {}, _refused(status, page), took)
        return ServerAnswer(server, page, None, took)

    def _page(self, place: SplitResult, name: str, query: Mapping[str, str]) -> tuple[int, Document]:
        """Return the status of a page and its document. Raises: OSError, ProtocolError."""
        from http.client import HTTPException
        from urllib.parse import urlencode

        path = f"{place.path.rstrip('/')}/{name}" + (f"?{urlencode(query)}" if query else "")
        header = self._header if place.username is None else _of_address(place)
        connection = self._connect(place)
        try:
            connection.request("GET", path, headers={"Authorization": header} if header else {})
            answer = connection.getresponse()
            text = answer.read(MOST_OF_A_PAGE + 1)
        except HTTPException as error:
            raise ProtocolError(f"not the answer of a monitoring port: {error!r}") from error
        finally:
            connection.close()
        if len(text) > MOST_OF_A_PAGE:
            raise ProtocolError(f"a page of more than {MOST_OF_A_PAGE} bytes")
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if answer.status == 200 and not isinstance(found, dict):
            raise ProtocolError(f"not a page of a server: {text[:60]!r}")
        if isinstance(found, dict):
            return answer.status, found
        return answer.status, {"error": text.decode("utf-8", "backslashreplace").strip()[:200]}

    def _connect(self, place: SplitResult) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        host = place.hostname or ""
        if place.scheme == "https":
            return HTTPSConnection(host, place.port, timeout=self.timeout, context=self._tls)
        return HTTPConnection(host, place.port, timeout=self.timeout)


def pages(
    source: ServerSource,
    endpoint: str,
    key: str,
    options: Mapping[str, object] | None = None,
    *,
    among: ServerFilter = EVERY_SERVER,
    expect: int | None = None,
    most: int | None = None,
) -> ServerAnswers:
    """Return a document of each server whose list `key` is whole, or has `most` items, however many pages
    servers show it in. Raises: as `ServerSource.ask`.
    """
    if endpoint == "SUBSZ":
        return _in_one_page(source, options or {}, among=among, expect=expect, most=most)
    limit = _EXTENT if most is None else min(most, _EXTENT)
    offset = 0
    whole: dict[str, ServerAnswer] = {}
    missing: list[Document] | None = None
    while True:
        found = source.ask(
            endpoint, {**(options or {}), "offset": offset, "limit": limit}, among=among, expect=expect
        )
        missing = found.missing if missing is None else missing
        is_more = False
        for answer in found.answers:
            new = answer.data.get(key) or []
            before = whole.setdefault(str(answer.server.get("id")), answer)
            if before is not answer:
                before.data[key] = [*(before.data.get(key) or ()), *new]
            is_more = is_more or (bool(new) and int(answer.data.get("total", 0)) > offset + len(new))
        offset += limit
        if not is_more or (most is not None and offset >= most):
            return ServerAnswers(list(whole.values()), missing)


def _in_one_page(
    source: ServerSource,
    options: Mapping[str, object],
    *,
    among: ServerFilter,
    expect: int | None,
    most: int | None,
) -> ServerAnswers:
    """Ask for all subscriptions at once: nats-server shows them in another order each time."""
    limit = _EXTENT if most is None else most
    while True:
        found = source.ask("SUBSZ", {**options, "limit": limit}, among=among, expect=expect)
        total = max((int(answer.data.get("total", 0)) for answer in found.answers), default=0)
        if most is not None or total <= limit:
            return found
        limit = total + _EXTENT


# -- answers


def _answer_of(document: Document, endpoint: str, rtt_ns: int) -> ServerAnswer:
    """Return the answer that a document of a system request is. Raises: ProtocolError."""
    if endpoint == "IDZ":
        return ServerAnswer(document, document, None, rtt_ns)
    server = document.get("server")
    if not isinstance(server, dict):
        raise ProtocolError("an answer does not say which server it is of")
    error = document.get("error")
    if isinstance(error, dict):
        return ServerAnswer(server, {}, str(error.get("description", error.get("code"))), rtt_ns)
    data = document.get("statsz" if endpoint == "STATSZ" else "data")
    if not isinstance(data, dict):
        raise ProtocolError(f"an answer to {endpoint} has no data")
    return ServerAnswer(server, data, None, rtt_ns)


def _ordered(answers: list[ServerAnswer], missing: list[Document], expect: int | None) -> ServerAnswers:
    absent = (
        []
        if expect is None
        else [{"server": "?", "error": NO_ANSWER}] * (expect - len(answers) - len(missing))
    )
    return ServerAnswers(
        sorted(answers, key=lambda answer: (answer.cluster, answer.name)), [*missing, *absent]
    )


# -- pages


def _monitor_address(url: str) -> SplitResult:
    from urllib.parse import urlsplit

    place = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = place.port
    except ValueError:
        port = None
    if place.scheme not in ("http", "https") or not place.hostname or place.query or place.fragment:
        raise ValueError(f"not the address of a monitoring port: {_shown(place)!r}")
    if port is None and ":" in place.netloc.rpartition("@")[2].rpartition("]")[2]:
        raise ValueError(f"not a port: {_shown(place)!r}")
    return place


def _shown(place: SplitResult) -> str:
    """The address without a password."""
    return f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path}"


def _authorization(user: str | None, password: str, token: str | None) -> str | None:
    if token is not None:
        return f"Bearer {token}"
    if user is None:
        return None
    from base64 import b64encode

    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def _of_address(place: SplitResult) -> str | None:
    from urllib.parse import unquote

    user, password = unquote(place.username or ""), place.password
    return _authorization(user, unquote(password or ""), None)


def _refused(status: int, page: Mapping[str, Any]) -> str:
    text = str(page.get("error") or "")
    return f"refused with {status}{': ' if text else ''}{text}"


def _server_of(varz: Mapping[str, Any]) -> Document:
    """Describe the server of a page as its answers to system requests do."""
    cluster = varz.get("cluster") or {}
    jetstream = varz.get("jetstream") or {}
    found: Document = {
        "name": varz.get("server_name"),
        "host": varz.get("host"),
        "id": varz.get("server_id"),
        "cluster": cluster.get("name"),
        "domain": (jetstream.get("config") or {}).get("domain"),
        "ver": varz.get("version"),
        "tags": varz.get("tags"),
        "jetstream": bool(jetstream.get("config")),
        "time": varz.get("now"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _statsz(varz: Mapping[str, Any]) -> Document:
    """Return what a server says of itself as STATSZ, as far as its page has it."""
    same = (
        "start",
        "mem",
        "cores",
        "gomaxprocs",
        "cpu",
        "connections",
        "total_connections",
        "slow_consumers",
    )
    found: Document = {name: varz[name] for name in same if name in varz}
    found["subscriptions"] = varz.get("subscriptions", 0)
    found["slow_consumers"] = varz.get("slow_consumers", 0)
    found["sent"] = {"msgs": varz.get("out_msgs", 0), "bytes": varz.get("out_bytes", 0)}
    found["received"] = {"msgs": varz.get("in_msgs", 0), "bytes": varz.get("in_bytes", 0)}
    if (varz.get("jetstream") or {}).get("config"):
        found["jetstream"] = varz["jetstream"]
    return found


def _idz(varz: Mapping[str, Any]) -> Document:
    return {"name": varz.get("server_name"), "host": varz.get("host"), "id": varz.get("server_id")}


_OF_VARZ: Final[dict[str, Callable[[Document], Document]]] = {
    "VARZ": lambda varz: varz,
    "STATSZ": _statsz,
    "IDZ": _idz,
}

_RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "SUBSZ": {"account": "acc"},
    "GATEWAYZ": {"name": "gw_name", "accounts": "accs", "account_name": "acc_name"},
    "LEAFZ": {"account": "acc"},
    "ACCOUNTZ": {"account": "acc"},
    "ACCSTATZ": {"include_unused": "unused"},
    "JSZ": {
        "account": "acc",
        "consumer": "consumers",
        "direct_consumer": "direct-consumers",
        "leader_only": "leader-only",
        "stream_leader_only": "stream-leader-only",
    },
}
"""The names of options that a page has for those of a system request, where they differ."""

_STATES: Final = {0: "open", 1: "closed", 2: "any"}


def _query(endpoint: str, options: Mapping[str, object]) -> dict[str, str]:
    """Return the query of a page for the options of a system request."""
    names = _RENAMED.get(endpoint, {})
    found: dict[str, str] = {}
    for name, value in options.items():
        if value is None or value is False:
            continue
        if name == "subscriptions":
            found.setdefault("subs", "1")
        elif name == "subscriptions_detail":
            found["subs"] = "detail"
        elif name == "state" and isinstance(value, int):
            found["state"] = _STATES[value]
        else:
            found[names.get(name, name)] = "1" if value is True else str(value)
    return found
