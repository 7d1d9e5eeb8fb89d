"""Stored streams of each kind behind one face, so that one test file says what all of them must do.

A STAN channel on Headrace, and a JetStream stream on the Go server and on Headrace; all in processes that can
be killed and started again with what they stored.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.ports import free_port
from harness.processes import HEADRACES, NATS_SERVER, STREAMING, Program, ServerProcess
from headrace.client import stan
from headrace.client.blocking import connect
from headrace.client.streaming_admin import StreamingAdmin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CLUSTER_ID: Final = "stored"


class Source(Protocol):
    """One stream called `a`, empty at first, and the server that has it."""

    word: str
    store: Path
    """The directory with what is stored, to be copied while the server is away."""

    @property
    def url(self) -> str: ...
    def options(self) -> dict[str, str]: ...
    def publish(self, count: int) -> None:
        """Numbers from the stream's next sequence on, so that every payload says its own sequence."""

    def keep_last(self, count: int) -> None: ...
    def delete(self) -> None: ...
    def kill(self) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class Store:
    """A server over a store: its process, which comes back at the same port with what it had."""

    def __init__(self, program: Program, folder: Path, *arguments: str, config: str = "") -> None:
        self._start = (program, folder, *arguments)
        self._config = config or None
        self._listen = ("-a", "127.0.0.1", "-p", str(free_port()))
        self.url = f"nats://127.0.0.1:{self._listen[-1]}"
        self.start()

    def start(self) -> None:
        self._server = ServerProcess(*self._start, listen=self._listen, config=self._config)

    def kill(self) -> None:
        self._server.kill()

    def stop(self) -> None:
        if self._server.process.poll() is None:
            self._server.kill()


class StanChannel(Store):
    word = "channel"

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        super().__init__(STREAMING, folder, "-cid", CLUSTER_ID, "-st", "FILE", "-dir", str(self.store))

    def start(self) -> None:
        super().start()
        self._server.wait_for_line("Streaming Server is ready")

    def options(self) -> dict[str, str]:
        return {"url": self.url, "clusterId": CLUSTER_ID, "channel": "a"}

    def publish(self, count: int) -> None:
        async def work(first: int) -> None:
            async with await stan.connect(CLUSTER_ID, "publisher", servers=self.url) as client:
                for number in range(first, first + count):
                    last = await client.publish_async("a", b"%d" % number)
                await last

        with connect(self.url) as nc:
            found = StreamingAdmin(nc, CLUSTER_ID).channels("a")
        asyncio.run(work(found[0].last_seq + 1 if found else 1))

    def keep_last(self, count: int) -> None:
        with connect(self.url) as nc:
            StreamingAdmin(nc, CLUSTER_ID).purge("a", keep=count)

    def delete(self) -> None:
        with connect(self.url) as nc:
            StreamingAdmin(nc, CLUSTER_ID).delete("a")


class GoStream(Store):
    word = "stream"
    program: Program = NATS_SERVER

    def __init__(self, folder: Path, config: str = "", **stream: Any) -> None:
        self.store = folder / "js"
        self._stream = stream
        super().__init__(self.program, folder, "-js", "-sd", str(self.store), config=config)

    def options(self) -> dict[str, str]:
        return {"url": self.url, "stream": "a"}

    def api(self, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        with connect(self.url) as nc:
            payload = b"" if body is None else json.dumps(body).encode()
            answer: dict[str, Any] = json.loads(nc.request(f"$JS.API.{verb}", payload).data)
        return answer

    def publish(self, count: int, subject: Callable[[int], str] = lambda number: f"a.{number % 3}") -> None:
        config = {"name": "a", "subjects": ["a.>"], "storage": "file", "allow_direct": True, **self._stream}
        answer = self.api("STREAM.CREATE.a", config)
        assert "error" not in answer, answer
        first = answer["state"]["last_seq"] + 1
        with connect(self.url) as nc:
            acks = nc.subscribe("acks")
            got = 0
            for number in range(first, first + count):
                nc.publish(subject(number), b"%d" % number, reply="acks")
            while got < count:
                got += len(nc.receive_of(acks, 10.0))

    def keep_last(self, count: int) -> None:
        assert self.api("STREAM.PURGE.a", {"keep": count})["success"]

    def delete(self) -> None:
        assert self.api("STREAM.DELETE.a")["success"]


class HeadraceStream(GoStream):
    program = HEADRACES[0]


_SOURCES: Final[dict[str, Callable[[Path], Source]]] = {
    "stan-headrace": StanChannel,
    "jetstream-nats-server": GoStream,
    "jetstream-headrace": HeadraceStream,
}
KINDS = tuple(_SOURCES)
"""Parameters of fixtures whose tests must hold for every source."""


@contextmanager
def stored_source(kind: str, folder: Path) -> Iterator[Source]:
    """One source of `KINDS`."""
    source = _SOURCES[kind](folder)
    try:
        yield source
    finally:
        source.stop()
