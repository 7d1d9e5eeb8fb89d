# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The work of JetStream once per message: publications in, their PubAcks out, acknowledgements in, deliveries out.

Here live the bytes of that path and nothing that decides: what a stream takes, which consumer gets what and when
is `headrace.jetstream`'s. What a peer says in an acknowledgement's subject is read within its bounds, with numbers
that do not fit 64 bits refused. A publication that is more than a subject, a payload and a reply subject, an
acknowledgement that is more than one, goes to Python in its place in the order.
Source: JetStream API on the wire (nats-server 2.15), sections 3 and 4; consumer.go for what counts as +ACK.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from headrace.engine.batches cimport Block, Gathered, Outgoing, delivery, is_word, part_of, part_t, record_t
from headrace.engine.memory cimport give, resize
from headrace.engine.messages cimport Messages, NewMessages, message_t
from headrace.engine.pending cimport PendingMap

cdef extern from "<string.h>" nogil:
    void *memmem(const void *text, size_t n, const void *wanted, size_t m)

cdef enum:
    FIRST_ROOM = 8
    DIGITS = 20              # of the largest number of 64 bits
    LONGEST_SUBJECT = 65535  # what a log takes; a longer one is for Python to refuse
    LARGEST_HEADERS = 65535
    ID_HEADER = 13           # bytes of the line end and the name of a message's id
    VERSION = 10             # bytes of the first line of headers without a status
    TOKENS = 9               # of an acknowledgement's subject: $JS.ACK.<stream>.<consumer> and five numbers
    LONG_TOKENS = 11         # with <domain>.<account> in front of the stream, and perhaps more behind the numbers
    MOST_TOKENS = 12         # that are looked at
    PREFIX_ROOM = 1024       # bytes of an acknowledgement's subject up to its numbers
    NUMBERS = 5              # that stand behind it
    STAMP_ROOM = 5 * 21      # bytes of these with the dots
    SIZE_HEADER = 17         # "Nats-Msg-Size: " and the line end

cdef uint64_t most_tens = 1844674407370955161   # a tenth of 2^64 - 1, which ends with 5

# ---- words --------------------------------------------------------------------------------------

cdef inline bytes text_of(part_t part):
    return PyBytes_FromStringAndSize(part.text, part.len)


cdef inline bint equal(part_t a, part_t b) noexcept:
    return a.len == b.len and memcmp(a.text, b.text, a.len) == 0


cdef bint read_number(part_t text, uint64_t *value) noexcept:
    """Decimal digits, at least one, of what fits 64 bits."""
    cdef uint32_t i
    cdef uint64_t digit
    value[0] = 0
    if not 0 < text.len <= DIGITS:
        return False
    for i in range(text.len):
        digit = <uint64_t> (<unsigned char> text.text[i]) - c'0'
        if digit > 9 or value[0] > most_tens or (value[0] == most_tens and digit > 5):
            return False
        value[0] = 10 * value[0] + digit
    return True


cdef struct number_t:
    # A number and its digits, which stand at the end of `text` from `first` on.
    uint64_t value
    int first
    char text[DIGITS]


cdef void write_number(number_t *number, uint64_t value) noexcept:
    number.value = value
    number.first = DIGITS
    while True:
        number.first -= 1
        number.text[number.first] = <char> (c'0' + value % 10)
        value //= 10
        if value == 0:
            return


cdef inline void set_number(number_t *number, uint64_t value) noexcept:
    """Most numbers of a message are those of the one before, or one more, or one less."""
    cdef int i = DIGITS - 1
    if value == number.value:
        return
    if value == number.value + 1 and number.text[i] != c'9':
        number.text[i] += 1
        number.value = value
    elif value + 1 == number.value and number.text[i] != c'0':
        number.text[i] -= 1
        number.value = value
    else:
        write_number(number, value)


cdef inline int length(number_t *number) noexcept:
    return DIGITS - number.first


cdef inline char *put_number(char *at, number_t *number) noexcept:
    return put_bytes(at, number.text + number.first, DIGITS - number.first)


cdef inline char *put_bytes(char *at, const char *text, size_t n) noexcept:
    memcpy(at, text, n)
    return at + n


# ---- publications -------------------------------------------------------------------------------

