"""Requests about streams and consumers, right and wrong, drawn at random: the words and what is made of them.

A move is a request; which streams and consumers there are by then is told by who plays. Nothing here says
what comes of a move.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECOND: Final = 1_000_000_000
STREAMS: Final = ("S1", "S2", "S3", "S4")
CONSUMERS: Final = ("C1", "C2", "C3")
_BAD_NAMES: Final = ("", "a.b", "a b", "a/b", "a\\b", "*", "x" * 256, "$x")
_SUBJECTS: Final = ("a", "a.b", "a.*", "b.>", "c.*.d", "d", "e.>", "S2", "a.*.*", "*.b")
_ODD_SUBJECTS: Final = (
    *(">", "*", "a..b", "", "a b", ".a", "$JS.API.x", "$JS.EVENT.>", "$JS.>", "$JSC.a", "$NRG.x"),
    *("$SYS.>", "$SYS.ACCOUNT.x", "$SYS.a", "$KV.b.>", "$JS.*.x", "a>", "a*b.c"),
)
_DESTINATIONS: Final = (
    *("x", "x.$1", "x.{{wildcard(1)}}", "x.{{wildcard(2)}}", "x.>", ">", "", "a..b", "{{partition(3,1)}}"),
    *("{{foo(1)}}", "{{left(1,2)}}", "{{split(1,-)}}", "x.*", "{{random(4)}}", "a b", "{{partition(3)}}.x"),
    *("{{sliceFromLeft(1)}}", "{{wildcard()}}", "x.{{wildcard(1,2)}}"),
)
_TIMES: Final = ("2026-01-01T00:00:00Z", "2020-05-05T10:11:12.5+02:00", "0001-01-01T00:00:00Z")
_DURATIONS: Final = (0, 1, -1, 99_999_999, 100_000_000, SECOND, 60 * SECOND, 120 * SECOND, 3600 * SECOND)
_COUNTS: Final = (0, 1, -1, -2, 5, 1000, 2000)
_BYTES: Final = (0, -1, -2, 1, 1024, 1 << 20, 3 << 20)


@dataclass(frozen=True)
class Move:
    """One request to the API; `stream` and `consumer` are what its subject names."""

    verb: str
    body: Any = None
    stream: str = ""
    consumer: str = ""

    @property
    def payload(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()

    def __str__(self) -> str:
        return f"{self.verb} {json.dumps(self.body)}"


class Draw:
    """One generator of moves, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def move(self, streams: Mapping[str, Sequence[str]]) -> Move:
        """`streams`: those there are, each with its consumers."""
        chance = self.random.random()
        if chance < 0.07 and streams:
            stream = self._one(list(streams))
            return Move(f"STREAM.DELETE.{stream}", None, stream)
        if chance < 0.3 or not streams:
            return self._stream("CREATE")
        if chance < 0.5:
            return self._stream("UPDATE")
        return self._consumer(streams)

    # -- streams

    def _stream(self, verb: str) -> Move:
        name = self._one(STREAMS)
        config = {"name": name, "storage": "memory"}
        number = int(name[1:]) if name[1:].isdigit() else 0
        if self._chance(0.8):
            config["subjects"] = [f"s{number}.>"]
        config |= self._drawn(STREAM_FIELDS)
        if ("mirror" in config or "sources" in config) and self._chance(0.7):
            config.pop("subjects", None)
        if self._chance(0.03):
            config["pedantic"] = True
        if self._chance(0.02) and "big" not in config.get("metadata", {}):
            config["nonsense"] = 1
        if self._chance(0.04):
            config["name"] = self._one((*_BAD_NAMES, "S9"))
        named = config["name"] if config["name"].isalnum() and self._chance(0.97) else name
        return Move(f"STREAM.{verb}.{named}", config, named)

    # -- consumers

    def _consumer(self, streams: Mapping[str, Sequence[str]]) -> Move:
        stream = self._one(list(streams)) if self._chance(0.97) else "S9"
        name = self._one(CONSUMERS) if self._chance(0.95) else self._one(("C4", "x" * 256))
        config: dict[str, Any] = {"ack_policy": "explicit", "mem_storage": True}
        if self._chance(0.6):
            config["durable_name"] = name
        else:
            config["inactive_threshold"] = 3600 * SECOND
        if self._chance(0.3):
            config["deliver_subject"] = self._one(("to.x", "to.y"))
        config |= self._drawn(CONSUMER_FIELDS)
        body: dict[str, Any] = {"stream_name": stream, "config": config}
        if self._chance(0.3):
            body["action"] = self._one(("create", "update", ""))
        if self._chance(0.1):
            body["pedantic"] = True
        if self._chance(0.03) and "big" not in config.get("metadata", {}):
            config["nonsense"] = 1
        return Move(f"CONSUMER.CREATE.{stream}.{name}", body, stream, name)

    # -- parts

    def _drawn(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        names = self.random.sample(list(fields), self._one((0, 0, 1, 1, 2, 3, 4)))
        drawn = {name: fields[name](self) for name in names}
        # Large bodies that are wrong in their JSON are refused in other words: a known difference.
        return {"metadata": drawn["metadata"]} if "big" in drawn.get("metadata", {}) else drawn

    def subjects(self) -> list[str]:
        return [self.subject() for _ in range(self._one((1, 1, 1, 2, 3)))]

    def subject(self) -> str:
        return self._one(_SUBJECTS if self._chance(0.8) else _ODD_SUBJECTS)

    def source(self) -> dict[str, Any]:
        source: dict[str, Any] = {"name": self._one((*STREAMS, "S9") if self._chance(0.95) else _BAD_NAMES)}
        if self._chance(0.3):
            source["filter_subject"] = self.subject()
        if self._chance(0.2):
            source["subject_transforms"] = [self.transform() for _ in range(self._one((1, 2)))]
        if self._chance(0.15):
            source["opt_start_seq"] = self._one((1, 5))
        if self._chance(0.1):
            source["opt_start_time"] = self._one(_TIMES)
        if self._chance(0.1):
            source["external"] = {
                "api": self._one(("$JS.d.API", "$JS.API", "x.>", "", "a b", "other")),
                "deliver": self._one(("", "s1", "d.x", "d.*", "s1.>")),
            }
        if self._chance(0.1):
            source["consumer"] = {
                "name": self._one(("c", "", "a.b")),
                "deliver_subject": self._one(("d.x", "", "d.*")),
            }
        return source

    def transform(self) -> dict[str, str]:
        return {"src": self._one((*_SUBJECTS, "", "a..b", ">")), "dest": self._one(_DESTINATIONS)}

    def republish(self) -> dict[str, Any]:
        # A destination with a space, and one that is empty, are known differences.
        dest = self._one([one for one in _DESTINATIONS if one and " " not in one])
        republish: dict[str, Any] = {"src": self._one((">", "", "a.*", "s1.>")), "dest": dest}
        if self._chance(0.3):
            republish["headers_only"] = True
        return republish

    def metadata(self) -> dict[str, str]:
        choices: tuple[dict[str, str], ...] = (
            {},
            {"a": "b"},
            {"_nats.req.level": "3", "z": "é<&>"},
            {"_nats.ver": "x", "_nats.level": "y"},
            {"big": "x" * (128 * 1024)},
        )
        return self._one(choices)

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _one(self, choices: Sequence[Any]) -> Any:
        return self.random.choice(choices)


def _of(*choices: Any) -> Any:
    return lambda draw: draw.random.choice(choices)


STREAM_FIELDS: Final[dict[str, Any]] = {
    "description": _of("", "x", "x" * 4096, "x" * 4097, "é"),
    "subjects": Draw.subjects,
    "retention": _of("limits", "interest", "workqueue", "bad", None),
    "max_consumers": _of(*_COUNTS),
    "max_msgs": _of(*_COUNTS),
    "max_bytes": _of(*_BYTES),
    "max_age": _of(*_DURATIONS),
    "max_msgs_per_subject": _of(*_COUNTS),
    "max_msg_size": _of(*_BYTES, 1 << 31),
    "discard": _of("old", "new", "NEW", "x"),
    "storage": _of("memory", "file", "x"),
    "num_replicas": _of(0, 1, 1, 1, 3, 6, -1),
    "no_ack": _of(True, False),
    "duplicate_window": _of(*_DURATIONS),
    "placement": _of({}, None, {"cluster": "X"}, {"tags": ["a"]}, {"preferred": "x"}),
    "mirror": lambda draw: draw.source(),
    "sources": lambda draw: [draw.source() for _ in range(draw.random.choice((1, 1, 2)))],
    "compression": _of("none", "s2", "x"),
    "first_seq": _of(0, 1, 100, -1),
    "subject_transform": lambda draw: draw.transform(),
    "republish": lambda draw: draw.republish(),
    "allow_direct": _of(True, False),
    "mirror_direct": _of(True, False),
    "discard_new_per_subject": _of(True, False),
    "sealed": _of(True, False, False),
    "deny_delete": _of(True, False),
    "deny_purge": _of(True, False),
    "allow_rollup_hdrs": _of(True, False),
    "consumer_limits": _of(
        {}, {"max_ack_pending": 10}, {"inactive_threshold": 5 * SECOND}, {"max_ack_pending": -1}, None
    ),
    "allow_msg_ttl": _of(True, False),
    "subject_delete_marker_ttl": _of(*_DURATIONS),
    "allow_msg_counter": _of(True, False),
    "allow_atomic": _of(True, False),
    "allow_msg_schedules": _of(True, False),
    "persist_mode": _of("default", "async", "", "x"),
    "allow_batched": _of(True, False),
    "metadata": Draw.metadata,
}

CONSUMER_FIELDS: Final[dict[str, Any]] = {
    "durable_name": _of("", "C1", "C2", "a.b"),
    "description": _of("", "x", "x" * 4096, "x" * 4097),
    "deliver_policy": _of(
        "all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject", "undefined", "x"
    ),
    "opt_start_seq": _of(0, 1, 100),
    "opt_start_time": _of(*_TIMES, None),
    "ack_policy": _of("none", "all", "explicit", "flow_control", "x"),
    "ack_wait": _of(*_DURATIONS),
    "max_deliver": _of(*_COUNTS, 2, 3),
    "backoff": _of([SECOND], [SECOND, 2 * SECOND], [-1], [SECOND] * 3),
    "filter_subject": Draw.subject,
    "filter_subjects": Draw.subjects,
    "replay_policy": _of("instant", "original", "x"),
    "rate_limit_bps": _of(0, 1000),
    "sample_freq": _of("", "30%", "100", "x", "-1", "30%%", "+5", "99999999999999999999", "1.5"),
    "max_waiting": _of(*_COUNTS),
    "max_ack_pending": _of(*_COUNTS),
    "flow_control": _of(True, False),
    "headers_only": _of(True, False),
    "max_batch": _of(*_COUNTS),
    "max_expires": _of(*_DURATIONS),
    "max_bytes": _of(*_BYTES),
    "deliver_subject": _of("", "to.x", "to.*", "to..x", "s1.x", "a b", "S1"),
    "deliver_group": _of("", "g"),
    "idle_heartbeat": _of(*_DURATIONS),
    "inactive_threshold": _of(*_DURATIONS),
    "num_replicas": _of(0, 1, 3, -1),
    "mem_storage": _of(True, False),
    "direct": _of(True, False, False),
    "metadata": Draw.metadata,
    "pause_until": _of("2099-01-01T00:00:00Z", "2099-01-01T00:00:00.5+01:00", "2020-01-01T00:00:00Z", None),
    "priority_groups": _of(["A"], [""], ["a b"], ["A", "B"]),
    "priority_policy": _of("none", "overflow", "pinned_client", "prioritized", "x"),
    "priority_timeout": _of(*_DURATIONS),
}
