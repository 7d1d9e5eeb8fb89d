"""Looks of `headrace top` and their lines: rates, orders, what is escaped and cut."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.cli.client.rows.top import SORT_KEYS
from headrace.cli.client.server_asking import ReportColumn
from headrace.cli.client.top_lines import TopView, connection_lines, head_lines
from headrace.cli.client.top_looks import TopLook, as_document, look, ordered
from headrace.cli.screen import clipped
from headrace.cli.text_table import cell_width
from headrace.client.server_sources import EVERY_SERVER, ServerAnswer, ServerAnswers


class Source:
    """A source of documents that are set."""

    def __init__(self, scope: str = "system", **documents: list[dict[str, Any]]) -> None:
        self.scope = scope
        self.documents = documents
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.missing: list[dict[str, Any]] = []

    def ask(self, endpoint: str, options: Any = None, *, among: Any = None, expect: int | None = None) -> Any:
        self.asked.append((endpoint, dict(options or {})))
        answers = [
            ServerAnswer({"name": f"S{place}", "id": f"ID{place}"}, data)
            for place, data in enumerate(self.documents[endpoint])
        ]
        return ServerAnswers(answers, self.missing)


def connection(cid: int, **fields: Any) -> dict[str, Any]:
    return {"cid": cid, "ip": "10.0.0.1", "port": 1000 + cid, "in_msgs": 0, "out_msgs": 0, **fields}


def seen(source: Source, before: TopLook | None = None, **options: Any) -> TopLook:
    wanted: dict[str, Any] = {
        "sort": "cid",
        "count": None,
        "subjects": False,
        "among": EVERY_SERVER,
        **options,
    }
    return look(source, before=before, **wanted)  # type: ignore[arg-type]


VARZ = {"version": "2.15.1", "connections": 2, "in_msgs": 100, "out_msgs": 50, "mem": 2048, "cpu": 1.5}


def test_rates_are_of_the_time_since_the_look_before() -> None:
    source = Source(VARZ=[dict(VARZ)], CONNZ=[{"connections": [connection(1, in_msgs=10), connection(2)]}])
    first = seen(source)
    source.documents["VARZ"] = [{**VARZ, "in_msgs": 300}]
    source.documents["CONNZ"] = [{"connections": [connection(1, in_msgs=30), connection(3, in_msgs=5)]}]
    second = seen(source, replace(first, at_ns=first.at_ns - 10**12))

    (server,) = second.servers
    assert "in_msgs_rate" not in first.servers[0]
    assert server["in_msgs_rate"] == pytest.approx(0.2, rel=0.1)
    assert server["out_msgs_rate"] == 0
    assert second.connections[0]["in_msgs_rate"] == pytest.approx(0.02, rel=0.1)
    assert "in_msgs_rate" not in second.connections[1]


def test_a_counter_that_began_anew_counts_from_zero() -> None:
    source = Source(VARZ=[dict(VARZ)], CONNZ=[{"connections": []}])
    first = seen(source)
    source.documents["VARZ"] = [{**VARZ, "in_msgs": 10}]

    assert seen(source, replace(first, at_ns=first.at_ns - 10**12)).servers[0]["in_msgs_rate"] == 0.01


def test_connections_of_two_servers_with_one_cid_are_two() -> None:
    source = Source(
        VARZ=[dict(VARZ), dict(VARZ)],
        CONNZ=[{"connections": [connection(1, in_msgs=1)]}, {"connections": [connection(1, in_msgs=7)]}],
    )
    first = seen(source)
    second = seen(source, replace(first, at_ns=first.at_ns - 10**9))

    assert [each["server"] for each in second.connections] == ["S0", "S1"]
    assert [each["in_msgs_rate"] for each in second.connections] == [0, 0]
    assert "2 servers" in head_lines(second, TopView())[0]
    assert connection_lines(second, TopView(), 200)[0].startswith("Server")


def test_only_orders_that_servers_know_are_asked_for() -> None:
    source = Source(VARZ=[dict(VARZ)], CONNZ=[{"connections": []}])
    seen(source, sort="bytes_to", count=5000, subjects=True)
    seen(source, sort="rate_to")

    assert source.asked[1][1] == {"limit": 5000, "auth": True, "sort": "bytes_to", "subscriptions": True}
    assert source.asked[3][1] == {"limit": 1024, "auth": True}


def test_every_order_is_one() -> None:
    fields = {
        "subs": ("subscriptions", 1, 2),
        "pending": ("pending_bytes", 1, 2),
        "msgs_to": ("out_msgs", 1, 2),
        "msgs_from": ("in_msgs", 1, 2),
        "bytes_to": ("out_bytes", 1, 2),
        "bytes_from": ("in_bytes", 1, 2),
        "rate_to": ("out_msgs_rate", 1.0, 2.0),
        "rate_from": ("in_msgs_rate", 1.0, 2.0),
        "rtt": ("rtt", "900µs", "1.5ms"),
        "last": ("last_activity", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        "idle": ("last_activity", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"),
        "start": ("start", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"),
        "uptime": ("start", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"),
        "name": ("name", "b", "a"),
        "host": ("ip", "10.0.0.2", "10.0.0.1"),
        "cid": ("cid", 2, 1),
    }

    assert fields.keys() == set(SORT_KEYS)
    for sort, (field, later, first) in fields.items():
        found = ordered([{field: later}, {field: first}], sort)
        assert [each[field] for each in found] == [first, later], sort


def test_an_account_has_its_own_totals() -> None:
    statz = {"conns": 3, "num_subscriptions": 4, "sent": {"msgs": 5, "bytes": 6}, "received": {"msgs": 7}}
    source = Source("account", ACCSTATZ=[{"account_statz": [statz]}], CONNZ=[{"connections": []}])
    found = seen(source)

    assert found.servers[0]["in_msgs"] == 7
    assert found.servers[0]["out_bytes"] == 6
    assert "this account only" in head_lines(found, TopView())[0]
    assert "auth" not in source.asked[1][1] or not source.asked[1][1]["auth"]


def test_servers_without_an_answer_are_told() -> None:
    source = Source(VARZ=[dict(VARZ)], CONNZ=[{"connections": []}])
    source.missing = [{"server": "b\x1b[31m", "error": "no answer"}]
    found = seen(source)

    assert as_document(found, None)["errors"] == source.missing
    assert head_lines(found, TopView())[-1] == r"  b\x1b[31m: no answer"


@pytest.mark.parametrize("width", [20, 80, 200])
@pytest.mark.parametrize("view", [TopView(), TopView(shows_subjects=True, is_exact=True)])
def test_nothing_of_others_commands_a_terminal(width: int, view: TopView) -> None:
    hostile = "\x1b]0;x\x07\x9b31m\r\n\u202e"
    evil = connection(
        1,
        name=hostile,
        ip=hostile,
        authorized_user=hostile,
        lang=hostile,
        version=hostile,
        uptime=hostile,
        idle=hostile,
        subscriptions_list=[hostile],
    )
    source = Source(VARZ=[{**VARZ, "version": hostile, "uptime": hostile}], CONNZ=[{"connections": [evil]}])
    found = seen(source)
    lines = [*head_lines(found, view), *connection_lines(found, view, width, lambda name: name + hostile)]

    assert all(line.isprintable() for line in lines)


def test_lines_are_cut_to_cells() -> None:
    assert clipped("abcdef", 3) == "abc"
    assert clipped("日本語", 5) == "日本"
    assert cell_width(clipped("日本語", 5)) == 4
    assert clipped("é", 1) == "é"
    assert clipped("abc", 3) == "abc"
    assert clipped("abc", 0) == ""


def test_the_number_of_connections_is_the_view_s() -> None:
    source = Source(VARZ=[dict(VARZ)], CONNZ=[{"connections": [connection(1), connection(2)]}])
    found = seen(source)

    assert len(connection_lines(found, TopView(count=1), 200)) == 2
    assert len(as_document(found, 1)["connections"]) == 1
    assert "1 of 2 connections" in "\n".join(head_lines(found, TopView(count=1)))


def test_a_client_over_mqtt_is_called_by_its_identifier() -> None:
    clients = [connection(1, mqtt_client="sensor-1"), connection(2, name="app")]
    source = Source(VARZ=[dict(VARZ)], CONNZ=[{"connections": clients}])

    heading, *lines = connection_lines(seen(source), TopView(), 200)
    names = ReportColumn("Name", "name", instead="mqtt_client")

    assert "Name" in heading
    assert ["sensor-1" in lines[0], "app" in lines[1]] == [True, True]
    assert [names.value(client) for client in (*clients, connection(3))] == ["sensor-1", "app", None]
