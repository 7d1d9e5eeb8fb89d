"""Counters: subjects of a stream whose last message is a sum that anybody adds to.

    api = JetStreamApi(nc)
    add_to_counter(api, "hits.home", 5)
    CounterStream(JetStreamAssets(api), "HITS").value("hits.home").value

The stream has `allow_msg_counter`. Values are whole numbers of any size. Never lives here: streams (`api`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field

from headrace.client.errors import JetStreamMissingError
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.api import JetStreamAssets, StreamMessage
    from headrace.client.jetstream_api import JetStreamApi

_INCREMENT: Final = "Nats-Incr"
_SOURCES: Final = "Nats-Counter-Sources"


class CounterValue(Struct, frozen=True):
    """A counter as it was last stored; `time_ns` is ns since 1970 UTC.

    `sources`: to each stream that is counted here, too, what its subjects came to.
    """

    subject: str
    value: int
    sequence: int
    time_ns: int
    increment: int
    sources: dict[str, dict[str, str]] = field(default_factory=dict)


class CounterStream:
    """The counters of a stream. Raises, from every method: as `JetStreamApi.ask`; ProtocolError for a message
    that is no counter.

    `direct`: any server that has the stream answers; the stream has to allow that.
    """

    def __init__(self, assets: JetStreamAssets, stream: str, *, direct: bool = False) -> None:
        self.stream = stream
        self._assets = assets
        self._direct = direct

    def value(self, subject: str) -> CounterValue:
        """Return a counter. Raises: JetStreamMissingError if nothing was counted there."""
        return _read(self._assets.message(self.stream, last_of=subject, direct=self._direct))

    def subjects(self, pattern: str = ">") -> list[str]:
        """Return the subjects that something was counted on, in order."""
        state = self._assets.stream_info(self.stream, subjects=pattern)["state"]
        return sorted(state.get("subjects") or ())

    def values(self, pattern: str = ">") -> Iterator[CounterValue]:
        """Yield the counters of subjects that match, in order of their subjects."""
        for subject in self.subjects(pattern):
            try:
                yield self.value(subject)
            except JetStreamMissingError:
                continue  # it was removed meanwhile


class CounterSum(NamedTuple):
    """The sum after an increment, and where its message is."""

    stream: str
    sequence: int
    value: int


def add_to_counter(api: JetStreamApi, subject: str, amount: int = 1) -> CounterSum:
    """Add to the counter of a subject, a negative number too, and return what it comes to.

    Raises: NoRespondersError if no stream takes the subject, JetStreamError if its stream has no counters;
    as `JetStreamApi.publish`.
    """
    answer = api.publish(subject, b"", headers={_INCREMENT: f"{amount:+d}"})
    try:
        return CounterSum(str(answer["stream"]), int(answer["seq"]), int(answer["val"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not the acknowledgement of a counter: {error!r}") from error


def _read(message: StreamMessage) -> CounterValue:
    try:
        sources = json.loads(message.headers.get(_SOURCES, ["{}"])[0])
        return CounterValue(
            subject=message.subject,
            value=int(json.loads(message.data)["val"]),
            sequence=message.sequence,
            time_ns=message.time_ns,
            increment=int(message.headers[_INCREMENT][0]),
            sources={str(stream): dict(of_stream) for stream, of_stream in sources.items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"{message.subject!r} has no counter: {error!r}") from error
