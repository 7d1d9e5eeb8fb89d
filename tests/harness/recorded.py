"""A server that was recorded: what it answered to commands, played back without a process or a socket.

`recording()` keeps, for the commands of a block, what connections send and get; `RecordedServer.playing()`
answers the same in the place of sockets, with a clock of its own that stands still but for waiting. A command
that asks for something else than was recorded fails.
"""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest import mock

from headrace.client.blocking import Connection
from headrace.client.transport import SocketStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_OPEN: Final = "headrace.client.handshake.open_stream"
_CALL_NS: Final = 137_000
"""The time that passes, for the clock of a playback, with each look at it."""
_WITH_BODY: Final = {"PUB": 1, "HPUB": 2, "MSG": 1, "HMSG": 2}
"""The frames that have a payload, and how many sizes stand at the end of their line."""


class _Frame(NamedTuple):
    """A frame of the protocol: the words of its line, its headers and its payload."""

    words: list[str]
    block: bytes = b""
    payload: bytes = b""


class _Frames:
    """Reads the frames of one direction."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[_Frame]:
        self._data += data
        found = []
        while (frame := self._next()) is not None:
            found.append(frame)
        return found

    def _next(self) -> _Frame | None:
        line, end, rest = self._data.partition(b"\r\n")
        if not end:
            return None
        words = line.decode().split()
        sizes = _WITH_BODY.get(words[0], 0) if words else 0
        if not sizes:
            self._data = rest
            return _Frame(words if words[:1] != ["INFO"] else ["INFO", line.decode().partition(" ")[2]])
        total = int(words[-1])
        if len(rest) < total + 2:
            return None
        head = int(words[-2]) if sizes == 2 else 0
        self._data = rest[total + 2 :]
        return _Frame(words[:-sizes], rest[:head], rest[head:total])


Exchange = dict[str, Any]
"""`subject` and `data` of a request and its `answers`; or the `subject` of a subscription and what it was
told, where nobody asked for that."""


class _Heard:
    """What the connections of one command have said and heard, in order."""

    def __init__(self) -> None:
        self.info: dict[str, Any] = {}
        self.exchanges: list[Exchange] = []
        self._waiting: dict[str, Exchange] = {}
        self._subjects: dict[str, str] = {}

    def sent(self, frame: _Frame) -> None:
        kind, *words = frame.words
        if kind == "SUB":
            self._subjects[words[-1]] = words[0]
        elif kind in ("PUB", "HPUB"):
            made: Exchange = {"subject": words[0], "data": frame.payload.decode(), "answers": []}
            self.exchanges.append(made)
            if len(words) > 1:
                self._waiting[words[1]] = made

    def got(self, frame: _Frame) -> None:
        kind, *words = frame.words
        if kind == "INFO":
            self.info = json.loads(words[0])
        if kind not in ("MSG", "HMSG"):
            return
        said = {"headers": frame.block.decode()} if frame.block else {}
        try:
            said["data"] = frame.payload.decode()
        except UnicodeDecodeError:
            said["base64"] = base64.b64encode(frame.payload).decode()
        exchange = self._waiting.get(words[0])
        if exchange is None:
            told = {"told": self._subjects[words[1]], "subject": words[0]}
            self.exchanges.append(told | ({"reply": words[2]} if len(words) > 2 else {}) | said)
        else:
            exchange["answers"].append(said)


class _TappedStream(SocketStream):
    """A stream whose bytes are heard by a recording."""

    def __init__(self, stream: SocketStream, heard: _Heard) -> None:
        super().__init__(stream._socket)  # the same socket; the first one is not used any more
        self._heard = heard
        self._out, self._in = _Frames(), _Frames()

    def read(self, most: int) -> bytes | None:
        data = super().read(most)
        for frame in self._in.feed(data or b""):
            self._heard.got(frame)
        return data

    def read_into(self, room: memoryview) -> int | None:
        count = super().read_into(room)
        for frame in self._in.feed(bytes(room[: count or 0])):
            self._heard.got(frame)
        return count

    def write(self, data: memoryview) -> int:
        count = super().write(data)
        for frame in self._out.feed(bytes(data[:count])):
            self._heard.sent(frame)
        return count


@contextmanager
def recording() -> Iterator[_Heard]:
    """Keep what the connections of a block say and hear; names of inboxes are numbers."""
    from headrace.client import transport

    heard = _Heard()
    opened = transport.open_stream
    with ExitStack() as stack:
        stack.enter_context(mock.patch(_OPEN, lambda *where: _TappedStream(opened(*where), heard)))
        stack.enter_context(_numbered_inboxes())
        yield heard


def _numbered_inboxes() -> Any:
    numbers = itertools.count(1)

    def new_inbox(_: Connection) -> bytes:
        return b"_INBOX.%d" % next(numbers)

    return mock.patch.object(Connection, "new_inbox", new_inbox)


class PlayedClock:
    """A clock that goes on only while something is waited for, and a little with each look at it."""

    def __init__(self, now_ns: int) -> None:
        self.now_ns = now_ns

    def look(self) -> int:
        self.now_ns += _CALL_NS
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)

    @contextmanager
    def instead(self) -> Iterator[None]:
        """This clock in the place of the system's, for a block."""
        of_time: dict[str, Callable[..., object]] = {
            "time": lambda: self.now_ns / 1e9,
            "time_ns": lambda: self.now_ns,
            "monotonic": lambda: self.look() / 1e9,
            "monotonic_ns": self.look,
            "perf_counter": lambda: self.look() / 1e9,
            "perf_counter_ns": self.look,
            "sleep": self.sleep,
        }
        with ExitStack() as stack:
            for name, function in of_time.items():
                stack.enter_context(mock.patch.object(time, name, function))
            yield


