"""The account cache of a link to another server."""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.interest cimport Interest
from headrace.engine.structs cimport interest_t

cdef struct account_t:
    uint64_t hash
    const char *name         # of the key in the dictionary
    uint32_t len
    interest_t *interest     # NULL: the account is not known

cdef class AccountCache:
    cdef dict served         # name -> Interest that the link listens to
    cdef dict _interests     # name -> Interest, or None
    cdef account_t *_table
    cdef uint32_t _cap
    cdef uint32_t _unknown
    cdef _place(self, bytes name, Interest interest)
    cdef _place_all(self)
    cdef know(self, bytes name, Interest interest)
    cdef Interest forget(self, bytes name)
    cdef clear(self)

cdef interest_t *interest_of(AccountCache cache, object session, const char *name, uint32_t n) except? NULL
