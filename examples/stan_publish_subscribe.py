"""Publish to a channel, read it back from its start, and go on where a durable subscription was.

    headrace streaming
    python examples/stan_publish_subscribe.py nats://127.0.0.1:4222 test-cluster

Needs `pip install nats-py`.
"""

import asyncio
import sys

from headrace.client import stan


async def walk(url: str, cluster: str) -> list[str]:
    """What happened, line by line."""
    lines = []
    async with await stan.connect(cluster, "example-shop", servers=url) as shop:
        for order in ("one tea", "two coffees"):
            await shop.publish("orders", order.encode())  # returns when the server has stored it

        async def prepare(message: stan.Message) -> None:
            lines.append(f"order {message.sequence}: {message.data.decode()}")
            if message.sequence == 2:
                done.set()

        done = asyncio.Event()
        kitchen = await shop.subscribe(
            "orders", prepare, durable_name="kitchen", start_at=stan.StartPosition.FIRST
        )
        await done.wait()
        await kitchen.close()  # the server remembers where the kitchen was

        await shop.publish("orders", b"three cakes")
        kitchen = await shop.subscribe("orders", durable_name="kitchen")
        async for message in kitchen:
            lines.append(f"order {message.sequence}, after a break: {message.data.decode()}")
            await message.ack()
            break
        await kitchen.unsubscribe()  # now it forgets
    return lines


if __name__ == "__main__":
    where, cluster_id = [*sys.argv[1:], *["nats://127.0.0.1:4222", "test-cluster"][len(sys.argv) - 1 :]]
    print(*asyncio.run(walk(where, cluster_id)), sep="\n")
