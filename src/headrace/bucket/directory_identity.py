"""The mark in a local directory that says of which shard of which bucket it is a cache.

A cache is made to agree with its bucket, so what else lies there would go. That is right for a cache, and
wrong for a store that was there before it had a bucket, or that is of another one: those end the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.bucket.cache import OWN
from headrace.bucket.capture import LOCAL_NAMES
from headrace.bucket.errors import CacheFailed, NotOurs
from headrace.log.filesystem import make_directory, read_file, replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.log.filesystem import FileSystem

MARK: Final = "url"
"""The file in the cache's own folder with the URL of the shard."""


def upload_command(directory: Path, url: str) -> str:
    """Return the command that brings the store in a directory to the shard of a URL (`upload`)."""
    bucket, _, shard = url.rpartition("/shards/")
    command = f"headrace jetstream upload --to {bucket}"
    if shard == "jetstream":
        return f"{command} --dir {directory.parent}"
    return f"{command} --dir {directory} --shard {shard}"


def mark_directory(files: FileSystem, directory: Path, url: str) -> None:
    """Make a directory the cache of the shard of a URL, if it is that already or is empty.

    Raises: NotOurs if something else is there, which nothing touches; CacheFailed for errors of the disk.
    """
    path = directory / OWN / MARK
    try:
        make_directory(files, directory)
        known = None
        if files.is_directory(path.parent) and MARK in files.listdir(path.parent):
            known = read_file(files, path).decode("utf-8", "replace")
        if known == url:
            return
        if known is not None:
            raise NotOurs(f"{directory} is a cache of {known}, not of {url}: give another directory")
        found = sorted(set(files.listdir(directory)) - LOCAL_NAMES - {OWN})
        if found:
            raise NotOurs(
                f"{directory} has a store that is in no bucket ({found[0]}), and would be lost: "
                f"`{upload_command(directory, url)}` brings it there; then give another directory"
            )
        make_directory(files, path.parent)
        replace_file(files, path, url.encode())
    except OSError as error:
        raise CacheFailed(f"{directory}: {error.strerror or error}") from error
