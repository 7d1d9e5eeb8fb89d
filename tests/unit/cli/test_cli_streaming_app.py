"""How options become a streaming service in the server's process (`headrace.app`)."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from headrace import Options, Server, app
from headrace.client import stan
from headrace.conf import streaming_options as conf
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.streaming_options import NATSServerOptions
from headrace.errors import StartError
from headrace.log.store import FileStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def handler() -> Iterator[logging.Handler]:
    handler = logging.NullHandler()
    yield handler
    handler.close()


def test_store_is_given_back_after_the_service(tmp_path: Path) -> None:
    options = conf.StreamingOptions(store_type="FILE", directory=str(tmp_path / "store"))

    async def use() -> None:
        with (
            app.streaming_service(options, pytest.fail),
            pytest.raises(StartError, match=r"STREAM: Failed to start: another process has .* open"),
            app.streaming_service(options, pytest.fail),
        ):
            pytest.fail("the store is open twice")

    asyncio.run(use())

    FileStore(tmp_path / "store").close()


@pytest.mark.parametrize("cipher", ["AES", "CHACHA"])
def test_store_is_encrypted_with_the_key_and_opens_with_no_other(tmp_path: Path, cipher: str) -> None:
    options = conf.StreamingOptions(
        store_type="FILE", directory=str(tmp_path / "store"), encryption_cipher=cipher, encryption_key="k"
    )

    async def publish(*changes: tuple[str, str | None]) -> None:
        streaming_options = replace(options, **dict(changes))
        with app.streaming_service(streaming_options, pytest.fail) as service:
            async with Server(Options(host="127.0.0.1", port=-1), services=[service]) as server:
                client = await stan.connect("test-cluster", "me", servers=server.url)
                await client.publish("secrets.kept", b"nobody reads this on the disk")
                await client.close()

    asyncio.run(publish())
    stored = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert b"nobody reads" not in stored
    asyncio.run(publish())
    for other in ("another", None):
        with pytest.raises(StartError, match="key"):
            asyncio.run(publish(("encryption_key", other)))


def test_service_that_cannot_go_on_ends_the_process_with_a_failure(
    handler: logging.Handler, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> int:
        process = app.Process(Options(host="127.0.0.1", port=-1), handler)
        serving = asyncio.create_task(process.serve())
        await process.started.wait()
        process.fail('discovered another streaming server with cluster ID "c"')
        return await serving

    with caplog.at_level(logging.CRITICAL, "headrace.server"):
        assert asyncio.run(run()) == app.EXIT_FAILURE

    assert caplog.messages == [
        'STREAM: Failed to start: discovered another streaming server with cluster ID "c"'
    ]


def test_plain_start_loads_no_streaming() -> None:
    import subprocess
    import sys

    code = (
        "import sys, headrace.app; from headrace.cli import serve;"
        "print([name for name in sys.modules if name.startswith(('headrace.streaming', 'headrace.log'))])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert shown.stdout == "[]\n"


@pytest.fixture
def _handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handle in before.items():
        signal.signal(number, handle)


@pytest.mark.usefixtures("_handlers_as_before")
def test_jetstream_cannot_be_beside_streaming_for_a_server_elsewhere(handler: logging.Handler) -> None:
    """A file that says so is refused when it is read; options made in Python when the server starts."""
    elsewhere = conf.StreamingOptions(nats_server=NATSServerOptions("nats://127.0.0.1:1"))
    both = Options(streaming=elsewhere, jetstream=JetStreamOptions(store_dir="unused"))
    with pytest.raises(
        StartError, match=r"^JetStream cannot be here: streaming uses a NATS server elsewhere$"
    ):
        asyncio.run(app.serve(app.Process(both, handler)))


def test_a_store_is_converted_to_the_cipher_that_is_configured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """nats-streaming-server reads both with one key, and what was stored before there was one."""
    options = conf.StreamingOptions(store_type="FILE", directory=str(tmp_path / "store"))

    async def publish_and_read(times: int, **changes: str) -> int:
        with app.streaming_service(replace(options, **changes), pytest.fail) as service:
            async with Server(Options(host="127.0.0.1", port=-1), services=[service]) as server:
                client = await stan.connect("test-cluster", "me", servers=server.url)
                await client.publish("kept", b"nobody reads this on the disk")
                found = await client.subscribe("kept", sequence=1)
                seen: list[bytes] = []
                async for message in found:
                    seen.append(message.data)
                    if len(seen) == times:
                        break
                await client.close()
        return len(seen)

    caplog.set_level(logging.INFO, logger="headrace")
    key = {"encryption_key": "k"}
    steps = ({}, key | {"encryption_cipher": "AES"}, key | {"encryption_cipher": "CHACHA"})
    for times, changes in enumerate(steps, start=1):
        assert asyncio.run(publish_and_read(times, **changes)) == times
        stored = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
        assert (b"nobody reads" in stored) == (times == 1)
    assert "STREAM: Encrypting channel kept" in caplog.messages
    assert "STREAM: Converting to ChaCha20-Poly1305 for channel kept" in caplog.messages
