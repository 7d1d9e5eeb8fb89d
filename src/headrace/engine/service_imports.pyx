# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Service imports: requests pass into the account that answers them, and responses come back.

Every account has one link of this kind. In the importing account it subscribes to the local subject of each
import; what it accepts is routed at once, in the same call, to whoever has that service in the exporting
account, with a reply subject `_R_.<account>.<random>` that only that account's link listens to. A response to
it is routed to the original reply subject in the account the request came from. So a requester that asked for
it is told at once when nobody is there, as in one account.

Other servers: a request is passed on where it was published, so one that comes over a route or a gateway is not.
They know of the reply subjects here (as of any subscription), not of the local subjects of imports.

What is awaited is bounded in number and time; who may import what, and clocks, live elsewhere. A request is
never passed through one export twice, nor through more than SERVICE_CHAIN accounts.

A request that is traced (tracing.pyx) is so in the exporting account if the export allows it. What other servers
have to say of it there comes to a reply subject too, and goes where traces are wanted.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp

from headrace.engine.client cimport add_sid, new_sub, sub_named
from headrace.engine.delivery cimport remove_sub, route, route_remote
from headrace.engine.interest cimport pin, plan_for, unpin
from headrace.engine.link cimport Link
from headrace.engine.header_rewrite cimport tail_of
from headrace.engine.structs cimport (
    REMOTE_LEAF, HR_PAD, LINK_SERVICE, SUB_LOCAL, SUB_PASSES_ON, hr_hash, link_t, match_t, msg_t, plan_t, sub_t, via_t, word_t,
)
from headrace.engine.trie cimport insert

from headrace.limits import SERVICE_CHAIN as _CHAIN, SERVICE_RESPONSES as _RESPONSES

cdef enum:
    SUFFIX_BYTES = 9         # of randomness in a reply subject: too many to guess
    POOL_BYTES = 9 * 256     # randomness is fetched this much at a time
    NOBODY_THERE = 503       # what a meter is told of a request without a response
    NEVER_CAME = 504

cdef uint32_t most_accounts = _CHAIN
cdef Py_ssize_t most_awaited = _RESPONSES

cdef class ServiceImport:
    """A service of another account. `subjects.to_exported(subject)` gives what a local subject is called there.

    `export` is the same object for every import of one export. `is_single`: one response ends a request; else an
    empty one does, or `threshold_ns` without any. `shares`: the service is told who asks. `traces`: whoever traces a
    request may see who gets it there. `meter`, when there is one, is asked with each request: `begins(who asks, headers, has_reply=)` gives None or what is told
    `answered(session of the responder)`, or `failed(status)`.
    """

    cdef readonly AccountLink exporter
    cdef readonly object export
    cdef object _subjects
    cdef bint _is_single
    cdef bint _shares
    cdef bint _traces
    cdef int64_t _threshold_ns
    cdef object _meter
    cdef dict _awaited           # reply subject -> Response, the one that expires first in front

    def __cinit__(self, AccountLink exporter not None, subjects, export, **rules):
        self.exporter = exporter
        self._subjects = subjects
        self._awaited = {}
        self.change(export, **rules)

    def change(self, export, *, bint is_single=True, bint shares=False, bint traces=False,
               int64_t threshold_ns=120_000_000_000, meter=None):
        """Change the settings of the import, for requests under way too; a measurement stays with the meter that
        began it.
        """
        self.export = export
        self._is_single = is_single
        self._shares = shares
        self._traces = traces
        self._threshold_ns = threshold_ns
        self._meter = meter

    @property
    def awaited(self):
        """The number of requests, or answers to responses, that may still get a response."""
        return len(self._awaited)

    def expire(self, int64_t now):
        """Gives up what nothing was heard of for the threshold; `now` is the router's."""
        cdef Response response
        while self._awaited:
            response = next(iter(self._awaited.values()))
            if now - response.heard < self._threshold_ns:
                return
            response.give_up(NEVER_CAME)

    def close(self):
        """The import ends: whoever waits for a response gets none."""
        while self._awaited:
            (<Response> next(iter(self._awaited.values()))).give_up(NEVER_CAME)


