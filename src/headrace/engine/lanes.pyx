# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Lanes: what a service does with messages of one subscription, in compiled code, in the tick they came in.

A service link (`service`) offers its batch to the lanes of its subscriptions before it hands it to Python. They
take messages off its front, in order, and are finished then: what they gathered is stored, and the answers are in
the link's `Outgoing`. The first message that a lane does not take, or that has none, goes to Python with all
behind it, so order is kept. What a lane may do, and when it is open, is said by the Python code that owns it; a
lane that cannot finish what it took gives it to its owner and asks for a turn.

Switch: with `use_lanes(False)`, or HEADRACE_LANES=0 in the environment, everything goes to Python. Answers and files
are the same; tests play the same scripts both ways.
"""

import os

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.string cimport memcpy

from headrace.engine.batches cimport Block, record_t

cdef bint are_used = os.environ.get("HEADRACE_LANES") != "0"


def use_lanes(bint on) -> bool:
    """Has lanes asked from now on, or not; gives what held before."""
    global are_used
    before, are_used = are_used, on
    return bool(before)


cdef class Lane:
    """Takes nothing: what the lanes of services begin with. `is_open`: closed, its messages are Python's."""

    cdef int take(self, record_t *record, const char *subject, Block block) except -1:
        """Takes a message, whose parts begin at `subject` and live as long as `block`, or not."""
        return NOT_MINE

    cdef bint finish(self) except -1:
        """Does what was taken; whether the service's turn is wanted in this tick."""
        return False

    cdef bint is_apart(self, record_t *record, const char *subject) except -1:
        """True if a message for a lane that asks does not look at what others have taken: see `asks`."""
        return False


cdef class StreamCounts:
    """A stream's counts, as Python and compiled code see them.

    `last_sequence`, `last_time_ns`: of the newest message; `visible`: the last sequence that is durable, up to which
    consumers get messages; `held`: messages; `epoch`: changes whenever messages were removed; `measured`: its bytes, as
    its account counts them.
    """


cdef class HeldBytes:
    """Bytes of messages that an account holds, or all of them, by storage."""


cdef bint finish_all(list touched, object session) except -1:
    """Finishes lanes, in the order in which they were touched; one that fails keeps no other from it."""
    cdef Lane lane
    cdef bint wants_turn = False
    for lane in touched:
        lane.is_touched = False
        try:
            wants_turn |= lane.finish()
        except Exception as error:
            session.failed(error)
    touched.clear()
    return wants_turn


cdef const char *run_lanes(list lanes, Block block, const char *at, const char *end, object session,
                           bint *wants_turn) except NULL:
    """Has lanes, by the sid of their subscription, take records of a block from `at` on; gives where they stopped.

    `session.failed` hears of what a lane raises; a message that was refused so is Python's.
    """
    cdef record_t record
    cdef Lane lane
    cdef list touched = []
    cdef int taken
    wants_turn[0] = False
    while at < end and are_used:
        memcpy(&record, at, sizeof(record_t))
        if record.sid >= <size_t> PyList_GET_SIZE(lanes):
            break
        found = <object> PyList_GET_ITEM(lanes, record.sid)
        if found is None:
            break
        lane = <Lane> found
        if lane.asks and (touched or wants_turn[0]) and not lane.is_apart(&record, at + sizeof(record_t)):
            wants_turn[0] |= finish_all(touched, session)
            if wants_turn[0]:  # what it asks for may be there only after that turn
                break
        try:
            taken = lane.take(&record, at + sizeof(record_t), block) if lane.is_open else NOT_MINE
        except Exception as error:
            session.failed(error)
            taken = NOT_MINE
        if taken == NOT_MINE:
            break
        if not lane.is_touched:
            lane.is_touched = True
            touched.append(lane)
        at += sizeof(record_t) + record.subject_len + record.reply_len + record.body_len
    wants_turn[0] |= finish_all(touched, session)
    return at
