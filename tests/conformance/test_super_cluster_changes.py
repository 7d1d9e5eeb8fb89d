"""Super-clusters that change: restarts, clusters that are heard of, who is kept out, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.certificates import Authority, tls_config
from harness.mesh import counts
from harness.super_clusters import SuperCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAIRS: Final = ("g-g", "h-g", "g-h", "h-a")
THREES: Final = ("g-g-g", "h-g-g", "g-h-g", "g-g-h", "h-a-g")


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., SuperCluster]]:
    """Starts clusters that the test may do with as it likes."""
    built: list[SuperCluster] = []

    def start(kind: str, **options: Any) -> SuperCluster:
        built.append(SuperCluster(tmp_path, kind, **options))
        built[-1].start()
        return built[-1]

    yield start
    for one in built:
        one.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "clusters")


def check_traffic(joined: SuperCluster) -> None:
    """Messages and requests cross between all nodes that run."""
    clients = joined.join_all()
    sids = [client.subscribe("traffic") for client in clients]
    services = [client.subscribe(f"svc.{number}") for number, client in enumerate(clients)]
    joined.converge()
    for client in clients:
        client.publish("traffic")
    joined.fence(*clients)
    assert counts(clients, sids) == [len(clients)] * len(clients)
    for number, (answering, sid) in enumerate(zip(clients, services, strict=True)):
        for asking in clients:
            reply = asking.ask(f"svc.{number}")
            message = answering.next(sid)
            answering.publish(message.reply, b"answer")
            assert asking.answer(reply).payload == b"answer"
    joined.leave()


@pytest.mark.parametrize("kind", ["g-g", "h-g", "g-h", "h-a", "hg-gh"])
def test_a_node_that_comes_back_is_reached_again(build: Callable[..., SuperCluster], kind: str) -> None:
    joined = build(kind)
    check_traffic(joined)
    for node in (joined.nodes[0], joined.nodes[-1]):
        node.kill()
        node.start()
        check_traffic(joined)


@pytest.mark.parametrize("kind", THREES)
def test_clusters_that_are_heard_of_are_reached(build: Callable[..., SuperCluster], kind: str) -> None:
    """A and C are configured to know B only."""
    check_traffic(build(kind, known={"A": "B", "C": "B"}))


@pytest.mark.parametrize("kind", ["gg-g-g", "hg-g-h", "gh-h-g", "hh-g-h", "gg-h-h"])
def test_servers_of_one_cluster_tell_each_other_of_clusters(
    build: Callable[..., SuperCluster], kind: str
) -> None:
    """One cluster is two servers; B and C, which come later, are configured to know A, which knows nobody."""
    joined = build(kind, known={"B": "A", "C": "A"}, begins="A")
    for name in "BC":
        for number in joined.of(name):
            joined.nodes[number].start()
        joined.converge()
        joined.leave()
    check_traffic(joined)


@pytest.mark.parametrize("kind", ["hg-g-h", "gh-h-g", "hh-g-h"])
def test_clusters_that_come_at_the_same_time_hear_of_each_other(
    build: Callable[..., SuperCluster], kind: str
) -> None:
    """With the Go server alone they may not, when they come to different servers of A."""
    check_traffic(build(kind, known={"B": "A", "C": "A"}))


@pytest.mark.parametrize("kind", PAIRS)
def test_who_is_not_configured_is_rejected(build: Callable[..., SuperCluster], kind: str) -> None:
    joined = build(kind, known={"B": "A"}, gateway_only={"A": "reject_unknown_cluster: true"})
    taken, rejected = joined.nodes[0].server, joined.nodes[1].server
    taken.wait_for_line('Rejecting connection from gateway "B"')
    rejected.wait_for_line("""Gateway Error '?Connection to gateway "A" rejected""")
    assert "registered" not in taken.log


@pytest.mark.parametrize("kind", PAIRS)
def test_a_cluster_with_another_name_is_not_the_one(build: Callable[..., SuperCluster], kind: str) -> None:
    joined = build(kind, known={"A": "X"}, elsewhere={"X": "B"})
    taken, told = joined.nodes[0].server, joined.nodes[1].server
    taken.wait_for_line('Failing connection to gateway "X", remote gateway name is "B"')
    told.wait_for_line(
        'authentication error|Connection from "A" rejected, wanted to connect to "X", this is "B"'
    )


