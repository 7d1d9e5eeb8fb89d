"""What is played on a server to see its traces of messages; what a play has seen is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.tracing import DEST, Traces, traced

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.mesh import MeshClient, Node

    Play = Callable[["Stage"], None]

EXPORTS: Final = """exports [
      { service: "svc.>", allow_trace: true }, { service: "blind.>" }, { stream: "news.>" }
    ]"""
IMPORTS: Final = """imports [
      { service { account: A, subject: "svc.one" }, to: "one" }
      { service { account: A, subject: "blind.one" }, to: "blind" }
      { stream { account: A, subject: "news.seen" }, to: "seen", allow_trace: true }
      { stream { account: A, subject: "news.blind" }, to: "unseen" }
    ]"""
"""The imports of the account A, and of another one."""

CONFIG: Final = """
accounts {
  A {
    users [
      { user: a, password: p }
      { user: few, password: p, permissions {
        publish { allow: ["few.>", "fence.>", "traces"], deny: "few.no" }
        subscribe { allow: ">", deny: "secret.no" }
      } }
    ]
    mappings { "map.from": "map.to" }
    EXPORTS
  }
  B {
    users [ { user: b, password: p } ]
    IMPORTS
  }
  C { users [ { user: c, password: p } ], msg_trace { dest: "traces", sampling: "100%" } }
  SYS { users [ { user: s, password: p } ] }
}
system_account: SYS
""".replace("EXPORTS", EXPORTS).replace("IMPORTS", IMPORTS)


class Stage:
    """One server, its clients, and what was seen: `seen`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clients: list[MeshClient] = []
        self.seen: list[Any] = []

    def join(self, user: str, **options: Any) -> MeshClient:
        client = self._node.join(user=user, **{"pass": "p"}, **options)
        self._clients.append(client)
        return client

    def traces(self, user: str, **clients: MeshClient) -> Traces:
        traces = Traces(self.join(user))
        traces.named(**clients)
        return traces

    def note(self, what: str, traces: Traces, asking: MeshClient) -> None:
        """All that came of what `asking` has published."""
        self.seen.append((what, traces.until_fence(asking)))

    def got(self, client: MeshClient, sid: int) -> None:
        """What a subscription got; numbers in `Nats-Request-Info` and reply subjects differ."""
        found = client.got(sid)
        kept = [
            [line for line in message.headers.split(b"\r\n") if b"_R_." not in line and b"-Info" not in line]
            for message in found
        ]
        self.seen.append([(m.subject, lines, m.payload) for m, lines in zip(found, kept, strict=True)])

    def problems(self, client: MeshClient) -> None:
        client.sync()
        self.seen.append(client.problems[:])

    def close(self) -> None:
        for client in self._clients:
            client.close()


def plain(stage: Stage) -> None:
    """Plain subscriptions, queue groups, nobody, a mapping; delivered and only traced."""
    a, named = stage.join("a"), stage.join("a", name="NAMED")
    traces = stage.traces("a", a=a, named=named)
    sids = [named.subscribe("plain.*"), named.subscribe("plain.q", "Q")]
    named.sync()
    for only in (False, True):
        for subject in ("plain.x", "plain.q", "nobody", "map.from"):
            a.publish(subject, b"hi", traced(only=only))
            stage.note(subject, traces, a)
            for sid in sids:
                stage.got(named, sid)
        for subject in ("plain.x", "nobody"):
            reply = a.ask(subject, b"hi", traced(only=only))
            a.sync()
            stage.seen.append([m.status for m in a.answers(reply)])
            stage.note(subject, traces, a)
            stage.got(named, sids[0])


def permissions(stage: Stage) -> None:
    """Publications, destinations, replies and deliveries that are denied; no echo; too large a message."""
    few, a, large = stage.join("few", echo=False), stage.join("a"), stage.join("a")
    traces = stage.traces("a", few=few, a=a, large=large)
    sid, secret = few.subscribe("few.*"), few.subscribe("secret.*")
    few.sync()
    for fields in (traced(), traced("away")):
        for subject in ("few.x", "few.no"):
            few.publish(subject, b"hi", fields)
            few.sync()
            stage.note(subject, traces, few)
    few.publish("few.x", b"hi", traced(), reply="_R_.x")
    stage.problems(few)
    stage.note("reply", traces, few)
    a.publish("secret.no", b"hi", traced())
    stage.note("secret", traces, a)
    for each in (sid, secret):
        stage.got(few, each)
    block = b"NATS/1.0\r\nNats-Trace-Dest: traces\r\n\r\n"
    large.wire.send(b"HPUB large %d %d\r\n" % (len(block), 2_000_000) + block + b"x" * 1000)
    while not large.wire.closed:
        large.wire.fill(1)
    stage.note("large", traces, a)


