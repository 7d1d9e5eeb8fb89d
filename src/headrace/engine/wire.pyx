# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The common part of the wires between servers since 2.0: words, messages and interest, read and written.

    <kind>S+ [cluster] [account] subject [group weight]        <kind>S- [cluster] [account] subject [group]
    <kind>MSG [cluster] [account] subject [reply] size         and, for what has headers,
    HMSG [account] subject [reply] header-size size
    ... subject + reply group... sizes                         to members of queue groups (with a reply subject)
    ... subject | group... sizes                               (without one)

A message that is shown with another subject than it is routed by carries that behind an "@" at the end of its
"$JS.ACK." reply subject (reference server 2.15). Which words a wire has, and what they come to, is its own file's.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.client cimport line_t, size_of
from headrace.engine.delivery cimport strip_headers
from headrace.engine.remote cimport admits, names_len, prefix_of, room_to_send, room_to_tell, sent, write_names
from headrace.engine.memory cimport buf_append, buf_free, give, live, resize, take
from headrace.engine.reply_mapping cimport PREFIX_LEN, is_mapped
from headrace.engine.structs cimport (
    HR_GUARD, LINK_HEADERS, LINK_TRACED, SUB_REMOTE, SUB_ORIGIN, buf_t, remote_t, hr_copy, link_t, msg_t, sub_t, target_t,
    word_t,
)
from headrace.engine.tracing cimport begin_hop, end_hop

cdef enum:
    ACK_DOTS = 8             # of "$JS.ACK." and the tokens behind it, before a subject to show may follow


# ---- words --------------------------------------------------------------------------------------

cdef inline bint is_blank(char c) noexcept:
    return c == c' ' or c == c'\t' or c == c'\r'


cdef int split(wire_t *w, line_t *line) except -1:
    """Takes a line apart; it has as many words as it likes, or none. A CR separates too."""
    cdef const char *p = line.start
    cdef const char *begin
    w.count = 0
    if w.words == NULL:  # the second of no words may be pointed at, though never looked at
        more_words(w)
    while True:
        while p < line.end and is_blank(p[0]):
            p += 1
        if p == line.end:
            return 0
        begin = p
        while p < line.end and not is_blank(p[0]):
            p += 1
        if w.count == w.cap:
            more_words(w)
        w.words[w.count].text = begin
        w.words[w.count].len = <uint32_t> (p - begin)
        w.count += 1


cdef int more_words(wire_t *w) except -1:
    w.cap = max(16, 2 * w.cap)
    w.words = <word_t *> resize(w.words, w.cap * sizeof(word_t))
    return 0


cdef void release_wire(wire_t *w) noexcept:
    give(w.words)
    w.words = NULL
    w.cap = w.count = 0
    buf_free(&w.text)
    buf_free(&w.head)


# ---- a message that comes in --------------------------------------------------------------------

cdef int read_message(wire_t *w, remote_t *remote, uint32_t skipped, uint32_t sizes, msg_t *m) noexcept:
    """Takes the words of a message's line, behind `skipped` ones, into it and into remote.queues; -1: they are none.

    `sizes`: 2 when a header size stands before the size, else 1.
    """
    cdef word_t *words
    cdef word_t *end
    cdef long long header = 0, size
    if w.count < skipped + 1 + sizes:
        return -1
    words = w.words + skipped
    end = w.words + w.count - sizes
    m.subject = words.text
    m.subject_len = words.len
    words += 1
    m.reply = NULL
    m.reply_len = 0
    remote.queues = words
    remote.queues_count = 0
    remote.prefix.len = 0
    remote.is_answer = False
    if end - words == 1:
        take_reply(w, remote, words, m)
    elif end > words:
        if words.len != 1 or words.text[0] != c'+' and words.text[0] != c'|':
            return -1
        if words.text[0] == c'+':
            words += 1
            take_reply(w, remote, words, m)
        words += 1
        remote.queues = words
        remote.queues_count = <uint32_t> (end - words)
    if sizes == 2:
        header = size_of(end)
        end += 1
    size = size_of(end)
    if header < 0 or size < header:
        return -1
    m.header_len = <uint32_t> header
    m.body_len = <uint32_t> size
    return 0


cdef inline void take_reply(wire_t *w, remote_t *remote, word_t *word, msg_t *m) noexcept:
    """The reply subject without the way back to another cluster, which is kept for whoever passes it on."""
    if is_mapped(word.text, word.len):
        memcpy(w.prefix, word.text, PREFIX_LEN)
        remote.prefix.text = w.prefix
        remote.prefix.len = PREFIX_LEN
        word.text += PREFIX_LEN
        word.len -= PREFIX_LEN
    m.reply = word.text
    m.reply_len = word.len


