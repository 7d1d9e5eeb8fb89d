"""The connection to another server of the cluster, as both route protocols have it."""

from headrace.engine.account_cache cimport AccountCache
from headrace.engine.interest cimport Interest
from headrace.engine.peer cimport PeerLink
from headrace.engine.structs cimport interest_t, msg_t, sub_t
from headrace.engine.permission_cache cimport PermissionCache

cdef class RouteLink(PeerLink):
    cdef AccountCache _accounts
    cdef interest_t *_dedicated  # of the only account here, while _is_dedicated
    cdef bint _is_dedicated
    cdef bint _has_origin
    cdef bint _origin_unsub
    cdef PermissionCache _imports
    cdef PermissionCache _exports
    cdef _tell_all(self, Interest interest, bint wanted)
    cdef _hear_nothing(self)
    cdef _drop(self, Interest interest)
    cdef _tell_anew(self, sub_t *s)

cdef bint may_import(RouteLink link, sub_t *s) noexcept
cdef bint may_export(RouteLink link, msg_t *m) except -1
