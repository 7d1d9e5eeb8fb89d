"""Reload of a server as a process: certificates, logs, files, and traffic that goes on meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from typing import TYPE_CHECKING

import nats
import pytest

from harness.processes import HEADRACES, Program
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.certificates import Authority, Pair
    from harness.processes import ServerProcess
    from harness.wire import Wire

RELOADED = r"\[INF\] Reloaded server configuration"
REFUSED = r"\[ERR\] Failed to reload server configuration: "


def reload(server: ServerProcess, text: str, expected: str = RELOADED) -> None:
    mark = len(server.lines)
    server.config_file.write_text(text)
    server.signal(signal.SIGHUP)
    server.wait_for_line(expected, after=mark)


# -- certificates -------------------------------------------------------------------------------------


def tls(pair: Pair, more: str = "") -> str:
    return f'tls {{ cert_file: "{pair.certificate}", key_file: "{pair.key}" {more} }}\n'


def secured(server: ServerProcess, authority: Authority, pair: Pair | None = None) -> tuple[Wire, str]:
    """A connection over TLS, and the name on the server's certificate."""
    wire = server.connect()
    wire.upgrade(authority.client_context(pair))
    wire.connect()
    names = dict(entry[0] for entry in wire.socket.getpeercert()["subject"])  # type: ignore[union-attr, index]
    return wire, names["commonName"]


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_certificate_is_rotated_with_and_without_another_path(
    serve: Callable[..., ServerProcess], program: Program, authority: Authority
) -> None:
    one, two = authority.issue("rotated-one"), authority.issue("rotated-two")
    server = serve(config=tls(one), program=program)
    live, name = secured(server, authority)
    assert name == "rotated-one"
    live.send(b"SUB x 1\r\n")
    live.sync()

    reload(server, tls(two))
    second, name = secured(server, authority)
    assert name == "rotated-two"
    one.certificate.replace(two.certificate)
    one.key.replace(two.key)
    reload(server, tls(two))
    third, name = secured(server, authority)
    assert name == "rotated-one"

    third.send(b"PUB x 1\r\n.\r\n")
    third.sync()
    assert live.sync() == b"MSG x 1 1\r\n.\r\n"
    for wire in (live, second, third):
        wire.close()


def test_certificate_that_cannot_be_used_leaves_the_old_one(
    serve: Callable[..., ServerProcess], authority: Authority, tmp_path: Path
) -> None:
    pair, other = authority.issue("kept"), authority.issue("other")
    server = serve(config=tls(pair))
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")

    for certificate, key in ((broken, pair.key), (pair.certificate, other.key), (tmp_path / "no", pair.key)):
        text = f'max_payload: 9\ntls {{ cert_file: "{certificate}", key_file: "{key}" }}\n'
        reload(server, text, REFUSED)
        wire, name = secured(server, authority)
        assert (name, wire.info["max_payload"]) == ("kept", 1 << 20)
        wire.close()


def test_tls_is_turned_on_tightened_and_off(
    serve: Callable[..., ServerProcess], authority: Authority
) -> None:
    pair, client = authority.issue("turned"), authority.issue("client")
    server = serve(config="")
    plain = server.connect(b"")

    reload(server, tls(pair))
    wire, _ = secured(server, authority)
    wire.close()
    assert "tls_required" in wire.info
    reload(server, tls(pair, f', verify: true, ca_file: "{authority.file}"'))
    wire, _ = secured(server, authority, client)
    assert wire.info["tls_verify"] is True
    wire.close()
    with server.connect() as refused:
        refused.upgrade(authority.client_context())  # without a certificate, which is only missed afterwards
        refused.send(b"PING\r\n")
        assert refused.take_rest() == b""
    reload(server, "ping_max: 3")
    with server.connect(b"") as again:
        assert not again.info.get("tls_required")

    assert plain.sync() == b""
    plain.close()


# -- the process's own --------------------------------------------------------------------------------