cdef Py_ssize_t end_of_ack(const char *reply, uint32_t n) noexcept:
    """Find the end of a "$JS.ACK." reply subject, which "@subject to show" may follow; -1: it is none.

    Names in it may have an "@", so the first one behind eight dots counts.
    """
    cdef uint32_t i, dots = 0
    if n <= 8 or memcmp(reply, b"$JS.ACK.", 8) != 0:
        return -1
    for i in range(n):
        if reply[i] == c'.':
            dots += 1
        elif reply[i] == c'@' and dots >= ACK_DOTS:
            return i
    return n if dots >= ACK_DOTS else -1


cdef bint show(wire_t *w, msg_t *m) except -1:
    """Take the subject to show off a reply subject; False if it has none."""
    cdef Py_ssize_t at = end_of_ack(m.reply, m.reply_len)
    if at < 0 or at + 1 >= m.reply_len:
        return False
    w.head.start = w.head.end = 0
    buf_append(&w.head, b"HMSG ", 5)
    buf_append(&w.head, m.reply + at + 1, m.reply_len - at - 1)
    buf_append(&w.head, b" ", 1)
    m.head = w.head.data
    m.head_len = w.head.end
    m.reply_len = <uint32_t> at
    return True


cdef inline bint is_canonical(line_t *line, word_t *first, word_t *last) noexcept:
    """Single spaces between these words, nothing after the last, CR LF."""
    while first < last:
        if first[1].text != first.text + first.len + 1 or first.text[first.len] != c' ':
            return False
        first += 1
    return line.is_crlf and last.text + last.len == line.end


cdef int compose_tail(link_t *l, word_t *first, word_t *last, line_t *line, msg_t *m) except -1:
    """Writes "[reply ][header size ]size CR LF" in front of the payload, over the line, whose names are kept aside.

    It is never longer than what stands there behind the subject.
    """
    cdef buf_t *b = &l.router.scratch
    cdef remote_t *remote = l.remote
    cdef uint32_t i
    cdef size_t names
    b.start = b.end = 0
    if m.reply_len:
        buf_append(b, m.reply, m.reply_len)
        buf_append(b, b" ", 1)
    while first < last:
        buf_append(b, first.text, first.len)
        buf_append(b, b" ", 1)
        first += 1
    buf_append(b, last.text, last.len)
    buf_append(b, b"\r\n", 2)
    names = b.end
    for i in range(remote.queues_count):
        buf_append(b, remote.queues[i].text, remote.queues[i].len)
    HR_GUARD(line.next - names >= m.subject + m.subject_len)
    m.reply = m.tail = line.next - names
    memcpy(<char *> m.tail, b.data, names)
    m.tail_len = names + m.body_len + 2
    for i in range(remote.queues_count):
        remote.queues[i].text = b.data + names
        names += remote.queues[i].len
    return 0


cdef int fit_tail(wire_t *w, link_t *l, uint32_t sizes, line_t *line, msg_t *m) except -1:
    """Completes a message whose payload is here: body, the subject to show, the tail for its receivers' frames.

    The tail is the line's own bytes, unless those are not in canonical form or say more than receivers are told.
    """
    cdef word_t *last = w.words + w.count - 1
    cdef word_t *first = last - (1 if sizes == 2 and m.header_len else 0)
    m.body = line.next
    m.head = m.plain_tail = NULL
    if m.reply_len and (show(w, m) or (first - 1).text != m.reply):
        return compose_tail(l, first, last, line, m)
    return keep_tail(l, first, last, line, m)


cdef int keep_tail(link_t *l, word_t *first, word_t *last, line_t *line, msg_t *m) except -1:
    """The tail of a line in which nothing stands between the reply, if there is one, and the sizes from `first` on."""
    if m.reply_len:
        if not is_canonical(line, first - 1, last):
            return compose_tail(l, first, last, line, m)
        m.tail = m.reply
    elif is_canonical(line, first, last):
        m.tail = first.text
    else:
        return compose_tail(l, first, last, line, m)
    m.tail_len = (line.next + m.body_len + 2) - m.tail
    return 0


# ---- interest that comes in ---------------------------------------------------------------------

cdef int add_word(wire_t *w, word_t *text) except -1:
    """One more word of the key that is being put together in w.text."""
    if w.text.end:
        buf_append(&w.text, b" ", 1)
    buf_append(&w.text, text.text, text.len)
    return 0


cdef sub_t *new_remote_sub(wire_t *w, link_t *l, word_t *origin, uint32_t subject_len, uint32_t queue_len,
                        uint32_t hash) except NULL:
    """A subscription whose sid is the key in w.text: subject and, unless `queue_len` is 0, queue group end it."""
    cdef uint32_t n = <uint32_t> w.text.end
    cdef size_t more = sizeof(uint32_t) + origin.len if origin != NULL else 0
    cdef sub_t *s = <sub_t *> take(sizeof(sub_t) + n + more)
    memset(s, 0, sizeof(sub_t))
    live.subs += 1
    s.link = l
    s.flags = SUB_REMOTE
    s.hash = hash
    s.sid_len = n
    memcpy(s.text, w.text.data, n)
    s.text[n] = c' '
    s.queue_len = queue_len
    s.queue = s.text + n - queue_len
    s.subject_len = subject_len
    s.subject = s.queue - subject_len - (1 if queue_len else 0)
    if origin != NULL:
        s.flags |= SUB_ORIGIN
        memcpy(s.text + n + 1, &origin.len, sizeof(uint32_t))
        memcpy(s.text + n + 1 + sizeof(uint32_t), origin.text, origin.len)
    return s


