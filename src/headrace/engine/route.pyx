# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The route protocol of servers since 2.0: bytes of one connection between two servers of a cluster.

RS+, RS-, LS+, LS-, RMSG, HMSG, LMSG, PING and PONG are carried out here, and what this side tells and sends is
written here; handshakes and every question of policy are calls on the session:

    connect(json), peer_info(json)     CONNECT and INFO; `configure` opens the link for everything else
    unauthenticated()                  an op came before a due CONNECT: say so and doom the link
    account_interest(name)             the Interest of an account, None for one that is not known; asked once for
                                       each name, unless it is `serve`d or `withdraw`n
    pong(), peer_error(text), parse_failed(text), failed(error)
    trace(op, arguments, payload), trace_delivery(subject, key, reply, header_size, size)

What interest is, where messages go and what counts: remote.pyx. A remote subscription's sid is its key, "R account
subject [group]", or "L [cluster] account subject [group]" when it is there for a leaf cluster.

Source: cluster protocol, B2 and B3.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from headrace.engine.client cimport add_sid, bad_arguments, find_sid, is_valid_subject, line_t, size_of
from headrace.engine.delivery cimport remove_sub, route_remote
from headrace.engine.account_cache cimport AccountCache, interest_of
from headrace.engine.remote cimport (
    is_told, is_wanted_beside, listen, origin_of, reweigh, same_word, unlisten, weight_told,
)
from headrace.engine.interest cimport Interest, table_seed, unmapped_plan
from headrace.engine.link cimport emit
from headrace.engine.peer cimport (
    OP_HMSG, OP_LMSG, OP_LS_MINUS, OP_LS_PLUS, OP_RMSG, OP_RS_MINUS, OP_RS_PLUS, PeerLink, know, protocol_t, take_message,
)
from headrace.engine.reply_mapping cimport HASH_LEN, is_mapped, unmap_subject
from headrace.engine.structs cimport (
    REMOTE_LEAF, REMOTE_ROUTE, LINK_CLOSING, LINK_HEADERS, SIDE_NONE, group_t, hr_hash, interest_t, link_t, msg_t, node_t, side_t, sub_t, target_t, word_t,
)
from headrace.engine.trie cimport insert, next_node
from headrace.engine.permission_cache cimport PermissionCache, is_allowed
from headrace.engine.wire cimport add_word, new_remote_sub, wire_t, write_interest, write_message

cdef word_t r_word, l_word, no_word
r_word.text = b"R"
l_word.text = b"L"
r_word.len = l_word.len = 1
no_word.text = b""
no_word.len = 0


# ---- interest of the other server ---------------------------------------------------------------

cdef int subscribe(RouteLink link, line_t *line, bint is_leaf) except -1:
    """RS+ or LS+: [origin] [account] subject [group weight]"""
    cdef word_t *words = link.wire.words
    cdef word_t *origin = &words[0] if is_leaf else NULL
    cdef uint32_t at = (1 if is_leaf else 0) + (0 if link._is_dedicated else 1)
    cdef word_t *subject = &words[at]
    cdef word_t *group = &words[at + 1] if link.wire.count == at + 3 else NULL
    cdef interest_t *it = link._dedicated
    cdef uint64_t weight = 0
    cdef uint32_t hash
    cdef sub_t *s
    if link.wire.count != at + 1 and group == NULL:
        return bad_arguments(&link.c, "RemoteSub", line)
    if group != NULL:
        weight = max(0, size_of(&words[at + 2]))
    if not link._is_dedicated:
        it = interest_of(link._accounts, link.session, words[at - 1].text, words[at - 1].len)
    if it == NULL or link._exports is not None and not is_allowed(
            link._exports, hr_hash(subject.text, subject.len, table_seed), subject.text, subject.len):
        return 0
    compose_key(link, origin, at, group)
    hash = <uint32_t> hr_hash(link.wire.text.data, link.wire.text.end, table_seed)
    s = find_sid(&link.c, link.wire.text.data, <uint32_t> link.wire.text.end, hash)
    if s != NULL:
        if group != NULL:
            reweigh(s, weight)
        return 0
    if not is_valid_subject(subject.text, subject.len, False):
        emit(&link.c, b"-ERR 'Invalid Subscription'\r\n", 29)
        return 0
    s = new_remote_sub(&link.wire, &link.c, origin, subject.len, group.len if group != NULL else 0, hash)
    s.quota.weight = weight
    add_sid(&link.c, s)
    insert(it, s)
    return 0


