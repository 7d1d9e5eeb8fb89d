"""The filling of a stream's table of ids after its log was opened, while the stream is served.

A window may have a million messages, and a server that takes over is waited for. Messages without an id are
taken meanwhile; whoever comes with one waits for the rest (`dedupe`). That is so where messages go from the
log by age alone, which is never less than the window, and by requests, which wait for the rest, too: of one
that is gone the id could not be read any more. Never here: the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import LogError
from headrace.log.blocking import NotHere, without_waiting
from headrace.protocol.jetstream.configs import RetentionPolicy

if TYPE_CHECKING:
    from headrace.jetstream.ports import Effects, StreamPort
    from headrace.protocol.jetstream.configs import StreamConfig

_NEXT_S: Final = 0.0
"""Seconds until the next page is read: what the server has to do else comes between."""
_AGAIN_S: Final = 1.0
"""Seconds until a page is read again that could not be read."""


def goes_by_age_alone(config: StreamConfig) -> bool:
    """True if messages of a stream go by the stream's limit on age, or because somebody asked for it."""
    return (
        config.retention is RetentionPolicy.LIMITS
        and config.max_msgs <= 0
        and config.max_bytes <= 0
        and config.max_msgs_per_subject <= 0
        and not config.allow_msg_ttl
    )


class IdFilling:
    """The filling of one stream's table."""

    def __init__(self, stream: StreamPort, effects: Effects) -> None:
        self._stream: Final = stream
        self._effects: Final = effects
        self._has_failed = False

    def begin(self) -> None:
        """Fill the table, or begin to. The log was opened. Raises: StorageError."""
        dedupe = self._stream.dedupe
        if not goes_by_age_alone(self._stream.config):
            dedupe.fill()
        elif not dedupe.begin():
            self._effects.later(_NEXT_S, self._go_on)

    def _go_on(self) -> None:
        stream, effects = self._stream, self._effects
        if stream.is_closed:
            return
        try:
            with without_waiting():
                is_filled = stream.dedupe.fill_more()
        except NotHere as absent:
            effects.turns.when_here(absent, self._go_on)
            return
        except LogError as error:
            if not self._has_failed:
                effects.note.error("stream %s: ids could not be read: %s", stream.name, error)
            self._has_failed = True
            effects.later(_AGAIN_S, self._go_on)
            return
        if not is_filled:
            effects.later(_NEXT_S, self._go_on)
