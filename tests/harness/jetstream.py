"""JetStream over a raw connection: requests, publications and deliveries as frames, with one reader.

Here lives what a test needs to talk; what answers mean is the test's. Nothing here waits for time to pass: a
message that should come has a deadline, and one that should not come is asked for behind a barrier.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from harness.processes import ServerProcess

HEADER_LINE: Final = b"NATS/1.0\r\n"
CONNECT: Final = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "echo": True}


class Message(NamedTuple):
    """What a subscription was sent; `headers` is the block as it came, or empty."""

    subject: str
    reply: str
    headers: bytes
    payload: bytes

    @property
    def status(self) -> str:
        """`100 Idle Heartbeat` and the like; empty for a message that is none of those."""
        line = self.headers.split(b"\r\n", 1)[0]
        return line.removeprefix(b"NATS/1.0").strip().decode()

    def header(self, name: str) -> str | None:
        for line in self.headers.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.decode() == name:
                return value.strip().decode()
        return None

    def json(self) -> Any:
        return json.loads(self.payload)


def headers(fields: dict[str, str] | None) -> bytes:
    """A header block."""
    if not fields:
        return b""
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return HEADER_LINE + lines.encode() + b"\r\n"


def body(value: Any) -> bytes:
    """Text and bytes as they are, None as nothing, everything else as JSON."""
    match value:
        case None:
            return b""
        case bytes():
            return value
        case str():
            return value.encode()
        case _:
            return json.dumps(value).encode()


class JetStreamWire:
    """A client that sees every byte. `request` and `api` have an inbox each; others subscribe themselves."""

    def __init__(
        self, server: ServerProcess, *, api_prefix: str = "$JS.API", inbox: str = "_INBOX.w", **options: Any
    ) -> None:
        self.server = server
        self.prefix = api_prefix
        self.inbox = inbox
        self.wire = server.connect(json.dumps(CONNECT | options).encode())
        self.info = self.wire.info
        self._sids = 0
        self._asked = 0
        self._got: dict[int, deque[Message]] = defaultdict(deque)
        self.problems: list[str] = []
        self._replies = self.subscribe(f"{inbox}.r.*")
        self._waiting: dict[str, deque[Message]] = defaultdict(deque)

    # -- out

    def subscribe(self, subject: str, queue: str = "") -> int:
        self._sids += 1
        self.wire.send(f"SUB {subject} {queue} {self._sids}\r\n".encode())
        return self._sids

    def unsubscribe(self, sid: int, most: int = 0) -> None:
        self.wire.send(f"UNSUB {sid} {most or ''}\r\n".encode())

    def publish(
        self, subject: str, payload: Any = b"", fields: dict[str, str] | bytes | None = None, reply: str = ""
    ) -> None:
        """Publish without waiting for an answer."""
        data = body(payload)
        head = fields if isinstance(fields, bytes) else headers(fields)
        if head:
            line = f"HPUB {subject} {reply} {len(head)} {len(head) + len(data)}\r\n"
        else:
            line = f"PUB {subject} {reply} {len(data)}\r\n"
        self.wire.send(line.encode() + head + data + b"\r\n")

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is published within goes out in one write."""
        send, waiting = self.wire.send, []
        self.wire.send = waiting.append  # type: ignore[method-assign]
        try:
            yield
        finally:
            self.wire.send = send  # type: ignore[method-assign]
        self.wire.send(b"".join(waiting))

    def ask(self, subject: str, payload: Any = b"", fields: dict[str, str] | bytes | None = None) -> str:
        """Publishes with a reply subject of its own, which it gives: `answer` waits for what comes there."""
        self._asked += 1
        reply = f"{self.inbox}.r.{self._asked}"
        self.publish(subject, payload, fields, reply)
        return reply

    # -- in

    def sync(self) -> None:
        """A PING and its PONG: the server has read all that was sent, and what it said before is taken in."""
        self.wire.send(b"PING\r\n")
        deadline = time.monotonic() + PATIENCE
        while not self._read(deadline, through_pong=True):
            pass

    def quiet(self, seconds: float) -> None:
        """Takes everything in until nothing has come for so long."""
        last = time.monotonic()
        while time.monotonic() < last + seconds:
            if self.wire.fill(last + seconds - time.monotonic()):
                self.sync()
                last = time.monotonic()
        self.sync()  # what was read together with an answer, before it or after it, is taken in, too

    def request(
        self, subject: str, payload: Any = b"", fields: dict[str, str] | bytes | None = None
    ) -> Message:
        """The first answer, which may be a status."""
        return self.answer(self.ask(subject, payload, fields))

    def api(self, verb: str, value: Any = None, fields: dict[str, str] | None = None) -> Any:
        """The answer's JSON, or its status as text."""
        message = self.request(f"{self.prefix}.{verb}", value, fields)
        return message.json() if message.payload else message.status

    def stored(self, subject: str, payload: Any = b"", fields: dict[str, str] | bytes | None = None) -> Any:
        """The PubAck."""
        message = self.request(subject, payload, fields)
        return message.json() if message.payload else message.status

    def answer(self, reply: str, seconds: float = PATIENCE) -> Message:
        """The next message to a reply subject of `ask`."""
        deadline = time.monotonic() + seconds
        while not self._waiting[reply]:
            self._read(deadline)
        return self._waiting[reply].popleft()

    def answers(self, reply: str) -> list[Message]:
        """All that came to a reply subject until now."""
        found = list(self._waiting[reply])
        self._waiting[reply].clear()
        return found

    def take(self, sid: int, count: int = 1, seconds: float = PATIENCE) -> list[Message]:
        """The next so many messages of a subscription."""
        deadline = time.monotonic() + seconds
        queue = self._got[sid]
        while len(queue) < count:
            self._read(deadline)
        return [queue.popleft() for _ in range(count)]

    def next(self, sid: int, seconds: float = PATIENCE) -> Message:
        return self.take(sid, 1, seconds)[0]

    def taken(self, sid: int) -> list[Message]:
        """All that a subscription got until now."""
        found = list(self._got[sid])
        self._got[sid].clear()
        return found

    def _read(self, deadline: float, *, through_pong: bool = False) -> bool:
        """One frame; whether it was a PONG.

        Raises: AssertionError when none comes, or the connection is closed.
        """
        while True:
            received = self.wire.received
            end = received.find(b"\r\n")
            if end >= 0:
                line = bytes(received[:end])
                if not line.startswith((b"MSG ", b"HMSG ")):
                    del received[: end + 2]
                    if line == b"PING":
                        self.wire.send(b"PONG\r\n")
                    elif line.startswith(b"INFO "):
                        self.info = json.loads(line[5:])
                    elif line.startswith(b"-ERR"):
                        self.problems.append(line.decode())
                        if not through_pong:
                            raise AssertionError(line.decode())
                    return line == b"PONG"
                size = int(line.rsplit(b" ", 1)[1])
                if len(received) >= end + 4 + size:
                    self._note(line, bytes(received[end + 2 : end + 2 + size]))
                    del received[: end + 4 + size]
                    return False
            if not self.wire.fill(deadline - time.monotonic()):
                assert not self.wire.closed, f"closed: {self.problems}"
                assert time.monotonic() < deadline, "what was waited for did not come"

    def _note(self, line: bytes, data: bytes) -> None:
        words = line.decode().split(" ")
        size = 0
        if words[0] == "HMSG":
            size = int(words[-2])
            words.pop(-2)
        reply = words[3] if len(words) == 5 else ""
        message = Message(words[1], reply, data[:size], data[size:])
        sid = int(words[2])
        if sid == self._replies:
            self._waiting[message.subject].append(message)
        else:
            self._got[sid].append(message)

    # -- its end

    def close(self) -> None:
        self.wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
