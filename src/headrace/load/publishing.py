"""Clients that publish: to core subjects, with an answer for each message or batch, and by fast ingest."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientTimeoutError, JetStreamError, NoRespondersError
from headrace.errors import ProtocolError
from headrace.load.client import PATIENCE_S, LoadClient
from headrace.load.connection import CHUNK
from headrace.load.loops import AnswerWindow, FrameWriter

if TYPE_CHECKING:
    from headrace.load.board import LoadShare
    from headrace.load.connection import LoadConnection, OddMessage

_LOOK_NS: Final = 500_000_000
_FAST_AHEAD: Final = 2
"""Acknowledgements that may be outstanding in fast ingest, each for as many messages as the server says."""
_FAST_FLOW: Final = 500


class CorePublisher(LoadClient):
    """Messages to core subjects; they are done when the server has handled them."""

    def __init__(
        self,
        connection: LoadConnection,
        share: LoadShare,
        subjects: list[bytes],
        bodies: list[tuple[bytes, bytes]],
    ) -> None:
        super().__init__(connection, share)
        self._writer = FrameWriter(connection.out, subjects, bodies)
        connection.flush()

    @property
    def done(self) -> int:
        return self._writer.messages

    @property
    def size(self) -> int:
        return self._writer.size

    def run(self) -> None:
        connection, share, writer = self.connection, self.share, self._writer
        while True:
            now = time.monotonic_ns()
            if share.is_over(writer.messages, now) or writer.messages == share.messages:
                break
            writer.fill(share.allowed(writer.messages, now), now, CHUNK)
            is_early = bool(share.interval_ns) and not share.allowed(writer.messages, now)
            connection.step(share.pause(writer.messages, now, PATIENCE_S) if is_early else 0.0)
            if connection.out:  # the socket takes no more for now
                connection.step(PATIENCE_S)
            self.ended_ns = time.monotonic_ns()
        connection.flush()
        self.ended_ns = time.monotonic_ns()


class Asker(LoadClient):
    """Messages that are answered: requests, publications into streams, reads of single messages.

    At most `window` wait for an answer. With `batch` above 1 an answer is for so many messages, and `stamp`
    is what `FrameWriter` replaces in their headers; the last bodies of a share that is no multiple of it are
    `rest`. `counts_answers`: the bytes are those of the answers. `nobody`: what it means that nobody answers.
    """

    def __init__(
        self,
        connection: LoadConnection,
        share: LoadShare,
        subjects: list[bytes],
        bodies: list[tuple[bytes, bytes]],
        *,
        window: int = 1,
        batch: int = 1,
        rest: list[tuple[bytes, bytes]] | None = None,
        stamp: bytes = b"",
        timeout: float = 10.0,
        counts_answers: bool = False,
        nobody: str = "nobody is subscribed to the subject",
    ) -> None:
        super().__init__(connection, share)
        self._window = AnswerWindow(window)
        self._batch = batch
        self._timeout_ns = int(timeout * 1e9)
        self._counts_answers = counts_answers
        self._nobody = nobody
        self._earlier = 0
        reply = b"%b.%b." % (connection.inbox_prefix, secrets.token_hex(8).encode())
        connection.match(reply, self._window)
        self._writers = [
            FrameWriter(
                connection.out, subjects, bodies, window=self._window, reply=reply, batch=batch, stamp=stamp
            )
        ]
        self._rest = len(rest) if rest else 0
        if rest:
            self._writers.append(
                FrameWriter(
                    connection.out,
                    subjects,
                    rest,
                    window=self._window,
                    reply=reply,
                    batch=len(rest),
                )
            )
        self._part = self._writers[0]
        connection.flush()

    @property
    def done(self) -> int:
        if self._part is self._writers[0]:
            return self.connection.reader.messages * self._batch
        whole = self._earlier * self._batch
        return whole + (self.connection.reader.messages - self._earlier) * self._rest

    @property
    def size(self) -> int:
        if self._counts_answers:
            return self.connection.reader.size
        written = sum(writer.messages for writer in self._writers)
        size = sum(writer.size for writer in self._writers)
        return size * self.done // written if written else 0

    def run(self) -> None:
        messages = self.share.messages
        whole = None if messages is None else messages - self._rest
        if whole != 0:
            self._run_part(whole)
        self._earlier = self.connection.reader.messages
        if self._rest and not self.share.is_over(self.done, time.monotonic_ns()):
            self._part = self._writers[1]
            self._run_part(self._rest)

    def _run_part(self, messages: int | None) -> None:
        connection, share, writer = self.connection, self.share, self._part
        reader = connection.reader
        writer.pace(share.begun_ns, share.interval_ns)
        window, look = self._window, time.monotonic_ns() + _LOOK_NS
        while True:
            now = time.monotonic_ns()
            if share.is_over(self.done, now):
                return
            if messages is not None and writer.messages == messages and not window.waiting:
                return
            if window.waiting < window.size:
                left = share.allowed(writer.messages, now)
                writer.fill(left if messages is None else min(left, messages - writer.messages), now, CHUNK)
            for message in connection.step(share.pause(writer.messages, now, PATIENCE_S)):
                self._judge(message)
            self.ended_ns = max(self.ended_ns, reader.last)
            if now >= look:
                look = now + _LOOK_NS
                self._give_up(now)

    def _give_up(self, now: int) -> None:
        """Note what is not answered. Raises: ClientTimeoutError when that is all."""
        window = self._window
        seconds = self._timeout_ns / 1e9
        for _ in range(window.give_up(now - self._timeout_ns)):
            self.note_error(f"no answer in {seconds:g} s")
        if window.given_up == window.size:
            raise ClientTimeoutError(f"no answer in {seconds:g} s")

    def _judge(self, message: OddMessage) -> None:
        """Count an answer that says that something failed. Raises: NoRespondersError."""
        headers = message.headers
        status = headers.get("Status", [""])[0]
        if status == "503":
            raise NoRespondersError(self._nobody)
        self.note_error(_reason(message, status))


class FastPublisher(LoadClient):
    """Fast ingest: one batch that is acknowledged now and then, as often as the server says."""

    def __init__(
        self, connection: LoadConnection, share: LoadShare, subjects: list[bytes], body: tuple[bytes, bytes]
    ) -> None:
        super().__init__(connection, share)
        name = secrets.token_hex(8).encode()
        inbox = b"%b.%b" % (connection.inbox_prefix, name)
        reply = b"%b.%b.%d.fail." % (inbox, name, _FAST_FLOW)
        self._writer = FrameWriter(connection.out, subjects, [body], reply=reply, suffix=b".0.$FI")
        self._acknowledged = 0
        self._most = 1
        self._is_ended = False
        connection.subscribe(inbox + b".>", b"2")
        connection.flush()

    @property
    def done(self) -> int:
        return self._acknowledged

    @property
    def size(self) -> int:
        written = self._writer.messages
        return self._writer.size * self._acknowledged // written if written else 0

    def run(self) -> None:
        connection, share, writer = self.connection, self.share, self._writer
        writer.fill(1, 0, CHUNK)
        writer.suffix = b".1.$FI"
        heard = time.monotonic_ns()
        while not self._is_ended:
            now = time.monotonic_ns()
            stops = share.is_over(self._acknowledged, now)
            left = share.allowed(writer.messages, now)
            if writer.suffix == b".2.$FI":
                left = 0
            elif stops or (share.messages is not None and share.messages - writer.messages <= 1):
                writer.suffix, left = b".2.$FI", 1
            else:
                if share.messages is not None:  # the last one is another operation
                    left = min(left, share.messages - 1 - writer.messages)
                left = min(left, self._acknowledged + self._most - writer.messages)
            writer.fill(left, now, 1 << 30 if writer.suffix == b".2.$FI" else CHUNK)
            for message in connection.step(share.pause(writer.messages, now, PATIENCE_S)):
                self._hear(message)
                heard = now
            if now - heard > 10_000_000_000:
                raise ClientTimeoutError("no answer to fast ingest in 10 s")
        share.is_over(self._acknowledged, self.ended_ns)

    def _hear(self, message: OddMessage) -> None:
        """Take an answer. Raises: NoRespondersError, JetStreamError, ProtocolError."""
        if message.headers.get("Status", [""])[0] == "503":
            raise NoRespondersError("no stream takes the subject")
        try:
            answer = json.loads(message.payload)
            if "error" in answer:
                error = answer["error"]
                raise JetStreamError(
                    int(error["code"]), int(error.get("err_code", 0)), str(error.get("description", ""))
                )
            kind = answer.get("type")
            if kind == "ack":
                self._acknowledged = max(self._acknowledged, int(answer["seq"]))
                self._most = _FAST_AHEAD * int(answer["msgs"])
            elif kind == "gap":
                raise ProtocolError("the server misses a message of fast ingest")
            else:
                self._acknowledged = int(answer["count"])
                self._is_ended = True
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not an answer to fast ingest: {message.payload[:80]!r}") from error
        self.ended_ns = time.monotonic_ns()


def _reason(message: OddMessage, status: str) -> str:
    """Return the words of an answer that says that something failed."""
    headers = message.headers
    if "Nats-Service-Error-Code" in headers:
        code = headers["Nats-Service-Error-Code"][0]
        return f"{code} {headers.get('Nats-Service-Error', [''])[0]}".strip()
    if status:
        return f"{status} {headers.get('Description', [''])[0]}".strip()
    try:
        error = json.loads(message.payload)["error"]
        return f"{error['description']} ({error.get('err_code', error['code'])})"
    except (KeyError, TypeError, ValueError):
        return "an answer to nothing that was asked"
