"""The flags of commands that read monitoring, in the place of asking by the system account.

Only data lives here. Never lives here: how documents are read (`server_documents`).
"""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import ValueKind, WordFlag

MONITOR_FLAGS: Final = (
    WordFlag(
        ("--monitor",),
        "ask the monitoring port at this address, in the place of the system account",
        ValueKind.TEXT,
        repeated=True,
        metavar="URL",
    ),
    WordFlag(("--monitor-user",), "user of the monitoring port", ValueKind.TEXT, metavar="USER"),
    WordFlag(("--monitor-password-file",), "file with its password", ValueKind.FILE),
    WordFlag(("--monitor-token-file",), "file with a token for the monitoring port", ValueKind.FILE),
)
