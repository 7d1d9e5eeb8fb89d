"""`headrace stream copy`: a stream with the configuration of another one, and with its messages."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.api import JetStreamAssets

Document = dict[str, Any]

_PAUSE: Final = 0.05
"""Seconds between two questions how far the copy is."""
_PATIENCE: Final = 30.0
"""Seconds without another message after which the copy counts as stuck."""
_NOT_IN_MIRRORS: Final = (
    "subjects", "sources", "subject_transform", "republish", "first_seq", "allow_msg_schedules",
    "subject_delete_marker_ttl",
)  # fmt: skip
"""Fields that a mirror may not have; the copy gets them when it has its messages."""


def copy(call: Call) -> ExitCode | None:
    """Copy a stream. Raises: CommandError (wrong use; the target is there), ClientError."""
    from headrace.client.api import JetStreamAssets

    options = call.options
    if options.data and options.config_only:
        raise CommandError("--data and --config-only exclude each other", ExitCode.WRONG_USE)
    if not options.data and (options.since is not None or options.subject is not None):
        raise CommandError("--since and --subject need --data", ExitCode.WRONG_USE)
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        source = assets.stream_info(options.stream)
        config = _wanted(call, source["config"])
        _check_free(assets, options.target)
        if options.dry_run:
            return _would_copy(call, config)
        info = _with_data(call, assets, source, config) if options.data else assets.create_stream(config)
    for name in ("type", "did_create"):
        info.pop(name, None)
    count = info["state"]["messages"]
    text = f"{options.target}: {f'{count:,} messages' if options.data else 'the configuration'} copied"
    call.out.document(info, lambda: call.out.line(text), quiet=options.target)
    return _complained(call, source, info)


def _wanted(call: Call, source: Document) -> Document:
    """The configuration of the copy. Raises: CommandError."""
    from headrace.cli.client.stream_config import changed_config

    options = call.options
    config = changed_config(source, options) | {"name": options.target}
    if not options.subjects:
        config.pop(
            "subjects", None
        )  # two streams cannot take the same subjects: the server gives it its name
    if options.data:
        if source.get("retention", "limits") != "limits":
            text = (
                f"{options.stream} has retention {source['retention']}: a copy would take its messages. "
                "Use stream backup and stream restore --name"
            )
            raise CommandError(text)
        for name in ("mirror", "sources", "mirror_direct"):
            config.pop(name, None)
    return config


def _check_free(assets: JetStreamAssets, name: str) -> None:
    from headrace.client.errors import JetStreamMissingError

    try:
        assets.stream_info(name)
    except JetStreamMissingError:
        return
    raise CommandError(f"stream {name} is there already", ExitCode.EXISTS)


def _would_copy(call: Call, config: Document) -> ExitCode | None:
    from headrace.cli.client.config_changes import all_new, say_changes
    from headrace.cli.client.stream_config import shown_field

    return say_changes(call, {"name": config["name"]}, all_new(config), shown_field)


def _with_data(call: Call, assets: JetStreamAssets, source: Document, config: Document) -> Document:
    """Make the copy a mirror until it has the messages, then a stream of its own: it keeps their sequences
    and times. A copy that fails is removed.
    """
    options = call.options
    last = _last_wanted(call, assets)
    mirror: Document = {"name": options.stream}
    if options.subject is not None:
        mirror["filter_subject"] = options.subject
    if options.since is not None:
        from headrace.protocol.rfc3339 import format_time

        mirror["opt_start_time"] = format_time(options.since)
    first = {name: value for name, value in config.items() if name not in _NOT_IN_MIRRORS}
    assets.create_stream(first | {"mirror": mirror})
    try:
        if last is not None:
            _wait(call, assets, last, source["state"]["messages"])
        return assets.update_stream(config | {"name": options.target})
    except BaseException:
        if assets.api.connection.is_open:
            assets.delete_stream(options.target)
        raise


def _last_wanted(call: Call, assets: JetStreamAssets) -> int | None:
    """The sequence of the last message that is to be copied; None if there is none."""
    from headrace.client.stored_messages import ReadableStream

    # Not the last one of `>`, which nats-server does not find if its message was removed.
    options = call.options
    stored = ReadableStream(assets, options.stream)
    last = next(stored.backward(subject=options.subject, since_ns=options.since), None)
    return None if last is None else last.sequence


def _wait(call: Call, assets: JetStreamAssets, last: int, total: int) -> None:
    """Return when the copy has a sequence. Raises: CommandError if it is stuck."""
    name = call.options.target
    with call.progress(f"copying {call.options.stream}", "messages") as bars:
        reached, deadline = -1, monotonic() + _PATIENCE
        while True:
            info = assets.stream_info(name)
            state = info["state"]
            bars.show(state["messages"], max(total, state["messages"]))
            if state["last_seq"] >= last:
                return
            if state["last_seq"] > reached:
                reached, deadline = state["last_seq"], monotonic() + _PATIENCE
            if monotonic() >= deadline:
                error = (info.get("mirror") or {}).get("error") or {}
                reason = error.get("description", f"no message for {_PATIENCE:g} s")
                raise CommandError(
                    f"{name} is stuck at sequence {reached} of {last}: {reason}", ExitCode.TIMED_OUT
                )
            sleep(_PAUSE)


def _complained(call: Call, source: Document, info: Document) -> ExitCode | None:
    """Say if a copy of all messages has fewer than there were when it began; then 3."""
    options = call.options
    if not options.data or options.since is not None or options.subject is not None:
        return None
    before, after = source["state"]["messages"], info["state"]["messages"]
    if after >= before:
        return None
    call.out.warn(f"{options.stream} had {before} messages, {options.target} has {after}")
    return ExitCode.WRONG
