"""The `console` block, in `websocket` or beside it: the page for browsers that the WebSocket port serves.

Here lives its reading. Never lives here: the rules between it and the port (`console_options`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.console_options import PAGES, ConsoleOptions
from headrace.conf.fields import UNSET, KeyTable, fields_of, flag, strings, text, values_of
from headrace.conf.names import is_valid_subject
from headrace.conf.problems import shown
from headrace.conf.tree import Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tree import Entry


def console(binder: Binder, entry: Entry) -> ConsoleOptions | UnsetType | None:
    """Read true, false or the block; None: there is no console."""
    if isinstance(entry.node, Scalar) and isinstance(entry.node.value, bool):
        return ConsoleOptions() if flag(binder, entry) is True else None
    bound = binder.bind_map(entry, _CONSOLE)
    if bound is UNSET:
        return UNSET
    if cast("float", bound.values.get("idle_lock", 0.0)) < 0:
        binder.problem("idle_lock cannot be negative", bound.positions["idle_lock"])
    return ConsoleOptions(**cast("dict[str, Any]", values_of(bound, ConsoleOptions)))


def _hide(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    names = strings(binder, entry)
    if names is UNSET:
        return UNSET
    for name in names:
        if name not in PAGES:
            binder.problem(
                f"hide: {shown(name)} is no page", entry.node.position, f"pages: {', '.join(PAGES)}"
            )
    return names


def _pipelines(binder: Binder, entry: Entry) -> str | UnsetType:
    subject = text(binder, entry)
    if subject is not UNSET and subject and not is_valid_subject(subject):
        return binder.problem(f"pipelines: {shown(subject)} is no subject", entry.node.position)
    return subject


def _hosts(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    names = strings(binder, entry)
    if names is UNSET:
        return UNSET
    for name in names:
        if not name or not name.isascii() or any(char in name for char in "/:@*[] "):
            hint = "without port or scheme; each name is written out"
            binder.problem(f"hosts: {shown(name)} is no host name", entry.node.position, hint)
    return names


_CONSOLE: Final = KeyTable(
    fields_of(ConsoleOptions, {"hide": _hide, "pipelines": _pipelines, "hosts": _hosts})
)
