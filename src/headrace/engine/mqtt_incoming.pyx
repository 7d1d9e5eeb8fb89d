# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages of QoS 2 from a client of MQTT: staged in a stream, published when it releases them, removed then.

The steps of one message, each after JetStream has confirmed the one before:

    PUBLISH   stored in `$MQTT_qos2in`, one for each client and identifier     then PUBREC
    PUBREL    routed, and stored in `$MQTT_msgs` with an id                    then deleted from `$MQTT_qos2in`
              deleted                                                          then PUBCOMP

What is confirmed is said by the last token of the subject that a confirmation comes to: a letter and the identifier.
The id is made of session, identifier and sequence, so a message that is published again after a server has died is
stored once. A message that this connection has not staged, or that has no copy here, is the session's
(`headrace.mqtt.qos2_incoming`), and so are all behind it until that is done: order is kept.

The session answers these calls:

    refused(identifier, qos)               MQTT 5: the message is not permitted
    stage_failed(identifier, payload)      it was not staged; what was said of it
    release_failed(identifier, payload)    it was staged, and not published or not deleted
    released(identifier)                   its PUBREL came before another message was found to be staged under it
    keep(identifier, subject, flags, payload, lines, reply)  it was published: to be kept for later subscribers; goes on by
                                           `ClientPublications.remove`
    watch()                                something was asked of JetStream: `overdue` tells later what was not answered
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.memory cimport buf_append
from headrace.engine.mqtt_outlet cimport LETTER_CALL
from headrace.engine.mqtt_receiver cimport is_confirmed
from headrace.engine.mqtt_releases cimport (
    STEP_PUBLISH, STEP_RELEASE, STEP_REMOVE, STEP_STAGE, MqttReleases, add_bytes, add_number, add_step_reply,
    send_acknowledgement, stored_as,
)
from headrace.engine.mqtt_routing cimport (
    RAW_HEADERS, borrow_scratch, carry_publication, compose, may_publish, parts_t, publish_inside, return_scratch,
)
from headrace.engine.mqtt_staged cimport (
    STAGED_KEPT, STAGED_RELEASED, STAGED_REMOVED, STAGED_SENT, STAGED_STORED, add_staged, find_staged, release_table,
    remove_staged, staged_t, staged_table_t,
)
from headrace.engine.mqtt_window cimport FLIGHT_RELEASING, flight_t
from headrace.engine.mqtt_unconfirmed cimport awaited_t, oldest_unconfirmed, release_unconfirmed
from headrace.engine.structs cimport buf_t, link_t, msg_t

cdef extern from "string.h" nogil:
    void *memmem(const void *haystack, size_t n, const void *needle, size_t m) noexcept

cdef enum:
    RETAIN = 1
    COPIES = 4 << 20             # bytes that the copies of one connection may have
    PUBREC = 0x50
    PUBCOMP = 0x70


cdef inline int add_line(buf_t *b, bytes name, const char *text, uint32_t n) except -1:
    """Append a header line, whose name has its colon."""
    add_bytes(b, name)
    buf_append(b, text, n)
    return buf_append(b, b"\r\n", 2)


cdef int answer(MqttIncoming link, uint8_t kind, uint16_t identifier, uint32_t times) except -1:
    """Send a PUBREC or a PUBCOMP that says that all is well."""
    cdef uint32_t i
    for i in range(times):
        send_acknowledgement(link, kind, identifier)
    return 0


# ---- PUBLISH ------------------------------------------------------------------------------------

cdef staged_t *copy_of(MqttIncoming link, publish_t *p) except NULL:
    """Note a publication, with a copy of it while there is room."""
    cdef size_t n = <size_t> p.subject_len + p.lines_len + p.reply_len + p.payload_len
    cdef bint is_whole = link.staged.bytes + n <= COPIES
    cdef staged_t *s = add_staged(&link.staged, p.identifier, n if is_whole else 0)
    cdef char *at = s.text
    s.flags = p.flags
    s.is_whole = is_whole
    if not is_whole:
        return s
    s.subject_len, s.lines_len, s.reply_len, s.payload_len = p.subject_len, p.lines_len, p.reply_len, p.payload_len
    memcpy(at, p.buffer.data + p.subject_at, p.subject_len)
    at += p.subject_len
    if p.lines_len:
        memcpy(at, p.buffer.data + p.lines_at, p.lines_len)
    at += p.lines_len
    if p.reply_len:
        memcpy(at, p.buffer.data + p.reply_at, p.reply_len)
    at += p.reply_len
    if p.payload_len:
        memcpy(at, p.payload, p.payload_len)
    return s


cdef int refuse(MqttIncoming link, uint16_t identifier) except -1:
    """A message that is not permitted is received all the same: in MQTT 5 with the reason."""
    link.end_publication(identifier)
    if link.terms.version >= 5:
        link.session.refused(identifier, 2)
        return 0
    return answer(link, PUBREC, identifier, 1)


