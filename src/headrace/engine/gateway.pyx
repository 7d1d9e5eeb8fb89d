# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The gateway protocol: bytes of one connection to a server of another cluster, in one of its two roles.

Over an outbound connection, which this side has opened, messages go out, and what the other cluster wants comes
in; over an inbound one it is the other way round. Carried out here are RS+, RS-, A+, A-, RMSG, HMSG, PING and
PONG; every question of policy is a call on the session, as for routes (route.pyx):

    connect(json), peer_info(json), unauthenticated(), pong(), peer_error(text), parse_failed(text), failed(error)
    account_interest(name)             the Interest of an account, None for one that is not known; asked once for
                                       each name. On an inbound connection that is when the peer is told A-
    wrong_side(op)                     interest on an inbound connection, or a message on an outbound one: doom it
    trace(op, arguments, payload), trace_delivery(subject, key, reply, header_size, size)

**What is wanted there**, on an outbound connection, hangs in the accounts' tries (SUB_REMOTE of a REMOTE_GATEWAY link):
plans name it, leaf links hear of it, nothing is sent for its sake but by `offer`. For each account the peer is
believed in one of three modes:

    OPTIMISTIC      everything is sent but what RS- has named, and nothing after A-, and to queue groups that RS+
                    has named; not at all to a peer that has said it will switch every account (`interest_only`)
    TRANSITIONING   between its commands 2 and 3: what is wanted is being told
    INTEREST_ONLY   only what RS+ has named

**What is wanted here** (cluster_interest.pyx), told on inbound connections: every account is told wholly, between
commands 2 and 3 (`serve`), then each change; so RS- for single messages is never said. Imported services are not
told: a request is passed on where it was published.

Subjects that RS- has named while everything is sent hang in an interest of the link's own, at most MOST_REFUSED:
to send more than is wanted is no mistake.

Source: gateway protocol, sections 2, 3, 8 and 9; reference server 2.15.1.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.client cimport add_sid, bad_arguments, find_sid, is_valid_subject, line_t
from headrace.engine.cluster_interest cimport cluster_changed, tell_all
from headrace.engine.delivery cimport remove_sub, route_remote
from headrace.engine.account_cache cimport AccountCache, interest_of
from headrace.engine.remote cimport (
    add_target, is_asked_for, is_response, listen, note_served, open_target, prefix_of, room_to_tell, send_to_asker,
    unlisten,
)
from headrace.engine.gateway_interest cimport (
    INTEREST_ONLY, OPTIMISTIC, TRANSITIONING, add_view, covers, drop_view, release_views, view_of, view_t, views_t,
)
from headrace.engine.interest cimport Interest, table_seed, unmapped_plan
from headrace.engine.link cimport Router, doom, emit
from headrace.engine.peer cimport (
    LAST_MESSAGE, OP_A_MINUS, OP_A_PLUS, OP_HMSG, OP_RMSG, OP_RS_MINUS, OP_RS_PLUS, PeerLink, know, name_of,
    protocol_t, take_message,
)
from headrace.engine.reply_mapping cimport CLUSTER_AT, HASH_LEN, PREFIX_LEN, SERVER_AT, is_mapped, unmap_subject
from headrace.engine.structs cimport (
    REMOTE_GATEWAY, REMOTE_LEAF, LINK_CLOSING, LINK_HEADERS, REASON_PROTOCOL_VIOLATION, SUB_REMOTE, SUB_LOCAL, SUB_REMOVED,
    remote_t, hr_hash, interest_t, link_t, msg_t, plan_t, router_t, sub_t, target_t, word_t,
)
from headrace.engine.trie cimport insert
from headrace.engine.wire cimport add_word, new_remote_sub, wire_t, write_message

cdef enum:
    MOST_REFUSED = 1 << 14

cdef int64_t RECENT_NS = 2_000_000_000   # so long after a subscription reply subjects are mapped

cdef word_t r_word, n_word
r_word.text = b"R"
n_word.text = b"N"
r_word.len = n_word.len = 1


