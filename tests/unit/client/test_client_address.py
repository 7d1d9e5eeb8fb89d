from __future__ import annotations

import pytest

from headrace.client.address import Credentials, ServerAddress, parse_address, parse_addresses
from headrace.client.errors import AddressError
from headrace.client.options import resolve_addresses, resolve_credentials


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("nats://h:1", ServerAddress("h", 1)),
        ("h", ServerAddress("h", 4222)),
        ("h:5", ServerAddress("h", 5)),
        ("[::1]:5", ServerAddress("::1", 5)),
        ("tls://h", ServerAddress("h", 4222, tls=True)),
        ("nats://u:p%40x@h", ServerAddress("h", credentials=Credentials("u", "p@x"))),
        ("nats://tok@h/", ServerAddress("h", credentials=Credentials(token="tok"))),
    ],
)
def test_parse_address_url_gives_its_parts(url: str, address: ServerAddress) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize("url", ["http://h", "nats://", "nats://h:99999", "nats://h:x", "nats://h/p", "h?x"])
def test_parse_address_bad_url_raises(url: str) -> None:
    with pytest.raises(AddressError):
        parse_address(url)


def test_parse_address_bad_url_does_not_repeat_the_password() -> None:
    with pytest.raises(AddressError) as caught:
        parse_address("nats://user:hunter2@h:bad")
    assert "hunter2" not in str(caught.value)


def test_address_as_text_hides_credentials() -> None:
    address = parse_address("nats://user:hunter2@[::1]:5")
    assert str(address) == "nats://[::1]:5"
    assert "hunter2" not in repr(address)


def test_parse_addresses_comma_list_gives_all() -> None:
    assert [str(a) for a in parse_addresses("a, tls://b:1,")] == ["nats://a:4222", "tls://b:1"]
    with pytest.raises(AddressError):
        parse_addresses(" , ")


def test_resolve_url_given_wins_over_environment_over_default() -> None:
    assert resolve_addresses("nats://a", {"NATS_URL": "nats://b"})[0].host == "a"
    assert resolve_addresses(None, {"NATS_URL": "nats://b"})[0].host == "b"
    assert resolve_addresses(None, {})[0].host == "127.0.0.1"


def test_resolve_credentials_given_wins_over_url_over_environment() -> None:
    given, in_url = Credentials(token="g"), parse_address("nats://u:p@h")
    env = {"NATS_USER": "e", "NATS_PASSWORD": "s"}
    assert resolve_credentials(in_url, given, env) == given
    assert resolve_credentials(in_url, None, env) == Credentials("u", "p")
    assert resolve_credentials(parse_address("h"), None, env) == Credentials("e", "s")
    assert resolve_credentials(parse_address("h"), None, {"NATS_TOKEN": "t"}) == Credentials(token="t")
    assert not resolve_credentials(parse_address("h"), None, {})
