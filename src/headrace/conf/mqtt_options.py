"""The options of the port for clients over MQTT.

Loaded where there is such a port. Durations are seconds, defaults are the Go server's; what it does not have
is about MQTT 5. Never lives here: reading (`conf.mqtt`), and what a session does with them (`headrace.mqtt`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.keys import Keyed, key, not_negative

if TYPE_CHECKING:
    from headrace.conf.tls_options import TLSOptions

_TWO_BYTES: Final = 65535


class MqttOptions(Keyed, frozen=True):
    """The port for clients over MQTT. `port` -1: the system chooses.

    `authorization`: a single user or token instead of the server's, with a `timeout` of its own.
    `ack_wait`, `max_ack_pending` 0: the file does not say it, and monitoring does not show it (`limits`).
    `stream_replicas` 0: as many as the server has routes, three at most. `consumer_inactive_threshold` 0:
    consumers stay. `max_session_expiry` and `max_keep_alive` None: what the client asks for.
    """

    host: str = key(limits.DEFAULT_HOST, "Address", aliases=("net",))
    port: int = key(-1, "Port; -1 lets the system choose", shown_default="-")
    tls: TLSOptions | None = key(
        None,
        "TLS of this port, as above; certificates are mapped to users only where it says so itself "
        "(`verify_and_map`). With `allow_non_tls` of the server clients may come without",
        "map",
        reload="always",
        is_lasting=True,
    )
    authorization: AuthorizationOptions = key(
        AuthorizationOptions(),
        "Who may connect here, in the place of the server's; see below",
        "map",
        aliases=("authentication",),
    )
    no_auth_user: str | None = key(None, "Who a client without a user name is here")
    ack_wait: float = key(
        0.0,
        "Time after which a message of QoS 1 or 2 is sent again; holds for new subscriptions",
        aliases=("ackwait",),
        shown_default=f"{limits.MQTT_ACK_WAIT:.0f}s",
        reload="lookup",
    )
    max_ack_pending: int = key(
        0,
        "Messages of QoS 1 and 2 that a subscription may have without acknowledgement, at most 65535; holds "
        "for new subscriptions",
        aliases=("max_pending", "max_inflight"),
        shown_default=str(limits.MQTT_MAX_ACK_PENDING),
        reload="lookup",
    )
    js_api_timeout: float = key(
        limits.MQTT_API_TIMEOUT,
        "Time that JetStream has for an answer",
        aliases=("api_timeout",),
        zero_is_default=True,
    )
    js_domain: str | None = key(None, "JetStream domain that sessions and messages are in")
    stream_replicas: int = key(
        0,
        "Replicas of new streams; those that are there stay as they are",
        shown_default="the number of routes, at most 3",
        normal=not_negative,
        reload="lookup",
    )
    consumer_memory_storage: bool = key(
        False, "Have the state of new consumers in memory only", reload="lookup"
    )
    consumer_inactive_threshold: float = key(
        0.0,
        "Time after which a consumer without its client vanishes",
        aliases=("consumer_auto_cleanup",),
        shown_default="never",
        reload="lookup",
    )
    reject_qos2_publish: bool = key(False, "Refuse messages and wills of QoS 2")
    downgrade_qos2_subscribe: bool = key(False, "Grant QoS 1 to subscriptions that ask for QoS 2")
    max_level: int = key(
        5, "The highest protocol level: 4 is MQTT 3.1.1, 5 is MQTT 5. Not in nats-server", reload="lookup"
    )
    max_session_expiry: float | None = key(
        None,
        "The longest time that a session of MQTT 5 outlives its connection; clients are told. Not in "
        "nats-server",
        "duration",
        shown_default="what the client asks for",
        reload="lookup",
    )
    max_keep_alive: float | None = key(
        None,
        "The longest keep alive of a client of MQTT 5; clients are told. Not in nats-server",
        "duration",
        shown_default="what the client asks for",
        reload="lookup",
    )
    receive_maximum: int = key(
        limits.MQTT_RECEIVE_MAXIMUM,
        "Messages of QoS 1 and 2 that a client of MQTT 5 may send without acknowledgement. Not in "
        "nats-server",
        between=(1, _TWO_BYTES),
        reload="lookup",
    )
    topic_alias_maximum: int = key(
        limits.MQTT_TOPIC_ALIASES,
        "Topic aliases that a client of MQTT 5 may use. Not in nats-server",
        between=(0, _TWO_BYTES),
        reload="lookup",
    )

    @property
    def overrides_authorization(self) -> bool:
        """True if this block says who may connect, and not the server's own settings."""
        return self.authorization.required or self.no_auth_user is not None
