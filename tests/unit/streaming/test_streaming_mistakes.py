"""A mistake of ours in what answers a STAN client, a reader or an administrator: one log line, an answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from stan_harness import World

from headrace.protocol.stan import ADMINISTRATION_PREFIX as ADMIN
from headrace.protocol.stan import REPLAY_PREFIX as REPLAY
from headrace.protocol.stan import (
    CloseResponse,
    ConnectResponse,
    PingResponse,
    SubscriptionRequest,
    SubscriptionResponse,
)
from headrace.streaming.administration import Administration
from headrace.streaming.clients import ClientRegistry
from headrace.streaming.replaying import Replays, ServedReplay
from headrace.streaming.subscribing import Subscriptions

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT: Final = b"stan: internal error"
FAILED: Final = b"NATS/1.0 500 Internal Server Error\r\n\r\n"


def raising(*_arguments: object) -> Any:
    raise ZeroDivisionError("ours")


REQUESTS: Final[list[tuple[type, str, Callable[[World], bytes], type]]] = [
    (ClientRegistry, "connect", lambda world: world.tenure._info.discovery, ConnectResponse),
    (ClientRegistry, "ping", lambda world: world.tenure._info.discovery + b".pings", PingResponse),
    (ClientRegistry, "close_request", lambda world: world.tenure._info.close, CloseResponse),
    (Subscriptions, "subscribe", lambda world: world.tenure._info.subscribe, SubscriptionResponse),
    (Subscriptions, "unsubscribe", lambda world: world.tenure._info.unsubscribe, SubscriptionResponse),
    (Subscriptions, "close", lambda world: world.tenure._info.sub_close, SubscriptionResponse),
]


@pytest.mark.parametrize(("part", "method", "subject", "answer"), REQUESTS)
def test_request_that_meets_a_mistake_is_answered(
    part: type,
    method: str,
    subject: Callable[[World], bytes],
    answer: type,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asks_itself = getattr(part, method)
    is_started = False
    monkeypatch.setattr(part, method, lambda *arguments: raising() if is_started else asks_itself(*arguments))
    world = World()
    is_started = True
    world.host.mistakes = []
    asked = subject(world)

    assert world.request(asked, SubscriptionRequest(b"me", b"a").encode(), answer).error == TEXT
    assert [at for at, _ in world.host.mistakes] == [asked.decode()]


@pytest.mark.parametrize("verb", [b"channels", b"report", b"purge", b"delete", b"adopt"])
def test_administrator_is_answered(verb: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("_list", "_channel"):
        monkeypatch.setattr(Administration, method, raising)
    world = World()
    world.host.mistakes = []
    subject = ADMIN.encode() + world.tenure._info.cluster_id + b"." + verb
    more = {"client_id": "c", "durable": "d"} if verb == b"adopt" else {}
    world.send(subject, json.dumps({"channel": "a", **more}).encode(), b"in")
    world.settle()

    assert [json.loads(one)["error"] for one in world.take(b"in")] == [
        {"code": 500, "description": "internal error"}
    ]
    assert len(world.host.mistakes) == 1


@pytest.mark.parametrize(("part", "method"), [(Replays, "receive"), (ServedReplay, "send_page")])
def test_reader_of_a_replay_is_told(part: type, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, method, raising)
    world = World()
    world.connect()
    world.publish(b"a", b"x")
    world.host.mistakes = []
    world.send(REPLAY.encode() + world.tenure._info.cluster_id, b'{"channel":"a"}', b"in")
    world.settle()
    world.advance(1)

    assert [block for subject, block, _ in world.host.headed if subject == b"in"] == [FAILED]
    assert len(world.host.mistakes) == 1


def test_mistake_with_one_message_costs_no_other() -> None:
    world = World()
    world.connect()
    world.host.mistakes = []
    subject = world.tenure._requests.subject
    sid = next(sid for sid, one in world.host.subscriptions.items() if one == subject)
    world.tenure.routes[sid] = raising
    world.send(subject.replace(b"*", b"1"), b"")
    assert world.publish(b"a", b"x") == [b""]
    assert len(world.host.mistakes) == 1
