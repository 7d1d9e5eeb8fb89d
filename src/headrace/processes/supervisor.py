"""The parent: starts the processes of one server, starts again those that end, and passes on what it is told.

One thread, no event loop: a process is forked from here at any time. Never lives here: what a process does
(`worker`), who listens where (`plan`).
"""

from __future__ import annotations

import gc
import logging
import mmap
import os
import selectors
import signal
import socket
import time
import traceback
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from headrace import app
from headrace.conf.binding import load_options
from headrace.conf.changes import changed_options, differences
from headrace.conf.processes import count
from headrace.errors import ConfigError, StartError
from headrace.processes.channel import ChannelEnd, pair
from headrace.processes.plan import ProcessPlan, shared_remotes
from headrace.processes.worker import Share, work
from headrace.server import files, logs
from headrace.server.tls_contexts import make_contexts

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.options import Options

RETRY_MOST: Final = 30.0
"""Seconds at most until a process that ends again and again is started again."""

RETRY_FIRST: Final = 1.0
STEADY: Final = 60.0
"""Seconds after which a process has been up for long enough to be started again at once."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_NAMES: Final = {
    signal.SIGINT: "interrupt",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hangup",
    signal.SIGUSR1: "user defined signal 1",
    signal.SIGUSR2: "user defined signal 2",
}


def supervise(options: Options) -> int:
    """Serve until a signal says otherwise; returns the exit code.

    Raises: StartError when the log file cannot be opened. Later failures to start are logged.
    """
    handler = logs.install(options)
    app.raise_descriptor_limit()
    try:
        return Supervisor(options, handler).run()
    except StartError as error:
        logging.getLogger(logs.LOGGER_NAME).critical("%s", error)
        return app.EXIT_FAILURE
    finally:
        logs.uninstall()


class Child(Struct, eq=False):
    """One process while it runs. `dials` and `monitor_port` went into the options of its start, and so they
    do into those of a reload. `asks`: questions that it was asked and has not answered.
    """

    index: int
    pid: int
    channel: ChannelEnd
    since: float
    dials: tuple[int, ...]
    monitor_port: int | None
    server_id: str = ""
    has_joined: bool = False
    is_ready: bool = False
    has_left: bool = False
    asks: set[int] = field(default_factory=set)

    @property
    def number(self) -> int:
        return self.index + 1


class Supervisor:
    """One server's processes. Raises: StartError when a port cannot be bound."""

    def __init__(self, options: Options, handler: logging.Handler) -> None:
        self._options = options
        self._handler = handler
        self._log = logging.getLogger(logs.LOGGER_NAME)
        self._count = count(options.processes)
        self._start_ns = time.time_ns()
        self._children: dict[int, Child] = {}
        self._pauses: dict[int, float] = {}
        self._due: dict[int, float] = {}
        self._ports: dict[str, list[str]] = {}
        self._ports_file: Any = None
        self._said_at_start: set[str] = set()
        self._is_up = False
        self._is_leaving = False
        self._is_ending = False
        self._exit_code = app.EXIT_OK
        self._monitor_port: int | None = None
        self._plan = ProcessPlan(options, self._count)
        self._slots = mmap.mmap(-1, 8 * self._count)
        self._selector = selectors.DefaultSelector()
        self._told, self._tells = socket.socketpair()

    def run(self) -> int:
        """Start the processes and wait for their end; return the exit code. Raises: StartError."""
        options = self._options
        if options.pid_file:
            files.write_pid_file(options.pid_file)
        self._catch_signals()
        gc.enable()
        gc.collect()
        gc.freeze()  # what is here now is the children's too, as long as nobody writes to it
        self._log.info("Starting headrace in %d processes", self._count)
        try:
            for index in range(self._count):
                self._start(index, tuple(range(index)))
            while self._children or self._due:
                self._turn()
        finally:
            self._end()
        self._log.info("Server Exiting..")
        return self._exit_code

    def _end(self) -> None:
        """End all processes.

        Those that still run, since a start or this process could not go on, end as if it were gone.
        """
        for child in self._children.values():
            child.channel.close()
        for child in self._children.values():
            os.waitpid(child.pid, 0)
        self._plan.close()
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        self._remove_ports_file()
        self._selector.close()

    # -- turns --------------------------------------------------------------------------------------

    def _turn(self) -> None:
        now = time.monotonic()
        for index in [each for each, due in self._due.items() if due <= now]:
            del self._due[index]
            self._start_again(index)
        pause = min(self._due.values()) - now if self._due else None
        found = self._selector.select(None if pause is None else max(pause, 0.0))
        # Signals first: a process that ends because all were told to is not missed.
        for key, events in sorted(found, key=lambda each: each[0].data is not None):
            if key.data is None:
                for number in self._told.recv(64):
                    self._signalled(signal.Signals(number))
                continue
            child: Child = key.data
            if self._children.get(child.index) is not child:
                continue
            if events & selectors.EVENT_WRITE:
                child.channel.flush()
                self._watch(child)
            if events & selectors.EVENT_READ:
                self._hear(child)

    def _tell(self, child: Child, *message: object) -> None:
        child.channel.queue(*message)
        child.channel.flush()
        self._watch(child)

    def _tell_all(self, *message: object) -> None:
        for child in list(self._children.values()):
            self._tell(child, *message)

    def _watch(self, child: Child) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.channel.has_more else 0)
        if self._selector.get_key(child.channel).events != events:
            self._selector.modify(child.channel, events, child)

    # -- starting -----------------------------------------------------------------------------------

    def _start(self, index: int, dials: tuple[int, ...]) -> None:
        """Start a process.

        Raises: StartError when its ports cannot be bound, or the system has no room for it.
        """
        options = self._plan.options_of(index, self._options, dials, self._monitor_port)
        with ExitStack() as ours:
            sockets = self._plan.sockets()
            for _, sock in sockets:
                ours.callback(sock.close)
            inherited = [*sockets, *self._plan.peer_sockets(index, options)]
            try:
                here, there = pair()
                ours.callback(there.close)
                pid = self._fork(index, options, here, there, inherited)
            except OSError as error:
                raise StartError(f"a process could not be started: {error.strerror}") from error
        child = Child(index, pid, here, time.monotonic(), dials, self._monitor_port)
        self._children[index] = child
        self._selector.register(here, selectors.EVENT_READ, child)

    def _fork(self, index: int, options: Options, here: ChannelEnd, there: ChannelEnd, inherited: Any) -> int:
        """The id of the child. Raises: OSError."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until the child has let go of ours
        try:
            pid = os.fork()
            if pid == 0:
                self._be_child(index, options, here, there, inherited)
        except OSError:
            here.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        return pid

    def _be_child(
        self, index: int, options: Options, here: ChannelEnd, there: ChannelEnd, inherited: Any
    ) -> None:
        """Run a child; never returns. What is the parent's alone is given up first."""
        code = app.EXIT_FAILURE
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                # they go to the whole group of a terminal; the parent says what is to be done
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            here.close()
            for child in self._children.values():
                child.channel.close()
            self._told.close()
            self._tells.close()
            self._selector.close()
            self._plan.let_go(index)
            logging.getLogger(logs.LOGGER_NAME).removeHandler(self._handler)
            share = Share(
                index, self._count, self._start_ns, self._plan.has_private_mesh, self._slots,
                runs_jetstream=self._options.jetstream is not None, whole_options=self._options,
            )  # fmt: skip
            code = work(options, share, there, inherited)
        except Exception:  # noqa: BLE001 - there is no log yet, and nobody above: this is the whole process
            traceback.print_exc()
        finally:
            os._exit(code)

    def _start_again(self, index: int) -> None:
        try:
            self._start(index, tuple(self._children))  # who is not there connects when it starts
        except StartError as error:
            self._log.error("Process %d could not be started again: %s", index + 1, error)
            self._retry(index)

    def _retry(self, index: int) -> None:
        pause = self._pauses.get(index, 0.0)
        self._pauses[index] = min(pause * 2 or RETRY_FIRST, RETRY_MOST)
        self._due[index] = time.monotonic() + pause

    # -- what children say ----------------------------------------------------------------------------

    def _hear(self, child: Child) -> None:
        for word, *rest in child.channel.take():
            _HEARD[word](self, child, *rest)
        if child.channel.is_over:
            self._ended(child)

    def _logged(self, child: Child, level: int, line: str, text: str) -> None:
        if not self._is_up and level >= logging.CRITICAL:
            if text in self._said_at_start:
                return  # what one process cannot do at the start, the others cannot either
            self._said_at_start.add(text)
        logs.relay(level, line)

    def _opened(self, child: Child, server_id: str) -> None:
        child.server_id = server_id
        if self._is_up or self._all(lambda each: bool(each.server_id)):
            self._tell_peers()

    def _all(self, have: Callable[[Child], bool]) -> bool:
        """True if all processes run and each fulfils the condition."""
        return len(self._children) == self._count and all(map(have, self._children.values()))

    def _tell_peers(self) -> None:
        """Tell every process which others run. A lame duck's process may have ended."""
        ids = frozenset(each.server_id for each in self._children.values() if each.server_id)
        missing = next(
            (
                index + 1
                for index in range(self._count)
                if index not in self._children or not self._children[index].is_ready
            ),
            None,
        )
        self._tell_all("peers", ids, missing)

    def _joined(self, child: Child) -> None:
        child.has_joined = True
        if self._is_up:
            self._tell(child, "accept")
        elif self._all(lambda each: each.has_joined):
            self._tell_all("accept")

    def _ready(self, child: Child, ports: dict[str, list[str]], monitor_port: int | None) -> None:
        if self._is_ending:
            return
        child.is_ready = True
        if child.index == 0:
            self._ports = ports
            self._monitor_port = monitor_port
        self._tell_peers()
        if self._is_up:
            self._log.info("Process %d is ready again", child.number)
        elif self._all(lambda each: each.is_ready):
            self._is_up = True
            self._write_ports_file()
            self._log.info("Server is ready")

    def _fatal(self, child: Child) -> None:
        self._exit_code = app.EXIT_FAILURE
        self._stop()

    def _left(self, child: Child) -> None:
        child.has_left = True
        self._stop_if_all_left()

    def _stop_if_all_left(self) -> None:
        if not self._is_ending and all(each.has_left for each in self._children.values()):
            self._log.info("Initiating Shutdown...")
            self._stop()

    def _asked(self, child: Child, to: int, number: int, question: bytes) -> None:
        other = self._children.get(to)
        if other is None or not other.is_ready:
            self._tell(child, "answered", to, number, "absent")
            return
        other.asks.add(number)
        self._tell(other, "ask", number, question)

    def _part(self, child: Child, number: int, answer: bytes) -> None:
        self._pass_on("part", child, number, answer)

    def _answered(self, child: Child, number: int, error: str) -> None:
        child.asks.discard(number)
        self._pass_on("answered", child, number, error)

    def _pass_on(self, word: str, child: Child, number: int, what: object) -> None:
        first = self._children.get(0)
        if first is not None:
            self._tell(first, word, child.index, number, what)

    # -- the end of children ----------------------------------------------------------------------------

    def _ended(self, child: Child) -> None:
        self._selector.unregister(child.channel)
        child.channel.close()
        del self._children[child.index]
        _, status = os.waitpid(child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._slots[8 * child.index : 8 * child.index + 8] = bytes(8)
        for number in child.asks:
            self._pass_on("answered", child, number, "absent")
        if self._is_ending:
            return
        if not self._is_up:
            self._exit_code = code if code > 0 else app.EXIT_FAILURE
            if code < 0:
                self._log.critical("Process %d (%d) ended by signal %d", child.number, child.pid, -code)
            self._stop()
            return
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if self._is_leaving:
            self._log.error("Process %d (%d) ended with %s", child.number, child.pid, how)
            self._tell_peers()
            self._stop_if_all_left()
            return
        if time.monotonic() - child.since >= STEADY:
            self._pauses.pop(child.index, None)
        pause = self._pauses.get(child.index, 0.0)
        self._log.error(
            "Process %d (%d) ended with %s; it is started again in %gs", child.number, child.pid, how, pause
        )
        self._retry(child.index)
        self._tell_peers()

    def _stop(self) -> None:
        self._is_ending = True
        self._due.clear()
        self._tell_all("stop")

    # -- signals ----------------------------------------------------------------------------------------

    def _catch_signals(self) -> None:
        self._told.setblocking(False)
        self._tells.setblocking(False)
        self._selector.register(self._told, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(self._tells.fileno())
        for number in _SIGNALS:
            signal.signal(number, _awake)

    def _signalled(self, number: signal.Signals) -> None:
        if number not in _NAMES:
            return
        self._log.info('Trapped "%s" signal', _NAMES[number])
        match number:
            case signal.SIGINT | signal.SIGTERM:
                self._log.info("Initiating Shutdown...")
                self._stop()
            case signal.SIGHUP:
                self._reload()
            case signal.SIGUSR1 if logs.reopen(self._handler):
                self._log.info("File log re-opened")
            case signal.SIGUSR1:
                self._log.info("File log re-open ignored, not a file logger")
            case signal.SIGUSR2:
                self._is_leaving = True
                self._due.clear()
                self._tell_all("lame_duck")

    # -- reload -----------------------------------------------------------------------------------------

    def _reload(self) -> None:
        """Checked once here, then every process takes the same options over."""
        try:
            new = self._read_again()
            apply = self._prepare(new)
        except (ConfigError, StartError) as error:
            for line in str(error).splitlines():
                self._log.error("Failed to reload server configuration: %s", line)
            return
        apply()
        self._options = new
        for child in list(self._children.values()):
            options = self._plan.options_of(child.index, new, child.dials, child.monitor_port)
            self._tell(child, "reload", options, new)

    def _read_again(self) -> Options:
        old = self._options
        if old.config_file is None:
            raise StartError("can only reload config when a file is provided using -c or --config")
        new = load_options(old.config_file, overrides=old.overrides)
        refused = [change for change in differences(old, new) if change.needs_restart]
        if refused:
            raise StartError(
                "\n".join(
                    f"config reload not supported for {change.path}: old={change.before}, new={change.after}"
                    for change in refused
                )
            )
        if shared_remotes(new) and not shared_remotes(old):
            raise StartError("config reload not supported for leafnodes.remotes: processes have had none")
        make_contexts(new)
        return new

    def _prepare(self, new: Options) -> Callable[[], None]:
        """Prepare the parent's part of a reload. Raises: StartError."""
        changed = changed_options(self._options, new)
        handler = logs.make_handler(new) if app.OF_THE_LOG.intersection(changed) else None

        def apply() -> None:
            if handler is not None:
                logs.swap(self._handler, handler)
                self._handler = handler
            logs.set_level(new)
            if "pid_file" in changed and new.pid_file:
                try:
                    files.write_pid_file(new.pid_file)
                except StartError as error:  # the server runs: who waits for it finds out why in the log
                    self._log.error("%s", error)
            if "ports_file_dir" in changed:
                self._remove_ports_file()
                self._options = new
                self._write_ports_file()

        return apply

    def _reloaded(self, child: Child, error: str) -> None:
        for line in error.splitlines():
            self._log.error("Failed to reload server configuration: process %d: %s", child.number, line)

    # -- files ------------------------------------------------------------------------------------------

    def _write_ports_file(self) -> None:
        directory = self._options.ports_file_dir
        if not directory or not self._ports:
            return
        try:
            self._ports_file = files.write_ports(directory, self._ports)
        except StartError as error:  # the server is up: who waits for the file finds out why in the log
            self._log.error("Error writing ports file: %s", error)

    def _remove_ports_file(self) -> None:
        if self._ports_file is not None:
            self._ports_file.unlink(missing_ok=True)
            self._ports_file = None


def _awake(number: int, frame: object) -> None:
    """The number is in the wakeup descriptor."""


_HEARD: Final[dict[str, Callable[..., None]]] = {
    "log": Supervisor._logged,
    "opened": Supervisor._opened,
    "joined": Supervisor._joined,
    "ready": Supervisor._ready,
    "reloaded": Supervisor._reloaded,
    "left": Supervisor._left,
    "fatal": Supervisor._fatal,
    "ask": Supervisor._asked,
    "part": Supervisor._part,
    "answered": Supervisor._answered,
}
