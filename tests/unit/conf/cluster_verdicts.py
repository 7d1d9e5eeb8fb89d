"""Configuration texts about clusters with both verdicts on each."""

from __future__ import annotations

from typing import Final

from conf_verdicts import Case, Verdict, cases


def block(rest: str = "") -> str:
    return f"cluster {{ port: -1, {rest} }}"


ROUTE: Final = 'routes: ["nats://127.0.0.1:6222"]'

CLUSTER_CASES: Final[list[Case]] = [
    *cases(
        Verdict.ACCEPT,
        cluster=block(),
        cluster_empty="cluster {}",
        cluster_listen='cluster { name: c, listen: "localhost:6222" }',
        cluster_listen_port="cluster { listen: 6222 }",
        cluster_net='cluster { net: "127.0.0.1", port: 6222 }',
        cluster_routes=block('routes: ["nats-route://u:p%40@a:6222", "tls://b:6222/x"]'),
        cluster_routes_without_port=f"cluster {{ {ROUTE} }}",
        cluster_authorization=block("authorization { user: a, password: b, timeout: 3 }"),
        cluster_permissions=block('permissions { import: "a.>", export { allow: [b, c], deny: "c" } }'),
        cluster_permissions_of_users=block('permissions { publish: "a", subscribe: "b" }'),
        cluster_advertise=block('advertise: "a.example:6222", no_advertise: true'),
        cluster_advertise_other_name=block('cluster_advertise: "a.example"'),
        cluster_retries=block("connect_retries: 5, connect_backoff: true"),
        cluster_pool=block("pool_size: 5, accounts: [A, B]"),
        cluster_pool_default=block("pool_size: 0, accounts: A"),
        cluster_without_pool=block("pool_size: -1"),
        cluster_liveness=block('ping_interval: "20s", ping_max: 3, write_deadline: "2s"'),
        cluster_write_timeouts=block("write_timeout: retry"),
        cluster_compression_off=block("compression: off"),
        cluster_compression_accept=block("compression { mode: accept }"),
        cluster_compression_not_supported=block('compression: "not supported"'),
        cluster_compression_fast=block("compression: s2_fast"),
        cluster_compression_on=block("compression: true"),
        cluster_compression_word=block("compression: Enabled"),
        cluster_compression_best=block("compression { mode: best }"),
        cluster_compression_auto=block("compression { mode: s2_auto, rtt_thresholds: [10ms, 50ms] }"),
        cluster_compression_gaps=block("compression { mode: auto, rtts: [0s, 0s, 20ms, 30ms, 0s] }"),
        cluster_compression_negative=block('compression { mode: auto, rtt: ["-5ms", "20ms"] }'),
    ),
    *cases(
        Verdict.WARN,
        cluster_route_twice=(
            block('routes: ["nats://a:1", "nats://a:1"]'),
            "Duplicate route entry detected",
        ),
        cluster_pings_far_apart=(block('ping_interval: "1m"'), "will reset to 30s"),
        cluster_ping_interval_number=(block("ping_interval: 5"), "should be converted to a duration"),
        cluster_permissions_of_old=(
            block('authorization { user: a, password: b, permissions { publish: "x" } }'),
            "is deprecated",
        ),
    ),
    *cases(
        Verdict.REJECT,
        cluster_not_a_map=("cluster: 6222", "must be a map"),
        cluster_unknown=(block("route: []"), 'unknown field "route" (did you mean'),
        cluster_port_text=('cluster { port: "6222" }', "must be an integer"),
        cluster_listen_bad=('cluster { listen: "x" }', "could not parse address"),
        cluster_name_with_space=(block('name: "a b"'), "cluster name cannot contain spaces"),
        cluster_name_number=(block("name: 5"), "must be a string"),
        cluster_users=(block("authorization { users: [] }"), "does not allow multiple users"),
        cluster_token=(block("authorization { token: a }"), "does not support tokens"),
        cluster_responses=(block("permissions { allow_responses: true }"), "dynamic responses"),
        cluster_import_bad=(block('permissions { import: "a..b" }'), '"a..b" is not a valid subject'),
        cluster_import_queue=(block('permissions { import: "a q" }'), '"a q" is not a valid subject'),
        cluster_export_queue=(
            block('permissions { export: "a q" }'),
            'cluster export allow: subject "a q" is not a valid subject',
        ),
        cluster_export_deny_queue=(
            block('permissions { export { deny: "a q" } }'),
            'cluster export deny: subject "a q" is not a valid subject',
        ),
        cluster_route_bad=(block('routes: ["nats://a:b:c"]'), "error parsing route url"),
        cluster_routes_text=(block('routes: "nats://a:1"'), "a list of urls"),
        cluster_write_timeout_bad=(block("write_timeout: never"), "'default', 'close' or 'retry'"),
        cluster_compression_number=(block("compression: 5"), "must be"),
        cluster_compression_unknown=(block("compression { foo: 5 }"), 'unknown field "foo"'),
        cluster_advertise_flag=(block("no_advertise: 1"), "must be true or false"),
        cluster_tls_not_found=(
            block("tls { cert_file: '/nowhere/c.pem', key_file: '/nowhere/k.pem' }"),
            "/nowhere/",
        ),
    ),
    *cases(
        Verdict.START,
        cluster_compression_bad=(block("compression: zip"), 'unsupported compression mode "zip"'),
        cluster_compression_inner=(
            block("compression: s2_uncompressed"),
            'unsupported compression mode "s2_uncompressed"',
        ),
        cluster_compression_order=(
            block("compression { mode: auto, rtt_thresholds: [50ms, 10ms] }"),
            "RTT threshold values [50ms 10ms] should be in ascending order",
        ),
        cluster_compression_many=(
            block("compression { mode: auto, rtt_thresholds: [1ms, 2ms, 3ms, 4ms, 5ms] }"),
            "no more than 4 RTT thresholds",
        ),
        cluster_compression_none=(
            block("compression { mode: auto, rtt_thresholds: [0s, 0s] }"),
            "requires at least one RTT threshold",
        ),
        cluster_accounts_twice=(
            block("accounts: [A, A]") + "\naccounts { A {} }",
            'found duplicate account name "A" in pinned accounts list ["A" "A"]',
        ),
        cluster_accounts_without_pool=(
            block("accounts: A, pool_size: -1") + "\naccounts { A {} }",
            "pool_size cannot be negative if pinned accounts are specified",
        ),
    ),
    *cases(
        Verdict.STRICTER,
        cluster_route_without_port=(block('routes: ["tls://a"]'), "a scheme, a host and a port"),
        cluster_route_without_host=(block('routes: ["nats://"]'), "a scheme, a host and a port"),
        cluster_port_too_large=("cluster { port: 70000 }", "between -1 and 65535"),
        cluster_port_negative=("cluster { port: -2 }", "between -1 and 65535"),
        cluster_advertise_bad=(block('advertise: "a:b:c"'), "advertise: could not parse address"),
    ),
]
