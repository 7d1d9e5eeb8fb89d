"""kill -9 of a server right behind the answer to an acknowledgement: it holds, whatever the consumer is.

An acknowledgement that asks for an answer (ack_sync of clients, `consumer next`) is on disk when that comes;
one that asks for none may be forgotten by a kill, and its message comes again (docs/jetstream.md).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness import depth
from harness.ports import free_port
from harness.processes import HEADRACES, ServerProcess
from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from pathlib import Path

SEEDS: Final = depth.seeds(30)
TARGET: Final = "to.us"
KINDS: Final[dict[str, dict[str, Any]]] = {
    "pulled": {"ack_policy": "explicit"},
    "pushed": {"ack_policy": "explicit", "deliver_subject": TARGET},
    "pushed to a group": {"ack_policy": "explicit", "deliver_subject": TARGET, "deliver_group": "g"},
    "pushed, all up to one": {"ack_policy": "all", "deliver_subject": TARGET},
}


def acknowledged(url: str, kind: str, retention: str, total: int, count: int) -> int:
    """Publish messages, acknowledge `count` in order, each answered; return the last one's sequence."""
    with connect(url) as receiver, connect(url) as sender:
        api = JetStreamApi(sender)
        assets = JetStreamAssets(api)
        assets.create_stream({"name": "S", "subjects": ["s.>"], "retention": retention})
        receiver.subscribe(TARGET, "g" if kind == "pushed to a group" else None)
        receiver.flush()
        assets.create_consumer("S", {"name": "C", "durable_name": "C", **KINDS[kind]})
        for number in range(total):
            api.publish(f"s.{number % 3}", b"%d" % number)
        if kind == "pulled":
            sender.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": %d}' % total, reply=TARGET)
            sender.flush()
        done = sequence = 0
        for message in receiver.messages(10):
            assert message.reply is not None
            sequence = int(message.reply.split(".")[5])
            sender.request(message.reply, b"+ACK")
            done += 1
            if done == count:
                return sequence
    raise AssertionError(f"only {done} messages came")


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answered_acknowledgement_survives_a_kill(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    kind = drawn.choice(list(KINDS))
    retention = drawn.choice(["limits", "interest", "workqueue"][: 2 if "all" in kind else 3])
    total = drawn.randrange(1, 40)
    listen = ("-a", "127.0.0.1", "-p", str(free_port()))

    def started() -> ServerProcess:
        return ServerProcess(drawn.choice(HEADRACES), tmp_path, "-js", "-sd", str(tmp_path), listen=listen)

    with started() as server:
        last = acknowledged(server.url, kind, retention, total, drawn.randint(1, total))
        server.kill()
    with started() as server, connect(server.url) as connection:
        info = JetStreamAssets(JetStreamApi(connection)).consumer_info("S", "C")

    assert info["ack_floor"]["stream_seq"] >= last, (kind, retention)
