"""A mistake of ours in what answers a request is one log line and an answer, for every request there is.

And bodies that are wrong in any one place are answered too, without such a mistake.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, get_args, get_origin

import msgspec
import pytest

from harness.js_account import API, Place
from headrace.errors import MessageDamaged
from headrace.jetstream.account import AccountJetStream
from headrace.jetstream.api import endpoints
from headrace.jetstream.api.backup import _Sending
from headrace.jetstream.consumer.consumer import Consumer
from headrace.jetstream.state.restore import Restoring
from headrace.jetstream.stream.stream import Stream
from headrace.protocol import archive, s2
from headrace.protocol.jetstream import requests
from headrace.protocol.jetstream.go_decode import fields_of
from headrace.protocol.jetstream.pulls import PullRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERNAL: Final = {"code": 500, "err_code": 10051, "description": "internal error"}
FAILED: Final = b"NATS/1.0 500 Internal Server Error\r\n\r\n"


def raising(*_arguments: object, **_options: object) -> Any:
    raise ZeroDivisionError("ours")


def place() -> Place:
    made = Place()
    made.stream("S", subjects=["s.>"], allow_direct=True, allow_msg_ttl=True)
    made.consumer("S", "c")
    made.publish("s.a", b"x")
    made.host.mistakes = []
    return made


def mistakes(made: Place) -> list[str]:
    """Where they were, by name."""
    assert made.host.mistakes is not None
    assert all(type(error) is ZeroDivisionError for _, error in made.host.mistakes)
    return [at for at, _ in made.host.mistakes]


def subject_of(name: str, tokens: int) -> str:
    return ".".join([name, *("S", "c", "x", "y")[:tokens]])


# -- faults injected -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", endpoints.ENDPOINTS, ids=bytes.decode)
def test_handler_that_raises_is_answered(name: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    made = place()
    endpoint = endpoints.ENDPOINTS[name]
    monkeypatch.setitem(endpoints.ENDPOINTS, name, endpoint._replace(handle=raising))
    subject = subject_of(name.decode(), endpoint.fewest)
    answer = made.ask(subject)

    assert answer["type"] == f"io.nats.jetstream.api.v1.{endpoint.kind}_response"
    assert answer["error"] == INTERNAL
    assert endpoint.on_error.items() <= answer.items()
    assert mistakes(made) == [f"account A {API}{subject}"]
    assert made.account.api_counters.inflight == 0
    assert made.account.api_counters.errors == (1 if endpoint.audits_refusals else 0)


@pytest.mark.parametrize(
    ("patched", "method", "subject"),
    [
        (Consumer, "request", "CONSUMER.MSG.NEXT.S.c"),
        (Stream, "direct", "DIRECT.GET.S"),
        (Stream, "direct", "DIRECT.GET.S.s.a"),
        (AccountJetStream, "consumer", "CONSUMER.MSG.NEXT.S.c"),
    ],
)
def test_pull_or_direct_get_that_raises_is_answered(
    patched: type, method: str, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = place()
    monkeypatch.setattr(patched, method, raising)
    answer = made.raw(API + subject, {"seq": 1, "batch": 1})

    assert answer is not None
    assert answer.headers == FAILED
    assert mistakes(made) == [f"account A {API}{subject}"]


@pytest.mark.parametrize("name", ["STREAM.DELETE.S", "CONSUMER.DELETE.S.c", "STREAM.CREATE.T"])
def test_mistake_after_the_commit_is_answered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = place()
    monkeypatch.setattr("headrace.jetstream.api.request.Request.answer", raising)

    assert made.ask(name, {"name": "T"} if "CREATE" in name else None)["error"] == INTERNAL
    assert len(mistakes(made)) == 1
    assert made.account.api_counters.inflight == 0


def test_snapshot_that_raises_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    made = place()
    monkeypatch.setattr(_Sending, "_fill", raising)
    made.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "d"})
    made.host.pass_time(1)

    assert [one.headers for one in made.host.sent if one.to == b"d"] == [
        b"NATS/1.0 500 internal error\r\n\r\n"
    ]
    assert mistakes(made) == ["account A d"]


@pytest.mark.parametrize("method", ["feed", "close", "enter"])
def test_restore_that_raises_is_ended_and_leaves_nothing(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = place()
    whole = [archive.ArchiveEntry(b"state.json", payload=b"{}"), archive.ArchiveEntry(b"")]
    data = s2.STREAM_BEGIN + s2.frames(archive.MAGIC + b"".join(map(archive.encode, whole)))
    wanted = {"config": {"name": "R", "subjects": ["r"]}, "state": {}}
    with monkeypatch.context() as patched:
        patched.setattr(Restoring, method, raising)
        subject = made.ask("STREAM.RESTORE.R", wanted)["deliver_subject"]
        answers = [made.raw(subject, chunk) for chunk in (data, b"")]
        said = [answer.json() for answer in answers if answer is not None and answer.payload]

    assert [one["error"]["err_code"] for one in said] == [10062]
    assert len(mistakes(made)) == 1
    subject = made.ask("STREAM.RESTORE.R", wanted)["deliver_subject"]
    made.raw(subject, data)
    ended = made.raw(subject, b"")
    assert ended is not None
    assert "error" not in ended.json()


@pytest.mark.parametrize("kind", ["refusing_service", "system_requests"])
def test_where_there_is_no_jetstream(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = place()
    service = getattr(made.system, kind)()
    monkeypatch.setattr(type(service), "receive", raising)
    made.account.stop()
    made.host.service = service
    service.start(made.host)

    assert made.ask("INFO")["error"] == INTERNAL
    assert mistakes(made) == ["$JS.API.INFO"]


# -- bodies ----------------------------------------------------------------------------------------------

BODIES: Final[dict[str, type[msgspec.Struct]]] = {
    "STREAM.CREATE.T": requests.StreamConfigRequest,
    "STREAM.UPDATE.S": requests.StreamConfigRequest,
    "STREAM.NAMES": requests.StreamNamesRequest,
    "STREAM.LIST": requests.StreamListRequest,
    "STREAM.INFO.S": requests.StreamInfoRequest,
    "STREAM.PURGE.S": requests.PurgeRequest,
    "STREAM.MSG.GET.S": requests.MessageGetRequest,
    "STREAM.MSG.DELETE.S": requests.MessageDeleteRequest,
    "STREAM.SNAPSHOT.S": requests.SnapshotRequest,
    "STREAM.RESTORE.R": requests.RestoreRequest,
    "CONSUMER.CREATE.S": requests.ConsumerRequest,
    "CONSUMER.CREATE.S.d": requests.ConsumerRequest,
    "CONSUMER.DURABLE.CREATE.S.d": requests.ConsumerRequest,
    "CONSUMER.NAMES.S": requests.ConsumersRequest,
    "CONSUMER.LIST.S": requests.ConsumersRequest,
    "CONSUMER.PAUSE.S.c": requests.PauseRequest,
    "CONSUMER.UNPIN.S.c": requests.UnpinRequest,
    "CONSUMER.RESET.S.c": requests.ResetRequest,
    "DIRECT.GET.S": requests.MessageGetRequest,
    "CONSUMER.MSG.NEXT.S.c": PullRequest,
}
WITHOUT_BODY: Final = {
    "INFO", "STREAM.DELETE", "CONSUMER.INFO", "CONSUMER.DELETE", "STREAM.LEADER.STEPDOWN",
    "CONSUMER.LEADER.STEPDOWN", "STREAM.PEER.REMOVE", "STREAM.PEER.EVACUATE", "STREAM.CANCEL_MOVE",
}  # fmt: skip
WRONG: Final[tuple[Any, ...]] = (
    None, True, 1, -1, 1.5, 1e30, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63), -(1 << 64),
    10**400, "", "x", "s.a", "s.>", "2026-01-02T03:04:05.1+01:00", "0000-00-00T00:00:00Z", [], [None], [1],
    [1 << 64], [[]], ["s.a"], {}, {"x": 1}, {"a": 1 << 64}, {"a": None}, [{"name": 1}], [{"name": "S"}],
)  # fmt: skip


def test_every_request_is_here() -> None:
    named = {name.decode() for name in endpoints.ENDPOINTS}
    with_body = {name for name in named for subject in BODIES if f"{subject}.".startswith(f"{name}.")}
    assert with_body | WITHOUT_BODY == named


@functools.cache
def places(kind: type[msgspec.Struct]) -> tuple[tuple[str, ...], ...]:
    """The ways to every field, also of what is inside of others; through a list `0`, through a map `k`."""
    found: list[tuple[str, ...]] = []
    for name, annotation in fields_of(kind).items():
        found.append((name,))
        found += [(name, *rest) for rest in _inside(annotation)]
    return tuple(found)


def _inside(annotation: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield from places(annotation)
    elif get_args(annotation) and get_origin(annotation) is not Annotated:
        step = {list: ("0",), dict: ("k",)}.get(get_origin(annotation), ())
        if step:
            yield step
        for part in get_args(annotation):
            yield from ((*step, *rest) for rest in _inside(part))


def body(way: tuple[str, ...], value: Any, name: str | None) -> bytes:
    """A body with one value, and the name of the stream where it has to be right."""
    for step in reversed(way):
        value = [value] if step == "0" else {step: value}
    if name is not None:
        config = value.setdefault("config", {}) if "RESTORE" in name or "CONSUMER" in name else value
        if isinstance(config, dict) and way[-1] != "name" and "CONSUMER" not in name:
            config.setdefault("name", name.rpartition(".")[2])
        if "CONSUMER.CREATE" in name or "DURABLE" in name:
            value.setdefault("stream_name", "S")
    return json.dumps(value).encode()


@pytest.mark.parametrize("subject", BODIES)
def test_bodies_that_are_wrong_in_one_place_are_answered(subject: str) -> None:
    made = place()
    made.host.mistakes = None  # the first one fails the test
    named = subject if any(verb in subject for verb in ("CREATE", "UPDATE", "RESTORE")) else None
    for way in places(BODIES[subject]):
        for value in WRONG:
            sent = body(way, value, named)
            answer = made.raw(API + subject, sent)
            if "MSG.NEXT" in subject:
                made.host.pass_time(0)  # a pull may wait
                continue
            assert answer is not None, sent
            if subject in ("STREAM.UPDATE.S", "STREAM.CREATE.T"):
                made.ask(f"STREAM.DELETE.{subject[-1]}")
                made.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
            if b"deliver_subject" in answer.payload and "RESTORE" in subject:
                made.host.pass_time(6)  # nothing is sent: a next one waits for the end of this one
    assert made.account.api_counters.inflight == 0


def test_state_of_a_backup_with_all_it_may_have() -> None:
    made = place()
    state = {
        "messages": (1 << 64) - 1, "bytes": 10**18,
        "first_seq": 1, "first_ts": "2026-01-02T03:04:05.123456789Z",
        "last_seq": 10**18, "last_ts": "2026-01-02T03:04:05.1+01:00", "num_subjects": 2, "num_deleted": 3,
        "subjects": {"r.a": 10**18}, "deleted": [2, 3, 10**18], "lost": {"msgs": [10**18], "bytes": 1},
        "consumer_count": 1,
    }  # fmt: skip
    answer = made.ask("STREAM.RESTORE.R", {"config": {"name": "R", "subjects": ["r.>"]}, "state": state})
    assert answer["deliver_subject"].startswith("$JS.SNAPSHOT.RESTORE.R.")


@pytest.mark.parametrize("name", [r"opt_start\u005ftime", "opt_start_time"])
def test_time_is_judged_however_its_name_is_written(name: str) -> None:
    made = place()
    sent = '{"stream_name":"S","config":{"deliver_policy":"by_start_time","NAME":"no time"}}'
    assert made.error("CONSUMER.CREATE.S", sent.replace("NAME", name)) == 10025


def _damaged(place: Place, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No message of the stream can be read alone."""

    def read(sequence: int) -> NoReturn:
        raise MessageDamaged(sequence, "its record on disk is damaged")

    monkeypatch.setattr(place.account.streams[stream].log, "read", read)


