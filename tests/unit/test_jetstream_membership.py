"""Servers that have their streams in one bucket: what they say to each other, and who serves whose clients.

The bucket is played by a shard that takes it when it is free; the real one has its own tests.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import nats
import pytest
from msgspec.structs import replace
from nats.errors import NoRespondersError
from nats.js.errors import NoStreamResponseError

from harness.nats_py import settle
from harness.ports import free_port
from headrace.bucket.committer import PROOF_S
from headrace.bucket.errors import BucketError
from headrace.bucket.peers import MOST_PEERS
from headrace.bucket.port import Beat
from headrace.bucket.status import ShardStatus
from headrace.conf.account_options import AccountOptions, JetStreamAccountLimits, UserOptions
from headrace.conf.bucket_options import BucketOptions
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.options import Options
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.errors import StartError
from headrace.jetstream_membership import SharedJetStream, beat_subject
from headrace.log.committer import InlineCommitter
from headrace.log.filesystem import RealFileSystem
from headrace.server.monitor.healthz import healthz
from headrace.server.monitor.jsz import jsz
from headrace.server.reload import change_options
from headrace.server.server import Server
from headrace.server.snapshot import ServerMonitor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from pathlib import Path

    from headrace.bucket.port import ShardHost
    from headrace.core.service import Host
    from headrace.jetstream.leadership import Leadership

URL = "s3://b/p"


def run(work: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


class Bucket:
    """A bucket whose shard belongs to the first who takes it."""

    def __init__(self) -> None:
        self.owner: PlayedShard | None = None
        self.epoch = 0
        self.shards: list[PlayedShard] = []
        self.is_broken = False
        self.lag_allowed_s = 0.0

    def shard(self, host: ShardHost, _server: str, _cluster: str, *, is_alone: bool) -> PlayedShard:
        self.shards.append(PlayedShard(self, host, is_alone))
        return self.shards[-1]


class PlayedShard:
    """A shard that is claimed when it is free, and told so by hand."""

    def __init__(self, bucket: Bucket, host: ShardHost, is_alone: bool) -> None:
        self.bucket = bucket
        self.host = host
        self.is_alone = is_alone
        self.beats: dict[str, Beat] = {}
        self.objects: list[bytes] = []
        self.suspects = 0
        self.puts_per_second = 0.0
        self.fill_per_second = 0
        self.yields = 0
        self.is_sure = True
        self.number = 0
        self.news = asyncio.Event()

    async def start(self) -> None:
        if self.bucket.is_broken:
            raise BucketError("no answer from the bucket")
        if self.bucket.owner is None:
            await self.claim()
        self.say()

    @property
    def last_proof(self) -> float:
        is_proven = self.bucket.owner is self and self.is_sure
        return asyncio.get_running_loop().time() - PROOF_S if is_proven else 0.0

    @property
    def lag_allowed_s(self) -> float:
        return self.bucket.lag_allowed_s

    async def settled(self) -> None:
        while self.bucket.owner is None:
            await self.news.wait()

    async def claim(self) -> None:
        self.bucket.owner = self
        self.bucket.epoch += 1
        await self.host.promoted(RealFileSystem(), InlineCommitter())
        self.say()

    def say(self) -> None:
        self.host.tell(Beat(self.bucket.owner is self, self.bucket.epoch, self.number))

    async def step_down(self) -> None:
        await self.stop()

    async def stop(self) -> None:
        if self.bucket.owner is self:
            await self.host.demoted(None)
            self.bucket.owner = None

    async def lose(self) -> None:
        """Another server has taken the shard."""
        self.bucket.owner = None
        await self.host.demoted("it is another server's")

    def heard(self, beat: Beat, server_id: str, name: str = "") -> None:
        self.beats[server_id] = beat
        self.news.set()
        self.news.clear()

    def heard_object(self, sealed: bytes) -> None:
        self.objects.append(sealed)

    def succeeded_by_another(self) -> None:
        self.yields += 1

    def limit_filling(self, per_second: int) -> None:
        self.fill_per_second = per_second

    def limit_puts(self, per_second: float) -> None:
        self.puts_per_second = per_second

    def suspect(self) -> None:
        self.suspects += 1

    def status(self) -> ShardStatus:
        return ShardStatus(
            shard="js",
            url=URL,
            role="owner" if self.bucket.owner is self else "standby",
            epoch=self.bucket.epoch,
            owner="S0",
            number=self.number,
            snapshot=0,
            commit="bucket",
            max_lag_s=1.0,
        )


class Cluster:
    """Servers in one loop, with a directory that all of them have: the owner's, as the bucket would."""

    def __init__(
        self, directory: Path, bucket: Bucket, size: int = 3, accounts: tuple[AccountOptions, ...] = ()
    ) -> None:
        self.bucket = bucket
        self._accounts = accounts
        self._ports = [free_port() for _ in range(size)]
        self._options = JetStreamOptions(store_dir=str(directory), bucket=BucketOptions(url=URL))
        self.servers: list[Server] = []

    def server(self, index: int) -> Server:
        routes = tuple(PeerURL("127.0.0.1", port) for port in self._ports if port != self._ports[index])
        cluster = ClusterOptions(name="C", host="127.0.0.1", port=self._ports[index], routes=routes)
        jetstream = SharedJetStream(
            self._options,
            self.bucket.shard,
            loop=asyncio.get_running_loop(),
            log=logging.getLogger("headrace.jetstream"),
        )
        options = Options(
            host="127.0.0.1",
            port=-1,
            server_name=f"S{index}",
            cluster=cluster,
            jetstream=self._options,
        )
        if self._accounts:
            options = replace(options, accounts=self._accounts, system_account="SYS")
        return Server(options, account_services=jetstream)

    async def __aenter__(self) -> Cluster:
        self._running = AsyncExitStack()
        for index in range(len(self._ports)):
            server = await self._running.enter_async_context(self.server(index))
            self.servers.append(server)
        for server in self.servers:
            assert server.routes is not None
            await server.routes.joined(len(self.servers) - 1, seconds=10)
        await until(self._know_each_other)
        return self

    def _know_each_other(self) -> bool:
        """Have all say that they live, as they do all the time: interest takes a moment to be known."""
        for shard in self.bucket.shards:
            shard.say()
        return all(len(shard.beats) == len(self.servers) - 1 for shard in self.bucket.shards)

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if is_so():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError


