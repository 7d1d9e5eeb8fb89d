"""What others need of imported services: the header that says who asks. See exchange.pyx."""

cdef bytes with_info(bytes headers, bytes info)
