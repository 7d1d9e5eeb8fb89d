"""Clients that do not read while others publish."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from typing import TYPE_CHECKING, Final

import pytest

from harness.processes import HEADRACES, NATS_SERVER, Program
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.conftest import Served
    from harness.processes import ServerProcess
    from harness.wire import Wire

SMALL_BUFFER: Final = 4096
FRAME: Final = b"PUB slow 50000\r\n" + bytes(50000) + b"\r\nPUB quick 1\r\nx\r\n"


def subscribed(wire: Wire, subject: bytes) -> Wire:
    wire.send(b"SUB " + subject + b" 1\r\n")
    wire.sync()
    return wire


def test_client_past_max_pending_is_cut_off_and_others_miss_nothing(serve: Callable[..., Served]) -> None:
    served = serve(max_pending=200_000, max_payload=100_000)
    with (
        subscribed(served.connect(receive_buffer=SMALL_BUFFER), b"slow") as slow,
        subscribed(served.connect(), b"quick") as quick,
        served.connect() as writer,
    ):
        sent = 0
        while not served.server.clients.slow_consumers:
            writer.send(FRAME)
            writer.sync()
            sent += 1
            assert sent < 2000
        assert quick.sync() == b"MSG quick 1 1\r\nx\r\n" * sent
        slow.take_rest()

    assert served.server.clients.slow_consumers == 1
    assert "Slow Consumer (Pending Bytes)" in served.closed_reasons()


def test_client_past_write_deadline_is_cut_off_and_others_miss_nothing(serve: Callable[..., Served]) -> None:
    served = serve(write_deadline=0.1)
    with (
        subscribed(served.connect(receive_buffer=SMALL_BUFFER), b"slow") as slow,
        subscribed(served.connect(), b"quick") as quick,
        served.connect() as writer,
    ):
        sent = 100
        writer.send(FRAME * sent)
        writer.sync()
        wait_until(lambda: served.server.clients.slow_consumers, "a slow consumer")
        assert quick.sync() == b"MSG quick 1 1\r\nx\r\n" * sent
        slow.take_rest()

    assert served.server.clients.slow_consumers == 1
    assert "Slow Consumer (Write Deadline)" in served.closed_reasons()


def test_client_that_reads_slowly_but_steadily_is_no_slow_consumer(serve: Callable[..., Served]) -> None:
    served = serve(write_deadline=0.3)
    total = 20 * 50_000
    with (
        subscribed(served.connect(receive_buffer=SMALL_BUFFER), b"slow") as slow,
        served.connect() as writer,
    ):
        writer.send(b"PUB slow 50000\r\n%b\r\n" % bytes(50_000) * 20)
        writer.sync()
        received = 0
        while received < total:
            slow.fill(1.0)
            received += len(slow.take())
            time.sleep(0.001)  # never a deadline without progress, many deadlines altogether

    assert served.server.clients.slow_consumers == 0


def test_publisher_waits_for_a_dead_subscriber_only_within_the_stall_limit(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    with (
        subscribed(served.connect(receive_buffer=SMALL_BUFFER), b"slow") as slow,
        served.connect() as writer,
    ):
        writer.send(b"PUB slow 1000000\r\n%b\r\n" % bytes(1_000_000) * 12)  # past where stalls begin
        writer.sync()
        began = time.monotonic()
        for _ in range(20):
            writer.send(b"PUB slow 10\r\n0123456789\r\n")
            writer.sync()
        took = time.monotonic() - began

        assert took < 20 * 0.1  # a stall is ten milliseconds at most
        assert served.server.router.statistics()["stalls"] > 0
        assert not slow.closed
        slow.close()


def test_unfinished_write_to_a_client_that_left_ends_the_stall(serve: Callable[..., Served]) -> None:
    served = serve()
    with subscribed(served.connect(receive_buffer=SMALL_BUFFER), b"slow") as slow, served.connect() as writer:
        writer.send(b"PUB slow 1000000\r\n%b\r\n" % bytes(1_000_000) * 5)
        slow.close()
        assert writer.sync() == b""
        served.wait_for_connections(1)

        assert served.server.router.stalled == 0
        assert served.server.router.blocked == 0


def fill_up(served: Served, writer: Wire, slow: Wire) -> None:
    """Publishes, a little at a time, until the server holds bytes that no socket takes."""

    def everything_left() -> bool:
        transports = [session.transport for session in served.server.clients]
        return all(transport is not None and transport.flush() for transport in transports)

    while served.embedded.call(everything_left):
        writer.send(b"PUB slow 5000\r\n%b\r\n" % bytes(5000))
        writer.sync()
        slow.send(b"PONG\r\n")


def test_client_that_does_not_take_why_it_is_sent_away_is_cut_off_at_the_write_deadline(
    serve: Callable[..., Served],
) -> None:
    served = serve(write_deadline=0.1)
    with (
        subscribed(served.connect(receive_buffer=SMALL_BUFFER), b"slow") as slow,
        served.connect() as writer,
    ):
        fill_up(served, writer, slow)
        slow.send(b"NOT AN OPERATION\r\n")
        served.wait_for_connections(1)
        slow.take_rest()


def test_stale_client_is_not_waited_for(serve: Callable[..., Served]) -> None:
    served = serve(write_deadline=3600.0, ping_interval=0.5, ping_max=1)
    with (
        subscribed(served.connect(receive_buffer=SMALL_BUFFER), b"slow") as slow,
        served.connect() as writer,
    ):
        fill_up(served, writer, slow)
        served.wait_for_connections(0)  # neither answers any more
        slow.take_rest()
    assert served.closed_reasons() == ["Stale Connection"] * 2


CONFIGS: Final = {
    "max_pending": ("max_pending: 200KB\nmax_payload: 100KB\n", r"MaxPending of 204800 Exceeded$"),
    "write_deadline": (
        'write_deadline: "100ms"\n',
        r"WriteDeadline of 100ms exceeded with \d+ chunks of \d+ total bytes\.$",
    ),
}


@pytest.mark.clients
@pytest.mark.parametrize("program", [*HEADRACES, NATS_SERVER], ids=str)
@pytest.mark.parametrize("cause", CONFIGS)
def test_slow_consumer_is_counted_and_logged_in_the_same_words(
    start_process: Callable[..., ServerProcess], program: Program, cause: str
) -> None:
    config, words = CONFIGS[cause]
    server = start_process(program, "-m", "-1", config=config)
    with (
        subscribed(server.connect(b"", receive_buffer=SMALL_BUFFER), b"slow") as slow,
        server.connect(b'{"verbose":false}') as writer,
    ):
        writer.send(FRAME * 100)
        writer.sync()

        server.wait_for_line(r"\[INF\] 127\.0\.0\.1:\d+ - cid:\d+ - Slow Consumer Detected: " + words)
        slow.take_rest()
        assert writer.sync() == b""

    with urllib.request.urlopen(f"{server.monitor_url}/varz") as answer:
        varz = json.load(answer)
    assert varz["slow_consumers"] == 1
    assert varz["slow_consumer_stats"]["clients"] == 1
    with urllib.request.urlopen(f"{server.monitor_url}/connz?state=closed") as answer:
        reasons = [connection["reason"] for connection in json.load(answer)["connections"]]
    assert any(
        re.fullmatch(r"Slow Consumer \((Pending Bytes|Write Deadline)\)", reason) for reason in reasons
    )
