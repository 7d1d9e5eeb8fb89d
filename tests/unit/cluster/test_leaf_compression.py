"""Compression of a leaf link without sockets: who says what before it begins, and what is no such thing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from leaf_harness import ACCEPTED, CONNECT, HUB_INFO, ON_CONNECT, MadeLeafs

from headrace.conf.leaf_options import LeafNodeOptions
from headrace.engine.reasons import CloseReason
from headrace.engine.s2 import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

SAYS = b',"compression":"%s"'


@pytest.fixture
def make(engine_balance: None) -> Iterator[MadeLeafs]:
    made = MadeLeafs()
    yield made
    for port in made.ports:
        port.stop()
    made.ports.clear()


def info_of(said: bytes) -> dict[str, Any]:
    (line,) = [line for line in said.splitlines() if line.startswith(b"INFO ")]
    found: dict[str, Any] = json.loads(line[5:])
    return found


def test_hub_answers_the_choice_of_a_leaf_node_compressed(make: MadeLeafs) -> None:
    wire = make(compression="accept").accepts()
    assert info_of(wire.said())["compression"] == "accept"
    there = Stream()
    info = info_of(there.decompress(wire.says(b'INFO {"compression":"s2_best"}\r\n')))
    assert (info["compression"], info["nonce"]) == ("s2_best", "NONCE")
    answer = there.decompress(wire.says(there.compress(CONNECT % b"")))
    assert info_of(answer)["connect_info"] is True
    assert wire.session.compression == "s2_best"


def test_leaf_node_says_its_choice_and_waits_for_the_hub_to_say_who_it_is(make: MadeLeafs) -> None:
    wire = make.remote(account="A", compression="s2_fast").reaches()
    said = wire.says(HUB_INFO % (SAYS % b"accept" + ON_CONNECT))
    assert info_of(said)["compression"] == "s2_fast"
    assert b"CONNECT" not in said
    assert "nonce" not in info_of(said)
    there = Stream()
    said = there.decompress(wire.says(there.compress(HUB_INFO % (SAYS % b"s2_fast" + ON_CONNECT))))
    assert json.loads(said.removeprefix(b"CONNECT "))["compress_mode"] == "s2_fast"
    wire.says(there.compress(ACCEPTED % b""))
    assert wire.session.is_registered


@pytest.mark.parametrize(
    ("own", "hub", "agreed"),
    [("off", b"s2_fast", "off"), ("s2_fast", b"off", "off"), ("s2_fast", b"", "not supported")],
)
def test_without_compression_on_either_side_connect_comes_at_once(
    make: MadeLeafs, own: str, hub: bytes, agreed: str
) -> None:
    wire = make.remote(account="A", compression=own).reaches()
    said = wire.says(HUB_INFO % (SAYS % hub))
    assert json.loads(said.splitlines()[0].removeprefix(b"CONNECT "))["compress_mode"] == agreed


@pytest.mark.parametrize("says", [b'INFO {"compression":"zip"}\r\n', b'INFO {"compression":3}\r\n'])
def test_mode_that_nobody_knows_ends_the_connection(make: MadeLeafs, says: bytes) -> None:
    wire = make(compression="s2_auto").accepts()
    wire.says(says)
    assert wire.reason is CloseReason.PROTOCOL_VIOLATION


@pytest.mark.parametrize(
    "comes", [b"\xff\x06\x00\x00sNaPpY\x00\x05\x00\x00junk!", b"PING\r\n", b"\x00\xff\xff\xff"]
)
def test_what_is_no_compressed_stream_ends_the_connection(make: MadeLeafs, comes: bytes) -> None:
    wire = make(compression="s2_fast").accepts()
    wire.says(b'INFO {"compression":"s2_fast"}\r\n')
    wire.says(comes)
    assert wire.reason is not None


def test_second_choice_before_connect_changes_nothing(make: MadeLeafs) -> None:
    wire = make(compression="accept").accepts()
    there = Stream()
    wire.said()
    there.decompress(wire.says(b'INFO {"compression":"s2_fast"}\r\n'))
    assert wire.says(there.compress(b'INFO {"compression":"s2_best"}\r\n')) == b""
    assert (wire.session.compression, wire.reason) == ("s2_fast", None)


def test_reload_of_the_mode_has_leaf_nodes_come_back(make: MadeLeafs) -> None:
    port = make(compression="off")
    wire = port.accepts()
    wire.says(CONNECT % b"")
    port.leafs.reload(LeafNodeOptions(port=-1, compression="off", reconnect=5.0))
    port.settle()
    assert wire.reason is None
    port.leafs.reload(LeafNodeOptions(port=-1, compression="accept"))
    port.settle()
    assert wire.reason is CloseReason.CLIENT_CLOSED