cdef class Publications(NewMessages):
    """Publications to one stream in order of arrival, with where the PubAck of each goes. `make`: as of its class.

    What is stored has no reply subject: that is the publisher's, and answered here. `size`: bytes of all headers
    and payloads.
    """

    def __init__(self, type make):
        pass

    def __dealloc__(self):
        give(self._replies)

    cdef message_t *take(self, part_t reply) except NULL:
        """One more, with nothing in it but where its PubAck goes."""
        if self.count == self._places:
            self._places = max(2 * self._places, <Py_ssize_t> FIRST_ROOM)
            self._replies = <part_t *> resize(self._replies, self._places * sizeof(part_t))
        self._replies[self.count] = reply
        return self.place()

    def add(self, bytes subject not None, bytes payload not None, *, bytes reply not None=b"",
            bytes headers not None=b"", int64_t ttl_ns=0, int64_t time_ns=0) -> None:
        """One more. `reply` b"": nobody wants its PubAck. Raises: ValueError for a negative time or TTL."""
        cdef message_t *m
        if ttl_ns < 0 or time_ns < 0:
            raise ValueError("a message's time and TTL cannot be negative")
        m = self.take(part_of(reply))
        self._owners.append((subject, payload, reply, headers))
        self.hold(&m.subject, &m.subject_len, subject)
        self.hold(&m.payload, &m.payload_len, payload)
        self.hold(&m.headers, &m.headers_len, headers)
        m.ttl = ttl_ns
        m.time = time_ns
        self.size += m.headers_len + m.payload_len

    cdef int gather(self, record_t *record, const char *subject, Block block) except -1:
        """One more: the record of a batch whose parts begin at `subject`, in `block`."""
        cdef part_t reply
        cdef message_t *m
        reply.text = subject + record.subject_len
        reply.len = record.reply_len
        m = self.take(reply)
        m.subject = subject
        m.subject_len = record.subject_len
        m.headers = reply.text + record.reply_len
        m.headers_len = record.header_len
        m.payload = m.headers + record.header_len
        m.payload_len = record.body_len - record.header_len
        self.size += record.body_len
        return self.keep(block)

    cdef int copy(self, Publications other, Py_ssize_t place) except -1:
        cdef message_t *m = self.take(other._replies[place])
        m[0] = other.items[place]
        self.size += m.headers_len + m.payload_len
        return 0

    def part(self, Py_ssize_t start, Py_ssize_t count) -> Publications:
        """Return `count` publications from place `start` on. Raises: IndexError for what is not there."""
        cdef Publications some = Publications(self._make)
        cdef Py_ssize_t i
        if not (0 <= start <= self.count and 0 <= count <= self.count - start):
            raise IndexError(f"{count} publications from {start} of {self.count}")
        for i in range(start, start + count):
            some.copy(self, i)
        some._owners.append(self)
        return some

    cpdef at(self, int64_t time_ns):
        """Give this time to publications that have none yet."""
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.items[i].time == 0:
                self.items[i].time = time_ns

    cdef int at_any_time(self) except -1:
        """Take the time from all publications."""
        cdef Py_ssize_t i
        for i in range(self.count):
            self.items[i].time = 0
        return 0

    cdef int clear(self) except -1:
        """There are none; the memory stays."""
        self.count = 0
        self.size = 0
        self._owners.clear()
        return 0

    cpdef stored(self, uint64_t first):
        """Give the publications their sequences, from `first` on: they were stored."""
        cdef Py_ssize_t i
        for i in range(self.count):
            self.items[i].sequence = first + <uint64_t> i

    cpdef acknowledge(self, Outgoing out, bytes head, bytes tail):
        """Answers everyone who waits: `head`, the sequence of the message, `tail`."""
        cdef Py_ssize_t i
        cdef number_t sequence
        cdef part_t reply
        cdef char *at
        write_number(&sequence, 0)
        for i in range(self.count):
            reply = self._replies[i]
            if reply.len == 0 or not is_word(reply.text, reply.len):
                continue
            set_number(&sequence, self.items[i].sequence)
            at = out.open(reply, part_of(b""), 0, PyBytes_GET_SIZE(head) + length(&sequence) + PyBytes_GET_SIZE(tail))
            at = put_bytes(at, PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
            at = put_number(at, &sequence)
            put_bytes(at, PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))

    def refuse(self, Outgoing out not None, bytes body not None) -> None:
        """Answers everyone who waits, the same to all."""
        cdef Py_ssize_t i
        cdef part_t reply
        for i in range(self.count):
            reply = self._replies[i]
            if reply.len and is_word(reply.text, reply.len):
                put_bytes(out.open(reply, part_of(b""), 0, PyBytes_GET_SIZE(body)),
                          PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))


