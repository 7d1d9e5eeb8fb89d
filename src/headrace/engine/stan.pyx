# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The work of a NATS Streaming server once per message: publications in, acknowledgements out, deliveries out.

Here live the four messages of that path as bytes (PubMsg, PubAck, MsgProto, Ack) and nothing that decides: who
may publish, what a channel is and who gets what is `headrace.streaming`'s. `headrace.protocol.stan` has the same
messages, and all others, as classes; tests hold the two to the same bytes. Lengths are checked before use.
Source: NATS Streaming specification, 1, 4, 5.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from headrace.engine.batches cimport Gathered, Outgoing, is_word, part_t, record_t
from headrace.engine.memory cimport give, resize
from headrace.engine.messages cimport Messages, NewMessages, message_t

cdef enum:
    # wire types
    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    FIXED32 = 5
    VARINT_BYTES = 10
    FIRST_ROOM = 8

cdef uint64_t MOST_KEY = 0xFFFFFFFF

cdef struct cursor_t:
    const char *at
    const char *end

cdef struct field_t:
    uint32_t number
    uint64_t value       # of a varint
    part_t text          # of a length-delimited field

cdef struct publication_t:
    part_t client_id
    part_t guid
    part_t channel
    part_t reply
    part_t data
    part_t conn_id

cdef struct waiter_t:
    part_t reply         # where the acknowledgement goes; empty: nobody waits
    part_t guid


# ---- reading ------------------------------------------------------------------------------------

cdef bint read_varint(cursor_t *c, uint64_t *value) noexcept:
    """False when it is cut off or has more than ten bytes; bits beyond the 64th are lost."""
    cdef int shift = 0, n
    cdef unsigned char byte
    value[0] = 0
    for n in range(VARINT_BYTES):
        if c.at == c.end:
            return False
        byte = <unsigned char> c.at[0]
        c.at += 1
        value[0] |= <uint64_t> (byte & 127) << shift
        if byte < 128:
            return True
        shift += 7
    return False


cdef bint read_text(cursor_t *c, part_t *text) noexcept:
    cdef uint64_t n
    if not read_varint(c, &n) or n > <uint64_t> (c.end - c.at):
        return False
    text.text = c.at
    text.len = <uint32_t> n
    c.at += n
    return True


cdef int next_field(cursor_t *c, uint64_t texts, uint64_t numbers, field_t *field) noexcept:
    """The next field that is declared: 1; 0 at the end, -1 for what is no message.

    `texts` and `numbers` have a bit for each field number declared as length-delimited or varint. Others are
    stepped over; a declared one of another wire type is an error, as are groups.
    """
    cdef uint64_t key, skipped, bit
    cdef uint32_t kind
    while c.at < c.end:
        if not read_varint(c, &key) or key > MOST_KEY or key >> 3 == 0:
            return -1
        kind = key & 7
        field.number = <uint32_t> (key >> 3)
        bit = 1ull << field.number if field.number < 64 else 0
        if texts & bit and kind == LENGTH:
            return 1 if read_text(c, &field.text) else -1
        if numbers & bit and kind == VARINT:
            return 1 if read_varint(c, &field.value) else -1
        if (texts | numbers) & bit:
            return -1
        if kind == VARINT:
            if not read_varint(c, &skipped):
                return -1
        elif kind == LENGTH:
            if not read_text(c, &field.text):
                return -1
        elif kind == FIXED64 or kind == FIXED32:
            skipped = 8 if kind == FIXED64 else 4
            if skipped > <uint64_t> (c.end - c.at):
                return -1
            c.at += skipped
        else:
            return -1
    return 0


cdef bint read_publication(const char *at, size_t n, publication_t *p) noexcept:
    cdef cursor_t c
    cdef field_t field
    cdef int found
    c.at = at
    c.end = at + n
    p.client_id = p.guid = p.channel = p.reply = p.data = p.conn_id = nothing()
    while True:
        # clientID, guid, subject, reply, data, connID, sha256
        found = next_field(&c, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 10, 0, &field)
        if found != 1:
            return found == 0
        if field.number == 1:
            p.client_id = field.text
        elif field.number == 2:
            p.guid = field.text
        elif field.number == 3:
            p.channel = field.text
        elif field.number == 4:
            p.reply = field.text
        elif field.number == 5:
            p.data = field.text
        elif field.number == 6:
            p.conn_id = field.text


cdef inline part_t nothing() noexcept:
    cdef part_t part
    part.text = b""
    part.len = 0
    return part


cdef inline bint equal(part_t a, part_t b) noexcept:
    return a.len == b.len and memcmp(a.text, b.text, a.len) == 0


cdef inline bytes text_of(part_t part):
    return PyBytes_FromStringAndSize(part.text, part.len)


# ---- writing ------------------------------------------------------------------------------------

cdef inline size_t varint_size(uint64_t value) noexcept:
    cdef size_t n = 1
    while value > 127:
        value >>= 7
        n += 1
    return n