cdef int unsubscribe(RouteLink link, line_t *line, bint is_leaf) except -1:
    """RS- or LS-: [origin] [account] subject [group]"""
    cdef word_t *words = link.wire.words
    cdef bint has_origin = is_leaf and link._origin_unsub
    cdef uint32_t at = (1 if has_origin else 0) + (0 if link._is_dedicated else 1)
    cdef sub_t *s
    if link.wire.count != at + 1 and link.wire.count != at + 2:
        return bad_arguments(&link.c, "RemoteUnsub", line)
    compose_key(link, (&words[0] if has_origin else &no_word) if is_leaf else NULL, at,
                &words[at + 1] if link.wire.count == at + 2 else NULL)
    s = find_sid(&link.c, link.wire.text.data, <uint32_t> link.wire.text.end,
                 <uint32_t> hr_hash(link.wire.text.data, link.wire.text.end, table_seed))
    if s != NULL:
        remove_sub(s)
    return 0


cdef int compose_key(RouteLink link, word_t *origin, uint32_t subject_at, word_t *group) except -1:
    """wire.text becomes the sid: the leaf cluster is only in there where LS- says it too."""
    cdef wire_t *w = &link.wire
    w.text.start = w.text.end = 0
    add_word(w, &r_word if origin == NULL else &l_word)
    if origin != NULL and link._origin_unsub:
        add_word(w, origin)
    if not link._is_dedicated:
        add_word(w, &w.words[subject_at - 1])
    add_word(w, &w.words[subject_at])
    if group != NULL:
        add_word(w, group)
    return 0


# ---- messages of the other server ---------------------------------------------------------------

cdef uint32_t words_before(link_t *l, int op) noexcept:
    """[origin] [account]"""
    return (1 if op == OP_LMSG else 0) + (0 if (<RouteLink> l.owner)._is_dedicated else 1)


cdef interest_t *account_of(link_t *l, int op) except? NULL:
    """The account that the line in hand names, or the connection is for."""
    cdef RouteLink link = <RouteLink> l.owner
    cdef word_t *account = link.wire.words
    if link._is_dedicated:
        return link._dedicated
    if op == OP_LMSG:
        account += 1
    return interest_of(link._accounts, link.session, account.text, account.len)


cdef int arrived(link_t *l, int op, msg_t *m) except -1:
    """A complete message: delivered to whom it is for here."""
    cdef RouteLink link = <RouteLink> l.owner
    cdef interest_t *it = account_of(l, op)
    link.remote.came_from.len = 0
    if op == OP_LMSG:
        link.remote.came_from = link.wire.words[0]
    if it == NULL:
        return 0
    if l.router.is_gateway and is_mapped(m.subject, m.subject_len) and not unmap_subject(l.router, m):
        return 0
    route_remote(unmapped_plan(it, m.subject, m.subject_len), m)
    return 0


# ---- what the other server is told --------------------------------------------------------------

cdef void tell(link_t *l, sub_t *s, int64_t weight) noexcept:
    """Writes that a subject (of a queue group with so many members) is wanted here, or 0: by nobody any more."""
    cdef RouteLink link = <RouteLink> l.owner
    cdef word_t origin = origin_of(s)
    cdef word_t account
    cdef bint is_leaf = origin.len and link._has_origin
    if link._imports is not None and not may_import(link, s):
        return
    account.text = s.interest.account
    account.len = s.interest.account_len
    write_interest(l, s, c'L' if is_leaf else c'R', &origin if is_leaf and (weight or link._origin_unsub) else NULL,
                   NULL if link._is_dedicated else &account, weight)


cdef bint may_import(RouteLink link, sub_t *s) noexcept:
    try:
        return is_allowed(link._imports, hr_hash(s.subject, s.subject_len, table_seed), s.subject, s.subject_len)
    except Exception as error:
        link.session.failed(error)
        return False


cdef void changed(link_t *l, sub_t *s, int64_t change) noexcept:
    """A listener's hook: see remote.pyx."""
    if not is_told(l, s):
        return
    if s.group != NULL:
        tell(l, s, weight_told(l, s))
    elif not is_wanted_beside(l, s):
        tell(l, s, 1 if change > 0 else 0)


cdef int tell_all(RouteLink link, interest_t *it, bint wanted) except -1:
    """One line for everything in the trie that the other server is, or (not `wanted`) was, told of."""
    cdef node_t *node = &it.root
    cdef uint32_t i
    cdef group_t *group
    while node != NULL:
        tell_row(link, node.plain, node.plain_count, wanted)
        for i in range(node.groups_cap):
            group = node.groups[i]
            while group != NULL:
                tell_row(link, group.members, group.count, wanted)
                group = group.next
        node = next_node(node)
    return 0


cdef void tell_row(RouteLink link, sub_t **row, uint32_t count, bint wanted) noexcept:
    """One line for each leaf cluster, and one for none, that a row of subscriptions has any for."""
    cdef int64_t weight
    cdef uint32_t i, j
    cdef word_t origin, other
    cdef bint is_known
    for i in range(count):
        if not is_told(&link.c, row[i]):
            continue
        origin = origin_of(row[i])
        is_known = False
        j = i
        while j > 0 and not is_known:  # a row of local ones ends at the first
            j -= 1
            if is_told(&link.c, row[j]):
                other = origin_of(row[j])
                is_known = same_word(&other, &origin)
        if is_known:
            continue
        weight = weight_told(&link.c, row[i]) if row[i].group != NULL else 1
        if weight:
            tell(&link.c, row[i], weight if wanted else 0)


