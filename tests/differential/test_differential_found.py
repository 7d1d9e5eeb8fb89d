"""What generated scripts once found, each with a name: the smallest script that showed it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from differential.playing import play
from differential.steps import Answer, Connect, Publish, Script, Step, Subscribe
from differential.worlds import Login, Tree, World
from harness.keys import USER, KeyPair
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.clients

KEY: Final = KeyPair(USER, bytes(range(32)))
NOBODY: Final = Login("$G")
BOTH: Final = (False, True)


def user(account: str, name: str = "") -> Login:
    return Login(account, name or account, "p")


def account(name: str, **more: object) -> Tree:
    """An account with a user of the same name."""
    return {name: {"users": [{"user": name, "password": "p"}], **more}}


def imported(exporter: str, subject: str, *, share: bool = False) -> Tree:
    return {"service": {"account": exporter, "subject": subject}, "share": share}


def exported(*subjects: str) -> list[Tree]:
    return [{"service": subject} for subject in subjects]


def chain(first: bool, second: bool) -> Tree:
    """Three accounts of which one imports from the next; who shares."""
    a, b, c = (f"chain-{name}-{first:d}{second:d}" for name in "abc")
    return {
        **account(a, exports=exported("s")),
        **account(b, imports=[imported(a, "s", share=second)], exports=exported("s")),
        **account(c, imports=[imported(b, "s", share=first)]),
    }


def back(first: bool, second: bool) -> Tree:
    """Two accounts of which one imports two services of the other; which one it shares with."""
    a, b = (f"back-{name}-{first:d}{second:d}" for name in "ab")
    imports = [imported(a, "s", share=first), imported(a, "t", share=second)]
    return {**account(a, exports=exported("s", "t")), **account(b, imports=imports)}


ACCOUNTS: Final[Tree] = {
    **account("A", exports=[{"service": "s"}, {"service": "t", "response_type": "stream"}]),
    **account("B", imports=[imported("A", "s"), imported("A", "t")]),
    "K": {"users": [{"nkey": KEY.public}], "imports": [imported("A", "s", share=True)]},
    **account("many", imports=[{**imported("A", "s"), "to": "ask.*.>"}]),
    **account("full", limits={"max_connections": 0}),
    "losing": {
        "users": [
            {"user": "allowed", "password": "p", "permissions": {"publish": ["x", "y"]}},
            {"user": "denied", "password": "p", "permissions": {"publish": {"deny": [">"]}}},
            {"user": "free", "password": "p"},
        ],
        "mappings": {"x": [{"destination": "x", "weight": 0}]},
    },
}
for one, other in product(BOTH, BOTH):
    ACCOUNTS.update({**chain(one, other), **back(one, other)})


@dataclass(frozen=True)
class Found:
    name: str
    steps: tuple[Step, ...]
    config: str = json.dumps({"accounts": ACCOUNTS})


def unheard(subject: str) -> tuple[Step, ...]:
    """A request whose requester does not listen, answered twice by somebody who wants answers himself."""
    return (
        Connect(0, user("A"), no_responders=True),
        Connect(1, user("B")),
        Subscribe(0, subject),
        Subscribe(0, "i"),
        Publish(1, subject, "inbox"),
        Answer(0, 0, "i"),
        Answer(0, 0, "i"),
    )


def losing(name: str) -> tuple[Step, ...]:
    return (Connect(0, user("losing", name), verbose=True), Publish(0, "x"))


def chained(tag: str) -> tuple[Step, ...]:
    a, c = (user(f"chain-{name}-{tag}") for name in "ac")
    return (Connect(0, a), Connect(1, c), Subscribe(0, "s"), Publish(1, "s", "i"))


def sent_back(tag: str) -> tuple[Step, ...]:
    """A request whose reply subject is another service of the same account."""
    a, b = (user(f"back-{name}-{tag}") for name in "ab")
    ask: tuple[Step, ...] = (Subscribe(0, "s"), Subscribe(0, "t"), Publish(1, "s", "t"))
    return (Connect(0, a), Connect(1, b), *ask, Answer(0, 0))


GUEST: Final = json.dumps(
    {"authorization": {"users": [{"user": "$G", "password": "p"}]}, "no_auth_user": "$G"}
)
KEYED_GUEST: Final = json.dumps(
    {"authorization": {"users": [{"nkey": KEY.public}]}, "no_auth_user": KEY.public}
)
OPEN: Final = json.dumps({"max_payload": 100})
FOUND: Final = [
    Found(
        "guest who is an nkey has to connect",
        (Connect(0, Login("$G", key=KEY), "silent"), Connect(1, Login("$G", key=KEY), "missing")),
        KEYED_GUEST,
    ),
    Found(
        "ping of a guest who has not connected is the first one",
        (Connect(0, user("$G"), "silent"), Connect(0, user("$G"), protocol=1)),
        GUEST,
    ),
    Found(
        "ping before connect is not the first one where nobody is asked",
        (Connect(0, NOBODY, "silent"), Connect(0, NOBODY, protocol=1)),
        OPEN,
    ),
    Found(
        "full account is said before what else is wrong",
        (
            Connect(0, user("full"), headers=False, no_responders=True),
            Connect(1, user("full"), protocol=7),
        ),
    ),
    *(
        Found(f"message that a mapping loses is judged all the same: {name}", losing(name))
        for name in ("allowed", "denied", "free")
    ),
    Found("response that nobody hears has been heard", unheard("s")),
    Found("streamed response that nobody hears has been heard", unheard("t")),
    Found(
        "made up reply subject is heard by nobody",
        (Connect(0, user("A"), no_responders=True), Subscribe(0, "i"), Publish(0, "_R_.zzz", "i")),
    ),
    Found(
        "service that is imported under many subjects",
        (
            Connect(0, user("A")),
            Connect(1, user("many")),
            Subscribe(0, "s"),
            Subscribe(1, "i"),
            Publish(1, "ask.a.b.c", "i"),
            Answer(0, 0),
            Publish(1, "ask.a", "i"),
        ),
    ),
    Found(
        "nkey that is shared has its account as issuer",
        (Connect(0, user("A")), Connect(1, Login("K", key=KEY)), Subscribe(0, "s"), Publish(1, "s", "i")),
    ),
    *(
        Found(f"{what}, sharing {tag}", steps(tag))
        for what, steps in (("chain of services", chained), ("response that becomes a request", sent_back))
        for tag in ("00", "01", "10", "11")
    ),
]


@pytest.fixture(scope="module")
def serving(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], tuple[ServerProcess, ...]]]:
    """The Go server and ours with a configuration."""
    running: dict[str, tuple[ServerProcess, ...]] = {}
    with ExitStack() as stack:

        def both(config: str) -> tuple[ServerProcess, ...]:
            if config not in running:
                running[config] = tuple(
                    stack.enter_context(
                        ServerProcess(program, tmp_path_factory.mktemp("server"), "-m", "-1", config=config)
                    )
                    for program in (NATS_SERVER, HEADRACES[0])
                )
            return running[config]

        yield both


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.name)
def test_found_difference_is_gone(found: Found, serving: Callable[[str], tuple[ServerProcess, ...]]) -> None:
    script = Script(World({}, (), {}, crowded=True), found.steps, frozenset())

    wanted, got = (play(script, server).text() for server in serving(found.config))

    assert got == wanted
