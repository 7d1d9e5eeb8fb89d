"""Clients over MQTT that break rules, stall, flood, or want what is not theirs."""

from __future__ import annotations

import random
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from harness.mqtt_wire import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBSCRIBE,
    Gone,
    MqttWire,
    encoded,
    text,
)
from headrace.conf.account_options import (
    AccountOptions,
    AuthorizationOptions,
    JetStreamAccountLimits,
    Permissions,
    SubjectPermission,
    UserOptions,
)
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.mqtt_options import MqttOptions
from headrace.protocol.mqtt.packets import Connect as ConnectPacket
from headrace.protocol.mqtt.packets import Will, write_connect
from headrace.protocol.mqtt.properties import Properties, write_properties

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from faults.conftest import Served

HELLO = encoded(CONNECT, text("MQTT") + b"\4\2\0\0" + text("me"))


@pytest.fixture
def open_mqtt(serve: Callable[..., Served], tmp_path: Path) -> Callable[..., Served]:
    """A server with an MQTT port: `options` of the server, `mqtt` fields of the block."""

    def start(mqtt: dict[str, Any] | None = None, **options: Any) -> Served:
        block = MqttOptions(host="127.0.0.1", **(mqtt or {}))
        store = JetStreamOptions(store_dir=str(tmp_path / "store"))
        return serve(mqtt=block, jetstream=store, **options)

    return start


def port_of(served: Served) -> int:
    port = served.server.mqtt_port
    assert port is not None
    return port


def check(served: Served, **credentials: Any) -> None:
    """The server still serves proper clients."""
    with MqttWire(port_of(served), f"check-{time.monotonic_ns()}", **credentials) as client:
        client.subscribe("still/alive", 1)
        client.publish("still/alive", b"ok", qos=1, identifier=7)
        kinds = {client.take().kind, client.take().kind}
        assert kinds == {PUBACK, PUBLISH}


def said_to(served: Served, data: bytes) -> bytes:
    """Everything that the server says until it closes a connection on which these bytes come."""
    with socket.create_connection(("127.0.0.1", port_of(served)), timeout=10) as client:
        client.sendall(data)
        answer = b""
        with suppress(ConnectionResetError):
            while found := client.recv(1 << 16):
                answer += found
    return answer


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b'CONNECT {"verbose":false}\r\nPING\r\n',
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        encoded(PINGREQ, b""),
        encoded(PUBLISH, text("a") + b"x"),
        encoded(SUBSCRIBE, b"\0\1" + text("#") + b"\0"),
        b"\x10\xff\xff\xff\xff\x01",
        b"\x11\x00",
        encoded(CONNECT, b""),
        encoded(CONNECT, text("MQTT") + b"\4\2\0\0" + b"\xff\xff"),
        encoded(CONNECT, text("MQTT") + b"\4\3\0\0" + text("me")),
        encoded(CONNECT, text("MQTT") + b"\4\2\0\0" + text("me") + b"\xc0\0"),
    ],
)
def test_nothing_but_connect_is_taken_before_an_mqtt_client_is_known(
    open_mqtt: Callable[..., Served], data: bytes
) -> None:
    served = open_mqtt()

    assert said_to(served, data) == b""
    check(served)


def test_mqtt_connect_that_is_too_large_is_refused_unread(open_mqtt: Callable[..., Served]) -> None:
    served = open_mqtt(max_payload=4096)

    assert said_to(served, b"\x10\xff\xff\xff\x7f") == b""  # 256 MB are to come
    check(served)


def test_mqtt_client_that_does_not_say_who_it_is_is_closed_in_time(open_mqtt: Callable[..., Served]) -> None:
    users = AuthorizationOptions(users=(UserOptions("u", "p"),), timeout=0.3)
    served = open_mqtt(authorization=users)

    begun = time.monotonic()
    assert said_to(served, HELLO[:-1]) == b""
    assert time.monotonic() - begun >= 0.25
    check(served, user="u", password="p")


def test_guess_of_an_mqtt_password_costs_a_connection_each(open_mqtt: Callable[..., Served]) -> None:
    users = AuthorizationOptions(users=(UserOptions("u", "p"),))
    served = open_mqtt(authorization=users)
    wrong = write_connect(ConnectPacket(4, True, 0, b"me", user=b"u", password=b"x"))
    nobody = write_connect(ConnectPacket(4, True, 0, b"me", user=b"v", password=b"x"))

    assert said_to(served, wrong + wrong) == said_to(served, nobody) == bytes.fromhex("20020005")
    check(served, user="u", password="p")


