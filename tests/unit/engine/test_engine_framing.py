"""Control lines: op words, separators, line ends, arguments; what cannot be parsed closes as specified.

Source: client protocol specification, sections 1 and 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from engine_peers import Broker

UNKNOWN = b"-ERR 'Unknown Protocol Operation'\r\n"
OPEN = CloseReason.NONE
VIOLATION = CloseReason.PROTOCOL_VIOLATION

TAKEN = {
    "any case": (b"sub a 1\r\npUb a 2\r\nhi\r\npInG\r\n", b"MSG a 1 2\r\nhi\r\nPONG\r\n"),
    "runs of blanks": (b"SUB  \ta \t 1 \t\r\nPUB\ta\t \tr.1\t2\r\nhi\r\n", b"MSG a 1 r.1 2\r\nhi\r\n"),
    "blanks before the size": (b"SUB a 1\r\nPUB a  2\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    "blanks after the size": (b"SUB a 1\r\nPUB a 2 \r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    "tab in place of a blank": (b"SUB a 1\r\nPUB a\t2\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    "tab after the word": (b"SUB a 1\r\nPUB\ta 2\r\nhi\r\n", b"MSG a 1 2\r\nhi\r\n"),
    "bare LF": (b"SUB a 1\nPUB a 2\nhi\r\nPING\n", b"MSG a 1 2\r\nhi\r\nPONG\r\n"),
    "bare LF with a reply": (b"SUB a 1\nPUB a r 2\nhi\r\n", b"MSG a 1 r 2\r\nhi\r\n"),
    "two CRs after SUB": (b"SUB a 1\r\r\nPUB a 0\r\n\r\n", b"MSG a 1 0\r\n\r\n"),
    "CR between arguments of SUB": (b"SUB a\r1\r\nPUB a 0\r\n\r\n", b"MSG a 1 0\r\n\r\n"),
    "PING with text": (b"PING some text\r\n", b"PONG\r\n"),
    "PING with text and no blank": (b"PINGx\r\n", b"PONG\r\n"),
    "PING with text of any length": (b"PING " + b"x" * 200_000 + b"\r\nPING\r\n", b"PONG\r\nPONG\r\n"),
    "PING and its CR apart": (b"PING\r", b""),
    "PONG unasked": (b"PONG\r\nPONG x\r\n", b""),
    "+OK": (b"+OK\r\n+ok junk\r\n", b""),
    "INFO": (b'INFO {"a":1}\r\ninfo{}\r\nPING\r\n', b"PONG\r\n"),
    "CONNECT with no blank": (b'CONNECT{"verbose":true}\r\n', b"+OK\r\n"),
    "CONNECT with tabs around": (b'CONNECT\t \t{"verbose":true} \t\r\n', b"+OK\r\n"),
    "sids are opaque": (b"SUB a \x01\xff-sid\r\nPUB a 0\r\n\r\n", b"MSG a \x01\xff-sid 0\r\n\r\n"),
    "subjects are opaque": (b"SUB \x01.\xff 1\r\nPUB \x01.\xff 0\r\n\r\n", b"MSG \x01.\xff 1 0\r\n\r\n"),
    "a CR inside a published subject": (b"SUB > 1\r\nPUB a\rb 2\r\nhi\r\n", b"MSG a\rb 1 2\r\nhi\r\n"),
    "half an op": (b"PI", b""),
    "half an op of one byte": (b"u", b""),
    "half a line": (b"SUB a", b""),
    "PUB and nothing more yet": (b"PUB", b""),
    "half a payload": (b"SUB a 1\r\nPUB a 5\r\nab", b""),
    "a payload without its LF": (b"SUB a 1\r\nPUB a 2\r\nab\r", b""),
    "a payload that looks like ops": (
        b"SUB a 1\r\nPUB a 13\r\nx\r\nPING\r\nPUB \r\n",
        b"MSG a 1 13\r\nx\r\nPING\r\nPUB \r\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TAKEN)
def test_lines_in_any_permitted_form_are_taken(broker: Broker, case: str) -> None:
    sent, expected = TAKEN[case]
    peer = broker.peer()
    peer.send(sent)
    assert peer.received() == expected
    assert peer.reason is OPEN


UNPARSABLE = {
    "a word that is no op": b"FOO\r\n",
    "a blank line": b"\r\n",
    "a bare LF": b"\n",
    "a blank before the op": b" PING\r\n",
    "NUL": b"\0\r\n",
    "MSG": b"MSG a 1 1\r\nx\r\n",
    "an op of a route": b"RS+ $G a\r\n",
    "an op of a leafnode": b"LS+ a\r\n",
    "an account op": b"A+ x\r\n",
    "P and another letter": b"PX\r\n",
    "a word cut short": b"SU\r\n",
    "PUBx": b"PUBx a 0\r\n\r\n",
    "HPUBx": b"HPUBx a 0 0\r\n\r\n",
    "SUBx": b"SUBx a 1\r\n",
    "UNSUBx": b"UNSUBx 1\r\n",
    "PUB and its line's end": b"PUB\r\n",
    "HPUB and its line's end": b"HPUB\r\n",
    "SUB and its line's end": b"SUB\r\n",
    "UNSUB and its line's end": b"UNSUB\r\n",
    "+O": b"+O\r\n",
    "-ERR with no blank": b"-ERRx\r\n",
    "-ERR and its line's end": b"-ERR\r\n",
    "a letter with a bit set": b"\xd0ING\r\n",
    "a control character for a letter": b"P\x15B a 0\r\n\r\n",
    "a payload longer than its size": b"PUB a 2\r\nhello\r\n",
    "a payload too long by a byte, and nothing more": b"PUB a 2\r\nhix",
    "a payload that ends with LF": b"PUB a 2\r\nhi\nPING\r\n",
    "a payload that ends with CR": b"PUB a 2\r\nhi\rPING\r\n",
    "a payload with headers that is too long": b"HPUB a 2 3\r\nhi!!\r\n",
}


@pytest.mark.parametrize("case", UNPARSABLE)
def test_bytes_that_are_no_op_close_with_the_text(broker: Broker, case: str) -> None:
    peer = broker.peer(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
    peer.send(UNPARSABLE[case])
    assert peer.received() == UNKNOWN
    assert peer.reason is VIOLATION
    (failure,) = peer.session.called("parse_failed")
    assert failure[0].startswith("Client parser ERROR, proto=")


BAD_ARGUMENTS = {
    "PUB with no argument": (b"PUB \r\n", "Pub"),
    "PUB with one argument": (b"PUB a\r\n", "Pub"),
    "PUB with four arguments": (b"PUB a b c 1\r\n", "Pub"),
    "PUB with many arguments": (b"PUB a b c d e f g 1\r\n", "Pub"),
    "PUB with a word for a size": (b"PUB a x\r\n", "Pub"),
    "PUB with a negative size": (b"PUB a -1\r\n", "Pub"),
    "PUB with a signed size": (b"PUB a +1\r\n", "Pub"),
    "PUB with a hexadecimal size": (b"PUB a 0x1\r\n", "Pub"),
    "PUB with a size of ten digits": (b"PUB a 0000000001\r\n", "Pub"),
    "PUB with two CRs": (b"PUB a 2\r\r\nhi\r\n", "Pub"),
    "PUB with a reply and a bad size": (b"PUB a r 1x\r\n", "Pub"),
    "HPUB with two arguments": (b"HPUB a 1\r\n", "HeaderPub"),
    "HPUB with five arguments": (b"HPUB a b 1 1 1\r\n", "HeaderPub"),
    "HPUB with more headers than there are bytes": (b"HPUB a 2 1\r\n", "HeaderPub"),
    "HPUB with a bad header size": (b"HPUB a x 1\r\n", "HeaderPub"),
    "HPUB with a bad size": (b"HPUB a 1 x\r\n", "HeaderPub"),
    "HPUB with a header size of ten digits": (b"HPUB a 0000000001 1\r\n", "HeaderPub"),
    "SUB with no argument": (b"SUB \r\n", "Sub"),
    "SUB with one argument": (b"SUB a\r\n", "Sub"),
    "SUB with four arguments": (b"SUB a q 1 2\r\n", "Sub"),
    "SUB with six arguments": (b"SUB a q 1 2 3 4\r\n", "Sub"),
    "UNSUB with no argument": (b"UNSUB \t\r\n", "Unsub"),
    "UNSUB with three arguments": (b"UNSUB 1 2 3\r\n", "Unsub"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments_close_without_a_text(broker: Broker, case: str) -> None:
    sent, op = BAD_ARGUMENTS[case]
    peer = broker.peer(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
    peer.send(sent)
    assert peer.received() == b""
    assert peer.reason is VIOLATION
    (failure,) = peer.session.called("parse_failed")
    assert failure[0].startswith(f"process{op} Parse Error: ")


def test_bad_arguments_of_great_length_are_reported_shortened(broker: Broker) -> None:
    peer = broker.peer()
    peer.send(b"SUB " + b"x" * 4000 + b"\r\n")
    (failure,) = peer.session.called("parse_failed")
    assert len(failure[0]) == 512


def test_error_from_the_peer_closes_without_a_text(broker: Broker) -> None:
    peer = broker.peer()
    peer.send(b"-ERR  'bye' \r\n")
    assert peer.received() == b""
    assert peer.session.called("peer_error") == [(b"'bye'",)]
    assert peer.reason is CloseReason.PARSE_ERROR


def test_info_from_the_peer_is_handed_to_the_session(broker: Broker) -> None:
    peer = broker.peer()
    peer.send(b'INFO\t{"a":1} \r\n')
    assert peer.session.called("peer_info") == [(b'{"a":1}',)]


def test_nothing_is_parsed_after_what_closed_the_link(broker: Broker) -> None:
    peer = broker.peer()
    peer.send(b"SUB a 1\r\nFOO\r\nPUB a 1\r\nx\r\nPING\r\n")
    assert peer.received() == UNKNOWN
    assert peer.link.counters[0] == 0


@pytest.mark.parametrize("begun", [0, 50_000, 100_000])
def test_a_payload_with_a_wrong_end_closes_however_it_was_cut(broker: Broker, begun: int) -> None:
    peer = broker.peer()
    payload = b"x" * 100_000
    peer.send(b"PUB a 100000\r\n" + payload[:begun])
    assert peer.reason is OPEN
    peer.send(payload[begun:] + b"\n")  # its CR is missing: no byte that follows makes it right
    assert peer.received() == UNKNOWN
    assert peer.reason is VIOLATION


def test_many_ops_in_one_chunk_are_all_carried_out(broker: Broker) -> None:
    peer = broker.peer()
    peer.send(b"SUB a 1\r\n" + b"".join(b"PUB a %d\r\n%b\r\n" % (n, b"x" * n) for n in range(150)))
    assert peer.received() == b"".join(b"MSG a 1 %d\r\n%b\r\n" % (n, b"x" * n) for n in range(150))
