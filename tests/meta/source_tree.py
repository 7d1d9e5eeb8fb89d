"""The source tree as the meta tests see it: modules, their imports, their functions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
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

    def imports(self) -> set[str]:
        """Every module of ours that this one names, as far as it says it."""
        if not self.is_python:
            return {first or second for first, second in _CIMPORT.findall(self.text)}
        found: set[str] = set()
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {_resolved(node.module, alias.name) for alias in node.names}
        return {name for name in found if name.split(".")[0] in ("headrace", "pyspark_nats")}

    def functions(self) -> list[tuple[str, int]]:
        """(name or first line, lines) of every function."""
        if self.is_python:
            return [
                (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
                for node in ast.walk(ast.parse(self.text))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
        starts = [match.start() for match in _CDEF.finditer(self.text)]
        bodies = [self.text[a:b] for a, b in pairwise([*starts, len(self.text)])]
        return [(body.partition("\n")[0], body.rstrip().count("\n") + 1) for body in bodies]


def _resolved(module: str, name: str) -> str:
    """`from headrace.server import tls` names headrace.server.tls, when that is a module."""
    inner = SRC.joinpath(*module.split("."), name)
    is_module = inner.is_dir() or inner.with_suffix(".py").exists() or inner.with_suffix(".pyx").exists()
    return f"{module}.{name}" if is_module else module


def modules() -> list[Module]:
    return [Module(path) for path in sorted(SRC.rglob("*")) if path.suffix in (".py", ".pyi", ".pyx", ".pxd")]
