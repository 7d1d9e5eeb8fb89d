"""A load from its options to its report: prepared, run by processes, cleaned up.

    report = run_load(LoadOptions(scenario=Scenario.PUB, clients=2), "nats://127.0.0.1:4222")
    report.total.messages_per_second

Never here: how a message is sent or counted (`publishing`, `receiving`), or how a report looks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.client.blocking import connect
from headrace.client.errors import ClientError
from headrace.client.options import ConnectOptions, resolve_addresses
from headrace.load.board import LoadBoard
from headrace.load.errors import LoadError
from headrace.load.options import LoadOptions, Publishing, Scenario, check_options
from headrace.load.plan import LoadPlan
from headrace.load.preparation import PreparedStream, reads_what_it_fills
from headrace.load.processes import ClientFailure, Crew, run_crew
from headrace.load.result import LoadFigures, summed_figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.client.blocking import Connection

    Progress = Callable[[int, int | None], None]
    """Called with the messages that are done, and those that are wanted (None: until the time is over)."""

FILL_WINDOW: Final = 500
"""Messages on their way while a stream is filled that is read afterwards."""


class LoadReport(Struct, frozen=True):
    """The outcome of a load: figures of each client, of each partner, and of all clients together.

    `failure`: what ended the load early. `wanted`: the messages that were asked for, None for a duration.
    `left_behind`: what could not be removed again, and why.
    """

    options: LoadOptions
    server: str
    version: str
    clients: tuple[LoadFigures, ...]
    partners: tuple[LoadFigures, ...]
    total: LoadFigures
    wanted: int | None
    failure: ClientFailure | None = None
    was_interrupted: bool = False
    left_behind: str | None = None


def run_load(
    options: LoadOptions,
    url: str | None = None,
    connect_options: ConnectOptions | None = None,
    progress: Progress | None = None,
) -> LoadReport:
    """Run a load against a server. Each client is a process, forked from this one.

    What it made in the server is removed, unless it is to be kept. KeyboardInterrupt ends the load, and what
    was measured until then is the report. Raises: LoadOptionsError; LoadError; while it prepares, as
    `connect` and `JetStreamApi`. What goes wrong in a client is `failure`.
    """
    check_options(options)
    connecting = connect_options or ConnectOptions(name="headrace bench", timeout=options.timeout)
    stream = PreparedStream(options) if options.is_stored else None
    try:
        with connect(url, connecting) as connection:
            plan = LoadPlan(options, resolve_addresses(url), connecting, connection.max_payload)
            if stream is not None:
                _prepare(stream, plan, connection, lambda: _fill(options, url, connecting))
            server, version = str(connection.address), connection.server_info.version
        report = _run(plan, server, version, progress)
    except BaseException as error:
        if stream is not None and (left := _left_behind(stream, url, connecting)):
            error.add_note(left)
        raise
    left = None if stream is None else _left_behind(stream, url, connecting)
    return replace(report, left_behind=left)


def _prepare(
    stream: PreparedStream, plan: LoadPlan, connection: Connection, fill: Callable[[], None]
) -> None:
    stream.make(connection)
    if reads_what_it_fills(plan.options, was_made=stream.was_made):
        fill()
    plan.know(stream, connection)


def _left_behind(stream: PreparedStream, url: str | None, connecting: ConnectOptions) -> str | None:
    """Remove what was made, over a new connection; return what could not be removed, and why."""
    if not stream.is_untidy:
        return None
    try:
        with connect(url, connecting) as connection:
            stream.clean(connection)
    except ClientError as error:
        return f"stream {stream.name} and its consumers could not be removed: {error}"
    return None


def _fill(options: LoadOptions, url: str | None, connecting: ConnectOptions) -> None:
    """Publish what is read afterwards. Raises: LoadError."""
    messages = len(options.subject_names) if options.is_key_value else options.messages
    filling = replace(
        options,
        scenario=Scenario.KV_PUT if options.is_key_value else Scenario.JS_PUB,
        publishing=Publishing.ASYNC,
        clients=1,
        messages=messages,
        duration=None,
        rate=None,
        batch=FILL_WINDOW,
        create=False,
        purge=False,
    )
    report = run_load(filling, url, connecting)
    if report.was_interrupted:
        raise KeyboardInterrupt
    if report.failure is not None or report.total.errors:
        reason = report.failure.text if report.failure else next(iter(report.total.errors))
        raise LoadError(f"stream {options.stream_name} could not be filled: {reason}")


def _run(plan: LoadPlan, server: str, version: str, progress: Progress | None) -> LoadReport:
    options = plan.options
    board, partners_board = LoadBoard(options.clients), LoadBoard(plan.partners)
    wanted = plan.wanted

    def step() -> None:
        if progress is not None:
            progress(board.total, wanted)

    makers = [partial(plan.client, board, index) for index in range(options.clients)]
    helpers = [partial(plan.partner, partners_board, index) for index in range(plan.partners)]
    result = run_crew(Crew(makers, board), Crew(helpers, partners_board), step)
    return LoadReport(
        options,
        server,
        version,
        tuple(result.clients),
        tuple(result.partners),
        summed_figures(result.clients),
        wanted,
        result.failure,
        result.was_interrupted,
    )