cdef class Response:
    """One reply subject that `holder` listens to: what comes there goes to `reply` in the account of `target`."""

    cdef AccountLink holder
    cdef AccountLink target
    cdef ServiceImport service
    cdef bytes key
    cdef bytes reply
    cdef object measured         # a meter's, until it has been told
    cdef bint is_trace           # what comes is what other servers say of a message that is traced
    cdef int64_t heard           # the router's time of the request or of the last response

    cdef forget(self):
        self.holder._responses.pop(self.key, None)
        self.service._awaited.pop(self.key, None)

    cdef give_up(self, int status):
        """Forgets it for want of a response."""
        cdef object measured = self.measured
        self.forget()
        self.measured = None
        if measured is not None:
            measured.failed(status)

    cdef refresh(self, int64_t now):
        self.heard = now
        if self.service._awaited.pop(self.key, None) is not None:
            self.service._awaited[self.key] = self


cdef class AccountLink(Link):
    """The link of one account through which services are passed on. Its session answers `failed(error)`."""

    cdef readonly str name
    cdef list _services          # the one with sid n at n - 1, None where one was removed
    cdef dict _responses
    cdef bytes _prefix           # of the reply subjects here, b"" until one is needed
    cdef bytes _pool
    cdef Py_ssize_t _pool_at

    def __cinit__(self, _router, _session, str name not None):
        self.name = name
        self._services = []
        self._responses = {}
        self._prefix = b""
        self._pool = b""
        self.c.flags |= LINK_SERVICE
        self.c.accept = accept

    @property
    def services(self):
        """The service imports of this account, a tuple of ServiceImport."""
        return tuple([service for service in self._services if service is not None])

    @property
    def awaited(self):
        """The number of reply subjects of this account that are listened to."""
        return len(self._responses)

    def add(self, bytes local not None, ServiceImport service not None):
        """Imports a service: requests to `local` (a valid subject, perhaps with wildcards) go there."""
        cdef Py_ssize_t place = self._services.index(None) if None in self._services else len(self._services)
        self._services[place:place + 1] = [service]
        self._subscribe(local, <uint32_t> place + 1)

    def remove(self, ServiceImport service not None):
        """Imports a service no more. Raises: ValueError for one that is not imported."""
        cdef Py_ssize_t place = self._services.index(service)
        cdef bytes sid = b"%d" % (place + 1)
        remove_sub(sub_named(&self.c, sid))
        self._services[place] = None
        service.close()

    def expire(self, int64_t now):
        """Gives up responses that have not come in time."""
        for service in self.services:
            (<ServiceImport> service).expire(now)

    def close(self):
        """The account ends: nothing is passed on or awaited any more, here and by those who asked here."""
        for service in self.services:
            (<ServiceImport> service).close()
        while self._responses:
            (<Response> next(iter(self._responses.values()))).give_up(NEVER_CAME)
        self.detach()
        self._services.clear()

    cdef _subscribe(self, bytes subject, uint32_t number):
        cdef word_t words[2]
        cdef bytes sid = b"%d" % number
        cdef sub_t *s
        words[0].text = PyBytes_AS_STRING(subject)
        words[0].len = <uint32_t> PyBytes_GET_SIZE(subject)
        words[1].text = PyBytes_AS_STRING(sid)
        words[1].len = <uint32_t> PyBytes_GET_SIZE(sid)
        s = new_sub(&self.c, &words[0], NULL, &words[1],
                    <uint32_t> hr_hash(words[1].text, words[1].len, self.c.interest.seed))
        s.flags |= SUB_PASSES_ON | SUB_LOCAL if number else SUB_PASSES_ON
        add_sid(&self.c, s)
        insert(self.c.interest, s)

    cdef Response _expect(self, ServiceImport service, AccountLink target, bytes reply):
        """A new reply subject here, which leads to `reply` there."""
        cdef Response response = Response()
        if not self._prefix:
            self._prefix = b"_R_." + os.urandom(4).hex().encode() + b"."
            self._subscribe(self._prefix + b">", 0)
        if self._pool_at + SUFFIX_BYTES > PyBytes_GET_SIZE(self._pool):
            self._pool = os.urandom(POOL_BYTES)
            self._pool_at = 0
        response.key = self._prefix + self._pool[self._pool_at:self._pool_at + SUFFIX_BYTES].hex().encode()
        self._pool_at += SUFFIX_BYTES
        response.holder = self
        response.target = target
        response.service = service
        response.reply = reply
        response.heard = self.c.router.now
        if len(service._awaited) >= most_awaited:
            (<Response> next(iter(service._awaited.values()))).give_up(NEVER_CAME)
        self._responses[response.key] = response
        service._awaited[response.key] = response
        return response


