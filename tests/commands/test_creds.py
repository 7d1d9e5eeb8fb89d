"""`headrace creds`: credentials files and users signed here, which both servers let in."""

from __future__ import annotations

import json
import stat
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.claims import (
    ACCOUNT_KEY,
    ACCOUNT_SIGNER,
    SCOPED_SIGNER,
    USER_KEY,
    account_token,
    scope,
    user_token,
)
from harness.command_line import CommandLine
from harness.keys import credentials
from harness.operators import configuration, trusted_account
from harness.processes import SIDES, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import Ran
    from harness.keys import KeyPair

ACCOUNT_WITH_SIGNERS = trusted_account(
    ACCOUNT_KEY, signing_keys=[ACCOUNT_SIGNER.public, scope(pub={"allow": ["scoped.>"]}, sub={})]
)


@pytest.fixture(scope="module", params=list(SIDES))
def operated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server of each kind that knows the account by its operator's token (resolver MEMORY)."""
    folder = tmp_path_factory.mktemp("operated")
    text = configuration({ACCOUNT_KEY.public: ACCOUNT_WITH_SIGNERS})
    with ServerProcess(SIDES[request.param], folder, config=text) as running:
        yield running


def saved(cli: CommandLine, text: str, name: str) -> str:
    path = cli.folder / name
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def signed(cli: CommandLine, key: KeyPair, *flags: str, name: str = "alice") -> Ran:
    """A user that is made, with the seed of a key."""
    seed = saved(cli, key.seed, "account.nk")
    path = str(cli.folder / f"{name}.creds")
    return cli("creds", "user", "make", name, "--account-seed", seed, "-o", path, *flags, "--json")


def claims_of(path: str) -> dict[str, Any]:
    """What the token in a file says, read by hand."""
    token = Path(path).read_text().splitlines()[1]
    body = token.split(".")[1]
    found: dict[str, Any] = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def test_a_user_that_is_signed_here_is_let_in(operated: ServerProcess, tmp_path: Path) -> None:
    cli = CommandLine(tmp_path, operated.url)
    flags = ("--allow-pub", "orders.>", "--allow-sub", "_INBOX.>", "--expires", "1h")
    path = signed(cli, ACCOUNT_KEY, *flags).ok().json["file"]

    assert cli("rtt", "1", "--creds", path).ok().err == ""
    assert cli("pub", "orders.new", "x", "--creds", path, "-q").ok().err == ""
    assert cli("pub", "invoices.new", "x", "--creds", path).code == 9
    assert cli("creds", "check", path).ok().err == ""


def test_signing_keys_sign_for_their_account(operated: ServerProcess, tmp_path: Path) -> None:
    cli = CommandLine(tmp_path, operated.url)
    account = ("--account", ACCOUNT_KEY.public)
    plain = signed(cli, ACCOUNT_SIGNER, *account).ok().json
    scoped = signed(cli, SCOPED_SIGNER, *account, "--scoped", name="bob").ok().json

    assert (plain["account"], plain["issuer"]) == (ACCOUNT_KEY.public, ACCOUNT_SIGNER.public)
    assert cli("pub", "any", "x", "--creds", plain["file"], "-q").ok().err == ""
    assert cli("pub", "scoped.a", "x", "--creds", scoped["file"], "-q").ok().err == ""
    assert cli("pub", "any", "x", "--creds", scoped["file"]).code == 9


def test_a_user_of_another_account_is_not_let_in(operated: ServerProcess, tmp_path: Path) -> None:
    cli = CommandLine(tmp_path, operated.url)
    path = signed(cli, SCOPED_SIGNER).ok().json["file"]

    assert cli("creds", "check", path).ok().err == ""  # only a server knows
    assert cli("rtt", "1", "--creds", path).code == 7


