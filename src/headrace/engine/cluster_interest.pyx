# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Cluster interest, as other clusters are told it: subscriptions of this server, of leafs and of the other servers of
the cluster, counted for each subject and queue group.

Source: gateway protocol, section 8.
"""

from libc.stdint cimport int64_t, uint32_t

from headrace.engine.structs cimport REMOTE_GATEWAY, SUB_REMOTE, SUB_LOCAL, group_t, interest_t, link_t, node_t, sub_t, word_t
from headrace.engine.trie cimport next_node
from headrace.engine.wire cimport write_interest


cdef inline bint is_counted(sub_t *s) noexcept:
    """True if other clusters are told of a subscription."""
    if s.flags & SUB_LOCAL:
        return False
    return not s.flags & SUB_REMOTE or s.link.remote != NULL and s.link.remote.kind != REMOTE_GATEWAY and not s.link.remote.is_spoke


cdef int64_t weight_here(group_t *group) noexcept:
    """Return the number of members that a queue group has in this cluster."""
    cdef int64_t weight = group.local_count
    cdef uint32_t i
    for i in range(group.local_count, group.count):
        if is_counted(group.members[i]):
            weight += <int64_t> group.members[i].quota.weight
    return weight


cdef void tell(link_t *l, sub_t *s, bint wanted) noexcept:
    cdef word_t account
    account.text = s.interest.account
    account.len = s.interest.account_len
    write_interest(l, s, c'R', NULL, &account, 1 if wanted else 0)


cdef void cluster_changed(link_t *l, sub_t *s, int64_t change) noexcept:
    """A listener's hook on inbound connections: the first subscription is told, and the end of the last."""
    cdef node_t *node = s.node
    cdef int64_t weight
    cdef uint32_t i
    if not is_counted(s):
        return
    if s.group != NULL:
        weight = weight_here(s.group)
        if (weight > 0) != (weight - change > 0):
            tell(l, s, weight > 0)
        return
    for i in range(node.plain_count):  # local ones nearly always count, so one of the first two ends this
        if node.plain[i] != s and is_counted(node.plain[i]):
            return
    tell(l, s, change > 0)


cdef int tell_all(link_t *l, interest_t *it, bint wanted) except -1:
    """One line for everything in the trie that this cluster wants, or (not `wanted`) has wanted."""
    cdef node_t *node = &it.root
    cdef group_t *group
    cdef uint32_t i
    while node != NULL:
        for i in range(node.plain_count):
            if is_counted(node.plain[i]):
                tell(l, node.plain[i], wanted)
                break
        for i in range(node.groups_cap):
            group = node.groups[i]
            while group != NULL:
                if weight_here(group) > 0:
                    tell(l, group.members[0], wanted)
                group = group.next
        node = next_node(node)
    return 0
