"""Configuration texts about the `mqtt` block with both verdicts on each."""

from __future__ import annotations

from typing import Final

from conf_verdicts import Case, Verdict, cases

USERS: Final = "authorization { users: [{user: a, password: b}] }\n"
CLUSTER: Final = 'cluster { name: c, listen: "127.0.0.1:-1" }\n'
GATEWAY: Final = 'gateway { name: g, listen: "127.0.0.1:-1" }\n'
LEAFNODES: Final = 'leafnodes { listen: "127.0.0.1:-1" }\n'


def alone(rest: str = "") -> str:
    """A block with a port, without JetStream."""
    return f'mqtt {{ listen: "127.0.0.1:-1", {rest} }}\n'


def block(rest: str = "") -> str:
    """A server that can have clients over MQTT."""
    return f"jetstream: true\n{alone(rest)}"


MQTT_CASES: Final[list[Case]] = [
    *cases(
        Verdict.ACCEPT,
        mqtt_without_port="mqtt {}",
        mqtt_without_port_and_rules="mqtt { no_auth_user: x, ack_wait: '-1s' }",
        mqtt_port="jetstream: true\nmqtt { port: -1, host: '127.0.0.1' }",
        mqtt_net="jetstream: true\nmqtt { port: -1, net: '127.0.0.1' }",
        mqtt_listen_port="jetstream: true\nmqtt { listen: 1883 }",
        mqtt_all=block(
            "ack_wait: '10s', max_ack_pending: 100, js_api_timeout: '2s', js_domain: d, stream_replicas: 3,"
            " consumer_memory_storage: true, consumer_inactive_threshold: '1h', reject_qos2_publish: true,"
            " downgrade_qos2_subscribe: true"
        ),
        mqtt_other_names=block(
            "ackwait: '10s', max_pending: 100, api_timeout: '2s', consumer_auto_cleanup: '1h',"
            " authentication { username: a, pass: b, timeout: 1.5 }"
        ),
        mqtt_max_inflight=block("max_inflight: 65535"),
        mqtt_zeros=block("ack_wait: '0s', max_ack_pending: 0, js_api_timeout: '0s', no_auth_user: ''"),
        mqtt_replicas_negative=block("stream_replicas: -1"),
        mqtt_token=block("authorization { token: t }"),
        mqtt_timeout_alone=USERS + block("authorization { timeout: 3 }"),
        mqtt_user_beside_user="authorization { user: a, password: b }\n" + block("authorization { user: c }"),
        mqtt_guest=USERS + block("no_auth_user: a"),
        mqtt_with_leafnodes=LEAFNODES + alone(),
        mqtt_with_leaf_remotes='leafnodes { remotes: [{url: "nats-leaf://127.0.0.1:7422"}] }\n' + alone(),
        mqtt_with_cluster="server_name: s\n" + CLUSTER + alone(),
        mqtt_with_gateway="server_name: s\n" + GATEWAY + alone(),
        mqtt_unused_variable="jetstream: true\nmqtt { W: '1s', port: -1, ack_wait: $W }",
    ),
    *cases(
        Verdict.WARN,
        mqtt_ack_wait_number=(
            block("ack_wait: 10"),
            'invalid use of field "ack_wait": ack_wait should be converted to a duration',
        ),
        mqtt_api_timeout_number=(
            block("js_api_timeout: 10"),
            "js_api_timeout should be converted to a duration",
        ),
        mqtt_threshold_number=(
            block("consumer_inactive_threshold: 10"),
            "consumer_inactive_threshold should be converted to a duration",
        ),
        mqtt_consumer_replicas=(
            block("consumer_replicas: 1"),
            'invalid use of field "consumer_replicas": '
            "consumer replicas setting ignored in this server version",
        ),
    ),
    *cases(
        Verdict.REJECT,
        mqtt_not_a_map=("mqtt: 1883", "must be a map"),
        mqtt_unknown=(block("foo: 1"), 'unknown field "foo"'),
        mqtt_near_miss=(block("max_ack_pendin: 1"), 'did you mean "max_ack_pending"?'),
        mqtt_port_text=('mqtt { port: "1883" }', "must be an integer"),
        mqtt_listen_bad=("mqtt { listen: x }", "could not parse address"),
        mqtt_pending_large=(
            block("max_ack_pending: 70000"),
            "invalid value 70000, should in [0..65535] range",
        ),
        mqtt_pending_negative=(block("max_ack_pending: -1"), "invalid value -1, should in [0..65535] range"),
        mqtt_pending_text=(block("max_ack_pending: '1'"), "must be an integer"),
        mqtt_ack_wait_text=(block("ack_wait: x"), "not a duration"),
        mqtt_ack_wait_flag=(block("ack_wait: true"), "a duration"),
        mqtt_users=(block("authorization { users: [] }"), 'unknown field "users"'),
        mqtt_memory_number=(block("consumer_memory_storage: 1"), "must be true or false"),
        mqtt_reject_text=(block("reject_qos2_publish: 'yes please'"), "must be true or false"),
        mqtt_domain_number=(block("js_domain: 1"), "must be a string"),
        mqtt_tls_missing=(block("tls { cert_file: a, key_file: b }"), "open a: no such file"),
        mqtt_tls_pinned=(
            block("tls { cert_file: a, key_file: b, pinned_certs: [zz] }"),
            "does not look like",
        ),
    ),
    *cases(
        Verdict.START,
        mqtt_alone=(alone(), "mqtt requires JetStream to be enabled if running in standalone mode"),
        mqtt_off=("jetstream: false\n" + alone(), "mqtt requires JetStream to be enabled"),
        mqtt_cluster_nameless=(CLUSTER + block(), "mqtt requires server name to be explicitly set"),
        mqtt_gateway_nameless=(GATEWAY + block(), "mqtt requires server name to be explicitly set"),
        mqtt_user_beside_users=(
            USERS + block("authorization { user: x, password: y }"),
            "mqtt authentication username not compatible with presence of users/nkeys",
        ),
        mqtt_token_beside_users=(
            USERS + block("authorization { token: y }"),
            "mqtt authentication token not compatible with presence of users/nkeys",
        ),
        mqtt_token_beside_accounts=(
            "accounts { A { jetstream: true, users: [{user: a, password: b}] } }\n"
            + block("authorization { token: y }"),
            "mqtt authentication token not compatible",
        ),
        mqtt_ack_wait_negative=(block("ack_wait: '-1s'"), "ack wait must be a positive value"),
        mqtt_api_timeout_negative=(block("js_api_timeout: '-1s'"), "JS API timeout must be a positive value"),
        mqtt_guest_unknown=(USERS + block("no_auth_user: x"), '"x" is not among the users'),
        mqtt_guest_of_nobody=(block("no_auth_user: x"), "no list of users is"),
    ),
    *cases(
        Verdict.STRICTER,
        mqtt_port_large=("jetstream: true\nmqtt { port: 99999 }", "must lie between"),
        mqtt_threshold_negative=(block("consumer_inactive_threshold: '-1s'"), "cannot be negative"),
        mqtt_tls_empty=(block("tls {}"), "missing cert_file and key_file"),
        mqtt_two_kinds=(block("authorization { user: u, token: y }"), "cannot stand together"),
        mqtt_password_alone=(block("authorization { password: p }"), "a password needs a user"),
    ),
    *cases(
        Verdict.LENIENT,
        mqtt_5=block(
            "max_level: 5, max_session_expiry: '1h', max_keep_alive: '10m', receive_maximum: 10,"
            " topic_alias_maximum: 0"
        ),
        mqtt_5_off=block("max_level: 4"),
    ),
    *cases(
        Verdict.REJECT,
        mqtt_level=(block("max_level: 3"), "max_level must be 4 (MQTT 3.1.1) or 5"),
        mqtt_keep_alive_short=(block("max_keep_alive: '1ms'"), "must lie between 1s and 65535s"),
        mqtt_keep_alive_long=(block("max_keep_alive: '24h'"), "must lie between 1s and 65535s"),
        mqtt_expiry_negative=(block("max_session_expiry: '-1s'"), "cannot be negative"),
        mqtt_receive_maximum=(block("receive_maximum: 0"), "receive_maximum must lie between 1 and 65535"),
        mqtt_aliases=(block("topic_alias_maximum: 70000"), "must lie between 0 and 65535"),
    ),
]
