"""Which messages a router's tracer is asked about, and what becomes of them then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from engine_peers import QUIET_WITH_HEADERS
from route_peers import Server

if TYPE_CHECKING:
    from engine_peers import Broker

FIRST = b"NATS/1.0\r\n"
ASKS = FIRST + b"Nats-Trace-Dest: t\r\n\r\n"


class Tracer:
    """Answers what it is told to answer."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[bytes] = []

    def begin(
        self, _session: object, _account: object, message: tuple[bytes, bytes, int], _error: object
    ) -> Any:
        self.asked.append(message[1])
        return self.answer


class Trace:
    """A trace that says what it was told."""

    def __init__(self, *, is_only: bool = False) -> None:
        self.is_only = is_only
        self.told: list[Any] = []

    def egress(self, _session: object, account: bytes, sub: bytes, queue: bytes, error: str | None) -> None:
        self.told.append((sub, queue, error))

    def finish(self) -> None:
        self.told.append("finished")


def hpub(headers: bytes, payload: bytes = b"x") -> bytes:
    return b"HPUB a %d %d\r\n%b%b\r\n" % (len(headers), len(headers) + len(payload), headers, payload)


@pytest.mark.parametrize(
    ("headers", "is_asked"),
    [
        (ASKS, True),
        (FIRST + b"A: b\r\nNats-Trace-Dest:t\r\n\r\n", True),
        (FIRST + b"D: D\r\nDDDD: Dest:\r\nNats-Trace-Dest:", True),
        (b"\nNats-Trace-Dest:", True),
        (b"Nats-Trace-Dest: t\r\n\r\n", False),
        (FIRST + b"nats-trace-dest: t\r\n\r\n", False),
        (FIRST + b"X-Nats-Trace-Dest: t\r\n\r\n", False),
        (FIRST + b"Nats-Trace-Destination: t\r\n\r\n", False),
        (FIRST + b"Nats-Trace-Dest", False),
        (FIRST + b"Nats-Trace-Only: true\r\n\r\n", False),
        (FIRST + b"traceparent: 0-a-b-01\r\n\r\n", False),
        (FIRST + b"D" * 5000 + b"\r\n\r\n", False),
        (b"D", False),
        (b"Dest:", False),
    ],
)
def test_messages_with_that_header_are_asked_about(broker: Broker, headers: bytes, is_asked: bool) -> None:
    broker.router.tracer = tracer = Tracer()
    publisher = broker.peer(QUIET_WITH_HEADERS)
    publisher.send(b"SUB a 1\r\n" + hpub(headers))
    assert tracer.asked == ([headers] if is_asked else [])
    assert hpub(headers)[len(b"HPUB a ") :] in publisher.received()


@pytest.mark.parametrize("name", [b"traceparent", b"TraceParent", b"TRACEPARENT"])
def test_marks_of_tracing_systems_count_where_the_account_wants_them(broker: Broker, name: bytes) -> None:
    broker.router.tracer = tracer = Tracer()
    publisher = broker.peer(QUIET_WITH_HEADERS)
    block = FIRST + b"A: b\r\n" + name + b": x\r\n\r\n"
    publisher.send(hpub(block))
    assert not tracer.asked
    broker.interest.is_traced = True
    publisher.send(hpub(block) + hpub(FIRST + b"traceparents: x\r\ntracep"))
    assert tracer.asked == [block]


def test_a_message_can_be_dropped_or_get_other_headers(broker: Broker) -> None:
    broker.router.tracer = tracer = Tracer(True)
    publisher = broker.peer(QUIET_WITH_HEADERS)
    publisher.send(b"SUB a 1\r\n" + hpub(ASKS))
    tracer.answer = FIRST + b"Other: one\r\n\r\n"
    publisher.send(hpub(ASKS, b"payload"))
    block = tracer.answer
    sizes = (len(block), len(block) + len(b"payload"))
    assert publisher.received() == b"HMSG a 1 %d %d\r\n%bpayload\r\n" % (*sizes, block)


@pytest.mark.parametrize(
    "instead", [FIRST + b"A: b\r\n\r\n", FIRST + b"Other: one\r\n" * 40 + b"\r\n"], ids=len
)
def test_what_follows_a_message_with_other_headers_is_read_from_its_end(instead: bytes) -> None:
    server = Server()
    server.router.tracer = Tracer(instead)
    route, client = server.route(), server.peer(QUIET_WITH_HEADERS).send(b"SUB a 1\r\nSUB b 2\r\n")
    route.say(b"HMSG $G a %d %d\r\n%bx\r\n" % (len(ASKS), len(ASKS) + 1, ASKS) + b"RMSG $G b 4\r\nlast\r\n")
    size = len(instead)
    assert client.received() == b"HMSG a 1 %d %d\r\n%bx\r\nMSG b 2 4\r\nlast\r\n" % (size, size + 1, instead)
    server.stop()


@pytest.mark.parametrize("is_only", [False, True])
def test_a_trace_is_told_of_receivers(broker: Broker, is_only: bool) -> None:
    trace = Trace(is_only=is_only)
    broker.router.tracer = Tracer(trace)
    publisher, other = broker.peer(QUIET_WITH_HEADERS), broker.peer(QUIET_WITH_HEADERS)
    other.send(b"SUB a 1\r\nSUB a q 2\r\nSUB b 3\r\n")
    publisher.send(hpub(ASKS))
    assert trace.told == [(b"a", b"", None), (b"a", b"q", None), "finished"]
    assert other.received().count(b"HMSG") == (0 if is_only else 2)


def test_a_closing_receiver_is_told_as_such(plain_broker: Broker) -> None:
    trace = Trace()
    plain_broker.router.tracer = Tracer(trace)
    publisher, other = plain_broker.peer(QUIET_WITH_HEADERS), plain_broker.peer(QUIET_WITH_HEADERS)
    other.send(b"SUB a 1\r\n")
    other.link.doom(1)
    publisher.link.feed(hpub(ASKS))
    assert trace.told == [(b"a", b"", "Not delivered because client is closed"), "finished"]


def test_a_mistake_in_a_trace_ends_its_connection_alone(broker: Broker) -> None:
    class Broken(Trace):
        def egress(self, *_arguments: object) -> None:
            raise ZeroDivisionError("ours")

    trace = Broken()
    broker.router.tracer = Tracer(trace)
    publisher, other = broker.peer(QUIET_WITH_HEADERS), broker.peer(QUIET_WITH_HEADERS)
    other.send(b"SUB a 1\r\n")
    try:
        publisher.send(hpub(ASKS))
    except ZeroDivisionError:
        pass
    assert trace.told == ["finished"]
    broker.router.tracer = None
    third = broker.peer(QUIET_WITH_HEADERS)
    third.send(hpub(ASKS))
    assert other.received().count(b"HMSG") == 1
