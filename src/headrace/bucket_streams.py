"""Stored streams read from their bucket, with no server in the path: which there are, and messages.

Here live `BucketLogs`, what is read of a shard as it was committed at the last look, deletions and purges
counted, and `BucketStreams`: the streams of one account of JetStream. Servers may own the bucket or be gone;
none is asked, and nothing is changed. Slices of a stream are read anywhere, also in other processes
(`read_slice_of`): they name the objects that hold their bytes, and have with them what the write-ahead log
alone holds.
Never here: channels of NATS Streaming (`bucket_channels`), what becomes of the messages (`headrace.spark`,
`headrace.tables`), files of a shard (`bucket`).
"""

from __future__ import annotations

import asyncio
import errno
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from headrace.bucket.errors import Behind, BucketError
from headrace.bucket.extent_contents import KEPT, ExtentContents
from headrace.bucket.identity import IDENTITY_KEY, check_readable
from headrace.bucket.keys import ShardKeys, channels_shard
from headrace.bucket.opening import open_bucket
from headrace.bucket.overview import shards_of
from headrace.bucket.requests import BucketRequests
from headrace.bucket.shard_files import ATTEMPTS, ShardFiles, load_shard_files, read_further
from headrace.bucket.shard_part import ShardPart, directories_of, spans_of
from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.conf.bucket_options import BucketOptions
from headrace.errors import LogGone, StorageError
from headrace.jetstream.assets import stream_log
from headrace.jetstream.batch.recovery import incomplete_batch
from headrace.jetstream.state.recovery import read_state
from headrace.jetstream.stored import removes_front_only
from headrace.jetstream.stream.stream import log_limits
from headrace.log.filesystem import storage_errors
from headrace.log.port import Limits, SyncPolicy
from headrace.log.store import FileStore, list_logs
from headrace.log.store_cipher import store_cipher
from headrace.log.view import LogView, ViewSlice, read_slice
from headrace.objects.errors import KeyMissing
from headrace.protocol.jetstream.configs import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from headrace.engine.messages import StoredMessages
    from headrace.jetstream.state.records import StreamRecord
    from headrace.log.encryption import Cipher
    from headrace.log.port import LogState, MessageLog, StoredMessage

_Result = TypeVar("_Result")
_Record = TypeVar("_Record")
"""The record of one stream in the state of its shard."""

SHARD: Final = "jetstream"
"""The shard of a bucket that has the streams of servers."""
SLICE_KEPT: Final = 16 << 20
"""Bytes of extents that the reader of a slice keeps."""
_HOME: Final = Path("/shard")
"""The directory of a shard's files, a name only."""
_SCHEMES: Final = ("s3://", "gs://", "az://", "file:///")
_PAGE: Final = 256


class StreamBucket(Struct, frozen=True):
    """A bucket with the streams of an account, or with the channels of a cluster ID of NATS Streaming.

    `secret`, `algorithm` (CHACHA, AES): of an encrypted store.
    """

    options: BucketOptions
    account: str = GLOBAL_ACCOUNT
    secret: str | None = None
    algorithm: str = "CHACHA"
    cluster_id: str | None = None
    """The cluster ID whose channels are meant; None: streams are."""

    def __repr__(self) -> str:
        return f"StreamBucket({self.options.url}, {self.owner})"

    @property
    def owner(self) -> str:
        """The account of the streams, or the cluster of the channels, in words."""
        return f"account {self.account}" if self.cluster_id is None else f"cluster {self.cluster_id}"

    @property
    def shard(self) -> str:
        """The shard that has them."""
        return SHARD if self.cluster_id is None else channels_shard(self.cluster_id)

    def cipher(self) -> Cipher | None:
        """Return the cipher of the store, None without a secret. Its key takes some 50 ms, once."""
        return _cipher(self.secret, self.algorithm)

    def contents(self, most: int = KEPT) -> ExtentContents:
        """Return the bytes of its objects for threads. Raises: BucketError, UnsupportedError."""
        return ExtentContents(open_bucket(self.options).reads, ShardKeys(self.shard), most)


