"""How servers in operator mode start, and where they get tokens from: the Go server and Headrace alike."""

from __future__ import annotations

import http.server
import json
import signal
import threading
import urllib.request
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from harness.claims import ACCOUNT_KEY, OPERATOR_KEY, USER_KEY, account_token, operator_token, user_token
from harness.keys import ACCOUNT, USER, key_pair
from harness.operators import SYSTEM, SYSTEM_USER, enter, enter_system, request, say
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.processes import Program
    from harness.wire import Wire

pytestmark = pytest.mark.clients

EVERYBODY = (NATS_SERVER, *HEADRACES)
OTHER = key_pair(ACCOUNT, "other account")
SENTINEL = key_pair(USER, "sentinel")
TOKENS = {ACCOUNT_KEY.public: account_token(), SYSTEM.public: account_token(subject=SYSTEM)}


def config(*lines: str) -> str:
    return "\n".join([f"operator: {operator_token()}", f"system_account: {SYSTEM.public}", *lines])


def preload(tokens: dict[str, str]) -> str:
    return "resolver_preload: {\n" + "\n".join(f"{key}: {token}" for key, token in tokens.items()) + "\n}"


class Tokens(http.server.BaseHTTPRequestHandler):
    """GET /jwt/v1/accounts/<key>; answers about `slow` come when it is let go."""

    asked: ClassVar[list[str]] = []
    slow: ClassVar[str] = ""
    let_go: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        key = self.path.rpartition("/")[2]
        self.asked.append(key)
        if key and key == self.slow:
            self.let_go.wait(PATIENCE)
        token = TOKENS.get(key)
        self.send_response(200 if token or not key else 404)
        self.end_headers()
        self.wfile.write((token or "").encode())

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    Tokens.asked.clear()
    Tokens.let_go.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}/jwt/v1/accounts/"
        Tokens.slow = ""
        Tokens.let_go.set()
        served.shutdown()
        thread.join()


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_url_resolver_is_asked_once_for_an_account(program: Program, tmp_path: Path, url: str) -> None:
    with ServerProcess(program, tmp_path, config=config(f'resolver: URL("{url}")')) as server:
        for _ in range(3):
            enter(server, user_token(), USER_KEY).close()
        with say(server, user_token(OTHER), USER_KEY) as unknown:
            assert unknown.take_rest() == b"-ERR 'Authorization Violation'\r\n"
    assert Tokens.asked.count(ACCOUNT_KEY.public) == 1


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_clients_of_an_account_share_one_lookup_and_others_do_not_wait(
    program: Program, tmp_path: Path, url: str
) -> None:
    with ServerProcess(program, tmp_path, config=config(f'resolver: URL("{url}")')) as server:
        Tokens.slow = ACCOUNT_KEY.public
        waiting = [say(server, user_token(), USER_KEY) for _ in range(30)]
        enter_system(server).close()
        while ACCOUNT_KEY.public not in Tokens.asked:
            enter_system(server).close()
        Tokens.let_go.set()
        for wire in waiting:
            assert wire.take_line() == b"PONG\r\n"
            wire.close()
    assert Tokens.asked.count(ACCOUNT_KEY.public) == 1


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_lookup_that_is_not_answered_in_time_refuses(program: Program, tmp_path: Path, url: str) -> None:
    with ServerProcess(program, tmp_path, config=config(f'resolver: URL("{url}")')) as server:
        Tokens.slow = ACCOUNT_KEY.public
        with say(server, user_token(), USER_KEY) as wire:
            assert wire.take_rest() == b"-ERR 'Authorization Violation'\r\n"
        enter_system(server).close()


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_client_that_goes_while_it_is_looked_up_leaves_nothing(
    program: Program, tmp_path: Path, url: str
) -> None:
    with ServerProcess(program, tmp_path, "-D", config=config(f'resolver: URL("{url}")')) as server:
        Tokens.slow = ACCOUNT_KEY.public
        for _ in range(10):
            say(server, user_token(), USER_KEY).close()
        while ACCOUNT_KEY.public not in Tokens.asked:
            enter_system(server).close()
        Tokens.let_go.set()
        enter(server, user_token(), USER_KEY).close()
        assert server.stop() == 0
        assert "Traceback" not in server.log
        assert "internal error" not in server.log


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_caching_directory_asks_in_the_system_account(program: Program, tmp_path: Path) -> None:
    lines = (
        f"resolver: {{ type: cache, dir: '{tmp_path}/jwt' }}",
        preload({SYSTEM.public: TOKENS[SYSTEM.public]}),
    )
    with ServerProcess(program, tmp_path, config=config(*lines)) as server, enter_system(server) as system:
        system.send(b"SUB $SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP 1\r\n")
        system.sync()
        for key, token in ((OTHER, b""), (ACCOUNT_KEY, TOKENS[ACCOUNT_KEY.public].encode())):
            with say(server, user_token(key), USER_KEY) as wire:
                words = asked(system)
                assert words[1] == f"$SYS.REQ.ACCOUNT.{key.public}.CLAIMS.LOOKUP".encode()
                system.send(b"PUB " + words[3] + f" {len(token)}\r\n".encode() + token + b"\r\n")
                assert wire.take_line() == (b"PONG\r\n" if token else b"-ERR 'Authorization Violation'\r\n")
        enter(server, user_token(), USER_KEY).close()
        assert (tmp_path / "jwt" / f"{ACCOUNT_KEY.public}.jwt").exists()


