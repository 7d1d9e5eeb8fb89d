"""`headrace object`, its buckets: listed, made, changed, shown, sealed, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.client.bucket_settings import changed_config, edited, limit_of, made, removed
from headrace.cli.outcomes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.cli.call import Call


def list_all(call: Call) -> ExitCode | None:
    """List the buckets, or the objects of one. Raises: ClientError."""
    options = call.options
    if getattr(options, "names", False):
        call.out.is_quiet = True
    if options.bucket is not None:
        from headrace.cli.client.objects import list_objects

        return list_objects(call)
    from headrace.client.objects import object_buckets

    with call.connected() as connection:
        infos = object_buckets(call.api(connection))
        items = sorted(map(bucket_document, infos), key=lambda each: each["bucket"])
    call.out.listing(items, lambda: _show_all(call, items), name="bucket")
    return ExitCode.NOT_THERE if options.fail_empty and not items else None


def add(call: Call) -> ExitCode | None:
    """Make a bucket. Raises: CommandError if it is there with other settings."""
    from headrace.client.objects import object_bucket_config

    config = object_bucket_config(
        call.options.bucket, ttl_ns=call.options.ttl or 0, storage=call.options.storage
    )
    return made(call, "bucket", changed_config(call, config), bucket_document, lambda info: _show(call, info))


def edit(call: Call) -> ExitCode | None:
    """Change a bucket. Raises: ClientError."""
    return edited(call, "bucket", _stream(call), bucket_document)


def info(call: Call) -> None:
    """Show a bucket, or an object of it. Raises: ClientError."""
    from headrace.client.api import JetStreamAssets

    if call.options.object is not None:
        from headrace.cli.client.objects import show_object

        show_object(call)
        return
    with call.connected() as connection:
        found = JetStreamAssets(call.api(connection)).stream_info(_stream(call))
    found.pop("type", None)
    call.out.document(
        {**bucket_document(found), "info": found}, lambda: _show(call, found), quiet=call.options.bucket
    )


def remove(call: Call) -> ExitCode | None:
    """Remove a bucket, after asking. Raises: CommandError, ClientError."""
    return removed(call, _stream(call), "messages")


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


def bucket_document(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a bucket out of the info of its stream."""
    from headrace.client.objects import PREFIX

    config = info["config"]
    found = {
        "bucket": str(config["name"]).removeprefix(PREFIX),
        "description": config.get("description") or None,
        "stream": config["name"],
        "created": info["created"],
        "bytes": info["state"]["bytes"],
        "sealed": bool(config.get("sealed")),
        "ttl_ns": config.get("max_age") or None,
        "max_bytes": limit_of(config.get("max_bytes")),
        "storage": config["storage"],
        "replicas": config["num_replicas"],
        "compressed": config.get("compression", "none") != "none",
        "metadata": config.get("metadata") or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _stream(call: Call) -> str:
    from headrace.client.objects import PREFIX

    return f"{PREFIX}{call.options.bucket}"


def _show_all(call: Call, items: list[dict[str, Any]]) -> None:
    from headrace.cli.text_table import ColumnKind, TextColumn
    from headrace.protocol.rfc3339 import parse_time

    columns = (
        TextColumn("Bucket"),
        TextColumn("Size", ColumnKind.SIZE),
        TextColumn("TTL", ColumnKind.DURATION),
        TextColumn("Sealed"),
        TextColumn("Created", ColumnKind.TIME),
        TextColumn("Description"),
    )
    rows = [
        (
            item["bucket"],
            item["bytes"],
            item.get("ttl_ns"),
            item["sealed"],
            parse_time(item["created"]),
            item.get("description"),
        )
        for item in items
    ]
    call.out.table(columns, rows)


def _show(call: Call, info: Mapping[str, Any]) -> None:
    from headrace.cli.text_table import ColumnKind
    from headrace.protocol.rfc3339 import parse_time

    found = bucket_document(info)
    call.out.facts(
        (
            ("description", found.get("description")),
            ("stream", found["stream"]),
            ("created", parse_time(found["created"]), ColumnKind.TIME),
            ("size", found["bytes"], ColumnKind.SIZE),
            ("sealed", found["sealed"]),
            ("TTL", found.get("ttl_ns"), ColumnKind.DURATION),
            ("max bytes", found.get("max_bytes"), ColumnKind.SIZE),
            ("storage", found["storage"]),
            ("replicas", found["replicas"], ColumnKind.NUMBER),
            ("compressed", found["compressed"]),
            *((f"metadata {name}", text) for name, text in found.get("metadata", {}).items()),
        ),
        f"bucket {found['bucket']}",
    )
