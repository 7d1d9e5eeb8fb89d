"""Streams and channels in a bucket as stored streams: what `stored_link` asks a server, answered from there.

Used beside the driver (how far is a stream, which objects hold these sequences?) and in executors (the
messages of a slice). All answers are of the last look, until `look_again`. Copies begin without one.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from headrace.bucket.errors import BucketError
from headrace.bucket_channels import BucketChannels
from headrace.bucket_streams import SLICE_KEPT, BucketStreams, ObjectsGone, StreamSlice, read_slice_of
from headrace.engine.columns import ColumnsBuilder
from headrace.errors import LogError, UnsupportedError
from headrace.objects.errors import StoreError
from headrace.protocol.columns import Columns, pack
from headrace.protocol.documents import raw_name
from headrace.spark.errors import StoredStreamError
from headrace.spark.offsets import CHANNEL
from headrace.spark.schema import arrow_schema, columns_record_batch
from headrace.spark.stored_link import StoredRows, StoredState
from headrace.tables.source import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from headrace.bucket_streams import BucketLogs, BucketStream
    from headrace.spark.offsets import StoredKind, StoredRange
    from headrace.spark.options import SourceOptions

ATTEMPTS: Final = 8
"""The number of times that reading a range begins again because objects were deleted meanwhile."""
_HINT: Final = ": set option keyFile, the key in its server's configuration"

_log = logging.getLogger("headrace.spark")


@dataclass(frozen=True)
class BucketRange:
    """The part of a range that a bucket has, in slices, and the metadata of its stream."""

    range: StoredRange
    slices: Sequence[StreamSlice]
    damaged: Sequence[tuple[int, int]]
    metadata: dict[str, str]


class BucketLink:
    """The bucket that some options name. One thread at a time."""

    def __init__(self, options: SourceOptions) -> None:
        assert options.path is not None
        self.kind: Final[StoredKind] = options.stored_kind
        cluster_id = options.cluster_id if self.kind is CHANNEL else None
        self._bucket = options.in_bucket.bucket(options.path, cluster_id)
        self._streams: BucketLogs[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "_bucket": self._bucket, "_streams": None}

    def place(self, name: str) -> str:
        return f"{self.kind.word} {name} of {self._bucket.owner} in {self._bucket.options.url}"

    # ---- how far streams are ----------------------------------------------------------------

    def look_again(self) -> None:
        """Have answers be of now. Raises: StoredStreamError."""
        with self._telling():
            self._looked().look_again()

    def state(self, name: str) -> StoredState | None:
        stream = self._get(name)
        return None if stream is None else _state(stream)

    def matching(self, pattern: str) -> dict[str, StoredState]:
        with self._telling():
            names = [name for name in self._looked().names() if self.kind.matches(pattern, name)]
        states = {name: self.state(name) for name in names}
        return {name: state for name, state in states.items() if state is not None}

    def sequence_at(self, name: str, time_ns: int) -> int:
        with self._telling():
            return self._looked().planned(name, lambda one: 1 if one is None else one.sequence_at(time_ns))

    def time_at(self, name: str, sequence: int, filters: Sequence[str]) -> int | None:
        patterns = [one.encode() for one in filters]
        with self._telling():
            return self._looked().planned(
                name, lambda one: None if one is None else one.time_at(sequence, patterns)
            )

    def size_of(self, wanted: StoredRange) -> int:
        """About the bytes that the bucket has of a range; 0 for one of another incarnation.

        Raises: StoredStreamError.
        """

        def size(one: BucketStream | None) -> int:
            return one.size_of(wanted.first, wanted.end) if one is not None and _is_of(wanted, one) else 0

        with self._telling():
            return self._looked().planned(wanted.name, size)

    def part(self, wanted: StoredRange, count: int) -> BucketRange | None:
        """Return what the bucket has of a range in up to `count` slices; None: nothing of this incarnation.

        Raises: StoredStreamError.
        """

        def plan(one: BucketStream | None) -> BucketRange | None:
            if one is None or not _is_of(wanted, one):
                return None
            here = replace(wanted, end=max(wanted.first, min(wanted.end, one.last_sequence + 1)))
            slices = one.slices(here.first, here.end, count)
            return BucketRange(here, slices, one.damaged, dict(one.metadata))

        with self._telling():
            return self._looked().planned(wanted.name, plan)

    # ---- messages ---------------------------------------------------------------------------

    def rows(self, wanted: StoredRange, filters: Sequence[str], columns: StructType) -> Iterator[StoredRows]:
        left = wanted
        for attempt in range(ATTEMPTS):
            found = self.part(left, 1)
            try:
                for one in found.slices if found is not None else ():
                    for rows in self.rows_of(wanted.name, one, filters, columns):
                        if rows.sequences:
                            left = replace(left, first=rows.sequences[-1] + 1)
                        yield rows
                return
            except ObjectsGone as error:
                if attempt == ATTEMPTS - 1:
                    raise StoredStreamError(f"cannot read {self.place(wanted.name)}: {error}") from error
                _log.warning("%s: %s; looking again", self.place(wanted.name), error)
                self.look_again()

    def rows_of(
        self, name: str, wanted: StreamSlice, filters: Sequence[str], columns: StructType
    ) -> Iterator[StoredRows]:
        """The messages of a slice, each once. Raises: ObjectsGone, StoredStreamError."""
        stream, schema = raw_name(name), arrow_schema(columns)
        patterns = [one.encode() for one in filters]
        with self._telling():
            contents = self._bucket.contents(SLICE_KEPT)
            for messages, damaged in read_slice_of(wanted, contents, self._bucket.cipher(), patterns):
                if damaged:
                    yield StoredRows((), columns_record_batch(_NOTHING, schema), ((stream, tuple(damaged)),))
                for found in columns_of(messages, stream):
                    yield StoredRows(found.sequences, columns_record_batch(found, schema))

    # ---- the bucket -------------------------------------------------------------------------

    def _get(self, name: str) -> BucketStream | None:
        with self._telling():
            return self._looked().get(name)

    def _looked(self) -> BucketLogs[Any]:
        if self._streams is None:
            is_of_channels = self._bucket.cluster_id is not None
            self._streams = (BucketChannels if is_of_channels else BucketStreams)(self._bucket)
        return self._streams

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Raise StoredStreamError for what is wrong with the bucket, or with a log in it."""
        try:
            yield
        except ObjectsGone:
            raise
        except (BucketError, StoreError, UnsupportedError, LogError) as error:
            hint = _HINT if self._bucket.secret is None and "encrypted" in str(error) else ""
            raise StoredStreamError(f"{error}{hint}") from error


_NOTHING: Final = Columns.read(pack(ColumnsBuilder()))
"""No messages."""


def _is_of(wanted: StoredRange, stream: BucketStream) -> bool:
    return stream.created_ns == wanted.created


def _state(stream: BucketStream) -> StoredState:
    return StoredState(
        stream.first_sequence,
        stream.last_sequence,
        stream.messages,
        stream.size,
        stream.created_ns,
        stream.keeps_order,
        stream.metadata,
    )
