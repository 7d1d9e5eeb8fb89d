"""Consumers by the API: created, changed, paused, reset, listed and deleted, as the Go server answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import MS, SECOND, Play, Scenario, Scenarios, compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()

STREAMS: Final[dict[str, dict[str, Any]]] = {
    "limits": {},
    "workqueue": {"retention": "workqueue"},
    "interest": {"retention": "interest"},
    "with consumer limits": {"consumer_limits": {"inactive_threshold": 60 * SECOND, "max_ack_pending": 50}},
}

CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "explicit": {"ack_policy": "explicit"},
    "all": {"ack_policy": "all"},
    "unknown ack policy": {"ack_policy": "some"},
    "flow control acks": {"ack_policy": "flow_control"},
    "flow control acks, pushed": {
        "ack_policy": "flow_control", "deliver_subject": "d", "flow_control": True, "idle_heartbeat": SECOND,
        "max_ack_pending": 100,
    },
    "unknown field": {"colour": "red"},
    "description": {"description": "d"},
    "long description": {"description": "d" * 4097},
    "metadata": {"metadata": {"a": "b"}},
    "large metadata": {"metadata": {"a": "b" * (128 * 1024 + 1)}},
    "durable": {"durable_name": "C"},
    "durable of another name": {"durable_name": "D"},
    "deliver last": {"deliver_policy": "last"},
    "deliver new": {"deliver_policy": "new"},
    "deliver by sequence": {"deliver_policy": "by_start_sequence", "opt_start_seq": 3},
    "deliver by sequence without": {"deliver_policy": "by_start_sequence"},
    "deliver by time": {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
    "deliver by time without": {"deliver_policy": "by_start_time"},
    "deliver by time that is none": {"deliver_policy": "by_start_time", "opt_start_time": "yesterday"},
    "deliver all with sequence": {"deliver_policy": "all", "opt_start_seq": 3},
    "deliver last with time": {"deliver_policy": "last", "opt_start_time": "2020-01-01T00:00:00Z"},
    "deliver last per subject": {"deliver_policy": "last_per_subject"},
    "deliver last per subject, filtered": {"deliver_policy": "last_per_subject", "filter_subject": "s.*"},
    "deliver unknown": {"deliver_policy": "some"},
    "ack wait": {"ack_policy": "explicit", "ack_wait": SECOND},
    "negative ack wait": {"ack_policy": "explicit", "ack_wait": -1},
    "ack wait without acks": {"ack_wait": SECOND},
    "backoff": {"ack_policy": "explicit", "backoff": [SECOND, 2 * SECOND], "max_deliver": 3},
    "backoff too long": {"ack_policy": "explicit", "backoff": [SECOND, SECOND, SECOND], "max_deliver": 2},
    "backoff without end": {"ack_policy": "explicit", "backoff": [SECOND, 2 * SECOND]},
    "backoff and ack wait": {"ack_policy": "explicit", "backoff": [SECOND], "ack_wait": 5 * SECOND},
    "negative backoff": {"ack_policy": "explicit", "backoff": [-1]},
    "max deliver": {"ack_policy": "explicit", "max_deliver": 4},
    "max deliver zero": {"ack_policy": "explicit", "max_deliver": 0},
    "max deliver negative": {"ack_policy": "explicit", "max_deliver": -7},
    "filter": {"filter_subject": "s.a"},
    "filter of nothing": {"filter_subject": "t.a"},
    "bad filter": {"filter_subject": "s..a"},
    "filters": {"filter_subjects": ["s.a", "s.b"]},
    "one of filters": {"filter_subjects": ["s.a"]},
    "filters overlap": {"filter_subjects": ["s.a", "s.*"]},
    "filters with empty": {"filter_subjects": ["s.a", ""]},
    "filters twice": {"filter_subjects": ["s.a", "s.a"]},
    "filters and filter": {"filter_subjects": ["s.a"], "filter_subject": "s.b"},
    "no filters": {"filter_subjects": []},
    "replay original": {"replay_policy": "original"},
    "replay unknown": {"replay_policy": "backwards"},
    "max ack pending": {"ack_policy": "explicit", "max_ack_pending": 7},
    "max ack pending of none": {"ack_policy": "none", "max_ack_pending": 7},
    "max ack pending unlimited": {"ack_policy": "explicit", "max_ack_pending": -1},
    "max ack pending very negative": {"ack_policy": "explicit", "max_ack_pending": -5},
    "max ack pending of many": {"ack_policy": "explicit", "max_ack_pending": 1000},
    "max waiting": {"max_waiting": 3},
    "max waiting negative": {"max_waiting": -3},
    "push": {"deliver_subject": "d"},
    "push to a wildcard": {"deliver_subject": "d.*"},
    "push to a bad subject": {"deliver_subject": "d..a"},
    "push to itself": {"deliver_subject": "s.a"},
    "push with max waiting": {"deliver_subject": "d", "max_waiting": 3},
    "push group": {"deliver_subject": "d", "deliver_group": "g"},
    "group without push": {"deliver_group": "g"},
    "bad group": {"deliver_subject": "d", "deliver_group": "g h"},
    "heartbeat": {"deliver_subject": "d", "idle_heartbeat": 5 * SECOND},
    "heartbeat too short": {"deliver_subject": "d", "idle_heartbeat": 50 * MS},
    "heartbeat without push": {"idle_heartbeat": SECOND},
    "flow control": {"deliver_subject": "d", "flow_control": True, "idle_heartbeat": SECOND},
    "flow control without heartbeat": {"deliver_subject": "d", "flow_control": True},
    "flow control without push": {"flow_control": True},
    "headers only": {"headers_only": True},
    "rate limit": {"deliver_subject": "d", "rate_limit_bps": 8_000_000},
    "rate limit without push": {"rate_limit_bps": 8_000_000},
    "sampling": {"ack_policy": "explicit", "sample_freq": "30%"},
    "sampling without percent": {"ack_policy": "explicit", "sample_freq": "100"},
    "sampling of nothing": {"ack_policy": "explicit", "sample_freq": "often"},
    "sampling above all": {"ack_policy": "explicit", "sample_freq": "300"},
    "pull limits": {"max_batch": 5, "max_expires": SECOND, "max_bytes": 1000},
    "negative batch": {"max_batch": -5},
    "short expires": {"max_expires": 100},
    "negative max bytes": {"max_bytes": -1},
    "pull limits on push": {"deliver_subject": "d", "max_batch": 5},
    "inactive threshold": {"inactive_threshold": 2 * SECOND},
    "inactive threshold too long": {"inactive_threshold": 100 * SECOND},
    "inactive threshold negative": {"inactive_threshold": -5},
    "replicas": {"num_replicas": 1},
    "three replicas": {"num_replicas": 3},
    "negative replicas": {"num_replicas": -1},
    "memory": {"mem_storage": True},
    "pause": {"pause_until": "2090-01-01T00:00:00Z"},
    "pause that is over": {"pause_until": "2020-01-01T00:00:00Z"},
    "overflow": {"ack_policy": "explicit", "priority_groups": ["A"], "priority_policy": "overflow"},
    "pinned": {"ack_policy": "explicit", "priority_groups": ["A"], "priority_policy": "pinned_client"},
    "pinned with timeout": {
        "ack_policy": "explicit", "priority_groups": ["A"], "priority_policy": "pinned_client",
        "priority_timeout": SECOND,
    },
    "prioritized": {"ack_policy": "explicit", "priority_groups": ["A"], "priority_policy": "prioritized"},
    "two groups": {"priority_groups": ["A", "B"], "priority_policy": "overflow"},
    "policy without groups": {"priority_policy": "overflow"},
    "groups without policy": {"priority_groups": ["A"]},
    "groups of an empty name": {"priority_groups": [""], "priority_policy": "overflow"},
    "groups of a bad name": {"priority_groups": ["a b"], "priority_policy": "overflow"},
    "groups of a long name": {"priority_groups": ["a" * 17], "priority_policy": "overflow"},
    "groups pushed": {"deliver_subject": "d", "priority_groups": ["A"], "priority_policy": "overflow"},
    "timeout without policy": {"priority_timeout": SECOND},
    "unknown policy": {"priority_groups": ["A"], "priority_policy": "best"},
    "direct": {"direct": True},
    "direct and pushed": {"direct": True, "deliver_subject": "d"},
    "push, none of it wrong": {
        "deliver_subject": "d", "deliver_group": "g", "ack_policy": "explicit", "ack_wait": 2 * SECOND,
        "max_deliver": 5, "filter_subject": "s.a", "replay_policy": "instant", "max_ack_pending": 11,
        "idle_heartbeat": SECOND, "flow_control": True, "headers_only": True, "sample_freq": "10%",
    },
    "negative everything": {"max_deliver": -1, "max_ack_pending": -1, "max_waiting": -1, "max_batch": -1},
}  # fmt: skip


def _created(
    stream: dict[str, Any], config: dict[str, Any], *, pedantic: bool = False
) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"], **stream)
        play.fill(3, "s.a")
        play.fill(2, "s.b")
        request = {"stream_name": "S", "config": {"name": "C", **config}, "action": "create"}
        if pedantic:
            request["pedantic"] = True
        play.api("CONSUMER.CREATE.S.C", request)
        play.api("CONSUMER.CREATE.S.C", request)
        play.api("CONSUMER.INFO.S.C")

    return act


for _kind, _stream in STREAMS.items():
    for _name, _config in CONFIGS.items():
        SCENARIOS.row(f"{_name} on {_kind}", _created(_stream, _config))
for _name, _config in CONFIGS.items():
    SCENARIOS.row(f"{_name}, pedantically", _created({}, _config, pedantic=True))

REQUESTS: Final[dict[str, tuple[str, Any]]] = {
    "nothing": ("CONSUMER.CREATE.S.C", None),
    "an empty object": ("CONSUMER.CREATE.S.C", {}),
    "no JSON": ("CONSUMER.CREATE.S.C", b"{"),
    "no config": ("CONSUMER.CREATE.S.C", {"stream_name": "S"}),
    "another stream": ("CONSUMER.CREATE.S.C", {"stream_name": "T", "config": {"name": "C"}}),
    "no stream": ("CONSUMER.CREATE.S.C", {"config": {"name": "C"}}),
    "another name": ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "D"}}),
    "no name": ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {}}),
    "name with a dot": ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "a.b"}}),
    "name with a star": ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "a*"}}),
    "name with a slash": ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"durable_name": "a/b"}}),
    "name too long": ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "a" * 256}}),
    "a filter in the subject": (
        "CONSUMER.CREATE.S.C.s.a", {"stream_name": "S", "config": {"name": "C", "filter_subject": "s.a"}},
    ),
    "another filter in the subject": (
        "CONSUMER.CREATE.S.C.s.b", {"stream_name": "S", "config": {"name": "C", "filter_subject": "s.a"}},
    ),
    "a filter in the subject only": ("CONSUMER.CREATE.S.C.s.b", {"stream_name": "S",
        "config": {"name": "C"}}),
    "filters with a filter in the subject": (
        "CONSUMER.CREATE.S.C.s.a", {"stream_name": "S", "config": {"name": "C", "filter_subjects": ["s.a"]}},
    ),
    "durable": ("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C"}}),
    "durable without a name": ("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {}}),
    "durable of another name": (
        "CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "D"}},
    ),
    "durable and name": (
        "CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "name": "D"}},
    ),
    "durable where an ephemeral should be": (
        "CONSUMER.CREATE.S", {"stream_name": "S", "config": {"durable_name": "C"}},
    ),
    "update of nothing": ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"},
        "action": "update"}),
    "unknown action": ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"},
        "action": "wish"}),
    "unknown field": ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"}, "colour": 1}),
    "a wrong type": ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C",
        "max_deliver": "x"}}),
}  # fmt: skip


def _requested(verb: str, request: Any) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"])
        play.api(verb, request)
        play.api("CONSUMER.NAMES.S")

    return act


for _name, (_verb, _request) in REQUESTS.items():
    SCENARIOS.row(f"requested with {_name}", _requested(_verb, _request))

UPDATES: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "nothing": ({}, {}),
    "description": ({}, {"description": "d"}),
    "ack wait": ({}, {"ack_wait": SECOND}),
    "ack policy": ({}, {"ack_policy": "all"}),
    "deliver policy": ({}, {"deliver_policy": "new"}),
    "start sequence": ({}, {"deliver_policy": "by_start_sequence", "opt_start_seq": 2}),
    "replay": ({}, {"replay_policy": "original"}),
    "max deliver": ({}, {"max_deliver": 5}),
    "backoff": ({}, {"backoff": [SECOND], "max_deliver": 3}),
    "filter": ({}, {"filter_subject": "s.a"}),
    "filters": ({"filter_subject": "s.a"}, {"filter_subjects": ["s.a", "s.b"]}),
    "no filter": ({"filter_subject": "s.a"}, {}),
    "max ack pending": ({}, {"max_ack_pending": 3}),
    "max waiting": ({}, {"max_waiting": 3}),
    "headers only": ({}, {"headers_only": True}),
    "sampling": ({}, {"sample_freq": "5"}),
    "pull to push": ({}, {"deliver_subject": "d"}),
    "push to pull": ({"deliver_subject": "d"}, {}),
    "deliver subject": ({"deliver_subject": "d"}, {"deliver_subject": "e"}),
    "deliver group": ({"deliver_subject": "d"}, {"deliver_subject": "d", "deliver_group": "g"}),
    "heartbeat": ({"deliver_subject": "d"}, {"deliver_subject": "d", "idle_heartbeat": SECOND}),
    "flow control": (
        {"deliver_subject": "d"}, {"deliver_subject": "d", "idle_heartbeat": SECOND, "flow_control": True},
    ),
    "rate limit": ({"deliver_subject": "d"}, {"deliver_subject": "d", "rate_limit_bps": 1000}),
    "inactive threshold": ({}, {"inactive_threshold": SECOND * 60}),
    "replicas": ({}, {"num_replicas": 3}),
    "memory": ({}, {"mem_storage": True}),
    "metadata": ({"metadata": {"a": "b"}}, {"metadata": {"c": "d"}}),
    "pause": ({}, {"pause_until": "2090-01-01T00:00:00Z"}),
    "limits": ({}, {"max_batch": 3, "max_expires": SECOND, "max_bytes": 100}),
    "groups": ({}, {"priority_groups": ["A"], "priority_policy": "overflow"}),
    "policy": (
        {"priority_groups": ["A"], "priority_policy": "overflow"},
        {"priority_groups": ["A"], "priority_policy": "pinned_client"},
    ),
}  # fmt: skip


def _updated(before: dict[str, Any], after: dict[str, Any]) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"])
        play.fill(2, "s.a")
        play.fill(2, "s.b")
        play.consumer(**before)
        if "deliver_subject" not in before:
            play.pull({"batch": 1}, 1)
        config = {"durable_name": "C", "ack_policy": "explicit", **after}
        for action in ("", "create", "update"):
            request = {"stream_name": "S", "config": config, "action": action}
            play.api("CONSUMER.CREATE.S.C", request)
        play.api("CONSUMER.INFO.S.C")

    return act


for _name, (_before, _after) in UPDATES.items():
    SCENARIOS.row(f"updated {_name}", _updated(_before, _after))


@SCENARIOS.add
def names_and_lists(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.api("CONSUMER.NAMES.S")
    play.api("CONSUMER.LIST.S")
    for name in ("C", "A", "B"):
        play.consumer(name)
    for request in (None, {}, {"offset": 1}, {"offset": 9}, {"offset": -1}, b"[", {"colour": 1}):
        play.api("CONSUMER.NAMES.S", request)
        play.api("CONSUMER.LIST.S", request)
    play.api("STREAM.INFO.S")
    play.api("CONSUMER.DELETE.S.A", b"x")
    play.api("CONSUMER.DELETE.S.A")
    play.api("CONSUMER.DELETE.S.A")
    play.api("CONSUMER.INFO.S.A")
    play.api("CONSUMER.INFO.S.B", b"x")
    play.api("CONSUMER.NAMES.S")


@SCENARIOS.add
def ephemerals(play: Play) -> None:
    play.stream("S", ["s.>"])
    for config in ({}, {"ack_policy": "explicit", "deliver_subject": "d"}, {"mem_storage": True}):
        answer = play.quiet("CONSUMER.CREATE.S", {"stream_name": "S", "config": config})
        assert len(answer["name"]) == 8
        play.mask(answer["name"], "<ephemeral>")
        play.say(answer)


@SCENARIOS.add
def ephemeral_goes_when_nobody_listens(play: Play) -> None:
    play.stream("S", ["s.>"])
    sid, subject = play.inbox()
    request = {
        "stream_name": "S",
        "config": {"name": "E", "deliver_subject": subject, "inactive_threshold": 100 * MS},
    }
    play.api("CONSUMER.CREATE.S.E", request)
    events = play.listen("$JS.EVENT.ADVISORY.CONSUMER.>")
    play.wire.unsubscribe(sid)
    play.events(events, 1)
    play.api("CONSUMER.INFO.S.E")


@SCENARIOS.add
def pull_consumer_goes_when_nobody_asks(play: Play) -> None:
    play.stream("S", ["s.>"])
    events = play.listen("$JS.EVENT.ADVISORY.CONSUMER.>")
    play.consumer("D", inactive_threshold=100 * MS)
    play.events(events, 2)
    play.api("CONSUMER.INFO.S.D")


@SCENARIOS.add
def too_many_consumers(play: Play) -> None:
    play.stream("S", ["s.>"], max_consumers=2)
    for name in ("A", "B", "C"):
        play.api(f"CONSUMER.DURABLE.CREATE.S.{name}", {"stream_name": "S", "config": {"durable_name": name}})
    play.api("CONSUMER.DELETE.S.A")
    play.consumer("C")
    play.api("CONSUMER.NAMES.S")


@SCENARIOS.add
def workqueue_consumers_that_overlap(play: Play) -> None:
    play.stream("S", ["s.>"], retention="workqueue")
    for name, config in {
        "A": {"filter_subject": "s.a"}, "B": {"filter_subject": "s.b.*"}, "C": {"filter_subject": "s.*.c"},
        "D": {}, "E": {"filter_subjects": ["s.d", "s.a"]}, "F": {"filter_subjects": ["s.e", "s.f"]},
        "G": {"filter_subject": "s.f"}, "A2": {"filter_subject": "s.a"},
    }.items():  # fmt: skip
        request = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit", **config}}
        play.api(f"CONSUMER.DURABLE.CREATE.S.{name}", request)
    play.api("CONSUMER.NAMES.S")


@SCENARIOS.add
def pause_and_resume(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer()
    for request in (
        {"pause_until": "2090-01-01T00:00:00Z"}, {"pause_until": "2020-01-01T00:00:00Z"}, None, {}, b"{",
        {"pause_until": "soon"}, {"colour": 1}, {"pause_until": "2090-01-01T00:00:00.123456789+02:00"},
    ):  # fmt: skip
        play.api("CONSUMER.PAUSE.S.C", request)
        play.api("CONSUMER.INFO.S.C")


@SCENARIOS.add
def paused_consumer_keeps_still(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(2)
    play.consumer()
    play.api("CONSUMER.PAUSE.S.C", {"pause_until": "2090-01-01T00:00:00Z"})
    play.pull({"batch": 1, "expires": 100 * MS})
    play.pull({"batch": 1, "no_wait": True, "expires": 100 * MS})
    sid = play.ask_pull({"batch": 1})
    play.api("CONSUMER.PAUSE.S.C")
    play.fill(1)  # the Go server only goes on with what is new
    play.say(play.wire.next(sid).payload.decode())


@SCENARIOS.add
def reset(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(6)
    play.consumer()
    messages = play.pull({"batch": 4}, 4)
    play.ack(messages[0])
    for request in (None, {"seq": 3}, {"seq": 0}, {"seq": 99}, b"{", {"colour": 1}):
        play.api("CONSUMER.RESET.S.C", request)
        play.info()
    play.api("CONSUMER.RESET.S.C", {"seq": 2})
    play.pull({"batch": 2}, 2)
    play.info()


@SCENARIOS.add
def reset_where_it_may_not_be(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(4)
    play.consumer("F", filter_subject="s.a", deliver_policy="by_start_sequence", opt_start_seq=3)
    play.consumer("N", ack_policy="none")
    play.consumer("L", deliver_policy="last")
    play.consumer("P", deliver_policy="last_per_subject", filter_subject="s.>")
    for name in "FNLP":
        for request in (None, {"seq": 1}, {"seq": 4}):
            play.api(f"CONSUMER.RESET.S.{name}", request)


@SCENARIOS.add
def unpin(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer()
    play.consumer("P", priority_groups=["A"], priority_policy="pinned_client")
    for name in "CP":
        for request in (None, {}, {"group": "A"}, {"group": "B"}, b"{", {"colour": 1}):
            play.api(f"CONSUMER.UNPIN.S.{name}", request)


@SCENARIOS.add
def created_on_a_sealed_stream(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(2)
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "sealed": True})
    play.consumer()
    play.pull({"batch": 3, "no_wait": True})


STARTS: Final[dict[str, dict[str, Any]]] = {
    "all": {},
    "last": {"deliver_policy": "last"},
    "last of a subject": {"deliver_policy": "last", "filter_subject": "s.1"},
    "new": {"deliver_policy": "new"},
    "sequence": {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
    "sequence that is gone": {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
    "sequence to come": {"deliver_policy": "by_start_sequence", "opt_start_seq": 11},
    "sequence with filter": {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": 4,
        "filter_subject": "s.2",
    },
    "time past": {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
    "time to come": {"deliver_policy": "by_start_time", "opt_start_time": "2090-01-01T00:00:00Z"},
    "last per subject": {"deliver_policy": "last_per_subject", "filter_subject": "s.>"},
    "last per subject of some": {"deliver_policy": "last_per_subject", "filter_subjects": ["s.0", "s.2"]},
    "filters": {"filter_subjects": ["s.0", "s.2"]},
    "headers only": {"headers_only": True},
    "filter of nothing": {"filter_subject": "s.9"},
}


def _started(config: dict[str, Any]) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"])
        for number in range(9):
            play.publish(f"s.{number % 3}", str(number), {"N": str(number)} if number % 2 else None)
        for sequence in (1, 5):
            play.api("STREAM.MSG.DELETE.S", {"seq": sequence})
        play.consumer(**config)
        play.info()
        play.pull({"batch": 20, "no_wait": True})
        play.info()
        play.publish("s.2", "after")
        play.pull({"batch": 20, "no_wait": True})
        play.info()

    return act


for _name, _config in STARTS.items():
    SCENARIOS.row(f"starting with {_name}", _started(_config))


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_consumer_api(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
