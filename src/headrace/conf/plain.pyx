# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False
"""Values that are written plainly, read at once: the loop that runs for each character of a long configuration.

Plain are strings without escapes, unquoted words that are no variable, maps and lists of them, white space and
comments. At anything else it stops in front of the whole value that has it, and the parser
(`headrace.conf.parser`) reads on there: all that can be wrong, and every message, is there only. What is read
here is the same there, but slower. Never lives here: what a word means (`headrace.conf.literals`), options.
"""

from cpython.unicode cimport PyUnicode_READ_CHAR, PyUnicode_Substring

from headrace.conf.lexer import is_bcrypt
from headrace.conf.literals import LiteralError, meaning
from headrace.conf.tree import Entry, ListNode, MapNode, Scalar
from headrace.errors import Position


cdef class PlainReader:
    """Reads one text, in the file that messages name; at most `most` values in one container."""

    cdef str _text, _file
    cdef Py_ssize_t _end, _most
    cdef dict _keys  # each key once, however often it is written
    # Where the last position was: positions are asked for from front to back.
    cdef Py_ssize_t _at, _line, _line_start
    # Of the value that was read last.
    cdef Py_ssize_t _size, _depth

    def __cinit__(self, str text, str file, Py_ssize_t most):
        self._text = text
        self._file = file
        self._end = len(text)
        self._most = most
        self._keys = {}

    def entries(self, Py_ssize_t offset, position, dict entries, bint after_value, Py_ssize_t room):
        """Puts keys and their values into `entries`; gives where the rest starts, and `after_value` there.

        `position` is that of `offset`; `after_value`: whether a value came last, so that a separator may
        follow; `room`: how deep containers may be nested here.
        """
        self._begin(offset, position)
        cdef Py_ssize_t kept = offset, at = offset, size = 0, depth = 0
        while True:
            at = self._to_next(at, &after_value, False)
            kept, at = at, self._entry(at, entries, room, &size, &depth)
            if at < 0:
                return kept, after_value
            after_value = True

    def items(self, Py_ssize_t offset, position, list items, bint after_value, Py_ssize_t room):
        """The same with the values of a list."""
        self._begin(offset, position)
        cdef Py_ssize_t kept = offset, at = offset
        while True:
            at = self._to_next(at, &after_value, True)
            kept, at = at, self._item(at, items, room)
            if at < 0:
                return kept, after_value
            after_value = True

    cdef void _begin(self, Py_ssize_t offset, position):
        self._at = offset
        self._line = position.line
        self._line_start = offset - position.column + 1

    # Each of these takes where something starts and gives where it ends, or -1 for what is not plain.

    cdef Py_ssize_t _entry(
        self, Py_ssize_t at, dict entries, Py_ssize_t room, Py_ssize_t *size, Py_ssize_t *depth
    ) except -2:
        """A key with its value, and adds up their size and depth."""
        cdef Py_ssize_t start = at, first, last
        cdef Py_UCS4 char = self._char(at)
        if char == u'"' or char == u"'":
            at = self._quoted(at)
            if at < 0:
                return -1
            first, last = start + 1, at - 1
        else:
            while _is_of_key(self._char(at)):
                at += 1
            first, last = start, at
        if first == last:
            return -1
        name = PyUnicode_Substring(self._text, first, last)
        if name in entries or (first == start and last - first == 7 and name.lower() == "include"):
            return -1
        name = self._keys.setdefault(name, name)
        position = self._position(start)
        at = self._past_white(at)
        char = self._char(at)
        if char == u":" or char == u"=":
            at = self._past_white(at + 1)
        elif first == start and at == last:  # an unquoted key that something else ends
            return -1
        node = self._value(&at, room)
        if node is None:
            return -1
        entries[name] = Entry(name, position, node)
        size[0] += self._size
        depth[0] = max(depth[0], self._depth)
        return at

    cdef Py_ssize_t _item(self, Py_ssize_t at, list items, Py_ssize_t room) except -2:
        node = self._value(&at, room)
        if node is None:
            return -1
        items.append(node)
        return at

    cdef object _value(self, Py_ssize_t *at, Py_ssize_t room):
        """The value that starts there, if something follows that may; moves to its end. None: not plain."""
        cdef Py_ssize_t start = at[0], end
        cdef Py_UCS4 char = self._char(start)
        if char == u"{" or char == u"[":
            node = self._map(at, room) if char == u"{" else self._list(at, room)
            if node is None:
                return None
        else:
            quoted = char == u'"' or char == u"'"
            end = self._quoted(start) if quoted else self._bare(start)
            if end < 0:
                return None
            text = PyUnicode_Substring(self._text, start + quoted, end - quoted)
            if quoted:
                value = text
            elif char == u"$":
                if not is_bcrypt(text):
                    return None
                value = text
            else:
                try:
                    value = meaning(text)
                except LiteralError:
                    return None
            node = Scalar(value, self._position(start), text)
            at[0] = end
            self._size, self._depth = 1, 0
        at[0] = self._past_inline(at[0])
        return node if self._may_follow(at[0]) else None

    cdef object _map(self, Py_ssize_t *at, Py_ssize_t room):
        if room <= 0:
            return None
        cdef Py_ssize_t here, size = 1, depth = 0
        cdef bint after_value = False
        cdef dict entries = {}
        position = self._position(at[0])
        here = self._to_next(at[0] + 1, &after_value, False)
        while self._char(here) != u"}":
            here = self._entry(here, entries, room - 1, &size, &depth)
            if here < 0:
                return None
            after_value = True
            here = self._to_next(here, &after_value, False)
        return MapNode(entries, position, size, depth + 1) if self._closed(at, here, size, depth) else None

    cdef object _list(self, Py_ssize_t *at, Py_ssize_t room):
        if room <= 0:
            return None
        cdef Py_ssize_t here, size = 1, depth = 0
        cdef bint after_value = False
        cdef list items = []
        position = self._position(at[0])
        here = self._to_next(at[0] + 1, &after_value, True)
        while self._char(here) != u"]":
            here = self._item(here, items, room - 1)
            if here < 0:
                return None
            size += self._size
            depth = max(depth, self._depth)
            after_value = True
            here = self._to_next(here, &after_value, True)
        return ListNode(tuple(items), position, size, depth + 1) if self._closed(at, here, size, depth) else None

    cdef bint _closed(self, Py_ssize_t *at, Py_ssize_t here, Py_ssize_t size, Py_ssize_t depth) noexcept:
        """A container ends here; False if there is too much in it."""
        at[0] = here + 1
        self._size, self._depth = size, depth + 1
        return size <= self._most

    # -- characters -------------------------------------------------------------------------------

    cdef inline Py_UCS4 _char(self, Py_ssize_t at) noexcept:
        """NUL at the end; a text has none."""
        return PyUnicode_READ_CHAR(self._text, at) if at < self._end else 0

    cdef Py_ssize_t _to_next(self, Py_ssize_t at, bint *after_value, bint in_list) noexcept:
        """Past white space, comments and separators, to the next key, value or bracket."""
        cdef Py_UCS4 char
        while True:
            at = self._past_white(at)
            char = self._char(at)
            if char == u"#" or (char == u"/" and self._char(at + 1) == u"/"):
                while at < self._end and self._char(at) != u"\r" and self._char(at) != u"\n":
                    at += 1
            elif after_value[0] and (char == u"," or (char == u";" and not in_list)):
                after_value[0] = False
                at += 1
            else:
                return at

    cdef Py_ssize_t _past_white(self, Py_ssize_t at) noexcept:
        cdef Py_UCS4 char = self._char(at)
        while char == u" " or char == u"\t" or char == u"\r" or char == u"\n":
            at += 1
            char = self._char(at)
        return at

    cdef Py_ssize_t _past_inline(self, Py_ssize_t at) noexcept:
        while self._char(at) == u" " or self._char(at) == u"\t":
            at += 1
        return at

    cdef bint _may_follow(self, Py_ssize_t at) noexcept:
        """True if a value may end before this character."""
        cdef Py_UCS4 char = self._char(at)
        return (
            char in u"\r\n,;}]#" or (char == u"/" and self._char(at + 1) == u"/") or at == self._end
        )

    cdef Py_ssize_t _quoted(self, Py_ssize_t at) noexcept:
        cdef Py_UCS4 quote = self._char(at), char
        at += 1
        while at < self._end:
            char = self._char(at)
            if char == quote:
                return at + 1
            if char == u"\\" and quote == u'"':
                return -1
            at += 1
        return -1

    cdef Py_ssize_t _bare(self, Py_ssize_t at) noexcept:
        cdef Py_ssize_t start = at
        cdef Py_UCS4 char = self._char(at)
        if char == u"(" or not 0x20 < char < 0x7f:  # a block; what may be white space of another kind
            return -1
        while at < self._end:
            char = self._char(at)
            if char == u"\\" or char == u"'":
                return -1
            if char in u" \t\r\n,;]}":
                break
            at += 1
        return at if at > start else -1

    cdef object _position(self, Py_ssize_t offset):
        while self._at < offset:
            if self._char(self._at) == u"\n":
                self._line += 1
                self._line_start = self._at + 1
            self._at += 1
        return Position(self._file, self._line, offset - self._line_start + 1)


cdef inline bint _is_of_key(Py_UCS4 char) noexcept:
    """Characters that mean nothing else in a key."""
    return (
        u"a" <= char <= u"z" or u"A" <= char <= u"Z" or u"0" <= char <= u"9"
        or char == u"_" or char == u"-" or char == u"." or char == u"$" or char == u"*" or char == u">"
    )
