# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reply subjects that lead back to another cluster: `_GR_.<hash of cluster>.<hash of server>.<reply subject>`.

A request that goes to another cluster may be answered there before anybody there knows who wants the answer. So
its reply subject gets a prefix that says where it came from. Whoever is near and gets such a request sees the
reply subject without it; other servers get it whole. That he answers is known by the reply subject he publishes
to: for a while (KEPT_NS) it stands for the whole one, for the connection that got the request, or, since one
service may answer for another, for all services of the account.

A message to a whole one goes to the gateway to that cluster, there to the server with that hash, and is then one
to the reply subject, for whoever listens to it.

Bounds: MOST_ANSWERS requests and MOST_BYTES of their reply subjects are remembered; the oldest give way.
Source: gateway protocol, sections 4 and 10; reference server 2.15.1 (which keeps them for 2 s).
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.far cimport open_target
from headrace.engine.interest cimport table_seed
from headrace.engine.memory cimport give, take
from headrace.engine.structs cimport (
    FAR_ROUTE, LINK_SERVICE, answer_t, answers_t, far_t, hr_hash, interest_t, link_t, msg_t, router_t, sub_t,
)

cdef enum:
    MOST_ANSWERS = 1 << 16
    MOST_BYTES = 16 << 20
    FIRST_PLACES = 64

cdef int64_t KEPT_NS = 5_000_000_000


cdef bint is_mapped(const char *subject, uint32_t n) noexcept:
    """Whether a subject leads to another cluster, and says to which subject there."""
    return n > PREFIX_LEN and memcmp(subject, b"_GR_.", CLUSTER_AT) == 0 and subject[SERVER_AT - 1] == c'.' \
        and subject[PREFIX_LEN - 1] == c'.'


cdef inline uint64_t hash_of(void *holder, const char *reply, uint32_t n) noexcept:
    return hr_hash(reply, n, table_seed ^ <uint64_t> <size_t> holder)


cdef void forget_oldest(answers_t *a) noexcept:
    cdef answer_t *oldest = a.oldest
    cdef answer_t **at = &a.table[oldest.hash & (a.cap - 1)]
    while at[0] != oldest:
        at = &at[0].next
    at[0] = oldest.next
    a.oldest = oldest.newer
    if a.oldest == NULL:
        a.newest = NULL
    a.count -= 1
    a.bytes -= oldest.len
    give(oldest)


cdef void forget_old(answers_t *a, int64_t now) noexcept:
    while a.oldest != NULL and a.oldest.expires <= now:
        forget_oldest(a)


cdef void forget_answers(router_t *r) noexcept:
    """All of them; the table goes too."""
    while r.answers.oldest != NULL:
        forget_oldest(&r.answers)
    give(r.answers.table)
    r.answers.table = NULL
    r.answers.cap = 0


cdef int widen(answers_t *a) except -1:
    cdef uint32_t cap = max(FIRST_PLACES, 2 * a.cap)
    cdef answer_t **table = <answer_t **> take(cap * sizeof(answer_t *))
    cdef answer_t *each = a.oldest
    memset(table, 0, cap * sizeof(answer_t *))
    give(a.table)
    a.table = table
    a.cap = cap
    while each != NULL:  # from old to new, so that the newest stands first in its chain
        each.next = table[each.hash & (cap - 1)]
        table[each.hash & (cap - 1)] = each
        each = each.newer
    return 0


cdef int note_answer(sub_t *s, msg_t *m) except -1:
    """A near subscription's link has got a request whose reply subject had a prefix."""
    cdef router_t *r = s.link.router
    cdef answers_t *a = &r.answers
    cdef far_t *source = m.source.far
    cdef void *holder = <void *> s.interest if s.link.flags & LINK_SERVICE else <void *> s.link
    cdef uint32_t n = source.prefix.len + m.reply_len
    cdef answer_t *answer
    forget_old(a, r.now)
    while a.count and (a.count >= MOST_ANSWERS or a.bytes + n > MOST_BYTES):
        forget_oldest(a)
    if n > MOST_BYTES:
        return 0
    if a.count >= a.cap:
        widen(a)
    answer = <answer_t *> take(sizeof(answer_t) + n)
    answer.hash = hash_of(holder, m.reply, m.reply_len)
    answer.holder = holder
    answer.expires = r.now + KEPT_NS
    answer.newer = NULL
    answer.len = n
    memcpy(answer.text, source.prefix.text, source.prefix.len)
    memcpy(answer.text + source.prefix.len, m.reply, m.reply_len)
    answer.next = a.table[answer.hash & (a.cap - 1)]
    a.table[answer.hash & (a.cap - 1)] = answer
    if a.newest == NULL:
        a.oldest = answer
    else:
        a.newest.newer = answer
    a.newest = answer
    a.count += 1
    a.bytes += n
    return 0


cdef bint find_answer(router_t *r, void *holder, msg_t *m) noexcept:
    """A publication that answers such a request gets the subject that leads back; False: it does not.

    The subject is good until the next request from another cluster is delivered.
    """
    cdef answers_t *a = &r.answers
    cdef uint64_t hash
    cdef answer_t *answer
    forget_old(a, r.now)
    if a.count == 0:
        return False
    hash = hash_of(holder, m.subject, m.subject_len)
    answer = a.table[hash & (a.cap - 1)]
    while answer != NULL:
        if answer.hash == hash and answer.holder == holder and answer.len == PREFIX_LEN + m.subject_len \
                and memcmp(answer.text + PREFIX_LEN, m.subject, m.subject_len) == 0:
            m.subject = answer.text
            m.subject_len = answer.len
            return True
        answer = answer.next
    return False


cdef bint take_in_answer(router_t *r, msg_t *m) noexcept:
    """A message from another server that has come to a mapped subject of this cluster is one to what follows."""
    if memcmp(m.subject + CLUSTER_AT, r.cluster_hash, HASH_LEN) != 0:
        return False
    m.subject += PREFIX_LEN
    m.subject_len -= PREFIX_LEN
    m.source.far.is_answer = True
    return True


cdef bint pass_on(interest_t *it, msg_t *m) except -1:
    """Sends a message of a mapped subject to the server of this cluster that has asked.

    False: that is this one, or there is no route to it, or another cluster has asked.
    """
    cdef router_t *r = m.source.router
    cdef uint32_t base = r.choice.targets_count, i
    cdef link_t *l
    if memcmp(m.subject + CLUSTER_AT, r.cluster_hash, HASH_LEN) != 0 \
            or memcmp(m.subject + SERVER_AT, r.server_hash, HASH_LEN) == 0:
        return False
    for i in range(it.listeners_count):
        l = it.listeners[i]
        if l.far.kind == FAR_ROUTE and memcmp(l.far.hash, m.subject + SERVER_AT, HASH_LEN) == 0:
            open_target(r, l, it)
            try:
                r.out_msgs += l.far.send(&r.choice.targets[base], m)
            finally:
                r.choice.targets_count = base
            return True
    return False
