"""A consumer with replicas: what its Raft group was told, on top of what the member had stored of it.

The stored state is written a moment after its changes; the snapshot of the group and its log have the later
ones. A change that is in the stored state already changes nothing when it is applied again. Source:
nats-server 2.15 (filestore.go: UpdateDelivered, UpdateAcks; jetstream_cluster.go: applyConsumerEntries).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.importing.findings import Finding, Severity
from headrace.jetstream.consumer.ack_state import ConsumerState
from headrace.jetstream.importing.consumer_state import read_consumer_state
from headrace.jetstream.importing.raft_log import HOME
from headrace.jetstream.importing.stream_index import Varints
from headrace.protocol.jetstream.configs import AckPolicy

if TYPE_CHECKING:
    from headrace.jetstream.importing.raft_log import RaftLogs
    from headrace.protocol.jetstream.configs import ConsumerConfig

_DELIVERED: Final = 7
_ACKED: Final = 8
_SKIPPED: Final = 10
_RESET: Final = 18


def replayed(
    logs: RaftLogs, group: str, config: ConsumerConfig, stored: ConsumerState | None, findings: list[Finding]
) -> ConsumerState | None:
    """The stored state with what the group's log adds; None when neither has anything.

    Raises: SourceUnusable.
    """
    recovery = RaftRecovery(config, stored or ConsumerState())
    shown = f"{HOME}/{group}"
    try:
        snapshot = logs.snapshot(group, findings)
        if snapshot:
            recovery.snapshot(read_consumer_state(snapshot))
    except ValueError as error:
        findings.append(Finding(Severity.DAMAGED, f"{shown}/snapshots", str(error)))
    for kind, data in logs.operations(group, findings):
        try:
            recovery.apply(kind, Varints(data))
        except ValueError as error:
            text = f"an operation of kind {kind} cannot be read: {error}"
            findings.append(Finding(Severity.DAMAGED, shown, text))
    return recovery.state if stored is not None or recovery.is_told else None


class RaftRecovery:
    """Applies operations to a consumer's state. `state` may be replaced by another one."""

    def __init__(self, config: ConsumerConfig, state: ConsumerState) -> None:
        self.state = state
        self.is_told = False
        self._config = config

    def snapshot(self, state: ConsumerState) -> None:
        """Take the state of a snapshot, unless the one that is here is newer."""
        mine = self.state
        if state.delivered_consumer >= mine.delivered_consumer and state.floor_stream >= mine.floor_stream:
            self.state = state
            self.is_told = True

    def apply(self, kind: int, data: Varints) -> None:
        """Apply one entry of a consumer's raft log. Raises: ValueError."""
        if kind == _DELIVERED:
            self._deliver(data.sequence(), data.sequence(), data.sequence(), data.signed())
        elif kind == _ACKED:
            self.acknowledge(data.sequence(), data.sequence())
        elif kind == _SKIPPED:
            self._skip(data.sequence() - 1)
        elif kind == _RESET:
            self.state = ConsumerState()
            self.state.delivered_stream = self.state.floor_stream = max(data.sequence() - 1, 0)
        else:
            return
        self.is_told = True

    def _skip(self, sequence: int) -> None:
        state = self.state
        if sequence > state.delivered_stream:
            state.delivered_stream = sequence
            if self._config.ack_policy is AckPolicy.NONE:
                state.floor_stream = sequence

    def _deliver(self, number: int, sequence: int, times: int, time_ns: int) -> None:
        state = self.state
        if number <= state.floor_consumer:
            return
        waits = self._config.ack_policy is not AckPolicy.NONE
        if waits and sequence > state.delivered_stream:
            state.pending[sequence] = number, time_ns
        elif waits and sequence in state.pending:
            state.pending[sequence] = state.pending[sequence][0], time_ns
        state.delivered_consumer = max(state.delivered_consumer, number)
        state.delivered_stream = max(state.delivered_stream, sequence)
        if not waits:
            state.floor_consumer, state.floor_stream = state.delivered_consumer, state.delivered_stream
        elif times > 1:
            if 0 < self._config.max_deliver < times:
                state.pending.pop(sequence)
            state.redelivered[sequence] = max(state.redelivered.get(sequence, 0), times - 1)

    def acknowledge(self, number: int, sequence: int) -> None:
        """A message that was delivered as that number is done with."""
        state = self.state
        state.redelivered.pop(sequence, None)
        if number <= state.floor_consumer or sequence not in state.pending:
            return
        if self._config.ack_policy in (AckPolicy.ALL, AckPolicy.FLOW_CONTROL):
            state.floor_consumer, state.floor_stream = number, sequence
            for before in state.pending.take_up_to(sequence):
                state.redelivered.pop(before, None)
            return
        first, _ = state.pending[sequence]
        del state.pending[sequence]
        number = min(number, first or number)
        if not state.pending:
            state.floor_consumer, state.floor_stream = state.delivered_consumer, state.delivered_stream
        elif number == state.floor_consumer + 1:
            state.floor_consumer, state.floor_stream = number, sequence
            lowest = min((one for one in state.pending if one > sequence), default=0)
            if state.delivered_consumer > number and lowest and state.pending[lowest][0]:
                state.floor_consumer, state.floor_stream = state.pending[lowest][0] - 1, lowest - 1
