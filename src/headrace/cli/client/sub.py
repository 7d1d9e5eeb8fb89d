"""`headrace sub`: messages of subjects as they come, or of a stream."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.client.arrivals import EndTimes, acknowledges, of_stream, of_subjects
from headrace.cli.conditions import conditions
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call
    from headrace.cli.client.arrivals import Arrival
    from headrace.client.reconnecting import ReconnectingConnection

_BEGINNINGS: Final = ("all", "new", "last", "last_per_subject", "from_sequence", "since")
_OF_STREAMS: Final = (*_BEGINNINGS, "until_end", "durable", "ack")
_OF_SUBJECTS: Final = ("queue", "inbox", "match_replies")
_NAK_DELAY_NS: Final = 1_000_000_000
"""The time after which a message comes again whose command failed."""
_MOST_ASKED: Final = 10_000
"""Requests whose answers are waited for with `--match-replies`."""


def subscribe(call: Call) -> ExitCode | None:
    """Listen and print; return 1 if a command of `--exec` failed. Raises: CommandError, ClientError."""
    _check(call.options)
    if call.options.stream is None:
        return _of_subjects(call)
    times = _times(call.options)
    with call.reconnecting(resumes=True) as connection, of_stream(call, call.api(connection), times) as found:
        call.out.note(f"reading stream {call.options.stream}")
        return _show_all(call, found)


def _of_subjects(call: Call) -> ExitCode | None:
    options = call.options
    with call.reconnecting() as connection:
        subjects = list(options.subject)
        if options.inbox:
            subjects.append(connection.new_inbox().decode())
            call.out.note(f"inbox {subjects[-1]}")
        for subject in subjects:
            connection.subscribe(subject, options.queue)
        answers = None
        if options.match_replies:
            answers = _prefix(connection)
            connection.subscribe(f"{answers}>")
        connection.flush(call.timeout)
        call.out.note(f"listening on {', '.join(subjects)}")
        return _show_all(call, of_subjects(connection, _times(options)), answers)


def _check(options: Any) -> None:
    """Raise CommandError for flags that exclude each other, or want others."""
    if options.stream is None and not options.subject and not options.inbox:
        raise CommandError("give a SUBJECT, --inbox or --stream", ExitCode.WRONG_USE)
    wrong = _OF_STREAMS if options.stream is None else _OF_SUBJECTS
    for name in wrong:
        if getattr(options, name) not in (None, False):
            verb = "needs" if options.stream is None else "does not go with"
            raise CommandError(f"--{name.replace('_', '-')} {verb} --stream", ExitCode.WRONG_USE)
    for first, second in (("match_replies", "report"), ("match_replies", "rate"), ("exec", "report")):
        if getattr(options, first) not in (None, False) and getattr(options, second):
            text = f"--{first.replace('_', '-')} and --{second} exclude each other"
            raise CommandError(text, ExitCode.WRONG_USE)
    if options.null and not options.raw:
        raise CommandError("--null needs --raw", ExitCode.WRONG_USE)
    given = [name for name in _BEGINNINGS if getattr(options, name) not in (None, False)]
    if len(given) > 1:
        text = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise CommandError(f"{text} exclude each other", ExitCode.WRONG_USE)
    conditions(options.where)
    if options.exec is not None:
        from headrace.cli.client.message_command import check_command

        check_command(options.exec, "--exec")


def _times(options: Any) -> EndTimes:
    return EndTimes(getattr(options, "for"), options.idle, 1.0 if options.rate else None)


def _prefix(connection: ReconnectingConnection) -> str:
    return connection.new_inbox().decode().rpartition(".")[0] + "."


def _show_all(call: Call, arrivals: Iterator[Arrival | None], answers: str | None = None) -> ExitCode | None:
    """Print what arrives. `answers`: the beginning of subjects on which answers come."""
    options = call.options
    shown = _Shown(call, answers)
    report = None
    if options.report or options.rate:
        from headrace.cli.client.arrival_report import ArrivalReport

        report = ArrivalReport(call, options.depth)
    try:
        for arrival in arrivals:
            if arrival is not None:
                if shown.wants(arrival):
                    if report is None:
                        shown.show(arrival)
                    else:
                        shown.count += 1
                        report.count(arrival.subject, len(arrival.data) + arrival.header_bytes)
                        shown.settle(arrival)
                    if options.count is not None and shown.count >= options.count:
                        break
                if options.until_end and arrival.is_last:
                    break
            if report is not None and options.rate:
                report.tick()
    finally:
        if report is not None and options.report:
            report.show(options.top)
    return ExitCode.FAILED if shown.failures else None


class _Shown:
    """The messages that were printed, and which are."""

    def __init__(self, call: Call, answers: str | None) -> None:
        self._out = call.out
        self._options = call.options
        self._answers = answers
        self._conditions = conditions(call.options.where)
        self._ignored = [pattern.encode() for pattern in call.options.ignore or ()]
        self._text = None if call.options.grep is None else call.options.grep.encode()
        self._asked: dict[str, int] = {}
        self._acknowledges = acknowledges(call.options)
        self._timeout = call.timeout
        self._raw = call.out.is_raw(call.options.raw)
        self._dump = None
        if call.options.dump is not None:
            from headrace.cli.client.message_dump import MessageDump

            self._dump = MessageDump(call.options.dump)
        self.count = 0
        self.failures = 0

    def wants(self, arrival: Arrival) -> bool:
        """True if a message is printed; one that is not is acknowledged, too."""
        wanted = self._wants(arrival)
        if not wanted:
            self.settle(arrival)
        return wanted

    def settle(self, arrival: Arrival, *, is_done: bool = True) -> None:
        """Acknowledge a message of a stream, or have it delivered again."""
        if self._acknowledges and arrival.consumed is not None:
            if is_done:
                # It is waited for: the server may forget one that a consumer's removal follows at once.
                arrival.consumed.ack(timeout=self._timeout)
            else:
                arrival.consumed.nak(_NAK_DELAY_NS)

    def _wants(self, arrival: Arrival) -> bool:
        if self._answers is not None and arrival.subject.startswith(self._answers):
            return arrival.subject in self._asked
        if self._ignored:
            from headrace.subjects.grammar import matches

            subject = arrival.subject.encode()
            if any(matches(pattern, subject) for pattern in self._ignored):
                return False
        if self._text is not None and self._text not in arrival.data:
            return False
        if not self._conditions:
            return True
        try:
            body = json.loads(arrival.data)
        except ValueError:
            return False
        return all(condition.holds(body) for condition in self._conditions)

    def show(self, arrival: Arrival) -> None:
        """Print a message, or write it to its files; acknowledge it."""
        self.count += 1
        if self._options.exec is not None:
            from headrace.cli.client.message_command import run_command

            end = run_command(self._options.exec, arrival.subject, arrival.headers, arrival.data)
            if end.reason:
                self.failures += 1
                self._out.warn(f"{arrival.subject}: the command failed: {end.reason}")
                self.settle(arrival, is_done=False)
                return
            arrival = arrival._replace(data=end.output)
        document = self._document(arrival)
        if self._dump is not None:
            path = str(self._dump.add(document, arrival.data))
            document = {**document, "file": path}
            document.pop("data", None)
            document.pop("data_base64", None)
            self._out.event(document, lambda: self._out.line(path), quiet=path)
        else:
            self._out.event(document, lambda: self._print(arrival, document), quiet=document.get("data"))
        self.settle(arrival)

    def _document(self, arrival: Arrival) -> dict[str, Any]:
        from headrace.cli.json_keys import message_document

        delivery = None if arrival.consumed is None else arrival.consumed.delivery
        document = message_document(
            arrival.subject,
            arrival.data,
            reply=arrival.reply,
            headers=arrival.headers,
            header_bytes=arrival.header_bytes,
            received_ns=time.time_ns(),
            stream=None if delivery is None else delivery.stream,
            sequence=None if delivery is None else delivery.sequence,
            time_ns=None if delivery is None else delivery.time_ns,
            deliveries=None if delivery is None else delivery.deliveries,
            pending=None if delivery is None else delivery.pending,
        )
        if self._options.headers_only:
            document.pop("data", None)
            document.pop("data_base64", None)
        if self._answers is not None:
            number = self._asked.pop(arrival.subject, None)
            if number is not None:
                document["answers"] = number
            elif arrival.reply is not None:
                self._asked[arrival.reply] = self.count
                if len(self._asked) > _MOST_ASKED:
                    del self._asked[next(iter(self._asked))]
        return document

    def _print(self, arrival: Arrival, document: dict[str, Any]) -> None:
        out, options = self._out, self._options
        if options.raw:
            out.body(arrival.data, raw=self._raw, end=b"\0" if options.null else b"\n")
            return
        if options.subjects_only:
            out.line(arrival.subject)
            return
        notes = [f"at {document['received']}"] if getattr(options, "timestamp", False) else []
        if "answers" in document:
            notes.append(f"answers #{document['answers']}")
        if arrival.reply is not None:
            notes.append(f"reply {arrival.reply}")
        if "sequence" in document:
            notes.append(f"sequence {document['sequence']} at {document['time']}")
        out.line(" ".join([f"[#{self.count}] {arrival.subject}", *notes]), "bold")
        for name, values in arrival.headers.items():
            for value in values:
                out.line(f"{name}: {value}", "dim")
        if not options.headers_only:
            if arrival.headers:
                out.line()
            out.body(_indented(arrival.data) if options.pretty else arrival.data)
            out.line()


def _indented(data: bytes) -> bytes:
    """Return JSON with a line for each value; anything else as it is."""
    try:
        return json.dumps(json.loads(data), indent=2, ensure_ascii=False).encode()
    except ValueError:
        return data
