"""What monitoring says of JetStream has the Go server's fields, in their order, and its texts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from harness.operators import request
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.wire import Wire

pytestmark = pytest.mark.clients

CONFIG = """
http: "127.0.0.1:-1"
server_name: one
jetstream {
  store_dir: "%s", domain: hub, max_mem: 1GB, max_file: 10GB, sync_interval: "2m", unique_tag: az
  limits {
    duplicate_window: "1m", max_ack_pending: 500, max_request_batch: 7
    batch { max_msgs: 10, timeout: "5s" }
  }
}
accounts {
  A { users: [{user: a, password: p}], jetstream: enabled }
  B { users: [{user: b, password: p}], jetstream { max_mem: 1MB, max_file: 2MB, max_streams: 2 } }
  C { users: [{user: c, password: p}] }
  SYS { users: [{user: s, password: p}] }
}
system_account: SYS
"""

CREATED = (
    ("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "max_bytes": 1_000_000, "description": "d"}),
    ("STREAM.CREATE.M", {"name": "M", "subjects": ["m.>"], "storage": "memory", "max_age": 60_000_000_000}),
    ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}),
    (
        "CONSUMER.CREATE.S.P",
        {"stream_name": "S", "config": {"name": "P", "deliver_subject": "p", "description": "x"}},
    ),
)
NOT_COMPARED = {
    "server_id",
    "now",
    "ts",
    "created",
    "first_ts",
    "last_ts",
    "store_dir",
    "active",
    "update_time",
}
"""Whose values are each server's own; that they are there is compared."""
UNORDERED = {"account_details", "stream_detail", "consumer_detail"}
"""In any order there, also accounts where they are not counted out."""
BYTES = {"memory", "storage", "bytes"}
"""Counted with what a record adds, which differs; compared by whether there are any."""
OTHER = {
    *("imports", "sublist_stats", "subscriptions", "connections", "total_connections"),
    *("id", "seq", "time", "flags", "feature_flags", "mem", "cpu", "cores", "gomaxprocs"),
    *("sent", "sent_to_clients", "received", "received_from_clients"),
}
"""What is compared elsewhere, or has other values for reasons of its own."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    running = []
    for program in (HEADRACES[0], NATS_SERVER):
        folder = tmp_path_factory.mktemp(str(program))
        server = ServerProcess(program, folder, config=CONFIG % (folder / "store"))
        running.append(server)
        with client(server, "a") as wire:
            for verb, body in CREATED:
                assert "error" not in ask(wire, f"$JS.API.{verb}", body)
            for subject in ("s.a", "s.b", "s.a", "m.a"):
                assert "seq" in ask(wire, subject, "hello")
            assert "error" in ask(wire, "$JS.API.STREAM.INFO.X")
    yield running
    for server in running:
        with server:
            pass


def client(server: ServerProcess, user: str) -> Wire:
    return server.connect(b'{"verbose":false,"headers":true,"user":"%b","pass":"p"}' % user.encode())


def ask(wire: Wire, subject: str, asked: object = None) -> Any:
    body = b"" if asked is None else json.dumps(asked).encode()
    return json.loads(request(wire, subject, body))


def fetch(server: ServerProcess, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(server.monitor_url + path) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            body = error.read()
        return error.code, json.loads(body) if body.startswith(b"{") else body.decode()


def comparable(value: Any, name: str = "") -> Any:
    if name in NOT_COMPARED:
        return "there"
    if isinstance(value, dict):
        return [(key, comparable(inner, key)) for key, inner in value.items() if key not in OTHER]
    if isinstance(value, list):
        found = [comparable(inner) for inner in value]
        return sorted(found, key=str) if name in UNORDERED else found
    return bool(value) if name in BYTES else value


@pytest.mark.parametrize(
    "path",
    [
        "/jsz",
        "/jsz?accounts=1",
        "/jsz?accounts=true&offset=1&limit=1",
        "/jsz?accounts=1&offset=7",
        "/jsz?accounts=1&limit=-1",
        "/jsz?streams=1",
        "/jsz?streams=1&config=1&acc=A",
        "/jsz?consumers=1",
        "/jsz?consumers=1&config=1&raft=1",
        "/jsz?consumers=1&direct-consumers=1&acc=A",
        "/jsz?acc=C&streams=1",
        "/jsz?acc=B",
        "/jsz?leader-only=1",
        "/raftz",
        "/jsz?accounts=maybe",
        "/jsz?limit=x",
        "/healthz",
        "/healthz?account=A",
        "/healthz?account=A&stream=S&consumer=C",
        "/healthz?account=A&stream=S&consumer=X",
        "/healthz?account=A&stream=X&details=1",
        "/healthz?account=A&stream=X&consumer=C&details=1",
        "/healthz?account=C",
        "/healthz?account=X&details=true",
        "/healthz?account=X&js-server-only=true",
        "/healthz?js-enabled-only=1",
        "/healthz?js-enabled=2",
        "/accountz?acc=A",
        "/accountz?acc=C",
    ],
)
def test_documents_are_the_go_servers(servers: list[ServerProcess], path: str) -> None:
    ours, theirs = (fetch(server, path) for server in servers)
    assert comparable(list(ours)) == comparable(list(theirs))


def test_varz_has_the_go_servers_section(servers: list[ServerProcess]) -> None:
    ours, theirs = (fetch(server, "/varz")[1]["jetstream"] for server in servers)
    for section in (ours, theirs):
        assert section["stats"]["api"].pop("total") > 0
    assert comparable(ours) == comparable(theirs)


@pytest.mark.parametrize(
    ("subject", "request_"),
    [
        ("SERVER.PING.JSZ", None),
        ("SERVER.PING.JSZ", {"account": "A", "streams": True, "config": True}),
        ("SERVER.PING.JSZ", {"leader_only": True, "domain": "hub"}),
        ("SERVER.PING.HEALTHZ", {"account": "A", "stream": "X"}),
        ("SERVER.PING.HEALTHZ", {"account": "A", "stream": "S", "consumer": "C", "details": True}),
        ("SERVER.PING.STATSZ", None),
        ("ACCOUNT.A.JSZ", None),
        ("ACCOUNT.A.JSZ", {"consumer": True, "config": True}),
        ("ACCOUNT.A.JSZ", {"streams": True, "consumer": True, "config": True}),
        ("ACCOUNT.C.JSZ", None),
        ("ACCOUNT.X.JSZ", None),
        ("ACCOUNT.A.INFO", None),
    ],
)
def test_answers_in_the_system_account_are_the_go_servers(
    servers: list[ServerProcess], subject: str, request_: object
) -> None:
    answers = []
    for server in servers:
        with client(server, "s") as wire:
            answer = ask(wire, f"$SYS.REQ.{subject}", request_)
        answer["server"].pop("host")
        if "statsz" in answer:
            answer["statsz"] = {"jetstream": answer["statsz"]["jetstream"]}
        answers.append(comparable(answer))
    assert answers[0] == answers[1]


def test_stream_that_follows_another_is_shown_as_its_direct_consumer(servers: list[ServerProcess]) -> None:
    shown = []
    for server in servers:
        with client(server, "a") as wire:
            source = {"name": "S", "filter_subject": "s.a"}
            assert "error" not in ask(wire, "$JS.API.STREAM.CREATE.F", {"name": "F", "sources": [source]})
            wait_until(
                lambda wire=wire: ask(wire, "$JS.API.STREAM.INFO.F")["state"]["messages"] == 2, "F follows S"
            )
            document = fetch(server, "/jsz?acc=A&consumers=1&direct-consumers=1&config=1")[1]
            plain = fetch(server, "/jsz?acc=A&consumers=1&config=1")[1]
            assert ask(wire, "$JS.API.STREAM.DELETE.F")["success"]
        assert "direct_consumer_detail" not in json.dumps(plain)
        (stream,) = (s for s in document["account_details"][0]["stream_detail"] if s["name"] == "S")
        (reader,) = stream["direct_consumer_detail"]
        metadata = reader["config"].pop("metadata")
        assert (metadata["_nats.src.acc"], metadata["_nats.src.stream"]) == ("A", "F")
        assert reader["name"].startswith("JS_SRC_")
        shown.append(reader)
    ours, theirs = shown
    assert set(theirs) - set(ours) == {"push_bound"}  # nothing is pushed to it
    assert set(ours) <= set(theirs)
    for name in set(ours["config"]) - {"name"}:
        assert ours["config"][name] == theirs["config"][name]
    assert ours["num_pending"] == theirs["num_pending"] == 0
    assert ours["delivered"]["stream_seq"] == 3


def test_queues_have_the_go_servers_names(servers: list[ServerProcess]) -> None:
    ours, theirs = (fetch(server, "/ipqueuesz?all=1")[1] for server in servers)
    own = "[ACC:A] stream 'S' messages"
    assert ours[own] == {"pending": 0}
    assert set(ours) - {name for name in ours if name.endswith("messages")} <= set(theirs)
    assert [fetch(server, "/ipqueuesz?all=1&queues=API+queue")[1] for server in servers] == [
        {"JetStream API queue": {"pending": 0}}
    ] * 2
    assert [fetch(server, "/ipqueuesz")[1] for server in servers] == [{}, {}]
