"""From configuration and overrides to options."""

from __future__ import annotations

import msgspec
import pytest

from headrace import limits
from headrace.conf.account_options import UserOptions
from headrace.conf.binding import load_options
from headrace.conf.options import Options
from headrace.errors import ConfigError


def load(text: str, **overrides: object) -> Options:
    return load_options(text=text, overrides=overrides, environ={})


def complaints(text: str, **overrides: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, **overrides)
    return [str(problem) for problem in caught.value.problems]


def test_load_of_nothing_gives_defaults() -> None:
    assert load_options() == Options()


def test_load_of_path_and_text_is_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        load_options("x.conf", text="")


def test_load_of_file_remembers_path_digest_and_overrides(tmp_path) -> None:
    file = tmp_path / "x.conf"
    file.write_text("port: 4333\n")
    options = load_options(str(file), overrides={"host": "::1"})
    assert (options.config_file, options.port, options.host) == (str(file), 4333, "::1")
    assert options.config_digest is not None
    assert options.config_digest.startswith("sha256:")
    assert load_options(options.config_file, overrides=options.overrides) == options


@pytest.mark.parametrize(
    ("text", "option", "value"),
    [
        ("host: h", "host", "h"),
        ("net: h", "host", "h"),
        ("host: ''", "host", "0.0.0.0"),
        ("port: -1", "port", -1),
        ("port: 0", "port", 4222),
        ("listen: 5000", "port", 5000),
        ("listen: 'h:5000'", "host", "h"),
        ("listen: ':5000'", "host", "0.0.0.0"),
        ("listen: '[::1]:5000'", "host", "::1"),
        ("listen: 127.0.0.1:-1", "port", -1),
        ("host: h\nlisten: 5000", "host", "h"),
        ("port: 1\nlisten: 5000", "port", 5000),
        ("listen: 5000\nport: 1", "port", 1),
        ("http: 8222", "http_port", 8222),
        ("http: 8222", "http_host", None),
        ("http: 'h:8222'", "http_host", "h"),
        ("http: ':8222'", "http_host", None),
        ("http_port: 8222", "http_port", 8222),
        ("monitor_port: -1", "http_port", -1),
        ("http_port: 0", "http_port", None),
        ("http_base_path: nats/", "http_base_path", "/nats"),
        ("http_base_path: '//a/../b//c'", "http_base_path", "/b/c"),
        ("http_base_path: /", "http_base_path", ""),
        ("server_name: n", "server_name", "n"),
        ("server_name: 1e5", "server_name", "1e5"),
        ("server_tags: [B, ' a ', b, '']", "server_tags", ("b", "a")),
        ("server_tags: a", "server_tags", ("a",)),
        ("client_advertise: 'a:1'", "client_advertise", "a:1"),
        ("max_payload: 512kb", "max_payload", 524288),
        ("max_payload: 0", "max_payload", limits.MAX_PAYLOAD),
        ("max_payload: -1", "max_payload", limits.MAX_PENDING),
        ("max_payload: -1\nmax_pending: 10mb", "max_payload", 10 << 20),
        ("max_pending: 2mb", "max_pending", 2 << 20),
        ("max_control_line: 8k", "max_control_line", 8000),
        ("max_conn: 5", "max_connections", 5),
        ("max_connections: 0", "max_connections", -1),
        ("max_connections: -7", "max_connections", -1),
        ("max_subs: 5", "max_subscriptions", 5),
        ("max_subscriptions: -1", "max_subscriptions", 0),
        ("max_sub_tokens: 8", "max_sub_tokens", 8),
        ("ping_interval: '1m30s'", "ping_interval", 90.0),
        ("ping_interval: '0s'", "ping_interval", limits.PING_INTERVAL),
        ("ping_interval: 300ms", "ping_interval", 0.3),
        ("ping_max: 5", "ping_max", 5),
        ("write_deadline: '2s'", "write_deadline", 2.0),
        ("no_header_support: true", "no_header_support", True),
        ("no_fast_producer_stall: true", "no_fast_producer_stall", True),
        ("server_metadata { zone: a, rack: '7' }", "server_metadata", {"zone": "a", "rack": "7"}),
        ("connect_error_reports: 5", "connect_error_reports", 5),
        ("reconnect_error_reports: 7", "reconnect_error_reports", 7),
        ("always_enable_nonce: yes", "always_enable_nonce", True),
        ("allow_non_tls: true", "allow_non_tls", True),
        ("lame_duck_duration: '1m'", "lame_duck_duration", 60.0),
        ("lame_duck_grace_period: '1s'", "lame_duck_grace_period", 1.0),
        ("ports_file_dir: d", "ports_file_dir", "d"),
        ("pidfile: p", "pid_file", "p"),
        ("logfile: l", "log_file", "l"),
        ("logfile_size_limit: 10mb", "log_size_limit", 10 << 20),
        ("logtime: false", "logtime", False),
        ("logtime_utc: true", "logtime_utc", True),
        ("debug: true", "debug", True),
        ("trace: true", "trace", True),
        ("trace_verbose: true", "trace", True),
        ("trace: true\ntrace_verbose: false", "trace", True),
        ("max_traced_msg_len: 9", "max_traced_msg_len", 9),
        ("MAX_Traced_Msg_Len: 9", "max_traced_msg_len", 9),
    ],
)
def test_load_of_one_key_sets_its_option(text: str, option: str, value: object) -> None:
    found = getattr(load(text), option)
    assert found == value
    assert type(found) is type(value)


