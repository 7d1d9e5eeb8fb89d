"""What is measured: one entry per question, with its load and the target it is held to.

Here live names, arguments and targets; how they are run lives in `runner`, who takes part in `sides`. A
target compares the median of Headrace with the median of a peer in the same run (peer = 1.00).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from bench.sides import Side

Metric = Literal["rate", "cpu_ns", "p50_us", "p99_us", "memory_kb", "idle_cores"]
Suite = Literal["core", "durable", "jetstream", "single", "cluster", "cores", "mqtt"]
"""Cases that are run together and share a result file."""

CHURN_PER_SECOND = 100_000
CHURN_PACE_MIN = 0.95
"""Share of the asked churn below which a run counts as behind its pace."""


class Entry(NamedTuple):
    """A side that takes part in a case, and what it adds to the arguments of the load."""

    side: Side
    words: tuple[str, ...] = ()


class Fill(NamedTuple):
    """What a stream holds before a case begins: messages, and the bytes of the payload of each."""

    messages: int
    payload: int


@dataclass(frozen=True, slots=True)
class Bound:
    """One ratio to a peer that must hold: at least `bound` for a rate, at most for everything else."""

    metric: Metric
    bound: float
    peer: Side = "peer"

    @property
    def at_least(self) -> bool:
        return self.metric == "rate"

    def holds(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement.

    counts: the number of the load's report that rate and CPU time are divided by.
    noun: what one of them is called, in the singular.
    entries: who takes part; the first is ours, the others are its peers.
    latency: the load reports latencies worth comparing.
    fill: the stored stream that is read; None for a case that begins with nothing.
    patience_s: what the load may take beyond what others may.
    alone: one operation after the other, each waiting for its answer: the suite `single`.
    compares: the figures that say something; empty: rate and CPU time, and latencies where there are some.
    churn: subscribe-unsubscribe pairs a second the load must keep up; 0 when it has no pace.
    """

    name: str
    title: str
    args: tuple[str, ...]
    counts: str
    noun: str
    bounds: tuple[Bound, ...] = ()
    line: str = ""
    loader: Literal["native", "tls"] = "native"
    churn: int = 0
    timed: bool = True
    entries: tuple[Entry, ...] = (Entry("server"), Entry("peer"))
    latency: bool = False
    fill: Fill | None = None
    patience_s: float = 0.0
    compares: tuple[Metric, ...] = ()
    alone: bool = False

    @property
    def sides(self) -> tuple[Side, ...]:
        return tuple(entry.side for entry in self.entries)

    @property
    def ours(self) -> Side:
        return self.entries[0].side

    @property
    def peers(self) -> tuple[Side, ...]:
        return self.sides[1:]

    @property
    def suite(self) -> Suite:
        if self.alone:
            return "single"
        suites: dict[Side, Suite] = {
            "streaming": "durable",
            "streams": "jetstream",
            "mesh": "cluster",
            "mesh-to-peer": "cluster",
            "mesh-from-peer": "cluster",
            "spread": "cores",
            "mqtt": "mqtt",
            "mqtt-default": "mqtt",
            "mqtt-open": "mqtt",
        }
        return suites.get(self.ours, "core")

    @property
    def stores(self) -> bool:
        """True when the speed of the disk matters."""
        if self.alone:
            return self.ours != "server"
        return self.suite in ("durable", "jetstream") and self.fill is None

    @property
    def is_mqtt(self) -> bool:
        """True when the load goes to the port for MQTT."""
        return self.args[0] in ("mqtt", "mqtt-idle")

    @property
    def is_polling(self) -> bool:
        """True when the load keeps its core busy on purpose."""
        return "--spin" in self.args

    @property
    def metrics(self) -> tuple[Metric, ...]:
        if self.latency:
            return ("rate", "cpu_ns", "p50_us", "p99_us")
        return self.compares or ("rate", "cpu_ns")


def _bounds(
    rate: float | None = None, cpu: float | None = None, latency: float | None = None
) -> tuple[Bound, ...]:
    found: list[Bound] = []
    if rate is not None:
        found.append(Bound("rate", rate))
    if cpu is not None:
        found.append(Bound("cpu_ns", cpu))
    if latency is not None:
        found += [Bound("p50_us", latency), Bound("p99_us", latency)]
    return tuple(found)


