"""The engine's C structures: who owns what, and for how long.

    link_t  one connection. Embedded in a Python object (Link), which owns it.
      |       sids: hash table sid -> sub_t
      v
    sub_t   one subscription, owned by its link, hanging in one trie node
      |
      v
    node_t  one token of the subject trie:  literal children (hash table), `*` child, `>` child
                                            plain subscriptions, queue groups (hash table)
    plan_t  the answer for one subject: which subscriptions get a message. Holds borrowed sub_t
            pointers and is only followed while its stamp is current; removing a subscription
            makes every plan that may name it stale *before* the sub_t is freed at end of tick.
    remote_t   what a link to another server has beside its link_t. Its subscriptions (SUB_REMOTE) stand for
            interest elsewhere. Wherever subscriptions stand in a row, local ones come first.

Nothing here is followed across ticks without a generation check. All memory comes from `memory.pxd`.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>

    /* Sources and destinations of hr_copy have this many spare bytes, so short copies go by 16. */
    #define HR_PAD 32

    #ifdef HEADRACE_ENGINE_DEBUG
    #define HR_GUARD(c) do { if (!(c)) { fprintf(stderr, "engine guard failed: %s (%s:%d)\\n", \
        #c, __FILE__, __LINE__); abort(); } } while (0)
    #else
    #define HR_GUARD(c) do { } while (0)
    #endif

    /* Copies n bytes; may read and write up to 15 bytes past n. */
    static inline void hr_copy(char *d, const char *s, size_t n) {
        if (n > 128) { memcpy(d, s, n); return; }
        size_t i = 0;
        do { memcpy(d + i, s + i, 16); i += 16; } while (i < n);
    }

    static inline uint64_t hr_mix(uint64_t a, uint64_t b) {
        __uint128_t r = (__uint128_t)a * b;
        return (uint64_t)r ^ (uint64_t)(r >> 64);
    }

    /* Seeded hash of short keys: eight bytes at a time, never reading past n. Both factors of each product
       hold bits of the seed: were one of them known, a peer could make it zero and all its keys collide. */
    static inline uint64_t hr_hash(const char *s, size_t n, uint64_t seed) {
        uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15ull), a = 0, b = 0;
        uint64_t key = (seed << 32 | seed >> 32) ^ 0xE7037ED1A0B428DBull;
        const char *e = s + n;
        while ((size_t)(e - s) > 16) {
            memcpy(&a, s, 8); memcpy(&b, s + 8, 8); s += 16;
            h = hr_mix(a ^ key, b ^ h);
        }
        n = (size_t)(e - s);
        if (n >= 8) { memcpy(&a, s, 8); memcpy(&b, e - 8, 8); }
        else if (n >= 4) { uint32_t x, y; memcpy(&x, s, 4); memcpy(&y, e - 4, 4); a = x; b = y; }
        else if (n) { a = ((uint64_t)(uint8_t)s[0] << 16) | ((uint64_t)(uint8_t)s[n >> 1] << 8)
                          | (uint8_t)s[n - 1]; b = 0; }
        else { a = 0; b = 0; }
        return hr_mix(a ^ key, b ^ h);
    }

    /* memcmp(a, b, n) == 0 without the call, for short keys. */
    static inline int hr_equal(const char *a, const char *b, size_t n) {
        uint64_t x, y;
        if (n >= 8) {
            size_t i = 0;
            for (; i + 8 <= n; i += 8) {
                memcpy(&x, a + i, 8); memcpy(&y, b + i, 8);
                if (x != y) return 0;
            }
            memcpy(&x, a + n - 8, 8); memcpy(&y, b + n - 8, 8);
            return x == y;
        }
        if (n >= 4) {
            uint32_t p, q, r, s;
            memcpy(&p, a, 4); memcpy(&q, b, 4); memcpy(&r, a + n - 4, 4); memcpy(&s, b + n - 4, 4);
            return p == q && r == s;
        }
        while (n--) if (a[n] != b[n]) return 0;
        return 1;
    }
    """
    size_t HR_PAD
    void HR_GUARD(bint condition) noexcept nogil
    void hr_copy(char *destination, const char *source, size_t n) noexcept nogil
    bint hr_equal(const char *a, const char *b, size_t n) noexcept nogil
    uint64_t hr_hash(const char *source, size_t n, uint64_t seed) noexcept nogil


