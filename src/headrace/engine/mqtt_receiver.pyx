# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages to a client of MQTT: those of its subscriptions, as PUBLISH packets.

Its subscriptions are of four kinds. That of a filter brings what has QoS 0, and everything when the filter has.
Where a consumer delivers there comes what is stored: it goes out with the lower one of two QoS, gets an identifier
and a place in the window (`mqtt_window`), and is acknowledged to JetStream when its client does. The other two kinds
are the connection's own: what its session hears, and where JetStream confirms what the client published.

A message is delivered while a plan is being followed, so nothing else may be routed and no session asked. What a
delivery leads to is put into the postbox, which is emptied at the end of the tick like a service's batch.

The session answers these calls:

    heard(sid, subject, reply, headers, payload)   a message of a subscription made by `hear`
    staged(sid, identifier, name, sequence, subject, headers, payload)   a new message of QoS 2, of a link that
                                                   stages those: it goes out by `forward`
    caught_up()                                    the link was held behind publications of QoS 1, which are stored now:
                                                   it is to be released
    store_failed(identifier, payload)              a publication of QoS 1 was not stored; what was said of it
    subscribe_permission(subject, queue)           as of clients, but nothing is said of a refusal
    failed(error)                                  a call raised; it is logged there
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.client cimport ClientLink, add_sid, find_sid, is_valid_subject, new_sub, tokens_in
from headrace.engine.jetstream cimport ack_t, names_t, read_ack
from headrace.engine.link cimport Link, doom, mark_due
from headrace.engine.mqtt_headers cimport NO_QUALITY, block_t, quality_of
from headrace.engine.mqtt_routing cimport RAW_HEADERS, parts_t, publish_inside
from headrace.engine.mqtt_sending cimport (
    SENT, begin_reading, end_reading, judge_packet, read_message, reading_t, send_publish, sent_t,
)
from headrace.engine.mqtt_window cimport (
    FLIGHT_EXPECTED, FLIGHT_HELD, FLIGHT_OCCUPIED, FLIGHT_SENT, FLIGHT_STAGED, FLIGHT_UNSENT, add_flight, find_delivery,
    find_identifier, flight_t, forget_waiting, hold_again, hold_flight, identify, next_identifier, release_window, remove_flight,
    renew_text, sending_t, take_held, take_place, window_t,
)
from headrace.engine.permission_cache cimport allows
from headrace.engine.stream_imports cimport hang_shadows
from headrace.engine.structs cimport (
    LINK_CHECKS_SUBSCRIBE, LINK_CLOSING, LINK_SERVICE, LINK_TRANSLATES, REASON_SLOW_PENDING, SUB_FILTERED, hr_hash, link_t,
    msg_t, sub_t, word_t,
)
from headrace.engine.trie cimport insert

cdef enum:
    LAST_IDENTIFIER = 65535
    STORED_PREFIX = 11           # "$MQTT.msgs."
    NO_LOCAL = 0x04              # of the options of a subscription
    RETAIN_AS_PUBLISHED = 0x08

cdef enum letter_t:
    LETTER_ACK                   # subject
    LETTER_HEARD                 # the arguments of `heard`
    LETTER_FAILED                # identifier, what was said of it
    LETTER_HELD                  # there may be place for what waits
    LETTER_STAGED                # the arguments of `staged`
    LETTER_CAUGHT_UP             # the link is held no longer


# ---- what a link keeps of a subscription --------------------------------------------------------

cdef inline uint64_t own_bits(uint64_t kind, uint64_t qos, uint64_t options, bint hides_dollar, uint64_t identifier) noexcept:
    """All of it in one number: it stands in the place of the limit that subscriptions of NATS have."""
    return (<uint64_t> 1 << 63 | kind | qos << 2 | (options & (NO_LOCAL | RETAIN_AS_PUBLISHED)) << 2
            | <uint64_t> hides_dollar << 6 | identifier << 8)


