"""Interest of one account: its trie and the plan cache over it."""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.structs cimport interest_t, match_t, plan_t, sub_t

cdef class Interest:
    cdef interest_t c
    cdef object _mapper
    cdef object _imports
    cdef object _account

# One secret for the process, so that the hash of a subject holds in every table it is a key of.
cdef uint64_t table_seed

cdef plan_t *plan_at(interest_t *it, uint64_t hash, const char *subject, uint32_t n) except NULL
cdef plan_t *plan_for(interest_t *it, const char *subject, uint32_t n) except NULL
cdef plan_t *unmapped_plan(interest_t *it, const char *subject, uint32_t n) except NULL
cdef void pin(interest_t *it, match_t *pinned) noexcept
cdef void unpin(interest_t *it, match_t *pinned) noexcept
cdef tuple row_of(sub_t *s)
cdef sub_t *find_plain(interest_t *it, const char *subject, uint32_t n, void *link) except? NULL
