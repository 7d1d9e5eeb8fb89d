"""Receivers that do not drain: congestion, stalled publishers, slow consumers; and transports that write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_peers import QUIET, Broker

from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_peers import Peer

KB = b"PUB a 1000\r\n" + b"x" * 1000 + b"\r\n"
FRAME = len(KB) + 2  # MSG a 1 1000
STALL_NS = 10_000_000


@pytest.fixture
def small() -> Iterator[Broker]:
    """A broker with a congestion mark of 10,000 and 40,000 pending bytes at most."""
    broker = Broker(max_pending=40_000, congestion_mark=10_000)
    yield broker
    broker.stop()


@pytest.fixture
def dropping() -> Iterator[Broker]:
    broker = Broker(max_pending=40_000, drops_when_congested=True)
    yield broker
    broker.stop()


def pair(broker: Broker) -> tuple[Peer, Peer]:
    """A publisher and a subscriber to `a`."""
    return broker.peer(), broker.peer(QUIET + b"SUB a 1\r\n")


def congest(publisher: Peer, receiver: Peer) -> None:
    """Fills the receiver until a delivery stalls the publisher."""
    for _ in range(60):
        publisher.link.feed(KB)
        receiver.link.report_blocked()
        if publisher.link.is_stalled:
            return
    raise AssertionError("the publisher was never stalled")


# ---- stall and release --------------------------------------------------------------------------


def test_publisher_to_a_congested_receiver_is_stalled(small: Broker) -> None:
    publisher, receiver = pair(small)
    congest(publisher, receiver)
    assert small.router.stalled == 1
    assert small.router.statistics()["stalls"] == 1
    assert publisher.link.counters[4] == 1
    assert not publisher.link.release_if_drained()


def test_stalled_publisher_is_released_when_half_is_drained(small: Broker) -> None:
    publisher, receiver = pair(small)
    congest(publisher, receiver)
    while receiver.link.pending > 5_000:
        assert not publisher.link.release_if_drained()
        receiver.link.take(1_000)
    assert publisher.link.release_if_drained()
    assert not publisher.link.is_stalled
    assert small.router.stalled == 0


def test_stalled_publisher_is_released_when_its_time_is_over(small: Broker) -> None:
    publisher, receiver = pair(small)
    small.router.now = 1_000
    congest(publisher, receiver)
    small.router.now = 1_000 + STALL_NS - 1
    assert not publisher.link.release_if_drained()
    small.router.now += 1
    assert publisher.link.release_if_drained()
    publisher.link.feed(KB)
    assert publisher.link.is_stalled


@pytest.mark.parametrize("end", ["doom", "detach", "drop"])
def test_stalled_publisher_is_released_when_the_receiver_ends(small: Broker, end: str) -> None:
    publisher, receiver = pair(small)
    congest(publisher, receiver)
    link = receiver.link
    if end == "doom":
        link.doom(CloseReason.CLIENT_CLOSED)
    else:
        link.detach()
    if end == "drop":
        small._peers.remove(receiver)
        del receiver, link
    assert publisher.link.release_if_drained()
    assert small.router.stalled == 0


@pytest.mark.parametrize("detach", [True, False])
def test_stalled_publisher_that_ends_lets_go_of_the_receiver(small: Broker, detach: bool) -> None:
    publisher, receiver = pair(small)
    congest(publisher, receiver)
    if detach:
        publisher.link.detach()
    publisher.session.link = None  # type: ignore[assignment]
    small._peers.remove(publisher)
    del publisher
    assert small.router.stalled == 0
    receiver.link.detach()


def test_publisher_to_itself_may_stall_itself(small: Broker) -> None:
    peer = small.peer(QUIET + b"SUB a 1\r\n")
    congest(peer, peer)
    assert not peer.link.release_if_drained()
    peer.link.take()
    assert peer.link.release_if_drained()


def test_publishers_to_each_other_are_both_released_in_time(small: Broker) -> None:
    one, two = small.peer(QUIET + b"SUB a 1\r\n"), small.peer(QUIET + b"SUB a 1\r\n")
    congest(one, two)
    two.link.feed(KB)
    assert small.router.stalled == 2
    small.router.now += STALL_NS
    assert one.link.release_if_drained()
    assert two.link.release_if_drained()
    assert small.router.stalled == 0


def test_many_publishers_stalled_on_one_receiver_are_all_released(small: Broker) -> None:
    receiver = small.peer(QUIET + b"SUB a 1\r\n")
    publishers = [small.peer() for _ in range(15)]
    congest(publishers[0], receiver)
    for publisher in publishers[1:]:
        publisher.link.feed(KB)
        assert publisher.link.is_stalled
    receiver.link.take()
    assert all(publisher.link.release_if_drained() for publisher in publishers)


# ---- slow consumers -----------------------------------------------------------------------------


def test_receiver_past_max_pending_is_cut_off_and_the_others_go_on(small: Broker) -> None:
    publisher, slow = pair(small)
    other = small.peer(QUIET + b"SUB a 1\r\n")
    for _ in range(60):
        publisher.link.feed(KB)
        other.link.take()
    assert slow.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
    assert slow.link.pending <= 40_000
    assert slow.link.pending > 40_000 - FRAME
    assert not other.link.is_closing
    assert other.link.counters[2] == 60
    assert small.router.statistics()["slow_consumers"] == 1
    assert small.router.end_tick() == [slow.link]


def test_one_message_larger_than_max_pending_cuts_the_receiver_off(small: Broker) -> None:
    publisher, slow = pair(small)
    publisher.send(b"PUB a 50000\r\n" + b"x" * 50_000 + b"\r\nPING\r\n")
    assert slow.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
    assert publisher.received() == b"PONG\r\n"


@pytest.mark.parametrize("rest", [0, 1])
def test_max_pending_is_exact(small: Broker, rest: int) -> None:
    publisher, receiver = pair(small)
    size = 40_000 - len(b"MSG a 1 39980\r\n\r\n") + rest
    publisher.send(b"PUB a %d\r\n" % size + b"x" * size + b"\r\n")
    assert receiver.link.is_closing is bool(rest)


def test_control_bytes_past_max_pending_cut_off_too(small: Broker) -> None:
    peer = small.peer()
    for _ in range(60_000 // 1200):
        peer.link.feed(b"PING\r\n" * 200)
    assert peer.reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES
    assert peer.link.pending <= 40_000


def test_slow_queue_member_is_skipped_once_it_is_cut_off(small: Broker) -> None:
    publisher, slow = small.peer(), small.peer(QUIET + b"SUB a q 1\r\n")
    other = small.peer(QUIET + b"SUB a q 1\r\n")
    for _ in range(300):
        publisher.link.feed(KB)
        other.link.take()
    assert slow.link.is_closing
    assert slow.link.counters[2] + other.link.counters[2] == 300


def test_receiver_that_drains_a_little_at_a_time_loses_nothing(small: Broker) -> None:
    publisher, receiver = pair(small)
    got = bytearray()
    for n in range(500):
        size = n * 37 % 1500
        publisher.link.feed(b"PUB a %d\r\n%b\r\n" % (size, bytes([n % 251]) * size))
        got += receiver.link.take(900)
    while receiver.link.pending:
        got += receiver.link.take(333)
    expected = b"".join(
        b"MSG a 1 %d\r\n%b\r\n" % (n * 37 % 1500, bytes([n % 251]) * (n * 37 % 1500)) for n in range(500)
    )
    assert not receiver.link.is_closing
    assert bytes(got) == expected


# ---- drops when congested -----------------------------------------------------------------------


def test_congested_receiver_is_skipped_when_configured_to_drop(dropping: Broker) -> None:
    publisher, receiver = pair(dropping)
    for _ in range(100):
        publisher.link.feed(KB)
    assert not publisher.link.is_stalled
    assert not receiver.link.is_closing
    assert 30_000 <= receiver.link.pending <= 40_000
    delivered = receiver.link.counters[2]
    receiver.link.take()
    publisher.link.feed(KB)
    assert receiver.link.counters[2] == delivered + 1


# ---- writers ------------------------------------------------------------------------------------


class Writer:
    """A transport as those written in Python are: takes when it is told to, unless it is full."""

    def __init__(self, peer: Peer) -> None:
        self.link = peer.link
        self.written = bytearray()
        self.calls = 0
        self.is_full = False
        peer.link.use_writer(self)

    def __call__(self) -> None:
        self.calls += 1
        if self.is_full:
            self.link.report_blocked()
        else:
            self.written += self.link.take()


def test_writer_is_called_once_at_the_end_of_the_tick(plain_broker: Broker) -> None:
    publisher, receiver = pair(plain_broker)
    writer = Writer(receiver)
    publisher.link.feed(b"PUB a 1\r\nx\r\n" * 10)
    assert writer.calls == 0
    plain_broker.end_tick()
    assert writer.calls == 1
    assert bytes(writer.written) == b"MSG a 1 1\r\nx\r\n" * 10
    plain_broker.end_tick()
    assert writer.calls == 1


def test_writer_is_called_early_once_much_is_waiting(plain_broker: Broker) -> None:
    publisher, receiver = pair(plain_broker)
    writer = Writer(receiver)
    publisher.link.feed(KB * 4000)  # an outbox may have got a spare block, four times what it asked for
    assert writer.calls >= 5
    plain_broker.end_tick()
    assert bytes(writer.written) == b"MSG a 1 1000\r\n%b\r\n" % (b"x" * 1000) * 4000


@pytest.mark.parametrize("times", [1, 2])
def test_what_one_read_makes_is_written_at_once(plain_broker: Broker, times: int) -> None:
    publisher, receiver = pair(plain_broker)
    writer = Writer(receiver)
    for calls in range(times):
        publisher.link.feed(b"PUB a 1\r\nx\r\n" * 5000)
        assert writer.calls == calls
        plain_broker.end_tick()
    assert writer.calls == times


def test_the_front_of_a_long_run_is_written_while_the_rest_is_made(plain_broker: Broker) -> None:
    publisher, receiver = pair(plain_broker)
    writer = Writer(receiver)
    seen = 0
    for _ in range(1000):
        publisher.link.feed(KB)
        part, seen = len(writer.written) - seen, len(writer.written)
        assert part == 0 or 65_536 <= part <= 98_304
    assert writer.calls >= 1000 * FRAME // 98_304


def test_blocked_writer_is_not_called_early_again(plain_broker: Broker) -> None:
    publisher, receiver = pair(plain_broker)
    writer = Writer(receiver)
    writer.is_full = True
    plain_broker.router.now = 7
    publisher.link.feed(KB * 300)
    plain_broker.end_tick()
    assert receiver.link.blocked_since == 7
    assert plain_broker.router.blocked == 1
    calls = writer.calls
    publisher.link.feed(KB * 300)
    assert writer.calls == calls
    writer.is_full = False
    writer()
    assert receiver.link.blocked_since is None
    assert plain_broker.router.blocked == 0


def test_writer_that_raises_ends_its_link_only(plain_broker: Broker) -> None:
    publisher, receiver = pair(plain_broker)
    other = plain_broker.peer(QUIET + b"SUB a 1\r\n")

    def fail() -> None:
        raise OSError("no transport")

    receiver.link.use_writer(fail)
    publisher.link.feed(b"PUB a 1\r\nx\r\n")
    plain_broker.end_tick()
    assert isinstance(receiver.session.called("failed")[0][0], OSError)
    assert receiver.link.is_closing
    assert other.received() == b"MSG a 1 1\r\nx\r\n"


def test_writer_that_detaches_its_link_and_raises_is_reported(plain_broker: Broker) -> None:
    peer = plain_broker.peer()

    def fail() -> None:
        peer.link.detach()
        raise OSError("no transport")

    peer.link.use_writer(fail)
    peer.link.send(b"PING\r\n")
    plain_broker.end_tick()
    assert isinstance(peer.session.called("failed")[0][0], OSError)


def test_writers_may_detach_each_other_at_the_end_of_the_tick(plain_broker: Broker) -> None:
    peers = [plain_broker.peer(QUIET + b"SUB a 1\r\n") for _ in range(4)]

    def detach_all() -> None:
        for peer in peers:
            peer.link.detach()

    for peer in peers:
        peer.link.use_writer(detach_all)
    plain_broker.peer().send(b"PUB a 1\r\nx\r\n")
    plain_broker.end_tick()
    assert all(peer.link.is_detached for peer in peers)


def test_writer_that_sends_when_it_is_called_is_called_again(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    written: list[bytes] = []

    def write() -> None:
        written.append(peer.link.take())
        if len(written) < 3:
            peer.link.send(b"PING\r\n")

    peer.link.use_writer(write)
    peer.link.send(b"PONG\r\n")
    plain_broker.end_tick()
    assert written == [b"PONG\r\n", b"PING\r\n", b"PING\r\n"]


def test_writer_ends_the_block_only_when_what_was_waiting_has_gone(plain_broker: Broker) -> None:
    """Progress on a block renews its time only once all that waited when it began was written."""
    publisher, receiver = pair(plain_broker)
    plain_broker.router.now = 1
    publisher.link.feed(KB)
    receiver.link.report_blocked()
    plain_broker.router.now = 2
    receiver.link.take(100)
    assert receiver.link.blocked_since == 1
    publisher.link.feed(KB)
    receiver.link.take(FRAME - 100 + 10)
    assert receiver.link.blocked_since == 2


def test_time_of_last_write_is_that_of_bytes_written(plain_broker: Broker) -> None:
    peer = plain_broker.peer()
    peer.send(b"PING\r\n")
    plain_broker.router.now = 5
    peer.link.report_blocked()
    assert peer.link.last_written == 0
    peer.link.take()
    assert peer.link.last_written == 5


def test_discard_empties_the_outbox(plain_broker: Broker) -> None:
    peer = plain_broker.peer(b"PING\r\n" * 1000)
    peer.link.report_blocked()
    peer.link.discard()
    assert (peer.link.pending, peer.received(), plain_broker.router.blocked) == (0, b"", 0)


def test_send_of_nothing_is_taken(plain_broker: Broker) -> None:
    peer = plain_broker.peer(b"")
    assert peer.link.send(b"")
    assert peer.received() == b""
