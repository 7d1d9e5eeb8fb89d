"""A table as readers and writers see it: its newest version, a writer's commit, and what is left about.

A version is a file of its own under a number that only one writer can take (`ObjectStore.create`), so a
change is whole or not there. A writer that came too late reads the newest version and applies its change
again. Files that no version names are cleared away: at once where a lock says that nobody else writes, else
when they are old. Never here: what is in data files.
"""

from __future__ import annotations

import re
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.objects.errors import KeyExists, KeyMissing
from headrace.objects.local import DRAFTS
from headrace.tables.columns import layout_of
from headrace.tables.errors import TableConflict, TableDamaged, TableMissing
from headrace.tables.files import FILE_NAME, REPLACED, read
from headrace.tables.manifest import LINEAGE, MANIFESTS, DataFile, Retired, TableManifest, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from headrace.objects.port import ObjectStore

ATTEMPTS: Final = 16
"""Times a change is tried against writers that are quicker; then TableConflict."""
ORPHAN_AGE_NS: Final = 3_600 * 10**9
"""The age below which a file that no manifest names may belong to a writer, in a store without locks."""
KEPT_VERSIONS: Final = 2
"""The newest versions that a clearing leaves: the table, and one that a reader may just have found."""
_VERSION: Final = re.compile(r"([0-9]{20})\.json")


