"""TLS in all its orders, with certificates made for the session."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from harness.certificates import tls_config
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from clients.conftest import Clients
    from harness.certificates import Authority
    from harness.processes import ServerProcess


async def converse(client: object) -> None:
    """One message to itself, of many TLS records."""
    subscription = await client.subscribe("tls")  # type: ignore[attr-defined]
    payload = bytes(range(256)) * 1000
    await client.publish("tls", payload)  # type: ignore[attr-defined]
    assert (await subscription.next_msg(timeout=PATIENCE)).data == payload


async def test_tls_after_info(
    any_server: Callable[..., ServerProcess], connect: Clients, authority: Authority
) -> None:
    server = any_server(tls_config(authority.issue("server")))

    await converse(await connect(server, tls=authority.client_context(), tls_hostname="localhost"))


async def test_tls_before_info(
    any_server: Callable[..., ServerProcess], connect: Clients, authority: Authority
) -> None:
    server = any_server(tls_config(authority.issue("server"), "handshake_first: true"))

    await converse(
        await connect(
            server, tls=authority.client_context(), tls_hostname="localhost", tls_handshake_first=True
        )
    )


async def test_tls_either_order_when_automatic(
    any_server: Callable[..., ServerProcess], connect: Clients, authority: Authority
) -> None:
    server = any_server(tls_config(authority.issue("server"), "handshake_first: auto"))
    context = authority.client_context()

    await converse(await connect(server, tls=context, tls_hostname="localhost", tls_handshake_first=True))
    await converse(await connect(server, tls=context, tls_hostname="localhost"))


async def test_tls_beside_plain_clients(
    any_server: Callable[..., ServerProcess], connect: Clients, authority: Authority
) -> None:
    server = any_server("allow_non_tls: true\n" + tls_config(authority.issue("server")))

    await converse(await connect(server))
    await converse(
        await connect(
            server.url.replace("nats:", "tls:"), tls=authority.client_context(), tls_hostname="localhost"
        )
    )


async def test_client_certificate_is_verified(
    any_server: Callable[..., ServerProcess], connect: Clients, authority: Authority, stranger: Authority
) -> None:
    config = tls_config(authority.issue("server"), f'ca_file: "{authority.file}"', "verify: true")
    server = any_server(config)
    known = authority.client_context(authority.issue("client"))
    unknown = authority.client_context(stranger.issue("client"))
    unnamed = authority.client_context()

    await converse(await connect(server, tls=known, tls_hostname="localhost"))
    for context in (unknown, unnamed):
        with pytest.raises(Exception):  # noqa: B017 - with TLS 1.3 it fails at some point later
            await (await connect(server, tls=context, tls_hostname="localhost")).flush(timeout=1)
    await converse(await connect(server, tls=known, tls_hostname="localhost"))

    wait_until(lambda: server.log.count("TLS handshake error") >= 2, "two refused handshakes in the log")


async def test_client_that_does_not_trust_the_server_leaves_and_others_are_served(
    any_server: Callable[..., ServerProcess], connect: Clients, authority: Authority, stranger: Authority
) -> None:
    server = any_server(tls_config(authority.issue("server")))

    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(server, tls=stranger.client_context(), tls_hostname="localhost")

    wait_until(lambda: "TLS handshake error" in server.log, "the failed handshake in the log")
    await converse(await connect(server, tls=authority.client_context(), tls_hostname="localhost"))


async def test_tls_with_credentials_and_pipelined_publishing(
    any_server: Callable[..., ServerProcess], connect: Clients, authority: Authority
) -> None:
    server = any_server(tls_config(authority.issue("server")) + "authorization { token: t }\n")
    client = await connect(server, tls=authority.client_context(), tls_hostname="localhost", token="t")
    subscription = await client.subscribe("many", pending_msgs_limit=-1)
    for number in range(5000):
        await client.publish("many", b"%d" % number)

    received = [(await subscription.next_msg(timeout=PATIENCE)).data for _ in range(5000)]
    assert received == [b"%d" % number for number in range(5000)]
