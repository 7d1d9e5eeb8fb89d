"""A streaming server and its shard, whose decisions open and close the service of a server that runs."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import nats
import pytest
from msgspec.structs import replace
from nats.errors import NoRespondersError

from headrace import Server as EmbeddedServer
from headrace.app import streaming_service
from headrace.bucket.peers import MOST_PEERS
from headrace.bucket.port import Beat
from headrace.bucket.status import ShardStatus
from headrace.client import stan
from headrace.conf.bucket_options import BucketOptions
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.options import Options
from headrace.conf.peer_options import ClusterOptions
from headrace.conf.streaming_options import StreamingOptions
from headrace.errors import HeadraceError, StartError, StorageError
from headrace.log.committer import InlineCommitter
from headrace.log.filesystem import RealFileSystem
from headrace.log.store import FileStore
from headrace.protocol.stan import ConnectRequest, ConnectResponse, CtrlMsg, CtrlType
from headrace.server.reload import change_options
from headrace.server.server import Server
from headrace.server.snapshot import ServerMonitor
from headrace.streaming.beats import beat_subject
from headrace.streaming.service import StreamingService
from headrace.streaming_membership import StreamingMembership

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from headrace.bucket.port import ShardHost
    from headrace.log.filesystem import FileSystem

TEST_SECONDS = 20.0
STREAMING = StreamingOptions(
    cluster_id="test", store_type="FILE", directory="local", bucket=BucketOptions(url="file:///bucket")
)
LOG = logging.getLogger("test-membership")


class FakeShard:
    """A shard that owns when a test says so, over files of one directory."""

    def __init__(
        self, host: ShardHost, owns: bool, refusal: HeadraceError | None, *names: str, is_alone: bool = True
    ) -> None:
        self.host = host
        self.names = names
        """The names of its server and of its cluster."""
        self.is_alone = is_alone
        self.said: list[object] = []
        self.was_told = asyncio.Event()
        self._owns = owns
        self._refusal = refusal
        self._settled = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.proof: float | None = None
        """The time of the last proof; None: this moment."""

    lag_allowed_s = 0.0

    @property
    def last_proof(self) -> float:
        return asyncio.get_running_loop().time() if self.proof is None else self.proof

    async def start(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        task = asyncio.get_running_loop().create_task(self._run())
        self._tasks.add(task)

    async def _run(self) -> None:
        if self._owns:
            try:
                await self.promote()
            except HeadraceError as error:
                await self.host.demoted(str(error))
                return
        self._settled.set()

    async def promote(self) -> None:
        await self.host.promoted(RealFileSystem(), InlineCommitter())
        self._owns = True

    async def demote(self, reason: str | None) -> None:
        self._owns = False
        await self.host.demoted(reason)

    async def settled(self) -> None:
        await self._settled.wait()

    async def stop(self) -> None:
        self.said.append("stop")
        if self._owns:
            await self.demote(None)

    async def step_down(self) -> None:
        await self.stop()

    def heard(self, beat: Beat, server_id: str, name: str = "") -> None:
        self.said.append((beat, server_id))
        self.was_told.set()

    def heard_object(self, sealed: bytes) -> None:
        self.said.append(sealed)
        self.was_told.set()

    def succeeded_by_another(self) -> None:
        raise AssertionError("servers of channels wish for no certain one")

    def limit_filling(self, per_second: int) -> None:
        self.said.append(per_second)

    def limit_puts(self, per_second: float) -> None:
        self.said.append(per_second)

    def suspect(self) -> None:
        self.said.append("suspect")
        self.was_told.set()

    def status(self) -> ShardStatus:
        return ShardStatus(
            shard="streaming-test",
            url="file:///bucket",
            role="owner" if self._owns else "standby",
            epoch=1,
            owner=self.names[0],
            number=1,
            snapshot=0,
            commit="bucket",
            max_lag_s=1.0,
        )


class World:
    """Servers with one directory of channels; which one has it is the test's to say."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shards: list[FakeShard] = []
        self.services: list[StreamingService] = []

    def open_store(self, files: FileSystem) -> FileStore:
        return FileStore(self.directory / "store", filesystem=files)

    @asynccontextmanager
    async def server(
        self,
        *,
        owns: bool = True,
        refusal: HeadraceError | None = None,
        streaming: StreamingOptions = STREAMING,
        open_store: Callable[[FileSystem], FileStore] | None = None,
        cluster: ClusterOptions | None = None,
    ) -> AsyncIterator[Server]:
        service = StreamingService(streaming, None, LOG)

        def make(host: ShardHost, server: str, cluster: str, *, is_alone: bool) -> FakeShard:
            self.shards.append(FakeShard(host, owns, refusal, server, cluster, is_alone=is_alone))
            return self.shards[-1]

        StreamingMembership(service, open_store or self.open_store, make, LOG)
        self.services.append(service)
        options = Options(host="127.0.0.1", port=-1, server_name="here", streaming=streaming, cluster=cluster)
        async with Server(options, services=[service]) as server:
            yield server

    def state(self, number: int = 0) -> str:
        return self.services[number].snapshot_server().state


