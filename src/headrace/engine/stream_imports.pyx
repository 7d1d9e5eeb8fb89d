# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Stream imports: shadow subscriptions in the account that exports a stream.

A subscription that wants messages of an imported stream gets a shadow subscription in the exporting account. The
shadow has the sid, the queue group and the link of its subscription, and is removed with it. Messages that are
delivered over a shadow have the subject that the importing account knows; Python is asked once per subject which
one that is. As in the reference server a shadow's deliveries do not count for the limit of an UNSUB, and an
import is not passed on: a third account that imports from the importing account does not get it.

Accounts, their imports and the translation of subjects are decided in Python (`core.accounts`).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.interest cimport Interest, row_of
from headrace.engine.memory cimport buf_free, buf_reserve, give, live, take
from headrace.engine.structs cimport (
    REMOTE_LEAF, HR_PAD, SUB_REMOTE, SUB_FILTERED, SUB_GATHERED, SUB_PASSES_ON, SUB_REMOVED, SUB_SHADOW, buf_t, group_t, interest_t, link_t,
    msg_t, node_t, shadow_t, sub_t,
)
from headrace.engine.trie cimport insert, next_node, remove

cdef enum:
    MOST_RENAMED = 1024      # subjects remembered per import; when it is full it is emptied and filled anew
    LONGEST_RENAMED = 512    # longer subjects are translated each time, so that one peer cannot fill the heap


cdef inline bint imports_streams(sub_t *s) noexcept:
    """True if imported streams reach a subscription. Those of routes and gateways get them at their own server."""
    return not s.flags & (SUB_SHADOW | SUB_PASSES_ON) and (
        not s.flags & SUB_REMOTE or s.link.remote != NULL and s.link.remote.kind == REMOTE_LEAF)


cdef class StreamImport:
    """A stream of another account. `subjects` translates:

    `wanted_by(subscription)` gives the exported pattern a local subscription can receive, or None;
    `to_local(subject)` what an exported subject is called here. Both take and give bytes. `traces`: whoever traces
    a message of it may see who gets it here.
    """

    def __cinit__(self, Interest exporter not None, subjects, *, bint traces=False):
        self.exporter = exporter
        self.traces = traces
        self.subjects = subjects
        self._renamed = {}

    cdef bytes _local(self, bytes subject):
        cdef bytes found = self._renamed.get(subject)
        if found is not None:
            return found
        found = self.subjects.to_local(subject)
        if PyBytes_GET_SIZE(subject) <= LONGEST_RENAMED:
            if len(self._renamed) >= MOST_RENAMED:
                self._renamed.clear()
            self._renamed[subject] = found
        return found


cdef int hang_one(sub_t *s, StreamImport via, bytes wanted) except -1:
    cdef uint32_t n = <uint32_t> PyBytes_GET_SIZE(wanted)
    cdef sub_t *shadow = <sub_t *> take(sizeof(sub_t) + s.sid_len + 1 + n + s.queue_len + HR_PAD)
    memset(shadow, 0, sizeof(sub_t))
    live.subs += 1
    shadow.shadow = <shadow_t *> take(sizeof(shadow_t))
    memset(shadow.shadow, 0, sizeof(shadow_t))
    Py_INCREF(via)
    shadow.shadow.via = <PyObject *> via
    shadow.link = s.link
    shadow.flags = s.flags & (SUB_FILTERED | SUB_GATHERED | SUB_REMOTE) | SUB_SHADOW
    shadow.quota.weight = s.quota.weight if s.flags & SUB_REMOTE else 0
    shadow.sid_len = s.sid_len
    shadow.subject_len = n
    shadow.queue_len = s.queue_len
    memcpy(shadow.text, s.text, s.sid_len + 1)
    shadow.subject = shadow.text + s.sid_len + 1
    memcpy(shadow.subject, PyBytes_AS_STRING(wanted), n)
    shadow.queue = shadow.subject + n
    memcpy(shadow.queue, s.queue, s.queue_len)
    insert(&via.exporter.c, shadow)
    shadow.shadows = s.shadows
    s.shadows = shadow
    return 0


cdef int hang_shadows(sub_t *s) except -1:
    """One shadow for each import that a subscription, which is in its own interest already, wants some of."""
    cdef bytes subject = s.subject[:s.subject_len]
    cdef bytes wanted
    cdef StreamImport via
    for via in <object> s.interest.imports:
        wanted = via.subjects.wanted_by(subject)
        if wanted is not None:
            hang_one(s, via, wanted)
    return 0


cdef void drop_one(sub_t *shadow, link_t *owner) noexcept:
    remove(shadow)
    shadow.shadows = NULL
    shadow.flags |= SUB_REMOVED
    shadow.next_removed = shadow.link.router.removed
    shadow.link.router.removed = shadow
    shadow.link = owner


