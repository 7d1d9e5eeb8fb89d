"""`headrace kv`, its buckets: what they have that buckets of objects have not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.client.buckets import BucketKind, edited, limit_of, list_buckets, made, removed, show_bucket
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.cli.text_table import ColumnKind
from headrace.client.keyvalue import PREFIX, buckets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.cli.call import Call

_TEXT, _NUMBER, _SIZE, _DURATION, _TIME = (
    ColumnKind.TEXT,
    ColumnKind.NUMBER,
    ColumnKind.SIZE,
    ColumnKind.DURATION,
    ColumnKind.TIME,
)


def _more(info: Mapping[str, Any]) -> dict[str, Any]:
    config = info["config"]
    return {
        "values": info["state"]["messages"],
        "history": config.get("max_msgs_per_subject"),
        "marker_ttl_ns": config.get("subject_delete_marker_ttl") or None,
        "max_value_bytes": limit_of(config.get("max_msg_size")),
        "mirror": _origin(config.get("mirror")),
        "sources": [_origin(each) for each in config.get("sources") or ()] or None,
    }


def _origin(source: Mapping[str, Any] | None) -> str | None:
    return None if not source else str(source["name"]).removeprefix(PREFIX)


_KIND: Final = BucketKind(
    PREFIX,
    "values",
    buckets,
    _more,
    columns=(
        ("Bucket", "bucket", _TEXT),
        ("Values", "values", _NUMBER),
        ("Size", "bytes", _SIZE),
        ("History", "history", _NUMBER),
        ("TTL", "ttl_ns", _DURATION),
        ("Created", "created", _TIME),
        ("Description", "description", _TEXT),
    ),
    facts=(
        ("values", "values", _NUMBER),
        ("size", "bytes", _SIZE),
        ("history", "history", _NUMBER),
        ("marker TTL", "marker_ttl_ns", _DURATION),
        ("max value size", "max_value_bytes", _SIZE),
        ("mirror of", "mirror", _TEXT),
        ("sources", "sources", _TEXT),
    ),
)


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
    return list_buckets(call, _KIND)


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
    return made(call, _KIND, config)


def edit(call: Call) -> ExitCode | None:
    """Change a bucket. Raises: ClientError."""
    return edited(call, _KIND)


def info(call: Call) -> None:
    """Show a bucket. Raises: ClientError."""
    show_bucket(call, _KIND)


def remove(call: Call) -> ExitCode | None:
    """Remove a bucket, after asking. Raises: CommandError, ClientError."""
    return removed(call, _KIND)
