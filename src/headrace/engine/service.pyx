# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A service of this process as a link: what it subscribes to arrives in batches, what it publishes is queued.

Its subscriptions hang in the same interest as everybody's. A message for it is appended to one growable buffer;
at the end of the tick (`serve_due` in `link`) lanes (`lanes`) take what they can off its front, the rest goes to
Python in one call, and what the service published meanwhile is routed. Nothing of it becomes a frame, knows a
socket, or is refused for being slow.

Back-pressure: a service works on the thread that reads the sockets, so while it works nobody is read, and a
publisher that were stalled would wait for nothing. The bound is therefore kept by serving at once: past
BATCH_MARK the batch is handed over before the next read, so it holds at most that and one read more. In the
same way publications past PUBLISH_MARK are routed at once, into outboxes that have their own bounds.

The session of a service link answers these calls:

    deliver(batch)             a list of what came, in order: tuples of the class the link was made with, and a
                               `Gathered` for each run of messages of a subscription that asked for that
    failed(error)              `deliver` raised, or a publication could not be routed; both are logged there
    wake()                     something was published outside of a tick: one must come
    publisher_info()           on the session of a client: JSON with its account and the user that it was let in as,
                               for services that ask for it; None where it is no user
    unproven(batch)            as deliver, while the link's `proof` is too old: nothing that it knows may be told
    unpublishable(subject)     the subject or the reply has white space: it would break its receivers' wire
    take_trace(trace, sid, subject)  a message that is traced has come; see tracing.pyx
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.batches cimport Block, Gathered, Outgoing, delivery, is_word, record_t
from headrace.engine.client cimport hang_sub, is_valid_subject, sub_named
from headrace.engine.delivery cimport remove_sub, route
from headrace.engine.service_imports cimport with_info
from headrace.engine.interest cimport plan_for, unmapped_plan
from headrace.engine.lanes cimport Lane, run_lanes
from headrace.engine.link cimport Link, mark_due
from headrace.engine.memory cimport buf_append, buf_free, buf_grow, buf_reserve
from headrace.engine.reply_mapping cimport find_mapped_reply
from headrace.engine.structs cimport (
    HR_GUARD, LINK_CLOSING, LINK_DIRTY, LINK_SERVICE, SUB_GATHERED, SUB_NAMED, SUB_REMOVED, buf_t, hr_hash, link_t, msg_t, plan_t,
    router_t, sub_t, word_t,
)

cdef enum:
    BATCH_MARK = 1 << 20     # bytes of one batch past which it is handed over at once
    PUBLISH_MARK = 65536     # bytes of publications past which they are routed at once
    KEPT = 2 << 20           # an empty buffer larger than this gives its memory back


cdef void reuse(buf_t *b) noexcept:
    b.start = b.end = 0
    if b.cap > KEPT:
        buf_free(b)


cdef inline uint64_t number(const char *digits, uint32_t n) noexcept:
    cdef uint64_t value = 0
    cdef uint32_t i
    for i in range(n):
        value = 10 * value + (digits[i] - c'0')
    return value


# ---- to the service -----------------------------------------------------------------------------

cdef int accept(sub_t *s, msg_t *m) except -1:
    """Appends one message to the batch."""
    cdef ServiceLink link = <ServiceLink> s.link.owner
    cdef buf_t *b = &link._batch
    cdef record_t record
    cdef const char *subject = m.subject
    cdef uint32_t subject_len = m.subject_len
    cdef const char *body = m.body
    cdef bytes named
    record.header_len = m.header_len
    record.body_len = m.body_len
    if s.flags & SUB_NAMED:
        named = with_publisher(m)
        record.header_len = <uint32_t> PyBytes_GET_SIZE(named)
        named += m.body[m.header_len:m.body_len]
        record.body_len = <uint32_t> PyBytes_GET_SIZE(named)
        body = PyBytes_AS_STRING(named)
    if m.head != NULL:
        subject = m.head + 5
        subject_len = <uint32_t> m.head_len - 6
    if b.cap == 0 and link._usual:
        buf_grow(b, link._usual)
    record.sid = number(s.text, s.sid_len)
    record.is_gathered = s.flags & SUB_GATHERED
    record.tail_len = record.head_len = record.trace = 0
    if m.trace != NULL:
        link._traces.append(<object> m.trace)
        record.trace = <uint32_t> len(link._traces)
    record.subject_len = subject_len
    record.reply_len = m.reply_len
    buf_reserve(b, sizeof(record_t) + subject_len + m.reply_len + record.body_len)
    buf_append(b, <const char *> &record, sizeof(record_t))
    buf_append(b, subject, subject_len)
    buf_append(b, m.reply, m.reply_len)
    buf_append(b, body, record.body_len)
    link._count += 1
    mark_due(s.link)
    if b.end - b.start > BATCH_MARK:
        s.link.router.is_urgent = True
    return 1


