"""Messages on their way into a stream's log: gathered over a turn, judged, appended, answered when durable.

Plain messages stay in compiled code, most of them from the socket to the answer (`engine.publish_lane`): what
is done here for a batch is done there in the same order. One with conditions is judged against everything
before it, so what was gathered is appended first. What a message asks for is `publication`'s; consumers are
told by the stream.
Source: JetStream specification, 3.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.core.tracing import stored
from headrace.engine.jetstream import Publications, take_publications
from headrace.engine.publish_lane import PublishLane
from headrace.errors import LogError, LogFull, MessageTooLarge
from headrace.jetstream.batch.headers import FAST_SUFFIX
from headrace.jetstream.stream.checks import may_roll_up
from headrace.jetstream.stream.dedupe import MSG_ID
from headrace.jetstream.stream.publication import TRACED_DUPLICATE, Duplicate, Publication, PublicationKind
from headrace.log.port import NewMessage
from headrace.protocol.jetstream import headers as hdr
from headrace.protocol.jetstream import pubacks
from headrace.protocol.jetstream.configs import PersistMode, RetentionPolicy, Storage
from headrace.protocol.jetstream.errors import ApiError
from headrace.refusals import Refusals
from headrace.turns import LateCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.core.service import Delivery
    from headrace.core.tracing import StreamTrace
    from headrace.engine.batches import Gathered
    from headrace.errors import StorageError
    from headrace.jetstream.ports import AccountPort, StreamPort
    from headrace.jetstream.stream.republish import Copy

MOST_UNANSWERED: Final = 64 << 20
"""Bytes of one stream's publications that may wait for a disk. Beyond, the account waits for it too, and so
does everybody who publishes: what is in memory stays bounded however slow a disk becomes."""
_BESIDES: Final = 256
"""Bytes that a publication takes besides its payload, about."""


class _Batch(Struct):
    """Messages that are appended together.

    `wanted`: they are kept; else their sequences pass and nothing is stored.
    """

    messages: Publications
    wanted: bool = True
    notes: dict[int, Publication] = field(default_factory=dict)
    """Publications that something follows for once they are appended, by their place."""
    ids: set[bytes] = field(default_factory=set)
    together: bool = False
    """All or nothing."""
    first: int = 0
    """The sequence of the first one, where that is given: a mirror's."""

    def part(self, start: int, count: int) -> _Batch:
        """Return `count` publications from place `start` on; a batch that is all or nothing has no parts."""
        places = range(start, start + count) if self.notes else ()
        notes = {place - start: self.notes[place] for place in places if place in self.notes}
        first = self.first + start if self.first else 0
        return _Batch(self.messages.part(start, count), self.wanted, notes, first=first)

    def is_of_page(self, place: int) -> bool:
        """True if the publication at a place came with the page of a source, which is then all behind it."""
        p = self.notes.get(place)
        return p is not None and p.page is not None

    @property
    def weight(self) -> int:
        return self.messages.size + _BESIDES * len(self.messages)


