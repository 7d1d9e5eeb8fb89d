"""Replay and administration by a NATS client that knows nothing of streaming, from a server process."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes import STREAMING, ServerProcess
from headrace.client import stan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nats.aio.client import Client as NatsClient
    from nats.aio.msg import Msg

    from clients.conftest import Clients

COUNT = 100


def start(folder: Path, store: Path, config: str | None = None) -> ServerProcess:
    folder.mkdir(exist_ok=True)
    server = ServerProcess(
        STREAMING, folder, "--cluster_id", "shop", "-st", "FILE", "-dir", str(store), config=config
    )
    server.wait_for_line("Streaming Server is ready")
    return server


@pytest.fixture
def streaming(tmp_path: Path) -> Iterator[ServerProcess]:
    with start(tmp_path / "server", tmp_path / "store") as server:
        yield server


async def fill(server: ServerProcess) -> None:
    async with await stan.connect("shop", "filler", servers=server.url) as client:
        for n in range(COUNT):
            await client.publish(f"orders.{'eu' if n % 2 else 'us'}", b"%d" % n)


async def replayed(client: NatsClient, **request: Any) -> tuple[list[Msg], dict[str, str]]:
    """Messages up to the end, and the headers of the end."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    await client.publish("_STAN.replay.shop", json.dumps(request).encode(), reply=inbox)
    messages = []
    while True:
        message = await subscription.next_msg(timeout=10)
        if "Status" in (message.headers or {}):
            await subscription.unsubscribe()
            return messages, dict(message.headers or {})
        messages.append(message)


async def ask(client: NatsClient, verb: str, **request: Any) -> dict[str, Any]:
    answer = await client.request(f"_STAN.admin.shop.{verb}", json.dumps(request).encode(), timeout=10)
    document: dict[str, Any] = json.loads(answer.data)
    return document


async def test_any_client_replays_by_wildcard_in_parts(streaming: ServerProcess, connect: Clients) -> None:
    await fill(streaming)
    client = await connect(streaming)

    whole, end = await replayed(client, channel="orders.*")
    assert [int(message.data) for message in whole] == list(range(COUNT))
    assert (end["Status"], end["Description"], end["Nats-Num-Pending"]) == ("204", "EOB", "0")
    assert whole[3].headers is not None
    assert (whole[3].headers["Nats-Stream"], whole[3].headers["Nats-Sequence"]) == ("orders.eu", "2")

    request: dict[str, Any] = {"channel": "orders.>", "max_messages": 30}
    found: list[int] = []
    while True:
        part, end = await replayed(client, **request)
        found += [int(message.data) for message in part]
        if end["Nats-Num-Pending"] == "0":
            break
        request["after"] = end["Nats-Replay-After"]
    assert found == list(range(COUNT))
    _, refused = await replayed(client, channel="orders.>", chanel=1)
    assert (refused["Status"], refused["Description"][:12]) == ("400", "Bad Request:")


async def test_channels_are_purged_and_deleted_for_good(
    streaming: ServerProcess, connect: Clients, tmp_path: Path
) -> None:
    await fill(streaming)
    client = await connect(streaming)
    before = {one["name"]: one["created"] for one in (await ask(client, "channels"))["channels"]}
    assert (await ask(client, "purge", channel="orders.eu", keep=10))["purged"] == COUNT // 2 - 10
    assert (await ask(client, "delete", channel="orders.us"))["deleted"]
    assert (await ask(client, "delete", channel="orders.us"))["error"]["code"] == 404
    streaming.process.kill()
    streaming.process.wait()

    with start(tmp_path / "again", tmp_path / "store") as server:
        client = await connect(server)
        (left,) = (await ask(client, "report"))["channels"]
        assert (left["name"], left["msgs"], left["last_seq"]) == ("orders.eu", 10, COUNT // 2)
        assert left["created"] == before["orders.eu"]


async def test_reader_that_does_not_read_is_waited_for(tmp_path: Path) -> None:
    """What a reader has unread stays in its socket's buffers and a bounded outbox; nothing is lost."""
    from headrace.log.port import NewMessage, SyncPolicy
    from headrace.log.store import FileStore

    count, size = 40_000, 1000
    store = FileStore(tmp_path / "store", sync=SyncPolicy.NEVER)
    log = store.open(b"long")
    for _ in range(count // 1000):
        log.append([NewMessage(b"long", b"x" * size)] * 1000)
    store.close()
    # Ten times as much as may wait for one connection: a server that only sends would cut the reader off.
    with start(tmp_path / "server", tmp_path / "store", "max_pending: 4MB\n") as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        request = b'{"channel": "long"}'
        writer.write(b'CONNECT {"verbose": false, "headers": true}\r\nSUB box 1\r\n')
        writer.write(b"PUB _STAN.replay.shop box %d\r\n%b\r\n" % (len(request), request))
        other = await stan.connect("shop", "other", servers=server.url)
        for n in range(20):  # the server goes on serving others meanwhile
            await other.publish("other", b"%d" % n)
        await other.close()
        data = b""
        while b"204 EOB" not in data:
            more = await reader.read(1 << 20)
            assert more, "the server has cut its reader off"
            data = data[-200:] + more
        writer.close()
        assert b"Nats-Last-Sequence: %d" % count in data