cdef inline int kind_of(uint64_t own) noexcept:
    return own & 3


cdef inline uint8_t qos_of(uint64_t own) noexcept:
    return own >> 2 & 3


cdef inline bint has_option(uint64_t own, uint32_t option) noexcept:
    return (own >> 2 & option) != 0


cdef inline bint hides(uint64_t own, const char *subject, uint32_t n) noexcept:
    """True if the filter begins with a wildcard, and the subject with a dollar."""
    return (own >> 6 & 1) != 0 and n and subject[0] == c'$'


cdef inline uint32_t identifier_of(uint64_t own) noexcept:
    return own >> 8 & 0xFFFFFFF


cdef uint64_t own_of(sub_t *s) noexcept:
    """Of a shadow: what the link keeps of the subscription that it is a shadow of."""
    cdef sub_t *original
    if s.quota.limit:
        return s.quota.limit
    original = find_sid(s.link, s.text, s.sid_len, <uint32_t> hr_hash(s.text, s.sid_len, s.link.interest.seed))
    return 0 if original == NULL else original.quota.limit


# ---- messages of filters ------------------------------------------------------------------------

cdef int take_of_filter(MqttReceiver link, uint64_t own, msg_t *m) except -1:
    """1 when the message is in the outbox, or was one to be dropped; 0: it is not for this subscription."""
    cdef reading_t reading
    cdef sending_t sending
    if qos_of(own) and quality_of(m.body, m.header_len) > 0:  # it comes by a consumer
        return 0
    if has_option(own, NO_LOCAL) and m.source == &link.c:
        return 0
    begin_reading(&reading, m)
    if hides(own, reading.subject, reading.subject_len):
        return 0
    try:
        read_message(&link.terms, m, &reading, &sending, identifier_of(own), False)
        sending.is_retained = reading.block.is_retained and has_option(own, RETAIN_AS_PUBLISHED)
        return send_publish(&link.c, &link.terms, &sending) == SENT
    finally:
        end_reading(&reading)


# ---- messages that are stored -------------------------------------------------------------------

cdef void count_back(MqttReceiver link, msg_t *m) noexcept:
    """Take back what will be counted: what the connection takes for itself is no message to its client."""
    link.c.out_msgs -= 1
    link.c.out_bytes -= m.body_len
    link.c.router.out_bytes -= m.body_len


cdef int acknowledge_later(MqttReceiver link, msg_t *m) except -1:
    """The client is not to get this message, so it is acknowledged for it."""
    count_back(link, m)
    link.post((LETTER_ACK, m.reply[:m.reply_len]))
    return 1


cdef bint is_own(MqttReceiver link, msg_t *m, block_t *block) noexcept:
    """True if the client itself has published the message."""
    return link.client_hash is not None and block.client_len == <size_t> PyBytes_GET_SIZE(link.client_hash) \
        and memcmp(m.body + block.client_at, PyBytes_AS_STRING(link.client_hash), block.client_len) == 0


cdef int take_followed(MqttReceiver link, sub_t *s, uint64_t own, msg_t *m) except -1:
    """A message that a consumer delivers."""
    cdef reading_t reading
    cdef sending_t sending
    cdef names_t names
    cdef ack_t ack
    if not read_ack(m.reply, m.reply_len, &names, &ack):
        return 0
    begin_reading(&reading, m)
    if reading.subject_len > STORED_PREFIX and memcmp(reading.subject, b"$MQTT.msgs.", STORED_PREFIX) == 0:
        reading.subject += STORED_PREFIX
        reading.subject_len -= STORED_PREFIX
    try:
        read_message(&link.terms, m, &reading, &sending, identifier_of(own), True)
        sending.is_retained = reading.block.is_retained and has_option(own, RETAIN_AS_PUBLISHED)
        if reading.block.quality == NO_QUALITY or hides(own, reading.subject, reading.subject_len) \
                or has_option(own, NO_LOCAL) and is_own(link, m, &reading.block) \
                or link.c.deliver_permissions != NULL and not allows(s, reading.subject, reading.subject_len):
            return acknowledge_later(link, m)
        sending.qos = min(<uint8_t> reading.block.quality, qos_of(own))
        if sending.qos == 0:
            acknowledge_later(link, m)
            link.c.out_msgs += 1
            link.c.out_bytes += m.body_len
            link.c.router.out_bytes += m.body_len
            send_publish(&link.c, &link.terms, &sending)
            return 1
        return take_delivery(link, s, m, &reading, &names, &ack, &sending)
    finally:
        end_reading(&reading)


