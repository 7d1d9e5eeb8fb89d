"""Leaf nodes in both roles, in every mixture of Headrace and nats-server.

A pair's first letter is the hub. `gg` is there as the authority: what fails there is a mistake of the test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.keys import USER, key_pair
from harness.leafs import PAIRS, Leafs
from harness.mesh import MeshClient, counts
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACCOUNTS = """
accounts {
  A { users: [{user: a, password: pa}] }
  B { users: [
    {user: b, password: pb, permissions: {publish: ["p.>", "_INBOX.>"], subscribe: ["s.>", "_INBOX.>"]}}
    {user: c, password: pc}
  ] }
}
"""


@pytest.fixture
def leafs(tmp_path: Path) -> Iterator[Leafs]:
    with Leafs(tmp_path) as servers:
        yield servers


def joined(leafs: Leafs, pair: str, **remote: str) -> tuple[MeshClient, MeshClient]:
    """A client of a hub and one of its leaf node, which know each other."""
    leafs.hub("hub", pair[0])
    leafs.leaf("leaf", pair[1], "hub", **remote)
    return leafs.clients()


# -- messages and interest ----------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
def test_messages_pass_both_ways_with_headers_and_replies(leafs: Leafs, pair: str) -> None:
    hub, leaf = joined(leafs, pair)
    for one, other in ((hub, leaf), (leaf, hub)):
        sid = one.subscribe("news.*")
        leafs.meet(hub, leaf)
        other.publish("news.a", b"plain", reply="where.to")
        other.publish("news.b", b"headed", {"K": "v"})
        first, second = one.take(sid, 2)
        assert (first.subject, first.reply, first.payload) == ("news.a", "where.to", b"plain")
        assert (second.subject, second.header("K"), second.payload) == ("news.b", "v", b"headed")
        one.unsubscribe(sid)


@pytest.mark.parametrize("pair", PAIRS)
def test_requests_are_answered_over_the_link_and_nobody_means_503(leafs: Leafs, pair: str) -> None:
    hub, leaf = joined(leafs, pair)
    for asking, serving in ((hub, leaf), (leaf, hub)):
        sid = serving.subscribe("service")
        leafs.meet(hub, leaf)
        reply = asking.ask("service", b"question")
        request = serving.next(sid)
        serving.publish(request.reply, b"answer")
        assert asking.answer(reply).payload == b"answer"
        serving.unsubscribe(sid)
        leafs.meet(hub, leaf)
        assert asking.request("service").status.startswith("503")


@pytest.mark.parametrize("pair", PAIRS)
def test_interest_that_ends_is_not_sent_to_any_more(leafs: Leafs, pair: str) -> None:
    hub, leaf = joined(leafs, pair)
    for one, other in ((hub, leaf), (leaf, hub)):
        twice = [one.subscribe("t.x"), one.subscribe("t.x")]
        leafs.meet(hub, leaf)
        other.publish("t.x")
        assert [len(one.take(sid, 1)) for sid in twice] == [1, 1]
        one.unsubscribe(twice[0])
        leafs.meet(hub, leaf)
        assert other.has_responders("t.x")
        one.unsubscribe(twice[1])
        leafs.meet(hub, leaf)
        assert not other.has_responders("t.x")


@pytest.mark.parametrize("pair", PAIRS)
def test_a_queue_group_gets_each_message_once_and_near_members_first(leafs: Leafs, pair: str) -> None:
    hub, leaf = joined(leafs, pair)
    near, far = hub.subscribe("work", "q"), leaf.subscribe("work", "q")
    leafs.meet(hub, leaf)
    for _ in range(20):
        hub.publish("work")
        leaf.publish("work")
    leafs.meet(hub, leaf)
    got = counts((hub, leaf), (near, far))
    assert got == [20, 20]
    leaf.unsubscribe(far)
    leafs.meet(hub, leaf)
    for _ in range(20):
        leaf.publish("work")
    leafs.meet(hub, leaf)
    assert counts((hub,), (near,)) == [20]


@pytest.mark.parametrize("pair", PAIRS)
def test_two_groups_and_a_plain_subscription_over_one_link(leafs: Leafs, pair: str) -> None:
    hub, leaf = joined(leafs, pair)
    sids = [leaf.subscribe("job", "one"), leaf.subscribe("job", "two"), leaf.subscribe("job")]
    leafs.meet(hub, leaf)
    for _ in range(10):
        hub.publish("job", b"x", {"A": "b"})
    leafs.meet(hub, leaf)
    assert counts((leaf,) * 3, sids) == [10, 10, 10]


@pytest.mark.parametrize("kind", ["ggg", "hgg", "ghg", "hhg", "gha"])
def test_a_hub_relays_between_its_leaf_nodes(leafs: Leafs, kind: str) -> None:
    leafs.hub("hub", kind[0])
    leafs.leaf("one", kind[1], "hub")
    leafs.leaf("two", kind[2], "hub")
    one, two = leafs.join("one"), leafs.join("two")
    leafs.meet(one, two)
    sid, own = two.subscribe("relay.>"), one.subscribe("relay.>")
    leafs.meet(one, two)
    for _ in range(5):
        one.publish("relay.x", b"y")
    leafs.meet(one, two)
    assert counts((one, two), (own, sid)) == [5, 5]


@pytest.mark.parametrize("kind", ["ggg", "hgg", "ghg", "ggh", "hah"])
def test_a_leaf_node_may_be_the_hub_of_another(leafs: Leafs, kind: str) -> None:
    leafs.hub("top", kind[0])
    remotes = f'remotes: [{{ url: "{leafs.url("top")}" }}]'
    leafs.hub("middle", kind[1], block=remotes)
    leafs.leaf("end", kind[2], "middle")
    top, end = leafs.join("top"), leafs.join("end")
    leafs.meet(top, end)
    sids = top.subscribe("far"), end.subscribe("far")
    leafs.meet(top, end)
    top.publish("far")
    end.publish("far")
    leafs.meet(top, end)
    assert counts((top, end), sids) == [2, 2]


@pytest.mark.parametrize("kind", ["ggg", "hgg", "ghg", "hhh"])
def test_isolated_leaf_nodes_do_not_hear_of_each_other(leafs: Leafs, kind: str) -> None:
    leafs.hub("hub", kind[0], block="isolate_leafnode_interest: true")
    leafs.leaf("one", kind[1], "hub")
    leafs.leaf("two", kind[2], "hub")
    hub, one, two = (leafs.join(name) for name in ("hub", "one", "two"))
    leafs.meet(hub, one)
    leafs.meet(hub, two)
    two.subscribe("only.two")
    leafs.meet(hub, two)
    leafs.meet(hub, one)
    assert hub.has_responders("only.two")
    assert not one.has_responders("only.two")


@pytest.mark.parametrize("pair", PAIRS)
def test_a_leaf_node_that_is_the_hub(leafs: Leafs, pair: str) -> None:
    """`hub: true`: who connects passes on what its own routes and leaf nodes want."""
    hub, leaf = joined(leafs, pair, remote="hub: true")
    sids = hub.subscribe("u"), leaf.subscribe("u")
    leafs.meet(hub, leaf)
    hub.publish("u")
    leaf.publish("u")
    leafs.meet(hub, leaf)
    assert counts((hub, leaf), sids) == [2, 2]


@pytest.mark.parametrize("pair", PAIRS)
def test_large_messages_and_many_subjects(leafs: Leafs, pair: str) -> None:
    hub, leaf = joined(leafs, pair)
    sids = [hub.subscribe(f"many.{number}.{'x' * 40}") for number in range(300)]
    big = hub.subscribe("big")
    leafs.meet(hub, leaf)
    payload = bytes(range(256)) * 3000
    leaf.publish("big", payload)
    for number in range(300):
        leaf.publish(f"many.{number}.{'x' * 40}", b"1")
    assert hub.next(big).payload == payload
    assert [len(hub.take(sid, 1)) for sid in sids] == [1] * 300


@pytest.mark.parametrize("pair", PAIRS)
def test_what_is_mapped_at_the_other_end(leafs: Leafs, pair: str) -> None:
    leafs.hub("hub", pair[0])
    leafs.leaf("leaf", pair[1], "hub", more='mappings { "orders.*": "kept.$1" }')
    hub, leaf = leafs.join("hub"), leafs.join("leaf")
    plain, member = leaf.subscribe("kept.*"), leaf.subscribe("kept.*", "q")
    leafs.meet(hub, leaf)
    hub.publish("orders.7", b"x")
    leafs.meet(hub, leaf)
    assert counts((leaf, leaf), (plain, member)) == [1, 1]


# -- accounts and permissions -------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
def test_accounts_are_bound_by_the_users_at_both_ends(leafs: Leafs, pair: str) -> None:
    leafs.hub("hub", pair[0], ACCOUNTS)
    leafs.leaf(
        "leaf",
        pair[1],
        "hub",
        "accounts { L { users: [{user: l, password: l}] } }",
        remote="account: L",
        user="a:pa@",
    )
    inside, leaf = (
        leafs.join("hub", user="a", **{"pass": "pa"}),
        leafs.join("leaf", user="l", **{"pass": "l"}),
    )
    leafs.meet(inside, leaf)
    outside = leafs.join("hub", user="b", **{"pass": "pb"})
    leaf.subscribe("p.x")
    leafs.meet(inside, leaf)
    assert inside.has_responders("p.x")
    assert not outside.has_responders("p.x")


@pytest.mark.parametrize("pair", PAIRS)
def test_what_the_hubs_user_may_do_holds_for_the_leaf_node(leafs: Leafs, pair: str) -> None:
    """Other than a client a leaf node keeps to it by itself, so that the link stays."""
    leafs.hub("hub", pair[0], ACCOUNTS)
    leafs.leaf("leaf", pair[1], "hub", user="b:pb@")
    hub, leaf = leafs.join("hub", user="c", **{"pass": "pc"}), leafs.join("leaf")
    wide, allowed, denied = leaf.subscribe(">"), leaf.subscribe("s.x"), leaf.subscribe("t.x")
    at_hub = hub.subscribe("p.>"), hub.subscribe("r.>")
    leafs.nodes["hub"].server.wait_for_line("Leafnode connection created")
    while not hub.got(at_hub[0]):  # the leaf node has a receiver of everything itself
        leaf.publish("p.probe")
        leaf.sync()
    while not hub.has_responders("s.probe"):
        leafs.meet(hub)
    for subject in ("s.x", "t.x"):
        hub.publish(subject)
    for subject in ("p.x", "r.x"):
        leaf.publish(subject)
    hub.publish("s.end")
    leaf.publish("p.end")
    while leaf.next(wide).subject != "s.end":
        pass
    while hub.next(at_hub[0]).subject != "p.end":
        pass
    assert counts((leaf, leaf), (allowed, denied)) == [1, 0]
    assert counts((hub,), (at_hub[1],)) == [0]


@pytest.mark.parametrize("pair", PAIRS)
def test_deny_lists_of_a_remote(leafs: Leafs, pair: str) -> None:
    hub, leaf = joined(leafs, pair, remote='deny_imports: "in.no.>"\ndeny_exports: ["out.no.>"]')
    sids = [
        leaf.subscribe("in.>"),
        leaf.subscribe("in.no.x"),
        hub.subscribe("out.>"),
        hub.subscribe("out.no.x"),
    ]
    leafs.meet(hub, leaf)
    for subject in ("in.yes", "in.no.x"):
        hub.publish(subject)
    for subject in ("out.yes", "out.no.x"):
        leaf.publish(subject)
    leafs.meet(hub, leaf)
    assert counts((leaf, leaf, hub, hub), sids) == [1, 0, 1, 0]


@pytest.mark.parametrize("pair", PAIRS)
def test_wrong_credentials_are_refused_and_tried_again(leafs: Leafs, pair: str) -> None:
    hub = leafs.hub("hub", pair[0], ACCOUNTS)
    leaf = leafs.leaf("leaf", pair[1], "hub", user="a:wrong@", block='reconnect: "50ms"')
    hub.server.wait_for_line("authentication error")
    leaf.server.wait_for_line("Authorization Violation")
    before = len(hub.server.lines)
    hub.server.wait_for_line("Leafnode connection created", after=before)


@pytest.mark.parametrize("pair", PAIRS)
def test_users_of_leaf_nodes_only(leafs: Leafs, pair: str) -> None:
    more = "authorization { users: [{user: u, password: p, account: A}], timeout: 5 }"
    leafs.hub("hub", pair[0], ACCOUNTS, more)
    leafs.leaf("leaf", pair[1], "hub", user="u:p@")
    hub, leaf = leafs.join("hub", user="a", **{"pass": "pa"}), leafs.join("leaf")
    leafs.meet(hub, leaf)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_seed_proves_who_a_leaf_node_is(leafs: Leafs, pair: str) -> None:
    key = key_pair(USER, "leaf")
    leafs.hub(
        "hub", pair[0], f"accounts {{ A {{ users: [{{nkey: {key.public}}}, {{user: a, password: a}}] }} }}"
    )
    leafs.leaf("leaf", pair[1], "hub", remote=f"nkey: {key.seed}")
    hub, leaf = leafs.join("hub", user="a", **{"pass": "a"}), leafs.join("leaf")
    leafs.meet(hub, leaf)


# -- circles and names --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gg", "hh", "gh", "hg"])
def test_a_circle_of_two_is_found(leafs: Leafs, kind: str) -> None:
    """Each is a leaf node of the other, in the same account."""
    leafs.hub("one", kind[0], block=f'remotes: [{{ url: "{leafs.url("two")}" }}], reconnect: "100ms"')
    leafs.hub("two", kind[1], block=f'remotes: [{{ url: "{leafs.url("one")}" }}], reconnect: "100ms"')
    servers = [leafs.nodes[name].server for name in ("one", "two")]
    found = 'Loop detected for leafnode account="$G"'
    wait_until(lambda: any(found in line for each in servers for line in tuple(each.lines)), found)


@pytest.mark.parametrize("pair", PAIRS)
def test_the_same_cluster_name_is_refused(leafs: Leafs, pair: str) -> None:
    hub = leafs.hub("hub", pair[0], "cluster { name: same, listen: 127.0.0.1:-1 }")
    leaf = leafs.leaf("leaf", pair[1], "hub", "cluster { name: same, listen: 127.0.0.1:-1 }")
    hub.server.wait_for_line("remote leafnode has same cluster name")
    leaf.server.wait_for_line("same cluster name")


@pytest.mark.parametrize("pair", PAIRS)
def test_a_version_that_is_too_old_is_refused(leafs: Leafs, pair: str) -> None:
    hub = leafs.hub("hub", pair[0], block='min_version: "99.1.0"')
    leaf = leafs.leaf("leaf", pair[1], "hub")
    hub.server.wait_for_line('connection rejected since minimum version required is "99.1.0"')
    leaf.server.wait_for_line("connection rejected since minimum version required")


# -- coming and going ---------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
def test_a_hub_that_comes_back_is_reached_again(leafs: Leafs, pair: str) -> None:
    leafs.hub("hub", pair[0])
    leafs.leaf("leaf", pair[1], "hub", block='reconnect: "50ms"')
    _, leaf = leafs.clients()
    leafs.nodes["hub"].stop()
    assert not leaf.has_responders("probe.gone")
    leafs.nodes["hub"].start()
    leafs.meet(leafs.join("hub"), leaf)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_leaf_node_that_is_killed_leaves_no_interest(leafs: Leafs, pair: str) -> None:
    hub, leaf = joined(leafs, pair)
    leaf.subscribe("gone")
    leafs.meet(hub, leaf)
    assert hub.has_responders("gone")
    leafs.nodes["leaf"].kill()
    leafs.nodes["hub"].server.wait_for_line("Leafnode connection closed")
    wait_until(lambda: not hub.has_responders("gone"), "the interest of the leaf node to go")


@pytest.mark.parametrize("pair", PAIRS)
def test_a_hub_is_waited_for(leafs: Leafs, pair: str) -> None:
    leaf = leafs.leaf("leaf", pair[1], "hub", block='reconnect: "50ms"')
    leaf.server.wait_for_line("Error trying to connect as leafnode to remote server")
    leafs.hub("hub", pair[0])
    leafs.clients()


# -- clusters -----------------------------------------------------------------------------------------


def cluster(leafs: Leafs, kind: str) -> None:
    """Two hubs of one cluster, `one` and `two`."""
    port = leafs.port("routes")
    leafs.hub("one", kind[0], f"cluster {{ name: hubs, listen: 127.0.0.1:{port} }}")
    routes = f"cluster {{ name: hubs, listen: 127.0.0.1:-1, routes: [nats-route://127.0.0.1:{port}] }}"
    leafs.hub("two", kind[1], routes)


@pytest.mark.parametrize("kind", ["ggg", "hgg", "ghg", "ggh", "hhh", "hag"])
def test_a_leaf_node_reaches_the_next_server_of_a_cluster(leafs: Leafs, kind: str) -> None:
    cluster(leafs, kind)
    leafs.leaf("leaf", kind[2], "one")
    far, leaf = leafs.join("two"), leafs.join("leaf")
    leafs.meet(far, leaf)
    sids = far.subscribe("x"), leaf.subscribe("x")
    leafs.meet(far, leaf)
    far.publish("x", b"1", {"A": "b"})
    leaf.publish("x", b"2", {"A": "b"})
    leafs.meet(far, leaf)
    assert counts((far, leaf), sids) == [2, 2]


@pytest.mark.parametrize("kind", ["gggg", "hggg", "gghh", "hhgg", "hhhh"])
def test_a_cluster_of_leaf_nodes_gets_nothing_back_from_its_hubs(leafs: Leafs, kind: str) -> None:
    """Two leaf nodes of one cluster, each of another hub of a cluster: each message arrives once."""
    cluster(leafs, kind)
    port = leafs.port("leaf routes")
    leafs.leaf("l1", kind[2], "one", f"cluster {{ name: leafs, listen: 127.0.0.1:{port} }}")
    routes = f"cluster {{ name: leafs, listen: 127.0.0.1:-1, routes: [nats-route://127.0.0.1:{port}] }}"
    leafs.leaf("l2", kind[3], "two", routes)
    clients = [leafs.join(name) for name in ("one", "two", "l1", "l2")]
    leafs.meet(*clients)
    sids = [client.subscribe("all") for client in clients]
    leafs.meet(*clients)
    for client in clients:
        client.publish("all")
    leafs.meet(*clients)
    assert counts(clients, sids) == [4, 4, 4, 4]
    groups = [client.subscribe("one", "q") for client in clients]
    leafs.meet(*clients)
    for client in clients:
        for _ in range(10):
            client.publish("one")
    leafs.meet(*clients)
    assert sum(counts(clients, groups)) == 40


@pytest.mark.parametrize("kind", ["ggg", "hgg", "ghg", "ggh", "hhh"])
def test_a_leaf_node_moves_to_another_hub_of_the_cluster(leafs: Leafs, kind: str) -> None:
    """Of which the first has told it."""
    cluster(leafs, kind)
    leafs.leaf("leaf", kind[2], "one", block='reconnect: "50ms"')
    two, leaf = leafs.join("two"), leafs.join("leaf")
    leafs.meet(two, leaf)
    leafs.nodes["one"].kill()
    leafs.meet(two, leaf)
    sids = two.subscribe("moved"), leaf.subscribe("moved")
    leafs.meet(two, leaf)
    two.publish("moved")
    leaf.publish("moved")
    leafs.meet(two, leaf)
    assert counts((two, leaf), sids) == [2, 2]
