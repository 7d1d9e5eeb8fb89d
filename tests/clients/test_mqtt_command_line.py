"""mosquitto_pub and mosquitto_sub, the programs to try a broker with, on Headrace and nats-server."""

from __future__ import annotations

import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from harness.mosquitto import program
from harness.mqtt_servers import mqtt_port, started
from harness.processes import ALL, HEADRACES
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.processes import ServerProcess

LEVELS = ("mqttv311", "mqttv5")


@pytest.fixture(scope="module", params=ALL, ids=str)
def mqtt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server of each kind for all tests here."""
    program("mosquitto_sub")
    with started(request.param, tmp_path_factory.mktemp("mqtt"), more="http: 127.0.0.1:-1") as server:
        yield server


def command(server: ServerProcess, name: str, level: str, *words: str) -> list[str]:
    return [program(name), "-h", "127.0.0.1", "-p", str(mqtt_port(server)), "-V", level, *words]


def run(server: ServerProcess, name: str, level: str, *words: str) -> str:
    """What it prints. Raises: CalledProcessError when it fails."""
    done = subprocess.run(
        command(server, name, level, *words), capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout


@contextmanager
def listening(server: ServerProcess, level: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A mosquitto_sub that has subscribed; it is killed at the end, or when it takes too long.

    Its output is no terminal: without stdbuf what it prints would lie in a buffer until its end.
    """
    started = ["stdbuf", "-oL", *command(server, "mosquitto_sub", level, "-d", *words)]
    with subprocess.Popen(started, stdout=subprocess.PIPE, text=True) as process:
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        try:
            assert process.stdout is not None
            printed: list[str] = []
            while not printed or not printed[-1].startswith("Subscribed"):
                printed.append(process.stdout.readline())
                assert printed[-1], f"it ended: {printed}"
            yield process
        finally:
            watch.cancel()
            process.kill()


def skip_old(server: ServerProcess, level: str) -> None:
    if level == "mqttv5" and server.program not in HEADRACES:
        pytest.skip("nats-server does not speak MQTT 5.0")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_what_one_publishes_the_other_prints(mqtt: ServerProcess, level: str, qos: str) -> None:
    skip_old(mqtt, level)
    topic = f"tried/{level}/{qos}"
    with listening(mqtt, level, "-t", f"{topic}/#", "-q", qos, "-C", "3", "-v") as listener:
        assert listener.stdout is not None
        for number in range(3):
            run(mqtt, "mosquitto_pub", level, "-t", f"{topic}/{number}", "-m", f"message {number}", "-q", qos)
        printed = [line.strip() for line in listener.stdout if line.startswith("tried")]

    assert printed == [f"{topic}/{number} message {number}" for number in range(3)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_session_is_kept_between_two_calls(mqtt: ServerProcess, level: str) -> None:
    skip_old(mqtt, level)
    topic = f"kept/{level}"
    stays = ("-x", "600") if level == "mqttv5" else ()
    words = ("-t", topic, "-q", "1", "-i", f"kept-{level}", "-c", *stays)
    run(mqtt, "mosquitto_sub", level, *words, "-E")
    for number in range(3):
        run(mqtt, "mosquitto_pub", level, "-t", topic, "-m", f"{number}", "-q", "1")

    assert run(mqtt, "mosquitto_sub", level, *words, "-C", "3").split() == ["0", "1", "2"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_retained_message_is_printed_and_removed(mqtt: ServerProcess, level: str) -> None:
    skip_old(mqtt, level)
    topic = f"retained/{level}"
    run(mqtt, "mosquitto_pub", level, "-t", topic, "-m", "stays", "-r", "-q", "1")

    def printed() -> str:
        words = ("-t", topic, "-C", "1", "-W", "1")
        done = subprocess.run(
            command(mqtt, "mosquitto_sub", level, *words), capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    wait_until(lambda: printed() == "stays", "the message is retained")
    run(mqtt, "mosquitto_pub", level, "-t", topic, "-n", "-r", "-q", "1")
    wait_until(lambda: printed() == "", "the message is removed")


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_that_is_killed_leaves_its_will(mqtt: ServerProcess, level: str) -> None:
    skip_old(mqtt, level)
    topic = f"wills/{level}"
    will = ("--will-topic", topic, "--will-payload", "gone", "--will-retain")
    with listening(mqtt, level, "-t", "nothing", *will):
        pass

    assert run(mqtt, "mosquitto_sub", level, "-t", topic, "-C", "1").strip() == "gone"


def test_five_has_properties(mqtt: ServerProcess) -> None:
    skip_old(mqtt, "mqttv5")
    given = (
        "-D",
        "publish",
        "user-property",
        "place",
        "attic",
        "-D",
        "publish",
        "content-type",
        "text/plain",
    )
    run(mqtt, "mosquitto_pub", "mqttv5", "-t", "properties", "-m", "x", "-r", "-q", "1", *given)

    said = run(mqtt, "mosquitto_sub", "mqttv5", "-t", "properties", "-C", "1", "-F", "%P %C %p")

    assert said.split() == ["place:attic", "text/plain", "x"]