class Table:
    """The table of one stream, in a store that `open_store` gives.

    Nothing is asked of the store before a method is called. `clock`: ns since 1970 UTC.

    Methods raise StoreError, and TableDamaged for a manifest that is not one.
    """

    def __init__(self, store: ObjectStore, clock: Callable[[], int] = time.time_ns) -> None:
        self.store: Final = store
        self.clock: Final = clock

    def newest(self) -> TableManifest | None:
        """The version that is in force; None when there is no table yet."""
        for _ in range(ATTEMPTS):
            numbers = self._versions()
            if not numbers:
                return None
            key = version_key(numbers[-1])
            try:
                data = self.store.get(key)
            except KeyMissing:
                continue  # cleared away between the two calls: there is a newer one
            manifest = decode(data, f"{self.store.location}/{key}")
            if manifest.version != numbers[-1]:
                raise TableDamaged(f"{self.store.location}/{key}: it is version {manifest.version}")
            return manifest
        raise TableConflict(f"{self.store.location}: it changes faster than it can be read")

    def manifest(self) -> TableManifest:
        """The version that is in force. Raises: TableMissing."""
        manifest = self.newest()
        if manifest is None:
            raise TableMissing(f"{self.store.location}: there is no table here")
        return manifest

    def locations(self) -> list[str]:
        """Paths or URLs of the newest version's files, for any reader of Parquet. Raises: TableMissing."""
        return [f"{self.store.location}/{file.path}" for file in self.manifest().files]

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of the newest version in order, whatever happens to the table meanwhile.

        Raises: TableMissing; KeyMissing when a file was cleared away while this read (erased, or vacuumed).
        """
        manifest = self.manifest()
        schema = layout_of(manifest).schema
        for file in manifest.files:
            yield from read(self.store, file, columns, schema)

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[TableWriter]:
        """Lock the table for a change. Raises: LockHeld; TableMissing unless it may be made."""
        if not create:
            self.manifest()
        with self.store.lock() as is_alone:
            # The process that made the newest version may have died before it was durable. What an older
            # version names is removed on the newest one's word.
            self.store.sync_folder(MANIFESTS)
            writer = TableWriter(self, is_alone=is_alone)
            writer.tidy()
            yield writer

    def _versions(self) -> list[int]:
        names = (entry.key.rpartition("/")[2] for entry in self.store.list_folder(MANIFESTS).objects)
        return sorted(int(match[1]) for name in names if (match := _VERSION.fullmatch(name)))


class TableWriter:
    """Changes of a table, while its lock is held where there is one (`is_alone`)."""

    def __init__(self, table: Table, *, is_alone: bool) -> None:
        self.table: Final = table
        self.store: Final = table.store
        self.is_alone: Final = is_alone

    def commit(self, change: Callable[[TableManifest | None], TableManifest]) -> TableManifest:
        """Make the next version of what `change` says of the newest; it is durable and in force on return.

        `change` may be called several times, with later versions, and raises TableConflict when it no longer
        fits. After a StoreError it is not known whether the change was made.
        """
        token = secrets.token_hex(8)
        for _ in range(ATTEMPTS):
            current = self.table.newest()
            made = replace(
                change(current),
                version=current.version + 1 if current else 1,
                written_ns=self.table.clock(),
                commit=token,
                lineage=(current.commit, *current.lineage)[:LINEAGE] if current else (),
            )
            key = version_key(made.version)
            try:
                self.store.create(key, encode(made))
                was_created = True
            except KeyExists:
                was_created = False  # by another writer, or by us when the answer to an upload was lost
            newest = self.table.manifest()
            if token == newest.commit or token in newest.lineage:
                if self.is_alone:  # a run over much makes many versions, each as long as the list of files
                    self.store.delete(version_key(made.version - KEPT_VERSIONS))
                return made
            if was_created:  # under an old number that had been cleared away: nobody read it
                self.store.delete(key)
        raise TableConflict(f"{self.store.location}: other writers were quicker {ATTEMPTS} times")

    def swap(self, old: Sequence[DataFile], new: Sequence[DataFile], *, erase: bool) -> TableManifest:
        """Put `new` files in place of `old` ones and take those away. `erase`: they hold removed rows.

        Raises: TableConflict when another writer replaced one of them first; the new files are removed then.
        """

        def change(current: TableManifest | None) -> TableManifest:
            return swapped(current, old, new, erase=erase, now_ns=self.table.clock())

        try:
            made = self.commit(change)
        except TableConflict:
            for file in new:
                self.store.delete(file.path)
            raise
        self.settle(made)
        return made

    def settle(self, manifest: TableManifest) -> None:
        """Files that are no longer part of the table leave its directory: removed, or out of plain sight."""
        present = {entry.key for entry in self.store.list_folder().objects}
        for one in manifest.retired:
            if one.erase:
                self.store.delete(one.path)
                self.store.delete(f"{REPLACED}/{one.path}")
            elif one.path in present:
                try:
                    self.store.move(one.path, f"{REPLACED}/{one.path}")
                except KeyMissing:
                    continue  # another writer did it

    def tidy(self) -> None:
        """Clear away what a writer that died left.

        Without a lock, only files that certainly belong to no writer.
        """
        manifest = self.table.newest()
        if manifest is not None:
            self.settle(manifest)
        if self.is_alone:
            self._clear(manifest, before_ns=None)

    def vacuum(self, older_than_ns: int = 0) -> int:
        """Remove replaced files and versions older than `older_than_ns`; return their number.

        Raises: TableMissing.
        """
        now = self.table.clock()

        def change(current: TableManifest | None) -> TableManifest:
            assert current is not None
            kept = tuple(one for one in current.retired if not one.erase and one.at_ns > now - older_than_ns)
            return replace(current, retired=kept)

        manifest = self.table.manifest()
        self.settle(manifest)
        if change(manifest) != manifest:
            manifest = self.commit(change)
        age = older_than_ns if self.is_alone else max(older_than_ns, ORPHAN_AGE_NS)
        return self._clear(manifest, before_ns=None if self.is_alone else now - age)

    def _clear(self, manifest: TableManifest | None, before_ns: int | None) -> int:
        """Remove what `manifest` does not name; `before_ns`: only what is older."""
        named = {file.path for file in manifest.files} if manifest else set()
        replaced = {f"{REPLACED}/{one.path}" for one in manifest.retired} if manifest else set()
        newest = manifest.version if manifest else 0
        kept = {version_key(number) for number in range(newest - KEPT_VERSIONS + 1, newest + 1)}
        entries = [entry for entry in self.store.list_folder().objects if FILE_NAME.fullmatch(entry.key)]
        for folder in (REPLACED, MANIFESTS, DRAFTS):
            entries += self.store.list_folder(folder).objects
        last = version_key(newest)
        unnamed = [
            entry.key
            for entry in entries
            if entry.key not in named | replaced | kept
            and not (entry.key.startswith(MANIFESTS) and entry.key > last)  # another writer's, made just now
            and (before_ns is None or (entry.modified_ns is not None and entry.modified_ns < before_ns))
        ]
        for key in unnamed:
            self.store.delete(key)
        return len(unnamed)


def version_key(version: int) -> str:
    return f"{MANIFESTS}/{version:020}.json"


def swapped(
    current: TableManifest | None,
    old: Sequence[DataFile],
    new: Sequence[DataFile],
    *,
    erase: bool,
    now_ns: int,
) -> TableManifest:
    """Return a manifest with other files.

    `current` with `new` files in place of `old` ones. Raises: TableConflict when `old` are not its.
    """
    gone = {file.path for file in old}
    if current is None or not gone <= {file.path for file in current.files}:
        raise TableConflict("the files to replace were replaced by another writer")
    files = sorted((*(f for f in current.files if f.path not in gone), *new), key=lambda file: file.first)
    retired = [Retired(file.path, file.first, file.last, now_ns, erase) for file in old]
    for one in current.retired:
        # What was replaced before may hold the same rows: when they are erased, it must go, too.
        touched = erase and any(one.first <= file.last and file.first <= one.last for file in old)
        retired.append(replace(one, erase=one.erase or touched))
    return replace(current, files=tuple(files), retired=tuple(retired))