def jetstream_of(server: Server) -> SharedJetStream:
    assert server.account_services is not None
    jetstream = server.account_services.services
    assert isinstance(jetstream, SharedJetStream)
    return jetstream


def leadership(server: Server) -> Leadership:
    return jetstream_of(server).ownership.leadership()


def test_servers_hear_each_other_and_say_who_leads(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket) as cluster:
            first, second, third = cluster.servers
            bucket.shards[0].number = 7
            for shard in bucket.shards:
                assert not shard.is_alone
                shard.say()
            await until(lambda: Beat(True, 1, 7) in bucket.shards[1].beats.values())
            assert bucket.shards[0].beats == {
                second.server_id: Beat(False, 1, 0),
                third.server_id: Beat(False, 1, 0),
            }
            for server in cluster.servers:
                led = leadership(server)
                assert (led.cluster, led.leader, led.is_leader) == ("C", "S0", server is first)
            assert {(peer.name, peer.lag) for peer in leadership(first).peers} == {("S1", 7), ("S2", 7)}
            meta = jsz(ServerMonitor(second), {})["meta_cluster"]
            assert (meta["leader"], meta["cluster_size"]) == ("S0", 3)
            assert [healthz(ServerMonitor(each), {})[0] for each in cluster.servers] == [200, 200, 200]
            assert [bool(each.info["jetstream"]) for each in cluster.servers] == [True, True, True]

    run(work())


def test_an_object_of_the_log_comes_to_the_one_server_that_it_is_for(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket) as cluster:
            first, _, third = cluster.servers
            tell = jetstream_of(first).ownership.tell_object
            most = bytes(1 << 20)
            assert tell(third.server_id, b"one")
            assert tell(third.server_id, most)
            assert not tell(third.server_id, most + b".")
            for no_id in ("", "*", ">", "A.B", "A B", "A\r\nPUB x 0", "\N{SNOWMAN}"):
                assert not tell(no_id, b"lost")
            await until(lambda: len(bucket.shards[2].objects) == 2)
            assert bucket.shards[2].objects == [b"one", most]
            assert bucket.shards[0].objects == bucket.shards[1].objects == []

    run(work())


