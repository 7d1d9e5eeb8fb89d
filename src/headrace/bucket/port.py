"""The server of a shard as the shard sees it, and what servers of one shard say to each other.

Only protocols and plain values live here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from headrace.log.committer import Committer
    from headrace.log.filesystem import FileSystem


class Beat(NamedTuple):
    """A sign of life of a server to the others that have the same shard."""

    is_owner: bool
    epoch: int
    number: int
    """The last WAL object that is there: of an owner, committed; of a standby, read."""


class ShardHost(Protocol):
    """The server of a shard: it opens and closes the services whose logs are in the shard."""

    async def promoted(self, files: FileSystem, committer: Committer) -> None:
        """Open the services over these files: this server owns the shard now.

        Raises: HeadraceError; then the shard is given up again.
        """

    async def demoted(self, reason: str | None) -> None:
        """Close the services.

        None: in order, and what they wrote is recorded when this returns. A reason: the shard is lost, and
        nothing may be answered, acknowledged or delivered from the call on.
        """

    def tell(self, beat: Beat) -> None:
        """Have the other servers hear it; without any, nothing happens."""

    def tell_object(self, server_id: str, sealed: bytes) -> bool:
        """Send a WAL object (`told_objects`) to one server; False: it cannot be sent."""