def test_load_warns_of_numbers_where_durations_belong() -> None:
    options = load("ping_interval: 20\nwrite_deadline: 2m")
    assert (options.ping_interval, options.write_deadline) == (20.0, 2e6)
    assert options.warnings == (
        '<text>:1:1: invalid use of field "ping_interval": ping_interval should be converted to a duration',
        '<text>:2:1: invalid use of field "write_deadline": write_deadline should be converted to a duration'
        " (2m without quotes is 2000000 seconds)",
    )


def test_load_reports_mistakes_of_all_kinds_at_once() -> None:
    found = complaints(
        "port: x\nmax_paylod: 1\nmqtt: 1\nlame_duck_grace_period: '5m'\nserver_name: 'a b'\nhost: 12-3\n"
        "authorization { users: [{user: a, permissions: {publish: '..'}}, {usr: b}] }\ndebug: true"
    )
    assert [text.split(": ")[0].removeprefix("<text>:") for text in found] == [
        *("1:7", "2:1", "3:7", "4:1", "5:1", "6:7", "7:58", "7:67"),
    ]


def test_load_does_not_draw_conclusions_from_what_it_could_not_read() -> None:
    assert len(complaints("max_payload: x\nmax_pending: 1kb")) == 1
    assert len(complaints("lame_duck_grace_period: 5x\nlame_duck_duration: '10s'")) == 2
    assert len(complaints("no_auth_user: a\nauthorization { users: [{usr: a}] }")) == 1
    assert len(complaints("no_auth_user: a\nauthorization { users: $NOPE }")) == 1


def test_load_of_text_with_broken_structure_reports_only_that() -> None:
    assert complaints("authorization {\n user: a\nport: 4222\n") == ["<text>:1:15: '{' is never closed"]


def test_unknown_key_used_as_variable_is_no_mistake() -> None:
    assert load("my_port: 5\nport: $my_port\nauthorization { U: a, user: $U }").port == 5


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("prot", '(did you mean "port"?)'),
        ("max-payload", '(did you mean "max_payload"?)'),
        ("Authorisation", '(did you mean "authorization"?)'),
        ("clusters", '(did you mean "cluster"?)'),
        ("something_else_entirely", ""),
        ("p" * 5000, ""),
    ],
)
def test_unknown_key_gets_a_suggestion(key: str, hint: str) -> None:
    (text,) = complaints(f"{key}: 1")
    assert 'unknown field "' in text
    assert text.endswith(hint)


