"""The client's side of the protocol without a socket: every state, every cut, and what no server says."""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.address import Credentials, ServerAddress, parse_address
from headrace.client.codec import LARGE, MAX_LINE, MAX_MESSAGE
from headrace.client.errors import (
    ClientError,
    ConnectError,
    ConnectionLostError,
    CredentialsError,
    MaxPayloadError,
    ServerError,
)
from headrace.client.machine import (
    ClientMachine,
    ConnectionClosed,
    ConnectionOpened,
    ConnectionPhase,
    ErrorReported,
    Event,
    InfoChanged,
    UpgradeToTLS,
)
from headrace.client.options import ConnectOptions
from headrace.client.server_info import ServerFacts
from headrace.client.subscriptions import SubscriptionTable
from headrace.protocol.nkeys import verify_signature

if TYPE_CHECKING:
    from collections.abc import Iterable

HELLO = b'INFO {"server_id":"S","max_payload":64,"headers":true}\r\n'
SEED = "SUAEMEORE3JIHJESYSL5GIVXPT5OWFDSAZ5JC5POLYGJEFPXM3EZ7PMFPQ"
USER = "UCVMBFHIFOOEXOVQR6LUNCIZO37ISWFNBWW2S4ODFF7KGQRCQCARIOCH"


def begun(url: str = "nats://h", who: Credentials | None = None, **options: object) -> ClientMachine:
    """A machine whose transport is connected, at second 0."""
    chosen = ConnectOptions(**options)  # type: ignore[arg-type]
    made = ClientMachine(parse_address(url), chosen, who or Credentials())
    made.begin(0.0)
    return made


def opened(**options: object) -> ClientMachine:
    machine = begun(**options)  # type: ignore[arg-type]
    machine.receive(HELLO + b"PONG\r\n", 0.0)
    assert machine.take_events() == [ConnectionOpened()]
    machine.take_output()
    return machine


def connect_of(machine: ClientMachine) -> dict[str, object]:
    """The fields of the CONNECT that waits to be written, with PING behind it."""
    line, ping, rest = bytes(machine.take_output()).split(b"\r\n")
    assert (ping, rest) == (b"PING", b"")
    name, _, fields = line.partition(b" ")
    assert name == b"CONNECT"
    found: dict[str, object] = json.loads(fields)
    return found


Outcome = tuple[ConnectionPhase, str | None, bytes, list[str], list[tuple[bytes, bytes]]]


def outcome(machine: ClientMachine, pieces: Iterable[bytes]) -> Outcome:
    """What bytes in pieces lead to: state, error, output, events and messages."""
    events: list[Event] = []
    messages: list[tuple[bytes, bytes]] = []
    for piece in pieces:
        machine.receive(piece, 1.0)
        events += machine.take_events()
        batch = machine.take_messages()
        messages += zip(batch.subjects(), batch.payloads, strict=True)
    error = None if machine.error is None else f"{type(machine.error).__name__}: {machine.error}"
    return machine.state, error, bytes(machine.output), [_shown(one) for one in events], messages


def _shown(event: Event) -> str:
    if isinstance(event, InfoChanged):
        return f"InfoChanged({event.info.fields})"
    if isinstance(event, ErrorReported | ConnectionClosed):
        return f"{type(event).__name__}({event.error})"
    return type(event).__name__


# -- the handshake


def test_info_connect_pong_opens() -> None:
    machine = begun(name="me", echo=False)
    assert (machine.state, bytes(machine.output)) == (ConnectionPhase.GREETING, b"")
    machine.receive(HELLO, 0.0)
    assert machine.state is ConnectionPhase.CONNECTING
    fields = connect_of(machine)
    assert (fields["name"], fields["echo"], fields["verbose"]) == ("me", False, False)
    assert (fields["headers"], fields["no_responders"], fields["protocol"]) == (True, True, 1)
    assert machine.take_events() == []
    machine.receive(b"PONG\r\n", 0.0)
    assert machine.state is ConnectionPhase.OPEN
    assert machine.take_events() == [ConnectionOpened()]
    assert machine.info.server_id == "S"


def test_server_without_headers_is_told_of_none() -> None:
    machine = begun()
    machine.receive(b"INFO {}\r\n", 0.0)
    fields = connect_of(machine)
    assert (fields["headers"], fields["no_responders"]) == (False, False)


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (Credentials(), {}),
        (Credentials("u", "p"), {"user": "u", "pass": "p"}),
        (Credentials("u"), {"user": "u", "pass": ""}),
        (Credentials(token="t"), {"auth_token": "t"}),
    ],
)
def test_connect_says_who(who: Credentials, expected: dict[str, str]) -> None:
    machine = begun(who=who)
    machine.receive(HELLO, 0.0)
    fields = connect_of(machine)
    said = {name: fields[name] for name in ("user", "pass", "auth_token", "jwt") if name in fields}
    assert said == expected