cdef bytes with_publisher(msg_t *m):
    """The header block of a message with who published it, as far as that is known here.

    A client of another server, or of a server without users, is nobody; what a publisher says of itself is taken out.
    """
    cdef bytes headers = m.body[:m.header_len]
    cdef object info = None
    if m.source.remote == NULL and not m.source.flags & LINK_SERVICE:
        info = (<object> m.source.session).publisher_info()
    if info is None and not headers:
        return headers
    return with_info(headers, info)


cdef void serve(link_t *l) noexcept:
    """The link's `flush`: the batch to the service, and what it has published to everyone."""
    cdef ServiceLink link = <ServiceLink> l.owner
    cdef object session = link.session  # the link may be detached when the service returns
    link._is_served = True
    try:
        if not link._is_proven():
            link._pass_over(session)
        elif link._count:
            link._serve_batch(session)
    except Exception as error:
        session.failed(error)
    link._is_served = False
    link._route_published(session)


# ---- from the service ---------------------------------------------------------------------------

cdef int route_one(link_t *l, record_t *record, const char *at, bint maps) except -1:
    """A publication as if a client had sent it: counted, mapped, delivered. No permission is asked for."""
    cdef msg_t m
    cdef plan_t *plan
    m.source = l
    m.via = NULL
    m.trace = NULL
    m.subject = at
    m.subject_len = record.subject_len
    m.head = at + record.subject_len if record.head_len else NULL
    m.head_len = record.head_len
    m.tail = m.reply = at + record.subject_len + record.head_len
    m.reply_len = record.reply_len
    m.tail_len = record.tail_len
    m.plain_tail = NULL
    m.header_len = record.header_len
    m.body_len = record.body_len
    m.body = m.tail + m.tail_len - m.body_len - 2
    l.in_msgs += 1
    l.in_bytes += m.body_len
    l.router.in_msgs += 1
    l.router.in_bytes += m.body_len
    if not maps:
        plan = unmapped_plan(l.interest, m.subject, m.subject_len)
    else:
        plan = plan_for(l.interest, m.subject, m.subject_len)
        if l.interest.mapper != NULL:
            m.subject = plan.head + 5
            m.subject_len = plan.head_len - 6
    if l.router.mapped_replies.count and find_mapped_reply(l.router, l.interest, &m):
        plan = plan_for(l.interest, m.subject, m.subject_len)
    route(plan, &m)
    return 0


cdef bint is_named(sub_t *s, bytes subject, bytes queue) noexcept:
    """True if a subscription is to this subject in this queue group, byte for byte."""
    return s.subject_len == <size_t> PyBytes_GET_SIZE(subject) and s.queue_len == <size_t> PyBytes_GET_SIZE(queue) \
        and memcmp(s.subject, PyBytes_AS_STRING(subject), s.subject_len) == 0 \
        and memcmp(s.queue, PyBytes_AS_STRING(queue), s.queue_len) == 0


