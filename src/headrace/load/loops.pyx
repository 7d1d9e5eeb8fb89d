# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops of a load that run once per message: frames written, answers matched, deliveries counted.

Here live bytes and numbers, and nothing that decides: no socket, no clock (`now` is in ns of any clock that only
goes forward), no policy. What a server sends is read within its bounds (`engine/frames.pxd`); a place that it
names is checked before it is used. What is not the usual message goes to Python, in its place in the order.
Never here: which subjects, how many messages, when to stop.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memmove

from headrace.engine.frames cimport FRAME_OTHER, FRAME_PARTIAL, FRAME_WRONG, frame_t, next_frame

from headrace.errors import ProtocolError

cdef extern from "<string.h>" nogil:
    void *memmem(const void *text, size_t n, const void *wanted, size_t m)

cdef extern from *:
    int leading_zeros "__builtin_clzll"(unsigned long long value) noexcept nogil

cdef enum:
    STEP_BITS = 7
    STEPS = 1 << STEP_BITS              # for each power of two: within 1 %
    BUCKETS = (64 - STEP_BITS) * STEPS  # of all ns that fit 63 bits
    DIGITS = 20                         # of the largest number of 64 bits
    STAMP_DIGITS = 10
    VERSION = 8                         # bytes of NATS/1.0, behind which a status stands
    FREE = -1
    GIVEN_UP = -2

_LONGEST_CONTROL = 1 << 20
cdef Py_ssize_t longest_control = _LONGEST_CONTROL


cdef inline int write_number(char *at, int64_t value) noexcept nogil:
    """Write the digits of a number that is not negative; how many there are."""
    cdef char digits[DIGITS]
    cdef int count = 0, place
    while True:
        digits[count] = <char> (c'0' + value % 10)
        count += 1
        value //= 10
        if value == 0:
            break
    for place in range(count):
        at[place] = digits[count - 1 - place]
    return count


cdef inline void write_stamp(char *at, int64_t number) noexcept nogil:
    """Write the last digits of a number, always as many."""
    cdef int place
    for place in range(STAMP_DIGITS - 1, -1, -1):
        at[place] = <char> (c'0' + number % 10)
        number //= 10


# ---- latencies ----------------------------------------------------------------------------------


cdef class LatencyBuckets:
    """Durations in ns, counted in buckets of a logarithmic scale: 128 for each power of two."""

    cdef int64_t *_buckets
    cdef readonly int64_t count
    cdef readonly int64_t total
    cdef readonly int64_t least
    cdef readonly int64_t most

    def __cinit__(self):
        self._buckets = <int64_t *> PyMem_Calloc(BUCKETS, sizeof(int64_t))
        if self._buckets == NULL:
            raise MemoryError
        self.least = INT64_MAX

    def __dealloc__(self):
        PyMem_Free(self._buckets)

    cdef void note(self, int64_t ns) noexcept:
        cdef int shift
        if ns < 0:
            ns = 0
        if ns < STEPS:
            self._buckets[ns] += 1
        else:
            shift = 63 - leading_zeros(<unsigned long long> ns) - STEP_BITS
            self._buckets[(shift + 1) * STEPS + <int> ((ns >> shift) - STEPS)] += 1
        self.count += 1
        self.total += ns
        self.least = min(self.least, ns)
        self.most = max(self.most, ns)

    def record(self, int64_t ns) -> None:
        """Count one duration; a negative one counts as 0."""
        self.note(ns)

    def filled(self) -> dict:
        """Return the counts of the buckets that have one, by the number of the bucket."""
        cdef int place
        return {place: self._buckets[place] for place in range(BUCKETS) if self._buckets[place]}


def bucket_bounds(int bucket):
    """Return the smallest duration of a bucket and the smallest one above it, in ns. Raises: ValueError."""
    cdef int shift
    cdef int64_t least
    if not 0 <= bucket < BUCKETS:
        raise ValueError(f"there is no bucket {bucket}")
    if bucket < STEPS:
        return bucket, bucket + 1
    shift = bucket // STEPS - 1
    least = <int64_t> (bucket % STEPS + STEPS) << shift
    return least, (<object> least) + (1 << <object> shift)


# ---- bytes on their way out ---------------------------------------------------------------------


