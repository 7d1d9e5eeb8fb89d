# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The window of one connection: messages that its client has, or is to have, and has not acknowledged.

A flight is found by its packet identifier, when the client acknowledges it, and by its consumer and sequence, when
JetStream delivers it again. Flights are kept in the order in which they were sent; those that wait for a place come
behind, in the order in which they will be sent. Deciding what is sent when is the receiver's (`mqtt_receiver`).
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.memory cimport give, take
from headrace.engine.structs cimport HR_GUARD, HR_PAD

cdef enum:
    FIRST_CHAINS = 16
    LAST_IDENTIFIER = 65535


cdef uint64_t SPREADING = 0x9E3779B97F4A7C15


cdef inline uint32_t chain_of(window_t *w, uint64_t sequence) noexcept:
    return <uint32_t> (sequence * SPREADING >> 40) & (w.cap - 1)


cdef void tie(window_t *w, flight_t *f) noexcept:
    """Puts a flight into its chains."""
    cdef uint32_t at
    if f.identifier:
        at = f.identifier & (w.cap - 1)
        f.next_identifier = w.by_identifier[at]
        w.by_identifier[at] = f
    if f.sequence:
        at = chain_of(w, f.sequence)
        f.next_sequence = w.by_sequence[at]
        w.by_sequence[at] = f


cdef void untie(window_t *w, flight_t *f) noexcept:
    cdef flight_t **at
    if f.identifier:
        at = &w.by_identifier[f.identifier & (w.cap - 1)]
        while at[0] != f:
            at = &at[0].next_identifier
        at[0] = f.next_identifier
    if f.sequence:
        at = &w.by_sequence[chain_of(w, f.sequence)]
        while at[0] != f:
            at = &at[0].next_sequence
        at[0] = f.next_sequence


cdef int widen(window_t *w) except -1:
    cdef uint32_t cap = max(<uint32_t> FIRST_CHAINS, 2 * w.cap)
    cdef flight_t **chains = <flight_t **> take(2 * cap * sizeof(flight_t *))
    cdef flight_t *f = w.oldest
    memset(chains, 0, 2 * cap * sizeof(flight_t *))
    give(w.by_identifier)
    w.by_identifier = chains
    w.by_sequence = chains + cap
    w.cap = cap
    while f != NULL:
        tie(w, f)
        f = f.newer
    return 0


cdef void release_window(window_t *w) noexcept:
    """Gives back everything. The next identifier stays."""
    cdef uint16_t last = w.last_identifier
    cdef flight_t *f = w.oldest
    cdef flight_t *following
    while f != NULL:
        following = f.newer
        give(f.waiting)
        give(f)
        f = following
    give(w.by_identifier)
    memset(w, 0, sizeof(window_t))
    w.last_identifier = last


cdef flight_t *find_identifier(window_t *w, uint16_t identifier) noexcept:
    cdef flight_t *f
    if w.cap == 0 or identifier == 0:
        return NULL
    f = w.by_identifier[identifier & (w.cap - 1)]
    while f != NULL and f.identifier != identifier:
        f = f.next_identifier
    return f


cdef flight_t *find_delivery(window_t *w, const char *name, uint32_t name_len, uint64_t sequence) noexcept:
    """The flight of what a consumer of this name delivered from this place of its stream; NULL: there is none."""
    cdef flight_t *f
    if w.cap == 0 or sequence == 0:
        return NULL
    f = w.by_sequence[chain_of(w, sequence)]
    while f != NULL and not (f.sequence == sequence and f.name_len == name_len
                             and memcmp(f.text + f.name_at, name, name_len) == 0):
        f = f.next_sequence
    return f


cdef flight_t *add_flight(window_t *w, flight_state_t state, const char *text, uint32_t text_len, uint32_t name_at,
                          uint32_t name_len, uint64_t sequence, uint8_t qos) except NULL:
    """A new flight without an identifier, behind all others."""
    cdef size_t size = sizeof(flight_t) + text_len
    cdef flight_t *f
    HR_GUARD(name_at + name_len <= text_len)
    if w.count >= w.cap:
        widen(w)
    f = <flight_t *> take(size)
    memset(f, 0, sizeof(flight_t))
    f.size = size
    f.state = state
    f.qos = qos
    f.sequence = sequence
    f.name_at = name_at
    f.name_len = name_len
    f.text_len = text_len
    if text_len:
        memcpy(f.text, text, text_len)
    put_last(w, f)
    tie(w, f)
    w.count += 1
    return f


cdef void put_last(window_t *w, flight_t *f) noexcept:
    f.newer = NULL
    f.older = w.newest
    if w.newest != NULL:
        w.newest.newer = f
    else:
        w.oldest = f
    w.newest = f


cdef void take_out(window_t *w, flight_t *f) noexcept:
    if f.older != NULL:
        f.older.newer = f.newer
    else:
        w.oldest = f.newer
    if f.newer != NULL:
        f.newer.older = f.older
    else:
        w.newest = f.older


cdef void identify(window_t *w, flight_t *f, uint16_t identifier) noexcept:
    """Gives a flight an identifier that is free."""
    HR_GUARD(f.identifier == 0 and identifier != 0)
    untie(w, f)
    f.identifier = identifier
    tie(w, f)
    w.identifiers += 1


