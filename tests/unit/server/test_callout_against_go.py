"""A callout's messages as the Go server writes and reads them: questions field by field, generated answers.

One service answers the same to the Go server and to our policy. What is compared: accepted or refused, the
reason that is logged, in which account the user is then and what it may do.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import time
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from harness import depth
from harness.claims import NO_LIMITS, OPERATOR_KEY, account_token, claims_of, operator_token, scope
from harness.keys import ACCOUNT, SERVER, USER, KeyPair, key_pair
from harness.processes import NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE
from headrace.conf.account_options import CalloutOptions
from headrace.core.callout import (
    SUBJECT,
    ConfiguredCallout,
    Interviewer,
    OperatorCallout,
    claimed_user,
    connect_claims,
    without_asking,
)
from headrace.core.grants import Refused, TokenIdentity
from headrace.core.permissions import PermissionSet
from headrace.core.trust import Trust
from headrace.protocol.info import ClientConnect
from headrace.protocol.jwt.claims import ClientClaims, ConnectClaims, ServerClaims
from headrace.protocol.jwt.decoding import decode_authorization_request
from headrace.protocol.keypairs import CurveKeyPair, SigningKeyPair
from headrace.protocol.nkeys import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.wire import Wire
    from headrace.conf.account_options import Permissions
    from headrace.core.callout import CalloutRequest

pytestmark = pytest.mark.clients

MODES = ("configured", "configured encrypted", "operator", "operator encrypted")
SEEDS = 10
CASES = 100
"""Answers that are drawn from one seed, for each way to configure a callout."""
AUTH_TIMEOUT = 20
ISSUER = key_pair(ACCOUNT, "callout")
SIGNING_KEY = key_pair(ACCOUNT, "callout's signing key")
TARGET = key_pair(ACCOUNT, "target")
TARGET_KEY = key_pair(ACCOUNT, "target's signing key")
TARGET_SCOPED = key_pair(ACCOUNT, "target's scoped key")
FORBIDDEN = key_pair(ACCOUNT, "account that is not allowed")
SYSTEM = key_pair(ACCOUNT, "system account")
SERVICE_USER = key_pair(USER, "service")
CLIENT_USER = key_pair(USER, "sentinel")
SERVICE_CURVE = CurveKeyPair(bytes(range(32)))
OTHER_CURVE = CurveKeyPair(bytes(range(1, 33)))
SUBJECTS = ["a", "a.b", "b", "u.joe", SUBJECT]
_KEY = re.compile(r"\b[AUNX][A-Z2-7]{55}\b")
_REASONS = (
    "Auth callout",
    "Authorization response had validation errors",
    "Error validating user JWT",
    "Error decrypting auth callout response",
    "Expected authorized user",
    "Authorized user on account",
    "Wrong issuer for auth callout response",
    "Error non operator mode account",
    "No valid account",
    "Account",
    "User JWT",
    "Proxy connection required",
)


def names_of(mode: str) -> dict[str, str]:
    """How the configuration, or the tokens, name the accounts."""
    if mode.startswith("operator"):
        keys = {"callout": ISSUER, "target": TARGET, "forbidden": FORBIDDEN, "none": SIGNING_KEY}
        return {name: key.public for name, key in keys.items()}
    return {"callout": "AUTH", "target": "T", "forbidden": "F", "none": "NONE"}


DEFAULT = {"pub": {"deny": ["b"]}}
TOKENS = {
    ISSUER.public: account_token(
        subject=ISSUER,
        signing_keys=[SIGNING_KEY.public],
        authorization={"auth_users": [SERVICE_USER.public], "allowed_accounts": [TARGET.public]},
    ),
    TARGET.public: account_token(
        subject=TARGET,
        signing_keys=[TARGET_KEY.public, scope(TARGET_SCOPED, pub={"allow": ["u.{{name()}}"]}, payload=3)],
        default_permissions=DEFAULT,
    ),
    FORBIDDEN.public: account_token(subject=FORBIDDEN),
    SYSTEM.public: account_token(subject=SYSTEM),
}


def tokens_of(mode: str) -> dict[str, str]:
    if "encrypted" not in mode:
        return TOKENS
    callout = {"auth_users": [SERVICE_USER.public], "allowed_accounts": [TARGET.public]}
    sealed = account_token(
        subject=ISSUER,
        signing_keys=[SIGNING_KEY.public],
        authorization={**callout, "xkey": SERVICE_CURVE.public},
    )
    return {**TOKENS, ISSUER.public: sealed}


def configuration_of(mode: str) -> str:
    if mode.startswith("operator"):
        preload = "\n".join(f"{key}: {token}" for key, token in tokens_of(mode).items())
        return (
            f"operator: {operator_token()}\nsystem_account: {SYSTEM.public}\nresolver: MEMORY\n"
            f"authorization {{ timeout: {AUTH_TIMEOUT} }}\n"
            f"resolver_preload: {{\n{preload}\n}}\n"
        )
    key = f"xkey: {SERVICE_CURVE.public}" if "encrypted" in mode else ""
    return f"""
        accounts {{
            AUTH {{ users: [{{user: service, password: pwd}}] }}
            T {{
                default_permissions: {{publish: {{deny: b}}}}
                users: [{{user: local, password: pwd}}]
            }}
            # With an nkey configured, everybody is sent a nonce.
            F {{ users: [{{nkey: {CLIENT_USER.public}}}] }}
        }}
        authorization {{
            timeout: {AUTH_TIMEOUT}
            auth_callout {{ issuer: {ISSUER.public}, account: AUTH, auth_users: [service], {key} }}
        }}
    """


@dataclass
class Arena:
    """A Go server with a callout, our policy with the same one, and the service that answers both."""

    mode: str
    process: ServerProcess
    service: Wire
    callout: ConfiguredCallout | OperatorCallout
    ours: Interviewer
    names: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def is_operator(self) -> bool:
        return self.mode.startswith("operator")


def our_callout(mode: str) -> ConfiguredCallout | OperatorCallout:
    if mode.startswith("operator"):
        account = Trust([OPERATOR_KEY.public]).account(ISSUER.public, tokens_of(mode)[ISSUER.public])
        assert OperatorCallout.is_wanted(account)
        return OperatorCallout(account)
    curve = SERVICE_CURVE.public if "encrypted" in mode else None
    return ConfiguredCallout(CalloutOptions(ISSUER.public, ("service",), "AUTH", curve))


def user_token(subject: KeyPair, issuer: KeyPair = ISSUER, **nats: Any) -> str:
    return issuer.token(claims_of(issuer, subject, "user", {**NO_LIMITS, **nats}, {}))


def credentials(process: ServerProcess, mode: str, subject: KeyPair) -> Wire:
    """A connection that has said who it is and has not been answered yet."""
    wire = process.connect()
    signature = base64.urlsafe_b64encode(subject.sign(wire.info["nonce"].encode())).decode().rstrip("=")
    said = {"jwt": user_token(subject), "sig": signature}
    if not mode.startswith("operator"):
        said = {"user": "service" if subject is SERVICE_USER else "joe", "pass": "pwd"}
    send_connect(wire, {**said, "name": "compared"})
    return wire


def send_connect(wire: Wire, said: dict[str, Any]) -> None:
    connect = {"verbose": False, "pedantic": False, "protocol": 0, "headers": True, **said}
    wire.send(b"CONNECT " + json.dumps(connect).encode() + b"\r\nPING\r\n")


@pytest.fixture(scope="module", params=MODES)
def arena(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    mode = request.param
    folder = tmp_path_factory.mktemp("callout")
    arguments = ("-D", "-m", "-1")
    with ServerProcess(NATS_SERVER, folder, *arguments, config=configuration_of(mode)) as process:
        service = credentials(process, mode, SERVICE_USER)
        service.take_through(b"PONG\r\n")
        service.send(f"SUB {SUBJECT} 1\r\n".encode())
        service.sync()
        server = ServerClaims(name="n", host="h", version="v")
        key = SigningKeyPair.generate(KeyKind.SERVER)
        ours = Interviewer(server, key, CurveKeyPair.generate())
        yield Arena(mode, process, service, our_callout(mode), ours, names_of(mode))
        service.close()


# --- the service ---


def take_question(arena: Arena) -> tuple[str, bytes, str]:
    """Return where to reply to, the question, and the curve key in its header."""
    service = arena.service
    if not service.received:
        service.fill(PATIENCE)
    while service.received.startswith(b"PING"):
        # The server asks a connection that is silent whether it still lives.
        service.take_line()
        service.send(b"PONG\r\n")
        if not service.received:
            service.fill(PATIENCE)
    words, body = service.take_message()
    size = int(words[4]) if words[0] == b"HMSG" else 0
    found = re.search(rb"Nats-Server-Xkey: *(\S+)", body[:size])
    return words[3].decode(), body[size:], found[1].decode() if found else ""


def opened(payload: bytes, curve: str) -> str:
    return (SERVICE_CURVE.open(payload, curve) if curve else payload).decode()


def timed(case: dict[str, Any]) -> dict[str, Any]:
    now = int(time.time())
    return {name: None if case[name] is None else now + case[name] for name in ("exp", "nbf")}


def answered(arena: Arena, case: dict[str, Any], payload: bytes, curve: str) -> bytes:
    """The service's answer, as this case wants it."""
    asked = decode_authorization_request(opened(payload, curve))
    kind = case["answer"]
    if kind == "empty":
        return b""
    if kind in ("garbage", "binary"):
        return b"no token" if kind == "garbage" else b"xkv1" + bytes(60)
    nats: dict[str, Any] = {
        "jwt": None if kind in ("error", "neither") else user_of(arena, case, asked.user_nkey)
    }
    if kind in ("error", "both"):
        nats["error"] = "go away\r\nnow"
    accounts = {"right": ISSUER.public, "wrong": FORBIDDEN.public, "nonsense": "nonsense"}
    nats["issuer_account"] = accounts.get(case["issuer_account"])
    subjects = {"right": asked.user_nkey, "other": CLIENT_USER.public, "account": ISSUER.public}
    audiences = {
        "right": asked.server.server_id,
        "other": key_pair(SERVER, "other").public,
        "user": asked.user_nkey,
    }
    signers = {"account": ISSUER, "key": SIGNING_KEY, "other": FORBIDDEN, "user": CLIENT_USER}
    signer = signers[case["signer"]]
    outer = {**timed(case), "aud": audiences.get(case["aud"])}
    claimed = claims_of(signer, ISSUER, "authorization_response", nats, outer)
    claimed["sub"] = subjects[case["sub"]]
    token = signer.token(claimed)
    if kind == "cut":
        token = token[:-7]
    elif kind == "another kind":
        token = opened(payload, curve)
    if not curve or case["how"] == "plain":
        return token.encode()
    seals = OTHER_CURVE if case["how"] == "sealed by another" else SERVICE_CURVE
    sealed = seals.seal(token.encode(), curve)
    return sealed[:-3] if case["how"] == "cut" else sealed


