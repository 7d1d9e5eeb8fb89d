"""The monitoring answers have the shape of the Go server's: fields, their order, their types, error texts."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from go_reference import GoServer, fetch
from monitor_samples import OPTIONS, SERVER, SampleSource, connection, subscription
from msgspec.structs import replace

from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.mqtt_options import MqttOptions
from headrace.conf.tls_options import TLSOptions
from headrace.protocol.mqtt.packets import Connect, connack, write_connect
from headrace.server.monitor.connz import connz
from headrace.server.monitor.listener import start_monitor
from headrace.server.monitor.source import SublistSnapshot
from headrace.server.monitor.varz import varz

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.clients

# What the Go server says about features that are absent here.
NOT_OURS = {"system_account"}

SUBSCRIPTIONS = (subscription("a.*", "1", 1), subscription("b", "2", 1, "grp", 5))
OPEN = connection(1, *SUBSCRIPTIONS, name="n", lang="py", version="1", rtt_ns=246_000)
CLOSED = replace(
    connection(2, subscription("z", "1", 2), name="gone"),
    stop_ns=OPEN.start_ns + 2_000_000_000,
    reason="Client Closed",
)
SOURCE = SampleSource(
    open=(OPEN,),
    closed=(CLOSED,),
    sublist=SublistSnapshot(num_subscriptions=2, cache_hit_rate=0.25, details=lambda: SUBSCRIPTIONS),
)


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoServer]:
    """A Go server with one open and one closed client, like `SOURCE`."""
    with ExitStack() as stack:
        server = stack.enter_context(GoServer(tmp_path_factory.mktemp("go"), ""))
        client = stack.enter_context(server.connect(name="n", lang="py", version="1"))
        client.send("SUB a.* 1", "SUB b grp 2", "UNSUB 2 5")
        client.sync()
        with server.connect(name="gone") as gone:
            gone.send("SUB z 1")
            gone.sync()
        deadline = time.monotonic() + 5
        while not json.loads(server.fetch("/connz?state=closed")[2])["total"]:
            assert time.monotonic() < deadline, "the Go server does not notice that a client left"
        yield server


def ours(path: str) -> tuple[int, str, bytes]:
    async def run() -> tuple[int, str, bytes]:
        monitor = await start_monitor(SOURCE, "127.0.0.1", 0)
        try:
            return await asyncio.to_thread(fetch, monitor.port, path)
        finally:
            await monitor.close()

    return asyncio.run(run())


def shape(value: object) -> object:
    """A document without its values: names in order and JSON types, a list by what kinds of entries it has.

    The Go server gives the subscriptions of a connection in any order.
    """
    if isinstance(value, dict):
        return [(name, shape(inner)) for name, inner in value.items() if name not in NOT_OURS]
    if isinstance(value, list):
        kinds = {repr(kind): kind for kind in map(shape, value)}
        return [kinds[name] for name in sorted(kinds)]
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


@pytest.mark.parametrize(
    "path",
    [
        "/varz",
        "/connz",
        "/connz?subs=1",
        "/connz?subs=detail",
        "/connz?state=closed",
        "/connz?state=closed&subs=detail",
        "/connz?state=any&sort=cid&limit=1&offset=1&subs=true",
        "/connz?cid=99999",
        "/connz?offset=99",
        "/connz?limit=-1&sort=idle&acc=$G",
        "/connz?user=nobody",
        "/connz?mqtt_client=x",
        "/subsz",
        "/subsz?subs=1&acc=$G&test=a.b",
        "/subsz?subs=1&acc=$G&test=nothing",
        "/subscriptionsz",
        "/subsz?acc=nobody",
        "/healthz",
        "/healthz?js-enabled-only=true&details=1",
        "/healthz?stream=s",
        "/healthz?stream=s&details=1",
        "/healthz?consumer=c",
        "/routez",
        "/routez?subs=detail",
        "/leafz",
        "/gatewayz",
    ],
)
def test_document_has_the_go_servers_shape(go: GoServer, path: str) -> None:
    theirs, mine = go.fetch(path), ours(path)
    assert mine[:2] == theirs[:2]
    documents = [json.loads(body) for body in (theirs[2], mine[2])]
    for document in documents:
        document.pop("http_req_stats", None)
    assert shape(documents[1]) == shape(documents[0])


def test_connz_with_auth_has_the_go_servers_shape(tmp_path: Path) -> None:
    users = '{"authorization": {"users": [{"user": "ann", "password": "p"}]}}'
    with (
        GoServer(tmp_path, users) as server,
        server.connect(user="ann", name="n", lang="py", version="1", **{"pass": "p"}) as client,
    ):
        client.send("SUB a 1")
        client.sync()
        theirs = json.loads(server.fetch("/connz?auth=1&subs=1")[2])
    named = replace(OPEN, user="ann")
    mine = connz(SampleSource(open=(named,)), {"auth": "1", "subs": "1"})
    assert shape(mine) == shape(theirs)


def test_varz_configured_has_the_go_servers_shape(tmp_path: Path) -> None:
    configuration = {
        "authorization": {"user": "u", "password": "p", "timeout": 0.6},
        "server_tags": ["a:b"],
        "max_subscriptions": 7,
    }
    with GoServer(tmp_path, json.dumps(configuration)) as server:
        theirs = json.loads(server.fetch("/varz")[2])
    options = replace(
        OPTIONS,
        authorization=AuthorizationOptions(timeout=0.6),
        max_subscriptions=7,
        server_tags=("a:b",),
        tls=TLSOptions("c", "k"),
    )
    mine = varz(replace(SERVER, options=options, auth_required=True), {"/varz": 1})
    assert shape(mine) == shape(theirs)
    assert (mine["auth_timeout"], mine["tags"]) == (theirs["auth_timeout"], theirs["tags"])


@pytest.fixture(scope="module")
def mqtt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoServer]:
    """A Go server with an MQTT port, to which a client is connected."""
    directory = tmp_path_factory.mktemp("mqtt")
    configuration = {
        "server_name": "s",
        "jetstream": {"store_dir": str(directory / "store")},
        "authorization": {"users": [{"user": "a", "password": "secret"}]},
        "mqtt": {
            "listen": "127.0.0.1:-1",
            "authorization": {"timeout": 1.5},
            "no_auth_user": "a",
            "ack_wait": "10s",
            "max_ack_pending": 7,
        },
    }
    with (
        GoServer(directory, json.dumps(configuration)) as server,
        socket.create_connection(("127.0.0.1", server.mqtt_port), timeout=10) as client,
    ):
        client.sendall(write_connect(Connect(4, True, 0, b"me")))
        assert client.recv(4) == connack(4, 0)
        yield server


def test_varz_of_an_mqtt_port_is_the_go_servers(mqtt: GoServer) -> None:
    theirs = json.loads(mqtt.fetch("/varz")[2])["mqtt"]
    options = MqttOptions(
        "127.0.0.1",
        authorization=AuthorizationOptions(timeout=1.5),
        no_auth_user="a",
        ack_wait=10.0,
        max_ack_pending=7,
    )
    mine = varz(replace(SERVER, options=replace(OPTIONS, mqtt=options), mqtt_port=mqtt.mqtt_port), {})["mqtt"]
    assert mine == theirs
    assert isinstance(mine, dict)
    assert list(mine) == list(theirs)


@pytest.mark.parametrize("client_id", ["me", "you"])
def test_connz_of_an_mqtt_client_has_the_go_servers_shape(mqtt: GoServer, client_id: str) -> None:
    query = {"mqtt_client": client_id, "auth": "1"}
    theirs = json.loads(mqtt.fetch(f"/connz?mqtt_client={client_id}&auth=1")[2])
    source = SampleSource(open=(connection(1, user="a", type="mqtt", mqtt_client="me"),))
    mine = connz(source, query)
    assert shape(mine) == shape(theirs)
    assert [entry["mqtt_client"] for entry in theirs["connections"]] == ["me"] * (client_id == "me")


@pytest.mark.parametrize(
    "path",
    [
        *("/connz?subs=x", "/connz?subs=2", "/connz?subs=tRue", "/connz?auth=x", "/connz?limit=x"),
        *("/connz?limit=1.5", "/connz?limit=0x1", "/connz?limit=1_0", "/connz?limit=%202"),
        *("/connz?limit=99999999999999999999", "/connz?offset=x", "/connz?cid=x", "/connz?cid=-1"),
        *("/connz?cid=99999999999999999999", "/connz?state=zz", "/connz?sort=zz", "/connz?sort=stop"),
        *("/connz?sort=reason&state=any", "/subsz?subs=x", "/subsz?subs=detail", "/subsz?offset=x"),
        *("/subsz?limit=x", "/subsz?subs=1&test=a.*", "/subsz?test=a..b", "/healthz?js-enabled=x"),
        *("/healthz?details=x", "/routez?subs=x", "/leafz?subs=x", "/gatewayz?accs=x"),
        *("/nope", "/varz/", "/VARZ", "/connz?limit=%22%5C%0a"),
    ],
)
def test_refusal_is_the_go_servers_word_for_word(go: GoServer, path: str) -> None:
    assert ours(path) == go.fetch(path)


def test_times_and_spans_have_the_go_servers_form(go: GoServer) -> None:
    for _, _, body in (go.fetch("/connz?state=any"), ours("/connz?state=any")):
        for entry in json.loads(body)["connections"]:
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?Z", entry["start"])
            assert re.fullmatch(r"(\d+y)?(\d+d)?(\d+h)?(\d+m)?\d+s", entry["uptime"])
            assert re.fullmatch(r"0s|[0-9.]+(ns|µs|ms|s)", entry["rtt"])
