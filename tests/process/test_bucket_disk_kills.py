"""A server with `commit: disk`, killed while its bucket cannot be reached: it comes back with everything,
streams and channels alike.
"""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import nats
import pytest

from harness.bucket_servers import AwayBucket
from harness.processes import HEADRACES, STREAMING, ServerProcess
from harness.waiting import PATIENCE
from process.test_streaming_bucket import Publisher, client_of, stored

if TYPE_CHECKING:
    from pathlib import Path

    from nats.js import JetStreamContext

pytestmark = pytest.mark.clients
CONFIG = """
http: "127.0.0.1:-1"
server_name: s
jetstream {{
  store_dir: "{folder}/disk"
  bucket {{ url: "file://{folder}/bucket", commit: disk, max_lag: 60s }}
}}
"""


CHANNELS = """
http: "127.0.0.1:-1"
streaming {{
  cluster_id: c, store: file, dir: "{folder}/disk"
  bucket {{ url: "file://{folder}/bucket", commit: disk, max_lag: 60s }}
}}
"""


class Alone:
    """One server, and its bucket, which may be away."""

    def __init__(self, folder: Path, command: list[str], config: str) -> None:
        self._folder = folder
        self._command = command
        self._config = config
        self.bucket = AwayBucket(folder / "bucket")
        (folder / "s").mkdir()
        self.start()

    def start(self) -> None:
        config = self._config.format(folder=self._folder)
        self.server = ServerProcess(self._command, self._folder / "s", config=config)

    def status(self) -> dict[str, Any]:
        with urlopen(f"{self.server.monitor_url}/jsz", timeout=PATIENCE) as answer:
            found: dict[str, Any] = json.load(answer)["bucket"]
        return found

    def promise(self) -> dict[str, Any]:
        """Return what `/healthz` says of the bucket of a server that is well."""
        with urlopen(f"{self.server.monitor_url}/healthz", timeout=PATIENCE) as answer:
            (found,) = json.load(answer)["bucket"].values()
        return dict(found)

    def kill(self) -> None:
        self.server.signal(signal.SIGKILL)
        self.server.wait()


async def publish(js: JetStreamContext, numbers: range) -> None:
    for number in numbers:
        ack = await js.publish("s.x", b"%d" % number, timeout=PATIENCE)
        assert ack.seq == number + 1


async def texts(js: JetStreamContext) -> list[int]:
    last = (await js.stream_info("S")).state.last_seq
    return [int((await js.get_msg("S", sequence)).data or b"") for sequence in range(1, last + 1)]


def test_nothing_acknowledged_is_lost_by_kills_while_the_bucket_is_away(tmp_path: Path) -> None:
    alone = Alone(tmp_path, HEADRACES[0], CONFIG)

    async def use() -> None:
        count = 0
        for round_ in range(3):
            async with await nats.connect(alone.server.url, allow_reconnect=False) as client:
                js = client.jetstream()
                if not round_:
                    await js.add_stream(name="S", subjects=["s.>"])
                assert await texts(js) == list(range(count))
                await publish(js, range(count, count + 20))
                alone.bucket.take_away()
                await publish(js, range(count + 20, count + 120))
                count += 120
                status = alone.status()
                assert status["commit"] == "disk"
                assert status["lag_bytes"] > 0
                assert alone.promise()["lag_bytes"] > 0
                alone.kill()
            alone.bucket.bring_back()
            alone.start()
        async with await nats.connect(alone.server.url) as client:
            assert await texts(client.jetstream()) == list(range(count))

    try:
        asyncio.run(use())
        alone.server.stop()
        assert not list((tmp_path / "disk" / "jetstream" / ".bucket" / "backlog").iterdir())
    finally:
        alone.server.stop()


def test_nothing_acknowledged_of_channels_is_lost_by_a_kill_while_the_bucket_is_away(tmp_path: Path) -> None:
    alone = Alone(tmp_path, STREAMING, CHANNELS)

    async def use() -> None:
        async with client_of(alone.server, "first") as client:
            publisher = Publisher(client, "x")
            await publisher.publish(20)
            alone.bucket.take_away()
            await publisher.publish(100)
            alone.kill()
        alone.bucket.bring_back()
        alone.start()
        async with client_of(alone.server, "second") as client:
            publisher.check(await stored(client, "x"))

    try:
        asyncio.run(use())
    finally:
        alone.server.stop()
