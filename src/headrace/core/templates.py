"""Permissions of a scoped signing key, made into those of one user.

Here lives the expansion of `{{name()}}`, `{{subject()}}`, `{{account-name()}}`, `{{account-subject()}}`,
`{{tag(x)}}` and `{{account-tag(x)}}` in subjects. A tag `x:value` stands for each of its values, so one
subject may become several. Never lives here: which scope applies (`trust`).
Source: nats-server 2.15.1, peculiarities included: in a list with any template, an entry that is no single
subject after the expansion (one with a queue group is none) is left out of what is allowed and ends the
expansion of what is denied; a value is put in as it is, and one that contains a template is expanded in turn.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import HeadraceError
from headrace.protocol.jwt.claims import PermissionClaims, SubjectClaims
from headrace.subjects.grammar import is_valid_subject

if TYPE_CHECKING:
    from headrace.protocol.jwt.claims import UserClaims, UserLimitClaims

MAX_SUBJECTS: Final = 4096
"""Subjects that one list may become; more refuses the user."""

_TEMPLATE: Final = re.compile(r"\{\{([^}]+)\}\}")
_NO_VALUE: Final = " "  # makes no valid subject


class TemplateError(HeadraceError):
    """A template that is not defined for this user, or defines too much."""


class TemplateValues(Struct, frozen=True):
    """The values that templates may name: of a user and its account."""

    user_name: str
    user_key: str
    user_tags: tuple[str, ...]
    account_name: str
    issuer_account: str
    account_tags: tuple[str, ...]

    @classmethod
    def of(cls, user: UserClaims, account_name: str, account_tags: tuple[str, ...]) -> TemplateValues:
        return cls(user.name, user.subject, user.tags, account_name, user.issuer_account, account_tags)


def expand(template: UserLimitClaims, values: TemplateValues) -> UserLimitClaims:
    """The limits of one user within this template.

    A list of allowed subjects of which none is left allows nothing.
    Raises: TemplateError.
    """
    permissions = template.permissions
    return replace(
        template,
        permissions=PermissionClaims(
            publish=_expand_lists(permissions.publish, values),
            subscribe=_expand_lists(permissions.subscribe, values),
            responses=permissions.responses,
        ),
    )


def _expand_lists(subjects: SubjectClaims, values: TemplateValues) -> SubjectClaims:
    allow = _expand_list(subjects.allow, values, must_be_subjects=False)
    deny = _expand_list(subjects.deny, values, must_be_subjects=True)
    if subjects.allow and not allow:
        deny = (*(deny or ()), ">")
    return SubjectClaims(allow, deny)


def _expand_list(
    entries: tuple[str, ...] | None, values: TemplateValues, *, must_be_subjects: bool
) -> tuple[str, ...] | None:
    if not entries or not any(map(_TEMPLATE.search, entries)):
        return entries
    expanded: list[str] = []
    for entry in entries:
        room = MAX_SUBJECTS - len(expanded)
        for subject in _expand_entry(entry, values, room, must_be_subjects=must_be_subjects):
            if is_valid_subject(subject.encode()):
                expanded.append(subject)
            elif must_be_subjects:
                raise TemplateError("generated invalid subject")
    return tuple(expanded)


def _expand_entry(entry: str, values: TemplateValues, room: int, *, must_be_subjects: bool) -> list[str]:
    found = list(_TEMPLATE.finditer(entry))
    options: list[list[str]] = []
    has_tags = False
    for match in found:
        tags = _tag_values(match[1].strip(), values)
        has_tags = has_tags or tags is not None
        if tags is None:
            options.append([_value(match[1].strip(), values)])
        elif tags or not must_be_subjects:
            options.append(tags or [_NO_VALUE])
        else:
            raise TemplateError("generated invalid subject: a tag is not defined")
    # Without tags there is one result, for which the Go server does not ask whether there is room.
    if has_tags and prod(map(len, options)) > room:
        raise TemplateError(f"template expansion exceeds limit: {MAX_SUBJECTS}")
    sources = [match[0] for match in found]
    return [_filled(entry, sources, chosen) for chosen in product(*options)]


def _filled(entry: str, sources: list[str], chosen: tuple[str, ...]) -> str:
    for source, value in zip(sources, chosen, strict=True):
        entry = entry.replace(source, value)
    return entry


def _value(operation: str, values: TemplateValues) -> str:
    known = {
        "name()": values.user_name,
        "subject()": values.user_key,
        "account-name()": values.account_name,
        "account-subject()": values.issuer_account,
    }
    found = known.get(operation.casefold())
    if found is None:
        raise TemplateError("a template operation is not defined")
    return found


def _tag_values(operation: str, values: TemplateValues) -> list[str] | None:
    """The values of a tag; None if the operation is another."""
    for prefix, tags in (("tag(", values.user_tags), ("account-tag(", values.account_tags)):
        if operation.casefold().startswith(prefix) and operation.endswith(")"):
            wanted = operation.removeprefix(prefix).removesuffix(")").lower() + ":"
            return [tag.removeprefix(wanted) for tag in tags if tag.startswith(wanted)]
    return None