cdef enum link_flag:
    # State and options of a connection. Bits of link_flag and sub_flag never overlap, so that one OR of
    # both words against DELIVERY_CHECKS decides whether a delivery needs a second look.
    LINK_CLOSING = 1 << 0        # nothing more is read from it or delivered to it
    LINK_CONGESTED = 1 << 1      # its outbox is past the congestion mark: publishers to it wait
    LINK_TRACKS_REPLIES = 1 << 2 # allow_responses: every delivered reply subject is noted
    LINK_NO_ECHO = 1 << 3
    LINK_HEADERS = 1 << 4
    LINK_VERBOSE = 1 << 5
    LINK_PEDANTIC = 1 << 6
    LINK_NO_RESPONDERS = 1 << 7
    LINK_MUST_CONNECT = 1 << 8   # authentication is due: any op but CONNECT is a violation
    LINK_PING_INFO = 1 << 9      # the next PING is followed by an INFO
    LINK_HELD = 1 << 10          # CONNECT is being checked elsewhere: parse nothing until released
    LINK_STALLED = 1 << 11       # as a publisher: not read until the receiver drains
    LINK_DIRTY = 1 << 12         # in the router's list of outboxes to flush
    LINK_DOOMED = 1 << 13        # in the router's list of connections to close
    LINK_TRACED = 1 << 14        # every op is reported to the session
    LINK_BLOCKED = 1 << 15       # the socket took less than offered
    LINK_CHECKS_SUBSCRIBE = 1 << 16  # the session is asked about each SUB
    LINK_SERVICE = 1 << 17       # a service of this process: it takes messages by `accept`, not as frames
    LINK_TRANSLATES = 1 << 18    # a client of another protocol: `accept` writes the frames of its own

cdef enum sub_flag:
    SUB_ORIGIN = 1 << 21         # remote, on behalf of a leaf cluster: its name stands behind the queue group
    SUB_LOCAL = 1 << 22          # of an AccountLink: of no interest to routes
    SUB_REMOTE = 1 << 23         # of a link to another server
    SUB_REMOVED = 1 << 24
    SUB_FILTERED = 1 << 25       # wider than a deny rule: each delivery is checked
    SUB_LIMITED = 1 << 26        # auto-unsubscribe is set
    SUB_GATHERED = 1 << 27       # of a service: its messages are handed over in runs
    SUB_SHADOW = 1 << 28         # hangs in another account's interest for a subscription of an importer
    SUB_PASSES_ON = 1 << 29      # of an AccountLink: what it takes goes on to another account, so nothing is imported for it
    SUB_NAMED = 1 << 30          # of a service: it is told which user published

cdef enum:
    DELIVERY_CHECKS = (LINK_CLOSING | LINK_CONGESTED | LINK_TRACKS_REPLIES | LINK_NO_ECHO | LINK_TRACED
                       | LINK_SERVICE | LINK_TRANSLATES | SUB_REMOVED | SUB_FILTERED | SUB_SHADOW)

cdef enum reason_t:
    # Mirrors reasons.CloseReason.
    REASON_NONE = 0
    REASON_CLIENT_CLOSED = 1
    REASON_AUTHENTICATION_VIOLATION = 3
    REASON_SLOW_PENDING = 5
    REASON_SLOW_DEADLINE = 6
    REASON_WRITE_ERROR = 7
    REASON_READ_ERROR = 8
    REASON_PARSE_ERROR = 9
    REASON_PROTOCOL_VIOLATION = 11
    REASON_MAX_PAYLOAD = 16
    REASON_MAX_CONTROL_LINE = 17
    REASON_INTERNAL_ERROR = 100


cdef struct buf_t:
    # data[start:end] is content; cap counts usable bytes, HR_PAD more are allocated.
    char *data
    size_t start
    size_t end
    size_t cap

cdef struct s2_t:
    # The compression of one connection, both directions (engine/s2).
    buf_t raw                    # received, and not a whole chunk yet
    buf_t plain                  # the block that is being taken in
    size_t skip                  # bytes still to come of a chunk that says nothing
    size_t ready                 # bytes at the front of the outbox that go out as they are
    uint32_t max_block           # what the identifier allows; 0: none has come yet
    int level
    int error                    # the stream is broken for good
    bint has_begun               # the identifier was written
    bint is_fresh                # what follows the op that is being parsed is the beginning of a stream

cdef struct word_t:
    const char *text
    uint32_t len

cdef struct group_t:
    # One queue group in one trie node.
    group_t *next                # in its chain
    sub_t **members              # local ones first
    uint32_t count
    uint32_t local_count
    uint32_t cap
    uint32_t hash                # of the name
    uint32_t name_len
    char name[1]

