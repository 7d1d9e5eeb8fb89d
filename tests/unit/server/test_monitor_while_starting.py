"""What monitoring says of a server that has not opened its stores yet."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Final

from harness.ports import free_port
from headrace import JetStreamOptions, Options, Server, StreamingOptions
from headrace.server.account_services import HostedAccounts

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGES: Final = (
    *("varz", "jsz?acc=$G&streams=1", "connz", "subsz", "accountz", "accstatz", "metrics", "routez"),
    *("streaming/serverz", "streaming/storez", "streaming/clientsz", "streaming/channelsz"),
)


def page(port: int, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def test_every_page_is_there_and_health_says_that_it_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    port = free_port()
    options = Options(
        host="127.0.0.1",
        port=-1,
        http_port=port,
        jetstream=JetStreamOptions(store_dir=str(tmp_path)),
        streaming=StreamingOptions(),
    )
    start = HostedAccounts.start

    async def run() -> None:
        begins, may_go_on = asyncio.Event(), asyncio.Event()

        async def late(hosted: HostedAccounts) -> None:
            begins.set()
            await may_go_on.wait()
            await start(hosted)

        monkeypatch.setattr(HostedAccounts, "start", late)
        server = Server(options)
        starting = asyncio.create_task(server.start())
        await begins.wait()
        try:
            for path in PAGES:
                assert (await asyncio.to_thread(page, port, path))[0] == 200, path
            code, document = await asyncio.to_thread(page, port, "healthz")
            assert code == 500
            assert json.loads(document) == {
                "status": "error",
                "error": "failed to be ready for connections after 1ms: server",
            }
            may_go_on.set()
            await starting
            assert await asyncio.to_thread(page, port, "healthz") == (200, b'{"status":"ok"}')
        finally:
            may_go_on.set()
            await starting
            await server.stop()

    asyncio.run(run())
    assert not caplog.records
