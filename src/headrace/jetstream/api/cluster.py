"""Requests that mean something in a cluster only: refused here, as a server that stands alone does.

Those to the system account are `system_requests`'. Source: JetStream specification, 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.api.request import Endpoint
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from headrace.jetstream.api.request import Request


def refuse(_request: Request) -> None:
    """Refuse a request that only a cluster of JetStream servers can do. Raises: ApiError."""
    raise ApiError(10010)


def _endpoint(kind: str, names: int) -> Endpoint:
    return Endpoint(kind, refuse, names, names, checks_level=False)


ENDPOINTS: Final = {
    b"STREAM.LEADER.STEPDOWN": _endpoint("stream_leader_stepdown", 1),
    b"CONSUMER.LEADER.STEPDOWN": _endpoint("consumer_leader_stepdown", 2),
    b"STREAM.PEER.REMOVE": _endpoint("stream_remove_peer", 1),
    b"STREAM.PEER.EVACUATE": _endpoint("stream_evacuate_peer", 1),
    b"STREAM.CANCEL_MOVE": _endpoint("stream_cancel_move", 1),
}
