"""Clients across restarts, pings, and a server that says goodbye."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from harness.nats_py import settle
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from clients.conftest import Clients
    from harness.processes import ServerProcess


async def test_client_reconnects_after_a_restart_and_keeps_its_subscriptions(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    first = any_server()
    port = first.port
    disconnected, reconnected = asyncio.Event(), asyncio.Event()

    async def note_loss() -> None:
        disconnected.set()

    async def note_return() -> None:
        reconnected.set()

    client = await connect(
        first,
        allow_reconnect=True,
        reconnect_time_wait=0.02,
        max_reconnect_attempts=-1,
        disconnected_cb=note_loss,
        reconnected_cb=note_return,
    )
    subscription = await client.subscribe("still.here")
    await settle(client)

    assert first.stop() in (0, 1)
    await disconnected.wait()
    second = any_server(None, listen=("-a", "127.0.0.1", "-p", str(port)))
    await reconnected.wait()
    await (await connect(second)).publish("still.here", b"again")

    assert (await subscription.next_msg(timeout=PATIENCE)).data == b"again"


async def test_client_reconnects_after_the_server_was_killed(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    first = any_server()
    reconnected = asyncio.Event()

    async def note_return() -> None:
        reconnected.set()

    client = await connect(
        first,
        allow_reconnect=True,
        reconnect_time_wait=0.02,
        max_reconnect_attempts=-1,
        reconnected_cb=note_return,
    )

    port = first.port
    first.kill()
    any_server(None, listen=("-a", "127.0.0.1", "-p", str(port)))
    await reconnected.wait()

    await settle(client)


async def test_pinging_client_and_pinging_server_keep_the_connection(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server('ping_interval: "50ms"\nping_max: 2\n')
    client = await connect(server, ping_interval=0.05)
    subscription = await client.subscribe("alive")

    await asyncio.sleep(0.5)  # ten intervals of both sides: what is tested is that nothing happens
    await client.publish("alive", b"x")

    assert (await subscription.next_msg(timeout=PATIENCE)).data == b"x"
    assert client.is_connected


async def test_lame_duck_notice_reaches_the_client(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server('lame_duck_grace_period: "100ms"')
    told, closed = asyncio.Event(), asyncio.Event()

    async def note_notice() -> None:
        told.set()

    async def note_close() -> None:
        closed.set()

    client = await connect(server, lame_duck_mode_cb=note_notice, closed_cb=note_close)
    await settle(client)

    server.signal(signal.SIGUSR2)
    await told.wait()
    await closed.wait()

    assert await asyncio.to_thread(server.wait) == 0
