"""JetStream in monitoring: the documents of a server made of constants, and what it refuses."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass, field
from typing import Any

import pytest
from monitor_samples import NOW_NS, OPTIONS, SERVER, SampleSource
from msgspec.structs import replace

from headrace.conf.account_options import AccountOptions, JetStreamAccountLimits
from headrace.conf.jetstream_options import JetStreamLimits, JetStreamOptions
from headrace.copying import ArchiveSnapshot
from headrace.jetstream.leadership import ClusterPeer, Leadership, meta_cluster
from headrace.server.monitor.accountz import accountz
from headrace.server.monitor.gathered import at_once, in_steps, is_long
from headrace.server.monitor.healthz import healthz
from headrace.server.monitor.jetstream import section
from headrace.server.monitor.jsz import STREAMS_PER_STEP, account_jsz_steps, jsz, jsz_steps
from headrace.server.monitor.metrics import metrics
from headrace.server.monitor.query import QueryError
from headrace.server.monitor.runtime import ipqueuesz
from headrace.server.monitor.source import AccountSnapshot, SublistSnapshot
from headrace.server.monitor.varz import varz

META = {"_nats.ver": "2.15.1", "_nats.level": "5", "_nats.req.level": "0", "team": "a"}


@dataclass
class Stream:
    name: str
    messages: int = 5
    bytes: int = 190
    consumers: list[str] = field(default_factory=list)
    origins: dict[str, Any] = field(default_factory=dict)
    waiting: int = 0

    def document(self) -> dict[str, Any]:
        return {
            "type": "io.nats.jetstream.api.v1.stream_info_response",
            "config": {"name": self.name, "max_bytes": 7, "max_msgs": -1, "metadata": META},
            "created": "2026-11-21T22:00:44Z",
            "state": {"messages": self.messages, "bytes": self.bytes, "first_seq": 1, "last_seq": 5},
            "cluster": {"leader": "demo"},
            "ts": "2026-11-21T22:00:45Z",
            **self.origins,
        }

    def consumer_documents(self, *, direct: bool) -> list[dict[str, Any]]:
        names = ["inner"] if direct else self.consumers
        return [
            {
                "stream_name": self.name,
                "name": name,
                "config": {"durable_name": name, "description": "d", "metadata": META},
                "delivered": {"consumer_seq": 3, "stream_seq": 4, "last_active": "2026-11-21T22:00:44Z"},
                "ack_floor": {"consumer_seq": 1, "stream_seq": 2},
                "num_pending": 9,
                "ts": "2026-11-21T22:00:45.5Z",
            }
            for name in names
        ]


@dataclass
class Account:
    name: str
    memory: int = 24
    storage: int = 860
    api_total: int = 8
    api_errors: int = 1
    streams: list[Stream] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)


@dataclass
class Stats:
    accounts: list[Account]
    store_dir: str = "/d/jetstream"
    max_memory: int = 1000
    max_storage: int = 2000
    memory: int = 24
    storage: int = 860
    reserved_memory: int = 0
    reserved_storage: int = 7
    api_total: int = 8
    api_errors: int = 1
    api_inflight: int = 0
    archive: ArchiveSnapshot | None = None
    is_leader: bool = True
    trouble: str = ""
    meta_cluster: dict[str, Any] | None = None


JETSTREAM = JetStreamOptions(
    store_dir="/d", domain="hub", limits=JetStreamLimits(duplicate_window=60.0, max_batch_size=10)
)
SPACES = [
    AccountOptions("A", nickname="Alpha", jetstream={"": JetStreamAccountLimits(max_storage=2)}),
    AccountOptions("B", jetstream={"R1": JetStreamAccountLimits()}),
    AccountOptions("C"),
]


def source(**changes: Any) -> SampleSource:
    mirror = {"mirror": {"name": "S", "lag": 2, "active": 11, "external": {"api": "x", "deliver": "y"}}}
    stats = Stats(
        [Account("A", streams=[Stream("S", consumers=["C", "D"]), Stream("R", origins=mirror)]), Account("B")]
    )
    return SampleSource(
        snapshot=replace(SERVER, options=replace(OPTIONS, jetstream=JETSTREAM)),
        spaces=[
            AccountSnapshot(options=o, sublist=SublistSnapshot(num_subscriptions=0), loaded_ns=NOW_NS)
            for o in SPACES
        ],
        stats=dataclasses.replace(stats, **changes),
    )


def of_account(name: str, query: dict[str, str]) -> dict[str, Any]:
    return at_once(account_jsz_steps(source(), name, query))


HEAD = {
    "memory": 24,
    "storage": 860,
    "reserved_memory": 0,
    "reserved_storage": 7,
    "accounts": 2,
    "ha_assets": 0,
    "api": {"level": 5, "total": 8, "errors": 1},
}
CONFIG = {
    "max_memory": 1000,
    "max_storage": 2000,
    "store_dir": "/d/jetstream",
    "sync_interval": 120_000_000_000,
    "sync_always": True,
    "domain": "hub",
    "compress_ok": True,
    "strict": True,
}
LIMITS = {"max_duplicate_window": 60_000_000_000, "max_batch_size": 10, "default_max_consumers": 1000}


def test_jsz_without_options_has_totals_and_no_accounts() -> None:
    document = jsz(source(), {})
    assert list(document) == [
        *HEAD,
        *("server_id", "now", "config", "limits", "streams", "consumers", "messages", "bytes", "total"),
    ]
    assert {name: document[name] for name in HEAD} == HEAD
    assert document["config"] == CONFIG
    assert document["limits"] == LIMITS
    stats = [document[name] for name in ("streams", "consumers", "messages", "bytes", "total")]
    assert stats == [2, 2, 10, 380, 2]


def test_jsz_accounts_have_their_limits_and_no_streams() -> None:
    first, second = jsz(source(), {"accounts": "1"})["account_details"]
    assert first == {
        "name": "Alpha",
        "id": "A",
        "memory": 24,
        "storage": 860,
        "reserved_memory": 2**64 - 1,
        "reserved_storage": 2,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": 8, "errors": 1},
    }
    assert (second["reserved_memory"], second["reserved_storage"]) == (0, 0)


def test_jsz_streams_and_consumers_with_and_without_configuration() -> None:
    plain = jsz(source(), {"streams": "1"})["account_details"][0]["stream_detail"]
    assert list(plain[0]) == ["name", "created", "cluster", "state"]
    assert list(plain[1]) == ["name", "created", "cluster", "state", "mirror"]
    full = jsz(source(), {"consumers": "1", "config": "1"})["account_details"][0]["stream_detail"][0]
    assert list(full) == ["name", "created", "cluster", "config", "state", "consumer_detail"]
    assert full["config"]["metadata"] == {"_nats.req.level": "0", "team": "a"}
    assert [each["name"] for each in full["consumer_detail"]] == ["C", "D"]
    assert full["consumer_detail"][0]["config"]["metadata"] == {"_nats.req.level": "0", "team": "a"}
    bare = jsz(source(), {"consumers": "1"})["account_details"][0]["stream_detail"][0]
    assert "config" not in bare
    assert "config" not in bare["consumer_detail"][0]
    direct = jsz(source(), {"consumers": "1", "direct-consumers": "1"})["account_details"][0]
    assert [each["name"] for each in direct["stream_detail"][0]["direct_consumer_detail"]] == ["inner"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"accounts": "1", "offset": "1"}, ["B"]),
        ({"accounts": "1", "limit": "1"}, ["A"]),
        ({"accounts": "1", "offset": "9"}, None),
        ({"accounts": "1", "limit": "-1", "offset": "1"}, ["A", "B"]),
        ({"acc": "B"}, ["B"]),
        ({"acc": "C"}, None),
        ({"acc": "C", "streams": "1"}, None),
        ({"acc": "C", "accounts": "1"}, ["A", "B"]),
        ({"accounts": "1", "offset": "-1"}, ["A", "B"]),
    ],
)
def test_jsz_pages_and_chooses_accounts(query: dict[str, str], names: list[str] | None) -> None:
    document = jsz(source(), query)
    found = [each["id"] for each in document["account_details"]] if "account_details" in document else None
    assert found == names
    assert document["total"] == 2


def test_jsz_with_raft_says_what_is_led() -> None:
    document = jsz(source(), {"raft": "1"})
    assert (document["streams_leader"], document["consumers_leader"]) == (2, 2)


@pytest.mark.parametrize(
    "name", ["accounts", "streams", "consumers", "raft", "leader-only", "stream-leader-only"]
)
def test_jsz_refuses_what_is_no_truth_value(name: str) -> None:
    with pytest.raises(QueryError, match=name):
        jsz(source(), {name: "x"})


def test_jsz_of_one_account() -> None:
    assert of_account("A", {})["name"] == "Alpha"
    assert "stream_detail" not in of_account("A", {"consumers": "1"})
    assert len(of_account("A", {"streams": "1"})["stream_detail"]) == 2
    for name, text in (("C", 'account "C" not jetstream enabled'), ("X", 'account "X" not found')):
        with pytest.raises(QueryError, match=text):
            of_account(name, {})
    with pytest.raises(QueryError, match="jetstream not enabled"):
        at_once(account_jsz_steps(SampleSource(), "A", {}))


def test_jsz_without_jetstream_says_so() -> None:
    document = jsz(SampleSource(), {"consumers": "1"})
    assert document["disabled"] is True
    assert document["api"]["level"] == 0
    assert document["config"] == {"max_memory": 0, "max_storage": 0}


def test_varz_and_events_have_the_section() -> None:
    given = source()
    assert given.stats is not None
    document = varz(given.server(), {}, given.stats)
    assert document["jetstream"] == {"config": CONFIG, "stats": HEAD, "limits": LIMITS}
    hidden = section(JETSTREAM, given.stats, shows_directory=False)
    assert "store_dir" not in hidden["config"]


@pytest.mark.parametrize(
    ("sync", "shown"),
    [
        ("group", {"sync_interval": 120_000_000_000, "sync_always": True}),
        ("interval", {"sync_interval": 120_000_000_000}),
        ("never", {}),
    ],
)
def test_sync_policy_is_shown(sync: str, shown: dict[str, object]) -> None:
    config = section(replace(JETSTREAM, sync=sync), Stats([]))["config"]
    assert {name: value for name, value in config.items() if name.startswith("sync")} == shown


def test_accountz_says_who_has_jetstream() -> None:
    def enabled(name: str, given: SampleSource) -> object:
        return accountz(given, {"acc": name})["account_detail"]["jetstream_enabled"]  # type: ignore[index]

    assert [enabled(name, source()) for name in "ABC"] == [True, True, False]
    assert enabled("A", dataclasses.replace(source(), snapshot=SERVER)) is False


@pytest.mark.parametrize(
    ("query", "code", "error"),
    [
        ({}, 200, None),
        ({"account": "A", "stream": "S", "consumer": "C"}, 200, None),
        ({"account": "X"}, 404, 'JetStream account "X" not found'),
        ({"account": "A", "stream": "X"}, 404, 'JetStream stream "X" not found on account "A"'),
        (
            {"account": "A", "stream": "S", "consumer": "X"},
            404,
            'JetStream consumer "X" not found for stream "S" on account "A"',
        ),
        ({"stream": "S"}, 400, '"account" must not be empty when checking stream health'),
        ({"account": "X", "js-server-only": "1"}, 200, None),
        ({"account": "X", "js-enabled-only": "1"}, 200, None),
    ],
)
def test_healthz_looks_for_what_is_named(query: dict[str, str], code: int, error: str | None) -> None:
    status, document = healthz(source(), query)
    assert (status, document.get("error")) == (code, error)
    assert document["status"] == {200: "ok", 400: "error", 404: "unavailable"}[code]


def test_healthz_with_details_names_what_is_missing() -> None:
    _, document = healthz(source(), {"account": "A", "stream": "X", "details": "1"})
    assert document == {
        "status": "error",
        "errors": [
            {
                "type": "STREAM",
                "account": "A",
                "stream": "X",
                "error": 'JetStream stream "X" not found on account "A"',
            }
        ],
    }


def test_healthz_tells_of_streams_that_are_not_served() -> None:
    given = source(accounts=[Account("A", broken={"T": "no state", "U": "torn"}), Account("B")])
    status, document = healthz(given, {})
    assert (status, document["status"]) == (503, "unavailable")
    assert document["error"] == "JetStream stream 'A > T' could not be recovered: no state"
    _, detailed = healthz(given, {"details": "true"})
    assert [each["stream"] for each in detailed["errors"]] == ["T", "U"]  # type: ignore[attr-defined]
    assert healthz(given, {"account": "B"})[0] == 200
    assert healthz(given, {"account": "A", "stream": "U"})[0] == 503


def test_a_long_listing_is_made_in_steps_and_written_in_a_thread() -> None:
    account = Account("A", streams=[Stream(f"S{n}") for n in range(5 * STREAMS_PER_STEP)])
    turns = 0

    async def run() -> dict[str, Any]:
        async def other_work() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other_work())
        document = await in_steps(jsz_steps(source(accounts=[account]), {"streams": "1"}))
        task.cancel()
        return document

    document = asyncio.run(run())
    assert turns == 5
    assert document == jsz(source(accounts=[account]), {"streams": "1"})
    assert is_long(document)
    assert not is_long(jsz(source(), {"streams": "1"}))


def test_a_stream_that_went_meanwhile_is_left_out() -> None:
    gone = Stream("GONE")
    gone.document = dict  # type: ignore[method-assign]
    given = source(accounts=[Account("A", streams=[gone, Stream("S")])])
    (detail,) = jsz(given, {"streams": "1"})["account_details"]
    assert [each["name"] for each in detail["stream_detail"]] == ["S"]


def lines(given: SampleSource, **query: str) -> list[str]:
    text = metrics(given, {}, query).decode()
    return [line for line in text.splitlines() if line.startswith("jetstream_")]


def test_metrics_are_of_the_server_alone_unless_asked_for_more() -> None:
    labels = (
        '{cluster="",domain="hub",is_meta_leader="true",meta_leader="",'
        'server_id="NSERVER",server_name="demo"}'
    )
    assert lines(source()) == [
        f"jetstream_server_jetstream_disabled{labels} 0.0",
        f"jetstream_server_max_memory{labels} 1000.0",
        f"jetstream_server_max_storage{labels} 2000.0",
        f"jetstream_server_total_streams{labels} 2.0",
        f"jetstream_server_total_consumers{labels} 2.0",
        f"jetstream_server_total_messages{labels} 10.0",
        f"jetstream_server_total_message_bytes{labels} 380.0",
    ]
    assert lines(SampleSource()) == []


def test_metrics_of_accounts_streams_and_consumers() -> None:
    names = {line.partition("{")[0] for line in lines(source(), jsz="accounts")}
    assert "jetstream_account_storage_used" in names
    assert "jetstream_stream_total_messages" not in names
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines(source(), jsz="all")}
    names = {line.partition("{")[0] for line in found}
    assert {"jetstream_stream_limit_bytes", "jetstream_stream_mirror_lag"} <= names
    lag = next(name for name in found if name.startswith("jetstream_stream_mirror_lag"))
    assert 'mirror_api="x"' in lag
    assert 'mirror_name="S"' in lag
    assert found[lag] == 2
    seconds = [name for name in found if name.startswith("jetstream_consumer_last_delivery_seconds")]
    assert [found[name] for name in seconds] == [1.5, 1.5]
    assert 'consumer_desc="d"' in seconds[0]
    assert not [name for name in found if name.startswith("jetstream_consumer_last_ack")]


def test_queues_show_what_waits_for_the_disk_and_the_api() -> None:
    stats = Stats([Account("A", streams=[Stream("S", waiting=3), Stream("T")])], api_inflight=2)
    source = SampleSource(stats=stats)
    busy = {
        "JetStream API queue": {"pending": 2},
        "[ACC:A] stream 'S' messages": {"pending": 3},
    }
    assert ipqueuesz(source, {}) == busy
    assert ipqueuesz(source, {"all": "1"}) == busy | {"[ACC:A] stream 'T' messages": {"pending": 0}}
    assert ipqueuesz(source, {"queues": "stream"}) == {"[ACC:A] stream 'S' messages": {"pending": 3}}


def test_jsz_of_a_server_without_jetstream_leads_nothing() -> None:
    with pytest.raises(QueryError, match=r"^filtered response: not leader$"):
        jsz(SampleSource(), {"leader-only": "1"})


LED = Leadership("C", "S1", is_leader=False, peers=(ClusterPeer("S0", 7), ClusterPeer("S2", 9, lag=3)))


def test_servers_with_one_bucket_are_shown_as_a_cluster() -> None:
    """The ids are those that nats-server gives servers of these names."""
    meta = meta_cluster(LED)
    assert meta == {
        "name": "C",
        "leader": "S1",
        "peer": "sQnRv29R",
        "replicas": [
            {"name": "S0", "current": True, "active": 7, "peer": "0x4EEN9y"},
            {"name": "S2", "current": False, "active": 9, "lag": 3, "peer": "n2ha8Va6"},
        ],
        "cluster_size": 3,
        "pending": 0,
        "pending_requests": 0,
        "pending_infos": 0,
    }
    document = jsz(source(meta_cluster=meta), {})
    assert document["meta_cluster"] == meta
    assert list(document).index("meta_cluster") == list(document).index("bytes") + 1
    given = source(meta_cluster=meta)
    assert varz(given.server(), {}, given.stats)["jetstream"]["meta"] == meta
    assert "meta_cluster" not in jsz(source(), {})


def test_only_the_leader_answers_who_asks_for_the_leader() -> None:
    assert jsz(source(meta_cluster=meta_cluster(LED)), {"leader-only": "1"})["total"] == 2
    with pytest.raises(QueryError, match="not leader"):
        jsz(source(is_leader=False), {"leader-only": "1"})


@pytest.mark.parametrize("query", [{}, {"account": "A", "stream": "X"}])
def test_a_server_that_stands_by_is_well_as_long_as_it_follows(query: dict[str, str]) -> None:
    follows = source(is_leader=False, meta_cluster=meta_cluster(LED))
    assert healthz(follows, query) == (200, {"status": "ok"})
    alone = source(is_leader=False, meta_cluster=meta_cluster(Leadership("C", "", is_leader=False)))
    error = "JetStream has not established contact with a meta leader"
    assert healthz(alone, query) == (503, {"status": "unavailable", "error": error})
    assert healthz(alone, {**query, "js-server-only": "1"})[0] == 200
    cut_off = source(is_leader=False, meta_cluster=meta_cluster(LED), trouble="no answer from the bucket")
    assert healthz(cut_off, query) == (503, {"status": "unavailable", "error": "no answer from the bucket"})
    leads = source(meta_cluster=meta_cluster(LED), trouble="no answer from the bucket")
    assert healthz(leads, query)[0] == 503


def test_archive_is_shown_where_streams_are_archived() -> None:
    assert "archive" not in jsz(source(), {})  # nats-server has no such field
    stats = ArchiveSnapshot("/tables", rounds=2, rows=5, last_ns=NOW_NS, last_error="no")
    document = jsz(source(archive=stats), {})["archive"]
    assert (document["to"], document["rounds"], document["rows"]) == ("/tables", 2, 5)
    assert document["last_error"] == "no"
    assert document["last"].endswith("Z")
