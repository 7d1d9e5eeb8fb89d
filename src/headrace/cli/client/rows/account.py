"""The rows of `account`."""

from __future__ import annotations

from typing import Final

from headrace.cli.client.rows.server_flags import SCOPE_KEYS, sort_flag
from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag
from headrace.cli.json_keys import BACKUP_KEYS

_REPORTED: Final = (
    sort_flag("in-msgs", "out-msgs", "in-bytes", "out-bytes", "subs", "server", default="in-msgs"),
    WordFlag(("--limit", "--top", "-n"), "show so many", ValueKind.NUMBER),
    WordFlag(("--filter",), "show lines with this text", ValueKind.TEXT),
    WordFlag(("--expect",), "wait for so many servers, then no longer", ValueKind.NUMBER),
)

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
    CommandRow(
        words=("account", "backup"),
        summary="Write all streams to a directory, each to one of its own",
        description="Backups that are there are kept, so after an interruption the same command goes on; "
        "--force makes them anew. An error about one stream is listed, and the others go on.",
        run="stream_backup:backup_account",
        arguments=(WordArgument("dir", "the directory", ValueKind.DIRECTORY),),
        flags=(
            WordFlag(("--streams",), "only those whose name fits, such as 'ORDERS*'", ValueKind.TEXT,
                     metavar="GLOB"),
            WordFlag(("--no-consumers",), "without their consumers"),
            WordFlag(("--check",), "have the server read every message first"),
            WordFlag(("--no-verify",), "do not read them again afterwards"),
            WordFlag(("--force", "-f"), "write over backups that are there"),
            WordFlag(("--consumers",), "with their consumers, as always", only_as_nats=True),
        ),
        json=JsonForm.LISTING,
        keys=BACKUP_KEYS,
        examples=("account backup backups", "account backup backups --streams 'KV_*' --force"),
    ),
    CommandRow(
        words=("account", "restore"),
        summary="Make streams of all backups in a directory",
        description="A stream that is there as in its backup is kept, so after an interruption the same "
        "command goes on. An error about one stream is listed, and the others go on.",
        run="stream_backup:restore_account",
        arguments=(WordArgument("dir", "the directory of the backups", ValueKind.DIRECTORY),),
        flags=(
            WordFlag(("--only",), "only those whose name fits, such as 'ORDERS*'", ValueKind.TEXT,
                     metavar="GLOB"),
            WordFlag(("--replicas",), "servers that have them", ValueKind.NUMBER),
        ),
        changes=True,
        json=JsonForm.LISTING,
        keys=BACKUP_KEYS,
        examples=("account restore backups --only 'KV_*' --dry-run",),
    ),
    CommandRow(
        words=("account", "report", "connections"),
        summary="Show the account's connections",
        run="account_report:connections",
        aliases=("conn", "connz", "conns"),
        flags=_REPORTED,
        lists=True,
        json=JsonForm.LISTING,
        keys=SCOPE_KEYS,
        says="`connections` of `CONNZ`",
        examples=("account report connections", "account report connections --sort subs --top 5"),
    ),
    CommandRow(
        words=("account", "report", "statistics"),
        summary="Show what the account did on each server",
        run="account_report:statistics",
        aliases=("statz", "stats"),
        flags=_REPORTED,
        lists=True,
        json=JsonForm.LISTING,
        keys=SCOPE_KEYS,
        says="`account_statz` of `STATZ`",
        examples=("account report statistics",),
    ),
)  # fmt: skip
