"""Messages that are traced: which ones, by their headers, and what is told of each.

Here live the headers' meaning and the events in their form. Never lives here: how messages are routed
(`engine.tracing` tells what happens), who may ask for traces and where they are published (`server.tracing`).
Source: ADR-41 of NATS; names, order and texts compared with the Go server 2.15.1.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.protocol.jetstream.headers import FIRST_LINE, added, replaced, without
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from collections.abc import Callable

DEST: Final = b"Nats-Trace-Dest"
DISABLED: Final = b"trace disabled"
"""The destination by which no server traces the message (any more). It is no subject."""

ORIGIN: Final = "Nats-Trace-Origin-Account"
"""A header of old servers, with which nothing is traced."""

_HOP: Final = b"Nats-Trace-Hop"
_EXTERNAL: Final = "traceparent"
_FLAGS: Final = re.compile(r"[^-]*-[^-]*-[^-]*-([0-9a-fA-F]{2}|\+[0-9a-fA-F])", re.DOTALL)
_SAMPLED: Final = 1

Event = dict[str, Any]


class ConnectionKind(IntEnum):
    """The kind of a connection, numbered as in trace events."""

    CLIENT = 0
    ROUTER = 1
    GATEWAY = 2
    LEAF = 4


class TracedConnection(Struct, frozen=True):
    """A connection that a message comes from, or goes to."""

    kind: ConnectionKind
    number: int
    name: str


class TraceRequest(Struct, frozen=True):
    """The trace that headers ask for. `headers`: all of them, as the trace shows them."""

    headers: dict[str, list[str]]
    is_external: bool
    """A tracing system marked the message: the account says where its traces go."""

    def first(self, name: str) -> str:
        """The first value of a header, empty when there is none."""
        return self.headers.get(name, [""])[0]

    @property
    def is_only(self) -> bool:
        """True if the message must not be delivered. A tracing system's mark does not ask for that."""
        return not self.is_external and self.first("Nats-Trace-Only").lower() in ("1", "true", "on")


def wanted(block: bytes) -> TraceRequest | None:
    """Read the trace that a header block asks for; None: none, or tracing is disabled.

    Names count as they are written, but for `traceparent`. Headers without a value, or behind a line that is
    none, do not count.
    """
    if not block.startswith(FIRST_LINE):
        return None
    names: list[tuple[str, str]] = []
    has_dest = is_sampled = False
    for name, value in _lines(block):
        if not is_sampled and name.lower() == _EXTERNAL:
            is_sampled = _is_sampled(value)
        elif not has_dest and name == DEST.decode():
            if value == DISABLED.decode():
                return None
            has_dest = True
        names.append((name, value))
    if not has_dest and not is_sampled:
        return None
    headers: dict[str, list[str]] = {}
    for name, value in names:
        headers.setdefault(name, []).append(value)
    return TraceRequest(headers, is_external=not has_dest)


def _lines(block: bytes) -> list[tuple[str, str]]:
    """The headers that have a name and a value."""
    found: list[tuple[str, str]] = []
    at = len(FIRST_LINE)
    while at < len(block):
        colon = block.find(b":", at)
        if colon < 0:
            break
        start = colon + 1
        while start < len(block) and block[start] in b" \t":
            start += 1
        end = block.find(b"\r\n", start)
        if end < 0:
            break
        name, value = block[at:colon], block[start:end].rstrip(b" \t")
        if name and value:
            found.append((name.decode("utf-8", "replace"), value.decode("utf-8", "replace")))
        at = end + 2
    return found


def _is_sampled(value: str) -> bool:
    """True if the flags of a `traceparent` (version-trace-parent-flags) ask for a trace."""
    flags = _FLAGS.fullmatch(value)
    if flags is None:
        return False
    number = int(flags[1], 16)
    return -128 <= number <= 127 and bool(number & _SAMPLED)  # the Go server reads a signed byte


def disabled(block: bytes) -> bytes:
    """The block that keeps other servers from tracing."""
    return _moved(block, DEST, DISABLED)


def stored(block: bytes) -> bytes:
    """The block that keeps everybody from tracing to whom a stream gives the message."""
    return replaced(block, DEST, DISABLED)


def _moved(block: bytes, name: bytes, value: bytes) -> bytes:
    """The block with a header at its end, in place of those it had of that name."""
    return added(without(block, name), (name, value))


