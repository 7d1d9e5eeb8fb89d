# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""One connection's buffers, and the router that ties connections together within a tick.

A transport brings what it reads to `input_buffer` and takes frames from the outbox. A router holds what connections
share: the read buffer, the list of outboxes to flush, the list of connections to close, the counters. Sockets,
clocks and the meaning of any byte live elsewhere.
"""

import os
from time import monotonic_ns

cimport cython
from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memmove, memset

from headrace.engine.input_buffer cimport DIRECT_FRAME, READ_SIZE, received, reparse, space
from headrace.engine.interest cimport Interest, row_of
from headrace.engine.memory cimport buf_free, buf_grow, give, live, take
from headrace.engine.reply_mapping cimport forget_mapped_replies
from headrace.engine.s2 cimport compress_tail, free_s2, new_s2
from headrace.engine.stream_imports cimport shadow_rows
from headrace.engine.structs cimport (
    HR_GUARD, HR_PAD, LINK_BLOCKED, LINK_CLOSING, LINK_CONGESTED, LINK_DIRTY, LINK_DOOMED, LINK_HELD,
    LINK_STALLED, LINK_TRACED, REASON_SLOW_PENDING, buf_t, link_t, router_t,
)
from headrace.engine.unsubscribe cimport free_removed, unsubscribe_all, unsubscribe_some

cdef enum:
    STALL_NS = 10_000_000    # the longest one read of a publisher waits for a receiver


# ---- the router's lists -------------------------------------------------------------------------

cdef void mark_dirty(link_t *l) noexcept:
    if not l.flags & LINK_DIRTY:
        l.flags |= LINK_DIRTY
        l.next_dirty = l.router.dirty
        l.router.dirty = l


cdef void mark_due(link_t *l) noexcept:
    """A service is served at the end of this tick; of the next when services are being served now."""
    cdef router_t *r = l.router
    if l.flags & (LINK_DIRTY | LINK_CLOSING):
        return
    l.flags |= LINK_DIRTY
    if r.is_serving:
        l.next_dirty = r.due_next
        r.due_next = l
    else:
        l.next_dirty = r.due
        r.due = l


cdef void serve_due(router_t *r) noexcept:
    """Gives each service its batch and routes what it published, once: two that answer each other take turns
    with the sockets, a tick each."""
    cdef link_t *l
    if r.is_serving or r.parsing != NULL:
        return
    r.is_serving = True
    r.is_urgent = False
    while r.due != NULL:  # taken off one by one: a service may detach any of them
        l = r.due
        r.due = l.next_dirty
        l.next_dirty = NULL
        l.flags &= ~<uint32_t> LINK_DIRTY
        if l.flush != NULL:
            l.flush(l)
    r.is_serving = False
    r.due = r.due_next
    r.due_next = NULL


cdef void doom(link_t *l, uint32_t reason) noexcept:
    """Asks for a connection to be closed at the end of this tick; the first reason stays."""
    if l.flags & LINK_DOOMED:
        return
    l.flags |= LINK_DOOMED | LINK_CLOSING
    l.reason = reason
    if l.router != NULL:
        l.next_doomed = l.router.doomed
        l.router.doomed = l


cdef void flush_dirty(router_t *r) noexcept:
    """Serves the services, then hands every non-empty outbox to its transport."""
    cdef link_t *l
    if r.due != NULL:
        serve_due(r)
    while r.dirty != NULL:  # taken off one by one: a transport written in Python may detach any of them
        l = r.dirty
        r.dirty = l.next_dirty
        l.next_dirty = NULL
        l.flags &= ~<uint32_t> LINK_DIRTY
        if l.flush != NULL and l.out.end > l.out.start:
            l.flush(l)


# ---- outbox -------------------------------------------------------------------------------------

cdef char *make_room(link_t *l, size_t n) noexcept:
    """Return the address for n more bytes (and HR_PAD); NULL if the receiver is a slow consumer.

    Called when the outbox has no room left: flush early, else grow, never past max_pending.
    """
    cdef buf_t *out = &l.out
    cdef size_t pending = out.end - out.start
    cdef size_t wanted
    if pending >= FLUSH_MARK and l.flush != NULL and not l.flags & LINK_BLOCKED:
        l.flush(l)
        if l.flags & LINK_CLOSING:
            return NULL
        pending = out.end - out.start
    if pending + n > l.router.max_pending:
        l.router.slow_consumers += 1
        doom(l, REASON_SLOW_PENDING)
        return NULL
    if out.cap - pending >= n and (out.start > out.cap >> 1 or pending == 0):
        memmove(out.data, out.data + out.start, pending)
        out.start = 0
        out.end = pending
    elif out.cap - out.end < n:
        wanted = max(max(FIRST_OUTBOX, 2 * out.cap), pending + n)
        wanted = min(wanted, max(l.router.max_pending, pending + n))
        if n <= SMALL_FRAME and pending + n <= USUAL_OUTBOX:
            wanted = min(wanted, <size_t> USUAL_OUTBOX)
        try:
            buf_grow(out, wanted)
        except MemoryError:
            doom(l, REASON_SLOW_PENDING)
            return NULL
    if pending + n > l.router.congestion_mark:
        l.flags |= LINK_CONGESTED
    HR_GUARD(out.end + n <= out.cap)
    return out.data + out.end


cdef int emit(link_t *l, const char *data, size_t n) noexcept:
    """Appends control bytes to the outbox; returns 0 when the connection is closing or too slow."""
    cdef char *at
    if l.flags & LINK_CLOSING:
        return 0
    if n == 0:
        return 1
    at = l.out.data + l.out.end if l.out.cap - l.out.end >= n else make_room(l, n)
    if at == NULL:
        return 0
    memcpy(at, data, n)
    l.out.end += n
    mark_dirty(l)
    return 1


cdef void after_write(link_t *l, size_t n, bint blocked) noexcept:
    """The transport's report on one write: n bytes left the outbox, and whether it wants no more now."""
    cdef buf_t *out = &l.out
    cdef size_t pending
    HR_GUARD(n <= out.end - out.start)
    out.start += n
    l.written += n
    if l.s2 != NULL:
        l.s2.ready -= min(n, l.s2.ready)
    if n:
        l.last_written = l.router.now
    pending = out.end - out.start
    if blocked:
        if not l.flags & LINK_BLOCKED or l.written >= l.blocked_target:
            l.blocked_since = l.router.now
            l.blocked_target = l.written + pending
            if not l.flags & LINK_BLOCKED:
                l.router.blocked += 1
        l.flags |= LINK_BLOCKED
        if pending > l.router.congestion_mark:
            l.flags |= LINK_CONGESTED
    elif l.flags & LINK_BLOCKED:
        l.flags &= ~<uint32_t> LINK_BLOCKED
        l.router.blocked -= 1
    if pending == 0:
        out.start = out.end = 0
        if out.cap > IDLE_OUTBOX:
            buf_free(out)
    if l.flags & LINK_CONGESTED and pending <= l.router.congestion_mark >> 1:
        l.flags &= ~<uint32_t> LINK_CONGESTED


