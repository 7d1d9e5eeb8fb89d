"""A service over a connection to a scripted server: batches, writes, hostile input, reconnects."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from scripted_server import Keeper, Peer, ScriptedServer, scenario, until

from harness.certificates import Authority
from headrace.attached import connection, host
from headrace.attached.connection import AttachedConnection, Login
from headrace.attached.host import RemoteHost
from headrace.attached.identity import AttachedIdentity
from headrace.client.address import Credentials, parse_addresses
from headrace.client.errors import ConnectError, ConnectionLostError
from headrace.client.options import ConnectOptions
from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.streaming_options import NATSServerOptions
from headrace.errors import StartError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LOG = logging.getLogger("test-attached")
OPTIONS = ConnectOptions(name="_NSS-test", timeout=0.5, ping_interval=60.0)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(host, "LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(host, "FLUSH_LIMIT", 0.1)


def remote(service: Keeper, url: str, **options: object) -> RemoteHost:
    login = Login(
        OPTIONS._replace(**options),  # type: ignore[arg-type]
        AttachedIdentity(NATSServerOptions(url), AuthorizationOptions()),
        Credentials(user="u", password="p"),
    )
    return RemoteHost(service, parse_addresses(url), login, LOG)


async def answer_ping(peer: Peer) -> list[bytes]:
    """The lines up to the PING that ends a start, which is answered."""
    lines = []
    while (line := await peer.line()) != b"PING":
        lines.append(line)
    peer.say(b"PONG\r\n")
    return lines


@asynccontextmanager
async def attached(
    server: ScriptedServer, service: Keeper, **options: object
) -> AsyncIterator[tuple[RemoteHost, Peer]]:
    """The service at work, and the server's side of its connection."""
    own = remote(service, server.url, **options)
    await own.connect()
    peer = await server.peer()
    _, _ = await asyncio.gather(own.start(), answer_ping(peer))
    try:
        yield own, peer
    finally:
        own.stop()
        closing = asyncio.ensure_future(own.close())
        while not closing.done():
            peer.say(b"PONG\r\n")
            await asyncio.sleep(0.002)
        await closing


# -- messages


@scenario
async def test_connect_says_who_and_how() -> None:
    async with ScriptedServer() as server, attached(server, Keeper()):
        (fields,) = server.connects
        assert (fields["name"], fields["user"], fields["pass"]) == ("_NSS-test", "u", "p")
        assert (fields["echo"], fields["verbose"], fields["headers"]) == (True, False, True)


@scenario
async def test_one_read_is_one_batch_in_order() -> None:
    service = Keeper(b"a", b"b.>")
    async with ScriptedServer() as server, attached(server, service) as (_, peer):
        one, two = service.sids
        peer.say(b"MSG a %d 2\r\nhi\r\nMSG b.x %d reply 0\r\n\r\n" % (one, two))
        await until(lambda: service.batches)
        assert service.batches == [[(one, b"a", b"", b"", b"hi"), (two, b"b.x", b"reply", b"", b"")]]
        peer.say(b"HMSG a %d 12 14\r\nNATS/1.0\r\n\r\nxy\r\n" % one)
        await until(lambda: len(service.batches) == 2)
        assert service.batches[1] == [(one, b"a", b"", b"NATS/1.0\r\n\r\n", b"xy")]


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\r\n", b""], ids=["whole", "cut", "cut in its line"])
def test_who_publishes_is_what_nobody_can_say_of_himself(end: bytes) -> None:
    """The server passes on what a publisher has written, and what it says itself of those who import."""
    said = b'NATS/1.0\r\nNats-Request-Info: {"acc":"A","user":"x"}' + end

    async def run() -> None:
        service = Keeper(b"a")
        async with ScriptedServer() as server, attached(server, service) as (own, peer):
            sids = own.subscribe(b"b", named=True), own.subscribe(b"c")
            for sid in sids:
                peer.say(b"HMSG b %d %d %d\r\n%b\r\n" % (sid, len(said), len(said), said))
            peer.say(b"MSG a 1 0\r\n\r\n")
            await until(lambda: any(one.sid == 1 for batch in service.batches for one in batch))
            got = {one.sid: one.headers for batch in service.batches for one in batch}
            assert b"Request-Info" not in got[sids[0]]
            assert got[sids[1]] == said

    scenario(run)()


