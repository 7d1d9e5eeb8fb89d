# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The client protocol, server side: bytes of one client connection to operations.

PUB, HPUB, SUB, UNSUB, PING and PONG are carried out here; everything rarer, and every question of
policy, is a call on the session:

    connect(json)                      CONNECT; may configure, hold or doom this link
    op_before_connect()                an op came before a due CONNECT: adopt an identity or doom
    first_ping()                       after the PONG to the first PING that asks for an INFO
    pong()
    peer_error(text), peer_info(json)
    subscribe_permission(subject, queue)  0 refused (the session has said so), 1 allowed, 2 allowed but filtered
    publish_refused(subject)           not allowed: the session answers; True lets it pass (a response)
    reply_refused(reply)               a reserved reply subject: the session answers
    subscriptions_exceeded()           after -ERR was sent
    parse_failed(text)                 a bad argument; the link is doomed already
    note_reply(reply)                  a message with a reply is being delivered (allow_responses)
    trace(op, arguments), trace_delivery(subject, sid, reply, header_size, size)

Framing, sizes and error texts: client protocol specification, sections 1 and 3.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memchr, memcmp, memcpy, memmove, memset, strlen

from headrace.engine.delivery cimport remove_sub, route
from headrace.engine.interest cimport find_plain, plan_at, plan_for
from headrace.engine.link cimport Link, doom, emit
from headrace.engine.memory cimport buf_reserve, give, live, take
from headrace.engine.reply_mapping cimport find_mapped_reply
from headrace.engine.stream_imports cimport hang_shadows
from headrace.engine.structs cimport (
    REMOTE_GATEWAY, REMOTE_LEAF, REMOTE_ROUTE, HR_GUARD, HR_PAD, LINK_CHECKS_SUBSCRIBE, LINK_CLOSING, LINK_HEADERS, LINK_HELD,
    LINK_MUST_CONNECT, LINK_NO_ECHO, LINK_NO_RESPONDERS, LINK_PEDANTIC, LINK_PING_INFO, LINK_TRACED, LINK_TRACKS_REPLIES,
    LINK_VERBOSE, REASON_MAX_CONTROL_LINE, REASON_MAX_PAYLOAD, REASON_PARSE_ERROR, REASON_PROTOCOL_VIOLATION,
    SUB_FILTERED, SUB_LIMITED, buf_t, hr_hash, link_t, msg_t, plan_t, sub_t, word_t,
)
from headrace.engine.tracing cimport asks_for_trace, close_trace, open_trace
from headrace.engine.trie cimport insert, tell_limit
from headrace.engine.permission_cache cimport PermissionCache, is_allowed

cdef enum op_t:
    OP_PUB = 2
    OP_HPUB
    OP_SUB
    OP_UNSUB
    OP_PING
    OP_PONG
    OP_CONNECT
    OP_INFO
    OP_OK
    OP_ERR

cdef enum:
    MOST_SIZE_DIGITS = 9


# ---- lines and arguments ------------------------------------------------------------------------

cdef inline int word(const char *p, const char *end, const char *upper, uint32_t n, int op) noexcept:
    """`op` when the bytes are this word in any case, partial when they end inside it."""
    cdef uint32_t i, have = min(<uint32_t> (end - p), n)
    for i in range(have):
        if (p[i] & 0xDF if c'a' <= p[i] <= c'z' else p[i]) != upper[i]:
            return OP_UNKNOWN
    return op if have == n else OP_PARTIAL


cdef int op_at(const char *p, const char *end, uint32_t *length) noexcept:
    """Return the op that begins here, and set the length of its word."""
    cdef char c = p[0] & 0xDF if c'a' <= p[0] <= c'z' else p[0]
    cdef char d
    if c == c'P':
        length[0] = 4
        if end - p < 2:
            return OP_PARTIAL
        d = p[1] & 0xDF
        if d == c'U':
            length[0] = 3
            return word(p, end, b"PUB", 3, OP_PUB)
        return word(p, end, b"PING", 4, OP_PING) if d == c'I' else word(p, end, b"PONG", 4, OP_PONG)
    if c == c'H':
        length[0] = 4
        return word(p, end, b"HPUB", 4, OP_HPUB)
    if c == c'S':
        length[0] = 3
        return word(p, end, b"SUB", 3, OP_SUB)
    if c == c'U':
        length[0] = 5
        return word(p, end, b"UNSUB", 5, OP_UNSUB)
    if c == c'C':
        length[0] = 7
        return word(p, end, b"CONNECT", 7, OP_CONNECT)
    if c == c'I':
        length[0] = 4
        return word(p, end, b"INFO", 4, OP_INFO)
    if c == c'+':
        length[0] = 3
        return word(p, end, b"+OK", 3, OP_OK)
    if c == c'-':
        length[0] = 4
        return word(p, end, b"-ERR", 4, OP_ERR)
    return OP_UNKNOWN


