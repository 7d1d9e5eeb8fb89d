"""A class name means one thing: no two modules define a public class of the same name.

Counted are classes at the top level, in Python and in the stubs of compiled modules. A private class, whose
name begins with an underscore, is only read in its own module.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from source_tree import modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXCEPTIONS: Final = {
    "Server": "public: each is the one below with more (server, embedded, for tests)",
    "StoredMessage": "public: the STAN client's, beside that of logs; both are a message as a log has it",
    "Stream": "that of JetStream; S2's word for what it compresses is the same one",
    "Publications": "compiled: a batch of them, of JetStream and of STAN, which share nothing",
}
"""By name: why more than one class has it."""


def public_names(source: str) -> Iterator[str]:
    """The public classes that a module defines at its top level."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def shared_names(sources: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that several modules define, with these modules; `sources`: names and texts of modules."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module, text in sources:
        for name in public_names(text):
            found[name].append(module)
    return {name: where for name, where in found.items() if len(where) > 1}


def shared_by_the_source() -> dict[str, list[str]]:
    return shared_names((module.name, module.text) for module in modules() if module.is_python)


def test_a_public_class_name_is_defined_once() -> None:
    shared = {name: where for name, where in shared_by_the_source().items() if name not in EXCEPTIONS}

    assert not shared, f"say in the name what of: {shared}"


def test_every_exception_is_needed() -> None:
    assert EXCEPTIONS.keys() <= shared_by_the_source().keys()


def test_names_of_several_modules_are_found() -> None:
    one = ("one", "class Place: ...\nclass _Own: ...\nclass Other: ...\n")
    two = ("two", "class Place: ...\nclass _Own: ...\nclass Outer:\n    class Other: ...\n")

    assert shared_names([one, two]) == {"Place": ["one", "two"]}
