"""Replicas, and requests about the servers of a stream, where servers of a cluster share the streams.

What is refused and how is what nats-server 2.15.1 says in a cluster of three: tests/conformance plays both.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.js_account import START, Place
from headrace.jetstream.leadership import ClusterPeer, Leadership
from headrace.jetstream.limits import ServerSettings

STREAM = {"name": "S", "subjects": ["s.>"]}


class Shared:
    """A server that leads the streams of a cluster; `handed` counts what it was asked to give up."""

    def __init__(self, *, cluster: str = "C", peers: tuple[str, ...] = ("S2", "S3")) -> None:
        self.handed = 0
        self.preferred: list[str] = []
        self.has_others = bool(peers)
        led = Leadership(
            cluster, "S1", is_leader=True, peers=tuple(ClusterPeer(name, 0) for name in peers), since_ns=START
        )
        settings = ServerSettings(server_name="S1", leadership=lambda: led, hand_over=self._hand_over)
        self.place = Place(settings=settings)

    def _hand_over(self, preferred: str) -> bool:
        self.preferred.append(preferred)
        self.handed += self.has_others
        return self.has_others

    def led_for(self, seconds: int) -> Place:
        self.place.host.pass_time(seconds)
        return self.place


@pytest.fixture
def shared() -> Shared:
    return Shared()


def config(**fields: Any) -> dict[str, Any]:
    return {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit", **fields}}


@pytest.mark.parametrize(("asked", "kept"), [(0, 1), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)])
def test_a_shared_stream_has_the_replicas_that_it_asks_for(shared: Shared, asked: int, kept: int) -> None:
    shared.place.stream("S", subjects=["s.>"], num_replicas=asked)
    shown = shared.place.ask("STREAM.INFO.S")
    assert shown["config"]["num_replicas"] == kept
    assert [each["name"] for each in shown["cluster"]["replicas"]] == ["S2", "S3"]


@pytest.mark.parametrize(("asked", "err_code"), [(6, 10052), (-1, 10133)])
@pytest.mark.parametrize("verb", ["CREATE", "UPDATE"])
def test_no_server_has_so_many_replicas(shared: Shared, verb: str, asked: int, err_code: int) -> None:
    if verb == "UPDATE":
        shared.place.stream("S", subjects=["s.>"])
    assert shared.place.error(f"STREAM.{verb}.S", {**STREAM, "num_replicas": asked}) == err_code


def test_replicas_may_change(shared: Shared) -> None:
    shared.place.stream("S", subjects=["s.>"])
    for number in (3, 2, 5, 1):
        answer = shared.place.ask("STREAM.UPDATE.S", {**STREAM, "num_replicas": number})
        assert answer["config"]["num_replicas"] == number
    assert shared.place.error("STREAM.CREATE.S", {**STREAM, "num_replicas": 3}) == 10058


@pytest.mark.parametrize(("asked", "err_code"), [(0, 0), (1, 0), (3, 0), (4, 10126), (-1, 10133)])
def test_a_consumer_has_at_most_the_replicas_of_its_stream(shared: Shared, asked: int, err_code: int) -> None:
    shared.place.stream("S", subjects=["s.>"], num_replicas=3)
    assert shared.place.error("CONSUMER.CREATE.S.c", config(num_replicas=asked)) == err_code
    if not err_code:
        shown = shared.place.ask("CONSUMER.INFO.S.c")
        assert shown["config"]["num_replicas"] == asked
        assert [each["name"] for each in shown["cluster"]["replicas"]] == ["S2", "S3"]


def test_a_consumer_of_a_work_queue_has_the_replicas_of_its_stream(shared: Shared) -> None:
    shared.place.stream("S", subjects=["s.>"], num_replicas=3, retention="workqueue")
    assert shared.place.error("CONSUMER.CREATE.S.c", config(num_replicas=1)) == 10134
    assert shared.place.error("CONSUMER.CREATE.S.c", config(num_replicas=3)) == 0


@pytest.mark.parametrize(("cluster", "err_code"), [("", 0), ("C", 0), ("X", 10005)])
def test_a_stream_is_placed_in_the_cluster_that_has_the_bucket(
    shared: Shared, cluster: str, err_code: int
) -> None:
    body = {**STREAM, "placement": {"cluster": cluster}}
    assert shared.place.error("STREAM.CREATE.S", body) == err_code


def test_what_is_in_memory_has_one_replica(shared: Shared) -> None:
    assert shared.place.error("STREAM.CREATE.S", {**STREAM, "storage": "memory", "num_replicas": 3}) == 10074
    shared.place.stream("S", subjects=["s.>"], storage="memory", num_replicas=1)


def test_a_server_alone_with_its_bucket_has_one_replica() -> None:
    place = Shared(cluster="", peers=()).place
    assert place.error("STREAM.CREATE.S", {**STREAM, "num_replicas": 3}) == 10074
    place.stream("S", subjects=["s.>"])
    assert place.error("STREAM.UPDATE.S", {**STREAM, "num_replicas": 3}) == 10074
    assert place.error("CONSUMER.CREATE.S.c", config(num_replicas=3)) == 10074
    assert place.error("STREAM.LEADER.STEPDOWN.S") == 10010
    assert place.error("STREAM.PEER.REMOVE.S", {"peer": "S1"}) == 10010


@pytest.mark.parametrize("name", ["STREAM.LEADER.STEPDOWN.S", "CONSUMER.LEADER.STEPDOWN.S.c"])
@pytest.mark.parametrize(
    "body", [None, {}, {"placement": {"preferred": "S3"}}, {"placement": {"cluster": "C"}}]
)
def test_a_leader_that_is_asked_to_hands_over(shared: Shared, name: str, body: Any) -> None:
    place = shared.led_for(60)
    place.stream("S", subjects=["s.>"], num_replicas=3)
    place.consumer("S", "c")
    assert place.ask(name, body)["success"] is True
    assert shared.handed == 1
    assert shared.preferred == [((body or {}).get("placement") or {}).get("preferred", "")]


@pytest.mark.parametrize(
    ("body", "err_code", "said"),
    [
        ({"placement": {"preferred": "nobody"}}, 10005, 'preferred server "nobody" not known'),
        ({"placement": {"preferred": "S1"}}, 10005, 'preferred server "S1" is already leader'),
        ({"placement": {"cluster": "X"}}, 10005, "no replacement peer connected"),
        ({"placement": {"tags": ["x"]}}, 10005, "no replacement peer connected"),
        ({"place": 1}, 10025, "unknown field"),
        ("{bad", 10025, "invalid JSON"),
    ],
)
@pytest.mark.parametrize("name", ["STREAM.LEADER.STEPDOWN.S", "CONSUMER.LEADER.STEPDOWN.S.c"])
def test_a_leader_is_kept_that_nobody_can_replace(
    shared: Shared, name: str, body: Any, err_code: int, said: str
) -> None:
    place = shared.led_for(60)
    place.stream("S", subjects=["s.>"], num_replicas=3)
    place.consumer("S", "c")
    error = place.ask(name, body)["error"]
    assert error["err_code"] == err_code
    assert said in error["description"]
    assert shared.handed == 0


def test_a_leader_without_others_stays(shared: Shared) -> None:
    alone = Shared(peers=())
    place = alone.led_for(60)
    place.stream("S", subjects=["s.>"], num_replicas=3)
    assert place.ask("STREAM.LEADER.STEPDOWN.S")["error"] == {
        "code": 400, "err_code": 10005, "description": "no replacement peer connected",
    }  # fmt: skip


def test_users_of_one_account_cannot_keep_the_streams_of_all_moving(shared: Shared) -> None:
    place = shared.led_for(4)
    place.stream("S", subjects=["s.>"], num_replicas=3)
    assert place.error("STREAM.LEADER.STEPDOWN.S") == 10005
    assert shared.handed == 0
    shared.led_for(2)
    assert place.error("STREAM.LEADER.STEPDOWN.S") == 0
    assert shared.handed == 1


@pytest.mark.parametrize("body", [None, "{bad", {"placement": {"preferred": "nobody"}}])
def test_what_has_one_replica_has_nothing_to_hand_over(shared: Shared, body: Any) -> None:
    place = shared.led_for(60)
    place.stream("S", subjects=["s.>"], num_replicas=3)
    place.stream("T", subjects=["t.>"])
    place.consumer("S", "c", num_replicas=1)
    assert place.ask("STREAM.LEADER.STEPDOWN.T", body)["success"] is True
    assert place.ask("CONSUMER.LEADER.STEPDOWN.S.c", body)["success"] is True
    assert shared.handed == 0


@pytest.mark.parametrize(
    ("name", "err_code"),
    [("STREAM.LEADER.STEPDOWN.X", 10059), ("CONSUMER.LEADER.STEPDOWN.X.c", 10059),
     ("CONSUMER.LEADER.STEPDOWN.S.x", 10014), ("STREAM.CANCEL_MOVE.X", 10059),
     ("STREAM.CANCEL_MOVE.S", 10129)],
)  # fmt: skip
def test_what_is_not_there_cannot_move(shared: Shared, name: str, err_code: int) -> None:
    place = shared.led_for(60)
    place.stream("S", subjects=["s.>"], num_replicas=3)
    assert place.error(name) == err_code


@pytest.mark.parametrize(
    ("stream", "body", "err_code"),
    [
        ("S", None, 10003),
        ("S", {"peer": ""}, 10003),
        ("S", "{bad", 10025),
        ("X", {"peer": "S2"}, 10059),
        ("S", {"peer": "nobody"}, 10040),
        ("S", {"peer": "S1"}, 10075),
        ("S", {"peer": "S2"}, 10075),
    ],
)
@pytest.mark.parametrize("verb", ["REMOVE", "EVACUATE"])
def test_every_server_has_every_stream(
    shared: Shared, verb: str, stream: str, body: Any, err_code: int
) -> None:
    shared.place.stream("S", subjects=["s.>"], num_replicas=3)
    assert shared.place.error(f"STREAM.PEER.{verb}.{stream}", body) == err_code


def test_clients_are_told_who_leads_what_is_made_with_replicas(shared: Shared) -> None:
    place = shared.place
    place.host.heard.add(b"$JS.EVENT.ADVISORY.>")
    place.stream("S", subjects=["s.>"], num_replicas=3)
    (told,) = [one for one in place.advisories() if one["type"].endswith("stream_leader_elected")]
    assert (told["stream"], told["leader"]) == ("S", "S1")
    place.consumer("S", "c")
    (told,) = [one for one in place.advisories() if one["type"].endswith("consumer_leader_elected")]
    assert (told["stream"], told["consumer"], told["leader"]) == ("S", "c", "S1")


def test_nobody_is_elected_for_one_replica(shared: Shared) -> None:
    place = shared.place
    place.host.heard.add(b"$JS.EVENT.ADVISORY.>")
    place.stream("S", subjects=["s.>"])
    assert [one["type"].rsplit(".", 1)[1] for one in place.advisories()].count("stream_leader_elected") == 0
    place.stream("T", subjects=["t.>"], num_replicas=3)
    place.consumer("T", "c", num_replicas=1)
    assert not [one for one in place.advisories() if one["type"].endswith("consumer_leader_elected")]
