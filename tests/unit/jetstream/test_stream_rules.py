"""What may be configured for a stream; the Go server's verdicts on drawn ones are compared elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.jetstream.limits import UNTIERED, AccountLimits, ServerSettings, Tiers
from headrace.jetstream.stream.reservations import StorageRoom
from headrace.jetstream.stream.rules import (
    StreamContext,
    check_new_stream,
    check_stream_update,
    same_stream,
)
from headrace.jetstream.stream_configs import StreamConfigs
from headrace.protocol.jetstream.configs import (
    ConsumerConfig,
    DiscardPolicy,
    External,
    Placement,
    Republish,
    RetentionPolicy,
    Storage,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamSource,
    SubjectTransformConfig,
)
from headrace.protocol.jetstream.errors import ApiError

SECOND = 1_000_000_000
PLAIN = StreamConfig(name="S", subjects=["s.>"])


def context(
    *streams: StreamConfig,
    limits: AccountLimits | None = None,
    settings: ServerSettings | None = None,
    consumers: dict[str, ConsumerConfig] | None = None,
    reserved: int = 0,
) -> StreamContext:
    tiers = Tiers() if limits is None else Tiers({UNTIERED: limits})
    room = StorageRoom(tiers, settings or ServerSettings(), StreamConfigs(streams), reserved, reserved)
    return StreamContext("S", room, consumers or {})


def refusal(config: StreamConfig, around: StreamContext | None = None, *, pedantic: bool = False) -> ApiError:
    with pytest.raises(ApiError) as caught:
        check_new_stream(config, around or context(), pedantic=pedantic)
    return caught.value


def changed(**fields: Any) -> StreamConfig:
    return replace(PLAIN, **fields)


def test_defaults() -> None:
    config = check_new_stream(StreamConfig(name="S"), context())

    assert config == StreamConfig(
        name="S",
        subjects=["S"],
        max_consumers=-1,
        max_msgs=-1,
        max_bytes=-1,
        max_msgs_per_subject=-1,
        max_msg_size=-1,
        num_replicas=1,
        duplicate_window=120 * SECOND,
        metadata={"_nats.req.level": "0"},
    )


@pytest.mark.parametrize(
    ("fields", "becomes"),
    [
        ({"max_msgs": -7}, {"max_msgs": -1}),
        ({"max_age": 5 * SECOND}, {"duplicate_window": 5 * SECOND}),
        ({"subject_delete_marker_ttl": SECOND}, {"allow_msg_ttl": True, "allow_rollup_hdrs": True}),
        ({"allow_msg_schedules": True, "deny_purge": True}, {"allow_rollup_hdrs": True, "deny_purge": False}),
        ({"republish": Republish(dest="x.>")}, {"republish": Republish(src=">", dest="x.>")}),
        ({"placement": Placement()}, {"placement": None}),
    ],
)
def test_what_is_put_right(fields: dict[str, Any], becomes: dict[str, Any]) -> None:
    config = check_new_stream(changed(**fields), context())

    assert {name: getattr(config, name) for name in becomes} == becomes


@pytest.mark.parametrize(
    ("fields", "number", "text"),
    [
        ({"name": "T"}, 10056, "stream name in subject does not match request"),
        ({"sealed": True}, 10052, "stream configuration for create can not be sealed"),
        ({"mirror_direct": True}, 10052, "stream has no mirror but does have mirror direct"),
        ({"num_replicas": 3}, 10074, "replicas > 1 not supported in non-clustered mode"),
        ({"num_replicas": 6}, 10052, "maximum replicas is 5"),
        ({"num_replicas": -1}, 10133, "replicas count cannot be negative"),
        ({"description": "x" * 4097}, 10052, "stream description is too long, maximum allowed is 4096"),
        ({"metadata": {"k": "x" * 131072}}, 10052, "stream metadata exceeds maximum size of 131072 bytes"),
        ({"max_age": 99_999_999}, 10052, "max age needs to be >= 100ms"),
        ({"max_age": -1}, 10052, "max age can not be negative"),
        ({"duplicate_window": 1}, 10052, "duplicates window needs to be >= 100ms"),
        (
            {"max_age": SECOND, "duplicate_window": 2 * SECOND},
            10052,
            "duplicates window can not be larger then max age",
        ),
        ({"deny_purge": True, "allow_rollup_hdrs": True}, 10052, "roll-ups require the purge permission"),
        (
            {"allow_msg_counter": True, "discard": DiscardPolicy.NEW},
            10052,
            "counter stream cannot use discard new",
        ),
        (
            {"discard_new_per_subject": True, "discard": DiscardPolicy.NEW},
            10052,
            "discard new per subject requires max msgs per subject > 0",
        ),
        ({"subject_delete_marker_ttl": 1}, 10052, "subject delete marker TTL must be at least 1 second"),
        ({"subjects": ["a", "a"]}, 10052, 'subject "a" overlaps with "a"'),
        ({"subjects": ["a..b"]}, 10052, "invalid subject"),
        ({"subjects": ["a.*", "*.b"]}, 10052, 'subject "a.*" overlaps with "*.b"'),
        ({"subjects": [">"]}, 10052, "capturing all subjects requires no-ack to be true"),
        (
            {"subjects": ["$JS.>"]},
            10052,
            "subjects that overlap with jetstream api require no-ack to be true",
        ),
        ({"subjects": ["$SYS.>"]}, 10052, "subjects that overlap with system api require no-ack to be true"),
        (
            {"subject_transform": SubjectTransformConfig(src="a..b", dest="x")},
            10155,
            "stream transform source: invalid subject a..b",
        ),
        (
            {"subject_transform": SubjectTransformConfig(src="a.*", dest="x.{{wildcard(2)}}")},
            10156,
            "stream transform: invalid mapping destination:"
            " wildcard index out of range in {{wildcard(2)}}: [2]",
        ),
        (
            {"subject_transform": SubjectTransformConfig(dest="{{no(1)}}.>")},
            10156,
            "stream transform: invalid mapping destination: unknown function in {{no(1)}}",
        ),
        (
            {"republish": Republish(dest="s.x")},
            10052,
            "stream configuration for republish destination forms a cycle",
        ),
        ({"placement": Placement(preferred="x")}, 10052, "preferred server not permitted in placement"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], number: int, text: str) -> None:
    error = refusal(changed(**fields))

    assert (error.err_code, error.description) == (number, text)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_msgs": -2}, "max_msgs must be set to -1"),
        ({"max_age": SECOND}, "duplicate window cannot be bigger than max age"),
        ({"republish": Republish(dest="x.>")}, "republish source can not be empty"),
    ],
)
def test_pedantic_checks_refuse_what_would_be_put_right(fields: dict[str, Any], text: str) -> None:
    assert check_new_stream(changed(**fields), context())
    assert refusal(changed(**fields), pedantic=True).description == f"pedantic mode: {text}"


# -- mirrors and sources ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"first_seq": 5}, 10143),
        ({"subjects": ["x"]}, 10034),
        ({"sources": [StreamSource(name="T")]}, 10031),
        ({"allow_msg_counter": True}, 10173),
        ({"allow_atomic": True}, 10198),
        ({"allow_batched": True}, 10209),
        ({"allow_msg_schedules": True}, 10186),
        ({"subject_delete_marker_ttl": SECOND}, 10052),
        ({"mirror": StreamSource(name="a.b")}, 10142),
        ({"mirror": StreamSource(name="T", consumer=StreamConsumerSource())}, 10213),
        (
            {
                "mirror": StreamSource(
                    name="T", filter_subject="a", subject_transforms=[SubjectTransformConfig()]
                )
            },
            10150,
        ),
        (
            {
                "mirror": StreamSource(
                    name="T", subject_transforms=[SubjectTransformConfig(), SubjectTransformConfig()]
                )
            },
            10152,
        ),
        ({"mirror": StreamSource(name="T", filter_subject="a b")}, 10049),
        ({"mirror": StreamSource(name="T", external=External(deliver="d.*"))}, 10024),
        ({"mirror": StreamSource(name="T", external=External(api="$JS.API"))}, 10021),
        ({"mirror": StreamSource(name="T", external=External(api="a b"))}, 10052),
        ({"mirror": StreamSource(name="S")}, 10052),
    ],
)
def test_mirror_that_cannot_be(fields: dict[str, Any], number: int) -> None:
    config = StreamConfig(name="S", mirror=StreamSource(name="T"))

    assert refusal(replace(config, **fields)).err_code == number


def test_mirror_takes_over_how_its_origin_is_read() -> None:
    origin = StreamConfig(name="T", subjects=["t"], allow_direct=True, max_msg_size=100)
    mirror = StreamConfig(name="S", mirror=StreamSource(name="T"))

    assert check_new_stream(mirror, context(origin)).mirror_direct
    assert refusal(replace(mirror, max_msg_size=10), context(origin)).err_code == 10030
    assert refusal(mirror, context(origin), pedantic=True).err_code == 10157


@pytest.mark.parametrize(
    ("sources", "number"),
    [
        ([StreamSource()], 10141),
        ([StreamSource(name="T"), StreamSource(name="T")], 10140),
        ([StreamSource(name="T", filter_subject="a", subject_transforms=[SubjectTransformConfig()])], 10144),
        ([StreamSource(name="T", subject_transforms=[SubjectTransformConfig(src="a..")])], 10145),
        ([StreamSource(name="T", subject_transforms=[SubjectTransformConfig(src="a", dest="b..c")])], 10146),
        (
            [
                StreamSource(
                    name="T",
                    subject_transforms=[SubjectTransformConfig(src="a.b"), SubjectTransformConfig(src="a.*")],
                )
            ],
            10147,
        ),
        ([StreamSource(name="T", consumer=StreamConsumerSource(name="c", deliver_subject="*"))], 10215),
        (
            [
                StreamSource(name="T", consumer=StreamConsumerSource(name="c", deliver_subject="d")),
                StreamSource(
                    name="T",
                    subject_transforms=[SubjectTransformConfig(src="x")],
                    consumer=StreamConsumerSource(name="c", deliver_subject="d"),
                ),
            ],
            10216,
        ),
        ([StreamSource(name="T", filter_subject="a b")], 10049),
    ],
)
def test_sources_that_cannot_be(sources: list[StreamSource], number: int) -> None:
    assert refusal(StreamConfig(name="S", sources=sources)).err_code == number


def test_messages_may_not_go_round() -> None:
    back = StreamConfig(name="T", subjects=["t.>"], sources=[StreamSource(name="S")])
    there = StreamConfig(name="S", sources=[StreamSource(name="T")])

    assert refusal(there, context(back)).description == "detected cycle"
    elsewhere = replace(back, sources=[StreamSource(name="S", filter_subject="other")])
    assert check_new_stream(there, context(elsewhere))


# -- others in the account -------------------------------------------------------------------------------


def test_subjects_belong_to_one_stream() -> None:
    other = StreamConfig(name="T", subjects=["*.x"])

    assert refusal(PLAIN, context(other)).err_code == 10065
    assert check_new_stream(PLAIN, context(replace(other, subjects=["t"])))


def test_the_same_again_is_what_is_there() -> None:
    known = check_new_stream(PLAIN, context())

    assert check_new_stream(PLAIN, context(known)) is known
    assert refusal(changed(max_msgs=5), context(known)).err_code == 10058
    assert same_stream(known, replace(known, metadata={}))


# -- limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "fields", "number"),
    [
        (AccountLimits(max_streams=1), {}, 10027),
        (AccountLimits(max_consumers=2), {"max_consumers": 3}, 10026),
        (AccountLimits(max_storage=1000), {"max_bytes": 501}, 10047),
        (AccountLimits(max_memory=1000), {"max_bytes": 1001, "storage": Storage.MEMORY}, 10028),
        (AccountLimits(max_bytes_required=True), {}, 10113),
        (AccountLimits(storage_max_stream_bytes=10), {"max_bytes": 11}, 10122),
    ],
)
def test_limits_of_the_account(limits: AccountLimits, fields: dict[str, Any], number: int) -> None:
    other = StreamConfig(name="T", subjects=["t"], max_bytes=500)

    assert refusal(changed(**fields), context(other, limits=limits)).err_code == number


def test_limits_of_the_server() -> None:
    around = context(settings=ServerSettings(max_storage=1000), reserved=600)

    assert refusal(changed(max_bytes=401), around).err_code == 10047
    assert check_new_stream(changed(max_bytes=400), around)


def test_account_without_a_tier_for_it_has_no_streams() -> None:
    room = StorageRoom(Tiers({"R3": AccountLimits()}))

    assert refusal(PLAIN, StreamContext("S", room)).err_code == 10120


def test_duplicate_window_is_limited_by_the_server() -> None:
    around = context(settings=ServerSettings(duplicate_window=60 * SECOND))

    assert check_new_stream(PLAIN, around).duplicate_window == 60 * SECOND
    error = refusal(changed(duplicate_window=90 * SECOND), around)
    assert error.description == "duplicates window can not be larger then server limit of 1m0s"


# -- changes ---------------------------------------------------------------------------------------------


def update(old: StreamConfig | None, new: StreamConfig, around: StreamContext | None = None) -> StreamConfig:
    return check_stream_update(old, new, around or context())


def test_change_has_defaults_too_and_keeps_what_it_may() -> None:
    old = check_new_stream(PLAIN, context())

    new = update(old, changed(max_msgs=5, retention=RetentionPolicy.INTEREST, subjects=["x"]))

    assert (new.max_msgs, new.max_bytes, new.retention, new.subjects) == (5, -1, "interest", ["x"])


def test_change_of_what_is_not_there() -> None:
    with pytest.raises(ApiError, match="invalid subject"):
        update(None, changed(subjects=["a b"]))
    with pytest.raises(ApiError, match="stream not found"):
        update(None, PLAIN)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({}, {"name": "T"}, "stream name in subject does not match request"),
        ({}, {"num_replicas": 3}, "replicas > 1 not supported in non-clustered mode"),
        ({}, {"storage": Storage.MEMORY}, "stream configuration update can not change storage type"),
        (
            {},
            {"retention": RetentionPolicy.WORKQUEUE},
            "stream configuration update can not change retention policy to/from workqueue",
        ),
        ({"deny_delete": True}, {}, "stream configuration update can not cancel deny message deletes"),
        ({"deny_purge": True}, {}, "stream configuration update can not cancel deny purge"),
        ({"allow_msg_ttl": True}, {}, "message TTL status can not be disabled"),
        (
            {},
            {"allow_msg_counter": True},
            "stream configuration update can not change message counter setting",
        ),
        ({"allow_msg_schedules": True}, {}, "message schedules can not be disabled"),
        (
            {},
            {"mirror": StreamSource(name="T"), "subjects": []},
            "stream mirror configuration can not be updated",
        ),
    ],
)
def test_what_may_not_change(before: dict[str, Any], after: dict[str, Any], text: str) -> None:
    old = check_new_stream(changed(**before), context())

    with pytest.raises(ApiError) as caught:
        update(old, changed(**after))
    assert caught.value.description == text


def test_sealing_is_for_good() -> None:
    old = check_new_stream(changed(max_age=SECOND, allow_rollup_hdrs=True), context())

    sealed = update(old, changed(sealed=True, max_age=SECOND, allow_rollup_hdrs=True))

    assert (sealed.max_age, sealed.discard, sealed.allow_rollup_hdrs) == (0, DiscardPolicy.NEW, False)
    assert sealed.deny_delete
    assert sealed.deny_purge
    with pytest.raises(ApiError, match="can not unseal a sealed stream"):
        update(sealed, PLAIN)


def test_a_mirror_may_become_a_stream() -> None:
    old = check_new_stream(StreamConfig(name="S", mirror=StreamSource(name="T")), context())

    assert update(old, PLAIN).mirror is None


def test_of_a_change_only_what_is_more_counts() -> None:
    around = context(
        limits=AccountLimits(max_storage=1000), settings=ServerSettings(max_storage=1000), reserved=900
    )
    old = check_new_stream(changed(max_bytes=900), context())

    assert update(old, changed(max_bytes=1000), around).max_bytes == 1000
    assert update(old, changed(max_bytes=10), around).max_bytes == 10
    with pytest.raises(ApiError, match="insufficient storage"):
        update(old, changed(max_bytes=1001), around)


def test_limits_may_not_fall_below_what_consumers_have() -> None:
    consumers = {"b": ConsumerConfig(max_ack_pending=50), "a": ConsumerConfig(inactive_threshold=9 * SECOND)}
    old = check_new_stream(PLAIN, context())
    limits = StreamConsumerLimits(max_ack_pending=49, inactive_threshold=8 * SECOND)

    with pytest.raises(ApiError) as caught:
        update(old, changed(consumer_limits=limits), context(consumers=consumers))
    assert caught.value.err_code == 10069
    assert caught.value.description == "change to limits violates consumers: a, b"
    wider = StreamConsumerLimits(max_ack_pending=50, inactive_threshold=9 * SECOND)
    assert update(old, changed(consumer_limits=wider), context(consumers=consumers))
