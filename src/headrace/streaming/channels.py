"""Channels: names, creation and its rules, the messages of each, expiry, and the end of unused ones.

A channel is a log of the store under the channel's own name; its records' subject is the channel. Who
publishes and who subscribes is elsewhere. Source: streaming specification, 4, 7, 14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from headrace.errors import LogError, MessageDamaged
from headrace.protocol.stan import MsgProto
from headrace.streaming import error_texts
from headrace.streaming.context import NS
from headrace.streaming.limits import limits_for, log_limits
from headrace.streaming.naming import is_channel_name, shown
from headrace.subjects.grammar import has_wildcard, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.core.service import Timer
    from headrace.engine.messages import Messages
    from headrace.engine.stan import Publications
    from headrace.log.port import MessageLog, StoredMessage
    from headrace.log.store import LogStore
    from headrace.streaming.context import Context
    from headrace.streaming.journal import StreamingJournal
    from headrace.streaming.shared_stream import SharedStream
    from headrace.streaming.subscription import ChannelSubscription, DurableKey, GroupKey, QueueGroup
    from headrace.turns import LateCommit

PAGE: Final = 1024
"""Messages of one read; a subscription that has room for more goes on in the next tick."""
PAGE_BYTES: Final = 1 << 20
_DELETE_RETRY_S: Final = 0.01
"""Seconds between two looks whether a channel that is to go still has commits under way."""
_REMEMBERED_DAMAGE: Final = 1000
"""Damaged sequences that are not reported a second time, per channel."""


class ChannelRefused(Exception):
    """A channel that cannot be had; `text` is what the client reads."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode("utf-8", "backslashreplace"))
        self.text = text


class ChannelPage(Struct, frozen=True):
    """Messages to deliver, those of `batch` from `start` on that have these sequences, and where to go on."""

    batch: Messages[Any]
    start: int
    sequences: Sequence[int]
    following: int


class Channel:
    """One channel: its log, what of it may be delivered, and its subscriptions."""

    def __init__(self, name: bytes, log: MessageLog, context: Context) -> None:
        self.name: Final = name
        self.log: Final = log
        self.limits: Final = limits_for(name, context.options.limits)
        self._context = context
        state = log.state()
        self.visible = state.last_sequence
        """The newest sequence that is as durable as the policy promises; nothing newer is delivered."""
        self.last_time_ns = state.last_time_ns
        self.fresh: tuple[int, Publications] | None = None
        """The batch that was just committed, and its first sequence.

        A subscription that is up to date need not read it.
        """
        self.plain: dict[int, ChannelSubscription] = {}
        self.groups: dict[GroupKey, QueueGroup] = {}
        self.durables: dict[DurableKey, ChannelSubscription] = {}
        self.by_ack_inbox: dict[bytes, ChannelSubscription] = {}
        self.by_inbox: dict[bytes, list[ChannelSubscription]] = {}
        self.subscriptions = 0
        """Offline durables and shadows included."""
        self.created_ns = 0
        """Tells it from a channel of the same name that was there before and deleted."""
        self.deleting = False
        """True while the channel is being deleted: it takes no publication and no subscription any more."""
        self.activity_ns = context.now_ns()
        self.waiting = 0
        """Publications whose commit is under way."""
        self.late: LateCommit | None = None
        """The commits that failed, if any did: what they were for is delivered when it is durable."""
        self.shared_stream: SharedStream | None = None
        """The stream that the same log is too."""
        self._damaged: set[int] = set()

    def everyone(self) -> Iterator[ChannelSubscription]:
        """Every subscription, offline durables and shadows included."""
        yield from self.plain.values()
        for group in self.groups.values():
            yield from group.members
            if group.shadow is not None:
                yield group.shadow

    def page(self, sequence: int, count: int) -> ChannelPage:
        """Return up to `count` visible messages at or after `sequence`, and where to go on.

        Raises: StorageError.
        """
        if self.fresh is not None:
            first, batch = self.fresh
            start = sequence - first
            if 0 <= start < len(batch):
                count = min(count, len(batch) - start)
                return ChannelPage(batch, start, range(sequence, sequence + count), sequence + count)
        end = self.visible + 1
        page = self.log.read_from(sequence, max_messages=min(count, PAGE), max_bytes=PAGE_BYTES, up_to=end)
        for damaged in page.damaged:
            self.report_damage(damaged, "unreadable")
        following = min(page.next_sequence, end)
        return ChannelPage(page.messages, 0, page.messages.sequences(), following)

    def stored(self, sequence: int) -> StoredMessage | None:
        """One message for redelivery; None when it is gone or damaged (which is reported).

        Raises: StorageError.
        """
        try:
            return self.log.read(sequence)
        except MessageDamaged as error:
            self.report_damage(sequence, str(error))
            return None

    def report_damage(self, sequence: int, reason: str) -> None:
        if sequence not in self._damaged:
            if len(self._damaged) < _REMEMBERED_DAMAGE:
                self._damaged.add(sequence)
            self._context.note.error("channel %s: message %d skipped: %s", shown(self.name), sequence, reason)