def test_reload_takes_other_budgets_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket) as cluster:
            server = cluster.servers[1]
            before = server.options.jetstream
            assert before is not None
            other = replace(before, bucket=BucketOptions(URL, puts_per_second=7.5, fill_per_second=9))
            with caplog.at_level(logging.INFO):
                change_options(server, replace(server.options, jetstream=other))
            assert [shard.puts_per_second for shard in bucket.shards] == [0.0, 7.5, 0.0]
            assert [shard.fill_per_second for shard in bucket.shards] == [0, 9, 0]
            assert "Reloaded: jetstream bucket puts_per_second = 7.5" in caplog.messages
            refused = replace(before, bucket=BucketOptions(URL, puts_per_second=1.0, puts_in_flight=2))
            with pytest.raises(StartError, match=r"not supported for jetstream\.bucket\.puts_in_flight"):
                change_options(server, replace(server.options, jetstream=refused))
            assert bucket.shards[1].puts_per_second == 7.5

    run(work())


def test_clients_of_every_server_are_served_by_the_owner_and_by_the_next_one(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket) as cluster:
            client = await nats.connect(cluster.servers[2].url)
            js = client.jetstream()
            await js.add_stream(name="S", subjects=["s"])
            assert (await js.publish("s", b"1")).seq == 1
            assert (await js.account_info()).streams == 1

            await bucket.shards[0].stop()
            await nobody_serves(js.publish)
            await bucket.shards[1].claim()
            assert await retried(js.publish) == 2
            assert leadership(cluster.servers[2]).leader == "S1"

            await bucket.shards[1].lose()
            await nobody_serves(js.publish)
            await bucket.shards[2].claim()
            assert await retried(js.publish) == 3
            await client.close()

    run(work())


async def retried(publish: Callable[..., Awaitable[Any]]) -> int:
    """The sequence of a message that is published until it is acknowledged, as clients do that retry."""
    while True:
        try:
            return int((await publish("s", b"again")).seq)
        except NoStreamResponseError:
            await asyncio.sleep(0.005)


async def nobody_serves(publish: Callable[..., Awaitable[Any]]) -> None:
    """Wait until interest is gone at the client's server, as it travels over a route."""
    while True:
        try:
            await publish("s", b"lost", timeout=0.05)
        except NoStreamResponseError:
            return
        except nats.errors.TimeoutError:
            continue


def test_infos_name_the_leader_and_the_others_and_a_request_makes_it_step_down(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket) as cluster:
            client = await nats.connect(cluster.servers[1].url)
            await client.jetstream().add_stream(name="S", subjects=["s"])
            made = await client.jetstream().pull_subscribe("s", durable="c")
            for subject in ("STREAM.INFO.S", "CONSUMER.INFO.S.c"):
                info = json.loads((await client.request(f"$JS.API.{subject}", b"")).data)
                assert list(info["cluster"]) == ["name", "leader", "leader_since", "replicas"]
                assert (info["cluster"]["name"], info["cluster"]["leader"]) == ("C", "S0")
                assert {each["name"] for each in info["cluster"]["replicas"]} == {"S1", "S2"}
                assert list(info)[-1] == "ts"
            await made.unsubscribe()

            operator = cluster.servers[2].accounts[cluster.servers[2].accounts.system or ""]
            asker = Asker()
            cluster.servers[2].start_service(asker, operator)
            kind = "io.nats.jetstream.api.v1.meta_leader_stepdown_response"
            assert await asker.ask(b"$JS.API.META.LEADER.STEPDOWN") == {"type": kind, "success": True}
            await until(lambda: bucket.owner is None)
            await client.close()

    run(work())


@pytest.mark.parametrize(("preferred", "yields"), [("S1", [0, 0, 1]), ("S2", [0, 1, 0]), ("", [0, 0, 0])])
def test_the_server_that_is_preferred_goes_first(tmp_path: Path, preferred: str, yields: list[int]) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket) as cluster:
            assert jetstream_of(cluster.servers[0]).ownership.hand_over(preferred)
            await until(lambda: bucket.owner is None)
            await until(lambda: [shard.yields for shard in bucket.shards] == yields)

    run(work())


def test_clients_are_told_of_the_next_leader_of_streams_and_consumers(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket) as cluster:
            client = await nats.connect(cluster.servers[1].url)
            await client.jetstream().add_stream(name="S", subjects=["s"])
            await client.jetstream().pull_subscribe("s", durable="c")
            elected = await client.subscribe("$JS.EVENT.ADVISORY.*.LEADER_ELECTED.>")
            await settle(client)

            await bucket.shards[0].stop()
            await bucket.shards[1].claim()

            told = [await elected.next_msg(5) for _ in range(2)]
            assert [each.subject.removeprefix("$JS.EVENT.ADVISORY.") for each in told] == [
                "STREAM.LEADER_ELECTED.S",
                "CONSUMER.LEADER_ELECTED.S.c",
            ]
            of_stream, of_consumer = (json.loads(each.data) for each in told)
            assert list(of_stream) == ["type", "id", "timestamp", "stream", "leader", "replicas"]
            assert of_stream["type"] == "io.nats.jetstream.advisory.v1.stream_leader_elected"
            assert of_consumer["type"] == "io.nats.jetstream.advisory.v1.consumer_leader_elected"
            assert (of_consumer["stream"], of_consumer["consumer"]) == ("S", "c")
            for event in (of_stream, of_consumer):
                assert event["leader"] == "S1"
                assert {each["name"] for each in event["replicas"]} == {"S0", "S1", "S2"}
            await client.close()

    run(work())


