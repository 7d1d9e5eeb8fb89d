"""Bodies of requests with mistakes: what is no JSON, or JSON of another kind, is refused in the same words.

Right bodies, spoilt at random: a byte more, less or other, a value of another kind, a name in another case.
HEADRACE_TEST_CASES asks for as many, HEADRACE_TEST_SEED for others.
"""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.jetstream import JetStreamWire
from harness.processes import NATS_SERVER, ServerProcess
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.requests import ConsumerRequest, StreamConfigRequest, decode

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

CASES: Final = int(os.environ.get("HEADRACE_TEST_CASES", "600"))
FIRST: Final = int(os.environ.get("HEADRACE_TEST_SEED", "0"))
STREAM: Final[dict[str, Any]] = {
    "name": "Z",
    "subjects": ["a.b", "ä"],
    "retention": "limits",
    "max_age": 1000000000,
    "max_msg_size": -1,
    "num_replicas": 1,
    "no_ack": False,
    "discard": "old",
    "storage": "memory",
    "compression": "none",
    "placement": {"cluster": "", "tags": ["x"]},
    "sources": [
        {"name": "q", "opt_start_time": "2026-01-02T03:04:05.06Z", "subject_transforms": [{"src": "a"}]}
    ],
    "consumer_limits": {"max_ack_pending": 5},
    "metadata": {"a/b~c": 'd\\"\u00e9\n'},
    "pedantic": True,
}
CONSUMER: Final[dict[str, Any]] = {
    "stream_name": "Z",
    "action": "create",
    "config": {
        "durable_name": "Z",
        "deliver_policy": "by_start_time",
        "opt_start_time": "2026-01-02T03:04:05+01:00",
        "ack_policy": "explicit",
        "backoff": [1000000000, 2000000000],
        "filter_subjects": ["x", "y"],
        "rate_limit_bps": 0,
        "metadata": {"k": "v"},
        "pause_until": "2026-01-02T03:04:05.000000001Z",
        "priority_policy": "none",
    },
}
_OTHER: Final = (
    None,
    True,
    1,
    -1,
    1.5,
    1e30,
    10**20,
    "x",
    "",
    [],
    [1],
    [None],
    {},
    {"x": 1},
    "2026-02-30T00:00:00Z",
)
_BYTES: Final = b"{}[]\",:\\ux0129-+.eEtfn \n\x00\x1f\x7f\xc3\xa9\xff`'TZaA/"


@pytest.mark.parametrize("strict", [True, False])
def test_spoilt_bodies_are_refused_in_the_go_servers_words(tmp_path: Path, *, strict: bool) -> None:
    drawn = random.Random(FIRST)
    config = f"jetstream {{ store_dir: {tmp_path}, strict: {str(strict).lower()} }}"
    with ServerProcess(NATS_SERVER, tmp_path, config=config) as server, JetStreamWire(server) as wire:
        for _ in range(CASES):
            is_stream = drawn.random() < 0.5
            body = spoilt(drawn, STREAM if is_stream else CONSUMER)
            answer = wire.api("STREAM.CREATE.Z" if is_stream else "CONSUMER.CREATE.Z", body.encode("latin-1"))
            theirs = answer.get("error", {})
            text = theirs["description"] if theirs.get("err_code") == 10025 else ""
            kind = StreamConfigRequest if is_stream else ConsumerRequest
            assert refusal(kind, body.encode("latin-1"), strict=strict) == text, body
            wire.api("STREAM.DELETE.Z")


def refusal(kind: type[StreamConfigRequest | ConsumerRequest], body: bytes, *, strict: bool) -> str:
    try:
        decode(kind, body, strict=strict)
    except ApiError as error:
        return error.description
    return ""


def spoilt(drawn: random.Random, body: dict[str, Any]) -> str:
    """Bytes as text of the same numbers."""
    value = json.loads(json.dumps(body))
    if drawn.random() < 0.5:
        _spoil_value(drawn, value)
    data = bytearray(json.dumps(value, ensure_ascii=drawn.random() < 0.5).encode())
    for _ in range(drawn.choice((0, 1, 1, 2))):
        at = drawn.randrange(len(data))
        byte = bytes([drawn.choice(_BYTES)])
        match drawn.choice("irdct"):
            case "i":
                data[at:at] = byte
            case "r":
                data[at : at + 1] = byte
            case "d":
                del data[at]
            case "c":
                del data[at:]
            case _:
                data += byte
        if not data:
            break
    return data.decode("latin-1")


def _spoil_value(drawn: random.Random, value: dict[str, Any]) -> None:
    """One value, perhaps deep inside, becomes another, or its name does."""
    place: Any = value
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = drawn.choice(keys)
        if isinstance(place[key], dict | list) and drawn.random() < 0.7:
            place = place[key]
            continue
        if isinstance(place, dict) and drawn.random() < 0.3:
            place[drawn.choice((key.upper(), key + "x", key.replace("_", "")))] = place.pop(key)
        else:
            place[key] = drawn.choice(_OTHER)
        return