def across_streams(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b", name="B")
    traces = stage.traces("a", a=a, b=b)
    sids = [b.subscribe("seen"), b.subscribe("unseen")]
    b.sync()
    for only in (False, True):
        for subject in ("news.seen", "news.blind"):
            a.publish(subject, b"x", traced(only=only))
            stage.note(subject, traces, a)
        for sid in sids:
            stage.got(b, sid)


def across_services(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b", name="B")
    traces = stage.traces("b", a=a, b=b)
    sids = [a.subscribe("svc.*"), a.subscribe("blind.*")]
    a.sync()
    for only in (False, True):
        for subject in ("one", "blind", "$SYS.REQ.USER.INFO"):
            reply = b.ask(subject, b"x", traced(only=only))
            b.sync()
            stage.seen.append([m.status for m in b.answers(reply) if m.status])
            stage.note(subject, traces, b)
        for sid in sids:
            stage.got(a, sid)


BLOCKS: Final = (
    b"NATS/1.0\r\nNats-Trace-Dest:traces\r\nNats-Trace-Only:ON\r\n\r\n",
    b"NATS/1.0\r\nnats-trace-dest: traces\r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: \r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: a.*\r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: a.*\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: a b\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: trace disabled\r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0 100 Hello\r\nNats-Trace-Dest: traces\r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: traces\r\nNats-Trace-Dest: other\r\nNats-Trace-Only: no\r\n"
    b"Nats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nfoo\r\nNats-Trace-Dest: traces\r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: traces \t\r\nA: b\r\nA:c\r\nB:\r\n C : d\r\nNats-Trace-Only: 1\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: traces\r\nNats-Trace-Origin-Account: X\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: traces\r\nNats-Trace-Origin-Account: X\r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: traces\r\nNats-Trace-Hop: 7\r\nNats-Trace-Only: yes\r\n\r\n",
    b"NATS/1.0\r\ntraceparent: 00-a-b-01\r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: traces",
    b"Nats-Trace-Dest: traces\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: _GR_.abc.def.x\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: $NRG.x\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: traces\r\nX: \xff\xfe<&>\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: " + b"x" * 5000 + b"\r\nNats-Trace-Only: true\r\n\r\n",
    b"NATS/1.0\r\nNats-Trace-Dest: traces\r\nNats-Trace-Only: true\r\n" + b"N: v\r\n" * 300 + b"\r\n",
)


def headers(stage: Stage) -> None:
    """Header blocks of every kind, well-formed or not."""
    a, hearing = stage.join("a"), stage.join("a")
    traces = stage.traces("a", a=a, hearing=hearing)
    sid = hearing.subscribe("plain")
    hearing.sync()
    for block in BLOCKS:
        a.publish("plain", b"y", block)
        a.sync()
        stage.note(block[:80].decode("latin-1"), traces, a)
        stage.got(hearing, sid)
    stage.problems(a)


PARENTS: Final = (
    *("00-a-b-01", "00-a-b-00", "00-a-b-0", "00-a-b-03", "00-a-b-7f", "00-a-b-ff", "00-a-b-zz", "01", ""),
    *("a-b-01", "0-a-b-c-01"),
)


def tracing_systems(stage: Stage) -> None:
    """`traceparent`, in an account that wants those traced."""
    c = stage.join("c")
    traces = stage.traces("c", c=c)
    sid = c.subscribe("plain")
    c.sync()
    for name in ("traceparent", "TraceParent"):
        for parent in PARENTS:
            c.publish("plain", b"y", {name: parent, "Nats-Trace-Only": "true"})
            stage.note(parent, traces, c)
    c.publish("plain", b"y", traced(only=True, traceparent=PARENTS[0]))
    stage.note("both", traces, c)
    c.publish("plain", b"y", {"Nats-Trace-Dest": "trace disabled", "traceparent": PARENTS[0]})
    stage.note("disabled", traces, c)
    stage.got(c, sid)


PLAYS: Final[tuple[Play, ...]] = (
    plain,
    permissions,
    across_streams,
    across_services,
    headers,
    tracing_systems,
)

JETSTREAM: Final = """
jetstream { store_dir: STORE }
accounts {
  A { users [ { user: a, password: p } ], jetstream: enabled }
  SYS { users [ { user: s, password: p } ] }
}
system_account: SYS
"""
STREAMS: Final[tuple[dict[str, Any], ...]] = (
    {"name": "S", "subjects": ["s.>"], "storage": "memory", "max_msg_size": 200},
    {"name": "I", "subjects": ["i.>"], "retention": "interest", "storage": "memory"},
    {
        "name": "T",
        "subjects": ["t.>"],
        "storage": "file",
        "subject_transform": {"src": "t.>", "dest": "done.>"},
        "allow_msg_ttl": True,
        "max_msgs": 2,
        "discard": "new",
        "allow_rollup_hdrs": True,
    },
)
PUBLICATIONS: Final[tuple[tuple[str, bytes, dict[str, str]], ...]] = (
    ("s.a", b"x", {}),
    ("s.a", b"x", {"Nats-Msg-Id": "1"}),
    ("s.a", b"x", {"Nats-Msg-Id": "1"}),
    ("s.a", b"x", {"Nats-Expected-Last-Sequence": "77"}),
    ("s.a", b"x", {"Nats-Expected-Last-Sequence": "abc"}),
    ("s.a", b"x", {"Nats-Expected-Last-Subject-Sequence": "78"}),
    ("s.a", b"x", {"Nats-Expected-Last-Subject-Sequence": "abc"}),
    ("s.a", b"x", {"Nats-Expected-Last-Msg-Id": "zz"}),
    ("s.a", b"x", {"Nats-Expected-Stream": "zz"}),
    ("s.a", b"x", {"Nats-Rollup": "sub"}),
    ("s.a", b"x", {"Nats-TTL": "5"}),
    ("s.a", b"y" * 300, {}),
    ("i.a", b"x", {}),
    ("t.a", b"x", {}),
    ("t.a", b"x", {}),
    ("t.a", b"x", {}),
    ("t.a", b"x", {"Nats-Rollup": "none"}),
    ("t.a", b"x", {"Nats-TTL": "bad"}),
    ("t.a", b"x", {"Nats-Incr": "1"}),
)


def streams(stage: Stage) -> None:
    """What a stream does with a message, stored or only judged, and what its PubAck says."""
    a = stage.join("a")
    traces = stage.traces("a", a=a)
    for config in STREAMS:
        assert "error" not in a.api(f"STREAM.CREATE.{config['name']}", config)
    for only in (False, True):
        for subject, payload, fields in PUBLICATIONS:
            reply = a.ask(subject, payload, traced(only=only) | fields)
            (told,) = traces.shapes(1)
            is_answered = not only or '"error"' in told
            stage.seen.append((subject, fields, told, a.answer(reply).payload if is_answered else None))
        a.sync()
        stage.seen.append(a.answers(reply))
        for config in STREAMS:
            state = a.api(f"STREAM.INFO.{config['name']}")["state"]
            stage.seen.append((state["messages"], state["last_seq"]))
    a.publish("s.b", b"x", traced(A="b"))
    traces.next()
    stage.seen.append(a.api("STREAM.MSG.GET.S", {"last_by_subj": "s.b"})["message"]["hdrs"])


def stream_requests(stage: Stage) -> None:
    """What an account answers by itself is answered though it is only traced; other requests are not."""
    a = stage.join("a")
    traces = stage.traces("a", a=a)
    config = {"name": "Q", "subjects": ["q.>"], "storage": "memory", "allow_direct": True}
    assert "error" not in a.api("STREAM.CREATE.Q", config)
    consumer = {"durable_name": "C", "ack_policy": "explicit"}
    assert "error" not in a.api("CONSUMER.CREATE.Q.C", {"stream_name": "Q", "config": consumer})
    a.stored("q.a", b"x")
    mine = a.subscribe("mine.*")
    for only in (True, False):
        reply = a.ask("$JS.API.INFO", b"", traced(only=only))
        stage.seen.append(bool(a.answer(reply).status))
        stage.note("info", traces, a)
    a.publish("$JS.API.DIRECT.GET.Q.q.a", b"", traced(only=True), reply="mine.direct")
    stage.seen.append(a.next(mine).payload)
    a.publish("$JS.API.CONSUMER.MSG.NEXT.Q.C", b"", traced(only=True), reply="mine.next")
    message = a.next(mine)
    stage.seen.append(message.payload)
    a.publish(message.reply, b"+ACK", traced(only=True))
    stage.note("direct, next, ack", traces, a)
    stage.seen.append(a.api("CONSUMER.INFO.Q.C")["num_ack_pending"])


STREAM_PLAYS: Final[tuple[Play, ...]] = (streams, stream_requests)

__all__ = ["CONFIG", "DEST", "EXPORTS", "IMPORTS", "JETSTREAM", "PLAYS", "STREAM_PLAYS", "Stage"]
