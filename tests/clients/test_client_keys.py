"""The blocking client proves who it is with keys: nkeys on every server, user JWTs on the Go server."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from harness.processes import NATS_SERVER, ServerProcess
from headrace.client.address import read_credentials_file, read_seed_file
from headrace.client.blocking import connect
from headrace.client.errors import CredentialsError, ServerError
from headrace.client.options import ConnectOptions
from headrace.protocol.nkeys import KeyKind, encode_public

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Pair:
    def __init__(self, kind: KeyKind) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.public = encode_public(kind, self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        raw = bytes([18 << 3 | kind >> 5, kind << 3 & 0xFF]) + self.key.private_bytes_raw()
        whole = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
        self.seed = base64.b32encode(whole).decode().rstrip("=")


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def jwt(issuer: Pair, subject: str, kind: str, claims: dict[str, Any]) -> str:
    header = {"typ": "JWT", "alg": "ed25519-nkey"}
    body = {
        "jti": "X", "iat": 1_700_000_000, "iss": issuer.public, "name": kind, "sub": subject,
        "nats": {**claims, "type": kind, "version": 2},
    }  # fmt: skip
    text = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(body).encode())}"
    return f"{text}.{base64url(issuer.key.sign(text.encode()))}"


def echo(server: ServerProcess, options: ConnectOptions) -> bytes:
    with connect(server.url, options) as nc:
        nc.subscribe("a")
        nc.publish("a", b"hello")
        return nc.receive(10.0).payloads[0]


def test_client_with_a_seed_is_the_user_of_that_key(
    any_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    mine, other = Pair(KeyKind.USER), Pair(KeyKind.USER)
    server = any_server(f"authorization {{ users: [{{ nkey: {mine.public} }}] }}\n")
    for pair in (mine, other):
        (tmp_path / "seed").write_text(pair.seed)
        options = ConnectOptions(credentials=read_seed_file(tmp_path / "seed"))
        if pair is mine:
            assert echo(server, options) == b"hello"
        else:
            with pytest.raises(ServerError, match="Authorization Violation"):
                echo(server, options)


def test_client_with_a_seed_is_refused_by_name_where_there_are_no_keys(
    any_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    (tmp_path / "seed").write_text(Pair(KeyKind.USER).seed)
    options = ConnectOptions(credentials=read_seed_file(tmp_path / "seed"))
    with pytest.raises(CredentialsError, match="asks for no signature"):
        echo(any_server(), options)


def test_client_with_a_credentials_file_is_the_user_of_its_jwt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, account, user = Pair(KeyKind.OPERATOR), Pair(KeyKind.ACCOUNT), Pair(KeyKind.USER)
    no_limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    account_jwt = jwt(operator, account.public, "account", {"limits": {**no_limits, "wildcards": True}})
    user_jwt = jwt(
        account, user.public, "user", {"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
    )
    config = (
        f"operator: {jwt(operator, operator.public, 'operator', {})}\n"
        f"resolver: MEMORY\nresolver_preload: {{ {account.public}: {account_jwt} }}\n"
    )
    file = tmp_path / "user.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )
    with ServerProcess(NATS_SERVER, tmp_path, config=config) as server:
        assert echo(server, ConnectOptions(credentials=read_credentials_file(file))) == b"hello"
        monkeypatch.setenv("NATS_CREDS", str(file))
        assert echo(server, ConnectOptions()) == b"hello"
        file.write_text(file.read_text().replace(user.seed, Pair(KeyKind.USER).seed))
        with pytest.raises(ServerError, match="Authorization Violation"):
            echo(server, ConnectOptions(credentials=read_credentials_file(file)))
