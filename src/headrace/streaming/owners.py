"""The owner of a client ID: the user who registered it, for as long as it is registered.

STAN itself has no users: whoever may publish to its subjects may act for any ID. Where the server has users,
a request for an ID that another one registered is refused. A user is what credentials prove: with one token
for all there is none, nor where a callout names none. Who asks through another server of a cluster, a leaf
node or a gateway is not known here and is let through, as everybody is without users: other servers are
trusted. An ID that was closed, or given up by heartbeats, is free again for everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.service import REQUEST_INFO
from headrace.protocol.jetstream.headers import value

if TYPE_CHECKING:
    from headrace.core.service import Delivery
    from headrace.protocol.stan import ClientInfo


def user_of(delivery: Delivery) -> bytes:
    """Account and user of who published, as the host says it; b"": unknown, or none of the users."""
    return value(delivery.headers, REQUEST_INFO) if delivery.headers else b""


def is_anothers(info: ClientInfo, user: bytes) -> bool:
    """True if a client belongs to another user than the one who asks now."""
    return bool(info.owner) and bool(user) and info.owner != user
