"""Publications that compiled code stores and answers by itself: as Python does it, byte for byte.

Scripts are played twice, with lanes and without; answers, what is stored and the bytes of the files must be
the same. What a lane must leave to Python (limits that are reached, a log that fails, headers of ours) is in
them.
"""

from __future__ import annotations

import errno
import json
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.js_account import SECOND
from harness.linked_account import Answer, LinkedAccount, files, same_salts
from headrace.engine.lanes import Lane, use_lanes
from headrace.engine.log_core import LogAppends
from headrace.jetstream.limits import AccountLimits, ServerSettings
from headrace.log.filesystem import RealFileSystem
from headrace.log.memory import MemoryLog
from headrace.log.port import SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.log.filesystem import Bytes

PLAIN: Final = b"NATS/1.0\r\nA: 1\r\nNats: no\r\n\r\n"
POLICIES: Final = (SyncPolicy.INTERVAL, SyncPolicy.NEVER, SyncPolicy.GROUP)

STREAMS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "memory": {"storage": "memory"},
    "history": {"max_msgs_per_subject": 1, "allow_direct": True},
    "last3": {"max_msgs": 3},
    "memory3": {"max_msgs": 3, "storage": "memory"},
    "few": {"max_bytes": 900},
    "full": {"max_msgs": 8, "discard": "new"},
    "fuller": {"max_bytes": 1200, "discard": "new"},
    "once": {"max_msgs_per_subject": 2, "discard": "new", "discard_new_per_subject": True, "max_msgs": 50},
    "aged": {"max_age": 20 * SECOND},
    "small": {"max_msg_size": 60},
    "silent": {"no_ack": True},
    "work": {"retention": "workqueue"},
    "wanted": {"retention": "interest"},
    "picked": {"retention": "interest"},
    "again": {"republish": {"src": ">", "dest": "push.again.>"}},
    "turned": {"subject_transform": {"src": "turned.*", "dest": "turned.x.{{wildcard(1)}}"}},
    "mortal": {"allow_msg_ttl": True},
    "rolled": {"allow_rollup_hdrs": True},
    "packed": {"compression": "s2"},
    "late": {"persist_mode": "async"},
    "named": {"metadata": {"headrace.require_msg_id": "true"}},
    "checked": {
        "metadata": {
            "headrace.schema@checked.1": "{}",
            "headrace.schema.type@checked.1": "json",
            "headrace.schema.check": "true",
        }
    },
}  # fmt: skip

INTERESTED: Final = {"wanted": {}, "picked": {"filter_subject": "picked.2"}}
"""Streams that keep what consumers want, and what the first one wants."""

SPECIAL: Final = (
    b"NATS/1.0\r\nNats-Expected-Last-Sequence: 3\r\n\r\n",
    b"NATS/1.0\r\nNats-Expected-Stream: nobody\r\n\r\n",
    b"NATS/1.0\r\nNats-TTL: 5s\r\n\r\n",
    b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: \r\n\r\n",
)


@pytest.fixture(autouse=True)
def _lanes_are_used() -> Iterator[None]:
    before = use_lanes(True)
    yield
    use_lanes(before)


class _Played:
    """What a script led to."""

    def __init__(self, answers: dict[bytes, list[Answer]], stored: dict[str, bytes], turns: int) -> None:
        self.answers = answers
        self.stored = stored
        self.turns = turns


