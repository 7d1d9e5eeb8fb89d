"""The system account: the same happens on the Go server and on Headrace, the same is told and answered.

Events and answers are compared field by field, in their order; numbers that cannot agree only by their type.
"""

from __future__ import annotations

import json
import re
import signal
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.processes import EPOLL, HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.processes import Program
    from harness.wire import Wire

pytestmark = pytest.mark.clients

CONFIG: Final = """
server_name: one
server_tags: ["Red", "x:1"]
accounts {
  A {
    users: [
      {user: a, password: a}
      {user: r, password: r, permissions: {publish: {allow: "$SYS.>", deny: "no.>"}, subscribe: {deny: x}}}
    ]
    limits: {max_connections: 2}
  }
  B { users: [{user: b, password: b}] }
  SYS { users: [{user: s, password: s}] }
}
system_account: SYS
authorization { timeout: 1 }
lame_duck_duration: "30s", lame_duck_grace_period: "1s"
"""

_FIGURES: Final = {
    *("mem", "cores", "cpu", "gomaxprocs", "sent", "received", "sent_to_clients", "received_from_clients"),
    *("subscriptions", "num_subscriptions", "connections", "total_connections", "active_accounts", "seq"),
    *("in_msgs", "in_bytes", "out_msgs", "out_bytes", "pending_bytes", "rtt", "uptime", "idle", "stalls"),
    *("in_client_msgs", "in_client_bytes", "out_client_msgs", "out_client_bytes"),
    *("num_cache", "num_inserts", "num_removes", "num_matches", "cache_hit_rate", "max_fanout", "avg_fanout"),
    *("cid", "port", "git_commit", "go", "config_digest", "version", "sublist_stats", "feature_flags"),
}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
_NUID: Final = re.compile(r"[0-9A-Za-z]{22}")
_UNORDERED: Final = {"accounts", "imports", "exports", "subscriptions_list", "account_statz"}


def normal(value: Any, server_id: str, key: str = "") -> Any:
    """The shape of a document, in its order, with what is the same everywhere."""
    if isinstance(value, dict) and key not in _FIGURES:
        return [(name, normal(held, server_id, name)) for name, held in value.items()]
    if isinstance(value, list) and key not in _FIGURES:
        found = [normal(held, server_id) for held in value]
        return sorted(found, key=repr) if key in _UNORDERED else found
    if key in _FIGURES:
        return "<figure>" if isinstance(value, int | float | str) else f"<{type(value).__name__}>"
    if key == "id" and (isinstance(value, int) or _NUID.fullmatch(value)):
        return f"<id: {type(value).__name__}>"
    if isinstance(value, str) and _TIME.fullmatch(value):
        return "<time>"
    return "<server>" if value == server_id else value


