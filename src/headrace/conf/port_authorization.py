"""The `authorization` of a port with credentials of its own: `websocket`, `mqtt`.

Here lives its reading: a user and a password, or a token. Never lives here: users (`authorization`), and
whether such credentials go with those of the server (`options_builder`).
Source: the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.account_options import AuthorizationBlock, check_credentials
from headrace.conf.fields import UNSET, Field, KeyTable, fields_of, seconds, values_of

if TYPE_CHECKING:
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tree import Entry


def port_authorization(binder: Binder, entry: Entry) -> AuthorizationBlock | UnsetType:
    """The whole block."""
    bound = binder.bind_map(entry, _AUTHORIZATION)
    if bound is UNSET:
        return UNSET
    block = AuthorizationBlock(**cast("dict[str, Any]", values_of(bound, AuthorizationBlock)))
    check_credentials(block, binder.problems, entry.position)
    return block


_AUTHORIZATION: Final = KeyTable(
    (
        *fields_of(AuthorizationBlock, only=("user", "password", "token")),
        Field(
            ("timeout",),
            seconds,
            text=AuthorizationBlock.KEYS["timeout"].text,
            default="the server's",
        ),
    )
)