def _traffic(
    name: str,
    title: str,
    args: str,
    bounds: tuple[Bound, ...] = (),
    line: str = "",
    *,
    churn: int = 0,
) -> Case:
    published = "--fan" not in args and "--wildcards" not in args
    counts, noun = ("published", "message") if published else ("delivered", "delivery")
    return Case(name, title, ("traffic", *args.split()), counts, noun, bounds, line, churn=churn)


def _tls(name: str, title: str, args: str, noun: str) -> Case:
    counts = "published" if noun == "message" else "delivered"
    return Case(name, title, tuple(args.split()), counts, noun, loader="tls")


def _requests(name: str, title: str, args: str, bounds: tuple[Bound, ...], line: str) -> Case:
    return Case(name, title, ("requests", *args.split()), "requests", "request", bounds, line, latency=True)


def _guarded(name: str, what: str, ours: Side, peer: Side) -> Case:
    """What one-to-one-128 measures, with more to look at for each message."""
    args = ("traffic", "--payload", "128", "--fan", "1")
    entries = (Entry(ours), Entry(peer))
    return Case(name, f"1 → 1, 128 B, {what}", args, "delivered", "delivery", entries=entries)


_STAN, _JETSTREAM = ("--speak", "stan"), ("--speak", "jetstream")
_STORING = (
    Entry("streaming", _STAN),
    Entry("jetstream", _JETSTREAM),
    Entry("jetstream-always", _JETSTREAM),
)


def _window(name: str, size: str, payload: int) -> Case:
    return Case(
        name,
        f"durable publish, window of 500, {size}",
        ("store", "--payload", str(payload), "--inflight", "500"),
        "published",
        "message",
        (
            Bound("rate", 2, "jetstream"),
            Bound("cpu_ns", 0.5, "jetstream"),
            Bound("rate", 5, "jetstream-always"),
        ),
        _WINDOW,
        entries=_STORING,
    )


def _acks(publishers: int) -> Case:
    return Case(
        f"ack-{publishers}",
        f"durable publish, {publishers} publishers that wait for each ack, 128 B",
        ("store", "--payload", "128", "--flows", str(publishers)),
        "published",
        "message",
        (Bound("p99_us", 1, "jetstream-always"),),
        _ACKS,
        entries=_STORING,
        latency=True,
    )


def _reading(
    name: str,
    title: str,
    count: int,
    args: str,
    *,
    ours: tuple[str, ...] = _STAN,
    bounds: tuple[Bound, ...] = (),
    line: str = "",
) -> Case:
    return Case(
        name,
        title,
        ("consume", "--payload", str(_STORED_PAYLOAD), *args.split()),
        "delivered",
        "delivery",
        bounds,
        line,
        timed=False,
        entries=(Entry("streaming", ours), Entry("jetstream", _JETSTREAM)),
        fill=Fill(count, _STORED_PAYLOAD),
        patience_s=300.0,
    )


_STREAMS = (
    Entry("streams", _JETSTREAM),
    Entry("jetstream", _JETSTREAM),
    Entry("jetstream-always", _JETSTREAM),
)
_STORED = (Entry("streams", _JETSTREAM), Entry("jetstream", _JETSTREAM))


def _stream_publish(
    name: str, title: str, args: str, bounds: tuple[Bound, ...], line: str, *, latency: bool = False
) -> Case:
    return Case(
        name,
        f"JetStream: {title}",
        ("store", *args.split()),
        "published",
        "message",
        bounds,
        line,
        entries=_STREAMS,
        latency=latency,
    )


def _stream_read(name: str, title: str, args: str, rate: float = 0, line: str = "") -> Case:
    return Case(
        name,
        f"JetStream: {title}",
        ("consume", "--payload", str(_STORED_PAYLOAD), *args.split()),
        "delivered",
        "delivery",
        (Bound("rate", rate, "jetstream"),) if line else (),
        line,
        timed=False,
        entries=_STORED,
        fill=Fill(1_000_000, _STORED_PAYLOAD),
        patience_s=300.0,
    )


_HOP_ENTRIES = (Entry("mesh"), Entry("mesh-peer"))


