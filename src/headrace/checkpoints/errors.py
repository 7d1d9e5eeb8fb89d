"""The exceptions for a path of the gateway; `webhdfs` translates them into Hadoop's."""

from __future__ import annotations

from headrace.errors import HeadraceError


class CheckpointError(HeadraceError):
    """The store failed or refused."""


class PathMissing(CheckpointError):
    """There is no file or folder of that name."""


class PathExists(CheckpointError):
    """There is one already, and it must not be replaced."""


class FolderNotEmpty(CheckpointError):
    """A folder is not empty, and the request does not allow to remove what is in it."""


class BadPath(CheckpointError):
    """No path of a file: `..`, empty names, control characters; or not what the operation is for."""
