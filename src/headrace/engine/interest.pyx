# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Interest of one account: its trie (trie.pyx), and the cache of plans made from it.

A literal subject is looked up in a direct-mapped cache first; a miss walks the trie (each node is
visited at most once) and the answer is only kept when the same subject misses twice in a row, so
one-time reply inboxes neither allocate nor push out others.

What makes a plan stale: a change to a literal subject clears just that subject's slot; a change to a
wildcard whose first token is literal moves one of 256 generation buckets (by that token's hash); any
other wildcard moves the account's generation. Deciding *whether* one may publish or subscribe never
lives here.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.memory cimport buf_free, buf_reserve, give, live, resize, take
from headrace.engine.structs cimport (
    HR_GUARD, HR_PAD, SUB_LIMITED, group_t, hr_equal, hr_hash, interest_t, match_t, plan_t, slot_t, sub_t,
)
from headrace.engine.trie cimport match

# Plans kept per account: the cache starts small and doubles while fresh plans push each other out.
cdef enum:
    FIRST_SLOTS = 1024
    MOST_SLOTS = 65536
    MOST_POINTERS = 1 << 22  # subscriptions named by all cached plans; past it the cache is emptied
    LONGEST_CACHED = 512     # subjects longer than this are matched each time, so that the cache's text is bounded

table_seed = int.from_bytes(os.urandom(8), "little")


# ---- plans --------------------------------------------------------------------------------------

cdef sub_t *find_plain(interest_t *it, const char *subject, uint32_t n, void *link) except? NULL:
    """A plain subscription of this very link that matches, or NULL (asked for no-responders replies)."""
    cdef uint32_t i
    match(it, subject, n)
    for i in range(it.match.found_count):
        if <void *> it.match.found[i].link == link:
            return it.match.found[i]
    return NULL


cdef int by_name(const void *a, const void *b) noexcept nogil:
    """Sorts groups so that those of one name stand together."""
    cdef group_t *g = (<group_t **> a)[0]
    cdef group_t *h = (<group_t **> b)[0]
    if g.hash != h.hash:
        return -1 if g.hash < h.hash else 1
    if g.name_len != h.name_len:
        return -1 if g.name_len < h.name_len else 1
    return memcmp(g.name, h.name, g.name_len)


cdef int make_room_for_members(interest_t *it) except -1:
    """Room for what was found behind the local plain subscriptions; scratch.pointers is how many that are in all."""
    cdef uint32_t i, total = it.match.found_count + it.match.found_remote_count
    for i in range(it.match.found_groups_count):
        total += it.match.found_groups[i].count
    if total > it.match.found_cap:
        it.match.found_cap = max(total, 2 * it.match.found_cap)
        it.match.found = <sub_t **> resize(it.match.found, it.match.found_cap * sizeof(sub_t *))
    if it.match.found_groups_count > it.match.scratch_ends_cap:
        it.match.scratch_ends_cap = max(8, it.match.found_groups_cap)
        it.match.scratch_ends = <uint32_t *> resize(
            it.match.scratch_ends, 2 * it.match.scratch_ends_cap * sizeof(uint32_t))
    it.match.scratch.pointers = total
    return 0


cdef int gather_members(interest_t *it) except -1:
    """Lays remote plain subscriptions and the matched queue groups out behind the local plain ones.

    Groups of one name become one, its local members before its remote ones.
    """
    cdef plan_t *plan = &it.match.scratch
    cdef group_t **groups = it.match.found_groups
    cdef uint32_t count = it.match.found_groups_count, i = 0, j, k, end = 0
    make_room_for_members(it)
    if count > 1:
        qsort(groups, count, sizeof(group_t *), by_name)
    plan.plain = it.match.found
    plan.plain_count = it.match.found_count
    plan.remote_count = it.match.found_remote_count
    if plan.remote_count:
        memcpy(plan.plain + plan.plain_count, it.match.found_remote, plan.remote_count * sizeof(sub_t *))
    plan.members = plan.plain + plan.plain_count + plan.remote_count
    plan.group_ends = it.match.scratch_ends
    plan.local_ends = it.match.scratch_ends + it.match.scratch_ends_cap
    plan.group_count = 0
    plan.is_remote = plan.remote_count > 0 or it.offered_to > 0
    while i < count:
        j = i
        while j < count and (j == i or by_name(&groups[i], &groups[j]) == 0):
            memcpy(plan.members + end, groups[j].members, groups[j].local_count * sizeof(sub_t *))
            end += groups[j].local_count
            j += 1
        plan.local_ends[plan.group_count] = end
        for k in range(i, j):
            if groups[k].count > groups[k].local_count:
                memcpy(plan.members + end, groups[k].members + groups[k].local_count,
                       (groups[k].count - groups[k].local_count) * sizeof(sub_t *))
                end += groups[k].count - groups[k].local_count
                plan.is_remote = True
        plan.group_ends[plan.group_count] = end
        plan.group_count += 1
        i = j
    HR_GUARD(plan.plain_count + plan.remote_count + end == plan.pointers)
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
    cdef size_t local_ends = ends if scratch.is_remote else 0
    cdef size_t text = scratch.subject_len + scratch.head_len
    cdef char *block = <char *> take(sizeof(plan_t) + pointers + ends + local_ends + text + HR_PAD)
    cdef plan_t *plan = <plan_t *> block
    plan[0] = scratch[0]
    block += sizeof(plan_t)
    if pointers:
        memcpy(block, scratch.plain, pointers)
    plan.plain = <sub_t **> block
    plan.members = plan.plain + plan.plain_count + plan.remote_count
    block += pointers
    if ends:
        memcpy(block, scratch.group_ends, ends)
    plan.group_ends = <uint32_t *> block
    block += ends
    plan.local_ends = plan.group_ends  # every member is local
    if local_ends:
        memcpy(block, scratch.local_ends, local_ends)
        plan.local_ends = <uint32_t *> block
    block += local_ends
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
    give(match.found_remote)
    give(match.found_groups)
    give(match.scratch_ends)
    buf_free(&match.scratch_text)


cdef plan_t *make_plan(interest_t *it, slot_t *slot, uint64_t hash, const char *subject, uint32_t n,
                       bint maps) except NULL:
    cdef const char *target = subject
    cdef uint32_t target_n = n
    cdef bytes mapped
    cdef bint is_lasting = True
    cdef uint32_t fanout
    it.misses += 1
    if maps and it.mapper != NULL:
        # the one question put to Python: which subject this one is delivered as, and for how long that holds
        answer = (<object> it.mapper)(subject[:n])
        if answer is not None:
            mapped, is_lasting = answer
            target = mapped
            target_n = <uint32_t> len(mapped)
    match(it, target, target_n)
    gather_members(it)
    write_head(it, subject, n, target, target_n)
    it.match.scratch.interest = it
    it.match.scratch.renames = target != subject
    it.match.scratch.bucket = it.tokens[0].hash & 255 if it.tokens_cap and target_n else 0
    it.match.scratch.stamp = stamp_of(it, it.match.scratch.bucket)
    fanout = it.match.scratch.plain_count + it.match.scratch.remote_count + it.match.scratch.group_count
    it.fanout_total += fanout
    it.fanout_max = max(it.fanout_max, fanout)
    if not is_lasting or it.pins or n + target_n > 2 * LONGEST_CACHED:
        return &it.match.scratch
    if slot.missed != hash:
        slot.missed = hash
        return &it.match.scratch
    return promote(it, slot, hash)


cdef inline plan_t *look_up(interest_t *it, uint64_t hash, const char *subject, uint32_t n, bint maps) except NULL:
    cdef slot_t *slot = &it.slots[hash & it.slot_mask]
    cdef plan_t *plan = slot.plan
    it.lookups += 1
    if (plan != NULL and slot.hash == hash and plan.subject_len == n
            and plan.stamp == 1 + it.generation + it.buckets[plan.bucket]
            and hr_equal(plan.subject, subject, n)):
        return plan
    return make_plan(it, slot, hash, subject, n, maps)


cdef plan_t *plan_at(interest_t *it, uint64_t hash, const char *subject, uint32_t n) except NULL:
    """`plan_for` a subject whose hash (with the table seed) is known already."""
    return look_up(it, hash, subject, n, True)


cdef plan_t *unmapped_plan(interest_t *it, const char *subject, uint32_t n) except NULL:
    """`plan_for` a subject that was mapped where it was published, whatever mappings there are here.

    With a mapper its plan is kept under another hash than the mapped one; all plans of such an account go stale
    together, so nothing else needs to find it.
    """
    cdef uint64_t hash = hr_hash(subject, n, it.seed)
    if it.mapper != NULL:
        hash = ~hash
    return look_up(it, hash, subject, n, False)


cdef plan_t *plan_for(interest_t *it, const char *subject, uint32_t n) except NULL:
    """Return the plan of a subject: its receivers. It is valid until the next call or change of interest."""
    return plan_at(it, hr_hash(subject, n, it.seed), subject, n)


cdef tuple row_of(sub_t *s):
    """(subject, queue or None, sid, delivered, limit), for listings."""
    return (s.subject[:s.subject_len], s.queue[:s.queue_len] if s.queue_len else None, s.text[:s.sid_len],
            s.delivered, s.quota.limit if s.flags & SUB_LIMITED else 0)


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
        give(self.c.listeners)
        free_match(&self.c.match)

    @property
    def account(self):
        """The name of the account on links to other servers (bytes without blanks); b"" until it is set."""
        return b"" if self._account is None else self._account

    @account.setter
    def account(self, bytes value not None):
        if self.c.listeners_count:
            raise ValueError("an account that other servers know cannot change its name")
        self._account = value
        self.c.account = PyBytes_AS_STRING(value)
        self.c.account_len = <uint32_t> len(value)

    @property
    def imports(self):
        """The stream imports of the account: a tuple of `stream_imports.StreamImport`.

        Set before there are subscriptions, afterwards changed by `stream_imports.change_imports`, to () too when the
        account ends: two that import from each other hold each other.
        """
        return () if self._imports is None else self._imports

    @imports.setter
    def imports(self, tuple value not None):
        self._imports = value or None
        self.c.imports = <PyObject *> value if value else NULL

    @property
    def is_traced(self):
        """True if messages with a sampled `traceparent` are traced."""
        return bool(self.c.is_traced)

    @is_traced.setter
    def is_traced(self, bint value):
        self.c.is_traced = value

    @property
    def mapper(self):
        return self._mapper

    @mapper.setter
    def mapper(self, value):
        self._mapper = value
        self.c.mapper = NULL if value is None else <PyObject *> value
        self.c.generation += 1

    def receivers(self, bytes subject not None):
        """Count the plain subscriptions and the queue groups that a message on this subject reaches."""
        cdef plan_t *plan
        if self.c.is_followed:
            raise RuntimeError("the interest is in use: a message is being delivered")
        plan = plan_for(&self.c, subject, <uint32_t> len(subject))
        return plan.plain_count + plan.remote_count, plan.group_count

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
