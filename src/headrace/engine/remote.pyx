# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Remote links: the rules that connections to other servers share. Each protocol has a file (route.pyx: that of routes).

**Words.** A local link is a client or something of this process. A remote link (`link_t.remote`) is a connection to
another server: a route, a leaf link, a gateway. Its subscriptions (SUB_REMOTE) hang in the accounts' tries and stand
for interest there; in every row of subscriptions they come after the local ones. A remote member of a queue group
counts `sub_t.quota.weight` members. A plan that names something remote says so (`is_remote`), and is followed by
`delivery.route_remote`; any other one is delivered as if there were no other servers.

**Interest.** A remote link that is to know an account's interest is one of its listeners (`listen`). From then on its
`remote.changed(link, sub, change)` is called at each change of any subscription of the account, its own and other remote
ones included, while `sub` still knows its node and group: after it was put in, before its place is given up.
`change` is +1 or -1 for a plain one, the difference of members for a queue group. So what it writes stands before
any message that is published afterwards. What is there already it reads from the trie once.

- Routes are told what is wanted in this cluster by this server: local subscriptions and those of leaf nodes whose
  hub this server is (`is_told`), counted for each subject, group and leaf cluster (`is_wanted_beside`, `weight_told`).
  Of a bridge, peers of one side are also told what those of the other want (`bridges`).
- Leaf links and gateways count by themselves what others than themselves want.
- `remote.limited(link, sub)`, where a link has one, is called when a local subscription gets an auto-unsubscribe.
- What passes a service on to another account (SUB_LOCAL) is of no interest to routes, since a request is passed
  on where it was published; leaf links hear of it too.

**Where a message goes** (reference server 2.15, processMsgResults). Local plain subscriptions first; then to each
remote link once, whatever it is wanted for there, with the names of all queue groups it was chosen for:

- to a route: unless it came over a route, or over a leaf link whose other server is the hub. A response to a
  request of another account may go from route to route, and at a bridge what goes to the other side.
- to a leaf link: never back over the same one, nor to the leaf cluster it was published in; from a route only
  where this server is the hub, or for responses.
- A queue group: of a message of a local link, any of its members, remote ones by weight, but members of leafs only
  where there is no other. Of one that came from another server, only the groups it names; local members first over
  a route, else a leaf's or another route's; at a bridge, those that the peer was told of, by weight. A service
  request that comes out of an import is for every group.
- Last, each listener with `remote.offer` gets every message, with the members that are served already (gateways,
  which may want what nobody has asked for). `interest_t.offered_to` counts them, so that plans are remote then.

- An imported stream reaches a leaf link as it reaches a client: its subscription has a shadow, which is remote too, in
  the exporting account.

**Answers to other clusters** (reply_mapping.pyx). A message that came to a `_GR_.` subject of this cluster is an answer
(`remote.is_answer`): it may go from route to route and to every group, and is offered anew. What was taken off a
reply subject (`remote.prefix`) is put back for every target (`prefix_of`), unless the target has one of its own.

**Sending.** `remote.send(target, message)` writes one frame: `target.sub` is the first subscription it goes there
for, `names_len`/`write_names` (or the picks themselves) its groups. It asks `admits` first: a full outbox makes
clients wait, or is passed over, as for clients; more than `max_pending` dooms the link. What tells interest
(`room_to_tell`) has no such limit, nor has a message that stands behind a first telling which is not out yet.

**A new kind of remote link** embeds a remote_t in its Link class, sets `link_t.remote` to it in its constructor, and fills
`kind`, `send`, and what it needs of `changed`, `offer`, `is_spoke`, `origin`. While it takes in a message it sets
`queues` and `came_from`. Before it is gone it must `unlisten` (`Link._leave`).
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from headrace.engine.link cimport doom, make_room, mark_dirty, next_random, stall
from headrace.engine.memory cimport buf_reserve, resize
from headrace.engine.reply_mapping cimport CLUSTER_AT, HASH_LEN, SERVER_AT
from headrace.engine.structs cimport (
    REMOTE_GATEWAY, REMOTE_LEAF, REMOTE_ROUTE, HR_GUARD, LINK_CLOSING, LINK_CONGESTED, LINK_SERVICE, REASON_SLOW_PENDING,
    SIDE_LEGACY, SIDE_NONE, SUB_REMOTE, SUB_LOCAL, SUB_ORIGIN, SUB_REMOVED, choice_t, remote_kind, remote_t, group_t, interest_t, link_t, msg_t, node_t, pick_t,
    plan_t, router_t, sub_t, target_t, word_t,
)
from headrace.engine.trie cimport tell_change


