"""`headrace trace`: the way of a message through servers, accounts, mappings and streams."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.client.pub import headers_of
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call
    from headrace.client.blocking import Connection

_QUIET_S: Final = 0.5
_KINDS: Final = {
    0: "client",
    1: "route",
    2: "gateway",
    3: "system",
    4: "leaf node",
    5: "JetStream",
    6: "account",
}
"""The kinds of connections by their numbers in traces."""
_SHOWN: Final = ("cid", "name", "acc", "subj", "sub", "queue", "hop")


def trace(call: Call) -> None:
    """Send a traced message and print what servers tell. Raises: CommandError if none does; ClientError."""
    options = call.options
    headers = headers_of(options.header, lambda text, _number: text)
    body = call.body(options.body)
    found = 0
    with call.connected() as connection:
        inbox = connection.new_inbox()
        sid = connection.subscribe(inbox)
        headers["Nats-Trace-Dest"] = [inbox.decode()]
        if not options.deliver:
            headers["Nats-Trace-Only"] = ["true"]
        connection.publish(options.subject, body, headers=headers)
        connection.flush(call.timeout)
        for document in _traces(connection, sid, call.timeout):
            found += 1
            _print(call, document)
    if not found:
        text = f"no server told of a message on {options.subject!r}: it may trace none, or not for this user"
        raise CommandError(text, ExitCode.TIMED_OUT)


def _traces(connection: Connection, sid: bytes, timeout: float) -> Iterator[dict[str, Any]]:
    """Yield what servers tell, until they have been silent for a while."""
    from headrace.client.blocking import messages_of
    from headrace.client.system import document_of

    until = time.monotonic() + timeout
    while batch := connection.receive_of(sid, max(until - time.monotonic(), 0.0)):
        for message in messages_of(batch):
            yield document_of(message)
        until = time.monotonic() + _QUIET_S


def _print(call: Call, document: dict[str, Any]) -> None:
    out = call.out
    server = str(document.get("server", {}).get("name", ""))

    def show() -> None:
        out.line(f"server {server}", "bold")
        for event in document.get("events") or ():
            out.line(f"  {_line(event)}", "red" if event.get("error") else "")

    out.event(document, show, quiet=server)


def _line(event: dict[str, Any]) -> str:
    kind = _KINDS.get(event.get("kind", -1), "connection")
    verbs = {
        "in": f"from {kind}", "eg": f"to {kind}", "sm": f"mapped to {event.get('to')}",
        "se": f"service import from {event.get('from')} to {event.get('to')}",
        "si": f"stream import, to {event.get('to')}", "js": f"stream {event.get('stream')}",
    }  # fmt: skip
    facts = [f"{name} {event[name]}" for name in _SHOWN if event.get(name)]
    if event.get("nointerest"):
        facts.append("nobody is interested")
    if event.get("error"):
        facts.append(f"error: {event['error']}")
    return ", ".join([verbs.get(str(event.get("type")), str(event.get("type"))), *facts])
