"""Flags that commands about servers share: where answers come from, of which servers, how they are listed."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import JsonKey, ValueKind, WordFlag

_TEXT: Final = ValueKind.TEXT

MONITOR_FLAGS: Final = (
    WordFlag(
        ("--monitor",),
        "read the server's monitoring port, such as http://127.0.0.1:8222; needs no user",
        _TEXT,
        repeated=True,
        metavar="URL",
    ),
    WordFlag(("--monitor-user",), "user of the monitoring port", _TEXT),
    WordFlag(("--monitor-password-file",), "file with its password", ValueKind.FILE),
    WordFlag(("--monitor-token-file",), "file with a token for the monitoring port", ValueKind.FILE),
)

AMONG_FLAGS: Final = (
    WordFlag(("--name",), "only servers with this in their names", _TEXT),
    WordFlag(("--host",), "only servers with this in their host", _TEXT),
    WordFlag(("--cluster",), "only servers with this in the name of their cluster", _TEXT),
    WordFlag(("--tags",), "only servers with this tag", _TEXT, repeated=True, metavar="TAG"),
    WordFlag(("--expect",), "wait for so many servers, then no longer", ValueKind.NUMBER),
)

TABLE_FLAGS: Final = (
    WordFlag(("--limit", "--top", "-n"), "show so many", ValueKind.NUMBER),
    WordFlag(("--filter",), "show lines with this text", _TEXT),
    WordFlag(("--watch", "-w"), "again and again, with this pause", ValueKind.DURATION, optional="2s"),
)

ACCOUNT_FLAG: Final = WordFlag(("--account",), "only this account", _TEXT, nats_names=("--filter-account",))

SCOPE_KEYS: Final = (
    JsonKey("items[].server", "the name of the server"),
    JsonKey("items[].cluster", "the name of its cluster; absent without one"),
    JsonKey("scope", "`system`, `monitor`, or `account` where only the user's account is shown"),
    JsonKey("time", "the time of the question"),
)


def sort_flag(*names: str, default: str) -> WordFlag:
    """The flag by which lines are ordered."""
    return WordFlag(
        ("--sort",), f"order: {', '.join(names)}", _TEXT, default=default, choices=names, metavar="KEY"
    )
