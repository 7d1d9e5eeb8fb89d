"""Generated sequences of what clients do with JetStream: API calls, publications, fetches and acks.

Here lives what is drawn (by hypothesis, as bytes, so that it shrinks) and how a step is played. Every step is
over when it returns: acks are double, fetches do not wait, so that the answers depend on nothing but the
steps before. Never lives here: what is right, which the Go server says (`test_differential_jetstream`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hypothesis import strategies as st

from conformance.jetstream_plays import Play, shown, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import SearchStrategy

    from harness.jetstream import Message

STEPS: Final = 24
STREAMS: Final = ("S", "T")
CONSUMERS: Final = ("A", "B", "C")
TOKENS: Final = ("a", "b", "c.d", "c.e", "*", "a.b.c")

HOUR: Final = 3600 * 10**9

CONFIGS: Final[Sequence[dict[str, Any]]] = (
    {},
    {"storage": "memory"},
    {"max_msgs": 5},
    {"max_msgs": 3, "discard": "new"},
    {"max_msgs_per_subject": 1},
    {"max_msgs_per_subject": 2, "storage": "memory"},
    {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True},
    {"max_bytes": 300},
    {"max_bytes": 250, "discard": "new"},
    {"retention": "workqueue"},
    {"retention": "interest"},
    {"retention": "interest", "storage": "memory"},
    {"retention": "workqueue", "max_msgs": 4},
    {"allow_rollup_hdrs": True, "allow_direct": True},
    {"deny_delete": True},
    {"deny_purge": True},
    {"max_consumers": 2},
    {"max_msg_size": 12},
    {"first_seq": 10},
    {"allow_msg_ttl": True, "max_age": HOUR},
    {"allow_msg_counter": True},
    {"compression": "s2"},
    {"subject_transform": {"src": "S.c.*", "dest": "S.moved.$1"}},
    {"duplicate_window": HOUR},
    {"description": "d", "metadata": {"k": "v"}},
)
"""The configurations of streams; an update takes another one."""

CONSUMER_CONFIGS: Final[Sequence[dict[str, Any]]] = (
    {"ack_policy": "explicit"},
    {"ack_policy": "explicit", "filter": "a"},
    {"ack_policy": "explicit", "filter": "c.*"},
    {"ack_policy": "explicit", "filters": ["a", "c.d"]},
    {"ack_policy": "explicit", "deliver_policy": "last"},
    {"ack_policy": "explicit", "deliver_policy": "new"},
    {"ack_policy": "explicit", "deliver_policy": "last_per_subject", "filter": ">"},
    {"ack_policy": "explicit", "deliver_policy": "by_start_sequence", "opt_start_seq": 3},
    {"ack_policy": "explicit", "max_deliver": 2},
    {"ack_policy": "explicit", "headers_only": True},
    {"ack_policy": "all"},
    {"ack_policy": "all", "filter": "c.>"},
    {"ack_policy": "none"},
    {"ack_policy": "none", "deliver_policy": "last_per_subject", "filters": ["a", "b"]},
    {"ack_policy": "explicit", "mem_storage": True, "description": "d"},
)

HEADERS: Final[Sequence[dict[str, str] | None]] = (
    *(None,) * 8,
    {"Nats-Msg-Id": "one"},
    {"Nats-Msg-Id": "two"},
    {"Nats-Expected-Last-Sequence": "3"},
    {"Nats-Expected-Last-Subject-Sequence": "0"},
    {"Nats-Expected-Last-Subject-Sequence": "2"},
    {"Nats-Expected-Last-Msg-Id": "one"},
    {"Nats-Rollup": "sub"},
    {"Nats-Rollup": "all"},
    {"Nats-TTL": "1h"},
    {"Nats-Incr": "2"},
    {"K": "v"},
)
ACKS: Final = (
    b"+ACK",
    b"",
    b"+ACK",
    b"-NAK",
    b"-NAK",
    b"+TERM",
    b"+TERM why",
    b"+WPI",
    b'-NAK {"delay": 3600000000000}',
)
# Not `keep` alone: the Go server then does not count anew what is pending for consumers with a filter.
PURGES: Final[Sequence[dict[str, Any] | None]] = (
    None,
    {"seq": 3},
    {"seq": 6},
    {"filter": "a"},
    {"filter": "c.*", "keep": 1},
    {"filter": "c.>", "seq": 5},
)
GETS: Final[Sequence[dict[str, Any]]] = (
    {"seq": 1},
    {"seq": 4},
    {"last_by_subj": "a"},
    {"last_by_subj": "c.*"},
    {"next_by_subj": "c.d", "seq": 2},
    {"next_by_subj": ">", "seq": 3},
    {"batch": 2, "seq": 2},
    {"multi_last": ["a", "c.*"]},
)


_PENDING: Final = re.compile(r"<ns>\.\d+")


class Step(NamedTuple):
    """Numbers that mean something once it is known what is done with what."""

    kind: str
    stream: str
    chosen: int
    other: int

    def __repr__(self) -> str:
        return f"{self.kind} {self.stream} {self.chosen} {self.other}"


_KINDS: Final = (
    "nothing",  # what others shrink to
    *("publish",) * 12,
    *("fetch",) * 6,
    *("ack",) * 6,
    *("consumer",) * 5,
    *("create",) * 3,
    *("purge",) * 2,
    *("erase",) * 2,
    *("get",) * 2,
    "update",
    "drop",
    "drop_consumer",
    "look",
    "reset",
)
_WIDTH: Final = 4


def sequences() -> SearchStrategy[tuple[Step, ...]]:
    size = STEPS * _WIDTH
    return st.binary(min_size=size, max_size=size).map(_steps)


def _steps(drawn: bytes) -> tuple[Step, ...]:
    """A stream, perhaps a consumer, and what is drawn."""
    first, *rest = (drawn[at : at + _WIDTH] for at in range(0, len(drawn), _WIDTH))
    steps = [Step("create", "S", first[0], 0)]
    if first[1] % 4:
        steps.append(Step("consumer", "S", first[2], first[3]))
    for kind, stream, chosen, other in rest:
        step = Step(_KINDS[kind % len(_KINDS)], STREAMS[stream % 8 == 7], chosen, other)
        if step.kind != "nothing":
            steps.append(step)
    return tuple(steps)


class Player:
    """Plays steps; `play.lines` is what is compared."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._unacked: list[Message] = []
        self._filters: dict[tuple[str, str], object] = {}
        self._refused: set[str] = set()
        """Streams with messages to be sent again at once, which any purge keeps the Go server from."""
        self._dropped: set[str] = set()
        """Streams whose files the Go server may find again where one of the same name is made too soon."""
        self._has_removed = False
        """A purge or a deletion, after which the Go server does not always count anew what is pending."""

    def do(self, step: Step) -> None:
        self._play.say(repr(step))
        act: Callable[[Step], None] = getattr(self, f"_{step.kind}")
        first = len(self._play.lines)
        act(step)
        if self._has_removed:
            self._play.lines[first:] = [_PENDING.sub("<ns>.<n>", line) for line in self._play.lines[first:]]

    def end(self) -> None:
        """Return the state of all streams and consumers."""
        play = self._play
        for stream in play.quiet("STREAM.NAMES")["streams"] or []:
            if self._state(stream):
                play.read(stream)
            for consumer in play.quiet(f"CONSUMER.NAMES.{stream}")["consumers"]:
                self._info(consumer, stream)

    # -- streams

    def _state(self, stream: str) -> bool:
        """Whether it ever had a message: else the Go server is not constant about its first sequence."""
        state = self._play.quiet(f"STREAM.INFO.{stream}").get("state")
        if state and not state["last_seq"]:
            self._play.say(stream, "never had a message", state["consumer_count"])
            return False
        self._play.state(stream, subjects_filter=">", deleted_details=True)
        return state is not None

    def _info(self, consumer: str, stream: str) -> None:
        """Without when its floor last moved: the Go server counts moves that no acknowledgement made."""
        info = self._play.quiet(f"CONSUMER.INFO.{stream}.{consumer}")
        if "error" not in info:
            info["ack_floor"].pop("last_active", None)
            self._forget_moved(info)
        self._play.say(
            "info of", consumer, {k: v for k, v in info.items() if k not in ("config", "type", "ts")}
        )

    def _config(self, step: Step) -> dict[str, Any]:
        config = {
            "name": step.stream,
            "subjects": [f"{step.stream}.>"],
            **CONFIGS[step.chosen % len(CONFIGS)],
        }
        transform = config.get("subject_transform")
        if transform and step.stream != "S":
            config["subject_transform"] = {k: v.replace("S.", "T.") for k, v in transform.items()}
        return config

    def _create(self, step: Step) -> None:
        config = self._config(step)
        if step.stream in self._dropped:
            config["storage"] = "memory"
        self._stream_api("CREATE", config)

    def _update(self, step: Step) -> None:
        config = self._config(step)
        config.pop("first_seq", None)  # which the Go server takes, and shows, to no effect
        self._stream_api("UPDATE", config)

    def _stream_api(self, verb: str, config: dict[str, Any]) -> None:
        """What it is answered, without the first sequence of one that never had a message."""
        answer = self._play.quiet(f"STREAM.{verb}.{config['name']}", config)
        if not answer.get("state", {"last_seq": 1})["last_seq"]:
            del answer["state"]["first_seq"]
        self._play.say(f"STREAM.{verb}", config["name"], "->", unpacked(answer))

    def _drop(self, step: Step) -> None:
        self._dropped.add(step.stream)
        self._play.api(f"STREAM.DELETE.{step.stream}")

    def _look(self, step: Step) -> None:
        self._state(step.stream)
        consumer = CONSUMERS[step.other % len(CONSUMERS)]
        self._info(consumer, step.stream)

    def _purge(self, step: Step) -> None:
        if step.stream in self._refused:
            return
        self._has_removed = True
        if not self._play.quiet(f"STREAM.INFO.{step.stream}").get("state", {}).get("last_seq"):
            return  # the Go server then says that 1 is the first sequence
        request = PURGES[step.chosen % len(PURGES)]
        if request and "filter" in request:
            request = {**request, "filter": f"{step.stream}.{request['filter']}"}
        self._play.api(f"STREAM.PURGE.{step.stream}", request)

    def _erase(self, step: Step) -> None:
        self._has_removed = True
        self._play.api(
            f"STREAM.MSG.DELETE.{step.stream}", {"seq": step.chosen % 12, "no_erase": step.other % 2 == 0}
        )

    def _get(self, step: Step) -> None:
        request = dict(GETS[step.chosen % len(GETS)])
        for name in ("last_by_subj", "next_by_subj"):
            if name in request and request[name] != ">":
                request[name] = f"{step.stream}.{request[name]}"
        if "multi_last" in request:
            request["multi_last"] = [f"{step.stream}.{subject}" for subject in request["multi_last"]]
        if request.keys() & {"batch", "multi_last"}:
            sid, subject = self._play.inbox()
            self._play.wire.publish(f"$JS.API.DIRECT.GET.{step.stream}", request, reply=subject)
            self._play.take(sid)
            self._play.wire.unsubscribe(sid)
        elif step.other % 2:
            answer = self._play.wire.request(f"$JS.API.DIRECT.GET.{step.stream}", request)
            self._play.say(shown(answer))
        else:
            self._play.api(f"STREAM.MSG.GET.{step.stream}", request)

    def _publish(self, step: Step) -> None:
        subject = f"{step.stream}.{TOKENS[step.chosen % len(TOKENS)]}"
        fields = HEADERS[step.other % len(HEADERS)]
        payload = "" if fields and "Nats-Incr" in fields else "x" * (step.chosen * step.other % 40)
        answer = self._play.wire.request(subject, payload, fields)
        self._play.say("publish", subject, fields or "", shown(answer))

    # -- consumers

    def _consumer(self, step: Step) -> None:
        name = CONSUMERS[step.other % len(CONSUMERS)]
        config: dict[str, Any] = {
            "durable_name": name,
            **CONSUMER_CONFIGS[step.chosen % len(CONSUMER_CONFIGS)],
        }
        if "opt_start_seq" in config:
            config["opt_start_seq"] = min(config["opt_start_seq"], self._next_sequence(step.stream))
        if (subject := config.pop("filter", None)) is not None:
            config["filter_subject"] = f"{step.stream}.{subject}"
        if subjects := config.pop("filters", None):
            config["filter_subjects"] = [f"{step.stream}.{subject}" for subject in subjects]
        wanted = config.get("filter_subject", config.get("filter_subjects"))
        if self._filters.setdefault((step.stream, name), wanted) != wanted:
            # Made anew: of one whose filter changes the Go server does not count what is pending.
            self._play.api(f"CONSUMER.DELETE.{step.stream}.{name}")
            self._filters[step.stream, name] = wanted
        request = {"stream_name": step.stream, "config": config}
        self._consumer_api(f"CONSUMER.CREATE.{step.stream}.{name}", request)

    def _next_sequence(self, stream: str) -> int:
        """Beyond that nothing begins: the Go server then counts as pending what comes before it."""
        state = self._play.quiet(f"STREAM.INFO.{stream}").get("state", {"last_seq": 0})
        return 1 + int(state["last_seq"])

    def _consumer_api(self, verb: str, request: Any) -> None:
        """A request that is answered with a consumer's info."""
        answer = self._play.quiet(verb, request)
        if "error" not in answer:
            self._forget_moved(answer)
        self._play.say(verb, "->", answer)

    def _forget_moved(self, info: dict[str, Any]) -> None:
        """What a removal moves in a consumer's info, not always at once on the Go server.

        For it one message that went was acknowledged, and with policy `all` those before it too.
        """
        if info["config"]["ack_policy"] == "all" and self._has_lost(info["stream_name"]):
            del info["num_ack_pending"], info["ack_floor"]
        if self._has_removed:
            info.pop("ack_floor", None)
            del info["num_pending"], info["delivered"]["stream_seq"]

    def _has_lost(self, stream: str) -> bool:
        """Whether messages went, by whatever way."""
        info = self._play.quiet(f"STREAM.INFO.{stream}")
        state = info["state"]
        first = info["config"].get("first_seq", 1)
        return self._has_removed or bool(state["messages"] < state["last_seq"] - first + 1)

    def _drop_consumer(self, step: Step) -> None:
        self._play.api(f"CONSUMER.DELETE.{step.stream}.{CONSUMERS[step.other % len(CONSUMERS)]}")

    def _reset(self, step: Step) -> None:
        consumer = CONSUMERS[step.other % len(CONSUMERS)]
        if "error" in self._play.quiet(f"CONSUMER.INFO.{step.stream}.{consumer}"):
            return
        sequence = min(step.chosen % 8, self._next_sequence(step.stream))
        request = {"seq": sequence} if step.chosen % 3 else None
        self._consumer_api(f"CONSUMER.RESET.{step.stream}.{consumer}", request)

    def _fetch(self, step: Step) -> None:
        play = self._play
        consumer = CONSUMERS[step.other % len(CONSUMERS)]
        batch = 1 + step.chosen % 4
        # It is now that the Go server tells a consumer of what is new.
        info = play.quiet(f"CONSUMER.INFO.{step.stream}.{consumer}")
        by_subject = info.get("config", {}).get("deliver_policy") == "last_per_subject"
        if by_subject and self._has_lost(step.stream):
            return  # the Go server may stand still where one of the first messages went
        sid = play.ask_pull({"batch": batch, "no_wait": True}, consumer, step.stream)
        for _ in range(batch):
            [message] = play.take(sid, 1)
            if message.status:
                break
            if message.reply:
                self._unacked.append(message)
        play.wire.unsubscribe(sid)

    def _ack(self, step: Step) -> None:
        """Not after a removal: the Go server may forget pending messages that are still there."""
        if self._unacked and not self._has_removed:
            message = self._unacked[-1 - step.chosen % min(len(self._unacked), 6)]
            kind = ACKS[step.other % len(ACKS)]
            answer = self._play.wire.request(message.reply, kind)
            self._play.say(kind.decode(), shown(message), "->", answer.status)
            if kind == b"-NAK":
                self._refused.add(message.subject.partition(".")[0])
