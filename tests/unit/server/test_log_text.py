"""What peers said, in log lines and error texts."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from headrace.protocol.info import ClientConnect
from headrace.server.auth import Identity
from headrace.server.log_text import (
    claimed_user,
    client_label,
    printable,
    quoted,
    redacted_connect,
    traced_payload,
)
from headrace.server.logs import LineFormatter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"plain", '"plain"'),
        (b"", '""'),
        (b'a"b\\c', r'"a\"b\\c"'),
        (b"\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        (b"\x00\x1b\x7f", r'"\x00\x1b\x7f"'),
        ("größe 日本 😀".encode(), '"größe 日本 😀"'),
        ("\u200b\u00a0\u202e\U000e0001\ufeff\u0085".encode(), r'"\u200b\u00a0\u202e\U000e0001\ufeff\u0085"'),
        (b"\xff\xc0\x80", r'"\xff\xc0\x80"'),
        (b"\xed\xa0\x80", r'"\xed\xa0\x80"'),
    ],
)
def test_quoted_escapes_as_go_does(text: bytes, expected: str) -> None:
    assert quoted(text) == expected


def test_printable_keeps_quotes_and_backslashes() -> None:
    assert printable('a "b" \\ c') == 'a "b" \\ c'
    assert printable('a "b" \r\n\x1b[2J') == r'a "b" \r\n\x1b[2J'


@pytest.mark.parametrize(
    ("options", "identity", "expected"),
    [
        ({}, {}, ""),
        ({"name": "app"}, {}, ' - "app"'),
        ({"lang": "py", "version": "1.2", "name": "app"}, {}, ' - "v1.2:py:app"'),
        ({"user": "joe"}, {"user": "joe"}, ' - "$G/user:joe"'),
        ({"nkey": "UABC", "user": "joe"}, {"user": "UABC"}, ' - "$G/nkey:UABC"'),
        ({"auth_token": "s3cret"}, {"user": "[REDACTED]"}, ' - "$G/token"'),
        ({"name": "x"}, {"user": "guest"}, ' - "x" - "$G/user:guest"'),
    ],
)
def test_client_label_names_program_and_user_but_no_secret(
    options: dict[str, str], identity: dict[str, str], expected: str
) -> None:
    assert client_label(ClientConnect(**options), Identity(**identity)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ""),
        ({"user": "joe\n"}, r' - User "joe\n"'),
        ({"nkey": "UABC", "user": "joe"}, ' - Nkey "UABC"'),
        ({"auth_token": "s3cret"}, ' - Token "[REDACTED]"'),
    ],
)
def test_claimed_user_is_what_the_client_said_but_no_secret(options: dict[str, str], expected: str) -> None:
    assert claimed_user(ClientConnect(**options)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"pass":"a","name":"b"}', '{"pass": "[REDACTED]", "name": "b"}'),
        (b'{"PASS":"a","Auth_Token":"a","jwt":["a"],"sig":{"a":1},"nkey":1}', None),
        (b'{"pass":"a"', "[unreadable]"),
        (b"null", "null"),
        (b'{"pass":"\xff"}', '{"pass": "[REDACTED]"}'),
    ],
)
def test_redacted_connect_shows_no_secret(text: bytes, expected: str | None) -> None:
    shown = redacted_connect(text)

    assert expected is None or shown == expected
    assert shown.count("[REDACTED]") == (5 if expected is None else expected.count("[REDACTED]"))


def test_log_line_is_one_line_whatever_was_said() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "said %s", ("\r\n[1] forged\u2028\udcff",), None)

    line = LineFormatter(with_time=False).format(record)

    assert line.partition("] ")[2] == r"[INF] said \r\n[1] forged\u2028\xff"


@pytest.mark.parametrize(
    "name", ["pass", "PASS", "pa\u017fs", "jwt", "\u017fig", "proxy_sig", "Auth_Token", "n\u212aey"]
)
def test_secret_of_a_connect_is_hidden_however_its_name_is_written(name: str) -> None:
    assert "s3cret" not in redacted_connect(json.dumps({name: "s3cret"}).encode())


def test_payload_that_is_a_token_is_not_traced() -> None:
    assert traced_payload(b"eyJ0.eyJ1.c2ln", 100) == "[REDACTED]"
    assert traced_payload(b"hello", 4) == '"hell..."'


def test_traceback_cannot_hold_a_line_of_its_own() -> None:
    try:
        raise ValueError("a peer said\n[1] 2026/01/01 00:00:00.000000 [INF] Server is ready\x1b[2J")
    except ValueError:
        error = sys.exc_info()
    record = logging.LogRecord("name", logging.ERROR, "file", 1, "internal error", (), error)
    first, *rest = LineFormatter().format(record).split("\n")
    assert first.endswith("[ERR] internal error")
    assert any("Server is ready" in line for line in rest)
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
