"""Generated scripts: what clients of one world do, one step after the other.

Here lives what is drawn (by hypothesis, so that it shrinks) and the rules that make the answer depend on
nothing but the script. Never lives here: sockets (`playing`), configurations (`worlds`).

A step's number is the sid of the subscription it makes and the payload of the message it publishes. Of a
queue group with several members any may be chosen, so nothing may follow from the choice: none of them is
limited by an UNSUB, none belongs to a user whose permissions change with what it is sent, and nobody
answers what came over it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from hypothesis import strategies as st

from differential.vocabulary import literal, narrowed, pattern, widened
from differential.worlds import QUEUES, Login, Universe, World, leaks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

CLIENTS: Final = 4
SUBSCRIPTIONS: Final = 6
"""The subscriptions that a script begins with; later steps make more."""
STEPS: Final = 16
POOL: Final = 14
"""How many subjects of an account scripts choose from, for each purpose."""
INBOXES: Final = ("_INBOX.1", "_INBOX.2")


@dataclass(frozen=True)
class Connect:
    """CONNECT; a client that is connected already says it again. `secret`: right, wrong, missing or silent.

    "missing" leaves the credentials out, "silent" the whole CONNECT.
    """

    client: int
    login: Login
    secret: str = "right"
    verbose: bool = False
    pedantic: bool = False
    echo: bool = True
    headers: bool = True
    no_responders: bool = False
    protocol: int = 0


@dataclass(frozen=True)
class Subscribe:
    client: int
    subject: str
    queue: str = ""


@dataclass(frozen=True)
class Unsubscribe:
    """`sid` is that of an earlier step; `most` 0 at once."""

    client: int
    sid: int
    most: int = 0


@dataclass(frozen=True)
class Publish:
    """`size`: bytes that the payload has at least; -1: it is empty."""

    client: int
    subject: str
    reply: str = ""
    headers: bool = False
    size: int = 0


@dataclass(frozen=True)
class Answer:
    """A response to the `nth` request (from the last one) that this client was sent, or else the next."""

    client: int
    nth: int
    reply: str = ""
    headers: bool = False
    size: int = 0


@dataclass(frozen=True)
class Leave:
    client: int


Step: TypeAlias = Connect | Subscribe | Unsubscribe | Publish | Answer | Leave


@dataclass(frozen=True)
class Script:
    """`shared`: queue groups that several subscriptions of the script name."""

    world: World
    steps: tuple[Step, ...]
    shared: frozenset[str]

    def text(self) -> str:
        """One step a line, with its number."""
        return "\n".join(f"{number:3} {step}" for number, step in enumerate(self.steps))


class Raw(NamedTuple):
    """A step as drawn: numbers that mean something once it is known who does it."""

    kind: str
    client: int
    chosen: int
    other: int
    flags: int


_KINDS: Final = (
    "nothing",  # what others shrink to
    *("subscribe",) * 3,
    *("publish",) * 10,
    *("answer",) * 7,
    *("unsubscribe",) * 2,
    "connect",
    "leave",
)
_FIRST_KINDS: Final = ("nothing", *("subscribe",) * 9)
_WIDTH: Final = len(Raw._fields)
_HEAD: Final = 3
_LENGTH: Final = _HEAD + _WIDTH * (CLIENTS + SUBSCRIPTIONS + STEPS)


def scripts(universe: Universe) -> SearchStrategy[Script]:
    """Scripts in any world of a universe.

    They are drawn as so many bytes, which shrink to zeros: lists of steps would be variations of each other.
    """
    pools = {
        account: Pool(universe, world, account) for world in universe.worlds for account in world.subjects
    }
    return st.binary(min_size=_LENGTH, max_size=_LENGTH).map(partial(_resolved, universe, pools))


class Pool:
    """What clients of one account subscribe and publish to."""

    def __init__(self, universe: Universe, world: World, account: str) -> None:
        rng = Random(f"{universe.number} {account}")
        subjects = world.subjects[account]
        known, incoming, outgoing = subjects.known, subjects.incoming, subjects.outgoing
        self.subscriptions = [widened(rng, rng.choice(incoming or known)) for _ in range(5)]
        self.subscriptions += [rng.choice((rng.choice(known), pattern(rng), ">")) for _ in range(5)]
        self.subscriptions += [widened(rng, rng.choice(known)), "_INBOX.>", "_INBOX.1", "_INBOX.*"]
        wanted = [rng.choice(outgoing or known) for _ in range(8)] + [rng.choice(known) for _ in range(4)]
        self.literals = [narrowed(rng, subject, wholly=True) for subject in wanted]
        self.literals += [literal(rng) for _ in range(2)]
        replies = (*INBOXES * 5, *self.literals[:4])
        self._replies = [s for s in replies if not world.takes_for_response(account, s)]

    def reply(self, number: int) -> str:
        """A reply subject; "" where every one would be another service's."""
        return self._replies[number % len(self._replies)] if self._replies else ""


def _resolved(universe: Universe, pools: dict[str, Pool], drawn: bytes) -> Script:
    low, high, size = drawn[:_HEAD]
    clients = CLIENTS - size % (CLIENTS - 1)
    world = universe.worlds[(low + 256 * high) % len(universe.worlds)]
    resolver = _Resolver(universe, pools, world)
    for number, raw in enumerate(_raws(drawn)):
        if number < clients:
            resolver.add(raw._replace(kind="connect", client=number))
        elif number >= CLIENTS:
            resolver.add(raw._replace(client=raw.client % clients))
    return resolver.script()


