"""The figures of one client of a load, and of all together. Values only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from headrace.load.histogram import LatencyHistogram, merged_histogram

if TYPE_CHECKING:
    from collections.abc import Iterable


class LoadFigures(Struct, frozen=True):
    """The messages of a client, from when they began until the last one was done.

    Times are ns of the machine's clock that only goes forward, which all processes share. `size` is bytes of
    headers and payloads. `errors` counts what servers refused, by their words.
    """

    messages: int = 0
    size: int = 0
    begun_ns: int = 0
    ended_ns: int = 0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return max(self.ended_ns - self.begun_ns, 0) / 1e9

    @property
    def messages_per_second(self) -> float:
        """0 where nothing was measured."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """0 where nothing was measured."""
        return self.size / self.seconds if self.seconds else 0.0


def summed_figures(clients: Iterable[LoadFigures]) -> LoadFigures:
    """Return the figures of all clients: from when the first began until the last one ended."""
    found = list(clients)
    busy = [figures for figures in found if figures.messages or figures.errors]
    errors: dict[str, int] = {}
    for figures in busy:
        for text, count in figures.errors.items():
            errors[text] = errors.get(text, 0) + count
    return LoadFigures(
        sum(figures.messages for figures in busy),
        sum(figures.size for figures in busy),
        min((figures.begun_ns for figures in busy), default=0),
        max((figures.ended_ns for figures in busy), default=0),
        merged_histogram(figures.latencies for figures in busy),
        errors,
    )
