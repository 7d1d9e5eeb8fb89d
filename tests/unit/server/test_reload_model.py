"""A reloaded server does as one that was started with the new file: for live clients and for new ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.waiting import PATIENCE
from harness.wire import Wire
from headrace.conf.binding import load_options
from headrace.testing.embedded import Server

if TYPE_CHECKING:
    from pathlib import Path

SUBJECTS = ("x", "y", "a.x", "a.y")
PATTERNS = ("x", "a.*", ">", "*", "a.x")
PEOPLE = ("ann", "bob", "cid")
ACCOUNTS = ("A", "B", "C")
TOKENS = ("t1", "t2")


# -- configurations -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Who there is: the kind of authentication, and each one's account and password."""

    kind: str
    homes: dict[str, str]
    passwords: dict[str, str]
    token: str

    def credentials(self) -> list[dict[str, str]]:
        """What is accepted, mostly."""
        match self.kind:
            case "open":
                return [{}, {"user": PEOPLE[0], "pass": "p"}]
            case "token":
                return [{"auth_token": self.token}]
            case _:
                return [{"user": name, "pass": self.passwords[name]} for name in self.homes] or [{}]


@dataclass(frozen=True)
class Details:
    """What they may do, and what accounts share."""

    permissions: dict[str, Any]
    mappings: dict[str, dict[str, str]]
    exports: dict[str, list[str]]
    imports: frozenset[tuple[str, str]]
    limits: dict[str, int]
    no_auth_user: str | None


def layouts() -> st.SearchStrategy[Layout]:
    homes = st.dictionaries(st.sampled_from(PEOPLE), st.sampled_from(ACCOUNTS), min_size=1)
    passwords = st.fixed_dictionaries({name: st.sampled_from("pq") for name in PEOPLE})
    kinds = st.sampled_from(["open", "token", "users", "users", "accounts", "accounts", "accounts"])
    return st.builds(Layout, kinds, homes, passwords, st.sampled_from(TOKENS))


def permissions() -> st.SearchStrategy[Any]:
    some = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2, unique=True)
    rule = st.one_of(some, st.fixed_dictionaries({}, optional={"allow": some, "deny": some}))
    return st.fixed_dictionaries({"subscribe": rule}, optional={"publish": rule})


def details() -> st.SearchStrategy[Details]:
    mappings = st.dictionaries(st.sampled_from(SUBJECTS[:3]), st.sampled_from(SUBJECTS), max_size=2)
    exports = st.lists(st.sampled_from(["x", "a.*", "y"]), max_size=2, unique=True)
    pairs = st.sampled_from([("A", "B"), ("A", "C"), ("B", "C")])  # in a line: nothing goes in circles
    return st.builds(
        Details,
        permissions=st.fixed_dictionaries({}, optional=dict.fromkeys(PEOPLE, permissions())),
        mappings=st.dictionaries(st.sampled_from(["$G", *ACCOUNTS]), mappings, max_size=2),
        exports=st.fixed_dictionaries(dict.fromkeys(ACCOUNTS, exports)),
        imports=st.frozensets(pairs),
        limits=st.fixed_dictionaries(
            {},
            optional={
                "max_payload": st.sampled_from([3, 300]),
                "max_control_line": st.sampled_from([200, 4096]),
            },
        ),
        no_auth_user=st.one_of(st.none(), st.sampled_from(PEOPLE)),
    )


def configuration(layout: Layout, details: Details) -> dict[str, Any]:
    made: dict[str, Any] = {"mappings": details.mappings.get("$G", {}), **details.limits}
    users = {
        name: {"user": name, "password": layout.passwords[name]}
        | ({"permissions": details.permissions[name]} if name in details.permissions else {})
        for name in layout.homes
    }
    if layout.kind == "token":
        made["authorization"] = {"token": layout.token}
    elif layout.kind == "users":
        made["authorization"] = {"users": list(users.values())}
    elif layout.kind == "accounts":
        made["accounts"] = {
            account: {
                "users": [users[name] for name, home in layout.homes.items() if home == account],
                "mappings": details.mappings.get(account, {}),
                "exports": [{"stream": subject} for subject in details.exports[account]],
                "imports": [
                    {"stream": {"account": exporter, "subject": subject}}
                    for exporter, importer in sorted(details.imports)
                    if importer == account and exporter in layout.homes.values()
                    for subject in details.exports[exporter]
                ],
            }
            for account in sorted(set(layout.homes.values()))
        }
    if layout.kind in ("users", "accounts") and details.no_auth_user in layout.homes:
        made["no_auth_user"] = details.no_auth_user
    return made


# -- clients ------------------------------------------------------------------------------------------

ANY: tuple[dict[str, str], ...] = (
    {},
    *({"auth_token": token} for token in TOKENS),
    *({"user": name, "pass": password} for name in PEOPLE for password in "pq"),
)


