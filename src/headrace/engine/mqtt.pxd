"""One client of MQTT. See mqtt.pyx."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t

from headrace.engine.mqtt_incoming cimport MqttIncoming

cdef class MqttLink(MqttIncoming):
    cdef bint _rejects_qos2
    cdef uint32_t _alias_maximum
    cdef uint32_t _receive_maximum_in
    cdef uint32_t _begun_count
    cdef uint8_t *_begun         # a bit for each identifier of a PUBLISH of QoS 2 that is not over; NULL: none was
    cdef list _aliases           # topics by alias
    cpdef end_publication(self, uint16_t identifier)
