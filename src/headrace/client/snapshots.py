"""Snapshots of streams over JetStream's API: a whole stream out of a server, and back into one.

    with open("orders.s2", "wb") as file:
        snapshot = take_snapshot(api, "ORDERS", file.write)
    with open("orders.s2", "rb") as file:
        restore_snapshot(api, snapshot.config, snapshot.state, iter(lambda: file.read(CHUNK), b""))

A snapshot is the bytes that nats-server makes since 2.15, and Headrace too: an archive in an S2 stream.
Either server restores the other's. Never lives here: what is in these bytes and where they are kept
(`backup_directory`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.client.errors import ClientTimeoutError, JetStreamError
from headrace.client.headers import DESCRIPTION, STATUS, parse_headers
from headrace.client.jetstream_api import document_of
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.client.jetstream_api import JetStreamApi

CHUNK: Final = 128 << 10
"""Bytes of a snapshot that are sent at once."""
_WINDOW: Final = 16
"""Chunks that are on their way to a server before one of them is acknowledged."""
_LAST_TIMEOUT: Final = 300.0
"""Seconds a server has for its last answer: it makes the stream durable meanwhile."""


class StreamSnapshot(Struct, frozen=True):
    """The configuration and the state of a stream when its snapshot began, and the bytes that came."""

    config: dict[str, Any]
    state: dict[str, Any]
    size_bytes: int


def take_snapshot(
    api: JetStreamApi,
    stream: str,
    write: Callable[[bytes], object],
    *,
    with_consumers: bool = True,
    check: bool = False,
    begun: Callable[[Mapping[str, Any]], object] | None = None,
) -> StreamSnapshot:
    """Hand the bytes of a stream's snapshot to `write`, piece by piece; return what it is of.

    `check`: the server first reads every message, and refuses a stream that is damaged. `begun` is called
    with the stream's state before the first piece. Raises: as `JetStreamApi.ask`; JetStreamMissingError;
    JetStreamError if the server breaks it off; ClientTimeoutError if it is silent.
    """
    connection = api.connection
    inbox = connection.new_inbox()
    sid = connection.subscribe(inbox)
    request = {"deliver_subject": inbox.decode(), "no_consumers": not with_consumers, "chunk_size": CHUNK}
    if check:
        request["jsck"] = True
    size = 0
    try:
        answer = api.ask(f"STREAM.SNAPSHOT.{stream}", request)
        if begun is not None:
            begun(answer["state"])
        while True:
            batch = connection.receive_of(sid, max(api.timeout, 10.0))
            if not batch:
                raise ClientTimeoutError(f"the snapshot of {stream} is silent")
            for head, block, payload in zip(batch.heads, batch.header_blocks(), batch.payloads, strict=True):
                if not payload:
                    _check_end(stream, block)
                    return StreamSnapshot(answer["config"], answer["state"], size)
                write(payload)
                size += len(payload)
                if head[2] is not None:
                    connection.publish(head[2], b"")
    except KeyError as error:
        raise ProtocolError(f"not JetStream's answer about a snapshot: {error!r}") from error
    finally:
        if connection.is_open:
            connection.unsubscribe(sid)


def _check_end(stream: str, block: bytes | None) -> None:
    """Return if the snapshot is whole. Raises: JetStreamError."""
    headers = {} if block is None else parse_headers(block)
    status = headers.get(STATUS, ["204"])[0]
    if status != "204":
        reason = " ".join(headers.get(DESCRIPTION, [status]))
        code = int(status) if status.isdigit() else 500
        raise JetStreamError(code, 0, f"the server broke the snapshot of {stream} off: {reason}")


def restore_snapshot(
    api: JetStreamApi,
    config: Mapping[str, Any],
    state: Mapping[str, Any],
    pieces: Iterable[bytes],
    *,
    sent: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Make a stream of the pieces of a snapshot; return its info. Until the end there is no such stream.

    `config` is its configuration, with another name or other limits if one likes; `state` that of the
    snapshot. A piece has at most the bytes that the server takes in one message. `sent` is called with the
    bytes that the server has. Raises: as `JetStreamApi.ask`; JetStreamExistsError if it is there;
    JetStreamError if the server does not take it; ClientTimeoutError if it is silent.
    """
    connection = api.connection
    request = {"config": dict(config), "state": dict(state)}
    subject = str(api.ask(f"STREAM.RESTORE.{config['name']}", request).get("deliver_subject"))
    inbox = connection.new_inbox()
    sid = connection.subscribe(inbox)
    waiting: list[int] = []
    done = 0

    def wait_below(count: int) -> None:
        nonlocal done
        while len(waiting) > count:
            batch = connection.receive_of(sid, max(api.timeout, 10.0))
            if not batch:
                raise ClientTimeoutError(f"the restore of {config['name']} is silent")
            for payload in batch.payloads:
                if payload:
                    document_of(payload)  # a refusal
                done += waiting.pop(0)
            if sent is not None:
                sent(done)

    try:
        for piece in pieces:
            wait_below(_WINDOW - 1)
            waiting.append(len(piece))
            connection.publish(subject, piece, reply=inbox)
        wait_below(0)
        answer = connection.request(subject, b"", timeout=max(api.timeout, _LAST_TIMEOUT))
        return document_of(answer.data)
    finally:
        if connection.is_open:
            connection.unsubscribe(sid)
