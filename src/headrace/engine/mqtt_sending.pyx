# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""PUBLISH packets to clients: what is read of a message, and the packet that is written of that.

A message often goes to many clients, so the topic of a subject, and the properties of a header block, are kept until
another one comes. Which client gets what is the receiver's (`mqtt_receiver`).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.clock cimport wall_ms
from headrace.engine.link cimport make_room, mark_dirty
from headrace.engine.memory cimport buf_free, buf_reserve, give, take
from headrace.engine.mqtt_headers cimport (
    MESSAGE_EXPIRY, NO_QUALITY, RESPONSE_TOPIC, SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS, block_t, put_variable, quality_of, read_block,
    variable_length,
)
from headrace.engine.mqtt_routing cimport PLAIN_HEADERS
from headrace.engine.mqtt_topics cimport SPARKPLUG_DEATH, add_topic, sparkplug_of
from headrace.engine.mqtt_window cimport sending_t
from headrace.engine.structs cimport HR_GUARD, LINK_CLOSING, buf_t, hr_equal, link_t, msg_t

cdef enum:
    LARGEST_PACKET = 268435455   # what a remaining length can say
    LONGEST_TOPIC = 65535
    CACHED_SUBJECT = 512
    CACHED_BLOCK = 1024
    CACHED_PROPERTIES = 2048
    MOST_ALIASES = 16            # topics of one client that get an alias: each is compared with all


# ---- topics and properties, once for all receivers of a message ---------------------------------

cdef struct cached_topic_t:
    uint32_t subject_len         # 0: empty
    uint32_t topic_len
    char subject[CACHED_SUBJECT + 32]
    char topic[CACHED_SUBJECT + 32]

cdef struct cached_block_t:
    uint32_t block_len           # 0: empty
    uint32_t properties_len
    block_t found
    char block[CACHED_BLOCK + 32]
    char properties[CACHED_PROPERTIES + 32]

cdef char EMPTY[1]
cdef cached_topic_t last_topic
cdef cached_topic_t last_response
cdef cached_block_t last_block


cdef const char *topic_at(cached_topic_t *cache, const char *subject, uint32_t n, buf_t *spare, uint32_t *length) except NULL:
    """The topic of a subject: in the cache, or when it is too long for that in `spare`."""
    if n and n <= CACHED_SUBJECT and cache.subject_len == n and hr_equal(cache.subject, subject, n):
        length[0] = cache.topic_len
        return cache.topic
    spare.start = spare.end = 0
    add_topic(spare, subject, n)
    length[0] = <uint32_t> spare.end
    if not 0 < n <= CACHED_SUBJECT:
        return spare.data if spare.data != NULL else EMPTY
    memcpy(cache.subject, subject, n)
    memcpy(cache.topic, spare.data, spare.end)
    cache.subject_len = n
    cache.topic_len = length[0]
    return cache.topic


cdef const char *properties_at(const char *block, uint32_t n, block_t *found, buf_t *spare, size_t *length) except NULL:
    """Properties of a header block, and what else it says; in the cache, or when they are too long for that in `spare`."""
    if n <= CACHED_BLOCK and last_block.block_len == n and hr_equal(last_block.block, block, n):
        found[0] = last_block.found
        length[0] = last_block.properties_len
        return last_block.properties
    spare.start = spare.end = 0
    read_block(block, n, found, spare)
    length[0] = spare.end
    if n > CACHED_BLOCK or spare.end > CACHED_PROPERTIES:
        return spare.data if spare.data != NULL else EMPTY
    memcpy(last_block.block, block, n)
    if spare.end:
        memcpy(last_block.properties, spare.data, spare.end)
    last_block.block_len = n
    last_block.properties_len = <uint32_t> spare.end
    last_block.found = found[0]
    return last_block.properties


cdef void begin_reading(reading_t *reading, msg_t *m) noexcept:
    memset(reading, 0, sizeof(reading_t))
    reading.block.quality = NO_QUALITY
    reading.subject = m.subject
    reading.subject_len = m.subject_len
    if m.head != NULL:
        reading.subject = m.head + 5
        reading.subject_len = <uint32_t> m.head_len - 6


cdef void end_reading(reading_t *reading) noexcept:
    if reading.topic.data != NULL:
        buf_free(&reading.topic)
    if reading.response.data != NULL:
        buf_free(&reading.response)
    if reading.properties.data != NULL:
        buf_free(&reading.properties)
    if reading.identifiers.data != NULL:
        buf_free(&reading.identifiers)


cdef inline bint is_plain_block(msg_t *m) noexcept:
    """True if there is nothing in the headers but how it was published by a client of MQTT 3.1.1."""
    return m.header_len == 0 or m.header_len == PLAIN_HEADERS and memcmp(m.body, b"NATS/1.0\r\nNmqtt-Pub:", 20) == 0


