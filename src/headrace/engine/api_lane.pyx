# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Requests to the API of JetStream that are answered without Python: direct gets of one message, pulls of one.

Which stream and consumer a request names is looked up in the account's own tables. Every other request, one with
headers, and one to what is not there, is left to `headrace.jetstream.api.dispatch`.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memchr, memcmp

from headrace.engine.batches cimport Block, Outgoing, part_t, record_t
from headrace.engine.consumer cimport DueWork
from headrace.engine.direct_gets cimport DirectGets
from headrace.engine.lanes cimport NOT_MINE, TAKEN, Lane
from headrace.engine.pulls cimport SinglePulls

cdef bytes DIRECT = b"DIRECT.GET."
cdef bytes NEXT = b"CONSUMER.MSG.NEXT."


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


cdef class ApiLane(Lane):
    """Requests that came to `<prefix>>`; answers are written to `out`. The account has, besides its `DueWork`:

        streams    by name; their `direct_gets`, and their consumers by name, the `single_pulls` of whose `delivery` answer
    """

    cdef Outgoing _out
    cdef bytes _prefix
    cdef DueWork _account
    cdef bint _has_delivered     # since it was finished

    def __init__(self, Outgoing out not None, bytes prefix not None, DueWork account not None):
        self._out = out
        self._prefix = prefix
        self._account = account
        self.asks = True
        self.is_open = True

    cdef int take(self, record_t *record, const char *subject, Block block) except -1:
        cdef part_t rest, body, reply
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
        if not self._has_delivered:
            return False
        self._has_delivered = False
        return self._account.is_there()
