"""Deliver policies: the sequence at which a consumer begins in its stream.

Source: nats-server 2.15 (selectStartingSeqNo).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.protocol.jetstream.configs import DeliverPolicy
from headrace.protocol.jetstream.times import to_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.log.port import LogState, MessageLog
    from headrace.protocol.jetstream.configs import ConsumerConfig


def starting_sequence(config: ConsumerConfig, log: MessageLog, filters: Sequence[bytes]) -> int:
    """The first sequence that a new consumer looks at. Raises: LogError."""
    state = log.state()
    first = state.first_sequence if state.messages or state.last_sequence else 0
    chosen = config.opt_start_seq
    if not chosen:
        chosen = _by_policy(config, log, state, filters)
        if state.messages == 0 and state.last_sequence == 0:
            return 1
        return max(min(chosen, state.last_sequence + 1), first)
    return max(chosen, first)


def _by_policy(config: ConsumerConfig, log: MessageLog, state: LogState, filters: Sequence[bytes]) -> int:
    match config.deliver_policy:
        case DeliverPolicy.ALL | DeliverPolicy.LAST_PER_SUBJECT:
            return state.first_sequence
        case DeliverPolicy.LAST:
            if not filters:
                return state.last_sequence
            return max(map(log.last_of, filters))
        case DeliverPolicy.BY_START_TIME if config.opt_start_time is not None:
            return log.sequence_at(to_ns(config.opt_start_time))
    return state.last_sequence + 1


def last_per_subject(log: MessageLog, filters: Sequence[bytes]) -> list[int]:
    """The sequences of the newest message of each subject, ascending."""
    found = {state.last_sequence for subject in filters or (b">",) for _, state in log.subjects(subject)}
    return sorted(found)