def user_of(arena: Arena, case: dict[str, Any], key: str) -> str:
    user = case["user"]
    if user["signer"] == "none":
        return "no token"
    home = ISSUER if user["place"] == "callout" else FORBIDDEN if user["place"] == "forbidden" else TARGET
    keys = {"account": home, "key": TARGET_KEY, "scoped": TARGET_SCOPED, "stranger": CLIENT_STRANGER}
    signer = keys[user["signer"]] if arena.is_operator else ISSUER
    if not arena.is_operator and user["signer"] != "account":
        signer = keys[user["signer"]] if user["signer"] == "stranger" else ISSUER
    nats: dict[str, Any] = {}
    if signer is not TARGET_SCOPED or user["own"]:
        nats = {**NO_LIMITS, **limits_of(user), **user["permissions"]}
    places = {"right": home.public, "other": FORBIDDEN.public, "nonsense": "nonsense"}
    wants_account = user["issuer_account"] != "right" or (arena.is_operator and signer is not home)
    if wants_account and user["issuer_account"] != "none":
        nats["issuer_account"] = places[user["issuer_account"]]
    outer = {**timed(user), "name": user["name"], "aud": None}
    if not arena.is_operator:
        outer["aud"] = arena.names[user["place"]]
    claimed = claims_of(signer, CLIENT_USER, "user", nats, outer)
    claimed["sub"] = key if user["sub"] == "right" else CLIENT_USER.public
    return signer.token(claimed)