cdef int take_delivery(MqttReceiver link, sub_t *s, msg_t *m, reading_t *reading, names_t *names, ack_t *ack,
                       sending_t *sending) except -1:
    """A message of QoS 1 or 2 gets a place in the window; one that has been delivered before has it, perhaps."""
    cdef window_t *w = &link.window
    cdef flight_t *f = find_delivery(w, names.consumer.text, names.consumer.len, ack.sequence)
    cdef uint32_t name_at = <uint32_t> (names.consumer.text - m.reply)
    cdef size_t body, properties
    cdef int64_t left
    if judge_packet(&link.terms, sending, &body, &properties, &left) != SENT:
        if f != NULL:
            link.finish_flight(f)
        return acknowledge_later(link, m)
    if f == NULL:
        f = add_flight(w, FLIGHT_UNSENT, m.reply, m.reply_len, name_at, names.consumer.len, ack.sequence, sending.qos)
        # Another member of a shared subscription may have had it: it is a new one for this client then.
        sending.is_again = ack.deliveries > 1 and not is_shared(names)
        if link.stages_qos2 and sending.qos == 2:
            return stage(link, s, m, reading, f)
        return send_or_hold(link, f, sending)
    if f.state == FLIGHT_HELD or f.state == FLIGHT_STAGED:
        count_back(link, m)
        return 1
    if f.state == FLIGHT_SENT and link.terms.version >= 5:  # nothing is sent again on the same connection
        count_back(link, m)
        return 1
    sending.is_again = f.state != FLIGHT_UNSENT
    f = renew_text(w, f, m.reply, m.reply_len, name_at)
    f.qos = sending.qos
    return send_or_hold(link, f, sending)


cdef int stage(MqttReceiver link, sub_t *s, msg_t *m, reading_t *reading, flight_t *f) except -1:
    """A new message of QoS 2 waits until its session has stored its identifier, and says so by `forward`."""
    cdef window_t *w = &link.window
    cdef uint16_t identifier = pick_identifier(link, f)
    if identifier == 0:
        doom(&link.c, REASON_SLOW_PENDING)
        return 1
    identify(w, f, identifier)
    f.state = FLIGHT_STAGED
    link.post((LETTER_STAGED, s.text[:s.sid_len], identifier, f.text[f.name_at:f.name_at + f.name_len], f.sequence,
               reading.subject[:reading.subject_len], m.body[:m.header_len], m.body[m.header_len:m.body_len]))
    return 1


cdef inline bint is_shared(names_t *names) noexcept:
    """True if it is the consumer of a shared subscription, by its name."""
    return names.consumer.len > 12 and memcmp(names.consumer.text, b"$MQTT_SHARE_", 12) == 0


cdef int send_or_hold(MqttReceiver link, flight_t *f, sending_t *sending) except -1:
    """Sends a flight, or has it wait behind others while there is no place for it."""
    cdef window_t *w = &link.window
    if f.state != FLIGHT_SENT and (w.first_held != NULL or w.places_taken >= link.receive_maximum):
        hold_flight(w, f, sending)
        if w.held_bytes > link.c.router.max_pending:
            link.c.router.slow_consumers += 1
            doom(&link.c, REASON_SLOW_PENDING)
        return 1
    return send_flight(link, f, sending)


