"""A server with an MQTT port as a process: reload, several processes, the file of its ports."""

from __future__ import annotations

import json
import signal
import ssl
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from harness.certificates import Authority, tls_config
from harness.mqtt_servers import mqtt_port, started
from harness.mqtt_stranger import ACCEPTED, Stranger, connect_packet
from harness.mqtt_wire import PUBLISH, Gone, MqttWire
from harness.processes import ALL, HEADRACES
from harness.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from harness.processes import Program, ServerProcess


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "reloading")


def reload(server: ServerProcess, before: str, after: str, expected: str) -> None:
    """Read the configuration again with one text in the place of another, until the log has a line."""
    mark = len(server.lines)
    config = server.config_file.read_text()
    assert before in config
    server.config_file.write_text(config.replace(before, after))
    server.signal(signal.SIGHUP)
    server.wait_for_line(expected, after=mark)


@pytest.mark.parametrize("program", ALL, ids=str)
def test_certificate_and_times_are_taken_over_and_nothing_else(
    program: Program, tmp_path: Path, authority: Authority
) -> None:
    one, two = tls_config(authority.issue("mqtt-one")), tls_config(authority.issue("mqtt-two"))
    with started(program, tmp_path, mqtt=f"ack_wait: 20s\nmax_ack_pending: 7\n{one}") as server:
        port = mqtt_port(server)
        context = ssl.create_default_context(cafile=str(authority.file))
        with Stranger(port, context=context) as live:
            live.send(connect_packet("live"))
            assert live.take(4).hex() == ACCEPTED

            reload(server, one, two, r"\[INF\] Reloaded server configuration")
            assert name_shown(port, context) == "mqtt-two"

            reload(server, "ack_wait: 20s", "ack_wait: 21s", r"Reloaded: MQTT ack_wait = 21s")
            reload(server, "max_ack_pending: 7", "max_ack_pending: 8", r"Reloaded: MQTT max_ack_pending = 8")
            reload(server, "ack_wait: 21s", "js_api_timeout: 3s", "(?i)reload not supported for mqtt")

            live.send(bytes.fromhex("c000"))
            assert live.take(2).hex() == "d000"


def name_shown(port: int, context: ssl.SSLContext) -> str:
    with Stranger(port, context=context) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        subject = client.socket.getpeercert()["subject"]  # type: ignore[index]
        return str(dict(part[0] for part in subject)["commonName"])  # type: ignore[arg-type, index, misc]


@pytest.mark.parametrize("program", ALL, ids=str)
def test_a_client_whose_user_is_gone_is_closed_and_another_stays(program: Program, tmp_path: Path) -> None:
    users = "{user: a, password: p}, {user: b, password: p}"
    with started(program, tmp_path, more=f"authorization {{ users: [ {users} ] }}") as server:
        port = mqtt_port(server)
        gone = MqttWire(port, "gone", user="a", password="p")
        with MqttWire(port, "stays", user="b", password="p") as stays:
            stays.subscribe("t", 1)
            reload(server, "{user: a, password: p}, ", "", r"\[INF\] Reloaded server configuration")

            with pytest.raises(Gone):
                gone.take()
            stays.publish("t", b"x", 1, 7)
            assert {stays.take().kind, stays.take().kind} == {PUBLISH, 4}
        gone.close()


def rows(server: ServerProcess) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{server.monitor_url}/connz") as response:
        found: list[dict[str, Any]] = json.load(response)["connections"]
        return found


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_clients_of_several_processes_are_clients_of_one_server(program: Program, tmp_path: Path) -> None:
    """Numbers of connections say in which process they are: each process has every second one."""
    ports = tmp_path / "ports"
    ports.mkdir()
    more = f'processes: 2\nhttp: 127.0.0.1:-1\nports_file_dir: "{ports}"'
    with started(program, tmp_path, more=more) as server:
        port = mqtt_port(server)
        written = wait_until(lambda: list(ports.glob("*.ports")), "the file of the ports")[0]
        assert json.loads(written.read_text())["mqtt"] == [f"mqtt://127.0.0.1:{port}"]

        with MqttWire(port, "one", clean=False) as one:
            one.subscribe("t/+", 1)
            other = in_another_process(server, port, "one", "other")
            for number in range(20):
                other.publish(f"t/{number % 2}", b"%d" % number, 1, number + 1)
            acknowledged = {other.take().identifier for _ in range(20)}
            assert acknowledged == set(range(1, 21))
            received = [one.take() for _ in range(20)]
            assert [each.payload for each in received] == [b"%d" % number for number in range(20)]
            other.close()

            taker = taken_over(server, port, "one")
            assert one.socket.recv(1) == b""
            again = {taker.take().payload for _ in range(20)}  # nothing was acknowledged
            assert again == {b"%d" % number for number in range(20)}
            taker.close()


def process_of(server: ServerProcess, client_id: str) -> int:
    return wait_until(
        lambda: [1 + row["cid"] % 2 for row in rows(server) if row["mqtt_client"] == client_id],
        f"{client_id} in /connz",
    )[0]


def in_another_process(server: ServerProcess, port: int, than: str, name: str) -> MqttWire:
    """A client in another process than that of `than`: the system chooses, so that it takes some attempts."""
    place = process_of(server, than)
    for number in range(100):
        client = MqttWire(port, f"{name}-{number}")
        if process_of(server, f"{name}-{number}") != place:
            return client
        client.close()
    raise AssertionError("all connections are in one process")


def taken_over(server: ServerProcess, port: int, client_id: str) -> MqttWire:
    """A connection that has the session of another one, in whichever process it is."""
    taker = MqttWire(port, client_id, clean=False)
    assert taker.is_resumed
    wait_until(
        lambda: len([row for row in rows(server) if row["mqtt_client"] == client_id]) == 1, "one is left"
    )
    return taker


@pytest.mark.parametrize("program", ALL, ids=str)
def test_a_second_process_at_the_same_port_is_refused(program: Program, tmp_path: Path) -> None:
    with started(program, tmp_path) as server:
        folder = tmp_path / "second"
        folder.mkdir()
        with pytest.raises(AssertionError, match="Unable to listen for MQTT connections"):
            started(program, folder, port=mqtt_port(server))
