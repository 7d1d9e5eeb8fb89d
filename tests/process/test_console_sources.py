"""All that the console's page asks for comes over WebSocket, to the users that it is for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.websocket import WebSocket
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "console.md"
VIEWER = re.search(
    r"^            \{\n                user: viewer\n.*?^            \}\n", PAGE.read_text(), re.M | re.S
)
"""The user of the page who may look and nothing else, as the document shows him."""


class Asking:
    """A user over WebSocket who asks, one request after the other."""

    def __init__(self, port: int, user: str) -> None:
        self._socket = WebSocket(port)
        login = {"user": user, "pass": "p", "verbose": False, "headers": True, "no_responders": True}
        self._socket.connect(json.dumps(login).encode())
        self._rest = b""
        self._inbox = f"_INBOX.{user}"  # users of one account hear each other's
        self._send(f"SUB {self._inbox}.* 1")
        self._count = 0

    def close(self) -> None:
        self._socket.socket.close()

    def _send(self, line: str, body: bytes | None = None) -> None:
        self._socket.send(line.encode() + b"\r\n" + (b"" if body is None else body + b"\r\n"))

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest:
            self._rest += self._socket.take_frame().data
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def ask(self, subject: str, body: object = None) -> Any:
        """The answer: a JSON document, a text, or what kept it from coming ("refused", "nobody")."""
        self._count += 1
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        self._send(f"PUB {subject} {self._inbox}.{self._count} {len(data)}", data)
        while True:
            line = self._line()
            if line.startswith(b"-ERR 'Permissions Violation for Publish"):
                return "refused"
            words = line.split(b" ")
            if words[0] not in (b"MSG", b"HMSG"):
                continue
            size = int(words[-1])
            while len(self._rest) < size + 2:
                self._rest += self._socket.take_frame().data
            head = int(words[-2]) if words[0] == b"HMSG" else 0
            headers, answer, self._rest = self._rest[:head], self._rest[head:size], self._rest[size + 2 :]
            if not words[1].endswith(b".%d" % self._count):
                continue
            if headers.startswith(b"NATS/1.0 503"):
                return "nobody"
            return json.loads(answer) if answer.startswith(b"{") else answer.decode()

    def hear(self, subject: str) -> bool:
        """True if the user may subscribe."""
        self._send(f"SUB {subject} 9")
        self._send("PING")
        heard = True
        while (line := self._line()) != b"PONG":
            heard = heard and not line.startswith(b"-ERR 'Permissions Violation for Subscription")
        self._send("UNSUB 9")
        return heard


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    assert VIEWER is not None, "docs/console.md shows a viewer"
    viewer = re.sub(r'password: ".*?"', "password: p", VIEWER[0])
    config = f"""
        accounts {{
            APP {{ jetstream: enabled, users: [ {{user: app, password: p}}, {viewer} ] }}
            SYS {{ users: [{{user: operator, password: p}}] }}
        }}
        system_account: SYS
        jetstream {{ store_dir: "{tmp_path_factory.mktemp("store")}" }}
        websocket {{ listen: "127.0.0.1:-1", no_tls: true, console: true }}
    """
    file = tmp_path_factory.mktemp("conf") / "server.conf"
    file.write_text(config)
    with Server(config=file) as running:
        port = running.server.websocket_port
        app = Asking(port, "app")
        app.ask(
            "$JS.API.STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"], "allow_direct": True}
        )
        app.ask(
            "$JS.API.STREAM.CREATE.KV_box",
            {"name": "KV_box", "subjects": ["$KV.box.>"], "allow_direct": True},
        )
        app.ask("orders.1", b"hello")
        consumer = {"stream_name": "ORDERS", "config": {"durable_name": "c", "ack_policy": "explicit"}}
        app.ask("$JS.API.CONSUMER.CREATE.ORDERS.c", consumer)
        app.close()
        yield running


@pytest.fixture(scope="module")
def users(server: Server) -> Iterator[dict[str, Asking]]:
    port = server.server.websocket_port or 0
    made = {name: Asking(port, name) for name in ("app", "viewer", "operator")}
    yield made
    for user in made.values():
        user.close()


OF_THE_SYSTEM = (
    *("STATSZ", "VARZ", "CONNZ", "SUBSZ", "ROUTEZ", "GATEWAYZ", "LEAFZ", "IDZ", "ACCOUNTZ", "JSZ", "HEALTHZ"),
)


@pytest.mark.parametrize("name", OF_THE_SYSTEM)
def test_operator_is_told_of_servers_and_nobody_else(users: dict[str, Asking], name: str) -> None:
    found = users["operator"].ask(f"$SYS.REQ.SERVER.PING.{name}")

    assert isinstance(found, dict)
    assert "error" not in found
    # CONNZ of an account's own connections has this subject, too.
    assert users["app"].ask(f"$SYS.REQ.SERVER.PING.{name}") == "nobody" or name == "CONNZ"
    assert users["viewer"].ask(f"$SYS.REQ.SERVER.PING.{name}") == "refused"


@pytest.mark.parametrize("name", ["INFO", "JSZ", "CONNZ", "SUBSZ", "LEAFZ", "STATZ"])
def test_operator_is_told_of_one_account(users: dict[str, Asking], name: str) -> None:
    found = users["operator"].ask(f"$SYS.REQ.ACCOUNT.APP.{name}")

    assert isinstance(found, dict)
    assert "error" not in found
    assert users["app"].ask(f"$SYS.REQ.ACCOUNT.APP.{name}") == "nobody"


def test_operator_hears_events_and_reads_what_a_reload_would_change(
    users: dict[str, Asking], server: Server
) -> None:
    operator = users["operator"]

    assert all(
        operator.hear(subject) for subject in ("$SYS.SERVER.*.STATSZ", "$SYS.ACCOUNT.*.>", "$SYS.SERVER.*.>")
    )
    server_id = server.server.server_id
    assert operator.ask(f"$SYS.REQ.SERVER.{server_id}.CONFIG.DIFF")["data"]["differences"] == []
    assert users["app"].ask(f"$SYS.REQ.SERVER.{server_id}.CONFIG.DIFF") == "nobody"


READING = (
    ("$SYS.REQ.USER.INFO", None, "user"),
    ("$SYS.REQ.ACCOUNT.PING.CONNZ", {"subscriptions": True}, "connections"),
    ("$SYS.REQ.ACCOUNT.PING.STATZ", None, "account_statz"),
    ("$JS.API.INFO", None, "limits"),
    ("$JS.API.STREAM.NAMES", None, "streams"),
    ("$JS.API.STREAM.LIST", {"offset": 0}, "streams"),
    ("$JS.API.STREAM.INFO.ORDERS", {"subjects_filter": ">"}, "state"),
    ("$JS.API.CONSUMER.NAMES.ORDERS", None, "consumers"),
    ("$JS.API.CONSUMER.LIST.ORDERS", None, "consumers"),
    ("$JS.API.CONSUMER.INFO.ORDERS.c", None, "num_pending"),
    ("$JS.API.STREAM.MSG.GET.ORDERS", {"seq": 1}, "message"),
)


@pytest.mark.parametrize("user", ["app", "viewer"])
@pytest.mark.parametrize(
    ("subject", "body", "key"), READING, ids=lambda value: value if isinstance(value, str) else ""
)
def test_account_is_read_by_who_may_look(
    users: dict[str, Asking], user: str, subject: str, body: object, key: str
) -> None:
    found = users[user].ask(subject, body)

    assert isinstance(found, dict), found
    assert key in {**found, **found.get("data", {})}, found


@pytest.mark.parametrize("user", ["app", "viewer"])
def test_messages_are_read_by_direct_gets(users: dict[str, Asking], user: str) -> None:
    assert users[user].ask("$JS.API.DIRECT.GET.ORDERS", {"seq": 1, "batch": 1}) == "hello"
    assert users[user].ask("$JS.API.DIRECT.GET.ORDERS.orders.1") == "hello"


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("orders.1", b"x"),
        ("$KV.box.key", b"x"),
        ("$JS.API.STREAM.CREATE.NEW", {"name": "NEW"}),
        ("$JS.API.STREAM.UPDATE.ORDERS", {"name": "ORDERS"}),
        ("$JS.API.STREAM.DELETE.ORDERS", None),
        ("$JS.API.STREAM.PURGE.ORDERS", None),
        ("$JS.API.STREAM.MSG.DELETE.ORDERS", {"seq": 1}),
        ("$JS.API.STREAM.SNAPSHOT.ORDERS", {}),
        ("$JS.API.STREAM.RESTORE.NEW", {}),
        ("$JS.API.CONSUMER.CREATE.ORDERS.n", {}),
        ("$JS.API.CONSUMER.DELETE.ORDERS.c", None),
        ("$JS.API.CONSUMER.PAUSE.ORDERS.c", {}),
        ("$JS.API.CONSUMER.RESET.ORDERS.c", {}),
        ("$JS.API.CONSUMER.MSG.NEXT.ORDERS.c", None),
        ("$JS.ACK.ORDERS.c.1.1.1.1.1", b"+ACK"),
        ("$SYS.REQ.SERVER.X.KICK", {"cid": 1}),
        ("_INBOX.one.9", b"x"),
    ],
)
def test_viewer_changes_nothing(users: dict[str, Asking], subject: str, body: object) -> None:
    assert users["viewer"].ask(subject, body) == "refused"


def test_viewer_hears_answers_only(users: dict[str, Asking]) -> None:
    assert [users["viewer"].hear(subject) for subject in ("orders.>", ">", "$JS.EVENT.>")] == [False] * 3
    assert users["app"].hear("$JS.EVENT.ADVISORY.>")
