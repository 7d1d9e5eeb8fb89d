"""The ends of connections over MQTT: by time, by a limit, by the server; what is said, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.mqtt_stranger import ACCEPTED, Stranger, connect_packet
from harness.mqtt_wire import PINGREQ, PUBLISH, SUBSCRIBE, encoded, text
from harness.waiting import wait_until
from headrace import limits
from headrace.conf.account_options import AuthorizationOptions, UserOptions
from headrace.conf.mqtt_options import MqttOptions
from headrace.engine.reasons import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from faults.conftest import Served

USERS = AuthorizationOptions(users=(UserOptions(user="a", password="p"),), timeout=0.2)


class Port:
    """A server with an MQTT port, and strangers there."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self._opened: list[Stranger] = []

    def open(self, first: bytes = b"") -> Stranger:
        """A connection that sends this at once."""
        self._opened.append(Stranger(self.served.server.mqtt_port))
        self._opened[-1].send(first)
        return self._opened[-1]

    def close(self) -> None:
        for stranger in self._opened:
            stranger.close()


@pytest.fixture
def open_port(serve: Callable[..., Served]) -> Iterator[Callable[..., Port]]:
    """Starts a server with these options, and fields of the MQTT block."""
    ports: list[Port] = []

    def start(block: dict[str, Any] | None = None, **options: Any) -> Port:
        served = serve(
            jetstream=True, mqtt=MqttOptions(host="127.0.0.1", port=-1, **(block or {})), **options
        )
        ports.append(Port(served))
        return ports[-1]

    yield start
    while ports:  # whoever holds this function must hold no server
        ports.pop().close()


def test_a_client_that_never_connects_is_closed_where_there_are_no_users_too(
    open_port: Callable[..., Port], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MQTT_CONNECT_TIMEOUT", 0.1)
    port = open_port()

    assert port.open().rest() == b""
    assert port.served.closed_reasons() == ["Authentication Timeout"]


def test_a_client_that_is_silent_longer_than_its_keep_alive_is_closed(open_port: Callable[..., Port]) -> None:
    port = open_port()
    alive = port.open(connect_packet("alive"))
    silent = port.open(connect_packet("silent", keep_alive=1))
    silent_5 = port.open(connect_packet("silent5", version=5, keep_alive=1))

    assert silent.rest().hex() == ACCEPTED
    assert silent_5.rest()[-3:].hex() == "e0018d"
    assert port.served.closed_reasons() == ["Read Error", "Read Error"]
    alive.send(encoded(PINGREQ, b""))
    assert alive.take(6).hex() == ACCEPTED + "d000"


@pytest.mark.parametrize(
    ("version", "answer"), [(4, "20020005"), (5, "201d00871a1f0017" + b"Authorization Violation".hex())]
)
def test_who_is_not_authorized_is_told(open_port: Callable[..., Port], version: int, answer: str) -> None:
    port = open_port(authorization=USERS)
    stranger = port.open(connect_packet(version=version, user="b", password="p"))

    assert stranger.rest().hex() == answer
    assert port.served.closed_reasons() == ["Authentication Failure"]


def test_one_connection_too_many_is_closed_without_a_byte(open_port: Callable[..., Port]) -> None:
    port = open_port(max_connections=1)
    assert port.open(connect_packet()).take(4).hex() == ACCEPTED

    assert port.open().rest() == b""
    assert port.served.closed_reasons() == ["Maximum Connections Exceeded"]


def test_a_connect_that_is_cut_off_anywhere_leaves_nothing(open_port: Callable[..., Port]) -> None:
    port, packet = open_port(), connect_packet(user="a", password="p", will=("t", b"gone"))
    for size in range(1, len(packet)):
        port.open(packet[:size]).close()

    port.served.wait_for_connections(0)
    port.served.check()


def test_a_client_that_leaves_while_its_session_is_opened_leaves_nothing(
    open_port: Callable[..., Port],
) -> None:
    port = open_port()
    for number in range(20):
        port.open(connect_packet(f"gone-{number}", clean=False)).close()

    port.served.wait_for_connections(0)
    port.served.check()


@pytest.mark.parametrize(("version", "last"), [(4, ""), (5, "e00198")])
def test_a_client_that_is_kicked_hears_of_it_in_5(
    open_port: Callable[..., Port], version: int, last: str
) -> None:
    port = open_port()
    client = port.open(connect_packet(version=version))
    accepted = client.take(2)
    client.take(accepted[1])
    server = port.served.server
    port.served.embedded.call(lambda: [session.end(CloseReason.KICKED) for session in server.clients])

    assert client.rest().hex() == last
    assert port.served.closed_reasons() == ["Kicked"]


def test_a_server_that_stops_says_so_to_clients_of_5(open_port: Callable[..., Port]) -> None:
    port = open_port()
    client = port.open(connect_packet(version=5))
    accepted = client.take(2)
    client.take(accepted[1])
    wait_until(lambda: len(port.served.server.clients) == 1, "the client is there")
    port.served.embedded.call(port.served.server.stop)

    assert client.rest().hex() == "e0018b"


def test_a_server_that_leaves_closes_its_clients_and_sends_their_wills(
    open_port: Callable[..., Port],
) -> None:
    port = open_port(lame_duck_duration=0.2, lame_duck_grace_period=0.01)
    heir = port.open(connect_packet("heir", version=5))
    accepted = heir.take(2)
    heir.take(accepted[1])
    heir.send(encoded(SUBSCRIBE, b"\0\1\0" + text("gone/#") + b"\0"))
    assert heir.take(6).hex() == "900400010000"
    leaving = port.open(connect_packet("leaving", will=("gone/x", b"bye")))
    assert leaving.take(4).hex() == ACCEPTED
    embedded = port.served.embedded
    embedded.call(lambda: embedded.server.clients.get(2).end(CloseReason.SERVER_SHUTDOWN))  # type: ignore[union-attr]

    assert leaving.rest() == b""
    assert heir.take(14) == encoded(PUBLISH, text("gone/x") + b"\0bye")
    embedded.call(embedded.server.lame_duck)
    assert heir.rest().hex() == "e0018b"
    assert port.served.closed_reasons() == ["Server Shutdown", "Server Shutdown"]
