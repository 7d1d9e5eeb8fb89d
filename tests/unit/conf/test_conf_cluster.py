"""The cluster block and its flags as options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.certificates import Authority
from headrace.conf.account_options import SubjectPermission
from headrace.conf.binding import load_options
from headrace.conf.peer_options import ClusterOptions, PeerURL, parse_peer_url
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def load(text: str, **overrides: object) -> ClusterOptions:
    options = load_options(text=text, environ={}, overrides=overrides).cluster
    assert options is not None
    return options


def flagged(text: str = "", **flags: Any) -> ClusterOptions:
    return load(text, cluster_flags=flags)


def test_every_field() -> None:
    assert load(
        """
        cluster {
          name: C1, listen: "127.0.0.1:6222", advertise: "a.example:6223", no_advertise: true
          routes: ["nats-route://u:p%40@h:1", "tls://[::1]:2"]
          authorization { user: a, password: b, timeout: 3 }
          permissions { import: "a.>", export { allow: [b], deny: "c" } }
          connect_retries: 4, connect_backoff: true, pool_size: 5, accounts: [A, B]
          ping_interval: "20s", ping_max: 3, write_deadline: "5s", write_timeout: close
          compression: off, protocol: "2.x"
        }
        """
    ) == ClusterOptions(
        name="C1",
        host="127.0.0.1",
        port=6222,
        advertise="a.example:6223",
        no_advertise=True,
        routes=(PeerURL("h", 1, "u", "p@"), PeerURL("::1", 2, scheme="tls")),
        user="a",
        password="b",
        auth_timeout=3.0,
        imports=SubjectPermission(allow=("a.>",)),
        exports=SubjectPermission(allow=("b",), deny=("c",)),
        connect_retries=4,
        connect_backoff=True,
        pool_size=5,
        accounts=("A", "B"),
        ping_interval=20.0,
        ping_max=3,
        write_deadline=5.0,
        write_timeout="close",
        compression="off",
    )


def test_defaults_and_values_that_mean_them() -> None:
    text = (
        'cluster { port: -1, pool_size: 0, ping_interval: "0s", ping_max: 0, write_deadline: "0s", name: "" }'
    )
    assert load(text) == ClusterOptions(port=-1)
    assert load_options(text="", environ={}).cluster is None


def test_permissions_of_the_block_go_before_those_of_its_authorization() -> None:
    old = "authorization { user: a, password: b, permissions { publish: x } }"

    assert load(f"cluster {{ {old} }}").imports == SubjectPermission(allow=("x",))
    assert load(f"cluster {{ {old}, permissions {{ import: y }} }}").imports == SubjectPermission(
        allow=("y",)
    )


@pytest.mark.parametrize(
    ("authorization", "seconds"),
    [("", 5.0), ("authorization { user: u, password: p }", 5.0), ("authorization { timeout: 3 }", 3.0)],
)
def test_time_to_authenticate_begins_behind_the_tls_handshake(
    tmp_path: Path, authorization: str, seconds: float
) -> None:
    pair = Authority(tmp_path, "ca").issue("server")
    tls = f"tls {{ cert_file: '{pair.certificate}', key_file: '{pair.key}', timeout: 4 }}"
    for block in ("cluster", "gateway"):
        text = f"{block} {{ name: c, port: 1, {tls}, {authorization} }}"
        options = load_options(text=text, environ={})
        found = options.cluster if block == "cluster" else options.gateway
        assert found is not None
        assert found.auth_timeout == seconds


def test_flags_make_a_cluster() -> None:
    assert flagged(
        listen="nats://u:p%40@h:6222",
        name="c",
        routes="nats://a:1, nats://b:2,",
        advertise="x:3",
        connect_retries=7,
        no_advertise=True,
    ) == ClusterOptions(
        name="c",
        host="h",
        port=6222,
        user="u",
        password="p@",
        routes=(PeerURL("a", 1, scheme="nats"), PeerURL("b", 2, scheme="nats")),
        advertise="x:3",
        connect_retries=7,
        no_advertise=True,
    )


def test_flags_replace_parts_of_the_block() -> None:
    text = "cluster { name: c, port: 5, authorization { user: a, password: b }, routes: ['nats://a:1'] }"

    changed = flagged(text, listen="nats://h:-1", routes="")

    assert changed == ClusterOptions(name="c", host="h", port=-1)
    assert flagged(text, listen="").port == 0
    assert flagged(text, listen="nats://:9").host == "0.0.0.0"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"routes": "nats://a:1"}, "solicited routes require cluster capabilities, e.g. --cluster"),
        ({"listen": "nats://u@h:1"}, "expected cluster password to be set"),
        ({"listen": "h:1"}, "--cluster must be a URL with a port"),
        ({"listen": "nats://h"}, "--cluster must be a URL with a port"),
        ({"listen": "nats://h:x"}, "--cluster must be a URL with a port"),
        ({"listen": "nats://h:1", "routes": "a"}, "error parsing route url"),
        ({"listen": "nats://h:1", "name": "a b"}, "cluster name cannot contain spaces"),
    ],
)
def test_flags_that_say_nothing_useful(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        flagged(**flags)


@pytest.mark.parametrize("protocol", ["1.x", "auto", "2.x"])
def test_protocols_of_routes(protocol: str) -> None:
    assert load(f'cluster {{ port: -1, protocol: "{protocol}" }}').protocol == protocol


@pytest.mark.parametrize("protocol", ["1", "1.X", "3", "both"])
def test_protocols_that_are_not_there(protocol: str) -> None:
    with pytest.raises(ConfigError, match=r"protocol must be one of 2\.x, 1\.x, auto, not "):
        load(f'cluster {{ port: -1, protocol: "{protocol}" }}')


@pytest.mark.parametrize("text", ["", "a", "nats://", "nats://a", "nats://:1", "nats://a:x", "nats://a:0"])
def test_url_that_names_no_place(text: str) -> None:
    with pytest.raises(ValueError, match=r"scheme|Port|port"):
        parse_peer_url(text)


def test_error_about_a_url_has_no_password_in_it() -> None:
    with pytest.raises(ConfigError) as caught:
        load('cluster { port: -1, routes: ["nats://user:secret@host:port"] }')

    assert "secret" not in str(caught.value)


def test_password_is_not_shown() -> None:
    text = "cluster { authorization { user: a, password: topsecret }, routes: ['nats://u:hidden@a:1'] }"

    assert not {"topsecret", "hidden"} & set(repr(load(text)).replace("'", " ").split())