cdef struct node_t:
    node_t *parent
    node_t **children            # open addressing, power of two, NULL until the first literal child
    uint32_t children_cap
    uint32_t children_count
    node_t *star                 # `*`
    node_t *rest                 # `>`
    sub_t **plain                # local ones first
    uint32_t plain_count
    uint32_t local_count         # of `plain`
    uint32_t plain_cap
    group_t **groups             # chains by hash of the name, power of two, NULL until the first group
    uint32_t groups_cap
    uint32_t groups_count
    uint32_t hash
    uint32_t token_len
    char token[1]

cdef struct shadow_t:
    # What a subscription has that hangs in an exporting account for one in an importing account. It has the
    # sid, the queue group and the link of the other, and goes with it.
    PyObject *via                # the StreamImport; owned
    buf_t text                   # "subject as published" "HMSG subject as imported ", of the last delivery
    size_t subject_len

cdef union quota_t:
    uint64_t limit               # of a local subscription: auto-unsubscribe at this many delivered; 0: none
    uint64_t weight              # of a remote one (SUB_REMOTE) in a queue group: how many members it stands for
    uint64_t own                 # of a LINK_TRANSLATES: what the link keeps of the subscription

cdef struct sub_t:
    link_t *link
    node_t *node
    group_t *group               # NULL: a plain subscription
    interest_t *interest
    uint64_t delivered
    quota_t quota
    uint32_t flags
    uint32_t index               # place in node.plain or group.members
    sub_t *next_removed
    uint32_t hash                # of the sid
    uint32_t subject_len
    uint32_t queue_len
    uint32_t sid_len             # without the space that follows it in `text`
    sub_t *shadows               # the first of its shadows; of a shadow, the next one
    shadow_t *shadow             # NULL: an ordinary subscription; owned
    char *subject
    char *queue
    char text[1]                 # "sid " subject queue, then HR_PAD spare bytes

cdef struct plan_t:
    uint64_t stamp
    interest_t *interest
    uint32_t bucket
    uint32_t subject_len         # of the subject looked up
    uint32_t plain_count         # local ones
    uint32_t remote_count        # plain[plain_count:plain_count+remote_count] are remote
    uint32_t group_count
    uint32_t pointers            # plain + members, for the cache's bound
    uint32_t head_len            # of "HMSG <subject to deliver as> "
    bint renames                 # it is delivered as another subject than the one looked up
    bint is_remote               # something of it is, or may be, with another server
    sub_t **plain
    sub_t **members
    uint32_t *group_ends         # group i is members[group_ends[i-1]:group_ends[i]]
    uint32_t *local_ends         # of which those before local_ends[i] are local
    char *subject
    char *head

cdef struct slot_t:
    uint64_t hash                # of the cached plan's subject
    uint64_t missed              # hash of the last subject that missed here
    plan_t *plan

cdef struct token_t:
    const char *text
    uint32_t len
    uint32_t hash

cdef struct visit_t:
    node_t *node
    uint32_t depth

cdef struct match_t:
    # What one look-up found, and the plan made of it, which lives until the next look-up.
    sub_t **found                # local plain subscriptions
    uint32_t found_count
    uint32_t found_cap
    sub_t **found_remote         # remote plain subscriptions
    uint32_t found_remote_count
    uint32_t found_remote_cap
    group_t **found_groups
    uint32_t found_groups_count
    uint32_t found_groups_cap
    plan_t scratch
    buf_t scratch_text
    uint32_t *scratch_ends       # group_ends, then local_ends
    uint32_t scratch_ends_cap

cdef struct interest_t:
    # All subscriptions of one account.
    node_t root
    uint64_t seed
    uint64_t generation
    uint64_t buckets[256]        # generation by hash of the first token
    slot_t *slots
    uint32_t slot_mask
    uint32_t conflicts
    uint64_t pointers
    PyObject *mapper             # borrowed from the Interest that owns this
    PyObject *imports            # a list of StreamImport, borrowed likewise; NULL: nothing is imported
    const char *account          # its name, borrowed likewise
    uint32_t account_len
    link_t **listeners           # links that are told how the interest changes
    uint32_t listeners_count
    uint32_t listeners_cap
    uint32_t offered_to          # how many of those are offered every message, whoever wants it
    int64_t subscribed           # monotonic ns: when somebody of this server did, or a leaf; only kept for those
    bint is_followed             # a plan is being followed: none may be made
    bint is_traced               # messages with a `traceparent` are traced, if they are sampled
    uint32_t pins                # plans that must outlive others made meanwhile: see `pin`
    # scratch of one match
    token_t *tokens
    uint32_t tokens_cap
    visit_t *stack
    uint32_t stack_cap
    match_t match
    # counters for /subsz
    uint64_t subscriptions
    uint64_t inserts
    uint64_t removes
    uint64_t lookups
    uint64_t misses
    uint64_t fanout_total
    uint64_t plans
    uint32_t fanout_max

