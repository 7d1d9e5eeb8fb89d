"""The endpoints of the API: from the name in a subject to the request's function.

What a request does is said by the modules beside this one; requests that mean something in a cluster only are
refused here, as a server that stands alone does. Source: JetStream specification, 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.api import account, backup, consumers, messages, streams
from headrace.jetstream.api.request import Endpoint
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from headrace.jetstream.api.request import Request


def _refuse(_request: Request) -> None:
    """Refuse a request that only a cluster of JetStream servers can do. Raises: ApiError."""
    raise ApiError(10010)


def _of_cluster(kind: str, names: int) -> Endpoint:
    return Endpoint(kind, _refuse, names, names, checks_level=False)


_OF_CLUSTERS: Final = {
    b"STREAM.LEADER.STEPDOWN": _of_cluster("stream_leader_stepdown", 1),
    b"CONSUMER.LEADER.STEPDOWN": _of_cluster("consumer_leader_stepdown", 2),
    b"STREAM.PEER.REMOVE": _of_cluster("stream_remove_peer", 1),
    b"STREAM.PEER.EVACUATE": _of_cluster("stream_evacuate_peer", 1),
    b"STREAM.CANCEL_MOVE": _of_cluster("stream_cancel_move", 1),
}

ENDPOINTS: Final[dict[bytes, Endpoint]] = {
    **account.ENDPOINTS,
    **streams.ENDPOINTS,
    **messages.ENDPOINTS,
    **consumers.ENDPOINTS,
    **_OF_CLUSTERS,
    **backup.ENDPOINTS,
}
"""The endpoints by the request's name: what stands between `$JS.API.` and the names of its stream and
consumer.
"""

_LONGEST_NAME: Final = max(name.count(b".") for name in ENDPOINTS) + 1


def find(rest: bytes) -> tuple[Endpoint, list[str]] | None:
    """The request that a subject means, without its prefix, and the names in it; None when it means none."""
    tokens = rest.split(b".")
    for length in range(min(len(tokens), _LONGEST_NAME), 0, -1):
        endpoint = ENDPOINTS.get(b".".join(tokens[:length]))
        if endpoint is not None and endpoint.fewest <= len(tokens) - length <= endpoint.most:
            return endpoint, [token.decode("utf-8", "replace") for token in tokens[length:]]
    return None
