"""JetStream over power losses, killed processes, failing and slow disks, with clients that never give up.

What must hold, whatever the seed:

1. A publication that was confirmed is at its sequence, with its body, until the stream's limits or its
   consumers remove it. No body is stored twice, however often its publisher asked again (`Ledger.confirm`).
2. What was confirmed or delivered never changes: a sequence that anybody was told of is not used for another
   message (`Ledger.durable`).
3. An acknowledgement that was confirmed holds: that consumer never gets the message again (`Worker.take`).
4. Additions that are guarded by the last revision are neither lost nor made twice (`Counter`).
5. A stream with `max_msgs` never holds more.
6. A message of a work queue is there until an acknowledgement of it was sent; under interest retention, until
   every consumer has sent one. When all have been confirmed, the stream is empty.
7. Errors are those of the disk. When it works again, everybody who goes on asking is served: each message
   that is stored comes to each consumer, all is acknowledged, and INFO counts what can be read.
8. A mirror never has another message at a sequence than anybody was told of. When all is at rest it has every
   message that its origin has, at the same sequence.
9. A stream with a source has each message of its origin at most once, in order. When all is at rest it has
   every message that its origin has.

   Mirrors and streams with sources may lack what a power loss took out of the middle of their logs: messages
   that were not synced, before others that reached the disk. The log says that these are damaged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.js_account import Place
from headrace.errors import LogError, StartError
from headrace.jetstream.sourcing.origin import noted
from headrace.log.store import FileStore
from simulation.js_clients import Counter, Ledger, Publisher, Worker
from simulation.scenario import Violation
from simulation.slow_disk import Disk, SlowCommitter

if TYPE_CHECKING:
    from headrace.log.port import Page

DIRECTORY: Final = Path("/store")
STEPS: Final = 400
STARTS: Final = 50
"""Tries of a start over a disk that fails; a fault is of 40 calls at most."""
FINISH: Final = 400
"""Rounds of half a second after the last fault, in which everything is to come to rest."""
NS: Final = 1_000_000_000
MOST: Final = 25
"""`max_msgs`, where there is one."""

CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "limits": {},
    "newest": {"max_msgs": MOST},
    "discard new": {"max_msgs": MOST, "discard": "new"},
    "work queue": {"retention": "workqueue"},
    "interest": {"retention": "interest"},
}


@dataclass(frozen=True, slots=True)
class JetStreamPlan:
    """The shape of a run."""

    seed: int
    kind: str
    consumers: tuple[dict[str, Any], ...]
    publishers: int
    workers: int
    history: int
    """Revisions that the bucket of the counters keeps of a key."""
    faults: float
    """How often a disk fails, a process is killed or the power goes, among all steps."""
    is_mirrored: bool
    """True if a stream `M` mirrors `S`; not where consumers remove messages."""
    is_source: bool
    """True if `S` is the source of a stream `T`; not where consumers remove messages."""

    @classmethod
    def draw(cls, seed: int) -> JetStreamPlan:
        chance = random.Random(seed)
        kind = chance.choice(tuple(CONFIGS))
        number = 1 if kind == "work queue" else chance.choice((1, 2, 2))
        consumers = tuple(_consumer(chance) for _ in range(number))
        publishers, workers = chance.choice((1, 2, 3)), chance.choice((1, 1, 2))
        history, faults = chance.choice((1, 1, 3)), chance.choice((0.0, 0.02, 0.05, 0.1))
        for at, consumer in enumerate(consumers):
            if chance.random() < 0.25:
                consumer["deliver_subject"] = pushed_to(at)
        may_be_copied = kind not in ("work queue", "interest")
        is_mirrored = may_be_copied and chance.random() < 0.4
        is_source = may_be_copied and chance.random() < 0.4
        return cls(seed, kind, consumers, publishers, workers, history, faults, is_mirrored, is_source)


def pushed_to(consumer: int) -> str:
    """Return the deliver subject of a push consumer: in the inbox of its first worker."""
    return f"_INBOX.w-c{consumer}-0.d"


def _consumer(chance: random.Random) -> dict[str, Any]:
    config: dict[str, Any] = {"ack_policy": "explicit", "ack_wait": chance.choice((1, 3)) * NS}
    if chance.random() < 0.3:
        config["max_ack_pending"] = chance.choice((1, 3))
    if chance.random() < 0.2:
        config["backoff"] = [NS // 2, 2 * NS]
    return config


class JetStreamScenario:
    """One run. `told` gets a line for everything that happens, None: nobody wants to know."""

    def __init__(self, plan: JetStreamPlan, told: list[str] | None = None) -> None:
        self.plan: Final = plan
        self.told: Final = told
        self.events = 0
        self._chance: Final = random.Random(plan.seed + 1)
        self._disk: Final = Disk(random.Random(plan.seed + 2))
        self._now: int | None = None
        self._place: Place | None = None
        self._stream: Final = Ledger("S")
        self._bucket: Final = Ledger("KV_B")
        names = [f"c{number}" for number in range(len(plan.consumers))]
        subjects = (b"s.a", b"s.b")
        keys = (b"$KV.B.x", b"$KV.B.y")
        clients = random.Random(plan.seed + 3)
        self._publishers: Final = [
            Publisher(self, clients, f"p{n}", self._stream, subjects) for n in range(plan.publishers)
        ]
        self._counters: Final = [Counter(self, clients, f"k{n}", self._bucket, keys) for n in range(2)]
        self._workers: Final = [
            Worker(self, clients, f"w-{name}-{n}", self._stream, name, pulls="deliver_subject" not in config)
            for name, config in zip(names, plan.consumers, strict=True)
            for n in range(plan.workers)
        ]
        self._clients: Final = {
            client.inbox: client for client in (*self._publishers, *self._counters, *self._workers)
        }

    # -- what clients see -----------------------------------------------------------------------------

    @property
    def now(self) -> int:
        assert self._now is not None
        return self._now

    def put(self, subject: bytes, payload: bytes, reply: bytes, headers: bytes = b"") -> None:
        self.events += 1
        self._tell(f"put {subject!r} {payload!r} {reply!r}")
        self.place.host.put(subject, payload, reply, headers)

    # -- the run --------------------------------------------------------------------------------------

    @property
    def place(self) -> Place:
        assert self._place is not None
        return self._place

    def run(self) -> None:
        """Raises: Violation."""
        self._start()
        self._create()
        for _ in range(STEPS):
            self._step()
        self._disk.heal()
        if self._chance.random() < 0.7:
            self._stop(self._chance.choice(("kill", "power", "order")))
            self._start()
        self._finish()
        self._check_end()

    def _step(self) -> None:
        if self._chance.random() < self.plan.faults:
            self._break()
            return
        clients = tuple(self._clients.values())
        for _ in range(self._chance.choice((1, 1, 2, 5))):
            self._chance.choice(clients).act()
        if self._chance.random() < 0.7:
            self._pass(self._chance.choice((0, 0, 0.001, 0.01, 0.1, 0.6, 2.5)))

    def _break(self) -> None:
        what = self._chance.choice(("fault", "fault", "kill", "power", "order"))
        if what == "fault":
            self._tell(self._disk.fail_soon())
            return
        self._stop(what)
        self._start()

    def _pass(self, seconds: float) -> None:
        host = self.place.host
        host.pass_time(seconds)
        self._now = host.now
        self._deliver()

    def _deliver(self) -> None:
        host = self.place.host
        sent, host.sent = host.sent, []
        for each in sent:
            client = self._clients.get(b".".join(each.to.split(b".", 2)[:2]))
            if client is not None:
                self.events += 1
                self._tell(f"got {each.to!r} {each.subject!r} {each.headers!r} {each.payload!r}")
                client.take(each)
        self._check_mistakes()

    def _check_mistakes(self) -> None:
        mistakes = self.place.host.mistakes or []
        for at, error in mistakes:
            if not isinstance(error, LogError | OSError):
                raise Violation(f"a mistake at {at!r}: {error!r}") from error
        mistakes.clear()

    # -- servers come and go ---------------------------------------------------------------------------

    def _start(self) -> None:
        for _ in range(STARTS):
            committer = SlowCommitter(self._chance)
            try:
                file = FileStore(DIRECTORY, filesystem=self._disk.files, clock=self._clock, remembers=False)
                place = Place(file=file, committer=committer, start=False)
                committer.later = place.host.call_later
                place.host.mistakes = []
                place.host.now = self._now or place.host.now
                self._now = place.host.now
                place.account.start(place.host)
            except (StartError, LogError, OSError) as error:
                self._tell(f"no start: {error}")
                self._disk.lose_process()
                continue
            self._place = place
            self._pass(0)
            return
        raise Violation("no start over a disk that works again")

    def _clock(self) -> int:
        return self.place.host.now if self._place is not None else self._now or 0

    def _stop(self, how: str) -> None:
        self._tell(f"stop: {how}")
        if how == "order":
            try:
                self.place.account.stop()
                self.place.file.close()
            except LogError as error:
                self._tell(f"stopped with {error}")
            self._deliver()
            self._disk.lose_process()
        elif how == "kill":
            self._disk.lose_process()
        else:
            self._disk.lose_power()
        self._now = self.place.host.now
        self._place = None
        for client in self._clients.values():
            client.reconnect()

    def _create(self) -> None:
        place = self.place
        config = {"name": "S", "subjects": ["s.>"], **CONFIGS[self.plan.kind]}
        bucket = {
            **{"name": "KV_B", "subjects": ["$KV.B.>"], "allow_direct": True},
            "max_msgs_per_subject": self.plan.history,
        }
        wanted = [("STREAM.CREATE.S", config), ("STREAM.CREATE.KV_B", bucket)]
        if self.plan.is_mirrored:
            wanted.append(("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}}))
        if self.plan.is_source:
            wanted.append(("STREAM.CREATE.T", {"name": "T", "sources": [{"name": "S"}]}))
        for number, consumer in enumerate(self.plan.consumers):
            made = {"stream_name": "S", "config": {"durable_name": f"c{number}", **consumer}}
            wanted.append((f"CONSUMER.CREATE.S.c{number}", made))
        for name, body in wanted:
            answer = place.ask(name, body)
            for _ in range(10):
                if answer is not None:
                    break
                self._pass(1)  # the disk is slow
                answer = place.ask(name, body)
            if answer is None or "error" in answer:
                raise Violation(f"{name}: {answer}")

    # -- the end ---------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Raises: Violation when it does not come to rest."""
        for client in (*self._publishers, *self._counters):
            client.is_finishing = True
        for round_ in range(FINISH):
            for worker in self._workers:
                worker.is_finishing = round_ > FINISH // 4
            for client in self._clients.values():
                client.act()
            self._pass(0.5)
            if self._is_at_rest():
                return
        raise Violation(f"not at rest: {self._what_is_left()}")

    def _is_at_rest(self) -> bool:
        return not self._what_is_left()

    def _what_is_left(self) -> list[str]:
        left = [f"{c.inbox!r}" for c in (*self._publishers, *self._counters, *self._workers) if not c.is_done]
        for consumer in self._stream.acked:
            info = self._ask(f"CONSUMER.INFO.S.{consumer}")
            if info["num_pending"] or info["num_ack_pending"]:
                left.append(f"{consumer}: {info}")
        streams = self.place.account.streams
        if self.plan.is_mirrored and streams["M"].last_sequence < streams["S"].last_sequence:
            left.append(f"mirror: {streams['M'].last_sequence} of {streams['S'].last_sequence}")
        if self.plan.is_source and (lag := self._ask("STREAM.INFO.T")["sources"][0]["lag"]):
            left.append(f"source: {lag} messages to come")
        return left

    def _page(self, stream: str) -> Page:
        """Return all messages of a stream."""
        return self.place.account.streams[stream].log.read_from(1, max_messages=100_000)

    def _read(self, stream: str) -> dict[int, bytes]:
        return {message.sequence: message.payload for message in self._page(stream).messages}

    def _check_end(self) -> None:
        held = self._read("S")
        last = self.place.account.streams["S"].last_sequence
        for body, sequence in self._stream.confirmed.items():
            if sequence in held and held[sequence] != body:
                raise Violation(f"S {sequence} is {held[sequence]!r}, confirmed was {body!r}")
            if sequence not in held and not self._may_be_gone(sequence, last):
                raise Violation(f"S {sequence}, {body!r}, was confirmed and is gone")
        if len(set(held.values())) != len(held):
            raise Violation(f"S holds a body twice: {sorted(held.items())}")
        if "max_msgs" in CONFIGS[self.plan.kind] and len(held) > MOST:
            raise Violation(f"S holds {len(held)} messages")
        if self.plan.kind in ("work queue", "interest") and held:
            raise Violation(f"S still holds {sorted(held)}")
        self._check_info(held)
        self._check_counters()
        if self.plan.is_mirrored:
            self._check_mirror(held)
        if self.plan.is_source:
            self._check_source(held)

    def _check_source(self, held: dict[int, bytes]) -> None:
        page = self._page("T")
        copied: dict[int, bytes] = {}
        last = 0
        for message in page.messages:
            said = noted(message.headers)
            assert said is not None
            if said.sequence <= last:
                raise Violation(f"T has {said.sequence} of its source behind {last}")
            copied[said.sequence] = message.payload
            self._stream.durable(said.sequence, message.payload)
            last = said.sequence
        missing = held.keys() - copied.keys()
        if len(missing) > len(page.damaged):
            raise Violation(f"T lacks {sorted(missing)[:10]} ({len(missing)}) of its source")

    def _check_mirror(self, held: dict[int, bytes]) -> None:
        page = self._page("M")
        mirrored = {message.sequence: message.payload for message in page.messages}
        for sequence, body in mirrored.items():
            self._stream.durable(sequence, body)
        if missing := held.keys() - mirrored.keys() - set(page.damaged):
            raise Violation(f"the mirror lacks {sorted(missing)[:10]} ({len(missing)})")

    def _may_be_gone(self, sequence: int, last: int) -> bool:
        match self.plan.kind:
            case "newest":
                return sequence <= last - MOST
            case "work queue" | "interest":
                return all(sequence in offered for offered in self._stream.offered.values())
        return False

    def _check_info(self, held: dict[int, bytes]) -> None:
        state = self._ask("STREAM.INFO.S")["state"]
        if state["messages"] != len(held) or (
            held and not state["first_seq"] <= min(held) <= max(held) <= state["last_seq"]
        ):
            raise Violation(f"S says {state} and holds {sorted(held)}")
        if self.plan.kind == "newest":
            return  # what had no room was passed by, and is back when what took its room was lost
        for consumer, offered in self._stream.offered.items():
            if passed := held.keys() - offered:
                raise Violation(f"{consumer} was never given {sorted(passed)[:10]} ({len(passed)})")

    def _check_counters(self) -> None:
        held = self._read("KV_B")
        newest: dict[bytes, int] = {}
        page = self.place.account.streams["KV_B"].log.read_from(1, max_messages=100_000)
        for message in page.messages:
            newest[message.subject] = int(message.payload)
        for sequence, body in held.items():
            self._bucket.durable(sequence, body)
        for key in self._counters[0].confirmed:
            confirmed = [number for counter in self._counters for number in counter.confirmed[key]]
            uncertain = sum(counter.uncertain[key] for counter in self._counters)
            value = newest.get(key, 0)
            if len(set(confirmed)) != len(confirmed):
                raise Violation(f"{key!r}: an addition was confirmed twice: {sorted(confirmed)}")
            if not len(confirmed) <= value <= len(confirmed) + uncertain or max(confirmed, default=0) > value:
                raise Violation(
                    f"{key!r} is {value} after {len(confirmed)} additions and {uncertain} that may be there"
                )

    def _ask(self, name: str) -> Any:
        answer = self.place.ask(name)
        if answer is None or "error" in answer:
            raise Violation(f"{name}: {answer}")
        return answer

    def _tell(self, line: str) -> None:
        if self.told is not None:
            self.told.append(f"{((self._now or 0) % (1000 * NS)) / NS:9.4f} {line}")