cdef bint read_line(link_t *l, char *args, char *end, line_t *line) noexcept:
    """Finds the end of a control line; False when it is not here yet, or too long (the link is doomed then).

    The limit is on what follows the blanks before the first argument. The same answer is given however the
    line was split over reads: a CR at the end of what is here may be the line's own, so it does not count.
    """
    cdef char *lf = <char *> memchr(args, c'\n', end - args)
    cdef char *stop = lf if lf != NULL else end
    cdef char *first = args
    if stop > args and (stop - 1)[0] == c'\r':
        stop -= 1
    while first < stop and is_separator(first[0]):
        first += 1
    if stop - first > l.max_control_line or first - args > l.max_control_line:
        emit(l, b"-ERR 'maximum control line exceeded'\r\n", 38)
        doom(l, REASON_MAX_CONTROL_LINE)
        return False
    if lf == NULL:
        return False
    line.start = args
    line.end = stop
    line.is_crlf = stop != lf
    line.next = lf + 1
    return True


cdef char *read_open_line(link_t *l, char *p, uint32_t length, char *end, line_t *line) noexcept:
    """The line of PING, PONG or +OK at `p`, whose arguments are ignored and know no limit.

    Returns what follows it; when its end is not here yet, where it goes on: of what is too long for a control
    line, nothing but the op's word is kept.
    """
    cdef char *args = p + length
    cdef char *lf = <char *> memchr(args, c'\n', end - args)
    if lf == NULL:
        line.next = NULL
        if end - args <= l.max_control_line:
            return p
        memmove(end - length, p, length)
        return end - length
    line.start = args
    line.end = lf
    line.next = lf + 1
    return line.next


cdef void split(line_t *line, char separator) noexcept:
    """Fills line.args; stops counting at MOST_ARGUMENTS. `separator` separates too, beside blanks.

    (In the reference server a CR does in SUB and UNSUB, but not in PUB and HPUB.)
    """
    cdef const char *p = line.start
    cdef const char *begin
    line.count = 0
    while line.count < MOST_ARGUMENTS:
        while p < line.end and (is_separator(p[0]) or p[0] == separator):
            p += 1
        if p == line.end:
            return
        begin = p
        while p < line.end and not is_separator(p[0]) and p[0] != separator:
            p += 1
        line.args[line.count].text = begin
        line.args[line.count].len = <uint32_t> (p - begin)
        line.count += 1


cdef inline long long size_of(word_t *a) noexcept:
    """1-9 decimal digits, else -1."""
    cdef uint32_t i
    cdef long long n = 0
    if a.len == 0 or a.len > MOST_SIZE_DIGITS:
        return -1
    for i in range(a.len):
        if a.text[i] < c'0' or a.text[i] > c'9':
            return -1
        n = 10 * n + (a.text[i] - c'0')
    return n


cdef int bad_arguments(link_t *l, str op, line_t *line) except -1:
    """Closes without a text on the wire, as the reference server does."""
    doom(l, REASON_PROTOCOL_VIOLATION)
    (<object> l.session).parse_failed(f"process{op} Parse Error: {bytes(line.start[:line.end - line.start])!r}"[:512])
    return 0


cdef int unknown_op(link_t *l, const char *at, const char *end) except -1:
    emit(l, b"-ERR 'Unknown Protocol Operation'\r\n", 35)
    doom(l, REASON_PROTOCOL_VIOLATION)
    kind = "Client" if l.remote == NULL else {REMOTE_ROUTE: "Router", REMOTE_LEAF: "Leafnode", REMOTE_GATEWAY: "Gateway"}[l.remote.kind]
    (<object> l.session).parse_failed(f"{kind} parser ERROR, proto={bytes(at[:min(32, end - at)])!r}")
    return 0


# ---- subjects -----------------------------------------------------------------------------------

cdef bint is_valid_subject(const char *s, uint32_t n, bint literal) noexcept:
    """Non-empty tokens; `>` alone only as last token; with `literal`, no `*` or `>` token at all."""
    cdef uint32_t i, start = 0
    for i in range(n + 1):
        if i < n and s[i] != c'.':
            continue
        if i == start:
            return False
        if i == start + 1 and (s[start] == c'>' and (literal or i < n) or s[start] == c'*' and literal):
            return False
        start = i + 1
    return True


