"""Servers as commands ask them: by a user of the system account, a monitoring port, or an account's own view.

Here lives the choice of the source by the flags, lines of tables made of answers, and `--watch`. Never lives
here: what is asked (`server_report`, `server_list`, `server_request`), how (`client.server_sources`).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.cli.text_table import ColumnKind, TextColumn
from headrace.client.errors import ServerError
from headrace.client.server_sources import (
    EVERY_SERVER,
    NO_ANSWER,
    AccountSource,
    MonitoringSource,
    ServerAnswer,
    ServerFilter,
    ServerSource,
    ServerSourceError,
    SystemSource,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headrace.cli.call import Call

ACCOUNT_ONLY: Final = "this account only"

Document = dict[str, Any]


@contextmanager
def server_source(call: Call) -> Iterator[ServerSource]:
    """The source of documents that the flags mean, for a block.

    `--monitor`: those ports. Otherwise the connection: with all servers if its user is one of the system
    account, else with what the account may see of itself. Raises: CommandError, ClientError.
    """
    if getattr(call.options, "monitor", None):
        yield _monitor(call)
        return
    for name in ("monitor_user", "monitor_password_file", "monitor_token_file"):
        if getattr(call.options, name, None) is not None:
            raise CommandError(f"--{name.replace('_', '-')} needs --monitor", ExitCode.WRONG_USE)
    with call.connected() as connection:
        try:
            source: ServerSource = SystemSource(connection, timeout=call.timeout)
        except ServerSourceError:
            source = AccountSource(connection, timeout=call.timeout)
        except ServerError as error:
            if "Permissions Violation" not in error.text or not connection.is_open:
                raise
            source = AccountSource(connection, timeout=call.timeout)
        yield source


def _monitor(call: Call) -> MonitoringSource:
    from headrace.cli.connection_flags import tls_of

    options = call.options
    password, token = _secret(options.monitor_password_file), _secret(options.monitor_token_file)
    if token is not None and options.monitor_user is not None:
        raise CommandError("--monitor-user and --monitor-token-file exclude each other", ExitCode.WRONG_USE)
    if password is not None and options.monitor_user is None:
        raise CommandError("--monitor-password-file needs --monitor-user", ExitCode.WRONG_USE)
    try:
        return MonitoringSource(
            options.monitor,
            user=options.monitor_user,
            password=password or "",
            token=token,
            tls=tls_of(call.shared),
            timeout=call.timeout,
        )
    except ValueError as error:
        raise CommandError(f"--monitor: {error}", ExitCode.WRONG_USE) from None


def _secret(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}", ExitCode.NO_CONNECTION) from None


def among(call: Call) -> ServerFilter:
    """The servers that the flags mean."""
    options = call.options
    found = ServerFilter(
        getattr(options, "name", None), options.host, options.cluster, tuple(options.tags or ())
    )
    return EVERY_SERVER if found == EVERY_SERVER else found


def item_of(answer: ServerAnswer, document: Mapping[str, Any]) -> Document:
    """A line of a listing: the server's name and cluster, and what it said."""
    cluster = {"cluster": answer.cluster} if answer.cluster else {}
    return {"server": answer.name, **cluster, **document}


class ReportColumn(Struct, frozen=True):
    """A column of a report: its heading, the key of its values with dots between names, and their kind.

    `is_optional`: it may be left out where a terminal is narrow, unless the table is ordered by it.
    `can_be_cut`: a part of a value still says something. `instead`: the key of the value where there is none.
    """

    heading: str
    key: str
    kind: ColumnKind = ColumnKind.TEXT
    is_optional: bool = False
    can_be_cut: bool = True
    instead: str = ""

    def shown(self, sort: str) -> TextColumn:
        """Return the column of a table that is ordered by a key."""
        return TextColumn(self.heading, self.kind, self.can_be_cut, self.is_optional and self.key != sort)

    def value(self, item: Mapping[str, Any]) -> Any:
        found: Any = item
        for name in self.key.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if not found and self.instead:
            return item.get(self.instead, found)
        if self.kind is ColumnKind.TIME and isinstance(found, str):
            from headrace.protocol.rfc3339 import parse_time

            return parse_time(found)
        if isinstance(found, list):
            return ", ".join(map(str, found))
        return found


