"""Streams on an object store: what is acknowledged is in a bucket, which one server owns (ADR 0037).

Everything that the logs of a store write to files is written to the bucket too, as one sequence of numbered,
immutable objects: the write-ahead log (WAL). Never lives here: what is in a log (`headrace.log`), what a
service does with it, how servers hear of each other.
"""
