"""The manifest of a backup as JSON, and the places of its parts in a target.

    _headrace/manifests/<time>-<number>.json    one backup: written last, whole and durable
    <SHA-256>.segment                           bytes of segments, those of any backup

A file that no manifest names is of a backup that was cut off; the next one uses it if it can. A manifest ends
with the SHA-256 of its own rest.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.log.segment import base_of
from headrace.objects.port import OWN

if TYPE_CHECKING:
    from datetime import datetime

    from headrace.objects.port import ObjectStore

VERSION: Final = 1
MANIFESTS: Final = f"{OWN}/manifests"
SUFFIX: Final = ".segment"
_DIGEST: Final = 64
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9]{6,}")


class BackupError(HeadraceError):
    """A backup that cannot be made, read or used; says which and why."""


class Part(Struct, frozen=True):
    """One segment. `mark`: what told it from another one where it was read; empty for a log's last one."""

    name: str
    size: int
    sha256: str
    mark: tuple[int, ...] = ()


class Log(Struct, frozen=True):
    """One log: its name, and its segments, oldest first."""

    name: bytes
    parts: tuple[Part, ...]

    @property
    def shown(self) -> str:
        """The name for people; bytes that are no UTF-8 are escaped."""
        return self.name.decode("utf-8", "backslashreplace")


class _Version(Struct):
    version: int


class BackupManifest(Struct, frozen=True):
    """One backup. `source`: the machine and directory it was made of; `account`: None for all of them."""

    version: int
    created: str
    source: str
    account: str | None
    logs: tuple[Log, ...]

    def encode(self) -> bytes:
        """The content of the manifest's file: JSON, a line break, the SHA-256 of the JSON in hexadecimal."""
        data = msgspec.json.encode(self)
        return data + b"\n" + hashlib.sha256(data).hexdigest().encode()


def key_of(sha256: str) -> str:
    """The key in the target of a part with this SHA-256, which is hexadecimal."""
    return sha256 + SUFFIX


def backups_in(store: ObjectStore) -> list[str]:
    """The names of whole backups, oldest first. Raises: StoreError."""
    found = store.list_folder(MANIFESTS).objects
    names = (one.key.rpartition("/")[2].removesuffix(".json") for one in found)
    return sorted(name for name in names if _NAME.fullmatch(name))


def next_name(names: list[str], now: datetime) -> str:
    """Return the name of the next backup. It sorts last, also if a clock went back."""
    time, number = f"{now:%Y%m%dT%H%M%SZ}", 0
    if names:
        last_time, _, last_number = names[-1].partition("-")
        time, number = max(time, last_time), int(last_number) + 1
    return f"{time}-{number:06}"


def read_manifest(store: ObjectStore, name: str) -> BackupManifest:
    """Read the manifest of a backup.

    Raises: BackupError when it is damaged, of a later version or something else; StoreError.
    """
    where = f"{store.location}: backup {name}"
    data = store.get(f"{MANIFESTS}/{name}.json")
    body, _, digest = data.rpartition(b"\n")
    if len(digest) != _DIGEST or hashlib.sha256(body).hexdigest().encode() != digest:
        raise BackupError(f"{where} is damaged, or no backup")
    try:
        version = msgspec.json.decode(body, type=_Version).version
        if version != VERSION:
            raise BackupError(f"{where} is of version {version}; this Headrace reads {VERSION}")
        manifest = msgspec.json.decode(body, type=BackupManifest)
    except msgspec.DecodeError as error:
        raise BackupError(f"{where} cannot be read: {error}") from error
    _check_names(manifest, where)
    return manifest


def _check_names(manifest: BackupManifest, where: str) -> None:
    """Refuse names of logs and segments that no backup writes: they become names of files.

    Raises: BackupError.
    """
    for log in manifest.logs:
        if not log.name:
            raise BackupError(f"{where} has a log without a name")
        for part in log.parts:
            if base_of(part.name) is None or not _HASH.fullmatch(part.sha256):
                raise BackupError(f"{where} has a part that is no segment: {part.name!r}")


def chosen(store: ObjectStore, name: str | None) -> tuple[str, BackupManifest]:
    """A backup by name, or the newest one. Raises: BackupError, StoreError."""
    names = backups_in(store)
    if not names:
        raise BackupError(f"there is no whole backup in {store.location}")
    if name is not None and name not in names:
        raise BackupError(f"there is no backup {name} in {store.location}: {', '.join(names[-5:])} are there")
    name = name or names[-1]
    return name, read_manifest(store, name)
