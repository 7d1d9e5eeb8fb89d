"""Requests for the console's files: seeds, as they are and with bytes changed, whole and in pieces."""

from __future__ import annotations

import asyncio
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace import limits
from headrace.console.site import ConsoleSite, HostNames
from headrace.server.websocket.pages import Pages

SEEDS = sorted((Path(__file__).parent / "corpus" / "page-requests").iterdir())
SITE = ConsoleSite("/console", b"{}", HostNames([]))
_DATE = re.compile(rb"Date: [^\r]*\r\n")


class Taking:
    """A transport whose other end takes everything at once."""

    def __init__(self) -> None:
        self.written = b""
        self.is_ended = False
        self.protocol: Any = None

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes) -> None:
        assert not self.is_ended, "nothing is said behind the end"
        self.written += data

    def write_eof(self) -> None:
        self.is_ended = True

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.protocol.connection_lost(None)


def said(data: bytes, cuts: list[int]) -> tuple[bytes, bool]:
    """What a server says to bytes that come in these pieces, without the time; True: it ends.

    Called on a loop, whose timers it sets and ends.
    """
    pages = Pages(SITE)
    transport = Taking()
    first, *others = [data[at:end] for at, end in pairwise([0, *cuts, len(data)])]
    pages.serve(transport, first)  # type: ignore[arg-type]  # all of a transport that it uses
    for piece in others:
        transport.protocol.data_received(piece)
    pages.close()
    return _DATE.sub(b"", transport.written), transport.is_ended


def check(seed: str, data: bytes) -> None:
    whole, is_ended = said(data, [])
    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", whole)

    assert len(statuses) <= limits.CONSOLE_REQUESTS
    assert set(statuses) <= {b"200", b"304", b"308", b"400", b"404", b"405", b"421", b"431"}
    assert said(data, list(range(1, min(len(data), 400)))) == (whole, is_ended)
    chance = random.Random(seed)
    for _ in range(20):
        text = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            text[chance.randrange(len(text))] = chance.randrange(256)
        cuts = sorted({chance.randrange(1, len(text)) for _ in range(3)})
        assert said(bytes(text), cuts) == said(bytes(text), [])


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_pieces_are_answered_as_the_whole(seed: Path) -> None:
    data = seed.read_bytes()

    async def play() -> None:
        check(seed.name, data)

    asyncio.run(play())