def join_gateways(Router router not None, bytes cluster_hash not None, bytes server_hash not None):
    """A router's cluster is one of several, and is so called in `_GR_.` subjects. Raises: ValueError."""
    if len(cluster_hash) != HASH_LEN or len(server_hash) != HASH_LEN:
        raise ValueError("both hashes have six characters")
    memcpy(router.c.cluster_hash, PyBytes_AS_STRING(cluster_hash), HASH_LEN)
    memcpy(router.c.server_hash, PyBytes_AS_STRING(server_hash), HASH_LEN)
    router.c.is_gateway = True


def mapped_replies_count(Router router not None):
    """The number of requests from other clusters that may still be answered."""
    return router.c.mapped_replies.count


# ---- outbound: what the other cluster wants -----------------------------------------------------

cdef int subscribe(GatewayLink link, line_t *line) except -1:
    """RS+: account subject [group weight]"""
    cdef word_t *words = link.wire.words
    cdef word_t *group = &words[2] if link.wire.count == 4 else NULL
    cdef interest_t *it
    cdef view_t *view
    if link.wire.count != 2 and group == NULL:
        return bad_arguments(&link.c, "RemoteSub", line)
    it = interest_of(link._accounts, link.session, words[0].text, words[0].len)
    view = view_of(&link._views, it) if it != NULL else NULL
    if view == NULL or view.is_off and group == NULL:
        return 0
    if group == NULL and view.mode == OPTIMISTIC:
        return accept_again(link, view, &words[1])
    view.is_off = False
    return want(link, view, it, group)


cdef int want(GatewayLink link, view_t *view, interest_t *it, word_t *group) except -1:
    """The peer wants the subject of the line in hand, for a queue group unless that is NULL."""
    cdef word_t *subject = &link.wire.words[1]
    cdef uint32_t hash
    cdef sub_t *s
    compose_key(link, &r_word, group)
    hash = <uint32_t> hr_hash(link.wire.text.data, link.wire.text.end, table_seed)
    if find_sid(&link.c, link.wire.text.data, <uint32_t> link.wire.text.end, hash) != NULL:
        return 0
    if not is_valid_subject(subject.text, subject.len, False):
        emit(&link.c, b"-ERR 'Invalid Subscription'\r\n", 29)
        return 0
    s = new_remote_sub(&link.wire, &link.c, NULL, subject.len, group.len if group != NULL else 0, hash)
    s.quota.weight = 1
    add_sid(&link.c, s)
    insert(it, s)
    if group != NULL:
        view.groups += 1
    else:
        view.plain += 1
    return 0


cdef int unsubscribe(GatewayLink link, line_t *line) except -1:
    """RS-: account subject [group]"""
    cdef word_t *words = link.wire.words
    cdef word_t *group = &words[2] if link.wire.count == 3 else NULL
    cdef interest_t *it
    cdef view_t *view
    cdef sub_t *s
    if link.wire.count != 2 and group == NULL:
        return bad_arguments(&link.c, "RemoteUnsub", line)
    it = interest_of(link._accounts, link.session, words[0].text, words[0].len)
    view = view_of(&link._views, it) if it != NULL else NULL
    if view == NULL:
        return 0
    if group == NULL and view.mode == OPTIMISTIC:
        return refuse(link, view)
    compose_key(link, &r_word, group)
    s = find_sid(&link.c, link.wire.text.data, <uint32_t> link.wire.text.end,
                 <uint32_t> hr_hash(link.wire.text.data, link.wire.text.end, table_seed))
    if s != NULL:
        remove_sub(s)
        if group != NULL:
            view.groups -= 1
        else:
            view.plain -= 1
    return 0


cdef int compose_key(GatewayLink link, word_t *kind, word_t *group) except -1:
    """wire.text becomes the sid of the line in hand, whose words are account, subject and perhaps a group."""
    cdef wire_t *w = &link.wire
    w.text.start = w.text.end = 0
    add_word(w, kind)
    add_word(w, &w.words[0])
    add_word(w, &w.words[1])
    if group != NULL:
        add_word(w, group)
    return 0


