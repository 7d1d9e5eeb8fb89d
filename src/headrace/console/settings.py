"""`console.json`: what the page is told of the server that serves it. Nothing in it is a secret.

Never lives here: the options themselves (`headrace.conf.console_options`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.version import __version__

if TYPE_CHECKING:
    from headrace.conf.console_options import ConsoleOptions

SETTINGS: Final = "console.json"
"""The path of the document, below the page's."""


def settings(options: ConsoleOptions, *, socket: str | None = None, server_name: str | None = None) -> bytes:
    """Return the document.

    `socket`: the URL of the WebSocket that the page connects to; None: the page's own origin, at `/`.
    `server_name`: of the server that serves the page; None: it is another program.
    """
    document = {
        "version": __version__,
        "server_name": server_name,
        "path": options.path,
        "socket": socket,
        "read_only": options.read_only,
        "hide": list(options.hide),
        "system": options.system,
        "pipelines": options.pipelines,
        "idle_lock": options.idle_lock,
    }
    return json.dumps(document).encode()
