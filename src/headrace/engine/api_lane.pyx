# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Requests to the API of JetStream that are answered without Python: direct gets of one message, pulls of one.

Deletions of single messages that are there are gathered, and done in the turn that is next, before anything else:
those of one stream together. Which stream and consumer a request names is looked up in the account's own tables. Every
other request, one with headers, and one to what is not there, is left to `headrace.jetstream.api.dispatch`.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from headrace.engine.batches cimport Block, Outgoing, is_word, part_t, record_t
from headrace.engine.consumer cimport DueWork
from headrace.engine.direct_gets cimport DirectGets
from headrace.engine.lanes cimport NOT_MINE, TAKEN, Lane, StreamCounts
from headrace.engine.pulls cimport SinglePulls

cdef bytes DIRECT = b"DIRECT.GET."
cdef bytes NEXT = b"CONSUMER.MSG.NEXT."
cdef bytes DELETE = b"STREAM.MSG.DELETE."

cdef enum:
    MOST_DIGITS = 18         # of a sequence that a deletion here may name


cdef bint drop(part_t *text, bytes beginning) noexcept:
    """Takes a beginning off a text; False: it has another one."""
    if text.len < <size_t> len(beginning) or memcmp(text.text, <const char *> beginning, len(beginning)) != 0:
        return False
    text.text += len(beginning)
    text.len -= <uint32_t> len(beginning)
    return True


cdef part_t token(part_t *text) noexcept:
    """Takes the first token and the dot behind it off a subject."""
    cdef part_t first = text[0]
    cdef const char *dot = <const char *> memchr(text.text, c'.', text.len)
    if dot == NULL:
        text.text += text.len
        text.len = 0
        return first
    first.len = <uint32_t> (dot - text.text)
    text.text = dot + 1
    text.len -= first.len + 1
    return first


cdef inline str name_of(part_t text):
    """Return a name as the account knows it."""
    return text.text[:text.len].decode("utf-8", "replace")


cdef uint64_t read_deletion(part_t body) noexcept:
    """The sequence in a request to delete a message, without erasing it; 0: it is written in another way."""
    cdef uint64_t sequence = 0
    cdef int digits = 0
    if not drop(&body, b'{"seq":'):
        return 0
    while body.len and c'0' <= body.text[0] <= c'9' and digits < MOST_DIGITS:
        sequence = 10 * sequence + (body.text[0] - c'0')
        body.text += 1
        body.len -= 1
        digits += 1
    if body.len != 17 or memcmp(body.text, b',"no_erase":true}', 17) != 0:
        return 0
    return sequence


cdef class ApiLane(Lane):
    """Requests that came to `<prefix>>`; answers are written to `out`. The account has, besides its `DueWork`:

        streams    by name; their `direct_gets`, and their consumers by name, the `single_pulls` of whose `delivery` answer
        delete_together(name, [(sequence, reply)])   deletes messages in the turn that is next, before anything else
    """

    cdef Outgoing _out
    cdef bytes _prefix
    cdef DueWork _account
    cdef bint _has_delivered     # since it was finished
    cdef bytes _deleted_from     # the name of the stream whose deletions are gathered
    cdef StreamCounts _deleted_counts
    cdef list _deletions         # sequences and replies
    cdef bint _has_deletions     # others were gathered, and given to the account

    def __init__(self, Outgoing out not None, bytes prefix not None, DueWork account not None):
        self._out = out
        self._prefix = prefix
        self._account = account
        self._deletions = []
        self.asks = True
        self.is_open = True

    cdef uint64_t _deletion(self, record_t *record, const char *subject) except? 0:
        """The sequence of a message that a request wants deleted, if it is in its stream by now; 0: it is no such request."""
        cdef part_t rest, body
        cdef uint64_t sequence
        rest.text = subject
        rest.len = record.subject_len
        body.text = subject + record.subject_len + record.reply_len
        body.len = record.body_len
        if record.header_len or not drop(&rest, self._prefix) or not drop(&rest, DELETE):
            return 0
        if not is_word(subject + record.subject_len, record.reply_len):
            return 0
        sequence = read_deletion(body)
        if sequence == 0 or not self._is_deleted_from(rest) or sequence > self._deleted_counts.visible:
            return 0
        return sequence

    cdef bint _is_deleted_from(self, part_t name) except -1:
        """True if a stream is there; its deletions are gathered from now on."""
        if self._deleted_from is not None and <size_t> len(self._deleted_from) == name.len \
                and memcmp(<const char *> self._deleted_from, name.text, name.len) == 0:
            return True
        self._give_deletions()
        stream = self._account.streams.get(name_of(name))
        if stream is None:
            return False
        self._deleted_from = name.text[:name.len]
        self._deleted_counts = stream.counts
        return True

    cdef int _give_deletions(self) except -1:
        """Give what is gathered to the account."""
        if self._deletions:
            self._account.delete_together(self._deleted_from.decode("utf-8", "replace"), self._deletions)
            self._deletions = []
            self._has_deletions = True
        self._deleted_from = None
        self._deleted_counts = None
        return 0

    cdef bint is_apart(self, record_t *record, const char *subject) except -1:
        return self._deletion(record, subject) != 0

    cdef int take(self, record_t *record, const char *subject, Block block) except -1:
        cdef part_t rest, body, reply
        cdef uint64_t sequence = self._deletion(record, subject)
        if sequence:
            self._deletions.append((sequence, (subject + record.subject_len)[:record.reply_len]))
            return TAKEN
        if self._deletions or self._has_deletions:  # they are to be done before what follows
            return NOT_MINE
        rest.text = subject
        rest.len = record.subject_len
        reply.text = subject + record.subject_len
        reply.len = record.reply_len
        body.text = reply.text + reply.len
        body.len = record.body_len
        if record.header_len or not drop(&rest, self._prefix):
            return NOT_MINE
        if drop(&rest, DIRECT):
            return TAKEN if self._get(rest, body, reply) else NOT_MINE
        return TAKEN if drop(&rest, NEXT) and self._pull(rest, body, reply) else NOT_MINE

    cdef bint _get(self, part_t rest, part_t body, part_t reply) except -1:
        cdef object stream = self._account.streams.get(name_of(token(&rest)))
        cdef DirectGets gets
        if stream is None:
            return False
        gets = stream.direct_gets
        return gets.is_allowed and gets.answer(self._out, rest, body, reply)

    cdef bint _pull(self, part_t rest, part_t body, part_t reply) except -1:
        cdef object stream = self._account.streams.get(name_of(token(&rest)))
        cdef object consumer
        if stream is None:
            return False
        consumer = stream.consumers.get(name_of(rest))
        if consumer is None or not (<SinglePulls?> consumer.delivery.single_pulls).grant(self._out, body, reply):
            return False
        self._has_delivered = True
        return True

    cdef bint finish(self) except -1:
        cdef bint has_deletions
        self._give_deletions()
        has_deletions, self._has_deletions = self._has_deletions, False
        if not self._has_delivered:
            return has_deletions
        self._has_delivered = False
        return self._account.is_there() or has_deletions
