"""Opens a store of nats-server: its accounts, their streams and consumers, and the way to the messages.

    jetstream/ACCOUNT/streams/STREAM/{meta.inf, meta.sum, meta.key, msgs/, obs/, batches/, sources.db}

Source: stores that nats-server 2.10 to 2.15 wrote, and its source. Files are only ever opened for reading.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.importing.findings import Finding, Severity, SourceUnusable
from headrace.jetstream.importing.block_files import BlockFiles
from headrace.jetstream.importing.consumers import CONSUMERS, ConsumerFiles
from headrace.jetstream.importing.detecting import HOME, find_streams
from headrace.jetstream.importing.metadata import BadMetadata, Owner, read_metadata
from headrace.jetstream.importing.raft_log import RaftLogs
from headrace.jetstream.importing.raft_streams import read_tail
from headrace.jetstream.importing.source_positions import read_positions
from headrace.jetstream.importing.stream_messages import StreamMessages
from headrace.jetstream.stream.rules import StreamContext, complete
from headrace.protocol.jetstream.configs import StreamConfig
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.jetstream.importing.crypt import Keys, Opened
    from headrace.jetstream.importing.detecting import FoundStream
    from headrace.jetstream.importing.model import SourceConsumer
    from headrace.jetstream.importing.source_positions import SourcePosition


_BATCHES: Final = "batches"


class SourceStream(Struct, frozen=True):
    """A stream, its consumers, what is wrong with their files, and the way to its messages.

    `message_bytes` is the size of its blocks: what there is to read, for progress.
    """

    account: str
    config: StreamConfig
    created_ns: int
    consumers: tuple[SourceConsumer, ...]
    findings: tuple[Finding, ...]
    positions: tuple[SourcePosition, ...]
    message_bytes: int
    shown: str
    files: BlockFiles
    opened: Opened | None
    raft: RaftLogs

    def messages(self) -> StreamMessages:
        """A fresh reading of the messages."""
        behind = partial(read_tail, self.raft, self.account, self.config.name)
        is_replicated = self.config.num_replicas > 1
        return StreamMessages(
            self.files, self.config.name, self.opened, self.shown, behind if is_replicated else None
        )


class SourceStreamStore(Struct, frozen=True):
    """A whole store. `findings`: streams that cannot be read at all."""

    directory: Path
    streams: tuple[SourceStream, ...]
    findings: tuple[Finding, ...]


def open_store(directory: Path, keys: Keys) -> SourceStreamStore:
    """Read a store but for its messages. `directory`: the server's `store_dir`, or `jetstream` in it.

    Raises: SourceUnusable when there is no such store, or nothing of it can be read; NoKey.
    """
    home = directory / HOME if (directory / HOME).is_dir() else directory
    if not home.is_dir():
        raise SourceUnusable(f"{directory} is no directory")
    try:
        found = list(find_streams(home))
    except OSError as error:
        raise SourceUnusable(f"cannot read {error.filename}: {error.strerror}") from error
    if not found:
        raise SourceUnusable(f"{directory} has no streams of nats-server (ACCOUNT/streams/STREAM)")
    raft = RaftLogs(home, keys)
    findings: list[Finding] = []
    streams = []
    wrong_keys = 0
    for one in found:
        try:
            streams.append(_stream(one, keys, raft))
        except BadMetadata as error:
            name = f"{one.account}/{one.name}/{error.file}"
            findings.append(Finding(Severity.DAMAGED, name, f"{error}; this stream is left out"))
            wrong_keys += error.is_key
    if not streams:
        hint = "is the key another one?" if wrong_keys == len(findings) else "nothing can be imported"
        raise SourceUnusable(f"{findings[0]}, and so is every other: {hint}")
    return SourceStreamStore(home, tuple(streams), tuple(findings))


def _stream(found: FoundStream, keys: Keys, raft: RaftLogs) -> SourceStream:
    """Read a stream of the store. Raises: BadMetadata, NoKey, SourceUnusable."""
    if not f"{found.account}{found.name}".isascii():
        _check_encoding(found)
    shown = f"{found.account}/{found.name}"
    metadata = read_metadata(
        found.directory, StreamConfig, Owner(found.account, found.name, found.name), keys
    )
    config = metadata.config
    if config.name != found.name:
        raise BadMetadata(f"it is of another stream, {config.name!r}")
    try:
        config = complete(config, StreamContext(config.name))
    except ApiError as error:
        raise BadMetadata(f"nats-server would not serve it: {error}") from error
    findings = [Finding(kind, f"{shown}/meta.inf", text) for kind, text in metadata.notes]
    if _has_entries(found.directory / _BATCHES):
        text = "atomic batches that were not stored yet are left out"
        findings.append(Finding(Severity.NOTE, f"{shown}/{_BATCHES}", text))
    consumer_files = ConsumerFiles(found.account, config, keys, raft, findings)
    consumers = [
        consumer
        for place in _directories(found.directory / CONSUMERS)
        if (consumer := consumer_files.read(place, f"{shown}/{CONSUMERS}/{place.name}")) is not None
    ]
    positions = read_positions(found.directory, shown, findings)
    files = BlockFiles(found.directory, found.account, config.name, keys, shown)
    return SourceStream(
        account=found.account,
        config=config,
        created_ns=metadata.created_ns,
        consumers=tuple(consumers),
        findings=tuple(findings),
        positions=positions,
        message_bytes=sum(files.size(number) for number in files.numbers),
        shown=shown,
        files=files,
        opened=metadata.opened,
        raft=raft,
    )


def _check_encoding(found: FoundStream) -> None:
    """Names in a file system may be any bytes. Raises: BadMetadata."""
    try:
        f"{found.account}{found.name}".encode()
    except UnicodeEncodeError as error:
        raise BadMetadata("the name of its directory is no UTF-8") from error


def _directories(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SourceUnusable(f"cannot read {error.filename}: {error.strerror}") from error


def _has_entries(directory: Path) -> bool:
    return bool(_directories(directory))
