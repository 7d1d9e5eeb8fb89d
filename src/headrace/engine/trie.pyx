# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The subject trie: where subscriptions hang, and which of them match a subject.

A node stands for one token. In every row of subscriptions local ones come before remote ones (remote.pyx). Whoever
puts one in or takes one out here makes the plans stale that may name it, and tells the account's listeners.

What is made of a match, and how long it is kept, is in interest.pyx.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from headrace.engine.memory cimport give, live, resize, take
from headrace.engine.structs cimport (
    REMOTE_GATEWAY, HR_GUARD, SUB_REMOTE, group_t, hr_equal, hr_hash, interest_t, node_t, slot_t, sub_t, token_t, visit_t,
)

cdef enum:
    FIRST_CHILDREN = 4


# ---- tokens -------------------------------------------------------------------------------------

cdef int split(interest_t *it, const char *subject, uint32_t n) except -2:
    """Fills it.tokens; returns how many, or -1 when a token is empty (nothing can match then)."""
    cdef uint32_t count = 0, start = 0, end
    cdef const char *dot
    while True:
        dot = <const char *> memchr(subject + start, c'.', n - start)
        end = <uint32_t> (dot - subject) if dot != NULL else n
        if end == start:
            return -1
        if count == it.tokens_cap:
            it.tokens_cap = max(16, 2 * it.tokens_cap)
            it.tokens = <token_t *> resize(it.tokens, it.tokens_cap * sizeof(token_t))
        it.tokens[count].text = subject + start
        it.tokens[count].len = end - start
        it.tokens[count].hash = <uint32_t> hr_hash(subject + start, end - start, it.seed)
        count += 1
        if dot == NULL:
            return count
        start = end + 1


cdef inline bint is_star(token_t *t) noexcept:
    return t.len == 1 and t.text[0] == c'*'


cdef inline bint is_rest(token_t *t) noexcept:
    return t.len == 1 and t.text[0] == c'>'


# ---- trie ---------------------------------------------------------------------------------------

cdef node_t *new_node(node_t *parent, token_t *token) except NULL:
    cdef node_t *node = <node_t *> take(sizeof(node_t) + token.len)
    memset(node, 0, sizeof(node_t))
    node.parent = parent
    node.hash = token.hash
    node.token_len = token.len
    memcpy(node.token, token.text, token.len)
    live.nodes += 1
    return node


cdef inline node_t *child_of(node_t *node, token_t *t) noexcept:
    cdef uint32_t mask, i
    cdef node_t *child
    if node.children == NULL:
        return NULL
    mask = node.children_cap - 1
    i = t.hash & mask
    while True:
        child = node.children[i]
        if child == NULL:
            return NULL
        if child.hash == t.hash and child.token_len == t.len and hr_equal(child.token, t.text, t.len):
            return child
        i = (i + 1) & mask


cdef void place_child(node_t **table, uint32_t cap, node_t *child) noexcept:
    cdef uint32_t i = child.hash & (cap - 1)
    while table[i] != NULL:
        i = (i + 1) & (cap - 1)
    table[i] = child


cdef int add_child(node_t *node, node_t *child) except -1:
    cdef uint32_t cap, i
    cdef node_t **table
    if 4 * (node.children_count + 1) > 3 * node.children_cap:
        cap = max(FIRST_CHILDREN, 2 * node.children_cap)
        table = <node_t **> take(cap * sizeof(node_t *))
        memset(table, 0, cap * sizeof(node_t *))
        for i in range(node.children_cap):
            if node.children[i] != NULL:
                place_child(table, cap, node.children[i])
        give(node.children)
        node.children = table
        node.children_cap = cap
    place_child(node.children, node.children_cap, child)
    node.children_count += 1
    return 0


cdef void drop_child(node_t *node, node_t *child) noexcept:
    """Takes a literal child out of the table, closing the gap behind it (no tombstones)."""
    cdef uint32_t mask = node.children_cap - 1
    cdef uint32_t i = child.hash & mask, j, home
    while node.children[i] != child:
        i = (i + 1) & mask
    j = i
    while True:
        node.children[i] = NULL
        while True:
            j = (j + 1) & mask
            if node.children[j] == NULL:
                node.children_count -= 1
                if node.children_count == 0:
                    give(node.children)
                    node.children = NULL
                    node.children_cap = 0
                return
            home = node.children[j].hash & mask
            # j may fill the gap at i unless its home lies between them (cyclically)
            if ((j - home) & mask) >= ((j - i) & mask):
                break
        node.children[i] = node.children[j]
        i = j


