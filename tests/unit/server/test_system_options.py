"""How requests to the system account are read: what cannot be is refused in the Go server's words."""

from __future__ import annotations

from typing import Final

import pytest

from headrace.protocol.documents import LARGEST
from headrace.protocol.go_json import only_value
from headrace.server.system import options
from headrace.server.system.options import BadRequest, Form

MALFORMED: Final = {
    b"{": "unexpected end of JSON input",
    b" ": "unexpected end of JSON input",
    b"[": "unexpected end of JSON input",
    b"nul": "unexpected end of JSON input",
    b'"abc': "unexpected end of JSON input",
    b'"\\u12': "unexpected end of JSON input",
    b"-": "unexpected end of JSON input",
    b"1.": "unexpected end of JSON input",
    b"1e+": "unexpected end of JSON input",
    b'{"a"': "unexpected end of JSON input",
    b'{"a":1,': "unexpected end of JSON input",
    b"}": "invalid character '}' looking for beginning of value",
    b"nope": "invalid character 'o' in literal null (expecting 'u')",
    b"trux": "invalid character 'x' in literal true (expecting 'e')",
    b"falsy": "invalid character 'y' in literal false (expecting 'e')",
    b'"a\x01"': "invalid character '\\x01' in string",
    b'{"a":"\n"}': "invalid character '\\n' in string",
    b'"\\q"': "invalid escape sequence `\\q` in string",
    b'"\\u12x4"': "invalid escape sequence `\\u12x4` in string",
    b"-a": "invalid character 'a' in numeric literal",
    b"1.x": "invalid character 'x' in numeric literal",
    b'{"a":1e}': "invalid character '}' in numeric literal",
    b"01": "invalid character '1' after top-level value",
    b"NaN": "invalid character 'N' looking for beginning of value",
    b"-Infinity": "invalid character 'I' in numeric literal",
    b"{a}": "invalid character 'a' looking for beginning of object key string",
    b'{"a":1,}': "invalid character '}' looking for beginning of object key string",
    b'{"a"1}': "invalid character '1' after object key",
    b'{"a":1 "b"}': "invalid character '\"' after object key:value pair",
    b'{"a":0x10}': "invalid character 'x' after object key:value pair",
    b"[1 2]": "invalid character '2' after array element",
    b"[1,]": "invalid character ']' looking for beginning of value",
    b"{} x": "invalid character 'x' after top-level value",
    b"'a'": "invalid character '\\'' looking for beginning of value",
    b"\xff": "invalid character '\\xff' looking for beginning of value",
    b"\xc3\xa9": "invalid character 'é' looking for beginning of value",
    b"\xef\xbb\xbf{}": "invalid character '\\ufeff' looking for beginning of value",
    b"\xe2\x80\xa8": "invalid character '\\u2028' looking for beginning of value",
    '{"a":\U0001f600}'.encode(): "invalid character '\U0001f600' looking for beginning of value",
    b"\x00": "invalid character '\\x00' looking for beginning of value",
    b"[" * 10_001: "exceeded max depth",
    b'{"a":' * 10_001: "exceeded max depth",
}
"""What is no JSON, and what the Go server 2.15.1 says of it."""


