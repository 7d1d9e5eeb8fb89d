"""The stream of the demonstration: how far it has come, asked over a connection of its own each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.client.blocking import connect
from headrace.client.errors import (
    ClientTimeoutError,
    ConnectError,
    ConnectionLostError,
    JetStreamError,
    NoRespondersError,
)
from headrace.client.jetstream import JetStream
from headrace.client.options import resolve_addresses
from headrace.errors import HeadraceError

STREAM: Final = "FLIGHTS"
SUBJECTS: Final = "flights.>"

LOST: Final = (ConnectError, ConnectionLostError, ClientTimeoutError, NoRespondersError)
"""Exceptions of a question while a server is away or not ready yet."""


class StreamError(HeadraceError):
    """The stream cannot be used for a run; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Look:
    """The state of the demonstration's stream; `last_sequence` is 0 for a stream that is not there."""

    last_sequence: int
    version: str = ""


def look(url: str) -> Look:
    """Ask the server for the stream's state. Raises: the errors of `LOST` and other kinds of ClientError."""
    with connect(url) as connection:
        state = JetStream(connection).state(STREAM)
        return Look(0 if state is None else state.last_sequence, connection.server_info.version)


def look_unused(url: str) -> Look:
    """Look at a stream that must not have been used: row i of the feed is to be message i.

    Raises: StreamError if it has been, or if there is no JetStream; as `look`.
    """
    where = ", ".join(map(str, resolve_addresses(url)))  # without credentials
    try:
        found = look(url)
    except NoRespondersError as error:
        raise StreamError(f"no JetStream answers at {where}: start the server with -js") from error
    except JetStreamError as error:
        raise StreamError(f"stream {STREAM} at {where}: {error}") from error
    if found.last_sequence:
        raise StreamError(
            f"stream {STREAM} at {where} has been used before, its last sequence is {found.last_sequence}; "
            f"remove it first: nats stream rm {STREAM}"
        )
    return found
