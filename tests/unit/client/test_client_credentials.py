"""Seeds, credentials files and contexts: what is read, what is refused, and that no secret is shown."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.address import Credentials, parse_address, read_credentials_file, read_seed_file
from headrace.client.contexts import read_context
from headrace.client.errors import CredentialsError
from headrace.client.machine import connect_fields
from headrace.client.options import ConnectOptions, resolve_credentials
from headrace.client.saved_context import SavedContext
from headrace.client.server_info import ServerFacts
from headrace.protocol.nkeys import verify_signature

if TYPE_CHECKING:
    from pathlib import Path

# A pair made for this test; its secret is the SHA-256 of "headrace test".
SEED = "SUAEMEORE3JIHJESYSL5GIVXPT5OWFDSAZ5JC5POLYGJEFPXM3EZ7PMFPQ"
USER = "UCVMBFHIFOOEXOVQR6LUNCIZO37ISWFNBWW2S4ODFF7KGQRCQCARIOCH"

CREDS = f"""-----BEGIN NATS USER JWT-----
header.claims.signature
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------

*************************************************************
"""


def other_kind() -> str:
    """The same key as the seed of an account."""
    raw = bytearray(base64.b32decode(SEED + "=" * (-len(SEED) % 8))[:-2])
    raw[0], raw[1] = 18 << 3, raw[1] & 7
    whole = bytes(raw) + binascii.crc_hqx(bytes(raw), 0).to_bytes(2, "little")
    return base64.b32encode(whole).decode().rstrip("=")


def proof(credentials: Credentials, nonce: str) -> dict[str, str]:
    """The fields of CONNECT by which a key answers a nonce."""
    fields = connect_fields(credentials, ConnectOptions(), ServerFacts({"nonce": nonce}))
    return {name: str(fields[name]) for name in ("jwt", "nkey", "sig") if name in fields}


def test_seed_signs_a_nonce_as_the_user_it_belongs_to(tmp_path: Path) -> None:
    file = tmp_path / "user.nk"
    file.write_text(f"# mine\n{SEED}\n")
    fields = proof(read_seed_file(file), "nonce-of-the-server")
    assert fields["nkey"] == USER
    assert verify_signature(USER, b"nonce-of-the-server", fields["sig"])
    assert not verify_signature(USER, b"another", fields["sig"])


def test_credentials_file_gives_jwt_and_seed_and_never_shows_them(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(CREDS)
    found = read_credentials_file(file)
    assert found == Credentials(jwt="header.claims.signature", seed=SEED)
    assert found
    assert SEED not in repr(found)
    assert "claims" not in repr(found)
    fields = proof(found, "n")
    assert fields["jwt"] == "header.claims.signature"
    assert verify_signature(USER, b"n", fields["sig"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no NATS USER JWT"),
        (CREDS.split("*****", maxsplit=1)[0], "has no USER NKEY SEED"),
        (CREDS.replace(SEED, SEED[:-1] + "A"), "the checksum of the seed is wrong"),
        (CREDS.replace(SEED, SEED[:-2]), "has no seed of a user"),
        (CREDS.replace(SEED, other_kind()), "is not one of a user"),
    ],
)
def test_credentials_file_that_cannot_be_used_is_an_error_without_the_secret(
    tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "user.creds"
    file.write_text(text)
    with pytest.raises(CredentialsError, match=says) as caught:
        read_credentials_file(file)
    assert SEED[:20] not in str(caught.value)


def test_secret_files_that_are_no_files_or_no_text_are_errors(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="cannot read"):
        read_credentials_file(tmp_path / "none")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(CredentialsError, match="not a text file"):
        read_seed_file(binary)
    binary.write_bytes(b"nothing")
    with pytest.raises(CredentialsError, match="has no seed"):
        read_seed_file(binary)


def test_connect_with_a_seed_signs_what_the_server_asked() -> None:
    fields = connect_fields(Credentials(seed=SEED), ConnectOptions(), ServerFacts({"nonce": "abc"}))
    assert fields["nkey"] == USER
    assert verify_signature(USER, b"abc", str(fields["sig"]))
    with pytest.raises(CredentialsError, match="asks for no signature"):
        connect_fields(Credentials(seed=SEED), ConnectOptions(), ServerFacts({}))
    with pytest.raises(CredentialsError, match="the seed has no seed of a user"):
        connect_fields(Credentials(seed="SUNONE"), ConnectOptions(), ServerFacts({"nonce": "abc"}))


def test_connect_with_a_jwt_to_a_server_that_asks_for_no_signature_signs_nothing_of_its() -> None:
    fields = connect_fields(Credentials(jwt="a.b.c", seed=SEED), ConnectOptions(), ServerFacts({}))
    assert fields["jwt"] == "a.b.c"
    assert verify_signature(USER, b"", str(fields["sig"]))


def test_environment_may_name_a_credentials_file(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(CREDS)
    environment = {"NATS_CREDS": str(file)}
    assert resolve_credentials(parse_address("h"), None, environment).seed == SEED
    environment["NATS_TOKEN"] = "t"
    assert resolve_credentials(parse_address("h"), None, environment) == Credentials(token="t")


# -- contexts of the nats tool


def context(folder: Path, fields: object, name: str = "mine") -> dict[str, str]:
    place = folder / "nats" / "context"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.json").write_text(fields if isinstance(fields, str) else json.dumps(fields))
    return {"XDG_CONFIG_HOME": str(folder)}


def test_context_as_the_tool_writes_it(tmp_path: Path) -> None:
    creds = tmp_path / "user.creds"
    creds.write_text(CREDS)
    fields = {
        "description": "Far", "url": "tls://far:4222", "socks_proxy": "", "token": "", "user": "",
        "password": "", "creds": str(creds), "nkey": "", "cert": "/c", "key": "/k", "ca": "/a", "nsc": "",
        "jetstream_domain": "hub", "jetstream_api_prefix": "", "jetstream_event_prefix": "",
        "inbox_prefix": "_INBOX.me", "user_jwt": "", "color_scheme": "", "tls_first": True,
    }  # fmt: skip
    assert read_context("mine", context(tmp_path, fields)) == SavedContext(
        "tls://far:4222", Credentials(jwt="header.claims.signature", seed=SEED), "/a", "/c", "/k", True,
        "hub", None, "_INBOX.me",
    )  # fmt: skip


EMPTY: dict[str, object] = {
    "description": "", "url": "", "socks_proxy": "", "token": "", "user": "", "password": "", "creds": "",
    "nkey": "", "cert": "", "key": "", "ca": "", "nsc": "", "jetstream_domain": "",
    "jetstream_api_prefix": "", "jetstream_event_prefix": "", "inbox_prefix": "", "user_jwt": "",
    "user_seed": "", "color_scheme": "",
    "tls_first": False, "windows_cert_store": "", "windows_cert_match_by": "", "windows_cert_match": "",
    "windows_ca_certs_match": None,
}  # fmt: skip
"""All fields that the tool writes (jsm.go, July 2026), each with nothing in it."""
SERVERS = "nats://a:4222,tls://b:4222"
PLAIN = SavedContext(credentials=Credentials())
USED: list[tuple[dict[str, object], SavedContext]] = [
    ({}, PLAIN),
    ({"name": "mine", "description": "Shop", "color_scheme": "blue"}, PLAIN),
    ({"url": SERVERS}, PLAIN._replace(url=SERVERS)),
    ({"token": "t"}, PLAIN._replace(credentials=Credentials(token="t"))),
    ({"user": "u", "password": "p"}, PLAIN._replace(credentials=Credentials("u", "p"))),
    ({"user": "u"}, PLAIN._replace(credentials=Credentials("u", ""))),
    ({"creds": "$HERE/user.creds"}, PLAIN._replace(credentials=Credentials(jwt="header.claims.signature",
                                                                           seed=SEED))),
    ({"creds": "file://$HERE/user.creds"}, PLAIN._replace(credentials=Credentials(
        jwt="header.claims.signature", seed=SEED))),
    ({"nkey": "$HERE/user.nk"}, PLAIN._replace(credentials=Credentials(seed=SEED))),
    ({"user_jwt": "j", "user_seed": SEED}, PLAIN._replace(credentials=Credentials(jwt="j", seed=SEED))),
    ({"cert": "$HERE/c", "key": "~/k", "ca": "/a"}, PLAIN._replace(
        tls_cert_file="$HERE/c", tls_key_file="~/k", tls_ca_file="/a")),
    ({"tls_first": True}, PLAIN._replace(tls_first=True)),
    ({"jetstream_domain": "hub"}, PLAIN._replace(jetstream_domain="hub")),
    ({"jetstream_api_prefix": "JS.acc.API"}, PLAIN._replace(jetstream_api_prefix="JS.acc.API")),
    ({"jetstream_event_prefix": "JS.acc.EVENT"}, PLAIN._replace(jetstream_event_prefix="JS.acc.EVENT")),
    ({"inbox_prefix": "_INBOX.me"}, PLAIN._replace(inbox_prefix="_INBOX.me")),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "meant"), USED, ids=[" ".join(fields) or "empty" for fields, _ in USED])
def test_every_field_that_the_tool_writes_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], meant: SavedContext
) -> None:
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.setenv("HOME", "/my/own")
    (tmp_path / "user.creds").write_text(CREDS)
    (tmp_path / "user.nk").write_text(SEED)
    found = read_context("mine", context(tmp_path, {**EMPTY, **fields}))

    assert found == SavedContext(*(expanded(each, tmp_path) for each in meant))
    assert fields.keys() <= {*EMPTY, "name"}


def expanded(value: object, folder: Path) -> Any:
    """A value of the table, with the folder of the test in the place of its variable."""
    if not isinstance(value, str):
        return value
    return value.replace("$HERE", str(folder)).replace("~", "/my/own")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"socks_proxy": "socks5://p"}, "uses socks_proxy, which this client does not support"),
        ({"nsc": "nsc://x/y"}, "uses nsc,"),
        ({"windows_cert_store": "machine"}, "uses windows_cert_store,"),
        ({"windows_cert_match_by": "issuer"}, "uses windows_cert_match_by,"),
        ({"windows_cert_match": "me"}, "uses windows_cert_match,"),
        ({"windows_ca_certs_match": ["them"]}, "uses windows_ca_certs_match,"),
        ({"user": "u", "creds": "/c"}, "user and creds exclude each other"),
        ({"creds": "/c", "nkey": "/n"}, "creds and nkey exclude each other"),
        ({"token": "t", "user_jwt": "j", "user_seed": "s"}, "token and user_jwt exclude each other"),
        ({"user_jwt": "j"}, "user_jwt and user_seed need each other"),
        ({"key": "/k"}, "cert and key need each other"),
        ({"password": "op://vault/item", "user": "u"}, "in the store of another program"),
    ],
)
def test_fields_that_cannot_be_used_are_refused_by_name(
    tmp_path: Path, fields: dict[str, object], says: str
) -> None:
    with pytest.raises(CredentialsError, match=re.escape(says)):
        read_context("mine", context(tmp_path, {**EMPTY, **fields}))


def test_context_lies_below_home_where_nothing_else_is_said(tmp_path: Path) -> None:
    context(tmp_path / ".config", {"user": "u"})
    assert read_context("mine", {"HOME": str(tmp_path)}).credentials == Credentials("u", "")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("{", "is not JSON"),
        ([], "is not a JSON object"),
        ({"url": 7}, "url is not a text"),
        ({"cert": "/c"}, "cert and key need each other"),
        ({"nsc": "nsc://x"}, "uses nsc, which this client does not support"),
        ({"user": "u", "token": "t"}, "user and token exclude each other"),
        ({"creds": "/does/not/exist"}, "cannot read /does/not/exist"),
    ],
)
def test_context_that_cannot_be_used_is_an_error(tmp_path: Path, fields: object, says: str) -> None:
    with pytest.raises(CredentialsError, match=says):
        read_context("mine", context(tmp_path, fields))


def test_context_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    environment = context(tmp_path, {}, "a")
    context(tmp_path, {}, "b")
    with pytest.raises(CredentialsError, match="there are: a, b"):
        read_context("c", environment)
    for name in ("", "../a", ".a"):
        with pytest.raises(CredentialsError, match="is not the name of a context"):
            read_context(name, environment)
