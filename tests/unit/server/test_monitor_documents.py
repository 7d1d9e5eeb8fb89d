"""What each monitoring endpoint says, from snapshots to documents, without HTTP."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from monitor_samples import NOW_NS, OPTIONS, SECOND, SERVER, SampleSource, connection, subscription
from msgspec.structs import replace

from headrace.conf.account_options import AuthorizationOptions
from headrace.conf.mqtt_options import MqttOptions
from headrace.conf.operator_options import OperatorOptions
from headrace.conf.tls_options import TLSOptions
from headrace.server.monitor.connz import connz
from headrace.server.monitor.healthz import healthz
from headrace.server.monitor.index import index
from headrace.server.monitor.links import gatewayz, leafz, routez
from headrace.server.monitor.query import QueryError
from headrace.server.monitor.source import KindCounts, MqttSnapshot, SublistSnapshot
from headrace.server.monitor.subsz import subsz
from headrace.server.monitor.text import encode
from headrace.server.monitor.varz import varz

FIRST = connection(1, subscription("a.*", "1", 1), user="ann", out_msgs=5, in_bytes=9, rtt_ns=246_999)
SECOND_ONE = connection(2, subscription("a.b", "7", 2, "grp", 5), subscription("c", "8", 2), pending_bytes=4)
THIRD = connection(3, user="bob", account="A", name="n", lang="py", version="1", last_activity_ns=NOW_NS)
GONE = connection(
    9, subscription("z", "1", 9), stop_ns=NOW_NS - SECOND, reason="Stale Connection", user="ann"
)
KICKED = connection(4, stop_ns=NOW_NS, reason="Client Closed")
SOURCE = SampleSource(open=(SECOND_ONE, FIRST, THIRD), closed=(GONE, KICKED))


def connections(**query: str) -> list[dict[str, object]]:
    found = connz(SOURCE, query)["connections"]
    assert isinstance(found, list)
    return found


def cids(**query: str) -> list[object]:
    return [entry["cid"] for entry in connections(**query)]


def test_varz_plain_server_has_the_fields_in_the_go_servers_order() -> None:
    document = varz(SERVER, {"/varz": 2, "/": 1})
    assert list(document)[:10] == [
        *("server_id", "server_name", "version", "proto", "git_commit", "go", "host", "port"),
        *("max_connections", "ping_interval"),
    ]
    assert document["ping_interval"] == 120 * SECOND
    assert document["write_deadline"] == 10 * SECOND
    assert document["auth_timeout"] == 2
    assert document["uptime"] == "1h2m3s"
    assert document["start"] == "2026-11-21T02:39:41.08173613Z"
    assert document["jetstream"] == {}
    assert list(document["http_req_stats"]) == ["/", "/varz"]  # type: ignore[call-overload]


def test_varz_fields_that_say_nothing_are_absent() -> None:
    optional = {"auth_required", "tls_required", "tls_verify", "connect_urls", "max_subscriptions", "tags"}
    optional |= {"system_account", "tls_cert_not_after"}
    assert not optional & set(varz(SERVER, {}))
    snapshot = replace(
        SERVER,
        auth_required=True,
        tls_required=True,
        tls_verify=True,
        connect_urls=("127.0.0.1:4222",),
        options=replace(OPTIONS, max_subscriptions=7, server_tags=("a:b",)),
        system_account="$SYS",
        tls_certificate_expires_ns=0,
    )
    document = varz(snapshot, {})
    assert optional <= set(document)
    assert document["tls_cert_not_after"] == "1970-01-01T00:00:00Z"


def test_varz_auth_timeout_follows_configuration_then_tls() -> None:
    tls = replace(OPTIONS, tls=TLSOptions("c", "k", timeout=4.0))
    assert varz(replace(SERVER, options=tls), {})["auth_timeout"] == 5
    assert varz(replace(SERVER, options=tls), {})["tls_timeout"] == 4
    configured = replace(tls, authorization=AuthorizationOptions(timeout=0.6))
    assert varz(replace(SERVER, options=configured), {})["auth_timeout"] == 0.6


def test_varz_totals_are_sums_over_kinds() -> None:
    document = varz(replace(SERVER, slow_consumers=KindCounts(clients=3, routes=1)), {})
    assert document["slow_consumers"] == 4
    assert document["slow_consumer_stats"] == {"clients": 3, "routes": 1, "gateways": 0, "leafs": 0}


def test_varz_shows_no_secret() -> None:
    assert b"secret" not in encode(varz(SERVER, {}))


def test_connz_default_lists_open_connections_by_cid() -> None:
    document = connz(SOURCE, {})
    assert list(document) == [
        *("server_id", "now", "num_connections", "total", "offset", "limit", "connections"),
    ]
    assert (document["num_connections"], document["total"], document["limit"]) == (3, 3, 1024)
    assert cids() == [1, 2, 3]


def test_connz_connection_has_the_fields_in_the_go_servers_order() -> None:
    entry = connections(cid="3")[0]
    assert list(entry) == [
        *("cid", "kind", "type", "ip", "port", "start", "last_activity", "rtt", "uptime", "idle"),
        *("pending_bytes", "in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions"),
        *("name", "lang", "version"),
    ]
    assert (entry["uptime"], entry["idle"], entry["rtt"]) == ("1h2m0s", "0s", "0s")
    assert connections(cid="1")[0]["rtt"] == "246µs"


def test_connz_optional_fields_are_shown_when_they_say_something() -> None:
    loud = connection(1, stalls=2, tls_version="1.3", tls_cipher="TLS_X", tls_first=True)
    entry = connz(SampleSource(open=(loud,)), {})["connections"][0]  # type: ignore[index]
    assert (entry["stalls"], entry["tls_version"], entry["tls_cipher_suite"], entry["tls_first"]) == (
        *(2, "1.3", "TLS_X"),
        True,
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [("open", [1, 2, 3]), ("CLOSED", [4, 9]), ("any", [1, 2, 3, 4, 9]), ("all", [1, 2, 3, 4, 9])],
)
def test_connz_state(state: str, expected: list[int]) -> None:
    assert cids(state=state) == expected
    assert connz(SOURCE, {"state": state})["total"] == len(expected)


def test_connz_closed_connection_says_when_and_why_and_stops_the_clock() -> None:
    entry = connections(cid="9", state="closed")[0]
    assert entry["reason"] == "Stale Connection"
    assert list(entry)[7:9] == ["stop", "reason"]
    assert entry["uptime"] == "1h1m53s"


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("cid", [1, 2, 3]),
        ("start", [1, 2, 3]),
        ("subs", [2, 1, 3]),
        ("pending", [2, 1, 3]),
        ("msgs_to", [1, 2, 3]),
        ("bytes_from", [1, 2, 3]),
        ("bytes_to", [1, 2, 3]),
        ("msgs_from", [1, 2, 3]),
        ("last", [3, 2, 1]),
        ("idle", [1, 2, 3]),
        ("uptime", [3, 2, 1]),
        ("rtt", [1, 2, 3]),
    ],
)
def test_connz_sort(sort: str, expected: list[int]) -> None:
    assert cids(sort=sort) == expected


def test_connz_sort_of_closed_connections() -> None:
    assert cids(sort="stop", state="closed") == [4, 9]
    assert cids(sort="reason", state="closed") == [4, 9]


def test_connz_page() -> None:
    assert cids(limit="1") == [1]
    assert cids(offset="1", limit="1") == [2]
    assert cids(offset="99") == []
    assert connz(SOURCE, {"offset": "1", "limit": "1"})["total"] == 3


def test_connz_cid_selects_one_in_the_state_asked_for() -> None:
    assert cids(cid="2") == [2]
    assert cids(cid="9") == []
    assert cids(cid="9", state="any") == [9]
    assert connz(SOURCE, {"cid": "2"})["limit"] == 1
    assert connz(SOURCE, {"cid": "2"})["total"] == 3


def test_connz_filters_by_user_account_and_interest() -> None:
    assert cids(user="ann") == [1]
    assert cids(user="ann", state="any") == [1, 9]
    assert cids(acc="A") == [3]
    assert connz(SOURCE, {"acc": "A"})["total"] == 1
    assert cids(acc="none") == []
    assert cids(acc="$G", filter_subject="a.b") == [1, 2]
    assert cids(acc="$G", filter_subject="x") == []
    assert cids(acc="$G", filter_subject=">") == [1, 2]
    assert cids(mqtt_client="m") == []


def test_connz_shows_and_filters_mqtt_clients() -> None:
    source = SampleSource(
        open=(connection(1), connection(2, type="mqtt", mqtt_client="m", proxy_key="U1")),
        closed=(connection(3, type="mqtt", mqtt_client="m", stop_ns=NOW_NS), connection(4, stop_ns=NOW_NS)),
    )

    def found(**query: str) -> list[dict[str, object]]:
        return connz(source, {"mqtt_client": "m", **query})["connections"]  # type: ignore[return-value]

    assert [entry["cid"] for entry in found()] == [2]
    assert [entry["cid"] for entry in found(state="closed")] == [3]
    assert [entry["cid"] for entry in found(state="all")] == [2, 3]
    assert found(user="ann") == []
    assert (found()[0]["type"], found()[0]["mqtt_client"]) == ("mqtt", "m")
    assert list(found()[0])[-2:] == ["mqtt_client", "proxy"]
    assert "mqtt_client" not in connz(source, {"cid": "1"})["connections"][0]  # type: ignore[index]


def test_metrics_count_mqtt_clients_and_retained_messages() -> None:
    pytest.importorskip("prometheus_client")
    from headrace.server.monitor.metrics import metrics

    with_mqtt = SampleSource(snapshot=replace(SERVER, mqtt=MqttSnapshot(clients=3, retained=2)))
    label = f'{{server_id="{SERVER.server_id}"}}'

    text = metrics(with_mqtt, {}, {}).decode()
    assert f"headrace_mqtt_clients{label} 3.0" in text
    assert f"headrace_mqtt_retained_messages{label} 2.0" in text
    assert b"headrace_mqtt" not in metrics(SOURCE, {}, {})


def test_varz_of_an_mqtt_port() -> None:
    def section(**options: Any) -> object:
        snapshot = replace(SERVER, options=replace(OPTIONS, mqtt=MqttOptions(**options)), mqtt_port=1883)
        return varz(snapshot, {})["mqtt"]

    assert varz(SERVER, {})["mqtt"] == {}
    assert section() == {"host": "0.0.0.0", "port": 1883, "tls_timeout": 2}
    assert section(
        host="h",
        no_auth_user="a",
        authorization=AuthorizationOptions(timeout=1.5, token="secret"),
        tls=TLSOptions("c", "k", timeout=3.0, verify=True, verify_and_map=True, pinned_certs=("ab",)),
        js_domain="d",
        ack_wait=1.5,
        max_ack_pending=7,
    ) == {
        "host": "h",
        "port": 1883,
        "no_auth_user": "a",
        "auth_timeout": 1.5,
        "tls_map": True,
        "tls_timeout": 3,
        "tls_pinned_certs": ["ab"],
        "js_domain": "d",
        "ack_wait": 1_500_000_000,
        "max_ack_pending": 7,
    }


def test_connz_subs_lists_subjects() -> None:
    entries = connections(subs="1")
    assert entries[1]["subscriptions_list"] == ["a.b", "c"]
    assert "subscriptions_list" not in entries[2]


def test_connz_subs_detail_lists_subscriptions() -> None:
    entry = connections(subs="detail", cid="2")[0]
    assert entry["subscriptions_list_detail"] == [
        {"subject": "a.b", "qgroup": "grp", "sid": "7", "msgs": 0, "max": 5, "cid": 2},
        {"subject": "c", "sid": "8", "msgs": 0, "cid": 2},
    ]
    closed = connections(subs="DETAIL", cid="9", state="closed")[0]["subscriptions_list_detail"]
    assert closed == [{"account": "$G", "account_tag": "$G", "subject": "z", "sid": "1", "msgs": 0, "cid": 9}]


def test_connz_without_subs_does_not_gather_subscriptions() -> None:
    def fail() -> tuple[()]:
        raise AssertionError("nobody asked for them")

    assert connz(SampleSource(open=(connection(1, subscriptions=fail),)), {})["num_connections"] == 1


def test_connz_auth_shows_user_and_account() -> None:
    first, second, third = connections(auth="1")
    assert (first["authorized_user"], first["name_tag"]) == ("ann", "$G")
    assert "account" not in first
    assert "authorized_user" not in second
    assert (third["account"], third["name_tag"]) == ("A", "A")
    assert "authorized_user" not in connections()[0]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"subs": "x"}, "Error decoding boolean for 'subs'"),
        ({"auth": "x"}, "Error decoding boolean for 'auth'"),
        ({"limit": "x"}, "Error decoding int for 'limit'"),
        ({"offset": "1.5"}, "Error decoding int for 'offset'"),
        ({"cid": "-1"}, "Error decoding uint64 for 'cid'"),
        ({"state": "zz"}, "Error decoding state for zz"),
        ({"sort": "zz"}, "invalid sorting option: zz"),
        ({"sort": "stop"}, "sort by stop only valid on closed connections"),
        ({"sort": "reason", "state": "any"}, "sort by reason only valid on closed connections"),
        ({"filter_subject": "a"}, "filter by subject only valid with account filtering"),
    ],
)
def test_connz_option_not_understood_is_an_error(query: dict[str, str], problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        connz(SOURCE, query)


SUBLIST = SampleSource(
    sublist=SublistSnapshot(
        num_subscriptions=3,
        num_cache=2,
        num_inserts=4,
        num_removes=1,
        num_matches=6,
        cache_hit_rate=0.5,
        max_fanout=2,
        avg_fanout=1.0,
        details=lambda: [
            subscription("a.*", "1", 1),
            subscription("a.b", "2", 1, "q", 3),
            subscription("c", "1", 2),
        ],
    )
)


def test_subsz_plain_has_counters_and_no_list() -> None:
    document = subsz(SUBLIST, {})
    assert list(document) == [
        *("server_id", "now", "num_subscriptions", "num_cache", "num_inserts", "num_removes"),
        *("num_matches", "cache_hit_rate", "max_fanout", "avg_fanout", "total", "offset", "limit"),
    ]
    assert (document["total"], document["limit"], document["avg_fanout"]) == (0, 1024, 1)


def test_subsz_subs_lists_every_subscription() -> None:
    document = subsz(SUBLIST, {"subs": "1"})
    entry = {"account": "$G", "account_tag": "$G", "subject": "a.b", "qgroup": "q", "sid": "2", "msgs": 0}
    assert document["total"] == 3
    assert document["subscriptions_list"][1] == {**entry, "max": 3, "cid": 1}  # type: ignore[index]


def test_subsz_test_keeps_subscriptions_that_would_receive_it() -> None:
    document = subsz(SUBLIST, {"subs": "1", "test": "a.b"})
    assert [entry["subject"] for entry in document["subscriptions_list"]] == ["a.*", "a.b"]  # type: ignore[attr-defined]
    assert document["total"] == 2


def test_subsz_page_and_account() -> None:
    document = subsz(SUBLIST, {"subs": "1", "offset": "1", "limit": "1"})
    assert [entry["subject"] for entry in document["subscriptions_list"]] == ["a.b"]  # type: ignore[attr-defined]
    assert document["total"] == 3
    assert "subscriptions_list" not in subsz(SUBLIST, {"subs": "1", "offset": "9"})
    assert subsz(SUBLIST, {"acc": "$G"})["num_subscriptions"] == 3
    assert subsz(SUBLIST, {"acc": "other", "subs": "1"})["num_subscriptions"] == 0


@pytest.mark.parametrize("test", ["a.*", "a..b", ">"])
def test_subsz_test_subject_not_literal_is_an_error(test: str) -> None:
    with pytest.raises(QueryError) as raised:
        subsz(SUBLIST, {"test": test})
    assert str(raised.value) == f"invalid test subject, must be valid publish subject: {test}"


def test_healthz_well_says_ok_whatever_jetstream_options() -> None:
    query = {"js-enabled-only": "1", "js-server-only": "true", "js-meta-only": "1", "details": "1"}
    assert healthz(SampleSource(), {}) == (200, {"status": "ok"})
    assert healthz(SampleSource(), query) == (200, {"status": "ok"})
    assert healthz(SampleSource(), {"account": "$G", "stream": "x"}) == (200, {"status": "ok"})


def test_healthz_unwell_gives_the_reason() -> None:
    source = SampleSource(error="not accepting")
    assert healthz(source, {}) == (500, {"status": "error", "error": "not accepting"})
    detailed = {"status": "error", "errors": [{"type": "CONNECTION", "error": "not accepting"}]}
    assert healthz(source, {"details": "1"}) == (500, detailed)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"stream": "s"}, '"account" must not be empty when checking stream health'),
        ({"consumer": "c"}, '"stream" must not be empty when checking consumer health'),
    ],
)
def test_healthz_contradicting_options_are_refused(query: dict[str, str], error: str) -> None:
    assert healthz(SampleSource(), query) == (400, {"status": "error", "error": error})


@pytest.mark.parametrize(
    "name", ["js-enabled", "js-enabled-only", "js-server-only", "js-meta-only", "details"]
)
def test_healthz_option_not_understood_is_an_error(name: str) -> None:
    with pytest.raises(QueryError, match=f"Error decoding boolean for '{name}'"):
        healthz(SampleSource(), {name: "x"})


def test_links_are_the_empty_forms() -> None:
    now = connz(SOURCE, {})["now"]
    assert routez(SOURCE, {"subs": "detail"}) == {
        "server_id": "NSERVER",
        "server_name": "demo",
        "now": now,
        "num_routes": 0,
        "routes": [],
    }
    assert leafz(SOURCE, {}) == {"server_id": "NSERVER", "now": now, "leafnodes": 0, "leafs": []}
    empty = {"outbound_gateways": {}, "inbound_gateways": {}}
    assert gatewayz(SOURCE, {}) == {"server_id": "NSERVER", "now": now, **empty}


@pytest.mark.parametrize(("endpoint", "name"), [(routez, "subs"), (leafz, "subs"), (gatewayz, "accs")])
def test_links_option_not_understood_is_an_error(endpoint: object, name: str) -> None:
    assert callable(endpoint)
    with pytest.raises(QueryError):
        endpoint(SOURCE, {name: "x"})


def test_index_links_every_endpoint_under_the_base_path_and_escapes_the_name() -> None:
    page = index("<b>", "/base")
    assert 'href="/base/varz"' in page
    assert 'href="/base/metrics"' in page
    assert "<b>" not in page


def test_varz_names_operators_metadata_and_features() -> None:
    claims = base64.urlsafe_b64encode(b'{"iss":"O","nats":{"type":"operator"}}').decode().rstrip("=")
    token = f"e30.{claims}.sig"
    operator = OperatorOptions(trusted_keys=("O",), operator_tokens=(token,))
    options = replace(OPTIONS, operator=operator, server_metadata={"zone": "a"})
    document = varz(replace(SERVER, options=options), {})
    assert document["metadata"] == {"zone": "a"}
    assert document["trusted_operators_jwt"] == [token]
    assert document["trusted_operators_claim"] == [{"iss": "O", "nats": {"type": "operator"}}]
    assert set(document["feature_flags"].values()) == {False}  # type: ignore[attr-defined]
