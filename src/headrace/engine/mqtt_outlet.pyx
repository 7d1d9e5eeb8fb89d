# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The way out to a client of MQTT: its window, and the postbox of its session.

A message of QoS 1 or 2 gets an identifier and a place in the window (`mqtt_window`) until its client acknowledges it;
while there is no place it waits. Which messages those are is the receiver's (`mqtt_receiver`).

A message is delivered while a plan is being followed, so nothing else may be routed and no session asked. What a
delivery leads to is put into the postbox, which is emptied at the end of the tick like a service's batch. The session
answers its calls as `mqtt_receiver` says.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from headrace.engine.client cimport ClientLink, sub_named
from headrace.engine.link cimport Link, doom, mark_due
from headrace.engine.memory cimport buf_append, buf_free
from headrace.engine.mqtt_filters cimport RETAIN_AS_PUBLISHED, choice_t, choose, has_option, identifier_of
from headrace.engine.mqtt_routing cimport RAW_HEADERS, parts_t, publish_inside
from headrace.engine.mqtt_sending cimport (
    SENT, begin_reading, end_reading, identify_by, judge_packet, read_message, reading_t, release_terms, send_publish, terms_t,
)
from headrace.engine.mqtt_unconfirmed cimport release_unconfirmed, take_unconfirmed, unconfirmed_t
from headrace.engine.mqtt_window cimport (
    FLIGHT_EXPECTED, FLIGHT_OCCUPIED, FLIGHT_RELEASING, FLIGHT_SENT, FLIGHT_STAGED, FLIGHT_UNSENT, add_flight, find_delivery, find_identifier,
    flight_t, forget_waiting, hold_again, hold_flight, identify, next_identifier, release_window, remove_flight, sending_t,
    take_held, take_place, window_t,
)
from headrace.engine.structs cimport LINK_CLOSING, LINK_SERVICE, REASON_SLOW_PENDING, buf_t, link_t, msg_t, sub_t

cdef enum:
    LAST_IDENTIFIER = 65535


# ---- sending ------------------------------------------------------------------------------------

cdef int send_or_hold(MqttOutlet link, flight_t *f, sending_t *sending) except -1:
    """Sends a flight, or has it wait behind others while there is no place for it."""
    cdef window_t *w = &link.window
    if f.state != FLIGHT_SENT and (w.first_held != NULL or w.places_taken >= link.receive_maximum):
        hold_flight(w, f, sending)
        if w.held_bytes > link.c.router.max_pending:
            link.c.router.slow_consumers += 1
            doom(&link.c, REASON_SLOW_PENDING)
        return 1
    return send_flight(link, f, sending)


cdef int send_flight(MqttOutlet link, flight_t *f, sending_t *sending) except -1:
    cdef window_t *w = &link.window
    if f.identifier == 0:
        sending.identifier = next_identifier(&link.window)
        if sending.identifier == 0:  # `receive_maximum` and expected ones are more than there are
            return hold_flight(w, f, sending) == 0
        identify(w, f, sending.identifier)
    sending.identifier = f.identifier
    take_place(w, f)
    send_publish(&link.c, &link.terms, sending)
    return 1


# ---- the postbox --------------------------------------------------------------------------------

cdef void serve(link_t *l) noexcept:
    """The postbox's `flush`."""
    cdef Postbox box = <Postbox> l.owner
    cdef MqttOutlet receiver
    cdef list letters = box._letters
    box._letters = []
    if box._receiver == NULL:
        return
    receiver = <MqttOutlet> box._receiver
    if receiver.session is not None:
        try:
            receiver.do_acks()
        except Exception as error:
            receiver.session.failed(error)
        if receiver._steps.end:
            receiver.do_steps(receiver.session)
    for letter in letters:
        session = receiver.session
        if session is None:  # the link is detached
            return
        try:
            deliver_letter(receiver, session, <tuple> letter)
        except Exception as error:
            session.failed(error)


cdef int deliver_letter(MqttOutlet receiver, object session, tuple letter) except -1:
    cdef int kind = letter[0]
    if receiver.c.flags & LINK_CLOSING:
        return 0
    elif kind == LETTER_HEARD:
        session.heard(*letter[1:])
    elif kind == LETTER_HELD:
        receiver.send_held()
    elif kind == LETTER_STAGED:
        session.staged(*letter[1:])
    elif kind == LETTER_CAUGHT_UP:
        session.caught_up()
    elif kind == LETTER_CALL:
        getattr(session, letter[1])(*letter[2:])
    else:
        receiver.confirm(letter[1], letter[2], False)
    return 0


