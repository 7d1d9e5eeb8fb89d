"""Buckets of keys and of objects: listed, made, changed, shown, removed.

Here lives what `kv` and `object` have in common. Never lives here: what only one of them has (`kv_buckets`,
`object_buckets`), reading and writing of keys and objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.cli.client.bucket_settings import changed_config
from headrace.cli.client.config_changes import all_new, metadata_facts, other_settings, show_changes
from headrace.cli.client.stream_config import differences, shown_field
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.cli.text_table import ColumnKind, TextColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.cli.call import Call
    from headrace.client.jetstream_api import JetStreamApi

    Info = Mapping[str, Any]

_NUMBER, _SIZE, _DURATION, _TIME = (
    ColumnKind.NUMBER,
    ColumnKind.SIZE,
    ColumnKind.DURATION,
    ColumnKind.TIME,
)
_BEGINNING: Final = (
    ("description", "description", ColumnKind.TEXT),
    ("stream", "stream", ColumnKind.TEXT),
    ("created", "created", _TIME),
)
_LIMITS: Final = (("TTL", "ttl_ns", _DURATION), ("max bytes", "max_bytes", _SIZE))
_PLACE: Final = (
    ("storage", "storage", ColumnKind.TEXT),
    ("replicas", "replicas", _NUMBER),
    ("compressed", "compressed", ColumnKind.TEXT),
)


class BucketKind(NamedTuple):
    """A kind of buckets: of keys, or of objects.

    `prefix` begins the names of their streams. `holds`: what their messages are to users. `more`: the keys of
    the document that only this kind has, out of the info of the stream. `columns` of a list, and the `facts`
    that are shown of one beside those of all, have a name, a key of the document, and the kind of values.
    """

    prefix: str
    holds: str
    infos: Callable[[JetStreamApi], Iterable[Info]]
    more: Callable[[Info], dict[str, Any]]
    columns: tuple[tuple[str, str, ColumnKind], ...]
    facts: tuple[tuple[str, str, ColumnKind], ...]

    def stream(self, call: Call) -> str:
        """Return the name of the stream of the bucket that a call names."""
        return f"{self.prefix}{call.options.bucket}"

    def document(self, info: Info) -> dict[str, Any]:
        """Return what is known of a bucket out of the info of its stream."""
        config = info["config"]
        found = {
            "bucket": str(config["name"]).removeprefix(self.prefix),
            "description": config.get("description") or None,
            "stream": config["name"],
            "created": info["created"],
            "bytes": info["state"]["bytes"],
            "ttl_ns": config.get("max_age") or None,
            "max_bytes": limit_of(config.get("max_bytes")),
            "storage": config["storage"],
            "replicas": config["num_replicas"],
            "compressed": config.get("compression", "none") != "none",
            "metadata": config.get("metadata") or None,
            **self.more(info),
        }
        return {name: value for name, value in found.items() if value is not None}


def limit_of(value: int | None) -> int | None:
    """Return a limit of a configuration; None for -1, which says that there is none."""
    return None if value is None or value < 0 else value


def list_buckets(call: Call, kind: BucketKind) -> ExitCode | None:
    """List the buckets."""
    with call.connected() as connection:
        items = sorted(map(kind.document, kind.infos(call.api(connection))), key=lambda each: each["bucket"])

    def show() -> None:
        columns = [TextColumn(heading, of) for heading, _, of in kind.columns]
        rows = [[_value(item, key, of) for _, key, of in kind.columns] for item in items]
        call.out.table(columns, rows)

    call.out.listing(items, show, name="bucket")
    return ExitCode.NOT_THERE if call.options.fail_empty and not items else None


def show_bucket(call: Call, kind: BucketKind) -> None:
    """Show a bucket. Raises: ClientError."""
    from headrace.client.api import JetStreamAssets

    with call.connected() as connection:
        found = JetStreamAssets(call.api(connection)).stream_info(kind.stream(call))
    found.pop("type", None)
    call.out.document(
        {**kind.document(found), "info": found}, lambda: _show(call, kind, found), quiet=call.options.bucket
    )


def _show(call: Call, kind: BucketKind, info: Info) -> None:
    found = kind.document(info)
    facts = (*_BEGINNING, *kind.facts, *_LIMITS, *_PLACE)
    call.out.facts(
        (*((name, _value(found, key, of), of) for name, key, of in facts), *metadata_facts(info["config"])),
        f"bucket {found['bucket']}",
    )


def _value(item: Mapping[str, Any], key: str, kind: ColumnKind) -> Any:
    from headrace.protocol.rfc3339 import parse_time

    value = item.get(key)
    if kind is _TIME and value is not None:
        return parse_time(value)
    return ", ".join(value) if isinstance(value, list) else value


def made(call: Call, kind: BucketKind, config: Mapping[str, Any]) -> ExitCode | None:
    """Make the stream of a bucket as the flags say, and print it; one with these settings stays as it is.

    Raises: CommandError if it is there with other settings.
    """
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamMissingError

    options = call.options
    config = changed_config(call, config)
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        try:
            info = assets.stream_info(str(config["name"]))
        except JetStreamMissingError:
            info = None
        if info is not None:
            changes = differences(info["config"], config)
            if changes and not options.if_not_exists:
                raise other_settings(f"bucket {options.bucket}", changes, shown_field)
            call.out.note(f"{options.bucket}: unchanged")
        elif not options.dry_run:
            answer = assets.create_stream(config)
            call.out.document(
                {**kind.document(answer), "changed": True},
                lambda: _show(call, kind, answer),
                quiet=options.bucket,
            )
            return None
    if info is not None:
        call.out.document(
            {**kind.document(info), "changed": False}, lambda: _show(call, kind, info), quiet=options.bucket
        )
        return None
    changes = all_new(config)
    found = {"bucket": options.bucket, "stream": config["name"], "changed": True, "changes": changes}
    call.out.note(f"{options.bucket} would be made")
    call.out.document(found, lambda: show_changes(call, changes, shown_field), quiet=options.bucket)
    return ExitCode.WRONG


def edited(call: Call, kind: BucketKind) -> ExitCode | None:
    """Change the stream of a bucket as the flags say, and print what changed. Raises: ClientError."""
    from headrace.client.api import JetStreamAssets

    options = call.options
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        info = assets.stream_info(kind.stream(call))
        config = changed_config(call, info["config"])
        changes = differences(info["config"], config)
        if changes and not options.dry_run:
            info = assets.update_stream(config)

    def show() -> None:
        if not changes:
            call.out.line(f"{options.bucket}: unchanged")
            return
        call.out.line(f"{options.bucket}: {'would change' if options.dry_run else 'changed'}")
        show_changes(call, changes, shown_field)

    found = {**kind.document(info), "changed": bool(changes), "changes": changes}
    call.out.document(found, show, quiet=options.bucket)
    return ExitCode.WRONG if changes and options.dry_run else None


def removed(call: Call, kind: BucketKind) -> ExitCode | None:
    """Remove the stream of a bucket after asking for its name. Raises: CommandError for a no; ClientError."""
    from headrace.cli.values import shown_size
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamMissingError

    options = call.options
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        try:
            state = assets.stream_info(kind.stream(call))["state"]
        except JetStreamMissingError:
            if not options.if_exists:
                raise CommandError(f"no bucket {options.bucket}", ExitCode.NOT_THERE) from None
            found = {"bucket": options.bucket, "changed": False}
            call.out.document(found, lambda: call.out.line(f"no bucket {options.bucket}"))
            return None
        count = state["messages"]
        loss = f"{options.bucket}: {count:,} {kind.holds}, {shown_size(state['bytes'])}"
        if not options.dry_run:
            call.confirm(loss, name=options.bucket)
            assets.delete_stream(kind.stream(call))
    found = {"bucket": options.bucket, kind.holds: count, "changed": True}
    verb = "would be removed" if options.dry_run else "removed"
    call.out.document(found, lambda: call.out.line(f"{loss}: {verb}"), quiet=options.bucket)
    return ExitCode.WRONG if options.dry_run else None
