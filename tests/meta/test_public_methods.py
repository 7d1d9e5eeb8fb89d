"""No class has more than twenty public methods, properties included: a larger one is several, which callers
hold.

Counted are those that a class defines itself, in Python and in the stubs of compiled modules. What is
inherited is counted where it is defined.
"""

from __future__ import annotations

import ast
from functools import cache

from source_tree import modules

MOST = 20
"""Public methods of one class."""

EXCEPTIONS: dict[str, tuple[int, str]] = {
    # contracts, and who keeps them: splitting one would make two that everybody is given together
    "headrace.log.port.MessageLog": (25, "everything that may be asked of a log"),
    "headrace.log.file.FileLog": (29, "keeps the contract of a log"),
    "headrace.log.memory.MemoryLog": (29, "keeps the contract of a log"),
    "headrace.log.filesystem.FileSystem": (21, "the functions of `os` that a log of files calls"),
    "headrace.log.filesystem.RealFileSystem": (22, "keeps the contract of a file system, and makes links"),
    "headrace.bucket.capture.CapturingFileSystem": (22, "keeps the contract of a file system"),
    "headrace.bucket.shard_files.ShardFiles": (22, "keeps the contract of a file system"),
    "headrace.testing.faultfs.FaultyFileSystem": (21, "keeps the contract of a file system"),
    "headrace.testing.faultfs.MemoryFileSystem": (26, "keeps the contract of a file system, and makes links"),
    # compiled: one object for each connection or pass, not several
    "headrace.engine.link.Link": (29, "the outbox, the counters and the interest of one connection"),
    "headrace.engine.records.Scan": (27, "one pass over the records of a file, by which everything is found"),
}
"""The exceptions by class: how many it has, never more than here, and why."""


def public_methods(source: str) -> dict[str, int]:
    """How many public methods and properties each class of a module defines; setters are no more."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            names = {
                each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            found[node.name] = sum(not name.startswith("_") for name in names)
    return found


@cache
def large_classes() -> dict[str, int]:
    """The classes with more public methods than there may be, by `module.Class`."""
    return {
        f"{module.name}.{name}": number
        for module in modules()
        if module.is_python
        for name, number in public_methods(module.text).items()
        if number > MOST
    }


def test_no_class_has_more_public_methods() -> None:
    too_large = {
        name: number
        for name, number in large_classes().items()
        if number > EXCEPTIONS.get(name, (MOST, ""))[0]
    }

    assert not too_large, "give what belongs together a class of its own, which callers hold"


def test_exceptions_only_shrink() -> None:
    found = large_classes()

    assert {name: most for name, (most, _) in EXCEPTIONS.items() if found.get(name, 0) < most} == {}


def test_methods_and_properties_are_counted_once_and_private_ones_not() -> None:
    source = """
class Part:
    def one(self): ...
    @property
    def two(self): ...
    @two.setter
    def two(self, value): ...
    async def three(self): ...
    def _own(self): ...
    def __len__(self): ...
    class Inner:
        def one(self): ...
def function(): ...
"""

    assert public_methods(source) == {"Part": 3, "Inner": 1}
