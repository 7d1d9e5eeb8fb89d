from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import nats
import pytest
from fake_stan import SUBJECTS, scenario

from harness.waiting import PATIENCE
from headrace.client import stan
from headrace.client.errors import ConnectError, MaxPayloadError
from headrace.client.stan.liveness import Pings
from headrace.client.stan.subscription import SPARE_PLACES
from headrace.errors import ProtocolError
from headrace.protocol.stan import (
    Ack,
    CloseRequest,
    CloseResponse,
    ConnectRequest,
    ConnectResponse,
    Ping,
    PingResponse,
    PubAck,
    PubMsg,
    StartPosition,
    SubscriptionResponse,
    UnsubscribeRequest,
)

if TYPE_CHECKING:
    from fake_stan import World

DISCOVER, PINGS, PUB = "_STAN.discover.test", "_STAN.discover.test.pings", "_STAN.pub.test.>"
SUB, UNSUB, SUBCLOSE, CLOSE, ACKS = (
    "_STAN.sub.test",
    "_STAN.unsub.test",
    "_STAN.subclose.test",
    "_STAN.close.test",
    "_ACKS.>",
)


def silent(_: Any) -> None:
    """An answer that never comes."""


# -- connecting -----------------------------------------------------------------------------------


@scenario
async def test_connect_request_says_who_and_how(world: World) -> None:
    client = await world.connect(ping_interval=7, ping_max_out=9)

    request = await world.fake.next(DISCOVER)
    assert request == ConnectRequest(b"me", request.heartbeat_inbox, 1, request.conn_id, 7, 9)
    assert request.heartbeat_inbox.startswith(b"_INBOX.")
    assert len(request.conn_id) >= 16
    assert (client.client_id, client.cluster_id, client.closed) == ("me", "test", False)


@scenario
async def test_connection_ids_differ(world: World) -> None:
    ids = set()
    for _ in range(2):
        await world.connect()
        ids.add((await world.fake.next(DISCOVER)).conn_id)

    assert len(ids) == 2


@scenario
async def test_refused_connect_carries_the_servers_text(world: World) -> None:
    world.fake.answers[DISCOVER] = lambda _: ConnectResponse(error=b"stan: clientID already registered")

    with pytest.raises(stan.StanError, match=r"^stan: clientID already registered$"):
        await world.connect()

    heartbeat_inbox = (await world.fake.next(DISCOVER)).heartbeat_inbox.decode()
    with pytest.raises(nats.errors.NoRespondersError):  # nothing is left behind
        await world.fake.nc.request(heartbeat_inbox, b"", timeout=PATIENCE)


@scenario
async def test_connect_without_an_answer(world: World) -> None:
    world.fake.answers[DISCOVER] = silent

    with pytest.raises(
        stan.StanTimeoutError,
        match=r"^stan: connect request timeout \(possibly wrong cluster ID\?\)$",
    ) as caught:
        await world.connect(connect_timeout=0.02)
    assert isinstance(caught.value, TimeoutError)


@scenario
async def test_connect_to_a_cluster_that_is_not_there_needs_no_waiting(world: World) -> None:
    with pytest.raises(stan.StanTimeoutError, match="possibly wrong cluster ID"):
        await stan.connect("other", "me", nats=world.nc, connect_timeout=1000)


@scenario
async def test_other_discover_prefix(world: World) -> None:
    async def answer(message: Any) -> None:
        await message.respond(SUBJECTS.encode())

    await world.fake.nc.subscribe("elsewhere.test", cb=answer)
    await world.settle()

    await world.connect(discover_prefix="elsewhere")

    assert world.fake.heard[DISCOVER].empty()


@pytest.mark.parametrize("answer", [b"", b"\xff", ConnectResponse(pub_prefix=b"x").encode()])
def test_useless_answers_to_connecting(answer: bytes) -> None:
    @scenario
    async def test(world: World) -> None:
        world.fake.answers[DISCOVER] = lambda _: answer
        with pytest.raises(ProtocolError):
            await world.connect()

    test()


@pytest.mark.parametrize(
    "options",
    [{"ping_interval": 0}, {"ping_max_out": 0}, {"max_pub_acks_in_flight": 0}, {"ping_max_out": -1}],
)
def test_settings_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        asyncio.run(stan.connect("test", "me", **options))


