"""`headrace streaming channels | report | purge | rm | replay --server`, and stores that are encrypted."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from harness.keys import ACCOUNT, USER, KeyPair, credentials
from headrace.cli.main import main
from headrace.client import stan
from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.streaming_options import StreamingOptions
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.log.store_cipher import store_cipher
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Streaming = Callable[..., int]

KEY = "NATS_STREAMING_ENCRYPTION_KEY"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NATS_URL", "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN", KEY):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    """orders.eu with 5 messages and a durable that has two of them pending, orders.us with 2."""

    async def fill(url: str) -> None:
        async with await stan.connect("shop", "me", servers=url) as client:
            for n in range(7):
                await client.publish("orders.us" if n in (1, 3) else "orders.eu", b"order %d" % n)
            await client.subscribe(
                "orders.eu", print, durable_name="d", sequence=1, max_in_flight=2, manual_acks=True
            )

    with Server(streaming=StreamingOptions(cluster_id="shop")) as server:
        asyncio.run(fill(server.url))
        yield server


@pytest.fixture
def streaming(server: Server) -> Streaming:
    """Runs `headrace streaming COMMAND ARGUMENTS` against the server; gives the exit code."""
    return lambda command, *arguments: main(
        ["headrace", "streaming", command, *arguments, "--server", server.url, "-cid", "shop"]
    )


def test_channels_are_listed(streaming: Streaming, capsys: pytest.CaptureFixture[str]) -> None:
    assert streaming("channels", "--json") == 0

    found = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["msgs"], one["last_seq"]) for one in found] == [
        ("orders.eu", 5, 5),
        ("orders.us", 2, 2),
    ]
    assert found[0]["subscriptions"][0]["pending_count"] == 2


def test_server_of_the_environment_is_asked(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NATS_URL", server.url)

    assert main(["headrace", "streaming", "report", "orders.eu", "--cluster_id", "shop"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("orders.eu: 5 messages, ")
    assert "durable  d" in shown


def test_purge_and_rm(streaming: Streaming, capsys: pytest.CaptureFixture[str]) -> None:
    assert streaming("purge", "orders.*", "--keep", "1", "-f") == 0
    assert capsys.readouterr().out == (
        "orders.eu: 4 messages removed, 1 left\norders.us: 1 messages removed, 1 left\n"
    )
    assert streaming("purge", "orders.eu", "--before-time", "2020-01-01T00:00:00Z", "--force") == 0
    assert capsys.readouterr().out == "orders.eu: 0 messages removed, 1 left\n"
    assert streaming("rm", ">", "--force") == 0
    assert capsys.readouterr().out == "orders.eu: removed, with 1 subscriptions\norders.us: removed\n"
    assert streaming("channels") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 channels, 0 messages, 0 bytes"


@pytest.mark.parametrize("command", ["purge", "rm"])
def test_nothing_is_removed_unasked(
    command: str,
    streaming: Streaming,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert streaming(command, "orders.eu") == 2
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _question: "n")
    assert streaming(command, "orders.eu") == 2
    capsys.readouterr()
    assert streaming("channels", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_replay_prints_messages(streaming: Streaming, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert streaming("replay", "orders.*", "--json") == 0
    lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [(line["channel"], line["sequence"], line["data"]) for line in lines[:4]] == [
        ("orders.eu", 1, "order 0"),
        ("orders.us", 1, "order 1"),
        ("orders.eu", 2, "order 2"),
        ("orders.us", 2, "order 3"),
    ]
    assert len(lines) == 7
    assert streaming("replay", "orders.eu", "--raw", "--start", "2", "--count", "2") == 0
    assert capsysbinary.readouterr().out == b"order 2\norder 4\n"
    assert streaming("replay", "orders.eu", "--end", "1", "--since", "1h") == 0
    head, payload, *_ = capsysbinary.readouterr().out.splitlines()
    assert head.startswith(b"[#1] orders.eu 20")
    assert payload == b"order 0"
    assert streaming("replay", "orders.eu", "--raw", "--end-time", "2020-01-01T00:00:00Z") == 0
    assert streaming("replay", "orders.eu", "--raw", "--since", "0s") == 0
    assert capsysbinary.readouterr().out == b""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["replay", "nowhere"], "No Channels"),
        (["purge", "nowhere", "-f"], "no channel 'nowhere'"),
        (["rm", "nowhere", "-f"], "no channel 'nowhere'"),
        (["report", "--check"], "--check reads a store: it needs --dir"),
        (["channels", "--user", "me", "--token", "t"], "give one of --user and --token"),
        (["channels", "--password", "x"], "--password needs --user"),
        (["channels", "--creds", "c", "--nkey", "n"], "give one of --creds and --nkey"),
        (["channels", "--creds", "/nowhere.creds"], "/nowhere.creds"),
        (["channels", "--nkey", "/nowhere.nk"], "/nowhere.nk"),
        (["channels", "--tlsca", "/nowhere.pem"], "--tlsca /nowhere.pem: "),
        (["channels", "--tlscert", "/nowhere.pem"], "--tlscert and --tlskey need each other"),
        (["channels", "--tlscert", "/nowhere.pem", "--tlskey", "k"], "--tlscert /nowhere.pem: "),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], complaint: str, streaming: Streaming, capsys: pytest.CaptureFixture[str]
) -> None:
    assert streaming(*arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"headrace streaming {arguments[0]}: ")
    assert complaint in error
    assert error.count("\n") == 1


def test_server_without_this_cluster_is_one_line(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headrace", "streaming", "channels", "--server", server.url]) == 1
    assert "no NATS Streaming (STAN) server of cluster ID test-cluster answers" in capsys.readouterr().err


def test_credentials_are_used(capsys: pytest.CaptureFixture[str]) -> None:
    with Server(streaming=StreamingOptions(), authorization=AuthorizationOptions(token="secret")) as server:
        command = ["headrace", "streaming", "channels", "--server", server.url]
        assert main([*command, "--token", "secret"]) == 0
        assert main([*command, "--token", "wrong"]) == 1
        assert "Authorization Violation" in capsys.readouterr().err


def test_keys_sign_for_their_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    account, user, other = (KeyPair(k, bytes([n]) * 32) for n, k in enumerate((ACCOUNT, USER, USER)))
    seed, creds = tmp_path / "seed.nk", tmp_path / "user.creds"
    creds.write_text(credentials(user, account.jwt(user, "user")))
    users = (UserOptions(nkey=user.public),)
    with Server(streaming=StreamingOptions(), authorization=AuthorizationOptions(users=users)) as server:
        command = ["headrace", "streaming", "channels", "--server", server.url]
        for pair, code in ((user, 0), (other, 1)):
            seed.write_text(pair.seed)
            assert main([*command, "--nkey", str(seed)]) == code
        assert main([*command, "--creds", str(creds)]) == 1  # this server trusts no operator
    error = capsys.readouterr().err
    assert error.count("Authorization Violation") == 2
    assert "Traceback" not in error
    assert not any(secret in error for secret in (user.seed, other.seed))


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay"],
        ["replay", "a", "--start", "0"],
        ["replay", "a", "--start", "1", "--since", "1h"],
        ["replay", "a", "--since", "soon"],
        ["replay", "a", "--start-time", "soon"],
        ["replay", "a", "--json", "--raw"],
        ["purge", "a", "--server", "s", "--before-time", "soon"],
        ["channels", "--server", "s", "--dir", "d"],
    ],
)
def test_wrong_use_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["headrace", "streaming", *arguments])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(f"usage: headrace streaming {arguments[0]} ")


# -- encrypted stores


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    store = FileStore(tmp_path, cipher=store_cipher("secret", "CHACHA"))
    store.open(b"a").append([NewMessage(b"a", b"hidden")])
    store.close()
    return tmp_path


COMMANDS = [["channels"], ["report", "--check"], ["purge", "a", "-f"], ["rm", "a", "-f"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_encrypted_store_is_opened_with_its_key(
    command: list[str], sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "secret")
    line = ["headrace", "streaming", *command, "--dir", str(sealed), "--encryption_cipher", "chacha"]
    assert main([*line, "--encrypt"]) == 0
    monkeypatch.delenv(KEY)
    assert main(["headrace", "streaming", "channels", "--dir", str(sealed), "--encryption_key", "secret",
                 "--encryption_cipher", "CHACHA"]) == 0  # fmt: skip


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[2]], ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], f"is encrypted, and no key was given: say --encrypt, with the key in {KEY}"),
        (["--encrypt"], f"encryption needs a key: set {KEY}"),
        (["--encryption_cipher", "AES"], "--encryption_cipher has no effect without --encrypt"),
        (["--encryption_key", "wrong"], "is encrypted with another key or algorithm"),
        (["--encryption_key", "secret"], "is encrypted with another key or algorithm"),
    ],
)
def test_encrypted_store_without_its_key_is_one_line(
    arguments: list[str], complaint: str, command: list[str], sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["headrace", "streaming", *command, "--dir", str(sealed), *arguments]) == 1
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