@pytest.mark.parametrize(
    "text",
    [
        "ocsp: FALSE",
        "ocsp { Mode: NEVER, url: x }",
        "prof_port: 0",
        "no_sublist_cache: false",
    ],
)
def test_unsupported_key_that_asks_for_nothing_is_accepted(text: str) -> None:
    assert load(text) == msgspec.structs.replace(Options(), config_digest=load(text).config_digest)


@pytest.mark.parametrize("text", ["ocsp: 0", "ocsp: []", "ocsp {}", "ocsp { mode: [never] }"])
def test_unsupported_key_with_odd_value_is_refused(text: str) -> None:
    assert "is not supported by this version of Headrace yet" in complaints(text)[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ocsp: true", "cannot staple an OCSP response"),
        ("ocsp { mode: always, url: 'http://127.0.0.1:1' }", "cannot staple an OCSP response"),
        ("ocsp { mode: must }", "cannot staple an OCSP response"),
    ],
)
def test_ocsp_is_refused_with_the_reason_and_what_to_do(text: str, reason: str) -> None:
    (found,) = complaints(text)
    assert "is not supported by this version of Headrace yet" in found
    assert reason in found
    assert "remove it" in found


# --- overrides ---


def test_override_wins_over_the_file() -> None:
    options = load("port: 1; debug: true; host: h; http: 'x:1'", port=2, debug=False, http_port=3)
    assert (options.port, options.debug, options.host) == (2, False, "h")
    assert (options.http_host, options.http_port) == ("x", 3)


def test_override_of_zero_or_nothing_gives_the_default() -> None:
    options = load("port: 1; host: h; http: 2", port=0, host="", http_port=0)
    assert (options.port, options.host, options.http_port) == (4222, "0.0.0.0", None)


def test_override_of_none_leaves_the_file_alone() -> None:
    assert load("port: 1", port=None).port == 1


def test_override_that_does_not_exist_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="unknown option: config_file, prot"):
        load_options(overrides={"prot": 1, "config_file": "x"})


def test_override_is_checked_like_the_file() -> None:
    assert complaints("", port=70000) == ["port must lie between -1 and 65535"]
    assert complaints("max_pending: 1mb", max_payload=2 << 20) == [
        "<text>:1:1: max_payload (2097152) cannot be higher than max_pending (1048576)"
    ]
    assert complaints("", server_name="a b") == ["server name cannot contain spaces"]


def test_override_may_shorten_lame_duck_mode_below_the_minimum() -> None:
    options = load("", lame_duck_duration=0.2, lame_duck_grace_period=0.1)
    assert options.lame_duck_duration == 0.2


@pytest.mark.parametrize("text", ["", "authorization {user: x, password: y}", "authorization {token: t}"])
def test_override_of_user_replaces_simple_credentials(text: str) -> None:
    authorization = load(text, user="a", password="b").authorization
    assert authorization.users == (UserOptions(user="a", password="b"),)
    assert authorization.token is None


@pytest.mark.parametrize("text", ["", "authorization {user: x, password: y}", "authorization {token: t}"])
def test_override_of_token_replaces_simple_credentials(text: str) -> None:
    authorization = load(text, token="s").authorization
    assert (authorization.token, authorization.users) == ("s", ())


def test_override_of_password_keeps_the_user_of_the_file() -> None:
    authorization = load("authorization {user: x, password: y, timeout: 3}", password="z").authorization
    assert authorization.users == (UserOptions(user="x", password="z"),)
    assert authorization.timeout == 3.0


def test_override_of_user_and_token_is_refused() -> None:
    assert complaints("", user="a", token="b") == ["a user and password cannot stand together with a token"]


def test_override_of_credentials_beside_listed_users_is_refused() -> None:
    (text,) = complaints("authorization {users: [{user: a}]}", user="b")
    assert "cannot replace a list of users" in text


def test_override_of_authorization_as_a_whole_is_taken() -> None:
    authorization = load("authorization {users: [{user: a}]}").authorization
    options = load("", authorization=authorization, no_auth_user="a")
    assert options.authorization == authorization