# ---- what the other server is sent --------------------------------------------------------------

cdef bint may_export(RouteLink link, msg_t *m) except -1:
    return is_allowed(link._exports, hr_hash(m.subject, m.subject_len, table_seed), m.subject, m.subject_len)


cdef int send(target_t *target, msg_t *m) except -1:
    """A remote link's hook: see remote.pyx."""
    cdef RouteLink link = <RouteLink> target.link.owner
    cdef word_t *origin = NULL
    cdef word_t account
    if link._exports is not None and not is_mapped(m.subject, m.subject_len) and not may_export(link, m):
        return 0
    if link._has_origin and m.source.remote != NULL and m.source.remote.kind == REMOTE_LEAF and m.source.remote.origin.len:
        origin = &m.source.remote.origin
    account.text = target.interest.account
    account.len = target.interest.account_len
    return write_message(target, m, c'R' if origin == NULL else c'L', origin,
                         NULL if link._is_dedicated else &account)


# ---- ops ----------------------------------------------------------------------------------------

cdef int interest(link_t *l, int op, line_t *line) except -1:
    """A line that says what the other server wants; it is split."""
    cdef RouteLink link = <RouteLink> l.owner
    if op == OP_RS_PLUS or op == OP_LS_PLUS:
        return subscribe(link, line, op == OP_LS_PLUS)
    return unsubscribe(link, line, op == OP_LS_MINUS)


cdef protocol_t route_protocol
know(&route_protocol, (
    (b"RMSG", OP_RMSG), (b"HMSG", OP_HMSG), (b"LMSG", OP_LMSG),
    (b"RS+", OP_RS_PLUS), (b"RS-", OP_RS_MINUS), (b"LS+", OP_LS_PLUS), (b"LS-", OP_LS_MINUS),
))
route_protocol.first = b"C"
route_protocol.message = take_message
route_protocol.interest = interest
route_protocol.bare = OP_RMSG
route_protocol.misread = [b"RoutedMsgArgs", b"RoutedHeaderMsgArgs", b"RoutedOriginClusterMsgArgs"]
route_protocol.words_before = words_before
route_protocol.account_of = account_of
route_protocol.arrived = arrived


cdef bint is_first_of_its_link(sub_t *s) noexcept:
    """True if no earlier remote subscription to the subject, or member of the group, is of the same link."""
    cdef sub_t **row = s.group.members if s.group != NULL else s.node.plain
    cdef uint32_t i
    for i in range(s.group.local_count if s.group != NULL else s.node.local_count, s.index):
        if row[i].link == s.link:
            return False
    return True


cdef int tell_of_each_other(RouteLink one, RouteLink other, interest_t *it) except -1:
    """Two peers may not be told of each other's interest any more, or may now."""
    tell_of(one, &other.c, it)
    return tell_of(other, &one.c, it)


cdef int tell_of(RouteLink link, link_t *other, interest_t *it) except -1:
    cdef uint32_t i
    for i in range(other.sids_cap):
        if other.sids[i] != NULL and other.sids[i].interest == it:
            link._tell_anew(other.sids[i])
    return 0


