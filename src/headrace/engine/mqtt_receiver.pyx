# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages to a client of MQTT: those of its subscriptions, as PUBLISH packets.

Its subscriptions are of four kinds. That of a filter brings what has QoS 0, and everything when the filter has.
Where a consumer delivers there comes what is stored: it goes out with the lower one of two QoS, gets an identifier
and a place in the window (`mqtt_window`), and is acknowledged to JetStream when its client does. The other two kinds
are the connection's own: what its session hears, and where JetStream confirms what the client published.

In MQTT 5 a message that several filters match goes through one of them (`mqtt_filters`). What a delivery leads to is
put into the postbox (`mqtt_outlet`).

The session answers these calls:

    heard(sid, subject, reply, headers, payload)   a message of a subscription made by `hear`
    staged(sid, identifier, name, sequence, subject, headers, payload)   a new message of QoS 2, of a link that
                                                   stages those: it goes out by `forward`
    caught_up()                                    the link was held behind publications of QoS 1, which are stored now:
                                                   it is to be released
    stores()                                       a publication of QoS 1 waits for JetStream, the first one since
                                                   `watch_unconfirmed` has said None
    store_failed(identifier, payload)              a publication of QoS 1 was not stored; what was said of it
    stamped(topic, payload)                        gives the payload of what may be a death of Sparkplug B as it goes out
    subscribe_permission(subject, queue)           as of clients, but nothing is said of a refusal
    failed(error)                                  a call raised; it is logged there
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp

from headrace.engine.client cimport find_sid, hang_sub, is_valid_subject, sub_named, tokens_in
from headrace.engine.jetstream cimport ack_t, names_t, read_ack
from headrace.engine.link cimport doom
from headrace.engine.mqtt_filters cimport (
    KIND_FILTER, KIND_FOLLOWED, KIND_HEARD, KIND_STORED, NO_LOCAL, RETAIN_AS_PUBLISHED, choice_t, choose, has_option, hides,
    identifier_of, kind_of, mark_overlaps, overlaps, own_bits, own_of, qos_of,
)
from headrace.engine.mqtt_headers cimport NO_QUALITY, block_t, quality_of
from headrace.engine.mqtt_outlet cimport (
    LETTER_FAILED, LETTER_HEARD, LETTER_STAGED, MqttOutlet, send_or_hold,
)
from headrace.engine.mqtt_sending cimport (
    SENT, begin_reading, end_reading, identify_by, judge_packet, read_message, reading_t, send_publish,
)
from headrace.engine.mqtt_window cimport (
    FLIGHT_HELD, FLIGHT_RELEASING, FLIGHT_SENT, FLIGHT_STAGED, FLIGHT_UNSENT, add_flight, find_delivery, flight_t, identify,
    next_identifier, renew_text,
    sending_t, window_t,
)
from headrace.engine.permission_cache cimport allows
from headrace.engine.structs cimport (
    LINK_CHECKS_SUBSCRIBE, LINK_SERVICE, LINK_TRANSLATES, REASON_SLOW_PENDING, SUB_FILTERED, hr_hash, msg_t, sub_t, word_t,
)

cdef enum:
    LAST_IDENTIFIER = 65535
    STORED_PREFIX = 11           # "$MQTT.msgs."


# ---- messages of filters ------------------------------------------------------------------------

cdef inline bint is_from_mqtt(msg_t *m) noexcept:
    """True if what a message says of its QoS may be true: a client of NATS passes on what it was asked with."""
    return m.source.flags & (LINK_TRANSLATES | LINK_SERVICE) != 0 or m.source.remote != NULL


cdef inline bint is_same(sub_t *filter, sub_t *s) noexcept:
    """True if this is the filter, or its shadow."""
    return filter == s or filter != NULL and s.sid_len == filter.sid_len and memcmp(s.text, filter.text, s.sid_len) == 0


