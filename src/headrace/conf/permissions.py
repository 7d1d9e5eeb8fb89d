"""The `permissions` blocks of users: subjects one may publish and subscribe to, and responses.

Here lives their reading. Never lives here: what a permission allows (`headrace.core.permissions`).

Forms of a subject permission: `"a"`, `["a", "b"]`, `{allow: …, deny: …}`; a subscribe entry may be
"subject queue". An empty list, as in the Go server, restricts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from headrace.conf.fields import UNSET, Binder, Field, Table, duration, string_of, whole
from headrace.conf.names import is_valid_subject
from headrace.conf.options import Permissions, ResponsePermission, SubjectPermission
from headrace.conf.problems import shown
from headrace.conf.tree import ListNode, MapNode, Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import UnsetType
    from headrace.conf.tree import Entry, Node


def permissions(binder: Binder, entry: Entry) -> Permissions | UnsetType:
    """One whole permissions block."""
    bound = binder.bind_map(entry, _PERMISSIONS)
    if bound is UNSET:
        return UNSET
    values = bound.values
    return Permissions(
        publish=cast("SubjectPermission | None", values.get("publish")),
        subscribe=cast("SubjectPermission | None", values.get("subscribe")),
        allow_responses=cast("ResponsePermission | None", values.get("allow_responses")),
    )


def _publish(binder: Binder, entry: Entry) -> SubjectPermission | UnsetType | None:
    return _subject_permission(binder, entry, _PUBLISH)


def _subscribe(binder: Binder, entry: Entry) -> SubjectPermission | UnsetType | None:
    return _subject_permission(binder, entry, _SUBSCRIBE)


def _subject_permission(binder: Binder, entry: Entry, table: Table) -> SubjectPermission | UnsetType | None:
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
    """No subjects at all means no restriction."""
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
    values = binder.bind(entry.node, _RESPONSES).values
    default = ResponsePermission()
    # Zero means the default, and less means no limit.
    most = cast("int", values.get("max", 0)) or default.max_messages
    expires = cast("float", values.get("expires", 0.0)) or default.expires
    return ResponsePermission(max_messages=max(most, -1), expires=max(expires, 0.0))


_PUBLISH: Final = Table(
    (
        Field(
            ("allow",),
            _subjects,
            text="Subjects that may be published to",
            kind="string or list",
            default="all",
        ),
        Field(("deny",), _subjects, text="Subjects that may not", kind="string or list"),
    )
)
_SUBSCRIBE: Final = Table(
    (
        Field(
            ("allow",),
            _subjects_and_queues,
            text="Subjects, with or without a queue group, that may be subscribed to",
            kind="string or list",
            default="all",
        ),
        Field(
            ("deny",),
            _subjects_and_queues,
            text="Subjects that may not; a wider subscription is not delivered them",
            kind="string or list",
        ),
    )
)
_RESPONSES: Final = Table(
    (
        Field(
            ("max", "max_msgs", "max_messages", "max_responses"),
            whole,
            text="Responses to one message; -1: no limit",
            default="1",
        ),
        Field(
            ("expires", "expiration", "ttl"),
            duration,
            text="Time after which a response is no longer allowed; 0: none",
            default="2m0s",
        ),
    )
)
_PERMISSIONS: Final = Table(
    (
        Field(
            ("publish", "pub", "import"), _publish, text="Subjects to publish to", kind="string, list or map"
        ),
        Field(
            ("subscribe", "sub", "export"),
            _subscribe,
            text='Subjects to subscribe to; `"subject queue"` for a queue group',
            kind="string, list or map",
        ),
        Field(
            ("allow_responses", "publish_allow_responses"),
            _allow_responses,
            text="Whether, or how, one may publish to the reply subjects of messages received",
            kind="true, false or map",
            default="false",
        ),
    )
)
