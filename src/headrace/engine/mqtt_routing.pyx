# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages of a client of MQTT on their way to the router.

A packet is no frame of NATS, so each message is composed once, with the header block that says it is one of MQTT.
What a client publishes is counted, mapped, judged and delivered as if it had been a PUB; what its connection itself
has to say goes to subjects that no client may use, and is none of that.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from headrace.engine.batches cimport put_size
from headrace.engine.client cimport is_reserved_reply, is_reserved_subject
from headrace.engine.delivery cimport route
from headrace.engine.interest cimport plan_at, plan_for, unmapped_plan
from headrace.engine.memory cimport buf_free, buf_reserve
from headrace.engine.permission_cache cimport PermissionCache, is_allowed
from headrace.engine.reply_mapping cimport find_mapped_reply
from headrace.engine.structs cimport HR_GUARD, buf_t, hr_hash, link_t, msg_t, plan_t, router_t
from headrace.engine.tracing cimport asks_for_trace, close_trace, open_trace

cdef enum:
    NUMBER = 11                  # digits of a uint32, and a blank
    KEPT_SCRATCH = 2 << 20       # one that is larger is given back


cdef buf_t borrow_scratch(router_t *r) noexcept:
    """The router's scratch buffer, empty. Who composes another message meanwhile gets one of its own."""
    cdef buf_t b = r.scratch
    memset(&r.scratch, 0, sizeof(buf_t))
    b.start = b.end = 0
    return b


cdef void return_scratch(router_t *r, buf_t *b) noexcept:
    if r.scratch.data == NULL and b.cap <= KEPT_SCRATCH:
        r.scratch = b[0]
    else:
        buf_free(b)


cdef inline uint32_t header_size(parts_t *parts) noexcept:
    return parts.lines.len if parts.quality == RAW_HEADERS else PLAIN_HEADERS + parts.lines.len


cdef size_t composed_size(parts_t *parts) noexcept:
    """Bytes that `compose` needs at most."""
    return <size_t> parts.reply.len + 1 + 2 * NUMBER + 4 + header_size(parts) + parts.payload_len


cdef int compose(buf_t *b, msg_t *m, parts_t *parts) except -1:
    """Appends the tail of a message's frame to a buffer, and points the message to it. The subject is the caller's."""
    cdef uint32_t header_len = header_size(parts)
    cdef char *at
    cdef char *begin
    buf_reserve(b, composed_size(parts))
    at = begin = b.data + b.end
    m.reply = at
    m.reply_len = parts.reply.len
    if parts.reply.len:
        memcpy(at, parts.reply.text, parts.reply.len)
        at[parts.reply.len] = c' '
        at += parts.reply.len + 1
    if header_len:
        at = put_size(at, header_len)
        at[0] = c' '
        at += 1
    at = put_size(at, header_len + parts.payload_len)
    memcpy(at, b"\r\n", 2)
    at += 2
    m.body = at
    if parts.quality != RAW_HEADERS:
        memcpy(at, b"NATS/1.0\r\nNmqtt-Pub:0\r\n", 23)
        at[20] = <char> (c'0' + parts.quality)
        at += 23
    if parts.lines.len:
        memcpy(at, parts.lines.text, parts.lines.len)
        at += parts.lines.len
    if parts.quality != RAW_HEADERS:
        memcpy(at, b"\r\n", 2)
        at += 2
    if parts.payload_len:
        memcpy(at, parts.payload, parts.payload_len)
        at += parts.payload_len
    memcpy(at, b"\r\n", 2)
    at += 2
    m.tail = begin
    m.tail_len = at - begin
    m.header_len = header_len
    m.body_len = header_len + parts.payload_len
    m.plain_tail = NULL
    b.end = at - b.data
    HR_GUARD(b.end <= b.cap)
    return 0


