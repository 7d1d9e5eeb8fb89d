"""Replicas and leaders in a cluster of three: Headrace with a bucket, and the Go server with Raft groups.

Both answer the same requests in the same way. What only one of them has, such as the name of a Raft group, is
not compared.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import nats
import pytest
from nats.errors import Error as ClientError

from harness.command_line import CommandLine
from harness.ports import free_port
from harness.processes import SIDES, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from nats.aio.client import Client
    from nats.aio.msg import Msg

pytestmark = pytest.mark.clients
CONFIG: Final = """
server_name: S{number}
accounts {{
  SYS {{ users = [{{ user: admin, password: x }}] }}
  A {{ jetstream: enabled, users = [{{ user: a, password: a }}] }}
}}
system_account: SYS
no_auth_user: a
jetstream {{ store_dir: "{folder}/disk{number}" {bucket} }}
cluster {{ name: C, listen: "127.0.0.1:{own}", routes: [{routes}] }}
"""
NAMES: Final = {"S0", "S1", "S2"}
PACE_S: Final = 0.1
NOBODY_ANSWERED: Final = -1
NOT_NOW: Final = {NOBODY_ANSWERED, 10008}  # 10008: JetStream system temporarily unavailable


@pytest.fixture(scope="module", params=SIDES, ids=str)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The URLs of three servers, which are of one mind."""
    folder: Path = tmp_path_factory.mktemp("replicas")
    bucket = f', bucket: "file://{folder}/bucket"' if request.param == "headrace" else ""
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    started: list[ServerProcess] = []
    try:
        for number, own in enumerate(ports):
            home = folder / f"home{number}"
            home.mkdir()
            text = CONFIG.format(number=number, folder=folder, bucket=bucket, own=own, routes=routes)
            started.append(ServerProcess(SIDES[request.param], home, config=text))
        urls = [each.url for each in started]
        asyncio.run(_agree(urls))
        yield urls
    finally:
        for each in started:
            each.stop()


async def _agree(urls: list[str]) -> None:
    """Wait until the clients of each server are answered, and all servers are known to who leads a stream."""
    for url in urls:
        client = await nats.connect(url)
        await until(lambda client=client: _create(client, "FIRST", subjects=["first"], num_replicas=3))  # type: ignore[misc]
        await until(lambda client=client: _has_all(client, "FIRST"))  # type: ignore[misc]
        await client.close()


async def _create(client: Client, name: str, **fields: Any) -> bool:
    return "error" not in await ask(client, f"STREAM.CREATE.{name}", name=name, **fields)


async def _has_replicas(client: Client, stream: str, number: int) -> bool:
    """Whether the stream's leader answers, with that number of replicas; a new stream has to elect one."""
    answer = await ask(client, f"STREAM.INFO.{stream}")
    return bool(answer.get("config", {}).get("num_replicas") == number)


async def _has_all(client: Client, stream: str) -> bool:
    cluster = (await ask(client, f"STREAM.INFO.{stream}")).get("cluster", {})
    others = cluster.get("replicas", [])
    return {cluster.get("leader"), *(each["name"] for each in others if each["current"])} == NAMES


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + PATIENCE
    while not await done():
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(PACE_S)


async def ask(client: Client, name: str, /, **body: Any) -> dict[str, Any]:
    """Ask the API until it answers: servers of a busy machine lose and elect their leaders meanwhile."""
    end = time.monotonic() + PATIENCE
    while True:
        answer = await _ask_once(client, name, body)
        if err_code(answer) not in NOT_NOW or time.monotonic() > end:
            return answer
        await asyncio.sleep(PACE_S)


async def _ask_once(client: Client, name: str, body: dict[str, Any]) -> dict[str, Any]:
    payload = json.dumps(body).encode() if body else b""
    try:
        answer = await client.request(f"$JS.API.{name}", payload, timeout=PATIENCE / 6)
    except ClientError as error:
        return {"error": {"err_code": NOBODY_ANSWERED, "description": str(error)}}
    result: dict[str, Any] = json.loads(answer.data)
    return result


async def delete(client: Client, name: str) -> None:
    """Delete a stream; that it is not found is right too, as the answer to a first request may be lost."""
    answer = await ask(client, f"STREAM.DELETE.{name}")
    assert err_code(answer) in (0, 10059), answer


def err_code(answer: dict[str, Any]) -> int:
    return int(answer.get("error", {}).get("err_code", 0))


async def made(client: Client, name: str, **fields: Any) -> None:
    """Make a stream of three replicas, with a consumer of as many and one that has one."""
    assert await _create(client, name, subjects=[f"{name}.>"], **{"num_replicas": 3, **fields})
    for consumer, number in (("c3", 3), ("c1", 1)):
        config = {"durable_name": consumer, "ack_policy": "explicit", "num_replicas": number}
        answer = await ask(client, f"CONSUMER.CREATE.{name}.{consumer}", stream_name=name, config=config)
        assert not err_code(answer), answer
    await until(lambda: _has_all(client, name))


