# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The leaf node protocol: bytes of one connection between an account here and one of another server.

LS+, LS-, LMSG, HMSG, PING and PONG are carried out here, and what this side tells and sends is written here;
handshakes and every question of policy are calls on the session:

    connect(json), peer_info(json)     CONNECT and INFO; `open` opens the link for everything else
    unauthenticated()                  an op came before a due CONNECT: say so and doom the link
    loop_detected()                    the other server wants this account's own loop subject
    interest_refused(subject)          it may not want that; nothing was subscribed
    message_refused(subject)           it may not send that; True lets it pass all the same (a response)
    note_reply(reply)                  a message that may be answered goes there (`track_replies`)
    subscriptions_exceeded()           it wants more subjects than it may, which was said
    pong(), peer_error(text), parse_failed(text), failed(error)
    trace(op, arguments, payload), trace_delivery(subject, key, reply, header_size, size)

What interest is, where messages go and what counts: remote.pyx. Lines name no account: the link is of one. A remote
subscription's sid is its key, "subject [group]". Messages are mapped as those of clients are.

Which interest is told (`counts`): to a spoke everything but its own and its cluster's, to a hub only what is
here and at this server's own spokes. A subject that begins with "$LDS." is there to find circles: everybody
hears of it.

Source: leaf node protocol, sections 2 and 3; nats-server 2.15.1.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp

from headrace.engine.client cimport add_sid, bad_arguments, find_sid, is_valid_subject, line_t, size_of
from headrace.engine.delivery cimport remove_sub, route_remote
from headrace.engine.remote cimport listen, origin_of, reweigh, same_word, send_to_asker, unlisten
from headrace.engine.interest cimport Interest, plan_for, table_seed
from headrace.engine.link cimport doom, emit
from headrace.engine.peer cimport (
    OP_HMSG, OP_LMSG, OP_LS_MINUS, OP_LS_PLUS, PeerLink, know, protocol_t, take_message,
)
from headrace.engine.reply_mapping cimport is_mapped, unmap_subject
from headrace.engine.stream_imports cimport hang_shadows, rename
from headrace.engine.structs cimport (
    REMOTE_LEAF, LINK_CLOSING, LINK_HEADERS, LINK_TRACKS_REPLIES, REASON_PROTOCOL_VIOLATION, SUB_REMOTE, SUB_SHADOW,
    remote_t, group_t, hr_hash, interest_t, link_t, msg_t, node_t, plan_t, router_t, sub_t, target_t, word_t,
)
from headrace.engine.tracing cimport refuse_hop
from headrace.engine.trie cimport insert, next_node
from headrace.engine.permission_cache cimport PermissionCache, is_allowed
from headrace.engine.wire cimport add_word, new_remote_sub, write_interest, write_message

# ---- subjects -----------------------------------------------------------------------------------

cdef inline bint begins(const char *s, uint32_t n, const char *prefix, uint32_t m) noexcept:
    return n >= m and memcmp(s, prefix, m) == 0


cdef inline bint is_for_loops(const char *s, uint32_t n) noexcept:
    return begins(s, n, b"$LDS.", 5)


cdef bint is_free(const char *s, uint32_t n) noexcept:
    """A subject of servers among themselves, which permissions do not concern."""
    return n and (s[0] == c'$' or s[0] == c'_') and (
        is_for_loops(s, n) or begins(s, n, b"_GR_.", 5) or begins(s, n, b"$GR.", 4))


cdef bint is_answer(const char *s, uint32_t n) noexcept:
    """A response to a request of another account, or an acknowledgement: whoever could be asked may answer."""
    return begins(s, n, b"_R_.", 4) or n > 8 and begins(s, n, b"$JS.ACK.", 8)


cdef inline int allows(PermissionCache permissions, const char *s, uint32_t n) except -1:
    return is_allowed(permissions, hr_hash(s, n, table_seed), s, n)


# ---- interest of the other server ---------------------------------------------------------------

cdef int compose_key(LeafLink link, word_t *subject, word_t *group) except -1:
    """The key of a subscription into link.wire.text."""
    link.wire.text.start = link.wire.text.end = 0
    add_word(&link.wire, subject)
    if group != NULL:
        add_word(&link.wire, group)
    return 0


