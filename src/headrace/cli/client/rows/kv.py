"""The rows of `kv`: buckets of keys and their values."""

from __future__ import annotations

from typing import Final

from headrace.cli.client.rows.bucket_flags import (
    BUCKET,
    CHANGED,
    CHANGES,
    IF_EXISTS,
    IF_NOT_EXISTS,
    NAME_KEYS,
    NO_COMPRESSION,
    PLACE_KEYS,
    SETTINGS,
    STORAGE,
)
from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag

_KEY: Final = WordArgument("key", "the key")
_REVISION: Final = WordArgument("revision", "a revision of the key", ValueKind.NUMBER)
_VALUE: Final = WordArgument("value", "the value; - reads it from standard input", ValueKind.TEXT, "?")
_FILE: Final = WordFlag(("--file",), "read the value from a file", ValueKind.FILE)
_TTL: Final = WordFlag(
    ("--ttl",),
    "the key goes after this time (a bucket with --marker-ttl; with a history above 1 not before that)",
    ValueKind.DURATION,
)
_SETTINGS: Final = (
    WordFlag(("--history",), "revisions that are kept of a key, 1 to 64", ValueKind.NUMBER),
    WordFlag(("--ttl",), "values go after this time", ValueKind.DURATION),
    WordFlag(
        ("--marker-ttl",),
        "keys may have a time of their own; that one expired is remembered so long",
        ValueKind.DURATION,
    ),
    *SETTINGS,
    WordFlag(("--max-value-size",), "the most that one value has", ValueKind.SIZE),
)
_BUCKET_KEYS: Final = (
    *NAME_KEYS,
    JsonKey("values", "revisions that are kept, and notes of removed keys"),
    JsonKey("bytes", "their bytes"),
    JsonKey("history", "revisions that are kept of a key"),
    JsonKey("ttl_ns", "after this time values go"),
    JsonKey("marker_ttl_ns", "how long it is remembered that a key expired"),
    JsonKey("max_value_bytes", "the most that one value has"),
    *PLACE_KEYS,
    JsonKey("mirror", "the bucket that it copies"),
    JsonKey("sources", "buckets whose keys are copied into it"),
)
_ENTRY_KEYS: Final = (
    JsonKey("bucket", "the bucket"),
    JsonKey("key", "the key"),
    JsonKey("revision", "the revision"),
    JsonKey("operation", "`PUT`, `DEL` or `PURGE`"),
    JsonKey("time", "when it was stored"),
    JsonKey("size_bytes", "the bytes of the value"),
    JsonKey("data", "the value, where it is UTF-8"),
    JsonKey("data_base64", "the value in base64, where it is not UTF-8"),
)
_WRITTEN_KEYS: Final = (
    JsonKey("bucket", "the bucket"),
    JsonKey("key", "the key"),
    JsonKey("revision", "the new revision; absent with --dry-run"),
    CHANGED,
)
_CHANGE_KEYS: Final = (
    *_BUCKET_KEYS,
    CHANGED,
    CHANGES,
)

