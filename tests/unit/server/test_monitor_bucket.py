"""Buckets in monitoring: documents, metrics and health of a server made of constants."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from monitor_samples import OPTIONS, SERVER, SampleSource
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from headrace import app
from headrace.bucket.status import CommitTimes, RequestCount, ShardStatus, StandbyStatus
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.options import Options
from headrace.conf.streaming_options import StreamingOptions
from headrace.jetstream.opening import JetStreamServer
from headrace.server.monitor.bucket import bucket_field
from headrace.server.monitor.healthz import healthz
from headrace.server.monitor.jsz import jsz
from headrace.server.monitor.metrics import metrics
from headrace.server.monitor.streaming import serverz
from headrace.server.server import Server
from headrace.server.snapshot import ServerMonitor
from headrace.streaming.service import StreamingService

if TYPE_CHECKING:
    from pathlib import Path


def commits(*seconds: float) -> CommitTimes:
    times = CommitTimes()
    for each in seconds:
        times.add(each)
    return times


OWNER = ShardStatus(
    shard="jetstream",
    url="s3://b/p",
    role="owner",
    epoch=7,
    owner="demo",
    number=1234,
    snapshot=1000,
    commit="bucket",
    max_lag_s=1.0,
    lag_s=0.0051,
    lag_bytes=4096,
    commits=commits(0.004, 0.004, 0.02, 7.0).histogram(),
    requests=(
        RequestCount("create", "ok", 4, sent=1000),
        RequestCount("create", "exists", 1, sent=10),
        RequestCount("get", "ok", 2, received=77),
    ),
    stored_bytes=10**9,
    cached_bytes=10**6,
    absent_bytes=999 * 10**6,
    cache_state="filling",
    filled_bytes=12345,
    price_month=12.3456,
    standbys=(StandbyStatus("other", 2, 0.25),),
)
STANDBY = replace(OWNER, role="standby", owner="other", standbys=(), behind=3, lag_s=0.0, lag_bytes=0)


def source(**shards: ShardStatus) -> SampleSource:
    with_jetstream = replace(SERVER, options=replace(OPTIONS, jetstream=JetStreamOptions(store_dir="/d")))
    return SampleSource(with_jetstream, shards=shards)


def samples(given: SampleSource) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = metrics(given, {}, {}).decode()
    return {
        (each.name, frozenset((name, value) for name, value in each.labels.items() if name != "server_id")): (
            each.value
        )
        for family in text_string_to_metric_families(text)
        if family.name.startswith("headrace_bucket")
        for each in family.samples
    }


def value(given: SampleSource, name: str, shard: str = "jetstream", **labels: str) -> float:
    key = frozenset({"shard": shard, **labels}.items())
    return samples(given)[f"headrace_bucket_{name}", key]


def test_document_of_an_owner() -> None:
    assert bucket_field(OWNER) == {
        "bucket": {
            "url": "s3://b/p",
            "shard": "jetstream",
            "role": "owner",
            "epoch": 7,
            "owner": "demo",
            "number": 1234,
            "snapshot": 1000,
            "commit": "bucket",
            "lag_seconds": 0.0051,
            "lag_bytes": 4096,
            "behind": 0,
            "commits": {"count": 4, "total_seconds": 7.028, "p50_seconds": 0.005},
            "requests": [
                {"kind": "create", "outcome": "ok", "count": 4, "sent_bytes": 1000, "received_bytes": 0},
                {"kind": "create", "outcome": "exists", "count": 1, "sent_bytes": 10, "received_bytes": 0},
                {"kind": "get", "outcome": "ok", "count": 2, "sent_bytes": 0, "received_bytes": 77},
            ],
            "stored_bytes": 10**9,
            "cached_bytes": 10**6,
            "absent_bytes": 999 * 10**6,
            "cache_state": "filling",
            "price_month_usd": 12.35,
            "standbys": [{"server": "other", "behind": 2, "heard_seconds": 0.25}],
        }
    }


def test_document_tells_of_trouble() -> None:
    status = replace(OWNER, trouble="timed out", trouble_s=12.3456, last_error="503", cache_trouble="full")
    document = bucket_field(status)["bucket"]
    assert (document["trouble"], document["trouble_seconds"]) == ("timed out", 12.346)
    assert (document["last_error"], document["cache_trouble"]) == ("503", "full")


def test_nothing_of_it_without_a_bucket() -> None:
    assert bucket_field(None) == {}
    given = source()
    assert "bucket" not in jsz(given, {})
    assert samples(given) == {}
    assert healthz(given, {}) == (200, {"status": "ok"})


def test_metrics_of_a_bucket() -> None:
    given = source(JetStream=OWNER, Streaming=replace(STANDBY, shard="stan"))
    assert value(given, "epoch") == 7
    assert value(given, "number") == 1234
    assert value(given, "lag_seconds") == 0.0051
    assert value(given, "lag_bytes") == 4096
    assert value(given, "behind", shard="stan") == 3
    assert value(given, "absent_bytes") == 999 * 10**6
    assert value(given, "filled_bytes_total") == 12345
    assert value(given, "price_dollars_month") == 12.3456
    assert value(given, "unreachable_seconds") == 0
    roles = {role: value(given, "role", role=role) for role in ("starting", "standby", "claiming", "owner")}
    assert roles == {"starting": 0, "standby": 0, "claiming": 0, "owner": 1}
    assert value(given, "role", shard="stan", role="standby") == 1
    assert value(given, "requests_total", kind="create", outcome="exists") == 1
    assert value(given, "transferred_bytes_total", direction="sent") == 1010
    assert value(given, "transferred_bytes_total", direction="received") == 77


def test_commits_are_a_histogram() -> None:
    given = source(JetStream=OWNER)
    within = {
        bound: value(given, "commit_seconds_bucket", le=bound) for bound in ("0.002", "0.005", "0.02", "5.0")
    }
    assert within == {"0.002": 0, "0.005": 2, "0.02": 3, "5.0": 3}
    assert value(given, "commit_seconds_bucket", le="+Inf") == 4
    assert value(given, "commit_seconds_count") == 4
    assert value(given, "commit_seconds_sum") == pytest.approx(7.028)


def test_bucket_that_cannot_be_used_is_not_healthy() -> None:
    given = source(JetStream=OWNER, Streaming=replace(OWNER, trouble="503 SlowDown", trouble_s=12.4))
    error = "Streaming bucket s3://b/p cannot be used since 12s: 503 SlowDown"
    assert healthz(given, {}) == (503, {"status": "unavailable", "error": error})
    assert healthz(given, {"details": "1"}) == (
        503,
        {"status": "error", "errors": [{"type": "BUCKET", "error": error}]},
    )
    for only in ("js-server-only", "js-enabled-only"):
        assert healthz(given, {only: "1"}) == (200, {"status": "ok"})


@pytest.mark.parametrize(("lag", "code"), [(0.5, 200), (1.0, 200), (1.01, 503), (90.0, 503)])
def test_bucket_that_follows_may_be_so_far_behind(lag: float, code: int) -> None:
    status, document = healthz(source(JetStream=replace(OWNER, commit="disk", lag_s=lag)), {})
    assert status == code
    if code == 200:
        assert document["bucket"] == {"JetStream": {"commit": "disk", "lag_seconds": lag, "lag_bytes": 4096}}
    else:
        assert document["error"] == (
            f"JetStream bucket s3://b/p is {lag:.1f}s (4,096 bytes) behind what was acknowledged: "
            "commit is disk, max_lag 1s"
        )


@pytest.mark.parametrize(("since", "code"), [(0.5, 200), (1.0, 200), (1.01, 503)])
def test_bucket_that_follows_may_be_away_for_so_long(since: float, code: int) -> None:
    late = replace(OWNER, commit="disk", trouble="503 SlowDown", trouble_s=since)
    assert healthz(source(JetStream=late), {})[0] == code


def test_lag_of_a_commit_to_the_bucket_is_no_problem() -> None:
    """Who waits for it is not acknowledged yet: only requests that fail are a reason."""
    given: dict[str, Any] = healthz(source(JetStream=replace(OWNER, lag_s=90.0)), {})[1]
    assert given == {"status": "ok"}


def test_status_comes_from_the_services_of_a_server(tmp_path: Path) -> None:
    """Also before their stores are open."""
    streaming = StreamingOptions(store_type="FILE", directory=str(tmp_path / "channels"))
    jetstream = JetStreamOptions(store_dir=str(tmp_path / "streams"))
    options = Options(host="127.0.0.1", port=-1, streaming=streaming, jetstream=jetstream)
    on_streams, on_channels = STANDBY, replace(OWNER, shard="stan")

    async def use() -> None:
        with app.stored_services(options, pytest.fail) as (services, accounts):
            server = Server(options, services=services, account_services=accounts)
            monitor = ServerMonitor(server)
            assert monitor.buckets() == {}
            (channels,) = services
            assert isinstance(channels, StreamingService)
            assert isinstance(accounts, JetStreamServer)
            accounts.bucket = lambda: on_streams
            assert monitor.buckets() == {"JetStream": on_streams}
            channels.bucket = lambda: on_channels
            async with server:
                assert monitor.buckets() == {"JetStream": on_streams, "Streaming": on_channels}
                assert jsz(monitor, {})["bucket"]["epoch"] == 7
                assert serverz(channels, {})["bucket"] == bucket_field(on_channels)["bucket"]

    asyncio.run(use())
