"""Servers that have the channels one after another: nothing of one tenure is told or done after its end.

The servers share a bucket that has what was committed, and nothing else: a directory of files. Each tenure
begins with a copy of it.
"""

from __future__ import annotations

import itertools
import logging
import shutil
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from stan_harness import DISCOVER, HeldCommitter, ManualHost, World

from headrace.conf.bucket_options import BucketOptions
from headrace.conf.streaming_options import StreamingOptions
from headrace.errors import StartError, StorageError
from headrace.log.port import SyncPolicy
from headrace.log.store import FileStore, MemoryStore
from headrace.protocol.stan import ConnectRequest, CtrlMsg, CtrlType, StartPosition
from headrace.streaming.beats import StreamingBeats, beat_subject
from headrace.streaming.service import StreamingService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.errors import StorageError as Error
    from headrace.log.port import MessageLog

OPTIONS = StreamingOptions(store_type="FILE", directory="local", bucket=BucketOptions(url="file:///bucket"))
ACK_WAIT_S = 5
REPLAY = b"_STAN.replay.test-cluster"


class BucketCommits(HeldCommitter):
    """Copies all files into the bucket, then tells; while it is held, everybody waits."""

    def __init__(self, local: Path, bucket: Path) -> None:
        super().__init__()
        self.is_held = False
        self._local = local
        self._bucket = bucket

    def request(self, log: MessageLog, done: Callable[[Error | None], None]) -> None:
        super().request(log, done)
        if not self.is_held:
            self.commit()

    def commit(self, error: Error | None = None, *, only: MessageLog | None = None) -> None:
        if error is None:
            shutil.rmtree(self._bucket)
            shutil.copytree(self._local, self._bucket)
        super().commit(error, only=only)


class Servers(World):
    """Two servers; `world.service` is the one that had the channels last, and clients speak to."""

    committer: BucketCommits

    def __init__(self, directory: Path, options: StreamingOptions = OPTIONS) -> None:
        self._directory = directory
        self._bucket = directory / "bucket"
        self._bucket.mkdir()
        self._tenures = itertools.count(1)
        self.stores: list[FileStore] = []
        super().__init__(options)
        self._servers = [(self.service, self.host), (self._new_service(), ManualHost())]
        self._servers[1][0].start(self._servers[1][1])

    def _new_service(self) -> StreamingService:
        return StreamingService(
            self.options,
            None,
            logging.getLogger("headrace.test.streaming"),
            on_conflict=self.conflicts.append,
        )

    def promote(self, number: int) -> None:
        """Have a server take over: it has what was committed, wherever the others are."""
        now = self.host.now
        self.service, self.host = self._servers[number]
        self.host.now = now
        self._seen = len(self.host.published)
        local = self._directory / f"tenure-{next(self._tenures)}"
        shutil.copytree(self._bucket, local)
        self.committer = BucketCommits(local, self._bucket)
        store = FileStore(local, clock=lambda: self.host.now, sync=SyncPolicy.NEVER)
        self.stores.append(store)
        self.service.promote(store, self.committer)
        self.settle()

    def fail_over(self) -> None:
        """Have the other server take over from one that is lost at once."""
        self.service.abandon()
        self.promote(1 if self.service is self._servers[0][0] else 0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Servers]:
    world = Servers(tmp_path)
    yield world
    for store in world.stores:
        store.close()


def state(world: World) -> str:
    return world.service.snapshot_server().state


def hold(world: Servers, *bodies: bytes) -> bytes:
    """Publish while no commit ends; return the subject of the acknowledgements."""
    world.committer.is_held = True
    reply = world.name("ack")
    world.publish_to(b"foo", reply, *bodies)
    world.settle()
    assert world.take(reply) == []
    return reply


def test_a_server_without_channels_answers_nobody(world: Servers) -> None:
    assert state(world) == "FT_STANDBY"
    assert world.host.subscriptions == {}
    assert not world.host.receive(DISCOVER, ConnectRequest(b"me", b"hb").encode(), b"reply")
    assert (world.service.channel_names(), world.service.snapshot_clients()) == ([], [])
    assert world.service.stored() is None


