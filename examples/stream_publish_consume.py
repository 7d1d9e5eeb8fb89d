"""Publish to a stream, work on its messages, and go on where a durable consumer was. With nats-py.

    headrace serve -js -sd store
    python examples/stream_publish_consume.py nats://127.0.0.1:4222

Needs `pip install nats-py`.
"""

import asyncio
import sys

import nats


async def walk(url: str) -> list[str]:
    """What happened, line by line."""
    lines = []
    async with await nats.connect(url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="ORDERS", subjects=["orders.*"])
        for order, id_ in (("one tea", "o1"), ("two coffees", "o2"), ("two coffees", "o2")):
            # Returns when the server has stored it. Sent again with the same id, it is stored once.
            stored = await js.publish("orders.new", order.encode(), headers={"Nats-Msg-Id": id_})
        lines.append(f"{stored.seq} orders, sent again: {stored.duplicate}")

        kitchen = await js.pull_subscribe("orders.*", durable="kitchen", stream="ORDERS")
        for message in await kitchen.fetch(2):
            lines.append(f"order {message.metadata.sequence.stream}: {message.data.decode()}")
            await message.ack_sync()  # the server has noted it: it does not come again
        await kitchen.unsubscribe()

        await js.publish("orders.new", b"three cakes")
        kitchen = await js.pull_subscribe_bind("kitchen", "ORDERS")
        [message] = await kitchen.fetch(1)
        lines.append(f"order {message.metadata.sequence.stream}, after a break: {message.data.decode()}")
        await message.ack_sync()
    return lines


if __name__ == "__main__":
    print(*asyncio.run(walk(*sys.argv[1:2] or ["nats://127.0.0.1:4222"])), sep="\n")
