"""Which features streams have: all of them, since each refuses what the configuration does not allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.jetstream.atomic import AtomicBatches
from headrace.jetstream.counting import Counting
from headrace.jetstream.fast import FastBatches
from headrace.jetstream.scheduler import Scheduler

if TYPE_CHECKING:
    from headrace.jetstream.features import Feature
    from headrace.jetstream.stream import Stream


def features_of(stream: Stream) -> list[Feature]:
    """In the order in which they are asked."""
    return [FastBatches(stream), AtomicBatches(stream), Counting(), Scheduler(stream)]
