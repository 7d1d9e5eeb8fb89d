"""Operator mode decides as the Go server does: generated tokens, put to both.

The Go server fetches accounts over HTTP from the test, so each case has an account of its own. What is
compared: accepted or refused, the reason it logs for debugging, and what may be published and subscribed to
then.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import socket
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from harness import depth
from harness.claims import ACCOUNT_LIMITS, NO_LIMITS, OPERATOR_KEY, OPERATOR_SIGNER, claims_of, operator_token
from harness.keys import ACCOUNT, OPERATOR, USER, KeyPair, key_pair
from harness.processes import NATS_SERVER, ServerProcess
from headrace.core.grants import Refused, TokenIdentity
from headrace.core.permissions import PermissionSet
from headrace.core.trust import Peer, Trust
from headrace.protocol.jwt.decoding import decode_operator

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.clients

SEEDS = 10
CASES = 300
"""Tokens that are drawn from one seed."""
STRANGER = key_pair(OPERATOR, "stranger")
USER_KEY = key_pair(USER, "compared user")
SUBJECTS = ["a", "a.b", "b", "b.c.d", "u.joe", "d.x", "d.y", "x.y"]
_REASON = re.compile(r"\[(?:DBG|ERR)\] \S+ - cid:(\d+) - (?:\"[^\"]*\" - )?(.*)")
_NOT_REASONS = ("Client connection", "authentication error", "Queue", "Authenticated JWT")


class Accounts(ThreadingHTTPServer):
    """Serves the tokens put into `tokens`, as an account server does."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tokens: dict[str, str] = {}
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Accounts

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        token = self.server.tokens.get(name) if name else ""
        body = (token or "").encode()
        self.send_response(404 if token is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@dataclass
class Arena:
    """A Go server and our policy, which trust the same operator and find the same accounts."""

    process: ServerProcess
    accounts: Accounts
    ours: Trust
    seen: itertools.count[int] = field(default_factory=itertools.count)
    outcomes: dict[str, int] = field(default_factory=dict)


@pytest.fixture(scope="module", params=["relaxed", "strict"])
def arena(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    accounts = Accounts()
    try:
        token = operator_token(strict_signing_key_usage=request.param == "strict" or None)
        claims = decode_operator(token)
        config = (
            f"operator: {token}\nresolver: URL(http://127.0.0.1:{accounts.server_port}/jwt/v1/accounts/)\n"
        )
        keys = [OPERATOR_SIGNER.public, *([] if claims.strict_signing_keys else [OPERATOR_KEY.public])]
        ours = Trust(keys, strict_keys=claims.signing_keys if claims.strict_signing_keys else ())
        folder = tmp_path_factory.mktemp(request.param)
        with ServerProcess(NATS_SERVER, folder, "-D", config=config) as process:
            yield Arena(process, accounts, ours)
    finally:
        accounts.close()


# --- generated cases: what is first in each choice is in order ---


def choice(*values: Any, ok: int = 8) -> st.SearchStrategy[Any]:
    """The first value most of the time, so that not every case is refused for its first reason."""
    return st.sampled_from([values[0]] * ok + list(values[1:]))


def clock(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%H:%M:%S")


ENTRIES = ["a", "a.*", "b.>", "u.joe", ">", "*.x", "d.*"]
TEMPLATES = [
    "u.{{name()}}",
    "d.{{tag(t)}}",
    "d.{{tag(none)}}",
    "{{account-name()}}.y",
    "d.{{account-tag(r)}}",
]
TEMPLATES += ["a", "b.> q", "{{nothing()}}", "{{subject()}}.x", "{{tag(t)}}.{{tag(t)}}", "a.>.b"]
BAD_ENTRIES = ["", "a..b", ".a", "a b", "a b c", "a.>.b", "a\tb"]


def subjects(entries: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(st.sampled_from(entries), max_size=2)
    return st.fixed_dictionaries({}, optional={"allow": lists, "deny": lists})


def permissions(entries: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.fixed_dictionaries(
        {},
        optional={"pub": subjects(entries), "sub": subjects(entries), "resp": st.just({"max": 1, "ttl": 0})},
    )
    return st.one_of(st.just({}), some)


USER_LIMITS = st.fixed_dictionaries(
    {
        "bearer_token": choice(None, True, ok=3),
        "src": choice(
            None, ["127.0.0.0/8"], ["10.0.0.0/8"], "127.0.0.1/32, ::1/128", ["::/0"], ["x"], [], ok=16
        ),
        "times": choice(None, "in", "out", "midnight", "bad", [], ok=16),
        "times_location": choice("UTC", "Nowhere/City", ok=40),
        "allowed_connection_types": choice(
            None, ["standard"], ["WEBSOCKET"], ["NEW"], ["NEW", "STANDARD"], [], ok=20
        ),
        "proxy_required": choice(None, True, ok=40),
        "payload": choice(-1, 5),
        "subs": choice(-1, 50),
    }
)
OUTER = st.fixed_dictionaries(
    {
        "exp": choice(None, 1000, -1000, ok=30),
        "nbf": choice(None, -1000, 1000, ok=30),
        "name": choice("joe", "", "a b", "{{subject()}}"),
    }
)
ACCOUNT_CASE = st.fixed_dictionaries(
    {
        "issuer": choice("signer", "operator", "stranger", "self", ok=30),
        "served": choice("it", "nothing", "another", "garbage", "cut", ok=60),
        "outer": OUTER,
        "template": st.fixed_dictionaries({"limits": USER_LIMITS, "permissions": permissions(TEMPLATES)}),
        "default": permissions(ENTRIES),
        "revoked": choice(None, ("user", -1), ("user", 0), ("*", 0), ("*", -1), ("other", 5), ok=20),
        "disallow_bearer": choice(None, True),
        "tags": choice(["r:e", "r:f"], []),
        "defect": choice(
            {},
            {"mappings": {"a": [{"subject": "b", "weight": 60}, {"subject": "c", "weight": 60}]}},
            {"exports": [{"subject": "a.*", "type": "stream"}, {"subject": "a.b", "type": "stream"}]},
            {"exports": [{"subject": "s", "type": "service", "response_type": "Singleton"}]},
            {"exports": [{"subject": "s", "type": "other"}]},
            {"exports": [{"subject": "s.*", "type": "service", "account_token_position": 1}]},
            {"imports": [{"subject": "a", "account": STRANGER.public, "type": "stream"}]},
            {"imports": [{"subject": "a", "type": "stream"}]},
            {
                "imports": [
                    {"subject": "a.*", "account": STRANGER.public, "local_subject": "b", "type": "stream"}
                ]
            },
            {"default_permissions": {"pub": {"allow": ["a b"]}}},
            {"authorization": {"allowed_accounts": ["*"]}},
            {"trace": {"dest": "t.>"}},
            {"trace": {"dest": "t", "sampling": 7}},
            {"signing_keys": ["nonsense"]},
            {"signing_keys": [{"kind": "other", "key": "x"}]},
            {"info_url": "nonsense"},
            {"cluster_traffic": "x"},
            {"revocations": {"x": "y"}},
            {"version": 1},
            {"version": 3},
            ok=150,
        ),
        "limits": choice({}, {"payload": 3}, {"exports": 0}, {"imports": 0}, {"subs": "x"}, ok=20),
    }
)
USER_CASE = st.fixed_dictionaries(
    {
        "signer": st.sampled_from(["key", "scoped", "account", "key", "scoped", "scoped", "key", "stranger"]),
        "issuer_account": choice("right", "none", "wrong", "nonsense", ok=40),
        "own_limits": choice("as fits", "anyway", ok=30),
        "limits": USER_LIMITS,
        "permissions": st.one_of(permissions(ENTRIES), permissions([*ENTRIES, *BAD_ENTRIES])),
        "outer": OUTER,
        "tags": choice(["t:x", "t:y"], [], ["t:"]),
        "sign": choice("nonce", "padded", "nothing", "other", "garbage", "stranger", ok=40),
        "form": choice("v2", "v1", "v3", "old header", "bad header", "cut", "text", "type", ok=80),
    }
)


@dataclass(frozen=True)
class Keys:
    """The keys of one case; `number` makes them its own."""

    number: int
    run: str = ""

    def key(self, label: str) -> KeyPair:
        return key_pair(ACCOUNT, f"{label} {self.run} {self.number}")


def timed(outer: dict[str, Any]) -> dict[str, Any]:
    now = int(time.time())
    return {name: now + value if name in ("exp", "nbf") and value else value for name, value in outer.items()}


def user_limits(case: dict[str, Any]) -> dict[str, Any]:
    times = {"in": (-2, 2), "out": (2, 4), "midnight": (-13, -1)}
    chosen = case["times"]
    if isinstance(chosen, str) and chosen in times:
        first, last = times[chosen]
        chosen = [{"start": clock(first), "end": clock(last)}]
    elif chosen == "bad":
        chosen = [{"start": "nonsense", "end": "12:00:00"}]
    return {**case, "times": chosen, "times_location": case["times_location"] if chosen else None}


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def account_of(case: dict[str, Any], keys: Keys) -> str:
    account = keys.key("account")
    issuer = {"signer": OPERATOR_SIGNER, "operator": OPERATOR_KEY, "stranger": STRANGER, "self": account}
    revoked = {}
    if case["revoked"]:
        name, delta = case["revoked"]
        revoked = {{"user": USER_KEY.public}.get(name, name): 1_700_000_000 + delta}
    template = without_none({**user_limits(case["template"]["limits"]), **case["template"]["permissions"]})
    nats = {
        "limits": without_none(
            {**ACCOUNT_LIMITS, "disallow_bearer": case["disallow_bearer"], **case["limits"]}
        ),
        "signing_keys": [
            keys.key("key").public,
            {"kind": "user_scope", "key": keys.key("scoped").public, "role": "r", "template": template},
        ],
        "revocations": revoked,
        "default_permissions": case["default"],
        "tags": case["tags"],
        **case["defect"],
    }
    chosen = issuer[case["issuer"]]
    subject = keys.key("another") if case["served"] == "another" else account
    return chosen.token(claims_of(chosen, subject, "account", nats, {**timed(case["outer"]), "name": "acme"}))


def user_of(case: dict[str, Any], keys: Keys) -> str:
    label = {"account": "account", "key": "key", "scoped": "scoped", "stranger": "elsewhere"}[case["signer"]]
    signer = keys.key(label)
    right = None if label in ("account", "elsewhere") else keys.key("account").public
    accounts = {"right": right, "none": None, "wrong": keys.key("elsewhere").public, "nonsense": "nonsense"}
    nats: dict[str, Any] = {"issuer_account": accounts[case["issuer_account"]], "tags": case["tags"]}
    if case["signer"] != "scoped" or case["own_limits"] == "anyway":
        nats = {**NO_LIMITS, **nats, **user_limits(case["limits"]), **case["permissions"]}
    claims = claims_of(signer, USER_KEY, "user", nats, timed(case["outer"]))
    form = case["form"]
    if form == "v1":
        claims.update({"type": "user", "issuer_account": nats["issuer_account"] or ""})
        return signer.old_token(claims)
    if form == "v3":
        claims["nats"]["version"] = 3
    elif form == "type":
        claims["nats"]["pub"] = "everything"
    elif form == "text":
        return "no token"
    header = {
        "old header": {"typ": "jwt", "alg": "ED25519"},
        "bad header": {"typ": "JWT", "alg": "none"},
    }.get(form)
    token = signer.token(claims, header)
    return token[:-5] if form == "cut" else token


def signature_of(how: str, nonce: str) -> str:
    raw = USER_KEY.sign(nonce.encode())
    if how == "padded":
        return base64.b64encode(raw).decode()
    if how in ("nothing", "garbage"):
        return "" if how == "nothing" else "ga rb&age"
    if how != "nonce":
        raw = (STRANGER if how == "stranger" else USER_KEY).sign(b"another nonce")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


# --- the two answers ---


class Connection:
    """A client of the Go server, line by line."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self.info = json.loads(self._file.readline().removeprefix(b"INFO "))

    def ask(self, text: str) -> list[str]:
        """What comes back until the answer to a PING, or until the end."""
        try:
            self._socket.sendall(f"{text}\r\nPING\r\n".encode())
            lines = []
            for line in self._file:
                if line == b"PONG\r\n":
                    return lines
                lines.append(line.decode().strip())
        except ConnectionError:
            lines.append("reset")
        return [*lines, "closed"]

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def reason_in_log(process: ServerProcess, cid: int, after: int) -> str:
    """Why the Go server refused this connection; its last word on a connection comes after it."""
    process.wait_for_line(rf"cid:{cid} .*Client connection closed", after=after)
    # The last word counts: of names of connection types it does not know it complains and goes on.
    for line in reversed(process.lines[after:]):
        found = _REASON.search(line)
        if found and int(found[1]) == cid and not found[2].startswith(_NOT_REASONS):
            return found[2]
    return ""


def comparable(reason: str) -> str:
    """Return an error without what only one of them can know: pointers, and how the JSON reader puts it."""
    for start in ("User JWT no longer valid", "Account JWT lookup error", "invalid connection types"):
        if reason.startswith(start):
            return start
    return "Signature not verified" if reason == "Signature not valid base64" else reason


def our_answer(arena: Arena, token: str, nonce: str, signature: str) -> TokenIdentity | str:
    def lookup(account: str) -> str:
        found = arena.accounts.tokens.get(account)
        if found is None:
            raise LookupError("not found")
        return found

    try:
        return arena.ours.identify(token, Peer("127.0.0.1", nonce.encode(), signature), lookup)
    except Refused as refused:
        return str(refused)


def compare_what_is_permitted(connection: Connection, identity: TokenIdentity) -> None:
    rules = None if identity.permissions is None else PermissionSet(identity.permissions)
    for subject in SUBJECTS:
        may_publish = rules is None or rules.may_publish(subject.encode())
        assert bool(connection.ask(f"PUB {subject} 0\r\n")) is not may_publish, f"publish {subject}"
        may_subscribe = rules is None or rules.may_subscribe(subject.encode())
        assert bool(connection.ask(f"SUB {subject} 1\r\nUNSUB 1")) is not may_subscribe, (
            f"subscribe {subject}"
        )
    answer = connection.ask("PUB zzz 10\r\n0123456789")
    assert ("closed" in answer) is (0 <= identity.payload < 10), answer


RUN = f"{os.getpid()} {time.time_ns()}"


def compare(arena: Arena, account: dict[str, Any], user: dict[str, Any]) -> None:
    """Put one case to both."""
    keys = Keys(next(arena.seen), RUN)
    served = account_of(account, keys)
    if account["served"] != "nothing":
        changed = {"garbage": "garbage", "cut": served[:-9]}.get(account["served"], served)
        arena.accounts.tokens[keys.key("account").public] = changed
    token = user_of(user, keys)
    after = len(arena.process.lines)
    connection = Connection(arena.process.port)
    try:
        nonce = connection.info["nonce"]
        signature = signature_of(user["sign"], nonce)
        connect = {"verbose": False, "pedantic": False, "jwt": token, "sig": signature}
        lines = connection.ask("CONNECT " + json.dumps(connect))
        ours = our_answer(arena, token, nonce, signature)
        if "-ERR 'Authorization Violation'" in lines:
            theirs = reason_in_log(arena.process, connection.info["client_id"], after)
            assert isinstance(ours, str), f"the Go server refuses it: {theirs}"
            assert comparable(ours) == comparable(theirs)
            arena.outcomes[comparable(ours)] = arena.outcomes.get(comparable(ours), 0) + 1
            return
        assert isinstance(ours, TokenIdentity), f"the Go server accepts it, not we: {ours} {lines}"
        assert lines == []
        compare_what_is_permitted(connection, ours)
        arena.outcomes["accepted"] = arena.outcomes.get("accepted", 0) + 1
    finally:
        connection.close()


@pytest.mark.parametrize("number", depth.seeds(SEEDS))
def test_generated_tokens_are_answered_alike(arena: Arena, number: int) -> None:
    arena.outcomes.clear()

    @seed(number)
    @settings(max_examples=CASES, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(account=ACCOUNT_CASE, user=USER_CASE)
    def run(account: dict[str, Any], user: dict[str, Any]) -> None:
        compare(arena, account, user)

    run()
    print(dict(sorted(arena.outcomes.items(), key=lambda item: -item[1])))
    # Two that refuse everything for one reason would agree as well.
    assert arena.outcomes["accepted"] >= CASES // 8
    assert len(arena.outcomes) >= 6
