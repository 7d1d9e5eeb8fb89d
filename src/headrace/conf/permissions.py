"""The `permissions` blocks of users: subjects one may publish and subscribe to, and responses.

Here lives their reading. Never lives here: what a permission allows (`headrace.core.permissions`).

Forms of a subject permission: `"a"`, `["a", "b"]`, `{allow: …, deny: …}`; a subscribe entry may be
"subject queue". An empty list, as in the Go server, restricts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.account_options import Permissions, ResponsePermission, SubjectPermission
from headrace.conf.fields import UNSET, Binder, KeyTable, fields_of, string_of, values_of
from headrace.conf.names import is_valid_subject
from headrace.conf.problems import shown
from headrace.conf.tree import ListNode, MapNode, Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import UnsetType
    from headrace.conf.tree import Entry, Node


def permissions(binder: Binder, entry: Entry) -> Permissions | UnsetType:
    """One whole permissions block."""
    bound = binder.bind_map(entry, _PERMISSIONS)
    return UNSET if bound is UNSET else Permissions(**cast("dict[str, Any]", bound.values))


def _publish(binder: Binder, entry: Entry) -> SubjectPermission | UnsetType | None:
    return _subject_permission(binder, entry, _PUBLISH)


def _subscribe(binder: Binder, entry: Entry) -> SubjectPermission | UnsetType | None:
    return _subject_permission(binder, entry, _SUBSCRIBE)


def _subject_permission(
    binder: Binder, entry: Entry, table: KeyTable
) -> SubjectPermission | UnsetType | None:
    if not isinstance(entry.node, MapNode):
        known = table.find("allow")
        assert known is not None, "both tables have this key"
        allow = known.read(binder, entry)
        return UNSET if allow is UNSET else SubjectPermission(allow=_or_none(allow))
    values = binder.bind(entry.node, table).values
    if not values:
        return None
    return SubjectPermission(
        allow=_or_none(values.get("allow")), deny=cast("tuple[str, ...]", values.get("deny", ()))
    )


def _or_none(subjects: object) -> tuple[str, ...] | None:
    """Return the subjects; None for an empty list, which means no restriction."""
    return cast("tuple[str, ...]", subjects) or None


def _subjects(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    return _subject_list(binder, entry, with_queue=False)


def _subjects_and_queues(binder: Binder, entry: Entry) -> tuple[str, ...] | UnsetType:
    return _subject_list(binder, entry, with_queue=True)


def _subject_list(binder: Binder, entry: Entry, *, with_queue: bool) -> tuple[str, ...] | UnsetType:
    node = entry.node
    nodes = node.items if isinstance(node, ListNode) else (node,)
    found = [_subject(binder, item, with_queue=with_queue) for item in nodes]
    return tuple(subject for subject in found if subject is not None)


def _subject(binder: Binder, node: Node, *, with_queue: bool) -> str | None:
    value = string_of(node)
    if value is None:
        binder.wrong_node("a subject", node, "a string")
        return None
    parts = value.split()
    if is_valid_subject(value) or (with_queue and len(parts) == 2 and all(map(is_valid_subject, parts))):
        return value
    expected = ' (or "subject queue")' if with_queue else ""
    binder.problem(f"{shown(value)} is not a valid subject{expected}", node.position)
    return None


def _allow_responses(binder: Binder, entry: Entry) -> ResponsePermission | UnsetType | None:
    if isinstance(entry.node, Scalar) and isinstance(entry.node.value, bool):
        return ResponsePermission() if entry.node.value else None
    if not isinstance(entry.node, MapNode):
        return binder.wrong_type(entry, "true, false or a map")
    values = values_of(binder.bind(entry.node, _RESPONSES), ResponsePermission)
    return ResponsePermission(**cast("dict[str, Any]", values))


_PUBLISH: Final = KeyTable(fields_of(SubjectPermission, dict.fromkeys(SubjectPermission.KEYS, _subjects)))
_SUBSCRIBE: Final = KeyTable(
    fields_of(SubjectPermission, dict.fromkeys(SubjectPermission.KEYS, _subjects_and_queues))
)
_RESPONSES: Final = KeyTable(fields_of(ResponsePermission))
_PERMISSIONS: Final = KeyTable(
    fields_of(
        Permissions, {"publish": _publish, "subscribe": _subscribe, "allow_responses": _allow_responses}
    )
)
