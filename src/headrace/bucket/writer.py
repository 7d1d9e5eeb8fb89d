"""The write-ahead log's writer: an owner's changes, as objects, in order, several under way at once.

Up to `puts_in_flight` puts are under way at once; `PutPace` says when the next one begins. What comes
meanwhile makes the next object. Commits are told in the order of numbers. Never lives here: what changes are,
how an owner becomes one (`claim`), what happens when it is one no more.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from headrace.bucket.budget import PutBudget, PutPace, PutsBeside
from headrace.bucket.claim import MOST_IN_FLIGHT
from headrace.bucket.errors import BucketError, DamagedObject, Overtaken
from headrace.bucket.follower import is_there, read_object
from headrace.bucket.keys import MILESTONE, milestone_above
from headrace.bucket.status import CommitTimes
from headrace.bucket.wal_object import Kind, WalObject
from headrace.objects.errors import KeyExists, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.bucket.claim import Claim
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.snapshots import Offload
    from headrace.objects.port import AsyncObjectStore

LARGEST_PAYLOAD: Final = 8 << 20
"""Bytes of changes in one object, about: readers have `follower.READ_AHEAD_BYTES` of them in memory."""

LARGE_PAYLOAD: Final = 2 << 20
"""Bytes of changes of an object that is put together on another thread: the loop would wait for long."""

PROVE_EVERY_S: Final = 1.0
"""Seconds after which an owner that has proved nothing looks whether it still is one."""

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
"""Pauses between tries of a put: each is twice the one before, less up to half of it at random."""

_PROOF: Final = 0
"""The number under which a proof that fails is noted: no object has it."""


class TakenChanges(Protocol):
    """The payload of one object in pieces, and the position up to which it covers its source."""

    @property
    def parts(self) -> Sequence[bytes | memoryview]: ...
    @property
    def position(self) -> int: ...
    @property
    def is_last(self) -> bool:
        """True if nothing waited behind it: what comes later is told of by `WalWriter.kick`."""


class ChangeSource(Protocol):
    """The source of what is to be committed."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of changes that wait to be taken, about; 0 where nobody who sends them waits for a put."""

    def watch(self, size: int) -> None:
        """Have `WalWriter.look` called, once, when so many bytes wait."""

    def take(self, most_bytes: int) -> TakenChanges | None:
        """Take changes for one object, about so many bytes; None: there are none.

        Raises: BucketError if they are lost; then nothing can be committed any more.
        """


class _Put:
    """An object under way. `parts`: the pieces of its payload; `size`: of what waited in the source, as it
    counts them; `position`: of the source, None if nothing was taken from it.
    """

    def __init__(
        self,
        made: WalObject,
        parts: Sequence[bytes | memoryview],
        size: int,
        position: int | None,
        *,
        since: float,
        now: float,
    ) -> None:
        self.number: Final = made.number
        self.kind: Final = made.kind
        self.payload_bytes: Final = sum(map(len, parts))
        self.data = b""
        """The bytes of the object, once they are put together."""
        self.size: Final = size
        self.position: Final = position
        self._made: Final = made
        self._parts = parts
        self.since: Final = since
        """The time from which on its changes waited."""
        self.begun: Final = now
        """The time when it was sent first. If it counts, nobody had taken the shard then."""
        self.has_arrived = False
        self.task: asyncio.Task[None] | None = None

    def pack(self) -> None:
        """Put the bytes of the object together. Costs a copy of them; any thread may do it, once."""
        self.data = self._made.pack(self._parts)
        self._parts = ()


