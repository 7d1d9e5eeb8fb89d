"""A pipeline of Spark queries between two servers whose parts are killed while messages are published.

A STAN channel on Headrace, a driver (`tests/spark/killed_driver.py`), a Go server with two streams, and a
publisher that never stops for long. What to kill and when is drawn from a seed; the moment is a step in the
work of a query (a batch planned, a batch committed, rows in a stream), seen in its checkpoint or the stream,
and some milliseconds more, so that it may be in the midst of a step.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.ports import free_port
from harness.processes import STREAMING, ServerProcess
from harness.stored_sources import GoStream
from harness.waiting import LONG, wait_until
from headrace.client.blocking import connect
from headrace.client.jetstream import JetStream
from headrace.client.pipeline import MessageColumns, PublishPipeline
from headrace.client.replay import channel_state, replay
from headrace.client.retries import Patience
from headrace.client.streaming_publish import StreamingWire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CLUSTER_ID: Final = "to-be-killed"
CHANNEL: Final = "orders"
QUERIES: Final = ("table", "out", "copy")
TARGETS: Final = ("driver", "jvm", "worker", "worker", "headrace", "nats-server")
STREAMS: Final = {"OUT": "out.>", "COPY": "copy"}


_PROGRAM: Final = Path(__file__).parents[1] / "spark" / "killed_driver.py"
_SOURCES: Final = Path(__file__).parents[2] / "src"
_BURST: Final = 100
_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.15
_LONGEST_OUTAGE: Final = 1.0


class StreamingServer:
    """Headrace with channels that keep everything, so that what went through can be compared at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"nats://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        store = ("-cid", CLUSTER_ID, "-st", "FILE", "-dir", str(self._folder / "store"))
        listen = ("-a", "127.0.0.1", "-p", str(self._port))
        self._process = ServerProcess(
            STREAMING, self._folder, *store, "--max_msgs", "0", "--max_bytes", "0", listen=listen
        )

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        if self._process.process.poll() is None:
            self._process.stop()


