"""Services inside a running server: both transports, both kinds of event loop, start, stop, and mistakes."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import nats
import pytest
from aiohttp import ClientSession

from harness.wire import Wire
from headrace import Options, Server
from headrace.conf.streaming_options import StreamingOptions
from headrace.core.service import Delivery
from headrace.engine.interest import Interest
from headrace.engine.link import Router
from headrace.engine.service import ServiceLink
from headrace.errors import StartError
from headrace.log.committer import InlineCommitter, ThreadCommitter
from headrace.log.store import MemoryStore
from headrace.protocol.stan import (
    Ack,
    CloseRequest,
    CloseResponse,
    ConnectRequest,
    ConnectResponse,
    MsgProto,
    PubAck,
    PubMsg,
    StartPosition,
    SubscriptionRequest,
    SubscriptionResponse,
)
from headrace.server.loop import PollerLoop, run_in_poller
from headrace.streaming.service import OpenStore, StreamingService

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from headrace.core.service import Host

T = TypeVar("T")

LOCAL = Options(host="127.0.0.1", port=-1)
LOGGER = "headrace"
ON_LINUX = sys.platform == "linux"
WAYS = (["poller", "epoll"] if ON_LINUX else []) + ["asyncio"]
"""A loop that sleeps in the poller, one that watches it, and sockets that are asyncio's."""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, engine_balance: None) -> str:
    """Each way in turn; live objects of the engine return to where they were."""
    chosen: str = request.param
    return chosen


def run(way: str, main: Coroutine[Any, Any, T]) -> T:
    return run_in_poller(main) if way == "poller" else asyncio.run(main)


def transport(way: str) -> str:
    return "asyncio" if way == "asyncio" else "epoll"


class Echo:
    """Answers what it is asked on `ask.>`; keeps what it got. `act` is called with each batch before that."""

    def __init__(self, *subjects: bytes) -> None:
        self.subjects = subjects or (b"ask.>",)
        self.got: list[Delivery] = []
        self.events: list[str] = []
        self.act: Callable[[Sequence[Delivery]], object] | None = None
        self.last_words: list[tuple[bytes, bytes]] = []
        self.host: Host

    def start(self, host: Host) -> None:
        self.host = host
        self.events.append("start")
        logging.getLogger(LOGGER).info("service starts")
        for subject in self.subjects:
            host.subscribe(subject)

    def deliver(self, batch: Sequence[Delivery]) -> None:
        self.events.append("deliver")
        self.got += batch
        if self.act is not None:
            self.act(batch)
        for message in batch:
            if message.reply:
                self.host.publish(message.reply, b"to " + message.payload)

    def stop(self) -> None:
        self.events.append("stop")
        for subject, payload in self.last_words:
            self.host.publish(subject, payload)


class Turned(Echo):
    """Answers at the end of its turn, as what waits for a disk does."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[Delivery] = []

    def begin_turn(self) -> None:
        self.events.append("begin")

    def deliver(self, batch: Sequence[Delivery]) -> None:
        super().deliver(batch)
        if self.got[-1].payload == b"raise":
            raise ValueError("while it was delivered")

    def end_turn(self, *, is_last: bool) -> None:
        self.events.append("end, last" if is_last else "end")
        self.host.publish(b"r", b"end")


class Failing(Echo):
    """Whose `where` raises."""

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__()
        self._where = where
        self._error = error

    def start(self, host: Host) -> None:
        super().start(host)
        if self._where == "start":
            raise self._error

    def deliver(self, batch: Sequence[Delivery]) -> None:
        super().deliver(batch)
        if self._where == "deliver":
            raise self._error

    def stop(self) -> None:
        super().stop()
        if self._where == "stop":
            raise self._error


def client(server: Server) -> Wire:
    wire = Wire(("127.0.0.1", server.port))
    wire.connect()
    return wire


def ask(wire: Wire, payload: bytes) -> None:
    """A request to the echo on a connection that has subscribed to `r`."""
    wire.send(b"PUB ask.x r %d\r\n%b\r\n" % (len(payload), payload))
    wire.take_through(b"MSG r 1 %d\r\nto %b\r\n" % (len(payload) + 3, payload))


def round_trip(server: Server, payload: bytes = b"hi") -> None:
    with closing(client(server)) as wire:
        wire.send(b"SUB r 1\r\n")
        ask(wire, payload)


# ---- messages -----------------------------------------------------------------------------------


def test_request_to_a_service_is_answered(way: str) -> None:
    echo = Echo()

    async def main() -> None:
        async with Server(LOCAL, transport=transport(way), services=[echo]) as server:
            await asyncio.to_thread(round_trip, server)

    run(way, main())
    assert [(m.subject, m.reply, m.headers, m.payload) for m in echo.got] == [(b"ask.x", b"r", b"", b"hi")]


def test_what_a_service_says_at_the_end_of_its_turn_goes_out(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has one for each batch, also for one that it failed at; the last of a tick is told that it is."""
    services = [Turned(), Turned()]

    def talk(server: Server) -> None:
        with closing(client(server)) as wire:
            wire.send(b"SUB r 1\r\n")
            for payload in (b"fine", b"raise"):
                wire.send(b"PUB ask.x %d\r\n%b\r\n" % (len(payload), payload))
                wire.take_through(b"MSG r 1 3\r\nend\r\n" * 2)

    async def main() -> None:
        async with Server(LOCAL, transport=transport(way), services=services) as server:
            await asyncio.to_thread(talk, server)

    run(way, main())
    caplog.clear()  # errors that were logged hold on to the server
    turns = [service.events for service in services]
    assert sorted(turns) == [
        ["start", *["begin", "deliver", "end"] * 2, "stop"],
        ["start", *["begin", "deliver", "end, last"] * 2, "stop"],
    ]


