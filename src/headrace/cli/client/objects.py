"""`headrace object`, its objects: stored, read, removed, watched, checked."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.cli.call import Call
    from headrace.cli.progress import ProgressBars
    from headrace.client.blocking import Connection
    from headrace.client.objects import BucketObject, ObjectBucket


@contextmanager
def opened(call: Call) -> Iterator[ObjectBucket]:
    """The bucket of a call, for a block. Raises: ClientError."""
    with call.connected() as connection:
        yield _bucket(call, connection)


def _bucket(call: Call, connection: Connection) -> ObjectBucket:
    from headrace.cli.client.bucket_settings import bucket_of
    from headrace.client.objects import ObjectBucket

    return bucket_of(call, connection, ObjectBucket)


# -- looking


def list_objects(call: Call) -> ExitCode | None:
    """List the objects of a bucket. Raises: ClientError."""
    from headrace.cli.text_table import ColumnKind, TextColumn

    with opened(call) as bucket:
        items = sorted(bucket.objects(), key=lambda facts: facts.name)

    def show() -> None:
        columns = (
            TextColumn("Name"),
            TextColumn("Size", ColumnKind.SIZE),
            TextColumn("Time", ColumnKind.TIME),
            TextColumn("Leads to"),
            TextColumn("Description"),
        )
        rows = [
            (facts.name, facts.size, facts.modified_ns, _target(facts), facts.description or None)
            for facts in items
        ]
        call.out.table(columns, rows)

    call.out.listing([_document(facts) for facts in items], show)
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def show_object(call: Call) -> None:
    """Show an object. Raises: ClientError."""
    with opened(call) as bucket:
        facts = bucket.facts(call.options.object)
    call.out.document(_document(facts), lambda: _show(call, facts), quiet=facts.name)


def watch(call: Call) -> None:
    """Show objects as they are stored and removed. Raises: ClientError."""
    options = call.options
    idle = None if options.idle is None else options.idle / 1e9
    shown = 0
    with call.reconnecting(resumes=True) as connection:
        found = _bucket(call, connection).watch(updates_only=options.updates, idle=idle)
        call.out.note(f"watching {options.bucket}")
        try:
            for facts in found:
                if facts.is_deleted and options.no_deletes:
                    continue
                _print_event(call, facts)
                shown += 1
                if options.count is not None and shown >= options.count:
                    return
        finally:
            found.close()


def _print_event(call: Call, facts: BucketObject) -> None:
    from headrace.cli.values import exact_time, shown_size

    what = "removed" if facts.is_deleted else shown_size(facts.size)
    text = f"{facts.bucket} > {facts.name}, {what}, {exact_time(facts.modified_ns)}"
    call.out.event(_document(facts), lambda: call.out.line(text), quiet=facts.name)


def verify(call: Call) -> ExitCode | None:
    """Check the digests of objects; return 3 if one is wrong. Raises: ClientError."""
    from headrace.client.objects import DigestError

    options = call.options
    items: list[dict[str, Any]] = []
    with opened(call) as bucket:
        if options.object is not None:
            found = [bucket.facts(options.object)]
        else:
            found = sorted(bucket.objects(), key=lambda facts: facts.name)
        total, done = sum(facts.size for facts in found), 0
        with call.progress(f"checking {options.bucket}", "bytes") as bars:
            for facts in found:
                item: dict[str, Any] = {"bucket": facts.bucket, "name": facts.name, "size_bytes": facts.size}
                try:
                    bucket.verify(facts.name, progress=_behind(bars, done, total))
                    items.append({**item, "valid": True})
                except DigestError as error:
                    items.append({**item, "valid": False, "error": str(error)})
                done += facts.size

    def show() -> None:
        for each in items:
            call.out.line(f"{each['name']}: {'right' if each['valid'] else each['error']}")

    call.out.listing(items, show)
    return None if all(item["valid"] for item in items) else ExitCode.WRONG


def _behind(bars: ProgressBars, before: int, total: int) -> Callable[[int, int], object]:
    """Return the progress of one object, `before` bytes of others behind it."""
    return lambda done, _: bars.show(before + done, total)


# -- reading and writing


def get(call: Call) -> None:
    """Read an object into a file. Raises: CommandError, ClientError."""
    options = call.options
    with opened(call) as bucket, call.progress(f"reading {options.object}", "bytes") as bars:
        if options.output == "-":
            bucket.get(options.object, sys.stdout.buffer, progress=bars.show)
            sys.stdout.buffer.flush()
            return
        path = Path(options.output or _file_name(options.object))
        if path.is_dir():
            path = path / _file_name(options.object)
        bucket.facts(options.object)  # one that is not there is no reason to ask
        if path.exists():
            call.confirm(f"{path} is there already and is replaced")
        with _whole_file(path) as file:
            facts = bucket.get(options.object, file, progress=bars.show)
    found = {**_document(facts), "file": str(path)}
    text = f"{options.object}: {facts.size:,} bytes written to {path}"
    call.out.document(found, lambda: call.out.line(text), quiet=str(path))


def _file_name(name: str) -> str:
    """Return the file for an object: the last part of its name. Raises: CommandError if it cannot be one."""
    last = name.rpartition("/")[2]
    if not last or last.startswith(".") or not last.isprintable():
        raise CommandError(f"{name!r} gives no name of a file: say --output", ExitCode.WRONG_USE)
    return last


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name at the end of the block, or is removed after a failure."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def put(call: Call) -> ExitCode | None:
    """Store a file. Raises: CommandError, ClientError."""
    from headrace.client.objects import ObjectMissingError

    options = call.options
    name = options.name or ("" if options.file == "-" else os.path.normpath(options.file))
    if not name:
        raise CommandError("standard input has no name: say --name", ExitCode.WRONG_USE)
    if not options.chunk_size:
        raise CommandError("--chunk-size is at least 1", ExitCode.WRONG_USE)
    headers: dict[str, list[str]] = {}
    for key, value in options.header or ():
        headers.setdefault(key, []).append(value)
    with opened(call) as bucket, _source(options.file) as (file, size):
        try:
            before = bucket.facts(name)
        except ObjectMissingError:
            before = None
        if options.dry_run:
            return _would(call, name, file, before)
        if before is not None:
            call.confirm(f"{options.bucket} > {name}: {before.size:,} bytes are replaced")
        with call.progress(f"storing {name}", "bytes") as bars:
            facts = bucket.put(
                name,
                file,
                description=options.description or "",
                headers=headers,
                metadata=dict(options.metadata or ()),
                chunk_size=options.chunk_size,
                progress=lambda done: bars.show(done, max(size, done)),
            )
    found = {**_document(facts), "changed": True}
    text = f"{name}: {facts.size:,} bytes in {facts.chunks:,} chunks, {facts.digest}"
    call.out.document(found, lambda: call.out.line(text), quiet=name)
    return None


@contextmanager
def _source(name: str) -> Iterator[tuple[BinaryIO, int]]:
    """The file to store and its bytes (0: not known), for a block. Raises: CommandError."""
    if name == "-":
        yield sys.stdin.buffer, 0
        return
    try:
        with open(name, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise CommandError(f"no file {name}", ExitCode.NOT_THERE) from None


def _would(call: Call, name: str, file: BinaryIO, before: BucketObject | None) -> ExitCode | None:
    """Print whether a file is other than what is stored; return the exit code."""
    from headrace.client.objects import digest_of

    size, digest = digest_of(file)
    is_changed = before is None or before.digest != digest
    found = {"bucket": call.options.bucket, "name": name, "size_bytes": size, "digest": digest}
    verb = ("would be stored" if before is None else "would be replaced") if is_changed else "unchanged"
    call.out.document(
        {**found, "changed": is_changed}, lambda: call.out.line(f"{name}: {size:,} bytes, {verb}"), quiet=name
    )
    return ExitCode.WRONG if is_changed else None


def delete(call: Call) -> ExitCode | None:
    """Remove objects, after asking. Raises: CommandError, ClientError."""
    from headrace.client.objects import ObjectMissingError

    options = call.options
    if not options.object:
        if call.is_nats:  # there it removes the bucket
            from headrace.cli.client.object_buckets import remove

            return remove(call)
        text = "an object is missing: object rm-bucket removes a bucket"
        raise CommandError(text, ExitCode.WRONG_USE)
    with opened(call) as bucket:
        there: dict[str, BucketObject] = {}
        for name in options.object:
            try:
                there[name] = bucket.facts(name)
            except ObjectMissingError:
                if not options.if_exists:
                    raise
        if there and not options.dry_run:
            size = sum(facts.size for facts in there.values())
            call.confirm(f"{options.bucket}: {', '.join(there)}, {size:,} bytes")
            for name in there:
                bucket.delete(name)
    items = [{"bucket": options.bucket, "name": name, "changed": name in there} for name in options.object]

    def show() -> None:
        verb = "would be removed" if options.dry_run else "removed"
        for item in items:
            call.out.line(f"{item['name']}: {verb if item['changed'] else 'not there'}")

    call.out.listing(items, show)
    return ExitCode.WRONG if options.dry_run and there else None


# -- objects as they are shown


def _document(facts: BucketObject) -> dict[str, Any]:
    from headrace.cli.values import exact_time

    found: dict[str, Any] = {
        "bucket": facts.bucket,
        "name": facts.name,
        "description": facts.description or None,
        "time": exact_time(facts.modified_ns),
        "size_bytes": facts.size,
        "chunks": facts.chunks,
        "digest": facts.digest or None,
        "headers": facts.headers or None,
        "metadata": facts.metadata or None,
        "link": None,
        "deleted": True if facts.is_deleted else None,
    }
    if facts.link is not None:
        bucket, name = facts.link
        found["link"] = {"bucket": bucket, "name": name} if name else {"bucket": bucket}
    return {name: value for name, value in found.items() if value is not None}


def _target(facts: BucketObject) -> str | None:
    if facts.link is None:
        return None
    return " > ".join(part for part in facts.link if part)


def _show(call: Call, facts: BucketObject) -> None:
    from headrace.cli.text_table import ColumnKind

    call.out.facts(
        (
            ("description", facts.description or None),
            ("time", facts.modified_ns, ColumnKind.TIME),
            ("size", facts.size, ColumnKind.SIZE),
            ("chunks", facts.chunks, ColumnKind.NUMBER),
            ("digest", facts.digest or None),
            ("leads to", _target(facts)),
            *((f"header {name}", value) for name, values in facts.headers.items() for value in values),
            *((f"metadata {name}", value) for name, value in facts.metadata.items()),
        ),
        f"{facts.bucket} > {facts.name}",
    )
