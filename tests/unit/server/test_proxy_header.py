"""The PROXY protocol's header: every form, whole and byte by byte, and everything that is none."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.server.proxy_protocol import MAX_V1_LINE, ProxiedAddress, ProxyHeader, ProxyHeaderError

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def v2(command: int, family: int, body: bytes = b"", *, size: int | None = None) -> bytes:
    return (
        SIGNATURE + bytes([command, family]) + (len(body) if size is None else size).to_bytes(2, "big") + body
    )


def v2_inet(source: tuple[int, int, int, int], port: int, more: bytes = b"") -> bytes:
    return bytes(source) + bytes([10, 0, 0, 1]) + port.to_bytes(2, "big") + (4222).to_bytes(2, "big") + more


V6 = bytes.fromhex("20010db8000000000000000000000001")
MAPPED = bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 7])

GOOD: list[tuple[bytes, ProxiedAddress | None]] = [
    (b"PROXY TCP4 192.0.2.1 10.0.0.1 5000 4222\r\n", ProxiedAddress("192.0.2.1", 5000)),
    (b"PROXY TCP6 2001:db8::1 ::1 65535 4222\r\n", ProxiedAddress("2001:db8::1", 65535)),
    (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", ProxiedAddress("192.0.2.7", 1)),
    (b"PROXY  TCP4\t192.0.2.1   10.0.0.1 0 4222 \r\n", ProxiedAddress("192.0.2.1", 0)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff::1 anything at all 1 2 3\r\n", None),
    (b"PROXY UNKNOWN " + b"x" * (MAX_V1_LINE - 16) + b"\r\n", None),
    (v2(0x21, 0x11, v2_inet((192, 0, 2, 1), 5000)), ProxiedAddress("192.0.2.1", 5000)),
    (v2(0x21, 0x11, v2_inet((192, 0, 2, 1), 5000, b"\x01\x00\x03tlv")), ProxiedAddress("192.0.2.1", 5000)),
    (v2(0x21, 0x11, v2_inet((1, 2, 3, 4), 9, bytes(65535 - 12))), ProxiedAddress("1.2.3.4", 9)),
    (v2(0x21, 0x21, V6 + V6 + b"\x00\x07\x10\x7e"), ProxiedAddress("2001:db8::1", 7)),
    (v2(0x21, 0x21, MAPPED + V6 + b"\x00\x07\x10\x7e"), ProxiedAddress("192.0.2.7", 7)),
    (v2(0x20, 0x00), None),
    (v2(0x20, 0x11, b"whatever"), None),
    (v2(0x20, 0xFF, b"whatever"), None),
    (v2(0x21, 0x01, b"some address"), None),
    (v2(0x21, 0x01), None),
]
BAD: list[tuple[bytes, str]] = [
    (b"PROXY " + b"x" * 200, "v1 line too long"),
    (b"PROXY UNKNOWN " + b"x" * (MAX_V1_LINE - 15) + b"\r\n", "v1 line too long"),
    (b"PROXY \r\n", "invalid v1 format"),
    (b"PROXY TCP4\r\n", "invalid v1 format"),
    (b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", "invalid v1 format"),
    (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", "invalid v1 format"),
    (b"PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n", "invalid address"),
    (b"PROXY TCP4 1.2.3.4 somewhere 1 2\r\n", "invalid address"),
    (b"PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n", "invalid address"),
    (b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "invalid address"),
    (b"PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n", "invalid source port"),
    (b"PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n", "invalid source port"),
    (b"PROXY TCP4 1.2.3.4 5.6.7.8 " + b"9" * 40 + b" 2\r\n", "invalid source port"),
    (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 x\r\n", "invalid dest port"),
    ("PROXY TCP4 1.2.3.4 5.6.7.8 1 ²\r\n".encode("latin-1"), "invalid dest port"),
    (b"PROXY TCP4 ::1 5.6.7.8 1 2\r\n", "TCP4 with IPv6 address"),
    (b"PROXY TCP6 1.2.3.4 ::1 1 2\r\n", "TCP6 with IPv4 address"),
    (b"PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n", "invalid protocol"),
    (SIGNATURE[:-1] + b"X", "invalid signature"),
    (SIGNATURE[:8] + b"PING", "invalid signature"),
    (v2(0x11, 0x11, v2_inet((1, 2, 3, 4), 1)), "invalid version 0x10"),
    (v2(0x22, 0x11, v2_inet((1, 2, 3, 4), 1)), "unknown PROXY protocol command: 0x02"),
    (v2(0x21, 0x12, v2_inet((1, 2, 3, 4), 1)), "only STREAM protocol supported"),
    (v2(0x21, 0x31, bytes(216)), "unsupported address family 0x30"),
    (v2(0x21, 0x11, b"", size=11), "IPv4 address data too short: 11 bytes"),
    (v2(0x21, 0x21, b"", size=35), "IPv6 address data too short: 35 bytes"),
]
NONE: list[bytes] = [
    b'CONNECT {"verbose":false}\r\n',
    b"PING\r\n",
    b"PUB a 1\r\nx\r\n",
    b"P\r\n",
    b"PROX\r\n",
    b"PROXy TCP4",
    b"\r\nPING\r\n",
    b"\r\n\r\n\x01",
    b"\x16\x03\x01\x02\x00",
    b"\x00",
]


def read(header: ProxyHeader, data: bytes, step: int) -> bytes:
    """Feeds pieces until it is complete; gives back what belongs to the client."""
    for at in range(0, len(data), step):
        taken = header.feed(data[at : at + step])
        if header.is_complete:
            return header.seen + data[at + taken :]
        assert taken == len(data[at : at + step])
    return b""


@pytest.mark.parametrize("step", [1, 2, 3, 7, 16, 1000, 1 << 20])
@pytest.mark.parametrize(("data", "source"), GOOD)
def test_header_is_read_in_pieces_of_any_size_and_nothing_behind_it(
    data: bytes, source: ProxiedAddress | None, step: int
) -> None:
    header = ProxyHeader()

    assert read(header, data + b"PING\r\n", step) == b"PING\r\n"

    assert header.is_complete
    assert not header.is_absent
    assert header.source == source


@pytest.mark.parametrize("step", [1, 5, 1000])
@pytest.mark.parametrize(("data", "reason"), BAD)
def test_header_that_is_none_is_refused_with_the_reason(data: bytes, reason: str, step: int) -> None:
    with pytest.raises(ProxyHeaderError, match=reason):
        read(ProxyHeader(), data, step)


@pytest.mark.parametrize("step", [1, 2, 1000])
@pytest.mark.parametrize("data", NONE)
def test_what_clients_say_without_a_proxy_is_theirs_to_the_byte(data: bytes, step: int) -> None:
    header = ProxyHeader()

    assert read(header, data, step) == data

    assert header.is_absent
    assert header.source is None


@pytest.mark.parametrize(("data", "_"), GOOD)
def test_header_that_is_cut_off_is_not_complete(data: bytes, _: object) -> None:
    for end in {0, 1, 5, 6, 12, 15, 16, 20, len(data) - 1}:
        header = ProxyHeader()
        read(header, data[: min(end, len(data) - 1)], 4)
        assert not header.is_complete


def test_reader_keeps_no_more_than_addresses_of_a_large_header() -> None:
    header = ProxyHeader()
    header.feed(v2(0x21, 0x11, v2_inet((1, 2, 3, 4), 9, bytes(65000)), size=65535))

    assert not header.is_complete
    assert len(header._head) <= 52


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=250).map(lambda rest: b"PROXY " + rest),
        st.binary(max_size=250).map(lambda rest: SIGNATURE + rest),
        st.sampled_from([data for data, _ in GOOD]).flatmap(
            lambda data: st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)).map(
                lambda change: data[: change[0]] + bytes([change[1]]) + data[change[0] + 1 :]
            )
        ),
    ),
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
)
@example(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", [1])
def test_pieces_decide_nothing(data: bytes, steps: list[int]) -> None:
    """Whole or in any pieces: the same source, the same rest, or an error both times."""

    def outcome(sizes: list[int]) -> tuple[object, ...]:
        header, at, number = ProxyHeader(), 0, 0
        try:
            while at < len(data) and not header.is_complete:
                at += header.feed(data[at : at + sizes[number % len(sizes)]])
                number += 1
        except ProxyHeaderError as error:
            return (str(error),)
        return (header.source, header.is_absent, header.is_complete, header.seen + data[at:])

    assert outcome([1 << 20]) == outcome(steps)