CLIENT_STRANGER = key_pair(ACCOUNT, "stranger to callouts")


def limits_of(user: dict[str, Any]) -> dict[str, Any]:
    times = {"out": [{"start": "00:00:00", "end": "00:00:00"}], "bad": [{"start": "x", "end": "y"}]}
    return {**user["limits"], "times": times.get(user["times"])}


def choice(*values: Any, ok: int = 30) -> st.SearchStrategy[Any]:
    """The first value most of the time, so that not every case is refused for its first reason."""
    return st.sampled_from([values[0]] * ok + list(values[1:]))


def subjects(*entries: str) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(st.sampled_from(entries), max_size=2)
    return st.fixed_dictionaries({}, optional={"allow": lists, "deny": lists})


PERMISSIONS = st.fixed_dictionaries(
    {},
    optional={
        "pub": subjects("a", "a.>", "b", ">", "u.joe"),
        "sub": subjects("a", "a.*", "b q", ">"),
        "resp": st.just({"max": 1, "ttl": 0}),
    },
)
OUTER: dict[str, st.SearchStrategy[Any]] = {
    "exp": choice(None, 1000, -1000),
    "nbf": choice(None, -1000, 1000),
}
USER_CASE = st.fixed_dictionaries(
    {
        **OUTER,
        "name": choice("joe", "", ok=3),
        "place": choice("target", "callout", "forbidden", "none", ok=8),
        "signer": choice("account", "key", "scoped", "stranger", "none", ok=6),
        "issuer_account": choice("right", "none", "other", "nonsense"),
        "own": choice(False, True),
        "sub": choice("right", "other"),
        "times": choice(None, "out", "bad"),
        "permissions": PERMISSIONS,
        "limits": st.fixed_dictionaries(
            {
                "payload": choice(-1, 5, ok=2),
                "src": choice(None, ["10.0.0.0/8"], ["x"], ok=6),
                "allowed_connection_types": choice(None, ["WEBSOCKET"], ["NEW"], ["NEW", "STANDARD"], ok=8),
                "bearer_token": choice(None, True, ok=3),
                "proxy_required": choice(None, True),
            }
        ),
    }
)
CASE = st.fixed_dictionaries(
    {
        **OUTER,
        "answer": choice(
            "user", "error", "both", "neither", "empty", "garbage", "binary", "cut", "another kind", ok=60
        ),
        "signer": choice("account", "key", "other", "user"),
        "issuer_account": choice("none", "right", "wrong", "nonsense"),
        "sub": choice("right", "other", "account"),
        "aud": choice("right", "other", "user", "none"),
        "how": choice("sealed", "plain", "sealed by another", "cut", ok=12),
        "user": USER_CASE,
    }
)


