"""One client over MQTT: a client whose liveness is its keep alive, and whose state is in its account's hub.

Never lives here: its packets (`ops`), what an account keeps of it (`headrace.mqtt`), its place in the account
and its permissions, which are those of every client.
Source: OASIS MQTT 3.1.1 and 5.0; of 3.1.1 what nats-server 2.15.1 does.
"""

from __future__ import annotations

import logging
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, ClassVar, Final

from headrace import limits
from headrace.core.mapping import LOST
from headrace.engine.mqtt import MqttLink
from headrace.engine.reasons import CloseReason
from headrace.protocol.mqtt.packets import VERSION_5
from headrace.protocol.mqtt.reasons import Reason
from headrace.protocol.nuid import new_nuid
from headrace.server.log_text import quoted, shown
from headrace.server.mqtt.ops import MqttOps
from headrace.server.mqtt.permissions import MqttPermissions
from headrace.server.mqtt.words import MqttWords
from headrace.server.session import ClientSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.engine.client import ClientLink
    from headrace.mqtt.session import LiveSession
    from headrace.protocol.mqtt.packets import Connect, Will
    from headrace.server.client_permissions import ClientPermissions
    from headrace.server.mqtt.access import MqttAccess
    from headrace.server.mqtt.store_deadline import StoreDeadline
    from headrace.server.port import SessionHost

_GRACE: Final = 1.5
"""The part of the keep alive after which a silent client is given up."""

_UNHEARD: Final = 20.0
"""Seconds in which a client that sent more than it may can read why it is closed."""

_BUSY: Final = 1.0
"""Seconds after which a client is looked at again that could not be read when its keep alive was over."""


