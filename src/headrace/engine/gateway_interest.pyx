# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Gateway interest: the interest of another cluster in each account, as told on one outbound connection.

It is looked up by account with each message. The lines that change it, and what follows for a message, are in
gateway.pyx.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from headrace.engine.interest cimport table_seed
from headrace.engine.memory cimport give, take
from headrace.engine.structs cimport hr_hash, interest_t, word_t

cdef enum:
    FIRST_VIEWS = 16


cdef view_t *place_of(view_t *table, uint32_t cap, interest_t *it) noexcept:
    """The place of an account in the table, taken or free."""
    cdef uint64_t key = <uint64_t> <size_t> it
    cdef uint32_t i = <uint32_t> hr_hash(<const char *> &key, sizeof(key), table_seed) & (cap - 1)
    while table[i].interest != NULL and table[i].interest != it:
        i = (i + 1) & (cap - 1)
    return &table[i]


cdef view_t *view_of(views_t *views, interest_t *it) noexcept:
    """The view of an account; NULL: the account is not served on the connection."""
    cdef view_t *view
    if views.table == NULL:
        return NULL
    view = place_of(views.table, views.cap, it)
    return view if view.interest != NULL else NULL


cdef int add_view(views_t *views, interest_t *it, bint is_guessed) except -1:
    """Add a view of an account that has none; nothing is known of its interest yet."""
    cdef view_t *table
    cdef view_t *view
    cdef uint32_t cap, i
    if 3 * (views.count + 1) > 2 * views.cap:
        cap = max(FIRST_VIEWS, 2 * views.cap)
        table = <view_t *> take(cap * sizeof(view_t))
        memset(table, 0, cap * sizeof(view_t))
        for i in range(views.cap):
            if views.table[i].interest != NULL:
                place_of(table, cap, views.table[i].interest)[0] = views.table[i]
        give(views.table)
        views.table = table
        views.cap = cap
    view = place_of(views.table, views.cap, it)
    view.interest = it
    view.is_guessed = is_guessed
    views.count += 1
    return 0


cdef void drop_view(views_t *views, interest_t *it) noexcept:
    """Remove the view of an account; views behind it that would be looked for there move up."""
    cdef uint32_t mask = views.cap - 1
    cdef uint32_t i = <uint32_t> (place_of(views.table, views.cap, it) - views.table)
    cdef view_t moved
    memset(&views.table[i], 0, sizeof(view_t))
    views.count -= 1
    i = (i + 1) & mask
    while views.table[i].interest != NULL:
        moved = views.table[i]
        memset(&views.table[i], 0, sizeof(view_t))
        place_of(views.table, views.cap, moved.interest)[0] = moved
        i = (i + 1) & mask


cdef void release_views(views_t *views) noexcept:
    give(views.table)
    memset(views, 0, sizeof(views_t))


cdef bint covers(word_t *pattern, const char *subject, uint32_t n) noexcept:
    """True when a literal subject matches a subject that may have wildcards."""
    cdef uint32_t p = 0, i = 0
    while p < pattern.len and i < n:
        if pattern.text[p] == c'>' and p + 1 == pattern.len:
            return True
        if pattern.text[p] == c'*' and (p + 1 == pattern.len or pattern.text[p + 1] == c'.'):
            p += 1
            while i < n and subject[i] != c'.':
                i += 1
        else:
            while p < pattern.len and i < n and pattern.text[p] == subject[i] and subject[i] != c'.':
                p += 1
                i += 1
        if p == pattern.len or i == n:
            break
        if pattern.text[p] != c'.' or subject[i] != c'.':
            return False
        p += 1
        i += 1
    return p == pattern.len and i == n
