"""`headrace kv export` and `import`: keys and their values as files.

A file has a JSON object a line, with `key` and `data` or `data_base64`; a directory has a file for each key.
"""

from __future__ import annotations

import json
import os
import sys
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import quote, unquote

from headrace.cli.client.kv_keys import opened
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call
    from headrace.client.keyvalue import KeyValueBucket, KeyValueEntry

_LINES: Final = ".jsonl"
_MODE: Final = 0o600
"""Values may be secrets."""
_KEPT: Final = "=_-."
"""Characters of keys, beside letters and digits, that stand in names of files as they are."""


def export(call: Call) -> None:
    """Write keys and values. Raises: CommandError if the target is there; ClientError."""
    options = call.options
    with opened(call) as bucket:
        entries = bucket.entries((options.filter or ">",))
        if options.target == "-":
            for entry in entries:
                _write_line(sys.stdout.buffer, entry)
            sys.stdout.buffer.flush()
            return
        path = Path(options.target)
        is_file = path.name.endswith(_LINES)
        _check_target(call, path, is_file=is_file)
        total = int(bucket.info["state"]["messages"])
        with call.progress(f"exporting {options.bucket}", "keys") as bars:
            write = _export_lines if is_file else _export_files
            count = size = 0
            for entry in write(path, entries):
                count += 1
                size += len(entry.value)
                bars.show(count, max(total, count))
    found = {"bucket": options.bucket, "target": str(path), "keys": count, "size_bytes": size}
    text = f"{options.bucket}: {count:,} keys written to {path}"
    call.out.document(found, lambda: call.out.line(text), quiet=str(count))


def _check_target(call: Call, path: Path, *, is_file: bool) -> None:
    if not path.exists():
        return
    if is_file:
        call.confirm(f"{path} is there already and is replaced")
    elif not path.is_dir() or any(path.iterdir()):
        raise CommandError(f"{path} is there already, and no empty directory", ExitCode.EXISTS)


def _export_lines(path: Path, entries: Iterator[KeyValueEntry]) -> Iterator[KeyValueEntry]:
    """Write a line for each entry, and yield the entry; the file gets its name when it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE), "wb") as file:
            for entry in entries:
                _write_line(file, entry)
                yield entry
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _export_files(path: Path, entries: Iterator[KeyValueEntry]) -> Iterator[KeyValueEntry]:
    path.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        place = path / quote(entry.key, safe=_KEPT)
        with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as file:
            file.write(entry.value)
        yield entry


def _write_line(file: BinaryIO, entry: KeyValueEntry) -> None:
    from headrace.cli.json_keys import body_document
    from headrace.cli.values import exact_time

    line: dict[str, Any] = {"key": entry.key, **body_document(entry.value)}
    line |= {"revision": entry.revision, "time": exact_time(entry.created_ns)}
    file.write(json.dumps(line).encode() + b"\n")


def take_in(call: Call) -> ExitCode | None:
    """Set the keys of an export. Raises: CommandError for a line that is none; ClientError."""
    options = call.options
    total = written = skipped = 0
    with opened(call) as bucket, call.progress(f"importing {options.bucket}", "keys") as bars:
        if options.source != "-":
            for _ in _entries(options.source):  # a bad line is found before the first key is set
                total += 1
        there = set(bucket.keys()) if options.dry_run and options.skip_existing else set()
        try:
            for key, value in _entries(options.source):
                is_kept = key in there if options.dry_run else not _set(call, bucket, key, value)
                skipped += is_kept
                written += not is_kept
                bars.show(written + skipped, max(total, written + skipped))
        except KeyboardInterrupt:
            if not options.dry_run:
                call.out.warn(f"{written:,} keys were set; --skip-existing goes on where they have none")
            raise
    found = {
        "bucket": options.bucket,
        "written": written,
        "skipped": skipped,
        "changed": bool(written),
    }
    verb = "would be set" if options.dry_run else "set"
    text = f"{options.bucket}: {written:,} keys {verb}, {skipped:,} left as they are"
    call.out.document(found, lambda: call.out.line(text), quiet=str(written))
    return ExitCode.WRONG if options.dry_run and written else None


def _set(call: Call, bucket: KeyValueBucket, key: str, value: bytes) -> bool:
    """Set a key; return False if it has a value that is to stay."""
    from headrace.client.keyvalue import RevisionError

    if not call.options.skip_existing:
        bucket.put(key, value)
        return True
    try:
        bucket.create_key(key, value)
    except RevisionError:
        return False
    return True


def _entries(source: str) -> Iterator[tuple[str, bytes]]:
    """Yield keys and values of an export. Raises: CommandError."""
    if source == "-":
        yield from _read_lines(sys.stdin.buffer, "standard input")
    elif (path := Path(source)).is_dir():
        for place in sorted(path.iterdir()):
            yield _checked(unquote(place.name), str(place)), place.read_bytes()
    else:
        try:
            with path.open("rb") as file:
                yield from _read_lines(file, source)
        except FileNotFoundError:
            raise CommandError(f"no file {source}", ExitCode.NOT_THERE) from None


def _read_lines(file: BinaryIO, name: str) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            key = document["key"]
            if "data_base64" in document:
                value = b64decode(document["data_base64"], validate=True)
            else:
                value = document["data"].encode()
        except (AttributeError, KeyError, TypeError, ValueError):
            text = f"{name}, line {number}: not an object with key and data or data_base64"
            raise CommandError(text) from None
        yield _checked(key, f"{name}, line {number}"), value


def _checked(key: Any, place: str) -> str:
    from headrace.client.keyvalue import is_key

    if not isinstance(key, str) or not is_key(key):
        raise CommandError(f"{place}: {str(key)[:64]!r} is not a key")
    return key
