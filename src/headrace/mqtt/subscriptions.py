"""The filters of one session: SUBSCRIBE, UNSUBSCRIBE, and how filters are made anew for a new connection.

A filter is a plain subscription, which delivers QoS 0; with QoS above 0 also a consumer, which delivers the
messages that were published with more. A filter `a/#` covers `a`, which takes a second of each.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.engine.mqtt_topics import subject_of_topic
from headrace.mqtt.consumers import (
    ask_again,
    delete_consumers,
    find_consumer,
    release_config,
    subscription_config,
)
from headrace.mqtt.names import INTERNAL, MESSAGES, OUTGOING, PARENT, SHARED
from headrace.mqtt.requests import RequestFailed
from headrace.mqtt.steps import Awaited, begin
from headrace.protocol.mqtt.packets import (
    QOS_MASK,
    RETAIN_HANDLING_SHIFT,
    VERSION_5,
)
from headrace.protocol.mqtt.reasons import SUBACK_FAILURE, Reason
from headrace.protocol.mqtt.topics import is_shared, shared_parts
from headrace.subjects.grammar import is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.mqtt.ports import HubPort, SessionClient
    from headrace.mqtt.qos2_outgoing import OutgoingQos2
    from headrace.mqtt.requests import ConsumerAnswer
    from headrace.mqtt.session_store import StoredSession
    from headrace.mqtt.sharing import Sharing
    from headrace.protocol.mqtt.packets import Subscribe, Unsubscribe

MOST_PENDING: Final = 0xFFFF
"""The sum of `max_ack_pending` of all consumers of a session; a filter beyond is refused."""

_RETAINED_NEVER: Final = 2
_RETAINED_NEW: Final = 1
_SUBJECT_END: Final = b".>"


class _Refused(Exception):
    """A filter that is not granted. `reason`: for a client of 5.0."""

    def __init__(self, reason: Reason, text: str = "") -> None:
        super().__init__(text)
        self.reason = reason


class Filter(Struct, frozen=True):
    """A filter of a session. `sid`: its key in the record, its subject behind the group if it is shared."""

    sid: bytes
    subject: bytes
    group: bytes = b""
    qos: int = 0
    options: int = 0
    identifier: int = 0

    @property
    def subjects(self) -> list[tuple[bytes, bytes]]:
        """The sids and subjects of its subscriptions: one, or two for `a/#`."""
        found = [(self.sid, self.subject)]
        if self.subject.endswith(_SUBJECT_END):
            parent = self.subject.removesuffix(_SUBJECT_END)
            found.append((self.sid.removesuffix(_SUBJECT_END) + PARENT, parent))
        return found

    @property
    def hides_dollar(self) -> bool:
        """True if messages on topics that begin with `$` are left out: the filter begins with a wildcard."""
        return self.subject in (b"*", b">") or self.subject.startswith(b"*.")


class SessionFilters:
    """The filters of the session of one connection."""

    __slots__ = ("_account", "_client", "_following", "_outgoing", "_sharing", "_stored", "_take_part")

    def __init__(
        self,
        account: HubPort,
        client: SessionClient,
        stored: StoredSession,
        outgoing: Callable[[], OutgoingQos2],
        sharing: Sharing,
        *,
        take_part: Callable[[Filter], None],
    ) -> None:
        """`take_part`: begins the steps of `take_part` in their turn."""
        self._account = account
        self._client = client
        self._stored = stored
        self._outgoing = outgoing
        self._sharing = sharing
        self._take_part = take_part
        self._following: dict[bytes, bytes] = {}

    # -- SUBSCRIBE -------------------------------------------------------------------------------------

    async def add(self, packet: Subscribe) -> tuple[list[int], list[Filter]]:
        """Take the filters of a SUBSCRIBE; return its codes, and those that are to get retained messages."""
        record = self._stored.record
        identifier = packet.properties.subscription_identifier or 0
        wanted: list[Filter | Reason] = []
        granting: dict[bytes, Awaited[None]] = {}
        retained: dict[bytes, Filter] = {}
        for topic_filter, options in packet.filters:
            try:
                found = self._read(topic_filter, options, identifier)
            except _Refused as refused:
                wanted.append(refused.reason)
                continue
            wanted.append(found)
            handling = options >> RETAIN_HANDLING_SHIFT if self._client.version == VERSION_5 else 0
            is_new = found.sid.decode() not in record.subs
            if not found.group and (handling == 0 or (handling == _RETAINED_NEW and is_new)):
                retained[found.sid] = found
            before = granting.get(found.sid)
            if before is not None:
                await _settled(before)  # the last of two equal filters wins
            granting[found.sid] = begin(self._grant(found))
        return await self._codes(wanted, granting, retained)

    async def _codes(
        self,
        wanted: list[Filter | Reason],
        granting: dict[bytes, Awaited[None]],
        retained: dict[bytes, Filter],
    ) -> tuple[list[int], list[Filter]]:
        codes = []
        for found in wanted:
            if isinstance(found, Reason):
                codes.append(self._code(found))
                continue
            try:
                await granting[found.sid]
            except _Refused as refused:
                codes.append(self._code(refused.reason))
                retained.pop(found.sid, None)
            else:
                codes.append(found.qos)
        return codes, list(retained.values())

    def _code(self, reason: Reason) -> int:
        return reason if self._client.version == VERSION_5 else SUBACK_FAILURE

    def _read(self, topic_filter: bytes, options: int, identifier: int) -> Filter:
        group = b""
        if self._client.version == VERSION_5 and is_shared(topic_filter):
            parts = shared_parts(topic_filter)
            if parts is None:
                raise _Refused(Reason.TOPIC_FILTER_INVALID)
            group, topic_filter = parts
        try:
            subject = subject_of_topic(topic_filter, is_filter=True)
        except ValueError as error:
            self._account.log.debug("MQTT: filter %r: %s", topic_filter, str(error))
            raise _Refused(Reason.TOPIC_FILTER_INVALID) from None
        if not is_valid_subject(subject) or subject.startswith(INTERNAL):
            raise _Refused(Reason.TOPIC_FILTER_INVALID)
        if not self._client.may_subscribe(subject, group):
            raise _Refused(Reason.UNSPECIFIED_ERROR)  # all clients know it, while few take another one
        qos = options & QOS_MASK
        if self._account.settings.downgrades_qos2:
            qos = min(qos, 1)
        sid = SHARED + group + b"/" + subject if group else subject
        return Filter(sid, subject, group, qos, options & ~QOS_MASK, identifier)

    async def _grant(self, wanted: Filter) -> None:
        record, key = self._stored.record, wanted.sid.decode()
        is_new = key not in record.subs
        try:
            self._subscribe(wanted)
            if wanted.qos:
                await self._consume(wanted)
            elif await self._has_consumer(wanted):
                await self._consume(wanted)
                self._subscribe(wanted)
            else:
                await self._unconsume(wanted)
        except (RequestFailed, ValueError) as error:
            self._account.log.error("MQTT: unable to subscribe to %s: %s", key, str(error))
            if is_new:
                await self._drop(wanted)
            raise _Refused(
                Reason.QUOTA_EXCEEDED if isinstance(error, ValueError) else Reason.UNSPECIFIED_ERROR
            ) from None
        record.subs[key] = wanted.qos
        _set(record.ids, key, wanted.identifier)
        _set(record.opts, key, wanted.options)

    def _subscribe(self, wanted: Filter) -> None:
        """Make the plain subscriptions. Raises: ValueError where there are too many.

        One of QoS 0 that takes part in a consumer is none for its link: what is stored comes from there.
        """
        takes_part = wanted.group and wanted.sid.decode() in self._stored.record.cons
        for sid, subject in wanted.subjects:
            self._client.link.subscribe(
                sid,
                subject,
                wanted.group,
                qos=wanted.qos or (1 if takes_part else 0),
                options=wanted.options,
                identifier=wanted.identifier,
                hides_dollar=wanted.hides_dollar,
            )

    # -- shared filters of QoS 0 -----------------------------------------------------------------------

    async def _has_consumer(self, wanted: Filter) -> bool:
        """True if a filter is shared, and its group has a consumer; else the session hears when it gets one.

        Raises: RequestFailed.
        """
        if not wanted.group or wanted.sid.decode() in self._stored.record.cons:
            return bool(wanted.group)
        made = partial(self._take_part, wanted)
        return await self._sharing.has_consumer(self._shared_config(wanted), self._stored.hash, made)

    async def take_part(self, found: Filter) -> bool:
        """Take part in the consumer of a shared filter of QoS 0, if it still is one; True if it was begun."""
        record, key = self._stored.record, found.sid.decode()
        if record.subs.get(key) != 0 or key in record.cons:
            return False
        try:
            await self._consume(found)
            self._subscribe(found)
        except (RequestFailed, ValueError) as error:
            self._account.log.error("MQTT: unable to share %s: %s", key, str(error))
            return False
        return True

    async def restore_sharing(self) -> bool:
        """Take part in consumers that groups have got meanwhile; True if there is one.

        Raises: RequestFailed.
        """
        begun = False
        for found in self._filters():
            if found.group and not found.qos and found.sid.decode() not in self._stored.record.cons:
                begun |= await self._has_consumer(found) and await self.take_part(found)
        return begun

    def _shared_config(self, wanted: Filter) -> dict[str, Any]:
        subjects = [subject for _, subject in wanted.subjects]
        return self._sharing.config(wanted.group.decode(), subjects)

    # -- consumers -------------------------------------------------------------------------------------

    async def _consume(self, wanted: Filter) -> None:
        """Make the consumers of a filter, unless they are there. Raises: RequestFailed, ValueError."""
        record = self._stored.record
        new: list[tuple[bytes, dict[str, Any]]] = []
        for sid, config in self._configs(wanted):
            if sid.decode() not in record.cons:
                new.append((sid, config))
        release = None
        if wanted.qos == 2 and record.pubrel is None:
            release = release_config(self._account.settings, self._stored.hash)
        added = sum(config["max_ack_pending"] for _, config in new) + (
            release["max_ack_pending"] if release is not None else 0
        )
        if added and self._pending + added > MOST_PENDING:
            raise ValueError(
                f"max_ack_pending of all subscriptions of the session would be over {MOST_PENDING}"
            )
        record.cons.update((sid.decode(), config) for sid, config in new)
        asked: list[Awaited[Any]] = []
        try:
            if release is not None:
                record.pubrel = release
                self._outgoing().listen()
                asked.append(begin(self._account.requests.create_consumer(OUTGOING, release)))
            self._follow(wanted)
            asked += [begin(self._create(wanted, config)) for _, config in new]
            for made in asked:
                await made
        except RequestFailed:
            if release is not None:
                record.pubrel = None
            await self._discard(wanted, [sid for sid, _ in new])
            raise

    async def _create(self, wanted: Filter, config: dict[str, Any]) -> None:
        if wanted.group:
            await self._sharing.join(config, self._stored.hash)
        else:
            await self._account.requests.create_consumer(MESSAGES, config, self._client.link)

    def _configs(self, wanted: Filter) -> list[tuple[bytes, dict[str, Any]]]:
        if wanted.group:
            return [(wanted.sid, self._shared_config(wanted))]
        return [
            (sid, subscription_config(self._account.settings, self._stored.hash, subject))
            for sid, subject in wanted.subjects
        ]

    @property
    def _pending(self) -> int:
        """The sum of `max_ack_pending` of the session's consumers."""
        record = self._stored.record
        configs = [*record.cons.values(), *([record.pubrel] if record.pubrel is not None else [])]
        return sum(config.get("max_ack_pending", 0) for config in configs)

    def _follow(self, wanted: Filter) -> None:
        """Take the deliveries of a filter's consumers."""
        configs = self._stored.record.cons
        for sid, _ in wanted.subjects:
            config = configs.get(sid.decode())
            if config is None:
                continue
            self._following[sid] = self._client.link.follow(
                config["deliver_subject"].encode(),
                wanted.group,
                name=config["durable_name"].encode(),
                qos=wanted.qos,
                options=wanted.options,
                identifier=wanted.identifier,
                hides_dollar=wanted.hides_dollar,
                sid=b"" if wanted.group else sid,
            )

    # -- UNSUBSCRIBE -----------------------------------------------------------------------------------

    async def remove(self, packet: Unsubscribe) -> list[int]:
        """Take the filters of an UNSUBSCRIBE; return its codes, those of 5.0."""
        codes = []
        for topic_filter in packet.filters:
            try:
                found = self._unread(topic_filter)
            except _Refused as refused:
                codes.append(int(refused.reason))
                continue
            is_there = found.sid.decode() in self._stored.record.subs
            if is_there:
                await self._drop(found)
            codes.append(Reason.SUCCESS if is_there else Reason.NO_SUBSCRIPTION_EXISTED)
        return codes

    def _unread(self, topic_filter: bytes) -> Filter:
        group = b""
        if self._client.version == VERSION_5 and is_shared(topic_filter):
            parts = shared_parts(topic_filter)
            if parts is None:
                raise _Refused(Reason.TOPIC_FILTER_INVALID)
            group, topic_filter = parts
        try:
            subject = subject_of_topic(topic_filter, is_filter=True)
        except ValueError:
            raise _Refused(Reason.TOPIC_FILTER_INVALID) from None
        return Filter(SHARED + group + b"/" + subject if group else subject, subject, group)

    async def _drop(self, found: Filter) -> None:
        """End a filter: its subscriptions and its consumers."""
        record, key = self._stored.record, found.sid.decode()
        for sid, _ in found.subjects:
            self._client.link.unsubscribe(sid)
        if found.group:
            self._sharing.forget(self._shared_config(found), self._stored.hash)
        await self._unconsume(found)
        record.subs.pop(key, None)
        record.ids.pop(key, None)
        record.opts.pop(key, None)

    async def _unconsume(self, found: Filter) -> None:
        """Delete the consumers of a filter."""
        await self._discard(found, [sid for sid, _ in found.subjects])

    async def _discard(self, found: Filter, sids: list[bytes]) -> None:
        """Delete the consumers of some of a filter's sids; that one cannot be is said in the log."""
        record = self._stored.record
        names = []
        for sid in sids:
            follower = self._following.pop(sid, None)
            if follower is not None:
                self._client.link.unsubscribe(follower)
            config = record.cons.pop(sid.decode(), None)
            if config is not None:
                names.append(config["durable_name"])
        try:
            if found.group:
                for name in names:
                    await self._sharing.leave(name, self._stored.hash)
            else:
                await delete_consumers(self._account.requests, MESSAGES, names)
        except RequestFailed as error:
            self._account.log.error("MQTT: unable to delete a consumer: %s", error)

    # -- a new connection ------------------------------------------------------------------------------

    def restore(self) -> None:
        """Make the plain subscriptions of a stored session."""
        for found in self._filters():
            if self._client.may_subscribe(found.subject, found.group):
                try:
                    self._subscribe(found)
                except ValueError as error:
                    text = "MQTT: unable to subscribe to %r again: %s"
                    self._account.log.error(text, found.sid, str(error))

    async def restore_consumers(self) -> list[ConsumerAnswer]:
        """Find the consumers of a stored session; what is gone is made anew. Raises: RequestFailed."""
        record = self._stored.record
        asked = [begin(find_consumer(self._account, MESSAGES, config)) for config in record.cons.values()]
        if record.pubrel is not None:
            asked.append(begin(find_consumer(self._account, OUTGOING, record.pubrel)))
        found = [await one for one in asked]
        return [one for one in found if one is not None]

    def has_releases(self, consumers: list[ConsumerAnswer]) -> bool:
        """True if PUBRELs of the session wait in the stream."""
        release = self._stored.record.pubrel
        return release is not None and any(
            found.num_pending + found.num_ack_pending
            for found in consumers
            if found.name == release["durable_name"]
        )

    def ask_again(self, consumers: list[ConsumerAnswer]) -> None:
        """Have consumers send at once what nobody has acknowledged."""
        record = self._stored.record
        shared = {config["durable_name"] for config in record.cons.values() if "deliver_group" in config}
        release = record.pubrel
        for found in consumers:
            if found.name not in shared:  # what others of the group work on is theirs
                is_release = release is not None and found.name == release["durable_name"]
                ask_again(self._account, OUTGOING if is_release else MESSAGES, found)

    def follow_again(self) -> None:
        """Take the deliveries of a stored session's consumers."""
        if self._stored.record.pubrel is not None:
            self._outgoing().listen()
        for found in self._filters():
            if found.qos or found.group:
                self._follow(found)

    def _filters(self) -> list[Filter]:
        record = self._stored.record
        found = []
        for key, qos in record.subs.items():
            sid, group, subject = key.encode(), b"", key.encode()
            if sid.startswith(SHARED):
                if self._client.version != VERSION_5:
                    continue  # it waits until its client speaks 5.0 again
                group, _, subject = sid.removeprefix(SHARED).partition(b"/")
            found.append(Filter(sid, subject, group, qos, record.opts.get(key, 0), record.ids.get(key, 0)))
        return found

    def stop(self) -> None:
        """Take no deliveries of consumers any more."""
        for follower in self._following.values():
            self._client.link.unsubscribe(follower)
        self._following.clear()
        for found in self._filters():
            if found.group and not found.qos:
                self._sharing.forget(self._shared_config(found), self._stored.hash)


def _set(members: dict[str, int], key: str, number: int) -> None:
    if number:
        members[key] = number
    else:
        members.pop(key, None)


async def _settled(outcome: Awaited[None]) -> None:
    try:
        await outcome
    except _Refused:
        return
