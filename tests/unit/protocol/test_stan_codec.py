from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, defstruct

from headrace.errors import ProtocolError
from headrace.protocol import protobuf, stan
from headrace.protocol.stan import (
    Ack,
    ClientInfo,
    ConnectRequest,
    CtrlMsg,
    CtrlType,
    MsgProto,
    PingResponse,
    PubAck,
    PubMsg,
    ServerInfo,
    StartPosition,
    SubscriptionRequest,
    SubscriptionResponse,
    SubState,
)

VECTORS = json.loads((Path(__file__).parents[2] / "conformance" / "streaming_bytes.json").read_text())
MESSAGES = [
    kind
    for kind in vars(stan).values()
    if isinstance(kind, type) and issubclass(kind, Struct) and kind.__struct_fields__
]
ODD_NAMES = {"clientID": "client_id", "connID": "conn_id", "CRC32": "crc32"}
INTEGERS = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint32": (0, (1 << 32) - 1),
    "uint64": (0, (1 << 64) - 1),
}


def snake_case(name: str) -> str:
    return ODD_NAMES.get(name) or re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def from_vector(vector: dict[str, Any]) -> Any:
    fields: dict[str, Any] = {}
    for name, value in vector["fields"].items():
        raw = bytes.fromhex(value) if name in vector["bytes_fields"] else value
        fields[snake_case(name)] = raw.encode() if isinstance(raw, str) else raw
    return getattr(stan, vector["message"])(**fields)


# -- vectors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['message']}-{vector['hex'][:12]}")
def test_vector_in_both_directions(vector: dict[str, Any]) -> None:
    message, encoded = from_vector(vector), bytes.fromhex(vector["hex"])

    assert message.encode() == encoded
    assert type(message).decode(encoded) == message


def test_example_of_the_specification() -> None:
    request = ConnectRequest(client_id=b"me", heartbeat_inbox=b"hb", protocol=1, conn_id=b"c")

    assert request.encode() == bytes.fromhex("0a 02 6d 65 12 02 68 62 18 01 22 01 63")


