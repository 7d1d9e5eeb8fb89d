"""Clients of a simulated JetStream: what each asks for, what it was told, and what must follow from that.

A client sends through `Sim.put` and gets what reaches its inboxes by `take`. `reconnect` is called when its
server was killed: what it asked for may or may not have happened, and nobody will answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from simulation.scenario import Violation

if TYPE_CHECKING:
    from random import Random

    from harness.js_account import Sent

API: Final = b"$JS.API."
PATIENCE_NS: Final = 2_000_000_000
"""A client asks again when it has heard nothing for so long."""
MOST_BODIES: Final = 100
"""A publisher has so many to publish, and up to nine more."""
FULL: Final = (10077, 10122)
"""Error codes of a stream that takes no more messages: in all, of a subject."""
WRONG_LAST_SEQUENCE: Final = (10071, 10164)


class Sim(Protocol):
    """What a client sees of the run."""

    @property
    def now(self) -> int:
        """Simulated ns since 1970."""

    def put(self, subject: bytes, payload: bytes, reply: bytes, headers: bytes = b"") -> None:
        """Sends a message, which the server gets with its next tick."""


class Ledger:
    """What is known about one stream, from whatever its server has said to anybody."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.bodies: dict[int, bytes] = {}
        """By sequence, of messages that were confirmed to a publisher or delivered: they are durable."""
        self.confirmed: dict[bytes, int] = {}
        """The sequence by the body that its publisher was told."""
        self.offered: dict[str, set[int]] = {}
        """By consumer: sequences for which an acknowledgement was sent, whether or not it arrived."""
        self.acked: dict[str, set[int]] = {}
        """By consumer: sequences whose acknowledgement was confirmed."""

    def durable(self, sequence: int, body: bytes) -> None:
        known = self.bodies.setdefault(sequence, body)
        if known != body:
            raise Violation(f"{self.name} {sequence} was {known!r} and is {body!r}")

    def confirm(self, sequence: int, body: bytes) -> None:
        self.durable(sequence, body)
        known = self.confirmed.setdefault(body, sequence)
        if known != sequence:
            raise Violation(f"{self.name} stored {body!r} twice: at {known} and at {sequence}")


@dataclass(slots=True)
class _Sending:
    """A publication that is not settled. `asked_ns`: when it was sent last."""

    subject: bytes
    asked_ns: int
    tries: int = 1


class Publisher:
    """Publishes bodies that nobody else has, each with an id, and again until it is told where they are."""

    def __init__(
        self, sim: Sim, chance: Random, name: str, ledger: Ledger, subjects: tuple[bytes, ...]
    ) -> None:
        self.inbox: Final = b"_INBOX.%b" % name.encode()
        self._sim: Final = sim
        self._chance: Final = chance
        self._name: Final = name
        self._ledger: Final = ledger
        self._subjects: Final = subjects
        self._count = 0
        self.open: dict[bytes, _Sending] = {}
        self.refused = 0
        self.is_finishing = False

    @property
    def is_done(self) -> bool:
        return not self.open

    def act(self) -> None:
        late = [body for body, sending in self.open.items() if self._sim.now - sending.asked_ns > PATIENCE_NS]
        if late:
            self._again(self._chance.choice(late))
        elif not self.is_finishing and len(self.open) < 20 and self._count < MOST_BODIES:
            for _ in range(self._chance.choice((1, 1, 1, 2, 10))):
                self._count += 1
                body = b"%b-%d" % (self._name.encode(), self._count)
                subject = self._chance.choice(self._subjects)
                self.open[body] = _Sending(subject, self._sim.now)
                self._send(body, subject)

    def reconnect(self) -> None:
        for sending in self.open.values():
            sending.asked_ns = self._sim.now - PATIENCE_NS - 1

    def take(self, sent: Sent) -> None:
        body = sent.to.removeprefix(self.inbox + b".")
        if sent.headers.startswith(b"NATS/1.0 503"):  # the stream is not served yet
            return
        answer = json.loads(sent.payload)
        error = answer.get("error")
        if error is None:
            self._ledger.confirm(answer["seq"], body)
            self.open.pop(body, None)
        elif error["err_code"] in FULL:
            self.refused += 1
            if body in self.open and (self.open[body].tries == 1 or self.is_finishing):
                del self.open[body]  # of its first try nothing was stored; of others nobody knows

    def _again(self, body: bytes) -> None:
        sending = self.open[body]
        sending.asked_ns = self._sim.now
        sending.tries += 1
        self._send(body, sending.subject)

    def _send(self, body: bytes, subject: bytes) -> None:
        headers = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % body
        self._sim.put(subject, body, self.inbox + b"." + body, headers)


