"""Words, messages and interest as the wires between servers write them."""

from libc.stdint cimport int64_t, uint32_t

from headrace.engine.client cimport line_t
from headrace.engine.reply_mapping cimport PREFIX_LEN
from headrace.engine.structs cimport buf_t, remote_t, interest_t, link_t, msg_t, sub_t, target_t, word_t

cdef struct wire_t:
    # What taking in a line needs; one for each link.
    word_t *words                # of the line in hand
    uint32_t count
    uint32_t cap
    buf_t text                   # a key
    buf_t head                   # of a message that is shown with another subject
    char prefix[PREFIX_LEN]      # what was taken off its reply subject

cdef int split(wire_t *w, line_t *line) except -1
cdef void release_wire(wire_t *w) noexcept
cdef int read_message(wire_t *w, remote_t *remote, uint32_t skipped, uint32_t sizes, msg_t *m) noexcept
cdef int fit_tail(wire_t *w, link_t *l, uint32_t sizes, line_t *line, msg_t *m) except -1
cdef int keep_tail(link_t *l, word_t *first, word_t *last, line_t *line, msg_t *m) except -1
cdef int add_word(wire_t *w, word_t *text) except -1
cdef sub_t *new_remote_sub(wire_t *w, link_t *l, word_t *origin, uint32_t subject_len, uint32_t queue_len,
                        uint32_t hash) except NULL
cdef int write_message(target_t *target, msg_t *m, char kind, word_t *origin, word_t *account) except -1
cdef void write_interest(link_t *l, sub_t *s, char kind, word_t *origin, word_t *account, int64_t weight) noexcept
