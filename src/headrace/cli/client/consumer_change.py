"""`headrace consumer add` and `edit`: consumers made and changed, with the difference shown first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.client.config_changes import Changes, all_new, other_settings, say_changes, show_changes
from headrace.cli.client.consumer_config import (
    DEAD_LETTERS,
    changed_config,
    differences,
    new_config,
    shown_field,
)

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.cli.outcomes import CommandError, ExitCode
    from headrace.client.api import JetStreamAssets
    from headrace.client.blocking import Connection

Document = dict[str, Any]


def add(call: Call) -> ExitCode | None:
    """Make a consumer. Raises: CommandError (wrong use; there with other settings), ClientError."""
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamExistsError

    stream = call.options.stream
    config = new_config(call.options)
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        before = _there(assets, stream, config.get("name"))
        if call.options.dry_run:
            return _would_add(call, assets, before, config)
        try:
            found = assets.create_consumer(stream, config, action="create")
        except JetStreamExistsError:
            if before is None:
                before = _there(assets, stream, config.get("name"))  # somebody else made it meanwhile
            if before is None:
                raise
            if not call.options.if_not_exists:
                raise _other_settings(before, config) from None
            call.out.note(f"{config['name']} is there with another configuration; nothing was changed")
            found = before
        _mind_dead_letters(call, connection, found["config"])
    if before is not None and found is not before:
        call.out.note(f"{found['name']}: unchanged")
    _shown(call, found)
    return None


def edit(call: Call) -> ExitCode | None:
    """Change a consumer. Raises: CommandError, ClientError."""
    from headrace.client.api import JetStreamAssets

    stream, name = call.options.stream, call.options.consumer
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        before = assets.consumer_info(stream, name)
        after = changed_config(before["config"], call.options)
        changes = differences(before["config"], after)
        if call.options.dry_run:
            return say_consumer_changes(call, changes, name)
        if not changes:
            before.pop("type", None)
            call.out.note(f"{name}: unchanged")
            call.out.document(before, lambda: None, quiet=name)
            return None
        if not (call.out.is_json or call.out.is_quiet):
            show_changes(call, changes, shown_field)
        found = assets.create_consumer(stream, after, action="update")
        _mind_dead_letters(call, connection, found["config"])
    found.pop("type", None)
    call.out.note(f"{name}: changed")
    call.out.document(found, lambda: None, quiet=name)
    return None


def _there(assets: JetStreamAssets, stream: str, name: str | None) -> Document | None:
    from headrace.client.errors import JetStreamMissingError
    from headrace.client.jetstream_api import STREAM_NOT_FOUND

    if not name:
        return None
    try:
        return assets.consumer_info(stream, name)
    except JetStreamMissingError as error:
        if error.err_code == STREAM_NOT_FOUND:
            raise
        return None


def _would_add(
    call: Call, assets: JetStreamAssets, before: Document | None, config: Document
) -> ExitCode | None:
    name = str(config.get("name", ""))
    if before is None:
        assets.stream_info(call.options.stream)
        call.out.note(f"{name or 'a consumer'} would be made")
        return say_consumer_changes(call, all_new(config), name)
    changes = _against(before, config)
    if changes and not call.options.if_not_exists:
        raise _other_settings(before, config)
    return say_consumer_changes(call, {}, name)


def say_consumer_changes(call: Call, changes: Changes, name: str) -> ExitCode | None:
    """Print the changes that a dry run found of a consumer; return 3 if there are any."""
    return say_changes(call, {"stream": call.options.stream, "name": name}, changes, shown_field)


def _against(before: Document, config: Document) -> Changes:
    """The fields in which a consumer that is there differs from a configuration that is asked for."""
    found = differences(before["config"], config)
    found.pop("pause_until", None)  # one that is there stays paused as it is
    return found


def _other_settings(before: Document, config: Document) -> CommandError:
    return other_settings(f"consumer {config['name']}", _against(before, config), shown_field)


def _mind_dead_letters(call: Call, connection: Connection, config: Document) -> None:
    """Say so where the server only keeps the entry of the metadata."""
    commit = str(connection.server_info.fields.get("git_commit", ""))
    if DEAD_LETTERS in (config.get("metadata") or {}) and not commit.startswith("headrace"):
        call.out.warn("this server is not Headrace: it moves no dead letters")


def _shown(call: Call, found: Document) -> None:
    from headrace.cli.client.consumer_info import show_info

    found.pop("type", None)
    call.out.document(found, lambda: show_info(call, found), quiet=str(found["name"]))
