"""An HTTP proxy in front of an object store that fails requests as networks and stores do.

Each request has a fate: `fates` are used one after the other, then `default` decides. The proxy runs on a
thread of its own; its attributes may be changed at any time, from any thread. It sends a request on as it
came (path, query, headers, body), so that signatures stay right.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import ClientError, ClientSession, DummyCookieJar, TCPConnector, web
from yarl import URL

from headrace.background import LoopThread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "expect"})
"""Headers of one connection."""
_ERROR: Final = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'


@dataclass(frozen=True)
class Fate:
    """What becomes of a request. In this order: delayed, answered or cut off, sent on, its answer treated."""

    delay_s: float = 0.0
    status: int = 0
    """Not 0: the store does not see the request; the client gets this status, with `code` in its body."""
    code: str = ""
    message: str = "as the test wants it"
    is_cut: bool = False
    """The connection is closed before the store sees the request."""
    is_unanswered: bool = False
    """The connection is closed after the store has done what it was asked."""
    is_never_answered: bool = False
    """The store does what it was asked; the connection stays open, without an answer."""
    answered_status: int = 0
    """Not 0: the store does what it was asked; the client gets this status."""
    answer_delay_s: float = 0.0
    """The store does what it was asked; its answer comes so many seconds later."""
    body_bytes: int | None = None
    """The connection is closed after so many bytes of the answer's body."""


PASSED: Final = Fate()
UNREACHABLE: Final = Fate(is_cut=True)


@dataclass(frozen=True)
class Request:
    """A request as the proxy saw it."""

    method: str
    path: str
    size: int
    headers: dict[str, str]
    """By their names in lower case."""


class StoreProxy:
    """A proxy at 127.0.0.1; `requests` are all that arrived, in order."""

    def __init__(self, target: str) -> None:
        self._target = URL(target)
        self.fates: deque[Fate] = deque()
        self.default: Callable[[Request], Fate] = lambda _request: PASSED
        self.requests: list[Request] = []
        self.url = ""
        self._released = asyncio.Event()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[StoreProxy]:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        connector = TCPConnector(limit=0)
        async with ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=DummyCookieJar(),
            skip_auto_headers=("Content-Type",),  # Azure's signatures are of it
        ) as self._session:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                self._released.set()
                await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen = Request(request.method, request.raw_path, len(body), headers)
        self.requests.append(seen)
        fate = self.fates.popleft() if self.fates else self.default(seen)
        if fate.delay_s:
            await asyncio.sleep(fate.delay_s)
        if fate.is_cut:
            return _cut(request)
        if fate.status:
            return _error(request, fate.status, fate)
        return await self._answer_done(request, fate, *await self._sent_on(request, body))

    async def _answer_done(
        self, request: web.Request, fate: Fate, status: int, headers: dict[str, str], content: bytes
    ) -> web.StreamResponse:
        if fate.answer_delay_s:
            await asyncio.sleep(fate.answer_delay_s)
        if fate.is_never_answered:
            await self._released.wait()
        if fate.is_unanswered or fate.is_never_answered:
            return _cut(request)
        if fate.answered_status:
            return _error(request, fate.answered_status, fate)
        if fate.body_bytes is not None:
            return await _cut_short(request, status, headers, content, fate.body_bytes)
        if request.method != "HEAD":
            headers = {name: value for name, value in headers.items() if name.lower() != "content-length"}
        return web.Response(status=status, headers=headers, body=content)

    async def _sent_on(self, request: web.Request, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        url = URL(f"{self._target.origin()}{request.raw_path}", encoded=True)
        try:
            async with self._session.request(
                request.method, url, headers=headers, data=body or None, allow_redirects=False
            ) as answer:
                kept = {
                    name: value
                    for name, value in answer.headers.items()
                    if name.lower() not in _HOP or (name.lower() == "content-length")
                }
                return answer.status, kept, await answer.read()
        except ClientError as error:
            return 502, {}, str(error).encode()


@contextmanager
def store_proxy(target: str) -> Iterator[StoreProxy]:
    """Run a proxy in front of the store at a URL."""
    with LoopThread("store-proxy") as loop:
        proxy = loop.run(_made(target))
        served = proxy.serve()
        loop.run(served.__aenter__())
        try:
            yield proxy
        finally:
            loop.run(served.__aexit__(None, None, None))


async def _made(target: str) -> StoreProxy:
    return StoreProxy(target)


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:  # the client may have gone
        request.transport.abort()
    return web.Response()


def _error(request: web.Request, status: int, fate: Fate) -> web.Response:
    text = _ERROR.format(code=fate.code, message=fate.message) if fate.code else ""
    return web.Response(status=status, text="" if request.method == "HEAD" else text)


async def _cut_short(
    request: web.Request, status: int, headers: dict[str, str], content: bytes, most: int
) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers=headers)
    response.content_length = len(content)
    await response.prepare(request)
    await response.write(content[:most])
    return _cut(request)
