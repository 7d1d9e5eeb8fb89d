# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The input buffer of a connection: where received bytes are put, and how they reach the parser of its protocol.

A transport asks `space` where to put bytes and reports them with `received`. Bytes that the parser could not use
are kept in `carry`. They are put in front of the next read, except when the frame is known to be large: then `carry`
gets the frame's size and the rest is received straight into it. Of a compressed connection, each decompressed block
is handled as if it had been read. Never lives here: output (`link`), the meaning of any byte.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memmove

from headrace.engine.link cimport doom, serve_due
from headrace.engine.memory cimport buf_append, buf_free, buf_grow
from headrace.engine.s2 cimport S2_BROKEN, S2_MORE, next_chunk, s2_error
from headrace.engine.structs cimport HR_GUARD, LINK_CLOSING, LINK_HELD, REASON_READ_ERROR, link_t


cdef void space(link_t *l, char **data, size_t *n) except *:
    """Give the address at which the transport puts the connection's next bytes, and how many fit."""
    if l.s2 == NULL:
        space_for_ops(l, data, n)
        return
    if l.router.parsing != NULL:
        raise RuntimeError("bytes came in while others are being parsed: the read buffer is in use")
    data[0] = l.router.read_buffer
    n[0] = READ_SIZE


cdef int received(link_t *l, size_t n) except -1:
    """Take in n bytes that the transport has put where `space` said."""
    if l.s2 == NULL:
        return received_ops(l, n)
    if n > READ_SIZE:
        raise ValueError("more bytes than there was room for")
    if not l.flags & LINK_CLOSING:
        buf_append(&l.s2.raw, l.router.read_buffer, n)
        decompress(l)
    return 0


cdef int decompress(link_t *l) except -1:
    """Takes in what is whole of a compressed stream."""
    cdef char *data
    cdef char *room
    cdef size_t left, n
    cdef int got
    while not l.flags & LINK_CLOSING:
        got = next_chunk(l.s2)
        if got == S2_MORE:
            return 0
        if got == S2_BROKEN:
            doom(l, REASON_READ_ERROR)
            (<object> l.session).parse_failed(f"compressed stream: {s2_error(l.s2)}")
            return 0
        data = l.s2.plain.data
        left = l.s2.plain.end
        while left and not l.flags & LINK_CLOSING:
            space_for_ops(l, &room, &n)
            n = min(n, left)
            memcpy(room, data, n)
            data += n
            left -= n
            received_ops(l, n)
    return 0


cdef void space_for_ops(link_t *l, char **data, size_t *n) except *:
    cdef size_t have = l.carry.end - l.carry.start
    if l.router.parsing != NULL:
        raise RuntimeError("bytes came in while others are being parsed: the read buffer is in use")
    if l.carry_direct:
        data[0] = l.carry.data + l.carry.end
        n[0] = l.carry.cap - l.carry.end
        return
    HR_GUARD(have <= DIRECT_FRAME)
    if have:
        memcpy(l.router.read_buffer, l.carry.data + l.carry.start, have)
    data[0] = l.router.read_buffer + have
    n[0] = READ_SIZE


cdef int keep_rest(link_t *l, char *at, size_t n) except -1:
    """Stores the n bytes that the parser left, which may lie inside `carry` itself."""
    cdef size_t size
    if n == 0:
        l.carry.start = l.carry.end = 0
        if l.carry.cap > DIRECT_FRAME or l.carry_direct:
            buf_free(&l.carry)
        l.carry_direct = False
        l.need = 0
        return 0
    if n <= DIRECT_FRAME and l.need <= DIRECT_FRAME and not l.flags & LINK_HELD:
        if l.carry_direct:
            memcpy(l.router.read_buffer, at, n)
            at = l.router.read_buffer
            buf_free(&l.carry)
            l.carry_direct = False
        if l.carry.cap < n:
            buf_free(&l.carry)
            buf_grow(&l.carry, max(n, <size_t> 256))
        memmove(l.carry.data, at, n)
        l.carry.start = 0
        l.carry.end = n
        return 0
    size = max(l.need, 2 * n + DIRECT_FRAME)
    if l.carry_direct:
        l.carry.start = at - l.carry.data
        if l.carry.start == 0 and l.carry.cap > n and l.carry.cap >= l.need:
            return 0
        buf_grow(&l.carry, size)
        return 0
    buf_free(&l.carry)
    buf_grow(&l.carry, size)
    memcpy(l.carry.data, at, n)
    l.carry.end = n
    l.carry_direct = True
    return 0


cdef int parse(link_t *l, char *start, char *end) except -1:
    cdef char *rest
    if l.parse == NULL or l.interest == NULL and l.remote == NULL:
        raise RuntimeError("a link needs a parser and an interest before its first byte")
    l.need = 0
    l.router.parsing = l
    try:
        rest = start if l.flags & LINK_HELD else l.parse(l, start, end, &l.need)
    finally:
        l.router.parsing = NULL
    HR_GUARD(rest >= start and rest <= end)
    if l.s2 != NULL and l.s2.is_fresh:  # its first bytes may be here already
        if rest != end:
            buf_append(&l.s2.raw, rest, end - rest)
            rest = end
        l.flags &= ~<uint32_t> LINK_HELD
    if l.flags & LINK_CLOSING:
        buf_free(&l.carry)
        l.carry_direct = False
        l.need = 0
    else:
        keep_rest(l, rest, end - rest)
        if l.s2 != NULL and l.s2.is_fresh:
            l.s2.is_fresh = False
            decompress(l)
    if l.router.is_urgent:
        serve_due(l.router)
    return 0


cdef int received_ops(link_t *l, size_t n) except -1:
    """n bytes were put where `space_for_ops` said."""
    cdef size_t have = l.carry.end - l.carry.start
    if l.flags & LINK_CLOSING:
        return 0
    if l.carry_direct:
        if n > l.carry.cap - l.carry.end:
            raise ValueError("more bytes than there was room for")
        l.carry.end += n
        have += n
        if have < l.need:
            return 0
        return parse(l, l.carry.data + l.carry.start, l.carry.data + l.carry.end)
    if n > READ_SIZE:
        raise ValueError("more bytes than there was room for")
    return parse(l, l.router.read_buffer, l.router.read_buffer + have + n)


cdef int reparse(link_t *l) except -1:
    """Goes on with bytes that were left while the connection was held."""
    cdef char *data
    cdef size_t room
    space_for_ops(l, &data, &room)
    return parse(l, data - (l.carry.end - l.carry.start), data)
