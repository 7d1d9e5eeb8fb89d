"""Opens a file store of NATS Streaming: who it belongs to, its clients, its channels.

    server.dat   clients.dat   .rootdir.lck   CHANNEL/{subs.dat, msgs.N.dat, msgs.N.idx}

Source of the format: the server's 0.25 stores in tests/unit/streaming/golden and what it does with damaged
ones. Files are only ever opened for reading.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.errors import ProtocolError
from headrace.importing.findings import Finding, Severity, SourceUnusable
from headrace.protocol.stan import ClientInfo, ServerInfo
from headrace.streaming.importing.checksums import Checksum, detect
from headrace.streaming.importing.detecting import SERVER_FILE, SUBSCRIPTIONS_FILE
from headrace.streaming.importing.journals import ClientsJournal, SubscriptionsJournal
from headrace.streaming.importing.records import (
    HEADER,
    INDEX,
    START,
    VERSION,
    ByteFile,
    Record,
    listed,
    record_at,
    shown_name,
    version_of,
)
from headrace.streaming.importing.slices import ChannelMessages, slices_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.streaming.importing.model import SourceSubscription

_CLIENTS: Final = "clients.dat"


class SourceChannel(Struct, frozen=True):
    """A channel: its subscriptions, what is wrong with their file, and the way to its messages.

    `message_bytes` is the size of its message files: what there is to read, for progress.
    """

    name: bytes
    directory: Path
    checksum: Checksum | None
    subscriptions: tuple[SourceSubscription, ...]
    findings: tuple[Finding, ...]
    message_bytes: int

    @property
    def shown(self) -> str:
        """The name for people."""
        return shown_name(self.directory)

    def messages(self) -> ChannelMessages:
        """A fresh reading of the messages."""
        return ChannelMessages(self.directory, self.name, self.checksum)


class SourceChannelStore(Struct, frozen=True):
    """A whole store. `server` is None when its file is damaged or missing, as a finding tells."""

    directory: Path
    checksum: Checksum | None
    server: ServerInfo | None
    clients: tuple[ClientInfo, ...]
    channels: tuple[SourceChannel, ...]
    findings: tuple[Finding, ...]
    """Findings about the files above the channels."""
    clients_are_whole: bool
    """No client can be missing: their file has no damage."""


def open_store(
    directory: Path, checksum: Checksum | None = None, *, verify: bool = True
) -> SourceChannelStore:
    """Read a store but for its messages.

    Checksums are found out unless `checksum` names one; `verify` False reads without any. Raises:
    SourceUnusable when this is no such store, is of another version, or cannot be read.
    """
    folders = [path for path in listed(directory) if path.is_dir()]
    channels = [path for path in folders if (path / SUBSCRIPTIONS_FILE).is_file() or slices_of(path)]
    files = [directory / SERVER_FILE, directory / _CLIENTS]
    if not channels and not files[0].is_file():
        raise SourceUnusable(f"{directory} is no file store of NATS Streaming: no {SERVER_FILE}, no channels")
    for channel in channels:
        files += [channel / SUBSCRIPTIONS_FILE, *(slice_.path for slice_ in slices_of(channel))]
    files = [path for path in files if path.is_file()]
    _check_versions(files)
    if not verify:
        checksum = None
    elif checksum is None:
        checksum = detect(_samples(files))
    findings: list[Finding] = []
    if checksum is None and verify and any(path.stat().st_size > START for path in files):
        text = "no known checksum fits, so damage inside payloads cannot be told"
        findings.append(Finding(Severity.NOTE, shown_name(directory), text))
    server = _read_server(directory, checksum, findings)
    clients = ClientsJournal()
    if (directory / _CLIENTS).is_file():
        clients.replay(directory / _CLIENTS, _CLIENTS, checksum)
    else:
        clients.findings.append(Finding(Severity.MISSING, _CLIENTS, "the file is missing"))
    return SourceChannelStore(
        directory=directory,
        checksum=checksum,
        server=server,
        clients=tuple(clients.clients()),
        channels=tuple(_read_channel(path, checksum) for path in channels),
        findings=(*findings, *clients.findings),
        clients_are_whole=not any(finding.is_damage for finding in clients.findings),
    )


def _check_versions(files: list[Path]) -> None:
    """A single wrong version is damage; all of them wrong is another format."""
    versions = set()
    for path in files:
        with ByteFile(path, shown_name(path)) as file:
            versions.add(version_of(file))
    versions.discard(None)
    if versions and VERSION not in versions:
        shown = ", ".join(str(version) for version in versions)
        raise SourceUnusable(f"the store's files have version {shown}; only {VERSION} is known")


def _samples(files: list[Path]) -> Iterator[tuple[bytes, int]]:
    """The first record of every file, and the first entry of every index, with their checksums."""
    for path in files:
        with ByteFile(path, shown_name(path)) as file:
            record = record_at(file, START, None, typed=path.name in (_CLIENTS, SUBSCRIPTIONS_FILE))
            if isinstance(record, Record):
                yield record.body, HEADER.unpack(file.read(START, HEADER.size))[1]
        index = path.with_suffix(".idx")
        if index.is_file():
            with ByteFile(index, shown_name(index)) as file:
                entry = file.read(START, INDEX.size)
                if len(entry) == INDEX.size:
                    yield entry[:-4], int.from_bytes(entry[-4:], "little")


def _read_server(directory: Path, checksum: Checksum | None, findings: list[Finding]) -> ServerInfo | None:
    path = directory / SERVER_FILE
    if not path.is_file():
        findings.append(Finding(Severity.MISSING, SERVER_FILE, "the file is missing"))
        return None
    with ByteFile(path, SERVER_FILE) as file:
        version = version_of(file)
        if version != VERSION:
            findings.append(Finding(Severity.DAMAGED, SERVER_FILE, f"version {version} is unknown", 0, START))
        record = record_at(file, START, checksum, typed=False)
        length = file.size - START
        if not isinstance(record, Record):
            findings.append(Finding(Severity.DAMAGED, SERVER_FILE, record.why, START, length))
            return None
        try:
            info = ServerInfo.decode(record.body)
            if not info.cluster_id:
                raise ProtocolError("no cluster ID")
        except ProtocolError as error:
            text = f"no server information ({error})"
            findings.append(Finding(Severity.DAMAGED, SERVER_FILE, text, START, length))
            return None
        if record.end != file.size:
            text = "more than one record"
            findings.append(Finding(Severity.NOTE, SERVER_FILE, text, record.end, file.size - record.end))
        return info


def _read_channel(path: Path, checksum: Checksum | None) -> SourceChannel:
    name = os.fsencode(path.name)
    subscriptions = (
        SubscriptionsJournal() if checksum is not None else SubscriptionsJournal(_highest(path, name))
    )
    journal = path / SUBSCRIPTIONS_FILE
    if journal.is_file():
        subscriptions.replay(journal, shown_name(journal, 2), checksum)
    else:
        text = "the file is missing"
        subscriptions.findings.append(Finding(Severity.MISSING, shown_name(journal, 2), text))
    return SourceChannel(
        name=name,
        directory=path,
        checksum=checksum,
        subscriptions=tuple(subscriptions.subscriptions()),
        findings=tuple(subscriptions.findings),
        message_bytes=sum(slice_.path.stat().st_size for slice_ in slices_of(path)),
    )


def _highest(path: Path, name: bytes) -> int:
    """The last sequence of a channel without checksums."""
    messages = ChannelMessages(path, name, None)
    for _ in messages.items():
        pass
    return max(messages.last_sequence, messages.listed_sequence)
