"""Acknowledgements through their lane: what it does, what it leaves, and that nobody can tell the difference.

Everything is played on a service link (`linked_account`), with lanes and without.
"""

from __future__ import annotations

import json
import shutil
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from harness.linked_account import Answer, LinkedAccount, files, same_salts
from headrace import change_log
from headrace.engine.lanes import use_lanes
from headrace.log.port import SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def _lanes() -> Iterator[None]:
    before = use_lanes(True)
    yield
    use_lanes(before)


def opened(directory: Path, policy: SyncPolicy = SyncPolicy.INTERVAL, **consumer: Any) -> LinkedAccount:
    place = LinkedAccount(directory, policy)
    place.stream("S", subjects=["s.>"])
    place.consumer("S", "C", **consumer)
    return place


def killed(directory: Path) -> LinkedAccount:
    """Another server on the files as they are now."""
    copy = directory.with_name(f"{directory.name}.copy")
    shutil.copytree(directory, copy)
    return LinkedAccount(copy, SyncPolicy.INTERVAL)


def fill(place: LinkedAccount, count: int) -> None:
    for _ in range(count):
        place.put("s.a", b"x")
    place.tick()


def fetch(place: LinkedAccount, count: int, consumer: str = "S.C") -> list[Answer]:
    place.put(
        f"$JS.API.CONSUMER.MSG.NEXT.{consumer}", b'{"batch":%d,"no_wait":true}' % count, reply="_INBOX.m"
    )
    place.tick()
    return [one for one in place.take() if one.reply]


def ack(
    place: LinkedAccount, message: Answer, body: bytes = b"+ACK", reply: str = "_INBOX.a"
) -> list[Answer]:
    place.put(message.reply.decode(), body, reply=reply)
    place.tick()
    return place.take()


def info(place: LinkedAccount, consumer: str = "S.C") -> Any:
    found = json.loads(place.ask(f"CONSUMER.INFO.{consumer}"))
    del found["ts"]
    return found


@pytest.mark.parametrize("policy", [SyncPolicy.INTERVAL, SyncPolicy.NEVER])
@pytest.mark.parametrize("body", [b"", b"+ACK", b"+OK"])
def test_a_confirmed_acknowledgement_needs_no_turn(tmp_path: Path, policy: SyncPolicy, body: bytes) -> None:
    place = opened(tmp_path, policy)
    fill(place, 3)
    first, second, _ = fetch(place, 3)
    turns = place.host.turns
    assert ack(place, first, body) == [Answer(b"_INBOX.a", b"", b"", b"")]
    assert ack(place, second, body) == [Answer(b"_INBOX.a", b"", b"", b"")]
    assert ack(place, second, body) == [Answer(b"_INBOX.a", b"", b"", b"")], "once more is no mistake"
    assert place.host.turns == turns
    found = info(place)
    assert (found["num_ack_pending"], found["ack_floor"]["stream_seq"]) == (1, 2)


def test_what_was_confirmed_is_written(tmp_path: Path) -> None:
    """As after a kill: the files are read as they are when the confirmation goes out."""
    place = opened(tmp_path)
    fill(place, 2)
    ack(place, fetch(place, 2)[0])
    found = info(killed(tmp_path))
    assert (found["ack_floor"]["stream_seq"], found["num_ack_pending"]) == (1, 1)


def test_acknowledgements_that_nobody_waits_for_are_written_together(tmp_path: Path) -> None:
    place = opened(tmp_path)
    fill(place, 50)
    messages = fetch(place, 50)
    place.pass_time(1)
    before, turns = files(tmp_path), place.host.turns
    for message in messages:
        place.put(message.reply.decode())
        place.tick()
    assert files(tmp_path) == before
    assert place.host.turns == turns + 1, "one to set the timer"
    place.pass_time(1)
    assert files(tmp_path) != before
    assert info(killed(tmp_path))["num_ack_pending"] == 0


