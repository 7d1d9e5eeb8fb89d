"""Opening a connection over a socket: where to, over TLS or not, up to the PONG behind CONNECT.

Here live the socket's side and the time limit; what is said is `machine`'s. `blocking` takes over afterwards.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.errors import ClientError, ClientTimeoutError, ConnectError, ServerError
from headrace.client.machine import ClientMachine, ConnectionPhase
from headrace.client.options import resolve_credentials
from headrace.client.transport import SocketStream, open_stream

if TYPE_CHECKING:
    from headrace.client.address import ServerAddress
    from headrace.client.options import ConnectOptions


class Opening(NamedTuple):
    """A connected socket and the open machine of its connection."""

    stream: SocketStream
    machine: ClientMachine


def open_connection(addresses: tuple[ServerAddress, ...], options: ConnectOptions) -> Opening:
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


def _open_one(address: ServerAddress, options: ConnectOptions) -> Opening:
    deadline = time.monotonic() + options.timeout
    machine = ClientMachine(address, options, resolve_credentials(address, options.credentials))
    try:
        stream = open_stream(address.host, address.port, options.timeout)
    except TimeoutError as error:
        raise ClientTimeoutError(f"{address} did not accept a connection in {options.timeout:g} s") from error
    except OSError as error:
        raise ConnectError(f"cannot connect to {address}: {error.strerror or error}") from error
    try:
        machine.begin(time.monotonic())
        while machine.state is not ConnectionPhase.OPEN:
            if machine.error is not None:
                raise machine.error
            _go_on(stream, machine, options, deadline)
    except BaseException:
        stream.close()
        raise
    return Opening(stream, machine)


def _go_on(stream: SocketStream, machine: ClientMachine, options: ConnectOptions, deadline: float) -> None:
    """Do what the machine waits for. Raises: ClientTimeoutError, ConnectError."""
    if machine.state is ConnectionPhase.SECURING:
        _start_tls(stream, machine.address, options, deadline)
        machine.secured()
        return
    try:
        if machine.output:
            _write_all(stream, machine.take_output(), machine.address, deadline)
        _read(stream, machine, deadline)
    except ClientTimeoutError:  # an OSError, too
        raise
    except OSError as error:
        raise ConnectError(f"the connection to {machine.address} broke: {error}") from error


def _start_tls(
    stream: SocketStream, address: ServerAddress, options: ConnectOptions, deadline: float
) -> None:
    from headrace.client.tls import client_context

    context = options.tls or client_context()
    try:
        stream.start_tls(context, address.host, max(deadline - time.monotonic(), 0.001))
    except TimeoutError as error:
        raise ClientTimeoutError(f"no TLS with {address} in {options.timeout:g} s") from error
    except OSError as error:
        raise ConnectError(f"no TLS with {address}: {error}") from error


def _read(stream: SocketStream, machine: ClientMachine, deadline: float) -> None:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise ClientTimeoutError(f"{machine.address} accepted the connection and then did not answer in time")
    stream.wait(remaining)
    data = stream.read(machine.expected)
    if data:
        machine.receive(data, time.monotonic())
    elif data is not None:
        machine.close(ConnectError(f"{machine.address} closed the connection during the hand-shake"))


def _write_all(stream: SocketStream, data: bytearray, address: ServerAddress, deadline: float) -> None:
    view = memoryview(data)
    while view:
        if time.monotonic() > deadline:
            raise ClientTimeoutError(f"{address} accepted the connection and then took no bytes")
        stream.wait(0.05, to_write=True)
        view = view[stream.write(view) :]
