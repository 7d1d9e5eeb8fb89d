"""A consumer against a model of it: whatever is published, asked, answered and waited for, nothing is lost.

The model knows what was published, what it was sent and what it acknowledged; restarts come at any point.
"""

from __future__ import annotations

from consumer_harness import SECOND, Desk, Frame
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.protocol.jetstream.configs import AckPolicy

SUBJECTS = st.lists(st.sampled_from(["s.a", "s.a", "s.b", "s.c.d"]), min_size=1, max_size=6)
PER_SUBJECT = "headrace.max_ack_pending_per_subject"


class ConsumerModel(RuleBasedStateMachine):
    @initialize(
        keyed=st.sampled_from([0, 0, 1, 2]),
        all_at_once=st.booleans(),
        push=st.booleans(),
        filters=st.sampled_from([[], [], ["s.a"], ["s.a", "s.c.>"]]),
        most=st.sampled_from([-1, 1, 3, 1000]),
        backoff=st.booleans(),
    )
    def open(
        self, *, keyed: int, all_at_once: bool, push: bool, filters: list[str], most: int, backoff: bool
    ) -> None:
        self.desk = Desk()
        self.keyed = keyed
        self.all = all_at_once and not keyed
        self.most = most
        config: dict[str, object] = {"max_ack_pending": most, "ack_wait": SECOND, "filter_subjects": filters}
        if keyed:
            config["metadata"] = {PER_SUBJECT: str(keyed)}
        if push:
            config["deliver_subject"] = "i"
        if backoff:
            config["backoff"] = [SECOND, 2 * SECOND]
        if self.all:
            config["ack_policy"] = AckPolicy.ALL
        self.desk.open(**config)
        self.filters = filters
        self.wanted: dict[int, str] = {}
        """What the consumer is to get: sequence and subject."""
        self.sent: dict[int, Frame] = {}
        """The last delivery of what was delivered and not acknowledged."""
        self.done: set[int] = set()
        self.newest = 0
        self.deliveries: dict[int, int] = {}

    # -- what happens --------------------------------------------------------------------------------

    @rule(subjects=SUBJECTS)
    def publish(self, subjects: list[str]) -> None:
        first = self.desk.publish(*subjects)
        for sequence, subject in enumerate(subjects, first):
            if not self.filters or subject == "s.a" or (subject == "s.c.d" and "s.c.>" in self.filters):
                self.wanted[sequence] = subject
        self.collect()

    @rule(batch=st.integers(1, 8), no_wait=st.booleans(), expires=st.sampled_from([0, SECOND // 2]))
    def pull(self, batch: int, *, no_wait: bool, expires: int) -> None:
        if not self.desk.consumer.config.deliver_subject:
            body = f'{{"batch":{batch},"no_wait":{str(no_wait).lower()},"expires":{expires}}}'
            self.desk.consumer.delivery.pull(b"i", body.encode())
            self.desk.turns.settle()
            self.collect()

    @rule(data=st.data(), body=st.sampled_from([b"", b"+ACK", b"+TERM"]))
    def acknowledge(self, data: st.DataObject, body: bytes) -> None:
        if not self.sent:
            return
        frame = self.sent[data.draw(st.sampled_from(sorted(self.sent)))]
        self.desk.ack(frame, body=body)
        self.settled(frame)
        self.collect()

    def settled(self, frame: Frame) -> None:
        """An acknowledgement for all before it counts by its consumer sequence too: an old one is too low."""
        floor = self.desk.consumer.tracker.floor_stream
        done = [one for one in self.sent if one <= floor] if self.all else [frame.sequence]
        for sequence in done:
            del self.sent[sequence]
            self.done.add(sequence)

    @rule(data=st.data(), body=st.sampled_from([b"-NAK", b"+WPI", b'-NAK {"delay":300000000}', b"?"]))
    def answer(self, data: st.DataObject, body: bytes) -> None:
        if self.sent:
            self.desk.ack(self.sent[data.draw(st.sampled_from(sorted(self.sent)))], body=body)
            self.collect()

    @rule(seconds=st.sampled_from([0.01, 0.4, 1.2, 3.0]))
    def wait(self, seconds: float) -> None:
        self.desk.advance(seconds)
        self.collect()

    @rule()
    def restart(self) -> None:
        self.desk.reopen()
        self.collect()

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        alive = sorted(set(self.wanted) - self.done)
        if alive:
            sequence = data.draw(st.sampled_from(alive))
            self.desk.delete(sequence)
            del self.wanted[sequence]
            self.sent.pop(sequence, None)
            self.collect()

    # -- what must hold ------------------------------------------------------------------------------

    def collect(self) -> None:
        for frame in self.desk.take("i"):
            if frame.status:
                continue
            sequence = frame.sequence
            assert sequence in self.wanted
            assert sequence not in self.done, "acknowledged, and yet sent again"
            if sequence not in self.sent:
                assert frame.numbers[0] == 1
                assert self.keyed or sequence > self.newest, "not in order"
                self.newest = max(self.newest, sequence)
            else:
                assert frame.numbers[0] > 1
            assert frame.numbers[0] > self.deliveries.get(sequence, 0)
            self.deliveries[sequence] = frame.numbers[0]
            self.sent[sequence] = frame

    @invariant()
    def counts(self) -> None:
        if not hasattr(self, "desk"):
            return
        info = self.desk.consumer.info()
        assert info["num_ack_pending"] == len(self.sent)
        assert info["num_pending"] == len(set(self.wanted) - set(self.sent) - self.done)
        assert self.most < 0 or len(self.sent) <= self.most
        if self.keyed:
            subjects = [self.wanted[sequence] for sequence in self.sent]
            assert all(subjects.count(subject) <= self.keyed for subject in subjects)
        floor = info["ack_floor"]["stream_seq"]  # type: ignore[index]
        assert all(sequence > floor for sequence in self.wanted if sequence not in self.done)

    def teardown(self) -> None:
        """In the end everything arrives."""
        if not hasattr(self, "desk"):
            return
        for _ in range(40 + 2 * len(self.wanted)):
            if set(self.wanted) <= self.done:
                break
            self.pull(8, no_wait=False, expires=0)
            self.desk.advance(2.5)
            self.collect()
            for frame in list(self.sent.values()):
                if frame.sequence in self.sent:
                    self.desk.ack(frame)
                    self.settled(frame)
            self.collect()
        assert set(self.wanted) <= self.done


TestConsumerModel = ConsumerModel.TestCase
TestConsumerModel.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
