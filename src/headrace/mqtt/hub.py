"""MQTT in one account: who is connected, from CONNECT to a session, takeovers, and the end of sessions.

A service: it hears answers of JetStream, retained messages, and the notices of other servers that a session
was written there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from headrace.mqtt.due_times import DueTimes
from headrace.mqtt.jail import HOLD_SECONDS, Jail
from headrace.mqtt.kept_windows import KeptWindows
from headrace.mqtt.names import ANSWER_SUBJECT, INCOMING, INCOMING_SUBJECT, RELEASE_SUBJECT
from headrace.mqtt.records import SessionRecord
from headrace.mqtt.requests import WRONG_LAST_SEQUENCE, JetStreamRequests, RequestFailed
from headrace.mqtt.retained import RetainedMessages
from headrace.mqtt.retained_permissions import remove_forbidden
from headrace.mqtt.session import LiveSession
from headrace.mqtt.session_ends import SessionEnds
from headrace.mqtt.session_store import SessionStore, StoredSession
from headrace.mqtt.settings import NEVER
from headrace.mqtt.sharing import Sharing
from headrace.mqtt.steps import Awaited, KeyedTurns, begin, watch
from headrace.mqtt.streams import make_streams
from headrace.mqtt.wills import Wills
from headrace.protocol.mqtt.packets import VERSION_5
from headrace.protocol.mqtt.reasons import MqttError, Reason
from headrace.protocol.nuid import new_nuid, short_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from logging import Logger

    from headrace.core.service import Delivery, Host
    from headrace.engine.batches import Gathered
    from headrace.mqtt.kept_windows import KeptWindow
    from headrace.mqtt.ports import SessionClient
    from headrace.mqtt.settings import HubSettings
    from headrace.protocol.mqtt.packets import Connect, Will

_ATTEMPTS: Final = 3
"""Attempts to write the record of a session that other servers write at the same time."""
_MS: Final = 1_000_000


class Accepted(NamedTuple):
    """A CONNECT that is accepted.

    What stands behind `session` is what the link is told of it.
    """

    session_present: bool
    session: LiveSession
    client_hash: bytes
    store_reply: bytes
    stages_qos2: bool
    staging_subject: bytes
    removal_subject: bytes
    release_subject: bytes | None


class _Stored(msgspec.Struct):
    """The acknowledgement of a session's record, as other servers see it."""

    seq: int = 0
    domain: str = ""


