"""Seeds, credentials files and TLS files, good and bad, and what CONNECT says of them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from harness.keys import ACCOUNT, USER, KeyPair, credentials
from headrace.attached.identity import AttachedIdentity, tls_context
from headrace.client.address import Credentials
from headrace.client.machine import connect_fields
from headrace.client.options import ConnectOptions
from headrace.client.server_info import ServerFacts
from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.streaming_options import NATSServerOptions
from headrace.errors import StartError
from headrace.protocol.nkeys import verify_signature

if TYPE_CHECKING:
    from pathlib import Path

KEY = KeyPair(USER, bytes(range(32)))
NOBODY = AuthorizationOptions()


def identity(**options: str) -> AttachedIdentity:
    return AttachedIdentity(NATSServerOptions("nats://h:1", **options), NOBODY)  # type: ignore[arg-type]


def said(own: AttachedIdentity) -> dict[str, object]:
    """The fields of CONNECT that answer the nonce `abc`."""
    fields = connect_fields(own.with_key(Credentials()), ConnectOptions(), ServerFacts({"nonce": "abc"}))
    return {name: fields[name] for name in ("jwt", "nkey", "sig", "user", "auth_token") if name in fields}


@pytest.mark.parametrize("text", ["{}\n", "# a comment\n{}", "-----BEGIN USER NKEY SEED-----\n{}\n------END"])
def test_seed_signs_the_nonce(tmp_path: Path, text: str) -> None:
    file = tmp_path / "user.nk"
    file.write_text(text.format(KEY.seed))

    fields = said(identity(nkey_seed_file=str(file)))

    assert set(fields) == {"nkey", "sig"}
    assert fields["nkey"] == KEY.public
    assert verify_signature(KEY.public, b"abc", str(fields["sig"]))


def test_credentials_give_the_jwt_and_a_signature(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    jwt = KeyPair(ACCOUNT, b"a" * 32).jwt(KEY, "user")
    file.write_text(credentials(KEY, jwt))

    fields = said(identity(credentials=str(file)))

    assert fields["jwt"] == jwt
    assert "nkey" not in fields
    assert verify_signature(KEY.public, b"abc", str(fields["sig"]))


def test_files_are_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "user.nk"
    file.write_text(KEY.seed)
    own = identity(nkey_seed_file=str(file))
    own.check()
    other = KeyPair(USER, b"b" * 32)

    file.write_text(other.seed)

    assert said(own)["nkey"] == other.public


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has no seed of a user"),
        (b"no seed here", "has no seed of a user"),
        (KEY.seed[:-1].encode(), "has no seed of a user"),
        ((KEY.seed[:-1] + "A").encode(), "the checksum of the seed is wrong"),
        (KeyPair(ACCOUNT, b"a" * 32).seed.encode(), "the seed is not one of a user"),
        (KEY.public.encode(), "has no seed of a user"),
        (b"\xff\xfe", "user.nk is not a text file"),
        (None, "cannot read .*user.nk: No such file"),
    ],
)
def test_file_that_is_no_seed_is_refused(tmp_path: Path, content: bytes | None, reason: str) -> None:
    file = tmp_path / "user.nk"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(StartError, match=reason) as raised:
        identity(nkey_seed_file=str(file)).check()

    assert KEY.seed[:-1] not in str(raised.value)


def test_credentials_without_a_jwt_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(KEY.seed)

    with pytest.raises(StartError, match="has no NATS USER JWT"):
        identity(credentials=str(file)).check()


def test_user_and_token_of_the_section_win_over_the_servers_flags() -> None:
    flags = AuthorizationOptions(users=(UserOptions(user="flag", password="f"),))

    def plain(authorization: AuthorizationOptions, **options: str) -> Credentials | None:
        options_ = NATSServerOptions("nats://h:1", **options)  # type: ignore[arg-type]
        return AttachedIdentity(options_, authorization).plain

    assert plain(flags, username="u", password="p") == Credentials(user="u", password="p")
    assert plain(flags, token="t") == Credentials(token="t")
    assert plain(flags, credentials="f") is None
    assert plain(flags) == Credentials(user="flag", password="f")
    assert plain(AuthorizationOptions(token="t")) == Credentials(token="t")
    assert plain(NOBODY) is None


def test_tls_only_when_something_asks_for_it() -> None:
    assert tls_context(NATSServerOptions("h:1")) is None
    assert tls_context(NATSServerOptions("h:1", secure=True)) is not None
    unchecked = tls_context(NATSServerOptions("h:1", skip_verify=True))
    assert unchecked is not None
    assert not unchecked.check_hostname


@pytest.mark.parametrize("option", ["client_ca", "client_cert"])
def test_tls_files_that_are_no_use_are_refused(tmp_path: Path, option: str) -> None:
    file = tmp_path / "x.pem"
    file.write_bytes(base64.b64encode(b"nonsense"))

    for path in (file, tmp_path / "none.pem"):
        with pytest.raises(StartError, match="TLS for the NATS server: "):
            tls_context(NATSServerOptions("h:1", **{option: str(path)}))  # type: ignore[arg-type]