@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        (
            SubState(7, b"me", b"g", b"i", b"a", 1, 30, b"d", 300, True, True),
            "08071202 6d65 1a0167 220169 2a0161 3001 381e 420164 48ac02 5001 5801",
        ),
        (stan.SubStateDelete(7), "0807"),
        (stan.SubStateUpdate(7, 300), "080710ac02"),
        (
            ServerInfo(b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9"),
            "0a0131 120132 1a0133 220134 2a0135 320136 3a0137 420138 4a0139",
        ),
        (ClientInfo(b"me", b"hb", b"c", 1, 5, 88), "0a026d65 12026862 1a0163 2001 2805 3058"),
        (stan.ClientDelete(b"me"), "0a026d65"),
        (CtrlMsg(CtrlType.PARTITIONING, b"s", b"d"), "0804 120173 1a0164"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_messages_between_servers(message: Any, encoded: str) -> None:
    assert message.encode() == bytes.fromhex(encoded)
    assert type(message).decode(bytes.fromhex(encoded)) == message


def test_start_positions_are_those_of_the_wire() -> None:
    assert [position.name for position in StartPosition] == [
        "NEW_ONLY",
        "LAST_RECEIVED",
        "TIME_DELTA_START",
        "SEQUENCE_START",
        "FIRST",
    ]
    assert list(StartPosition) == [0, 1, 2, 3, 4]


# -- proto3's rules -------------------------------------------------------------------------------


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_defaults_are_not_encoded(message: Any) -> None:
    assert message().encode() == b""
    assert message.decode(b"") == message()


def test_explicit_defaults_are_read() -> None:
    assert MsgProto.decode(bytes.fromhex("0800 1200 2800 3000")) == MsgProto()


@pytest.mark.parametrize(
    "unknown",
    [
        "7801",  # field 15, varint
        "79 0102030405060708",  # 64 bits
        "7a 03 616263",  # length-delimited
        "7a 00",
        "7d 01020304",  # 32 bits
        "c03e ffffffffffffffffff01",  # field 1000, its key two bytes long
        "f8ffffff0f 00",  # the highest field number there is
    ],
)
def test_unknown_fields_are_skipped(unknown: str) -> None:
    known = bytes.fromhex("0a03666f6f"), bytes.fromhex("10ac02")

    for place in range(3):
        parts = list(known)
        parts.insert(place, bytes.fromhex(unknown))

        assert Ack.decode(b"".join(parts)) == Ack(b"foo", 300)


def test_last_value_wins_in_any_order() -> None:
    assert Ack.decode(bytes.fromhex("1001 0a0161 0a0162 1002 0a00")) == Ack(b"", 2)


@pytest.mark.parametrize(
    ("encoded", "sequence"),
    [
        ("10 80 00", 0),  # longer than need be
        ("10 81 80 80 80 80 80 80 80 80 00", 1),
        ("90 00 05", 5),  # so may be a key
        ("10 ff ff ff ff ff ff ff ff ff 01", (1 << 64) - 1),
        ("10 ff ff ff ff ff ff ff ff ff 7f", (1 << 64) - 1),  # bits over 64 are dropped
        ("10 80 80 80 80 80 80 80 80 80 02", 0),
    ],
)
def test_varints_as_other_implementations_read_them(encoded: str, sequence: int) -> None:
    assert Ack.decode(bytes.fromhex(encoded)) == Ack(b"", sequence)


def test_narrow_numbers_take_their_low_bits() -> None:
    assert SubscriptionRequest.decode(bytes.fromhex("28 ffffffff0f")).max_in_flight == -1
    assert SubscriptionRequest.decode(bytes.fromhex("28 8180808010")).max_in_flight == 1
    assert MsgProto.decode(bytes.fromhex("38 ffffffffffffffffff01")).redelivery_count == 0xFFFFFFFF
    assert MsgProto.decode(bytes.fromhex("30 8080808010")).redelivered is True
    assert MsgProto.decode(bytes.fromhex("28 ffffffffffffffffff01")).timestamp == -1


def test_unknown_start_position_is_kept_for_the_server_to_judge() -> None:
    assert SubscriptionRequest.decode(bytes.fromhex("5009")).start_position == 9
    assert SubscriptionRequest(start_position=-1).encode() == bytes.fromhex("50 ffffffffffffffffff01")


def test_strings_need_not_be_utf8() -> None:
    assert PubMsg.decode(PubMsg(client_id=b"\xff\xfe").encode()).client_id == b"\xff\xfe"


def test_large_payload() -> None:
    data = bytes(1 << 20)

    assert MsgProto.decode(MsgProto(1, b"foo", data=data, timestamp=1).encode()).data == data
    assert PubMsg(data=data).encode()[:4] == bytes.fromhex("2a 808040")


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        (Ack, "10"),  # a key and no value
        (Ack, "0a"),
        (Ack, "90"),  # half a key
        (Ack, "10 80"),  # half a varint
        (Ack, "10 ffffffffffffffffffff"),
        (Ack, "10 80808080808080808080 00"),  # eleven bytes
        (Ack, "8080808080 808080808080 00"),
        (Ack, "0a 04 666f6f"),  # longer than what is left
        (Ack, "0a ffffffffffffffffff01"),  # a length of 2^64 - 1
        (Ack, "0a 80"),
        (Ack, "08 01"),  # field 1 is no varint
        (Ack, "12 01 61"),  # field 2 is no string
        (Ack, "0d 01020304"),
        (Ack, "09 0102030405060708"),
        (Ack, "0b 0c"),  # a group where a field is known
        (Ack, "7b 7c"),  # a group where none is
        (Ack, "7c"),
        (Ack, "7e 00"),  # wire types 6 and 7 do not exist
        (Ack, "7f 00"),
        (Ack, "00 00"),  # field number 0
        (Ack, "02 00"),
        (Ack, "8080808010 00"),  # a field number over 29 bits
        (Ack, "7a 05 61"),  # unknown fields cut off
        (Ack, "7a"),
        (Ack, "7a ffffffffffffffffff01"),
        (Ack, "78"),
        (Ack, "78 80808080808080808080 00"),
        (Ack, "79 01020304050607"),
        (Ack, "7d 010203"),
        (SubscriptionResponse, "12 02 61"),
        (PingResponse, "08 00"),
    ],
)
def test_malformed_input_is_a_protocol_error(message: Any, encoded: str) -> None:
    with pytest.raises(ProtocolError):
        message.decode(bytes.fromhex(encoded))


def test_field_one_of_an_answer_is_not_its_ack_inbox() -> None:
    assert SubscriptionResponse.decode(bytes.fromhex("0a0161")) == SubscriptionResponse()


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["hex"]], ids=lambda vector: vector["hex"][:12])
def test_every_cut_is_refused_or_ends_between_fields(vector: dict[str, Any]) -> None:
    message, encoded = type(from_vector(vector)), bytes.fromhex(vector["hex"])
    refused = 0
    for cut in range(1, len(encoded)):
        try:
            decoded = message.decode(encoded[:cut])
        except ProtocolError:
            refused += 1
        else:
            assert encoded.startswith(decoded.encode())

    assert refused >= (len(encoded) - 1) / 2


