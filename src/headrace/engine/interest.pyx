# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Interest of one account: the subject trie, and the cache of plans made from it.

A trie node stands for one token. A literal subject is looked up in a direct-mapped cache first; a
miss walks the trie (each node is visited at most once) and the answer is only kept when the same
subject misses twice in a row, so one-time reply inboxes neither allocate nor push out others.

What makes a plan stale: a change to a literal subject clears just that subject's slot; a change to a
wildcard whose first token is literal moves one of 256 generation buckets (by that token's hash); any
other wildcard moves the account's generation. Deciding *whether* one may publish or subscribe never
lives here.
"""

import os

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memchr, memcmp, memcpy, memset

from headrace.engine.memory cimport buf_free, buf_reserve, give, live, resize, take
from headrace.engine.structs cimport (
    HR_GUARD, HR_PAD, SUB_LIMITED, group_t, hr_equal, hr_hash, interest_t, match_t, node_t, plan_t, slot_t, sub_t, token_t,
    visit_t,
)

# Plans kept per account: the cache starts small and doubles while fresh plans push each other out.
cdef enum:
    FIRST_SLOTS = 1024
    MOST_SLOTS = 65536
    MOST_POINTERS = 1 << 22  # subscriptions named by all cached plans; past it the cache is emptied
    FIRST_CHILDREN = 4
    LONGEST_CACHED = 512     # subjects longer than this are matched each time, so that the cache's text is bounded

table_seed = int.from_bytes(os.urandom(8), "little")


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


cdef int insert(interest_t *it, sub_t *sub) except -1:
    """Hangs a subscription (valid subject) into the trie."""
    cdef node_t *node = node_at(it, sub.subject, sub.subject_len)
    cdef group_t *group
    if sub.queue_len:
        group = group_at(node, sub.queue, sub.queue_len, <uint32_t> hr_hash(sub.queue, sub.queue_len, it.seed))
        if group.count == group.cap:
            group.cap = max(4, 2 * group.cap)
            group.members = <sub_t **> resize(group.members, group.cap * sizeof(sub_t *))
        sub.index = group.count
        group.members[group.count] = sub
        group.count += 1
        sub.group = group
    else:
        if node.plain_count == node.plain_cap:
            node.plain_cap = max(1, 2 * node.plain_cap)
            node.plain = <sub_t **> resize(node.plain, node.plain_cap * sizeof(sub_t *))
        sub.index = node.plain_count
        node.plain[node.plain_count] = sub
        node.plain_count += 1
        sub.group = NULL
    sub.node = node
    sub.interest = it
    it.subscriptions += 1
    it.inserts += 1
    invalidate(it, sub.subject, sub.subject_len)
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
        HR_GUARD(group.members[sub.index] == sub)
        group.count -= 1
        group.members[sub.index] = group.members[group.count]
        group.members[sub.index].index = sub.index
        if group.count == 0:
            drop_group(node, group)
    else:
        HR_GUARD(node.plain[sub.index] == sub)
        node.plain_count -= 1
        node.plain[sub.index] = node.plain[node.plain_count]
        node.plain[sub.index].index = sub.index
    sub.node = NULL
    sub.group = NULL
    it.subscriptions -= 1
    it.removes += 1
    invalidate(it, sub.subject, sub.subject_len)
    prune(node)


# ---- match --------------------------------------------------------------------------------------

cdef int collect(interest_t *it, node_t *node) except -1:
    """Adds a matched node's subscriptions to the answer."""
    cdef uint32_t n = it.match.found_count + node.plain_count, i
    cdef group_t *group
    if n > it.match.found_cap:
        it.match.found_cap = max(n, 2 * it.match.found_cap)
        it.match.found = <sub_t **> resize(it.match.found, it.match.found_cap * sizeof(sub_t *))
    if node.plain_count:
        memcpy(it.match.found + it.match.found_count, node.plain, node.plain_count * sizeof(sub_t *))
        it.match.found_count = n
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
    it.match.found_count = 0
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


cdef sub_t *find_plain(interest_t *it, const char *subject, uint32_t n, void *link) except? NULL:
    """A plain subscription of this very link that matches, or NULL (asked for no-responders replies)."""
    cdef uint32_t i
    match(it, subject, n)
    for i in range(it.match.found_count):
        if <void *> it.match.found[i].link == link:
            return it.match.found[i]
    return NULL


# ---- plans --------------------------------------------------------------------------------------

cdef int by_name(const void *a, const void *b) noexcept nogil:
    """Sorts groups so that those of one name stand together."""
    cdef group_t *g = (<group_t **> a)[0]
    cdef group_t *h = (<group_t **> b)[0]
    if g.hash != h.hash:
        return -1 if g.hash < h.hash else 1
    if g.name_len != h.name_len:
        return -1 if g.name_len < h.name_len else 1
    return memcmp(g.name, h.name, g.name_len)


cdef int gather_members(interest_t *it) except -1:
    """Lays the matched queue groups out behind the plain subscriptions; groups of one name become one."""
    cdef plan_t *plan = &it.match.scratch
    cdef uint32_t i, total = it.match.found_count, end = 0
    cdef group_t *group
    for i in range(it.match.found_groups_count):
        total += it.match.found_groups[i].count
    if total > it.match.found_cap:
        it.match.found_cap = max(total, 2 * it.match.found_cap)
        it.match.found = <sub_t **> resize(it.match.found, it.match.found_cap * sizeof(sub_t *))
    if it.match.found_groups_count > it.match.scratch_ends_cap:
        it.match.scratch_ends_cap = max(8, it.match.found_groups_cap)
        it.match.scratch_ends = <uint32_t *> resize(it.match.scratch_ends, it.match.scratch_ends_cap * sizeof(uint32_t))
    if it.match.found_groups_count > 1:
        qsort(it.match.found_groups, it.match.found_groups_count, sizeof(group_t *), by_name)
    plan.plain = it.match.found
    plan.members = it.match.found + it.match.found_count
    plan.group_ends = it.match.scratch_ends
    plan.plain_count = it.match.found_count
    plan.group_count = 0
    plan.pointers = total
    for i in range(it.match.found_groups_count):
        group = it.match.found_groups[i]
        memcpy(plan.members + end, group.members, group.count * sizeof(sub_t *))
        end += group.count
        if i == 0 or by_name(&it.match.found_groups[i - 1], &it.match.found_groups[i]) != 0:
            plan.group_count += 1
        plan.group_ends[plan.group_count - 1] = end
    HR_GUARD(plan.plain_count + end <= it.match.found_cap)
    return 0


cdef int write_head(interest_t *it, const char *subject, uint32_t n, const char *target, uint32_t target_n) except -1:
    """scratch_text becomes "<subject looked up>HMSG <subject delivered> "."""
    cdef char *text
    it.match.scratch_text.start = it.match.scratch_text.end = 0
    buf_reserve(&it.match.scratch_text, n + target_n + 6)
    text = it.match.scratch_text.data
    memcpy(text, subject, n)
    memcpy(text + n, b"HMSG ", 5)
    memcpy(text + n + 5, target, target_n)
    text[n + 5 + target_n] = c' '
    it.match.scratch.subject = text
    it.match.scratch.subject_len = n
    it.match.scratch.head = text + n
    it.match.scratch.head_len = target_n + 6
    return 0


cdef void free_plan(interest_t *it, plan_t *plan) noexcept:
    if plan != NULL:
        it.pointers -= plan.pointers
        it.plans -= 1
        live.plans -= 1
        give(plan)


cdef plan_t *keep(interest_t *it, plan_t *scratch) except NULL:
    """A copy of the scratch plan in one block: header, pointers, ends, text."""
    cdef size_t pointers = scratch.pointers * sizeof(sub_t *)
    cdef size_t ends = scratch.group_count * sizeof(uint32_t)
    cdef size_t text = scratch.subject_len + scratch.head_len
    cdef char *block = <char *> take(sizeof(plan_t) + pointers + ends + text + HR_PAD)
    cdef plan_t *plan = <plan_t *> block
    plan[0] = scratch[0]
    block += sizeof(plan_t)
    if pointers:
        memcpy(block, scratch.plain, pointers)
    plan.plain = <sub_t **> block
    plan.members = plan.plain + plan.plain_count
    block += pointers
    if ends:
        memcpy(block, scratch.group_ends, ends)
    plan.group_ends = <uint32_t *> block
    block += ends
    memcpy(block, scratch.subject, text)
    plan.subject = block
    plan.head = block + plan.subject_len
    live.plans += 1
    it.plans += 1
    it.pointers += plan.pointers
    return plan


cdef void empty_cache(interest_t *it) noexcept:
    cdef uint32_t i
    for i in range(it.slot_mask + 1):
        free_plan(it, it.slots[i].plan)
        it.slots[i].plan = NULL


cdef int widen_cache(interest_t *it) except -1:
    cdef uint32_t cap = 2 * (it.slot_mask + 1), i
    cdef slot_t *slots = <slot_t *> take(cap * sizeof(slot_t))
    cdef slot_t *old = it.slots
    memset(slots, 0, cap * sizeof(slot_t))
    for i in range(it.slot_mask + 1):
        if old[i].plan != NULL:  # two plans of one old slot cannot be: each slot held one
            slots[old[i].hash & (cap - 1)] = old[i]
    give(old)
    it.slots = slots
    it.slot_mask = cap - 1
    it.conflicts = 0
    return 0


cdef inline uint64_t stamp_of(interest_t *it, uint32_t bucket) noexcept:
    return 1 + it.generation + it.buckets[bucket]


cdef plan_t *promote(interest_t *it, slot_t *slot, uint64_t hash) except NULL:
    """Puts the scratch plan into the cache."""
    if slot.plan != NULL:
        if slot.hash != hash and slot.plan.stamp == stamp_of(it, slot.plan.bucket):
            it.conflicts += 1
        free_plan(it, slot.plan)
        slot.plan = NULL
    if it.conflicts > it.slot_mask >> 2 and it.slot_mask + 1 < MOST_SLOTS:
        widen_cache(it)
        slot = &it.slots[hash & it.slot_mask]
        free_plan(it, slot.plan)
        slot.plan = NULL
    if it.pointers + it.match.scratch.pointers > MOST_POINTERS:
        empty_cache(it)
    slot.plan = keep(it, &it.match.scratch)
    slot.hash = hash
    return slot.plan


cdef void pin(interest_t *it, match_t *pinned) noexcept:
    """Keeps a plan that is being followed while others are looked up: those get memory of their own, and none
    goes into the cache, where it would push out another. Ends with `unpin`, in reverse order."""
    pinned[0] = it.match
    memset(&it.match, 0, sizeof(match_t))
    it.pins += 1


cdef void unpin(interest_t *it, match_t *pinned) noexcept:
    free_match(&it.match)
    it.match = pinned[0]
    it.pins -= 1


cdef void free_match(match_t *match) noexcept:
    give(match.found)
    give(match.found_groups)
    give(match.scratch_ends)
    buf_free(&match.scratch_text)


cdef plan_t *make_plan(interest_t *it, slot_t *slot, uint64_t hash, const char *subject, uint32_t n) except NULL:
    cdef const char *target = subject
    cdef uint32_t target_n = n
    cdef bytes mapped
    cdef bint is_lasting = True
    it.misses += 1
    if it.mapper != NULL:
        # the one question put to Python: which subject this one is delivered as, and for how long that holds
        answer = (<object> it.mapper)(subject[:n])
        if answer is not None:
            mapped, is_lasting = answer
            target = mapped
            target_n = <uint32_t> len(mapped)
    match(it, target, target_n)
    gather_members(it)
    write_head(it, subject, n, target, target_n)
    it.match.scratch.renames = target != subject
    it.match.scratch.bucket = it.tokens[0].hash & 255 if it.tokens_cap and target_n else 0
    it.match.scratch.stamp = stamp_of(it, it.match.scratch.bucket)
    it.fanout_total += it.match.scratch.plain_count + it.match.scratch.group_count
    it.fanout_max = max(it.fanout_max, it.match.scratch.plain_count + it.match.scratch.group_count)
    if not is_lasting or it.pins or n + target_n > 2 * LONGEST_CACHED:
        return &it.match.scratch
    if slot.missed != hash:
        slot.missed = hash
        return &it.match.scratch
    return promote(it, slot, hash)


cdef plan_t *plan_at(interest_t *it, uint64_t hash, const char *subject, uint32_t n) except NULL:
    """`plan_for` a subject whose hash (with the table seed) is known already."""
    cdef slot_t *slot = &it.slots[hash & it.slot_mask]
    cdef plan_t *plan = slot.plan
    it.lookups += 1
    if (plan != NULL and slot.hash == hash and plan.subject_len == n
            and plan.stamp == 1 + it.generation + it.buckets[plan.bucket]
            and hr_equal(plan.subject, subject, n)):
        return plan
    return make_plan(it, slot, hash, subject, n)


cdef plan_t *plan_for(interest_t *it, const char *subject, uint32_t n) except NULL:
    """Who gets a message on this subject. The plan is good until the next call or change of interest."""
    return plan_at(it, hr_hash(subject, n, it.seed), subject, n)


cdef tuple row_of(sub_t *s):
    """(subject, queue or None, sid, delivered, limit), for listings."""
    return (s.subject[:s.subject_len], s.queue[:s.queue_len] if s.queue_len else None, s.text[:s.sid_len],
            s.delivered, s.limit if s.flags & SUB_LIMITED else 0)


cdef class Interest:
    """The subscriptions of one account.

    `mapper`, when set, is called once per published subject (bytes) and returns None or
    `(subject to deliver as, whether that answer lasts)`.
    """

    def __cinit__(self):
        memset(&self.c, 0, sizeof(interest_t))
        self.c.seed = table_seed
        self.c.slot_mask = FIRST_SLOTS - 1
        self.c.slots = <slot_t *> take(FIRST_SLOTS * sizeof(slot_t))
        memset(self.c.slots, 0, FIRST_SLOTS * sizeof(slot_t))

    def __dealloc__(self):
        if self.c.slots != NULL:
            empty_cache(&self.c)
        give(self.c.slots)
        give(self.c.tokens)
        give(self.c.stack)
        give(self.c.root.plain)
        give(self.c.root.children)
        free_match(&self.c.match)

    @property
    def imports(self):
        """What subscriptions here also receive from other accounts: a tuple of `shadows.StreamImport`.

        Set before there are subscriptions, afterwards changed by `shadows.change_imports`, to () too when the
        account ends: two that import from each other hold each other.
        """
        return () if self._imports is None else self._imports

    @imports.setter
    def imports(self, tuple value not None):
        self._imports = value or None
        self.c.imports = <PyObject *> value if value else NULL

    @property
    def mapper(self):
        return self._mapper

    @mapper.setter
    def mapper(self, value):
        self._mapper = value
        self.c.mapper = NULL if value is None else <PyObject *> value
        self.c.generation += 1

    def receivers(self, bytes subject not None):
        """How many plain subscriptions and queue groups a message on this subject reaches."""
        cdef plan_t *plan
        if self.c.is_followed:
            raise RuntimeError("the interest is in use: a message is being delivered")
        plan = plan_for(&self.c, subject, <uint32_t> len(subject))
        return plan.plain_count, plan.group_count

    def statistics(self):
        """Figures for /subsz: counts since start, and the present sizes."""
        cdef interest_t *it = &self.c
        return {
            "subscriptions": it.subscriptions,
            "inserts": it.inserts,
            "removes": it.removes,
            "matches": it.lookups,
            "hits": it.lookups - it.misses,
            "misses": it.misses,
            "cached_plans": it.plans,
            "cache_slots": it.slot_mask + 1,
            "fanout_max": it.fanout_max,
            "fanout_total": it.fanout_total,
        }