@pytest.mark.parametrize("kind", PAIRS)
def test_a_port_for_clients_is_the_wrong_one(build: Callable[..., SuperCluster], kind: str) -> None:
    joined = build(kind, known={"A": "C"}, elsewhere={"C": "clients of B"})
    joined.nodes[0].server.wait_for_line('Attempt to connect to gateway "C" using wrong port')


@pytest.mark.parametrize("kind", PAIRS)
def test_credentials_are_asked_for(build: Callable[..., SuperCluster], kind: str) -> None:
    authorization = 'authorization { user: gate, password: "right" }'
    check_traffic(build(kind, gateway=authorization))


@pytest.mark.parametrize("kind", PAIRS)
def test_credentials_of_a_url_come_first(build: Callable[..., SuperCluster], kind: str) -> None:
    joined = build(kind, gateway='authorization { user: gate, password: "right" }', user="gate:wrong@")
    for node in joined.nodes:
        node.server.wait_for_line('authentication error - User "gate"')
        assert "Inbound gateway connection from" not in node.server.log


@pytest.mark.parametrize("kind", ["g-g", "h-g", "g-h", "h-a", "hg-g"])
def test_gateways_are_encrypted(build: Callable[..., SuperCluster], kind: str, authority: Authority) -> None:
    tls = tls_config(authority.issue("gateway"), f'ca_file: "{authority.file}"', "timeout: 2")
    check_traffic(build(kind, gateway=tls))


@pytest.mark.parametrize("kind", PAIRS)
def test_a_cluster_without_a_certificate_stays_outside(
    build: Callable[..., SuperCluster], kind: str, authority: Authority
) -> None:
    tls = tls_config(authority.issue("gateway"), f'ca_file: "{authority.file}"', "timeout: 1")
    joined = build(kind, gateway_only={"A": tls}, known={"B": "A"})
    line = joined.nodes[0].server.wait_for_line("TLS gateway handshake error: .*")
    assert line
    assert "registered" not in joined.nodes[0].server.log


@pytest.mark.parametrize("kind", PAIRS)
def test_two_servers_of_one_name_do_not_connect(build: Callable[..., SuperCluster], kind: str) -> None:
    joined = build(kind, more="server_name: same", names=False)
    for node in joined.nodes:
        node.server.wait_for_line('Remote server has a duplicate name: "same"')
        assert "registered" not in re.sub(r"Outbound.*registered", "", node.server.log)


@pytest.mark.parametrize("kind", ["g-g", "h-g", "g-h", "h-h"])
def test_the_largest_line_and_payload_cross(build: Callable[..., SuperCluster], kind: str) -> None:
    joined = build(kind)
    sender, receiver = joined.join(0), joined.join(1)
    subject = ".".join(["s" * 60] * 16)
    sid = receiver.subscribe(subject)
    joined.converge()
    payload = b"P" * (1 << 20)
    sender.publish(subject, payload)
    assert receiver.next(sid).payload == payload


@pytest.mark.parametrize("kind", ["h-g", "g-h", "h-h"])
def test_jetstream_of_one_cluster_serves_another(build: Callable[..., SuperCluster], kind: str) -> None:
    """Streams of A for clients of B: requests, acknowledgements and deliveries cross."""
    at = kind.index("h") // 2
    joined = build(kind, only={"AB"[at]: "jetstream: { store_dir: js }"})
    far = joined.join(1 - at)
    joined.converge()
    assert far.api("STREAM.CREATE.S", {"name": "S", "subjects": ["orders.>"]})["config"]["name"] == "S"
    for number in range(5):
        assert far.stored("orders.new", str(number))["seq"] == number + 1
    sid = far.subscribe("deliver")
    joined.converge()
    config = {
        "deliver_subject": "deliver",
        "durable_name": "C",
        "ack_policy": "explicit",
        "ack_wait": 60_000_000_000,
    }
    assert far.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})["name"] == "C"
    for message in far.take(sid, 5):
        assert message.subject == "orders.new"
        assert far.request(message.reply).payload in (b"", b"+ACK")
    info = far.api("CONSUMER.INFO.S.C")
    assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (0, 5)
