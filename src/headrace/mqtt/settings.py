"""The settings of MQTT that the hub of an account obeys."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MOST_REPLICAS: Final = 3
NEVER: Final = 0xFFFFFFFF
"""The session expiry of a session that does not end by itself."""


class HubSettings(Struct, frozen=True, kw_only=True):
    """The settings of a hub. Names ending in `_ns` are in ns, other times in seconds.

    `domain`: the JetStream domain to ask ("": what answers without one). `own_domain`: that of the server's
    own JetStream. `max_session_expiry`: None is no bound.
    """

    server_name: str
    ack_wait_ns: int = 30_000_000_000
    max_ack_pending: int = 1024
    api_timeout: float = 5.0
    domain: str = ""
    own_domain: str = ""
    replicas: int = 1
    consumer_memory_storage: bool = False
    consumer_inactive_threshold_ns: int = 0
    rejects_qos2: bool = False
    downgrades_qos2: bool = False
    max_session_expiry: int | None = None
