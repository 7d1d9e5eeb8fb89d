# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What all wires between servers have in common: the ops of a connection's beginning and life, and how an op is
taken in. Messages and interest are each wire's own (`protocol_t`).

Calls on the session: connect(json), peer_info(json), unauthenticated(), pong(), peer_error(text),
parse_failed(text), trace(op, arguments, payload); see route.pyx.
"""

from libc.stdint cimport uint32_t

from headrace.engine.client cimport OP_PARTIAL, OP_UNKNOWN, is_op, line_t, read_line, read_open_line, trimmed, word
from headrace.engine.link cimport doom, emit
from headrace.engine.structs cimport (
    LINK_MUST_CONNECT, LINK_TRACED, REASON_AUTHENTICATION_VIOLATION, REASON_PARSE_ERROR, REASON_PROTOCOL_VIOLATION,
    link_t, msg_t, router_t,
)
from headrace.engine.wire cimport split, wire_t


cdef int common_op_at(const char *p, const char *end, uint32_t *length) noexcept:
    """Which op begins here, of those that all have, and how long its word is."""
    cdef char c = p[0] & 0xDF if c'a' <= p[0] <= c'z' else p[0]
    length[0] = 4
    if c == c'+':
        length[0] = 3
        return word(p, end, b"+OK", 3, OP_OK)
    if c == c'-':
        return word(p, end, b"-ERR", 4, OP_ERR)
    if c == c'I':
        return word(p, end, b"INFO", 4, OP_INFO)
    if c == c'C':
        length[0] = 7
        return word(p, end, b"CONNECT", 7, OP_CONNECT)
    if c != c'P':
        return OP_UNKNOWN
    if end - p < 2:
        return OP_PARTIAL
    return word(p, end, b"PING", 4, OP_PING) if p[1] & 0xDF == c'I' else word(p, end, b"PONG", 4, OP_PONG)


cdef str name_of(int op):
    return {OP_RMSG: "RMSG", OP_HMSG: "HMSG", OP_LMSG: "LMSG", OP_MSG: "MSG", OP_PUB: "PUB", OP_RS_PLUS: "RS+",
            OP_RS_MINUS: "RS-", OP_LS_PLUS: "LS+", OP_LS_MINUS: "LS-", OP_SUB: "SUB", OP_UNSUB: "UNSUB", OP_A_PLUS: "A+", OP_A_MINUS: "A-",
            OP_PING: "PING", OP_PONG: "PONG", OP_CONNECT: "CONNECT", OP_INFO: "INFO", OP_OK: "+OK",
            OP_ERR: "-ERR"}[op]


cdef int control(link_t *l, int op, line_t *line) except -1:
    """A complete line that is about the connection."""
    cdef object session = <object> l.session
    if op == OP_PING:
        emit(l, b"PONG\r\n", 6)
    elif op == OP_PONG:
        session.pong()
    elif op == OP_CONNECT:
        l.flags &= ~<uint32_t> LINK_MUST_CONNECT
        session.connect(trimmed(line))
    elif op == OP_INFO:
        session.peer_info(trimmed(line))
    elif op == OP_ERR:
        session.peer_error(trimmed(line))
        doom(l, REASON_PARSE_ERROR)
    return 0


cdef int too_early(link_t *l, int op) except -1:
    """Interest or a message before the handshake is over."""
    doom(l, REASON_PROTOCOL_VIOLATION)
    (<object> l.session).parse_failed(f"{name_of(op)} before the handshake")
    return 0


cdef inline bint is_first(const char *first, char c) noexcept:
    if c'a' <= c <= c'z':
        c &= 0xDF
    while first[0]:
        if first[0] == c:
            return True
        first += 1
    return False


cdef char *carry_out(link_t *l, wire_t *wire, protocol_t *protocol, int op, uint32_t length, char *p, char *end,
                     size_t *need) except NULL:
    """The op at `p`, whose word has that length; returns what follows it, or `p` when it is incomplete or the link
    is doomed."""
    cdef char *args = p + length
    cdef line_t line
    if l.flags & LINK_MUST_CONNECT and not is_first(protocol.first, p[0]):
        (<object> l.session).unauthenticated()
        doom(l, REASON_AUTHENTICATION_VIOLATION)
        return p
    if not is_op(l, op, op <= LAST_INTEREST or op == OP_ERR, p, args, end):
        return p
    if op <= LAST_INTEREST and not protocol.may_come(l, op):
        return p
    if op <= LAST_MESSAGE:
        return protocol.message(l, op, p, args, end, need)
    if op == OP_PING or op == OP_PONG or op == OP_OK:
        p = read_open_line(l, p, length, end, &line)
        if p != line.next:
            return p
    elif not read_line(l, args, end, &line):
        return p
    if l.flags & LINK_TRACED and op != OP_CONNECT:  # a CONNECT holds secrets: the session traces it itself
        (<object> l.session).trace(name_of(op), trimmed(&line), None)
    if op != OP_PONG:
        l.last_activity = l.router.now
    if op <= LAST_INTEREST:
        split(wire, &line)
        protocol.interest(l, op, &line)
    else:
        control(l, op, &line)
    return line.next


cdef void count_arrival(link_t *l, msg_t *m) noexcept:
    """A complete message is here."""
    cdef router_t *r = l.router
    m.source = l
    m.via = NULL
    l.last_activity = r.now
    l.in_msgs += 1
    l.in_bytes += m.body_len
    r.in_msgs += 1
    r.in_bytes += m.body_len
    r.far_in_msgs += 1
    r.far_in_bytes += m.body_len
