"""`headrace streaming -ns`: the service as a client of a NATS server elsewhere, ours and the Go one."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from harness.keys import ACCOUNT, OPERATOR, USER, KeyPair, credentials
from harness.ports import free_port
from harness.processes import EPOLL, NATS_SERVER, STREAMING, Program, ServerProcess
from harness.waiting import PATIENCE
from process.streaming_client import READY, Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.certificates import Authority

    Serve = Callable[..., ServerProcess]

BACK = r'STREAM: connection "_NSS-test-cluster-general" reconnected to NATS Server at "nats://127.0.0.1:\d+"'


@pytest.fixture(params=[NATS_SERVER, EPOLL], ids=str)
def nats(request: pytest.FixtureRequest) -> Program:
    return request.param


@pytest.fixture
def attach(serve: Serve) -> Callable[..., ServerProcess]:
    """Starts `headrace streaming` as a client of a NATS server."""

    def start(server: ServerProcess, *arguments: str, **options: object) -> ServerProcess:
        streaming = serve("-ns", server.url, *arguments, program=STREAMING, **options)
        streaming.wait_for_line(READY)
        return streaming

    return start


@pytest.fixture
def join() -> Iterator[Callable[..., Client]]:
    clients: list[Client] = []

    def connect(server: ServerProcess, client_id: bytes, **options: bytes) -> Client:
        clients.append(Client(server, client_id, **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.wire.close()


def test_streaming_serves_over_a_nats_server_elsewhere(
    nats: Program, serve: Serve, attach: Callable[..., ServerProcess], join: Callable[..., Client]
) -> None:
    server = serve(program=nats)
    streaming = attach(server)
    client = join(server, b"me")

    assert [client.publish(b"foo", b"%d" % number) for number in range(3)] == [b""] * 3
    assert client.read(b"foo", 3) == [(1, b"0"), (2, b"1"), (3, b"2")]
    assert not any("Listening for client connections" in line for line in streaming.lines)
    assert streaming.stop() == 0


def test_nats_server_may_be_restarted(
    nats: Program, serve: Serve, attach: Callable[..., ServerProcess], join: Callable[..., Client]
) -> None:
    listen = ("-a", "127.0.0.1", "-p", str(free_port()))
    server = serve(program=nats, listen=listen)
    streaming = attach(server)
    client = join(server, b"me")
    assert client.publish(b"foo", b"before") == b""

    server.kill()
    streaming.wait_for_line(r'\[ERR\] STREAM: connection "_NSS-test-cluster-general" has been disconnected')
    again = serve(program=nats, listen=listen)
    streaming.wait_for_line(BACK)
    other = join(again, b"other")

    assert other.publish(b"foo", b"after") == b""
    assert other.read(b"foo", 2) == [(1, b"before"), (2, b"after")]


def test_monitoring_has_no_listener_beside_it(
    serve: Serve, attach: Callable[..., ServerProcess], join: Callable[..., Client], tmp_path: Path
) -> None:
    server = serve()
    streaming = attach(server, "-m", "-1", "--ports_file_dir", str(tmp_path))
    join(server, b"me").publish(b"foo", b"x")

    def get(path: str) -> dict[str, object]:
        with urllib.request.urlopen(streaming.monitor_url + path, timeout=PATIENCE) as answer:
            return json.load(answer)

    assert get("/streaming/serverz")["state"] == "STANDALONE"
    assert get("/streaming/channelsz")["names"] == ["foo"]
    assert get("/varz")["connections"] == 0
    assert get("/healthz") == {"status": "ok"}
    (ports,) = tmp_path.glob("*.ports")
    assert json.loads(ports.read_text()) == {"nats": [], "monitoring": [streaming.monitor_url]}


def test_second_server_with_the_cluster_id_ends(
    serve: Serve, refused: Callable[..., list[str]], attach: Callable[..., ServerProcess]
) -> None:
    server = serve()
    attach(server)

    lines = refused("-ns", server.url, program=STREAMING)

    found = 'discovered another streaming server with cluster ID "test-cluster"'
    assert lines[-1].endswith(f"[FTL] STREAM: Failed to start: {found}")
    attach(server, "-cid", "another")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-ns", "nats://127.0.0.1:1"), "nats: no servers available for connection: .*refused"),
        (("-ns", "http://127.0.0.1:1"), "scheme 'http' of a server URL"),
        (
            ("-ns", "nats://h:1", "--tls_client_cacert", "none.pem"),
            "TLS for the NATS server: none.pem: No such file",
        ),
    ],
)
def test_start_that_fails_says_so_in_one_line(
    refused: Callable[..., list[str]], arguments: tuple[str, ...], reason: str
) -> None:
    lines = refused(*arguments, program=STREAMING)

    assert re.search(rf"\[FTL\] STREAM: Failed to start: {reason}", lines[-1])
    assert sum("[FTL]" in line for line in lines) == 1


def test_user_password_and_token(
    nats: Program, serve: Serve, refused: Callable[..., list[str]], attach: Callable[..., ServerProcess]
) -> None:
    server = serve(program=nats, config="authorization { user: u, password: secret }")
    with_url = server.url.replace("nats://", "nats://u:secret@")

    lines = refused("-ns", server.url, program=STREAMING)
    assert re.search(r"STREAM: Failed to start: nats: Authorization Violation$", lines[-1])
    attach(server, "-cid", "a", config=f"streaming {{ ns: '{server.url}', username: u, password: secret }}")
    attach(server, "-cid", "b", "--user", "u", "--pass", "secret")
    streaming = serve("-cid", "c", "-ns", with_url, program=STREAMING)
    assert "secret" not in streaming.log


def test_tls_with_client_certificates(
    nats: Program,
    serve: Serve,
    refused: Callable[..., list[str]],
    attach: Callable[..., ServerProcess],
    authority: Authority,
) -> None:
    own, theirs = authority.issue("server"), authority.issue("streaming")
    files = f"cert_file: '{own.certificate}', key_file: '{own.key}', ca_file: '{authority.file}'"
    server = serve(program=nats, config=f"tls {{ {files}, verify: true }}")
    ca = ("--secure", "--tls_client_cacert", str(authority.file))
    certificate = ("--tls_client_cert", str(theirs.certificate), "--tls_client_key", str(theirs.key))

    attach(server, *ca, *certificate)

    lines = refused("-ns", server.url, "-cid", "other", "--secure", program=STREAMING)
    assert "STREAM: Failed to start: nats: no servers available for connection: no TLS with" in lines[-1]


def test_nkey(
    nats: Program, serve: Serve, refused: Callable[..., list[str]], attach: Callable[..., ServerProcess]
) -> None:
    key, other = KeyPair(USER, b"k" * 32), KeyPair(USER, b"o" * 32)
    server = serve(program=nats, config=f"authorization {{ users: [{{ nkey: {key.public} }}] }}")
    file = server.config_file.with_name("user.nk")

    file.write_text(other.seed)
    section = f"streaming {{ ns: '{server.url}', nkey_seed_file: '{file}' }}"
    lines = refused(program=STREAMING, config=section)
    assert lines[-1].endswith("[FTL] STREAM: Failed to start: nats: Authorization Violation")
    file.write_text(key.seed)
    attach(server, config=section)


def test_credentials_file_against_the_go_server_with_accounts(
    serve: Serve, attach: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    operator, account, user = (
        KeyPair(OPERATOR, b"o" * 32),
        KeyPair(ACCOUNT, b"a" * 32),
        KeyPair(USER, b"u" * 32),
    )
    config = (
        f"operator: {operator.jwt(operator, 'operator')}\nresolver: MEMORY\n"
        f"resolver_preload {{ {account.public}: {operator.jwt(account, 'account')} }}"
    )
    server = serve(program=NATS_SERVER, config=config)
    file = tmp_path / "user.creds"
    file.write_text(credentials(user, account.jwt(user, "user")))

    attach(server, config=f"streaming {{ ns: '{server.url}', credentials: '{file}' }}")


def test_partitions_share_a_cluster(
    serve: Serve,
    attach: Callable[..., ServerProcess],
    join: Callable[..., Client],
) -> None:
    server = serve()

    def partition(*channels: str) -> str:
        entries = ", ".join(f"'{name}': {{}}" for name in channels)
        return f"streaming {{ partitioning: true, store_limits {{ channels {{ {entries} }} }} }}"

    attach(server, config=partition("foo", "foo.*"))
    attach(server, config=partition("bar.>"))
    client = join(server, b"me")

    assert [client.publish(name, b"x") for name in (b"foo", b"foo.a", b"bar.b")] == [b""] * 3
    assert client.read(b"bar.b", 1) == [(1, b"x")]
    lines = serve("-ns", server.url, program=STREAMING, config=partition("new", "bar.x"), ready=False)
    assert lines.wait() == 1
    assert re.search(r'\[FTL\] STREAM: Failed to start: channel "bar.x" causes conflict', lines.log)


def test_standby_takes_over_when_the_active_server_is_killed(
    nats: Program,
    serve: Serve,
    attach: Callable[..., ServerProcess],
    join: Callable[..., Client],
    tmp_path: Path,
) -> None:
    server = serve(program=nats)
    store = ("-st", "FILE", "--dir", str(tmp_path / "store"), "--ft_group", "g", "-m", "-1")
    active = attach(server, *store)
    standby = serve("-ns", server.url, *store, program=STREAMING)
    standby.wait_for_line("STREAM: Starting in standby mode")

    def look(process: ServerProcess) -> tuple[str, int]:
        with urllib.request.urlopen(process.monitor_url + "/streaming/serverz", timeout=PATIENCE) as answer:
            state = json.load(answer)["state"]
        with urllib.request.urlopen(
            process.monitor_url + "/streaming/isFTActive", timeout=PATIENCE
        ) as answer:
            return state, answer.status

    assert (look(active), look(standby)) == (("FT_ACTIVE", 200), ("FT_STANDBY", 204))
    client = join(server, b"me")
    assert client.publish(b"foo", b"1") == b""

    active.kill()
    standby.wait_for_line(READY)

    assert look(standby) == ("FT_ACTIVE", 200)
    assert client.publish(b"foo", b"2") == b""  # the same client, without a word
    assert client.read(b"foo", 2) == [(1, b"1"), (2, b"2")]
