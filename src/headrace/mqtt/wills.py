"""Wills as messages: published as any other message of the client, now or later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.engine.mqtt_headers import header_lines
from headrace.engine.mqtt_topics import subject_of_topic
from headrace.mqtt.message_headers import client_line, lines_of, published
from headrace.mqtt.names import MESSAGE_SUBJECT
from headrace.mqtt.records import WillRecord
from headrace.protocol.mqtt.packets import VERSION_5
from headrace.protocol.mqtt.properties import property_bytes

if TYPE_CHECKING:
    from headrace.mqtt.ports import HubPort, SessionClient
    from headrace.mqtt.retained import RetainedMessages
    from headrace.protocol.mqtt.packets import Will


class Wills:
    """The wills of the clients of one account."""

    def __init__(self, account: HubPort, retained: RetainedMessages) -> None:
        self._account = account
        self._retained = retained

    def record(self, will: Will, client: SessionClient, at_ms: int) -> WillRecord | None:
        """Return a will that is to be published at a time; None if its client may not publish it."""
        subject = client.mapped(subject_of_topic(will.topic, is_filter=False))
        if subject is None:
            return None
        more, reply = _lines(will)
        return WillRecord(
            topic=will.topic.decode(),
            subject=subject.decode(),
            headers=published(will.qos, more).decode(),
            payload=will.payload,
            reply=reply.decode(),
            qos=will.qos,
            retain=will.retain,
            at=at_ms,
        )

    async def publish(self, will: Will, client: SessionClient, client_hash: str) -> None:
        """Publish a will as its client, whose link is there still. Raises: RequestFailed."""
        more, reply = _lines(will)
        if client.version == VERSION_5:
            more += client_line(client_hash)
        headers = published(will.qos, more)
        subject = client.link.route(
            subject_of_topic(will.topic, is_filter=False), headers, will.payload, reply=reply
        )
        if subject is None:
            return
        await self._keep(
            subject, will.topic, headers, will.payload, will.qos, retain=will.retain, user=client.user or ""
        )

    async def publish_record(self, will: WillRecord) -> None:
        """Publish a will whose time has come. Raises: RequestFailed."""
        subject, headers = will.subject.encode(), will.headers.encode()
        self._account.host.publish(subject, will.payload, reply=will.reply.encode(), headers=headers)
        self._account.host.announce()
        await self._keep(
            subject, will.topic.encode(), headers, will.payload, will.qos, retain=will.retain, user=""
        )

    async def _keep(
        self,
        subject: bytes,
        topic: bytes,
        headers: bytes,
        payload: bytes,
        qos: int,
        *,
        retain: bool,
        user: str,
    ) -> None:
        """Store a will that has gone out, for subscribers of QoS above 0, and as a retained message."""
        if qos:
            await self._account.requests.store(MESSAGE_SUBJECT + subject, headers, payload)
        if retain:
            await self._retained.store(
                subject, topic, 1 | qos << 1, payload, user=user, more=lines_of(headers)
            )


def _lines(will: Will) -> tuple[bytes, bytes]:
    """Return the header lines of a will's properties, and its reply subject."""
    lines, topic, _ = header_lines(property_bytes(msgspec.structs.replace(will.properties, will_delay=None)))
    return lines, subject_of_topic(topic, is_filter=False) if topic else b""
