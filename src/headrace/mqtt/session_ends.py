"""Sessions of MQTT 5.0 that outlive their connection for some time, and wills that are published later.

The server that had the connection keeps the time; when it starts it looks for what it has missed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from headrace.mqtt.names import SESSION_SUBJECT, SESSIONS
from headrace.mqtt.records import read_record
from headrace.mqtt.requests import WRONG_LAST_SEQUENCE, RequestFailed
from headrace.mqtt.session_store import StoredSession
from headrace.mqtt.settings import NEVER
from headrace.mqtt.steps import begin, watch

if TYPE_CHECKING:
    from collections.abc import Container

    from headrace.mqtt.due_times import DueTimes
    from headrace.mqtt.ports import HubPort
    from headrace.mqtt.records import SessionRecord
    from headrace.mqtt.requests import StoredMessage
    from headrace.mqtt.session_store import SessionStore
    from headrace.mqtt.steps import KeyedTurns
    from headrace.mqtt.wills import Wills

    class EndsOwner(HubPort, Protocol):
        """The hub, as the ends of sessions see it."""

        @property
        def store(self) -> SessionStore: ...
        @property
        def wills(self) -> Wills: ...
        @property
        def turns(self) -> KeyedTurns: ...
        @property
        def due(self) -> DueTimes: ...

        @property
        def sessions(self) -> Container[str]: ...


_MS: Final = 1_000_000


class SessionEnds:
    """The sessions and wills of one account that are due later."""

    def __init__(self, owner: EndsOwner) -> None:
        self._owner = owner

    def is_over(self, record: SessionRecord) -> bool:
        """True if the time of a session that nobody is connected to is over."""
        return bool(record.left) and self._ends_at(record) <= self._now

    def plan(self, stored: StoredSession) -> None:
        """Look at a session again when its will or its end is due."""
        record = stored.record
        at = self._ends_at(record)
        if record.will is not None:
            at = min(at, record.will.at)
        if at < _FOREVER:
            self._owner.due.set(stored.client_id, at, partial(self._look, stored.client_id))

    @property
    def _now(self) -> int:
        return self._owner.host.now_ns() // _MS

    @staticmethod
    def _ends_at(record: SessionRecord) -> int:
        if record.expiry in (None, NEVER) or not record.left:
            return _FOREVER
        return record.left + record.expiry * 1000

    def _look(self, client_id: str) -> None:
        watch(begin(self._due(client_id)), self._owner.failed)

    async def _due(self, client_id: str) -> None:
        async with self._owner.turns.of(client_id):
            if client_id in self._owner.sessions:
                return
            stored = await self._owner.store.load(client_id)
            if stored is not None and stored.record.left:
                await self._settle(stored)

    async def _settle(self, stored: StoredSession) -> None:
        """Do what is due for a session without a connection."""
        record = stored.record
        ends = self.is_over(record)
        if record.will is not None and (ends or record.will.at <= self._now):
            will, record.will = record.will, None
            try:
                await self._owner.store.write(stored)  # only one server publishes it
            except RequestFailed as error:
                if error.code in WRONG_LAST_SEQUENCE:
                    return
                raise
            await self._owner.wills.publish_record(will)
        if ends:
            await self._owner.store.end(stored)
        else:
            self.plan(stored)

    # -- at the start ----------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Look at all stored sessions once. Raises: RequestFailed."""
        sequence = 0
        while (found := await self._next(sequence + 1)) is not None:
            sequence = found.sequence
            try:
                await self._meet(found)
            except RequestFailed as error:
                self._owner.log.warning("MQTT: %s", str(error))

    async def _next(self, sequence: int) -> StoredMessage | None:
        return await self._owner.requests.load_next(SESSIONS, sequence, SESSION_SUBJECT + b">")

    async def _meet(self, found: StoredMessage) -> None:
        record = read_record(found.payload) if found.payload.startswith(b'{"origin"') else None
        if record is None or not record.id:
            return
        async with self._owner.turns.of(record.id):
            stored = StoredSession(record.id, record, found.sequence)
            if record.id in self._owner.sessions:
                return
            if record.left:
                await self._settle(stored)
            elif record.origin == self._owner.server_hash and (record.clean or record.expiry is not None):
                await self._lost(stored)

    async def _lost(self, stored: StoredSession) -> None:
        """End a session that this server had a connection of when it died, or let its time begin."""
        if stored.record.clean:
            await self._owner.store.end(stored)
            return
        stored.record.left = self._now
        await self._owner.store.write(stored)
        self.plan(stored)


_FOREVER: Final = 1 << 62
