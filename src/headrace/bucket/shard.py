"""A shard's life at one server: it stands by and reads along, claims, owns, and stands by again.

Here lives the order of these, and what happens when one ends. `owner_watch` says when to claim, `claim`
whether that holds; what a standby has is in `replica`, what an owner does in `owner_term`. Never here:
requests to the store, files, messages between servers.

All methods are for the event loop on which `start` was awaited.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.bucket.cache_filling import CacheFiller
from headrace.bucket.claim import claim
from headrace.bucket.commits import BucketCommits, DiskCommits
from headrace.bucket.committer import PROVEN_S
from headrace.bucket.directory_identity import mark_directory
from headrace.bucket.errors import Behind, BucketError, CacheFailed, Overtaken
from headrace.bucket.first_bytes import FirstBytes
from headrace.bucket.identity import check_identity
from headrace.bucket.inheritance import Inheritance
from headrace.bucket.owner_term import OwnerTerm
from headrace.bucket.owner_watch import BEAT_S, OwnerWatch
from headrace.bucket.port import Beat
from headrace.bucket.price import monthly_price
from headrace.bucket.replica import Replica
from headrace.bucket.status import ShardStatus
from headrace.bucket.wal_object import WRITER_BYTES
from headrace.errors import HeadraceError
from headrace.objects.errors import AccessRefused, RequestRefused, StoreError

if TYPE_CHECKING:
    import logging

    from headrace.bucket.claim import Claim
    from headrace.bucket.commits import Commits
    from headrace.bucket.place import ShardPlace
    from headrace.bucket.port import ShardHost

LOOK_S: Final = 1.0
"""Seconds between two looks for a WAL object that nobody told of."""

BEGIN_S: Final = 5.0
"""Seconds that a start waits for a bucket that does not answer; clients without streams are served then."""

STANDBY_END_S: Final = 1.0
"""Seconds that a request of a server which owns nothing holds up its end."""

RETURN_S: Final = 5.0
"""Seconds that an owner with `commit: disk` is given when the bucket answers again: its disk has more than
that, and it has to notice first."""

RELEASE_S: Final = 5.0
"""Seconds that a bucket which does not answer holds up an orderly end. What was acknowledged is in it."""


class Role(Enum):
    """The part that a server plays for a shard."""

    STARTING = "starting"
    STANDBY = "standby"
    CLAIMING = "claiming"
    """Its fence is there, or about to be, and it does not serve yet."""
    OWNER = "owner"
    STOPPED = "stopped"


class Shard:
    """One shard at this server. `place`: where it is. `is_alone`: there are no other servers to hear of."""

    def __init__(self, place: ShardPlace, host: ShardHost, log: logging.Logger, *, is_alone: bool) -> None:
        self.role = Role.STARTING
        self._place = place
        self._host: Final = host
        self._log: Final = log
        self._is_alone: Final = is_alone
        self._loop: Final = asyncio.get_running_loop()
        self._replica: Replica | None = None
        self._filler: Final = CacheFiller(place)
        self._inheritance: Final = Inheritance(place, log)
        self._watch = OwnerWatch(self._loop.time(), is_alone=is_alone)
        self._news: Final = asyncio.Event()
        """Something was heard or asked for: whoever stands by looks again."""
        self._begun: asyncio.Future[None] = self._loop.create_future()
        """Done when the bucket was read, or may not be; cancelled: the start does not wait for it."""
        self._settled: Final = asyncio.Event()
        self._term: OwnerTerm | None = None
        self._life: asyncio.Task[None] | None = None
        self._beats: asyncio.TimerHandle | None = None
        self._last_writer = b""
        """The id of this server's last claim."""
        self._is_stopping = False
        self._is_waiting = False
        """True while a server that stands by reads nothing."""
        self._trouble: str | None = None
        """The reason why it cannot read along, or open the services; None: it can."""
        self._trouble_since = 0.0
        self._last_error = ""
        self._told = 0
        """The highest number that another server told of."""
        self._heard_owner = 0, float("-inf")
        """The epoch of the owner that was heard last, and when."""

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read what the bucket has, and begin to stand by.

        A bucket that does not answer is waited for beside: then this returns after BEGIN_S.
        Raises: BucketError, NotOurs if the prefix or the local directory is somebody else's; StoreError if
        the bucket refuses this server.
        """
        place = self._place
        mark_directory(place.files, place.directory, f"{place.options.url}/shards/{place.keys.shard}")
        self._begun = self._loop.create_future()
        self._life = self._loop.create_task(self._live())
        self._life.add_done_callback(self._note_end)
        try:
            async with asyncio.timeout(BEGIN_S):
                await asyncio.shield(self._begun)
        except TimeoutError:
            if not self._begun.cancel():
                self._begun.result()  # it was refused, or read, in this very moment
                self._beat_on()
                return
            self._settled.set()
            if self._trouble is None:
                self._complain(StoreError(f"no answer of {self._place.options.url} within {BEGIN_S:g} s"))
            shard = self._place.keys.shard
            self._log.warning("Shard %s: its streams are there when the bucket answers", shard)
        self._beat_on()

    async def settled(self) -> None:
        """Wait until the server knows whether it stands by or owns, or that the bucket does not tell."""
        await self._settled.wait()

    async def stop(self) -> None:
        """Give the shard up if this server owns it, and end. Safe to call twice."""
        self._is_stopping = True
        self._news.set()
        if self._term is not None:
            self._term.end(None)
        life, self._life = self._life, None
        if life is not None:
            await self._ended(life)
        if self._beats is not None:
            self._beats.cancel()
        await self._unload()
        self.role = Role.STOPPED

    async def _ended(self, life: asyncio.Task[None]) -> None:
        """Wait until a life has ended. Only an owner has something to do at its end."""
        await asyncio.wait((life,), timeout=STANDBY_END_S)
        if not life.done() and self._term is None:
            life.cancel()  # it waits for a bucket that does not answer
        await asyncio.wait((life,))
        if not life.cancelled():
            life.result()

    async def step_down(self) -> None:
        """Give the shard up in order, for another server; returns when it is released.

        Raises: BucketError if this server does not own it.
        """
        term = self._term
        if term is None:
            raise BucketError(f"shard {self._place.keys.shard} is not owned by this server")
        term.end(None)
        await term.is_closed.wait()

    def limit_puts(self, per_second: float) -> None:
        """Change the budget of puts, of the term that is under way and of all later ones."""
        self._place = replace(self._place, options=replace(self._place.options, puts_per_second=per_second))
        if self._term is not None:
            self._term.writer.limit_puts(per_second)

    def limit_filling(self, per_second: int) -> None:
        """Change the bytes a second that are brought to the local disk beforehand."""
        self._filler.bytes_per_second = per_second

    async def _live(self) -> None:
        if not await self._begin():
            return
        while not self._is_stopping:
            claimed = await self._stand_by()
            if claimed is not None:
                await self._own(claimed)
                await self._load_again()

    async def _begin(self) -> bool:
        """Read what the bucket has, however long that takes; False: it may not be read, or the server stops.

        Whoever waits for the start is told why it may not. Without anybody who waits it is tried again.
        """
        while not self._is_stopping:
            try:
                await check_identity(self._place.store, self._place.cluster)
                replica = await self._load()
                await self._inheritance.name_lost()
                await replica.catch_up()  # what is there already says nothing about an owner that lives
                await self._inheritance.judge(replica)
                self._inheritance.check(replica)
            except HeadraceError as error:
                await self._unload()
                is_final = isinstance(error, (BucketError, AccessRefused, RequestRefused))
                if is_final and not self._begun.done():
                    self._begun.set_exception(error)
                    return False
                self._complain(error)
                await self._pause()
            else:
                self._complain(None)
                self.role = Role.STANDBY
                self._watch = OwnerWatch(self._loop.time(), is_alone=self._is_alone)
                if not self._begun.done():
                    self._begun.set_result(None)
                return True
        return False

    def _note_end(self, life: asyncio.Task[None]) -> None:
        """Have the server hear of a mistake in this program: nobody waits for the task before `stop`."""
        self._settled.set()
        if not life.cancelled() and (error := life.exception()) is not None:
            self._loop.call_exception_handler({"message": "a shard's life ended", "exception": error})

    async def _load(self) -> Replica:
        self._replica = replica = await Replica.load(self._place)
        await self._inheritance.read()
        return replica

    async def _unload(self) -> None:
        self._filler.stop()
        replica, self._replica = self._replica, None
        if replica is not None:
            replica.close()

    async def _load_again(self) -> None:
        """Begin anew from the bucket: what is on the disk may be of a past that never was."""
        await self._unload()
        while not self._is_stopping:
            try:
                await self._load()
            except HeadraceError as error:
                self._complain(error)
                await self._pause()
            else:
                self._complain(None)
                return

    async def _begin_behind(self, error: Behind) -> None:
        """Begin anew where objects that were to be read are deleted: from the newest snapshot.

        A listing may be old, and not have it yet: then after a pause.
        """
        before = 0 if self._replica is None else self._replica.snapshot
        await self._load_again()
        if self._replica is not None and self._replica.snapshot == before:
            self._complain(error)
            await self._pause()

    async def _begin_on_disk(self, error: CacheFailed) -> None:
        """Begin anew where the local disk refused a change: of the object that had it some changes are made,
        and others are not, so that it can be applied no more.
        """
        self._complain(error)
        await self._pause()
        await self._load_again()

    # -- standing by ----------------------------------------------------------------------------------

    async def _stand_by(self) -> Claim | None:
        """Read along until this server has claimed the shard; None: it stops."""
        while not self._is_stopping:
            self._news.clear()
            try:
                if (claimed := await self._look()) is not None:
                    return claimed
            except Behind as error:
                await self._begin_behind(error)
                continue
            except CacheFailed as error:
                await self._begin_on_disk(error)
                continue
            except HeadraceError as error:  # it may be able to read along later
                self._complain(error)
                self._note_silent_bucket()
                await self._wait(LOOK_S)
                continue
            self._complain(None)
            if self._replica is not None and not self._is_alone:
                self._filler.start(self._replica, tidies=True)
            self._is_waiting = True
            await self._wait(self._next_look() - self._loop.time())
            self._is_waiting = False
        return None

    async def _look(self) -> Claim | None:
        """Read what is new, and claim if it is time. Raises: BucketError, StoreError."""
        replica, watch = self._replica, self._watch
        assert replica is not None, "it was loaded"
        is_due = watch.due is not None and watch.due <= self._loop.time()
        told = self._told if self._told > replica.point.number and not is_due else None
        began = self._loop.time()
        if (is_due or not self._has_all(replica)) and await replica.catch_up(told):
            self._note_progress(replica)
        elif self._loop.time() - began > LOOK_S:
            self._note_silent_bucket()
        await self._inheritance.judge(replica)
        if watch.due is None or watch.due > self._loop.time():
            self._settled.set()
            return None
        self.role = Role.CLAIMING
        epoch, writer = replica.point.epoch, self._place.random.randbytes(WRITER_BYTES)
        try:
            await self._inheritance.announce(replica, writer)
            return await claim(
                replica.follower,
                writer=writer,
                owner=self._place.owner.encode(),
                wall_ns=self._place.wall_ns,
                position=lambda: replica.position if self._inheritance.is_late else 0,
            )
        except Overtaken as error:
            self._log.info("%s", error)
            if replica.is_released:  # by the owner of before, which wrote that just now
                self._note_progress(replica)
            elif self._is_alone and replica.point.epoch == epoch:
                watch.wrote(self._loop.time())  # by its own process before this one: the put came late
            else:
                watch.overtaken(self._loop.time())
            return None
        finally:
            self.role = Role.STANDBY

    def _has_all(self, replica: Replica) -> bool:
        """True if the owner said a moment ago that it has nothing that this server lacks.

        Then a look costs a request and finds nothing. Before a claim there is always one.
        """
        epoch, heard_at = self._heard_owner
        is_recent = self._loop.time() < heard_at + LOOK_S  # as `_next_look` says: sums of times are not exact
        return is_recent and epoch == replica.point.epoch and self._told <= replica.point.number

    def _note_silent_bucket(self) -> None:
        """Leave the shard to an owner whose disk has more than the bucket, which may be as silent to it."""
        if self._inheritance.is_late:
            self._watch.stay(self._loop.time() + RETURN_S)

    def _next_look(self) -> float:
        """Return the time of the next look if nothing is told before."""
        replica, due, now = self._replica, self._watch.due, self._loop.time()
        since = self._heard_owner[1] if replica is not None and self._has_all(replica) else now
        return since + LOOK_S if due is None else min(since + LOOK_S, due)

    def _note_progress(self, replica: Replica) -> None:
        now = self._loop.time()
        if replica.is_released:
            self._watch.released(now, by_us=replica.point.writer == self._last_writer)
        else:
            self._watch.wrote(now)

    async def _pause(self) -> None:
        """Wait before something that has failed is tried again, whatever is heard meanwhile."""
        if not self._is_stopping:
            self._news.clear()
            await self._wait(LOOK_S)

    async def _wait(self, seconds: float) -> None:
        """Wait for news, so long at most."""
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()

    # -- owning ---------------------------------------------------------------------------------------

    async def _own(self, claimed: Claim) -> None:
        """Serve as the owner until that ends."""
        replica = self._replica
        assert replica is not None, "it was claimed with it"
        self.role = Role.CLAIMING
        self._filler.stop()  # what opening reads comes first
        self._last_writer = claimed.writer
        try:
            commits = await self._commits(replica, claimed)
        except HeadraceError as error:
            self._complain(error)
            self._watch.failed(self._loop.time())
            await self._wait(LOOK_S)
            return
        term = self._term = OwnerTerm(
            self._place,
            replica,
            claimed,
            commits,
            self._tell,
            tell_object=self._host.tell_object,
            is_alone=self._is_alone,
        )
        term.start()
        if self._is_stopping:
            term.end(None)
        self._log.info("Shard %s: this server owns it, epoch %d", self._place.keys.shard, claimed.epoch)
        try:
            await self._serve(term)
        finally:
            self._term = None
            self.role = Role.STANDBY
            await term.close()

    async def _commits(self, replica: Replica, claimed: Claim) -> Commits:
        """Return what acknowledged means in a term. Raises: BucketError."""
        place, covered = self._place, replica.position
        backlog = await self._inheritance.resume(replica, claimed)
        if backlog is None:
            return BucketCommits(place.keys.shard, self._log, replica.cache.changes)
        return DiskCommits(backlog, covered, place)

    async def _serve(self, term: OwnerTerm) -> None:
        await self._bring_first_bytes(term)
        try:
            await self._host.promoted(term.files, term.committer)
        except HeadraceError as error:
            self._complain(error)
            await self._host.demoted(str(error))
            await self._release(term)
            return
        self.role = Role.OWNER
        self._tell()
        self._settled.set()
        if self._replica is not None:
            self._filler.start(self._replica, tidies=False)
        reason = await term.ended()
        self._filler.stop()
        self.role = Role.STANDBY
        await self._host.demoted(reason)
        if reason is None:
            await self._release(term)
        else:
            self._last_error = reason
            self._watch.overtaken(self._loop.time())
            self._log.error("Shard %s: %s", self._place.keys.shard, reason)

    async def _bring_first_bytes(self, term: OwnerTerm) -> None:
        """Have what opening the services reads be here, unless the term ends before."""
        place, replica = self._place, self._replica
        assert replica is not None, "it was claimed with it"
        first = FirstBytes(replica.tree, replica.cache, place.directory, term.files, place.cipher)
        bringing: asyncio.Future[None] = asyncio.ensure_future(place.offload(first.bring))
        ended = self._loop.create_task(term.ended())
        try:
            await asyncio.wait((bringing, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        if not bringing.cancel():
            bringing.result()

    async def _release(self, term: OwnerTerm) -> None:
        """Give the shard up in the bucket, and have the others look at once."""
        try:
            async with asyncio.timeout(RELEASE_S):
                await term.release()
        except BucketError as error:  # it was taken meanwhile, which is the same in the end
            self._log.error("Shard %s: %s", self._place.keys.shard, error)
        except TimeoutError:
            self._log.error(
                "Shard %s: given up without the bucket, which does not answer: %s%s",
                self._place.keys.shard,
                term.trouble,
                self._kept(term),
            )
        else:
            self._host.tell(Beat(False, term.epoch, term.writer.durable))

    def _kept(self, term: OwnerTerm) -> str:
        """Say what waits on this disk for the next start; "" with `commit: bucket`."""
        if not self._inheritance.is_late:
            return ""
        return f"; {term.lag_bytes} bytes that were acknowledged wait on this disk for the next start"

    @property
    def lag_allowed_s(self) -> float:
        """Seconds for which the bucket may be behind what is acknowledged; 0.0 with `commit: bucket`."""
        return self._place.options.max_lag if self._inheritance.is_late else 0.0

    @property
    def last_proof(self) -> float:
        """The loop's time at which this server is known to have been the owner; 0.0: it is not."""
        return self._term.writer.last_proof if self._term is not None else 0.0

    def _is_proven(self) -> bool:
        """True if the bucket has confirmed a moment ago that this server is the owner."""
        return self._loop.time() - self.last_proof <= PROVEN_S

    def _may_own(self) -> bool:
        """True while this server says that it is the owner.

        One whose disk has more than the bucket does so for as long as its services may speak: a bucket that
        is away for all would else be another server's when it is back, without what is on this disk alone.
        """
        return self._loop.time() - self.last_proof <= max(PROVEN_S, self.lag_allowed_s)

    # -- what is heard and told -----------------------------------------------------------------------

    def heard(self, beat: Beat, server_id: str, name: str = "") -> None:
        """Take a sign of life of another server. `name`: what monitoring shows of it, else its id."""
        if self._term is not None:
            self._term.heard(server_id, name, beat, self._loop.time())
            if beat.is_owner and beat.epoch > self._term.epoch and not self._is_proven():
                self._term.lose("another server says that it owns the shard, and the bucket does not answer")
        self._take(beat)

    def heard_object(self, sealed: bytes) -> None:
        """Take a WAL object that the owner told of, a sign of its life, too."""
        if self._replica is None or self._term is not None:
            return
        follower = self._replica.follower
        said = follower.told.keep(sealed, follower.point)
        if said is None:
            return
        if self._is_waiting:
            try:
                follower.take_told()
            except HeadraceError as error:
                self._complain(error)  # and read it from the bucket
        self._take(Beat(True, *said))

    def _take(self, beat: Beat) -> None:
        now = self._loop.time()
        point = self._replica.point if self._replica is not None else None
        if point is None or beat.epoch < point.epoch:
            return
        if beat.is_owner:
            self._watch.beat(now)
            self._heard_owner = beat.epoch, now
        self._told = max(self._told, beat.number)
        if beat.number > point.number:
            self._news.set()

    def succeeded_by_another(self) -> None:
        """The owner is about to give the shard up for a certain server, which is not this one."""
        self._watch.succeeded_by_another(self._loop.time())

    def suspect(self) -> None:
        """The connections to the owner are gone: claim now."""
        self._watch.suspect(self._loop.time())
        self._news.set()

    def _beat_on(self) -> None:
        self._tell()
        self._beats = self._loop.call_later(BEAT_S, self._beat_on)

    def _tell(self) -> None:
        point = self._replica.point if self._replica is not None else None
        if self.role is Role.OWNER and self._term is not None:
            self._term.tell_objects()
            # One that is cut off from the bucket leaves it to those that are not.
            self._host.tell(Beat(self._may_own(), self._term.epoch, self._term.writer.durable))
        elif point is not None:
            self._host.tell(Beat(False, point.epoch, point.number))

    def _complain(self, error: HeadraceError | None) -> None:
        """Log what stands in the way, once; None: nothing does."""
        trouble, shard = None if error is None else str(error), self._place.keys.shard
        if trouble is not None and trouble != self._trouble:
            self._log.error("Shard %s: %s", shard, trouble)
            self._last_error = trouble
        if self._trouble is None:
            self._trouble_since = self._loop.time()
        elif trouble is None:
            seconds = self._loop.time() - self._trouble_since
            self._log.info("Shard %s: the bucket answers again, after %.0f s", shard, seconds)
        self._trouble = trouble

    # -- what is shown --------------------------------------------------------------------------------

    def status(self) -> ShardStatus:
        """Return what monitoring shows of the shard at this server."""
        term, replica, place = self._term, self._replica, self._place
        now = self._loop.time()
        number = 0 if replica is None else replica.point.number
        shown = ShardStatus(
            shard=place.keys.shard,
            url=place.options.url,
            role=self.role.value,
            epoch=0 if replica is None else replica.point.epoch,
            owner="" if replica is None else replica.owner,
            number=number,
            snapshot=0 if replica is None else replica.snapshot,
            commit=place.options.commit,
            max_lag_s=place.options.max_lag,
            behind=max(self._told - number, 0),
            requests=place.counts.all(),
            cached_bytes=0 if replica is None else replica.cache.local_bytes,
            cache_state=self._filler.state,
            absent_bytes=0 if replica is None else replica.cache.absent_bytes,
            filled_bytes=self._filler.filled_bytes,
            cache_trouble=self._filler.trouble,
            trouble=self._trouble or "",
            trouble_s=now - self._trouble_since if self._trouble else 0.0,
            last_error=self._last_error,
        )
        if term is not None:
            shown = term.shown_in(shown, now)
        recent = place.counts.recent(now)
        price = monthly_price(recent.requests, recent.seconds, shown.stored_bytes)
        return replace(shown, price_month=price)