cdef int subscribe(LeafLink link, line_t *line) except -1:
    """LS+ subject [group weight]"""
    cdef link_t *l = &link.c
    cdef word_t *subject = link.wire.words
    cdef word_t *group = subject + 1 if link.wire.count == 3 else NULL
    cdef uint64_t weight = 0
    cdef uint32_t hash
    cdef sub_t *s
    if link.wire.count != 1 and group == NULL:
        return bad_arguments(l, "LeafSub", line)
    if group != NULL:
        weight = max(0, size_of(subject + 2))
    if subject.len == PyBytes_GET_SIZE(link._loop) and memcmp(
            subject.text, PyBytes_AS_STRING(link._loop), subject.len) == 0:
        link.session.loop_detected()
        doom(l, REASON_PROTOCOL_VIOLATION)
        return 0
    if link._sends is not None and not is_free(subject.text, subject.len) \
            and is_valid_subject(subject.text, subject.len, True) and not allows(link._sends, subject.text, subject.len):
        link.session.interest_refused(subject.text[:subject.len])
        return 0
    compose_key(link, subject, group)
    hash = <uint32_t> hr_hash(link.wire.text.data, link.wire.text.end, table_seed)
    s = find_sid(l, link.wire.text.data, <uint32_t> link.wire.text.end, hash)
    if s != NULL:
        if group != NULL:
            reweigh(s, weight)
        return 0
    if l.max_subscriptions and l.sids_count >= l.max_subscriptions:
        emit(l, b"-ERR 'maximum subscriptions exceeded'\r\n", 39)
        link.session.subscriptions_exceeded()
        return 0
    if not is_valid_subject(subject.text, subject.len, False):
        emit(l, b"-ERR 'Invalid Subscription'\r\n", 29)
        return 0
    s = new_remote_sub(&link.wire, l, NULL, subject.len, group.len if group != NULL else 0, hash)
    s.quota.weight = weight
    add_sid(l, s)
    insert(l.interest, s)
    if l.interest.imports != NULL:
        hang_shadows(s)
    return 0


cdef int unsubscribe(LeafLink link) except -1:
    """LS- subject [group]; of what was never wanted nothing is said."""
    cdef sub_t *s
    if link.wire.count != 1 and link.wire.count != 2:
        return 0
    compose_key(link, link.wire.words, link.wire.words + 1 if link.wire.count == 2 else NULL)
    s = find_sid(&link.c, link.wire.text.data, <uint32_t> link.wire.text.end,
                 <uint32_t> hr_hash(link.wire.text.data, link.wire.text.end, table_seed))
    if s != NULL:
        remove_sub(s)
    return 0


# ---- messages of the other server ---------------------------------------------------------------

cdef uint32_t words_before(link_t *l, int op) noexcept:
    return 0


cdef interest_t *account_of(link_t *l, int op) except? NULL:
    return l.interest


cdef int arrived(link_t *l, int op, msg_t *m) except -1:
    """A complete message: judged, mapped, and delivered."""
    cdef LeafLink link = <LeafLink> l.owner
    cdef router_t *r = l.router
    cdef plan_t *plan
    if link._receives is not None and not is_answer(m.subject, m.subject_len) \
            and not allows(link._receives, m.subject, m.subject_len):
        if not link.session.message_refused(m.subject[:m.subject_len]):
            return 0
    if r.is_gateway and is_mapped(m.subject, m.subject_len):
        if send_to_asker(l.interest, m):
            return 0
        unmap_subject(r, m)  # else another cluster has asked, to which it goes as any message does
    plan = plan_for(l.interest, m.subject, m.subject_len)
    if plan.renames:
        m.subject = plan.head + 5
        m.subject_len = plan.head_len - 6
        if m.trace != NULL:
            (<object> m.trace).mapped(m.subject[:m.subject_len])
        if link.remote.queues_count == 0:
            link.remote.queues = NULL  # who chose groups for it did not know what it is called here
    route_remote(plan, m)
    return 0


# ---- what the other server is told --------------------------------------------------------------

cdef bint counts(LeafLink link, sub_t *s) noexcept:
    """True if the other server is told of a subscription."""
    cdef remote_t *remote = s.link.remote
    cdef word_t origin
    if s.link == &link.c:
        return False
    if not s.flags & SUB_REMOTE:
        return True
    if remote != NULL and remote.kind == REMOTE_LEAF and link._is_isolated:
        return False
    if link.remote.is_spoke and (remote == NULL or remote.kind != REMOTE_LEAF or remote.is_spoke) \
            and not is_for_loops(s.subject, s.subject_len):
        return False
    origin = origin_of(s)
    return not origin.len or not same_word(&origin, &link.remote.origin)


cdef bint is_wanted_beside(LeafLink link, sub_t *s) noexcept:
    """True if the other server is told of the same subject for another plain subscription too."""
    cdef node_t *node = s.node
    cdef uint32_t i
    for i in range(node.plain_count):  # local ones always count, so one of the first two ends this
        if node.plain[i] != s and counts(link, node.plain[i]):
            return True
    return False


cdef int64_t weight_of(LeafLink link, group_t *group) noexcept:
    """Return the number of members of a queue group that the other server is told of."""
    cdef int64_t weight = group.local_count
    cdef uint32_t i
    for i in range(group.local_count, group.count):
        if counts(link, group.members[i]):
            weight += <int64_t> group.members[i].quota.weight
    return weight


