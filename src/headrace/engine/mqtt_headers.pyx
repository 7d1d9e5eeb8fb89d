# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Properties of a PUBLISH of MQTT 5 as header lines of a message, and header lines as properties.

    payload format      Nmqtt-Format: 0 or 1
    message expiry      Nmqtt-Expiry: seconds, and Nmqtt-Expires-At: Unix milliseconds
    content type        Content-Type: text
    response topic      the reply subject; Nmqtt-Reply: subject, in copies that have another reply
    correlation data    Nmqtt-Correlation: base64
    user property       NAME: value; Nmqtt-User: NAME=VALUE, in which all that is no word is %XX, when NAME is no
                        name for a header, or one that means something else
    RETAIN              Nmqtt-Retain: 1
    the publisher       Nmqtt-Client: the hash of its client identifier, when it wants nothing back of its own

A text is written as it is, but for %0D, %0A and %25. Headers that no client of MQTT has written are user
properties as they stand; `Nats-TTL` is how long such a message lives.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memchr, memcmp, memcpy

from headrace.engine.clock cimport wall_ms
from headrace.engine.memory cimport buf_append, buf_free, buf_reserve
from headrace.engine.mqtt_topics cimport is_utf8
from headrace.engine.structs cimport HR_GUARD, buf_t, word_t

cdef enum:
    LONGEST_TEXT = 65535         # a longer one has no place in a packet
    FIRST_LINE = 10              # "NATS/1.0\r\n"

cdef const char *HEXADECIMAL = b"0123456789ABCDEF"
cdef const char *BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


# ---- numbers ------------------------------------------------------------------------------------

cdef int read_variable(const char *at, const char *end, uint32_t *value) noexcept:
    """Bytes of the variable byte integer at `at`; 0: it goes on behind `end`; -1: it is none."""
    cdef uint32_t result = 0
    cdef int i
    for i in range(4):
        if at + i >= end:
            return 0
        result |= <uint32_t> (at[i] & 0x7F) << (7 * i)
        if not at[i] & 0x80:
            value[0] = result
            return i + 1
    return -1


cdef uint32_t variable_length(uint32_t value) noexcept:
    return 1 if value < 1 << 7 else 2 if value < 1 << 14 else 3 if value < 1 << 21 else 4


cdef char *put_variable(char *at, uint32_t value) noexcept:
    """Writes a variable byte integer; gives where it ends."""
    while value > 0x7F:
        at[0] = <char> (value & 0x7F | 0x80)
        at += 1
        value >>= 7
    at[0] = <char> value
    return at + 1


cdef inline uint32_t short_at(const char *at) noexcept:
    return <uint32_t> <uint8_t> at[0] << 8 | <uint8_t> at[1]


cdef inline int64_t number_of(word_t *text) noexcept:
    """A decimal number of at most 18 digits; -1: it is none."""
    cdef int64_t value = 0
    cdef uint32_t i
    if text.len == 0 or text.len > 18:
        return -1
    for i in range(text.len):
        if not c'0' <= text.text[i] <= c'9':
            return -1
        value = 10 * value + (text.text[i] - c'0')
    return value


# ---- properties to header lines -----------------------------------------------------------------

cdef inline char lower(char c) noexcept:
    return c | 0x20 if c'A' <= c <= c'Z' else c


cdef bint begins(word_t *text, const char *prefix, uint32_t n) noexcept:
    """True if a text begins with these lower-case letters, in any case."""
    cdef uint32_t i
    if text.len < n:
        return False
    for i in range(n):
        if lower(text.text[i]) != prefix[i]:
            return False
    return True


cdef inline bint names(word_t *text, const char *name, uint32_t n) noexcept:
    return text.len == n and begins(text, name, n)


cdef bint is_header_name(word_t *name) noexcept:
    """True if a user property of this name may be a header of this name."""
    cdef uint32_t i
    if name.len == 0 or begins(name, b"nmqtt-", 6) or begins(name, b"nats-", 5) or names(name, b"content-type", 12):
        return False
    for i in range(name.len):
        if <uint8_t> name.text[i] <= 0x20 or name.text[i] == c':' or name.text[i] == 0x7F:
            return False
    return True


