"""One request and the answers of many: of all servers, of all instances of a service.

    with connect(url) as nc:
        for answer in gather(nc, "$SYS.REQ.SERVER.PING", quiet=0.3):
            ...

Nobody says how many answer, so the answers end after a number of them, or once nobody has said anything for a
while. Here lives this end, and how the errors of such answers are read. Never lives here: what is asked.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.client.blocking import DEFAULT_TIMEOUT, ReceivedMessage
from headrace.client.errors import ClientError, NoRespondersError
from headrace.client.headers import STATUS, parse_headers
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from headrace.client.blocking import Connection

QUIET: Final = 0.3
"""Seconds of silence after which no further answer is waited for."""

_NO_RESPONDERS: Final = "503"


class SystemRequestError(ClientError):
    """A server answered a system request with an error; `code` is as in HTTP."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def gather(
    connection: Connection,
    subject: str | bytes,
    data: bytes = b"",
    *,
    headers: Mapping[str, str | Iterable[str]] | None = None,
    count: int | None = None,
    quiet: float | None = QUIET,
    timeout: float = DEFAULT_TIMEOUT,
    until_empty: bool = False,
    is_incomplete: Callable[[], bool] | None = None,
) -> Iterator[ReceivedMessage]:
    """Ask once and yield the answers as they come, from whoever answers.

    They end after `count` of them, after `quiet` seconds of silence behind the first one (None: no such end),
    with an empty answer if `until_empty`, and in any case after `timeout` seconds. As long as `is_incomplete`
    says so, silence is no end: somebody known has not answered. Nobody subscribed is an error, nobody
    answering is no answer. Raises: NoRespondersError; what ends the connection.
    """
    inbox = connection.new_inbox()
    sid = connection.subscribe(inbox)
    deadline = time.monotonic() + timeout
    received = 0
    try:
        connection.publish(subject, data, reply=inbox, headers=headers)
        until = deadline
        while count is None or received < count:
            batch = connection.receive_of(sid, max(until - time.monotonic(), 0.0))
            if not batch:
                if until < deadline and is_incomplete is not None and is_incomplete():
                    until = deadline
                    continue
                return
            for head, block, payload in zip(batch.heads, batch.header_blocks(), batch.payloads, strict=True):
                answer = ReceivedMessage(
                    head[0].decode("utf-8", "backslashreplace"),
                    payload,
                    None if head[2] is None else head[2].decode("utf-8", "backslashreplace"),
                    {} if block is None else parse_headers(block),
                )
                if answer.headers.get(STATUS) == [_NO_RESPONDERS] and not payload:
                    raise NoRespondersError(f"nobody is subscribed to {_text(subject)!r}")
                if until_empty and not payload:
                    return
                received += 1
                yield answer
                if received == count:
                    return
            if quiet is not None:
                until = min(deadline, time.monotonic() + quiet)
    finally:
        if connection.is_open:
            connection.unsubscribe(sid)


def gather_documents(
    connection: Connection,
    subject: str,
    request: Mapping[str, object] | None = None,
    *,
    count: int | None = None,
    quiet: float | None = QUIET,
    timeout: float = DEFAULT_TIMEOUT,
) -> Iterator[dict[str, Any]]:
    """Ask as `gather` does and yield the answers as JSON objects: those of servers, errors among them.

    Raises: NoRespondersError, where the user is not one of the system account, too; ProtocolError for an
    answer that is not JSON.
    """
    data = b"" if request is None else json.dumps(request).encode()
    answers = gather(connection, subject, data, count=count, quiet=quiet, timeout=timeout)
    for answer in answers:
        yield document_of(answer)


def ask_one(
    connection: Connection,
    subject: str,
    request: Mapping[str, object] | None = None,
    *,
    timeout: float = DEFAULT_TIMEOUT,
) -> dict[str, Any]:
    """Ask one server and return the `data` of its answer.

    Raises: SystemRequestError if it answers with an error; as `Connection.request`; ProtocolError.
    """
    data = b"" if request is None else json.dumps(request).encode()
    document = document_of(connection.request(subject, data, timeout=timeout))
    error = document.get("error")
    if isinstance(error, dict):
        raise SystemRequestError(int(error.get("code", 0)), str(error.get("description", "")))
    found = document.get("data")
    if not isinstance(found, dict):
        raise ProtocolError(f"an answer on {subject} has no data")
    return found


def document_of(answer: ReceivedMessage) -> dict[str, Any]:
    """Return the JSON object of an answer. Raises: ProtocolError."""
    try:
        document = json.loads(answer.data)
    except ValueError as error:
        raise ProtocolError(f"not the JSON of a server: {answer.data[:80]!r}") from error
    if not isinstance(document, dict):
        raise ProtocolError(f"not a JSON object of a server: {answer.data[:80]!r}")
    return document


def _text(raw: str | bytes) -> str:
    return raw if isinstance(raw, str) else raw.decode("utf-8", "backslashreplace")
