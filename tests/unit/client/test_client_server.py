"""The blocking client against the Go server: what only a real server can show."""

from __future__ import annotations

import ssl
import threading
from typing import TYPE_CHECKING

import pytest

from harness.certificates import Authority
from harness.waiting import PATIENCE
from headrace.client.address import Credentials
from headrace.client.blocking import connect
from headrace.client.errors import (
    ClientError,
    ConnectError,
    ConnectionLostError,
    MaxPayloadError,
    NoRespondersError,
    ServerError,
)
from headrace.client.options import ConnectOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import GoServer
    from headrace.client.blocking import Connection

    Start = Callable[..., GoServer]

pytestmark = pytest.mark.clients


def test_publish_and_receive_many_gives_all_in_order(go_server: Start) -> None:
    with connect(go_server().url) as nc:
        nc.subscribe("a.>")
        nc.flush()
        for number in range(50_000):
            nc.publish("a.b", b"%d" % number, headers={"N": str(number)} if number % 1000 == 0 else None)
        nc.flush()
        batch = nc.receive(5)
        while len(batch) < 50_000:
            batch.extend(nc.receive(5))
        assert batch.payloads == [b"%d" % number for number in range(50_000)]
        assert sum(block is not None for block in batch.header_blocks()) == 50


def test_queue_group_two_members_share_the_messages(go_server: Start) -> None:
    url = go_server().url
    with connect(url) as one, connect(url) as two, connect(url) as publisher:
        for member in (one, two):
            member.subscribe("work", queue="q")
            member.flush()
        for _ in range(200):
            publisher.publish("work")
        publisher.flush()
        counts = []
        for member in (one, two):
            member.flush()
            counts.append(len(member.receive(0)))
        assert sum(counts) == 200
        assert min(counts) > 0


def test_request_and_reply_and_no_responders(go_server: Start) -> None:
    url = go_server().url
    with connect(url) as service, connect(url) as nc:
        with pytest.raises(NoRespondersError):
            nc.request("echo", b"x", timeout=PATIENCE)
        service.subscribe("echo")
        service.flush()

        def serve() -> None:
            message = next(service.messages(5))
            assert message.reply is not None
            service.publish(message.reply, message.data.upper())
            service.flush()

        thread = threading.Thread(target=serve)
        thread.start()
        assert nc.request("echo", b"x", timeout=PATIENCE).data == b"X"
        thread.join()


def test_unsubscribe_stops_the_messages(go_server: Start) -> None:
    with connect(go_server().url) as nc:
        sid = nc.subscribe("a")
        nc.publish("a", b"1")
        nc.unsubscribe(sid)
        nc.publish("a", b"2")
        nc.flush()
        assert nc.receive(0.05).payloads == [b"1"]


@pytest.mark.parametrize(
    ("flags", "good"),
    [
        (("--user", "u", "--pass", "p w"), Credentials("u", "p w")),
        (("--auth", "tok"), Credentials(token="tok")),
    ],
)
def test_connect_credentials_right_and_wrong(
    go_server: Start, flags: tuple[str, ...], good: Credentials
) -> None:
    url = go_server(*flags).url
    with connect(url, ConnectOptions(credentials=good)) as nc:
        nc.flush()
    for wrong in (None, Credentials("x", "y"), Credentials(token="z")):
        with pytest.raises(ServerError, match="Authorization Violation") as caught:
            connect(url, ConnectOptions(credentials=wrong))
        assert caught.value.fatal


def test_connect_nobody_listening_names_every_server() -> None:
    with pytest.raises(ConnectError, match=r"nats://127\.0\.0\.1:1: .*; .*nats://127\.0\.0\.1:2: "):
        connect("nats://127.0.0.1:1,nats://127.0.0.1:2")


def test_connect_first_server_down_takes_the_second(go_server: Start) -> None:
    with connect(f"nats://127.0.0.1:1,{go_server().url}") as nc:
        nc.flush()


def test_connect_to_http_port_says_it_is_no_nats_server(go_server: Start) -> None:
    monitor = go_server().monitor_url.removeprefix("http://")
    with pytest.raises(ClientError, match=r"did not answer|does not speak NATS"):
        connect(f"nats://{monitor}", ConnectOptions(timeout=0.3))


