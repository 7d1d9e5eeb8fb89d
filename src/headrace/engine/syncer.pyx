# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A thread that has files synced and never takes the interpreter's lock.

Python's own threads wait for that lock before a sync begins and after it has ended, for as long as the owner's
thread works: as long as the sync itself takes on a quick disk. Here jobs go in, one after the other, and come
out again in that order; a descriptor becomes readable when there are some. Nothing here knows what is in a file.
"""

import os
import threading
from collections import deque

from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t
from posix.unistd cimport close, read, write

from headrace.engine.clock cimport monotonic
from headrace.engine.memory cimport give, take

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes)
    int pthread_mutex_destroy(pthread_mutex_t *mutex)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)
    int pthread_cond_init(pthread_cond_t *condition, const void *attributes)
    int pthread_cond_destroy(pthread_cond_t *condition)
    int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
    int pthread_cond_signal(pthread_cond_t *condition)
    int pthread_cond_broadcast(pthread_cond_t *condition)

cdef extern from *:
    """
    #include <unistd.h>
    #if defined(__linux__)
    #define HR_SYNC fdatasync
    #else
    #define HR_SYNC fsync
    #endif
    """
    int sync "HR_SYNC"(int fd) nogil

cdef enum:
    SCRAP = 64

cdef struct job_t:
    int fd
    int error                # errno of the sync
    int64_t ns               # that it took
    bint is_done
    job_t *next              # in the queue


cdef class SyncJob:
    """One sync that was asked for. `error`: its errno, 0 when it went well; `seconds` that it took; both once done."""

    cdef job_t *_job
    cdef Syncer _syncer

    def __cinit__(self, Syncer syncer not None, int fd):
        self._job = <job_t *> take(sizeof(job_t))
        self._job.fd = fd
        self._job.error = 0
        self._job.ns = 0
        self._job.is_done = False
        self._job.next = NULL
        self._syncer = syncer

    def __dealloc__(self):
        give(self._job)

    @property
    def is_done(self):
        return self._job.is_done

    @property
    def error(self):
        return self._job.error

    @property
    def seconds(self):
        return self._job.ns * 1e-9

    def wait(self):
        """Returns when it is done; others go on meanwhile."""
        with nogil:
            pthread_mutex_lock(&self._syncer._lock)
            while not self._job.is_done:
                pthread_cond_wait(&self._syncer._done, &self._syncer._lock)
            pthread_mutex_unlock(&self._syncer._lock)


cdef class Syncer:
    """Has a thread until `stop`, which must be called. All methods are for one thread, the owner's.

    Raises: OSError, RuntimeError where there is no pipe, no thread to be had.
    """

    cdef pthread_mutex_t _lock       # guards what the thread looks at
    cdef pthread_cond_t _changed     # the thread has something to do
    cdef pthread_cond_t _done        # a job is done
    cdef job_t *_first
    cdef job_t *_last
    cdef bint _is_stopping
    cdef bint _has_told              # the descriptor is readable
    cdef int _read_end
    cdef int _write_end
    cdef object _jobs                # those that were not taken, in order: the thread looks into them
    cdef object _thread

    def __cinit__(self):
        self._read_end = self._write_end = -1
        pthread_mutex_init(&self._lock, NULL)
        pthread_cond_init(&self._changed, NULL)
        pthread_cond_init(&self._done, NULL)
        self._jobs = deque()
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._thread = threading.Thread(target=self._run, name="headrace-syncer", daemon=True)
        self._thread.start()

    def __dealloc__(self):
        if self._read_end >= 0:  # there was no thread to be had
            close(self._read_end)
            close(self._write_end)
        pthread_cond_destroy(&self._done)
        pthread_cond_destroy(&self._changed)
        pthread_mutex_destroy(&self._lock)

    def fileno(self):
        """The descriptor that becomes readable when jobs are done; -1 after `stop`."""
        return self._read_end

    def submit(self, int fd) -> SyncJob:
        """Has a descriptor synced, which must stay open until that is done. Raises: RuntimeError after `stop`."""
        cdef SyncJob job
        if self._is_stopping:
            raise RuntimeError("the syncer is stopped")
        job = SyncJob(self, fd)
        self._jobs.append(job)
        pthread_mutex_lock(&self._lock)
        if self._last == NULL:
            self._first = job._job
        else:
            self._last.next = job._job
        self._last = job._job
        pthread_cond_signal(&self._changed)
        pthread_mutex_unlock(&self._lock)
        return job

    def take(self) -> list[SyncJob]:
        """The jobs that are done and were not taken, in the order in which they were asked for."""
        cdef char scrap[SCRAP]
        cdef SyncJob job
        cdef list done = []
        pthread_mutex_lock(&self._lock)
        if self._has_told:
            self._has_told = False
            read(self._read_end, scrap, SCRAP)
        while self._jobs:
            job = self._jobs[0]
            if not job._job.is_done:
                break
            done.append(self._jobs.popleft())
        pthread_mutex_unlock(&self._lock)
        return done

    def stop(self) -> list[SyncJob]:
        """Ends when all that was asked for is done, and gives what was not taken. Safe to call twice."""
        cdef list left
        pthread_mutex_lock(&self._lock)
        self._is_stopping = True
        pthread_cond_signal(&self._changed)
        pthread_mutex_unlock(&self._lock)
        self._thread.join()
        left = self.take()
        if self._read_end >= 0:
            os.close(self._read_end)
            os.close(self._write_end)
            self._read_end = self._write_end = -1
        return left

    def _run(self):
        with nogil:
            self._work()

    cdef void _work(self) noexcept nogil:
        cdef job_t *job
        pthread_mutex_lock(&self._lock)
        while True:
            while self._first == NULL and not self._is_stopping:
                pthread_cond_wait(&self._changed, &self._lock)
            job = self._first
            if job == NULL:
                break
            pthread_mutex_unlock(&self._lock)
            carry_out(job)
            pthread_mutex_lock(&self._lock)
            self._first = job.next
            if self._first == NULL:
                self._last = NULL
            job.is_done = True
            pthread_cond_broadcast(&self._done)
            if not self._has_told:
                self._has_told = True
                write(self._write_end, b"x", 1)
        pthread_mutex_unlock(&self._lock)


cdef void carry_out(job_t *job) noexcept nogil:
    cdef int64_t began = monotonic()
    while sync(job.fd) < 0:
        if errno != EINTR:
            job.error = errno
            break
    job.ns = monotonic() - began
