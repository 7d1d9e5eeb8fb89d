# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""One message to everyone its plan names: the loop the whole server is built around.

A frame is three copies into the receiver's outbox: head ("MSG subject "), sid, tail ("[reply] size",
payload), where the tail is the publisher's own bytes whenever they were in canonical form. Queue
groups take one member each, from a random start, skipping those that cannot take it. What has remote
receivers too is `route_remote`: local ones first, then one frame for each other server by the rules of remote.pyx.
A message that is traced goes the same way, whether it has remote receivers or not; others ask for that once.

Source: client protocol specification, sections 6 and 7.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy

from headrace.engine.remote cimport add_target, bridged_member, fallback_of, is_asked_for, is_left_across, may_go, note_served, send_all
from headrace.engine.link cimport emit, make_room, mark_dirty, next_random, stall
from headrace.engine.memory cimport buf_reserve
from headrace.engine.reply_mapping cimport remember_mapped_reply
from headrace.engine.stream_imports cimport drop_shadows, rename
from headrace.engine.structs cimport (
    DELIVERY_CHECKS, REMOTE_ROUTE, HR_GUARD, LINK_CLOSING, LINK_CONGESTED, LINK_DIRTY, LINK_HEADERS, LINK_NO_ECHO, LINK_SERVICE,
    LINK_TRACED, LINK_TRACKS_REPLIES, LINK_TRANSLATES, SUB_FILTERED, SUB_LIMITED, SUB_REMOVED, SUB_SHADOW, buf_t, hr_copy,
    hr_hash, link_t, msg_t, plan_t, router_t, sub_t,
)
from headrace.engine.tracing cimport TRACE_REFUSED, TRACE_TAKEN, TRACE_UNSEEN, judge_traced
from headrace.engine.trie cimport remove
from headrace.engine.permission_cache cimport allows

cdef enum:
    # What a second look at a delivery comes to.
    REFUSED
    FRAME
    TAKEN


cdef void remove_sub(sub_t *s) noexcept:
    """Takes a subscription out of the interest and its link's table; freed at end of tick."""
    cdef link_t *l = s.link
    cdef uint32_t mask = l.sids_cap - 1, i = s.hash & mask, j
    if s.flags & SUB_REMOVED:
        return
    if s.shadows != NULL:
        drop_shadows(s, l)
    remove(s)
    while l.sids[i] != s:
        i = (i + 1) & mask
    j = i
    while True:  # close the gap: open addressing without tombstones
        l.sids[i] = NULL
        while True:
            j = (j + 1) & mask
            if l.sids[j] == NULL:
                l.sids_count -= 1
                s.flags |= SUB_REMOVED
                s.next_removed = l.router.removed
                l.router.removed = s
                return
            if ((j - l.sids[j].hash) & mask) >= ((j - i) & mask):
                break
        l.sids[i] = l.sids[j]
        i = j


cdef int strip_headers(msg_t *m, router_t *r) except -1:
    """Composes the tail for receivers that did not ask for headers."""
    cdef buf_t *b = &r.stripped
    cdef uint32_t payload = m.body_len - m.header_len
    b.start = b.end = 0
    buf_reserve(b, m.reply_len + payload + 32)
    if m.reply_len:
        memcpy(b.data, m.reply, m.reply_len)
        b.data[m.reply_len] = c' '
        b.end = m.reply_len + 1
    b.end += snprintf(b.data + b.end, 16, b"%u\r\n", payload)
    memcpy(b.data + b.end, m.body + m.header_len, payload + 2)  # the payload's own CRLF too
    b.end += payload + 2
    HR_GUARD(b.end <= b.cap)
    m.plain_tail = b.data
    m.plain_tail_len = b.end
    return 0


cdef int hand_over(sub_t *s, msg_t *m) except -1:
    """`deliver` for a receiver that takes messages by itself: a service, which has no outbox and no max_pending, or a
    client of another protocol."""
    cdef link_t *l = s.link
    if not l.accept(s, m):
        return REFUSED
    l.out_msgs += 1
    l.out_bytes += m.body_len
    l.router.out_bytes += m.body_len
    s.delivered += 1
    return TAKEN


cdef int look_twice(sub_t *s, msg_t *m, const char **head, size_t *head_len) except -1:
    """The second look at a delivery whose flags ask for one: REFUSED, a FRAME is due, or it was TAKEN over.

    A delivery over a shadow gets another head: to its receiver the message has another subject, but for one
    that is shown with a subject of its own.
    """
    cdef const char *subject = m.subject
    cdef uint32_t subject_len = m.subject_len
    cdef const char *renamed
    cdef size_t renamed_len
    cdef int answer
    if not s.flags & SUB_SHADOW:
        return judge(s, m, head[0], head_len[0])
    if m.via != NULL:  # a request to a service is no part of an exported stream
        return REFUSED
    rename(s, m, &renamed, &renamed_len)
    if m.head == NULL:
        head[0] = renamed
        head_len[0] = renamed_len
    m.subject = renamed + 5
    m.subject_len = <uint32_t> renamed_len - 6
    answer = judge(s, m, head[0], head_len[0])
    m.subject = subject
    m.subject_len = subject_len
    return answer


