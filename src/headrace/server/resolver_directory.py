"""Tokens of accounts in a directory: all of them (full), or those used lately (cache).

Here lives the resolver: it keeps the event loop away from the disk and removes tokens whose time is over.
Never lives here: the files (`jwt_directory`), requests over the system account, which ask other servers for
what is not here.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from headrace.errors import StartError
from headrace.server.jwt_directory import Deletion, JWTDirectory
from headrace.server.resolver import ResolverError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.conf.operator_options import ResolverOptions

_LONGEST_CHECK: Final = 60.0  # seconds between looks for tokens whose time is over


class DirectoryResolver:
    """A resolver whose tokens are in a directory.

    `on_expired` is called with the accounts whose tokens went, `on_trouble` with what failed.
    """

    def __init__(self, options: ResolverOptions, preload: Mapping[str, str]) -> None:
        assert options.directory is not None, "the configuration has checked it"
        self._path = options.directory
        self.patience: Final = options.timeout
        self.may_delete: Final = _deletion(options) is not Deletion.REFUSED
        self._preload = preload
        self.kind: Final = options.kind
        self.interval: Final = options.interval
        self._check_interval = min(options.ttl / 2 or _LONGEST_CHECK, _LONGEST_CHECK)
        self.on_expired: Callable[[tuple[str, ...]], None] = lambda _: None
        self.on_trouble: Callable[[str], None] = lambda _: None
        self.directory = JWTDirectory(
            options.directory,
            limit=options.limit,
            evicts=options.kind == "cache",
            ttl=options.ttl,
            deletion=_deletion(options),
        )
        self._expiry: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the directory, and put into it what the configuration preloads.

        Raises: StartError.
        """
        try:
            await asyncio.to_thread(self.directory.open)
            for account, token in self._preload.items():
                await self.store(account, token)
        except OSError as error:
            raise StartError(f"resolver directory {self._path}: {error.strerror}") from None
        except ResolverError as error:
            raise StartError(f"resolver directory {self._path}: {error}") from None
        self._expiry = asyncio.get_running_loop().create_task(self._expire())

    async def fetch(self, account: str) -> str:
        """The account's token. Raises: ResolverError, also for a disk that does not answer in time."""
        try:
            async with asyncio.timeout(self.patience):
                return await asyncio.to_thread(self.directory.load, account)
        except TimeoutError:
            raise ResolverError(f"not read within {self.patience:g} seconds") from None

    async def store(self, account: str, token: str) -> bool:
        """Keep a token, durably; False if a newer one is there. Raises: ResolverError."""
        return await asyncio.to_thread(self.directory.save, account, token)

    async def replace(self, account: str, token: str) -> bool:
        """Store a token also in place of a newer one. Raises: ResolverError."""
        return await asyncio.to_thread(self.directory.save, account, token, replaces=True)

    async def pack(self) -> dict[str, str]:
        """The tokens by account. Raises: ResolverError."""
        return await asyncio.to_thread(self.directory.pack)

    async def digest(self) -> bytes:
        """A digest that is equal for directories with the same tokens. Raises: ResolverError."""
        return await asyncio.to_thread(self.directory.digest)

    async def delete(self, account: str) -> bool:
        """Delete a token; True if there was one. Raises: ResolverError, also where that is not allowed."""
        return await asyncio.to_thread(self.directory.delete, account)

    async def close(self) -> None:
        task, self._expiry = self._expiry, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self._check_interval)
            try:
                gone = await asyncio.to_thread(self.directory.expire)
            except ResolverError as error:
                self.on_trouble(f"a token whose time is over {error}")
                continue
            if gone:
                self.on_expired(gone)


def _deletion(options: ResolverOptions) -> Deletion:
    if options.kind == "cache":  # what is gone can be had again
        return Deletion.REMOVES
    if not options.allow_delete:
        return Deletion.REFUSED
    return Deletion.REMOVES if options.hard_delete else Deletion.RENAMES
