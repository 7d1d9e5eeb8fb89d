"""`headrace object`, its buckets: what they have that buckets of keys have not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.cli.client.buckets import BucketKind, edited, list_buckets, made, removed, show_bucket
from headrace.cli.outcomes import ExitCode
from headrace.cli.text_table import ColumnKind
from headrace.client.objects import PREFIX, object_buckets

if TYPE_CHECKING:
    from headrace.cli.call import Call

_TEXT, _SIZE = ColumnKind.TEXT, ColumnKind.SIZE
_KIND: Final = BucketKind(
    PREFIX,
    "messages",
    object_buckets,
    lambda info: {"sealed": bool(info["config"].get("sealed"))},
    columns=(
        ("Bucket", "bucket", _TEXT),
        ("Size", "bytes", _SIZE),
        ("TTL", "ttl_ns", ColumnKind.DURATION),
        ("Sealed", "sealed", _TEXT),
        ("Created", "created", ColumnKind.TIME),
        ("Description", "description", _TEXT),
    ),
    facts=(("size", "bytes", _SIZE), ("sealed", "sealed", _TEXT)),
)


def list_all(call: Call) -> ExitCode | None:
    """List the buckets, or the objects of one. Raises: ClientError."""
    options = call.options
    if getattr(options, "names", False):
        call.out.is_quiet = True
    if options.bucket is not None:
        from headrace.cli.client.objects import list_objects

        return list_objects(call)
    return list_buckets(call, _KIND)


def add(call: Call) -> ExitCode | None:
    """Make a bucket. Raises: CommandError if it is there with other settings."""
    from headrace.client.objects import object_bucket_config

    options = call.options
    return made(
        call, _KIND, object_bucket_config(options.bucket, ttl_ns=options.ttl or 0, storage=options.storage)
    )


def edit(call: Call) -> ExitCode | None:
    """Change a bucket. Raises: ClientError."""
    return edited(call, _KIND)


def info(call: Call) -> None:
    """Show a bucket, or an object of it. Raises: ClientError."""
    if call.options.object is not None:
        from headrace.cli.client.objects import show_object

        show_object(call)
        return
    show_bucket(call, _KIND)


def remove(call: Call) -> ExitCode | None:
    """Remove a bucket, after asking. Raises: CommandError, ClientError."""
    return removed(call, _KIND)


def seal(call: Call) -> ExitCode | None:
    """Seal a bucket, after asking. Raises: CommandError, ClientError."""
    from headrace.cli.client.objects import opened

    options = call.options
    with opened(call) as bucket:
        is_open = not bucket.info["config"].get("sealed")
        if is_open and not options.dry_run:
            call.confirm(f"{options.bucket}: it can never be changed again", name=options.bucket)
            bucket.seal()
    verb = ("would be sealed" if options.dry_run else "sealed") if is_open else "sealed already"
    found = {"bucket": options.bucket, "changed": is_open}
    call.out.document(found, lambda: call.out.line(f"{options.bucket}: {verb}"), quiet=options.bucket)
    return ExitCode.WRONG if is_open and options.dry_run else None
