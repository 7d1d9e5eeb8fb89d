"""Finding the next message in what a server sent, for all that reads such bytes. Nothing here but that.

A message is taken if it is written as servers write it, with single spaces:

    MSG subject sid [reply] size CR LF payload CR LF
    HMSG subject sid [reply] header-size total-size CR LF header payload CR LF

No byte is read that was not given; every length is checked before it is used.
"""

from libc.string cimport memchr, memcmp

cdef enum:
    LONGEST_LINE = 4096  # longer ones are left to the client's parser
    MOST_DIGITS = 9  # of a size: fits 32 bits
    MOST_WORDS = 5  # subject, sid, reply, two sizes

cdef enum:
    FRAME_WHOLE = 1
    FRAME_PARTIAL = 0  # more bytes must come first
    FRAME_OTHER = -1  # another operation, or the beginning of any
    FRAME_WRONG = -2  # a message that no server writes like that, or one that is too large


cdef struct frame_t:
    const char *words[MOST_WORDS]  # of the line: subject, sid, reply or a size, sizes
    Py_ssize_t lengths[MOST_WORDS]
    int count
    const char *reply        # NULL for none
    Py_ssize_t reply_length
    Py_ssize_t start         # where the header block begins, or else the payload
    Py_ssize_t header        # bytes of the header block; 0: there is none
    Py_ssize_t total         # bytes of header block and payload


cdef inline bint split_line(const char *at, const char *end, frame_t *frame) noexcept nogil:
    """Words with one space between them and nothing else; False for any other line."""
    cdef const char *start = at
    frame.count = 0
    while True:
        if at == end or at[0] == c' ':
            if at == start or frame.count == MOST_WORDS:
                return False
            frame.words[frame.count] = start
            frame.lengths[frame.count] = at - start
            frame.count += 1
            if at == end:
                return True
            start = at + 1
        elif at[0] == c'\t' or at[0] == c'\r':
            return False
        at += 1


cdef inline Py_ssize_t size_of(const char *word, Py_ssize_t length) noexcept nogil:
    """The size that a word says; -1 for none."""
    cdef Py_ssize_t value = 0, place
    if length > MOST_DIGITS:
        return -1
    for place in range(length):
        if word[place] < c'0' or word[place] > c'9':
            return -1
        value = value * 10 + (word[place] - c'0')
    return value


cdef inline int next_frame(
    const char *buffer, Py_ssize_t size, Py_ssize_t pos, Py_ssize_t most, frame_t *frame
) noexcept nogil:
    """Read the message at `pos`, 0 to `size`: one of the FRAME values. `most`: the largest total that is taken."""
    cdef Py_ssize_t begin, left = size - pos
    cdef const char *newline
    cdef bint with_header
    if left < 5:
        return FRAME_OTHER
    if memcmp(buffer + pos, b"MSG ", 4) == 0:
        with_header = False
        begin = pos + 4
    elif memcmp(buffer + pos, b"HMSG ", 5) == 0:
        with_header = True
        begin = pos + 5
    else:
        return FRAME_OTHER
    newline = <const char *>memchr(buffer + begin, c'\n', min(size - begin, LONGEST_LINE))
    if newline == NULL:
        return FRAME_PARTIAL if size - begin < LONGEST_LINE else FRAME_WRONG
    if newline == buffer + begin or (newline - 1)[0] != c'\r':
        return FRAME_WRONG
    if not split_line(buffer + begin, newline - 1, frame) or not 3 + with_header <= frame.count <= 4 + with_header:
        return FRAME_WRONG
    frame.total = size_of(frame.words[frame.count - 1], frame.lengths[frame.count - 1])
    frame.header = size_of(frame.words[frame.count - 2], frame.lengths[frame.count - 2]) if with_header else 0
    if frame.total < 0 or frame.total > most or frame.header < 0 or frame.header > frame.total:
        return FRAME_WRONG
    frame.start = newline - buffer + 1
    if size - frame.start - frame.total < 2:
        return FRAME_PARTIAL
    if buffer[frame.start + frame.total] != c'\r' or buffer[frame.start + frame.total + 1] != c'\n':
        return FRAME_WRONG
    frame.reply = NULL
    frame.reply_length = 0
    if frame.count == 4 + with_header:
        frame.reply = frame.words[2]
        frame.reply_length = frame.lengths[2]
    return FRAME_WHOLE
