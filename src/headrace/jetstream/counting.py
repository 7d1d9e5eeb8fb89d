"""Counters as a feature of streams: when an increment is refused, and what is stored for one.

The arithmetic is `counters`'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.jetstream import counters
from headrace.jetstream.features import Feature
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from headrace.jetstream.publication import Publication
    from headrace.jetstream.stream import Stream


class Counting(Feature):
    """Without state: the last message of a subject is its counter."""

    def judge(self, stream: Stream, publication: Publication) -> None:
        increment = counters.increment_of(publication.headers)
        if increment is not None and not publication.sourced:
            allowed = stream.config.allow_msg_counter
            counters.check(publication.headers, publication.payload, allowed=allowed)

    def change(self, stream: Stream, publication: Publication) -> None:
        if not stream.config.allow_msg_counter:
            return
        p = publication
        increment = counters.increment_of(p.headers) if p.headers else None
        if increment is None:
            raise ApiError(10169)
        counted = counters.applied(increment, stream.log.last(p.subject), p.subject, p.headers, p.payload)
        p.headers, p.payload, p.ack_fields = counted.headers, counted.payload, counted.ack_fields
