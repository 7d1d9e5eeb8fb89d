"""Records of the log on disk, for compiled code that writes and reads them. See records.pyx."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from headrace.engine.messages cimport NewMessages, message_t
from headrace.engine.subject_index cimport SubjectIndex

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    typedef struct {
        uint32_t header_crc, body_crc;
        uint8_t version, kind;
        uint16_t subject;
        uint32_t body;
        uint64_t sequence;
        int64_t time;
        uint64_t previous;
        uint32_t headers;
        uint16_t reply, flags;
    } hr_record_t;

    typedef char hr_record_is_48[sizeof(hr_record_t) == 48 ? 1 : -1];

    /* Between the order on disk and the machine's; nothing to do on most. */
    static inline void hr_record_order(hr_record_t *r) {
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        r->header_crc = __builtin_bswap32(r->header_crc); r->body_crc = __builtin_bswap32(r->body_crc);
        r->subject = __builtin_bswap16(r->subject); r->body = __builtin_bswap32(r->body);
        r->sequence = __builtin_bswap64(r->sequence);
        r->time = (int64_t)__builtin_bswap64((uint64_t)r->time);
        r->previous = __builtin_bswap64(r->previous); r->headers = __builtin_bswap32(r->headers);
        r->reply = __builtin_bswap16(r->reply); r->flags = __builtin_bswap16(r->flags);
    #else
        (void)r;
    #endif
    }
    static inline void hr_put32(char *p, uint32_t v) {
        for (int i = 0; i < 4; i++) p[i] = (char)(v >> (8 * i));
    }
    static inline void hr_put64(char *p, uint64_t v) {
        for (int i = 0; i < 8; i++) p[i] = (char)(v >> (8 * i));
    }
    static inline uint64_t hr_get64(const char *p) {
        uint64_t v = 0;
        for (int i = 0; i < 8; i++) v |= (uint64_t)(uint8_t)p[i] << (8 * i);
        return v;
    }
    """
    ctypedef struct hr_record_t:
        uint32_t header_crc
        uint32_t body_crc
        uint8_t version
        uint8_t kind
        uint16_t subject
        uint32_t body
        uint64_t sequence
        int64_t time
        uint64_t previous
        uint32_t headers
        uint16_t reply
        uint16_t flags
    void hr_record_order(hr_record_t *r) noexcept nogil
    void hr_put32(char *p, uint32_t v) noexcept nogil
    void hr_put64(char *p, uint64_t v) noexcept nogil
    uint64_t hr_get64(const char *p) noexcept nogil

cdef enum:
    VERSION = 1
    MESSAGE = 1
    RANGES = 2
    FLOOR = 3
    ERASED = 4
    SEGMENTS = 5
    HEADER = 6
    HEAD = 48
    HAS_TTL = 1
    SEALED = 2
    BY_LIMITS = 4   # of FLOOR and RANGES: it follows from the limits of the log, which remove again
    SEGMENT_HEAD = 64     # what a record of a header holds
    SIZE_BESIDES = 32     # what a message counts for besides its parts: headrace.log.port.size_of
    RANGES_AT_ONCE = 4096  # pairs in one record of ranges

cdef size_t body_size(message_t *m) except? 0
cdef char *pack_message(char *at, message_t *m, size_t body, uint64_t sequence, int64_t time, uint64_t previous,
                        uint32_t salt) noexcept
cdef uint64_t previous_of(SubjectIndex table, dict earlier, message_t *m, uint64_t sequence) except? 0
cdef bint has_one_subject(NewMessages batch) noexcept
cdef int look(const char *data, size_t n, size_t at, uint32_t salt, hr_record_t *r) noexcept
cdef void find_parts(message_t *m, hr_record_t *r, const char *body, size_t n) noexcept
