"""Configuration texts about leaf nodes with both verdicts on each."""

from __future__ import annotations

from typing import Final

from conf_verdicts import NKEY, Case, Verdict, cases

SEED: Final = "SUAMVK2COVLEF7T4KQFJU23GU535OTITXF6E4MGAPQB2G4C27HVONQEDEY"


def block(rest: str = "", more: str = "") -> str:
    return f"leafnodes {{ port: -1, {rest} }}\n{more}"


def remote(rest: str = "", more: str = "") -> str:
    return f'leafnodes {{ remotes: [ {{ url: "nats-leaf://a:1", {rest} }} ] }}\n{more}'


def proxied(proxy: str) -> str:
    return f'leafnodes {{ remotes: [ {{ url: "ws://a:1", proxy {{ {proxy} }} }} ] }}'


LEAFNODE_CASES: Final[list[Case]] = [
    *cases(
        Verdict.ACCEPT,
        leafnodes=block(),
        leafnodes_empty="leafnodes {}",
        leafnodes_other_name='leaf { listen: "localhost:7422" }',
        leafnodes_net='leafnodes { net: "127.0.0.1", port: 7422 }',
        leafnodes_user=block(
            "authorization { user: a, password: b, account: A, timeout: 3 }", "accounts { A {} }"
        ),
        leafnodes_users=block(
            "authorization { users: [{user: a, password: b}, {user: c, password: d, account: A}] }",
            "accounts { A {} }",
        ),
        leafnodes_nkey=block(f"authorization {{ nkey: {NKEY} }}"),
        leafnodes_times=block('reconnect: "2s", dial_timeout: "1s", write_deadline: "2s"'),
        leafnodes_write_timeout=block("write_timeout: close"),
        leafnodes_advertise=block('advertise: "a.example:7422", no_advertise: true'),
        leafnodes_isolated=block("isolate_leafnode_interest: true, compression: off"),
        leafnodes_min_version=block('min_version: "2.8.0"'),
        leafnodes_min_version_more=block('minimum_version: "2.10.1"'),
        leafnodes_compression=block("compression { mode: accept }"),
        leafnodes_compression_auto=block('compression { mode: s2_auto, rtt_thresholds: ["5ms", "9ms"] }'),
        leafnodes_compression_on=block("compression: true"),
        leafnodes_remote_compression=remote("compression: s2_fast"),
        leafnode_remote=remote(),
        leafnode_remote_urls='leafnodes { remotes: [ { urls: ["nats://a:1", "tls://u:p@b:7422"] } ] }',
        leafnode_remote_without_port='leafnodes { remotes: [ { url: "nats://a" } ] }',
        leafnode_remote_account=remote("account: A", "accounts { A {} }"),
        leafnode_remote_system=remote('account: "$SYS"'),
        leafnode_remote_denies=remote('deny_imports: "a.>", deny_exports: [b, "c.*"]'),
        leafnode_remote_hub=remote("hub: true, no_randomize: true, disabled: true"),
        leafnode_remote_times=remote('first_info_timeout: "2s", dial_timeout: "2s"'),
        leafnode_remote_isolation=remote("isolate: true, request_isolation: true"),
        leafnode_remote_nkey=remote(f"nkey: {SEED}"),
        leafnode_remote_tls_empty=remote("tls {}"),
        leafnode_remote_tls_insecure=remote("tls { insecure: true }"),
        leafnode_remote_discovered=remote("ignore_discovered_servers: true"),
        leafnode_remote_migrates=remote("jetstream_cluster_migrate: false"),
        leafnode_remote_websocket='leafnodes { remotes: [ { urls: ["ws://a:1/way", "wss://b:1"] } ] }',
        leafnode_remote_ws_settings=(
            'leafnodes { remotes: [ { url: "ws://a:1", ws_compression: true, ws_no_masking: true } ] }'
        ),
        leafnode_remote_proxy=proxied('url: "http://p:1", username: u, password: p, timeout: "5s"'),
        leafnode_remote_proxy_unused=remote('proxy { url: "http://p:1" }'),
        leafnode_remote_proxy_empty=proxied(""),
        account_max_leafs="accounts { A { limits { max_leafs: 3 } } }",
    ),
    *cases(
        Verdict.WARN,
        leafnode_remote_url_twice=(
            'leafnodes { remotes: [ { urls: ["nats://a:1", "nats://a:1"] } ] }',
            "Duplicate leafnode entry detected",
        ),
        leafnodes_seconds=(
            block("reconnect: 1, dial_timeout: 2, write_deadline: 3"),
            'invalid use of field "reconnect": reconnect should be converted to a duration',
        ),
        leafnode_remote_seconds=(
            remote("first_info_timeout: 1, dial_timeout: 2"),
            'invalid use of field "first_info_timeout"',
        ),
        leafnode_remote_proxy_seconds=(
            proxied('url: "http://p:1", timeout: 3'),
            'invalid use of field "timeout"',
        ),
        leafnodes_slow_login=(block("authorization { user: a, password: b, timeout: 61 }"), "is high"),
    ),
    *cases(
        Verdict.REJECT,
        leafnodes_not_a_map=("leafnodes: 7422", "must be a map"),
        leafnodes_unknown=(block("remote: []"), 'unknown field "remote" (did you mean'),
        leafnodes_port_text=('leafnodes { port: "7422" }', "must be an integer"),
        leafnodes_listen_bad=('leafnodes { listen: "x" }', "could not parse address"),
        leafnodes_users_text=(block("authorization { users: a }"), "must be a list"),
        leafnodes_users_items=(block("authorization { users: [a] }"), "each of the users must be a map"),
        leafnodes_user_and_users=(
            block("authorization { user: a, password: b, users: [{user: c, password: d}] }"),
            "can not have a single user/pass and a users array",
        ),
        leafnodes_nkey_and_users=(
            block(f"authorization {{ nkey: {NKEY}, users: [{{user: c, password: d}}] }}"),
            "can not have a single nkey and a users array",
        ),
        leafnodes_user_twice=(
            block("authorization { users: [{user: a, password: b}, {user: a, password: d}] }"),
            'duplicate user "a" detected in leafnode authorization',
        ),
        leafnodes_nkey_bad=(block("authorization { nkey: abc }"), "Not a valid public nkey"),
        leafnodes_token=(block("authorization { token: abc }"), 'unknown field "token"'),
        leafnodes_min_version_old=(block('min_version: "2.7.9"'), "should be at least 2.8.0"),
        leafnodes_min_version_bad=(block('min_version: "new"'), "invalid leafnode's minimum version"),
        leafnodes_write_timeout_bad=(block("write_timeout: never"), "'default', 'close' or 'retry'"),
        leafnodes_remotes_map=("leafnodes { remotes: {} }", "must be a list"),
        leafnodes_remotes_items=(
            'leafnodes { remotes: ["nats://a:1"] }',
            "each of the remotes must be a map",
        ),
        leafnodes_remote_url_number=("leafnodes { remotes: [ { url: 5 } ] }", "must be a string"),
        leafnodes_remote_twice=(
            'leafnodes { remotes: [ { url: "nats://a:1" }, { url: "nats://a:1" } ] }',
            "duplicate remote",
        ),
        leafnodes_remote_both_proofs=(
            remote(f"nkey: {SEED}, credentials: '/nowhere'"),
            "can not have both creds and nkey",
        ),
        leafnodes_remote_nkey_bad=(remote(f"nkey: {NKEY}"), "is not a valid seed"),
        leafnode_remote_proxy_without_url=(
            proxied('timeout: "5s"'),
            "proxy URL must be specified when other proxy options are set",
        ),
        leafnode_remote_proxy_text=(
            'leafnodes { remotes: [ { url: "ws://a:1", proxy: "http://p:1" } ] }',
            "must be a map",
        ),
        leafnode_remote_proxy_scheme=(
            proxied('url: "socks5://p:1"'),
            "scheme must be http or https, got: socks5",
        ),
        leafnode_remote_proxy_host=(proxied('url: "http://"'), "proxy URL must specify a host"),
        leafnode_remote_proxy_user=(
            proxied('url: "http://p:1", username: u'),
            "proxy username and password must both be specified or both be empty",
        ),
        leafnode_remote_proxy_timeout=(
            proxied('url: "http://p:1", timeout: "-1s"'),
            "proxy timeout must be >= 0",
        ),
        leafnode_remote_proxy_unknown=(proxied('url: "http://p:1", port: 3'), 'unknown field "port"'),
        leafnode_remote_proxy_tls=(
            'leafnodes { remotes: [ { url: "wss://a:1", proxy { url: "http://p:1" } } ] }',
            "proxy is configured but remote URL wss://a:1 requires TLS",
        ),
        leafnodes_deny_bad=(remote('deny_imports: "a..b"'), "invalid deny_imports"),
        leafnodes_min_version_v=(block('min_version: "v2.10.1"'), "invalid leafnode's minimum version"),
        leafnodes_tls_not_found=(
            block("tls { cert_file: '/nowhere/c.pem', key_file: '/nowhere/k.pem' }"),
            "/nowhere/",
        ),
    ),
    *cases(
        Verdict.START,
        leafnodes_account_unknown=(
            block("authorization { user: a, password: b, account: X }"),
            'cannot find local account "X" specified in leafnode authorization',
        ),
        leafnodes_remote_account_unknown=(
            remote("account: X"),
            'cannot find local account "X" specified in leafnode remote',
        ),
        leafnode_remote_mixed_urls=(
            'leafnodes { remotes: [ { urls: ["ws://a:1", "nats://b:1"] } ] }',
            "cannot have a mix of websocket and non-websocket urls",
        ),
        leafnodes_compression_bad=(block("compression: zip"), 'unsupported compression mode "zip"'),
    ),
    *cases(
        Verdict.UNSUPPORTED,
        leafnodes_remote_migrates_on=(remote("jetstream_cluster_migrate: true"), "jetstream_cluster_migrate"),
    ),
    *cases(
        Verdict.STRICTER,
        leafnodes_port_too_large=("leafnodes { port: 70000 }", "between -1 and 65535"),
        leafnodes_remote_without_url=(
            "leafnodes { remotes: [ { account: A } ] }\naccounts { A {} }",
            "needs a url",
        ),
        leafnodes_user_without_name=(block("authorization { users: [{password: b}] }"), "needs a name"),
    ),
]