cdef bint has_orders(const char *headers, uint32_t n) noexcept:
    """True if headers say something to the server, and are not just part of a message.

    A name begins with `Nats-`, written so, as the reference server looks for them, or the first line is a status.
    """
    return n > LARGEST_HEADERS or memmem(headers, n, b"\nNats-", 6) != NULL \
        or n < VERSION or memcmp(headers, b"NATS/1.0\r\n", VERSION) != 0


cdef inline bint is_steered(part_t reply) noexcept:
    """True if a reply subject says more than where to answer: fast ingest."""
    return reply.len > 4 and memcmp(reply.text + reply.len - 4, b".$FI", 4) == 0


cdef bint is_special(record_t *record, const char *subject, uint64_t largest) noexcept:
    """True if a publication is more than a message to store: see `take_publications`. Its parts begin at `subject`."""
    cdef part_t reply
    reply.text = subject + record.subject_len
    reply.len = record.reply_len
    return (record.header_len and has_orders(reply.text + reply.len, record.header_len)) or is_steered(reply) \
        or record.subject_len > LONGEST_SUBJECT or (largest and record.body_len > largest)


cdef bint read_id(const char *headers, uint32_t n, part_t *msg_id) noexcept:
    """True if the one header of ours is an id, which is `msg_id` then."""
    cdef const char *end = headers + n
    cdef const char *at = <const char *> memmem(headers, n, b"\nNats-", 6)
    cdef const char *line
    if at == NULL or at == headers or (at - 1)[0] != c'\r' or end - at < ID_HEADER \
            or memcmp(at, b"\nNats-Msg-Id:", ID_HEADER) != 0 or memmem(at + 1, end - at - 1, b"\nNats-", 6) != NULL:
        return False
    at += ID_HEADER
    line = <const char *> memmem(at, end - at, b"\r\n", 2)
    if line == NULL:
        line = end
    while at < line and at[0] == c' ':
        at += 1
    msg_id.text = at
    msg_id.len = <uint32_t> (line - at)
    return msg_id.len > 0


cdef bint has_only_id(record_t *record, const char *subject, uint64_t largest, part_t *msg_id) noexcept:
    """True if all that a publication asks for is to be stored once. Its parts begin at `subject`."""
    cdef part_t reply
    cdef const char *headers
    reply.text = subject + record.subject_len
    reply.len = record.reply_len
    headers = reply.text + reply.len
    return VERSION <= record.header_len <= LARGEST_HEADERS and memcmp(headers, b"NATS/1.0\r\n", VERSION) == 0 \
        and not is_steered(reply) and record.subject_len <= LONGEST_SUBJECT \
        and not (largest and record.body_len > largest) and read_id(headers, record.header_len, msg_id)


def take_publications(Gathered run not None, Publications batch not None, special, uint64_t largest=0) -> None:
    """Adds a run of messages to `batch`, in order.

    special(delivery)   is called for one that is not added, in its place in the order: it has a header whose name
                        begins with `Nats-`, a status, headers of 64 KiB and more, a subject no log takes, a reply
                        subject of fast ingest, or more than `largest` bytes of headers and payload (0: any size).
                        It may give another batch, to which what follows is added then; None: the same
    """
    cdef record_t record
    cdef const char *at = run.begin
    cdef const char *subject
    while at < run.end:
        memcpy(&record, at, sizeof(record_t))
        subject = at + sizeof(record_t)
        at = subject + record.subject_len + record.reply_len + record.body_len
        if not is_special(&record, subject, largest):
            batch.gather(&record, subject, run.block)
            continue
        other = special(
            delivery(run._delivery, &record, subject, PyBytes_FromStringAndSize(subject, record.subject_len)))
        if other is not None:
            batch = other


