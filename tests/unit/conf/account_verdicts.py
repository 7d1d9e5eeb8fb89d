"""Configurations of accounts with the verdict of Headrace and of the Go server on each."""

from __future__ import annotations

from conf_verdicts import NKEY, Verdict, cases

ACCOUNT_NKEY = "AC5A6YWZCWQVE3YFYDWPUBCSQWJBJKVNPYWKEQ63KGEJW2E4S6PGGCTK"

EXPORTER = 'A {exports: [{service: "s.>"}, {stream: "t.*.*"}, {service: one, accounts: [B]}]}'


def importing(imports: str, exporter: str = EXPORTER) -> str:
    return f"accounts {{ {exporter}, B {{imports: [{imports}]}} }}"


def exporting(exports: str) -> str:
    return f"accounts {{ A {{exports: [{exports}]}}, B {{}} }}"


BLOCK = [
    *cases(
        Verdict.ACCEPT,
        accounts="accounts { A { users: [{user: a, password: b}] } }",
        accounts_names="accounts: [A, B]",
        accounts_one_name="accounts: A",
        accounts_empty="accounts {}",
        account_empty="accounts { A {} }",
        account_users_forms=f"accounts {{ A {{ users: [{{nkey: {NKEY}}}, {{username: c, pass: d}}] }} }}",
        account_default_permissions="accounts { A { default_permissions: {publish: a} } }",
        account_mappings='accounts { A { mappings: {"a.*": "b.$1"} } }',
        account_limits="accounts { A { limits { max_conn: 1, max_subs: 2, max_payload: 3 } } }",
        account_limits_unlimited="accounts { A { limits { max_connections: -1 } } }",
        account_jetstream_off="accounts { A { jetstream: false } }",
        account_and_authorization=(
            "accounts { A { users: [{user: a, password: b}] } }\n"
            "authorization { users: [{user: c, password: d}] }"
        ),
        account_no_auth_user="accounts { A { users: [{user: a, password: b}] } }\nno_auth_user: a",
        account_system="accounts { A {} }\nsystem_account: A",
        account_system_short="accounts { A {} }\nsystem: A",
        account_system_default="system_account: '$SYS'",
        account_no_system="no_system_account: true",
    ),
    *cases(
        Verdict.REJECT,
        account_not_a_map=("accounts { A: 1 }", "must be a map"),
        accounts_names_twice=("accounts: [A, A]", 'duplicate account "A"'),
        account_global=("accounts { $G {} }", '"$G" is a reserved account'),
        account_unknown_field=("accounts { A { user: a } }", 'unknown field "user"'),
        account_users_twice=(
            "accounts { A { users: [{user: a, password: b}] }, B { users: [{user: a, password: c}] } }",
            'duplicate user "a"',
        ),
        account_user_also_global=(
            "accounts { A { users: [{user: a, password: b}] } }\n"
            "authorization { users: [{user: a, password: d}] }",
            'duplicate user "a"',
        ),
        account_limits_not_a_map=("accounts { A { limits: 1 } }", "must be a map"),
        account_limits_unknown=("accounts { A { limits { max: 1 } } }", 'unknown field "max"'),
        account_limits_text=("accounts { A { limits { max_conn: x } } }", "must be an integer"),
        account_nkey_of_a_user=(
            f"accounts {{ A {{ nkey: {NKEY} }} }}",
            "not a valid public nkey of an account",
        ),
    ),
    *cases(
        Verdict.START,
        account_system_unknown=("system_account: A", "is not among the accounts"),
        account_no_auth_user_unknown=(
            "accounts { A { users: [{user: a, password: b}] } }\nno_auth_user: x",
            "is not among the users",
        ),
    ),
    *cases(
        Verdict.STRICTER,
        accounts_number=("accounts: 1", "a map of accounts, or their names"),
        export_neither=("accounts { A {exports: [{accounts: [A]}] } }", "either a stream or a service"),
        import_neither=("accounts { A {imports: [{to: a}] } }", "either a stream or a service"),
    ),
    *cases(
        Verdict.ACCEPT,
        trace="accounts { A { msg_trace { dest: a } } }",
        trace_sampled="accounts { A { msg_trace { dest: a, sampling: 80 } } }",
        trace_percent='accounts { A { trace_dest { dest: a, sampling: "80%" } } }',
        trace_subject="accounts { A { trace_dest: a.b } }",
        trace_empty="accounts { A { msg_trace {} } }",
    ),
    *cases(
        Verdict.WARN,
        trace_nowhere=(
            "accounts { A { msg_trace { sampling: 10 } } }",
            "sampling ignored since no destination was set",
        ),
    ),
    *cases(
        Verdict.REJECT,
        trace_wildcard="accounts { A { msg_trace: a.* } }",
        trace_no_subject='accounts { A { msg_trace { dest: "" } } }',
        trace_number="accounts { A { msg_trace: 7 } }",
        trace_list="accounts { A { msg_trace: [a] } }",
        trace_none="accounts { A { msg_trace { dest: a, sampling: 0 } } }",
        trace_more="accounts { A { msg_trace { dest: a, sampling: 101 } } }",
        trace_no_number='accounts { A { msg_trace { dest: a, sampling: "many" } } }',
        trace_half="accounts { A { msg_trace { dest: a, sampling: 0.5 } } }",
        trace_unknown="accounts { A { msg_trace { dest: a, rate: 5 } } }",
    ),
]