cdef inline bint begins(const char *s, uint32_t n, const char *prefix, uint32_t m) noexcept:
    return n >= m and memcmp(s, prefix, m) == 0


cdef bint is_reserved_subject(const char *s, uint32_t n) noexcept:
    return n > 5 and begins(s, n, b"_GR_.", 5) or begins(s, n, b"$NRG.", 5)


cdef bint is_reserved_reply(const char *s, uint32_t n) noexcept:
    return begins(s, n, b"_R_.", 4) or n > 5 and begins(s, n, b"_GR_.", 5) or n > 8 and begins(s, n, b"$JS.ACK.", 8)


# ---- PUB and HPUB -------------------------------------------------------------------------------

cdef int compose_tail(link_t *l, msg_t *m, line_t *line, uint32_t sizes_from) except -1:
    """The tail for a line that was not in canonical form (tabs, runs of spaces, bare LF)."""
    cdef buf_t *b = &l.router.scratch
    cdef uint32_t i
    b.start = b.end = 0
    buf_reserve(b, (line.end - line.start) + m.body_len + 8)
    if m.reply_len:
        memcpy(b.data, m.reply, m.reply_len)
        b.data[m.reply_len] = c' '
        b.end = m.reply_len + 1
    for i in range(sizes_from, line.count):
        memcpy(b.data + b.end, line.args[i].text, line.args[i].len)
        b.end += line.args[i].len
        b.data[b.end] = c' '
        b.end += 1
    b.data[b.end - 1] = c'\r'
    b.data[b.end] = c'\n'
    b.end += 1
    memcpy(b.data + b.end, m.body, m.body_len + 2)
    b.end += m.body_len + 2
    HR_GUARD(b.end <= b.cap)
    m.tail = b.data
    m.tail_len = b.end
    return 0


cdef bint is_canonical(line_t *line) noexcept:
    """Single spaces between the arguments after the subject, nothing after the last, CR LF."""
    cdef uint32_t i
    cdef const char *p = line.args[0].text + line.args[0].len
    for i in range(1, line.count):
        if line.args[i].text != p + 1 or p[0] != c' ':
            return False
        p = line.args[i].text + line.args[i].len
    return line.is_crlf and p == line.end


cdef bint is_response(link_t *l, msg_t *m) except -1:
    """True if a message went to a reply subject of a request from another account, so that it counts as delivered."""
    cdef bytes subject
    cdef plan_t *plan
    cdef uint32_t i
    if not begins(m.subject, m.subject_len, b"_R_.", 4):
        return False
    subject = m.subject[:m.subject_len]  # the next plan may be written over the one it stands in
    plan = plan_for(l.interest, subject, m.subject_len)
    for i in range(plan.plain_count + plan.remote_count):  # which stand one behind the other
        if not plan.plain[i].link.flags & LINK_CLOSING:
            return True
    return False


cdef int answer_nobody(link_t *l, msg_t *m) except -1:
    """No one got the request: tell the requester on its own plain subscription to the reply.

    It is the server's word, not a message: neither echo nor the limit of an UNSUB matters to it.
    """
    cdef sub_t *s = find_plain(l.interest, m.reply, m.reply_len, l)
    cdef bytes text, frame
    if s == NULL or is_response(l, m):
        return 0
    text = b"NATS/1.0 503\r\nNats-Subject: " + m.subject[:m.subject_len] + b"\r\n\r\n"
    frame = b"HMSG %b %b %d %d\r\n%b\r\n" % (
        m.reply[:m.reply_len], s.text[:s.sid_len], len(text), len(text), text)
    emit(l, frame, len(frame))
    return 0


cdef inline int publish(link_t *l, msg_t *m) except -1:
    """A complete message."""
    m.trace = NULL
    m.head = m.plain_tail = NULL
    if asks_for_trace(l, l.interest, m):
        return publish_traced(l, m)
    return carry(l, m)


cdef int publish_traced(link_t *l, msg_t *m) except -1:
    """One that may want to be traced, and perhaps nothing else."""
    cdef list kept = []
    if open_trace(l, l.interest, m, kept):
        try:
            carry(l, m)
        finally:
            close_trace(m)
    return 0


