"""A scripted streaming server over nats-py: it hears requests, and answers what a test tells it to."""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import nats

from headrace.client import stan
from headrace.protocol.stan import (
    Ack,
    CloseRequest,
    CloseResponse,
    ConnectRequest,
    ConnectResponse,
    MsgProto,
    Ping,
    PingResponse,
    PubAck,
    PubMsg,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nats.aio.client import Client as NatsClient
    from nats.aio.msg import Msg

TEST_SECONDS = 20.0
SUBJECTS = ConnectResponse(
    pub_prefix=b"_STAN.pub.test",
    sub_requests=b"_STAN.sub.test",
    unsub_requests=b"_STAN.unsub.test",
    close_requests=b"_STAN.close.test",
    sub_close_requests=b"_STAN.subclose.test",
    ping_requests=b"_STAN.discover.test.pings",
    protocol=1,
)
KINDS: dict[str, Any] = {
    "_STAN.discover.test": ConnectRequest,
    "_STAN.discover.test.pings": Ping,
    "_STAN.pub.test.>": PubMsg,
    "_STAN.sub.test": SubscriptionRequest,
    "_STAN.unsub.test": UnsubscribeRequest,
    "_STAN.subclose.test": UnsubscribeRequest,
    "_STAN.close.test": CloseRequest,
    "_ACKS.>": Ack,
}


class FakeStan:
    """`heard[subject]` is a queue of what came, `answers[subject]` makes the answer; None: no answer."""

    def __init__(self, nc: NatsClient) -> None:
        self.nc = nc
        self.heard: defaultdict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        self.answers: dict[str, Callable[[Any], Any]] = {
            "_STAN.discover.test": lambda _: SUBJECTS,
            "_STAN.discover.test.pings": lambda _: PingResponse(),
            "_STAN.pub.test.>": lambda message: PubAck(message.guid),
            "_STAN.sub.test": lambda request: SubscriptionResponse(b"_ACKS." + request.subject),
            "_STAN.unsub.test": lambda _: SubscriptionResponse(),
            "_STAN.subclose.test": lambda _: SubscriptionResponse(),
            "_STAN.close.test": lambda _: CloseResponse(),
            "_ACKS.>": lambda _: None,
        }
        self.publishes: list[Msg] = []

    async def start(self) -> None:
        for subject in KINDS:
            await self.nc.subscribe(subject, cb=functools.partial(self._hear, subject))
        await self.nc.flush()

    async def _hear(self, subject: str, message: Msg) -> None:
        request = KINDS[subject].decode(message.data)
        if isinstance(request, PubMsg):
            self.publishes.append(message)
        answer = self.answers[subject](request)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer is not None and message.reply:
            await message.respond(answer if isinstance(answer, bytes) else answer.encode())
        self.heard[subject].put_nowait(request)

    async def next(self, subject: str) -> Any:
        return await self.heard[subject].get()

    async def deliver(self, inbox: bytes, *sequences: int, redelivered: bool = False) -> None:
        for sequence in sequences:
            message = MsgProto(sequence, b"foo", b"r", b"data %d" % sequence, 10**18, redelivered)
            await self.nc.publish(inbox.decode(), message.encode())


class World:
    """A NATS server, the scripted streaming server on it, and clients that are closed at the end."""

    server: Server

    def __init__(self) -> None:
        self.fake = FakeStan(nats.NATS())
        self.nc = nats.NATS()
        """The NATS connection of the clients."""
        self.reported: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        """What went to the loop's exception handler."""
        self.reconnected = asyncio.Semaphore(0)
        """Once for each time that a NATS connection was restored."""
        self._clients: list[stan.Client] = []

    @classmethod
    async def create(cls) -> World:
        world = cls()
        world.server = await Server().__aenter__()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: world.reported.put_nowait(context))

        async def note() -> None:
            world.reconnected.release()

        for nc in (world.nc, world.fake.nc):
            await nc.connect(
                world.server.url,
                reconnect_time_wait=0.01,  # type: ignore[arg-type]
                error_cb=_ignore,
                reconnected_cb=note,
            )
        await world.fake.start()
        return world

    async def connect(self, **options: Any) -> stan.Client:
        client = await stan.connect("test", "me", **{"nats": self.nc, "connect_timeout": 5, **options})
        self._clients.append(client)
        return client

    async def settle(self) -> None:
        """Returns when both sides have read everything that was sent before, and its tasks have run."""
        for nc in (self.nc, self.fake.nc, self.nc, self.fake.nc):
            await nc.flush()
            await nc.flush()
            await asyncio.sleep(0)

    async def restart_nats(self) -> None:
        """Another NATS server takes the place of this one; returns when everybody has come back."""
        port = self.server.port
        await self.server.__aexit__(None, None, None)
        self.server = await Server(port=port).__aenter__()
        for _ in (self.nc, self.fake.nc):
            await self.reconnected.acquire()
        await self.settle()

    async def close(self) -> None:
        self.fake.answers["_STAN.close.test"] = lambda _: CloseResponse()
        for client in self._clients:
            await client.close()
        for nc in (self.nc, self.fake.nc):
            await nc.close()
        await self.server.__aexit__(None, None, None)


def scenario(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """Runs a coroutine test in a world of its own."""

    @functools.wraps(test)
    async def run() -> None:
        async with asyncio.timeout(TEST_SECONDS):
            world = await World.create()
            try:
                await test(world)
                assert world.reported.empty(), world.reported.get_nowait()
            finally:
                await world.close()

    def wrapper() -> None:
        asyncio.run(run())

    wrapper.__name__ = test.__name__  # type: ignore[attr-defined]
    wrapper.__doc__ = test.__doc__
    return wrapper


async def _ignore(error: Exception) -> None:
    """nats-py's report of a lost connection, which tests cause on purpose."""
