"""The composition root: options in, a running server process out.

Here services get their stores, signals meet the server and the process gets its exit code. A server inside
another program is `headrace.Server`; one inside a test is `headrace.testing.Server`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Final

from headrace.engine.memory import keep_freed
from headrace.errors import ConfigError, HeadraceError, LogError, StartError, StoreLocked
from headrace.interruption import Interrupted, on_end
from headrace.server import files, logs
from headrace.server.loop import run_in_poller
from headrace.server.server import Server
from headrace.server.tls_contexts import make_contexts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from headrace.archiving import Archiver
    from headrace.bucket.port import MakeShard
    from headrace.conf.bucket_options import BucketOptions
    from headrace.conf.jetstream_options import JetStreamOptions
    from headrace.conf.options import Options
    from headrace.conf.streaming_options import StreamingOptions
    from headrace.core.service import Service
    from headrace.jetstream.opening import JetStreamServer
    from headrace.log.damage import Damage
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.port import SyncPolicy
    from headrace.log.store import LogStore
    from headrace.server.account_services import AccountServices
    from headrace.server.worker import Worker
    from headrace.shared_channels import SharedChannels
    from headrace.streaming.service import StreamingService

OF_THE_LOG: Final = frozenset(
    ["log_file", "log_size_limit", "log_max_num", "syslog", "remote_syslog", "logtime", "logtime_utc"]
)

EXIT_OK, EXIT_FAILURE = 0, 1


def run(options: Options) -> int:
    """Serve until a signal says otherwise; returns the exit code.

    Raises: StartError when the log file cannot be opened. Later failures to start are logged.
    """
    handler = logs.install(options)
    raise_descriptor_limit()
    keep_freed()
    try:
        return run_in_poller(serve(Process(options, handler)))
    except StartError as error:
        logging.getLogger(logs.LOGGER_NAME).critical("%s", error)
        return EXIT_FAILURE
    except Interrupted as signal_name:
        tell_of_end(signal_name)
        return EXIT_OK
    finally:
        logs.uninstall()


def tell_of_end(signal_name: Interrupted) -> None:
    """Write the log line of a start that a signal ended."""
    log = logging.getLogger(logs.LOGGER_NAME)
    log.info('Trapped "%s" signal', signal_name)
    log.info("Initiating Shutdown...")
    log.info("Server Exiting..")


async def serve(process: Process) -> int:
    """The life of a process, with the services over stores that its options ask for. Raises: StartError."""
    options = process.options
    if options.streaming is not None and options.streaming.nats_server is not None:
        with streaming_service(options.streaming, process.fail) as service:
            return await process.serve(service)
    if options.streaming is None and options.jetstream is None:
        return await process.serve()
    with stored_services(options, process.fail) as (services, accounts):
        return await process.serve(*services, account_services=accounts)


@contextmanager
def stored_services(
    options: Options,
    on_conflict: Callable[[str], object],
    *,
    filesystem: FileSystem | None = None,
    clock: Callable[[], int] = time_ns,
) -> Iterator[tuple[Sequence[Service], AccountServices | None]]:
    """The services over stores that options ask for, on the running loop: the server's, and its accounts'.

    `filesystem`: of their stores; None: the system's. `clock`: of the stores, ns since 1970 UTC.
    Raises: StartError.
    """
    streaming, jetstream = options.streaming, options.jetstream
    if streaming is None:
        with jetstream_services(jetstream, filesystem=filesystem, clock=clock) as accounts:
            yield (), accounts
        return
    if not streaming.adopt or jetstream is None:
        with (
            streaming_service(streaming, on_conflict, filesystem=filesystem, clock=clock) as service,
            jetstream_services(jetstream, filesystem=filesystem, clock=clock) as accounts,
        ):
            yield (service,), accounts
        return
    from headrace.shared_channels import SharedChannels, SharedChannelsService

    shared = SharedChannels(streaming.adopt)
    with (
        streaming_service(streaming, on_conflict, shared, filesystem=filesystem, clock=clock) as service,
        jetstream_services(jetstream, shared, filesystem=filesystem, clock=clock) as accounts,
    ):
        log = logging.getLogger(f"{logs.LOGGER_NAME}.streaming")
        assert accounts is not None
        yield (service, SharedChannelsService(shared, service, accounts, log)), accounts


@contextmanager
def jetstream_services(
    options: JetStreamOptions | None,
    shared: SharedChannels | None = None,
    *,
    filesystem: FileSystem | None = None,
    clock: Callable[[], int] = time_ns,
) -> Iterator[JetStreamServer | None]:
    """JetStream for the accounts of a server on the running loop; None without options.

    Raises: StartError.
    """
    if options is None:
        yield None
        return
    # Who runs no JetStream does not pay for loading it.
    from headrace.jetstream.opening import JetStreamServer
    from headrace.log.store_cipher import server_cipher

    log = logging.getLogger(f"{logs.LOGGER_NAME}.jetstream")
    cipher = server_cipher(options.encryption_key, options.encryption_cipher, options.prev_encryption_key)
    kind: Callable[..., JetStreamServer] = JetStreamServer
    if options.bucket is not None:
        kind = _in_bucket(options, options.bucket, log, filesystem, clock=clock, cipher=cipher)
    jetstream = kind(
        options,
        loop=asyncio.get_running_loop(),
        log=log,
        cipher=cipher,
        adopted=shared,
        filesystem=filesystem,
        clock=clock,
    )
    if options.archive is None:
        yield jetstream
        return
    make = partial(_archiver_of_streams, jetstream, log)
    with _archiving(make, "Can't start JetStream") as archiver:
        jetstream.archive, jetstream.tables = archiver.stats, archiver.tables
        yield jetstream


def _in_bucket(
    options: JetStreamOptions,
    bucket: BucketOptions,
    log: logging.Logger,
    filesystem: FileSystem | None,
    *,
    clock: Callable[[], int],
    cipher: Cipher | None,
) -> Callable[..., JetStreamServer]:
    """Return what makes JetStream whose streams are in a bucket. Raises: StartError."""
    from headrace.bucket.opening import shards_in
    from headrace.jetstream.opening import directory_of
    from headrace.jetstream_membership import SharedJetStream

    directory = directory_of(options)
    make = shards_in(bucket, "jetstream", directory, log, files=filesystem, wall_ns=clock, cipher=cipher)
    return partial(SharedJetStream, make=make)


def _archiver_of_streams(jetstream: JetStreamServer, log: logging.Logger) -> Archiver:
    from headrace.archiving import Archiver, archived_streams

    options = jetstream.options.archive
    assert options is not None
    return Archiver(options, archived_streams(options), jetstream.stored_streams, log, title="JetStream")


@contextmanager
def streaming_service(
    options: StreamingOptions,
    on_conflict: Callable[[str], object],
    shared: SharedChannels | None = None,
    *,
    filesystem: FileSystem | None = None,
    clock: Callable[[], int] = time_ns,
    make_shard: MakeShard | None = None,
) -> Iterator[StreamingService]:
    """The streaming service over its store, for the running loop; the store is closed after it.

    `shared`: channels of it that are streams too. `filesystem`: of the store; None: the system's. `clock`:
    of the store, ns since 1970 UTC. `make_shard`: makes the shard of the channels, where they are in a
    bucket; None: that of the options.
    Raises: StartError when the store cannot be opened.
    """
    log = logging.getLogger(f"{logs.LOGGER_NAME}.streaming")
    # Streaming's own flags decide what it says, whatever the server's say.
    level = logs.TRACE if options.stan_trace else logging.DEBUG if options.stan_debug else logging.INFO
    log.setLevel(level)
    _refuse_file(options)
    _refuse_foreign_store(options)
    if options.bucket is not None:
        make = make_shard or _shards_of_channels(options, options.bucket, log, filesystem, clock)
        with _archived(_service_of_shard(options, on_conflict, make, log, clock), log) as service:
            yield service
        return
    with (
        _service_of_store(options, on_conflict, shared, log, filesystem=filesystem, clock=clock) as service,
        _archived(service, log),
    ):
        yield service


@contextmanager
def _service_of_store(
    options: StreamingOptions,
    on_conflict: Callable[[str], object],
    shared: SharedChannels | None,
    log: logging.Logger,
    *,
    filesystem: FileSystem | None,
    clock: Callable[[], int],
) -> Iterator[StreamingService]:
    """The streaming service over a store of this machine, which is closed after it. Raises: StartError."""
    # Who runs no streaming does not pay for loading it.
    from headrace.log.committer import InlineCommitter, ThreadCommitter
    from headrace.log.port import SyncPolicy
    from headrace.streaming.service import OpenStore, StreamingService

    sync = SyncPolicy(options.sync)
    committer: InlineCommitter | ThreadCommitter = InlineCommitter()
    if options.store_type == "FILE":
        committer = ThreadCommitter.on(
            asyncio.get_running_loop(),
            sync,
            options.sync_interval,
            lambda error: log.error("STREAM: could not sync: %s", error),
        )
    stores: list[LogStore] = []

    def take() -> OpenStore | None:
        if not stores:
            try:
                stores.append(_open_store(options, log, filesystem, clock, sync))
            except StoreLocked:
                if not options.ft_group:
                    raise
                return None
        store = stores[0]
        return OpenStore(store if shared is None else shared.for_channels(store, committer), committer)

    if not options.ft_group:  # else it is the service's to take, when nobody else has it
        try:
            take()
        except LogError as error:
            raise StartError(f"STREAM: Failed to start: {error}") from error
    try:
        yield StreamingService(options, take, log, on_conflict=on_conflict)
    finally:
        committer.stop()
        for store in stores:
            try:
                store.close()
            except LogError as error:
                log.error("STREAM: could not close the store: %s", error)


def _shards_of_channels(
    options: StreamingOptions,
    bucket: BucketOptions,
    log: logging.Logger,
    filesystem: FileSystem | None,
    clock: Callable[[], int],
) -> MakeShard:
    """Return what makes the shard of the channels of the options."""
    from headrace.bucket.keys import channels_shard
    from headrace.bucket.opening import shards_in
    from headrace.log.store_cipher import server_cipher

    assert options.directory is not None, "a bucket needs a FILE store"
    shard = channels_shard(options.cluster_id)
    cipher = server_cipher(options.encryption_key, options.encryption_cipher)
    return shards_in(
        bucket, shard, Path(options.directory), log, files=filesystem, wall_ns=clock, cipher=cipher
    )


def _service_of_shard(
    options: StreamingOptions,
    on_conflict: Callable[[str], object],
    make_shard: MakeShard,
    log: logging.Logger,
    clock: Callable[[], int],
) -> StreamingService:
    """The streaming service over a shard, which gives it a store and takes it."""
    from headrace.log.port import SyncPolicy
    from headrace.streaming.service import StreamingService
    from headrace.streaming_membership import StreamingMembership

    assert options.bucket is not None, "a shard is in a bucket"
    sync = SyncPolicy.NEVER  # the files are a copy of what the shard makes durable
    service = StreamingService(options, None, log, on_conflict=on_conflict)
    StreamingMembership(service, lambda files: _open_store(options, log, files, clock, sync), make_shard, log)
    return service


@contextmanager
def _archived(service: StreamingService, log: logging.Logger) -> Iterator[StreamingService]:
    """The service, with tables of its channels if its options ask for them. Raises: StartError."""
    if service.options.archive is None:
        yield service
        return
    with _archiving(partial(_archiver_of_channels, service, log), "STREAM: Failed to start") as archiver:
        service.archive, service.tables = archiver.stats, archiver.tables
        yield service


def _archiver_of_channels(service: StreamingService, log: logging.Logger) -> Archiver:
    from headrace.archiving import Archiver, archived_channels

    options = service.options.archive
    assert options is not None
    return Archiver(options, archived_channels(options), service.stored, log)


@contextmanager
def _archiving(make: Callable[[], Archiver], failed: str) -> Iterator[Archiver]:
    """The archiver of a service, which makes tables meanwhile. `failed`: the beginning of its errors.

    Raises: StartError when it cannot.
    """
    try:
        archiver = make()
    except ImportError as error:
        raise StartError(f"{failed}: archive needs the packages of headrace[tables]: {error}") from error
    except HeadraceError as error:
        raise StartError(f"{failed}: archive: {error}") from error
    archiver.start()
    try:
        yield archiver
    finally:
        archiver.stop()


def _refuse_file(options: StreamingOptions) -> None:
    """Says of a store that cannot be a directory what nats-streaming-server says. Raises: StartError."""
    if options.store_type == "MEMORY" or options.directory is None:
        return
    directory = Path(options.directory)
    for place in (directory, *directory.parents):
        if place.exists():
            if not place.is_dir():
                raise StartError(
                    f"STREAM: Failed to start: unable to create the root directory [{directory}]: "
                    f"mkdir {place}: not a directory"
                )
            return


def _refuse_foreign_store(options: StreamingOptions) -> None:
    """A start would pass over the channels that nats-streaming-server left there. Raises: StartError."""
    from headrace.streaming.importing.detecting import is_foreign_store

    if options.store_type == "MEMORY" or options.directory is None:
        return
    try:
        if not is_foreign_store(Path(options.directory)):
            return
    except OSError as error:
        raise StartError(f"STREAM: Failed to start: {error}") from error
    from shlex import quote

    raise StartError(
        f"STREAM: Failed to start: {options.directory} has a store of nats-streaming-server, which is not "
        f'served from there; run "headrace streaming import {quote(options.directory)} --dir NEW" '
        'and start with "-dir NEW"'
    )


def _open_store(
    options: StreamingOptions,
    log: logging.Logger,
    filesystem: FileSystem | None,
    clock: Callable[[], int],
    sync: SyncPolicy,
) -> LogStore:
    """Open the log store of the options, encrypted if they say so. Raises: LogError."""
    from headrace.log.checkpoints import NEAR
    from headrace.log.store import FileStore, MemoryStore
    from headrace.log.store_cipher import server_cipher

    if options.store_type == "MEMORY" or options.directory is None:
        return MemoryStore(clock)

    def report(name: bytes, damage: Damage) -> None:
        log.error("STREAM: channel %s: %s", name.decode("utf-8", "backslashreplace"), damage)

    def shown(name: bytes) -> str:
        return f"channel {name.decode('utf-8', 'backslashreplace')}"

    cipher = server_cipher(options.encryption_key, options.encryption_cipher)
    told = None
    if cipher is not None:
        from headrace.log.key_rotation import Told

        told = Told(cipher, shown, lambda line: log.info("STREAM: %s", line))
    store = FileStore(
        Path(options.directory),
        clock=clock,
        sync=sync,
        segment_bytes=options.segment_bytes,
        cipher=cipher,
        filesystem=filesystem,
        report=report,
        converted=told,
        checkpoint_bytes=None if options.bucket is None else NEAR,
    )
    if told is not None:
        told.end()
    return store


def check(options: Options) -> None:
    """Check options for errors that a start would find before it listens.

    Raises: ConfigError; StartError for certificates that cannot be used.
    """
    server = Server(options)
    try:
        make_contexts(options)
    finally:
        server.accounts.close()


def raise_descriptor_limit() -> None:
    """Raise the soft limit of file descriptors to the hard one: the soft limit is often a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS refuses "unlimited" here: then it stays as it was
            pass


