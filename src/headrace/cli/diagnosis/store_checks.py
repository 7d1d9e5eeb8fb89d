"""Checks of what is kept: what survives a power failure, the disk below it, how full it is.

Never lives here: their texts and severities (`table`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.diagnosis.symptoms import Symptom
from headrace.cli.values import shown_duration, shown_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.diagnosis.evidence import Evidence, StoreFacts

NETWORK: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "lustre", "9p", "afs", "beegfs", "gpfs")
)
"""Types of filesystems that are on other machines; those by FUSE are added by `_is_network`."""

IN_MEMORY: Final = frozenset(("tmpfs", "ramfs"))
TEMPORARY: Final = ("/tmp", "/var/tmp", "/dev/shm", "/run")
LEAST_FREE: Final = 0.10
"""The share of a disk that is to be free."""
LEAST_FREE_BYTES: Final = 1 << 30
FULL: Final = 0.85
"""The share of a limit from which on it is nearly reached."""

_NS: Final = 1_000_000_000


def sync_interval(evidence: Evidence) -> Iterator[Symptom]:
    """Messages that are acknowledged before they are on disk."""
    options = evidence.options
    if options is not None:
        blocks: dict[str, Any] = {"jetstream": options.jetstream, "streaming": options.streaming}
        for name, block in blocks.items():
            if block is not None and block.sync in ("interval", "never"):
                often = shown_duration(round(block.sync_interval * _NS))
                told = f"every {often}" if block.sync == "interval" else "never"
                yield Symptom(_file(evidence), f"{name}: messages are forced to disk {told}")
    for server in evidence.servers:
        config = (server.varz.get("jetstream") or {}).get("config") or {}
        interval = config.get("sync_interval")
        if isinstance(interval, int) and interval > 0 and not config.get("sync_always"):
            yield Symptom(server.name, f"messages are forced to disk every {shown_duration(interval)}")


def temporary_store(evidence: Evidence) -> Iterator[Symptom]:
    """Stores in memory or in a directory that others empty."""
    options = evidence.options
    if options is not None and options.jetstream is not None and options.jetstream.store_dir is None:
        yield Symptom(_file(evidence), "jetstream has no store_dir: it is below the temporary directory")
    for store in _stores(evidence):
        if store.filesystem in IN_MEMORY:
            yield Symptom(_file(evidence), f"{store.directory} is in memory ({store.filesystem})")
        elif _is_temporary(store.directory):
            yield Symptom(_file(evidence), f"{store.directory} is emptied by the system")
    for server in evidence.servers:
        directory = ((server.varz.get("jetstream") or {}).get("config") or {}).get("store_dir")
        if isinstance(directory, str) and _is_temporary(directory):
            yield Symptom(server.name, f"{directory} is emptied by the system")


def network_store(evidence: Evidence) -> Iterator[Symptom]:
    """Stores on the disks of other machines."""
    for store in _stores(evidence):
        if _is_network(store.filesystem):
            yield Symptom(_file(evidence), f"{store.directory} is on a network disk ({store.filesystem})")


def disk_nearly_full(evidence: Evidence) -> Iterator[Symptom]:
    """Disks of stores with little room."""
    for store in _stores(evidence):
        if not store.total_bytes:
            continue
        least = max(store.total_bytes * LEAST_FREE, min(LEAST_FREE_BYTES, store.total_bytes / 2))
        if store.free_bytes < least:
            room = f"{shown_size(store.free_bytes)} of {shown_size(store.total_bytes)}"
            yield Symptom(_file(evidence), f"{store.directory}: {room} are free")


def storage_promised(evidence: Evidence) -> Iterator[Symptom]:
    """A `max_file_store` that is more than the disk."""
    options = evidence.options
    if options is None or options.jetstream is None or options.jetstream.bucket is not None:
        return
    most = options.jetstream.max_storage
    for store in _stores(evidence):
        if 0 < store.total_bytes < most:
            yield Symptom(
                _file(evidence),
                f"max_file_store is {shown_size(most)}, the disk of {store.directory} has "
                f"{shown_size(store.total_bytes)}",
            )


def jetstream_nearly_full(evidence: Evidence) -> Iterator[Symptom]:
    """Servers whose JetStream has nearly all that it may have."""
    for server in evidence.servers:
        section = server.varz.get("jetstream") or {}
        config, stats = section.get("config") or {}, section.get("stats") or {}
        for what in ("memory", "storage"):
            used, most = stats.get(what, 0), config.get(f"max_{what}", 0)
            if most > 0 and used >= most * FULL:
                yield Symptom(server.name, f"{what}: {shown_size(used)} of {shown_size(most)} are used")


def _stores(evidence: Evidence) -> tuple[StoreFacts, ...]:
    return () if evidence.file is None else evidence.file.stores


def _is_network(filesystem: str) -> bool:
    return filesystem in NETWORK or filesystem.startswith("fuse.")


def _is_temporary(directory: str) -> bool:
    return any(directory == each or directory.startswith(f"{each}/") for each in TEMPORARY)


def _file(evidence: Evidence) -> str:
    assert evidence.file is not None
    return evidence.file.path
