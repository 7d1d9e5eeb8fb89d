"""Every option has an effect: a key that changes nothing is not bound to one, and says so (`Field.idle`)."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from functools import cache

import pytest
from msgspec import Struct
from source_tree import modules

import headrace.conf

STRUCTURES = [
    kind
    for found in pkgutil.iter_modules(headrace.conf.__path__, "headrace.conf.")
    if found.name.endswith("options")
    for module in [importlib.import_module(found.name)]
    for kind in vars(module).values()
    if inspect.isclass(kind) and issubclass(kind, Struct) and kind.__module__ == module.__name__
]


READ_BY_NAME = {"BucketCredentials": "of each provider (`bucket.opening`)"}
"""Structures whose options are read by a name that the program has in a table."""


@cache
def read_anywhere() -> frozenset[str]:
    """Names of attributes that some module reads, beside where they are drawn."""
    found = set()
    for module in modules():
        if module.path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(module.path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
    return frozenset(found)


@pytest.mark.parametrize("kind", STRUCTURES, ids=lambda kind: kind.__name__)
def test_every_option_is_read(kind: type[Struct]) -> None:
    unread = [name for name in kind.__struct_fields__ if name not in read_anywhere()]
    assert bool(unread) == (kind.__name__ in READ_BY_NAME), unread
