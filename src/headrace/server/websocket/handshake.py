"""The way from an accepted connection to an upgraded one: the HTTP request and its answer.

Here lives the exchange. Never lives here: what is checked in the request (`request`), frames (`transport`).
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from websockets.server import ServerProtocol

from headrace.server.websocket.request import Refusal, UpgradeRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from websockets.extensions import ServerExtensionFactory
    from websockets.http11 import Request, Response

    from headrace.server.websocket.pages import Pages
    from headrace.server.websocket.request import UpgradeRules

_REQUEST_END: Final = b"\r\n\r\n"
_CHECKED: Final = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
"""Headers that the rules have found these values in; the library wants them to have no others."""

_QUIET: Final = logging.getLogger("headrace.websocket")
# Below, the library logs every frame, with what clients say of themselves.
_QUIET.setLevel(logging.ERROR)


class Handshake(asyncio.Protocol):
    """One connection until its upgrade: then `upgraded` takes it over.

    `done` is set when it is over, whatever came of it; `report` is told why a client was refused. `pages`
    take over connections that ask for files of the console; None: there is none.
    """

    def __init__(
        self,
        rules: UpgradeRules,
        *,
        extensions: Sequence[ServerExtensionFactory],
        headers: Sequence[tuple[str, str]],
        max_size: int,
        upgraded: Callable[[asyncio.Transport, ServerProtocol, UpgradeRequest], None],
        report: Callable[[str], None],
        pages: Pages | None = None,
    ) -> None:
        self._rules = rules
        self._pages = pages  # until it is known that this is an upgrade
        self._early = b""
        self._headers = headers
        self._protocol = ServerProtocol(extensions=extensions, max_size=max_size, logger=_QUIET)
        self._upgraded = upgraded
        self._report = report
        self._transport: asyncio.Transport | None = None
        self._tail = b""  # the last bytes that came, in whatever pieces
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._finish()

    def data_received(self, data: bytes) -> None:
        transport, protocol = self._transport, self._protocol
        if transport is None or self.done.done():
            return
        if self._pages is not None:
            self._early += data
            is_page = self._pages.are_wanted(self._early)
            if is_page is None:
                return
            pages, data = self._pages, self._early
            self._pages, self._early = None, b""
            if is_page:
                self._transport = None
                self._finish()
                pages.serve(transport, data)
                return
        self._tail = (self._tail + data)[-len(_REQUEST_END) :]
        protocol.receive_data(data)
        events = protocol.events_received()
        if not events and protocol.handshake_exc is None:
            return  # there is more to come
        if not events:
            self._refuse_unread(transport)
        elif len(events) > 1 or self._tail != _REQUEST_END:
            self._report("client sent data before handshake is complete")
            transport.abort()
        else:
            self._reply(transport, cast("Request", events[0]))
        self._finish()

    def _refuse_unread(self, transport: asyncio.Transport) -> None:
        """Refuse bytes that are no HTTP request, or a request that is too large."""
        problem = self._protocol.handshake_exc
        self._report(str(problem.__cause__ or problem) if problem else "")
        answer = b"".join(self._protocol.data_to_send())
        transport.write(answer or b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        transport.close()

    def _reply(self, transport: asyncio.Transport, request: Request) -> None:
        protocol = self._protocol
        upgrade = UpgradeRequest()
        try:
            is_secure = transport.get_extra_info("ssl_object") is not None
            upgrade = self._rules.check(request, is_secure=is_secure)
            for name, value in _CHECKED.items():
                del request.headers[name]
                request.headers[name] = value
            response = protocol.accept(request)
            if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
                raise Refusal(HTTPStatus(response.status_code), str(protocol.handshake_exc))
        except Refusal as refusal:
            self._report(str(refusal))
            response = self._refused(refusal)
        else:
            if upgrade.is_mqtt:  # asked for or not, as nats-server says it
                response.headers["Sec-WebSocket-Protocol"] = "mqtt"
            for name, value in self._headers:
                response.headers[name] = value
        protocol.send_response(response)
        transport.write(b"".join(protocol.data_to_send()))
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            self._transport = None
            self._upgraded(transport, protocol, upgrade)
        else:
            transport.close()

    def _refused(self, refusal: Refusal) -> Response:
        response = self._protocol.reject(refusal.status, f"{refusal.status.phrase}\n")
        response.headers["Sec-WebSocket-Version"] = "13"
        return response

    def give_up(self) -> None:
        """End a handshake that takes too long."""
        if self._transport is not None:
            self._transport.abort()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
