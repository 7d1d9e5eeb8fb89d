"""Opening a connection: where to, as whom, over TLS or not, and what INFO and CONNECT say.

Lives up to the first PONG, which proves that the server took CONNECT; afterwards `blocking` takes over.
Source: client protocol specification, section 2.
"""

from __future__ import annotations

import os
import ssl
import time
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.client.address import DEFAULT_URL, Credentials, ServerAddress, parse_addresses
from headrace.client.codec import PING, Control, FrameParser, Op, encode_connect
from headrace.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectError,
    CredentialsError,
    ServerError,
)
from headrace.client.signing import read_credentials_file
from headrace.client.transport import SocketStream, open_stream
from headrace.errors import ProtocolError
from headrace.protocol.user_seeds import SeedError, prove
from headrace.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NON_FATAL: Final = (
    "Permissions Violation",
    "Invalid Subject",
    "Invalid Publish Subject",
    "maximum subscriptions exceeded",
)
"""Beginnings of the error texts after which the server keeps the connection; all others end it."""


class ConnectOptions(Struct, frozen=True):
    """The options of a connection. Durations are in seconds.

    `credentials` win over those in the URL, which win over NATS_USER, NATS_PASSWORD, NATS_TOKEN and
    NATS_CREDS (a credentials file). `tls` is used whenever the server or the URL asks for TLS; None means the
    system's certificates. `ping_interval` is the silence after which a PING is sent; after `ping_max`
    unanswered ones the connection counts as lost. Replies come to subjects that begin with `inbox_prefix`.
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


class Handshake(Struct):
    """An open connection whose CONNECT the server has accepted."""

    address: ServerAddress
    stream: SocketStream
    parser: FrameParser
    info: dict[str, object]


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


def open_connection(addresses: tuple[ServerAddress, ...], options: ConnectOptions) -> Handshake:
    """The first server that can be reached and takes CONNECT.

    Raises: ConnectError if none can be reached, with the reason of each; ServerError if one refuses
    (wrong credentials are not tried on the next); ClientTimeoutError if the last one does not answer.
    """
    failures: list[ClientError] = []
    for address in addresses:
        try:
            return _open_one(address, options)
        except ServerError:
            raise
        except ClientError as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    raise ConnectError("; ".join(map(str, failures))) from failures[-1]


def _open_one(address: ServerAddress, options: ConnectOptions) -> Handshake:
    deadline = time.monotonic() + options.timeout
    try:
        stream = open_stream(address.host, address.port, options.timeout)
    except TimeoutError as error:
        raise ClientTimeoutError(f"{address} did not accept a connection in {options.timeout:g} s") from error
    except OSError as error:
        raise ConnectError(f"cannot connect to {address}: {error.strerror or error}") from error
    try:
        return _shake_hands(stream, address, options, deadline)
    except BaseException:
        stream.close()
        raise


def _shake_hands(
    stream: SocketStream, address: ServerAddress, options: ConnectOptions, deadline: float
) -> Handshake:
    parser = FrameParser()
    if options.tls_first:
        _start_tls(stream, address, options, deadline)
    controls = _controls(stream, parser, address, deadline)
    first = next(controls)
    if first.op is not Op.INFO:
        raise _refusal(first, address)
    info = _read_info(first, address)
    if not options.tls_first:
        offered = bool(info.get("tls_required") or info.get("tls_available"))
        if (address.tls or options.tls is not None) and not offered:
            raise ConnectError(f"{address} does not offer TLS")
        if info.get("tls_required") or ((address.tls or options.tls is not None) and offered):
            _start_tls(stream, address, options, deadline)
    connect = encode_connect(connect_fields(resolve_credentials(address, options.credentials), options, info))
    _write_all(stream, connect + PING, address, deadline)
    for control in controls:
        if control.op is Op.PONG:
            break
        if control.op is Op.ERR:
            raise _refusal(control, address)
        if control.op is Op.INFO:
            info |= _read_info(control, address)
    return Handshake(address, stream, parser, info)


def connect_fields(
    credentials: Credentials, options: ConnectOptions, info: Mapping[str, object]
) -> dict[str, object]:
    """The JSON of CONNECT. Raises: CredentialsError for a seed that cannot be used."""
    fields: dict[str, object] = {
        "verbose": False,
        "pedantic": False,
        "echo": options.echo,
        "headers": bool(info.get("headers", False)),
        "no_responders": bool(info.get("headers", False)),
        "protocol": 1,
        "lang": "python-headrace",
        "version": __version__,
        "name": options.name,
    }
    if credentials.user is not None:
        fields |= {"user": credentials.user, "pass": credentials.password or ""}
    if credentials.token is not None:
        fields["auth_token"] = credentials.token
    if credentials.seed is not None:
        nonce = info.get("nonce")
        if not isinstance(nonce, str):
            if credentials.jwt is None:
                raise CredentialsError("the server asks for no signature: it knows no users with keys")
            nonce = ""  # a server without users takes any JWT
        try:
            fields |= prove(credentials.seed, nonce, jwt=credentials.jwt)
        except SeedError as error:
            raise CredentialsError(str(error)) from None
    return fields


def server_error(control: Control) -> ServerError:
    """The exception of an -ERR."""
    return ServerError(control.text, fatal=not control.text.startswith(NON_FATAL))


def _refusal(control: Control, address: ServerAddress) -> ClientError:
    if control.op is Op.ERR:
        return server_error(control)
    return ConnectError(f"{address} does not greet like a NATS server (it sent {control.op.value!r})")


def _read_info(control: Control, address: ServerAddress) -> dict[str, object]:
    try:
        return control.info()
    except ProtocolError as error:
        raise ConnectError(f"{address} does not speak NATS: {error}") from error


def _start_tls(
    stream: SocketStream, address: ServerAddress, options: ConnectOptions, deadline: float
) -> None:
    context = options.tls or ssl.create_default_context()
    try:
        stream.start_tls(context, address.host, max(deadline - time.monotonic(), 0.001))
    except TimeoutError as error:
        raise ClientTimeoutError(f"no TLS with {address} in {options.timeout:g} s") from error
    except OSError as error:
        raise ConnectError(f"no TLS with {address}: {error}") from error


def _controls(
    stream: SocketStream, parser: FrameParser, address: ServerAddress, deadline: float
) -> Iterator[Control]:
    """Controls as they arrive. Raises: ClientTimeoutError, ConnectError."""
    while True:
        yield from parser.take_controls()
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise ClientTimeoutError(f"{address} accepted the connection and then did not answer in time")
        stream.wait(remaining)
        try:
            data = stream.read(parser.expected)
            if data == b"":
                raise ConnectError(f"{address} closed the connection during the hand-shake")
            if data:
                parser.feed(data)
        except ProtocolError as error:
            raise ConnectError(f"{address} does not speak NATS: {error}") from error
        except OSError as error:
            raise ConnectError(f"the connection to {address} broke: {error}") from error


def _write_all(stream: SocketStream, data: bytes, address: ServerAddress, deadline: float) -> None:
    view = memoryview(data)
    while view:
        if time.monotonic() > deadline:
            raise ClientTimeoutError(f"{address} accepted the connection and then took no bytes")
        stream.wait(0.05, to_write=True)
        try:
            view = view[stream.write(view) :]
        except OSError as error:
            raise ConnectError(f"the connection to {address} broke: {error}") from error
