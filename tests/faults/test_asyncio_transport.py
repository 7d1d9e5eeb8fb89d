"""The asyncio transport at moments that a whole server hits only now and then."""

from __future__ import annotations

import asyncio

from headrace.engine.client import ClientLink
from headrace.engine.link import Router
from headrace.server.transport import AsyncioTransport


class RecordingTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def test_bytes_queued_before_a_tick_of_others_are_written_when_the_connection_is_made() -> None:
    router = Router()
    link = ClientLink(router, object())
    link.send(b"INFO {} \r\n")
    router.end_tick()  # another connection's: this one has no transport yet
    protocol = AsyncioTransport(link, router.end_tick, lambda _transport: None, lambda _transport: None)
    transport = RecordingTransport()

    protocol.connection_made(transport)

    assert transport.written == b"INFO {} \r\n"
    link.detach()
