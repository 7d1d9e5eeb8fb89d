"""The way out to a client of MQTT. See mqtt_outlet.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport uint16_t, uint32_t

from headrace.engine.client cimport ClientLink
from headrace.engine.link cimport Link
from headrace.engine.mqtt_sending cimport terms_t
from headrace.engine.mqtt_unconfirmed cimport unconfirmed_t
from headrace.engine.mqtt_window cimport flight_t, sending_t, window_t
from headrace.engine.structs cimport buf_t, msg_t, sub_t

cdef enum letter_t:
    LETTER_HEARD                 # the arguments of `heard`
    LETTER_FAILED                # identifier, what was said of it
    LETTER_HELD                  # there may be place for what waits
    LETTER_STAGED                # the arguments of `staged`
    LETTER_CAUGHT_UP             # the link is held no longer
    LETTER_CALL                  # of the session: its name, its arguments

cdef class Postbox(Link):
    cdef PyObject *_receiver     # borrowed: it owns this
    cdef list _letters

cdef class MqttOutlet(ClientLink):
    cdef window_t window
    cdef terms_t terms
    cdef uint32_t receive_maximum # messages of QoS 1 and 2 that its client takes at once
    cdef unconfirmed_t unconfirmed # publications of QoS 1 that JetStream has not answered
    cdef bint is_watched         # the session looks after them in time
    cdef bint is_behind          # the link is held until it has
    cdef bint stages_qos2
    cdef Postbox _postbox
    cdef buf_t _acks             # subjects to be acknowledged, each behind its length
    cdef buf_t _steps            # steps that are due: what and an identifier, two bytes each

    cdef int post(self, tuple letter) except -1
    cdef int _open_postbox(self) except -1
    cdef int confirm(self, uint32_t identifier, bytes payload, bint is_stored) except -1
    cdef int put_step(self, int step, uint16_t identifier) except -1
    cdef int put_ack(self, const char *subject, uint32_t n) except -1
    cdef int do_acks(self) except -1
    cdef int take_release(self, sub_t *s, msg_t *m) except -1
    cdef int do_step(self, int step, uint16_t identifier) except -1
    cdef int do_steps(self, object session) except -1
    cdef int confirm_step(self, int step, uint16_t identifier, msg_t *m) except -1
    cdef bint is_overlapped(self, bytes sid) except -1
    cdef bint is_awaited(self, uint32_t identifier) except -1
    cdef int send_held(self) except -1
    cdef int finish_flight(self, flight_t *f) except -1
    cdef uint16_t _send_made(self, sending_t *sending) except? 0

cdef int send_or_hold(MqttOutlet link, flight_t *f, sending_t *sending) except -1
