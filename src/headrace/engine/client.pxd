"""The client protocol as other links use it: lines, payloads, subjects, the table of subscriptions by sid."""

from libc.stdint cimport uint32_t

from headrace.engine.link cimport Link
from headrace.engine.structs cimport link_t, sub_t, word_t

cdef enum:
    OP_PARTIAL = 0
    OP_UNKNOWN = 1
    MOST_ARGUMENTS = 5       # one more than any op of a client takes, so that too many is noticed

cdef struct line_t:
    # One control line: arguments after the op, and where the next line begins.
    const char *start
    const char *end          # before CR and LF
    char *next
    uint32_t count
    bint is_crlf
    word_t args[MOST_ARGUMENTS]

cdef class ClientLink(Link):
    cdef _remove(self, bytes sid)


cdef int unknown_op(link_t *l, const char *at, const char *end) except -1

cdef inline bint is_separator(char c) noexcept:
    return c == c' ' or c == c'\t'


cdef inline bint is_op(link_t *l, int op, bint has_arguments, char *p, char *args, char *end) except -1:
    """True if an op is at `p`, and enough of it to say so; anything else dooms the link."""
    if op == OP_PARTIAL or op != OP_UNKNOWN and has_arguments and args == end:
        return False
    if op == OP_UNKNOWN or has_arguments and not is_separator(args[0]):
        unknown_op(l, p, end)
        return False
    return True


cdef int word(const char *p, const char *end, const char *upper, uint32_t n, int op) noexcept
cdef bint read_line(link_t *l, char *args, char *end, line_t *line) noexcept
cdef char *read_open_line(link_t *l, char *p, uint32_t length, char *end, line_t *line) noexcept
cdef long long size_of(word_t *a) noexcept
cdef int bad_arguments(link_t *l, str op, line_t *line) except -1
cdef bint has_payload(link_t *l, char *op, char *body, char *end, long long size, size_t *need) except -1
cdef bytes trimmed(line_t *line)
cdef bint is_valid_subject(const char *s, uint32_t n, bint literal) noexcept
cdef bint is_reserved_subject(const char *s, uint32_t n) noexcept
cdef bint is_reserved_reply(const char *s, uint32_t n) noexcept
cdef uint32_t tokens_in(word_t *subject) noexcept
cdef sub_t *sub_named(link_t *l, bytes sid) noexcept
cdef sub_t *hang_sub(link_t *l, word_t *subject, word_t *queue, word_t *sid, uint32_t hash, uint32_t flags) except NULL
cdef sub_t *find_sid(link_t *l, const char *sid, uint32_t n, uint32_t hash) noexcept
cdef int add_sid(link_t *l, sub_t *s) except -1
cdef sub_t *new_sub(link_t *l, word_t *subject, word_t *queue, word_t *sid, uint32_t hash) except NULL