def bucket_at(
    location: str, *, endpoint: str | None = None, region: str | None = None
) -> BucketOptions | None:
    """Return the bucket at a URL or a directory; None where there are no streams of Headrace.

    It costs one request. What is not given comes from the environment. Raises: BucketError, StoreError,
    UnsupportedError.
    """
    url = location.rstrip("/") if "://" in location else Path(location).absolute().as_uri()
    if not url.startswith(_SCHEMES):
        return None
    options = BucketOptions(url, endpoint=endpoint, region=region)
    if url.startswith("file:"):
        return options if Path(unquote(urlsplit(url).path), IDENTITY_KEY).is_file() else None
    try:
        open_bucket(options).reads.head(IDENTITY_KEY)
    except KeyMissing:
        return None
    return options


class StreamSlice(Struct, frozen=True):
    """A part of a stream, as messages and as the bytes that hold them. Can be pickled."""

    view: ViewSlice
    part: ShardPart


def read_slice_of(
    wanted: StreamSlice, contents: ExtentContents, cipher: Cipher | None, filters: Sequence[bytes] = ()
) -> Iterator[tuple[StoredMessages[StoredMessage], list[tuple[int, int]]]]:
    """The messages of a slice in order, with `filters` those of these subjects, some MiB at a time, each with
    ranges of sequences that are unreadable.

    Raises: ObjectsGone, StorageError.
    """
    files = wanted.part.opened(contents, _HOME)
    with _objects_gone():
        yield from read_slice(wanted.view, filesystem=files, cipher=cipher, filters=filters)


class ObjectsGone(StorageError):
    """Objects of the bucket were deleted since it was looked at: look again."""