@pytest.mark.parametrize(
    "body", [b"-NAK", b"+WPI", b"+NXT", b"+TERM", b"+ACK ", b"+ack", b"+OK\r\n", b"\0", b"+ACK" * 500]
)
def test_another_word_is_for_a_turn(tmp_path: Path, body: bytes) -> None:
    place = opened(tmp_path)
    fill(place, 1)
    (message,) = fetch(place, 1)
    turns = place.host.turns
    ack(place, message, body)
    assert place.host.turns > turns


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.ACK.S.D.1.1.1.1.0",
        "$JS.ACK.T.C.1.1.1.1.0",
        "$JS.ACK.S.C.1.0.1.1.0",
        "$JS.ACK.S.C.1.18446744073709551616.1.1.0",
        "$JS.ACK.S.C",
        "$JS.ACK.x",
    ],
)
def test_what_is_nobodys_is_for_a_turn(tmp_path: Path, subject: str) -> None:
    place = opened(tmp_path)
    turns = place.host.turns
    place.put(subject, b"", reply="_INBOX.a")
    place.tick()
    assert place.host.turns > turns


@pytest.mark.parametrize(
    "config",
    [{"ack_policy": "all"}, {"ack_policy": "none"}, {"sample_freq": "100%"}, {"max_ack_pending": 2}],
)
def test_consumers_that_need_more_than_their_core(tmp_path: Path, config: dict[str, Any]) -> None:
    place = opened(tmp_path, **config)
    fill(place, 3)
    message, *_ = fetch(place, 3)
    turns = place.host.turns
    ack(place, message)
    assert place.host.turns > turns


def test_a_stream_that_goes_over_to_interest_hears_of_acknowledgements(tmp_path: Path) -> None:
    place = opened(tmp_path)
    fill(place, 2)
    first, second = fetch(place, 2)
    ack(place, first)
    place.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "retention": "interest"})
    ack(place, second)
    assert json.loads(place.ask("STREAM.INFO.S"))["state"]["messages"] == 0


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
def test_a_stream_lets_go_what_the_lane_has_settled(tmp_path: Path, retention: str) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s.>"], retention=retention)
    others = [("C", "s.a"), ("D", "s.*" if retention == "interest" else "s.b")]
    for name, subject in others:
        place.consumer("S", name, filter_subject=subject)
    fill(place, 3)
    messages = fetch(place, 3)
    for message in messages[1:]:
        place.put(message.reply.decode())
    place.tick()
    for message in fetch(place, 3, "S.D")[:2]:  # by interest both consumers have all
        place.put(message.reply.decode())
    place.tick()
    state = json.loads(place.ask("STREAM.INFO.S"))["state"]
    assert (state["messages"], state["first_seq"]) == ((2, 1) if retention == "interest" else (1, 1))
    assert info(place)["num_ack_pending"] == 1


def test_what_is_to_be_sent_again_is_for_a_turn(tmp_path: Path) -> None:
    place = opened(tmp_path, ack_wait=SECOND)
    fill(place, 2)
    first, second = fetch(place, 2)
    place.pass_time(1.1)
    assert fetch(place, 1)[0].reply.startswith(b"$JS.ACK.S.C.2.1.")
    turns = place.host.turns
    ack(place, second)
    assert place.host.turns > turns
    ack(place, first)
    assert info(place)["num_ack_pending"] == 0
    assert fetch(place, 2) == []


def test_a_consumer_that_is_gone_acknowledges_nothing(tmp_path: Path) -> None:
    place = opened(tmp_path)
    fill(place, 2)
    first, second = fetch(place, 2)
    ack(place, first)
    place.ask("CONSUMER.DELETE.S.C")
    (answer,) = ack(place, second)
    assert answer.headers.startswith(b"NATS/1.0 503")
    place.consumer("S", "C")
    assert [one.reply.split(b".")[5] for one in fetch(place, 2)] == [b"1", b"2"]
    place.ask("STREAM.DELETE.S")
    assert len(place.account.cores) == 0


def test_with_a_sync_the_confirmation_waits_for_it(tmp_path: Path) -> None:
    place = opened(tmp_path, SyncPolicy.GROUP)
    fill(place, 1)
    turns = place.host.turns
    assert ack(place, fetch(place, 1)[0]) == [Answer(b"_INBOX.a", b"", b"", b"")]
    assert place.host.turns > turns


# ---- with lanes and without ----------------------------------------------------------------------


