"""The row of `console`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordFlag

ROWS: Final = (
    CommandRow(
        words=("console",),
        summary="Serve the console for a server elsewhere",
        description="Serves the page for browsers on this machine, for any NATS server with a WebSocket "
        "port; the browser connects to that itself, and asks who you are. A user of the system account need "
        "not say where the port is. Servers that keep browsers to certain pages must list this one under "
        "allowed_origins: the command prints its origin. Ends with ctrl-c.",
        run="console:serve",
        flags=(
            WordFlag(
                ("--websocket",),
                "the WebSocket port of the server, ws://HOST:PORT or wss://HOST:PORT",
                ValueKind.TEXT,
                metavar="URL",
            ),
            WordFlag(
                ("--port",),
                "serve the page at this port of 127.0.0.1 (first free from 8280)",
                ValueKind.NUMBER,
            ),
            WordFlag(("--open",), "open the page in the browser of this desktop"),
            WordFlag(("--read-only",), "the page offers nothing that changes anything"),
            WordFlag(("--hide",), "do not show this page", ValueKind.TEXT, repeated=True, metavar="PAGE"),
            WordFlag(("--pipelines",), "subject where pipelines report", ValueKind.SUBJECT),
        ),
        json=JsonForm.LINES,
        keys=(
            JsonKey("url", "the page, once it is served"),
            JsonKey("origin", "the origin of the page, for `allowed_origins` of the server"),
            JsonKey("websocket", "the WebSocket port that the page connects to"),
        ),
        examples=(
            "console --websocket wss://nats.example.com:8443",
            "console --context staging --open",
        ),
    ),
)