# ---- acknowledgements ---------------------------------------------------------------------------

cdef class Acks:
    """Plain acknowledgements for one consumer, in order: (stream sequence, consumer sequence, deliveries, reply).

    `owner` is whatever whoever made it wants to find it by.
    """

    cdef ack_t *_items
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room
    cdef list _owners        # whose bytes the reply subjects point into
    cdef readonly object owner

    def __init__(self, owner=None):
        self.owner = owner
        self._owners = []

    def __dealloc__(self):
        give(self._items)

    cdef int add(self, ack_t *ack, object owner) except -1:
        cdef Py_ssize_t room
        if self._count == self._room:
            room = max(2 * self._room, <Py_ssize_t> FIRST_ROOM)
            self._items = <ack_t *> resize(self._items, room * sizeof(ack_t))
            self._room = room  # only now: the call before may raise
        if ack.reply.len and (not self._owners or self._owners[len(self._owners) - 1] is not owner):
            self._owners.append(owner)
        self._items[self._count] = ack[0]
        self._count += 1
        return 0

    def __len__(self):
        return self._count

    def __iter__(self):
        cdef Py_ssize_t i
        for i in range(self._count):
            yield (self._items[i].sequence, self._items[i].consumer_sequence, self._items[i].deliveries,
                   text_of(self._items[i].reply))

    def sequences(self) -> list[int]:
        """The stream sequence of each."""
        cdef Py_ssize_t i
        return [self._items[i].sequence for i in range(self._count)]

    def replies(self) -> list[bytes]:
        """The reply subjects of those that have one."""
        cdef Py_ssize_t i
        return [text_of(self._items[i].reply) for i in range(self._count) if self._items[i].reply.len]

    def clear(self) -> None:
        """Forget the acknowledgements: they are dealt with."""
        self._count = 0
        self._owners.clear()


cdef bint read_ack(const char *subject, uint32_t n, names_t *names, ack_t *ack) noexcept:
    """Reads `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<deliveries>.<sequence>.<consumer sequence>...`."""
    cdef part_t tokens[MOST_TOKENS]
    cdef const char *at = subject
    cdef const char *end = subject + n
    cdef const char *dot
    cdef uint32_t count = 0, first = 2
    while True:
        dot = <const char *> memchr(at, c'.', end - at)
        if count < MOST_TOKENS:
            tokens[count].text = at
            tokens[count].len = <uint32_t> ((end if dot == NULL else dot) - at)
        count += 1
        if dot == NULL:
            break
        at = dot + 1
    if count != TOKENS and count < LONG_TOKENS:
        return False
    if not (equal(tokens[0], part_of(b"$JS")) and equal(tokens[1], part_of(b"ACK"))):
        return False
    if count >= LONG_TOKENS:
        first = 4
    names.stream = tokens[first]
    names.consumer = tokens[first + 1]
    return read_number(tokens[first + 2], &ack.deliveries) and read_number(tokens[first + 3], &ack.sequence) \
        and read_number(tokens[first + 4], &ack.consumer_sequence) and ack.sequence != 0


cdef bint is_plain(const char *body, uint32_t n) noexcept:
    """True if a payload acknowledges, and nothing else. `+OK` is the same word, of old."""
    return n == 0 or (n == 4 and memcmp(body, b"+ACK", 4) == 0) or (n == 3 and memcmp(body, b"+OK", 3) == 0)


