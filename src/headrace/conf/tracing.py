"""`msg_trace` of an account: where traces of messages go that a tracing system has marked.

Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from headrace.conf.account_options import TraceOptions
from headrace.conf.fields import UNSET, Field, Table, fields_of, string_of
from headrace.conf.names import is_valid_subject
from headrace.conf.problems import shown
from headrace.conf.tree import MapNode, Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tree import Entry

_ALL: Final = 100
_MOST_DIGITS: Final = 9


def message_trace(binder: Binder, entry: Entry) -> TraceOptions | UnsetType:
    """A subject, or a map of that and how much is sampled."""
    if not isinstance(entry.node, MapNode):
        dest = _destination(binder, entry)
        return UNSET if dest is UNSET else TraceOptions(dest)
    bound = binder.bind_map(entry, _TRACE)
    if bound is UNSET:
        return UNSET
    values = cast("dict[str, str | int]", bound.values)
    if "dest" not in values:
        if "sampling" in values:
            text = "Trace destination sampling ignored since no destination was set"
            binder.problems.warn(text, entry.position)
        return UNSET
    return TraceOptions(str(values["dest"]), int(values.get("sampling", _ALL)))


def _destination(binder: Binder, entry: Entry) -> str | UnsetType:
    dest = string_of(entry.node)
    if dest is None:
        return binder.wrong_type(entry, "a subject, or a map of dest and sampling")
    if not is_valid_subject(dest) or {"*", ">"} & set(dest.split(".")):
        return binder.problem(f"Trace destination {shown(dest)} is not valid", entry.node.position)
    return dest


def _sampling(binder: Binder, entry: Entry) -> int | UnsetType:
    node = entry.node
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, str):
        digits = value.removesuffix("%")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
        if not is_number:
            text = f"Invalid trace destination sampling value {shown(value)}"
            return binder.problem(text, node.position, "80 or 80%")
        value = int(digits)
    if isinstance(value, bool) or not isinstance(value, int):
        return binder.wrong_type(entry, "an integer or a percentage")
    if not 1 <= value <= _ALL:
        text = f"Trace destination sampling value {value} is invalid, needs to be [1..100]"
        return binder.problem(text, node.position)
    return value


_TRACE: Final = Table(
    (
        Field(("dest",), _destination, text="Subject that traces are published to", kind="string"),
        *fields_of(TraceOptions, {"sampling": _sampling}),
    )
)
