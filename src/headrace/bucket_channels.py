"""Channels of NATS Streaming read from their bucket, with no server in the path.

Here lives `BucketChannels`; how a shard is read is in `bucket_streams`. Each channel is a log under its own
name, whose life its cluster's state tells by the time when it was made, as a server does. Limits of channels
are in the configuration of servers: what one has not removed yet is there.
Never here: clients, durables and what they have acknowledged (`headrace.streaming.state`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.bucket_streams import BucketLogs, BucketStream
from headrace.log.port import Limits
from headrace.protocol.documents import name_of, raw_name
from headrace.streaming.naming import is_channel_name
from headrace.streaming.state import STATE_LOG, load_state

if TYPE_CHECKING:
    from collections.abc import Mapping


class BucketChannels(BucketLogs[int]):
    """The channels of a cluster ID in a bucket; what is known of each is when it was made, in ns.

    A channel is there once its server has noted when it was made, which every start does where it is missing.
    """

    word = "channel"
    absent = "has no channels of {owner} in it"

    def _read_records(self) -> Mapping[str, int]:
        state, logs = load_state(self._look(STATE_LOG).store), self._logs()
        return {
            name_of(name): created_ns
            for name, created_ns in state.channels.items()
            if is_channel_name(name) and name in logs
        }

    def _open(self, name: str, created_ns: int) -> BucketStream:
        log_name = raw_name(name)
        look = self._look(log_name)
        log = look.store.open(log_name, Limits(waits_for_expire=True))
        return BucketStream(name, log_name, log, look, created_ns=created_ns)
