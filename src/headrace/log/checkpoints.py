"""The checkpoint of a log on disk: when it is written, and when one from before must go.

Here lives the decision; what is in a checkpoint is `ledger`'s and `recovery`'s, when its file may be written
is for `after_sync` to know. Never here: what a start does with it.

The first one is made after 1 MiB, the next ones with every new segment, or when eight times their size was
appended if that is more. So a start after a kill reads at most so much and a segment, and of what was removed
since the blocks it lay in. A log whose bytes come from far away has one more often (`every`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import StorageError
from headrace.log.filesystem import remove_file
from headrace.log.port import SyncPolicy
from headrace.log.recovery import CHECKPOINT, encode_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.log.compaction import Compaction
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.ledger import Ledger
    from headrace.log.segments import Segments

FIRST: Final = 1 << 20
"""Bytes that are appended before there is one, which knows what all records of the segment depend on."""
NEAR: Final = 4 << 20
"""Bytes between two checkpoints of a log that is read from far away: a start brings about so many of it."""
SHARE: Final = 8
"""A checkpoint is written when so many times its size was appended or can be freed."""
LARGEST_ON_ERASE: Final = 1 << 20
"""The largest checkpoint that is written before a message is erased; a larger one is taken away instead."""
_NONE: Final = 1 << 62
"""Stands for what a start without a checkpoint reads: everything."""


class Checkpoints:
    """The checkpoints of one log. `write_news`: writes the removals that wait; it raises StorageError.

    `every`: bytes after which there is another one; None: only with a new segment.
    """

    def __init__(
        self,
        directory: Path,
        filesystem: FileSystem,
        segments: Segments,
        ledger: Ledger,
        compaction: Compaction,
        *,
        policy: SyncPolicy,
        cipher: Cipher | None,
        write_news: Callable[[], None],
        every: int | None = None,
    ) -> None:
        self._path: Final = directory / CHECKPOINT
        self._fs: Final = filesystem
        self._policy: Final = policy
        self._segments: Final = segments
        self._after_sync: Final = segments.after_sync
        self._ledger: Final = ledger
        self._compaction: Final = compaction
        self._cipher: Final = cipher
        self._write_news: Final = write_news
        self._every: Final = every
        segments.checkpoint_at = FIRST
        self.read_bytes = _NONE
        """Bytes that a start from the last checkpoint reads besides what was written since."""
        self.written_at = 0
        """The position of the log at the last one."""

    def write(self) -> None:
        """Have one written by the next `sync`; under NEVER it is written now."""
        try:
            self._write_news()
        except StorageError:
            return  # only the next start takes longer
        data = encode_checkpoint(
            self._ledger, self._compaction.entries(), self._segments.active, self._cipher
        )
        segments = self._segments
        self.read_bytes, self.written_at = 0, segments.written
        segments.checkpoint_at = _NONE if self._every is None else segments.written + self._every
        self._after_sync.save((self._path, data), self._segments.all)

    def write_if_due(self) -> None:
        """Often enough for a start that reads little, and so that it costs an eighth of what is written."""
        gained = self.read_bytes + self._segments.written - self.written_at
        gained += self._after_sync.doomed_bytes + self._compaction.waiting_bytes
        size = self._size()
        if gained >= SHARE * size:
            self.write()
        elif self._segments.written > self._segments.checkpoint_at:  # look again when it is due
            self._segments.checkpoint_at = self._segments.written + SHARE * size - gained

    def write_if_changed(self) -> None:
        """A start reads no record after this."""
        if self.read_bytes or self._segments.written != self.written_at:
            self.write()

    def supersede(self) -> None:
        """Remove the checkpoint from before, and sync what is written. Raises: OSError, StorageError.

        A start from one that counts a message would look for it, and its subject may be in no record any
        more. And once bytes are gone, the record that says so must not be lost.
        """
        if self._size() > LARGEST_ON_ERASE:
            self._segments.sync()  # and with it a checkpoint that waits for it
            remove_file(self._fs, self._path, durable=self._policy is not SyncPolicy.NEVER)
            self.read_bytes = _NONE
            return
        before = self._segments.drafted
        self.write()
        self._segments.sync()
        if self._after_sync.saved <= before:
            raise StorageError("the checkpoint that counts a message to be erased cannot be replaced")

    def _size(self) -> int:
        """Return about the bytes of a checkpoint."""
        return 64 * len(self._ledger.table) + len(self._ledger.removed) // 8 + 128
