# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Plain TCP on Linux: the engine's sockets behind one epoll descriptor.

Either the event loop is ours (`server.loop`) and sleeps in `wait`, or it is anybody's and watches one
descriptor (`fileno`), calling `poll` when that is ready. Both run on the thread that runs all Python code:
no locks. This file accepts, reads, writes, pauses and closes sockets and decides nothing.
Why this shape: docs/adr/0003-two-transports.md.
"""

cimport cython
from cpython.object cimport PyObject
from libc.errno cimport EAGAIN, ECONNABORTED, EINTR, errno
from libc.stdint cimport int64_t, uint16_t, uint32_t, uintptr_t
from libc.math cimport ceil
from libc.string cimport strerror
from posix.unistd cimport close

from headrace.engine.clock cimport monotonic
from headrace.engine.input_buffer cimport READ_SIZE, received, space
from headrace.engine.link cimport (
    Link, Router, after_write, doom, flush_dirty, prepare_outbox, release_stalled_of,
)
from headrace.engine.memory cimport give, take
from headrace.engine.structs cimport (
    LINK_CLOSING, LINK_HELD, LINK_STALLED, REASON_CLIENT_CLOSED, REASON_READ_ERROR, REASON_WRITE_ERROR, link_t,
)

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)
    int epoll_wait(int epfd, epoll_event *events, int maxevents, int timeout)
    enum:
        EPOLL_CLOEXEC
        EPOLL_CTL_ADD
        EPOLL_CTL_DEL
        EPOLL_CTL_MOD
        EPOLLIN
        EPOLLOUT
        EPOLLERR
        EPOLLHUP

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int fd, void *buffer, size_t n, int flags)
    ssize_t send(int fd, const void *buffer, size_t n, int flags)
    int shutdown(int fd, int how)
    ctypedef unsigned int socklen_t
    cdef struct sockaddr:
        unsigned short sa_family
    int accept4(int fd, sockaddr *address, socklen_t *size, int flags)
    int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
    enum:
        AF_INET
        AF_INET6
        MSG_NOSIGNAL
        MSG_DONTWAIT
        SHUT_WR
        SOCK_CLOEXEC
        SOCK_NONBLOCK

cdef extern from "<netinet/in.h>" nogil:
    cdef struct in_addr:
        uint32_t s_addr
    cdef struct in6_addr:
        pass
    cdef struct sockaddr_in:
        uint16_t sin_port
        in_addr sin_addr
    cdef struct sockaddr_in6:
        uint16_t sin6_port
        in6_addr sin6_addr
    uint16_t ntohs(uint16_t port)
    enum:
        INET6_ADDRSTRLEN
        IPPROTO_TCP

cdef extern from "<netinet/tcp.h>" nogil:
    enum:
        TCP_NODELAY

cdef extern from "<arpa/inet.h>" nogil:
    const char *inet_ntop(int family, const void *address, char *text, socklen_t size)

cdef extern from *:
    """
    #if defined(__x86_64__)
    #define HR_RELAX() __builtin_ia32_pause()
    #elif defined(__aarch64__)
    #define HR_RELAX() __asm__ __volatile__("isb")
    #else
    #define HR_RELAX() ((void) 0)
    #endif
    """
    void relax "HR_RELAX"() noexcept nogil

cdef enum:
    RELAXES = 16             # between two looks: the other thread of this core may be the peer we wait for
    EVENTS = 256
    ROUNDS = 64              # polls per tick at most, so that Python code of the loop gets its turn
    ROUND_NS = 1_000_000      # and no new round once this much time has passed
    MOST_MS = 1 << 30
    FREE_MISSES = 4
    MOST_MISSES = 10
    DISCARD_READS = 16       # reads thrown away at close, so that the peer sees our last words, not a reset

cdef struct socket_t:
    int fd
    int epfd
    uint32_t events
    bint is_at_end           # everything the peer will ever send has been read


cdef union address_t:
    sockaddr any
    sockaddr_in v4
    sockaddr_in6 v6


cdef void *mark_of(int fd) noexcept:
    """The mark of a watched descriptor in an event; odd, as no address of a link is."""
    return <void *> ((<uintptr_t> fd << 1) | 1)


cdef int milliseconds(timeout) except -2:
    """Return a timeout of `select` in milliseconds: None is no end, and a short time is not rounded down to none."""
    if timeout is None:
        return -1
    return <int> min(ceil(max(timeout, 0.0) * 1000), <double> MOST_MS)


cdef void watch(link_t *l, uint32_t events) noexcept:
    cdef socket_t *s = <socket_t *> l.transport
    cdef epoll_event event
    if s == NULL or s.events == events:
        return
    event.events = events
    event.data.ptr = l
    s.events = events
    epoll_ctl(s.epfd, EPOLL_CTL_MOD, s.fd, &event)


cdef void watch_as_needed(link_t *l, bint blocked) noexcept:
    cdef uint32_t events = 0
    if not l.flags & (LINK_CLOSING | LINK_HELD | LINK_STALLED):
        events |= EPOLLIN
    if blocked:
        events |= EPOLLOUT
    watch(l, events)


cdef void flush_socket(link_t *l) noexcept:
    cdef socket_t *s = <socket_t *> l.transport
    cdef ssize_t n
    cdef size_t pending
    if l.s2 != NULL:
        prepare_outbox(l)
    pending = l.out.end - l.out.start
    while pending:
        n = send(s.fd, l.out.data + l.out.start, pending, MSG_NOSIGNAL | MSG_DONTWAIT)
        if n < 0:
            if errno == EINTR:
                continue
            if errno == EAGAIN:
                after_write(l, 0, True)
                watch_as_needed(l, True)
                return
            doom(l, REASON_WRITE_ERROR)
            after_write(l, pending, False)
            return
        if <size_t> n < pending:
            after_write(l, n, True)
            watch_as_needed(l, True)
            return
        after_write(l, n, False)
        pending = l.out.end - l.out.start
    if s.events & EPOLLOUT:
        watch_as_needed(l, False)


@cython.no_gc_clear  # its sockets must be closed before its links go
cdef class Poller:
    """All plain TCP connections of one event loop.

    `poll` returns the links that must be closed (`Router.end_tick`). `spin_ns` is how long a tick that had work
    goes on looking before it sleeps; `looks` counts how often it did.
    """

    cdef int _epfd
    cdef readonly Router router
    cdef dict _links
    cdef dict _watched           # by descriptor: who is told that it can be read
    cdef set _stalled
    cdef list _gone              # closed within `poll`: an event that was fetched before may still name them
    cdef bint _is_polling
    cdef int64_t _spin_ns
    cdef readonly int64_t looks
    cdef int _misses             # looks in a row that found nothing
    cdef int _looks_skipped      # since the last one
    cdef int64_t _served_at      # when a socket was last ready
    cdef bint _has_parting       # a closing link was served: the server looks whether that was all
    cdef list _closing           # links that `wait` found, for `poll` to return

    def __cinit__(self, Router router not None, int64_t spin_ns=0):
        self._spin_ns = spin_ns
        self._epfd = epoll_create1(EPOLL_CLOEXEC)
        if self._epfd < 0:
            raise OSError(errno, strerror(errno).decode())
        self.router = router
        self._links = {}
        self._watched = {}
        self._stalled = set()
        self._gone = []
        self._closing = []

    def __dealloc__(self):
        cdef Link link
        for link in list(self._links.values()):
            self._drop(link)
        if self._epfd >= 0:
            close(self._epfd)

    def fileno(self):
        return self._epfd

    def __len__(self):
        return len(self._links)

    def add(self, Link link not None, int fd):
        """Takes over a connected non-blocking socket; it is closed by `close`.

        Raises: OSError when the descriptor cannot be watched (it stays the caller's then), ValueError when the
        link has one already.
        """
        cdef epoll_event event
        cdef socket_t *s
        if link.c.transport != NULL:
            raise ValueError("a link has one socket")
        event.events = EPOLLIN
        event.data.ptr = &link.c
        if epoll_ctl(self._epfd, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, strerror(errno).decode())
        s = <socket_t *> take(sizeof(socket_t))
        s.fd = fd
        s.epfd = self._epfd
        s.events = EPOLLIN
        s.is_at_end = False
        link.c.transport = s
        link.c.flush = flush_socket
        self._links[fd] = link

    def watch(self, int fd, watcher):
        """From now on calls `watcher.ready()` in each tick in which a descriptor can be read.

        What that raises goes to `watcher.failed(error)`. Raises: OSError when it cannot be watched.
        """
        cdef epoll_event event
        event.events = EPOLLIN
        event.data.ptr = mark_of(fd)
        if epoll_ctl(self._epfd, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, strerror(errno).decode())
        self._watched[fd] = watcher

    def unwatch(self, int fd):
        """The end of `watch`, before the descriptor is closed; one that is not watched is left alone."""
        if self._watched.pop(fd, None) is not None:
            epoll_ctl(self._epfd, EPOLL_CTL_DEL, fd, NULL)

    def accept(self, int fd):
        """The next connection that waits at a listening socket: (descriptor, address of the peer, its port).

        The descriptor does not block and belongs to the caller. None: nobody waits, or who did is gone.
        Raises: OSError, also when the process may have no more descriptors.
        """
        cdef address_t peer
        cdef socklen_t size = sizeof(address_t)
        cdef char text[INET6_ADDRSTRLEN]
        cdef int one = 1
        cdef int sock = accept4(fd, &peer.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC)
        if sock < 0:
            if errno == EAGAIN or errno == EINTR or errno == ECONNABORTED:
                return None
            raise OSError(errno, strerror(errno).decode())
        setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
        text[0] = 0
        if peer.any.sa_family == AF_INET:
            inet_ntop(AF_INET, &peer.v4.sin_addr, text, sizeof(text))
            return sock, text.decode("ascii"), ntohs(peer.v4.sin_port)
        if peer.any.sa_family == AF_INET6:
            inet_ntop(AF_INET6, &peer.v6.sin6_addr, text, sizeof(text))
            return sock, text.decode("ascii"), ntohs(peer.v6.sin6_port)
        return sock, "", 0

    def flush(self, Link link not None):
        """Writes what the socket takes now; True when nothing is left, and a closing link may be closed."""
        if link.c.transport == NULL:
            return True
        if link.c.out.end > link.c.out.start:
            flush_socket(&link.c)
        return link.c.out.end == link.c.out.start

    def close(self, Link link not None):
        """Ends the socket: a FIN after what was sent, input thrown away."""
        cdef char scrap[READ_SIZE]
        cdef socket_t *s = <socket_t *> link.c.transport
        cdef int i
        if s == NULL:
            return
        if not s.is_at_end:
            shutdown(s.fd, SHUT_WR)
            for i in range(DISCARD_READS):
                if recv(s.fd, scrap, READ_SIZE, MSG_DONTWAIT) <= 0:
                    break
        if self._is_polling:
            self._gone.append(link)
        del self._links[s.fd]
        self._stalled.discard(link)
        self._drop(link)

    cdef _drop(self, Link link):
        """Closes the descriptor; the peer is not waited for."""
        cdef socket_t *s = <socket_t *> link.c.transport
        link.c.transport = NULL
        link.c.flush = NULL
        epoll_ctl(self._epfd, EPOLL_CTL_DEL, s.fd, NULL)
        close(s.fd)
        give(s)

    def resume(self, Link link not None):
        """Reads again from a link that was held."""
        if link.c.transport != NULL:
            self._pause_or_read(&link.c)

    cdef _pause_or_read(self, link_t *l):
        """Watch a link again after its bytes were parsed, or let it wait."""
        watch_as_needed(l, l.out.end > l.out.start)
        if l.flags & LINK_STALLED:
            self._stalled.add(<Link> l.owner)

    @property
    def has_stalled(self):
        return len(self._stalled) > 0

    cdef _read(self, link_t *l):
        cdef char *data
        cdef size_t room
        cdef ssize_t n
        cdef socket_t *s = <socket_t *> l.transport
        space(l, &data, &room)
        n = recv(s.fd, data, room, MSG_DONTWAIT)
        if n > 0:
            received(l, n)
            if l.flags & (LINK_STALLED | LINK_HELD | LINK_CLOSING):
                self._pause_or_read(l)
        elif n == 0:
            s.is_at_end = True
            doom(l, REASON_CLIENT_CLOSED)
        elif errno != EAGAIN and errno != EINTR:
            doom(l, REASON_READ_ERROR)

    cdef _serve(self, link_t *l, uint32_t events):
        cdef Link link
        if l.transport == NULL:  # closed while an earlier event was served
            return
        if events & (EPOLLOUT | EPOLLERR | EPOLLHUP):
            if l.out.end > l.out.start:
                flush_socket(l)
            else:
                watch_as_needed(l, False)
        if l.flags & LINK_CLOSING:
            self._has_parting = True
            return
        if events & (EPOLLIN | EPOLLERR | EPOLLHUP) and not l.flags & (LINK_STALLED | LINK_HELD):
            link = <Link> l.owner  # keeps it alive while its own bytes may close it
            try:
                self._read(l)
            except Exception as error:
                link.session.failed(error)
        elif events & (EPOLLERR | EPOLLHUP):
            doom(l, REASON_CLIENT_CLOSED)

    cdef _tell(self, int fd):
        """A watched descriptor can be read."""
        cdef object watcher = self._watched.get(fd)
        if watcher is None:  # it was given up while an earlier event was served
            return
        try:
            watcher.ready()
        except Exception as error:
            watcher.failed(error)

    cdef _release_stalled(self):
        cdef Link link
        cdef set waiting = self._stalled
        self._stalled = set()
        for link in waiting:
            if link.c.transport == NULL:
                continue
            if release_stalled_of(&link.c):
                watch_as_needed(&link.c, link.c.out.end > link.c.out.start)
            else:
                self._stalled.add(link)

    def host(self, int fd):
        """From now on `wait` also ends when this descriptor, the loop's own selector, is ready."""
        cdef epoll_event event
        event.events = EPOLLIN
        event.data.ptr = NULL
        if epoll_ctl(self._epfd, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, strerror(errno).decode())

    def wait(self, timeout):
        """Sleeps until something is ready or `timeout` seconds (None: no end) are over, and serves it.

        Returns whether the descriptor given to `host` is ready. What is left to Python, the caller of `settle`
        does (`is_due`). Sessions may have asked the loop for something, so it looks before it waits again.
        """
        cdef epoll_event events[EVENTS]
        cdef int ms = milliseconds(timeout)
        cdef int n = epoll_wait(self._epfd, events, EVENTS, 0)
        cdef bint is_host_ready
        if n == 0 and ms != 0:
            n = self._look(events, self._served_at)
            if n == 0:
                with nogil:
                    n = epoll_wait(self._epfd, events, EVENTS, ms)
        if n <= 0:
            return False
        self.router.c.now = monotonic()
        self._is_polling = True
        try:
            is_host_ready = self._serve_all(events, n)
        finally:
            self._is_polling = False
            self._gone.clear()
        self._closing += self.router.end_tick()
        if n > is_host_ready:
            self._served_at = monotonic()
        return is_host_ready

    @property
    def is_due(self):
        """True if links are to be closed, waited for or released, or a service served: what `settle` is for."""
        return (self._has_parting or len(self._closing) > 0 or len(self._stalled) > 0
                or self.router.c.due != NULL)

    def settle(self):
        """Ends the tick that `wait` began, without a look at the sockets; returns the links to close."""
        cdef list closing
        self._has_parting = False
        if self._stalled:
            self._release_stalled()
        closing = self._closing + self.router.end_tick()
        self._closing = []
        return closing

    def poll(self):
        """One tick: reads what is ready, delivers, flushes; returns the links to close."""
        self._is_polling = True
        try:
            self._rounds()
        finally:
            self._is_polling = False
            self._gone.clear()
        return self.settle()

    cdef bint _serve_all(self, epoll_event *events, int n) except -1:
        """True when the descriptor of `host` is among them."""
        cdef bint is_host_ready = False
        cdef int i
        for i in range(n):
            if events[i].data.ptr == NULL:
                is_host_ready = True
            elif <uintptr_t> events[i].data.ptr & 1:
                self._tell(<int> (<uintptr_t> events[i].data.ptr >> 1))
            else:
                self._serve(<link_t *> events[i].data.ptr, events[i].events)
        flush_dirty(&self.router.c)
        if self._stalled:
            self._release_stalled()
        return is_host_ready

    cdef int _look(self, epoll_event *events, int64_t since) noexcept:
        """Polls until `spin_ns` after `since`: cheaper than sleeping where the next event is that close.

        Where it rarely is, looks become rare: from the fifth miss in a row each doubles the ticks until the next.
        """
        cdef int n = 0
        cdef int i
        if self._looks_skipped < (1 << self._misses >> FREE_MISSES) - 1:
            self._looks_skipped += 1
            return 0
        if monotonic() - since >= self._spin_ns:
            return 0
        self.looks += 1
        with nogil:  # a thread that has finished a sync, say, is to be heard at once
            while n == 0 and monotonic() - since < self._spin_ns:
                for i in range(RELAXES):
                    relax()
                n = epoll_wait(self._epfd, events, EVENTS, 0)
        self._looks_skipped = 0
        self._misses = 0 if n else min(self._misses + 1, MOST_MISSES)
        return n

    cdef _rounds(self):
        cdef epoll_event events[EVENTS]
        cdef int n, rounds
        cdef int64_t began = monotonic()
        self.router.c.now = began
        for rounds in range(ROUNDS):
            n = epoll_wait(self._epfd, events, EVENTS, 0)
            if n == 0:
                n = self._look(events, self.router.c.now)
            if n <= 0 or self._serve_all(events, n) or self.router.c.doomed != NULL:
                break
            self.router.c.now = monotonic()
            if self.router.c.now - began > ROUND_NS:
                break
