"""`headrace console`: the page for browsers, from this machine, for a NATS server elsewhere.

Here lives which server that is. Never lives here: the page and its answers (`headrace.console`), the port
(`console_serving`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.cli.call import Call

_SCHEMES: Final = ("ws", "wss")
_HIGHEST_PORT: Final = 65535


def serve(call: Call) -> None:
    """Serve until it is interrupted. Raises: CommandError, ClientError."""
    from headrace.cli.client.console_serving import ConsoleServer
    from headrace.conf.console_options import PAGES, ConsoleOptions
    from headrace.console.settings import settings
    from headrace.console.site import ConsoleSite, HostNames

    options = call.options
    unknown = [name for name in options.hide or () if name not in PAGES]
    if unknown:
        raise CommandError(f"--hide: {unknown[0]!r} is no page ({', '.join(PAGES)})", ExitCode.WRONG_USE)
    if options.port is not None and not 0 < options.port <= _HIGHEST_PORT:
        raise CommandError(f"--port is 1 to {_HIGHEST_PORT}", ExitCode.WRONG_USE)
    socket = _asked(call) if options.websocket is None else websocket_url(options.websocket)
    console = ConsoleOptions(
        read_only=options.read_only, hide=tuple(options.hide or ()), pipelines=options.pipelines
    )
    site = ConsoleSite(console.path, settings(console, socket=socket), HostNames([]), [origin_of(socket)])
    with ConsoleServer(site, options.port) as server:
        _tell(call, {"url": server.url, "origin": server.origin, "websocket": socket})
        if options.open:
            import webbrowser

            if not webbrowser.open(server.url):
                call.out.warn("no browser was found to open it in")
        server.serve_forever()


def _tell(call: Call, found: Mapping[str, str]) -> None:
    def show() -> None:
        call.out.line(f"Console of {found['websocket']}: {found['url']}")

    call.out.event(found, show, quiet=found["url"])
    if call.out.is_for_people:
        call.out.note(f'a server that keeps browsers out needs allowed_origins: ["{found["origin"]}"]')


def websocket_url(text: str) -> str:
    """Return the URL of a WebSocket port as a page connects to it. Raises: CommandError."""
    wrong = CommandError(f"--websocket: {text!r} is no ws://HOST:PORT or wss://HOST:PORT", ExitCode.WRONG_USE)
    try:
        url = urlsplit(text)
        is_right = url.scheme in _SCHEMES and bool(url.hostname) and url.port != 0
    except ValueError:
        raise wrong from None
    if not is_right or url.username is not None or url.query or url.fragment or not _is_plain(text):
        raise wrong
    return f"{url.scheme}://{url.netloc}{url.path or '/'}"


def _is_plain(text: str) -> bool:
    """True if nothing in a URL could end the value of a header, or be another source of a policy."""
    return text.isascii() and text.isprintable() and not any(char in text for char in " ;,'\"\\<>*")


def origin_of(url: str) -> str:
    """Return the scheme, host and port of a URL, as a policy names them."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _asked(call: Call) -> str:
    """Return the WebSocket port of the server that flags and context name, as it says.

    Raises: CommandError, ClientError.
    """
    from headrace.client.errors import NoRespondersError
    from headrace.client.system import ask_one

    with call.connected() as connection:
        host = connection.address.host
        subject = f"$SYS.REQ.SERVER.{connection.server_info.server_id}.VARZ"
        try:
            varz = ask_one(connection, subject, timeout=call.timeout)
        except NoRespondersError:
            text = (
                "only a user of the system account may ask where its WebSocket port is; say --websocket URL"
            )
            raise CommandError(text, ExitCode.NO_RESPONDERS) from None
    found = websocket_of(varz, host)
    if found is None:
        raise CommandError("the server has no WebSocket port", ExitCode.NOT_THERE)
    return found


def websocket_of(varz: Mapping[str, Any], host: str) -> str | None:
    """Return the URL of the WebSocket port that a server's VARZ tells of; None: it has none.

    `host`: where the server was reached. Raises: CommandError for a port that is none.
    """
    block = varz.get("websocket")
    if not isinstance(block, dict) or not block.get("port"):
        return None
    port, advertised = block["port"], str(block.get("advertise") or "")
    if advertised:
        host, _, given = advertised.rpartition(":") if ":" in advertised else (advertised, "", "")
        port = given or port
    elif ":" in host:
        host = f"[{host}]"
    return websocket_url(f"{'ws' if block.get('no_tls') else 'wss'}://{host}:{port}")