def test_connection_server_killed_raises(go_server: Start) -> None:
    server = go_server()
    with connect(server.url) as nc:
        nc.subscribe("a")
        nc.flush()
        server.process.kill()
        with pytest.raises(ConnectionLostError):
            nc.receive(5)


def test_permissions_violation_raises_and_keeps_the_connection(go_server: Start, tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        'authorization { users: [{user: u, password: p, permissions: {publish: "a", subscribe: "a"}}] }'
    )
    server = go_server("-c", str(config))
    with connect(server.url, ConnectOptions(credentials=Credentials("u", "p"))) as nc:
        nc.subscribe("b")
        with pytest.raises(ServerError, match='Permissions Violation for Subscription to "b"'):
            nc.flush()
        nc.subscribe("a")
        nc.publish("a", b"x")
        nc.flush()
        assert nc.receive(1).payloads == [b"x"]


def test_slow_consumer_is_cut_off_with_an_error(go_server: Start, tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text("max_pending: 1MB")
    url = go_server("-c", str(config)).url
    with connect(url) as slow, connect(url) as publisher:
        slow.subscribe("a")
        slow.flush()
        with pytest.raises(ClientError):  # noqa: PT012  # which call notices depends on the buffers between
            for _ in range(64):
                for _ in range(16):
                    publisher.publish("a", b"x" * 60_000)
                publisher.flush()
            while True:
                slow.receive(5)


def test_max_payload_is_the_servers(go_server: Start, tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text("max_payload: 2000")
    with connect(go_server("-c", str(config)).url) as nc:
        assert nc.max_payload == 2000
        nc.publish("a", b"x" * 2000)
        with pytest.raises(MaxPayloadError):
            nc.publish("a", b"x" * 2001)
        nc.flush()


SIZES = [1, 70_000, 0, 1_000_000, 65_535, 65_536, 65_537, 300_000, 300_000, 2, 1_000_000]


def check_sizes(nc: Connection) -> None:
    """Large and small messages, some with headers, a request between them: each comes as it was sent."""
    sent = [(b"%d" % (place % 10) * size, place % 3 == 0) for place, size in enumerate(SIZES)]
    nc.subscribe("big")
    for data, with_headers in sent:
        nc.publish("big", data, headers={"N": "1"} if with_headers else None)
    with pytest.raises(NoRespondersError):
        nc.request("nobody")
    came: list[tuple[bytes, bool]] = []
    while len(came) < len(sent):
        batch = nc.receive(10)
        assert len(batch)
        blocks = [block == b"NATS/1.0\r\nN: 1\r\n\r\n" for block in batch.header_blocks()]
        came += zip(batch.payloads, blocks, strict=True)
    assert came == sent


def test_large_and_small_messages_come_as_they_were_sent(go_server: Start) -> None:
    with connect(go_server().url) as nc:
        check_sizes(nc)


@pytest.mark.parametrize("first", [False, True])
def test_tls_verified_and_refused(go_server: Start, tmp_path: Path, first: bool) -> None:
    authority = Authority(tmp_path, "trusted")
    pair = authority.issue("server")
    config = tmp_path / "tls.conf"
    config.write_text(
        f'tls {{ cert_file: "{pair.certificate}", key_file: "{pair.key}", '
        f"handshake_first: {str(first).lower()} }}"
    )
    url = go_server("-c", str(config)).url.replace("nats://", "tls://")
    trusted = ssl.create_default_context(cafile=str(authority.file))
    with connect(url, ConnectOptions(tls=trusted, tls_first=first)) as nc:
        nc.subscribe("a")
        for _ in range(20_000):
            nc.publish("a", b"x" * 100)
        nc.flush()
        total = 0
        while total < 20_000:
            batch = nc.receive(5)
            assert len(batch)
            total += len(batch)
        check_sizes(nc)
    with pytest.raises(ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        connect(url, ConnectOptions(tls_first=first))


def test_tls_asked_of_a_plain_server_raises(go_server: Start) -> None:
    with pytest.raises(ConnectError, match="does not offer TLS"):
        connect(go_server().url.replace("nats://", "tls://"))