def test_no_nats_server() -> None:
    with pytest.raises(ConnectError, match="no NATS connection for the STAN client"):
        asyncio.run(stan.connect("test", "me", servers="nats://127.0.0.1:1", connect_timeout=0.05))


def test_missing_nats_py_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)

    with pytest.raises(ConnectError, match=r"pip install 'nats-py"):
        asyncio.run(stan.connect("test", "me"))


def test_import_loads_no_nats_py() -> None:
    code = "import sys, headrace.client.stan; sys.exit('nats' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@scenario
async def test_own_nats_connection_is_closed_with_the_client(world: World) -> None:
    async with await stan.connect("test", "me", servers=[world.server.url]) as client:
        assert client.nats.is_connected
        await client.publish("foo", b"x")

    assert client.closed
    assert client.nats.is_closed


@scenario
async def test_refused_connect_closes_the_own_nats_connection(world: World) -> None:
    world.fake.answers[DISCOVER] = lambda _: ConnectResponse(error=b"no")

    with pytest.raises(stan.StanError, match=r"^no$"):
        await stan.connect("test", "me", servers=world.server.url)


# -- publishing -----------------------------------------------------------------------------------


@scenario
async def test_publish_waits_for_its_acknowledgement(world: World) -> None:
    client = await world.connect()

    guid = await client.publish("foo.bar", b"hello")

    conn_id = (await world.fake.next(DISCOVER)).conn_id
    assert await world.fake.next(PUB) == PubMsg(
        b"me", guid.encode(), b"foo.bar", data=b"hello", conn_id=conn_id
    )
    [message] = world.fake.publishes
    assert message.subject == "_STAN.pub.test.foo.bar"
    assert message.reply.startswith("_STAN.acks.")
    assert client.unacknowledged == 0


@scenario
async def test_refused_publish_carries_the_servers_text(world: World) -> None:
    world.fake.answers[PUB] = lambda message: PubAck(message.guid, b"stan: invalid publish request")
    client = await world.connect()

    with pytest.raises(stan.StanError, match=r"^stan: invalid publish request$"):
        await client.publish("foo", b"x")


@scenario
async def test_publish_without_an_acknowledgement(world: World) -> None:
    world.fake.answers[PUB] = silent
    client = await world.connect(pub_ack_timeout=0.02)

    futures = [await client.publish_async("foo", b"%d" % n) for n in range(3)]
    for future in futures:
        with pytest.raises(stan.StanTimeoutError, match=r"^stan: publish ack timeout$"):
            await future
    assert client.unacknowledged == 0

    for message in list(world.fake.publishes):  # too late
        await message.respond(PubAck(PubMsg.decode(message.data).guid).encode())
    world.fake.answers[PUB] = lambda message: PubAck(message.guid)
    await client.publish("foo", b"goes on")


@scenario
async def test_odd_acknowledgements_are_ignored(world: World) -> None:
    world.fake.answers[PUB] = silent
    client = await world.connect()
    future = await client.publish_async("foo", b"x")
    guid = (await world.fake.next(PUB)).guid
    [message] = world.fake.publishes

    for odd in (b"\xff", b"", PubAck(b"unknown").encode(), PubAck(b"", b"error").encode()):
        await message.respond(odd)
    await world.settle()
    assert not future.done()
    for _ in range(2):
        await message.respond(PubAck(guid).encode())

    assert await future == guid.decode()


@scenario
async def test_acknowledgements_in_any_order(world: World) -> None:
    world.fake.answers[PUB] = silent
    client = await world.connect()
    futures = [await client.publish_async("foo", b"%d" % n) for n in range(20)]
    guids = [(await world.fake.next(PUB)).guid for _ in futures]

    for message, guid in reversed(list(zip(world.fake.publishes, guids, strict=True))):
        error = b"refused" if message is world.fake.publishes[7] else b""
        await message.respond(PubAck(guid, error).encode())
    results = await asyncio.gather(*futures, return_exceptions=True)

    assert str(results.pop(7)) == "refused"
    guids.pop(7)
    assert results == [guid.decode() for guid in guids]
    assert len(set(guids)) == 19


