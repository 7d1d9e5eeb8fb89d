"""How servers in operator mode start, and where they get tokens from: the Go server and Headrace alike."""

from __future__ import annotations

import http.server
import json
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from harness.claims import ACCOUNT_KEY, OPERATOR_KEY, USER_KEY, account_token, operator_token, user_token
from harness.keys import ACCOUNT, USER, key_pair
from harness.operators import SYSTEM, SYSTEM_USER, enter, enter_system, request, say
from harness.processes import HEADRACES, NATS_SERVER, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.processes import Program

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
    """GET /jwt/v1/accounts/<key>."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        key = self.path.rpartition("/")[2]
        self.asked.append(key)
        token = TOKENS.get(key)
        self.send_response(200 if token or not key else 404)
        self.end_headers()
        self.wfile.write((token or "").encode())

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    Tokens.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}/jwt/v1/accounts/"
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