cdef int add_staged_headers(buf_t *b, publish_t *p) except -1:
    """Append the header block that a message is staged with."""
    cdef char quality[2]
    quality[0] = c'2'
    quality[1] = b"0123456789abcdef"[p.flags & 15]
    buf_append(b, b"NATS/1.0\r\n", 10)
    add_line(b, b"Nmqtt-Pub:", quality, 2)
    add_line(b, b"Nmqtt-Subject:", p.buffer.data + p.subject_at, p.subject_len)
    if p.reply_len:
        add_line(b, b"Nmqtt-Reply:", p.buffer.data + p.reply_at, p.reply_len)
    if p.lines_len:
        buf_append(b, p.buffer.data + p.lines_at, p.lines_len)
    return buf_append(b, b"\r\n", 2)


cdef int stage_publication(MqttIncoming link, publish_t *p, bint is_birth) except -1:
    """Stage a message, whose client gets its PUBREC when it is stored. The first message of an identifier wins."""
    cdef staged_t *s = find_staged(&link.staged, p.identifier)
    cdef parts_t parts
    cdef buf_t b
    cdef size_t subject_at, reply_at
    if s != NULL:
        if s.state == STAGED_SENT:
            s.again += 1
            return 0
        return answer(link, PUBREC, p.identifier, 1)
    if not may_publish(&link.c, p.buffer.data + p.subject_at, p.subject_len):
        return refuse(link, p.identifier)
    s = copy_of(link, p)
    s.is_birth = is_birth
    memset(&parts, 0, sizeof(parts_t))
    parts.quality = RAW_HEADERS
    parts.payload = p.payload
    parts.payload_len = p.payload_len
    b = borrow_scratch(link.c.router)
    try:
        add_staged_headers(&b, p)
        parts.lines.len = <uint32_t> b.end
        subject_at = b.end
        add_bytes(&b, link.staging_subject)
        add_number(&b, p.identifier)
        reply_at = b.end
        add_step_reply(link, &b, STEP_STAGE, p.identifier)
        parts.lines.text = b.data
        parts.reply.text = b.data + reply_at
        parts.reply.len = <uint32_t> (b.end - reply_at)
        s.asked = link.ask()
        if not publish_inside(&link.c, b.data + subject_at, <uint32_t> (reply_at - subject_at), &parts):
            fail_stage(link, p.identifier, b"")
    finally:
        return_scratch(link.c.router, &b)
    return 0


cdef int fail_stage(MqttIncoming link, uint16_t identifier, bytes why) except -1:
    cdef staged_t *s = find_staged(&link.staged, identifier)
    if s != NULL:
        remove_staged(&link.staged, s)
    return link.post((LETTER_CALL, "stage_failed", identifier, why))


# ---- PUBREL -------------------------------------------------------------------------------------

cdef int publish_staged(MqttIncoming link, staged_t *s) except -1:
    """Route a message that its client has released, and store it for subscribers that are not there."""
    cdef uint16_t identifier = s.identifier
    cdef link_t *parsing = link.c.router.parsing
    cdef const char *lines = s.text + s.subject_len
    cdef parts_t parts
    cdef msg_t m
    cdef buf_t b, scratch
    cdef size_t subject_at, reply_at
    memset(&parts, 0, sizeof(parts_t))
    parts.quality = 2
    parts.lines.text = lines
    parts.lines.len = s.lines_len
    parts.reply.text = lines + s.lines_len
    parts.reply.len = s.reply_len
    parts.payload = parts.reply.text + s.reply_len
    parts.payload_len = s.payload_len
    s.state = STAGED_RELEASED
    scratch = borrow_scratch(link.c.router)
    b = borrow_scratch(link.c.router)
    if parsing == NULL:
        link.c.router.parsing = &link.c  # nothing that is in use may go meanwhile
    try:
        compose(&scratch, &m, &parts)
        m.subject = s.text
        m.subject_len = s.subject_len
        if not carry_publication(&link.c, &m):  # what was allowed is not any more
            s = find_staged(&link.staged, identifier)
            return 0 if s == NULL else remove_from_stream(link, s)
        buf_append(&b, b"$MQTT.msgs.", 11)
        buf_append(&b, m.subject, m.subject_len)
        s = find_staged(&link.staged, identifier)
        if s == NULL:
            return 0
        note_to_keep(link, s, b.data + 11, m.subject_len)
        reply_at = b.end
        add_step_reply(link, &b, STEP_PUBLISH, identifier)
        subject_at = b.end
        if s.lines_len:
            buf_append(&b, s.text + s.subject_len, s.lines_len)
        if s.reply_len:
            add_line(&b, b"Nmqtt-Reply:", s.text + s.subject_len + s.lines_len, s.reply_len)
        add_bytes(&b, b"Nats-Msg-Id:")
        add_bytes(&b, link.client_hash)
        buf_append(&b, b"-", 1)
        add_number(&b, identifier)
        buf_append(&b, b"-", 1)
        add_number(&b, s.sequence)
        buf_append(&b, b"\r\n", 2)
        parts.lines.text = b.data + subject_at
        parts.lines.len = <uint32_t> (b.end - subject_at)
        parts.reply.text = b.data + reply_at
        parts.reply.len = <uint32_t> (subject_at - reply_at)
        parts.payload = s.text + s.subject_len + s.lines_len + s.reply_len
        s.asked = link.ask()
        if not publish_inside(&link.c, b.data, <uint32_t> reply_at, &parts):
            link.post((LETTER_CALL, "release_failed", identifier, b""))
    finally:
        link.c.router.parsing = parsing
        return_scratch(link.c.router, &b)
        return_scratch(link.c.router, &scratch)
    return 0


