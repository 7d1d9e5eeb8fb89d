"""Operator mode on the wire: the same tokens to the Go server and to Headrace, the same fate."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from harness.claims import (
    ACCOUNT_KEY,
    ACCOUNT_SIGNER,
    OPERATOR_SIGNER,
    SCOPED_SIGNER,
    USER_KEY,
    account_token,
    scope,
    scoped_token,
    user_token,
)
from harness.keys import ACCOUNT, OPERATOR, USER, KeyPair, key_pair
from harness.operators import configuration, enter, enter_system, message, request, say, signed
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = pytest.mark.clients

STRANGER = key_pair(USER, "stranger")
OTHER_OPERATOR = key_pair(OPERATOR, "other operator")
STRICT = key_pair(ACCOUNT, "small account")
GONE = key_pair(ACCOUNT, "account that nobody knows")
FOREIGN = key_pair(ACCOUNT, "account of another operator")
BEARERLESS = key_pair(ACCOUNT, "account without bearers")
REVOKING = key_pair(ACCOUNT, "revoking account")
EXPORTER = key_pair(ACCOUNT, "exporter")
IMPORTER = key_pair(ACCOUNT, "importer")
NO_LIMITS = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True}
LIMITS = {**NO_LIMITS, "conn": -1, "leaf": -1}


def activation(issuer: KeyPair = EXPORTER, subject: KeyPair = IMPORTER, **nats: Any) -> str:
    """That an account may import `private.>`."""
    outer = {key: nats.pop(key) for key in ("exp", "nbf", "iat") if key in nats}
    claims = {
        "jti": "T",
        "iat": 1_700_000_000,
        "iss": issuer.public,
        "sub": subject.public,
        "name": "activation",
        "nats": {"type": "activation", "version": 2, "subject": "private.>", "kind": "stream", **nats},
        **outer,
    }
    return issuer.token(claims)


def imports(subject: str, kind: str = "stream", **more: Any) -> dict[str, Any]:
    return {"name": "i", "subject": subject, "account": EXPORTER.public, "type": kind, **more}


TOKENS = {
    ACCOUNT_KEY.public: account_token(
        issuer=OPERATOR_SIGNER,
        signing_keys=[ACCOUNT_SIGNER.public, scope(pub={"allow": ["u.{{name()}}"]}, payload=3, subs=1)],
        default_permissions={"pub": {"deny": ["no"]}},
    ),
    STRICT.public: account_token(subject=STRICT, limits={**LIMITS, "conn": 1, "subs": 2, "payload": 4}),
    FOREIGN.public: account_token(OTHER_OPERATOR, FOREIGN),
    BEARERLESS.public: account_token(subject=BEARERLESS, limits={**LIMITS, "disallow_bearer": True}),
    REVOKING.public: account_token(subject=REVOKING, revocations={USER_KEY.public: 1_700_000_000}),
    EXPORTER.public: account_token(
        subject=EXPORTER,
        exports=[
            {"name": "open", "subject": "open.>", "type": "stream"},
            {"name": "private", "subject": "private.>", "type": "stream", "token_req": True},
            {"name": "svc", "subject": "svc.*", "type": "service", "response_type": "Stream"},
            {"name": "own", "subject": "own.*", "type": "service", "account_token_position": 2},
        ],
        mappings={"from.*": [{"subject": "open.{{wildcard(1)}}"}]},
    ),
    IMPORTER.public: account_token(
        subject=IMPORTER,
        imports=[
            imports("open.>", local_subject="there.>"),
            imports("open.b.>", to="old"),
            imports("private.a", token=activation()),
            imports("private.b"),
            imports("private.c", token=activation(GONE, issuer_account=EXPORTER.public)),
            imports("private.d", token=activation(exp=1_700_000_100)),
            imports("svc.*", "service", local_subject="my.*"),
            imports(f"own.{IMPORTER.public}", "service", local_subject="mine"),
            imports(f"own.{GONE.public}", "service", local_subject="theirs"),
        ],
    ),
}


@pytest.fixture(scope="module", params=HEADRACES, ids=str)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[ServerProcess]]:
    """The Go server and Headrace with the same operator."""
    config = configuration(TOKENS)
    with (
        ServerProcess(NATS_SERVER, tmp_path_factory.mktemp("go"), "-D", config=config) as go,
        ServerProcess(request.param, tmp_path_factory.mktemp("ours"), "-D", config=config) as ours,
    ):
        yield [go, ours]


NOW = int(time.time())
SAID: dict[str, tuple[str, KeyPair | None]] = {
    "right": (user_token(), USER_KEY),
    "by a signing key": (user_token(ACCOUNT_SIGNER, issuer_account=ACCOUNT_KEY.public), USER_KEY),
    "by a scoped key": (scoped_token(), USER_KEY),
    "by a scoped key with limits of its own": (scoped_token(subs=5), USER_KEY),
    "by an unknown key": (user_token(SCOPED_SIGNER, issuer_account=BEARERLESS.public), USER_KEY),
    "signed by another user": (user_token(), STRANGER),
    "not signed": (user_token(), None),
    "no token": ("", USER_KEY),
    "no token at all, but text": ("eyJ0.eyJ0.sig", USER_KEY),
    "an account's token": (account_token(), USER_KEY),
    "cut token": (user_token()[:-5], USER_KEY),
    "expired": (user_token(outer={"exp": NOW - 10}), USER_KEY),
    "not yet": (user_token(outer={"nbf": NOW + 1000}), USER_KEY),
    "will expire": (user_token(outer={"exp": NOW + 1000}), USER_KEY),
    "bearer": (user_token(bearer_token=True), None),
    "bearer where none may be": (user_token(BEARERLESS, bearer_token=True), None),
    "of an unknown account": (user_token(GONE), USER_KEY),
    "of another operator's account": (user_token(FOREIGN), USER_KEY),
    "revoked": (user_token(REVOKING), USER_KEY),
    "issued after the revocation": (user_token(REVOKING, outer={"iat": 1_700_000_001}), USER_KEY),
    "from here": (user_token(src=["127.0.0.0/8"]), USER_KEY),
    "from elsewhere": (user_token(src=["10.0.0.0/8"]), USER_KEY),
    "at no time": (user_token(times=[{"start": "00:00:00", "end": "00:00:00"}]), USER_KEY),
    "at any time": (user_token(times=[{"start": "00:00:00", "end": "23:59:59"}]), USER_KEY),
    "websockets only": (user_token(allowed_connection_types=["WEBSOCKET"]), USER_KEY),
    "standard too": (user_token(allowed_connection_types=["websocket", "standard"]), USER_KEY),
    "types nobody knows": (user_token(allowed_connection_types=["TELEX"]), USER_KEY),
    "through a proxy only": (user_token(proxy_required=True), USER_KEY),
}
_VARIABLE = re.compile(r"(User JWT no longer valid|Account JWT lookup error).*|0x[0-9a-f]+")


def fate(server: ServerProcess, token: str, key: KeyPair | None) -> tuple[bytes, list[str]]:
    """What the client is told, and the log about it, without what only one server can say."""
    with say(server, token, key) as wire:
        cid = wire.info["client_id"]
        answer = wire.take_line()
        if answer != b"PONG\r\n":
            answer += wire.take_rest()
            server.wait_for_line(rf"cid:{cid}.*Client connection closed")
        return answer, reasons(server, cid)


def reasons(server: ServerProcess, cid: int) -> list[str]:
    about = [line.partition(f"cid:{cid} - ")[2] or line for line in server.lines if f"cid:{cid} " in line]
    lines = [_VARIABLE.sub(r"\1", re.sub(r'^.*?cid:\d+( - ".*?")* - ', "", line)) for line in about]
    return sorted(line for line in lines if not line.startswith(_UNCOMPARED))


_UNCOMPARED = (
    "Authenticated JWT",
    "Connected Client has JetStream",
    "Client Ping Timer",
    "Delaying PING",
    "Client connection created",
    "Connect",
    "Max ",
    "Client connection closed: Client Closed",
)


@pytest.mark.parametrize("said", SAID)
def test_token_has_the_fate_it_has_at_the_go_server(pair: list[ServerProcess], said: str) -> None:
    go, ours = (fate(server, *SAID[said]) for server in pair)

    assert ours == go


# --- what a token grants ---


def default_permissions_hold(server: ServerProcess) -> list[bytes]:
    with enter(server, user_token(), USER_KEY) as wire:
        wire.send(b"SUB > 1\r\nPUB no 1\r\nx\r\nPUB yes 1\r\ny\r\n")
        return [wire.sync()]


def own_permissions_hold(server: ServerProcess) -> list[bytes]:
    token = user_token(
        pub={"allow": ["a.>"], "deny": ["a.b"]}, sub={"deny": ["s q"]}, resp={"max": 1, "ttl": 0}
    )
    with enter(server, token, USER_KEY) as wire:
        wire.send(b"SUB s q 1\r\nSUB s 2\r\nPUB a.b 0\r\n\r\nPUB a.c 0\r\n\r\nPUB no 0\r\n\r\n")
        return [wire.sync()]


def scope_holds(server: ServerProcess) -> list[bytes]:
    with enter(server, scoped_token(outer={"name": "joe"}), USER_KEY) as wire:
        wire.send(b"SUB s 1\r\nSUB t 2\r\nPUB u.joe 3\r\nabc\r\nPUB u.amy 3\r\nabc\r\n")
        told = wire.sync()
        wire.send(b"PUB u.joe 4\r\nabcd\r\n")
        return [told, wire.take_rest()]


def account_limits_hold(server: ServerProcess) -> list[bytes]:
    with enter(server, user_token(STRICT), USER_KEY) as wire:
        with say(server, user_token(STRICT), USER_KEY) as second:
            refused = second.take_rest()
        wire.send(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")
        told = wire.sync()
        wire.send(b"PUB a 5\r\nabcde\r\n")
        return [refused, told, wire.take_rest()]


def tighter_user_limits_hold(server: ServerProcess) -> list[bytes]:
    with enter(server, user_token(payload=2, subs=1), USER_KEY) as wire:
        wire.send(b"SUB a 1\r\nSUB b 2\r\n")
        told = wire.sync()
        wire.send(b"PUB a 3\r\nabc\r\n")
        return [told, wire.take_rest()]


def accounts_are_isolated(server: ServerProcess) -> list[bytes]:
    with (
        enter(server, user_token(), USER_KEY) as one,
        enter(server, user_token(REVOKING, STRANGER), STRANGER) as two,
    ):
        two.send(b"SUB > 1\r\n")
        two.sync()
        one.send(b"PUB a 0\r\n\r\n")
        one.sync()
        two.send(b"PUB b 0\r\n\r\n")
        return [two.sync()]


def streams_cross(server: ServerProcess) -> list[bytes]:
    exporter = enter(server, user_token(EXPORTER), USER_KEY)
    with exporter, enter(server, user_token(IMPORTER), USER_KEY) as importer:
        importer.send(b"SUB > 1\r\n")
        importer.sync()
        for subject in (
            "open.a",
            "open.b.c",
            "private.a",
            "private.b",
            "private.c",
            "private.d",
            "from.x",
            "else",
        ):
            exporter.send(f"PUB {subject} 0\r\n\r\n".encode())
        exporter.sync()
        return [b"\n".join(sorted(importer.sync().split(b"\r\n")))]


def services_cross(server: ServerProcess) -> list[bytes]:
    exporter = enter(server, user_token(EXPORTER), USER_KEY)
    with exporter, enter(server, user_token(IMPORTER), USER_KEY) as importer:
        exporter.send(b"SUB svc.* 1\r\nSUB own.* 2\r\n")
        exporter.sync()
        importer.send(b"SUB r 1\r\nPUB my.a r 1\r\nx\r\nPUB mine r 1\r\ny\r\nPUB theirs r 1\r\nz\r\n")
        importer.sync()
        asked = exporter.sync()
        # The Go server guesses a round trip at once, so sizes differ.
        return [re.sub(rb"_R_\S+ \d+ \d+|,\"rtt\":\d+", b"_R_", asked).replace(b"_R_}", b"}")]


SCRIPTS: list[Callable[[ServerProcess], list[bytes]]] = [
    default_permissions_hold,
    own_permissions_hold,
    scope_holds,
    account_limits_hold,
    tighter_user_limits_hold,
    accounts_are_isolated,
    streams_cross,
    services_cross,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_token_grants_what_it_grants_at_the_go_server(
    pair: list[ServerProcess], script: Callable[[ServerProcess], list[bytes]]
) -> None:
    go, ours = (script(server) for server in pair)

    assert ours == go
    assert any(ours)


def test_user_without_subscriptions_is_closed(pair: list[ServerProcess]) -> None:
    for server in pair:
        with say(server, user_token(subs=0), USER_KEY) as wire:
            assert b"-ERR 'maximum subscriptions exceeded'" in wire.take_rest()


def test_info_after_connect_names_the_account(pair: list[ServerProcess]) -> None:
    go, ours = (after_connect(server) for server in pair)

    assert ours["remote_account"] == go["remote_account"] == ACCOUNT_KEY.public
    assert ours.keys() >= {"xkey", "auth_required", "connect_info"}


def after_connect(server: ServerProcess) -> dict[str, Any]:
    with say(server, user_token(), USER_KEY, protocol=1) as wire:
        return wire.take_info() if wire.take_line() == b"PONG\r\n" else {}


def test_user_is_closed_when_its_token_ends(pair: list[ServerProcess]) -> None:
    for server in pair:
        with enter(server, user_token(outer={"exp": int(time.time()) + 2}), USER_KEY) as wire:
            assert b"-ERR 'User Authentication Expired'\r\n" in wire.take_rest()
            cid = wire.info["client_id"]
        server.wait_for_line(rf"cid:{cid} .*Client connection closed: Authentication Expired")


def test_signature_of_another_connection_is_worth_nothing(pair: list[ServerProcess]) -> None:
    for server in pair:
        with enter(server, user_token(), USER_KEY) as first:
            heard = signed(USER_KEY, first.info["nonce"])
            with say(server, user_token(), None, sig=heard) as replayed:
                assert replayed.take_rest() == b"-ERR 'Authorization Violation'\r\n"


def test_token_longer_than_a_control_line_closes(pair: list[ServerProcess]) -> None:
    for server in pair:
        with say(server, user_token(tags=["t" * 5000]), USER_KEY) as wire:
            assert b"maximum control line exceeded" in wire.take_rest()


def test_second_connect_is_another_user_of_another_account(pair: list[ServerProcess]) -> None:
    told = []
    for server in pair:
        with enter(server, user_token(), USER_KEY) as wire:
            wire.send(b"SUB > 1\r\n")
            said = {"jwt": user_token(EXPORTER), "sig": signed(USER_KEY, wire.info["nonce"])}
            wire.send(b"CONNECT " + json.dumps({"verbose": False, **said}).encode() + b"\r\nPING\r\n")
            answer = wire.take_line()
            told.append([answer, wire.sync() if answer == b"PONG\r\n" else wire.take_rest()])
    assert told[0] == told[1]


def told_about(server: ServerProcess) -> list[Any]:
    """What the system account hears of a user with a token, and what the user is told of itself."""
    token = user_token(
        ACCOUNT_SIGNER,
        issuer_account=ACCOUNT_KEY.public,
        tags=["a:b"],
        pub={"allow": ["$SYS.>"]},
        outer={"exp": int(time.time()) + 5000, "name": "joe"},
    )
    with enter_system(server) as system:
        system.send(f"SUB $SYS.ACCOUNT.{ACCOUNT_KEY.public}.CONNECT 1\r\n".encode())
        system.sync()
        with enter(server, token, USER_KEY, name="me") as wire:
            event = json.loads(message(system))["client"]
            own = json.loads(request(wire, "$SYS.REQ.USER.INFO"))["data"]
    left = own.pop("expires")
    shown = {name: value for name, value in event.items() if name not in ("start", "id", "jwt")}
    return [shown, list(shown), own, 4_900 * 10**9 < left <= 5_000 * 10**9]


def test_system_account_is_told_alike_about_users_of_tokens(pair: list[ServerProcess]) -> None:
    go, ours = (told_about(server) for server in pair)

    assert ours == go
