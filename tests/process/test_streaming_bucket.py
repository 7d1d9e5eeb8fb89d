"""Three streaming servers with one bucket, as processes: another has the channels when the owner is gone."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.request import Request, urlopen

import nats
import pytest

from harness.processes import EPOLL, NATS_SERVER, STREAMING, ServerProcess
from harness.s3 import s3_endpoint
from harness.waiting import PATIENCE, wait_until
from headrace.client import stan
from headrace.client.errors import ClientError
from process.test_bucket_servers import Three

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path
    from typing import Any

    from nats.aio.client import Client as NatsClient

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


FAULT_TOLERANT: Final = CONFIG.replace("cluster {{ node_id: n{number} }}", "ft_group: g")
KEY: Final = {"NATS_STREAMING_ENCRYPTION_KEY": "nobody knows"}


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


def sees_owner(three: Streaming, number: int) -> bool:
    """Whether a server names the server that has the bucket now."""
    return bool(three.shown(number)["bucket"]["owner"] == f"n{three.owner(but=number)}")


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
            await publisher.publish(5)
            publisher.check(await stored(client, "foo"))
        await asyncio.to_thread(three.wait_for_role, first, "standby")
        await asyncio.to_thread(wait_until, lambda: sees_owner(three, first), "one owner")
        shown = three.shown(first)
        assert (shown["state"], shown["role"], shown["node_id"]) == ("CLUSTERED", "Follower", f"n{first}")
        assert three.shown(three.owner(but=first))["role"] == "Leader"
        async with client_of(three.servers[first], "other") as client:
            publisher.check(await stored(client, "foo"))

    asyncio.run(use())


class FaultTolerant(Streaming):
    """Three servers of a fault-tolerance group."""

    config = FAULT_TOLERANT


class Taken:
    """The messages that a live subscription got, each acknowledged if its sequence is in `acks`."""

    def __init__(self, *acks: int) -> None:
        self._acks = acks
        self.redelivered: set[int] = set()
        self.sequences: set[int] = set()
        self._news = asyncio.Event()

    async def take(self, message: stan.Message) -> None:
        self.sequences.add(message.sequence)
        if message.redelivered:
            self.redelivered.add(message.sequence)
        if message.sequence in self._acks:
            await message.ack()
        self._news.set()

    async def have(self, *sequences: int) -> None:
        """Wait until these have come."""
        async with asyncio.timeout(PATIENCE):
            while not self.sequences.issuperset(sequences):
                self._news.clear()
                await self._news.wait()


def test_subscriptions_live_on_with_what_they_acknowledged(tmp_path: Path) -> None:
    """Durables and queue groups of a client that notices nothing, of one that comes back later, too."""

    async def use(three: FaultTolerant) -> None:
        first = three.owner()
        assert active(three) == [first]
        other = three.servers[(first + 1) % 3]
        async with client_of(other, "live") as live, client_of(other, "gone") as gone:
            kinds = {"durable": {"durable_name": "d"}, "group": {"queue": "q"}}
            kinds["durable group"] = kinds["durable"] | kinds["group"]
            taken = {}
            for client in (live, gone):
                for kind, names in kinds.items():
                    if client is gone and kind == "group":
                        continue  # it would go with its last member
                    own = {name: f"{client.client_id}-{value}" for name, value in names.items()}
                    one = taken[client.client_id, kind] = Taken(1, 3)
                    await client.subscribe("foo", one.take, manual_acks=True, ack_wait=1, **own)
            publisher = Publisher(live, "foo")
            await publisher.publish(4)
            for one in taken.values():
                await one.have(1, 2, 3, 4)
            await gone.close()
            await publisher.publish(1)  # what it answers is behind all acknowledgements
            three.servers[first].signal(signal.SIGKILL)
            await publisher.publish(3)
            stored_now = await stored(live, "foo")
            publisher.check(stored_now)
            after = {kind: Taken() for kind in ("durable", "durable group")}
            async with client_of(other, "gone") as back:
                for kind, again in after.items():
                    names = {name: f"gone-{value}" for name, value in kinds[kind].items()}
                    await back.subscribe("foo", again.take, manual_acks=True, ack_wait=1, **names)
                for one in (*(taken["live", kind] for kind in kinds), *after.values()):
                    await one.have(2, 4, *range(5, len(stored_now) + 1))
                for again in after.values():
                    assert not again.sequences & {1, 3}, "an acknowledgement is kept"
                    assert again.redelivered >= {2, 4}
            for kind in kinds:
                assert taken["live", kind].redelivered.isdisjoint({1, 3})
        three.start_again(first)
        second = three.owner(but=first)
        await asyncio.to_thread(three.wait_for_role, first, "standby")
        assert active(three) == [second]
        assert three.shown(first)["state"] == "FT_STANDBY"

    three = FaultTolerant(tmp_path)
    try:
        asyncio.run(use(three))
    finally:
        three.close()


def active(three: Streaming) -> list[int]:
    """The servers that say to be the active one of their group."""
    found = []
    for number, server in enumerate(three.servers):
        with urlopen(f"{server.monitor_url}/streaming/isFTActive", timeout=PATIENCE) as answer:
            if answer.status == 200:
                found.append(number)
    return found


ONE: Final = """
http: "127.0.0.1:-1"
streaming {{ cluster_id: c, store: file, dir: "{disk}", bucket: "{bucket}" {more} }}
"""


def test_bucket_of_encrypted_channels_has_no_plain_text(tmp_path: Path) -> None:
    async def use(server: ServerProcess, data: bytes) -> list[bytes]:
        async with client_of(server, "me") as client:
            if data:
                await client.publish("confidential.channel", data)
            return await stored(client, "confidential.channel")

    def start(disk: str) -> ServerProcess:
        config = ONE.format(disk=tmp_path / disk, bucket=f"file://{tmp_path}/bucket", more=", encrypt: true")
        return ServerProcess(EPOLL, tmp_path, config=config, environment=KEY)

    words = b"nobody may read this"
    with start("first") as server:
        assert asyncio.run(use(server, words)) == [words]
    found = b"".join(path.read_bytes() for path in (tmp_path / "bucket").rglob("*") if path.is_file())
    assert len(found) > len(words)
    assert words not in found
    with start("second") as server:
        assert asyncio.run(use(server, b"")) == [words]


def test_server_of_several_processes_finds_its_channels_again(tmp_path: Path) -> None:
    async def use(server: ServerProcess, data: bytes) -> list[bytes]:
        async with client_of(server, "me") as client:
            await client.publish("foo", data)
            return await stored(client, "foo")

    config = "processes: 2\n" + ONE.format(
        disk=tmp_path / "disk", bucket=f"file://{tmp_path}/bucket", more=""
    )
    found = []
    for data in (b"a", b"b"):
        with ServerProcess(EPOLL, tmp_path, config=config) as server:
            found = asyncio.run(use(server, data))
    assert found == [b"a", b"b"]


def refusal(folder: Path, config: str) -> str:
    """Start a server that must not start; return its last line, without the time."""
    with ServerProcess(EPOLL, folder, config=config, ready=False) as server:
        assert server.wait() == 1
        return server.log.splitlines()[-1].partition("STREAM: ")[2]


def test_prefix_of_others_is_refused_and_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "photo.jpg").write_bytes(b"x")
    config = ONE.format(disk=tmp_path / "disk", bucket=f"file://{theirs}", more="")
    said = refusal(tmp_path, config)
    assert said.startswith("Failed to start: ")
    assert said.endswith("holds photo.jpg, and is not of Headrace: nothing was touched; give another prefix")
    assert [path.name for path in theirs.iterdir()] == ["photo.jpg"]

    bucket = f"file://{tmp_path}/bucket"
    named = 'cluster {{ name: {name}, listen: "127.0.0.1:-1" }}\n'
    with ServerProcess(
        EPOLL,
        tmp_path,
        config=ONE.format(disk=tmp_path / "a", bucket=bucket, more="") + named.format(name="A"),
    ):
        pass
    before = sorted(path.relative_to(tmp_path) for path in (tmp_path / "bucket").rglob("*"))
    said = refusal(tmp_path, ONE.format(disk=tmp_path / "b", bucket=bucket, more="") + named.format(name="B"))
    assert said.endswith("is of the cluster 'A', this server is of 'B'")
    assert sorted(path.relative_to(tmp_path) for path in (tmp_path / "bucket").rglob("*")) == before


@contextmanager
def judged_requests(endpoint: str) -> Iterator[None]:
    """For a block, moto believes nobody whom it does not know; it is one for all tests of a process."""

    def judge_after(requests: bytes) -> None:
        text = {"Content-Type": "text/plain"}
        with urlopen(Request(f"{endpoint}/moto-api/reset-auth", requests, text), timeout=PATIENCE):
            pass

    judge_after(b"0")
    try:
        yield
    finally:
        judge_after(b"inf")


@pytest.mark.filterwarnings("default")
def test_wrong_credentials_are_one_line(tmp_path: Path) -> None:
    with s3_endpoint("channels") as endpoint, judged_requests(endpoint):
        config = f"""
        streaming {{ cluster_id: c, store: file, dir: "{tmp_path}/disk", bucket {{
          url: "s3://channels/p", endpoint: "{endpoint}", region: us-east-1
          credentials {{ access_key_id: wrong, secret_access_key: wrong }} }} }}
        """
        said = refusal(tmp_path, config)
    assert said.startswith("Failed to start: cannot ")
    assert "403" in said
    assert "secret" not in said


ATTACHED: Final = """
http: "127.0.0.1:-1"
server_name: s{number}
streaming {{ cluster_id: c, store: file, dir: "{folder}/disk{number}", bucket: "file://{folder}/bucket" }}
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=lambda each: each.name)
def test_servers_that_use_a_nats_server_take_turns(tmp_path: Path, how: signal.Signals) -> None:
    def start(number: int) -> ServerProcess:
        folder = tmp_path / f"s{number}"
        folder.mkdir()
        config = ATTACHED.format(number=number, folder=tmp_path)
        return ServerProcess(STREAMING, folder, "-ns", elsewhere.url, config=config)

    def role(server: ServerProcess) -> str:
        with urlopen(f"{server.monitor_url}/streaming/serverz", timeout=PATIENCE) as answer:
            return str(json.load(answer)["bucket"]["role"])

    async def use(owner: ServerProcess, other: ServerProcess) -> None:
        async with client_of(elsewhere, "me") as client:
            publisher = Publisher(client, "foo")
            await publisher.publish(10)
            owner.signal(how)
            await publisher.publish(10)
            assert role(other) == "owner"
            if how is signal.SIGSTOP:
                owner.signal(signal.SIGCONT)
                await asyncio.to_thread(wait_until, lambda: role(owner) == "standby", "it stands by")
            await publisher.publish(10)
            publisher.check(await stored(client, "foo"))

    with ServerProcess(NATS_SERVER, tmp_path) as elsewhere, start(0) as one:
        one.wait_for_line("Streaming Server is ready")
        with start(1) as other:
            try:
                asyncio.run(use(one, other))
            finally:
                one.signal(signal.SIGCONT)
