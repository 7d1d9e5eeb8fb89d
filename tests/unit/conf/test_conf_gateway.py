"""The gateway block as options."""

from __future__ import annotations

from headrace.conf.binding import load_options
from headrace.conf.changes import differences
from headrace.conf.peer_options import GatewayOptions, PeerURL, RemoteGatewayOptions


def load(text: str) -> GatewayOptions:
    options = load_options(text=text, environ={}).gateway
    assert options is not None
    return options


def test_every_field() -> None:
    assert load(
        """
        gateway {
          name: A, listen: "127.0.0.1:7222", advertise: "a.example:7223"
          authorization { user: a, password: b, timeout: 3 }
          connect_retries: 4, connect_backoff: true, reject_unknown_cluster: true
          write_deadline: "5s", write_timeout: close
          gateways: [
            { name: B, url: "nats://u:p%40@h:1" }
            { name: C, urls: ["nats://[::1]:2", "tls://c:3"] }
          ]
        }
        """
    ) == GatewayOptions(
        name="A",
        host="127.0.0.1",
        port=7222,
        advertise="a.example:7223",
        user="a",
        password="b",
        auth_timeout=3.0,
        connect_retries=4,
        connect_backoff=True,
        reject_unknown=True,
        write_deadline=5.0,
        write_timeout="close",
        gateways=(
            RemoteGatewayOptions("B", (PeerURL("h", 1, "u", "p@", "nats"),)),
            RemoteGatewayOptions("C", (PeerURL("::1", 2, scheme="nats"), PeerURL("c", 3, scheme="tls"))),
        ),
    )


def test_an_empty_block_is_none() -> None:
    assert load_options(text="gateway {}", environ={}).gateway is None


def test_a_cluster_is_called_what_its_gateways_are_called() -> None:
    options = load_options(text="gateway { name: A, port: -1 }\ncluster { port: -1 }", environ={})
    assert options.cluster is not None
    assert options.cluster.name == "A"


def test_a_change_needs_a_restart_and_shows_no_secret() -> None:
    before = load_options(
        text='gateway { name: A, port: 1, gateways: [{ name: B, url: "nats://u:old@b:1" }] }', environ={}
    )
    after = load_options(
        text='gateway { name: A, port: 1, gateways: [{ name: B, url: "nats://u:new@c:1" }] }', environ={}
    )
    changes = differences(before, after)
    assert changes
    assert all(change.needs_restart for change in changes)
    assert not any(secret in str(change) for change in changes for secret in ("old", "new"))