class ServerListing(Struct, frozen=True):
    """Lines of servers, before they are ordered and cut. `missing` servers did not answer."""

    items: list[Document]
    missing: list[Document]
    scope: str


def shown_listing(
    call: Call,
    title: str,
    listing: ServerListing,
    columns: Sequence[ReportColumn],
    sort: str,
    *,
    name: str = "server",
    as_line: bool = False,
) -> int:
    """Print a listing as the flags want it: filtered, ordered by the values of a key, cut.

    Return how many lines there are, the cut ones among them.

    Numbers are ordered from the largest on, texts from the first letter on.
    """
    from headrace.cli.values import exact_time

    out, options = call.out, call.options
    items = listing.items
    if getattr(options, "filter", None):
        text = options.filter.lower()
        items = [
            item for item in items if any(text in str(column.value(item) or "").lower() for column in columns)
        ]
    items = sorted(items, key=lambda item: sort_value(ReportColumn("", sort).value(item)))
    total = len(items)
    if options.limit is not None:
        items = items[: options.limit]
    scope = f", {ACCOUNT_ONLY}" if listing.scope == "account" else ""

    def show() -> None:
        if out.is_terminal:
            out.line(f"{title}{scope}", "bold")
        elif scope:
            out.note(f"{title}{scope}")
        rows = [[column.value(item) for column in columns] for item in items]
        blank = [None] * (len(columns) - 2)
        rows += [[each["server"], each["error"], *blank] for each in listing.missing]
        out.table([column.shown(sort) for column in columns], rows)
        if total > len(items):
            out.note(f"{len(items)} of {total} are shown")

    more = {"scope": listing.scope, "time": exact_time(time.time_ns())}
    out.listing(items, show, total=total, errors=listing.missing, name=name, more=more, as_line=as_line)
    return total


def sort_value(value: Any) -> tuple[int, float, str]:
    """The place of a value in an order: numbers first, the largest before, then texts, then nothing."""
    if value is None or value == "":
        return (2, 0.0, "")
    if isinstance(value, int | float):
        return (0, -value, "")
    return (1, 0.0, str(value).lower())


def watched(call: Call, once: Callable[[ServerSource, bool], ExitCode | None]) -> ExitCode | None:
    """Do something with a source: once, or again and again with `--watch` until it is interrupted.

    `once` gets True where it is one of many. A connection that is lost is made again. Raises: CommandError,
    ClientError, with `--watch` only of the first time.
    """
    pause = getattr(call.options, "watch", None)
    if pause is None:
        with server_source(call) as source:
            return once(source, False)
    if pause < 100_000_000:
        raise CommandError("--watch is at least 100ms", ExitCode.WRONG_USE)
    from headrace.client.errors import ClientError

    is_first = True
    while True:
        try:
            with server_source(call) as source:
                while True:
                    if call.out.is_terminal and not call.out.is_json:
                        call.out.clear()
                    once(source, True)
                    is_first = False
                    time.sleep(pause / 1e9)
        except ClientError as error:
            if is_first:
                raise
            call.out.warn(f"{error}; asking again")
            time.sleep(pause / 1e9)


def failed(answers: Iterable[ServerAnswer]) -> list[Document]:
    """The servers that answered with an error, as objects with `server` and `error`."""
    return [{"server": each.name, "error": each.error} for each in answers if each.error is not None]


def is_silent(missing: Iterable[Mapping[str, Any]]) -> bool:
    """True if a server did not answer."""
    return any(str(each["error"]).startswith(NO_ANSWER) for each in missing)
