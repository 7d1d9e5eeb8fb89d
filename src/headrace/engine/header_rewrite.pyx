# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Header rewriting: a message gets another header block, so the tail of its frames is composed anew.

Only messages that cross accounts or are traced need it, which are few. The caller keeps the returned bytes for as
long as the message is routed.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t

from headrace.engine.structs cimport HR_PAD, msg_t

cdef bytes padding = b"\0" * HR_PAD


cdef bytes tail_of(bytes reply, bytes headers, bytes payload):
    """Compose the tail of a frame, followed by the padding that a copy may read."""
    cdef list words = [reply] if reply else []
    if headers:
        words.append(b"%d" % len(headers))
    words.append(b"%d" % (len(headers) + len(payload)))
    return b"%b\r\n%b%b\r\n%b" % (b" ".join(words), headers, payload, padding)


cdef bytes change_headers(msg_t *m, bytes headers):
    """Give the message another header block, and return the bytes that it points into from then on."""
    cdef bytes tail = tail_of(m.reply[:m.reply_len], headers, m.body[m.header_len:m.body_len])
    m.body_len += <uint32_t> PyBytes_GET_SIZE(headers) - m.header_len
    m.header_len = <uint32_t> PyBytes_GET_SIZE(headers)
    m.tail = PyBytes_AS_STRING(tail)
    m.tail_len = PyBytes_GET_SIZE(tail) - HR_PAD
    m.reply = m.tail
    m.plain_tail = NULL
    m.body = m.tail + m.tail_len - m.body_len - 2
    return tail