def test_flood_arrives_whole_and_in_order(way: str) -> None:
    echo = Echo(b"flood")
    count = 40_000

    def publish(server: Server) -> None:
        with closing(client(server)) as wire:
            wire.send(b"".join(b"PUB flood 105\r\n%05d%b\r\n" % (n, b"x" * 100) for n in range(count)))
            wire.send(b"PING\r\n")
            wire.take_through(b"PONG\r\n")

    async def main() -> None:
        async with Server(LOCAL, transport=transport(way), services=[echo]) as server:
            await asyncio.to_thread(publish, server)

    run(way, main())
    assert [int(m.payload[:5]) for m in echo.got] == list(range(count))
    assert echo.events.count("deliver") < count / 10


@pytest.mark.skipif(not ON_LINUX, reason="epoll")
def test_poller_that_sleeps_serves_a_service_before_it_returns() -> None:
    """No round of the loop passes between the bytes, the service and its answer."""
    from headrace.server.epoll import Poller

    router, interest = Router(), Interest()
    poller = Poller(router)
    served = Alone(router, interest)
    served.link.subscribe(b"ask")
    ours, theirs = socket.socketpair()
    with closing(theirs):
        link = connected(poller, router, interest, ours)
        theirs.send(b"SUB r 1\r\nPUB ask r 1\r\nx\r\n")
        assert poller.wait(5) is False
        assert theirs.recv(100) == b"MSG r 1 4\r\nto x\r\n"
        assert not poller.is_due
        served.link.publish(b"ask", b"from outside of a tick")
        assert served.wakes == 1
        assert poller.is_due
        for _ in range(2):  # routed in the first tick, to itself in the next
            assert poller.poll() == []
        assert served.got == [b"x", b"from outside of a tick"]
        assert not poller.is_due
        poller.close(link)
    link.detach()
    served.link.detach()


@pytest.mark.skipif(not ON_LINUX, reason="epoll")
def test_poller_is_due_while_a_service_waits_for_its_next_batch() -> None:
    from headrace.server.epoll import Poller

    router, interest = Router(), Interest()
    poller = Poller(router)
    served = Alone(router, interest)
    served.link.subscribe(b"loop")
    served.loops = True
    ours, theirs = socket.socketpair()
    with closing(theirs):
        link = connected(poller, router, interest, ours)
        theirs.send(b"PUB loop 1\r\nx\r\n")
        poller.wait(5)
        first = len(served.got)
        assert 1 <= first <= 2
        assert poller.is_due
        poller.poll()
        assert first < len(served.got) <= first + 2
        poller.close(link)
    link.detach()
    served.link.detach()