@scenario
async def test_on_ack_hears_of_success_and_failure(world: World) -> None:
    world.fake.answers[PUB] = lambda message: PubAck(message.guid, message.data)
    client = await world.connect()
    heard: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    guids = []
    for data in (b"", b"no"):
        future = await client.publish_async("foo", data, lambda *what: heard.put_nowait(what))
        guids.append((await heard.get(), future))

    (good, good_future), (bad, bad_future) = guids
    assert good == (await good_future, None)
    assert str(bad[1]) == "no"
    with pytest.raises(stan.StanError, match=r"^no$"):
        await bad_future


@scenario
async def test_window_of_unacknowledged_publishes(world: World) -> None:
    world.fake.answers[PUB] = silent
    client = await world.connect(max_pub_acks_in_flight=2)
    futures = [await client.publish_async("foo", b"x") for _ in range(2)]
    third = asyncio.create_task(client.publish_async("foo", b"third"))
    await world.settle()
    assert (third.done(), client.unacknowledged, len(world.fake.publishes)) == (False, 2, 2)

    first = world.fake.publishes[0]
    await first.respond(PubAck(PubMsg.decode(first.data).guid).encode())

    futures.append(await third)
    assert client.unacknowledged == 2
    await client.close()
    assert [type(future.exception()) for future in futures] == [type(None), *[stan.StanClosedError] * 2]


@scenario
async def test_publish_that_was_given_up_frees_its_place(world: World) -> None:
    world.fake.answers[PUB] = silent
    client = await world.connect(max_pub_acks_in_flight=1)
    task = asyncio.create_task(client.publish("foo", b"x"))
    guid = (await world.fake.next(PUB)).guid
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    world.fake.answers[PUB] = lambda message: PubAck(message.guid)

    await world.fake.publishes[0].respond(PubAck(guid).encode())

    await client.publish("foo", b"y")


@scenario
async def test_what_cannot_be_sent_takes_no_place(world: World) -> None:
    client = await world.connect(max_pub_acks_in_flight=1)

    for _ in range(2):
        with pytest.raises(MaxPayloadError):
            await client.publish("foo", bytes(2 << 20))
        for channel in ("", "a b", "a\r\nPUB x 0\r\n", "a\tb", "a\0"):
            with pytest.raises(ValueError, match="cannot be a channel's name"):
                await client.publish(channel, b"")

    await client.publish("foo", b"")
    assert (await world.fake.next(PUB)).data == b""


# -- subscribing ----------------------------------------------------------------------------------


@scenario
async def test_subscription_request_with_the_defaults(world: World) -> None:
    client = await world.connect()

    subscription = await client.subscribe("foo")

    request = await world.fake.next(SUB)
    assert request.inbox.decode() == subscription.inbox
    assert (request.client_id, request.subject, request.q_group, request.durable_name) == (
        b"me",
        b"foo",
        b"",
        b"",
    )
    assert (request.max_in_flight, request.ack_wait_in_secs) == (1024, 30)
    assert (request.start_position, request.start_sequence, request.start_time_delta) == (0, 0, 0)
    assert subscription.ack_inbox == "_ACKS.foo"


@scenario
async def test_subscription_request_with_everything(world: World) -> None:
    client = await world.connect()

    await client.subscribe("foo", queue="g", durable_name="d", sequence=7, max_in_flight=2, ack_wait=3)

    request = await world.fake.next(SUB)
    assert (request.q_group, request.durable_name) == (b"g", b"d")
    assert (request.max_in_flight, request.ack_wait_in_secs) == (2, 3)
    assert (request.start_position, request.start_sequence) == (StartPosition.SEQUENCE_START, 7)


@scenario
async def test_each_start(world: World) -> None:
    client = await world.connect()
    starts: list[tuple[dict[str, Any], tuple[int, int, int]]] = [
        ({"start_at": StartPosition.NEW_ONLY}, (0, 0, 0)),
        ({"start_at": StartPosition.LAST_RECEIVED}, (1, 0, 0)),
        ({"start_at": StartPosition.FIRST}, (4, 0, 0)),
        ({"sequence": 3, "start_at": StartPosition.SEQUENCE_START}, (3, 3, 0)),
        ({"sequence": 0}, (3, 0, 0)),
        ({"time_delta": timedelta(days=40, microseconds=1)}, (2, 0, 40 * 86_400 * 10**9 + 1000)),
        ({"time_delta": timedelta(0), "start_at": StartPosition.TIME_DELTA_START}, (2, 0, 0)),
        ({"time_delta": timedelta(seconds=-1)}, (2, 0, 0)),
        ({"time": datetime.now(UTC) + timedelta(days=1)}, (2, 0, 0)),
    ]
    for options, expected in starts:
        await client.subscribe("foo", **options)

        request = await world.fake.next(SUB)
        assert (request.start_position, request.start_sequence, request.start_time_delta) == expected


