"""Routes over TLS with certificates on both sides and a password; what has neither stays outside."""

from __future__ import annotations

import ssl
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from cluster.test_mesh_changes import Traffic
from harness.certificates import Authority, tls_config
from harness.mesh import CLUSTER_NAME, KINDS, Mesh
from harness.route_peer import RoutePeer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.mesh import Node


def cluster(authority: Authority, name: str) -> str:
    tls = tls_config(authority.issue(name), f'ca_file: "{authority.file}"', "verify: true", "timeout: 1")
    return f'authorization {{ user: route, password: "right" }}\n{tls}'


@pytest.fixture(scope="module", params=KINDS)
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[Mesh]:
    folder = tmp_path_factory.mktemp(request.param)
    with Mesh(
        folder, request.param, cluster=cluster(authority, "route"), route_user="route:right@"
    ) as running:
        yield running


def test_messages_cross_encrypted_routes(mesh: Mesh) -> None:
    traffic = Traffic(mesh)
    mesh.converge()
    sent = traffic.burst(*mesh.up())
    for client in traffic.clients.values():
        client.publish("load", b"L" * 900_000)
    traffic.settle(*mesh.up())
    large = "L" * 900_000
    expected = Counter(sent)
    expected[large] = len(mesh.nodes)
    for heard in traffic.heard.values():
        assert Counter(heard) == expected
    assert Counter(traffic.served) == expected


def test_a_node_that_comes_back_shakes_hands_again(mesh: Mesh) -> None:
    for node in (mesh.nodes[-1], mesh.nodes[0]):
        node.stop()
        node.start()
        mesh.converge()
    test_messages_cross_encrypted_routes(mesh)


def _upgraded(node: Node, context: ssl.SSLContext) -> RoutePeer:
    return RoutePeer(node.route_port, "PEER", CLUSTER_NAME, context)


def test_a_peer_with_a_certificate_still_needs_the_password(mesh: Mesh, authority: Authority) -> None:
    context = authority.client_context(authority.issue("peer"))
    for node in mesh.nodes:
        with _upgraded(node, context) as peer:
            peer.say_connect(**{"user": "route", "pass": "wrong"})
            peer.say_info()
            assert peer.take_error() == "Authorization Violation"
        with _upgraded(node, context) as peer:
            peer.shake_hands(**{"user": "route", "pass": "right"})


def test_a_peer_without_a_certificate_of_ours_stays_outside(
    mesh: Mesh, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = Authority(tmp_path_factory.mktemp("stranger"), "stranger")
    wrong = authority.client_context(stranger.issue("wrong"))
    for node in mesh.nodes:
        for context in (wrong, authority.client_context()):
            with (
                pytest.raises((ssl.SSLError, ConnectionError, AssertionError)),
                _upgraded(node, context) as peer,
            ):
                peer.shake_hands(**{"user": "route", "pass": "right"})
    test_messages_cross_encrypted_routes(mesh)