cdef int judge(sub_t *s, msg_t *m, const char *head, size_t head_len) except -1:
    cdef link_t *l = s.link
    if s.flags & SUB_REMOVED or l.flags & LINK_CLOSING:
        return REFUSED
    if l.flags & LINK_NO_ECHO and m.source == l:
        return REFUSED
    if s.flags & SUB_FILTERED and not (
            allows(s, m.subject, m.subject_len) and (m.head == NULL or allows(s, head + 5, head_len - 6))):
        return REFUSED
    if l.flags & LINK_CONGESTED and m.source.remote == NULL:  # other servers wait for nobody: others stand behind them
        if l.router.drops_when_congested:
            return REFUSED
        if not m.source.flags & LINK_SERVICE:  # which is not read, so cannot wait: the receiver has max_pending
            stall(m.source, l)
    if l.flags & (LINK_TRACKS_REPLIES | LINK_TRACED):
        report(s, m, head, head_len)
    if l.flags & (LINK_SERVICE | LINK_TRANSLATES):
        return hand_over(s, m)
    return FRAME


cdef int report(sub_t *s, msg_t *m, const char *head, size_t head_len) except -1:
    """Tells the receiver's session of a delivery; the plan that is being followed must not go meanwhile."""
    cdef link_t *l = s.link
    cdef object session = <object> l.session
    s.interest.is_followed = True
    try:
        if l.flags & LINK_TRACKS_REPLIES and m.reply_len:
            session.note_reply(m.reply[:m.reply_len])
        if l.flags & LINK_TRACED:
            session.trace_delivery(head[5:head_len - 1], s.text[:s.sid_len], m.reply[:m.reply_len],
                                   m.header_len if l.flags & LINK_HEADERS else 0, m.body_len)
    finally:
        s.interest.is_followed = False
    return 0


cdef int deliver(sub_t *s, const char *head, size_t head_len, msg_t *m) except -1:
    """1 when the frame is in the receiver's outbox. `head` is "HMSG subject "."""
    cdef link_t *l = s.link
    cdef buf_t *out = &l.out
    cdef const char *tail = m.tail
    cdef size_t tail_len = m.tail_len, sid_len = s.sid_len + 1, n
    cdef uint32_t size = m.body_len
    cdef char *at
    cdef int answer
    cdef const char *renamed = head   # a variable of its own, so that `head` can stay in a register
    cdef size_t renamed_len = head_len
    if (s.flags | l.flags) & DELIVERY_CHECKS:
        answer = look_twice(s, m, &renamed, &renamed_len)
        if answer != FRAME:
            return answer == TAKEN
        head = renamed
        head_len = renamed_len
    if m.header_len == 0:
        head += 1
        head_len -= 1
    elif not l.flags & LINK_HEADERS:
        if m.plain_tail == NULL:
            strip_headers(m, l.router)
        head += 1
        head_len -= 1
        tail = m.plain_tail
        tail_len = m.plain_tail_len
        size -= m.header_len
    n = head_len + sid_len + tail_len
    if out.cap - out.end >= n:
        at = out.data + out.end
    else:
        at = make_room(l, n)
        if at == NULL:
            return 0
    hr_copy(at, head, head_len)
    hr_copy(at + head_len, s.text, sid_len)
    hr_copy(at + head_len + sid_len, tail, tail_len)
    out.end += n
    HR_GUARD(out.end <= out.cap)
    if not l.flags & LINK_DIRTY:
        mark_dirty(l)
    l.out_msgs += 1
    l.out_bytes += size
    l.router.out_bytes += size
    s.delivered += 1
    if s.flags & SUB_LIMITED and s.delivered >= s.quota.limit:
        remove_sub(s)
    return 1


cdef int route(plan_t *plan, msg_t *m) except -1:
    """Delivers to every plain subscription and one member of each queue group; returns how many got it."""
    cdef const char *head = plan.head
    cdef size_t head_len = plan.head_len
    cdef uint32_t i, j, k, start = 0, count
    cdef int delivered = 0
    if plan.is_remote or m.trace != NULL:
        return route_remote(plan, m)
    if m.head != NULL:
        head = m.head
        head_len = m.head_len
    for i in range(plan.plain_count):
        delivered += deliver(plan.plain[i], head, head_len, m)
    for i in range(plan.group_count):
        count = plan.group_ends[i] - start
        k = <uint32_t> (next_random(m.source.router) % count)
        for j in range(count):
            if deliver(plan.members[start + k], head, head_len, m):
                delivered += 1
                break
            k += 1
            if k == count:
                k = 0
        start = plan.group_ends[i]
    m.source.router.out_msgs += delivered
    return delivered


