"""Streams and consumers of all kinds to fill a server with, and the contents of a server, to compare two by.

What a version does not have yet is left out by asking it: `level` is the API level that it says.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from harness.jetstream import JetStreamWire

SECOND: Final = 1_000_000_000
_OF_THE_SERVER: Final = ("_nats.ver", "_nats.level", "_nats.req.level")
_AT_ONCE: Final = 500


def level_of(wire: JetStreamWire) -> int:
    """0 before 2.11, which has per-message TTL; 2 from 2.12 on, which has counters and atomic batches."""
    major, minor, *_ = (int(part) for part in wire.info["version"].split("-")[0].split("."))
    return max(minor - 10, 0) if major == 2 else 0


def make(wire: JetStreamWire, name: str, **config: Any) -> None:
    answer = wire.api(f"STREAM.CREATE.{name}", {"name": name, "storage": "file", **config})
    assert "error" not in answer, answer


def consume(wire: JetStreamWire, stream: str, name: str, **config: Any) -> None:
    config = {"durable_name": name, "ack_policy": "explicit", "ack_wait": 600 * SECOND, **config}
    answer = wire.api(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})
    assert "error" not in answer, answer


def publish(wire: JetStreamWire, count: int, subject: str = "s.{}", size: int = 40, **fields: str) -> None:
    """Publish so many messages; `{}` in the subject is the number, modulo 10."""
    asked = []
    for number in range(count):
        head = {"N": str(number), **fields} if number % 3 == 0 or fields else None
        asked.append(wire.ask(subject.format(number % 10), bytes([97 + number % 26]) * size, head))
        if len(asked) == _AT_ONCE or number == count - 1:
            for reply in asked:
                assert "error" not in wire.answer(reply).json()
            asked = []


def pull(wire: JetStreamWire, stream: str, name: str, count: int) -> list[str]:
    """Takes messages; their acknowledgement subjects."""
    inbox = f"{wire.inbox}.p"
    sid = wire.subscribe(inbox)
    wire.publish(
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", {"batch": count, "expires": 20 * SECOND}, reply=inbox
    )
    taken = wire.take(sid, count)
    wire.unsubscribe(sid)
    return [message.reply for message in taken]


def settle(wire: JetStreamWire, acks: list[str], what: str = "+ACK") -> None:
    """Acknowledges, and waits until the server has taken it in."""
    for ack in [wire.ask(reply, what) for reply in acks]:
        wire.answer(ack)


def fill(wire: JetStreamWire) -> None:
    """One stream of each kind, with consumers that have not acknowledged everything."""
    level = level_of(wire)
    _limits(wire)
    _queues(wire)
    make(wire, "FIRST", subjects=["first"], first_seq=1000)
    publish(wire, 3, "first")
    make(wire, "EMPTY", subjects=["empty"])
    publish(wire, 5, "empty")
    wire.api("STREAM.PURGE.EMPTY", {})
    make(wire, "NEVER", subjects=["never"])
    consume(wire, "NEVER", "waits", deliver_policy="new")
    make(wire, "SMALL", subjects=["small.>"], max_bytes=120_000, compression="s2")
    publish(wire, 600, "small.{}", 400)
    make(wire, "MANY", subjects=["many.>"], max_msgs=50, max_msgs_per_subject=20)
    publish(wire, 200, "many.{}")
    make(wire, "MEMORY", subjects=["memory"], storage="memory")
    publish(wire, 2, "memory")
    make(wire, "MIRROR", mirror={"name": "LIMITS"})
    make(wire, "SOURCED", sources=[{"name": "FIRST"}, {"name": "LIMITS", "filter_subject": "none"}])
    _buckets(wire)
    if level >= 1:
        make(wire, "TTL", subjects=["ttl.>"], allow_msg_ttl=True, subject_delete_marker_ttl=60 * SECOND)
        publish(wire, 10, "ttl.{}", **{"Nats-TTL": "1h"})
        publish(wire, 3, "ttl.{}", **{"Nats-TTL": "never"})
    if level >= 2:
        make(wire, "COUNTER", subjects=["count.>"], allow_msg_counter=True, allow_direct=True)
        publish(wire, 5, "count.{}", 0, **{"Nats-Incr": "2"})
        make(wire, "ATOMIC", subjects=["atomic.>"], allow_atomic=True)
        publish(wire, 2, "atomic.{}")
    make(wire, "DRAINED", sources=[{"name": "FIRST"}], retention="workqueue")
    consume(wire, "DRAINED", "drain")
    settle(wire, pull(wire, "DRAINED", "drain", 3))
    _until(wire, "DRAINED", lambda state: state["messages"] == 0)
    _until(wire, "MIRROR", lambda state: state["last_seq"] == 1000)
    _until(wire, "SOURCED", lambda state: state["messages"] == 3)


def fill_a_little(wire: JetStreamWire) -> None:
    """A few kilobytes: deleted messages, two floors of a consumer, compressed blocks."""
    make(wire, "KEEP", subjects=["s.>"])
    publish(wire, 20)
    for sequence in (1, 7, 8):
        wire.api("STREAM.MSG.DELETE.KEEP", {"seq": sequence, "no_erase": sequence % 2 == 0})
    consume(wire, "KEEP", "worker")
    taken = pull(wire, "KEEP", "worker", 8)
    settle(wire, taken[:2] + taken[4:5])
    settle(wire, taken[6:7], "-NAK")
    pull(wire, "KEEP", "worker", 1)
    make(wire, "COMPRESSED", subjects=["c.>"], max_bytes=120_000, compression="s2")
    publish(wire, 80, "c.{}", 400)


def _limits(wire: JetStreamWire) -> None:
    make(wire, "LIMITS", subjects=["s.>"], description="all of it", metadata={"of": "ours"})
    publish(wire, 1000)
    for sequence in (1, 2, 10, 400, 401, 402, 700):
        wire.api("STREAM.MSG.DELETE.LIMITS", {"seq": sequence, "no_erase": sequence % 2 == 0})
    wire.api("STREAM.PURGE.LIMITS", {"filter": "s.7"})
    consume(wire, "LIMITS", "one", filter_subject="s.3", max_deliver=5)
    taken = pull(wire, "LIMITS", "one", 30)
    settle(wire, taken[:10] + taken[15:17])
    settle(wire, taken[20:22], "-NAK")
    pull(wire, "LIMITS", "one", 2)
    consume(wire, "LIMITS", "all", ack_policy="all", filter_subjects=["s.1", "s.2"])
    settle(wire, pull(wire, "LIMITS", "all", 12)[7:8])
    consume(wire, "LIMITS", "push", deliver_subject="pushed", ack_policy="none", deliver_policy="last")
    consume(wire, "LIMITS", "late", deliver_policy="by_start_sequence", opt_start_seq=900)
    consume(wire, "LIMITS", "paused", metadata={"a": "b"}, backoff=[SECOND, 2 * SECOND], max_deliver=3)


def _queues(wire: JetStreamWire) -> None:
    make(wire, "QUEUE", subjects=["q.>"], retention="workqueue")
    publish(wire, 100, "q.{}")
    consume(wire, "QUEUE", "worker", max_ack_pending=50)
    taken = pull(wire, "QUEUE", "worker", 40)
    settle(wire, taken[:5] + taken[8:20])
    settle(wire, taken[30:31], "+TERM")
    make(wire, "INTEREST", subjects=["i.>"], retention="interest")
    consume(wire, "INTEREST", "a")
    consume(wire, "INTEREST", "b", filter_subject="i.1")
    publish(wire, 60, "i.{}")
    settle(wire, pull(wire, "INTEREST", "a", 20))
    settle(wire, pull(wire, "INTEREST", "b", 2)[1:])


def _buckets(wire: JetStreamWire) -> None:
    make(
        wire, "KV_config", subjects=["$KV.config.>"], max_msgs_per_subject=5, discard="new",
        allow_rollup_hdrs=True, deny_delete=True, allow_direct=True, num_replicas=1, max_bytes=-1,
    )  # fmt: skip
    for _ in range(8):
        publish(wire, 10, "$KV.config.key{}")
    wire.stored("$KV.config.key1", b"", {"KV-Operation": "DEL"})
    wire.stored("$KV.config.key2", b"", {"KV-Operation": "PURGE", "Nats-Rollup": "sub"})
    make(wire, "OBJ_files", subjects=["$O.files.C.>", "$O.files.M.>"], allow_rollup_hdrs=True, discard="new")
    publish(wire, 4, "$O.files.C.abc", 100_000)
    wire.stored("$O.files.M.bmFtZQ==", json.dumps({"name": "name", "chunks": 4}))


def _until(wire: JetStreamWire, stream: str, holds: Any) -> None:
    while not holds(wire.api(f"STREAM.INFO.{stream}")["state"]):
        time.sleep(0.02)


# -- what is there


def contents(wire: JetStreamWire) -> dict[str, Any]:
    """Streams by name, each with its configuration, state, messages and consumers."""
    names = sorted(info["config"]["name"] for info in _pages(wire, "STREAM.LIST", "streams"))
    return {name: _stream(wire, name) for name in names}


def _stream(wire: JetStreamWire, name: str) -> dict[str, Any]:
    info = wire.api(f"STREAM.INFO.{name}", {"deleted_details": True})
    state = info["state"]
    consumers = {
        found["name"]: {
            "config": _config(found["config"]),
            "created": found["created"],
            "delivered": _pair(found["delivered"]),
            "ack_floor": _pair(found["ack_floor"]),
            **{
                key: found[key]
                for key in ("num_ack_pending", "num_redelivered", "num_pending", "num_waiting")
            },
        }
        for found in _pages(wire, f"CONSUMER.LIST.{name}", "consumers")
    }
    return {
        "config": _config(info["config"]),
        "created": info["created"],
        "state": state,
        "messages": _messages(wire, name, state["first_seq"], state["last_seq"]),
        "consumers": consumers,
    }


def _config(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without what the server says of itself."""
    metadata = {key: value for key, value in config.get("metadata", {}).items() if key not in _OF_THE_SERVER}
    return {key: value for key, value in config.items() if key != "metadata"} | (
        {"metadata": metadata} if metadata else {}
    )


def _pair(found: dict[str, Any]) -> tuple[int, int]:
    return found["consumer_seq"], found["stream_seq"]


def _messages(wire: JetStreamWire, name: str, first: int, last: int) -> list[dict[str, Any]]:
    found = []
    for start in range(first, last + 1, _AT_ONCE):
        sequences = range(start, min(start + _AT_ONCE, last + 1))
        asked = [wire.ask(f"$JS.API.STREAM.MSG.GET.{name}", {"seq": sequence}) for sequence in sequences]
        found += [wire.answer(reply).json().get("message") for reply in asked]
    return [message for message in found if message is not None]


def _pages(wire: JetStreamWire, verb: str, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        answer = wire.api(verb, {"offset": len(found)})
        found += answer[key] or []
        if len(found) >= answer["total"]:
            return found
