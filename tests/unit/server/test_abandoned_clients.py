"""STAN clients whose connections end without a word: what is kept of them, for how long, and that it goes."""

from __future__ import annotations

import gc
import socket
from collections import Counter
from typing import IO, TYPE_CHECKING, Final

import pytest

from harness.waiting import wait_until
from headrace.conf.streaming_options import StreamingOptions
from headrace.engine.memory import live_objects
from headrace.protocol.stan import ConnectRequest, ConnectResponse, SubscriptionRequest, SubscriptionResponse
from headrace.streaming.service import StreamingService
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

CROWD: Final = 50
MOST_OBJECTS: Final = 36
"""That the collector sees, of one client with one subscription, kept because it may come back."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A client is given up after two heartbeats, which are waited for so long that no test could wait."""
    options = StreamingOptions(hb_interval=0.3, hb_timeout=600, hb_fail_count=1)
    with Server(streaming=options) as running:
        yield running


def abandon(server: Server, name: bytes) -> None:
    """A client connects, subscribes and is gone."""
    with socket.create_connection(("127.0.0.1", server.port)) as wire, wire.makefile("rb") as lines:
        answers = _answers(lines)
        wire.sendall(b"CONNECT {}\r\nSUB hb.%b 1\r\nSUB in.%b 2\r\n" % (name, name))
        request = ConnectRequest(name, b"hb." + name, 1, name, 5, 3).encode()
        wire.sendall(b"PUB _STAN.discover.test-cluster in.%b %d\r\n%b\r\n" % (name, len(request), request))
        told = ConnectResponse.decode(next(answers))
        assert not told.error
        asked = SubscriptionRequest(name, b"c", b"", b"m." + name, 10, 30, b"").encode()
        wire.sendall(b"PUB %b in.%b %d\r\n%b\r\n" % (told.sub_requests, name, len(asked), asked))
        assert not SubscriptionResponse.decode(next(answers)).error


def _answers(lines: IO[bytes]) -> Iterator[bytes]:
    """What comes to the inbox; heartbeats are not answered."""
    while line := lines.readline():
        if line.startswith(b"MSG in."):
            yield lines.read(int(line.split()[-1]) + 2)[:-2]


def service_of(server: Server) -> StreamingService:
    (found,) = [host.service for host in server.server.hosts if isinstance(host.service, StreamingService)]
    return found


def kinds() -> Counter[type]:
    gc.collect()
    return Counter(type(one) for one in gc.get_objects())


def clients(server: Server) -> int:
    return len(server.call(service_of(server).snapshot_clients))


def test_clients_that_nobody_hears_are_given_up_without_waiting_for_an_answer(server: Server) -> None:
    """As nats-streaming-server does, whose requests fail at once where nobody listens."""
    abandon(server, b"warm")
    wait_until(lambda: clients(server) == 0, "the first one is gone")
    before, engine_before = kinds(), server.call(live_objects)

    for number in range(CROWD):
        abandon(server, b"c%d" % number)
    wait_until(lambda: clients(server) == 0, "all are gone")

    after, engine_after = kinds(), server.call(live_objects)
    grown = {kind for kind, count in after.items() if count - before[kind] >= CROWD // 2}
    ours = {kind.__name__ for kind in grown if kind.__module__.startswith("headrace")}
    # Closed connections are remembered for /connz, what was written of the clients is in the store.
    assert ours <= {"ClientRecord", "StoredMessage"}
    # Plans are a cache of subjects, as large as it is.
    assert {name for name in engine_after if engine_after[name] > engine_before[name]} <= {"plans", "blocks"}


def test_a_client_that_may_come_back_takes_little() -> None:
    with Server(streaming=StreamingOptions()) as server:
        abandon(server, b"warm")
        wait_until(lambda: server.call(lambda: len(server.server.clients)) == 0, "its connection is gone")
        before = kinds()
        for number in range(CROWD):
            abandon(server, b"c%d" % number)
        wait_until(lambda: server.call(lambda: len(server.server.clients)) == 0, "all connections are gone")
        grown = kinds() - before
        named = Counter({kind.__name__: count for kind, count in grown.items()})

        assert clients(server) == CROWD + 1
        assert named["RegisteredClient"] == named["ChannelSubscription"] == CROWD
        assert named["Context"] < CROWD
        assert sum(grown.values()) < MOST_OBJECTS * CROWD, grown.most_common(12)
