from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.headers import MALFORMED, encode_headers, parse_headers

name = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"), min_size=1)
value = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])).map(
    lambda text: text.strip(" \t")
)


@given(st.dictionaries(name, st.lists(value, min_size=1, max_size=3), max_size=4))
def test_headers_encoded_and_parsed_are_the_same(headers: dict[str, list[str]]) -> None:
    block = encode_headers(headers)
    assert (parse_headers(block) if block else {}) == headers


@given(st.binary())
def test_parse_any_bytes_never_fails(block: bytes) -> None:
    parse_headers(b"NATS/1.0" + block)
    parse_headers(block)


@pytest.mark.parametrize(
    ("block", "headers"),
    [
        (b"NATS/1.0\r\n\r\n", {}),
        (b"NATS/1.0\r\nA: 1\r\nA:2\r\nb:\r\n\r\n", {"A": ["1", "2"], "b": [""]}),
        (b"NATS/1.0 503\r\n\r\n", {"Status": ["503"]}),
        (b"NATS/1.0 404 No Messages\r\n\r\n", {"Status": ["404"], "Description": ["No Messages"]}),
        (b"NATS/1.0\r\nno colon\r\n\r\n", {MALFORMED: ["no colon"]}),
        (b"HTTP/1.1 200 OK\r\n\r\n", {MALFORMED: ["HTTP/1.1 200 OK\r\n\r\n"]}),
        (b"NATS/1.0\r\nA: \xff\r\n\r\n", {"A": ["\\xff"]}),
    ],
)
def test_parse_block_gives_names_and_values(block: bytes, headers: dict[str, list[str]]) -> None:
    assert parse_headers(block) == headers


@pytest.mark.parametrize("headers", [{"": "x"}, {"a:b": "x"}, {"a": "x\r\ny"}, {"a\n": "x"}])
def test_encode_header_that_breaks_the_block_raises(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="header"):
        encode_headers(headers)