cdef int identify_by(reading_t *reading, sending_t *sending, uint32_t subscription) except -1:
    """Adds the identifier of a subscription, 0 for none; all that were added go with the message."""
    cdef char *at
    if subscription:
        buf_reserve(&reading.identifiers, 5)
        at = reading.identifiers.data + reading.identifiers.end
        at[0] = SUBSCRIPTION_IDENTIFIER
        reading.identifiers.end = put_variable(at + 1, subscription) - reading.identifiers.data
    sending.identifiers = reading.identifiers.data
    sending.identifiers_len = <uint32_t> reading.identifiers.end
    return 0


cdef int read_message(terms_t *terms, msg_t *m, reading_t *reading, sending_t *sending, bint is_stored) except -1:
    """Reads a message into one that is to be sent, but for what its delivery adds."""
    cdef const char *reply = m.reply
    cdef uint32_t reply_len = m.reply_len
    cdef size_t n = 0
    memset(sending, 0, sizeof(sending_t))
    sending.topic = topic_at(&last_topic, reading.subject, reading.subject_len, &reading.topic, &sending.topic_len)
    sending.payload = m.body + m.header_len
    sending.payload_len = m.body_len - m.header_len
    if is_plain_block(m):
        reading.block.quality = quality_of(m.body, m.header_len)
    elif terms.version >= 5 or is_stored:
        sending.properties = properties_at(m.body, m.header_len, &reading.block, &reading.properties, &n)
        sending.properties_len = n
        sending.expires_at = reading.block.expires_at
        if reading.block.lifetime and not reading.block.expires_at:
            sending.expires_at = wall_ms() + 1000 * reading.block.lifetime
    if terms.version >= 5:
        if is_stored or reading.block.reply_len:
            reply = m.body + reading.block.reply_at
            reply_len = reading.block.reply_len
        if reply_len:
            sending.response = topic_at(&last_response, reply, reply_len, &reading.response, &sending.response_len)
    return 0


# ---- packets ------------------------------------------------------------------------------------

cdef size_t properties_size(sending_t *sending) noexcept:
    cdef size_t n = sending.properties_len + sending.identifiers_len
    if sending.expires_at:
        n += 5
    if sending.response_len:
        n += 3 + sending.response_len
    return n


cdef char *put_text(char *at, const char *text, uint32_t n) noexcept:
    at[0] = <char> (n >> 8)
    at[1] = <char> (n & 0xFF)
    memcpy(at + 2, text, n)
    return at + 2 + n


cdef char *put_properties(char *at, sending_t *sending, size_t n, int64_t left) noexcept:
    at = put_variable(at, <uint32_t> n)
    if sending.expires_at:
        at[0] = MESSAGE_EXPIRY
        at[1] = <char> (left >> 24 & 0xFF)
        at[2] = <char> (left >> 16 & 0xFF)
        at[3] = <char> (left >> 8 & 0xFF)
        at[4] = <char> (left & 0xFF)
        at += 5
    if sending.properties_len:
        memcpy(at, sending.properties, sending.properties_len)
        at += sending.properties_len
    if sending.response_len:
        at[0] = RESPONSE_TOPIC
        at = put_text(at + 1, sending.response, sending.response_len)
    if sending.identifiers_len:
        memcpy(at, sending.identifiers, sending.identifiers_len)
        at += sending.identifiers_len
    return at


cdef uint32_t find_alias(terms_t *terms, sending_t *sending) noexcept:
    """The alias that a topic has; 0: it has none."""
    cdef uint32_t i
    for i in range(terms.aliases_count):
        if terms.aliases[i].len == sending.topic_len and memcmp(terms.aliases[i].topic, sending.topic, sending.topic_len) == 0:
            return i + 1
    return 0


cdef uint32_t give_alias(terms_t *terms, sending_t *sending) noexcept:
    """Gives a topic an alias while there are some; 0: there are none."""
    cdef alias_t *alias
    if terms.aliases_count >= min(terms.alias_maximum, <uint32_t> MOST_ALIASES):
        return 0
    try:
        if terms.aliases == NULL:
            terms.aliases = <alias_t *> take(MOST_ALIASES * sizeof(alias_t))
        alias = &terms.aliases[terms.aliases_count]
        alias.topic = <char *> take(sending.topic_len)
    except MemoryError:
        return 0
    memcpy(alias.topic, sending.topic, sending.topic_len)
    alias.len = sending.topic_len
    terms.aliases_count += 1
    return terms.aliases_count


cdef void release_terms(terms_t *terms) noexcept:
    """Gives back what is known of topics."""
    cdef uint32_t i
    for i in range(terms.aliases_count):
        give(terms.aliases[i].topic)
    give(terms.aliases)
    terms.aliases = NULL
    terms.aliases_count = 0


