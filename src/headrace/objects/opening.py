"""The way from a location to its store: a directory, or a URL such as `s3://bucket/prefix`.

`options` of a URL are those of obstore's `from_url` (`endpoint`, `access_key_id`, ...); what is not given
comes from the environment. obstore is loaded only for a URL.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.objects.local import LocalStore

if TYPE_CHECKING:
    from headrace.objects.port import AsyncObjectStore, ObjectStore


def open_store(location: str, **options: Any) -> ObjectStore:
    """Open a directory, or the place of a URL such as `s3://bucket/prefix`, as a store of objects.

    A URL needs obstore, to which `options` go. Nothing is asked of the store yet.

    Raises: UnsupportedError without obstore, StoreError for a URL or options that it does not know,
    ValueError for options of a directory.
    """
    if re.match(r"[a-z][a-z0-9+.-]*://", location):
        from headrace.objects.remote import RemoteStore

        return RemoteStore(location, **options)
    if options:
        raise ValueError(f"a directory takes no options, and {', '.join(options)} were given")
    return LocalStore(Path(location).absolute())


def open_async_store(url: str, **options: Any) -> AsyncObjectStore:
    """A URL, also `file://`: a directory as an object store has it, with no folder to make or left empty.

    In a directory `create` needs no lock (obstore makes a hard link), but nothing is synced: a power loss may
    take what was put.

    Raises: UnsupportedError without obstore, StoreError for a URL or options that it does not know.
    """
    from headrace.objects.remote import AsyncRemoteStore

    if url.startswith("file:"):
        options = {"mkdir": True, "automatic_cleanup": True, **options}
    return AsyncRemoteStore(url, **options)
