# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reply mapping: reply subjects that lead back to another cluster.

A mapped subject is `_GR_.<hash of cluster>.<hash of server>.<reply subject>`. A request that goes to another
cluster may be answered there before anybody there knows who wants the answer. So its reply subject gets a prefix
that says where the request came from. A client here that gets such a request sees the reply subject without the
prefix; other servers get the mapped subject. An answer is known by the reply subject to which it is published:
for a while (KEPT_NS) that stands for the mapped subject, for the connection that got the request, or, since one
service may answer for another, for all services of the account.

A message to a mapped subject goes to the gateway to that cluster, there to the server with that hash, and is then
a message to the reply subject, for whoever listens to it.

Bounds: MOST_REPLIES requests and MOST_BYTES of their reply subjects are remembered; the oldest give way.
Source: gateway protocol, sections 4 and 10; reference server 2.15.1 (which keeps them for 2 s).
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.interest cimport table_seed
from headrace.engine.memory cimport give, take
from headrace.engine.structs cimport (
    LINK_SERVICE, hr_hash, mapped_replies_t, mapped_reply_t, msg_t, remote_t, router_t, sub_t,
)

cdef enum:
    MOST_REPLIES = 1 << 16
    MOST_BYTES = 16 << 20
    FIRST_PLACES = 64

cdef int64_t KEPT_NS = 5_000_000_000


cdef bint is_mapped(const char *subject, uint32_t n) noexcept:
    """True for a mapped subject, which leads to a subject of another cluster."""
    return n > PREFIX_LEN and memcmp(subject, b"_GR_.", CLUSTER_AT) == 0 and subject[SERVER_AT - 1] == c'.' \
        and subject[PREFIX_LEN - 1] == c'.'


cdef inline uint64_t hash_of(void *holder, const char *reply, uint32_t n) noexcept:
    return hr_hash(reply, n, table_seed ^ <uint64_t> <size_t> holder)


cdef void forget_oldest(mapped_replies_t *a) noexcept:
    cdef mapped_reply_t *oldest = a.oldest
    cdef mapped_reply_t **at = &a.table[oldest.hash & (a.cap - 1)]
    while at[0] != oldest:
        at = &at[0].next
    at[0] = oldest.next
    a.oldest = oldest.newer
    if a.oldest == NULL:
        a.newest = NULL
    a.count -= 1
    a.bytes -= oldest.len
    give(oldest)


cdef void forget_old(mapped_replies_t *a, int64_t now) noexcept:
    while a.oldest != NULL and a.oldest.expires <= now:
        forget_oldest(a)


cdef void forget_mapped_replies(router_t *r) noexcept:
    """Forget all mapped replies, and free the table."""
    while r.mapped_replies.oldest != NULL:
        forget_oldest(&r.mapped_replies)
    give(r.mapped_replies.table)
    r.mapped_replies.table = NULL
    r.mapped_replies.cap = 0


cdef int widen(mapped_replies_t *a) except -1:
    cdef uint32_t cap = max(FIRST_PLACES, 2 * a.cap)
    cdef mapped_reply_t **table = <mapped_reply_t **> take(cap * sizeof(mapped_reply_t *))
    cdef mapped_reply_t *each = a.oldest
    memset(table, 0, cap * sizeof(mapped_reply_t *))
    give(a.table)
    a.table = table
    a.cap = cap
    while each != NULL:  # from old to new, so that the newest stands first in its chain
        each.next = table[each.hash & (cap - 1)]
        table[each.hash & (cap - 1)] = each
        each = each.newer
    return 0


cdef int remember_mapped_reply(sub_t *s, msg_t *m) except -1:
    """Remember the mapped reply subject of a request that the link of a local subscription has got."""
    cdef router_t *r = s.link.router
    cdef mapped_replies_t *a = &r.mapped_replies
    cdef remote_t *source = m.source.remote
    cdef void *holder = <void *> s.interest if s.link.flags & LINK_SERVICE else <void *> s.link
    cdef uint32_t n = source.prefix.len + m.reply_len
    cdef mapped_reply_t *mapped
    forget_old(a, r.now)
    while a.count and (a.count >= MOST_REPLIES or a.bytes + n > MOST_BYTES):
        forget_oldest(a)
    if n > MOST_BYTES:
        return 0
    if a.count >= a.cap:
        widen(a)
    mapped = <mapped_reply_t *> take(sizeof(mapped_reply_t) + n)
    mapped.hash = hash_of(holder, m.reply, m.reply_len)
    mapped.holder = holder
    mapped.expires = r.now + KEPT_NS
    mapped.newer = NULL
    mapped.len = n
    memcpy(mapped.text, source.prefix.text, source.prefix.len)
    memcpy(mapped.text + source.prefix.len, m.reply, m.reply_len)
    mapped.next = a.table[mapped.hash & (a.cap - 1)]
    a.table[mapped.hash & (a.cap - 1)] = mapped
    if a.newest == NULL:
        a.oldest = mapped
    else:
        a.newest.newer = mapped
    a.newest = mapped
    a.count += 1
    a.bytes += n
    return 0


cdef bint find_mapped_reply(router_t *r, void *holder, msg_t *m) noexcept:
    """Give an answer to such a request the mapped subject. Returns False for any other publication.

    The subject is good until the next request from another cluster is delivered.
    """
    cdef mapped_replies_t *a = &r.mapped_replies
    cdef uint64_t hash
    cdef mapped_reply_t *mapped
    forget_old(a, r.now)
    if a.count == 0:
        return False
    hash = hash_of(holder, m.subject, m.subject_len)
    mapped = a.table[hash & (a.cap - 1)]
    while mapped != NULL:
        if mapped.hash == hash and mapped.holder == holder and mapped.len == PREFIX_LEN + m.subject_len \
                and memcmp(mapped.text + PREFIX_LEN, m.subject, m.subject_len) == 0:
            m.subject = mapped.text
            m.subject_len = mapped.len
            return True
        mapped = mapped.next
    return False


cdef bint unmap_subject(router_t *r, msg_t *m) noexcept:
    """Take the prefix off a message to a mapped subject. Returns False when the subject is of another cluster."""
    if memcmp(m.subject + CLUSTER_AT, r.cluster_hash, HASH_LEN) != 0:
        return False
    m.subject += PREFIX_LEN
    m.subject_len -= PREFIX_LEN
    m.source.remote.is_answer = True
    return True
