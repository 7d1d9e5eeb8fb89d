"""NATS Streaming of a server whose channels are in a bucket that others have, too: the service and its shard.

A shard (`headrace.bucket`) knows the bucket; here its decisions give the service its channels and take them,
and what servers with the same bucket say to each other goes over NATS. Never lives here: the decision which
server is the owner (`bucket.shard`), what the service does (`headrace.streaming`).
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import TYPE_CHECKING, Final

from headrace.bucket.committer import PROOF_S
from headrace.bucket.membership import ShardMembership
from headrace.bucket.object_subjects import ObjectSubjects
from headrace.bucket.port import Beat
from headrace.errors import HeadraceError, LogError, StartError
from headrace.limits import OWNER_LOOK
from headrace.streaming.beats import StreamingBeats
from headrace.streaming.error_texts import failed_to_start

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from headrace.bucket.port import MakeShard
    from headrace.conf.options import Options
    from headrace.log.committer import Committer
    from headrace.log.filesystem import FileSystem
    from headrace.log.store import LogStore
    from headrace.streaming.service import StreamingService

LOOK_S: Final = 0.2
"""Seconds between two looks for a server that answers clients: without one, the owner is gone."""
_BEAT: Final = Struct(">?QQ")


class StreamingMembership:
    """The membership of one streaming server among those with the same bucket.

    Fulfils `core.service.Membership` and `bucket.port.ShardHost`. All on the server's loop.
    `open_store`: opens the store of channels in the files of the shard. `make`: makes the shard for a host.
    """

    def __init__(
        self,
        service: StreamingService,
        open_store: Callable[[FileSystem], LogStore],
        make: MakeShard,
        log: logging.Logger,
    ) -> None:
        self._service = service
        self._open_store = open_store
        self._part: Final = ShardMembership(make)
        self._log = log
        self._beats: Final = StreamingBeats(service.options, service.server_id, self._take)
        self._objects: Final = ObjectSubjects(self._beats.subject)
        self._beats.listen(self._objects.of(service.server_id), self._part.hear_object)
        service.beats = self._beats
        service.membership = self
        self._store: LogStore | None = None
        self._look: asyncio.TimerHandle | None = None
        self._hears_owner = False
        self._refusal: asyncio.Future[None] | None = None
        """Waits, while the server starts, for an error of the channels that this server got."""

    # -- Membership -----------------------------------------------------------------------------------

    async def join(self, server: str, cluster: str, *, is_alone: bool) -> None:
        loop = asyncio.get_running_loop()
        self._refusal = loop.create_future()
        try:
            name = self._service.options.node_id or server
            shard = self._part.begin(self, name, cluster, is_alone=is_alone)
            self._service.bucket = shard.status
            await shard.start()
            self._look_on()
            settled = loop.create_task(shard.settled())
            done, _ = await asyncio.wait(
                (settled, self._refusal), timeout=OWNER_LOOK, return_when=asyncio.FIRST_COMPLETED
            )
            settled.cancel()
            for each in done:
                each.result()
        except HeadraceError as error:
            raise StartError(failed_to_start(str(error))) from error
        finally:
            self._refusal.cancel()
            self._refusal = None
        if not done:
            self._log.warning("STREAM: It is not known yet which server has the channels")

    def proven_until(self) -> int:
        """Return until when what the service knows is so, in monotonic ns.

        One that stands by knows nothing that could be of the past: it may always say that it lives.
        """
        if self._store is None:
            return round((asyncio.get_running_loop().time() + PROOF_S) * 1e9)
        return self._part.proven_until()

    def reload(self, new: Options) -> None:
        self._part.reload(None if new.streaming is None else new.streaming.bucket)

    async def leave(self) -> None:
        if self._part.present():
            await self.part()

    async def part(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None
        await self._part.end()

    # -- ShardHost ------------------------------------------------------------------------------------

    async def promoted(self, files: FileSystem, committer: Committer) -> None:
        try:
            self._store = self._open_store(files)
            self._service.promote(self._store, committer)
        except HeadraceError as error:
            if self._refusal is not None and not self._refusal.done():
                self._refusal.set_exception(error)
            raise

    async def demoted(self, reason: str | None) -> None:
        self._hears_owner = False
        if reason is None:
            retired = asyncio.Event()
            self._service.retire(retired.set)
            await retired.wait()
        else:
            self._service.abandon()
        self._close_store(in_order=reason is None)

    def tell(self, beat: Beat) -> None:
        self._beats.tell(_BEAT.pack(*beat))

    def tell_object(self, server_id: str, sealed: bytes) -> bool:
        return self._objects.send(self._beats.host, server_id, sealed)

    def _close_store(self, *, in_order: bool) -> None:
        """Close the store; where the shard is lost, what was written last counts no more."""
        store, self._store = self._store, None
        try:
            if store is not None:
                store.close()
        except LogError as error:
            write = self._log.error if in_order else self._log.debug
            write("STREAM: could not close the store: %s", error)

    # -- the others -----------------------------------------------------------------------------------

    def _take(self, data: bytes, server_id: str) -> None:
        """Take a sign of life; whoever may publish there can say anything."""
        if len(data) == _BEAT.size:
            self._part.hear(Beat(*_BEAT.unpack(data)), server_id)

    def _look_on(self) -> None:
        """Suspect the owner when nobody answers clients any more: its interest goes with its connection."""
        self._look = asyncio.get_running_loop().call_later(LOOK_S, self._look_on)
        heard, self._hears_owner = self._hears_owner, self._beats.hears_server()
        if heard and not self._hears_owner and self._store is None:
            self._part.suspect()