cdef struct via_t:
    # One service import that a message has come through, either way; lives as long as the message is routed.
    via_t *previous
    PyObject *export             # borrowed
    bint shares                  # who asks is told, as the first import says
    bint names_server            # and on which server, where any import on the way shares
    bint is_response             # to a request that came through it
    bint traces                  # whoever traces it may see what becomes of it there

cdef struct msg_t:
    link_t *source
    via_t *via                   # NULL: it is where it was published
    PyObject *trace              # what is told what becomes of it (tracing.pyx), borrowed; NULL: it is not traced
    const char *subject
    const char *reply
    const char *head             # "HMSG <subject to show> "; NULL: the subject is shown as the plan says
    const char *tail             # "[reply ][hdr ]size\r\n<header+payload>\r\n", HR_PAD readable bytes after it
    const char *plain_tail       # the same without headers; NULL until some receiver needs it
    const char *body             # headers + payload
    size_t head_len
    size_t tail_len
    size_t plain_tail_len
    uint32_t subject_len
    uint32_t reply_len
    uint32_t header_len
    uint32_t body_len

cdef struct pick_t:
    # One subscription that a message goes to over a target's link.
    sub_t *sub
    uint32_t next                # 1 + place of the target's next pick; 0: it is the last

cdef struct target_t:
    # One remote link that the message in hand goes to.
    link_t *link
    interest_t *interest         # of the account it goes there in
    sub_t *sub                   # the first subscription it goes there for; NULL: for none that is known here
    word_t prefix                # what its reply subject gets in front there; len 0: what `prefix_of` says
    uint32_t first               # 1 + place of its first pick of a queue group; 0: there is none
    uint32_t last

cdef struct choice_t:
    # The targets of the messages in hand: one that is routed for another's sake has its own behind that one's.
    target_t *targets
    uint32_t targets_count
    uint32_t targets_cap
    pick_t *picks
    uint32_t picks_count
    uint32_t picks_cap
    sub_t **served               # members that got it, one for each queue group; only kept for links it is offered to
    uint32_t served_count
    uint32_t served_cap

cdef struct mapped_reply_t:
    # A request from another cluster that somebody here has got: where an answer to its reply subject goes.
    mapped_reply_t *next         # in its chain
    mapped_reply_t *newer
    uint64_t hash
    void *holder                 # who got it: a link, or the interest of an account for all its services
    int64_t expires              # monotonic ns
    uint32_t len
    char text[1]                 # the reply subject as it came, prefix and all

cdef struct mapped_replies_t:
    # All mapped replies, by who got the request and the reply subject without its prefix; see reply_mapping.pyx.
    mapped_reply_t **table       # power of two, NULL until the first one
    uint32_t cap
    uint32_t count
    size_t bytes                 # of texts
    mapped_reply_t *oldest
    mapped_reply_t *newest

cdef struct router_t:
    link_t *dirty
    link_t *doomed
    link_t *parsing              # whose bytes are being parsed, or whose publications routed: nothing in use
                                 # may move or go meanwhile
    sub_t *removed               # freed at end of tick
    char *read_buffer
    buf_t scratch                # a tail that had to be composed
    buf_t stripped               # a tail without headers
    uint64_t random
    int64_t now                  # monotonic ns, set by transports once per tick
    uint64_t in_msgs
    uint64_t out_msgs
    uint64_t in_bytes
    uint64_t out_bytes
    uint64_t slow_consumers
    uint64_t stalls
    uint32_t stalled             # links with LINK_STALLED
    uint32_t blocked             # links with LINK_BLOCKED
    size_t max_pending
    size_t congestion_mark
    bint drops_when_congested    # no_fast_producer_stall
    link_t *due                  # services that a batch, or something of theirs to publish, waits for
    link_t *due_next             # the same, of what came while services were served: due in the next tick
    bint is_serving              # services are being served
    bint is_urgent               # a batch is past its mark: its service is served before anything more is read
    choice_t choice
    mapped_replies_t mapped_replies
    PyObject *tracer             # borrowed from the Router: begins traces; NULL: nothing is traced
    bint is_gateway              # this cluster is one of several: answers to other clusters' requests may come here
    char cluster_hash[6]         # of this cluster's name, while it is
    char server_hash[6]          # of this server's ID
    uint64_t remote_in_msgs      # what of the totals came from, or went to, other servers
    uint64_t remote_out_msgs
    uint64_t remote_in_bytes
    uint64_t remote_out_bytes