cdef int take_of_filter(MqttReceiver link, sub_t *s, uint64_t own, msg_t *m) except -1:
    """1 when the message is in the outbox; 0: it is not for this subscription, or is left out."""
    cdef reading_t reading
    cdef sending_t sending
    cdef choice_t choice
    cdef int quality = quality_of(m.body, m.header_len) if m.header_len else NO_QUALITY
    if quality > 0 and link.terms.version >= 5 and not is_from_mqtt(m):
        quality = 0
    if not overlaps(own) and (qos_of(own) and quality > 0 or has_option(own, NO_LOCAL) and m.source == &link.c):
        return 0  # it comes by a consumer, or not at all
    begin_reading(&reading, m)
    if hides(own, reading.subject, reading.subject_len):
        return 0
    try:
        if overlaps(own):
            choose(&link.c, reading.subject, reading.subject_len, m.source == &link.c, &choice, &reading.identifiers)
            if not is_same(choice.filter, s) or quality > 0 and choice.qos:
                return 0
        read_message(&link.terms, m, &reading, &sending, False)
        identify_by(&reading, &sending, 0 if overlaps(own) else identifier_of(own))
        sending.is_retained = reading.block.is_retained and (
            choice.retains if overlaps(own) else has_option(own, RETAIN_AS_PUBLISHED))
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
    link.put_ack(m.reply, m.reply_len)
    return 1


cdef bint is_own(MqttReceiver link, msg_t *m, block_t *block) noexcept:
    """True if the client itself has published the message."""
    return link.client_hash is not None and block.client_len == <size_t> PyBytes_GET_SIZE(link.client_hash) \
        and memcmp(m.body + block.client_at, PyBytes_AS_STRING(link.client_hash), block.client_len) == 0


cdef bint identifies(MqttReceiver link, sub_t *s, uint64_t own, msg_t *m, names_t *names, ack_t *ack, reading_t *reading,
                     sending_t *sending) except -1:
    """Adds what the filter of a consumer adds; False: the message comes through another filter of its client.

    What its client has, or had, by this consumer stays with it.
    """
    cdef sub_t *filter = link.filter_of(s) if link.has_overlaps else NULL
    cdef choice_t choice
    if filter == NULL or not overlaps(filter.quota.own):
        identify_by(reading, sending, identifier_of(own))
        sending.is_retained = reading.block.is_retained and has_option(own, RETAIN_AS_PUBLISHED)
        return True
    choose(&link.c, reading.subject, reading.subject_len, is_own(link, m, &reading.block), &choice, &reading.identifiers)
    identify_by(reading, sending, 0)
    sending.is_retained = reading.block.is_retained and choice.retains
    return choice.filter == filter \
        or find_delivery(&link.window, names.consumer.text, names.consumer.len, ack.sequence) != NULL


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
        read_message(&link.terms, m, &reading, &sending, True)
        if reading.block.quality == NO_QUALITY or hides(own, reading.subject, reading.subject_len) \
                or has_option(own, NO_LOCAL) and is_own(link, m, &reading.block) \
                or link.c.deliver_permissions != NULL and not allows(s, reading.subject, reading.subject_len) \
                or not identifies(link, s, own, m, &names, &ack, &reading, &sending):
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
    if f.state == FLIGHT_HELD or f.state == FLIGHT_STAGED or f.state == FLIGHT_RELEASING:
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
    cdef uint16_t identifier = next_identifier(w)
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


# ---- the connection's own -----------------------------------------------------------------------

cdef int take_confirmation(MqttReceiver link, msg_t *m) except -1:
    """Take a confirmation of JetStream: the last token of its subject is the identifier of the publication.

    A letter before it says which step of a message of QoS 2 it is.
    """
    cdef uint32_t i = m.subject_len, identifier = 0, scale = 1
    cdef int step
    count_back(link, m)
    while i and c'0' <= m.subject[i - 1] <= c'9' and scale <= 10000:
        i -= 1
        identifier += scale * (m.subject[i] - c'0')
        scale *= 10
    if identifier == 0 or identifier > LAST_IDENTIFIER:
        return 1
    step = <uint8_t> m.subject[i - 1] if i else 0
    if step != c'.':  # of QoS 2
        link.confirm_step(step, <uint16_t> identifier, m)
        return 1
    if not link.is_awaited(identifier):
        return 1
    if is_confirmed(m):
        link.confirm(identifier, None, True)
    else:
        link.post((LETTER_FAILED, identifier, m.body[:m.body_len]))
    return 1


