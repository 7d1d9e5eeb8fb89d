"""`headrace stream add` and `edit`: streams made and changed, with the difference shown first."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.client.config_changes import (
    Changes,
    all_new,
    other_settings,
    say_changes,
    show_changes,
    without_server_metadata,
)
from headrace.cli.client.stream_config import asked_config, changed_config, differences, shown_field
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.api import JetStreamAssets

Document = dict[str, Any]

_QUESTIONS: Final = (
    ("subjects", "Subjects that it takes, with commas", ""),
    ("storage", "Where messages are stored (file, memory)", "file"),
    ("retention", "When messages go (limits, interest, work)", "limits"),
    ("max_age", "How long messages stay (7d; 0 for ever)", "0"),
    ("max_bytes", "How much it keeps (10GB; -1 without limit)", "-1"),
    ("replicas", "How many servers have it", "1"),
)
"""The six questions of `--wizard`: the flag, the question, the usual answer."""


def add(call: Call) -> ExitCode | None:
    """Make a stream. Raises: CommandError (wrong use; there with other settings), ClientError."""
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamExistsError

    options = call.options
    if options.wizard:
        _ask(call)
    config = asked_config(options)
    name = options.stream or config.get("name")
    if not name:
        raise CommandError("the name of the stream is missing", ExitCode.WRONG_USE)
    config["name"] = name
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        before = _there(assets, name)
        if options.dry_run:
            return _would_add(call, before, config)
        try:
            found = assets.create_stream(config)
        except JetStreamExistsError:
            if before is None:
                before = _there(assets, name)  # somebody else made it meanwhile
            if before is None:
                raise
            if not options.if_not_exists:
                raise _other_settings(before, config) from None
            call.out.note(f"{name} is there with another configuration; nothing was changed")
            found = before
    if before is not None and found is not before:
        call.out.note(f"{name}: unchanged")
    _shown(call, found)
    return None


def edit(call: Call) -> ExitCode | None:
    """Change a stream. Raises: CommandError, ClientError."""
    from headrace.client.api import JetStreamAssets

    name = call.options.stream
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        before = assets.stream_info(name)
        after = changed_config(before["config"], call.options) | {"name": name}
        if call.options.editor:
            after = _edited(after) | {"name": name}
        changes = differences(before["config"], after)
        if call.options.dry_run:
            return say_changes(call, {"name": name}, changes, shown_field)
        if not changes:
            call.out.note(f"{name}: unchanged")
            call.out.document(before, lambda: None, quiet=name)
            return None
        if not (call.out.is_json or call.out.is_quiet):
            show_changes(call, changes, shown_field)
        found = assets.update_stream(after)
    found.pop("type", None)
    call.out.note(f"{name}: changed")
    call.out.document(found, lambda: None, quiet=name)
    return None


def _there(assets: JetStreamAssets, name: str) -> Document | None:
    from headrace.client.errors import JetStreamMissingError

    try:
        return assets.stream_info(name)
    except JetStreamMissingError:
        return None


def _would_add(call: Call, before: Document | None, config: Document) -> ExitCode | None:
    named = {"name": str(config["name"])}
    if before is None:
        call.out.note(f"{config['name']} would be made")
        return say_changes(call, named, all_new(config), shown_field)
    changes = _against(before, config)
    if changes and not call.options.if_not_exists:
        raise _other_settings(before, config)
    return say_changes(call, named, {}, shown_field)


def _against(before: Document, config: Document) -> Changes:
    """The fields in which a stream that is there differs from a configuration that is asked for."""
    asked = {"subjects": [config["name"]]} | config
    if config.get("mirror") or config.get("sources"):
        asked["subjects"] = config.get("subjects", [])
    return differences(before["config"], asked)


def _other_settings(before: Document, config: Document) -> CommandError:
    return other_settings(f"stream {config['name']}", _against(before, config), shown_field)


def _shown(call: Call, found: Document) -> None:
    from headrace.cli.client.stream_info import show_info

    found.pop("type", None)
    found.pop("did_create", None)
    call.out.document(found, lambda: show_info(call, found), quiet=str(found["config"]["name"]))


def _edited(config: Document) -> Document:
    """The configuration as a person leaves it in an editor. Raises: CommandError."""
    import shlex
    import subprocess
    import tempfile

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise CommandError("--editor: the variable EDITOR is not set", ExitCode.WRONG_USE)
    with tempfile.NamedTemporaryFile("w+", suffix=".json", encoding="utf-8") as file:
        json.dump(config, file, indent=2, ensure_ascii=False)
        file.flush()
        code = subprocess.run([*shlex.split(editor), file.name], check=False).returncode
        if code:
            raise CommandError(f"the editor ended with {code}; nothing was done")
        with open(file.name, encoding="utf-8") as changed:
            text = changed.read()
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CommandError(f"not JSON: {error}; nothing was done", ExitCode.WRONG_USE) from None
    if not isinstance(found, dict):
        raise CommandError("not a JSON object; nothing was done", ExitCode.WRONG_USE)
    return without_server_metadata(found)


def _ask(call: Call) -> None:
    """Ask for what the flags do not say, and show the command that needs no questions."""
    import shlex

    from headrace.cli.confirm import ask

    options = call.options
    quiet = call.shared.no_interaction
    if not options.stream:
        options.stream = ask(quiet, "Name of the stream")
    said = [call.program, "stream", "add", options.stream]
    for target, question, usual in _QUESTIONS:
        if getattr(options, target) is None:
            answer = ask(quiet, question, usual)
            if answer == usual:
                continue
            setattr(options, target, _value(target, answer))
            said += [f"--{target.replace('_', '-')}", answer]
    call.out.note(f"the same without questions: {shlex.join(said)}")


def _value(target: str, answer: str) -> Any:
    if target == "subjects":
        return [answer]
    if target == "replicas":
        if not answer.isdigit():
            raise CommandError(f"{answer!r}: not a number of servers", ExitCode.WRONG_USE)
        return int(answer)
    return answer