cdef void prepare_outbox(link_t *l) noexcept:
    """Compress what was written to the outbox since the last write of a compressed connection."""
    cdef size_t pending = l.out.end - l.out.start
    try:
        compress_tail(l.s2, &l.out)
    except MemoryError:
        doom(l, REASON_SLOW_PENDING)
        after_write(l, l.out.end - l.out.start, False)
        return
    if pending > l.out.end - l.out.start:
        l.written += pending - (l.out.end - l.out.start)  # as if it had been sent: what is written counts ops


# ---- back-pressure ------------------------------------------------------------------------------

cdef void stall(link_t *publisher, link_t *receiver) noexcept:
    """The publisher is not read any more until the receiver has drained, or STALL_NS have passed."""
    if publisher == NULL or publisher.flags & LINK_STALLED:
        return
    publisher.flags |= LINK_STALLED
    Py_INCREF(<object> receiver.owner)  # it may be closed before this publisher looks at it again
    publisher.stalled_on = receiver
    publisher.stalled_until = publisher.router.now + STALL_NS
    publisher.stalls += 1
    publisher.router.stalls += 1
    publisher.router.stalled += 1


cdef void unstall(link_t *publisher) noexcept:
    cdef link_t *receiver = publisher.stalled_on
    publisher.flags &= ~<uint32_t> LINK_STALLED
    publisher.stalled_on = NULL
    publisher.router.stalled -= 1
    Py_DECREF(<object> receiver.owner)


cdef int release_stalled_of(link_t *l) noexcept:
    """True if a stalled publisher may be read again now; it is no longer stalled then."""
    if not l.flags & LINK_STALLED:
        return 1
    if (l.stalled_on.flags & LINK_CONGESTED and not l.stalled_on.flags & LINK_CLOSING
            and l.router.now < l.stalled_until):
        return 0
    unstall(l)
    return 1


# ---- leaving ------------------------------------------------------------------------------------

