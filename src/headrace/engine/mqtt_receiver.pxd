"""Messages to a client of MQTT. See mqtt_receiver.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport uint16_t, uint32_t, uint64_t

from headrace.engine.client cimport ClientLink
from headrace.engine.link cimport Link
from headrace.engine.mqtt_sending cimport terms_t
from headrace.engine.mqtt_window cimport flight_t, sending_t, window_t
from headrace.engine.structs cimport sub_t

cdef enum subscription_kind_t:
    KIND_FILTER              # the plain subscription of a filter
    KIND_FOLLOWED            # where a consumer delivers
    KIND_HEARD               # for the session
    KIND_STORED              # where JetStream confirms what the client published

cdef class Postbox(Link):
    cdef PyObject *_receiver     # borrowed: it owns this
    cdef list _letters

cdef class MqttReceiver(ClientLink):
    cdef window_t window
    cdef terms_t terms
    cdef uint32_t receive_maximum
    cdef uint32_t unconfirmed    # publications of QoS 1 that JetStream has not answered
    cdef bint is_behind          # the link is held until it has
    cdef bint stages_qos2
    cdef uint64_t identifier_base # the sequence whose message has the identifier 1; 0: they are counted
    cdef uint32_t no_local_count # of subscriptions that ever asked for it
    cdef bytes client_hash
    cdef Postbox _postbox

    cdef int post(self, tuple letter) except -1
    cdef sub_t *add(self, bytes sid, bytes subject, bytes queue, uint64_t own, int allowed) except NULL
    cdef int confirm(self, uint32_t identifier, bytes payload, bint is_stored) except -1
    cdef int count_confirmed(self) except -1
    cdef int send_held(self) except -1
    cdef int finish_flight(self, flight_t *f) except -1
    cdef uint16_t _send_made(self, sending_t *sending) except? 0