cdef int trace_too_large(link_t *l, msg_t *m, const char *end) except -1:
    """A message that is larger than any may be is coming, or here: its trace tells that, if it asks for one."""
    cdef msg_t part = m[0]
    part.header_len = <uint32_t> min(<size_t> m.header_len, <size_t> (end - m.body))
    if asks_for_trace(l, l.interest, &part):
        (<object> l.router.tracer).begin(
            <object> l.session, l.interest.account[:l.interest.account_len],
            (m.subject[:m.subject_len], m.body[:part.header_len], m.body_len), "maximum payload exceeded")
    return 0


cdef int carry(link_t *l, msg_t *m) except -1:
    """A message: counted, mapped, judged, +OK, delivered."""
    cdef plan_t *plan = NULL
    cdef uint64_t hash = hr_hash(m.subject, m.subject_len, l.interest.seed)
    cdef char first
    m.source = l
    m.via = NULL
    l.last_activity = l.router.now
    l.in_msgs += 1
    l.in_bytes += m.body_len
    l.router.in_msgs += 1
    l.router.in_bytes += m.body_len
    if l.flags & LINK_PEDANTIC and not is_valid_subject(m.subject, m.subject_len, True):
        emit(l, b"-ERR 'Invalid Publish Subject'\r\n", 32)
    if l.interest.mapper != NULL:
        plan = plan_at(l.interest, hash, m.subject, m.subject_len)
        if plan.renames:  # from here on the message has the subject it is delivered as
            m.subject = plan.head + 5
            m.subject_len = plan.head_len - 6
            if m.trace != NULL:
                (<object> m.trace).mapped(m.subject[:m.subject_len])
            hash = hr_hash(m.subject, m.subject_len, l.interest.seed)
    if l.publish_permissions != NULL and not is_allowed(
            <PermissionCache> l.publish_permissions, hash, m.subject, m.subject_len):
        if not (<object> l.session).publish_refused(m.subject[:m.subject_len]):
            if m.trace != NULL:
                (<object> m.trace).publish_refused(m.subject[:m.subject_len])
            return 0
    first = m.subject[0]
    if (first == c'_' or first == c'$') and is_reserved_subject(m.subject, m.subject_len):
        (<object> l.session).publish_refused(m.subject[:m.subject_len])
        if m.trace != NULL:
            (<object> m.trace).publish_refused(m.subject[:m.subject_len])
        return 0
    if m.reply_len and (m.reply[0] == c'_' or m.reply[0] == c'$') and is_reserved_reply(m.reply, m.reply_len):
        (<object> l.session).reply_refused(m.reply[:m.reply_len])
        if m.trace != NULL:
            (<object> m.trace).reply_refused(m.reply[:m.reply_len])
        return 0
    if l.flags & LINK_VERBOSE:
        emit(l, b"+OK\r\n", 5)
    if l.router.mapped_replies.count and find_mapped_reply(l.router, l, m):
        plan = plan_for(l.interest, m.subject, m.subject_len)
    if plan == NULL:
        plan = plan_at(l.interest, hash, m.subject, m.subject_len)
    if route(plan, m) == 0 and m.reply_len and l.flags & LINK_NO_RESPONDERS:
        answer_nobody(l, m)
    return 0


cdef inline bint has_header_size(link_t *l, line_t *line, bint headers, msg_t *m, long long size) noexcept:
    """Takes the header size of an HPUB line into the message; False when it is bad."""
    cdef long long header
    m.header_len = 0
    if not headers:
        return True
    if not l.flags & LINK_HEADERS:
        return False
    header = size_of(&line.args[line.count - 2])
    if header < 0 or header > size:
        return False
    m.header_len = <uint32_t> header
    return True


cdef char *publication(link_t *l, char *op, char *args, char *end, size_t *need, bint headers) except NULL:
    """One PUB or HPUB at `op`; returns what follows it, or `op` when it is incomplete."""
    cdef line_t line
    cdef msg_t m
    cdef long long size
    cdef uint32_t fixed = 3 if headers else 2   # arguments without a reply
    if not read_line(l, args, end, &line):
        return op
    split(&line, c' ')
    size = size_of(&line.args[line.count - 1]) if fixed <= line.count <= fixed + 1 else -1
    if size < 0 or not has_header_size(l, &line, headers, &m, size):
        bad_arguments(l, "HeaderPub" if headers else "Pub", &line)
        return op
    m.subject = line.args[0].text
    m.subject_len = line.args[0].len
    m.reply = line.args[1].text
    m.reply_len = line.args[1].len if line.count > fixed else 0
    m.body_len = <uint32_t> size
    m.body = line.next
    if size > l.max_payload and m.header_len:
        trace_too_large(l, &m, end)
    if not has_payload(l, op, line.next, end, size, need):
        return op
    if headers and m.header_len == 0:
        # an empty header block: the message is delivered as if it had been a PUB
        line.args[line.count - 2] = line.args[line.count - 1]
        line.count -= 1
        compose_tail(l, &m, &line, line.count - 1)
    elif is_canonical(&line):
        m.tail = m.subject + m.subject_len + 1
        m.tail_len = (line.next + size + 2) - m.tail
    else:
        compose_tail(l, &m, &line, line.count - (fixed - 1))
    if l.flags & LINK_TRACED:
        (<object> l.session).trace("HPUB" if headers else "PUB", line.start[:line.end - line.start],
                                   m.body[:m.body_len])
    publish(l, &m)
    return line.next + size + 2


