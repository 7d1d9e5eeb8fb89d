"""Pull requests, acknowledgements and redelivery, as the Go server answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import MS, QUIET, SECOND, Play, Scenario, Scenarios, compare, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()

SOON: Final = 60 * MS
"""An expiry that ends a request before anybody is tired of waiting."""

REQUESTS: Final[dict[str, Any]] = {
    "no wait": {"batch": 3, "no_wait": True},
    "no wait, more than there is": {"batch": 30, "no_wait": True},
    "no wait with expires": {"batch": 30, "no_wait": True, "expires": SOON},
    "expires": {"batch": 30, "expires": SOON},
    "expires in no time": {"batch": 30, "expires": 1},
    "negative expires": {"batch": 30, "expires": -1, "no_wait": True},
    "a batch of zero": {"batch": 0, "expires": SOON},
    "a negative batch": {"batch": -3, "expires": SOON},
    "nothing said but expires": {"expires": SOON},
    "max bytes": {"batch": 5, "max_bytes": 100, "expires": SOON},
    "max bytes too few": {"batch": 5, "max_bytes": 10, "expires": SOON},
    "max bytes, no wait": {"batch": 5, "max_bytes": 100, "no_wait": True},
    "max bytes negative": {"batch": 5, "max_bytes": -1, "no_wait": True},
    "heartbeat too long": {"batch": 30, "expires": SECOND, "idle_heartbeat": SECOND},
    "heartbeat without expires": {"batch": 30, "idle_heartbeat": SECOND},
    "heartbeat negative": {"batch": 30, "no_wait": True, "idle_heartbeat": -1},
    "a group": {"batch": 1, "no_wait": True, "group": "A"},
    "an id": {"batch": 1, "no_wait": True, "id": "x"},
    "min pending": {"batch": 1, "no_wait": True, "min_pending": 5},
    "min ack pending": {"batch": 1, "no_wait": True, "min_ack_pending": 5},
    "a priority": {"batch": 1, "no_wait": True, "priority": 3},
    "a priority too high": {"batch": 1, "no_wait": True, "priority": 30},
    "no JSON": b"{",
    "no number": b"x",
    "a negative number": b"-1",
    "a wrong type": {"batch": "many"},
    "an array": [],
    "an unknown field": {"batch": 1, "no_wait": True, "colour": 1},
    "two objects": b'{"batch":1,"no_wait":true}{}',
    "nothing": None,
    "a number": b"3",
    "a batch": {"batch": 2},
    "spaces": b" 2 ",
}

CONSUMERS: Final[dict[str, dict[str, Any]]] = {
    "explicit": {},
    "without acks": {"ack_policy": "none"},
    "with limits": {"max_batch": 4, "max_expires": SECOND // 20, "max_bytes": 90, "max_waiting": 2},
    "with two unacknowledged": {"max_ack_pending": 2},
    "headers only": {"headers_only": True},
    "of a group": {"priority_groups": ["A"], "priority_policy": "overflow"},
    "of a pinned group": {"priority_groups": ["A"], "priority_policy": "pinned_client"},
    "of a prioritized group": {"priority_groups": ["A"], "priority_policy": "prioritized"},
}


def _pulled(config: dict[str, Any]) -> Callable[[Play], None]:
    """Every request to a consumer of its own."""

    def act(play: Play) -> None:
        play.stream("S", ["s.>"])
        for number in range(4):
            play.publish("s.a", "x" * 10 * number, {"N": str(number)} if number % 2 else None)
        sids = {}
        for number, (name, request) in enumerate(REQUESTS.items()):
            play.consumer(f"C{number}", **config)
            sids[name] = play.ask_pull(request, consumer=f"C{number}")
        play.wire.quiet(QUIET)
        for number, (name, sid) in enumerate(sids.items()):
            play.say(name)
            for message in play.wire.taken(sid):
                if pin := message.header("Nats-Pin-Id"):
                    play.mask(pin, "<pin>")
                play.say("got", shown(message))
            play.info(f"C{number}")

    return act


for _kind, _config in CONSUMERS.items():
    SCENARIOS.row(f"requests to a consumer {_kind}", _pulled(_config))


@SCENARIOS.add
def from_nobody(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.pull({"batch": 1})
    play.consumer("P", deliver_subject="d")
    play.pull({"batch": 1}, consumer="P")
    play.pull({"batch": 1}, stream="T")


@SCENARIOS.add
def waiting_for_what_comes(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer()
    first = play.ask_pull({"batch": 2, "expires": 5 * SECOND})
    second = play.ask_pull({"batch": 2, "expires": 5 * SECOND})
    play.waiting(2)
    play.info()
    for number in range(4):
        play.publish("s.a", str(number))
    play.take(first, 2)
    play.take(second, 2)
    play.info()


@SCENARIOS.add
def no_wait_behind_others(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer()
    waiting = play.ask_pull({"batch": 2, "expires": 5 * SECOND})
    play.waiting(1)
    play.pull({"batch": 1, "no_wait": True})
    play.publish("s.a", "1")
    play.take(waiting, 1)
    play.pull({"batch": 1, "no_wait": True})
    play.publish("s.a", "2")
    play.take(waiting, 1)


@SCENARIOS.add
def too_many_waiting(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer(max_waiting=2)
    sids = [play.ask_pull({"batch": 1, "expires": 5 * SECOND}) for _ in range(3)]
    play.take(sids[2])
    play.waiting(2)
    play.info()
    play.publish("s.a", "1")
    play.take(sids[0], 1)


@SCENARIOS.add
def heartbeats_of_a_request(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(1)
    play.consumer()
    sid = play.ask_pull({"batch": 5, "expires": 450 * MS, "idle_heartbeat": 200 * MS})
    play.take(sid)


@SCENARIOS.add
def consumer_that_goes(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer()
    sid = play.ask_pull({"batch": 5, "expires": 5 * SECOND})
    play.waiting(1)
    play.api("CONSUMER.DELETE.S.C")
    play.take(sid)


@SCENARIOS.add
def stream_that_goes(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer()
    sid = play.ask_pull({"batch": 5, "expires": 5 * SECOND})
    play.waiting(1)
    play.api("STREAM.DELETE.S")
    play.take(sid)


@SCENARIOS.add
def interest_that_goes(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer()
    gone = play.ask_pull({"batch": 1, "expires": 5 * SECOND})
    play.waiting(1)
    play.wire.unsubscribe(gone)
    kept = play.ask_pull({"batch": 1, "expires": 5 * SECOND})
    play.publish("s.a", "1")
    play.take(kept, 1)
    play.info()


@SCENARIOS.add
def requests_in_turn(play: Play) -> None:
    """Several waiting requests for more than one are served one after the other."""
    play.stream("S", ["s.>"])
    play.consumer()
    sids = [play.ask_pull({"batch": 3, "expires": 5 * SECOND}) for _ in range(3)]
    play.waiting(3)
    play.info()
    for number in range(9):
        play.publish("s.a", str(number))
    for sid in sids:
        play.take(sid, 3)
    play.info()


@SCENARIOS.add
def deep_queue(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer(ack_policy="none")
    play.fill(300)
    play.pull({"batch": 1000, "no_wait": True})
    play.info()


ACKS: Final[dict[str, Any]] = {
    "empty": b"",
    "+ACK": b"+ACK",
    "+ACK and more": b"+ACK more",
    "lower case": b"+ack",
    "-NAK": b"-NAK",
    "-NAK with a delay": b'-NAK {"delay": 50000000}',
    "-NAK with a wrong delay": b'-NAK {"delay": "x"}',
    "-NAK with text": b"-NAK please",
    "+WPI": b"+WPI",
    "+WPI and more": b"+WPI x",
    "+TERM": b"+TERM",
    "+TERM with a reason": b"+TERM it is bad",
    "+OK": b"+OK",
    "something": b"something",
    "JSON": b"{}",
}

POLICIES: Final[dict[str, dict[str, Any]]] = {
    "explicit": {},
    "all": {"ack_policy": "all"},
    "none": {"ack_policy": "none"},
}


def _acked(config: dict[str, Any], kind: bytes) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"])
        play.fill(5)
        play.consumer(**config)
        messages = play.pull({"batch": 4}, 4)
        play.say(play.wire.request(messages[2].reply, kind).status)
        play.info()
        play.wire.publish(messages[2].reply, kind)
        play.ack(messages[1])
        play.info()
        play.pull({"batch": 9, "expires": 120 * MS})
        play.info()

    return act


for _kind, _config in POLICIES.items():
    for _name, _request in ACKS.items():
        SCENARIOS.row(f"{_name} to a consumer that wants {_kind}", _acked(_config, _request))


@SCENARIOS.add
def next_with_ack(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(8)
    play.consumer()
    [message] = play.pull({"batch": 1}, 1)
    for kind, count in ((b"+NXT", 1), (b"+NXT 2", 2), (b'+NXT {"batch": 2}', 2), (b'+NXT {"batch":1}', 1)):
        sid, subject = play.inbox()
        play.wire.publish(message.reply, kind, reply=subject)
        *_, message = play.take(sid, count)
        play.info()
    sid, subject = play.inbox()
    play.wire.publish(message.reply, b'+NXT {"batch": 5, "no_wait": true}', reply=subject)
    play.take(sid)
    play.info()


@SCENARIOS.add
def acks_that_mean_nothing(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(3)
    play.consumer()
    messages = play.pull({"batch": 2}, 2)
    for reply in (
        "$JS.ACK", "$JS.ACK.S", "$JS.ACK.S.C.1.1.1.1", "$JS.ACK.S.C.1.99.99.1.0", "$JS.ACK.T.C.1.1.1.1.0",
        "$JS.ACK.S.D.1.1.1.1.0", "$JS.ACK.S.C.x.y.z.1.0", "$JS.ACK.S.C.1.0.0.0.0", "$JS.ACK.S.C.1.3.3.1.0",
        "$JS.ACK.S.C.1.-1.-1.1.0", "$JS.ACK.S.C.1.1.1.1.0.x.y",
    ):  # fmt: skip
        play.wire.publish(reply, b"+ACK")
    play.ack(messages[1])
    play.info()
    play.ack(messages[0])
    play.ack(messages[0])
    play.info()


@SCENARIOS.add
def ack_floor_moves_over_gaps(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(4, "s.a")
    play.fill(4, "s.b")
    play.fill(2, "s.a")
    play.consumer(filter_subject="s.a")
    messages = play.pull({"batch": 6}, 6)
    for place in (1, 0, 5, 3, 2, 4):
        play.ack(messages[place])
        play.info()


@SCENARIOS.add
def ack_all(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(8)
    play.consumer(ack_policy="all")
    messages = play.pull({"batch": 6}, 6)
    play.ack(messages[2])
    play.info()
    play.ack(messages[0])
    play.info()
    play.ack(messages[5])
    play.info()


@SCENARIOS.add
def redelivery_when_not_acked(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(3)
    play.consumer(ack_wait=150 * MS)
    play.pull({"batch": 2}, 2)
    again = play.pull({"batch": 3}, 3)
    play.info()
    for message in again:
        play.ack(message)
    play.info()


@SCENARIOS.add
def max_deliver(play: Play) -> None:
    play.stream("S", ["s.>"])
    events = play.listen("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>")
    play.fill(2)
    play.consumer(ack_wait=100 * MS, max_deliver=2)
    play.pull({"batch": 2}, 2)
    play.pull({"batch": 2}, 2)
    play.pull({"batch": 2, "expires": 300 * MS})
    play.events(events, 2)
    play.info()
    play.publish("s.a", "after")
    play.pull({"batch": 2, "expires": SOON})


@SCENARIOS.add
def max_deliver_one_with_nak(play: Play) -> None:
    play.stream("S", ["s.>"])
    events = play.listen("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>")
    play.fill(1)
    play.consumer(max_deliver=1)
    [message] = play.pull({"batch": 1}, 1)
    play.ack(message, b"-NAK")
    play.pull({"batch": 1, "expires": SOON})
    play.events(events, 1)
    play.info()


@SCENARIOS.add
def backoff(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(1)
    play.consumer(backoff=[60 * MS, 120 * MS], max_deliver=4)
    play.info()
    for _ in range(4):
        play.pull({"batch": 1}, 1)
    play.info()


@SCENARIOS.add
def nak_first(play: Play) -> None:
    """What comes again is before what is new."""
    play.stream("S", ["s.>"])
    play.fill(6)
    play.consumer()
    messages = play.pull({"batch": 4}, 4)
    play.ack(messages[1], b"-NAK")
    play.ack(messages[3], b"-NAK")
    play.info()
    play.pull({"batch": 3}, 3)
    play.info()


@SCENARIOS.add
def nak_while_waiting(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(1)
    play.consumer()
    [message] = play.pull({"batch": 1}, 1)
    sid = play.ask_pull({"batch": 1, "expires": 5 * SECOND})
    play.waiting(1)
    play.ack(message, b"-NAK")
    [message] = play.take(sid, 1)
    sid = play.ask_pull({"batch": 1, "expires": 5 * SECOND})
    play.ack(message, b'-NAK {"delay": 60000000}')
    play.take(sid, 1)


@SCENARIOS.add
def in_progress_keeps_it_away(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(1)
    play.consumer(ack_wait=400 * MS)
    [message] = play.pull({"batch": 1}, 1)
    play.pull({"batch": 1, "expires": 250 * MS})
    play.ack(message, b"+WPI")
    play.pull({"batch": 1, "expires": 250 * MS})  # 500 ms after the delivery
    play.pull({"batch": 1}, 1)


@SCENARIOS.add
def unacknowledged_are_limited(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(6)
    play.consumer(max_ack_pending=2)
    messages = play.pull({"batch": 5, "expires": SOON})
    play.info()
    sid = play.ask_pull({"batch": 5, "expires": 5 * SECOND})
    play.waiting(1)
    play.info()
    play.ack(messages[0])
    play.take(sid, 1)
    play.ack(messages[1], b"+TERM")
    play.take(sid, 1)
    play.info()


@SCENARIOS.add
def deleted_while_pending(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(4)
    play.consumer(ack_wait=150 * MS)
    play.pull({"batch": 3}, 3)
    play.api("STREAM.MSG.DELETE.S", {"seq": 2})
    play.info()
    play.pull({"batch": 3}, 3)
    play.info()


@SCENARIOS.add
def purged_while_pending(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(4)
    play.consumer()
    messages = play.pull({"batch": 3}, 3)
    play.api("STREAM.PURGE.S", {"seq": 3})
    play.info()
    play.ack(messages[0])
    play.info()
    play.api("STREAM.PURGE.S")
    play.info()
    play.publish("s.a", "new")
    play.info()
    play.pull({"batch": 2, "no_wait": True})


@SCENARIOS.add
def sampled_acks(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(2)
    play.consumer(sample_freq="100")
    sid = play.listen("$JS.EVENT.METRIC.>")
    for message in play.pull({"batch": 2}, 2):
        play.ack(message)
    for message in play.wire.take(sid, 2):
        held = message.json()
        play.say(message.subject, {**held, "ack_time": held["ack_time"] > 0})


@SCENARIOS.add
def advisories_of_acks(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(3)
    play.consumer()
    sid = play.listen("$JS.EVENT.ADVISORY.CONSUMER.>")
    messages = play.pull({"batch": 3}, 3)
    play.ack(messages[0], b"-NAK")
    play.events(sid, 1)
    play.ack(messages[1], b"+TERM because of this")
    play.events(sid, 1)
    play.ack(messages[2], b"+TERM")
    play.events(sid, 1)


@SCENARIOS.add
def overflow_group(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(5)
    sids = []
    for number, request in enumerate((
        {"group": "A", "min_pending": 5}, {"group": "A", "min_pending": 50}, {"group": "A",
        "min_ack_pending": 1},
        {"group": "A", "min_ack_pending": 99}, {"group": "A"}, {"group": "B"}, {},
        {"group": "A", "min_pending": 50, "min_ack_pending": 1}, {"group": "A", "id": "x"},
        {"group": "A", "priority": 2},
    )):  # fmt: skip
        play.consumer(f"C{number}", priority_groups=["A"], priority_policy="overflow")
        play.pull({"batch": 1, "group": "A"}, 1, consumer=f"C{number}")
        sids.append(play.ask_pull({"batch": 1, "expires": SOON, **request}, consumer=f"C{number}"))
    play.settled(*sids)
    for number in range(len(sids)):
        play.info(f"C{number}")


@SCENARIOS.add
def pinned_group(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(3)
    events = play.listen("$JS.EVENT.ADVISORY.CONSUMER.PINNED.>")
    play.consumer(priority_groups=["A"], priority_policy="pinned_client", priority_timeout=5 * SECOND)
    [message] = play.pull({"batch": 1, "group": "A", "expires": SECOND}, 1)
    pin = message.header("Nats-Pin-Id")
    assert pin
    play.mask(pin, "<pin>")
    play.events(events, 1)
    play.pull({"batch": 1, "group": "A", "id": pin, "expires": SECOND}, 1)
    play.pull({"batch": 1, "group": "A", "id": "wrong", "expires": SECOND})
    play.pull({"batch": 1, "group": "A", "expires": SOON})
    play.info()
    events = play.listen("$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.>")
    play.api("CONSUMER.UNPIN.S.C", {"group": "A"})
    play.events(events, 1)
    play.pull({"batch": 1, "group": "A", "expires": SECOND}, 1)


@SCENARIOS.add
def prioritized_group(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer(priority_groups=["A"], priority_policy="prioritized")
    low = play.ask_pull({"batch": 2, "group": "A", "priority": 5, "expires": 5 * SECOND})
    high = play.ask_pull({"batch": 2, "group": "A", "priority": 1, "expires": 5 * SECOND})
    play.waiting(2)
    for number in range(4):
        play.publish("s.a", str(number))
    play.take(high, 2)
    play.take(low, 2)
    play.pull({"batch": 2, "group": "A", "priority": 11, "expires": SOON})


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_pull(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
