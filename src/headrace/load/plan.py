"""The clients of a load, and what each does: a scenario's options to its clients.

Never here: processes, or what is made in a server before.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from headrace.client.errors import MaxPayloadError
from headrace.client.headers import encode_headers
from headrace.load.board import LoadShare
from headrace.load.connection import LoadConnection
from headrace.load.errors import LoadError
from headrace.load.options import Publishing, Scenario
from headrace.load.publishing import Asker, CorePublisher, FastPublisher
from headrace.load.receiving import ConsumerReader, Responder, Subscriber

if TYPE_CHECKING:
    from headrace.client.address import ServerAddress
    from headrace.client.blocking import Connection
    from headrace.client.options import ConnectOptions
    from headrace.load.board import LoadBoard
    from headrace.load.client import LoadClient
    from headrace.load.options import LoadOptions
    from headrace.load.preparation import PreparedStream

EACH_GETS_ALL: Final = (Scenario.SUB, Scenario.JS_ORDERED)
"""Scenarios in which each client gets all messages."""

MOST_GETS: Final = 100_000
"""Sequences that `js get` asks for in turn."""

_COMMON: Final = (Scenario.JS_CONSUME, Scenario.JS_FETCH, Scenario.SERVE)
"""Scenarios in which any client may do any of the messages."""
_SERVICE: Final = "headrace-bench"
_NO_STREAM: Final = "no stream takes the subject"


class LoadPlan:
    """The clients of a load; `client` and `partner` make one, in its own process."""

    def __init__(
        self,
        options: LoadOptions,
        addresses: tuple[ServerAddress, ...],
        connecting: ConnectOptions,
        max_payload: int,
    ) -> None:
        """Plan a load. Raises: MaxPayloadError; ValueError for bad headers."""
        self.options = options
        self._addresses = addresses
        self._connecting = connecting
        self._block = encode_headers(options.headers)
        self._pulls: list[str] = []
        self._gets: tuple[list[bytes], list[tuple[bytes, bytes]]] = ([], [])
        self.messages = None if options.duration is not None else options.messages
        """The messages of all clients together, or of each; None: until the time is over."""
        size = len(self._block) + len(options.body)
        if size > max_payload:
            raise MaxPayloadError(f"messages of {size} bytes, the server takes {max_payload}")

    @property
    def wanted(self) -> int | None:
        """The messages of all clients together, None without an end."""
        if self.messages is None or self.options.scenario not in EACH_GETS_ALL or self.options.queue:
            return self.messages
        return self.messages * self.options.clients

    @property
    def partners(self) -> int:
        """The number of clients beside the measured ones."""
        if self.options.scenario is Scenario.SERVICE:
            return max(self.options.partners, 1)
        return self.options.partners if self.options.scenario in (Scenario.SUB, Scenario.REQUEST) else 0

    def know(self, stream: PreparedStream, connection: Connection) -> None:
        """Learn what the stream has that is read. Raises: LoadError if that is nothing; as `JetStreamApi`."""
        options = self.options
        if options.scenario in (Scenario.JS_PUB, Scenario.KV_PUT):
            return
        first, last, count = stream.stored(connection)
        if not count:
            raise LoadError(f"stream {options.stream_name} has no messages to read")
        prefix = f"{options.api_prefix}.DIRECT.GET.{options.stream_name}"
        if options.scenario is Scenario.KV_GET:
            names = [f"{prefix}.{name}".encode() for name in options.subject_names]
            self._gets = (names, [(b"", b"")])
        elif options.scenario is Scenario.JS_GET:
            sequences = range(first, min(last, first + MOST_GETS - 1) + 1)
            self._gets = ([prefix.encode()], [(b"", b'{"seq":%d}' % sequence) for sequence in sequences])
        else:
            self.messages = count if self.messages is None else min(self.messages, count)
            self._pulls = stream.consumers(connection, options.clients)

    def client(self, board: LoadBoard, index: int) -> LoadClient:
        """Make the measured client with this number. Raises: as `LoadConnection`."""
        options = self.options
        connection = LoadConnection(self._addresses, self._connecting)
        share = self._share(board, index)
        if options.scenario in (Scenario.JS_PUB, Scenario.KV_PUT):
            return self._stream_publisher(connection, share)
        if options.scenario in (Scenario.JS_GET, Scenario.KV_GET):
            return self._getter(connection, share)
        if options.scenario in (Scenario.REQUEST, Scenario.SERVICE):
            return self._asker(connection, share)
        if options.scenario in (Scenario.PUB, Scenario.SUB, Scenario.SERVE):
            return self._core_client(connection, share)
        return self._consumer_reader(connection, share, index)

    def partner(self, board: LoadBoard, index: int) -> LoadClient:
        """Make the client with this number beside the measured ones. Raises: as `LoadConnection`."""
        options = self.options
        connection = LoadConnection(self._addresses, self._connecting)
        if options.scenario is not Scenario.SUB:
            return self._responder(connection, LoadShare(board, index))
        count = None if self.messages is None else _part(self.messages, self.partners, index)
        rate = options.rate / self.partners if options.rate is not None else None
        share = LoadShare(board, index, messages=count, rate=rate)
        return CorePublisher(connection, share, _raw(options.subject_names), self._bodies)

    @property
    def _bodies(self) -> list[tuple[bytes, bytes]]:
        return [(self._block, self.options.body)]

    def _share(self, board: LoadBoard, index: int) -> LoadShare:
        options, messages = self.options, self.messages
        rate = options.rate / options.clients if options.rate is not None else None
        if options.scenario is Scenario.SUB:
            rate = None  # it is that of the publishers
        is_queue = options.scenario is Scenario.SUB and options.queue is not None
        is_common = options.scenario in _COMMON or is_queue
        if messages is not None and not is_common and options.scenario not in EACH_GETS_ALL:
            messages = _part(messages, options.clients, index)
        return LoadShare(
            board, index, messages=messages, is_common=is_common, duration=options.duration, rate=rate
        )

    def _core_client(self, connection: LoadConnection, share: LoadShare) -> LoadClient:
        options = self.options
        if options.scenario is Scenario.PUB:
            return CorePublisher(connection, share, _raw(options.subject_names), self._bodies)
        if options.scenario is Scenario.SERVE:
            return self._responder(connection, share)
        queue = options.queue.encode() if options.queue else None
        subject, waits = options.subscribed.encode(), not options.partners
        return Subscriber(connection, share, subject, queue=queue, waits=waits)

    def _responder(self, connection: LoadConnection, share: LoadShare) -> Responder:
        options = self.options
        queue = (options.queue or "headrace-bench").encode()
        service = _SERVICE if options.scenario is Scenario.SERVICE else None
        subject = options.subscribed.encode()
        return Responder(connection, share, subject, options.body, queue=queue, service=service)

    def _asker(self, connection: LoadConnection, share: LoadShare) -> Asker:
        options = self.options
        return Asker(
            connection,
            share,
            _raw(options.subject_names),
            self._bodies,
            window=options.window,
            timeout=options.timeout,
            nobody=f"nobody is subscribed to {options.subject_names[0]!r}",
        )

    def _getter(self, connection: LoadConnection, share: LoadShare) -> Asker:
        subjects, bodies = self._gets
        return Asker(
            connection,
            share,
            subjects,
            bodies,
            window=self.options.window,
            timeout=self.options.timeout,
            counts_answers=True,
            nobody=f"nobody answers to direct gets of stream {self.options.stream_name}",
        )

    def _consumer_reader(self, connection: LoadConnection, share: LoadShare, index: int) -> ConsumerReader:
        options = self.options
        return ConsumerReader(
            connection,
            share,
            self._pulls[index].encode(),
            batch=options.window,
            fetches=options.scenario is Scenario.JS_FETCH,
            acknowledge=options.acknowledge and options.scenario is not Scenario.JS_ORDERED,
        )

    def _stream_publisher(self, connection: LoadConnection, share: LoadShare) -> LoadClient:
        options, subjects = self.options, _raw(self.options.subject_names)
        is_plain = options.scenario is Scenario.KV_PUT
        if not is_plain and options.publishing is Publishing.FAST:
            return FastPublisher(connection, share, subjects, self._bodies[0])
        if is_plain or options.publishing is not Publishing.BATCH:
            window = options.window
            return Asker(
                connection,
                share,
                subjects,
                self._bodies,
                window=window,
                timeout=options.timeout,
                nobody=_NO_STREAM,
            )
        size = options.window
        last = share.messages % size if share.messages is not None else 0
        name = secrets.token_hex(6)
        stamp = f"{name}0000000000".encode()
        return Asker(
            connection,
            share,
            subjects,
            self._batch(stamp, size),
            batch=size,
            rest=self._batch(f"{name}-rest".encode(), last) if last else None,
            stamp=stamp,
            timeout=options.timeout,
            nobody=_NO_STREAM,
        )

    def _batch(self, batch_id: bytes, size: int) -> list[tuple[bytes, bytes]]:
        """Return the bodies of one atomic batch."""
        bodies = []
        for number in range(1, size + 1):
            headers = {"Nats-Batch-Id": batch_id.decode(), "Nats-Batch-Sequence": str(number)}
            if number == size:
                headers["Nats-Batch-Commit"] = "1"
            bodies.append((encode_headers({**headers, **self.options.headers}), self.options.body))
        return bodies


def _part(messages: int, clients: int, index: int) -> int:
    """Return how many of the messages are those of one client."""
    return messages // clients + (index < messages % clients)


def _raw(names: list[str]) -> list[bytes]:
    return [name.encode() for name in names]