def play(directory: Path, seed: int, policy: SyncPolicy, *, most: int, lanes: bool) -> tuple[object, ...]:
    """What a script leads to: what each inbox got, what consumers say before a restart and after, the files.

    `most`: messages of a tick, which are all of one kind.
    """
    use_lanes(lanes)
    random = Random(seed)
    place = LinkedAccount(directory, policy)
    place.stream("S", subjects=["s.>"])
    place.stream("M", subjects=["m.>"], storage="memory")
    place.stream("W", subjects=["w.>"], retention="workqueue")
    place.stream("I", subjects=["i.>"], retention="interest")
    names = []
    for stream, name, config in [
        ("S", "plain", {}),
        ("S", "few", {"max_ack_pending": random.randrange(1, 5)}),
        ("S", "some", {"filter_subject": "s.1"}),
        ("S", "wait", {"ack_wait": SECOND, "max_deliver": 3}),
        ("M", "memory", {"mem_storage": True}),
        ("W", "work", {}),
        ("I", "one", {"filter_subjects": ["i.0", "i.1"]}),
        ("I", "two", {"filter_subject": "i.1"}),
        ("S", "all", {"ack_policy": "all"}),
        ("S", "push", {"deliver_subject": "push.a"}),
    ]:
        place.consumer(stream, name, **config)
        names.append(f"{stream}.{name}")
    seen: dict[bytes, list[Answer]] = {}
    waiting: list[Answer] = []
    for step in range(150):
        kind = random.randrange(8)
        for _ in range(random.randint(1, most)):
            match kind:
                case 0 | 1:
                    place.put(f"{random.choice('smwi')}.{random.randrange(3)}", b"%d" % step)
                case 2 | 3:
                    body = b'{"batch":%d,"no_wait":true}' % random.randrange(1, 6)
                    name = random.choice(names)
                    place.put(f"$JS.API.CONSUMER.MSG.NEXT.{name}", body, reply=f"_INBOX.{step}")
                case _ if waiting:
                    waiting.sort()
                    message = random.choice(waiting)
                    if random.random() < 0.8:
                        waiting.remove(message)
                    body = random.choice([b"", b"+ACK", b"+ACK", b"+OK", b"-NAK", b"+WPI", b"+TERM"])
                    reply = random.choice(["", f"_INBOX.a{step}"])
                    place.put(message.reply.decode(), body, reply=reply)
        place.tick()
        if random.random() < 0.1:
            place.pass_time(random.choice([0.001, 0.015, 0.03, 1.5]))
        for answer in place.take():
            seen.setdefault(answer.subject, []).append(answer)
            if answer.reply.startswith(b"$JS.ACK"):
                waiting.append(answer)
    infos = [info(place, name) for name in names]
    place.stop()
    again = LinkedAccount(directory, policy)
    return seen, infos, [info(again, name) for name in names if "M." not in name], files(directory)


@pytest.mark.parametrize("policy", [SyncPolicy.INTERVAL, SyncPolicy.GROUP])
@pytest.mark.parametrize("most", [1, 6])
@pytest.mark.parametrize("seed", range(4))
def test_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, most: int, policy: SyncPolicy
) -> None:
    """Nor can the files, but where a tick has acknowledgements that are both: then they are two records."""
    same_salts(monkeypatch)
    with_lanes = play(tmp_path / "with", seed, policy, most=most, lanes=True)
    same_salts(monkeypatch)
    without = play(tmp_path / "without", seed, policy, most=most, lanes=False)
    parts = ("answers", "consumers", "consumers after a restart", "files")
    for part, one, other in zip(parts, with_lanes, without, strict=True):
        if part != "files" or most == 1:
            assert one == other, part


def test_a_snapshot_is_written_when_there_are_as_many_changes_as_without_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "_MIN_GROWTH", 400)
    monkeypatch.setattr(change_log, "_GROWTH_FACTOR", 0)
    written: list[int] = []
    write = change_log.ChangeWriter._write_snapshot

    def counted(writer: change_log.ChangeWriter) -> None:
        written.append(writer.grown)
        write(writer)

    monkeypatch.setattr(change_log.ChangeWriter, "_write_snapshot", counted)
    same_salts(monkeypatch)
    with_lanes = play(tmp_path / "with", 5, SyncPolicy.INTERVAL, most=1, lanes=True)
    of_lanes, written = written, []
    same_salts(monkeypatch)
    assert play(tmp_path / "without", 5, SyncPolicy.INTERVAL, most=1, lanes=False) == with_lanes
    assert of_lanes == written
    assert len(written) > 2
