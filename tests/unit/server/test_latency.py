"""Latencies of imported services: which requests are sampled, and what is said about them."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from go_reference import GoServer, RawClient

from harness.waiting import PATIENCE
from headrace.conf.binding import load_options
from headrace.server.latency import sampled
from headrace.server.server import Server

CONFIGURATION = """
accounts {
  A {
    users: [{user: a, password: p}]
    exports: [
      {service: svc, latency: {subject: took.svc, sampling: 100%}}
      {service: traced, latency: {subject: took.traced, sampling: headers}}
    ]
  }
  B {
    users: [{user: b, password: p}]
    imports: [{service: {account: A, subject: svc}}, {service: {account: A, subject: traced}, share: true}]
  }
}
"""
OUTCOMES = 4
"""Of the requests of `play`, those that are told of."""
CHANGING = {"id", "timestamp", "start", "service", "system", "total", "rtt", "server"}


def block(*lines: str) -> bytes:
    return "\r\n".join(["NATS/1.0", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("lines", "forwarded"),
    [
        ((), None),
        (("A: b",), None),
        (("Uber-Trace-Id: a:b:c:1", "uberctx-x: y"), {"Uber-Trace-Id": ["a:b:c:1"], "Uberctx-X": ["y"]}),
        (("Uber-Trace-Id: a:b:c:03",), {"Uber-Trace-Id": ["a:b:c:03"]}),
        (("Uber-Trace-Id: a:b:c:2",), None),
        (("Uber-Trace-Id: a:b:c:+1",), None),
        (("Uber-Trace-Id: a:b:c:zz",), None),
        (("Uber-Trace-Id: a:b:1", "X-B3-Sampled: 1"), None),
        (("x-b3-sampled: 1", "X-B3-SpanId: s"), {"X-B3-Sampled": ["1"], "X-B3-Spanid": ["s"]}),
        (("X-B3-Sampled: 0", "X-B3-TraceId: t"), None),
        (("X-B3-TraceId: t",), {"X-B3-Traceid": ["t"]}),
        (("b3: 0",), None),
        (("b3: a-b-0",), None),
        (("b3: a-b-d",), {"B3": ["a-b-d"]}),
        (
            ("traceparent: 00-a-b-01", "tracestate: k=v"),
            {"Traceparent": ["00-a-b-01"], "Tracestate": ["k=v"]},
        ),
        (("traceparent: 00-a-b-00",), None),
        (("traceparent: 01",), None),
    ],
)
def test_headers_of_tracing_systems(lines: tuple[str, ...], forwarded: object) -> None:
    assert sampled(block(*lines)) == forwarded


def test_headers_that_are_none() -> None:
    assert sampled(b"") is None
    assert sampled(b"\xff\xfe: 1\r\nX-B3-Sampled") is None


def play(port: int) -> list[Any]:
    """Requests with every outcome; the messages about them."""

    def client(user: str, *lines: str) -> RawClient:
        made = RawClient(port, lambda _: {"user": user, "pass": "p", "headers": True})
        made.send(*lines)
        made.sync()
        return made

    with client("a", "SUB took.> 1") as listener, client("b", "SUB r 1") as b:
        b.send("PUB svc r 1", "1")
        b.sync()
        with client("a", "SUB svc 1", "SUB traced 2") as a:
            for line in ("PUB svc r 1", "PUB svc 1", "PUB traced r 1"):
                b.send(line, "x")
                b.sync()
                answer(a)
            headers = "NATS/1.0\r\nX-B3-Sampled: 1\r\n\r\n"
            b.send(f"HPUB traced r {len(headers)} {len(headers) + 1}", headers + "x")
            b.sync()
            answer(a)
        told: list[str] = []
        deadline = time.monotonic() + PATIENCE
        while len(told) < OUTCOMES and time.monotonic() < deadline:  # nats-server tells when it has time
            told += [line for line in listener.sync() if line.startswith("{")]
        return [normal(json.loads(line)) for line in told]


def answer(responder: RawClient) -> None:
    for line in responder.sync():
        words = line.split()
        if words[:1] == ["HMSG"] and len(words) == 6:
            responder.send(f"PUB {words[3]} 1", "y")
    responder.sync()


def normal(value: Any) -> Any:
    """Names in their order, without what is different each time; connections by the account alone."""
    if isinstance(value, dict):
        return [(k, None if k in CHANGING else normal(v)) for k, v in value.items() if k != "rtt"]
    return value


def ours() -> list[Any]:
    async def run() -> list[Any]:
        options = load_options(text=CONFIGURATION, environ={}, overrides={"host": "127.0.0.1", "port": -1})
        async with Server(options) as server:
            return await asyncio.to_thread(play, server.port)

    return asyncio.run(run())


def test_messages_say_how_each_request_ended() -> None:
    assert [dict(message)["status"] for message in ours()] == [503, 200, 400, 200]


@pytest.mark.clients
def test_messages_are_the_go_servers(tmp_path_factory: pytest.TempPathFactory) -> None:
    with GoServer(tmp_path_factory.mktemp("go"), CONFIGURATION) as server:
        reference = play(server.port)

    assert ours() == reference