EXPORTS = [
    *cases(
        Verdict.ACCEPT,
        export_stream=exporting('{stream: "a.>"}'),
        export_service=exporting('{service: "a.>"}'),
        export_private=exporting("{service: a, accounts: [B]}, {stream: b, accounts: [B]}"),
        export_response_types=exporting(
            "{service: a, response_type: singleton}, {service: b, response: stream},"
            "{service: c, response_type: Chunked}, {service: d, response_type: single}"
        ),
        export_threshold=exporting('{service: a, response_threshold: "2s"}'),
        export_by_token=exporting('{service: "a.*", account_token_position: 2}'),
        export_latency=exporting("{service: a, latency: {subject: m, sampling: 30%}}"),
        export_latency_short=exporting("{service: a, latency: m}"),
        export_latency_headers=exporting("{service: a, latency: {subject: m, sampling: headers}}"),
        export_latency_number=exporting("{service: a, latency: {subject: m, sampling: 100}}"),
        export_same_twice=exporting("{service: a}, {service: a}"),
        export_accounts_empty=(
            "accounts { A {exports: [{service: a, accounts: []}, {stream: b, accounts: []}]},"
            " B {imports: [{service: {account: A, subject: a}}, {stream: {account: A, subject: b}}]} }"
        ),
        export_trace=exporting("{service: a, allow_trace: true}, {allow_trace: false, service: b}"),
    ),
    *cases(
        Verdict.REJECT,
        export_both=exporting("{stream: a, service: a}"),
        export_not_a_list=("accounts { A { exports: {stream: a} } }", "must be a list"),
        export_not_a_map=(exporting("a"), "must be a map"),
        export_subject_number=(exporting("{stream: 1}"), "must be a string"),
        export_unknown_field=(exporting("{stream: a, to: b}"), 'unknown field "to"'),
        export_to_unknown=(exporting("{stream: a, accounts: [X]}"), 'account "X" is not defined'),
        export_response_of_stream=(exporting("{stream: a, response_type: stream}"), "for services only"),
        export_trace_of_stream=(exporting("{stream: a, allow_trace: true}"), "for services only"),
        export_no_trace_of_stream=(exporting("{stream: a, allow_trace: false}"), "for services only"),
        export_trace_no_flag=exporting("{service: a, allow_trace: 1}"),
        export_response_unknown=(exporting("{service: a, response_type: all}"), "unknown response type"),
        export_threshold_not_a_time=(exporting("{service: a, threshold: x}"), "is not a duration"),
        export_latency_of_stream=(exporting("{stream: a, latency: m}"), "for services only"),
        export_latency_of_streamed=(
            exporting("{service: a, response_type: stream, latency: m}"),
            "services with one response only",
        ),
        export_latency_without_subject=(
            exporting("{service: a, latency: {sampling: 30}}"),
            "needs a subject to publish to",
        ),
        export_latency_to_wildcard=(
            exporting('{service: a, latency: {subject: "m.*"}}'),
            "not a subject to publish to",
        ),
        export_latency_sampling_too_much=(
            exporting("{service: a, latency: {subject: m, sampling: 101}}"),
            "between 1 and 100",
        ),
        export_latency_sampling_unknown=(
            exporting("{service: a, latency: {subject: m, sampling: all}}"),
            "a percentage, or headers",
        ),
        export_token_not_a_wildcard=(
            exporting("{service: a.b, account_token_position: 2}"),
            "must name a * of the subject",
        ),
        export_token_beyond=(
            exporting('{service: "a.*", account_token_position: 3}'),
            "must name a * of the subject",
        ),
    ),
]