cdef inline bint has_payload(link_t *l, char *op, char *body, char *end, long long size, size_t *need) except -1:
    """True if the size is allowed and the payload with its CRLF is here; else doom the link, or set how many bytes
    are needed.
    """
    if size > l.max_payload:
        emit(l, b"-ERR 'Maximum Payload Violation'\r\n", 34)
        doom(l, REASON_MAX_PAYLOAD)
        return False
    if end - body <= size:
        need[0] = (body - op) + size + 1  # not 2: what cannot be its end is refused as soon as it is there
        return False
    if end - body == size + 1 and body[size] == c'\r':
        need[0] = (body - op) + size + 2
        return False
    if body[size] != c'\r' or body[size + 1] != c'\n':
        unknown_op(l, body, end)
        return False
    return True


cdef inline const char *skip_word(const char *p, const char *end) noexcept:
    while p < end and <unsigned char> p[0] > 32:
        p += 1
    return p


cdef inline char *plain_publication(link_t *l, char *op, char *end, size_t *need) except? NULL:
    """A PUB in canonical form ("PUB subject [reply] size CRLF", single spaces) in one pass over its line.

    Returns what follows it, `op` when its payload is incomplete, NULL when the general form has to look.
    """
    cdef msg_t m
    cdef const char *at = skip_word(op + 4, end)
    cdef const char *digits
    cdef long long size = 0
    m.subject = op + 4
    m.subject_len = <uint32_t> (at - m.subject)
    m.tail = m.reply = at + 1
    m.reply_len = 0
    digits = at + 1
    at = skip_word(digits, end)
    if end - at > 1 and at[0] == c' ':
        m.reply_len = <uint32_t> (at - m.reply)
        digits = at + 1
        at = skip_word(digits, end)
    if end - at < 2 or at[0] != c'\r' or at[1] != c'\n' or at - digits > MOST_SIZE_DIGITS or at == digits \
            or m.subject_len == 0 or (m.tail - 1)[0] != c' ' or (digits - 1)[0] != c' ' or at - m.subject > l.max_control_line \
            or (m.reply_len == 0 and digits != m.reply):
        return NULL
    while digits < at:
        if digits[0] < c'0' or digits[0] > c'9':
            return NULL
        size = 10 * size + (digits[0] - c'0')
        digits += 1
    m.body = at + 2
    if not has_payload(l, op, <char *> m.body, end, size, need):
        return op
    m.header_len = 0
    m.body_len = <uint32_t> size
    m.tail_len = (m.body + size + 2) - m.tail
    publish(l, &m)
    return <char *> m.body + size + 2


# ---- SUB and UNSUB ------------------------------------------------------------------------------

cdef sub_t *find_sid(link_t *l, const char *sid, uint32_t n, uint32_t hash) noexcept:
    cdef uint32_t mask = l.sids_cap - 1, i = hash & mask
    cdef sub_t *s
    if l.sids == NULL:
        return NULL
    while True:
        s = l.sids[i]
        if s == NULL or s.hash == hash and s.sid_len == n and memcmp(s.text, sid, n) == 0:
            return s
        i = (i + 1) & mask


cdef void place_sid(sub_t **table, uint32_t cap, sub_t *s) noexcept:
    cdef uint32_t i = s.hash & (cap - 1)
    while table[i] != NULL:
        i = (i + 1) & (cap - 1)
    table[i] = s


