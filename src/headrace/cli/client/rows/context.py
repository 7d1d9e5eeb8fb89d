"""The rows of `context`: saved connections, those of the tool `nats`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag

_NAME: Final = WordArgument("name", "the name of the context", ValueKind.CONTEXT)
_FLAGS: Final = (
    WordFlag(("--server", "-s"), "the server, or several with commas", ValueKind.TEXT, metavar="URL"),
    WordFlag(("--user",), "user name", ValueKind.TEXT),
    WordFlag(("--password",), "its password", ValueKind.TEXT),
    WordFlag(("--token",), "authorization token", ValueKind.TEXT),
    WordFlag(("--creds",), "credentials file", ValueKind.FILE),
    WordFlag(("--nkey",), "file with the seed of a user's nkey", ValueKind.FILE),
    WordFlag(("--jwt",), "user JWT", ValueKind.TEXT),
    WordFlag(("--seed",), "seed of the user of --jwt", ValueKind.TEXT),
    WordFlag(("--tls-ca", "--tlsca"), "certificates of the authorities to trust", ValueKind.FILE),
    WordFlag(("--tls-cert", "--tlscert"), "certificate to show the server", ValueKind.FILE),
    WordFlag(("--tls-key", "--tlskey"), "its private key", ValueKind.FILE),
    WordFlag(("--tls-first", "--tlsfirst"), "shake hands over TLS before the server says anything"),
    WordFlag(("--js-domain",), "domain of JetStream", ValueKind.TEXT, metavar="DOMAIN"),
    WordFlag(("--js-api-prefix",), "beginning of JetStream's API subjects", ValueKind.TEXT, metavar="PREFIX"),
    WordFlag(("--inbox-prefix",), "beginning of reply subjects", ValueKind.TEXT, metavar="PREFIX"),
    WordFlag(("--description",), "a text for people", ValueKind.TEXT),
    WordFlag(("--select",), "select it, too"),
)
_KEYS: Final = (
    JsonKey("name", "the name"),
    JsonKey("selected", "true for the one that is used when nothing else is said"),
    JsonKey("path", "its file"),
    JsonKey("fields", "the fields of its file; a secret is `[set]`"),
)

ROWS: Final = (
    CommandRow(
        words=("context", "ls"),
        summary="List the contexts",
        run="context:list_all",
        connects=False,
        lists=True,
        json=JsonForm.LISTING,
        keys=_KEYS,
        aliases=("list",),
        examples=("context ls",),
    ),
    CommandRow(
        words=("context", "add"),
        summary="Save a context",
        run="context:add",
        connects=False,
        arguments=(_NAME,),
        flags=_FLAGS,
        keys=_KEYS,
        aliases=("create",),
        examples=("context add staging -s nats://staging:4222 --creds ~/staging.creds --select",),
    ),
    CommandRow(
        words=("context", "save"),
        summary="Save a context, over one that is there",
        run="context:save",
        connects=False,
        arguments=(_NAME,),
        flags=_FLAGS,
        keys=_KEYS,
        only_as_nats=True,
    ),
    CommandRow(
        words=("context", "edit"),
        summary="Change fields of a context",
        description="An empty value removes a field. Fields of other programs stay.",
        run="context:edit",
        connects=False,
        arguments=(_NAME,),
        flags=_FLAGS,
        keys=_KEYS,
    ),
    CommandRow(
        words=("context", "copy"),
        summary="Copy a context",
        run="context:copy",
        connects=False,
        arguments=(_NAME, WordArgument("target", "the name of the copy", ValueKind.CONTEXT)),
        keys=_KEYS,
        aliases=("cp",),
    ),
    CommandRow(
        words=("context", "rm"),
        summary="Remove a context",
        run="context:remove",
        connects=False,
        asks=True,
        arguments=(_NAME,),
        flags=(WordFlag(("--if-exists",), "one that is not there is no error"),),
        json=JsonForm.NOTHING,
    ),
    CommandRow(
        words=("context", "select"),
        summary="Use a context where nothing else is said",
        run="context:select",
        connects=False,
        arguments=(_NAME,),
        keys=_KEYS,
    ),
    CommandRow(
        words=("context", "unselect"),
        summary="Use no context where nothing else is said",
        run="context:unselect",
        connects=False,
        json=JsonForm.NOTHING,
    ),
    CommandRow(
        words=("context", "previous"),
        summary="Select the context that was selected before",
        run="context:previous",
        connects=False,
        keys=_KEYS,
    ),
    CommandRow(
        words=("context", "info"),
        summary="Show a context, without its secrets",
        run="context:info",
        connects=False,
        arguments=(WordArgument("name", "the name (the selected one)", ValueKind.CONTEXT, "?"),),
        keys=_KEYS,
        aliases=("show",),
    ),
    CommandRow(
        words=("context", "validate"),
        summary="Check a context, or all",
        description="Reads every file that it names; with --connect it connects, too. Exit code 3 if one is "
        "wrong.",
        run="context:validate",
        connects=False,
        arguments=(WordArgument("name", "the name (all)", ValueKind.CONTEXT, "?"),),
        flags=(WordFlag(("--connect",), "connect with it"),),
        json=JsonForm.LISTING,
        keys=(
            JsonKey("name", "the name"),
            JsonKey("valid", "true if it can be used"),
            JsonKey("error", "what is wrong with it"),
            JsonKey("server", "the server that was connected to"),
            JsonKey("user", "who one is there, as `$SYS.REQ.USER.INFO` says it"),
        ),
    ),
)