class Observer:
    """A user of the system account of one server."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.wire = server.connect(b'{"verbose":false,"user":"s","pass":"s","headers":true}')
        self.id: str = self.wire.info["server_id"]
        self._inboxes = 0

    def listen(self) -> None:
        self.wire.send(b"SUB $SYS.SERVER.> 1\r\nSUB $SYS.ACCOUNT.> 2\r\nPING\r\n")
        self.wire.take_through(b"PONG\r\n")

    def events_until(self, last: str, count: int = 1, total: int = 0) -> list[Any]:
        """What is told until `last` has come so often, and `total` events in all, without statistics.

        The Go server tells of the end of a connection from several threads: their number says when it is all.
        """
        found: list[Any] = []
        while count > 0 or len(found) < total:
            subject, payload = self.next_message()
            is_own = ".SYS." in subject  # of this observer and of the one before
            if is_own or (subject.endswith(".STATSZ") and subject != last):
                continue
            count -= subject == last
            found.append((subject, normal(json.loads(payload), self.id)))
        return sorted(found)

    def next_message(self) -> tuple[str, bytes]:
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline, "no event came"
            line = self.wire.take_line()
            if line.startswith((b"MSG", b"HMSG")):
                words = line.split()
                size = int(words[-1])
                body = b""
                while len(body) < size + 2:
                    body += self.wire.take_through(b"\n")
                skipped = int(words[-2]) if line.startswith(b"HMSG") else 0
                return words[1].decode().replace(self.id, "<server>"), body[skipped:size]

    def ask(self, subject: str, payload: bytes, marker: str, headers: bytes = b"") -> Any:
        """The answer, normalised; None when the marker, asked behind it, is answered alone."""
        self._inboxes += 1
        inbox = f"in.{self._inboxes}"
        subject, marker = (text.replace("<server>", self.id) for text in (subject, marker))
        head = f"PUB {subject} {inbox}.answer {len(payload)}\r\n".encode()
        if headers:
            total = len(headers) + len(payload)
            head = f"HPUB {subject} {inbox}.answer {len(headers)} {total}\r\n".encode() + headers
        self.wire.send(
            f"SUB {inbox}.* 9\r\n".encode()
            + head
            + payload
            + f"\r\nPUB {marker} {inbox}.marker 0\r\n\r\n".encode()
        )
        answer: Any = None
        while True:
            where, body = self.next_message()
            if where == f"{inbox}.marker":
                break
            assert where == f"{inbox}.answer", where
            answer = normal(json.loads(body), self.id) if body.startswith(b"{") else body
        self.wire.send(b"UNSUB 9\r\n")
        return answer

    def close(self) -> None:
        self.wire.close()


def client(server: ServerProcess, fields: str) -> Wire:
    wire = server.connect()
    wire.send(f'CONNECT {{"verbose":false,"pedantic":false,{fields}}}\r\nPING\r\n'.encode())
    return wire


# ---- events -------------------------------------------------------------------------------------


def comes_and_goes(server: ServerProcess) -> None:
    with client(server, '"user":"a","pass":"a","name":"n","lang":"l","version":"1"') as wire:
        wire.take_through(b"PONG\r\n")
        wire.send(b"SUB x 1\r\nPUB x 2\r\nhi\r\nPING\r\n")
        wire.take_through(b"PONG\r\n")


def wrong_password(server: ServerProcess) -> None:
    with client(server, '"user":"a","pass":"wrong","name":"n"') as wire:
        wire.take_through(b"-ERR 'Authorization Violation'\r\n")


def no_credentials(server: ServerProcess) -> None:
    with client(server, '"name":"n"') as wire:
        wire.take_through(b"-ERR 'Authorization Violation'\r\n")


def op_instead_of_credentials(server: ServerProcess) -> None:
    with server.connect() as wire:
        wire.send(b"SUB x 1\r\n")
        wire.take_through(b"-ERR 'Authorization Violation'\r\n")


def token(server: ServerProcess) -> None:
    with client(server, '"auth_token":"secret"') as wire:
        wire.take_through(b"-ERR 'Authorization Violation'\r\n")


def protocol_error(server: ServerProcess) -> None:
    with client(server, '"user":"b","pass":"b"') as wire:
        wire.take_through(b"PONG\r\n")
        wire.send(b"BOGUS\r\n")
        wire.take_through(b"-ERR 'Unknown Protocol Operation'\r\n")


def other_account(server: ServerProcess) -> None:
    with client(server, '"user":"a","pass":"a"') as wire:
        wire.take_through(b"PONG\r\n")
        wire.send(b'CONNECT {"verbose":false,"user":"b","pass":"b"}\r\nPING\r\n')
        wire.take_through(b"PONG\r\n")


def second_connect_refused(server: ServerProcess) -> None:
    with client(server, '"user":"b","pass":"b"') as wire:
        wire.take_through(b"PONG\r\n")
        wire.send(b'CONNECT {"verbose":false,"user":"b","pass":"wrong"}\r\n')
        wire.take_through(b"-ERR 'Authorization Violation'\r\n")


def silence(server: ServerProcess) -> None:
    with server.connect() as wire:
        wire.take_through(b"-ERR 'Authentication Timeout'\r\n")


def too_much_payload(server: ServerProcess) -> None:
    with client(server, '"user":"b","pass":"b"') as wire:
        wire.take_through(b"PONG\r\n")
        wire.send(b"PUB x 99999999\r\n")
        wire.take_through(b"-ERR 'Maximum Payload Violation'\r\n")


def full_account(server: ServerProcess) -> None:
    with client(server, '"user":"a","pass":"a"') as one:
        one.take_through(b"PONG\r\n")
        with client(server, '"user":"a","pass":"a"') as two:
            two.take_through(b"PONG\r\n")
            with client(server, '"user":"a","pass":"a"') as three:
                three.take_through(b"-ERR 'maximum account active connections exceeded'\r\n")


SCENES: Final[dict[Callable[[ServerProcess], None], tuple[str, int]]] = {
    comes_and_goes: ("$SYS.ACCOUNT.A.DISCONNECT", 1),
    wrong_password: ("$SYS.ACCOUNT.$G.DISCONNECT", 1),
    no_credentials: ("$SYS.ACCOUNT.$G.DISCONNECT", 1),
    op_instead_of_credentials: ("$SYS.ACCOUNT.$G.DISCONNECT", 1),
    token: ("$SYS.ACCOUNT.$G.DISCONNECT", 1),
    protocol_error: ("$SYS.ACCOUNT.B.DISCONNECT", 1),
    other_account: ("$SYS.ACCOUNT.B.DISCONNECT", 1),
    second_connect_refused: ("$SYS.ACCOUNT.$G.DISCONNECT", 1),
    silence: ("$SYS.ACCOUNT.$G.DISCONNECT", 1),
    too_much_payload: ("$SYS.ACCOUNT.B.DISCONNECT", 1),
    full_account: ("$SYS.ACCOUNT.A.DISCONNECT", 3),
}
"""What happens, and how often the last event of it comes."""


@pytest.fixture(scope="module", params=HEADRACES, ids=str)
def program(request: pytest.FixtureRequest) -> Program:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def servers(
    program: Program, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with (
        ServerProcess(NATS_SERVER, tmp_path_factory.mktemp("go"), config=CONFIG) as go,
        ServerProcess(program, tmp_path_factory.mktemp("ours"), config=CONFIG) as ours,
    ):
        yield go, ours


def told(server: ServerProcess, scene: Callable[[ServerProcess], None], total: int = 0) -> list[Any]:
    observer = Observer(server)
    try:
        observer.listen()
        scene(server)
        return observer.events_until(*SCENES[scene], total)
    finally:
        observer.close()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_events_are_the_go_servers(
    servers: tuple[ServerProcess, ServerProcess], scene: Callable[[ServerProcess], None]
) -> None:
    go, ours = servers

    found = told(ours, scene)
    assert found == told(go, scene, len(found))


def test_shutdown_and_statistics_are_told_as_the_go_server_does(tmp_path: Path) -> None:
    def last_words(program: Program) -> list[Any]:
        folder = tmp_path / program.name
        folder.mkdir()
        with ServerProcess(program, folder, config=CONFIG) as server:
            observer = Observer(server)
            observer.listen()
            observer.wire.send(b"PUB $SYS.REQ.SERVER.PING 0\r\n\r\n")
            found = observer.events_until("$SYS.SERVER.<server>.STATSZ")
            server.signal(signal.SIGTERM)
            found += observer.events_until("$SYS.SERVER.<server>.SHUTDOWN")
            observer.close()
            return [event for event in found if event[0].endswith(("STATSZ", "SHUTDOWN"))]

    ours, go = last_words(EPOLL), last_words(NATS_SERVER)
    assert ours == go
    assert len(ours) == 2


@pytest.mark.parametrize("program", [NATS_SERVER, *HEADRACES], ids=str)
def test_lame_duck_mode_is_told(program: Program, tmp_path: Path) -> None:
    with ServerProcess(program, tmp_path, config=CONFIG) as server:
        observer = Observer(server)
        observer.listen()
        server.signal(signal.SIGUSR2)
        ((_, event),) = observer.events_until("$SYS.SERVER.<server>.LAMEDUCK")
        observer.close()
        server.kill()

    assert [name for name, _ in event] == [
        *("name", "host", "id", "ver", "tags", "feature_flags", "jetstream", "flags", "seq", "time")
    ]


# ---- requests -----------------------------------------------------------------------------------

_PING: Final = "$SYS.REQ.SERVER.PING"
_IDZ: Final = "$SYS.REQ.SERVER.PING.IDZ"


def _requests() -> Iterator[tuple[str, bytes, str]]:
    """(subject, payload, marker)"""
    for name in ("", ".IDZ", ".STATSZ", ".SUBSZ", ".CONNZ", ".ROUTEZ", ".GATEWAYZ", ".LEAFZ", ".ACCOUNTZ"):
        yield _PING + name, b"", _PING + name
    for name in (".JSZ", ".HEALTHZ", ".RAFTZ"):
        yield _PING + name, b"", _PING + name
    for name in ("IDZ", "STATSZ", "HEALTHZ", "ACCOUNTZ", "CONNZ"):
        yield f"$SYS.REQ.SERVER.<server>.{name}", b"", f"{_PING}.{name}"
    yield "$SYS.REQ.SERVER.NOBODY.IDZ", b"", _IDZ
    yield f"{_PING}.JSZ", b'{"leader_only":true}', f"{_PING}.JSZ"
    yield f"{_PING}.HEALTHZ", b'{"stream":"x"}', f"{_PING}.HEALTHZ"
    yield f"{_PING}.HEALTHZ", b'{"stream":"x","details":true}', f"{_PING}.HEALTHZ"
    yield f"{_PING}.ACCOUNTZ", b'{"account":"A"}', f"{_PING}.ACCOUNTZ"
    yield f"{_PING}.ACCOUNTZ", b'{"account":"SYS"}', f"{_PING}.ACCOUNTZ"
    yield f"{_PING}.ACCOUNTZ", b'{"account":"$G"}', f"{_PING}.ACCOUNTZ"
    yield f"{_PING}.ACCOUNTZ", b'{"account":"NOPE"}', f"{_PING}.ACCOUNTZ"
    for payload in (
        b'{"auth":true,"subscriptions_detail":true}',
        b'{"subscriptions":true}',
        b'{"state":1}',
        b'{"state":2,"limit":1}',
        b'{"state":9}',
        b'{"acc":"B","auth":true}',
        b'{"acc":"NOPE","offset":3,"limit":5}',
        b'{"sort":"msgs_to","user":"s","auth":true}',
        b'{"sort":"bogus"}',
        b'{"sort":"stop"}',
        b'{"filter_subject":"x"}',
        b'{"cid":99999}',
        b'{"limit":"x"}',
    ):
        yield f"{_PING}.CONNZ", payload, f"{_PING}.CONNZ"
    for payload in (b'{"test":"a.*"}', b'{"account":"B","subscriptions":true}', b'{"limit":-1,"offset":-1}'):
        yield f"{_PING}.SUBSZ", payload, f"{_PING}.SUBSZ"
    yield "$SYS.REQ.ACCOUNT.B.SUBSZ", b"", "$SYS.REQ.ACCOUNT.B.SUBSZ"
    for name in ("CONNZ", "LEAFZ", "JSZ", "INFO", "STATZ"):
        yield f"$SYS.REQ.ACCOUNT.SYS.{name}", b"", f"$SYS.REQ.ACCOUNT.SYS.{name}"
    for name in ("CONNZ", "INFO", "STATZ", "CONNS", "JSZ"):
        yield f"$SYS.REQ.ACCOUNT.NOPE.{name}", b"", f"$SYS.REQ.ACCOUNT.SYS.{name}"
    for name in ("STATZ", "CONNS"):  # there are no clients in it
        yield f"$SYS.REQ.ACCOUNT.B.{name}", b"", f"$SYS.REQ.ACCOUNT.SYS.{name}"
    yield "$SYS.REQ.ACCOUNT.B.STATZ", b'{"include_unused":true}', "$SYS.REQ.ACCOUNT.SYS.STATZ"
    yield "$SYS.REQ.ACCOUNT.SYS.CONNS", b'{"acc":"SYS"}', "$SYS.REQ.ACCOUNT.SYS.CONNS"
    yield "$SYS.REQ.ACCOUNT.SYS.CONNS", b'{"acc":"B"}', "$SYS.REQ.ACCOUNT.SYS.CONNS"
    yield "$SYS.REQ.ACCOUNT.SYS.CONNS", b"nonsense", "$SYS.REQ.ACCOUNT.SYS.CONNS"
    for payload in (b"", b'{"accounts":["SYS","NOPE"]}', b'{"accounts":["B"]}', b'{"include_unused":true}'):
        yield "$SYS.REQ.ACCOUNT.PING.STATZ", payload, "$SYS.REQ.ACCOUNT.PING.STATZ"
    yield "$SYS.REQ.ACCOUNT.PING.CONNZ", b"", "$SYS.REQ.ACCOUNT.SYS.CONNZ"
    yield "$SYS.REQ.USER.INFO", b"", "$SYS.REQ.USER.INFO"
    yield "$SYS.REQ.USER.SYS.INFO", b"", "$SYS.REQ.USER.INFO"
    yield "$SYS.DEBUG.SUBSCRIBERS", b"in.*", "$SYS.DEBUG.SUBSCRIBERS"
    yield "$SYS.DEBUG.SUBSCRIBERS", b"in.x", "$SYS.DEBUG.SUBSCRIBERS"
    yield "$SYS.DEBUG.SUBSCRIBERS", b"in.x group", "$SYS.DEBUG.SUBSCRIBERS"
    for payload in (
        b'{"server_name":"on"}',
        b'{"server_name":"On"}',
        b'{"exact_match":true,"server_name":"on"}',
        b'{"exact_match":true,"server_name":"one"}',
        b'{"tags":["RED"," x:1 "]}',
        b'{"tags":["red","blue"]}',
        b'{"host":"127"}',
        b'{"host":"128"}',
        b'{"cluster":"c"}',
        b'{"domain":"d"}',
        b"{",
        b"[]",
        b'{"tags":[1]}',
    ):
        yield f"{_PING}.HEALTHZ", payload, f"{_PING}.HEALTHZ"
        yield f"{_PING}.STATSZ", payload, f"{_PING}.STATSZ"
    for name in ("KICK", "LDM"):
        for payload in (b"", b"x", b"null", b'{"cid":77}', b'{"cid":"x"}', b'{"cid":77,"server_name":"no"}'):
            yield f"$SYS.REQ.SERVER.<server>.{name}", payload, _IDZ


REQUESTS: Final = list(_requests())


@pytest.mark.parametrize(
    "number", range(len(REQUESTS)), ids=[f"{subject[9:]}-{body.decode()}" for subject, body, _ in REQUESTS]
)
def test_answer_is_the_go_servers(servers: tuple[ServerProcess, ServerProcess], number: int) -> None:
    answers = []
    for server in servers:
        observer = Observer(server)
        try:
            answers.append(observer.ask(*REQUESTS[number]))
        finally:
            observer.close()
    go, ours = answers

    assert ours == go


@pytest.mark.parametrize("payload", [b"", b'{"name":"nothing"}', b'{"debug":"x"}', b"["])
def test_profiles_are_answered_as_by_the_go_server(
    servers: tuple[ServerProcess, ServerProcess], payload: bytes
) -> None:
    """Alone: the Go server makes them beside all other requests."""
    answers = []
    for server in servers:
        observer = Observer(server)
        observer.wire.send(
            b"SUB in 9\r\nPUB $SYS.REQ.SERVER.PING.PROFILEZ in %d\r\n%b\r\n" % (len(payload), payload)
        )
        _, body = observer.next_message()
        answers.append(normal(json.loads(body), observer.id))
        observer.close()
    go, ours = answers

    assert ours == go


USER_REQUESTS: Final = (
    *("$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING.CONNZ"),
    *("$SYS.REQ.ACCOUNT.PING.STATZ", "$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.VARZ"),
    *("$SYS.REQ.ACCOUNT.A.CONNZ", "$SYS.REQ.ACCOUNT.B.CONNZ", "$SYS.REQ.ACCOUNT.SYS.STATZ"),
    *(
        "$SYS.REQ.USER.A.INFO",
        "$SYS.REQ.USER.SYS.INFO",
        "$SYS.DEBUG.SUBSCRIBERS",
        "$SYS.REQ.ACCOUNT.PING.INFO",
    ),
)


@pytest.mark.parametrize("subject", USER_REQUESTS)
@pytest.mark.parametrize("payload", [b"", b'{"acc":"SYS","accounts":["SYS"],"auth":true}', b"x"])
def test_user_of_another_account_is_answered_as_by_the_go_server(
    servers: tuple[ServerProcess, ServerProcess], subject: str, payload: bytes
) -> None:
    answers = []
    for server in servers:
        fields = '"user":"r","pass":"r","headers":true,"no_responders":true,"name":"r"'
        with client(server, fields) as wire:
            wire.take_through(b"PONG\r\n")
            wire.send(b"SUB in 1\r\nPUB %b in %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))
            line = wire.take_line()
            size = int(line.split()[-1])
            body = b""
            while len(body) < size + 2:
                body += wire.take_through(b"\n")
            body = body[:size]
            answers.append(
                normal(json.loads(body), wire.info["server_id"]) if body.startswith(b"{") else body
            )
    go, ours = answers

    assert ours == go