cdef uint16_t pick_identifier(MqttReceiver link, flight_t *f) noexcept:
    """A free identifier for a flight; 0: none is. That of a message may be a matter of its place in its stream."""
    cdef uint16_t wanted
    if not link.identifier_base or not f.sequence:
        return next_identifier(&link.window)
    wanted = <uint16_t> (1 + (f.sequence - link.identifier_base) % LAST_IDENTIFIER)
    if find_identifier(&link.window, wanted) == NULL:
        return wanted
    link.window.last_identifier = wanted
    return next_identifier(&link.window)


cdef int send_flight(MqttReceiver link, flight_t *f, sending_t *sending) except -1:
    cdef window_t *w = &link.window
    if f.identifier == 0:
        sending.identifier = pick_identifier(link, f)
        if sending.identifier == 0:  # `receive_maximum` and expected ones are more than there are
            return hold_flight(w, f, sending) == 0
        identify(w, f, sending.identifier)
    sending.identifier = f.identifier
    take_place(w, f)
    send_publish(&link.c, &link.terms, sending)
    return 1


# ---- the connection's own -----------------------------------------------------------------------

cdef int take_confirmation(MqttReceiver link, msg_t *m) except -1:
    """Take a confirmation of JetStream: the last token of its subject is the identifier of the publication."""
    cdef uint32_t i = m.subject_len, identifier = 0, scale = 1
    count_back(link, m)
    while i and c'0' <= m.subject[i - 1] <= c'9' and scale <= 10000:
        i -= 1
        identifier += scale * (m.subject[i] - c'0')
        scale *= 10
    if identifier == 0 or identifier > LAST_IDENTIFIER:
        return 1
    link.count_confirmed()
    if m.body_len and not m.header_len and m.body[0] == c'{' and not has_error(m.body, m.body_len):
        link.confirm(identifier, None, True)
    else:
        link.post((LETTER_FAILED, identifier, m.body[:m.body_len]))
    return 1


cdef bint has_error(const char *payload, uint32_t n) noexcept:
    """True if an answer of JetStream has an error."""
    cdef uint32_t i
    for i in range(n):
        if payload[i] == c'"' and n - i > 8 and memcmp(payload + i, b'"error":', 8) == 0:
            return True
    return False


cdef int accept(sub_t *s, msg_t *m) except -1:
    """Takes one message of a subscription of any kind."""
    cdef MqttReceiver link = <MqttReceiver> s.link.owner
    cdef uint64_t own = own_of(s)
    cdef int kind = kind_of(own)
    cdef reading_t reading
    if kind == KIND_FILTER:
        return take_of_filter(link, own, m)
    if kind == KIND_FOLLOWED:
        return take_followed(link, s, own, m)
    if kind == KIND_STORED:
        return take_confirmation(link, m)
    begin_reading(&reading, m)
    count_back(link, m)
    link.post((LETTER_HEARD, s.text[:s.sid_len], reading.subject[:reading.subject_len], m.reply[:m.reply_len],
               m.body[:m.header_len], m.body[m.header_len:m.body_len]))
    return 1


cdef void serve(link_t *l) noexcept:
    """The postbox's `flush`."""
    cdef Postbox box = <Postbox> l.owner
    cdef MqttReceiver receiver
    cdef list letters = box._letters
    box._letters = []
    if box._receiver == NULL:
        return
    receiver = <MqttReceiver> box._receiver
    for letter in letters:
        session = receiver.session
        if session is None:  # the link is detached
            return
        try:
            deliver_letter(receiver, session, <tuple> letter)
        except Exception as error:
            session.failed(error)


cdef int deliver_letter(MqttReceiver receiver, object session, tuple letter) except -1:
    cdef int kind = letter[0]
    if kind == LETTER_ACK:
        acknowledge(receiver, <bytes> letter[1], b"")
    elif receiver.c.flags & LINK_CLOSING:
        return 0
    elif kind == LETTER_HEARD:
        session.heard(*letter[1:])
    elif kind == LETTER_HELD:
        receiver.send_held()
    elif kind == LETTER_STAGED:
        session.staged(*letter[1:])
    elif kind == LETTER_CAUGHT_UP:
        session.caught_up()
    else:
        receiver.confirm(letter[1], letter[2], False)
    return 0