class MessageTrace:
    """One message on its way through this server; `engine.tracing` says what calls it.

    `send` is called with it once, when it has been routed and streams have done what they do with it.
    """

    def __init__(
        self,
        *,
        source: TracedConnection,
        account: str,
        subject: str,
        wanted: TraceRequest,
        dest: bytes,
        system: str,
        now_ns: Callable[[], int],
        send: Callable[[MessageTrace], None],
    ) -> None:
        self.is_only = wanted.is_only
        self.dest = dest
        """The subject to which other servers send their events."""
        self.system = system
        """The account that answers requests about streams, for those who trace them."""
        self.hops = 0
        """The number of other servers that the message goes to from here."""
        self.events: list[Event] = []
        self._came_over = wanted.first(_HOP.decode()) if source.kind is not ConnectionKind.CLIENT else ""
        self._next = ""
        self._account = account
        self._now_ns = now_ns
        self._send = send
        self._open = 1
        self._met: list[tuple[str, StreamTrace]] = []
        names = {"name": source.name} if source.name else {}
        self._ingress = self._add(
            "in", kind=int(source.kind), cid=source.number, **names, acc=account, subj=subject
        )

    def _add(self, kind: str, /, **fields: Any) -> Event:
        event = {"type": kind, "ts": short_time(self._now_ns()), **fields}
        self.events.append(event)
        return event

    # -- what happens -----------------------------------------------------------------------------

    def failed(self, error: str) -> None:
        """Note that the message went no further than to this server."""
        self._ingress["error"] = error

    def publish_refused(self, subject: bytes) -> None:
        """Note that the client may not publish to this subject."""
        self.failed(f"Permissions Violation for Publish to {_quoted(subject)}")

    def reply_refused(self, reply: bytes) -> None:
        """Note that the client may not ask for answers at this subject."""
        self.failed(f"Permissions Violation for Publish with Reply of {_quoted(reply)}")

    def mapped(self, subject: bytes) -> None:
        """Note the subject that a mapping has given the message."""
        self._add("sm", to=_text(subject))

    def stream_export(self, account: bytes, subject: bytes, allows: bool) -> bool:
        """Note that the message passes into an account that imports the stream; return True if its trace goes
        on there.
        """
        self._add("se", acc=_text(account), to=_text(subject))
        return allows

    def service_import(self, account: str, subject: bytes, to: bytes) -> None:
        """Note that the message passes into the account that answers such requests."""
        self._add("si", acc=account, **{"from": _text(subject)}, to=_text(to))

    def egress(
        self, session: Any, account: bytes | None, subscription: bytes, queue: bytes, error: str | None
    ) -> None:
        """Note that a connection gets the message, or does not, for the reason `error`.

        `account` is None for routes and gateways.
        """
        connection: TracedConnection = session.traced_connection
        name = _text(account) if account is not None else self._account
        optional = {
            "name": connection.name,
            "hop": self._next,
            "acc": name if name != self._account else "",
            "sub": _text(subscription),
            "queue": _text(queue),
            "error": error,
        }
        self._next = ""
        said = {key: value for key, value in optional.items() if value}
        self._add("eg", kind=int(connection.kind), cid=connection.number, **said)

    def next_hop(self, headers: bytes) -> bytes:
        """Return the headers for one more server that the message goes to."""
        self.hops += 1
        self._next = f"{self._came_over}.{self.hops}" if self._came_over else str(self.hops)
        return _moved(headers, _HOP, self._next.encode())

    def redirected(self, headers: bytes, dest: bytes) -> bytes:
        """Return the headers for another account, where other servers send their events to `dest`; b"": where
        none do.
        """
        return _moved(headers, DEST, dest or DISABLED)

    # -- streams ----------------------------------------------------------------------------------

    def meet(self, stream: str) -> None:
        """Expect the judgement of a stream about the message: the trace is published when that is known."""
        self._open += 1
        self._met.append((stream, StreamTrace(self, self._add("js", stream=stream))))

    def of(self, stream: str) -> StreamTrace:
        """Return the trace of a stream that the message has met. Raises: KeyError for another one."""
        for place, (name, _) in enumerate(self._met):
            if name == stream:
                return self._met.pop(place)[1]
        raise KeyError(stream)

    def update(self, event: Event, error: str) -> None:
        """Update the event of a stream; its time is that of the end."""
        event["ts"] = short_time(self._now_ns())
        if error:
            event["error"] = error
        self.finish()

    def finish(self) -> None:
        """Publish the trace: the message was routed, or a stream is done with it."""
        self._open -= 1
        if self._open == 0:
            self._send(self)


class StreamTrace:
    """The trace of one stream: what it does with the message."""

    def __init__(self, trace: MessageTrace, event: Event) -> None:
        self._trace = trace
        self._event = event
        self._is_done = False

    @property
    def is_only(self) -> bool:
        """True if the message must not be stored."""
        return self._trace.is_only

    def judged(self, subject: bytes, *, wanted: bool) -> None:
        """Note the judgement of a stream: the message would be stored.

        `wanted`: a consumer has interest, where that decides.
        """
        self._event["subject"] = _text(subject)
        if not wanted:
            self._event["nointerest"] = True

    def done(self, error: str = "") -> None:
        """Its event is complete."""
        if not self._is_done:
            self._is_done = True
            self._trace.update(self._event, error)


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "replace")


def _quoted(subject: bytes) -> str:
    return f'"{_text(subject)}"'