cdef int add_sid(link_t *l, sub_t *s) except -1:
    cdef uint32_t cap, i
    cdef sub_t **table
    if 4 * (l.sids_count + 1) > 3 * l.sids_cap:
        cap = max(4, 2 * l.sids_cap)
        table = <sub_t **> take(cap * sizeof(sub_t *))
        memset(table, 0, cap * sizeof(sub_t *))
        for i in range(l.sids_cap):
            if l.sids[i] != NULL:
                place_sid(table, cap, l.sids[i])
        give(l.sids)
        l.sids = table
        l.sids_cap = cap
    place_sid(l.sids, l.sids_cap, s)
    l.sids_count += 1
    return 0


cdef sub_t *new_sub(link_t *l, word_t *subject, word_t *queue, word_t *sid, uint32_t hash) except NULL:
    cdef uint32_t queue_len = queue.len if queue != NULL else 0
    cdef sub_t *s = <sub_t *> take(sizeof(sub_t) + sid.len + 1 + subject.len + queue_len + HR_PAD)
    memset(s, 0, sizeof(sub_t))
    live.subs += 1
    s.link = l
    s.hash = hash
    s.sid_len = sid.len
    s.subject_len = subject.len
    s.queue_len = queue_len
    memcpy(s.text, sid.text, sid.len)
    s.text[sid.len] = c' '
    s.subject = s.text + sid.len + 1
    memcpy(s.subject, subject.text, subject.len)
    s.queue = s.subject + subject.len
    if queue_len:
        memcpy(s.queue, queue.text, queue_len)
    return s


cdef sub_t *sub_named(link_t *l, bytes sid) noexcept:
    """The subscription of a sid; NULL: there is none."""
    cdef const char *at = PyBytes_AS_STRING(sid)
    cdef uint32_t n = <uint32_t> PyBytes_GET_SIZE(sid)
    return find_sid(l, at, n, <uint32_t> hr_hash(at, n, l.interest.seed))


cdef sub_t *hang_sub(link_t *l, word_t *subject, word_t *queue, word_t *sid, uint32_t hash, uint32_t flags) except NULL:
    """A new subscription where messages find it. The subject is valid, and the sid is not in use."""
    cdef sub_t *s = new_sub(l, subject, queue, sid, hash)
    s.flags |= flags
    add_sid(l, s)
    insert(l.interest, s)
    if l.interest.imports != NULL:
        hang_shadows(s)
    return s


cdef uint32_t tokens_in(word_t *subject) noexcept:
    cdef uint32_t i, n = 1
    for i in range(subject.len):
        n += subject.text[i] == c'.'
    return n


cdef int say_too_many_tokens(link_t *l, word_t *subject) except -1:
    text = b"-ERR 'Permissions Violation for Subscription to \"%b\", too many tokens'\r\n" % subject.text[:subject.len]
    emit(l, text, len(text))
    return 0


cdef int subscribe(link_t *l, line_t *line) except -1:
    cdef word_t *subject = &line.args[0]
    cdef word_t *queue = &line.args[1] if line.count == 3 else NULL
    cdef word_t *sid = &line.args[line.count - 1]
    cdef int allowed = 1
    cdef uint32_t hash
    if l.flags & LINK_CHECKS_SUBSCRIBE:
        allowed = (<object> l.session).subscribe_permission(
            subject.text[:subject.len], None if queue == NULL else queue.text[:queue.len])
        if not allowed:
            return 0
    if l.max_subscription_tokens and tokens_in(subject) > l.max_subscription_tokens:
        return say_too_many_tokens(l, subject)
    if l.max_subscriptions and l.sids_count >= l.max_subscriptions:
        emit(l, b"-ERR 'maximum subscriptions exceeded'\r\n", 39)
        (<object> l.session).subscriptions_exceeded()
        return 0
    hash = <uint32_t> hr_hash(sid.text, sid.len, l.interest.seed)
    if find_sid(l, sid.text, sid.len, hash) == NULL:
        if not is_valid_subject(subject.text, subject.len, False):
            emit(l, b"-ERR 'Invalid Subject'\r\n", 24)
            return 0
        hang_sub(l, subject, queue, sid, hash, SUB_FILTERED if allowed == 2 else 0)
    if l.flags & LINK_VERBOSE:
        emit(l, b"+OK\r\n", 5)
    return 0


cdef int unsubscribe(link_t *l, line_t *line) except -1:
    cdef word_t *sid = &line.args[0]
    cdef long long limit = size_of(&line.args[1]) if line.count == 2 else 0
    cdef sub_t *s = find_sid(l, sid.text, sid.len, <uint32_t> hr_hash(sid.text, sid.len, l.interest.seed))
    if s != NULL:
        if limit > 0 and <uint64_t> limit > s.delivered:
            s.quota.limit = limit
            s.flags |= SUB_LIMITED
            if s.interest.listeners_count:
                tell_limit(s.interest, s)
        else:
            remove_sub(s)
    if l.flags & LINK_VERBOSE:
        emit(l, b"+OK\r\n", 5)
    return 0