cdef inline bint is_empty(node_t *node) noexcept:
    return (node.plain_count == 0 and node.groups_count == 0 and node.children_count == 0
            and node.star == NULL and node.rest == NULL)


cdef void prune(node_t *node) noexcept:
    """Frees a node that holds nothing, and its parents that hold nothing then."""
    cdef node_t *parent
    while node.parent != NULL and is_empty(node):
        parent = node.parent
        if parent.star == node:
            parent.star = NULL
        elif parent.rest == node:
            parent.rest = NULL
        else:
            drop_child(parent, node)
        give(node.plain)
        give(node)
        live.nodes -= 1
        node = parent


cdef node_t *node_at(interest_t *it, const char *subject, uint32_t n) except NULL:
    """The node of a valid subscription subject, made where missing."""
    cdef int count = split(it, subject, n), k
    cdef node_t *node = &it.root
    cdef node_t *child
    cdef token_t *t
    if count < 0:
        raise ValueError("a subscription subject with an empty token reached the trie")
    for k in range(count):
        t = &it.tokens[k]
        if is_star(t):
            if node.star == NULL:
                node.star = new_node(node, t)
            node = node.star
        elif is_rest(t):
            if node.rest == NULL:
                node.rest = new_node(node, t)
            node = node.rest
        else:
            child = child_of(node, t)
            if child == NULL:
                child = new_node(node, t)
                add_child(node, child)
            node = child
    return node


# ---- insert and remove --------------------------------------------------------------------------

cdef void invalidate(interest_t *it, const char *subject, uint32_t n) noexcept:
    """Makes stale every plan that a subscription to this subject may belong to."""
    cdef const char *dot = <const char *> memchr(subject, c'.', n)
    cdef uint32_t first = <uint32_t> (dot - subject) if dot != NULL else n
    cdef uint64_t hash
    cdef slot_t *slot
    if it.mapper != NULL or (first == 1 and (subject[0] == c'*' or subject[0] == c'>')):
        # with a mapper, plans are found under other subjects than they deliver
        it.generation += 1
    elif memchr(subject, c'*', n) != NULL or memchr(subject, c'>', n) != NULL:
        it.buckets[hr_hash(subject, first, it.seed) & 255] += 1
    else:
        hash = hr_hash(subject, n, it.seed)
        slot = &it.slots[hash & it.slot_mask]
        if slot.plan != NULL and slot.hash == hash:
            slot.plan.stamp = 0


cdef int widen_groups(node_t *node) except -1:
    cdef uint32_t cap = max(2, 2 * node.groups_cap), i
    cdef group_t **table = <group_t **> take(cap * sizeof(group_t *))
    cdef group_t *g
    cdef group_t *following
    memset(table, 0, cap * sizeof(group_t *))
    for i in range(node.groups_cap):
        g = node.groups[i]
        while g != NULL:
            following = g.next
            g.next = table[g.hash & (cap - 1)]
            table[g.hash & (cap - 1)] = g
            g = following
    give(node.groups)
    node.groups = table
    node.groups_cap = cap
    return 0


cdef group_t *group_at(node_t *node, const char *name, uint32_t n, uint32_t hash) except NULL:
    """The node's queue group of this name, made when missing."""
    cdef group_t *g = node.groups[hash & (node.groups_cap - 1)] if node.groups != NULL else NULL
    while g != NULL:
        if g.hash == hash and g.name_len == n and memcmp(g.name, name, n) == 0:
            return g
        g = g.next
    if node.groups_count == node.groups_cap:
        widen_groups(node)
    g = <group_t *> take(sizeof(group_t) + n)
    memset(g, 0, sizeof(group_t))
    g.hash = hash
    g.name_len = n
    memcpy(g.name, name, n)
    g.next = node.groups[hash & (node.groups_cap - 1)]
    node.groups[hash & (node.groups_cap - 1)] = g
    node.groups_count += 1
    return g


cdef inline void line_up(sub_t **row, uint32_t *count, uint32_t *local_count, sub_t *sub) noexcept:
    """Adds a subscription to a row that has room: local ones stand before remote ones."""
    cdef uint32_t at = count[0]
    if not sub.flags & SUB_REMOTE:
        at = local_count[0]
        local_count[0] += 1
        if at < count[0]:
            row[count[0]] = row[at]
            row[count[0]].index = count[0]
    row[at] = sub
    sub.index = at
    count[0] += 1


