"""Header rewriting: a message gets another header block."""

from headrace.engine.structs cimport msg_t

cdef bytes tail_of(bytes reply, bytes headers, bytes payload)
cdef bytes change_headers(msg_t *m, bytes headers)