def test_what_flags_say_is_in_the_token(alone: CommandLine) -> None:
    flags = (
        "--allow-pub", "a", "--allow-pub", "b.>", "--deny-pub", "b.c", "--allow-sub", "q queue",
        "--deny-sub", "d", "--allow-responses", "3", "--response-ttl", "2s", "--subscriptions", "10",
        "--max-payload", "1KiB", "--source", "10.0.0.0/8", "--connection-type", "MQTT", "--bearer",
        "--tag", "one", "--expires", "2099-01-01", "--not-before", "2026-01-01",
    )  # fmt: skip
    found = signed(alone, ACCOUNT_KEY, *flags).ok().json
    claims = claims_of(found["file"])

    assert claims == found["claims"]
    assert claims["nats"] == {
        "tags": ["one"], "pub": {"allow": ["a", "b.>"], "deny": ["b.c"]},
        "sub": {"allow": ["q queue"], "deny": ["d"]}, "resp": {"max": 3, "ttl": 2_000_000_000}, "subs": 10,
        "data": -1, "payload": 1024, "src": ["10.0.0.0/8"], "bearer_token": True,
        "allowed_connection_types": ["MQTT"], "type": "user", "version": 2,
    }  # fmt: skip
    assert (claims["iss"], claims["name"], claims["exp"]) == (ACCOUNT_KEY.public, "alice", 4070908800)
    assert (found["expires"], found["not_before"]) == ("2099-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
    shown = dict(line.split("\t") for line in alone("creds", "show", found["file"]).ok().lines)
    assert (shown["publish_allow"], shown["subscriptions"], shown["seed"]) == ("a, b.>", "10", "[set]")
    assert stat.S_IMODE(Path(found["file"]).stat().st_mode) == 0o600


def test_no_seed_is_printed(alone: CommandLine) -> None:
    ran = signed(alone, ACCOUNT_KEY).ok()
    path = ran.json["file"]
    seed = next(line for line in Path(path).read_text().splitlines() if line.startswith("SU"))
    shown = [
        ran,
        *(alone("creds", word, path, *more) for word in ("show", "check") for more in ((), ("-j",))),
    ]

    for each in shown:
        assert seed not in each.out + each.err
        assert ACCOUNT_KEY.seed not in each.out + each.err
    assert alone("creds", "show", path, "--json").ok().json["seed"] == "[set]"


def test_token_and_seed_become_a_file(alone: CommandLine) -> None:
    token = user_token()
    jwt, seed = saved(alone, token, "t.jwt"), saved(alone, USER_KEY.seed, "u.nk")
    path = str(alone.folder / "made.creds")
    made = alone("creds", "make", "--jwt", jwt, "--seed", seed, "--output", path, "--json").ok().json

    assert (made["file"], made["user"]) == (path, USER_KEY.public)
    assert Path(path).read_text().splitlines()[1] == token
    assert USER_KEY.seed in Path(path).read_text().splitlines()
    assert alone("creds", "make", "--jwt", jwt, "--seed", seed, "-o", path).code == 10
    assert alone("creds", "make", "--jwt", jwt, "--seed", seed).code == 2
    other = saved(alone, alone("nkey", "gen", "user").ok().out, "other.nk")
    refused = alone("creds", "make", "--jwt", jwt, "--seed", other, "-o", str(alone.folder / "no.creds"))
    assert (refused.code, (alone.folder / "no.creds").exists()) == (2, False)


def test_a_decorated_token_is_read(alone: CommandLine) -> None:
    text = f"-----BEGIN NATS USER JWT-----\n{user_token()}\n------END NATS USER JWT------\n"
    jwt, path = saved(alone, text, "t.jwt"), str(alone.folder / "made.creds")

    made = alone("creds", "make", "--jwt", jwt, "--seed", "-", "-o", path, stdin=USER_KEY.seed.encode())

    assert made.ok().lines == [f"written to {path}"]
    assert alone("creds", "check", path, "-q").ok().lines == [path]


def broken(outer: dict[str, Any] | None = None, **nats: Any) -> str:
    return credentials(USER_KEY, user_token(ACCOUNT_KEY, USER_KEY, outer, **nats))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nothing", "credentials file"),
        (credentials(USER_KEY, account_token()), "not user claim"),
        (credentials(USER_KEY, user_token()[:-4] + "AAAA"), "signature"),
        (credentials(USER_KEY, user_token(ACCOUNT_KEY, ACCOUNT_KEY)), "and the seed for"),
        (broken({"exp": 1_700_000_001}), "claim is expired"),
        (broken({"nbf": 4_000_000_000}), "not yet valid"),
        (broken(pub={"allow": ["a b"]}), "not allowed to contain queue"),
        (broken(src=["nowhere"]), "invalid cidr"),
    ],
)
def test_what_no_server_would_take_is_3(alone: CommandLine, text: str, problem: str) -> None:
    ran = alone("creds", "check", saved(alone, text, "bad.creds"), "--json")

    assert (ran.code, ran.json["valid"]) == (3, False)
    assert any(problem in each for each in ran.json["problems"])
    assert alone("creds", "check", str(alone.folder / "bad.creds")).code == 3


def test_claims_that_cannot_be_read_are_said(alone: CommandLine) -> None:
    deep = urlsafe_b64encode(b"[" * 5000).decode().rstrip("=")
    for body in (deep, "AAAA", urlsafe_b64encode(b"[]").decode().rstrip("=")):
        path = saved(alone, credentials(USER_KEY, f"a.{body}.c"), "odd.creds")

        assert alone("creds", "show", path).code == 7
        assert alone("creds", "check", path).code == 3


def test_what_expires_soon_is_3_only_if_it_has_to_last(alone: CommandLine) -> None:
    path = saved(alone, broken({"exp": int(time.time()) + 3600}), "soon.creds")

    assert alone("creds", "check", path).ok().err == ""
    assert alone("creds", "check", path, "--valid-for", "30m").ok().err == ""
    assert alone("creds", "check", path, "--valid-for", "2h").code == 3


def test_wrong_use_is_said_before_anything_is_written(alone: CommandLine) -> None:
    for flags in (
        ("--allow-sub", "a b c"),
        ("--source", "nowhere"),
        ("--account", "nobody"),
        ("--scoped",),
        ("--scoped", "--account", ACCOUNT_SIGNER.public, "--allow-pub", "a"),
        ("--expires", "2020-01-01"),
        ("--user-seed", saved(alone, ACCOUNT_KEY.seed, "a.nk")),
    ):
        ran = signed(alone, ACCOUNT_KEY, *flags)

        assert ran.code == 2, flags
        assert not (alone.folder / "alice.creds").exists()
    assert signed(alone, USER_KEY).code == 2
    assert alone("creds", "user", "make", "alice").code == 2
    assert alone("creds", "show", str(alone.folder / "none.creds")).code == 4


def test_a_file_is_not_written_over_and_a_seed_is_kept(alone: CommandLine) -> None:
    seed = saved(alone, USER_KEY.seed, "user.nk")
    first = signed(alone, ACCOUNT_KEY, "--user-seed", seed).ok().json

    assert first["user"] == USER_KEY.public
    assert signed(alone, ACCOUNT_KEY).code == 10
    assert USER_KEY.seed in Path(first["file"]).read_text()
