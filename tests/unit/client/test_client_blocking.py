from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from headrace.client.errors import (
    ClientTimeoutError,
    ConnectionLostError,
    MaxPayloadError,
    NoRespondersError,
    ServerError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import ScriptedServer
    from headrace.client.blocking import Connection

    Pair = Callable[..., tuple[Connection, ScriptedServer]]


def test_publish_is_buffered_until_close_or_flush(pair: Pair) -> None:
    nc, server = pair()
    nc.publish("a", b"x", headers={"K": "v"}, reply="r")
    assert server.heard() == b""
    nc.close()
    assert server.heard() == b"HPUB a r 18 19\r\nNATS/1.0\r\nK: v\r\n\r\nx\r\n"


def test_publish_over_max_payload_raises_and_sends_nothing(pair: Pair) -> None:
    nc, server = pair()
    with pytest.raises(MaxPayloadError, match="65 bytes for 'a', the server takes 64"):
        nc.publish("a", b"x" * 65)
    nc.close()
    assert server.heard() == b""


def test_publish_more_than_the_socket_holds_reads_meanwhile(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"MSG a 1 1\r\nx\r\n" * 100)
    frame = b"PUB a 39\r\n" + b"x" * 39 + b"\r\n"
    heard = 0

    def swallow() -> None:
        nonlocal heard
        while heard < 40_000 * len(frame):
            heard += len(server.socket.recv(1 << 16))

    reader = threading.Thread(target=swallow)
    reader.start()
    for _ in range(40_000):
        nc.publish("a", b"x" * 39)
    nc.close()
    reader.join()
    assert heard == 40_000 * len(frame)


def test_receive_after_close_gives_what_had_arrived(pair: Pair) -> None:
    nc, server = pair(ping_interval=0.0)
    server.say(b"MSG a 1 1\r\nx\r\n")
    with pytest.raises(ClientTimeoutError):
        nc.flush(0.05)
    nc.close()
    assert nc.receive(0).payloads == [b"x"]


def test_receive_nothing_within_timeout_gives_empty_batch(pair: Pair) -> None:
    nc, _ = pair()
    assert len(nc.receive(0.0)) == 0
    assert len(nc.receive(0.01)) == 0


def test_receive_ping_is_answered(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"PING\r\nMSG a 1 0\r\n\r\n")
    assert nc.receive(1).subjects() == [b"a"]
    assert server.heard() == b"PONG\r\n"


def test_receive_messages_before_an_error_come_out_before_it(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"MSG a 1 0\r\n\r\n-ERR 'Slow Consumer'\r\n")
    server.leave()
    assert len(nc.receive(1)) == 1
    with pytest.raises(ServerError, match="the server says: Slow Consumer") as caught:
        nc.receive(1)
    assert caught.value.fatal
    with pytest.raises(ServerError):
        nc.flush(1)


def test_receive_after_a_non_fatal_error_goes_on(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"-ERR 'Permissions Violation for Subscription to \"x\"'\r\n")
    with pytest.raises(ServerError, match="Permissions Violation") as caught:
        nc.receive(1)
    assert not caught.value.fatal
    server.say(b"MSG a 1 0\r\n\r\n")
    assert len(nc.receive(1)) == 1


def test_receive_after_a_non_fatal_error_of_a_server_that_has_gone_raises(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"-ERR 'Invalid Subject'\r\nJUNK\r\n")
    server.leave()
    with pytest.raises(ServerError, match="Invalid Subject"):
        nc.receive(1)
    for _ in range(2):
        with pytest.raises(ConnectionLostError, match="broke the protocol"):
            nc.receive(1)


def test_receive_peer_gone_raises_connection_lost(pair: Pair) -> None:
    nc, server = pair()
    server.leave()
    with pytest.raises(ConnectionLostError, match="nats://scripted:4222 closed the connection"):
        nc.receive(1)
    with pytest.raises(ConnectionLostError):
        nc.receive(1)


def test_receive_junk_raises_connection_lost_after_the_good_messages(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"MSG a 1 0\r\n\r\nJUNK\r\n")
    assert len(nc.receive(1)) == 1
    with pytest.raises(ConnectionLostError, match="broke the protocol: unknown operation 'JUNK"):
        nc.receive(1)


def test_receive_info_that_is_no_json_raises_connection_lost(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"INFO nonsense\r\n")
    with pytest.raises(ConnectionLostError, match="INFO is not JSON"):
        nc.receive(1)


def test_receive_info_updates_max_payload(pair: Pair) -> None:
    nc, server = pair()
    server.say(b'INFO {"max_payload":7}\r\n')
    assert len(nc.receive(0.0)) == 0
    assert nc.max_payload == 7


def test_receive_silent_peer_is_asked_and_then_lost(pair: Pair) -> None:
    nc, server = pair(ping_interval=0.01, ping_max=2)
    with pytest.raises(ConnectionLostError, match="2 PINGs unanswered"):
        nc.receive(5)
    assert server.heard() == b"PING\r\nPING\r\n"


def test_flush_waits_for_its_own_pong(pair: Pair) -> None:
    nc, server = pair()
    with pytest.raises(ClientTimeoutError):
        nc.flush(0.01)
    server.say(b"PONG\r\n")
    with pytest.raises(ClientTimeoutError):
        nc.flush(0.01)
    server.say(b"PONG\r\nPONG\r\n")
    nc.flush(1)


def test_flush_refused_publish_raises_server_error(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"-ERR 'Permissions Violation for Publish to \"a\"'\r\nPONG\r\n")
    nc.publish("a")
    with pytest.raises(ServerError, match="Publish to"):
        nc.flush(1)


def test_request_keeps_other_messages_for_receive(pair: Pair) -> None:
    nc, server = pair()

    def answer() -> None:
        heard = b""
        while b"PUB" not in heard or not heard.endswith(b"q\r\n"):
            heard += server.socket.recv(4096)
        inbox = heard.split(b"PUB svc ")[1].split(b" ")[0]
        server.say(b"MSG other 9 1\r\n1\r\nMSG %b 1 2\r\nok\r\nMSG other 9 1\r\n2\r\n" % inbox)

    thread = threading.Thread(target=answer)
    thread.start()
    assert nc.request("svc", b"q", timeout=5).data == b"ok"
    thread.join()
    assert nc.receive(1).payloads == [b"1", b"2"]


def test_request_nobody_there_raises(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"HMSG _INBOX.x 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n")
    with pytest.raises(NoRespondersError):
        nc.request("svc", timeout=5)


def test_request_no_answer_raises_timeout(pair: Pair) -> None:
    nc, _ = pair()
    with pytest.raises(ClientTimeoutError, match="no answer on 'svc'"):
        nc.request("svc", timeout=0.01)


def test_messages_gives_messages_until_silence(pair: Pair) -> None:
    nc, server = pair()
    server.say(b"MSG a 1 r 1\r\nx\r\nHMSG b 1 18 18\r\nNATS/1.0\r\nK: v\r\n\r\n\r\n")
    first, second = nc.messages(timeout=0.01)
    assert (first.subject, first.data, first.reply, first.headers) == ("a", b"x", "r", {})
    assert (second.subject, second.headers) == ("b", {"K": ["v"]})


def test_close_twice_is_harmless_and_later_calls_say_so(pair: Pair) -> None:
    nc, _ = pair()
    nc.close()
    nc.close()
    with pytest.raises(ConnectionLostError, match="closed by this program"):
        nc.receive(0)


def test_a_message_that_came_during_a_request_is_received_of_its_subscription(
    pair: Callable[..., tuple[Connection, ScriptedServer]],
) -> None:
    connection, server = pair()
    sid = connection.subscribe("news")
    server.say(b"MSG news 1 2\r\nhi\r\nMSG _INBOX.x 2 2\r\nok\r\n")

    assert connection.request("question").data == b"ok"
    assert connection.receive_of(sid, 0.0).payloads == [b"hi"]
