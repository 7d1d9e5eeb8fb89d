"""The identity of a prefix: an object that its first server creates, and every other one reads.

Nothing else is written before this was judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from headrace.bucket.errors import NewerFormat, NotOurs
from headrace.objects.errors import KeyExists, KeyMissing

if TYPE_CHECKING:
    from headrace.objects.port import AsyncObjectStore

IDENTITY_KEY: Final = f"cluster/{1:020}"
FORMAT: Final = 1
"""The format of what lies below a prefix."""
KIND: Final = "headrace"


async def check_identity(store: AsyncObjectStore, cluster: str) -> None:
    """Let the servers of a cluster ("": it has no name) use a prefix, or raise; an empty one becomes theirs.

    Raises: NotOurs if it is another cluster's, or another program's; NewerFormat; StoreError, also for wrong
    credentials or an unknown bucket.
    """
    found = await _found(store)
    if found is None:
        if (held := await _held(store)) and (found := await _found(store)) is None:
            raise NotOurs(
                f"{store.location} holds {held}, and is not of Headrace: "
                "nothing was touched; give another prefix"
            )
        if not held:
            found = await _created(store, cluster)
    if found is not None:
        _judge(found, store.location, cluster)


async def check_readable(store: AsyncObjectStore) -> None:
    """Raise NotOurs for a prefix that is not Headrace's, NewerFormat for one of a later version.

    Nothing is written. Raises: also StoreError.
    """
    found = await _found(store)
    if found is None:
        held = await _held(store)
        raise NotOurs(
            f"{store.location} holds {held}, and is not of Headrace"
            if held
            else f"{store.location} has no streams of Headrace in it: it is empty, or not there"
        )
    _judge(found, store.location, "")


async def _found(store: AsyncObjectStore) -> bytes | None:
    try:
        return await store.get(IDENTITY_KEY)
    except KeyMissing:
        return None


async def _held(store: AsyncObjectStore) -> str:
    """Return the name of something below the prefix; "" if it is empty.

    A folder without an object is nothing: in a directory it is there a moment before its first object, which
    another server may be creating.
    """
    listing = await store.list_folder()
    for info in listing.objects:
        return info.key
    for folder in listing.folders:
        async for _ in store.list(folder):
            return folder
    return ""


async def _created(store: AsyncObjectStore, cluster: str) -> bytes | None:
    """Create the identity; return that of another server that was faster, None: it is ours."""
    identity = {"format": FORMAT, "kind": KIND, "cluster": cluster}
    try:
        await store.create(IDENTITY_KEY, msgspec.msgpack.encode(identity))
    except KeyExists:
        return await store.get(IDENTITY_KEY)
    return None


def _judge(data: bytes, location: str, cluster: str) -> None:
    fields = _fields(data)
    if fields.get("kind") != KIND or not isinstance(fields.get("format"), int):
        raise NotOurs(f"{location}: its {IDENTITY_KEY} is not of Headrace; nothing was touched")
    if fields["format"] > FORMAT:
        raise NewerFormat(
            f"{location} was written by a later version (format {fields['format']}, this one knows {FORMAT})"
        )
    theirs = fields.get("cluster")
    if theirs and cluster and theirs != cluster:
        raise NotOurs(f"{location} is of the cluster {theirs!r}, this server is of {cluster!r}")


def _fields(data: bytes) -> dict[str, Any]:
    try:
        fields = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, RecursionError):
        return {}  # it is of another program
    return fields if isinstance(fields, dict) else {}
