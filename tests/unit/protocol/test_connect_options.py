"""The fields of a CONNECT, by the names that nats-server knows them by."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import ProtocolError
from headrace.protocol.info import NO_OPTIONS, ClientConnect


@pytest.mark.parametrize("name", ["pass", "PASS", "Pa\u017fs"])
def test_password_is_read_by_its_name_on_the_wire(name: str) -> None:
    text = f'{{"user": "joe", "{name}": "secret"}}'

    assert ClientConnect().merged(text.encode()).password == "secret"


def test_our_own_name_of_the_password_is_unknown_as_on_nats_server() -> None:
    options = ClientConnect().merged(b'{"user": "joe", "password": "secret", "pass": "other"}')

    assert options.password == "other"
    assert not ClientConnect().merged(b'{"password": "secret"}').password


def read(options: ClientConnect, text: bytes) -> ClientConnect | str:
    """What a CONNECT says, or what is wrong with it."""
    try:
        return options.merged(text)
    except ProtocolError as error:
        return str(error)


def both_ways(text: bytes) -> ClientConnect | str:
    """A first CONNECT is read in one pass if it is plain; one after others never is. Both give the same."""
    found = read(NO_OPTIONS, text)
    assert found == read(ClientConnect(), text)
    return found


FLAGS = ["verbose", "pedantic", "echo", "headers", "no_responders", "tls_required", "new_account"]
TEXTS = ["user", "pass", "auth_token", "jwt", "nkey", "sig", "name", "lang", "version", "account"]
NAMES = st.one_of(
    st.sampled_from([*FLAGS, *TEXTS, "protocol"]),
    st.sampled_from(["Verbose", "USER", "pa\u017fs", "password", "client_ip", "", "na me"]),
    st.text(max_size=6),
)
PLAIN = st.one_of(
    st.tuples(st.sampled_from(FLAGS), st.booleans()),
    st.tuples(st.sampled_from(TEXTS), st.text(max_size=8)),
    st.tuples(st.just("protocol"), st.integers(-(2**65), 2**65)),
)
ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """JSON objects as programs write them, and otherwise: fields twice, escapes, blanks, any value."""
    fields: list[tuple[str, Any]] = draw(st.lists(st.one_of(PLAIN, PLAIN, st.tuples(NAMES, ANY)), max_size=6))
    is_escaped, is_spaced = draw(st.booleans()), draw(st.booleans())
    colon, comma = (" : ", "\t,\r\n ") if is_spaced else (":", ",")
    rendered = (
        json.dumps(name, ensure_ascii=is_escaped) + colon + json.dumps(value, ensure_ascii=is_escaped)
        for name, value in fields
    )
    return f"{{{comma.join(rendered)}}}".encode("utf-8", "surrogatepass")


@given(objects())
@example(b'{"user":"a","user":"b"}')
@example(b'{"user":5,"user":"b"}')
@example(b'{"user":"a","user":null}')
@example(b'{"us\\u0065r":"a","name":"\\ud83d\\ude00 \\ud800 \\/"}')
@example(b'{"protocol":1.0}')
@example(b'{"protocol":1e0}')
@example(b'{"protocol":-0}')
@example(b'{"protocol":01}')
@example(b'{"protocol":true}')
@example(b'{"protocol":"1"}')
@example(b'{"verbose":0}')
@example(b'{"verbose":"true"}')
@example(b'{"protocol":9223372036854775807}')
@example(b'{"protocol":9223372036854775808}')
@example(b'{"protocol":-9223372036854775809}')
@example(b'{"user":NaN}')
@example(b'{"tls_required":null,"user":{"a":[1,{}]}}')
@example(b" \t{ } ")
@example(b"null")
@example(b"[]")
@example(b"")
def test_both_ways_to_read_it_agree(text: bytes) -> None:
    both_ways(text)


@given(objects(), st.data())
def test_both_ways_agree_on_what_is_damaged(text: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    inserted = data.draw(
        st.one_of(st.binary(max_size=2), st.sampled_from([b'"', b"\\", b",", b"{", b"\x00", b"\xff"]))
    )
    both_ways(text[:at] + inserted + text[at + data.draw(st.integers(0, 2)) :])


@given(st.integers(0, 255))
def test_both_ways_agree_on_every_byte_in_a_text(byte: int) -> None:
    both_ways(b'{"name":"a' + bytes([byte]) + b'b"}')
    both_ways(b'{"name' + bytes([byte]) + b'":"b"}')
    both_ways(b'{"name":' + bytes([byte]) + b'"b"}' + bytes([byte]))


def test_what_clients_send_is_read_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {
        "verbose": False,
        "pedantic": False,
        "user": "joe",
        "pass": "p\u00e9",
        "tls_required": False,
        "name": "",
        "lang": "go",
        "version": "1.34.1",
        "protocol": 1,
        "echo": True,
        "headers": True,
        "no_responders": True,
    }

    def fail(*_: object) -> None:
        raise AssertionError("it is plain")

    expected = both_ways(json.dumps(fields).encode())
    monkeypatch.setattr("headrace.protocol.info.json_fields", fail)
    assert NO_OPTIONS.merged(json.dumps(fields).encode()) == expected
    assert isinstance(expected, ClientConnect)
    assert (expected.user, expected.password, expected.protocol) == ("joe", "p\u00e9", 1)
