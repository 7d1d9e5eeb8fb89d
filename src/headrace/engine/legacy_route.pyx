# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The route protocol of servers before 2.0: bytes of one connection between two servers of a cluster.

    SUB <subject> [queue] <rsid>            UNSUB <rsid> [max]
    MSG <subject> <rsid> [reply] <size>     PUB <subject> [reply] <size>

and what both protocols have (route.pyx, whose calls on the session are made here too). Only one account is spoken
of, the one that is served; headers do not exist. A connection begins as one of 2.x and becomes one of 1.x by
`speak_legacy`, at the latest when the handshake has shown who the peer is.

**RSIDs.** Each subscription is told by itself: "RSID:cid:sid", "QRSID:cid:sid" for a member of a queue group, where
`cid` is the number of the client that has it (`session.cid`) and `sid` what the client calls it. What is wanted by
somebody without a number (a service here, a leaf cluster, a subscription of an importing account) has 0 for a `cid`
and a `sid` of ours. The peer gives these texts back and reads nothing in them.

**Translation.** What the peer wants hangs in the trie as its own remote subscriptions, a member of a queue group
weighing one, so remote.pyx decides about them as about those of any route. A message that goes there for plain
interest and for n queue groups becomes 1 + n frames: the peer serves its plain subscriptions for the first, and one
member for each other. What comes in under an RSID is for all local plain subscriptions here, under a QRSID for that
member alone; is it gone, for another member of its group, of this server or of a third one. So nothing is
delivered twice, and a member that leaves takes no message with it. The groups of members that left are remembered
for a while. Nothing that came over a route goes to another one otherwise, but for what this server carries between
peers of 1.x and of 2.x as their bridge (remote.pyx). A queue group of peers of 2.x is told as a plain subscription: a frame
for a member of it, beside the one for plain subscriptions, would reach those twice, as RMSG is for both. What then
comes under an RSID is also for groups whose members are all of 2.x; the peer has found none for them.

Source: cluster protocol, A1 to A4; fine points from gnatsd 1.1.0 and 1.4.1.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from headrace.engine.client cimport (
    add_sid, bad_arguments, find_sid, has_payload, is_valid_subject, line_t, new_sub,
    read_line, size_of, trimmed,
)
from headrace.engine.delivery cimport deliver, remove_sub, route_remote, strip_headers
from headrace.engine.remote cimport admits, is_told, room_to_send, room_to_tell, sent
from headrace.engine.interest cimport Interest, table_seed, unmapped_plan
from headrace.engine.link cimport emit
from headrace.engine.peer cimport OP_MSG, OP_PUB, OP_SUB, OP_UNSUB, count_arrival, know, name_of, protocol_t
from headrace.engine.route cimport RouteLink, may_export, may_import
from headrace.engine.structs cimport (
    REMOTE_ROUTE, HR_GUARD, LINK_CLOSING, LINK_TRACED, SUB_REMOTE, SUB_FILTERED, SUB_LIMITED, SUB_SHADOW, group_t,
    hr_copy, hr_hash, link_t, msg_t, node_t, plan_t, router_t, sub_t, target_t, word_t,
)
from headrace.engine.tracing cimport begin_hop, end_hop
from headrace.engine.trie cimport insert, next_node
from headrace.engine.permission_cache cimport is_allowed
from headrace.engine.wire cimport keep_tail, split

cdef enum:
    MOST_GONE = 65536           # members that left, of which it is remembered which group they were of

cdef int64_t GONE_NS = 30_000_000_000


# ---- lines --------------------------------------------------------------------------------------

cdef int bad_line(LegacyRouteLink link, int op, line_t *line) except -1:
    emit(&link.c, b"-ERR 'Parser Error'\r\n", 21)
    return bad_arguments(&link.c, {OP_MSG: "MsgArgs", OP_PUB: "Pub", OP_SUB: "Sub", OP_UNSUB: "Unsub"}[op], line)


# ---- interest of the other server ---------------------------------------------------------------

cdef int interest(link_t *l, int op, line_t *line) except -1:
    """SUB or UNSUB; the line is split."""
    if op == OP_SUB:
        return subscribe(<LegacyRouteLink> l.owner, line)
    return unsubscribe(<LegacyRouteLink> l.owner, line)


