"""Permissions of a cluster: the interest that is told to peers, and that which is taken from them.

Source: nats-server 2.15.1 (`import` is judged as a permission to publish, `export` as one to subscribe).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.conf.account_options import Permissions, SubjectPermission
from headrace.core.permissions import PermissionSet
from headrace.protocol.peers import PeerPermission

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.peer_options import ClusterOptions


class Rules:
    """The `permissions` of a cluster, for subjects of subscriptions.

    `tells`, `takes`: return True for a subject whose interest is told, or taken; None: for every subject.

    `imports`, `exports`: the same as INFO says it. Raises: ConfigError for entries that are no subjects.
    """

    __slots__ = ("exports", "imports", "takes", "tells")

    def __init__(self, options: ClusterOptions) -> None:
        self.imports: Final = _as_said(options.imports)
        self.exports: Final = _as_said(options.exports)
        self.tells: Callable[[bytes], bool] | None = None
        self.takes: Callable[[bytes], bool] | None = None
        if options.imports is not None:
            self.tells = PermissionSet(Permissions(publish=options.imports)).may_publish
        if options.exports is not None:
            self.takes = PermissionSet(Permissions(subscribe=options.exports)).may_subscribe


def _as_said(permission: SubjectPermission | None) -> PeerPermission | None:
    if permission is None:
        return None
    return PeerPermission(permission.allow or (), permission.deny)