def _hop(name: str, title: str, args: str, bounds: tuple[Bound, ...] = (), line: str = "") -> Case:
    """What is published at one node of a mesh and subscribed to at the other."""
    return Case(
        name, f"one hop: {title}", ("traffic", *args.split()), "delivered", "delivery", bounds, line,
        entries=_HOP_ENTRIES,
    )  # fmt: skip


def _mixed_hop(name: str, title: str, side: Side) -> Case:
    args = ("traffic", "--payload", "128", "--fan", "1")
    bounds = (Bound("rate", 0.95, "mesh-peer"),)
    entries = (Entry(side), Entry("mesh-peer"))
    return Case(name, f"one hop: {title}", args, "delivered", "delivery", bounds, _HOP_MIXED, entries=entries)


def _spread(name: str, title: str, args: str) -> Case:
    """One server of two processes beside one of one, and nats-server with all cores."""
    counts, noun = ("delivered", "delivery") if "--fan" in args else ("published", "message")
    return Case(
        name, f"2 processes: {title}", ("traffic", "--payload", "128", *args.split()), counts, noun,
        entries=(Entry("spread", ("--spread",)), Entry("server"), Entry("peer")),
    )  # fmt: skip


def _hop_requests(name: str, title: str, args: str) -> Case:
    return Case(
        name, f"one hop: request-reply, {title}", ("requests", *args.split()), "requests", "request",
        (Bound("p99_us", 0.8, "mesh-peer"),), _HOP_REQUEST, latency=True, entries=_HOP_ENTRIES,
    )  # fmt: skip


_SAME_PROMISE: tuple[Entry, ...] = (
    Entry("streams-interval", _JETSTREAM),
    Entry("jetstream-interval", _JETSTREAM),
)


def _single(name: str, title: str, args: str) -> tuple[Case, Case]:
    """One operation of JetStream, with the same promise on both sides and with the default of each."""
    counts, noun = ("published", "message") if args.startswith("store") else ("operations", "operation")
    case = Case(
        f"single-{name}", f"alone: {title}, `sync_interval: 2m`", tuple(args.split()), counts, noun,
        (Bound("p50_us", 0.7, "jetstream-interval"), Bound("cpu_ns", 0.5, "jetstream-interval")), _ALONE,
        entries=_SAME_PROMISE, latency=True, alone=True, patience_s=60.0,
    )  # fmt: skip
    default = replace(
        case, name=f"{case.name}-default", title=f"alone: {title}", bounds=(), line="", entries=_STORED
    )
    return case, default


def _single_stan(name: str, title: str, args: str) -> tuple[Case, Case]:
    """A publication of NATS Streaming beside JetStream's; the same promise, then the default of each."""
    case = Case(
        f"single-{name}", f"alone: {title}, synced every 2m", ("store", "--payload", "128", *args.split()),
        "published", "message",
        (Bound("p50_us", 1, "jetstream-interval"), Bound("cpu_ns", 1, "jetstream-interval")), _ALONE_STAN,
        entries=(Entry("streaming-interval", _STAN), Entry("jetstream-interval", _JETSTREAM)),
        latency=True, alone=True,
    )  # fmt: skip
    entries = (Entry("streaming", _STAN), Entry("jetstream", _JETSTREAM))
    default = replace(
        case, name=f"{case.name}-default", title=f"alone: {title}", bounds=(), line="", entries=entries
    )
    return case, default


_MQTT_ENTRIES = (Entry("mqtt"), Entry("mqtt-peer"), Entry("mosquitto"))


def _mqtt(name: str, title: str, args: str, bounds: tuple[Bound, ...] = (), line: str = "") -> Case:
    """Messages over MQTT; what is stored is synced every two minutes on both sides."""
    counts, noun = ("delivered", "delivery") if "--fan" in args else ("published", "message")
    words = ("mqtt", "--payload", "128", "--window", "1000000", *args.split())
    return Case(
        name, f"MQTT: {title}", words, counts, noun, bounds, line, entries=_MQTT_ENTRIES, patience_s=30.0
    )


