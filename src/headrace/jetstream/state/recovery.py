"""Recovery after a restart: makes streams and consumers out of what the state log said.

What cannot be read here (a configuration of a later version, a damaged record) is reported, and kept as it
is. Messages without a stream are reported and kept: a stream that is made under that name takes them up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.change_log import read_changes
from headrace.jetstream.assets import state_log, stream_log
from headrace.jetstream.state.records import AccountChanges, AccountState

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.consumer.ack_state import ConsumerState
    from headrace.jetstream.state.records import ConsumerRecord, StreamRecord
    from headrace.log.port import MessageLog
    from headrace.log.store import LogStore


def read_state(
    store: LogStore, account: str, report: Callable[[int, str], object]
) -> tuple[AccountState, bool]:
    """Read the streams and consumers of an account from its state log; none if it was never there.

    Returns whether records were lost, too: `report` is told of each, with its sequence. Raises: LogError.
    """
    changes, name = AccountChanges(), state_log(account)
    if name not in store.names():
        return changes.state, False
    was_damaged = read_changes(store.open(name), changes, report)
    return changes.state, was_damaged


class JetStreamRecovery:
    """The recovery of one account after a start."""

    def __init__(self, account: AccountJetStream) -> None:
        self._account = account
        self._store = account.system.file
        self._logs: set[bytes] = set()
        """Names of the account's logs, as they were found."""
        self.damaged = False
        """True if records of the state were lost."""
        self._ahead_ns = 0
        """The lead of the clock by which the state was written over this one, at least."""

    def open_log(self) -> MessageLog:
        """The log of the account's state. Raises: LogError."""
        return self._store.open(state_log(self._account.name))

    def read(self) -> AccountState:
        """Read the state log; an account that was never there has none. Raises: LogError."""
        prefix = f"{self._account.name}/".encode()
        self._logs = {name for name in self._store.names() if name.startswith(prefix)}
        state, self.damaged = read_state(self._store, self._account.name, self._report)
        if state_log(self._account.name) in self._logs:
            self._ahead_ns = max(self.open_log().state().last_time_ns - self._account.now_ns(), 0)
        return state

    def _report(self, sequence: int, reason: str) -> None:
        self._account.note.error(
            "JetStream of account %s: state record %d skipped: %s", self._account.name, sequence, reason
        )

    def run(self, state: AccountState) -> None:
        """Bring everything back. Raises: LogError."""
        for name in state.removing:
            self._store.remove(stream_log(self._account.name, name))
            self._account.journal.stream_emptied(name)
        for name, record in state.streams.items():
            self._stream(name, record)
        unreadable = self._account.assets.unreadable
        for name, positions in state.positions.items():
            if name in self._account.streams:
                self._account.streams[name].positions = positions
            else:
                unreadable.positions[name] = positions
        for identity in sorted(state.consumers):
            self._consumer(state.consumers[identity])
        self._report_orphans(state)

    def _stream(self, name: str, record: StreamRecord) -> None:
        from headrace.jetstream.stream.stream import Stream  # with the first one

        account = self._account
        try:
            config = record.read()
        except ValueError as error:
            self._break(name, f"configuration cannot be read: {error}")
            account.assets.unreadable.streams[name] = record
            return
        if stream_log(account.name, name) not in self._logs:
            account.note.debug(
                "stream %s > %s: no messages are stored; one that never had any needs no file",
                account.name, name,
            )  # fmt: skip
        stream = Stream(account, config, account.assets.open_log(config), record.created_ns)
        account.streams[name] = stream
        account.configs.put(config)
        account.quota.usage.measure(stream)

    def _break(self, name: str, reason: str) -> None:
        self._account.broken[name] = reason
        self._account.note.error("stream %s > %s is not served: %s", self._account.name, name, reason)

    def _consumer(self, record: ConsumerRecord) -> None:
        from headrace.jetstream.consumer.consumer import Consumer  # with the first one

        account = self._account
        account.assets.next_identity = max(account.assets.next_identity, record.identity + 1)
        stream = account.streams.get(record.stream)
        if stream is None:
            if record.stream in account.broken:
                account.assets.unreadable.consumers[record.identity] = record
            else:
                account.journal.consumer_gone(record.identity)
            return
        try:
            name, config = record.read()
        except ValueError as error:
            account.note.error(
                "a consumer of stream %s > %s is not served: its configuration cannot be read: %s",
                account.name, record.stream, error,
            )  # fmt: skip
            account.assets.unreadable.consumers[record.identity] = record
            return
        state = record.state
        if state is not None and state.delivered_consumer and state.delivered_stream > stream.last_sequence:
            account.note.warning(
                "stream %s > %s: consumer %s was given messages up to %d, and the last one stored is %d:"
                " some are lost",
                account.name, record.stream, name, state.delivered_stream, stream.last_sequence,
            )  # fmt: skip
        if state is not None and self._ahead_ns:
            self._translate(state)
        consumer = Consumer(stream, config, name, record.created_ns, state)
        account.assets.enter(stream, consumer, record.identity)

    def _translate(self, state: ConsumerState) -> None:
        """Have messages that were delivered by another clock, in what is the future here, wait by this one.

        Else they would come again only when this clock is there.
        """
        now = self._account.now_ns()
        for sequence, (_, delivered_ns) in list(state.pending.items()):
            if delivered_ns > now:
                state.pending.renew(sequence, delivered_ns - self._ahead_ns, last=False)

    def _report_orphans(self, state: AccountState) -> None:
        prefix = stream_log(self._account.name, "")
        for log in sorted(self._logs - self._account.system.adopted):
            name = log.removeprefix(prefix)
            if name != log and (shown := name.decode("utf-8", "backslashreplace")) not in state.streams:
                self._account.note.error(
                    "messages of %s > %s are there and no stream of that name: they are kept, and a stream "
                    "that is created under that name takes them up", self._account.name, shown,
                )  # fmt: skip