cdef int subscribe(LegacyRouteLink link, line_t *line) except -1:
    """SUB: subject [queue] rsid"""
    cdef link_t *l = &link.c
    cdef word_t *words = link.wire.words
    cdef word_t *subject = words
    cdef word_t *queue = words + 1 if link.wire.count == 3 else NULL
    cdef word_t *rsid
    cdef uint32_t hash
    cdef sub_t *s
    if link.wire.count != 2 and queue == NULL:
        return bad_line(link, OP_SUB, line)
    rsid = words + link.wire.count - 1
    if link._dedicated == NULL or link._exports is not None and not is_allowed(
            link._exports, hr_hash(subject.text, subject.len, table_seed), subject.text, subject.len):
        return 0
    hash = <uint32_t> hr_hash(rsid.text, rsid.len, table_seed)
    if find_sid(l, rsid.text, rsid.len, hash) != NULL:
        return 0
    if not is_valid_subject(subject.text, subject.len, False):
        emit(l, b"-ERR 'Invalid Subject'\r\n", 24)
        return 0
    s = new_sub(l, subject, queue, rsid, hash)
    s.flags |= SUB_REMOTE
    s.quota.weight = 1 if queue != NULL else 0
    add_sid(l, s)
    insert(link._dedicated, s)
    return 0


cdef int unsubscribe(LegacyRouteLink link, line_t *line) except -1:
    """UNSUB: rsid [max]"""
    cdef link_t *l = &link.c
    cdef word_t *words = link.wire.words
    cdef long long most = 0
    cdef sub_t *s
    if link.wire.count != 1 and link.wire.count != 2:
        return bad_line(link, OP_UNSUB, line)
    if link.wire.count == 2:
        most = size_of(&words[1])
    s = find_sid(l, words.text, words.len, <uint32_t> hr_hash(words.text, words.len, table_seed))
    if s == NULL:
        return 0
    if most > 0 and <uint64_t> most > s.delivered:
        s.flags |= SUB_LIMITED
        link._limits[<size_t> s] = most  # sub_t.quota is the weight of a member
    else:
        link._end(s)
    return 0


# ---- messages of the other server ---------------------------------------------------------------

cdef char *message(link_t *l, int op, char *at, char *args, char *end, size_t *need) except NULL:
    """One MSG or PUB at `at`; returns what follows it, or `at` when it is incomplete."""
    cdef LegacyRouteLink link = <LegacyRouteLink> l.owner
    cdef word_t *words
    cdef word_t *last = NULL
    cdef uint32_t fixed = 3 if op == OP_MSG else 2  # words without a reply
    cdef long long size = -1
    cdef bytes member = None
    cdef line_t line
    cdef msg_t m
    if not read_line(l, args, end, &line):
        return at
    split(&link.wire, &line)
    words = link.wire.words
    if fixed <= link.wire.count <= fixed + 1:
        last = words + link.wire.count - 1
        size = size_of(last)
    if size < 0:
        bad_line(link, op, &line)
        return at
    if not has_payload(l, at, line.next, end, size, need):
        return at
    if l.flags & LINK_TRACED:
        link.session.trace(name_of(op), trimmed(&line), line.next[:size])
    if op == OP_MSG and words[1].len > 4 and memcmp(words[1].text, b"QRSID", 5) == 0:
        member = words[1].text[:words[1].len]
    m.subject = words.text
    m.subject_len = words.len
    m.reply = (last - 1).text
    m.reply_len = (last - 1).len if link.wire.count > fixed else 0
    m.header_len = 0
    m.body = line.next
    m.body_len = <uint32_t> size
    m.head = m.plain_tail = NULL
    link.remote.queues_count = 0
    link.remote.came_from.len = 0
    keep_tail(l, last, last, &line, &m)
    count_arrival(l, &m)
    if link._dedicated != NULL:
        if member is None:
            route_remote(unmapped_plan(link._dedicated, m.subject, m.subject_len), &m)
        elif is_member(member):
            serve_member(link, member, &m)
        else:
            link.session.parse_failed(f"Unable to deliver routed queue message: invalid QRSID: {member!r}"[:512])
    return line.next + size + 2


cdef bint is_member(bytes rsid):
    """True if a sid is "QRSID:<cid>:<sid>"."""
    head, _, rest = rsid.partition(b":")
    cid, _, sid = rest.partition(b":")
    return head == b"QRSID" and cid.isdigit() and bool(sid)


cdef int serve_member(LegacyRouteLink link, bytes rsid, msg_t *m) except -1:
    """A message for one member of a queue group: it gets it, or another one of its group does."""
    cdef plan_t *plan = unmapped_plan(link._dedicated, m.subject, m.subject_len)
    cdef size_t wanted = link._members.get(rsid, 0)
    cdef bytes group = link._groups.get(rsid) or link._former_groups.get(rsid)
    cdef word_t queue
    cdef plan_t only
    cdef sub_t *s
    cdef uint32_t i = 0, k = 0, start = 0
    while wanted and i < plan.group_count:  # only what stands in the plan is looked at
        for k in range(start, plan.group_ends[i]):
            s = plan.members[k]
            if <size_t> s != wanted:
                continue
            group = s.queue[:s.queue_len]
            if not s.flags & SUB_REMOTE and deliver(s, plan.head, plan.head_len, m):
                link.c.router.out_msgs += 1
                return 0
        start = plan.group_ends[i]
        i += 1
    if group is None:
        return 0
    queue.text = group
    queue.len = <uint32_t> len(group)
    link.remote.queues = &queue
    link.remote.queues_count = 1
    only = plan[0]
    only.plain_count = only.remote_count = 0
    try:
        route_remote(&only, m)
    finally:
        link.remote.queues_count = 0
    return 0


