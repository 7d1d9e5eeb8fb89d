"""Service imports for other modules: the header that says who asks. See service_imports.pyx."""

cdef bytes with_info(bytes headers, bytes info)
