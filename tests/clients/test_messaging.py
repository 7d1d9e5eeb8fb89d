"""Publish, subscribe, queue groups, headers, drain: a client's daily bread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nats.errors import MaxPayloadError

from harness.nats_py import settle
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from clients.conftest import Clients
    from harness.processes import ServerProcess


async def test_connect_with_name_learns_the_server(server: ServerProcess, connect: Clients) -> None:
    client = await connect(server, name="reader")

    assert client.is_connected
    assert client.max_payload == 1 << 20
    assert client.connected_server_version.major == 2
    assert client.client_id > 0


async def test_published_message_reaches_a_subscriber(server: ServerProcess, connect: Clients) -> None:
    reader, writer = await connect(server), await connect(server)
    subscription = await reader.subscribe("greet.joe")
    await settle(reader)

    await writer.publish("greet.joe", b"hello", reply="answers")
    message = await subscription.next_msg(timeout=PATIENCE)

    assert (message.subject, message.data, message.reply) == ("greet.joe", b"hello", "answers")


async def test_wildcard_subscriptions_get_what_they_match(server: ServerProcess, connect: Clients) -> None:
    client = await connect(server)
    one = await client.subscribe("wild.*.end")
    rest = await client.subscribe("wild.>")
    for subject in ("wild.a.end", "wild.a.b", "wild.a.end.more", "wild", "wild.z.end"):
        await client.publish(subject, b"")

    assert await subjects(one, 2) == ["wild.a.end", "wild.z.end"]
    assert await subjects(rest, 4) == ["wild.a.end", "wild.a.b", "wild.a.end.more", "wild.z.end"]


async def test_queue_group_shares_messages_among_all_members(server: ServerProcess, connect: Clients) -> None:
    counts, done = [0, 0, 0], asyncio.Event()
    plain = await (await connect(server)).subscribe("work.plain")
    for index in range(3):
        member = await connect(server)

        async def take(message: Msg, index: int = index) -> None:
            counts[index] += 1
            if sum(counts) == 300:
                done.set()

        await member.subscribe("work.*", queue="workers", cb=take)
        await settle(member)
    writer = await connect(server)
    for _ in range(300):
        await writer.publish("work.plain", b"")

    assert await subjects(plain, 300) == ["work.plain"] * 300
    await done.wait()
    assert min(counts) > 50


async def test_unsubscribe_after_limit_delivers_exactly_that_many(
    server: ServerProcess, connect: Clients
) -> None:
    client = await connect(server)
    limited = await client.subscribe("limited")
    witness = await client.subscribe("limited")
    await limited.unsubscribe(limit=3)
    for number in range(5):
        await client.publish("limited", b"%d" % number)

    assert len(await subjects(witness, 5)) == 5
    assert limited.delivered == 3


async def test_unsubscribed_client_gets_nothing_more(server: ServerProcess, connect: Clients) -> None:
    client = await connect(server)
    leaving = await client.subscribe("leaving")
    staying = await client.subscribe("leaving")
    await leaving.unsubscribe()
    await client.publish("leaving", b"x")

    assert await subjects(staying, 1) == ["leaving"]
    assert leaving.pending_msgs == 0


async def test_no_echo_client_does_not_hear_itself(server: ServerProcess, connect: Clients) -> None:
    client, other = await connect(server, no_echo=True), await connect(server)
    own = await client.subscribe("echo")
    await settle(client)
    await client.publish("echo", b"mine")
    await settle(client)
    await other.publish("echo", b"theirs")

    assert (await own.next_msg(timeout=PATIENCE)).data == b"theirs"


async def test_headers_with_several_values_arrive_as_sent(server: ServerProcess, connect: Clients) -> None:
    client = await connect(server)
    subscription = await client.subscribe("headed")
    await client.publish("headed", b"body", headers={"One": "1", "Two-Words": "with spaces: and colons"})
    await client.publish("headed", b"", headers={"Only": "headers"})

    first = await subscription.next_msg(timeout=PATIENCE)
    second = await subscription.next_msg(timeout=PATIENCE)

    assert first.headers == {"One": "1", "Two-Words": "with spaces: and colons"}
    assert first.data == b"body"
    assert (second.headers, second.data) == ({"Only": "headers"}, b"")


async def test_drained_subscription_handles_what_had_arrived(server: ServerProcess, connect: Clients) -> None:
    reader, writer = await connect(server), await connect(server)
    handled: list[bytes] = []
    done = asyncio.Event()

    async def handle(message: Msg) -> None:
        await asyncio.sleep(0.001)
        handled.append(message.data)
        if len(handled) == 20:
            done.set()

    subscription = await reader.subscribe("drained", cb=handle)
    await settle(reader)
    for number in range(20):
        await writer.publish("drained", b"%d" % number)
    await settle(writer)
    await subscription.drain()
    await writer.publish("drained", b"too late")
    await settle(writer)

    await done.wait()
    await settle(reader)
    assert handled == [b"%d" % number for number in range(20)]


async def test_drained_connection_loses_nothing_it_published(server: ServerProcess, connect: Clients) -> None:
    reader, writer = await connect(server), await connect(server)
    subscription = await reader.subscribe("last.words")
    await settle(reader)
    for number in range(100):
        await writer.publish("last.words", b"%d" % number)
    await writer.drain()

    assert writer.is_closed
    received = [(await subscription.next_msg(timeout=PATIENCE)).data for _ in range(100)]
    assert received == [b"%d" % number for number in range(100)]


async def test_repeated_header_of_another_client_is_passed_on(
    server: ServerProcess, connect: Clients
) -> None:
    client = await connect(server)
    subscription = await client.subscribe("repeated")
    await settle(client)
    headers = b"NATS/1.0\r\nKey: one\r\nKey: two\r\nOther: x\r\n\r\n"
    with server.connect(b'{"verbose":false,"headers":true}') as wire:
        wire.send(b"HPUB repeated %d %d\r\n%bhi\r\n" % (len(headers), len(headers) + 2, headers))
        wire.sync()

    message = await subscription.next_msg(timeout=PATIENCE)

    assert message.data == b"hi"
    assert message.headers is not None
    assert message.headers["Key"] in ("one", "two", ["one", "two"])  # as the client likes
    assert message.headers["Other"] == "x"


async def test_large_messages_arrive_whole(server: ServerProcess, connect: Clients) -> None:
    client = await connect(server)
    subscription = await client.subscribe("large")
    payloads = [bytes([number]) * (1 << 20) for number in range(5)]
    for payload in payloads:
        await client.publish("large", payload)

    assert [(await subscription.next_msg(timeout=10)).data for _ in payloads] == payloads


async def test_message_over_max_payload_is_refused_by_the_client(
    server: ServerProcess, connect: Clients
) -> None:
    client = await connect(server)
    try:
        await client.publish("large", bytes((1 << 20) + 1))
    except MaxPayloadError:
        return
    raise AssertionError("the client sent more than INFO allows")


async def test_hundred_thousand_messages_arrive_in_order(server: ServerProcess, connect: Clients) -> None:
    total = 100_000
    reader, writer = await connect(server), await connect(server, pending_size=8 << 20)
    numbers: list[int] = []
    done = asyncio.Event()

    async def note(message: Msg) -> None:
        numbers.append(int(message.data))
        if len(numbers) == total:
            done.set()

    await reader.subscribe("many", cb=note, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await settle(reader)
    for number in range(total):
        await writer.publish("many", b"%d" % number)
        if number % 5000 == 0:
            await settle(writer)
    await done.wait()

    assert numbers == list(range(total))


async def test_fifty_clients_each_get_every_message(server: ServerProcess, connect: Clients) -> None:
    clients = await asyncio.gather(*(connect(server) for _ in range(50)))
    subscriptions = [await client.subscribe("crowd") for client in clients]
    await asyncio.gather(*(settle(client) for client in clients))
    for number, client in enumerate(clients):
        await client.publish("crowd", b"%d" % number)

    for subscription in subscriptions:
        got = {(await subscription.next_msg(timeout=PATIENCE)).data for _ in clients}
        assert got == {b"%d" % number for number in range(50)}


async def subjects(subscription: Subscription, count: int) -> list[str]:
    """Subjects of the next `count` messages."""
    return [(await subscription.next_msg(timeout=PATIENCE)).subject for _ in range(count)]