def test_a_server_can_have_the_channels_any_number_of_times(world: Servers) -> None:
    world.promote(0)
    world.connect()
    for number in range(5):
        assert state(world) == "FT_ACTIVE"
        assert world.publish(b"foo", b"%d" % number) == [b""]
        before, host = world.service, world.host
        world.fail_over()
        assert (before.snapshot_server().state, host.subscriptions) == ("FT_STANDBY", {})
    sub = world.subscribe(b"foo", start=StartPosition.FIRST)
    assert [message.data for message in world.received(sub)] == [b"0", b"1", b"2", b"3", b"4"]


def lines_of(world: World, caplog: pytest.LogCaptureFixture, run: Callable[[], object]) -> list[str]:
    """What the log says meanwhile, without what every recovery says."""
    caplog.clear()
    run()
    said = [line.removeprefix("STREAM: ") for line in caplog.messages]
    return [line for line in said if "server" in line.lower() or "action" in line or "Node" in line]


def test_the_log_says_who_has_the_channels(world: Servers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert lines_of(world, caplog, lambda: world.promote(0)) == [
        "Server is active",
        "Streaming Server is ready",
    ]
    assert lines_of(world, caplog, world.service.abandon) == ["Server is in standby mode"]
    world.promote(0)
    assert lines_of(world, caplog, lambda: world.service.retire(lambda: None)) == [
        "Server is in standby mode"
    ]
    assert lines_of(world, caplog, world.service.abandon) == []


@pytest.mark.parametrize("node_id", ["a", ""])
def test_a_cluster_says_it_in_the_words_of_raft(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, node_id: str
) -> None:
    caplog.set_level(logging.INFO)
    options = replace(OPTIONS, clustered=True, node_id=node_id)
    world = Servers(tmp_path, options)
    name = node_id or world.service.server_id

    def shown() -> tuple[str, str, str]:
        server = world.service.snapshot_server()
        return server.state, server.role, server.node_id

    assert f"STREAM: Cluster Node ID : {name}" in caplog.messages
    assert shown() == ("CLUSTERED", "Follower", name)
    assert lines_of(world, caplog, lambda: world.promote(0)) == [
        "server became leader, performing leader promotion actions",
        "Streaming Server is ready",
        "finished leader promotion actions",
    ]
    assert shown() == ("CLUSTERED", "Leader", name)
    assert lines_of(world, caplog, world.service.abandon) == [
        "server lost leadership, performing leader stepdown actions",
        "finished leader stepdown actions",
    ]
    assert shown() == ("CLUSTERED", "Follower", name)
    world.service.stop()
    assert shown() == ("SHUTDOWN", "", name)
    for store in world.stores:
        store.close()


def test_who_waits_for_a_commit_is_told_nothing_once_the_channels_are_lost(world: Servers) -> None:
    world.promote(0)
    world.connect()
    sub = world.subscribe(b"foo")
    reply = hold(world, b"x")
    lost = world.committer
    said = len(world.host.published)

    world.service.abandon()
    lost.commit()
    world.advance(60)

    assert len(world.host.published) == said
    assert (world.take(reply), world.received(sub)) == ([], [])


def test_who_waits_is_told_of_no_error_either(world: Servers) -> None:
    world.promote(0)
    world.connect()
    reply = hold(world, b"x")

    world.service.abandon()
    world.committer.commit(StorageError("the shard is lost"))

    assert world.take(reply) == []


def test_a_publisher_that_was_not_answered_publishes_again(world: Servers) -> None:
    world.promote(0)
    world.connect()
    world.publish(b"foo", b"a")
    hold(world, b"b")

    world.fail_over()

    assert world.publish(b"foo", b"b") == [b""]
    sub = world.subscribe(b"foo", start=StartPosition.FIRST)
    assert [message.data for message in world.received(sub)] == [b"a", b"b"]


def test_requests_that_were_not_served_yet_go_nowhere(world: Servers) -> None:
    world.promote(0)
    world.connect()
    reply = world.name("ack")
    world.publish_to(b"foo", reply, b"x")

    world.service.abandon()
    world.settle()

    assert world.take(reply) == []


def test_clients_and_their_subscriptions_go_on_at_the_next_server(world: Servers) -> None:
    world.promote(0)
    world.connect()
    sub = world.subscribe(b"foo")

    world.fail_over()

    assert world.ping(b"me").error == b""
    world.publish(b"foo", b"x")
    assert world.sequences(sub) == [1]
    world.ack(sub, 1)
    assert world.pending(sub) == 0


def test_unacknowledged_messages_are_sent_again_by_the_next_server(world: Servers) -> None:
    world.promote(0)
    world.connect()
    sub = world.subscribe(b"foo", durable=b"d", ack_wait=ACK_WAIT_S)
    world.publish(b"foo", b"a", b"b", b"c")
    assert world.sequences(sub) == [1, 2, 3]
    world.ack(sub, 2)
    world.publish(b"bar", b"this commits what came before")

    world.fail_over()
    world.advance(ACK_WAIT_S + 1)

    again = world.received(sub)
    assert [(message.sequence, message.redelivered) for message in again] == [(1, True), (3, True)]
    world.ack(sub, 1, 3)
    world.advance(10 * ACK_WAIT_S)
    assert world.sequences(sub) == []


def test_a_queue_group_goes_on_at_the_next_server(world: Servers) -> None:
    world.promote(0)
    for client in (b"one", b"two"):
        world.connect(client)
    members = [
        world.subscribe(b"foo", client_id=client, queue=b"q", durable=b"d", ack_wait=ACK_WAIT_S)
        for client in (b"one", b"two")
    ]
    world.publish(b"foo", *(b"%d" % number for number in range(6)), client_id=b"one")
    sent = [world.sequences(member) for member in members]
    assert sorted(itertools.chain(*sent)) == [1, 2, 3, 4, 5, 6]

    world.fail_over()
    world.advance(ACK_WAIT_S + 1)
    world.publish(b"foo", b"new", client_id=b"one")

    got = [world.sequences(member) for member in members]
    assert set(itertools.chain(*got)) == {1, 2, 3, 4, 5, 6, 7}
    for member, sequences in zip(members, got, strict=True):
        world.ack(member, *sequences)
    assert [world.pending(member) for member in members] == [0, 0]


def test_an_offline_durable_comes_back_at_the_next_server(world: Servers) -> None:
    world.promote(0)
    world.connect()
    sub = world.subscribe(b"foo", durable=b"d")
    world.publish(b"foo", b"a")
    world.ack(sub, 1)
    assert world.close_sub(sub) == b""
    world.publish(b"foo", b"b")

    world.fail_over()

    assert world.sequences(world.subscribe(b"foo", durable=b"d")) == [2]


def test_heartbeats_are_sent_by_who_has_the_channels(world: Servers) -> None:
    world.promote(0)
    world.connect()
    first, said = world.host, len(world.host.published)
    world.fail_over()
    world.take(b"_HB.me")

    world.advance(OPTIONS.hb_interval * 3 + 1)

    assert len(world.take(b"_HB.me")) == 3
    first_service = world._servers[0][0]
    world.service.abandon()
    while (function := first.next_timer(world.host.now)) is not None:  # those of the tenure that ended
        function()
    assert (len(first.published), first_service.snapshot_server().state) == (said, "FT_STANDBY")


def test_whoever_retires_answers_all_that_it_took_and_takes_no_more(world: Servers) -> None:
    world.promote(0)
    world.connect()
    sub = world.subscribe(b"foo")
    reply = hold(world, b"x", b"y")
    ended: list[str] = []

    world.service.retire(lambda: ended.append(state(world)))

    assert not world.host.receive(DISCOVER, ConnectRequest(b"other", b"hb").encode(), b"reply")
    assert (ended, state(world)) == ([], "FT_ACTIVE")
    world.committer.commit()
    assert ended == ["FT_STANDBY"]
    assert (len(world.take(reply)), world.sequences(sub)) == (2, [1, 2])
    assert world.host.subscriptions == {}
    world.promote(1)
    shown = world.service.snapshot_channel("foo")
    assert shown is not None
    assert shown.last_seq == 2


def test_commits_that_fail_while_it_retires_are_told_and_end_it_too(world: Servers) -> None:
    world.promote(0)
    world.connect()
    reply = hold(world, b"x")
    ended: list[bool] = []
    world.service.retire(lambda: ended.append(True))

    world.committer.commit(StorageError("the bucket does not answer"))

    assert ended == [True]
    (answer,) = world.take(reply)
    assert b"the bucket does not answer" in answer


def test_a_shard_that_is_lost_while_it_retires_ends_it_at_once(world: Servers) -> None:
    world.promote(0)
    world.connect()
    reply = hold(world, b"x")
    ended: list[bool] = []
    world.service.retire(lambda: ended.append(True))

    world.service.abandon()
    world.committer.commit()

    assert (ended, world.take(reply), state(world)) == ([True], [], "FT_STANDBY")


def test_without_channels_there_is_nothing_to_end(world: Servers) -> None:
    ended: list[bool] = []
    world.service.abandon()
    world.service.retire(lambda: ended.append(True))
    assert (ended, state(world)) == ([True], "FT_STANDBY")


def test_servers_tell_each_other_that_they_live(world: Servers) -> None:
    heard: list[tuple[bytes, str]] = []
    service = StreamingService(OPTIONS, None, logging.getLogger("headrace.test.streaming"))
    service.beats = beats = StreamingBeats(OPTIONS, service.server_id, lambda *beat: heard.append(beat))
    beats.tell(b"before the start")
    host = ManualHost()
    service.start(host)
    (subject,) = host.subscriptions.values()
    assert subject == b"_STAN.ft.test-cluster.bucket"

    beats.tell(b"mine")
    (told,) = [payload for at, _, payload in host.published if at == subject]
    others = CtrlMsg(CtrlType.FT_HEARTBEAT, b"other", b"data")
    for payload in (told, others.encode(), b"\xff", CtrlMsg(CtrlType.PARTITIONING, b"other").encode()):
        host.receive(subject, payload)
    service.deliver(host.take_incoming())

    assert heard == [(b"data", "other")]
    assert CtrlMsg.decode(told) == CtrlMsg(CtrlType.FT_HEARTBEAT, service.server_id.encode(), b"mine")
    service.stop()
    beats.tell(b"after the end")
    assert (len(host.published), host.subscriptions) == (1, {})


def test_a_group_by_name_has_beats_of_its_own() -> None:
    assert beat_subject(replace(OPTIONS, ft_group="g")) == b"_STAN.ft.test-cluster.g"


@pytest.mark.parametrize("has_channels", [True, False])
def test_a_stop_ends_it_in_any_state(world: Servers, has_channels: bool) -> None:
    if has_channels:
        world.promote(0)
    world.service.stop()
    world.service.stop()
    assert (state(world), world.host.subscriptions) == ("SHUTDOWN", {})


def test_a_store_of_another_cluster_is_refused_and_a_good_one_taken_later(world: Servers) -> None:
    other = MemoryStore()
    World(StreamingOptions(cluster_id="another"), store=other).service.stop()

    with pytest.raises(StartError, match="does not match recovered value"):
        world.service.promote(other, HeldCommitter())

    assert (state(world), world.host.subscriptions) == ("FT_STANDBY", {})
    world.promote(0)
    assert state(world) == "FT_ACTIVE"


@pytest.mark.parametrize("in_order", [True, False])
def test_replays_under_way_end(world: Servers, in_order: bool) -> None:
    world.promote(0)
    world.connect()
    world.publish(b"foo", b"x")
    world.host.unread[b"in"] = 1 << 30
    world.send(REPLAY, b'{"channel":"foo"}', b"in")
    world.settle()

    if in_order:
        world.service.retire(lambda: None)
    else:
        world.service.abandon()

    statuses = [headers for subject, headers, _ in world.host.headed if subject == b"in"]
    assert [b"409 Server Shutdown" in one for one in statuses] == ([True] if in_order else [])