cdef int note_to_keep(MqttIncoming link, staged_t *s, const char *subject, uint32_t n) except -1:
    """Note what the session may have to keep: a retained message, a birth, what a mapping may have made one."""
    cdef const char *lines = s.text + s.subject_len
    cdef const char *payload = lines + s.lines_len + s.reply_len
    if not s.flags & RETAIN and not s.is_birth and n == s.subject_len and memcmp(subject, s.text, n) == 0:
        return 0
    if link._to_keep is None:
        link._to_keep = {}
    link._to_keep[s.identifier] = (
        subject[:n], s.flags, payload[:s.payload_len], lines[:s.lines_len], lines[s.lines_len:s.lines_len + s.reply_len])
    return 0


cdef int remove_from_stream(MqttIncoming link, staged_t *s) except -1:
    """Delete what was staged: it is published."""
    cdef parts_t parts
    cdef buf_t b = borrow_scratch(link.c.router)
    cdef uint16_t identifier = s.identifier
    s.state = STAGED_REMOVED
    memset(&parts, 0, sizeof(parts_t))
    parts.quality = RAW_HEADERS
    try:
        buf_append(&b, b'{"seq":', 7)
        add_number(&b, s.sequence)
        buf_append(&b, b',"no_erase":true}', 17)
        parts.payload_len = <uint32_t> b.end
        add_step_reply(link, &b, STEP_REMOVE, identifier)
        parts.reply.text = b.data + parts.payload_len
        parts.reply.len = <uint32_t> b.end - parts.payload_len
        parts.payload = b.data
        s.asked = link.ask()
        if not publish_inside(&link.c, PyBytes_AS_STRING(link.removal_subject),
                              <uint32_t> PyBytes_GET_SIZE(link.removal_subject), &parts):
            link.post((LETTER_CALL, "release_failed", identifier, b""))
    finally:
        return_scratch(link.c.router, &b)
    return 0


cdef int complete(MqttIncoming link, staged_t *s) except -1:
    """A message is published, and not staged any more."""
    cdef uint16_t identifier = s.identifier
    cdef uint32_t again = s.again
    remove_staged(&link.staged, s)
    return answer(link, PUBCOMP, identifier, 1 + again)


# ---- confirmations ------------------------------------------------------------------------------

cdef int staging_confirmed(MqttIncoming link, staged_t *s, msg_t *m) except -1:
    cdef uint64_t sequence = stored_as(m)
    cdef uint16_t identifier = s.identifier
    cdef uint32_t again = s.again
    cdef bint is_released = s.early != 0
    if sequence:
        s.sequence = sequence
        s.state = STAGED_STORED
        s.again = s.early - 1 if is_released else 0
        answer(link, PUBREC, identifier, 1 + again)
        return link.put_step(STEP_PUBLISH, identifier) if is_released else 0
    if b'"err_code":10077' not in m.body[:m.body_len]:
        return fail_stage(link, identifier, m.body[:m.body_len])
    remove_staged(&link.staged, s)  # the stream has another one, which wins
    answer(link, PUBREC, identifier, 1 + again)
    if is_released:
        link.elsewhere += 1
        link.post((LETTER_CALL, "released", identifier))
    return 0