def scenario(test: Callable[[World], Awaitable[None]]) -> Callable[[Path], None]:
    """Runs a coroutine test in a world."""

    async def run(directory: Path) -> None:
        async with asyncio.timeout(TEST_SECONDS):
            await test(World(directory))

    @functools.wraps(test)
    def wrapper(tmp_path: Path) -> None:
        asyncio.run(run(tmp_path))

    del wrapper.__wrapped__  # type: ignore[attr-defined] # pytest looks for its parameters
    return wrapper


@scenario
async def test_channels_are_served_once_the_server_is_ready(world: World) -> None:
    async with world.server() as server:
        assert world.state() == "FT_ACTIVE"
        client = await stan.connect("test", "me", servers=server.url)
        await client.publish("foo", b"x")
        await client.close()
    assert world.shards[0].said[:1] == ["stop"]
    assert world.state() == "SHUTDOWN"


@scenario
async def test_channels_come_and_go_while_the_server_runs(world: World) -> None:
    async with world.server(owns=False) as server:
        (shard,) = world.shards
        assert world.state() == "FT_STANDBY"
        for _ in range(3):
            await shard.promote()
            client = await stan.connect("test", "me", servers=server.url)
            await client.publish("foo", b"x")
            await client.close()
            await shard.demote(None)
            await shard.promote()
            await shard.demote("another server owns the shard")
        assert world.state() == "FT_STANDBY"
        await shard.promote()
        shown = world.services[0].snapshot_channel("foo")
        assert shown is not None
        assert shown.last_seq == 3


@scenario
async def test_reload_takes_other_budgets_over(world: World) -> None:
    async with world.server() as server:
        streaming = replace(
            STREAMING, bucket=BucketOptions("file:///bucket", puts_per_second=7.5, fill_per_second=9)
        )
        change_options(server, replace(server.options, streaming=streaming))
        assert world.shards[0].said == [7.5, 9]


@scenario
async def test_bucket_that_cannot_be_used_ends_the_start(world: World) -> None:
    with pytest.raises(StartError, match=r"STREAM: Failed to start: 403 from the store"):
        async with world.server(refusal=HeadraceError("403 from the store")):
            pass


@scenario
async def test_channels_that_cannot_be_opened_end_the_start(world: World) -> None:
    def fail(files: FileSystem) -> FileStore:
        raise StorageError("no space left")

    with pytest.raises(StartError, match=r"STREAM: Failed to start: no space left"):
        async with world.server(open_store=fail):
            pass
    assert world.state() == "SHUTDOWN"


@scenario
async def test_channels_of_another_cluster_end_the_start(world: World) -> None:
    async with world.server():
        pass
    other = StreamingOptions(
        cluster_id="other", store_type="FILE", directory="local", bucket=STREAMING.bucket
    )
    with pytest.raises(StartError, match="does not match recovered value"):
        async with world.server(streaming=other):
            pass
    async with world.server():  # the store was closed
        assert world.state(2) == "FT_ACTIVE"


