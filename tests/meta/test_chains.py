"""No part reaches through another one for what is behind it: it is given that, or asks the one it knows.

`self._server.system.events.connected()` knows how a server is built inside. `self._server.events.connected()`
knows one thing of it.
"""

from __future__ import annotations

import ast

from source_tree import modules

LONGEST = 4
"""Names of one chain of attributes, the first one included: `self._stream.log.read`."""


def long_chains(source: str) -> list[str]:
    """The chains of attributes with more names than there may be; of a chain its beginnings are not named."""
    found = []
    beginnings: set[ast.expr] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or node in beginnings:
            continue
        names, value = [node.attr], node.value
        while isinstance(value, ast.Attribute):
            beginnings.add(value)
            names.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name) and len(names) >= LONGEST:
            found.append(".".join([value.id, *reversed(names)]))
    return found


def test_no_part_reaches_through_another() -> None:
    found = {
        module.relative: chains
        for module in modules()
        if module.path.suffix == ".py" and (chains := long_chains(module.text))
    }

    assert not found, "take the part that is meant, or ask the one that you know"


def test_a_chain_is_named_once_and_whole() -> None:
    source = "a.b.c.d\nself.b.c.d.e()\nx().b.c.d.e\nfor one in s.t.u.v.w.x: one.y = 1\n"

    assert sorted(long_chains(source)) == ["s.t.u.v.w.x", "self.b.c.d.e"]


def test_only_who_runs_or_changes_a_server_takes_the_class() -> None:
    """All others take a Protocol of what they see of it (`server.port`)."""
    takers = {module.name for module in modules() if "headrace.server.server" in module.imports()}

    assert takers == {
        "headrace.app",  # runs one
        "headrace.embedding",  # runs one on a thread
        "headrace.attached.server",  # is one to whoever runs it
        "headrace.server.files",  # says all ports
        "headrace.server.reload",  # changes it
        "headrace.testing.cluster",  # runs several
    }
