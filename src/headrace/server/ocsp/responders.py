"""Asking OCSP responders, over HTTP.

Bounds: an answer has `MAX_ANSWER` bytes at most and `ca_timeout` to come from each responder of a
certificate; there are `MAX_REQUESTS` at a time, `REQUESTS_OF_A_PLACE` to one of them, and further ones wait
within that time; connections that wait for the same answer share a request; a responder may redirect
`_MAX_REDIRECTS` times. What comes is not unpacked.
Source: RFC 6960, appendix A.1; the order of responders compared with the Go server 2.15.1.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from yarl import URL

from headrace.server.ocsp.answers import request

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.server.ocsp.chains import CheckedCertificate

MAX_ANSWER: Final = 65_536
MAX_REQUESTS: Final = 100
REQUESTS_OF_A_PLACE: Final = 20

_MAX_REDIRECTS: Final = 10
_OK: Final = 200


class UnreachableError(Exception):
    """No responder has answered; says why the last one did not."""


class Responders:
    """The responders of authorities, asked over HTTP. `close` ends it. `debug` gets what is tried."""

    def __init__(self, debug: Callable[[str], None]) -> None:
        self._debug = debug
        self._session: ClientSession | None = None
        self._under_way: dict[tuple[tuple[str, str], float], asyncio.Task[bytes]] = {}

    async def ask(self, link: CheckedCertificate, seconds: float) -> bytes:
        """Return the answer of the first responder that answers about this certificate.

        `seconds`: for each responder.

        Raises: UnreachableError.
        """
        key = (link.key, seconds)
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(link, seconds))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        # One whose time is over must not take the answer from the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _finished(self, key: tuple[tuple[str, str], float], task: asyncio.Task[bytes]) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone; then nobody else takes note of it

    async def _ask(self, link: CheckedCertificate, seconds: float) -> bytes:
        asked = quote(b64encode(request(link)), safe="")
        problem = ""
        for place in link.responders:
            self._debug(f"Trying OCSP responder url [{place}]")
            try:
                return await self._get(f"{place.removesuffix('/')}/{asked}", seconds)
            except TimeoutError:
                problem = f"{place}: no answer within {seconds:g} seconds"
            except (ClientError, OSError, ValueError) as error:
                # The text of the error may hold the whole request.
                problem = f"{place}: {getattr(error, 'strerror', None) or type(error).__name__}"
            except UnreachableError as error:
                problem = f"{place}: {error}"
        raise UnreachableError(problem)

    async def _get(self, url: str, seconds: float) -> bytes:
        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(limit=MAX_REQUESTS, limit_per_host=REQUESTS_OF_A_PLACE),
                cookie_jar=DummyCookieJar(),
                headers={"Accept-Encoding": "identity"},
                auto_decompress=False,
            )
        timeout = ClientTimeout(total=seconds)
        async with self._session.get(
            URL(url, encoded=True), timeout=timeout, max_redirects=_MAX_REDIRECTS
        ) as response:
            if response.status != _OK:
                raise UnreachableError(f"bad OCSP responder http status: [{response.status}]")
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise UnreachableError("the answer is too large")
        if not body:
            raise UnreachableError("the answer is empty")
        return bytes(body)
