"""The subject index of a log. See subject_index.pyx."""

from libc.stdint cimport uint32_t, uint64_t

cdef extern from *:
    """
    #include <stddef.h>
    #include <string.h>

    /* Whether a pattern matches a literal subject, token by token; a subject with an empty token matches
       nothing. Same answers as headrace.subjects.grammar.matches. */
    static int hr_subject_matches(const char *p, size_t pn, const char *s, size_t sn) {
        size_t i = 0, j = 0;
        if (sn == 0 || s[0] == '.' || s[sn - 1] == '.') return 0;
        for (size_t k = 1; k < sn; k++) if (s[k] == '.' && s[k - 1] == '.') return 0;
        for (;;) {
            const char *pd = (const char *)memchr(p + i, '.', pn - i);
            const char *sd = (const char *)memchr(s + j, '.', sn - j);
            size_t pt = pd ? (size_t)(pd - (p + i)) : pn - i, st = sd ? (size_t)(sd - (s + j)) : sn - j;
            if (pt == 1 && p[i] == '>' && !pd) return 1;
            if (!(pt == 1 && p[i] == '*') && (pt != st || memcmp(p + i, s + j, st) != 0)) return 0;
            if (!pd || !sd) return !pd && !sd;
            i += pt + 1; j += st + 1;
        }
    }
    """
    bint hr_subject_matches(const char *pattern, size_t pn, const char *subject, size_t sn) noexcept nogil


cdef enum:
    FIRST_LOOSE = 1
    LAST_LOOSE = 2


cdef struct subject_t:
    uint64_t first      # no message of the subject is older
    uint64_t last       # no message of the subject is newer
    uint64_t count      # 0: a free entry
    char *text
    uint32_t n
    uint32_t loose      # which of first and last is a bound only: FIRST_LOOSE, LAST_LOOSE


cdef class SubjectIndex:
    cdef subject_t *_entries
    cdef uint32_t _used         # entries ever used; the free ones among them are chained through `first`
    cdef uint32_t _room
    cdef uint32_t _free         # 1 + index of a free entry, 0: none
    cdef uint32_t *_slots       # 1 + index of an entry, 0: never used
    cdef uint32_t _mask
    cdef uint32_t _count
    cdef uint64_t _seed

    cdef void _release(self) noexcept
    cdef uint32_t _slot(self, const char *subject, size_t n) noexcept
    cdef void _forget(self, subject_t *entry) noexcept
    cdef subject_t *find(self, const char *subject, size_t n) noexcept
    cdef int count_in(self, const char *subject, size_t n, uint64_t sequence) except -1
    cdef bint take(self, const char *subject, size_t n, uint64_t sequence, uint64_t previous) except -1
    cdef int grow(self) except -1
