# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Publications to one stream that ask for nothing but to be stored, or stored once: gathered, appended, answered.

What here is done in one call after the other, Python does in the same order for everything else
(`headrace.jetstream.stream.ingest`), and with the same results, byte for byte. The owner of a lane opens it where
no message without headers of ours needs a look at anything but limits. What a limit, the log or a sync that failed
stands against goes back to the owner, which judges it as ever: nothing is refused here.
"""

from cpython.dict cimport PyDict_Contains, PyDict_Size
from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp, memcpy

from headrace.engine.batches cimport Block, Outgoing, is_word, part_t, record_t
from headrace.engine.ids cimport IdWindow
from headrace.engine.jetstream cimport Publications, has_only_id, is_special, read_id
from headrace.engine.lanes cimport NOT_MINE, TAKEN, HeldBytes, Lane, StreamCounts
from headrace.engine.log_core cimport LogAppends
from headrace.engine.structs cimport hr_hash
from headrace.errors import LogError

cdef enum:
    SPARE_ROOM = 4096        # messages that an empty batch keeps its memory for


cdef class PublishLane(Lane):
    """The lane of one stream's publications.

    `unanswered`: bytes of its publications, and what they take besides, that wait for a sync.

    The owner answers these calls:

        make_batch()                   an empty `Publications`
        take_over(batch, ids, error)   to be judged and stored in the turn that is next, before anything else, which
                                       then sets `is_behind` to False; `ids`: by place; `error`: why the log refused
                                       it, or None when it was not tried
        appended(last, time, stored)   what follows an append where limits may remove something
        hold(batch, first)             appended from sequence `first` on, to be answered when it is durable
        announce(batch, first)         durable: whoever follows the stream is to hear of it; gives whether a turn
                                       is wanted
    """

    def __init__(self, StreamCounts stream not None, owner, IdWindow ids not None, log, now_ns, Outgoing out not None,
                 bytes head not None, bytes tail not None, bytes repeated not None):
        self._stream = stream
        self._owner = owner
        self._ids = ids
        self._log = log
        self._appends = log.appends
        self._now_ns = now_ns
        self._out = out
        self._head = head
        self._tail = tail
        self._repeated = repeated
        self._subjects = [None] * KNOWN_SUBJECTS

    def open(self, dict consumers not None, dict followers not None, HeldBytes held not None,
             HeldBytes held_by_all not None, *, uint64_t largest, bint answers, bint waits, marks, bint is_memory,
             bint trims, int64_t room, int64_t room_of_all, wants=None):
        """Messages may be taken from now on, by these rules; again for others. See the fields for what they are."""
        self._wants = wants
        self.forget_interest()
        self._consumers = consumers
        self._followers = followers
        self._held = held
        self._held_by_all = held_by_all
        self._largest = largest
        self._answers = answers
        self._waits = waits
        self._marks = marks
        self._due = None if marks is None else marks.due
        self._failed = None if marks is None else marks.failed
        self._is_memory = is_memory
        self._trims = trims
        self._room = room
        self._room_of_all = room_of_all
        self.is_open = True

    def forget_interest(self):
        """Has `wants` asked again about each subject: consumers have come, gone or changed."""
        self._subjects = [None] * KNOWN_SUBJECTS

    cdef bint _is_wanted(self, const char *subject, size_t n) except -1:
        """True if a message must be kept: a consumer wants it, or messages stay anyway."""
        cdef size_t place = hr_hash(subject, n, 0) % KNOWN_SUBJECTS
        cdef PyObject *known = <PyObject *> PyList_GET_ITEM(self._subjects, place)
        if known != <PyObject *> None and <size_t> PyBytes_GET_SIZE(<bytes> known) == n \
                and memcmp(PyBytes_AS_STRING(<bytes> known), subject, n) == 0:
            return self._wanted[place]
        text = subject[:n]
        self._wanted[place] = self._wants(text)
        self._subjects[place] = text
        return self._wanted[place]

    cdef int take(self, record_t *record, const char *subject, Block block) except -1:
        cdef part_t msg_id
        cdef uint64_t known
        if self.is_behind:
            return NOT_MINE
        if self._wants is not None and not self._is_wanted(subject, record.subject_len):
            return NOT_MINE
        if not is_special(record, subject, self._largest):
            if self._gathered is None:
                self._begin()
            self._gathered.gather(record, subject, block)
            return TAKEN
        if not self._ids.is_filled or not has_only_id(record, subject, self._largest, &msg_id):
            return NOT_MINE
        if self._gathered is None:
            self._begin()
        self._ids.forget_before(self._now)
        known = self._ids.find_id(msg_id.text, msg_id.len)
        if known:
            return self._repeat(record, subject, known)
        if self._ids.window_ns > 0:
            known = self._stream.last_sequence + <uint64_t> self._gathered.count + 1
            self._ids.note_id(msg_id.text, msg_id.len, known, self._now)
            self._noted += 1
        self._gathered.gather(record, subject, block)
        return TAKEN

    cdef int _begin(self) except -1:
        """Makes ready for the first message of a batch."""
        self._gathered, self._spare = self._spare, None
        if self._gathered is None:
            self._gathered = self._owner.make_batch()
        self._now = max(<int64_t> self._now_ns(), self._stream.last_time_ns)
        return 0

    cdef int _repeat(self, record_t *record, const char *subject, uint64_t sequence) except -1:
        """Answers a message that was stored before, if that is settled; what is gathered is stored first."""
        cdef part_t reply, none
        cdef bytes body
        cdef char *at
        if sequence > self._stream.last_sequence:
            self._wants_turn |= self._store()
        if sequence > self._stream.visible or self.is_behind:
            return NOT_MINE
        reply.text = subject + record.subject_len
        reply.len = record.reply_len
        if self._answers and reply.len and is_word(reply.text, reply.len):
            none.len = 0
            body = b"%b%d%b" % (self._head, sequence, self._repeated)
            at = self._out.open(reply, none, 0, PyBytes_GET_SIZE(body))
            memcpy(at, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))
        return TAKEN

    cdef bint finish(self) except -1:
        cdef bint wants_turn = self._wants_turn
        self._wants_turn = False
        return self._store() or wants_turn

    cdef bint _store(self) except -1:
        """Stores what is gathered; whether a turn is wanted."""
        cdef Publications batch = self._gathered
        cdef uint64_t first = self._stream.last_sequence + 1
        cdef bint wants_turn
        self._gathered = None
        if batch is None:
            return False
        if batch.count == 0:
            self._spare = batch
            return False
        if self._must_ask(batch):
            return self._take_over(batch, None)
        batch.at(self._now)
        try:
            if not self._appends.append(batch):
                self._log.append(batch)
        except LogError as error:
            return self._take_over(batch, error)
        except BaseException:
            self._forget_gathered()
            raise
        self._noted = 0
        self._count(batch, first, self._now)
        if self._waits:
            self._owner.hold(batch, first)
            return True
        wants_turn = self._answer(batch, first)
        if (<PyObject *> batch).ob_refcnt == 1 and batch._room <= SPARE_ROOM:
            batch.clear()
            self._spare = batch
        return wants_turn

    cdef bint _must_ask(self, Publications batch) except -1:
        """True if anything stands against storing and answering these here."""
        cdef int64_t held, held_by_all
        if not self.is_open:
            return True
        if not self._waits and (self.unanswered or self._failed is not None
                                and PyDict_Contains(self._failed, self._log)):
            return True
        held = self._held.memory if self._is_memory else self._held.storage
        held_by_all = self._held_by_all.memory if self._is_memory else self._held_by_all.storage
        return 0 <= self._room < held + <int64_t> batch.size or 0 < self._room_of_all < held_by_all

    cdef bint _take_over(self, Publications batch, object error) except -1:
        """Gives what was gathered back to the owner, with the ids of those that have one by their places."""
        cdef dict ids = {}
        cdef part_t msg_id
        cdef Py_ssize_t i
        self._forget_gathered()
        batch.at_any_time()
        for i in range(batch.count):
            if read_id(batch.items[i].headers, batch.items[i].headers_len, &msg_id):
                ids[i] = msg_id.text[:msg_id.len]
        self._owner.take_over(batch, ids, error)
        self.is_behind = True
        return True

    cdef int _forget_gathered(self) except -1:
        """Takes back the ids of what was not stored."""
        self._ids.withdraw(self._noted)
        self._noted = 0
        return 0

    cdef int _count(self, Publications batch, uint64_t first, int64_t now) except -1:
        """Counts messages that are in the log now."""
        cdef StreamCounts stream = self._stream
        cdef uint64_t last = first + <uint64_t> batch.count - 1
        cdef int64_t size, more
        cdef part_t msg_id
        batch.stored(first)
        self._ids.newest_id = b""
        if read_id(batch.items[batch.count - 1].headers, batch.items[batch.count - 1].headers_len, &msg_id):
            self._ids.newest_id = msg_id.text[:msg_id.len]
        if self._trims:
            self._owner.appended(last, now, batch.count)
        else:
            stream.held += batch.count
            stream.last_sequence = last
            stream.last_time_ns = now
        size = self._appends.bytes_held()
        if size < 0:
            size = self._log.size
        more = size - stream.measured
        stream.measured = size
        if self._is_memory:
            self._held.memory += more
            self._held_by_all.memory += more
        else:
            self._held.storage += more
            self._held_by_all.storage += more
        return 0

    cdef bint _answer(self, Publications batch, uint64_t first) except -1:
        """Tells publishers and consumers; whether a turn is wanted."""
        cdef uint64_t last = first + <uint64_t> batch.count - 1
        if self._due is not None and not PyDict_Contains(self._due, self._log):
            self._marks.note(self._log)
        if self._answers:
            batch.acknowledge(self._out, self._head, self._tail)
        self._stream.visible = max(self._stream.visible, last)
        if PyDict_Size(self._consumers) or PyDict_Size(self._followers):
            return self._owner.announce(batch, first)
        return False
