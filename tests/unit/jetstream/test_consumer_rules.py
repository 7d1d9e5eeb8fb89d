"""What may be configured for a consumer; the Go server's verdicts on drawn ones are compared elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.jetstream.consumer.rules import (
    ConsumerContext,
    check_consumer_update,
    check_new_consumer,
    filters,
    same_consumer,
    sample_percentage,
)
from headrace.jetstream.limits import UNTIERED, AccountLimits, ServerSettings, Tiers
from headrace.protocol.jetstream.configs import (
    AckPolicy,
    Action,
    ConsumerConfig,
    DeliverPolicy,
    PriorityPolicy,
    ReplayPolicy,
    RetentionPolicy,
    StreamConfig,
    StreamConsumerLimits,
)
from headrace.protocol.jetstream.errors import ApiError

SECOND = 1_000_000_000
STREAM = StreamConfig(name="S", subjects=["s.>"], num_replicas=1)
QUEUE = replace(STREAM, retention=RetentionPolicy.WORKQUEUE)
PULL = ConsumerConfig(durable_name="C", name="C", ack_policy=AckPolicy.EXPLICIT)
PUSH = replace(PULL, deliver_subject="to.me")
AROUND = ConsumerContext(STREAM)


def refusal(
    config: ConsumerConfig, around: ConsumerContext = AROUND, *, pedantic: bool = False
) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        check_new_consumer(config, around, pedantic=pedantic)
    return caught.value.err_code, caught.value.description


def test_defaults_of_a_pull_consumer() -> None:
    assert check_new_consumer(PULL, AROUND) == replace(
        PULL,
        ack_wait=30 * SECOND,
        max_deliver=-1,
        max_waiting=512,
        max_ack_pending=1000,
        metadata={"_nats.req.level": "0"},
    )


def test_defaults_of_an_ephemeral_push_consumer_without_acks() -> None:
    config = ConsumerConfig(deliver_subject="x")

    assert check_new_consumer(config, AROUND) == replace(
        config, max_deliver=-1, inactive_threshold=5 * SECOND, metadata={"_nats.req.level": "0"}
    )


@pytest.mark.parametrize(
    ("fields", "becomes"),
    [
        ({"backoff": [SECOND, 2 * SECOND]}, {"ack_wait": SECOND}),
        ({"max_ack_pending": -5}, {"max_ack_pending": -1}),
        (
            {"priority_policy": PriorityPolicy.PINNED_CLIENT, "priority_groups": ["A"]},
            {"priority_timeout": 120 * SECOND},
        ),
        (
            {"ack_policy": AckPolicy.FLOW_CONTROL, "deliver_subject": "x"},
            {"flow_control": True, "idle_heartbeat": SECOND},
        ),
    ],
)
def test_what_is_put_right(fields: dict[str, Any], becomes: dict[str, Any]) -> None:
    config = check_new_consumer(replace(PULL, **fields), AROUND)

    assert {name: getattr(config, name) for name in becomes} == becomes


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"name": "a.b"}, 10052),
        ({"num_replicas": 2}, 10126),
        ({"num_replicas": -1}, 10133),
        ({"backoff": [-1]}, 10184),
        ({"ack_wait": -1}, 10183),
        ({"ack_policy": AckPolicy.FLOW_CONTROL}, 10218),
        ({"backoff": [1, 2, 3], "max_deliver": 2}, 10116),
        ({"description": "x" * 4097}, 10107),
        ({"rate_limit_bps": 1}, 10086),
        ({"idle_heartbeat": SECOND}, 10088),
        ({"flow_control": True}, 10089),
        ({"max_expires": 1}, 10115),
        ({"direct": True}, 10090),
        ({"filter_subject": "a", "filter_subjects": ["b"]}, 10136),
        ({"filter_subject": "a b"}, 10052),
        ({"filter_subjects": [""]}, 10139),
        ({"filter_subjects": ["a.*", "a.b"]}, 10138),
        ({"deliver_policy": DeliverPolicy.LAST_PER_SUBJECT}, 10094),
        ({"opt_start_seq": 1}, 10094),
        ({"deliver_policy": DeliverPolicy.BY_START_TIME}, 10094),
        ({"deliver_policy": DeliverPolicy.BY_START_SEQUENCE}, 10094),
        ({"sample_freq": "often"}, 10095),
        ({"name": "D"}, 10132),
        ({"metadata": {"k": "x" * 131072}}, 10135),
        ({"priority_groups": ["A"]}, 10196),
        ({"priority_timeout": 1}, 10197),
        ({"priority_policy": PriorityPolicy.OVERFLOW}, 10159),
        ({"priority_policy": PriorityPolicy.OVERFLOW, "priority_groups": [""]}, 10161),
        ({"priority_policy": PriorityPolicy.OVERFLOW, "priority_groups": ["a b"]}, 10162),
        ({"durable_name": "x" * 256, "name": ""}, 10102),
        ({"durable_name": "", "name": "x" * 256}, 10012),
        ({"deliver_subject": "x.*"}, 10079),
        ({"deliver_subject": "x..y"}, 10112),
        ({"deliver_subject": "s.x"}, 10081),
        ({"deliver_subject": "x", "max_waiting": 5}, 10080),
        ({"deliver_subject": "x", "ack_policy": AckPolicy.NONE, "max_ack_pending": 5}, 10082),
        ({"deliver_subject": "x", "idle_heartbeat": 1}, 10083),
        ({"deliver_subject": "x", "flow_control": True}, 10108),
        ({"deliver_subject": "x", "direct": True}, 10091),
        (
            {"deliver_subject": "x", "priority_policy": PriorityPolicy.OVERFLOW, "priority_groups": ["A"]},
            10178,
        ),
        ({"metadata": {"headrace.dead_letter_subject": "s.dead"}}, 10094),
    ],
)
def test_what_is_refused(fields: dict[str, Any], number: int) -> None:
    assert refusal(replace(PULL, **fields))[0] == number


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({}, 10219),
        ({"flow_control": True}, 10052),
        ({"flow_control": True, "idle_heartbeat": SECOND, "max_ack_pending": -1}, 10220),
        ({"flow_control": True, "idle_heartbeat": SECOND, "ack_wait": 1}, 10221),
        ({"flow_control": True, "idle_heartbeat": SECOND, "max_deliver": 1}, 10222),
    ],
)
def test_acks_by_flow_control_exclude_much(fields: dict[str, Any], number: int) -> None:
    config = replace(PUSH, ack_policy=AckPolicy.FLOW_CONTROL, **fields)

    assert refusal(config, pedantic=True)[0] == number


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_deliver": -2}, "max_deliver must be set to -1"),
        ({"max_waiting": -1}, "max_waiting must not be negative"),
        ({"backoff": [SECOND]}, "first backoff value has to equal batch AckWait"),
    ],
)
def test_pedantic_checks_refuse_what_would_be_put_right(fields: dict[str, Any], text: str) -> None:
    assert check_new_consumer(replace(PULL, **fields), AROUND)
    assert refusal(replace(PULL, **fields), pedantic=True) == (10157, f"pedantic mode: {text}")


# -- what is around it -----------------------------------------------------------------------------------


def test_limits_of_the_stream_are_inherited_and_hold() -> None:
    limits = StreamConsumerLimits(max_ack_pending=10, inactive_threshold=60 * SECOND)
    around = ConsumerContext(replace(STREAM, consumer_limits=limits))

    config = check_new_consumer(PULL, around)

    assert (config.max_ack_pending, config.inactive_threshold) == (10, 60 * SECOND)
    assert refusal(replace(PULL, max_ack_pending=11), around)[0] == 10121
    assert refusal(replace(PULL, inactive_threshold=61 * SECOND), around) == (
        10153,
        "consumer inactive threshold exceeds system limit of 1m0s",
    )
    assert refusal(PULL, around, pedantic=True)[0] == 10157


def test_limits_of_server_and_account() -> None:
    around = ConsumerContext(
        STREAM,
        {"D": PULL},
        Tiers({UNTIERED: AccountLimits(max_ack_pending=500, max_consumers=2)}),
        ServerSettings(max_ack_pending=700, max_request_batch=100),
    )

    config = check_new_consumer(PULL, around)

    assert (config.max_ack_pending, config.max_batch) == (500, 100)
    assert refusal(replace(PULL, max_ack_pending=600), around)[0] == 10121
    assert refusal(replace(PULL, max_batch=101), around)[0] == 10125
    assert refusal(PULL, replace_consumers(around, {"D": PULL, "E": PULL}))[0] == 10026
    assert refusal(PULL, ConsumerContext(STREAM, tiers=Tiers({"R3": AccountLimits()})))[0] == 10120


def replace_consumers(around: ConsumerContext, consumers: dict[str, ConsumerConfig]) -> ConsumerContext:
    return ConsumerContext(around.stream, consumers, around.tiers, around.settings)


def test_number_of_consumers_of_a_stream_is_limited() -> None:
    around = ConsumerContext(replace(STREAM, max_consumers=1), {"D": PULL})

    assert refusal(PULL, around)[0] == 10026
    direct = ConsumerConfig(name="C", deliver_subject="x", direct=True)
    assert check_new_consumer(direct, around), "one that mirrors read through does not count"


def test_number_of_consumers_is_limited_by_the_server_where_nothing_else_is_said() -> None:
    few = ServerSettings(default_max_consumers=1)
    many = Tiers({UNTIERED: AccountLimits(max_consumers=2)})

    assert refusal(PULL, ConsumerContext(STREAM, {"D": PULL}, settings=few))[0] == 10026
    assert check_new_consumer(PULL, ConsumerContext(STREAM, {"D": PULL}, many, few))
    none = ServerSettings(default_max_consumers=-1)
    assert check_new_consumer(PULL, ConsumerContext(STREAM, dict.fromkeys("abc", PULL), settings=none))


def test_work_queue_gives_every_message_to_one_consumer() -> None:
    mine = replace(PULL, filter_subject="s.a")
    others = {"D": replace(PULL, durable_name="D", name="D", filter_subjects=["s.b", "s.c"])}

    assert check_new_consumer(PULL, ConsumerContext(QUEUE))
    assert check_new_consumer(mine, ConsumerContext(QUEUE, others))
    assert refusal(PULL, ConsumerContext(QUEUE, others))[0] == 10099
    assert refusal(replace(mine, filter_subject="s.*"), ConsumerContext(QUEUE, others))[0] == 10100


def test_work_queue_needs_acks_and_all_messages() -> None:
    around = ConsumerContext(QUEUE)

    assert refusal(replace(PULL, ack_policy=AckPolicy.NONE), around)[0] == 10084
    assert refusal(replace(PULL, ack_policy=AckPolicy.ALL), around)[0] == 10098
    assert refusal(replace(PULL, deliver_policy=DeliverPolicy.NEW), around)[0] == 10101


def test_update_of_what_is_not_there() -> None:
    with pytest.raises(ApiError, match="consumer does not exist"):
        check_new_consumer(PULL, AROUND, action=Action.UPDATE)


# -- changes ---------------------------------------------------------------------------------------------


def update(
    old: ConsumerConfig, new: ConsumerConfig, around: ConsumerContext = AROUND, **how: Any
) -> ConsumerConfig:
    return check_consumer_update(check_new_consumer(old, around), new, around, **how)


@pytest.mark.parametrize(
    ("old", "fields", "text"),
    [
        (PULL, {"deliver_policy": DeliverPolicy.NEW}, "deliver policy can not be updated"),
        (PULL, {"mem_storage": True}, "storage type can not be updated"),
        (PULL, {"ack_policy": AckPolicy.ALL}, "ack policy can not be updated"),
        (PULL, {"replay_policy": ReplayPolicy.ORIGINAL}, "replay policy can not be updated"),
        (PULL, {"max_waiting": 5}, "max waiting can not be updated"),
        (PULL, {"deliver_subject": "x"}, "can not update pull consumer to push based"),
        (PUSH, {"deliver_subject": ""}, "can not update push consumer to pull based"),
        (PUSH, {"idle_heartbeat": SECOND}, "heart beats can not be updated"),
        (
            replace(PULL, deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=1),
            {"opt_start_seq": 2},
            "start sequence can not be updated",
        ),
        (
            replace(PULL, deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time="2026-01-01T00:00:00Z"),
            {"opt_start_time": "2026-01-01T00:00:01Z"},
            "start time can not be updated",
        ),
    ],
)
def test_what_may_not_change(old: ConsumerConfig, fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ApiError) as caught:
        update(old, replace(old, **fields))
    assert (caught.value.err_code, caught.value.description) == (10012, text)


def test_what_may_change() -> None:
    new = update(
        PULL, replace(PULL, ack_wait=SECOND, max_ack_pending=5, filter_subject="s.a", description="x")
    )

    assert (new.ack_wait, new.max_ack_pending, new.filter_subject) == (SECOND, 5, "s.a")


def test_the_same_moment_in_another_zone_is_no_change() -> None:
    old = replace(
        PULL, deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time="2026-01-01T01:00:00+01:00"
    )

    assert update(old, replace(old, opt_start_time="2026-01-01T00:00:00Z"))


def test_a_pause_is_not_changed_by_a_change_and_is_kept_in_utc() -> None:
    old = replace(PULL, pause_until="2099-01-01T01:00:00+01:00")

    new = update(old, replace(PULL, pause_until=None, description="x"))

    assert new.pause_until == "2099-01-01T00:00:00Z"
    assert update(old, PULL, action=Action.CREATE).pause_until == new.pause_until, "the same is no change"
    assert new.metadata == {"_nats.req.level": "1"}


def test_deliver_subject_changes_while_nobody_listens() -> None:
    elsewhere = replace(PUSH, deliver_subject="to.you")

    assert update(PUSH, elsewhere).deliver_subject == "to.you"
    with pytest.raises(ApiError, match="consumer name already in use"):
        update(PUSH, elsewhere, ConsumerContext(STREAM, is_bound=True))


def test_create_takes_only_the_same() -> None:
    assert same_consumer(update(PULL, PULL, action=Action.CREATE), check_new_consumer(PULL, AROUND))
    with pytest.raises(ApiError, match="consumer already exists"):
        update(PULL, replace(PULL, description="x"), action=Action.CREATE)


def test_change_in_a_work_queue_keeps_messages_apart() -> None:
    others = {"C": PULL, "D": replace(PULL, durable_name="D", name="D", filter_subject="s.b")}
    old = check_new_consumer(replace(PULL, filter_subject="s.a"), ConsumerContext(QUEUE))

    with pytest.raises(ApiError, match="filtered consumer not unique"):
        check_consumer_update(old, replace(PULL, filter_subject="s.b"), ConsumerContext(QUEUE, others))


# -- parts -----------------------------------------------------------------------------------------------


def test_filters_of_either_kind() -> None:
    assert filters(ConsumerConfig()) == []
    assert filters(ConsumerConfig(filter_subject="a")) == ["a"]
    assert filters(ConsumerConfig(filter_subjects=["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize(("text", "number"), [("30%", 30), ("100", 100), ("+5", 5), ("0", 0), ("400%", 400)])
def test_share_that_is_sampled(text: str, number: int) -> None:
    assert sample_percentage(text) == number


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("30%%", 'strconv.Atoi: parsing "30%": invalid syntax'),
        ("99999999999999999999", 'strconv.Atoi: parsing "99999999999999999999": value out of range'),
        ("-1", "<nil>"),
    ],
)
def test_share_that_is_none(text: str, reason: str) -> None:
    with pytest.raises(ApiError) as caught:
        sample_percentage(text)
    assert caught.value.description == f"failed to parse consumer sampling configuration: {reason}"
