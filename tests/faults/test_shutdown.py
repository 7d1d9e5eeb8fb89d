"""The end of a server: clients that read get everything, clients that do not hold nobody up."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from headrace.conf.tls_options import TLSOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.conftest import Served
    from harness.certificates import Authority

TOTAL = 12


@pytest.fixture(params=["plain", "tls"])
def secured(request: pytest.FixtureRequest, authority: Authority) -> dict[str, object]:
    """Options of a server without and with TLS."""
    if request.param == "plain":
        return {}
    pair = authority.issue("server")
    return {"tls": TLSOptions(str(pair.certificate), str(pair.key))}


def test_backlog_of_a_reading_client_arrives_before_the_close(
    serve: Callable[..., Served], secured: dict[str, object], authority: Authority
) -> None:
    served = serve(max_payload=1 << 20, **secured)
    context = authority.client_context() if secured else None
    with served.connect(context=context) as reader, served.connect(context=context) as writer:
        reader.send(b"SUB a 1\r\n")
        reader.sync()
        writer.send(b"PUB a 1000000\r\n%b\r\n" % bytes(1_000_000) * TOTAL)
        writer.sync()
        with ThreadPoolExecutor(1) as pool:
            rest = pool.submit(reader.take_rest)
            served.embedded.call(served.server.stop)

        assert len(rest.result()) == TOTAL * (len(b"MSG a 1 1000000\r\n") + 1_000_002)


def test_client_that_never_reads_does_not_hold_up_the_end(
    serve: Callable[..., Served], secured: dict[str, object], authority: Authority
) -> None:
    served = serve(**secured)
    context = authority.client_context() if secured else None
    with served.connect(receive_buffer=4096, context=context) as dead:
        with served.connect(context=context) as writer:
            dead.send(b"SUB a 1\r\n")
            dead.sync()
            writer.send(b"PUB a 1000000\r\n%b\r\n" % bytes(1_000_000) * TOTAL)
            writer.sync()
            began = time.monotonic()

            served.embedded.call(served.server.stop)

            assert time.monotonic() - began < 3.0
        assert not served.server.clients


def test_idle_client_sees_the_end_at_once(
    serve: Callable[..., Served], secured: dict[str, object], authority: Authority
) -> None:
    served = serve(**secured)
    context = authority.client_context() if secured else None
    with served.connect(context=context) as idle:
        began = time.monotonic()

        served.embedded.call(served.server.stop)

        assert idle.take_rest() == b""
        assert time.monotonic() - began < 1.0


def test_stopping_twice_and_after_a_lame_duck_is_harmless(serve: Callable[..., Served]) -> None:
    served = serve(lame_duck_duration=0.2, lame_duck_grace_period=0.05)
    clients = [served.connect() for _ in range(5)]
    try:
        served.embedded.call(served.server.lame_duck)
        served.embedded.call(served.server.lame_duck)
        served.embedded.call(served.server.stop)
        served.embedded.call(served.server.stop)

        assert [client.take_rest() for client in clients] == [b""] * 5
    finally:
        for client in clients:
            client.close()


def test_lame_duck_closes_clients_one_after_the_other(serve: Callable[..., Served]) -> None:
    served = serve(lame_duck_duration=1.5, lame_duck_grace_period=0.05)
    clients = [served.connect() for _ in range(5)]
    ends = []
    with ThreadPoolExecutor(5) as pool:
        waits = [
            pool.submit(lambda client=client: (client.take_rest(), time.monotonic())) for client in clients
        ]
        began = time.monotonic()
        served.embedded.call(served.server.lame_duck)
        ends = sorted(wait.result()[1] - began for wait in waits)
    for client in clients:
        client.close()

    assert ends[0] >= 0.04
    assert all(later - earlier > 0.02 for earlier, later in pairwise(ends))
    assert ends[-1] < 3.0


def test_lame_duck_ends_early_when_its_clients_have_left(serve: Callable[..., Served]) -> None:
    served = serve(lame_duck_duration=30.0, lame_duck_grace_period=0.05)
    clients = [served.connect(b'{"verbose":false,"protocol":1}') for _ in range(3)]
    for client in clients:
        client.take_info()

    with ThreadPoolExecutor(1) as pool:
        duck = pool.submit(served.embedded.call, served.server.lame_duck)
        for client in clients:
            assert client.take_info()["ldm"] is True
            client.close()
        began = time.monotonic()
        duck.result(timeout=15)

    assert time.monotonic() - began < 15
