"""WebSocket clients that stall, leave, break the rules of frames or send bombs."""

from __future__ import annotations

import random
import socket
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import bcrypt
import pytest

from harness.websocket import CLOSE, CONT, PING, PONG, TEXT, Received, WebSocket, frame, request
from headrace import limits
from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.tls_options import TLSOptions
from headrace.conf.websocket_options import WebSocketOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.conftest import Served
    from harness.certificates import Authority

DEFLATE = {"Sec_WebSocket_Extensions": "permessage-deflate"}
CONNECT = b'CONNECT {"verbose":false}\r\n'


@pytest.fixture
def open_socket(serve: Callable[..., Served]) -> Callable[..., Served]:
    """A server with a WebSocket port: `options` of the server, `websocket` fields of the block."""

    def start(websocket: dict[str, Any] | None = None, **options: Any) -> Served:
        block = WebSocketOptions(host="127.0.0.1", no_tls=True, **(websocket or {}))
        return serve(websocket=block, **options)

    return start


def port_of(served: Served) -> int:
    port = served.server.websocket_port
    assert port is not None
    return port


def check(served: Served) -> None:
    """The server still serves proper clients."""
    with WebSocket(port_of(served)) as client:
        client.connect()
        client.send(b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
        assert client.sync() == b"MSG a 1 2\r\nhi\r\n"


@pytest.mark.parametrize(
    "rubbish",
    [
        frame(b"PING\r\n", mask=None),
        frame(b"", reserved=2),
        frame(b"", reserved=1),
        frame(b"", reserved=4),
        frame(b"x", opcode=3),
        frame(b"x", opcode=11),
        frame(b"x" * 126, opcode=PING),
        frame(b"x", opcode=PING, final=False),
        frame(b"x", opcode=CONT),
        frame(b"PI", final=False) + frame(b"NG\r\n"),
        frame(b"PI", final=False) + frame(b"\x03\xe8", opcode=CLOSE),
        frame(b"x", opcode=CLOSE),
        frame(b"\x03\xec", opcode=CLOSE),
        frame(b"\x00\x01", opcode=CLOSE),
    ],
    ids=[
        *("unmasked", "rsv2", "rsv3", "rsv1", "opcode-3", "opcode-11", "long-control", "cut-control"),
        *("continuation", "new-message", "close-within", "close-short", "close-1004", "close-1"),
    ],
)
@pytest.mark.parametrize("step", [1, 1000])
def test_what_is_no_frame_closes_as_protocol_error(
    open_socket: Callable[..., Served], rubbish: bytes, step: int
) -> None:
    served = open_socket()
    with WebSocket(port_of(served)) as client:
        client.take_through(b"\r\n")
        for at in range(0, len(rubbish), step):
            client.send_raw(rubbish[at : at + step])

        assert client.take_end()[1] == 1002
    served.wait_for_connections(0)
    assert served.closed_reasons() == ["Read Error"]
    check(served)


def test_close_reason_that_is_no_text_closes_as_invalid_data(open_socket: Callable[..., Served]) -> None:
    served = open_socket()
    with WebSocket(port_of(served)) as client:
        client.take_through(b"\r\n")
        client.send_raw(frame(b"\x03\xe8\xff", opcode=CLOSE))

        assert client.take_end()[1] == 1007


@pytest.mark.parametrize("said", [b"", b"\x03\xe8bye", b"\x0f\xa0"], ids=["nothing", "normal", "own"])
def test_close_is_answered_with_what_it_said(open_socket: Callable[..., Served], said: bytes) -> None:
    served = open_socket()
    with WebSocket(port_of(served)) as client:
        client.connect()
        client.send_raw(frame(said, opcode=CLOSE))

        client.take_end()

        assert client.close_frame == Received(CLOSE, said)
    served.wait_for_connections(0)
    assert served.closed_reasons() == ["Client Closed"]


def test_frames_lines_and_segments_need_not_meet(open_socket: Callable[..., Served]) -> None:
    served = open_socket()
    payload = bytes(range(256)) * 40
    ops = b"SUB a 1\r\nPUB a %d\r\n%b\r\nPING\r\n" % (len(payload), payload)
    wire = b"".join(
        (
            frame(CONNECT[:5], opcode=TEXT, final=False),
            frame(b"p1", opcode=PING),
            frame(CONNECT[5:], opcode=CONT, final=False),
            frame(b"", opcode=CONT),
            frame(b""),
            frame(ops[:9000]),
            frame(b"p2", opcode=PING),
            frame(ops[9000:]),
            frame(b"", opcode=PONG),
        )
    )
    with WebSocket(port_of(served)) as client:
        client.take_through(b"\r\n")
        for at in range(0, len(wire), 37):
            client.send_raw(wire[at : at + 37])

        assert client.take_frame() == Received(PONG, b"p1")
        assert client.take_frame() == Received(PONG, b"p2")
        assert client.take_through(b"PONG\r\n") == b"MSG a 1 %d\r\n%b\r\nPONG\r\n" % (len(payload), payload)


@pytest.mark.parametrize(
    ("ops", "said", "code", "reason"),
    [
        (b"FOO\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", 1002, "Protocol Violation"),
        (b"PUB a b c d\r\n", b"", 1002, "Protocol Violation"),
        (
            b"PUB a 999999\r\n",
            b"-ERR 'Maximum Payload Violation'\r\n",
            1009,
            "Maximum Message Payload Exceeded",
        ),
        (
            b"PUB " + b"a" * 5000 + b" 1\r\n",
            b"-ERR 'maximum control line exceeded'\r\n",
            1008,
            "Maximum Control Line Exceeded",
        ),
    ],
    ids=["op", "arguments", "payload", "line"],
)
def test_mistakes_in_the_protocol_close_with_their_code(
    open_socket: Callable[..., Served], ops: bytes, said: bytes, code: int, reason: str
) -> None:
    served = open_socket(max_payload=1024)
    with WebSocket(port_of(served)) as client:
        client.connect()
        client.send(ops)

        assert client.take_end() == (said, code)

        assert client.close_frame is not None
        assert client.close_frame.data[2:].decode() == reason


def test_message_larger_than_a_few_payloads_is_not_waited_for(open_socket: Callable[..., Served]) -> None:
    served = open_socket(max_payload=1024, max_control_line=1024)
    largest = 1024 * limits.WEBSOCKET_MESSAGE_PAYLOADS
    with WebSocket(port_of(served)) as client:
        client.connect()
        client.send(b"PUB a 1000\r\n" + b"x" * 1000 + b"\r\n" + b"PING\r\n" * ((largest - 1014) // 6))
        client.take_through(b"PONG\r\n")
        client.send_raw(frame(b"x" * (largest + 1))[:14])  # its head is enough

        assert client.take_end()[1] == 1009
    with WebSocket(port_of(served)) as client:
        client.connect()
        client.send_raw(frame(b"\r" * largest, final=False)[:-1])
    served.wait_for_connections(0)
    check(served)


def test_compressed_messages_both_ways(open_socket: Callable[..., Served]) -> None:
    served = open_socket({"compression": True})
    with WebSocket(port_of(served), request(port_of(served), **DEFLATE)) as client:
        assert "permessage-deflate; server_no_context_takeover; client_no_context_takeover" in client.response
        info = client.take_frame()
        assert info.is_compressed
        assert inflated(info.data).startswith(b"INFO {")

        client.send_raw(deflated(CONNECT + b"SUB a 1\r\nPUB a 1000\r\n" + b"x" * 1000 + b"\r\n"))
        message = client.take_frame()
        client.send(b"PING\r\n")

        assert message.is_compressed
        assert len(message.data) < 100
        assert inflated(message.data) == b"MSG a 1 1000\r\n" + b"x" * 1000 + b"\r\n"
        assert client.take_frame() == Received(2, b"PONG\r\n")  # too small to be worth it


def inflated(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=-15).decompress(data + b"\0\0\xff\xff")


def deflated(data: bytes, *, pieces: int = 1) -> bytes:
    """A compressed message, in so many frames."""
    packer = zlib.compressobj(wbits=-15)
    packed = (packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
    size = len(packed) // pieces + 1
    parts = [packed[at : at + size] for at in range(0, len(packed), size)]
    return b"".join(
        frame(part, CONT if number else 2, final=number == len(parts) - 1, reserved=0 if number else 4)
        for number, part in enumerate(parts)
    )


def test_compressed_message_in_several_frames(open_socket: Callable[..., Served]) -> None:
    served = open_socket({"compression": True})
    with WebSocket(port_of(served), request(port_of(served), **DEFLATE)) as client:
        client.take_frame()
        client.send_raw(deflated(CONNECT + b"SUB a 1\r\nPUB a 3\r\nabc\r\nPING\r\n", pieces=5))

        assert client.take_frame().data.endswith(b"MSG a 1 3\r\nabc\r\nPONG\r\n")


def test_connect_may_be_larger_than_payloads(open_socket: Callable[..., Served]) -> None:
    served = open_socket(max_payload=3)
    with WebSocket(port_of(served)) as client:
        client.connect()
        client.send(b"PUB a 3\r\nabc\r\nPING\r\n")
        client.take_through(b"PONG\r\n")
    check(served)


@pytest.mark.parametrize("pieces", [1, 4])
def test_what_inflates_too_much_is_not_inflated(open_socket: Callable[..., Served], pieces: int) -> None:
    served = open_socket({"compression": True}, max_payload=1024)
    with WebSocket(port_of(served), request(port_of(served), **DEFLATE)) as client:
        client.take_frame()
        client.send_raw(deflated(bytes(50 << 20), pieces=pieces))

        assert client.take_end()[1] == 1009
    check(served)


@pytest.mark.parametrize(
    "packed", [b"\xff\xff\xff\xff", b"\x00\x01", b"rubbish rubbish"], ids=["ones", "cut", "text"]
)
def test_what_does_not_inflate_is_a_protocol_error(open_socket: Callable[..., Served], packed: bytes) -> None:
    served = open_socket({"compression": True})
    with WebSocket(port_of(served), request(port_of(served), **DEFLATE)) as client:
        client.take_frame()
        client.send_raw(frame(packed, reserved=4))
        client.send_raw(frame(b"\x00", reserved=2))

        assert client.take_end()[1] == 1002
    check(served)


def test_client_that_is_not_offered_compression_sends_none(open_socket: Callable[..., Served]) -> None:
    served = open_socket({"compression": False})
    with WebSocket(port_of(served), request(port_of(served), **DEFLATE)) as client:
        assert "permessage-deflate" not in client.response
        client.take_through(b"\r\n")
        client.send_raw(deflated(b"PING\r\n"))

        assert client.take_end()[1] == 1002


def test_pings_of_a_client_that_does_not_read_cost_nothing(open_socket: Callable[..., Served]) -> None:
    """Pongs are not kept for it beyond what its connection takes."""
    served = open_socket({})
    with WebSocket(port_of(served), receive_buffer=4096) as client:
        client.connect()
        client.send(b"SUB a 1\r\n")
        client.sync()
        with served.connect() as publisher:  # until it can take no more
            publisher.send((b"PUB a 100000\r\n" + bytes(100_000) + b"\r\n") * 200)
            publisher.sync()
        pings = frame(b"x" * 125, opcode=PING) * 1000
        for _ in range(50):
            client.send_raw(pings)
        check(served)

        session = served.embedded.call(lambda: next(iter(served.server.clients)))
        assert served.embedded.call(lambda: len(session.transport._late)) <= 127
        served.embedded.call(lambda: session.link.doom(6))
        served.embedded.call(served.server.ticks.wake)
    served.wait_for_connections(0)


def test_slow_consumer_is_cut_off(open_socket: Callable[..., Served]) -> None:
    served = open_socket(max_pending=1 << 20, max_payload=1 << 18)
    with WebSocket(port_of(served), receive_buffer=4096) as slow, served.connect() as publisher:
        slow.connect()
        slow.send(b"SUB a 1\r\n")
        slow.sync()
        for _ in range(40):
            publisher.send(b"PUB a 200000\r\n" + bytes(200_000) + b"\r\n")
        publisher.sync()
        served.wait_for_connections(1)
    served.wait_for_connections(0)
    assert "Slow Consumer (Pending Bytes)" in served.closed_reasons()
    check(served)


def test_client_that_does_not_say_who_it_is_is_closed_in_time(open_socket: Callable[..., Served]) -> None:
    served = open_socket(authorization=AuthorizationOptions(token="t", timeout=0.2))
    with WebSocket(port_of(served)) as client:
        client.take_through(b"\r\n")

        assert client.take_end() == (b"-ERR 'Authentication Timeout'\r\n", 1008)


def test_client_that_sends_much_before_it_says_who_it_is_is_closed(
    open_socket: Callable[..., Served],
) -> None:
    served = open_socket(authorization=AuthorizationOptions(token="t", timeout=20.0))
    with WebSocket(port_of(served)) as client:
        client.take_through(b"\r\n")
        client.send_raw(frame(b" " * 1_000_000)[:200_000])

        assert client.take_end()[1] == 1008
    served.wait_for_connections(0)


def test_what_comes_while_a_password_is_checked_waits(open_socket: Callable[..., Served]) -> None:
    hashed = bcrypt.hashpw(b"p", bcrypt.gensalt(10)).decode()
    users = (UserOptions(user="u", password=hashed),)
    served = open_socket(authorization=AuthorizationOptions(users=users))
    with WebSocket(port_of(served)) as client:
        client.take_through(b"\r\n")
        for op in (
            b'CONNECT {"verbose":false,"user":"u","pass":"p"}\r\n',
            b"SUB a 1\r\n",
            b"PUB a 2\r\nhi\r\n",
        ):
            client.send(op)
        client.send_raw(frame(b"still there?", opcode=PING))

        frames = {client.take_frame().data, client.take_frame().data}

        assert frames == {b"MSG a 1 2\r\nhi\r\n", b"still there?"}


@pytest.mark.parametrize("part", [0, 1, 30, 150])
def test_upgrade_that_stalls_is_closed_in_time(open_socket: Callable[..., Served], part: int) -> None:
    served = open_socket({"handshake_timeout": 0.2})
    with WebSocket(port_of(served), b"") as client:
        client.send_raw(request(port_of(served))[:part])

        assert client.take_end() == (b"", None)
    check(served)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"\x16\x03\x01\x02\x00garbage\r\n\r\n", 400),
        (b'CONNECT {"verbose":false}\r\nPING\r\n', 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
    ],
    ids=["tls", "nats", "web-page", "long-path", "long-header", "many-headers", "folded", "blank"],
)
def test_what_is_no_upgrade_gets_a_status(
    open_socket: Callable[..., Served], text: bytes, status: int
) -> None:
    served = open_socket()
    with WebSocket(port_of(served), text) as client:
        assert client.status == status
        client.take_end()
    assert served.closed_reasons() == []  # it never was a client
    check(served)


def test_frames_before_the_answer_are_refused(open_socket: Callable[..., Served]) -> None:
    served = open_socket()
    with WebSocket(port_of(served), b"") as client:
        client.send_raw(request(port_of(served)) + frame(b"PING\r\n"))

        assert client.take_end() == (b"", None)
    check(served)


@pytest.mark.parametrize("last", [1, 2, 3, 5])
def test_upgrade_in_pieces(open_socket: Callable[..., Served], last: int) -> None:
    """The last piece ends within the blank line, or begins there."""
    served = open_socket()
    whole = request(port_of(served))
    with WebSocket(port_of(served), b"") as client:
        for at in range(0, len(whole) - last, 40):
            client.send_raw(whole[at : min(at + 40, len(whole) - last)])
            check(served)  # the piece has been read
        client.send_raw(whole[-last:])
        client.response = client.take_response()

        assert client.status == 101
        client.connect()


def test_one_client_too_many_is_told(open_socket: Callable[..., Served]) -> None:
    served = open_socket(max_connections=1)
    with WebSocket(port_of(served)) as first:
        first.connect()
        with WebSocket(port_of(served)) as second:
            text, code = second.take_end()

            assert text.endswith(b"-ERR 'maximum connections exceeded'\r\n")
            assert code == 1008
        assert first.sync() == b""


def test_clients_hear_of_the_end(open_socket: Callable[..., Served]) -> None:
    served = open_socket()
    with WebSocket(port_of(served)) as client, WebSocket(port_of(served), b"") as unborn:
        client.connect()
        unborn.send_raw(b"GET / HT")

        served.embedded.call(served.server.stop)

        assert client.take_end()[1] == 1001
        assert unborn.take_end() == (b"", None)


def test_client_that_is_cut_off_leaves_nothing(open_socket: Callable[..., Served]) -> None:
    served = open_socket({"compression": True})
    for part in (1, 3, 10, 500):
        with WebSocket(port_of(served)) as client:
            client.connect()
            client.send_raw(frame(b"SUB a 1\r\nPUB a 1000\r\n" + b"x" * 1002)[:part])
    served.wait_for_connections(0)
    check(served)


def test_encrypted_port(serve: Callable[..., Served], authority: Authority) -> None:
    pair = authority.issue("websocket")
    block = WebSocketOptions(host="127.0.0.1", tls=TLSOptions(str(pair.certificate), str(pair.key)))
    served = serve(websocket=block)
    port = port_of(served)
    with WebSocket(port, context=authority.client_context()) as client:
        client.connect()
        payload = bytes(300_000)
        client.send(b"SUB a 1\r\nPUB a 300000\r\n" + payload + b"\r\n")
        assert client.sync() == b"MSG a 1 300000\r\n" + payload + b"\r\n"
    with WebSocket(port, b"") as plain:
        plain.send_raw(request(port))
        plain.take_end()
    served.wait_for_connections(0)


@pytest.mark.parametrize("part", [0, 5])
def test_handshake_on_the_encrypted_port_that_stalls(
    serve: Callable[..., Served], authority: Authority, part: int
) -> None:
    pair = authority.issue("stalled")
    tls = TLSOptions(str(pair.certificate), str(pair.key))
    served = serve(websocket=WebSocketOptions(host="127.0.0.1", tls=tls, handshake_timeout=0.2))
    with WebSocket(port_of(served), b"") as client:
        client.send_raw(b"\x16\x03\x01\x02\x00"[:part])

        assert client.take_end() == (b"", None)


def test_certificate_that_is_not_pinned_is_refused(
    serve: Callable[..., Served], authority: Authority
) -> None:
    pair, client_pair = authority.issue("pinning"), authority.issue("unpinned")
    tls = TLSOptions(
        str(pair.certificate), str(pair.key), str(authority.file), verify=True, pinned_certs=("0" * 64,)
    )
    served = serve(websocket=WebSocketOptions(host="127.0.0.1", tls=tls))
    with WebSocket(port_of(served), context=authority.client_context(client_pair)) as client:
        assert client.take_end() == (b"", None)
    served.wait_for_connections(0)
    assert served.closed_reasons() == ["TLS Handshake Failure"]


@pytest.mark.parametrize("seed", range(8))
def test_any_bytes_after_the_upgrade_end_well(open_socket: Callable[..., Served], seed: int) -> None:
    """Frames with bytes changed, dropped and doubled: each client is answered or closed, the others go on."""
    chance = random.Random(seed)
    served = open_socket({"compression": True}, max_payload=4096)
    good = [
        frame(CONNECT),
        frame(b"SUB a 1\r\n", TEXT),
        frame(b"PUB a 2\r\n", final=False) + frame(b"hi\r\n", CONT),
        frame(b"x", PING),
        deflated(b"PUB a 100\r\n" + bytes(100) + b"\r\n"),
        deflated(b"PING\r\n", pieces=2),
        frame(b"PUB a 3000\r\n" + bytes(3000) + b"\r\n"),
    ]
    for _ in range(25):
        stream = bytearray(b"".join(chance.choice(good) for _ in range(chance.randint(1, 12))))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(stream))
            stream[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        with WebSocket(port_of(served), request(port_of(served), **DEFLATE)) as client:
            client.take_frame()
            client.send_raw(bytes(stream))
            client.send_raw(frame(b"", CLOSE))
            with suppress(OSError):  # the server was faster
                client.socket.shutdown(socket.SHUT_WR)
            while client.fill():
                pass
            assert client.closed
    served.wait_for_connections(0)
    check(served)
