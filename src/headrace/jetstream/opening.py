"""JetStream of a server from its options: directory, stores, committer, limits; what each account gets.

Here lives what has to be there before the first account is served, and what of it the log tells. Never
lives here: what is done for an account (`account`), what several accounts share (`system`). Source: the log
lines and the dynamic limits are the Go server's (2.15.1); its banner is not here."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from headrace.conf.account_rules import service_subjects
from headrace.errors import LogError, StartError, StoreLocked
from headrace.jetstream.assets import log_shown
from headrace.jetstream.importing.detecting import HOME as DIRECTORY
from headrace.jetstream.importing.detecting import UNFINISHED, find_streams
from headrace.jetstream.limits import BatchLimits, ServerSettings
from headrace.jetstream.system import JetStreamSystem
from headrace.log.checkpoints import NEAR
from headrace.log.committer import ThreadCommitter
from headrace.log.port import SyncPolicy
from headrace.log.store import FileStore, MemoryStore
from headrace.protocol.info import JETSTREAM_API_LEVEL
from headrace.subjects.grammar import is_subset

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from headrace.bucket.status import ShardStatus
    from headrace.conf.account_options import AccountOptions
    from headrace.conf.jetstream_options import JetStreamLimits, JetStreamOptions
    from headrace.copying import ArchiveSnapshot, TableState
    from headrace.core.service import Service
    from headrace.jetstream.leadership import Leadership
    from headrace.jetstream.stats import ServerStats
    from headrace.jetstream.stored import StoredStreams
    from headrace.jetstream.stream.stream import Stream
    from headrace.log.committer import Committer
    from headrace.log.damage import Damage
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.key_rotation import Told
    from headrace.log.store import LogStore

_INFO: Final = b"$JS.API.INFO"
_NS: Final = 1_000_000_000
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB", "EB")
_MEMORY_IF_UNKNOWN: Final = 256 << 20
_DISK_IF_UNKNOWN: Final = 1 << 40


class Adopted(Protocol):
    """Logs that streams have and that are not in the store here (`headrace.shared_channels`)."""

    @property
    def committer(self) -> Committer: ...
    def for_streams(self, own: LogStore) -> LogStore:
        """A store with these logs among those of `own`."""


class JetStreamServer:
    """Makes the services of a server's accounts (`server.account_services.AccountServices`).

    `loop`: the one that it runs on. `adopted`: streams whose logs are somebody else's. `filesystem`: of the
    logs in files; None: the system's. `clock`: wall clock in ns since 1970 UTC, the services' own.
    """

    def __init__(
        self,
        options: JetStreamOptions,
        *,
        loop: asyncio.AbstractEventLoop,
        log: logging.Logger,
        cipher: Cipher | None = None,
        adopted: Adopted | None = None,
        filesystem: FileSystem | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.options: Final = options
        self.directory: Final = directory_of(options)
        self.max_memory: Final = _three_quarters_of_memory() if options.max_memory < 0 else options.max_memory
        self.max_storage: Final = _most_in_files(options, self.directory)
        self._loop = loop
        self._log = log
        self._cipher = cipher
        self._adopted = adopted
        self._filesystem = filesystem
        self._clock = clock
        self._file: FileStore | None = None
        self._memory: MemoryStore | None = None
        self._committer: ThreadCommitter | None = None
        """Its own, and none where there is one for others, too."""
        self._given: Committer | None = None
        self.system: JetStreamSystem | None = None
        self.leadership: Callable[[], Leadership] | None = None
        """The function that tells which server has the streams; None where no other can have them."""
        self.hand_over: Callable[[str], bool] | None = None
        """The function that has another server take the streams; it returns False if there is none."""
        self.archive: Callable[[], ArchiveSnapshot] | None = None
        """The statistics of the archive of the streams, where there is one."""
        self.tables: Callable[[], Sequence[TableState]] | None = None
        """The state of each table of the archive, where there is one."""
        self.bucket: Callable[[], ShardStatus] | None = None
        """The status of the bucket that the streams are in, where there is one."""

    def use(self, filesystem: FileSystem, committer: Committer) -> None:
        """Have the next `open` use these; what is committed is durable when the committer says so.

        The committer is the caller's to stop, after `close`.
        """
        self._filesystem = filesystem
        self._given = committer

    # -- AccountServices ------------------------------------------------------------------------------

    def open(self, server_name: str, server_id: str) -> None:
        self._log.info("Starting JetStream")
        if self.options.store_dir is None:
            self._log.warning("Temporary storage directory used, data could be lost on system reboot")
        self._tell()
        told = self._conversion()
        self._memory = MemoryStore(self._clock)
        self._file = self._open_store(told)
        if told is not None:
            told.end()
            if self.options.prev_encryption_key is not None:
                self._log.info("  Nothing is encrypted with prev_key any more, it can be removed")
        adopted = self._adopted
        self.system = JetStreamSystem(
            self._settings(server_name, server_id),
            self._file if adopted is None else adopted.for_streams(self._file),
            self._memory,
            self._committer_for(adopted),
            sync=SyncPolicy(self.options.sync) if self._given is None else SyncPolicy.GROUP,
            log=self._log,
        )

    def service(self, account: AccountOptions, *, is_system: bool) -> Service | None:
        system = self._system()
        if is_system:
            return system.system_requests(self.hand_over)
        if account.jetstream is None:
            return None if _asks_elsewhere(account) else system.refusing_service()
        return system.add_account(account.name, account.jetstream)

    def change(self, account: AccountOptions) -> bool:
        system = self._system()
        if (account.jetstream is not None) is not (account.name in system.accounts):
            return False
        if account.jetstream is None and _asks_elsewhere(account):
            return False
        if account.jetstream is not None:
            system.update_limits(account.name, account.jetstream)
        return True

    def remove(self, account: str) -> None:
        system = self._system()
        if account in system.accounts:
            system.remove_account(account)

    def stored(self) -> list[str]:
        assert self._file is not None, "it was opened"
        return sorted({name.partition(b"/")[0].decode("utf-8", "replace") for name in self._file.names()})

    def stored_streams(self) -> StoredStreams | None:
        """The streams of all accounts for whoever copies them elsewhere; None while they are not served."""
        if self._file is None or self.system is None:
            return None
        from headrace.jetstream.stored import StoredStreams

        return StoredStreams(self.system.accounts)

    def ready(self, seconds: float) -> None:
        for account in self._system().accounts.values():
            for stream in account.streams.values():
                self._tell_of(account.name, stream)
        self._log.info("Took %.3gms to start JetStream", seconds * 1000)

    def stats(self) -> ServerStats | None:
        """Return the statistics for monitoring (`server.monitor.jetstream.JetStreamSource`)."""
        leadership = self.leadership() if self.leadership is not None else None
        if self.system is None and leadership is None:
            return None
        from headrace.jetstream.stats import server_stats

        archive = self.archive() if self.archive is not None else None
        system = self.system or JetStreamSystem.idle(self._settings("", ""), self._log)
        return server_stats(system, str(self.directory), archive, leadership)

    def bucket_status(self) -> ShardStatus | None:
        """Return the status of the bucket (`server.monitor.bucket.BucketSource`), also while standing by."""
        return self.bucket() if self.bucket is not None else None

    def close(self, *, at_once: bool = False) -> None:
        """Close all stores, and forget what was in memory; `open` may follow.

        Everything is on disk after this, and another process may have the directory. `at_once`: what was
        written last counts no more, so it is no error if it cannot be written.
        """
        if self._file is None or self._memory is None:
            return
        self._log.info("Initiating JetStream Shutdown...")
        if self._committer is not None:
            self._committer.stop()
        for store in (self._file, self._memory):
            try:
                store.close()
            except LogError as error:
                level = logging.DEBUG if at_once else logging.ERROR
                self._log.log(level, "JetStream: could not close the store: %s", error)
        self._file = self._memory = self._committer = self.system = None
        self._log.info("JetStream Shutdown")

    def _committer_for(self, adopted: Adopted | None) -> Committer:
        if self._given is not None:
            return self._given
        if adopted is not None:
            return adopted.committer
        self._committer = ThreadCommitter.on(
            self._loop,
            SyncPolicy(self.options.sync),
            self.options.sync_interval,
            lambda error: self._log.error("JetStream: could not sync: %s", error),
        )
        return self._committer

    # -- parts ----------------------------------------------------------------------------------------

    def _system(self) -> JetStreamSystem:
        assert self.system is not None, "it was opened"
        return self.system

    def _conversion(self) -> Told | None:
        """Return the function that logs the progress of files that are encrypted anew at the start."""
        if self._cipher is None:
            return None
        from headrace.log.key_rotation import Told

        return Told(self._cipher, log_shown, lambda line: self._log.info("  %s", line))

    def _open_store(self, converted: Told | None) -> FileStore:
        """Open the file store, with its encryption. Raises: StartError."""

        def report(name: bytes, damage: Damage) -> None:
            self._log.error("JetStream: %s: %s", name.decode("utf-8", "backslashreplace"), damage)

        self._refuse_foreign_streams()
        if any(place.exists() and not place.is_dir() for place in (self.directory, self.directory.parent)):
            raise StartError("Can't start JetStream: storage directory is not a directory")
        try:
            return FileStore(
                self.directory,
                clock=self._clock,
                sync=SyncPolicy(self.options.sync) if self._given is None else SyncPolicy.NEVER,
                cipher=self._cipher,
                filesystem=self._filesystem,
                report=report,
                remembers=False,  # the state says which streams there are
                converted=converted,
                checkpoint_bytes=None if self.options.bucket is None else NEAR,
            )
        except StoreLocked as error:
            raise StartError(f"Can't start JetStream: {error}") from error
        except LogError as error:
            raise StartError(f"Can't start JetStream: could not open storage directory - {error}") from error

    def _refuse_foreign_streams(self) -> None:
        """A start would pass over nats-server's streams, or an unfinished import. Raises: StartError."""
        unfinished = self.directory.with_name(UNFINISHED)
        try:
            found = next(find_streams(self.directory), None)
        except OSError as error:
            raise StartError(f"Can't start JetStream: could not open storage directory - {error}") from error
        if unfinished.exists():
            raise StartError(
                f"Can't start JetStream: an import or a restore into {self.directory.parent} is under way "
                f"or was cut off; run it again, or remove {unfinished}"
            )
        if found is not None:
            from shlex import quote

            raise StartError(
                f"Can't start JetStream: {self.directory} has streams of nats-server ({found.account} > "
                f'{found.name}), which are not served from there; run "headrace jetstream import '
                f'{quote(str(self.directory.parent))} --dir NEW" and start with "-sd NEW"'
            )

    def _settings(self, server_name: str, server_id: str) -> ServerSettings:
        options, limits = self.options, self.options.limits
        return ServerSettings(
            server_name=server_name,
            server_id=server_id,
            domain=options.domain,
            strict=options.strict,
            max_memory=self.max_memory,
            max_storage=self.max_storage,
            max_ack_pending=limits.max_ack_pending,
            max_request_batch=limits.max_request_batch,
            default_max_consumers=limits.max_consumers,
            duplicate_window=round(limits.duplicate_window * _NS),
            request_queue_limit=options.request_queue_limit,
            started_ns=self._clock(),
            batches=_batches(limits),
            leadership=self.leadership,
            hand_over=self.hand_over,
        )

    def _tell(self) -> None:
        options, info = self.options, self._log.info
        info("---------------- JETSTREAM ----------------")
        if options.strict:
            info("  Strict:          true")
        info("  Max Memory:      %s", friendly_bytes(self.max_memory))
        is_bounded = self.max_storage or options.bucket is None
        info("  Max Storage:     %s", friendly_bytes(self.max_storage) if is_bounded else "no limit")
        info('  Store Directory: "%s"', self.directory)
        if options.domain:
            info("  Domain:          %s", options.domain)
        if options.encryption_cipher is not None:
            info(
                "  Encryption:      %s",
                {"CHACHA": "ChaCha20-Poly1305"}.get(options.encryption_cipher, "AES-GCM"),
            )
        info("  API Level:       %d", JETSTREAM_API_LEVEL)
        info("-------------------------------------------")

    def _tell_of(self, account: str, stream: Stream) -> None:
        info, messages = self._log.info, stream.log.state().messages
        info("  Restored %d messages for stream '%s > %s'", messages, account, stream.name)
        if stream.consumers:
            info("  Recovered %d consumers for stream '%s > %s'", len(stream.consumers), account, stream.name)


