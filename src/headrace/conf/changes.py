"""Changes between two sets of options, one by one, and those that a running server can take over.

Here lives the comparison, with secrets hidden, and what of an option needs a restart although the option does
not. Never lives here: which options need none (`options.Options`), how a server takes a change over
(`server.reload`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.conf.account_options import (
    AccountOptions,
    ExportOptions,
    ImportOptions,
    SubjectMapping,
    UserOptions,
)
from headrace.conf.durations import format_duration
from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote, LeafUser
from headrace.conf.options import Options
from headrace.conf.peer_options import PeerURL, RemoteGatewayOptions
from headrace.structures import defaults_of, hidden_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FIXED_WITHIN: Final = frozenset(
    ("cluster.host", "cluster.port", "cluster.protocol", "leafnodes.host", "leafnodes.port")
)
"""The parts of options that a running server does not take over although it takes over the option."""

_AS_A_WHOLE: Final = frozenset(("authorization.callout", "cluster"))
"""Options that can be changed, but neither appear nor disappear: with a callout a server's id is the key it
asks with, and a cluster has a port.
"""
_NOTHING: Final = {"leafnodes": LeafNodeOptions()}
"""Values that mean the same as no block at all."""
_RELOADABLE_WITHIN: Final = "websocket.tls."
"""And what of another option it takes over."""

_HIDDEN: Final = "[hidden]"
_IN_URL: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")

# What tells the members of a list apart: a member with the same key is the same one, perhaps changed.
_KEYS: Final[dict[type, Callable[[Any], str]]] = {
    UserOptions: lambda user: user.nkey or user.user or "",
    AccountOptions: lambda account: account.name,
    ExportOptions: lambda export: f"{_kind(export)} {export.subject}",
    ImportOptions: lambda item: f"{_kind(item)} {item.subject} of {item.account} as {item.local}",
    PeerURL: str,
    RemoteGatewayOptions: lambda remote: remote.name,
    LeafRemote: str,
    LeafUser: lambda user: user.user,
    SubjectMapping: lambda mapping: f"{mapping.source} to {mapping.destination}",
}


class Change(Struct, frozen=True):
    """`path` leads from an option to what differs in it; None stands where there is nothing."""

    path: str
    before: str | None
    after: str | None

    @property
    def option(self) -> str:
        """The option of `Options` it belongs to."""
        return re.split(r"[.\[]", self.path, maxsplit=1)[0]

    @property
    def needs_restart(self) -> bool:
        if self.path.startswith(_RELOADABLE_WITHIN):
            return False
        return Options.KEYS[self.option].needs_restart or self.path in _AS_A_WHOLE | _FIXED_WITHIN

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.path}: added: {self.after}"
        if self.after is None:
            return f"{self.path}: removed: {self.before}"
        if self.before == self.after:  # of a secret nothing more may be said
            return f"{self.path}: changed"
        return f"{self.path}: {self.before} -> {self.after}"


def changed_options(old: Options, new: Options) -> list[str]:
    """The options that differ, by name, in the order of `Options`."""
    return [name for name in Options.KEYS if getattr(old, name) != getattr(new, name)]


def differences(old: Options, new: Options) -> list[Change]:
    """Everything that differs, in the order of `Options`; no secret is in it."""
    return [
        change
        for name in changed_options(old, new)
        for change in _walk(name, _value(old, name), _value(new, name), is_secret=False)
    ]


def _value(options: Options, name: str) -> object:
    value = getattr(options, name)
    return _NOTHING.get(name) if value is None else value


def _walk(path: str, old: Any, new: Any, *, is_secret: bool) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, Struct) and type(old) is type(new):
        for name in old.__struct_fields__:
            hidden = is_secret or name in hidden_in(old)
            yield from _walk(f"{path}.{name}", getattr(old, name), getattr(new, name), is_secret=hidden)
        return
    members = _members(old), _members(new)
    if None not in members and any(members) and not is_secret:
        before, after = (found or {} for found in members)
        if before.keys() == after.keys() and list(before) != list(after) and before == after:
            yield Change(path, ", ".join(before), ", ".join(after))
        for key in {**before, **after}:
            yield from _walk(f"{path}[{key}]", before.get(key), after.get(key), is_secret=False)
        return
    yield Change(path, _shown(old, is_secret=is_secret), _shown(new, is_secret=is_secret))


def _members(value: Any) -> dict[str, Any] | None:
    """A list's members by what tells them apart; None when it is not a list of such."""
    if isinstance(value, Mapping):
        return {str(key): member for key, member in value.items()}
    if not isinstance(value, tuple) or any(type(member) not in _KEYS for member in value):
        return None
    found: dict[str, Any] = {}
    for member in value:
        key = _KEYS[type(member)](member)
        while key in found:  # the same subject exported twice, say
            key += "'"
        found[key] = member
    return found


def _kind(item: ExportOptions | ImportOptions) -> str:
    return "service" if item.is_service else "stream"


def _shown(value: Any, *, is_secret: bool) -> str | None:
    if value is None or is_secret:
        return None if value is None else _HIDDEN
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(member, is_secret=False) or '' for member in value)}]"
    return _summary(value) if isinstance(value, Struct) else shown_value(value)


def shown_value(value: object) -> str:
    """A single value as a configuration writes it: durations are seconds here, and have units there."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format_duration(value)
    return "" if value is None else _IN_URL.sub(_HIDDEN, str(value))


def _summary(value: Struct) -> str:
    """Return a text of a structure's values that are not its defaults, secrets hidden."""
    said = []
    usual = defaults_of(type(value))
    for name in value.__struct_fields__:
        found = getattr(value, name)
        if found is not None and found != () and (name not in usual or found != usual[name]):
            said.append(f"{name}: {_shown(found, is_secret=name in hidden_in(value))}")
    return f"{{{', '.join(said)}}}"
