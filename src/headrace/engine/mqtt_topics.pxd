"""Topics of MQTT and subjects of NATS, each made of the other. See mqtt_topics.pyx."""

from libc.stdint cimport uint32_t

from headrace.engine.structs cimport buf_t

cdef enum topic_error_t:
    TOPIC_GOOD = 0
    TOPIC_EMPTY
    TOPIC_NUL
    TOPIC_NO_UTF8
    TOPIC_WILDCARD           # in the name of a topic
    TOPIC_CHARACTER          # which no subject may have
    TOPIC_MISPLACED          # a multi-level wildcard that is not the last level

cdef bint is_utf8(const char *text, size_t n) noexcept
cdef topic_error_t add_subject(buf_t *subject, const char *topic, uint32_t n, bint is_filter) except *
cdef int add_topic(buf_t *topic, const char *subject, size_t n) except -1
cdef str topic_error_text(topic_error_t error, const char *topic, uint32_t n)
