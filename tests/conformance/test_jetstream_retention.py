"""What streams keep: limits, discards, ages, interest and work queues, as the Go server does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import MS, SECOND, Play, Scenario, Scenarios, compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()

LIMITS: Final[dict[str, dict[str, Any]]] = {
    "messages": {"max_msgs": 4},
    "one message": {"max_msgs": 1},
    "bytes": {"max_bytes": 200},
    "messages per subject": {"max_msgs_per_subject": 2},
    "one per subject": {"max_msgs_per_subject": 1},
    "both": {"max_msgs": 4, "max_msgs_per_subject": 1},
    "messages, new refused": {"max_msgs": 4, "discard": "new"},
    "bytes, new refused": {"max_bytes": 200, "discard": "new"},
    "per subject, new refused": {"max_msgs_per_subject": 1, "discard": "new"},
    "per subject, new refused per subject": {
        "max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True,
    },
    "both, new refused": {"max_msgs": 4, "max_msgs_per_subject": 2, "discard": "new"},
    "both, new refused per subject": {
        "max_msgs": 4, "max_msgs_per_subject": 2, "discard": "new", "discard_new_per_subject": True,
    },
    "a message's size": {"max_msg_size": 5},
}  # fmt: skip


def _limited(config: dict[str, Any]) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.stream("S", ["s.>"], **config)
        play.consumer()
        for number in range(9):
            play.publish(f"s.{number % 3}", "x" * number)
            play.state()
        play.publish("s.0", "x" * 300)
        play.state(subjects_filter=">", deleted_details=True)
        play.read()
        play.info()
        play.pull({"batch": 20, "no_wait": True})

    return act


for _storage in ("file", "memory"):
    for _name, _config in LIMITS.items():
        SCENARIOS.row(f"{_name} in {_storage}", _limited({"storage": _storage, **_config}))


@SCENARIOS.add
def limits_that_become_smaller(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(10)
    for config in ({"max_msgs": 7}, {"max_msgs": 7, "max_bytes": 150}, {"max_msgs_per_subject": 2}):
        play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], **config})
        play.state()


@SCENARIOS.add
def age(play: Play) -> None:
    for storage in ("file", "memory"):
        play.stream(storage, [f"{storage}.>"], max_age=150 * MS, storage=storage)
        play.publish(f"{storage}.a", "x")
        play.publish(f"{storage}.b", "x")
    for storage in ("file", "memory"):
        play.until(lambda info: not info["state"]["messages"], f"STREAM.INFO.{storage}")
        play.state(storage)
        play.publish(f"{storage}.a", "y")


@SCENARIOS.add
def age_that_is_set_later(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(3)
    config = {"name": "S", "subjects": ["s.>"], "max_age": 100 * MS, "duplicate_window": 100 * MS}
    play.api("STREAM.UPDATE.S", config)
    play.until(lambda info: not info["state"]["messages"])
    play.state()


@SCENARIOS.add
def workqueue(play: Play) -> None:
    play.stream("S", ["s.>"], retention="workqueue")
    play.fill(4)
    play.consumer()
    messages = play.pull({"batch": 4}, 4)
    play.state()
    play.ack(messages[1])
    play.ack(messages[2], b"+TERM")
    play.ack(messages[3], b"-NAK")
    play.state(deleted_details=True)
    play.ack(messages[0])
    play.state(deleted_details=True)
    [message] = play.pull({"batch": 1}, 1)
    play.ack(message)
    play.state(deleted_details=True)
    play.info()


@SCENARIOS.add
def workqueue_of_two_subjects(play: Play) -> None:
    play.stream("S", ["s.>"], retention="workqueue")
    play.consumer("A", filter_subject="s.a")
    play.consumer("B", filter_subject="s.b")
    play.fill(2, "s.a")
    play.fill(2, "s.b")
    play.fill(1, "s.c")
    for name in "AB":
        for message in play.pull({"batch": 2}, 2, consumer=name):
            play.ack(message)
    play.state(subjects_filter=">")
    play.api("CONSUMER.DELETE.S.A")
    play.state()


@SCENARIOS.add
def interest_with_nobody(play: Play) -> None:
    play.stream("S", ["s.>"], retention="interest")
    play.publish("s.a", "x")
    play.state()
    play.consumer("A", filter_subject="s.a")
    play.publish("s.a", "x")
    play.publish("s.b", "x")
    play.state(deleted_details=True)


@SCENARIOS.add
def interest_of_two(play: Play) -> None:
    play.stream("S", ["s.>"], retention="interest")
    play.consumer("A")
    play.consumer("B", filter_subject="s.b")
    play.fill(3, "s.a")
    play.fill(3, "s.b")
    for message in play.pull({"batch": 6}, 6, consumer="A"):
        play.ack(message)
    play.state()
    messages = play.pull({"batch": 3}, 3, consumer="B")
    play.ack(messages[0])
    play.state()
    play.api("CONSUMER.DELETE.S.B")
    play.state()


@SCENARIOS.add
def interest_without_acks(play: Play) -> None:
    play.stream("S", ["s.>"], retention="interest")
    sid, subject = play.inbox()
    play.consumer(deliver_subject=subject, ack_policy="none")
    play.wire.publish("s.a", "x")
    play.take(sid, 1)
    play.until(lambda info: not info["state"]["messages"])
    play.state()


@SCENARIOS.add
def interest_of_consumers_that_are_reset(play: Play) -> None:
    play.stream("S", ["s.>"], retention="interest")
    play.consumer("C", filter_subject="s.a")
    play.consumer("D", filter_subject="s.>")
    play.fill(4)
    play.fill(2, "s.b")
    messages = play.pull({"batch": 6, "no_wait": True}, 6, consumer="D")
    for message in messages[:2]:
        play.ack(message)
    play.state(deleted_details=True)
    play.api("CONSUMER.RESET.S.C", {"seq": 4})
    play.state(deleted_details=True)
    play.api("CONSUMER.RESET.S.D", {"seq": 6})
    play.state(deleted_details=True)
    play.api("CONSUMER.RESET.S.C", {"seq": 9})
    play.state(deleted_details=True)


@SCENARIOS.add
def interest_of_one_that_begins_later_and_is_reset(play: Play) -> None:
    play.stream("S", ["s.>"], retention="interest")
    play.consumer(deliver_policy="by_start_sequence", opt_start_seq=3)
    play.fill(2)
    play.state()
    play.api("CONSUMER.RESET.S.C")
    play.state()


@SCENARIOS.add
def limits_that_discard_new_and_are_younger(play: Play) -> None:
    for storage in ("file", "memory"):
        play.stream("S", ["s.>"], storage=storage)
        play.fill(4, "s.#")
        play.fill(1, "s.1")
        config = {"name": "S", "subjects": ["s.>"], "storage": storage, "discard": "new"}
        play.quiet("STREAM.UPDATE.S", {**config, "max_msgs": 3})
        play.state()
        play.publish("s.5", "m5")
        play.quiet("STREAM.UPDATE.S", {**config, "max_bytes": 70})
        play.state()
        play.publish("s.5", "m5")
        play.quiet("STREAM.UPDATE.S", {**config, "max_msgs": 3, "max_msgs_per_subject": 1})
        play.state()
        play.publish("s.1", "m5")
        play.publish("s.5", "m5")
        play.state()
        play.quiet("STREAM.DELETE.S")


@SCENARIOS.add
def a_purge_of_one_that_some_filters_share(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.consumer(filter_subjects=["s.a", "s.c.d"])
    play.publish("s.b")
    play.publish("s.c.d")
    play.pull({"batch": 1, "no_wait": True}, 1)
    play.api("STREAM.PURGE.S", {"filter": "s.c.>"})
    play.say(play.quiet("CONSUMER.INFO.S.C")["num_ack_pending"])


@SCENARIOS.add
def interest_that_is_said_later(play: Play) -> None:
    play.stream("S", ["s.>"], retention="interest")
    play.consumer("A")
    play.fill(4)
    play.consumer("B", deliver_policy="new")
    play.consumer("D")
    for message in play.pull({"batch": 4}, 4, consumer="A"):
        play.ack(message)
    play.state()
    play.info("B")
    play.info("D")
    play.api("CONSUMER.DELETE.S.D")
    play.state()


@SCENARIOS.add
def retention_that_becomes_interest(play: Play) -> None:
    play.stream("S", ["s.>"])
    play.fill(3)
    play.consumer()
    for message in play.pull({"batch": 2}, 2):
        play.ack(message)
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "retention": "interest"})
    play.publish("s.a", "x")
    play.state()


@SCENARIOS.add
def subjects_that_are_taken_away(play: Play) -> None:
    play.stream("S", ["s.>", "t.>"])
    play.consumer(filter_subject="t.a")
    play.publish("t.a", "1")
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"]})
    play.publish("t.a", "2")
    play.state(subjects_filter=">")
    play.pull({"batch": 2, "no_wait": True})


@SCENARIOS.add
def account_usage(play: Play) -> None:
    play.stream("F", ["f.>"])
    play.stream("M", ["m.>"], storage="memory", max_bytes=10_000)
    for number in range(3):
        play.publish("f.a", "x" * number)
        play.publish("m.a", "x" * number)
    play.consumer("A", "F")
    play.consumer("B", "M")
    answer = play.quiet("INFO")
    play.say({name: held for name, held in answer.items() if name not in ("api", "storage", "memory")})
    for name in "FM":
        play.api(f"STREAM.PURGE.{name}")
    answer = play.quiet("INFO")
    play.say({name: held for name, held in answer.items() if name != "api"})


@SCENARIOS.add
def ttl_of_messages(play: Play) -> None:
    play.stream("S", ["s.>"], allow_msg_ttl=True)
    play.publish("s.a", "1", {"Nats-TTL": "1s"})
    play.publish("s.a", "2", {"Nats-TTL": "never"})
    play.publish("s.b", "3")
    play.until(lambda info: info["state"]["messages"] == 2)
    play.state()
    play.read()


@SCENARIOS.add
def markers_of_what_went(play: Play) -> None:
    play.stream("S", ["s.>"], max_age=1 * SECOND, allow_msg_ttl=True, subject_delete_marker_ttl=5 * SECOND)
    play.publish("s.a", "1")
    play.publish("s.a", "2")
    play.publish("s.b", "3", {"Nats-TTL": "1s"})
    play.until(lambda info: info["state"]["first_seq"] >= 4 and info["state"]["last_seq"] >= 5)
    play.state()
    for subject in ("s.a", "s.b"):
        answer = play.quiet("STREAM.MSG.GET.S", {"last_by_subj": subject})["message"]
        play.say({name: held for name, held in answer.items() if name != "seq"})


@SCENARIOS.add
def markers_of_a_key_value_store(play: Play) -> None:
    """What is purged says so already; what is deleted does not."""
    play.stream(
        "S", ["s.>"], allow_msg_ttl=True, subject_delete_marker_ttl=1 * SECOND, max_msgs_per_subject=1
    )
    operations = {
        "value": {},
        "del": {"KV-Operation": "DEL"},
        "purge": {"KV-Operation": "PURGE", "Nats-Rollup": "sub"},
        "purge.alone": {"KV-Operation": "PURGE"},
        "lower": {"KV-Operation": "purge"},
        "removed": {"Nats-Marker-Reason": "Remove"},
        "empty": {"Nats-Marker-Reason": ""},
    }
    for name, fields in operations.items():
        play.publish(f"s.{name}", "x", fields | {"Nats-TTL": "1s"})
    marked = {f"s.{name}": 1 for name in ("value", "del", "lower", "empty")}
    play.until(lambda info: info["state"]["first_seq"] > len(operations) and info["state"]["messages"] == 4)
    play.say(play.quiet("STREAM.INFO.S", {"subjects_filter": ">"})["state"]["subjects"] == marked)


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_retention(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