@pytest.mark.parametrize(("jwt", "field", "value"), [(None, "nkey", USER), ("a.b.c", "jwt", "a.b.c")])
def test_connect_signs_the_nonce(jwt: str | None, field: str, value: str) -> None:
    machine = begun(who=Credentials(jwt=jwt, seed=SEED))
    machine.receive(b'INFO {"nonce":"n-1"}\r\n', 0.0)
    fields = connect_of(machine)
    assert fields[field] == value
    assert verify_signature(USER, b"n-1", str(fields["sig"]))


@pytest.mark.parametrize("info", [b"{}", b'{"nonce":7}', b'{"nonce":null}'])
def test_nkey_that_no_nonce_asks_for_ends_the_connection(info: bytes) -> None:
    machine = begun(who=Credentials(seed=SEED))
    machine.receive(b"INFO %b\r\n" % info, 0.0)
    assert isinstance(machine.error, CredentialsError)
    assert bytes(machine.output) == b""
    assert machine.take_events() == [ConnectionClosed(machine.error)]


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        (b"PING\r\n", ConnectError, r"does not greet like a NATS server \(it sent PING\)"),
        (b"+OK\r\n", ConnectError, r"does not greet"),
        (b"HTTP/1.1 400 Bad Request\r\n", ConnectError, "does not speak NATS: unknown operation"),
        (b"INFO {nonsense}\r\n", ConnectError, "does not speak NATS: INFO is not JSON"),
        (b"INFO []\r\n", ConnectError, "does not speak NATS: INFO is not a JSON object"),
        (b"INFO\r\n", ConnectError, "does not speak NATS: INFO is not JSON"),
        (b"I" * (MAX_LINE + 1), ConnectError, "does not speak NATS: a line longer than"),
        (b"-ERR 'maximum connections exceeded'\r\n", ServerError, "maximum connections exceeded"),
        (HELLO + b"-ERR 'Authorization Violation'\r\n", ServerError, "Authorization Violation"),
        (HELLO + b"-ERR 'Permissions Violation'\r\n", ServerError, "Permissions Violation"),
        (HELLO + b"INFO {\r\n", ConnectError, "does not speak NATS"),
        (HELLO + b"MSG a 1 %d\r\n" % (MAX_MESSAGE + 1), ConnectError, "does not speak NATS: a message of"),
    ],
)
def test_handshake_that_fails_says_why(said: bytes, kind: type[ClientError], text: str) -> None:
    machine = begun()
    machine.receive(said + b"PONG\r\n", 0.0)
    assert machine.state is ConnectionPhase.CLOSED
    assert type(machine.error) is kind
    with pytest.raises(kind, match=text):
        raise machine.error
    assert machine.take_events() == [ConnectionClosed(machine.error)]
    machine.receive(HELLO + b"PONG\r\n", 0.0)
    assert (machine.state, machine.take_events()) == (ConnectionPhase.CLOSED, [])


def test_ping_and_another_info_before_the_pong() -> None:
    machine = begun()
    machine.receive(HELLO, 0.0)
    machine.take_output()
    machine.receive(b'PING\r\n+OK\r\nINFO {"max_payload":7}\r\n', 0.0)
    assert bytes(machine.take_output()) == b"PONG\r\n"
    assert machine.state is ConnectionPhase.CONNECTING
    machine.receive(b"PONG\r\nPONG\r\n", 0.0)
    assert (machine.info.max_payload, machine.info.server_id) == (7, "S")
    assert machine.take_events() == [ConnectionOpened()]


# -- TLS

TLS_INFO = b'INFO {"tls_required":true,"nonce":"n"}\r\n'


def test_tls_is_asked_for_between_info_and_connect() -> None:
    machine = begun()
    machine.receive(TLS_INFO, 0.0)
    assert machine.state is ConnectionPhase.SECURING
    assert machine.take_events() == [UpgradeToTLS()]
    assert bytes(machine.output) == b""
    machine.secured()
    assert machine.state is ConnectionPhase.CONNECTING
    connect_of(machine)