cdef int add_coded(buf_t *b, word_t *text, bint all_but_words) except -1:
    """Appends a text with CR, LF and % as %XX; or with all that is no letter, digit, `-`, `_` and `.`."""
    cdef uint32_t i
    cdef uint8_t c
    cdef bint is_plain
    buf_reserve(b, 3 * <size_t> text.len)
    for i in range(text.len):
        c = <uint8_t> text.text[i]
        if all_but_words:
            is_plain = c'0' <= c <= c'9' or c'a' <= (c | 0x20) <= c'z' or c == c'-' or c == c'_' or c == c'.'
        else:
            is_plain = c != c'\r' and c != c'\n' and c != c'%'
        if is_plain:
            b.data[b.end] = <char> c
            b.end += 1
        else:
            b.data[b.end] = c'%'
            b.data[b.end + 1] = HEXADECIMAL[c >> 4]
            b.data[b.end + 2] = HEXADECIMAL[c & 15]
            b.end += 3
    HR_GUARD(b.end <= b.cap)
    return 0


cdef int add_base64(buf_t *b, const uint8_t *data, uint32_t n) except -1:
    cdef uint32_t i, three
    cdef char *at
    buf_reserve(b, 4 * ((<size_t> n + 2) // 3))
    at = b.data + b.end
    for i in range(0, n, 3):
        three = <uint32_t> data[i] << 16
        if i + 1 < n:
            three |= <uint32_t> data[i + 1] << 8
        if i + 2 < n:
            three |= data[i + 2]
        at[0] = BASE64[three >> 18]
        at[1] = BASE64[three >> 12 & 63]
        at[2] = BASE64[three >> 6 & 63] if i + 1 < n else c'='
        at[3] = BASE64[three & 63] if i + 2 < n else c'='
        at += 4
    b.end = at - b.data
    return 0


cdef int add_user_property(buf_t *b, word_t *name, word_t *value) except -1:
    if is_header_name(name):
        buf_append(b, name.text, name.len)
        buf_append(b, b": ", 2)
        add_coded(b, value, False)
    else:
        buf_append(b, b"Nmqtt-User: ", 12)
        add_coded(b, name, True)
        buf_append(b, b"=", 1)
        add_coded(b, value, True)
    buf_append(b, b"\r\n", 2)
    return 0


cdef int add_expiry(buf_t *b, uint32_t seconds) except -1:
    cdef char text[96]
    cdef int n = snprintf(text, sizeof(text), b"Nmqtt-Expiry: %u\r\nNmqtt-Expires-At: %lld\r\n", seconds,
                          <long long> (wall_ms() + 1000 * <int64_t> seconds))
    return buf_append(b, text, n)


cdef const char *read_text(const char *at, const char *end, word_t *text) noexcept:
    """The string, or the binary data, at `at`; gives where it ends, NULL: it passes the end."""
    if end - at < 2 or end - at - 2 < short_at(at):
        return NULL
    text.text = at + 2
    text.len = short_at(at)
    return text.text + text.len


cdef int add_text_property(buf_t *b, uint8_t kind, word_t *text, published_t *found) except -1:
    """A property that is one string, or binary data; 0, or the reason code of what is wrong with it."""
    if kind == CORRELATION_DATA:
        buf_append(b, b"Nmqtt-Correlation: ", 19)
        add_base64(b, <const uint8_t *> text.text, text.len)
        buf_append(b, b"\r\n", 2)
        return 0
    if not is_utf8(text.text, text.len):
        return MALFORMED_PACKET
    if kind == RESPONSE_TOPIC:
        found.response = text.text
        found.response_len = text.len
        return 0 if text.len else PROTOCOL_ERROR
    buf_append(b, b"Content-Type: ", 14)
    add_coded(b, text, False)
    buf_append(b, b"\r\n", 2)
    return 0


cdef int add_number_property(buf_t *b, uint8_t kind, const char *at, published_t *found) except -1:
    """A property that is a number; 0, or the reason code of what is wrong with it."""
    if kind == MESSAGE_EXPIRY:
        add_expiry(b, short_at(at) << 16 | short_at(at + 2))
    elif kind == TOPIC_ALIAS:
        found.alias = <uint16_t> short_at(at)
        if found.alias == 0:
            return TOPIC_ALIAS_INVALID
    elif <uint8_t> at[0] > 1:
        return PROTOCOL_ERROR
    else:
        buf_append(b, b"Nmqtt-Format: 1\r\n" if at[0] else b"Nmqtt-Format: 0\r\n", 17)
    return 0


cdef int size_of_number(uint8_t kind) noexcept:
    return 1 if kind == PAYLOAD_FORMAT else 4 if kind == MESSAGE_EXPIRY else 2 if kind == TOPIC_ALIAS else 0


cdef int misplaced(uint8_t kind) noexcept:
    """The reason code for a property that a PUBLISH of a client may not have: it is known elsewhere, or nowhere."""
    if kind in (0x0B, 0x11, 0x12, 0x13, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1C, 0x1F, 0x21, 0x22, 0x24, 0x25, 0x27,
                0x28, 0x29, 0x2A):
        return PROTOCOL_ERROR
    return MALFORMED_PACKET


cdef int add_header_lines(buf_t *lines, const char *at, const char *end, published_t *found) except -1:
    """Appends the header lines of the properties of a client's PUBLISH; 0, or the reason code of what is wrong."""
    cdef uint32_t seen = 0
    cdef word_t text, value
    cdef uint8_t kind
    cdef int size, wrong
    found.response = NULL
    found.response_len = 0
    found.alias = 0
    while at < end:
        kind = <uint8_t> at[0]
        at += 1
        size = size_of_number(kind)
        if not size and kind not in (CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY):
            return misplaced(kind)
        if kind == USER_PROPERTY:
            at = read_text(at, end, &text)
            if at != NULL:
                at = read_text(at, end, &value)
            if at == NULL or not is_utf8(text.text, text.len) or not is_utf8(value.text, value.len):
                return MALFORMED_PACKET
            add_user_property(lines, &text, &value)
            continue
        if (seen >> kind & 1) != 0 if kind < 32 else found.alias != 0:
            return PROTOCOL_ERROR
        if kind < 32:
            seen |= <uint32_t> 1 << kind
        if size:
            if end - at < size:
                return MALFORMED_PACKET
            wrong = add_number_property(lines, kind, at, found)
            at += size
        else:
            at = read_text(at, end, &text)
            if at == NULL:
                return MALFORMED_PACKET
            wrong = add_text_property(lines, kind, &text, found)
        if wrong:
            return wrong
    return 0


# ---- header lines to properties -----------------------------------------------------------------

cdef int quality_of(const char *block, uint32_t n) noexcept:
    """The QoS that a header block says its message was published with; NO_QUALITY: it says nothing of it."""
    cdef const char *at
    cdef const char *end = block + n
    if n >= 21 and memcmp(block + FIRST_LINE, b"Nmqtt-Pub:", 10) == 0:
        at = block + 20
    else:
        at = block
        while True:
            at = <const char *> memchr(at, c'\n', end - at)
            if at == NULL or end - at < 12:
                return NO_QUALITY
            at += 1
            if memcmp(at, b"Nmqtt-Pub:", 10) == 0:
                at += 10
                break
    while at < end and at[0] == c' ':
        at += 1
    return at[0] - c'0' if at < end and c'0' <= at[0] <= c'2' else NO_QUALITY


cdef bint next_line(const char **at, const char *end, word_t *name, word_t *value) noexcept:
    """Takes the next header line of a block; False at its end. One that has no colon has a name without letters."""
    cdef const char *begin = at[0]
    cdef const char *stop = <const char *> memchr(begin, c'\n', end - begin)
    cdef const char *colon
    if stop == NULL:
        return False
    at[0] = stop + 1
    if stop > begin and (stop - 1)[0] == c'\r':
        stop -= 1
    if stop == begin:
        return False
    colon = <const char *> memchr(begin, c':', stop - begin)
    name.text = value.text = begin
    name.len = value.len = 0
    if colon != NULL:
        name.len = <uint32_t> (colon - begin)
        value.text = colon + 1
        value.len = <uint32_t> (stop - value.text)
        if value.len and value.text[0] == c' ':
            value.text += 1
            value.len -= 1
    return True


cdef void strip(word_t *text) noexcept:
    while text.len and (text.text[0] == c' ' or text.text[0] == c'\t'):
        text.text += 1
        text.len -= 1
    while text.len and (text.text[text.len - 1] == c' ' or text.text[text.len - 1] == c'\t'):
        text.len -= 1


cdef inline int digit_of(char c) noexcept:
    if c'0' <= c <= c'9':
        return c - c'0'
    c = lower(c)
    return c - c'a' + 10 if c'a' <= c <= c'f' else -1


cdef int add_string(buf_t *b, word_t *text, bint is_coded, bint are_all) except -1:
    """Appends a string of MQTT; a coded one without its %0D, %0A and %25, or (`are_all`) every %XX. Gives 0 when it
    has no place in a packet, and what was appended of it has to go."""
    cdef size_t begin = b.end
    cdef uint32_t i = 0
    cdef int c
    cdef size_t n
    buf_reserve(b, 2 + <size_t> text.len)
    b.end += 2
    while i < text.len:
        b.data[b.end] = text.text[i]
        if is_coded and text.text[i] == c'%' and i + 2 < text.len and digit_of(text.text[i + 1]) >= 0 \
                and digit_of(text.text[i + 2]) >= 0:
            c = digit_of(text.text[i + 1]) << 4 | digit_of(text.text[i + 2])
            if are_all or c == c'\r' or c == c'\n' or c == c'%':
                b.data[b.end] = <char> c
                i += 2
        b.end += 1
        i += 1
    n = b.end - begin - 2
    if n > LONGEST_TEXT or not is_utf8(b.data + begin + 2, n):
        return 0
    b.data[begin] = <char> (n >> 8)
    b.data[begin + 1] = <char> (n & 0xFF)
    return 1


cdef int add_binary(buf_t *b, word_t *text) except -1:
    """Appends binary data of MQTT that is written in base64; 0 when it is none, or too long."""
    cdef size_t begin = b.end
    cdef uint32_t i, bits = 0, have = 0
    cdef const char *found
    cdef size_t n
    buf_reserve(b, 2 + <size_t> text.len)
    b.end += 2
    for i in range(text.len):
        if text.text[i] == c'=':
            break
        found = <const char *> memchr(BASE64, text.text[i], 64)
        if found == NULL:
            return 0
        bits = bits << 6 | <uint32_t> (found - BASE64)
        have += 6
        if have >= 8:
            have -= 8
            b.data[b.end] = <char> (bits >> have & 0xFF)
            b.end += 1
    n = b.end - begin - 2
    if n > LONGEST_TEXT:
        return 0
    b.data[begin] = <char> (n >> 8)
    b.data[begin + 1] = <char> (n & 0xFF)
    return 1


cdef int64_t seconds_of(word_t *text) noexcept:
    """Seconds of a `Nats-TTL`: a number, or one with its unit; 0: for ever, or nothing that is understood."""
    cdef word_t digits = text[0]
    cdef int64_t n
    cdef int64_t unit = 1
    if digits.len and digit_of(digits.text[digits.len - 1]) < 0:
        digits.len -= 1
        unit = 1 if digits.text[digits.len] == c's' else 60 if digits.text[digits.len] == c'm' else \
            3600 if digits.text[digits.len] == c'h' else 0
    n = number_of(&digits)
    return n * unit if 0 < n <= 0xFFFFFFFFLL else 0


cdef int add_property(buf_t *b, uint8_t kind, int added, size_t begin) noexcept:
    """Keep what was appended behind the place of its kind, when all of it was."""
    if added:
        b.data[begin] = <char> kind
    else:
        b.end = begin
    return 0


cdef int add_user(buf_t *b, word_t *name, word_t *value, bint is_coded) except -1:
    cdef size_t begin = b.end
    buf_append(b, b"&", 1)
    if not add_string(b, name, False, False) or not add_string(b, value, is_coded, False):
        b.end = begin
    return 0


cdef int add_coded_user(buf_t *b, word_t *text) except -1:
    """Nmqtt-User: the two halves of a user property whose name is none for a header."""
    cdef const char *middle = <const char *> memchr(text.text, c'=', text.len)
    cdef size_t begin = b.end
    cdef word_t name, value
    if middle == NULL:
        return 0
    name.text = text.text
    name.len = <uint32_t> (middle - text.text)
    value.text = middle + 1
    value.len = text.len - name.len - 1
    buf_append(b, b"&", 1)
    if not add_string(b, &name, True, True) or not add_string(b, &value, True, True):
        b.end = begin
    return 0


cdef int read_own(const char *block, word_t *name, word_t *value, block_t *found, buf_t *properties) except -1:
    """A header that begins `Nmqtt-`."""
    cdef size_t begin = properties.end
    cdef word_t text = value[0]
    cdef int64_t number
    strip(&text)
    number = number_of(&text)
    if names(name, b"nmqtt-format", 12) and 0 <= number <= 1:
        buf_append(properties, b"\x01\x01" if number else b"\x01\x00", 2)
    elif names(name, b"nmqtt-expiry", 12) and 0 <= number <= 0xFFFFFFFFLL:
        found.lifetime = number
    elif names(name, b"nmqtt-expires-at", 16) and number > 0:
        found.expires_at = number
    elif names(name, b"nmqtt-correlation", 17):
        buf_append(properties, b"\x09", 1)
        add_property(properties, CORRELATION_DATA, add_binary(properties, &text), begin)
    elif names(name, b"nmqtt-user", 10):
        add_coded_user(properties, &text)
    elif names(name, b"nmqtt-retain", 12):
        found.is_retained = number == 1
    elif names(name, b"nmqtt-client", 12):
        found.client_at = <uint32_t> (text.text - block)
        found.client_len = text.len
    elif names(name, b"nmqtt-reply", 11):
        found.reply_at = <uint32_t> (text.text - block)
        found.reply_len = text.len
    return 0


cdef int read_block(const char *block, uint32_t n, block_t *found, buf_t *properties) except -1:
    """Reads a header block; appends properties but for expiry, response topic and what a subscription adds."""
    cdef const char *at = block
    cdef const char *end = block + n
    cdef word_t name, value
    cdef size_t begin
    cdef bint is_ours
    found.quality = quality_of(block, n)
    found.is_retained = False
    found.expires_at = found.lifetime = 0
    found.client_at = found.client_len = found.reply_at = found.reply_len = 0
    is_ours = found.quality != NO_QUALITY
    if not next_line(&at, end, &name, &value):  # the version, and perhaps a status
        return 0
    while next_line(&at, end, &name, &value):
        if begins(&name, b"nmqtt-", 6):
            read_own(block, &name, &value, found, properties)
            is_ours = True  # also of a retained message, which says nothing of how it was published
            continue
        if not is_ours:
            strip(&value)
        if names(&name, b"nats-ttl", 8):
            found.lifetime = seconds_of(&value)
        elif name.len == 0 or begins(&name, b"nats-", 5):
            continue
        elif names(&name, b"content-type", 12):
            begin = properties.end
            buf_append(properties, b"\x03", 1)
            add_property(properties, CONTENT_TYPE, add_string(properties, &value, is_ours, False), begin)
        else:
            add_user(properties, &name, &value, is_ours)
    return 0


# ---- for Python ---------------------------------------------------------------------------------

def header_lines(bytes properties not None):
    """The header lines of the properties of a PUBLISH, its response topic (b"": none) and its alias (0: none).

    Raises: ValueError with the reason code of what is wrong.
    """
    cdef buf_t lines = buf_t(NULL, 0, 0, 0)
    cdef published_t found
    cdef const char *at = properties
    cdef int wrong
    try:
        wrong = add_header_lines(&lines, at, at + len(properties), &found)
        if wrong:
            raise ValueError(wrong)
        return (lines.data[:lines.end] if lines.end else b"",
                found.response[:found.response_len] if found.response_len else b"", found.alias)
    finally:
        buf_free(&lines)


def properties_of(bytes block not None):
    """Read a header block: properties, QoS (-1: none), RETAIN, Unix ms at which it expires (0: never), seconds
    that it lives from its arrival on (0: for ever), its reply subject and its publisher's hash, b"" for none.
    """
    cdef buf_t properties = buf_t(NULL, 0, 0, 0)
    cdef block_t found
    try:
        read_block(block, <uint32_t> len(block), &found, &properties)
        return (properties.data[:properties.end] if properties.end else b"", found.quality, bool(found.is_retained),
                found.expires_at, found.lifetime, block[found.reply_at:found.reply_at + found.reply_len],
                block[found.client_at:found.client_at + found.client_len])
    finally:
        buf_free(&properties)
