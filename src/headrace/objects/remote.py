"""Objects in an object store (S3, GCS, Azure) through `obstore`, for threads and for an event loop.

A put is atomic there and of two conditional creates one fails, so nothing needs a lock. Drafts are written to
local temporary storage first and uploaded whole. Credentials and endpoint come from the environment, as
obstore reads them (`AWS_*`).
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from headrace.errors import UnsupportedError
from headrace.objects.answers import first_line, store_error
from headrace.objects.errors import KeyMissing, StoreError
from headrace.objects.port import Listing, ObjectInfo
from headrace.objects.reading import ObjectReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from headrace.objects.port import Bytes

PIECE: Final = 16 << 20
"""Bytes asked for at once: each request has a time limit of its own."""
FOOTER: Final = 64 << 10
"""Least bytes of a request for a part of an object: about what a file's footer takes."""


def _obstore() -> Any:
    """The package, loaded when an object store is meant. Raises: UnsupportedError."""
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise UnsupportedError(
            "object stores need the package obstore: pip install 'headrace[tables]'"
        ) from error
    return obstore


class _Remote:
    """Keys below a URL such as `s3://bucket/tables/orders`. `options` go to obstore's `from_url`.

    Raises: UnsupportedError without obstore, StoreError for a URL or options that it does not take.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._url = url.rstrip("/")
        self._obstore = _obstore()
        try:
            with self.errors(url):
                self._store = self._obstore.store.from_url(self._url, **options)
        except TypeError as error:  # an option of another type
            raise StoreError(f"{url}: {first_line(error)}") from error

    @property
    def location(self) -> str:
        return self._url

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Convert exceptions of obstore into StoreError and its kinds."""
        try:
            yield
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            raise store_error(what, error, self._obstore.exceptions) from error

    def _reading(self, key: str) -> Any:
        return self.errors(f"cannot read {self._url}/{key}")

    def _writing(self, key: str) -> Any:
        return self.errors(f"cannot write {self._url}/{key}")

    def _listing(self, folder: str) -> Any:
        return self.errors(f"cannot list {self._url}/{folder}")


class RemoteStore(_Remote):
    """The objects below a URL, for threads that may wait (`headrace.objects.port.ObjectStore`)."""

    def get(self, key: str) -> bytes:
        with self._reading(key):
            return bytes(self._obstore.get(self._store, key).bytes())

    def get_range(self, key: str, start: int, end: int) -> bytes:
        with self._reading(key):
            return bytes(self._obstore.get_range(self._store, key, start=start, end=end))

    def head(self, key: str) -> ObjectInfo:
        with self._reading(key):
            return _info(self._obstore.head(self._store, key))

    def open(self, key: str, *, in_parts: bool = False) -> IO[bytes]:
        """The whole object in a temporary file: a reader of Parquet asks for many small pieces.

        With `in_parts` nothing is copied, each read is a request: for readers that ask for large ones.
        """
        size = _size(self.head(key))
        if in_parts:
            return io.BufferedReader(_Parts(self, key, size), FOOTER)
        copy = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
        try:
            with self.errors("cannot write a temporary file"):
                for start in range(0, size, PIECE):
                    copy.write(self.get_range(key, start, min(start + PIECE, size)))
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        return copy

    def put(self, key: str, data: bytes) -> None:
        with self._writing(key):
            self._obstore.put(self._store, key, data)

    def create(self, key: str, data: bytes) -> None:
        with self._writing(key):
            self._obstore.put(self._store, key, data, mode="create")

    def upload(self, key: str, file: IO[bytes]) -> None:
        """Put a whole file, in parts where it is large. Raises: StoreError."""
        with self._writing(key):
            self._obstore.put(self._store, key, file)

    def draft(self) -> RemoteDraft:
        return RemoteDraft(self)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        with self._listing(prefix):
            for found in self._obstore.list(self._store, prefix or None, offset=after or None):
                yield from map(_info, found)

    def list_folder(self, folder: str = "") -> Listing:
        with self._listing(folder):
            return _listed(self._obstore.list_with_delimiter(self._store, folder or None))

    def move(self, old: str, new: str) -> None:
        with self.errors(f"cannot move {self._url}/{old}"):
            self._obstore.copy(self._store, old, new)
            self._obstore.delete(self._store, old)

    def delete(self, key: str) -> None:
        try:
            with self.errors(f"cannot remove {self._url}/{key}"):
                self._obstore.delete(self._store, key)
        except KeyMissing:
            return  # S3 does not say so, others do

    @contextmanager
    def lock(self) -> Iterator[bool]:
        yield False

    def sync_folder(self, folder: str) -> None:
        """Do nothing: each object is durable once it was written."""