class MqttSession(ClientSession):
    """A client over MQTT from accept to close; for the hub of its account, the client of a session.

    `connect`: its CONNECT once that was read. `is_accepted`: CONNACK has let it in. `is_waiting`: the hub
    works for it, and nothing more is parsed. `expiry`: seconds that its session outlives it, None in 3.1.1.
    `store_deadline`: of its messages of QoS 1, from the first one on.
    `stored`: its state in the account; None before CONNACK, and once the end is told. `will`: what is
    published when the connection ends now.
    """

    __slots__ = (
        "_client_id",
        "_keep_alive",
        "connect",
        "expiry",
        "has_left",
        "is_accepted",
        "is_waiting",
        "store_deadline",
        "stored",
        "will",
    )

    words: ClassVar[MqttWords] = MqttWords()
    _refused_by_engine: ClassVar[Mapping[CloseReason, str]] = {}  # its violations have lines of their own

    access: MqttAccess
    link: MqttLink

    def __init__(self, server: SessionHost, access: MqttAccess, cid: int, address: str, port: int) -> None:
        self.connect: Connect | None = None
        self._client_id = ""
        self.is_accepted = False
        self.is_waiting = False
        self.has_left = False
        self.stored: LiveSession | None = None
        self.will: Will | None = None
        self.expiry: int | None = None
        self._keep_alive = 0.0
        self.store_deadline: StoreDeadline | None = None
        super().__init__(server, access, cid, address, port)

    def _new_link(self) -> ClientLink:
        options = self._server.options
        return MqttLink(
            self._server.router,
            MqttOps(self._server, self),
            max_payload=options.max_payload,
            max_subscriptions=options.max_subscriptions,
            max_subscription_tokens=options.max_sub_tokens,
        )

    def _new_permissions(self) -> ClientPermissions:
        return MqttPermissions(self)

    # -- for the hub ------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The protocol level; 0: CONNECT was not read yet."""
        return 0 if self.connect is None else self.connect.version

    @property
    def client_id(self) -> str:
        """The identifier of the client, also one that was made for it; empty before CONNECT."""
        return self._client_id

    @property
    def mqtt_client(self) -> str:
        return self._client_id

    @property
    def user(self) -> str | None:
        """The user that the client acts as, as far as that may be shown."""
        return None if self.identity is None else self.identity.user

    @property
    def wants_reasons(self) -> bool:
        """True if the client takes reason strings, also with packets that say no failure to connect."""
        return (
            self.connect is not None
            and self.connect.version == VERSION_5
            and self.connect.properties.request_problem_information != 0
        )

    def mapped(self, subject: bytes) -> bytes | None:
        """Return where a message of the client goes; None: nowhere, which the log says if it is forbidden."""
        account = self.account
        target = account.mappings.map(subject) if account is not None and account.mappings else None
        target = subject if target is None else target
        if target == LOST:
            return None
        if self.permissions.may_publish(target):
            return target
        self.error(f"Publish Violation - Subject {quoted(target)}")
        return None

    def may_subscribe(self, subject: bytes, queue: bytes = b"") -> bool:
        """True if the client may have a subscription; the log says where it may not."""
        if self.permissions.subscribe_permission(subject, queue or None):
            return True
        self.error(f"Subscription Violation - Subject {quoted(subject)}, SID {shown(subject)}")
        return False

    def may_receive(self, subject: bytes) -> bool:
        """True if the client may have a message of this subject, on a subscription that it has."""
        return self.permissions.may_receive(subject)

    def not_kept(self, subject: bytes, why: str) -> None:
        """Log that a retained message of the client is not stored."""
        account = self.account.name if self.account is not None else ""
        where = f"account {quoted(account)}, subject {quoted(subject)}"
        self.error(f"unable to store retained message for {where}: {why}")

    def send(self, data: bytes) -> None:
        """Send a packet; none follows the last one."""
        if self.is_accepted and self.stored is None:
            return
        self.link.send(data)
        self._server.ticks.wake()

    def closed_by(self, reason: Reason, why: str, by: object = None) -> None:
        """End the connection by the word of the hub. `why`: a line of the log, empty for none.

        `by`: the client that has its session now.
        """
        if isinstance(by, MqttSession):
            by.warn_of(self)
        if why:
            self.error(why)
        taken = reason == Reason.SESSION_TAKEN_OVER
        if taken and self.version != VERSION_5:
            self.will = None
        self.end_with(reason, CloseReason.DUPLICATE_CLIENT_ID if taken else CloseReason.PROTOCOL_VIOLATION)

    # -- opening ----------------------------------------------------------------------------------

    def _start_clock(self) -> None:
        needed = self.access.authenticator.has_users
        self._arm(
            self.access.auth_timeout if needed else limits.MQTT_CONNECT_TIMEOUT, self._authentication_due
        )

    def warn_of(self, old: MqttSession) -> None:
        """Log that this client takes the session of another one."""
        name = quoted(old.label.removesuffix(" -"))
        both = f"since both have the same client ID {quoted(self._client_id)}"
        self._say(logging.WARNING, f"Replacing old client {name} {both}")

    def named(self, client_id: bytes) -> None:
        """Note the identifier that CONNECT has, or make one."""
        self._client_id = shown(client_id) or new_nuid()

    def began(self, connect: Connect) -> None:
        """Note the CONNECT of the client, which is to be judged."""
        self.connect = connect
        self.will = connect.will
        self.named(connect.client_id)

    def wait(self) -> None:
        """Parse nothing more until `go_on`: the hub works for this client."""
        self.is_waiting = True
        self.link.hold()

    def go_on(self) -> None:
        if not self.is_waiting:
            super().go_on()

    def accepted(self, stored: LiveSession, keep_alive: int) -> None:
        """Serve the client, from its CONNACK on. `keep_alive`: in seconds, 0: its silence has no end."""
        self.stored = stored
        self.is_accepted = True
        self._keep_alive = keep_alive * _GRACE
        self._watch()
        self.debug("Client connected")

    # -- liveness ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self.is_accepted and self._keep_alive:
            self._arm(self._keep_alive, self._keep_alive_due)
        else:
            self.disarm()  # while the hub works for a CONNECT, it has a time of its own

    def _keep_alive_due(self) -> None:
        """Give up a client that has sent no packet for one and a half keep alives."""
        left = self._keep_alive - (monotonic_ns() - self.link.last_activity) / 1e9
        if left > 0:
            self._arm(left, self._keep_alive_due)
        elif self.link.is_held or self.link.is_stalled:  # what it has sent was not read
            self._arm(_BUSY, self._keep_alive_due)
        else:
            self.debug("Keep alive exceeded")
            self.link.send(self.words.last_packet(self, Reason.KEEP_ALIVE_TIMEOUT, ""))
            if self.transport is not None:
                self.transport.flush()  # for that reason nothing is written any more
            self.link.doom(CloseReason.READ_ERROR)
            self._server.ticks.wake()

    # -- closing ----------------------------------------------------------------------------------

    def end_with(self, code: Reason, reason: CloseReason, text: str = "") -> None:
        """Close the connection, with a code of 5.0 for the client. `text`: for it, too."""
        last = self.words.last_packet(self, code, text, reason)
        if code is Reason.RECEIVE_MAXIMUM_EXCEEDED:
            self.wait()
            self._server.loop.call_soon(self._end_unheard, last, reason)
            return
        self.link.send(last)
        self.link.doom(reason)
        self._server.ticks.wake()

    def _end_unheard(self, last: bytes, reason: CloseReason) -> None:
        """Close in a moment, and read nothing until then: the client answers packets before it reads why.

        What it sends to a closed socket would be answered by a reset, and it could read nothing more.
        """
        if self.is_closed or self.link.is_closing:
            return
        self._leave()
        self.link.drop_subscriptions()  # answers of the store, too: nothing follows the last packet
        self.link.send(last)
        self._arm(_UNHEARD, partial(self._close, reason))
        self._server.ticks.wake()

    def _close(self, reason: CloseReason) -> None:
        self.link.doom(reason)
        self._server.ticks.wake()

    def reject(self) -> None:
        is_new = not self.is_accepted
        super().reject()
        if is_new:
            self.error("unable to connect: authentication error")

    def ended(self, reason: CloseReason) -> None:
        if self.store_deadline is not None:
            self.store_deadline.end()
        self._leave()
        super().ended(reason)

    def _leave(self) -> None:
        """Give the session back to its hub."""
        stored, self.stored = self.stored, None
        if stored is not None:
            stored.ended(will=self.will, expiry=self.expiry)

    # -- words ------------------------------------------------------------------------------------

    @property
    def _name_in_log(self) -> str:
        return f" - {quoted(self._client_id)}" if self._client_id else ""
