"""Features of streams: parts that take publications for themselves, or follow what is stored.

Here lives the interface; each feature says in its own module what it does. What a message must be to be
stored is no feature's: that is a row of `checks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.jetstream.stream.publication import Publication


class Feature:
    """Does nothing at any place."""

    def take(self, publication: Publication) -> bool:
        """Take a publication before any check; return True if the feature has it now, and answers it."""
        return False

    def stored(self, publication: Publication, sequence: int, time_ns: int) -> None:
        """Note that a publication was appended, and that what it rolls up is gone."""

    def configured(self) -> None:
        """The stream starts, or has a new configuration."""

    def stop(self) -> None:
        """The stream goes."""
