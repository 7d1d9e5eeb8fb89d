"""A server made of constants, for tests of the monitoring endpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.options import Options
from headrace.server.monitor.source import (
    AccountSnapshot,
    ConnectionSnapshot,
    ConnectionState,
    HealthSnapshot,
    ServerSnapshot,
    SublistSnapshot,
    SubscriptionSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.server.monitor.bucket import BucketStats
    from headrace.server.monitor.jetstream import JetStreamStats

START_NS = 1_795_228_781_081_736_130  # 2026-11-21T02:39:41.08173613Z
SECOND = 1_000_000_000
NOW_NS = START_NS + 3_723 * SECOND

OPTIONS = Options(
    host="127.0.0.1",
    authorization=AuthorizationOptions(users=(UserOptions("u", "pass-secret"),), token="token-secret"),
)

SERVER = ServerSnapshot(
    server_id="NSERVER",
    server_name="demo",
    version="2.10.0",
    git_commit="headrace-0",
    language_version="python3.11",
    host="127.0.0.1",
    port=4222,
    http_host="127.0.0.1",
    http_port=8222,
    options=OPTIONS,
    start_ns=START_NS,
    now_ns=NOW_NS,
    config_load_time_ns=START_NS,
    memory_bytes=14_635_008,
    cores=2,
    cpu_percent=1.0,
    connections=3,
    total_connections=5,
    in_msgs=6,
    in_bytes=60,
    out_msgs=7,
    out_bytes=70,
    in_client_msgs=6,
    in_client_bytes=60,
    out_client_msgs=7,
    out_client_bytes=70,
    subscriptions=4,
)


def subscription(
    subject: str, sid: str, cid: int, queue: str = "", max_msgs: int = 0
) -> SubscriptionSnapshot:
    return SubscriptionSnapshot(subject=subject, sid=sid, cid=cid, queue=queue, max_msgs=max_msgs)


def connection(cid: int, *subscriptions: SubscriptionSnapshot, **changes: object) -> ConnectionSnapshot:
    start_ns = START_NS + cid * SECOND
    plain = ConnectionSnapshot(
        cid=cid,
        ip="127.0.0.1",
        port=50_000 + cid,
        start_ns=start_ns,
        last_activity_ns=start_ns,
        num_subscriptions=len(subscriptions),
        subscriptions=lambda: subscriptions,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@dataclass
class SampleSource:
    """What the endpoints are given; tests change its fields."""

    snapshot: ServerSnapshot = SERVER
    open: Sequence[ConnectionSnapshot] = ()
    closed: Sequence[ConnectionSnapshot] = ()
    sublist: SublistSnapshot = field(default_factory=lambda: SublistSnapshot(num_subscriptions=0))
    error: str | None = None
    spaces: Sequence[AccountSnapshot] = ()
    stats: JetStreamStats | None = None
    shards: Mapping[str, BucketStats] = field(default_factory=dict)

    def server(self) -> ServerSnapshot:
        return self.snapshot

    def connections(self, state: ConnectionState) -> Sequence[ConnectionSnapshot]:
        if state is ConnectionState.OPEN:
            return self.open
        return self.closed if state is ConnectionState.CLOSED else [*self.closed, *self.open]

    def subscriptions(self, account: str | None = None) -> SublistSnapshot:
        return self.sublist if account in (None, "$G") else SublistSnapshot(num_subscriptions=0)

    def accounts(self) -> Sequence[AccountSnapshot]:
        return self.spaces

    def health(self) -> HealthSnapshot:
        return HealthSnapshot(self.error)

    def jetstream(self) -> JetStreamStats | None:
        return self.stats

    def buckets(self) -> Mapping[str, BucketStats]:
        return self.shards