cdef bint take_off(link_t **at, link_t *l) noexcept:
    """Takes a link out of a list that is tied by next_dirty; False when it is not in there."""
    while at[0] != NULL:
        if at[0] == l:
            at[0] = l.next_dirty
            return True
        at = &at[0].next_dirty
    return False


cdef void leave_lists(link_t *l) noexcept:
    """Take a link out of all lists of the router."""
    cdef router_t *r = l.router
    cdef link_t **at
    if l.flags & LINK_STALLED:
        unstall(l)
    if l.flags & LINK_BLOCKED:
        l.flags &= ~<uint32_t> LINK_BLOCKED
        r.blocked -= 1
    if l.flags & LINK_DIRTY:
        if not take_off(&r.dirty, l) and not take_off(&r.due, l):
            take_off(&r.due_next, l)
        l.flags &= ~<uint32_t> LINK_DIRTY
    at = &r.doomed
    while at[0] != NULL:
        if at[0] == l:
            at[0] = l.next_doomed
            break
        at = &at[0].next_doomed


cdef void flush_by_python(link_t *l) noexcept:
    cdef Link link = <Link> l.owner
    cdef object session = link.session  # the link may be detached when the writer returns
    try:
        link._write()
    except Exception as error:
        session.failed(error)


cdef class Router:
    """The part that the connections of one event loop share.

    `max_pending` is in bytes; `now` is monotonic ns, set by transports once per tick. `seed` (below 2^64) makes
    the choice among members of queue groups repeat. A tick removes `unsubscribes` subscriptions of lost servers.
    """

    def __cinit__(self, *, max_pending=64 << 20, congestion_mark=2 << 20, drops_when_congested=False, seed=None,
                  uint32_t unsubscribes=UNSUBSCRIBED_AT_ONCE):
        memset(&self.c, 0, sizeof(router_t))
        self._leaving = []
        self._unsubscribes = max(unsubscribes, 1)
        self.c.read_buffer = <char *> take(READ_SIZE + DIRECT_FRAME + HR_PAD)
        memset(self.c.read_buffer, 0, READ_SIZE + DIRECT_FRAME + HR_PAD)
        self.c.random = (int.from_bytes(os.urandom(8), "little") if seed is None else seed) | 1
        self.limit(max_pending=max_pending, congestion_mark=congestion_mark, drops_when_congested=drops_when_congested)

    def __dealloc__(self):
        free_removed(&self.c)
        give(self.c.read_buffer)
        buf_free(&self.c.scratch)
        buf_free(&self.c.stripped)
        give(self.c.choice.targets)
        give(self.c.choice.picks)
        give(self.c.choice.served)
        forget_mapped_replies(&self.c)

    @property
    def tracer(self):
        """The function that begins the trace of a message (tracing.pyx), or None: no message is traced."""
        return self._tracer

    @tracer.setter
    def tracer(self, value):
        self._tracer = value
        self.c.tracer = NULL if value is None else <PyObject *> value

    def limit(self, *, max_pending=64 << 20, congestion_mark=2 << 20, drops_when_congested=False):
        """Set how many bytes may wait for one receiver, from the next message on; bytes that wait already stay."""
        self.c.max_pending = max_pending
        self.c.drops_when_congested = drops_when_congested
        self.c.congestion_mark = max_pending // 4 * 3 if drops_when_congested else min(congestion_mark, max_pending // 2)

    @property
    def now(self):
        """The time of this tick, monotonic ns."""
        return self.c.now

    @now.setter
    def now(self, int64_t value):
        self.c.now = value

    def touch(self):
        """Takes the time now; transports written in Python begin their tick with it."""
        self.c.now = monotonic_ns()

    @property
    def has_doomed(self):
        return self.c.doomed != NULL

    @property
    def has_due(self):
        """True if the next tick must come without a socket being ready: a service waits, or `is_unsubscribing`."""
        return self.c.due != NULL or len(self._leaving) > 0

    @property
    def has_work(self):
        """True if the end of a tick now would do anything: write, free, serve or close."""
        return (self.c.dirty != NULL or self.c.removed != NULL or self.c.doomed != NULL or self.c.due != NULL
                or len(self._leaving) > 0)

    @property
    def is_unsubscribing(self):
        """True while interest of a lost server is still to be removed, a part of it in each tick."""
        return len(self._leaving) > 0

    @property
    def stalled(self):
        """The number of publishers that wait for a receiver to drain."""
        return self.c.stalled

    @property
    def blocked(self):
        """The number of connections with a write that has not finished."""
        return self.c.blocked

    def end_tick(self):
        """Flushes outboxes, frees what was removed, returns the links that must be closed now."""
        cdef list closing = []
        cdef link_t *l
        if self.c.parsing != NULL:
            raise RuntimeError("a tick cannot end while bytes are being parsed")
        flush_dirty(&self.c)
        if self._leaving:
            self._let_leave()
        free_removed(&self.c)
        while self.c.doomed != NULL:
            l = self.c.doomed
            self.c.doomed = l.next_doomed
            l.next_doomed = NULL
            closing.append(<object> l.owner)
        return closing

    cdef _let_leave(self):
        """Detached links go; those to other servers when few of their subscriptions are left."""
        cdef list leaving = self._leaving, staying = []
        cdef uint32_t left = self._unsubscribes
        cdef Link link
        self._leaving = staying
        for link in leaving:
            link._quit()
            if link.c.remote != NULL:
                left = unsubscribe_some(&link.c, left)
            if link.c.remote == NULL or link.c.sids_count == 0:
                link._leave()
            else:
                staying.append(link)

    def statistics(self):
        """Totals since start, as /varz counts them (bytes are payload); `remote_...`: the share of other servers."""
        return {
            "in_msgs": self.c.in_msgs, "out_msgs": self.c.out_msgs,
            "in_bytes": self.c.in_bytes, "out_bytes": self.c.out_bytes,
            "remote_in_msgs": self.c.remote_in_msgs, "remote_out_msgs": self.c.remote_out_msgs,
            "remote_in_bytes": self.c.remote_in_bytes, "remote_out_bytes": self.c.remote_out_bytes,
            "slow_consumers": self.c.slow_consumers, "stalls": self.c.stalls,
        }