def _server(
    options: Options,
    services: Sequence[Service],
    account_services: AccountServices | None,
) -> Server:
    if options.streaming is None or options.streaming.nats_server is None:
        return Server(options, services=services, account_services=account_services)
    from headrace.attached.server import AttachedServer

    return AttachedServer(options, services)


class Process:
    """One server as an operating-system process: files, signals, exit code.

    `worker`: set where the server is one of several processes.
    """

    def __init__(self, options: Options, handler: logging.Handler) -> None:
        self.options = options
        self.worker: Worker | None = None
        self._handler = handler
        self._ports_file: Path | None = None
        self._operator_file: Path | None = None
        self.started = asyncio.Event()
        """Set once clients can connect."""
        self._work: set[asyncio.Task[None]] = set()
        self._exit_code = EXIT_OK

    async def serve(
        self,
        *services: Service,
        account_services: AccountServices | None = None,
    ) -> int:
        """Run the server until it stops; return the exit code of the process. Raises: StartError."""
        server = self._server = _server(self.options, services, account_services)
        server.surroundings = self
        if self.worker is not None:
            server.use_worker(self.worker)
        if server.options.pid_file:
            files.write_pid_file(server.options.pid_file)
        self._install_signals()
        try:
            with self._interruptible():
                await server.start()
            self.started.set()
            self._begun()
            await server.settled()
            gc.freeze()  # what monitoring has loaded, too
            await server.stopped.wait()
        finally:
            await server.stop()
            self._remove_ports_file()
            if self._operator_file is not None:
                self._operator_file.unlink(missing_ok=True)
        server.log.info("Server Exiting..")
        return self._exit_code if server.failure is None else EXIT_FAILURE

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """INT and TERM end the start of the server, also while it reads stores and no event is handled.

        Nothing else that runs on the loop hears of it. Raises: Interrupted.
        """
        loop, start = asyncio.get_running_loop(), asyncio.current_task()
        assert start is not None, "the server is started by a task"
        trapped: list[Interrupted] = []

        def interrupt(number: int) -> None:
            trapped.append(Interrupted(number))
            if asyncio.current_task(loop) is start:
                raise trapped[0]
            loop.call_soon_threadsafe(start.cancel)

        self._on_early_end(interrupt)
        try:
            yield
        except asyncio.CancelledError:
            if not trapped:
                raise
            raise trapped[0] from None

    def _on_early_end(self, handle: Callable[[int], None]) -> None:
        on_end(handle)

    def before_clients(self) -> None:
        self._end_by_signals()  # before the ready line: whoever reads it may signal at once
        # What start-up allocated lives as long as the process: keep the collector from walking it. Not
        # collected first: a start leaves next to no garbage, and looking for it takes it a tenth longer.
        gc.freeze()
        gc.enable()

    def fail(self, reason: str) -> None:
        """A service cannot go on: the process ends, and says why."""
        self._server.log.critical("STREAM: Failed to start: %s", reason)
        self._exit_code = EXIT_FAILURE
        self._run(self._server.stop)

    def _begun(self) -> None:
        """Clients can connect."""
        self._write_ports_file()
        self._invite_operator()

    def _invite_operator(self) -> None:
        """Print the URL that signs the operator of this run in, and leave it beside the store.

        The log does not have it: logs go to many places.
        """
        websocket, options = self._server.listeners.websocket, self._server.options
        url = None if websocket is None else websocket.operator_url
        if url is None:
            return
        sys.stderr.write(f"Console: {url}\n")  # whole, beside the lines of other processes
        sys.stderr.flush()
        store = options.jetstream.store_dir if options.jetstream is not None else None
        if store is None and options.streaming is not None:
            store = options.streaming.directory
        if store is None:
            return
        try:
            self._operator_file = files.write_operator_file(store, url)
        except StartError as error:  # the server is up, and the URL is printed
            self._server.log.error("Error writing the console's address: %s", error)

    def _write_ports_file(self) -> None:
        directory = self._server.options.ports_file_dir
        if not directory:
            return
        try:
            self._ports_file = files.write_ports_file(directory, self._server)
        except StartError as error:  # the server is up: who waits for the file finds out why in the log
            self._server.log.error("Error writing ports file: %s", error)

    def _remove_ports_file(self) -> None:
        if self._ports_file is not None:
            self._ports_file.unlink(missing_ok=True)
            self._ports_file = None

    def _install_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        loop.add_signal_handler(signal.SIGUSR1, self._reopen_log)
        loop.add_signal_handler(signal.SIGUSR2, self._lame_duck)

    def _end_by_signals(self) -> None:
        """INT and TERM stop the server from now on; before, they ended its start."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._terminate, "interrupt")
        loop.add_signal_handler(signal.SIGTERM, self._terminate, "terminated")

    def _run(self, end: Callable[[], Coroutine[object, object, None]]) -> None:
        """Begin the end of the server, once it has started."""

        async def work() -> None:
            await self.started.wait()
            await end()

        task = asyncio.get_running_loop().create_task(work())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _terminate(self, name: str) -> None:
        self._server.log.info('Trapped "%s" signal', name)
        self._server.log.info("Initiating Shutdown...")
        self._run(self._server.stop)

    def _lame_duck(self) -> None:
        self._server.log.info('Trapped "user defined signal 2" signal')
        self._run(self._server.lame_duck)

    def _reopen_log(self) -> None:
        self._server.log.info('Trapped "user defined signal 1" signal')
        if logs.reopen(self._handler):
            self._server.log.info("File log re-opened")
        else:
            self._server.log.info("File log re-open ignored, not a file logger")

    def _reload(self) -> None:
        self._server.log.info('Trapped "hangup" signal')
        try:
            self._server.reload()
        except (ConfigError, StartError) as error:
            for line in str(error).splitlines():
                self._server.log.error("Failed to reload server configuration: %s", line)

    def prepare(self, new: Options, changed: Sequence[str]) -> Callable[[], None]:
        """Prepare the process's part of a reload: its log and its files.

        Raises: StartError when the log file cannot be opened; nothing has changed then.
        """
        handler = logs.make_handler(new) if OF_THE_LOG.intersection(changed) else None

        def apply() -> None:
            if handler is not None:
                logs.swap(self._handler, handler)
                self._handler = handler
            logs.set_level(new)
            if "pid_file" in changed and new.pid_file:
                try:
                    files.write_pid_file(new.pid_file)
                except StartError as error:
                    # The server runs: who waits for the file finds out why in the log.
                    self._server.log.error("%s", error)
            if "ports_file_dir" in changed:
                self._remove_ports_file()
                self._write_ports_file()

        return apply