@cython.no_gc_clear  # it must leave the interest it listens to before that goes
cdef class RouteLink(PeerLink):
    """A connection to another server of the cluster."""

    def __cinit__(self, *_args, **_options):
        self.remote.kind = REMOTE_ROUTE
        self.remote.send = send
        self.remote.changed = changed
        self.protocol = &route_protocol
        self._accounts = AccountCache()

    def __dealloc__(self):
        self._hear_nothing()
        self._release()  # while there are the accounts that its subscriptions hang in

    cdef _leave(self):
        PeerLink._leave(self)
        self._accounts.clear()
        self._dedicated = NULL

    cdef _tell_all(self, Interest interest, bint wanted):
        """Says what is wanted in an account, or that nothing is."""
        tell_all(self, &interest.c, wanted)

    cdef _hear_nothing(self):
        for interest in self._accounts.served.values():
            unlisten(&(<Interest> interest).c, &self.c)
        self._accounts.served.clear()

    def configure(self, *, bint headers, bint has_origin, bint origin_unsub, bytes server_hash=None, bint traces=False):
        """The handshake is over: interest and messages may come.

        `headers`: the peer takes them; `has_origin`: it knows LS+ and LMSG (`lnoc`); `origin_unsub`: LS- says
        the leaf cluster, both ways (both have `lnocu`); `server_hash`: the peer's, in subjects of gateways;
        `traces`: it goes on with messages that are traced.
        """
        if server_hash is not None:
            if len(server_hash) != HASH_LEN:
                raise ValueError("a hash has six characters")
            memcpy(self.remote.hash, PyBytes_AS_STRING(server_hash), HASH_LEN)
        self._set_flag(LINK_HEADERS, headers)
        self._is_open = True
        self._has_origin = has_origin
        self._origin_unsub = origin_unsub
        self.remote.traces = traces

    def serve(self, bytes account not None, Interest interest not None, *, bint dedicated=False):
        """Tells what is wanted in an account, now and from now on, and sends its messages here.

        `dedicated`: this connection is for nothing else, and no line on it names an account. An account that is
        served already is told again. Raises: ValueError for an interest of another account, or for one account
        beside another that the connection is dedicated to.
        """
        if self.c.flags & LINK_CLOSING:
            return
        if interest.account != account:
            raise ValueError(f"the interest of {interest.account!r} is not that of {account!r}")
        if self._accounts.served.get(account) is interest and self._is_dedicated == dedicated:
            self._tell_all(interest, True)
            return
        served = self._accounts.served
        if account in served or served and (dedicated or self._is_dedicated) or self._is_dedicated and not dedicated:
            raise ValueError(f"a route cannot serve {account!r} beside what it serves")
        known = self._accounts.forget(account)
        if known is not interest:
            self._drop(known)
        self._accounts.know(account, interest)
        if dedicated:
            self._is_dedicated = True
            self._dedicated = &interest.c
        listen(&interest.c, &self.c)
        self._accounts.served[account] = interest
        self._tell_all(interest, True)
        self.remote.snapshot_end = self.c.written + self.c.out.end - self.c.out.start

    def withdraw(self, bytes account not None, *, bint tell=False):
        """Serves an account no more, and forgets what the other server wants of it. `tell`: and says so.

        It is asked for again when the other server names it.
        """
        cdef Interest interest
        if self._is_detached:  # its table of subscriptions may be gone in part
            return
        interest = self._accounts.served.pop(account, None)
        if interest is not None:
            unlisten(&interest.c, &self.c)
            if tell:
                self._tell_all(interest, False)
            if self._dedicated == &interest.c:
                self._dedicated = NULL
        self._drop(self._accounts.forget(account))

    cdef _drop(self, Interest interest):
        """Removes what hangs in an account."""
        cdef uint32_t i = 0
        while interest is not None and i < self.c.sids_cap:
            if self.c.sids[i] != NULL and self.c.sids[i].interest == &interest.c:
                remove_sub(self.c.sids[i])  # another may move into the gap
            else:
                i += 1

    def take_side(self, side_t side):
        """Set the side of the bridge on which the peer stands: 1, it speaks 1.x only; 2, 2.x only; 0, on none, or this
        server is no bridge (any more).

        Peers of the two sides are told of each other's interest, and get each other's messages.
        """
        cdef Interest interest
        cdef link_t *other
        cdef uint32_t i
        if side == self.remote.side or self._is_detached:
            return
        self.remote.side = side
        for interest in self._accounts.served.values():
            for i in range(interest.c.listeners_count):
                other = interest.c.listeners[i]
                if other != &self.c and other.remote.kind == REMOTE_ROUTE and other.remote.side != SIDE_NONE:
                    tell_of_each_other(self, <RouteLink> other.owner, &interest.c)

    cdef _tell_anew(self, sub_t *s):
        """Tell the peer of a subscription, or take it back, since the rule for it has changed."""
        if not is_first_of_its_link(s):
            return
        if s.group != NULL:
            tell(&self.c, s, weight_told(&self.c, s))
        else:
            tell(&self.c, s, 1 if is_told(&self.c, s) or is_wanted_beside(&self.c, s) else 0)

    def restrict(self, imports, exports):
        """Subjects that pass between the clusters' servers, or None for any: `imports(subject)` says what is told
        to the other server, `exports(subject)` what it may want and is sent (bytes, wildcards too).

        What was told before stays told. The answers are remembered.
        """
        self._imports = None if imports is None else PermissionCache(imports)
        self._exports = None if exports is None else PermissionCache(exports)

    @property
    def served(self):
        """Names of the accounts that are served here."""
        return tuple(self._accounts.served)

    def interest_rows(self):
        """[(account, subject, queue group or None, members)] that the other server wants, in no particular order."""
        cdef uint32_t i
        cdef sub_t *s
        cdef list rows = []
        for i in range(self.c.sids_cap):
            s = self.c.sids[i]
            if s != NULL:
                rows.append((s.interest.account[:s.interest.account_len], s.subject[:s.subject_len],
                             s.queue[:s.queue_len] if s.queue_len else None, s.quota.weight if s.queue_len else 1))
        return rows