_MQTT_BOUNDS = (Bound("cpu_ns", 0.35, "mqtt-peer"), Bound("cpu_ns", 1, "mosquitto"))
_MQTT_QOS0 = "MQTT, QoS 0, 1 → 1 and fan-out 1 → 100: CPU ≤ 0.35× nats-server, ≤ 1× Mosquitto"
_MQTT_QOS1 = "MQTT, QoS 1, 1 → 1, window of 100: rate ≥ 3× nats-server"
_MQTT_QOS2 = "MQTT, QoS 2, 1 → 1, window of 100: rate ≥ 1×, CPU ≤ 1× nats-server"
_MQTT_IDLE = "MQTT, 10,000 idle clients: memory ≤ 0.35× nats-server"
_MQTT_OPEN = "NATS beside an open MQTT port, 1 → 1, 128 B: the CPU of a server without one (≤ 1.05×)"
_HOP = "one hop between two nodes, 16 B and 128 B: rate ≥ 3×, CPU of both nodes ≤ 0.3×"
_HOP_MIXED = "one hop between Headrace and nats-server: the rate of the slower node (≥ 0.95×)"
_HOP_REQUEST = "request-reply over one hop, 1 and 50 in flight: p99 ≤ 0.8×"
_HOP_INTEREST = "interest of a million subscriptions known to another node in ≤ 0.5× the time"
_HOP_BOUNDS = (Bound("rate", 3, "mesh-peer"), Bound("cpu_ns", 0.3, "mesh-peer"))
_PUBLISH = "publish 16 B / 128 B, no subscriber: rate ≥ 4× / 2×, CPU ≤ 0.25× / 0.4×"
_ONE = "1 → 1, 16 B / 128 B: rate ≥ 5× / 4×, CPU ≤ 0.2× / 0.25×"
_FAN = "fan-out 1 → 10 / 1 → 100: rate ≥ 4× / 4×, CPU ≤ 0.25× / 0.25×"
_PAIRS = "10 pairs: rate ≥ 2.5×, CPU ≤ 0.3×"
_WILD = "10,000 wildcard subscriptions, random subjects: rate ≥ 4×, CPU ≤ 0.2×"
_REQUEST = "request-reply, 1 and 50 in flight: p50 and p99 ≤ 0.7×, CPU ≤ 0.5×"
_IDLE = "10,000 idle connections: memory ≤ 0.35×"
_WINDOW = (
    "durable publish, acknowledged and fsynced, window of 500: rate ≥ 2× JetStream without fsync and ≥ 5× "
    "with it, CPU ≤ 0.5× without"
)
_ACKS = "durable publish, 10 and 100 publishers that wait for each ack: p99 ≤ 1× JetStream with fsync"
_DELIVERY = "delivery to a durable subscriber with acks: rate ≥ 3×"
_REPLAY = "replay of 10 million stored messages: rate ≥ 3×, CPU ≤ 0.3×"
_STORED_PAYLOAD = 128
_JS_ASYNC = (
    "JetStream publish, window of 500: rate ≥ 2× the default mode of nats-server, which does not fsync"
)
_JS_SYNC = "JetStream publish, 1 and 10 clients that wait for each PubAck: p50 ≤ 1× the same"
_JS_FETCH = "JetStream fetch of 500, with acks and without: rate ≥ 2× and ≥ 3×"
_JS_ORDERED = "JetStream replay by an ordered consumer: rate ≥ 3×"
_JS_ASSETS = (
    "1,000 streams and 10,000 consumers: time to create one and CPU time while nothing happens ≤ 0.5×"
)
_ALONE = (
    "one operation of JetStream after the other, the same promise: publish (file, memory, with an id), pull "
    "of one, confirmed ack, direct get by subject and by sequence: p50 ≤ 0.7×, CPU ≤ 0.5×"
)
_ALONE_STAN = "one publication of NATS Streaming after the other, beside JetStream's: p50 ≤ 1×, CPU ≤ 1×"
_ALONE_CONNECT = "connect, handshake, close, one after the other: CPU ≤ 0.6×"
_LOOK_UP = "--payload 128 --count 100000 --subjects 1000 --operation"
_JS_MEMORY = "JetStream, a stream of many messages on many subjects: memory ≤ 0.3×"

