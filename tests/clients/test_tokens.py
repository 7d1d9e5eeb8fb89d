"""Operator mode and callouts with nats-py as client and as service, against ours and the Go server."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from nats.errors import Error as NatsError

from harness.claims import (
    ACCOUNT_KEY,
    NO_LIMITS,
    OPERATOR_KEY,
    USER_KEY,
    account_token,
    claims_of,
    operator_token,
    user_token,
)
from harness.keys import ACCOUNT, USER, credentials, key_pair
from harness.nats_py import settle
from harness.operators import SYSTEM, configuration, signed
from harness.processes import HEADRACES, ServerProcess
from harness.waiting import PATIENCE
from headrace.core.callout import SUBJECT
from headrace.protocol.jwt.decoding import decode_authorization_request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nats.aio.msg import Msg

    from clients.conftest import Clients
    from harness.processes import Program

ISSUER: Final = key_pair(ACCOUNT, "callout")
OTHER: Final = key_pair(USER, "another user")
CALLOUT: Final = f"""
    accounts {{
        AUTH {{ users: [{{user: service, password: s3rvice}}] }}
        T {{ users: [{{user: local, password: l0cal}}] }}
    }}
    authorization {{
        timeout: 5
        auth_callout {{ issuer: {ISSUER.public}, account: AUTH, auth_users: [service] }}
    }}