def asked(wire: Wire) -> list[bytes]:
    """The words of the next message's line."""
    while (line := wire.take_line()) == b"PING\r\n":
        wire.send(b"PONG\r\n")
    wire.received[:0] = line
    return wire.take_message()[0]


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_full_directory_takes_what_others_have(program: Program, tmp_path: Path) -> None:
    system_only = preload({SYSTEM.public: TOKENS[SYSTEM.public]})
    lines = (f"resolver: {{ type: full, dir: '{tmp_path}/jwt', interval: '1s' }}", system_only)
    with ServerProcess(program, tmp_path, config=config(*lines)) as server, enter_system(server) as system:
        system.send(b"SUB $SYS.REQ.CLAIMS.PACK 1\r\n")
        reply = asked(system)[3]
        token = TOKENS[ACCOUNT_KEY.public]
        for pack in ("no bar in it", f"{OTHER.public}|{token}", f"{ACCOUNT_KEY.public}|{token}", ""):
            system.send(b"PUB " + reply + f" {len(pack)}\r\n{pack}\r\n".encode())
        system.sync()
        while not (tmp_path / "jwt" / f"{ACCOUNT_KEY.public}.jwt").exists():
            assert system.sync() is not None
        enter(server, user_token(), USER_KEY).close()
        # The Go server keeps any token under any name.
        assert (tmp_path / "jwt" / f"{OTHER.public}.jwt").exists() is not program.is_headrace


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_system_account_without_a_token_lets_its_token_be_brought(program: Program, tmp_path: Path) -> None:
    directory = f"resolver: {{ type: full, dir: '{tmp_path}/jwt' }}"
    with ServerProcess(program, tmp_path, config=config(directory)) as server:
        server.wait_for_line("Using bootstrapping system account")
        with enter_system(server) as system:
            for key in (SYSTEM, ACCOUNT_KEY):
                subject = f"$SYS.REQ.ACCOUNT.{key.public}.CLAIMS.UPDATE"
                answer = json.loads(request(system, subject, TOKENS[key.public].encode()))
                assert answer["data"]["message"] == "jwt updated"
            server.wait_for_line("System account fetched and updated")
        enter(server, user_token(), USER_KEY).close()
        enter_system(server).close()


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_tokens_of_a_directory_are_there_after_a_restart(program: Program, tmp_path: Path) -> None:
    directory = f"resolver: {{ type: full, dir: '{tmp_path}/jwt' }}"
    with ServerProcess(program, tmp_path, config=config(directory, preload(TOKENS))):
        pass
    with ServerProcess(program, tmp_path, config=config(directory)) as server:
        enter(server, user_token(), USER_KEY).close()


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_memory_resolver_without_the_system_accounts_token_ends_the_start(
    program: Program, tmp_path: Path
) -> None:
    with ServerProcess(program, tmp_path, config=config("resolver: MEMORY"), ready=False) as server:
        assert server.wait() == 1
        assert "system account" in server.log


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_only_pinned_accounts_and_the_system_account_are_let_in(program: Program, tmp_path: Path) -> None:
    tokens = {**TOKENS, OTHER.public: account_token(subject=OTHER)}
    pinned = f"resolver_pinned_accounts: [{ACCOUNT_KEY.public}]"
    with ServerProcess(
        program, tmp_path, "-D", config=config("resolver: MEMORY", preload(tokens), pinned)
    ) as server:
        enter(server, user_token(), USER_KEY).close()
        enter_system(server).close()
        with say(server, user_token(OTHER), USER_KEY) as other:
            assert other.take_rest() == b"-ERR 'Authorization Violation'\r\n"
        server.wait_for_line("not listed as operator pinned account")


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_default_sentinel_is_who_brings_no_token(program: Program, tmp_path: Path) -> None:
    sentinel = user_token(subject=SENTINEL, bearer_token=True, pub={"deny": [">"]})
    lines = ("resolver: MEMORY", preload(TOKENS), f"default_sentinel: {sentinel}")
    with ServerProcess(program, tmp_path, config=config(*lines)) as server:
        with say(server, "", None) as anybody:
            assert anybody.take_line() == b"PONG\r\n"
            anybody.send(b"PUB a 0\r\n\r\n")
            assert b"Permissions Violation" in anybody.sync()
        with enter(server, user_token(), USER_KEY) as known:
            known.send(b"PUB a 0\r\n\r\n")
            assert known.sync() == b""


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_trusted_keys_without_a_resolver_let_nobody_in(program: Program, tmp_path: Path) -> None:
    with ServerProcess(program, tmp_path, config=f"trusted_keys: {OPERATOR_KEY.public}") as server:
        with server.connect() as wire:
            assert wire.info["auth_required"] is True
            wire.send(b"PING\r\n")
            assert b"Authorization Violation" in wire.take_rest()
        with say(server, user_token(), USER_KEY) as user:
            assert user.take_rest() == b"-ERR 'Authorization Violation'\r\n"


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_configured_user_may_connect_in_the_ways_it_is_allowed(program: Program, tmp_path: Path) -> None:
    users = """authorization { users: [
        {user: web, password: p, allowed_connection_types: [WEBSOCKET]}
        {user: plain, password: p, allowed_connection_types: [standard, websocket]}
        {user: any, password: p, allowed_connection_types: []}
    ] }"""
    with ServerProcess(program, tmp_path, config=users) as server:
        told = {}
        for user in ("web", "plain", "any"):
            with server.connect() as wire:
                wire.send(f'CONNECT {{"verbose":false,"user":"{user}","pass":"p"}}\r\nPING\r\n'.encode())
                told[user] = wire.take_line()
    assert told == {"web": b"-ERR 'Authorization Violation'\r\n", "plain": b"PONG\r\n", "any": b"PONG\r\n"}


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_user_of_the_system_account_is_told_so(program: Program, tmp_path: Path) -> None:
    with (
        ServerProcess(program, tmp_path, config=config("resolver: MEMORY", preload(TOKENS))) as server,
        say(server, user_token(SYSTEM, SYSTEM_USER), SYSTEM_USER, protocol=1) as wire,
    ):
        assert wire.take_line() == b"PONG\r\n"
        assert wire.take_info()["acc_is_sys"] is True


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_connz_tells_whose_token_it_was(program: Program, tmp_path: Path) -> None:
    text = config("resolver: MEMORY", preload(TOKENS))
    with (
        ServerProcess(program, tmp_path, "-m", "-1", config=text) as server,
        enter(server, user_token(tags=["a:b"]), USER_KEY),
        urllib.request.urlopen(f"{server.monitor_url}/connz?auth=1") as answer,
    ):
        (shown,) = json.load(answer)["connections"]
    assert shown["authorized_user"] == USER_KEY.public
    assert shown["account"] == shown["issuer_key"] == ACCOUNT_KEY.public
    assert (shown["name_tag"], shown["tags"]) == ("account", ["a:b"])
    assert ("jwt" in shown) is (not program.is_headrace)


@pytest.mark.parametrize("program", EVERYBODY, ids=str)
def test_reload_leaves_users_of_tokens_where_they_are(program: Program, tmp_path: Path) -> None:
    text = config("resolver: MEMORY", preload(TOKENS))
    with (
        ServerProcess(program, tmp_path, config=text) as server,
        enter(server, user_token(), USER_KEY) as wire,
    ):
        wire.send(b"SUB a 1\r\n")
        server.config_file.write_text(f"{text}\ndebug: true\n")
        server.signal(signal.SIGHUP)
        server.wait_for_line("Reloaded server configuration")
        wire.send(b"PUB a 0\r\n\r\n")
        assert b"MSG a 1 0" in wire.sync()
        enter(server, user_token(), USER_KEY).close()
