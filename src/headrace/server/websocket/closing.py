"""Close codes of WebSocket: which one says why a connection ended.

Source: RFC 6455, section 7.4; which code goes with which reason is the Go server's choice (2.15.1).
"""

from __future__ import annotations

from typing import Final

from headrace.engine.reasons import CloseReason

_NORMAL: Final = 1000
_GOING_AWAY: Final = 1001
_PROTOCOL_ERROR: Final = 1002
_POLICY_VIOLATION: Final = 1008
_TOO_BIG: Final = 1009
_INTERNAL_ERROR: Final = 1011

_CODES: Final = {
    CloseReason.CLIENT_CLOSED: _NORMAL,
    CloseReason.AUTHENTICATION_TIMEOUT: _POLICY_VIOLATION,
    CloseReason.AUTHENTICATION_VIOLATION: _POLICY_VIOLATION,
    CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED: _POLICY_VIOLATION,
    CloseReason.MAX_CONNECTIONS_EXCEEDED: _POLICY_VIOLATION,
    CloseReason.MAX_CONTROL_LINE_EXCEEDED: _POLICY_VIOLATION,
    CloseReason.MAX_SUBSCRIPTIONS_EXCEEDED: _POLICY_VIOLATION,
    CloseReason.PARSE_ERROR: _PROTOCOL_ERROR,
    CloseReason.PROTOCOL_VIOLATION: _PROTOCOL_ERROR,
    CloseReason.BAD_CLIENT_PROTOCOL_VERSION: _PROTOCOL_ERROR,
    CloseReason.MAX_PAYLOAD_EXCEEDED: _TOO_BIG,
    CloseReason.STALE_CONNECTION: _GOING_AWAY,
    CloseReason.SERVER_SHUTDOWN: _GOING_AWAY,
}
_UNSAID: Final = frozenset(
    (
        CloseReason.SLOW_CONSUMER_PENDING_BYTES,
        CloseReason.SLOW_CONSUMER_WRITE_DEADLINE,
        CloseReason.WRITE_ERROR,
        CloseReason.READ_ERROR,
        CloseReason.TLS_HANDSHAKE_ERROR,
    )
)


def close_code(reason: CloseReason) -> int | None:
    """The code for the close frame; None where none is sent, because it would not arrive."""
    return None if reason in _UNSAID else _CODES.get(reason, _INTERNAL_ERROR)