@scenario
async def test_start_at_a_time_is_told_as_an_age(world: World) -> None:
    client = await world.connect()
    moment = datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)
    earliest = time.time_ns() - 1_600_000_000 * 10**9

    await client.subscribe("foo", time=moment)

    latest = time.time_ns() - 1_600_000_000 * 10**9
    assert earliest <= (await world.fake.next(SUB)).start_time_delta <= latest


@scenario
async def test_starts_that_contradict_themselves(world: World) -> None:
    client = await world.connect()
    hour = timedelta(hours=1)
    wrong: list[dict[str, Any]] = [
        {"sequence": 1, "time_delta": hour},
        {"time": datetime.now(UTC), "time_delta": hour},
        {"start_at": StartPosition.FIRST, "sequence": 1},
        {"start_at": StartPosition.SEQUENCE_START},
        {"start_at": StartPosition.SEQUENCE_START, "time_delta": hour},
        {"start_at": StartPosition.TIME_DELTA_START},
        {"time": datetime(2020, 1, 1)},  # without a zone
        {"sequence": -1},
        {"max_in_flight": 1 << 31},
        {"ack_wait": 1 << 31},
    ]
    for options in wrong:
        with pytest.raises(ValueError):
            await client.subscribe("foo", **options)

    assert world.fake.heard[SUB].empty()


@scenario
async def test_refused_subscription_carries_the_servers_text(world: World) -> None:
    world.fake.answers[SUB] = lambda _: SubscriptionResponse(error=b"stan: duplicate durable registration")
    client = await world.connect()

    with pytest.raises(stan.StanError, match=r"^stan: duplicate durable registration$"):
        await client.subscribe("foo", durable_name="d")


@scenario
async def test_subscription_without_an_answer_is_disowned(world: World) -> None:
    world.fake.answers[SUB] = silent
    client = await world.connect(connect_timeout=0.05)

    with pytest.raises(stan.StanTimeoutError, match=r"^stan: subscribe request timeout$"):
        await client.subscribe("foo", durable_name="d")

    inbox = (await world.fake.next(SUB)).inbox
    assert await world.fake.next(SUBCLOSE) == UnsubscribeRequest(b"me", b"foo", inbox, b"d")


@scenario
async def test_message_that_comes_before_the_answer_is_not_lost(world: World) -> None:
    async def deliver_first(request: Any) -> SubscriptionResponse:
        await world.fake.deliver(request.inbox, 1, 2)
        return SubscriptionResponse(b"_ACKS.early")

    world.fake.answers[SUB] = deliver_first
    client = await world.connect()
    received: asyncio.Queue[stan.Message] = asyncio.Queue()

    await client.subscribe("foo", received.put_nowait)

    assert [(await received.get()).sequence, (await received.get()).sequence] == [1, 2]
    assert [await world.fake.next(ACKS), await world.fake.next(ACKS)] == [Ack(b"foo", 1), Ack(b"foo", 2)]


# -- messages -------------------------------------------------------------------------------------


@scenario
async def test_message_has_all_that_the_server_said(world: World) -> None:
    client = await world.connect()
    received: asyncio.Queue[stan.Message] = asyncio.Queue()
    await client.subscribe("foo", received.put_nowait)

    await world.fake.deliver((await world.fake.next(SUB)).inbox, 5, redelivered=True)

    message = await received.get()
    assert (message.sequence, message.channel, message.reply, message.data) == (5, "foo", "r", b"data 5")
    assert (message.timestamp, message.redelivered, message.redelivery_count) == (10**18, True, 0)


@scenario
async def test_acknowledged_when_the_callback_has_returned(world: World) -> None:
    client = await world.connect()
    working, may_return = asyncio.Event(), asyncio.Event()

    async def callback(message: stan.Message) -> None:
        working.set()
        await may_return.wait()

    await client.subscribe("foo", callback)
    await world.fake.deliver((await world.fake.next(SUB)).inbox, 1)
    await working.wait()
    await world.settle()
    assert world.fake.heard[ACKS].empty()

    may_return.set()

    assert await world.fake.next(ACKS) == Ack(b"foo", 1)


