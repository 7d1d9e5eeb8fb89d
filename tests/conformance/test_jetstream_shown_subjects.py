"""Who is shown what of a stored message, at home and in other accounts, on the Go server and on ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.jetstream import JetStreamWire
from harness.processes import HEADRACES, NATS_SERVER, Program, ServerProcess
from harness.waiting import wait_until
from harness.websocket import WebSocket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.jetstream import Message

pytestmark = pytest.mark.clients

CONFIG = """
websocket: {listen: "127.0.0.1:-1", no_tls: true}
jetstream: {store_dir: "%s"}
accounts: {
    HOME: {
        jetstream: enabled
        users: [
            {user: home, password: p}
            {user: denied, password: p, permissions: {subscribe: {deny: ["o.secret"]}}}
            {user: worker, password: p, permissions: {
                publish: {deny: ">"}, subscribe: {allow: ["work.>"]}, allow_responses: {max: 1, expires: "1m"}
            }}
        ]
        exports: [
            {service: "$JS.API.CONSUMER.MSG.NEXT.test_a_pull_from_abroad.pulled", response_type: stream}
            {service: "$JS.ACK.test_a_pull_from_abroad.pulled.>"}
            {stream: "deliver.>"}
        ]
    }
    AWAY: {
        users: [{user: away, password: p}]
        imports: [
            {
                service: {account: HOME, subject: "$JS.API.CONSUMER.MSG.NEXT.test_a_pull_from_abroad.pulled"}
                to: "next"
            }
            {service: {account: HOME, subject: "$JS.ACK.test_a_pull_from_abroad.pulled.>"}}
            {stream: {account: HOME, subject: "deliver.>"}, prefix: "from"}
        ]
    }
}
"""


@pytest.fixture(scope="module", params=[NATS_SERVER, *HEADRACES], ids=str)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    program: Program = request.param
    folder: Path = tmp_path_factory.mktemp("shown")
    with ServerProcess(program, folder, config=CONFIG % (folder / "js")) as running:
        yield running


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """The stream of a test, which has the test's name.

    The Go server removes the files of a stream after its answer: a stream of the same name, and a consumer of
    the same name in it, may go on from what they find.
    """
    return str(request.function.__name__)


@pytest.fixture
def home(server: ServerProcess, stream: str) -> Iterator[JetStreamWire]:
    """A client beside a stream of `o.*` with three messages, which is gone afterwards."""
    with JetStreamWire(server, user="home", **{"pass": "p"}) as wire:
        assert "error" not in wire.api(f"STREAM.CREATE.{stream}", {"name": stream, "subjects": ["o.*"]})
        wire.stored("o.0", "m0")
        wire.stored("o.1", "m1", {"A": "1"})
        wire.stored("o.secret", "m2")
        yield wire
        assert wire.api(f"STREAM.DELETE.{stream}")["success"]


def as_user(server: ServerProcess, user: str, **options: Any) -> JetStreamWire:
    return JetStreamWire(server, user=user, **{"pass": "p"}, **options)


def push_to(home: JetStreamWire, stream: str, subject: str) -> None:
    config = {"name": "p", "deliver_subject": subject, "ack_policy": "explicit"}
    answer = home.api(f"CONSUMER.CREATE.{stream}.p", {"stream_name": stream, "config": config})
    assert "error" not in answer


def shown(messages: list[Message]) -> list[tuple[str, list[str], str]]:
    """Subject, acknowledgement subject without its time, payload."""
    words = [(message, message.reply.split(".")) for message in messages]
    return [(m.subject, [*reply[:7], reply[8]], m.payload.decode()) for m, reply in words]


def expected(stream: str, consumer: str, *subjects: str) -> list[tuple[str, list[str], str]]:
    places = {"o.0": 1, "o.1": 2, "o.secret": 3}
    return [
        (
            s,
            ["$JS", "ACK", stream, consumer, "1", str(places[s]), str(places[s]), str(3 - places[s])],
            f"m{places[s] - 1}",
        )
        for s in subjects
    ]


def test_a_pull_from_abroad(server: ServerProcess, home: JetStreamWire, stream: str) -> None:
    config = {"durable_name": "pulled", "ack_policy": "explicit"}
    home.api(f"CONSUMER.DURABLE.CREATE.{stream}.pulled", {"stream_name": stream, "config": config})
    with as_user(server, "away") as away:
        sid = away.subscribe("answers")
        away.publish("next", {"batch": 3, "expires": 5_000_000_000}, reply="answers")
        messages = away.take(sid, 3)
        assert shown(messages) == expected(stream, "pulled", "o.0", "o.1", "o.secret")
        assert [message.header("A") for message in messages] == [None, "1", None]
        assert away.request(messages[0].reply, "+ACK").payload == b""
        assert home.api(f"CONSUMER.INFO.{stream}.pulled")["num_ack_pending"] == 2


def test_listeners_at_home_and_in_another_account(
    server: ServerProcess, home: JetStreamWire, stream: str
) -> None:
    with (
        as_user(server, "away") as away,
        as_user(server, "denied", headers=False, no_responders=False) as denied,
    ):
        abroad = away.subscribe("from.deliver.x")
        filtered = denied.subscribe(">")
        away.sync()
        denied.sync()
        push_to(home, stream, "deliver.x")
        assert shown(away.take(abroad, 3)) == expected(stream, "p", "o.0", "o.1", "o.secret")
        home.publish("deliver.end")
        home.sync()
        messages = denied.take(filtered, 1)
        while messages[-1].subject != "deliver.end":
            messages += denied.take(filtered, 1)
        stored = [m for m in messages if m.reply.startswith("$JS.ACK.")]
        assert shown(stored) == expected(stream, "p", "o.0", "o.1")
        assert [m.headers for m in stored] == [b"", b""]


def test_listeners_over_websocket(server: ServerProcess, home: JetStreamWire, stream: str) -> None:
    """What is shown, and what is not, does not depend on how a client is connected."""
    port = int(server.wait_for_line(r"Listening for websocket clients on ws://\S+:(\d+)")[1])
    with WebSocket(port) as named, WebSocket(port) as filtered:
        named.connect(login("home"))
        filtered.connect(login("denied"))
        sid = home.subscribe("named.ws")
        home.sync()
        named.send(b"SUB named.ws 1\r\n")
        filtered.send(b"SUB > 7\r\n")
        named.sync()
        filtered.sync()
        push_to(home, stream, "named.ws")
        messages = home.take(sid, 3)
        assert shown(messages) == expected(stream, "p", "o.0", "o.1", "o.secret")
        assert named.take_through(b"m2\r\n") == b"".join(in_frames(message, 1) for message in messages)
        home.publish("named.end", "end")
        home.sync()
        told = filtered.take_through(b"end\r\n")
        assert [in_frames(message, 7) in told for message in messages] == [True, True, False]


def login(user: str) -> bytes:
    return json.dumps({"user": user, "pass": "p", "verbose": False, "headers": True}).encode()


def in_frames(message: Message, sid: int) -> bytes:
    """A message as the client protocol has it."""
    whole = len(message.headers) + len(message.payload)
    sizes = f"{len(message.headers)} {whole}" if message.headers else str(whole)
    kind = "HMSG" if message.headers else "MSG"
    head = f"{kind} {message.subject} {sid} {message.reply} {sizes}\r\n".encode()
    return head + message.headers + message.payload + b"\r\n"


def test_only_who_names_the_deliver_subject_is_interest(
    server: ServerProcess, home: JetStreamWire, stream: str
) -> None:
    """A wider subscription, or one in a queue group, gets nothing by itself."""
    wider, grouped = home.subscribe("named.*"), home.subscribe("named.x", "g")
    home.sync()
    push_to(home, stream, "named.x")
    assert "push_bound" not in home.api(f"CONSUMER.INFO.{stream}.p")
    assert home.taken(wider) == home.taken(grouped) == []
    named = home.subscribe("named.x")
    for sid in (named, wider, grouped):
        assert shown(home.take(sid, 3)) == expected(stream, "p", "o.0", "o.1", "o.secret")
    assert home.api(f"CONSUMER.INFO.{stream}.p")["push_bound"]


def test_who_may_only_respond_may_acknowledge(
    server: ServerProcess, home: JetStreamWire, stream: str
) -> None:
    with as_user(server, "worker", inbox="work") as worker:
        sid = worker.subscribe("work.here")
        worker.sync()
        push_to(home, stream, "work.here")
        messages = worker.take(sid, 3)
        assert shown(messages) == expected(stream, "p", "o.0", "o.1", "o.secret")
        for message in messages:
            worker.publish(message.reply, "+ACK")
        worker.sync()
        assert worker.problems == []
        wait_until(
            lambda: home.api(f"CONSUMER.INFO.{stream}.p")["num_ack_pending"] == 0, "all are acknowledged"
        )
