"""`headrace schema`: the JSON of JetStream's API, and whether something is such JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.cli.client.key_files import read_bytes
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.protocol.jetstream.api_schemas import API_TYPES, problem_of, schema_of, short_id, summary_of
from headrace.protocol.jetstream.responses import TYPE_PREFIX

if TYPE_CHECKING:
    from headrace.cli.call import Call


def list_all(call: Call) -> ExitCode | None:
    """List the schemas that have a text in their id."""
    wanted = (call.options.filter or "").lower()
    items = [
        {"id": TYPE_PREFIX + name, "description": summary_of(name)}
        for name in sorted(API_TYPES)
        if wanted in TYPE_PREFIX + name
    ]

    def show() -> None:
        from headrace.cli.text_table import TextColumn

        columns = (TextColumn("Id", can_be_cut=False), TextColumn("Description"))
        call.out.table(columns, [(each["id"], each["description"]) for each in items])

    call.out.listing(items, show, name="id")
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def info(call: Call) -> None:
    """Print one schema. Raises: CommandError for one that is not known."""
    name = _known(call.options.schema)
    found = schema_of(name)

    def show() -> None:
        for line in json.dumps(found, indent=2).splitlines():
            call.out.line(line)

    call.out.document(found, show, quiet=TYPE_PREFIX + name)


def validate(call: Call) -> ExitCode:
    """Check a file by a schema: 3 if it does not fit. Raises: CommandError for a schema that is not known."""
    name = _known(call.options.schema)
    problem = problem_of(name, read_bytes(call.options.file))
    found = {"schema": TYPE_PREFIX + name, "valid": problem is None, "problems": _listed(problem)}
    call.out.document(found, lambda: call.out.line(problem or f"this is a {TYPE_PREFIX + name}"))
    return ExitCode.DONE if problem is None else ExitCode.WRONG


def request(call: Call) -> ExitCode:
    """Ask a server and check its answer: 3 if it does not fit, 6 for an error.

    Raises: CommandError, ClientError.
    """
    options = call.options
    with call.connected() as connection:
        answer = connection.request(options.subject, call.body(options.body), timeout=call.timeout).data
    response = _json_of(answer)
    said = str(response.get("type", ""))
    name = short_id(said)
    if name is None:
        text = f"the answer has no type that has a schema, but {said!r}" if said else "the answer has no type"
        raise CommandError(text, ExitCode.NOT_THERE)
    problem = problem_of(name, answer)
    found = {
        "subject": options.subject,
        "schema": said,
        "valid": problem is None,
        "problems": _listed(problem),
        "response": response,
    }

    def show() -> None:
        for line in json.dumps(response, indent=2, ensure_ascii=False).splitlines():
            call.out.line(line)
        call.out.note(problem or f"this is a {said}")

    call.out.document(found, show, quiet=said)
    if problem is not None:
        return ExitCode.WRONG
    return ExitCode.REFUSED if "error" in response else ExitCode.DONE


def _json_of(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CommandError("the answer is no JSON object", ExitCode.WRONG)
    return found


def _known(schema: str) -> str:
    name = short_id(schema)
    if name is None:
        raise CommandError(f"there is no schema {schema}; see schema ls", ExitCode.NOT_THERE)
    return name


def _listed(problem: str | None) -> list[str]:
    return [] if problem is None else [problem]