cdef inline uint32_t number(const char *digits, uint32_t n) noexcept:
    cdef uint32_t value = 0, i
    for i in range(n):
        value = 10 * value + (digits[i] - c'0')
    return value


cdef int accept(sub_t *s, msg_t *m) except -1:
    """1 when the message, which a subscription of an AccountLink has matched, reached somebody."""
    cdef AccountLink link = <AccountLink> s.link.owner
    cdef uint32_t sid = number(s.text, s.sid_len)
    cdef Response response
    if sid:
        return request(link, <ServiceImport> link._services[sid - 1], s, m)
    response = link._responses.get(m.subject[:m.subject_len])
    if response is None:
        return 0
    if s.link.router.now - response.heard >= response.service._threshold_ns:
        response.give_up(NEVER_CAME)
        return 0
    return respond(response, s, m)


cdef bint may_pass(ServiceImport service, msg_t *m):
    cdef via_t *v = m.via
    cdef uint32_t accounts = 1
    while v != NULL:
        if v.export == <PyObject *> service.export:
            return False
        accounts += 1
        v = v.previous
    return accounts < most_accounts


cdef inline bint acknowledges(msg_t *m) noexcept:
    """True if a message's reply subject is for an acknowledgement to JetStream; such a subject is the same in every
    account.
    """
    return m.reply_len > 8 and memcmp(m.reply, b"$JS.ACK.", 8) == 0


cdef int request(AccountLink link, ServiceImport service, sub_t *s, msg_t *m) except -1:
    cdef Response awaited = None
    cdef via_t via
    cdef bytes tail, subject
    cdef bytes headers = m.body[:m.header_len]
    cdef bint is_passed_on = m.via != NULL and not m.via.is_response
    cdef Crossing crossing = None
    cdef int delivered
    if m.source.remote != NULL and m.source.remote.kind != REMOTE_LEAF or not may_pass(service, m):
        return 0
    subject = service._subjects.to_exported(m.subject[:m.subject_len])
    if m.reply_len and not acknowledges(m):
        awaited = service.exporter._expect(service, link, m.reply[:m.reply_len])
    via.previous = m.via
    via.export = <PyObject *> service.export
    via.is_response = False
    via.traces = service._traces
    via.shares = service._shares if m.via == NULL else m.via.shares
    via.names_server = service._shares or m.via.names_server if is_passed_on else via.shares
    info = (<object> m.source.session).request_info(
        via.shares, link.name if is_passed_on else None, via.names_server)
    if info is not None:
        headers = with_info(headers, info)
    if service._meter is not None:
        measured = service._meter.begins(info, m.body[:m.header_len], has_reply=awaited is not None)
        if awaited is not None:
            awaited.measured = measured
    if m.trace != NULL:
        crossing = cross(service, link, m)
        headers = (<object> m.trace).redirected(headers, crossing.dest)
    tail = tail_of(m.reply[:m.reply_len] if awaited is None else awaited.key, headers, m.body[m.header_len:m.body_len])
    delivered = route_as(service.exporter, subject, awaited, headers, tail, &via, s, m)
    if crossing is not None:
        crossing.end(<object> m.trace)
    if awaited is not None and not delivered:
        awaited.give_up(NOBODY_THERE)
    elif awaited is not None and m.trace != NULL and (<object> m.trace).is_only:
        awaited.forget()
    return delivered


cdef class Crossing:
    """A request that is traced, on its way through an import: where other servers tell of it meanwhile."""

    cdef bytes dest              # b"": its trace ends here
    cdef bytes before
    cdef object hops
    cdef Response awaited

    cdef end(self, trace):
        if self.awaited is None:
            return
        trace.dest = self.before
        if trace.hops == self.hops:  # nobody else has got it
            self.awaited.forget()


cdef Crossing cross(ServiceImport service, AccountLink link, msg_t *m):
    cdef Crossing crossing = Crossing()
    cdef object trace = <object> m.trace
    crossing.dest = b""
    if service._traces:
        crossing.before = trace.dest
        crossing.hops = trace.hops
        crossing.awaited = service.exporter._expect(service, link, crossing.before)
        crossing.awaited.is_trace = True
        trace.dest = crossing.dest = crossing.awaited.key
    return crossing


