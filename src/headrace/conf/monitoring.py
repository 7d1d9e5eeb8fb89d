"""The `http_authorization` block, which is Headrace's own: who may read the monitoring port.

Here lives its reading. Never lives here: checking of requests (`headrace.server.monitor.access`). No message
here shows a password or token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from headrace.conf.credentials import AuthorizationBlock, check_credentials
from headrace.conf.fields import UNSET, Binder, Table, fields_of
from headrace.conf.options import MonitorAuthorization

if TYPE_CHECKING:
    from headrace.conf.fields import UnsetType
    from headrace.conf.tree import Entry


def http_authorization(binder: Binder, entry: Entry) -> MonitorAuthorization | UnsetType:
    """User and password, or a token; a block that lets everyone in is a problem."""
    found_before = len(binder.problems)
    bound = binder.bind_map(entry, HTTP_AUTHORIZATION)
    if bound is UNSET:
        return UNSET
    given = cast("dict[str, str]", bound.values)
    user, password, token = (given.get(name) or None for name in ("user", "password", "token"))
    block = AuthorizationBlock(user=user, password=password, token=token)
    check_credentials(block, binder.problems, entry.position)
    if len(binder.problems) > found_before:
        return UNSET
    if token is None and (user is None or password is None):
        return binder.problem("http_authorization needs a user and a password, or a token", entry.position)
    return MonitorAuthorization(user, password, token)


HTTP_AUTHORIZATION: Final = Table(fields_of(MonitorAuthorization))
