"""Push consumers: deliveries, heartbeats, flow control, groups and interest, as the Go server has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import MS, SECOND, Play, Scenario, Scenarios, compare
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.jetstream import Message
    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()

DELIVERIES: Final[dict[str, dict[str, Any]]] = {
    "explicit": {},
    "without acks": {"ack_policy": "none"},
    "all": {"ack_policy": "all"},
    "headers only": {"headers_only": True},
    "filtered": {"filter_subject": "s.1"},
    "of two subjects": {"filter_subjects": ["s.1", "s.2"]},
    "last": {"deliver_policy": "last"},
    "last per subject": {"deliver_policy": "last_per_subject", "filter_subject": "s.*"},
    "with a rate": {"rate_limit_bps": 80_000_000},
    "of the original pace": {"replay_policy": "original"},
}
COUNT: Final = 60
"""Large messages: more than a consumer may have on the way, at first 2 MB."""
COUNTS: Final = {"filtered": 3, "of two subjects": 6, "last": 1, "last per subject": 3}


def _delivered(config: dict[str, Any], count: int) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"])
        for number in range(9):
            play.publish(f"s.{number % 3}", str(number), {"N": str(number)} if number % 2 else None)
        sid, subject = play.inbox()
        play.consumer(deliver_subject=subject, **config)
        play.take(sid, count)
        play.info()
        play.publish("s.1", "after")
        [message] = play.take(sid, 1)
        if config.get("ack_policy") != "none":
            play.ack(message)
        play.info()

    return act


for _name, _config in DELIVERIES.items():
    SCENARIOS.row(f"delivered {_name}", _delivered(_config, COUNTS.get(_name, 9)))


@SCENARIOS.add
def bound_and_unbound(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(2)
    play.consumer(deliver_subject="in.later")
    play.info()
    sid = play.wire.subscribe("in.later")
    play.take(sid, 2)
    play.info()
    play.wire.unsubscribe(sid)
    play.wire.sync()
    play.fill(1)
    sid = play.wire.subscribe("in.later")
    play.take(sid, 1)


@SCENARIOS.add
def idle_heartbeats(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(2)
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, idle_heartbeat=150 * MS)
    play.take(sid, 4)


@SCENARIOS.add
def flow_control_of_much(play: Play) -> None:
    """Requests come between messages, and none comes on before they are answered."""
    play.stream("S", ["s.>"])
    for _ in range(COUNT):
        play.wire.answer(play.wire.ask("s.a", b"x" * 100_000))
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, ack_policy="none", flow_control=True, idle_heartbeat=5 * SECOND)
    got = requests = 0
    while got < COUNT:
        message = play.wire.next(sid)
        if message.status:
            assert message.status == "100 FlowControl Request", message
            assert message.reply.startswith("$JS.FC.S.C."), message
            requests += 1
            play.wire.publish(message.reply)
        else:
            got += 1
    play.say("requests", requests > 0)
    play.info()


@SCENARIOS.add
def stalled_consumer_says_so(play: Play) -> None:
    play.stream("S", ["s.>"])
    for _ in range(COUNT):
        play.wire.answer(play.wire.ask("s.a", b"x" * 100_000))
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, ack_policy="none", flow_control=True, idle_heartbeat=150 * MS)
    stalled = next(
        found for _ in range(2 * COUNT) if (found := play.wire.next(sid).header("Nats-Consumer-Stalled"))
    )
    assert stalled.startswith("$JS.FC.S.C."), stalled
    play.wire.publish(stalled)
    while play.wire.next(sid).status:
        pass
    play.say("it goes on")


@SCENARIOS.add
def queue_group_shares(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(20)
    sids = [play.wire.subscribe("in.group", "g") for _ in range(2)]
    other = play.wire.subscribe("in.group")
    play.consumer(deliver_subject="in.group", deliver_group="g")
    play.waiting(0)
    got: list[Message] = []

    def has_all() -> bool:
        play.wire.sync()
        got.extend(message for sid in sids for message in play.wire.taken(sid))
        return len(got) == 20

    wait_until(has_all, "the group gets everything")
    play.say(sorted(int(message.payload[1:]) for message in got))
    play.say("others", len(play.wire.taken(other)) > 0)
    play.info()


@SCENARIOS.add
def durable_that_is_asked_for_again(play: Play) -> None:
    play.stream("S", ["s.>"])
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject)
    _, other = play.inbox()
    config = {"durable_name": "C", "ack_policy": "explicit", "deliver_subject": other}
    play.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    config = {"durable_name": "C", "ack_policy": "explicit", "deliver_subject": subject, "description": "x"}
    play.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    play.wire.unsubscribe(sid)
    play.wire.sync()
    wanted = {"durable_name": "C", "ack_policy": "explicit", "deliver_subject": other}
    answer = play.quiet("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": wanted})
    play.say("error" in answer)


@SCENARIOS.add
def redelivery(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(2)
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, ack_wait=150 * MS, max_deliver=2)
    first, _ = play.take(sid, 2)
    play.ack(first)
    play.take(sid, 1)
    play.info()


@SCENARIOS.add
def nak(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(3)
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject)
    messages = play.take(sid, 3)
    play.ack(messages[1], b"-NAK")
    play.take(sid, 1)
    play.info()


@SCENARIOS.add
def unacknowledged_are_limited(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(5)
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, max_ack_pending=2)
    messages = play.take(sid, 2)
    play.info()
    play.ack(messages[0])
    play.take(sid, 1)
    play.info()


@SCENARIOS.add
def paused_with_heartbeats(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(2)
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, idle_heartbeat=100 * MS, pause_until="2090-01-01T00:00:00Z")
    play.take(sid, 2)
    play.api("CONSUMER.PAUSE.S.C")
    while play.wire.next(sid).status:
        pass
    play.info()


@SCENARIOS.add
def paused_for_a_moment(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(1)
    events = play.listen("$JS.EVENT.ADVISORY.CONSUMER.PAUSE.>")
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject)
    play.take(sid, 1)
    play.api("CONSUMER.PAUSE.S.C", {"pause_until": "2090-01-01T00:00:00Z"})
    play.events(events, 1)
    play.fill(1)
    play.info()
    play.api("CONSUMER.PAUSE.S.C", {})
    play.events(events, 1)
    play.fill(1)  # the Go server only goes on with what is new
    play.say(*(message.payload.decode() for message in play.wire.take(sid, 2)))


@SCENARIOS.add
def to_the_deliver_subject_of_another(play: Play) -> None:
    """A stream can be fed by a consumer's deliveries: they are publications like others."""
    play.stream("S", ["s.>"])
    play.stream("T", ["copied"])
    play.fill(3)
    play.consumer(deliver_subject="copied", ack_policy="none")
    sid, subject = play.inbox()
    play.consumer("D", "T", deliver_subject=subject, ack_policy="none")
    play.take(sid, 3)
    play.read("T")


@SCENARIOS.add
def deleted_with_its_stream(play: Play) -> None:
    play.stream("S", ["s.>"])
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, idle_heartbeat=100 * MS)
    play.take(sid, 1)
    play.api("STREAM.DELETE.S")
    play.api("CONSUMER.INFO.S.C")


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_push(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