@dataclass
class Client:
    """One connection that subscribes to some patterns; `has` are those it has been left with, by sid."""

    wire: Wire
    patterns: list[str]
    has: dict[int, str] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return not self.wire.closed

    def hear(self) -> list[str]:
        """Lines that have come, the server's PINGs left out."""
        if self.wire.closed:
            return []
        self.wire.send(b"PING\r\n")
        while b"PONG\r\n" not in self.wire.received and not self.wire.closed:
            assert self.wire.fill(PATIENCE) or self.wire.closed, "no answer"
        lines = self.wire.take().decode().split("\r\n")[:-1]
        return [line for line in lines if line not in ("PING", "PONG")]


def connect(server: Server, credentials: dict[str, str], patterns: list[str]) -> Client:
    client = Client(Wire(("127.0.0.1", server.port)), patterns)
    options = json.dumps({"verbose": False, "pedantic": False, **credentials})
    client.wire.send(f"CONNECT {options}\r\n".encode())
    client.hear()
    for sid, pattern in enumerate(patterns):
        if client.is_open:
            client.wire.send(f"SUB {pattern} {sid}\r\n".encode())
            if not client.hear():
                client.has[sid] = pattern
    return client


def survivors(clients: list[Client]) -> list[bool]:
    """Takes in what a reload has told them: which are still there, and which subscriptions are gone."""
    for client in clients:
        for line in client.hear():
            if "(sid " in line:
                del client.has[int(line.split('(sid "')[1].split('"')[0])]
    return [client.is_open for client in clients]


def deliveries(clients: list[Client]) -> list[Any]:
    """Who hears what of whom. Messages stay small enough for every limit."""
    found = []
    for publisher in clients:
        for subject in SUBJECTS:
            publisher.wire.send(f"PUB {subject} 1\r\n.\r\n".encode())
            said = publisher.hear()
            others = [sorted(client.hear()) for client in clients if client is not publisher]
            found.append((subject, sorted(said), others))
    return found


def info(client: Client) -> dict[str, Any]:
    names = ("max_payload", "auth_required", "headers", "tls_required")
    return {name: client.wire.info.get(name) for name in names} | {"nonce": "nonce" in client.wire.info}


@st.composite
def stories(draw: st.DrawFn) -> tuple[Any, Any, list[tuple[dict[str, str], list[str]]]]:
    """Two configurations, which often have the same users, and clients that the first one mostly accepts."""
    layout = draw(layouts())
    later = layout if draw(st.booleans()) else draw(layouts())
    first = draw(details())
    second = first if later is not layout and draw(st.booleans()) else draw(details())
    accepted = st.sampled_from(layout.credentials())
    who = st.one_of(accepted, accepted, accepted, st.sampled_from(ANY))
    subscribed = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3, unique=True)
    people = draw(st.lists(st.tuples(who, subscribed), min_size=1, max_size=4))
    return configuration(layout, first), configuration(later, second), people


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=stories())
def test_reloaded_is_as_started(tmp_path: Path, story: tuple[Any, Any, Any]) -> None:
    before, after, people = story
    file = tmp_path / "server.conf"
    # Without events of refusals, which those who subscribe to everything hear.
    listen = {"listen": "127.0.0.1:-1", "no_system_account": True}
    file.write_text(json.dumps(listen | before))
    opened: list[Client] = []
    with Server(load_options(str(file), environ={})) as reloaded:
        everybody = [connect(reloaded, *who) for who in people]
        opened += everybody
        live = [(who, client) for who, client in zip(people, everybody, strict=True) if client.is_open]
        file.write_text(json.dumps(listen | after))
        reloaded.call(reloaded.server.reload)
        survivors([client for _, client in live])
        live = [(who, client) for who, client in live if client.is_open]
        with Server(load_options(str(file), environ={})) as fresh:
            twins = [connect(fresh, credentials, client.patterns) for (credentials, _), client in live]
            opened += twins
            new = [(connect(reloaded, *who), connect(fresh, *who)) for who in people]
            opened += [client for pair in new for client in pair]

            assert all(twin.is_open for twin in twins)
            for (_, client), twin in zip(live, twins, strict=True):
                # what was refused before the reload stays so until it is asked for again
                assert client.has.items() <= twin.has.items()
                for sid in twin.has.keys() - client.has.keys():
                    client.wire.send(f"SUB {twin.has[sid]} {sid}\r\n".encode())
                assert client.hear() == []
            for ours, theirs in new:
                assert (ours.is_open, ours.has, info(ours)) == (theirs.is_open, theirs.has, info(theirs))
            left = [client for _, client in live] + [ours for ours, _ in new if ours.is_open]
            right = twins + [theirs for _, theirs in new if theirs.is_open]
            assert deliveries(left) == deliveries(right)
    for client in opened:
        client.wire.close()
