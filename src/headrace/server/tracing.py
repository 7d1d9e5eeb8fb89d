"""Traces of messages: who may ask for them, where they go, and the document that is sent there.

Here live permissions, sampling and publishing. Never lives here: what headers mean and how events look
(`core.tracing`), what happens to a message (`engine.tracing` tells it).
Source: ADR-41 of NATS; rules and log lines compared with the Go server 2.15.1.
"""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.core.tracing import DEST, ORIGIN, ConnectionKind, MessageTrace, disabled, wanted
from headrace.server.account_links import AccountLinks
from headrace.server.monitor.text import encode
from headrace.subjects import grammar
from headrace.subjects.transform import RandomBelow, random_below

if TYPE_CHECKING:
    from headrace.core.account import Account
    from headrace.core.tracing import TracedConnection, TraceRequest
    from headrace.server.port import LinkHost
    from headrace.server.system.service import SystemService

    class _Server(LinkHost, Protocol):
        @property
        def system(self) -> SystemService: ...


_Message = tuple[bytes, bytes, int]
"""Its subject, its header block, and the bytes of that and of its payload."""

_ALL: Final = 100
_DROP: Final = True
_ACCEPT: Final = "Accept-Encoding"


class _NoTrace(Exception):
    """A message gets no trace. `disables`: nor does any other server trace it."""

    def __init__(self, text: str = "", *, disables: bool = False) -> None:
        super().__init__(text)
        self.disables = disables


class Tracer:
    """Begins the traces of one server. `engine.tracing` says how it is asked."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._below: RandomBelow = random_below
        self._links = AccountLinks(server, maps=False)
        """The links over which traces are published.

        As with nats-server, no mapping applies: the destination that was asked for is judged.
        """

    def close(self) -> None:
        """Publish no trace any more."""
        self._links.close()

    # -- which messages ---------------------------------------------------------------------------

    def begin(
        self, session: Any, account: bytes | None, message: _Message, error: str | None
    ) -> MessageTrace | bytes | bool | None:
        """A message has come that may want to be traced.

        `account`: its name, None for one that is not known here. `error`: it is refused for that already;
        then its trace is sent at once, and nothing is given back.
        """
        asked = wanted(message[1])
        if asked is None:
            return None
        try:
            found, dest = self._place(session, account, asked)
        except _NoTrace as none:
            if str(none):
                session.error(str(none))
            if asked.is_only:
                return _DROP
            return disabled(message[1]) if none.disables else None
        if not self._may_publish(session, found, dest):
            session.refuse_publish(dest)
            return _DROP
        trace = self._trace(session.traced_connection, found, message, asked, dest)
        if error is None:
            return trace
        trace.failed(error)
        trace.finish()
        return None

    def _place(self, session: Any, account: bytes | None, asked: TraceRequest) -> tuple[Account, bytes]:
        """The account of a message and where its traces go. Raises: _NoTrace."""
        origin = asked.first(ORIGIN)
        if origin and not asked.is_external:
            raise _NoTrace(
                f'Message tracing disabled because of header "{ORIGIN}" with value="{origin}"', disables=True
            )
        name = _text(account or b"")
        if account is None or name not in self._server.accounts:
            raise _NoTrace(f'Account "{name}" was not found, won\'t be able to trace events')
        found = self._server.accounts[name]
        dest = asked.first(DEST.decode())
        if asked.is_external:
            options = found.options.trace
            if options is None:
                raise _NoTrace
            if session.traced_connection.kind is ConnectionKind.CLIENT and not is_chosen(
                options.sampling, self._below
            ):
                raise _NoTrace(disables=True)
            dest = options.dest
        subject = dest.encode("utf-8", "replace")
        if not grammar.is_valid_subject(subject) or grammar.has_wildcard(subject):
            raise _NoTrace(f'Destination "{dest}" is not valid, won\'t be able to trace events')
        return found, subject

    def _may_publish(self, session: Any, account: Account, dest: bytes) -> bool:
        if dest.startswith(b"_GR_."):
            return False
        if dest.startswith(b"$NRG.") and account.name != self._server.accounts.system:
            return False
        return bool(session.may_trace_to(dest))

    # -- what is told of them ---------------------------------------------------------------------

    def _trace(
        self, source: TracedConnection, account: Account, message: _Message, asked: TraceRequest, dest: bytes
    ) -> MessageTrace:
        subject, _, size = message

        def send(trace: MessageTrace) -> None:
            request = {"header": dict(sorted(asked.headers.items())), "msgsize": size}
            hops = {"hops": trace.hops} if trace.hops else {}
            self._send(account, dest, {"request": request, **hops, "events": trace.events}, asked)

        return MessageTrace(
            source=source,
            account=account.name,
            subject=_text(subject),
            wanted=asked,
            dest=dest,
            system=self._server.accounts.system or "",
            now_ns=time_ns,
            send=send,
        )

    def _send(self, account: Account, dest: bytes, fields: dict[str, Any], asked: TraceRequest) -> None:
        """Publish a document in the account that the message came in, if both are still there."""
        server = self._server
        if server.accounts.system is None or server.system.host is None:
            return
        if not self._links.knows(account):
            return
        from headrace.server.system.encoding import content_encoded  # most messages are not traced

        document = encode({"server": server.system.messages().server_info(), **fields}, indent=False)
        payload, headers = content_encoded(document, asked.first(_ACCEPT))
        self._links.of(account).publish(dest, payload, headers=headers)


def is_chosen(sampling: int, random_below: RandomBelow) -> bool:
    """True if a message is to be sampled: `sampling` of a hundred are."""
    return sampling >= _ALL or random_below(_ALL) < sampling


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
