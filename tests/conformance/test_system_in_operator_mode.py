"""The system account where tokens say who is who: what is told and answered of accounts and users.

Field by field, in their order, as the Go server does; accounts are keys, the names of their tokens beside.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from conformance.test_system_against_go import Observer, normal
from harness.claims import ACCOUNT_KEY, USER_KEY, user_token
from harness.operators import SYSTEM, SYSTEM_USER, configuration, enter, request, say, trusted_account
from harness.processes import EPOLL, NATS_SERVER, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.clients

USER = user_token(
    ACCOUNT_KEY,
    USER_KEY,
    {"name": "joe", "exp": 4_000_000_000},
    tags=["red", "x:1"],
    pub={"allow": ["$SYS.>", "_INBOX.>"], "deny": ["no.>"]},
    sub={"allow": ["_INBOX.>", "x q"]},
    resp={"max": 2, "ttl": 1_000_000_000},
)
OTHER = user_token(ACCOUNT_KEY, SYSTEM_USER, {"name": "signed by nobody"})


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    config = configuration({ACCOUNT_KEY.public: trusted_account(ACCOUNT_KEY, {"name": "apple"})})
    config += 'server_name: one\nserver_tags: ["red"]\n'
    with (
        ServerProcess(NATS_SERVER, tmp_path_factory.mktemp("go"), config=config) as go,
        ServerProcess(EPOLL, tmp_path_factory.mktemp("ours"), config=config) as ours,
    ):
        yield go, ours


class OperatorObserver(Observer):
    """A user of the system account, by a token."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.wire = enter(server, user_token(SYSTEM, SYSTEM_USER), SYSTEM_USER)
        self.id = self.wire.info["server_id"]
        self._inboxes = 0


def told(server: ServerProcess, total: int = 0) -> list[Any]:
    observer = OperatorObserver(server)
    observer.listen()
    with enter(server, USER, USER_KEY, name="n"):
        pass
    found = observer.events_until(f"$SYS.ACCOUNT.{ACCOUNT_KEY.public}.DISCONNECT", 1, total)
    observer.close()
    return [event for event in found if SYSTEM.public not in event[0]]


def test_events_say_what_tokens_say(servers: tuple[ServerProcess, ServerProcess]) -> None:
    go, ours = servers

    found = told(ours)
    assert found == [(subject, without_token(event)) for subject, event in told(go, len(found))]
    assert len(found) == 6


def test_connections_are_one_event_on_two_subjects(servers: tuple[ServerProcess, ServerProcess]) -> None:
    for server in servers:
        observer = OperatorObserver(server)
        observer.listen()
        with enter(server, USER, USER_KEY):
            documents = []
            while len(documents) < 2:
                subject, payload = observer.next_message()
                if subject.endswith("CONNS") and ACCOUNT_KEY.public in subject:
                    documents.append(json.loads(payload))
        observer.close()
        first, second = documents

        assert (first["id"], first["timestamp"]) == (second["id"], second["timestamp"])
        assert first["server"]["seq"] < second["server"]["seq"]


def test_refused_token_is_told_of_without_the_token(servers: tuple[ServerProcess, ServerProcess]) -> None:
    """The Go server shows it; it may be one that needs no signature."""
    refusals = []
    for server in servers:
        observer = OperatorObserver(server)
        observer.listen()
        with say(server, OTHER, USER_KEY) as wire:
            wire.take_through(b"-ERR 'Authorization Violation'\r\n")
        found = observer.events_until("$SYS.SERVER.<server>.CLIENT.AUTH.ERR")
        observer.close()
        refusals.append([event for event in found if event[0].endswith("AUTH.ERR")])
    go, ours = refusals

    assert "eyJ" not in repr(ours)
    assert ours == [(subject, without_token(event)) for subject, event in go]


def without_token(event: list[Any]) -> list[Any]:
    return [
        (name, [pair for pair in value if pair[0] != "jwt"] if name == "client" else value)
        for name, value in event
    ]


def test_token_that_needs_no_signature_is_not_shown(servers: tuple[ServerProcess, ServerProcess]) -> None:
    _, ours = servers
    bearer = user_token(ACCOUNT_KEY, USER_KEY, bearer_token=True)
    observer = OperatorObserver(ours)
    observer.listen()
    with say(ours, bearer, None) as wire:
        wire.take_through(b"PONG\r\n")
    found = observer.events_until(f"$SYS.ACCOUNT.{ACCOUNT_KEY.public}.DISCONNECT")
    observer.close()

    assert len(found) == 6
    assert bearer not in repr(found)


@pytest.mark.parametrize("subject", ["$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.STATZ"])
def test_user_is_answered_as_by_the_go_server(
    servers: tuple[ServerProcess, ServerProcess], subject: str
) -> None:
    answers = []
    for server in servers:
        with enter(server, USER, USER_KEY) as wire:
            document = json.loads(request(wire, subject))
            assert document["data"].pop("expires", 1) > 0
            for rules in document["data"].get("permissions", {}).values():
                for subjects in rules.values():
                    if isinstance(subjects, list):
                        subjects.sort()  # the Go server lists them in any order
            answers.append(normal(document, wire.info["server_id"]))
    go, ours = answers

    assert ours == go


@pytest.mark.parametrize("name", ["CONNZ", "STATZ", "CONNS"])
@pytest.mark.parametrize("payload", [b"", b'{"auth":true}'])
def test_account_is_described_as_by_the_go_server(
    servers: tuple[ServerProcess, ServerProcess], name: str, payload: bytes
) -> None:
    answers = []
    for server in servers:
        observer = OperatorObserver(server)
        with enter(server, USER, USER_KEY, name="n") as wire:
            subject = f"$SYS.REQ.ACCOUNT.{ACCOUNT_KEY.public}.{name}"
            answers.append(observer.ask(subject, payload, subject))
            assert wire.info
        observer.close()
    go, ours = answers

    assert ours == go
