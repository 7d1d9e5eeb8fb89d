"""Documents of servers (varz, connz, jsz, …): by the system account, or from monitoring ports.

Both ways give the same documents. Options have the names of system requests; pages of monitoring ports are
asked with theirs. Without the system account there is what servers tell of one's own account. Never lives
here: what is made of the documents.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from urllib.parse import SplitResult

    from headrace.cli.call import Call
    from headrace.client.blocking import Connection

_MOST_BYTES: Final = 256 * 1024 * 1024
"""Bytes of a page; a longer one is an error, so that no address fills the memory."""

_PAGE_NAMES: Final = {"subscriptions": "subs", "consumer": "consumers"}
_STATES: Final = ("open", "closed", "any")


class ServerDocument(Struct, frozen=True):
    """A document of one server. `asked_ns`, `answered_ns`: the times here before and after, ns since 1970."""

    server: str
    server_id: str
    data: dict[str, Any]
    asked_ns: int
    answered_ns: int


class DocumentSource(Protocol):
    """A way to documents of servers."""

    @property
    def is_account(self) -> bool:
        """True if it tells only of the user's own account."""

    @property
    def open_addresses(self) -> tuple[str, ...]:
        """The addresses that were read without credentials."""

    def documents(self, endpoint: str, **options: object) -> list[ServerDocument]:
        """Return a document of each server, `endpoint` such as "varz".

        Raises: NoRespondersError if the user may not ask; CommandError; ClientError.
        """


class MonitorPages:
    """The monitoring ports at some addresses."""

    is_account = False

    def __init__(self, urls: Sequence[str], timeout: float, *, user: str | None, secret: str | None) -> None:
        """Take addresses such as `http://127.0.0.1:8222`. Raises: CommandError for one that is none."""
        self._addresses = [_address(url) for url in urls]
        self._timeout = timeout
        self._user = user
        self._secret = secret
        self._known: dict[str, tuple[str, str]] = {}
        """Name and id of the server at an address: not every document has them."""

    @property
    def open_addresses(self) -> tuple[str, ...]:
        if self._secret is not None:
            return ()
        return tuple(each.hostname or "" for each in self._addresses if each.username is None)

    def documents(self, endpoint: str, **options: object) -> list[ServerDocument]:
        found = []
        for address in self._addresses:
            asked = time.time_ns()
            data = self._page(address, endpoint, options)
            place = address.netloc.rpartition("@")[2]
            if "server_name" in data and "server_id" in data:
                self._known[place] = str(data["server_name"]), str(data["server_id"])
            name, identity = self._known.get(place, (place, str(data.get("server_id", place))))
            found.append(ServerDocument(name, identity, data, asked, time.time_ns()))
        return found

    def _page(self, address: SplitResult, endpoint: str, options: dict[str, object]) -> dict[str, Any]:
        from http.client import HTTPConnection, HTTPException, HTTPSConnection
        from urllib.parse import urlencode

        # http.client and not urllib: no redirection carries the password elsewhere, no proxy is asked.
        query = urlencode({_PAGE_NAMES.get(name, name): _page_value(name, v) for name, v in options.items()})
        path = f"{address.path.rstrip('/')}/{endpoint}" + (f"?{query}" if query else "")
        kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        where = f"{address.scheme}://{address.netloc.rpartition('@')[2]}/{endpoint}"
        connection = kind(address.hostname or "", address.port, timeout=self._timeout)
        try:
            connection.request("GET", path, headers=self._headers(address))
            answer = connection.getresponse()
            body = answer.read(_MOST_BYTES + 1)
        except TimeoutError:
            raise CommandError(f"{where}: no answer in {self._timeout:g}s", ExitCode.TIMED_OUT) from None
        except (OSError, HTTPException) as error:
            raise CommandError(f"{where}: {error}", ExitCode.NO_CONNECTION) from None
        finally:
            connection.close()
        if answer.status in (401, 403):
            raise CommandError(f"{where}: {answer.reason}; say --monitor-user", ExitCode.NO_CONNECTION)
        is_told = answer.status == 200 or (endpoint == "healthz" and body.lstrip().startswith(b"{"))
        if not is_told:
            raise CommandError(f"{where}: {answer.status} {answer.reason}", ExitCode.REFUSED)
        if len(body) > _MOST_BYTES:
            raise CommandError(f"{where}: more than {_MOST_BYTES} bytes")
        try:
            data = json.loads(body)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise CommandError(f"{where}: no JSON of a server", ExitCode.REFUSED)
        return data

    def _headers(self, address: SplitResult) -> dict[str, str]:
        from base64 import b64encode
        from urllib.parse import unquote

        user, secret = self._user, self._secret
        if address.username is not None:
            user, secret = unquote(address.username), unquote(address.password or "")
        if secret is None:
            return {}
        if user is None:
            return {"Authorization": f"Bearer {secret}"}
        return {"Authorization": "Basic " + b64encode(f"{user}:{secret}".encode()).decode()}


