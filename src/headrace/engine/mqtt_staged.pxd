"""Publications of QoS 2 that a client has begun and that are not over. See mqtt_staged.pyx."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef enum staged_state_t:
    STAGED_SENT                  # it is on its way to the stream
    STAGED_STORED                # its client has its PUBREC
    STAGED_RELEASED              # it is published, and on its way to where subscribers get it from
    STAGED_KEPT                  # its session keeps it for later subscribers
    STAGED_REMOVED               # its removal from the stream is on its way

cdef struct staged_t:
    staged_t *next               # in its chain
    size_t size                  # bytes that it takes
    uint64_t sequence            # in its stream
    uint64_t asked               # the number of what was asked of JetStream last
    staged_state_t state
    uint16_t identifier
    uint8_t flags                # of its PUBLISH
    bint is_whole                # what follows is there; else only the stream has it
    bint is_birth                # of Sparkplug, perhaps
    uint32_t early               # PUBRELs that came before it was stored
    uint32_t again               # answers that are owed besides the usual one
    uint32_t subject_len
    uint32_t lines_len           # header lines of its properties
    uint32_t reply_len
    uint32_t payload_len
    char text[1]                 # subject, lines, reply, payload

cdef struct staged_table_t:
    staged_t **chains            # power of two, NULL until the first one
    uint32_t cap
    uint32_t count
    size_t bytes

cdef staged_t *find_staged(staged_table_t *t, uint16_t identifier) noexcept
cdef staged_t *add_staged(staged_table_t *t, uint16_t identifier, size_t text_len) except NULL
cdef void remove_staged(staged_table_t *t, staged_t *s) noexcept
cdef void release_table(staged_table_t *t) noexcept