class AsyncRemoteStore(_Remote):
    """The objects below a URL, for one event loop (`headrace.objects.port.AsyncObjectStore`)."""

    async def get(self, key: str) -> bytes:
        with self._reading(key):
            found = await self._obstore.get_async(self._store, key)
            return bytes(await found.bytes_async())

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        with self._reading(key):
            return bytes(await self._obstore.get_range_async(self._store, key, start=start, end=end))

    async def head(self, key: str) -> ObjectInfo:
        with self._reading(key):
            return _info(await self._obstore.head_async(self._store, key))

    async def put(self, key: str, data: Bytes | Path) -> None:
        with self._writing(key):
            # Bytes in memory are one request, which is priced once and leaves no parts behind when it fails.
            await self._obstore.put_async(self._store, key, data, use_multipart=isinstance(data, Path))

    async def create(self, key: str, data: Bytes | Path) -> None:
        with self._writing(key):  # of uploads in parts none is conditional
            await self._obstore.put_async(self._store, key, data, mode="create", use_multipart=False)

    async def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[ObjectInfo]:
        with self._listing(prefix):
            async for found in self._obstore.list(self._store, prefix or None, offset=after or None):
                for one in found:
                    yield _info(one)

    async def list_folder(self, folder: str = "") -> Listing:
        with self._listing(folder):
            return _listed(await self._obstore.list_with_delimiter_async(self._store, folder or None))

    async def delete(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        try:
            with self.errors(f"cannot remove {self._url}/{keys[0]}"):
                await self._obstore.delete_async(self._store, list(keys))
        except KeyMissing:  # some stores say so, and stop there
            for key in keys if len(keys) > 1 else ():
                await self.delete([key])


class _Parts(ObjectReader):
    """An object read where it lies, a request for each read."""

    def __init__(self, store: RemoteStore, key: str, size: int) -> None:
        super().__init__(size)
        self._store = store
        self._key = key

    def _read_at(self, start: int, size: int) -> bytes:
        end = min(start + min(size, PIECE), self._size)
        return self._store.get_range(self._key, start, end) if start < end else b""


class RemoteDraft:
    """A temporary file on this machine, uploaded by `publish`."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # until publish or discard
        self._hash = hashlib.sha256()
        self._is_written = False

    @property
    def closed(self) -> bool:
        return self._is_written

    def write(self, data: Bytes) -> int:
        view = memoryview(data).cast("B")
        with self._store.errors("cannot write a temporary file"):
            self._file.write(view)
        self._hash.update(view)
        return len(view)

    def flush(self) -> None:
        """The temporary file needs to survive nothing."""

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._is_written = True

    def publish(self, key: str) -> str:
        self._file.seek(0)
        self._store.upload(key, self._file)
        self._file.close()
        return self._hash.hexdigest()

    def discard(self) -> None:
        self._file.close()


def _info(found: Any) -> ObjectInfo:
    return ObjectInfo(found["path"], int(found["size"]), int(found["last_modified"].timestamp() * 1e9))


def _size(info: ObjectInfo) -> int:
    assert info.size is not None
    return info.size


def _listed(found: Any) -> Listing:
    folders = sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])
    return Listing(sorted(map(_info, found["objects"])), folders)