@cython.no_gc_clear  # its subscriptions must leave the interest before that goes
cdef class Link:
    """One connection as the engine sees it. Subclasses bring the parser of their wire.

    `session` is the Python object that decides; which methods the engine calls on it is said by the
    subclass. A closed link must be `detach`ed, which drops its subscriptions and memory.
    """

    def __cinit__(self, Router router not None, session, *_args, **_kwargs):
        memset(&self.c, 0, sizeof(link_t))
        self.router = router
        self.session = session
        self.c.router = &router.c
        self.c.owner = <PyObject *> self
        self.c.session = <PyObject *> session
        self.c.last_activity = router.c.now
        live.links += 1

    def __dealloc__(self):
        self._release()
        live.links -= 1

    cdef _release(self):
        """Leaves every list of the router and gives back subscriptions and buffers."""
        cdef link_t *l = &self.c
        l.flush = NULL
        leave_lists(l)
        unsubscribe_all(l)
        buf_free(&l.out)
        buf_free(&l.carry)
        l.carry_direct = False
        free_s2(l.s2)
        l.s2 = NULL

    def detach(self):
        """Ends the link: no delivery, no read, nothing kept. Safe to call more than once.

        Called while bytes are being parsed, its memory is only given back at the end of the tick. Of a link to
        another server many subscriptions go over several ticks: a million would hold up everybody for seconds.
        """
        if self._is_detached:
            return
        self.c.flags |= LINK_CLOSING
        self.c.flush = NULL
        self._write = None
        self._is_detached = True
        if self.c.router.parsing != NULL or self.c.remote != NULL and self.c.sids_count > self.router._unsubscribes:
            self.router._leaving.append(self)
        else:
            self._leave()

    cdef _hear_nothing(self):
        """Listen to no account any more; only links to other servers do."""

    cdef _quit(self):
        """Gives back all but its subscriptions."""
        self._hear_nothing()  # not of their end either
        leave_lists(&self.c)
        buf_free(&self.c.out)
        buf_free(&self.c.carry)
        self.session = None
        self.c.session = NULL

    cdef _leave(self):
        self._quit()
        self._release()

    def doom(self, uint32_t reason):
        """Asks for the close of this connection at the end of the tick."""
        if not self._is_detached:
            doom(&self.c, reason)

    def send(self, bytes data not None):
        """Appends control bytes to the outbox; False when the connection is closing."""
        return emit(&self.c, data, len(data)) == 1

    def buffer(self):
        """A writable view of where the next bytes go (for transports written in Python)."""
        cdef char *data
        cdef size_t n
        space(&self.c, &data, &n)
        return PyMemoryView_FromMemory(data, n, PyBUF_WRITE)

    def received(self, size_t n):
        """n bytes were put into the last `buffer()`. A mistake of ours ends this connection, not the caller."""
        try:
            received(&self.c, n)
        except Exception as error:
            self.session.failed(error)

    def feed(self, bytes data not None):
        """Takes in a chunk of any size, for tests and tools; raises what `received` hands to the session."""
        cdef const char *at = data
        cdef size_t left = len(data), n
        cdef char *room
        while left and not self.c.flags & LINK_CLOSING:
            space(&self.c, &room, &n)
            n = min(n, left)
            memcpy(room, at, n)
            received(&self.c, n)
            at += n
            left -= n

    def compress(self, int level):
        """From here on both directions are S2: what is said from now on, and what comes after the op that is
        being carried out. `level` 0: what is said stays uncompressed; again later for another level.

        Raises: RuntimeError when it begins while nothing is being parsed.
        """
        if self.c.flags & LINK_CLOSING:
            return
        if self.c.s2 != NULL:
            self.c.s2.level = level
            return
        if self.c.router.parsing != &self.c:
            raise RuntimeError("a compressed stream begins after an op")
        self.c.s2 = new_s2(level)
        self.c.s2.ready = self.c.out.end - self.c.out.start
        self.c.s2.is_fresh = True
        self.c.flags |= LINK_HELD  # until `parse` has seen it

    def hold(self):
        """Parse nothing more until `release`."""
        self.c.flags |= LINK_HELD

    def release(self):
        """Parse on, beginning with what was received while held."""
        self.c.flags &= ~<uint32_t> LINK_HELD
        if self.c.carry.end > self.c.carry.start and self.c.router.parsing != &self.c:
            try:
                reparse(&self.c)
            except Exception as error:
                self.session.failed(error)

    def take(self, size_t limit=1 << 62):
        """Up to `limit` bytes off the outbox."""
        cdef size_t n
        if self.c.s2 != NULL:
            prepare_outbox(&self.c)
        n = min(limit, self.c.out.end - self.c.out.start)
        data = PyBytes_FromStringAndSize(self.c.out.data + self.c.out.start, n)
        after_write(&self.c, n, self.c.out.end - self.c.out.start > n)
        return data

    def release_if_drained(self):
        """True if a stalled publisher may be read again."""
        return bool(release_stalled_of(&self.c))

    def use_writer(self, write):
        """`write()` is called at the end of a tick (or earlier) when the outbox has something to take."""
        self._write = write
        self.c.flush = flush_by_python

    def report_blocked(self):
        """The transport takes nothing now."""
        after_write(&self.c, 0, True)

    def discard(self):
        """Empties the outbox: nobody will read it."""
        after_write(&self.c, self.c.out.end - self.c.out.start, False)

    cdef _set_flag(self, uint32_t flag, bint on):
        if on:
            self.c.flags |= flag
        else:
            self.c.flags &= ~flag

    @property
    def pending(self):
        return self.c.out.end - self.c.out.start

    @property
    def is_closing(self):
        return bool(self.c.flags & LINK_CLOSING)

    @property
    def is_detached(self):
        return self._is_detached

    @property
    def is_held(self):
        return bool(self.c.flags & LINK_HELD)

    @property
    def is_stalled(self):
        return bool(self.c.flags & LINK_STALLED)

    @property
    def reason(self):
        return self.c.reason

    @property
    def last_activity(self):
        """Monotonic ns of the last op received, PONG excepted."""
        return self.c.last_activity

    @property
    def last_written(self):
        """Monotonic ns of the last write to the peer."""
        return self.c.last_written

    @property
    def blocked_since(self):
        """Monotonic ns since when a write has not finished, or None."""
        return self.c.blocked_since if self.c.flags & LINK_BLOCKED else None

    @property
    def counters(self):
        """(in_msgs, in_bytes, out_msgs, out_bytes, stalls)"""
        return self.c.in_msgs, self.c.in_bytes, self.c.out_msgs, self.c.out_bytes, self.c.stalls

    @property
    def subscriptions_count(self):
        return self.c.sids_count

    def subscriptions(self):
        """[(subject, queue or None, sid, delivered, limit)] in no particular order."""
        cdef uint32_t i
        cdef list rows = []
        for i in range(self.c.sids_cap):
            if self.c.sids[i] != NULL:
                rows.append(row_of(self.c.sids[i]))
        return rows

    def shadows(self, where):
        """The same rows for what hangs on their behalf in accounts whose Interest has its `id` in `where`."""
        return shadow_rows(&self.c, where)

    @property
    def interest(self):
        return self._interest

    @interest.setter
    def interest(self, Interest value not None):
        if self.c.sids_count:
            raise ValueError("a link with subscriptions cannot change its account")
        self._interest = value
        self.c.interest = &value.c

    @property
    def traced(self):
        return bool(self.c.flags & LINK_TRACED)

    @traced.setter
    def traced(self, bint on):
        self._set_flag(LINK_TRACED, on)