def _raws(drawn: bytes) -> Iterator[Raw]:
    for number, at in enumerate(range(_HEAD, len(drawn), _WIDTH)):
        kind, client, chosen, other, flags = drawn[at : at + _WIDTH]
        kinds = _FIRST_KINDS if number < CLIENTS + SUBSCRIPTIONS else _KINDS
        yield Raw(kinds[kind % len(kinds)], client, chosen % POOL, other % POOL, flags)


@dataclass
class _Resolver:
    """Turns what was drawn into steps; those that the rules forbid are left out."""

    universe: Universe
    pools: dict[str, Pool]
    world: World
    steps: list[Step] = field(default_factory=list)
    logins: dict[int, list[Login]] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)

    def add(self, raw: Raw) -> None:
        if raw.kind == "nothing":
            return
        step: Step | None = getattr(self, f"_{raw.kind}")(raw)
        if step is not None:
            self.steps.append(step)

    def script(self) -> Script:
        shared = frozenset(queue for queue, count in self.queues.items() if count > 1)
        steps = [self._unlimited(step, shared) for step in self.steps]
        return Script(self.world, tuple(steps), shared)

    def _unlimited(self, step: Step, shared: frozenset[str]) -> Step:
        """Nobody is limited whose count does not follow from the script."""
        if not isinstance(step, Unsubscribe) or not step.most:
            return step
        of = self.steps[step.sid]
        assert isinstance(of, Subscribe)
        hears_events = of.subject.startswith((">", "*"))  # which come when they come
        return Unsubscribe(step.client, step.sid) if of.queue in shared or hears_events else step

    def _connect(self, raw: Raw) -> Step | None:
        guest = self.universe.guest
        if guest is not None and guest.key is not None and guest in self.logins.get(raw.client, ()):
            return None  # in the Go server whoever acts as an nkey that needs no signature stays it
        logins = self._near()
        login = logins[raw.chosen % len(logins)]
        secret = ("wrong", "missing", "silent", "right")[raw.flags >> 6] if raw.other == 13 else "right"
        if secret in ("missing", "silent"):
            login = guest or login
        self.logins.setdefault(raw.client, []).append(login)
        verbose, pedantic, quiet, plain, responders, newer, *_ = _bits(raw.flags)
        headers = not (plain and verbose)
        return Connect(
            raw.client,
            login,
            secret,
            verbose=verbose and pedantic,
            pedantic=pedantic and newer,
            echo=not (quiet and responders),
            headers=headers,
            no_responders=responders and (headers or (quiet and newer)),
            protocol=int(newer),
        )

    def _near(self) -> tuple[Login, ...]:
        """Users of the first client's account, or of one that it has to do with; for the first all."""
        if not self.steps:
            return self.world.logins
        account = self.logins[0][0].account
        near = {account, *self.world.neighbours(account)}
        return tuple(login for login in self.world.logins if login.account in near) or self.world.logins

    def _pool(self, client: int) -> Pool:
        return self.pools[self.logins[client][-1].account]

    def _subscribe(self, raw: Raw) -> Step | None:
        subject = self._pool(raw.client).subscriptions[raw.chosen]
        if any(leaks(login, subject) for login in self.logins[raw.client]):
            return None
        queue = ""
        if raw.flags % 4 == 3:
            queue = QUEUES[raw.other % len(QUEUES)]
            if any(login.answers for login in self.logins[raw.client]):
                queue += f".{len(self.steps)}"
            self.queues[queue] = self.queues.get(queue, 0) + 1
        return Subscribe(raw.client, subject, queue)

    def _unsubscribe(self, raw: Raw) -> Step | None:
        sids = [
            number
            for number, step in enumerate(self.steps)
            if isinstance(step, Subscribe) and step.client == raw.client
        ]
        if not sids:
            return None
        return Unsubscribe(raw.client, sids[-1 - raw.chosen % len(sids)], raw.other % 4)

    def _publish(self, raw: Raw) -> Step:
        pool = self._pool(raw.client)
        asks, headers, *_ = _bits(raw.flags)
        reply = pool.reply(raw.other) if asks else ""
        size = {3: 17, 7: 9, 11: -1, 19: 9}.get(raw.flags >> 3, 0)
        subject = self._heard(raw) if raw.flags & 8 else pool.literals[raw.chosen]
        return Publish(raw.client, subject, reply, headers and bool(raw.flags & 4), size)

    def _heard(self, raw: Raw) -> str:
        """A subject that somebody has subscribed to, in the same account or in one that it has to do with."""
        account = self.logins[raw.client][-1].account
        subjects = [subject for other, subject in self._wanted() if other == account]
        for other, wanted in self._wanted():
            subjects += self.world.ways(account, other, wanted)
        rng = Random(raw.chosen * raw.other)
        return narrowed(rng, subjects[raw.chosen % len(subjects)], wholly=True) if subjects else literal(rng)

    def _wanted(self) -> Iterator[tuple[str, str]]:
        """Accounts and subjects of all subscriptions until now."""
        for step in self.steps:
            if isinstance(step, Subscribe):
                yield self.logins[step.client][-1].account, step.subject

    def _answer(self, raw: Raw) -> Step:
        asks, headers, more, empty, *_ = _bits(raw.flags)
        reply = self._pool(raw.client).reply(raw.other) if asks and more else ""
        return Answer(raw.client, raw.chosen % 3, reply, headers and more, -1 if empty and headers else 0)

    def _leave(self, raw: Raw) -> Step:
        return Leave(raw.client)


def _bits(flags: int) -> list[bool]:
    return [bool(flags >> bit & 1) for bit in range(8)]
