"""Publishing many messages with a bounded number of unacknowledged ones, through a server's outages.

Here live the window, the matching of acknowledgements, and what happens when the server goes away: within
`Patience` a new connection is made and what is unacknowledged is sent again, in order. What a message and an
acknowledgement look like is a `PublishFormat`'s: one each for JetStream, NATS Streaming and core subjects.
What of it is stored already after an outage is the format's to find out, too. Nothing of Spark here.
"""

from __future__ import annotations

from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec import Struct, field

from headrace.client.errors import (
    ClientTimeoutError,
    ConnectError,
    ConnectionLostError,
    NoRespondersError,
    PublishRefusedError,
    ServerError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from headrace.client.blocking import Connection
    from headrace.client.errors import ClientError
    from headrace.client.retries import Patience

OUTAGE: Final = (ConnectError, ConnectionLostError, ClientTimeoutError, NoRespondersError)
"""Errors that may pass by themselves: no server, a lost one, one whose services have not started."""

DEFAULT_WINDOW: Final = 4096
"""Messages from the oldest unacknowledged one on; JetStream queues 10,000 per stream, then says 429."""

WINDOW_BYTES: Final = 32 << 20
"""Bytes of unacknowledged messages, kept for sending again; a single larger message is sent alone."""

DEFAULT_ACK_TIMEOUT: Final = 10.0
"""Seconds without any acknowledgement, while some are due, after which the server counts as away."""

_CHUNK: Final = 512  # messages encoded and queued at once


class MessageColumns(Struct):
    """Messages as columns of equal length. `headers` are header lines, each with its line end, or nothing;
    `ids` are there for a format that sends them.
    """

    subjects: Sequence[bytes]
    payloads: Sequence[bytes]
    headers: Sequence[bytes] | None = None
    replies: Sequence[bytes | None] | None = None
    ids: Sequence[bytes] | None = None

    def __len__(self) -> int:
        return len(self.payloads)


class PublishAnswer(Enum):
    """The server's answer to one published message."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    AGAIN = "again"
    """Try later: the same message is sent again after a pause."""
    REFUSED = "refused"


class NumberedAnswer(NamedTuple):
    """An answer, and the number of the message that it is about."""

    number: int
    answer: PublishAnswer
    text: str = ""


class Sent(NamedTuple):
    """A message on its way."""

    frame: bytes
    id: bytes | None


class PublishFormat(Protocol):
    """The format of messages and acknowledgements for one kind of server.

    Raises, from every method: ClientError.
    """

    def open(self, connection: Connection) -> None:
        """Make a new connection ready, the first one or one after an outage."""

    def encode(self, first: int, columns: MessageColumns, start: int, stop: int) -> list[bytes]:
        """The frames of the rows [start, stop), numbered from `first` on."""

    def again(self, frame: bytes) -> bytes:
        """Return the same message for the present connection, of the same length."""

    def settle(
        self, connection: Connection, on_their_way: Mapping[int, Sent], timeout: float
    ) -> list[NumberedAnswer]:
        """Acknowledgements, waiting up to `timeout` seconds for the first; none means silence."""

    def stored(self, connection: Connection, on_their_way: Mapping[int, Sent]) -> Collection[int]:
        """Return which of the unacknowledged messages are stored nevertheless; asked after an outage."""

    def close(self, connection: Connection) -> None:
        """Say goodbye on a connection that works."""


class PublishCounts(Struct):
    """The number of messages by their outcome; `resent` counts sendings beyond the first."""

    stored: int = 0
    duplicates: int = 0
    resent: int = 0


class PublishPipeline(Struct):
    """One writer to one server; `open` gives a connection that nobody else uses. One thread at a time."""

    open: Callable[[], Connection]
    wire: PublishFormat
    patience: Patience
    window: int = DEFAULT_WINDOW
    ack_timeout: float = DEFAULT_ACK_TIMEOUT
    counts: PublishCounts = field(default_factory=PublishCounts)
    connection: Connection | None = None
    _on_their_way: dict[int, Sent] = field(default_factory=dict)
    _bytes: int = 0
    _next: int = 1

    def start(self) -> Connection:
        """The connection, made and ready. Raises: ClientError once `patience` is over."""
        while self.connection is None:
            try:
                self._connect()
            except OUTAGE as error:
                self._drop()
                self.patience.wait(error)
        return self.connection

    def send(self, columns: MessageColumns) -> None:
        """Send all rows; those that fill the window are acknowledged when this returns.

        Raises: PublishRefusedError when the server refuses one; ClientError once `patience` is over.
        """
        connection = self.start()
        at = 0
        while at < len(columns):
            while self._room() <= 0:
                self._settle()
                connection = self.start()
            stop = min(at + self._room(), at + _CHUNK, len(columns))
            frames = self.wire.encode(self._next, columns, at, stop)
            ids = columns.ids[at:stop] if columns.ids is not None else [None] * len(frames)
            for number, sent in enumerate(map(Sent, frames, ids), self._next):
                self._on_their_way[number] = sent
            run = b"".join(frames)
            self._next += len(frames)
            self._bytes += len(run)
            at = stop
            try:
                connection.send(run)
            except (*OUTAGE, ServerError) as error:
                self._recover(error)
                connection = self.start()

    def finish(self) -> PublishCounts:
        """Wait until every message is acknowledged. Raises: as `send`."""
        while self._on_their_way:
            self._settle()
        return self.counts

    def close(self, *, reuse: Callable[[Connection], object] | None = None) -> None:
        """End; a connection that works goes to `reuse`, if there is one."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        try:
            if connection.is_open:
                self.wire.close(connection)
        except (*OUTAGE, ServerError):  # it went while saying goodbye: nothing was waiting for it
            connection.close()
            return
        if reuse is not None and connection.is_open and not self._on_their_way:
            reuse(connection)
        else:
            connection.close()

    def _room(self) -> int:
        """Return how many more messages may be sent; all unacknowledged ones lie within one window."""
        if self._bytes >= WINDOW_BYTES:
            return 0
        return next(iter(self._on_their_way), self._next) + self.window - self._next

    def _settle(self) -> None:
        connection = self.start()
        try:
            acks = self.wire.settle(connection, self._on_their_way, self.ack_timeout)
            if not acks:
                raise ClientTimeoutError(f"no acknowledgement in {self.ack_timeout:g} s")
        except (*OUTAGE, ServerError) as error:
            self._recover(error)
            return
        again = self._take(acks)
        if again:
            self.patience.wait(PublishRefusedError(again[0].text))
            self._send_again([ack.number for ack in again])

    def _take(self, acks: Iterable[NumberedAnswer]) -> list[NumberedAnswer]:
        """Book them; those whose messages are to be sent again."""
        again = []
        good = False
        for ack in acks:
            if ack.answer is PublishAnswer.AGAIN:
                if ack.number in self._on_their_way:
                    again.append(ack)
                continue
            sent = self._on_their_way.pop(ack.number, None)
            if sent is None:  # acknowledged before: it was sent twice
                continue
            self._bytes -= len(sent.frame)
            if ack.answer is PublishAnswer.REFUSED:
                raise PublishRefusedError(ack.text)
            good = True
            if ack.answer is PublishAnswer.STORED:
                self.counts.stored += 1
            else:
                self.counts.duplicates += 1
        if good:
            self.patience.over()
        return again

    def _send_again(self, numbers: Sequence[int]) -> None:
        try:
            self._resend(self.start(), numbers)
        except (*OUTAGE, ServerError) as error:
            self._recover(error)

    def _resend(self, connection: Connection, numbers: Sequence[int]) -> None:
        self.counts.resent += len(numbers)
        rest = iter(numbers)
        while chunk := list(islice(rest, _CHUNK)):
            for number in chunk:
                sent = self._on_their_way[number]
                self._on_their_way[number] = Sent(self.wire.again(sent.frame), sent.id)
            connection.send(b"".join(self._on_their_way[number].frame for number in chunk))

    def _recover(self, error: ClientError) -> None:
        """A new connection, and on it what is unacknowledged. Raises: ClientError once it takes too long."""
        failure: ClientError | None = error
        while failure is not None:
            if isinstance(failure, ServerError) and not failure.fatal:
                raise failure
            self._drop()
            self.patience.wait(failure)
            failure = self._try_again()

    def _try_again(self) -> ClientError | None:
        """Try once more, and return the error if it may pass by itself.

        Raises: ServerError if connecting is refused.
        """
        try:
            self._connect()
        except OUTAGE as error:
            return error
        connection = self.start()
        try:
            there = self.wire.stored(connection, self._on_their_way) if self._on_their_way else ()
            self._take([NumberedAnswer(number, PublishAnswer.STORED) for number in there])
            self._resend(connection, list(self._on_their_way))
        except (*OUTAGE, ServerError) as error:
            return error
        return None

    def _connect(self) -> None:
        self.connection = self.open()
        self.wire.open(self.connection)

    def _drop(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
