"""Transforms, permissions and authentication decide as the Go server does, asked the same questions."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from go_reference import GoServer, RawClient, unpadded

from headrace.conf.account_options import (
    AuthorizationOptions,
    Permissions,
    ResponsePermission,
    SubjectMapping,
    SubjectPermission,
    UserOptions,
)
from headrace.conf.options import Options
from headrace.core.mapping import Mappings
from headrace.core.permissions import PermissionSet
from headrace.protocol import nkeys
from headrace.server.auth import Authenticator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.clients

# Source and destination tails; each mapping gets a first token of its own, so that no two overlap.
TRANSFORMS = [
    ("*.*", "$2.$1"),
    ("*.*", "{{ Wildcard( 2 ) }}.x"),
    ("*.*", "{{partition(7,1,2)}}"),
    ("*.*", "{{partition(1000,2)}}"),
    ("*.*", "{{partition(13)}}"),
    ("*", "{{SplitFromLeft(1,3)}}"),
    ("*", "{{splitFromRight(1, 2)}}.y"),
    ("*", "{{SliceFromLeft(1,3)}}"),
    ("*", "{{sliceFromRight(1,3)}}"),
    ("*", "{{split(1,-)}}"),
    ("*", "{{split(1,)}}"),
    ("*", "{{left(1,2)}}.{{right(1,2)}}"),
    ("*.>", "$1.mid.>"),
    (">", "front.>"),
    ("*.b.*", "$2"),
]
TAILS = [
    *("a", "ab", "abc", "abcdef", "abcdefgh", "a-b", "-a-b-c", "a--b", "ü", "*", ">"),
    *("a.b", "ab.c", "foo.bar", "x.y", "1.2", "a.*", "*.>", "a.b.c", "q.b.w.z", "Ünï.çødé"),
]

RULES = ["a", "a.b", "a.*", "*.b", "b.>", "c.*.d"]
ASKED = [
    "a",
    "a.b",
    "a.c",
    "a.b.c",
    "b",
    "b.x",
    "b.x.y",
    "c.1.d",
    "c.1",
    "a.*",
    "*.b",
    "*.*",
    "*",
    ">",
    "b.>",
]
ASKED += ["b.*", "c.*.d", "c.>", "*.>", "a..b", "b.", "d"]
QUEUE_RULES = ["a", "a q", "b q.*", "c.* q.>", "d.>", "e *"]
QUEUE_ASKED = [
    f"{subject} {queue}".strip()
    for subject, queue in itertools.product(
        ["a", "b", "c.x", "c.*", "d.x", "e", "f"], ["", "q", "q.1", "q.1.2", "q.*", "r"]
    )
]

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
NKEY = nkeys.encode_public(nkeys.KeyKind.USER, PRIVATE.public_key().public_bytes_raw())
HASH = "$2a$04$abcdefghijklmnopqrstuuVCBXHHrUT343LijgO78P7iXRt4cI2TC"


def single_user(permissions: dict[str, object]) -> str:
    users = [{"user": "u", "password": "p", "permissions": permissions}, {"user": "all", "password": "p"}]
    return json.dumps({"authorization": {"users": users}})


def rule(entry: object) -> SubjectPermission | None:
    if not isinstance(entry, dict):
        return None
    allow = entry.get("allow")
    return SubjectPermission(None if allow is None else tuple(allow), tuple(entry.get("deny", ())))


def permission_set(
    permissions: dict[str, object], responses: ResponsePermission | None = None
) -> PermissionSet:
    return PermissionSet(
        Permissions(rule(permissions.get("publish")), rule(permissions.get("subscribe")), responses)
    )


@pytest.fixture(scope="module")
def mapping_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoServer]:
    mappings = {f"s{n}.{source}": f"d{n}.{destination}" for n, (source, destination) in enumerate(TRANSFORMS)}
    with GoServer(tmp_path_factory.mktemp("go"), json.dumps({"mappings": mappings})) as server:
        yield server


@pytest.mark.parametrize("number", range(len(TRANSFORMS)))
def test_transform_gives_the_go_servers_subject(mapping_server: GoServer, number: int) -> None:
    source, destination = TRANSFORMS[number]
    ours = Mappings([SubjectMapping(f"s{number}.{source}", f"d{number}.{destination}")])
    with mapping_server.connect() as client:
        client.send("SUB > 1")
        for tail in TAILS:
            subject = f"s{number}.{tail}"
            client.publish(subject)
            mapped = ours.map(subject.encode())
            assert client.subjects() == [subject if mapped is None else mapped.decode()]


PUBLISH_CASES: list[dict[str, object]] = [
    {"allow": ["a.*", "b.>"]},
    {"deny": ["a.*", "c.*.d"]},
    {"allow": RULES, "deny": ["*.b", "b.x.>"]},
    {"allow": []},
    {"deny": []},
]


@pytest.mark.parametrize("publish", PUBLISH_CASES)
def test_may_publish_agrees(tmp_path: Path, publish: dict[str, object]) -> None:
    permissions: dict[str, object] = {"publish": publish}
    ours = permission_set(permissions)
    with (
        GoServer(tmp_path, single_user(permissions)) as server,
        server.connect(user="u", **{"pass": "p"}) as client,
    ):
        for subject in ASKED:
            client.publish(subject)
            assert ours.may_publish(subject.encode()) is not bool(client.sync()), subject


SUBSCRIBE_CASES: list[dict[str, object]] = [
    {"allow": ["a", "a.b", "b.>", "c.*.d"]},
    {"deny": RULES},
    {"allow": ["b.>", "a.*"], "deny": ["a.b", "b.x"]},
    {"allow": [">"], "deny": ["a.*"]},
    {"allow": QUEUE_RULES},
    {"deny": QUEUE_RULES},
    {"allow": ["> q.*"], "deny": ["a q.1", "c.*"]},
    {"allow": []},
]
# An allowed `a.*` lets these through in the Go server, and then delivers what is not allowed.
LEAKS = {"a.>"}


@pytest.mark.parametrize("subscribe", SUBSCRIBE_CASES)
def test_may_subscribe_agrees(tmp_path: Path, subscribe: dict[str, object]) -> None:
    permissions: dict[str, object] = {"subscribe": subscribe}
    ours = permission_set(permissions)
    with (
        GoServer(tmp_path, single_user(permissions)) as server,
        server.connect(user="u", **{"pass": "p"}) as client,
    ):
        for asked in [*ASKED, *QUEUE_ASKED]:
            subject, _, queue = asked.partition(" ")
            if ".." in subject or subject.endswith(".") or subject in LEAKS:
                continue
            client.send(f"SUB {asked} 1")
            refused = bool(client.sync())
            client.send("UNSUB 1")
            assert ours.may_subscribe(subject.encode(), queue.encode() or None) is not refused, asked


def test_may_subscribe_wider_than_an_allowed_star_leaks_in_the_go_server_only(tmp_path: Path) -> None:
    permissions: dict[str, object] = {"subscribe": {"allow": ["a.*"]}}
    with (
        GoServer(tmp_path, single_user(permissions)) as server,
        server.connect(user="u", **{"pass": "p"}) as client,
        server.connect(user="all", **{"pass": "p"}) as publisher,
    ):
        client.send("SUB a.> 1")
        assert client.sync() == []
        publisher.publish("a.b.c")
        publisher.sync()
        assert client.subjects() == ["a.b.c"]
    assert not permission_set(permissions).may_subscribe(b"a.>")


def test_may_deliver_agrees(tmp_path: Path) -> None:
    permissions: dict[str, object] = {"subscribe": {"deny": ["a.*", "b.> q", "c r.*"]}}
    ours = permission_set(permissions)
    queues = ["", "q", "r.1", "s"]
    with (
        GoServer(tmp_path, single_user(permissions)) as server,
        server.connect(user="u", **{"pass": "p"}) as client,
        server.connect(user="all", **{"pass": "p"}) as publisher,
    ):
        for sid, queue in enumerate(queues):
            client.send(f"SUB > {queue} {sid}")
        assert client.sync() == []
        for subject in ("a", "a.x", "a.x.y", "b", "b.x", "c", "d"):
            publisher.publish(subject)
            publisher.sync()
            sids = sorted(int(line.split()[2]) for line in client.sync())
            expected = [
                sid for sid, queue in enumerate(queues) if ours.may_deliver(subject.encode(), queue.encode())
            ]
            assert sids == expected, subject


@pytest.mark.parametrize("maximum", [1, 2, -1])
def test_response_permission_agrees(tmp_path: Path, maximum: int) -> None:
    permissions: dict[str, object] = {
        "publish": {"allow": ["none"]},
        "allow_responses": {"max": maximum, "expires": "1m"},
    }
    ours = permission_set(permissions, ResponsePermission(maximum, 60.0)).response_tracker(lambda: 0)
    assert ours is not None
    with (
        GoServer(tmp_path, single_user(permissions)) as server,
        server.connect(user="u", **{"pass": "p"}) as responder,
        server.connect(user="all", **{"pass": "p"}) as requester,
    ):
        responder.send("SUB svc 1")
        responder.sync()
        requester.publish("svc", "reply")
        requester.sync()
        assert len(responder.sync()) == 1
        ours.track(b"reply")
        for _ in range(4):
            responder.publish("reply")
            assert ours.may_publish(b"reply") is not bool(responder.sync())


CREDENTIALS: list[dict[str, str]] = [
    {},
    {"user": "u", "pass": "p"},
    {"user": "u", "pass": "x"},
    {"user": "u"},
    {"user": "U", "pass": "p"},
    {"user": "v"},
    {"user": "v", "pass": "x"},
    {"pass": "p"},
    {"auth_token": "tok"},
    {"auth_token": "x"},
    {"auth_token": "tok", "user": "u", "pass": "p"},
    {"auth_token": "p"},
    {"user": "h", "pass": "s3cr3t-bcrypt"},
    {"user": "h", "pass": HASH},
    {"user": "h"},
    {"nkey": NKEY, "sig": "signed"},
    {"nkey": NKEY, "sig": "wrong"},
    {"nkey": NKEY},
    {"nkey": NKEY, "user": "u", "pass": "p"},
    {"nkey": "UX", "sig": "signed"},
    {"user": NKEY},
]
USERS = (UserOptions("u", "p"), UserOptions("v"), UserOptions("h", HASH))
WITH_NKEY = (*USERS, UserOptions(nkey=NKEY))
AUTH_CASES = [
    Options(),
    Options(authorization=AuthorizationOptions(token="tok")),
    Options(authorization=AuthorizationOptions(users=USERS)),
    Options(authorization=AuthorizationOptions(users=WITH_NKEY)),
    Options(authorization=AuthorizationOptions(users=USERS), no_auth_user="u"),
    Options(authorization=AuthorizationOptions(users=WITH_NKEY), no_auth_user="u"),
    Options(authorization=AuthorizationOptions(users=WITH_NKEY), no_auth_user=NKEY),
]


def configuration(options: Options) -> str:
    authorization: dict[str, object] = {}
    if options.authorization.token:
        authorization["token"] = options.authorization.token
    if options.authorization.users:
        authorization["users"] = [
            {"nkey": entry.nkey}
            if entry.nkey
            else {"user": entry.user, **({"password": entry.password} if entry.password else {})}
            for entry in options.authorization.users
        ]
    document: dict[str, object] = {"authorization": authorization} if authorization else {}
    if options.no_auth_user:
        document["no_auth_user"] = options.no_auth_user
    return json.dumps(document)


@pytest.mark.parametrize("options", AUTH_CASES, ids=lambda options: configuration(options)[:60])
def test_authenticate_agrees(tmp_path: Path, options: Options) -> None:
    ours = Authenticator(options)
    with GoServer(tmp_path, configuration(options)) as server:
        for credentials in CREDENTIALS:

            def filled(nonce: str, credentials: dict[str, str] = credentials) -> dict[str, object]:
                if "sig" not in credentials:
                    return dict(credentials)
                text = nonce if credentials["sig"] == "signed" else "other"
                return {**credentials, "sig": unpadded(PRIVATE.sign(text.encode()))}

            with RawClient(server.port, filled) as client:
                accepted = not client.sync()
                nonce = client.info.get("nonce", "")
                assert ours.required is client.info.get("auth_required", False)
                assert ours.needs_nonce is bool(nonce)
            sent = filled(nonce)
            connect = SimpleNamespace(
                user=sent.get("user"),
                password=sent.get("pass"),
                auth_token=sent.get("auth_token"),
                nkey=sent.get("nkey"),
                sig=sent.get("sig"),
            )
            assert (ours.authenticate(connect, nonce.encode()) is not None) is accepted, credentials
