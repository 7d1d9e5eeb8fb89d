"""Bodies of requests to the API of JetStream, of the forms that clients send. See api_requests.pyx."""

from libc.stdint cimport int64_t, uint64_t

from headrace.engine.batches cimport part_t

cdef struct pull_t:
    int64_t batch            # messages that are asked for; 0: as if it were 1
    int64_t expires          # ns; 0: never
    int64_t heartbeat        # ns between idle heartbeats; 0: none
    bint no_wait

cdef bint read_get(part_t body, uint64_t *sequence, part_t *subject) noexcept
cdef bint read_pull(part_t body, pull_t *pull) noexcept