@pytest.mark.parametrize("payload", MALFORMED, ids=lambda payload: repr(payload[:20]))
def test_malformed_request_is_refused_in_the_go_servers_words(payload: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        options.read(payload, options.VARZ)

    assert str(refused.value) == MALFORMED[payload]


def test_many_levels_are_read_where_nothing_is_made_of_them() -> None:
    arrays = b"[" * 9_000 + b"]" * 9_000
    objects = b'{"a":' * 9_000 + b"1" + b"}" * 9_000
    for deep in (arrays, objects):
        assert options.read(b'{"unknown":' + deep + b"}", options.VARZ) == {}
    with pytest.raises(BadRequest, match=r"array into Go struct field VarzEventOptions\.host of type string"):
        options.read(b'{"host":' + arrays + b"}", options.VARZ)
    with pytest.raises(BadRequest, match=r"array into Go value of type server\.VarzEventOptions"):
        options.read(arrays, options.VARZ)


@pytest.mark.parametrize("text", [b'"\\u1"', b'"\\ud8"'])
def test_escape_that_the_string_cuts_off_is_one_that_is_wrong(text: bytes) -> None:
    with pytest.raises(BadRequest, match=r"invalid escape sequence `.*` in string"):
        options.read(text, options.VARZ)


def test_json_has_no_mistake() -> None:
    for text in (b' [1, -0.5e+3, {"a":[]}, "\\u00e9\\n\\/", true, false, null, {}] ', b"{}", b'"\xff"'):
        assert only_value(text).raw == text.strip()


WRONG_TYPES: Final[list[tuple[Form, bytes, str]]] = [
    (options.VARZ, b"[]", "array into Go value of type server.VarzEventOptions"),
    (options.VARZ, b"1", "number into Go value of type server.VarzEventOptions"),
    (options.VARZ, b'"x"', "string into Go value of type server.VarzEventOptions"),
    (options.VARZ, b"true", "bool into Go value of type server.VarzEventOptions"),
    (
        options.STATSZ,
        b'{"server_name":1}',
        "number into Go struct field StatszEventOptions.server_name of type string",
    ),
    (options.CONNZ, b'{"tags":"x"}', "string into Go struct field ConnzEventOptions.tags of type []string"),
    (options.CONNZ, b'{"tags":["x",1]}', "number into ConnzEventOptions.tags.1 of type string"),
    (options.CONNZ, b'{"auth":1}', "number into Go struct field ConnzEventOptions.auth of type bool"),
    (options.CONNZ, b'{"limit":"x"}', "string into Go struct field ConnzEventOptions.limit of type int"),
    (options.CONNZ, b'{"limit":1.5}', "number 1.5 into Go struct field ConnzEventOptions.limit of type int"),
    (options.CONNZ, b'{"limit":1e1}', "number 1e1 into Go struct field ConnzEventOptions.limit of type int"),
    (
        options.CONNZ,
        b'{"limit":9223372036854775808}',
        "number 9223372036854775808 into Go struct field ConnzEventOptions.limit of type int",
    ),
    (options.CONNZ, b'{"cid":-1}', "number -1 into Go struct field ConnzEventOptions.cid of type uint64"),
    (options.CONNZ, b'{"cid":-0}', "number -0 into Go struct field ConnzEventOptions.cid of type uint64"),
    (
        options.CONNZ,
        b'{"state":"closed"}',
        "string into Go struct field ConnzEventOptions.state of type server.ConnState",
    ),
    (
        options.CONNZ,
        b'{"sort":{}}',
        "object into Go struct field ConnzEventOptions.sort of type server.SortOpt",
    ),
    (options.CONNZ, b'{"LIMIT":"x"}', "string into Go struct field ConnzEventOptions.LIMIT of type int"),
    (
        options.CONNZ,
        b'{"limit":"x","server_name":1}',  # the first mistake counts
        "string into Go struct field ConnzEventOptions.limit of type int",
    ),
    (
        options.PROFILEZ,
        b'{"duration":"1s"}',
        "string into Go struct field ProfilezEventOptions.duration of type time.Duration",
    ),
]


@pytest.mark.parametrize(("form", "payload", "text"), WRONG_TYPES, ids=lambda value: repr(value)[:40])
def test_value_of_the_wrong_type_is_refused_in_the_go_servers_words(
    form: Form, payload: bytes, text: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        options.read(payload, form)

    assert str(refused.value) == f"json: cannot unmarshal {text}"


def test_values_are_read_as_the_go_server_reads_them() -> None:
    payload = b"""{"Limit": 1, "limit": 2, "unknown": {"limit": "x"}, "cid": 18446744073709551615,
        "offset": -0, "user": null, "tags": ["a", null], "\\u017fort": "cid", "acc": "a\\ud800b",
        "host": "\xff"}"""

    assert options.read(payload, options.CONNZ) == {
        "limit": 2,
        "cid": 2**64 - 1,
        "offset": 0,
        "tags": ["a", ""],
        "sort": "cid",
        "acc": "a\ufffdb",
        "host": "\ufffd",
    }


@pytest.mark.parametrize("payload", [b"", b"null", b"{}"])
def test_request_that_says_nothing_has_no_options(payload: bytes) -> None:
    assert options.read(payload, options.CONNZ) == {}


def test_request_that_is_too_large_is_refused_unread() -> None:
    payload = b'{"user":"' + b"x" * LARGEST + b'"}'

    with pytest.raises(BadRequest, match=rf"a request of {len(payload)} bytes, {LARGEST} are allowed"):
        options.read(payload, options.CONNZ)
