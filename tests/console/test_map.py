"""The map: clusters, servers and their links, drawn and as a table; what is broken and what is silent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from harness.browser import Console
from harness.console_files import ConsoleFiles
from harness.javascript import evaluate
from harness.processes import SIDES, ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

ACCOUNTS = "accounts { SYS { users: [ { user: sys, password: sys } ] } }, system_account: SYS"
HOSTILE = "<img/src=x/onerror=alert(1)>"


def test_server_alone_is_one_disc_and_a_sentence(any_console: Console) -> None:
    page = any_console.open("#/map", operator="sys")
    expect(page.locator(".sentence")).to_contain_text("1 server. There are no links.")
    expect(page.get_by_text("This server is alone.")).to_be_visible()
    link = page.locator("svg.map a").first
    expect(link).to_have_accessible_name(re.compile("first · .* · 1 client"))
    assert (link.get_attribute("href") or "").startswith("#/server/N")


@pytest.mark.parametrize("side", SIDES)
def test_cluster_with_a_broken_gateway_and_a_server_that_goes(
    chromium: Browser, tmp_path: Path, side: str
) -> None:
    first_config = f"""
        server_name: one
        websocket {{ listen: "127.0.0.1:-1", no_tls: true }}
        cluster {{ name: east, listen: "127.0.0.1:-1" }}
        gateway {{ name: east, listen: "127.0.0.1:-1"
                   gateways: [ {{ name: west, url: "nats://127.0.0.1:1" }} ] }}
        {ACCOUNTS}"""
    with ServerProcess(SIDES[side], _folder(tmp_path, "one"), config=first_config) as first:
        route = first.wait_for_line(r"Listening for route connections on \S+:(\d+)").group(1)
        socket = first.wait_for_line(r"Listening for websocket clients on (ws://\S+)").group(1)
        second_config = f"""
            server_name: "{HOSTILE}"
            cluster {{ name: east, listen: "127.0.0.1:-1", routes: ["nats-route://127.0.0.1:{route}"] }}
            gateway {{ name: east, listen: "127.0.0.1:-1" }}
            {ACCOUNTS}"""
        with (
            ServerProcess(SIDES[side], _folder(tmp_path, "two"), config=second_config) as second,
            ConsoleFiles(socket) as files,
        ):
            first.wait_for_line("Route connection created")
            console = Console(chromium, files.url, socket)
            page = console.open("#/map", operator="sys")
            expect(page.locator(".sentence")).to_contain_text("2 servers in 1 cluster. 1 link is broken.")
            expect(page.locator("svg.map a")).to_have_count(2)
            rows = page.locator("tr[data-key]")
            expect(rows.filter(has_text="Route").filter(has_text=HOSTILE)).to_contain_text("connected")
            expect(rows.filter(has_text="Gateway")).to_contain_text("broken: one has no connection to it")
            expect(page.locator(".map-box .map-line.broken")).to_have_count(1)
            assert page.locator("img[src=x]").count() == 0
            second.stop()
            expect(page.get_by_text("1 server does not answer.")).to_be_visible()
            expect(page.locator(".map-server.is-silent")).to_have_count(1)
            console.close()


def _folder(path: Path, name: str) -> Path:
    made = path / name
    made.mkdir()
    return made


# -- what is not drawn -------------------------------------------------------------------------------------

SAID = """
const traffic = { in_msgs: 1, out_msgs: 2, in_bytes: 3, out_bytes: 4 };
const server = (id, cluster) => ({ id, name: `server ${id}`, cluster });
const route = (rid, to) => ({ rid, remote_id: to, remote_name: `server ${to}`, rtt: `${rid}ms`, ...traffic });
const said = [
  { server: server("A", "east"), routes: [route(4, "B"), route(2, "B"), route(9, "X")], gateways: { outbound_gateways: { west: { connection: { cid: 1, rtt: "80ms", ...traffic } } } },
    leafs: [{ id: 1, name: "edge", is_spoke: false, account: "APP", ...traffic }, { id: 2, name: "edge", is_spoke: false, account: "SYS", ...traffic }],
    varz: { gateway: { name: "east", gateways: [{ name: "east" }, { name: "west" }, { name: "south" }] } } },
  { server: server("B", "east"), routes: [route(5, "A")], gateways: {}, leafs: [] },
  { server: server("C", "east"), routes: [], gateways: {}, leafs: [], varz: { leaf: { remotes: [{}, {}] } } },
  { server: server("D", "west"), routes: [], gateways: { inbound_gateways: { east: [{ connection: { cid: 1, ...traffic } }] } }, leafs: [] },
];
"""  # noqa: E501


def described(body: str) -> Any:
    return evaluate("nats/topology.js", SAID + body)


def test_links_are_made_of_connections_seen_from_both_ends() -> None:
    edges = described("return it.topologyOf(said).edges;")
    found = {(edge["kind"], edge["fromName"], edge["toName"]): edge for edge in edges}
    pair = found["route", "server A", "server B"]
    assert (pair["state"], pair["connections"], pair["rtt"]) == ("up", 2, 0.002)
    assert found["gateway", "east", "west"]["rtt"] == 0.08
    assert found["leaf", "server A", "edge"]["note"] == "APP, SYS"
    broken = {key: edge["why"] for key, edge in found.items() if edge["state"] == "broken"}
    assert broken == {
        ("route", "server A", "server C"): "noRoute",
        ("route", "server B", "server C"): "noRoute",
        ("gateway", "east", "south"): "noGateway",
        ("leaf", "server C", ""): "noHub",
    }


def test_servers_that_do_not_answer_are_silent() -> None:
    nodes = described(
        """
        const before = [server("E", "east"), { id: "old", name: "server A", cluster: "east" }];
        return it.topologyOf(said, before).nodes;
        """
    )
    assert {node["id"]: node["isAnswering"] for node in nodes} == {
        "A": True, "B": True, "C": True, "D": True, "E": False, "X": False,
    }  # fmt: skip


LAID_OUT = """
const many = (count) => Array.from({ length: count }, (_, place) => String(place));
const nodes = many(servers).map((id) => ({ id, name: id, cluster: `cluster ${id % clusters}` }));
const leafs = many(hanging).map((id) => ({ key: `leaf ${id}`, name: id, at: "0", account: "" }));
const plan = it.layout({ nodes, leafs, edges: [] }, width);
return { ...plan, places: [...plan.places], arches: [] };
"""


@pytest.mark.parametrize(
    ("servers", "clusters", "hanging", "width"),
    [(1, 1, 0, 300), (3, 1, 2, 300), (9, 3, 40, 1000), (100, 4, 3, 1000), (0, 1, 0, 300)],
)
def test_layout_is_the_same_each_time_and_nothing_lies_on_another(
    servers: int, clusters: int, hanging: int, width: int
) -> None:
    given = {"servers": servers, "clusters": clusters, "hanging": hanging, "width": width}
    plan = evaluate("pages/map/layout.js", LAID_OUT, **given)
    assert plan == evaluate("pages/map/layout.js", LAID_OUT, **given)
    points = {key: (point["x"], point["y"]) for key, point in plan["places"] if "cluster" not in key}
    assert len(points) == servers + min(hanging, 8)
    for one, (x, y) in points.items():
        near = [key for key, (a, b) in points.items() if key != one and abs(a - x) < 40 and abs(b - y) < 40]
        assert not near, (one, near)
    for number, box in enumerate(plan["boxes"]):
        for other in plan["boxes"][number + 1 :]:
            apart_x = box["x"] + box["width"] <= other["x"] or other["x"] + other["width"] <= box["x"]
            apart_y = box["y"] + box["height"] <= other["y"] or other["y"] + other["height"] <= box["y"]
            assert apart_x or apart_y, (box, other)