cdef inline void step_out(sub_t **row, uint32_t *count, uint32_t *local_count, sub_t *sub) noexcept:
    """Takes a subscription out of its row; local ones still stand before remote ones."""
    cdef uint32_t gap = sub.index
    HR_GUARD(row[gap] == sub)
    if not sub.flags & SUB_REMOTE:
        local_count[0] -= 1
        row[gap] = row[local_count[0]]
        row[gap].index = gap
        gap = local_count[0]
    count[0] -= 1
    if gap != count[0]:
        row[gap] = row[count[0]]
        row[gap].index = gap


cdef void tell_change(interest_t *it, sub_t *sub, int64_t change) noexcept:
    """Every listener hears that a subscription, which still knows its node and group, came, went or weighs more."""
    cdef uint32_t i
    for i in range(it.listeners_count):
        it.listeners[i].remote.changed(it.listeners[i], sub, change)


cdef void tell_limit(interest_t *it, sub_t *sub) noexcept:
    """Every listener that wants to know hears that a local subscription has got an auto-unsubscribe."""
    cdef uint32_t i
    for i in range(it.listeners_count):
        if it.listeners[i].remote.limited != NULL:
            it.listeners[i].remote.limited(it.listeners[i], sub)


cdef int64_t weight_of(sub_t *sub) noexcept:
    """Return the number of members that a subscription counts for in its queue group; 1 for a plain one."""
    return <int64_t> sub.quota.weight if sub.flags & SUB_REMOTE and sub.queue_len else 1


cdef inline bint counts_here(sub_t *sub) noexcept:
    """True if a subscription is counted in statistics; the interest of other clusters is not."""
    return not sub.flags & SUB_REMOTE or sub.link.remote == NULL or sub.link.remote.kind != REMOTE_GATEWAY


cdef int insert(interest_t *it, sub_t *sub) except -1:
    """Hangs a subscription (valid subject) into the trie."""
    cdef node_t *node = node_at(it, sub.subject, sub.subject_len)
    cdef group_t *group
    if sub.queue_len:
        group = group_at(node, sub.queue, sub.queue_len, <uint32_t> hr_hash(sub.queue, sub.queue_len, it.seed))
        if group.count == group.cap:
            group.cap = max(4, 2 * group.cap)
            group.members = <sub_t **> resize(group.members, group.cap * sizeof(sub_t *))
        line_up(group.members, &group.count, &group.local_count, sub)
        sub.group = group
    else:
        if node.plain_count == node.plain_cap:
            node.plain_cap = max(1, 2 * node.plain_cap)
            node.plain = <sub_t **> resize(node.plain, node.plain_cap * sizeof(sub_t *))
        line_up(node.plain, &node.plain_count, &node.local_count, sub)
        sub.group = NULL
    sub.node = node
    sub.interest = it
    it.subscriptions += counts_here(sub)
    it.inserts += 1
    invalidate(it, sub.subject, sub.subject_len)
    if it.listeners_count:
        tell_change(it, sub, weight_of(sub))
    return 0


cdef void drop_group(node_t *node, group_t *group) noexcept:
    cdef group_t **at = &node.groups[group.hash & (node.groups_cap - 1)]
    while at[0] != group:
        at = &at[0].next
    at[0] = group.next
    give(group.members)
    give(group)
    node.groups_count -= 1
    if node.groups_count == 0:
        give(node.groups)
        node.groups = NULL
        node.groups_cap = 0


cdef void remove(sub_t *sub) noexcept:
    """Takes a subscription out of the trie; the sub_t itself stays its link's."""
    cdef node_t *node = sub.node
    cdef group_t *group = sub.group
    cdef interest_t *it = sub.interest
    if node == NULL:
        return
    if group != NULL:
        step_out(group.members, &group.count, &group.local_count, sub)
    else:
        step_out(node.plain, &node.plain_count, &node.local_count, sub)
    if it.listeners_count:
        tell_change(it, sub, -weight_of(sub))
    if group != NULL and group.count == 0:
        drop_group(node, group)
    sub.node = NULL
    sub.group = NULL
    it.subscriptions -= counts_here(sub)
    it.removes += 1
    invalidate(it, sub.subject, sub.subject_len)
    prune(node)


