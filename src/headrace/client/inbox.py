"""A reply subject on which the answers to one request at a time arrive, several messages for each."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.client.errors import ClientTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.blocking import Connection
    from headrace.client.codec import MessageBatch


class Inbox:
    """A subscription of a connection; `timeout` is how many seconds the server may be silent."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self.connection = connection
        self._timeout = timeout
        self._subject = connection.new_inbox()
        self._sid = connection.subscribe(self._subject)

    def ask(self, subject: str | bytes, payload: bytes) -> Iterator[MessageBatch]:
        """Yield the messages that arrive in answer to a request; the caller knows which one is the last.

        Raises: ClientTimeoutError, and what ends the connection.
        """
        self.connection.publish(subject, payload, reply=self._subject)
        deadline = time.monotonic() + self._timeout
        while True:
            arrived = self.connection.receive_of(self._sid, max(deadline - time.monotonic(), 0.0))
            if not arrived:
                name = subject if isinstance(subject, str) else subject.decode("utf-8", "backslashreplace")
                raise ClientTimeoutError(f"no answer on {name} in {self._timeout:g} s")
            yield arrived
            deadline = time.monotonic() + self._timeout

    def close(self) -> None:
        """Unsubscribe, where the connection still works."""
        if self.connection.is_open:
            self.connection.unsubscribe(self._sid)


@contextmanager
def opened_inbox(connection: Connection, timeout: float) -> Iterator[Inbox]:
    """An inbox for a block."""
    inbox = Inbox(connection, timeout)
    try:
        yield inbox
    finally:
        inbox.close()