ctypedef void (*flush_t)(link_t *link) noexcept
ctypedef char *(*parse_t)(link_t *link, char *data, char *end, size_t *need) except NULL
ctypedef int (*accept_t)(sub_t *sub, msg_t *message) except -1
ctypedef int (*send_t)(target_t *target, msg_t *message) except -1
ctypedef int (*offer_t)(link_t *link, plan_t *plan, msg_t *message, uint32_t served_from) except -1
ctypedef void (*changed_t)(link_t *link, sub_t *sub, int64_t change) noexcept
ctypedef void (*limited_t)(link_t *link, sub_t *sub) noexcept

cdef enum remote_kind:
    REMOTE_ROUTE
    REMOTE_LEAF
    REMOTE_GATEWAY

cdef enum side_t:
    # Of which protocol a peer knows nothing, while this server is the bridge between the two kinds of peers.
    SIDE_NONE = 0                # none, or this server is no bridge
    SIDE_LEGACY = 1              # it speaks 1.x only
    SIDE_MODERN = 2              # it speaks 2.x only

cdef struct remote_t:
    # What a link to another server has; the rules are in remote.pyx.
    remote_kind kind
    side_t side                  # of a route
    bint is_spoke                # of a leaf link: the other server is the hub
    bint traces                  # the other server goes on with traces
    send_t send                  # one message over this link; 1 when it is in the outbox
    offer_t offer                # of an interest's `offered_to`; 1 when it is in the outbox
    changed_t changed            # of an interest's listeners; NULL: this link listens to nothing
    limited_t limited            # of those that tell an auto-unsubscribe when it is set; NULL: when it is reached
    word_t origin                # of a leaf link: the cluster behind it, borrowed from the Link; len 0: none
    uint32_t place               # in the targets of the message in hand, when that is this link's
    uint64_t snapshot_end        # bytes written when the interest it was told at first is out: no limit until then
    char hash[6]                 # in "_GR_." subjects: of a route, of the other server; of a gateway, of its cluster
    # Of the message that is being taken in over this link:
    word_t *queues               # the groups it is for
    uint32_t queues_count
    word_t came_from             # the leaf cluster that it was published in; len 0: none
    word_t prefix                # what was taken off its reply subject; len 0: nothing
    bint is_answer               # it came to a "_GR_." subject, and is for whoever listens to what follows that

cdef struct link_t:
    PyObject *owner              # the Link that embeds this
    PyObject *session            # borrowed from the Link
    router_t *router
    interest_t *interest
    flush_t flush                # set by the transport; NULL: frames stay in the outbox
    parse_t parse
    void *transport              # the transport's own
    uint32_t flags
    uint32_t reason
    buf_t out
    buf_t carry                  # bytes of an incomplete frame
    size_t need                  # bytes the incomplete frame has in all; 0: not known yet
    bint carry_direct            # carry is received into directly (large frame)
    PyObject *publish_permissions   # borrowed from the Link: PermissionCache or NULL
    PyObject *deliver_permissions
    sub_t **sids
    uint32_t sids_cap
    uint32_t sids_count
    uint32_t max_subscriptions
    uint32_t max_subscription_tokens
    uint32_t max_control_line
    uint32_t max_payload
    link_t *next_dirty
    link_t *next_doomed
    link_t *stalled_on           # its owner is referenced while it stands here
    int64_t stalled_until
    int64_t last_activity
    int64_t last_written
    int64_t blocked_since
    uint64_t blocked_target      # total bytes written that end this block
    uint64_t written
    uint64_t in_msgs
    uint64_t out_msgs
    uint64_t in_bytes
    uint64_t out_bytes
    uint64_t stalls
    accept_t accept              # of a LINK_SERVICE or LINK_TRANSLATES: takes one message of this subscription
    s2_t *s2                     # NULL: nothing is compressed
    remote_t *remote             # NULL: a client, or something of this server; the Link's