cdef int respond(Response response, sub_t *s, msg_t *m) except -1:
    cdef ServiceImport service = response.service
    cdef Response awaited = None
    cdef via_t via
    cdef bytes headers = m.body[:m.header_len]
    cdef int delivered
    if not may_pass(service, m):
        return 0
    if m.reply_len and not acknowledges(m):
        awaited = response.target._expect(service, response.holder, m.reply[:m.reply_len])
    via.previous = m.via
    via.export = <PyObject *> service.export
    via.is_response = True
    via.traces = False
    via.shares = via.names_server = service._shares
    tail = None
    if m.trace != NULL:
        headers = (<object> m.trace).redirected(headers, b"")
    if awaited is not None or m.trace != NULL:
        tail = tail_of(m.reply[:m.reply_len] if awaited is None else awaited.key, headers, m.body[m.header_len:m.body_len])
    delivered = route_as(response.target, response.reply, awaited, headers, tail, &via, s, m)
    if response.measured is not None:
        measured = response.measured
        response.measured = None
        measured.answered(<object> m.source.session)
    if awaited is not None and not delivered:
        awaited.forget()
    if response.is_trace:
        return delivered
    if not delivered or service._is_single or m.body_len == 0:
        response.forget()
    else:
        response.refresh(s.link.router.now)
    return delivered


cdef int route_as(AccountLink target, bytes subject, Response awaited, bytes headers, bytes tail, via_t *via, sub_t *s,
                  msg_t *m) except -1:
    """Routes a message under another subject, and with another tail unless that is None, in another account.

    The message it comes from is being routed: its plan is pinned, and its stripped form made anew afterwards.
    """
    cdef msg_t inner = m[0]
    cdef match_t pinned
    cdef plan_t *plan
    cdef int delivered = 0
    inner.via = via
    inner.subject = PyBytes_AS_STRING(subject)
    inner.subject_len = <uint32_t> PyBytes_GET_SIZE(subject)
    inner.plain_tail = NULL
    if tail is not None:
        inner.tail = PyBytes_AS_STRING(tail)
        inner.tail_len = PyBytes_GET_SIZE(tail) - HR_PAD
        inner.reply = inner.tail
        if awaited is not None:
            inner.reply_len = <uint32_t> PyBytes_GET_SIZE(awaited.key)
        inner.header_len = <uint32_t> PyBytes_GET_SIZE(headers)
        inner.body_len = inner.header_len + m.body_len - m.header_len
        inner.body = inner.tail + inner.tail_len - inner.body_len - 2
    pin(s.interest, &pinned)
    try:
        plan = plan_for(target.c.interest, inner.subject, inner.subject_len)
        if target.c.interest.mapper != NULL:
            inner.subject = plan.head + 5
            inner.subject_len = plan.head_len - 6
        if m.trace != NULL and not passes_on_trace(target, &inner, m):
            return 0
        delivered = route(plan, &inner) if m.source.remote == NULL else route_remote(plan, &inner)
    finally:
        unpin(s.interest, &pinned)
        m.plain_tail = NULL
    if delivered:
        s.link.router.out_msgs -= 1  # it is counted where it arrived, and not once more for passing through here
        s.link.router.out_bytes -= m.body_len
        return 1
    return 0


cdef bint passes_on_trace(AccountLink target, msg_t *inner, msg_t *m) except -1:
    """Tells the trace that the message crosses into another account. False: it was only to be traced, and ends here."""
    cdef object trace = <object> m.trace
    trace.service_import(target.name, m.subject[:m.subject_len], inner.subject[:inner.subject_len])
    if inner.via.traces:
        return True
    inner.trace = NULL
    return not trace.is_only


cdef bytes with_info(bytes headers, bytes info):
    """The header block with who asks, None: nobody knows; what a requester has put there itself is taken out."""
    cdef list lines = headers.split(b"\r\n") if headers else [b"NATS/1.0"]
    cdef list kept = [line for line in lines[1:] if line and not line.lower().startswith(b"nats-request-info:")]
    if info is not None:
        kept.append(b"Nats-Request-Info: " + info)
    return b"\r\n".join([lines[0], *kept, b"", b""])