def _address(url: str) -> SplitResult:
    from urllib.parse import urlsplit

    try:
        address = urlsplit(url if "://" in url else f"http://{url}")
        is_right = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:
        is_right = False
    if not is_right:
        raise CommandError("--monitor takes an address such as http://127.0.0.1:8222", ExitCode.WRONG_USE)
    if address.port is None:
        address = address._replace(netloc=f"{address.netloc}:8222")
    return address


def _page_value(name: str, value: object) -> object:
    if name == "state" and isinstance(value, int):
        return _STATES[value]
    return int(value) if isinstance(value, bool) else value


class SystemAnswers:
    """The servers that a connection of the system account reaches: `expected` of them, None: all that answer.

    `is_account`: the connection is not the system's, and servers tell of its account.
    """

    open_addresses: tuple[str, ...] = ()

    def __init__(
        self,
        connection: Connection,
        timeout: float,
        *,
        server: str | None = None,
        is_account: bool = False,
        expected: int | None = None,
    ) -> None:
        self.connection = connection
        self.is_account = is_account
        self._timeout = timeout
        self._server = server
        self._expected = 1 if server else expected

    def documents(self, endpoint: str, **options: object) -> list[ServerDocument]:
        from headrace.client.system import gather_documents

        scope = "ACCOUNT" if self.is_account else "SERVER"
        subject = f"$SYS.REQ.{scope}.PING.{endpoint.upper()}"
        request = {**options, **({"server_name": self._server} if self._server else {})}
        asked = time.time_ns()
        found = []
        answers = gather_documents(
            self.connection, subject, request, count=self._expected, timeout=self._timeout
        )
        for answer in answers:
            server, data = answer.get("server"), answer.get("data")
            if isinstance(server, dict) and isinstance(data, dict):
                name, identity = str(server.get("name", "")), str(server.get("id", ""))
                found.append(ServerDocument(name, identity, data, asked, time.time_ns()))
        return found


@contextmanager
def document_source(call: Call, *, server: str | None = None) -> Iterator[DocumentSource]:
    """The source of documents that the flags of a command say, for a block; `server` is the name of one.

    Raises: CommandError; ClientError.
    """
    if call.options.monitor:
        options = call.options
        if (options.monitor_user is None) != (options.monitor_password_file is None):
            raise CommandError("--monitor-user needs --monitor-password-file", ExitCode.WRONG_USE)
        secret = _secret(options.monitor_password_file or options.monitor_token_file)
        yield MonitorPages(options.monitor, call.timeout, user=options.monitor_user, secret=secret)
        return
    from headrace.client.errors import NoRespondersError

    with call.connected() as connection:
        source = SystemAnswers(connection, call.timeout, server=server)
        try:
            answered = source.documents("varz")
        except NoRespondersError:
            yield SystemAnswers(connection, call.timeout, server=server, is_account=True)
            return
        if server and not answered:
            raise CommandError(f"no server has the name {server!r}", ExitCode.NOT_THERE)
        yield SystemAnswers(connection, call.timeout, server=server, expected=len(answered) or None)


def _secret(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', error)}", ExitCode.NO_CONNECTION) from None
