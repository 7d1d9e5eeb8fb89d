# cython: language_level=3
"""Allocation with live counters, and the growable byte buffer.

`live_objects()` is what tests compare before and after: the engine gives everything back.
"""

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from headrace.engine.structs cimport HR_PAD, buf_t


cdef void *take(size_t n) except NULL:
    """Uninitialised memory; raises MemoryError when there is none."""
    cdef void *block = malloc(n)
    if block == NULL:
        raise MemoryError(f"the engine could not allocate {n} bytes")
    live.blocks += 1
    return block


cdef void *resize(void *block, size_t n) except NULL:
    cdef void *moved = realloc(block, n)
    if moved == NULL:
        raise MemoryError(f"the engine could not allocate {n} bytes")
    if block == NULL:
        live.blocks += 1
    return moved


cdef void give(void *block) noexcept:
    if block != NULL:
        live.blocks -= 1
        free(block)


# A large block that goes back to the system is faulted in again page by page: at 1 MB a message that costs more
# than the message. So the last few stay here, 4 of SPARE_MOST bytes at most; none under the sanitizer, which is
# to see every use of what was given back. Guarded by the interpreter lock.
cdef extern from *:
    """
    #if defined(__SANITIZE_ADDRESS__)
    #define HR_SPARES 0
    #else
    #define HR_SPARES 4
    #endif
    """
    const int SPARES "HR_SPARES"

cdef extern from *:
    """
    #include <stdlib.h>
    #if defined(__GLIBC__)
    #include <malloc.h>
    enum { HR_MAPPED_ALONE = 4 << 20, HR_KEPT_FREE = 16 << 20 };
    static void hr_keep_freed(void) {
        mallopt(M_MMAP_THRESHOLD, HR_MAPPED_ALONE);
        mallopt(M_TRIM_THRESHOLD, HR_KEPT_FREE);
    }
    #else
    static void hr_keep_freed(void) {}
    #endif
    """
    void hr_keep_freed()

cdef enum:
    SPARE_LEAST = 128 << 10
    SPARE_MOST = 4 << 20

cdef struct spare_t:
    char *data
    size_t cap

cdef spare_t spares[4]


cdef char *take_block(size_t *cap) except NULL:
    """A block of at least `cap` bytes and the padding; says how many."""
    cdef char *data
    cdef int i
    if cap[0] >= SPARE_LEAST:
        for i in range(SPARES):
            if spares[i].data != NULL and cap[0] <= spares[i].cap <= 4 * cap[0]:
                data = spares[i].data
                cap[0] = spares[i].cap
                spares[i].data = NULL
                live.blocks += 1
                return data
    return <char *> take(cap[0] + HR_PAD)


cdef void give_block(char *data, size_t cap) noexcept:
    cdef int i
    if SPARE_LEAST <= cap <= SPARE_MOST:
        for i in range(SPARES):
            if spares[i].data == NULL:
                spares[i].data = data
                spares[i].cap = cap
                live.blocks -= 1
                return
    give(data)


cdef int buf_grow(buf_t *b, size_t cap) except -1:
    """Moves the content to the front of a block with room for `cap` bytes."""
    cdef size_t n = b.end - b.start
    cdef size_t room = max(cap, n)
    cdef char *data = take_block(&room)
    if n:
        memcpy(data, b.data + b.start, n)
    give_block(b.data, b.cap)
    b.data = data
    b.start = 0
    b.end = n
    b.cap = room
    return 0


cdef void buf_free(buf_t *b) noexcept:
    give_block(b.data, b.cap)
    b.data = NULL
    b.start = b.end = b.cap = 0


def keep_freed() -> None:
    """Lets this process keep up to 16 MiB that it freed, for the same reason; for programs that are a server only.

    What Python reads from files is in blocks of its own, which the spares are not for. Another C library than
    glibc has its own way.
    """
    hr_keep_freed()


def live_objects() -> dict[str, int]:
    """Count the blocks, links, subscriptions, trie nodes and plans that are allocated now."""
    return {
        "blocks": live.blocks,
        "links": live.links,
        "subs": live.subs,
        "nodes": live.nodes,
        "plans": live.plans,
    }
