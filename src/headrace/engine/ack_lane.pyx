# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Acknowledgements that say nothing but that: taken out of what is pending, written, confirmed.

What is done here in one call after the other, Python does in the same order for everything else
(`headrace.jetstream.consumer.acknowledger`), and with the same results, byte for byte. A consumer says when nobody but
its core is concerned (`ConsumerCore.settles_alone`); another payload, another consumer, one to which something is
to be sent again, or that has as much pending as it may: those are Python's. A stream that lets acknowledged messages go is
told which those are, many at a time. Who wants to know is told once it is
written, as with every acknowledgement: a process that is killed forgets none that was confirmed.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memset

from headrace.engine.batches cimport Block, Outgoing, is_word, part_t, record_t
from headrace.engine.consumer cimport FAILED, LATER, ConsumerCore, ConsumerTable, DeltaWriter
from headrace.engine.jetstream cimport ack_t, is_plain, names_t, read_ack
from headrace.engine.lanes cimport NOT_MINE, TAKEN, Lane
from headrace.engine.memory cimport buf_append, buf_free
from headrace.engine.structs cimport HR_GUARD, buf_t

cdef enum:
    KEPT = 65536             # bytes of reply subjects that it keeps memory for


cdef class AckLane(Lane):
    """The lane of one account's acknowledgements. The journal has

        writer             the `DeltaWriter` of its consumers
        confirm(replies)   answers with nothing when all that changed is durable, in the turn that is next
    """

    def __init__(self, ConsumerTable consumers not None, Outgoing out not None, journal, now_ns):
        self._consumers = consumers
        self._out = out
        self._journal = journal
        self._writer = journal.writer
        self._now_ns = now_ns
        self._touched = []
        memset(&self._replies, 0, sizeof(buf_t))
        self.is_open = True

    def __dealloc__(self):
        buf_free(&self._replies)

    cdef int take(self, record_t *record, const char *subject, Block block) except -1:
        cdef const char *payload = subject + record.subject_len + record.reply_len + record.header_len
        cdef ConsumerCore core
        cdef names_t names
        cdef ack_t ack
        cdef part_t reply
        cdef bint is_first
        if not is_plain(payload, record.body_len - record.header_len) \
                or not read_ack(subject, record.subject_len, &names, &ack):
            return NOT_MINE
        core = self._consumers.find(names.stream.text, names.stream.len + 1 + names.consumer.len)
        if core is None or not core.can_settle():
            return NOT_MINE
        if record.reply_len and ack.sequence < core.next_sequence:  # nobody is told of what was never delivered
            reply.text = subject + record.subject_len
            reply.len = record.reply_len
            if not is_word(reply.text, reply.len):
                return NOT_MINE
            buf_append(&self._replies, <const char *> &reply.len, sizeof(uint32_t))
            buf_append(&self._replies, reply.text, reply.len)
        if self._now == 0:
            self._now = self._now_ns()
        is_first = core.settled is None
        core.settle_one(ack.sequence, self._now)
        if is_first and core.settled is not None:
            self._touched.append(core)
        return TAKEN

    cdef bint finish(self) except -1:
        cdef int written
        cdef bint wants_turn = self._tell_settled()
        self._now = 0
        if self._replies.end:
            try:
                written = self._writer.write()
                if written == LATER:
                    self._journal.confirm(self._replies_as_list())
                    return True
                if written != FAILED:
                    self._confirm()
            finally:
                self._forget_replies()
        return self._writer.wants_turn() or wants_turn

    cdef bint _tell_settled(self) except -1:
        """Tells streams what consumers need no more; True if there was something, which a turn lets go."""
        cdef list touched = self._touched
        cdef ConsumerCore core
        if not touched:
            return False
        self._touched = []
        for core in touched:
            core.tell_settled()
        return True

    cdef int _confirm(self) except -1:
        """Answers everyone who waits, with nothing."""
        cdef part_t reply, none
        cdef size_t at = 0
        none.len = 0
        while at < self._replies.end:
            memcpy(&reply.len, self._replies.data + at, sizeof(uint32_t))
            reply.text = self._replies.data + at + sizeof(uint32_t)
            at += sizeof(uint32_t) + reply.len
            HR_GUARD(at <= self._replies.end)
            self._out.open(reply, none, 0, 0)
        return 0

    cdef list _replies_as_list(self):
        """The reply subjects of everyone who waits."""
        cdef list replies = []
        cdef uint32_t n
        cdef size_t at = 0
        while at < self._replies.end:
            memcpy(&n, self._replies.data + at, sizeof(uint32_t))
            at += sizeof(uint32_t)
            replies.append(self._replies.data[at:at + n])
            at += n
        return replies

    cdef void _forget_replies(self) noexcept:
        self._replies.start = self._replies.end = 0
        if self._replies.cap > KEPT:
            buf_free(&self._replies)
