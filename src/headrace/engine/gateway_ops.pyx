# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Which op of the gateway protocol begins somewhere, and what each is called."""

from libc.stdint cimport uint32_t

from headrace.engine.client cimport OP_PARTIAL, OP_UNKNOWN, word


cdef int op_at(const char *p, const char *end, uint32_t *length) noexcept:
    """Which op begins here, and how long its word is."""
    cdef char c = p[0] & 0xDF if c'a' <= p[0] <= c'z' else p[0]
    cdef char d
    length[0] = 4
    if c == c'+':
        length[0] = 3
        return word(p, end, b"+OK", 3, OP_OK)
    if c == c'-':
        return word(p, end, b"-ERR", 4, OP_ERR)
    if c == c'H':
        return word(p, end, b"HMSG", 4, OP_HMSG)
    if c == c'I':
        return word(p, end, b"INFO", 4, OP_INFO)
    if c == c'C':
        length[0] = 7
        return word(p, end, b"CONNECT", 7, OP_CONNECT)
    if c != c'R' and c != c'A' and c != c'P':
        return OP_UNKNOWN
    if end - p < 2:
        return OP_PARTIAL
    d = p[1] & 0xDF
    if c == c'P':
        return word(p, end, b"PING", 4, OP_PING) if d == c'I' else word(p, end, b"PONG", 4, OP_PONG)
    if c == c'A':
        length[0] = 2
        return OP_A_PLUS if p[1] == c'+' else OP_A_MINUS if p[1] == c'-' else OP_UNKNOWN
    if d == c'M':
        return word(p, end, b"RMSG", 4, OP_RMSG)
    length[0] = 3
    if d != c'S':
        return OP_UNKNOWN
    if end - p < 3:
        return OP_PARTIAL
    return OP_RS_PLUS if p[2] == c'+' else OP_RS_MINUS if p[2] == c'-' else OP_UNKNOWN


cdef str name_of(int op):
    return {OP_RMSG: "RMSG", OP_HMSG: "HMSG", OP_RS_PLUS: "RS+", OP_RS_MINUS: "RS-", OP_A_PLUS: "A+",
            OP_A_MINUS: "A-", OP_PING: "PING", OP_PONG: "PONG", OP_CONNECT: "CONNECT", OP_INFO: "INFO",
            OP_OK: "+OK", OP_ERR: "-ERR"}[op]
