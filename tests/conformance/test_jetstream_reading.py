"""Messages asked for: STREAM.MSG.GET, direct gets and batches of them; and the advisories of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.jetstream_plays import Play, Scenario, Scenarios, compare, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes import ServerProcess

pytestmark = pytest.mark.clients

SCENARIOS: Final = Scenarios()

PAST: Final = "2020-01-01T00:00:00Z"
FUTURE: Final = "2090-01-01T00:00:00Z"

GETS: Final[list[Any]] = [
    None, {}, b"{", b"[]", {"seq": 1}, {"seq": 2}, {"seq": 3}, {"seq": 0}, {"seq": 99}, {"seq": -1},
        {"seq": "x"},
    {"last_by_subj": "s.0"}, {"last_by_subj": "s.9"}, {"last_by_subj": "s.*"}, {"last_by_subj": ""},
    {"last_by_subj": "s..a"}, {"last_by_subj": "s.0", "seq": 1}, {"next_by_subj": "s.1"},
    {"next_by_subj": "s.1", "seq": 3}, {"next_by_subj": "s.1", "seq": 99}, {"next_by_subj": "s.*", "seq": 2},
    {"next_by_subj": ">", "seq": 0}, {"next_by_subj": "s.1", "last_by_subj": "s.1"}, {"start_time": PAST},
    {"start_time": FUTURE}, {"start_time": "x"}, {"start_time": PAST, "seq": 2}, {"seq": 1, "no_hdr": True},
    {"seq": 4, "no_hdr": True}, {"seq": 1, "colour": 1}, {"start_time": PAST, "next_by_subj": "s.1"},
    {"seq": 1, "batch": 3}, {"multi_last": ["s.*"]},
]  # fmt: skip


def _filled(play: Play, **config: Any) -> None:
    play.stream("S", ["s.>"], **config)
    for number in range(1, 11):
        play.publish(f"s.{number % 3}", f"m{number}", {"N": str(number)} if number % 2 == 0 else None)
    for sequence in (2, 5):
        play.api("STREAM.MSG.DELETE.S", {"seq": sequence})


def _message_get(storage: str) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        _filled(play, storage=storage)
        for request in GETS:
            play.say(repr(request))
            play.api("STREAM.MSG.GET.S", request)

    return act


@SCENARIOS.add
def message_get_of_an_empty_stream(play: Play) -> None:
    play.stream("S", ["s.>"], allow_direct=True)
    for request in GETS:
        play.api("STREAM.MSG.GET.S", request)
        play.say(shown(play.wire.request("$JS.API.DIRECT.GET.S", request)))


@SCENARIOS.add
def direct_get(play: Play) -> None:
    _filled(play, allow_direct=True)
    for request in GETS:
        if request not in ({"seq": 1, "batch": 3}, {"multi_last": ["s.*"]}):
            play.say(repr(request), shown(play.wire.request("$JS.API.DIRECT.GET.S", request)))
    for subject in ("s.0", "s.1", "s.9", "s.*", "t", ">"):
        play.say(shown(play.wire.request(f"$JS.API.DIRECT.GET.S.{subject}")))
        play.say(shown(play.wire.request(f"$JS.API.DIRECT.GET.S.{subject}", b"{}")))
        play.say(shown(play.wire.request(f"$JS.API.DIRECT.GET.S.{subject}", {"seq": 1})))


@SCENARIOS.add
def direct_get_where_it_is_not_allowed(play: Play) -> None:
    _filled(play)
    play.say(shown(play.wire.request("$JS.API.DIRECT.GET.S", {"seq": 1})))
    play.say(shown(play.wire.request("$JS.API.DIRECT.GET.S.s.0")))
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True})
    play.say(shown(play.wire.request("$JS.API.DIRECT.GET.S", {"seq": 1})))
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"]})
    play.say(shown(play.wire.request("$JS.API.DIRECT.GET.S", {"seq": 1})))
    play.say(shown(play.wire.request("$JS.API.DIRECT.GET.T", {"seq": 1})))


BATCHES: Final[list[dict[str, Any]]] = [
    {"batch": 3, "seq": 1}, {"batch": 3, "seq": 4}, {"batch": 99, "seq": 1}, {"batch": 3, "seq": 99},
    {"batch": 3}, {"batch": 0, "seq": 1}, {"batch": -1, "seq": 1}, {"batch": 3, "next_by_subj": "s.1",
    "seq": 1},
    {"batch": 3, "next_by_subj": "s.*"}, {"batch": 3, "next_by_subj": "s.9", "seq": 1},
    {"batch": 9, "seq": 1, "max_bytes": 60}, {"batch": 9, "seq": 1, "max_bytes": 1},
    {"batch": 3, "start_time": PAST}, {"batch": 3, "start_time": FUTURE},
    {"batch": 3, "start_time": PAST, "next_by_subj": "s.1"}, {"batch": 3, "last_by_subj": "s.1"},
    {"batch": 3, "seq": 1, "no_hdr": True},
    {"multi_last": ["s.*"]}, {"multi_last": ["s.0", "s.2"]}, {"multi_last": ["s.9"]}, {"multi_last": [">"]},
    {"multi_last": []}, {"multi_last": ["s.*"], "batch": 2}, {"multi_last": ["s.*"], "batch": 2, "seq": 9},
    {"multi_last": ["s.*"], "up_to_seq": 8}, {"multi_last": ["s.*"], "up_to_seq": 1},
    {"multi_last": ["s.*"], "up_to_time": FUTURE}, {"multi_last": ["s.*"], "up_to_time": PAST},
    {"multi_last": ["s.*"], "up_to_seq": 8, "up_to_time": FUTURE}, {"multi_last": ["s..a"]},
    {"multi_last": ["s.*"], "max_bytes": 60}, {"multi_last": ["s.0", "s.0"]},
    {"multi_last": ["s.*"], "no_hdr": True},
]  # fmt: skip


def _direct_get_of_many(storage: str) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        _filled(play, allow_direct=True, storage=storage)
        for request in BATCHES:
            sid, subject = play.inbox()
            play.wire.publish("$JS.API.DIRECT.GET.S", request, reply=subject)
            play.say(request)
            is_one = request.get("batch", 1) <= 0 or request.get("multi_last") == []
            play.take(sid, 1 if is_one else None)

    return act


for _storage in ("file", "memory"):
    SCENARIOS.row(f"message get from {_storage}", _message_get(_storage))
    SCENARIOS.row(f"direct get of many from {_storage}", _direct_get_of_many(_storage))


@SCENARIOS.add
def direct_get_of_too_many_subjects(play: Play) -> None:
    play.stream("S", ["s.>"], allow_direct=True)
    play.fill(1025, "s.#")
    play.say(shown(play.wire.request("$JS.API.DIRECT.GET.S", {"multi_last": ["s.*"]})))


@SCENARIOS.add
def advisories_of_the_api(play: Play) -> None:
    sid = play.listen("$JS.EVENT.ADVISORY.>")
    play.stream("S", ["s.>"])
    play.events(sid, 2)
    play.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs": 5})
    play.events(sid, 2)
    play.consumer()
    play.events(sid, 2)
    play.api("CONSUMER.PAUSE.S.C", {"pause_until": FUTURE})
    play.events(sid, 2)
    play.api("CONSUMER.DELETE.S.C")
    play.events(sid, 2)
    play.api("STREAM.PURGE.S")
    play.events(sid, 1)
    play.api("STREAM.INFO.T")
    play.events(sid, 1)
    play.api("STREAM.CREATE.S", b"{")
    play.events(sid, 1)
    play.api("STREAM.DELETE.S")
    play.events(sid, 2)


@pytest.mark.parametrize("scenario", SCENARIOS.all, ids=str)
def test_reading(scenario: Scenario, jetstream_pair: tuple[ServerProcess, ServerProcess]) -> None:
    compare(scenario, *jetstream_pair)