@scenario
async def test_heartbeats_are_answered_while_a_callback_waits(world: World) -> None:
    client = await world.connect()
    working, may_return = asyncio.Event(), asyncio.Event()

    async def callback(message: stan.Message) -> None:
        working.set()
        await may_return.wait()

    await client.subscribe("foo", callback)
    await world.fake.deliver((await world.fake.next(SUB)).inbox, 1)
    await working.wait()

    heartbeat_inbox = (await world.fake.next(DISCOVER)).heartbeat_inbox.decode()
    for _ in range(3):
        assert (await world.fake.nc.request(heartbeat_inbox, b"", timeout=PATIENCE)).data == b""

    await world.fake.nc.publish(heartbeat_inbox, b"nobody to answer")
    may_return.set()
    assert await world.fake.next(ACKS) == Ack(b"foo", 1)


@scenario
async def test_callback_that_raises_is_reported_and_not_acknowledged(world: World) -> None:
    client = await world.connect()

    def callback(message: stan.Message) -> None:
        if message.sequence == 1:
            raise RuntimeError("the application's")

    await client.subscribe("foo", callback)
    await world.fake.deliver((await world.fake.next(SUB)).inbox, 1, 2)

    assert await world.fake.next(ACKS) == Ack(b"foo", 2)
    report = await world.reported.get()
    assert str(report["exception"]) == "the application's"
    assert "'foo'" in report["message"]


@scenario
async def test_manual_acknowledgements(world: World) -> None:
    client = await world.connect()
    received: asyncio.Queue[stan.Message] = asyncio.Queue()
    await client.subscribe("foo", received.put_nowait, manual_acks=True)
    await world.fake.deliver((await world.fake.next(SUB)).inbox, 1, 2)
    await received.get()
    second = await received.get()
    await world.settle()
    assert world.fake.heard[ACKS].empty()

    await second.ack()

    assert await world.fake.next(ACKS) == Ack(b"foo", 2)
    assert second.acknowledged


@scenario
async def test_acknowledging_early_is_not_repeated(world: World) -> None:
    client = await world.connect()
    await client.subscribe("foo", lambda message: message.ack() if message.sequence == 1 else None)

    await world.fake.deliver((await world.fake.next(SUB)).inbox, 1, 2)

    assert [await world.fake.next(ACKS), await world.fake.next(ACKS)] == [Ack(b"foo", 1), Ack(b"foo", 2)]


@scenario
async def test_iterating_acknowledges_what_is_done(world: World) -> None:
    client = await world.connect()
    subscription = await client.subscribe("foo")
    await world.fake.deliver((await world.fake.next(SUB)).inbox, 1, 2, 3)

    sequences = []
    async for message in subscription:
        sequences.append(message.sequence)
        if len(sequences) > 1:
            assert await world.fake.next(ACKS) == Ack(b"foo", message.sequence - 1)
        if len(sequences) == 3:
            break

    await world.settle()
    assert sequences == [1, 2, 3]
    assert world.fake.heard[ACKS].empty()  # nobody said that 3 is done


@scenario
async def test_iteration_ends_with_its_subscription(world: World) -> None:
    client = await world.connect()
    subscription = await client.subscribe("foo")

    async def consume() -> list[int]:
        return [message.sequence async for message in subscription]

    task = asyncio.create_task(consume())
    await world.fake.deliver((await world.fake.next(SUB)).inbox, 1)
    await world.fake.next(ACKS)
    await subscription.close()

    assert await task == [1]
    assert subscription.closed


@scenario
async def test_callback_and_iteration_exclude_each_other(world: World) -> None:
    client = await world.connect()
    subscription = await client.subscribe("foo", print)

    with pytest.raises(RuntimeError, match="callback"):
        await anext(aiter(subscription))


@scenario
async def test_redelivery_of_what_still_waits_is_not_queued_again(world: World) -> None:
    client = await world.connect()
    subscription = await client.subscribe("foo")
    inbox = (await world.fake.next(SUB)).inbox
    await world.fake.deliver(inbox, 1, 2)
    await world.fake.deliver(inbox, 1, 2, redelivered=True)
    await world.fake.deliver(inbox, 3)

    messages = aiter(subscription)
    taken = [await anext(messages) for _ in range(3)]
    assert [(message.sequence, message.redelivered) for message in taken] == [
        (1, False),
        (2, False),
        (3, False),
    ]
    assert subscription.pending == 0

    await world.fake.deliver(inbox, 3, redelivered=True)  # taken already: it comes once more
    assert (await anext(messages)).redelivered
    await messages.aclose()


