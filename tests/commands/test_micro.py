"""`headrace micro`: services found, asked and served, by us and by nats-py's micro client."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import nats
import pytest
from nats.micro.service import Service, ServiceConfig, ServiceInfo, ServicePing, ServiceStats

from harness.waiting import PATIENCE
from headrace.client.blocking import connect
from headrace.client.services import ServiceInstance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine

PYTHON = sys.executable
READER = ("--user", "reader", "--password", "secret")


@contextmanager
def services(url: str, *names: str) -> Iterator[list[str]]:
    """Services of nats-py for a block, each with an endpoint that doubles and one that fails; their ids."""
    ready, ids = threading.Event(), list[str]()
    over: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def double(request: Any) -> None:
        await request.respond(request.data * 2)

    async def fail(request: Any) -> None:
        await request.respond_error("418", "a teapot")

    async def serve() -> None:
        end = asyncio.Event()
        over.append((asyncio.get_running_loop(), end))
        client = await nats.connect(url)
        for name in names:
            config = ServiceConfig(name=name, version="1.2.3", description="doubles", metadata={"a": "1"})
            service = Service(client, config)
            await service.start()
            await service.add_endpoint(name="double", handler=double, subject=f"{name}.double")
            await service.add_endpoint(name="fail", handler=fail, subject=f"{name}.fail")
            await service.add_endpoint(name="many", handler=double, subject=f"{name}.many.*")
            ids.append(service.id)
        await client.flush()
        ready.set()
        await end.wait()
        await client.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield ids
    finally:
        loop, end = over[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(PATIENCE)


# -- services of others


def test_services_are_listed(cli: CommandLine) -> None:
    assert cli("micro", "ls", "--json").ok().json == {"items": [], "total": 0, "truncated": False}
    assert cli("micro", "ls", "--fail-empty").code == 4
    with services(cli.url, "twice", "other", "twice") as ids:
        found = cli("micro", "ls", "--json", "--expect", "3").ok().json
        lines = cli("service", "ls", "twice", "--expect", "2").ok().lines
        names = cli("micro", "ls", "-q", "--expect", "3").ok().lines

    assert [item["name"] for item in found["items"]] == ["other", "twice", "twice"]
    assert {item["id"] for item in found["items"]} == set(ids)
    assert found["items"][0]["endpoints"][0]["subject"] == "other.double"
    assert lines[0] == "name\tversion\tid\tendpoints\tdescription"
    assert [line.split("\t")[::2] for line in lines[1:]] == [
        ["twice", each, "doubles"] for each in sorted((ids[0], ids[2]))
    ]
    assert names == ["other", "twice", "twice"]


def test_info_stats_and_ping(cli: CommandLine) -> None:
    with services(cli.url, "twice", "twice") as ids:
        for _ in range(2):
            cli("request", "twice.double", "x").ok()
        info = cli("micro", "info", "twice", ids[1], "--json").ok().json["items"]
        shown = cli("micro", "info", "twice", ids[0]).ok().lines
        stats = cli("micro", "stats", "twice", "--expect", "2", "--json").ok().json["items"]
        table = cli("micro", "stats", "twice", ids[0]).ok().lines
        pings = cli("micro", "ping", "twice", "--expect", "2", "--json").ok().json_lines
        assert cli("micro", "ping", "twice", "--expect", "2", "-q").ok().lines == ["twice", "twice"]
        assert cli("micro", "info", "twice", "NOBODY").code == 4

    assert [each["id"] for each in info] == [ids[1]]
    assert (info[0]["version"], info[0]["metadata"], "type" in info[0]) == ("1.2.3", {"a": "1"}, False)
    assert "description\tdoubles" in shown
    assert "double\ttwice.double\tq" in shown
    asked = sum(each["endpoints"][0]["num_requests"] for each in stats)
    assert asked == 2
    assert table[0] == "id\tendpoint\trequests\terrors\tprocessing\taverage\tlast_error"
    assert {each["id"] for each in pings} == set(ids)
    assert all(each["rtt_ns"] > 0 for each in pings)


@pytest.mark.parametrize(
    "words", [("info", "missing"), ("stats", "missing"), ("ping", "missing"), ("request", "missing", "e")]
)
def test_a_service_that_is_not_there_is_4(cli: CommandLine, words: tuple[str, ...]) -> None:
    ran = cli("micro", *words, "--json")

    assert (ran.code, ran.out, ran.error["kind"]) == (4, "", "not_there")


def test_nobody_at_all_is_5(cli: CommandLine) -> None:
    assert cli("micro", "ping").code == 5


def test_who_may_not_ask_is_9(cli: CommandLine) -> None:
    assert cli("micro", "ls", *READER).code == 9


def test_a_name_is_a_token(alone: CommandLine) -> None:
    for name in ("a b", "a.b", "a*", ">"):
        assert alone("micro", "info", name).code == 2
        assert alone("micro", "serve", name).code == 2


def test_an_endpoint_is_asked(cli: CommandLine) -> None:
    with services(cli.url, "twice"):
        assert cli("micro", "request", "twice", "double", "ab", "--raw").ok().out == "abab\n"
        assert cli("micro", "req", "twice", "double", "-", "--json", stdin=b"\xff").ok().json["data_base64"]
        failed = cli("micro", "request", "twice", "fail")
        missing = cli("micro", "request", "twice", "nothing")
        wide = cli("micro", "request", "twice", "many")

    assert (failed.code, "418 a teapot" in failed.err) == (6, True)
    assert (missing.code, "there are: double, fail, many" in missing.err) == (4, True)
    assert (wide.code, "twice.many.*" in wide.err) == (2, True)


def test_an_answer_that_is_none_is_said(cli: CommandLine) -> None:
    with cli.started("reply", "$SRV.INFO", "--body", "\x1b[31m no JSON", "--count", "1") as liar:
        liar.wait_for("answering")
        ran = cli("micro", "ls", "--json", "--expect", "1").ok()

    assert ran.json["items"] == []
    assert "no JSON" in ran.json["errors"][0]["error"]
    assert "\x1b" not in ran.err + ran.out


# -- a service of ours


async def _as_nats_py_sees_it(url: str) -> dict[str, Any]:
    """The answers of the service `ours`, as the client of nats-py reads them."""
    client = await nats.connect(url)
    try:
        ping = ServicePing.from_dict(await _asked(client, "$SRV.PING"))
        assert ping == ServicePing.from_dict(await _asked(client, "$SRV.PING.ours"))
        assert ping == ServicePing.from_dict(await _asked(client, f"$SRV.PING.ours.{ping.id}"))
        failed = await client.request("our.bad", b"x", timeout=PATIENCE)
        good = await client.request("our.good", b"x", timeout=PATIENCE)
        return {
            "ping": ping,
            "info": ServiceInfo.from_dict(await _asked(client, "$SRV.INFO.ours")),
            "stats": ServiceStats.from_dict(await _asked(client, f"$SRV.STATS.ours.{ping.id}")),
            "schema": await _asked(client, "$SRV.SCHEMA"),
            "good": good.data,
            "failed": failed.headers,
        }
    finally:
        await client.close()


async def _asked(client: Any, subject: str) -> dict[str, Any]:
    import json

    answer = await client.request(subject, b"", timeout=PATIENCE)
    found: dict[str, Any] = json.loads(answer.data)
    verb = subject.split(".")[1].lower()
    assert found["type"] == f"io.nats.micro.v1.{verb}_response"
    return found


def test_a_service_is_what_micro_clients_expect(cli: CommandLine) -> None:
    (cli.folder / "work.py").write_text(
        "import sys\n"
        "print(sys.stdin.read() * 2, sys.argv[1], end='')\n"
        "if sys.argv[1] == 'bad': sys.exit('it is bad')\n"
    )
    command = f"{PYTHON} {cli.folder / 'work.py'} {{1}}"
    with cli.started(
        "micro", "serve", "ours", "--endpoint", "all=our.*", "--command", command, "--version", "2.0.0",
        "--description", "of ours", "--metadata", "b=2", "--schema", '{"request": "text"}', "--json",
    ) as running:  # fmt: skip
        running.wait_for("serving ours 2.0.0 on our.*")
        seen = asyncio.run(_as_nats_py_sees_it(cli.url))
        running.interrupt()
        ended = running.end()

    assert ended.code == 130
    assert (seen["ping"].name, seen["ping"].version, seen["ping"].metadata) == ("ours", "2.0.0", {"b": "2"})
    assert seen["info"].description == "of ours"
    [endpoint] = seen["info"].endpoints
    assert (endpoint.name, endpoint.subject, endpoint.queue_group) == ("all", "our.*", "q")
    [counted] = seen["stats"].endpoints
    assert (counted.num_requests, counted.num_errors, counted.last_error) == (2, 1, "500:it is bad")
    assert counted.processing_time >= counted.average_processing_time > 0
    assert seen["stats"].id == seen["info"].id == seen["ping"].id
    assert seen["schema"]["endpoints"] == [
        {"name": "all", "subject": "our.*", "schema": {"request": "text", "response": ""}}
    ]
    assert seen["good"] == b"xx good"
    assert seen["failed"]["Nats-Service-Error"] == "it is bad"
    assert seen["failed"]["Nats-Service-Error-Code"] == "500"
    assert [(each["endpoint"], each["subject"], each["exit_code"]) for each in ended.json_lines] == [
        ("all", "our.bad", 1), ("all", "our.good", 0)
    ]  # fmt: skip


def test_a_service_echoes_unless_it_is_told(cli: CommandLine) -> None:
    with cli.started("micro", "serve", "echo", "--count", "1") as running:
        running.wait_for("serving echo 0.0.1 on echo")
        assert cli("micro", "request", "echo", "echo", "hello", "--raw").ok().out == "hello\n"
        assert running.end().code == 0
    with cli.started(
        "micro", "serve", "texts", "--body", "of {{n}}", "--templates", "--count", "2"
    ) as running:
        running.wait_for("serving texts")
        for number in ("1", "2"):
            assert cli("micro", "request", "texts", "texts", "--raw").ok().out == f"of {number}\n"
        assert running.end().code == 0


@pytest.mark.parametrize(
    "flags",
    [("--echo", "--body", "x"), ("--version", "one"), ("--endpoint", "a b"), ("--endpoint", "a=b..c")],
)
def test_what_cannot_be_served_is_wrong_use(cli: CommandLine, flags: tuple[str, ...]) -> None:
    assert cli("micro", "serve", "wrong", *flags).code == 2


def test_requests_are_shared_among_instances(cli: CommandLine) -> None:
    with connect(cli.url) as connection, connect(cli.url) as other, connect(cli.url) as asking:
        instances = [ServiceInstance(each, "shared") for each in (connection, other)]
        for instance in instances:
            instance.add_endpoint("work", "shared.work")
        connection.flush()
        other.flush()
        for number in range(40):
            asking.publish("shared.work", b"%d" % number)
        asking.flush()
        got = [[bytes(each.data) for each in instance.requests(0.3)] for instance in instances]

    assert sorted(map(int, got[0] + got[1])) == list(range(40))
    assert all(got)
    assert sum(instance.endpoints[0].requests for instance in instances) == 40
