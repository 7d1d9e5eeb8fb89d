"""`headrace kv`, its buckets: listed, made, changed, shown, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.client.bucket_settings import changed_config, edited, limit_of, made, removed
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.cli.call import Call


def list_all(call: Call) -> ExitCode | None:
    """List the buckets, or the keys of one. Raises: CommandError, ClientError."""
    options = call.options
    if getattr(options, "names", False):
        call.out.is_quiet = True
    if options.bucket is not None:
        from headrace.cli.client.kv_keys import list_keys

        return list_keys(call)
    if options.values or options.verbose:
        raise CommandError("--values and --verbose are for the keys of a bucket", ExitCode.WRONG_USE)
    from headrace.client.keyvalue import buckets

    with call.connected() as connection:
        items = sorted(map(bucket_document, buckets(call.api(connection))), key=lambda each: each["bucket"])
    call.out.listing(items, lambda: _show_all(call, items), name="bucket")
    return ExitCode.NOT_THERE if options.fail_empty and not items else None


def add(call: Call) -> ExitCode | None:
    """Make a bucket. Raises: CommandError if it is there with other settings."""
    from headrace.client.keyvalue import bucket_config

    options = call.options
    config = bucket_config(
        options.bucket,
        history=1 if options.history is None else options.history,
        ttl_ns=options.ttl or 0,
        storage=options.storage,
        mirror=options.mirror or "",
        sources=options.source or (),
    )
    config = changed_config(call, config)
    return made(call, "bucket", config, bucket_document, lambda info: _show(call, info))


def edit(call: Call) -> ExitCode | None:
    """Change a bucket. Raises: ClientError."""
    return edited(call, "bucket", _stream(call), bucket_document)


def info(call: Call) -> None:
    """Show a bucket. Raises: ClientError."""
    from headrace.client.api import JetStreamAssets

    with call.connected() as connection:
        found = JetStreamAssets(call.api(connection)).stream_info(_stream(call))
    found.pop("type", None)
    call.out.document(
        {**bucket_document(found), "info": found}, lambda: _show(call, found), quiet=call.options.bucket
    )


def remove(call: Call) -> ExitCode | None:
    """Remove a bucket, after asking. Raises: CommandError, ClientError."""
    return removed(call, _stream(call), "values")


def bucket_document(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a bucket out of the info of its stream."""
    from headrace.client.keyvalue import PREFIX

    config, state = info["config"], info["state"]
    found = {
        "bucket": str(config["name"]).removeprefix(PREFIX),
        "description": config.get("description") or None,
        "stream": config["name"],
        "created": info["created"],
        "values": state["messages"],
        "bytes": state["bytes"],
        "history": config.get("max_msgs_per_subject"),
        "ttl_ns": config.get("max_age") or None,
        "marker_ttl_ns": config.get("subject_delete_marker_ttl") or None,
        "max_bytes": limit_of(config.get("max_bytes")),
        "max_value_bytes": limit_of(config.get("max_msg_size")),
        "storage": config["storage"],
        "replicas": config["num_replicas"],
        "compressed": config.get("compression", "none") != "none",
        "metadata": config.get("metadata") or None,
        "mirror": _origin(config.get("mirror")),
        "sources": [_origin(each) for each in config.get("sources") or ()] or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _origin(source: Mapping[str, Any] | None) -> str | None:
    from headrace.client.keyvalue import PREFIX

    return None if not source else str(source["name"]).removeprefix(PREFIX)


def _stream(call: Call) -> str:
    from headrace.client.keyvalue import PREFIX

    return f"{PREFIX}{call.options.bucket}"


def _show_all(call: Call, items: list[dict[str, Any]]) -> None:
    from headrace.cli.text_table import ColumnKind, TextColumn
    from headrace.protocol.rfc3339 import parse_time

    columns = (
        TextColumn("Bucket"),
        TextColumn("Values", ColumnKind.NUMBER),
        TextColumn("Size", ColumnKind.SIZE),
        TextColumn("History", ColumnKind.NUMBER),
        TextColumn("TTL", ColumnKind.DURATION),
        TextColumn("Created", ColumnKind.TIME),
        TextColumn("Description"),
    )
    rows = [
        (
            item["bucket"],
            item["values"],
            item["bytes"],
            item.get("history"),
            item.get("ttl_ns"),
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
    number, size, duration = ColumnKind.NUMBER, ColumnKind.SIZE, ColumnKind.DURATION
    call.out.facts(
        (
            ("description", found.get("description")),
            ("stream", found["stream"]),
            ("created", parse_time(found["created"]), ColumnKind.TIME),
            ("values", found["values"], number),
            ("size", found["bytes"], size),
            ("history", found.get("history"), number),
            ("TTL", found.get("ttl_ns"), duration),
            ("marker TTL", found.get("marker_ttl_ns"), duration),
            ("max bytes", found.get("max_bytes"), size),
            ("max value size", found.get("max_value_bytes"), size),
            ("storage", found["storage"]),
            ("replicas", found["replicas"], number),
            ("compressed", found["compressed"]),
            ("mirror of", found.get("mirror")),
            ("sources", ", ".join(found["sources"]) if "sources" in found else None),
            *((f"metadata {name}", text) for name, text in found.get("metadata", {}).items()),
        ),
        f"bucket {found['bucket']}",
    )
