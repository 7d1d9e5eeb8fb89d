"""The channel of the demonstration: how far it has come, asked over a connection of its own each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.client.blocking import connect
from headrace.client.errors import ClientTimeoutError, ConnectError, ConnectionLostError, NoRespondersError
from headrace.client.options import resolve_addresses
from headrace.client.replay import channel_state
from headrace.errors import HeadraceError

CHANNEL: Final = "flights"

LOST: Final = (ConnectError, ConnectionLostError, ClientTimeoutError, NoRespondersError)
"""Exceptions of a question while a server is away or not ready yet."""


class ChannelError(HeadraceError):
    """The channel cannot be used for a run; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Look:
    """The state of the demonstration's channel.

    `server_id` names the server process; `last_sequence` is 0 for a channel that is not there.
    """

    server_id: str
    last_sequence: int
    version: str = ""


def look(url: str, cluster_id: str, channel: str = CHANNEL) -> Look:
    """Ask the server for the channel's state. Raises: the errors of `LOST` and other kinds of ClientError."""
    with connect(url) as connection:
        state = channel_state(connection, cluster_id, channel)
        last = 0 if state is None else state.last_sequence
        info = connection.server_info
        return Look(info.server_id, last, info.version)


def look_unused(url: str, cluster_id: str, channel: str = CHANNEL) -> Look:
    """Look at a channel that must not have been used: row i of the feed is to be sequence i.

    Raises: ChannelError if it has been, or if no streaming server answers; as `look`.
    """
    where = ", ".join(map(str, resolve_addresses(url)))  # without credentials
    try:
        found = look(url, cluster_id, channel)
    except NoRespondersError as error:
        raise ChannelError(f"no streaming server with cluster ID {cluster_id} answers at {where}") from error
    if found.last_sequence:
        raise ChannelError(
            f"channel {channel} at {where} has been used before, its last sequence is {found.last_sequence}; "
            f"remove it first: headrace streaming rm {channel}"
        )
    return found