def test_an_operator_is_told_of_the_next_leader_in_the_system_account(tmp_path: Path) -> None:
    """As nats-server tells it: of all streams first, then of each with its account."""

    async def work() -> None:
        bucket = Bucket()
        accounts = (
            AccountOptions("SYS", users=(UserOptions("admin", "x"),)),
            AccountOptions("A", users=(UserOptions("a", "x"),), jetstream={"": JetStreamAccountLimits()}),
        )
        async with Cluster(tmp_path, bucket, accounts=accounts) as cluster:
            client = await nats.connect(cluster.servers[1].url, user="a", password="x")
            await client.jetstream().add_stream(name="S", subjects=["s"])
            await client.jetstream().pull_subscribe("s", durable="c")
            operator = await nats.connect(cluster.servers[2].url, user="admin", password="x")
            elected = await operator.subscribe("$JS.EVENT.ADVISORY.*.LEADER_ELECTED.>")
            of_all = await operator.subscribe("$JS.EVENT.ADVISORY.DOMAIN.LEADER_ELECTED")
            await settle(operator)

            await bucket.shards[0].stop()
            await bucket.shards[1].claim()

            event = json.loads((await of_all.next_msg(5)).data)
            assert list(event) == ["type", "id", "timestamp", "leader", "replicas", "cluster"]
            assert event["type"] == "io.nats.jetstream.advisory.v1.domain_leader_elected"
            assert event["cluster"] == "C"
            (leader,) = (each for each in event["replicas"] if each["name"] == "S1")
            assert event["leader"] == leader["peer"]
            told = [json.loads((await elected.next_msg(5)).data) for _ in range(2)]
            assert [(each["account"], each["stream"], each.get("consumer")) for each in told] == [
                ("A", "S", None),
                ("A", "S", "c"),
            ]
            assert [each["leader"] for each in told] == ["S1", "S1"]
            await client.close()
            await operator.close()

    run(work())


def test_a_leader_without_another_server_does_not_step_down(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket, size=1) as cluster:
            (server,) = cluster.servers
            asker = Asker()
            server.start_service(asker, server.accounts[server.accounts.system or ""])
            answer = await asker.ask(b"$JS.API.META.LEADER.STEPDOWN")
            assert answer["error"] == {
                "code": 400,
                "err_code": 10005,
                "description": "no replacement peer connected",
            }
            assert bucket.owner is bucket.shards[0]

    run(work())


class Asker:
    """A service that asks others."""

    def start(self, host: Host) -> None:
        self.host = host
        host.subscribe(b"_INBOX.asker")

    def deliver(self, batch: Sequence[Any]) -> None:
        for message in batch:
            self.answer.set_result(json.loads(message.payload))

    def stop(self) -> None: ...

    async def ask(self, subject: bytes) -> Any:
        self.answer = asyncio.get_running_loop().create_future()
        self.host.publish(subject, b"", reply=b"_INBOX.asker")
        return await self.answer


def test_an_owner_that_is_not_sure_to_be_it_tells_nothing_of_what_it_knows(tmp_path: Path) -> None:
    """Compiled code answers direct gets: they are held back, too."""

    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket, size=1) as cluster:
            client = await nats.connect(cluster.servers[0].url)
            js = client.jetstream()
            await js.add_stream(name="S", subjects=["s"], allow_direct=True)
            await js.publish("s", b"1")
            assert (await client.request("$JS.API.DIRECT.GET.S.s", b"")).data == b"1"

            bucket.shards[0].is_sure = False
            for subject in ("$JS.API.DIRECT.GET.S.s", "$JS.API.STREAM.INFO.S", "s"):
                with pytest.raises(NoRespondersError):
                    await client.request(subject, b"")

            bucket.shards[0].is_sure = True
            assert (await client.request("$JS.API.DIRECT.GET.S.s", b"")).data == b"1"
            assert (await js.stream_info("S")).state.messages == 1
            await client.close()

    run(work())


