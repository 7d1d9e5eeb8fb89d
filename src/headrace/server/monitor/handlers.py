"""The aiohttp application: paths to endpoints, their results to responses.

Here lives HTTP: status codes, headers, request counts. Never lives here: what an endpoint says.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import hdrs, web

from headrace.errors import LogError
from headrace.server.monitor import links, runtime, streaming
from headrace.server.monitor.accountz import accountz
from headrace.server.monitor.accstatz import accstatz
from headrace.server.monitor.aggregate import AggregatedMonitor, MonitorUnavailable, wanted_for
from headrace.server.monitor.connz import connz
from headrace.server.monitor.gathered import gathered, in_steps, is_long
from headrace.server.monitor.healthz import failure, healthz
from headrace.server.monitor.index import index
from headrace.server.monitor.jsz import jsz, jsz_steps
from headrace.server.monitor.metrics import CONTENT_TYPE, metrics
from headrace.server.monitor.query import QueryError
from headrace.server.monitor.runtime import ipqueuesz
from headrace.server.monitor.subsz import subsz
from headrace.server.monitor.text import encode
from headrace.server.monitor.varz import varz

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware

    from headrace.server.monitor.source import MonitorSource
    from headrace.server.monitor.streaming import StreamingSource

_log = logging.getLogger("headrace.server.monitor")

_JSON_HEADERS: Final = {"Content-Type": "application/json", "Access-Control-Allow-Origin": "*"}
_TEXT_HEADERS: Final = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}

_SCRIPT_HEADERS: Final = {"Content-Type": "application/javascript", "X-Content-Type-Options": "nosniff"}

_Endpoint: TypeAlias = Callable[["MonitorSource", Mapping[str, str]], dict[str, object]]
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(
    source: MonitorSource,
    base_path: str,
    streaming_source: StreamingSource | None = None,
    access: Middleware | None = None,
    console: Callable[[str | None], str] | None = None,
) -> web.Application:
    """The application; `base_path` ("" for none) goes before every path, /streaming needs a source.

    `access` sees every request first. `console` gives the URL of the console for a browser that knows this
    machine by a host name, or that says none; None: there is no console.
    """
    base = base_path.strip("/")
    return _Monitor(source, f"/{base}" if base else "", streaming_source, console).application(access)


class _Monitor:
    """The handlers, which share the source and the request counts."""

    def __init__(
        self,
        source: MonitorSource,
        base: str,
        streaming_source: StreamingSource | None,
        console: Callable[[str | None], str] | None,
    ) -> None:
        self._source = source
        self._console = console
        self._streaming = streaming_source
        self._base = base
        self._requests: Counter[str] = Counter()

    def application(self, access: Middleware | None) -> web.Application:
        app = web.Application(middlewares=[access, _answer_errors] if access else [_answer_errors])
        app.on_response_prepare.append(_hide_server_header)
        handlers: dict[str, _Handler] = {
            "": self._index,
            "/varz": self._varz,
            "/connz": self._listing("/connz", connz),
            "/subsz": self._listing("/subsz", subsz),
            "/subscriptionsz": self._listing("/subsz", subsz),
            "/accountz": self._listing("/accountz", accountz),
            "/accstatz": self._listing("/accstatz", accstatz),
            "/routez": self._listing("/routez", links.routez),
            "/leafz": self._listing("/leafz", links.leafz),
            "/gatewayz": self._listing("/gatewayz", links.gatewayz),
            "/jsz": self._listing("/jsz", jsz),
            "/healthz": self._healthz,
            "/metrics": self._metrics,
            "/ipqueuesz": self._ipqueuesz,
            "/raftz": _raftz,
            "/stacksz": _stacksz,
            "/debug/vars": self._variables,
            **(self._streaming_handlers(self._streaming) if self._streaming else {}),
        }
        for path, handler in handlers.items():
            # Any method, as the Go server has it.
            app.router.add_route("*", self._base + path or "/", handler, expect_handler=_expect)
        return app

    async def _index(self, request: web.Request) -> web.Response:
        self._requests["/"] += 1
        is_streaming = self._streaming is not None
        console = None if self._console is None else self._console(_host_of(request))
        name = self._source.server().server_name
        page = index(name, self._base, streaming=is_streaming, console=console)
        return web.Response(text=page, content_type="text/html", charset="utf-8")

    async def _varz(self, request: web.Request) -> web.Response:
        self._requests["/varz"] += 1
        source = await self._look("/varz", request)
        return _json_response(encode(varz(source.server(), self._requests, source.jetstream())))

    async def _look(self, name: str, request: web.Request) -> MonitorSource:
        """Return the source of an answer: this process, or all processes of this server.

        Raises: MonitorUnavailable.
        """
        if isinstance(self._source, AggregatedMonitor):
            return await self._source.whole(wanted_for(name, request.query))
        return self._source

    def _listing(self, name: str, endpoint: _Endpoint) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            self._requests[name] += 1
            source = await self._look(name, request)
            if endpoint is jsz:
                document = await in_steps(jsz_steps(source, request.query))
            else:
                if endpoint is connz:
                    source = await gathered(source)
                document = endpoint(source, request.query)
            if is_long(document):
                # The server was read on the event loop; writing a long listing out need not hold it up.
                return _json_response(await asyncio.to_thread(encode, document))
            return _json_response(encode(document))

        return handle

    def _streaming_handlers(self, source: StreamingSource) -> dict[str, _Handler]:
        def listing(endpoint: Callable[..., dict[str, object]]) -> _Handler:
            async def handle(request: web.Request) -> web.Response:
                name = streaming.callback(request.query)
                document = endpoint(source, request.query)
                if is_long(document):
                    return _script_or_json(await asyncio.to_thread(encode, document), name)
                return _script_or_json(encode(document), name)

            return handle

        async def page(request: web.Request) -> web.Response:
            return web.Response(text=streaming.index(self._base), content_type="text/html", charset="utf-8")

        async def ft_active(request: web.Request) -> web.Response:
            is_active = streaming.is_ft_active(source)
            return web.Response(status=HTTPStatus.OK if is_active else HTTPStatus.NO_CONTENT)

        handlers: dict[str, _Handler] = {"": page, streaming.FT_ACTIVE: ft_active}
        handlers.update((path, listing(endpoint)) for path, endpoint in streaming.DOCUMENTS.items())
        return {streaming.PATH + path: handler for path, handler in handlers.items()}

    async def _healthz(self, request: web.Request) -> web.Response:
        self._requests["/healthz"] += 1
        try:
            status, document = healthz(await self._look("/healthz", request), request.query)
        except MonitorUnavailable as error:
            status, document = HTTPStatus.INTERNAL_SERVER_ERROR, {"status": "error", "error": str(error)}
        if status != HTTPStatus.OK:
            _log.warning("Healthcheck failed: %s", failure(document))
        return _json_response(encode(document, indent=False), status)

    async def _metrics(self, request: web.Request) -> web.Response:
        self._requests["/metrics"] += 1
        source = await gathered(await self._look("/metrics", request))
        text = metrics(source, self._requests, request.query)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    async def _ipqueuesz(self, request: web.Request) -> web.Response:
        return _json_response(encode(ipqueuesz(self._source, request.query)))

    async def _variables(self, request: web.Request) -> web.Response:
        return _json_response(encode(runtime.variables(self._source)))


def _host_of(request: web.Request) -> str | None:
    """Return the host that a browser knows this machine by; None where it says none that could be one."""
    try:
        return request.url.host
    except ValueError:
        return None


async def _raftz(request: web.Request) -> web.Response:
    """Answer /raftz: there are no Raft groups."""
    return web.Response(status=HTTPStatus.NOT_FOUND, body=b"No Raft nodes registered", headers=_JSON_HEADERS)


async def _stacksz(request: web.Request) -> web.Response:
    """Answer /stacksz, with the Go server's content type for it."""
    return web.Response(body=runtime.stacks().encode(), headers=_JSON_HEADERS)


