"""Commands of the system account to a server: close a client, warn it, read the configuration again.

Source: conditions and errors compared with the Go server 2.15.1. A number that cannot be read is not
answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.reasons import CloseReason
from headrace.errors import HeadraceError
from headrace.server.system import options
from headrace.server.system.requester import asked_by

if TYPE_CHECKING:
    from headrace.core.service import Delivery
    from headrace.server.system.requests import AskedServer, ServerRequests

_FAILED = 500


class _Impossible(HeadraceError):
    """A command that cannot be done; the text is the answer."""


def take(requests: ServerRequests, name: str, request: Delivery) -> None:
    """RELOAD, KICK or LDM; done without a reply subject only where the Go server does it: never."""
    cid = 0
    if name != "RELOAD":
        number = _connection(requests.server, request)
        if number is None:
            return
        cid = number
    if not request.reply or requests.read(request, options.FILTERS) is None:
        return
    asking = asked_by(requests.server, request)
    if name == "RELOAD":
        requests.server.tasks.run(_reload(requests, request, asking))
        return
    command = f"{name} of connection {cid}"
    try:
        (_kick if name == "KICK" else _warn)(requests.server, cid)
    except _Impossible as error:
        _log(requests.server, command, asking, str(error))
        requests.send(request.reply, requests.messages.refusal(_FAILED, str(error)))
    else:
        _log(requests.server, command, asking, "done")
        _done(requests, request.reply)


def _connection(server: AskedServer, request: Delivery) -> int | None:
    try:
        if not request.payload:
            raise options.BadRequest("unexpected end of JSON input")
        cid: int = options.read(request.payload, options.CONNECTION).get("cid", 0)
    except options.BadRequest as error:
        server.log.error("Error unmarshalling kick client request: %s", error)
        return None
    return cid


def _kick(server: AskedServer, cid: int) -> None:
    session = server.clients.get(cid)
    if session is None:
        raise _Impossible("no such client or leafnode id")
    session.end(CloseReason.KICKED)


def _warn(server: AskedServer, cid: int) -> None:
    session = server.clients.get(cid)
    if session is None:
        raise _Impossible("no such client id")
    if not session.has_async_info:
        raise _Impossible(
            "client does not support Lame Duck Mode or is not ready to receive the notification"
        )
    session.debug("Sending Lame Duck Mode info to client")
    session.link.send(session.words.info(session, ldm=True))
    server.ticks.wake()


async def _reload(requests: ServerRequests, request: Delivery, asking: str) -> None:
    """Reload in a task: the request may have come through what is reloaded."""
    try:
        requests.server.reload()
    except HeadraceError as error:
        _log(requests.server, "RELOAD", asking, str(error))
        requests.send(request.reply, requests.messages.refusal(_FAILED, str(error)))
    except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and who asked is told
        _log(requests.server, "RELOAD", asking, "internal error")
        requests.mistaken(error, request)
    else:
        _log(requests.server, "RELOAD", asking, "done")
        _done(requests, request.reply)


def _log(server: AskedServer, command: str, asking: str, outcome: str) -> None:
    """Say who has asked for a command, and what became of it."""
    server.log.info("%s, asked for by %s: %s", command, asking, "; ".join(outcome.splitlines()))


def _done(requests: ServerRequests, reply: bytes) -> None:
    requests.send(reply, requests.messages.done())
