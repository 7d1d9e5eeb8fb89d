# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages of QoS 2 to a client of MQTT, from its PUBREC on.

    PUBREC    its PUBREL is stored in `$MQTT_out`; confirmed: the message is acknowledged to JetStream
              a consumer of the session delivers the PUBREL                 it goes to the client
    PUBCOMP   the PUBREL is acknowledged to JetStream; the identifier is free

A message that no consumer stands behind gets its PUBREL at once. The flight of the window (`mqtt_window`) goes through
these steps and keeps its place. For a session that may be resumed all this is the session's: there it is known by
which identifiers earlier connections have sent what (`headrace.mqtt.qos2_outgoing`).

The session answers the calls that `mqtt_incoming` names, and `heard` for a PUBREL that names no identifier.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from headrace.engine.link cimport emit
from headrace.engine.memory cimport buf_append
from headrace.engine.mqtt_filters cimport KIND_STORED
from headrace.engine.mqtt_outlet cimport LETTER_CALL
from headrace.engine.mqtt_receiver cimport MqttReceiver, hand_over, is_confirmed
from headrace.engine.mqtt_routing cimport RAW_HEADERS, borrow_scratch, parts_t, publish_inside, return_scratch
from headrace.engine.mqtt_window cimport (
    FLIGHT_OCCUPIED, FLIGHT_RELEASING, FLIGHT_SENT, FLIGHT_UNSENT, add_flight, find_identifier, flight_t, forget_delivery, identify,
    renew_text, take_place,
)
from headrace.engine.structs cimport buf_t, msg_t, sub_t

cdef extern from "string.h" nogil:
    void *memmem(const void *haystack, size_t n, const void *needle, size_t m) noexcept

cdef enum:
    MOST_DIGITS = 20             # of a sequence
    LAST_IDENTIFIER = 65535
    PUBREL = 0x62
    NAME = 13                    # "Nmqtt-PubRel:"


cdef int add_number(buf_t *b, uint64_t number) except -1:
    cdef char digits[MOST_DIGITS]
    cdef int i = MOST_DIGITS
    while True:
        i -= 1
        digits[i] = <char> (c'0' + number % 10)
        number //= 10
        if number == 0:
            break
    return buf_append(b, digits + i, MOST_DIGITS - i)