class Counter:
    """Adds one to the number in a key, again and again, only if nobody else has changed it since it was read.

    So the number is how many additions were stored, whoever made them: none is lost, none counts twice.
    """

    def __init__(self, sim: Sim, chance: Random, name: str, ledger: Ledger, keys: tuple[bytes, ...]) -> None:
        self.inbox: Final = b"_INBOX.%b" % name.encode()
        self._sim: Final = sim
        self._chance: Final = chance
        self._ledger: Final = ledger
        self._keys: Final = keys
        self._key = keys[0]
        self._asked_ns = -1
        """When the request that is under way was made; -1: none is."""
        self._number = 0
        self._wanted = (0, 0)
        """The revision and the number that an addition under way follows."""
        self.confirmed: dict[bytes, set[int]] = {key: set() for key in keys}
        self.uncertain: dict[bytes, int] = dict.fromkeys(keys, 0)
        """Additions of which it is not known whether they were stored."""
        self.is_finishing = False

    @property
    def is_done(self) -> bool:
        return self._asked_ns < 0

    def act(self) -> None:
        if self._asked_ns >= 0 and self._sim.now - self._asked_ns <= PATIENCE_NS:
            return
        if self._asked_ns >= 0:
            self.reconnect()
        if not self.is_finishing:
            self._key = self._chance.choice(self._keys)
            self._ask(b"r", API + b"DIRECT.GET." + self._ledger.name.encode() + b"." + self._key, b"")

    def reconnect(self) -> None:
        if self._asked_ns >= 0 and self._wanted != (0, 0):
            self.uncertain[self._key] += 1
        self._asked_ns, self._wanted = -1, (0, 0)

    def take(self, sent: Sent) -> None:
        kind, _, number = sent.to.removeprefix(self.inbox + b".").partition(b".")
        if int(number) != self._number or self._asked_ns < 0:
            return  # of a request that was given up
        if kind == b"r":
            self._read(sent)
        else:
            self._added(json.loads(sent.payload))

    def _read(self, sent: Sent) -> None:
        if sent.headers.startswith(b"NATS/1.0 404"):
            revision, number = 0, 0
        elif sent.headers.startswith(b"NATS/1.0\r\n"):
            revision, number = int(header(sent.headers, b"Nats-Sequence")), int(sent.payload)
            if revision in self._ledger.bodies:
                self._ledger.durable(revision, sent.payload)
        else:
            self._asked_ns = -1
            return
        headers = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n\r\n" % revision
        self._wanted = revision, number + 1
        self._ask(b"w", self._key, b"%d" % (number + 1), headers)

    def _added(self, answer: Any) -> None:
        error = answer.get("error")
        number = self._wanted[1]
        if error is None:
            if number in self.confirmed[self._key]:
                raise Violation(f"{self._key!r} became {number} twice")
            self._ledger.durable(answer["seq"], b"%d" % number)
            self.confirmed[self._key].add(number)
        elif error["err_code"] not in WRONG_LAST_SEQUENCE:
            self.uncertain[self._key] += 1  # a disk that failed may have it all the same
        self._asked_ns, self._wanted = -1, (0, 0)

    def _ask(self, kind: bytes, subject: bytes, payload: bytes, headers: bytes = b"") -> None:
        self._number += 1
        self._asked_ns = self._sim.now
        self._sim.put(subject, payload, b"%b.%b.%d" % (self.inbox, kind, self._number), headers)


