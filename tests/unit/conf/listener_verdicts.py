"""Configuration texts about listeners (TLS, WebSocket, PROXY protocol) with both verdicts on each."""

from __future__ import annotations

from typing import Final

from conf_verdicts import Case, Verdict, cases

DIGEST: Final = "0123456789abcdefABCDEF" + "0" * 42
USERS: Final = "authorization { users: [{user: a, password: b}] }\n"


def ws(rest: str = "") -> str:
    return f"websocket {{ port: -1, no_tls: true, {rest} }}"


def here(rest: str = "") -> str:
    return f'websocket {{ listen: "127.0.0.1:-1", no_tls: true, {rest} }}'


LISTENER_CASES: Final[list[Case]] = [
    *cases(
        Verdict.ACCEPT,
        websocket=ws(),
        websocket_listen='ws { listen: "127.0.0.1:-1", no_tls: true }',
        websocket_listen_port="websocket { listen: 8080, no_tls: true }",
        websocket_other_names=ws(
            'net: "127.0.0.1", origin: "http://a", compress: true,'
            " authentication { username: a, pass: b, timeout: 1.5 }"
        ),
        websocket_origins=ws('allowed_origins: ["http://a", "https://b.c:8443/"]'),
        websocket_same_origin=ws("same_origin: true"),
        websocket_token=ws("authorization { token: y }"),
        websocket_token_beside_user="authorization { user: a, password: b }\n"
        + ws("authorization { token: y }"),
        websocket_guest=USERS + ws("no_auth_user: a"),
        websocket_cookies=ws("user_cookie: c, pass_cookie: d, token_cookie: e"),
        websocket_handshake_timeout=ws("handshake_timeout: '5s'"),
        websocket_timeout_number=ws("handshake_timeout: 5"),
        websocket_headers=ws('headers { "X-A": "b c", Strict-Transport-Security: "max-age=1" }'),
        websocket_ping_interval=ws("ping_interval: '1s'"),
        websocket_advertise=ws('advertise: "a.example:443"'),
        websocket_empty_values=ws('no_auth_user: "", advertise: "", authorization { user: "" }'),
        proxy_protocol="proxy_protocol: true",
    ),
    *cases(
        Verdict.REJECT,
        websocket_not_a_map=("websocket: 8080", "must be a map"),
        websocket_unknown=(ws("compresion: true"), 'unknown field "compresion" (did you mean'),
        websocket_port_text=('websocket { port: "8080", no_tls: true }', "must be an integer"),
        websocket_listen_bad=("websocket { listen: x, no_tls: true }", "could not parse address"),
        websocket_compression_number=(ws("compression: 1"), "must be true or false"),
        websocket_timeout_unit=(ws("handshake_timeout: '5'"), "its unit is missing"),
        websocket_timeout_fraction=(ws("handshake_timeout: 1.5"), "a duration"),
        websocket_timeout_flag=(ws("handshake_timeout: true"), "a duration"),
        websocket_origins_number=(ws("allowed_origins: 1"), "a string or a list of strings"),
        websocket_headers_list=(ws("headers: []"), "must be a map"),
        websocket_header_number=(ws("headers { X: 1 }"), 'header "X" must be a string'),
        websocket_users=(ws("authorization { users: [] }"), 'unknown field "users"'),
        websocket_tls_pinned=(
            "websocket { port: -1, tls { cert_file: a, key_file: b, pinned_certs: [zz] } }",
            "does not look like",
        ),
        proxy_protocol_number=("proxy_protocol: 1", "must be true or false"),
        tls_cipher_unknown=("tls { cipher_suites: [NOPE] }", 'unrecognized cipher "NOPE" (known are TLS_'),
        tls_ciphers_empty=("tls { cipher_suites: [] }", "'cipher_suites' cannot be empty"),
        tls_ciphers_text=("tls { cipher_suites: TLS_AES_128_GCM_SHA256 }", "must be a list"),
        tls_cipher_insecure=(
            "tls { cert_file: a, key_file: b, cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA] }",
            "without 'allow_insecure_cipher_suites' option set: TLS_RSA_WITH_AES_128_CBC_SHA",
        ),
        tls_curve_unknown=(
            "tls { curve_preferences: [X25519, NOPE] }",
            'unrecognized curve preference "NOPE" (known are X25519MLKEM768',
        ),
        tls_curve_case=("tls { curve_preferences: [x25519] }", "unrecognized curve preference"),
        tls_curves_empty=("tls { curve_preferences: [] }", "'curve_preferences' cannot be empty"),
        tls_pinned_short=("tls { pinned_certs: [abc] }", "does not look like hex-encoded sha256"),
        tls_pinned_text=("tls { pinned_certs: abc }", "must be a list"),
        tls_ocsp_peer_number=("tls { ocsp_peer: 1 }", 'field "ocsp_peer" must be a map'),
        tls_ocsp_peer_text=("tls { ocsp_peer { verify: 'true' } }", 'field "verify" must be true or false'),
        tls_ocsp_peer_time=("tls { ocsp_peer { ca_timeout: x } }", "not a duration"),
        tls_ocsp_peer_unknown=("tls { ocsp_peer { foo: 1 } }", 'unknown field "foo"'),
        ocsp_cache_number=("ocsp_cache: 1", 'field "ocsp_cache" must be a map'),
        ocsp_cache_type=("ocsp_cache { type: x }", 'unknown type "x"'),
        ocsp_cache_unknown=("ocsp_cache { foo: 1 }", 'unknown field "foo"'),
        tls_rate_text=("tls { connection_rate_limit: '5' }", "must be an integer"),
        tls_map_number=("tls { verify_and_map: 1 }", "must be true or false"),
        tls_known_urls=(
            "tls { cert_file: a, key_file: b, verify_cert_and_check_known_urls: true }",
            "verify_cert_and_check_known_urls not supported in this context",
        ),
        tls_certs_text=("tls { certs: a }", "must be a list"),
        tls_certs_half=("tls { certs: [{cert_file: a}] }", "both cert_file and key_file"),
        tls_certs_unknown=("tls { certs: [{cert_file: a, key_file: b, ca: c}] }", 'unknown field "ca"'),
        tls_certs_and_cert=(
            "tls { cert_file: a, key_file: b, certs: [{cert_file: a, key_file: b}] }",
            "cannot combine 'cert_file' option with 'certs' option",
        ),
        tls_certs_missing=("tls { certs: [{cert_file: a, key_file: b}] }", "open a: no such file"),
    ),
    *cases(
        Verdict.START,
        websocket_without_tls=("websocket { port: -1 }", "websocket requires TLS configuration"),
        websocket_origin_host=(ws("allowed_origins: [host]"), "unable to parse allowed origin"),
        websocket_origin_ftp=(ws('allowed_origins: ["ftp://h"]'), "http or https scheme"),
        websocket_origin_empty=(ws('allowed_origins: ["http://"]'), "host is required"),
        websocket_origin_ports=(ws('allowed_origins: ["http://h:1:2"]'), "unable to parse"),
        websocket_guest_unknown=(USERS + ws("no_auth_user: x"), '"x" is not among the users'),
        websocket_guest_of_nobody=(ws("no_auth_user: x"), "no list of users is"),
        websocket_user_beside_users=(
            USERS + ws("authorization { user: x, password: y }"),
            "websocket authentication username not compatible with presence of users/nkeys",
        ),
        websocket_token_beside_users=(
            USERS + ws("authorization { token: y }"),
            "websocket authentication token not compatible with presence of users/nkeys",
        ),
        websocket_token_beside_accounts=(
            "accounts { A { users: [{user: a, password: b}] } }\n" + ws("authorization { token: y }"),
            "websocket authentication token not compatible",
        ),
        websocket_jwt_cookie=(ws("jwt_cookie: c"), "required for JWT authentication via cookie"),
        websocket_header_host=(ws("headers { Host: x }"), 'invalid header "Host" not allowed'),
        websocket_header_own=(
            ws("headers { Sec-WebSocket-X: x }"),
            '"Sec-WebSocket-" prefix not allowed',
        ),
    ),
    *cases(
        Verdict.STRICTER,
        websocket_port_large=("websocket { port: 99999, no_tls: true }", "must lie between"),
        websocket_tls_empty=("websocket { port: -1, tls {} }", "missing cert_file and key_file"),
        websocket_header_split=(ws('headers { "X-A": "b\\r\\nfoo: c" }'), "cannot stand in an HTTP response"),
        websocket_header_name=(ws('headers { "X A": "b" }'), "cannot stand in an HTTP response"),
        websocket_timeout_negative=(ws("handshake_timeout: '-5s'"), "cannot be negative"),
        websocket_two_kinds=(ws("authorization { user: u, token: y }"), "cannot stand together"),
        websocket_password_alone=(ws("authorization { password: p }"), "a password needs a user"),
        websocket_advertise_bad=(ws('advertise: "a:b"'), "could not parse port"),
        tls_certs_empty=("tls { certs: [] }", "missing cert_file and key_file"),
    ),
    *cases(
        Verdict.LENIENT,
        console=here("console: true"),
        console_off=ws("console: false"),
        console_block=here(
            'console { path: "/look/", read_only: true, hide: [map, server], system: true, '
            'idle_lock: "5m", hosts: ["a.example"], pipelines: "ops.pipelines" }'
        ),
        console_insecure=ws("console { insecure: true }"),
        console_beside="console { read_only: true }\n" + here(),
        console_beside_off="console: false",
    ),
    *cases(
        Verdict.REJECT,
        console_not_on_loopback=(ws("console: true"), "console without TLS needs a loopback address"),
        console_alone=("console: true", "console needs a websocket block with a port"),
        console_twice=(
            "console: true\n" + here("console: true"),
            "console stands in websocket, and beside it",
        ),
        console_number=(here("console: 1"), 'field "console" must be a map'),
        console_unknown=(here("console { readonly: true }"), 'did you mean "read_only"?'),
        console_page=(here("console { hide: [wall] }"), 'hide: "wall" is no page (pages: overview, live'),
        console_subject=(here('console { pipelines: "a..b" }'), 'pipelines: "a..b" is no subject'),
        console_host=(here('console { hosts: "https://a" }'), 'hosts: "https://a" is no host name'),
        console_lock=(here('console { idle_lock: "-1s" }'), "idle_lock cannot be negative"),
        console_root=(here('console { path: "/" }'), "the path of console must be one of its own"),
        console_path=(here('console { path: "/a b" }'), "the path of console must be one of its own"),
        console_of_leafs=(
            here('console { path: "/a/leafnode" }'),
            "the path of console must be one of its own",
        ),
    ),
    *cases(
        Verdict.UNSUPPORTED,
        tls_cert_match="tls { cert_match: x }",
        tls_ca_certs_match="tls { ca_certs_match: x }",
    ),
]
