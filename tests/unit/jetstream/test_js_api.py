"""Requests to the API of one account: which are answered, with what, and what is refused how.

What configurations may say is tested with the rules; here is what the handlers themselves do. The same
requests are played against the Go server in tests/conformance.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.js_account import API, SECOND, Place
from headrace.core.service import Delivery
from headrace.errors import StorageError
from headrace.jetstream.limits import UNTIERED, AccountLimits, ServerSettings


@pytest.fixture
def place() -> Place:
    place = Place()
    place.stream("S", subjects=["s.>"])
    return place


@pytest.mark.parametrize(
    "name",
    ["FOO", "STREAM.FOO", "STREAM.INFO", "STREAM.INFO.a.b", "INFO.x", "CONSUMER.CREATE", "CONSUMER.INFO.S",
     "CONSUMER.DURABLE.CREATE.S", "STREAM.TEMPLATE.NAMES", "META.LEADER.STEPDOWN", "ACCOUNT.PURGE.A",
     "SERVER.REMOVE", "CONSUMER.RESET.S.nobody"],
)  # fmt: skip
def test_what_is_no_request_here_is_not_answered(place: Place, name: str) -> None:
    assert place.ask(name) is None


@pytest.mark.parametrize(
    "name", ["CONSUMER.MSG.NEXT.S.nobody", "CONSUMER.MSG.NEXT.X.c", "DIRECT.GET.S", "DIRECT.GET.X.s.a"]
)
def test_what_nobody_listens_to_has_no_responders(place: Place, name: str) -> None:
    answer = place.raw(API + name, "")
    assert answer is not None
    named = b"Nats-Subject: " + (API + name).encode()
    assert (answer.headers, answer.payload) == (b"NATS/1.0 503\r\n%b\r\n\r\n" % named, b"")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("STREAM.LEADER.STEPDOWN.S", "stream_leader_stepdown"),
        ("CONSUMER.LEADER.STEPDOWN.S.c", "consumer_leader_stepdown"),
        ("STREAM.PEER.REMOVE.S", "stream_remove_peer"),
        ("STREAM.PEER.EVACUATE.S", "stream_evacuate_peer"),
        ("STREAM.CANCEL_MOVE.S", "stream_cancel_move"),
    ],
)
def test_what_needs_a_cluster_is_refused(place: Place, name: str, kind: str) -> None:
    answer = place.ask(name)
    assert answer["type"] == f"io.nats.jetstream.api.v1.{kind}_response"
    assert answer["error"]["err_code"] == 10010


@pytest.mark.parametrize(
    ("name", "body", "err_code"),
    [
        ("STREAM.CREATE.T", {"name": "S"}, 10056),
        ("STREAM.CREATE.T", "", 10056),
        ("STREAM.CREATE.T", "xx", 10025),
        ("STREAM.CREATE.T", {"name": "T", "foo": 1}, 10025),
        ("STREAM.CREATE.S", {"name": "S", "subjects": ["other"]}, 10058),
        ("STREAM.CREATE.T", {"name": "T", "subjects": ["s.a"]}, 10065),
        ("STREAM.UPDATE.X", {"name": "X"}, 10059),
        ("STREAM.INFO.X", "", 10059),
        ("STREAM.INFO.S", "{", 10025),
        ("STREAM.DELETE.X", "", 10059),
        ("STREAM.DELETE.S", {"a": 1}, 10038),
        ("STREAM.PURGE.S", {"seq": 1, "keep": 1}, 10003),
        ("STREAM.PURGE.X", "", 10059),
        ("STREAM.MSG.GET.S", "", 10003),
        ("STREAM.MSG.GET.S", {"seq": 1, "last_by_subj": "s.a"}, 10003),
        ("STREAM.MSG.GET.S", {"last_by_subj": "s.a", "next_by_subj": "s.a"}, 10003),
        ("STREAM.MSG.GET.S", {"seq": 1, "batch": 1}, 10003),
        ("STREAM.MSG.GET.S", {"seq": 1}, 10037),
        ("STREAM.MSG.GET.X", {"seq": 1}, 10059),
        ("STREAM.MSG.DELETE.S", "", 10003),
        ("STREAM.MSG.DELETE.X", {"seq": 1}, 10059),
        ("CONSUMER.CREATE.S", "", 10056),
        ("CONSUMER.CREATE.X", {"stream_name": "X", "config": {}}, 10059),
        ("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"durable_name": "d"}}, 10020),
        ("CONSUMER.CREATE.S.a/b", {"stream_name": "S", "config": {}}, 10127),
        ("CONSUMER.CREATE.S.a", {"stream_name": "S", "config": {"durable_name": "d"}}, 10017),
        ("CONSUMER.CREATE.S.a", {"stream_name": "S", "config": {"num_replicas": 3}}, 10074),
        ("CONSUMER.CREATE.S.a", {"stream_name": "S", "action": "update", "config": {}}, 10149),
        ("CONSUMER.CREATE.S.a.s.x", {"stream_name": "S", "config": {"filter_subject": "s.y"}}, 10131),
        ("CONSUMER.CREATE.S.a.s.x", {"stream_name": "S", "config": {"filter_subjects": ["s.x"]}}, 10137),
        ("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": {}}, 10018),
        ("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": {"durable_name": "e"}}, 10017),
        ("CONSUMER.NAMES.X", "", 10059),
        ("CONSUMER.INFO.S.x", "", 10014),
        ("CONSUMER.INFO.S.x", "junk", 10038),
        ("CONSUMER.DELETE.S.x", "", 10014),
        ("CONSUMER.DELETE.S.x", {"a": 1}, 10038),
        ("CONSUMER.PAUSE.S.x", "", 10014),
        ("CONSUMER.UNPIN.S.x", "", 10025),
        ("CONSUMER.UNPIN.S.x", {"group": "a b"}, 10162),
        ("CONSUMER.UNPIN.S.x", {"group": "a"}, 10014),
    ],
)
def test_a_request_that_cannot_be_is_refused(place: Place, name: str, body: Any, err_code: int) -> None:
    assert place.error(name, body) == err_code


@pytest.mark.parametrize(("level", "err_code"), [("5", 0), ("6", 10185), ("x", 10185), ("", 0)])
def test_a_later_api_than_this_is_refused(place: Place, level: str, err_code: int) -> None:
    headers = f"NATS/1.0\r\nNats-Required-Api-Level: {level}\r\n\r\n".encode()
    for name in ("INFO", "STREAM.NAMES", "STREAM.INFO.S"):
        assert place.error(name, headers=headers) == err_code
    place.consumer("S", "c")
    assert place.error("CONSUMER.INFO.S.c", headers=headers) == err_code


def test_refusals_have_the_fields_that_clients_look_for(place: Place) -> None:
    assert place.ask("STREAM.NAMES", {"offset": "a"}).keys() == {
        "type", "error", "total", "offset", "limit", "streams",
    }  # fmt: skip
    assert place.ask("STREAM.PURGE.X")["purged"] == 0
    assert place.ask("CONSUMER.PAUSE.S.x")["pause_until"] == "0001-01-01T00:00:00Z"


def test_what_the_storage_refuses_is_answered(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def purge(*_arguments: object, **_options: object) -> int:
        raise StorageError("no space left on device")

    monkeypatch.setattr(place.account.streams["S"].removal, "purge", purge)
    error = place.ask("STREAM.PURGE.S")["error"]
    assert (error["err_code"], error["description"]) == (10051, "no space left on device")


def test_a_mistake_in_a_handler_leaves_no_request_under_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place.account.streams["S"].removal, "purge", None)
    place.host.mistakes = []
    assert place.error("STREAM.PURGE.S") == 10051
    assert len(place.host.mistakes) == 1
    assert place.account.api_counters.inflight == 0


def test_the_same_stream_may_be_made_again(place: Place) -> None:
    first = place.ask("STREAM.INFO.S")
    again = place.stream("S", subjects=["s.>"])
    assert again["did_create"]
    assert again["created"] == first["created"]
    assert place.ask("STREAM.NAMES")["total"] == 1


def test_an_update_takes_effect_and_lasts(place: Place) -> None:
    for number in range(5):
        place.publish(f"s.{number}")
    answer = place.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>", "t"], "max_msgs": 2})
    assert answer["state"]["messages"] == 2
    assert place.publish("t")["seq"] == 6
    assert place.ask("STREAM.INFO.S")["config"]["max_msgs"] == 2


def test_streams_are_listed_in_parts() -> None:
    place = Place()
    for number in range(300):
        place.stream(f"S{number:03}", subjects=[f"s.{number}"], storage="memory")
    listed = place.ask("STREAM.LIST")
    assert (listed["total"], listed["offset"], listed["limit"], len(listed["streams"])) == (300, 0, 256, 256)
    rest = place.ask("STREAM.LIST", {"offset": 256})
    assert [one["config"]["name"] for one in rest["streams"]] == [f"S{number}" for number in range(256, 300)]
    beyond = place.ask("STREAM.NAMES", {"offset": 500})
    assert (beyond["offset"], beyond["streams"]) == (300, None)
    assert place.ask("STREAM.NAMES", {"subject": "s.7"})["streams"] == ["S007"]
    assert place.ask("STREAM.NAMES", {"subject": "*.*"})["total"] == 300


def test_subjects_of_a_stream_are_counted(place: Place) -> None:
    for subject in ("s.a", "s.b", "s.a"):
        place.publish(subject)
    info = place.ask("STREAM.INFO.S", {"subjects_filter": ">"})
    assert info["state"]["subjects"] == {"s.a": 2, "s.b": 1}
    assert (info["total"], info["limit"]) == (2, 100_000)
    assert place.ask("STREAM.INFO.S", {"subjects_filter": "nothing"})["total"] == 0
    assert "subjects" not in place.ask("STREAM.INFO.S", {"subjects_filter": ">", "offset": 5})["state"]


def test_deleted_messages_are_told_when_asked_for(place: Place) -> None:
    for _ in range(4):
        place.publish("s.a")
    assert place.ask("STREAM.MSG.DELETE.S", {"seq": 2})["success"]
    assert place.error("STREAM.MSG.DELETE.S", {"seq": 2}) == 10043
    info = place.ask("STREAM.INFO.S", {"deleted_details": True})
    assert (info["state"]["num_deleted"], info["state"]["deleted"]) == (1, [2])


def test_a_message_is_read_with_its_headers_and_time(place: Place) -> None:
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    place.publish("s.a", b"hello", headers=block)
    message = place.ask("STREAM.MSG.GET.S", {"last_by_subj": "s.*"})["message"]
    assert message == {
        "subject": "s.a",
        "seq": 1,
        "hdrs": "TkFUUy8xLjANCkE6IGINCg0K",
        "data": "aGVsbG8=",
        "time": "2027-01-15T08:00:00Z",
    }
    assert "hdrs" not in place.ask("STREAM.MSG.GET.S", {"seq": 1, "no_hdr": True})["message"]
    assert place.ask("STREAM.MSG.GET.S", {"next_by_subj": "s.a"})["message"]["seq"] == 1


def test_what_was_published_before_a_request_is_in_its_answer(place: Place) -> None:
    place.host.put(b"s.a", b"", b"")
    assert place.ask("STREAM.INFO.S")["state"]["messages"] == 1


def test_consumers_without_a_name_get_one(place: Place) -> None:
    answer = place.ask("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"ack_policy": "explicit"}})
    assert len(answer["name"]) == 8
    assert "name" not in answer["config"]
    assert place.ask("CONSUMER.NAMES.S")["consumers"] == [answer["name"]]


def test_a_consumer_that_is_there_is_changed(place: Place) -> None:
    made = place.consumer("S", "c")
    place.host.now += SECOND
    changed = place.consumer("S", "c", description="other")
    assert (changed["created"], changed["config"]["description"]) == (made["created"], "other")
    body = {"stream_name": "S", "action": "create", "config": {"durable_name": "c", "ack_policy": "explicit"}}
    assert place.error("CONSUMER.CREATE.S.c", body) == 10148


def test_where_a_bound_consumer_delivers_is_not_changed(place: Place) -> None:
    push: dict[str, Any] = {"max_ack_pending": 10, "deliver_subject": "d.1"}
    place.consumer("S", "p", **push)
    config = {"durable_name": "p", "ack_policy": "explicit", **push, "deliver_subject": "d.2"}
    body = {"stream_name": "S", "config": config}
    assert place.error("CONSUMER.CREATE.S.p", body) == 10013
    place.host.deaf.add(b"d.1")
    assert place.error("CONSUMER.CREATE.S.p", body) == 0


def test_a_pause_is_told_and_ends(place: Place) -> None:
    place.consumer("S", "c")
    place.host.heard.add(b"$JS.EVENT.ADVISORY.CONSUMER.PAUSE.>")
    answer = place.ask("CONSUMER.PAUSE.S.c", {"pause_until": "2027-01-15T08:01:00Z"})
    assert (answer["paused"], answer["pause_remaining"]) == (True, 60 * SECOND)
    assert [one["paused"] for one in place.advisories()] == [True]
    info = place.ask("CONSUMER.INFO.S.c")
    assert info["paused"]
    assert info["config"]["metadata"]["_nats.req.level"] == "1"
    assert place.ask("CONSUMER.PAUSE.S.c")["paused"] is False
    assert "paused" not in place.ask("CONSUMER.INFO.S.c")


def test_a_reset_starts_again(place: Place) -> None:
    place.consumer("S", "c")
    for _ in range(3):
        place.publish("s.a")
    place.fetch("S", "c", 3)
    answer = place.ask("CONSUMER.RESET.S.c", {"seq": 2})
    assert (answer["reset_seq"], answer["num_pending"]) == (2, 2)
    assert len(place.fetch("S", "c", 3)) == 2


def test_consumers_of_mirrors_are_told_which_stream_it_is(place: Place) -> None:
    config = {"deliver_subject": "d", "direct": True, "ack_policy": "none"}
    body = json.dumps({"stream_name": "S", "config": config})
    answer = place.raw(API + "CONSUMER.CREATE.S", body)
    assert answer is not None
    assert answer.headers.startswith(b"NATS/1.0\r\nNats-Stream-Identity: ")
    assert place.ask("CONSUMER.LIST.S")["total"] == 0
    config |= {"name": "JS_SRC_x", "sourcing": True}
    named = place.ask("CONSUMER.CREATE.S.JS_SRC_x", {"stream_name": "S", "config": config})["name"]
    assert named.startswith("JS_SRC_x-")
    assert place.ask("CONSUMER.LIST.S")["total"] == 0
    headers = b"NATS/1.0\r\nNats-Stream-Identity: other\r\n\r\n"
    assert place.error("CONSUMER.CREATE.S", body, headers=headers) == 10225


def test_a_source_of_a_work_queue_is_a_consumer_that_lasts() -> None:
    place = Place()
    place.stream("W", subjects=["w"], retention="workqueue")
    place.publish("w", b"1")
    config = {
        "name": "JS_SRC_x", "deliver_subject": "d", "direct": True, "sourcing": True, "ack_policy": "none",
        "flow_control": True, "idle_heartbeat": SECOND, "max_ack_pending": 100,
    }  # fmt: skip
    body = {"stream_name": "W", "config": config}
    made = place.ask("CONSUMER.CREATE.W.JS_SRC_x", body)
    assert (made["config"]["durable_name"], made["config"]["ack_policy"]) == ("JS_SRC_x", "flow_control")
    assert place.ask("CONSUMER.NAMES.W")["consumers"] == ["JS_SRC_x"]
    again = place.ask("CONSUMER.CREATE.W.JS_SRC_x", body)
    assert again["created"] == made["created"]
    assert [one.payload for one in place.host.sent if one.to == b"d" and one.payload] == [b"1"]


def test_limits_of_an_account_are_kept_to() -> None:
    place = Place(limits=AccountLimits(max_streams=1, max_consumers=1, max_storage=1000))
    place.stream("S", subjects=["s"], max_bytes=1000)
    assert place.error("STREAM.CREATE.T", {"name": "T"}) == 10027
    place.consumer("S", "c")
    assert place.error("CONSUMER.CREATE.S.d", {"stream_name": "S", "config": {"name": "d"}}) == 10026
    info = place.ask("INFO")
    assert (info["reserved_storage"], info["limits"]["max_storage"]) == (1000, 1000)
    assert (info["streams"], info["consumers"]) == (1, 1)


def test_a_publication_over_the_limit_of_its_account_is_refused() -> None:
    place = Place(limits=AccountLimits(max_memory=500))
    place.stream("M", subjects=["m"], storage="memory")
    assert place.publish("m", b"x" * 200)["seq"] == 1
    assert place.publish("m", b"x" * 300)["error"]["err_code"] == 10002
    place.ask("STREAM.PURGE.M")
    assert place.publish("m", b"x" * 300)["seq"] == 2


def test_a_server_that_is_full_takes_nothing() -> None:
    place = Place(settings=ServerSettings(max_memory=100))
    place.stream("M", subjects=["m"], storage="memory")
    assert place.publish("m", b"x" * 200)["seq"] == 1
    assert place.publish("m", b"")["error"]["err_code"] == 10023


def test_new_limits_hold_from_then_on() -> None:
    place = Place()
    place.stream("S")
    place.system.update_limits("A", {UNTIERED: AccountLimits(max_streams=1)})
    assert place.error("STREAM.CREATE.T", {"name": "T"}) == 10027


def test_limits_by_tier_are_told_by_tier() -> None:
    place = Place(tiers={"R1": AccountLimits(max_storage=5000), "R3": AccountLimits()})
    place.stream("S", subjects=["s"], max_bytes=100)
    place.publish("s", b"x")
    info = place.ask("INFO")
    assert info["limits"]["max_storage"] == 0
    assert info["tiers"]["R1"]["limits"]["max_storage"] == 5000
    assert info["tiers"]["R1"]["reserved_storage"] == 100
    assert info["tiers"]["R1"]["storage"] == info["storage"] > 0
    assert info["tiers"]["R3"]["streams"] == 0


def test_an_account_without_limits_for_one_replica_takes_no_stream() -> None:
    place = Place(tiers={"R3": AccountLimits()})
    assert place.error("STREAM.CREATE.S", {"name": "S"}) == 10120


def test_requests_are_counted(place: Place) -> None:
    before = place.ask("INFO")["api"]
    place.ask("STREAM.NAMES")
    place.ask("STREAM.INFO.X")
    place.ask("STREAM.MSG.GET.S", {"seq": 1})
    after = place.ask("INFO")["api"]
    assert (after["total"] - before["total"], after["errors"] - before["errors"]) == (4, 2)
    assert place.account.api_counters.inflight == place.system.api.inflight == 0


def test_what_was_done_is_told_to_those_who_listen(place: Place) -> None:
    place.host.heard.add(b"$JS.EVENT.ADVISORY.>")
    place.stream("T")
    created, audit = place.advisories()
    assert (created["type"], created["stream"], created["action"]) == (
        "io.nats.jetstream.advisory.v1.stream_action", "T", "create",
    )  # fmt: skip
    assert (audit["subject"], audit["server"]) == ("$JS.API.STREAM.CREATE.T", "S1")
    assert json.loads(audit["request"]) == {"name": "T"}
    assert json.loads(audit["response"])["did_create"]
    place.consumer("T", "c")
    place.ask("STREAM.DELETE.T")
    kinds = [(one["type"].rpartition(".")[2], one.get("action")) for one in place.advisories()]
    assert kinds == [("consumer_action", "delete"), ("stream_action", "delete"), ("api_audit", None)]


def test_advisories_have_the_domain() -> None:
    place = Place(settings=ServerSettings(domain="hub"))
    place.host.heard.add(b"$JS.EVENT.ADVISORY.STREAM.>")
    place.stream("S")
    assert [one["domain"] for one in place.advisories()] == ["hub"]
    assert place.ask("INFO")["domain"] == "hub"
    assert place.ask("STREAM.INFO.S")["domain"] == "hub"


class _Listener:
    """As much of a host as a service that only refuses needs."""

    def __init__(self) -> None:
        self.answers: list[tuple[bytes, bytes]] = []

    def subscribe(self, subject: bytes) -> int:
        assert subject == b"$JS.API.>"
        return 1

    def unsubscribe(self, sid: int) -> None:
        self.answers.clear()

    def publish(self, subject: bytes, payload: bytes, *, headers: bytes = b"") -> None:
        assert subject == b"r"
        self.answers.append((headers, payload))


def _asked(service: Any, name: str) -> list[tuple[bytes, Any]]:
    host = _Listener()
    service.start(host)
    service.deliver([Delivery(1, f"$JS.API.{name}".encode(), b"r", b"", b"")])
    return [(headers, json.loads(payload) if payload else None) for headers, payload in host.answers]


@pytest.mark.parametrize(
    ("name", "err_code"),
    [
        ("INFO", 10039),
        ("STREAM.NAMES", 10039),
        ("CONSUMER.CREATE.S.c", 10039),
        ("STREAM.PEER.REMOVE.S", 10010),
    ],
)
def test_an_account_without_jetstream_refuses_by_name(place: Place, name: str, err_code: int) -> None:
    ((_, answer),) = _asked(place.system.refusing_service(), name)
    assert answer["error"]["err_code"] == err_code


def test_an_account_without_jetstream_has_nobody_for_the_rest(place: Place) -> None:
    assert _asked(place.system.refusing_service(), "FOO") == []
    assert _asked(place.system.refusing_service(), "CONSUMER.MSG.NEXT.S.c") == [
        (b"NATS/1.0 503\r\nNats-Subject: $JS.API.CONSUMER.MSG.NEXT.S.c\r\n\r\n", None)
    ]


def test_the_system_account_empties_accounts_and_refuses_the_rest(place: Place) -> None:
    ((_, answer),) = _asked(place.system.system_requests(), "ACCOUNT.PURGE.A")
    assert answer == {"type": "io.nats.jetstream.api.v1.account_purge_response", "initiated": True}
    assert place.ask("STREAM.NAMES")["total"] == 0
    ((_, answer),) = _asked(place.system.system_requests(), "ACCOUNT.PURGE.A/B")
    assert answer["error"]["err_code"] == 10051
    ((_, answer),) = _asked(place.system.system_requests(), "STREAM.NAMES")
    assert answer["type"] == "io.nats.jetstream.api.v1.system_response"
    ((_, answer),) = _asked(place.system.system_requests(), "INFO")
    assert answer["type"] == "io.nats.jetstream.api.v1.account_info_response"
    assert _asked(place.system.system_requests(), "META.LEADER.STEPDOWN") == []
