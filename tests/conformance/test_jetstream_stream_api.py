"""Streams by the API: created, changed, listed, looked at, purged and deleted, as the Go server answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import MS, SECOND, Play, Scenario, Scenarios, compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()

CREATED: Final[dict[str, Any]] = {
    "nothing": None,
    "an empty object": {},
    "only a name": {"name": "S"},
    "another name": {"name": "T"},
    "an unknown field": {"name": "S", "colour": "red"},
    "a wrong type": {"name": "S", "max_msgs": "many"},
    "an array": [],
    "no JSON": b"{",
    "two objects": b'{"name":"S"} {"name":"S"}',
    "null fields": {"name": "S", "subjects": None, "metadata": None, "mirror": None},
    "a number for a text": {"name": 7},
    "a float": {"name": "S", "max_msgs": 1.5},
    "a huge number": b'{"name":"S","max_msgs":99999999999999999999}',
    "keys in other case": {"Name": "S", "SUBJECTS": ["s.a"]},
    "one subject": {"name": "S", "subjects": ["s.a"]},
    "many subjects": {"name": "S", "subjects": ["s.a", "s.b.*", "s.c.>"]},
    "overlapping subjects": {"name": "S", "subjects": ["s.a", "s.*"]},
    "a subject twice": {"name": "S", "subjects": ["s.a", "s.a"]},
    "a bad subject": {"name": "S", "subjects": ["s..a"]},
    "an empty subject": {"name": "S", "subjects": [""]},
    "a subject with a space": {"name": "S", "subjects": ["s a"]},
    "everything": {"name": "S", "subjects": [">"]},
    "everything without acks": {"name": "S", "subjects": [">"], "no_ack": True},
    "the API's subjects": {"name": "S", "subjects": ["$JS.API.>"]},
    "all of JetStream's subjects": {"name": "S", "subjects": ["$JS.>"]},
    "system subjects": {"name": "S", "subjects": ["$SYS.>"]},
    "event subjects": {"name": "S", "subjects": ["$JS.EVENT.>"]},
    "a wildcard over dollars": {"name": "S", "subjects": ["*.>"]},
    "a description": {"name": "S", "description": "what <is> & held"},
    "a long description": {"name": "S", "description": "d" * 4097},
    "metadata": {"name": "S", "metadata": {"a": "1", "_nats.ver": "0"}},
    "large metadata": {"name": "S", "metadata": {"a": "x" * (128 * 1024 + 1)}},
    "memory": {"name": "S", "storage": "memory"},
    "unknown storage": {"name": "S", "storage": "tape"},
    "unknown retention": {"name": "S", "retention": "forever"},
    "interest": {"name": "S", "retention": "interest"},
    "workqueue": {"name": "S", "retention": "workqueue"},
    "unknown discard": {"name": "S", "discard": "middle"},
    "discard new per subject": {
        "name": "S", "discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 1,
    },
    "discard new per subject without limit": {"name": "S", "discard": "new", "discard_new_per_subject": True},
    "discard new per subject with old": {"name": "S", "discard_new_per_subject": True},
    "limits": {
        "name": "S", "max_msgs": 5, "max_bytes": 1024, "max_age": SECOND, "max_msg_size": 100,
        "max_msgs_per_subject": 2, "max_consumers": 3,
    },
    "limits of zero": {"name": "S", "max_msgs": 0, "max_bytes": 0, "max_consumers": 0, "max_msg_size": 0},
    "negative limits": {"name": "S", "max_msgs": -5, "max_bytes": -7, "max_msg_size": -3,
        "max_consumers": -2},
    "negative age": {"name": "S", "max_age": -1},
    "short age": {"name": "S", "max_age": 99 * MS},
    "shortest age": {"name": "S", "max_age": 100 * MS},
    "huge message size": {"name": "S", "max_msg_size": 2**31},
    "duplicates longer than age": {"name": "S", "max_age": SECOND, "duplicate_window": 2 * SECOND},
    "duplicates negative": {"name": "S", "duplicate_window": -1},
    "duplicates short": {"name": "S", "duplicate_window": 50 * MS},
    "duplicates of its own": {"name": "S", "duplicate_window": 5 * SECOND},
    "one replica": {"name": "S", "num_replicas": 1},
    "three replicas": {"name": "S", "num_replicas": 3},
    "six replicas": {"name": "S", "num_replicas": 6},
    "negative replicas": {"name": "S", "num_replicas": -1},
    "placement": {"name": "S", "placement": {"cluster": "c", "tags": ["t"]}},
    "compression": {"name": "S", "compression": "s2"},
    "unknown compression": {"name": "S", "compression": "zip"},
    "first sequence": {"name": "S", "first_seq": 100},
    "sealed": {"name": "S", "sealed": True},
    "denied": {"name": "S", "deny_delete": True, "deny_purge": True},
    "denied with rollup": {"name": "S", "deny_purge": True, "allow_rollup_hdrs": True},
    "rollup and direct": {"name": "S", "allow_rollup_hdrs": True, "allow_direct": True},
    "mirror direct alone": {"name": "S", "mirror_direct": True},
    "consumer limits": {
        "name": "S", "consumer_limits": {"inactive_threshold": SECOND, "max_ack_pending": 7},
    },
    "negative consumer limits": {"name": "S", "consumer_limits": {"max_ack_pending": -7}},
    "message ttl": {"name": "S", "allow_msg_ttl": True},
    "markers": {"name": "S", "allow_msg_ttl": True, "subject_delete_marker_ttl": SECOND},
    "markers alone": {"name": "S", "subject_delete_marker_ttl": SECOND},
    "markers too short": {"name": "S", "allow_msg_ttl": True, "subject_delete_marker_ttl": 500 * MS},
    "markers negative": {"name": "S", "allow_msg_ttl": True, "subject_delete_marker_ttl": -1},
    "counter": {"name": "S", "allow_msg_counter": True},
    "counter with discard new": {"name": "S", "allow_msg_counter": True, "discard": "new"},
    "counter with ttl": {"name": "S", "allow_msg_counter": True, "allow_msg_ttl": True},
    "counter on interest": {"name": "S", "allow_msg_counter": True, "retention": "interest"},
    "atomic": {"name": "S", "allow_atomic": True},
    "batched": {"name": "S", "allow_batched": True},
    "schedules": {"name": "S", "allow_msg_schedules": True},
    "async": {"name": "S", "persist_mode": "async"},
    "async in memory": {"name": "S", "persist_mode": "async", "storage": "memory"},
    "async and atomic": {"name": "S", "persist_mode": "async", "allow_atomic": True},
    "unknown persist mode": {"name": "S", "persist_mode": "never"},
    "republish": {"name": "S", "subjects": ["s.>"], "republish": {"src": "s.>", "dest": "t.>"}},
    "republish in a circle": {"name": "S", "subjects": ["s.>"], "republish": {"src": "s.>", "dest": "s.b.>"}},
    "republish of nothing": {"name": "S", "subjects": ["s.>"], "republish": {"dest": "t.>"}},
    "republish to nothing": {"name": "S", "subjects": ["s.>"], "republish": {"src": "s.>"}},
    "republish with a bad transform": {
        "name": "S", "subjects": ["s.*"], "republish": {"src": "s.*", "dest": "t.{{wildcard(2)}}"},
    },
    "transform": {
        "name": "S", "subjects": ["s.*"], "subject_transform": {"src": "s.*", "dest": "t.{{wildcard(1)}}"},
    },
    "bad transform": {"name": "S", "subjects": ["s.*"], "subject_transform": {"src": "s.*", "dest": "t.$2"}},
    "bad transform source": {"name": "S", "subjects": ["s.*"], "subject_transform": {"src": "s..",
        "dest": "t"}},
    "mirror of nothing": {"name": "S", "mirror": {"name": ""}},
    "mirror of a bad name": {"name": "S", "mirror": {"name": "a.b"}},
    "mirror with subjects": {"name": "S", "subjects": ["s.a"], "mirror": {"name": "M"}},
    "mirror with sources": {"name": "S", "mirror": {"name": "M"}, "sources": [{"name": "N"}]},
    "mirror with first sequence": {"name": "S", "mirror": {"name": "M"}, "first_seq": 7},
    "mirror of both starts": {
        "name": "S", "mirror": {"name": "M", "opt_start_seq": 3, "opt_start_time": "2026-01-01T00:00:00Z"},
    },
    "mirror with filter and transforms": {
        "name": "S",
        "mirror": {"name": "M", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]},
    },
    "mirror with counters": {"name": "S", "mirror": {"name": "M"}, "allow_msg_counter": True},
    "mirror with atomic": {"name": "S", "mirror": {"name": "M"}, "allow_atomic": True},
    "mirror with schedules": {"name": "S", "mirror": {"name": "M"}, "allow_msg_schedules": True},
    "mirror with batched": {"name": "S", "mirror": {"name": "M"}, "allow_batched": True},
    "mirror of itself": {"name": "S", "mirror": {"name": "S"}},
    "mirror from elsewhere": {
        "name": "S", "mirror": {"name": "M", "external": {"api": "$JS.d.API", "deliver": "x.*"}},
    },
    "sources twice": {"name": "S", "sources": [{"name": "M"}, {"name": "M"}]},
    "source of a bad name": {"name": "S", "sources": [{"name": "a b"}]},
    "source of itself": {"name": "S", "subjects": ["s.a"], "sources": [{"name": "S"}]},
    "source with filter and transforms": {
        "name": "S",
        "sources": [{"name": "M", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]}],
    },
    "source with a bad transform": {
        "name": "S", "sources": [{"name": "M", "subject_transforms": [{"src": "a.*", "dest": "b.$2"}]}],
    },
    "source with overlapping filters": {
        "name": "S",
        "sources": [
            {"name": "M", "subject_transforms": [{"src": "a.*", "dest": ""}, {"src": "a.>", "dest": ""}]},
        ],
    },
    "pedantic": {"name": "S", "pedantic": True},
    "pedantic with defaults to fill": {"name": "S", "pedantic": True, "max_age": SECOND,
        "duplicate_window": 0},
    "pedantic with limits of zero": {"name": "S", "pedantic": True, "max_msgs": 0, "num_replicas": 1},
    "pedantic duplicates longer than age": {
        "name": "S", "pedantic": True, "max_age": SECOND, "duplicate_window": 3 * SECOND,
    },
}  # fmt: skip
"""What is sent to STREAM.CREATE.S."""


def _created(config: Any) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        if isinstance(config, dict) and config.get("subjects") in ([">"], ["$JS.EVENT.>"]):
            play.say(play.quiet("STREAM.CREATE.S", config).get("config"))  # it stores what is told of it
            return
        play.api("STREAM.CREATE.S", config)
        play.api("STREAM.CREATE.S", config)  # again: the same is no change
        play.api("STREAM.INFO.S")

    return act


for _name, _config in CREATED.items():
    SCENARIOS.row(f"created with {_name}", _created(_config))

UPDATED: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    "the same": ({}, {}),
    "no JSON": ({}, b"["),
    "another name": ({}, {"name": "T"}),
    "subjects": ({}, {"subjects": ["s.a", "t.>"]}),
    "no subjects": ({}, {"subjects": []}),
    "limits": ({}, {"max_msgs": 2, "max_bytes": 10_000, "max_msg_size": 9, "max_age": 3600 * SECOND}),
    "messages per subject": ({}, {"max_msgs_per_subject": 1}),
    "storage": ({}, {"storage": "memory"}),
    "retention to interest": ({}, {"retention": "interest"}),
    "retention to workqueue": ({}, {"retention": "workqueue"}),
    "retention from interest": ({"retention": "interest"}, {"retention": "limits"}),
    "retention from workqueue": ({"retention": "workqueue"}, {"retention": "limits"}),
    "max consumers": ({}, {"max_consumers": 2}),
    "discard": ({}, {"discard": "new"}),
    "first sequence": ({}, {"first_seq": 5}),
    "replicas": ({}, {"num_replicas": 3}),
    "duplicates": ({}, {"duplicate_window": SECOND}),
    "duplicates longer than age": ({"max_age": SECOND}, {"max_age": SECOND, "duplicate_window": 9 * SECOND}),
    "sealed": ({}, {"sealed": True}),
    "unsealed": ({}, {"sealed": False}),
    "deny delete": ({}, {"deny_delete": True}),
    "no more deny delete": ({"deny_delete": True}, {}),
    "no more deny purge": ({"deny_purge": True}, {}),
    "rollup": ({}, {"allow_rollup_hdrs": True}),
    "rollup and deny purge": ({"deny_purge": True}, {"deny_purge": True, "allow_rollup_hdrs": True}),
    "direct": ({}, {"allow_direct": True}),
    "compression": ({}, {"compression": "s2"}),
    "description and metadata": ({}, {"description": "new", "metadata": {"k": "v"}}),
    "message ttl on": ({}, {"allow_msg_ttl": True}),
    "message ttl off": ({"allow_msg_ttl": True}, {}),
    "markers": ({"allow_msg_ttl": True}, {"allow_msg_ttl": True, "subject_delete_marker_ttl": SECOND}),
    "counter": ({}, {"allow_msg_counter": True}),
    "counter off": ({"allow_msg_counter": True}, {}),
    "atomic": ({}, {"allow_atomic": True}),
    "batched": ({}, {"allow_batched": True}),
    "schedules": ({}, {"allow_msg_schedules": True}),
    "schedules off": ({"allow_msg_schedules": True}, {}),
    "persist mode": ({}, {"persist_mode": "async"}),
    "no ack": ({}, {"no_ack": True}),
    "mirror": ({}, {"mirror": {"name": "M"}}),
    "sources": ({}, {"sources": [{"name": "M"}]}),
    "republish": ({}, {"republish": {"src": "s.>", "dest": "t.>"}}),
    "transform": ({}, {"subject_transform": {"src": "s.*", "dest": "s.x.$1"}}),
    "consumer limits": ({}, {"consumer_limits": {"max_ack_pending": 5, "inactive_threshold": SECOND}}),
    "an unknown field": ({}, {"colour": "red"}),
    "placement": ({}, {"placement": {"cluster": "c"}}),
    "pedantic": ({}, {"pedantic": True, "max_msgs": 9}),
}
"""Updates of a stream with some messages: how it was made, and what is sent to STREAM.UPDATE.S."""


def _updated(before: dict[str, Any], after: Any) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"], **before)
        for number in range(4):
            play.quiet("INFO")
            play.publish(f"s.{number % 2}", "1" * number)
        config = after if isinstance(after, bytes) else {"name": "S", "subjects": ["s.>"], **after}
        play.api("STREAM.UPDATE.S", config)
        play.api("STREAM.INFO.S")

    return act


for _name, (_before, _after) in UPDATED.items():
    SCENARIOS.row(f"updated {_name}", _updated(_before, _after))


@SCENARIOS.add
def updates_of_what_is_not_there(play: Play) -> None:
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"]})
    play.api("STREAM.INFO.S")
    play.api("STREAM.DELETE.S")
    play.api("STREAM.PURGE.S")
    play.api("STREAM.MSG.GET.S", {"seq": 1})
    play.api("STREAM.MSG.DELETE.S", {"seq": 1})
    play.api("STREAM.SNAPSHOT.S", {"deliver_subject": "x"})
    play.api("CONSUMER.NAMES.S")
    play.api("CONSUMER.LIST.S")
    play.api("CONSUMER.INFO.S.C")
    play.api("CONSUMER.DELETE.S.C")
    play.api("CONSUMER.PAUSE.S.C", {"pause_until": "2030-01-01T00:00:00Z"})
    play.api("CONSUMER.UNPIN.S.C", {"group": "g"})
    play.unanswered("$JS.API.CONSUMER.RESET.S.C")
    play.unanswered("$JS.API.CONSUMER.RESET.S.C", {"seq": 1})
    play.api("STREAM.LEADER.STEPDOWN.S")
    play.api("CONSUMER.LEADER.STEPDOWN.S.C")
    play.unanswered("$JS.API.META.LEADER.STEPDOWN")
    play.api("STREAM.PEER.REMOVE.S", {"peer": "x"})


@SCENARIOS.add
def overlaps_with_other_streams(play: Play) -> None:
    play.stream("S", ["s.a", "s.b.*"])
    for subjects in (["s.>"], ["s.a"], ["*.a"], ["s.b.c.d"], ["t.*", "s.*.x"], ["u"]):
        play.api("STREAM.CREATE.T", {"name": "T", "subjects": subjects})
    play.api("STREAM.UPDATE.T", {"name": "T", "subjects": ["u", "s.a"]})
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["u"]})


@SCENARIOS.add
def names_and_lists(play: Play) -> None:
    play.api("STREAM.NAMES")
    play.api("STREAM.LIST")
    for name in ("C", "A", "B"):
        play.stream(name, [f"{name.lower()}.*", f"x.{name}"])
    for request in (
        None, {}, {"subject": "a.*"}, {"subject": "x.>"}, {"subject": "a.1"}, {"subject": "q"}, {"offset": 1},
        {"offset": 7}, {"offset": -1}, b"[", {"subject": "a..b"}, {"colour": 1}, {"subject": ">"},
    ):  # fmt: skip
        play.api("STREAM.NAMES", request)
        play.api("STREAM.LIST", request)
    play.api("INFO", {"a": 1})
    answer = play.quiet("INFO")
    play.say({name: held for name, held in answer.items() if name not in ("api", "storage", "memory")})


@SCENARIOS.add
def details_in_info(play: Play) -> None:
    play.stream("S", ["s.>"])
    for number in range(12):
        play.publish(f"s.{number % 5}.{number % 2}", str(number))
    for sequence in (3, 4, 8):
        play.api("STREAM.MSG.DELETE.S", {"seq": sequence})
    for request in (
        None, {}, {"deleted_details": True}, {"subjects_filter": ">"}, {"subjects_filter": "s.1.*"},
        {"subjects_filter": "s.9"}, {"subjects_filter": ">", "offset": 3}, {"subjects_filter": ">",
        "offset": 99},
        {"subjects_filter": "s..", "deleted_details": True}, b"{", {"colour": 1}, {"offset": 2},
    ):  # fmt: skip
        play.api("STREAM.INFO.S", request)


@SCENARIOS.add
def deletions_of_messages(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(6)
    for request in (
        {"seq": 2}, {"seq": 2}, {"seq": 0}, {"seq": 99}, {"seq": -1}, {"seq": 3, "no_erase": True}, None, {},
        {"seq": 1}, {"seq": 6}, {"seq": 4, "x": 1},
    ):  # fmt: skip
        play.api("STREAM.MSG.DELETE.S", request)
        play.state(deleted_details=True)
    play.publish("s.a", "after")
    play.read()


@SCENARIOS.add
def denials(play: Play) -> None:
    play.stream("S", ["s.>"], deny_delete=True, deny_purge=True)
    play.fill(2)
    play.api("STREAM.MSG.DELETE.S", {"seq": 1})
    play.api("STREAM.PURGE.S")
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "deny_delete": True, "deny_purge": True,
                                 "sealed": True})  # fmt: skip
    play.publish("s.a", "late")
    play.api("STREAM.MSG.DELETE.S", {"seq": 1})
    play.api("STREAM.DELETE.S", b"x")
    play.api("STREAM.DELETE.S", {})
    play.api("STREAM.INFO.S")


PURGES: Final[dict[str, Any]] = {
    "nothing": None,
    "an empty object": {},
    "no JSON": b"{",
    "an unknown field": {"what": 1},
    "filter": {"filter": "s.1"},
    "wildcard": {"filter": "s.*"},
    "filter of nothing": {"filter": "s.9"},
    "another's filter": {"filter": "t.>"},
    "bad filter": {"filter": "s..1"},
    "sequence": {"seq": 5},
    "first sequence": {"seq": 1},
    "last sequence": {"seq": 10},
    "beyond": {"seq": 99},
    "keep": {"keep": 3},
    "keep more": {"keep": 99},
    "keep one": {"keep": 1},
    "sequence and keep": {"seq": 3, "keep": 1},
    "filter and sequence": {"filter": "s.1", "seq": 6},
    "filter and keep": {"filter": "s.1", "keep": 1},
    "wildcard and keep": {"filter": "s.>", "keep": 2},
    "wildcard and sequence": {"filter": "s.*", "seq": 4},
    "negative keep": {"keep": -1},
}


def _purged(request: Any) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"])
        play.fill(0)
        for number in range(1, 11):
            play.publish(f"s.{number % 3}", str(number))
        play.api("STREAM.MSG.DELETE.S", {"seq": 7})
        play.consumer()
        play.consumer("F", filter_subject="s.1")
        play.api("STREAM.PURGE.S", request)
        play.state(deleted_details=True, subjects_filter=">")
        play.info()
        play.info("F")
        play.publish("s.1", "after")
        play.read()
        play.info("F")

    return act


for _name, _config in PURGES.items():
    SCENARIOS.row(f"purged with {_name}", _purged(_config))


@SCENARIOS.add
def bytes_are_counted(play: Play) -> None:
    for name, storage in (("F", "file"), ("M", "memory")):
        play.stream(name, [f"{name}.>"], storage=storage)
        play.publish(f"{name}.a", "")
        play.state(name)
        play.publish(f"{name}.long.subject", "payload")
        play.state(name)
        play.publish(f"{name}.a", "payload", {"A": "b"})
        play.state(name)
        play.api(f"STREAM.MSG.DELETE.{name}", {"seq": 2})
        play.state(name)


@SCENARIOS.add
def names_that_are_not_valid(play: Play) -> None:
    for name in ("a b", "a/b", "a\\b", "a*", ">", "x" * 255, "x" * 256, "a.b"):
        if " " not in name:
            reply = play.wire.ask(f"$JS.API.STREAM.CREATE.{name}", {"name": name})
            play.quiet("INFO")
            play.say(name[:10], *[message.payload.decode()[:200] for message in play.wire.answers(reply)][:0])
        answer = play.quiet("STREAM.CREATE.S", {"name": name})
        play.say(name[:10], answer)


@SCENARIOS.add
def what_nobody_answers(play: Play) -> None:
    play.stream("S", ["s.>"])
    for verb in ("NOTHING", "STREAM", "STREAM.CREATE", "STREAM.CREATE.a.b", "STREAM.INFO.a.b",
        "CONSUMER.INFO.S",
                 "CONSUMER.CREATE", "STREAM.NAMES.x", "INFO.x", "info"):  # fmt: skip
        play.unanswered(f"$JS.API.{verb}")


@SCENARIOS.add
def required_api_level(play: Play) -> None:
    play.stream("S", ["s.>"])
    for level in ("0", "5", "6", "99", "x", "-1", ""):
        for verb in ("INFO", "STREAM.INFO.S", "STREAM.NAMES"):
            answer = play.quiet(verb, None, {"Nats-Required-Api-Level": level})
            play.say(level, verb, answer.get("error") if isinstance(answer, dict) else answer)
    request = {"stream_name": "S", "config": {"name": "E", "ack_policy": "none"}}
    play.api("CONSUMER.CREATE.S.E", request, {"Nats-Required-Api-Level": "6"})


@SCENARIOS.add
def subjects_of_a_deleted_stream_are_free(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(3)
    play.api("STREAM.DELETE.S")
    play.api("STREAM.CREATE.T", {"name": "T", "subjects": ["s.>"]})
    play.publish("s.a", "x")
    play.api("STREAM.CREATE.S", {"name": "S"})
    play.publish("S", "x")
    play.state("S")


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_stream_api(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