@scenario
async def test_a_message_in_pieces_is_one_delivery() -> None:
    service = Keeper(b"a")
    async with ScriptedServer() as server, attached(server, service) as (_, peer):
        for byte in b"MSG a 1 3\r\nabc\r\n":
            peer.say(bytes([byte]))
            await peer.writer.drain()
            await asyncio.sleep(0)
        await until(lambda: service.batches)
        assert service.batches == [[(1, b"a", b"", b"", b"abc")]]


@scenario
async def test_what_is_published_in_one_turn_leaves_in_one_write() -> None:
    writes: list[bytes] = []
    async with ScriptedServer() as server, attached(server, Keeper()) as (own, peer):
        assert own._connection is not None
        real = own._connection.write
        own._connection.write = lambda data: (writes.append(data), real(data))[1]  # type: ignore[method-assign]
        own.publish(b"a", b"1")
        own.publish(b"b", b"2", reply=b"r")
        own.publish(b"c", b"3", headers=b"NATS/1.0\r\n\r\n")
        sid = own.subscribe(b"s.*", b"q")
        own.unsubscribe(sid)
        own.unsubscribe(sid)  # known no more
        expected = b"PUB a 1\r\n1\r\nPUB b r 1\r\n2\r\nHPUB c 12 13\r\nNATS/1.0\r\n\r\n3\r\n"
        expected += b"SUB s.* q %d\r\nUNSUB %d\r\n" % (sid, sid)
        await until(lambda: writes)
        assert writes == [expected]
        assert await asyncio.wait_for(peer.reader.readexactly(len(expected)), 5) == expected


@scenario
async def test_what_cannot_be_published_is_dropped() -> None:
    async with ScriptedServer() as server, attached(server, Keeper()) as (own, peer):
        own.publish(b"a", b"x" * 1025)  # more than max_payload
        own.publish(b"a b", b"1")
        own.publish(b"a", b"1", reply=b"x\r\nPUB")
        with pytest.raises(ValueError, match="not a subject"):
            own.subscribe(b"a..b")
        own.publish(b"a", b"last")
        assert await peer.lines(2) == [b"PUB a 4", b"last"]


@scenario
async def test_nobody_listens_is_not_a_message() -> None:
    service = Keeper(b"a")
    async with ScriptedServer() as server, attached(server, service) as (_, peer):
        peer.say(b"HMSG a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\nMSG a 1 1\r\nx\r\n")
        await until(lambda: service.batches)
        assert service.batches == [[(1, b"a", b"", b"", b"x")]]


@scenario
async def test_a_mistake_of_the_service_ends_nothing() -> None:
    service = Keeper(b"a")
    async with ScriptedServer() as server, attached(server, service) as (_, peer):
        service.on_batch = lambda: 1 / 0
        peer.say(b"MSG a 1 1\r\nx\r\n")
        await until(lambda: service.batches)
        service.on_batch = lambda: None
        peer.say(b"MSG a 1 1\r\ny\r\n")
        await until(lambda: len(service.batches) == 2)


@scenario
async def test_pings_are_answered_and_silence_ends_the_connection() -> None:
    service = Keeper()
    async with ScriptedServer() as server, attached(server, service, ping_interval=0.05) as (_, peer):
        peer.say(b"PING\r\n")
        await peer.until(b"PONG")
        await peer.until(b"PING")
        await peer.until(b"PING")
        await peer.ended()  # two were not answered
        again = await server.peer()
        await again.until(b"PING")


# -- questions


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(b"MSG %b %b 0\r\n\r\n", True), (b"HMSG %b %b 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", False), (b"", False)],
    ids=["answered", "nobody listens", "silence"],
)
def test_a_question_has_one_answer(answer: bytes, expected: bool) -> None:
    @scenario
    async def run() -> None:
        service = Keeper()
        async with ScriptedServer() as server, attached(server, service) as (own, peer):
            asked = asyncio.ensure_future(own.ask(b"who", b"?", 0.05 if not answer else 5.0))
            _, inbox, sid = (await peer.until(b"SUB")).split()
            assert await peer.lines(2) == [b"PUB who %b 1" % inbox, b"?"]
            if answer:
                peer.say(answer % (inbox, sid))
            assert await asked is expected
            await peer.until(b"UNSUB %b" % sid)
            peer.say(b"MSG %b %b 0\r\n\r\n" % (inbox, sid))  # another one, late
            peer.say(b"PING\r\n")
            await peer.until(b"PONG")

    run()


