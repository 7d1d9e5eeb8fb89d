"""Findings: derived in the browser, the same as `headrace doctor`'s; none where all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from harness.javascript import evaluate
from headrace.cli.diagnosis.table import CHECKS

if TYPE_CHECKING:
    from harness.browser import Console

NOW: Final = 1_800_000_000_000
"""Milliseconds: the time of the evidence, 15 Jan 2027."""

GOOD: Final[dict[str, Any]] = {
    "id": "A",
    "name": "a",
    "isHeadrace": False,
    "varz": {
        "server_name": "a", "version": "2.15.1", "host": "10.0.0.1", "port": 4222, "auth_required": True,
        "tls_required": True, "max_connections": 100, "connections": 10, "max_payload": 1 << 20,
        "max_pending": 64 << 20, "slow_consumers": 0, "tls_cert_not_after": "2027-06-01T00:00:00Z",
        "cluster": {"name": "C"},
        "jetstream": {
            "config": {
                "store_dir": "/data/jetstream", "sync_interval": 120_000_000_000, "sync_always": True,
                "max_memory": 100, "max_storage": 1000,
            },
            "stats": {"memory": 10, "storage": 100},
        },
    },
    "health": {"status": "ok"},
    "routes": {"routes": [{"remote_id": "B"}, {"remote_id": "C"}]},
    "clients": [],
    "closed": [],
    "jetstream": None,
    "clockAhead": 200,
    "clockError": 150,
}  # fmt: skip

STREAM: Final[dict[str, Any]] = {
    "name": "S",
    "config": {"name": "S", "max_age": 1, "storage": "file", "num_replicas": 3, "discard": "old"},
    "state": {"messages": 5, "bytes": 100},
    "cluster": {"leader": "a", "replicas": [{"name": "b", "current": True}, {"name": "c", "current": True}]},
    "consumer_detail": [],
}
CONSUMER: Final[dict[str, Any]] = {
    "name": "K", "stream_name": "S",
    "config": {"ack_policy": "explicit", "max_deliver": 5, "max_ack_pending": 10},
    "num_pending": 3, "num_ack_pending": 0, "num_waiting": 1, "num_redelivered": 0,
    "delivered": {"last_active": "2027-01-15T07:00:00Z"}, "ack_floor": {}, "created": "2027-01-01T00:00:00Z",
}  # fmt: skip
CLIENT: Final[dict[str, Any]] = {"cid": 7, "name": "slow", "ip": "10.1.1.1", "pending_bytes": 0}


def changed(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The document with other values; `varz__host` is a key in a key, None takes a key away."""
    made: dict[str, Any] = {**document}
    for path, value in changes.items():
        *outer, last = path.split("__")
        place = made
        for name in outer:
            place[name] = {**place[name]}
            place = place[name]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return made


def server(**changes: Any) -> dict[str, Any]:
    return {"first": changed(GOOD, **changes)}


def stream(**changes: Any) -> dict[str, Any]:
    return {"stream": changed(STREAM, **changes)}


def consumer(**changes: Any) -> dict[str, Any]:
    return stream(consumer_detail=[changed(CONSUMER, **changes)])


