"""Requests to the JetStream API as a hostile or mistaken client would send them: any subject, any body.

Nothing may escape from an account but answers, and afterwards it serves as before.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.js_account import Place
from headrace.jetstream.api.endpoints import ENDPOINTS
from headrace.protocol.jetstream.configs import ConsumerConfig, StreamConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES: Final = ["S", "W", "c", "X", "a b", "\udcff", "", "*", ">", "s.a", "x" * 300]
VALUES: Final[list[Any]] = [
    0, 1, -1, 2**63, 2**64, 1.5, "", "s.a", "s.>", "*", "S", "c", None, True, False, [], {}, ["s.a"], [1],
    {"a": 1}, "2030-01-01T00:00:00Z", "x", "explicit", "all", "memory", "workqueue", 10**9, "interest", "new",
    "last", "30%", "_INBOX.d", {"name": "S"}, [{"name": "S"}], {"src": "s.>", "dest": "t.>"},
    {"headrace.dead_letter_subject": "dl"},
]  # fmt: skip
BODIES: Final = [b"", b"{}", b"[]", b"1", b"{", b"\xff\xfe", b'{"a":1}', b"null", b'"x"']
FIELDS: Final = [
    "seq", "filter", "keep", "last_by_subj", "next_by_subj", "batch", "max_bytes", "start_time", "no_hdr",
    "no_erase", "offset", "subject", "deleted_details", "subjects_filter", "pause_until", "group", "config",
    "stream_name", "action", "pedantic", "deliver_subject", "chunk_size", "state", "multi_last", "expires",
    "no_wait", "idle_heartbeat", "min_pending", "priority", "id",
]  # fmt: skip
ACKS: Final = [b"", b"+ACK", b"-NAK", b"+WPI", b"+TERM", b"+NXT", b"junk", b'-NAK {"delay":100}']
REQUESTS: Final = [*ENDPOINTS, b"CONSUMER.MSG.NEXT", b"DIRECT.GET"]


def _some(dice: random.Random, fields: Sequence[str]) -> dict[str, Any]:
    return {name: dice.choice(VALUES) for name in dice.sample(fields, dice.randrange(4))}


def _body(dice: random.Random, name: str, tokens: list[str]) -> bytes:
    first = tokens[0] if tokens else "S"
    if dice.random() < 0.2:
        return dice.choice(BODIES)
    if name.startswith(("STREAM.CREATE", "STREAM.UPDATE")):
        return json.dumps(_some(dice, StreamConfig.__struct_fields__) | {"name": first}).encode()
    if name == "STREAM.RESTORE":
        config = _some(dice, StreamConfig.__struct_fields__) | {"name": first}
        return json.dumps({"config": config, "state": {}}).encode()
    if name.startswith("CONSUMER") and "CREATE" in name:
        config = _some(dice, ConsumerConfig.__struct_fields__)
        if len(tokens) > 1:
            config |= {"durable_name": tokens[1], "ack_policy": "explicit"}
        return json.dumps({"stream_name": first, "config": config}).encode()
    return json.dumps(_some(dice, FIELDS)).encode()


@pytest.mark.parametrize("seed", range(3))
def test_no_request_breaks_an_account(seed: int) -> None:
    dice = random.Random(seed)
    place = Place()
    for _ in range(700):
        if dice.random() < 0.1:
            place.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
            place.ask("STREAM.CREATE.W", {"name": "W", "subjects": ["w"], "retention": "workqueue"})
        name = dice.choice(REQUESTS).decode()
        tokens = dice.choices(NAMES, k=dice.randrange(4))
        subject = ".".join(["$JS.API", name, *tokens]).encode("utf-8", "surrogateescape")
        place.host.put(subject, _body(dice, name, tokens), b"_INBOX.r")
        place.host.put(dice.choice([b"s.a", b"w"]), b"x", b"_INBOX.r")
        place.host.tick()
        for message in place.host.sent[-3:]:
            if message.reply.startswith(b"$JS.ACK"):
                place.host.put(message.reply, dice.choice(ACKS), dice.choice([b"", b"_INBOX.z"]))
        place.host.pass_time(dice.choice([0, 0, 0, 0.1, 6]))
        place.host.sent.clear()
    place.ask("STREAM.DELETE.S")
    place.stream("S", subjects=["s.>"])
    place.consumer("S", "c")
    assert place.publish("s.a", b"alive")["seq"] == 1
    assert [message.payload for message in place.fetch("S", "c")] == [b"alive"]
    assert place.account.api_counters.inflight == 0
