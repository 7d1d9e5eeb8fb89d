"""What a fuzz input of MQTT over WebSocket means, and what must hold whatever it is.

The first byte says whether messages may be compressed, and whether a browser is at the other end; the rest is
what a client sends behind its upgrade. Whole and cut anywhere it comes to the same packets, answers and end;
what is answered reads as frames, and what is in them as packets.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import random
import zlib
from typing import TYPE_CHECKING, Any, Final

from mqtt_peers import MqttBroker, MqttSession, read_packets
from websockets.frames import Opcode
from websockets.protocol import Protocol, Side, State
from websockets.server import ServerProtocol

from headrace.engine.memory import live_objects
from headrace.engine.reasons import CloseReason
from headrace.server.websocket.deflate import LargeMessagesDeflate
from headrace.server.websocket.transport import READ_SIZE, WebSocketTransport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

    from websockets.frames import Frame

    from headrace.engine.link import Link

COMPRESSED: Final = 1
BROWSER: Final = 2
MAX_MESSAGE: Final = 1 << 16
_MOST_TICKS: Final = 1000
_KEPT_CALLS: Final = frozenset({"packet", "publication", "retain", "spark", "violation", "failed"})
_QUIET: Final = logging.getLogger("headrace.test.websocket")
_QUIET.setLevel(logging.CRITICAL)
_BUFFER: Final = memoryview(bytearray(READ_SIZE))


class _Socket(asyncio.Transport):
    """An asyncio transport that takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.reads = True
        self.closes = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Writes are taken at once."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.written += b"".join(list_of_data)

    def is_closing(self) -> bool:
        return self.closes

    def close(self) -> None:
        self.closes = True

    abort = close

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class _Connection:
    """A `WebSocketConnection` of a client that is known."""

    is_unknown = False
    most_unknown = 0

    def __init__(self, link: Link) -> None:
        self.link = link
        self.errors: list[str] = []

    def carried(self, _transport: WebSocketTransport, tls: ssl.SSLObject | None) -> None:
        assert tls is None

    def take(self, data: bytes) -> None:
        if data:
            self.link.feed(data)

    def error(self, text: str) -> None:
        self.errors.append(text)

    def later(self, _seconds: float, _call: Callable[[], object]) -> None:
        """A socket that takes everything is not waited for."""


class WebSocketPlay:
    """One playing of an input."""

    def __init__(self, flags: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self.broker = MqttBroker(seed=7)
        self.client = self.broker.client(connects=False, max_payload=2000)
        self.client.session.hooks |= {"packet": self._packet, "caught_up": self._caught_up}
        self.link = self.client.link
        self._extensions = [deflate()] if flags & COMPRESSED else []
        self.protocol = ServerProtocol(state=State.OPEN, max_size=MAX_MESSAGE, logger=_QUIET)
        self.protocol.extensions = [deflate()] if flags & COMPRESSED else []
        self.is_cut_off = False
        self.socket = _Socket()
        self.connection = _Connection(self.link)
        self.transport = WebSocketTransport(
            self.connection,
            self.protocol,
            buffer=_BUFFER,
            is_browser=bool(flags & BROWSER),
            after_tick=lambda: None,
            on_stalled=lambda _: None,
        )
        self.transport.connection_made(self.socket)

    def _packet(self, kind: int, flags: int, body: bytes) -> None:
        """Let a client in as every session of these tests does; it hears everything from then on."""
        version = self.link.version
        MqttSession._packet(self.client.session, kind, flags, body)
        if self.link.version != version:
            self.link.subscribe(b">", b">", qos=0)

    def _caught_up(self) -> None:
        self.link.release()
        self.transport.resume()

    @property
    def _is_over(self) -> bool:
        return bool(self.socket.closes or self.link.is_closing)

    def run(self, data: bytes, cut: random.Random | None) -> None:
        at = 0
        while at < len(data) and not self._is_over and self._reads_on():
            size = READ_SIZE if cut is None else cut.choice((1, 2, 3, 7, 50, 5000, READ_SIZE))
            piece = data[at : at + size]
            self.transport.get_buffer(-1)[: len(piece)] = piece
            self.transport.buffer_updated(len(piece))
            at += size
        self._finish()

    def _reads_on(self) -> bool:
        """End ticks until the transport reads."""
        for _ in range(_MOST_TICKS):
            if self.socket.reads or self._is_over:
                return self.socket.reads
            self._end_tick()
        raise AssertionError("a client is not read any more")

    def _end_tick(self) -> None:
        for link in self.broker.router.end_tick():
            if link is self.link:
                self.is_cut_off = self.protocol.state is not State.OPEN
                self.transport.close()

    def _finish(self) -> None:
        self._end_tick()
        while self.broker.router.has_due:
            self._end_tick()
        self._end_tick()

    def result(self) -> tuple[list[Any], list[Any], CloseReason]:
        """Return what the session was told, the packets in answer, and the end; the link is gone then."""
        session = self.client.session
        calls = [call for call in session.calls if call[0] in _KEPT_CALLS]
        found = calls, self._answered(), CloseReason(self.link.reason)
        # Link and transport hold each other, and the transport itself: garbage, in a server.
        self.link.use_writer(lambda: None)
        self.transport._on_connected = lambda _: None
        self.link.detach()
        vars(self.connection).clear()
        self.broker.stop()
        return found

    def _answered(self) -> list[Any]:
        """Return the packets in what was written; control frames depend on what was read at once."""
        reader = Protocol(Side.CLIENT, state=State.OPEN, max_size=None, logger=_QUIET)
        reader.extensions = list(self._extensions)
        reader.receive_data(bytes(self.socket.written))
        assert reader.parser_exc is None, reader.parser_exc
        frames: list[Frame] = reader.events_received()  # type: ignore[assignment]  # of an open connection
        data = [frame.data for frame in frames if frame.opcode in (Opcode.BINARY, Opcode.CONT)]
        return read_packets(b"".join(data))


def deflate() -> LargeMessagesDeflate:
    """Return the extension as `DeflateFactory` agrees on it."""
    return LargeMessagesDeflate(True, True, 15, 15, {"level": 1})


def check(data: bytes) -> None:
    """Play one input both ways; raise AssertionError, or whatever the transport or the engine raises."""
    before = live_objects()
    flags, data = data[:1], data[1:]
    results, is_cut_off = [], False
    for cut in (None, random.Random(zlib.crc32(data))):
        play = WebSocketPlay(flags[0] if flags else 0)
        play.run(data, cut)
        is_cut_off |= play.is_cut_off
        results.append(play.result())
        vars(play).clear()
    whole, by_pieces = results
    if not is_cut_off:
        assert whole == by_pieces
    for one, other in zip(whole[0], by_pieces[0], strict=False):
        assert (
            one == other
        )  # who closes, or sends what is no frame, may take away what was not carried out yet
    after = live_objects()  # fewer when what earlier tests left in cycles went meanwhile
    assert all(0 <= after[kind] <= before[kind] for kind in before), f"before {before}, after {after}"
