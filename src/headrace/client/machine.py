"""One connection to a NATS server as a machine: bytes and calls in; bytes, messages and events out.

    machine = ClientMachine(address, options, credentials)
    machine.begin(now)                   # the transport is connected
    machine.receive(data, now)           # what was read from it
    machine.take_events()                # what its owner has to do: UpgradeToTLS, ConnectionOpened, ...
    machine.take_messages()              # columns, in order of arrival
    machine.take_output()                # bytes to write to it

No socket, no clock, no thread: `now` is in seconds of any clock that never goes back. Whoever owns a machine
connects, shakes hands over TLS, reads, writes and waits (`handshake` and `blocking` with a socket,
`headrace.attached.connection` with asyncio). A machine is for one connection; a client that connects again
makes another one, and what outlives a connection is in `subscriptions`.

States: GREETING (INFO is awaited), SECURING (a TLS handshake is its owner's turn), CONNECTING (CONNECT was
sent), OPEN, CLOSED. Bytes that come before a TLS handshake and behind INFO are refused: whoever is on the way
could have written them. Sources: client protocol specification, sections 1 and 2; nats.go.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.client.codec import (
    PING,
    PONG,
    Control,
    FrameParser,
    MessageBatch,
    Op,
    encode_connect,
    encode_pub,
)
from headrace.client.errors import (
    ClientError,
    ConnectError,
    ConnectionLostError,
    CredentialsError,
    MaxPayloadError,
    ServerError,
)
from headrace.client.server_info import ServerFacts
from headrace.errors import ProtocolError
from headrace.version import __version__

if TYPE_CHECKING:
    from headrace.client.address import Credentials, ServerAddress
    from headrace.client.options import ConnectOptions
    from headrace.engine.frames import Payload

NON_FATAL: Final = (
    "Permissions Violation",
    "Invalid Subject",
    "Invalid Publish Subject",
    "maximum subscriptions exceeded",
)
"""Beginnings of the error texts after which the server keeps the connection; all others end it."""


class ConnectionPhase(Enum):
    """The phase that a connection is in."""

    GREETING = "greeting"
    """The server's INFO is awaited."""
    SECURING = "securing"
    """The owner shakes hands over TLS, then calls `secured`."""
    CONNECTING = "connecting"
    """CONNECT and PING were sent, the PONG is awaited that proves that the server took them."""
    OPEN = "open"
    CLOSED = "closed"


