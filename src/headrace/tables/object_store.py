"""A table in an object store (S3, GCS, Azure) through `obstore`.

A put is atomic there and of two conditional creates one fails, so a table needs no lock: who loses the race
for the next version of the manifest reads it again. Data files are written to local temporary storage first
and uploaded whole. Credentials and endpoint come from the environment, as obstore reads them (`AWS_*`).
Never here: what a key means.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

from headrace.errors import UnsupportedError
from headrace.tables.errors import KeyExists, KeyMissing, StoreError
from headrace.tables.store import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.log.filesystem import Bytes

PIECE: Final = 16 << 20
"""Bytes asked for at once: each request has a time limit of its own."""
FOOTER: Final = 64 << 10
"""Least bytes of a request for a part of an object: about what a file's footer takes."""


def _obstore() -> Any:
    """The package, loaded when a table in an object store is meant. Raises: UnsupportedError."""
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise UnsupportedError(
            "tables in object stores need the package obstore: pip install 'headrace[tables]'"
        ) from error
    return obstore


class RemoteStore:
    """Keys below a URL such as `s3://bucket/tables/orders`. `options` go to obstore's `from_url`.

    Raises: UnsupportedError without obstore, StoreError for a URL or options that it does not take.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._url = url.rstrip("/")
        self._obstore = _obstore()
        with self.errors(url):
            self._store = self._obstore.store.from_url(self._url, **options)

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Convert exceptions of obstore into StoreError and its kinds."""
        failures = self._obstore.exceptions
        try:
            yield
        except (failures.NotFoundError, FileNotFoundError) as error:
            raise KeyMissing(f"{what}: it is not there") from error
        except (failures.AlreadyExistsError, failures.PreconditionError) as error:
            raise KeyExists(f"{what}: it is there already") from error
        except (failures.BaseError, OSError, ValueError) as error:
            raise StoreError(f"{what}: {str(error).partition(chr(10))[0] or repr(error)}") from error

    @property
    def location(self) -> str:
        return self._url

    @contextmanager
    def lock(self) -> Iterator[bool]:
        yield False

    def draft(self) -> RemoteDraft:
        return RemoteDraft(self)

    def create(self, key: str, data: bytes) -> None:
        with self.errors(f"cannot write {self._url}/{key}"):
            self._obstore.put(self._store, key, data, mode="create")

    def upload(self, key: str, file: IO[bytes]) -> None:
        """Puts a whole file, in parts where it is large. Raises: StoreError."""
        with self.errors(f"cannot write {self._url}/{key}"):
            self._obstore.put(self._store, key, file)

    def read(self, key: str) -> bytes:
        with self.errors(f"cannot read {self._url}/{key}"):
            return bytes(self._obstore.get(self._store, key).bytes())

    def open(self, key: str, *, in_parts: bool = False) -> IO[bytes]:
        """The whole object in a temporary file: a reader of Parquet asks for many small pieces.

        With `in_parts` nothing is copied, each read is a request: for readers that ask for large ones.
        """
        if in_parts:
            return io.BufferedReader(_Parts(self, key), FOOTER)
        copy = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
        try:
            size = self.size(key)
            with self.errors("cannot write a temporary file"):
                for start in range(0, size, PIECE):
                    copy.write(self.part(key, start, min(start + PIECE, size)))
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        return copy

    def entries(self, folder: str = "") -> list[Entry]:
        with self.errors(f"cannot list {self._url}/{folder}"):
            found = self._obstore.list_with_delimiter(self._store, folder or None)["objects"]
        return sorted(Entry(one["path"], int(one["last_modified"].timestamp() * 1e9)) for one in found)

    def folders(self) -> list[str]:
        with self.errors(f"cannot list {self._url}"):
            found = self._obstore.list_with_delimiter(self._store, None)["common_prefixes"]
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def move(self, old: str, new: str) -> None:
        with self.errors(f"cannot move {self._url}/{old}"):
            self._obstore.copy(self._store, old, new)
            self._obstore.delete(self._store, old)

    def remove(self, key: str) -> None:
        try:
            with self.errors(f"cannot remove {self._url}/{key}"):
                self._obstore.delete(self._store, key)
        except KeyMissing:
            return  # S3 does not say so, others do

    def size(self, key: str) -> int:
        """Bytes. Raises: KeyMissing."""
        with self.errors(f"cannot read {self._url}/{key}"):
            return int(self._obstore.head(self._store, key)["size"])

    def part(self, key: str, start: int, end: int) -> bytes:
        """Bytes [start, end). Raises: KeyMissing."""
        with self.errors(f"cannot read {self._url}/{key}"):
            return bytes(self._obstore.get_range(self._store, key, start=start, end=end))


class _Parts(io.RawIOBase):
    """An object read where it lies."""

    def __init__(self, store: RemoteStore, key: str) -> None:
        self._store = store
        self._key = key
        self._at = 0
        self._size = store.size(key)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        end = min(self._at + min(len(buffer), PIECE), self._size)
        if end <= self._at:
            return 0
        data = self._store.part(self._key, self._at, end)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


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
