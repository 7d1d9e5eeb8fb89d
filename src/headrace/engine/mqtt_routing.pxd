"""Messages of a client of MQTT on their way to the router. See mqtt_routing.pyx."""

from libc.stdint cimport uint32_t

from headrace.engine.structs cimport buf_t, link_t, msg_t, router_t, word_t

cdef enum:
    PLAIN_HEADERS = 25           # "NATS/1.0\r\nNmqtt-Pub:Q\r\n\r\n"
    RAW_HEADERS = -2             # as a quality: the lines are the whole block

cdef struct parts_t:
    # What a message is composed of.
    word_t reply
    word_t lines                 # header lines behind Nmqtt-Pub, each with its end
    const char *payload
    uint32_t payload_len
    int quality                  # of Nmqtt-Pub

cdef buf_t borrow_scratch(router_t *r) noexcept
cdef void return_scratch(router_t *r, buf_t *b) noexcept
cdef size_t composed_size(parts_t *parts) noexcept
cdef int compose(buf_t *b, msg_t *m, parts_t *parts) except -1
cdef bint may_publish(link_t *l, const char *subject, uint32_t n) except -1
cdef int carry_publication(link_t *l, msg_t *m) except -1
cdef int route_inside(link_t *l, msg_t *m) except -1
cdef int publish_inside(link_t *l, const char *subject, uint32_t n, parts_t *parts) except -1
