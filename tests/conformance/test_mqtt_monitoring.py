"""Clients over MQTT in events of the system account and in CONNZ: both servers tell the same of them."""

from __future__ import annotations

import json
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.test_system_against_go import Observer
from harness.mqtt_servers import mqtt_port
from harness.mqtt_wire import CONNECT, DISCONNECT, PINGRESP, Gone, MqttWire, encoded, text
from harness.processes import EPOLL, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.clients

CONFIG: Final = """
server_name: one
accounts {
  A { jetstream: true, users: [{user: a, password: a}] }
  SYS { users: [{user: s, password: s}] }
}
system_account: SYS
jetstream { store_dir: "%s" }
mqtt { listen: "127.0.0.1:-1" }
"""
_NUID: Final = re.compile(r"[0-9A-Za-z]{22}")
_OWN: Final = {
    *("cid", "id", "port", "start", "stop", "last_activity", "uptime", "idle"),
    *("in_msgs", "in_bytes", "out_msgs", "out_bytes", "pending_bytes"),
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    go, ours = (tmp_path_factory.mktemp(name) for name in ("go", "ours"))
    with (
        ServerProcess(NATS_SERVER, go, config=CONFIG % (go / "js")) as one,
        ServerProcess(EPOLL, ours, config=CONFIG % (ours / "js")) as other,
    ):
        yield one, other


def stranger(server: ServerProcess) -> None:
    """A client with a wrong password."""
    hello = text("MQTT") + b"\4\xc2\0\0" + text("stranger") + text("a") + text("wrong")
    with socket.create_connection(("127.0.0.1", mqtt_port(server)), PATIENCE) as client:
        client.sendall(encoded(CONNECT, hello))
        assert client.recv(100) == bytes.fromhex("20020005")
        assert client.recv(100) == b""


def guest(server: ServerProcess) -> None:
    """A client that does its work and says goodbye."""
    with MqttWire(mqtt_port(server), "guest", user="a", password="a") as client:
        assert client.subscribe("x/#", 1) == 1
        client.publish("y", b"hi")
        client.send(DISCONNECT)
        with pytest.raises(Gone):
            client.take()


def lost(server: ServerProcess) -> None:
    """A client whose connection is lost."""
    with MqttWire(mqtt_port(server), "lost", user="a", password="a"):
        pass


def rude(server: ServerProcess) -> None:
    """A client that breaks the protocol."""
    with MqttWire(mqtt_port(server), "rude", user="a", password="a") as client:
        client.send(PINGRESP)
        with pytest.raises(Gone):
            client.take()


def greedy(server: ServerProcess) -> None:
    """A client whose CONNECT is larger than a message may be."""
    with socket.create_connection(("127.0.0.1", mqtt_port(server)), PATIENCE) as client:
        with suppress(OSError):
            client.sendall(encoded(CONNECT, bytes(2_000_000)))
        with suppress(ConnectionResetError):
            assert client.recv(100) == b""


SCENES: Final[dict[Callable[[ServerProcess], None], str]] = {
    stranger: "$SYS.ACCOUNT.$G.DISCONNECT",
    guest: "$SYS.ACCOUNT.A.DISCONNECT",
    lost: "$SYS.ACCOUNT.A.DISCONNECT",
    rude: "$SYS.ACCOUNT.A.DISCONNECT",
}
"""Clients, and the last event of each."""


def alike(value: Any, key: str = "") -> Any:
    """A document without what two servers cannot have in common: times, numbers, drawn names."""
    if isinstance(value, dict):
        return {name: alike(held, name) for name, held in value.items()}
    if isinstance(value, list):
        return sorted(map(alike, value), key=repr)
    if key in _OWN:
        return f"<{type(value).__name__}>"
    return _NUID.sub("<nuid>", value) if isinstance(value, str) else value


def told(server: ServerProcess, scene: Callable[[ServerProcess], None]) -> list[Any]:
    """The events about clients, each with its client and its reason, until the last one of the scene."""
    observer = Observer(server)
    try:
        observer.listen()
        scene(server)
        found: list[tuple[str, list[tuple[str, Any]], str | None]] = []
        while not found or SCENES[scene] != found[-1][0]:
            subject, payload = observer.next_message()
            if subject.endswith(("CONNECT", "ERR")) and ".SYS." not in subject:
                event = json.loads(payload)
                found.append((subject, list(event["client"].items()), event.get("reason")))
        return [(subject, alike(dict(fields)), list(dict(fields)), why) for subject, fields, why in found]
    finally:
        observer.close()


def asked(server: ServerProcess, **query: object) -> list[dict[str, Any]]:
    """The connections over MQTT in the answer to CONNZ."""
    observer = Observer(server)
    try:
        subject = f"$SYS.REQ.SERVER.{observer.id}.CONNZ"
        body = json.dumps(query).encode()
        observer.wire.send(f"SUB answer 9\r\nPUB {subject} answer {len(body)}\r\n".encode() + body + b"\r\n")
        connections = json.loads(observer.next_message()[1])["data"]["connections"]
        return [connection for connection in connections if connection["type"] == "mqtt"]
    finally:
        observer.close()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_events_of_mqtt_clients_are_the_go_servers(
    servers: tuple[ServerProcess, ServerProcess], scene: Callable[[ServerProcess], None]
) -> None:
    theirs, mine = (told(server, scene) for server in servers)

    assert mine == theirs
    assert scene.__name__ in repr(theirs)


def test_connz_of_an_mqtt_client_is_the_go_servers(servers: tuple[ServerProcess, ServerProcess]) -> None:
    def look(server: ServerProcess) -> list[dict[str, Any]]:
        with MqttWire(mqtt_port(server), "watched", user="a", password="a") as client:
            for number, topic in enumerate(("a/b", "a/#", "c")):
                client.subscribe(topic, number)
            return asked(server, mqtt_client="watched", auth=True, subscriptions=True)

    theirs, mine = (look(server) for server in servers)

    assert [alike(connection) for connection in mine] == [alike(connection) for connection in theirs]
    assert [list(connection) for connection in mine] == [list(connection) for connection in theirs]
    assert [connection["mqtt_client"] for connection in theirs] == ["watched"]


@pytest.mark.parametrize("scene", [*SCENES, greedy], ids=lambda scene: scene.__name__)
def test_closed_mqtt_clients_are_shown_as_the_go_server_does(
    servers: tuple[ServerProcess, ServerProcess], scene: Callable[[ServerProcess], None]
) -> None:
    def look(server: ServerProcess) -> list[tuple[str, str | None]]:
        def ended() -> list[tuple[str, str | None]]:
            return [(each["reason"], each.get("mqtt_client")) for each in asked(server, state=1)]

        before = len(ended())
        scene(server)
        wait_until(lambda: len(ended()) > before, "the client is gone")
        return ended()[before:]

    theirs, mine = (look(server) for server in servers)

    assert mine == theirs


def test_connz_says_that_a_client_speaks_mqtt_5(servers: tuple[ServerProcess, ServerProcess]) -> None:
    hello = text("MQTT") + b"\5\xc2\0\0\0" + text("five") + text("a") + text("a")
    with socket.create_connection(("127.0.0.1", mqtt_port(servers[1])), PATIENCE) as client:
        client.sendall(encoded(CONNECT, hello))
        assert client.recv(1) == b"\x20"

        assert [connection["version"] for connection in asked(servers[1], mqtt_client="five")] == ["5"]


@pytest.mark.parametrize(
    "block",
    [
        'ack_wait: "30s", max_ack_pending: 1024, js_api_timeout: "5s"',  # the defaults, said
        'ack_wait: "7s", max_ack_pending: 12, js_api_timeout: "2s", stream_replicas: 1, no_auth_user: a, '
        "consumer_memory_storage: true, reject_qos2_publish: true, authorization { timeout: 3 }",
    ],
)
def test_varz_shows_what_the_block_says_as_the_go_server_does(tmp_path: Path, block: str) -> None:
    found = []
    for program in (NATS_SERVER, EPOLL):
        folder = tmp_path / program.name
        folder.mkdir()
        config = CONFIG.replace('"127.0.0.1:-1" }', f'"127.0.0.1:-1", {block} }}') % (folder / "js")
        with ServerProcess(program, folder, config=config) as server:
            found.append(list(varz(server).items()))

    theirs, mine = found
    assert mine == theirs
    assert dict(theirs)["max_ack_pending"] in {12, 1024}


def test_varz_of_a_block_that_says_nothing_is_the_go_servers(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    theirs, mine = (varz(server) for server in servers)

    assert mine == theirs == {"host": "127.0.0.1", "port": "<int>", "tls_timeout": 2}


def varz(server: ServerProcess) -> dict[str, Any]:
    """What VARZ shows of the block."""
    observer = Observer(server)
    try:
        subject = f"$SYS.REQ.SERVER.{observer.id}.VARZ"
        observer.wire.send(f"SUB answer 9\r\nPUB {subject} answer 0\r\n\r\n".encode())
        shown: dict[str, Any] = alike(json.loads(observer.next_message()[1])["data"]["mqtt"])
        return shown
    finally:
        observer.close()
