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
            {service: "$JS.API.CONSUMER.MSG.NEXT.S.pulled", response_type: stream}
            {service: "$JS.ACK.S.pulled.>"}
            {stream: "deliver.>"}
        ]
    }
    AWAY: {
        users: [{user: away, password: p}]
        imports: [
            {service: {account: HOME, subject: "$JS.API.CONSUMER.MSG.NEXT.S.pulled"}, to: "next"}
            {service: {account: HOME, subject: "$JS.ACK.S.pulled.>"}}
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
def home(server: ServerProcess) -> Iterator[JetStreamWire]:
    """A client beside a stream S of `o.*` with three messages, which is gone afterwards."""
    with JetStreamWire(server, user="home", **{"pass": "p"}) as wire:
        assert "error" not in wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["o.*"]})
        wire.stored("o.0", "m0")
        wire.stored("o.1", "m1", {"A": "1"})
        wire.stored("o.secret", "m2")
        yield wire
        assert wire.api("STREAM.DELETE.S")["success"]


def as_user(server: ServerProcess, user: str, **options: Any) -> JetStreamWire:
    return JetStreamWire(server, user=user, **{"pass": "p"}, **options)


def push_to(home: JetStreamWire, subject: str, consumer: str) -> None:
    """Each test has a consumer of its own name.

    The Go server removes the files of a stream after its answer: a consumer that has the name of one before
    it, of a stream of the same name, may go on where that was.
    """
    config = {"name": consumer, "deliver_subject": subject, "ack_policy": "explicit"}
    assert "error" not in home.api(f"CONSUMER.CREATE.S.{consumer}", {"stream_name": "S", "config": config})


def shown(messages: list[Message]) -> list[tuple[str, list[str], str]]:
    """Subject, acknowledgement subject without its time, payload."""
    words = [(message, message.reply.split(".")) for message in messages]
    return [(m.subject, [*reply[:7], reply[8]], m.payload.decode()) for m, reply in words]


def expected(consumer: str, *subjects: str) -> list[tuple[str, list[str], str]]:
    places = {"o.0": 1, "o.1": 2, "o.secret": 3}
    return [
        (
            s,
            ["$JS", "ACK", "S", consumer, "1", str(places[s]), str(places[s]), str(3 - places[s])],
            f"m{places[s] - 1}",
        )
        for s in subjects
    ]


def test_a_pull_from_another_account(server: ServerProcess, home: JetStreamWire) -> None:
    config = {"durable_name": "pulled", "ack_policy": "explicit"}
    home.api("CONSUMER.DURABLE.CREATE.S.pulled", {"stream_name": "S", "config": config})
    with as_user(server, "away") as away:
        sid = away.subscribe("answers")
        away.publish("next", {"batch": 3, "expires": 5_000_000_000}, reply="answers")
        messages = away.take(sid, 3)
        assert shown(messages) == expected("pulled", "o.0", "o.1", "o.secret")
        assert [message.header("A") for message in messages] == [None, "1", None]
        assert away.request(messages[0].reply, "+ACK").payload == b""
        assert home.api("CONSUMER.INFO.S.pulled")["num_ack_pending"] == 2


def test_listeners_at_home_and_in_another_account(server: ServerProcess, home: JetStreamWire) -> None:
    with (
        as_user(server, "away") as away,
        as_user(server, "denied", headers=False, no_responders=False) as denied,
    ):
        abroad = away.subscribe("from.deliver.x")
        filtered = denied.subscribe(">")
        away.sync()
        denied.sync()
        push_to(home, "deliver.x", "exported")
        assert shown(away.take(abroad, 3)) == expected("exported", "o.0", "o.1", "o.secret")
        home.publish("deliver.end")
        home.sync()
        messages = denied.take(filtered, 1)
        while messages[-1].subject != "deliver.end":
            messages += denied.take(filtered, 1)
        stored = [m for m in messages if m.reply.startswith("$JS.ACK.")]
        assert shown(stored) == expected("exported", "o.0", "o.1")
        assert [m.headers for m in stored] == [b"", b""]


def test_listeners_over_websocket(server: ServerProcess, home: JetStreamWire) -> None:
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
        push_to(home, "named.ws", "sent")
        messages = home.take(sid, 3)
        assert shown(messages) == expected("sent", "o.0", "o.1", "o.secret")
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


def test_only_who_names_the_deliver_subject_is_interest(server: ServerProcess, home: JetStreamWire) -> None:
    """A wider subscription, or one in a queue group, gets nothing by itself."""
    wider, grouped = home.subscribe("named.*"), home.subscribe("named.x", "g")
    home.sync()
    push_to(home, "named.x", "named")
    assert "push_bound" not in home.api("CONSUMER.INFO.S.named")
    assert home.taken(wider) == home.taken(grouped) == []
    named = home.subscribe("named.x")
    for sid in (named, wider, grouped):
        assert shown(home.take(sid, 3)) == expected("named", "o.0", "o.1", "o.secret")
    assert home.api("CONSUMER.INFO.S.named")["push_bound"]


def test_who_may_only_respond_may_acknowledge(server: ServerProcess, home: JetStreamWire) -> None:
    with as_user(server, "worker", inbox="work") as worker:
        sid = worker.subscribe("work.here")
        worker.sync()
        push_to(home, "work.here", "work")
        messages = worker.take(sid, 3)
        assert shown(messages) == expected("work", "o.0", "o.1", "o.secret")
        for message in messages:
            worker.publish(message.reply, "+ACK")
        worker.sync()
        assert worker.problems == []
        wait_until(lambda: home.api("CONSUMER.INFO.S.work")["num_ack_pending"] == 0, "all are acknowledged")
