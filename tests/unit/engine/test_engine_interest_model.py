"""Any sequence of SUB, UNSUB, PUB, CONNECT and closing, against a naive model that tries every subscription.

The model knows nothing of tries, plans or caches. Of a queue group it only asks that one member got the
message, and takes from the engine which.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from engine_peers import QUIET, Broker
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fuzz.frames import read_frames
from headrace.engine.memory import live_objects

if TYPE_CHECKING:
    from engine_peers import Peer

LINKS = 4
NO_ECHO = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'

tokens = st.sampled_from([b"a", b"b", b"c", b"foo*", b"longer-token-than-eight"])
few = st.sampled_from([b"a", b"a.b"])
subjects = few | st.lists(tokens, min_size=1, max_size=4).map(b".".join)
odd_subjects = st.sampled_from([b"a..b", b".a", b"a.", b"*", b">", b"a.*", b"a.>", b"*.b", b"."])
patterns = few | st.builds(
    lambda parts, rest: b".".join([*parts, b">"] if rest or not parts else parts),
    st.lists(st.one_of(tokens, st.just(b"*")), max_size=4),
    st.booleans(),
)
links = st.integers(0, LINKS - 1)
sids = st.sampled_from([b"1", b"2", b"3", b"4", b"sid-of-some-length"])
queues = st.sampled_from([None, None, b"q", b"w"])


@dataclass
class Subscription:
    """One as the model has it."""

    peer: Peer
    sid: bytes
    pattern: list[bytes]
    queue: bytes | None
    delivered: int = 0
    limit: int = 0

    def matches(self, subject: bytes) -> bool:
        parts = subject.split(b".")
        if b"" in parts:
            return False
        if self.pattern[-1] == b">":
            head = self.pattern[:-1]
            return len(parts) > len(head) and all(map(_fits, head, parts))
        return len(parts) == len(self.pattern) and all(map(_fits, self.pattern, parts))


def _fits(wanted: bytes, part: bytes) -> bool:
    return wanted in (b"*", part)


class InterestModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.live = live_objects()
        with contextlib.redirect_stdout(io.StringIO()):
            self.broker = Broker()
        self.peers = [self.broker.peer() for _ in range(LINKS)]
        self.silent: set[int] = set()
        self.subscriptions: list[Subscription] = []
        self.answers: list[bytes] = []

    def find(self, peer: Peer, sid: bytes) -> Subscription | None:
        return next((s for s in self.subscriptions if s.peer is peer and s.sid == sid), None)

    # -- what clients do

    @rule(link=links, sid=sids, pattern=patterns, queue=queues)
    def subscribe(self, link: int, sid: bytes, pattern: bytes, queue: bytes | None) -> None:
        peer = self.peers[link]
        peer.link.feed(b"SUB " + pattern + b" " + (queue + b" " if queue else b"") + sid + b"\r\n")
        if self.find(peer, sid) is None:
            self.subscriptions.append(Subscription(peer, sid, pattern.split(b"."), queue))

    @rule(link=links, sid=sids, limit=st.none() | st.integers(0, 4))
    def unsubscribe(self, link: int, sid: bytes, limit: int | None) -> None:
        peer = self.peers[link]
        peer.link.feed(b"UNSUB " + sid + (b"" if limit is None else b" %d" % limit) + b"\r\n")
        found = self.find(peer, sid)
        if found is None:
            return
        if limit is not None and limit > found.delivered:
            found.limit = limit
        else:
            self.subscriptions.remove(found)

    @rule(link=links, subject=st.one_of(subjects, subjects, odd_subjects), times=st.integers(1, 4))
    def publish(self, link: int, subject: bytes, times: int) -> None:
        """The same subject several times in a row: the later ones by a kept plan."""
        for _ in range(times):
            self.answers.clear()
            self.peers[link].link.feed(b"PUB " + subject + b" 2\r\nhi\r\n")
            self.check_delivery(link, subject)

    @rule(link=links, is_silent=st.booleans())
    def connect_again(self, link: int, is_silent: bool) -> None:
        peer = self.peers[link]
        peer.link.feed(NO_ECHO if is_silent else QUIET.replace(b"}", b',"echo":true}'))
        self.subscriptions = [s for s in self.subscriptions if s.peer is not peer]
        (self.silent.add if is_silent else self.silent.discard)(link)

    @rule(link=links, in_midst=st.booleans())
    def close(self, link: int, in_midst: bool) -> None:
        """The link goes, before or after the end of a tick, and another takes its place."""
        peer = self.peers[link]
        peer.link.detach()
        if in_midst:
            self.broker.end_tick()
        self.subscriptions = [s for s in self.subscriptions if s.peer is not peer]
        self.silent.discard(link)
        self.peers[link] = self.broker.peer()

    @rule()
    def end_tick(self) -> None:
        self.broker.end_tick()

    @rule(kind=st.sampled_from(["none", "lasting", "drawn"]))
    def map_subjects(self, kind: str) -> None:
        draws = cycle([b"a", b"b.c", b""])

        def mapper(subject: bytes) -> tuple[bytes, bool] | None:
            if not subject.startswith(b"a"):
                return None
            target = b"b" + subject[1:] if kind == "lasting" else next(draws)
            self.answers.append(target)
            return target, kind == "lasting"

        self.kind = kind
        self.broker.interest.mapper = None if kind == "none" else mapper

    kind = "none"

    def target(self, subject: bytes) -> bytes:
        if self.kind == "none" or not subject.startswith(b"a"):
            return subject
        return b"b" + subject[1:] if self.kind == "lasting" else self.answers[-1]

    # -- what must come of it

    def check_delivery(self, publisher: int, subject: bytes) -> None:
        target = self.target(subject)
        got: set[tuple[int, bytes]] = set()
        for n, peer in enumerate(self.peers):
            for frame in read_frames(peer.received()):
                assert (frame.op, frame.subject, frame.reply, frame.payload) == ("MSG", target, b"", b"hi")
                assert (n, frame.sid) not in got
                got.add((n, frame.sid))
        groups: dict[bytes, int] = {}
        for s in [s for s in self.subscriptions if s.matches(target)]:
            link = self.peers.index(s.peer)
            can_take = link != publisher or link not in self.silent
            has_it = (link, s.sid) in got
            got.discard((link, s.sid))
            assert can_take or not has_it
            if s.queue is None:
                assert has_it is can_take
            elif can_take:
                groups[s.queue] = groups.get(s.queue, 0) + has_it
            s.delivered += has_it
            if has_it and s.limit and s.delivered >= s.limit:
                self.subscriptions.remove(s)
        assert not got
        assert all(members == 1 for members in groups.values())

    @invariant()
    def lists_agree(self) -> None:
        for peer in self.peers:
            rows = {(row[0], row[1], row[2], row[3], row[4]) for row in peer.link.subscriptions()}
            assert rows == {
                (b".".join(s.pattern), s.queue, s.sid, s.delivered, s.limit)
                for s in self.subscriptions
                if s.peer is peer
            }
        assert self.broker.interest.statistics()["subscriptions"] == len(self.subscriptions)

    @rule(subject=subjects)
    def count_receivers(self, subject: bytes) -> None:
        if self.kind == "drawn":
            return
        matching = [s for s in self.subscriptions if s.matches(self.target(subject))]
        plain = sum(s.queue is None for s in matching)
        assert self.broker.interest.receivers(subject) == (plain, len({s.queue for s in matching} - {None}))

    def teardown(self) -> None:
        self.broker.stop()
        self.peers.clear()
        self.subscriptions.clear()
        assert live_objects() == self.live


InterestModel.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestInterestModel = InterestModel.TestCase
