"""Pages of a log for whoever copies it elsewhere, while its server serves: how far it is, what it holds.

Called on the loop's thread, one page at a time, as replays take theirs. Services say which of their logs may
be copied and up to where (`streaming.stored`, `jetstream.stored`). Never here: threads, and what becomes of
the messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from headrace.engine.columns import ColumnsBuilder
from headrace.protocol import columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.log.port import LogState, MessageLog

PAGE: Final = 4096
PAGE_BYTES: Final = 1 << 20
"""Messages and about the bytes of one page: what the loop does for a copy at once."""


class ArchiveSnapshot(Struct, frozen=True):
    """The archiving of a service since its start: everything below `to` is in a table.

    `last_ns`: when the last round ended, 0: none did.
    """

    to: str
    rounds: int = 0
    rows: int = 0
    bytes: int = 0
    files: int = 0
    removed: int = 0
    failures: int = 0
    last_ns: int = 0
    last_error: str = ""


class TableState(Struct, frozen=True):
    """One table of a service, and how far its stream is.

    `to`: the place of the table. `last_sequence`: of the stream now, `archived_sequence`: up to where the
    table has it; None: not known yet, or the stream is gone. `rows`, `files` and `bytes`: of the table.
    `last_ns`: when it was brought up to date, 0: it was not yet. `last_error`: why that failed last, "" when
    it did not.
    """

    service: str
    account: str
    stream: str
    kind: str
    to: str
    last_sequence: int | None = None
    archived_sequence: int | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    last_ns: int = 0
    last_error: str = ""


class LogExtent(NamedTuple):
    """The first and last sequence of a log. The first sequence of an empty one is one above its last.

    `created_ns`: when its stream was made. `keeps_order`: its first messages go by age, limits or a purge
    only; else those are gone, too, that were replaced or consumed.
    """

    first_sequence: int
    last_sequence: int
    messages: int
    created_ns: int
    keeps_order: bool = True
    metadata: Mapping[str, str] = {}
    """The metadata of the stream."""


class LogPage(NamedTuple):
    """Messages as columns (`protocol.columns`), each frame one page of them; sequences that are unreadable;
    where the next page begins. `next` is `first` at the end.
    """

    frames: list[bytes]
    damaged: list[int]
    next: int


def extent_of(
    state: LogState,
    visible: int,
    created_ns: int,
    *,
    keeps_order: bool = True,
    metadata: Mapping[str, str] | None = None,
) -> LogExtent:
    """The extent of a log whose messages up to `visible` may be shown; none of the later ones is gone yet."""
    waiting = max(state.last_sequence - visible, 0)
    last = min(visible, state.last_sequence)
    first = min(state.first_sequence, last + 1)
    messages = max(state.messages - waiting, 0)
    return LogExtent(first, last, messages, created_ns, keeps_order, metadata or {})


def read_page(log: MessageLog, name: bytes, first: int, end: int) -> LogPage:
    """The messages from `first` on, below `end`; `name` is that of their stream. Raises: LogError."""
    if first >= end:
        return LogPage([], [], first)
    page = log.read_from(first, max_messages=PAGE, max_bytes=PAGE_BYTES, up_to=end)
    builder, frames, done = ColumnsBuilder(), [], 0
    while done < len(page.messages):
        builder.clear()
        done += builder.add(page.messages, done, len(page.messages) - done, name, columns.FRAME_BYTES)
        frames.append(columns.pack(builder))
    return LogPage(frames, list(page.damaged), max(page.next_sequence, first))
