"""The rules for topics, filters and client identifiers, as far as a codec checks them.

Here live checks of single names. Never lives here: the mapping to subjects, which is compiled
(`engine/mqtt_topics`).
Source: nats-server 2.15.1 for 3.1.1, whose texts these are; OASIS MQTT 5.0, 4.7 and 4.8.2.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.protocol.go_json import quoted_bytes
from headrace.protocol.mqtt.fields import check_text
from headrace.protocol.mqtt.reasons import MqttError, Reason, ReturnCode

SHARE_PREFIX: Final = b"$share/"
UNSUPPORTED_CHARACTERS: Final = "character not supported for MQTT topics"
_UNSUPPORTED: Final = re.compile(rb"[ \t\n\r\f\x7f]")
_WILDCARDS: Final = re.compile(rb"[+#]")
_NOT_IN_IDENTIFIERS: Final = re.compile(rb"[ \t\r\n\f.*>]")
_NOT_IN_GROUPS: Final = re.compile(rb"[/+# \t\r\n\f\x7f]")


def check_topic(topic: bytes, field: str, reason: Reason = Reason.TOPIC_NAME_INVALID) -> None:
    """Check the name of a topic that is published on. Raises: MqttError."""
    check_text(topic, field, Reason.MALFORMED_PACKET)
    if _UNSUPPORTED.search(topic):
        raise MqttError(UNSUPPORTED_CHARACTERS, reason)
    if _WILDCARDS.search(topic):
        raise MqttError(f"wildcards not allowed in publish's topic: {quoted_bytes(topic)}", reason)


def check_client_id(client_id: bytes) -> None:
    """Check a client identifier, which has to be a token of NATS, too. Raises: MqttError."""
    rejected = (Reason.CLIENT_IDENTIFIER_NOT_VALID, ReturnCode.IDENTIFIER_REJECTED)
    try:
        check_text(client_id, "client ID")
    except MqttError as error:
        raise MqttError(error.text, *rejected) from None
    if _NOT_IN_IDENTIFIERS.search(client_id):
        raise MqttError(f"invalid character in client ID {quoted_bytes(client_id)}", *rejected)


def is_shared(topic_filter: bytes) -> bool:
    """True if a filter of 5.0 names a shared subscription, be it a valid one or not."""
    return topic_filter.startswith(SHARE_PREFIX) or topic_filter == SHARE_PREFIX[:-1]


def shared_parts(topic_filter: bytes) -> tuple[bytes, bytes] | None:
    """The group and the filter of a shared subscription, or None if it has no valid group or no filter."""
    _, _, rest = topic_filter.partition(b"/")
    group, _, wanted = rest.partition(b"/")
    if not group or not wanted or _NOT_IN_GROUPS.search(group):
        return None
    return group, wanted