# ---- match --------------------------------------------------------------------------------------

cdef int collect_remote(interest_t *it, node_t *node) except -1:
    cdef uint32_t more = node.plain_count - node.local_count
    cdef uint32_t n = it.match.found_remote_count + more
    if n > it.match.found_remote_cap:
        it.match.found_remote_cap = max(n, 2 * it.match.found_remote_cap)
        it.match.found_remote = <sub_t **> resize(it.match.found_remote, it.match.found_remote_cap * sizeof(sub_t *))
    memcpy(it.match.found_remote + it.match.found_remote_count, node.plain + node.local_count, more * sizeof(sub_t *))
    it.match.found_remote_count = n
    return 0


cdef int collect(interest_t *it, node_t *node) except -1:
    """Adds a matched node's subscriptions to the answer."""
    cdef uint32_t n = it.match.found_count + node.local_count, i
    cdef group_t *group
    if n > it.match.found_cap:
        it.match.found_cap = max(n, 2 * it.match.found_cap)
        it.match.found = <sub_t **> resize(it.match.found, it.match.found_cap * sizeof(sub_t *))
    if node.local_count:
        memcpy(it.match.found + it.match.found_count, node.plain, node.local_count * sizeof(sub_t *))
        it.match.found_count = n
    if node.plain_count > node.local_count:
        collect_remote(it, node)
    n = it.match.found_groups_count + node.groups_count
    if n > it.match.found_groups_cap:
        it.match.found_groups_cap = max(n, max(8, 2 * it.match.found_groups_cap))
        it.match.found_groups = <group_t **> resize(it.match.found_groups, it.match.found_groups_cap * sizeof(group_t *))
    for i in range(node.groups_cap):
        group = node.groups[i]
        while group != NULL:
            it.match.found_groups[it.match.found_groups_count] = group
            it.match.found_groups_count += 1
            group = group.next
    return 0


cdef int push(interest_t *it, uint32_t *top, node_t *node, uint32_t depth) except -1:
    if top[0] == it.stack_cap:
        it.stack_cap = max(32, 2 * it.stack_cap)
        it.stack = <visit_t *> resize(it.stack, it.stack_cap * sizeof(visit_t))
    it.stack[top[0]].node = node
    it.stack[top[0]].depth = depth
    top[0] += 1
    return 0


cdef int match(interest_t *it, const char *subject, uint32_t n) except -1:
    """Fills it.match with everything that matches a literal subject."""
    cdef int count = split(it, subject, n)
    cdef uint32_t top = 0, depth
    cdef node_t *node
    cdef node_t *child
    it.match.found_count = it.match.found_remote_count = 0
    it.match.found_groups_count = 0
    if count < 0:
        return 0
    push(it, &top, &it.root, 0)
    while top:
        top -= 1
        node = it.stack[top].node
        depth = it.stack[top].depth
        if depth == <uint32_t> count:
            collect(it, node)
            continue
        if node.rest != NULL:
            collect(it, node.rest)
        if node.star != NULL:
            push(it, &top, node.star, depth + 1)
        child = child_of(node, &it.tokens[depth])
        if child != NULL:
            push(it, &top, child, depth + 1)
    return 0


# ---- walk ---------------------------------------------------------------------------------------

cdef node_t *next_node(node_t *node) noexcept:
    """The one after it in a walk over a trie that goes down first; NULL: that was the last."""
    cdef node_t *after = child_after(node, NULL)
    while after == NULL and node.parent != NULL:
        after = child_after(node.parent, node)
        node = node.parent
    return after


cdef node_t *child_after(node_t *node, node_t *child) noexcept:
    """The child that follows another one in a walk (NULL: the first): `*`, `>`, then the literal ones."""
    cdef uint32_t i = 0
    if child == NULL and node.star != NULL:
        return node.star
    if (child == NULL or child == node.star) and node.rest != NULL:
        return node.rest
    if child != NULL and child != node.star and child != node.rest:
        i = child.hash & (node.children_cap - 1)
        while node.children[i] != child:
            i = (i + 1) & (node.children_cap - 1)
        i += 1
    # A literal child may stand before its home place, where the table wraps around: the walk is over places.
    while i < node.children_cap:
        if node.children[i] != NULL:
            return node.children[i]
        i += 1
    return NULL
