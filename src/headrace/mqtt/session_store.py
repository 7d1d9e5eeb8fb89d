"""Sessions in the stream `$MQTT_sess`: loading, writing and ending them.

A write after the first says which record it replaces, so that of two servers with one session the later one
wins and the other hears of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.mqtt.consumers import delete_consumers
from headrace.mqtt.message_headers import block
from headrace.mqtt.names import INCOMING, INCOMING_SUBJECT, MESSAGES, OUTGOING, SESSIONS, SHARED
from headrace.mqtt.records import SessionRecord, read_record, write_record
from headrace.mqtt.streams import session_subject
from headrace.protocol.jetstream.headers import EXPECTED_SUBJECT_SEQUENCE
from headrace.protocol.mqtt.reasons import MqttError, Reason, ReturnCode
from headrace.protocol.nuid import short_hash

if TYPE_CHECKING:
    from headrace.mqtt.ports import HubPort
    from headrace.mqtt.sharing import Sharing

_WINDOW: Final = b".window"


class StoredSession:
    """The state of one session, whether somebody is connected or not.

    `sequence`: the stream sequence of its record; 0: there is none.
    """

    __slots__ = ("client_id", "hash", "record", "sequence")

    def __init__(self, client_id: str, record: SessionRecord, sequence: int = 0) -> None:
        self.client_id = client_id
        self.hash = short_hash(client_id)
        self.record = record
        self.sequence = sequence


class SessionStore:
    """The sessions of one account as they are stored."""

    def __init__(self, account: HubPort, sharing: Sharing) -> None:
        self._account = account
        self._sharing = sharing

    def subject(self, client_hash: str) -> bytes:
        """Return the subject of a session's record."""
        return session_subject(self._account.domain) + client_hash.encode()

    def window_subject(self, client_hash: str) -> bytes:
        """Return the subject of the record of a session's identifiers."""
        return self.subject(client_hash) + _WINDOW

    async def load(self, client_id: str) -> StoredSession | None:
        """Return the stored session of a client, or None.

        Raises: RequestFailed; MqttError where another identifier has the same hash.
        """
        found = await self._account.requests.load_last(SESSIONS, self.subject(short_hash(client_id)))
        if found is None:
            return None
        record = read_record(found.payload)
        if record.id != client_id:
            raise MqttError(
                f'stored session has client ID "{record.id}", which has the same hash as "{client_id}"',
                Reason.CLIENT_IDENTIFIER_NOT_VALID,
                ReturnCode.IDENTIFIER_REJECTED,
            )
        return StoredSession(client_id, record, found.sequence)

    async def write(self, session: StoredSession) -> None:
        """Write the record of a session. Raises: RequestFailed, also if another server wrote it meanwhile."""
        session.record.origin = self._account.server_hash
        session.record.id = session.client_id
        headers = b""
        if session.sequence:
            headers = block((EXPECTED_SUBJECT_SEQUENCE, b"%d" % session.sequence))
        stored = await self._account.requests.store(
            self.subject(session.hash),
            headers,
            write_record(session.record),
            kind=b"SP",
            token=session.hash.encode(),
        )
        session.sequence = stored.sequence

    async def drop_state(self, session: StoredSession) -> None:
        """Delete what a session has beside its record: consumers, identifiers. Raises: RequestFailed."""
        record = session.record
        shared = [sid for sid in record.cons if sid.encode().startswith(SHARED)]
        own = [config["durable_name"] for sid, config in record.cons.items() if sid not in shared]
        await delete_consumers(self._account.requests, MESSAGES, own)
        for sid in shared:
            await self._sharing.leave(record.cons[sid]["durable_name"], session.hash)
        if record.pubrel is not None:
            await delete_consumers(self._account.requests, OUTGOING, [record.pubrel["durable_name"]])
            await self._drop_window(session)
        record.subs, record.cons, record.ids, record.opts, record.pubrel = {}, {}, {}, {}, None

    async def drop_staged(self, client_id: str) -> None:
        """Delete messages of QoS 2 that the client has not released, as a new session of 5.0 begins.

        In 3.1.1 they stay, as on nats-server. Raises: RequestFailed.
        """
        await self._account.requests.purge(INCOMING, INCOMING_SUBJECT + client_id.encode() + b".>")

    async def end(self, session: StoredSession) -> None:
        """End a session: nothing is left of it. Raises: RequestFailed."""
        await self.drop_state(session)
        if session.sequence:
            await self._account.requests.remove(SESSIONS, session.sequence)
            session.sequence = 0

    async def _drop_window(self, session: StoredSession) -> None:
        found = await self._account.requests.load_last(SESSIONS, self.window_subject(session.hash))
        if found is not None:
            await self._account.requests.remove(SESSIONS, found.sequence)