cdef uint16_t next_identifier(window_t *w) noexcept:
    """The next identifier that is free, which counts as used from then on; 0: none is."""
    cdef int i
    if w.identifiers >= LAST_IDENTIFIER:
        return 0
    for i in range(LAST_IDENTIFIER):
        w.last_identifier = 1 if w.last_identifier == LAST_IDENTIFIER else w.last_identifier + 1
        if find_identifier(w, w.last_identifier) == NULL:
            return w.last_identifier
    return 0


cdef void take_place(window_t *w, flight_t *f) noexcept:
    """A flight that has, or will get, an identifier counts towards what its client takes at once; it is sent now."""
    if f.state != FLIGHT_SENT and f.state != FLIGHT_OCCUPIED:
        w.places_taken += 1
    f.state = FLIGHT_SENT
    take_out(w, f)
    put_last(w, f)


cdef flight_t *renew_text(window_t *w, flight_t *f, const char *text, uint32_t text_len, uint32_t name_at) except NULL:
    """The flight with another subject to acknowledge it to; the one that was given is gone."""
    cdef flight_t *made
    if text_len <= f.size - sizeof(flight_t):
        memcpy(f.text, text, text_len)
        f.text_len = text_len
        f.name_at = name_at
        return f
    made = <flight_t *> take(sizeof(flight_t) + text_len)
    HR_GUARD(f.waiting == NULL)
    untie(w, f)
    made[0] = f[0]
    made.size = sizeof(flight_t) + text_len
    made.text_len = text_len
    made.name_at = name_at
    memcpy(made.text, text, text_len)
    if made.older != NULL:
        made.older.newer = made
    else:
        w.oldest = made
    if made.newer != NULL:
        made.newer.older = made
    else:
        w.newest = made
    tie(w, made)
    give(f)
    return made


cdef void forget_delivery(window_t *w, flight_t *f) noexcept:
    """A flight keeps its identifier and its place; of which message it was is not known any more."""
    untie(w, f)
    f.sequence = 0
    f.name_at = f.name_len = f.text_len = 0
    tie(w, f)


cdef void remove_flight(window_t *w, flight_t *f) noexcept:
    cdef flight_t **at
    untie(w, f)
    take_out(w, f)
    w.count -= 1
    if f.identifier:
        w.identifiers -= 1
    if f.state == FLIGHT_SENT or f.state == FLIGHT_OCCUPIED or f.state == FLIGHT_RELEASING:
        w.places_taken -= 1
    if f.state == FLIGHT_HELD:
        at = &w.first_held
        while at[0] != f:
            at = &at[0].next_held
        at[0] = f.next_held
        if w.last_held == f:
            w.last_held = w.first_held
            while w.last_held != NULL and w.last_held.next_held != NULL:
                w.last_held = w.last_held.next_held
    forget_waiting(w, f)
    give(f)


cdef inline size_t size_of(sending_t *sending) noexcept:
    return sending.topic_len + sending.properties_len + sending.response_len + sending.identifiers_len + sending.payload_len


cdef int hold_flight(window_t *w, flight_t *f, sending_t *sending) except -1:
    """Have a flight wait, with a copy of what is to be sent, behind those that wait already."""
    cdef size_t size = size_of(sending)
    cdef char *text = <char *> take(sizeof(sending_t) + size + HR_PAD)
    f.waiting = <sending_t *> text
    f.waiting[0] = sending[0]
    text += sizeof(sending_t)
    f.waiting.topic = text
    memcpy(text, sending.topic, sending.topic_len)
    text += sending.topic_len
    if sending.properties_len:
        memcpy(text, sending.properties, sending.properties_len)
    f.waiting.properties = text
    text += sending.properties_len
    if sending.response_len:
        memcpy(text, sending.response, sending.response_len)
    f.waiting.response = text
    text += sending.response_len
    if sending.identifiers_len:
        memcpy(text, sending.identifiers, sending.identifiers_len)
    f.waiting.identifiers = text
    text += sending.identifiers_len
    f.waiting.payload = text
    memcpy(text, sending.payload, sending.payload_len)
    f.state = FLIGHT_HELD
    f.next_held = NULL
    if w.last_held == NULL:
        w.first_held = f
    else:
        w.last_held.next_held = f
    w.last_held = f
    w.held_bytes += size
    return 0


cdef flight_t *take_held(window_t *w) noexcept:
    """The first flight that waits, which does so no longer; what it was to send is still there. NULL: none waits."""
    cdef flight_t *f = w.first_held
    if f == NULL:
        return NULL
    w.first_held = f.next_held
    if w.first_held == NULL:
        w.last_held = NULL
    f.next_held = NULL
    f.state = FLIGHT_UNSENT
    return f


cdef void hold_again(window_t *w, flight_t *f) noexcept:
    """Have a flight wait again, as the first one."""
    f.state = FLIGHT_HELD
    f.next_held = w.first_held
    w.first_held = f
    if w.last_held == NULL:
        w.last_held = f


cdef void forget_waiting(window_t *w, flight_t *f) noexcept:
    """Gives back what a flight was to send."""
    if f.waiting != NULL:
        w.held_bytes -= size_of(f.waiting)
        give(f.waiting)
        f.waiting = NULL
