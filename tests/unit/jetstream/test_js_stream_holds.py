"""What a stream holds and gives: reads, removals, states, ages, retention by interest, updates."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from js_streams import SECOND, START, World, block

from headrace.core.service import Delivery
from headrace.jetstream.stream import gets
from headrace.jetstream.stream.publication import Publication
from headrace.jetstream.stream.stream import log_limits
from headrace.log.port import LogDiscard
from headrace.protocol.jetstream.configs import (
    DiscardPolicy,
    RetentionPolicy,
    Storage,
    StreamConfig,
    StreamSource,
)
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.times import ZERO
from headrace.subjects.grammar import matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.engine.jetstream import Publications


class HandConsumer:
    """What a stream asks of one. `wanting`: sequences it has not done with, besides those it never saw."""

    def __init__(self, name: str, *filters: bytes) -> None:
        self.name = name
        self.filters = filters
        self.tracker = SimpleNamespace(reached=0)
        self.wanting: set[int] = set()
        self.seen: list[tuple[int, int]] = []
        self.told: list[Any] = []

    def matches(self, subject: bytes) -> bool:
        return not self.filters or any(matches(f, subject) for f in self.filters)

    def needs(self, sequence: int) -> bool:
        return sequence in self.wanting or sequence > self.tracker.reached

    def fresh(self, first: int, batch: Publications) -> None:
        self.seen.append((first, len(batch)))
        self.tracker.reached = max(self.tracker.reached, first + len(batch) - 1)
        self.wanting |= set(range(first, first + len(batch)))

    def purged(self, first: int, last: int, subject: bytes | None, count: int) -> None:
        assert count > 0 or subject is None
        self.told.append(("purged", first, last, subject))

    def trimmed(self) -> None:
        self.told.append("trimmed")

    def removed(self, sequence: int) -> None:
        self.told.append(("removed", sequence))

    def stream_changed(self) -> None:
        """Its acknowledgements concern the stream now, or no more."""


def _join(world: World, name: str, *filters: bytes) -> HandConsumer:
    consumer = HandConsumer(name, *filters)
    world.stream.add(consumer)  # type: ignore[arg-type]
    return consumer


def _done(world: World, consumer: HandConsumer, *sequences: int) -> None:
    consumer.wanting -= set(sequences)
    world.stream.acked(consumer, sequences)  # type: ignore[arg-type]
    world.account.turns.settle()


def _error(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.err_code, refused.value.description


def test_of_more_removed_sequences_than_anybody_can_hold_the_first_are_named() -> None:
    world = World()
    world.receive(b"s.a")
    world.log.append([], 1 << 40)
    world.receive(b"s.a")
    state = world.stream.state(deleted_details=True)
    assert state["num_deleted"] == (1 << 40) - 2
    assert state["deleted"] == list(range(2, 100_002))


class TestGet:
    def test_by_sequence_subject_and_time(self) -> None:
        world = World()
        world.receive((b"s.a", b"", b"1"))
        world.host.pass_time(10)
        world.receive((b"s.b", b"", b"2"), (b"s.a", b"", b"3"))
        stream = world.stream

        def found(sequence: int = 0, **asked: Any) -> bytes | None:
            message = gets.find(stream, sequence=sequence, **asked)
            return None if message is None else message.payload

        assert found(2) == b"2"
        assert found(last_for=b"s.a") == b"3"
        assert found(last_for=b"s.*") == b"3"
        assert found(next_for=b"s.a") == b"1"
        assert found(2, next_for=b"s.a") == b"3"
        assert found(start_ns=START + 1) == b"2"
        assert found(next_for=b"s.a", start_ns=START + 1) == b"3"
        assert found(9) is None
        assert found(last_for=b"x") is None
        assert found(next_for=b"x") is None
        assert found(3, next_for=b"s.b") is None


class TestDirect:
    def _ask(self, world: World, body: bytes = b"", subject: bytes = b"", headers: bytes = b"") -> Any:
        world.take()
        world.stream.direct(Delivery(1, b"x", b"inbox", headers, body), subject)
        return world.take()

    def test_one_message(self) -> None:
        world = World()
        world.receive((b"s.a", b"", b"1"))
        world.receive((b"s.b", block(A="b"), b"2"))
        lines = (
            b"Nats-Stream: S\r\nNats-Subject: s.%c\r\nNats-Sequence: %d\r\n"
            b"Nats-Time-Stamp: 2023-11-14T22:13:20Z\r\n\r\n"
        )
        plain = (b"inbox", b"NATS/1.0\r\n" + lines % (b"a", 1), b"1")
        assert self._ask(world, b'{"seq":1}') == [plain]
        assert self._ask(world, b'{"last_by_subj":"s.a"}') == [plain]
        assert self._ask(world, b"", b"s.a") == [plain]
        assert self._ask(world, b"{}", b"s.a") == [plain]
        assert self._ask(world, b'{"next_by_subj":"s.>"}') == [plain]
        assert self._ask(world, b'{"start_time":"2023-11-14T22:13:20+00:00"}') == [plain]
        headed = (b"inbox", b"NATS/1.0\r\nA: b\r\n" + lines % (b"b", 2), b"2")
        assert self._ask(world, b'{"seq":2}') == [headed]
        assert self._ask(world, b'{"seq":2,"no_hdr":true}') == [(b"inbox", b"", b"2")]

    @pytest.mark.parametrize(
        ("body", "subject", "status"),
        [
            (b'{"seq":9}', b"", b"404 Message Not Found"),
            (b"", b"s.none", b"404 Message Not Found"),
            (b"", b"", b"408 Empty Request"),
            (b"{}", b"", b"408 Empty Request"),
            (b'{"batch":5}', b"", b"408 Empty Request"),
            (b"x", b"", b"408 Malformed Request"),
            (b'{"seq":-1}', b"", b"408 Malformed Request"),
            (b'{"start_time":"yesterday"}', b"", b"408 Malformed Request"),
            (b'{"seq":1', b"s.a", b"408 Malformed Request"),
            (b'{"seq":1,"last_by_subj":"s.a"}', b"", b"408 Bad Request"),
            (b'{"last_by_subj":"s.a","batch":2}', b"", b"408 Bad Request"),
            (b'{"last_by_subj":"s.a","next_by_subj":"s.a"}', b"", b"408 Bad Request"),
            (b'{"seq":1}', b"s.a", b"408 Bad Request"),
        ],
    )
    def test_refusals(self, body: bytes, subject: bytes, status: bytes) -> None:
        world = World()
        world.put()
        assert self._ask(world, body, subject) == [(b"inbox", b"NATS/1.0 " + status + b"\r\n\r\n", b"")]

    def test_a_level_that_is_too_high(self) -> None:
        world = World()
        world.put()
        for level, answered in (("5", True), ("0", True), ("6", False), ("x", False)):
            ((_, headers, _),) = self._ask(world, b'{"seq":1}', b"", block(Nats_Required_Api_Level=level))
            assert (headers == b"NATS/1.0 412 Required Api Level\r\n\r\n") is not answered

    def test_without_a_reply_subject(self) -> None:
        world = World()
        world.put()
        world.take()
        world.stream.direct(Delivery(1, b"x", b"", b"", b'{"seq":1}'))
        assert world.take() == []

    def test_many(self) -> None:
        world = World()
        world.receive(b"s.a", b"s.b", b"s.a")
        sent = self._ask(world, b'{"seq":1,"batch":2}')
        assert [s[1].startswith(b"NATS/1.0 204 EOB") for s in sent] == [False, False, True]
        sent = self._ask(world, b'{"multi_last":["s.>"]}')
        assert len(sent) == 3


class TestRemoval:
    def test_delete(self) -> None:
        world = World(storage=Storage.MEMORY)
        consumer = _join(world, "c")
        world.receive(b"s.a", b"s.b")
        world.stream.removal.delete(1, erase=True)
        assert world.held() == [(2, b"s.b")]
        assert consumer.told == [("removed", 1)]
        assert world.stream.epoch == 1
        for sequence in (1, 0, 99, -1):
            assert _error(lambda s=sequence: world.stream.removal.delete(s)) == (  # type: ignore[misc]
                10043,
                f"sequence {sequence} not found",
            )

    def test_delete_of_what_is_not_there_on_disk(self) -> None:
        world = World()
        world.receive(*[b"s.a"] * 4)
        world.stream.removal.delete(1)
        world.stream.removal.delete(3)
        assert _error(lambda: world.stream.removal.delete(3)) == (10043, "sequence 3 not found")
        for sequence in (0, 1, -1):
            assert _error(lambda s=sequence: world.stream.removal.delete(s)) == (10057, "no message found")  # type: ignore[misc]
        assert _error(lambda: world.stream.removal.delete(5)) == (10057, "stream store EOF")

    def test_delete_that_is_not_allowed(self) -> None:
        assert _error(lambda: World(deny_delete=True).stream.removal.delete(1)) == (
            10057,
            "message delete not permitted",
        )
        assert _error(lambda: World(sealed=True).stream.removal.delete(1))[0] == 10109

    def test_purge(self) -> None:
        world = World()
        world.receive(*[b"s.a", b"s.b"] * 5)
        consumer = _join(world, "c")
        assert world.stream.removal.purge("s.a", keep=2) == 3
        assert world.stream.removal.purge("s.b", up_to=5) == 2
        assert [s for s, _ in world.held()] == [6, 7, 8, 9, 10]
        assert world.stream.removal.purge(up_to=8) == 2
        assert world.stream.removal.purge(keep=1) == 2
        assert world.stream.removal.purge(">") == 1
        assert consumer.told == [
            *(("purged", 2, 10, b"s.a"), ("purged", 6, 10, b"s.b")),
            *(("purged", 8, 10, None), ("purged", 10, 10, None), ("purged", 11, 10, None)),
        ]
        assert world.stream.removal.purge() == 0

    def test_purge_beyond_the_end_moves_the_end(self) -> None:
        world = World()
        world.receive(b"s.a")
        assert world.stream.removal.purge(up_to=100) == 1
        state = world.stream.state()
        assert (state["first_seq"], state["last_seq"]) == (100, 99)
        assert world.put() == {"stream": "S", "seq": 100}

    def test_purge_of_a_stream_that_never_had_a_message(self) -> None:
        world = World()
        assert world.stream.removal.purge("s.a") == 0
        assert world.stream.state()["first_seq"] == 0
        assert world.stream.removal.purge() == 0
        assert world.stream.state()["first_seq"] == 1

    def test_purge_that_is_not_allowed(self) -> None:
        assert _error(World(deny_purge=True).stream.removal.purge) == (10110, "stream purge not permitted")
        assert _error(World(sealed=True).stream.removal.purge)[0] == 10109

    def test_what_was_received_before_goes_too(self) -> None:
        world = World()
        world.receive(b"s.a", b"s.b", settle=False)
        assert world.stream.removal.purge() == 2


def _of_nobody() -> World:
    world = World(retention=RetentionPolicy.INTEREST)
    world.receive(b"s.a")
    return world


class TestState:
    def test_of_a_new_stream(self) -> None:
        assert World().stream.state() == {
            **{"messages": 0, "bytes": 0, "first_seq": 0, "first_ts": ZERO},
            **{"last_seq": 0, "last_ts": ZERO, "consumer_count": 0},
        }

    def test_of_messages_that_nobody_wanted(self) -> None:
        state = _of_nobody().stream.state()
        assert (state["messages"], state["last_ts"]) == (0, "2023-11-14T22:13:20Z")

    def test_with_a_first_sequence(self) -> None:
        world = World(first_seq=50)
        state = world.stream.state()
        assert (state["first_seq"], state["last_seq"]) == (50, 49)
        assert world.put() == {"stream": "S", "seq": 50}
        again = World(world.log, first_seq=50)
        assert again.put() == {"stream": "S", "seq": 51}

    def test_of_messages_with_gaps(self) -> None:
        world = World()
        world.receive(*[b"s.a", b"s.b"] * 3)
        world.host.pass_time(0.25)
        world.receive(b"s.c")
        for sequence in (1, 3, 4):
            world.stream.removal.delete(sequence)
        _join(world, "c")
        state = world.stream.state(deleted_details=True)
        del state["bytes"]
        assert json.loads(json.dumps(state)) == {
            **{"messages": 4, "first_seq": 2, "first_ts": "2023-11-14T22:13:20Z", "last_seq": 7},
            **{"last_ts": "2023-11-14T22:13:20.25Z", "num_subjects": 3, "num_deleted": 2, "deleted": [3, 4]},
            "consumer_count": 1,
        }
        assert "deleted" not in world.stream.state()
        assert world.stream.subject_totals("s.*") == {"s.a": 1, "s.b": 2, "s.c": 1}
        assert world.stream.pending_count(3, [b"s.a", b"s.b"]) == 2


class TestAge:
    def test_messages_go_when_they_are_old(self) -> None:
        world = World(max_age=10 * SECOND)
        world.receive(b"s.a")
        world.host.pass_time(4)
        world.receive(b"s.b")
        world.host.pass_time(6)
        assert world.held() == [(2, b"s.b")]
        world.host.pass_time(4)
        assert world.held() == []
        assert world.stream.epoch == 2
        assert not [t for t in world.host.timers if t.function]

    def test_consumers_are_told(self) -> None:
        world = World(max_age=10 * SECOND)
        consumer = _join(world, "c")
        world.receive(b"s.a")
        world.host.pass_time(10)
        assert consumer.told == ["trimmed"]

    def test_after_a_start(self) -> None:
        world = World(max_age=10 * SECOND)
        world.receive(b"s.a")
        again = World(world.log, max_age=10 * SECOND)
        again.host.pass_time(10)
        assert again.held() == []

    def test_a_stream_that_is_removed_has_no_timer(self) -> None:
        world = World(max_age=10 * SECOND)
        world.receive(b"s.a")
        world.stream.remove()
        assert not [t for t in world.host.timers if t.function]
        assert world.account.routes == {}


class TestConsumers:
    def test_get_what_is_durable(self) -> None:
        world = World()
        consumer = _join(world, "c")
        world.account.committer.held = True
        world.receive(b"s.a", b"s.b")
        assert consumer.seen == []
        world.account.committer.release()
        assert consumer.seen == [(1, 2)]

    def test_a_stream_that_is_gone_tells_nobody(self) -> None:
        world = World()
        consumer = _join(world, "c")
        world.account.committer.held = True
        world.receive(b"s.a")
        world.stream.remove()
        world.account.committer.release()
        assert consumer.seen == []


class TestInterest:
    def test_is_kept_until_all_have_done_with_it(self) -> None:
        world = World(retention=RetentionPolicy.INTEREST)
        one, two = _join(world, "one"), _join(world, "two", b"s.a")
        world.receive(b"s.a", b"s.b", b"s.a")
        _done(world, one, 1, 2)
        assert world.held() == [(1, b"s.a"), (3, b"s.a")]
        _done(world, two, 1)
        assert world.held() == [(3, b"s.a")]

    def test_only_what_is_wanted_is_kept(self) -> None:
        world = World(retention=RetentionPolicy.INTEREST)
        consumer = _join(world, "c", b"s.a")
        world.receive(b"s.x", b"s.a", b"s.x", b"s.x", b"s.a")
        assert [a["seq"] for a in world.acks()] == [1, 2, 3, 4, 5]
        assert world.held() == [(2, b"s.a"), (5, b"s.a")]
        assert consumer.seen == [(2, 1), (5, 1)]
        assert world.stream.visible == 5

    def test_what_only_a_consumer_that_goes_wanted_goes(self) -> None:
        world = World(retention=RetentionPolicy.INTEREST)
        one, two = _join(world, "one", b"s.a"), _join(world, "two", b"s.*")
        world.receive(b"s.a", b"s.b", b"s.a")
        _done(world, one, 1)
        world.stream.drop(two)  # type: ignore[arg-type]
        assert world.held() == [(3, b"s.a")]
        world.stream.drop(one)  # type: ignore[arg-type]
        assert world.held() == []
        assert world.put()["seq"] == 4

    def test_after_a_start_what_was_done_with_goes(self) -> None:
        world = World(retention=RetentionPolicy.INTEREST)
        consumer = _join(world, "c")
        world.receive(*[b"s.a"] * 4)
        consumer.wanting = {2}
        consumer.tracker.reached = 3
        world.stream.retention.recover()
        assert [s for s, _ in world.held()] == [2, 4]


class TestWorkQueue:
    def test_goes_with_its_acknowledgement(self) -> None:
        world = World(retention=RetentionPolicy.WORKQUEUE)
        consumer = _join(world, "c")
        world.receive(*[b"s.a"] * 5)
        _done(world, consumer, 2, 3)
        assert [s for s, _ in world.held()] == [1, 4, 5]
        assert world.stream.epoch == 1

    def test_after_a_start_what_nobody_wants_stays(self) -> None:
        world = World(retention=RetentionPolicy.WORKQUEUE)
        consumer = _join(world, "c", b"s.a")
        world.receive(b"s.a", b"s.b", b"s.a")
        consumer.wanting = set()
        world.stream.retention.recover()
        assert world.held() == [(2, b"s.b")]

    def test_by_limits_nothing_goes(self) -> None:
        world = World()
        consumer = _join(world, "c")
        world.receive(b"s.a")
        _done(world, consumer, 1)
        assert len(world.held()) == 1


class TestUpdate:
    def test_limits_hold_at_once(self) -> None:
        world = World()
        world.receive(*[b"s.a"] * 5)
        changed = StreamConfig(**{**_fields(world.config), "max_msgs": 2, "subjects": ["s.a", "t.>"]})
        world.stream.update(changed)
        assert [s for s, _ in world.held()] == [4, 5]
        assert world.stream.epoch == 1
        assert sorted(subject for subject, _ in world.account.routes.values()) == [b"s.a", b"t.>"]
        assert world.stream.config is changed

    def test_retention_that_becomes_interest(self) -> None:
        world = World()
        consumer = _join(world, "c", b"s.a")
        world.receive(b"s.a", b"s.b", b"s.a")
        consumer.wanting = {3}
        world.stream.update(StreamConfig(**{**_fields(world.config), "retention": RetentionPolicy.INTEREST}))
        assert world.held() == [(2, b"s.b"), (3, b"s.a")]  # the second was never of interest to anybody

    def test_retention_that_becomes_interest_with_a_consumer_that_begins_later(self) -> None:
        world = World()
        consumer = _join(world, "c", b"s.a")
        world.receive(b"s.a")
        consumer.wanting.clear()
        consumer.tracker.reached = 7
        world.stream.update(StreamConfig(**{**_fields(world.config), "retention": RetentionPolicy.INTEREST}))
        assert world.held() == [(1, b"s.a")]

    def test_retention_that_becomes_interest_without_consumers(self) -> None:
        world = World()
        world.receive(b"s.a")
        world.stream.update(StreamConfig(**{**_fields(world.config), "retention": RetentionPolicy.INTEREST}))
        assert world.held() == []

    def test_what_was_received_before_is_judged_by_what_held(self) -> None:
        world = World()
        world.receive(b"s.a", settle=False)
        world.stream.update(StreamConfig(**{**_fields(world.config), "sealed": True}))
        assert world.put_error()[0] == 10109
        assert len(world.held()) == 1

    def test_a_window_for_duplicates(self) -> None:
        world = World()
        world.put(Nats_Msg_Id="a")
        world.stream.update(StreamConfig(**{**_fields(world.config), "duplicate_window": SECOND}))
        world.host.pass_time(1)
        assert "duplicate" not in world.put(Nats_Msg_Id="a")


def _fields(config: StreamConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.__struct_fields__}


def test_a_mirror_subscribes_to_nothing() -> None:
    world = World(mirror=StreamSource(name="T"), subjects=[])
    assert world.account.routes == {}


def test_limits_of_the_log() -> None:
    limits = log_limits(StreamConfig(max_msgs=-1, max_bytes=5, max_age=7, discard=DiscardPolicy.NEW))
    assert (limits.max_messages, limits.max_bytes, limits.max_age_ns) == (0, 5, 7)
    assert limits.discard is LogDiscard.NEW
    history = StreamConfig(max_msgs=-1, max_bytes=-1, max_msgs_per_subject=3, discard=DiscardPolicy.NEW)
    assert (
        log_limits(history).discard is LogDiscard.OLD
    )  # nothing can be refused: nothing needs to be looked at


def test_publishing_from_inside_is_in_the_order() -> None:
    world = World()
    heard: list[Exception | None] = []
    world.receive(b"s.a", settle=False)
    world.stream.ingest.publish(Publication(b"s.b", b"x", done=heard.append))
    refused = Publication(b"s.b", headers=block(Nats_Expected_Stream="T"), done=heard.append)
    world.stream.ingest.publish(refused)
    world.account.touch(world.stream)
    world.receive(b"s.c")
    assert world.held() == [(1, b"s.a"), (2, b"s.b"), (3, b"s.c")]
    assert len(heard) == 2
    assert heard[0] is None
    assert isinstance(heard[1], ApiError)
