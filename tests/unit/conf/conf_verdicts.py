"""Configuration texts with the verdict of Headrace and of the Go server on each.

One table, run twice: through `load_options`, and through a real nats-server where one is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What becomes of a configuration: first word ours, second the Go server's where they differ."""

    ACCEPT = "both accept it"
    WARN = "both accept it with a warning, which makes -t fail"
    REJECT = "both refuse it"
    START = "both refuse it, the Go server only when it starts, not with -t"
    UNSUPPORTED = "the Go server accepts it, this version says that it is not supported yet"
    STRICTER = "the Go server accepts it; we refuse it"
    LENIENT = "the Go server refuses it; we accept it"


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    verdict: Verdict
    complaint: str = ""
    """Part of what we say about it."""


def cases(verdict: Verdict, **texts: str | tuple[str, str]) -> list[Case]:
    """A row of the table for each; a second text is part of what we say about it."""
    return [
        Case(name, *((text, verdict) if isinstance(text, str) else (text[0], verdict, text[1])))
        for name, text in texts.items()
    ]


NKEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

SYNTAX = [
    *cases(
        Verdict.ACCEPT,
        colon="port: 4222",
        equals="port = 4222",
        space="port 4222",
        no_space="port:4222",
        semicolons="port: 4222; debug: true;",
        commas="port: 4222, debug: true",
        key_case="PORT: 4222\nDebug: true",
        quoted_keys="\"port\": 4222\n'debug': false",
        comments="# one\n// two\nport: 4222 # three\ndebug: no // four",
        crlf="port: 4222\r\ndebug: true\r\n",
        braces="{\n  port: 4222\n}\n",
        json='{"port": 4222, "authorization": {"users": [{"user": "a", "password": "b"}]}}',
        block_string="log_file: (\nany (text) here\n)\ndebug: true",
        truth_words="debug: YES\ntrace: off\nlogtime: On",
        map_without_separator="authorization {\n user: a\n password: b\n}",
        map_with_colon="authorization: {user: a, password: b}",
        map_with_equals="authorization = {\n user = a; password = b\n}",
        value_on_next_line_in_map="authorization {\n user:\n a\n}",
        list_by_commas="server_tags: [a, b]",
        list_by_lines="server_tags: [\n a\n b\n]",
        list_mixed="server_tags: [a, b\n c,\n]",
        size_suffix="max_payload: 512KB\nmax_pending: 10mb",
        variable="NAME: x\nserver_name: $NAME",
        variable_from_outer_block="U: me\nauthorization { user: $U, password: b }",
        variable_may_be_unknown_key="anything: {a: [1, 2.5]}\ndebug: $anything\ndebug: true",
        bcrypt_is_no_variable="authorization {user: a, password: $2a$11$abcdefghijklmnopqrstuv}",
        quoted_variable_is_text='authorization {user: a, password: "$NOT"}',
        address_is_string="host: 127.0.0.1",
        listen_unquoted="listen: 127.0.0.1:4222",
        key_written_twice="port: 1\nport: 4222",
        spaces_only_between="port\t \t4222",
        value_with_hash="server_name: a#b",
        value_with_slashes="client_advertise: nats//x",
    ),
    *cases(
        Verdict.REJECT,
        key_without_value=("port", "has no value"),
        value_on_next_line=("port:\n4222", "has no value"),
        unclosed_map=("authorization {\n user: a", "'{' is never closed"),
        unclosed_list=("server_tags: [a, b", "'[' is never closed"),
        unclosed_quote=('server_name: "x', "is never closed"),
        unclosed_block=("server_name: (\nx", "is never closed"),
        two_values_on_a_line=("port: 4222 debug: true", "expected a new line"),
        wrong_closer=("authorization { user: a ]", "closes nothing"),
        list_closed_by_brace=("authorization { users: [ }", "is not closed before this '}'"),
        separator_first=(": 4222", "a key is missing"),
        comma_twice_in_list=("server_tags: [a,,b]", "with no value before it"),
        semicolon_in_list=("server_tags: [a;b]", "separated by ','"),
        bad_escape=('server_name: "a\\d"', "unknown escape"),
        dashed_number=("server_name: 12-3", "a time must have the form"),
        duration_with_fraction=("ping_interval: 1.5s", "neither"),
        point_first=("write_deadline: .5", "must start with a digit"),
        minus_alone=("port: -", "a digit must follow"),
        integer_too_large=("max_pending: 9223372036854775808", "64 bits"),
        unknown_variable=("port: $NO_SUCH_VARIABLE_HERE", "is not defined"),
        variable_defined_later=("server_name: $n\nn: x", "is not defined"),
        missing_include=("include ./no_such_file_here.conf", "no such file"),
        include_of_number=("include 1.conf", "a file name must follow"),
        missing_space_before_brace=("authorization{\n user: a\n}", "a space is missing"),
        list_as_configuration=("[1]", "a key is missing"),
    ),
    *cases(
        Verdict.WARN,
        empty=("", "config has no values"),
        only_comments=("# nothing\n", "config has no values"),
    ),
    *cases(
        Verdict.STRICTER,
        stray_brace_in_the_middle=("debug: true }\ntrace: true", "closes nothing"),
        unclosed_top_level_brace=("{ port: 4222\n", "'{' is never closed"),
        quote_ends_bare_word=("server_name: x'", "expected a new line"),
        slash_after_value=("port: 4222 /", "expected a new line"),
    ),
    *cases(
        Verdict.LENIENT,
        integers_before_bracket="x: [1,2]\ndebug: $x\ndebug: true",
        separator_after_new_line="server_tags: [a\n, b]",
        json_value_on_next_line='{"port":\n4222}',
        json_escapes='server_name: "a\\u0041\\/"',
        bcrypt_of_other_tools="authorization {user: a, password: $2b$12$abcdefghijklmnopqrstuv}",
    ),
]