cdef class MqttIncoming(MqttReleases):
    """The half of a connection of MQTT that has publications of QoS 2 under way."""

    def __cinit__(self, *_args, **_kwargs):
        memset(&self.staged, 0, sizeof(staged_table_t))

    def __dealloc__(self):
        release_table(&self.staged)

    cdef _leave(self):
        release_table(&self.staged)
        MqttReleases._leave(self)

    cpdef end_publication(self, uint16_t identifier):
        """A PUBLISH of QoS 2 is over: its PUBREL has come, or its PUBREC said that it failed."""

    cdef int confirm_step(self, int step, uint16_t identifier, msg_t *m) except -1:
        cdef staged_t *s = find_staged(&self.staged, identifier)
        if step == STEP_RELEASE:
            return MqttReleases.confirm_step(self, step, identifier, m)
        if s == NULL:
            return 0
        if step == STEP_STAGE and s.state == STAGED_SENT:
            return staging_confirmed(self, s, m)
        if step == STEP_PUBLISH and s.state == STAGED_RELEASED:
            if not stored_as(m):
                return self.post((LETTER_CALL, "release_failed", identifier, m.body[:m.body_len]))
            if self._to_keep and identifier in self._to_keep:
                s.state = STAGED_KEPT
                return self.post((LETTER_CALL, "keep", identifier, *self._to_keep.pop(identifier)))
            return self.put_step(STEP_REMOVE, identifier)
        if step == STEP_REMOVE and s.state == STAGED_REMOVED:
            if is_confirmed(m) and memmem(m.body, m.body_len, b'"success":true', 14) != NULL:
                return complete(self, s)
            return self.post((LETTER_CALL, "release_failed", identifier, m.body[:m.body_len]))
        return 0

    cdef int do_step(self, int step, uint16_t identifier) except -1:
        cdef staged_t *s = find_staged(&self.staged, identifier)
        if s == NULL:
            return 0
        if step == STEP_REMOVE:
            return remove_from_stream(self, s)
        if step == STEP_PUBLISH and s.state == STAGED_STORED and not self.release_it(identifier):
            remove_staged(&self.staged, s)
            self.elsewhere += 1
            self.session.released(identifier)
        return 0

    cdef bint release_it(self, uint16_t identifier) except -1:
        """Release a message that was staged here; False, and nothing is changed: it is the session's."""
        cdef staged_t *s = find_staged(&self.staged, identifier)
        if s == NULL:
            return False
        if s.state == STAGED_SENT:
            s.early += 1
            return True
        if s.state != STAGED_STORED:
            s.again += 1
            return True
        if self.elsewhere or not s.is_whole:
            return False
        publish_staged(self, s)
        return True

    @property
    def publications(self):
        """The publications of QoS 1 and 2 that are under way, as the session sees them."""
        return ClientPublications(self)


cdef class ClientPublications:
    """The publications of QoS 1 and 2 of a client that are under way, as its session sees them."""

    cdef MqttIncoming _link

    def __init__(self, MqttIncoming link not None):
        self._link = link

    def release(self, uint16_t identifier):
        """A PUBREL has come. True: it is taken care of; False: the session is to do it, and to say so by `released`."""
        cdef MqttIncoming link = self._link
        cdef staged_t *s
        if link.release_it(identifier):
            return True
        s = find_staged(&link.staged, identifier)
        if s != NULL:
            remove_staged(&link.staged, s)
        link.elsewhere += 1
        return False

    def released(self):
        """A release that the session was to do is done, or will not be."""
        self._link.elsewhere -= 1

    def remove(self, uint16_t identifier):
        """A message that was published is kept: it may be deleted where it is staged."""
        cdef staged_t *s = find_staged(&self._link.staged, identifier)
        if s != NULL and s.state == STAGED_KEPT and not self._link._is_detached:
            remove_from_stream(self._link, s)

    def complete(self, uint16_t identifier):
        """A message is published, and was not staged any more: its client gets PUBCOMP."""
        cdef staged_t *s = find_staged(&self._link.staged, identifier)
        if s != NULL:
            complete(self._link, s)

    def watch_unconfirmed(self):
        """(identifier, since) of the publication of QoS 1 that waits longest, `since` by the router's clock.

        None: none waits, and the next one is a call of `stores` on the session.
        """
        cdef MqttIncoming link = self._link
        cdef awaited_t *oldest = oldest_unconfirmed(&link.unconfirmed)
        if oldest == NULL:
            link.is_watched = False
            release_unconfirmed(&link.unconfirmed)
            return None
        return oldest.identifier, oldest.since

    def overdue(self, uint64_t number):
        """The identifiers of messages of QoS 2 that wait for an answer since the first `number` requests.

        And the number of all requests; 0 when none waits, and nobody needs to look any more.
        """
        cdef MqttIncoming link = self._link
        cdef list found = []
        cdef staged_t *s
        cdef flight_t *f = link.window.oldest
        cdef uint32_t i
        cdef bint waits = False
        for i in range(link.staged.cap):
            s = link.staged.chains[i]
            while s != NULL:
                if s.state != STAGED_STORED and s.state != STAGED_KEPT:
                    waits = True
                    if s.asked <= number:
                        found.append(s.identifier)
                s = s.next
        while f != NULL:
            if f.state == FLIGHT_RELEASING:
                waits = True
                if f.asked <= number:
                    found.append(f.identifier)
            f = f.newer
        link.are_steps_watched = waits
        return found, link.asked if waits else 0
