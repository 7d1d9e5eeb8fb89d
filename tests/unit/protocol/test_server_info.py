"""INFO lines: what is common is rendered once, and each line is what rendering all of it would be."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.protocol.info import PortInfo

NAMES = ["server_id", "host", "headers", "max_payload", "auth_required", "client_id", "client_ip", "nonce"]
ALWAYS = {"server_id", "host", "headers", "max_payload"}
VALUES = st.one_of(st.none(), st.booleans(), st.integers(2, 2**40), st.text(max_size=5))
FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES)
URLS = st.lists(st.text(max_size=3), max_size=2).map(lambda urls: {"server_id": "S", "connect_urls": urls})


def expected(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in fields.items()
        if name in ALWAYS or value not in (None, False, "", [], ())
    }


def sent(line: bytes) -> dict[str, Any]:
    assert line.startswith(b"INFO {")
    assert line.endswith(b"} \r\n")
    found: dict[str, Any] = json.loads(line[5:])
    return found


@given(FIELDS, URLS, st.lists(FIELDS, max_size=4))
def test_line_has_the_fields_of_all_and_of_one(
    fields: dict[str, Any], urls: dict[str, Any], clients: list[dict[str, Any]]
) -> None:
    common = fields | urls
    info = PortInfo(common)
    for own in clients:
        assert sent(info.line(own)) == expected({**common, **own})
    assert dict(info) == common


def test_no_end_of_limits_is_no_end_of_memory() -> None:
    info = PortInfo({"server_id": "S", "max_payload": 1})
    for number in range(1000):
        assert sent(info.line({"max_payload": number, "client_id": 7})) == {
            "server_id": "S",
            "max_payload": number,
            "client_id": 7,
        }
    assert len(info._heads) <= 64