cdef int acknowledge(MqttReceiver receiver, bytes subject, bytes word) except -1:
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


# ---- the receiver -------------------------------------------------------------------------------

cdef class MqttReceiver(ClientLink):
    """The half of a connection of MQTT that deliveries come to. `version`: of its protocol; 0 until it is accepted."""

    def __cinit__(self, *_args, **_kwargs):
        memset(&self.window, 0, sizeof(window_t))
        self.receive_maximum = LAST_IDENTIFIER
        self.c.flags |= LINK_TRANSLATES
        self.c.accept = accept

    def __dealloc__(self):
        release_window(&self.window)
        if self._postbox is not None:
            self._postbox._receiver = NULL

    cdef _leave(self):
        if self._postbox is not None:
            self._postbox._receiver = NULL
            self._postbox.detach()
            self._postbox = None
        release_window(&self.window)
        ClientLink._leave(self)

    cdef int post(self, tuple letter) except -1:
        """A letter is delivered when no message is: at the end of this tick, or of the next when that has begun."""
        if self._postbox is None:
            if self._is_detached:
                return 0
            self._postbox = Postbox(self.router, self.session)
            self._postbox._receiver = <PyObject *> self
        self._postbox._letters.append(letter)
        mark_due(&self._postbox.c)
        return 0

    cdef int confirm(self, uint32_t identifier, bytes payload, bint is_stored) except -1:
        """A publication of QoS 1 is stored, or will not be: `payload` says why."""
        return 0

    cdef int count_confirmed(self) except -1:
        """A publication of QoS 1 was answered; after the last one, what stands behind them may go on."""
        if self.unconfirmed:
            self.unconfirmed -= 1
        if self.unconfirmed == 0 and self.is_behind:
            self.is_behind = False
            self.post((LETTER_CAUGHT_UP,))
        return 0

    cdef sub_t *add(self, bytes sid, bytes subject, bytes queue, uint64_t own, int allowed) except NULL:
        """A subscription of any kind; one of the same sid gets what the link keeps of it anew, and is the same then."""
        cdef word_t words[3]
        cdef uint32_t hash
        cdef sub_t *s
        if self.c.interest == NULL or self._is_detached:
            raise RuntimeError("a link without an interest, or a detached one, cannot subscribe")
        words[0].text = PyBytes_AS_STRING(subject)
        words[0].len = <uint32_t> PyBytes_GET_SIZE(subject)
        words[1].text = PyBytes_AS_STRING(queue)
        words[1].len = <uint32_t> PyBytes_GET_SIZE(queue)
        words[2].text = PyBytes_AS_STRING(sid)
        words[2].len = <uint32_t> PyBytes_GET_SIZE(sid)
        hash = <uint32_t> hr_hash(words[2].text, words[2].len, self.c.interest.seed)
        s = find_sid(&self.c, words[2].text, words[2].len, hash)
        if s != NULL:
            s.quota.limit = own
            return s
        if not is_valid_subject(words[0].text, words[0].len, False):
            raise ValueError(f"not a subject: {subject!r}")
        s = new_sub(&self.c, &words[0], &words[1] if words[1].len else NULL, &words[2], hash)
        s.quota.limit = own
        if allowed == 2:
            s.flags |= SUB_FILTERED
        add_sid(&self.c, s)
        insert(self.c.interest, s)
        if self.c.interest.imports != NULL:
            hang_shadows(s)
        return s

    def subscribe(self, bytes sid not None, bytes subject not None, bytes queue not None=b"", *, int qos,
                  int options=0, uint32_t identifier=0, bint hides_dollar=False):
        """Makes the plain subscription of a filter. The same sid again changes QoS, options and identifier.

        Raises: ValueError for what is no subject, is forbidden, or is more than a connection may have.
        """
        cdef int allowed = 1
        cdef word_t word
        word.text = PyBytes_AS_STRING(subject)
        word.len = <uint32_t> PyBytes_GET_SIZE(subject)
        if self.c.flags & LINK_CHECKS_SUBSCRIBE:
            allowed = self.session.subscribe_permission(subject, queue or None)
            if not allowed:
                raise ValueError("the subscription is not permitted")
        if self.c.max_subscription_tokens and tokens_in(&word) > self.c.max_subscription_tokens:
            raise ValueError("too many tokens")
        if self.c.max_subscriptions and self.c.sids_count >= self.c.max_subscriptions and not self._has(sid):
            raise ValueError("maximum subscriptions exceeded")
        if options & NO_LOCAL:
            self.no_local_count += 1
        self.add(sid, subject, queue, own_bits(KIND_FILTER, qos, options, hides_dollar, identifier), allowed)

    def _has(self, bytes sid):
        cdef const char *at = sid
        cdef uint32_t n = <uint32_t> len(sid)
        return find_sid(&self.c, at, n, <uint32_t> hr_hash(at, n, self.c.interest.seed)) != NULL

    def follow(self, bytes deliver not None, bytes queue not None=b"", *, bytes name not None, int qos, int options=0,
               uint32_t identifier=0, bint hides_dollar=False):
        """Takes what the consumer `name` delivers to a subject; gives the sid.

        Messages go out with at most this QoS. The same subject again changes QoS, options and identifier.
        """
        if options & NO_LOCAL:
            self.no_local_count += 1
        self.add(deliver, deliver, queue, own_bits(KIND_FOLLOWED, qos, options, hides_dollar, identifier), 1)
        return deliver

    def hear(self, bytes subject not None):
        """Gives the session what is published to a subject; gives the sid."""
        self.add(subject, subject, b"", own_bits(KIND_HEARD, 0, 0, False, 0), 1)
        return subject

    def unsubscribe(self, bytes sid not None):
        """Ends a subscription of any kind; one that is not there is none."""
        if not self._is_detached and self._has(sid):
            self._remove(sid)

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
                    self.post((LETTER_ACK, f.text[:f.text_len]))
                remove_flight(w, f)
                continue
            if f.identifier == 0:
                sending.identifier = pick_identifier(self, f)
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
            read_message(&self.terms, &m, &reading, &sending, subscription, True)
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
        cdef const char *at = PyBytes_AS_STRING(sid)
        cdef uint32_t n = <uint32_t> PyBytes_GET_SIZE(sid)
        cdef uint64_t own
        cdef sub_t *s
        cdef sending_t sending
        cdef reading_t reading
        cdef msg_t m
        if self.c.flags & LINK_CLOSING or f == NULL or f.state != FLIGHT_STAGED:
            return
        s = find_sid(&self.c, at, n, <uint32_t> hr_hash(at, n, self.c.interest.seed))
        own = s.quota.limit if s != NULL else 0
        whole = headers + payload
        memset(&m, 0, sizeof(msg_t))
        m.subject = PyBytes_AS_STRING(subject)
        m.subject_len = <uint32_t> PyBytes_GET_SIZE(subject)
        m.body = PyBytes_AS_STRING(whole)
        m.header_len = <uint32_t> PyBytes_GET_SIZE(headers)
        m.body_len = <uint32_t> PyBytes_GET_SIZE(whole)
        begin_reading(&reading, &m)
        try:
            read_message(&self.terms, &m, &reading, &sending, identifier_of(own), True)
            sending.is_retained = reading.block.is_retained and has_option(own, RETAIN_AS_PUBLISHED)
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
        if f == NULL or f.state == FLIGHT_EXPECTED or f.state == FLIGHT_STAGED:
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