cdef int refuse(GatewayLink link, view_t *view) except -1:
    """The peer has got a message on the subject of the line in hand, and nobody there wants it."""
    cdef word_t *subject = &link.wire.words[1]
    cdef uint32_t hash
    cdef sub_t *s
    if view.is_off:
        view.is_off = False
        view.is_guessed = not link._is_interest_only
    compose_key(link, &n_word, NULL)
    hash = <uint32_t> hr_hash(link.wire.text.data, link.wire.text.end, table_seed)
    if not view.is_guessed or view.refused >= MOST_REFUSED or not is_valid_subject(subject.text, subject.len, True) \
            or find_sid(&link.c, link.wire.text.data, <uint32_t> link.wire.text.end, hash) != NULL:
        return 0
    s = new_remote_sub(&link.wire, &link.c, NULL, subject.len, 0, hash)
    add_sid(&link.c, s)
    insert(&link._refused.c, s)
    view.refused += 1
    return 0


cdef int accept_again(GatewayLink link, view_t *view, word_t *pattern) except -1:
    """Take back refusals that match this subject, which is wanted now."""
    cdef sub_t *s
    cdef uint32_t i = 0
    if view.refused == 0:
        return 0
    while i < link.c.sids_cap:
        s = link.c.sids[i]
        if s != NULL and is_refusal_of(link, s, view.interest) and covers(pattern, s.subject, s.subject_len):
            remove_sub(s)  # another may move into the gap
            view.refused -= 1
        else:
            i += 1
    return 0


cdef inline bint is_refusal_of(GatewayLink link, sub_t *s, interest_t *it) noexcept:
    return s.interest == &link._refused.c and s.sid_len > 3 + it.account_len \
        and s.text[2 + it.account_len] == c' ' and memcmp(s.text + 2, it.account, it.account_len) == 0


cdef int drop_subs(GatewayLink link, view_t *view, bint refusals) except -1:
    """Removes what hangs in an account, or what was refused in it."""
    cdef sub_t *s
    cdef uint32_t i = 0
    while i < link.c.sids_cap:
        s = link.c.sids[i]
        if s != NULL and (is_refusal_of(link, s, view.interest) if refusals else s.interest == view.interest):
            remove_sub(s)
        else:
            i += 1
    if refusals:
        view.refused = 0
    else:
        view.plain = view.groups = 0
    return 0


cdef int account_off(GatewayLink link, line_t *line) except -1:
    """A-: nobody there has anything in this account, but for queue groups that it has named."""
    cdef interest_t *it
    cdef view_t *view
    if link.wire.count != 1:
        return bad_arguments(&link.c, "AccountUnsub", line)
    it = interest_of(link._accounts, link.session, link.wire.words[0].text, link.wire.words[0].len)
    view = view_of(&link._views, it) if it != NULL else NULL
    if view == NULL:
        return 0
    drop_subs(link, view, True)
    if view.groups:
        view.is_guessed = not link._is_interest_only
        return 0
    drop_subs(link, view, False)
    view.is_off = True
    view.is_guessed = False
    view.mode = OPTIMISTIC
    return 0


cdef int account_on(GatewayLink link, line_t *line) except -1:
    """A+: takes an A- back."""
    cdef interest_t *it
    cdef view_t *view
    if link.wire.count != 1:
        return bad_arguments(&link.c, "AccountSub", line)
    it = interest_of(link._accounts, link.session, link.wire.words[0].text, link.wire.words[0].len)
    view = view_of(&link._views, it) if it != NULL else NULL
    if view != NULL and view.is_off:
        view.is_off = False
        view.is_guessed = not link._is_interest_only
    return 0


# ---- outbound: messages -------------------------------------------------------------------------

cdef bint is_refused(GatewayLink link, view_t *view, msg_t *m) except -1:
    cdef wire_t *w = &link.wire
    cdef word_t account, subject
    if view.refused == 0:
        return False
    account.text = view.interest.account
    account.len = view.interest.account_len
    subject.text = m.subject
    subject.len = m.subject_len
    w.text.start = w.text.end = 0
    add_word(w, &n_word)
    add_word(w, &account)
    add_word(w, &subject)
    return find_sid(&link.c, w.text.data, <uint32_t> w.text.end,
                    <uint32_t> hr_hash(w.text.data, w.text.end, table_seed)) != NULL


