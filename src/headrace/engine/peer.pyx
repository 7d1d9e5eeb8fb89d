# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A link to another server: the ops of its beginning and its life, and how any op is taken in.

Each wire says what it has of its own (`protocol_t`): route, legacy_route, leaf, gateway. Calls on the session:

    connect(json), peer_info(json), unauthenticated(), pong(), peer_error(text), parse_failed(text),
    trace(op, arguments, payload); see route.pyx
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memset

from headrace.engine.client cimport (
    OP_PARTIAL, OP_UNKNOWN, bad_arguments, has_payload, is_op, line_t, read_line, read_open_line, trimmed, word,
)
from headrace.engine.link cimport Link, doom, emit
from headrace.engine.structs cimport (
    LINK_CLOSING, LINK_HEADERS, LINK_HELD, LINK_MUST_CONNECT, LINK_TRACED, REASON_AUTHENTICATION_VIOLATION,
    REASON_PARSE_ERROR, REASON_PROTOCOL_VIOLATION, remote_t, interest_t, link_t, msg_t, router_t,
)
from headrace.engine.tracing cimport asks_for_trace, close_trace, open_trace
from headrace.engine.wire cimport fit_tail, read_message, release_wire, split, wire_t


cdef int know(protocol_t *protocol, tuple ops) except -1:
    """A new protocol has these ops of its own, (word in capitals, op), the most frequent first, and those of all."""
    cdef op_word_t *known
    cdef bytes text
    cdef int op
    memset(protocol, 0, sizeof(protocol_t))
    for text, op in (*ops, (b"PING", OP_PING), (b"PONG", OP_PONG), (b"INFO", OP_INFO), (b"CONNECT", OP_CONNECT),
                     (b"+OK", OP_OK), (b"-ERR", OP_ERR)):
        known = &protocol.words[protocol.words_count]
        memcpy(known.text, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        known.len = <uint32_t> PyBytes_GET_SIZE(text)
        known.op = op
        protocol.words_count += 1
    return 0


cdef int op_at(protocol_t *protocol, const char *p, const char *end, uint32_t *length) noexcept:
    """Return the op that begins here, and set the length of its word."""
    cdef char first = p[0] & 0xDF if c'a' <= p[0] <= c'z' else p[0]
    cdef op_word_t *known = protocol.words
    cdef op_word_t *behind = known + protocol.words_count
    cdef int found, so_far = OP_UNKNOWN
    while known != behind:
        if known.text[0] == first:
            found = word(p, end, known.text, known.len, known.op)
            if found == OP_PARTIAL:
                so_far = OP_PARTIAL
            elif found != OP_UNKNOWN:
                length[0] = known.len
                return found
        known += 1
    return so_far


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


cdef inline bint is_first(const char *first, char c) noexcept:
    if c'a' <= c <= c'z':
        c &= 0xDF
    while first[0]:
        if first[0] == c:
            return True
        first += 1
    return False


cdef char *parse_ops(link_t *l, char *p, char *end, size_t *need) except NULL:
    """Carries out every complete op; returns the first byte that was not used."""
    cdef PeerLink link = <PeerLink> l.owner
    cdef char *following
    cdef uint32_t length
    cdef int op
    while p < end and not l.flags & (LINK_CLOSING | LINK_HELD):
        length = 0
        op = op_at(link.protocol, p, end, &length)
        following = carry_out(link, op, length, p, end, need)
        if following == p:
            return p
        p = following
    return p


cdef char *carry_out(PeerLink link, int op, uint32_t length, char *p, char *end, size_t *need) except NULL:
    """The op at `p`, whose word has that length; returns what follows it, or `p` when it is incomplete or the link
    is doomed."""
    cdef link_t *l = &link.c
    cdef protocol_t *protocol = link.protocol
    cdef char *args = p + length
    cdef line_t line
    if l.flags & LINK_MUST_CONNECT and not is_first(protocol.first, p[0]):
        link.session.unauthenticated()
        doom(l, REASON_AUTHENTICATION_VIOLATION)
        return p
    if not is_op(l, op, op <= LAST_INTEREST or op == OP_ERR, p, args, end):
        return p
    if op <= LAST_INTEREST:
        if not link._is_open:
            doom(l, REASON_PROTOCOL_VIOLATION)
            link.session.parse_failed(f"{name_of(op)} before the handshake")
            return p
        if protocol.may_come != NULL and not protocol.may_come(l, op):
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
        link.session.trace(name_of(op), trimmed(&line), None)
    if op != OP_PONG:
        l.last_activity = l.router.now
    if op <= LAST_INTEREST:
        split(&link.wire, &line)
        protocol.interest(l, op, &line)
    else:
        control(l, op, &line)
    return line.next


cdef char *take_message(link_t *l, int op, char *at, char *args, char *end, size_t *need) except NULL:
    """One RMSG, HMSG or LMSG at `at`; returns what follows it, or `at` when it is incomplete."""
    cdef PeerLink link = <PeerLink> l.owner
    cdef protocol_t *protocol = link.protocol
    cdef uint32_t sizes = 1 if op == protocol.bare else 2
    cdef line_t line
    cdef msg_t m
    cdef char *following
    if not read_line(l, args, end, &line):
        return at
    split(&link.wire, &line)
    if read_message(&link.wire, &link.remote, protocol.words_before(l, op), sizes, &m) < 0:
        bad_arguments(l, protocol.misread[op - OP_RMSG].decode(), &line)
        return at
    if not has_payload(l, at, line.next, end, m.body_len, need):
        return at
    if l.flags & LINK_TRACED:
        link.session.trace(name_of(op), trimmed(&line), line.next[:m.body_len])
    following = line.next + m.body_len + 2  # what is traced may get headers of another length
    fit_tail(&link.wire, l, sizes, &line, &m)
    count_arrival(l, &m)
    if m.header_len:
        take_in(protocol, l, op, &m)
    else:
        protocol.arrived(l, op, &m)
    return following


cdef int take_in(protocol_t *protocol, link_t *l, int op, msg_t *m) except -1:
    """A complete message with headers, which may want to be traced."""
    cdef interest_t *it
    cdef list kept
    if not asks_for_trace(l, NULL, m):
        return protocol.arrived(l, op, m)
    it = protocol.account_of(l, op)
    if not asks_for_trace(l, it, m):
        return protocol.arrived(l, op, m)
    kept = []
    if open_trace(l, it, m, kept):
        try:
            protocol.arrived(l, op, m)
        finally:
            close_trace(m)
    return 0


cdef void count_arrival(link_t *l, msg_t *m) noexcept:
    """A complete message is here."""
    cdef router_t *r = l.router
    m.source = l
    m.via = NULL
    m.trace = NULL
    l.last_activity = r.now
    l.in_msgs += 1
    l.in_bytes += m.body_len
    r.in_msgs += 1
    r.in_bytes += m.body_len
    r.remote_in_msgs += 1
    r.remote_in_bytes += m.body_len


cdef class PeerLink(Link):
    """A connection to another server, whichever of the two has opened it. Subclasses set `protocol` and what is
    theirs of `remote`.

    Bytes: `max_payload` of a message, `max_control_line` of a line. `must_connect`: CONNECT is due first.
    `is_outbound`: this side has opened it, which makes a difference to gateways only. Raises: TypeError for others.
    """

    def __cinit__(self, *_args, uint32_t max_payload=1 << 20, uint32_t max_control_line=65536,
                  bint must_connect=False, bint is_outbound=False):
        memset(&self.remote, 0, sizeof(remote_t))
        memset(&self.wire, 0, sizeof(wire_t))
        self.c.remote = &self.remote
        self.c.parse = parse_ops
        self.c.max_payload = max_payload
        self.c.max_control_line = max_control_line
        self._is_outbound = is_outbound
        if must_connect:
            self.c.flags |= LINK_MUST_CONNECT

    def __dealloc__(self):
        release_wire(&self.wire)

    cdef _leave(self):
        Link._leave(self)
        release_wire(&self.wire)

    def limit(self, *, uint32_t max_payload, uint32_t max_control_line):
        """Limits for what comes from now on, in bytes."""
        self.c.max_payload = max_payload
        self.c.max_control_line = max_control_line

    @property
    def is_open(self):
        """True once interest and messages may come."""
        return bool(self._is_open)

    @property
    def has_headers(self):
        """True if the peer takes headers."""
        return bool(self.c.flags & LINK_HEADERS)
