"""An account with something in everything, as a shop would have it: for pictures and for walks over pages."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any, Self

import nats
from nats.js.api import ConsumerConfig, KeyValueConfig, StreamConfig, StreamSource

if TYPE_CHECKING:
    from types import TracebackType

    from nats.js import JetStreamContext

ORDERS = 400


class Content:
    """Clients that stay while the pages are looked at: one publishes, one answers as a service."""

    def __init__(self, url: str, user: str) -> None:
        self._url = url.replace("//", f"//{user}:{user}@")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._clients: list[Any] = []

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._fill(), self._loop).result(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _connect(self, name: str) -> Any:
        client = await nats.connect(self._url, name=name)
        self._clients.append(client)
        return client

    async def _close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _fill(self) -> None:
        shop = await self._connect("shop")
        js = shop.jetstream()
        await self._streams(js)
        await self._buckets(js)
        await self._service()
        billing = await self._connect("billing")
        await billing.subscribe("orders.>", queue="billing")
        await billing.flush()

    async def _streams(self, js: JetStreamContext) -> None:
        await js.add_stream(
            StreamConfig("ORDERS", subjects=["orders.>"], description="All orders of the shop")
        )
        await js.add_stream(StreamConfig("AUDIT", mirror=StreamSource("ORDERS")))
        await js.add_stream(StreamConfig("WORK", subjects=["work.*"], max_msgs=1_000))
        for number in range(ORDERS):
            order = {
                "order": number,
                "customer": f"c{number % 37}",
                "total": number * 1.25,
                "paid": number % 3 == 0,
            }
            await js.publish(f"orders.{('eu', 'us', 'asia')[number % 3]}.new", json.dumps(order).encode())
        await js.add_consumer("ORDERS", ConsumerConfig(durable_name="billing", max_ack_pending=500))
        await js.add_consumer("ORDERS", ConsumerConfig(durable_name="shipping", filter_subject="orders.eu.>"))
        pulled = await js.pull_subscribe("orders.>", "billing", stream="ORDERS")
        for message in await pulled.fetch(120):
            if not message.data.endswith(b"true}"):
                await message.ack()

    async def _buckets(self, js: JetStreamContext) -> None:
        settings = await js.create_key_value(KeyValueConfig("settings", history=5))
        for key, value in {"shop.name": b"Ada's", "shop.open": b"true", "tax.eu": b'{"rate": 0.19}'}.items():
            await settings.put(key, value)
        await settings.put("tax.eu", b'{"rate": 0.2}')
        files = await js.create_object_store("files")
        await files.put("readme.txt", b"Hello, shop.\n" * 200)
        await files.put("data/rows.bin", bytes(range(256)) * 1_000)

    async def _service(self) -> None:
        from nats.micro import add_service
        from nats.micro.service import ServiceConfig

        client = await self._connect("quotes")
        service = await add_service(
            client, ServiceConfig(name="quotes", version="1.2.0", description="Prices")
        )

        async def price(request: Any) -> None:
            await request.respond(b'{"price": 12.5}')

        await service.add_endpoint(name="price", subject="quotes.price", handler=price)
        await client.flush()
