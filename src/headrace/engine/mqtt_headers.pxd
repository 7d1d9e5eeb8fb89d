"""Properties of a PUBLISH as header lines of a message, and back. See mqtt_headers.pyx."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

from headrace.engine.structs cimport buf_t

cdef enum property_t:
    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    REASON_STRING = 0x1F
    TOPIC_ALIAS = 0x23
    USER_PROPERTY = 0x26

cdef enum reason_code_t:
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    TOPIC_NAME_INVALID = 0x90
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QOS_NOT_SUPPORTED = 0x9B

cdef enum:
    NO_QUALITY = -1

cdef struct published_t:
    # What the properties of a PUBLISH say beside header lines.
    const char *response         # the response topic, in the packet
    uint32_t response_len        # 0: there is none
    uint16_t alias               # 0: there is none

cdef struct block_t:
    # What a header block says of a message that goes to a client of MQTT.
    int quality                  # of Nmqtt-Pub; NO_QUALITY: no client of MQTT has published it
    bint is_retained             # it was published with RETAIN
    int64_t expires_at           # Unix ms; 0: never
    int64_t lifetime             # seconds from its arrival on, of one without expires_at; 0: for ever
    uint32_t client_at           # Nmqtt-Client, in the block
    uint32_t client_len
    uint32_t reply_at            # Nmqtt-Reply, in the block
    uint32_t reply_len

cdef int read_variable(const char *at, const char *end, uint32_t *value) noexcept
cdef uint32_t variable_length(uint32_t value) noexcept
cdef char *put_variable(char *at, uint32_t value) noexcept
cdef int add_header_lines(buf_t *lines, const char *at, const char *end, published_t *found) except -1
cdef int quality_of(const char *block, uint32_t n) noexcept
cdef int read_block(const char *block, uint32_t n, block_t *found, buf_t *properties) except -1
