"""WebSocket with independent clients: nats-py over aiohttp, and the websockets package's own client."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import nats.errors
import pytest
import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatus

from harness.certificates import tls_config
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg

    from clients.conftest import Clients
    from harness.certificates import Authority
    from harness.processes import ServerProcess

# nats-py tells aiohttp how long to wait in a way that it calls old; as an error it would be no connection.
pytestmark = pytest.mark.filterwarnings("ignore:parameter 'timeout' of type 'float':DeprecationWarning")

CONNECT = b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n'


def block(*lines: str) -> str:
    return 'websocket {\n  listen: "127.0.0.1:-1"\n  ' + "\n  ".join(lines) + "\n}\n"


def url_of(server: ServerProcess) -> str:
    found = server.wait_for_line(r"Listening for websocket clients on (wss?)://\S+:(\d+)")
    name = "localhost" if found[1] == "wss" else "127.0.0.1"
    return f"{found[1]}://{name}:{found[2]}"


async def converse(client: Any) -> None:
    """One large message to itself."""
    subscription = await client.subscribe("ws")
    payload = bytes(range(256)) * 1000
    await client.publish("ws", payload)
    assert (await subscription.next_msg(timeout=PATIENCE)).data == payload


async def test_nats_py_over_websocket(any_server: Callable[..., ServerProcess], connect: Clients) -> None:
    server = any_server(block("no_tls: true"))

    await converse(await connect(url_of(server)))


async def test_nats_py_over_encrypted_websocket(
    any_server: Callable[..., ServerProcess], connect: Clients, authority: Authority
) -> None:
    server = any_server(block(tls_config(authority.issue("server"))))

    await converse(await connect(url_of(server), tls=authority.client_context()))


async def test_clients_of_both_ports_talk_to_each_other(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(block("no_tls: true", "compression: true"))
    inside, outside = await connect(server), await connect(url_of(server))

    async def answer(message: Any) -> None:
        await message.respond(message.data.upper())

    await inside.subscribe("upper", cb=answer)
    await inside.flush()
    assert (await asked(outside, "upper", b"hello")).data == b"HELLO"


async def asked(client: Client, subject: str, payload: bytes) -> Msg:
    """The answer to a request, asked again where nats-server says that nobody listens although one does."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return await client.request(subject, payload, timeout=PATIENCE)
        except nats.errors.NoRespondersError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.05)


async def test_info_and_monitoring_know_the_kind_of_client(any_server: Callable[..., ServerProcess]) -> None:
    server = any_server(block("no_tls: true"), "-m", "-1")
    async with websockets.connect(url_of(server)) as client:
        info = json.loads((await client.recv(decode=False))[5:])
        await client.send(CONNECT)
        assert (await client.recv(decode=False)).startswith(b"PONG\r\n")

        assert info["port"] == int(url_of(server).rpartition(":")[2])
        assert info["client_ip"] == "127.0.0.1"
        assert "tls_required" not in info
        (shown,) = fetch(server, "connz")["connections"]
        assert (shown["kind"], shown["type"]) == ("Client", "websocket")
        websocket = fetch(server, "varz")["websocket"]
        assert websocket == {"host": "127.0.0.1", "port": info["port"], "no_tls": True}


def fetch(server: ServerProcess, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.monitor_url}/{path}") as answer:
        document: dict[str, Any] = json.load(answer)
    return document


