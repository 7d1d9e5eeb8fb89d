"""Modules beside a specification: found there first, loaded again once they were edited.

Never lives here: what their functions are for (`functions`, `building`).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from types import ModuleType

    Version = tuple[str, int, int]


class ModuleError(HeadraceError):
    """A module cannot be loaded; the text says why."""


_versions: Final[dict[str, Version]] = {}
"""Names of the modules that were loaded from folders of specifications in this process."""


def load_module(name: str, folder: Path) -> ModuleType:
    """The module; looked for in `folder`, then where Python looks.

    One of `folder` is loaded anew if it was edited, or came from another folder. Raises: ModuleError.
    """
    place = str(folder)
    if place in sys.path:
        sys.path.remove(place)
    sys.path.insert(0, place)
    file = folder.joinpath(*name.split(".")).with_suffix(".py")
    if file.is_file():
        _forget_older(name, file)
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a user's module raises while it is loaded
        raise ModuleError(f"module {name}: {type(error).__name__}: {error}") from error


def lies_in(module: ModuleType, folder: Path) -> bool:
    """True if a module's file is below a folder."""
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)


def _forget_older(name: str, file: Path) -> None:
    facts = file.stat()
    version = (str(file), facts.st_mtime_ns, facts.st_size)
    loaded = sys.modules.get(name)
    if loaded is not None and name not in _versions and getattr(loaded, "__file__", None) != str(file):
        raise ModuleError(f"module {name} is another one that is loaded already: give {file} another name")
    if loaded is not None and _versions.get(name) != version:
        del sys.modules[name]
    _versions[name] = version
    importlib.invalidate_caches()
