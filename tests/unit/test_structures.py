"""Structures with fields that are not shown."""

from __future__ import annotations

import importlib
from pathlib import Path

import msgspec
from msgspec import Struct

import headrace
from headrace import structures
from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.leaf_options import LeafUser
from headrace.conf.options import Options
from headrace.structures import Discreet, defaults_of, hidden_in


def discreet_kinds(kind: type[Discreet] = Discreet) -> list[type[Discreet]]:
    return [found for each in kind.__subclasses__() for found in (each, *discreet_kinds(each))]


def import_all_that_name_it() -> None:
    """Import every module that may define one: what others have imported by now is chance."""
    root = Path(headrace.__file__).parent
    for path in root.rglob("*.py"):
        if Discreet.__name__ in path.read_text():
            importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))


class Login(Discreet, frozen=True):
    HIDDEN = frozenset({"password"})

    user: str
    password: str | None = None
    roles: list[str] = msgspec.field(default_factory=list)


def test_repr_leaves_out_what_is_hidden() -> None:
    assert repr(Login("ann", "secret")) == "Login(user='ann', roles=[])"


def test_secrets_of_options_are_never_shown() -> None:
    users = (UserOptions("ann", "s3cret"), LeafUser("bob", "s3cret"))

    assert "s3cret" not in repr(users)
    assert "s3cret" not in repr(Options(authorization=AuthorizationOptions("s3cret", users[:1])))


def test_hidden_fields_exist() -> None:
    import_all_that_name_it()

    wrong = [kind for kind in discreet_kinds() if not set(kind.__struct_fields__) >= kind.HIDDEN]

    assert wrong == []
    assert len(discreet_kinds()) > 20


def test_fields_are_hidden_by_their_structure() -> None:
    assert hidden_in(Login("ann")) == {"password"}
    assert hidden_in(msgspec.defstruct("Plain", [])()) == frozenset()


def test_defaults_by_name() -> None:
    class Kind(Struct):
        a: int
        b: int = 1
        c: list[int] = msgspec.field(default_factory=list)

    assert structures.defaults_of(Kind) == {"b": 1, "c": []}
    assert defaults_of(Login) == {"password": None, "roles": []}
