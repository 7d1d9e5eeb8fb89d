"""Streams and channels in a bucket as rows, without a server and without a table.

Here live `read_stream` and `read_channel`:

    import duckdb
    from headrace.tables import read_stream

    messages = read_stream("s3://bucket/prefix", "ORDERS")
    duckdb.sql("select subject, count(*) from messages group by all")

Never here: which messages are committed (`headrace.bucket_streams`), tables that stay (`archive`).
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.bucket.errors import BucketError
from headrace.bucket_channels import BucketChannels
from headrace.bucket_streams import BucketStreams, ObjectsGone, StreamBucket, bucket_at
from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.protocol.documents import raw_name
from headrace.tables.columns import to_arrow
from headrace.tables.errors import SourceChanged, SourceMissing, TableDamaged, TableError
from headrace.tables.manifest import TableManifest
from headrace.tables.payload_columns import PayloadColumns, payloads_in
from headrace.tables.source import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from headrace.bucket_streams import BucketLogs, BucketStream
    from headrace.conf.bucket_options import BucketOptions

DEFAULT_CLUSTER_ID: Final = "test-cluster"
"""The cluster ID of servers and clients of NATS Streaming where none is given."""
PIECE_BYTES: Final = 4 << 20
"""About the bytes of records that a thread reads at once."""
ATTEMPTS: Final = 8
"""The number of times that a reading looks again without getting on, because objects were deleted."""
AHEAD: Final = 4
"""Pieces that are read at once: so many are in memory, as records and as rows."""


def read_stream(
    location: str,
    stream: str,
    *,
    first: int = 1,
    end: int | None = None,
    subjects: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    account: str = GLOBAL_ACCOUNT,
    key: str | None = None,
    cipher: str = "chachapoly",
    endpoint: str | None = None,
    region: str | None = None,
) -> StreamRows:
    """Look at a stream in a bucket; return its messages, as committed by now, sealed or not.

    `location`: a URL such as `s3://bucket/prefix`, or a directory. `first`, `end`: only sequences [first,
    end). `subjects`: only these, with wildcards. `columns`: only these. `key`, `cipher` (chachapoly or aes):
    of an encrypted store. Credentials, and what is not given, come from the environment.

    Raises: SourceMissing for a stream that is not there; TableError for arguments that cannot be;
    BucketError, StoreError, LogError with what is wrong with the bucket.
    """
    algorithm = _algorithm(cipher)
    bucket = StreamBucket(_bucket(location, endpoint, region), account, key, algorithm)
    streams = BucketStreams(bucket)
    found = _found(streams, stream, bucket)
    return StreamRows(streams, found, first=first, end=end, subjects=subjects, columns=columns)


def read_channel(
    location: str,
    channel: str,
    *,
    cluster_id: str = DEFAULT_CLUSTER_ID,
    first: int = 1,
    end: int | None = None,
    columns: Sequence[str] | None = None,
    key: str | None = None,
    cipher: str = "aes",
    endpoint: str | None = None,
    region: str | None = None,
) -> StreamRows:
    """Look at a channel of NATS Streaming in a bucket; return its messages, as committed by now.

    `cluster_id`: whose channel it is. `key`, `cipher` (aes as in servers, or chachapoly): of an encrypted
    store. The rest, and the rows, are as with `read_stream`: a channel is the one subject of its messages.

    Raises: SourceMissing for a channel that is not there; else as `read_stream`.
    """
    algorithm = _algorithm(cipher)
    options = _bucket(location, endpoint, region)
    bucket = StreamBucket(options, secret=key, algorithm=algorithm, cluster_id=cluster_id)
    channels = BucketChannels(bucket)
    found = _found(channels, channel, bucket)
    return StreamRows(channels, found, first=first, end=end, subjects=(), columns=columns)


def _algorithm(cipher: str) -> str:
    if cipher not in ("chachapoly", "aes"):
        raise TableError(f"cipher {cipher!r} is neither chachapoly nor aes")
    return "AES" if cipher == "aes" else "CHACHA"


def _bucket(location: str, endpoint: str | None, region: str | None) -> BucketOptions:
    options = bucket_at(location, endpoint=endpoint, region=region)
    if options is None:
        raise BucketError(f"{location} has no streams of Headrace in it")
    return options


def _found(logs: BucketLogs[Any], name: str, bucket: StreamBucket) -> BucketStream:
    found = logs.get(name)
    if found is None:
        raise SourceMissing(f"there is no {logs.word} {name} of {bucket.owner} in {bucket.options.url}")
    return found


class StreamRows:
    """Messages of a stream or channel in a bucket, as they were when `read_stream` or `read_channel` looked.

    DuckDB, Polars and everything else that reads Arrow streams take it as it is, as often as they want; each
    reading begins anew. A few pieces of 4 MiB are in memory at once. Readings on several threads at once are
    not for it.
    """

    def __init__(
        self,
        streams: BucketLogs[Any],
        stream: BucketStream,
        *,
        first: int,
        end: int | None,
        subjects: Sequence[str],
        columns: Sequence[str] | None,
    ) -> None:
        """Make rows of a stream. Raises: TableError for columns that are not there."""
        self._streams = streams
        self._word = streams.word
        self._stream = stream
        last = stream.last_sequence + 1
        self.first: Final = max(first, stream.first_sequence)
        """The first sequence that may be in it."""
        self.end: Final = last if end is None else min(end, last)
        """The sequence behind the last one that may be in it."""
        self._subjects = [one.encode() for one in subjects]
        self._payloads = PayloadColumns(
            TableManifest(0, stream.name, stream.created_ns, self.end, payloads=payloads_in(stream.metadata))
        )
        known = self._payloads.schema
        unknown = [name for name in columns or () if name not in known.names]
        if unknown:
            raise TableError(f"there is no column {unknown[0]}: {', '.join(known.names)}")
        self.schema: Final = known if columns is None else pa.schema([known.field(name) for name in columns])
        """The columns: those of tables, and of the payloads of a stream that has a schema."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of all rows, for one reading. What it raises is as with `batches`."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the order of their sequences, each once, as Arrow batches.

        Objects that are deleted meanwhile are looked for again. Raises: SourceChanged if the rest of it is
        gone by then, TableDamaged for messages that cannot be read, BucketError, StoreError, LogError.
        """
        at, attempts, stream = self.first, 0, self._stream
        while at < self.end:
            try:
                for end, batches in self._pieces(stream, at):
                    yield from batches
                    at, attempts = end, 0
                return
            except ObjectsGone:
                attempts += 1
                if attempts == ATTEMPTS:
                    raise
                stream = self._again(at)

    def _again(self, at: int) -> BucketStream:
        """Look at the stream again, for what is left of it. Raises: SourceChanged."""
        self._streams.look_again()
        found = self._streams.get(self._stream.name)
        if found is None or found.created_ns != self._stream.created_ns:
            raise SourceChanged(f"{self._word} {self._stream.name} was deleted while it was read")
        if found.keeps_order and found.first_sequence > max(at, self.first):
            raise SourceChanged(
                f"{self._word} {found.name} begins at sequence {found.first_sequence} now: {at} to "
                f"{min(found.first_sequence, self.end) - 1} were removed while they were read"
            )
        return found

    def _pieces(self, stream: BucketStream, first: int) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
        """The rows from a sequence on, piece by piece, each with the sequence behind it."""
        waiting: deque[tuple[int, Future[list[pa.RecordBatch]]]] = deque()
        cuts = pairwise(stream.cuts(first, self.end, PIECE_BYTES))
        with ThreadPoolExecutor(AHEAD) as threads:
            try:
                for start, end in cuts:
                    waiting.append((end, threads.submit(self._rows, stream, start, end)))
                    if len(waiting) == AHEAD:
                        behind, piece = waiting.popleft()
                        yield behind, piece.result()
                while waiting:
                    behind, piece = waiting.popleft()
                    yield behind, piece.result()
            finally:
                for _, piece in waiting:
                    piece.cancel()

    def _rows(self, stream: BucketStream, first: int, end: int) -> list[pa.RecordBatch]:
        found = []
        for messages, damaged in stream.read(first, end, self._subjects):
            if damaged:
                low, high = damaged[0]
                raise TableDamaged(
                    f"{self._word} {stream.name} is damaged: sequences {low} to {high} cannot be read"
                )
            for columns in columns_of(messages, raw_name(stream.name)):
                rows = self._payloads.add(to_arrow(stream.name, columns))
                found.append(rows.select(self.schema.names))
        return found
