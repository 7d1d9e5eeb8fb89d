"""PUBLISH packets to clients. See mqtt_sending.pyx."""

from libc.stdint cimport int64_t, uint32_t

from headrace.engine.mqtt_headers cimport block_t
from headrace.engine.mqtt_window cimport sending_t
from headrace.engine.structs cimport buf_t, link_t, msg_t

cdef enum sent_t:
    SENT_NOTHING                 # the connection is closing
    SENT
    SENT_DROPPED                 # it has expired, or is larger than its client takes

cdef struct alias_t:
    uint32_t len
    char *topic

cdef struct terms_t:
    # What a client takes.
    int version                  # of its protocol
    uint32_t maximum_packet      # bytes; 0: any
    uint32_t alias_maximum       # topics that may have an alias; 0: none
    uint32_t aliases_count
    alias_t *aliases             # of the topics that have one, by alias less one

cdef struct reading_t:
    # One message, as it is read for a receiver.
    const char *subject
    uint32_t subject_len
    block_t block
    buf_t topic                  # what has no place in a cache
    buf_t response
    buf_t properties
    buf_t identifiers            # of subscriptions, as properties

cdef void begin_reading(reading_t *reading, msg_t *m) noexcept
cdef int read_message(terms_t *terms, msg_t *m, reading_t *reading, sending_t *sending, bint is_stored) except -1
cdef int identify_by(reading_t *reading, sending_t *sending, uint32_t subscription) except -1
cdef void end_reading(reading_t *reading) noexcept
cdef sent_t judge_packet(terms_t *terms, sending_t *sending, size_t *body, size_t *properties, int64_t *left) noexcept
cdef void release_terms(terms_t *terms) noexcept
cdef sent_t send_publish(link_t *l, terms_t *terms, sending_t *sending) noexcept
