"""The source tree as the meta tests see it: modules, their imports, their functions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"

_CIMPORT = re.compile(r"^from (headrace[\w.]*) c?import|^c?import (headrace[\w.]*)", re.MULTILINE)
_CDEF = re.compile(r"^(?:    )?(?:cdef|cpdef|def) [^=\n]*\(", re.MULTILINE)


@dataclass(frozen=True)
class Module:
    """One source file under src/."""

    path: Path

    @property
    def name(self) -> str:
        parts = list(self.path.relative_to(SRC).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def relative(self) -> str:
        return str(self.path.relative_to(SRC))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def is_python(self) -> bool:
        return self.path.suffix in (".py", ".pyi")

    def imports(self) -> frozenset[str]:
        """Every module of ours that this one names, as far as it says it."""
        return _outline(self).imports

    def functions(self) -> tuple[tuple[str, int], ...]:
        """(name or first line, lines) of every function."""
        return _outline(self).functions


@dataclass(frozen=True)
class _Outline:
    """What is kept of a module that has been read: its syntax tree would be much larger."""

    imports: frozenset[str]
    functions: tuple[tuple[str, int], ...]


@cache
def _outline(module: Module) -> _Outline:
    """A module's imports and functions; it is read once, many tests ask."""
    if not module.is_python:
        return _compiled_outline(module.text)
    imports: set[str] = set()
    functions: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(module.text)):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports |= {_resolved(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append((node.name, (node.end_lineno or node.lineno) - node.lineno + 1))
    ours = frozenset(name for name in imports if name.split(".")[0] in ("headrace", "pyspark_nats"))
    return _Outline(ours, tuple(functions))


def _compiled_outline(text: str) -> _Outline:
    """The same of Cython's source."""
    imports = frozenset(first or second for first, second in _CIMPORT.findall(text))
    starts = [match.start() for match in _CDEF.finditer(text)]
    bodies = [text[a:b] for a, b in pairwise([*starts, len(text)])]
    return _Outline(
        imports, tuple((body.partition("\n")[0], body.rstrip().count("\n") + 1) for body in bodies)
    )


def _resolved(module: str, name: str) -> str:
    """`from headrace.server import tls` names headrace.server.tls, when that is a module."""
    inner = SRC.joinpath(*module.split("."), name)
    is_module = inner.is_dir() or inner.with_suffix(".py").exists() or inner.with_suffix(".pyx").exists()
    return f"{module}.{name}" if is_module else module


def modules() -> list[Module]:
    return [Module(path) for path in sorted(SRC.rglob("*")) if path.suffix in (".py", ".pyi", ".pyx", ".pxd")]