cdef bint is_permitted(link_t *l, const char *subject, uint32_t n, uint64_t hash) except -1:
    """True if a client may publish to a subject; else its session knows."""
    if l.publish_permissions != NULL and not is_allowed(<PermissionCache> l.publish_permissions, hash, subject, n):
        if not (<object> l.session).publish_refused(subject[:n]):
            return False
    if subject[0] in (c'_', c'$') and is_reserved_subject(subject, n):
        (<object> l.session).publish_refused(subject[:n])
        return False
    return True


cdef bint may_publish(link_t *l, const char *subject, uint32_t n) except -1:
    """True if a client may publish to a subject that no mapping is for; else its session knows."""
    return is_permitted(l, subject, n, hr_hash(subject, n, l.interest.seed))


cdef int carry(link_t *l, msg_t *m) except -1:
    """A publication: counted, mapped, judged, delivered. 0: it may not be published; the session knows.

    The message has the subject it was delivered as then, which is valid until the next look-up.
    """
    cdef plan_t *plan = NULL
    cdef uint64_t hash = hr_hash(m.subject, m.subject_len, l.interest.seed)
    l.in_msgs += 1
    l.in_bytes += m.body_len
    l.router.in_msgs += 1
    l.router.in_bytes += m.body_len
    if l.interest.mapper != NULL:
        plan = plan_at(l.interest, hash, m.subject, m.subject_len)
        if plan.renames:
            m.subject = plan.head + 5
            m.subject_len = plan.head_len - 6
            if m.trace != NULL:
                (<object> m.trace).mapped(m.subject[:m.subject_len])
            hash = hr_hash(m.subject, m.subject_len, l.interest.seed)
    if not is_permitted(l, m.subject, m.subject_len, hash):
        return refuse(m)
    if m.reply_len and is_reserved_reply(m.reply, m.reply_len):
        (<object> l.session).reply_refused(m.reply[:m.reply_len])
        if m.trace != NULL:
            (<object> m.trace).reply_refused(m.reply[:m.reply_len])
        return 0
    if l.router.mapped_replies.count and find_mapped_reply(l.router, l, m):
        plan = plan_for(l.interest, m.subject, m.subject_len)
    if plan == NULL:
        plan = plan_at(l.interest, hash, m.subject, m.subject_len)
    route(plan, m)
    return 1


cdef int refuse(msg_t *m) except -1:
    if m.trace != NULL:
        (<object> m.trace).publish_refused(m.subject[:m.subject_len])
    return 0


cdef int carry_traced(link_t *l, msg_t *m) except -1:
    """One that may want to be traced, and perhaps nothing else."""
    cdef list kept = []
    if not open_trace(l, l.interest, m, kept):
        return 1
    try:
        return carry(l, m)
    finally:
        close_trace(m)


cdef int carry_publication(link_t *l, msg_t *m) except -1:
    """`carry`, and a message that asks for it is traced."""
    m.source = l
    m.via = NULL
    m.trace = NULL
    m.head = NULL
    return carry_traced(l, m) if asks_for_trace(l, l.interest, m) else carry(l, m)


cdef int route_inside(link_t *l, msg_t *m) except -1:
    """Routes what the connection itself has to say: nobody is asked, nothing is mapped. Gives how many got it."""
    cdef link_t *parsing = l.router.parsing
    cdef plan_t *plan
    m.source = l
    m.via = NULL
    m.trace = NULL
    m.head = NULL
    if parsing == NULL:
        l.router.parsing = l  # nothing that is in use may go meanwhile
    try:
        plan = unmapped_plan(l.interest, m.subject, m.subject_len)
        return route(plan, m)
    finally:
        l.router.parsing = parsing


cdef int publish_inside(link_t *l, const char *subject, uint32_t n, parts_t *parts) except -1:
    """Composes and routes a message of the connection itself."""
    cdef buf_t b = borrow_scratch(l.router)
    cdef msg_t m
    try:
        compose(&b, &m, parts)
        m.subject = subject
        m.subject_len = n
        return route_inside(l, &m)
    finally:
        return_scratch(l.router, &b)
