"""Stores that refuse a message of MQTT, or never answer: both servers close, with the same words."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.request import urlopen

import pytest

from harness.mqtt_servers import mqtt_port
from harness.mqtt_wire import PINGREQ, PUBACK, PUBLISH, PUBREC, PUBREL, Gone, MqttWire, text
from harness.processes import EPOLL, NATS_SERVER, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.wire import Wire

pytestmark = pytest.mark.clients

NO_ANSWER: Final = None
FULL: Final = b'{"error":{"code":503,"err_code":%d,"description":"maximum messages exceeded"},"seq":0}'
NO_JSON: Final = b"nonsense"
_LIMIT: Final = "300ms"


class Case(NamedTuple):
    """What a client does, which stream is gone, and what somebody answers in its place.

    `is_released`: the message was staged before, and its PUBREL comes now. `is_stored_by`: subject of the
    one who answers; empty for nobody.
    """

    qos: int
    stream: str
    is_stored_by: str
    answer: bytes | None
    is_released: bool = False
    is_retained: bool = False


MESSAGES: Final = ("$MQTT_msgs", "$MQTT.msgs.>")
STAGED: Final = ("$MQTT_qos2in", "$MQTT.qos2.in.>")
CASES: Final = {
    "silent1": Case(1, *MESSAGES, NO_ANSWER),
    "full1": Case(1, *MESSAGES, FULL % 10077),
    "odd1": Case(1, *MESSAGES, NO_JSON),
    "silent2": Case(2, *STAGED, NO_ANSWER),
    "full2": Case(2, *STAGED, FULL % 10023),
    "silentrel": Case(2, *MESSAGES, NO_ANSWER, is_released=True),
    "fullrel": Case(2, *MESSAGES, FULL % 10077, is_released=True),
    "gonerel": Case(2, "$MQTT_qos2in", "", None, is_released=True),
    "retained": Case(1, "$MQTT_rmsgs", "$MQTT.rmsgs.>", FULL % 10077, is_retained=True),
}
"""The cases, each in an account of its name."""

CONFIG: Final = """
server_name: one
http: "127.0.0.1:-1"
accounts { %s }
jetstream { store_dir: "%s" }
mqtt { listen: "127.0.0.1:-1", js_api_timeout: "%s" }
"""
_ACCOUNTS: Final = "\n".join(
    f"{name} {{ jetstream: true, users: [{{user: {name}, password: p}}] }}" for name in CASES
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    go, ours = (tmp_path_factory.mktemp(name) for name in ("go", "ours"))
    with (
        ServerProcess(NATS_SERVER, go, config=CONFIG % (_ACCOUNTS, go / "js", _LIMIT)) as one,
        ServerProcess(EPOLL, ours, config=CONFIG % (_ACCOUNTS, ours / "js", _LIMIT)) as other,
    ):
        yield one, other


def replace_stream(nats: Wire, case: Case) -> None:
    """Delete the stream, and have its subjects heard by somebody else."""
    nats.send(f"SUB inbox 1\r\nPUB $JS.API.STREAM.DELETE.{case.stream} inbox 0\r\n\r\n".encode())
    assert b'"success":true' in nats.take_message()[1]
    if case.is_stored_by:
        nats.send(f"SUB {case.is_stored_by} 2\r\n".encode())
    nats.sync()


def outcome(server: ServerProcess, name: str) -> tuple[list[int], str | None, list[str]]:
    """What a client gets before the end, the reason that monitoring shows, and the log lines about it."""
    case = CASES[name]
    login = json.dumps({"user": name, "pass": "p", "headers": True, "verbose": False}).encode()
    with server.connect(login) as nats, MqttWire(mqtt_port(server), name, user=name, password="p") as client:
        if case.is_released:
            client.publish("a/b", b"x", 2, 5)
            assert client.take().kind == PUBREC
        replace_stream(nats, case)
        if case.is_released:
            client.acknowledge(PUBREL, 5)
        else:
            client.send(PUBLISH, text("a/b") + b"\0\5x", case.qos << 1 | case.is_retained)
        if case.answer is not None:
            heard, _ = nats.take_message()
            nats.send(b"PUB %b %d\r\n%b\r\n" % (heard[3], len(case.answer), case.answer))
        kinds = []
        try:
            if case.is_retained:
                kinds.append(client.take().kind)
                client.send(PINGREQ)
            while True:
                kinds.append(client.take().kind)
                if case.is_retained:
                    break
        except Gone:
            pass
    server.wait_for_line(rf"\[ERR\].*{name}")
    lines = [line.partition(f'"{name}" - ')[2] for line in server.lines if "[ERR]" in line and name in line]
    return kinds, closed(server, name), [re.sub(r"(invalid JSON): .* \(", r"\1 (", line) for line in lines]


def closed(server: ServerProcess, name: str) -> str | None:
    """Why the connection of a client has ended."""

    def found() -> list[Any]:
        with urlopen(f"{server.monitor_url}/connz?state=closed&mqtt_client={name}") as answer:
            return list(json.load(answer)["connections"])

    wait_until(lambda: bool(found()), "the client is gone")
    return str(found()[-1]["reason"])


@pytest.mark.parametrize("name", CASES)
def test_store_that_does_not_take_a_message_is_told_as_by_the_go_server(
    servers: tuple[ServerProcess, ServerProcess], name: str
) -> None:
    theirs, mine = (outcome(server, name) for server in servers)

    assert mine == theirs
    if CASES[name].is_retained:
        assert (theirs[0][0], theirs[1]) == (PUBACK, "Client Closed")
    else:
        assert theirs[:2] == ([], "Protocol Violation")
    if name.startswith("silent"):
        assert theirs[2] == [
            "JetStream failed a pipelined QoS1/2 operation (pi=5): no JetStream ack within 300ms; "
            "closing the connection"
        ]