# -- connecting


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "nats: no servers available .*: unknown operation|not the NATS"),
        (b"PING\r\n", "does not greet like a NATS server"),
        (b"INFO {nonsense}\r\n", "does not speak NATS"),
        (b"-ERR 'maximum connections exceeded'\r\n", "nats: maximum connections exceeded"),
        (b"INFO {}\r\n-ERR 'Authorization Violation'\r\n", "nats: Authorization Violation"),
        (b"", "did not answer in time"),
        (None, "EOF"),
    ],
)
def test_a_start_that_fails_says_why(greeting: bytes | None, reason: str) -> None:
    @scenario
    async def run() -> None:
        async with ScriptedServer(greets=False) as server:
            own = remote(Keeper(), server.url, timeout=0.2)
            connecting = asyncio.ensure_future(own.connect())
            peer = await server.peer()
            if greeting is None:
                peer.writer.close()
            else:
                peer.say(greeting)
            with pytest.raises(StartError, match=reason):
                await connecting
            await own.close()

    run()


@scenario
async def test_the_first_server_that_is_there_is_taken() -> None:
    async with ScriptedServer() as server:
        own = remote(Keeper(), f"nats://127.0.0.1:1,{server.url}")
        await own.connect()
        await server.peer()
        await asyncio.gather(own.close(), return_exceptions=True)


@scenario
async def test_a_connection_that_ends_during_the_start_is_an_error() -> None:
    async with ScriptedServer() as server:
        own = remote(Keeper(b"a"), server.url)
        await own.connect()
        peer = await server.peer()
        starting = asyncio.ensure_future(own.start())
        await peer.until(b"SUB a")
        peer.writer.close()
        with pytest.raises(ConnectionLostError):
            await starting
        own.stop()
        await own.close()


# -- and again


@scenario
async def test_after_a_loss_everything_is_subscribed_again() -> None:
    service = Keeper(b"a", b"gone", b"b.>")
    async with ScriptedServer() as server, attached(server, service) as (own, peer):
        own.unsubscribe(service.sids[1])
        await peer.until(b"UNSUB")
        peer.writer.close()
        again = await server.peer()
        assert await answer_ping(again) == [b"SUB a 1", b"SUB b.> 3"]
        own.publish(b"x", b"1")
        assert await again.lines(2) == [b"PUB x 1", b"1"]
        again.say(b"MSG a 1 1\r\nx\r\n")
        await until(lambda: service.batches)