IMPORTS = [
    *cases(
        Verdict.ACCEPT,
        import_service=importing('{service: {account: A, subject: "s.x"}}'),
        import_service_to=importing('{service: {account: A, subject: "s.x"}, to: y}'),
        import_service_wildcard=importing('{service: {account: A, subject: "s.*"}, to: "y.*"}'),
        import_service_private=importing("{service: {account: A, subject: one}}"),
        import_service_share=importing('{service: {account: A, subject: "s.x"}, share: true}'),
        import_stream=importing('{stream: {account: A, subject: "t.*.*"}}'),
        import_stream_prefix=importing('{stream: {account: A, subject: "t.*.*"}, prefix: p}'),
        import_stream_to=importing('{stream: {account: A, subject: "t.*.*"}, to: "y.$2.$1"}'),
        import_service_of_many_as_one=importing('{service: {account: A, subject: "s.x"}, to: "y.*.>"}'),
        import_exported_twice_to_some=importing(
            "{service: {account: A, subject: one}}",
            "A {exports: [{service: one, accounts: [B]}, {service: one, accounts: [A]}]}",
        ),
        import_exported_by_token_and_then_to_some=importing(
            '{service: {account: A, subject: "s.x"}}',
            'A {exports: [{service: "s.*", account_token_position: 2}, {service: "s.*", accounts: [B]}]}',
        ),
        import_trace=importing('{stream: {account: A, subject: "t.*.*"}, allow_trace: true}'),
        import_stream_part=importing('{stream: {account: A, subject: "t.a.*"}, to: "y.*"}'),
    ),
    *cases(
        Verdict.REJECT,
        import_both=importing("{stream: {account: A, subject: a}, service: {account: A, subject: a}}"),
        import_trace_of_service=(
            importing('{service: {account: A, subject: "s.x"}, allow_trace: true}'),
            "for imported streams only",
        ),
        import_without_account=(importing("{service: {subject: a}}"), "needs an account and a subject"),
        import_without_subject=(importing("{service: {account: A}}"), "needs an account and a subject"),
        import_from_unknown=(importing("{service: {account: X, subject: a}}"), 'account "X" is not defined'),
        import_not_exported=(
            importing("{service: {account: A, subject: other}}"),
            'service import of "other" is not authorized',
        ),
        import_wider_than_exported=(importing('{service: {account: A, subject: ">"}}'), "is not authorized"),
        import_of_other_kind=(importing('{stream: {account: A, subject: "s.x"}}'), "is not authorized"),
        import_not_permitted=(
            importing(
                "{service: {account: A, subject: one}}", "A {exports: [{service: one, accounts: [A]}]}"
            ),
            "is not authorized",
        ),
        import_of_others_token=(
            importing(
                '{service: {account: A, subject: "s.C"}}',
                'A {exports: [{service: "s.*", account_token_position: 2}]}, C {}',
            ),
            "is not authorized",
        ),
        import_exported_to_some_and_then_to_all=(
            importing(
                "{service: {account: A, subject: one}}",
                "A {exports: [{service: one, accounts: [A]}, {service: one}]}",
            ),
            "is not authorized",
        ),
        import_of_others_token_though_listed=(
            importing(
                '{service: {account: A, subject: "s.C"}}',
                'A {exports: [{service: "s.*", account_token_position: 2, accounts: [B]}]}, C {}',
            ),
            "is not authorized",
        ),
        import_wildcard_lost=(
            importing('{stream: {account: A, subject: "t.*.*"}, to: "y.$1"}'),
            "not using all of the token wildcard(s)",
        ),
        import_wildcard_out_of_range=(
            importing('{stream: {account: A, subject: "t.*.*"}, to: "y.$1.$3"}'),
            "wildcard index out of range",
        ),
        import_cycle=(
            'accounts { A {exports: [{service: "x"}], imports: [{service: {account: B, subject: "x"}}]},'
            ' B {exports: [{service: "x"}], imports: [{service: {account: A, subject: "x"}}]} }',
            "forms a cycle",
        ),
        import_cycle_of_three=(
            'accounts { A {exports: [{service: "x"}], imports: [{service: {account: B, subject: "x"}}]},'
            ' B {exports: [{service: "x"}], imports: [{service: {account: C, subject: "x"}}]},'
            ' C {exports: [{service: "x"}], imports: [{service: {account: A, subject: "x"}}]} }',
            "forms a cycle",
        ),
        import_cycle_of_streams=(
            'accounts { A {exports: [{stream: "x"}], imports: [{stream: {account: B, subject: "x"}}]},'
            ' B {exports: [{stream: "x"}], imports: [{stream: {account: A, subject: "x"}}]} }',
            "forms a cycle",
        ),
    ),
    *cases(
        Verdict.STRICTER,
        import_stream_of_one_as_many=(
            importing('{stream: {account: A, subject: "t.a.b"}, to: "y.*"}'),
            "wildcard index out of range",
        ),
        import_wildcard_twice=(
            importing('{stream: {account: A, subject: "t.*.*"}, to: "y.$1.$1"}'),
            "a token wildcard is used twice",
        ),
    ),
]

ACCOUNT_CASES = [*BLOCK, *EXPORTS, *IMPORTS]
