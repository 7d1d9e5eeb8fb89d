"""Requests to the API that compiled code answers: as Python does it, byte for byte.

Scripts are played twice, with lanes and without; whatever reached an inbox must be the same.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness import depth
from harness.js_account import API, SECOND
from harness.linked_account import Answer, LinkedAccount, files, same_salts
from harness.tallies import note
from headrace.engine.lanes import use_lanes
from headrace.log.port import SyncPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEEDS: Final = 40
STEPS: Final = 150
CONSUMERS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "few": {"max_ack_pending": 3, "ack_wait": 2 * SECOND},
    "unbounded": {"max_ack_pending": -1, "max_expires": SECOND},
    "all": {"ack_policy": "all"},
    "none": {"ack_policy": "none"},
    "filtered": {"filter_subject": "*.a"},
    "late": {"deliver_policy": "new", "max_deliver": 2, "ack_wait": SECOND},
    "last": {"deliver_policy": "last_per_subject", "filter_subject": ">"},
    "slow": {"backoff": [SECOND, 2 * SECOND], "max_deliver": 3},
    "bare": {"headers_only": True},
    "waits": {"max_waiting": 1, "max_batch": 1},
    "ranked": {"priority_policy": "prioritized", "priority_groups": ["g"]},
    "replayed": {"replay_policy": "original"},
    "memory": {"mem_storage": True},
    "pushed": {"deliver_subject": "to.nobody"},
}
PULLS: Final = (
    b"", b"1", b"2", b"0", b"{}", b'{"batch":1}', b'{"batch":1,"expires":1000000000}',
    b'{"batch":3,"no_wait":true}', b'{"batch":1,"no_wait":true}',
    b'{"batch":1,"expires":9000000000,"idle_heartbeat":500000000}', b'{"batch":-1}',
    b'{"batch":1,"max_bytes":50}', b'{"group":"g"}', b'{"group":"g","priority":1}', b'{"idle_heartbeat":1}',
    b"x", b'{"batch":1}{',
)  # fmt: skip
STREAMS: Final[dict[str, dict[str, Any]]] = {
    "files": {"allow_direct": True},
    "memory": {"allow_direct": True, "storage": "memory"},
    "history": {"allow_direct": True, "max_msgs_per_subject": 1},
    "packed": {"allow_direct": True, "compression": "s2"},
    "refuses": {},
    "silent": {"allow_direct": True, "no_ack": True},
    "kept": {"allow_direct": True, "deny_delete": True},
}
HEADERS: Final = (b"", b"", b"NATS/1.0\r\nA: 1\r\n\r\n", b"NATS/1.0\r\nNats-Required-Api-Level: 1000\r\n\r\n")
BODIES: Final = (
    b"", b"{}", b'{"seq":1}', b'{"seq":0}', b'{"seq":1,"batch":2}', b"nonsense",
    b'{"last_by_subj":"files.a"}', b'{"next_by_subj":"files.>"}', b'{"multi_last":["files.>"],"batch":5}',
)  # fmt: skip


DELETIONS: Final = (
    b'{"seq":%d,"no_erase":true}', b'{"seq":%d,"no_erase":true}', b'{"seq":%d,"no_erase":true}',
    b'{"seq":%d,"no_erase":false}', b'{"seq":%d}', b'{"seq":%dx,"no_erase":true}',
    b'{"seq":%d,"no_erase":true}}',
)  # fmt: skip
"""Of single messages; the first form is that of MQTT, which compiled code gathers."""


@pytest.fixture(autouse=True)
def _lanes_are_used() -> Iterator[None]:
    before = use_lanes(True)
    yield
    use_lanes(before)


def _request(dice: random.Random) -> tuple[str, bytes]:  # noqa: PLR0911 - a table
    """The rest of an API subject, and a body."""
    name = dice.choice([*STREAMS, "nobody"])
    subject = f".{name}.{dice.choice('abcx*>')}" if dice.random() < 0.3 else ""
    match dice.randrange(9):
        case 0:
            return f"DIRECT.GET.{name}.{name}.{dice.choice('abcx')}", dice.choice(
                (b"", b"", b"", b"{}", b"x")
            )
        case 1:
            return f"DIRECT.GET.{name}", b'{"seq":%d}' % dice.randrange(30)
        case 2:
            return f"DIRECT.GET.{name}", b'{"last_by_subj":"%b.%b"}' % (
                name.encode(),
                dice.choice((b"a", b"x")),
            )
        case 3:
            return f"DIRECT.GET.{name}{subject}", dice.choice(BODIES)
        case 4:
            return dice.choice(
                ("DIRECT.GET", "DIRECT.GET.", "DIRECT", "CONSUMER.MSG.NEXT.files.none", "X")
            ), b""
        case 5:
            return f"STREAM.MSG.GET.{name}", b'{"seq":%d}' % dice.randrange(30)
        case _:
            sequence = dice.choice((dice.randrange(30), dice.randrange(300), 10 ** dice.randrange(22)))
            return f"STREAM.MSG.DELETE.{dice.choice([name, 'files'])}", dice.choice(DELETIONS) % sequence


def _by_inbox(answers: list[Answer]) -> dict[bytes, list[Answer]]:
    """What reached each subject, in order. What different requests lead to may come in any order."""
    found: dict[bytes, list[Answer]] = {}
    for one in answers:
        found.setdefault(one.subject, []).append(one)
    return found


def _play(seed: int, policy: SyncPolicy, directory: Path) -> tuple[dict[bytes, list[Answer]], int]:
    """What reached the client, by inbox, and how many turns the service had."""
    dice = random.Random(seed)
    place = LinkedAccount(directory, policy)
    answers: list[Answer] = []
    for name, config in STREAMS.items():
        place.stream(name, subjects=[f"{name}.>"], **config)
    for step in range(STEPS):
        for _ in range(dice.choice((0, 1, 1, 3))):
            name = dice.choice([*STREAMS])
            reply = dice.choice(("", f"_INBOX.p.{name}"))
            place.put(f"{name}.{dice.choice('abc')}", dice.randbytes(dice.choice((0, 5, 5000))), reply=reply)
        place.tick()  # in a turn of Python nothing of it is durable before the end, as some gets want it
        for _ in range(dice.choice((0, 1, 1, 3, 6))):
            rest, body = _request(dice)
            headers = dice.choice(HEADERS) if dice.random() < 0.2 else b""
            place.put(API + rest, body, reply=dice.choice((f"_INBOX.{step}",) * 9 + ("",)), headers=headers)
        if dice.random() < 0.05:
            name = dice.choice([*STREAMS])
            body = dice.choice((b"{}", b'{"keep":2}', b'{"seq":5}'))
            place.put(f"{API}STREAM.PURGE.{name}", body, reply="_INBOX.purge")
        if dice.random() < 0.05:
            place.put(
                f"{API}STREAM.MSG.DELETE.files", b'{"seq":%d}' % dice.randrange(1, 30), reply="_INBOX.delete"
            )
        place.pass_time(dice.choice((0, 0, 0.3)))
        answers += place.take()
    turns = place.host.turns
    assert place.host.mistakes == []
    place.stop()
    return _by_inbox(answers), turns


@pytest.mark.parametrize("policy", [SyncPolicy.INTERVAL, SyncPolicy.GROUP])
@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_requests_are_answered_as_in_python(seed: int, policy: SyncPolicy, tmp_path: Path) -> None:
    found = []
    for lanes in (True, False):
        use_lanes(lanes)
        found.append(_play(seed, policy, tmp_path / str(lanes)))
    (by_lanes, turns), (by_python, all_turns) = found
    assert by_lanes == by_python
    note("turns of Python that lanes saved, of requests and publications", all_turns - turns)
    assert turns < all_turns


def _pull_play(seed: int, policy: SyncPolicy, directory: Path) -> tuple[dict[bytes, list[Answer]], int]:
    """What reached the client, by inbox, and how many turns the service had; consumers of one stream."""
    dice = random.Random(seed)
    place = LinkedAccount(directory, policy)
    storage = dice.choice(("file", "file", "memory"))
    limits = dice.choice(({}, {}, {"max_msgs": 20}, {"max_msgs_per_subject": 2}, {"retention": "workqueue"}))
    place.stream("S", subjects=["s.>"], storage=storage, **limits)
    several = (
        [*CONSUMERS] if limits.get("retention") != "workqueue" else [dice.choice(("plain", "few", "slow"))]
    )
    for name in several:
        place.consumer("S", name, **CONSUMERS[name])
    answers: list[Answer] = []
    for step in range(STEPS):
        for _ in range(dice.choice((0, 1, 1, 4))):
            place.put(f"s.{dice.choice('abc')}", dice.randbytes(dice.choice((0, 5, 90))))
        # In a turn of Python a pull is judged before what was published in it, and served after all.
        place.tick()
        for _ in range(dice.choice((1, 1, 3))):
            given = sorted(one.reply.decode() for one in answers if one.reply.startswith(b"$JS.ACK."))
            if given and dice.random() < 0.4:
                word = dice.choice((b"", b"+ACK", b"-NAK", b"+WPI", b"+TERM", b"+NXT"))
                reply = dice.choice(("", f"_INBOX.acked.{step}"))
                place.put(dice.choice(given), word, reply=reply)
            else:
                name = dice.choice([*several, "nobody"] if dice.random() < 0.1 else several[:4])
                reply = dice.choice((f"_INBOX.pull.{step}",) * 12 + ("", "deaf.inbox"))
                place.put(f"{API}CONSUMER.MSG.NEXT.S.{name}", dice.choice(PULLS), reply=reply)
            place.tick()
            answers += place.take()
        if dice.random() < 0.04:
            place.put(
                f"{API}STREAM.MSG.DELETE.S", b'{"seq":%d}' % dice.randrange(1, 60), reply="_INBOX.delete"
            )
        if dice.random() < 0.03:
            place.put(f"{API}STREAM.PURGE.S", b'{"keep":3}', reply="_INBOX.purge")
        if dice.random() < 0.05:
            place.put(f"{API}CONSUMER.INFO.S.{dice.choice(several)}", reply=f"_INBOX.info.{step}")
        place.pass_time(dice.choice((0, 0, 0.01, 0.3, 1.5)))
        answers += place.take()
    turns = place.host.turns
    assert place.host.mistakes == []
    place.stop()
    answers += place.take()
    return _by_inbox(answers), turns


@pytest.mark.parametrize("policy", [SyncPolicy.INTERVAL, SyncPolicy.GROUP])
@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_pulls_are_answered_as_in_python(
    seed: int, policy: SyncPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for lanes in (True, False):
        use_lanes(lanes)
        same_salts(monkeypatch)
        found.append(_pull_play(seed, policy, tmp_path / str(lanes)))
    (by_lanes, turns), (by_python, all_turns) = found
    assert by_lanes == by_python
    note("turns of Python that lanes saved, of pulls", all_turns - turns)
    assert files(tmp_path / "True") == files(tmp_path / "False")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LinkedAccount]:
    made = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    yield made
    made.stop()


def _get(place: LinkedAccount, rest: str, body: bytes = b"") -> tuple[bytes, int]:
    """The headers of an answer, and how many turns it took."""
    before = place.host.turns
    place.put(f"{API}DIRECT.GET.{rest}", body, reply="_INBOX.get")
    place.tick()
    (answer,) = place.take()
    return answer.headers, place.host.turns - before


def test_a_direct_get_takes_no_turn(place: LinkedAccount) -> None:
    place.stream("S", subjects=["s.>"], allow_direct=True)
    place.put("s.a", b"1")
    place.tick()
    assert _get(place, "S.s.a") == (_get(place, "S", b'{"seq":1}')[0], 0)
    assert _get(place, "S.s.b") == (b"NATS/1.0 404 Message Not Found\r\n\r\n", 0)
    assert _get(place, "S.s.*")[1] == 1


def test_a_stream_that_stops_to_allow_them_is_asked_no_more(place: LinkedAccount) -> None:
    place.stream("S", subjects=["s.>"], allow_direct=True)
    place.put("s.a", b"1")
    place.tick()
    assert _get(place, "S.s.a")[1] == 0
    place.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": False})
    assert b"503" in _get(place, "S.s.a")[0]
    place.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True})
    assert b"Nats-Sequence: 1\r\n" in _get(place, "S.s.a")[0]
    place.ask("STREAM.DELETE.S")
    assert b"503" in _get(place, "S.s.a")[0]


def test_a_get_is_answered_after_what_was_published_before_it(place: LinkedAccount) -> None:
    place.stream("S", subjects=["s.>"], allow_direct=True)
    for number in range(1, 4):
        place.put("s.a", b"%d" % number, reply="_INBOX.ack")
        place.put(f"{API}DIRECT.GET.S.s.a", reply="_INBOX.get")
    place.tick()
    found = [one.payload for one in place.take() if one.subject == b"_INBOX.get"]
    assert found == [b"1", b"2", b"3"]


def test_a_pull_of_a_message_that_is_there_takes_no_turn(place: LinkedAccount) -> None:
    place.stream("S", subjects=["s.>"])
    place.consumer("S", "C")
    for number in range(4):
        place.put("s.a", b"%d" % number)
    place.pass_time(1)
    found = []
    for _ in range(6):
        before = place.host.turns
        place.put(f"{API}CONSUMER.MSG.NEXT.S.C", b'{"batch":1,"expires":5000000000}', reply="_INBOX.pull")
        place.tick()
        found.append((*[(one.payload, one.subject) for one in place.take()], place.host.turns - before))
    # the first makes it known that there is something to be written soon
    assert [turns for *_, turns in found] == [1, 0, 0, 0, 1, 1]
    assert [messages for *messages, _ in found] == [
        [(b"0", b"s.a")], [(b"1", b"s.a")], [(b"2", b"s.a")], [(b"3", b"s.a")], [], []
    ]  # fmt: skip


@pytest.mark.parametrize("is_audited", [False, True])
@pytest.mark.parametrize("storage", ["file", "memory"])
def test_deletions_of_one_tick_are_one_write(
    storage: str, is_audited: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = LinkedAccount(tmp_path, SyncPolicy.INTERVAL)
    place.stream("S", subjects=["s"], storage=storage)
    for _ in range(20):
        place.put("s", b"x")
    place.tick()
    log = place.account.streams["S"].log
    removals: list[int] = []
    remove = log.remove
    monkeypatch.setattr(type(log), "remove", lambda _, some: (removals.append(len(some)), remove(some))[1])
    if is_audited:
        place._link.subscribe(b"$JS.EVENT.ADVISORY.API")
    for sequence in range(1, 11):
        place.put(f"{API}STREAM.MSG.DELETE.S", b'{"seq":%d,"no_erase":true}' % sequence, reply="_INBOX.gone")
    place.pass_time(0)
    answers = [one for one in place.take() if one.subject == b"_INBOX.gone"]
    assert [b'"success":true' in one.payload for one in answers] == [True] * 10
    assert removals == ([] if is_audited else [10])
    assert log.state().messages == 10
    place.stop()
