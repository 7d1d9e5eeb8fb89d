"""Topics of MQTT and subjects of NATS, each made of the other. See mqtt_topics.pyx."""

from libc.stdint cimport uint32_t
from libc.string cimport memchr, memcmp

from headrace.engine.structs cimport buf_t

cdef enum topic_error_t:
    TOPIC_GOOD = 0
    TOPIC_EMPTY
    TOPIC_NUL
    TOPIC_NO_UTF8
    TOPIC_WILDCARD           # in the name of a topic
    TOPIC_CHARACTER          # which no subject may have
    TOPIC_MISPLACED          # a multi-level wildcard that is not the last level

cdef enum sparkplug_t:
    SPARKPLUG_OTHER = 0
    SPARKPLUG_BIRTH
    SPARKPLUG_DEATH

cdef inline sparkplug_t sparkplug_of(const char *topic, uint32_t n) noexcept:
    """The kind that the name in a topic of Sparkplug B says. How many levels it has is not looked at."""
    cdef const char *name
    if n < 16 or memcmp(topic, b"spBv1.0/", 8) != 0:
        return SPARKPLUG_OTHER
    name = <const char *> memchr(topic + 8, c'/', n - 8)
    if name == NULL or topic + n - name < 8 or name[1] != c'N' and name[1] != c'D':
        return SPARKPLUG_OTHER
    if memcmp(name + 2, b"BIRTH/", 6) == 0:
        return SPARKPLUG_BIRTH
    return SPARKPLUG_DEATH if memcmp(name + 2, b"DEATH/", 6) == 0 else SPARKPLUG_OTHER


cdef bint is_utf8(const char *text, size_t n) noexcept
cdef topic_error_t add_subject(buf_t *subject, const char *topic, uint32_t n, bint is_filter) except *
cdef int add_topic(buf_t *topic, const char *subject, size_t n) except -1
cdef str topic_error_text(topic_error_t error, const char *topic, uint32_t n)