# --- the two answers ---


def comparable(reason: str) -> str:
    """Return an error without keys and without what only one server can know: how it words errors of JSON."""
    if reason.startswith("Auth callout service returned an error"):
        return "Auth callout service returned an error"
    reason = _KEY.sub("KEY", reason)
    for start in _REASONS[1:5]:
        if reason.startswith(start):
            return start
    if reason.startswith("No valid account"):
        return "No valid account"
    return reason if reason.startswith(_REASONS) else "malformed"


def our_answer(arena: Arena, case: dict[str, Any]) -> TokenIdentity | str:
    connect = ConnectClaims(user="joe", password="pwd", name="compared")
    question = arena.ours.question(arena.callout, ClientClaims(host="127.0.0.1"), connect, timeout=PATIENCE)
    curve = question.headers[0][1] if question.headers else ""
    try:
        return our_identity(arena, question, answered(arena, case, question.payload, curve))
    except Refused as refused:
        return str(refused)


def our_identity(arena: Arena, question: CalloutRequest, answer: bytes) -> TokenIdentity:
    user = arena.ours.answer(arena.callout, question, answer)
    place = arena.callout.placement(user)
    if place not in (arena.names["callout"], arena.names["target"], arena.names["forbidden"]):
        raise Refused(f'No valid account "{place}" for auth callout response')
    if isinstance(arena.callout, ConfiguredCallout):
        return arena.callout.identity(user, time.time())
    account = Trust([OPERATOR_KEY.public]).account(place, tokens_of(arena.mode)[place])
    return arena.callout.identity(user, account, time.time())