# ---- interest -----------------------------------------------------------------------------------

cdef int listen(interest_t *it, link_t *l) except -1:
    """From now on this link hears how the interest changes; plans made before know nothing of offers."""
    if it.listeners_count == it.listeners_cap:
        it.listeners_cap = max(4, 2 * it.listeners_cap)
        it.listeners = <link_t **> resize(it.listeners, it.listeners_cap * sizeof(link_t *))
    it.listeners[it.listeners_count] = l
    it.listeners_count += 1
    if l.remote.offer != NULL:
        it.offered_to += 1
        it.generation += 1
    return 0


cdef void unlisten(interest_t *it, link_t *l) noexcept:
    """Take a link out of the listeners of an interest, if it is one."""
    cdef uint32_t i
    for i in range(it.listeners_count):
        if it.listeners[i] == l:
            it.listeners_count -= 1
            it.listeners[i] = it.listeners[it.listeners_count]
            if l.remote.offer != NULL:
                it.offered_to -= 1
                it.generation += 1
            return


cdef int reweigh(sub_t *s, int64_t weight) except -1:
    """A remote member of a queue group counts `weight` members from now on."""
    cdef int64_t change = weight - <int64_t> s.quota.weight
    while s != NULL:  # and its shadows
        s.quota.weight = <uint64_t> weight
        if change and s.interest.listeners_count:
            tell_change(s.interest, s, change)
        s = s.shadows
    return 0


cdef word_t origin_of(sub_t *s) noexcept:
    """The leaf cluster on whose behalf a subscription is there; len 0: none."""
    cdef word_t origin
    origin.text = NULL
    origin.len = 0
    if s.flags & SUB_ORIGIN:
        memcpy(&origin.len, s.text + s.sid_len + 1, sizeof(uint32_t))
        origin.text = s.text + s.sid_len + 1 + sizeof(uint32_t)
    elif s.link.remote != NULL:
        return s.link.remote.origin
    return origin


cdef bint same_word(word_t *a, word_t *b) noexcept:
    return a.len == b.len and (a.len == 0 or memcmp(a.text, b.text, a.len) == 0)


cdef inline bint bridges(remote_t *one, remote_t *other) noexcept:
    """True if messages of one of these routes go on over the other, since their servers do not speak to each other.
    """
    return one.side != other.side and one.side != SIDE_NONE and other.side != SIDE_NONE


cdef bint is_told(link_t *l, sub_t *s) noexcept:
    """True if the server at the other end of this route is told of a subscription."""
    cdef remote_t *its = s.link.remote
    if s.flags & SUB_LOCAL:
        return False
    if not s.flags & SUB_REMOTE:
        return True
    return its != NULL and (its.kind == REMOTE_LEAF and not its.is_spoke or bridges(its, l.remote))


cdef inline bint counts_with(link_t *l, sub_t *other, word_t *origin) noexcept:
    cdef word_t its
    if not is_told(l, other):
        return False
    its = origin_of(other)
    return same_word(&its, origin)


cdef bint is_wanted_beside(link_t *l, sub_t *s) noexcept:
    """True if a route is told of the same subject, for the same leaf cluster, for another plain subscription too."""
    cdef node_t *node = s.node
    cdef word_t origin = origin_of(s)
    cdef uint32_t i = node.local_count if origin.len else 0
    while i < node.plain_count:  # local ones nearly always count, so one of the first two ends this
        if node.plain[i] != s and counts_with(l, node.plain[i], &origin):
            return True
        i += 1
    return False


cdef int64_t weight_told(link_t *l, sub_t *s) noexcept:
    """Return the number of members of a subscription's queue group, for its leaf cluster, that a route is told of."""
    cdef group_t *group = s.group
    cdef word_t origin = origin_of(s)
    cdef int64_t weight = 0 if origin.len else group.local_count
    cdef uint32_t i
    for i in range(group.local_count, group.count):
        if counts_with(l, group.members[i], &origin):
            weight += <int64_t> group.members[i].quota.weight
    return weight


