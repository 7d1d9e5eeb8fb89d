# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The progress of a consumer: its numbers, what changed of them since they were written, and the bytes of that.

`ConsumerNumbers` is what survives a restart, `ConsumerCore` changes it, `ConsumerDeltas` are the consumers that
have something to be written, `DeltaWriter` writes it to their account's journal, `ConsumerTable` finds them by name. No
policy: what an acknowledgement means and what goes to whom is
`headrace.jetstream.consumer`'s, whose `AckState` is a `ConsumerCore`. What happens once per message is here, with no
Python object for it; what is rare (messages sent again, passed over) is in Python's own tables.

The changes are a MessagePack array, `ConsumerState.apply` reads it: 1, the four numbers, then of what is new the
first consumer sequence, ns and the sequences of each run, what was renewed, what is gone, and four lists of the
rare. Sequences without a gap are the first of them and their negative number.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from cpython.dict cimport PyDict_Contains, PyDict_Size

from headrace.engine.log_core cimport LogAppends
from headrace.engine.memory cimport buf_append, buf_free, buf_reserve
from headrace.engine.messages cimport NewMessages, message_t
from headrace.engine.pending cimport PendingMap, pending_t
from headrace.engine.structs cimport HR_GUARD, buf_t, hr_hash
from headrace.errors import LogError

cdef enum:
    KEPT = 4096              # bytes of a list of changes that is empty; a larger one gives its memory back
    LONGEST_NUMBER = 9       # bytes of a number in MessagePack
    CHANGES = 1              # the tag of changes, as against the whole
    FIELDS = 9               # of changes, with the tag
    ENTRY_HEAD = 13          # of an entry of the journal: kind, u32 length, u64 identity
    IDENTITY_BYTES = 8


# ---- MessagePack --------------------------------------------------------------------------------

cdef inline int put_tagged(buf_t *out, unsigned char tag, uint64_t value, int size) except -1:
    """A tag and the lowest `size` bytes of a number, the highest first."""
    cdef unsigned char text[LONGEST_NUMBER]
    cdef int i
    text[0] = tag
    for i in range(size):
        text[1 + i] = <unsigned char> (value >> (8 * (size - 1 - i)))
    return buf_append(out, <const char *> text, 1 + size)


cdef int put_number(buf_t *out, uint64_t value) except -1:
    if value < 0x80:
        return put_tagged(out, <unsigned char> value, 0, 0)
    if value <= 0xFF:
        return put_tagged(out, 0xCC, value, 1)
    if value <= 0xFFFF:
        return put_tagged(out, 0xCD, value, 2)
    if value <= 0xFFFFFFFF:
        return put_tagged(out, 0xCE, value, 4)
    return put_tagged(out, 0xCF, value, 8)


cdef int put_signed(buf_t *out, int64_t value) except -1:
    if value >= 0:
        return put_number(out, <uint64_t> value)
    if value >= -0x20:
        return put_tagged(out, <unsigned char> value, 0, 0)
    if value >= -0x80:
        return put_tagged(out, 0xD0, <uint64_t> value, 1)
    if value >= -0x8000:
        return put_tagged(out, 0xD1, <uint64_t> value, 2)
    if value >= -0x80000000ll:
        return put_tagged(out, 0xD2, <uint64_t> value, 4)
    return put_tagged(out, 0xD3, <uint64_t> value, 8)


cdef int put_array(buf_t *out, uint64_t count) except -1:
    """The head of an array; what is in it follows."""
    if count < 16:
        return put_tagged(out, <unsigned char> (0x90 | count), 0, 0)
    if count <= 0xFFFF:
        return put_tagged(out, 0xDC, count, 2)
    return put_tagged(out, 0xDD, count, 4)


cdef int put_span(buf_t *out, uint64_t first, uint64_t count) except -1:
    """Sequences one after the other."""
    cdef uint64_t i
    if count > 2:
        put_array(out, 2)
        put_number(out, first)
        return put_signed(out, -<int64_t> count)
    put_array(out, count)
    for i in range(count):
        put_number(out, first + i)
    return 0


cdef int put_sequences(buf_t *out, const uint64_t *sequences, uint64_t count) except -1:
    cdef uint64_t i
    for i in range(1, count):
        if sequences[i] != sequences[0] + i:
            put_array(out, count)
            for i in range(count):
                put_number(out, sequences[i])
            return 0
    return put_span(out, sequences[0] if count else 0, count)


