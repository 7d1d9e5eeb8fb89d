# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Bodies of requests to the API of JetStream: direct gets and pulls, of the forms that clients send.

What is read here means what `headrace.protocol.jetstream` reads in it. Everything else is none of these forms, and
left to that: escapes, numbers that are long or written in another way, other fields, a field twice.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp

from headrace.engine.batches cimport part_of, part_t

cdef enum:
    MOST_DIGITS = 18         # of a number
    BATCH = 1                # fields of a pull
    EXPIRES = 2
    HEARTBEAT = 4
    NO_WAIT = 8


cdef const char *skip(const char *at, const char *end) noexcept:
    """Steps over white space."""
    while at < end and (at[0] == c' ' or at[0] == c'\t' or at[0] == c'\n' or at[0] == c'\r'):
        at += 1
    return at


cdef const char *read_word(const char *at, const char *end, bytes word) noexcept:
    """Step over a word with white space around it, give where it goes on; NULL: it is not there, or `at` is NULL."""
    cdef part_t wanted = part_of(word)
    if at == NULL:
        return NULL
    at = skip(at, end)
    if end - at < <Py_ssize_t> wanted.len or memcmp(at, wanted.text, wanted.len) != 0:
        return NULL
    return skip(at + wanted.len, end)


cdef const char *read_number(const char *at, const char *end, int64_t *value) noexcept:
    """Behind a number of 1 to MOST_DIGITS digits without zeros in front; NULL: it is none, or `at` is NULL."""
    cdef const char *start = at
    value[0] = 0
    while at != NULL and at < end and c'0' <= at[0] <= c'9' and at - start < MOST_DIGITS:
        value[0] = 10 * value[0] + (at[0] - c'0')
        at += 1
    return at if at != start and (start[0] != c'0' or at == start + 1) else NULL


cdef const char *read_text(const char *at, const char *end, part_t *text) noexcept:
    """Behind a string of printable ASCII characters without escapes; NULL: it is none, or `at` is NULL."""
    if at == NULL or at == end or at[0] != c'"':
        return NULL
    at += 1
    text.text = at
    while at < end and c' ' <= at[0] <= c'~' and at[0] != c'"' and at[0] != c'\\':
        at += 1
    text.len = <uint32_t> (at - text.text)
    return at + 1 if at < end and at[0] == c'"' else NULL


cdef bint read_get(part_t body, uint64_t *sequence, part_t *subject) noexcept:
    """Read a body that asks for one sequence, or the last message of one subject, and says nothing else.

    The other one of the two is 0 or empty then.
    """
    cdef const char *end = body.text + body.len
    cdef const char *field = read_word(body.text, end, b"{")
    cdef const char *at = read_word(field, end, b'"seq"')
    cdef int64_t value = 0
    subject.len = 0
    if at != NULL:
        at = read_number(read_word(at, end, b":"), end, &value)
    else:
        at = read_text(read_word(read_word(field, end, b'"last_by_subj"'), end, b":"), end, subject)
    sequence[0] = <uint64_t> value
    return read_word(at, end, b"}") == end and (value > 0 or subject.len > 0)


cdef const char *read_bool(const char *at, const char *end, bint *value) noexcept:
    """Behind `true` or `false` and white space; NULL: it is neither."""
    cdef const char *behind = read_word(at, end, b"true")
    value[0] = behind != NULL
    return behind if behind != NULL else read_word(at, end, b"false")


cdef const char *read_field(const char *at, const char *end, pull_t *pull, int *seen) noexcept:
    """Behind one field of a pull; NULL: it is none, or was there already."""
    cdef part_t name
    cdef int field
    at = read_word(read_text(at, end, &name), end, b":")
    if at == NULL:
        return NULL
    if name.len == 5 and memcmp(name.text, b"batch", 5) == 0:
        field = BATCH
        at = read_number(at, end, &pull.batch)
    elif name.len == 7 and memcmp(name.text, b"expires", 7) == 0:
        field = EXPIRES
        at = read_number(at, end, &pull.expires)
    elif name.len == 7 and memcmp(name.text, b"no_wait", 7) == 0:
        field = NO_WAIT
        at = read_bool(at, end, &pull.no_wait)
    elif name.len == 14 and memcmp(name.text, b"idle_heartbeat", 14) == 0:
        field = HEARTBEAT
        at = read_number(at, end, &pull.heartbeat)
    else:
        return NULL
    if seen[0] & field:
        return NULL
    seen[0] |= field
    return at if at == NULL else skip(at, end)


cdef bint read_pull(part_t body, pull_t *pull) noexcept:
    """Read a body that asks for messages: nothing, a number of them, or an object that may be granted."""
    cdef const char *end = body.text + body.len
    cdef const char *at = skip(body.text, end)
    cdef int seen = 0
    pull.batch = pull.expires = pull.heartbeat = 0
    pull.no_wait = False
    if at == end:
        pull.batch = 1
        return True
    if at[0] != c'{':
        at = read_number(at, end, &pull.batch)
        return at != NULL and skip(at, end) == end
    at = skip(at + 1, end)
    if at < end and at[0] != c'}':
        at = read_field(at, end, pull, &seen)
        while at != NULL and at < end and at[0] == c',':
            at = read_field(skip(at + 1, end), end, pull, &seen)
    if read_word(at, end, b"}") != end:
        return False
    return pull.heartbeat == 0 or pull.heartbeat <= pull.expires // 2


def get_request(bytes body not None):
    """(sequence, subject) that a direct get's body asks for, either 0 or b""; None: it is not of such a form."""
    cdef uint64_t sequence
    cdef part_t subject
    if not read_get(part_of(body), &sequence, &subject):
        return None
    return sequence, subject.text[:subject.len] if subject.len else b""


def pull_request(bytes body not None):
    """(batch, expires, idle heartbeat, no_wait) that a pull's body asks for; None: it is not of such a form."""
    cdef pull_t pull
    if not read_pull(part_of(body), &pull):
        return None
    return pull.batch, pull.expires, pull.heartbeat, bool(pull.no_wait)