def with_client(servers: list[str], use: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        client = await nats.connect(servers[1])
        try:
            await use(client)
        finally:
            await client.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"num_replicas": 0}, 1),
        ({"num_replicas": 2}, 2),
        ({"num_replicas": 3}, 3),
        ({"num_replicas": 3, "placement": {"cluster": "C"}}, 3),
        ({"num_replicas": 3, "placement": {"cluster": "X"}}, 10005),
        ({"num_replicas": 6}, 10052),
        ({"num_replicas": -1}, 10133),
        ({"num_replicas": 3, "persist_mode": "async"}, 10052),
        ({"num_replicas": 3, "no_ack": True, "subjects": [">"]}, 10052),
    ],
)
def test_a_stream_is_made_with_replicas(servers: list[str], fields: dict[str, Any], expected: int) -> None:
    async def use(client: Client) -> None:
        # A name of its own: a case that failed leaves its stream, which would fail the next ones.
        name = f"M{uuid.uuid4().hex}"
        answer = await ask(client, f"STREAM.CREATE.{name}", **{"name": name, "subjects": [name], **fields})
        if not err_code(answer):
            await until(lambda: _has_replicas(client, name, expected))
            await delete(client, name)
        assert answer.get("config", {}).get("num_replicas", err_code(answer)) == expected

    with_client(servers, use)


@pytest.mark.parametrize(
    ("number", "expected"), [(0, 0), (2, 0), (3, 0), (4, 10126), (6, 10126), (-1, 10133)]
)
def test_a_consumer_is_made_with_replicas(servers: list[str], number: int, expected: int) -> None:
    async def use(client: Client) -> None:
        config = {"durable_name": "x", "ack_policy": "explicit", "num_replicas": number}
        answer = await ask(client, "CONSUMER.CREATE.FIRST.x", stream_name="FIRST", config=config)
        assert err_code(answer) == expected
        if not expected:
            assert answer["config"]["num_replicas"] == number
            assert not err_code(await ask(client, "CONSUMER.DELETE.FIRST.x"))

    with_client(servers, use)


def test_infos_show_the_cluster(servers: list[str]) -> None:
    async def use(client: Client) -> None:
        await made(client, "SHOWN")
        for name in ("STREAM.INFO.SHOWN", "CONSUMER.INFO.SHOWN.c3"):
            cluster = (await ask(client, name))["cluster"]
            assert cluster["name"] == "C"
            assert cluster["leader_since"].endswith("Z")
            others = {each["name"] for each in cluster["replicas"]}
            assert {cluster["leader"]} | others == NAMES
            assert len(others) == 2
            for each in cluster["replicas"]:
                assert isinstance(each["current"], bool)
                assert isinstance(each["active"], int)
                assert len(each["peer"]) == 8
        await delete(client, "SHOWN")

    with_client(servers, use)


async def _refused_alike(client: Client) -> bool:
    """Whether one server led the stream all the time, and then each request was answered as it has to be."""
    leader = (await ask(client, "STREAM.INFO.R"))["cluster"]["leader"]
    requests: list[tuple[str, dict[str, Any], int]] = [
        ("STREAM.LEADER.STEPDOWN.NONE", {}, 10059),
        ("STREAM.LEADER.STEPDOWN.R", {"placement": {"preferred": "nobody"}}, 10005),
        ("STREAM.LEADER.STEPDOWN.R", {"placement": {"preferred": leader}}, 10005),
        ("STREAM.LEADER.STEPDOWN.R", {"placement": {"cluster": "X"}}, 10005),
        ("STREAM.LEADER.STEPDOWN.R", {"placement": {"tags": ["x"]}}, 10005),
        ("CONSUMER.LEADER.STEPDOWN.NONE.c3", {}, 10059),
        ("CONSUMER.LEADER.STEPDOWN.R.none", {}, 10014),
        ("CONSUMER.LEADER.STEPDOWN.R.c3", {"placement": {"preferred": "nobody"}}, 10005),
        ("CONSUMER.LEADER.STEPDOWN.R.c1", {}, 0),
        ("STREAM.PEER.REMOVE.R", {}, 10003),
        ("STREAM.PEER.REMOVE.R", {"peer": ""}, 10003),
        ("STREAM.PEER.REMOVE.NONE", {"peer": leader}, 10059),
        ("STREAM.PEER.REMOVE.R", {"peer": "nobody"}, 10040),
        ("STREAM.PEER.REMOVE.R", {"peer": leader}, 10075),
        ("STREAM.PEER.EVACUATE.R", {"peer": leader}, 10075),
        ("STREAM.CANCEL_MOVE.R", {}, 10129),
        ("STREAM.CANCEL_MOVE.NONE", {}, 10059),
    ]
    answers = [err_code(await ask(client, name, **body)) for name, body, _ in requests]
    if (await ask(client, "STREAM.INFO.R"))["cluster"]["leader"] != leader:
        return False  # elected anew, which servers of a busy machine do; no request here may do it
    answered = [(name, body, each) for (name, body, _), each in zip(requests, answers, strict=True)]
    assert answered == requests
    return True


def test_requests_about_servers_are_refused_alike(servers: list[str]) -> None:
    async def use(client: Client) -> None:
        await made(client, "R")
        await until(lambda: _refused_alike(client))
        await delete(client, "R")

    with_client(servers, use)


