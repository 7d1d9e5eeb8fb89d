"""Schedules: which headers make one, when it is due, and what it produces."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.jetstream.schedule import schedules
from headrace.log.port import StoredMessage
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.configs import StreamConfig
from headrace.protocol.jetstream.errors import ApiError

SECOND = 1_000_000_000
NOW = int(datetime(2026, 11, 21, 8, 0, tzinfo=UTC).timestamp()) * SECOND
CONFIG = StreamConfig(name="S", subjects=["s.>"], allow_msg_schedules=True, allow_msg_ttl=True)


def header(lines: dict[str, str]) -> bytes:
    made = b""
    for name, text in lines.items():
        made = block.added(made, (name.encode(), text.encode()))
    return made


def schedule(pattern: str, **more: str) -> bytes:
    lines = {"Nats-Schedule": pattern, "Nats-Schedule-Target": "s.target"}
    return header(lines | {name.replace("_", "-"): text for name, text in more.items()})


def checked(headers: bytes, config: StreamConfig = CONFIG, last: StoredMessage | None = None) -> bytes:
    return schedules.check(headers, b"s.schedule", config, NOW, lambda _: last)


def refusal(headers: bytes, config: StreamConfig = CONFIG, last: StoredMessage | None = None) -> int:
    with pytest.raises(ApiError) as raised:
        checked(headers, config, last)
    return raised.value.err_code


@pytest.mark.parametrize(
    ("pattern", "zone", "due"),
    [
        ("@at 2026-11-21T08:00:05Z", None, "2026-11-21T08:00:05Z"),
        ("@at 2026-11-21T10:00:05.25+02:00", None, "2026-11-21T08:00:05.25Z"),
        ("@at 2020-01-01T00:00:00Z", None, "2020-01-01T00:00:00Z"),
        ("@every 1s", None, "2026-11-21T08:00:01Z"),
        ("@every 1h1.5s", None, "2026-11-21T09:00:01.5Z"),
        ("0 0 9 * * *", "America/New_York", "2026-11-21T09:00:00-05:00"),
        ("0 0 9 * * *", "Europe/London", "2026-11-21T09:00:00Z"),
        ("@hourly", None, "2026-11-21T09:00:00Z"),
    ],
)
def test_when_it_is_due(pattern: str, zone: str | None, due: str) -> None:
    headers = schedule(pattern, **({"Nats_Schedule_Time_Zone": zone} if zone else {}))
    found = schedules.due_after(headers, NOW, NOW)
    assert found is not None
    assert found.written().decode() == due


def test_what_was_missed_is_skipped() -> None:
    later = NOW + 7 * 24 * 3600 * SECOND + 400_000_000
    every = schedules.due_after(schedule("@every 10s"), NOW, later)
    cron = schedules.due_after(schedule("@daily"), NOW, later)
    once = schedules.due_after(schedule("@at 2026-11-21T08:00:05Z"), NOW, later)
    assert every is not None
    assert every.written() == b"2026-11-28T08:00:10Z"
    assert cron is not None
    assert cron.written() == b"2026-11-29T00:00:00Z"
    assert once is not None
    assert once.written() == b"2026-11-21T08:00:05Z"


@pytest.mark.parametrize(
    "pattern",
    [
        "@at tomorrow",
        "@at 2026-11-21",
        "@every 999ms",
        "@every -5s",
        "@every",
        "@every 5",
        "@each 5s",
        "* * * * *",
        "0 0 0 30 2 *",
    ],
)
def test_a_pattern_that_is_none(pattern: str) -> None:
    assert refusal(schedule(pattern)) == 10189


@pytest.mark.parametrize("zone", ["", "Mars/Phobos", "../etc/passwd", "America", "/UTC", "local"])
def test_a_time_zone_that_is_none(zone: str) -> None:
    assert refusal(schedule("@hourly", Nats_Schedule_Time_Zone=zone)) == 10223


@pytest.mark.parametrize("pattern", ["@at 2026-11-21T08:00:05Z", "@every 5s"])
def test_a_time_zone_is_for_cron_only(pattern: str) -> None:
    assert refusal(schedule(pattern, Nats_Schedule_Time_Zone="UTC")) == 10189


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"Nats_Schedule_TTL": "x"}, 10191),
        ({"Nats_Schedule_TTL": "500ms"}, 10191),
        ({"Nats_Schedule_Rollup": "all"}, 10192),
        ({"Nats_Rollup": "all"}, 10192),
        ({"Nats_Schedule_Target": ""}, 10190),
        ({"Nats_Schedule_Target": "s.*"}, 10190),
        ({"Nats_Schedule_Target": "s..a"}, 10190),
        ({"Nats_Schedule_Target": "s.schedule"}, 10190),
        ({"Nats_Schedule_Target": "elsewhere"}, 10190),
        ({"Nats_Schedule_Source": "s.target"}, 10203),
        ({"Nats_Schedule_Source": "s.schedule"}, 10203),
        ({"Nats_Schedule_Source": "s.>"}, 10203),
        ({"Nats_Schedule_Source": "elsewhere"}, 10203),
        ({"Nats_Scheduler": "s.other"}, 10212),
        ({"Nats_Schedule_Next": "2026-11-21T08:00:05Z"}, 10212),
    ],
)
def test_what_is_refused(more: dict[str, str], code: int) -> None:
    lines = {"Nats-Schedule": "@every 5s", "Nats-Schedule-Target": "s.target"}
    lines |= {name.replace("_", "-"): text for name, text in more.items()}
    assert refusal(header(lines)) == code


def test_without_permission() -> None:
    plain = StreamConfig(name="S", subjects=["s.>"])
    assert refusal(schedule("@every 5s"), plain) == 10188
    assert refusal(schedule("nonsense"), plain) == 10188
    without_ttl = StreamConfig(name="S", subjects=["s.>"], allow_msg_schedules=True)
    assert refusal(schedule("@every 5s", Nats_Schedule_TTL="5s"), without_ttl) == 10166
    assert checked(header({"Other": "1"}), plain) == header({"Other": "1"})


def test_of_a_schedule_only_the_last_stays() -> None:
    headers = schedule("@every 5s")
    assert checked(headers) == block.added(headers, (b"Nats-Rollup", b"sub"))
    rolled = schedule("@every 5s", Nats_Rollup="SUB")
    assert checked(rolled) == rolled


def test_a_client_may_only_end_a_schedule() -> None:
    message = StoredMessage(4, NOW, b"s.other", b"", schedule("@every 5s"), b"")
    plain = StoredMessage(4, NOW, b"s.other", b"", b"", b"")
    ending = header({"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.other"})
    assert checked(ending) == ending  # no such message: as old servers had it
    assert checked(ending, last=message) == ending
    assert schedules.purged_by(ending) == b"s.other"
    assert refusal(ending, last=plain) == 10212
    assert refusal(ending, StreamConfig(name="S", subjects=["s.>"])) == 10188
    for scheduler in ("", "s.schedule", "s.*"):
        assert refusal(header({"Nats-Schedule-Next": "purge", "Nats-Scheduler": scheduler})) == 10212
    assert refusal(header({"Nats-Schedule-Next": "purge"})) == 10212


def test_what_is_produced() -> None:
    headers = schedule(
        "@every 5s", Nats_Schedule_TTL="5m", Nats_Schedule_Rollup="sub", Nats_Rollup="sub", Kept="1",
        Nats_Msg_Id="a", Nats_TTL="1h", Nats_Expected_Stream="S",
    )  # fmt: skip
    message = StoredMessage(4, NOW, b"s.schedule", b"", headers, b"body")
    due = schedules.due_after(headers, NOW, NOW)
    assert due is not None
    firing = schedules.produced(message, None, due)
    assert firing is not None
    assert firing.subject == b"s.target"
    assert firing.payload == b"body"
    assert firing.headers == header(
        {
            "Kept": "1",
            "Nats-Scheduler": "s.schedule",
            "Nats-Schedule-Next": "2026-11-21T08:00:05Z",
            "Nats-TTL": "5m",
            "Nats-Rollup": "sub",
        }
    )
    assert schedules.moved_by(firing.headers) == (b"s.schedule", due.time_ns)


def test_what_is_produced_once() -> None:
    headers = schedule("@at 2026-11-21T08:00:05Z", Nats_Schedule_Source="s.content")
    message = StoredMessage(4, NOW, b"s.schedule", b"", headers, b"own")
    content = StoredMessage(9, NOW, b"s.content", b"", header({"A": "1", "Nats-Scheduler": "s.x"}), b"theirs")
    due = schedules.due_after(headers, NOW, NOW)
    assert due is not None
    firing = schedules.produced(message, content, due)
    assert firing is not None
    assert firing.payload == b"theirs"
    ending = {"Nats-Scheduler": "s.schedule", "Nats-Schedule-Next": "purge"}
    assert firing.headers == header({"A": "1"} | ending)
    assert schedules.purged_by(firing.headers) == b"s.schedule"
    assert schedules.moved_by(firing.headers) is None
    own = schedules.produced(message, None, due)
    assert own is not None
    assert own.payload == b"own"
    assert own.headers == header(ending)


def test_a_schedule_without_a_target_produces_nothing() -> None:
    message = StoredMessage(4, NOW, b"s.schedule", b"", header({"Nats-Schedule": "@every 5s"}), b"")
    assert schedules.produced(message, None, schedules.Due(NOW, repeats=True)) is None


@pytest.mark.parametrize("following", ["", "soon", "purge"])
def test_what_moves_no_schedule(following: str) -> None:
    assert schedules.moved_by(header({"Nats-Schedule-Next": following, "Nats-Scheduler": "s.a"})) is None
