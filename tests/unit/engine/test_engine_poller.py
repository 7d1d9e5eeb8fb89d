"""The epoll transport over real sockets: reads, partial writes, ends of every kind, holding and stalling.

No event loop: each test calls `poll` until what it waits for has happened.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from engine_peers import QUIET, Broker

from headrace.engine.reasons import CloseReason

if sys.platform != "linux":
    pytest.skip("epoll is Linux's", allow_module_level=True)

from engine_sockets import SMALL, PolledBroker, read, read_to_end, reset, tcp_pair

from headrace.server.epoll import Poller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_peers import Peer


@pytest.fixture
def polled() -> Iterator[PolledBroker]:
    before = set(os.listdir("/proc/self/fd"))
    broker = PolledBroker()
    yield broker
    broker.stop()
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def small() -> Iterator[PolledBroker]:
    broker = PolledBroker(max_pending=4_000_000, congestion_mark=200_000)
    yield broker
    broker.stop()


# ---- reading and writing ------------------------------------------------------------------------


def test_bytes_of_many_links_are_served(polled: PolledBroker) -> None:
    peers = [polled.connect(QUIET + b"SUB a %d\r\n" % n) for n in range(300)]
    polled.until(lambda: polled.interest.receivers(b"a") == (300, 0))
    assert len(polled.poller) == 300
    peers[0][1].sendall(b"PUB a 1\r\nx\r\n")
    for n, (_, client) in enumerate(peers):
        expected = b"MSG a %d 1\r\nx\r\n" % n
        assert read(polled, client, len(expected)) == expected


def test_large_payload_is_written_as_the_socket_takes_it(polled: PolledBroker) -> None:
    peer, client = polled.connect(QUIET + b"SUB a 1\r\n", buffer=SMALL, max_payload=1 << 22)
    payload = os.urandom(3_000_000)
    publisher, source = polled.connect(max_payload=1 << 22)
    source.setblocking(False)
    data = memoryview(b"PUB a 3000000\r\n" + payload + b"\r\n")

    def sent() -> bool:
        nonlocal data
        with suppress(BlockingIOError):
            data = data[source.send(data) :]
        return not data

    polled.until(sent)
    polled.until(lambda: peer.link.blocked_since is not None)
    assert polled.router.blocked == 1
    expected = b"MSG a 1 3000000\r\n" + payload + b"\r\n"
    assert read(polled, client, len(expected)) == expected
    assert peer.link.blocked_since is None
    assert polled.router.blocked == 0
    assert not publisher.link.is_closing


def test_time_of_the_tick_is_taken(polled: PolledBroker) -> None:
    peer, client = polled.connect()
    client.sendall(b"PING\r\n")
    read(polled, client, 6)
    assert peer.link.last_activity > 0
    assert peer.link.last_written > 0


def test_poll_without_events_returns_at_once(polled: PolledBroker) -> None:
    assert polled.poller.poll() == []
    polled.connect()
    polled.poll()
    assert polled.poller.poll() == []


def test_poller_that_spins_returns_too() -> None:
    broker = Broker()
    poller = Poller(broker.router, 50_000)
    assert poller.poll() == []
    assert poller.fileno() >= 0
    broker.stop()


# ---- ends ---------------------------------------------------------------------------------------


def test_peer_that_closes_ends_its_link(polled: PolledBroker) -> None:
    peer, client = polled.connect(QUIET + b"SUB a 1\r\n")
    polled.until(lambda: peer.link.subscriptions_count)
    client.close()
    polled.until(lambda: peer.link.is_detached)
    assert polled.closed == [peer.link]
    assert peer.reason is CloseReason.CLIENT_CLOSED
    assert polled.interest.receivers(b"a") == (0, 0)


def test_peer_that_closes_after_sending_is_heard_to_its_end(polled: PolledBroker) -> None:
    peer, client = polled.connect()
    client.sendall(b"PUB a 1000\r\n" + b"x" * 1000 + b"\r\n")
    client.sendall(b"PUB a 200000\r\n" + b"x" * 200_000 + b"\r\n")
    client.close()
    polled.until(lambda: peer.link.is_detached)
    assert peer.link.counters[:2] == (2, 201_000)


def test_peer_that_shuts_its_sending_side_still_gets_what_is_waiting(polled: PolledBroker) -> None:
    _, client = polled.connect(QUIET + b"SUB a 1\r\n")
    client.sendall(b"PUB a 5\r\nhello\r\nPING\r\n")
    client.shutdown(socket.SHUT_WR)
    assert read_to_end(polled, client) == b"MSG a 1 5\r\nhello\r\nPONG\r\n"


def test_peer_that_resets_ends_its_link(polled: PolledBroker) -> None:
    peer, client = polled.connect()
    polled.poll()
    reset(client)
    polled.until(lambda: peer.link.is_detached)
    assert peer.reason in (CloseReason.READ_ERROR, CloseReason.CLIENT_CLOSED)


def test_write_to_a_peer_that_reset_ends_its_link(polled: PolledBroker) -> None:
    peer, client = polled.connect(QUIET + b"SUB a 1\r\n")
    polled.until(lambda: peer.link.subscriptions_count)
    reset(client)
    polled.peer().send(b"PUB a 1\r\nx\r\n")
    polled.router.end_tick()
    assert peer.reason in (CloseReason.WRITE_ERROR, CloseReason.NONE)
    polled.until(lambda: peer.link.is_closing)
    assert peer.link.pending == 0


def test_error_text_arrives_before_the_end_though_input_was_not_read(polled: PolledBroker) -> None:
    """The input that is left is thrown away, so that the peer sees a FIN and not a reset."""
    peer, client = polled.connect()
    client.sendall(b"FOO\r\n" + b"x" * 100_000)
    assert read_to_end(polled, client) == b"-ERR 'Unknown Protocol Operation'\r\n"
    assert peer.link.is_detached


def test_link_doomed_with_much_waiting_is_closed_once_it_is_written(polled: PolledBroker) -> None:
    peer, client = polled.connect(QUIET + b"SUB a 1\r\n", buffer=SMALL)
    polled.until(lambda: peer.link.subscriptions_count)
    publisher = polled.peer()
    publisher.link.feed(b"PUB a 900000\r\n" + b"x" * 900_000 + b"\r\n")
    polled.until(lambda: peer.link.blocked_since is not None)
    peer.link.send(b"-ERR 'Stale Connection'\r\n")
    peer.link.doom(CloseReason.STALE_CONNECTION)
    polled.poll()
    assert not peer.link.is_detached
    got = read_to_end(polled, client)
    assert got.endswith(b"x\r\n-ERR 'Stale Connection'\r\n")
    assert len(got) > 900_000
    assert peer.link.is_detached


def test_peer_that_goes_while_it_is_drained_ends_its_link(polled: PolledBroker) -> None:
    peer, client = polled.connect(QUIET + b"SUB a 1\r\n", buffer=SMALL)
    polled.until(lambda: peer.link.subscriptions_count)
    polled.peer().link.feed(b"PUB a 900000\r\n" + b"x" * 900_000 + b"\r\n")
    polled.until(lambda: peer.link.blocked_since is not None)
    peer.link.doom(CloseReason.STALE_CONNECTION)
    polled.poll()
    reset(client)
    polled.until(lambda: peer.link.is_detached)
    assert polled.router.blocked == 0


def test_close_is_safe_more_than_once(polled: PolledBroker) -> None:
    peer, client = polled.connect()
    polled.poll()
    polled.poller.close(peer.link)
    polled.poller.close(peer.link)
    polled.poller.resume(peer.link)
    assert polled.poller.flush(peer.link)
    assert client.recv(1) == b""


def test_closing_link_that_is_not_closed_yet_is_not_read_in_a_loop(polled: PolledBroker) -> None:
    peer, client = polled.connect()
    polled.poll()
    peer.link.doom(CloseReason.STALE_CONNECTION)
    polled.poller.poll()
    polled.poller.flush(peer.link)
    client.sendall(b"PING\r\n")
    assert polled.poller.poll() == []
    assert peer.link.last_written == 0


# ---- holding and stalling -----------------------------------------------------------------------


def test_held_link_is_not_read_until_it_is_resumed(polled: PolledBroker) -> None:
    peer, client = polled.connect(b"")
    peer.session.hooks["connect"] = lambda _text: peer.link.hold()
    client.sendall(QUIET + b"PING\r\n")
    polled.until(lambda: peer.link.is_held)
    client.sendall(b"PING\r\n" * 3)
    for _ in range(10):
        polled.poll()
    assert peer.link.pending == 0
    peer.link.release()
    polled.poller.resume(peer.link)
    assert read(polled, client, 24) == b"PONG\r\n" * 4


def test_held_link_whose_peer_resets_is_ended(polled: PolledBroker) -> None:
    peer, client = polled.connect(b"")
    peer.session.hooks["connect"] = lambda _text: peer.link.hold()
    client.sendall(QUIET)
    polled.until(lambda: peer.link.is_held)
    reset(client)
    polled.until(lambda: peer.link.is_detached)


def congested(broker: PolledBroker) -> tuple[Peer, socket.socket, Peer, socket.socket]:
    """A receiver that does not read, past its congestion mark, and a publisher that is stalled on it."""
    receiver, sink = broker.connect(QUIET + b"SUB a 1\r\n", buffer=SMALL)
    broker.until(lambda: receiver.link.subscriptions_count)
    publisher, source = broker.connect()
    source.setblocking(False)
    frame = b"PUB a 60000\r\n" + b"x" * 60_000 + b"\r\n"
    data = frame

    def stalls() -> bool:
        nonlocal data
        with suppress(BlockingIOError):
            data = data[source.send(data) :] or frame
        return publisher.link.is_stalled

    broker.until(stalls)
    return receiver, sink, publisher, source


def test_stalled_publisher_is_not_read_until_its_time_is_over(small: PolledBroker) -> None:
    _, _, publisher, _ = congested(small)
    assert small.poller.has_stalled
    before = publisher.link.counters[0]
    stalls = publisher.link.counters[4]
    small.until(lambda: publisher.link.counters[4] > stalls or publisher.link.counters[0] > before)


def test_stalled_publisher_is_read_again_when_the_receiver_has_drained(small: PolledBroker) -> None:
    receiver, sink, publisher, _ = congested(small)
    sink.setblocking(False)

    def drained() -> bool:
        with suppress(BlockingIOError):
            sink.recv(1 << 20)
        return not publisher.link.is_stalled and receiver.link.pending == 0

    small.until(drained)
    small.until(lambda: not small.poller.has_stalled)


def test_stalled_publisher_whose_peer_resets_is_ended(small: PolledBroker) -> None:
    _, _, publisher, source = congested(small)
    reset(source)
    small.until(lambda: publisher.link.is_detached)
    assert not small.poller.has_stalled
    assert small.router.stalled == 0


def test_stalled_publisher_that_is_closed_is_forgotten(small: PolledBroker) -> None:
    _, _, publisher, _ = congested(small)
    small.poller.close(publisher.link)
    assert not small.poller.has_stalled


def test_receiver_that_is_closed_releases_the_publisher(small: PolledBroker) -> None:
    receiver, _, publisher, _ = congested(small)
    receiver.link.doom(CloseReason.SLOW_CONSUMER_PENDING_BYTES)
    small.until(lambda: receiver.link.is_detached and not publisher.link.is_stalled)


def test_publisher_that_stalls_while_it_is_released_from_a_hold_is_read_again(small: PolledBroker) -> None:
    """Its publishes came with the CONNECT and were only parsed at the release."""
    receiver, sink, _, _ = congested(small)
    late, source = small.connect(b"")
    late.session.hooks["connect"] = lambda _text: late.link.hold()
    source.sendall(QUIET + b"PUB a 1\r\nx\r\n")
    small.until(lambda: late.link.is_held)
    late.link.configure(
        verbose=False, pedantic=False, echo=True, headers=False, no_responders=False, info_on_ping=False
    )
    late.link.release()
    assert late.link.is_stalled
    small.poller.resume(late.link)
    sink.setblocking(False)
    source.sendall(b"PING\r\n")

    def answered() -> bool:
        with suppress(BlockingIOError):
            sink.recv(1 << 20)
        return late.link.counters[0] == 1 and late.link.last_written > 0

    small.until(answered)
    assert source.recv(6) == b"PONG\r\n"
    assert receiver.link.counters[2] > 0


# ---- sessions that close within a tick ----------------------------------------------------------


def test_session_may_close_sockets_while_their_events_are_served(polled: PolledBroker) -> None:
    """Events of one batch name links that an earlier event of the batch has closed."""
    peers = [polled.connect() for _ in range(40)]
    for _ in range(5):
        polled.poll()

    def close_all() -> None:
        for peer, _ in peers:
            polled.poller.close(peer.link)
            peer.link.detach()

    for peer, client in peers:
        peer.session.hooks["pong"] = close_all
        client.sendall(b"PONG\r\nPUB a 1\r\nx\r\n")
    peers_left = [client for _, client in peers]
    polled._peers.clear()
    polled.until(lambda: len(polled.poller) == 0)
    for client in peers_left:
        assert client.recv(10) == b""


def test_session_that_fails_ends_its_link_only(polled: PolledBroker) -> None:
    peer, client = polled.connect()
    _, other = polled.connect()

    def fail() -> None:
        raise LookupError("mistake")

    peer.session.hooks["pong"] = fail
    client.sendall(b"PONG\r\n")
    other.sendall(b"PING\r\n")
    assert read(polled, other, 6) == b"PONG\r\n"
    polled.until(lambda: peer.link.is_detached)
    assert peer.reason is CloseReason.INTERNAL_ERROR


# ---- descriptors --------------------------------------------------------------------------------


def test_descriptor_that_cannot_be_watched_stays_the_callers(polled: PolledBroker) -> None:
    peer = polled.peer(b"")
    with open(__file__, "rb") as file, pytest.raises(OSError) as caught:
        polled.poller.add(peer.link, file.fileno())
    assert caught.value.errno == errno.EPERM
    assert len(polled.poller) == 0


def test_link_with_a_socket_takes_no_second_one(polled: PolledBroker) -> None:
    peer, _ = polled.connect()
    client, served = tcp_pair()
    with client, served, pytest.raises(ValueError, match="one socket"):
        polled.poller.add(peer.link, served.fileno())


def test_poller_that_is_dropped_closes_its_sockets() -> None:
    before = set(os.listdir("/proc/self/fd"))
    broker = PolledBroker()
    clients = [broker.connect()[1] for _ in range(5)]
    broker.poll()
    broker._clients.clear()
    vars(broker).pop("poller")
    for client in clients:
        assert client.recv(1) == b""
        client.close()
    Broker.stop(broker)
    assert set(os.listdir("/proc/self/fd")) == before


# ---- accepting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_accepted_connection_comes_with_the_address_of_its_peer(
    family: socket.AddressFamily, host: str
) -> None:
    poller = Poller(Broker().router)
    with socket.create_server((host, 0), family=family) as listening:
        listening.setblocking(False)
        assert poller.accept(listening.fileno()) is None
        with socket.create_connection(listening.getsockname()[:2]) as client:
            accepted = poller.accept(listening.fileno())
            assert accepted is not None
            number, address, port = accepted
            assert (address, port) == client.getsockname()[:2]
            with socket.socket(fileno=number) as served:
                assert not os.get_blocking(number)
                assert not os.get_inheritable(number)
                assert served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                client.sendall(b"x")
                assert served.recv(1) == b"x"
        assert poller.accept(listening.fileno()) is None


def test_address_of_a_socket_for_both_protocols_is_as_python_writes_it() -> None:
    poller = Poller(Broker().router)
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
        address = ("127.0.0.1", listening.getsockname()[1])
        with socket.create_connection(address) as one, socket.create_connection(address) as other:
            accepted = poller.accept(listening.fileno())
            assert accepted is not None
            os.close(accepted[0])
            served, expected = listening.accept()
            served.close()
            assert accepted[1] == expected[0] == "::ffff:127.0.0.1"
            assert {accepted[2], expected[1]} == {one.getsockname()[1], other.getsockname()[1]}


def test_peer_that_is_gone_before_it_is_accepted_is_a_link_that_ends(polled: PolledBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        reset(socket.create_connection(listening.getsockname()))
        accepted = polled.poller.accept(listening.fileno())
    assert accepted is not None
    peer = polled.peer(b"")
    polled.poller.add(peer.link, accepted[0])
    polled.until(lambda: peer.link.is_detached)
    assert peer.reason in (CloseReason.READ_ERROR, CloseReason.CLIENT_CLOSED)


def test_descriptor_that_does_not_listen_is_an_error(polled: PolledBroker) -> None:
    client, served = tcp_pair()
    with client, served, pytest.raises(OSError) as caught:
        polled.poller.accept(served.fileno())
    assert caught.value.errno == errno.EINVAL
    assert caught.value.strerror == os.strerror(errno.EINVAL)


class Watching:
    """Hears of a descriptor."""

    def __init__(self, mistake: Exception | None = None) -> None:
        self.calls = 0
        self.failures: list[Exception] = []
        self._mistake = mistake

    def ready(self) -> None:
        self.calls += 1
        if self._mistake is not None:
            raise self._mistake

    def failed(self, error: Exception) -> None:
        self.failures.append(error)


def test_watched_descriptor_is_told_of_until_it_is_not_watched(polled: PolledBroker) -> None:
    watching = Watching()
    peer, client = polled.connect()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        polled.poller.watch(listening.fileno(), watching)
        polled.poll()
        assert watching.calls == 0
        with socket.create_connection(listening.getsockname()):
            polled.until(lambda: watching.calls)
            client.sendall(b"PING\r\n")
            assert read(polled, client, 6) == b"PONG\r\n"  # links are served beside it
            assert len(polled.poller) == 1
            polled.poller.unwatch(listening.fileno())
            before = watching.calls
            polled.poll()
            assert watching.calls == before
        polled.poller.unwatch(listening.fileno())  # again: nothing happens
        polled.poller.watch(listening.fileno(), watching)
        with pytest.raises(OSError, match="exists"):
            polled.poller.watch(listening.fileno(), watching)
        polled.poller.unwatch(listening.fileno())
    assert not peer.link.is_closing


def test_mistake_of_who_watches_goes_to_it_and_nobody_else(polled: PolledBroker) -> None:
    mistake = RuntimeError("ours")
    watching = Watching(mistake)
    peer, client = polled.connect()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        polled.poller.watch(listening.fileno(), watching)
        with socket.create_connection(listening.getsockname()):
            polled.until(lambda: watching.failures)
            client.sendall(b"PING\r\n")
            assert read(polled, client, 6) == b"PONG\r\n"
        polled.poller.unwatch(listening.fileno())
    assert set(watching.failures) == {mistake}
    assert not peer.link.is_closing


def test_who_is_given_up_by_another_event_of_the_tick_hears_nothing(polled: PolledBroker) -> None:
    class Jealous(Watching):
        def ready(self) -> None:
            super().ready()
            for number in numbers:
                polled.poller.unwatch(number)

    watchers = [Jealous(), Jealous()]
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
        socket.create_connection(first.getsockname()),
        socket.create_connection(second.getsockname()),
    ):
        numbers = [first.fileno(), second.fileno()]
        for number, watcher in zip(numbers, watchers, strict=True):
            polled.poller.watch(number, watcher)
        polled.until(lambda: any(watcher.calls for watcher in watchers))
        polled.poll()
    assert sum(watcher.calls for watcher in watchers) == 1