# ---- what the other server is told --------------------------------------------------------------

cdef void changed(link_t *l, sub_t *s, int64_t change) noexcept:
    """A listener's hook: see remote.pyx."""
    cdef LegacyRouteLink link = <LegacyRouteLink> l.owner
    if not is_told(l, s):
        return
    try:
        if change <= 0 and not is_still_member(s):
            link._retract(s)
        elif <size_t> s not in link._keys:  # else a member elsewhere only weighs something else
            link._tell(s)
    except Exception as error:
        link.session.failed(error)


cdef inline bint is_told_as_member(sub_t *s) noexcept:
    return s.queue_len and not (s.flags & SUB_REMOTE and s.link.remote.kind == REMOTE_ROUTE)


cdef inline bint is_still_member(sub_t *s) noexcept:
    """True if a remote member of a group is still there and only weighs less than before."""
    return s.flags & SUB_REMOTE and s.group != NULL and s.quota.weight and s.index < s.group.count \
        and s.group.members[s.index] == s


cdef void limited(link_t *l, sub_t *s) noexcept:
    """A listener's hook: see remote.pyx.

    Not of one that gets less than it matches, so that the peer may count what its client does not get.
    """
    cdef LegacyRouteLink link = <LegacyRouteLink> l.owner
    try:
        key = link._keys.get(<size_t> s)
        if key is not None and not s.flags & SUB_FILTERED:
            write_line(l, b"UNSUB %b %d\r\n" % (key, s.quota.limit))
    except Exception as error:
        link.session.failed(error)


cdef int write_line(link_t *l, bytes line) except -1:
    cdef size_t n = len(line)
    cdef char *at = room_to_tell(l, n)
    if at != NULL:
        memcpy(at, <const char *> line, n)
        l.out.end += n
        HR_GUARD(l.out.end <= l.out.cap)
    return 0


cdef int tell_row(LegacyRouteLink link, sub_t **row, uint32_t count) except -1:
    cdef uint32_t i
    for i in range(count):
        if is_told(&link.c, row[i]):
            link._tell(row[i])
    return 0


# ---- what the other server is sent --------------------------------------------------------------

cdef int send(target_t *target, msg_t *m) except -1:
    """A remote link's hook: see remote.pyx. A frame for plain interest, and one for each queue group."""
    cdef LegacyRouteLink link = <LegacyRouteLink> target.link.owner
    cdef router_t *r = target.link.router
    cdef uint32_t place = target.first, following
    cdef int frames = 0
    cdef msg_t hop
    cdef bytes kept
    if link._exports is not None and not may_export(link, m) or not admits(target.link, m):
        return 0
    if m.trace != NULL:
        kept = begin_hop(target.link, m, &hop)
        if kept is None:
            return 0
        end_hop(target.link, m, True)
        m = &hop
    if not target.sub.queue_len:
        frames += write_message(link, target.sub, m)
    while place:
        following = r.choice.picks[place - 1].next
        frames += write_message(link, r.choice.picks[place - 1].sub, m)
        place = following
    return frames


cdef int write_message(LegacyRouteLink link, sub_t *s, msg_t *m) except -1:
    """One MSG for a subscription of the peer; 1 when it is in the outbox."""
    cdef link_t *l = &link.c
    cdef const char *tail = m.tail
    cdef size_t tail_len = m.tail_len
    cdef char *begin
    cdef char *at
    cdef target_t one
    if l.flags & LINK_CLOSING:
        return 0
    if m.header_len:
        if m.plain_tail == NULL:
            strip_headers(m, l.router)
        tail = m.plain_tail
        tail_len = m.plain_tail_len
    begin = at = room_to_send(l, 8 + m.subject_len + s.sid_len + tail_len)
    if at == NULL:
        return 0
    if l.flags & LINK_TRACED:
        (<object> l.session).trace_delivery(m.subject[:m.subject_len], s.text[:s.sid_len], m.reply[:m.reply_len], 0,
                                            m.body_len - m.header_len)
    memcpy(at, b"MSG ", 4)
    memcpy(at + 4, m.subject, m.subject_len)
    at += 4 + m.subject_len
    at[0] = c' '
    memcpy(at + 1, s.text, s.sid_len)
    at += 1 + s.sid_len
    at[0] = c' '
    hr_copy(at + 1, tail, tail_len)
    at += 1 + tail_len
    one.link = l
    one.sub = s
    sent(&one, at - begin, m.body_len - m.header_len)
    if s.flags & SUB_LIMITED and s.delivered >= <uint64_t> link._limits[<size_t> s]:
        link._end(s)
    return 1