class Publisher(threading.Thread):
    """Numbers from 1 on into the channel, some thousand a second, through outages. At least once."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._pipeline = PublishPipeline(
            lambda: connect(url), StreamingWire(CLUSTER_ID, secrets.token_hex(8)), Patience(LONG)
        )
        self._ended = threading.Event()
        self.published = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ended.wait(_PAUSE):
                numbers = range(self.published + 1, self.published + _BURST + 1)
                payloads = [b"number %d" % number for number in numbers]
                self._pipeline.send(MessageColumns([CHANNEL.encode()] * _BURST, payloads))
                self.published += _BURST
            self._pipeline.finish()
        except BaseException as error:  # noqa: BLE001  # the test raises it
            self.failure = error
        finally:
            self._pipeline.close()

    def finish(self) -> int:
        """Stop; how many numbers were published, all of them acknowledged by then."""
        self._ended.set()
        self.join(LONG)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure
        return self.published


class Driver:
    """The process with the queries, and the JVM below it."""

    def __init__(self, given: dict[str, Any], told: list[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(_SOURCES)}
        with (Path(given["folder"]) / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), json.dumps(given)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
            )  # fmt: skip
        self._told = told
        self.jvm = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, rest = line.partition(" ")
            if word == "jvm":
                self.jvm = int(rest)
            else:
                self._told.append(line.rstrip())

    def check(self) -> None:
        assert self._process.poll() is None, f"the driver ended with code {self._process.returncode}"

    def workers(self) -> list[int]:
        """The Python processes below the JVM, those that only start others left out."""
        assert self.jvm, "the JVM is not known yet"
        found = _descendants(self.jvm)
        parents = {parent for _, parent in found}
        return [pid for pid, _ in found if pid not in parents]

    def kill_worker(self, chance: random.Random) -> None:
        """SIGKILL of one of `workers`; one that ended by itself meanwhile does not count."""

        def is_killed() -> bool:
            for pid in chance.sample(found := self.workers(), len(found)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return True
            return False

        wait_until(is_killed, "a Python worker", LONG)

    def kill(self, *, jvm: bool) -> None:
        """SIGKILL, of the JVM or of the program above it; the other one has to notice."""
        below = [pid for pid, _ in _descendants(self._process.pid)]
        assert self.jvm or not jvm, "the JVM is not known yet"  # 0 would be our own process group
        os.kill(self.jvm if jvm else self._process.pid, signal.SIGKILL)
        self._end(below)

    def finish(self) -> int:
        """Ask it to end; the exit code."""
        below = [pid for pid, _ in _descendants(self._process.pid)]
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(LONG)
        self._end(below)
        return code

    def end(self) -> None:
        if self._process.poll() is None:
            self.kill(jvm=False)
        self._close_pipes()  # also those of one that ended by itself

    def _end(self, below: list[int]) -> None:
        try:
            self._process.wait(LONG)
            wait_until(lambda: not any(map(_is_there, below)), f"{below} below the driver end", LONG)
        finally:
            for pid in [self._process.pid, *filter(_is_there, below)]:
                if _is_there(pid):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._close_pipes()

    def _close_pipes(self) -> None:
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class BreakingPipeline:
    """All of it, with some of the queries; "copy" goes behind "out", whose stream it reads.

    `kills` counts by what was killed, `ended` is what queries said that ended.
    """

    def __init__(self, folder: Path, seed: int, queries: Sequence[str] = QUERIES) -> None:
        self._chance = random.Random(seed)
        self._queries = queries
        self._folder = folder
        self.kills: Counter[str] = Counter()
        self.ended: list[str] = []
        (folder / "go").mkdir()
        (folder / "headrace").mkdir()
        self._headrace = StreamingServer(folder / "headrace")
        self._go = GoStream(folder / "go")
        for name, subjects in STREAMS.items():
            made = {"name": name, "subjects": [subjects], "storage": "file", "allow_direct": True}
            assert "error" not in self._go.api(f"STREAM.CREATE.{name}", made)
        self._given = {
            "folder": str(folder),
            "queries": list(queries),
            "channel": {"url": self._headrace.url, "clusterId": CLUSTER_ID, "channel": CHANNEL},
            "stream": {"url": self._go.url, "stream": "OUT"},
        }
        self._driver = Driver(self._given, self.ended)
        self._publisher = Publisher(self._headrace.url)
        self._publisher.start()

    def close(self) -> None:
        self._driver.end()
        self._headrace.stop()
        self._go.stop()

    # -- breaking

    def kill(self, target: str | None = None) -> tuple[str, str]:
        """Wait for a moment of the pipeline's work, and kill something; what, and what the moment was."""
        target = target or self._chance.choice(TARGETS)
        moment = self._wait_for_moment()
        time.sleep(self._chance.random() * _LONGEST_PAUSE)
        match target:
            case "driver" | "jvm":
                self._driver.kill(jvm=target == "jvm")
                self._driver = Driver(self._given, self.ended)
            case "worker":
                self._driver.kill_worker(self._chance)
            case _:
                server = self._headrace if target == "headrace" else self._go
                server.kill()
                time.sleep(self._chance.random() * _LONGEST_OUTAGE)
                server.start()
        self.kills[target] += 1
        return target, moment

    def _wait_for_moment(self) -> str:
        """Some steps of a query from now, which it can only make if all before has mended."""
        query = self._chance.choice(self._queries)
        step = self._chance.choice(("offsets", "commits"))
        steps = self._chance.randint(1, 4)
        if query != "table" and self._chance.random() < 0.5:
            stream, rows = query.upper(), self._chance.randint(1, 5000)
            wanted = self._stored(stream) + rows
            return self._wait(lambda: self._stored(stream) >= wanted, f"{rows} more rows in {stream}")
        wanted = self._newest(query, step) + steps
        return self._wait(lambda: self._newest(query, step) >= wanted, f"{steps} more {step} of {query}")

    def _wait(self, condition: Callable[[], bool], what: str) -> str:
        def is_so() -> bool:
            self._driver.check()
            return condition()

        wait_until(is_so, f"{what} after {dict(self.kills)}; {self.ended}", LONG)
        return what

    def _newest(self, query: str, step: str) -> int:
        folder = self._folder / "checkpoints" / query / step
        return max((int(name) for name in _names(folder) if name.isdecimal()), default=-1)

    def _stored(self, stream: str) -> int:
        with connect(self._go.url) as nc:
            state = JetStream(nc).state(stream)
        assert state is not None
        return state.last_sequence

    # -- the end

    def finish(self) -> int:
        """Stop publishing and let the queries catch up; how many messages the channel has."""
        self._publisher.finish()
        with connect(self._headrace.url) as nc:
            state = channel_state(nc, CLUSTER_ID, CHANNEL)
        assert state is not None
        assert state.first_sequence == 1
        last = state.last_sequence
        for query in self._queries:
            self._wait_for_end(query, self._stored("OUT") if query == "copy" else last)
        assert self._driver.finish() == 0
        return last

    def _wait_for_end(self, query: str, last: int) -> None:
        self._wait(lambda: self._done(query) >= last, f"{last} messages through query {query}")

    def _done(self, query: str) -> int:
        """The last sequence of the last batch that was committed."""
        batch = self._newest(query, "commits")
        if batch < 0:
            return 0
        text = (self._folder / "checkpoints" / query / "offsets" / str(batch)).read_text()
        offset = json.loads(text.splitlines()[-1])
        [place] = (offset.get("channels") or offset["streams"]).values()
        return int(place["next"]) - 1

    def channel(self) -> dict[int, str]:
        """What was stored, read without Spark: payloads by sequence, as the transformation leaves them."""
        found: dict[int, str] = {}
        with connect(self._headrace.url) as nc:
            for batch in replay(nc, CLUSTER_ID, CHANNEL):
                texts = (payload.decode().upper() for payload in batch.payloads)
                found.update(zip(batch.sequences, texts, strict=True))
        return found

    def published(self) -> int:
        return self._publisher.published

    def rows(self, query: str) -> list[tuple[int, str]]:
        """What a query has written."""
        return self._table() if query == "table" else self._stream(query.upper())

    def _stream(self, name: str) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        end = self._stored(name) + 1
        with connect(self._go.url) as nc:
            for batch in JetStream(nc).read(name, 1, end):
                rows = (payload.decode().split(" ", 1) for payload in batch.payloads)
                found += ((int(number), text) for number, text in rows)
        return found

    def _table(self) -> list[tuple[int, str]]:
        """Of the files that the sink's own log counts."""
        import pyarrow.parquet as pq

        found: list[tuple[int, str]] = []
        for file in table_files(self._folder / "table"):
            read = pq.read_table(file, partitioning=None)
            found += zip(read["sequence"].to_pylist(), read["text"].to_pylist(), strict=True)
        return found


def table_files(table: Path) -> list[str]:
    """The files of a table that a streaming query wrote; others lie there too, of tasks that failed."""
    log = table / "_spark_metadata"
    batches = {int(name.split(".")[0]): name for name in sorted(_names(log)) if name[0].isdecimal()}
    compact = max((batch for batch, name in batches.items() if name.endswith(".compact")), default=-1)
    files = []
    for batch, name in batches.items():
        if batch >= compact:
            version, *lines = (log / name).read_text().splitlines()
            assert version == "v1"
            files += [json.loads(line)["path"].removeprefix("file://") for line in lines]
    return files


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _descendants(root: int) -> list[tuple[int, int]]:
    """All processes below one, each with its parent."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(name))
    found = []
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        for child in children.get(parent, []):
            found.append((child, parent))
            waiting.append(child)
    return found