cdef int add_bytes(buf_t *b, bytes text) except -1:
    return buf_append(b, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef int add_step_reply(MqttReleases link, buf_t *b, int step, uint16_t identifier) except -1:
    """Append the subject that a step of a message is confirmed to."""
    cdef char letter = <char> step
    add_bytes(b, link.store_reply)
    buf_append(b, &letter, 1)
    return add_number(b, identifier)


cdef int send_acknowledgement(MqttReleases link, int first, uint16_t identifier) except -1:
    """Send a PUBREC, PUBREL or PUBCOMP that says that all is well. `first`: its first byte."""
    cdef char packet[4]
    packet[0] = <char> first
    packet[1] = 2
    packet[2] = <char> (identifier >> 8)
    packet[3] = <char> (identifier & 0xFF)
    emit(&link.c, packet, 4)
    return 0


cdef uint16_t released_in(msg_t *m) noexcept:
    """The identifier that a stored PUBREL names; 0: it names none."""
    cdef const char *end = m.body + m.header_len
    cdef const char *at = <const char *> memmem(m.body, m.header_len, b"Nmqtt-PubRel:", NAME)
    cdef uint32_t identifier = 0
    if at == NULL:
        return 0
    at += NAME
    while at < end and at[0] == c' ':
        at += 1
    while at < end and c'0' <= at[0] <= c'9' and identifier <= LAST_IDENTIFIER:
        identifier = 10 * identifier + (at[0] - c'0')
        at += 1
    return <uint16_t> identifier if identifier <= LAST_IDENTIFIER and at < end and at[0] == c'\r' else 0


cdef uint64_t stored_as(msg_t *m) noexcept:
    """The sequence that JetStream says a message was stored as; 0: it does not say that."""
    cdef const char *end = m.body + m.body_len
    cdef const char *at = NULL
    cdef uint64_t sequence = 0
    if is_confirmed(m):
        at = <const char *> memmem(m.body, m.body_len, b'"seq":', 6)
    if at == NULL:
        return 0
    at += 6
    while at < end and c'0' <= at[0] <= c'9':
        sequence = 10 * sequence + (at[0] - c'0')
        at += 1
    return sequence


cdef int store_release(MqttReleases link, flight_t *f) except -1:
    """Store the PUBREL of a message that its client has received."""
    cdef parts_t parts
    cdef buf_t b = borrow_scratch(link.c.router)
    cdef uint16_t identifier = f.identifier
    memset(&parts, 0, sizeof(parts_t))
    parts.quality = RAW_HEADERS
    try:
        buf_append(&b, b"NATS/1.0\r\nNmqtt-PubRel:", 23)
        add_number(&b, identifier)
        buf_append(&b, b"\r\n\r\n", 4)
        parts.lines.len = <uint32_t> b.end
        add_step_reply(link, &b, STEP_RELEASE, identifier)
        parts.lines.text = b.data
        parts.reply.text = b.data + parts.lines.len
        parts.reply.len = <uint32_t> b.end - parts.lines.len
        f.state = FLIGHT_RELEASING
        f.asked = link.ask()
        if not publish_inside(&link.c, PyBytes_AS_STRING(link.release_subject),
                              <uint32_t> PyBytes_GET_SIZE(link.release_subject), &parts):
            link.post((LETTER_CALL, "release_failed", identifier, b""))
    finally:
        return_scratch(link.c.router, &b)
    return 0


cdef int settle(MqttReleases link, flight_t *f) except -1:
    """A PUBREL is stored, so JetStream need not keep its message; the identifier stays in use."""
    link.put_ack(f.text, f.text_len)
    forget_delivery(&link.window, f)
    f.state = FLIGHT_OCCUPIED
    return 0


cdef class MqttReleases(MqttReceiver):
    """The half of a connection of MQTT that has messages of QoS 2 to its client under way."""

    cdef int listen(self) except -1:
        """Listen to where JetStream confirms, from the first time on."""
        if not self.is_storing:
            self.add(self.store_reply + b"*", self.store_reply + b"*", b"", <uint64_t> 1 << 63 | KIND_STORED, 1)
            self.is_storing = True
        return 0

    cdef uint64_t ask(self) except 0:
        """A request goes out: its number. The session looks after those that are never answered."""
        self.listen()
        self.asked += 1
        if not self.are_steps_watched:
            self.are_steps_watched = True
            self.post((LETTER_CALL, "watch"))
        return self.asked

    cdef bint receive_it(self, uint16_t identifier) except -1:
        """A PUBREC. False, and nothing is changed: it is the session's."""
        cdef flight_t *f = find_identifier(&self.window, identifier)
        if self.release_subject is None or f == NULL:
            return False
        if f.state == FLIGHT_RELEASING:
            return True
        if f.state == FLIGHT_SENT and f.qos == 2:
            if f.sequence:
                return store_release(self, f) == 0
            f.state = FLIGHT_OCCUPIED
            f.is_direct = True
        elif f.state != FLIGHT_OCCUPIED:
            return False
        if f.is_direct or f.text_len:
            send_acknowledgement(self, PUBREL, identifier)
        return True

    cdef bint finish_it(self, uint16_t identifier) except -1:
        """A PUBCOMP. False, and nothing is changed: it is the session's."""
        cdef flight_t *f = find_identifier(&self.window, identifier)
        cdef parts_t parts
        if self.release_subject is None or f == NULL:
            return False
        if f.state == FLIGHT_RELEASING:
            return True
        if f.state != FLIGHT_OCCUPIED:
            return False
        if f.text_len:
            memset(&parts, 0, sizeof(parts_t))
            parts.quality = RAW_HEADERS
            publish_inside(&self.c, f.text, f.text_len, &parts)
        self.finish_flight(f)
        return True

    cdef int confirm_step(self, int step, uint16_t identifier, msg_t *m) except -1:
        cdef flight_t *f = find_identifier(&self.window, identifier)
        if step != STEP_RELEASE or f == NULL or f.state != FLIGHT_RELEASING:
            return 0
        if stored_as(m):
            return settle(self, f)
        return self.post((LETTER_CALL, "release_failed", identifier, m.body[:m.body_len]))

    cdef int take_release(self, sub_t *s, msg_t *m) except -1:
        """A stored PUBREL is delivered: it goes to the client, and is acknowledged when that has answered."""
        cdef uint16_t identifier = released_in(m)
        cdef flight_t *f = find_identifier(&self.window, identifier)
        cdef bint is_known
        if f != NULL and f.state == FLIGHT_RELEASING:  # its confirmation comes later
            settle(self, f)
        if identifier == 0 or self.release_subject is None or f != NULL and f.state != FLIGHT_OCCUPIED:
            return hand_over(self, s, m)
        is_known = f != NULL and f.text_len != 0
        if f == NULL:
            f = add_flight(&self.window, FLIGHT_UNSENT, m.reply, m.reply_len, 0, 0, 0, 2)
            identify(&self.window, f, identifier)
            take_place(&self.window, f)
            f.state = FLIGHT_OCCUPIED
        else:
            f = renew_text(&self.window, f, m.reply, m.reply_len, 0)
        if not is_known or self.terms.version < 5:
            send_acknowledgement(self, PUBREL, identifier)
        return 0

    @property
    def releases(self):
        """Messages of QoS 2 to the client, as the session sees them."""
        return ReleasedDeliveries(self)


cdef class ReleasedDeliveries:
    """Messages of QoS 2 that a client has received, as its session sees them."""

    cdef MqttReleases _link

    def __init__(self, MqttReleases link not None):
        self._link = link

    def receive(self, uint16_t identifier):
        """A PUBREC has come. True: it is taken care of; False: the session is to do it."""
        return bool(self._link.receive_it(identifier))

    def finish(self, uint16_t identifier):
        """A PUBCOMP has come. True: it is taken care of; False: the session is to do it."""
        return bool(self._link.finish_it(identifier))
