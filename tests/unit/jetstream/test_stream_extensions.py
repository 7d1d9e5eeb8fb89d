"""Entries of a stream's metadata that nats-server does not know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from js_streams import DEFAULTS, World, block

from harness.js_account import Place
from headrace.jetstream.stream.rules import StreamContext, complete
from headrace.protocol.jetstream.configs import StreamConfig
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from pathlib import Path

REQUIRE_ID = "headrace.require_msg_id"
STRICT: dict[str, Any] = {"metadata": {REQUIRE_ID: "true"}}
REFUSED = (10077, f"a Nats-Msg-Id is needed ({REQUIRE_ID})")


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({REQUIRE_ID: "yes"}, "true or false is needed"),
        ({REQUIRE_ID: ""}, "true or false is needed"),
        ({"headrace.require_msg_ids": "true"}, "unknown"),
        ({"team": "a", "headrace.": "x"}, "unknown"),
    ],
)
def test_an_entry_that_means_nothing_is_refused(metadata: dict[str, str], text: str) -> None:
    config = StreamConfig(**{"name": "S", "subjects": ["s.>"], **DEFAULTS, "metadata": metadata})
    with pytest.raises(ApiError, match=text) as refused:
        complete(config, StreamContext("S"))
    assert refused.value.err_code == 10052


def test_other_entries_are_kept() -> None:
    metadata = {"team": "a", "headracer": "b", REQUIRE_ID: "false"}
    config = StreamConfig(**{"name": "S", "subjects": ["s.>"], **DEFAULTS, "metadata": metadata})
    assert complete(config, StreamContext("S")).metadata == metadata
    world = World(metadata=metadata)
    world.receive(b"s.a")
    assert [answer["seq"] for answer in world.acks()] == [1]


def test_a_message_without_an_id_is_refused() -> None:
    world = World(**STRICT)
    world.receive(
        b"s.a",
        (b"s.b", block(Nats_Msg_Id="1"), b"x"),
        (b"s.c", block(Other="1"), b"x"),
        (b"s.d", block(Nats_Msg_Id=""), b"x"),
        (b"s.e", block(Nats_Msg_Id="1"), b"again"),
        (b"s.f", block(Nats_Expected_Last_Sequence="1"), b"x"),
    )
    answers = world.acks()
    assert [answers[1]["seq"], answers[4]["seq"], answers[4]["duplicate"]] == [1, 1, True]
    for place in (0, 2, 3, 5):
        error = answers[place]["error"]
        assert (error["err_code"], error["description"]) == REFUSED
    assert world.held() == [(1, b"s.b")]


def test_every_message_of_a_batch_needs_one() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"], allow_atomic=True, allow_batched=True, **STRICT)

    def send(reply: str, **headers: str) -> dict[str, Any]:
        place.host.sent.clear()
        place.host.put(b"s.a", b"x", reply.encode(), block(**headers))
        place.host.tick()
        (answer,) = (one for one in place.host.sent if one.to == reply.encode())
        return dict(json.loads(answer.payload))

    def batch(name: str) -> dict[str, str]:
        return {"Nats_Batch_Id": name, "Nats_Batch_Sequence": "1", "Nats_Batch_Commit": "1"}

    assert send("r", **batch("a"))["error"]["err_code"] == REFUSED[0]
    assert send("r", **batch("b"), Nats_Msg_Id="1")["count"] == 1
    assert send("in.a.10.fail.1.2.$FI")["error"]["err_code"] == REFUSED[0]
    assert send("in.b.10.fail.1.2.$FI", Other="x")["error"]["err_code"] == REFUSED[0]
    assert send("in.c.10.fail.1.2.$FI", Nats_Msg_Id="2")["count"] == 1


def test_a_source_and_a_mirror_take_what_their_origin_has(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("O", subjects=["o.>"])
    place.stream("S", sources=[{"name": "O"}], **STRICT)
    place.stream("M", mirror={"name": "O"}, **STRICT)
    place.publish("o.a", b"x")
    place.host.tick()
    for name in ("S", "M"):
        assert place.account.streams[name].log.state().messages == 1


def test_an_update_begins_and_ends_it() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"])
    for value, is_refused in (("true", True), ("false", False), ("true", True)):
        config = {"name": "S", "subjects": ["s.>"], "metadata": {REQUIRE_ID: value}}
        place.ask("STREAM.UPDATE.S", config)
        answer = place.raw("s.a", b"x")
        assert answer is not None
        assert (b"error" in answer.payload) is is_refused
