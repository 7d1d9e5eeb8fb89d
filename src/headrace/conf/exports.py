"""The `exports` and `imports` lists of an account.

Here lives the reading of one entry. Never lives here: whether an import has an export (`account_rules`).
Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from headrace.conf.account_options import ExportOptions, ImportOptions, LatencyOptions
from headrace.conf.fields import UNSET, Binder, Field, KeyTable, fields_of, string_of, text, values_of, whole
from headrace.conf.names import is_valid_subject
from headrace.conf.problems import shown
from headrace.conf.tree import MapNode, Scalar
from headrace.protocol.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.fields import Bound, UnsetType
    from headrace.conf.tree import Entry
    from headrace.errors import Position

_T = TypeVar("_T")
_RESPONSE_TYPES: Final = {
    "single": "singleton",
    "singleton": "singleton",
    "stream": "stream",
    "chunk": "chunked",
    "chunked": "chunked",
}
_SERVICE_ONLY: Final = ("response_type", "response_threshold", "latency", "allow_trace")


class Placed(Struct, Generic[_T], frozen=True):
    """An entry of a list and where it stands."""

    value: _T
    position: Position


def exports(binder: Binder, entry: Entry) -> tuple[Placed[ExportOptions], ...] | UnsetType:
    """All exports, in the order written; what is said of one subject twice is one export."""
    found = _entries(binder, entry, _export)
    if found is UNSET:
        return UNSET
    merged: dict[tuple[bool, str], Placed[ExportOptions]] = {}
    for placed in found:
        key = (placed.value.is_service, placed.value.subject)
        earlier = merged.get(key)
        value = _both(earlier.value, placed.value) if earlier else placed.value
        merged[key] = Placed(value, earlier.position if earlier else placed.position)
    return tuple(merged.values())


def _both(first: ExportOptions, second: ExportOptions) -> ExportOptions:
    """Return one export for two entries. Its accounts are never widened to all."""
    accounts = tuple(dict.fromkeys((*(first.accounts or ()), *(second.accounts or ()))))
    says_who = second.accounts is not None or second.token_position
    is_default = second.response_type == _RESPONSE_TYPES["singleton"]
    return replace(
        second,
        accounts=accounts or None,
        token_position=second.token_position if says_who else first.token_position,
        response_type=first.response_type if is_default else second.response_type,
        latency=second.latency or first.latency,
        allow_trace=first.allow_trace or second.allow_trace,
    )


def imports(binder: Binder, entry: Entry) -> tuple[Placed[ImportOptions], ...] | UnsetType:
    """All imports, in the order written."""
    return _entries(binder, entry, _import)


def _entries(
    binder: Binder, entry: Entry, read: Callable[[Binder, MapNode], _T | None]
) -> tuple[Placed[_T], ...] | UnsetType:
    node = binder.list(entry)
    if node is UNSET:
        return UNSET
    found: list[Placed[_T]] = []
    for item in node.items:
        if not isinstance(item, MapNode):
            binder.wrong_node(f"each of the {entry.key}", item, "a map")
            continue
        before = len(binder.problems)
        value = read(binder, item)
        if value is not None and len(binder.problems) == before:
            found.append(Placed(value, item.position))
    return tuple(found)


def _bound(binder: Binder, node: MapNode, table: KeyTable) -> tuple[str, Bound] | None:
    """Bind an entry: its kind, which is "stream" or "service", and its values.

    None: a problem was reported.
    """
    found_before = len(binder.problems)
    bound = binder.bind(node, table)
    if len(binder.problems) > found_before:
        return None
    kinds = [kind for kind in ("stream", "service") if kind in bound.values]
    if len(kinds) == 1:
        return kinds[0], bound
    binder.problem("an entry needs either a stream or a service", node.position)
    return None


def _export(binder: Binder, node: MapNode) -> ExportOptions | None:
    read = _bound(binder, node, _EXPORT)
    if read is None:
        return None
    kind, bound = read
    for key in _SERVICE_ONLY:
        if kind == "stream" and key in bound.values:
            binder.problem(f"{key} is for services only", bound.positions[key])
    values = cast("dict[str, Any]", values_of(bound, ExportOptions))
    export = ExportOptions(subject=values.pop(kind), is_service=kind == "service", **values)
    if export.token_position:
        tokens = export.subject.split(".")
        if export.token_position > len(tokens) or tokens[export.token_position - 1] != "*":
            binder.problem("account_token_position must name a * of the subject", node.position)
    if export.latency is not None and export.response_type != "singleton":
        binder.problem("latency can be sampled of services with one response only", node.position)
    return export


def _import(binder: Binder, node: MapNode) -> ImportOptions | None:
    read = _bound(binder, node, _IMPORT)
    if read is None:
        return None
    kind, bound = read
    values = bound.values
    account, subject = cast("tuple[str, str]", values[kind])
    prefix, to = cast("str", values.get("prefix", "")), cast("str", values.get("to", ""))
    if prefix and kind == "service":
        binder.problem("prefix is for streams only", bound.positions["prefix"])
    if prefix and to:
        binder.problem("a stream import cannot have both a prefix and a to", node.position)
    if prefix and not _is_prefix(prefix):
        binder.problem(f"{shown(prefix)} cannot be a prefix of subjects", bound.positions["prefix"])
    local = f"{prefix.removesuffix('.')}.{subject}" if prefix else to or subject
    if kind == "service" and "allow_trace" in values:
        binder.problem("allow_trace is for imported streams only", bound.positions["allow_trace"])
    share = bool(values.get("share", False)) and kind == "service"
    traces = bool(values.get("allow_trace", False))
    is_service = kind == "service"
    return ImportOptions(account, subject, local, is_service=is_service, share=share, allow_trace=traces)


def _is_prefix(prefix: str) -> bool:
    clean = prefix.removesuffix(".")
    return is_valid_subject(clean) and not {"*", ">"} & set(clean.split("."))


def _subject(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is not UNSET and not is_valid_subject(value):
        return binder.problem(f"{shown(value)} is not a valid subject", entry.node.position)
    return value


def _names(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType | None:
    """The names of accounts; None for an empty list, which keeps nobody out, as in nats-server."""
    node = binder.list(entry)
    if node is UNSET:
        return UNSET
    found = []
    for item in node.items:
        name = string_of(item)
        if name is None:
            binder.wrong_node("the name of an account", item, "a string")
        else:
            found.append(name)
    return tuple(found) or None


def _response_type(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is UNSET:
        return UNSET
    known = _RESPONSE_TYPES.get(value.lower())
    if known is None:
        return binder.problem(f"unknown response type {shown(value)}", entry.node.position)
    return known


def _threshold(binder: Binder, entry: Entry) -> float | UnsetType:
    value = string_of(entry.node)
    if value is None:
        return binder.wrong_type(entry, 'a duration as a string, such as "2m"')
    try:
        return max(parse_duration(value), 0.0)
    except ValueError as error:
        return binder.problem(f"field {shown(entry.key)} is not a duration: {error}", entry.node.position)


def _token_position(binder: Binder, entry: Entry) -> int | UnsetType:
    value = whole(binder, entry)
    if value is not UNSET and value < 1:
        return binder.problem("account_token_position counts from 1", entry.node.position)
    return value


def _latency(binder: Binder, entry: Entry) -> LatencyOptions | UnsetType:
    """A subject to publish to, or a map of that and how much is sampled."""
    single = string_of(entry.node)
    if single is not None:
        return _latency_to(binder, entry, single, 100)
    bound = binder.bind_map(entry, _LATENCY)
    if bound is UNSET:
        return UNSET
    subject = cast("str | None", bound.values.get("subject"))
    if not subject:
        return binder.problem("latency needs a subject to publish to", entry.position)
    return _latency_to(binder, entry, subject, cast("int", bound.values.get("sampling", 100)))


def _latency_to(binder: Binder, entry: Entry, subject: str, sampling: int) -> LatencyOptions | UnsetType:
    if not is_valid_subject(subject) or {"*", ">"} & set(subject.split(".")):
        return binder.problem(f"{shown(subject)} is not a subject to publish to", entry.node.position)
    return LatencyOptions(subject, sampling)


def _sampling(binder: Binder, entry: Entry) -> int | UnsetType:
    node = entry.node
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, str):
        if value.strip().lower() == "headers":
            return 0
        digits = value.removesuffix("%")
        value = int(digits) if digits.isdecimal() and len(digits) < 10 else None
    if isinstance(value, bool) or not isinstance(value, int):
        return binder.problem("sampling must be a percentage, or headers", node.position, "80 or 80%")
    if not 1 <= value <= 100:
        return binder.problem("sampling must lie between 1 and 100 percent", node.position)
    return value


def _source(binder: Binder, entry: Entry) -> tuple[str, str] | UnsetType:
    """The account and the subject of an import."""
    found_before = len(binder.problems)
    bound = binder.bind_map(entry, _SOURCE)
    if bound is UNSET or len(binder.problems) > found_before:
        return UNSET
    account, subject = bound.values.get("account"), bound.values.get("subject")
    if not account or not subject:
        return binder.problem("an import needs an account and a subject", entry.position)
    return cast("str", account), cast("str", subject)


_LATENCY: Final = KeyTable(fields_of(LatencyOptions, {"sampling": _sampling}))
_SOURCE: Final = KeyTable(
    (
        Field(("account",), text, text="Account that exports it"),
        Field(("subject",), _subject, text="Subject, inside what was exported", kind="string"),
    )
)
_EXPORT: Final = KeyTable(
    (
        Field(("stream",), _subject, text="Subject whose messages may be imported", kind="string"),
        Field(("service",), _subject, text="Subject that may be sent requests; one of both", kind="string"),
        *fields_of(
            ExportOptions,
            {
                "accounts": _names,
                "token_position": _token_position,
                "response_type": _response_type,
                "response_threshold": _threshold,
                "latency": _latency,
            },
        ),
    )
)
_IMPORT: Final = KeyTable(
    (
        Field(("stream",), _source, text="Account and subject of a stream", kind="map"),
        Field(("service",), _source, text="Account and subject of a service; one of both", kind="map"),
        Field(("prefix",), text, text="Put before the subject of a stream"),
        Field(
            ("to",),
            text,
            text=(
                "What it is called here; `$1`, `$2` or, in their order, `*` stand for the subject's wildcards"
            ),
        ),
        *fields_of(ImportOptions),
    )
)
