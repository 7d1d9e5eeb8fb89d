"""Random publications, removals, ages and restarts, against a model so naive that it can be read."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from js_streams import SECOND, START, World, block

from headrace.jetstream.stream.stream import log_limits
from headrace.log.file import FileLog
from headrace.protocol.jetstream.errors import ApiError
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.log.closing import Left
    from headrace.protocol.jetstream.configs import StreamConfig

SUBJECTS = ["s.a", "s.b", "s.c.d", "s.e"]
PATTERNS = ["s.a", "s.*", "s.>", "s.none", ""]
WINDOW = 20 * SECOND
AGE = 60 * SECOND
HISTORY = 4
STEPS = 300


class Model:
    """(sequence, subject, time) of what is there, and ids with their sequences and times."""

    def __init__(self) -> None:
        self.held: list[tuple[int, str, int]] = []
        self.ids: dict[str, tuple[int, int]] = {}
        self.last = 0
        self.last_id = ""

    def publish(self, subject: str, headers: dict[str, str], now: int) -> int | str:
        """The sequence, an error's number, or `again` and the first sequence."""
        of_subject = headers.get("Nats-Expected-Last-Subject-Sequence")
        if of_subject is not None:
            newest = max((s for s, name, _ in self.held if name == subject), default=0)
            if int(of_subject) != newest:
                return "10071"
        if int(headers.get("Nats-Expected-Last-Sequence", self.last)) != self.last:
            return "10071"
        msg_id = headers.get("Nats-Msg-Id", "")
        known = self.ids.get(msg_id)
        if known and now - known[1] < WINDOW:
            return f"again {known[0]}"
        if headers.get("Nats-Expected-Last-Msg-Id", self.last_id) != self.last_id:
            return "10070"
        self.last += 1
        self.held.append((self.last, subject, now))
        self.last_id = msg_id
        if msg_id:
            self.ids[msg_id] = self.last, now
        own = [s for s, name, _ in self.held if name == subject]
        gone = set(own[:-HISTORY])
        if "Nats-Rollup" in headers:
            everything = headers["Nats-Rollup"] == "all"
            gone |= {s for s, name, _ in self.held if (everything or name == subject) and s < self.last}
        self.held = [m for m in self.held if m[0] not in gone]
        return self.last

    def purge(self, pattern: str, up_to: int, keep: int) -> int:
        found = [
            s
            for s, name, _ in self.held
            if (not pattern or matches(pattern.encode(), name.encode())) and (not up_to or s < up_to)
        ]
        gone = set(found[: max(len(found) - keep, 0)])
        self.held = [m for m in self.held if m[0] not in gone]
        if not pattern and up_to > self.last + 1:
            self.last = up_to - 1
        return len(gone)

    def restart(self) -> None:
        """What the log does not hold is not known any more."""
        there = {sequence for sequence, _, _ in self.held}
        self.ids = {msg_id: known for msg_id, known in self.ids.items() if known[0] in there}
        newest = max(there, default=0)
        self.last_id = next((msg_id for msg_id, known in self.ids.items() if known[0] == newest), "")

    def expire(self, now: int) -> None:
        self.held = [m for m in self.held if now - m[2] < AGE]


class Walk:
    def __init__(self, seed: int, directory: Path) -> None:
        self.random = Random(seed)
        self.directory = directory
        self.model = Model()
        self.now = START
        self.config: StreamConfig | None = None
        self.open()

    def open(self, left: Left | None = None) -> None:
        limits = log_limits(self.config) if self.config else None
        if limits is None:
            limits = log_limits(World(**self.fields).config)
        self.log = FileLog(
            self.directory, limits=limits, clock=lambda: self.now, segment_bytes=4096, left=left
        )
        self.world = World(self.log, at_ns=self.now, **self.fields)
        self.config = self.world.config

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "allow_rollup_hdrs": True,
            "max_age": AGE,
            "max_msgs_per_subject": HISTORY,
            "duplicate_window": WINDOW,
        }

    def step(self) -> None:
        random, model, stream = self.random, self.model, self.world.stream
        match random.choice(["publish"] * 6 + ["delete", "purge", "time", "restart"]):
            case "publish":
                self.publish(random.randrange(1, 6))
            case "delete":
                sequence = random.randrange(1, model.last + 3)
                there = any(s == sequence for s, _, _ in model.held)
                try:
                    stream.removal.delete(sequence, erase=random.random() < 0.2)
                except ApiError:
                    assert not there
                else:
                    assert there
                model.held = [m for m in model.held if m[0] != sequence]
            case "purge":
                pattern, up_to, keep = random.choice(PATTERNS), 0, 0
                if random.random() < 0.5:
                    up_to = random.randrange(1, model.last + 4)
                else:
                    keep = random.randrange(4)
                purged = stream.removal.purge(pattern, up_to=up_to, keep=keep)
                assert purged == model.purge(pattern, up_to, keep)
            case "time":
                self.pass_time(random.choice([0.5, 5, 15, 40]))
            case "restart":
                stream.close()
                self.log.close()
                self.open(self.log.left)
                model.restart()

    def pass_time(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.world.host.pass_time(seconds)
        self.model.expire(self.now)

    def publish(self, count: int) -> None:
        messages, expected = [], []
        for _ in range(count):
            subject, headers = self.random.choice(SUBJECTS), self.headers()
            messages.append((subject.encode(), block(**headers), b"x" * self.random.randrange(200)))
            expected.append(self.model.publish(subject, headers, self.now))
        self.world.take()
        self.world.receive(*messages)
        answers = []
        for ack in self.world.acks():
            if "error" in ack:
                answers.append(str(ack["error"]["err_code"]))
            else:
                answers.append(f"again {ack['seq']}" if ack.get("duplicate") else ack["seq"])
        assert answers == expected

    def headers(self) -> dict[str, str]:
        random, last = self.random, self.model.last
        near = str(max(last - random.choice([0, 0, 1]), 0))
        kinds: list[dict[str, str]] = [
            *({}, {}, {}, {"Nats-Msg-Id": str(random.randrange(30))}, {"Nats-Expected-Last-Sequence": near}),
            *({"Nats-Expected-Last-Subject-Sequence": near}, {"Nats-Expected-Last-Subject-Sequence": "0"}),
            *({"Nats-Rollup": "sub"}, {"Nats-Rollup": "all"} if random.random() < 0.1 else {"A": "b"}),
            {"Nats-Expected-Last-Msg-Id": self.model.last_id} if self.model.last_id else {},
            {"Nats-Msg-Id": str(random.randrange(30)), "Nats-Expected-Last-Sequence": near},
        ]
        return random.choice(kinds)

    def check(self) -> None:
        page = self.log.read_from(0, max_messages=10_000, max_bytes=1 << 30)
        assert [(m.sequence, m.subject.decode()) for m in page.messages] == [m[:2] for m in self.model.held]
        state = self.world.stream.state(deleted_details=True)
        assert (state["messages"], state["last_seq"]) == (len(self.model.held), self.model.last)


@pytest.mark.parametrize("seed", range(6))
def test_random_walks(seed: int, tmp_path: Path) -> None:
    walk = Walk(seed, tmp_path)
    for _ in range(STEPS):
        walk.step()
        walk.check()
    walk.log.close()
