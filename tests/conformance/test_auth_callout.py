"""Callouts on the wire: one service answers the Go server and Headrace alike, with the same effect."""

from __future__ import annotations

import re
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from harness.claims import NO_LIMITS, account_token, claims_of
from harness.keys import ACCOUNT, USER, KeyPair, key_pair
from harness.operators import configuration, say, signed
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import at_once
from headrace.core.callout import SUBJECT
from headrace.protocol.jwt.decoding import decode_authorization_request
from headrace.protocol.keypairs import CurveKeyPair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.processes import Program
    from harness.wire import Wire
    from headrace.protocol.jwt.claims import AuthorizationRequestClaims

pytestmark = pytest.mark.clients

PATIENCE = 30
"""Seconds that servers wait for an answer: longer than any that comes takes, on any machine."""
HASTE = 1
"""Seconds that they wait where none comes."""
ISSUER = key_pair(ACCOUNT, "callout")
TARGET = key_pair(ACCOUNT, "target")
STRANGER = key_pair(ACCOUNT, "stranger to callouts")
SERVICE_USER = key_pair(USER, "service")
CLIENT_USER = key_pair(USER, "sentinel")
CURVE = CurveKeyPair(bytes(range(32)))
MODES = ("configured", "configured encrypted", "operator", "operator encrypted")


def configuration_of(mode: str, patience: int = PATIENCE) -> str:
    is_encrypted = "encrypted" in mode
    if mode.startswith("operator"):
        callout: dict[str, Any] = {"auth_users": [SERVICE_USER.public], "allowed_accounts": [TARGET.public]}
        if is_encrypted:
            callout["xkey"] = CURVE.public
        tokens = {
            ISSUER.public: account_token(subject=ISSUER, authorization=callout),
            TARGET.public: account_token(subject=TARGET),
            STRANGER.public: account_token(subject=STRANGER),
        }
        return configuration(tokens, more=f"authorization {{ timeout: {patience} }}")
    key = f"xkey: {CURVE.public}" if is_encrypted else ""
    return f"""
        accounts {{
            AUTH {{ users: [{{user: service, password: pwd}}, {{user: colleague, password: pwd}}] }}
            T {{ users: [{{user: local, password: pwd}}] }}
            F {{ users: [{{nkey: {CLIENT_USER.public}}}] }}
            SYS {{ }}
        }}
        system_account: SYS
        authorization {{
            timeout: {patience}
            auth_callout {{ issuer: {ISSUER.public}, account: AUTH, auth_users: [service], {key} }}
        }}
    """


class Arena:
    """One server with a callout, and its service as a raw connection that answers by hand."""

    def __init__(self, mode: str, server: ServerProcess) -> None:
        self.is_operator = mode.startswith("operator")
        self.is_encrypted = "encrypted" in mode
        self.server = server
        self.service = self.say("service", SERVICE_USER)
        self.service.take_through(b"PONG\r\n")
        self.service.send(f"SUB {SUBJECT} 1\r\n".encode())
        self.service.sync()

    def say(self, user: str, key: KeyPair, **more: Any) -> Wire:
        """Credentials of this user; nothing is read yet."""
        if self.is_operator:
            token = ISSUER.token(claims_of(ISSUER, key, "user", NO_LIMITS, {"name": user}))
            return say(self.server, token, key, **more)
        return say(self.server, "", None, **{"user": user, "pass": "pwd", **more})

    def question(self) -> tuple[str, AuthorizationRequestClaims, str]:
        """Return where to answer, the question, and the curve key to seal for."""
        while not self.service.received or self.service.received.startswith(b"PING"):
            # The server asks a connection that is silent whether it still lives.
            if self.service.received:
                self.service.take_line()
                self.service.send(b"PONG\r\n")
            else:
                assert self.service.fill(10)
        words, body = self.service.take_message()
        size = int(words[4]) if words[0] == b"HMSG" else 0
        found = re.search(rb"Nats-Server-Xkey: *(\S+)", body[:size])
        curve = found[1].decode() if found else ""
        payload = CURVE.open(body[size:], curve) if curve else body[size:]
        return words[3].decode(), decode_authorization_request(payload.decode()), curve

    def unasked(self) -> bytes:
        """What came to the service that nobody has taken."""
        return self.service.sync().replace(b"PING\r\n", b"")

    def answer(self, reply: str, payload: bytes, curve: str = "") -> None:
        sealed = CURVE.seal(payload, curve) if curve else payload
        self.service.send(f"PUB {reply} {len(sealed)}\r\n".encode() + sealed + b"\r\n")
        self.service.sync()

    def user(self, asked: AuthorizationRequestClaims, **nats: Any) -> str:
        outer = {key: nats.pop(key) for key in ("name", "exp", "aud") if key in nats}
        issuer = TARGET if self.is_operator else ISSUER
        if not self.is_operator:
            outer.setdefault("aud", "T")
        claims = claims_of(issuer, CLIENT_USER, "user", {**NO_LIMITS, **nats}, {"name": "joe", **outer})
        return issuer.token({**claims, "sub": asked.user_nkey})

    def response(
        self,
        asked: AuthorizationRequestClaims,
        signer: KeyPair = ISSUER,
        error: str | None = None,
        **more: Any,
    ) -> bytes:
        outer = {key: more.pop(key) for key in ("about", "server") if key in more}
        nats = (
            {"error": error}
            if error is not None
            else {"jwt": more.pop("jwt", None) or self.user(asked, **more)}
        )
        claims = claims_of(signer, ISSUER, "authorization_response", nats, {"name": None})
        claims["aud"] = outer.get("server", asked.server.server_id)
        claims["sub"] = outer.get("about", asked.user_nkey)
        return signer.token(claims).encode()