@scenario
async def test_channels_that_cannot_be_opened_later_leave_the_server_running(world: World) -> None:
    async with world.server(owns=False):
        (shard,) = world.shards
        holder = FileStore(world.directory / "store")
        with pytest.raises(HeadraceError, match="another process has"):
            await shard.promote()
        await shard.demote("it cannot be used")
        holder.close()
        await shard.promote()
        assert world.state() == "FT_ACTIVE"


@pytest.mark.parametrize("commit", ["bucket", "disk"])
def test_service_of_a_configuration_with_a_bucket(tmp_path: Path, commit: Any) -> None:
    options = replace(
        STREAMING,
        directory=str(tmp_path / "store"),
        bucket=BucketOptions(url="file:///bucket", commit=commit),
    )
    shards: list[FakeShard] = []

    def make(host: ShardHost, server: str, cluster: str, *, is_alone: bool) -> FakeShard:
        shards.append(FakeShard(host, True, None, server, cluster))
        return shards[-1]

    async def run() -> None:
        with streaming_service(options, lambda _text: None, make_shard=make) as service:
            async with Server(Options(host="127.0.0.1", port=-1), services=[service]) as server:
                client = await stan.connect("test", "me", servers=server.url)
                await client.publish("foo", b"x")
                await client.close()
                assert service.snapshot_server().state == "FT_ACTIVE"

    asyncio.run(run())
    assert not (tmp_path / "store" / "closed").exists()  # nothing was synced, so nobody may rely on it
    store = FileStore(tmp_path / "store")
    assert store.open(b"foo").state().messages == 1
    store.close()


@scenario
async def test_shard_hears_of_its_server_and_monitoring_of_the_shard(world: World) -> None:
    async with world.server() as server:
        (shard,) = world.shards
        assert (shard.names, shard.is_alone) == (("here", ""), True)
        status = world.services[0].bucket_status()
        assert status is not None
        assert (status.shard, status.role, status.owner) == ("streaming-test", "owner", "here")
        assert list(ServerMonitor(server).buckets()) == ["Streaming"]
        assert world.services[0].snapshot_server().sync == "bucket"
    node = replace(STREAMING, clustered=True, node_id="a")
    async with world.server(streaming=node):
        assert world.shards[1].names == ("a", "")


@scenario
async def test_a_backlog_is_synced_by_groups_whatever_channels_are_told(world: World) -> None:
    assert STREAMING.bucket is not None
    bucket = replace(STREAMING.bucket, commit="disk")
    async with world.server(streaming=replace(STREAMING, bucket=bucket, sync="never")):
        assert world.services[0].snapshot_server().sync == "group"


@scenario
async def test_only_a_name_that_lasts_is_the_name_of_the_cluster(world: World) -> None:
    """A name that is made up at each start would make the prefix another cluster's at the next one."""
    for name in ("", "C"):
        async with world.server(cluster=ClusterOptions(name=name, host="127.0.0.1", port=-1)):
            shard = world.shards[-1]
            assert (shard.names, shard.is_alone) == (("here", name), False)


@scenario
async def test_owner_without_a_proof_says_nothing_until_it_has_one(world: World) -> None:
    """As one that slept: another server may have the channels by now."""
    async with world.server() as server, await nats.connect(server.url) as client:
        (shard,) = world.shards
        request = ConnectRequest(client_id=b"me", heartbeat_inbox=b"hb").encode()
        shard.proof = 0.0
        refused = 0
        while not refused:  # what is proven already may be said for some seconds
            try:
                await client.request("_STAN.discover.test", request, timeout=TEST_SECONDS)
            except NoRespondersError:
                refused += 1
        shard.proof = None
        answer: bytes | None = None
        while answer is None:
            with suppress(NoRespondersError):
                answer = (await client.request("_STAN.discover.test", request, timeout=TEST_SECONDS)).data
        assert ConnectResponse.decode(answer).error == b""


def shared(folder: Path, name: str, **changes: Any) -> StreamingOptions:
    """Streaming of a server with a disk of its own and the bucket of all."""
    return replace(
        STREAMING, directory=str(folder / name), bucket=BucketOptions(f"file://{folder}/bucket"), **changes
    )


def over_a_bucket(streaming: StreamingOptions, jetstream: JetStreamOptions | None = None) -> EmbeddedServer:
    return EmbeddedServer(Options(host="127.0.0.1", port=-1, streaming=streaming, jetstream=jetstream))