class MqttHub:
    """MQTT of one account. Implements `core.service.Service`."""

    def __init__(self, settings: HubSettings, account: str, log: Logger) -> None:
        self.settings = settings
        self.account: Final = account
        self.log: Final = log
        self.server_hash: Final = short_hash(settings.server_name)
        self.requests: Final = JetStreamRequests(
            self.server_hash, domain=settings.domain, timeout=settings.api_timeout
        )
        self.retained: Final = RetainedMessages(self)
        self.sharing: Final = Sharing(self)
        self.store: Final = SessionStore(self, self.sharing)
        self.wills: Final = Wills(self, self.retained)
        self.sessions: Final[dict[str, LiveSession]] = {}
        """The sessions of clients that are connected here, by client identifier."""
        self.turns: Final = KeyedTurns()
        """The order in which the work on one session is done, by client identifier."""
        self._by_hash: dict[bytes, LiveSession] = {}
        self._kept = KeptWindows()
        self._jail = Jail()
        self._ready: Awaited[None] | None = None
        self._notices = 0
        self._follows = False
        self._has_stopped = False
        self.domain = ""

    # -- life ------------------------------------------------------------------------------------------

    def start(self, host: Host) -> None:
        """Listen to answers, and to what other servers write."""
        self.host = host
        self.requests.start(host)
        self._notices = host.subscribe(ANSWER_SUBJECT + b"*.SP.*.*")
        self.sharing.start(host)
        self.due = DueTimes(host)
        self._ends = SessionEnds(self)

    def stop(self) -> None:
        """Forget what waits: sessions are stored."""
        self._has_stopped = True
        self.due.stop()
        self.requests.stop()

    def use(self, settings: HubSettings) -> None:
        """Take over changed settings, which count for new subscriptions."""
        self.settings = settings
        self.requests.timeout = settings.api_timeout

    def judge_retained(self, may_publish: Callable[[str, bytes], bool]) -> None:
        """Forget retained messages whose users may not publish them any more; nobody waits for it.

        `may_publish`: of a name of a user, and a subject.
        """
        if self._follows:
            watch(begin(remove_forbidden(self, self.retained, may_publish)), self.failed)

    def failed(self, error: Exception) -> None:
        """Say that steps which nobody awaits have failed."""
        if isinstance(error, RequestFailed):
            if not self._has_stopped:  # what is not deleted then, the next start deletes
                self.log.error("MQTT of account %s: %s", self.account, str(error))
        else:
            self.host.failed(error, f"MQTT of account {self.account}")

    def after(self, seconds: float, function: Callable[[], object]) -> object:
        """Call `function` later."""
        return self.host.call_later(seconds, function)

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        """Take what was delivered to the hub."""
        for received in batch:
            for delivery in (received,) if isinstance(received, tuple) else received:
                if delivery.sid == self.requests.sid:
                    self.requests.heard(delivery)
                elif delivery.sid == self.retained.sid:
                    self.retained.heard(delivery)
                elif delivery.sid == self._notices:
                    self._noticed(delivery)
                elif delivery.sid == self.sharing.sid:
                    self.sharing.heard(delivery)

    def _noticed(self, delivery: Delivery) -> None:
        """A session's record was written, here or by another server, which then has its client."""
        if self.requests.heard(delivery):
            return
        session = self._by_hash.get(delivery.subject.split(b".")[4])
        if session is None:
            return
        try:
            stored = msgspec.json.decode(delivery.payload, type=_Stored)
        except msgspec.DecodeError:
            self.log.debug("MQTT: notice of a session without a sequence: %r", delivery.payload[:100])
            return
        if stored.domain == self.domain and stored.seq > session.stored.sequence:
            client_id = session.client.client_id
            self._forget(session)
            session.leave()
            session.client.closed_by(
                Reason.SESSION_TAKEN_OVER,
                f'Closing because a remote connection has started with the same client ID: "{client_id}"',
            )

    # -- CONNECT ---------------------------------------------------------------------------------------

    def connect(
        self, client: SessionClient, connect: Connect, done: Callable[[Accepted | MqttError], None]
    ) -> None:
        """Find or make the session of a client; `done` hears of it, in bounded time."""
        outcome = begin(self._connect(client, connect))

        def tell() -> None:
            try:
                result: Accepted | MqttError = outcome.result()
            except MqttError as error:
                result = error
            except RequestFailed as error:
                self._ready = None  # perhaps a stream is gone
                result = MqttError(str(error), Reason.SERVER_UNAVAILABLE)
            except Exception as error:  # noqa: BLE001 - a mistake of ours: the client hears of it, and the log
                self.failed(error)
                result = MqttError("internal error", Reason.UNSPECIFIED_ERROR)
            done(result)

        outcome.when_done(tell)

    async def _connect(self, client: SessionClient, connect: Connect) -> Accepted:
        if self._ready is None:
            self._ready = begin(self._make_ready())
        await self._ready
        client_id = client.client_id
        if self._jail.holds(client_id, self.host.now_ns()):
            await self._hold()
            raise MqttError(
                f'client ID "{client_id}" was taken over less than a second ago', Reason.QUOTA_EXCEEDED
            )
        async with self.turns.of(client_id):
            await self._take_over(client, connect)
            kept = self._kept.take(client_id)
            stored, is_present, has_same = await self._open(client_id, connect, kept)
            session = LiveSession(
                self,
                client,
                stored,
                will=connect.will,
                is_present=is_present,
                kept=kept if has_same and is_present else None,
            )
            self.sessions[client_id] = self._by_hash[stored.hash.encode()] = session
        reply = ANSWER_SUBJECT + f"{self.server_hash}.MS.{new_nuid()}.".encode()
        return Accepted(
            is_present,
            session,
            client_hash=stored.hash.encode(),
            store_reply=reply,
            stages_qos2=session.stages_qos2,
            staging_subject=INCOMING_SUBJECT + f"{client_id}.".encode(),
            removal_subject=self.requests.removal_subject(INCOMING),
            release_subject=RELEASE_SUBJECT + stored.hash.encode() if session.is_passing else None,
        )

    async def _make_ready(self) -> None:
        """Make the streams, and know what is retained. Raises: RequestFailed."""
        settings = self.settings
        self.domain = await make_streams(
            self.requests,
            settings.replicas,
            domain=settings.domain or settings.own_domain,
            creating=self._creating,
            mismatch=partial(
                self.log.warning,
                "MQTT stream '%s' has %d replicas, not the number that is configured",
            ),
        )
        if not self._follows:
            await self.retained.follow()
            self._follows = True
            watch(begin(self._ends.sweep()), self.failed)

    def _creating(self) -> None:
        """A stream is not there: what was known of it counts no more."""
        self._follows = False
        self.log.info(
            'Creating MQTT streams/consumers with replicas %d for account "%s"%s',
            self.settings.replicas,
            self.account,
            f' in domain "{self.settings.domain}"' if self.settings.domain else "",
        )

    def _hold(self) -> Awaited[None]:
        over: Awaited[None] = Awaited()
        self.host.call_later(HOLD_SECONDS, partial(over.give, None))
        return over

    async def _take_over(self, client: SessionClient, connect: Connect) -> None:
        """Close the connection that has the session which a client wants."""
        client_id = client.client_id
        old = self.sessions.get(client_id)
        if old is None:
            return
        self._jail.add(client_id, self.host.now_ns())
        self._forget(old)
        will = old.will if old.client.version == VERSION_5 else None
        if will is not None and (not will.properties.will_delay or connect.clean):
            watch(begin(self.wills.publish(will, old.client, old.stored.hash)), self.failed)
        kept = old.leave()
        old.client.closed_by(Reason.SESSION_TAKEN_OVER, "", client)
        await old.idle()
        if kept is not None:
            self._kept.keep(client_id, msgspec.structs.replace(kept, sequence=old.stored.sequence))

    async def _open(
        self, client_id: str, connect: Connect, kept: KeptWindow | None
    ) -> tuple[StoredSession, bool, bool]:
        """Load or make a session, and write it as connected.

        Returns it, whether its client goes on with it, and whether it is as it was when it was here last.
        """
        for attempt in range(_ATTEMPTS):
            stored = await self.store.load(client_id)
            has_same = stored is not None and kept is not None and stored.sequence == kept.sequence
            is_present = stored is not None and await self._goes_on(stored, connect)
            if stored is None:
                stored = StoredSession(client_id, SessionRecord())
            record = stored.record
            is_5 = connect.version == VERSION_5
            expiry = self._expiry(connect.properties.session_expiry or 0) if is_5 else None
            record.clean = expiry == 0 if is_5 else connect.clean
            record.expiry, record.left, record.will = expiry, 0, None
            try:
                await self.store.write(stored)
            except RequestFailed as error:
                if error.code not in WRONG_LAST_SEQUENCE or attempt == _ATTEMPTS - 1:
                    raise
            else:
                self.due.cancel(client_id)
                if is_5 and not is_present and connect.client_id:
                    await self.store.drop_staged(client_id)
                return stored, is_present, has_same
        raise AssertionError("the last attempt returns or raises")

    async def _goes_on(self, stored: StoredSession, connect: Connect) -> bool:
        """True if a client goes on with its stored session; else nothing but its record is left of it."""
        record = stored.record
        if not (connect.clean or record.clean or self._ends.is_over(record)):
            return True
        if record.will is not None:
            await self.wills.publish_record(record.will)
        await self.store.drop_state(stored)
        stored.record = SessionRecord()
        return False

    def _expiry(self, asked: int) -> int:
        most = self.settings.max_session_expiry
        return asked if most is None else min(asked, most)

    # -- the end of a connection -----------------------------------------------------------------------

    def left(self, session: LiveSession, will: Will | None, expiry: int | None) -> None:
        """The connection of a session is gone."""
        if self._has_stopped:
            return  # its session is stored as it is, and its deliveries are asked for again
        kept = session.leave()
        self._forget(session)
        self._jail.free(session.client.client_id)
        stored = session.stored
        is_5 = session.client.version == VERSION_5
        if is_5:
            stored.record.expiry = self._expiry(expiry or 0)
            stored.record.clean = not stored.record.expiry
        now = self.host.now_ns() // _MS
        if will is not None:
            delay = min(will.properties.will_delay or 0, stored.record.expiry or 0)
            if delay:
                stored.record.will = self.wills.record(will, session.client, now + delay * 1000)
            else:
                watch(begin(self.wills.publish(will, session.client, stored.hash)), self.failed)
        watch(begin(self._leave(session, kept, now)), self.failed)

    async def _leave(self, session: LiveSession, kept: KeptWindow | None, now_ms: int) -> None:
        """Store that a session has no connection, or end it."""
        stored = session.stored
        async with self.turns.of(stored.client_id):
            await session.idle()
            if stored.record.clean:
                await self.store.end(stored)
                return
            if stored.client_id in self.sessions:
                return  # its client is back already
            if stored.record.expiry not in (None, NEVER) or stored.record.will is not None:
                stored.record.left = now_ms
                await self.store.write(stored)
                self._ends.plan(stored)
            if kept is not None:
                self._kept.keep(stored.client_id, msgspec.structs.replace(kept, sequence=stored.sequence))

    def _forget(self, session: LiveSession) -> None:
        client_id = session.client.client_id
        if self.sessions.get(client_id) is session:
            del self.sessions[client_id]
            del self._by_hash[session.stored.hash.encode()]
