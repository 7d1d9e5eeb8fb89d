"""No circle of imports has more than three files, those for types alone included (ADR 0002).

Files that import each other are read, changed and understood together only. Three are an idea in three files;
more are a whole whose parts know it. A part takes a Protocol of what it sees instead (`jetstream.ports`).
"""

from __future__ import annotations

from collections import defaultdict

from source_tree import modules

LARGEST = 3
"""Files of one circle."""


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules of which each reaches each other (Tarjan), without those of one alone."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    found: list[set[str]] = []
    for root, first in imports.items():
        if root in index:
            continue
        index[root] = low[root] = len(index)
        path.append(root)
        on_path.add(root)
        work = [(root, iter(sorted(first)))]
        while work:
            module, targets = work[-1]
            for target in targets:
                if target not in imports:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    path.append(target)
                    on_path.add(target)
                    work.append((target, iter(sorted(imports[target]))))
                    break
                if target in on_path:
                    low[module] = min(low[module], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[module])
                if low[module] == index[module]:
                    start = path.index(module)
                    circle = set(path[start:])
                    del path[start:]
                    on_path -= circle
                    found.append(circle)
    return [circle for circle in found if len(circle) > 1]


def test_no_circle_has_more_than_three_files() -> None:
    imports: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        imports[module.name] |= module.imports() - {module.name}

    too_large = [sorted(circle) for circle in circles(imports) if len(circle) > LARGEST]

    assert not too_large, "a part takes a Protocol of what it sees, not the class of its whole"


def test_a_circle_is_found_whatever_hangs_on_it() -> None:
    imports = {"a": {"b", "x"}, "b": {"c"}, "c": {"d", "json"}, "d": {"a"}, "x": set(), "z": {"a"}}

    assert circles(imports) == [{"a", "b", "c", "d"}]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert sorted(map(len, circles({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}))) == [2, 2]