def sort_acks(Gathered run not None, find, special) -> list[Acks]:
    """Reads a run of what came to acknowledgement subjects; gives the Acks that something was added to, each once.

    find(stream, consumer)   the Acks of a consumer, None when there is none; asked once where many of its
                             acknowledgements follow one another
    special(delivery)        is called for one that says something else than +ACK, in its place in the order:
                             whoever answers it settles first what is in the Acks of its consumer

    What has a subject that is none, or a sequence of 0, is dropped: the reference server says nothing either.
    """
    cdef record_t record
    cdef ack_t ack
    cdef names_t names
    cdef names_t known       # of the last one, whose Acks are at hand
    cdef const char *at = run.begin
    cdef const char *subject
    cdef const char *payload
    cdef Acks acks = None
    cdef Acks last = None    # that something was added to
    cdef bint is_known = False
    cdef dict touched = {}
    known.stream = known.consumer = part_of(b"")
    while at < run.end:
        memcpy(&record, at, sizeof(record_t))
        subject = at + sizeof(record_t)
        ack.reply.text = subject + record.subject_len
        ack.reply.len = record.reply_len
        at = ack.reply.text + record.reply_len + record.body_len
        payload = at - (record.body_len - record.header_len)
        if not read_ack(subject, record.subject_len, &names, &ack):
            continue
        if not is_plain(payload, record.body_len - record.header_len):
            special(delivery(run._delivery, &record, subject, PyBytes_FromStringAndSize(subject, record.subject_len)))
            is_known = False  # it may have ended the consumer
            continue
        if not (is_known and equal(names.consumer, known.consumer) and equal(names.stream, known.stream)):
            acks = find(text_of(names.stream), text_of(names.consumer))
            known = names
            is_known = True
        if acks is None:
            continue
        if acks is not last:
            touched[acks] = None
            last = acks
        acks.add(&ack, run.block)
    return [acks for acks in touched if acks._count]


def settle(Acks acks not None, PendingMap pending not None, list acked not None, uint64_t below=0) -> list[bytes]:
    """Takes what is acknowledged out of `pending`, adds its sequences to `acked`, in order.

    Gives the reply subjects of those who want to know, also of what was not pending; an acknowledgement of a
    sequence that is not `below` this one (0: any) is none. `acks` is empty then.
    """
    cdef Py_ssize_t i
    cdef list replies = []
    for i in range(acks._count):
        if below and acks._items[i].sequence >= below:
            continue
        if pending.take(acks._items[i].sequence):
            acked.append(acks._items[i].sequence)
        if acks._items[i].reply.len:
            replies.append(text_of(acks._items[i].reply))
    acks.clear()
    return replies


# ---- deliveries ---------------------------------------------------------------------------------

cdef char *put_stamp(char *at, number_t *numbers) noexcept:
    """Writes the numbers of an acknowledgement's subject; gives where they end."""
    cdef int i
    for i in range(NUMBERS):
        at = put_number(at, &numbers[i])
        at[0] = c'.'
        at += 1
    return at - 1


cdef size_t complete(message_t *m, bytes extra, bint headers_only, number_t *size) noexcept:
    """Bytes of a message's headers as they are delivered; `size` is its payload's then, if it is said there."""
    cdef size_t added = PyBytes_GET_SIZE(extra)
    if headers_only:
        set_number(size, m.payload_len)
        added += SIZE_HEADER + length(size)
    if m.headers_len == 0 and added == 0:
        return 0
    return added + (m.headers_len if m.headers_len > 2 else 12)


cdef char *put_headers(char *at, message_t *m, bytes extra, bint headers_only, number_t *size) noexcept:
    """The headers of a message with some at their end."""
    if m.headers_len > 2:
        at = put_bytes(at, m.headers, m.headers_len - 2)
    else:
        at = put_bytes(at, b"NATS/1.0\r\n", 10)
    at = put_bytes(at, PyBytes_AS_STRING(extra), PyBytes_GET_SIZE(extra))
    if headers_only:
        at = put_bytes(at, b"Nats-Msg-Size: ", SIZE_HEADER - 2)
        at = put_number(at, size)
        at = put_bytes(at, b"\r\n", 2)
    return put_bytes(at, b"\r\n", 2)


cdef struct stamp_t:
    # An acknowledgement's subject: what it begins with, and the numbers behind that.
    uint32_t prefix_len
    number_t numbers[NUMBERS]
    char text[PREFIX_ROOM + STAMP_ROOM]


cdef int begin_stamp(stamp_t *stamp, bytes prefix, uint64_t deliveries) except -1:
    """Begin the acknowledgement subjects of one consumer. Raises: ValueError for a prefix that cannot be one."""
    cdef part_t beginning = part_of(prefix)
    cdef int i
    if not 0 < beginning.len <= PREFIX_ROOM or not is_word(beginning.text, beginning.len):
        raise ValueError(f"not the beginning of an acknowledgement subject: {prefix!r}")
    stamp.prefix_len = beginning.len
    memcpy(stamp.text, beginning.text, beginning.len)
    for i in range(NUMBERS):
        write_number(&stamp.numbers[i], 0)
    set_number(&stamp.numbers[0], deliveries)
    return 0