@pytest.mark.parametrize(
    "message",
    [
        Ack(b"", 1 << 64),
        Ack(b"", -1),
        MsgProto(sequence=-1),
        MsgProto(sequence=1 << 64, timestamp=1),
        MsgProto(sequence=1, timestamp=1 << 63),
        MsgProto(sequence=1, timestamp=1, redelivery_count=1 << 32),
        MsgProto(sequence=1, timestamp=1, crc32=-1),
        SubscriptionRequest(max_in_flight=1 << 31),
        SubscriptionRequest(max_in_flight=-(1 << 31) - 1),
        SubscriptionRequest(start_time_delta=1 << 63),
    ],
)
def test_numbers_that_do_not_fit_are_not_cut(message: Any) -> None:
    with pytest.raises(ValueError):
        message.encode()


def test_varint_of_more_than_64_bits() -> None:
    for value in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(ValueError):
            protobuf.varint(value)


# -- round trips and noise ------------------------------------------------------------------------


@given(st.integers(-(1 << 63), (1 << 64) - 1))
def test_varint_round_trip(value: int) -> None:
    encoded = protobuf.varint(value)

    assert protobuf.read_varint(b"\xff" + encoded + b"\xff", 1) == (value % (1 << 64), 1 + len(encoded))
    assert len(encoded) == max(1, -(-(value % (1 << 64)).bit_length() // 7))


@pytest.mark.parametrize("bits", range(65))
def test_varint_at_the_edges(bits: int) -> None:
    for value in {(1 << bits) - 1, min(1 << bits, (1 << 64) - 1)}:
        assert protobuf.read_varint(protobuf.varint(value), 0)[0] == value


def some_message(random_: random.Random, message: type[Struct]) -> Any:
    """A message with each field at a default, an edge or anything."""
    values = []
    for _, _, kind, _ in protobuf.layout(message).columns:
        if kind.from_varint is None:
            sizes = (0, 1, 20, 127, 128, random_.randrange(300))
            values.append(random_.randbytes(random_.choice(sizes)))
        elif kind.from_varint is bool:
            values.append(random_.random() < 0.5)
        else:
            edges = (0, 1, 127, 128, kind.low, kind.high, random_.randint(kind.low, kind.high))
            values.append(random_.choice(edges))
    return message(*values)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_random_messages_survive(message: Any) -> None:
    random_ = random.Random(f"messages of {message.__name__}")
    for _ in range(200):
        one, other = some_message(random_, message), some_message(random_, message)

        assert message.decode(one.encode()) == one
        # Two encodings in a row are the second over the first: last values win.
        merged = message.decode(one.encode() + other.encode())
        for name in message.__struct_fields__:
            assert getattr(merged, name) == (getattr(other, name) or getattr(one, name))


def test_written_out_encoding_is_the_declared_one() -> None:
    random_ = random.Random("MsgProto")
    for _ in range(500):
        message = some_message(random_, MsgProto)

        assert message.encode() == protobuf.write(message, protobuf.layout(MsgProto))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_noise_is_decoded_or_refused_and_nothing_else(message: Any) -> None:
    random_ = random.Random(f"noise for {message.__name__}")
    refused = 0
    for turn in range(1500):
        noise = bytearray(some_message(random_, message).encode() if turn % 3 else random_.randbytes(12))
        for _ in range(random_.randrange(1, 4)):
            if noise:
                noise[random_.randrange(len(noise))] = random_.choice(
                    (0, 0x7F, 0x80, 0xFF, random_.randrange(256))
                )
        data = bytes(noise[: random_.randrange(len(noise) + 1)]) if turn % 2 else bytes(noise)
        try:
            decoded = message.decode(data)
        except ProtocolError:
            refused += 1
        else:
            assert message.decode(decoded.encode()) == decoded

    assert 100 < refused < 1500


def test_every_numeric_declaration_has_its_range() -> None:
    for name, (low, high) in INTEGERS.items():
        message = defstruct("Message", [("number", int, getattr(protobuf, name)(1))])
        ((_, _, kind, _),) = protobuf.layout(message).columns

        assert (kind.low, kind.high) == (low, high)
        assert [kind.from_varint(edge % (1 << 64)) for edge in (low, high)] == [low, high]


def test_errors_name_the_message() -> None:
    with pytest.raises(ProtocolError, match=r"^PubAck: length 5 with 1 bytes left$"):
        PubAck.decode(b"\x0a\x05a")
    with pytest.raises(ProtocolError, match=r"^PubAck: ends within a field$"):
        PubAck.decode(b"\x0a")
