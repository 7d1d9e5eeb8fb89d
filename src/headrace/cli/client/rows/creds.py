"""The rows of `creds`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonKey, ValueKind, WordArgument, WordFlag

_FILE: Final = WordArgument("file", "the credentials file; - for standard input", ValueKind.FILE)
_WRITTEN: Final = JsonKey("file", "the file")
_WHO: Final = (
    JsonKey("name", "the name of the user"),
    JsonKey("user", "the public key of the user"),
    JsonKey("account", "the public key of its account"),
    JsonKey("issuer", "the public key that signed the token"),
    JsonKey("issued", "the time at which it was signed"),
    JsonKey("not_before", "the time from which on it is good; absent without one"),
    JsonKey("expires", "the time until which it is good; absent if it never expires"),
)
_CLAIMS: Final = JsonKey("claims", "the claims of the token, as they stand in it")
_TEXT: Final = ValueKind.TEXT

ROWS: Final = (
    CommandRow(
        words=("creds", "make"),
        summary="Put a user's token and seed into a credentials file",
        description="The file is its owner's only. Exit code 10 if there is one already, 2 if token and seed "
        "are not of the same user.",
        run="creds:make",
        connects=False,
        flags=(
            WordFlag(("--jwt",), "file with the token", ValueKind.FILE),
            WordFlag(("--seed",), "file with the seed", ValueKind.FILE),
            WordFlag(("--output", "-o"), "the credentials file", ValueKind.FILE),
        ),
        keys=(_WRITTEN, *_WHO),
        examples=("creds make --jwt alice.jwt --seed alice.nk --output alice.creds",),
    ),
    CommandRow(
        words=("creds", "show"),
        summary="Show the claims and dates of a credentials file, never its seed",
        run="creds:show",
        connects=False,
        arguments=(_FILE,),
        keys=(_WRITTEN, *_WHO, JsonKey("seed", "always `[set]`"), _CLAIMS),
        examples=("creds show alice.creds", "creds show alice.creds --format '{expires}'"),
    ),
    CommandRow(
        words=("creds", "check"),
        summary="Check a credentials file: signature, seed, dates, permissions",
        description="Exit code 3 if no server would take it. Whether its account is known only a server can "
        "say: context validate --connect.",
        run="creds:check",
        connects=False,
        arguments=(_FILE,),
        flags=(WordFlag(("--valid-for",), "it has to be good for so long still", ValueKind.DURATION),),
        keys=(
            _WRITTEN,
            JsonKey("valid", "true if nothing is wrong"),
            JsonKey("problems", "what is wrong, a sentence each"),
            *_WHO,
        ),
        examples=("creds check alice.creds --valid-for 30d",),
    ),
    CommandRow(
        words=("creds", "user", "make"),
        summary="Sign a user with an account's seed, and write its credentials file",
        description="No server takes part. Without permissions the user may do everything in its account. "
        "Exit code 10 if there is a file already.",
        run="creds_user:make",
        connects=False,
        arguments=(WordArgument("name", "the name of the user"),),
        flags=(
            WordFlag(
                ("--account-seed",),
                "file with the seed of the account, or of its signing key",
                ValueKind.FILE,
            ),
            WordFlag(
                ("--account",), "public key of the account, where a signing key signs", _TEXT, metavar="KEY"
            ),
            WordFlag(("--scoped",), "the signing key has a scope, which decides about permissions"),
            WordFlag(
                ("--user-seed",), "file with the seed of the user, instead of a fresh one", ValueKind.FILE
            ),
            WordFlag(("--output", "-o"), "the credentials file (NAME.creds)", ValueKind.FILE),
            WordFlag(("--expires",), "when it ends: a time, or a duration from now", ValueKind.UNTIL),
            WordFlag(("--not-before",), "when it begins", ValueKind.TIME),
            WordFlag(("--allow-pub",), "may publish to it", ValueKind.SUBJECT, repeated=True),
            WordFlag(("--deny-pub",), "may not publish to it", ValueKind.SUBJECT, repeated=True),
            WordFlag(("--allow-sub",), "may subscribe to it, or to 'SUBJECT QUEUE'", _TEXT, repeated=True),
            WordFlag(("--deny-sub",), "may not subscribe to it", _TEXT, repeated=True),
            WordFlag(("--allow-responses",), "may answer requests, so often each", ValueKind.NUMBER),
            WordFlag(("--response-ttl",), "may answer for so long", ValueKind.DURATION),
            WordFlag(("--subscriptions",), "most subscriptions", ValueKind.NUMBER),
            WordFlag(("--max-payload",), "most bytes of a message", ValueKind.SIZE),
            WordFlag(
                ("--source",), "network from which it may connect", _TEXT, repeated=True, metavar="CIDR"
            ),
            WordFlag(
                ("--connection-type",),
                "kind of connection that it may make",
                _TEXT,
                repeated=True,
                choices=("STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"),
            ),
            WordFlag(("--bearer",), "the token alone proves who it is, without the seed"),
            WordFlag(("--tag",), "tag of the token", _TEXT, repeated=True),
        ),
        keys=(_WRITTEN, *_WHO, _CLAIMS),
        examples=(
            "creds user make alice --account-seed account.nk --expires 90d --allow-pub 'orders.>'",
            "creds user make reader --account-seed account.nk --allow-sub 'orders.>' --deny-pub 'orders.>'",
        ),
    ),
)
