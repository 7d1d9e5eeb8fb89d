"""Grants of tokens: an account with its signing keys, and the identity of one of its users.

Here live the conversion of claims into permissions, limits and times, and the words of a refusal. Never lives
here: whether the tokens are to be believed (`trust`, `callout`).
Source: nats-server 2.15.1.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.conf.account_options import CONNECTION_TYPES, Permissions, ResponsePermission, SubjectPermission
from headrace.core.templates import TemplateError, TemplateValues, expand
from headrace.errors import HeadraceError
from headrace.protocol.jwt import limits
from headrace.protocol.jwt.claims import NO_LIMIT, UserLimitClaims
from headrace.subjects.grammar import is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.account_options import ConnectionType
    from headrace.protocol.jwt.claims import (
        AccountClaims,
        PermissionClaims,
        ResponseClaims,
        Scope,
        SubjectClaims,
        UserClaims,
    )

_INT32_MAX: Final = (1 << 31) - 1
_DEFAULT_RESPONSES: Final = ResponsePermission()
_MAX_SHOWN: Final = 400  # characters of a stranger's token in a log line


class Refused(HeadraceError):
    """A user who may not connect; the text is for the log, the client hears no reason.

    `is_error`: the Go server logs it as an error, not for debugging only.
    """

    def __init__(self, message: str, *, is_error: bool = False) -> None:
        super().__init__(message)
        self.is_error = is_error


class ProxyRequired(Refused):
    """A user who may connect through a trusted proxy only."""

    def __init__(self, message: str = "proxy connection required") -> None:
        super().__init__(message)


class TrustedAccount(Struct, frozen=True):
    """An account whose token a trusted operator signed.

    `signers`: the keys that sign for it, with the scope of each or None. `default_permissions` are for users
    without any of their own. Limits are -1 where there is none.
    """

    claims: AccountClaims
    signers: Mapping[str, Scope | None]
    default_permissions: Permissions | None

    @property
    def key(self) -> str:
        return self.claims.subject

    @property
    def name(self) -> str:
        return self.claims.name


class Home(Struct, frozen=True):
    """The part of an account that its users get, whether a token or the configuration describes the account.

    `key` is what the account is found by: its public key, or its name.
    """

    key: str
    name: str
    default_permissions: Permissions | None = None
    subscriptions: int = NO_LIMIT
    payload: int = NO_LIMIT

    @classmethod
    def of(cls, account: TrustedAccount) -> Home:
        most = account.claims.limits
        return cls(account.key, account.name, account.default_permissions, most.subscriptions, most.payload)


class TokenIdentity(Struct, frozen=True):
    """The identity that a connection acts as.

    `permissions` None: everything is permitted; `has_default_permissions`: they follow the account's.
    `subscriptions` and `payload` (bytes) are the lower of the user's limit and the account's, -1 for none.
    `expires_at`: seconds since 1970 at which the connection ends, None for never; it may have passed.
    `invalid_subjects`: entries that are no subjects and are left out, for the log.
    """

    account: str
    account_name: str
    user: str
    user_name: str
    issuer: str
    tags: tuple[str, ...]
    issued_at: int
    permissions: Permissions | None
    has_default_permissions: bool
    subscriptions: int
    payload: int
    expires_at: float | None
    is_bearer: bool
    invalid_subjects: tuple[str, ...] = ()


def limits_of(user: UserClaims, account: TrustedAccount) -> UserLimitClaims:
    """The user's own limits, or those of the scope of who signed them.

    Raises: Refused if the issuer does not sign for the account, or the user has limits besides a scope.
    """
    if user.issuer not in account.signers:
        raise Refused("User JWT issuer is not known")
    scope = account.signers[user.issuer]
    if scope is None:
        return user.limits
    if user.issuer != scope.key:
        raise Refused("User JWT is not valid: issuer not the scoped signer")
    if user.limits != UserLimitClaims():
        raise Refused("User JWT is not valid: scoped users require no permissions or limits set")
    values = TemplateValues.of(user, account.name, account.claims.tags)
    try:
        return expand(scope.template, values)
    except TemplateError:
        raise Refused("User JWT generated invalid permissions") from None


def known_connection_types(user_limits: UserLimitClaims) -> list[str]:
    """The names among them that mean something; empty if all ways to connect are allowed.

    Raises: Refused if none does.
    """
    named = [name.upper() for name in user_limits.connection_types or ()]
    known = [name for name in named if name in CONNECTION_TYPES]
    if named and not known:
        # To name only what does not exist is not the same as to name nothing.
        raise Refused(f"invalid connection types [{' '.join(map(json.dumps, named))}]")
    return known


def check_connection_type(user_limits: UserLimitClaims, actual: ConnectionType) -> None:
    """Check the kind of a connection. Raises: Refused if it is not among those that the token names."""
    known = known_connection_types(user_limits)
    if known and actual.value not in known:
        raise Refused("Connection type not allowed")


def end_of(user: UserClaims, user_limits: UserLimitClaims, now: float) -> float | None:
    """Return the end of the connection in seconds since 1970: that of the token, or of the hours in which it
    may connect.

    None for never. Raises: Refused outside of those hours.
    """
    ends = [float(user.expires)] if user.expires else []
    if user_limits.times:
        try:
            left = limits.seconds_left(user_limits.times, user_limits.times_location, now)
        except ValueError:  # a template's times are checked nowhere else
            left = None
        if left is None:
            raise Refused("Outside connect times", is_error=True)
        ends.append(now + left)
    return min(ends, default=None)


def identity_of(
    user: UserClaims, user_limits: UserLimitClaims, home: Home, expires_at: float | None
) -> TokenIdentity:
    """The identity of a user with these limits in this account."""
    permissions, invalid = permissions_of(user_limits.permissions)
    is_default = permissions is None
    return TokenIdentity(
        account=home.key,
        account_name=home.name,
        user=user.subject,
        user_name=user.name,
        issuer=user.issuer,
        tags=user.tags,
        issued_at=user.issued_at,
        permissions=home.default_permissions if is_default else permissions,
        has_default_permissions=is_default,
        subscriptions=_lower(user_limits.subscriptions, home.subscriptions),
        payload=_lower(user_limits.payload, home.payload),
        expires_at=expires_at,
        is_bearer=user_limits.bearer_token,
        invalid_subjects=invalid,
    )


def _lower(one: int, other: int) -> int:
    """The lower of two limits; below -1, which is none, there is nothing that would be allowed."""
    given = [min(max(limit, 0), _INT32_MAX) for limit in (one, other) if limit != NO_LIMIT]
    return min(given, default=NO_LIMIT)


def permissions_of(claims: PermissionClaims) -> tuple[Permissions | None, tuple[str, ...]]:
    """Permissions as the configuration has them, None if there are none; and what of them is no subject."""
    publish, bad_publish = _subject_permission(claims.publish, with_queue=False)
    subscribe, bad_subscribe = _subject_permission(claims.subscribe, with_queue=True)
    responses = None if claims.responses is None else _responses(claims.responses)
    if publish is None and subscribe is None and responses is None:
        return None, ()
    return Permissions(publish, subscribe, responses), (*bad_publish, *bad_subscribe)


def _subject_permission(
    claims: SubjectClaims, *, with_queue: bool
) -> tuple[SubjectPermission | None, tuple[str, ...]]:
    if not claims.allow and not claims.deny:
        return None, ()
    allow, bad_allow = _valid(claims.allow or (), with_queue=with_queue)
    denied = claims.deny or ()
    if not with_queue:
        # A queue group means nothing here; left out with it, the subject would be allowed.
        denied = tuple(entry.split()[0] if len(entry.split()) == 2 else entry for entry in denied)
    deny, bad_deny = _valid(denied, with_queue=with_queue)
    # An empty list of allowed subjects beside denied ones allows nothing to be published. One whose entries
    # are all invalid allows nothing either: left out, it would allow everything.
    if not allow and (claims.allow or (claims.allow is not None and not with_queue)):
        deny = (*deny, ">")
    return SubjectPermission(allow or None, deny), (*bad_allow, *bad_deny)


def _valid(entries: tuple[str, ...], *, with_queue: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    most = 2 if with_queue else 1
    good: list[str] = []
    bad: list[str] = []
    for entry in entries:
        parts = entry.split()
        fits = 1 <= len(parts) <= most and (with_queue or parts[0] == entry)
        valid = fits and all(is_valid_subject(part.encode()) for part in parts)
        (good if valid else bad).append(entry)
    return tuple(good), tuple(bad)


def _responses(claims: ResponseClaims) -> ResponsePermission:
    default = _DEFAULT_RESPONSES
    most = claims.max_messages or default.max_messages
    expires = claims.ttl / 1e9 if claims.ttl else default.expires
    return replace(default, max_messages=max(most, -1), expires=max(expires, 0.0))


def shown(text: str) -> str:
    """Shorten a stranger's text to one line of bearable length."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:_MAX_SHOWN])