class _PlainEvent:
    """An event; two of one kind that say the same are equal."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _PlainEvent) and type(self) is type(other) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash((type(self), self._said()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._said()))})"

    def _said(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)


class UpgradeToTLS(_PlainEvent):
    """The owner must shake hands over TLS now and call `secured`. No byte is read or written before."""

    __slots__ = ()


class ConnectionOpened(_PlainEvent):
    """The server has taken CONNECT."""

    __slots__ = ()


class InfoChanged(_PlainEvent):
    """An open connection was told another INFO."""

    __slots__ = ("info",)

    def __init__(self, info: ServerFacts) -> None:
        self.info = info


class ErrorReported(_PlainEvent):
    """The server said -ERR on an open connection. If it is fatal, the server closes behind it."""

    __slots__ = ("error",)

    def __init__(self, error: ServerError) -> None:
        self.error = error


class ConnectionClosed(_PlainEvent):
    """The connection is over, because of this; the owner closes its transport."""

    __slots__ = ("error",)

    def __init__(self, error: ClientError) -> None:
        self.error = error


Event = UpgradeToTLS | ConnectionOpened | InfoChanged | ErrorReported | ConnectionClosed


class ClientMachine:
    """One connection to the server at `address`.

    `options` and `credentials` are those of CONNECT. Whatever goes wrong with the connection is an event and
    is in `error`; only what its owner does wrong is raised.
    """

    def __init__(self, address: ServerAddress, options: ConnectOptions, credentials: Credentials) -> None:
        self.address: Final = address
        self.info = ServerFacts()
        self.state = ConnectionPhase.GREETING
        self.error: ClientError | None = None
        """The reason why a closed connection is over."""
        self.output = bytearray()
        """Bytes to write. An owner that writes a part of them removes that part, or calls `take_output`."""
        self.pings = 0
        """PINGs sent on the open connection."""
        self.pongs = 0
        """PINGs answered: once it is n, the server has handled what was sent before the n-th PING."""
        self._options = options
        self._credentials = credentials
        self._parser = FrameParser()
        self._events: list[Event] = []
        self._reported: ServerError | None = None
        self._heard_at = self._asked_at = 0.0

    # -- bytes in -----------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Start: the transport is connected."""
        self._heard_at = now
        if self._options.tls_first:
            self.state = ConnectionPhase.SECURING
            self._events.append(UpgradeToTLS())

    def secured(self) -> None:
        """Go on: the TLS handshake that was asked for is over. Raises: RuntimeError if none was."""
        if self.state is ConnectionPhase.CLOSED:
            return
        if self.state is not ConnectionPhase.SECURING:
            raise RuntimeError(f"no TLS handshake was asked for: the connection is {self.state.value}")
        if self._options.tls_first:
            self.state = ConnectionPhase.GREETING
        else:
            self._connect()

    def receive(self, data: bytes, now: float) -> None:
        """Take bytes that were read, after a TLS handshake decrypted. Those behind the end are dropped."""
        if self.state is ConnectionPhase.CLOSED:
            return
        if self._is_securing:
            self.close(self._early())
            return
        self._heard_at = now
        broken: ProtocolError | None = None
        try:
            self._parser.feed(data)
        except ProtocolError as error:
            broken = error
        for control in self._parser.take_controls():
            self._handle(control)
        if self._is_securing and (broken is not None or not self._parser.is_empty):
            self.close(self._early())
        elif broken is not None:
            self._break(broken)

    def heard(self, now: float) -> None:
        """Note that bytes came, for an owner that received them into `room`."""
        self._heard_at = now

    @property
    def room(self) -> Payload | None:
        """The buffer that the next bytes belong into, while a large payload comes; else None.

        An owner that can receives into it and calls `Payload.advance` and `heard`. Any may ignore it.
        """
        return self._parser.room()

    @property
    def expected(self) -> int:
        """The number of bytes to ask for in one read."""
        return self._parser.expected

    # -- messages, events and bytes out -------------------------------------------------------------

    @property
    def has_messages(self) -> bool:
        return self._parser.has_messages

    def take_messages(self) -> MessageBatch:
        """Return the messages since the last call. Those that came before an error are among them."""
        return self._parser.take_messages()

    def take_events(self) -> list[Event]:
        """Return the events since the last call; their order among the messages is not kept."""
        if not self._events:
            return []
        events, self._events = self._events, []
        return events

    def take_output(self) -> bytearray:
        """Return all bytes to write; they are the caller's now."""
        output, self.output = self.output, bytearray()
        return output

    # -- calls --------------------------------------------------------------------------------------

    def send(self, frames: bytes) -> None:
        """Queue encoded frames of an open connection."""
        self.output += frames

    def encode(self, subject: bytes, payload: bytes, reply: bytes | None = None, block: bytes = b"") -> bytes:
        """Return the frame of a message; `block` is its header block.

        Raises: MaxPayloadError for more than the server takes; ValueError for a subject with a separator.
        """
        size = len(block) + len(payload)
        if size > self.info.max_payload:
            name = subject.decode("utf-8", "backslashreplace")
            raise MaxPayloadError(f"{size} bytes for {name!r}, the server takes {self.info.max_payload}")
        return encode_pub(subject, payload, reply, block)

    def ping(self, now: float) -> int:
        """Queue a PING and return its number; see `pongs`."""
        self.output += PING
        self.pings += 1
        self._asked_at = now
        return self.pings

    def until_ping(self, now: float) -> float:
        """Return the seconds until `keep_alive` is due; 0 if it is."""
        return max(max(self._heard_at, self._asked_at) + self._options.ping_interval - now, 0.0)

    def keep_alive(self, now: float) -> None:
        """Queue a PING if the server has been silent for long, or give it up after several."""
        if self.state is not ConnectionPhase.OPEN or self.until_ping(now) > 0:
            return
        if self.pings - self.pongs >= self._options.ping_max:
            self.close(ConnectionLostError(f"{self.address} left {self._options.ping_max} PINGs unanswered"))
        else:
            self.ping(now)

    def close(self, error: ClientError) -> None:
        """End: the transport is closed, broke or is given up because of `error`.

        A fatal -ERR that came before says more, and is the reason then. Nothing happens the second time.
        """
        if self.state is ConnectionPhase.CLOSED:
            return
        self.state = ConnectionPhase.CLOSED
        self.error = self._reported or error
        self._events.append(ConnectionClosed(self.error))

    @property
    def _is_securing(self) -> bool:
        return self.state is ConnectionPhase.SECURING

    # -- operations of the server -------------------------------------------------------------------

    def _handle(self, control: Control) -> None:
        if control.op is Op.ERR and self.state is not ConnectionPhase.OPEN:
            self.close(server_error(control))
            return
        match self.state:
            case ConnectionPhase.GREETING:
                self._greeted(control)
            case ConnectionPhase.SECURING:
                self.close(self._early())
            case ConnectionPhase.CONNECTING | ConnectionPhase.OPEN:
                self._told(control)
            case ConnectionPhase.CLOSED:
                return  # said behind what ended the connection

    def _greeted(self, control: Control) -> None:
        if control.op is not Op.INFO:
            said = control.op.value.decode()
            self.close(ConnectError(f"{self.address} does not greet like a NATS server (it sent {said})"))
            return
        if not self._learn(control):
            return
        wanted = self.address.tls or self._options.tls is not None
        if self._options.tls_first or not (wanted or self.info.requires_tls):
            self._connect()
        elif self.info.offers_tls:
            self.state = ConnectionPhase.SECURING
            self._events.append(UpgradeToTLS())
        else:
            self.close(ConnectError(f"{self.address} does not offer TLS"))

    def _connect(self) -> None:
        try:
            fields = connect_fields(self._credentials, self._options, self.info)
        except CredentialsError as error:
            self.close(error)
            return
        self.state = ConnectionPhase.CONNECTING
        self.output += encode_connect(fields) + PING

    def _told(self, control: Control) -> None:
        match control.op:
            case Op.PING:
                self.output += PONG
            case Op.PONG if self.state is ConnectionPhase.CONNECTING:
                self.state = ConnectionPhase.OPEN
                self._events.append(ConnectionOpened())
            case Op.PONG:
                self.pongs = min(self.pongs + 1, self.pings)  # one that nobody asked for answers nothing
            case Op.INFO:
                if self._learn(control) and self.state is ConnectionPhase.OPEN:
                    self._events.append(InfoChanged(self.info))
            case Op.ERR:
                error = server_error(control)
                if error.fatal and self._reported is None:
                    self._reported = error
                self._events.append(ErrorReported(error))

    def _learn(self, control: Control) -> bool:
        """Take over an INFO; False if it is none, which ends the connection."""
        try:
            self.info = self.info.updated(control.info())
        except ProtocolError as error:
            self._break(error)
            return False
        return True

    def _break(self, cause: ProtocolError) -> None:
        """End because of bytes that are not the protocol."""
        is_greeted = self.state not in (ConnectionPhase.GREETING, ConnectionPhase.CONNECTING)
        error = (
            ConnectionLostError(f"{self.address} broke the protocol: {cause}")
            if is_greeted
            else ConnectError(f"{self.address} does not speak NATS: {cause}")
        )
        error.__cause__ = cause
        self.close(error)

    def _early(self) -> ConnectError:
        return ConnectError(f"{self.address} sent more than INFO before TLS: it could be anybody's")