cdef int acknowledge(MqttOutlet receiver, bytes subject, bytes word) except -1:
    """Publishes a word to the subject that a delivery is acknowledged to."""
    cdef parts_t parts
    memset(&parts, 0, sizeof(parts_t))
    parts.quality = RAW_HEADERS
    parts.payload = PyBytes_AS_STRING(word)
    parts.payload_len = <uint32_t> PyBytes_GET_SIZE(word)
    return publish_inside(&receiver.c, PyBytes_AS_STRING(subject), <uint32_t> PyBytes_GET_SIZE(subject), &parts)


cdef class Postbox(Link):
    """Letters to a session that deliveries to its client lead to, until the end of the tick."""

    def __cinit__(self, _router, _session):
        self._letters = []
        self._receiver = NULL
        self.c.flags |= LINK_SERVICE
        self.c.flush = serve


# ---- the outlet ---------------------------------------------------------------------------------

cdef class MqttOutlet(ClientLink):
    """A connection of MQTT as what is sent goes through it. `version`: of its protocol; 0 until it is accepted."""

    def __cinit__(self, *_args, **_kwargs):
        memset(&self.window, 0, sizeof(window_t))
        memset(&self.terms, 0, sizeof(terms_t))
        memset(&self.unconfirmed, 0, sizeof(unconfirmed_t))
        memset(&self._steps, 0, sizeof(buf_t))
        memset(&self._acks, 0, sizeof(buf_t))
        self.receive_maximum = LAST_IDENTIFIER

    def __dealloc__(self):
        release_window(&self.window)
        release_terms(&self.terms)
        release_unconfirmed(&self.unconfirmed)
        buf_free(&self._steps)
        buf_free(&self._acks)
        if self._postbox is not None:
            self._postbox._receiver = NULL

    cdef _leave(self):
        if self._postbox is not None:
            self._postbox._receiver = NULL
            self._postbox.detach()
            self._postbox = None
        release_window(&self.window)
        buf_free(&self._steps)
        buf_free(&self._acks)
        ClientLink._leave(self)

    cdef int post(self, tuple letter) except -1:
        """A letter is delivered when no message is: at the end of this tick, or of the next when that has begun."""
        if self._is_detached:
            return 0
        self._open_postbox()
        self._postbox._letters.append(letter)
        return 0

    cdef int _open_postbox(self) except -1:
        """The postbox is emptied at the end of the tick."""
        if self._postbox is None:
            self._postbox = Postbox(self.router, self.session)
            self._postbox._receiver = <PyObject *> self
        mark_due(&self._postbox.c)
        return 0

    cdef int put_step(self, int step, uint16_t identifier) except -1:
        """A step of a message is due, and done when letters are delivered."""
        cdef uint16_t item[2]
        if self._is_detached:
            return 0
        item[0] = <uint16_t> step
        item[1] = identifier
        buf_append(&self._steps, <const char *> item, sizeof(item))
        self._open_postbox()
        return 0

    cdef int put_ack(self, const char *subject, uint32_t n) except -1:
        """A delivery is acknowledged to JetStream when letters are delivered."""
        if self._is_detached:
            return 0
        buf_append(&self._acks, <const char *> &n, sizeof(uint32_t))
        buf_append(&self._acks, subject, n)
        self._open_postbox()
        return 0

    cdef int do_acks(self) except -1:
        """Acknowledge what is to be acknowledged, in order."""
        cdef buf_t acks = self._acks
        cdef size_t at = acks.start
        cdef uint32_t n
        cdef parts_t parts
        if acks.end == 0:
            return 0
        memset(&parts, 0, sizeof(parts_t))
        parts.quality = RAW_HEADERS
        memset(&self._acks, 0, sizeof(buf_t))
        try:
            while at < acks.end and not self._is_detached:
                memcpy(&n, acks.data + at, sizeof(uint32_t))
                at += sizeof(uint32_t)
                publish_inside(&self.c, acks.data + at, n, &parts)
                at += n
        finally:
            if self._acks.data == NULL and not self._is_detached:
                acks.start = acks.end = 0
                self._acks = acks
            else:
                buf_free(&acks)
        return 0

    cdef int take_release(self, sub_t *s, msg_t *m) except -1:
        """A stored PUBREL is delivered."""
        return 0

    cdef int do_step(self, int step, uint16_t identifier) except -1:
        """Do one step of a message that is due."""
        return 0

    cdef int do_steps(self, object session) except -1:
        """Do what is due, in order; one that fails keeps no other from it."""
        cdef buf_t due = self._steps
        cdef uint16_t item[2]
        cdef size_t at = due.start
        memset(&self._steps, 0, sizeof(buf_t))  # what is done may lead to more, in a later tick
        while at < due.end and not self._is_detached:
            memcpy(item, due.data + at, sizeof(item))
            at += sizeof(item)
            try:
                self.do_step(item[0], item[1])
            except Exception as error:
                session.failed(error)
        if self._steps.data == NULL and not self._is_detached:
            due.start = due.end = 0
            self._steps = due
        else:
            buf_free(&due)
        return 0

    cdef int confirm_step(self, int step, uint16_t identifier, msg_t *m) except -1:
        """JetStream has answered a step of a message."""
        return 0

    cdef int confirm(self, uint32_t identifier, bytes payload, bint is_stored) except -1:
        """A publication of QoS 1 is stored, or will not be: `payload` says why."""
        return 0

    cdef bint is_overlapped(self, bytes sid) except -1:
        """True if messages of a consumer, by its sid, go through one of several filters."""
        return False

    cdef bint is_awaited(self, uint32_t identifier) except -1:
        """Notes the answer to a publication of QoS 1; False: none of this identifier waits.

        After the last one, what stands behind them may go on.
        """
        if not take_unconfirmed(&self.unconfirmed, identifier):
            return False
        if self.unconfirmed.count == 0 and self.is_behind:
            self.is_behind = False
            self.post((LETTER_CAUGHT_UP,))
        return True

    # -- what is in flight

    cdef int finish_flight(self, flight_t *f) except -1:
        remove_flight(&self.window, f)
        return self.send_held()

    cdef int send_held(self) except -1:
        """Sends what waits, as far as there is place for it."""
        cdef window_t *w = &self.window
        cdef flight_t *f
        cdef sending_t *sending
        cdef size_t body, properties
        cdef int64_t left
        while w.first_held != NULL and w.places_taken < self.receive_maximum and not self.c.flags & LINK_CLOSING:
            f = take_held(w)
            sending = f.waiting
            if judge_packet(&self.terms, sending, &body, &properties, &left) != SENT:  # it has expired meanwhile
                if f.sequence:
                    self.put_ack(f.text, f.text_len)
                remove_flight(w, f)
                continue
            if f.identifier == 0:
                sending.identifier = next_identifier(&self.window)
                if sending.identifier == 0:
                    hold_again(w, f)
                    return 0
                identify(w, f, sending.identifier)
            sending.identifier = f.identifier
            take_place(w, f)
            send_publish(&self.c, &self.terms, sending)
            forget_waiting(w, f)
        return 0

    def deliver(self, bytes topic not None, bytes payload not None, *, int qos, bint retain, bytes headers not None=b"",
                uint32_t subscription=0):
        """Sends a PUBLISH that no consumer stands behind; gives its identifier, 0 when it has none (yet).

        `headers`: of the stored message, which become properties; `subscription`: the subscription identifier.
        """
        cdef sending_t sending
        cdef reading_t reading
        cdef msg_t m
        memset(&m, 0, sizeof(msg_t))
        m.subject = PyBytes_AS_STRING(topic)
        m.subject_len = <uint32_t> PyBytes_GET_SIZE(topic)
        m.body = PyBytes_AS_STRING(headers)
        m.header_len = m.body_len = <uint32_t> PyBytes_GET_SIZE(headers)
        if self.c.flags & LINK_CLOSING:
            return 0
        begin_reading(&reading, &m)
        try:
            read_message(&self.terms, &m, &reading, &sending, True)
            identify_by(&reading, &sending, subscription)
            sending.topic = m.subject
            sending.topic_len = m.subject_len
            sending.payload = PyBytes_AS_STRING(payload)
            sending.payload_len = PyBytes_GET_SIZE(payload)
            sending.qos = qos
            sending.is_retained = retain
            return self._send_made(&sending)
        finally:
            end_reading(&reading)

    cdef uint16_t _send_made(self, sending_t *sending) except? 0:
        cdef flight_t *f
        cdef size_t body, properties
        cdef int64_t left
        if judge_packet(&self.terms, sending, &body, &properties, &left) != SENT:
            return 0
        self.c.out_msgs += 1
        self.c.out_bytes += sending.payload_len
        self.c.router.out_msgs += 1
        self.c.router.out_bytes += sending.payload_len
        if sending.qos == 0:
            send_publish(&self.c, &self.terms, sending)
            return 0
        f = add_flight(&self.window, FLIGHT_UNSENT, b"", 0, 0, 0, 0, sending.qos)
        send_or_hold(self, f, sending)
        return f.identifier

    def forward(self, bytes sid not None, uint16_t identifier, bytes subject not None, bytes headers not None,
                bytes payload not None):
        """Sends a message that was staged, now that its identifier is stored. One that is not in flight any more is not."""
        cdef flight_t *f = find_identifier(&self.window, identifier)
        cdef uint64_t own
        cdef choice_t choice
        cdef sub_t *s
        cdef sending_t sending
        cdef reading_t reading
        cdef msg_t m
        if self.c.flags & LINK_CLOSING or f == NULL or f.state != FLIGHT_STAGED:
            return
        s = sub_named(&self.c, sid)
        own = s.quota.own if s != NULL else 0
        whole = headers + payload
        memset(&m, 0, sizeof(msg_t))
        m.subject = PyBytes_AS_STRING(subject)
        m.subject_len = <uint32_t> PyBytes_GET_SIZE(subject)
        m.body = PyBytes_AS_STRING(whole)
        m.header_len = <uint32_t> PyBytes_GET_SIZE(headers)
        m.body_len = <uint32_t> PyBytes_GET_SIZE(whole)
        begin_reading(&reading, &m)
        try:
            read_message(&self.terms, &m, &reading, &sending, True)
            choice.retains = has_option(own, RETAIN_AS_PUBLISHED)
            if self.is_overlapped(sid):
                choose(&self.c, reading.subject, reading.subject_len, False, &choice, &reading.identifiers)
                own = 0
            identify_by(&reading, &sending, identifier_of(own))
            sending.is_retained = reading.block.is_retained and choice.retains
            sending.qos = f.qos
            f.state = FLIGHT_UNSENT
            send_or_hold(self, f, &sending)
        finally:
            end_reading(&reading)

    def in_flight(self):
        """[(identifier, QoS, consumer, sequence)] of what its client has not acknowledged, in the order of sending.

        What waits for a place has the identifier 0. What no consumer stands behind is not in it.
        """
        cdef list rows = []
        cdef flight_t *f = self.window.oldest
        while f != NULL:
            if f.sequence:
                rows.append((f.identifier, f.qos, f.text[f.name_at:f.name_at + f.name_len], f.sequence))
            f = f.newer
        return rows

    def give_back(self):
        """Tells JetStream to deliver what is in flight again, at once and in order; gives `in_flight` of before.

        What is in flight is so no more. To be called before the link is detached.
        """
        cdef flight_t *f = self.window.oldest
        rows = self.in_flight()
        if self._is_detached:
            return rows
        while f != NULL:
            if f.sequence and f.state != FLIGHT_EXPECTED and f.text_len > f.name_len:
                acknowledge(self, f.text[:f.text_len], b"-NAK")
            f = f.newer
        release_window(&self.window)
        return rows

    def expect(self, list entries not None, uint16_t next_identifier):
        """The `in_flight` of an earlier connection of the session, and the identifier that it would have used next.

        What comes again of it keeps its identifier, and is marked as sent before.
        """
        cdef bytes name
        cdef flight_t *f
        for identifier, qos, name, sequence in entries:
            if find_delivery(&self.window, name, <uint32_t> len(name), sequence) != NULL \
                    or find_identifier(&self.window, identifier) != NULL:
                continue
            f = add_flight(&self.window, FLIGHT_EXPECTED if identifier else FLIGHT_UNSENT, name, <uint32_t> len(name), 0,
                           <uint32_t> len(name), sequence, qos)
            if identifier:
                identify(&self.window, f, identifier)
        if next_identifier:
            self.window.last_identifier = next_identifier - 1

    @property
    def version(self):
        return self.terms.version

    @property
    def next_identifier(self):
        """The identifier that would be used next, were it free."""
        return self.window.last_identifier % LAST_IDENTIFIER + 1

    def settle(self, uint16_t identifier):
        """Takes a message out of the window; gives the subject to acknowledge it to, b"" for none.

        What waits for its place is sent at the end of the tick: `occupy` may take it again before.
        """
        cdef flight_t *f = find_identifier(&self.window, identifier)
        cdef bytes ack = b""
        if f == NULL or f.state in (FLIGHT_EXPECTED, FLIGHT_STAGED, FLIGHT_RELEASING):
            return b""
        if f.state == FLIGHT_SENT and f.sequence:
            ack = f.text[:f.text_len]
        remove_flight(&self.window, f)
        if self.window.first_held != NULL:  # after this call: the identifier may be occupied at once
            self.post((LETTER_HELD,))
        return ack

    def drop(self, uint16_t identifier):
        """Takes a message that was staged out of the window, never to be sent; gives the subject to acknowledge it to."""
        cdef flight_t *f = find_identifier(&self.window, identifier)
        cdef bytes ack
        if f == NULL or f.state != FLIGHT_STAGED:
            return b""
        ack = f.text[:f.text_len]
        remove_flight(&self.window, f)
        if self.window.first_held != NULL:
            self.post((LETTER_HELD,))
        return ack

    def occupy(self, uint16_t identifier):
        """An identifier is in use, and takes a place: a PUBREL waits for its PUBCOMP."""
        cdef flight_t *f
        if identifier == 0 or find_identifier(&self.window, identifier) != NULL:
            return
        f = add_flight(&self.window, FLIGHT_UNSENT, b"", 0, 0, 0, 0, 2)
        identify(&self.window, f, identifier)
        take_place(&self.window, f)
        f.state = FLIGHT_OCCUPIED