def redelivered(channel: bytes, message: StoredMessage, count: int) -> bytes:
    """A stored message as a subscriber gets it for the second time or later: its `count`-th redelivery."""
    sequence, time_ns, _subject, reply, _headers, payload = message
    return MsgProto(sequence, channel, reply, payload, time_ns, True, count).encode()


class Channels:
    """All channels of a service."""

    def __init__(self, context: Context, store: LogStore, journal: StreamingJournal) -> None:
        self._context = context
        self._store = store
        self._journal = journal
        self._by_name: dict[bytes, Channel] = {}
        self._by_lower_case: dict[bytes, bytes] = {}
        self._expiry: dict[bytes, Timer] = {}
        self._last_created_ns = 0

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: bytes) -> Channel | None:
        return self._by_name.get(name)

    def all(self) -> list[Channel]:
        return list(self._by_name.values())

    def matching(self, wanted: bytes) -> list[Channel]:
        """Return the channels of a name or of a wildcard subject, sorted by name.

        Cost: one look-up for a name.
        """
        if not has_wildcard(wanted):
            channel = self._by_name.get(wanted)
            return [] if channel is None else [channel]
        found = [channel for name, channel in self._by_name.items() if matches(wanted, name)]
        return sorted(found, key=lambda channel: channel.name)

    def get_or_create(self, name: bytes) -> Channel:
        """The caller has checked the name. Raises: ChannelRefused."""
        known = self._by_name.get(name)
        if known is not None:
            if known.deleting:
                raise ChannelRefused(error_texts.CHANNEL_DELETED)
            return known
        existing = self._by_lower_case.get(name.lower())
        if existing is not None:
            raise ChannelRefused(error_texts.different_case(name, existing))
        options = self._context.options
        most = options.limits.max_channels
        if 0 < most <= len(self._by_name):
            raise ChannelRefused(error_texts.TOO_MANY_CHANNELS)
        try:
            channel = self._open(name)
        except LogError as error:
            raise ChannelRefused(str(error).encode()) from error
        self._name_incarnation(channel)
        self._context.note.info('Channel "%s" has been created', shown(name))
        return channel

    def recover(self, created: Mapping[bytes, int]) -> None:
        """Open every channel that the store has; `created` says when each was made. Raises: LogError."""
        for name in self._store.names():
            if is_channel_name(name):
                channel = self._open(name)
                channel.created_ns = created.get(name, 0)
                if not channel.created_ns:  # imported, or the crash came between its log and its entry
                    self._name_incarnation(channel)

    def _name_incarnation(self, channel: Channel) -> None:
        """Name the channel's life, never the same twice for one name, however the clock jumps: two are a
        deletion apart.
        """
        self._last_created_ns = max(self._context.now_ns(), self._last_created_ns + 1)
        channel.created_ns = self._last_created_ns
        self._journal.channel(channel.name, channel.created_ns)

    def _open(self, name: bytes) -> Channel:
        options = self._context.options
        limits = log_limits(limits_for(name, options.limits), compresses=options.compression == "s2")
        log = self._store.open(name, limits)
        log.expire(self._context.now_ns())
        channel = Channel(name, log, self._context)
        self._by_name[name] = channel
        self._by_lower_case[name.lower()] = name
        self.watch_expiry(channel)
        self.watch_inactivity(channel)
        return channel

    def delete(self, channel: Channel, done: Callable[[LogError | None], None]) -> None:
        """Remove a channel and its messages, and call `done` then; it is refused to everybody until then.

        The caller has ended its subscriptions. That they and its incarnation are gone is durable first: a
        crash on the way leaves no subscription of a channel that is gone, and no new channel that passes for
        this one.
        """
        channel.deleting = True
        self._journal.channel_gone(channel.name)
        self._journal.after_commit(lambda error: self._delete_committed(channel, done, error))

    def _delete_committed(
        self, channel: Channel, done: Callable[[LogError | None], None], error: LogError | None
    ) -> None:
        if error is None and channel.waiting:  # publications that came before: they are answered before
            self._context.later(_DELETE_RETRY_S, lambda: self._delete_committed(channel, done, None))
            return
        if error is None:
            try:
                self._remove(channel)
            except LogError as failure:
                error = failure
        if error is not None:
            channel.deleting = False
            self._journal.channel(channel.name, channel.created_ns)
        done(error)

    def _remove(self, channel: Channel) -> None:
        """Remove a channel and its log. Raises: LogError."""
        self._store.remove(channel.name)
        del self._by_name[channel.name]
        del self._by_lower_case[channel.name.lower()]
        expiry = self._expiry.pop(channel.name, None)
        if expiry is not None:
            expiry.cancel()
        self._context.note.info('Channel "%s" has been deleted', shown(channel.name))

    def is_open(self, channel: Channel) -> bool:
        return self._by_name.get(channel.name) is channel

    # -- age ----------------------------------------------------------------------------------------

    def watch_expiry(self, channel: Channel) -> None:
        """Sees to it that messages go when they are over their age. Cheap when nothing has an age."""
        if channel.limits.max_age <= 0 or channel.name in self._expiry:
            return
        due = channel.log.next_expiry()
        if due is not None:
            seconds = max((due - self._context.now_ns()) / NS, 0.001)
            self._expiry[channel.name] = self._context.later(seconds, lambda: self._expire(channel))

    def _expire(self, channel: Channel) -> None:
        self._expiry.pop(channel.name, None)
        if not self.is_open(channel):
            return
        try:
            channel.log.expire(self._context.now_ns())
        except LogError as error:
            self._context.note.error(
                "channel %s: messages could not be expired: %s", shown(channel.name), error
            )
            return  # the next publication sets the timer again
        self.watch_expiry(channel)

    # -- inactivity -----------------------------------------------------------------------------------

    def touch(self, channel: Channel) -> None:
        """Note that something was published, or that the last subscription left."""
        channel.activity_ns = self._context.now_ns()

    def watch_inactivity(self, channel: Channel) -> None:
        if channel.limits.max_inactivity > 0 and channel.name not in self._context.adopted:
            idle = (self._context.now_ns() - channel.activity_ns) / NS
            seconds = max(channel.limits.max_inactivity - idle, 0.001)
            self._context.later(seconds, lambda: self._check_inactivity(channel))

    def _check_inactivity(self, channel: Channel) -> None:
        if not self.is_open(channel):
            return
        if channel.subscriptions or channel.waiting:
            self.touch(channel)
        idle = (self._context.now_ns() - channel.activity_ns) / NS
        if idle < channel.limits.max_inactivity:
            self.watch_inactivity(channel)
            return
        if not channel.deleting:
            self.delete(channel, lambda error: self._inactive_gone(channel, error))

    def _inactive_gone(self, channel: Channel, error: LogError | None) -> None:
        if error is not None:
            self._context.note.error('Channel "%s" could not be deleted: %s', shown(channel.name), error)
            self.touch(channel)
            self.watch_inactivity(channel)
