"""Clients that receive: subscribers, responders, and readers of consumers."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Final

from headrace.client.errors import ClientTimeoutError, JetStreamError, NoRespondersError
from headrace.load.client import PATIENCE_S, LoadClient

if TYPE_CHECKING:
    from headrace.load.board import LoadShare
    from headrace.load.connection import LoadConnection, OddMessage

_EXPIRES_NS: Final = 5_000_000_000
_SILENCE_NS: Final = 30_000_000_000
"""A reader of a consumer that gets nothing for so long has failed."""


class Subscriber(LoadClient):
    """The messages of a subject, counted until the last one.

    `waits`: they come from elsewhere, so the time begins with the first one.
    """

    def __init__(
        self,
        connection: LoadConnection,
        share: LoadShare,
        subject: bytes,
        *,
        queue: bytes | None = None,
        waits: bool = True,
    ) -> None:
        super().__init__(connection, share)
        self._waits = waits
        connection.count(subject, queue)
        connection.flush()

    @property
    def done(self) -> int:
        return self.connection.reader.messages

    @property
    def size(self) -> int:
        return self.connection.reader.size

    def run(self) -> None:
        reader, share = self.connection.reader, self.share
        while not share.is_over(reader.messages, time.monotonic_ns()):
            if share.left(reader.messages) == 0:
                return
            self.connection.step(PATIENCE_S)
            self._note_times()
        self.connection.flush()  # what the server has sent until now counts
        self._note_times()

    def _note_times(self) -> None:
        reader = self.connection.reader
        if reader.messages:
            self.begun_ns, self.ended_ns = reader.first if self._waits else self.begun_ns, reader.last


class Responder(LoadClient):
    """Answers to the requests of a subject. `service`: the name as which micro services find it, or None."""

    def __init__(
        self,
        connection: LoadConnection,
        share: LoadShare,
        subject: bytes,
        payload: bytes,
        *,
        queue: bytes,
        service: str | None = None,
    ) -> None:
        super().__init__(connection, share)
        self._subject = subject.decode()
        self._service = service
        self._id = secrets.token_hex(11)
        connection.count(subject, queue, answer=payload)
        if service is not None:
            for verb in ("PING", "INFO", "STATS"):
                for tail in ("", f".{service}", f".{service}.{self._id}"):
                    connection.subscribe(f"$SRV.{verb}{tail}".encode(), b"2")
        connection.flush()

    @property
    def done(self) -> int:
        return self.connection.reader.messages

    @property
    def size(self) -> int:
        return self.connection.reader.size

    def run(self) -> None:
        reader, share = self.connection.reader, self.share
        while not share.is_over(reader.messages, time.monotonic_ns()):
            if share.left(reader.messages) == 0:
                break
            for message in self.connection.step(PATIENCE_S):
                self._introduce(message)
            if reader.messages:
                self.begun_ns, self.ended_ns = reader.first, reader.last
        self.connection.flush()

    def _introduce(self, message: OddMessage) -> None:
        """Answer a question of discovery."""
        if message.sid != b"2" or message.reply is None:
            return
        verb = message.subject.split(b".")[1].decode()
        endpoint = {"name": "bench", "subject": self._subject, "queue_group": "q"}
        answer: dict[str, object] = {
            "type": f"io.nats.micro.v1.{verb.lower()}_response",
            "name": self._service,
            "id": self._id,
            "version": "1.0.0",
            "metadata": {},
        }
        if verb == "INFO":
            answer |= {"description": "answers the requests of a load", "endpoints": [endpoint]}
        elif verb == "STATS":
            counts = {"num_requests": self.connection.reader.messages, "num_errors": 0}
            answer["endpoints"] = [{**endpoint, **counts}]
        self.connection.publish(message.reply, json.dumps(answer).encode())


class ConsumerReader(LoadClient):
    """The messages of a pull consumer, which clients may share.

    `batch` is how many a pull asks for. With `fetches` the next pull follows when the last one is done, and
    latencies are those of pulls; else there is always one under way. `acknowledge`: each message is.
    """

    def __init__(
        self,
        connection: LoadConnection,
        share: LoadShare,
        next_subject: bytes,
        *,
        batch: int,
        fetches: bool,
        acknowledge: bool,
    ) -> None:
        super().__init__(connection, share)
        self._next = next_subject
        self._batch = batch
        self._fetches = fetches
        self._awaited = 0
        """The messages that pulls under way still may bring."""
        self._asked_ns = 0
        self._inbox = b"%b.%b" % (connection.inbox_prefix, secrets.token_hex(8).encode())
        connection.count(self._inbox, answer=b"+ACK" if acknowledge else None)
        connection.flush()

    @property
    def done(self) -> int:
        return self.connection.reader.messages

    @property
    def size(self) -> int:
        return self.connection.reader.size

    def run(self) -> None:
        connection, reader, share = self.connection, self.connection.reader, self.share
        seen, heard = 0, time.monotonic_ns()
        while True:
            now = time.monotonic_ns()
            if share.is_over(reader.messages, now):
                break
            if share.left(reader.messages) == 0:
                break
            if self._awaited <= (0 if self._fetches else self._batch // 2):
                self._pull(now)
            for message in connection.step(PATIENCE_S):
                self._told(message)
            if reader.messages > seen:
                self._awaited = max(self._awaited - (reader.messages - seen), 0)
                seen, heard, self.ended_ns = reader.messages, now, reader.last
                if self._fetches and not self._awaited:
                    reader.latencies.record(reader.last - self._asked_ns)
            elif now - heard > _SILENCE_NS:
                raise ClientTimeoutError(f"the consumer sent nothing for {_SILENCE_NS // 10**9} s")
        connection.flush()

    def _pull(self, now: int) -> None:
        count = self._batch - self._awaited
        left = self.share.left(self.done)
        if left is not None:
            count = max(min(count, left), 1)
        body = b'{"batch":%d,"expires":%d}' % (count, _EXPIRES_NS)
        self.connection.publish(self._next, body, self._inbox)
        self._awaited += count
        self._asked_ns = now

    def _told(self, message: OddMessage) -> None:
        """Take a status: a pull may be over. Raises: NoRespondersError, JetStreamError."""
        headers = message.headers
        status = headers.get("Status", [""])[0]
        text = " ".join(headers.get("Description", [status]))
        if status in ("404", "408"):
            pending = headers.get("Nats-Pending-Messages", [""])[0]
            lost = int(pending) if pending.isdigit() else self._awaited
            self._awaited = max(self._awaited - lost, 0)
        elif status == "503":
            raise NoRespondersError("no consumer answers to pulls")
        elif status != "100":
            raise JetStreamError(int(status) if status.isdigit() else 500, 0, f"the consumer ended: {text}")