cdef void drop_shadows(sub_t *s, link_t *owner) noexcept:
    """Takes a subscription's shadows out of their interest; `owner` is the link they have until they are freed."""
    cdef sub_t *shadow = s.shadows
    cdef sub_t *following
    s.shadows = NULL
    while shadow != NULL:
        following = shadow.shadows
        drop_one(shadow, owner)
        shadow = following


# ---- imports of a running account ---------------------------------------------------------------

cdef uint64_t importing_at(node_t *node, sub_t **found, uint64_t n) noexcept:
    """Appends the subscriptions of one node that imported streams reach; returns how many there are then."""
    cdef uint32_t i, j
    cdef group_t *group
    for i in range(node.plain_count):
        if imports_streams(node.plain[i]):
            found[n] = node.plain[i]
            n += 1
    for i in range(node.groups_cap):
        group = node.groups[i]
        while group != NULL:
            for j in range(group.count):
                if imports_streams(group.members[j]):
                    found[n] = group.members[j]
                    n += 1
            group = group.next
    return n


cdef int change_shadows(sub_t *s, set kept, tuple added) except -1:
    """Drops the shadows of one subscription that are of no import in `kept`, hangs those of the imports in `added`."""
    cdef sub_t **at = &s.shadows
    cdef sub_t *shadow
    cdef StreamImport via
    cdef bytes subject, wanted
    while at[0] != NULL:
        shadow = at[0]
        if <object> shadow.shadow.via in kept:
            at = &shadow.shadows
        else:
            at[0] = shadow.shadows
            drop_one(shadow, s.link)
    subject = s.subject[:s.subject_len]
    for via in added:
        wanted = via.subjects.wanted_by(subject)
        if wanted is not None:
            hang_one(s, via, wanted)
    return 0


def change_imports(Interest interest not None, tuple imports not None):
    """From now on `imports` (StreamImport objects) are what an account imports, for the subscriptions it has too.

    An import that stays is the same object as before: what hangs on its behalf stays as it is.
    """
    cdef interest_t *it = &interest.c
    cdef set before = set(interest.imports)
    cdef set after = set(imports)
    cdef tuple added = tuple([via for via in imports if via not in before])
    cdef sub_t **found
    cdef uint64_t n = 0, i
    cdef node_t *node = &it.root
    interest.imports = imports
    if it.subscriptions == 0 or before == after:
        return
    found = <sub_t **> take(it.subscriptions * sizeof(sub_t *))
    try:
        # An account may import from itself, so nothing is hung while the trie is walked.
        while node != NULL:
            n = importing_at(node, found, n)
            node = next_node(node)
        for i in range(n):
            change_shadows(found[i], after, added)
    finally:
        give(found)


cdef void free_shadow(sub_t *s) noexcept:
    """Gives back what only a shadow has, when its memory is given back."""
    buf_free(&s.shadow.text)
    Py_DECREF(<object> s.shadow.via)
    give(s.shadow)
    s.shadow = NULL


cdef int rename(sub_t *s, msg_t *m, const char **head, size_t *head_len) except -1:
    """The head of a delivery over a shadow: the subject as the importing account has it."""
    cdef shadow_t *shadow = s.shadow
    cdef buf_t *text = &shadow.text
    cdef bytes local
    cdef char *at
    if text.end == 0 or shadow.subject_len != m.subject_len or memcmp(text.data, m.subject, m.subject_len) != 0:
        local = (<StreamImport> shadow.via)._local(m.subject[:m.subject_len])
        text.start = text.end = 0
        buf_reserve(text, m.subject_len + PyBytes_GET_SIZE(local) + 6)
        memcpy(text.data, m.subject, m.subject_len)
        at = text.data + m.subject_len
        memcpy(at, b"HMSG ", 5)
        memcpy(at + 5, PyBytes_AS_STRING(local), PyBytes_GET_SIZE(local))
        at[5 + PyBytes_GET_SIZE(local)] = c' '
        shadow.subject_len = m.subject_len
        text.end = m.subject_len + PyBytes_GET_SIZE(local) + 6
    head[0] = text.data + shadow.subject_len
    head_len[0] = text.end - shadow.subject_len
    return 0


cdef list shadow_rows(link_t *l, where):
    """`row_of` every shadow of a link that hangs in one of those accounts (`id`s of Interests)."""
    cdef uint32_t i
    cdef sub_t *s
    cdef list rows = []
    for i in range(l.sids_cap):
        s = l.sids[i].shadows if l.sids[i] != NULL else NULL
        while s != NULL:
            if id((<StreamImport> s.shadow.via).exporter) in where:
                rows.append(row_of(s))
            s = s.shadows
    return rows