def test_log_goes_on_in_another_file_and_form(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    server = serve(config=f'log_file: "{first}"\n', ready=False)
    wait_until(lambda: first.exists() and "Server is ready" in first.read_text(), "the log file")

    server.config_file.write_text(f'log_file: "{second}"\nlogtime: false\ndebug: true\n')
    server.signal(signal.SIGHUP)
    wait_until(lambda: second.exists() and "Reloaded server configuration" in second.read_text(), "the other")

    assert "Reloaded" not in first.read_text()
    lines = second.read_text().splitlines()
    assert f"[{server.pid}] [INF] Reloaded: log_file = {second}" in lines
    reload(server, "debug: false\n", RELOADED)  # to stderr
    assert server.stop() == 0
    assert "Reloaded: debug = false" in server.log


def test_log_file_that_cannot_be_opened_is_refused(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config="debug: false\n")

    reload(server, 'max_payload: 9\nlog_file: "no/such/folder/x.log"\n', REFUSED + "error opening log file")

    with server.connect() as wire:
        assert wire.info["max_payload"] == 1 << 20


def test_files_of_the_process_follow(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    server = serve(config='ports_file_dir: "one"\n')
    wait_until(lambda: list((tmp_path / "one").iterdir()), "the ports file")

    reload(server, 'ports_file_dir: "two"\npid_file: "new.pid"\n')

    assert list((tmp_path / "one").iterdir()) == []
    assert [path.suffix for path in (tmp_path / "two").iterdir()] == [".ports"]
    assert (tmp_path / "new.pid").read_text() == str(server.pid)
    assert server.stop() == 0
    assert list((tmp_path / "two").iterdir()) == []


def test_pid_file_that_cannot_be_written_is_said(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config="debug: false\n")

    reload(server, 'pid_file: "no/such/folder/pid"\n')

    server.wait_for_line(r"\[ERR\] could not write no/such/folder/pid")


def test_monitoring_shows_what_is_loaded(serve: Callable[..., ServerProcess]) -> None:
    server = serve("-m", "-1", config="ping_max: 3\n")

    def varz() -> dict[str, object]:
        with urllib.request.urlopen(f"{server.monitor_url}/varz", timeout=10) as answer:
            return dict(json.loads(answer.read()))

    before = varz()
    reload(server, "ping_max: 4\nmax_connections: 77\n")
    after = varz()

    assert before["config_load_time"] == before["start"] == after["start"]
    assert str(after["config_load_time"]) > str(before["config_load_time"])
    assert after["config_digest"] != before["config_digest"]
    assert f"({after['config_digest']})" in server.log
    assert (after["ping_max"], after["max_connections"]) == (4, 77)


# -- traffic ------------------------------------------------------------------------------------------

BEFORE = """
accounts {
  A {
    users: [{user: a, password: p}, {user: goes, password: p}]
    exports: [{stream: news.>}, {service: svc}]
  }
  B {
    users: [{user: b, password: p}]
    imports: [{stream: {account: A, subject: news.>}}, {service: {account: A, subject: svc}}]
  }
  C { users: [{user: c, password: p}] }
}
"""
AFTER = """
max_payload: 5000
max_control_line: 2048
accounts {
  A {
    users: [{user: a, password: p}, {user: new, password: p, permissions: {publish: [x]}}]
    exports: [{stream: news.>}, {service: svc, response_threshold: "3s"}, {stream: more.>}]
    limits: {max_connections: 50}
  }
  B {
    users: [{user: b, password: p}]
    imports: [
      {stream: {account: A, subject: more.>}}
      {service: {account: A, subject: svc}}
      {stream: {account: A, subject: news.>}}
    ]
  }
  D { users: [{user: d, password: p}] }
}
"""


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_traffic_that_stays_allowed_loses_nothing(
    serve: Callable[..., ServerProcess], program: Program
) -> None:
    server = serve(config=BEFORE, program=program)
    lost: list[str] = []

    def reload_often() -> None:
        for number in range(12):
            reload(server, (AFTER, BEFORE)[number % 2] + f"\nping_max: {number + 3}\n")

    async def client(user: str) -> nats.NATS:
        async def closed() -> None:
            lost.append(user)

        connection: nats.NATS = await nats.connect(
            server.url, user=user, password="p", allow_reconnect=False, disconnected_cb=closed
        )
        return connection

    async def traffic() -> None:
        a, b, goes, c = [await client(user) for user in ("a", "b", "goes", "c")]
        heard: list[int] = []

        async def hear(message: object) -> None:
            heard.append(int(message.data))  # type: ignore[attr-defined]

        async def answer(message: object) -> None:
            await message.respond(message.data)  # type: ignore[attr-defined]

        await b.subscribe("news.>", cb=hear)
        await a.subscribe("svc", cb=answer)
        await asyncio.gather(a.flush(), b.flush())
        reloads = asyncio.create_task(asyncio.to_thread(reload_often))
        published = 0
        while not reloads.done() or published < 1000:
            for _ in range(50):
                await a.publish(f"news.{published % 7}", b"%d" % published)
                published += 1
            asked = b"%d" % published
            assert (await b.request("svc", asked, timeout=PATIENCE)).data == asked
        await reloads
        await asyncio.gather(a.flush(), b.flush())
        assert heard == list(range(published))
        assert sorted(lost) == ["c", "goes"]
        await asyncio.gather(a.close(), b.close(), goes.close(), c.close())

    asyncio.run(traffic())
    assert "Traceback" not in server.log
