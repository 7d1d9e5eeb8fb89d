"""`headrace micro serve`: a service whose endpoints answer with an echo, a text, or a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.client.reply import MadeAnswer, check_answers, made_answer, say_answer
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.blocking import Connection
    from headrace.client.services import ServiceInstance, ServiceRequest


def serve(call: Call) -> None:
    """Serve until it is interrupted. Raises: CommandError, ClientError."""
    options = call.options
    given = sum((options.echo, options.body is not None, options.command is not None))
    if given > 1:
        raise CommandError("--echo, --body and --command exclude each other", ExitCode.WRONG_USE)
    options.echo = not given or options.echo
    check_answers(options)
    answered = 0
    with call.reconnecting() as connection:
        service = _service(call, connection)
        connection.flush(call.timeout)
        subjects = ", ".join(endpoint.subject for endpoint in service.endpoints)
        call.out.note(f"serving {service.name} {service.version} on {subjects}, id {service.id}")
        for request in service.requests():
            answered += 1
            found = _answered(call, request, answered)
            if options.count is not None and answered >= options.count:
                connection.flush(call.timeout)
            say_answer(call, request, found, endpoint=request.endpoint.name)
            if options.count is not None and answered >= options.count:
                return


def _service(call: Call, connection: Connection) -> ServiceInstance:
    """The service of the flags, which listens. Raises: CommandError for a bad name or version."""
    from headrace.cli.values import read_subject
    from headrace.client.services import ServiceInstance

    options = call.options
    try:
        service = ServiceInstance(
            connection,
            options.name,
            version=options.version,
            description=options.description,
            metadata=dict(options.metadata or ()),
            queue=options.queue,
        )
        for text in options.endpoint or [options.name]:
            name, equals, subject = text.partition("=")
            service.add_endpoint(name, read_subject(subject) if equals else None, schema=options.schema)
    except ValueError as error:
        raise CommandError(str(error), ExitCode.WRONG_USE) from None
    return service


def _answered(call: Call, request: ServiceRequest, number: int) -> MadeAnswer:
    from headrace.client.services import ERROR

    found = made_answer(call, request, call.options.body, number)
    if found.exit_code:
        request.fail(500, found.headers[ERROR][0], found.data, headers=found.headers)
    else:
        request.answer(found.data, headers=found.headers or None)
    return found
