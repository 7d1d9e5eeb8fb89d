"""The permissions of one client, as its link and its ops ask about them.

Never lives here: the rules (`core.permissions`), what a client is told (`client_ops`).
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from headrace.engine.permission_cache import PermissionCache

if TYPE_CHECKING:
    from headrace.core.permissions import PermissionSet, ResponseTracker
    from headrace.engine.client import ClientLink

REFUSED: Final = 0
ALLOWED: Final = 1
FILTERED: Final = 2
"""Allowed, but each delivery is checked."""


class ClientPermissions:
    """The permissions of one client. Everything is permitted before the first `restrict`."""

    __slots__ = ("_permissions", "_responses")

    def __init__(self) -> None:
        self._permissions: PermissionSet | None = None
        self._responses: ResponseTracker | None = None

    def restrict(self, link: ClientLink, permissions: PermissionSet | None) -> None:
        """Let these hold from now on; None: everything is permitted."""
        self._permissions = permissions
        if permissions is None:
            self._responses = None
            link.restrict(None, None, False, False)
            return
        self._responses = permissions.response_tracker(monotonic_ns)
        link.restrict(
            PermissionCache(permissions.may_publish),
            PermissionCache(self._may_deliver),
            True,
            self._responses is not None,
        )

    def subscribe_permission(self, subject: bytes, queue: bytes | None) -> int:
        """REFUSED, ALLOWED or FILTERED."""
        permissions = self._permissions
        return ALLOWED if permissions is None else permission_to_subscribe(permissions, subject, queue)

    def drop_forbidden(self, link: ClientLink) -> list[tuple[bytes, bytes | None, bytes]]:
        """End the subscriptions that are not permitted any more; return subject, queue and sid of each."""
        return link.judge_subscriptions(self.subscribe_permission)

    def may_respond(self, subject: bytes) -> bool:
        """True if a publication that is not permitted otherwise is a permitted response."""
        return self._responses is not None and self._responses.may_publish(subject)

    def may_trace_to(self, subject: bytes) -> bool:
        """True if traces of the client's messages may be published there."""
        return self._permissions is None or self._permissions.may_publish(subject)

    def may_publish(self, subject: bytes) -> bool:
        """True if a message of the client may be published there; also as a response to a request."""
        permissions = self._permissions
        return permissions is None or permissions.may_publish(subject) or self.may_respond(subject)

    def may_receive(self, subject: bytes) -> bool:
        """True if a message may be delivered to the client, on a subscription that covers more of them."""
        return self._permissions is None or self._permissions.may_deliver(subject)

    def note_reply(self, reply: bytes) -> None:
        """Permit responses to a message with this reply subject, which is being delivered."""
        if self._responses is None or self._permissions is None or self._permissions.may_publish(reply):
            return
        # As with the Go server this look counts: a reply subject that is seen again before it was
        # answered uses up one of the answers it was good for.
        if not self._responses.may_publish(reply):
            self._responses.track(reply)

    def _may_deliver(self, key: bytes) -> bool:
        assert self._permissions is not None
        subject, _, queue = key.partition(b" ")
        return self._permissions.may_deliver(subject, queue or None)


def permission_to_subscribe(permissions: PermissionSet, subject: bytes, queue: bytes | None) -> int:
    """REFUSED, ALLOWED or FILTERED: the answer to a subscription."""
    if not permissions.may_subscribe(subject, queue):
        return REFUSED
    return FILTERED if permissions.filters_delivery(subject, queue) else ALLOWED
