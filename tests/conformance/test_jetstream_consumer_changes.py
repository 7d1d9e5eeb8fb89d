"""Changed configurations of consumers in use: messages flow before and after, as on the Go server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import MS, SECOND, Play, Scenario, Scenarios, compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()


def change(play: Play, **config: Any) -> None:
    """Updates consumer C. What is pending is counted on the Go server while it works."""
    config = {"durable_name": "C", "ack_policy": "explicit", **config}
    request = {"stream_name": "S", "config": config, "action": "update"}
    answer = play.quiet("CONSUMER.CREATE.S.C", request)
    play.say("changed to", answer.get("config", answer))


# -- deliver groups --------------------------------------------------------------------------------------

GROUPS: Final = {
    "another": ("g", "h"),
    "one": ("", "h"),
    "none": ("g", ""),
}


def _group_changed(before: str, after: str) -> Callable[[Play], None]:
    """The group that the consumer began with is the one that counts."""

    def act(play: Play) -> None:
        play.stream()
        old = play.wire.subscribe("in.d", before)
        play.wire.sync()
        play.consumer(deliver_subject="in.d", deliver_group=before)
        play.fill(1)
        play.take(old, 1)
        change(play, deliver_subject="in.d", deliver_group=after)
        play.fill(1, first=2)
        play.take(old, 1)
        new = play.wire.subscribe("in.d", after)
        play.wire.unsubscribe(old)
        play.wire.sync()
        play.until(lambda info: not info.get("push_bound"), "CONSUMER.INFO.S.C")
        play.wire.unsubscribe(new)
        again = play.wire.subscribe("in.d", before)
        play.wire.sync()
        play.fill(1, first=3)
        play.take(again, 1)
        play.info()

    return act


def _group_and_subject_changed(before: str, after: str) -> Callable[[Play], None]:
    """At the new subject, too, it is the old group."""

    def act(play: Play) -> None:
        play.stream()
        old = play.wire.subscribe("in.d", before)
        play.wire.sync()
        play.consumer(deliver_subject="in.d", deliver_group=before)
        play.fill(1)
        play.take(old, 1)
        play.wire.unsubscribe(old)
        play.wire.sync()
        play.until(lambda info: not info.get("push_bound"), "CONSUMER.INFO.S.C")
        new = play.wire.subscribe("in.e", after)
        play.wire.sync()
        change(play, deliver_subject="in.e", deliver_group=after)
        play.info()
        play.wire.unsubscribe(new)
        again = play.wire.subscribe("in.e", before)
        play.wire.sync()
        play.take(again, 1)
        play.info()

    return act


for _name, (_before, _after) in GROUPS.items():
    SCENARIOS.row(f"{_name} as deliver group", _group_changed(_before, _after))
    SCENARIOS.row(f"{_name} as deliver group of another subject", _group_and_subject_changed(_before, _after))


# -- everything else -------------------------------------------------------------------------------------

Row = tuple[dict[str, Any], dict[str, Any], int, int]
"""The configuration before and after, and how many of three messages come before it and of six after it."""

EITHER: Final[dict[str, Row]] = {
    "more unacknowledged": ({"max_ack_pending": 1}, {"max_ack_pending": 3}, 1, 2),
    "fewer unacknowledged": ({"max_ack_pending": 5}, {"max_ack_pending": 1}, 3, 0),
    "headers only": ({}, {"headers_only": True}, 3, 3),
    "not headers only": ({"headers_only": True}, {}, 3, 3),
    "a filter": ({}, {"filter_subject": "s.b"}, 3, 1),
    "other filters": ({"filter_subject": "s.a"}, {"filter_subjects": ["s.b", "s.c"]}, 2, 1),
    "description and metadata": ({}, {"description": "d", "metadata": {"a": "b"}}, 3, 3),
    "paused by an update": ({}, {"pause_until": "2090-01-01T00:00:00Z"}, 3, 3),
}
PUSHED: Final[dict[str, Row]] = EITHER | {
    "a rate": ({}, {"rate_limit_bps": 80_000_000}, 3, 3),
}
OVERFLOW: Final = {"priority_groups": ["A"], "priority_policy": "overflow"}
PINNED: Final = {"priority_groups": ["A"], "priority_policy": "pinned_client"}
PULLED: Final[dict[str, Row]] = EITHER | {
    "smaller batches": ({}, {"max_batch": 1}, 3, 3),
    "shorter requests": ({}, {"max_expires": SECOND}, 3, 3),
    "smaller requests": ({}, {"max_bytes": 100}, 3, 3),
    "overflow": ({}, OVERFLOW, 3, 3),
    "pinned": ({}, PINNED, 3, 3),
    "pinned, no longer overflow": (OVERFLOW, PINNED, 3, 3),
    "another group": (OVERFLOW, {**OVERFLOW, "priority_groups": ["B"]}, 3, 3),
}


def _flow(play: Play, sid: int, row: Row, **always: Any) -> None:
    _, after, first, then = row
    for number, subject in enumerate(("s.a", "s.b", "s.a"), 1):
        play.fill(1, subject, first=number)
    sent = play.wire.take(sid, first)
    play.say("before", *(message.payload.decode() for message in sent))
    change(play, **always, **after)
    for number, subject in enumerate(("s.a", "s.b", "s.a"), 4):
        play.fill(1, subject, first=number)
    for message in play.wire.take(sid, then):
        play.say("after", message.subject, message.payload.decode(), message.header("Nats-Msg-Size") or "")
    play.info()


def _push_changed(row: Row) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream()
        sid, subject = play.inbox()
        play.consumer(deliver_subject=subject, **row[0])
        _flow(play, sid, row, deliver_subject=subject)

    return act


def _pull_changed(row: Row) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream()
        play.consumer(**row[0])
        group = {"group": row[0]["priority_groups"][0]} if "priority_groups" in row[0] else {}
        sid = play.ask_pull({"batch": 99, "expires": 60 * SECOND, **group})
        play.waiting(1)
        _flow(play, sid, row)

    return act


for _name, _row in PUSHED.items():
    SCENARIOS.row(f"pushed, then {_name}", _push_changed(_row))
for _name, _row in PULLED.items():
    SCENARIOS.row(f"pulled, then {_name}", _pull_changed(_row))


WAITS: Final[dict[str, dict[str, Any]]] = {
    "a shorter wait": {"ack_wait": 150 * MS, "max_deliver": 2},
    "a backoff": {"backoff": [150 * MS, 60 * SECOND], "max_deliver": 3},
}


def _wait_changed(after: dict[str, Any]) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream()
        sid, subject = play.inbox()
        play.consumer(deliver_subject=subject, ack_wait=3600 * SECOND)
        play.fill(2)
        play.wire.take(sid, 2)
        change(play, deliver_subject=subject, **after)
        play.take(sid, 2)

    return act


for _name, _config in WAITS.items():
    SCENARIOS.row(f"unacknowledged, then {_name}", _wait_changed(_config))


@SCENARIOS.add
def unacknowledged_then_fewer_deliveries(play: Play) -> None:
    play.stream()
    events = play.listen("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>")
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, max_deliver=5)
    play.fill(1)
    [message] = play.take(sid, 1)
    change(play, deliver_subject=subject, max_deliver=1)
    play.ack(message, b"-NAK")
    play.events(events, 1)
    play.info()


@SCENARIOS.add
def sampled_from_now_on(play: Play) -> None:
    play.stream()
    events = play.listen("$JS.EVENT.METRIC.CONSUMER.ACK.>")
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject)
    play.fill(1)
    [message] = play.take(sid, 1)
    change(play, deliver_subject=subject, sample_freq="100%")
    play.ack(message)
    [event] = play.wire.take(events, 1)
    play.say({name: said for name, said in event.json().items() if name != "ack_time"})


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_changes(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
