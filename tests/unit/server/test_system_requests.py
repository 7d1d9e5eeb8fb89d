"""Requests to the system account that are hard to serve: crowds, long listings, strangers' headers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from go_reference import RawClient

from headrace.conf.binding import load_options
from headrace.protocol.s2 import S2Reader
from headrace.server.server import Server
from headrace.server.system import requests
from headrace.server.system.encoding import encoded
from headrace.server.system.service import ACCOUNT_REQUESTS, COMMANDS, SERVER_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.options import Options

CONFIGURATION = """
accounts {
  A { users: [{user: a, password: p}] }
  SYS { users: [{user: s, password: p}] }
}
system_account: SYS
"""


def configured() -> Options:
    return load_options(text=CONFIGURATION, environ={}, overrides={"host": "127.0.0.1", "port": -1})


def joined(port: int, user: str) -> RawClient:
    return RawClient(port, lambda _: {"user": user, "pass": "p", "headers": True, "no_responders": True})


def lines_until(client: RawClient, wanted: Callable[[str], bool], count: int) -> list[str]:
    """So many lines of that kind: an answer comes behind the PONG of its own round."""
    found: list[str] = []
    while len(found) < count:
        found += filter(wanted, client.sync())
    return found


def ask(client: RawClient, subject: str, body: str = "", *, count: int = 1) -> list[Any]:
    """The answers to requests that were sent at once, as they come."""
    request = [f"PUB {subject} in {len(body)}", body]
    client.send("SUB in 1", *(request * count))
    found = lines_until(client, lambda line: line.startswith('{"server"'), count)
    client.send("UNSUB 1")
    client.sync()
    return [json.loads(line) for line in found]


def run(play: Any) -> Any:
    async def main() -> Any:
        async with Server(configured()) as server:
            return await asyncio.wait_for(asyncio.to_thread(play, server.port, server), 30)

    return asyncio.run(main())


def test_long_listing_is_whole() -> None:
    """More connections than are taken in one step, and more than are written out on the loop."""

    def play(port: int, _: Server) -> tuple[Any, Any]:
        crowd = [joined(port, "a") for _ in range(150)]
        try:
            for client in crowd:
                client.sync()
            with joined(port, "s") as watch:
                (everybody,) = ask(watch, "$SYS.REQ.ACCOUNT.A.CONNZ")
                (page,) = ask(watch, "$SYS.REQ.SERVER.PING.CONNZ", '{"limit":100,"offset":100,"sort":"cid"}')
            return everybody["data"], page["data"]
        finally:
            for client in crowd:
                client.__exit__(None, None, None)

    everybody, page = run(play)

    assert (everybody["num_connections"], everybody["total"]) == (150, 150)
    assert [c["cid"] for c in everybody["connections"]] == list(range(1, 151))
    assert (page["num_connections"], page["total"], page["offset"]) == (51, 151, 100)


def test_requests_that_wait_are_bounded_and_the_server_goes_on() -> None:
    def play(port: int, server: Server) -> tuple[int, int]:
        flood = 3 * requests.MOST_WAITING
        with joined(port, "s") as watch:
            watch.send("SUB in 1", *(["PUB $SYS.REQ.SERVER.PING.CONNZ in 0", ""] * flood))
            answered = 0
            while True:
                lines = watch.sync()
                answered += sum(line.startswith("{") for line in lines)
                if not lines and answered:
                    break
            (late,) = ask(watch, "$SYS.REQ.SERVER.PING.CONNZ")
        return answered, late["data"]["num_connections"]

    answered, connections = run(play)

    assert requests.MOST_WAITING <= answered < 3 * requests.MOST_WAITING
    assert connections == 1


def test_account_whose_name_is_a_wildcard_gets_no_other_accounts_statistics() -> None:
    text = """
    accounts { "*": { users: [{user: w, password: p}] }, A { users: [{user: a, password: p}] } }
    """

    async def main() -> list[str]:
        options = load_options(text=text, environ={}, overrides={"host": "127.0.0.1", "port": -1})
        async with Server(options) as server:

            def play() -> list[str]:
                with joined(server.port, "a"), joined(server.port, "w") as client:
                    client.send("SUB in 1", "PUB $SYS.REQ.ACCOUNT.PING.CONNZ in 0", "")
                    return lines_until(client, lambda line: line.startswith(("NATS/1.0", "{")), 1)

            return await asyncio.to_thread(play)

    assert asyncio.run(main()) == ["NATS/1.0 503"]


def test_oversized_and_deep_requests_are_refused_and_served_on() -> None:
    def play(port: int, _: Server) -> list[Any]:
        with joined(port, "a") as client:
            subject = "$SYS.REQ.ACCOUNT.PING.CONNZ"
            return [ask(client, subject, body)[0] for body in ("x" * 70_000, "[" * 60_000, "{}")]

    large, deep, good = run(play)

    text = "a request of 70000 bytes, 65536 are allowed"
    assert large["error"] == {"code": 400, "description": text}
    assert deep["error"] == {"code": 400, "description": "exceeded max depth"}
    assert good["data"]["num_connections"] == 1


def test_request_of_the_system_account_under_a_false_name_is_refused() -> None:
    def play(port: int, _: Server) -> list[Any]:
        with joined(port, "s") as watch:
            found = []
            for value in ("{", "[]", '{"id":"x"}', '{"id":77}', "[" * 5000):
                headers = f"NATS/1.0\r\nNats-Request-Info: {value}\r\n\r\n"
                watch.send("SUB in 1", f"HPUB $SYS.REQ.USER.A.INFO in {len(headers)} {len(headers)}", headers)
                (line,) = lines_until(watch, lambda line: line.startswith("{"), 1)
                found.append(json.loads(line)["error"])
                watch.send("UNSUB 1")
            return found

    assert run(play) == [{"code": 400}] * 5


def test_counts_of_the_server_are_without_what_it_says_itself() -> None:
    def play(port: int, _: Server) -> tuple[Any, Any]:
        with joined(port, "s") as watch:
            watch.send("SUB $SYS.ACCOUNT.> 2")
            watch.sync()
            for _ in range(5):
                with joined(port, "a") as client:
                    client.send("PUB x 3", "abc")
                    client.sync()
            first, second = (ask(watch, "$SYS.REQ.SERVER.PING.VARZ")[0]["data"] for _ in range(2))
            return first, second

    first, second = run(play)

    assert first["in_msgs"] == 5 + 1  # five of clients, and the request
    assert first["in_bytes"] == 15
    assert second["in_msgs"] == first["in_msgs"] + 1
    assert second["out_msgs"] >= first["out_msgs"] + 1


def test_subscribers_are_counted_in_the_account_that_asks() -> None:
    text = """
    accounts {
      A { users: [{user: a, password: p}], imports: [{service: {account: SYS, subject: count}}] }
      SYS {
        users: [{user: s, password: p}]
        exports: [{service: count}]
        mappings: {count: "$SYS.DEBUG.SUBSCRIBERS"}
      }
    }
    system_account: SYS
    """

    async def main() -> list[str]:
        options = load_options(text=text, environ={}, overrides={"host": "127.0.0.1", "port": -1})
        async with Server(options) as server:

            def play() -> list[str]:
                with joined(server.port, "s") as other, joined(server.port, "a") as client:
                    other.send("SUB a.b 1")
                    other.sync()
                    client.send("SUB a.b 1", "SUB a.* 2", "SUB a.b q 3", "SUB in 9")
                    for body in ("a.b", "a.*", "a.b q", "nobody", "not a subject", ""):
                        client.send(f"PUB count in {len(body)}", body)
                    return lines_until(client, str.isdecimal, 6)

            return await asyncio.to_thread(play)

    assert asyncio.run(main()) == ["3", "3", "1", "0", "0", "0"]


def test_encoding_is_the_one_that_is_asked_for() -> None:
    message = b"{}" * 100
    assert encoded(message, b"") == (message, b"")
    assert encoded(message, b"NATS/1.0\r\nOther: gzip\r\n\r\n") == (message, b"")
    packed, headers = encoded(message, b"NATS/1.0\r\naccept-encoding: br, GZIP\r\n\r\n")
    assert headers == b"NATS/1.0\r\nContent-Encoding: gzip\r\n\r\n"
    assert len(packed) < len(message)
    plain, headers = encoded(message, b"NATS/1.0\r\nAccept-Encoding: br\r\n\r\n")
    assert (plain, headers) == (message, b"NATS/1.0\r\nContent-Encoding: identity\r\n\r\n")


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 300_000])
def test_snappy_is_what_its_readers_understand(size: int) -> None:
    message = (b'{"server":{"name":"one"},' * (size // 20 + 1))[:size]
    packed, headers = encoded(message, b"NATS/1.0\r\nAccept-Encoding: Snappy, gzip\r\n\r\n")
    assert headers == b"NATS/1.0\r\nContent-Encoding: snappy\r\n\r\n"
    assert b"".join(S2Reader().feed(packed)) == message
    assert size < 100 or len(packed) < size // 10


@pytest.mark.parametrize("raises", ["read", "encode"])
def test_question_that_meets_a_mistake_is_answered(
    raises: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every question and command there is, and those that are answered later: one log line, one answer."""

    def broken(*_arguments: object, **_options: object) -> Any:
        raise ZeroDivisionError("ours")

    def play(port: int, server: Server) -> dict[str, Any]:
        subjects = [f"$SYS.REQ.SERVER.PING.{name}" for name in ("CONNZ", "SUBSZ", "JSZ")]
        if raises == "read":
            subjects = [f"$SYS.REQ.SERVER.PING.{name}" for name in SERVER_REQUESTS if name != "IDZ"]
            subjects += [f"$SYS.REQ.ACCOUNT.A.{name}" for name in ACCOUNT_REQUESTS]
            subjects += [f"$SYS.REQ.SERVER.{server.server_id}.{name}" for name in COMMANDS]
        with joined(port, "s") as watch:
            return {subject: ask(watch, subject, '{"cid":1}') for subject in subjects}

    if raises == "read":
        monkeypatch.setattr("headrace.server.system.options.read", broken)
    else:
        monkeypatch.setattr("headrace.server.system.requests.encode", broken)
    found = run(play)

    for subject, (answer,) in found.items():
        assert answer["error"] == {"code": 500, "description": "internal error"}, subject
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.split(": ")[0] for line in said] == [
        f"SystemService internal error at {subject}" for subject in found
    ]
    caplog.clear()
