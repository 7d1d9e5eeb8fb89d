"""Peers that are wrong, rude, greedy or asleep get the specified answer and do no harm to the mesh."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.mesh import CLUSTER_NAME, counts
from harness.route_peer import RoutePeer
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from harness.mesh import Mesh, Node

CLUSTER: Final = """
authorization { user: route, password: "right", timeout: 0.3 }
write_deadline: "200ms"
"""
ROUTE_USER: Final = "route:right@"
WELCOME: Final = {"user": "route", "pass": "right"}
_names = itertools.count(1)


def peer_of(node: Node, name: str = "", cluster: str = CLUSTER_NAME) -> RoutePeer:
    return RoutePeer(node.route_port, name or f"PEER{next(_names)}", cluster)


def registered(node: Node) -> RoutePeer:
    peer = peer_of(node)
    peer.shake_hands(**WELCOME)
    return peer


def assert_whole(mesh: Mesh) -> None:
    """Every node still delivers to every node, and nothing twice."""
    clients = mesh.join_all()
    sids = [client.subscribe("whole") for client in clients]
    mesh.converge()
    for client in clients:
        client.publish("whole", "x")
    mesh.fence(*clients)
    assert counts(clients, sids) == [len(clients)] * len(clients)


def test_another_cluster_is_refused(mesh: Mesh) -> None:
    for node in mesh.nodes:
        peer = peer_of(node, cluster="other")
        peer.say_connect(**WELCOME)
        peer.say_info()
        assert peer.take_error() == 'Rejecting connection, cluster name "other" does not match "mesh"'
    assert_whole(mesh)


@pytest.mark.parametrize(
    "said", [{}, {"user": "route"}, {"user": "route", "pass": "wrong"}, {"pass": "right"}]
)
def test_a_wrong_password_is_refused(mesh: Mesh, said: dict[str, Any]) -> None:
    for node in mesh.nodes:
        peer = peer_of(node)
        peer.say_connect(**said)
        peer.say_info()
        assert peer.take_error() == "Authorization Violation"
    assert_whole(mesh)


def test_who_says_nothing_is_not_waited_for(mesh: Mesh) -> None:
    for peer in [peer_of(node) for node in mesh.nodes]:
        assert peer.take_error() == "Authentication Timeout"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (
            b'CONNECT {"lang":"go","user":"route","pass":"right"}\r\n',
            "attempted to connect to route port",
        ),
        (
            b'CONNECT {"gateway":"G","user":"route","pass":"right"}\r\n',
            'Rejecting connection from gateway "G" on the Route port',
        ),
        (b'CONNECT {"verbose":fal\r\n', ""),
        (b"CONNECT " + b"x" * 70_000, "maximum control line exceeded"),
    ],
    ids=["client", "gateway", "cut off JSON", "endless"],
)
def test_who_is_no_route_is_refused(mesh: Mesh, said: bytes, error: str) -> None:
    for node in mesh.nodes:
        peer = peer_of(node)
        peer.send(said)
        assert peer.take_error() == error
    assert_whole(mesh)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 8, b"RS+ $G x\r\n"])
def test_garbage_before_a_password_is_refused(mesh: Mesh, said: bytes) -> None:
    for node in mesh.nodes:
        peer = peer_of(node)
        peer.send(said)
        assert peer.take_error() == "Authorization Violation"
    assert_whole(mesh)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"BOGUS\r\n", "Unknown Protocol Operation"),
        (b"RS+ \r\n", ""),
        (b"RS+ $G\r\n", ""),
        (b"RS+ $G a b c d e\r\n", ""),
        (b"RS- $G\r\n", ""),
        (b"LS+ \r\n", ""),
        (b"RMSG $G foo\r\n", ""),
        (b"RMSG $G foo x\r\n", ""),
        (b"RMSG $G foo -1\r\n", ""),
        (b"RMSG $G foo ? r q 2\r\nab\r\n", ""),
        (b"RMSG $G foo 2\r\nabcd\r\n", "Unknown Protocol Operation"),
        (b"HMSG $G foo 20 10\r\n", ""),
        (b"LMSG x\r\n", ""),
        (b'INFO {"server_id":\r\n', ""),
        (b"RS+ $G " + b"a" * 70_000 + b"\r\n", "maximum control line exceeded"),
        (b"-ERR 'I do not like you'\r\n", ""),
    ],
    ids=lambda value: value[:24].decode().strip() if isinstance(value, bytes) else "",
)
def test_what_makes_no_sense_ends_the_route(mesh: Mesh, said: bytes, error: str) -> None:
    for node in mesh.nodes:
        peer = registered(node)
        peer.send(said)
        assert peer.take_error() == error
    assert_whole(mesh)


@pytest.mark.parametrize(
    "said",
    [b"RS- $G never.said\r\n", b"RMSG NOBODY foo 2\r\nab\r\n", b"RS+ NOBODY foo\r\n", b"RS+ $G a q 0\r\n"],
    ids=["ended before it began", "message for no account", "interest of no account", "weight of nothing"],
)
def test_what_means_nothing_is_ignored(mesh: Mesh, said: bytes) -> None:
    for node in mesh.nodes:
        with registered(node) as peer:
            peer.send(said)
            peer.sync()
    assert_whole(mesh)


def test_an_identity_is_taken_once(mesh: Mesh) -> None:
    own, others = mesh.join(0).info["server_id"], [client.info["server_id"] for client in mesh.join_all()[1:]]
    for name in (own, *others):
        peer = peer_of(mesh.nodes[0], name)
        peer.say_connect(**WELCOME)
        peer.say_info()
        assert peer.take_error() == ""
    peer = peer_of(mesh.nodes[0])
    peer.say_connect(**WELCOME)
    peer.say_info(server_name=mesh.nodes[0].name)
    assert peer.take_error() == ""
    assert_whole(mesh)


def test_a_flood_of_interest_is_taken_in_and_forgotten(mesh: Mesh) -> None:
    clients = mesh.join_all()
    sids = [client.subscribe("beside") for client in clients]
    mesh.converge()
    peers = [registered(node) for node in mesh.nodes]
    for peer, client in zip(peers, clients, strict=True):
        peer.send(b"".join(b"RS+ $G flood.%d\r\n" % number for number in range(50_000)))
        client.publish("beside", "x")
    mesh.fence(*clients)
    assert counts(clients, sids) == [len(clients)] * len(clients)
    for peer, client in zip(peers, clients, strict=True):
        peer.sync()
        assert client.has_responders("flood.0")
        assert client.has_responders("flood.49999")

    for peer in peers:
        peer.close()
    while any(client.has_responders("flood.49999") or client.has_responders("flood.0") for client in clients):
        mesh.converge()


def test_a_peer_that_stops_reading_is_left_behind(mesh: Mesh) -> None:
    clients = mesh.join_all()
    sids = [client.subscribe("much") for client in clients]
    peers = [registered(node) for node in mesh.nodes]
    for peer in peers:
        peer.send(b"RS+ $G much\r\nRS+ $G asleep\r\n")
        peer.sync()
    mesh.converge()

    payload, batch, total = b"x" * 500_000, 4, 80
    heard = [0] * len(clients)
    for _ in range(total // batch):  # more than a socket holds; who reads is not held up
        for _ in range(batch):
            clients[0].publish("much", payload)
        mesh.fence(clients[0])
        heard = [before + now for before, now in zip(heard, counts(clients, sids), strict=True)]
    assert heard == [total] * len(clients)
    wait_until(lambda: not clients[0].has_responders("asleep"), "the first node gave its peer up")

    taken = 0
    while not peers[0].closed:
        peers[0].fill(PATIENCE)
        taken += len(peers[0].take())
    assert taken < total * len(payload)
    for peer in peers:
        peer.close()
    assert_whole(mesh)