@pytest.fixture(
    scope="module", params=[(m, p) for m in MODES for p in HEADRACES], ids=lambda p: f"{p[0]}-{p[1]}"
)
def way(request: pytest.FixtureRequest) -> tuple[str, Program]:
    mode, program = request.param
    return mode, program


@pytest.fixture(scope="module")
def arenas(way: tuple[str, Program], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Arena]]:
    with running(*way, tmp_path_factory, PATIENCE) as both:
        yield both


@pytest.fixture
def hasty(way: tuple[str, Program], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Arena]]:
    """Servers that soon stop waiting."""
    with running(*way, tmp_path_factory, HASTE) as both:
        yield both


@contextmanager
def running(
    mode: str, program: Program, folders: pytest.TempPathFactory, patience: int
) -> Iterator[list[Arena]]:
    """The Go server and ours, with the same configuration."""
    config = configuration_of(mode, patience)
    with (
        ServerProcess(NATS_SERVER, folders.mktemp("go"), "-D", "-m", "-1", config=config) as go,
        ServerProcess(program, folders.mktemp("ours"), "-D", "-m", "-1", config=config) as ours,
    ):
        both = [Arena(mode, go), Arena(mode, ours)]
        yield both
        for arena in both:
            arena.service.close()


ANSWERS: dict[str, Callable[[Arena, AuthorizationRequestClaims], bytes]] = {
    "right": lambda arena, asked: arena.response(asked),
    "with permissions": lambda arena, asked: arena.response(
        asked, pub={"allow": ["a"]}, sub={"deny": ["no"]}
    ),
    "will expire": lambda arena, asked: arena.response(asked, exp=int(time.time()) + 1000),
    "refused": lambda arena, asked: arena.response(asked, error="go away\r\nnow"),
    "empty": lambda arena, asked: b"",
    "garbage": lambda arena, asked: b"eyJ garbage",
    "binary": lambda arena, asked: bytes(range(256)),
    "for another server": lambda arena, asked: arena.response(
        asked, server=key_pair(13 << 3, "other").public
    ),
    "for another user": lambda arena, asked: arena.response(asked, about=CLIENT_USER.public),
    "by a stranger": lambda arena, asked: arena.response(asked, STRANGER),
    "expired": lambda arena, asked: arena.response(asked, exp=int(time.time()) - 10),
    "cut": lambda arena, asked: arena.response(asked)[:-9],
    "no token inside": lambda arena, asked: arena.response(asked, jwt="none"),
    "in no account": lambda arena, asked: arena.response(asked, aud="NOWHERE"),
    "at no time": lambda arena, asked: arena.response(
        asked, times=[{"start": "00:00:00", "end": "00:00:00"}]
    ),
}
_KEY = re.compile(r"\b[AUNX][A-Z2-7]{55}\b")
_OWN_WORDS = re.compile(
    r"(Auth callout service returned an error|Error decrypting auth callout response|No valid account).*"
    r"|(expected 3 chunks|.*base64.*|.*character.*|Claim failed.*|Illegal.*|Invalid.*|.*chunks.*|A part of.*"
    r"|Not (JSON|UTF).*|Expected 3.*|The auth callout response is no token)"
)


def warning(server: ServerProcess, after: int) -> str:
    line = server.wait_for_line(r"\[WRN\] (?!\S+ - cid:)(.*)", after=after)[1]
    return _OWN_WORDS.sub(r"\1", _KEY.sub("KEY", line))


def fate(arena: Arena, answer: Callable[[Arena, AuthorizationRequestClaims], bytes]) -> list[Any]:
    after = len(arena.server.lines)
    with arena.say("joe", CLIENT_USER) as client:
        reply, asked, curve = arena.question()
        arena.answer(reply, answer(arena, asked), curve)
        first = client.take_line()
        if first != b"PONG\r\n":
            return [first + client.take_rest(), warning(arena.server, after)]
        client.send(b"SUB no 1\r\nSUB > 2\r\nPUB a 0\r\n\r\nPUB b 0\r\n\r\n")
        return [client.sync()]


@pytest.mark.parametrize("answer", ANSWERS)
def test_answer_has_the_effect_it_has_at_the_go_server(arenas: list[Arena], answer: str) -> None:
    go, ours = (fate(arena, ANSWERS[answer]) for arena in arenas)

    assert ours == go


