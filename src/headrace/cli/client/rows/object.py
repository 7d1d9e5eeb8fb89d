"""The rows of `object`: buckets of objects, which are files and the like."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag

_BUCKET: Final = WordArgument("bucket", "the bucket", ValueKind.BUCKET)
_OBJECT: Final = WordArgument("object", "the name of the object")
_SETTINGS: Final = (
    WordFlag(("--ttl",), "objects go after this time", ValueKind.DURATION),
    WordFlag(("--max-bytes", "--max-bucket-size"), "the most that the bucket holds", ValueKind.SIZE),
    WordFlag(("--replicas",), "servers of a cluster that hold it", ValueKind.NUMBER),
    WordFlag(("--compression", "--compress"), "compress it on disk"),
    WordFlag(("--description",), "a text for people", ValueKind.TEXT),
    WordFlag(("--metadata",), "a name and a value to note", ValueKind.PAIR, repeated=True),
    WordFlag(("--cluster",), "the cluster to place it in", ValueKind.TEXT),
    WordFlag(("--tag", "--tags"), "place it at servers with this tag", ValueKind.TEXT, repeated=True),
)
_BUCKET_KEYS: Final = (
    JsonKey("bucket", "the bucket"),
    JsonKey("description", "its text for people"),
    JsonKey("stream", "the stream that holds it"),
    JsonKey("created", "when it was made"),
    JsonKey("bytes", "the bytes of its objects, and of what is known of them"),
    JsonKey("sealed", "true if it never changes again"),
    JsonKey("ttl_ns", "after this time objects go"),
    JsonKey("max_bytes", "the most that it holds"),
    JsonKey("storage", "`file` or `memory`"),
    JsonKey("replicas", "servers that hold it"),
    JsonKey("compressed", "true if it is compressed on disk"),
    JsonKey("metadata", "names and values that were noted"),
)
_OBJECT_KEYS: Final = (
    JsonKey("bucket", "the bucket"),
    JsonKey("name", "the name"),
    JsonKey("description", "its text for people"),
    JsonKey("time", "when it was stored"),
    JsonKey("size_bytes", "its bytes"),
    JsonKey("chunks", "messages that hold it"),
    JsonKey("digest", "the digest of its bytes, such as `SHA-256=…` in base64"),
    JsonKey("headers", "headers that were noted with it: to each name its values"),
    JsonKey("metadata", "names and values that were noted with it"),
    JsonKey("link", "of a link: the `bucket` and the object's `name` that it leads to"),
    JsonKey("deleted", "true if it was removed"),
)
_CHANGED: Final = JsonKey("changed", "true if something was changed, or would be")
_CHANGE_KEYS: Final = (
    *_BUCKET_KEYS,
    _CHANGED,
    JsonKey("changes", "to each field of the stream's configuration the values `before` and `after`"),
)
_IF_EXISTS: Final = WordFlag(("--if-exists",), "one that is not there is no error")

ROWS: Final = (
    CommandRow(
        words=("object", "ls"),
        summary="List the buckets, or the objects of one",
        run="object_buckets:list_all",
        arguments=(WordArgument("bucket", "the bucket (lists the buckets)", ValueKind.BUCKET, "?"),),
        flags=(WordFlag(("--names", "-n"), "print only names", only_as_nats=True),),
        lists=True,
        json=JsonForm.LISTING,
        keys=(*_BUCKET_KEYS, *_OBJECT_KEYS[1:]),
        aliases=("list",),
        examples=("object ls", "object ls files --json"),
    ),
    CommandRow(
        words=("object", "add"),
        summary="Make a bucket",
        description="One that is there with the same settings is left as it is.",
        run="object_buckets:add",
        changes=True,
        arguments=(_BUCKET,),
        flags=(
            *_SETTINGS,
            WordFlag(
                ("--storage",), "where it is kept", ValueKind.TEXT, default="file", choices=("file", "memory")
            ),
            WordFlag(("--if-not-exists",), "one that is there with other settings is no error"),
        ),
        keys=_CHANGE_KEYS,
        aliases=("new",),
        examples=("object add files --max-bytes 10GB",),
    ),
    CommandRow(
        words=("object", "edit"),
        summary="Change the settings of a bucket",
        description="Shows the difference. What is not named stays.",
        run="object_buckets:edit",
        changes=True,
        arguments=(_BUCKET,),
        flags=(*_SETTINGS, WordFlag(("--no-compression",), "compress it no longer")),
        keys=_CHANGE_KEYS,
        examples=("object edit files --max-bytes 20GB --dry-run",),
    ),
    CommandRow(
        words=("object", "info"),
        summary="Show a bucket, or an object",
        run="object_buckets:info",
        arguments=(_BUCKET, WordArgument("object", "the object (shows the bucket)", ValueKind.TEXT, "?")),
        keys=(
            *_BUCKET_KEYS,
            *_OBJECT_KEYS[1:],
            JsonKey("info", "of a bucket: its stream, as the server says it"),
        ),
        aliases=("show", "view", "status"),
        examples=("object info files", "object info files report.pdf"),
    ),
    CommandRow(
        words=("object", "rm-bucket"),
        summary="Remove a bucket with all its objects",
        run="object_buckets:remove",
        changes=True,
        asks=True,
        arguments=(_BUCKET,),
        flags=(_IF_EXISTS,),
        keys=(
            JsonKey("bucket", "the bucket"),
            JsonKey("messages", "the messages that went: chunks, and what is known of objects"),
            JsonKey("changed", "true if it was removed, or would be"),
        ),
        examples=("object rm-bucket files --force",),
    ),
    CommandRow(
        words=("object", "seal"),
        summary="Have a bucket never change again",
        run="object_buckets:seal",
        changes=True,
        asks=True,
        arguments=(_BUCKET,),
        keys=(JsonKey("bucket", "the bucket"), _CHANGED),
        examples=("object seal files --force",),
    ),
    CommandRow(
        words=("object", "put"),
        summary="Store a file",
        description="An object of that name is replaced, after asking, when all of the new one is stored.",
        run="objects:put",
        changes=True,
        asks=True,
        arguments=(_BUCKET, WordArgument("file", "the file; - reads standard input", ValueKind.FILE)),
        flags=(
            WordFlag(("--name",), "the name of the object (that of the file)", ValueKind.TEXT),
            WordFlag(("--description",), "a text for people", ValueKind.TEXT),
            WordFlag(("--header", "-H"), "a header to note with it", ValueKind.HEADER, repeated=True),
            WordFlag(("--metadata",), "a name and a value to note with it", ValueKind.PAIR, repeated=True),
            WordFlag(("--chunk-size",), "the bytes of one message", ValueKind.SIZE, default=128 << 10),
        ),
        keys=(*_OBJECT_KEYS, _CHANGED),
        examples=("object put files report.pdf", "object put files - --name dump.sql"),
    ),
    CommandRow(
        words=("object", "get"),
        summary="Read an object into a file",
        description="The file has the last part of the object's name unless --output says another one. It "
        "gets its name when the digest is found right; a file that is there is replaced after asking.",
        run="objects:get",
        asks=True,
        arguments=(_BUCKET, _OBJECT),
        flags=(WordFlag(("--output", "-o", "-O"), "the file; - writes to standard output", ValueKind.FILE),),
        keys=(*_OBJECT_KEYS, JsonKey("file", "the file that was written; - prints the object only")),
        examples=("object get files report.pdf", "object get files dump.sql -o -"),
    ),
    CommandRow(
        words=("object", "del"),
        summary="Remove objects",
        run="objects:delete",
        changes=True,
        asks=True,
        arguments=(_BUCKET, WordArgument("object", "the names of the objects", ValueKind.TEXT, "*")),
        flags=(_IF_EXISTS,),
        json=JsonForm.LISTING,
        keys=(_OBJECT_KEYS[0], _OBJECT_KEYS[1], _CHANGED),
        aliases=("rm",),
        examples=("object del files report.pdf --force",),
    ),
    CommandRow(
        words=("object", "watch"),
        summary="Show the objects, then those that are stored or removed",
        description="Goes on until it is interrupted, through outages of the server.",
        run="objects:watch",
        arguments=(_BUCKET,),
        flags=(
            WordFlag(("--updates",), "show only changes"),
            WordFlag(("--no-deletes",), "do not show that objects were removed"),
            WordFlag(("--count",), "end after so many", ValueKind.NUMBER),
            WordFlag(("--idle",), "end after this time without one", ValueKind.DURATION),
        ),
        json=JsonForm.LINES,
        keys=_OBJECT_KEYS,
        examples=("object watch files --json",),
    ),
    CommandRow(
        words=("object", "verify"),
        summary="Read objects and check their digests",
        description="Exit code 3 if one is not what was written.",
        run="objects:verify",
        arguments=(_BUCKET, WordArgument("object", "the object (all)", ValueKind.TEXT, "?")),
        json=JsonForm.LISTING,
        keys=(
            JsonKey("bucket", "the bucket"),
            JsonKey("name", "the name"),
            JsonKey("size_bytes", "its bytes"),
            JsonKey("valid", "true if it is what was written"),
            JsonKey("error", "what is wrong with it"),
        ),
        examples=("object verify files",),
    ),
)
