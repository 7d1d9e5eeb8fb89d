"""The names of MQTT in NATS: streams, subjects, consumers and headers, as nats-server has them."""

from __future__ import annotations

from typing import Final

from headrace.protocol.nuid import new_nuid, short_hash

MESSAGES: Final = "$MQTT_msgs"
SESSIONS: Final = "$MQTT_sess"
RETAINED: Final = "$MQTT_rmsgs"
INCOMING: Final = "$MQTT_qos2in"
OUTGOING: Final = "$MQTT_out"
"""The five streams of an account."""

INTERNAL: Final = b"$MQTT."
"""The beginning of subjects that no client may subscribe to."""
MESSAGE_SUBJECT: Final = b"$MQTT.msgs."
SESSION_SUBJECT: Final = b"$MQTT.sess."
RETAINED_SUBJECT: Final = b"$MQTT.rmsgs."
INCOMING_SUBJECT: Final = b"$MQTT.qos2.in."
OUTGOING_SUBJECT: Final = b"$MQTT.out."
RELEASE_SUBJECT: Final = b"$MQTT.out.pubrel."
DELIVER_SUBJECT: Final = b"$MQTT.sub."
RELEASE_DELIVER_SUBJECT: Final = b"$MQTT.deliver.pubrel."
ANSWER_SUBJECT: Final = b"$MQTT.JSA."

PARENT: Final = b" fwc"
"""The end of the sid of the second subscription of a filter `a/#`, on `a`."""
SHARED_CONSUMER: Final = "$MQTT_SHARE_"
"""The beginning of the name of the consumer of a shared subscription; the engine knows it, too."""
SHARED: Final = b"$share/"
"""The beginning of the sid of a shared subscription."""

QOS: Final = b"Nmqtt-Pub"
SUBJECT: Final = b"Nmqtt-Subject"
MAPPED: Final = b"Nmqtt-Mapped"
REPLY: Final = b"Nmqtt-Reply"
CLIENT: Final = b"Nmqtt-Client"
RELEASE: Final = b"Nmqtt-PubRel"
RELEASED_PLACE: Final = b"Nmqtt-Released"
"""The consumer and the stream sequence of the message that a PUBREL is for; nats-server does not say them."""
RETAINED_TOPIC: Final = b"Nmqtt-RTopic"
RETAINED_FLAGS: Final = b"Nmqtt-RFlags"
RETAINED_ORIGIN: Final = b"Nmqtt-ROrigin"
RETAINED_SOURCE: Final = b"Nmqtt-RSource"
EXPIRES_AT: Final = b"Nmqtt-Expires-At"
MESSAGE_ID: Final = b"Nats-Msg-Id"


def release_consumer(client_hash: str) -> str:
    """Return the name of the consumer that delivers PUBRELs to a session."""
    return f"$MQTT_PUBREL_{client_hash}"


def subscription_consumer(client_hash: str) -> str:
    """Return a new name for the consumer of a filter."""
    return f"{client_hash}_{new_nuid()}"


def retained_consumer() -> str:
    """Return a new name for the consumer by which a server follows retained messages."""
    return f"{RETAINED}_{new_nuid()}"


def shared_consumer(group: str, subject: str) -> str:
    """Return the name of the consumer of a shared subscription."""
    return SHARED_CONSUMER + short_hash(f"{group}/{subject}")


def shared_deliver_subject(group: str, subject: str) -> bytes:
    """Return the subject on which the members of a shared subscription get its messages."""
    return DELIVER_SUBJECT + b"share." + short_hash(f"{group}/{subject}").encode()
