"""The bucket that a call names, and what flags make of the configuration of its stream.

Never lives here: what is done with buckets (`buckets`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.cli.call import Call
    from headrace.client.blocking import Connection
    from headrace.client.jetstream_api import JetStreamApi

Bucket = TypeVar("Bucket")

_FIELDS: Final = {
    "history": "max_msgs_per_subject",
    "ttl": "max_age",
    "max_bytes": "max_bytes",
    "max_value_size": "max_msg_size",
    "replicas": "num_replicas",
    "description": "description",
}
"""The fields of a stream's configuration by the flags that set them."""


def changed_config(call: Call, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with what the flags say."""
    options = call.options
    found = dict(config)
    for flag, name in _FIELDS.items():
        value = getattr(options, flag, None)
        if value is not None:
            found[name] = -1 if value == 0 and name in ("max_bytes", "max_msg_size") else value
    if getattr(options, "ttl", None) is not None and found.get("max_age"):
        # The server wants a window of duplicates that is not longer than the life of values.
        found["duplicate_window"] = min(found.get("duplicate_window") or found["max_age"], found["max_age"])
    if getattr(options, "marker_ttl", None) is not None:
        found["subject_delete_marker_ttl"] = options.marker_ttl
        if options.marker_ttl:
            found["allow_msg_ttl"] = True
    if options.compression:
        found["compression"] = "s2"
    if getattr(options, "no_compression", False):
        found["compression"] = "none"
    if options.metadata:
        found["metadata"] = {**(found.get("metadata") or {}), **dict(options.metadata)}
    if options.cluster is not None or options.tag:
        placement = dict(found.get("placement") or {})
        if options.cluster is not None:
            placement["cluster"] = options.cluster
        if options.tag:
            placement["tags"] = [tag for each in options.tag for tag in each.split(",")]
        found["placement"] = placement
    return found


def bucket_of(call: Call, connection: Connection, kind: Callable[[JetStreamApi, str], Bucket]) -> Bucket:
    """Return the bucket that a call names. Raises: JetStreamMissingError that names it, ClientError."""
    from headrace.client.errors import JetStreamMissingError

    try:
        return kind(call.api(connection), call.options.bucket)
    except JetStreamMissingError as error:
        text = f"no bucket {call.options.bucket}"
        raise JetStreamMissingError(error.code, error.err_code, text) from None