def silence(arena: Arena) -> list[Any]:
    """Nobody answers in time; then comes an answer, twice."""
    with arena.say("joe", CLIENT_USER) as client:
        reply, asked, curve = arena.question()
        told = client.take_rest()
        arena.answer(reply, arena.response(asked), curve)
        arena.answer(reply, arena.response(asked), curve)
        cid = client.info["client_id"]
        closed = arena.server.wait_for_line(rf"cid:{cid} .*Client connection closed: (.*)")[1]
        return [told, closed, arena.unasked()]


def test_late_answers_are_nobodys(hasty: list[Arena]) -> None:
    go, ours = at_once(silence, hasty)

    assert ours == go


def first_counts(arena: Arena) -> list[Any]:
    """Answer twice. Ours gets both answers at once.

    The Go server gets the second after it has let the client in: of two answers that come at once it
    sometimes takes the second (seen at 2.15.1: "Authorization Violation").
    """
    with arena.say("joe", CLIENT_USER) as client:
        reply, asked, curve = arena.question()
        answers = [
            arena.response(asked, pub={"allow": ["a"]}),
            arena.response(asked, error="changed my mind"),
        ]
        arena.answer(reply, answers.pop(0), curve)
        if arena.server.program.is_headrace:
            arena.answer(reply, answers.pop(), curve)
        client.take_through(b"PONG\r\n")
        for answer in answers:
            arena.answer(reply, answer, curve)
        client.send(b"PUB b 0\r\n\r\n")
        return [client.sync()]


def test_second_answer_changes_nothing(arenas: list[Arena]) -> None:
    go, ours = at_once(first_counts, arenas)

    assert ours == go


def test_service_is_not_asked_about_itself_and_may_not_ask(arenas: list[Arena]) -> None:
    for arena in arenas:
        with arena.say("service", SERVICE_USER) as again:
            again.take_through(b"PONG\r\n")
            again.send(f"PUB {SUBJECT} r 0\r\n\r\n".encode())
            assert b"Permissions Violation for Publish" in again.sync()
        assert arena.unasked() == b""


def test_wrong_credentials_of_the_service_are_refused_without_asking(arenas: list[Arena]) -> None:
    for arena in arenas:
        more = {"sig": signed(CLIENT_USER, "another nonce")} if arena.is_operator else {"pass": "wrong"}
        with arena.say("service", SERVICE_USER, **more) as client:
            assert client.take_rest() == b"-ERR 'Authorization Violation'\r\n"
        assert arena.unasked() == b""


def test_many_wait_at_once_and_each_gets_its_own_answer(arenas: list[Arena]) -> None:
    for arena in arenas:
        clients = [arena.say(f"user{number}", CLIENT_USER, name=f"c{number}") for number in range(10)]
        for reply, asked, curve in reversed([arena.question() for _ in clients]):
            arena.answer(reply, arena.response(asked, pub={"allow": [asked.connect.name]}), curve)
        for number, client in enumerate(clients):
            client.take_through(b"PONG\r\n")
            client.send(f"PUB c{number} 0\r\n\r\n".encode())
            assert client.sync() == b""
            client.close()


def test_reload_leaves_those_who_were_let_in(arenas: list[Arena]) -> None:
    """The Go server closes them with every reload, whatever has changed, and the service's users too."""
    for arena in (each for each in arenas if each.server.program.is_headrace):
        client = arena.say("joe", CLIENT_USER)
        reply, asked, curve = arena.question()
        arena.answer(reply, arena.response(asked), curve)
        client.take_through(b"PONG\r\n")
        client.send(b"SUB a 1\r\n")
        server = arena.server
        after = len(server.lines)
        server.config_file.write_text(f"{server.config_file.read_text()}\nlogtime: true\n")
        server.signal(signal.SIGHUP)
        server.wait_for_line("Reloaded server configuration", after=after)
        client.send(b"PUB a 0\r\n\r\n")
        assert b"MSG a 1 0" in client.sync()
        client.close()
        arena.service.sync()


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_callout_is_changed_by_a_reload_but_neither_comes_nor_goes(program: Program, tmp_path: Path) -> None:
    text = configuration_of("configured")
    with ServerProcess(program, tmp_path, config=text) as server:
        arena = Arena("configured", server)
        server.config_file.write_text(text.replace("auth_users: [service]", "auth_users: [service, local]"))
        server.signal(signal.SIGHUP)
        server.wait_for_line("Reloaded server configuration")
        with arena.say("local", CLIENT_USER) as local:
            assert local.take_line() == b"PONG\r\n"
        server.config_file.write_text("authorization { users: [{user: a, password: b}] }")
        server.signal(signal.SIGHUP)
        server.wait_for_line("config reload not supported for authorization.callout")
        with arena.say("joe", CLIENT_USER) as client:
            reply, asked, curve = arena.question()
            arena.answer(reply, arena.response(asked), curve)
            client.take_through(b"PONG\r\n")
        arena.service.close()