def server_error(control: Control) -> ServerError:
    """Return the exception of an -ERR."""
    return ServerError(control.text, fatal=not control.text.startswith(NON_FATAL))


def connect_fields(credentials: Credentials, options: ConnectOptions, info: ServerFacts) -> dict[str, object]:
    """Return the fields of CONNECT. Raises: CredentialsError for a seed that cannot be used."""
    fields: dict[str, object] = {
        "verbose": False,
        "pedantic": False,
        "echo": options.echo,
        "headers": info.has_headers,
        "no_responders": info.has_headers,
        "protocol": 1,
        "lang": "python-headrace",
        "version": __version__,
        "name": options.name,
    }
    if credentials.user is not None:
        fields |= {"user": credentials.user, "pass": credentials.password or ""}
    if credentials.token is not None:
        fields["auth_token"] = credentials.token
    if credentials.seed is not None:
        if info.nonce is None and credentials.jwt is None:
            raise CredentialsError("the server asks for no signature: it knows no users with keys")
        from headrace.protocol.seeds import SeedError  # most users have no keys
        from headrace.protocol.user_seeds import prove

        try:
            # A server without users takes any JWT, and a signature over nothing.
            fields |= prove(credentials.seed, info.nonce or "", jwt=credentials.jwt)
        except SeedError as error:
            raise CredentialsError(str(error)) from None
    return fields
