"""The exceptions for a path of the gateway; `webhdfs` translates them into Hadoop's."""

from __future__ import annotations

from headrace.errors import HeadraceError


class CheckpointError(HeadraceError):
    """The store failed or refused."""


class PathMissing(CheckpointError):
    """The store has no file or folder of that name."""


class PathExists(CheckpointError):
    """A file of that name exists, and must not be replaced."""


class FolderNotEmpty(CheckpointError):
    """A folder is not empty, and the request does not allow to remove what is in it."""


class BadPath(CheckpointError):
    """The path is none of a file (`..`, empty names, control characters), or does not fit the operation."""
