"""Generated configurations with mistakes: a sound one in which a few things are changed.

Here lives the changing. Never lives here: sound configurations (`worlds`), whether both servers take what
comes out of it.
"""

from __future__ import annotations

import copy
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hypothesis import strategies as st

from differential.vocabulary import narrowed, widened
from differential.worlds import Tree, small

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

MISTAKES: Final = 2
_OPTIONS: Final[Tree] = {
    "server_name": "s",
    "max_payload": 4096,
    "max_control_line": 1024,
    "max_pending": "8MB",
    "max_connections": 100,
    "max_subscriptions": 10,
    "ping_interval": "1m",
    "ping_max": 3,
    "write_deadline": "5s",
    "lame_duck_duration": "60s",
    "lame_duck_grace_period": "5s",
    "no_header_support": False,
    "max_traced_msg_len": 100,
    "server_tags": ["a", "b"],
}
_VALUES: Final[tuple[object, ...]] = (
    "",
    "x",
    "a.b",
    "5",
    0,
    1,
    -1,
    7,
    1.5,
    True,
    False,
    [],
    ["a", "b"],
    {},
    {"a": "b"},
    [{}],
    [1],
    "1m",
    "10%",
    10**12,
)
_SUBJECTS: Final = (
    "a..b",
    ".",
    ".a",
    "a.",
    ">.a",
    "a.>.b",
    "a b",
    "a b c",
    "*",
    ">",
    "a*",
    "$1",
    "a.$1",
    "a.$2",
    "{{wildcard(1)}}",
    "{{wildcard(3)}}",
    "a.{{partition(3,1)}}",
    "{{unknown(1)}}",
    "{{split(1)}}",
    "{{left(1,x)}}",
    "a.*.*",
    "x.*",
    "a.>",
    "\u00e9.a",
)
_KEYS: Final = (
    "stream",
    "service",
    "to",
    "prefix",
    "account",
    "accounts",
    "subject",
    "share",
    "response_type",
    "account_token_position",
    "weight",
    "destination",
    "user",
    "password",
    "nkey",
    "token",
    "users",
    "permissions",
    "publish",
    "subscribe",
    "allow",
    "deny",
    "allow_responses",
    "max",
    "expires",
    "limits",
    "mappings",
    "exports",
    "imports",
    "default_permissions",
    "no_auth_user",
    "system_account",
    "nonsense",
)


class Place(NamedTuple):
    """Something in a tree: the map or list that holds it, and under which key."""

    holder: Any
    key: Any


def mistaken() -> SearchStrategy[Tree]:
    """Trees with mistakes, none of them to some ten."""
    length = 2 + 5 * MISTAKES
    return st.binary(min_size=length, max_size=length).map(_changed)


def _changed(drawn: bytes) -> Tree:
    tree = sound(drawn[0] + 256 * drawn[1])
    for number, at in enumerate(range(2, len(drawn), 5)):
        kind, *numbers = drawn[at : at + 5]
        if kind > 200 * number:  # nothing is changed by what a failure shrinks to, and rarely much
            _CHANGES[kind % len(_CHANGES)](tree, Random(bytes(numbers)))
    return tree


def sound(number: int) -> Tree:
    """A configuration without mistakes: one world, or everybody is asked for the same, and some options."""
    rng = Random(number)
    tree = small(rng)
    if rng.random() < 0.15:
        tree = {"authorization": rng.choice(({"token": "t"}, {"user": "u", "password": "p"})), "mappings": {}}
        tree["authorization"]["timeout"] = rng.choice((1, 0.5, "1s"))
    if rng.random() < 0.3:
        tree |= {key: _OPTIONS[key] for key in rng.sample(sorted(_OPTIONS), 4)}
    blocks = [tree["authorization"], *tree.get("accounts", {}).values()]
    names = [user.get("user") or user["nkey"] for block in blocks for user in block.get("users", ())]
    if names and rng.random() < 0.3:
        tree["no_auth_user"] = rng.choice(names)
    return copy.deepcopy(tree)


def _places(node: Any) -> list[Place]:
    found: list[Place] = []
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in pairs:
        found.append(Place(node, key))
        if isinstance(value, dict | list):
            found += _places(value)
    return found


def _somewhere(tree: Tree, rng: Random, kind: type | tuple[type, ...] = object) -> Place | None:
    found = [place for place in _places(tree) if isinstance(place.holder[place.key], kind)]
    return rng.choice(found) if found else None


def _change_value(tree: Tree, rng: Random) -> None:
    place = _somewhere(tree, rng)
    if place is not None:
        place.holder[place.key] = copy.deepcopy(rng.choice(_VALUES))


def _change_text(tree: Tree, rng: Random) -> None:
    place = _somewhere(tree, rng, str)
    if place is not None:
        place.holder[place.key] = rng.choice(_SUBJECTS)


def _change_subject(tree: Tree, rng: Random) -> None:
    """A subject stands where another one did, so that what belongs together may not."""
    texts = [place for place in _places(tree) if isinstance(place.holder[place.key], str)]
    subjects = [place for place in texts if "." in place.holder[place.key]]
    if subjects:
        place = rng.choice(subjects)
        place.holder[place.key] = widened(rng, narrowed(rng, place.holder[place.key]))


def _change_key(tree: Tree, rng: Random) -> None:
    place = _somewhere(tree, rng)
    if place is not None and isinstance(place.holder, dict):
        # What looks like a function is no source: with weights the Go server makes a destination of it.
        sources = [subject for subject in _SUBJECTS if "{{" not in subject]
        key = rng.choice((*_KEYS, *sources)) if rng.random() < 0.8 else f"{place.key}x"
        place.holder[key] = place.holder.pop(place.key)


def _leave_out(tree: Tree, rng: Random) -> None:
    place = _somewhere(tree, rng)
    if place is not None:
        del place.holder[place.key]


def _write_twice(tree: Tree, rng: Random) -> None:
    found = [place for place in _places(tree) if isinstance(place.holder, list)]
    if found:
        place = rng.choice(found)
        place.holder.append(copy.deepcopy(place.holder[place.key]))


def _exchange(tree: Tree, rng: Random) -> None:
    """One text stands where another one did: accounts, subjects, users, all that names something."""
    one, other = _somewhere(tree, rng, str), _somewhere(tree, rng, str)
    if one is not None and other is not None:
        one.holder[one.key] = other.holder[other.key]


def _add(tree: Tree, rng: Random) -> None:
    place = _somewhere(tree, rng, dict)
    if place is not None:
        place.holder[place.key][rng.choice(_KEYS)] = copy.deepcopy(rng.choice((*_VALUES, *_SUBJECTS)))


def _import_back(tree: Tree, rng: Random) -> None:
    """Somebody imports from an account that imports from him: the same subject, there and back."""
    accounts = tree.get("accounts")
    names = list(accounts) if isinstance(accounts, dict) else []
    if len(names) < 2:
        return
    kind = rng.choice(("stream", "service"))
    one, other = rng.sample(names, 2)
    subject = rng.choice(_SUBJECTS[-4:])
    for importer, exporter in ((one, other), (other, one)):
        account = tree["accounts"][importer]
        if isinstance(account, dict):
            account["imports"] = [{kind: {"account": exporter, "subject": subject}}]
            account["exports"] = [{kind: subject}]


_CHANGES: Final = (
    _change_value,
    _change_text,
    *(_change_subject,) * 4,
    _change_key,
    *(_leave_out,) * 2,
    _write_twice,
    _exchange,
    _exchange,
    _add,
    _import_back,
)