def test_damaged_message_ends_a_batch_of_direct_gets_with_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    place.stream("S", subjects=["s.>"], allow_direct=True)
    place.publish("s.a")
    _damaged(place, "S", monkeypatch)

    answer = place.raw(f"{API}DIRECT.GET.S", {"multi_last": ["s.>"]})

    assert answer is not None
    assert answer.headers.startswith(b"NATS/1.0 404")


def test_damaged_message_is_let_go_when_one_of_two_has_done_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other has a filter, and what the subject was nobody can say."""
    place = Place()
    place.stream("S", subjects=["s.>"], retention="interest")
    place.consumer("S", "a", filter_subject="s.a")
    place.consumer("S", "b", filter_subject="s.b")
    place.publish("s.a")
    (message,) = place.fetch("S", "a")
    _damaged(place, "S", monkeypatch)

    place.acknowledge(message)

    assert place.account.streams["S"].log.state().messages == 0


def test_damaged_message_that_expires_leaves_a_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    second = 1_000_000_000
    place.stream(
        "S", subjects=["s"], max_age=second, subject_delete_marker_ttl=10 * second, allow_rollup_hdrs=True
    )
    place.publish("s")
    _damaged(place, "S", monkeypatch)

    place.host.pass_time(3)

    (marker,) = place.account.streams["S"].log.read_from(1).messages
    assert b"Nats-Marker-Reason: MaxAge" in marker.headers
