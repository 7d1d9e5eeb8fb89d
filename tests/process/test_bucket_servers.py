"""Three servers with one bucket, as processes: another one serves when the owner is killed, stops, leaves."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import nats
import pytest
from nats.errors import Error as ClientError

from harness.ports import free_port
from harness.processes import HEADRACES, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nats.aio.client import Client
    from nats.js import JetStreamContext

pytestmark = pytest.mark.clients
CONFIG = """
http: "127.0.0.1:-1"
server_name: s{number}
accounts {{ SYS {{ users = [{{ user: admin, password: x }}] }}
            A {{ jetstream: enabled, users = [{{ user: a, password: a }}] }} }}
system_account: SYS
no_auth_user: a
jetstream {{ store_dir: "{folder}/disk{number}", bucket: "file://{folder}/bucket" }}
cluster {{ name: C, listen: "127.0.0.1:{own}", routes: [{routes}] }}
"""


class Three:
    """Three servers of a cluster that have one bucket, or `count`."""

    count = 3
    config = CONFIG
    monitoring = "/jsz"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = [free_port() for _ in range(self.count)]
        self.servers = [self._start(number, ready=False) for number in range(self.count)]
        for server in self.servers:
            server.wait_until_ready()

    def _start(self, number: int, *, ready: bool = True) -> ServerProcess:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._ports)
        text = self.config.format(number=number, folder=self._folder, own=self._ports[number], routes=routes)
        folder = self._folder / f"s{number}"
        folder.mkdir(exist_ok=True)
        return ServerProcess(HEADRACES[0], folder, config=text, ready=ready)

    def disk(self, number: int) -> Path:
        """The directory of a server's store."""
        return self._folder / f"disk{number}"

    def start_again(self, number: int, *, keeps_disk: bool = False) -> None:
        """Start a server anew, on an empty disk or on its own."""
        self.servers[number].wait()
        if not keeps_disk:
            shutil.rmtree(self.disk(number))
        self.servers[number] = self._start(number)

    def status(self, number: int) -> dict[str, Any]:
        """What a server's monitoring shows of the bucket."""
        with urlopen(f"{self.servers[number].monitor_url}{self.monitoring}", timeout=PATIENCE) as answer:
            found: dict[str, Any] = json.load(answer)["bucket"]
        return found

    def role(self, number: int) -> str:
        return str(self.status(number)["role"])

    def owner(self, but: int = -1) -> int:
        """Wait for an owner; return its number."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for number in range(self.count):
                if number != but and self.role(number) == "owner":
                    return number
        raise AssertionError("no server owns the bucket")

    def close(self) -> None:
        for server in self.servers:
            server.signal(signal.SIGCONT)
            server.stop()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(tmp_path)
    try:
        yield made
    finally:
        made.close()


async def publish(js: JetStreamContext, number: int) -> int:
    """Publish until it is acknowledged; return the sequence."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            ack = await js.publish("s.x", b"%d" % number, headers={"Nats-Msg-Id": str(number)}, timeout=0.5)
        except ClientError:
            if time.monotonic() > end:
                raise
        else:
            return int(ack.seq)


async def client_of(three: Three, number: int) -> Client:
    return await nats.connect(three.servers[number].url, allow_reconnect=False)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=lambda each: each.name)
def test_another_server_goes_on_with_everything(three: Three, how: signal.Signals) -> None:
    async def use() -> None:
        first = three.owner()
        client = await client_of(three, (first + 1) % 3)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        acked = [await publish(js, number) for number in range(20)]
        three.servers[first].signal(how)
        acked += [await publish(js, number) for number in range(20, 40)]
        if how is signal.SIGKILL:
            three.start_again(first)
        else:
            three.servers[first].signal(signal.SIGCONT)
        assert three.owner(but=first) != first
        assert acked == list(range(1, 41)), "nothing is lost, nothing is there twice"
        for sequence in acked:
            assert (await js.get_msg("S", sequence)).data == b"%d" % (sequence - 1)
        await client.close()
        back = await client_of(three, first)
        assert (await back.jetstream().stream_info("S")).state.messages == 40
        await back.close()

    asyncio.run(use())


async def leader_of(js: JetStreamContext) -> str | None:
    """The name of the server that leads a stream; None while nobody answers."""
    try:
        cluster = (await js.stream_info("S")).cluster
    except ClientError:
        return None
    assert cluster is not None
    return cluster.leader


def step_down(owner: ServerProcess) -> None:
    command = [sys.executable, "-m", "headrace", "jetstream", "stepdown", "--server", owner.url]
    command += ["--user", "admin", "--password", "x"]
    subprocess.run(command, check=True, timeout=PATIENCE)


LEAVE: dict[str, Callable[[ServerProcess], object]] = {
    "stepdown": step_down,
    "lame duck": lambda owner: owner.signal(signal.SIGUSR2),
    "stop": lambda owner: owner.signal(signal.SIGTERM),
}


@pytest.mark.parametrize("how", LEAVE)
def test_planned_hand_over_loses_no_publication_that_is_retried(three: Three, how: str) -> None:
    async def use() -> None:
        first = three.owner()
        client = await client_of(three, (first + 1) % 3)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        acked = [await publish(js, number) for number in range(20)]
        leaving = asyncio.create_task(asyncio.to_thread(LEAVE[how], three.servers[first]))
        acked += [await publish(js, number) for number in range(20, 60)]
        await leaving
        while await leader_of(js) in (None, f"s{first}"):
            acked.append(await publish(js, len(acked)))
        acked.append(await publish(js, len(acked)))
        assert acked == list(range(1, len(acked) + 1)), "nothing is lost, nothing is there twice"
        assert (await js.stream_info("S")).state.messages == len(acked)
        await client.close()

    asyncio.run(use())


ENCRYPTED = """
jetstream {{ store_dir: "{folder}/{disk}", bucket: "file://{folder}/bucket", cipher: aes, key: {key} }}
"""


def test_bucket_of_encrypted_streams_has_no_plain_text_and_is_read_with_the_key(tmp_path: Path) -> None:
    async def say(url: str, body: bytes) -> bytes:
        client = await nats.connect(url, allow_reconnect=False)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["confidential.>"])
        if body:
            await js.publish("confidential.subject", body)
        found = await js.get_msg("S", 1)
        await client.close()
        return found.data or b""

    def start(disk: str, key: str) -> ServerProcess:
        return ServerProcess(
            HEADRACES[0], tmp_path, config=ENCRYPTED.format(folder=tmp_path, disk=disk, key=key)
        )

    words = b"nobody may read this"
    with start("first", "right") as server:
        assert asyncio.run(say(server.url, words)) == words
    stored = b"".join(path.read_bytes() for path in (tmp_path / "bucket").rglob("*") if path.is_file())
    assert len(stored) > len(words)
    assert words not in stored
    assert b"confidential.subject" not in stored
    with start("second", "right") as server:
        assert asyncio.run(say(server.url, b"")) == words