@pytest.mark.parametrize(
    ("url", "context", "info", "state"),
    [
        ("nats://h", False, b"{}", ConnectionPhase.CONNECTING),
        ("nats://h", False, b'{"tls_available":true}', ConnectionPhase.CONNECTING),
        ("tls://h", False, b'{"tls_available":true}', ConnectionPhase.SECURING),
        ("nats://h", True, b'{"tls_available":true}', ConnectionPhase.SECURING),
        ("nats://h", False, b'{"tls_required":true}', ConnectionPhase.SECURING),
        ("tls://h", False, b"{}", ConnectionPhase.CLOSED),
        ("nats://h", True, b'{"tls_required":false}', ConnectionPhase.CLOSED),
    ],
)
def test_tls_by_what_both_sides_want(url: str, context: bool, info: bytes, state: ConnectionPhase) -> None:
    machine = begun(url, tls=ssl.create_default_context() if context else None)
    machine.receive(b"INFO %b\r\n" % info, 0.0)
    assert machine.state is state
    if state is ConnectionPhase.CLOSED:
        assert "does not offer TLS" in str(machine.error)
        assert bytes(machine.output) == b""


def test_tls_first_comes_before_info() -> None:
    machine = begun(tls_first=True)
    assert machine.take_events() == [UpgradeToTLS()]
    machine.secured()
    assert machine.state is ConnectionPhase.GREETING
    machine.receive(TLS_INFO, 0.0)
    assert machine.state is ConnectionPhase.CONNECTING
    assert machine.take_events() == []


@pytest.mark.parametrize(
    "more", [b"PONG\r\n", b"P", b"INFO {}\r\n", b"MSG a 1 0\r\n\r\n", b"\x16\x03\x01\r\n"]
)
@pytest.mark.parametrize("together", [True, False])
def test_bytes_that_anybody_may_have_written_before_tls_are_refused(more: bytes, together: bool) -> None:
    machine = begun()
    for piece in [TLS_INFO + more] if together else [TLS_INFO, more]:
        machine.receive(piece, 0.0)
    assert isinstance(machine.error, ConnectError)
    assert "before TLS" in str(machine.error)
    machine.secured()
    assert (machine.state, bytes(machine.output)) == (ConnectionPhase.CLOSED, b"")


def test_refusal_behind_info_is_told_without_tls() -> None:
    machine = begun()
    machine.receive(TLS_INFO + b"-ERR 'maximum connections exceeded'\r\n", 0.0)
    assert isinstance(machine.error, ServerError)


def test_tls_handshake_that_was_not_asked_for_is_a_mistake() -> None:
    for machine in (begun(), opened()):
        with pytest.raises(RuntimeError, match="no TLS handshake was asked for"):
            machine.secured()


# -- an open connection


def test_ping_is_answered_and_messages_come_out_as_columns() -> None:
    machine = opened()
    machine.receive(b"PING\r\nMSG a 1 2\r\nhi\r\nHMSG b 2 r 3 5\r\nHHHyo\r\n+OK\r\n", 0.0)
    assert bytes(machine.take_output()) == b"PONG\r\n"
    batch = machine.take_messages()
    assert (batch.subjects(), batch.sids(), batch.replies()) == ([b"a", b"b"], [b"1", b"2"], [None, b"r"])
    assert (batch.header_blocks(), batch.payloads) == ([None, b"HHH"], [b"hi", b"yo"])
    assert not machine.has_messages
    assert machine.take_events() == []


def test_info_changes_what_it_says_and_nothing_else() -> None:
    machine = opened()
    machine.receive(b'INFO {"max_payload":7,"connect_urls":["a:1",2]}\r\n', 0.0)
    (event,) = machine.take_events()
    assert isinstance(event, InfoChanged)
    assert event.info is machine.info
    assert (machine.info.max_payload, machine.info.server_id) == (7, "S")
    assert machine.info.connect_urls == ("a:1",)


def test_error_that_is_not_fatal_ends_nothing() -> None:
    machine = opened()
    machine.receive(b"-ERR 'Permissions Violation for Publish to \"a\"'\r\nMSG a 1 0\r\n\r\n", 0.0)
    (event,) = machine.take_events()
    assert isinstance(event, ErrorReported)
    assert (event.error.text, event.error.fatal) == ('Permissions Violation for Publish to "a"', False)
    assert (machine.state, machine.has_messages) == (ConnectionPhase.OPEN, True)


def test_fatal_error_is_the_reason_of_the_end_behind_it() -> None:
    machine = opened()
    machine.receive(b"-ERR 'Slow Consumer'\r\n-ERR 'another'\r\n", 0.0)
    first, second = machine.take_events()
    assert isinstance(first, ErrorReported)
    assert isinstance(second, ErrorReported)
    assert (first.error.fatal, machine.state) == (True, ConnectionPhase.OPEN)
    machine.close(ConnectionLostError("EOF"))
    assert machine.error is first.error
    assert machine.take_events() == [ConnectionClosed(first.error)]


