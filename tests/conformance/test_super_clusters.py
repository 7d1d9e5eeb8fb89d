"""Clusters of Headrace and the Go server joined by gateways, in every order; `g-g` is the authority."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

import pytest

from harness.mesh import counts
from harness.super_clusters import SuperCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS: Final = ("g-g", "h-g", "g-h", "a-h", "h-g-a", "g-h-g", "hg-gh", "hh-gg")


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuperCluster]:
    with SuperCluster(tmp_path_factory.mktemp(request.param), request.param, more=ACCOUNTS) as running:
        yield running


@pytest.fixture
def joined(whole: SuperCluster) -> Iterator[SuperCluster]:
    yield whole
    whole.leave()


ACCOUNTS: Final = """
accounts {
  ONE { users: [ { user: one, password: p } ] }
  TWO { users: [ { user: two, password: p } ] }
}
no_auth_user: one
"""


def test_each_message_reaches_every_plain_subscription_once(joined: SuperCluster) -> None:
    clients = joined.join_all()
    exact = [client.subscribe("news.day") for client in clients]
    wild = [client.subscribe("news.>") for client in clients]
    joined.converge()
    for number, client in enumerate(clients):
        client.publish("news.day", f"of {number}")
    joined.fence(*clients)
    assert counts(clients, exact) == [len(clients)] * len(clients)
    assert counts(clients, wild) == [len(clients)] * len(clients)


def test_headers_and_large_payloads_cross(joined: SuperCluster) -> None:
    clients = joined.join_all()
    sids = [client.subscribe("big") for client in clients]
    joined.converge()
    large = b"L" * 900_000
    clients[0].publish("big", large, {"A": "b"})
    joined.fence(clients[0])
    for client, sid in zip(clients, sids, strict=True):
        (message,) = client.got(sid)
        assert (message.payload, message.header("A")) == (large, "b")


def _question(joined: SuperCluster, asks: int, answers: int) -> None:
    """One node asks, another one answers, each a client that has just come."""
    asking, answering = joined.join(asks), joined.join(answers)
    sid = answering.subscribe(f"svc.{asks}.{answers}")
    joined.converge()
    late = joined.join(asks)  # its inbox is known to nobody yet
    for each in (asking, late):
        reply = each.ask(f"svc.{asks}.{answers}", b"question", {"H": "v"})
        message = answering.next(sid)
        assert (message.payload, message.reply, message.header("H")) == (b"question", reply, "v")
        answering.publish(message.reply, b"answer", {"R": "w"})
        answer = each.answer(reply)
        assert (answer.payload, answer.subject, answer.header("R")) == (b"answer", reply, "w")


def test_requests_are_answered_across_clusters(joined: SuperCluster) -> None:
    for asks in joined.up():
        for answers in joined.up():
            if asks != answers:
                _question(joined, asks, answers)


def test_nobody_there_is_said_at_once(joined: SuperCluster) -> None:
    clients = joined.join_all()
    joined.converge()
    for client in clients:
        assert client.request("nobody.listens").status.startswith("503")


def test_a_queue_group_is_served_once_and_in_the_own_cluster_first(joined: SuperCluster) -> None:
    members = joined.join_all()
    sids = [member.subscribe("work", "group") for member in members]
    asking = joined.join_all()
    joined.converge()
    for at, client in enumerate(asking):
        for number in range(10):
            client.publish("work", f"{at}.{number}")
        joined.fence(client)
        got = counts(members, sids)
        own = joined.of(joined.cluster_of[at])
        assert sum(got) == 10
        assert sum(got[member] for member in own) == 10


def test_a_queue_group_elsewhere_is_served_by_one_cluster(joined: SuperCluster) -> None:
    elsewhere = [number for number in joined.up() if joined.cluster_of[number] != "A"]
    members = [joined.join(number) for number in elsewhere]
    groups = [[member.subscribe("task", name) for member in members] for name in ("one", "two")]
    plain = [member.subscribe("task") for member in members]
    asking = joined.join(0)
    joined.converge()
    for number in range(20):
        asking.publish("task", f"{number}", reply="nowhere")
    joined.fence(asking)
    for sids in groups:
        assert sum(counts(members, sids)) == 20
    assert counts(members, plain) == [20] * len(members)


def test_clients_are_told_the_name_of_their_cluster(joined: SuperCluster) -> None:
    for number, client in enumerate(joined.join_all()):
        assert client.info["cluster"] == joined.cluster_of[number]


def test_clients_may_not_speak_as_other_clusters_do(joined: SuperCluster) -> None:
    for client in joined.join_all():
        client.publish("_GR_.NUmM6c.NYNeKj.in")
        client.sync()
        assert client.problems == ["""-ERR 'Permissions Violation for Publish to "_GR_.NUmM6c.NYNeKj.in"'"""]


def shape(value: Any) -> Any:
    """Names of fields, without what depends on the moment."""
    match value:
        case dict():
            return {name: shape(each) for name, each in value.items() if name != "rtt"}
        case list():
            return [shape(max(value, key=len))] if value else []
        case _:
            return type(value).__name__


def page(joined: SuperCluster, number: int, path: str) -> Any:
    with urlopen(joined.nodes[number].server.monitor_url + path) as answer:
        return json.load(answer)


@pytest.mark.parametrize(
    "path",
    [
        "/gatewayz",
        "/gatewayz?accs=1",
        "/gatewayz?acc_name=ONE",
        "/gatewayz?acc_name=ONE&subs=1",
        "/gatewayz?acc_name=ONE&subs=detail",
        "/gatewayz?acc_name=nobody",
        "/gatewayz?gw_name={other}",
        "/gatewayz?gw_name=nobody",
    ],
)
def test_monitoring_pages_have_the_same_fields(tmp_path: Path, path: str) -> None:
    with SuperCluster(tmp_path, "h-g", more=ACCOUNTS + "http: 127.0.0.1:-1") as joined:
        for client in joined.join_all():
            client.subscribe("a")
            client.subscribe("b", "q")
        joined.converge()
        ours, theirs = (page(joined, n, path.format(other="BA"[n])) for n in (0, 1))
        if "=nobody" not in path:
            ours["outbound_gateways"]["X"] = ours["outbound_gateways"].pop("B")
            ours["inbound_gateways"]["X"] = ours["inbound_gateways"].pop("B")
            theirs["outbound_gateways"]["X"] = theirs["outbound_gateways"].pop("A")
            theirs["inbound_gateways"]["X"] = theirs["inbound_gateways"].pop("A")
        elif path == "/gatewayz?acc_name=nobody":
            for document in (ours, theirs):
                document["outbound_gateways"] = list(document["outbound_gateways"].values())
                document["inbound_gateways"] = list(document["inbound_gateways"].values())
        assert shape(ours) == shape(theirs)
        sections = [shape(page(joined, n, "/varz")["gateway"]) for n in (0, 1)]
        assert sections[0] == sections[1]
        counts_ = [page(joined, n, "/varz")["subscriptions"] for n in (0, 1)]
        assert all(0 < count < 100 for count in counts_)


@pytest.mark.parametrize("kind", ["g-g", "h-g", "g-h", "h-a"])
def test_the_system_account_reaches_the_servers_of_all_clusters(tmp_path: Path, kind: str) -> None:
    system = "accounts { $SYS { users: [ { user: sys, password: p } ] } }"
    with SuperCluster(tmp_path, kind, more=system) as joined:
        options = {"user": "sys", "pass": "p"}
        clients = [joined.join(number, **options) for number in joined.up()]
        joined.converge(**options)
        for asking in clients:
            for at, answering in enumerate(clients):
                subject = f"$SYS.REQ.SERVER.{answering.info['server_id']}"
                data = asking.request(f"{subject}.GATEWAYZ", {"accounts": True}).json()["data"]
                assert data["name"] == joined.cluster_of[at]
                (gateway,) = data["outbound_gateways"].values()
                assert "$SYS" in [account["name"] for account in gateway["accounts"]]
                statsz = asking.request(f"{subject}.STATSZ").json()
                assert statsz["server"]["cluster"] == joined.cluster_of[at]
                (statistics,) = statsz["statsz"]["gateways"]
                assert statistics["name"] == joined.cluster_of[1 - at]
                assert statistics["received"]["msgs"] > 0
                assert statistics["inbound_connections"] == 1
                assert set(statistics) == {"gwid", "name", "sent", "received", "inbound_connections"}


def test_accounts_stay_apart(joined: SuperCluster) -> None:
    ones = joined.join_all(user="one", **{"pass": "p"})
    twos = joined.join_all(user="two", **{"pass": "p"})
    heard = [(client, client.subscribe("same.>")) for client in (*ones, *twos)]
    joined.converge()
    joined.converge(user="two", **{"pass": "p"})
    ones[0].publish("same.subject", b"1")
    twos[-1].publish("same.subject", b"2")
    joined.fence(ones[0])
    joined.fence(twos[-1], user="two", **{"pass": "p"})
    for number, (client, sid) in enumerate(heard):
        assert [m.payload for m in client.got(sid)] == [b"1" if number < len(ones) else b"2"]


def test_interest_that_ends_is_taken_back(joined: SuperCluster) -> None:
    asking, listening = joined.join(0), joined.join(joined.up()[-1])
    sids = [listening.subscribe("brief"), listening.subscribe("brief.>"), listening.subscribe("brief", "q")]
    joined.converge()
    assert asking.has_responders("brief")
    listening.take(sids[0])
    for sid in sids:
        listening.unsubscribe(sid)
    listening.sync()
    joined.converge()
    assert not asking.has_responders("brief")
