"""Messages of QoS 2 from a client of MQTT. See mqtt_incoming.pyx."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t

from headrace.engine.mqtt_headers cimport published_t
from headrace.engine.mqtt_releases cimport MqttReleases
from headrace.engine.mqtt_staged cimport staged_table_t
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

cdef class MqttIncoming(MqttReleases):
    cdef bytes staging_subject   # what is staged has it, before its identifier; None: the session stages
    cdef bytes removal_subject   # of requests to delete what was staged
    cdef staged_table_t staged
    cdef uint32_t elsewhere      # releases that the session is at work on
    cdef dict _to_keep           # by identifier: what the session keeps of a publication

    cdef bint release_it(self, uint16_t identifier) except -1
    cpdef end_publication(self, uint16_t identifier)

cdef int stage_publication(MqttIncoming link, publish_t *p, bint is_birth) except -1