async def published(server: Server, cluster: str, *data: bytes) -> list[bytes]:
    """Publish; return what is in the channel then."""
    async with await stan.connect(cluster, "me", servers=server.url) as client:
        for one in data:
            await client.publish("foo", one)
        return [message.data async for message in client.replay("foo")]


@scenario
async def test_channels_are_in_the_bucket_and_an_empty_disk_is_as_good(world: World) -> None:
    async with over_a_bucket(shared(world.directory, "first")) as server:
        assert await published(server, "test", b"a", b"b") == [b"a", b"b"]
    async with over_a_bucket(shared(world.directory, "second")) as server:
        assert await published(server, "test", b"c") == [b"a", b"b", b"c"]


@scenario
async def test_cluster_ids_and_jetstream_share_a_prefix_without_meeting(world: World) -> None:
    streams = JetStreamOptions(
        store_dir=str(world.directory / "js"), bucket=BucketOptions(f"file://{world.directory}/bucket")
    )
    for cluster, jetstream in (("test", streams), ("other", None)):
        streaming = shared(world.directory, cluster, cluster_id=cluster)
        async with over_a_bucket(streaming, jetstream) as server:
            assert await published(server, cluster, cluster.encode()) == [cluster.encode()]
    shards = {path.name for path in (world.directory / "bucket" / "shards").iterdir()}
    assert shards == {"jetstream", "streaming-test", "streaming-other"}
    async with over_a_bucket(shared(world.directory, "third")) as server:
        assert await published(server, "test") == [b"test"]


@scenario
async def test_directory_of_another_cluster_id_is_left_alone(world: World) -> None:
    async with over_a_bucket(shared(world.directory, "disk")) as server:
        await published(server, "test", b"a")
    with pytest.raises(StartError, match=r"/shards/streaming-test, not of .*/shards/streaming-other"):
        async with over_a_bucket(shared(world.directory, "disk", cluster_id="other")):
            pass
    async with over_a_bucket(shared(world.directory, "disk")) as server:
        assert await published(server, "test") == [b"a"]


@asynccontextmanager
async def another(world: World, server: Server) -> AsyncIterator[tuple[StreamingMembership, FakeShard]]:
    """One more streaming server with the same bucket, which stands by."""
    service = StreamingService(STREAMING, None, LOG)
    world.services.append(service)
    shards: list[FakeShard] = []

    def make(host: ShardHost, server: str, cluster: str, *, is_alone: bool) -> FakeShard:
        shards.append(FakeShard(host, False, None, server, cluster))
        return shards[-1]

    membership = StreamingMembership(service, world.open_store, make, LOG)
    host = server.start_service(service, server.accounts.default)
    await membership.join("another", "", is_alone=False)
    yield membership, shards[0]
    await membership.part()
    server.stop_services([host])


@scenario
async def test_signs_of_life_reach_the_shards_of_other_servers(world: World) -> None:
    async with world.server() as server, another(world, server) as (_, shard):
        beat = Beat(is_owner=True, epoch=7, number=1 << 63)

        owner = world.services[0].membership
        assert isinstance(owner, StreamingMembership)
        owner.tell(beat)
        await shard.was_told.wait()

        assert shard.said == [(beat, world.services[0].server_id)]
        assert world.shards[0].said == []


@scenario
async def test_an_object_of_the_log_comes_to_the_one_server_that_it_is_for(world: World) -> None:
    async with (
        world.server() as server,
        another(world, server) as (_, shard),
        another(world, server) as (_, third),
    ):
        owner = world.services[0].membership
        assert isinstance(owner, StreamingMembership)
        to = world.services[1].server_id
        most = bytes(server.options.max_payload)
        assert not owner.tell_object(to, most + b".")
        for no_id in ("", "*", ">", "A.B", "A B", "A\r\nPUB x 0", "\N{SNOWMAN}"):
            assert not owner.tell_object(no_id, b"lost")
        assert owner.tell_object(to, most)
        assert owner.tell_object(to, b"one")
        while len(shard.said) < 2:
            await shard.was_told.wait()
            shard.was_told.clear()
        assert shard.said == [most, b"one"]
        assert (world.shards[0].said, third.said) == ([], [])


