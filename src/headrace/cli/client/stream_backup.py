"""`headrace stream backup` and `restore`, `account backup` and `restore`: streams in directories and back."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.call import Call
    from headrace.client.backup_directory import BackupDirectory
    from headrace.client.jetstream_api import JetStreamApi

Document = dict[str, Any]


def backup(call: Call) -> ExitCode | None:
    """Back a stream up. Raises: CommandError if there is a backup already, JetStreamMissingError."""
    from headrace.client.backup_directory import BackupDirectory

    directory = BackupDirectory(call.options.dir)
    if directory.is_whole and not call.options.force:
        text = f"{directory.path} has a backup already: --force writes over it"
        raise CommandError(text, ExitCode.EXISTS)
    with call.connected() as connection:
        found = _back_up(call, call.api(connection), call.options.stream, directory)
    _shown(call, found, f"{found['stream']}: {found['messages']:,} messages are in {directory.path}")
    return _complained(call, found)


def restore(call: Call) -> ExitCode | None:
    """Make a stream of a backup. Raises: CommandError, BackupDamagedError, JetStreamExistsError."""
    from headrace.client.backup_directory import BackupDirectory

    directory = BackupDirectory(call.options.dir)
    with call.connected() as connection:
        api = call.api(connection)
        if not directory.is_whole:
            raise CommandError(f"{directory.path} has no whole backup", ExitCode.NOT_THERE)
        config = _wanted_config(call, directory)
        if call.options.dry_run:
            return _would_restore(call, api, directory, config)
        found = _bring_back(call, api, directory, config)
    _shown(call, found, f"{found['stream']}: {found['messages']:,} messages are restored")
    return _complained(call, found)


def backup_account(call: Call) -> ExitCode | None:
    """Back all streams up; those whose backup is whole are kept, so a run that was cut off goes on.

    Raises: ClientError; an error about one stream is listed, and the others go on.
    """
    from headrace.client.api import JetStreamAssets
    from headrace.client.backup_directory import BackupDirectory

    folder = Path(call.options.dir)
    with call.connected() as connection:
        api = call.api(connection)
        names = [
            name for name in JetStreamAssets(api).stream_names() if _is_wanted(name, call.options.streams)
        ]

        def do(name: str) -> Document:
            directory = BackupDirectory(folder / name)
            if directory.is_whole and not call.options.force:
                return {"stream": name, "directory": str(directory.path), "done": False}
            return _back_up(call, api, name, directory)

        return _each(call, sorted(names), do, kept="has a backup already, which is kept")


def restore_account(call: Call) -> ExitCode | None:
    """Make streams of all backups; those that are there as in their backup are kept, so a run goes on.

    Raises: CommandError if there is no backup; ClientError; an error about one stream is listed, and the
    others go on.
    """
    from headrace.client.api import JetStreamAssets
    from headrace.client.backup_directory import BackupDirectory
    from headrace.client.errors import JetStreamMissingError

    folder = Path(call.options.dir)
    with call.connected() as connection:
        api = call.api(connection)
        assets = JetStreamAssets(api)
        found = [BackupDirectory(path) for path in sorted(folder.iterdir()) if path.is_dir()]
        directories = {
            directory.path.name: directory
            for directory in found
            if directory.is_whole and _is_wanted(directory.path.name, call.options.only)
        }
        if not directories:
            raise CommandError(f"{folder} has no whole backups of that name", ExitCode.NOT_THERE)

        def do(name: str) -> Document:
            directory = directories[name]
            config, state = directory.facts()
            if call.options.replicas is not None:
                config["num_replicas"] = call.options.replicas
            try:
                there = assets.stream_info(config["name"])["state"]
            except JetStreamMissingError:
                if call.options.dry_run:
                    return {"stream": config["name"], "directory": str(directory.path), "done": False,
                            "messages": state["messages"]}  # fmt: skip
                return _bring_back(call, api, directory, config)
            keys = ("messages", "first_seq", "last_seq")
            if any(there.get(key) != state.get(key) for key in keys):
                text = f"stream {config['name']} is there with other messages"
                raise CommandError(text, ExitCode.EXISTS)
            return {"stream": config["name"], "directory": str(directory.path), "done": False}

        return _each(call, list(directories), do, kept="is there already")


def _is_wanted(name: str, glob: str | None) -> bool:
    return glob is None or fnmatchcase(name, glob)


def _each(call: Call, names: list[str], do: Callable[[str], Document], *, kept: str) -> ExitCode | None:
    """Do something for each stream, and print what became of it; return the first code that is not 0."""
    from headrace.cli.outcomes import code_of
    from headrace.client.errors import ClientError, ConnectionLostError

    items: list[Document] = []
    codes: list[ExitCode] = []
    for name in names:
        try:
            item = do(name)
        except KeyboardInterrupt:
            done = sum(1 for item in items if item.get("done"))
            call.out.warn(f"{done} of {len(names)} streams are done; the same command goes on")
            raise
        except ConnectionLostError:
            call.out.warn(f"cut off at {name}; the same command goes on")
            raise
        except (ClientError, CommandError, OSError) as error:
            item = {"stream": name, "done": False, "error": str(error)}
            codes.append(code_of(error))
        if item.get("differs"):
            codes.append(ExitCode.WRONG)
        if call.row.changes and call.options.dry_run and "messages" in item:
            codes.append(ExitCode.WRONG)
        items.append(item)

    def show() -> None:
        for item in items:
            words = item.get("error") or (f"{item['messages']:,} messages" if "messages" in item else kept)
            call.out.line(f"{item['stream']}: {words}")

    call.out.listing(items, show, name="stream")
    for item in items:
        if item.get("differs"):
            call.out.warn(f"{item['stream']}: {item['differs']}")
    return codes[0] if codes else None


def _back_up(call: Call, api: JetStreamApi, stream: str, directory: BackupDirectory) -> Document:
    options = call.options
    with call.progress(f"backing up {stream}", "bytes") as bars:
        taken = directory.take(
            api, stream, with_consumers=not options.no_consumers, check=options.check, progress=bars.show
        )
    found = {
        "stream": stream,
        "directory": str(directory.path),
        "done": True,
        "size_bytes": taken.size_bytes,
        "messages": taken.state["messages"],
        "first_sequence": taken.state["first_seq"],
        "last_sequence": taken.state["last_seq"],
    }
    if not options.no_verify:
        found |= _verified(call, stream, directory)
    return found


def _verified(call: Call, stream: str, directory: BackupDirectory) -> Document:
    """The counts of a backup on the disk, and what differs from what it says. Raises: BackupDamagedError."""
    with call.progress(f"checking {stream}", "bytes") as bars:
        contents = directory.contents(bars.show)
    found: Document = {"messages": contents.messages, "consumers": contents.consumers}
    said = contents.state.get("messages")
    if said != contents.messages:
        found["differs"] = f"the backup says {said} messages and has {contents.messages}"
    return found


def _bring_back(call: Call, api: JetStreamApi, directory: BackupDirectory, config: Document) -> Document:
    _, state = directory.facts()
    with call.progress(f"restoring {config['name']}", "bytes") as bars:
        info = directory.restore(api, config, progress=bars.show)
    there = info["state"]
    found: Document = {
        "stream": config["name"],
        "directory": str(directory.path),
        "done": True,
        "size_bytes": directory.size_bytes,
        "messages": there["messages"],
        "consumers": there.get("consumer_count", 0),
        "first_sequence": there["first_seq"],
        "last_sequence": there["last_seq"],
    }
    if there["messages"] != state["messages"]:
        found["differs"] = f"the backup has {state['messages']} messages, the stream {there['messages']}"
        if config.get("max_age") or config.get("allow_msg_ttl"):
            found["differs"] += "; messages that were too old were left out"
    return found


def _would_restore(call: Call, api: JetStreamApi, directory: BackupDirectory, config: Document) -> ExitCode:
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamMissingError

    name = config["name"]
    try:
        JetStreamAssets(api).stream_info(name)
    except JetStreamMissingError:
        pass  # as it should be
    else:
        raise CommandError(f"stream {name} is there already", ExitCode.EXISTS)
    found = {"stream": name, "directory": str(directory.path), "done": False}
    found |= _verified(call, name, directory)
    _shown(call, found, f"{name}: {found['messages']:,} messages would be restored")
    _complained(call, found)
    return ExitCode.WRONG


def _wanted_config(call: Call, directory: BackupDirectory) -> Document:
    """The configuration of the backup, with what the flags say. Raises: CommandError, BackupDamagedError."""
    from headrace.cli.client.stream_config import config_of_file

    options = call.options
    config, _ = directory.facts()
    if options.config:
        config |= config_of_file(options.config) | {"name": config["name"]}
    if options.name is not None:
        config["name"] = options.name
    if options.replicas is not None:
        config["num_replicas"] = options.replicas
    placement = {"cluster": options.cluster, "tags": options.tag}
    if any(placement.values()):
        config["placement"] = {name: value for name, value in placement.items() if value}
    return config


def _shown(call: Call, found: Document, text: str) -> None:
    call.out.document(found, lambda: call.out.line(text), quiet=found["stream"])


def _complained(call: Call, found: Document) -> ExitCode | None:
    if "differs" not in found:
        return None
    call.out.warn(f"{found['stream']}: {found['differs']}")
    return ExitCode.WRONG
