# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""MQTT 3.1.1 and 5.0, server side: bytes of one connection to packets.

PUBLISH of QoS 0 and 1, PUBACK and PINGREQ are carried out here. Everything rarer is a call on the session:

    packet(kind, flags, body)          CONNECT, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, UNSUBSCRIBE, DISCONNECT, AUTH, whose
                                       flags and length may be
    publication(publication)           a PUBLISH of QoS 2 that the session has to stage
    retain(publication)                a PUBLISH of QoS 0 or 1 with RETAIN, after it was routed; its topic and subject
                                       are those it was delivered under
    spark(publication)                 the same, with RETAIN or without, of what may be a birth of Sparkplug B
    violation(text, reason)            a rule is broken; `reason`: the reason code of MQTT 5. The session ends the connection,
                                       or holds the link and ends it later
    refused(identifier, qos)           MQTT 5: a PUBLISH of QoS 1 is not permitted
    publish_refused, reply_refused     as of clients

and what `mqtt_receiver` and `mqtt_incoming` say. Until a CONNECT is accepted nothing else may come.

A PUBLISH of QoS 1 is routed, then published again to where JetStream stores it; PUBACK follows the confirmation.
One of QoS 0 that comes before that waits, and the link with it: its receivers are to get both in order.
Framing and texts: nats-server's for 3.1.1; OASIS MQTT 5.0, sections 2 to 4.
"""

from collections import namedtuple

from headrace.engine.mqtt_incoming import ClientPublications  # noqa: F401 - what a link gives its session
from headrace.engine.mqtt_releases import ReleasedDeliveries  # noqa: F401

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from headrace.engine.batches cimport put_size
from headrace.engine.link cimport doom, emit
from headrace.engine.memory cimport buf_append, buf_reserve, give, take
from headrace.engine.mqtt_headers cimport (
    MALFORMED_PACKET, PACKET_TOO_LARGE, PROTOCOL_ERROR, QOS_NOT_SUPPORTED, REASON_STRING, RECEIVE_MAXIMUM_EXCEEDED, TOPIC_ALIAS_INVALID,
    TOPIC_NAME_INVALID, USER_PROPERTY, add_header_lines, read_variable,
)
from headrace.engine.mqtt_incoming cimport MqttIncoming, publish_t, stage_publication
from headrace.engine.mqtt_routing cimport (
    PLAIN_HEADERS, RAW_HEADERS, borrow_scratch, carry_publication, compose, composed_size, parts_t, publish_inside,
    return_scratch, route_inside,
)
from headrace.engine.mqtt_topics cimport (
    SPARKPLUG_BIRTH, TOPIC_EMPTY, TOPIC_GOOD, add_subject, add_topic, sparkplug_of, topic_error_t, topic_error_text,
)
from headrace.engine.mqtt_unconfirmed cimport add_unconfirmed
from headrace.engine.mqtt_window cimport FLIGHT_SENT, find_identifier, flight_t
from headrace.engine.structs cimport (
    HR_GUARD, LINK_CLOSING, LINK_HEADERS, LINK_HELD, LINK_MUST_CONNECT, LINK_PEDANTIC, LINK_TRACED, LINK_VERBOSE,
    REASON_PROTOCOL_VIOLATION, buf_t, link_t, msg_t,
)

cdef enum packet_t:
    CONNECT = 1
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    UNSUBSCRIBE = 10
    PINGREQ = 12
    DISCONNECT = 14
    AUTH = 15

cdef enum:
    RETAIN = 1
    DUP = 8
    BESIDE_PAYLOAD = 65536       # bytes that a packet may have beside the largest payload
    MOST_DIGITS = 5              # of an identifier
    LARGEST_IDENTIFIER = 65535
    LEAST_STAGED = 42            # bytes of the headers that a PUBLISH of QoS 2 is stored with, but for its subject

MqttPublication = namedtuple("MqttPublication", ["flags", "identifier", "topic", "subject", "headers", "reply", "payload"])
MqttPublication.__doc__ = """A PUBLISH that the session has to do with.