OPTIONS = [
    *cases(
        Verdict.ACCEPT,
        listen_port="listen: 4222",
        listen_random="listen: -1",
        listen_both='listen: "localhost:4222"',
        listen_host_left_out='listen: ":4222"',
        listen_v6='listen: "[::1]:4222"',
        host="host: localhost",
        net="net: localhost",
        port_zero="port: 0",
        http="http: 8222",
        http_both='http: "localhost:8222"',
        http_port="http_port: 8222",
        monitor_port="monitor_port: 8222",
        http_base_path="http_base_path: /nats",
        client_advertise='client_advertise: "example.org:4222"',
        server_name="server_name: x",
        server_tags='server_tags: "a"',
        max_payload="max_payload: 1024",
        max_payload_unlimited="max_payload: -1",
        max_control_line="max_control_line: 8k",
        max_conn="max_conn: 10",
        max_connections="max_connections: 0",
        max_subs="max_subs: 10",
        max_subscriptions="max_subscriptions: -1",
        max_sub_tokens="max_sub_tokens: 16",
        max_subscription_tokens="max_subscription_tokens: 255",
        ping="ping_interval: '2m', ping_max: 3",
        write_deadline='write_deadline: "300ms"',
        write_timeout="write_timeout: close",
        no_header_support="no_header_support: true",
        no_fast_producer_stall="no_fast_producer_stall: true",
        disable_sublist_cache="disable_sublist_cache: true",
        no_sublist_cache="no_sublist_cache: true",
        profiler="prof_port: 6060, prof_block_rate: 1",
        server_metadata="server_metadata { a: b }",
        feature_flags="feature_flags { js_ack_fc_v2: true, unheard_of: true }",
        error_reports="connect_error_reports: 5, reconnect_error_reports: 5",
        default_js_domain_empty="accounts { A {} }\ndefault_js_domain { A: '' }",
        default_js_domain_none="default_js_domain {}",
        default_js_domain="accounts { A { users: [{user: a, password: p}] } }\ndefault_js_domain { A: hub }",
        lame_duck='lame_duck_duration: "1m"\nlame_duck_grace_period: "1s"',
        files="ports_file_dir: /x\npid_file: p\nlog_file: l",
        files_by_other_names="pidfile: p\nlogfile: l\nlogfile_size_limit: 10mb",
        logging="log_size_limit: 0\nlogtime: false\nlogtime_utc: true\nmax_traced_msg_len: 10",
        tracing="trace: true\ntrace_verbose: true",
        trace_headers="trace_headers: true",
        log_files="log_size_limit: 1mb\nlog_max_num: 5",
        log_files_by_other_name="logfile_max_num: -1",
        max_closed_clients="max_closed_clients: 100",
        max_closed_clients_zero="max_closed_clients: 0",
        https_off="https_port: 0",
        allow_non_tls="allow_non_tls: true",
        ocsp_off="ocsp: false\nproxy_protocol: false",
        ocsp_cache="ocsp_cache { type: LOCAL, save_interval: '5m', local_store: x, preserve_revoked: true }",
        ocsp_cache_none="ocsp_cache { type: none, save_interval: 0 }",
        syslog="syslog: true",
        remote_syslog='remote_syslog: "udp://localhost:514"',
        remote_syslog_none="remote_syslog: ''",
    ),
    *cases(
        Verdict.REJECT,
        unknown_key=("prot: 4222", 'unknown field "prot" (did you mean "port"?)'),
        port_as_text=('port: "4222"', "must be an integer, not a string"),
        port_as_float=("port: 4222.0", "must be an integer"),
        host_as_number=("host: 1", "must be a string, not an integer"),
        flag_as_number=("debug: 1", "must be true or false"),
        flag_as_text=('debug: "true"', "must be true or false"),
        map_for_string=("host: {}", "must be a string, not a map"),
        list_for_integer=("port: [1]", "must be an integer, not a list"),
        listen_without_port=("listen: localhost", "could not parse address"),
        listen_bad_port=('listen: "localhost:x"', "could not parse port"),
        listen_bare_v6=('listen: "::1:4222"', "could not parse address"),
        listen_flag=("listen: true", "a port or a string"),
        server_name_with_space=('server_name: "a b"', "cannot contain spaces"),
        max_payload_too_big=("max_payload: 4g", "must lie between"),
        max_control_line_too_big=("max_control_line: 4g", "must lie between"),
        max_sub_tokens_too_big=("max_sub_tokens: 256", "must lie between"),
        max_sub_tokens_zero=("max_sub_tokens: 0", "must lie between"),
        bad_duration=('ping_interval: "2 minutes"', "is not a duration"),
        duration_without_unit=('write_deadline: "5"', "its unit is missing"),
        lame_duck_too_short=('lame_duck_duration: "10s"', "minimum is 30 seconds"),
        lame_duck_number=("lame_duck_duration: 60", "must be a duration as a string"),
        grace_negative=('lame_duck_grace_period: "-1s"', "cannot be negative"),
        write_timeout_unknown=("write_timeout: sometimes", "not supported"),
        tag_number=("server_tags: [1]", "must be a string"),
        trace_headers_number=("trace_headers: 1", "must be true or false"),
        max_closed_clients_text=('max_closed_clients: "x"', "must be an integer"),
        https_listen=('https: "a:b:c"', "could not parse address"),
        http_authorization_empty=("http_authorization {}", "needs a user and a password, or a token"),
        http_authorization_user=("http_authorization {user: a}", "needs a user and a password, or a token"),
        http_authorization_open=('http_authorization {user: a, password: ""}', "needs a user and a password"),
        http_authorization_both=("http_authorization {user: a, pass: b, token: c}", "together with a token"),
        http_authorization_map=("http_authorization: a", "must be a map"),
        http_authorization_users=("http_authorization {users: []}", 'unknown field "users"'),
        tls_not_a_map=("tls: true", "must be a map"),
        tls_unknown=("tls {certfile: x}", 'unknown field "certfile" (did you mean "cert_file"?)'),
        tls_without_key=("tls {cert_file: x}", "missing key_file"),
        tls_file_missing=("tls {cert_file: no_such_cert, key_file: no_such_key}", "no such file"),
        tls_version=('tls {min_version: "1.1"}', "not supported"),
        tls_handshake=("tls {handshake_first: maybe}", "is invalid"),
    ),
    *cases(
        Verdict.WARN,
        duration_in_seconds=("ping_interval: 2", "should be converted to a duration"),
        duration_in_millions=("write_deadline: 2m", "2m without quotes is 2000000 seconds"),
    ),
    *cases(
        Verdict.START,
        max_payload_over_pending=("max_payload: 10mb\nmax_pending: 1mb", "cannot be higher than max_pending"),
        max_pending_negative=("max_pending: -1", "must lie between"),
        grace_over_duration=('lame_duck_grace_period: "3m"', "(3m0s) should be strictly lower"),
        grace_equals_duration=(
            'lame_duck_duration: "30s"\nlame_duck_grace_period: "30s"',
            "should be strictly lower",
        ),
        http_port_too_big=("http_port: 99999", "must lie between"),
        https_port_too_big=("https_port: 99999", "must lie between"),
        https_without_tls=("https_port: 8223", "TLS cert and key required for HTTPS"),
        https_listen_without_tls=('https: "127.0.0.1:8223"', "TLS cert and key required for HTTPS"),
        http_and_https=(
            "http_port: 8222\nhttps_port: 8223",
            "can't specify both HTTP (8222) and HTTPs (8223) ports",
        ),
        advertise_of_two_ports=('client_advertise: "a:b:c"', "could not parse address"),
    ),
    *cases(
        Verdict.STRICTER,
        port_too_big=("port: 70000", "must lie between"),
        resolver_alone=("resolver: MEMORY", "resolver needs an operator or trusted_keys"),
        tls_empty=("tls {}", "missing cert_file and key_file"),
        max_closed_clients_negative=("max_closed_clients: -1", "must lie between"),
        remote_syslog_scheme=('remote_syslog: "http://localhost"', "is no address of a syslog"),
        remote_syslog_bare=('remote_syslog: "localhost:514"', "is no address of a syslog"),
        ping_max_negative=("ping_max: -1", "must lie between"),
        ping_interval_negative=('ping_interval: "-1s"', "cannot be negative"),
        control_line_negative=("max_control_line: -1", "must lie between"),
    ),
    *cases(
        Verdict.LENIENT,
        always_enable_nonce="always_enable_nonce: true",
        http_authorization="http_authorization {user: a, password: b}",
        http_authorization_token="http_authorization {token: a}",
    ),
    *cases(
        Verdict.UNSUPPORTED,
        write_timeout_retry="write_timeout: retry",
    ),
]