cdef bint is_served(router_t *r, uint32_t served_from, sub_t *s) noexcept:
    cdef uint32_t i
    for i in range(served_from, r.choice.served_count):
        if r.choice.served[i].queue_len == s.queue_len \
                and memcmp(r.choice.served[i].queue, s.queue, s.queue_len) == 0:
            return True
    return False


cdef bint choose(GatewayLink link, view_t *view, plan_t *plan, msg_t *m, uint32_t base, uint32_t served_from) except -1:
    """Makes a target of the link for what the peer wants of a message; False: it wants nothing."""
    cdef router_t *r = link.c.router
    cdef uint32_t i, j, start = 0
    cdef sub_t *s
    if view.is_guessed and not is_refused(link, view, m):
        open_target(r, &link.c, plan.interest)
    for i in range(plan.plain_count, plan.plain_count + plan.remote_count):
        s = plan.plain[i]
        if s.link == &link.c and not s.flags & SUB_REMOVED:
            add_target(r, base, s)
            break
    for i in range(plan.group_count if view.groups else 0):
        for j in range(plan.local_ends[i], plan.group_ends[i]):
            s = plan.members[j]
            if s.link == &link.c and not s.flags & SUB_REMOVED:
                if is_asked_for(s, m) and not is_served(r, served_from, s):
                    add_target(r, base, s)
                    note_served(r, s)
                break
    return r.choice.targets_count > base


cdef int offer(link_t *l, plan_t *plan, msg_t *m, uint32_t served_from) except -1:
    """A remote link's hook: see remote.pyx.

    What came from another server of the cluster, or over a gateway, was offered where it was published.
    """
    cdef GatewayLink link = <GatewayLink> l.owner
    cdef remote_t *source = m.source.remote
    cdef router_t *r = l.router
    cdef uint32_t base = r.choice.targets_count
    cdef view_t *view
    cdef target_t *target
    cdef word_t account
    if source != NULL and source.kind != REMOTE_LEAF and m.via == NULL and (
            not source.is_answer or is_response(m)):
        return 0
    if m.subject_len == 0 or l.flags & LINK_CLOSING:
        return 0
    if is_mapped(m.subject, m.subject_len):
        if memcmp(m.subject + CLUSTER_AT, l.remote.hash, HASH_LEN) != 0:
            return 0
        open_target(r, l, plan.interest)
    else:
        view = view_of(&link._views, plan.interest)
        if view == NULL or view.is_off or not choose(link, view, plan, m, base, served_from):
            return 0
    target = &r.choice.targets[base]
    if m.reply_len and not prefix_of(target, m).len and plan.interest.subscribed \
            and r.now - plan.interest.subscribed < RECENT_NS:
        target.prefix.text = link._prefix
        target.prefix.len = PREFIX_LEN
    account.text = plan.interest.account
    account.len = plan.interest.account_len
    return write_message(target, m, c'R', NULL, &account)


cdef void noted(link_t *l, sub_t *s, int64_t change) noexcept:
    """A listener's hook on outbound connections: answers to who has just subscribed need help to come back."""
    if change > 0 and not s.flags & SUB_LOCAL and (
            not s.flags & SUB_REMOTE or s.link.remote != NULL and s.link.remote.kind == REMOTE_LEAF):
        s.interest.subscribed = l.router.now


# ---- inbound --------------------------------------------------------------------------------------

cdef int say(GatewayLink link, bytes line) except -1:
    """A line among what tells interest, whatever waits already."""
    cdef size_t n = PyBytes_GET_SIZE(line)
    cdef char *at = room_to_tell(&link.c, n)
    if at != NULL:
        memcpy(at, PyBytes_AS_STRING(line), n)
        link.c.out.end += n
    return 0


cdef uint32_t words_before(link_t *l, int op) noexcept:
    """account"""
    return 1


cdef interest_t *account_of(link_t *l, int op) except? NULL:
    """The account that the line in hand names."""
    cdef GatewayLink link = <GatewayLink> l.owner
    return interest_of(link._accounts, link.session, link.wire.words[0].text, link.wire.words[0].len)