ROWS: Final = (
    CommandRow(
        words=("kv", "ls"),
        summary="List the buckets, or the keys of one",
        run="kv_buckets:list_all",
        arguments=(
            WordArgument("bucket", "the bucket (lists the buckets)", ValueKind.BUCKET, "?"),
            WordArgument("filter", "list only keys that match, such as colour.*", ValueKind.TEXT, "?"),
        ),
        flags=(
            WordFlag(("--values", "--display-value"), "show the values"),
            WordFlag(("--verbose", "-v"), "show revision, size and time of each key"),
            WordFlag(("--names", "-n"), "print only names", only_as_nats=True),
        ),
        lists=True,
        json=JsonForm.LISTING,
        keys=(*_BUCKET_KEYS, *_ENTRY_KEYS[1:]),
        aliases=("list",),
        examples=("kv ls", "kv ls settings 'colour.*' --values"),
    ),
    CommandRow(
        words=("kv", "add"),
        summary="Make a bucket",
        description="One that is there with the same settings is left as it is.",
        run="kv_buckets:add",
        changes=True,
        arguments=(BUCKET,),
        flags=(
            *_SETTINGS,
            STORAGE,
            WordFlag(("--mirror",), "a copy of this bucket, which takes no values itself", ValueKind.BUCKET),
            WordFlag(("--source",), "copy the keys of this bucket into it", ValueKind.BUCKET, repeated=True),
            IF_NOT_EXISTS,
        ),
        keys=_CHANGE_KEYS,
        aliases=("new",),
        examples=("kv add settings --history 5 --ttl 30d",),
    ),
    CommandRow(
        words=("kv", "edit"),
        summary="Change the settings of a bucket",
        description="Shows the difference. What is not named stays.",
        run="kv_buckets:edit",
        changes=True,
        arguments=(BUCKET,),
        flags=(*_SETTINGS, NO_COMPRESSION),
        keys=_CHANGE_KEYS,
        examples=("kv edit settings --history 10 --dry-run",),
    ),
    CommandRow(
        words=("kv", "info"),
        summary="Show a bucket",
        run="kv_buckets:info",
        arguments=(BUCKET,),
        keys=(*_BUCKET_KEYS, JsonKey("info", "the info of its stream, as the server says it")),
        aliases=("view", "status"),
        examples=("kv info settings",),
    ),
    CommandRow(
        words=("kv", "rm-bucket"),
        summary="Remove a bucket with all its keys",
        run="kv_buckets:remove",
        changes=True,
        asks=True,
        arguments=(BUCKET,),
        flags=(IF_EXISTS,),
        keys=(
            JsonKey("bucket", "the bucket"),
            JsonKey("values", "the values that went"),
            JsonKey("changed", "true if it was removed, or would be"),
        ),
        examples=("kv rm-bucket settings --force",),
    ),
    CommandRow(
        words=("kv", "get"),
        summary="Show the value of a key, or of all that match",
        description="In a pipe only the value is printed, with a line end. A key with * or > is a pattern: "
        "its answer is a listing.",
        run="kv_keys:get",
        arguments=(BUCKET, WordArgument("key", "the key, or a pattern with * or >")),
        flags=(
            WordFlag(("--revision",), "the value that it had at this revision", ValueKind.NUMBER),
            WordFlag(("--raw",), "print the bytes of the value and nothing else"),
        ),
        keys=_ENTRY_KEYS,
        examples=("kv get settings colour", "kv get settings 'colour.*' --json"),
    ),
    CommandRow(
        words=("kv", "put"),
        summary="Set the value of a key",
        run="kv_keys:put",
        changes=True,
        arguments=(BUCKET, _KEY, _VALUE),
        flags=(_FILE, _TTL),
        keys=_WRITTEN_KEYS,
        examples=("kv put settings colour red", "kv put settings logo --file logo.png"),
    ),
    CommandRow(
        words=("kv", "create"),
        summary="Set the value of a key that has none",
        description="Exit code 10 if it has one.",
        run="kv_keys:create",
        changes=True,
        arguments=(BUCKET, _KEY, _VALUE),
        flags=(_FILE, _TTL),
        keys=_WRITTEN_KEYS,
        examples=("kv create settings lock mine",),
    ),
    CommandRow(
        words=("kv", "update"),
        summary="Set the value of a key if its last revision is the one that is named",
        description="Exit code 10 if it is another one; both are named. Revision 0: the key has never been "
        "set.",
        run="kv_keys:update",
        changes=True,
        arguments=(
            BUCKET,
            _KEY,
            WordArgument("value", "the value; - reads it from standard input"),
            WordArgument("revision", "the revision that it is to have", ValueKind.NUMBER),
        ),
        flags=(_TTL,),
        keys=_WRITTEN_KEYS,
        examples=("kv update settings colour blue 7",),
    ),
    CommandRow(
        words=("kv", "del"),
        summary="Remove keys; their history stays",
        run="kv_keys:delete",
        changes=True,
        asks=True,
        arguments=(BUCKET, WordArgument("key", "the keys", ValueKind.TEXT, "*")),
        flags=(
            WordFlag(("--revision",), "only if this is the last revision, else exit 10", ValueKind.NUMBER),
            WordFlag(("--if-exists",), "a key that is not there is no error"),
        ),
        json=JsonForm.LISTING,
        keys=(_WRITTEN_KEYS[0], _WRITTEN_KEYS[1], _WRITTEN_KEYS[3]),
        aliases=("rm",),
        examples=("kv del settings colour --force",),
    ),
    CommandRow(
        words=("kv", "purge"),
        summary="Remove keys and their history",
        run="kv_keys:purge",
        changes=True,
        asks=True,
        arguments=(BUCKET, WordArgument("key", "the keys", ValueKind.TEXT, "+")),
        flags=(
            WordFlag(
                ("--ttl",),
                "the note that it was removed goes after this time (a bucket with --marker-ttl)",
                ValueKind.DURATION,
            ),
            WordFlag(("--revision",), "only if this is the last revision, else exit 10", ValueKind.NUMBER),
            WordFlag(("--if-exists",), "a key that is not there is no error"),
        ),
        json=JsonForm.LISTING,
        keys=(_WRITTEN_KEYS[0], _WRITTEN_KEYS[1], _WRITTEN_KEYS[3]),
        examples=("kv purge settings colour --force",),
    ),
    CommandRow(
        words=("kv", "history"),
        summary="List the revisions of a key that are kept",
        run="kv_keys:history",
        arguments=(BUCKET, _KEY),
        json=JsonForm.LISTING,
        keys=_ENTRY_KEYS,
        examples=("kv history settings colour",),
    ),
    CommandRow(
        words=("kv", "revert"),
        summary="Set a key to the value of an earlier revision",
        description="The value becomes a new revision.",
        run="kv_keys:revert",
        changes=True,
        arguments=(BUCKET, _KEY, _REVISION),
        flags=(WordFlag(("--force", "-f"), "taken for scripts of that tool", only_as_nats=True),),
        keys=_WRITTEN_KEYS,
        examples=("kv revert settings colour 5",),
    ),
    CommandRow(
        words=("kv", "watch"),
        summary="Show keys as they are, then as they change",
        description="Goes on until it is interrupted, through outages of the server, and misses nothing that "
        "the bucket keeps.",
        run="kv_keys:watch",
        arguments=(BUCKET, WordArgument("key", "the key, or a pattern (all)", ValueKind.TEXT, "?")),
        flags=(
            WordFlag(("--history",), "show all revisions that are kept first"),
            WordFlag(("--updates",), "show only changes"),
            WordFlag(("--no-deletes", "--ignore-deletes"), "do not show that keys were removed"),
            WordFlag(("--count",), "end after so many entries", ValueKind.NUMBER),
            WordFlag(("--idle",), "end after this time without an entry", ValueKind.DURATION),
        ),
        json=JsonForm.LINES,
        keys=(*_ENTRY_KEYS, JsonKey("pending", "how many entries follow")),
        examples=("kv watch settings 'colour.*' --json",),
    ),
    CommandRow(
        words=("kv", "compact"),
        summary="Remove the notes that keys were removed",
        description="Younger notes stay, so that whoever watches learns of them; the history of their keys "
        "goes.",
        run="kv_keys:compact",
        changes=True,
        asks=True,
        arguments=(BUCKET,),
        flags=(
            WordFlag(("--older",), "those that are older than this", ValueKind.DURATION, metavar="DURATION"),
        ),
        keys=(
            JsonKey("bucket", "the bucket"),
            JsonKey("removed", "keys of which nothing is left"),
            JsonKey("changed", "true if something was removed, or would be"),
        ),
        examples=("kv compact settings --older 30m --force",),
    ),
    CommandRow(
        words=("kv", "export"),
        summary="Write the keys and their values into a file or a directory",
        description="A name that ends with .jsonl is a file with a JSON object a line; - is standard output; "
        "else it is a new or empty directory, with a file for each key (/ in a key is %2F in its name). A "
        "file that is there is replaced after asking.",
        run="kv_files:export",
        arguments=(
            BUCKET,
            WordArgument("target", "DIR, FILE.jsonl or -", ValueKind.FILE),
            WordArgument("filter", "only keys that match", ValueKind.TEXT, "?"),
        ),
        asks=True,
        keys=(
            JsonKey("bucket", "the bucket"),
            JsonKey("target", "what was written; with - the answer is the keys only"),
            JsonKey("keys", "how many keys"),
            JsonKey("size_bytes", "the bytes of their values"),
        ),
        examples=("kv export settings settings.jsonl",),
    ),
    CommandRow(
        words=("kv", "import"),
        summary="Set the keys that an export has",
        description="All lines are checked before the first key is set, unless they come from standard "
        "input.",
        run="kv_files:take_in",
        changes=True,
        arguments=(BUCKET, WordArgument("source", "DIR, FILE.jsonl or -", ValueKind.FILE)),
        flags=(WordFlag(("--skip-existing",), "leave keys that have a value"),),
        keys=(
            JsonKey("bucket", "the bucket"),
            JsonKey("written", "keys that were set, or would be"),
            JsonKey("skipped", "keys that have a value already"),
            JsonKey("changed", "true if keys were set, or would be"),
        ),
        examples=("kv import settings settings.jsonl --skip-existing",),
    ),
)
