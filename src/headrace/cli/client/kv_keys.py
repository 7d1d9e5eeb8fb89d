"""`headrace kv`, its keys: read, set, removed, watched."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.cli.call import Call
    from headrace.client.blocking import Connection
    from headrace.client.keyvalue import KeyValueBucket, KeyValueEntry


@contextmanager
def opened(call: Call) -> Iterator[KeyValueBucket]:
    """The bucket of a call, for a block. Raises: ClientError."""
    with call.connected() as connection:
        yield _bucket(call, connection)


def _bucket(call: Call, connection: Connection) -> KeyValueBucket:
    from headrace.cli.client.bucket_settings import bucket_of
    from headrace.client.keyvalue import KeyValueBucket

    return bucket_of(call, connection, KeyValueBucket)


# -- reading


def list_keys(call: Call) -> ExitCode | None:
    """List the keys of a bucket. Raises: ClientError."""
    options = call.options
    filters = (options.filter or ">",)
    with opened(call) as bucket:
        entries = bucket.watch(filters, headers_only=not options.values, until_end=True)
        items = [entry for entry in entries if not entry.is_removed]
    items.sort(key=lambda entry: entry.key)

    def show() -> None:
        from headrace.cli.text_table import TextColumn

        columns = [TextColumn("Key")]
        if options.verbose:
            columns += _facts_columns()
        if options.values:
            columns.append(TextColumn("Value"))
        rows = [
            (
                entry.key,
                *((entry.revision, entry.created_ns, entry.size) if options.verbose else ()),
                *((_text(entry.value),) if options.values else ()),
            )
            for entry in items
        ]
        call.out.table(columns, rows)

    documents = [_document(entry, with_value=options.values, bucket=False) for entry in items]
    call.out.listing(documents, show, name="key")
    return ExitCode.NOT_THERE if options.fail_empty and not items else None


def get(call: Call) -> ExitCode | None:
    """Show a value, or those of keys that match. Raises: CommandError, ClientError."""
    options = call.options
    if "*" in options.key or ">" in options.key:
        return _get_all(call)
    with opened(call) as bucket:
        entry = bucket.get(options.key, revision=options.revision)

    def show() -> None:
        out = call.out
        if options.raw:
            _print_raw(call, entry.value)
            return
        if out.is_terminal:
            _print_title(call, entry)
        out.body(entry.value)

    call.out.document(_document(entry), show, quiet=_text(entry.value))
    return None


def _get_all(call: Call) -> ExitCode | None:
    options = call.options
    if options.revision is not None:
        raise CommandError("--revision is of one key, not of a pattern", ExitCode.WRONG_USE)
    with opened(call) as bucket:
        items = sorted(bucket.entries((options.key,)), key=lambda entry: entry.key)
    if not items:
        raise CommandError(f"no key of {options.bucket} matches {options.key}", ExitCode.NOT_THERE)

    def show() -> None:
        from headrace.cli.text_table import TextColumn

        if options.raw:
            for entry in items:
                _print_raw(call, entry.value, end=b"\n")
            return
        rows = [
            (entry.key, entry.revision, entry.created_ns, entry.size, _text(entry.value)) for entry in items
        ]
        call.out.table([TextColumn("Key"), *_facts_columns(), TextColumn("Value")], rows)

    call.out.listing([_document(entry) for entry in items], show, name="key")
    return None


def history(call: Call) -> None:
    """List the revisions of a key. Raises: ClientError."""
    with opened(call) as bucket:
        items = bucket.history(call.options.key)

    def show() -> None:
        from headrace.cli.text_table import ColumnKind, TextColumn

        columns = (
            TextColumn("Revision", ColumnKind.NUMBER),
            TextColumn("Operation"),
            TextColumn("Time", ColumnKind.TIME),
            TextColumn("Size", ColumnKind.SIZE),
            TextColumn("Value"),
        )
        rows = [
            (entry.revision, entry.operation, entry.created_ns, entry.size, _text(entry.value))
            for entry in items
        ]
        call.out.table(columns, rows)

    call.out.listing([_document(entry) for entry in items], show, name="revision")


def watch(call: Call) -> None:
    """Show entries as they come. Raises: ClientError."""
    options = call.options
    if options.history and options.updates:
        raise CommandError("--history and --updates exclude each other", ExitCode.WRONG_USE)
    idle = None if options.idle is None else options.idle / 1e9
    shown = 0
    with call.reconnecting(resumes=True) as connection:
        bucket = _bucket(call, connection)
        entries = bucket.watch(
            (options.key or ">",), history=options.history, updates_only=options.updates, idle=idle
        )
        call.out.note(f"watching {options.bucket}")
        try:
            for entry in entries:
                if entry.is_removed and options.no_deletes:
                    continue
                _print_event(call, entry)
                shown += 1
                if options.count is not None and shown >= options.count:
                    return
        finally:
            entries.close()


def _print_event(call: Call, entry: KeyValueEntry) -> None:
    def show() -> None:
        _print_title(call, entry)
        if not entry.is_removed:
            call.out.body(entry.value)

    document = {**_document(entry), "pending": entry.pending}
    call.out.event(document, show, quiet=entry.key)


# -- writing


def put(call: Call) -> ExitCode | None:
    """Set a value. Raises: CommandError, ClientError."""
    value = _value(call)
    with opened(call) as bucket:
        if call.options.dry_run:
            return _would(call, bucket, call.options.key, value)
        revision = bucket.put(call.options.key, value, ttl_ns=call.options.ttl or 0)
    _print_revision(call, revision)
    return None


def create(call: Call) -> ExitCode | None:
    """Set the value of a key that has none. Raises: CommandError, ClientError."""
    value = _value(call)
    with opened(call) as bucket:
        if call.options.dry_run:
            before = _last(bucket, call.options.key)
            if before is not None and not before.is_removed:
                text = f"{call.options.key!r} has a value, revision {before.revision}"
                raise CommandError(text, ExitCode.EXISTS)
            return _would(call, bucket, call.options.key, value)
        revision = bucket.create_key(call.options.key, value, ttl_ns=call.options.ttl or 0)
    _print_revision(call, revision)
    return None


def update(call: Call) -> ExitCode | None:
    """Set a value if the key is at a revision. Raises: CommandError, ClientError."""
    options = call.options
    value = call.body(options.value)
    with opened(call) as bucket:
        if options.dry_run:
            _check_revision(bucket, options.key, options.revision)
            return _would(call, bucket, options.key, value)
        revision = bucket.update(options.key, value, options.revision, ttl_ns=options.ttl or 0)
    _print_revision(call, revision)
    return None


def revert(call: Call) -> ExitCode | None:
    """Set a key to an earlier value. Raises: CommandError, ClientError."""
    options = call.options
    with opened(call) as bucket:
        value = bucket.get(options.key, revision=options.revision).value
        if options.dry_run:
            return _would(call, bucket, options.key, value)
        revision = bucket.put(options.key, value)
    _print_revision(call, revision)
    return None


def delete(call: Call) -> ExitCode | None:
    """Remove keys, after asking. Raises: CommandError, ClientError."""
    options = call.options
    if not options.key:
        if call.is_nats:  # there it removes the bucket
            from headrace.cli.client.kv_buckets import remove

            return remove(call)
        text = "a key is missing: kv rm-bucket removes a bucket"
        raise CommandError(text, ExitCode.WRONG_USE)
    return _removed(
        call, lambda bucket, key: bucket.delete(key, revision=options.revision), keeps_history=True
    )


def purge(call: Call) -> ExitCode | None:
    """Remove keys and their history, after asking. Raises: CommandError, ClientError."""
    options = call.options
    return _removed(
        call,
        lambda bucket, key: bucket.purge(key, revision=options.revision, ttl_ns=options.ttl or 0),
        keeps_history=False,
    )


def _removed(
    call: Call, remove: Callable[[KeyValueBucket, str], object], *, keeps_history: bool
) -> ExitCode | None:
    options = call.options
    if options.revision is not None and len(options.key) > 1:
        raise CommandError("--revision is of one key", ExitCode.WRONG_USE)
    with opened(call) as bucket:
        there: list[str] = []
        missing: list[str] = []
        for key in options.key:
            before = _last(bucket, key)
            is_there = before is not None and not (keeps_history and before.is_removed)
            (there if is_there else missing).append(key)
        if missing and not options.if_exists:
            from headrace.client.keyvalue import KeyMissingError

            raise KeyMissingError(options.bucket, missing[0])
        if options.revision is not None and there:
            _check_revision(bucket, there[0], options.revision)
        if there and not options.dry_run:
            what = "stay in the history" if keeps_history else "go with their history"
            call.confirm(f"{options.bucket}: {_named(there)}; values {what}")
            for key in there:
                remove(bucket, key)
    items = [{"bucket": options.bucket, "key": key, "changed": key in there} for key in options.key]

    def show() -> None:
        verb = "would be removed" if options.dry_run else "removed"
        for item in items:
            call.out.line(f"{item['key']}: {verb if item['changed'] else 'not there'}")

    call.out.listing(items, show, name="key")
    return ExitCode.WRONG if options.dry_run and there else None


def compact(call: Call) -> ExitCode | None:
    """Remove notes that keys were removed, after asking. Raises: CommandError, ClientError."""
    options = call.options
    older = options.older or 0
    now = time.time_ns()
    with opened(call) as bucket:
        removed = [entry for entry in bucket.watch(headers_only=True, until_end=True) if entry.is_removed]
        count = sum(now - entry.created_ns >= older for entry in removed)
        if removed and not options.dry_run:
            call.confirm(f"{options.bucket}: what is left of {count:,} removed keys goes")
            count = bucket.compact(older, now)
    found = {"bucket": options.bucket, "removed": count, "changed": bool(removed)}
    verb = "would go" if options.dry_run else "are gone"
    text = f"{options.bucket}: notes of {count:,} removed keys {verb}"
    call.out.document(found, lambda: call.out.line(text), quiet=str(count))
    return ExitCode.WRONG if options.dry_run and removed else None


def _value(call: Call) -> bytes:
    """Return the value that a call sets: of its arguments, of a file, or of standard input."""
    options = call.options
    if options.file is not None:
        if options.value is not None:
            raise CommandError("a value and --file exclude each other", ExitCode.WRONG_USE)
        return Path(options.file).read_bytes()
    if options.value is None:
        if call.is_nats:  # which reads standard input where there is no value
            return call.body("-")
        raise CommandError("a value is missing: a text, - or --file", ExitCode.WRONG_USE)
    return call.body(options.value)


def _last(bucket: KeyValueBucket, key: str) -> KeyValueEntry | None:
    from headrace.client.keyvalue import KeyMissingError

    try:
        return bucket.last(key)
    except KeyMissingError:
        return None


def _check_revision(bucket: KeyValueBucket, key: str, expected: int) -> None:
    """Check that a key is at a revision. Raises: RevisionError if it is at another one."""
    from headrace.client.errors import JetStreamExistsError
    from headrace.client.jetstream_api import WRONG_LAST_SEQUENCE
    from headrace.client.keyvalue import RevisionError

    before = _last(bucket, key)
    revision = 0 if before is None else before.revision
    if revision != expected:
        error = JetStreamExistsError(400, WRONG_LAST_SEQUENCE[0], "wrong last sequence")
        raise RevisionError(error, key, expected, revision)


def _would(call: Call, bucket: KeyValueBucket, key: str, value: bytes) -> ExitCode:
    """Print that a value would be set; return the exit code of a change."""
    before = _last(bucket, key)
    found = {"bucket": bucket.bucket, "key": key, "changed": True}

    def show() -> None:
        from headrace.cli.text_table import TextColumn

        old = "" if before is None or before.is_removed else _text(before.value)
        call.out.table(
            (TextColumn("Key"), TextColumn("Before"), TextColumn("After")), [(key, old, _text(value))]
        )

    call.out.document(found, show, quiet=key)
    return ExitCode.WRONG


def _print_revision(call: Call, revision: int) -> None:
    key = call.options.key
    found = {"bucket": call.options.bucket, "key": key, "revision": revision, "changed": True}
    call.out.document(found, lambda: call.out.line(f"{key}: revision {revision}"), quiet=str(revision))


# -- entries as they are shown


def _document(entry: KeyValueEntry, *, with_value: bool = True, bucket: bool = True) -> dict[str, Any]:
    from headrace.cli.json_keys import body_document
    from headrace.cli.values import exact_time

    found: dict[str, Any] = {"bucket": entry.bucket} if bucket else {}
    found |= {
        "key": entry.key,
        "revision": entry.revision,
        "operation": entry.operation,
        "time": exact_time(entry.created_ns),
        "size_bytes": entry.size,
    }
    if with_value and not entry.is_removed:
        found |= body_document(entry.value)
    return found


def _facts_columns() -> list[Any]:
    from headrace.cli.text_table import ColumnKind, TextColumn

    return [
        TextColumn("Revision", ColumnKind.NUMBER),
        TextColumn("Time", ColumnKind.TIME),
        TextColumn("Size", ColumnKind.SIZE),
    ]


def _print_title(call: Call, entry: KeyValueEntry) -> None:
    from headrace.cli.values import exact_time, shown_time

    time_of = shown_time if call.out.is_terminal else exact_time
    operation = "" if entry.operation == "PUT" else f", {entry.operation}"
    text = f"{entry.bucket} > {entry.key}, revision {entry.revision}, {time_of(entry.created_ns)}{operation}"
    call.out.line(text, "bold")


def _print_raw(call: Call, value: bytes, end: bytes = b"") -> None:
    out = call.out
    out.body(value, raw=not out.is_terminal, end=b"\n" if out.is_terminal else end)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _named(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{len(keys):,} keys, {keys[0]} first"
