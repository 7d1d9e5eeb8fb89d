# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages that are traced: what becomes of them on this server is told to a trace, and some are not delivered.

Whether a message is traced says the router's `tracer`, who alone knows what headers and events mean. It is asked
about messages of clients and of other servers that have a header `Nats-Trace-Dest`, or a `traceparent` in an
account that wants those:

    begin(session, account, (subject, headers, size), error)     account: its name, None for one that is not
                                                                 known here; error: None, or why the message is
                                                                 refused already. Answers None (go on), True (drop
                                                                 it), bytes (go on with these headers), or a trace

A trace (`msg_t.trace`) lives as long as the message is routed. It is told what happens, and answers

    is_only                            nothing is to be delivered; it would have been, is all that counts
    mapped(subject), publish_refused(subject), reply_refused(reply)
    egress(session, account, subscription, queue, error)     a connection got it, or did not for that reason
    stream_export(account, subject, allows)                  it is about to pass into that account
    service_import(account, subject, to), dest, hops, redirected(headers, subject)      see service_imports.pyx
    next_hop(headers)                  the headers for the next server it goes to
    finish()                           it has been routed

and sessions of services `take_trace(trace, sid, subject)`: a `core.service.Taking`. What costs something here
is only done for messages that are traced; others pay for `is_marked` where they have headers at all.
Source: ADR-41 of NATS, nats-server 2.15.1.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
from libc.string cimport memchr, memcmp

from headrace.engine.header_rewrite cimport change_headers
from headrace.engine.stream_imports cimport StreamImport, rename
from headrace.engine.structs cimport (
    REMOTE_LEAF, LINK_CLOSING, LINK_CONGESTED, LINK_NO_ECHO, LINK_SERVICE, SUB_FILTERED, SUB_PASSES_ON, SUB_REMOVED,
    SUB_SHADOW, interest_t, link_t, msg_t, sub_t,
)
from headrace.engine.permission_cache cimport allows

cdef enum:
    BEFORE_D = 12            # "\nNats-Trace-"
    FROM_D = 5               # "Dest:"
    EXTERNAL_LEN = 12        # "traceparent:"

cdef enum:
    # What a service's session answers to `take_trace`. Mirrors core.service.Taking.
    AS_A_CLIENT = 0
    SILENT = 1
    TRACED = 2
    REFUSED = 3

NO_ECHO = "Not delivered because of no echo"
SUB_DENIED = "Not delivered because subscription denies this subject"
SUB_CLOSED = "Not delivered because subscription is closed"
CLIENT_CLOSED = "Not delivered because client is closed"
FAST_PRODUCER = "Not delivered because fast producer not stalled and consumer is slow"
PUBLISH_DENIED = "Not delivered because publish denied for this subject"
UNSUPPORTED = "Message delivered but remote does not support message tracing so no trace event generated from there"
ONLY_UNSUPPORTED = "Not delivered because remote does not support message tracing"


# ---- which messages -----------------------------------------------------------------------------

cdef bint is_external(const char *at) noexcept:
    """True if a line begins with `traceparent:`, in any case."""
    cdef const char *wanted = b"traceparent"
    cdef uint32_t i
    for i in range(EXTERNAL_LEN - 1):
        if (at[i] | 0x20) != wanted[i]:
            return False
    return at[EXTERNAL_LEN - 1] == c':'


cdef bint has_external(const char *block, uint32_t n) noexcept:
    """True if any line of a header block begins with `traceparent:`."""
    cdef const char *end = block + n
    cdef const char *at = <const char *> memchr(block, c'\n', n)
    while at != NULL:
        at += 1
        if end - at < EXTERNAL_LEN:
            return False
        if is_external(at):
            return True
        at = <const char *> memchr(at, c'\n', end - at)
    return False


cdef bint is_marked(const char *block, uint32_t n, bint external) noexcept:
    """True if a line of a header block begins with the name of a tracing header. It may be no block at all.

    It is the D that is looked for: few blocks have many, so that most are looked through in one go.
    """
    cdef const char *end = block + n
    cdef const char *at = <const char *> memchr(block, c'D', n)
    while at != NULL:
        if at - block >= BEFORE_D and end - at >= FROM_D \
                and memcmp(at - BEFORE_D, b"\nNats-Trace-Dest:", BEFORE_D + FROM_D) == 0:
            return True
        at += 1
        at = <const char *> memchr(at, c'D', end - at)
    return external and has_external(block, n)


