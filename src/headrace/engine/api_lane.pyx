# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Requests to the API of JetStream that are answered without Python: direct gets of one message.

Which stream a request names is looked up in the account's own table. Every other request, one with headers, and one to
what is not there, is left to `headrace.jetstream.api.dispatch`.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memchr, memcmp

from headrace.engine.batches cimport Block, Outgoing, part_t, record_t
from headrace.engine.direct_gets cimport DirectGets
from headrace.engine.lanes cimport NOT_MINE, TAKEN, Lane

cdef bytes DIRECT = b"DIRECT.GET."


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
    """As the account knows it."""
    return text.text[:text.len].decode("utf-8", "replace")


cdef class ApiLane(Lane):
    """Requests that came to `<prefix>>`; answers are written to `out`. The account has:

        streams    by name; their `direct_gets` answer
    """

    cdef Outgoing _out
    cdef bytes _prefix
    cdef object _account

    def __init__(self, Outgoing out not None, bytes prefix not None, account):
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
        if record.header_len or not drop(&rest, self._prefix) or not drop(&rest, DIRECT):
            return NOT_MINE
        return TAKEN if self._get(rest, body, reply) else NOT_MINE

    cdef bint _get(self, part_t rest, part_t body, part_t reply) except -1:
        cdef object stream = self._account.streams.get(name_of(token(&rest)))
        cdef DirectGets gets
        if stream is None:
            return False
        gets = stream.direct_gets
        return gets.is_allowed and gets.answer(self._out, rest, body, reply)
