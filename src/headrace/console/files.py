"""The files of the console's page, a fixed table held in memory: nothing is looked for on the disk later.

Never lives here: which of them a request means (`site`).
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

INDEX: Final = "index.html"
"""The page itself."""

CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    "": "text/plain; charset=utf-8",  # licences, manifests
}
"""The types of files by the endings of their names; a file with any other is not served."""

_WORTH_PACKING: Final = 512  # bytes; less fits into one packet as it is


class ConsoleFile:
    """One file: its bytes, also packed, and what answers say of them."""

    def __init__(self, body: bytes, content_type: str) -> None:
        self.body: Final = body
        self.content_type: Final = content_type
        # Weak: the packed bytes have the same one.
        self.etag: Final = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'

    @cached_property
    def packed(self) -> bytes | None:
        """The bytes with gzip; None where that saves nothing. Cost: some ms, for the first who asks."""
        if len(self.body) < _WORTH_PACKING:
            return None
        packed = gzip.compress(self.body, 9, mtime=0)
        return packed if len(packed) < len(self.body) else None


@cache
def table() -> Mapping[str, ConsoleFile]:
    """Return the files by their paths below the page's.

    Raises: HeadraceError when this installation has no page. Cost: reads all files, once.
    """
    found = dict(_read(files(__package__) / "static", ""))
    if INDEX not in found:
        raise HeadraceError("console: this installation of Headrace has no page (headrace/console/static)")
    return found


def _read(folder: Traversable, path: str) -> Iterator[tuple[str, ConsoleFile]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _read(entry, f"{path}{entry.name}/")
            continue
        content_type = content_type_of(entry.name)
        if content_type is not None:
            yield f"{path}{entry.name}", ConsoleFile(entry.read_bytes(), content_type)


def content_type_of(name: str) -> str | None:
    """Return the content type of a file's name; None: such files are not served."""
    stem, dot, ending = name.rpartition(".")
    return CONTENT_TYPES.get(f".{ending}" if dot and stem else "")