class Ingest:
    """The way of publications into the log of one stream."""

    def __init__(self, stream: StreamPort, effects: AccountPort) -> None:
        self._stream = stream
        self._effects = effects
        self._head = pubacks.head(stream.name, self._effects.domain)
        self._next = self._empty()
        self._refused: LogError | None = None
        """Why the log did not take what is gathered, when the lane tried."""
        self._held: list[tuple[_Batch, int]] = []
        """Batches that the lane has appended in this tick or that wait for a sync, each with its first
        sequence.
        """
        self.waiting = 0
        """Messages that are in the log and not durable yet."""
        self._refusals: Final = Refusals(effects.later, effects.note.error)
        self._late: Final = LateCommit(effects.turns, stream.log, stream.passed, lambda: stream.is_closed)
        host = effects.host
        self._lane: Final = PublishLane(
            *(stream.counts, self, stream.dedupe, stream.log, effects.now_ns),
            *(host.outgoing, self._head, pubacks.TAIL, pubacks.DUPLICATE),
        )

    def _empty(self) -> _Batch:
        return _Batch(self.make_batch())

    # -- the lane --------------------------------------------------------------------------------------

    def configured(self) -> None:
        """Set what compiled code may do with plain messages; called after every change of the rules."""
        stream, effects, config = self._stream, self._effects, self._stream.config
        bounds = effects.quota.bounds(config)
        self._lane.is_open = False
        if (
            bounds is None
            or stream.is_closed
            or config.persist_mode is PersistMode.ASYNC
            or config.mirror is not None
            or stream.republisher is not None
            or not stream.acceptance.rows.is_compiled
        ):
            return
        is_memory = config.storage is Storage.MEMORY
        marks = None if is_memory else effects.turns.marks
        room, room_of_all = bounds
        self._lane.open(
            *(stream.consumers, stream.followers, *effects.quota.held),
            largest=max(config.max_msg_size, 0),
            answers=not config.no_ack,
            waits=not is_memory and marks is None,
            marks=marks,
            is_memory=is_memory,
            trims=stream.may_trim or config.max_age > 0,
            room=room,
            room_of_all=room_of_all,
            wants=stream.wants if config.retention is RetentionPolicy.INTEREST else None,
        )

    def interest_changed(self) -> None:
        """Note that consumers have come, gone, or want messages of other subjects."""
        self._lane.forget_interest()

    def close(self) -> None:
        """The stream takes nothing any more."""
        self._lane.is_open = False

    def subscribe(self, subject: bytes) -> int:
        """Take what is published there."""
        sid = self._effects.subscribe(subject, self.receive, gathered=True)
        self._effects.host.open_lane(sid, self._lane)
        return sid

    def make_batch(self) -> Publications:
        return Publications(NewMessage)

    def take_over(self, batch: Publications, ids: dict[int, bytes], error: LogError | None) -> None:
        """Take over messages that the lane gathered; they are stored in the next turn.

        `error`: the log's, if it refused them.
        """
        self.append()
        notes = {place: Publication(b"", msg_id=msg_id, is_plain=True) for place, msg_id in ids.items()}
        self._next = _Batch(batch, notes=notes, ids=set(ids.values()))
        self._refused = error
        self._effects.touch(self._stream)

    def appended(self, last: int, time_ns: int, stored: int) -> None:
        self._stream.appended(last, time_ns, stored)

    def hold(self, batch: Publications, first: int) -> None:
        """The lane has appended messages from `first` on, whose publishers hear when they are durable."""
        self._held.append((_Batch(batch), first))
        self._effects.touch(self._stream)

    def announce(self, batch: Publications, first: int) -> bool:
        """Announce messages of the lane, which are durable and answered; return True if a turn has something
        to do for them.
        """
        self._stream.committed(first, batch, wanted=True)
        return self._effects.has_due

    @property
    def stream_name(self) -> str:
        return self._stream.name

    # -- in --------------------------------------------------------------------------------------------

    def receive(self, run: Gathered[Delivery]) -> None:
        """Messages of a subscription, in order."""
        stream = self._stream
        self._commit_held()
        if run.trace is not None:
            for delivery in run:
                self._receive_traced(delivery, run.trace.of(stream.name))
        elif self._judges_each():
            for delivery in run:
                self.publish(Publication.of(delivery))
        else:
            if not self._next.wanted:
                self.append()
            largest = max(stream.config.max_msg_size, 0)
            take_publications(run, self._next.messages, self._special, largest)
        self._effects.touch(stream)

    def _judges_each(self) -> bool:
        """True if Python must look at each message, also at one without headers of ours."""
        stream = self._stream
        if stream.config.retention is RetentionPolicy.INTEREST and all(
            consumer.filters for consumer in stream.consumers.values()
        ):
            return True
        return stream.acceptance.rows.judges_all

    def _receive_traced(self, delivery: Delivery, trace: StreamTrace) -> None:
        """Receive a traced publication; one that is only traced is judged, and no more."""
        p = Publication.of(delivery)
        p.trace = trace
        if not trace.is_only:
            p.headers = stored(p.headers)
            self.publish(p)
            return
        self.append()
        try:
            self._stream.acceptance.judge(PublicationKind.TRACED, p)
        except Duplicate as duplicate:
            self._repeat(p, duplicate.sequence)
        except (ApiError, LogError) as error:
            self.refuse(p, error)
        else:
            trace.done()

    def _special(self, delivery: Delivery) -> Publications:
        """Receive a publication with conditions; return the list that gathers the messages after it."""
        self.publish(Publication.of(delivery))
        if not self._next.wanted:
            self.append()
        return self._next.messages

    def publish(self, p: Publication) -> None:
        """One message, after all before it."""
        acceptance = self._stream.acceptance
        walk = acceptance.rows.walk(p.kind, p.headers)
        try:
            if (not walk.is_plain or p.reply.endswith(FAST_SUFFIX)) and self._is_taken(p):
                return
            if walk.reads_log or (p.headers and self._is_staged(p)):
                self.append()
            walk.judge(acceptance.before, p)
            p.is_plain = walk.is_plain
        except Duplicate as duplicate:
            self._repeat(p, duplicate.sequence)
        except (ApiError, LogError) as error:
            self.refuse(p, error)
        else:
            self.stage(p)

    def _is_taken(self, p: Publication) -> bool:
        """True if a feature takes a message, and answers it: it belongs to a batch. Raises: LogError."""
        for feature in self._stream.features:
            if feature.take(p):
                if p.trace is not None and p.done is None:  # no trace tells what becomes of a batch
                    p.trace.done()
                return True
        return False

    def _repeat(self, p: Publication, sequence: int) -> None:
        """Answer a message that was stored before, when that is durable."""

        def answer(error: StorageError | None) -> None:
            if error is not None:
                self.refuse(p, error)
                return
            self._stream.answer(p.reply, self._head + b"%d" % sequence + pubacks.DUPLICATE)
            if p.trace is not None:
                p.trace.done(TRACED_DUPLICATE)
            if p.done:
                p.done(None)

        if sequence <= self._stream.visible:
            answer(None)
        else:
            self._effects.commit(self._stream.log, answer)

    def _is_staged(self, p: Publication) -> bool:
        """True if a message with the same id waits to be appended."""
        ids = self._next.ids
        return bool(ids) and hdr.value(p.headers, MSG_ID) in ids

    def stage(self, p: Publication) -> None:
        """Gather a message that was judged."""
        stream = self._stream
        wanted = stream.wants(p.subject)
        if wanted is not self._next.wanted:
            self.append()
            self._next.wanted = wanted
        if p.page is not None and p.page.error is not None:
            return  # one before it was refused; it comes again with that one
        self._add(self._next, p)
        if not p.is_plain and (p.rollup or p.purged_subject):
            self.append()

    def _add(self, batch: _Batch, p: Publication) -> None:
        if p.headers or p.done or batch.together:
            batch.notes[len(batch.messages)] = p
            if p.msg_id:
                batch.ids.add(p.msg_id)
        batch.messages.add(
            *(p.subject, p.payload),
            reply=b"" if p.ack_fields else p.reply,
            headers=p.headers,
            ttl_ns=p.ttl_ns,
            time_ns=p.time_ns,
        )

    def append_all(self, publications: Sequence[Publication]) -> None:
        """Judged messages, all or none of them, after all before them."""
        self.append()
        self._store_together(publications)

    def append_at(self, first_sequence: int, publications: Sequence[Publication]) -> ApiError | None:
        """Append messages of a mirror, with their sequences and times, after all before them; all or none.

        No publications: the last sequence becomes one below `first_sequence`. Returns why the log has none of
        them; None if it has them, which may not be durable yet.
        """
        self.append()
        if not publications:
            self._skip_to(first_sequence)
            return None
        return self._store_together(publications, first_sequence)

    def _store_together(
        self, publications: Sequence[Publication], first_sequence: int = 0
    ) -> ApiError | None:
        """Store all or none. `first_sequence` 0: after the last one of the stream. Returns why none."""
        wanted = [self._stream.wants(p.subject) for p in publications]
        batch = self._empty()
        batch.together, batch.first = True, first_sequence
        batch.wanted = any(wanted)
        for p in publications:
            self._add(batch, p)
        refused = self._store(batch)
        self._stream.retention.unwanted(
            p.sequence for p, is_wanted in zip(publications, wanted, strict=True) if not is_wanted
        )
        return refused

    def _skip_to(self, sequence: int) -> None:
        stream = self._stream
        try:
            stream.log.append([], sequence)
        except LogError as error:
            self._effects.note.error("stream %s: %s", stream.name, error)
            return
        stream.appended(sequence - 1, stream.last_time_ns, 0)
        self._effects.commit(stream.log, partial(self._passed, sequence - 1))

    def _passed(self, sequence: int, error: StorageError | None) -> None:
        if error is None:
            self._stream.passed(sequence)
        else:
            self._late.ask()

    # -- into the log ----------------------------------------------------------------------------------

    def append(self) -> bool:
        """Append what was gathered; False when there was nothing."""
        was_held = self._commit_held()
        batch, self._next = self._next, self._empty()
        refused, self._refused = self._refused, None
        self._lane.is_behind = False
        if len(batch.messages):
            self._store(batch, refused)
        elif not was_held:
            return False
        if self._lane.unanswered > MOST_UNANSWERED:
            self._effects.finish_commits()
        return True

    def _commit_held(self) -> bool:
        """Have what the lane appended made durable; False: that was nothing."""
        held, self._held = self._held, []
        for batch, first in held:
            self._commit(batch, first, [], self._stream.last_time_ns)
        return bool(held)

    def _store(self, batch: _Batch, failed: LogError | None = None) -> ApiError | None:
        """Append a batch; of one that the log does not take whole, what it takes. `failed`: it was tried.

        Returns why the log takes no more of it; None if each message was tried.

        After one that is refused few are tried, and twice as many after each part that is taken. Were always
        all of them tried, a long row of those that are refused would be looked at once for each of them.
        """
        start, count = 0, len(batch.messages)
        most = count
        while start < count:
            some = min(most, count - start)
            part = batch if some == count else batch.part(start, some)
            refused = self._try(part) if failed is None else self._refusal(failed, some)
            failed = None
            if refused is None:
                start += some
                most = 2 * most
                continue
            place, error, is_final = refused
            is_known = place == 0 or some == 1
            if batch.together or is_final or (is_known and batch.is_of_page(start)):
                rest = batch if batch.together or not start else batch.part(start, count - start)
                self._refuse_in_turn(rest, error)
                return error
            if is_known:
                self._refuse_in_turn(part if some == 1 else batch.part(start, 1), error)
                start += 1
                most = 1
            else:
                most = some // 2 if place is None else place
        return None

    def _try(self, batch: _Batch) -> tuple[int | None, ApiError, bool] | None:
        """Append; else the place of the one that is refused if that is known, why, and whether all others
        are refused for that too.
        """
        stream, messages = self._stream, batch.messages
        code = self._effects.quota.refusal(stream.config, messages.size)
        if code:
            return None, ApiError(code), False
        time_ns = max(self._effects.now_ns(), stream.last_time_ns)
        messages.at(time_ns)
        first = batch.first or stream.last_sequence + 1
        copies = self._copies(batch, first)
        try:
            self._append(batch, first)
        except LogError as error:
            return self._refusal(error, len(messages))
        self._stored(batch, first, time_ns)
        self._commit(batch, first, copies, time_ns)
        return None

    def _refusal(self, error: LogError, messages: int) -> tuple[int | None, ApiError, bool]:
        """Return the result of `_try` for an error of the log that meets so many messages."""
        stream = self._stream
        if isinstance(error, LogFull):
            return error.index, ApiError(10077, err=str(error)), error.index == 0 and stream.is_full
        if isinstance(error, MessageTooLarge):
            return None, ApiError(10077, err="message to large"), False
        self._refusals.refused(f"stream {stream.name}", error, messages)
        return None, ApiError(10077, err=str(error)), True

    def _append(self, batch: _Batch, first: int) -> None:
        log = self._stream.log
        if not batch.wanted:
            log.append([], first + len(batch.messages))
        elif self._stream.config.discard_new_per_subject and any(p.rollup for p in batch.notes.values()):
            # a subject that is full takes a message that stands for those before it
            log.limits = replace(log.limits, discard_new_per_subject=False)
            try:
                log.append(batch.messages, batch.first)
            finally:
                self._stream.set_limits()
        else:
            log.append(batch.messages, batch.first)

    def _commit(self, batch: _Batch, first: int, copies: list[Copy | None], time_ns: int) -> None:
        self._lane.unanswered += batch.weight
        self.waiting += len(batch.messages)
        if self._stream.config.persist_mode is PersistMode.ASYNC:
            self._committed(batch, first, copies, time_ns, None)
            self._effects.commit(self._stream.log, self._synced_late)
            return
        self._effects.commit(self._stream.log, partial(self._committed, batch, first, copies, time_ns))

    def _synced_late(self, error: StorageError | None) -> None:
        if error is not None:
            self._effects.note.error(
                "stream %s: what was acknowledged is not durable: %s", self._stream.name, error
            )

    def _copies(self, batch: _Batch, first: int) -> list[Copy | None]:
        stream = self._stream
        if stream.republisher is None or not batch.wanted:
            return []
        return stream.republisher.copies(batch.messages, stream.log, first)

    def _stored(self, batch: _Batch, first: int, time_ns: int) -> None:
        """Handle messages that are in the log now."""
        stream, count = self._stream, len(batch.messages)
        batch.messages.stored(first)
        newest_ns = batch.notes[count - 1].time_ns if batch.first else time_ns  # a mirror has its origin's
        stream.appended(first + count - 1, newest_ns, count if batch.wanted else 0)
        for place, p in batch.notes.items():
            sequence = p.sequence = first + place
            if p.msg_id and not batch.first:
                stream.dedupe.note(p.msg_id, sequence, p.time_ns or time_ns)
            if p.is_plain:
                continue
            if p.rollup or p.purged_subject:
                self._roll_up(p, sequence)
            for feature in stream.features:
                feature.stored(p, sequence, p.time_ns or time_ns)
        newest = batch.notes.get(count - 1)
        stream.dedupe.newest_id = newest.msg_id if newest else b""

    def _roll_up(self, p: Publication, sequence: int) -> None:
        """Remove what the message stands for, itself not."""
        stream = self._stream
        if not may_roll_up(stream.config):
            return
        if p.rollup:
            stream.removal.roll_up(p.subject if p.rollup == b"sub" else None, sequence)
        if p.purged_subject:
            stream.removal.roll_up(p.purged_subject, sequence + 1)

    # -- answers ---------------------------------------------------------------------------------------

    def _committed(
        self,
        batch: _Batch,
        first: int,
        copies: list[Copy | None],
        time_ns: int,
        error: StorageError | None,
    ) -> None:
        stream = self._stream
        self._lane.unanswered -= batch.weight
        self.waiting -= len(batch.messages)
        if error is not None:
            self._refusals.refused(f"stream {stream.name}", error, len(batch.messages))
            self._refuse_all(batch, ApiError(10077, err=str(error)))
            self._late.ask()
            return
        host = self._effects.host
        if not stream.config.no_ack:
            batch.messages.acknowledge(host.outgoing, self._head, pubacks.TAIL)
            host.announce()
        for p in batch.notes.values():
            if p.ack_fields:
                stream.answer(p.reply, self._head + b"%d" % p.sequence + p.ack_fields + pubacks.TAIL)
            p.end(None)
        if copies and stream.republisher is not None:
            stream.republisher.publish(host, copies, first, time_ns)
        stream.committed(first, batch.messages, wanted=batch.wanted)

    def _refuse_in_turn(self, batch: _Batch, error: ApiError) -> None:
        """Refuse messages in the order of their publishers; a source is held up at once."""
        for p in batch.notes.values():
            if p.page is not None:
                p.page.refuse(p.origin_sequence, error)
        self._in_turn(lambda failure: self._refuse_all(batch, _refused_after(failure, error)))

    def _refuse_all(self, batch: _Batch, error: ApiError) -> None:
        stream = self._stream
        body = pubacks.refusal(error, stream.name)
        if not stream.config.no_ack:
            batch.messages.refuse(self._effects.host.outgoing, body)
            self._effects.host.announce()
        for p in batch.notes.values():
            if p.ack_fields:
                stream.answer(p.reply, body)
            p.end(error)

    def refuse(self, p: Publication, error: ApiError | LogError) -> None:
        """Tell who published a message, and whoever waits for it, why it is not stored."""
        if isinstance(error, LogError):
            self._effects.note.error("stream %s: %s", self._stream.name, error)
            error = ApiError(10077, err=str(error))
        refusal = error
        if p.page is not None:
            p.page.refuse(p.origin_sequence, error)

        def answer(failure: StorageError | None) -> None:
            told = _refused_after(failure, refusal)
            self._stream.answer(p.reply, pubacks.refusal(told, self._stream.name))
            p.end(told)

        self._in_turn(answer)

    def _in_turn(self, answer: Callable[[StorageError | None], None]) -> None:
        """Publishers hear in the order of their messages: after those that wait for the disk. What these did
        may be the reason of a refusal, so `answer` is told if it could not be made durable.
        """
        if not self._lane.unanswered and self._stream.visible >= self._stream.last_sequence:
            answer(None)
        else:
            self._effects.commit(self._stream.log, answer)


def _refused_after(failure: StorageError | None, error: ApiError) -> ApiError:
    """Return why a message is refused, by its own `error` or since what came before it is not durable."""
    return error if failure is None else ApiError(10077, err=str(failure))
