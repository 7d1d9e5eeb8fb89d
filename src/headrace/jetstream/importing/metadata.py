"""`meta.inf`: the configuration of a stream or consumer and when it was made, with its checksum and its key.

Where the checksum is wrong, the configuration is taken all the same if it can be read, with a finding. Fields
that are not known here are left out, with a note. Source: nats-server 2.15 (filestore.go).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from headrace.engine import message_blocks
from headrace.importing.findings import ImportFailed, Severity
from headrace.jetstream.importing.block_files import read_file
from headrace.jetstream.importing.crypt import KEY_FILE, WrongKey
from headrace.jetstream.importing.detecting import META
from headrace.protocol.jetstream.configs import ConsumerConfig, StreamConfig
from headrace.protocol.rfc3339 import parse_time

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.jetstream.importing.crypt import Keys, Opened

_SUM: Final = "meta.sum"
_BESIDES: Final = ("Created", "Name")
"""Fields of the file that are none of the configuration."""
_NEVER: Final = "0001-01-01T00:00:00Z"

Config = TypeVar("Config", StreamConfig, ConsumerConfig)


class BadMetadata(ImportFailed):
    """The metadata of a stream or consumer cannot be read.

    `file`: which one cannot be read; `is_key`: because the given key does not open it.
    """

    def __init__(self, text: str, file: str = META, *, is_key: bool = False) -> None:
        super().__init__(text)
        self.file: Final = file
        self.is_key: Final = is_key


class Metadata(NamedTuple, Generic[Config]):
    """The contents of a metadata file.

    `opened`: its key, if it is encrypted. `notes`: what is wrong, or left out.
    """

    config: Config
    created_ns: int
    opened: Opened | None
    notes: list[tuple[Severity, str]]


class Owner(NamedTuple):
    """The owner of metadata.

    Its encryption key is derived from `account` and `context`, the key of its checksum from `hashed`.
    """

    account: str
    context: str
    hashed: str


def read_metadata(directory: Path, kind: type[Config], owner: Owner, keys: Keys) -> Metadata[Config]:
    """Read the metadata of a stream or consumer. Raises: BadMetadata, NoKey, SourceUnusable."""
    path = directory / META
    if not path.is_file():
        raise BadMetadata("the file is missing")
    data = read_file(path)
    notes: list[tuple[Severity, str]] = []
    opened = None
    if not _is_sound(directory, data, owner.hashed):
        notes.append((Severity.DAMAGED, "its checksum does not hold: look whether this is the configuration"))
    try:
        if (directory / KEY_FILE).is_file():
            opened = keys.open(owner.account, owner.context, read_file(directory / KEY_FILE))
            data = opened.unseal(data)
        fields = msgspec.json.decode(data, type=dict[str, Any])
    except WrongKey as error:
        raise BadMetadata(str(error), META if opened else KEY_FILE, is_key=opened is None) from error
    except (ValueError, RecursionError) as error:
        raise BadMetadata(f"it cannot be read: {error}") from error
    created_ns = _created_ns(fields.get("Created"))
    if created_ns is None:
        created_ns = path.stat().st_mtime_ns
        notes.append((Severity.NOTE, "it does not say when it was made: the time of the file is taken"))
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    strange = sorted(fields.keys() - known - set(_BESIDES))
    if strange:
        notes.append((Severity.NOTE, f"fields that are not known here are left out: {', '.join(strange)}"))
    try:
        config = msgspec.convert({name: fields[name] for name in fields.keys() & known}, kind)
    except ValueError as error:
        raise BadMetadata(f"its configuration cannot be read: {error}") from error
    return Metadata(config, created_ns, opened, notes)


def _created_ns(text: object) -> int | None:
    """Parse the time of creation; None if there is none."""
    if not isinstance(text, str) or text == _NEVER:
        return None
    try:
        return max(parse_time(text), 0)
    except ValueError:
        return None


def _is_sound(directory: Path, data: bytes, hashed: str) -> bool:
    path = directory / _SUM
    key = hashlib.sha256(hashed.encode()).digest()
    return path.is_file() and read_file(path) == message_blocks.checksum(key, data).hex().encode()
