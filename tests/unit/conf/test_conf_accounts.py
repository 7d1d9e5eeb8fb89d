"""What a block of accounts comes to: frozen options, and problems where they stand."""

from __future__ import annotations

import pytest

from headrace.conf.account_options import (
    AccountLimits,
    AccountOptions,
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    UserOptions,
)
from headrace.conf.account_rules import account_problems
from headrace.conf.binding import load_options
from headrace.conf.options import Options
from headrace.errors import ConfigError

TEXT = """
accounts {
  A {
    users: [{user: a, password: p}]
    exports: [
      {stream: "st.*.>", accounts: [B]}
      {service: svc, response_type: stream, threshold: "3s"}
      {service: "of.*", account_token_position: 2, latency: {subject: took, sampling: 25%}}
    ]
    limits: {max_conn: 3, max_subs: -5}
  }
  B {
    imports: [
      {stream: {account: A, subject: "st.*.>"}, prefix: "from."}
      {service: {account: A, subject: svc}, to: mine, share: yes}
      {service: {account: A, subject: "of.B"}}
    ]
  }
}
"""


def test_block_comes_to_frozen_options() -> None:
    a, b = load_options(text=TEXT, environ={}).accounts

    assert a == AccountOptions(
        "A",
        users=(UserOptions("a", "p"),),
        exports=(
            ExportOptions("st.*.>", accounts=("B",)),
            ExportOptions("svc", is_service=True, response_type="stream", response_threshold=3.0),
            ExportOptions("of.*", is_service=True, token_position=2, latency=LatencyOptions("took", 25)),
        ),
        limits=AccountLimits(max_connections=3, max_subscriptions=-1),
    )
    assert b.imports == (
        ImportOptions("A", "st.*.>", "from.st.*.>"),
        ImportOptions("A", "svc", "mine", is_service=True, share=True),
        ImportOptions("A", "of.B", "of.B", is_service=True),
    )


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_options(text=text, environ={})
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("{stream: a, accounts: [B]}, {stream: a}", ExportOptions("a", accounts=("B",))),
        ("{stream: a}, {stream: a, accounts: [B]}", ExportOptions("a", accounts=("B",))),
        (
            "{stream: a, accounts: [B]}, {stream: a, accounts: [A, B]}",
            ExportOptions("a", accounts=("B", "A")),
        ),
        (
            '{stream: "*", account_token_position: 1}, {stream: "*"}',
            ExportOptions("*", token_position=1),
        ),
        (
            '{stream: "*", account_token_position: 1}, {stream: "*", accounts: [B]}',
            ExportOptions("*", accounts=("B",)),
        ),
        (
            '{service: a, response: stream, threshold: "3s"}, {service: a}',
            ExportOptions("a", is_service=True, response_type="stream"),
        ),
        (
            "{service: a, latency: took}, {service: a}",
            ExportOptions("a", is_service=True, latency=LatencyOptions("took")),
        ),
    ],
)
def test_subject_exported_twice_is_one_export(entries: str, expected: ExportOptions) -> None:
    text = f"accounts {{ A {{ exports: [{entries}] }}, B {{}} }}"
    exporter, _ = load_options(text=text, environ={}).accounts

    assert exporter.exports == (expected,)


def test_problems_between_accounts_are_said_where_the_import_stands() -> None:
    text = (
        "accounts {\n A { exports: [{service: x}] }\n B { imports: [\n"
        "  {service: {account: A, subject: y}}\n ] }\n}"
    )

    assert problems(text) == ['<text>:4:3: service import of "y" is not authorized']


def test_all_problems_are_said_at_once() -> None:
    text = (
        "accounts {\n A { exports: [{stream: x, accounts: [N]}] }\n"
        " B { imports: [{stream: {account: M, subject: y}}] }\n}"
    )

    assert [line.split(": ", 1)[1] for line in problems(text)] == [
        'account "N" is not defined',
        'account "M" is not defined',
    ]


# The Go server takes or refuses these two as its maps happen to be ordered.


def test_threshold_is_for_services_only() -> None:
    text = 'accounts { A { exports: [{stream: x, response_threshold: "1s"}] } }'

    assert problems(text) == ["<text>:1:38: response_threshold is for services only"]


def test_prefix_and_to_exclude_each_other() -> None:
    text = (
        "accounts { A { exports: [{stream: x}] }\n"
        "B { imports: [{stream: {account: A, subject: x}, prefix: p, to: q}] } }"
    )

    assert problems(text) == ["<text>:2:15: a stream import cannot have both a prefix and a to"]


def test_no_system_account_leaves_none() -> None:
    assert load_options(text="no_system_account: true", environ={}).system_account is None
    assert load_options(text="", environ={}).system_account == "$SYS"


def test_same_service_imported_twice_as_one_subject_is_refused() -> None:
    text = (
        "accounts { A { exports: [{service: x}] }\n"
        "B { imports: [{service: {account: A, subject: x}}, {service: {account: A, subject: x}}] } }"
    )

    assert [line.split(": ", 1)[1] for line in problems(text)] == ['duplicate service import of "x"']


def test_options_made_by_hand_are_held_to_the_same_rules() -> None:
    options = Options(accounts=(AccountOptions("A", imports=(ImportOptions("B", "x", "x"),)),))

    assert [message for message, _ in account_problems(options)] == ['account "B" is not defined']
    twice = Options(accounts=(AccountOptions("A"), AccountOptions("A")))
    assert [message for message, _ in account_problems(twice)] == [
        "every account needs a name of its own, which is not $G"
    ]