def test_end_is_told_once() -> None:
    machine = opened()
    reason = ConnectionLostError("the network")
    machine.close(reason)
    machine.close(ConnectionLostError("again"))
    machine.keep_alive(1e9)
    machine.receive(b"PING\r\n", 1.0)
    assert machine.error is reason
    assert machine.take_events() == [ConnectionClosed(reason)]
    assert bytes(machine.output) == b""


@pytest.mark.parametrize(
    "bad",
    [
        b"JUNK\r\n", b"\r\n", b"MSG a\r\n", b"MSG a 1 -1\r\n", b"MSG a 1 2\r\nabc\r\n", b"HMSG a 1 6 5\r\n",
        b"MSG a 1 %d\r\n" % (MAX_MESSAGE + 1), b"x" * (MAX_LINE + 1), b"INFO nonsense\r\n", b"INFO [1]\r\n",
    ],
)  # fmt: skip
def test_bad_bytes_end_an_open_connection_behind_what_came_before(bad: bytes) -> None:
    machine = opened()
    machine.receive(b"MSG a 1 2\r\nok\r\n-ERR 'Invalid Subject'\r\nPING\r\n" + bad, 0.0)
    assert machine.take_messages().payloads == [b"ok"]
    assert bytes(machine.output) == b"PONG\r\n"
    reported, closed = machine.take_events()
    assert isinstance(reported, ErrorReported)
    assert isinstance(closed, ConnectionClosed)
    assert isinstance(closed.error, ConnectionLostError)
    assert str(closed.error).startswith("nats://h:4222 broke the protocol: ")
    machine.receive(b"MSG a 1 0\r\n\r\n", 0.0)
    assert not machine.has_messages


def test_large_payload_is_received_where_it_stays() -> None:
    machine = opened()
    machine.receive(b"MSG a 1 %d\r\n" % LARGE, 0.0)
    room = machine.room
    assert room is not None
    with memoryview(room) as view:
        view[:] = b"z" * len(view)
    room.advance(LARGE)
    machine.heard(3.0)
    assert machine.room is None
    machine.receive(b"\r\n", 3.0)
    assert machine.take_messages().payloads == [b"z" * LARGE]


# -- pieces

CONVERSATION = (
    HELLO
    + b"PING\r\nPONG\r\nMSG a.b 1 3\r\nxyz\r\n+OK\r\nHMSG a 12 re.ply 12 14\r\nNATS/1.0\r\n\r\nok\r\n"
    + b"-ERR 'Permissions Violation for Subscription to \"x\"'\r\n"
    + b'INFO {"max_payload":9}\r\nMSG c 2 0\r\n\r\nPING\r\n'
)


@pytest.mark.parametrize("end", [b"", b"-ERR 'Slow Consumer'\r\n", b"MSG a 1 2\r\nabc\r\n", b"INFO {\r\n"])
def test_cut_at_every_byte_the_outcome_is_the_same(end: bytes) -> None:
    stream = CONVERSATION + end
    whole = outcome(begun(), [stream])
    assert outcome(begun(), [stream[at : at + 1] for at in range(len(stream))]) == whole
    for at in range(1, len(stream)):
        assert outcome(begun(), [stream[:at], stream[at:]]) == whole


def test_cut_off_at_every_byte_nothing_is_made_up() -> None:
    whole = outcome(begun(), [CONVERSATION])
    for at in range(len(CONVERSATION)):
        machine = begun()
        state, error, output, events, messages = outcome(machine, [CONVERSATION[:at]])
        assert error is None
        assert state is not ConnectionPhase.CLOSED
        assert whole[2].startswith(output)
        assert whole[3][: len(events)] == events
        assert whole[4][: len(messages)] == messages
        machine.close(ConnectionLostError("EOF"))
        assert str(machine.error) == "EOF"


@given(st.lists(st.binary(max_size=40), max_size=8), st.booleans())
def test_whatever_is_said_the_machine_is_in_a_state_and_raises_nothing(
    pieces: list[bytes], greeted: bool
) -> None:
    machine = begun()
    if greeted:
        machine.receive(HELLO, 0.0)
    outcome(machine, pieces)
    assert (machine.error is None) == (machine.state is not ConnectionPhase.CLOSED)


# -- PING