cdef sent_t judge_packet(terms_t *terms, sending_t *sending, size_t *body, size_t *properties, int64_t *left) noexcept:
    """Gives the sizes of a packet, and the seconds that its message has left; SENT when it may go out."""
    left[0] = 0
    properties[0] = 0
    if sending.expires_at:
        left[0] = (sending.expires_at - wall_ms() + 999) // 1000
        if left[0] <= 0:
            return SENT_DROPPED
        left[0] = min(left[0], <int64_t> 0xFFFFFFFFLL)
    body[0] = 2 + sending.topic_len + sending.payload_len + (2 if sending.qos else 0)
    if terms.version >= 5:
        properties[0] = properties_size(sending)
        if properties[0] > LARGEST_PACKET:
            return SENT_DROPPED
        body[0] += variable_length(<uint32_t> properties[0]) + properties[0]
    if sending.topic_len > LONGEST_TOPIC or sending.topic_len == 0 or sending.response_len > LONGEST_TOPIC \
            or body[0] > LARGEST_PACKET:
        return SENT_DROPPED
    if terms.maximum_packet and 1 + variable_length(<uint32_t> body[0]) + body[0] > terms.maximum_packet:
        return SENT_DROPPED
    return SENT


cdef sent_t send_publish(link_t *l, terms_t *terms, sending_t *sending) noexcept:
    """Puts a PUBLISH into the outbox. Of Sparkplug B certificates are retained, and deaths say the time."""
    if sending.topic_len > 16:
        if sending.topic[0] == c'$' and sending.topic_len > 24 and memcmp(sending.topic, b"$sparkplug/certificates/", 24) == 0:
            sending.is_retained = True
        elif not sending.is_retained and sparkplug_of(sending.topic, sending.topic_len) == SPARKPLUG_DEATH:
            return send_death(l, terms, sending)
    return put_publish(l, terms, sending)


cdef sent_t send_death(link_t *l, terms_t *terms, sending_t *sending) noexcept:
    """Puts a death into the outbox, with the time that the session puts into it; deaths are rare."""
    cdef sending_t told = sending[0]
    cdef object session = <object> l.session
    cdef bint is_followed = l.interest != NULL and l.interest.is_followed
    cdef bytes payload
    try:
        if l.interest != NULL:
            l.interest.is_followed = True  # the plan that is being followed must not go meanwhile
        payload = session.stamped(sending.topic[:sending.topic_len], sending.payload[:sending.payload_len])
        if payload is None:
            raise TypeError("a death without a payload")
        told.payload = PyBytes_AS_STRING(payload)
        told.payload_len = PyBytes_GET_SIZE(payload)
        return put_publish(l, terms, &told)
    except Exception as error:
        session.failed(error)
        return SENT_NOTHING
    finally:
        if l.interest != NULL:
            l.interest.is_followed = is_followed


cdef sent_t put_publish(link_t *l, terms_t *terms, sending_t *sending) noexcept:
    cdef size_t body, properties, n
    cdef int64_t left
    cdef uint32_t alias = 0, topic_len = sending.topic_len
    cdef char *at
    if judge_packet(terms, sending, &body, &properties, &left) != SENT:
        return SENT_DROPPED
    if l.flags & LINK_CLOSING:
        return SENT_NOTHING
    if terms.alias_maximum:
        alias = find_alias(terms, sending)
        if alias:
            topic_len = 0
        elif not terms.maximum_packet or body + 10 < terms.maximum_packet:  # so much it may add
            alias = give_alias(terms, sending)
    if alias:
        body -= sending.topic_len - topic_len + variable_length(<uint32_t> properties)
        properties += 3
        body += 3 + variable_length(<uint32_t> properties)
    n = 1 + variable_length(<uint32_t> body) + body
    at = l.out.data + l.out.end if l.out.cap - l.out.end >= n else make_room(l, n)
    if at == NULL:
        return SENT_NOTHING
    at[0] = <char> (0x30 | sending.is_again << 3 | sending.qos << 1 | sending.is_retained)
    at = put_variable(at + 1, <uint32_t> body)
    at = put_text(at, sending.topic, topic_len)
    if sending.qos:
        at[0] = <char> (sending.identifier >> 8)
        at[1] = <char> (sending.identifier & 0xFF)
        at += 2
    if terms.version >= 5:
        at = put_properties(at, sending, properties, left)
        if alias:
            at[0] = TOPIC_ALIAS
            at[1] = <char> (alias >> 8)
            at[2] = <char> (alias & 0xFF)
            at += 3
    if sending.payload_len:
        memcpy(at, sending.payload, sending.payload_len)
        at += sending.payload_len
    HR_GUARD(at == l.out.data + l.out.end + n)
    l.out.end += n
    HR_GUARD(l.out.end <= l.out.cap)
    mark_dirty(l)
    return SENT