@pytest.mark.parametrize("version", [4, 5])
def test_any_bytes_of_an_mqtt_client_end_its_connection_only(
    open_mqtt: Callable[..., Served], version: int
) -> None:
    served = open_mqtt()
    rng = random.Random(version)
    hello = write_connect(ConnectPacket(version, True, 0, b"fuzz"))
    packets = [
        encoded(kind, rng.randbytes(rng.choice((0, 1, 2, 3, 5, 9, 40))), rng.choice((None, 0, 2, 5, 15)))
        for kind in range(16)
        for _ in range(6)
    ]
    for number in range(40):
        data = b"".join(rng.choices(packets, k=3)) + rng.randbytes(rng.randrange(8))
        with (
            socket.create_connection(("127.0.0.1", port_of(served)), timeout=10) as client,
            suppress(OSError),
        ):
            client.sendall(hello.replace(b"fuzz", b"f%03d" % number))
            client.recv(64)
            client.sendall(data)
    check(served)


def test_mqtt_packet_of_256_mb_is_not_waited_for(open_mqtt: Callable[..., Served]) -> None:
    served = open_mqtt(max_payload=65536)
    for kind in (PUBLISH, SUBSCRIBE, UNSUBSCRIBE):
        with MqttWire(port_of(served), "big") as client:
            head = bytes([kind << 4 | (2 if kind != PUBLISH else 0)]) + b"\xff\xff\xff\x7f"
            client.socket.sendall(head)
            client.socket.settimeout(10)
            with suppress(ConnectionResetError):
                assert client.socket.recv(100) == b""
    check(served)


def _users() -> AuthorizationOptions:
    limited = Permissions(
        publish=SubjectPermission(allow=("open.>",)), subscribe=SubjectPermission(deny=("secret.>",))
    )
    return AuthorizationOptions(
        users=(UserOptions("all", "p"), UserOptions("some", "p", permissions=limited))
    )


def test_mqtt_filters_hear_nothing_that_is_denied(open_mqtt: Callable[..., Served]) -> None:
    served = open_mqtt(authorization=_users())
    with (
        MqttWire(port_of(served), "some", user="some", password="p") as some,
        MqttWire(port_of(served), "all", user="all", password="p") as other,
    ):
        assert some.subscribe("secret/#", 1) == 0x80
        assert some.subscribe("#", 1) == 1
        for number, topic in enumerate(("secret/a", "a"), 1):
            other.publish(topic, b"x", qos=1, identifier=number)
            assert other.take().kind == PUBACK
        assert some.take().topic == "a"


def test_mqtt_message_that_is_not_allowed_reaches_nobody_by_any_way(open_mqtt: Callable[..., Served]) -> None:
    served = open_mqtt(authorization=_users())
    denied_will = Will(b"closed/will", b"x", 1, True)
    with MqttWire(port_of(served), "all", user="all", password="p") as other:
        other.subscribe("closed/#", 2)
        with MqttWire(port_of(served), "some", user="some", password="p") as some:
            some.publish("closed/0", b"x")
            some.publish("closed/1", b"x", qos=1, identifier=1)
            assert some.take().kind == PUBACK
            some.publish("closed/2", b"x", qos=2, identifier=2)
            assert some.take().kind == PUBREC
            some.acknowledge(PUBREL, 2)
            assert some.take().kind == PUBCOMP
            some.send(PUBLISH, text("closed/3") + b"x", 1)  # to be retained
            some.publish("$MQTT/rmsgs/closed/4", b"x")
            some.publish("$JS/API/STREAM/DELETE/$MQTT_msgs", b"")
            some.send(PINGREQ)
            assert some.take().kind == PINGRESP
        hello = write_connect(ConnectPacket(4, True, 0, b"w", denied_will, b"some", b"p"))
        with socket.create_connection(("127.0.0.1", port_of(served)), timeout=10) as lost:
            lost.sendall(hello)
            assert lost.recv(4)[0] >> 4 == CONNACK
        other.publish("closed/end", b"x", qos=1, identifier=9)
        came = [other.take(), other.take()]
        assert sorted(packet.kind for packet in came) == [PUBLISH, PUBACK]
        assert [packet.topic for packet in came if packet.kind == PUBLISH] == ["closed/end"]
        assert other.subscribe("closed/+", 0) == 0  # what is retained would come first
        other.send(PINGREQ)
        assert other.take().kind == PINGRESP