# ---- everything else ----------------------------------------------------------------------------

cdef int ping(link_t *l) except -1:
    emit(l, b"PONG\r\n", 6)
    if l.flags & LINK_PING_INFO:
        l.flags &= ~<uint32_t> LINK_PING_INFO
        (<object> l.session).first_ping()
    return 0


cdef bytes trimmed(line_t *line):
    return line.start[:line.end - line.start].strip(b" \t\r")


cdef int control(link_t *l, int op, line_t *line) except -1:
    """A complete control line without payload."""
    cdef object session = <object> l.session
    if op != OP_PONG:
        l.last_activity = l.router.now
    if op == OP_PING:
        ping(l)
    elif op == OP_PONG:
        session.pong()
    elif op == OP_SUB or op == OP_UNSUB:
        split(line, c'\r')
        if op == OP_SUB:
            if 2 <= line.count <= 3:
                return subscribe(l, line)
            return bad_arguments(l, "Sub", line)
        if 1 <= line.count <= 2:
            return unsubscribe(l, line)
        return bad_arguments(l, "Unsub", line)
    elif op == OP_CONNECT:
        session.connect(trimmed(line))
    elif op == OP_INFO:
        session.peer_info(trimmed(line))
    elif op == OP_ERR:
        session.peer_error(trimmed(line))
        doom(l, REASON_PARSE_ERROR)
    return 0


cdef str name_of(int op):
    return {OP_PUB: "PUB", OP_HPUB: "HPUB", OP_SUB: "SUB", OP_UNSUB: "UNSUB", OP_PING: "PING", OP_PONG: "PONG",
            OP_CONNECT: "CONNECT", OP_INFO: "INFO", OP_OK: "+OK", OP_ERR: "-ERR"}[op]


cdef char *general(link_t *l, char *p, char *end, size_t *need) except NULL:
    """One op of any kind; returns what follows it, or `p` when it is incomplete or the link is doomed."""
    cdef uint32_t length = 0
    cdef int op = op_at(p, end, &length)
    cdef char *args = p + length
    cdef line_t line
    if not is_op(l, op, op <= OP_UNSUB or op == OP_ERR, p, args, end):
        return p
    if op == OP_PUB or op == OP_HPUB:
        return publication(l, p, args, end, need, op == OP_HPUB)
    if op == OP_PING or op == OP_PONG or op == OP_OK:
        p = read_open_line(l, p, length, end, &line)
        if p != line.next:
            return p
    elif not read_line(l, args, end, &line):
        return p
    if l.flags & LINK_TRACED and op != OP_CONNECT:  # a CONNECT holds secrets: the session traces it itself
        (<object> l.session).trace(name_of(op), trimmed(&line), None)
    control(l, op, &line)
    return line.next


cdef char *parse_client(link_t *l, char *p, char *end, size_t *need) except NULL:
    """Carries out every complete op; returns the first byte that was not used."""
    cdef char *following
    while p < end and not l.flags & (LINK_CLOSING | LINK_HELD):
        if l.flags & LINK_MUST_CONNECT and p[0] != c'C' and p[0] != c'c':
            (<object> l.session).op_before_connect()
            if l.flags & LINK_MUST_CONNECT:
                HR_GUARD(l.flags & LINK_CLOSING)
                return p
            continue
        if end - p > 4 and (p[0] & 0xDF) == c'P' and (p[1] & 0xDF) == c'U' and (p[2] & 0xDF) == c'B' \
                and p[3] == c' ' and not l.flags & LINK_TRACED:
            following = plain_publication(l, p, end, need)
            if following == NULL:
                following = general(l, p, end, need)
        else:
            following = general(l, p, end, need)
        if following == p:
            return p
        p = following
    return p