AUTHORIZATION = [
    *cases(
        Verdict.ACCEPT,
        token="authorization { token: secret, timeout: 1 }",
        timeout_text='authorization { token: secret, timeout: "1500ms" }',
        timeout_fraction="authorization { token: secret, timeout: 0.5 }",
        single_user="authorization { username: a, pass: b }",
        single_user_without_password="authorization { user: a }",
        users="authorization { users: [{user: a, password: b}, {username: c, pass: d}] }",
        users_empty="authorization { users: [] }",
        nkey=f"authorization {{ users: [{{nkey: {NKEY}}}] }}",
        no_auth_user="authorization { users: [{user: a, password: b}] }\nno_auth_user: a",
        no_auth_user_before="no_auth_user: a\nauthorization { users: [{user: a, password: b}] }",
        permission_forms=(
            "authorization { users: [{user: a, permissions: {"
            ' publish: "foo.>", subscribe: [a, "b.*"] }},'
            " {user: b, permission: { pub: {allow: a, deny: [b, c]}, sub: {deny: d} }},"
            " {user: c, authorization: { import: a, export: b }}] }"
        ),
        permission_queue='authorization { users: [{user: a, permissions: {sub: ["foo q", "bar *.q"]}}] }',
        permissions_empty="authorization { users: [{user: a, permissions: {publish: {}, subscribe: []}}] }",
        default_permissions=(
            "authorization { default_permissions: {publish: a}, users: [{user: a}, {user: b}] }"
        ),
        responses_flag="authorization { users: [{user: a, permissions: {allow_responses: true}}] }",
        responses_map=(
            'authorization { users: [{user: a, permissions: {allow_responses: {max: 5, expires: "1m"}}}] }'
        ),
        responses_other_names=(
            "authorization { users: [{user: a, permissions: {"
            'publish_allow_responses: {max_msgs: -1, ttl: "-1s"}}}] }'
        ),
    ),
    *cases(
        Verdict.REJECT,
        token_number=("authorization { token: 12345 }", "must be a string, not an integer"),
        unknown_field=("authorization { usr: a }", 'unknown field "usr" (did you mean "user"?)'),
        not_a_map=("authorization: a", "must be a map"),
        user_and_token=("authorization { user: a, token: b }", "cannot stand together with a token"),
        users_and_token=("authorization { users: [], token: b }", "together with a list of users"),
        users_and_user=("authorization { users: [], user: b }", "together with a list of users"),
        users_not_a_list=("authorization { users: {user: a} }", "must be a list"),
        users_of_texts=("authorization { users: [a] }", "must be a map"),
        user_without_name=("authorization { users: [{password: a}] }", "needs a name or an nkey"),
        user_unknown_field=("authorization { users: [{usr: a}] }", 'unknown field "usr"'),
        duplicate_user=("authorization { users: [{user: a}, {user: a}] }", 'duplicate user "a"'),
        duplicate_nkey=(
            f"authorization {{ users: [{{nkey: {NKEY}}}, {{nkey: {NKEY}}}] }}",
            "duplicate nkey",
        ),
        nkey_with_password=(
            f"authorization {{ users: [{{nkey: {NKEY}, password: x}}] }}",
            "takes no user name",
        ),
        nkey_wrong=("authorization { users: [{nkey: UAAA}] }", "not a valid public nkey"),
        timeout_word=("authorization { token: a, timeout: soon }", "is not a duration"),
        permission_bad_subject=(
            "authorization { users: [{user: a, permissions: {publish: 'a..b'}}] }",
            '"a..b" is not a valid subject',
        ),
        permission_queue_for_publish=(
            "authorization { users: [{user: a, permissions: {publish: 'a q'}}] }",
            '"a q" is not a valid subject',
        ),
        permission_three_words=(
            "authorization { users: [{user: a, permissions: {subscribe: 'a b c'}}] }",
            "is not a valid subject",
        ),
        permission_number=(
            "authorization { users: [{user: a, permissions: {publish: {allow: 1}}}] }",
            "a subject must be a string",
        ),
        permission_unknown=(
            "authorization { users: [{user: a, permissions: {publsh: a}}] }",
            'unknown field "publsh" (did you mean "publish"?)',
        ),
        permission_list=("authorization { users: [{user: a, permissions: []}] }", "must be a map"),
        responses_text=(
            "authorization { users: [{user: a, permissions: {allow_responses: some}}] }",
            "must be true, false or a map",
        ),
        responses_seconds=(
            "authorization { users: [{user: a, permissions: {allow_responses: {expires: 60}}}] }",
            "must be a duration as a string",
        ),
    ),
    *cases(
        Verdict.WARN,
        timeout_high=("authorization { token: a, timeout: 1m }", "is high"),
    ),
    *cases(
        Verdict.START,
        no_auth_user_without_users=("no_auth_user: a", "no list of users is"),
        no_auth_user_of_single=(
            "authorization { user: a, password: b }\nno_auth_user: a",
            "no list of users is",
        ),
        no_auth_user_unknown=(
            "authorization { users: [{user: a}] }\nno_auth_user: b",
            '"b" is not among the users',
        ),
    ),
    *cases(
        Verdict.STRICTER,
        password_alone=("authorization { password: a }", "a password needs a user"),
    ),
    *cases(
        Verdict.ACCEPT,
        connection_types="authorization { users: [{user: a, allowed_connection_types: [STANDARD, mqtt]}] }",
        connection_types_none="authorization { users: [{user: a, connection_types: []}] }",
        trusted_keys_none="trusted_keys: []",
        proxies_none="proxies { trusted: [] }",
        proxies_empty="proxies {}",
        proxy_required="authorization { proxy_required: true, users: [{user: a, proxy_required: true}] }",
        proxy_key="proxies { trusted: [{key: UDVEU3DD4KOFECV66VIHWEZOYX4ZKR3WV27L464SIIPOU2IUI3JCYSJF}] }",
    ),
    *cases(
        Verdict.REJECT,
        proxies_of_another_type=("proxies: 1", "map"),
        proxies_trusted_of_another_type=("proxies { trusted: 1 }", "list"),
        proxy_of_another_type=("proxies { trusted: [a] }", "each of the trusted proxies"),
        proxy_key_bad=("proxies { trusted: [{key: NABC}] }", "invalid proxy key"),
        connection_type_unknown=(
            "authorization { users: [{user: a, allowed_connection_types: [STANDARD, TELEX]}] }",
            'invalid connection types ["TELEX"]',
        ),
    ),
]

