"""`headrace micro ls`, `info`, `stats`, `ping` and `request`: services of others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from headrace.cli.call import Call

Document = dict[str, Any]


def list_all(call: Call) -> ExitCode | None:
    """List the instances of services. Raises: ClientError."""
    from headrace.client.errors import NoRespondersError

    try:
        items, errors = _answers(call, "INFO", call.options.service)
    except NoRespondersError:
        items, errors = [], []

    def show() -> None:
        from headrace.cli.text_table import ColumnKind, TextColumn

        columns = (
            TextColumn("Name"),
            TextColumn("Version", can_be_cut=False),
            TextColumn("Id"),
            TextColumn("Endpoints", ColumnKind.NUMBER),
            TextColumn("Description"),
        )
        rows = [
            (
                item.get("name", ""),
                item.get("version", ""),
                item.get("id", ""),
                len(item.get("endpoints") or ()),
                item.get("description") or "",
            )
            for item in items
        ]
        call.out.table(columns, rows)

    call.out.listing(items, show, errors=errors)
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def info(call: Call) -> None:
    """Show the instances of a service. Raises: CommandError if there is none, ClientError."""
    items, errors = _of_service(call, "INFO")

    def show() -> None:
        from headrace.cli.text_table import TextColumn

        for item in items:
            metadata = item.get("metadata") or {}
            call.out.facts(
                (
                    ("name", item.get("name")),
                    ("id", item.get("id")),
                    ("version", item.get("version")),
                    ("description", item.get("description") or None),
                    ("metadata", ", ".join(f"{key}={value}" for key, value in metadata.items()) or None),
                )
            )
            columns = (TextColumn("Endpoint"), TextColumn("Subject"), TextColumn("Queue group"))
            rows = [
                (each.get("name", ""), each.get("subject", ""), each.get("queue_group", ""))
                for each in item.get("endpoints") or ()
            ]
            call.out.table(columns, rows)

    call.out.listing(items, show, errors=errors, name="id")


def stats(call: Call) -> None:
    """Show how often endpoints were asked. Raises: CommandError if there is no service, ClientError."""
    items, errors = _of_service(call, "STATS")

    def show() -> None:
        from headrace.cli.text_table import ColumnKind, TextColumn

        number, duration = ColumnKind.NUMBER, ColumnKind.DURATION
        columns = (
            TextColumn("Id"),
            TextColumn("Endpoint"),
            TextColumn("Requests", number),
            TextColumn("Errors", number),
            TextColumn("Processing", duration),
            TextColumn("Average", duration),
            TextColumn("Last error"),
        )
        rows = [
            (
                item.get("id", ""),
                each.get("name", ""),
                each.get("num_requests", 0),
                each.get("num_errors", 0),
                each.get("processing_time", 0),
                each.get("average_processing_time", 0),
                each.get("last_error") or "",
            )
            for item in items
            for each in item.get("endpoints") or ()
        ]
        call.out.table(columns, rows)

    call.out.listing(items, show, errors=errors, name="id")


def ping(call: Call) -> None:
    """Show which instances answer. Raises: CommandError if there is none of a name, ClientError."""
    from headrace.client.errors import NoRespondersError
    from headrace.client.services import ask_services

    options = call.options
    began = time.perf_counter_ns()
    with call.connected() as connection:
        answers = ask_services(
            connection, "PING", options.service, options.id, count=options.expect, timeout=call.timeout
        )
        try:
            for answer in answers:
                took_ns = time.perf_counter_ns() - began
                if isinstance(answer, ProtocolError):
                    call.out.warn(str(answer))
                    continue
                _show_ping(call, answer, took_ns)
        except NoRespondersError:
            if options.service is None:
                raise
            raise _missing(call) from None


def _show_ping(call: Call, answer: Document, took_ns: int) -> None:
    from headrace.cli.values import shown_duration

    document = {name: value for name, value in answer.items() if name != "type"} | {"rtt_ns": took_ns}
    words = " ".join(str(document.get(name, "")) for name in ("name", "version", "id"))
    call.out.event(
        document,
        lambda: call.out.line(f"{words} {shown_duration(took_ns)}"),
        quiet=str(document.get("name", "")),
    )


def ask(call: Call) -> ExitCode:
    """Ask an endpoint; return 6 if it answers with an error. Raises: CommandError, ClientError."""
    from headrace.cli.client import request

    options = call.options
    options.id = options.expect = None
    items, _ = _of_service(call, "INFO")
    found = {
        each.get("name"): str(each.get("subject", ""))
        for item in items
        for each in item.get("endpoints") or ()
    }
    subject = found.get(options.endpoint)
    if subject is None:
        names = ", ".join(sorted(map(str, found))) or "none"
        text = f"service {options.service} has no endpoint {options.endpoint}; there are: {names}"
        raise CommandError(text, ExitCode.NOT_THERE)
    if any(token in ("*", ">") for token in subject.split(".")):
        text = f"endpoint {options.endpoint} listens on {subject}: request takes a subject"
        raise CommandError(text, ExitCode.WRONG_USE)
    options.subject = subject
    return request.ask(call)


def _of_service(call: Call, verb: str) -> tuple[list[Document], list[Document]]:
    """The answers of the service that is named, and errors. Raises: CommandError if there is none."""
    from headrace.client.errors import NoRespondersError

    try:
        items, errors = _answers(call, verb, call.options.service, call.options.id)
    except NoRespondersError:
        raise _missing(call) from None
    if not items and not errors:
        raise CommandError(f"service {call.options.service} does not answer", ExitCode.TIMED_OUT)
    return items, errors


def _missing(call: Call) -> CommandError:
    instance = f" has no instance {call.options.id}" if call.options.id else " is not there"
    return CommandError(f"service {call.options.service}{instance}", ExitCode.NOT_THERE)


def _answers(
    call: Call, verb: str, name: str | None, instance: str | None = None
) -> tuple[list[Document], list[Document]]:
    """The answers of instances, by name and id, and what is wrong with answers that are none."""
    from headrace.client.services import ask_services

    items, errors = [], []
    with call.connected() as connection:
        for answer in ask_services(
            connection, verb, name, instance, count=call.options.expect, timeout=call.timeout
        ):
            if isinstance(answer, ProtocolError):
                errors.append({"server": "an instance", "error": str(answer)})
            else:
                answer.pop("type", None)
                items.append(answer)
    items.sort(key=lambda item: (str(item.get("name")), str(item.get("id"))))
    return items, errors
