"""Messages that a client of MQTT has and has not acknowledged. See mqtt_window.pyx."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from headrace.engine.structs cimport buf_t

cdef enum flight_state_t:
    FLIGHT_SENT                  # its client has it
    FLIGHT_EXPECTED              # an earlier connection sent it: the message comes again, and keeps its identifier
    FLIGHT_UNSENT                # it was held when an earlier connection ended: the message comes again, as a new one
    FLIGHT_HELD                  # it waits for a place
    FLIGHT_STAGED                # it has an identifier and waits until that is stored
    FLIGHT_OCCUPIED              # nothing but an identifier that is in use; its text is where a PUBREL is acknowledged
    FLIGHT_RELEASING             # its client has received it, and its PUBREL is being stored

cdef struct sending_t:
    # One PUBLISH to a client, before it is one.
    const char *topic
    const char *properties       # but for those that follow
    const char *response         # the response topic
    const char *identifiers      # of subscriptions, as properties
    const char *payload
    size_t properties_len
    size_t payload_len
    uint32_t topic_len
    uint32_t response_len        # 0: none
    uint32_t identifiers_len
    int64_t expires_at           # Unix ms; 0: never
    uint8_t qos
    bint is_again                # DUP
    bint is_retained
    uint16_t identifier          # QoS 1 and 2

cdef struct flight_t:
    flight_t *next_identifier    # in its chain
    flight_t *next_sequence      # in its chain
    flight_t *older
    flight_t *newer
    flight_t *next_held
    sending_t *waiting           # of one that is held; its texts stand behind it
    size_t size                  # bytes that this one takes
    uint64_t asked               # the number of the request that it waits for
    uint64_t sequence            # in its stream; 0: no consumer stands behind it
    flight_state_t state
    uint16_t identifier          # 0: none
    uint8_t qos
    bint is_direct               # it has no PUBREL in a stream
    uint32_t name_at             # of its consumer, in `text`
    uint32_t name_len
    uint32_t text_len
    char text[1]                 # the subject to which it is acknowledged; the name alone when that is not known

cdef struct window_t:
    flight_t **by_identifier     # chains; power of two, NULL until the first one
    flight_t **by_sequence
    uint32_t cap
    uint32_t count               # of flights
    uint32_t identifiers         # that are in use
    uint32_t places_taken        # of identifiers, those that count towards what a client takes at once
    flight_t *oldest
    flight_t *newest
    flight_t *first_held
    flight_t *last_held
    size_t held_bytes
    uint16_t last_identifier

cdef void release_window(window_t *w) noexcept
cdef flight_t *find_identifier(window_t *w, uint16_t identifier) noexcept
cdef flight_t *find_delivery(window_t *w, const char *name, uint32_t name_len, uint64_t sequence) noexcept
cdef flight_t *add_flight(window_t *w, flight_state_t state, const char *text, uint32_t text_len, uint32_t name_at,
                          uint32_t name_len, uint64_t sequence, uint8_t qos) except NULL
cdef void identify(window_t *w, flight_t *f, uint16_t identifier) noexcept
cdef uint16_t next_identifier(window_t *w) noexcept
cdef void take_place(window_t *w, flight_t *f) noexcept
cdef flight_t *renew_text(window_t *w, flight_t *f, const char *text, uint32_t text_len, uint32_t name_at) except NULL
cdef void forget_delivery(window_t *w, flight_t *f) noexcept
cdef void remove_flight(window_t *w, flight_t *f) noexcept
cdef int hold_flight(window_t *w, flight_t *f, sending_t *sending) except -1
cdef flight_t *take_held(window_t *w) noexcept
cdef void hold_again(window_t *w, flight_t *f) noexcept
cdef void forget_waiting(window_t *w, flight_t *f) noexcept
