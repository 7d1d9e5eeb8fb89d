"""The subject trie: insertion, removal, match and walk."""

from libc.stdint cimport int64_t, uint32_t

from headrace.engine.structs cimport interest_t, node_t, sub_t

cdef int insert(interest_t *it, sub_t *sub) except -1
cdef void remove(sub_t *sub) noexcept
cdef int match(interest_t *it, const char *subject, uint32_t n) except -1
cdef node_t *next_node(node_t *node) noexcept
cdef void tell_change(interest_t *it, sub_t *sub, int64_t change) noexcept
cdef void tell_limit(interest_t *it, sub_t *sub) noexcept
