"""Streams whose metadata say what payloads are, and those that refuse what does not fit."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from js_streams import DEFAULTS, World, block

from harness.js_account import Place
from headrace.jetstream.stream.checks import LARGEST_CHECKED, LONGEST_REASON
from headrace.jetstream.stream.rules import StreamContext, complete
from headrace.protocol.jetstream.configs import StreamConfig, SubjectTransformConfig
from headrace.protocol.jetstream.errors import ApiError
from headrace.schemas import metadata

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("fastjsonschema")

ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
STRICT: dict[str, Any] = {"metadata": metadata(ORDER, check=True)}
GOOD, BAD = b'{"id": 1}', b'{"id": "1"}'
REFUSED = (10077, "the payload does not fit (headrace.schema.check): data.id must be integer")


def refusal(**fields: Any) -> tuple[int, str]:
    config = StreamConfig(**{"name": "S", "subjects": ["s.>"], **DEFAULTS, **fields})
    with pytest.raises(ApiError) as refused:
        complete(config, StreamContext("S"))
    return refused.value.err_code, refused.value.description


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"metadata": {"headrace.schema": "{}"}}, "metadata headrace.schema.type is missing"),
        ({"metadata": {"headrace.schematic": "{}"}}, "metadata headrace.schematic: unknown"),
        ({"metadata": metadata("{")}, "metadata headrace.schema: not JSON: Input data was truncated"),
        ({"metadata": metadata({"type": "x"}, subjects="s.*")}, "metadata headrace.schema@s.*: type"),
        ({"metadata": metadata(ORDER, subjects="t.*")}, "no subject of the stream matches"),
        ({"metadata": metadata({"pattern": "a"}, check=True)}, "regular expressions may take any time"),
        ({**STRICT, "allow_msg_counter": True}, "a counter has no payloads of its publishers"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(fields: dict[str, Any], text: str) -> None:
    code, description = refusal(**fields)
    assert code == 10052
    assert text in description


@pytest.mark.parametrize(
    ("kind", "package", "more"),
    [
        ("json", "fastjsonschema", {}),
        ("avro", "fastavro", {}),
        ("protobuf", "protobuf", {"message": "shop.Order"}),
    ],
)
def test_a_package_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: str, package: str, more: dict[str, str]
) -> None:
    for name in ("fastjsonschema", "fastavro", "google.protobuf", "google"):
        monkeypatch.setitem(sys.modules, name, None)
    code, description = refusal(metadata=metadata("{}", kind, **more))
    assert code == 10052
    assert f"needs the package {package}: pip install 'headrace[schemas]'" in description


def test_a_stream_that_lost_its_package_refuses_what_it_cannot_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(**STRICT)
    monkeypatch.setitem(sys.modules, "fastjsonschema", None)
    code, description = world.put_error(payload=GOOD)
    assert code == 10077
    assert "needs the package fastjsonschema" in description
    monkeypatch.undo()
    assert world.put(payload=GOOD)["seq"] == 1


@pytest.mark.parametrize("entries", [metadata({"pattern": "^a"}), metadata(ORDER, subjects="t.*")])
def test_a_stream_that_does_not_check_may_describe_more(entries: dict[str, str]) -> None:
    fields = {"name": "S", "subjects": ["s.>", "t.>"], **DEFAULTS, "metadata": entries}
    assert complete(StreamConfig(**fields), StreamContext("S")).metadata == entries


def test_without_a_check_everything_is_stored() -> None:
    world = World(metadata=metadata(ORDER))
    assert [world.put(payload=payload)["seq"] for payload in (GOOD, BAD, b"")] == [1, 2, 3]


def test_what_does_not_fit_is_refused() -> None:
    world = World(**STRICT)
    assert world.put(payload=GOOD)["seq"] == 1
    assert world.put_error(payload=BAD) == REFUSED
    assert world.put_error(payload=b"")[0] == 10077
    assert world.put_error(payload=BAD, Nats_Msg_Id="1") == REFUSED
    assert world.put(payload=GOOD, Nats_Msg_Id="1")["seq"] == 2
    assert world.held() == [(1, b"s.a"), (2, b"s.a")]


def test_subjects_have_their_schemas() -> None:
    world = World(metadata=metadata({"type": "string"}, subjects="s.text", check=True))
    assert world.put(b"s.text", b'"x"')["seq"] == 1
    assert world.put_error(b"s.text", b"1")[0] == 10077
    assert world.put(b"s.other", b"anything")["seq"] == 2


def test_a_subject_is_judged_as_it_is_stored() -> None:
    entries = metadata({"type": "string"}, subjects="t.text", check=True)
    transform = SubjectTransformConfig(src="s.*", dest="t.{{wildcard(1)}}")
    world = World(metadata=entries, subject_transform=transform)
    assert world.put_error(b"s.text", b"1")[0] == 10077


def test_a_key_may_be_deleted() -> None:
    world = World(**STRICT)
    assert world.put(KV_Operation="DEL")["seq"] == 1
    assert world.put(Nats_Marker_Reason="Remove")["seq"] == 2
    assert world.put_error(payload=BAD, KV_Operation="DEL") == REFUSED


def test_a_payload_that_is_too_large_is_not_looked_at() -> None:
    world = World(**STRICT)
    code, description = world.put_error(payload=b" " * LARGEST_CHECKED + GOOD)
    assert code == 10077
    assert description.endswith("larger than 1048576 bytes, which is the most that is checked")


def test_a_reason_is_not_longer_than_its_limit() -> None:
    entries = metadata({"additionalProperties": False, "properties": {"a": True}}, check=True)
    description = World(metadata=entries).put_error(payload=json.dumps({"x" * 5000: 1}).encode())[1]
    assert LONGEST_REASON < len(description) < 2 * LONGEST_REASON
    assert description.endswith("...")


@pytest.mark.parametrize("payload", [b"[" * 900_000, b'{"id":' * 150_000, b"\xff" * 1000, b"1" * 100_000])
def test_a_payload_that_is_made_to_hurt_is_refused(payload: bytes) -> None:
    assert World(**STRICT).put_error(payload=payload)[0] == 10077


def test_a_batch_is_refused_whole_or_by_its_message() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"], allow_atomic=True, allow_batched=True, **STRICT)

    def send(payload: bytes, reply: str, **headers: str) -> dict[str, Any]:
        place.host.sent.clear()
        place.host.put(b"s.a", payload, reply.encode(), block(**headers))
        place.host.tick()
        answers = [one for one in place.host.sent if one.to == reply.encode()]
        return dict(json.loads(answers[-1].payload)) if answers and answers[-1].payload else {}

    def atomic(number: int, **more: str) -> dict[str, str]:
        return {"Nats_Batch_Id": "a", "Nats_Batch_Sequence": str(number), **more}

    send(BAD, "r", **atomic(1))
    assert send(GOOD, "r", **atomic(2, Nats_Batch_Commit="1"))["error"]["description"] == REFUSED[1]
    send(GOOD, "r", **atomic(1))
    assert send(GOOD, "r", **atomic(2, Nats_Batch_Commit="1"))["count"] == 2
    assert send(BAD, "in.b.10.fail.1.2.$FI")["error"]["description"] == REFUSED[1]
    assert send(GOOD, "in.c.10.fail.1.2.$FI")["count"] == 1


def test_a_source_and_a_mirror_take_what_their_origin_has(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("O", subjects=["o.>"])
    place.stream("S", sources=[{"name": "O"}], **STRICT)
    place.stream("M", mirror={"name": "O"}, **STRICT)
    place.publish("o.a", BAD)
    place.host.tick()
    for name in ("S", "M"):
        assert place.account.streams[name].log.state().messages == 1


def test_an_update_changes_what_fits() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"])
    for schema, is_refused in (({"type": "string"}, True), (ORDER, False), (None, False)):
        entries = {} if schema is None else metadata(schema, check=True)
        place.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "metadata": entries})
        answer = place.raw("s.a", GOOD)
        assert answer is not None
        assert (b"error" in answer.payload) is is_refused


def test_a_stream_that_was_recovered_goes_on_checking(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("S", subjects=["s.>"], **STRICT)
    place = place.restart()
    for payload, is_refused in ((GOOD, False), (BAD, True)):
        answer = place.raw("s.a", payload)
        assert answer is not None
        assert (b"error" in answer.payload) is is_refused
