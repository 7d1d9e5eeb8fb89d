# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The account cache of one link to another server, which looks up an account by name with each line.

An account that is not there yet is asked for once: `session.account_interest(name)` gives its Interest, or None;
that is remembered too, for a bounded number of names.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memset

from headrace.engine.interest cimport Interest, table_seed
from headrace.engine.memory cimport give, take
from headrace.engine.structs cimport hr_hash, interest_t

cdef enum:
    MOST_UNKNOWN = 1024      # names of unknown accounts that are remembered


cdef interest_t *interest_of(AccountCache cache, object session, const char *name, uint32_t n) except? NULL:
    """Return the interest of the account with this name, or NULL if there is no such account."""
    cdef uint64_t hash = hr_hash(name, n, table_seed)
    cdef uint32_t i = hash & (cache._cap - 1)
    cdef account_t *account
    cdef bytes key
    while cache._table != NULL:
        account = &cache._table[i]
        if account.name == NULL:
            break
        if account.hash == hash and account.len == n and memcmp(account.name, name, n) == 0:
            return account.interest
        i = (i + 1) & (cache._cap - 1)
    key = name[:n]
    found = session.account_interest(key)
    if found is None:
        if cache._unknown < MOST_UNKNOWN:
            cache.know(key, None)
        return NULL
    if not isinstance(found, Interest):
        raise TypeError(f"account_interest gave {found!r}")
    cache.know(key, found)
    return &(<Interest> found).c


@cython.no_gc  # what it holds must outlive what the link has hanging there: the collector may not look inside
cdef class AccountCache:
    """The accounts that one link knows."""

    def __cinit__(self):
        self.served = {}
        self._interests = {}

    def __dealloc__(self):
        give(self._table)

    cdef know(self, bytes name, Interest interest):
        """Remember the interest of an account, and keep it alive; None: there is no such account."""
        self.forget(name)
        self._interests[name] = interest
        if interest is None:
            self._unknown += 1
        if 2 * self._cap < 3 * len(self._interests):
            self._place_all()
        else:
            self._place(name, interest)

    cdef Interest forget(self, bytes name):
        """Forget an account, which is asked for again when it is named; return its interest, if there was one."""
        cdef Interest interest
        if name not in self._interests:
            return None
        interest = self._interests.pop(name)
        if interest is None:
            self._unknown -= 1
        self._place_all()
        return interest

    cdef clear(self):
        self.served.clear()
        self._interests.clear()
        self._unknown = 0
        give(self._table)
        self._table = NULL
        self._cap = 0

    cdef _place(self, bytes name, Interest interest):
        cdef uint64_t hash = hr_hash(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), table_seed)
        cdef uint32_t i = hash & (self._cap - 1)
        while self._table[i].name != NULL:
            i = (i + 1) & (self._cap - 1)
        self._table[i].hash = hash
        self._table[i].name = PyBytes_AS_STRING(name)
        self._table[i].len = <uint32_t> PyBytes_GET_SIZE(name)
        self._table[i].interest = NULL if interest is None else &interest.c

    cdef _place_all(self):
        """Builds the table anew, with room for as many accounts again."""
        cdef uint32_t cap = 8
        while cap < 3 * (len(self._interests) + 1):
            cap *= 2
        give(self._table)
        self._table = NULL
        self._table = <account_t *> take(cap * sizeof(account_t))
        memset(self._table, 0, cap * sizeof(account_t))
        self._cap = cap
        for name, interest in self._interests.items():
            self._place(name, interest)
