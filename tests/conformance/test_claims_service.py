"""Tokens that change while clients are connected: requests, answers, and what becomes of the clients."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from harness.claims import (
    ACCOUNT_KEY,
    ACCOUNT_LIMITS,
    ACCOUNT_SIGNER,
    OPERATOR_KEY,
    SCOPED_SIGNER,
    USER_KEY,
    account_token,
    scope,
    scoped_token,
    user_token,
)
from harness.keys import ACCOUNT, OPERATOR, KeyPair, key_pair
from harness.operators import configuration, enter, enter_system, message, request, say
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE, at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.processes import Program
    from harness.wire import Wire

pytestmark = pytest.mark.clients

OTHER = key_pair(ACCOUNT, "other account")
EXPORTER = key_pair(ACCOUNT, "exporter")
STRANGER = key_pair(OPERATOR, "other operator")
NEWER = {"iat": 1_700_000_100}
DIRECTORY = "{{ type: {kind}, dir: '{folder}/jwt'{more} }}"


def resolver_of(kind: str, folder: Path) -> str:
    if kind == "memory":
        return "MEMORY"
    return DIRECTORY.format(kind=kind, folder=folder, more=", allow_delete: true" if kind == "full" else "")


class Started:
    """One server with a resolver of a kind, and a client of its system account."""

    def __init__(
        self, program: Program, folder: Path, kind: str, tokens: dict[str, str], **more: Any
    ) -> None:
        self.kind = kind
        config = configuration(tokens, resolver=resolver_of(kind, folder), **more)
        self.server = ServerProcess(program, folder, "-D", config=config)
        self.system = enter_system(self.server)

    def ask(self, subject: str, payload: str | bytes = b"") -> Any:
        """The answer without what differs from server to server; text if it is no JSON."""
        raw = payload.encode() if isinstance(payload, str) else payload
        answer = request(self.system, subject, raw)
        if not answer.startswith(b"{"):
            return answer.decode()
        document = json.loads(answer)
        assert set(document.pop("server")) >= {"name", "host", "id", "ver", "seq", "time"}
        return document

    def update(self, token: str, key: KeyPair = ACCOUNT_KEY) -> Any:
        return self.ask(f"$SYS.REQ.ACCOUNT.{key.public}.CLAIMS.UPDATE", token)

    def close(self) -> None:
        self.system.close()
        self.server.stop()


TOKENS = {
    ACCOUNT_KEY.public: account_token(signing_keys=[ACCOUNT_SIGNER.public, scope()]),
    EXPORTER.public: account_token(
        subject=EXPORTER, exports=[{"name": "s", "subject": "out.>", "type": "stream"}]
    ),
}


@pytest.fixture(
    params=[(kind, p) for kind in ("memory", "full", "cache") for p in HEADRACES],
    ids=lambda p: f"{p[0]}-{p[1]}",
)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Started]]:
    """The Go server and Headrace."""
    kind, program = request.param
    folders = [tmp_path / "go", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    started = [
        Started(each, folder, kind, TOKENS)
        for each, folder in zip((NATS_SERVER, program), folders, strict=True)
    ]
    yield started
    for each in started:
        each.close()


# --- requests ---


def generic(accounts: Any, issuer: KeyPair = OPERATOR_KEY, subject: KeyPair = OPERATOR_KEY) -> str:
    claims = {"jti": "T", "iat": 1_700_000_000, "iss": issuer.public, "sub": subject.public}
    return issuer.token({**claims, "nats": {"accounts": accounts, "version": 2}})


def comparable(document: Any) -> Any:
    """The reader of JSON and the checks of tokens have their own words on both sides."""
    if isinstance(document, dict) and "error" in document:
        description = document["error"]["description"]
        head, dash, reason = description.partition(" - ")
        known = reason.startswith(("subject does not", "delete must", "not ", "malformed", "request body"))
        return {"error": {**document["error"], "description": head + (dash + reason if known else "")}}
    return document


def answers(started: Started) -> list[Any]:
    ask = started.ask
    account, other = ACCOUNT_KEY.public, OTHER.public
    newer = account_token(outer=NEWER)
    with enter(started.server, user_token(), USER_KEY):
        found = [
            started.update(newer),
            started.update(newer),
            started.update(account_token(subject=OTHER)),
            started.update(account_token(subject=OTHER), OTHER),
            started.update("eyJ garbage"),
            started.update(""),
            started.update(user_token()),
            ask(f"$SYS.ACCOUNT.{account}.CLAIMS.UPDATE", account_token(outer={"iat": 1_700_000_200})),
        ]
    if started.kind != "memory":
        found += [
            ask("$SYS.REQ.CLAIMS.UPDATE", account_token(outer={"iat": 1_700_000_300})),
            ask("$SYS.REQ.CLAIMS.UPDATE", "garbage"),
            {"data": sorted(ask("$SYS.REQ.CLAIMS.LIST")["data"])},
            ask("$SYS.REQ.CLAIMS.DELETE", "garbage"),
            ask("$SYS.REQ.CLAIMS.DELETE", generic([account], STRANGER, STRANGER)),
            ask("$SYS.REQ.CLAIMS.DELETE", generic([account], OPERATOR_KEY, STRANGER)),
            ask("$SYS.REQ.CLAIMS.DELETE", generic("all")),
            ask("$SYS.REQ.CLAIMS.DELETE", generic(["nobody"])),
            ask("$SYS.REQ.CLAIMS.DELETE", generic([other])),
            {"data": sorted(ask("$SYS.REQ.CLAIMS.LIST")["data"])},
        ]
    return [comparable(answer) for answer in found]


def test_requests_are_answered_as_by_the_go_server(both: list[Started]) -> None:
    go, ours = at_once(answers, both)

    assert ours == go


def test_full_directory_gives_its_tokens(both: list[Started]) -> None:
    if both[0].kind != "full":
        return
    lookup = "$SYS.REQ.ACCOUNT.{}.CLAIMS.LOOKUP"
    for started in both:
        assert started.ask(lookup.format(ACCOUNT_KEY.public)) == TOKENS[ACCOUNT_KEY.public]
        assert started.ask(lookup.format(OTHER.public)) == ""
    go, ours = at_once(packs, both)
    assert ours == go
    assert len(ours) == 3


def packs(started: Started) -> list[bytes]:
    system = started.system
    system.send(b"SUB _INBOX.packs 5\r\nPUB $SYS.REQ.CLAIMS.PACK _INBOX.packs 0\r\n\r\n")
    found = []
    while body := message(system):
        found.append(body)
    system.send(b"UNSUB 5\r\n")
    return sorted(found)


def test_directory_is_full_and_taken_over(both: list[Started], tmp_path: Path) -> None:
    if both[0].kind != "full":
        return
    for started in both:
        assert "data" in started.update(account_token(subject=OTHER), OTHER)
    assert sorted(p.name for p in (tmp_path / "go" / "jwt").iterdir()) == sorted(
        p.name for p in (tmp_path / "ours" / "jwt").iterdir()
    )
    for started in both:
        enter(started.server, user_token(OTHER), USER_KEY).close()


# --- live connections ---


def issued(seconds: int = 100, **nats: Any) -> str:
    keys = [ACCOUNT_SIGNER.public, scope()]
    return account_token(outer={"iat": 1_700_000_000 + seconds}, **{"signing_keys": keys, **nats})


CHANGES: dict[str, tuple[Callable[[KeyPair], str], dict[str, Any]]] = {
    "nothing": (user_token, {}),
    "revoked": (user_token, {"revocations": {USER_KEY.public: 1_700_000_000}}),
    "all revoked": (user_token, {"revocations": {"*": 1_700_000_500}}),
    "revoked before it was issued": (
        user_token,
        {"revocations": {USER_KEY.public: 1_600_000_000}},
    ),
    "signing key gone": (
        lambda key: user_token(ACCOUNT_SIGNER, issuer_account=key.public),
        {"signing_keys": [scope()]},
    ),
    "signing key stays": (
        lambda key: user_token(ACCOUNT_SIGNER, issuer_account=key.public),
        {"signing_keys": [ACCOUNT_SIGNER.public]},
    ),
    "scope changed": (
        lambda key: scoped_token(issuer_account=key.public),
        {"signing_keys": [scope(pub={"deny": ["x"]})]},
    ),
    "scope gone": (
        lambda key: scoped_token(issuer_account=key.public),
        {"signing_keys": [SCOPED_SIGNER.public]},
    ),
    "no bearers": (
        lambda key: user_token(key, bearer_token=True),
        {"limits": {**ACCOUNT_LIMITS, "disallow_bearer": True}},
    ),
    "no connections": (user_token, {"limits": {**ACCOUNT_LIMITS, "conn": 0}}),
    "other defaults": (user_token, {"default_permissions": {"pub": {"deny": ["x"]}}}),
    "other defaults, own permissions": (
        lambda key: user_token(key, pub={"allow": ["x"]}),
        {"default_permissions": {"pub": {"deny": ["x"]}}},
    ),
}


def account_of(change: str) -> KeyPair:
    return key_pair(ACCOUNT, f"account that changes: {change}")


def token_of(change: str, seconds: int, **nats: Any) -> str:
    keys = [ACCOUNT_SIGNER.public, scope()]
    outer = {"iat": 1_700_000_000 + seconds}
    return account_token(subject=account_of(change), outer=outer, **{"signing_keys": keys, **nats})


@pytest.fixture(scope="module", params=HEADRACES, ids=str)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Started]]:
    """The Go server and Headrace, with an account for every change."""
    tokens = {account_of(change).public: token_of(change, 0) for change in CHANGES}
    started = [
        Started(program, tmp_path_factory.mktemp("shared"), "memory", tokens)
        for program in (NATS_SERVER, request.param)
    ]
    yield started
    for each in started:
        each.close()


def line_or_end(wire: Wire) -> bytes:
    while b"\r\n" not in wire.received and not wire.closed:
        wire.fill(PATIENCE)
    return wire.take_line() if wire.received else b""


def fate(started: Started, change: str) -> list[Any]:
    user, changed = CHANGES[change]
    key = account_of(change)
    with enter(started.server, user(key), USER_KEY) as wire:
        cid = wire.info["client_id"]
        answer = started.update(token_of(change, 100, **changed), key)
        wire.send(b"PUB x 0\r\n\r\nPING\r\n")
        told = line_or_end(wire)
        if told == b"PONG\r\n" or told.startswith(b"-ERR 'Permissions"):
            return [answer, told]
        told += wire.take_rest()
        reason = started.server.wait_for_line(rf"cid:{cid} .*Client connection closed: (.*)")[1]
        return [answer, told, reason]


@pytest.mark.parametrize("change", CHANGES)
def test_client_of_a_changed_account_has_the_fate_it_has_at_the_go_server(
    shared: list[Started], change: str
) -> None:
    go, ours = at_once(lambda started: fate(started, change), shared)

    assert ours == go


def excess(started: Started) -> list[bytes]:
    clients = [enter(started.server, user_token(), USER_KEY) for _ in range(3)]
    started.update(issued(limits={**ACCOUNT_LIMITS, "conn": 2, "subs": 1}))
    told = [clients[2].take_rest()]
    for client in clients[:2]:
        client.send(b"SUB a 1\r\nSUB b 2\r\n")
        told.append(client.sync())
    with say(started.server, user_token(), USER_KEY) as another:
        told.append(another.take_rest())
    for client in clients:
        client.close()
    return told


def test_youngest_connections_over_a_lowered_limit_are_closed(both: list[Started]) -> None:
    go, ours = at_once(excess, both)

    assert ours == go


def streams(started: Started) -> list[bytes]:
    """An import comes, and its export goes."""
    exporter = enter(started.server, user_token(EXPORTER), USER_KEY)
    importer = enter(started.server, user_token(), USER_KEY)
    told = []

    def publish() -> None:
        exporter.send(b"PUB out.a 0\r\n\r\n")
        exporter.sync()
        told.append(importer.sync())

    with exporter, importer:
        importer.send(b"SUB in.> 1\r\n")
        importer.sync()
        publish()
        entry = {"name": "i", "subject": "out.>", "account": EXPORTER.public, "type": "stream"}
        started.update(issued(imports=[{**entry, "local_subject": "in.>"}]))
        publish()
        started.update(account_token(subject=EXPORTER, outer=NEWER), EXPORTER)
        publish()
        started.update(
            account_token(
                subject=EXPORTER,
                outer={"iat": 1_700_000_200},
                exports=[{"name": "s", "subject": "out.>", "type": "stream"}],
            ),
            EXPORTER,
        )
        publish()
    return told


def test_imports_and_exports_change_under_a_subscription(both: list[Started]) -> None:
    go, ours = at_once(streams, both)

    assert ours == go
    assert ours[1].startswith(b"MSG in.a")


def expiry(started: Started) -> list[Any]:
    with enter(started.server, user_token(), USER_KEY) as wire:
        started.update(account_token(outer={"iat": 1_700_000_100, "exp": int(time.time()) + 2}))
        told = wire.take_rest().replace(b"PING\r\n", b"")  # a server's first one comes about then
    with say(started.server, user_token(), USER_KEY) as again:
        return [told, again.take_line()]


def test_account_whose_token_ends_sends_its_users_away(both: list[Started]) -> None:
    go, ours = at_once(expiry, both)

    assert ours == go
    assert ours[0] == b"-ERR 'Account Authentication Expired'\r\n"


def deletion(started: Started) -> list[Any]:
    with enter(started.server, user_token(), USER_KEY) as wire:
        answer = comparable(started.ask("$SYS.REQ.CLAIMS.DELETE", generic([ACCOUNT_KEY.public])))
        told = wire.take_rest()
    with say(started.server, user_token(), USER_KEY) as again:
        refused = again.take_rest()
    started.update(issued())
    with say(started.server, user_token(), USER_KEY) as back:
        return [answer, told, refused, back.take_line()]


def test_deleted_account_sends_its_users_away_until_it_is_back(both: list[Started]) -> None:
    if both[0].kind != "full":
        return
    go, ours = at_once(deletion, both)

    assert ours == go


def activation(started: Started) -> list[bytes]:
    """An imported stream, as long as its activation token holds."""
    ends = int(time.time()) + 3
    claims = {
        "jti": "T",
        "iat": 1_700_000_000,
        "exp": ends,
        "iss": EXPORTER.public,
        "sub": ACCOUNT_KEY.public,
        "name": "a",
        "nats": {"type": "activation", "version": 2, "subject": "out.>", "kind": "stream"},
    }
    entry = {"name": "i", "subject": "out.>", "account": EXPORTER.public, "type": "stream"}
    exporter = enter(started.server, user_token(EXPORTER), USER_KEY)
    importer = enter(started.server, user_token(), USER_KEY)
    told = []
    with exporter, importer:
        export = {"name": "s", "subject": "out.>", "type": "stream", "token_req": True}
        started.update(account_token(subject=EXPORTER, outer=NEWER, exports=[export]), EXPORTER)
        importer.send(b"SUB out.> 1\r\n")
        importer.sync()
        started.update(issued(imports=[{**entry, "token": EXPORTER.token(claims)}]))
        for pause in (0.0, ends - time.time() + 1.2):
            time.sleep(pause)  # a token's time is in whole seconds of the wall clock
            exporter.send(b"PUB out.a 0\r\n\r\n")
            exporter.sync()
            told.append(importer.sync().replace(b"PING\r\n", b""))
    return told


def test_import_lasts_as_long_as_its_activation_token(both: list[Started]) -> None:
    if both[0].kind != "memory":
        return
    go, ours = at_once(activation, both)

    assert ours == go == [b"MSG out.a 1 0\r\n\r\n", b""]


def defaults(started: Started) -> list[bytes]:
    """Subscriptions that new default permissions do not permit end, and come back to nobody."""
    with enter(started.server, user_token(), USER_KEY) as wire:
        wire.send(b"SUB a 1\r\nSUB b.* 2\r\nSUB c q 3\r\n")
        wire.sync()
        started.update(
            issued(100, default_permissions={"sub": {"allow": ["a", "b.x"]}, "pub": {"deny": ["d"]}})
        )
        told = [b"\n".join(sorted(wire.sync().splitlines()))]
        wire.send(b"PUB a 0\r\n\r\nPUB b.x 0\r\n\r\nPUB c 0\r\n\r\nPUB d 0\r\n\r\n")
        told.append(wire.sync())
        started.update(issued(200))
        wire.send(b"PUB d 0\r\n\r\nSUB c 4\r\nPUB c 0\r\n\r\n")
        told.append(wire.sync())
    return told


def test_subscriptions_follow_new_default_permissions(both: list[Started]) -> None:
    if both[0].kind == "cache":
        return
    go, ours = at_once(defaults, both)

    assert ours == go
    assert b"Permissions Violation for Subscription" in ours[0]