class Alone:
    """A service link's session without a server."""

    def __init__(self, router: Router, interest: Interest) -> None:
        self.got: list[bytes] = []
        self.wakes = 0
        self.loops = False
        self.link = ServiceLink(router, self, Delivery)
        self.link.interest = interest

    def deliver(self, batch: list[Delivery]) -> None:
        for message in batch:
            self.got.append(message.payload)
            if message.reply:
                self.link.publish(message.reply, b"to " + message.payload)
            if self.loops:
                self.link.publish(message.subject, message.payload)

    def failed(self, error: Exception) -> None:
        raise error

    def wake(self) -> None:
        self.wakes += 1


def connected(poller: Any, router: Router, interest: Interest, ours: socket.socket) -> Any:
    """A client link without a session, over an end of a socket pair that is the poller's from here on."""
    from headrace.engine.client import ClientLink

    ours.setblocking(False)
    link = ClientLink(router, None)
    link.interest = interest
    link.configure(
        verbose=False, pedantic=False, echo=True, headers=True, no_responders=False, info_on_ping=False
    )
    poller.add(link, ours.detach())
    return link


def test_service_that_talks_to_itself_starves_nobody(way: str) -> None:
    echo = Echo(b"ask.>", b"loop")

    def again(batch: Sequence[Delivery]) -> None:
        for message in batch:
            if message.subject == b"loop":
                echo.host.publish(b"loop", message.payload)

    echo.act = again

    async def main() -> None:
        async with Server(LOCAL, transport=transport(way), services=[echo]) as server:
            echo.host.publish(b"loop", b"x")
            for _ in range(5):
                await asyncio.to_thread(round_trip, server)
            before = len(echo.got)
            await asyncio.sleep(0.01)
            assert len(echo.got) > before  # without any socket being ready

    run(way, main())


def test_services_of_two_servers_on_one_loop_are_each_served(way: str) -> None:
    one, two = Echo(), Echo()

    async def main() -> None:
        async with (
            Server(LOCAL, transport=transport(way), services=[one]) as first,
            Server(LOCAL, transport=transport(way), services=[two]) as second,
        ):
            await asyncio.to_thread(round_trip, first, b"1")
            await asyncio.to_thread(round_trip, second, b"2")

    run(way, main())
    assert [m.payload for m in one.got] == [b"1"]
    assert [m.payload for m in two.got] == [b"2"]


def test_publication_between_ticks_arrives_without_another_event(way: str) -> None:
    echo = Echo()

    async def main() -> None:
        async with Server(LOCAL, transport=transport(way), services=[echo]) as server:
            wire = await asyncio.to_thread(client, server)
            with closing(wire):
                wire.send(b"SUB news 1\r\nPING\r\n")
                await asyncio.to_thread(wire.take_through, b"PONG\r\n")
                echo.host.publish(b"news", b"a")
                await asyncio.to_thread(wire.take_through, b"MSG news 1 1\r\na\r\n")

    run(way, main())


# ---- timers and time ----------------------------------------------------------------------------


def test_timer_fires_unless_it_is_cancelled() -> None:
    echo = Echo()

    async def main() -> None:
        async with Server(LOCAL, services=[echo]):
            fired = asyncio.Event()
            calls: list[str] = []
            echo.host.call_later(0.001, lambda: calls.append("cancelled")).cancel()
            timer = echo.host.call_later(0.002, lambda: (calls.append("kept"), fired.set()))
            await asyncio.wait_for(fired.wait(), 5)
            timer.cancel()
            assert calls == ["kept"]

    asyncio.run(main())


def test_timer_never_fires_once_the_service_was_stopped() -> None:
    echo = Echo()
    calls: list[str] = []

    async def main() -> None:
        async with Server(LOCAL, services=[echo]):
            echo.host.call_later(0, lambda: calls.append("before"))
        echo.host.call_later(0, lambda: calls.append("after"))
        await asyncio.sleep(0.005)

    asyncio.run(main())
    assert calls == []


def test_timer_that_raises_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    echo = Echo()

    async def main() -> None:
        async with Server(LOCAL, services=[echo]) as server:
            done = asyncio.Event()

            def fail() -> None:
                asyncio.get_running_loop().call_soon(done.set)
                raise LookupError("mistake in a timer")

            echo.host.call_later(0, fail)
            await asyncio.wait_for(done.wait(), 5)
            await asyncio.to_thread(round_trip, server)

    asyncio.run(main())
    assert_logged_once(caplog, "Echo internal error", "mistake in a timer")