cdef inline char *put_varint(char *at, uint64_t value) noexcept:
    while value > 127:
        at[0] = <char> (value & 127 | 128)
        at += 1
        value >>= 7
    at[0] = <char> value
    return at + 1


cdef inline size_t text_size(uint32_t n) noexcept:
    """Bytes of a length-delimited field of a number below 16; none when it is empty."""
    return 1 + varint_size(n) + n if n else 0


cdef inline char *put_text(char *at, int number, const char *text, uint32_t n) noexcept:
    if n == 0:
        return at
    at[0] = <char> (number << 3 | LENGTH)
    at = put_varint(at + 1, n)
    memcpy(at, text, n)
    return at + n


cdef size_t delivery_size(message_t *m, Py_ssize_t channel_len) noexcept:
    return (1 + varint_size(m.sequence) + text_size(<uint32_t> channel_len) + text_size(m.reply_len)
            + text_size(m.payload_len) + (1 + varint_size(<uint64_t> m.time) if m.time else 0))


cdef char *put_delivery(char *at, message_t *m, bytes channel) noexcept:
    """A MsgProto that is delivered for the first time."""
    at[0] = 1 << 3 | VARINT
    at = put_varint(at + 1, m.sequence)
    at = put_text(at, 2, PyBytes_AS_STRING(channel), <uint32_t> PyBytes_GET_SIZE(channel))
    at = put_text(at, 3, m.reply, m.reply_len)
    at = put_text(at, 4, m.payload, m.payload_len)
    if m.time == 0:
        return at
    at[0] = 5 << 3 | VARINT
    return put_varint(at + 1, <uint64_t> m.time)


# ---- publications -------------------------------------------------------------------------------

cdef class Publications(NewMessages):
    """Publications to one channel in order of arrival, with who waits for each. `make`: as of its class."""

    cdef waiter_t *_waiters
    cdef Py_ssize_t _places
    cdef readonly bytes channel
    cdef readonly uint64_t size
    """Bytes of all payloads."""

    def __init__(self, type make, bytes channel not None):
        self.channel = channel
        self.keep(channel)

    def __dealloc__(self):
        give(self._waiters)

    cdef int take(self, publication_t *p, part_t reply, object owner) except -1:
        cdef message_t *m
        if self.count == self._places:
            self._places = max(2 * self._places, <Py_ssize_t> FIRST_ROOM)
            self._waiters = <waiter_t *> resize(self._waiters, self._places * sizeof(waiter_t))
        self._waiters[self.count].reply = reply
        self._waiters[self.count].guid = p.guid
        m = self.place()
        m.subject = PyBytes_AS_STRING(self.channel)
        m.subject_len = <uint32_t> PyBytes_GET_SIZE(self.channel)
        m.reply = p.reply.text
        m.reply_len = p.reply.len
        m.payload = p.data.text
        m.payload_len = p.data.len
        self.size += p.data.len
        self.keep(owner)
        return 0

    def alone(self, Py_ssize_t place) -> Publications:
        """One of them, by itself."""
        cdef Publications one = Publications(self._make, self.channel)
        cdef publication_t p
        cdef message_t *m
        if not 0 <= place < self.count:
            raise IndexError(f"publication {place} of {self.count}")
        m = &self.items[place]
        p.guid = self._waiters[place].guid
        p.reply.text = m.reply
        p.reply.len = m.reply_len
        p.data.text = m.payload
        p.data.len = m.payload_len
        one.take(&p, self._waiters[place].reply, self)
        return one

    def at(self, int64_t time_ns) -> None:
        """Give this time to all publications."""
        cdef Py_ssize_t i
        for i in range(self.count):
            self.items[i].time = time_ns

    def stored(self, uint64_t first) -> None:
        """Give the publications their sequences, from `first` on: they were stored."""
        cdef Py_ssize_t i
        for i in range(self.count):
            self.items[i].sequence = first + <uint64_t> i

    def acknowledge(self, Outgoing out not None, bytes error not None=b"") -> None:
        """Answers everyone who waits: stored, or why not."""
        cdef Py_ssize_t i
        cdef waiter_t *w
        cdef char *at
        cdef uint32_t n = <uint32_t> PyBytes_GET_SIZE(error)
        for i in range(self.count):
            w = &self._waiters[i]
            if w.reply.len and is_word(w.reply.text, w.reply.len):
                at = out.open(w.reply, nothing(), 0, text_size(w.guid.len) + text_size(n))
                at = put_text(at, 1, w.guid.text, w.guid.len)
                put_text(at, 2, PyBytes_AS_STRING(error), n)


