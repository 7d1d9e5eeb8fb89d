"""Object stores for tests: in memory, with writers that die, and in place of obstore."""

from __future__ import annotations

import hashlib
import io
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from headrace.objects.errors import KeyExists, KeyMissing
from headrace.objects.port import Listing, ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from headrace.objects.port import Draft, ObjectStore

START = 1_700_000_000 * 10**9
WHEN = datetime.fromtimestamp(START / 10**9, UTC)


class Killed(BaseException):
    """The process was killed: nothing of it runs any more, so nothing may catch this."""


class KeyedStore:
    """Objects in memory as an object store has them: atomic puts, conditional creates, no lock.

    `fail_at` kills the writer at that call, before it has an effect or, with `after`, behind it.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.times: dict[str, int] = {}
        self.now = START
        self.calls = 0
        self.fail_at = 0
        self.after = False
        self.on_create: Callable[[str], object] = lambda _key: None

    location = "memory"

    @contextmanager
    def _call(self) -> Iterator[None]:
        self.calls += 1
        if self.calls == self.fail_at and not self.after:
            raise Killed
        yield
        if self.calls == self.fail_at:
            raise Killed

    @contextmanager
    def lock(self) -> Iterator[bool]:
        yield False

    def put(self, key: str, data: bytes) -> None:
        self.objects[key], self.times[key] = data, self.now

    def draft(self) -> Draft:
        return _MemoryDraft(self)

    def create(self, key: str, data: bytes) -> None:
        self.on_create(key)
        with self._call():
            if key in self.objects:
                raise KeyExists(key)
            self.put(key, data)

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise KeyMissing(key)
        return self.objects[key]

    def open(self, key: str, *, in_parts: bool = False) -> Any:
        return io.BytesIO(self.get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get(key)[start:end]

    def head(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(self.get(key)), self.times[key])

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        start = f"{prefix}/" if prefix else ""
        for key in sorted(self.objects):
            if key.startswith(start) and key > after:
                yield self.head(key)

    def list_folder(self, folder: str = "") -> Listing:
        start = f"{folder}/" if folder else ""
        below = [(info, info.key.removeprefix(start)) for info in self.list(folder)]
        folders = {rest.partition("/")[0] for _, rest in below if "/" in rest}
        return Listing([info for info, rest in below if "/" not in rest], sorted(folders))

    def sync_folder(self, folder: str) -> None:
        """What is there is durable."""

    def move(self, old: str, new: str) -> None:
        with self._call():
            self.put(new, self.get(old))
        with self._call():
            del self.objects[old]

    def delete(self, key: str) -> None:
        with self._call():
            self.objects.pop(key, None)


class _MemoryDraft:
    def __init__(self, store: KeyedStore) -> None:
        self._store = store
        self._data = bytearray()
        self.closed = False

    def write(self, data: Any) -> int:
        self._data += data
        return len(memoryview(data).cast("B"))

    def flush(self) -> None: ...

    def tell(self) -> int:
        return len(self._data)

    def close(self) -> None:
        self.closed = True

    def publish(self, key: str) -> str:
        with self._store._call():
            self._store.put(key, bytes(self._data))
        return hashlib.sha256(self._data).hexdigest()

    def discard(self) -> None: ...


class FakeObstore(ModuleType):
    """What we use of obstore, as its documentation has it, for one store in memory."""

    def __init__(self) -> None:
        super().__init__("obstore")
        self.kept: dict[str, bytes] = {}
        self.failure: Exception | None = None
        """What every request to read raises."""
        self.store = ModuleType("obstore.store")
        self.store.from_url = self._from_url  # type: ignore[attr-defined]
        self.exceptions = ModuleType("obstore.exceptions")
        base = type("BaseError", (Exception,), {})
        for name in (
            *("AlreadyExistsError", "NotFoundError", "PreconditionError", "GenericError"),
            *("PermissionDeniedError", "UnauthenticatedError"),
        ):
            setattr(self.exceptions, name, type(name, (base,), {}))
        self.exceptions.BaseError = base  # type: ignore[attr-defined]

    def _from_url(self, url: str, **_options: Any) -> object:
        if not url.startswith("s3://"):
            raise self.exceptions.GenericError(f"no store for {url}\nand more lines")
        return self

    def _of(self, path: str) -> bytes:
        if self.failure is not None:
            raise self.failure
        if path not in self.kept:
            raise self.exceptions.NotFoundError(path)
        return self.kept[path]

    def put(self, _store: object, path: str, file: Any, *, mode: str = "overwrite") -> None:
        if mode == "create" and path in self.kept:
            raise self.exceptions.AlreadyExistsError(path)
        self.kept[path] = bytes(file) if isinstance(file, bytes) else file.read()

    def get(self, _store: object, path: str) -> Any:
        data = self._of(path)
        return SimpleNamespace(bytes=lambda: data)

    def get_range(self, _store: object, path: str, *, start: int, end: int) -> bytes:
        return self._of(path)[start:end]

    def head(self, _store: object, path: str) -> dict[str, Any]:
        return {"path": path, "size": len(self._of(path)), "last_modified": WHEN}

    def list(
        self, _store: object, prefix: str | None, *, offset: str | None
    ) -> Iterator[list[dict[str, Any]]]:
        start = f"{prefix}/" if prefix else ""
        found = [path for path in self.kept if path.startswith(start) and path > (offset or "")]
        for path in found:
            yield [self.head(None, path)]

    def copy(self, _store: object, old: str, new: str) -> None:
        self.kept[new] = self._of(old)

    def delete(self, _store: object, path: str) -> None:
        self._of(path)  # stores but S3 say when it is not there
        del self.kept[path]

    def list_with_delimiter(self, _store: object, prefix: str | None) -> dict[str, list[Any]]:
        start = f"{prefix}/" if prefix else ""
        below = [path.removeprefix(start) for path in sorted(self.kept) if path.startswith(start)]
        return {
            "objects": [self.head(None, start + path) for path in below if "/" not in path],
            "common_prefixes": sorted({start + path.partition("/")[0] for path in below if "/" in path}),
        }


def fake_obstore(monkeypatch: pytest.MonkeyPatch) -> FakeObstore:
    """Put it in place of obstore: our side of it is tested where the package is not installed, too."""
    made = FakeObstore()
    monkeypatch.setitem(sys.modules, "obstore", made)
    monkeypatch.setitem(sys.modules, "obstore.store", made.store)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", made.exceptions)
    return made


def as_store(store: Any) -> ObjectStore:
    found: ObjectStore = store
    return found