def test_clock_is_the_wall_clock_in_ns() -> None:
    import time

    echo = Echo()

    async def main() -> None:
        async with Server(LOCAL, services=[echo]):
            before = time.time_ns()
            assert before <= echo.host.now_ns() <= before + 60_000_000_000

    asyncio.run(main())


# ---- start and stop -----------------------------------------------------------------------------


def test_service_starts_before_clients_are_let_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)

    async def main() -> None:
        async with Server(LOCAL, services=[Echo()]):
            pass

    asyncio.run(main())
    lines = [r.getMessage() for r in caplog.records]
    listening = next(n for n, line in enumerate(lines) if line.startswith("Listening for client connections"))
    assert lines.index("service starts") < listening < lines.index("Server is ready")


@pytest.mark.parametrize("error", [StartError("no store"), LookupError("mistake")])
def test_service_that_cannot_start_ends_the_start(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    first, failing, last = Echo(), Failing("start", error), Echo()

    async def main() -> int:
        server = Server(LOCAL, services=[first, failing, last])
        with pytest.raises(type(error), match=str(error)):
            await server.start()
        assert server.accounts.default.interest.statistics()["subscriptions"] == 0
        return server.port

    port = asyncio.run(main())
    assert (first.events, failing.events, last.events) == (["start", "stop"], ["start"], [])
    assert "Server is ready" not in caplog.text
    with socket.create_server(("127.0.0.1", port)):
        pass  # the port is free again


def test_stop_delivers_what_came_and_sends_the_last_words(way: str) -> None:
    echo = Echo()
    echo.last_words = [(b"r", b"bye"), (b"r", b"x" * 200_000)]

    async def main() -> None:
        server = Server(LOCAL, transport=transport(way), services=[echo])
        await server.start()
        wire = await asyncio.to_thread(client, server)
        with closing(wire):
            wire.send(b"SUB r 1\r\nPING\r\n")
            await asyncio.to_thread(wire.take_through, b"PONG\r\n")
            echo.host.publish(b"ask.self", b"waits when the server stops")
            stopping = asyncio.create_task(server.stop())
            await asyncio.to_thread(
                wire.take_through, b"MSG r 1 3\r\nbye\r\nMSG r 1 200000\r\n" + b"x" * 200_000 + b"\r\n"
            )
            await stopping

    run(way, main())
    assert [m.payload for m in echo.got] == [b"waits when the server stops"]
    assert echo.events == ["start", "deliver", "stop"]


def test_services_stop_once_in_the_reverse_order() -> None:
    stopped: list[str] = []
    services = [Echo(), Echo()]
    for name, service in zip("ab", services, strict=True):
        service.stop = lambda name=name: stopped.append(name)  # type: ignore[method-assign,misc]

    async def main() -> None:
        server = Server(LOCAL, services=services)
        await server.start()
        await asyncio.gather(server.stop(), server.stop())
        await server.stop()

    asyncio.run(main())
    assert stopped == ["b", "a"]


def test_stopped_service_publishes_nothing_more_and_hears_nothing(way: str) -> None:
    """A commit that ends late calls back into a service whose server is gone."""
    echo = Echo()

    async def main() -> None:
        async with Server(LOCAL, transport=transport(way), services=[echo]) as server:
            await asyncio.to_thread(round_trip, server)
        echo.host.publish(b"ask.x", b"late")
        await asyncio.sleep(0)

    run(way, main())
    assert [m.payload for m in echo.got] == [b"hi"]


def test_service_that_raises_when_it_stops_is_logged_and_the_server_stops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with Server(LOCAL, services=[Failing("stop", LookupError("mistake at the end"))]) as server:
            await asyncio.to_thread(round_trip, server)
        assert server.stopped.is_set()

    asyncio.run(main())
    assert_logged_once(caplog, "Failing internal error", "mistake at the end")


# ---- mistakes -----------------------------------------------------------------------------------


def assert_logged_once(caplog: pytest.LogCaptureFixture, text: str, error: str) -> None:
    """One line at error level, which says where it was raised."""
    found = [r for r in caplog.records if r.getMessage().startswith(f"{text}: LookupError: {error} (")]
    assert [r.levelno for r in found] == [logging.ERROR]
    assert " < services.py:" in found[0].getMessage()
    assert found[0].exc_info is None
    caplog.clear()  # the traceback's frames hold on to the server


def test_service_that_raises_ends_no_client(way: str, caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing("deliver", LookupError("mistake in a batch"))

    def serve(server: Server) -> None:
        with closing(client(server)) as wire:
            wire.send(b"SUB r 1\r\n")
            ask(wire, b"one")  # it answers, then raises
            caplog.clear()
            ask(wire, b"two")
            wire.send(b"SUB own 2\r\nPUB own 2\r\nme\r\n")
            wire.take_through(b"MSG own 2 2\r\nme\r\n")

    async def main() -> None:
        async with Server(LOCAL, transport=transport(way), services=[failing]) as server:
            await asyncio.to_thread(serve, server)
            assert len(server.clients) <= 1

    run(way, main())
    assert [m.payload for m in failing.got] == [b"one", b"two"]
    assert_logged_once(caplog, "Failing internal error", "mistake in a batch")


def test_peer_that_names_a_subject_with_white_space_gets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    echo = Echo()
    echo.act = lambda batch: echo.host.publish(batch[0].payload, b"x")

    def serve(server: Server) -> None:
        with closing(client(server)) as wire:
            wire.send(b"SUB > 1\r\n")
            wire.send(b"PUB ask.x 12\r\na\r\nPUB b 0\r\n\r\nPING\r\n")
            received = wire.take_through(b"PONG\r\n")
            assert received.count(b"MSG") == 1  # its own

    async def main() -> None:
        async with Server(LOCAL, services=[echo]) as server:
            await asyncio.to_thread(serve, server)

    asyncio.run(main())
    assert any("nothing can be published to" in r.getMessage() for r in caplog.records)


# ---- monitoring ---------------------------------------------------------------------------------


def test_service_is_no_connection_but_its_subscriptions_are_listed() -> None:
    async def main() -> tuple[Any, ...]:
        options = Options(host="127.0.0.1", port=-1, http_port=-1, system_account=None)
        async with (
            Server(options, services=[Echo(b"ask.>", b"more")]) as server,
            ClientSession(server.monitor_url) as session,
        ):
            answers = []
            for path in ("/connz?state=any", "/varz", "/subsz?subs=1"):
                async with session.get(path) as response:
                    answers.append(json.loads(await response.read()))
            return tuple(answers)

    connz, varz, subsz = asyncio.run(main())
    assert (connz["num_connections"], connz["total"]) == (0, 0)
    assert (varz["connections"], varz["total_connections"], varz["subscriptions"]) == (0, 0, 2)
    assert (subsz["num_subscriptions"], subsz["total"]) == (2, 2)
    rows = sorted(subsz["subscriptions_list"], key=lambda row: row["sid"])
    assert rows[0] == {
        "account": "$G",
        "account_tag": "$G",
        "subject": "ask.>",
        "sid": "1",
        "msgs": 0,
        "cid": 0,
    }


def test_loop_of_the_poller_is_the_one_that_sleeps_in_it() -> None:
    """The way called `poller` is what it says."""
    if not ON_LINUX:
        pytest.skip("epoll")

    async def main() -> bool:
        loop = asyncio.get_running_loop()
        async with Server(LOCAL, transport="epoll", services=[Echo()]) as server:
            return isinstance(loop, PollerLoop) and not loop.sleep_in(server.ticks.poller, lambda: None)  # type: ignore[arg-type]

    assert run("poller", main())


# ---- streaming, from a client's socket to the store and back ------------------------------------


class Stan:
    """Raw STAN requests over nats-py: as much of a client as these tests need."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.answer = ConnectResponse()

    async def connect(self, client_id: bytes) -> None:
        self.heartbeats = await self.connection.subscribe(f"hb.{client_id.decode()}", cb=self._alive)
        request = ConnectRequest(
            client_id=client_id, heartbeat_inbox=b"hb." + client_id, protocol=1, conn_id=b"conn-" + client_id
        )
        data = await self.ask(b"_STAN.discover.test-cluster", request)
        self.answer = ConnectResponse.decode(data)
        assert self.answer.error == b""
        self.client_id = client_id

    async def _alive(self, message: Any) -> None:
        await message.respond(b"")

    async def ask(self, subject: bytes, request: Any) -> bytes:
        reply = await self.connection.request(subject.decode(), request.encode(), timeout=10)
        data: bytes = reply.data
        return data

    async def publish(self, channel: bytes, data: bytes) -> PubAck:
        message = PubMsg(
            client_id=self.client_id, guid=b"guid-" + data[:20], subject=channel, data=data,
            conn_id=b"conn-" + self.client_id,
        )  # fmt: skip
        return PubAck.decode(await self.ask(self.answer.pub_prefix + b"." + channel, message))

    async def subscribe(self, channel: bytes, inbox: str) -> tuple[Any, bytes]:
        """The NATS subscription of the inbox, and where to acknowledge."""
        subscription = await self.connection.subscribe(inbox)
        request = SubscriptionRequest(
            client_id=self.client_id, subject=channel, inbox=inbox.encode(), max_in_flight=100,
            ack_wait_in_secs=30, start_position=StartPosition.FIRST,
        )  # fmt: skip
        response = SubscriptionResponse.decode(await self.ask(self.answer.sub_requests, request))
        assert response.error == b""
        return subscription, response.ack_inbox


def streaming(committer: Any) -> StreamingService:
    opened = OpenStore(MemoryStore(), committer)
    return StreamingService(StreamingOptions(), lambda: opened, logging.getLogger(LOGGER))


async def talk(server: Server) -> None:
    """Publish, replay, live delivery, acknowledgement, close: what a client of NATS Streaming does."""
    connection = await nats.connect(server.url, allow_reconnect=False)
    try:
        stan = Stan(connection)
        await stan.connect(b"me")
        stored = [b"%d" % n for n in range(50)]
        acks = await asyncio.gather(*(stan.publish(b"orders.new", data) for data in stored))
        assert [(ack.guid, ack.error) for ack in acks] == [(b"guid-" + data, b"") for data in stored]
        subscription, ack_inbox = await stan.subscribe(b"orders.new", "inbox.me")
        for data in (*stored, b"live"):
            if data == b"live":
                await stan.publish(b"orders.new", data)
            message = MsgProto.decode((await subscription.next_msg(10)).data)
            assert message.data == data
            assert not message.redelivered
            ack = Ack(subject=b"orders.new", sequence=message.sequence)
            await connection.publish(ack_inbox.decode(), ack.encode())
        large = b"x" * 900_000
        await stan.publish(b"orders.new", large)
        assert MsgProto.decode((await subscription.next_msg(10)).data).data == large
        closed = await stan.ask(stan.answer.close_requests, CloseRequest(client_id=b"me"))
        assert CloseResponse.decode(closed).error == b""
        refused = await stan.publish(b"orders.new", b"after")
        assert refused.error == b"stan: invalid publish request"
    finally:
        await connection.close()


def test_stan_client_is_served_end_to_end(way: str) -> None:
    async def main() -> None:
        service = streaming(InlineCommitter())
        async with Server(LOCAL, transport=transport(way), services=[service]) as server:
            await talk(server)

    run(way, main())


def test_stan_acknowledgements_come_when_a_thread_has_committed(way: str) -> None:
    """The commit ends on another thread: nothing but its call wakes the loop."""

    async def main() -> None:
        committer = ThreadCommitter(asyncio.get_running_loop().call_soon_threadsafe)
        async with Server(LOCAL, transport=transport(way), services=[streaming(committer)]) as server:
            await talk(server)
        committer.stop()

    run(way, main())


def test_stan_requests_that_are_garbage_end_nothing(way: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        service = streaming(InlineCommitter())
        async with Server(LOCAL, transport=transport(way), services=[service]) as server:
            connection = await nats.connect(server.url, allow_reconnect=False)
            try:
                for subject in ("_STAN.discover.test-cluster", "_STAN.discover.test-cluster.pings"):
                    for garbage in (b"", b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x7fx"):
                        await connection.publish(subject, garbage)
                        await connection.publish(subject, garbage, reply="answers")
                await connection.flush()
                evil = ConnectRequest(client_id=b"evil", heartbeat_inbox=b"a\r\nPUB x 0\r\n\r\n", protocol=1)
                answer = await connection.request("_STAN.discover.test-cluster", evil.encode(), timeout=10)
                ConnectResponse.decode(answer.data)
            finally:
                await connection.close()
            await talk(server)

    run(way, main())
    assert "internal error" not in caplog.text
    caplog.clear()  # errors that were logged hold on to the server