@scenario
async def test_queue_of_a_subscription_is_bounded(world: World) -> None:
    client = await world.connect()
    subscription = await client.subscribe("foo", max_in_flight=1)
    inbox = (await world.fake.next(SUB)).inbox
    places = 2 + SPARE_PLACES

    await world.fake.deliver(inbox, *range(1, places + 6))
    await world.settle()

    assert (subscription.pending, subscription.refused) == (places, 5)
    await world.fake.deliver(inbox, 1, redelivered=True)  # it has its place
    await world.settle()
    assert (subscription.pending, subscription.refused) == (places, 5)


@scenario
async def test_malformed_message_is_reported_and_skipped(world: World) -> None:
    client = await world.connect()
    subscription = await client.subscribe("foo")
    inbox = (await world.fake.next(SUB)).inbox

    await world.fake.nc.publish(inbox.decode(), b"\x08")
    await world.fake.deliver(inbox, 1)

    messages = aiter(subscription)
    assert (await anext(messages)).sequence == 1
    await messages.aclose()
    assert subscription.refused == 1
    assert isinstance((await world.reported.get())["exception"], ProtocolError)


# -- leaving --------------------------------------------------------------------------------------


@scenario
async def test_unsubscribe_and_close_are_different_requests(world: World) -> None:
    client = await world.connect()
    expected = UnsubscribeRequest(b"me", b"foo", b"_ACKS.foo", b"d")

    await (await client.subscribe("foo", durable_name="d")).unsubscribe()
    assert await world.fake.next(UNSUB) == expected
    await (await client.subscribe("foo", durable_name="d")).close()
    assert await world.fake.next(SUBCLOSE) == expected

    assert world.fake.heard[UNSUB].empty()


@scenario
async def test_subscription_that_has_ended(world: World) -> None:
    client = await world.connect()
    received: asyncio.Queue[stan.Message] = asyncio.Queue()
    subscription = await client.subscribe("foo", received.put_nowait, manual_acks=True)
    inbox = (await world.fake.next(SUB)).inbox
    await world.fake.deliver(inbox, 1)
    message = await received.get()
    await subscription.unsubscribe()

    for call in (subscription.unsubscribe, subscription.close, message.ack):
        with pytest.raises(stan.StanError, match=r"^stan: invalid subscription$"):
            await call()
    await world.fake.deliver(inbox, 2)
    await world.settle()
    assert received.empty()
    assert subscription.pending == 0


@scenario
async def test_answers_to_leaving(world: World) -> None:
    client = await world.connect(connect_timeout=0.05)
    subscriptions = [await client.subscribe("foo") for _ in range(3)]

    world.fake.answers[UNSUB] = lambda _: SubscriptionResponse(error=b"stan: unknown channel")
    with pytest.raises(stan.StanError, match=r"^stan: unknown channel$"):
        await subscriptions[0].unsubscribe()
    world.fake.answers[UNSUB] = world.fake.answers[SUBCLOSE] = silent
    with pytest.raises(stan.StanTimeoutError, match=r"^stan: unsubscribe request timeout$"):
        await subscriptions[1].unsubscribe()
    with pytest.raises(stan.StanTimeoutError, match=r"^stan: close request timeout$"):
        await subscriptions[2].close()


@scenario
async def test_server_without_closing_of_subscriptions(world: World) -> None:
    world.fake.answers[DISCOVER] = lambda _: ConnectResponse(
        SUBJECTS.pub_prefix, SUBJECTS.sub_requests, SUBJECTS.unsub_requests, SUBJECTS.close_requests
    )
    client = await world.connect()
    subscription = await client.subscribe("foo")

    with pytest.raises(stan.StanError, match=r"^stan: not supported by server$"):
        await subscription.close()
    await subscription.unsubscribe()  # which it still can