CASES: Final[dict[str, dict[str, Any]]] = {
    "no-authentication": server(varz__auth_required=None),
    "no-tls": server(varz__tls_required=None),
    "certificate-ended": server(varz__tls_cert_not_after="2027-01-01T00:00:00Z"),
    "certificate-ends-soon": server(varz__cluster__tls_cert_not_after="2027-02-01T00:00:00Z"),
    "temporary-store": server(varz__jetstream__config__store_dir="/tmp/0"),
    "sync-interval": server(varz__jetstream__config__sync_always=None),
    "jetstream-nearly-full": server(varz__jetstream__stats__storage=801),
    "unhealthy": server(health={"status": "error", "errors": [{"type": "STREAM", "error": "no stream"}]}),
    "connections-nearly-full": server(varz__connections=80),
    "clock": server(clockAhead=-1400),
    "slow-consumers": server(
        varz__slow_consumers=2, closed=[{**CLIENT, "reason": "Slow Consumer (Pending Bytes)"}]
    ),
    "slow-client": {"clients": [{"server": "a", "connection": {**CLIENT, "pending_bytes": 16 << 20}}]},
    "refused-clients": server(closed=[{**CLIENT, "reason": "Authentication Failure"}]),
    "large-payloads": server(varz__max_payload=9 << 20),
    "mesh-incomplete": server(routes={"routes": []}),
    "silent-server": server(
        routes={"routes": [{"remote_id": "B"}, {"remote_id": "C"}, {"remote_id": "D", "remote_name": "d"}]}
    ),
    "versions": server(varz__version="2.14.0"),
    "nameless-server": server(varz__server_name="A"),
    "stream-without-limits": stream(config__max_age=0),
    "stream-nearly-full": stream(config__discard="new", config__max_msgs=5),
    "source-lost": stream(mirror={"name": "M", "lag": 9, "active": 61_000_000_000}),
    "replica-lost": stream(
        cluster={"leader": "a", "replicas": [{"name": "b", "current": False}, {"name": "c", "current": True}]}
    ),
    "single-copy": stream(config__num_replicas=1),
    "consumer-unread": consumer(num_waiting=0, delivered__last_active="2027-01-15T06:00:00Z"),
    "redelivered-for-ever": consumer(num_redelivered=2, config__max_deliver=-1),
    "consumer-blocked": consumer(num_ack_pending=10),
    "cluster-of-two": {"others": False, **server(routes={"routes": [{"remote_id": "B"}]})},
}
"""A cluster of three where all is well, but for one thing: what is to be found."""


def evidence(
    first: dict[str, Any] | None = None,
    stream: dict[str, Any] | None = None,
    clients: list[dict[str, Any]] | None = None,
    others: bool = True,
) -> dict[str, Any]:
    names = "ABC" if others else "AB"
    servers = [first or GOOD, *(neighbour(name, names) for name in names[1:])]
    kept = stream or changed(STREAM, consumer_detail=[CONSUMER])
    streams = [{"account": "APP", "server": "a", "stream": kept}]
    return {
        "now": NOW, "servers": servers, "streams": streams, "clients": clients or [], "account": "",
        "unseen": 0,
    }  # fmt: skip


def neighbour(name: str, names: str) -> dict[str, Any]:
    """Another server of the cluster, with a route to each of the others."""
    routes = {"routes": [{"remote_id": other} for other in names if other != name]}
    return changed(GOOD, id=name, name=name.lower(), varz__server_name=name.lower(), routes=routes)


@pytest.fixture(scope="module")
def diagnosed() -> dict[str, list[dict[str, Any]]]:
    """What is found in each case, and in a cluster where all is well; one Node for all."""
    cases = {name: evidence(**case) for name, case in CASES.items()} | {"": evidence()}
    body = """
        const found = Object.entries(cases).map(([name, one]) => [name, it.diagnose(one).findings]);
        return Object.fromEntries(found);
    """
    found: dict[str, list[dict[str, Any]]] = evaluate("data/findings.js", body, cases=cases)
    return found


def test_nothing_is_found_where_all_is_well(diagnosed: dict[str, list[dict[str, Any]]]) -> None:
    assert diagnosed[""] == []


@pytest.mark.parametrize("name", CASES)
def test_each_trouble_is_found_alone_and_told_with_its_place(
    diagnosed: dict[str, list[dict[str, Any]]], name: str
) -> None:
    assert [each["id"] for each in diagnosed[name]] == [name]
    assert all(each["place"] and each["words"] and each["href"] for each in diagnosed[name][0]["symptoms"])


def test_ids_harm_and_meanings_are_those_of_the_doctor() -> None:
    told = evaluate("data/findings.js", "return it.CHECKS.map(({ id, severity }) => [id, severity])")
    assert {name for name, _ in told} == set(CASES)
    meanings = evaluate("text/findings.js", "return it.meanings")
    doctor = {check.id: check for check in CHECKS}
    for name, severity in told:
        assert severity == doctor[name].severity.label, name
        assert meanings[name]["title"].rstrip(".") == doctor[name].title.rstrip("."), name


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LOCALHOST."]
)  # fmt: skip
def test_address_of_the_machine_alone_is_not_public(host: str) -> None:
    assert evaluate("data/checks/access.js", "return it.isPublic(host)", host=host) is False


def test_operator_sees_findings_and_a_finding_leads_to_its_page(any_console: Console) -> None:
    page = any_console.open("#/server", operator="sys")
    finding = page.locator("[data-finding=temporary-store]")
    expect(finding).to_contain_text("Danger")
    expect(finding).to_contain_text("is emptied by the system")
    finding.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="How it stores")).to_be_visible()