IDLE = {
    "disable_sublist_cache: true": "disable_sublist_cache",
    "no_sublist_cache: true": "no_sublist_cache",
    "prof_port: 6060": "prof_port",
    "prof_block_rate: 1": "prof_block_rate",
    "feature_flags { js_ack_fc_v2: true, js_api_reply_v2: false }": 'feature flag "js_ack_fc_v2"',
    "jetstream { max_buffered_msgs: 10 }": "max_buffered_msgs",
    "jetstream { max_buffered_size: 10MB }": "max_buffered_size",
    "jetstream { info_queue_limit: 5 }": "info_queue_limit",
    "jetstream { max_concurrent_io: 5 }": "max_concurrent_io",
    "jetstream { extension_hint: no_extend }": "extension_hint",
    "jetstream { max_outstanding_catchup: 1MB }": "max_outstanding_catchup",
    "jetstream { meta_compact: 5 }": "meta_compact",
    "jetstream { meta_compact_size: 5 }": "meta_compact_size",
    "jetstream { meta_compact_sync: true }": "meta_compact_sync",
    "jetstream { unique_tag: az }": "unique_tag",
    "jetstream { limits { max_ha_assets: 5 } }": "max_ha_assets",
    "accounts { A { jetstream { cluster_traffic: owner } } }": "cluster_traffic",
}


@pytest.mark.parametrize("text", IDLE)
def test_key_without_effect_says_so_in_one_line_and_is_no_mistake(text: str) -> None:
    options = load(text)
    (remark,) = options.remarks
    assert f"{IDLE[text]} has no effect" in remark
    assert remark.startswith("<text>:1:")
    assert options.warnings == ()


@pytest.mark.parametrize("text", ["connect_error_reports: 0", "reconnect_error_reports: -1"])
def test_reports_are_at_least_one(text: str) -> None:
    assert f"{text.partition(':')[0]} must lie between 1 and" in complaints(text)[0]


DOMAINS = "accounts { A {}, B { jetstream: enabled }, S {} }\nsystem_account: S\n"


def test_default_domain_is_mappings_of_the_account() -> None:
    accounts = {account.name: account for account in load(DOMAINS + "default_js_domain { A: hub }").accounts}
    mapped = {each.source: each.destination for each in accounts["A"].mappings}
    assert mapped["$JS.API.STREAM.>"] == "$JS.hub.API.STREAM.>"
    assert mapped["$JS.API.INFO"] == "$JS.hub.API.INFO"
    assert mapped["$KV.>"] == "$JS.hub.API.$KV.>"
    assert accounts["B"].mappings == ()


def test_default_domain_of_the_global_account_is_its_mappings() -> None:
    assert "$JS.API.INFO" in {each.source for each in load("default_js_domain { $G: hub }").mappings}
    options = load("jetstream: enabled\ndefault_js_domain { $G: hub }")
    assert options.mappings == ()
    assert "has no effect" in options.remarks[0]


def test_an_empty_default_domain_is_about_leaf_nodes() -> None:
    options = load(DOMAINS + "default_js_domain { A: '', B: '' }\nleafnodes { port: -1 }")
    assert options.leafnodes is not None
    assert options.leafnodes.open_api == {"A", "B"}
    assert (options.remarks, options.accounts[0].mappings) == ((), ())


def test_an_empty_default_domain_without_leaf_nodes_is_told() -> None:
    (remark,) = load(DOMAINS + "default_js_domain { A: '' }").remarks
    assert 'default_js_domain of "A" has no effect: an empty domain is about leaf nodes' in remark


def test_no_default_domains_at_all_say_nothing() -> None:
    assert load("default_js_domain {}").remarks == ()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("S: ''", 'system account "S" can not be in default_js_domain'),
        ("X: ''", 'references non existing account "X"'),
        ("X: hub", 'references non existing account "X"'),
        ("S: hub", 'system account "S" can not be in default_js_domain'),
        ("B: hub", 'contains account name "B" with enabled JetStream'),
        ("A: 'a b'", 'contains account "A" with invalid domain name "a b"'),
    ],
)
def test_default_domain_that_cannot_be_is_refused_as_by_nats_server(given: str, problem: str) -> None:
    assert problem in complaints(DOMAINS + f"default_js_domain {{ {given} }}")[0]
