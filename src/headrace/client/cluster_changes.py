"""Changes of who leads a stream in a cluster and which servers have it.

Where there is no cluster a server refuses both. Never lives here: streams themselves (`api`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.client.jetstream_api import JetStreamApi


def step_down(api: JetStreamApi, stream: str, *, preferred: str | None = None) -> None:
    """Have the leader of a stream step down, if one likes for the server of a name.

    Raises: as `JetStreamApi.ask`; JetStreamMissingError if there is no such stream.
    """
    request: dict[str, Any] = {} if preferred is None else {"placement": {"preferred": preferred}}
    api.ask(f"STREAM.LEADER.STEPDOWN.{stream}", request or None)


def remove_peer(api: JetStreamApi, stream: str, peer: str) -> None:
    """Take a stream from a server, by its name; another server gets it where there is one.

    Raises: as `JetStreamApi.ask`; JetStreamMissingError if there is no such stream.
    """
    api.ask(f"STREAM.PEER.REMOVE.{stream}", {"peer": peer})
