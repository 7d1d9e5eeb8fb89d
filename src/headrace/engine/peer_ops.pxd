"""What all wires between servers have in common: their ops, and how one is taken in."""

from libc.stdint cimport uint32_t

from headrace.engine.client cimport line_t
from headrace.engine.structs cimport link_t, msg_t
from headrace.engine.wire cimport wire_t

cdef enum peer_op_t:
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
    OP_A_PLUS
    OP_A_MINUS
    OP_PING
    OP_PONG
    OP_CONNECT
    OP_INFO
    OP_OK
    OP_ERR
    LAST_MESSAGE = 36
    LAST_INTEREST = 44

ctypedef bint (*may_come_t)(link_t *l, int op) except -1
ctypedef char *(*message_t)(link_t *l, int op, char *at, char *args, char *end, size_t *need) except NULL
ctypedef int (*interest_hook_t)(link_t *l, int op, line_t *line) except -1

cdef struct protocol_t:
    # One wire. What messages and interest mean is its own.
    const char *first            # capitals that an op may begin with while a CONNECT is due
    may_come_t may_come            # whether interest, or a message, may come now; else it dooms the link
    message_t message            # takes in the one at `at`; returns what follows it, or `at`
    interest_hook_t interest     # takes in a line, which is split

cdef int common_op_at(const char *p, const char *end, uint32_t *length) noexcept
cdef str name_of(int op)
cdef int too_early(link_t *l, int op) except -1
cdef char *carry_out(link_t *l, wire_t *wire, protocol_t *protocol, int op, uint32_t length, char *p, char *end,
                     size_t *need) except NULL
cdef void count_arrival(link_t *l, msg_t *m) noexcept