def sort_publications(Gathered run not None, dict batches not None, may_publish, find, refuse, trace=None) -> None:
    """Reads a run of PubMsg and adds each to the batch of its channel, in order.

    batches                      channel -> Publications; what `find` gives is added
    may_publish(client, conn)    whether a client is one; asked once where many of its messages follow each other
    find(channel)                the batch of a channel that has none yet; None for what cannot be a channel's
                                 name, bytes that say why not for a channel that cannot be had
    refuse(reply, text, client, guid, channel)   of a message that is not added; text None: it is not valid
    trace(client, channel, guid) of each valid one
    """
    cdef record_t record
    cdef publication_t p
    cdef publication_t known     # the last one's client, where it may publish, and its channel
    cdef const char *at = run.begin
    cdef const char *body
    cdef part_t reply
    cdef Publications batch = None
    cdef bint is_known = False
    known.client_id = known.conn_id = known.channel = nothing()
    while at < run.end:
        memcpy(&record, at, sizeof(record_t))
        at += sizeof(record_t)
        reply.text = at + record.subject_len
        reply.len = record.reply_len
        body = reply.text + record.reply_len + record.header_len
        at = reply.text + record.reply_len + record.body_len
        if not read_publication(body, record.body_len - record.header_len, &p):
            refuse(text_of(reply), None, None, b"", b"")
            continue
        if not (is_known and equal(p.client_id, known.client_id) and equal(p.conn_id, known.conn_id)):
            is_known = may_publish(text_of(p.client_id), text_of(p.conn_id))
        known.client_id = p.client_id
        known.conn_id = p.conn_id
        if p.guid.len == 0 or not is_known:
            refuse(text_of(reply), None, text_of(p.client_id), text_of(p.guid), text_of(p.channel))
            continue
        if batch is None or not equal(p.channel, known.channel):
            batch = None
            channel = text_of(p.channel)
            found = batches.get(channel)
            if found is None:
                found = find(channel)
                if not isinstance(found, Publications):
                    refuse(text_of(reply), found, text_of(p.client_id), text_of(p.guid), channel)
                    continue
                batches[channel] = found
            batch = found
            known.channel = p.channel
        if trace is not None:
            trace(text_of(p.client_id), text_of(p.channel), text_of(p.guid))
        batch.take(&p, reply, run.block)


# ---- deliveries ---------------------------------------------------------------------------------

def send(Outgoing out not None, bytes inbox not None, bytes channel not None, Messages messages not None,
         Py_ssize_t start, Py_ssize_t count) -> int:
    """Publishes stored messages to a subscription's inbox, for the first time; gives the bytes of that.

    Raises: IndexError for messages that are not there, ValueError for an inbox that cannot be one.
    """
    cdef Py_ssize_t i
    cdef message_t *m
    cdef part_t to
    cdef size_t n, total = 0
    cdef char *at
    if not (0 <= start <= messages.count and 0 <= count <= messages.count - start):
        raise IndexError(f"{count} messages from {start} of {messages.count}")
    to.text = PyBytes_AS_STRING(inbox)
    to.len = <uint32_t> PyBytes_GET_SIZE(inbox)
    if to.len == 0 or not is_word(to.text, to.len):
        raise ValueError(f"not an inbox: {inbox!r}")
    for i in range(start, start + count):
        m = &messages.items[i]
        n = delivery_size(m, PyBytes_GET_SIZE(channel))
        at = out.open(to, nothing(), 0, n)
        put_delivery(at, m, channel)
        total += n
    return total


def acknowledged(Gathered run not None) -> list[int | None]:
    """The sequence of each Ack in a run; None for what is none."""
    cdef const char *at = run.begin
    cdef uint64_t sequence
    sequences = []
    while at < run.end:
        sequences.append(sequence if read_ack(&at, &sequence) else None)
    return sequences


def settle(Gathered run not None, dict pending not None, list acked not None) -> list[int | None]:
    """Takes what a run of Acks acknowledges out of `pending` and adds it to `acked`, in order.

    Gives what was not pending; None in it for what is no Ack.
    """
    cdef const char *at = run.begin
    cdef uint64_t sequence
    strays = []
    while at < run.end:
        if not read_ack(&at, &sequence):
            strays.append(None)
            continue
        key = sequence
        if key in pending:
            del pending[key]
            acked.append(key)
        else:
            strays.append(key)
    return strays


cdef bint read_ack(const char **at, uint64_t *sequence) noexcept:
    """Reads the record at `at` and goes on to the next; False when it is no Ack."""
    cdef record_t record
    cdef cursor_t c
    cdef field_t field
    cdef int found
    memcpy(&record, at[0], sizeof(record_t))
    at[0] += sizeof(record_t) + record.subject_len + record.reply_len + record.body_len
    c.end = at[0]
    c.at = at[0] - (record.body_len - record.header_len)
    sequence[0] = 0
    while True:
        found = next_field(&c, 1 << 1, 1 << 2, &field)  # subject, sequence
        if found != 1:
            return found == 0
        if field.number == 2:
            sequence[0] = field.value


def without_gap(list sequences not None) -> bool:
    """True if each sequence is one more than the one before.

    Raises: OverflowError, TypeError for a value that is no sequence.
    """
    cdef uint64_t expected = 0, sequence
    cdef bint begun = False
    for one in sequences:
        sequence = one
        if begun and sequence != expected:
            return False
        begun = True
        expected = sequence + 1
    return True