cdef class ServiceLink(Link):
    """A service's connection to the router, without a socket. Give it an interest before it subscribes.

    `delivery` is the class of what is handed over: a tuple's subclass of the five fields sid, subject, reply,
    headers (the block of the wire, b"" without) and payload, without attributes of its own.
    """

    cdef buf_t _batch
    cdef readonly Outgoing outgoing
    cdef size_t _count           # messages in the batch
    cdef uint64_t _last_sid
    cdef object _delivery
    cdef list _traces            # of messages in the batch, by place from 1
    cdef list _lanes             # by the sids of their subscriptions; None where there is none
    cdef size_t _usual           # bytes to begin a batch with, after one was given away
    cdef public bint maps        # what it publishes passes through its account's mappings, as what clients publish
    cdef public object proof     # gives the monotonic ns until which its service may speak; None: always
    cdef int64_t _proven_until
    cdef bint _is_served         # its service is at work: what it publishes is routed afterwards

    def __cinit__(self, _router, _session, type delivery not None):
        if not issubclass(delivery, tuple) or delivery.__basicsize__ != tuple.__basicsize__:
            raise TypeError("a delivery must be a subclass of tuple without attributes of its own")
        memset(&self._batch, 0, sizeof(buf_t))
        self.outgoing = Outgoing()
        self._delivery = delivery
        self._traces = []
        self._lanes = []
        self.maps = True
        self.c.flags |= LINK_SERVICE
        self.c.accept = accept
        self.c.flush = serve

    def __dealloc__(self):
        buf_free(&self._batch)

    cdef _leave(self):
        buf_free(&self._batch)
        buf_free(&self.outgoing.buffer)
        self._count = 0
        Link._leave(self)

    def subscribe(self, bytes subject not None, bytes queue not None=b"", *, bint gathered=False,
                  bint named=False):
        """The sid of a new subscription. Raises: ValueError for a subject or queue group that is none.

        `gathered`: its messages come in runs of those that follow one another, each a `Gathered`. `named`: they have
        a header `Nats-Request-Info` with the account and the user of who published them, where that is known.
        """
        cdef word_t words[3]
        cdef bytes sid = b"%d" % (self._last_sid + 1)
        cdef uint32_t hash
        if self.c.interest == NULL or self.c.flags & LINK_CLOSING:
            raise RuntimeError("a service link without an interest, or a detached one, cannot subscribe")
        words[0].text = PyBytes_AS_STRING(subject)
        words[0].len = <uint32_t> PyBytes_GET_SIZE(subject)
        words[1].text = PyBytes_AS_STRING(queue)
        words[1].len = <uint32_t> PyBytes_GET_SIZE(queue)
        words[2].text = PyBytes_AS_STRING(sid)
        words[2].len = <uint32_t> PyBytes_GET_SIZE(sid)
        if not is_valid_subject(words[0].text, words[0].len, False) or not is_word(words[0].text, words[0].len):
            raise ValueError(f"not a subject: {subject!r}")
        if not is_word(words[1].text, words[1].len):
            raise ValueError(f"not a queue group: {queue!r}")
        hash = <uint32_t> hr_hash(words[2].text, words[2].len, self.c.interest.seed)
        hang_sub(&self.c, &words[0], &words[1] if words[1].len else NULL, &words[2], hash,
                 (SUB_GATHERED if gathered else 0) | (SUB_NAMED if named else 0))
        self._last_sid += 1
        return self._last_sid

    def unsubscribe(self, uint64_t sid):
        """Ends a subscription; one that is not there is none. What came before may still be in the next batch."""
        cdef sub_t *s
        if self.c.sids_count == 0:
            return
        s = sub_named(&self.c, b"%d" % sid)
        if s != NULL:
            remove_sub(s)
        if sid < <size_t> len(self._lanes):
            self._lanes[sid] = None

    def open_lane(self, uint64_t sid, Lane lane not None):
        """Offers the messages of a subscription to a lane before Python gets them, until it ends.

        Raises: ValueError for a subscription that was never made.
        """
        if not 0 < sid <= self._last_sid:
            raise ValueError(f"there is no subscription {sid}")
        while <size_t> len(self._lanes) <= sid:
            self._lanes.append(None)
        self._lanes[sid] = lane

    def publish(self, bytes subject not None, bytes payload not None, *, bytes reply not None=b"",
                bytes headers not None=b""):
        """Queues a message to everyone who is interested, this service included; callable at any time.

        It is routed at the end of this tick, in order; more than PUBLISH_MARK of it already before. `headers` is
        the block of the wire or b"". A detached link publishes nothing, nor is a subject (or reply) with white
        space published: the session hears of that. Raises: ValueError for a message over 999,999,999 bytes.
        """
        if self.c.flags & LINK_CLOSING:
            return
        if self.outgoing.add(subject, payload, reply=reply, headers=headers):
            self.announce()
        else:
            self.session.unpublishable(subject)

    def announce(self):
        """Something was added to `outgoing`: it is routed as `publish` says."""
        if self.c.flags & LINK_CLOSING:
            buf_free(&self.outgoing.buffer)
            return
        if not self._is_served and not self.c.flags & LINK_DIRTY:
            mark_due(&self.c)
            if not self.c.router.is_serving:
                self.session.wake()
        if self.outgoing.buffer.end > PUBLISH_MARK and self.c.router.parsing == NULL:
            self._route_published(self.session)

    cdef bint _is_proven(self) except -1:
        """True if its service may be served, and heard, in this tick. Cost: one comparison; now and then `proof`."""
        if self.proof is None or self.c.router.now <= self._proven_until:
            return True
        self._proven_until = self.proof()
        return self.c.router.now <= self._proven_until

    cdef int _pass_over(self, object session) except -1:
        """Gives what has come to the session without serving it."""
        cdef Block block
        cdef list traces = self._traces
        if not self._count:
            return 0
        self._traces = []
        block = self._give_block()
        session.unproven(self._take_batch(
            block, block.buffer.data + block.buffer.start, block.buffer.data + block.buffer.end, traces,
        ))
        return 0

    def answer_first(self, bytes subject not None, bytes headers not None):
        """Routes an empty message at once, before what is queued: also while nothing else may be said."""
        cdef buf_t queued = self.outgoing.buffer
        memset(&self.outgoing.buffer, 0, sizeof(buf_t))
        try:
            self.outgoing.add(subject, b"", headers=headers)
            self._route_all(self.session)
        finally:
            buf_free(&self.outgoing.buffer)
            self.outgoing.buffer = queued

    def forget(self):
        """Drops what has come and was not served, and what was published and is not routed yet."""
        reuse(&self._batch)
        self._count = 0
        self._traces = []
        self.outgoing.clear()

    cdef plan_t *_plan(self, bytes subject) except NULL:
        """The plan of receivers of a message that this service publishes to a subject."""
        cdef const char *at = PyBytes_AS_STRING(subject)
        cdef uint32_t n = <uint32_t> PyBytes_GET_SIZE(subject)
        return plan_for(self.c.interest, at, n) if self.maps else unmapped_plan(self.c.interest, at, n)

    def backlog(self, bytes subject not None):
        """Bytes that wait in the outbox of the slowest connection interested in a subject; None: nobody is.

        Services of this process count as receivers for whom nothing waits, other servers for what waits for them.
        What was published in this tick and is not routed yet is not in it.
        """
        cdef plan_t *plan
        cdef sub_t *s
        cdef Py_ssize_t most = -1
        cdef uint32_t i, members
        if self.c.interest == NULL or self.c.flags & LINK_CLOSING:
            return None
        if not PyBytes_GET_SIZE(subject) or not is_word(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            return None
        plan = self._plan(subject)
        members = plan.group_ends[plan.group_count - 1] if plan.group_count else 0
        for i in range(plan.plain_count + plan.remote_count + members):  # which stand one behind the other
            s = plan.plain[i]
            if not (s.flags & SUB_REMOVED or s.link.flags & LINK_CLOSING):
                most = max(most, <Py_ssize_t> (s.link.out.end - s.link.out.start))
        return most if most >= 0 else None

    def is_alone(self, bytes subject not None) -> bool:
        """True if no other connection has subscribed to a subject, not even with a wildcard."""
        cdef plan_t *plan
        cdef sub_t *s
        cdef uint32_t i, members
        if self.c.interest == NULL or self.c.flags & LINK_CLOSING:
            return True
        if not PyBytes_GET_SIZE(subject) or not is_word(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            return True
        plan = self._plan(subject)
        members = plan.group_ends[plan.group_count - 1] if plan.group_count else 0
        for i in range(plan.plain_count + plan.remote_count + members):  # which stand one behind the other
            s = plan.plain[i]
            if s.link != &self.c and not (s.flags & SUB_REMOVED or s.link.flags & LINK_CLOSING):
                return False
        return True

    def listens(self, bytes subject not None, bytes queue not None=b"") -> bool:
        """True if somebody has subscribed to exactly this subject, in this queue group; b"": in none.

        Interest of other servers counts. Who watches a wider subject does not count.
        """
        cdef plan_t *plan
        cdef sub_t *s
        cdef uint32_t i, first, end
        if self.c.interest == NULL or self.c.flags & LINK_CLOSING:
            return False
        if not PyBytes_GET_SIZE(subject) or not is_word(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            return False
        plan = self._plan(subject)
        first = 0
        end = plan.plain_count + plan.remote_count
        if PyBytes_GET_SIZE(queue):
            first = end
            end += plan.group_ends[plan.group_count - 1] if plan.group_count else 0
        for i in range(first, end):
            s = plan.plain[i]
            if not (s.flags & SUB_REMOVED or s.link.flags & LINK_CLOSING) and is_named(s, subject, queue):
                return True
        return False

    @property
    def pending(self):
        """Bytes of the batch that waits for the end of the tick."""
        return self._batch.end - self._batch.start

    cdef int _serve_batch(self, object session) except -1:
        """Lanes take from the front of the batch; the rest is the session's, as is the turn that a lane asks for."""
        cdef Block block = self._give_block()
        cdef const char *at = block.buffer.data + block.buffer.start
        cdef const char *end = block.buffer.data + block.buffer.end
        cdef list traces = self._traces
        cdef bint wants_turn = False
        if traces:
            self._traces = []
        elif self._lanes:
            at = run_lanes(self._lanes, block, at, end, session, &wants_turn)
            if self.outgoing.buffer.end > PUBLISH_MARK:
                self._route_published(session)
        if at < end or wants_turn:
            session.deliver(self._take_batch(block, at, end, traces))
        if (<PyObject *> block).ob_refcnt == 1 and self._batch.data == NULL and not self.c.flags & LINK_CLOSING:
            self._batch = block.buffer  # nothing points into it
            memset(&block.buffer, 0, sizeof(buf_t))
            reuse(&self._batch)
        return 0

    cdef list _take_batch(self, Block block, const char *at, const char *end, list traces):
        """The messages from `at` on. A subject that repeats is one object."""
        cdef list batch = []
        cdef record_t record
        cdef bytes subject = b""
        while at < end:
            memcpy(&record, at, sizeof(record_t))
            if record.is_gathered:
                at = self._take_run(batch, block, at, end, traces)
                continue
            at += sizeof(record_t)
            if <size_t> PyBytes_GET_SIZE(subject) != record.subject_len \
                    or memcmp(PyBytes_AS_STRING(subject), at, record.subject_len) != 0:
                subject = PyBytes_FromStringAndSize(at, record.subject_len)
            batch.append(delivery(self._delivery, &record, at, subject))
            at += record.subject_len + record.reply_len + record.body_len
        HR_GUARD(at == end)
        return batch

    cdef Block _give_block(self):
        """The batch's buffer as something that runs can point into; the batch is empty then."""
        cdef Block block = Block()
        block.buffer = self._batch
        self._usual = 2 * (self._batch.end - self._batch.start)
        memset(&self._batch, 0, sizeof(buf_t))
        self._count = 0
        return block

    cdef const char *_take_run(self, list batch, Block block, const char *at, const char *end,
                               list traces) except NULL:
        """Adds the run that begins at `at`; gives where it ends."""
        cdef Gathered run
        cdef record_t record
        memcpy(&record, at, sizeof(record_t))
        run = Gathered(self._delivery, record.sid)
        run.block = block
        run.begin = at
        while at < end:
            memcpy(&record, at, sizeof(record_t))
            if record.sid != run.sid or record.trace and run.count:
                break
            at += sizeof(record_t) + record.subject_len + record.reply_len + record.body_len
            run.count += 1
            if record.trace:  # it is a run of its own
                run.trace = traces[record.trace - 1]
                break
        run.end = at
        batch.append(run)
        return at

    cdef _route_published(self, object session):
        """Routes what is queued, unless nothing may be said now."""
        if self.outgoing.buffer.end > self.outgoing.buffer.start and self._is_proven():
            self._route_all(session)

    cdef _route_all(self, object session):
        """Routes what is queued. As while bytes are parsed, nothing that is in use may go meanwhile."""
        cdef router_t *r = self.c.router
        cdef buf_t taken = self.outgoing.buffer
        cdef record_t record
        cdef const char *at = taken.data + taken.start
        cdef const char *end = taken.data + taken.end
        cdef list failures = []
        if at == end or self.c.flags & LINK_CLOSING:
            return
        memset(&self.outgoing.buffer, 0, sizeof(buf_t))  # a receiver's hook may publish more
        HR_GUARD(r.parsing == NULL)
        r.parsing = &self.c
        while at < end:
            memcpy(&record, at, sizeof(record_t))
            at += sizeof(record_t)
            try:
                route_one(&self.c, &record, at, self.maps)
            except Exception as error:
                failures.append(error)
            at += record.subject_len + record.head_len + record.tail_len
        r.parsing = NULL
        if self.outgoing.buffer.data == NULL and not self.c.flags & LINK_CLOSING:
            reuse(&taken)
            self.outgoing.buffer = taken
        else:
            buf_free(&taken)
        for error in failures:
            session.failed(error)
