"""`headrace jetstream stepdown`: the request, and what is made of answers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from headrace.cli import jetstream
from headrace.client.blocking import connect
from headrace.client.errors import ClientTimeoutError
from headrace.client.jetstream_api import JetStreamApi
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBJECT = "$JS.API.META.LEADER.STEPDOWN"
KIND = '"type":"io.nats.jetstream.api.v1.meta_leader_stepdown_response"'


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def ask_with(server: Server, answer: bytes) -> int:
    """The exit code of the command where somebody answers with this."""
    with connect(server.url) as leader:
        leader.subscribe(SUBJECT)
        leader.flush()

        def serve() -> None:
            message = next(iter(leader.messages(timeout=20)))
            assert message.reply
            leader.publish(message.reply, answer)
            leader.flush()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            return jetstream.run(["stepdown", "--server", server.url])
        finally:
            thread.join()


def test_leader_steps_down(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask_with(server, f'{{{KIND},"success":true}}'.encode()) == 0
    assert "another one takes over" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (f'{{{KIND},"error":{{"code":503,"err_code":10010,"description":"no peers"}}}}', "no peers"),
        (f"{{{KIND}}}", "did not say that it was done"),
        (f'{{{KIND},"success":false}}', "did not say that it was done"),
        ("[]", "stepdown:"),
        ("no JSON", "stepdown:"),
    ],
)
def test_answer_that_is_no_success(
    answer: str, said: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask_with(server, answer.encode()) == 1
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_server_where_nobody_answers(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert jetstream.run(["stepdown", "--server", server.url]) == 1
    assert "no JetStream answers" in capsys.readouterr().err


def test_user_of_another_account_is_told_who_is_heard(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JetStream of an account does not answer such a request at all."""

    def silent(*_: object) -> None:
        raise ClientTimeoutError(f"no answer on {SUBJECT!r} in 10 s")

    monkeypatch.setattr(JetStreamApi, "ask", silent)
    assert jetstream.run(["stepdown", "--server", server.url]) == 1
    error = capsys.readouterr().err
    assert "only a user of the system account is heard" in error
    assert len(error.splitlines()) == 1


def test_server_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NATS_URL", raising=False)
    with pytest.raises(SystemExit) as ended:
        jetstream.run(["stepdown"])
    assert ended.value.code == 2