CASES: tuple[Case, ...] = (
    _traffic("publish-16", "publish 16 B", "--payload 16", _bounds(4, 0.25), _PUBLISH),
    _traffic("publish-128", "publish 128 B", "--payload 128", _bounds(2, 0.4), _PUBLISH),
    _traffic("one-to-one-16", "1 → 1, 16 B", "--payload 16 --fan 1", _bounds(5, 0.2), _ONE),
    _traffic("one-to-one-128", "1 → 1, 128 B", "--payload 128 --fan 1", _bounds(4, 0.25), _ONE),
    _traffic("one-to-one-1k", "1 → 1, 1 KB", "--payload 1024 --fan 1"),
    _traffic("one-to-one-64k", "1 → 1, 64 KB", "--payload 65536 --fan 1"),
    _traffic("one-to-one-1m", "1 → 1, 1 MB", "--payload 1048576 --fan 1"),
    _traffic("headers-128", "1 → 1, 128 B and headers", "--payload 128 --fan 1 --headers"),
    _traffic("fan-out-10", "fan-out 1 → 10, 128 B", "--payload 128 --fan 10", _bounds(4, 0.25), _FAN),
    _traffic("fan-out-100", "fan-out 1 → 100, 128 B", "--payload 128 --fan 100", _bounds(4, 0.25), _FAN),
    _traffic("pairs-10", "10 pairs, 128 B", "--payload 128 --fan 1 --flows 10", _bounds(2.5, 0.3), _PAIRS),
    _guarded("permissions-128", "user with permissions", "permitted", "permitted-peer"),
    _guarded("mappings-128", "a mapping of every subject", "mapped", "mapped-peer"),
    _guarded("accounts-128", "user of an account with permissions and a mapping", "guarded", "guarded-peer"),
    _traffic(
        "wildcards-10k",
        "10,000 wildcards, 10,000 subjects at random, 128 B",
        "--payload 128 --wildcards 10000",
        _bounds(4, 0.2),
        _WILD,
    ),
    _traffic(
        "wildcards-10k-unique",
        "10,000 wildcards, 65,536 subjects at random, 128 B",
        "--payload 128 --wildcards 10000 --unique",
        _bounds(4, 0.2),
        _WILD,
    ),
    _requests("request-1", "request-reply, 1 in flight", "", _bounds(cpu=0.5, latency=0.7), _REQUEST),
    _requests("request-1-polling", "request-reply, 1 in flight, the client polls", "--spin 200", (), ""),
    _requests(
        "request-50",
        "request-reply, 50 in flight on one connection",
        "--inflight 50",
        _bounds(cpu=0.5, latency=0.7),
        _REQUEST,
    ),
    _requests(
        "request-50-clients",
        "request-reply, 50 connections with 1 in flight",
        "--flows 50",
        _bounds(cpu=0.5, latency=0.7),
        _REQUEST,
    ),
    Case(
        "connect",
        "connect, handshake, close; 16 at a time",
        ("connects", "--connections", "16"),
        "connects",
        "connection",
    ),
    Case(
        "idle-10k",
        "10,000 idle connections",
        ("idle", "--count", "10000", "--connections", "64"),
        "connects",
        "connection",
        (Bound("memory_kb", 0.35),),
        _IDLE,
        timed=False,
        compares=("memory_kb",),
    ),
    _traffic(
        "churn-100k",
        "1 → 1, 128 B, beside 100,000 subscribe + unsubscribe a second",
        f"--payload 128 --fan 1 --churn {CHURN_PER_SECOND}",
        churn=CHURN_PER_SECOND,
    ),
    Case(
        "churn-max",
        "subscribe + unsubscribe, nothing else",
        ("traffic", "--flows", "0", "--churn", "0"),
        "churned",
        "pair",
    ),
    _tls("tls-publish-128", "publish 128 B over TLS", "--payload 128", "message"),
    _tls("tls-one-to-one-128", "1 → 1, 128 B over TLS", "--payload 128 --subscribe", "delivery"),
    _window("durable-16", "16 B", 16),
    _window("durable-128", "128 B", 128),
    _window("durable-1k", "1 KB", 1024),
    _acks(10),
    _acks(100),
    _reading(
        "durable-delivery",
        "a million stored messages to a durable subscriber that acknowledges, 1,024 in flight",
        1_000_000,
        "--durable --inflight 1024",
        bounds=(Bound("rate", 3, "jetstream"),),
        line=_DELIVERY,
    ),
    _reading(
        "replay",
        "replay of 10 million stored messages; the peer's ordered consumer",
        10_000_000,
        "",
        ours=("--speak", "replay"),
        bounds=(Bound("rate", 3, "jetstream"), Bound("cpu_ns", 0.3, "jetstream")),
        line=_REPLAY,
    ),
    _reading(
        "replay-stan",
        "the same by a NATS Streaming subscription that acknowledges, 16,384 in flight",
        10_000_000,
        "--inflight 16384",
    ),
    _stream_publish(
        "js-publish-async",
        "publish, window of 500, 128 B",
        "--payload 128 --inflight 500",
        (Bound("rate", 2, "jetstream"),),
        _JS_ASYNC,
    ),
    *(
        _stream_publish(
            f"js-publish-sync-{clients}",
            "publish, 1 client that waits for each PubAck, 128 B"
            if clients == 1
            else f"publish, {clients} clients that wait for each PubAck, 128 B",
            f"--payload 128 --flows {clients}",
            (Bound("p50_us", 1, "jetstream"),),
            _JS_SYNC,
            latency=True,
        )
        for clients in (1, 10)
    ),
    _stream_read(
        "js-fetch-acks",
        "a million messages by fetches of 500, each acknowledged",
        "--batch 500 --durable --inflight 1000",
        2,
        _JS_FETCH,
    ),
    _stream_read("js-fetch", "a million messages by fetches of 500, no acks", "--batch 500", 3, _JS_FETCH),
    _stream_read("js-ordered", "a million messages to an ordered consumer", "", 3, _JS_ORDERED),
    _stream_read(
        "js-push-acks",
        "a million messages to a push consumer that acknowledges, 1,000 in flight",
        "--durable --inflight 1000",
    ),
    Case(
        "js-assets",
        "JetStream: create 1,000 streams with 10 consumers each, one after the other, then nothing",
        ("assets", "--count", "1000", "--fan", "10", "--seconds", "5"),
        "created",
        "stream or consumer",
        (Bound("rate", 2, "jetstream"), Bound("idle_cores", 0.5, "jetstream")),
        _JS_ASSETS,
        timed=False,
        entries=_STORED,
        patience_s=300.0,
        compares=("rate", "cpu_ns", "idle_cores"),
    ),
    Case(
        "js-memory",
        "JetStream: two million messages of 128 B on 200,000 subjects",
        (
            *("store", "--payload", "128", "--inflight", "500", "--count", "2000000"),
            *("--subjects", "200000", "--seconds", "300", "--warmup", "0"),
        ),
        "published",
        "message",
        (Bound("memory_kb", 0.3, "jetstream"),),
        _JS_MEMORY,
        timed=False,
        entries=_STORED,
        patience_s=300.0,
        compares=("memory_kb",),
    ),
    *_single("publish", "publish with PubAck, file stream", "store --payload 128"),
    *_single("publish-memory", "publish with PubAck, memory stream", "store --payload 128 --memory"),
    *_single("publish-id", "publish with a Nats-Msg-Id, file stream", "store --payload 128 --ids"),
    *_single("pull", "pull of one message", f"single {_LOOK_UP} pull"),
    *_single("ack", "ack with confirmation", f"single {_LOOK_UP} ack"),
    *_single("get-subject", "direct get by subject", f"single {_LOOK_UP} get-subject"),
    *_single("get-sequence", "direct get by sequence", f"single {_LOOK_UP} get-sequence"),
    *_single_stan("stan", "NATS Streaming publish with its ack, beside JetStream's", ""),
    *_single_stan("stan-10", "the same, 10 publishers that wait for each ack", "--flows 10"),
    replace(
        _requests("single-request", "alone: core request-reply, 128 B", "--payload 128", (), ""), alone=True
    ),
    Case(
        "single-connect",
        "alone: connect, handshake, close",
        ("connects", "--connections", "1"),
        "connects",
        "connection",
        (Bound("cpu_ns", 0.6),),
        _ALONE_CONNECT,
        latency=True,
        alone=True,
    ),
    _hop("hop-16", "16 B", "--payload 16 --fan 1", _HOP_BOUNDS, _HOP),
    _hop("hop-128", "128 B", "--payload 128 --fan 1", _HOP_BOUNDS, _HOP),
    _hop("hop-1k", "1 KB", "--payload 1024 --fan 1"),
    _hop("hop-headers", "128 B and headers", "--payload 128 --fan 1 --headers"),
    _hop("hop-fan-10", "128 B to 10 subscribers of the far node", "--payload 128 --fan 10"),
    _hop("hop-pairs-10", "10 pairs, 128 B", "--payload 128 --fan 1 --flows 10"),
    _mixed_hop("hop-to-peer", "from Headrace to nats-server, 128 B", "mesh-to-peer"),
    _mixed_hop("hop-from-peer", "from nats-server to Headrace, 128 B", "mesh-from-peer"),
    _hop_requests("hop-request-1", "1 in flight", ""),
    _hop_requests("hop-request-50", "50 in flight on one connection", "--inflight 50"),
    Case(
        "hop-interest",
        "one hop: a million subscriptions made at one node until the other knows all",
        ("interest", "--count", "1000000"),
        "told",
        "subscription",
        (Bound("rate", 2, "mesh-peer"),),
        _HOP_INTEREST,
        timed=False,
        entries=_HOP_ENTRIES,
        patience_s=120.0,
    ),
    _spread("cores-publish-10", "10 publishers, no subscriber, 128 B", "--flows 10"),
    _spread("cores-one-to-one", "1 → 1, 128 B", "--fan 1"),
    _spread("cores-pairs-10", "10 pairs, 128 B", "--fan 1 --flows 10"),
    _spread("cores-fan-out-10", "fan-out 1 → 10, 128 B", "--fan 10"),
    _spread("cores-fan-out-100", "fan-out 1 → 100, 128 B", "--fan 100"),
    _mqtt("mqtt-one-to-one", "QoS 0, 1 → 1, 128 B", "--fan 1", _MQTT_BOUNDS, _MQTT_QOS0),
    _mqtt("mqtt-fan-out-100", "QoS 0, fan-out 1 → 100, 128 B", "--fan 100", _MQTT_BOUNDS, _MQTT_QOS0),
    _mqtt(
        "mqtt-qos1",
        "QoS 1, 1 → 1, 128 B, window of 100",
        "--fan 1 --qos 1 --inflight 100",
        (Bound("rate", 3, "mqtt-peer"),),
        _MQTT_QOS1,
    ),
    replace(
        _mqtt(
            "mqtt-qos1-default", "the same, stored as each does by itself", "--fan 1 --qos 1 --inflight 100"
        ),
        entries=(Entry("mqtt-default"), Entry("mqtt-peer-default")),
    ),
    _mqtt(
        "mqtt-qos2",
        "QoS 2, 1 → 1, 128 B, window of 100",
        "--fan 1 --qos 2 --inflight 100",
        (Bound("rate", 1, "mqtt-peer"), Bound("cpu_ns", 1, "mqtt-peer")),
        _MQTT_QOS2,
    ),
    Case(
        "mqtt-idle-10k",
        "MQTT: 10,000 idle clients",
        ("mqtt-idle", "--count", "10000", "--connections", "64"),
        "connects",
        "connection",
        (Bound("memory_kb", 0.35, "mqtt-peer"),),
        _MQTT_IDLE,
        timed=False,
        entries=_MQTT_ENTRIES,
        patience_s=120.0,
        compares=("memory_kb",),
    ),
    Case(
        "mqtt-open",
        "NATS 1 → 1, 128 B, beside an open MQTT port",
        ("traffic", "--payload", "128", "--fan", "1"),
        "delivered",
        "delivery",
        (Bound("cpu_ns", 1.05, "server"),),
        _MQTT_OPEN,
        entries=(Entry("mqtt-open"), Entry("server"), Entry("peer")),
    ),
)


def case_named(name: str) -> Case:
    """Give the case of this name. Raises: KeyError naming the known ones."""
    for case in CASES:
        if case.name == name:
            return case
    raise KeyError(f"no case {name!r}; there are: {', '.join(case.name for case in CASES)}")


def select_cases(names: str | None, suite: Suite = "core") -> tuple[Case, ...]:
    """Give the cases of a comma-separated list, in the order of CASES; those of a suite for None."""
    if names is None:
        return tuple(case for case in CASES if case.suite == suite)
    wanted = {case_named(name.strip()).name for name in names.split(",") if name.strip()}
    return tuple(case for case in CASES if case.name in wanted)
