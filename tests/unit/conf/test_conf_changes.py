"""What differs between two configurations: said option by option, and never a secret."""

from __future__ import annotations

import pytest

from headrace.conf.account_options import AuthorizationOptions, CalloutOptions
from headrace.conf.binding import load_options
from headrace.conf.changes import changed_options, differences
from headrace.conf.options import Options
from headrace.conf.tls_options import TLSOptions
from headrace.conf.websocket_options import WebSocketOptions


def said(before: str, after: str) -> list[str]:
    old, new = (load_options(text=text, environ={}) for text in (before, after))
    return [str(change) for change in differences(old, new)]


USERS = "authorization {{ users: [{}] }}"
ACCOUNT = (
    "accounts {{ A {{ users: [{{user: a, password: p}}], {} }}, B {{ users: [{{user: b, password: p}}] }} }}"
)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("max_payload: 5", "max_payload: 5 # the same", []),
        ("", 'ping_interval: "90s"', ["ping_interval: 2m0s -> 1m30s"]),
        ("debug: true", "", ["debug: true -> false"]),
        ("", "server_name: n", ["server_name: added: n"]),
        ('log_file: "x"', "", ["log_file: removed: x"]),
        ("server_tags: [a]", "server_tags: [a, b]", ["server_tags: [a] -> [a, b]"]),
        (
            "authorization { token: one }",
            "authorization { token: two }",
            ["authorization.token: changed"],
        ),
        ("", "authorization { token: one }", ["authorization.token: added: [hidden]"]),
        (
            USERS.format("{user: a, password: one}, {user: b, password: p}"),
            USERS.format("{user: a, password: two}, {user: c, password: p, permissions: {publish: [x]}}"),
            [
                "authorization.users[a].password: changed",
                "authorization.users[b]: removed: {user: b, password: [hidden]}",
                "authorization.users[c]: added: "
                "{user: c, password: [hidden], permissions: {publish: {allow: [x]}}}",
            ],
        ),
        (
            USERS.format("{user: a, password: p}, {user: b, password: p}"),
            USERS.format("{user: b, password: p}, {user: a, password: p}"),
            ["authorization.users: a, b -> b, a"],
        ),
        (
            ACCOUNT.format("exports: [{stream: x}]"),
            ACCOUNT.format("exports: [{stream: x, accounts: [B]}, {service: x}], limits: {max_payload: 9}"),
            [
                "accounts[A].exports[stream x].accounts: added: [B]",
                "accounts[A].exports[service x]: added: {subject: x, is_service: true}",
                "accounts[A].limits.max_payload: -1 -> 9",
            ],
        ),
        (
            "mappings: {a: [{destination: b, weight: 50%}, {destination: c, weight: 50%}]}",
            "mappings: {a: [{destination: b, weight: 40%}, {destination: c, weight: 50%}]}",
            ["mappings[a to b].weight: 50 -> 40"],
        ),
        (
            "streaming { cluster_id: c }",
            "streaming { cluster_id: c, store_limits { max_msgs: 5 } }",
            ["streaming.limits.max_msgs: 1000000 -> 5"],
        ),
    ],
)
def test_differences(before: str, after: str, lines: list[str]) -> None:
    assert said(before, after) == lines


def test_what_needs_a_restart() -> None:
    old, new = (load_options(text=text, environ={}) for text in ("", "port: 4\nmax_payload: 9\nhttp_port: 5"))

    assert {change.option: change.needs_restart for change in differences(old, new)} == {
        "port": True,
        "http_port": True,
        "max_payload": False,
    }
    assert changed_options(old, new) == ["port", "http_port", "max_payload"]