# ---- targets ------------------------------------------------------------------------------------

cdef inline word_t published_in(msg_t *m) noexcept:
    """The leaf cluster a message was published in, as far as this server knows; len 0: in none."""
    cdef remote_t *remote = m.source.remote
    cdef word_t nowhere
    if remote != NULL:
        return remote.origin if remote.kind == REMOTE_LEAF else remote.came_from
    nowhere.text = NULL
    nowhere.len = 0
    return nowhere


cdef inline bint is_gone(sub_t *s) noexcept:
    return s.flags & SUB_REMOVED or s.link.flags & LINK_CLOSING


cdef inline bint is_of_leaf_cluster(sub_t *s, msg_t *m) noexcept:
    """True if a subscription is there for the leaf cluster that the message was published in."""
    cdef word_t published = published_in(m)
    cdef word_t wanted
    if not published.len:
        return False
    wanted = origin_of(s)
    return same_word(&published, &wanted)


cdef bint is_response(msg_t *m) noexcept:
    return m.subject_len > 3 and memcmp(m.subject, b"_R_.", 4) == 0


cdef bint may_go(sub_t *s, msg_t *m) noexcept:
    """True if a message goes over a remote link for this plain subscription."""
    cdef remote_t *source = m.source.remote
    if is_gone(s) or s.link == m.source:
        return False
    if s.link.remote.kind == REMOTE_ROUTE:
        if source == NULL:
            return True
        if source.kind == REMOTE_ROUTE:
            return m.via != NULL and m.via.is_response or source.is_answer or bridges(source, s.link.remote)
        return not source.is_spoke
    if s.link.remote.kind == REMOTE_LEAF:
        if source != NULL and source.kind == REMOTE_ROUTE and s.link.remote.is_spoke and not is_response(m):
            return False
        return not is_of_leaf_cluster(s, m)
    return False


cdef bint is_asked_for(sub_t *s, msg_t *m) noexcept:
    """True if a message is for the queue group of this member."""
    cdef remote_t *source = m.source.remote
    cdef uint32_t i
    if source == NULL or m.via != NULL or source.is_answer or source.kind == REMOTE_LEAF and source.queues == NULL:
        return True
    for i in range(source.queues_count):
        if source.queues[i].len == s.queue_len and memcmp(source.queues[i].text, s.queue, s.queue_len) == 0:
            return True
    return False


cdef bint is_left_across(sub_t **members, uint32_t count, msg_t *m) noexcept:
    """True if a message from the 1.x side of a bridge is for a queue group because its sender knows no member, and
    the other side does.
    """
    cdef remote_t *source = m.source.remote
    cdef remote_t *its
    cdef bint is_found = False
    cdef uint32_t i
    if source == NULL or source.side != SIDE_LEGACY or source.queues_count:
        return False
    for i in range(count):
        its = members[i].link.remote
        if its != NULL and bridges(its, source):
            is_found = is_found or members[i].quota.weight and not is_gone(members[i])
        elif is_told(m.source, members[i]) or its != NULL and its.kind == REMOTE_ROUTE and members[i].quota.weight:
            return False
    return is_found


cdef sub_t *bridged_member(sub_t **members, uint32_t local_count, uint32_t count, msg_t *m) noexcept:
    """Choose a member of a queue group on the other side of a bridge for a message from this side; NULL: a local one
    gets it, or there is none. Drawn by weight among those that the peer was told of here.
    """
    cdef remote_t *source = m.source.remote
    cdef uint64_t total = local_count, drawn
    cdef uint32_t i
    if source.side == SIDE_NONE or source.side == SIDE_LEGACY and source.queues_count:  # who is asked for has left
        return NULL
    for i in range(local_count, count):
        if is_across(members[i], source):
            total += members[i].quota.weight
    drawn = next_random(m.source.router) % total if total else 0
    if drawn < local_count:
        return NULL
    drawn -= local_count
    for i in range(local_count, count):
        if not is_across(members[i], source):
            continue
        if drawn < members[i].quota.weight:
            return members[i]
        drawn -= members[i].quota.weight
    return NULL


cdef inline bint is_across(sub_t *s, remote_t *source) noexcept:
    return s.link.remote != NULL and bridges(s.link.remote, source) and not is_gone(s)


