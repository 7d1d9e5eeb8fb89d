"""Why a connection was closed: the numbers the engine uses and the words monitoring shows.

The numbers are mirrored in `structs.pxd` (`cdef enum reason_t`); tests/unit/engine checks that.
Source: the `reason` texts of the Go server's /connz?state=closed.
"""

from __future__ import annotations

from enum import IntEnum


class CloseReason(IntEnum):
    """The reason for which a connection was closed.

    Each member's `text` is what /connz shows and the log prints.
    """

    NONE = 0
    CLIENT_CLOSED = 1
    AUTHENTICATION_TIMEOUT = 2
    AUTHENTICATION_VIOLATION = 3
    TLS_HANDSHAKE_ERROR = 4
    SLOW_CONSUMER_PENDING_BYTES = 5
    SLOW_CONSUMER_WRITE_DEADLINE = 6
    WRITE_ERROR = 7
    READ_ERROR = 8
    PARSE_ERROR = 9
    STALE_CONNECTION = 10
    PROTOCOL_VIOLATION = 11
    BAD_CLIENT_PROTOCOL_VERSION = 12
    WRONG_PORT = 13
    MAX_ACCOUNT_CONNECTIONS_EXCEEDED = 14
    MAX_CONNECTIONS_EXCEEDED = 15
    MAX_PAYLOAD_EXCEEDED = 16
    MAX_CONTROL_LINE_EXCEEDED = 17
    MAX_SUBSCRIPTIONS_EXCEEDED = 18
    SERVER_SHUTDOWN = 20
    NO_RESPONDERS_REQUIRES_HEADERS = 33
    AUTHENTICATION_EXPIRED = 34
    CREDENTIALS_REVOKED = 35
    PROXY_NOT_TRUSTED = 36
    PROXY_REQUIRED = 37
    KICKED = 38
    DUPLICATE_ROUTE = 39
    ROUTE_REMOVED = 40
    WRONG_GATEWAY = 41
    MISSING_ACCOUNT = 42
    CLUSTER_NAME_CONFLICT = 43
    DUPLICATE_SERVER_NAME = 44
    DUPLICATE_LEAF_NODE = 45
    CLUSTER_NAMES_IDENTICAL = 46
    MINIMUM_VERSION_REQUIRED = 47
    DUPLICATE_CLIENT_ID = 48
    INTERNAL_ERROR = 100

    @property
    def text(self) -> str:
        return _TEXTS[self]


_TEXTS = {
    CloseReason.NONE: "",
    CloseReason.CLIENT_CLOSED: "Client Closed",
    CloseReason.AUTHENTICATION_TIMEOUT: "Authentication Timeout",
    CloseReason.AUTHENTICATION_VIOLATION: "Authentication Failure",
    CloseReason.TLS_HANDSHAKE_ERROR: "TLS Handshake Failure",
    CloseReason.SLOW_CONSUMER_PENDING_BYTES: "Slow Consumer (Pending Bytes)",
    CloseReason.SLOW_CONSUMER_WRITE_DEADLINE: "Slow Consumer (Write Deadline)",
    CloseReason.WRITE_ERROR: "Write Error",
    CloseReason.READ_ERROR: "Read Error",
    CloseReason.PARSE_ERROR: "Parse Error",
    CloseReason.STALE_CONNECTION: "Stale Connection",
    CloseReason.PROTOCOL_VIOLATION: "Protocol Violation",
    CloseReason.BAD_CLIENT_PROTOCOL_VERSION: "Bad Client Protocol Version",
    CloseReason.WRONG_PORT: "Incorrect Port",
    CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED: "Maximum Account Connections Exceeded",
    CloseReason.MAX_CONNECTIONS_EXCEEDED: "Maximum Connections Exceeded",
    CloseReason.MAX_PAYLOAD_EXCEEDED: "Maximum Message Payload Exceeded",
    CloseReason.MAX_CONTROL_LINE_EXCEEDED: "Maximum Control Line Exceeded",
    CloseReason.MAX_SUBSCRIPTIONS_EXCEEDED: "Maximum Subscriptions Exceeded",
    CloseReason.SERVER_SHUTDOWN: "Server Shutdown",
    CloseReason.NO_RESPONDERS_REQUIRES_HEADERS: "No Responders Requires Headers",
    CloseReason.AUTHENTICATION_EXPIRED: "Authentication Expired",
    CloseReason.CREDENTIALS_REVOKED: "Credentials Revoked",
    CloseReason.PROXY_NOT_TRUSTED: "Proxy Not Trusted",
    CloseReason.PROXY_REQUIRED: "Proxy Required",
    CloseReason.KICKED: "Kicked",
    CloseReason.DUPLICATE_ROUTE: "Duplicate Route",
    CloseReason.ROUTE_REMOVED: "Route Removed",
    CloseReason.WRONG_GATEWAY: "Wrong Gateway",
    CloseReason.MISSING_ACCOUNT: "Missing Account",
    CloseReason.CLUSTER_NAME_CONFLICT: "Cluster Name Conflict",
    CloseReason.DUPLICATE_SERVER_NAME: "Duplicate Server Name",
    CloseReason.DUPLICATE_LEAF_NODE: "Duplicate Remote LeafNode Connection",
    CloseReason.CLUSTER_NAMES_IDENTICAL: "Cluster Names Identical",
    CloseReason.MINIMUM_VERSION_REQUIRED: "Minimum Version Required",
    CloseReason.DUPLICATE_CLIENT_ID: "Duplicate Client ID",
    CloseReason.INTERNAL_ERROR: "Internal Error",
}