MAPPINGS = [
    *cases(
        Verdict.ACCEPT,
        mapping="mappings { a: b }",
        maps="maps { a: b }",
        mapping_wildcard='mappings { "a.*": "b.$1" }',
        mapping_function='mappings { "a.*": "b.{{wildcard(1)}}.{{ Partition( 3, 1) }}" }',
        mapping_tail='mappings { "a.>": "b.>" }',
        mapping_weights='mappings { a: [{destination: b, weight: 50}, {dest: c, weight: "30%"}] }',
        mapping_single_weight="mappings { a: {destination: b, weight: 10%} }",
        mapping_empty_list="mappings { a: [] }",
        mapping_cluster="mappings { a: [{destination: b, weight: 50, cluster: x}] }",
        mapping_cluster_alone="mappings { a: {destination: b, weight: 50, cluster: x} }",
        mapping_cluster_empty='mappings { a: [{destination: b, weight: 50, cluster: ""}] }',
        mapping_cluster_space='mappings { a: [{destination: b, weight: 50, cluster: "x y"}] }',
        mapping_cluster_sums="""mappings { a: [
            {dest: b, weight: 60, cluster: x}, {dest: c, weight: 50, cluster: y}, {dest: d, weight: 90}
        ] }""",
        mapping_plain_token='mappings { "a.*": "b.x{{wildcard(1)}}" }',
    ),
    *cases(
        Verdict.REJECT,
        mapping_not_a_map=("mappings: a", "must be a map"),
        mapping_bad_source=('mappings { "a..b": c }', "is not a valid subject"),
        mapping_space=('mappings { a: "b c" }', "not a valid subject"),
        mapping_wildcard_in_destination=('mappings { "a.*": "b.*" }', "use $1"),
        mapping_tail_left_out=('mappings { "a.>": b }', "end with '>'"),
        mapping_index=('mappings { "a.*": "b.$2" }', "index out of range"),
        mapping_index_literal=('mappings { a: "b.$1" }', "index out of range"),
        mapping_unknown_function=('mappings { "a.*": "b.{{foo(1)}}" }', "unknown function"),
        mapping_arguments=('mappings { "a.*": "b.{{split(1)}}" }', "needs 2 arguments"),
        mapping_bad_argument=('mappings { "a.*": "b.{{left(1,x)}}" }', "bad argument"),
        mapping_weight_missing=("mappings { a: [{destination: b}] }", "a weight is missing"),
        mapping_weight_over=("mappings { a: [{destination: b, weight: 101}] }", "between 0 and 100"),
        mapping_weight_negative=("mappings { a: [{destination: b, weight: -1}] }", "between 0 and 100"),
        mapping_weight_word=("mappings { a: {destination: b, weight: x} }", "must be a percentage"),
        mapping_weight_sum=(
            "mappings { a: [{destination: b, weight: 60}, {destination: c, weight: 50}] }",
            "add up to more than 100",
        ),
        mapping_cluster_sum=(
            "mappings { a: [{dest: b, weight: 60, cluster: x}, {dest: c, weight: 50, cluster: x}] }",
            'the weights for "a" in cluster "x" add up to more than 100',
        ),
        mapping_cluster_empty_sum=(
            'mappings { a: [{dest: b, weight: 60}, {dest: c, weight: 50, cluster: ""}] }',
            "add up to more than 100",
        ),
        mapping_cluster_number=("mappings { a: [{dest: b, weight: 60, cluster: 5}] }", "must be a string"),
        mapping_cluster_duplicate=(
            "mappings { a: [{dest: b, weight: 50, cluster: x}, {dest: b, weight: 50, cluster: y}] }",
            'duplicate destination "b"',
        ),
        mapping_duplicate=(
            "mappings { a: [{destination: b, weight: 50}, {destination: b, weight: 50}] }",
            'duplicate destination "b"',
        ),
        mapping_number=("mappings { a: 5 }", "a subject, a map or a list"),
        mapping_unknown_field=(
            "mappings { a: [{destination: b, weight: 50, foo: x}] }",
            'unknown field "foo"',
        ),
    ),
    *cases(
        Verdict.STRICTER,
        mapping_empty_destination=('mappings { a: "" }', "not a valid subject"),
        mapping_index_zero=('mappings { "a.*": "b.$0" }', "index out of range"),
    ),
]

CASES = [*SYNTAX, *OPTIONS, *AUTHORIZATION, *MAPPINGS]
