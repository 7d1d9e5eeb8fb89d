"""JetStream of a server that has its streams in a bucket with others: the server and its shard, joined.

A shard (`headrace.bucket`) knows the bucket; here its decisions open and close the services, and what servers
with the same bucket say to each other travels through the system account. Never lives here: who is the owner
(`bucket.shard`), what services do (`headrace.jetstream`).
"""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from headrace.bucket.membership import ShardMembership
from headrace.bucket.object_subjects import ObjectSubjects
from headrace.bucket.port import Beat
from headrace.errors import HeadraceError, StartError
from headrace.jetstream.leadership import ClusterPeer, Leadership
from headrace.jetstream.opening import JetStreamServer
from headrace.server.ownership import hears_others, lasting_cluster_name

if TYPE_CHECKING:
    import asyncio
    import logging
    from collections.abc import Callable, Sequence
    from typing import Any

    from headrace.bucket.port import BucketShard, MakeShard
    from headrace.conf.jetstream_options import JetStreamOptions
    from headrace.conf.options import Options
    from headrace.core.service import Delivery, Host
    from headrace.engine.batches import Gathered
    from headrace.log.committer import Committer
    from headrace.log.filesystem import FileSystem
    from headrace.server.ownership import ServedAccounts, SharingServer

_SUBJECT: Final = "$SYS.HEADRACE.BUCKET.%s.BEAT"
_DIGITS: Final = 16

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Said(msgspec.Struct, frozen=True, array_like=True):
    """A sign of life as servers send it: as JSON, its fields in a list."""

    server_id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    server_name: Annotated[str, msgspec.Meta(max_length=1024)]
    is_owner: bool
    epoch: _Count
    number: _Count
    successor: Annotated[str, msgspec.Meta(max_length=256)] = ""
    """The id of the server for which the owner gives the shard up; "": for any, or it does not."""


class SharedJetStream(JetStreamServer):
    """JetStream whose streams are in a bucket that other servers have, too.

    `make`: makes the shard of the bucket.
    """

    def __init__(
        self,
        options: JetStreamOptions,
        make: MakeShard,
        *,
        log: logging.Logger,
        **others: Any,
    ) -> None:
        super().__init__(options, log=log, **others)
        assert options.bucket is not None, "else the streams are this server's alone"
        self.ownership: Final = JetStreamMembership(self, options.bucket.url, make, log)
        self.leadership = self.ownership.leadership
        self.hand_over = self.ownership.hand_over


