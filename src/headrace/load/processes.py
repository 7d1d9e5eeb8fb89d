"""Clients as processes: one each, ready together, begun at once, ended together.

Here live forks, pipes and signals. What a client does is its own; one that fails ends the others.
Never here: scenarios.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from io import FileIO
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.internal_errors import in_one_line
from headrace.load.result import LoadFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection as Pipe

    from headrace.load.board import LoadBoard
    from headrace.load.client import LoadClient

    Maker = Callable[[], LoadClient]

READY_S: Final = 60.0
"""Seconds that all clients together may take to connect and subscribe; the load fails then."""
END_S: Final = 15.0
"""Seconds that clients may take to end when they were told to; they are killed then."""

_FORKED: Final = multiprocessing.get_context("fork")
_STEP_S: Final = 0.25


class ClientFailure(Struct, frozen=True):
    """The error that ended a client: the name of its class, and its text."""

    kind: str
    text: str


class _Outcome(Struct, frozen=True):
    figures: LoadFigures = LoadFigures()
    failure: ClientFailure | None = None


class Crew(NamedTuple):
    """Clients that end together: how each is made, in its own process, and the board that they share."""

    makers: Sequence[Maker]
    board: LoadBoard


class CrewResult(NamedTuple):
    """The figures of each client and of each partner; what ended the load early, if something did."""

    clients: list[LoadFigures]
    partners: list[LoadFigures]
    failure: ClientFailure | None
    was_interrupted: bool


def run_crew(clients: Crew, partners: Crew, step: Callable[[], None]) -> CrewResult:
    """Run all clients, and beside them partners, which end when the clients have ended.

    `step` is called some times a second. What goes wrong in a client is the result's `failure`.
    KeyboardInterrupt ends the clients, and what they have measured is the result.
    """
    gate, there = os.pipe()
    opener = FileIO(there, "w")  # closing it twice does no harm
    helping: list[_ClientProcess] = []
    measured: list[_ClientProcess] = []
    was_interrupted = False
    try:
        try:
            helping += [_ClientProcess(maker, partners.board, gate, opener) for maker in partners.makers]
            measured += [_ClientProcess(maker, clients.board, gate, opener) for maker in clients.makers]
            if not _are_ready([*helping, *measured]):
                clients.board.stop()
            opener.close()  # all that are ready begin now
            _await_end(measured, helping, clients.board, step)
        except KeyboardInterrupt:
            was_interrupted = True
            clients.board.stop()
        opener.close()
        _collect(measured, END_S)
        partners.board.stop()
        _collect(helping, END_S)
    finally:
        for process in [*measured, *helping]:
            process.end()
        os.close(gate)
        opener.close()
    outcomes = [process.outcome or _SILENT for process in [*measured, *helping]]
    return CrewResult(
        [outcome.figures for outcome in outcomes[: len(measured)]],
        [outcome.figures for outcome in outcomes[len(measured) :]],
        None if was_interrupted else next((one.failure for one in outcomes if one.failure), None),
        was_interrupted,
    )


_SILENT: Final = _Outcome(failure=ClientFailure("LoadError", "a client did not end when it was told to"))


class _ClientProcess:
    """A client's process as its parent sees it."""

    def __init__(self, maker: Maker, board: LoadBoard, gate: int, opener: FileIO) -> None:
        self.is_ready = False
        self.outcome: _Outcome | None = None
        self.pipe, there = _FORKED.Pipe()
        arguments = (maker, board, there, gate, (self.pipe, opener))
        self._process = _FORKED.Process(target=_live, args=arguments, daemon=True)
        self._process.start()
        there.close()

    def hear(self) -> None:
        """Take what the client says: that it is ready, or what came of it."""
        try:
            said = self.pipe.recv()
        except EOFError:
            failure = ClientFailure("LoadError", "a client's process ended without a word")
            self.outcome = _Outcome(failure=failure)
            return
        if isinstance(said, _Outcome):
            self.outcome = said
        else:
            self.is_ready = True

    def end(self) -> None:
        """End the process, by force if it has not ended."""
        if self._process.is_alive() and self.outcome is None:
            self._process.kill()
        self._process.join()
        self.pipe.close()


def _are_ready(processes: list[_ClientProcess]) -> bool:
    """Wait until all clients are ready; False if one failed or they take too long."""
    deadline = time.monotonic() + READY_S
    while waiting := [one for one in processes if not one.is_ready]:
        _hear(waiting, max(deadline - time.monotonic(), 0.0))
        if any(one.outcome for one in processes):
            return False
        if time.monotonic() >= deadline:
            failure = ClientFailure("ClientTimeoutError", f"the clients were not ready in {READY_S:g} s")
            waiting[0].outcome = _Outcome(failure=failure)
            return False
    return True


def _await_end(
    measured: list[_ClientProcess],
    helping: list[_ClientProcess],
    board: LoadBoard,
    step: Callable[[], None],
) -> None:
    """Wait until all measured clients have ended; one that fails ends the others."""
    while any(one.outcome is None for one in measured):
        _hear([*measured, *helping], _STEP_S)
        step()
        failed = any(one.outcome and one.outcome.failure for one in [*measured, *helping])
        if failed or board.is_stopped:
            board.stop()
            return


def _collect(processes: list[_ClientProcess], seconds: float) -> None:
    """Wait for the outcomes of clients that were told to end, or that end by themselves."""
    deadline = time.monotonic() + seconds
    while any(one.outcome is None for one in processes) and time.monotonic() < deadline:
        _hear(processes, max(deadline - time.monotonic(), 0.0))


def _hear(processes: list[_ClientProcess], seconds: float) -> None:
    """Wait until one of the clients says something."""
    by_pipe = {one.pipe: one for one in processes if one.outcome is None}
    for pipe in wait(list(by_pipe), seconds):
        by_pipe[pipe].hear()  # type: ignore[index]  # what is waited for are pipes


# -- in the client's process ---------------------------------------------------------------------------


def _live(maker: Maker, board: LoadBoard, pipe: Pipe, gate: int, parents: tuple[Pipe | FileIO, ...]) -> None:
    """Make a client, say that it is ready, run it when the gate opens, say what came of it.

    `parents`: pipe ends that only the parent is to have.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells its clients
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in parents:
        end.close()
    client: LoadClient | None = None
    failure: ClientFailure | None = None
    try:
        client = maker()
        pipe.send(True)
        os.read(gate, 1)  # until nobody can write to it any more
        if not board.is_stopped:
            client.begin()
            client.run()
    except HeadraceError as error:
        failure = ClientFailure(type(error).__name__, str(error))
    except Exception as error:  # noqa: BLE001 - the parent must know, whatever it is
        failure = ClientFailure("InternalError", in_one_line(error))
    pipe.send(_Outcome(client.figures() if client is not None else LoadFigures(), failure))
    if client is not None:
        client.connection.close()