def directory_of(options: JetStreamOptions) -> Path:
    """Return the directory of the options; if they name none, one that is the same after every start."""
    if options.store_dir:
        base = Path(options.store_dir)
    else:
        from tempfile import gettempdir  # it loads every compression there is

        base = Path(gettempdir()) / "nats"
    return base / DIRECTORY


def friendly_bytes(size: int) -> str:
    """A number of bytes with a unit: `953.67 MB`, `12 B`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount /= 1024
        unit += 1
    return f"{amount:.2f} {_UNITS[unit]}" if unit else f"{size} B"


def _batches(limits: JetStreamLimits) -> BatchLimits:
    """Make the limits of batches: the configured ones hold for both kinds, as in the Go server."""
    given: dict[str, int] = {}
    if limits.max_batch_inflight_per_stream:
        given |= dict.fromkeys(("atomic_per_stream", "fast_per_stream"), limits.max_batch_inflight_per_stream)
    if limits.max_batch_inflight_total:
        given |= dict.fromkeys(("atomic_total", "fast_total"), limits.max_batch_inflight_total)
    if limits.max_batch_size:
        given["atomic_messages"] = limits.max_batch_size
    if limits.max_batch_timeout:
        given["timeout_ns"] = round(limits.max_batch_timeout * _NS)
    return BatchLimits(**given)


def _three_quarters_of_memory() -> int:
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # a system that does not say
        return _MEMORY_IF_UNKNOWN
    return whole // 4 * 3 if whole > 0 else _MEMORY_IF_UNKNOWN


def _most_in_files(options: JetStreamOptions, directory: Path) -> int:
    """Return the bytes of messages that streams in files may have; 0 is no limit.

    Where the disk only has what is left of a bucket's streams in a cache of a set size, the disk is no
    measure of them.
    """
    if options.max_storage >= 0:
        return options.max_storage
    if options.bucket is not None and options.bucket.cache_bytes:
        return 0
    return _three_quarters_of_disk(directory)


def _three_quarters_of_disk(directory: Path) -> int:
    """Return three quarters of the free bytes on the disk of a directory, which need not exist yet."""
    for place in (directory, *directory.parents):
        try:
            found = os.statvfs(place)
        except OSError:  # not made yet, or not to be looked at: the one above then
            continue
        return found.f_bavail * found.f_frsize // 4 * 3
    return _DISK_IF_UNKNOWN


def _asks_elsewhere(account: AccountOptions) -> bool:
    """True if an account imports the API's INFO request: then it has only the part of the API that it
    imports.

    So the Go server decides it: what is not imported has no responders there.
    """
    services = (item for item in account.imports if item.is_service)
    return any(is_subset(_INFO, service_subjects(item).local) for item in services)
