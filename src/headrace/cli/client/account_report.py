"""`headrace account report`: the connections and statistics of the user's own account, on all servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.client.server_asking import ReportColumn, ServerListing, failed, item_of, shown_listing
from headrace.cli.outcomes import ExitCode
from headrace.cli.text_table import ColumnKind
from headrace.client.server_sources import AccountSource, pages

if TYPE_CHECKING:
    from headrace.cli.call import Call

_NUMBER, _SIZE = ColumnKind.NUMBER, ColumnKind.SIZE
_CONNECTIONS: Final = (
    ReportColumn("Server", "server"),
    ReportColumn("Name", "name", instead="mqtt_client"),
    ReportColumn("CID", "cid", _NUMBER),
    ReportColumn("User", "authorized_user"),
    ReportColumn("IP", "ip", is_optional=True, can_be_cut=False),
    ReportColumn("Port", "port", is_optional=True, can_be_cut=False),
    ReportColumn("Uptime", "uptime"),
    ReportColumn("Subs", "subscriptions", _NUMBER),
    ReportColumn("In msgs", "in_msgs", _NUMBER),
    ReportColumn("Out msgs", "out_msgs", _NUMBER),
    ReportColumn("In bytes", "in_bytes", _SIZE, is_optional=True),
    ReportColumn("Out bytes", "out_bytes", _SIZE, is_optional=True),
)
_STATISTICS: Final = (
    ReportColumn("Server", "server"),
    ReportColumn("Account", "acc"),
    ReportColumn("Conns", "conns", _NUMBER),
    ReportColumn("Leafs", "leafnodes", _NUMBER, is_optional=True),
    ReportColumn("Subs", "num_subscriptions", _NUMBER),
    ReportColumn("In msgs", "received.msgs", _NUMBER),
    ReportColumn("Out msgs", "sent.msgs", _NUMBER),
    ReportColumn("In bytes", "received.bytes", _SIZE, is_optional=True),
    ReportColumn("Out bytes", "sent.bytes", _SIZE, is_optional=True),
    ReportColumn("Slow", "slow_consumers", _NUMBER),
)
_SORTS: Final = {
    "in-msgs": ("in_msgs", "received.msgs"),
    "out-msgs": ("out_msgs", "sent.msgs"),
    "in-bytes": ("in_bytes", "received.bytes"),
    "out-bytes": ("out_bytes", "sent.bytes"),
    "subs": ("subscriptions", "num_subscriptions"),
    "server": ("server", "server"),
}


def connections(call: Call) -> ExitCode | None:
    """Print the connections of the account. Raises: ClientError."""
    with call.connected() as nc:
        source = AccountSource(nc, timeout=call.timeout)
        answers = pages(source, "CONNZ", "connections", {"auth": True}, expect=call.options.expect)
    items = [
        item_of(answer, each) for answer in answers.answers for each in answer.data.get("connections") or ()
    ]
    missing = [*answers.missing, *failed(answers.answers)]
    listing = ServerListing(items, missing, source.scope)
    count = shown_listing(
        call, "Connections", listing, _CONNECTIONS, _SORTS[call.options.sort][0], name="cid"
    )
    return _code(call, count, missing)


def statistics(call: Call) -> ExitCode | None:
    """Print what the account did on each server. Raises: ClientError."""
    with call.connected() as nc:
        source = AccountSource(nc, timeout=call.timeout)
        answers = source.ask("ACCSTATZ", expect=call.options.expect)
    items = [
        item_of(answer, each) for answer in answers.answers for each in answer.data.get("account_statz") or ()
    ]
    missing = [*answers.missing, *failed(answers.answers)]
    listing = ServerListing(items, missing, source.scope)
    count = shown_listing(call, "Statistics", listing, _STATISTICS, _SORTS[call.options.sort][1])
    return _code(call, count, missing)


def _code(call: Call, count: int, missing: list[dict[str, Any]]) -> ExitCode | None:
    if call.options.fail_empty and not count:
        return ExitCode.NOT_THERE
    return ExitCode.WRONG if missing else None
