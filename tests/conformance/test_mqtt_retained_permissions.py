"""Retained messages after a reload that takes rights from their users: both servers keep the same ones."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Final

import pytest

from harness.mqtt_servers import mqtt_port
from harness.mqtt_wire import PUBACK, PUBLISH, MqttWire, text
from harness.processes import EPOLL, NATS_SERVER, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from harness.wire import Wire

pytestmark = pytest.mark.clients

CONFIG: Final = """
server_name: one
jetstream { store_dir: "%s" }
mqtt { listen: "127.0.0.1:-1" }
authorization { users: [ %s ] }
"""
BEFORE: Final = """
  {user: less, password: p}, {user: gone, password: p}, {user: same, password: p}
  {user: none, password: p, permissions: {publish: "none.>"}}
"""
AFTER: Final = """
  {user: less, password: p, permissions: {publish: {deny: "less.denied.>"}}}, {user: same, password: p}
  {user: none, password: p, permissions: {publish: "none.>"}}
"""
TOPICS: Final = {
    "less": ("less/denied/1", "less/denied/2", "less/allowed"),
    "gone": ("gone/1",),
    "same": ("same/1", "less/denied/3"),
    "none": ("none/1",),
}


def kept(nats: Wire) -> list[str]:
    """The subjects of the records of retained messages."""
    body = b'{"subjects_filter":">"}'
    nats.send(b"PUB $JS.API.STREAM.INFO.$MQTT_rmsgs inbox %d\r\n%b\r\n" % (len(body), body))
    subjects = json.loads(nats.take_message()[1])["state"].get("subjects", {})
    return sorted(subject.removeprefix("$MQTT.rmsgs.") for subject in subjects)


def after_reload(server: ServerProcess, folder: Path) -> tuple[list[str], list[tuple[str, int]]]:
    """The records that are left, and what a new subscriber gets."""
    for user, topics in TOPICS.items():
        with MqttWire(mqtt_port(server), user, user=user, password="p") as client:
            for topic in topics:
                client.send(PUBLISH, text(topic) + b"\0\1x", 3)
                assert client.take().kind == PUBACK
    with server.connect(b'{"user":"same","pass":"p","headers":true,"verbose":false}') as nats:
        nats.send(b"SUB inbox 1\r\n")
        every = sum(map(len, TOPICS.values()))
        wait_until(lambda: len(kept(nats)) == every, "all are kept")
        server.config_file.write_text(CONFIG % (folder / "js", AFTER))
        server.signal(signal.SIGHUP)
        wait_until(lambda: len(kept(nats)) < every - 2, "three are gone")
        left = kept(nats)
    found = []
    with MqttWire(mqtt_port(server), "new", user="same", password="p") as client:
        client.subscribe("#", 0)
        for _ in left:
            packet = client.take()
            found.append((packet.topic, packet.flags))
    return left, sorted(found)


def test_retained_messages_of_users_who_lost_the_right_are_removed_as_by_the_go_server(
    tmp_path: Path,
) -> None:
    found = []
    for program in (NATS_SERVER, EPOLL):
        folder = tmp_path / program.name
        folder.mkdir()
        with ServerProcess(program, folder, config=CONFIG % (folder / "js", BEFORE)) as server:
            found.append(after_reload(server, folder))

    theirs, mine = found
    assert mine == theirs
    assert theirs[0] == ["less.allowed", "less.denied.3", "none.1", "same.1"]