async def test_compressed_messages_of_any_size(any_server: Callable[..., ServerProcess]) -> None:
    server = any_server(block("no_tls: true", "compression: true"))
    for size in (10, 100, 100_000):
        payload = (b"0123456789" * (size // 10 + 1))[:size]
        async with websockets.connect(url_of(server), max_size=None) as client:
            assert client.protocol.extensions
            await client.send(CONNECT + b"SUB a 1\r\nPUB a %d\r\n%b\r\nPING\r\n" % (size, payload))
            heard = b""
            while not heard.endswith(b"\r\nPONG\r\n"):
                heard += await client.recv(decode=False)
            assert heard.endswith(b"MSG a 1 %d\r\n%b\r\nPONG\r\n" % (size, payload))


async def test_message_in_fragments_and_a_ping_between(any_server: Callable[..., ServerProcess]) -> None:
    server = any_server(block("no_tls: true"))
    async with websockets.connect(url_of(server)) as client:
        await client.recv()

        async def pieces() -> Any:
            yield CONNECT[:10]
            await (await client.ping())
            yield CONNECT[10:]

        await client.send(pieces())
        assert (await client.recv(decode=False)).startswith(b"PONG\r\n")


async def test_origins(any_server: Callable[..., ServerProcess]) -> None:
    server = any_server(block("no_tls: true", 'allowed_origins: ["http://good.example"]'))
    url = url_of(server)
    async with websockets.connect(url, origin="http://good.example"):  # type: ignore[arg-type]
        pass
    async with websockets.connect(url):
        pass
    with pytest.raises(InvalidStatus) as refused:
        async with websockets.connect(url, origin="http://evil.example"):  # type: ignore[arg-type]
            pass
    assert refused.value.response.status_code == 403


async def test_response_has_configured_headers(any_server: Callable[..., ServerProcess]) -> None:
    server = any_server(block("no_tls: true", 'headers { X-One: "1" }'))
    async with websockets.connect(url_of(server)) as client:
        assert client.response is not None
        assert client.response.headers["X-One"] == "1"


USERS = "authorization { users: [{user: joe, password: secret}, {user: guest, password: g}] }\n"


COOKIES = [
    ("u=joe; p=secret", b"{}", True),
    ("u=joe; p=wrong", b"{}", False),
    ("u=joe", b'{"pass":"secret"}', True),
    ("u=joe; p=secret", b'{"user":"guest"}', False),
    ("u=joe; p=wrong", b'{"user":"joe","pass":"secret"}', True),
    ("u2=joe; p=secret", b"{}", False),
]


async def test_cookies_complete_the_credentials(any_server: Callable[..., ServerProcess]) -> None:
    server = any_server(USERS + block("no_tls: true", "user_cookie: u", "pass_cookie: p"))
    for cookie, connect, is_let_in in COOKIES:
        assert await lets_in(server, connect, Cookie=cookie) is is_let_in, (cookie, connect)


async def test_token_cookie(any_server: Callable[..., ServerProcess]) -> None:
    server = any_server("authorization { token: t0k }\n" + block("no_tls: true", "token_cookie: t"))
    assert await lets_in(server, b"{}", Cookie='t="t0k"')
    assert not await lets_in(server, b"{}", Cookie="t=t0")


async def lets_in(server: ServerProcess, connect: bytes, **headers: str) -> bool:
    async with websockets.connect(url_of(server), additional_headers=headers) as client:
        await client.recv()
        await client.send(b"CONNECT " + connect + b"\r\nPING\r\n")
        heard = b""
        code = 0
        try:
            while not heard.endswith(b"PONG\r\n"):
                heard += await client.recv(decode=False)
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else 0
    assert code in (0, 1008)
    assert (code == 1008) == (b"-ERR 'Authorization Violation'" in heard)
    return code == 0


async def test_guests_over_websocket_only(any_server: Callable[..., ServerProcess], connect: Clients) -> None:
    server = any_server(USERS + block("no_tls: true", "no_auth_user: guest"))

    assert await lets_in(server, b"{}")
    with pytest.raises(nats.errors.Error):
        await connect(server)


LOGINS = [
    (b'{"user":"w","pass":"p"}', True),
    (b'{"user":"w","pass":"q"}', False),
    (b'{"user":"joe","pass":"secret"}', False),
    (b"{}", False),
]


@pytest.mark.parametrize(
    "others", ["", "authorization { user: joe, password: secret }\n"], ids=["open", "user"]
)
async def test_user_of_the_block(any_server: Callable[..., ServerProcess], others: str) -> None:
    server = any_server(others + block("no_tls: true", "authorization { user: w, password: p }"))
    for connect, is_let_in in LOGINS:
        assert await lets_in(server, connect) is is_let_in, connect


async def test_pings_of_their_own_interval(any_server: Callable[..., ServerProcess]) -> None:
    server = any_server(block("no_tls: true", 'ping_interval: "100ms"') + "ping_max: 100\n")
    async with websockets.connect(url_of(server)) as client:
        await client.recv()
        await client.send(b'CONNECT {"verbose":false}\r\n')
        for _ in range(3):
            assert await client.recv(decode=False) == b"PING\r\n"
            await client.send(b"PONG\r\n")