@scenario
async def test_close_tells_the_server_and_leaves_nats_open(world: World) -> None:
    client = await world.connect()
    subscription = await client.subscribe("foo", print)
    heartbeat_inbox = (await world.fake.next(DISCOVER)).heartbeat_inbox.decode()

    await client.close()
    await client.close()

    assert await world.fake.next(CLOSE) == CloseRequest(b"me")
    assert world.fake.heard[CLOSE].empty()
    assert world.nc.is_connected
    for inbox in (heartbeat_inbox, subscription.inbox):
        with pytest.raises(nats.errors.NoRespondersError):
            await world.fake.nc.request(inbox, b"", timeout=PATIENCE)


@scenario
async def test_everything_of_a_closed_client_says_so(world: World) -> None:
    client = await world.connect()
    received: asyncio.Queue[stan.Message] = asyncio.Queue()
    subscription = await client.subscribe("foo", received.put_nowait, manual_acks=True)
    iterated = aiter(await client.subscribe("bar"))
    await world.fake.deliver((await world.fake.next(SUB)).inbox, 1)
    message = await received.get()
    await client.close()

    calls = [
        client.publish("foo", b""),
        client.publish_async("foo", b""),
        client.subscribe("foo"),
        subscription.unsubscribe(),
        subscription.close(),
    ]
    for call in calls:
        with pytest.raises(stan.StanClosedError, match=r"^stan: connection closed$"):
            await call
    with pytest.raises(stan.StanError):
        await message.ack()
    assert [message async for message in iterated] == []


@scenario
async def test_close_fails_what_is_on_its_way_and_what_waits(world: World) -> None:
    world.fake.answers[PUB] = silent
    client = await world.connect(max_pub_acks_in_flight=2)
    tasks = [asyncio.create_task(client.publish("foo", b"%d" % n)) for n in range(5)]
    await world.fake.next(PUB)
    await world.fake.next(PUB)

    await client.close()

    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(error) for error in errors] == ["stan: connection closed"] * 5
    assert len({id(error) for error in errors}) == 5


@scenario
async def test_close_that_is_refused_or_not_answered_closes(world: World) -> None:
    world.fake.answers[CLOSE] = lambda _: CloseResponse(b"stan: unknown clientID")
    client = await world.connect()
    with pytest.raises(stan.StanError, match=r"^stan: unknown clientID$"):
        await client.close()
    world.fake.answers[CLOSE] = silent
    late = await stan.connect("test", "late", servers=world.server.url, connect_timeout=0.2)
    with pytest.raises(stan.StanTimeoutError, match=r"^stan: close request timeout$"):
        await late.close()

    assert client.closed
    assert late.closed
    assert late.nats.is_closed


@scenario
async def test_close_within_a_callback(world: World) -> None:
    client = await world.connect()
    closed = asyncio.Event()

    async def callback(message: stan.Message) -> None:
        await client.close()
        closed.set()

    await client.subscribe("foo", callback)
    await world.fake.deliver((await world.fake.next(SUB)).inbox, 1, 2)

    await closed.wait()
    await world.settle()
    assert world.fake.heard[ACKS].empty()


# -- pings ----------------------------------------------------------------------------------------


@scenario
async def test_replaced_connection_is_lost(world: World) -> None:
    text = "client has been replaced or is no longer registered"
    world.fake.answers[PINGS] = lambda _: PingResponse(text.encode())
    world.fake.answers[PUB] = silent
    told: asyncio.Queue[tuple[stan.Client, stan.StanConnectionLostError]] = asyncio.Queue()

    async def lost(client: stan.Client, error: stan.StanConnectionLostError) -> None:
        await client.close()  # allowed, and nothing more than nothing
        told.put_nowait((client, error))

    client = await world.connect(ping_interval=0.05, connection_lost=lost)
    iterated = aiter(await client.subscribe("foo"))
    publish = asyncio.create_task(client.publish("foo", b"x"))
    who, error = await told.get()

    conn_id = (await world.fake.next(DISCOVER)).conn_id
    assert await world.fake.next(PINGS) == Ping(conn_id)
    assert (who, str(error), client.closed) == (client, text, True)
    with pytest.raises(stan.StanConnectionLostError, match=text):
        await publish
    with pytest.raises(stan.StanConnectionLostError, match=text):
        await anext(iterated)
    with pytest.raises(stan.StanClosedError, match=r"^stan: connection closed$"):
        await client.publish("foo", b"x")
    await client.close()
    assert world.fake.heard[CLOSE].empty()  # the server has another client of that ID now
    assert world.nc.is_connected


