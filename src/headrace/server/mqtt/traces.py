"""The texts of packets in the trace of a client, both ways; secrets are not in them.

Source: nats-server 2.15.1, as far as it is the same packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.protocol.mqtt.packets import QOS_MASK, VERSION_5
from headrace.server.log_text import shown

if TYPE_CHECKING:
    from headrace.protocol.mqtt.packets import Acknowledgement, Connect, Subscribe, Unsubscribe
    from headrace.protocol.mqtt.properties import PacketKind


def connect_text(connect: Connect, client_id: str) -> str:
    """Return the text of a CONNECT."""
    words = ["CONNECT", f"clientID={client_id}"]
    if connect.version == VERSION_5:
        words.append("version=5")
    if connect.clean:
        words.append("clean")
    if connect.keep_alive:
        words.append(f"keepAlive={connect.keep_alive}s")
    if connect.will is not None:
        will = connect.will
        words.append(f"will=({shown(will.topic)} QoS={will.qos} retain={str(will.retain).lower()})")
    if connect.user is not None:
        words.append(f"username={shown(connect.user)}")
    if connect.password is not None:
        words.append("password=****")
    return " ".join(words)


def connack_text(code: int, *, is_present: bool) -> str:
    """Return the text of a CONNACK."""
    return f"CONNACK sp={str(is_present).lower()} rc={code}"


def subscribe_text(packet: Subscribe) -> str:
    """Return the text of a SUBSCRIBE."""
    filters = (f"{shown(name)} QoS={options & QOS_MASK}" for name, options in packet.filters)
    return f"SUBSCRIBE [{', '.join(filters)}] pi={packet.identifier}"


def unsubscribe_text(packet: Unsubscribe) -> str:
    """Return the text of an UNSUBSCRIBE."""
    return f"UNSUBSCRIBE [{', '.join(map(shown, packet.filters))}] pi={packet.identifier}"


def acknowledgement_text(kind: PacketKind, packet: Acknowledgement) -> str:
    """Return the text of a PUBREC, PUBREL or PUBCOMP."""
    return f"{kind.name} pi={packet.identifier}" + (f" rc={packet.reason}" if packet.reason else "")
