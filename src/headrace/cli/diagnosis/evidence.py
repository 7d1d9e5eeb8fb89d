"""The evidence of a diagnosis: what a configuration says, what this machine has, what
servers tell.

Frozen data only. Times are ns since 1970 UTC, sizes bytes. Never lives here: how it is
gathered (`gathering`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from headrace.conf.options import Options


class StoreFacts(Struct, frozen=True):
    """The disk below a directory of a store; `filesystem` is its type, such as `ext4`."""

    directory: str
    filesystem: str
    free_bytes: int
    total_bytes: int


class CertificateFacts(Struct, frozen=True):
    """A certificate: the place it stands in, and the end of the time it is good for."""

    place: str
    not_after_ns: int


class FileEvidence(Struct, frozen=True):
    """A configuration and what this machine has for it.

    `options` None: it cannot be used, for the reasons in `problems`. `unsupported`: what only nats-server
    has, which is not looked at. `descriptor_limit`: how many files the server may have open,
    `open_descriptors` how many it has; None where that is not known. `mode` has the permissions of the file.
    """

    path: str
    options: Options | None = None
    problems: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    mode: int = 0o600
    descriptor_limit: int | None = None
    open_descriptors: int | None = None
    stores: tuple[StoreFacts, ...] = ()
    certificates: tuple[CertificateFacts, ...] = ()


class ServerEvidence(Struct, frozen=True):
    """A running server by its documents; one that it did not give is empty.

    `closed` is its connz of closed connections. `clock_offset_ns`: by how much its clock is ahead of this
    machine's, `clock_error_ns`: by how much that may be wrong.
    """

    name: str
    server_id: str = ""
    varz: dict[str, Any] = {}
    connz: dict[str, Any] = {}
    closed: dict[str, Any] = {}
    jsz: dict[str, Any] = {}
    routez: dict[str, Any] = {}
    healthz: dict[str, Any] = {}
    clock_offset_ns: int = 0
    clock_error_ns: int = 0

    @property
    def is_headrace(self) -> bool:
        """True if the server is Headrace, and not nats-server."""
        return str(self.varz.get("git_commit", "")).startswith("headrace")


class Evidence(Struct, frozen=True):
    """All that is looked at.

    `scope`: "file", "system", "monitor", or "account" where servers told only of the account of the user who
    asked. `silent`: servers that did not answer, with the reason. `open_monitors`: the addresses at which
    monitoring was read without credentials.
    """

    now_ns: int
    file: FileEvidence | None = None
    servers: tuple[ServerEvidence, ...] = ()
    scope: str = "file"
    silent: tuple[tuple[str, str], ...] = ()
    open_monitors: tuple[str, ...] = ()

    @property
    def options(self) -> Options | None:
        """The options of the configuration, None where there is none that can be used."""
        return None if self.file is None else self.file.options