cdef int serve_group(plan_t *plan, uint32_t group, uint32_t base, msg_t *m) except -1:
    """One member of a queue group that has remote ones, or may: 1 when a local one got it; else one may be a target.

    Local members count one and remote ones their weight when the first to be asked is drawn; the others are asked in
    turn, local ones before remote ones. What came over a route is for local members first.
    """
    cdef router_t *r = m.source.router
    cdef uint32_t start = plan.group_ends[group - 1] if group else 0
    cdef sub_t **members = plan.members + start
    cdef uint32_t local_count = plan.local_ends[group] - start
    cdef uint32_t count = plan.group_ends[group] - start, at, i
    cdef sub_t *fallback = NULL
    cdef bint is_final = False
    if m.source.remote != NULL and m.source.remote.kind == REMOTE_ROUTE:
        fallback = bridged_member(members, local_count, count, m)
        if fallback == NULL:
            if serve_local(plan, members, local_count, m):
                return 1
            for i in range(local_count, count):
                fallback = fallback_of(members[i], fallback, m, &is_final)
    else:
        at = draw(members, local_count, count, r)
        for i in range(count):
            if at >= local_count:
                fallback = fallback_of(members[at], fallback, m, &is_final)
                if is_final:
                    break
            elif hand(plan, members[at], m):
                note_reply(members[at], m)
                return note_delivered(plan, members[at], r)
            at = at + 1 if at + 1 < count else 0
    if fallback != NULL:
        add_target(r, base, fallback)
        note_delivered(plan, fallback, r)
    return 0


cdef int serve_local(plan_t *plan, sub_t **members, uint32_t count, msg_t *m) except -1:
    """1 when one of these local members got it; they are asked in turn."""
    cdef router_t *r = m.source.router
    cdef uint32_t at = <uint32_t> (next_random(r) % count) if count else 0, i
    for i in range(count):
        if hand(plan, members[at], m):
            note_reply(members[at], m)
            return note_delivered(plan, members[at], r)
        at = at + 1 if at + 1 < count else 0
    return 0


cdef inline int hand(plan_t *plan, sub_t *s, msg_t *m) except -1:
    """`deliver`, and the trace of a message that is traced is told."""
    if m.trace != NULL:
        return deliver_traced(s, head_of(plan, m), head_len_of(plan, m), m)
    return deliver(s, head_of(plan, m), head_len_of(plan, m), m)


cdef int deliver_traced(sub_t *s, const char *head, size_t head_len, msg_t *m) except -1:
    """`deliver` for a message that is traced: 1 too when it would have been delivered but is not to be."""
    cdef PyObject *trace = m.trace
    cdef int answer = judge_traced(s, m)
    if answer == TRACE_REFUSED or answer == TRACE_TAKEN:
        return answer == TRACE_TAKEN
    if answer == TRACE_UNSEEN:
        m.trace = NULL
    try:
        return deliver(s, head, head_len, m)
    finally:
        m.trace = trace


cdef inline const char *head_of(plan_t *plan, msg_t *m) noexcept:
    return plan.head if m.head == NULL else m.head


cdef inline size_t head_len_of(plan_t *plan, msg_t *m) noexcept:
    return plan.head_len if m.head == NULL else m.head_len


cdef inline int note_reply(sub_t *s, msg_t *m) except -1:
    """Remember where an answer to a delivered message goes, if the message came from another cluster."""
    if m.source.remote != NULL and m.source.remote.prefix.len and m.via == NULL and m.reply_len:
        remember_mapped_reply(s, m)
    return 0


cdef inline int note_delivered(plan_t *plan, sub_t *s, router_t *r) except -1:
    if plan.interest.offered_to:
        note_served(r, s)
    return 1


cdef uint32_t draw(sub_t **members, uint32_t local_count, uint32_t count, router_t *r) noexcept:
    """A member's place, drawn by weight."""
    cdef uint64_t total = local_count, drawn
    cdef uint32_t i
    for i in range(local_count, count):
        total += members[i].quota.weight
    if total == 0:
        return 0
    drawn = next_random(r) % total
    if drawn < local_count:
        return <uint32_t> drawn
    drawn -= local_count
    for i in range(local_count, count):
        if drawn < members[i].quota.weight:
            return i
        drawn -= members[i].quota.weight
    return 0


cdef int route_remote(plan_t *plan, msg_t *m) except -1:
    """`route` for a plan that other servers have a part in, or a message that is traced."""
    cdef router_t *r = m.source.router
    cdef uint32_t base = r.choice.targets_count, picks = r.choice.picks_count, served = r.choice.served_count
    cdef uint32_t i, start
    cdef int delivered = 0
    try:
        # A local plain subscription may route another message for this one's sake; what follows cannot, so the
        # targets from `base` on are this one's alone.
        for i in range(plan.plain_count):
            if hand(plan, plan.plain[i], m):
                delivered += 1
                note_reply(plan.plain[i], m)
        for i in range(plan.plain_count, plan.plain_count + plan.remote_count):
            if may_go(plan.plain[i], m):
                add_target(r, base, plan.plain[i])
        for i in range(plan.group_count):
            start = plan.group_ends[i - 1] if i else 0
            if is_asked_for(plan.members[start], m) or is_left_across(plan.members + start, plan.group_ends[i] - start, m):
                delivered += serve_group(plan, i, base, m)
        delivered += send_all(r, base, served, plan, m)
    finally:
        r.choice.targets_count = base
        r.choice.picks_count = picks
        r.choice.served_count = served
    r.out_msgs += delivered
    return delivered
