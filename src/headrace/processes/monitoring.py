"""Process snapshots on their way: the first process asks, the others answer, in parts, over their parent.

Never lives here: what a process snapshot shows (`headrace.server.monitor.aggregate`).
"""

from __future__ import annotations

import asyncio
import pickle
import secrets
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec.structs import replace

from headrace.server.monitor.aggregate import (
    MonitorUnavailable,
    ProcessMonitor,
    ProcessSnapshot,
    SnapshotParts,
    connection_parts,
    process_snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.processes.channel import ChannelEnd
    from headrace.server.port import Runtime
    from headrace.server.snapshot import MonitoredServer
    from headrace.server.worker import Worker

    class _Server(MonitoredServer, Runtime, Protocol):
        """A server, as other processes ask for its snapshots."""


ANSWER_SECONDS: Final = 5.0
"""A process that has not answered by then does not."""

ABSENT: Final = "absent"
"""The answer of the parent for a process that is not there."""


class _Question:
    """The question to one process; its answer is put together as the parts come."""

    def __init__(self) -> None:
        self.done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.parts: list[Any] = []

    @property
    def snapshot(self) -> ProcessSnapshot:
        """The answer, put together. It has come to its end."""
        first, *connections = self.parts
        assert isinstance(first, ProcessSnapshot), "it comes first"
        return replace(first, connections=tuple(chain.from_iterable(connections)))


class SnapshotExchange:
    """The questions for snapshots that one process asks, and those that it is asked."""

    def __init__(self, worker: Worker, channel: ChannelEnd) -> None:
        self._worker = worker
        self._channel = channel
        self._numbers = count(secrets.randbits(48))  # a process before this one may have asked too
        self._open: dict[tuple[int, int], _Question] = {}
        self._monitor: ProcessMonitor | None = None

    # -- the first process ------------------------------------------------------------------------------

    async def ask_all(self, wanted: SnapshotParts) -> Sequence[ProcessSnapshot]:
        """Ask the other processes that run for their snapshots.

        Raises: MonitorUnavailable when one does not answer.
        """
        number = next(self._numbers)
        packed = pickle.dumps(wanted)
        asked = {index: _Question() for index in range(self._worker.count) if index != self._worker.index}
        for index, question in asked.items():
            self._open[index, number] = question
            self._channel.say("ask", index, number, packed)
        try:
            await asyncio.wait([each.done for each in asked.values()], timeout=ANSWER_SECONDS)
        finally:
            for index in asked:
                del self._open[index, number]
        for index, question in asked.items():
            if not question.done.done():
                raise MonitorUnavailable(f"process {index + 1} does not answer")
            if question.done.result() not in ("", ABSENT):
                raise MonitorUnavailable(f"process {index + 1}: {question.done.result()}")
        return [each.snapshot for each in asked.values() if not each.done.result()]

    def heard(self, word: str, index: int, number: int, what: object) -> None:
        """Take a part of an answer, or its end. An answer that nobody waits for any more is passed over."""
        question = self._open.get((index, number))
        if question is None or question.done.done():
            return
        if word == "part":
            assert isinstance(what, bytes)
            question.parts.append(pickle.loads(what))
        else:
            question.done.set_result(str(what))

    # -- the others -------------------------------------------------------------------------------------

    def asked(self, server: _Server, number: int, question: bytes) -> None:
        """Answered in a task: others work in between."""
        server.tasks.run(self._answer(server, number, pickle.loads(question)))

    async def _answer(self, server: _Server, number: int, wanted: SnapshotParts) -> None:
        if self._monitor is None:
            self._monitor = ProcessMonitor(server, self._worker)
        try:
            self._part(number, process_snapshot(self._monitor, wanted))
            for part in connection_parts(self._monitor, wanted):
                await asyncio.sleep(0)
                self._part(number, part)
        except Exception as error:
            self._channel.say("answered", number, f"internal error: {error!r}")
            raise
        self._channel.say("answered", number, "")

    def _part(self, number: int, part: object) -> None:
        self._channel.say("part", number, pickle.dumps(part, pickle.HIGHEST_PROTOCOL))
