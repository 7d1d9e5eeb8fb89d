"""Gateway interest: the interest of another cluster in each account, as told on one outbound connection."""

from libc.stdint cimport uint32_t

from headrace.engine.structs cimport interest_t, word_t

cdef enum mode_t:
    OPTIMISTIC = 0
    TRANSITIONING = 1
    INTEREST_ONLY = 2

cdef struct view_t:
    # One account.
    interest_t *interest         # NULL: a free place
    mode_t mode
    bint is_off                  # A- came
    bint is_guessed              # everything may be sent but what is refused
    uint32_t plain               # subscriptions that the peer has named
    uint32_t groups
    uint32_t refused             # subjects that it has

cdef struct views_t:
    # All of them, by interest: open addressing, power of two.
    view_t *table
    uint32_t cap
    uint32_t count

cdef view_t *view_of(views_t *views, interest_t *it) noexcept
cdef int add_view(views_t *views, interest_t *it, bint is_guessed) except -1
cdef void drop_view(views_t *views, interest_t *it) noexcept
cdef void release_views(views_t *views) noexcept
cdef bint covers(word_t *pattern, const char *subject, uint32_t n) noexcept