def permitted(arena: Arena, identity: TokenIdentity) -> Permissions | None:
    in_callout = identity.account == arena.names["callout"]
    return without_asking(identity.permissions) if in_callout else identity.permissions


def compare_what_is_permitted(arena: Arena, client: Wire, identity: TokenIdentity) -> None:
    permissions = permitted(arena, identity)
    rules = None if permissions is None else PermissionSet(permissions)
    for subject in SUBJECTS:
        client.send(f"PUB {subject} 0\r\n\r\n".encode())
        may_publish = rules is None or rules.may_publish(subject.encode())
        assert (b"-ERR" in client.sync()) is not may_publish, f"publish {subject}"
        client.send(f"SUB {subject} 1\r\nUNSUB 1\r\n".encode())
        may_subscribe = rules is None or rules.may_subscribe(subject.encode())
        assert (b"-ERR" in client.sync()) is not may_subscribe, f"subscribe {subject}"
    client.send(b"PUB zzz 10\r\n0123456789\r\nPING\r\n")
    assert identity.payload == -1
    client.take_through(b"PONG\r\n")


def connection_of(arena: Arena, cid: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"{arena.process.monitor_url}/connz?auth=1&cid={cid}") as answer:
        (found,) = json.load(answer)["connections"]
    return dict(found)


def compare(arena: Arena, case: dict[str, Any]) -> None:
    """Put one case to both."""
    after = len(arena.process.lines)
    with credentials(arena.process, arena.mode, CLIENT_USER) as client:
        reply, payload, curve = take_question(arena)
        answer = answered(arena, case, payload, curve)
        arena.service.send(f"PUB {reply} {len(answer)}\r\n".encode() + answer + b"\r\n")
        ours = our_answer(arena, case)
        first = client.take_line()
        if first == b"PONG\r\n":
            assert isinstance(ours, TokenIdentity), f"the Go server accepts it, not we: {ours}"
            shown = connection_of(arena, client.info["client_id"])
            assert shown["account"] == ours.account
            if ours.user_name:
                assert shown["authorized_user"] == ours.user_name
            compare_what_is_permitted(arena, client, ours)
            arena.outcomes["accepted"] = arena.outcomes.get("accepted", 0) + 1
            return
        assert first == b"-ERR 'Authorization Violation'\r\n"
        theirs = arena.process.wait_for_line(r"\[WRN\] (?!\S+ - cid:)(.*)", after=after)[1]
        assert isinstance(ours, str), f"the Go server refuses it: {theirs}"
        assert comparable(ours) == comparable(theirs), theirs
        arena.outcomes[comparable(ours)] = arena.outcomes.get(comparable(ours), 0) + 1


RIGHT_USER = {
    "exp": None,
    "nbf": None,
    "name": "joe",
    "place": "target",
    "signer": "account",
    "issuer_account": "right",
    "own": False,
    "sub": "right",
    "times": None,
    "permissions": {},
    "limits": {
        "payload": -1,
        "src": None,
        "allowed_connection_types": None,
        "bearer_token": None,
        "proxy_required": None,
    },
}


@pytest.mark.parametrize("answer", ["user", "error"])
def test_every_signer_of_an_answer_is_judged_alike(arena: Arena, answer: str) -> None:
    """Also of an error: only the service's own is one that is repeated."""
    outer = {"exp": None, "nbf": None, "answer": answer, "sub": "right", "aud": "right", "user": RIGHT_USER}
    signers = ("account", "key", "other", "user")
    accounts = ("none", "right", "wrong", "nonsense")
    ways = ("sealed", "plain") if "encrypted" in arena.mode else ("plain",)
    for signer, account, how in itertools.product(signers, accounts, ways):
        compare(arena, {**outer, "signer": signer, "issuer_account": account, "how": how})


