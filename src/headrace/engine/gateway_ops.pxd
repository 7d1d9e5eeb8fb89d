"""The ops of the gateway protocol."""

from libc.stdint cimport uint32_t

cdef enum gateway_op_t:
    # Behind what the client protocol has.
    OP_RMSG = 32
    OP_HMSG
    OP_RS_PLUS
    OP_RS_MINUS
    OP_A_PLUS
    OP_A_MINUS
    OP_PING
    OP_PONG
    OP_CONNECT
    OP_INFO
    OP_OK
    OP_ERR

cdef int op_at(const char *p, const char *end, uint32_t *length) noexcept
cdef str name_of(int op)