cdef class ClientLink(Link):
    """A client connection. Options stand at the protocol's defaults until `configure` is called."""

    def __cinit__(self, *_args, uint32_t max_payload=1 << 20, uint32_t max_control_line=4096,
                  uint32_t max_subscriptions=0, uint32_t max_subscription_tokens=0, bint must_connect=False):
        self.c.parse = parse_client
        self.c.max_payload = max_payload
        self.c.max_control_line = max_control_line
        self.c.max_subscriptions = max_subscriptions
        self.c.max_subscription_tokens = max_subscription_tokens
        self.c.flags |= LINK_VERBOSE | LINK_PEDANTIC
        if must_connect:
            self.c.flags |= LINK_MUST_CONNECT

    def configure(self, *, bint verbose, bint pedantic, bint echo, bint headers, bint no_responders, bint info_on_ping):
        """The options of a CONNECT that was accepted; authentication is no longer due."""
        self._set_flag(LINK_VERBOSE, verbose)
        self._set_flag(LINK_PEDANTIC, pedantic)
        self._set_flag(LINK_NO_ECHO, not echo)
        self._set_flag(LINK_HEADERS, headers)
        self._set_flag(LINK_NO_RESPONDERS, no_responders)
        self._set_flag(LINK_PING_INFO, info_on_ping)
        self._set_flag(LINK_MUST_CONNECT, False)

    def limit(self, *, uint32_t max_payload, uint32_t max_subscriptions):
        """Limits of the account it is in now: payload bytes, and subscriptions (0: as many as it likes)."""
        self.c.max_payload = max_payload
        self.c.max_subscriptions = max_subscriptions

    def limit_ops(self, *, uint32_t max_control_line, uint32_t max_subscription_tokens):
        """Limits of the server for what comes from now on; 0 tokens: as many as it likes."""
        self.c.max_control_line = max_control_line
        self.c.max_subscription_tokens = max_subscription_tokens

    def adopt(self):
        """Authentication is no longer due; the options stay as they are, and the next PING is the first one."""
        self._set_flag(LINK_MUST_CONNECT, False)
        self._set_flag(LINK_PING_INFO, True)

    def demand_connect(self):
        """The next op must be a CONNECT, as that of a new connection."""
        self._set_flag(LINK_MUST_CONNECT, True)

    def restrict(self, publish_permissions, deliver_permissions, bint checks_subscribe, bint tracks_replies):
        """Installs (or with None removes) the memory of permission answers."""
        if publish_permissions is not None and not isinstance(publish_permissions, PermissionCache):
            raise TypeError("publish_permissions must be a PermissionCache")
        if deliver_permissions is not None and not isinstance(deliver_permissions, PermissionCache):
            raise TypeError("deliver_permissions must be a PermissionCache")
        self._publish_permissions = publish_permissions
        self._deliver_permissions = deliver_permissions
        self.c.publish_permissions = NULL if publish_permissions is None else <PyObject *> publish_permissions
        self.c.deliver_permissions = NULL if deliver_permissions is None else <PyObject *> deliver_permissions
        self._set_flag(LINK_CHECKS_SUBSCRIBE, checks_subscribe)
        self._set_flag(LINK_TRACKS_REPLIES, tracks_replies)

    @property
    def max_payload(self):
        return self.c.max_payload

    @property
    def echo(self):
        return not self.c.flags & LINK_NO_ECHO

    @property
    def has_headers(self):
        return bool(self.c.flags & LINK_HEADERS)

    def judge_subscriptions(self, judge):
        """Asks `judge(subject, queue or None)` about each subscription, as about a new one: it answers 0 when it
        may not be any more, and is removed, 2 when each delivery is checked, 1 when none needs to be.

        Returns what was removed as (subject, queue or None, sid).
        """
        cdef list removed = []
        cdef bytes queue
        cdef sub_t *s
        cdef sub_t *shadow
        cdef uint32_t i = 0
        while i < self.c.sids_cap:
            s = self.c.sids[i]
            i += 1
            if s == NULL:
                continue
            queue = s.queue[:s.queue_len] if s.queue_len else None
            answer = judge(s.subject[:s.subject_len], queue)
            if not answer:
                removed.append((s.subject[:s.subject_len], queue, s.text[:s.sid_len]))
                continue
            shadow = s
            while shadow != NULL:
                shadow.flags = shadow.flags | SUB_FILTERED if answer == 2 else shadow.flags & ~<uint32_t> SUB_FILTERED
                shadow = shadow.shadows
        for _, _, sid in removed:  # afterwards: the gap of one that goes is filled by others
            self._remove(sid)
        return removed

    cdef _remove(self, bytes sid):
        remove_sub(sub_named(&self.c, sid))

    def drop_subscriptions(self):
        """Removes every subscription, as a second CONNECT does."""
        cdef uint32_t i
        for i in range(self.c.sids_cap):
            while self.c.sids[i] != NULL:  # another may move into the gap
                remove_sub(self.c.sids[i])
