"""Messages to a client of MQTT. See mqtt_receiver.pyx."""

from libc.stdint cimport uint64_t

from headrace.engine.mqtt_outlet cimport MqttOutlet
from headrace.engine.structs cimport msg_t, sub_t

cdef class MqttReceiver(MqttOutlet):
    cdef bint has_no_local       # a subscription has asked for it: what the client publishes names it from then on
    cdef bytes client_hash
    cdef bint has_overlaps       # of filters, in MQTT 5
    cdef dict _filters           # sids of filters by those of their consumers, in MQTT 5

    cdef sub_t *add(self, bytes sid, bytes subject, bytes queue, uint64_t own, int allowed) except NULL
    cdef sub_t *filter_of(self, sub_t *s) except? NULL

cdef int hand_over(MqttReceiver link, sub_t *s, msg_t *m) except -1
cdef bint is_confirmed(msg_t *m) noexcept
