"""Commands of the system account are logged with who asked; a server says what a reload would change."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from go_reference import RawClient

from headrace.conf.binding import load_options
from headrace.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIGURATION = """
accounts {
  A { users: [{user: a, password: p}] }
  SYS { users: [{user: "s\\"x", password: hushhush}] }
}
system_account: SYS
"""


def joined(port: int, user: str, password: str) -> RawClient:
    credentials = {"user": user, "pass": password, "headers": True, "no_responders": True}
    return RawClient(port, lambda _: credentials)


def operator(port: int) -> RawClient:
    return joined(port, 's"x', "hushhush")


def play(file: Path, script: Callable[[Server, RawClient], Any], text: str = CONFIGURATION) -> Any:
    """What a script gives that runs beside a server with this file, with an operator."""
    file.write_text(text)

    def run(server: Server) -> Any:
        with operator(server.port) as client:
            return script(server, client)

    async def main() -> Any:
        options = load_options(str(file), overrides={"host": "127.0.0.1", "port": -1, "server_name": "n1"})
        async with Server(options) as server:
            return await asyncio.wait_for(asyncio.to_thread(run, server), 30)

    return asyncio.run(main())


def ask(client: RawClient, subject: str, body: str = "", headers: str = "") -> Any:
    """The answer to a request."""
    if headers:
        block = f"NATS/1.0\r\n{headers}\r\n\r\n"
        client.send("SUB in 1", f"HPUB {subject} in {len(block)} {len(block) + len(body)}", f"{block}{body}")
    else:
        client.send("SUB in 1", f"PUB {subject} in {len(body)}", body)
    found: list[str] = []
    while not found:
        found += [line for line in client.sync() if line.startswith('{"server"')]
    client.send("UNSUB 1")
    client.sync()
    return json.loads(found[0])


def command(server: Server, name: str) -> str:
    return f"$SYS.REQ.SERVER.{server.server_id}.{name}"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The log lines about commands."""
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if "asked for by" in record.getMessage()]


def test_each_command_is_logged_with_who_asked(tmp_path: Path, lines: Callable[[], list[str]]) -> None:
    def script(server: Server, client: RawClient) -> None:
        with joined(server.port, "a", "p") as victim:
            victim.sync()
            cid = max(session.cid for session in server.clients)
            ask(client, command(server, "LDM"), json.dumps({"cid": cid}))
            ask(client, command(server, "KICK"), json.dumps({"cid": cid}))
        ask(client, command(server, "KICK"), '{"cid":999}')
        ask(client, command(server, "RELOAD"))
        (tmp_path / "c.conf").write_text("port: 1\nports: 2\n")
        ask(client, command(server, "RELOAD"))

    play(tmp_path / "c.conf", script)

    found = lines()
    who = r', asked for by user "s\"x" of account "SYS" at 127.0.0.1:'
    assert [line.partition(who)[0] for line in found] == [
        "LDM of connection 2",
        "KICK of connection 2",
        "KICK of connection 999",
        "RELOAD",
        "RELOAD",
    ]
    assert all(", n1: " in line for line in found)
    assert found[0].endswith(
        "client does not support Lame Duck Mode or is not ready to receive the notification"
    )
    assert found[1].endswith(": done")
    assert found[2].endswith("no such client or leafnode id")
    assert found[3].endswith(": done")
    assert 'unknown field "ports"' in found[4]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("s/tab-1", '"s/tab-1"'),
        ('x" [INF] all is well', r'"x\" [INF] all is well"'),
        ("\x1b[2J\x07", r'"\x1b[2J\a"'),
        ("x" * 5000, f'"{"x" * 100}"'),
    ],
)
def test_what_the_console_says_is_quoted_and_cut(
    tmp_path: Path, lines: Callable[[], list[str]], said: str, shown: str
) -> None:
    play(
        tmp_path / "c.conf",
        lambda server, client: ask(client, command(server, "KICK"), '{"cid":9}', f"Headrace-Console: {said}"),
    )

    (line,) = lines()
    assert f" (Headrace-Console: {shown}): no such client" in line


def test_nobody_can_say_that_another_one_asked(tmp_path: Path, lines: Callable[[], list[str]]) -> None:
    lie = 'Nats-Request-Info: {"acc":"SYS","user":"root","id":1}'
    play(
        tmp_path / "c.conf",
        lambda server, client: ask(client, command(server, "KICK"), '{"cid":9}', lie),
    )

    (line,) = lines()
    assert r'user "s\"x" of account "SYS"' in line
    assert "root" not in line


def test_difference_of_the_file_is_what_a_reload_would_take_over(tmp_path: Path) -> None:
    file = tmp_path / "c.conf"

    def script(server: Server, client: RawClient) -> tuple[Any, Any]:
        before = ask(client, command(server, "CONFIG.DIFF"))
        file.write_text(
            CONFIGURATION.replace("hushhush", "othersecret")
            + "max_payload: 1000\nwebsocket {port: -1, no_tls: true}\n"
        )
        return before["data"], ask(client, command(server, "CONFIG.DIFF"))["data"]

    before, after = play(file, script)

    assert before["differences"] == []
    assert (before["file"], before["digest"]) == (str(file), before["loaded_digest"])
    assert after["digest"] != after["loaded_digest"]
    texts = {each["text"]: each["needs_restart"] for each in after["differences"]}
    assert texts["max_payload: 1048576 -> 1000"] is False
    assert any(text.startswith("websocket: added: {") and restart for text, restart in texts.items())
    assert texts[r'accounts[SYS].users[s"x].password: changed'] is False
    assert "hushhush" not in json.dumps(after)
    assert "othersecret" not in json.dumps(after)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("max_payload: 1\nmax_payloads: 2\nauthorization { user: 5 }\n", 'unknown field "max_payloads"'),
        ("accounts {", "c.conf"),
        (None, "no such file"),
    ],
)
def test_file_that_is_wrong_is_an_error_that_says_what(
    tmp_path: Path, text: str | None, complaint: str
) -> None:
    file = tmp_path / "c.conf"

    def script(server: Server, client: RawClient) -> Any:
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
        return ask(client, command(server, "CONFIG.DIFF"))

    answer = play(file, script)

    assert answer["error"]["code"] == 500
    assert complaint in answer["error"]["description"]
    assert "data" not in answer


def test_server_without_a_file_has_no_difference() -> None:
    async def main() -> Any:
        options = load_options(text=CONFIGURATION, overrides={"host": "127.0.0.1", "port": -1})
        async with Server(options) as server:

            def run() -> Any:
                with operator(server.port) as client:
                    return ask(client, command(server, "CONFIG.DIFF"))

            return await asyncio.wait_for(asyncio.to_thread(run), 30)

    assert "without a configuration file" in asyncio.run(main())["error"]["description"]


def test_users_of_other_accounts_are_not_answered(tmp_path: Path) -> None:
    def script(server: Server, _: RawClient) -> list[str]:
        with joined(server.port, "a", "p") as client:
            client.send("SUB in 1", f"PUB {command(server, 'CONFIG.DIFF')} in 0", "")
            found: list[str] = []
            while not found:
                found += [line for line in client.sync() if "503" in line or line.startswith("{")]
            return found

    (answer,) = play(tmp_path / "c.conf", script)
    assert answer == "NATS/1.0 503"
