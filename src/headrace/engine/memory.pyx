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


cdef int buf_grow(buf_t *b, size_t cap) except -1:
    """Moves the content to the front of a block with room for `cap` bytes."""
    cdef size_t n = b.end - b.start
    cdef char *data = <char *> take(max(cap, n) + HR_PAD)
    if n:
        memcpy(data, b.data + b.start, n)
    give(b.data)
    b.data = data
    b.start = 0
    b.end = n
    b.cap = max(cap, n)
    return 0


cdef void buf_free(buf_t *b) noexcept:
    give(b.data)
    b.data = NULL
    b.start = b.end = b.cap = 0


def live_objects() -> dict[str, int]:
    """How many blocks, links, subscriptions, trie nodes and plans are allocated now."""
    return {
        "blocks": live.blocks,
        "links": live.links,
        "subs": live.subs,
        "nodes": live.nodes,
        "plans": live.plans,
    }
