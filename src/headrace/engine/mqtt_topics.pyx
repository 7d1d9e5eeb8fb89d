# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Topics of MQTT and subjects of NATS, each made of the other.

Levels become tokens, and a token has a slash for each empty level beside it and two for a dot, so that every topic
has one subject of its own and comes back from it. Subjects that no topic makes have a topic, too, but that leads
back to another subject. The table of both directions is in tests/unit/engine/test_mqtt_topics.py.
"""

from libc.stdint cimport uint8_t, uint32_t

from headrace.engine.client cimport is_valid_subject
from headrace.engine.memory cimport buf_free, buf_reserve
from headrace.engine.structs cimport HR_GUARD, buf_t


cdef inline uint32_t sequence_length(const uint8_t *at, const uint8_t *end) noexcept:
    """Bytes of the UTF-8 sequence at `at`, whose first byte is not ASCII; 0: it is none."""
    cdef uint32_t n = 0, i
    cdef uint8_t first = at[0], low = 0x80, high = 0xBF
    if 0xC2 <= first <= 0xDF:
        n = 2
    elif 0xE0 <= first <= 0xEF:
        n = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:      # surrogates are no characters
            high = 0x9F
    elif 0xF0 <= first <= 0xF4:
        n = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    if n == 0 or end - at < n or not low <= at[1] <= high:
        return 0
    for i in range(2, n):
        if not 0x80 <= at[i] <= 0xBF:
            return 0
    return n


cdef bint is_utf8(const char *text, size_t n) noexcept:
    """True if the text is UTF-8 without NUL, as strings of MQTT must be."""
    cdef const uint8_t *at = <const uint8_t *> text
    cdef const uint8_t *end = at + n
    cdef uint32_t length
    while at < end:
        if 0 < at[0] < 0x80:
            at += 1
            continue
        length = sequence_length(at, end) if at[0] else 0
        if length == 0:
            return False
        at += length
    return True


cdef topic_error_t judge_topic(const char *topic, uint32_t n, bint is_filter) noexcept:
    """Judge a topic, or a filter. A NUL and bad UTF-8 come before anything else that may be wrong with it."""
    cdef uint32_t i
    cdef char c
    cdef bint is_plain = True
    cdef topic_error_t error = TOPIC_GOOD
    if n == 0:
        return TOPIC_EMPTY
    for i in range(n):
        c = topic[i]
        if c == 0:
            return TOPIC_NUL
        if <uint8_t> c >= 0x80:
            is_plain = False
        elif c == c' ' or c == c'\t' or c == c'\r' or c == c'\n' or c == 0x0C or c == 0x7F:
            if error == TOPIC_GOOD:
                error = TOPIC_CHARACTER
        elif not is_filter and (c == c'+' or c == c'#') and error == TOPIC_GOOD:
            error = TOPIC_WILDCARD
    if not is_plain and not is_utf8(topic, n):
        return TOPIC_NO_UTF8
    return error


cdef topic_error_t add_subject(buf_t *subject, const char *topic, uint32_t n, bint is_filter) except *:
    """Appends the subject of a topic, or of a filter, unless there is none."""
    cdef topic_error_t error = judge_topic(topic, n, is_filter)
    cdef char *begin
    cdef char *at
    cdef char c
    cdef uint32_t i
    if error != TOPIC_GOOD:
        return error
    buf_reserve(subject, 2 * <size_t> n + 1)
    begin = at = subject.data + subject.end
    for i in range(n):
        c = topic[i]
        if c == c'/':
            if i == 0 or (at - 1)[0] == c'.':
                at[0] = c'/'
                at += 1
                c = c'.'
            elif i + 1 == n or topic[i + 1] == c'/':
                at[0] = c'.'
                at += 1
            else:
                c = c'.'
        elif c == c'.':
            at[0] = c = c'/'
            at += 1
        elif is_filter and c == c'+':
            c = c'*'
        elif is_filter and c == c'#':
            c = c'>'
        at[0] = c
        at += 1
    if (at - 1)[0] == c'.':
        at[0] = c'/'
        at += 1
    HR_GUARD(<size_t> (at - subject.data) <= subject.cap)
    if is_filter and not is_valid_subject(begin, <uint32_t> (at - begin), False):
        return TOPIC_MISPLACED
    subject.end += at - begin
    return TOPIC_GOOD


cdef int add_topic(buf_t *topic, const char *subject, size_t n) except -1:
    """Appends the topic of a subject, which is never longer than that."""
    cdef const char *p = subject
    cdef const char *end = subject + n
    cdef char *at
    buf_reserve(topic, n)
    at = topic.data + topic.end
    while p < end:
        if p[0] == c'.':
            at[0] = c'/'
            at += 1
        elif p[0] != c'/':
            at[0] = p[0]
            at += 1
        elif p + 1 < end and (p[1] == c'/' or p[1] == c'.'):
            at[0] = c'.' if p[1] == c'/' else c'/'
            at += 1
            p += 1
        p += 1
    topic.end = at - topic.data
    return 0


cdef str topic_error_text(topic_error_t error, const char *topic, uint32_t n):
    """The words of nats-server for what is wrong with a topic."""
    shown = '"' + topic[:n].decode("utf-8", "backslashreplace").replace("\0", "\\x00") + '"'
    if error == TOPIC_EMPTY:
        return "topic cannot be empty"
    if error == TOPIC_NUL:
        return f"invalid null character in topic {shown}"
    if error == TOPIC_NO_UTF8:
        return f"invalid utf8 for topic {shown}"
    if error == TOPIC_WILDCARD:
        return f"wildcards not allowed in publish's topic: {shown}"
    if error == TOPIC_MISPLACED:
        return f"invalid topic filter {shown}"
    return "character not supported for MQTT topics"


def subject_of_topic(bytes topic not None, *, bint is_filter) -> bytes:
    """The subject of a topic; with `is_filter`, that of a filter with its wildcards.

    Raises: ValueError for what may not be one; the text is what a log says of it.
    """
    cdef buf_t subject = buf_t(NULL, 0, 0, 0)
    cdef topic_error_t error
    try:
        error = add_subject(&subject, topic, <uint32_t> len(topic), is_filter)
        if error != TOPIC_GOOD:
            raise ValueError(topic_error_text(error, topic, <uint32_t> len(topic)))
        return subject.data[:subject.end]
    finally:
        buf_free(&subject)


def topic_of_subject(bytes subject not None) -> bytes:
    """The topic under which clients of MQTT see a subject."""
    cdef buf_t topic = buf_t(NULL, 0, 0, 0)
    try:
        add_topic(&topic, subject, len(subject))
        return topic.data[:topic.end] if topic.end else b""
    finally:
        buf_free(&topic)