cdef class SendBuffer:
    """Bytes that wait to be written to a socket; its buffer is all of them."""

    cdef char *_data
    cdef Py_ssize_t _room, _begin, _end, _views

    def __cinit__(self):
        self._room = 1 << 16
        self._data = <char *> PyMem_Malloc(self._room)
        if self._data == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self._data)

    def __len__(self):
        return self._end - self._begin

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._data + self._begin, self._end - self._begin, True, flags)
        self._views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self._views -= 1

    cdef int need(self, Py_ssize_t n) except -1:
        """Make room for `n` bytes at the end."""
        cdef Py_ssize_t pending = self._end - self._begin, room
        cdef char *data
        if n <= self._room - self._end:
            return 0
        if self._views:
            raise BufferError("the bytes are being written")
        if n <= self._room - pending:
            memmove(self._data, self._data + self._begin, pending)
        else:
            room = max(2 * self._room, pending + n)
            data = <char *> PyMem_Malloc(room)
            if data == NULL:
                raise MemoryError
            memcpy(data, self._data + self._begin, pending)
            PyMem_Free(self._data)
            self._data, self._room = data, room
        self._begin, self._end = 0, pending
        return 0

    cdef inline void put(self, const char *text, Py_ssize_t n) noexcept:
        """Append what `need` has made room for."""
        memcpy(self._data + self._end, text, n)
        self._end += n

    def add(self, bytes data not None) -> None:
        """Append bytes."""
        self.need(PyBytes_GET_SIZE(data))
        self.put(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def sent(self, Py_ssize_t n) -> None:
        """Drop the first `n` bytes, which were written. Raises: ValueError if there are fewer."""
        if not 0 <= n <= self._end - self._begin:
            raise ValueError(f"{n} bytes were written of {self._end - self._begin}")
        self._begin += n
        if self._begin == self._end and not self._views:
            self._begin = self._end = 0


# ---- what waits for an answer -------------------------------------------------------------------


cdef class AnswerWindow:
    """Places for what waits for an answer, each with the time when it was sent."""

    cdef int64_t *_sent
    cdef int *_free
    cdef int _free_count
    cdef readonly int size
    cdef readonly int given_up

    def __cinit__(self, int size):
        cdef int place
        if size < 1:
            raise ValueError("a window without a place")
        self.size = size
        self._sent = <int64_t *> PyMem_Calloc(size, sizeof(int64_t))
        self._free = <int *> PyMem_Calloc(size, sizeof(int))
        if self._sent == NULL or self._free == NULL:
            raise MemoryError
        for place in range(size):
            self._sent[place] = FREE
            self._free[place] = size - 1 - place
        self._free_count = size

    def __dealloc__(self):
        PyMem_Free(self._sent)
        PyMem_Free(self._free)

    @property
    def waiting(self) -> int:
        """The number of places whose answer is awaited."""
        return self.size - self._free_count - self.given_up

    cdef inline int take(self, int64_t sent) noexcept:
        """A free place, taken; -1 for none."""
        cdef int place
        if self._free_count == 0:
            return -1
        self._free_count -= 1
        place = self._free[self._free_count]
        self._sent[place] = max(sent, 0)
        return place

    cdef inline int64_t settle(self, int64_t place) noexcept:
        """Free a place whose answer came; the time when it was taken, below 0 if no answer is awaited."""
        cdef int64_t sent
        if not 0 <= place < self.size or self._sent[place] == FREE:
            return FREE
        sent = self._sent[place]
        if sent == GIVEN_UP:
            self.given_up -= 1
        self._sent[place] = FREE
        self._free[self._free_count] = <int> place
        self._free_count += 1
        return sent

    def give_up(self, int64_t before) -> int:
        """Await no more what was sent before a time (ns); how many that were.

        Their places are free again when an answer comes after all, so that it is taken for no other's.
        """
        cdef int place, count = 0
        for place in range(self.size):
            if 0 <= self._sent[place] < before:
                self._sent[place] = GIVEN_UP
                count += 1
        self.given_up += count
        return count


cdef class FrameWriter:
    """Messages of one client, written many at a time: PUB and HPUB frames.

    Subjects and bodies are taken in turn, each list for itself; a body is its header block, which may be empty,
    and its payload. The reply subject of a message is `reply`, a number and `suffix`: with a window the place
    where the answer is awaited, else the number of the message, from 1. Without `reply` there is none.

    With `batch` above 1 only the last of so many messages has a reply subject, and the window counts batches.
    In header blocks the ten digits at the end of `stamp` are replaced by the number of the batch.
    """

    cdef SendBuffer _out
    cdef AnswerWindow _window
    cdef list _kept
    cdef const char **_heads
    cdef const char **_tails
    cdef Py_ssize_t *_head_lengths
    cdef Py_ssize_t *_tail_lengths
    cdef Py_ssize_t *_stamps
    cdef int64_t *_sizes
    cdef Py_ssize_t _head_count, _tail_count, _head, _tail
    cdef int64_t _batch, _in_batch, _place
    cdef double _interval
    cdef int64_t _begun
    cdef public bytes reply
    cdef public bytes suffix
    cdef readonly int64_t messages
    cdef readonly int64_t size

    def __cinit__(
        self,
        SendBuffer out not None,
        list subjects not None,
        list bodies not None,
        *,
        AnswerWindow window=None,
        bytes reply=b"",
        bytes suffix=b"",
        int64_t batch=1,
        bytes stamp=b"",
    ):
        cdef Py_ssize_t place
        cdef bytes head, tail, block, payload
        if not subjects or not bodies or batch < 1:
            raise ValueError("no subject, no body, or an empty batch")
        self._out, self._window, self.reply, self.suffix, self._batch = out, window, reply, suffix, batch
        self._head_count, self._tail_count = len(subjects), len(bodies)
        self._heads = <const char **> PyMem_Calloc(self._head_count, sizeof(char *))
        self._head_lengths = <Py_ssize_t *> PyMem_Calloc(self._head_count, sizeof(Py_ssize_t))
        self._tails = <const char **> PyMem_Calloc(self._tail_count, sizeof(char *))
        self._tail_lengths = <Py_ssize_t *> PyMem_Calloc(self._tail_count, sizeof(Py_ssize_t))
        self._stamps = <Py_ssize_t *> PyMem_Calloc(self._tail_count, sizeof(Py_ssize_t))
        self._sizes = <int64_t *> PyMem_Calloc(self._tail_count, sizeof(int64_t))
        if (
            self._heads == NULL or self._head_lengths == NULL or self._tails == NULL
            or self._tail_lengths == NULL or self._stamps == NULL or self._sizes == NULL
        ):
            raise MemoryError
        with_headers = any(block for block, _ in bodies)
        self._kept = []
        for place in range(self._head_count):
            head = (b"HPUB %b " if with_headers else b"PUB %b ") % subjects[place]
            self._kept.append(head)
            self._heads[place], self._head_lengths[place] = PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head)
        for place in range(self._tail_count):
            block, payload = bodies[place]
            if with_headers:
                tail = b"%d %d\r\n%b%b\r\n" % (len(block), len(block) + len(payload), block, payload)
            else:
                tail = b"%d\r\n%b\r\n" % (len(payload), payload)
            self._kept.append(tail)
            self._tails[place], self._tail_lengths[place] = PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail)
            self._sizes[place] = PyBytes_GET_SIZE(block) + PyBytes_GET_SIZE(payload)
            self._stamps[place] = -1
            if stamp:
                if len(stamp) < STAMP_DIGITS or stamp not in block:
                    raise ValueError("a header block without the stamp")
                self._stamps[place] = tail.index(stamp) + len(stamp) - STAMP_DIGITS

    def __dealloc__(self):
        PyMem_Free(self._heads)
        PyMem_Free(self._head_lengths)
        PyMem_Free(self._tails)
        PyMem_Free(self._tail_lengths)
        PyMem_Free(self._stamps)
        PyMem_Free(self._sizes)

    def pace(self, int64_t begun, double interval) -> None:
        """Count latencies from when a message was due: the n-th at `begun + n * interval`, in ns."""
        self._begun, self._interval = begun, interval

    def fill(self, int64_t most, int64_t now, Py_ssize_t room) -> int:
        """Write up to `most` messages; how many there were.

        It ends before that where `room` bytes wait to be sent or the window has no place. What is not paced
        counts as sent at `now`.
        """
        cdef int64_t done = 0, sent, number
        cdef SendBuffer out = self._out
        cdef bint replies, ends
        cdef Py_ssize_t reply_length = PyBytes_GET_SIZE(self.reply), suffix_length = PyBytes_GET_SIZE(self.suffix)
        cdef const char *reply = PyBytes_AS_STRING(self.reply)
        cdef const char *suffix = PyBytes_AS_STRING(self.suffix)
        cdef char *at
        while done < most and out._end - out._begin < room:
            if self._in_batch == 0 and self._window is not None:
                sent = now
                if self._interval > 0:
                    sent = min(now, self._begun + <int64_t> (self.messages * self._interval))
                self._place = self._window.take(sent)
                if self._place < 0:
                    break
            ends = self._in_batch + 1 == self._batch
            replies = reply_length > 0 and ends
            out.need(
                self._head_lengths[self._head] + self._tail_lengths[self._tail]
                + reply_length + suffix_length + DIGITS + 1
            )
            out.put(self._heads[self._head], self._head_lengths[self._head])
            if replies:
                out.put(reply, reply_length)
                number = self._place if self._window is not None else self.messages + 1
                out._end += write_number(out._data + out._end, number)
                out.put(suffix, suffix_length)
                out.put(b" ", 1)
            at = out._data + out._end
            out.put(self._tails[self._tail], self._tail_lengths[self._tail])
            if self._stamps[self._tail] >= 0:
                write_stamp(at + self._stamps[self._tail], self.messages // self._batch)
            self.size += self._sizes[self._tail]
            self.messages += 1
            done += 1
            self._in_batch = 0 if ends else self._in_batch + 1
            self._head = self._head + 1 if self._head + 1 < self._head_count else 0
            self._tail = self._tail + 1 if self._tail + 1 < self._tail_count else 0
        return done


# ---- bytes that came ----------------------------------------------------------------------------


cdef class FrameReader:
    """A reader of the bytes that a server sends to one client; its buffer is the room for the next ones.

    Messages of subscription `sid` are counted. With `answer`, the end of a PUB frame from its size on, each that
    has a reply subject is answered into `out`. With a window it is itself an answer, to the place that stands
    behind `prefix` in its subject, and its latency goes to `latencies`.
    """

    cdef char *_data
    cdef Py_ssize_t _room, _begin, _end, _views, _most
    cdef SendBuffer _out
    cdef AnswerWindow _window
    cdef bytes _sid, _prefix, _answer
    cdef readonly LatencyBuckets latencies
    cdef readonly int64_t messages
    cdef readonly int64_t size
    cdef readonly int64_t failed
    cdef readonly int64_t first
    cdef readonly int64_t last

    def __cinit__(
        self,
        bytes sid not None,
        Py_ssize_t most,
        *,
        SendBuffer out=None,
        bytes answer=b"",
        AnswerWindow window=None,
        bytes prefix=b"",
    ):
        """`most` is the largest total size of a message that is taken, in bytes."""
        if most < 0 or (answer and out is None):
            raise ValueError("a negative size, or answers without a buffer to write them into")
        self._sid, self._out, self._answer, self._window, self._prefix = sid, out, answer, window, prefix
        self._most = most
        self._room = max(2 * longest_control, most + longest_control)
        self._data = <char *> PyMem_Malloc(self._room)
        if self._data == NULL:
            raise MemoryError
        self.latencies = LatencyBuckets()

    def __dealloc__(self):
        PyMem_Free(self._data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self._begin == self._end and not self._views:
            self._begin = self._end = 0
        elif self._room - self._end < self._room >> 1 and not self._views:
            memmove(self._data, self._data + self._begin, self._end - self._begin)
            self._begin, self._end = 0, self._end - self._begin
        PyBuffer_FillInfo(view, self, self._data + self._end, self._room - self._end, False, flags)
        self._views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self._views -= 1

    def received(self, Py_ssize_t n) -> None:
        """Take `n` bytes that were written through the buffer. Raises: ValueError when it is too much."""
        if not 0 <= n <= self._room - self._end:
            raise ValueError(f"{n} bytes, there was room for {self._room - self._end}")
        self._end += n

    def add(self, bytes data not None) -> None:
        """Take bytes. Raises: ValueError when it is too much."""
        self.received_of(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    cdef int received_of(self, const char *data, Py_ssize_t n) except -1:
        if self._views or n > self._room - self._end:
            raise ValueError(f"{n} bytes, there is room for {self._room - self._end}")
        memcpy(self._data + self._end, data, n)
        self._end += n
        return 0

    def read(self, int64_t now, list others not None, Py_ssize_t room=1 << 20) -> bool:
        """Handle what has come; False if it ended because `room` bytes of answers wait to be sent.

        What is no usual message of the subscription is appended to `others`: a control line as bytes, a message
        as (sid, subject, reply or None, header block, payload). Raises: ProtocolError.
        """
        cdef frame_t frame
        cdef int found
        cdef const char *newline
        while True:
            if self._out is not None and self._out._end - self._out._begin >= room:
                return False
            found = next_frame(self._data, self._end, self._begin, self._most, &frame)
            if found == FRAME_OTHER:
                newline = <const char *> memchr(self._data + self._begin, c'\n', self._end - self._begin)
                if newline == NULL:
                    if self._end - self._begin > longest_control:
                        raise ProtocolError("a line without an end")
                    return True
                found = newline - (self._data + self._begin) + 1
                others.append(PyBytes_FromStringAndSize(self._data + self._begin, found))
                self._begin += found
                continue
            if found == FRAME_PARTIAL:
                return True
            if found == FRAME_WRONG:
                raise ProtocolError("a message that no NATS server writes, or a larger one than it says it takes")
            if not self._handle(&frame, now):
                others.append(_message_of(self._data, &frame))
            self._begin = frame.start + frame.total + 2

    cdef bint _handle(self, frame_t *frame, int64_t now) except -1:
        """Count a message and what comes of it; False if Python has to see it."""
        cdef const char *block = self._data + frame.start
        cdef bint has_status = frame.header > VERSION and block[VERSION] == c' '
        if frame.lengths[1] != PyBytes_GET_SIZE(self._sid):
            return False
        if memcmp(frame.words[1], PyBytes_AS_STRING(self._sid), frame.lengths[1]) != 0:
            return False
        if self._window is not None:
            return self._settle(frame, now, has_status)
        if has_status:
            return False
        if self._answer:
            if frame.reply == NULL:
                return False
            self._out.need(4 + frame.reply_length + 1 + PyBytes_GET_SIZE(self._answer))
            self._out.put(b"PUB ", 4)
            self._out.put(frame.reply, frame.reply_length)
            self._out.put(b" ", 1)
            self._out.put(PyBytes_AS_STRING(self._answer), PyBytes_GET_SIZE(self._answer))
        self._count(frame, now)
        return True

    cdef inline void _count(self, frame_t *frame, int64_t now) noexcept:
        if self.messages == 0:
            self.first = now
        self.last = now
        self.messages += 1
        self.size += frame.total

    cdef bint _settle(self, frame_t *frame, int64_t now, bint has_status) except -1:
        """Settle the place that an answer is for; False if there is none, or if it says that something failed."""
        cdef Py_ssize_t at = PyBytes_GET_SIZE(self._prefix), length = frame.lengths[0]
        cdef int64_t place = 0, sent
        if not at < length <= at + DIGITS - 2 or memcmp(frame.words[0], PyBytes_AS_STRING(self._prefix), at) != 0:
            return False
        while at < length:
            if not c'0' <= frame.words[0][at] <= c'9':
                return False
            place = place * 10 + (frame.words[0][at] - c'0')
            at += 1
        sent = self._window.settle(place)
        if sent == FREE:
            return False
        if has_status or _says_error(self._data, frame):
            self.failed += 1
            self.last = now
            return False
        if sent >= 0:
            self.latencies.note(now - sent)
        self._count(frame, now)
        return True


cdef inline bint _says_error(const char *data, frame_t *frame) noexcept:
    """True for an error of JetStream in JSON, and for one of a service in a header."""
    cdef const char *payload = data + frame.start + frame.header
    if frame.header > 0 and memmem(data + frame.start, frame.header, b"\r\nNats-Service-Error-Code:", 26) != NULL:
        return True
    return frame.total - frame.header > 9 and memcmp(payload, b'{"error":', 9) == 0


cdef tuple _message_of(const char *data, frame_t *frame):
    cdef const char *block = data + frame.start
    reply = None if frame.reply == NULL else PyBytes_FromStringAndSize(frame.reply, frame.reply_length)
    return (
        PyBytes_FromStringAndSize(frame.words[1], frame.lengths[1]),
        PyBytes_FromStringAndSize(frame.words[0], frame.lengths[0]),
        reply,
        PyBytes_FromStringAndSize(block, frame.header),
        PyBytes_FromStringAndSize(block + frame.header, frame.total - frame.header),
    )