cdef bint is_confirmed(msg_t *m) noexcept:
    """True if an answer of JetStream says that all is well."""
    return m.body_len and not m.header_len and m.body[0] == c'{' and not has_error(m.body, m.body_len)


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
    if kind == KIND_FILTER:
        return take_of_filter(link, s, own, m)
    if kind == KIND_FOLLOWED:
        return take_followed(link, s, own, m)
    if kind == KIND_STORED and qos_of(own):
        count_back(link, m)
        link.take_release(s, m)
        return 1
    if kind == KIND_STORED:
        return take_confirmation(link, m)
    count_back(link, m)
    hand_over(link, s, m)
    return 1


cdef int hand_over(MqttReceiver link, sub_t *s, msg_t *m) except -1:
    """The session hears a message."""
    cdef reading_t reading
    begin_reading(&reading, m)
    return link.post((LETTER_HEARD, s.text[:s.sid_len], reading.subject[:reading.subject_len], m.reply[:m.reply_len],
                      m.body[:m.header_len], m.body[m.header_len:m.body_len]))


cdef class MqttReceiver(MqttOutlet):
    """The half of a connection of MQTT that deliveries come to."""

    def __cinit__(self, *_args, **_kwargs):
        self.c.flags |= LINK_TRANSLATES
        self.c.accept = accept

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
            s.quota.own = own
            return s
        if not is_valid_subject(words[0].text, words[0].len, False):
            raise ValueError(f"not a subject: {subject!r}")
        s = hang_sub(&self.c, &words[0], &words[1] if words[1].len else NULL, &words[2], hash,
                     SUB_FILTERED if allowed == 2 else 0)
        s.quota.own = own
        return s

    def subscribe(self, bytes sid not None, bytes subject not None, bytes queue not None=b"", *, int qos,
                  int options=0, uint32_t identifier=0, bint hides_dollar=False):
        """Makes the plain subscription of a filter. The same sid again changes QoS, options and identifier.

        Raises: ValueError for what is no subject, is forbidden, or is more than a connection may have.
        """
        cdef int allowed = 1
        cdef word_t word
        cdef sub_t *s
        cdef uint64_t mark
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
            self.has_no_local = True
        s = self.add(sid, subject, queue, own_bits(KIND_FILTER, qos, options, hides_dollar, identifier), allowed)
        if self.terms.version >= 5 and not s.queue_len:
            mark = mark_overlaps(&self.c, s.subject, s.subject_len, s)
            s.quota.own |= mark
            self.has_overlaps |= mark != 0

    def _has(self, bytes sid):
        return sub_named(&self.c, sid) != NULL

    cdef sub_t *filter_of(self, sub_t *s) except? NULL:
        """The filter of a consumer, by the subscription that it delivers to; NULL: none is known."""
        cdef bytes sid = None if self._filters is None else self._filters.get(s.text[:s.sid_len])
        return NULL if sid is None else sub_named(&self.c, sid)

    cdef bint is_overlapped(self, bytes sid) except -1:
        cdef sub_t *s = sub_named(&self.c, sid) if self.has_overlaps else NULL
        if s != NULL:
            s = self.filter_of(s)
        return s != NULL and overlaps(s.quota.own)

    def follow(self, bytes deliver not None, bytes queue not None=b"", *, bytes name not None, int qos, int options=0,
               uint32_t identifier=0, bint hides_dollar=False, bytes sid not None=b""):
        """Takes what the consumer `name` delivers to a subject; gives the sid.

        Messages go out with at most this QoS. The same subject again changes QoS, options and identifier. `sid`: of the
        filter whose consumer it is.
        """
        if sid and self.terms.version >= 5:
            if self._filters is None:
                self._filters = {}
            self._filters[deliver] = sid
        if options & NO_LOCAL:
            self.has_no_local = True
        self.add(deliver, deliver, queue, own_bits(KIND_FOLLOWED, qos, options, hides_dollar, identifier), 1)
        return deliver

    def hear(self, bytes subject not None, *, bint releases=False):
        """Gives the session what is published to a subject; gives the sid. `releases`: its stored PUBRELs, which go out."""
        self.add(subject, subject, b"", own_bits(KIND_STORED if releases else KIND_HEARD, releases, 0, False, 0), 1)
        return subject

    def unsubscribe(self, bytes sid not None):
        """Ends a subscription of any kind; one that is not there is none."""
        if not self._is_detached and self._has(sid):
            self._remove(sid)
        if self._filters is not None:
            self._filters.pop(sid, None)