"""


def written(folder: Path, name: str, token: str, key: Any) -> str:
    path = folder / f"{name}.creds"
    path.write_text(credentials(key, token))
    return str(path)


async def test_credentials_file_lets_in(
    any_server: Callable[..., ServerProcess], connect: Clients, tmp_path: Path
) -> None:
    server = any_server(configuration({ACCOUNT_KEY.public: account_token()}))
    client = await connect(server, user_credentials=written(tmp_path, "right", user_token(), USER_KEY))
    subscription = await client.subscribe("a")
    await client.publish("a", b"x")
    assert (await subscription.next_msg(timeout=PATIENCE)).data == b"x"
    with pytest.raises(NatsError):
        await connect(server, user_credentials=written(tmp_path, "wrong", user_token(), OTHER))
    await settle(client)


async def test_request_between_accounts_of_tokens_is_answered(
    any_server: Callable[..., ServerProcess], connect: Clients, tmp_path: Path
) -> None:
    importer = key_pair(ACCOUNT, "importer")
    tokens = {
        ACCOUNT_KEY.public: account_token(exports=[{"name": "s", "subject": "svc", "type": "service"}]),
        importer.public: account_token(
            subject=importer,
            imports=[
                {
                    "name": "s",
                    "subject": "svc",
                    "account": ACCOUNT_KEY.public,
                    "type": "service",
                    "local_subject": "theirs",
                }
            ],
        ),
    }
    server = any_server(configuration(tokens))
    service = await connect(server, user_credentials=written(tmp_path, "a", user_token(), USER_KEY))
    caller = await connect(server, user_credentials=written(tmp_path, "b", user_token(importer), USER_KEY))

    async def answer(message: Msg) -> None:
        await message.respond(b"pong")

    await service.subscribe("svc", cb=answer)
    await settle(service)
    assert (await caller.request("theirs", b"ping", timeout=PATIENCE)).data == b"pong"


async def serve(client: Any) -> None:
    """A callout service that knows joe."""

    async def decide(message: Msg) -> None:
        asked = decode_authorization_request(message.data.decode())
        nats: dict[str, Any] = {"error": "unknown user"}
        if asked.connect.user == "joe" and asked.connect.password == "j0e":
            claims = claims_of(ISSUER, USER_KEY, "user", NO_LIMITS, {"name": "joe", "aud": "T"})
            nats = {"jwt": ISSUER.token({**claims, "sub": asked.user_nkey})}
        response = claims_of(ISSUER, ISSUER, "authorization_response", nats, {"aud": asked.server.server_id})
        await message.respond(ISSUER.token({**response, "sub": asked.user_nkey}).encode())

    await client.subscribe(SUBJECT, cb=decide)
    await settle(client)


async def test_callout_service_decides(any_server: Callable[..., ServerProcess], connect: Clients) -> None:
    server = any_server(CALLOUT)
    await serve(await connect(server, user="service", password="s3rvice"))

    clients = await asyncio.gather(*(connect(server, user="joe", password="j0e") for _ in range(20)))
    subscription = await clients[0].subscribe("a")
    await settle(clients[0])
    await clients[1].publish("a", b"x")
    assert (await subscription.next_msg(timeout=PATIENCE)).data == b"x"
    for wrong in ({"user": "joe", "password": "no"}, {"user": "eve", "password": "j0e"}, {}):
        with pytest.raises(NatsError):
            await connect(server, **wrong)
    # Its own users go through it as well.
    with pytest.raises(NatsError):
        await connect(server, user="local", password="l0cal")


# --- what the log shows ---


def is_in_the_log(server: ServerProcess, secret: str) -> bool:
    return secret in server.log or base64.b64encode(secret.encode()).decode() in server.log


@pytest.mark.parametrize("program", HEADRACES, ids=str)
async def test_no_level_of_the_log_shows_a_secret(program: Program, connect: Clients, tmp_path: Path) -> None:
    """JWTs, seeds, passwords, tokens and signatures, of those let in and of those refused."""
    tokens = {ACCOUNT_KEY.public: account_token(), SYSTEM.public: account_token(subject=SYSTEM)}
    mine, system = user_token(), user_token(SYSTEM, OTHER)
    with ServerProcess(program, tmp_path, "-D", "-V", "-DV", config=configuration(tokens)) as server:
        client = await connect(server, user_credentials=written(tmp_path, "a", mine, USER_KEY))
        boss = await connect(server, user_credentials=written(tmp_path, "s", system, OTHER))
        new = account_token(outer={"iat": 1_700_000_100})
        await boss.request(
            f"$SYS.REQ.ACCOUNT.{ACCOUNT_KEY.public}.CLAIMS.UPDATE", new.encode(), timeout=PATIENCE
        )
        with server.connect() as wire:
            signature = signed(OTHER, wire.info["nonce"])
            said = f'"jwt":"{mine}","sig":"{signature}","pass":"p4ss","auth_token":"t0ken"'
            wire.send(b"CONNECT {" + said.encode() + b"}\r\n")
            assert b"Authorization Violation" in wire.take_rest()
        await settle(client)
        server.wait_for_line("CLAIMS.UPDATE")
    given = [mine, system, new, *tokens.values(), operator_token()]
    secrets = [USER_KEY.seed, OTHER.seed, OPERATOR_KEY.seed, signature, "p4ss", "t0ken", *given]
    secrets += [part for token in given for part in token.split(".")[1:]]
    assert re.search(r"\[TRC\].*CONNECT", server.log), "it is traced"
    assert [secret for secret in secrets if is_in_the_log(server, secret)] == []


@pytest.mark.parametrize("program", HEADRACES, ids=str)
async def test_no_level_of_the_log_shows_what_a_callout_is_told(
    program: Program, connect: Clients, tmp_path: Path
) -> None:
    with ServerProcess(program, tmp_path, "-DV", config=CALLOUT) as server:
        await serve(await connect(server, user="service", password="s3rvice"))
        await connect(server, user="joe", password="j0e")
        with pytest.raises(NatsError):
            await connect(server, user="joe", password="wr0ng")
        with pytest.raises(NatsError):
            await connect(server, token="t0ken")
        server.wait_for_line("unknown user")
    assert re.search(r"\[TRC\].*CONNECT", server.log), "it is traced"
    for secret in ("s3rvice", "j0e", "wr0ng", "t0ken", "l0cal", "eyJ"):
        assert not is_in_the_log(server, secret)