cdef bint may_tell(LeafLink link, sub_t *s) noexcept:
    if link._tells is None or is_free(s.subject, s.subject_len) or begins(s.subject, s.subject_len, b"_R_.", 4):
        return True
    try:
        return allows(link._tells, s.subject, s.subject_len)
    except Exception as error:
        link.session.failed(error)
        return False


cdef bint is_always_wanted(LeafLink link, sub_t *s) noexcept:
    return link._always and s.subject[:s.subject_len] in link._always


cdef void tell(LeafLink link, sub_t *s, int64_t weight) noexcept:
    """Writes that a subject (of a queue group with so many members) is wanted here, or 0: by nobody any more."""
    if may_tell(link, s):
        write_interest(&link.c, s, c'L', NULL, NULL, weight)


cdef void changed(link_t *l, sub_t *s, int64_t change) noexcept:
    """A listener's hook: see remote.pyx."""
    cdef LeafLink link = <LeafLink> l.owner
    if change == 0 or not counts(link, s):  # 0: members that weigh nothing
        return
    if s.group != NULL:
        tell(link, s, weight_of(link, s.group))
    elif not is_wanted_beside(link, s) and not is_always_wanted(link, s):
        tell(link, s, 1 if change > 0 else 0)


cdef int tell_all(LeafLink link, interest_t *it) except -1:
    """One line for everything in the trie that the other server is told of."""
    cdef node_t *node = &it.root
    cdef group_t *group
    cdef uint32_t i
    while node != NULL:
        tell_row(link, node.plain, node.plain_count, 1)
        for i in range(node.groups_cap):
            group = node.groups[i]
            while group != NULL:
                tell_row(link, group.members, group.count, weight_of(link, group))
                group = group.next
        node = next_node(node)
    return 0


cdef void tell_row(LeafLink link, sub_t **row, uint32_t count, int64_t weight) noexcept:
    """One line for a row of subscriptions, if any of them counts."""
    cdef uint32_t i
    for i in range(count):
        if counts(link, row[i]):
            if weight and not (row[i].group == NULL and is_always_wanted(link, row[i])):
                tell(link, row[i], weight)
            return


# ---- what the other server is sent --------------------------------------------------------------

cdef int send(target_t *target, msg_t *m) except -1:
    """A remote link's hook: see remote.pyx."""
    cdef const char *subject = m.subject
    cdef uint32_t subject_len = m.subject_len
    cdef const char *head
    cdef size_t head_len
    cdef int is_sent
    if not target.sub.flags & SUB_SHADOW:
        return send_as(target, m)
    if m.via != NULL:  # a request to a service is no part of an exported stream
        return 0
    rename(target.sub, m, &head, &head_len)
    m.subject = head + 5
    m.subject_len = <uint32_t> head_len - 6
    is_sent = send_as(target, m)
    m.subject = subject
    m.subject_len = subject_len
    return is_sent


cdef int send_as(target_t *target, msg_t *m) except -1:
    """`send` with the subject as the link's account has it."""
    cdef LeafLink link = <LeafLink> target.link.owner
    if link._sends is not None and not allows(link._sends, m.subject, m.subject_len):
        return 0 if m.trace == NULL else refuse_hop(target.link, m)
    if m.reply_len and target.link.flags & LINK_TRACKS_REPLIES:
        link.session.note_reply(m.reply[:m.reply_len])
    return write_message(target, m, c'L', NULL, NULL)


# ---- ops ----------------------------------------------------------------------------------------

cdef int interest(link_t *l, int op, line_t *line) except -1:
    """A line that says what the other server wants; it is split."""
    if op == OP_LS_PLUS:
        return subscribe(<LeafLink> l.owner, line)
    return unsubscribe(<LeafLink> l.owner)


cdef protocol_t leaf_protocol
know(&leaf_protocol, ((b"LMSG", OP_LMSG), (b"HMSG", OP_HMSG), (b"LS+", OP_LS_PLUS), (b"LS-", OP_LS_MINUS)))
leaf_protocol.first = b"CI"  # INFO: what it can do about compression
leaf_protocol.message = take_message
leaf_protocol.interest = interest
leaf_protocol.bare = OP_LMSG
leaf_protocol.misread = [b"", b"LeafHeaderMsgArgs", b"LeafMsgArgs"]
leaf_protocol.words_before = words_before
leaf_protocol.account_of = account_of
leaf_protocol.arrived = arrived