cdef int arrived(link_t *l, int op, msg_t *m) except -1:
    """A complete message: delivered to whom it is for in this cluster."""
    cdef router_t *r = l.router
    cdef interest_t *it = account_of(l, op)
    if it == NULL:
        return 0
    if r.is_gateway and is_mapped(m.subject, m.subject_len) and (send_to_asker(it, m) or not unmap_subject(r, m)):
        return 0
    route_remote(unmapped_plan(it, m.subject, m.subject_len), m)
    return 0


cdef int send_nothing(target_t *target, msg_t *m) except -1:
    return 0  # messages go over gateways by `offer` alone


# ---- ops ----------------------------------------------------------------------------------------

cdef int interest(link_t *l, int op, line_t *line) except -1:
    """A line that says what the other cluster wants; it is split."""
    cdef GatewayLink link = <GatewayLink> l.owner
    if op == OP_RS_PLUS:
        subscribe(link, line)
    elif op == OP_RS_MINUS:
        unsubscribe(link, line)
    elif op == OP_A_PLUS:
        account_on(link, line)
    elif op == OP_A_MINUS:
        account_off(link, line)
    return 0


cdef bint may_come(link_t *l, int op) except -1:
    """Interest comes over one of the two connections, messages over the other."""
    cdef GatewayLink link = <GatewayLink> l.owner
    if (op <= LAST_MESSAGE) == link._is_outbound:
        doom(l, REASON_PROTOCOL_VIOLATION)
        link.session.wrong_side(name_of(op))
        return False
    return True


cdef protocol_t gateway_protocol
know(&gateway_protocol, (
    (b"RMSG", OP_RMSG), (b"HMSG", OP_HMSG), (b"RS+", OP_RS_PLUS), (b"RS-", OP_RS_MINUS),
    (b"A+", OP_A_PLUS), (b"A-", OP_A_MINUS),
))
gateway_protocol.first = b"C"
gateway_protocol.may_come = may_come
gateway_protocol.message = take_message
gateway_protocol.interest = interest
gateway_protocol.bare = OP_RMSG
gateway_protocol.misread = [b"RoutedMsgArgs", b"RoutedHeaderMsgArgs", b""]
gateway_protocol.words_before = words_before
gateway_protocol.account_of = account_of
gateway_protocol.arrived = arrived


