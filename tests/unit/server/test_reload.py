"""Reload of a server inside the test: what is checked before, what changes, what stays as it is."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import socket
from typing import TYPE_CHECKING

import bcrypt
import pytest

from harness.wire import Wire
from headrace.conf.binding import load_options
from headrace.conf.bucket_options import BucketOptions
from headrace.conf.options import Options
from headrace.core.accounts import all_accounts
from headrace.engine.reasons import CloseReason
from headrace.errors import ConfigError, StartError
from headrace.protocol import nkeys
from headrace.server import reload
from headrace.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

BASE = 'listen: "127.0.0.1:-1"\n'
CALLOUT_ISSUER = "AAB35RZ7HJSICG7D4IGPYO3CTQPWWGULJXZYD45QAWUKTXJYDI6EO7MV"


class Reloaded:
    """A running server with a file that a test rewrites. `lines` is its log."""

    def __init__(self, folder: Path, text: str) -> None:
        self.file = folder / "server.conf"
        self.file.write_text(BASE + text)
        self.server = Server(load_options(str(self.file), environ={}))
        self.wires: list[Wire] = []

    async def connect(self, connect: str = '{"verbose":false,"pedantic":false}', ops: str = "") -> Wire:
        wire = await asyncio.to_thread(Wire, ("127.0.0.1", self.server.port))
        self.wires.append(wire)
        wire.send(f"CONNECT {connect}\r\n{ops}".encode())
        await asyncio.to_thread(wire.sync)
        return wire

    def rewrite(self, text: str) -> None:
        self.file.write_text(BASE + text)

    def reload(self, text: str) -> None:
        self.rewrite(text)
        self.server.reload()


def run(folder: Path, text: str, test: Callable[[Reloaded], Awaitable[None]]) -> None:
    async def go() -> None:
        reloaded = Reloaded(folder, text)
        async with reloaded.server:
            try:
                await test(reloaded)
            finally:
                for wire in reloaded.wires:
                    wire.close()

    asyncio.run(go())


def user(name: str, password: str = "p") -> str:
    return f'{{"user":"{name}","pass":"{password}","verbose":false,"pedantic":false}}'


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


# -- the table ----------------------------------------------------------------------------------------


def test_every_option_is_taken_over_by_a_step_or_needs_a_restart() -> None:
    ways = {option: key.reload for option, key in Options.KEYS.items()}
    in_blocks = {key.reload for key in BucketOptions.KEYS.values()}

    assert {*ways.values(), *in_blocks} == reload._STEPS.keys()
    assert ways["port"] == ""
    assert ways["max_payload"] == "client limits"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("server_name: other", "server_name: old=None, new=other"),
        ('http: "127.0.0.1:8222"', "http_host: old=None, new=127.0.0.1"),
        ("no_header_support: true", "no_header_support: old=false, new=true"),
        ("no_system_account: true", "system_account: old=$SYS, new=None"),
        ("streaming { cluster_id: c }", "streaming: old=None, new={cluster_id: c}"),
        (
            "authorization { users: [{user: a, password: p}]"
            f", auth_callout {{ issuer: {CALLOUT_ISSUER}, auth_users: [a] }} }}",
            f"authorization.callout: old=None, new={{issuer: {CALLOUT_ISSUER}, users: [a]}}",
        ),
    ],
)
def test_what_needs_a_restart_is_refused_by_name_and_changes_nothing(
    tmp_path: Path, text: str, said: str
) -> None:
    async def test(it: Reloaded) -> None:
        before = it.server.options
        with pytest.raises(StartError) as caught:
            it.reload(f"max_payload: 100\n{text}")
        assert f"config reload not supported for {said}" in str(caught.value).splitlines()
        assert it.server.options is before
        assert (await it.connect()).info["max_payload"] == 1 << 20

    run(tmp_path, "", test)


# -- refusals change nothing --------------------------------------------------------------------------

ACCOUNTS = """
authorization { timeout: 5 }
accounts {
  A { users: [{user: a, password: p}], exports: [{stream: x}], mappings: {m: n} }
  B { users: [{user: b, password: p}], imports: [{stream: {account: A, subject: x}}] }
}
"""


@pytest.mark.parametrize(
    "broken",
    [
        "max_payload: {",
        'max_payload: "many"',
        "no_such_key: 1",
        ACCOUNTS.replace("account: A", "account: C"),
        ACCOUNTS.replace("{m: n}", "{m..x: n}"),
        ACCOUNTS.replace(
            "{user: b, password: p}", '{user: b, password: p, permissions: {publish: ["a..b"]}}'
        ),
        ACCOUNTS + 'tls { cert_file: "nowhere.pem", key_file: "nowhere.key" }',
        ACCOUNTS + "no_auth_user: nobody",
        ACCOUNTS + "include nowhere.conf",
        "\0\1\2",
    ],
)
def test_broken_file_leaves_everything_as_it_was(tmp_path: Path, broken: str) -> None:
    async def test(it: Reloaded) -> None:
        subscriber = await it.connect(user("b"), "SUB x 1\r\n")
        before = it.server.options, it.server.config_load_ns, it.server.authenticator, dict(it.server.info)
        with pytest.raises((ConfigError, StartError)):
            it.reload("max_payload: 7\n" + broken)
        after = it.server.options, it.server.config_load_ns, it.server.authenticator, dict(it.server.info)
        assert after == before
        publisher = await it.connect(user("a"), "PUB x 9\r\n123456789\r\n")
        assert publisher.received == b""
        line = await asyncio.to_thread(subscriber.take_through, b"123456789\r\n")
        assert line == b"MSG x 1 9\r\n123456789\r\n"

    run(tmp_path, ACCOUNTS, test)


def test_cut_off_files_never_do_half_of_it(tmp_path: Path) -> None:
    whole = "ping_max: 9\nmax_payload: 50\n" + ACCOUNTS.replace("password: p", "password: q")

    async def test(it: Reloaded) -> None:
        for end in range(0, len(whole), 7):
            it.rewrite(ACCOUNTS)
            it.server.reload()
            before = it.server.options
            it.file.write_text(BASE + whole[:end])
            try:
                it.server.reload()
            except (ConfigError, StartError):
                assert it.server.options is before
            else:
                assert it.server.options == load_options(str(it.file), environ={})

    run(tmp_path, ACCOUNTS, test)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_change_all_or_nothing(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    whole = (BASE + "ping_max: 9\n" + ACCOUNTS).encode()

    async def test(it: Reloaded) -> None:
        await it.connect(user("b"), "SUB x 1\r\n")
        for _ in range(60):
            damaged = bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                damaged[draw.randrange(len(BASE), len(damaged))] = draw.choice(b"{}[]:,\"'# \n\\\0\xff01az")
            it.file.write_bytes(damaged)
            before = it.server.options, list(it.server.accounts), it.server.authenticator
            try:
                it.server.reload()
            except (ConfigError, StartError):
                assert (it.server.options, list(it.server.accounts), it.server.authenticator) == before
            else:
                assert it.server.options == load_options(str(it.file), environ={})
                names = {account.name for account in it.server.accounts}
                assert names == {account.name for account in all_accounts(it.server.options)}
        it.file.write_bytes(whole)
        it.server.reload()
        again = await it.connect(user("b"), "SUB x 1\r\n")  # the first one may have been closed
        publisher = await it.connect(user("a"), "PUB x 1\r\n.\r\n")
        assert publisher.received == b""
        assert await asyncio.to_thread(again.sync) == b"MSG x 1 1\r\n.\r\n"

    run(tmp_path, ACCOUNTS, test)


# -- limits -------------------------------------------------------------------------------------------


def test_fewer_connections_close_the_youngest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(it: Reloaded) -> None:
        wires = [await it.connect() for _ in range(5)]
        with caplog.at_level(logging.INFO, "headrace.server"):
            it.reload("max_connections: 2")
        ends = [await asyncio.to_thread(wire.take_rest) for wire in wires[2:]]
        assert ends == [b"-ERR 'maximum connections exceeded'\r\n"] * 3
        for wire in wires[:2]:
            assert await asyncio.to_thread(wire.sync) == b""
        assert "Closed 3 connections to fall within max_connections" in logged(caplog)
        reasons = {record.reason.text for record in it.server.clients.closed}
        assert reasons == {CloseReason.MAX_CONNECTIONS_EXCEEDED.text}

    run(tmp_path, "", test)


def test_fewer_connections_in_an_account_close_its_youngest(tmp_path: Path) -> None:
    text = """accounts {
      A { users: [{user: a, password: p}], limits {max_connections: %d} }
      B { users: [{user: b, password: p}] }
    }"""

    async def test(it: Reloaded) -> None:
        others = await it.connect(user("b"))
        wires = [await it.connect(user("a")) for _ in range(4)]
        it.reload(text % 1)
        for wire in wires[1:]:
            assert await asyncio.to_thread(wire.take_rest) == (
                b"-ERR 'maximum account active connections exceeded'\r\n"
            )
        assert await asyncio.to_thread(wires[0].sync) == b""
        assert await asyncio.to_thread(others.sync) == b""
        assert it.server.accounts["A"].connections == 1

    run(tmp_path, text % 9, test)


def test_more_is_allowed_at_once(tmp_path: Path) -> None:
    async def test(it: Reloaded) -> None:
        wire = await it.connect(ops="SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")
        it.reload("max_control_line: 4096\nmax_subscriptions: 20\nmax_sub_tokens: 9")
        wire.send(f"SUB {'x.' * 8}x 4\r\nSUB {'y' * 90} 5\r\n".encode())
        assert await asyncio.to_thread(wire.sync) == b""

    run(tmp_path, "max_control_line: 60\nmax_subscriptions: 3\nmax_sub_tokens: 2", test)


def test_pending_bytes_follow(tmp_path: Path) -> None:
    async def test(it: Reloaded) -> None:
        wire = await it.connect(ops="SUB x 1\r\n")
        it.reload("max_pending: 2000\nmax_payload: 1900")
        wire.send(b"PUB x 1500\r\n" + b"x" * 1500 + b"\r\nPUB x 1500\r\n" + b"x" * 1500 + b"\r\n")
        await asyncio.to_thread(wire.take_rest)
        assert it.server.clients.closed[-1].reason is CloseReason.SLOW_CONSUMER_PENDING_BYTES

    run(tmp_path, "", test)


# -- clients ------------------------------------------------------------------------------------------


def test_client_that_has_said_nothing_may_still_say_who_it_is(tmp_path: Path) -> None:
    async def test(it: Reloaded) -> None:
        quiet = await asyncio.to_thread(Wire, ("127.0.0.1", it.server.port))
        refused = await asyncio.to_thread(Wire, ("127.0.0.1", it.server.port))
        it.wires += [quiet, refused]
        it.reload("authorization { users: [{user: a, password: p}] }")
        refused.send(b"SUB x 1\r\n")
        assert await asyncio.to_thread(refused.take_rest) == b"-ERR 'Authorization Violation'\r\n"
        await asyncio.to_thread(quiet.connect, user("a").encode())
        it.reload("")

    run(tmp_path, "", test)


def test_clock_of_who_has_said_nothing_starts(tmp_path: Path) -> None:
    async def test(it: Reloaded) -> None:
        quiet = await asyncio.to_thread(Wire, ("127.0.0.1", it.server.port))
        it.wires.append(quiet)
        it.reload("authorization { users: [{user: a, password: p}], timeout: 0.05 }")
        assert await asyncio.to_thread(quiet.take_rest) == b"-ERR 'Authentication Timeout'\r\n"

    run(tmp_path, "", test)


def test_changed_hash_is_looked_at_and_an_old_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashed(password: str) -> str:
        return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()

    kept, first, again, other = hashed("p"), hashed("p"), hashed("p"), hashed("q")
    entries = [f'{{{{user: {name}, password: "{{}}"}}}}' for name in "abc"]
    text = f"authorization {{{{ users: [{', '.join(entries)}] }}}}"

    async def test(it: Reloaded) -> None:
        a, b, c = [await it.connect(user(name), "SUB x 1\r\n") for name in "abc"]
        looked: list[bytes] = []
        check = bcrypt.checkpw

        def counted(password: bytes, stored: bytes) -> bool:
            looked.append(stored)
            return check(password, stored)

        monkeypatch.setattr(bcrypt, "checkpw", counted)
        it.reload(text.format(kept, again, other))
        assert await asyncio.to_thread(c.take_rest) == b"-ERR 'Authorization Violation'\r\n"
        b.send(b"PUB x 1\r\n.\r\n")
        assert await asyncio.to_thread(b.sync) == b"MSG x 1 1\r\n.\r\n"
        assert await asyncio.to_thread(a.sync) == b"MSG x 1 1\r\n.\r\n"
        assert sorted(looked) == sorted([again.encode(), other.encode()])

    run(tmp_path, text.format(kept, first, first), test)


PROVEN = nkeys.encode_public(nkeys.KeyKind.USER, bytes(range(32)))


@pytest.mark.parametrize(
    "before",
    [
        "",
        "authorization { token: s3cr3t }",
        f"no_auth_user: {PROVEN}\nauthorization {{ users: [{{nkey: {PROVEN}}}] }}",
        "no_auth_user: a\nauthorization { users: [{user: a, password: p}] }",
    ],
)
def test_nkey_that_was_never_proven_is_asked_for_a_signature(tmp_path: Path, before: str) -> None:
    """Where nobody looked at the nkey of a CONNECT it is a claim, which a reload does not make true."""
    told = {"nkey": PROVEN, "auth_token": "s3cr3t", "verbose": False}
    told = {"nkey": PROVEN, "verbose": False} if "no_auth_user" in before else told

    async def test(it: Reloaded) -> None:
        wire = await it.connect(json.dumps(told), "SUB x 1\r\n")
        it.reload(f"authorization {{ users: [{{nkey: {PROVEN}}}] }}")
        assert b"MSG" not in await asyncio.to_thread(wire.take_rest)

    run(tmp_path, before, test)


def test_credentials_under_way_are_judged_by_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = bcrypt.hashpw(b"p", bcrypt.gensalt(4)).decode()
    text = 'authorization {{ users: [{{user: {}, password: "{}"}}] }}'
    check = bcrypt.checkpw

    async def test(it: Reloaded) -> None:
        loop = asyncio.get_running_loop()
        began, goes_on = asyncio.Event(), asyncio.Event()

        def slow(password: bytes, hashed: bytes) -> bool:
            loop.call_soon_threadsafe(began.set)
            asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result(10)
            return check(password, hashed)

        monkeypatch.setattr(bcrypt, "checkpw", slow)
        wire = await asyncio.to_thread(Wire, ("127.0.0.1", it.server.port))
        it.wires.append(wire)
        wire.send(f"CONNECT {user('a')}\r\nPING\r\n".encode())
        await began.wait()
        it.reload(text.format("b", stored))
        goes_on.set()
        assert await asyncio.to_thread(wire.take_rest) == b"-ERR 'Authorization Violation'\r\n"

    run(tmp_path, text.format("a", stored), test)


def test_unchanged_permissions_keep_owed_responses(tmp_path: Path) -> None:
    text = """max_payload: %d
    authorization { users: [
      {user: a, password: p, permissions: {allow_responses: true}}
      {user: b, password: p}
    ] }"""

    async def test(it: Reloaded) -> None:
        answers = await it.connect(user("a"), "SUB q 1\r\n")
        asks = await it.connect(user("b"), "SUB r 1\r\nPUB q r 1\r\n?\r\n")
        assert await asyncio.to_thread(answers.sync) == b"MSG q 1 r 1\r\n?\r\n"
        it.reload(text % 200 + "\nmappings: {some: other}")
        answers.send(b"PUB r 1\r\n!\r\n")
        assert await asyncio.to_thread(answers.sync) == b""
        assert await asyncio.to_thread(asks.sync) == b"MSG r 1 1\r\n!\r\n"

    run(tmp_path, text % 100, test)


def test_imported_subscription_is_filtered_by_new_permissions(tmp_path: Path) -> None:
    """A deny rule inside a wide subscription holds for what comes from another account, too."""
    text = """accounts {{
      A {{ users: [{{user: a, password: p}}], exports: [{{stream: >}}] }}
      B {{
        users: [{{user: b, password: p{}}}]
        imports: [{{stream: {{account: A, subject: x.>}}}}]
      }}
    }}"""

    async def test(it: Reloaded) -> None:
        b = await it.connect(user("b"), "SUB x.> 1\r\n")
        a = await it.connect(user("a"))
        it.reload(text.format(', permissions: {subscribe: {deny: ["x.1"]}}'))
        a.send(b"PUB x.1 1\r\n1\r\nPUB x.2 1\r\n2\r\n")
        await asyncio.to_thread(a.sync)
        assert await asyncio.to_thread(b.sync) == b"MSG x.2 1 1\r\n2\r\n"
        it.reload(text.format(""))
        a.send(b"PUB x.1 1\r\n1\r\n")
        await asyncio.to_thread(a.sync)
        assert await asyncio.to_thread(b.sync) == b"MSG x.1 1 1\r\n1\r\n"

    run(tmp_path, text.format(""), test)


def test_no_auth_user_may_be_another(tmp_path: Path) -> None:
    text = """no_auth_user: {}
    authorization {{ users: [
      {{user: a, password: p}}
      {{user: b, password: p, permissions: {{subscribe: [y]}}}}
    ] }}"""

    async def test(it: Reloaded) -> None:
        wire = await it.connect(ops="SUB x 1\r\n")
        it.reload(text.format("b"))
        assert await asyncio.to_thread(wire.sync) == (
            b'-ERR \'Permissions Violation for Subscription to "x" (sid "1")\'\r\n'
        )
        it.reload("authorization { users: [{user: a, password: p}] }")
        assert await asyncio.to_thread(wire.take_rest) == b""

    run(tmp_path, text.format("a"), test)


def test_accounts_and_proxies_change_together(tmp_path: Path) -> None:
    """What both concern is done once: an account that is gone cannot go again."""
    proxy = nkeys.encode_public(nkeys.KeyKind.USER, bytes(32))

    async def test(it: Reloaded) -> None:
        wire = await it.connect(user("a"), "SUB x 1\r\n")
        it.reload(
            f"proxies {{ trusted: [{{key: {proxy}}}] }}\n"
            "accounts { A { users: [{user: a, password: p}], exports: [{stream: x}] } }"
        )
        assert "B" not in it.server.accounts
        assert it.server.options.trusted_proxies == (proxy,)
        assert await asyncio.to_thread(wire.sync) == b""

    run(tmp_path, ACCOUNTS, test)


# -- again and again ----------------------------------------------------------------------------------


def test_same_file_changes_nothing_but_the_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(it: Reloaded) -> None:
        wire = await it.connect(user("b"), "SUB x 1\r\n")
        imports = it.server.accounts["B"].interest.imports
        before = it.server.config_load_ns
        with caplog.at_level(logging.INFO, "headrace.server"):
            for _ in range(3):
                it.server.reload()
        assert it.server.config_load_ns > before
        assert it.server.accounts["B"].interest.imports is imports
        assert [line for line in logged(caplog) if "Reload" in line] == [
            f"Reloaded server configuration ({it.server.options.config_digest})"
        ] * 3
        assert await asyncio.to_thread(wire.sync) == b""

    run(tmp_path, ACCOUNTS, test)


def test_reload_in_lame_duck_mode(tmp_path: Path) -> None:
    text = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "20s"\n'

    async def test(it: Reloaded) -> None:
        wire = await it.connect('{"verbose":false,"protocol":1}')
        leaving = asyncio.ensure_future(it.server.lame_duck())
        await asyncio.to_thread(wire.take_through, b'"ldm":true')
        it.reload(text + "max_payload: 77")
        assert it.server.info["ldm"] is True
        assert it.server.info["max_payload"] == 77
        with pytest.raises(ConnectionRefusedError):
            await asyncio.to_thread(socket.create_connection, ("127.0.0.1", it.server.port))
        await it.server.stop()
        await asyncio.wait_for(leaving, 5)

    run(tmp_path, text, test)


def test_server_without_a_file_cannot_reload() -> None:
    with pytest.raises(StartError, match="can only reload config when a file is provided"):
        Server(Options()).reload()
