"""The rows of `account`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonKey

ROWS: Final = (
    CommandRow(
        words=("account", "info"),
        summary="Show the user's account, its permissions and limits",
        run="account:info",
        keys=(
            JsonKey("server", "the address that was connected to"),
            JsonKey("server_name", "the name of the server"),
            JsonKey("version", "the version of the server"),
            JsonKey("user", "the user and the account, as `$SYS.REQ.USER.INFO` says them"),
            JsonKey("jetstream", "what the account uses and may use, as JetStream's `INFO` says it"),
        ),
        examples=("account info", "account info --json"),
    ),
)
