"""Bodies of requests with mistakes: what is no JSON, or JSON of another kind, is refused in the same words.

Right bodies, spoilt at random: a byte more, less or other, a value of another kind, a name in another case.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness import depth
from harness.jetstream import JetStreamWire
from harness.processes import NATS_SERVER, ServerProcess
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.requests import (
    ConsumerRequest,
    ConsumersRequest,
    MessageDeleteRequest,
    MessageGetRequest,
    PauseRequest,
    PurgeRequest,
    RequestBody,
    RestoreRequest,
    SnapshotRequest,
    StreamConfigRequest,
    StreamInfoRequest,
    StreamListRequest,
    StreamNamesRequest,
    decode,
    is_empty,
    is_object_or_array,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

SEEDS: Final = 10
CASES: Final = 600
"""Bodies that are drawn from one seed."""
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
STATE: Final[dict[str, Any]] = {
    "messages": 3,
    "bytes": 100,
    "first_seq": 1,
    "first_ts": "2026-01-02T03:04:05.123456789Z",
    "last_seq": 1234567890123456789,
    "last_ts": "2026-01-02T03:04:05+01:00",
    "num_subjects": 1,
    "subjects": {"a.b": 18446744073709551615},
    "num_deleted": 2,
    "deleted": [2, 9223372036854775808],
    "lost": {"msgs": [1234567890123456789], "bytes": 5},
    "consumer_count": 1,
}
OTHERS: Final[dict[str, tuple[type[RequestBody], dict[str, Any]]]] = {
    "STREAM.RESTORE.R": (
        RestoreRequest,
        {"config": {"name": "R", "subjects": ["r"], "first_seq": 5}, "state": STATE},
    ),
    "STREAM.SNAPSHOT.Z": (
        SnapshotRequest,
        {"deliver_subject": "", "no_consumers": True, "chunk_size": 5, "window_size": 5, "jsck": True},
    ),
    "STREAM.INFO.Z": (StreamInfoRequest, {"offset": 1, "deleted_details": True, "subjects_filter": "a"}),
    "STREAM.NAMES": (StreamNamesRequest, {"offset": 1, "subject": "a"}),
    "STREAM.LIST": (StreamListRequest, {"offset": 1, "subject": "a"}),
    "STREAM.PURGE.Z": (PurgeRequest, {"seq": 1, "filter": "a", "keep": 0}),
    "STREAM.MSG.GET.Z": (MessageGetRequest, {"seq": 1, "next_by_subj": "a", "start_time": STATE["last_ts"]}),
    "STREAM.MSG.DELETE.Z": (MessageDeleteRequest, {"seq": 1, "no_erase": True}),
    "CONSUMER.NAMES.Z": (ConsumersRequest, {"offset": 1}),
    "CONSUMER.LIST.Z": (ConsumersRequest, {"offset": 1}),
    "CONSUMER.PAUSE.Z.c": (PauseRequest, {"pause_until": STATE["first_ts"]}),
}
"""What else has a body that is read as strictly."""
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


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
@pytest.mark.parametrize("strict", [True, False])
def test_spoilt_bodies_are_refused_in_the_go_servers_words(
    tmp_path: Path, seed: int, *, strict: bool
) -> None:
    drawn = random.Random(seed)
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


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
@pytest.mark.parametrize("strict", [True, False])
def test_spoilt_bodies_of_other_requests_too(tmp_path: Path, seed: int, *, strict: bool) -> None:
    drawn = random.Random(seed)
    config = f"jetstream {{ store_dir: {tmp_path}, strict: {str(strict).lower()} }}"
    with ServerProcess(NATS_SERVER, tmp_path, config=config) as server, JetStreamWire(server) as wire:
        wire.api("STREAM.CREATE.Z", {"name": "Z", "subjects": ["z"]})
        for _ in range(CASES):
            subject = drawn.choice(list(OTHERS))
            kind, right = OTHERS[subject]
            body = spoilt(drawn, right).encode("latin-1")
            if is_empty(body) or not is_object_or_array(body):
                continue  # as good as none, where there need be none
            theirs = wire.api(subject, body).get("error", {})
            text = theirs["description"] if theirs.get("err_code") == 10025 else ""
            assert refusal(kind, body, strict=strict) == text, (subject, body)


def refusal(kind: type[StreamConfigRequest | RequestBody], body: bytes, *, strict: bool) -> str:
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
