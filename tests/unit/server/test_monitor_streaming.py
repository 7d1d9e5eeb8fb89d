"""Streaming endpoints of the monitor: fields and order, options, what is not found, when they are absent."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession
from monitor_samples import SampleSource

from headrace import Options, Server
from headrace.conf.streaming_options import ChannelLimits, StoreLimits, StreamingOptions
from headrace.errors import StorageError
from headrace.log.committer import InlineCommitter
from headrace.log.store import MemoryStore
from headrace.server.monitor import streaming
from headrace.server.monitor.listener import start_monitor
from headrace.server.monitor.streaming import NotFoundError, channelsz, clientsz, serverz, storez
from headrace.streaming.service import OpenStore, StreamingService
from headrace.streaming.snapshot import (
    ChannelSnapshot,
    ChannelSubscriptionSnapshot,
    ClientSnapshot,
    StoreSnapshot,
    StreamingSnapshot,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

START_NS = 1_795_228_781_081_736_130  # 2026-11-21T02:39:41.08173613Z
NOW_NS = START_NS + 3_723_000_000_000
NOW = "2026-11-21T03:41:44.08173613Z"

LIMITS = StoreLimits(
    max_age=1.5,
    max_inactivity=60,
    channels={"b": ChannelLimits(max_msgs=-1), "a.*": ChannelLimits(max_age=2)},
)


def subscription(client_id: str, **changes: Any) -> ChannelSubscriptionSnapshot:
    values: dict[str, Any] = {
        "client_id": client_id,
        "inbox": "_INBOX.x",
        "ack_inbox": "_INBOX.y",
        "durable_name": "",
        "queue_name": "",
        "is_durable": False,
        "is_offline": False,
        "max_inflight": 1024,
        "ack_wait": 30,
        "last_sent": 7,
        "pending_count": 2,
        "is_stalled": False,
    }
    return ChannelSubscriptionSnapshot(**{**values, **changes})


PLAIN = subscription("me")
DURABLE = subscription("old", durable_name="dur", queue_name="dur:q", is_durable=True, is_offline=True)


@dataclass
class Sample:
    """A service made of constants: clients c0, c1 ... and channels ch0, ch1 ..."""

    clients: int = 3
    channels: int = 2
    state: str = "STANDALONE"
    gone: set[str] = field(default_factory=set)

    def snapshot_server(self) -> StreamingSnapshot:
        return StreamingSnapshot(
            "test-cluster", "ID", self.state, "", "", NOW_NS, START_NS, self.clients, 4, self.channels,
            30, 300, 5, 50, 6, 60, "group", 1,
        )  # fmt: skip

    def snapshot_store(self) -> StoreSnapshot:
        return StoreSnapshot("test-cluster", "ID", NOW_NS, "FILE", LIMITS, 30, 300)

    def snapshot_clients(self) -> list[ClientSnapshot]:
        return [ClientSnapshot(f"c{n}", f"hb{n}", n) for n in range(self.clients)]

    def snapshot_client(self, client_id: str, *, subscriptions: bool = False) -> ClientSnapshot | None:
        number = int(client_id[1:]) if client_id[1:].isdigit() else self.clients
        if number >= self.clients or client_id in self.gone:
            return None
        found = {"b": [PLAIN], "a": [PLAIN, DURABLE]} if subscriptions and number else {}
        return ClientSnapshot(client_id, f"hb{number}", number, found)

    def channel_names(self) -> list[str]:
        return [f"ch{n}" for n in range(self.channels)]

    def snapshot_channel(self, name: str, *, subscriptions: bool = False) -> ChannelSnapshot | None:
        if name not in self.channel_names() or name in self.gone:
            return None
        return ChannelSnapshot(name, 10, 100, 1, 10, 2, [PLAIN, DURABLE] if subscriptions else [])


LISTED = {
    "client_id": "me",
    "inbox": "_INBOX.x",
    "ack_inbox": "_INBOX.y",
    "is_durable": False,
    "is_offline": False,
    "max_inflight": 1024,
    "ack_wait": 30,
    "last_sent": 7,
    "pending_count": 2,
    "is_stalled": False,
}
IDENTITY = {"cluster_id": "test-cluster", "server_id": "ID", "now": NOW}


# ---- documents ----------------------------------------------------------------------------------


def test_serverz_has_the_fields_of_the_reference_in_its_order() -> None:
    document = serverz(Sample(), {})
    assert list(document) == [
        *("cluster_id", "server_id", "version", "go", "state", "now", "start_time", "uptime", "clients"),
        *("subscriptions", "channels", "total_msgs", "total_bytes", "in_msgs", "in_bytes", "out_msgs"),
        *("out_bytes", "open_fds", "max_fds"),
    ]
    expected = {
        **IDENTITY,
        "version": "0.25.6",
        "state": "STANDALONE",
        "start_time": "2026-11-21T02:39:41.08173613Z",
        "uptime": "1h2m3s",
        **{"clients": 3, "subscriptions": 4, "channels": 2, "total_msgs": 30, "total_bytes": 300},
        **{"in_msgs": 5, "in_bytes": 50, "out_msgs": 6, "out_bytes": 60},
    }
    assert {name: document[name] for name in expected} == expected
    assert 0 < int(str(document["open_fds"])) < int(str(document["max_fds"]))


def test_storez_shows_limits_in_ns_and_what_acknowledgements_promise() -> None:
    document = storez(Sample(), {})
    unlimited = {"max_msgs": 0, "max_bytes": 0, "max_age": 0, "max_subscriptions": 0, "max_inactivity": 0}
    assert document == {
        **IDENTITY,
        "type": "FILE",
        "limits": {
            "max_channels": 100,
            "max_msgs": 1_000_000,
            "max_bytes": 1_024_000_000,
            "max_age": 1_500_000_000,
            "max_subscriptions": 1000,
            "max_inactivity": 60_000_000_000,
            "channels": {
                "a.*": {**unlimited, "max_age": 2_000_000_000},
                "b": {**unlimited, "max_msgs": -1},
            },
        },
        "total_msgs": 30,
        "total_bytes": 300,
        "sync": "group",
        "damaged": 1,
    }
    assert list(document)[:4] == ["cluster_id", "server_id", "now", "type"]


def test_clientsz_lists_clients_without_their_subscriptions() -> None:
    assert clientsz(Sample(), {}) == {
        **IDENTITY,
        **{"offset": 0, "limit": 1024, "count": 3, "total": 3},
        "clients": [{"id": f"c{n}", "hb_inbox": f"hb{n}", "subs_count": n} for n in range(3)],
    }


def test_clientsz_lists_subscriptions_by_channel_when_asked() -> None:
    document: Any = clientsz(Sample(), {"subs": "1"})
    none, some, _ = document["clients"]
    assert "subscriptions" not in none
    assert list(some) == ["id", "hb_inbox", "subs_count", "subscriptions"]
    assert list(some["subscriptions"]) == ["a", "b"]
    assert some["subscriptions"]["b"] == [LISTED]
    durable = some["subscriptions"]["a"][1]
    assert list(durable)[:5] == ["client_id", "inbox", "ack_inbox", "durable_name", "queue_name"]
    assert (durable["durable_name"], durable["queue_name"]) == ("dur", "dur:q")


def test_client_that_goes_while_it_is_listed_is_left_out() -> None:
    document = clientsz(Sample(gone={"c1"}), {"subs": "1"})
    assert (document["count"], document["total"]) == (2, 3)


def test_channelsz_lists_names_or_with_subs_channels() -> None:
    listing = {**IDENTITY, "offset": 0, "limit": 1024, "count": 2, "total": 2}
    assert channelsz(Sample(), {}) == {**listing, "names": ["ch0", "ch1"]}
    document: Any = channelsz(Sample(), {"subs": "1"})
    assert {**document, "channels": []} == {**listing, "channels": []}
    first = document["channels"][0]
    assert list(first) == ["name", "msgs", "bytes", "first_seq", "last_seq", "subs_count", "subscriptions"]
    assert first["subscriptions"][0] == LISTED


def test_empty_service_has_an_empty_list_of_clients_and_no_names() -> None:
    empty = Sample(clients=0, channels=0)
    assert clientsz(empty, {})["clients"] == []
    assert "names" not in channelsz(empty, {})
    assert "channels" not in channelsz(empty, {"subs": "1"})


@pytest.mark.parametrize(
    ("query", "offset", "limit", "names"),
    [
        ({"limit": "2"}, 0, 2, ["ch0", "ch1"]),
        ({"limit": "2", "offset": "3"}, 3, 2, ["ch3", "ch4"]),
        ({"offset": "4"}, 4, 1024, ["ch4"]),
        ({"offset": "99"}, 99, 1024, None),
        ({"offset": "-1", "limit": "-1"}, 0, 1024, ["ch0", "ch1", "ch2", "ch3", "ch4"]),
        ({"offset": "x", "limit": "1e3", "subs": "yes"}, 0, 1024, ["ch0", "ch1", "ch2", "ch3", "ch4"]),
        ({"limit": "9" * 40}, 0, 1024, ["ch0", "ch1", "ch2", "ch3", "ch4"]),
        ({"subs": "2"}, 0, 1024, ["ch0", "ch1", "ch2", "ch3", "ch4"]),
    ],
)
def test_pages(query: Mapping[str, str], offset: int, limit: int, names: list[str] | None) -> None:
    document = channelsz(Sample(channels=5), query)
    assert (document["offset"], document["limit"], document.get("names")) == (offset, limit, names)
    assert (document["count"], document["total"]) == (len(names or ()), 5)


def test_one_client_or_channel_is_a_document_of_its_own() -> None:
    assert clientsz(Sample(), {"client": "c2"}) == {"id": "c2", "hb_inbox": "hb2", "subs_count": 2}
    assert "subscriptions" in clientsz(Sample(), {"client": "c2", "subs": "1"})
    found = channelsz(Sample(), {"channel": "ch1"})
    assert found == {"name": "ch1", "msgs": 10, "bytes": 100, "first_seq": 1, "last_seq": 10, "subs_count": 2}
    assert "subscriptions" in channelsz(Sample(), {"channel": "ch1", "subs": "1"})


def test_one_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="Client who not found"):
        clientsz(Sample(), {"client": "who"})
    with pytest.raises(NotFoundError, match="Channel what not found"):
        channelsz(Sample(), {"channel": "what"})


# ---- over HTTP ----------------------------------------------------------------------------------


def fetch(source: Any, *paths: str, base_path: str = "") -> list[tuple[int, dict[str, str], bytes]]:
    async def run() -> list[tuple[int, dict[str, str], bytes]]:
        monitor = await start_monitor(SampleSource(), "127.0.0.1", -1, base_path, streaming=source)
        answers = []
        try:
            async with ClientSession(f"http://127.0.0.1:{monitor.port}") as session:
                for path in paths:
                    async with session.get(path) as response:
                        answers.append((response.status, dict(response.headers), await response.read()))
        finally:
            await monitor.close()
        return answers

    return asyncio.run(run())


@pytest.mark.parametrize("path", ["serverz", "storez", "clientsz", "channelsz"])
def test_endpoints_answer_with_indented_json(path: str) -> None:
    ((status, headers, body),) = fetch(Sample(), f"/streaming/{path}")
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert body.startswith(b'{\n  "cluster_id": "test-cluster",\n  "server_id": "ID",\n')


def test_paths_are_absent_where_no_streaming_runs() -> None:
    paths = [f"/streaming{each}" for each in ("", "/serverz", "/isFTActive", "/clientsz?client=c1")]
    assert [(status, body) for status, _, body in fetch(None, *paths)] == [(404, b"404 page not found\n")] * 4


def test_base_path_goes_before_them() -> None:
    answers = fetch(
        Sample(), "/nats/streaming/serverz", "/streaming/serverz", "/nats/streaming", base_path="nats"
    )
    assert [status for status, _, _ in answers] == [200, 404, 200]
    assert b'href="/nats/streaming/channelsz"' in answers[2][2]


def test_index_page_links_to_it() -> None:
    assert b'href="/nats/streaming"' in fetch(Sample(), "/nats", base_path="nats")[0][2]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("clientsz?client=%3Cb%3E", b"Client <b> not found\n"),
        ("channelsz?channel=x", b"Channel x not found\n"),
    ],
)
def test_unknown_client_or_channel_is_404_in_plain_text(path: str, text: bytes) -> None:
    ((status, headers, body),) = fetch(Sample(), f"/streaming/{path}")
    assert (status, body) == (404, text)
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(("state", "status"), [("FT_ACTIVE", 200), ("FT_STANDBY", 204), ("STANDALONE", 204)])
def test_is_ft_active_is_said_by_the_status_alone(state: str, status: int) -> None:
    ((found, _, body),) = fetch(Sample(state=state), "/streaming/isFTActive")
    assert (found, body) == (status, b"")


def test_callback_makes_it_jsonp() -> None:
    ((status, headers, body),) = fetch(Sample(), "/streaming/storez?callback=my.fun_1")
    assert status == 200
    assert headers["Content-Type"] == "application/javascript"
    assert body.startswith(b"my.fun_1({\n")
    assert body.endswith(b"})")


@pytest.mark.parametrize("name", ["alert(1)//", "a b", "%3Cscript%3E", "x" * 200, "1a"])
def test_callback_that_is_no_name_is_refused(name: str) -> None:
    ((status, _, body),) = fetch(Sample(), f"/streaming/storez?callback={name}")
    assert (status, body) == (400, b"callback must be the name of a function")


def test_long_listing_is_complete() -> None:
    ((_, _, body),) = fetch(Sample(channels=1500), "/streaming/channelsz?limit=2000")
    assert len(json.loads(body)["names"]) == 1500


def test_store_that_fails_is_500_with_the_reason() -> None:
    class Broken(Sample):
        def snapshot_server(self) -> StreamingSnapshot:
            raise StorageError("disk is gone")

    ((status, _, body),) = fetch(Broken(), "/streaming/serverz")
    assert (status, body) == (500, b"Error getting information about channels state: disk is gone\n")


# ---- the service itself -------------------------------------------------------------------------


def test_service_that_streams_is_found_among_the_servers() -> None:
    service = new_service()
    assert streaming.source_among([object(), service]) is service
    assert streaming.source_among([object()]) is None


def new_service() -> StreamingService:
    return StreamingService(
        StreamingOptions(), lambda: OpenStore(MemoryStore(), InlineCommitter()), logging.getLogger("headrace")
    )


def test_server_shows_the_streaming_service_it_runs() -> None:
    async def main() -> list[Any]:
        options = Options(host="127.0.0.1", port=-1, http_port=-1)
        found = []
        async with (
            Server(options, services=[new_service()]) as server,
            ClientSession(server.monitor_url) as session,
        ):
            for path in ("serverz", "storez", "clientsz", "channelsz"):
                async with session.get(f"/streaming/{path}") as response:
                    found.append(await response.json())
        return found

    server, store, clients, channels = asyncio.run(main())
    assert (server["state"], server["clients"], server["total_msgs"]) == ("STANDALONE", 0, 0)
    assert (store["type"], store["limits"]["max_subscriptions"], store["sync"]) == ("MEMORY", 1000, "group")
    assert (clients["total"], channels["total"]) == (0, 0)
    assert {each["cluster_id"] for each in (server, store, clients, channels)} == {"test-cluster"}