def _played_both_ways(
    play: Callable[[Path], _Played], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[_Played, _Played]:
    """A script's outcome by lanes and by Python, which must be the same."""
    found = []
    for lanes in (True, False):
        use_lanes(lanes)
        same_salts(monkeypatch)
        found.append(play(directory / str(lanes)))
    by_lanes, by_python = found
    assert by_lanes.answers == by_python.answers
    assert by_lanes.stored.keys() == by_python.stored.keys()
    for path, data in by_python.stored.items():
        assert by_lanes.stored[path] == data, path
    return by_lanes, by_python


def _outcome(place: LinkedAccount, answers: list[Answer], directory: Path) -> _Played:
    """Ends an account; its mistakes are a test's. Of streams in memory, what is read is compared."""
    assert place.host.mistakes == []
    in_memory = {
        f"stream {name}": repr(
            (stream.log.state(), list(stream.log.read_from(1, max_messages=10_000).messages))
        )
        for name, stream in place.account.streams.items()
        if isinstance(stream.log, MemoryLog)
    }
    place.stop()
    answers += place.take()
    by_subject: dict[bytes, list[Answer]] = {}
    for one in answers:
        by_subject.setdefault(one.subject, []).append(one)
    stored = files(directory) | {name: held.encode() for name, held in in_memory.items()}
    return _Played(by_subject, stored, place.host.turns)


def _headers(dice: random.Random) -> bytes:
    kind = dice.random()
    if kind < 0.6:
        return b""
    if kind < 0.7:
        return PLAIN
    if kind < 0.9:
        return b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % dice.randrange(12)
    return dice.choice(SPECIAL)


def _make_streams(place: LinkedAccount, names: list[str]) -> None:
    for name in names:
        place.stream(name, subjects=[f"{name}.*"], **STREAMS[name])
        if name in INTERESTED:
            place.consumer(name, "first", **INTERESTED[name])


def _script(seed: int, policy: SyncPolicy, directory: Path) -> _Played:
    """Some 150 ticks of messages of one kind each, requests, restarts of consumers, and time that passes."""
    dice = random.Random(seed)
    names = dice.sample(sorted(STREAMS), 5)
    place = LinkedAccount(directory, policy)
    answers: list[Answer] = []
    _make_streams(place, names)
    for tick in range(150):
        name = dice.choice(names)
        kind = dice.random()
        if kind < 0.75:
            headers = _headers(dice)
            for n in range(dice.choice((1, 1, 1, 2, 5))):
                place.put(
                    f"{name}.{dice.randrange(4)}",
                    bytes(dice.randrange(80)),
                    reply=dice.choice((f"_INBOX.{tick}.{n}", f"_INBOX.{tick}.{n}", "")),
                    headers=headers,
                )
        elif kind < 0.8:
            place.put(f"$JS.API.STREAM.INFO.{name}", reply=f"_INBOX.{tick}")
        elif kind < 0.84:
            place.put(f"$JS.API.STREAM.PURGE.{name}", b'{"keep":2}', reply=f"_INBOX.{tick}")
        elif kind < 0.88:
            place.put(f"$JS.API.STREAM.MSG.DELETE.{name}", b'{"seq":%d}' % dice.randrange(1, 30))
        elif kind < 0.92:
            config = {"durable_name": "c", "ack_policy": "explicit", "deliver_subject": "push.c"}
            consumer = {"stream_name": name, "config": config}
            if name == "picked":
                _change_interest(place, dice)
            elif STREAMS[name].get("retention") is None:
                place.put(f"$JS.API.CONSUMER.CREATE.{name}.c", str(consumer).replace("'", '"').encode())
        else:
            place.pass_time(dice.choice((0.1, 3, 9)))
        place.tick()
        answers += place.take()
    return _outcome(place, answers, directory)


def _change_interest(place: LinkedAccount, dice: random.Random) -> None:
    """Make, change or delete a consumer of a stream that keeps what its consumers want."""
    if dice.random() < 0.3:
        place.put("$JS.API.CONSUMER.DELETE.picked.c")
        return
    config = {"durable_name": "c", "ack_policy": "explicit", "filter_subject": f"picked.{dice.randrange(4)}"}
    place.put(
        "$JS.API.CONSUMER.DURABLE.CREATE.picked.c",
        json.dumps({"stream_name": "picked", "config": config}).encode(),
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(8))
def test_scripts_lead_to_the_same_with_lanes_and_without(
    seed: int, policy: SyncPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_lanes, by_python = _played_both_ways(lambda path: _script(seed, policy, path), tmp_path, monkeypatch)
    assert sum(map(len, by_lanes.answers.values())) > 50
    if policy is not SyncPolicy.GROUP:
        assert by_lanes.turns < by_python.turns


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_lone_publication_takes_no_turn(storage: str, tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s.>"], storage=storage)
    turns = place.host.turns
    for n in range(3):
        place.put("s.a", b"%d" % n, reply="_INBOX.r", headers=PLAIN if n == 1 else b"")
        place.tick()
        assert place.take() == [Answer(b"_INBOX.r", b"", b"", b'{"stream":"S","seq":%d}' % (n + 1))]
    assert place.host.turns == turns
    place.stop()


def _id(text: str, *more: str) -> bytes:
    return "\r\n".join(["NATS/1.0", f"Nats-Msg-Id: {text}", *more, "", ""]).encode()


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_id_that_comes_again_takes_no_turn(storage: str, tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s"], storage=storage, duplicate_window=10 * SECOND)
    turns = place.host.turns
    for burst in (["a", "b", "a"], ["a"], ["c", "c"]):
        for name in burst:
            place.put("s", reply="_INBOX.r", headers=_id(name, "A: 1"))
        place.tick()
    place.pass_time(11)
    place.put("s", reply="_INBOX.r", headers=_id("a"))
    place.tick()
    again = b',"duplicate": true}'
    assert [one.payload.removeprefix(b'{"stream":"S","seq":') for one in place.take()] == [
        *(b"1}", b"2}", b"1" + again),
        *(b"1" + again, b"3}", b"3" + again, b"4}"),
    ]
    assert place.host.turns == turns
    assert place.account.streams["S"].dedupe.last_id == b"a"
    place.stop()


def test_ids_of_what_could_not_be_stored_are_not_known(tmp_path: Path) -> None:
    files_that_fail = _FailingFileSystem(set(), halves=False)
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL, filesystem=files_that_fail)
    place.stream("S", subjects=["s"])
    place.put("s", reply="_INBOX.r", headers=_id("a"))
    place.tick()
    files_that_fail.refuse_next()
    for name in ("a", "b", "c"):
        place.put("s", reply="_INBOX.r", headers=_id(name))
    place.tick()
    place.put("s", reply="_INBOX.r", headers=_id("b"))
    place.tick()
    payloads = [one.payload for one in place.take()]
    assert payloads[:2] == [b'{"stream":"S","seq":1}', b'{"stream":"S","seq":1,"duplicate": true}']
    assert [b"No space left" in payload for payload in payloads[2:4]] == [True, True]
    assert payloads[4] == b'{"stream":"S","seq":2}'
    place.stop()


def test_messages_of_one_tick_are_stored_and_answered_in_order(tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s.>"])
    place.stream("T", subjects=["t"], storage="memory")
    for n in range(300):
        place.put("t" if n % 3 == 0 else "s.a", b"%d" % n, reply=f"_INBOX.{n % 3}")
    place.tick()
    answers = place.take()
    for n, stream in enumerate(("T", "S", "S")):
        of_one = [one.payload for one in answers if one.subject == b"_INBOX.%d" % n]
        step, first = (1, 1) if stream == "T" else (2, n)
        assert of_one == [
            b'{"stream":"%b","seq":%d}' % (stream.encode(), first + step * k) for k in range(100)
        ]
    log = place.account.streams["S"].log
    assert [m.payload for m in log.read_from(1, max_messages=300).messages] == [
        b"%d" % n for n in range(300) if n % 3
    ]
    place.stop()


def test_what_python_does_comes_behind_what_the_lane_has_taken(tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s"])
    place.put("s", reply="_INBOX.1")
    place.put("$JS.API.STREAM.INFO.S", reply="_INBOX.info")
    place.put("s", reply="_INBOX.2")
    place.put("s", reply="_INBOX.3", headers=b"NATS/1.0\r\nNats-Expected-Last-Sequence: 2\r\n\r\n")
    place.put("s", reply="_INBOX.4")
    place.tick()
    by_subject = {one.subject: one.payload for one in place.take()}
    assert b'"messages":1' in by_subject[b"_INBOX.info"].replace(b" ", b"")
    for n in (1, 2, 3, 4):
        assert by_subject[b"_INBOX.%d" % n] == b'{"stream":"S","seq":%d}' % n
    place.stop()


def test_consumer_that_waits_gets_a_message_in_the_tick_it_came_in(tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s"])
    place.consumer("S", "c")
    place.put("$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"batch":1,"expires":9000000000}', reply="_INBOX.pull")
    place.tick()
    place.put("s", b"hello", reply="_INBOX.ack")
    place.tick()
    payloads = {one.payload for one in place.take()}
    assert payloads == {b"hello", b'{"stream":"S","seq":1}'}
    place.stop()


def test_what_consumers_want_is_kept_without_a_turn_and_nothing_else(tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s.*"], retention="interest")
    place.consumer("S", "one", filter_subject="s.1")
    log = place.account.streams["S"].log

    def published(*tokens: str) -> list[bytes]:
        for token in tokens:
            place.put(f"s.{token}", token.encode(), reply="_INBOX.ack")
            place.tick()
        return [message.payload for message in log.read_from(1, max_messages=100).messages]

    turns = place.host.turns
    assert published("1", "1", "1") == [b"1"] * 3
    assert place.host.turns == turns
    assert published("2", "1", "2") == [b"1"] * 4
    place.consumer("S", "two", filter_subject="s.2")
    assert published("2", "3") == [*[b"1"] * 4, b"2"]
    place.consumer("S", "one", filter_subject="s.3")
    assert published("1", "3")[-1] == b"3"
    place.put("$JS.API.CONSUMER.DELETE.S.two", reply="_INBOX.deleted")
    place.tick()
    assert b"2" not in published("2")
    assert place.take()[-1].payload == b'{"stream":"S","seq":11}'
    place.stop()


def test_limits_of_the_account_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def play(path: Path) -> _Played:
        place = LinkedAccount(
            path,
            SyncPolicy.INTERVAL,
            limits=AccountLimits(max_storage=2000, max_memory=700),
            settings=ServerSettings(server_name="S1", server_id="ID1", strict=True, max_storage=1500),
        )
        place.stream("S", subjects=["s"])
        place.stream("M", subjects=["m"], storage="memory")
        answers = []
        for n in range(30):
            place.put("s", bytes(90), reply=f"_INBOX.s.{n}")
            place.put("m", bytes(90), reply=f"_INBOX.m.{n}")
            place.tick()
            answers += place.take()
        place.system.update_limits("A", {"": AccountLimits(max_storage=2500)})
        place.put("s", bytes(90), reply="_INBOX.s.more")
        answers.append(Answer(b"", b"", b"", place.ask("INFO")))
        return _outcome(place, answers, path)

    by_lanes, _ = _played_both_ways(play, tmp_path, monkeypatch)
    refused = [a[0].subject for a in by_lanes.answers.values() if b'"error"' in a[0].payload]
    assert any(one.startswith(b"_INBOX.s") for one in refused)
    assert any(one.startswith(b"_INBOX.m") for one in refused)
    assert b"_INBOX.s.1" not in refused


class _OwnAppends(MemoryLog):
    """A log without appends in compiled code."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.appends = LogAppends()


def test_limits_of_the_account_hold_for_a_log_that_appends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.log.memory.MemoryLog", _OwnAppends)
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL, limits=AccountLimits(max_memory=700))
    place.stream("M", subjects=["m"], storage="memory")
    for n in range(10):
        place.put("m", bytes(90), reply=f"_INBOX.m.{n}")
        place.tick()
    refused = [answer.subject for answer in place.take() if b'"error"' in answer.payload]
    assert refused == [b"_INBOX.m.%d" % n for n in range(6, 10)]
    assert json.loads(place.ask("INFO"))["memory"] == place.account.streams["M"].log.size
    place.stop()


class _FailingFileSystem(RealFileSystem):
    """Refuses the writes whose numbers are in `failing`, or takes half of them."""

    def __init__(self, failing: set[int], *, halves: bool) -> None:
        self._failing = failing
        self._halves = halves
        self._writes = 0

    def refuse_next(self) -> None:
        self._failing.add(self._writes + 1)

    def pwrite(self, handle: int, data: Bytes, offset: int) -> int:
        self._writes += 1
        if self._writes not in self._failing:
            return super().pwrite(handle, data, offset)
        if self._halves:
            super().pwrite(handle, memoryview(data)[: len(data) // 2], offset)
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_writes_that_fail_are_told_as_ever(
    seed: int, halves: bool, policy: SyncPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    failing = {dice.randrange(10, 60) for _ in range(8)}
    burst = [dice.choice((1, 1, 3)) for _ in range(60)]

    def play(path: Path) -> _Played:
        place = LinkedAccount(path, policy, filesystem=_FailingFileSystem(set(failing), halves=halves))
        place.stream("S", subjects=["s.*"], max_msgs_per_subject=2)
        answers = []
        for tick, count in enumerate(burst):
            for n in range(count):
                place.put(f"s.{n}", b"x" * tick, reply=f"_INBOX.{tick}.{n}")
            place.tick()
            answers += place.take()
        return _outcome(place, answers, path)

    by_lanes, _ = _played_both_ways(play, tmp_path, monkeypatch)
    refused = [a[0].payload for a in by_lanes.answers.values() if b"No space left on device" in a[0].payload]
    assert refused
    assert len(by_lanes.answers) == sum(burst)


def test_log_that_could_not_be_synced_takes_nothing_unsaid(tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s"])
    log = place.account.streams["S"].log
    marks = place.committer.marks
    assert marks is not None
    place.put("s", reply="_INBOX.r")
    place.tick()
    assert marks.due is not None
    assert log in marks.due
    place.stop()


def test_lane_that_fails_keeps_no_other_from_its_work(tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s"])
    place.stream("T", subjects=["t"])
    log: Any = place.account.streams["S"].log

    def broken(*_arguments: Any) -> int:
        raise RuntimeError("a mistake")

    log.append = broken
    log._core.is_quiet = False  # else `append` is not called
    place.put("s", reply="_INBOX.s")
    place.put("t", reply="_INBOX.t")
    place.tick()
    assert [one.subject for one in place.take()] == [b"_INBOX.t"]
    (mistake,) = place.host.mistakes
    assert str(mistake) == "a mistake"
    del log.append
    place.put("s", reply="_INBOX.s")
    place.tick()
    assert [one.payload for one in place.take()] == [b'{"stream":"S","seq":1}']
    place.stop()


def test_stream_that_is_gone_takes_nothing(tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s"])
    place.ask("STREAM.DELETE.S")
    place.put("s", reply="_INBOX.r")
    place.tick()
    assert place.take() == []
    place.stream("S", subjects=["s"])
    place.put("s", reply="_INBOX.r")
    place.tick()
    assert [one.payload for one in place.take()] == [b'{"stream":"S","seq":1}']
    place.stop()


def test_lane_of_no_subscription_is_refused(tmp_path: Path) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    for sid in (0, 1 << 40):
        with pytest.raises(ValueError, match="no subscription"):
            place.host.link.open_lane(sid, Lane())
    place.stop()
