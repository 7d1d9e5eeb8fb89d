"""Credentials and permissions, accepted and refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bcrypt
import pytest
from nats.errors import Error as NatsError

from harness.nats_py import settle
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from clients.conftest import Clients
    from harness.processes import ServerProcess

SEED: Final = "SUAAOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBZ5FE"
NKEY: Final = "UDVEU3DD4KOFECV66VIHWEZOYX4ZKR3WV27L464SIIPOU2IUI3JCYSJF"
OTHER_SEED: Final = "SUAAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCAIBAEAQCHYGE"


def hashed(secret: str) -> str:
    return bcrypt.hashpw(secret.encode(), bcrypt.gensalt(4)).decode()


METHODS: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "token": ('authorization { token: "s3cret" }', {"token": "s3cret"}, {"token": "wrong"}),
    "token-bcrypt": (
        f'authorization {{ token: "{hashed("s3cret")}" }}',
        {"token": "s3cret"},
        {"token": "S3cret"},
    ),
    "password": (
        "authorization { user: joe, password: pw }",
        {"user": "joe", "password": "pw"},
        {"user": "joe", "password": "no"},
    ),
    "password-bcrypt": (
        f'authorization {{ users: [{{user: joe, password: "{hashed("pw")}"}}] }}',
        {"user": "joe", "password": "pw"},
        {"user": "joe", "password": ""},
    ),
    "unknown-user": (
        "authorization { users: [{user: joe, password: pw}, {user: amy, password: pw2}] }",
        {"user": "amy", "password": "pw2"},
        {"user": "eve", "password": "pw"},
    ),
    "nothing-given": ("authorization { user: joe, password: pw }", {"user": "joe", "password": "pw"}, {}),
}
"""Configuration, right credentials, wrong credentials."""


@pytest.mark.parametrize("method", METHODS)
async def test_right_credentials_connect_and_wrong_ones_are_refused(
    any_server: Callable[..., ServerProcess], connect: Clients, method: str
) -> None:
    config, right, wrong = METHODS[method]
    server = any_server(config)

    client = await connect(server, **right)
    subscription = await client.subscribe("a")
    await client.publish("a", b"x")
    assert (await subscription.next_msg(timeout=PATIENCE)).data == b"x"

    with pytest.raises(NatsError, match=r"(?i)authorization|no servers"):
        await connect(server, **wrong)
    assert "Authorization Violation" in " ".join(connect.errors)
    await settle(client)


async def test_credentials_in_the_url_connect(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server("authorization { user: joe, password: pw }")

    client = await connect(server.url.replace("nats://", "nats://joe:pw@"))

    await settle(client)


async def test_nkey_signature_connects_and_another_seed_is_refused(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    pytest.importorskip("nkeys")
    server = any_server(f"authorization {{ users: [{{nkey: {NKEY}}}] }}")

    client = await connect(server, nkeys_seed_str=SEED)
    await settle(client)

    with pytest.raises(NatsError, match=r"(?i)authorization|no servers"):
        await connect(server, nkeys_seed_str=OTHER_SEED)


PERMISSIONS: Final = """
    authorization { users: [
      {user: joe, password: pw, permissions: {
        publish: {allow: ["ok.>", "_INBOX.>"], deny: "ok.secret"}, subscribe: {allow: ["ok.>", "_INBOX.>"]}}}
      {user: root, password: pw}
    ] }
    """


async def test_forbidden_publish_is_reported_and_dropped(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(PERMISSIONS)
    joe = await connect(server, user="joe", password="pw")
    root = await connect(server, user="root", password="pw")
    everything = await root.subscribe(">")
    await settle(root)

    await joe.publish("no.way", b"x")
    assert 'permissions violation for publish to "no.way"' in (await connect.next_error()).lower()
    await joe.publish("ok.secret", b"x")
    assert 'permissions violation for publish to "ok.secret"' in (await connect.next_error()).lower()
    await joe.publish("ok.fine", b"x")

    assert (await everything.next_msg(timeout=PATIENCE)).subject == "ok.fine"
    assert joe.is_connected


async def test_forbidden_subscription_is_reported_and_gets_nothing(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(PERMISSIONS)
    joe = await connect(server, user="joe", password="pw")
    root = await connect(server, user="root", password="pw")

    forbidden = await joe.subscribe("no.way")
    assert 'permissions violation for subscription to "no.way"' in (await connect.next_error()).lower()
    allowed = await joe.subscribe("ok.way")
    await settle(joe)
    await root.publish("no.way", b"x")
    await root.publish("ok.way", b"x")

    assert (await allowed.next_msg(timeout=PATIENCE)).subject == "ok.way"
    assert forbidden.pending_msgs == 0


async def test_no_auth_user_stands_for_clients_without_credentials(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server("""
        no_auth_user: guest
        authorization { users: [
          {user: guest, password: g, permissions: {publish: "g.>", subscribe: "g.>"}}
          {user: joe, password: pw}
        ] }
        """)
    guest = await connect(server)

    subscription = await guest.subscribe("g.a")
    await guest.publish("h.a", b"x")
    assert 'violation for publish to "h.a"' in (await connect.next_error()).lower()
    await guest.publish("g.a", b"x")

    assert (await subscription.next_msg(timeout=PATIENCE)).data == b"x"


async def test_unauthenticated_client_cannot_use_the_server(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server("authorization { token: t }")

    with server.connect() as wire:
        wire.send(b"SUB > 1\r\n")
        assert wire.take_rest() == b"-ERR 'Authorization Violation'\r\n"
    await settle(await connect(server, token="t"))