@dataclass(slots=True)
class _Held:
    """A delivery that a worker has and did not answer yet."""

    reply: bytes
    sequence: int
    tries: int = field(default=0)


class Worker:
    """Takes messages from a durable consumer, and answers them in every way there is.

    `pulls` False: the consumer sends them by itself.
    """

    def __init__(
        self, sim: Sim, chance: Random, name: str, ledger: Ledger, consumer: str, *, pulls: bool
    ) -> None:
        self.inbox: Final = b"_INBOX.%b" % name.encode()
        self._sim: Final = sim
        self._chance: Final = chance
        self._ledger: Final = ledger
        self._consumer: Final = consumer
        self._pulls: Final = pulls
        self._held: list[_Held] = []
        self._asked_ns = -1
        self._number = 0
        self.is_finishing = False
        self._offered = ledger.offered.setdefault(consumer, set())
        self._acked = ledger.acked.setdefault(consumer, set())

    @property
    def is_done(self) -> bool:
        return not self._held

    def act(self) -> None:
        if self.is_finishing:
            held, self._held = self._held, []
            for each in held:
                self._answer(each)
            self._pull()
            return
        if self._held and self._chance.random() < 0.7:
            self._answer(self._held.pop(self._chance.randrange(len(self._held))))
            return
        if self._sim.now - self._asked_ns > PATIENCE_NS or self._chance.random() < 0.3:
            self._pull()

    def reconnect(self) -> None:
        self._held.clear()
        self._asked_ns = -1

    def take(self, sent: Sent) -> None:
        rest = sent.to.removeprefix(self.inbox + b".")
        if rest.startswith(b"a."):
            if not sent.headers:
                self._acked.add(int(rest[2:]))
            return
        if not sent.reply:  # a status: the request has ended
            self._asked_ns = -1
            return
        sequence = int(sent.reply.split(b".")[5])
        if sequence in self._acked:
            raise Violation(f"{self._consumer} got {sequence} again, whose acknowledgement was confirmed")
        self._ledger.durable(sequence, sent.payload)
        self._held.append(_Held(sent.reply, sequence))

    def _pull(self) -> None:
        if not self._pulls:
            return
        self._number += 1
        self._asked_ns = self._sim.now
        batch = 200 if self.is_finishing else self._chance.choice((1, 1, 1, 3, 10))
        request: dict[str, Any] = {"batch": batch}
        if self.is_finishing or self._chance.random() < 0.4:
            request["no_wait"] = True
        else:
            request["expires"] = self._chance.choice((100_000_000, 1_000_000_000))
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._ledger.name}.{self._consumer}".encode()
        body = json.dumps(request).encode()
        if request == {"batch": 1, "no_wait": True}:
            body = self._chance.choice((body, b""))
        self._sim.put(subject, body, b"%b.p.%d" % (self.inbox, self._number))

    def _answer(self, held: _Held) -> None:
        how = 0.0 if self.is_finishing else self._chance.random()
        if how < 0.55:  # with a confirmation
            self._offered.add(held.sequence)
            word = self._chance.choice((b"", b"+ACK", b"+TERM"))
            self._sim.put(held.reply, word, b"%b.a.%d" % (self.inbox, held.sequence))
        elif how < 0.7:
            self._offered.add(held.sequence)
            self._sim.put(held.reply, self._chance.choice((b"", b"+ACK", b"+TERM")), b"")
        elif how < 0.85:
            self._sim.put(held.reply, self._chance.choice((b"-NAK", b'-NAK {"delay": 300000000}')), b"")
        elif how < 0.92:
            self._sim.put(held.reply, b"+WPI", b"")
            self._held.append(held)
        # else it is forgotten


def header(headers: bytes, name: bytes) -> bytes:
    """The value of a header that is there."""
    for line in headers.split(b"\r\n"):
        if line.startswith(name + b": "):
            return line[len(name) + 2 :]
    raise Violation(f"no {name!r} in {headers!r}")
