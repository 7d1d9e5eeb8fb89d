"""Every query of the Grafana dashboard asks for metrics and labels that a server exports.

The server of the test has what the dashboard is about: clients, streams, a mirror, a source, a consumer.
"""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import nats
import promql_parser as promql
import pytest
from nats.js.api import StreamSource
from prometheus_client.parser import text_string_to_metric_families

import headrace
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Labels = frozenset[str]
    Exported = Mapping[str, Labels]

ROOT: Final = Path(__file__).parents[2]
DASHBOARD: Final[dict[str, Any]] = json.loads(
    (ROOT / "deploy" / "grafana" / "headrace.json").read_text(encoding="utf-8")
)
OF_PROMETHEUS: Final = frozenset(("job", "instance"))
"""Labels that Prometheus adds to what it scrapes."""
VARIABLES: Final = frozenset(each["name"] for each in DASHBOARD["templating"]["list"])
OF_GRAFANA: Final = {"$__rate_interval": "5m"}


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            yield panel


ALERTS: Final = re.findall(
    r"^\| `((?:gnatsd|jetstream|increase).*?)` \|",
    (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
TARGETS: Final = [
    pytest.param(target["expr"], target["legendFormat"], id=f"{panel['title']} {target['refId']}")
    for panel in panels()
    for target in panel["targets"]
]


@pytest.fixture(scope="module")
def exported() -> Exported:
    """The labels of each metric that a server exports."""
    options = headrace.JetStreamOptions()
    with Server(http_port=-1, jetstream=options) as server:
        asyncio.run(_fill(server.url))
        with urllib.request.urlopen(f"{server.monitor_url}/metrics?jsz=all") as answer:
            text = answer.read().decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return {name: frozenset(labels) for name, labels in found.items()}


async def _fill(url: str) -> None:
    async with await nats.connect(url) as client:
        js = client.jetstream()
        await js.add_stream(name="ORDERS", subjects=["orders.>"])
        await js.add_stream(name="COPY", mirror=StreamSource(name="ORDERS"))
        await js.add_stream(name="ALL", sources=[StreamSource(name="ORDERS")])
        await js.publish("orders.new", b"coffee")
        worker = await js.pull_subscribe("orders.>", "worker")
        (message,) = await worker.fetch(1)
        await message.ack_sync()


def labels_of(expression: Any, exported: Exported) -> Labels | None:
    """The labels of what a query gives; None for a number. Raises: AssertionError for what nobody exports."""
    match expression:
        case promql.NumberLiteral():
            return None
        case promql.VectorSelector():
            known = exported.get(expression.name)
            assert known is not None, f"no metric {expression.name}"
            asked = {matcher.name for matcher in expression.matchers.matchers}
            assert asked <= known | OF_PROMETHEUS, f"{expression.name} has no {asked - known - OF_PROMETHEUS}"
            return known | OF_PROMETHEUS
        case promql.MatrixSelector(vector_selector=inner) | promql.ParenExpr(expr=inner):
            return labels_of(inner, exported)
        case promql.Call():
            vectors = [labels_of(each, exported) for each in expression.args]
            return next((each for each in vectors if each is not None), None)
        case promql.AggregateExpr():
            whole = labels_of(expression.expr, exported)
            kept = frozenset(expression.modifier.labels if expression.modifier else ())
            assert whole is not None
            assert kept <= whole, f"grouped by {kept - whole}, which is not there"
            return kept
        case promql.BinaryExpr():
            sides = [labels_of(side, exported) for side in (expression.lhs, expression.rhs)]
            vectors = [side for side in sides if side is not None]
            return vectors[0] if vectors else None
        case _:
            raise AssertionError(f"the test knows no {type(expression).__name__}")


def checked(query: str, exported: Exported) -> Labels:
    """The labels of a query of the dashboard. Raises: AssertionError, ValueError for one that is none."""
    for variable, value in OF_GRAFANA.items():
        query = query.replace(variable, value)
    unknown = set(re.findall(r"\$(\w+)", query)) - VARIABLES
    assert not unknown, f"no variables {unknown}"
    return labels_of(promql.parse(query), exported) or frozenset()


@pytest.mark.parametrize(("query", "legend"), TARGETS)
def test_the_server_exports_what_a_panel_asks_for(query: str, legend: str, exported: Exported) -> None:
    named = set(re.findall(r"\{\{(\w+)\}\}", legend))

    assert named <= checked(query, exported)


def test_the_server_exports_what_the_alerts_of_the_documents_ask_for(exported: Exported) -> None:
    assert len(ALERTS) == 4
    for query in ALERTS:
        checked(query, exported)


@pytest.mark.parametrize(
    "variable", [each for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
)
def test_variables_are_values_of_labels(variable: dict[str, Any], exported: Exported) -> None:
    asked = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])

    assert asked
    assert asked.group(2) in checked(asked.group(1), exported)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("sum(gnatsd_varz_nothing)", "no metric gnatsd_varz_nothing"),
        ('gnatsd_varz_mem{host="a"}', "gnatsd_varz_mem has no"),
        ("sum by (stream_name) (gnatsd_varz_mem)", "grouped by"),
        ("rate(gnatsd_varz_in_msgs[$interval])", "no variables"),
    ],
)
def test_what_nobody_exports_is_found(query: str, reason: str, exported: Exported) -> None:
    with pytest.raises(AssertionError, match=re.escape(reason)):
        checked(query, exported)


def test_every_panel_asks_the_chosen_servers_and_has_a_place_of_its_own() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)
    for panel in panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        assert all('job=~"$job",instance=~"$instance"' in each["expr"] for each in panel["targets"])