cdef size_t put_delivery(Outgoing out, part_t to, stamp_t *stamp, message_t *m, uint64_t consumer_sequence,
                         uint64_t num_pending, bint headers_only, bytes extra, number_t *size) except 0:
    """Publishes one message to an inbox; gives its bytes as `deliver` counts them."""
    cdef part_t shown, reply
    cdef size_t head, body
    cdef char *at
    set_number(&stamp.numbers[1], m.sequence)
    set_number(&stamp.numbers[2], consumer_sequence)
    set_number(&stamp.numbers[3], <uint64_t> m.time)
    set_number(&stamp.numbers[4], num_pending)
    reply.text = stamp.text
    reply.len = <uint32_t> (put_stamp(stamp.text + stamp.prefix_len, stamp.numbers) - stamp.text)
    shown.text = m.subject
    shown.len = m.subject_len if is_word(m.subject, m.subject_len) else 0
    head = complete(m, extra, headers_only, size)
    body = head + (0 if headers_only else m.payload_len)
    at = out.open_shown(to, shown, reply, <uint32_t> head, body)
    if headers_only or PyBytes_GET_SIZE(extra) or head != m.headers_len:
        at = put_headers(at, m, extra, headers_only, size)
    else:
        at = put_bytes(at, m.headers, head)
    if not headers_only:
        put_bytes(at, m.payload, m.payload_len)
    return to.len + reply.len + body


cdef int deliver_one(Outgoing out, part_t inbox, bytes ack_prefix, message_t *m, uint64_t consumer_sequence,
                     uint64_t num_pending) except -1:
    """Publishes one message, whole and for the first time, to an inbox that can stand in a control line."""
    cdef stamp_t stamp
    cdef number_t size
    write_number(&size, 0)
    begin_stamp(&stamp, ack_prefix, 1)
    put_delivery(out, inbox, &stamp, m, consumer_sequence, num_pending, False, b"", &size)
    return 0


def deliver(Outgoing out not None, bytes inbox not None, bytes ack_prefix not None, Messages messages not None,
            Py_ssize_t start, Py_ssize_t count, uint64_t consumer_sequence, uint64_t num_pending, PendingMap pending,
            int64_t now_ns, *, uint64_t deliveries=1, bint headers_only=False, bytes extra not None=b"") -> int:
    """Publishes stored messages to a consumer's inbox, shown with their own subjects.

    Gives their bytes as the reference server counts them: inbox, acknowledgement subject, headers and payload.

    ack_prefix         `$JS.ACK.<stream>.<consumer>.`; the numbers of each delivery follow it
    consumer_sequence  of the first of them
    num_pending        messages that the consumer has still to get after the first of them
    pending            notes them as awaiting their acknowledgement; None: nothing is acknowledged
    deliveries         how often each was delivered, with this one
    headers_only       payloads stay here, a header `Nats-Msg-Size` says how long they are
    extra              header lines, each with its line end, that all get

    Raises: IndexError for messages that are not there, ValueError for an inbox or a prefix that cannot be one.
    """
    cdef Py_ssize_t i
    cdef message_t *m
    cdef part_t to = part_of(inbox)
    cdef stamp_t stamp
    cdef number_t size
    cdef size_t total = 0
    if not (0 <= start <= messages.count and 0 <= count <= messages.count - start):
        raise IndexError(f"{count} messages from {start} of {messages.count}")
    if to.len == 0 or not is_word(to.text, to.len):
        raise ValueError(f"not an inbox: {inbox!r}")
    begin_stamp(&stamp, ack_prefix, deliveries)
    write_number(&size, 0)
    for i in range(start, start + count):
        m = &messages.items[i]
        total += put_delivery(out, to, &stamp, m, consumer_sequence, num_pending, headers_only, extra, &size)
        if pending is not None:
            pending.track(m.sequence, consumer_sequence, now_ns)
        consumer_sequence += 1
        if num_pending:
            num_pending -= 1
    return total