cdef bint open_trace(link_t *l, interest_t *it, msg_t *m, list kept) except -1:
    """Begins the trace of a message, if it is to have one; False: it is not to be carried.

    What the message is made of from then on is put into `kept`, which must last until `close_trace`.
    """
    cdef bytes account = None if it == NULL else it.account[:it.account_len]
    opened = (<object> l.router.tracer).begin(
        <object> l.session, account, (m.subject[:m.subject_len], m.body[:m.header_len], m.body_len), None)
    if opened is None:
        return True
    if opened is True:
        return False
    if isinstance(opened, bytes):
        kept.append(change_headers(m, opened))
        return True
    kept.append(opened)
    m.trace = <PyObject *> opened
    return True


cdef int close_trace(msg_t *m) except -1:
    """The message has been routed."""
    cdef PyObject *trace = m.trace
    if trace != NULL:
        m.trace = NULL
        (<object> trace).finish()
    return 0


# ---- receivers here -----------------------------------------------------------------------------

cdef int judge_traced(sub_t *s, msg_t *m) except -1:
    """Decide the delivery of a traced message to a local subscription, and tell the trace."""
    cdef link_t *l = s.link
    cdef msg_t seen = m[0]
    cdef object trace = <object> m.trace
    cdef const char *head
    cdef size_t head_len
    if s.flags & SUB_SHADOW:
        if m.via != NULL:  # a request to a service is no part of an exported stream
            return TRACE_REFUSED
        rename(s, m, &head, &head_len)
        seen.subject = head + 5
        seen.subject_len = <uint32_t> head_len - 6
        if not trace.stream_export(account_of(l), seen.subject[:seen.subject_len], (<StreamImport> s.shadow.via).traces):
            return TRACE_TAKEN if trace.is_only else TRACE_UNSEEN
    if l.flags & LINK_SERVICE:
        if s.flags & SUB_PASSES_ON:
            return TRACE_DELIVER
        answer = (<object> l.session).take_trace(trace, int(s.text[:s.sid_len]), seen.subject[:seen.subject_len])
        if answer != AS_A_CLIENT:
            return {SILENT: TRACE_UNSEEN, TRACED: TRACE_DELIVER, REFUSED: TRACE_REFUSED}[answer]
    error = refusal(s, &seen)
    trace.egress(<object> l.session, account_of(l), s.subject[:s.subject_len], s.queue[:s.queue_len], error)
    if error is not None:
        return TRACE_REFUSED
    if trace.is_only:
        return TRACE_TAKEN
    return TRACE_UNSEEN if l.flags & LINK_SERVICE else TRACE_DELIVER


cdef str refusal(sub_t *s, msg_t *m):
    """Why a local subscription does not get a message; None: it does."""
    cdef link_t *l = s.link
    if l.flags & LINK_NO_ECHO and m.source == l:
        return NO_ECHO
    if s.flags & SUB_FILTERED and not (allows(s, m.subject, m.subject_len) and (
            m.head == NULL or allows(s, m.head + 5, m.head_len - 6))):
        return SUB_DENIED
    if s.flags & SUB_REMOVED:
        return SUB_CLOSED
    if l.flags & LINK_CLOSING:
        return CLIENT_CLOSED
    if l.flags & LINK_CONGESTED and m.source.remote == NULL and l.router.drops_when_congested \
            and not (<object> m.trace).is_only:
        return FAST_PRODUCER
    return None


cdef bytes account_of(link_t *l):
    return b"" if l.interest == NULL else l.interest.account[:l.interest.account_len]


# ---- other servers ------------------------------------------------------------------------------

cdef bytes begin_hop(link_t *l, msg_t *m, msg_t *hop):
    """`hop` becomes the message as it goes to another server, made of the bytes given back.

    None: it may not go there, since that server would not know that nothing is to be delivered.
    """
    cdef object trace = <object> m.trace
    cdef bytes headers = trace.next_hop(m.body[:m.header_len])
    hop[0] = m[0]
    hop.trace = NULL
    if trace.is_only and not l.remote.traces:
        tell_hop(l, m, ONLY_UNSUPPORTED)
        return None
    return change_headers(hop, headers)


cdef int end_hop(link_t *l, msg_t *m, bint is_sent) except -1:
    """End a hop that `begin_hop` has made: it was sent, or not."""
    if is_sent:
        return tell_hop(l, m, None if l.remote.traces else UNSUPPORTED)
    if l.flags & LINK_CLOSING:
        return tell_hop(l, m, CLIENT_CLOSED)
    return tell_hop(l, m, FAST_PRODUCER)


cdef int refuse_hop(link_t *l, msg_t *m) except -1:
    """The message may not go to another server."""
    (<object> m.trace).next_hop(m.body[:m.header_len])
    return tell_hop(l, m, PUBLISH_DENIED)


cdef int tell_hop(link_t *l, msg_t *m, str error) except -1:
    (<object> m.trace).egress(<object> l.session, account_of(l) if l.remote.kind == REMOTE_LEAF else None, b"", b"", error)
    return 0
