"""What the two route protocols have in common: the handshake's ops, and how an op is taken in."""

from libc.stdint cimport uint32_t

from headrace.engine.client cimport line_t
from headrace.engine.directory cimport Directory
from headrace.engine.interest cimport Interest
from headrace.engine.link cimport Link
from headrace.engine.structs cimport far_t, interest_t, link_t, msg_t, sub_t
from headrace.engine.verdicts cimport Verdicts
from headrace.engine.wire cimport wire_t

cdef enum route_op_t:
    # Behind what the client protocol has: messages, then interest, then what is about the connection.
    OP_RMSG = 32
    OP_HMSG
    OP_LMSG
    OP_MSG
    OP_PUB
    OP_RS_PLUS
    OP_RS_MINUS
    OP_LS_PLUS
    OP_LS_MINUS
    OP_SUB
    OP_UNSUB
    OP_PING
    OP_PONG
    OP_CONNECT
    OP_INFO
    OP_OK
    OP_ERR
    LAST_MESSAGE = 36
    LAST_INTEREST = 42

ctypedef char *(*message_t)(RouteLink link, int op, char *at, char *args, char *end, size_t *need) except NULL
ctypedef int (*interest_hook_t)(RouteLink link, int op, line_t *line) except -1

cdef class RouteLink(Link):
    cdef far_t far
    cdef wire_t wire
    cdef Directory _directory
    cdef interest_t *_dedicated  # of the only account here, while _is_dedicated
    cdef bint _is_open           # the handshake is over
    cdef bint _is_dedicated
    cdef bint _has_origin
    cdef bint _origin_unsub
    cdef Verdicts _imports
    cdef Verdicts _exports
    cdef _tell_all(self, Interest interest, bint wanted)
    cdef _hear_nothing(self)
    cdef _drop(self, Interest interest)

cdef int common_op_at(const char *p, const char *end, uint32_t *length) noexcept
cdef str name_of(int op)
cdef char *carry_out(RouteLink link, int op, uint32_t length, char *p, char *end, size_t *need,
                     message_t take_message, interest_hook_t take_interest) except NULL
cdef void count_arrival(link_t *l, msg_t *m) noexcept
cdef bint may_import(RouteLink link, sub_t *s) noexcept
cdef bint may_export(RouteLink link, msg_t *m) except -1
