"""The input buffer of a connection: where received bytes are put, and how they reach the parser."""

from headrace.engine.structs cimport link_t

cdef enum:
    READ_SIZE = 65536        # performance.md rule 1: smaller is slower, larger falls out of L2
    DIRECT_FRAME = 32768     # an incomplete frame larger than this is received into its own buffer

cdef void space(link_t *l, char **data, size_t *n) except *
cdef int received(link_t *l, size_t n) except -1
cdef int reparse(link_t *l) except -1
