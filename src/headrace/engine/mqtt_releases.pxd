"""Messages of QoS 2 to a client of MQTT, from its PUBREC on. See mqtt_releases.pyx."""

from libc.stdint cimport uint16_t, uint64_t

from headrace.engine.mqtt_receiver cimport MqttReceiver
from headrace.engine.structs cimport buf_t, msg_t

cdef enum step_t:
    # What JetStream confirms, as the last token of the subject says it before the identifier.
    STEP_STAGE = 0x53            # S: a publication is staged
    STEP_PUBLISH = 0x50          # P: it is published
    STEP_REMOVE = 0x44           # D: it is not staged any more
    STEP_RELEASE = 0x52          # R: the PUBREL of a message to the client is stored

cdef class MqttReleases(MqttReceiver):
    cdef bytes store_reply       # where JetStream confirms, but for what and the identifier
    cdef bytes release_subject   # where PUBRELs are stored; None: the session does that
    cdef bint is_storing         # it has subscribed to where JetStream confirms
    cdef uint64_t asked          # requests to JetStream
    cdef bint are_steps_watched  # the session looks whether they are answered

    cdef int listen(self) except -1
    cdef uint64_t ask(self) except 0
    cdef bint receive_it(self, uint16_t identifier) except -1
    cdef bint finish_it(self, uint16_t identifier) except -1

cdef uint64_t stored_as(msg_t *m) noexcept
cdef int add_number(buf_t *b, uint64_t number) except -1
cdef int add_bytes(buf_t *b, bytes text) except -1
cdef int add_step_reply(MqttReleases link, buf_t *b, int step, uint16_t identifier) except -1
cdef int send_acknowledgement(MqttReleases link, int first, uint16_t identifier) except -1
