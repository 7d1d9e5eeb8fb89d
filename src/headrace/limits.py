"""Every named limit with its default; each says what happens when it is reached.

Plain numbers only. Sizes are bytes, durations are seconds unless the name ends otherwise.
Source: shared words of the client protocol specification (sections 1, 3 and 9) and ADR 0004.
"""

from typing import Final

DEFAULT_PORT: Final = 4222
DEFAULT_HOST: Final = "0.0.0.0"  # the Go server's default

MAX_CONTROL_LINE: Final = 4096
"""Argument bytes of one control line; more closes with 'maximum control line exceeded'."""

MAX_PAYLOAD: Final = 1 << 20
"""Header plus payload bytes of one message; more closes with 'Maximum Payload Violation'."""

MAX_PAYLOAD_WARNING: Final = 8 << 20
"""A configured max_payload above this is allowed but warned about at start."""

MAX_PENDING: Final = 64 << 20
"""Bytes waiting for one connection; more makes it a slow consumer, which is cut off."""

MAX_CONNECTIONS: Final = 65536
"""Open client connections; one more gets 'maximum connections exceeded'."""

MAX_CLOSED_CLIENTS: Final = 10_000
"""Closed connections that /connz?state=closed remembers; one more makes it forget the oldest."""

MAX_CONSUMERS: Final = 1000
"""Consumers of a stream that, like its account, names no limit; one more is refused (10026)."""

PING_INTERVAL: Final = 120.0
PING_MAX: Final = 2
"""Unanswered PINGs; one more closes with 'Stale Connection'."""

FIRST_PING_DELAY: Final = 2.0
"""Seconds from CONNECT to the first PING, which measures the round trip; a shorter ping_interval wins."""

WRITE_DEADLINE: Final = 10.0
"""A write that does not finish within this makes the connection a slow consumer."""

AUTH_TIMEOUT: Final = 2.0
"""A client that must authenticate and has not sent CONNECT by then gets 'Authentication Timeout'."""

TLS_TIMEOUT: Final = 2.0
"""A TLS handshake not finished by then is closed; the auth timeout is at least this plus one second."""

OCSP_TIMEOUT: Final = 2.0
"""ocsp_peer: a responder that has not answered by then is not there."""

TLS_HANDSHAKE_FIRST_FALLBACK: Final = 0.05
"""handshake_first "auto": wait this long for a ClientHello, then send INFO first."""

PROXY_HEADER_TIMEOUT: Final = 5.0
"""proxy_protocol: a header that is not complete by then, or a client silent so long, is closed."""

WEBSOCKET_HANDSHAKE_TIMEOUT: Final = 10.0
"""TLS handshake and upgrade request of a WebSocket client, unless `handshake_timeout` says something else."""

WEBSOCKET_MESSAGE_PAYLOADS: Final = 8
"""A WebSocket message may be this many times max_payload, inflated too; a larger one closes with 1009."""

WEBSOCKET_MAX_MESSAGE: Final = 64 << 20
"""The largest WebSocket message in bytes, whatever max_payload is."""

WEBSOCKET_BEFORE_CONNECT: Final = 64 << 10
"""Bytes that a WebSocket client which must authenticate may send before it has; more closes with 1008."""

MQTT_ACK_WAIT: Final = 30.0
"""mqtt: a message of QoS 1 or 2 that was not acknowledged by then is sent again."""

MQTT_MAX_ACK_PENDING: Final = 1024
"""mqtt: messages of a subscription that may wait for an acknowledgement; further ones stay in the stream."""

MQTT_API_TIMEOUT: Final = 5.0
"""mqtt: a JetStream that has not answered by then is not there, and the client's connection is closed."""

MQTT_RECEIVE_MAXIMUM: Final = 1024
"""mqtt: messages of QoS 1 and 2 that a client of MQTT 5 may have unacknowledged; one more closes (0x93)."""

MQTT_TOPIC_ALIASES: Final = 10
"""mqtt: topic aliases that a client of MQTT 5 may use; a higher one closes (0x94)."""

MAX_MQTT_FILTERS: Final = 10_000
"""Filters of one SUBSCRIBE or UNSUBSCRIBE, worked off at once; with more the connection is closed (0x97)."""

MAX_MQTT_USER_PROPERTIES: Final = 1024
"""User properties that one MQTT packet may have beside PUBLISH; with more the connection is closed (0x97)."""

MQTT_CONNECT_TIMEOUT: Final = 30.0
"""An MQTT client of a server without users that has not sent CONNECT by then is closed."""

MQTT_PACKET_OVERHEAD: Final = 64 << 10
"""Bytes that an MQTT packet may have beside a payload of max_payload; a larger one closes (0x95)."""

MQTT_TCP_KEEP_ALIVE: Final = 15
"""Seconds without a byte after which the system asks whether an MQTT client is there, and between questions;
a client that is not is closed. One whose keep alive is 0 is not asked otherwise."""

CONSOLE_CONNECTIONS: Final = 32
"""Connections at a time that ask for files of the console; one more gets 503 and is closed."""

CONSOLE_REQUESTS: Final = 10
"""Requests of one connection for files of the console; with the answer to the last one it is closed."""

CONSOLE_REQUEST_TIMEOUT: Final = 5.0
"""Seconds for a whole request for a file of the console, also for the next one; then it is closed."""