# ---- what goes out ------------------------------------------------------------------------------

cdef inline char *put(char *at, const char *text, size_t n) noexcept:
    """Writes a word and a blank; returns what follows."""
    memcpy(at, text, n)
    at[n] = c' '
    return at + n + 1


cdef int write_message(target_t *target, msg_t *m, char kind, word_t *origin, word_t *account) except -1:
    """A target's frame, if its link takes one now; 1 when it is in the outbox.

    `origin`: the leaf cluster it was published in, unless it is NULL: such a frame has both sizes. `account`:
    NULL where lines name none.
    """
    cdef msg_t hop
    cdef bytes kept
    cdef int is_sent
    if m.trace == NULL:
        return write_frame(target, m, kind, origin, account)
    kept = begin_hop(target.link, m, &hop)
    if kept is None:
        return 0
    is_sent = write_frame(target, &hop, kind, origin, account)
    end_hop(target.link, m, is_sent)
    return is_sent


cdef int write_frame(target_t *target, msg_t *m, char kind, word_t *origin, word_t *account) except -1:
    """`write_message` for a message as it is."""
    cdef link_t *l = target.link
    cdef const char *tail = m.tail
    cdef size_t tail_len = m.tail_len, shown = 0, names
    cdef uint32_t size = m.body_len
    cdef bint has_headers = m.header_len > 0
    cdef word_t prefix = prefix_of(target, m)
    cdef char *at
    cdef char *begin
    if not admits(l, m):
        return 0
    if not m.reply_len:
        prefix.len = 0
    if has_headers and not l.flags & LINK_HEADERS:
        if m.plain_tail == NULL:
            strip_headers(m, l.router)
        tail = m.plain_tail
        tail_len = m.plain_tail_len
        size -= m.header_len
        has_headers = False
    if m.reply_len:
        tail += m.reply_len + 1
        tail_len -= m.reply_len + 1
        if m.head != NULL and end_of_ack(m.reply, m.reply_len) == m.reply_len:
            shown = m.head_len - 5  # with an "@" for its blank
    names = names_len(l.router, target)
    begin = at = room_to_send(l, 16 + (origin.len if origin != NULL else 0) + (account.len if account != NULL else 0)
                              + m.subject_len + prefix.len + m.reply_len + shown + names + tail_len)
    if at == NULL:
        return 0
    if l.flags & LINK_TRACED:
        (<object> l.session).trace_delivery(m.subject[:m.subject_len],
                                            target.sub.text[:target.sub.sid_len] if target.sub != NULL else b"",
                                            m.reply[:m.reply_len], m.header_len if has_headers else 0, size)
    at[0] = kind if origin != NULL or not has_headers else c'H'
    at = put(at + 1, b"MSG", 3)
    if origin != NULL:
        at = put(at, origin.text, origin.len)
    if account != NULL:
        at = put(at, account.text, account.len)
    at = put(at, m.subject, m.subject_len)
    if names:
        at = put(at, b"+" if m.reply_len else b"|", 1)
    if m.reply_len:
        if prefix.len:
            memcpy(at, prefix.text, prefix.len)
            at += prefix.len
        at = put(at, m.reply, m.reply_len)
        if shown:
            (at - 1)[0] = c'@'
            at = put(at, m.head + 5, shown - 1)
    if names:
        at = write_names(l.router, target, at)
    if origin != NULL and not has_headers:
        at = put(at, b"0", 1)
    hr_copy(at, tail, tail_len)
    sent(target, at + tail_len - begin, size)
    return 1


cdef void write_interest(link_t *l, sub_t *s, char kind, word_t *origin, word_t *account, int64_t weight) noexcept:
    """<kind>S+ for a subject (of a queue group with so many members), <kind>S- when nobody is left (0).

    `origin` and `account`: NULL where the line names none. A closing link is told nothing.
    """
    cdef char *at = room_to_tell(l, 48 + (origin.len if origin != NULL else 0)
                                 + (account.len if account != NULL else 0) + s.subject_len + s.queue_len)
    if at == NULL:
        return
    at[0] = kind
    at = put(at + 1, b"S+" if weight else b"S-", 2)
    if origin != NULL:
        at = put(at, origin.text, origin.len)
    if account != NULL:
        at = put(at, account.text, account.len)
    at = put(at, s.subject, s.subject_len)
    if s.queue_len:
        at = put(at, s.queue, s.queue_len)
        if weight:
            at += snprintf(at, 24, b"%lld ", <long long> weight)
    (at - 1)[0] = c'\r'
    at[0] = c'\n'
    l.out.end = at + 1 - l.out.data
    HR_GUARD(l.out.end <= l.out.cap)
