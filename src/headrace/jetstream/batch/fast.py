"""Fast ingest: many messages of one publisher, acknowledged from time to time, the publisher told how often.

What a message is within its batch is said by its reply:
`<inbox>.<batch>.<flow>.<ok|fail>.<number>.<operation>.$FI`. Each message is stored by itself; what ends a
batch early is a gap or an error, and the publisher then learns how far it came. What an operation comes to
is decided when it arrives, as if everything before it were durable; its answer goes to its own reply subject
and waits until that is so. Source: JetStream specification, 8; answers compared with the Go server 2.15.1.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from headrace.jetstream.batch.headers import FAST_SUFFIX, LONGEST_ID, OF_BATCHES
from headrace.jetstream.stream.features import Feature
from headrace.jetstream.stream.publication import Duplicate, PublicationKind
from headrace.protocol.durations import SECOND
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream import pubacks
from headrace.protocol.jetstream.configs import DiscardPolicy
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.levels import REQUIRED_LEVEL, asks_too_much
from headrace.protocol.jetstream.numbers import UINT64_MAX, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Timer
    from headrace.jetstream.ports import AccountPort, StreamPort
    from headrace.jetstream.stream.publication import Publication

MOST_BETWEEN_ACKS: Final = 500
"""Messages between two acknowledgements, of all batches of a stream together."""
_LARGEST_FLOW: Final = (1 << 16) - 1
_USUAL_FLOW: Final = 10


class Operation(IntEnum):
    """The operation that the reply subject of a message in a fast batch asks for."""

    START = 0
    APPEND = 1
    COMMIT = 2
    END = 3
    PING = 4


class BatchPlace(NamedTuple):
    """The place of a message within its batch."""

    batch: bytes
    flow: int
    gaps_are_fine: bool
    number: int
    operation: Operation

    @property
    def commits(self) -> bool:
        return self.operation in (Operation.COMMIT, Operation.END)


def place_of(reply: bytes) -> BatchPlace | None:
    """Read the place in a batch from the reply subject of a message; None when it is malformed."""
    parts = reply[: -len(FAST_SUFFIX)].rsplit(b".", 5)
    if len(parts) != 6:
        return None
    _, batch, flow, mode, number, operation = parts
    if operation not in (b"0", b"1", b"2", b"3", b"4") or mode not in (b"ok", b"fail"):
        return None
    counted = whole(number)
    if not counted or counted == UINT64_MAX:
        return None
    place = BatchPlace(batch, _flow(flow), mode == b"ok", counted, Operation(int(operation)))
    first = place.number == 1
    wrong = {Operation.START: not first, Operation.APPEND: first, Operation.END: first}
    return None if wrong.get(place.operation, False) else place


def _flow(text: bytes) -> int:
    if not text.isdigit() or not int(text[:10]):
        return _USUAL_FLOW
    return min(int(text[:10]), _LARGEST_FLOW)


class _Batch:
    """Numbers of messages within the batch, but for `sequence`."""

    def __init__(self, name: bytes, place: BatchPlace) -> None:
        self.name = name
        self.gaps_are_fine = place.gaps_are_fine
        self.most = place.flow
        self.flow = 1
        self.received = 0
        self.stored = 0
        self.acknowledged = 0
        self.sequence = 0
        """The stream sequence of the last message that is durable."""
        self.staged = 0
        """Messages that were handed to the log, durable or not."""
        self.durable = 0
        """The number of those of which is known what became of them."""
        self.held: deque[tuple[int, bytes, Callable[[], bytes]]] = deque()
        """Answers that wait for so many to be durable, and their reply subjects."""
        self.end_reply = b""
        """The reply subject of the message that ended the batch."""
        self.is_lost = False
        """The log did not take one of its messages, and no more is said of later ones."""
        self.heard_ns = 0
        self.timer: Timer | None = None


class FastBatches(Feature):
    """Batches of one stream that are under way."""

    def __init__(self, stream: StreamPort, effects: AccountPort) -> None:
        self._stream = stream
        self._effects = effects
        self._limits = effects.batches.limits
        self._batches: dict[bytes, _Batch] = {}

    def take(self, publication: Publication) -> bool:
        if not publication.reply.endswith(FAST_SUFFIX):
            return False
        try:
            self._receive(publication)
        except ApiError as error:
            self._stream.answer(publication.reply, pubacks.refusal(error, self._stream.name))
            publication.end(error)
        return True

    def configured(self) -> None:
        if not self._stream.config.allow_batched:
            self.stop()

    def stop(self) -> None:
        """Forget all batches. Stored messages stay; no publisher is told any more how far its batch came."""
        for batch in list(self._batches.values()):
            self._forget(batch)

    def _receive(self, p: Publication) -> None:
        place = self._check(p)
        batch = self._batches.get(place.batch) or self._begin(place)
        self._check_level(batch, p)
        self._watch(batch)
        if place.operation is Operation.PING:
            self._ping(batch, place, p.reply)
            return
        if not self._follows(batch, place, p.reply):
            return
        if place.operation is Operation.END:
            batch.received -= 1
            self._finish(batch, p.reply)
            return
        if place.number == 1 and not place.commits:
            self._say_flow(batch, 0, p.reply)
        self._store(batch, place, p)

    def _check(self, p: Publication) -> BatchPlace:
        """Check a message of a batch on its own. Raises: ApiError."""
        stream = self._stream
        stream.acceptance.judge(PublicationKind.OF_FAST, p)
        place = place_of(p.reply)
        if place is None:
            raise ApiError(10206)
        if len(place.batch) > LONGEST_ID:
            raise ApiError(10207)
        return place

    def _begin(self, place: BatchPlace) -> _Batch:
        if place.number != 1 or place.operation is Operation.PING:
            raise ApiError(10208)
        inflight = self._effects.batches
        limits = inflight.limits
        if len(self._batches) >= limits.fast_per_stream or inflight.fast >= limits.fast_total:
            raise ApiError(10211)
        inflight.fast += 1
        batch = self._batches[place.batch] = _Batch(place.batch, place)
        if len(self._batches) == 1:
            batch.flow = min(MOST_BETWEEN_ACKS, batch.most)
        return batch

    def _check_level(self, batch: _Batch, p: Publication) -> None:
        if asks_too_much(p.headers):
            self._forget(batch)
            raise ApiError(10185)
        p.headers = block.without(p.headers, REQUIRED_LEVEL)

    def _ping(self, batch: _Batch, place: BatchPlace, reply: bytes) -> None:
        """The publisher asks how far it came, since it heard nothing."""
        if place.number > batch.received:
            self._say_gap(batch, place.number + 1, reply)
            if not batch.gaps_are_fine:
                self._finish(batch, reply)
                return
            batch.received = batch.stored = place.number
            if self._acknowledge(batch, reply):
                return
        self._say_flow(batch, batch.acknowledged, reply)

    def _follows(self, batch: _Batch, place: BatchPlace, reply: bytes) -> bool:
        """True if a message may be stored after the earlier ones; if not, its batch is ended."""
        if place.number == batch.received + 1:
            batch.received = place.number
            return True
        self._say_gap(batch, place.number, reply)
        if batch.gaps_are_fine and place.number > batch.received:
            batch.received = place.number
            return True
        self._finish(batch, reply)
        return False

    # -- storing ---------------------------------------------------------------------------------------

    def _store(self, batch: _Batch, place: BatchPlace, p: Publication) -> None:
        stream = self._stream
        reply, p.reply = p.reply, b""
        if p.headers:  # those of atomic batches would say that it belongs to one
            p.headers = block.without_prefix(p.headers, OF_BATCHES)
        try:
            if p.headers or stream.acceptance.rows.walk(PublicationKind.FAST, p.headers).reads_log:
                stream.flush()
            stream.acceptance.judge(PublicationKind.FAST, p)
        except (ApiError, Duplicate) as error:
            self._refused(batch, place, reply, error)
            return
        batch.staged += 1
        p.done = partial(self._done, batch, place, reply, p)
        stream.ingest.stage(p)
        batch.stored = place.number
        if place.commits:
            self._finish(batch, reply)
        else:
            self._acknowledge(batch, reply)
        if stream.config.discard is DiscardPolicy.NEW:
            stream.flush()  # whether there is room is known before the next one is judged

    def _refused(self, batch: _Batch, place: BatchPlace, reply: bytes, error: ApiError | Duplicate) -> None:
        """Pass over a message that was stored before; end the batch at any other refusal, unless gaps are
        fine.
        """
        is_duplicate = isinstance(error, Duplicate)
        if is_duplicate:
            batch.stored = place.number
            self._acknowledge(batch, reply)
            if not place.commits:
                return
        if not batch.gaps_are_fine and batch.received == 1:
            self._forget(batch)
            self._answer(batch, reply, partial(self._first_refused, batch, place, error))
            return
        if isinstance(error, ApiError):
            self._answer(batch, reply, partial(_error_at, place, error))
        if batch.gaps_are_fine and not place.commits:
            return
        if not is_duplicate:
            batch.received -= 1
            batch.stored = batch.received
        self._finish(batch, reply)

    # -- what became of it -----------------------------------------------------------------------------

    def _done(
        self, batch: _Batch, place: BatchPlace, reply: bytes, p: Publication, error: Exception | None
    ) -> None:
        batch.durable += 1
        if error is None:
            batch.sequence = p.sequence
        else:
            self._lost(batch, place, reply, _as_api_error(error))
        self._release(batch)

    def _lost(self, batch: _Batch, place: BatchPlace, reply: bytes, error: ApiError) -> None:
        """The log did not take it: what waits to be said of those after it is not true."""
        if batch.is_lost:
            return
        if batch.gaps_are_fine and not place.commits:
            self._stream.answer(reply, _error_at(place, error))
            return
        batch.is_lost = True
        batch.held.clear()
        if not batch.gaps_are_fine and place.number == 1:
            self._forget(batch)
            self._stream.answer(reply, self._first_refused(batch, place, error))
            return
        self._stream.answer(reply, _error_at(place, error))
        batch.received = min(batch.received, place.number - 1)
        self._finish(batch, batch.end_reply or reply)

    def _answer(self, batch: _Batch, reply: bytes, said: Callable[[], bytes]) -> None:
        """Answer when everything of the batch that came before is durable."""
        batch.held.append((batch.staged, reply, said))
        self._release(batch)

    def _release(self, batch: _Batch) -> None:
        while batch.held and batch.held[0][0] <= batch.durable:
            _, reply, said = batch.held.popleft()
            self._stream.answer(reply, said())

    def _first_refused(self, batch: _Batch, place: BatchPlace, error: ApiError | Duplicate) -> bytes:
        """A batch that fails at once is answered as a single message is."""
        if isinstance(error, ApiError):
            return pubacks.refusal(error, self._stream.name)
        head = pubacks.head(self._stream.name, self._effects.domain)
        fields = pubacks.of_batch(batch.name, place.number)
        return b'%s%d,"duplicate": true%s}' % (head, error.sequence, fields)

    # -- what the publisher is told --------------------------------------------------------------------

    def _finish(self, batch: _Batch, reply: bytes) -> None:
        """Add no message any more; tell the progress of the batch at the reply subject of what ended it."""
        self._forget(batch)
        batch.end_reply = reply
        self._answer(batch, reply, partial(self._whole, batch, batch.received))

    def _whole(self, batch: _Batch, count: int) -> bytes:
        head = pubacks.head(self._stream.name, self._effects.domain)
        return b"%s%d%s}" % (head, batch.sequence, pubacks.of_batch(batch.name, count))

    def _acknowledge(self, batch: _Batch, reply: bytes) -> bool:
        """Say how far the batch came when that is due, and how often it will be said."""
        steps = max(batch.stored - batch.acknowledged, 0) // batch.flow
        if not steps:
            return False
        batch.acknowledged += steps * batch.flow
        most = min(max(MOST_BETWEEN_ACKS // max(len(self._batches), 1), 1), batch.most)
        if batch.flow < most:
            batch.flow = min(2 * batch.flow, most)
        elif batch.flow > most:
            batch.flow = max(batch.flow // 2, most)
        self._say_flow(batch, batch.acknowledged, reply)
        return True

    def _say_flow(self, batch: _Batch, number: int, reply: bytes) -> None:
        said = b'{"type":"ack","seq":%d,"msgs":%d}' % (number, batch.flow)
        self._answer(batch, reply, lambda: said)

    def _say_gap(self, batch: _Batch, number: int, reply: bytes) -> None:
        said = b'{"type":"gap","last_seq":%d,"seq":%d}' % (batch.received + 1, number)
        self._answer(batch, reply, lambda: said)

    # -- the end of a batch ----------------------------------------------------------------------------

    def _watch(self, batch: _Batch) -> None:
        """One that hears nothing for long is forgotten."""
        batch.heard_ns = self._effects.now_ns()
        if batch.timer is None:
            self._wait(batch, self._limits.timeout_ns)

    def _wait(self, batch: _Batch, idle_ns: int) -> None:
        batch.timer = self._effects.later(idle_ns / SECOND, lambda: self._look(batch))

    def _look(self, batch: _Batch) -> None:
        effects = self._effects
        left = batch.heard_ns + self._limits.timeout_ns - effects.now_ns()
        if left > 0:
            self._wait(batch, left)
        else:
            self._forget(batch)

    def _forget(self, batch: _Batch) -> None:
        if batch.timer is not None:
            batch.timer.cancel()
            batch.timer = None
        if self._batches.get(batch.name) is batch:
            del self._batches[batch.name]
            self._effects.batches.fast -= 1


def _error_at(place: BatchPlace, error: ApiError) -> bytes:
    return msgspec.json.encode({"type": "err", "seq": place.number, "error": error.body()})


def _as_api_error(error: Exception) -> ApiError:
    return error if isinstance(error, ApiError) else ApiError(10077, err=str(error))