def test_an_owner_that_may_acknowledge_first_speaks_without_a_proof_for_as_long(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        bucket.lag_allowed_s = 1e9  # with it, a proof of the loop's beginning is enough
        async with Cluster(tmp_path, bucket, size=1) as cluster:
            client = await nats.connect(cluster.servers[0].url)
            js = client.jetstream()
            bucket.shards[0].is_sure = False
            await js.add_stream(name="S", subjects=["s"])
            assert (await js.publish("s", b"1")).seq == 1
            await client.close()

    run(work())


def test_the_owner_is_suspected_when_the_last_connection_to_it_ends(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket) as cluster:
            await cluster.servers[1].stop()
            assert [shard.suspects for shard in bucket.shards] == [0, 0, 0]
            bucket.owner = None  # as if it were gone
            await cluster.servers[0].stop()
            await until(lambda: bucket.shards[2].suspects == 1)
            assert leadership(cluster.servers[2]).leader == ""
            error = "JetStream has not established contact with a meta leader"
            expected = {"status": "unavailable", "error": error}
            assert healthz(ServerMonitor(cluster.servers[2]), {}) == (503, expected)

    run(work())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"{}",
        b"[]",
        b'["X","x",true,1]',
        b'["","x",true,1,2]',
        b'["X","x",1,1,2]',
        b'["X","x",true,-1,2]',
        b'["X","x",true,1,9223372036854775808]',
        b'["X","x",true,1.5,2]',
        b'["X",null,true,1,2]',
        b'["' + b"X" * 257 + b'","x",true,1,2]',
        b"[" * 100_000,
    ],
)
def test_what_is_no_sign_of_life_is_passed_over(tmp_path: Path, payload: bytes) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket, size=2) as cluster:
            before = dict(bucket.shards[0].beats)
            peer = next(host for host in cluster.servers[1].hosts if host.name == "Beats")
            peer.publish(beat_subject(URL), payload)
            peer.publish(beat_subject(URL), b'["X","x",false,3,4]')
            await until(lambda: "X" in bucket.shards[0].beats)
            assert bucket.shards[0].beats == {**before, "X": Beat(False, 3, 4)}

    run(work())


def test_made_up_servers_are_remembered_up_to_a_limit(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket, size=2) as cluster:
            peer = next(host for host in cluster.servers[1].hosts if host.name == "Beats")
            for number in range(2 * MOST_PEERS):
                peer.publish(beat_subject(URL), b'["X%d","x",false,3,4]' % number)
            await until(lambda: f"X{MOST_PEERS - 2}" in bucket.shards[0].beats)
            bucket.shards[1].number = 9
            bucket.shards[1].say()  # who is known goes on being heard
            await until(lambda: Beat(False, 1, 9) in bucket.shards[0].beats.values())
            assert len(leadership(cluster.servers[0]).peers) == MOST_PEERS
            assert len(bucket.shards[0].beats) == MOST_PEERS

    run(work())


def test_only_servers_with_the_same_bucket_are_heard() -> None:
    assert beat_subject("s3://b/p") != beat_subject("s3://b/q")
    assert beat_subject("s3://b/p").isascii()


def test_a_lame_duck_hands_over_if_there_is_another_server(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket, size=2) as cluster:
            client = await nats.connect(cluster.servers[1].url)
            await client.jetstream().add_stream(name="S", subjects=["s"])
            leaving = asyncio.ensure_future(cluster.servers[0].lame_duck())
            await until(lambda: bucket.owner is None)
            await bucket.shards[1].claim()
            await settle(client)
            assert await retried(client.jetstream().publish) == 1
            await leaving
            await client.close()

    run(work())


def test_a_lame_duck_alone_serves_its_clients_to_the_end(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        async with Cluster(tmp_path, bucket, size=1) as cluster:
            (server,) = cluster.servers
            assert server.account_services is not None
            await server.account_services.leave()
            assert bucket.owner is bucket.shards[0]
            await server.stop()
            assert bucket.owner is None

    run(work())


def test_a_bucket_that_cannot_be_read_ends_the_start(tmp_path: Path) -> None:
    async def work() -> None:
        bucket = Bucket()
        bucket.is_broken = True
        with pytest.raises(StartError, match="Can't start JetStream: no answer from the bucket"):
            await Cluster(tmp_path, bucket, size=1).server(0).start()

    run(work())