def test_pong_answers_the_ping_before_it_and_no_other() -> None:
    machine = opened()
    machine.receive(b"PONG\r\n" * 3, 0.0)  # nobody asked
    assert machine.pongs == 0
    assert (machine.ping(0.0), machine.ping(0.0)) == (1, 2)
    machine.receive(b"PONG\r\n", 0.0)
    assert machine.pongs == 1
    machine.receive(b"PONG\r\nPONG\r\n", 0.0)
    assert machine.pongs == 2
    assert bytes(machine.output) == b"PING\r\nPING\r\n"


def test_silence_is_asked_and_then_given_up() -> None:
    machine = opened(ping_interval=10.0, ping_max=2)
    assert machine.until_ping(3.0) == 7.0
    machine.keep_alive(9.9)
    assert machine.pings == 0
    machine.keep_alive(10.0)
    machine.keep_alive(15.0)  # too early
    assert (machine.pings, machine.until_ping(15.0)) == (1, 5.0)
    machine.keep_alive(20.0)
    assert machine.take_events() == []
    machine.keep_alive(30.0)
    assert machine.pings == 2
    assert machine.state is ConnectionPhase.CLOSED
    assert str(machine.error) == "nats://h:4222 left 2 PINGs unanswered"


def test_whoever_says_something_is_not_asked() -> None:
    machine = opened(ping_interval=10.0)
    machine.receive(b"+OK\r\n", 8.0)
    assert machine.until_ping(10.0) == 8.0
    machine.heard(9.0)
    assert machine.until_ping(10.0) == 9.0
    machine.keep_alive(18.0)
    assert machine.pings == 0


def test_no_ping_before_the_connection_is_open() -> None:
    machine = begun(ping_interval=1.0)
    machine.keep_alive(5.0)
    assert bytes(machine.output) == b""


# -- bytes out


def test_output_is_kept_until_it_is_taken_or_written_in_parts() -> None:
    machine = opened()
    machine.send(machine.encode(b"a", b"xy", b"r"))
    machine.send(b"UNSUB 1\r\n")
    del machine.output[:4]
    assert bytes(machine.take_output()) == b"a r 2\r\nxy\r\nUNSUB 1\r\n"
    assert machine.take_output() == b""


def test_encode_more_than_the_server_takes_is_an_error() -> None:
    machine = opened()
    assert machine.encode(b"a", b"x" * 60, None, b"HHHH") == b"HPUB a 4 64\r\nHHHH%b\r\n" % (b"x" * 60)
    with pytest.raises(MaxPayloadError, match="65 bytes for 'a', the server takes 64"):
        machine.encode(b"a", b"x" * 61, None, b"HHHH")
    with pytest.raises(ValueError, match="empty or holds"):
        machine.encode(b"a b", b"")


# -- facts of INFO, and subscriptions


def test_info_with_fields_of_other_types_is_read_with_care() -> None:
    info = ServerFacts(
        {"max_payload": True, "nonce": 7, "connect_urls": "a:1", "server_id": None, "version": ["2"]}
    )
    assert (info.max_payload, info.nonce, info.connect_urls) == (ServerFacts().max_payload, None, ())
    assert (info.server_id, info.version) == ("", "")
    for size in (0, -1, "7", 1.5):
        assert ServerFacts({"max_payload": size}).max_payload == ServerFacts().max_payload


def test_subscriptions_are_numbered_once_and_made_again_in_order() -> None:
    subscriptions = SubscriptionTable()
    assert subscriptions.add(b"a") == (1, b"SUB a 1\r\n")
    assert subscriptions.add(b"b.>", b"q") == (2, b"SUB b.> q 2\r\n")
    assert subscriptions.add(b"c") == (3, b"SUB c 3\r\n")
    assert subscriptions.remove(1) == b"UNSUB 1\r\n"
    assert subscriptions.remove(1) == b""
    with pytest.raises(ValueError, match="empty or holds"):
        subscriptions.add(b"a b")
    assert subscriptions.add(b"a") == (4, b"SUB a 4\r\n")
    assert subscriptions.frames() == b"SUB b.> q 2\r\nSUB c 3\r\nSUB a 4\r\n"
    assert len(subscriptions) == 3


def test_address_is_named_in_errors_and_never_the_credentials() -> None:
    machine = begun("nats://user:secret@h:1")
    machine.receive(b"PING\r\n", 0.0)
    assert machine.address == ServerAddress("h", 1, credentials=Credentials("user", "secret"))
    assert "h:1" in str(machine.error)
    assert "secret" not in str(machine.error)
