"""Three streaming servers with one bucket, as processes: another has the channels when the owner is gone."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.request import urlopen

import nats
import pytest

from harness.waiting import PATIENCE
from headrace.client import stan
from headrace.client.errors import ClientError
from process.test_bucket_servers import Three

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path
    from typing import Any

    from nats.aio.client import Client as NatsClient

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients
CONFIG: Final = """
http: "127.0.0.1:-1"
server_name: s{number}
streaming {{
  cluster_id: c, store: file, dir: "{folder}/disk{number}", bucket: "file://{folder}/bucket"
  cluster {{ node_id: n{number} }}
}}
cluster {{ name: C, listen: "127.0.0.1:{own}", routes: [{routes}] }}
"""


class Streaming(Three):
    """Three streaming servers of a cluster that have one bucket."""

    config = CONFIG
    monitoring = "/streaming/serverz"

    def shown(self, number: int) -> dict[str, Any]:
        """What monitoring shows of the streaming of a server."""
        with urlopen(f"{self.servers[number].monitor_url}{self.monitoring}", timeout=PATIENCE) as answer:
            return dict(json.load(answer))

    def wait_for_role(self, number: int, role: str) -> None:
        """Wait until a server has this role in the bucket."""
        end = time.monotonic() + PATIENCE
        while (found := self.role(number)) != role:
            assert time.monotonic() < end, f"the server is {found}"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Streaming]:
    made = Streaming(tmp_path)
    try:
        yield made
    finally:
        made.close()


class Publisher:
    """A publisher that waits for each acknowledgement, and tries again without one.

    Each attempt has a payload of its own, so what is acknowledged is known to be there once.
    """

    def __init__(self, client: stan.Client, channel: str) -> None:
        self._client = client
        self._channel = channel
        self.acknowledged: list[bytes] = []
        self.attempts = 0

    async def publish(self, count: int) -> None:
        """Publish so many messages more that are acknowledged."""
        end, wanted = time.monotonic() + PATIENCE, len(self.acknowledged) + count
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < end, "nobody acknowledges"
            self.attempts += 1
            data = b"%d" % self.attempts
            with suppress(ClientError):
                await self._client.publish(self._channel, data)
                self.acknowledged.append(data)

    def check(self, stored: list[bytes]) -> None:
        """Compare with what is in the channel: all that was acknowledged, once and in its order."""
        assert len(stored) == len(set(stored)), "no attempt is there twice"
        assert set(self.acknowledged) <= set(stored), "what was acknowledged is there"
        assert stored == sorted(stored, key=int), "in the order of publication"


@asynccontextmanager
async def client_of(server: ServerProcess, name: str, cluster: str = "c") -> AsyncIterator[stan.Client]:
    """A client that needs a streaming server soon; it waits until there is one."""
    async with await nats.connect(server.url, allow_reconnect=False) as connection:
        client = await registered(connection, name, cluster)
        try:
            yield client
        finally:
            if not client.closed:
                with suppress(ClientError):
                    await client.close()


async def registered(connection: NatsClient, name: str, cluster: str = "c") -> stan.Client:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return await stan.connect(cluster, name, nats=connection, connect_timeout=2, pub_ack_timeout=0.5)
        except ClientError:
            if time.monotonic() > end:
                raise


async def stored(client: stan.Client, channel: str) -> list[bytes]:
    return [message.data async for message in client.replay(channel)]


LEAVE: Final[dict[str, Callable[[ServerProcess], object]]] = {
    "SIGKILL": lambda owner: owner.signal(signal.SIGKILL),
    "SIGSTOP": lambda owner: owner.signal(signal.SIGSTOP),
    "lame duck": lambda owner: owner.signal(signal.SIGUSR2),
    "stop": lambda owner: owner.signal(signal.SIGTERM),
}


@pytest.mark.parametrize("how", LEAVE)
def test_another_server_goes_on_with_every_acknowledged_message(three: Streaming, how: str) -> None:
    async def use() -> None:
        first = three.owner()
        async with client_of(three.servers[(first + 1) % 3], "me") as client:
            publisher = Publisher(client, "foo")
            await publisher.publish(20)
            LEAVE[how](three.servers[first])
            await publisher.publish(40)
            if how == "SIGSTOP":
                three.servers[first].signal(signal.SIGCONT)
            else:
                three.start_again(first)  # with an empty disk
            second = three.owner(but=first)
            await publisher.publish(5)
            publisher.check(await stored(client, "foo"))
        await asyncio.to_thread(three.wait_for_role, first, "standby")
        shown = three.shown(first)
        assert (shown["state"], shown["role"], shown["node_id"]) == ("CLUSTERED", "Follower", f"n{first}")
        assert shown["bucket"]["owner"] == f"n{second}"
        assert three.shown(second)["role"] == "Leader"
        async with client_of(three.servers[first], "other") as client:
            publisher.check(await stored(client, "foo"))

    asyncio.run(use())
