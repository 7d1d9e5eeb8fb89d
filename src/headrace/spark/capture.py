"""Listening to core subjects beside the driver for as long as a query lives.

One thread receives and writes to the spool; the query's own thread asks how far it is. Whatever ends the
listening early (connection lost, slow consumer, -ERR, spool full) is kept and raised at the next
question, so that a query can fail but never lose messages silently. There is no reconnecting: what is
published meanwhile would be missing.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from headrace.client.blocking import Connection, connect
from headrace.client.codec import MessageBatch
from headrace.errors import HeadraceError
from headrace.spark.errors import CaptureError
from headrace.spark.schema import arrow_schema, to_record_batch
from headrace.spark.spool import Spool, SpoolFolder, SpoolSlice

if TYPE_CHECKING:
    from headrace.spark.options import SourceOptions

BATCH_ROWS: Final = 16_384
BATCH_BYTES: Final = 8 << 20
"""Messages and bytes held in memory before they are written to the spool; a question writes them sooner."""

_STOP_CHECK: Final = 0.2  # seconds between looks at the stop flag while nothing arrives


class Capture:
    """A live subscription and what it has received. Sequences count from 1."""

    def __init__(self, connection: Connection, spool: Spool, subjects: tuple[str, ...]) -> None:
        self._connection = connection
        self._spool = spool
        self._subjects = subjects
        self._schema = arrow_schema()
        self._pending = MessageBatch()
        self._stamps: list[int] = []
        self._pending_bytes = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._stopping = False
        self._failure: HeadraceError | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-capture", daemon=True)

    @classmethod
    def start(cls, options: SourceOptions) -> Capture:
        """Subscribe, and return once the server has confirmed it: from then on nothing is missed.

        Raises: CaptureError if the server cannot be reached or refuses; OptionError.
        """
        chosen = options.connect_options()
        names = ", ".join(options.subjects)
        try:
            connection = connect(options.url, chosen)
        except HeadraceError as error:
            raise CaptureError(f"cannot listen to {names}: {error}") from error
        try:
            for subject in options.subjects:
                connection.subscribe(subject, options.queue)
            connection.flush(options.connect_timeout)
            folder = SpoolFolder.create(options.spool_dir)
        except HeadraceError as error:
            connection.close()
            raise CaptureError(f"cannot listen to {names} at {connection.address}: {error}") from error
        except OSError as error:
            connection.close()
            raise CaptureError(f"cannot make a spool folder (option spoolDir): {error}") from error
        spool = Spool(folder, arrow_schema(), options.spool_max_bytes)
        capture = cls(connection, spool, options.subjects)
        capture._thread.start()
        return capture

    def captured(self) -> int:
        """Messages received so far, whether in the spool yet or not."""
        with self._lock:
            return self._spool.next - 1 + len(self._pending)

    def seal(self) -> int:
        """Write everything received so far to the spool; the number of messages there.

        Raises: CaptureError if the capture has ended.
        """
        with self._lock:
            self._check()
            try:
                self._write()
            except HeadraceError as error:
                self._failure = error
            self._check()
            return self._spool.next - 1

    def slices(self, first: int, end: int) -> tuple[SpoolSlice, ...]:
        """Return the slices of the spool with the messages [first, end).

        Raises: DataLossError if they were given up already.
        """
        with self._lock:
            return self._spool.slices(first, end)

    def discard_below(self, sequence: int) -> None:
        with self._lock:
            self._spool.discard_below(sequence)

    def listen(self, seconds: float) -> None:
        """Let messages come in for that long. Raises: CaptureError if the capture ends before."""
        self._ended.wait(seconds)
        with self._lock:
            self._check()

    def stop(self) -> None:
        """End the subscription and remove the spool."""
        self._stopping = True
        if self._thread.is_alive():
            self._thread.join()
        self._connection.close()
        self._spool.close()

    def _run(self) -> None:
        try:
            while not self._stopping:
                batch = self._connection.receive(_STOP_CHECK)
                if batch:
                    self._take(batch)
        except HeadraceError as error:
            with self._lock:
                self._failure = self._failure or error
        except BaseException as error:
            with self._lock:
                self._failure = CaptureError(f"{type(error).__name__}: {error}")
            raise
        finally:
            self._ended.set()

    def _take(self, batch: MessageBatch) -> None:
        stamp = time.time_ns() // 1000
        size = batch.byte_count()
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._pending.extend(batch)
            self._stamps += [stamp] * len(batch)
            self._pending_bytes += size
            if len(self._pending) >= BATCH_ROWS or self._pending_bytes >= BATCH_BYTES:
                self._write()

    def _write(self) -> None:
        if not self._pending:
            return
        self._spool.append(to_record_batch(self._pending, self._spool.next, self._stamps, self._schema))
        self._pending, self._stamps, self._pending_bytes = MessageBatch(), [], 0

    def _check(self) -> None:
        if self._failure is None:
            return
        count = self._spool.next - 1 + len(self._pending)
        raise CaptureError(
            f"listening to {', '.join(self._subjects)} at {self._connection.address} ended after {count} "
            f"messages: {self._failure}. Core subjects are delivered at most once and keep nothing, so "
            "messages may be missing from here on; start the query again with a new checkpointLocation"
        ) from self._failure