class WalWriter:
    """The writer of one claim, on one event loop. It does nothing before `start` and after `stop`.

    Callbacks, which may call the writer:

    - `committed(position, number)`: everything of the source up to the position is in the bucket;
    - `confirmed(number, data)`: a commit, with these bytes, and all before it are in the bucket;
    - `lost(error)`: the shard is another's, or cannot be written any more. It is the last call;
    - `trouble(reason)`: requests fail and are sent again; with None: they do not fail any more.

    `offload` does on another thread what would keep the loop; None: nothing does. `jitter` returns random
    numbers from 0 to 1, `wall_ns` nanoseconds since 1970. `covered`: the position of
    the source that the log covers already, where objects are to say it (`WalObject.position`); else None.
    """

    in_flight = 0
    """Objects that are under way."""
    _is_pump_due = False

    def __init__(
        self,
        store: AsyncObjectStore,
        keys: ShardKeys,
        claim: Claim,
        source: ChangeSource,
        *,
        puts_in_flight: int = 4,
        puts_per_second: float = 50.0,
        burst: int = 200,
        covered: int | None = None,
        wall_ns: Callable[[], int],
        jitter: Callable[[], float],
        committed: Callable[[int, int], object],
        lost: Callable[[BucketError], object],
        trouble: Callable[[str | None], object],
        confirmed: Callable[[int, bytes], object] = lambda _number, _data: None,
        offload: Offload | None = None,
    ) -> None:
        self.durable = claim.next_number - 1
        """The last number of which it is known that it and all before it are in the bucket."""
        self.next_number = claim.next_number
        self.last_proof = claim.proved_at
        """A time when this server owned the shard for sure: the start of the request that proved it."""
        self.puts = 0
        """Objects created so far."""
        self.bytes = 0
        """Bytes of these objects."""
        self.retries = 0
        """Puts that failed and were sent again."""
        self.times: Final = CommitTimes()
        """Times from the first change of an object until it is durable."""
        self._store: Final = store
        self._keys: Final = keys
        self._claim: Final = claim
        self._source: Final = source
        self._budget: Final = PutBudget(puts_per_second, burst)
        self._pace: Final = PutPace(min(puts_in_flight, MOST_IN_FLIGHT))
        self._covered = covered
        self._wall_ns: Final = wall_ns
        self._jitter: Final = jitter
        self._committed: Final = committed
        self._confirmed: Final = confirmed
        self._lost: Final = lost
        self._trouble: Final = trouble
        self._offload: Final = offload
        self._loop: Final = asyncio.get_running_loop()
        self._thread: Final = threading.get_ident()
        self._puts: Final[deque[_Put]] = deque()
        """Puts from the first that is not durable on, in the order of numbers."""
        self._news_since: float | None = None
        """The time from which on the source has, or may have, changes; None: it has none."""
        self._is_touched = False
        self._is_releasing = False
        self._is_release_sent = False
        self._end: BucketError | None = None
        """The reason why nothing is written any more."""
        self._failing: Final[dict[int, str]] = {}
        """Reasons by number; 0 is the proof's."""
        self._soon: Final[Callable[[Callable[[], object]], object]] = getattr(
            self._loop, "call_at_end_of_tick", self._loop.call_soon
        )
        """Calls a function soon: on the loop of a server without a round of it (`server.loop`)."""
        self._pumping: asyncio.TimerHandle | None = None
        self._token: asyncio.TimerHandle | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._proving: asyncio.Task[bool] | None = None
        self._beside: Final = PutsBeside(self._budget)
        self._drained: Final[list[asyncio.Future[None]]] = []
        self._released: Final[list[asyncio.Future[None]]] = []

    # -- what an owner asks for -----------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write, and to prove each second that the shard is this owner's."""
        self._clock = self._loop.call_later(PROVE_EVERY_S, self._tick)
        self.kick()

    def kick(self) -> None:
        """Look for changes when what runs now has ended. Any thread may call it."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.kick)
        elif self._end is None:
            self._news_since = self._loop.time()
            self._pump_soon()

    def look(self) -> None:
        """Look again whether the next put may begin: as many bytes wait as were watched for. Any thread."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.look)
        elif self._end is None:
            self._pump_soon()

    def touch(self) -> None:
        """Commit an object without changes, unless one is under way: a sign of life for readers."""
        if self._end is None and not self._puts:
            self._is_touched = True
            self._pump_soon()

    @property
    def pending(self) -> int:
        """Objects that are not durable yet: those under way, and those that wait for one before them."""
        return len(self._puts)

    @property
    def pending_bytes(self) -> int:
        """Bytes of the changes in these objects."""
        return sum(put.payload_bytes for put in self._puts)

    @property
    def lag_s(self) -> float:
        """Seconds since the first change was made that is not durable; 0.0 if all are."""
        since = self._puts[0].since if self._puts else self._news_since
        return 0.0 if since is None else self._loop.time() - since

    @property
    def waits_for_budget(self) -> bool:
        """True if the next put waits for a token."""
        return self._token is not None

    async def drain(self) -> None:
        """Wait until everything that the source had is committed. Raises: BucketError if it never will."""
        await self._wait_in(self._drained)

    async def release(self) -> None:
        """Drain, give the shard up for whoever reads of it, and stop. Raises: BucketError as `drain`."""
        self._is_releasing = True
        await self._wait_in(self._released)

    async def admit(self, *, is_late: bool = False) -> None:
        """Wait until a put beside the log may begin, within the budget of all puts.

        Where the log takes each token as it comes, who waits here borrows one, and the next one when that is
        given back: the tokens of the log come a little later. `is_late`: every second token is for who waits
        here, and the log waits for one token more. Raises: BucketError once the writer has ended.
        """
        if self._end is not None:
            raise self._end
        turn: asyncio.Future[None] = self._loop.create_future()
        self._beside.is_late = is_late
        self._beside.waiting.append(turn)
        self._pump_soon()
        await turn

    def limit_puts(self, per_second: float) -> None:
        """Change the budget of puts; a put that waits for it waits as long as the new one says."""
        self._budget.change(per_second, self._loop.time())
        if self._token is not None:
            self._token.cancel()
            self._on_token()

    def stop(self) -> None:
        """End everything at once: nothing is told any more. What is under way may still arrive."""
        self._finish(BucketError(f"shard {self._keys.shard}: the writer was stopped"))

    async def _wait_in(self, waiting: list[asyncio.Future[None]]) -> None:
        if self._end is not None:
            raise self._end
        future = self._loop.create_future()
        waiting.append(future)
        self.kick()
        await future

    # -- what is put ----------------------------------------------------------------------------------

    def _pump_soon(self) -> None:
        if not self._is_pump_due:
            self._is_pump_due = True
            self._soon(self._pump_if_due)

    def _pump_if_due(self) -> None:
        if self._is_pump_due:  # else something else had it done
            self._pump()

    def _pump(self) -> None:
        """Begin puts, as many as there may be and as there is something for."""
        self._is_pump_due = False
        if self._pumping is not None:
            self._pumping.cancel()
            self._pumping = None
        while self._end is None:
            is_wanted = self._has_room() and self._has_work() and self._is_in_pace()
            is_beside = self._beside.is_next(is_log_waiting=is_wanted)
            if not (is_wanted or is_beside) or not self._has_token():
                break
            self._beside.note_token(is_beside=is_beside)
            if is_beside:
                self._admit_next(is_wanted)
            else:
                self._put_next()
        if self._end is None and not self._puts and not self._has_work():
            self._rest()

    def _is_at_milestone(self) -> bool:
        return self.next_number % MILESTONE == 0

    def _has_room(self) -> bool:
        """True if another number may be under way. A milestone waits for all before it (ADR 0038)."""
        if self._end is not None or self._is_release_sent:
            return False
        if self._is_at_milestone():
            return not self._puts
        return self.in_flight < self._pace.most and len(self._puts) < MOST_IN_FLIGHT

    def _is_in_pace(self) -> bool:
        """True if the next put need not wait for the rest of a burst, or for the time since the last one."""
        missing = self._pace.missing(self.in_flight)
        if not (self._puts or missing) or self._is_at_milestone():
            return True
        waiting = self._source.pending_bytes
        if missing and not waiting:
            return True  # there may be no news at all, which taking them tells
        wait = self._pace.wait_s(self._loop.time(), waiting, self.in_flight)
        if not wait:
            return True
        if waiting < missing:
            self._source.watch(missing)
        if self._pumping is None:
            self._pumping = self._loop.call_later(wait, self._pump)
        return False

    def _has_work(self) -> bool:
        return self._is_at_milestone() or self._news_since is not None or self._is_touched

    def _has_token(self) -> bool:
        wait = self._budget.wait_s(self._loop.time())
        if wait and self._token is None:
            self._token = self._loop.call_later(wait, self._on_token)
        elif not wait and self._token is not None:
            self._token.cancel()
            self._token = None
        return not wait

    def _on_token(self) -> None:
        self._token = None
        self._pump()

    def _admit_next(self, is_wanted: bool) -> None:
        """Give a token to who waits for a put beside the log; if the log wants one, too, it is to wait for
        little more than it does without."""
        waiting = self._beside.waiting.popleft()
        if not waiting.done():  # it still waits
            take = self._budget.borrow if is_wanted else self._budget.spend
            take(self._loop.time())
            waiting.set_result(None)

    def _put_next(self) -> None:
        """Begin a put, if there is anything to be put; note if there was not."""
        now, since = self._loop.time(), self._news_since
        if self._is_at_milestone():
            self._begin(Kind.COMMIT, (), 0, None, now)
            return
        waiting = self._source.pending_bytes
        try:
            taken = None if since is None else self._source.take(LARGEST_PAYLOAD)
        except BucketError as error:
            self._lose(error)
            return
        if taken is not None and since is not None:
            size = max(waiting - self._source.pending_bytes, 0)  # other threads may have added some
            self._begin(Kind.COMMIT, taken.parts, size, taken.position, since)
            self._news_since = None if taken.is_last else now
        else:
            self._news_since = None
            if self._is_touched:
                self._begin(Kind.COMMIT, (), 0, None, now)
        self._is_touched = False

    def _begin(
        self, kind: Kind, parts: Sequence[bytes | memoryview], size: int, position: int | None, since: float
    ) -> None:
        claim, number, now = self._claim, self.next_number, self._loop.time()
        if position is not None and self._covered is not None:
            self._covered = position
        made = WalObject(
            self._keys.shard,
            claim.epoch,
            claim.writer,
            number,
            kind,
            self._wall_ns(),
            position=self._covered or 0,
        )
        put = _Put(made, parts, size, position, since=since, now=now)
        if self._offload is None or put.payload_bytes < LARGE_PAYLOAD:
            put.pack()
        self.next_number += 1
        self._pace.begin(now, size, self.in_flight)
        self._budget.spend(now)
        self._puts.append(put)
        self.in_flight += 1
        put.task = self._loop.create_task(self._send(put))
        put.task.add_done_callback(partial(self._note_end, number))

    def _note_end(self, number: int, task: asyncio.Task[None]) -> None:
        """Give up where a put ended by a mistake in this program: nothing behind it can be committed."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "a put ended", "exception": error})
            self._lose(BucketError(f"object {number} of shard {self._keys.shard} cannot be put: {error!r}"))

    def _rest(self) -> None:
        """Tell who waits for it that everything is committed; give the shard up if that was asked for."""
        _settle(self._drained, None)
        if self._is_releasing:
            self._is_release_sent = True
            self._begin(Kind.RELEASE, (), 0, None, self._loop.time())

    # -- how it is put --------------------------------------------------------------------------------

    async def _send(self, put: _Put) -> None:
        """Create an object, however often that fails."""
        if not put.data and self._offload is not None:
            await self._offload(put.pack)
        pause = FIRST_PAUSE_S
        while True:
            try:
                await self._create(put)
            except StoreError as error:
                self._note_failure(put.number, error)
            except BucketError as error:
                self._lose(error)
                return
            else:
                self._arrived(put)
                return
            await asyncio.sleep(pause * (1.0 - self._jitter() / 2))
            pause = min(2 * pause, LONGEST_PAUSE_S)
            self.retries += 1

    async def _create(self, put: _Put) -> None:
        """Create an object, or find that it is there.

        Raises: StoreError; BucketError if what stands there is another's.
        """
        try:
            await self._store.create(self._keys.wal(put.number), put.data)
        except KeyExists:
            found = await read_object(self._store, self._keys, put.number)
            if found is None or found.pack() != put.data:
                raise self._verdict(put.number, found) from None

    def _arrived(self, put: _Put) -> None:
        """Note that an object is there, and tell of all that are durable by it."""
        put.has_arrived = True
        self.in_flight -= 1
        self._pace.end(self._loop.time() - put.begun)
        self.puts += 1
        self.bytes += len(put.data)
        self._note_success(put.number)
        while self._puts and self._puts[0].has_arrived:
            self._confirm(self._puts.popleft())
        self._pump()

    def _confirm(self, put: _Put) -> None:
        """Note that an object and all before it are there."""
        self.durable = put.number
        self.last_proof = max(self.last_proof, put.begun)
        if put.kind is Kind.RELEASE:
            _settle(self._released, None)
            self._finish(BucketError(f"shard {self._keys.shard} was released"))
        elif put.position is not None:
            self._pace.confirmed(put.size)
            self.times.add(self._loop.time() - put.since)
            self._committed(put.position, put.number)
        if put.kind is Kind.COMMIT:
            self._confirmed(put.number, put.data)

    # -- ownership ------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._clock = self._loop.call_later(PROVE_EVERY_S, self._tick)
        is_old = self._loop.time() - self.last_proof > PROVE_EVERY_S / 2
        if is_old and (self._proving is None or self._proving.done()):
            self._proving = self._loop.create_task(self.prove())

    async def prove(self) -> bool:
        """Look now if the next number is free: a fence of another owner would stand there.

        True: this server owned the shard when the look began. Costs a request, while a put is under way two.
        """
        number, begun, was_sent = self.durable + 1, self._loop.time(), bool(self._puts)
        try:
            if await is_there(self._store, self._keys, number):
                self._judge(number, await read_object(self._store, self._keys, number))
                return False
            milestone = milestone_above(number)
            was_used = was_sent and await is_there(self._store, self._keys, milestone)
            if was_used and self.durable < milestone:  # else the milestone is this owner's
                if self.next_number <= milestone:
                    self._lose(self._verdict(number, None))  # it had arrived, and is deleted already
                return False  # the put of the milestone will tell whose it is
        except StoreError as error:
            self._note_failure(_PROOF, error)
            return False
        except BucketError as error:
            self._lose(error)
            return False
        self._note_success(_PROOF)
        self.last_proof = max(self.last_proof, begun)
        return self._end is None

    def _judge(self, number: int, found: WalObject | None) -> None:
        """Take note of what stands at the first number that was not durable."""
        if self._end is not None:
            return
        self._note_success(_PROOF)
        if number <= self.durable:
            return  # it became so meanwhile
        put = self._puts[0] if self._puts else None
        if put is None or found is None or found.pack() != put.data:
            self._lose(self._verdict(number, found))
            return
        if put.task is not None:
            put.task.cancel()  # its answer is lost, or late
        self._arrived(put)

    def _verdict(self, number: int, found: WalObject | None) -> BucketError:
        """Return what it means that another's object stands at a number of this owner."""
        where = f"object {number} of shard {self._keys.shard}"
        if found is None:
            return Overtaken(f"{where} is deleted: another server has taken the shard over")
        if found.epoch > self._claim.epoch:
            return Overtaken(f"{where} is of epoch {found.epoch}: another server has taken the shard over")
        return DamagedObject(f"{where} is there, of epoch {found.epoch}: nobody may have written it")

    def _lose(self, error: BucketError) -> None:
        if self._end is None:
            self._finish(error)
            self._lost(error)

    def _finish(self, end: BucketError) -> None:
        if self._end is not None:
            return
        self._end = end
        for handle in (self._pumping, self._token, self._clock):
            if handle is not None:
                handle.cancel()
        self._token = None
        for task in (self._proving, *(put.task for put in self._puts)):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._puts.clear()
        self.in_flight = 0
        _settle(self._drained, end)
        _settle(self._released, end)
        _settle(self._beside.waiting, end)

    # -- trouble --------------------------------------------------------------------------------------

    def _note_failure(self, number: int, error: StoreError) -> None:
        is_first = not self._failing and self._end is None
        self._failing[number] = str(error)
        if is_first:
            self._trouble(str(error))

    def _note_success(self, number: int) -> None:
        was_failing = bool(self._failing) and self._end is None
        self._failing.pop(number, None)
        self._failing.pop(_PROOF, None)
        if was_failing and not self._failing:
            self._trouble(None)


def _settle(
    waiting: list[asyncio.Future[None]] | deque[asyncio.Future[None]], error: BucketError | None
) -> None:
    """Wake those who wait up, with an error or without."""
    for future in waiting:
        if future.done():
            continue  # who waited has gone
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    waiting.clear()