cdef sub_t *fallback_of(sub_t *s, sub_t *fallback, msg_t *m, bint *is_final) noexcept:
    """Return the member that gets a queue group's message if no local member takes it, now that this remote member
    was met.

    `is_final`: no other member needs to be asked.
    """
    cdef remote_t *source = m.source.remote
    cdef remote_kind kind = s.link.remote.kind if s.link.remote != NULL else REMOTE_GATEWAY
    if is_gone(s) or s.link == m.source or kind == REMOTE_GATEWAY or s.quota.weight == 0:
        return fallback
    if source != NULL and source.kind == REMOTE_ROUTE:
        if kind == REMOTE_ROUTE:  # over the bridge last: there it would be for plain subscriptions too
            return s if fallback == NULL or bridges(fallback.link.remote, source) else fallback
        if is_of_leaf_cluster(s, m):
            return fallback
        if fallback == NULL or fallback.link.remote.kind == REMOTE_ROUTE:
            return s
        return s if next_random(m.source.router) & 1 else fallback
    if kind == REMOTE_ROUTE and source != NULL and source.kind == REMOTE_LEAF and source.is_spoke:
        return fallback
    if kind == REMOTE_LEAF and (source == NULL and not m.source.flags & LINK_SERVICE
                             or source != NULL and source.kind == REMOTE_LEAF) or s.flags & SUB_ORIGIN:
        return s if fallback == NULL and not is_of_leaf_cluster(s, m) else fallback
    is_final[0] = True
    return s


cdef int open_target(router_t *r, link_t *l, interest_t *it) except -1:
    """The message goes over this link, though for no subscription yet."""
    cdef choice_t *c = &r.choice
    cdef target_t *target
    if c.targets_count == c.targets_cap:
        c.targets_cap = max(16, 2 * c.targets_cap)
        c.targets = <target_t *> resize(c.targets, c.targets_cap * sizeof(target_t))
    l.remote.place = c.targets_count
    target = &c.targets[c.targets_count]
    target.link = l
    target.interest = it
    target.sub = NULL
    target.prefix.len = 0
    target.first = target.last = 0
    c.targets_count += 1
    return 0


cdef int add_target(router_t *r, uint32_t base, sub_t *s) except -1:
    """The message goes over this subscription's link, for it too; targets before `base` are of another message."""
    cdef choice_t *c = &r.choice
    cdef remote_t *remote = s.link.remote
    cdef target_t *target
    if not (base <= remote.place < c.targets_count and c.targets[remote.place].link == s.link):
        open_target(r, s.link, s.interest)
    target = &c.targets[remote.place]
    if target.sub == NULL:
        target.sub = s
    if not s.queue_len:
        return 0
    if c.picks_count == c.picks_cap:
        c.picks_cap = max(16, 2 * c.picks_cap)
        c.picks = <pick_t *> resize(c.picks, c.picks_cap * sizeof(pick_t))
    c.picks[c.picks_count].sub = s
    c.picks[c.picks_count].next = 0
    c.picks_count += 1
    target = &c.targets[remote.place]
    if target.first:
        c.picks[target.last - 1].next = c.picks_count
    else:
        target.first = c.picks_count
    target.last = c.picks_count
    return 0


cdef int note_served(router_t *r, sub_t *s) except -1:
    """A member of a queue group has got the message: links that it is offered to need not serve that group."""
    cdef choice_t *c = &r.choice
    if c.served_count == c.served_cap:
        c.served_cap = max(16, 2 * c.served_cap)
        c.served = <sub_t **> resize(c.served, c.served_cap * sizeof(sub_t *))
    c.served[c.served_count] = s
    c.served_count += 1
    return 0


cdef bint send_to_asker(interest_t *it, msg_t *m) except -1:
    """Send a message to a mapped subject over the route to the server of this cluster that has asked.

    Returns False where that is this server, where there is no route to it, or where another cluster has asked.
    """
    cdef router_t *r = m.source.router
    cdef uint32_t base = r.choice.targets_count, i
    cdef link_t *l
    if memcmp(m.subject + CLUSTER_AT, r.cluster_hash, HASH_LEN) != 0 \
            or memcmp(m.subject + SERVER_AT, r.server_hash, HASH_LEN) == 0:
        return False
    for i in range(it.listeners_count):
        l = it.listeners[i]
        if l.remote.kind == REMOTE_ROUTE and memcmp(l.remote.hash, m.subject + SERVER_AT, HASH_LEN) == 0:
            open_target(r, l, it)
            try:
                r.out_msgs += l.remote.send(&r.choice.targets[base], m)
            finally:
                r.choice.targets_count = base
            return True
    return False


