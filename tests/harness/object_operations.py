"""The operations of an object store in memory, without the way that a request takes to it.

Here lives what each operation does to objects (`headrace.objects.port.AsyncObjectStore`). Never here: when
that happens, whether it fails, what the caller hears.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from headrace.objects.errors import KeyExists, KeyMissing
from headrace.objects.port import Listing, ObjectInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from headrace.objects.port import Bytes

T = TypeVar("T")
Objects: TypeAlias = "Mapping[str, tuple[bytes, int]]"
"""The bytes and the time (ns since 1970) of each object."""


class ObjectOperations(ABC):
    """A store whose requests are sent by `_request`: they have their effect at some time, or never."""

    @abstractmethod
    async def _request(self, operation: str, key: str, effect: Callable[[], T]) -> T:
        """Send a request, and return what its effect gave. Raises: StoreError."""

    @abstractmethod
    def _objects(self) -> Objects:
        """The objects as they are."""

    @abstractmethod
    def _keep(self, key: str, content: bytes) -> None:
        """Write an object."""

    @abstractmethod
    def _remove(self, key: str) -> None:
        """Remove an object, if it is there."""

    def _shown(self) -> Objects:
        """The objects as a listing has them."""
        return self._objects()

    async def get(self, key: str) -> bytes:
        return await self._request("get", key, lambda: self._find(key)[0])

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        return await self._request("get_range", key, lambda: self._find(key)[0][start:end])

    async def head(self, key: str) -> ObjectInfo:
        def look() -> ObjectInfo:
            data, time_ns = self._find(key)
            return ObjectInfo(key, len(data), time_ns)

        return await self._request("head", key, look)

    async def put(self, key: str, data: Bytes | Path) -> None:
        content = _content(data)
        await self._request("put", key, lambda: self._keep(key, content))

    async def create(self, key: str, data: Bytes | Path) -> None:
        content = _content(data)

        def make() -> None:
            if key in self._objects():
                raise KeyExists(f"{key} is there already")
            self._keep(key, content)

        await self._request("create", key, make)

    async def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[ObjectInfo]:
        for info in await self._request("list", prefix, lambda: self._listed(prefix, after)):
            yield info

    async def list_folder(self, folder: str = "") -> Listing:
        start = f"{folder}/" if folder else ""
        below = [(info, info.key.removeprefix(start)) async for info in self.list(folder)]
        folders = {rest.partition("/")[0] for _, rest in below if "/" in rest}
        return Listing([info for info, rest in below if "/" not in rest], sorted(folders))

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            await self._request("delete", key, partial(self._remove, key))

    def _find(self, key: str) -> tuple[bytes, int]:
        found = self._objects().get(key)
        if found is None:
            raise KeyMissing(f"{key} is not there")
        return found

    def _listed(self, prefix: str, after: str) -> list[ObjectInfo]:
        objects, start = self._shown(), f"{prefix}/" if prefix else ""
        keys = sorted(key for key in objects if key.startswith(start) and key > after)
        return [ObjectInfo(key, len(objects[key][0]), objects[key][1]) for key in keys]


def _content(data: Bytes | Path) -> bytes:
    return data.read_bytes() if isinstance(data, Path) else bytes(data)