cdef int put_list(buf_t *out, numbers) except -1:
    put_array(out, 0 if numbers is None else len(numbers))
    if numbers is not None:
        for number in numbers:
            put_number(out, number)
    return 0


# ---- numbers ------------------------------------------------------------------------------------

cdef class ConsumerNumbers:
    """Numbers of a consumer: deliveries, acknowledgement floor, messages that are pending, sent again or passed over.

    `redelivered`: how often a message was sent again. `held`: messages passed over for the sake of keyed order.
    """

    def __cinit__(self):
        self.pending = PendingMap()
        self.redelivered = {}
        self.held = {}


cdef class ConsumerCore:
    """Changes a consumer's numbers, and gathers what must be written of that.

    next_sequence            where the stream is read on
    passed_to                up to where nothing is for this consumer, without having been looked at
    floor_consumer, floor_stream   the floor that acknowledgements are judged by; the one that is shown and stored is
                             its numbers', and stays behind when messages are given up
    delivered_ns, acknowledged_ns  when something was, 0: never since the start
    known_lowest             the smallest pending sequence, when it is known and still pending
    is_stuck                 what the shown floor waits for was given up: it moves when nothing is pending any more
    tracks                   deliveries await their acknowledgement
    active_ns                when a client was last heard of, for consumers that go when they are not used
    epoch                    of the stream, when it was last looked at what is not there any more
    most_pending             messages that may be pending; 0: any number
    settles_alone            a plain acknowledgement is of one message and concerns nobody else; may change at any time
    acked                    is told the sequences that `settle_one` settled in a tick, a list; None: nobody is
    waits_again              tables of messages that are not to be sent again once they are acknowledged; None: none are
    identity, is_stored      its account's number for it in the journal, and whether it is written there
    """

    def __cinit__(self, policy, ConsumerNumbers state not None, ConsumerDeltas deltas not None):
        """`policy`: the subclass' business."""
        self._state = state
        self.pending = state.pending
        self._deltas = deltas
        self.identity = 0
        self.next_sequence = 1
        memset(&self._runs, 0, sizeof(buf_t))
        memset(&self._sequences, 0, sizeof(buf_t))
        memset(&self._gone, 0, sizeof(buf_t))

    def __dealloc__(self):
        buf_free(&self._runs)
        buf_free(&self._sequences)
        buf_free(&self._gone)

    # ---- deliveries ------------------------------------------------------------------------------

    def sent(self, sequences not None, int64_t ns) -> None:
        """New messages went out, ascending; those that await acknowledgement are in `pending` already.

        Raises: IndexError for none.
        """
        cdef ConsumerNumbers state = self._state
        cdef uint64_t count = len(sequences)
        cdef uint64_t number = state.delivered_consumer + 1
        cdef uint64_t first, last, sequence
        if count == 0:
            raise IndexError("no message went out")
        first, last = sequences[0], sequences[count - 1]
        state.delivered_consumer += count
        state.delivered_stream = last
        self.next_sequence = max(self.next_sequence, last + 1)
        self.delivered_ns = ns
        if not self.tracks:
            self._set_floor()
        elif last - first == count - 1:
            self.note_run(number, ns, first, count)
        else:
            buf_reserve(&self._sequences, count * sizeof(uint64_t))
            for sequence in sequences:
                buf_append(&self._sequences, <const char *> &sequence, sizeof(uint64_t))
            self._note(number, ns, 0, count, True)
        self.note_change()

    def sent_one(self, uint64_t sequence, int64_t ns) -> None:
        """One new message went out, perhaps one that had been passed over."""
        self.note_sent(sequence, ns)

    cdef int note_sent(self, uint64_t sequence, int64_t ns) except -1:
        """`sent_one`, for compiled code."""
        cdef ConsumerNumbers state = self._state
        state.delivered_consumer += 1
        state.delivered_stream = max(sequence, state.delivered_stream)
        self.next_sequence = max(self.next_sequence, sequence + 1)
        self.delivered_ns = ns
        if self.tracks:
            self.pending.track(sequence, state.delivered_consumer, ns)
            self.note_run(state.delivered_consumer, ns, sequence, 1)
            self.known_lowest = min(self.known_lowest, sequence)
        else:
            self._set_floor()
        self.note_change()
        return 0

    def _set_floor(self) -> None:
        """Count every delivered message as acknowledged."""
        self.floor_consumer = self._state.floor_consumer = self._state.delivered_consumer
        self.floor_stream = self._state.floor_stream = self._state.delivered_stream

    # ---- acknowledgements ------------------------------------------------------------------------

    cdef bint can_settle(self) except -1:
        """Check that `settle_one` is all that a plain acknowledgement has to do now."""
        if not self.settles_alone or len(self._state.redelivered):
            return False
        if self.most_pending and self.pending.count >= self.most_pending:
            return False  # there will be room: more is to be sent
        if self.waits_again is not None:
            for table in self.waits_again:
                if table:
                    return False
        return True

    cdef int settle_one(self, uint64_t sequence, int64_t now_ns) except -1:
        """A client acknowledged a message, which may not be pending any more."""
        self.active_ns = self.acknowledged_ns = now_ns
        if self.pending.take(sequence):
            self.note_gone_one(sequence)
            self.lift_floor(True)
            self.note_change()
            if self.acked is not None:
                if self.settled is None:
                    self.settled = []
                self.settled.append(sequence)
        return 0

    cdef int tell_settled(self) except -1:
        """Tells whoever wants to know what was settled since the last time."""
        cdef list settled = self.settled
        self.settled = None
        if settled is not None and self.acked is not None:
            self.acked(settled)
        return 0

    # ---- the floor -------------------------------------------------------------------------------

    cdef int lift_floor(self, bint shown) except -1:
        """The floor is below the first that is still pending; it moves only when what was next to it went.

        `shown`: the floor that is shown moves with it.
        """
        cdef ConsumerNumbers state = self._state
        cdef pending_t *lowest
        cdef uint64_t number, before
        if self.pending.count == 0 and not state.held:
            self.floor_consumer = state.delivered_consumer
            self.floor_stream = self.next_sequence - 1
            if shown:
                state.floor_consumer = state.delivered_consumer
                state.floor_stream = state.delivered_stream
                self.is_stuck = False
            self.known_lowest = 0
            return 0
        if self.pending.find(self.known_lowest) != NULL:
            return 0
        self.known_lowest = self.pending.smallest()
        lowest = self.pending.find(self.known_lowest)
        if lowest == NULL:
            return 0
        number = lowest.number - 1 if lowest.number else 0
        before = self.known_lowest - 1 if self.known_lowest else 0
        if state.held:
            before = min(before, min(state.held) - 1)
        if number > self.floor_consumer:
            self.floor_consumer = number
            self.floor_stream = before
        if shown and number > state.floor_consumer and not self.is_stuck:
            state.floor_consumer = number
            state.floor_stream = before
        elif not shown:
            self.is_stuck = self.skips_one()
        return 0

    def raise_floor(self, bint shown) -> None:
        """Raise the floor after something that was pending went. `shown`: the floor that is shown moves with it."""
        self.lift_floor(shown)

    def skips_one(self) -> bool:
        """Check that what follows on the shown floor is not pending, while something is."""
        cdef pending_t *lowest = self.pending.find(self.pending.smallest())
        return lowest != NULL and lowest.number > self._state.floor_consumer + 1

    def lowest(self) -> int:
        """The smallest pending sequence, 0 when there is none."""
        if self.pending.find(self.known_lowest) == NULL:
            self.known_lowest = self.pending.smallest()
        return self.known_lowest

    # ---- what changed ----------------------------------------------------------------------------

    cdef int note_change(self) except -1:
        if self.is_stored and not self._is_touched:
            self._is_touched = True
            self._deltas._cores[self.identity] = self
        return 0

    def touch(self) -> None:
        """Note that there is something to be written, soon."""
        self.note_change()

    cdef int _note(self, uint64_t number, int64_t sent_ns, uint64_t first, uint64_t count, bint has_gaps) except -1:
        cdef run_t run
        memset(&run, 0, sizeof(run_t))
        run.number = number
        run.sent_ns = sent_ns
        run.first = first
        run.count = count
        run.has_gaps = has_gaps
        return buf_append(&self._runs, <const char *> &run, sizeof(run_t))

    cdef int note_run(self, uint64_t number, int64_t sent_ns, uint64_t first, uint64_t count) except -1:
        """Messages with these sequences, one after the other, went out for the first time."""
        return self._note(number, sent_ns, first, count, False)

    cdef int note_gone_one(self, uint64_t sequence) except -1:
        return buf_append(&self._gone, <const char *> &sequence, sizeof(uint64_t))

    def note_gone(self, list sequences not None) -> None:
        """Note that messages are pending no more."""
        for sequence in sequences:
            self.note_gone_one(sequence)

    def note_renewed(self, sequence, number, ns) -> None:
        """A pending message counts as sent at `ns`."""
        if self._renewed is None:
            self._renewed = {}
        self._renewed[sequence] = (number, ns)

    def note_count(self, sequence, redeliveries) -> None:
        """A message was sent again so often; 0: that is forgotten."""
        if redeliveries:
            if self._counts is None:
                self._counts = {}
            self._counts[sequence] = redeliveries
            return
        if self._counts is not None:
            self._counts.pop(sequence, None)
        if self._uncounted is None:
            self._uncounted = []
        self._uncounted.append(sequence)

    def note_held(self, sequence, *, bint freed=False) -> None:
        """A message was passed over; `freed`: it is so no more."""
        if not freed:
            if self._held is None:
                self._held = {}
            self._held[sequence] = None
            return
        if self._held is not None:
            self._held.pop(sequence, None)
        if self._freed is None:
            self._freed = []
        self._freed.append(sequence)

    cpdef forget_changes(self):
        """The whole was taken: what changed is part of it."""
        self.is_whole_new = False
        reuse(&self._runs)
        reuse(&self._sequences)
        reuse(&self._gone)
        self._renewed = self._counts = self._held = None
        self._uncounted = self._freed = None

    cdef int put_delta(self, buf_t *out) except -1:
        """Appends what changed since the last call, which is then forgotten."""
        cdef bytes whole
        if self.is_whole_new:
            whole = self._state.encode()
            buf_append(out, PyBytes_AS_STRING(whole), PyBytes_GET_SIZE(whole))
        else:
            self._put_changes(out)
        self.forget_changes()
        return 0

    cdef int _put_changes(self, buf_t *out) except -1:
        cdef ConsumerNumbers state = self._state
        put_array(out, FIELDS)
        put_number(out, CHANGES)
        put_array(out, 4)
        put_number(out, state.delivered_consumer)
        put_number(out, state.delivered_stream)
        put_number(out, state.floor_consumer)
        put_number(out, state.floor_stream)
        self._put_runs(out)
        put_array(out, 3 * len(self._renewed) if self._renewed is not None else 0)
        if self._renewed is not None:
            for sequence, (number, ns) in self._renewed.items():
                put_number(out, sequence)
                put_number(out, number)
                put_signed(out, ns)
        put_sequences(out, <const uint64_t *> (self._gone.data + self._gone.start),
                      (self._gone.end - self._gone.start) // sizeof(uint64_t))
        put_array(out, 2 * len(self._counts) if self._counts is not None else 0)
        if self._counts is not None:
            for sequence, count in self._counts.items():
                put_number(out, sequence)
                put_number(out, count)
        put_list(out, self._uncounted)
        put_list(out, self._held)
        return put_list(out, self._freed)

    cdef int _put_runs(self, buf_t *out) except -1:
        cdef const run_t *run = <const run_t *> (self._runs.data + self._runs.start)
        cdef const uint64_t *sequences = <const uint64_t *> (self._sequences.data + self._sequences.start)
        cdef uint64_t i, count = (self._runs.end - self._runs.start) // sizeof(run_t)
        put_array(out, count)
        for i in range(count):
            put_array(out, 3)
            put_number(out, run[i].number)
            put_signed(out, run[i].sent_ns)
            if run[i].has_gaps:
                put_sequences(out, sequences, run[i].count)
                sequences += run[i].count
            else:
                put_span(out, run[i].first, run[i].count)
        return 0

    def take_delta(self) -> bytes:
        """Encode the changes since the last call, as `ConsumerState.apply` takes them."""
        cdef buf_t out
        memset(&out, 0, sizeof(buf_t))
        try:
            self.put_delta(&out)
            return PyBytes_FromStringAndSize(out.data, out.end)
        finally:
            buf_free(&out)


cdef void reuse(buf_t *b) noexcept:
    b.start = b.end = 0
    if b.cap > KEPT:
        buf_free(b)


cdef class ConsumerDeltas:
    """The consumers of an account that have changes to be written, in the order of their first change.

    is_due         they have waited for more of them for long enough
    timer          what ends their waiting; None: nothing does yet
    """

    def __cinit__(self):
        self._cores = {}
        memset(&self._out, 0, sizeof(buf_t))

    def __dealloc__(self):
        buf_free(&self._out)

    def __len__(self):
        return len(self._cores)

    def discard(self, identity) -> None:
        """The consumer is gone, or was written as a whole."""
        cdef ConsumerCore core = self._cores.pop(identity, None)
        if core is not None:
            core._is_touched = False

    cdef bint must_turn(self) noexcept:
        """True if they must be written in a turn, or need a timer because they still wait."""
        return PyDict_Size(self._cores) > 0 and (self.is_due or self.timer is None)

    cdef int put(self, buf_t *out) except -1:
        """Appends the journal's entries of all of them; there are none then."""
        cdef ConsumerCore core
        cdef size_t head
        cdef uint64_t identity
        cdef uint32_t size
        cdef dict cores = self._cores
        self._cores = {}
        for core in cores.values():
            core._is_touched = False
            head = out.end - out.start
            identity = core.identity
            buf_append(out, b"D\0\0\0\0", ENTRY_HEAD - IDENTITY_BYTES)
            buf_append(out, <const char *> &identity, IDENTITY_BYTES)
            core.put_delta(out)
            size = <uint32_t> (out.end - out.start - head - (ENTRY_HEAD - IDENTITY_BYTES))
            memcpy(out.data + out.start + head + 1, &size, sizeof(uint32_t))
        return 0

    cdef int64_t write(self, log, NewMessages batch, bytes subject, list copies) except -1:
        """Append the journal's entries of all of them to a log, as records with this subject; there are none then.

        There is a record behind each of `copies`, all with the same entries. `batch`, which the log does not keep, is
        used for that. Give the bytes of the entries. Raises: LogError, the entries are lost then.
        """
        cdef size_t besides = 0, size, at
        cdef bytes beginning
        cdef message_t *m
        if PyDict_Size(self._cores) == 0:
            return 0
        reuse(&self._out)
        self.put(&self._out)
        size = self._out.end
        for beginning in copies:
            besides += PyBytes_GET_SIZE(beginning)
        buf_reserve(&self._out, besides + len(copies) * size)  # nothing moves from here on
        batch.clear()
        for beginning in copies:
            m = batch.place()
            m.subject, m.subject_len = PyBytes_AS_STRING(subject), <uint32_t> PyBytes_GET_SIZE(subject)
            m.payload, m.payload_len = self._out.data + self._out.end, <uint32_t> (PyBytes_GET_SIZE(beginning) + size)
            buf_append(&self._out, PyBytes_AS_STRING(beginning), PyBytes_GET_SIZE(beginning))
            buf_append(&self._out, self._out.data, size)
        HR_GUARD(self._out.start == 0)
        if not (<LogAppends?> log.appends).append(batch):
            log.append(batch)
        return size

    def take(self) -> bytes:
        """The journal's entries of all of them, b"" when there are none; there are none then."""
        cdef buf_t out
        if not self._cores:
            return b""
        memset(&out, 0, sizeof(buf_t))
        try:
            self.put(&out)
            return PyBytes_FromStringAndSize(out.data, out.end)
        finally:
            buf_free(&out)


# ---- writing ------------------------------------------------------------------------------------

cdef class ChangeCounts:
    """Counts of a log of changes that is written, as Python and compiled code see them (`headrace.change_log`).

    log                 where changes are written; None: it is not open yet
    entries, waiters    of this turn: changes that are not written, and who waits until they are
    appended, synced    number of records appended, and of those of them that are as durable as is promised
    grown, most_growth  bytes of changes since the last snapshot, and how many there may be until the next
    snapshot_due        the next thing to be written is a snapshot
    """

    def __cinit__(self, *_others, **_others_by_name):
        self.entries = []
        self.waiters = []


cdef class DeltaWriter:
    """Writes the deltas of an account to its journal without a turn. The journal answers these calls:

        failed(error, waiters)  nothing could be written
        snapshot_if_grown()     `grown` is over `most_growth`

    `batch`, `subject`, `copies`: as `ConsumerDeltas.write` takes them. `marks`: `SyncMarks` of the committer, or None.
    """

    def __init__(self, ChangeCounts journal not None, ConsumerDeltas deltas not None, marks, *,
                 NewMessages batch not None, bytes subject not None, list copies not None):
        self._journal = journal
        self._deltas = deltas
        self._batch = batch
        self._subject = subject
        self._copies = copies
        self._marks = marks
        if marks is not None:
            self._due = marks.due
            self._failed = marks.failed

    cpdef bint wants_turn(self):
        """True if the journal has something to write in a turn, or deltas need a timer because they still wait."""
        return len(self._journal.entries) or len(self._journal.waiters) or self._deltas.must_turn()

    cdef int write(self) except -1:
        """Write the deltas now, if nothing else is to be written: WRITTEN, FAILED or LATER."""
        cdef ChangeCounts journal = self._journal
        cdef int64_t size
        if self._marks is None or journal.snapshot_due or len(journal.entries) or len(journal.waiters):
            return LATER
        if journal.log is None:
            return LATER if len(self._deltas) else WRITTEN
        if PyDict_Contains(self._failed, journal.log):
            return LATER
        try:
            size = self._deltas.write(journal.log, self._batch, self._subject, self._copies)
        except LogError as error:
            journal.failed(error, [])
            return FAILED
        if size:
            self._count(size)
        return WRITTEN

    cdef int _count(self, int64_t size) except -1:
        """One more record is in the log, with so many bytes of changes."""
        cdef ChangeCounts journal = self._journal
        journal.appended += 1
        journal.synced = journal.appended
        journal.grown += size
        if journal.grown > journal.most_growth:
            journal.snapshot_if_grown()
        if self._due is not None and not PyDict_Contains(self._due, journal.log):
            self._marks.note(journal.log)
        return 0


cdef class DueWork:
    """Work of an account that is due at the end of its turn.

    `touched`: streams that have something to append or to be counted; `woken`: whoever is to be served; `writer`:
    writes what changed of consumers, None before there is one.
    """

    def __cinit__(self, *_others, **_others_by_name):
        self.touched = {}
        self.woken = {}

    @property
    def has_due(self) -> bool:
        """True if there is something to do in this turn."""
        return self.is_there()

    cdef bint is_there(self) except -1:
        """`has_due`, for compiled code."""
        return len(self.touched) > 0 or len(self.woken) > 0 or self.writer is not None and self.writer.wants_turn()


# ---- names --------------------------------------------------------------------------------------

cdef enum:
    RECENT = 256             # consumers that are found without a Python object; a power of 2


cdef class ConsumerTable:
    """The consumers of an account by `<stream>.<consumer>`, as subjects name them."""

    def __cinit__(self):
        self._cores = {}
        self._recent = [None] * RECENT

    def __len__(self):
        return len(self._cores)

    def add(self, bytes name not None, ConsumerCore core not None) -> None:
        """A consumer is there; one of the same name is there no more."""
        self._cores[name] = core
        self._forget(name)

    def discard(self, bytes name not None, ConsumerCore core) -> None:
        """A consumer is gone; another one of the same name stays."""
        if self._cores.get(name) is core:
            del self._cores[name]
            self._forget(name)

    def _forget(self, bytes name) -> None:
        self._recent[hr_hash(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), 0) & (RECENT - 1)] = None

    cdef ConsumerCore find(self, const char *name, uint32_t n):
        """Return a consumer by its name; None: there is no such one."""
        cdef size_t place = hr_hash(name, n, 0) & (RECENT - 1)
        cdef object recent = self._recent[place]
        cdef bytes key
        cdef ConsumerCore core
        if recent is not None:
            key = (<tuple> recent)[0]
            if PyBytes_GET_SIZE(key) == n and memcmp(PyBytes_AS_STRING(key), name, n) == 0:
                return (<tuple> recent)[1]
        key = PyBytes_FromStringAndSize(name, n)
        core = self._cores.get(key)
        if core is not None:
            self._recent[place] = (key, core)
        return core