def test_mqtt_permissions_of_a_device_are_enough_for_every_qos(open_mqtt: Callable[..., Served]) -> None:
    served = open_mqtt(authorization=_users())
    with (
        MqttWire(port_of(served), "some", user="some", password="p") as some,
        MqttWire(port_of(served), "all", user="all", password="p") as other,
    ):
        other.subscribe("open/#", 1)
        some.subscribe("answers", 2)
        some.publish("open/1", b"x", qos=1, identifier=1)
        assert some.take().kind == PUBACK
        some.publish("open/2", b"x", qos=2, identifier=2)
        assert some.take().kind == PUBREC
        some.acknowledge(PUBREL, 2)
        assert some.take().kind == PUBCOMP
        assert {other.take().topic, other.take().topic} == {"open/1", "open/2"}
        other.publish("answers", b"y", qos=1, identifier=3)
        assert some.take().payload == b"y"


def test_same_mqtt_identifier_in_another_account_is_another_client(open_mqtt: Callable[..., Served]) -> None:
    accounts = tuple(
        AccountOptions(
            name, users=(UserOptions(name.lower(), "p"),), jetstream={"": JetStreamAccountLimits()}
        )
        for name in "AB"
    )
    served = open_mqtt(accounts=accounts)
    with (
        MqttWire(port_of(served), "same", clean=False, user="a", password="p") as one,
        MqttWire(port_of(served), "same", clean=False, user="b", password="p") as other,
    ):
        one.subscribe("#", 1)
        other.publish("a", b"of B", qos=1, identifier=1)
        assert other.take().kind == PUBACK
        one.publish("a", b"of A", qos=1, identifier=1)
        assert {packet.payload for packet in (one.take(), one.take()) if packet.kind == PUBLISH} == {b"of A"}


@pytest.mark.parametrize(
    "user",
    [
        (b"a\r\nNmqtt-Pub", b"2"),
        (b"a", b"b\r\nNats-Rollup: all"),
        (b"Nats-Rollup", b"all"),
        (b"nats-msg-id", b"1"),
        (b"Nmqtt-Pub", b"0"),
        (b"", b""),
        (b"a: b", b"%0D%0A"),
    ],
)
def test_user_properties_cannot_forge_header_lines(
    open_mqtt: Callable[..., Served], user: tuple[bytes, bytes]
) -> None:
    served = open_mqtt()
    properties = write_properties(Properties(user=(user,)))
    with (
        served.connect(b'{"headers":true}') as nats,
        socket.create_connection(("127.0.0.1", port_of(served)), timeout=10) as client,
    ):
        nats.send(b"SUB a 1\r\n")
        nats.sync()
        client.sendall(write_connect(ConnectPacket(5, True, 0, b"five")))
        assert client.recv(100)[0] >> 4 == CONNACK
        client.sendall(encoded(PUBLISH, text("a") + properties + b"x") + encoded(DISCONNECT, b""))
        frame = nats.take_through(b"\r\nx\r\n")
    lines = frame.split(b"\r\n")[1:-3]
    names = [line.partition(b":")[0].lower() for line in lines[1:]]
    assert lines[0] == b"NATS/1.0"
    assert names.count(b"nmqtt-pub") == 1
    assert not [name for name in names if name.startswith(b"nats-")]
    assert b"Nmqtt-Pub:0" in lines


def test_mqtt_subscriptions_end_at_their_limit(open_mqtt: Callable[..., Served]) -> None:
    served = open_mqtt(max_subscriptions=20)
    with MqttWire(port_of(served), "many") as client:
        filters = b"".join(text(f"many/{number}") + b"\0" for number in range(100))
        client.send(SUBSCRIBE, b"\0\1" + filters)
        granted = client.take()
        assert granted.kind == SUBACK
        codes = granted.body[2:]
        assert len(codes) == 100
        assert 0 < codes.count(0) <= 20
        assert set(codes) == {0, 0x80}
    check(served)


def test_mqtt_client_that_does_not_read_is_cut_off(open_mqtt: Callable[..., Served]) -> None:
    served = open_mqtt(max_pending=1 << 20, max_payload=1 << 16, write_deadline=1.0)
    with MqttWire(port_of(served), "deaf") as deaf:
        deaf.subscribe("flood", 0)
        with MqttWire(port_of(served), "loud") as loud, suppress(Gone):
            payload = bytes(50_000)
            for _ in range(2000):
                loud.publish("flood", payload)
                if "Slow Consumer" in str(served.closed_reasons()):
                    break
        reasons = served.closed_reasons()
    assert any("Slow Consumer" in reason for reason in reasons), reasons
    check(served)
