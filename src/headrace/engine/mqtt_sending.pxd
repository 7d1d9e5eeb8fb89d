"""PUBLISH packets to clients. See mqtt_sending.pyx."""

from libc.stdint cimport int64_t, uint32_t

from headrace.engine.mqtt_headers cimport block_t
from headrace.engine.mqtt_window cimport sending_t
from headrace.engine.structs cimport buf_t, link_t, msg_t

cdef enum sent_t:
    SENT_NOTHING                 # the connection is closing
    SENT
    SENT_DROPPED                 # it has expired, or is larger than its client takes

cdef struct terms_t:
    # What a client takes.
    int version                  # of its protocol
    uint32_t maximum_packet      # bytes; 0: any

cdef struct reading_t:
    # One message, as it is read for a receiver.
    const char *subject
    uint32_t subject_len
    block_t block
    buf_t topic                  # what has no place in a cache
    buf_t response
    buf_t properties

cdef void begin_reading(reading_t *reading, msg_t *m) noexcept
cdef int read_message(terms_t *terms, msg_t *m, reading_t *reading, sending_t *sending, uint32_t subscription,
                      bint is_stored) except -1
cdef void end_reading(reading_t *reading) noexcept
cdef sent_t judge_packet(terms_t *terms, sending_t *sending, size_t *body, size_t *properties, int64_t *left) noexcept
cdef sent_t send_publish(link_t *l, terms_t *terms, sending_t *sending) noexcept