@pytest.mark.parametrize("asset", ["STREAM.LEADER.STEPDOWN.MOVED", "CONSUMER.LEADER.STEPDOWN.MOVED.c3"])
def test_a_leader_hands_over(servers: list[str], asset: str) -> None:
    """The server that is preferred leads, everybody is told, and what was acknowledged is there once."""

    async def use(client: Client) -> None:
        await made(client, "MOVED", duplicate_window=120_000_000_000)
        kind = asset.split(".", 1)[0]
        name = "MOVED.c3" if kind == "CONSUMER" else "MOVED"
        info = f"{kind}.INFO.{name}"
        cluster = (await ask(client, info))["cluster"]
        before, wanted = cluster["leader"], cluster["replicas"][-1]["name"]
        told: asyncio.Queue[Msg] = asyncio.Queue()
        await client.subscribe(f"$JS.EVENT.ADVISORY.{kind}.LEADER_ELECTED.{name}", cb=told.put)
        await client.flush()
        await until(lambda: _accepted(client, asset, wanted))
        for number in range(50):
            await until(lambda number=number: _published(client, number))  # type: ignore[misc]
        await until(lambda: _led_by_another(client, info, before))
        advisory = json.loads((await asyncio.wait_for(told.get(), PATIENCE)).data)
        assert advisory["leader"] == wanted
        assert {each["name"] for each in advisory["replicas"]} <= NAMES
        assert (await ask(client, "STREAM.INFO.MOVED"))["state"]["messages"] == 50
        await delete(client, "MOVED")

    with_client(servers, use)


def test_commands_hand_a_leader_over_and_take_a_stream_away(servers: list[str], tmp_path: Path) -> None:
    cli = CommandLine(tmp_path, servers[1])
    stream = ("stream", "cluster")

    async def use(client: Client) -> None:
        await made(client, "LED")

        async def stepped_down() -> bool:
            ran = cli(*stream, "step-down", "LED", "--json")
            return ran.code == 0 and ran.json["leader"] not in (ran.json["before"], None)

        await until(stepped_down)
        await until(lambda: _has_all(client, "LED"))
        assert cli(*stream, "step-down", "LED", "--preferred", "nobody").code == 6
        assert cli(*stream, "peer-remove", "LED", "nobody", "--dry-run").code == 4
        assert cli(*stream, "peer-remove", "LED", "S0", "--dry-run").code == 3
        assert cli(*stream, "peer-remove", "LED", "S0").code == 2
        assert cli(*stream, "peer-remove", "LED", "S0", "--force").code == 6  # no other server could have it
        await delete(client, "LED")

    with_client(servers, use)


def test_clients_are_told_who_leads_a_new_stream(servers: list[str]) -> None:
    async def use(client: Client) -> None:
        told: asyncio.Queue[Msg] = asyncio.Queue()
        await client.subscribe("$JS.EVENT.ADVISORY.*.LEADER_ELECTED.>", cb=told.put)
        await client.flush()
        assert await _create(client, "ONE", subjects=["one"])
        await made(client, "TOLD")
        led = set()
        while ("TOLD", "c3") not in led:
            event = json.loads((await asyncio.wait_for(told.get(), PATIENCE)).data)
            assert event["leader"] in NAMES
            led.add((event["stream"], event.get("consumer")))
        assert led == {("TOLD", None), ("TOLD", "c3")}
        for name in ("ONE", "TOLD"):
            await delete(client, name)
        while not told.empty():  # a leader may be elected twice, but one that is alone is not elected
            assert json.loads(told.get_nowait().data)["stream"] == "TOLD"

    with_client(servers, use)


async def _accepted(client: Client, name: str, wanted: str) -> bool:
    return (await ask(client, name, placement={"preferred": wanted})).get("success", False) is True


async def _led_by_another(client: Client, info: str, before: str) -> bool:
    return (await ask(client, info)).get("cluster", {}).get("leader", before) != before


async def _published(client: Client, number: int) -> bool:
    headers = {"Nats-Msg-Id": str(number)}
    try:
        answer = await client.request("MOVED.x", b"%d" % number, timeout=0.5, headers=headers)
    except ClientError:
        return False
    return "seq" in json.loads(answer.data)


def test_key_value_buckets_have_replicas(servers: list[str]) -> None:
    async def use(client: Client) -> None:
        js = client.jetstream(timeout=PATIENCE)
        bucket = await js.create_key_value(bucket="B", replicas=3, history=5)
        for number in range(50):
            await bucket.put(f"k{number % 10}", b"%d" % number)
        watcher = await bucket.watchall()
        seen, last = {}, {f"k{each}": b"%d" % (40 + each) for each in range(10)}
        while seen != last:  # a replica may lag: then the last values come behind the end of what was there
            if (update := await watcher.updates(timeout=PATIENCE)) is not None:
                seen[update.key] = update.value
        await watcher.stop()
        assert (await js.stream_info("KV_B")).config.num_replicas == 3
        await js.delete_key_value("B")

    with_client(servers, use)