CONSOLE_ANSWER_TIMEOUT: Final = 30.0
"""Seconds in which an answer with a file of the console must have been taken; then it is closed."""

CONSOLE_HEAD: Final = 8 << 10
"""Bytes of a request's head for a file of the console; a larger one gets 431 and is closed."""

CONSOLE_GOODBYE: Final = 1.0
"""Seconds in which what else a browser sends is passed over, so that it reads why it was refused."""

SERVICE_RESPONSE_THRESHOLD: Final = 120.0
"""Seconds a service of another account may take for a response (or the next one); later ones reach nobody."""

SERVICE_RESPONSES: Final = 16384
"""Requests through one service import that responses are awaited for; one more gives the oldest up."""

SERVICE_CHAIN: Final = 16
"""Accounts one request may pass through; the next one does not get it."""

ROUTE_POOL_SIZE: Final = 3
"""Connections to one peer over which the accounts are spread, unless it wants more."""

ROUTE_AUTH_TIMEOUT: Final = 2.0
"""A peer that has not sent CONNECT by then gets 'Authentication Timeout'."""

ROUTE_DIAL_TIMEOUT: Final = 1.0
"""A connection to a peer that is not there by then has failed."""

FIRST_REACH: Final = 0.25
"""Seconds that a start waits for the servers that are configured, before it lets clients in."""

CONNECT_ERROR_REPORTS: Final = 3600
"""Failed attempts to reach a server that was never met: so many make one error in the log, beside the first
one; the others are debug lines.
"""

RECONNECT_ERROR_REPORTS: Final = 1
"""The same of a server that was met before."""

ROUTE_RETRY: Final = 1.0
"""Seconds between attempts to reach a configured peer, and to reach one again."""

ROUTE_RETRY_MOST: Final = 30.0
"""The longest pause with `connect_backoff`."""

ROUTE_JITTER: Final = 0.1
"""Seconds, at most, that are added before a peer is reached again, lest both reach each other at once."""

ROUTE_PING_INTERVAL: Final = 30.0
"""PINGs to peers are never further apart."""

ROUTE_FIRST_PING_DELAY: Final = 1.0

ROUTE_CONTROL_LINES: Final = 16
"""A line of a peer may be this many times as long as a client's."""

ROUTE_COMPRESSION_RTTS: Final = (0.01, 0.05, 0.1)
"""Seconds of a round trip up to which `s2_auto` means uncompressed, fast, better; more: best."""

ROUTE_ACCOUNT_TIMEOUT: Final = 2.0
"""Seconds in which a peer should say that it is ready for an account's own connection.

It is made in any case.
"""

ROUTE_ANTI_ENTROPY: Final = 30.0
"""Seconds, and up to a fifth more, between two rounds of anti-entropy: the search for holes in the mesh."""

ROUTE_UNKNOWN_ACCOUNTS: Final = 1024
"""Names of accounts that are not here and that a peer has told interest in, kept for each connection."""

ROUTE_BRIDGE_WAIT: Final = 3.0
"""Seconds without an older server that speaks both route protocols, before this one bridges the two."""

ROUTE_REMINDERS: Final = 4
"""Peers that all others are told of at each look; as many missing connections to each peer are made then."""

SERVING_LOOK: Final = 3.0
"""Seconds that a server of a cluster looks for another one with its JetStream or streaming, at most."""

OWNER_LOOK: Final = 10.0
"""Seconds that a start waits until it is known which server of several has the streams of their bucket."""

SERVING_TIE: Final = 1.0
"""Seconds by which one of two must have served longer to stay; else their IDs decide."""

SERVING_NEW: Final = 10.0
"""Seconds in which one ends where a server of another kind has JetStream; later it stays."""

GATEWAY_SOLICIT_DELAY: Final = 1.0
"""Seconds after the start before other clusters are reached: they may come by themselves."""

GATEWAY_PING_INTERVAL: Final = 15.0
"""PINGs over gateways are never further apart."""

GATEWAY_UNKNOWN: Final = 1024
"""The most clusters that are reached although nobody configured them, and the most addresses kept of one."""

LEAF_PORT: Final = 7422
"""The port that leaf nodes connect to unless their configuration names another."""

LEAF_RETRY: Final = 1.0
"""Seconds, and up to as many more, between attempts to reach a hub."""

LEAF_INFO_TIMEOUT: Final = 1.0
"""A hub that has not sent INFO by then is given up."""

LEAF_CONNECT_TIMEOUT: Final = 2.0
"""A hub that has not accepted the leaf node's CONNECT by then is given up, too."""

LEAF_AUTH_TIMEOUT: Final = 2.0
"""A leaf node that has not sent CONNECT by then gets 'Authentication Timeout'."""

LEAF_RETRY_AFTER_LOOP: Final = 30.0
"""Seconds before a hub is reached again that was in a circle, has the same name, or permits too little."""

LEAF_RETRY_AFTER_VERSION: Final = 5.0
"""Seconds before a hub is reached again that wants a newer version."""

LEAF_INFO_SIZE: Final = 65536
"""Bytes that an INFO may have which comes before TLS."""

LAME_DUCK_DURATION: Final = 120.0
LAME_DUCK_GRACE_PERIOD: Final = 10.0

MAX_SIZE_DIGITS: Final = 9
"""Decimal digits a size on the wire may have; more is a bad argument."""
