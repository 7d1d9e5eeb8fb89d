"""Changes between two sets of options, one by one, and those that a running server can take over.

Here lives the comparison, with secrets hidden. Never lives here: what a running server takes over (entries of
keys say it, `keys.Key`), and how it does (`server.reload`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from headrace.conf.account_options import (
    AccountOptions,
    ExportOptions,
    ImportOptions,
    SubjectMapping,
    UserOptions,
)
from headrace.conf.keys import Keyed, is_reloadable
from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote, LeafUser
from headrace.conf.options import Options
from headrace.conf.peer_options import PeerURL, RemoteGatewayOptions
from headrace.protocol.durations import format_duration
from headrace.structures import defaults_of, hidden_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.conf.keys import Key, Reload

_NOTHING: Final = {"leafnodes": LeafNodeOptions()}
"""Values that mean the same as no block at all."""

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
    """A difference. `path` leads from an option to what differs in it; None stands where there is nothing."""

    path: str
    before: str | None
    after: str | None
    reload: Reload
    """The step that takes it over (`keys.Key`)."""
    is_lasting: bool = False
    """True if it needs a restart, whatever the step."""

    @property
    def needs_restart(self) -> bool:
        """True if a running server does not take the change over."""
        return self.is_lasting or not is_reloadable(self.reload)

    @property
    def option(self) -> str:
        """The option of `Options` it belongs to."""
        return re.split(r"[.\[]", self.path, maxsplit=1)[0]

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
    """Return all options that differ, in the order of `Options`, without any secret."""
    return [
        change
        for name in changed_options(old, new)
        for change in _walk(name, _value(old, name), _value(new, name), _Place.of(Options.KEYS[name]))
    ]


class _Place(NamedTuple):
    """The rules for a value that is compared, from the entries of the keys on the way to it."""

    reload: Reload = ""
    is_lasting: bool = False
    is_secret: bool = False

    @classmethod
    def of(cls, key: Key) -> _Place:
        """The place of an option of the top level."""
        return cls(key.reload, key.is_lasting)

    def within(self, struct: Struct, name: str) -> _Place:
        """The place of a field of a structure that stands here."""
        key = struct.KEYS.get(name) if isinstance(struct, Keyed) else None
        return _Place(
            key.reload if key is not None and key.reload else self.reload,
            key is not None and key.is_lasting,
            self.is_secret or name in hidden_in(struct),
        )


def _value(options: Options, name: str) -> object:
    value = getattr(options, name)
    return _NOTHING.get(name) if value is None else value


def _walk(path: str, old: Any, new: Any, place: _Place) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, Struct) and type(old) is type(new):
        for name in old.__struct_fields__:
            yield from _walk(
                f"{path}.{name}", getattr(old, name), getattr(new, name), place.within(old, name)
            )
        return
    members = _members(old), _members(new)
    if None not in members and any(members) and not place.is_secret:
        before, after = (found or {} for found in members)
        if before.keys() == after.keys() and list(before) != list(after) and before == after:
            yield Change(path, ", ".join(before), ", ".join(after), place.reload)
        for key in {**before, **after}:
            yield from _walk(f"{path}[{key}]", before.get(key), after.get(key), place)
        return
    yield Change(
        path,
        _shown(old, is_secret=place.is_secret),
        _shown(new, is_secret=place.is_secret),
        place.reload,
        place.is_lasting,
    )


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