class JetStreamMembership:
    """The membership of one server among those with the same bucket.

    Fulfils `server.ownership.Ownership` and `bucket.port.ShardHost`. All on the server's loop.
    """

    def __init__(
        self,
        jetstream: JetStreamServer,
        url: str,
        make: MakeShard,
        log: logging.Logger,
    ) -> None:
        self._jetstream = jetstream
        self._part: Final = ShardMembership(make)
        self._log = log
        self._beats: Final = Beats(beat_subject(url), self._take, self._part.hear_object)
        self._server: SharingServer | None = None
        self._accounts: ServedAccounts | None = None
        self._owner_id = ""
        self._own = Beat(is_owner=False, epoch=0, number=0)
        self._serves = False
        self._since_ns = 0
        self._handing: asyncio.Task[None] | None = None

    # -- Ownership ------------------------------------------------------------------------------------

    async def begin(self, server: SharingServer, accounts: ServedAccounts) -> None:
        self._server, self._accounts = server, accounts
        system, routes = server.accounts.system, server.routes
        if system is not None:
            self._beats.server_id = server.server_id
            server.start_service(self._beats, server.accounts[system])
        if routes is not None:
            routes.when_left.append(self._left)
        try:
            shard = self._part.begin(
                self,
                server.name,
                lasting_cluster_name(server.options, server.worker),
                is_alone=system is None or not hears_others(routes, server.worker),
            )
            self._jetstream.bucket = shard.status
            await shard.start()
        except HeadraceError as error:
            raise StartError(f"Can't start JetStream: {error}") from error

    async def settled(self) -> None:
        assert self._part.shard is not None, "it has begun"
        await self._part.shard.settled()

    def proven_until(self) -> int:
        return self._part.proven_until()

    def reload(self, new: Options) -> None:
        self._part.reload(None if new.jetstream is None else new.jetstream.bucket)

    async def leave(self) -> None:
        await self._part.leave()

    async def end(self) -> None:
        await self._part.end()

    def hand_over(self, preferred: str = "") -> bool:
        """Begin to give the streams up for another server; False: there is none, or they are not here.

        `preferred`: the name of the server that goes first; the others follow if it does not take them.
        """
        shard, server = self._part.shard, self._server
        if shard is None or server is None or not self._serves or not self._part.present():
            return False
        wanted = [each for each, heard in self._part.present().items() if heard.name == preferred]
        if preferred and wanted:
            self._say(wanted[0])
        self._handing = server.loop.create_task(self._give_up(shard))
        return True

    async def _give_up(self, shard: BucketShard) -> None:
        try:
            await shard.step_down()
        except HeadraceError as error:  # it was lost meanwhile
            self._log.warning("JetStream: %s", error)

    # -- ShardHost ------------------------------------------------------------------------------------

    async def promoted(self, files: FileSystem, committer: Committer) -> None:
        assert self._accounts is not None, "it has begun"
        self._jetstream.use(files, committer)
        self._since_ns = time.time_ns()
        self._serves = True  # which the services tell of as they are opened
        try:
            await self._accounts.open()
        except HeadraceError:
            self._serves = False
            raise

    async def demoted(self, reason: str | None) -> None:
        assert self._accounts is not None, "it has begun"
        self._serves = False
        if reason is None:
            await self._accounts.retire()
        else:
            self._accounts.abandon()

    def tell(self, beat: Beat) -> None:
        assert self._server is not None, "it has begun"
        self._own = beat
        self._say()

    def tell_object(self, server_id: str, sealed: bytes) -> bool:
        return self._beats.hand(server_id, sealed)

    def _say(self, successor: str = "") -> None:
        assert self._server is not None, "it has begun"
        self._beats.say(_Said(self._server.server_id, self._server.name, *self._own, successor))

    # -- the others -----------------------------------------------------------------------------------

    def _take(self, said: _Said) -> None:
        assert self._server is not None, "nothing is heard before"
        if said.server_id == self._server.server_id:
            return
        beat = Beat(said.is_owner, said.epoch, said.number)
        known = {heard.beat.epoch for heard in self._part.present().values() if heard.beat.is_owner}
        if not self._part.hear(beat, said.server_id, said.server_name):
            return
        if beat.is_owner and beat.epoch >= max(known, default=0):
            self._owner_id = said.server_id
        if said.successor not in ("", self._server.server_id) and self._part.shard is not None:
            self._part.shard.succeeded_by_another()

    def _left(self, server_id: str) -> None:
        """Suspect the owner when the last connection to it has ended."""
        self._part.left(server_id)
        if server_id == self._owner_id:
            self._owner_id = ""
            self._part.suspect()

    def leadership(self) -> Leadership:
        """Return which server has the streams, as far as it is known here now."""
        server = self._server
        if server is None:
            return Leadership("", "", is_leader=False)
        present, now = self._part.present(), server.loop.time()
        owner = present.get(self._owner_id)
        known = owner.name if owner is not None and owner.beat.is_owner else ""
        return Leadership(
            server.cluster_name or "",
            server.name if self._serves else known,
            is_leader=self._serves,
            peers=tuple(
                ClusterPeer(
                    heard.name, round((now - heard.at) * 1e9), max(self._own.number - heard.beat.number, 0)
                )
                for heard in present.values()
            ),
            since_ns=self._since_ns if self._serves else 0,
        )


class Beats:
    """Signs of life in the system account, of all servers with the same bucket: a `core.service.Service`.

    WAL objects for one server go the same way, to a subject of its own. `server_id`: this server's.
    """

    def __init__(
        self, subject: bytes, take: Callable[[_Said], object], take_object: Callable[[bytes], object]
    ) -> None:
        self.server_id = ""
        self._subject = subject
        self._objects: Final = ObjectSubjects(subject.removesuffix(b".BEAT"))
        self._objects_sid = 0
        self._take = take
        self._take_object = take_object
        self._host: Host | None = None

    def start(self, host: Host) -> None:
        self._host = host
        host.subscribe(self._subject)
        self._objects_sid = host.subscribe(self._objects.of(self.server_id))

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        for message in batch:
            assert isinstance(message, tuple), "the subscription asked for no runs"
            if message.sid == self._objects_sid:
                self._take_object(message.payload)
                continue
            try:
                said = _read(message.payload)
            except msgspec.MsgspecError:  # whoever may publish here may say anything
                continue
            self._take(said)

    def stop(self) -> None:
        self._host = None

    def say(self, said: _Said) -> None:
        if self._host is not None:
            self._host.publish(self._subject, msgspec.json.encode(said))

    def hand(self, server_id: str, sealed: bytes) -> bool:
        """Send a WAL object to a server; False: it cannot be sent."""
        return self._objects.send(self._host, server_id, sealed)


_read: Final = msgspec.json.Decoder(_Said).decode


def beat_subject(url: str) -> bytes:
    """Return the subject of the signs of life of servers with the bucket of this URL."""
    return (_SUBJECT % sha256(url.encode()).hexdigest()[:_DIGITS]).encode()
