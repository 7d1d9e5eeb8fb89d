"""The server of a shard as the shard sees it, the shard as its server does, and what servers tell each other.

Only protocols and plain values live here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from headrace.bucket.status import ShardStatus
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


class BucketShard(Protocol):
    """A shard of the bucket at this server: `bucket.shard.Shard`."""

    @property
    def last_proof(self) -> float:
        """The loop's time at which this server is known to have been the owner; 0.0: it is not."""

    @property
    def lag_allowed_s(self) -> float:
        """Seconds for which the bucket may be behind what is acknowledged."""

    async def start(self) -> None:
        """Read what the bucket has, and begin to stand by. Raises: HeadraceError."""

    async def settled(self) -> None:
        """Wait until the server knows whether it stands by or owns."""

    async def step_down(self) -> None:
        """Give the shard up in order, for another server. Raises: BucketError if it is not owned."""

    async def stop(self) -> None:
        """Give the shard up if this server owns it, and end. Safe to call twice."""

    def heard(self, beat: Beat, server_id: str, name: str = "") -> None:
        """Take a sign of life of another server. `name`: what monitoring shows of it, else its id."""

    def heard_object(self, sealed: bytes) -> None:
        """Take a WAL object that the owner told of."""

    def succeeded_by_another(self) -> None:
        """The owner is about to give the shard up for a certain server, which is not this one."""

    def limit_puts(self, per_second: float) -> None:
        """Change the budget of puts."""

    def limit_filling(self, per_second: int) -> None:
        """Change the bytes a second that are brought to the local disk beforehand; 0: none."""

    def suspect(self) -> None:
        """The connections to the owner are gone: claim now."""

    def status(self) -> ShardStatus:
        """Return the status of the shard, for monitoring."""


class MakeShard(Protocol):
    """The way to a shard of a bucket, on the server's loop."""

    def __call__(self, host: ShardHost, server: str, cluster: str, *, is_alone: bool) -> BucketShard:
        """Make the shard for a host, at the server and in the cluster of these names ("": it has none).

        `is_alone`: the server can hear no others. Raises: HeadraceError.
        """
