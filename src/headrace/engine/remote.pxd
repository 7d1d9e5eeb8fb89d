"""Remote links: which other servers are told of interest, and where a message goes."""

from libc.stdint cimport int64_t, uint32_t

from headrace.engine.structs cimport interest_t, link_t, msg_t, plan_t, router_t, sub_t, target_t, word_t

# ---- interest
cdef int listen(interest_t *it, link_t *l) except -1
cdef void unlisten(interest_t *it, link_t *l) noexcept
cdef int reweigh(sub_t *s, int64_t weight) except -1
cdef bint same_word(word_t *a, word_t *b) noexcept
cdef word_t origin_of(sub_t *s) noexcept
cdef bint is_told(link_t *l, sub_t *s) noexcept
cdef bint is_wanted_beside(link_t *l, sub_t *s) noexcept
cdef int64_t weight_told(link_t *l, sub_t *s) noexcept

# ---- targets
cdef bint may_go(sub_t *s, msg_t *m) noexcept
cdef bint is_asked_for(sub_t *s, msg_t *m) noexcept
cdef bint is_left_across(sub_t **members, uint32_t count, msg_t *m) noexcept
cdef bint is_response(msg_t *m) noexcept
cdef int open_target(router_t *r, link_t *l, interest_t *it) except -1
cdef int add_target(router_t *r, uint32_t base, sub_t *s) except -1
cdef int note_served(router_t *r, sub_t *s) except -1
cdef sub_t *bridged_member(sub_t **members, uint32_t local_count, uint32_t count, msg_t *m) noexcept
cdef sub_t *fallback_of(sub_t *s, sub_t *fallback, msg_t *m, bint *is_final) noexcept
cdef bint send_to_asker(interest_t *it, msg_t *m) except -1
cdef int send_all(router_t *r, uint32_t base, uint32_t served_from, plan_t *plan, msg_t *m) except -1

# ---- frames
cdef bint admits(link_t *l, msg_t *m) noexcept
cdef char *room_to_tell(link_t *l, size_t n) noexcept
cdef char *room_to_send(link_t *l, size_t n) noexcept
cdef void sent(target_t *target, size_t n, uint32_t size) noexcept
cdef word_t prefix_of(target_t *target, msg_t *m) noexcept
cdef size_t names_len(router_t *r, target_t *target) noexcept
cdef char *write_names(router_t *r, target_t *target, char *at) noexcept
