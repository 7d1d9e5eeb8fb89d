"""The part of one server among those with the same bucket, which is the same for every service.

Here lives what a server does with its shard while it takes part: it is told what others say, and asked until
when services may speak. Never here: how messages come and go, and what services do when the shard is gained
or lost (`headrace.jetstream_membership`, `headrace.streaming_membership`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.bucket.committer import PROOF_S
from headrace.bucket.peers import HeardServer, Peers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.bucket.port import Beat, BucketShard, MakeShard, ShardHost
    from headrace.conf.bucket_options import BucketOptions


class ShardMembership:
    """One server's membership. `make`: makes its shard. All on the server's loop."""

    def __init__(self, make: MakeShard) -> None:
        self.shard: BucketShard | None = None
        """The shard, from the beginning on; it is there still when the membership has ended."""
        self._make: Final = make
        self._peers: Final = Peers()
        self._has_ended = False

    def begin(self, host: ShardHost, server: str, cluster: str, *, is_alone: bool) -> BucketShard:
        """Make the shard, which the caller starts. Parameters and errors are those of `MakeShard`."""
        shard = self.shard = self._make(host, server, cluster, is_alone=is_alone)
        return shard

    def proven_until(self) -> int:
        """Return until when this server is known to be the owner, in monotonic ns; 0: it never was."""
        shard = self.shard
        return 0 if shard is None else round((shard.last_proof + max(PROOF_S, shard.lag_allowed_s)) * 1e9)

    def reload(self, bucket: BucketOptions | None) -> None:
        """Take over what a running server takes over of the options of its bucket."""
        if self.shard is not None and bucket is not None:
            self.shard.limit_puts(bucket.puts_per_second)
            self.shard.limit_filling(bucket.fill_per_second)

    async def leave(self) -> None:
        """End the membership if there is another server that may serve then."""
        if self.present():
            await self.end()

    async def end(self) -> None:
        """Take part no more; what is owned is given up in order. Safe to call twice."""
        if self.shard is not None and not self._has_ended:
            self._has_ended = True
            await self.shard.stop()

    def _taking_part(self) -> BucketShard | None:
        return None if self._has_ended else self.shard

    # -- the others -----------------------------------------------------------------------------------

    def hear(self, beat: Beat, server_id: str, name: str = "") -> bool:
        """Take a sign of life of another server; False if so many are heard that it does not count.

        `name`: what monitoring shows of it, else its id.
        """
        shard = self._taking_part()
        if shard is None or not self._peers.hear(server_id, HeardServer(name, beat, _now())):
            return False
        shard.heard(beat, server_id, name)
        return True

    def hear_object(self, sealed: bytes) -> None:
        """Take a WAL object that the owner told of."""
        if (shard := self._taking_part()) is not None:
            shard.heard_object(sealed)

    def left(self, server_id: str) -> None:
        """Forget a server that has no connection here any more."""
        self._peers.forget(server_id)

    def suspect(self) -> None:
        """The connections to the owner are gone."""
        if (shard := self._taking_part()) is not None:
            shard.suspect()

    def present(self) -> Mapping[str, HeardServer]:
        """Return the other servers that were heard lately, by their ids."""
        return self._peers.present(_now())


def _now() -> float:
    return asyncio.get_running_loop().time()
