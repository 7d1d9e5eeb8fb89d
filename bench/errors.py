"""The one error of the benchmarks: a run that must not be believed. It never becomes a number."""

from __future__ import annotations


class BenchError(Exception):
    """A server did not start, a load failed or a count was not exact; the text says which."""
