"""Configuration texts about gateways with both verdicts on each."""

from __future__ import annotations

from typing import Final

from conf_verdicts import Case, Verdict, cases


def block(rest: str = "") -> str:
    return f"gateway {{ name: A, port: -1, {rest} }}"


GATEWAY_CASES: Final[list[Case]] = [
    *cases(
        Verdict.ACCEPT,
        gateway=block(),
        gateway_empty="gateway {}",
        gateway_listen='gateway { name: A, listen: "localhost:7222" }',
        gateway_net='gateway { name: A, net: "127.0.0.1", port: 7222 }',
        gateway_remotes=block(
            'gateways: [{ name: B, url: "nats://u:p@b:7222" }, { name: C, urls: ["nats://c:1"] }]'
        ),
        gateway_itself=block('gateways: [{ name: A, url: "nats://a:7222" }]'),
        gateway_authorization=block("authorization { user: a, password: b, timeout: 3 }"),
        gateway_advertise=block('advertise: "a.example:7222"'),
        gateway_retries=block("connect_retries: 5, connect_backoff: true"),
        gateway_reject=block("reject_unknown: true"),
        gateway_reject_cluster=block("reject_unknown_cluster: true"),
        gateway_deadline=block('write_deadline: "2s", write_timeout: retry'),
        gateway_and_cluster="gateway { name: A, port: -1 }\ncluster { name: A, port: -1 }",
        gateway_and_cluster_without_name="gateway { name: A, port: -1 }\ncluster { port: -1 }",
    ),
    *cases(
        Verdict.REJECT,
        gateway_not_a_map=("gateway: 7222", "must be a map"),
        gateway_unknown=(block("gatewayz: []"), 'unknown field "gatewayz"'),
        gateway_name_with_space=('gateway { name: "A B", port: -1 }', "gateway name cannot contain spaces"),
        gateway_users=(
            block("authorization { users: [{ user: a, password: b }] }"),
            "Gateway authorization does not allow multiple users",
        ),
        gateway_token=(block("authorization { token: t }"), "Gateway authorization does not support tokens"),
        gateway_remotes_no_list=(block("gateways: B"), "must be a list of maps"),
        gateway_remote_no_map=(block("gateways: [B]"), "each gateway must be a map"),
        gateway_remote_unknown=(
            block('gateways: [{ name: B, urlz: "nats://b:1" }]'),
            'unknown field "urlz"',
        ),
        gateway_remote_bad_url=(
            block('gateways: [{ name: B, url: "nats://b:x" }]'),
            "error parsing gateway url",
        ),
        gateway_listen_bad=('gateway { name: A, listen: "x" }', "could not parse address"),
        gateway_write_timeout_bad=(block("write_timeout: never"), "write_timeout must be"),
    ),
    *cases(
        Verdict.START,
        gateway_without_name=("gateway { port: -1 }", "gateway has no name"),
        gateway_without_port=("gateway { name: A }", 'gateway "A" has no port specified'),
        gateway_name_of_another=(
            "gateway { name: A, port: -1 }\ncluster { name: B, port: -1 }",
            "cluster name conflicts between cluster and gateway definitions",
        ),
        gateway_remote_without_name=(
            block('gateways: [{ url: "nats://b:7222" }]'),
            "gateway in the list 0 has no name",
        ),
        gateway_remote_without_url=(block("gateways: [{ name: B }]"), 'gateway "B" has no URL'),
    ),
]