def test_it_comes_back_however_long_it_takes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    @scenario
    async def run() -> None:
        service = Keeper(b"a")
        async with ScriptedServer() as server, attached(server, service) as (own, _):
            port = server.port
            await server.stop()
            await until(lambda: own._connection is None)
            own.publish(b"lost", b"1")  # nobody hears it
            new = own.subscribe(b"new")
            await asyncio.sleep(0.05)  # some attempts fail
            await server.listen(port)
            again = await server.peer()
            assert await answer_ping(again) == [b"SUB a 1", b"SUB new %d" % new]
            again.say(b"PING\r\n")
            assert await again.line() == b"PONG"

    run()
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0] == 'STREAM: connection "_NSS-test" has been disconnected: EOF'
    assert sum("not back yet" in text for text in texts) == 1  # the same reason is said once
    assert any(text.startswith('STREAM: connection "_NSS-test" reconnected to NATS') for text in texts)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"MSG a\r\n", "wrong number of arguments"),
        (b"MSG a 1 999999999\r\n", "more than"),
        (b"\x00\xff\r\n", "unknown operation"),
        (b"INFO []\r\n", "not a JSON object"),
        (b"-ERR 'Stale Connection'\r\n", "Stale Connection"),
    ],
)
def test_what_is_not_the_protocol_ends_the_connection(
    said: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    @scenario
    async def run() -> None:
        service = Keeper(b"a")
        async with ScriptedServer() as server, attached(server, service) as (_, peer):
            peer.say(b"MSG a 1 1\r\nx\r\n" + said)
            if said.startswith(b"-ERR"):
                peer.writer.close()
            else:
                await peer.ended()
            again = await server.peer()
            await again.until(b"SUB a 1")
            assert service.batches == [[(1, b"a", b"", b"", b"x")]]

    run()
    assert reason in caplog.text


def test_a_refusal_that_is_not_the_end_is_said(caplog: pytest.LogCaptureFixture) -> None:
    @scenario
    async def run() -> None:
        async with ScriptedServer() as server, attached(server, Keeper(b"a")) as (_, peer):
            peer.say(b"-ERR 'Permissions Violation for Subscription to \"a\"'\r\nPING\r\n")
            await peer.until(b"PONG")

    run()
    assert 'asynchronous error on connection "_NSS-test": Permissions Violation' in caplog.text


@scenario
async def test_a_server_that_takes_nothing_is_given_up() -> None:
    service = Keeper()
    async with ScriptedServer(info={"max_payload": 1 << 20}) as server:
        limit, connection.MAX_PENDING = connection.MAX_PENDING, 1 << 20  # type: ignore[misc]
        try:
            async with attached(server, service) as (own, peer):
                peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
                first = own._connection
                while own._connection is first:
                    own.publish(b"a", b"x" * 500_000)
                    await asyncio.sleep(0)
                await server.peer()
        finally:
            connection.MAX_PENDING = limit  # type: ignore[misc]


class DeadTransport(asyncio.Transport):
    """Takes everything and brings nothing."""

    def write(self, data: object) -> None:
        self.last = data

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.last = b""


@scenario
async def test_a_connection_that_ends_behind_its_pong_is_not_taken() -> None:
    lost: list[str] = []
    login = remote(Keeper(), "nats://h:1")._login
    (address,) = parse_addresses("nats://h:1")
    own = AttachedConnection(
        address, login, receive=print, lost=lambda _one, why: lost.append(why), said=print
    )
    own._connect = lambda: asyncio.sleep(0)  # type: ignore[method-assign]
    own.connection_made(DeadTransport())
    own.data_received(b"INFO {}\r\n")
    opening = asyncio.ensure_future(own.open())
    while own._waiting is None:  # noqa: ASYNC110 - nothing says when
        await asyncio.sleep(0)  # until CONNECT was sent

    own.data_received(b"PONG\r\n")
    own.eof_received()
    own.connection_lost(None)

    with pytest.raises(ConnectError, match="EOF"):
        await opening
    assert lost == []  # it never was one


@pytest.mark.parametrize("first", [False, True])
def test_tls_before_or_behind_the_first_line_of_the_server(tmp_path: Path, first: bool) -> None:
    authority = Authority(tmp_path, "trusted")
    pair = authority.issue("server")
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(pair.certificate, pair.key)
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not first:
            writer.write(b'INFO {"tls_required":true}\r\n')
            await writer.start_tls(served)
        else:
            writer.write(b"INFO {}\r\n")  # it comes with the end of the TLS handshake
        heard.append(await reader.readline())
        heard.append(await reader.readline())
        writer.write(b"PONG\r\n")

    @scenario
    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=served if first else None)
        port = server.sockets[0].getsockname()[1]
        trusted = ssl.create_default_context(cafile=str(authority.file))
        own = remote(Keeper(), f"tls://127.0.0.1:{port}", tls=trusted, tls_first=first)
        await own.connect()
        assert heard[0].startswith(b"CONNECT {")
        assert heard[1] == b"PING\r\n"
        own.stop()
        await own.close()
        server.close()

    run()


@scenario
async def test_servers_of_its_cluster_are_tried_too() -> None:
    service = Keeper(b"a")
    async with ScriptedServer() as second:
        urls = [f"127.0.0.1:{second.port}", "not a url at all:x"]
        async with ScriptedServer(info={"connect_urls": urls}) as first, attached(first, service):
            await first.stop()
            again = await second.peer()
            await again.until(b"SUB a 1")


@scenario
async def test_nothing_happens_after_the_stop() -> None:
    service = Keeper(b"a")
    async with ScriptedServer() as server, attached(server, service) as (own, peer):
        called: list[int] = []
        own.call_later(0.01, lambda: called.append(1))
        own.stop()
        peer.say(b"MSG a 1 1\r\nx\r\n")
        own.publish(b"last", b"words")
        await peer.until(b"words")
        await asyncio.sleep(0.03)
        assert (called, service.batches, service.is_stopped) == ([], [], True)
