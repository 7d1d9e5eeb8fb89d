"""Flags and keys that buckets of keys and of objects have in common."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import JsonKey, ValueKind, WordArgument, WordFlag

BUCKET: Final = WordArgument("bucket", "the bucket", ValueKind.BUCKET)
SETTINGS: Final = (
    WordFlag(("--max-bytes", "--max-bucket-size"), "the most that the bucket holds", ValueKind.SIZE),
    WordFlag(("--replicas",), "servers of a cluster that hold it", ValueKind.NUMBER),
    WordFlag(("--compression", "--compress"), "compress it on disk"),
    WordFlag(("--description",), "a text for people", ValueKind.TEXT),
    WordFlag(("--metadata",), "a name and a value to note", ValueKind.PAIR, repeated=True),
    WordFlag(("--cluster",), "the cluster to place it in", ValueKind.TEXT),
    WordFlag(("--tag", "--tags"), "place it at servers with this tag", ValueKind.TEXT, repeated=True),
)
STORAGE: Final = WordFlag(
    ("--storage",), "where it is kept", ValueKind.TEXT, default="file", choices=("file", "memory")
)
NO_COMPRESSION: Final = WordFlag(("--no-compression",), "compress it no longer")
IF_NOT_EXISTS: Final = WordFlag(("--if-not-exists",), "one that is there with other settings is no error")
IF_EXISTS: Final = WordFlag(("--if-exists",), "one that is not there is no error")

NAME_KEYS: Final = (
    JsonKey("bucket", "the bucket"),
    JsonKey("description", "its text for people"),
    JsonKey("stream", "the stream that holds it"),
    JsonKey("created", "when it was made"),
)
PLACE_KEYS: Final = (
    JsonKey("max_bytes", "the most that it holds"),
    JsonKey("storage", "`file` or `memory`"),
    JsonKey("replicas", "servers that hold it"),
    JsonKey("compressed", "true if it is compressed on disk"),
    JsonKey("metadata", "names and values that were noted"),
)
CHANGED: Final = JsonKey("changed", "true if something was changed, or would be")
CHANGES: Final = JsonKey(
    "changes", "to each field of the stream's configuration the values `before` and `after`"
)
