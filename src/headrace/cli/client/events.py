"""`headrace events`: what servers and JetStream tell of, as it happens.

Here lives which subjects these are, those that a stream has kept, and how an event is told in a line. Never
lives here: messages of clients (`sub`), other messages that are stored (`stream`).
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.client.api import JetStreamAssets
from headrace.client.stored_messages import ReadableStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.cli.call import Call

_ADVISORIES: Final = "ADVISORY.>"
_METRICS: Final = "METRIC.>"
"""The subjects of metrics behind the beginning of JetStream's events, which a context may change."""
_OF_ACCOUNTS: Final = ("$SYS.ACCOUNT.*.CONNECT", "$SYS.ACCOUNT.*.DISCONNECT")
_OF_SERVERS: Final = ("$SYS.SERVER.>",)
_TOLD: Final = (
    "account",
    "stream",
    "consumer",
    "stream_seq",
    "deliveries",
    "action",
    "reason",
    "user",
    "name",
)
_MARGIN: Final = 4
"""The cells around a name."""
_LEAST: Final = 20


def events(call: Call) -> None:
    """Print events until it is interrupted. Raises: CommandError, ClientError."""
    options = call.options
    subjects = _subjects(call)
    began = time.monotonic()
    limit_ns = getattr(options, "for")
    count = 0
    kept = None if options.since is None else _KeptEvents(call, subjects)
    with call.reconnecting() as connection:
        for subject in subjects:
            connection.subscribe(subject)
        connection.flush(call.timeout)
        call.out.note(f"listening on {', '.join(subjects)}")
        for subject, data in () if kept is None else kept.read(options.since):
            if not _is_wanted(options.filter, subject, data):
                continue
            _print(call, subject, data)
            count += 1
            if options.count is not None and count >= options.count:
                return
        while True:
            left = None if limit_ns is None else max(began + limit_ns / 1e9 - time.monotonic(), 0.0)
            batch = connection.receive(left)
            if not batch:
                return
            for raw, data in zip(batch.subjects(), batch.payloads, strict=True):
                subject = raw.decode("utf-8", "backslashreplace")
                if not _is_wanted(options.filter, subject, data):
                    continue
                if kept is not None and kept.has_told(subject, bytes(data)):
                    continue
                _print(call, subject, bytes(data))
                count += 1
                if options.count is not None and count >= options.count:
                    return


class _KeptEvents:
    """The events that streams have kept. Made before events are listened to, read once they are: what comes
    in between is in both, and is told once.

    Raises: CommandError if no stream has one of the subjects; ClientError.
    """

    def __init__(self, call: Call, subjects: list[str]) -> None:
        self._call = call
        self._places: list[tuple[str, str, int]] = []
        """Subject, stream, and its last sequence at that time."""
        self._told: set[tuple[str, bytes]] = set()
        with call.connected() as connection:
            assets = JetStreamAssets(call.api(connection))
            for subject in subjects:
                name = next(assets.stream_names(subject), None)
                if name is None:
                    raise CommandError(
                        f"no stream keeps {subject}: make one (headrace stream add EVENTS --subjects "
                        f"'{subject}'), and what comes then is kept",
                        ExitCode.NOT_THERE,
                    )
                self._places.append((subject, name, ReadableStream(assets, name).last_sequence))

    def read(self, since_ns: int) -> Iterator[tuple[str, bytes]]:
        """Yield subjects and bodies from a time on, in ns since 1970 UTC, of one stream after the other."""
        with self._call.connected() as connection:
            assets = JetStreamAssets(self._call.api(connection))
            for subject, name, last in self._places:
                for message in ReadableStream(assets, name).forward(since_ns=since_ns, subject=subject):
                    data = bytes(message.data)
                    if message.sequence > last:
                        self._told.add((message.subject, data))
                    yield message.subject, data

    def has_told(self, subject: str, data: bytes) -> bool:
        """Return whether an event that comes now was read already."""
        if (subject, data) not in self._told:
            return False
        self._told.remove((subject, data))
        return True


def _subjects(call: Call) -> list[str]:
    """The subjects that the flags mean; without any, advisories of JetStream. Raises: CommandError."""
    options = call.options
    if options.all and (
        options.js_advisory or options.js_metric or options.server_events or options.account_events
    ):
        raise CommandError("--all has the others in it", ExitCode.WRONG_USE)
    found = list(options.subjects or ())
    if options.js_metric or options.all:
        found.append(f"{call.settings.event_prefix}.{_METRICS}")
    if options.server_events or options.all:
        found += _OF_SERVERS
    if options.account_events or options.all:
        found += _OF_ACCOUNTS
    if options.js_advisory or options.all or not found:
        found.insert(0, f"{call.settings.event_prefix}.{_ADVISORIES}")
    return found


def _is_wanted(text: str | None, subject: str, data: bytes) -> bool:
    return text is None or text in subject or text.encode() in data


def _print(call: Call, subject: str, data: bytes) -> None:
    """Print an event: the server's document, with the subject beside it where it is none."""
    from headrace.cli.json_keys import body_document

    try:
        event = json.loads(data)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        event = {"subject": subject, **body_document(data)}
    kind = str(event.get("type") or subject)

    def show() -> None:
        if call.options.short or not call.out.is_terminal:
            call.out.line(_line(event, subject))
            return
        call.out.line(f"[{_when(event)}] {kind.rpartition('.')[2]}  {subject}", "bold")
        told = {name: _plain(value) for name, value in event.items() if name not in ("type", "id")}
        room = max(call.out.width - max(map(len, told), default=0) - _MARGIN, _LEAST)
        call.out.facts((name, _beginning(text, room)) for name, text in told.items())
        call.out.line()

    call.out.event(event, show, quiet=kind)


def _beginning(text: str, room: int) -> str:
    """Return a text that takes one line; --json has all of it."""
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _line(event: Mapping[str, Any], subject: str) -> str:
    kind = str(event.get("type") or subject).rpartition(".")[2]
    client = event.get("client") or {}
    server = event.get("server")
    if isinstance(server, dict):
        server = server.get("name")
    told = {name: client.get(name) for name in ("acc", "user", "name", "host", "id") if client.get(name)}
    told |= {name: event[name] for name in _TOLD if event.get(name) not in (None, "")}
    if server:
        told["server"] = server
    text = " ".join(f"{name}={_plain(value)}" for name, value in told.items())
    return f"{_when(event)} {kind} {text or subject}"


def _when(event: Mapping[str, Any]) -> str:
    from headrace.cli.values import exact_time

    server = event.get("server")
    of_server = server.get("time") if isinstance(server, dict) else None
    return str(event.get("timestamp") or of_server or exact_time(time.time_ns()))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
