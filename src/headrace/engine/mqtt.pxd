"""One client of MQTT. See mqtt.pyx."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t

from headrace.engine.mqtt_headers cimport published_t
from headrace.engine.mqtt_receiver cimport MqttReceiver
from headrace.engine.structs cimport buf_t

cdef struct publish_t:
    # One PUBLISH of a client. What is made of it stands in `buffer`, from these places on.
    uint8_t flags
    uint8_t qos
    uint16_t identifier
    const char *topic
    uint32_t topic_len
    const char *payload
    uint32_t payload_len
    published_t properties
    buf_t buffer
    size_t subject_at
    uint32_t subject_len
    size_t lines_at
    uint32_t lines_len
    size_t reply_at
    uint32_t reply_len

cdef class MqttLink(MqttReceiver):
    cdef bytes _store_reply
    cdef bint _is_storing        # it has subscribed to where publications of QoS 1 are confirmed
    cdef bint _rejects_qos2
    cdef uint32_t _alias_maximum
    cdef uint32_t _receive_maximum_in
    cdef uint32_t _begun_count
    cdef uint8_t *_begun         # a bit for each identifier of a PUBLISH of QoS 2 that is not over; NULL: none was
    cdef list _aliases           # topics by alias
    cpdef end_publication(self, uint16_t identifier)