@scenario
async def test_a_server_that_stands_by_asks_the_bucket_for_nothing_that_it_was_told_of(world: World) -> None:
    async with over_a_bucket(shared(world.directory, "owner")) as server:
        standing = shared(world.directory, "standby")
        with streaming_service(standing, lambda _text: None) as service:
            membership = service.membership
            assert membership is not None
            host = server.start_service(service, server.accounts.default)
            await membership.join("standby", "", is_alone=False)
            await published(server, "test", b"first")
            before = await caught_up(server, service)
            await published(server, "test", *(b"%d" % number for number in range(20)))
            after = await caught_up(server, service)
            assert after.number > before.number + 20
            assert requests_of(after) == requests_of(before)
            await membership.part()
            server.stop_services([host])


async def caught_up(server: Server, service: StreamingService) -> ShardStatus:
    """The status of one that stands by, once it has all that the owner has."""
    while True:
        owner = ServerMonitor(server).buckets()["Streaming"]
        standby = service.bucket_status()
        if standby is not None and owner.number == standby.number > 0:
            return standby
        await asyncio.sleep(0.01)


def requests_of(status: ShardStatus) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in status.requests:
        found[each.kind] += each.count
    return found


@scenario
async def test_an_owner_without_a_host_tells_nobody_of_objects(world: World) -> None:
    service = StreamingService(STREAMING, None, LOG)

    def make(host: ShardHost, server: str, cluster: str, *, is_alone: bool) -> FakeShard:
        return FakeShard(host, False, None, server, cluster)

    membership = StreamingMembership(service, world.open_store, make, LOG)
    assert not membership.tell_object(service.server_id, b"one")


@scenario
async def test_made_up_servers_are_remembered_up_to_a_limit(world: World) -> None:
    async with world.server() as server, another(world, server) as (_, shard):
        subject = beat_subject(STREAMING).decode()

        def beat(name: bytes, is_owner: bool = False) -> bytes:
            return CtrlMsg(CtrlType.FT_HEARTBEAT, name, bytes([is_owner]) + bytes(16)).encode()

        async with await nats.connect(server.url) as client:
            for number in range(2 * MOST_PEERS):
                await client.publish(subject, beat(b"X%d" % number))
            await client.publish(subject, beat(b"X0", is_owner=True))  # who is known goes on
            while not shard.said or shard.said[-1] != (Beat(True, 0, 0), "X0"):
                await shard.was_told.wait()
                shard.was_told.clear()
        heard = {said[1] for said in shard.said if isinstance(said, tuple)}
        assert heard == {f"X{number}" for number in range(MOST_PEERS)}


@scenario
async def test_what_is_no_sign_of_life_is_passed_over(world: World) -> None:
    async with world.server() as server, another(world, server) as (membership, shard):
        beats = world.services[0].beats
        assert beats is not None
        for data in (b"", b"\x01", bytes(18), bytes(1000)):
            beats.tell(data)
        beats.tell(bytes(17))
        await shard.was_told.wait()

        assert [beat for beat, _ in shard.said] == [Beat(is_owner=False, epoch=0, number=0)]
        assert membership is not None


@scenario
async def test_owner_is_suspected_when_nobody_answers_clients_any_more(world: World) -> None:
    async with world.server() as server, another(world, server) as (_, shard):
        world.services[0].abandon()

        await shard.was_told.wait()
        assert shard.said == ["suspect"]
        assert world.shards[0].said == []  # it has the store still, and knows best


@scenario
async def test_server_that_leaves_hands_over_if_there_is_another(world: World) -> None:
    async with world.server() as server, another(world, server) as (membership, _):
        owner = world.services[0].membership
        assert owner is not None
        await owner.leave()
        assert world.state() == "FT_ACTIVE"

        membership.tell(Beat(is_owner=False, epoch=1, number=1))
        await world.shards[0].was_told.wait()
        await owner.leave()

        assert world.shards[0].said[-1] == "stop"
        assert world.state() == "FT_STANDBY"
