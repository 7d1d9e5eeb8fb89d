"""The fields of a CONNECT, by the names that nats-server knows them by."""

from __future__ import annotations

import pytest

from headrace.protocol.info import ConnectOptions


@pytest.mark.parametrize("name", ["pass", "PASS", "Pa\u017fs"])
def test_password_is_read_by_its_name_on_the_wire(name: str) -> None:
    text = f'{{"user": "joe", "{name}": "secret"}}'

    assert ConnectOptions().merged(text.encode()).password == "secret"


def test_our_own_name_of_the_password_is_unknown_as_on_nats_server() -> None:
    options = ConnectOptions().merged(b'{"user": "joe", "password": "secret", "pass": "other"}')

    assert options.password == "other"
    assert not ConnectOptions().merged(b'{"password": "secret"}').password
