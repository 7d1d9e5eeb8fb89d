"""The options of the console: the page for browsers that the WebSocket port serves.

Loaded where there is one. Never lives here: reading the block (`console`), the page itself
(`headrace.console`).
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.conf.keys import NOT_NEGATIVE, Keyed, clean_path, key

if TYPE_CHECKING:
    from headrace.conf.websocket_options import WebSocketOptions

PAGES: Final = (
    *("overview", "live", "alerts", "streams", "consumers", "keyvalue", "objects", "services", "streaming"),
    *("pipelines", "tables", "connections", "accounts", "map", "server"),
)
"""The pages that `hide` may name."""

FIRST_PORT: Final = 8280
LAST_PORT: Final = 8379
"""The ports that `--console` tries, one after the other, where no WebSocket port is configured."""

_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_PATHS_OF_OTHERS: Final = ("/leafnode", "/mqtt")


class ConsoleOptions(Keyed, frozen=True):
    """The console at one WebSocket port.

    `operator_secret`: the password of the system user that `--console` makes for one run of a server without
    users; "": there is none.
    """

    HIDDEN = frozenset({"operator_secret"})

    path: str = key("/console", "Path of the page", normal=clean_path)
    read_only: bool = key(
        False,
        "The page offers nothing that changes anything. A curtain: what a user may do, the permissions say",
    )
    hide: tuple[str, ...] = key(
        (), f"Pages that are not shown, of {', '.join(f'`{name}`' for name in PAGES)}"
    )
    system: bool = key(False, "The page asks for the operator's login at once, not where it is needed first")
    pipelines: str | None = key(None, "Subject where pipelines report: `--report` of `headrace pipeline run`")
    idle_lock: float = key(
        1800.0, "Time without use after which the page drops its connections; 0: never", between=NOT_NEGATIVE
    )
    hosts: tuple[str, ...] = key(
        (), "Names that browsers may know this port by, beside addresses, `localhost` and `advertise`"
    )
    insecure: bool = key(False, "Serve the page without TLS to other machines, too")
    operator_secret: str = key("", "Secret of `--console`", name=None)


def console_problem(websocket: WebSocketOptions) -> str | None:
    """Return why a WebSocket port cannot serve its console; None: it can, or has none."""
    console = websocket.console
    if console is None:
        return None
    if _PATH.fullmatch(console.path) is None or console.path.endswith(_PATHS_OF_OTHERS):
        return (
            "websocket: the path of console must be one of its own, of letters, digits and ._~-, "
            'such as "/console"'
        )
    if websocket.tls is None and not console.insecure and not is_loopback(websocket.host):
        return (
            'websocket: console without TLS needs a loopback address, such as host: "127.0.0.1" '
            "(console { insecure: true } serves it where others can listen)"
        )
    return None


def with_console(
    websocket: WebSocketOptions | None, beside: ConsoleOptions | None, operator_secret: str
) -> WebSocketOptions:
    """Return the options of a WebSocket port with a console, as `--console` asks for it.

    `websocket`: the port that is configured; None: one for this machine alone is made. `beside`: a console
    that is configured beside it. `operator_secret`: of this run.
    """
    from headrace.conf.websocket_options import WebSocketOptions

    if websocket is None:
        websocket = WebSocketOptions(
            host="127.0.0.1", port=FIRST_PORT, last_port=LAST_PORT, no_tls=True, same_origin=True
        )
    console = websocket.console or beside or ConsoleOptions()
    return replace(websocket, console=replace(console, operator_secret=operator_secret))


def is_loopback(host: str) -> bool:
    """True for an address of this machine alone, also as `localhost`."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
