"""Features of streams: their access to a publication on its way into the log, and after it.

Here lives the interface; each feature says in its own module what it does. A stream asks its features in this
order of places, which is the order in which the Go server 2.15.1 judges a message; of what is asked nothing
is stored yet, but for `stored`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.jetstream.stream.publication import Publication


class Feature:
    """Does nothing at any place. All may raise ApiError but for `stored`."""

    def take(self, publication: Publication) -> bool:
        """Before any check. True: the feature has the message now, and answers it."""
        return False

    def judge(self, publication: Publication) -> None:
        """Before anything that was expected is compared."""

    def admit(self, publication: Publication) -> None:
        """The expectations of the publication hold. It may still be a duplicate."""

    def change(self, publication: Publication) -> None:
        """It will be stored unless it is too large: the last place to change it."""

    def stored(self, publication: Publication, sequence: int, time_ns: int) -> None:
        """It was appended, and what it rolls up is gone."""

    def configured(self) -> None:
        """The stream starts, or has a new configuration."""

    def stop(self) -> None:
        """The stream goes."""