@cython.no_gc_clear  # it must leave the interest it listens to before that goes
cdef class GatewayLink(PeerLink):
    """A connection to a server of another cluster. `is_outbound`: this side has opened it."""

    cdef AccountCache _accounts
    cdef Interest _refused       # where subjects hang that RS- has named, of all accounts
    cdef views_t _views
    cdef bint _is_interest_only
    cdef char _prefix[PREFIX_LEN]

    def __cinit__(self, *_args, **_options):
        memset(&self._views, 0, sizeof(views_t))
        self.remote.kind = REMOTE_GATEWAY
        self.remote.send = send_nothing
        self.remote.changed = noted if self._is_outbound else cluster_changed
        if self._is_outbound:
            self.remote.offer = offer
        self.protocol = &gateway_protocol
        self._accounts = AccountCache()
        self._refused = Interest()

    def __dealloc__(self):
        self._hear_nothing()
        self._release()  # while there are the accounts that its subscriptions hang in

    cdef _leave(self):
        PeerLink._leave(self)
        self._accounts.clear()

    cdef _hear_nothing(self):
        for interest in self._accounts.served.values():
            unlisten(&(<Interest> interest).c, &self.c)
        self._accounts.served.clear()
        release_views(&self._views)

    @property
    def is_outbound(self):
        return self._is_outbound

    def configure(self, *, bint headers, bytes cluster_hash not None=b"", bint interest_only=False, bint traces=False):
        """The handshake is over: interest and messages may come.

        `headers`: the peer takes them. Outbound: `cluster_hash` is that of the peer's cluster; `interest_only`:
        it has said that it tells all it wants (`gateway_iom`); `traces`: it goes on with messages that are traced.
        Raises: ValueError for what is no hash.
        """
        if self._is_outbound:
            if len(cluster_hash) != HASH_LEN:
                raise ValueError("a hash has six characters")
            memcpy(self.remote.hash, PyBytes_AS_STRING(cluster_hash), HASH_LEN)
            memcpy(self._prefix, b"_GR_.", CLUSTER_AT)
            memcpy(self._prefix + CLUSTER_AT, self.c.router.cluster_hash, HASH_LEN)
            memcpy(self._prefix + SERVER_AT, self.c.router.server_hash, HASH_LEN)
            self._prefix[SERVER_AT - 1] = self._prefix[PREFIX_LEN - 1] = c'.'
        self._set_flag(LINK_HEADERS, headers)
        self._is_open = True
        self._is_interest_only = interest_only
        self.remote.traces = traces

    def serve(self, bytes account not None, Interest interest not None, *, bytes start not None=b"",
              bytes complete not None=b""):
        """Inbound: tells all that is wanted in an account between the lines `start` and `complete`, and each change
        from now on. Outbound: its messages go over this connection from now on.

        Nothing when that is so already, or the connection is closing. Raises: ValueError for an interest of
        another account.
        """
        if self.c.flags & LINK_CLOSING or self._accounts.served.get(account) is interest:
            return
        if interest.account != account:
            raise ValueError(f"the interest of {interest.account!r} is not that of {account!r}")
        self.withdraw(account)
        self._accounts.forget(account)
        self._accounts.know(account, interest)
        if self._is_outbound:
            add_view(&self._views, &interest.c, not self._is_interest_only)
        else:
            say(self, start)
            tell_all(&self.c, &interest.c, True)
            say(self, complete)
            self.remote.snapshot_end = self.c.written + self.c.out.end - self.c.out.start
        listen(&interest.c, &self.c)
        self._accounts.served[account] = interest

    def withdraw(self, bytes account not None):
        """An account has ended. Inbound: nothing is wanted in it any more, which is said."""
        cdef Interest interest = self._accounts.served.pop(account, None)
        cdef view_t *view
        if interest is None:
            return
        unlisten(&interest.c, &self.c)
        if self._is_outbound:
            view = view_of(&self._views, &interest.c)
            drop_subs(self, view, True)
            drop_subs(self, view, False)
            drop_view(&self._views, &interest.c)
        else:
            tell_all(&self.c, &interest.c, False)
        self._accounts.forget(account)

    def switch(self, bytes account not None, *, bint complete):
        """Outbound: the peer's command that it begins to tell all it wants in an account, or has done so."""
        cdef Interest interest = self._accounts.served.get(account)
        cdef view_t *view = view_of(&self._views, &interest.c) if interest is not None else NULL
        if view == NULL:
            return
        if not complete:
            if view.is_off:
                view.is_guessed = False
            view.is_off = False
            view.mode = TRANSITIONING
            return
        if view.is_off:
            return
        drop_subs(self, view, True)
        view.is_guessed = False
        view.mode = INTEREST_ONLY

    def stand_behind(self, accounts):
        """Outbound: messages of these accounts (bytes) are offered to the others first. An iterable."""
        cdef Interest interest
        for account in accounts:
            interest = self._accounts.served.get(account)
            if interest is not None:
                unlisten(&interest.c, &self.c)
                listen(&interest.c, &self.c)

    @property
    def served(self):
        """Names of the accounts that are served here."""
        return tuple(self._accounts.served)

    def views(self):
        """Outbound: [(account, mode: 0 to 2 as above, refused subjects, plain subscriptions, queue groups' ones)], as for /gatewayz."""
        cdef view_t *view
        cdef list rows = []
        for account, interest in self._accounts.served.items():
            view = view_of(&self._views, &(<Interest> interest).c)
            if view != NULL:
                rows.append((account, <int> view.mode, view.refused, view.plain, view.groups))
        return rows

    def interest_rows(self):
        """[(account, subject, queue group or None)] that the other cluster wants, in no particular order."""
        cdef uint32_t i
        cdef sub_t *s
        cdef list rows = []
        for i in range(self.c.sids_cap):
            s = self.c.sids[i]
            if s != NULL and s.interest != &self._refused.c:
                rows.append((s.interest.account[:s.interest.account_len], s.subject[:s.subject_len],
                             s.queue[:s.queue_len] if s.queue_len else None))
        return rows