`flags`: of its first byte (DUP 8, QoS 2 and 4, RETAIN 1); `headers`: header lines of its properties; `reply`: the
subject of its response topic.
"""


# ---- errors -------------------------------------------------------------------------------------

cdef int violate(MqttLink link, str text, int reason) except -1:
    """The session ends the connection, or holds it to do so later; one that does neither has a mistake: it ends, too."""
    link.session.violation(text, reason)
    if not link.c.flags & (LINK_CLOSING | LINK_HELD):
        doom(&link.c, REASON_PROTOCOL_VIOLATION)
    return 0


cdef bint may_come(MqttLink link, int kind, int flags) except -1:
    """True if a packet of this kind with these flags may come now; what it has beside them is not known yet."""
    cdef bint is_first = (link.c.flags & LINK_MUST_CONNECT) != 0
    if is_first and kind != CONNECT:
        violate(link, f"the first packet should be a CONNECT (10), got {kind << 4:x}", PROTOCOL_ERROR)
    elif kind == CONNECT and not is_first:
        violate(link, "received a second CONNECT packet", PROTOCOL_ERROR)
    elif kind in (0, 2, 9, 11, 13) or kind == AUTH and link.terms.version < 5:
        violate(link, f"received unknown packet type {kind << 4:x}", MALFORMED_PACKET if kind == 0 else PROTOCOL_ERROR)
    elif kind != PUBLISH and flags != (2 if kind in (PUBREL, SUBSCRIBE, UNSUBSCRIBE) else 0):
        violate(link, f"invalid fixed header flags {flags:x} for packet type {kind << 4:x}", MALFORMED_PACKET)
    else:
        return True
    return False


cdef bint has_length(MqttLink link, int kind, uint32_t size) except -1:
    """True if a packet of this kind may have so many bytes behind its length."""
    cdef bint is_right = True
    if kind == PINGREQ:
        is_right = size == 0
    elif kind == DISCONNECT:
        is_right = size == 0 or link.terms.version >= 5
    elif PUBACK <= kind <= PUBCOMP:
        is_right = size == 2 or size > 2 and link.terms.version >= 5
    if not is_right:
        violate(link, f"invalid length {size} of packet type {kind << 4:x}", MALFORMED_PACKET)
    return is_right


cdef bint is_within_limits(MqttLink link, size_t total) except -1:
    """True if a packet of so many bytes may come: before CONNECT is accepted it is no larger than a payload."""
    cdef size_t most = link.c.max_payload
    if not link.c.flags & LINK_MUST_CONNECT:
        most += BESIDE_PAYLOAD
    if total <= most:
        return True
    violate(link, f"maximum payload exceeded: {total} vs {link.c.max_payload}", PACKET_TOO_LARGE)
    return False


# ---- PUBLISH ------------------------------------------------------------------------------------

cdef bint read_publish(MqttLink link, publish_t *p, const char *at, const char *end) except -1:
    """Reads a PUBLISH; False when a rule is broken."""
    cdef uint32_t size = 0
    cdef int n
    p.qos = p.flags >> 1 & 3
    if p.qos == 3 or link.terms.version >= 5 and p.qos == 0 and p.flags & DUP:
        violate(link, "publish QoS must be 0, 1 or 2, got 3" if p.qos == 3 else "duplicate flag with QoS 0", MALFORMED_PACKET)
        return False
    if end - at < 2 or end - at - 2 < (<uint8_t> at[0] << 8 | <uint8_t> at[1]):
        return cut_off(link, "topic")
    p.topic_len = <uint32_t> <uint8_t> at[0] << 8 | <uint8_t> at[1]
    p.topic = at + 2
    at = p.topic + p.topic_len
    if p.qos:
        if end - at < 2:
            return cut_off(link, "packet identifier")
        p.identifier = <uint16_t> (<uint8_t> at[0] << 8 | <uint8_t> at[1])
        at += 2
        if p.identifier == 0:
            violate(link, "packet identifier cannot be 0", PROTOCOL_ERROR)
            return False
    if link.terms.version >= 5:
        n = read_variable(at, end, &size)
        if n <= 0 or end - at - n < <Py_ssize_t> size:
            return cut_off(link, "properties")
        at += n + size
        if not read_properties(link, p, at - size, at):
            return False
    p.payload = at
    p.payload_len = <uint32_t> (end - at)
    return True


cdef bint cut_off(MqttLink link, str part) except -1:
    violate(link, f"error reading {part}: unexpected end of packet", MALFORMED_PACKET)
    return False


cdef bint read_properties(MqttLink link, publish_t *p, const char *at, const char *end) except -1:
    """Makes header lines of properties, and a subject of the response topic."""
    cdef int wrong
    cdef topic_error_t error
    if at == end:
        return True
    p.lines_at = p.buffer.end
    wrong = add_header_lines(&p.buffer, at, end, &p.properties)
    p.lines_len = <uint32_t> (p.buffer.end - p.lines_at)
    if wrong:
        violate(link, "invalid properties of PUBLISH", wrong)
        return False
    if p.properties.response_len:
        p.reply_at = p.buffer.end
        error = add_subject(&p.buffer, p.properties.response, p.properties.response_len, False)
        p.reply_len = <uint32_t> (p.buffer.end - p.reply_at)
        if error != TOPIC_GOOD:
            violate(link, topic_error_text(error, p.properties.response, p.properties.response_len), PROTOCOL_ERROR)
            return False
    return True


cdef bint resolve_alias(MqttLink link, publish_t *p) except -1:
    """Takes the topic of an alias, or gives one a topic, which lasts as long as the connection."""
    cdef bytes topic
    if p.properties.alias > link._alias_maximum:
        violate(link, f"topic alias {p.properties.alias} is above the maximum", TOPIC_ALIAS_INVALID)
        return False
    if link._aliases is None:
        link._aliases = [None] * (link._alias_maximum + 1)
    if p.topic_len:
        link._aliases[p.properties.alias] = p.topic[:p.topic_len]
        return True
    topic = link._aliases[p.properties.alias]
    if topic is None:
        violate(link, f"topic alias {p.properties.alias} is unknown", PROTOCOL_ERROR)
        return False
    p.topic = PyBytes_AS_STRING(topic)  # the list keeps it
    p.topic_len = <uint32_t> PyBytes_GET_SIZE(topic)
    return True


cdef bint has_subject(MqttLink link, publish_t *p) except -1:
    """Makes the subject of a topic."""
    cdef topic_error_t error
    if p.properties.alias and not resolve_alias(link, p):
        return False
    p.subject_at = p.buffer.end
    error = add_subject(&p.buffer, p.topic, p.topic_len, False)
    p.subject_len = <uint32_t> (p.buffer.end - p.subject_at)
    if error != TOPIC_GOOD:
        violate(link, topic_error_text(error, p.topic, p.topic_len),
                PROTOCOL_ERROR if error == TOPIC_EMPTY else TOPIC_NAME_INVALID)
    return error == TOPIC_GOOD


cdef bint fits(MqttLink link, publish_t *p) except -1:
    """True if a message is no larger than one may be, in the form in which it is published or stored."""
    cdef size_t size = p.payload_len + p.lines_len
    size += LEAST_STAGED + p.subject_len if p.qos == 2 else PLAIN_HEADERS
    if size <= link.c.max_payload:
        return True
    violate(link, f"maximum payload exceeded: {size} vs {link.c.max_payload}", PACKET_TOO_LARGE)
    return False


cdef bytes part_at(publish_t *p, size_t at, uint32_t n):
    return p.buffer.data[at:at + n] if n else b""


cdef object publication_of(publish_t *p, bytes topic, bytes subject):
    return MqttPublication(p.flags, p.identifier, topic, subject, part_at(p, p.lines_at, p.lines_len),
                       part_at(p, p.reply_at, p.reply_len), p.payload[:p.payload_len])


cdef bint may_begin(MqttLink link, uint16_t identifier) except -1:
    """Counts a PUBLISH of QoS 2 until its PUBREL; True if its client may have so many unanswered."""
    cdef uint8_t bit = <uint8_t> (1 << (identifier & 7))
    if link._receive_maximum_in >= LARGEST_IDENTIFIER:
        return True
    if link._begun == NULL:
        link._begun = <uint8_t *> take(LARGEST_IDENTIFIER // 8 + 1)
        memset(link._begun, 0, LARGEST_IDENTIFIER // 8 + 1)
    if not link._begun[identifier >> 3] & bit:
        link._begun[identifier >> 3] |= bit
        link._begun_count += 1
    return is_answered_in_time(link, 0)


cdef bint is_answered_in_time(MqttLink link, uint32_t more) except -1:
    if link._begun_count + link.unconfirmed.count + more <= link._receive_maximum_in:
        return True
    violate(link, f"more than {link._receive_maximum_in} publications without an answer", RECEIVE_MAXIMUM_EXCEEDED)
    return False


cdef int publication(MqttLink link, int flags, const char *at, const char *end) except -1:
    """One PUBLISH."""
    cdef publish_t p
    memset(&p, 0, sizeof(publish_t))
    p.flags = flags
    p.buffer = borrow_scratch(link.c.router)
    try:
        if not read_publish(link, &p, at, end) or not has_subject(link, &p) or not fits(link, &p):
            return 0
        if link.c.flags & LINK_TRACED:
            link.session.trace("PUBLISH", p.topic[:p.topic_len], p.payload[:p.payload_len])
        if p.qos == 2:
            if link._rejects_qos2:
                violate(link, "QoS 2 messages are rejected", QOS_NOT_SUPPORTED)
            elif may_begin(link, p.identifier):
                begin(link, &p)
        elif p.qos == 0 or is_answered_in_time(link, 1):
            publish(link, &p)
    finally:
        return_scratch(link.c.router, &p.buffer)
    return 0


cdef int begin(MqttLink link, publish_t *p) except -1:
    """A message of QoS 2 is staged: by its session where that has to, or where a mapping may have a say."""
    if link.staging_subject is None or link.c.interest.mapper != NULL:
        link.session.publication(publication_of(p, p.topic[:p.topic_len], part_at(p, p.subject_at, p.subject_len)))
        return 0
    add_own_lines(link, p, (p.flags & RETAIN) != 0)
    return stage_publication(link, p, sparkplug_of(p.topic, p.topic_len) == SPARKPLUG_BIRTH)


cdef int add_own_lines(MqttLink link, publish_t *p, bint says_retained) except -1:
    """Header lines that are not of a property, behind those that are: the buffer has nothing behind them then."""
    cdef size_t at
    if link.terms.version < 5 or not (link.has_no_local or says_retained):
        return 0
    at = p.buffer.end
    buf_reserve(&p.buffer, p.lines_len + 64)
    if p.lines_len:
        memcpy(p.buffer.data + at, p.buffer.data + p.lines_at, p.lines_len)
        p.buffer.end += p.lines_len
    if link.has_no_local:
        buf_append(&p.buffer, b"Nmqtt-Client: ", 14)
        buf_append(&p.buffer, PyBytes_AS_STRING(link.client_hash), PyBytes_GET_SIZE(link.client_hash))
        buf_append(&p.buffer, b"\r\n", 2)
    if says_retained:
        buf_append(&p.buffer, b"Nmqtt-Retain: 1\r\n", 17)
    p.lines_at = at
    p.lines_len = <uint32_t> (p.buffer.end - at)
    return 0


cdef int publish(MqttLink link, publish_t *p) except -1:
    """A message of QoS 0 or 1: routed, then stored, then kept."""
    cdef parts_t parts
    cdef msg_t m
    cdef bytes subject = None
    cdef bint is_birth = sparkplug_of(p.topic, p.topic_len) == SPARKPLUG_BIRTH
    cdef bint is_mapped = link.c.interest.mapper != NULL
    cdef size_t store_at = 0
    cdef uint32_t store_len = 0
    memset(&parts, 0, sizeof(parts_t))
    parts.quality = p.qos
    parts.payload = p.payload
    parts.payload_len = p.payload_len
    headers = part_at(p, p.lines_at, p.lines_len) if p.flags & RETAIN or is_birth else None
    add_own_lines(link, p, (p.flags & RETAIN) != 0)
    parts.lines.len = p.lines_len
    if p.qos:
        store_at = p.buffer.end
        add_store_reply(link, p)
        store_len = <uint32_t> (p.buffer.end - store_at)
    parts.reply.len = store_len if not p.reply_len else p.reply_len
    buf_reserve(&p.buffer, composed_size(&parts))  # nothing moves from here on
    parts.lines.text = p.buffer.data + p.lines_at
    parts.reply.text = p.buffer.data + (p.reply_at if p.reply_len else store_at)
    compose(&p.buffer, &m, &parts)
    if store_len and not p.reply_len:  # composed for both: to others it has no reply
        m.tail += store_len + 1
        m.tail_len -= store_len + 1
        m.reply_len = 0
    m.subject = p.buffer.data + p.subject_at
    m.subject_len = p.subject_len
    if not carry_publication(&link.c, &m):
        return refuse(link, p)
    if is_mapped:
        subject = m.subject[:m.subject_len]
    if p.qos:
        store(link, p, &m, &parts, subject, store_at, store_len)
    if link.c.flags & LINK_CLOSING:
        return 0
    if is_birth:
        link.session.spark(routed(p, subject, headers))
    elif p.flags & RETAIN:
        link.session.retain(routed(p, subject, headers))
    return 0


cdef int refuse(MqttLink link, publish_t *p) except -1:
    """A message that is not permitted is acknowledged all the same: in MQTT 5 with the reason."""
    if p.qos == 0:
        return 0
    if link.terms.version >= 5:
        link.session.refused(p.identifier, p.qos)
        return 0
    return link.confirm(p.identifier, None, True)


cdef object routed(publish_t *p, bytes subject, bytes headers):
    """A publication as it was delivered. `subject`: the one that a mapping gave it, if there is a mapping."""
    cdef bytes topic = p.topic[:p.topic_len]
    cdef size_t at = p.buffer.end
    cdef bytes own = part_at(p, p.subject_at, p.subject_len)
    if subject is None:
        subject = own
    elif subject != own:
        add_topic(&p.buffer, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        topic = p.buffer.data[at:p.buffer.end]
    return MqttPublication(p.flags, p.identifier, topic, subject, headers, part_at(p, p.reply_at, p.reply_len),
                           p.payload[:p.payload_len])


cdef int add_store_reply(MqttLink link, publish_t *p) except -1:
    """Append the subject that JetStream confirms a message to; it is listened to from the first one on."""
    link.listen()
    buf_append(&p.buffer, PyBytes_AS_STRING(link.store_reply), PyBytes_GET_SIZE(link.store_reply))
    buf_reserve(&p.buffer, MOST_DIGITS)
    p.buffer.end = put_size(p.buffer.data + p.buffer.end, p.identifier) - p.buffer.data
    return 0


cdef int store(MqttLink link, publish_t *p, msg_t *m, parts_t *parts, bytes subject, size_t store_at, uint32_t store_len) except -1:
    """Publishes a message to where it is stored, under the subject that it was delivered as."""
    cdef buf_t b
    cdef int receivers
    cdef size_t lines_at
    if p.reply_len:
        # The stored copy has the reply subject in a header, for JetStream answers to its own.
        lines_at = p.buffer.end
        buf_reserve(&p.buffer, p.lines_len + p.reply_len + 32)
        memcpy(p.buffer.data + lines_at, p.buffer.data + p.lines_at, p.lines_len)
        p.buffer.end += p.lines_len
        buf_append(&p.buffer, b"Nmqtt-Reply: ", 13)
        buf_append(&p.buffer, p.buffer.data + p.reply_at, p.reply_len)
        buf_append(&p.buffer, b"\r\n", 2)
        parts.lines.len = <uint32_t> (p.buffer.end - lines_at)
        parts.reply.len = store_len
        buf_reserve(&p.buffer, composed_size(parts))
        parts.lines.text = p.buffer.data + lines_at
        parts.reply.text = p.buffer.data + store_at
        compose(&p.buffer, m, parts)
    else:
        m.tail -= store_len + 1
        m.tail_len += store_len + 1
        m.reply_len = store_len
        m.plain_tail = NULL
    b = borrow_scratch(link.c.router)
    try:
        buf_append(&b, b"$MQTT.msgs.", 11)
        if subject is not None:
            buf_append(&b, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        else:
            buf_append(&b, p.buffer.data + p.subject_at, p.subject_len)
        m.subject = b.data
        m.subject_len = <uint32_t> b.end
        receivers = route_inside(&link.c, m)
    finally:
        return_scratch(link.c.router, &b)
    if receivers:
        add_unconfirmed(&link.unconfirmed, p.identifier, link.c.router.now)
        if not link.is_watched:
            link.is_watched = True
            link.session.stores()
    else:
        link.confirm(p.identifier, b"", False)
    return 0


# ---- the rest -----------------------------------------------------------------------------------

cdef bint has_ack_properties(const char *at, const char *end) noexcept:
    """True if the properties of an acknowledgement are those that one may have: a reason, and user properties."""
    cdef uint32_t size = 0, length, i
    cdef int n = read_variable(at, end, &size)
    cdef uint8_t kind
    if n <= 0 or end - at - n != <Py_ssize_t> size:
        return False
    at += n
    while at < end:
        kind = <uint8_t> at[0]
        at += 1
        for i in range(2 if kind == USER_PROPERTY else 1 if kind == REASON_STRING else 0):
            if end - at < 2:
                return False
            length = <uint32_t> <uint8_t> at[0] << 8 | <uint8_t> at[1]
            if end - at - 2 < <Py_ssize_t> length:
                return False
            at += 2 + length
        if kind != USER_PROPERTY and kind != REASON_STRING:
            return False
    return True


cdef int acknowledged(MqttLink link, const char *at, const char *end) except -1:
    """A PUBACK: its message is acknowledged to JetStream, whatever its client says of it."""
    cdef uint16_t identifier = <uint16_t> (<uint8_t> at[0] << 8 | <uint8_t> at[1])
    cdef flight_t *f
    cdef parts_t parts
    if identifier == 0:
        return violate(link, "packet identifier cannot be 0", PROTOCOL_ERROR)
    if end - at > 3 and not has_ack_properties(at + 3, end):
        return violate(link, "invalid properties of PUBACK", MALFORMED_PACKET)
    f = find_identifier(&link.window, identifier)
    if f == NULL or f.state != FLIGHT_SENT or f.qos != 1:
        return 0
    if f.sequence:
        memset(&parts, 0, sizeof(parts_t))
        parts.quality = RAW_HEADERS
        publish_inside(&link.c, f.text, f.text_len, &parts)
    return link.finish_flight(f)


cdef int take_packet(MqttLink link, int kind, int flags, const char *at, const char *end) except -1:
    cdef uint16_t identifier
    if kind == PUBLISH:
        return publication(link, flags, at, end)
    if kind == PUBACK:
        return acknowledged(link, at, end)
    if kind == PINGREQ:
        emit(&link.c, b"\xd0\x00", 2)
        return 0
    if kind == PUBREL and end - at >= 2:
        identifier = <uint16_t> (<uint8_t> at[0] << 8 | <uint8_t> at[1])
        link.end_publication(identifier)
        if end - at == 2 and not link.c.flags & LINK_TRACED and link.release_it(identifier):
            return 0
    elif end - at == 2 and not link.c.flags & LINK_TRACED and (kind == PUBREC or kind == PUBCOMP):
        identifier = <uint16_t> (<uint8_t> at[0] << 8 | <uint8_t> at[1])
        if link.receive_it(identifier) if kind == PUBREC else link.finish_it(identifier):
            return 0
    link.session.packet(kind, flags, at[:end - at])
    return 0


cdef char *packet(MqttLink link, char *p, char *end, size_t *need) except NULL:
    """One packet; returns what follows it, or `p` when it is incomplete or the link is doomed."""
    cdef int kind = <uint8_t> p[0] >> 4, flags = p[0] & 15, n
    cdef uint32_t size = 0
    if not may_come(link, kind, flags):
        return p
    n = read_variable(p + 1, end, &size)
    if n < 0:
        violate(link, "malformed variable int", MALFORMED_PACKET)
        return p
    if n == 0 or not is_within_limits(link, 1 + n + <size_t> size) or not has_length(link, kind, size):
        return p
    if end - p - 1 - n < <Py_ssize_t> size:
        if not link.c.flags & LINK_MUST_CONNECT:  # a stranger's packet takes memory as it comes
            need[0] = 1 + n + <size_t> size
        return p
    if kind == PUBLISH and not flags & 6 and link.unconfirmed.count:
        # It is not to overtake what was published before it, and will reach others when that is stored.
        link.is_behind = True
        link.c.flags |= LINK_HELD
        return p
    take_packet(link, kind, flags, p + 1 + n, p + 1 + n + size)
    return p + 1 + n + size


cdef char *parse_mqtt(link_t *l, char *p, char *end, size_t *need) except NULL:
    """Carries out every complete packet; returns the first byte that was not used."""
    cdef MqttLink link = <MqttLink> l.owner
    cdef char *following
    l.last_activity = l.router.now
    while p < end and not l.flags & (LINK_CLOSING | LINK_HELD):
        following = packet(link, p, end, need)
        if following == p:
            return p
        p = following
    return p


cdef class MqttLink(MqttIncoming):
    """A connection of a client of MQTT. Give it an interest before it accepts the CONNECT."""

    def __cinit__(self, *_args, **_kwargs):
        self.c.parse = parse_mqtt
        self.c.flags &= ~<uint32_t> (LINK_VERBOSE | LINK_PEDANTIC)
        self.c.flags |= LINK_MUST_CONNECT | LINK_HEADERS

    def accept_connect(self, *, int version, bytes client_hash not None, bytes store_reply not None,
                       uint32_t receive_maximum=65535, uint32_t maximum_packet=0, uint32_t topic_alias_maximum=0,
                       uint32_t topic_alias_maximum_out=0, bint rejects_qos2=False, bint stages_qos2=False,
                       uint32_t receive_maximum_in=65535, bytes staging_subject=None, bytes removal_subject=None,
                       bytes release_subject=None):
        """Takes packets of this version from now on.

        `store_reply`: a subject that JetStream's confirmations come to, but for its last token; `receive_maximum`,
        `maximum_packet`, `topic_alias_maximum_out`: what the client takes; `topic_alias_maximum`, `receive_maximum_in`:
        what it may use, and have unanswered; `staging_subject`: where publications of QoS 2 are stored until they are
        released, but for their identifier, and `removal_subject`: where they are deleted; `release_subject`: where
        PUBRELs are stored; None: that is the session's.
        """
        if version not in (4, 5) or receive_maximum == 0:
            raise ValueError("not a version of MQTT, or a client that takes nothing")
        self.terms.version = version
        self.client_hash = client_hash
        self.store_reply = store_reply
        self.receive_maximum = min(receive_maximum, <uint32_t> 65535)
        self.terms.maximum_packet = maximum_packet
        self._alias_maximum = topic_alias_maximum
        self._rejects_qos2 = rejects_qos2
        self.stages_qos2 = stages_qos2
        if staging_subject is not None and removal_subject is not None:
            self.staging_subject = staging_subject
            self.removal_subject = removal_subject
        self.release_subject = None if stages_qos2 else release_subject
        self.terms.alias_maximum = topic_alias_maximum_out if version >= 5 else 0
        self._receive_maximum_in = receive_maximum_in if version >= 5 else LARGEST_IDENTIFIER
        self._set_flag(LINK_MUST_CONNECT, False)

    cpdef end_publication(self, uint16_t identifier):
        """A PUBLISH of QoS 2 is over: its PUBREL has come, or its PUBREC said that it failed."""
        cdef uint8_t bit = <uint8_t> (1 << (identifier & 7))
        if self._begun != NULL and self._begun[identifier >> 3] & bit:
            self._begun[identifier >> 3] ^= bit
            self._begun_count -= 1

    def __dealloc__(self):
        give(self._begun)

    cdef int confirm(self, uint32_t identifier, bytes payload, bint is_stored) except -1:
        cdef char answer[4]
        if not is_stored:
            self.session.store_failed(identifier, payload)
            return 0
        answer[0] = 0x40
        answer[1] = 2
        answer[2] = <char> (identifier >> 8)
        answer[3] = <char> (identifier & 0xFF)
        emit(&self.c, answer, 4)
        return 0

    def route(self, bytes subject not None, bytes headers not None, bytes payload not None, *, bytes reply not None=b""):
        """Publishes a message as the client, whose permissions and mappings count. `headers`: the block of the wire.

        Gives the subject it went to; None: it may not be published, which the session was told as by a PUBLISH.
        """
        cdef buf_t b
        cdef msg_t m
        cdef parts_t parts
        cdef link_t *parsing = self.c.router.parsing
        self._need_place()
        fill(&parts, headers, payload, reply)
        b = borrow_scratch(self.c.router)
        if parsing == NULL:
            self.c.router.parsing = &self.c
        try:
            compose(&b, &m, &parts)
            m.subject = PyBytes_AS_STRING(subject)
            m.subject_len = <uint32_t> PyBytes_GET_SIZE(subject)
            return m.subject[:m.subject_len] if carry_publication(&self.c, &m) else None
        finally:
            self.c.router.parsing = parsing
            return_scratch(self.c.router, &b)

    def publish_internal(self, bytes subject not None, bytes headers not None, bytes payload not None, *,
                         bytes reply not None=b""):
        """Publishes what no permission and no mapping is for. `headers`: the block of the wire."""
        cdef parts_t parts
        self._need_place()
        fill(&parts, headers, payload, reply)
        publish_inside(&self.c, PyBytes_AS_STRING(subject), <uint32_t> PyBytes_GET_SIZE(subject), &parts)

    def _need_place(self):
        if self.c.interest == NULL or self._is_detached:
            raise RuntimeError("a link without an interest, or a detached one, cannot publish")


cdef void fill(parts_t *parts, bytes headers, bytes payload, bytes reply) noexcept:
    """The parts of a message that Python has made."""
    parts.quality = RAW_HEADERS
    parts.lines.text = PyBytes_AS_STRING(headers)
    parts.lines.len = <uint32_t> PyBytes_GET_SIZE(headers)
    parts.payload = PyBytes_AS_STRING(payload)
    parts.payload_len = <uint32_t> PyBytes_GET_SIZE(payload)
    parts.reply.text = PyBytes_AS_STRING(reply)
    parts.reply.len = <uint32_t> PyBytes_GET_SIZE(reply)