class _PlayedStream:
    """The stream of one connection to a recorded server; what `SocketStream` has."""

    peer_certificate_ends: float | None = None

    def __init__(self, info: dict[str, Any], exchanges: Sequence[Exchange], clock: PlayedClock) -> None:
        self._clock = clock
        self._frames = _Frames()
        self._sids: dict[str, str] = {}
        self._answers: dict[tuple[str, str], list[list[Exchange]]] = defaultdict(list)
        for each in exchanges:
            if "answers" in each:
                self._answers[each["subject"], each["data"]].append(each["answers"])
        self._told = [each for each in exchanges if "told" in each]
        self._waiting = b"INFO %s\r\n" % json.dumps(info).encode()

    def wait(self, timeout: float | None, *, to_write: bool = False) -> tuple[bool, bool]:
        if not self._waiting:
            self._tell()
        if not self._waiting and not to_write:
            assert timeout is not None, "nothing more was recorded"
            self._clock.sleep(timeout)
        return bool(self._waiting), to_write

    def _tell(self) -> None:
        """Say, once there is nothing else to say, what subscriptions are told."""
        for each in self._told:
            if each["told"] in self._sids:
                self._say(self._sids[each["told"]], each)
        self._told = [each for each in self._told if each["told"] not in self._sids]

    def read(self, most: int) -> bytes | None:
        data, self._waiting = self._waiting[:most], self._waiting[most:]
        return data or None

    def read_into(self, room: memoryview) -> int | None:
        data = self.read(len(room))
        if data is None:
            return None
        room[: len(data)] = data
        return len(data)

    def write(self, data: memoryview) -> int:
        for frame in self._frames.feed(bytes(data)):
            self._obey(frame)
        return len(data)

    def _obey(self, frame: _Frame) -> None:
        kind, *words = frame.words
        if kind == "SUB":
            self._sids[words[0]] = words[-1]
        elif kind == "PING":
            self._waiting += b"PONG\r\n"
        elif kind in ("PUB", "HPUB") and len(words) > 1:
            recorded = self._answers[words[0], frame.payload.decode()]
            assert recorded, f"not recorded: {words[0]} {frame.payload!r}"
            for each in recorded.pop(0) if len(recorded) > 1 else recorded[0]:
                self._say(self._sids[words[1]], each, subject=words[1])

    def _say(self, sid: str, said: Exchange, subject: str = "") -> None:
        block = said.get("headers", "").encode()
        payload = said["data"].encode() if "data" in said else base64.b64decode(said["base64"])
        reply = f" {said['reply']}" if "reply" in said else ""
        head = f"{subject or said['subject']} {sid}{reply}"
        sizes = f"{len(block)} {len(block) + len(payload)}" if block else str(len(payload))
        kind = "HMSG" if block else "MSG"
        self._waiting += f"{kind} {head} {sizes}\r\n".encode() + block + payload + b"\r\n"

    def close(self) -> None:
        """Nothing is held."""


class RecordedServer:
    """What a server answered to some commands, each by its line."""

    def __init__(self, path: Path) -> None:
        self._commands: dict[str, dict[str, Any]] = json.loads(path.read_text())

    @contextmanager
    def playing(self, command: str) -> Iterator[None]:
        """The server for one command, in the place of connections over sockets, for a block."""
        recorded = self._commands[command]
        clock = PlayedClock(recorded["now_ns"])

        def opened(*_where: object) -> _PlayedStream:
            return _PlayedStream(recorded["info"], recorded["exchanges"], clock)

        with mock.patch(_OPEN, opened), _numbered_inboxes(), clock.instead():
            yield
