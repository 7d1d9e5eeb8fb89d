"""A link to another server, and what its wire says of itself."""

from libc.stdint cimport uint32_t

from headrace.engine.client cimport line_t
from headrace.engine.link cimport Link
from headrace.engine.structs cimport remote_t, interest_t, link_t, msg_t
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
ctypedef uint32_t (*words_before_t)(link_t *l, int op) noexcept
ctypedef interest_t *(*account_of_t)(link_t *l, int op) except? NULL
ctypedef int (*arrived_t)(link_t *l, int op, msg_t *m) except -1
ctypedef int (*interest_hook_t)(link_t *l, int op, line_t *line) except -1

cdef enum:
    MOST_WORDS = 16

cdef struct op_word_t:
    char text[8]                 # capitals
    uint32_t len
    int op

cdef struct protocol_t:
    # One wire. What messages and interest mean is its own.
    const char *first            # capitals that an op may begin with while a CONNECT is due
    op_word_t words[MOST_WORDS]  # all ops: see `know`
    uint32_t words_count
    may_come_t may_come          # whether interest, or a message, may come on this connection; else it dooms the link
    message_t message            # takes in the message at `at`; returns what follows it, or `at`: `take_message`, or its own
    interest_hook_t interest     # takes in a line, which is split
    # What `take_message` needs:
    int bare                     # the op of messages whose line has one size
    const char *misread[3]       # how bad arguments of RMSG, HMSG, LMSG are called
    words_before_t words_before  # how many words stand before the subject
    account_of_t account_of      # the account of a message; NULL: it is not known here
    arrived_t arrived            # a complete message

cdef int know(protocol_t *protocol, tuple ops) except -1
cdef str name_of(int op)
cdef char *take_message(link_t *l, int op, char *at, char *args, char *end, size_t *need) except NULL
cdef void count_arrival(link_t *l, msg_t *m) noexcept

cdef class PeerLink(Link):
    cdef remote_t remote
    cdef wire_t wire
    cdef protocol_t *protocol    # may become another one between two ops
    cdef bint _is_outbound
    cdef bint _is_open           # the handshake is over: interest and messages may come