cdef int send_all(router_t *r, uint32_t base, uint32_t served_from, plan_t *plan, msg_t *m) except -1:
    """Sends to the targets from `base` on, then offers to whom everything is offered; returns how many got it."""
    cdef interest_t *it = plan.interest
    cdef uint32_t i
    cdef link_t *l
    cdef int delivered = 0
    for i in range(base, r.choice.targets_count):
        l = r.choice.targets[i].link
        delivered += l.remote.send(&r.choice.targets[i], m)
    if it.offered_to:
        for i in range(it.listeners_count):
            l = it.listeners[i]
            if l.remote.offer != NULL:
                delivered += l.remote.offer(l, plan, m, served_from)
    return delivered


# ---- frames -------------------------------------------------------------------------------------

cdef bint admits(link_t *l, msg_t *m) noexcept:
    """True if a remote link takes a message now; may make its publisher wait."""
    if l.flags & LINK_CLOSING:
        return False
    if l.flags & LINK_CONGESTED and m.source.remote == NULL and not m.source.flags & LINK_SERVICE:
        if l.router.drops_when_congested:
            return False
        stall(m.source, l)
    return True


cdef char *room_to_tell(link_t *l, size_t n) noexcept:
    """Return the address for a line of n bytes, however much waits already; NULL: the connection is closing."""
    cdef size_t pending
    if l.flags & LINK_CLOSING:
        return NULL
    try:
        buf_reserve(&l.out, n)
    except MemoryError:
        doom(l, REASON_SLOW_PENDING)
        return NULL
    pending = l.out.end - l.out.start
    if pending + n > l.router.congestion_mark:
        l.flags |= LINK_CONGESTED
    mark_dirty(l)
    return l.out.data + l.out.end


cdef char *room_to_send(link_t *l, size_t n) noexcept:
    """Return the address for a frame of n bytes with HR_PAD behind it; NULL: the connection is too slow."""
    if l.out.cap - l.out.end >= n:
        return l.out.data + l.out.end
    if l.written < l.remote.snapshot_end:
        return room_to_tell(l, n)
    return make_room(l, n)


cdef void sent(target_t *target, size_t n, uint32_t size) noexcept:
    """A frame of n bytes, `size` of them payload and headers, was written behind the outbox's end."""
    cdef link_t *l = target.link
    l.out.end += n
    HR_GUARD(l.out.end <= l.out.cap)
    mark_dirty(l)
    l.out_msgs += 1
    l.out_bytes += size
    l.router.out_bytes += size
    l.router.remote_out_msgs += 1
    l.router.remote_out_bytes += size
    if target.sub != NULL:
        target.sub.delivered += 1


cdef word_t prefix_of(target_t *target, msg_t *m) noexcept:
    """Return the prefix of a message's reply subject for a target; clients here do not get it."""
    cdef word_t nothing
    if target.prefix.len:
        return target.prefix
    if m.source.remote != NULL and m.via == NULL:
        return m.source.remote.prefix
    nothing.text = NULL
    nothing.len = 0
    return nothing


cdef size_t names_len(router_t *r, target_t *target) noexcept:
    """Bytes of "group " for each of a target's queue groups."""
    cdef uint32_t at = target.first
    cdef size_t n = 0
    while at:
        n += r.choice.picks[at - 1].sub.queue_len + 1
        at = r.choice.picks[at - 1].next
    return n


cdef char *write_names(router_t *r, target_t *target, char *at) noexcept:
    """Writes "group " for each of a target's queue groups; returns where they end."""
    cdef uint32_t place = target.first
    cdef sub_t *s
    while place:
        s = r.choice.picks[place - 1].sub
        memcpy(at, s.queue, s.queue_len)
        at += s.queue_len
        at[0] = c' '
        at += 1
        place = r.choice.picks[place - 1].next
    return at
