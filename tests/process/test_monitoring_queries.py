"""Queries of `/connz`, `/varz` and `/healthz` are answered as the Go server does, after the same script."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.processes import HEADRACES, NATS_SERVER, Program, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.wire import Wire

pytestmark = pytest.mark.clients

CONFIG: Final = """
no_auth_user: n
max_payload: 2000
accounts {
  A { users: [{user: a, password: p}, {user: n, password: p}] }
  B { users: [{user: b, password: p}] }
}
"""
SORTS: Final = (
    *("cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last", "idle"),
    *("uptime", "stop", "reason", "rtt", "CID", "bogus"),
)
PATHS: Final = (
    *("/connz", "/connz?subs=1", "/connz?subs=detail", "/connz?subs=x", "/connz?auth=1", "/connz?auth=x"),
    *(f"/connz?auth=1&subs={subs}&state={state}" for subs in ("1", "detail") for state in ("closed", "all")),
    *("/connz?acc=A&auth=1", "/connz?acc=B&state=all", "/connz?acc=A&state=closed", "/connz?state=x"),
    *(
        f"/connz?user={user}&state={state}"
        for user in ("a", "b", "n", "who", "")
        for state in ("open", "closed")
    ),
    *("/connz?limit=1&offset=1", "/connz?limit=0", "/connz?offset=100", "/connz?limit=-1", "/connz?limit=x"),
    *("/connz?cid=OPEN", "/connz?cid=CLOSED", "/connz?cid=999", "/connz?cid=-1"),
    *("/connz?cid=OPEN&state=closed", "/connz?cid=CLOSED&state=closed", "/connz?cid=CLOSED&state=all"),
    *("/connz?mqtt_client=x", "/connz?mqtt_client=x&state=all"),
    *(f"/connz?sort={sort}&state={state}" for sort in SORTS for state in ("open", "closed", "all")),
    *(
        "/varz",
        "/varz?x=1",
        "/healthz",
        "/healthz?js-enabled-only=true&details=1",
        "/healthz?js-server-only=1",
    ),
    *("/healthz?js-enabled=1", "/healthz?js-meta-only=1", "/healthz?account=A", "/healthz?stream=s"),
    *("/healthz?stream=s&details=1", "/healthz?consumer=c", "/healthz?consumer=c&account=A"),
    *("/jsz", "/jsz?accounts=1&streams=true&limit=2", "/jsz?offset=-1", "/jsz?acc=A", "/jsz?limit=x"),
    *(f"/jsz?{name}=x" for name in ("accounts", "streams", "consumers", "direct-consumers", "config")),
    *(f"/jsz?{name}=x" for name in ("leader-only", "raft", "stream-leader-only")),
)
CHANGING: Final = {
    *("server_id", "server_name", "now", "start", "last_activity", "rtt", "uptime", "idle", "stop", "port"),
    *(
        "mem",
        "cpu",
        "cores",
        "gomaxprocs",
        "go",
        "git_commit",
        "http_port",
        "http_req_stats",
        "pending_bytes",
    ),
    *("config_load_time", "config_digest", "subscriptions", "feature_flags"),
}
"""What differs by time and machine; subscriptions of `/varz`, of which the Go server has its own."""

UNSTABLE: Final = ("sort=last", "sort=idle", "sort=uptime", "sort=rtt", "sort=stop", "sort=pending")
"""Orders by what differs from run to run: only that they are taken is compared."""


def client(server: ServerProcess, user: str, name: str, *ops: bytes, end: bytes = b"PONG\r\n") -> Wire:
    """A client that the server has answered: all that it sent is counted then."""
    wire = server.connect()
    options = {"verbose": False, "name": name, "lang": "py", "version": "1"}
    who = {"user": user, "pass": "p"} if user else {}
    wire.send(f"CONNECT {json.dumps(options | who)}\r\n".encode() + b"".join(ops) + b"PING\r\n")
    wire.take_through(end)
    return wire


def fetch(server: ServerProcess, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{server.monitor_url}{path}") as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def connections(server: ServerProcess, state: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(fetch(server, f"/connz?sort=cid&state={state}")[1])[
        "connections"
    ]
    return found


def answers(server: ServerProcess) -> dict[str, object]:
    """Status and document for each path, connections numbered from the first one."""
    wires = [
        client(server, "a", "one", b"SUB foo.* 1\r\nSUB foo.> q 2\r\nUNSUB 2 9\r\n"),
        client(server, "b", "two", b"SUB foo.1 1\r\nPUB foo.1 5\r\nhello\r\n"),
        client(server, "", "three", b"PUB foo.1 3\r\nabc\r\nPUB foo.1 3\r\nabc\r\n"),
    ]
    client(server, "b", "four", b"SUB gone 1\r\nSUB gone2 q 7\r\nPUB u 1\r\nx\r\n").close()
    wait_until(lambda: len(connections(server, "closed")) == 1, "the first one closed")
    client(server, "who", "five", end=b"-ERR").close()
    wait_until(lambda: len(connections(server, "closed")) == 2, "the second one closed")
    client(server, "a", "six", b"PUB x 99999\r\n", end=b"-ERR").close()
    wait_until(lambda: len(connections(server, "closed")) == 3, "the third one closed")
    try:
        first = connections(server, "open")[0]["cid"]
        seen = [one["cid"] - first for one in connections(server, "all")]
        assert seen == [0, 1, 2, 3, 4, 5], f"others connected meanwhile: {seen}"
        places = {"OPEN": str(first), "CLOSED": str(connections(server, "closed")[0]["cid"])}
        found = {}
        for path in PATHS:
            asked = path
            for word, cid in places.items():
                asked = asked.replace(f"={word}", f"={cid}")
            status, body = fetch(server, asked)
            found[path] = (status, normal(json.loads(body), path, first) if body.startswith("{") else body)
        return found
    finally:
        for wire in wires:
            wire.close()


def normal(value: Any, path: str, first: int) -> Any:
    if isinstance(value, dict):
        return {
            name: entry - first if name == "cid" else normal(entry, path, first)
            for name, entry in value.items()
            if name not in CHANGING or (name == "subscriptions" and not path.startswith("/varz"))
        }
    if isinstance(value, list):
        entries = [normal(entry, path, first) for entry in value]
        is_ordered = entries and "ip" in entries[0] and not any(word in path for word in UNSTABLE)
        return entries if is_ordered else sorted(entries, key=repr)
    return value


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    with ServerProcess(NATS_SERVER, tmp_path_factory.mktemp("go"), "-m", "-1", config=CONFIG) as server:
        return answers(server)


@pytest.fixture(scope="module", params=HEADRACES, ids=str)
def ours(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, object]]:
    program: Program = request.param
    with ServerProcess(program, tmp_path_factory.mktemp("ours"), "-m", "-1", config=CONFIG) as server:
        yield answers(server)


@pytest.mark.parametrize("path", PATHS)
def test_query_is_answered_as_the_go_server_answers_it(
    ours: dict[str, object], theirs: dict[str, object], path: str
) -> None:
    assert ours[path] == theirs[path]
