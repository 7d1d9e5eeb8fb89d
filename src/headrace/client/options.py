"""Options of a connection, and where addresses and credentials come from that are not given.

Values only: nothing is connected here. The environment variables are those of the `nats` tool.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.address import (
    DEFAULT_URL,
    Credentials,
    ServerAddress,
    parse_addresses,
    read_credentials_file,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping


class ConnectOptions(NamedTuple):
    """The options of a connection. Durations are in seconds.

    `credentials` win over those in the URL, which win over NATS_USER, NATS_PASSWORD, NATS_TOKEN and
    NATS_CREDS (a credentials file). `tls` is used whenever the server or the URL asks for TLS; None means the
    system's certificates. `tls_first`: TLS comes before the server's first line (its `handshake_first`).
    `timeout` is for all of connecting. `ping_interval` is the silence after which a PING is sent; after
    `ping_max` unanswered ones the connection counts as lost. Replies come to subjects that begin with
    `inbox_prefix`. `trace` is called with each request and each answer: an arrow and the subject, the
    payload.
    """

    name: str = "headrace"
    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None
    tls_first: bool = False
    timeout: float = 5.0
    ping_interval: float = 20.0
    ping_max: int = 2
    echo: bool = True
    inbox_prefix: str = "_INBOX"
    trace: Callable[[str, bytes], None] | None = None


def resolve_addresses(
    url: str | None, environment: Mapping[str, str] | None = None
) -> tuple[ServerAddress, ...]:
    """The servers of `url`, else of NATS_URL, else the local default. Raises: AddressError."""
    env = os.environ if environment is None else environment
    return parse_addresses(url or env.get("NATS_URL") or DEFAULT_URL)


def resolve_credentials(
    address: ServerAddress, given: Credentials | None, environment: Mapping[str, str] | None = None
) -> Credentials:
    """Return the credentials given, else those of the URL, else those of the environment, else none."""
    env = os.environ if environment is None else environment
    if given:
        return given
    if address.credentials:
        return address.credentials
    if "NATS_USER" in env:
        return Credentials(user=env["NATS_USER"], password=env.get("NATS_PASSWORD", ""))
    if "NATS_TOKEN" not in env and "NATS_CREDS" in env:
        return read_credentials_file(env["NATS_CREDS"])
    return Credentials(token=env.get("NATS_TOKEN"))