@pytest.mark.parametrize("number", depth.seeds(SEEDS))
def test_generated_answers_are_read_alike(arena: Arena, number: int) -> None:
    arena.outcomes.clear()

    @seed(number * len(MODES) + MODES.index(arena.mode))
    @settings(max_examples=CASES, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(case=CASE)
    def run(case: dict[str, Any]) -> None:
        compare(arena, case)

    run()
    print(dict(sorted(arena.outcomes.items(), key=lambda item: -item[1])))
    # Two that refuse everything for one reason would agree as well.
    assert arena.outcomes["accepted"] >= CASES // 10
    assert len(arena.outcomes) >= 4


SAYS = {
    "user and password": {
        "user": "joe",
        "pass": "s3cret",
        "lang": "go",
        "version": "1.2.3",
        "name": "n \u00e4",
    },
    "token": {"auth_token": "s3cret", "name": '<"&\u2028>'},
    "nkey": {"nkey": CLIENT_USER.public, "sig": "c2ln"},
    "nothing": {},
    "the service's key": {"user": SERVICE_USER.public},
    "the service's name": {"nkey": "service", "user": "local", "pass": "pwd"},
}
CALLER = user_token(CLIENT_USER, tags=["a:b", "c"])


@pytest.mark.parametrize("said", SAYS)
def test_question_is_as_the_go_server_asks(arena: Arena, said: str) -> None:
    says = {"jwt": CALLER, **SAYS[said]}
    token = CALLER if arena.is_operator else ""
    with arena.process.connect() as client:
        if arena.is_operator or said == "nkey":
            right = base64.urlsafe_b64encode(CLIENT_USER.sign(client.info["nonce"].encode())).decode()
            says["sig"] = right.rstrip("=")
        send_connect(client, says)
        reply, payload, curve = take_question(arena)
        arena.service.send(f"PUB {reply} 0\r\n\r\n".encode())
        assert b"-ERR 'Authorization Violation'" in client.take_rest()
        theirs = opened(payload, curve)
        server = decode_authorization_request(theirs).server
        connect = ClientConnect().merged(json.dumps(says).encode())
        caller = ClientClaims(
            host="127.0.0.1",
            client_id=client.info["client_id"],
            user=claimed_user(connect, token, CLIENT_USER.public),
            name=connect.name,
            tags=("a:b", "c") if token else (),
            name_tag="user" if token else "",
            kind="Client",
            connection_type="nats",
            nonce=client.info["nonce"],
        )
    interviewer = Interviewer(server, SigningKeyPair.generate(KeyKind.SERVER), CurveKeyPair.generate())
    ours = interviewer.question(arena.callout, caller, connect_claims(connect, token), timeout=AUTH_TIMEOUT)
    assert bool(ours.headers) is bool(curve) is ("encrypted" in arena.mode)
    asked = opened(ours.payload, ours.headers[0][1] if curve else "")
    assert decode_authorization_request(asked).user_nkey == ours.user_key
    compare_documents(document_of(asked), document_of(theirs))


def compare_documents(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    # Whole seconds of two times in the same second, or in two.
    assert abs(ours["exp"] - ours["iat"] - (theirs["exp"] - theirs["iat"])) <= 1
    assert len(ours["jti"]) == len(theirs["jti"])
    assert ours["nats"]["user_nkey"] != theirs["nats"]["user_nkey"]
    for document in (ours, theirs):
        assert document["iss"] == document["nats"]["server_id"]["id"]
    assert without_what_differs(ours) == without_what_differs(theirs)


def document_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


def without_what_differs(document: dict[str, Any]) -> dict[str, Any]:
    outer = {name: value for name, value in document.items() if name not in ("iss", "jti", "iat", "exp")}
    nats = {name: value for name, value in outer["nats"].items() if name != "user_nkey"}
    server = {name: value for name, value in nats["server_id"].items() if name not in ("id", "xkey")}
    has_curve = "xkey" in nats["server_id"]
    return {**outer, "nats": {**nats, "server_id": {**server, "has xkey": has_curve}}}
