# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Pulls of one message that is there: the next one goes out, and nobody waits.

A pull that asks for more, one that has to wait for a message or behind others, and one to a consumer that does more
than deliver what its stream has, is left to `headrace.jetstream.consumer`, whose state is written here as it is there.
"""

from libc.stdint cimport int64_t, uint64_t

from headrace.engine.api_requests cimport pull_t, read_pull
from headrace.engine.batches cimport Outgoing, is_word, part_t
from headrace.engine.consumer cimport ConsumerCore
from headrace.engine.jetstream cimport deliver_one
from headrace.engine.log_reading cimport FOUND, LogReads
from headrace.engine.messages cimport message_t

cdef enum:
    NEAR = 64                # sequences that are looked at to find the next messages


cdef class PendingNumbers:
    """The messages that a consumer has still to get: the last count of them.

    counted        messages at or after `next_sequence`, up to `counted_to`, which is -1 before the first count
    epoch          of the stream when they were counted
    """

    def __cinit__(self, *_others):
        self.counted_to = self.epoch = -1


cdef class SinglePulls:
    """The single pulls of one consumer, as long as it has this configuration.

    is_plain      every message is for it, and goes to whoever asks first, at once and whole
    prefix        `$JS.ACK.<stream>.<consumer>.`
    waiting       the requests that wait, which are served before
    max_expires   ns that a request may wait; 0: any
    first_wait    ns until it is looked whether a message that goes out now is to be sent again
    """

    def __init__(self, consumer, ConsumerCore core not None, bytes prefix not None, waiting, *, bint is_plain,
                 int64_t max_expires, int64_t first_wait):
        self._consumer = consumer
        self._stream = consumer.stream
        self._core = core
        self._prefix = prefix
        self._waiting = waiting
        self._is_plain = is_plain
        self._max_expires = max_expires
        self._first_wait = first_wait

    cdef bint grant(self, Outgoing out, part_t body, part_t reply) except -1:
        """Sends a request without headers its message; False: it is for Python, and nothing was done."""
        cdef pull_t pull
        cdef message_t m
        cdef object consumer = self._consumer
        cdef ConsumerCore core = self._core
        cdef LogReads reads = (<object> self._stream).direct_gets.reads
        cdef uint64_t position = max(core.next_sequence, core.passed_to)
        cdef uint64_t start = position, following = 0, last
        cdef int64_t now, left = 1
        cdef PendingNumbers counter = consumer.pending_counter
        if not self._is_plain or not read_pull(body, &pull) or pull.batch > 1 \
                or 0 < self._max_expires < pull.expires or self._must_wait():
            return False
        if reply.len == 0 or not is_word(reply.text, reply.len) \
                or consumer.host.backlog(reply.text[:reply.len]) is None:
            return False
        if reads is None or not self._find(reads, &start, &following):
            return False
        last = self._stream.last_sequence
        if start < last and counter.next_sequence == position and counter.counted_to == <int64_t> last \
                and counter.epoch == <int64_t> self._stream.epoch:
            left = counter.counted
        elif start < last:
            left = consumer.pending_counter.count(position)
        if reads.read(start, &m) != FOUND:
            return False
        now = consumer.now_ns()
        deliver_one(out, reply, self._prefix, &m, core._state.delivered_consumer + 1, max(left, 1) - 1)
        core.note_sent(start, now)
        core.next_sequence = following
        counter.counted -= 1
        counter.next_sequence = following
        if not self._is_alarm_set(now):
            consumer.redelivery.sent(start, now)
        core.active_ns = now
        return True

    cdef bint _is_alarm_set(self, int64_t now) except -1:
        """Tell whether redelivery need not hear of a message that goes out now, for the first time."""
        cdef int64_t due
        if self._core._state.redelivered or self._core.waits_again is None or self._core.waits_again[1]:
            return False
        due = self._consumer.redelivery.alarm.due_ns
        return 0 < due <= now + self._first_wait

    cdef bint _is_free(self) except -1:
        """Tell whether messages go as they come; a pace that is free stays so until the configuration changes."""
        cdef object pace = self._consumer.pace
        if pace is not self._free_pace:
            if not pace.is_free:
                return False
            self._free_pace = pace
        return True

    cdef bint _must_wait(self) except -1:
        """Tell whether others are served before, or the consumer cannot send anything new now."""
        cdef object consumer = self._consumer
        cdef ConsumerCore core = self._core
        return consumer.stopped or self._waiting or consumer.redelivery.queue or consumer.serving.skips \
            or core.epoch != self._stream.epoch or not self._is_free() \
            or 0 < core.most_pending <= core.pending.count

    cdef bint _find(self, LogReads reads, uint64_t *start, uint64_t *following) except -1:
        """Moves `start` on to the first sequence with a message, and says the one after that.

        False: none is durable, or it is too far to be looked for here.
        """
        cdef uint64_t visible = self._stream.visible
        cdef uint64_t end = min(visible, start[0] + NEAR)
        while start[0] <= end and reads.is_removed(start[0]):
            start[0] += 1
        following[0] = start[0] + 1
        while following[0] <= end and reads.is_removed(following[0]):
            following[0] += 1
        return start[0] <= end and (following[0] <= end or end == visible)
