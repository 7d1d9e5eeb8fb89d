"""Monitoring that not everybody may read: over TLS, and with a user and password or a token."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import threading
import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession, ClientSSLError
from monitor_samples import SampleSource
from msgspec.structs import replace

from harness.certificates import Authority
from headrace.conf.options import MonitorAuthorization, Options
from headrace.conf.tls_options import TLSOptions
from headrace.errors import StartError
from headrace.server import passwords
from headrace.server.monitor.access import Guard
from headrace.server.monitor.listener import start_monitor
from headrace.server.reload import change_options
from headrace.server.server import Server

if TYPE_CHECKING:
    from pathlib import Path

HASH = "$2a$04$abcdefghijklmnopqrstuuVCBXHHrUT343LijgO78P7iXRt4cI2TC"  # of s3cr3t-bcrypt
PERSON = MonitorAuthorization(user="ops", password="päss:word")
HASHED = MonitorAuthorization(user="ops", password=HASH)
TOKEN = MonitorAuthorization(token="t0k3n")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def permits(authorization: MonitorAuthorization, *headers: str) -> list[bool]:
    async def ask() -> list[bool]:
        guard = Guard(authorization)
        return [await guard.permits(header) for header in headers]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("authorization", "header"),
    [
        (PERSON, basic("ops", "päss:word")),
        (PERSON, basic("ops", "päss:word").replace("Basic", "basic")),
        (HASHED, basic("ops", "s3cr3t-bcrypt")),
        (TOKEN, "Bearer t0k3n"),
        (TOKEN, "bearer   t0k3n "),
        (MonitorAuthorization(token=HASH), "Bearer s3cr3t-bcrypt"),
    ],
)
def test_right_header_is_permitted(authorization: MonitorAuthorization, header: str) -> None:
    assert permits(authorization, header, header) == [True, True]


@pytest.mark.parametrize(
    ("authorization", "header"),
    [
        *((PERSON, header) for header in ("", "Basic", "Basic !", "Basic dQ==", "Basic /w==", "Bearer x")),
        (PERSON, basic("ops", "wrong")),
        (PERSON, basic("ops", "")),
        (PERSON, basic("Ops", "päss:word")),
        (PERSON, basic("", "päss:word")),
        (PERSON, "Bearer päss:word"),
        (HASHED, basic("ops", HASH)),
        (HASHED, basic("ops", "wrong")),
        (HASHED, basic("ops", "s3cr3t-bcrypt\0")),
        (HASHED, basic("wrong", "s3cr3t-bcrypt")),
        (TOKEN, "t0k3n"),
        (TOKEN, "Bearer"),
        (TOKEN, "Bearer "),
        (TOKEN, "Bearer T0k3n"),
        (TOKEN, "Basic t0k3n"),
        (TOKEN, basic("t0k3n", "t0k3n")),
        (TOKEN, "Bearer \udcff"),
    ],
)
def test_wrong_header_is_not(authorization: MonitorAuthorization, header: str) -> None:
    assert permits(authorization, header) == [False]


def test_hash_is_checked_once_for_a_header_that_was_right(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def matches(stored: str, given: str, check=passwords.matches) -> bool:  # type: ignore[no-untyped-def]
        asked.append(stored)
        return bool(check(stored, given))

    monkeypatch.setattr(passwords, "matches", matches)
    right, wrong = basic("ops", "s3cr3t-bcrypt"), basic("ops", "wrong")
    assert permits(HASHED, wrong, right, right, wrong, right) == [False, True, True, False, True]
    assert asked.count(HASH) == 3


def test_secrets_are_not_in_a_repr() -> None:
    for authorization in (PERSON, HASHED, TOKEN):
        text = (
            repr(authorization) + repr(Options(http_authorization=authorization)) + repr(Guard(authorization))
        )
        assert not any(secret in text for secret in ("päss", HASH, "t0k3n"))


PATHS = ("/", "/varz", "/connz", "/healthz", "/metrics", "/nope", "/varz?x=1")


@pytest.mark.parametrize(("authorization", "challenge"), [(PERSON, "Basic"), (TOKEN, "Bearer")])
def test_every_path_is_guarded_whatever_the_method(
    authorization: MonitorAuthorization, challenge: str
) -> None:
    refused: list[str] = []

    def report(text: str, address: str) -> None:
        assert text == f"Monitoring authentication error from {address}"
        refused.append(address)

    async def main() -> None:
        monitor = await start_monitor(
            SampleSource(), "127.0.0.1", 0, authorization=authorization, report=report
        )
        base = f"http://127.0.0.1:{monitor.port}"
        try:
            async with ClientSession() as session:
                for path in PATHS:
                    for method in ("GET", "POST", "OPTIONS"):
                        async with session.request(method, base + path) as got:
                            assert (got.status, await got.text()) == (401, "401 unauthorized\n"), path
                            assert got.headers["WWW-Authenticate"] == f'{challenge} realm="monitoring"'
                assert refused == []
                wrong = {"Authorization": f"{challenge} wrong"}
                async with session.get(base + "/varz", headers=wrong) as got:
                    assert got.status == 401
                right = "Bearer t0k3n" if authorization.token else basic("ops", "päss:word")
                for path, status in (("/varz", 200), ("/nope", 404)):
                    async with session.get(base + path, headers={"Authorization": right}) as got:
                        assert got.status == status
        finally:
            await monitor.close()

    asyncio.run(main())
    assert refused == ["127.0.0.1"]


def test_server_says_who_was_refused_and_never_what_was_given(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        options = Options(host="127.0.0.1", port=-1, http_port=-1, http_authorization=TOKEN)
        async with Server(options) as server, ClientSession() as session:
            for given in ("Bearer SECRET-one", "Basic SECRET-two"):
                async with session.get(f"{server.monitor_url}/varz", headers={"Authorization": given}) as got:
                    assert got.status == 401

    with caplog.at_level(logging.DEBUG, "headrace.server"):
        asyncio.run(main())
    said = [record.getMessage() for record in caplog.records]
    assert said.count("Monitoring authentication error from 127.0.0.1") == 2
    assert "SECRET" not in "".join(said)
    assert "t0k3n" not in "".join(said)


# -- TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "monitor")


def served_over_tls(authority: Authority, *, verify: bool = False, name: str = "server") -> Options:
    pair = authority.issue(name)
    tls = TLSOptions(str(pair.certificate), str(pair.key), ca_file=str(authority.file), verify=verify)
    return Options(host="127.0.0.1", port=-1, https_port=-1, tls=tls)


@pytest.mark.parametrize("verify", [False, True])
def test_https_needs_no_certificate_of_the_reader(authority: Authority, verify: bool) -> None:
    async def main() -> tuple[str, dict[str, object]]:
        async with Server(served_over_tls(authority, verify=verify)) as server, ClientSession() as session:
            assert server.monitor_url is not None
            async with session.get(f"{server.monitor_url}/varz", ssl=authority.client_context()) as got:
                return server.monitor_url, await got.json()

    url, document = asyncio.run(main())
    assert url.startswith("https://127.0.0.1:")
    assert document["https_port"] == int(url.rpartition(":")[2])
    assert document["http_port"] == 0


def test_https_speaks_no_plain_http(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> bytes:
        async with Server(served_over_tls(authority)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor_port)
            writer.write(b"GET /varz HTTP/1.0\r\n\r\n")
            try:
                return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    assert b"server_id" not in asyncio.run(main())
    line = r"monitoring: TLS handshake error from 127\.0\.0\.1:\d+: first record does not look like"
    assert [record for record in caplog.records if re.match(line, record.getMessage())]


def test_new_certificate_is_used_for_new_connections(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")

    async def main() -> None:
        async with Server(served_over_tls(authority)) as server:
            async with ClientSession() as session:
                url = f"{server.monitor_url}/healthz"
                async with session.get(url, ssl=authority.client_context()) as got:
                    assert got.status == 200
            assert server.options.tls is not None
            pair = other.issue("renewed")
            renewed = replace(server.options.tls, cert_file=str(pair.certificate), key_file=str(pair.key))
            change_options(server, replace(server.options, tls=renewed))
            async with ClientSession() as session:
                async with session.get(url, ssl=other.client_context()) as got:
                    assert got.status == 200
                with pytest.raises(ClientSSLError):
                    await session.get(url, ssl=authority.client_context())

    asyncio.run(main())


def test_https_without_tls_ends_the_start() -> None:
    async def main() -> None:
        async with Server(Options(host="127.0.0.1", port=-1, https_port=-1)):
            pass

    with pytest.raises(StartError, match="TLS cert and key required for HTTPS"):
        asyncio.run(main())


def test_hashes_are_checked_off_the_loop_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = threading.Lock()
    where = set()

    def matches(stored: str, given: str) -> bool:
        assert busy.acquire(blocking=False)
        where.add(threading.current_thread())
        time.sleep(0.005)
        busy.release()
        return False

    monkeypatch.setattr(passwords, "matches", matches)

    async def main() -> list[bool]:
        guard = Guard(MonitorAuthorization(token=HASH))
        return await asyncio.gather(*(guard.permits(f"Bearer {number}") for number in range(20)))

    assert asyncio.run(main()) == [False] * 20
    assert threading.main_thread() not in where