CLUSTER = "cluster {{ port: 1, {} }}"


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (CLUSTER.format(""), CLUSTER.format("no_advertise: true"), {"cluster.no_advertise": False}),
        (CLUSTER.format(""), CLUSTER.format("host: h"), {"cluster.host": True}),
        (CLUSTER.format(""), CLUSTER.format("protocol: auto"), {"cluster.protocol": True}),
        ("cluster { port: 1 }", "cluster { port: 2 }", {"cluster.port": True}),
        ("", "cluster { port: 1 }", {"cluster": True}),
        (
            "gateway { name: g, port: 1 }",
            "gateway { name: g, port: 1, connect_retries: 2 }",
            {"gateway.connect_retries": True},
        ),
        (
            "leafnodes { port: 1 }",
            "leafnodes { port: 2, no_advertise: true }",
            {"leafnodes.port": True, "leafnodes.no_advertise": False},
        ),
        ("", "leafnodes { isolate: true }", {"leafnodes.isolate": False}),
        (
            "websocket { port: 1, no_tls: true }",
            "websocket { port: 1, no_tls: true, compression: true }",
            {"websocket.compression": True},
        ),
        (
            "jetstream: true, mqtt { port: 1 }",
            "jetstream: true, mqtt { port: 2, js_api_timeout: '1s', reject_qos2_publish: true }",
            {"mqtt.port": True, "mqtt.js_api_timeout": True, "mqtt.reject_qos2_publish": True},
        ),
        (
            "jetstream: true, mqtt { port: 1 }",
            "jetstream: true, mqtt { port: 1, ack_wait: '1s', max_pending: 2, stream_replicas: 2,"
            " max_level: 4, consumer_memory_storage: true, consumer_inactive_threshold: '1h' }",
            dict.fromkeys(
                (
                    "mqtt.ack_wait",
                    "mqtt.max_ack_pending",
                    "mqtt.stream_replicas",
                    "mqtt.consumer_memory_storage",
                    "mqtt.consumer_inactive_threshold",
                    "mqtt.max_level",
                ),
                False,
            ),
        ),
        ("jetstream: true", "jetstream: true, mqtt { port: 1 }", {"mqtt": True}),
    ],
)
def test_what_needs_a_restart_within_blocks(before: str, after: str, changes: dict[str, bool]) -> None:
    old, new = (load_options(text=text, environ={}) for text in (before, after))
    assert {change.path: change.needs_restart for change in differences(old, new)} == changes


def test_secrets_of_the_mqtt_block_are_not_told() -> None:
    texts = [
        f"jetstream: true, mqtt {{ port: 1, authorization {{ {who} }} }}"
        for who in ("token: one", "token: two")
    ]
    texts.append(texts[0].replace("token: one", "user: u, password: three"))

    for text in texts[1:]:
        lines = said(texts[0], text)
        assert lines
        assert not [word for word in ("one", "two", "three") if word in " ".join(lines)]


def test_tls_of_websocket_changes_without_a_restart_where_it_was_and_stays() -> None:
    one, other = (TLSOptions("cert", "key", timeout=timeout) for timeout in (1.0, 2.0))
    without, old, new = (Options(websocket=WebSocketOptions(tls=tls)) for tls in (None, one, other))
    assert [(change.path, change.needs_restart) for change in differences(old, new)] == [
        ("websocket.tls.timeout", False)
    ]
    assert [(change.path, change.needs_restart) for change in differences(without, new)] == [
        ("websocket.tls", True)
    ]


def test_callout_changes_without_a_restart_where_it_was_and_stays() -> None:
    one, other = (CalloutOptions("A", (user,)) for user in "ab")
    without, old, new = (
        Options(authorization=AuthorizationOptions(callout=callout)) for callout in (None, one, other)
    )
    assert [(change.path, change.needs_restart) for change in differences(old, new)] == [
        ("authorization.callout.users", False)
    ]
    for before, after in ((without, new), (old, without)):
        assert [(change.path, change.needs_restart) for change in differences(before, after)] == [
            ("authorization.callout", True)
        ]


def test_user_information_of_urls_is_hidden() -> None:
    url = 'streaming { nats_server_url: "nats://me:s3cr3t@there:4222" }'

    assert "s3cr3t" not in "".join(said("", url))
