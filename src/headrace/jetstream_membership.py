"""JetStream of a server that has its streams in a bucket with others: the server and its shard, joined.

A shard (`headrace.bucket`) knows the bucket; here its decisions open and close the services, and what servers
with the same bucket say to each other travels through the system account. Never lives here: who is the owner
(`bucket.shard`), what services do (`headrace.jetstream`).
"""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Protocol

import msgspec

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

    from headrace.bucket.port import ShardHost
    from headrace.bucket.status import ShardStatus
    from headrace.conf.jetstream_options import JetStreamOptions
    from headrace.conf.options import Options
    from headrace.core.service import Delivery, Host
    from headrace.engine.batches import Gathered
    from headrace.log.committer import Committer
    from headrace.log.filesystem import FileSystem
    from headrace.server.ownership import ServedAccounts, SharingServer

SILENT_S: Final = 2.0
"""Seconds without a sign of life after which a server is not counted among those that are there."""

MOST_PEERS: Final = 256
"""Servers with one bucket that are remembered; more are not heard until one of them is silent."""

PROOF_S: Final = 3.0
"""Seconds after the last proof that this server is the owner for which its services may speak. With
`commit: disk` they do so for `max_lag` if that is longer: without the bucket there is no proof."""

_SUBJECT: Final = "$SYS.HEADRACE.BUCKET.%s.BEAT"
_OBJECTS: Final = b".WAL."
_DIGITS: Final = 16

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


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

    def suspect(self) -> None:
        """The connections to the owner are gone: claim now."""

    def status(self) -> ShardStatus:
        """Return the status of the shard, for monitoring."""


class MakeShard(Protocol):
    """The way to the shard of a bucket, on the server's loop."""

    def __call__(self, host: ShardHost, server: str, cluster: str, *, is_alone: bool) -> BucketShard:
        """Make the shard for a host, at the server and in the cluster of these names.

        `is_alone`: the server can hear no others. Raises: HeadraceError.
        """


class _Said(msgspec.Struct, frozen=True, array_like=True):
    """A sign of life as servers send it: as JSON, its fields in a list."""

    server_id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    server_name: Annotated[str, msgspec.Meta(max_length=1024)]
    is_owner: bool
    epoch: _Count
    number: _Count
    successor: Annotated[str, msgspec.Meta(max_length=256)] = ""
    """The id of the server for which the owner gives the shard up; "": for any, or it does not."""


class _Heard(NamedTuple):
    name: str
    beat: Beat
    at: float


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
        self._make = make
        self._log = log
        self._beats: Final = Beats(beat_subject(url), self._take, self._take_object)
        self._server: SharingServer | None = None
        self._accounts: ServedAccounts | None = None
        self._shard: BucketShard | None = None
        self._peers: Final[dict[str, _Heard]] = {}
        """The signs of life of the other servers, by server id: the last one of each."""
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
            shard = self._shard = self._make(
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
        assert self._shard is not None, "it has begun"
        await self._shard.settled()

    def proven_until(self) -> int:
        shard = self._shard
        if shard is None:
            return 0
        return round((shard.last_proof + max(PROOF_S, shard.lag_allowed_s)) * 1e9)

    def reload(self, new: Options) -> None:
        if self._shard is not None and new.jetstream is not None and new.jetstream.bucket is not None:
            self._shard.limit_puts(new.jetstream.bucket.puts_per_second)

    async def leave(self) -> None:
        if self._present():
            await self.end()

    async def end(self) -> None:
        shard, self._shard = self._shard, None
        if shard is not None:
            await shard.stop()

    def hand_over(self, preferred: str = "") -> bool:
        """Begin to give the streams up for another server; False: there is none, or they are not here.

        `preferred`: the name of the server that goes first; the others follow if it does not take them.
        """
        shard, server = self._shard, self._server
        if shard is None or server is None or not self._serves or not self._present():
            return False
        wanted = [each for each, heard in self._present().items() if heard.name == preferred]
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
        is_full = len(self._peers) >= MOST_PEERS and len(self._present()) >= MOST_PEERS
        if is_full and said.server_id not in self._peers:
            return
        beat = Beat(said.is_owner, said.epoch, said.number)
        known = {heard.beat.epoch for heard in self._peers.values() if heard.beat.is_owner}
        if beat.is_owner and beat.epoch >= max(known, default=0):
            self._owner_id = said.server_id
        self._peers[said.server_id] = _Heard(said.server_name, beat, self._server.loop.time())
        if self._shard is not None:
            self._shard.heard(beat, said.server_id, said.server_name)
            if said.successor not in ("", self._server.server_id):
                self._shard.succeeded_by_another()

    def _take_object(self, sealed: bytes) -> None:
        if self._shard is not None:
            self._shard.heard_object(sealed)

    def _left(self, server_id: str) -> None:
        """Suspect the owner when the last connection to it has ended."""
        self._peers.pop(server_id, None)
        if server_id == self._owner_id and self._shard is not None:
            self._owner_id = ""
            self._shard.suspect()

    def _present(self) -> dict[str, _Heard]:
        """The servers that were heard lately; the others are forgotten."""
        assert self._server is not None, "it has begun"
        silent = self._server.loop.time() - SILENT_S
        for server_id in [each for each, heard in self._peers.items() if heard.at < silent]:
            del self._peers[server_id]
        return self._peers

    def leadership(self) -> Leadership:
        """Return which server has the streams, as far as it is known here now."""
        server = self._server
        if server is None:
            return Leadership("", "", is_leader=False)
        present, now = self._present(), server.loop.time()
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
        self._objects = subject.removesuffix(b".BEAT") + _OBJECTS
        self._objects_sid = 0
        self._take = take
        self._take_object = take_object
        self._host: Host | None = None

    def start(self, host: Host) -> None:
        self._host = host
        host.subscribe(self._subject)
        self._objects_sid = host.subscribe(self._objects + self.server_id.encode())

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
        """Send a WAL object to a server; False: it is too large, or that is no id of a server."""
        host = self._host
        if (
            host is None
            or len(sealed) > host.max_payload
            or not (server_id.isascii() and server_id.isalnum())
        ):
            return False
        host.publish(self._objects + server_id.encode(), sealed)
        return True


_read: Final = msgspec.json.Decoder(_Said).decode


def beat_subject(url: str) -> bytes:
    """Return the subject of the signs of life of servers with the bucket of this URL."""
    return (_SUBJECT % sha256(url.encode()).hexdigest()[:_DIGITS]).encode()