@scenario
async def test_unanswered_pings_lose_the_connection(world: World) -> None:
    world.fake.answers[PINGS] = silent
    told: asyncio.Queue[tuple[Any, Exception]] = asyncio.Queue()

    client = await stan.connect(
        "test",
        "me",
        servers=world.server.url,
        ping_interval=0.01,
        ping_max_out=3,
        connection_lost=lambda *what: told.put_nowait(what),
    )

    assert str((await told.get())[1]) == "stan: connection lost due to PING failure"
    await world.settle()
    assert world.fake.heard[PINGS].qsize() == 3
    assert client.nats.is_closed


@scenario
async def test_streaming_server_that_is_gone_does_not_answer_pings(world: World) -> None:
    """NATS answers 503 in its place, which has an empty body as a good answer has."""
    told: asyncio.Queue[tuple[Any, Exception]] = asyncio.Queue()
    world.fake.answers[DISCOVER] = lambda _: ConnectResponse(
        **{name: getattr(SUBJECTS, name) for name in ConnectResponse.__slots__ if name != "ping_requests"},
        ping_requests=b"nobody.listens",
    )

    await world.connect(
        ping_interval=0.01, ping_max_out=2, connection_lost=lambda *what: told.put_nowait(what)
    )

    assert str((await told.get())[1]) == "stan: connection lost due to PING failure"


@scenario
async def test_odd_answers_to_pings(world: World) -> None:
    world.fake.answers[PINGS] = lambda _: b"\xff"
    told: asyncio.Queue[tuple[Any, Exception]] = asyncio.Queue()

    await world.connect(
        ping_interval=0.01, ping_max_out=2, connection_lost=lambda *what: told.put_nowait(what)
    )

    assert str((await told.get())[1]) == "stan: connection lost due to PING failure"


@scenario
async def test_nats_connection_that_closed_for_good(world: World) -> None:
    told: asyncio.Queue[tuple[Any, Exception]] = asyncio.Queue()
    client = await world.connect(ping_interval=0.01, connection_lost=lambda *what: told.put_nowait(what))

    await world.nc.close()

    assert str((await told.get())[1]) == "stan: connection closed"
    assert client.closed


@scenario
async def test_server_decides_on_pings(world: World) -> None:
    world.fake.answers[DISCOVER] = lambda _: ConnectResponse(
        **{
            **{name: getattr(SUBJECTS, name) for name in ConnectResponse.__slots__},
            "ping_interval": 1000,
            "ping_max_out": 5,
        }
    )
    await world.connect(ping_interval=0.001)

    await asyncio.sleep(0.02)  # pings of the client's own interval would come now
    await world.settle()

    assert world.fake.heard[PINGS].empty()


def test_pings_that_are_answered_go_on() -> None:
    async def test() -> list[str]:
        events: list[str] = []
        enough = asyncio.Event()

        async def send() -> None:
            events.append("ping")
            if len(events) < 6:
                pings.answered("")

        def lost(reason: str) -> None:
            events.append(reason)
            enough.set()

        pings = Pings(send, lost, 0.001, 3)
        pings.start()
        async with asyncio.timeout(10):
            await enough.wait()
        pings.answered("too late")
        return events

    # Five are answered, three are let pass, then it is enough; nobody is told twice.
    assert asyncio.run(test()) == ["ping"] * 8 + ["stan: connection lost due to PING failure"]


# -- NATS reconnects ------------------------------------------------------------------------------


@scenario
async def test_goes_on_after_nats_reconnected(world: World) -> None:
    received: asyncio.Queue[stan.Message] = asyncio.Queue()
    client = await world.connect(ping_interval=0.05)
    await client.subscribe("foo", received.put_nowait)
    inbox = (await world.fake.next(SUB)).inbox
    await client.publish("foo", b"before")
    first = await world.fake.next(PUB)

    await world.restart_nats()
    await client.publish("foo", b"after")
    await world.fake.deliver(inbox, 1)

    assert (await world.fake.next(PUB)).conn_id == first.conn_id
    assert (await received.get()).sequence == 1
    assert await world.fake.next(ACKS) == Ack(b"foo", 1)
    for _ in range(world.fake.heard[PINGS].qsize() + 1):
        assert await world.fake.next(PINGS) == Ping(first.conn_id)
    assert world.fake.heard[DISCOVER].qsize() == 1  # it did not register again