class BucketStream:
    """One stream as it was when its bucket was looked at."""

    def __init__(
        self,
        name: str,
        log_name: bytes,
        log: MessageLog,
        look: _Look,
        *,
        created_ns: int,
        begins_at: int = 1,
        cut_at: int | None = None,
        keeps_order: bool = True,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Make the view of a stream.

        `begins_at`: its first sequence while no message was stored. `cut_at`: the first sequence that may not
        be read yet.
        """
        self.name: Final = name
        self.created_ns: Final = created_ns
        self.metadata: Final[Mapping[str, str]] = metadata or {}
        self.keeps_order: Final = keeps_order
        """True if messages at the front go by age, limits or a purge only."""
        self._log_name: Final = log_name
        self._log: Final = log
        self._look: Final = look
        found = log.state()
        self._state: Final[LogState] = found
        is_new = not found.last_sequence
        self.first_sequence: Final = begins_at if is_new else found.first_sequence
        last = begins_at - 1 if is_new else found.last_sequence
        self.last_sequence: Final = last if cut_at is None else cut_at - 1
        """The last sequence that may be read."""

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self._state.messages

    @property
    def size(self) -> int:
        """The bytes of all messages, as limits count them."""
        return self._state.bytes

    def sequence_at(self, time_ns: int) -> int:
        """The first sequence stored at that time or later, above the last one if there is none."""
        return min(self._log.sequence_at(time_ns), self.last_sequence + 1)

    def time_at(self, sequence: int, filters: Sequence[bytes] = ()) -> int | None:
        """The time of the first message with this sequence or a later one, of these subjects; None: none."""
        at, end = sequence, self.last_sequence + 1
        while at < end:
            page = self._log.read_from(at, filters=filters, max_messages=1, up_to=end)
            if page.messages:
                return page.messages[0].time_ns
            if page.next_sequence <= at:
                return None
            at = page.next_sequence
        return None

    @property
    def damaged(self) -> Sequence[tuple[int, int]]:
        """Ranges of sequences, both ends included, that were found unreadable; not all that are."""
        return [] if self._view is None else self._view.damaged

    @cached_property
    def _view(self) -> LogView | None:
        with suppress(LogGone):  # no message was ever stored
            return self._look.view(self._log_name)
        return None

    def slices(self, first: int, end: int, count: int) -> list[StreamSlice]:
        """The sequences [first, end) in up to `count` parts of about equal bytes. Raises: StorageError."""
        if self._view is None:
            return []
        views = self._view.slices(first, min(end, self.last_sequence + 1), count)
        return [StreamSlice(one, self._look.part(one)) for one in views]

    def cuts(self, first: int, end: int, size: int) -> list[int]:
        """Sequences at which [first, end) is cut into pieces of about so many bytes; both ends are among
        them, if anything is there. Nothing is read.
        """
        if self._view is None:
            return []
        end = min(end, self.last_sequence + 1)
        return self._view.cuts(first, end, -(-self.size_of(first, end) // size))

    def read(
        self, first: int, end: int, filters: Sequence[bytes] = ()
    ) -> Iterator[tuple[StoredMessages[StoredMessage], list[tuple[int, int]]]]:
        """The messages [first, end), as `read_slice_of` gives them; on several threads if need be.

        Raises: ObjectsGone, StorageError.
        """
        if self._view is not None:
            yield from self._look.read(self._view, first, min(end, self.last_sequence + 1), filters)

    def size_of(self, first: int, end: int) -> int:
        """About the bytes of records that reading [first, end) looks at. Raises: StorageError."""
        return 0 if self._view is None else self._view.bytes_of(first, min(end, self.last_sequence + 1))


class _Look:
    """The files of some logs as they were at one moment, and a store over them, which nobody else sees."""

    def __init__(self, files: ShardFiles, logs: Mapping[bytes, Path], bucket: StreamBucket) -> None:
        self._cipher: Final = bucket.cipher()
        self._files: Final = directories_of(files, logs.values()).opened(files.contents, _HOME)
        self._logs: Final = logs
        self.store: Final = FileStore(
            _HOME,
            cipher=self._cipher,
            remembers=False,
            sync=SyncPolicy.NEVER,
            filesystem=self._files,
        )

    def view(self, name: bytes) -> LogView:
        """Look at a log. Raises: LogGone, StorageError."""
        if name not in self._logs:
            raise LogGone(f"there is no log {name!r}")
        return LogView(self._logs[name], filesystem=self._files, cipher=self._cipher)

    def read(
        self, view: LogView, first: int, end: int, filters: Sequence[bytes]
    ) -> Iterator[tuple[StoredMessages[StoredMessage], list[tuple[int, int]]]]:
        """The messages [first, end) of a view. Raises: ObjectsGone, StorageError."""
        with _objects_gone():
            for one in view.slices(first, end, 1):
                yield from read_slice(one, filesystem=self._files, cipher=self._cipher, filters=filters)

    def part(self, one: ViewSlice) -> ShardPart:
        """Return the files that a slice is read from. Raises: StorageError."""
        spans: dict[Path, list[tuple[int, int]] | None] = {piece.path: piece.reads() for piece in one.pieces}
        with storage_errors("cannot read the bucket"):
            return spans_of(self._files, spans)


class BucketLogs(ABC, Generic[_Record]):
    """The streams or channels in a shard of a bucket, as of the last look; none is taken before it is needed.

    One thread at a time. Methods raise BucketError, StoreError, LogError, each with one line.
    """

    word: ClassVar[str]
    """The word for one of them."""
    absent: ClassVar[str]
    """The end of an error for a bucket that has no such shard."""

    def __init__(self, bucket: StreamBucket) -> None:
        self._bucket: Final = bucket
        self._contents: Final = bucket.contents()
        self._files: ShardFiles | None = None
        self._records: Mapping[str, _Record] | None = None
        self._streams: dict[str, BucketStream | None] = {}

    def look_again(self) -> None:
        """Bring all up to what is committed by now."""
        before = self._files.point if self._files is not None else None
        files, self._files = self._files, None
        self._files = _on_own_loop(lambda: self._brought_up(files))
        if self._files is not files or self._files.point != before:
            self._records, self._streams = None, {}

    async def _brought_up(self, files: ShardFiles | None) -> ShardFiles:
        store, keys = (
            BucketRequests(open_bucket(self._bucket.options).store, Random().random),
            ShardKeys(self._bucket.shard),
        )
        if files is not None:
            with suppress(Behind):
                await read_further(store, keys, files)
                return files
        await check_readable(store)
        if self._bucket.shard not in await shards_of(store):
            raise BucketError(f"{store.location} {self.absent.format(owner=self._bucket.owner)}")
        return await load_shard_files(store, self._contents, keys, _HOME)

    def names(self) -> list[str]:
        """Return the names of all streams, sorted."""
        return self._while_there(lambda: sorted(self._known()))

    def get(self, name: str) -> BucketStream | None:
        """Return a stream; None: there is none of that name."""
        return self._while_there(lambda: self._opened(name))

    def planned(self, name: str, plan: Callable[[BucketStream | None], _Result]) -> _Result:
        """Return what `plan` makes of a stream; it is called again if objects went meanwhile."""
        return self._while_there(lambda: plan(self._opened(name)))

    def _while_there(self, work: Callable[[], _Result]) -> _Result:
        """Do something that reads; what it reads may be deleted meanwhile. Then look again."""
        for _ in range(ATTEMPTS):
            if self._files is None:
                self.look_again()
            try:
                with storage_errors(f"cannot read {self._bucket.options.url}"):
                    return work()
            except StorageError as error:
                if not isinstance(_told(error), ObjectsGone):
                    raise
                self._files, self._records, self._streams = None, None, {}
        raise BucketError(f"{self._bucket.options.url}: objects are deleted faster than they can be read")

    def _known(self) -> Mapping[str, _Record]:
        if self._records is None:
            self._records = self._read_records()
        return self._records

    def _opened(self, name: str) -> BucketStream | None:
        if name not in self._streams:
            record = self._known().get(name)
            self._streams[name] = None if record is None else self._open(name, record)
        return self._streams[name]

    @abstractmethod
    def _read_records(self) -> Mapping[str, _Record]:
        """Read which of them there are. Raises: LogError."""

    @abstractmethod
    def _open(self, name: str, record: _Record) -> BucketStream:
        """Open one of them. Raises: BucketError, LogError."""

    def _place(self, name: str) -> str:
        """One of them in words, for errors."""
        return f"{self.word} {name} in {self._bucket.options.url}"

    def _logs(self) -> Mapping[bytes, Path]:
        """Return the directories of all logs, by the names of the logs."""
        assert self._files is not None
        return list_logs(_HOME, self._files) if self._files.is_directory(_HOME / "logs") else {}

    def _look(self, name: bytes) -> _Look:
        assert self._files is not None
        logs = self._logs()
        return _Look(self._files, {name: logs[name]} if name in logs else {}, self._bucket)


class BucketStreams(BucketLogs["StreamRecord"]):
    """The streams of an account in a bucket."""

    word = "stream"
    absent = "has no streams of JetStream in it"

    def _read_records(self) -> Mapping[str, StreamRecord]:
        look = self._look(f"{self._bucket.account}/state".encode())
        state, _ = read_state(look.store, self._bucket.account, _pass_over)
        return state.streams

    def _open(self, name: str, record: StreamRecord) -> BucketStream:
        try:
            config = record.read()
        except ValueError as error:
            raise BucketError(f"{self._place(name)}: its configuration cannot be read: {error}") from error
        if config.storage is Storage.MEMORY:
            raise BucketError(f"{self._place(name)} has memory storage: its messages are in no bucket")
        log_name = stream_log(self._bucket.account, name)
        look = self._look(log_name)
        limits = Limits(waits_for_expire=True, weights=log_limits(config).weights)  # else no checkpoint fits
        log = look.store.open(log_name, limits)
        torn = incomplete_batch(log) if log.may_end_torn else []  # a batch comes when it is whole
        return BucketStream(
            name,
            log_name,
            log,
            look,
            created_ns=record.created_ns,
            begins_at=max(config.first_seq, 1),
            cut_at=min(torn, default=None),
            keeps_order=removes_front_only(config),
            metadata=config.metadata,
        )


def _pass_over(_sequence: int, _reason: str) -> None:
    """Do nothing about a damaged record of the state: its streams are not there."""


@contextmanager
def _objects_gone() -> Iterator[None]:
    """Raise StorageError for what cannot be read, and ObjectsGone where looking again helps."""
    try:
        with storage_errors("cannot read the bucket"):
            yield
    except StorageError as error:
        raise _told(error) from error


def _told(error: StorageError) -> StorageError:
    """Return an error as it is told: of objects that were deleted since, ObjectsGone."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno == errno.ESTALE:
            return ObjectsGone(str(error))
        cause = cause.__cause__
    return error


def _on_own_loop(made: Callable[[], Coroutine[object, object, _Result]]) -> _Result:
    """Run a coroutine on a loop of its own: the caller's thread may have one that runs, as in a notebook."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(made())).result()


@lru_cache(maxsize=8)
def _cipher(secret: str | None, algorithm: str) -> Cipher | None:
    return store_cipher(secret, algorithm)