# ---- the link -----------------------------------------------------------------------------------

cdef protocol_t legacy_protocol
know(&legacy_protocol, ((b"MSG", OP_MSG), (b"SUB", OP_SUB), (b"UNSUB", OP_UNSUB), (b"PUB", OP_PUB)))
legacy_protocol.first = b"C"
legacy_protocol.message = message
legacy_protocol.interest = interest


@cython.no_gc_clear  # it must leave the interest it listens to before that goes
cdef class LegacyRouteLink(RouteLink):
    """A route whose other server may turn out to be one of before 2.0."""

    cdef bint _is_legacy
    cdef dict _keys              # address of a subscription here -> the RSID that it was told as
    cdef dict _members           # those RSIDs of members of queue groups -> address
    cdef dict _groups            # the same of members that have left lately -> name of the group
    cdef dict _former_groups
    cdef int64_t _groups_since
    cdef dict _limits            # address of a subscription of the peer -> its max
    cdef uint64_t _last_number   # of RSIDs with a sid of ours

    def __cinit__(self, *_args, **_kwargs):
        self._keys = {}
        self._members = {}
        self._groups = {}
        self._former_groups = {}
        self._limits = {}

    cdef _leave(self):
        RouteLink._leave(self)
        for known in (self._keys, self._members, self._groups, self._former_groups, self._limits):
            (<dict> known).clear()

    def speak_legacy(self):
        """From the next op on this is the protocol of before 2.0. Raises: ValueError after the handshake."""
        if self._is_open:
            raise ValueError("a route does not change its protocol after the handshake")
        self._is_legacy = True
        self.protocol = &legacy_protocol
        self.remote.send = send
        self.remote.changed = changed
        self.remote.limited = limited

    @property
    def is_legacy(self):
        return bool(self._is_legacy)

    cdef _tell_all(self, Interest interest, bint wanted):
        cdef node_t *node = &interest.c.root
        cdef group_t *group
        cdef uint32_t i
        if not self._is_legacy:
            RouteLink._tell_all(self, interest, wanted)
            return
        if not wanted:
            for key in self._keys.values():
                write_line(&self.c, b"UNSUB %b\r\n" % key)
            self._keys.clear()
            self._members.clear()
            return
        while node != NULL:
            tell_row(self, node.plain, node.plain_count)
            for i in range(node.groups_cap):
                group = node.groups[i]
                while group != NULL:
                    tell_row(self, group.members, group.count)
                    group = group.next
            node = next_node(node)

    cdef _tell(self, sub_t *s):
        """SUB, again too: a peer knows a subscription by its RSID."""
        cdef bytes key = self._keys.get(<size_t> s)
        if key is None:
            if s.flags & SUB_REMOTE and s.queue_len and not s.quota.weight or self._imports is not None and not may_import(self, s):
                return
            key = self._key_of(s)
            self._keys[<size_t> s] = key
            if is_told_as_member(s):
                self._members[key] = <size_t> s
        group = s.queue[:s.queue_len] if is_told_as_member(s) else b""
        write_line(&self.c, b"SUB %b %b %b\r\n" % (s.subject[:s.subject_len], group, key))

    cdef _tell_anew(self, sub_t *s):
        if not self._is_legacy:
            RouteLink._tell_anew(self, s)
        elif not is_told(&self.c, s):
            self._retract(s)
        elif <size_t> s not in self._keys:
            self._tell(s)

    cdef bytes _key_of(self, sub_t *s):
        cdef bytes kind = b"QRSID" if is_told_as_member(s) else b"RSID"
        if not s.flags & (SUB_REMOTE | SUB_SHADOW) and s.link.session != NULL:
            cid = getattr(<object> s.link.session, "cid", None)
            if isinstance(cid, int):
                return b"%b:%d:%b" % (kind, cid, s.text[:s.sid_len])
        self._last_number += 1
        return b"%b:0:%d" % (kind, self._last_number)

    cdef _retract(self, sub_t *s):
        """UNSUB, if it was told."""
        cdef bytes key = self._keys.pop(<size_t> s, None)
        if key is None:
            return
        write_line(&self.c, b"UNSUB %b\r\n" % key)
        if self._members.pop(key, None) is not None:
            if self.c.router.now - self._groups_since > GONE_NS or len(self._groups) >= MOST_GONE:
                self._former_groups = self._groups
                self._groups = {}
                self._groups_since = self.c.router.now
            self._groups[key] = s.queue[:s.queue_len]

    cdef _end(self, sub_t *s):
        """A subscription of the peer is over."""
        self._limits.pop(<size_t> s, None)
        remove_sub(s)
