"""What a server keeps of messages that were traced."""

from __future__ import annotations

import asyncio

from harness.wire import Wire
from headrace import Options, Server
from headrace.conf.account_options import AccountOptions, UserOptions
from headrace.engine.memory import live_objects

ASKS = b"NATS/1.0\r\nNats-Trace-Dest: t\r\n\r\n"
CONNECT = b'CONNECT {"verbose":false,"headers":true,"user":"u","pass":"p"}\r\n'
TRACED = b"SUB t 1\r\nHPUB a %d %d\r\n%b\r\n" % (len(ASKS), len(ASKS), ASKS)


def test_an_account_that_ends_takes_with_it_what_its_traces_went_out_by(engine_balance: None) -> None:
    account = AccountOptions("A", users=(UserOptions(user="u", password="p"),))

    async def run() -> None:
        async with Server(Options(host="127.0.0.1", port=-1, accounts=(account,))) as server:
            server.accounts.replace([account], ["A"])
            links = live_objects()["links"]
            with await asyncio.to_thread(Wire, ("127.0.0.1", server.port)) as wire:
                wire.send(CONNECT + TRACED)
                await asyncio.to_thread(wire.take_through, b"MSG t 1")
            while server.clients:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.001)
            server.accounts.replace([account], ["A"])
            await asyncio.sleep(0)
            assert live_objects()["links"] == links

    asyncio.run(run())