@web.middleware
async def _answer_errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except QueryError as error:
        return web.Response(status=HTTPStatus.BAD_REQUEST, text=str(error), headers=_TEXT_HEADERS)
    except streaming.NotFoundError as error:
        return web.Response(status=HTTPStatus.NOT_FOUND, text=f"{error}\n", headers=_TEXT_HEADERS)
    except LogError as error:  # a store that failed or is closed already: the rest of monitoring goes on
        text = f"Error getting information about channels state: {error}\n"
        return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text=text, headers=_TEXT_HEADERS)
    except MonitorUnavailable as error:
        return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{error}\n", headers=_TEXT_HEADERS)
    except web.HTTPNotFound:
        text = "404 page not found\n"
        return web.Response(status=HTTPStatus.NOT_FOUND, text=text, headers=_TEXT_HEADERS)


async def _expect(request: web.Request) -> None:
    """Send no `100 Continue`: bodies are not read, and the answer comes at once."""
    if request.headers[hdrs.EXPECT].lower() != "100-continue":
        raise web.HTTPExpectationFailed(text=f"Unknown Expect: {request.headers[hdrs.EXPECT]}\n")


async def _hide_server_header(request: web.Request, response: web.StreamResponse) -> None:
    # It would tell the versions of Python and aiohttp.
    response.headers.pop("Server", None)


def _script_or_json(body: bytes, callback: str) -> web.Response:
    """JSON, or with a callback JSONP."""
    if callback:
        return web.Response(body=b"%b(%b)" % (callback.encode(), body), headers=_SCRIPT_HEADERS)
    return _json_response(body)


def _json_response(body: bytes, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=body, status=status, headers=_JSON_HEADERS)