@cython.no_gc_clear  # it must leave the interest it listens to before that goes
cdef class LeafLink(PeerLink):
    """A connection between an account and one of another server."""

    cdef bytes _origin           # remote.origin is borrowed from it
    cdef bytes _loop
    cdef frozenset _always
    cdef bint _is_listening
    cdef bint _is_isolated
    cdef PermissionCache _tells
    cdef PermissionCache _sends
    cdef PermissionCache _receives

    def __cinit__(self, *_args, **_options):
        self._loop = b""
        self._always = frozenset()
        self.remote.kind = REMOTE_LEAF
        self.remote.send = send
        self.remote.changed = changed
        self.protocol = &leaf_protocol

    def __dealloc__(self):
        self._hear_nothing()
        self._release()  # while there is the account that its subscriptions hang in

    cdef _hear_nothing(self):
        if self._is_listening:
            self._is_listening = False
            unlisten(self.c.interest, &self.c)

    def restrict(self, tells, sends, receives):
        """Set the permissions of the link, None for no limit; each is a function of a subject (bytes) whose answers
        are remembered.

        `tells(subject)`: whether the other server is told that it is wanted here, wildcards too; `sends` whether it
        may be sent that, and may want it where it is no pattern; `receives` whether it may send that. What was told
        before stays told.
        """
        self._tells = None if tells is None else PermissionCache(tells)
        self._sends = None if sends is None else PermissionCache(sends)
        self._receives = None if receives is None else PermissionCache(receives)

    def track_replies(self, bint on):
        """Set whether the session is told of the reply subjects of messages that are sent over the link."""
        self._set_flag(LINK_TRACKS_REPLIES, on)

    def open(self, Interest interest not None, *, bint is_spoke, bint headers, bytes origin=b"", bint isolated=False,
             bytes loop=b"", always=(), bint traces=False):
        """The handshake is over: the account's interest is told, and the other server's may come.

        `is_spoke`: the other server is the hub. `origin`: the name of the cluster at the other end, or of the server
        there. `isolated`: it does not hear of other leaf nodes. `loop`: the subject that finds circles. `always`:
        what else is wanted, whoever subscribes to it (bytes). `traces`: the peer goes on with messages that are traced.
        Raises: ValueError for a link that is open already.
        """
        if self._is_open:
            raise ValueError("a leaf link is opened once")
        if self.c.flags & LINK_CLOSING:
            return
        self.interest = interest
        self._origin = origin
        self.remote.origin.text = PyBytes_AS_STRING(self._origin)
        self.remote.origin.len = <uint32_t> PyBytes_GET_SIZE(self._origin)
        self.remote.is_spoke = is_spoke
        self.remote.traces = traces
        self._set_flag(LINK_HEADERS, headers)
        self._is_isolated = isolated
        self._loop = loop
        self._is_open = True
        listen(&interest.c, &self.c)
        self._is_listening = True
        self._tell_always(frozenset([*always, loop] if loop else always))
        tell_all(self, &interest.c)
        self.remote.snapshot_end = self.c.written + self.c.out.end - self.c.out.start

    def wants(self, always):
        """Set the subjects that are wanted from now on without a subscription, beside the one that finds circles."""
        if self._is_listening and not self.c.flags & LINK_CLOSING:
            self._tell_always(frozenset([*always, self._loop] if self._loop else always))

    cdef _tell_always(self, frozenset always):
        cdef frozenset before = self._always
        cdef bytes subject
        self._always = always
        for subject in sorted(always - before):
            if self._may_tell(subject):
                self.send(b"LS+ " + subject + b"\r\n")
        for subject in sorted(before - always):
            if self._may_tell(subject) and not self._is_wanted(subject):
                self.send(b"LS- " + subject + b"\r\n")

    cdef bint _may_tell(self, bytes subject) except -1:
        cdef const char *s = subject
        cdef uint32_t n = <uint32_t> PyBytes_GET_SIZE(subject)
        return self._tells is None or is_free(s, n) or allows(self._tells, s, n)

    cdef bint _is_wanted(self, bytes subject) except -1:
        """True if a subscription that counts has this subject. Cost: a walk over all."""
        cdef node_t *node = &self.c.interest.root
        cdef uint32_t i
        cdef sub_t *s
        while node != NULL:
            for i in range(node.plain_count):
                s = node.plain[i]
                if counts(self, s) and s.subject[:s.subject_len] == subject:
                    return True
            node = next_node(node)
        return False

    def limit(self, *, uint32_t max_payload, uint32_t max_control_line, uint32_t max_subscriptions=0):
        """Set the limits of any peer, and the number of subjects that may be wanted at once (0: any)."""
        PeerLink.limit(self, max_payload=max_payload, max_control_line=max_control_line)
        self.c.max_subscriptions = max_subscriptions

    def interest_rows(self):
        """[(subject, queue group or None, members)] that the other server wants, in no particular order."""
        cdef uint32_t i
        cdef sub_t *s
        cdef list rows = []
        for i in range(self.c.sids_cap):
            s = self.c.sids[i]
            if s != NULL:
                rows.append((s.subject[:s.subject_len], s.queue[:s.queue_len] if s.queue_len else None,
                             s.quota.weight if s.queue_len else 1))
        return rows
