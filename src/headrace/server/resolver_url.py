"""Tokens of accounts over HTTP: `GET <url><account>` answers with the account's token.

Here lives the client. Never lives here: trust in what it gets, memory of it.
Bounds: one answer has `MAX_TOKEN` bytes at most and `timeout` seconds to come; there are `MAX_REQUESTS` at a
time, and further ones wait within that time; connections for one account share one request; an answer may
redirect `_MAX_REDIRECTS` times. aiohttp is loaded at the start of a server that has such a resolver.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headrace.conf.tls_options import TLSOptions
from headrace.errors import StartError
from headrace.protocol.jwt.decoding import MAX_TOKEN
from headrace.server.resolver import ResolverError, check_account
from headrace.server.tls import client_context

if TYPE_CHECKING:
    from aiohttp import ClientSession, StreamReader

    from headrace.conf.operator_options import ResolverOptions, ResolverTLSOptions

MAX_REQUESTS: Final = 10
"""Requests at a time; one more waits."""

_MAX_REDIRECTS: Final = 5


class URLResolver:
    """Reads only; an account's token is fetched again whenever it is asked for."""

    def __init__(self, options: ResolverOptions) -> None:
        assert options.url is not None, "the configuration has checked it"
        self._url = options.url
        self._shown = _without_credentials(options.url)
        self._timeout = options.timeout
        self._tls = options.tls
        self._session: ClientSession | None = None
        self._under_way: dict[str, asyncio.Task[str]] = {}

    async def start(self) -> None:
        """Ask whether anybody is there, as the Go server does.

        Raises: StartError if not, or if a file for TLS cannot be used.
        """
        from aiohttp import ClientSession, ClientTimeout, TCPConnector

        connector = TCPConnector(limit=MAX_REQUESTS, ssl=True if self._tls is None else _context(self._tls))
        self._session = ClientSession(connector=connector, timeout=ClientTimeout(total=self._timeout))
        try:
            await self._get("")
        except ResolverError as error:
            await self.close()
            raise StartError(str(error)) from None

    async def fetch(self, account: str) -> str:
        """The account's token. Raises: ResolverError."""
        check_account(account)
        task = self._under_way.get(account)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._get(account))
            self._under_way[account] = task
            task.add_done_callback(lambda done: self._finished(account, done))
        # One who gives up waiting must not take the answer from the others.
        return await asyncio.shield(task)

    async def store(self, account: str, token: str) -> bool:
        """Refuse to store a token: a URL is read only. Raises: ResolverError, always."""
        raise ResolverError("store operation not supported for URL Resolver")

    async def close(self) -> None:
        for task in list(self._under_way.values()):
            task.cancel()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _finished(self, account: str, task: asyncio.Task[str]) -> None:
        self._under_way.pop(account, None)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone; then nobody else takes note of it

    async def _get(self, account: str) -> str:
        from aiohttp import ClientError

        if self._session is None:
            raise ResolverError("the resolver is closed")
        shown = f'could not fetch <"{self._shown}{account}">'
        try:
            async with self._session.get(self._url + account, max_redirects=_MAX_REDIRECTS) as response:
                if response.status != 200:
                    raise ResolverError(f"{shown}: {response.status} {response.reason}")
                return await _body(response.content, shown)
        except TimeoutError:
            raise ResolverError(f"{shown}: no answer within {self._timeout:g} seconds") from None
        except (ClientError, OSError, ValueError) as error:
            # The text of the error may hold the URL with its password.
            raise ResolverError(f"{shown}: {type(error).__name__}") from None


async def _body(content: StreamReader, shown: str) -> str:
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > MAX_TOKEN:
            raise ResolverError(f"{shown}: the answer is too large for a token")
    try:
        return body.decode("ascii")
    except UnicodeDecodeError:
        raise ResolverError(f"{shown}: the answer is no token") from None


def _context(options: ResolverTLSOptions) -> ssl.SSLContext:
    """Return the TLS context for requests. Raises: StartError."""
    try:
        context = client_context(
            TLSOptions(
                cert_file=options.cert_file or "", key_file=options.key_file or "", ca_file=options.ca_file
            )
        )
    except StartError as error:
        raise StartError(f"resolver_tls: {error}") from error
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
