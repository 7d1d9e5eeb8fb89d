"""A mesh with one port that does nothing by itself: tests say what bytes come, and see what goes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from headrace.cluster.mesh import Mesh
from headrace.cluster.port import Address
from headrace.conf.account_options import AccountOptions
from headrace.conf.options import Options
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.core.accounts import Accounts
from headrace.engine.client import ClientLink
from headrace.engine.link import Router
from headrace.engine.reasons import CloseReason
from headrace.protocol.peers import PeerInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.cluster.route import RouteSession
    from headrace.core.accounts import Meter
    from headrace.engine.interest import Interest

HOST = Address("127.0.0.1", 6222)
PEER = PeerURL("127.0.0.1", 6333)

INFO = (
    b'INFO {"server_id":"NME","server_name":"me","version":"2.15.1","proto":3,"git_commit":"headrace-1",'
    b'"go":"python3","host":"0.0.0.0","port":6222,"headers":true,"max_payload":1048576,"nonce":"NONCE",'
    b'"cluster":"C1","compression":"off","lnoc":true,"lnocu":true%s}\r\n'
)
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"name":"NPEER","cluster":"C1","headers":true}\r\n'
PEER_INFO = (
    b'INFO {"server_id":"NPEER","server_name":"peer","version":"2.10.0","proto":1,"host":"127.0.0.1",'
    b'"port":6333,"headers":true,"max_payload":1048576,"cluster":"C1","lnoc":true,"lnocu":true%s}\r\n'
)
POOLED = b',"route_pool_size":3'


@dataclass(eq=False)
class TestTimer:
    __test__ = False
    seconds: float
    call: Callable[[], object] | None

    def cancel(self) -> None:
        self.call = None


@dataclass(eq=False)
class TestWire:
    """A connection whose other end is the test: `says` is what came in, `said` takes what went out."""

    __test__ = False
    port: TestPort
    remote: Address = field(default_factory=lambda: Address("10.9.8.7", 45678))
    number: int = 1
    lines: list[str] = field(default_factory=list)
    session: RouteSession = field(init=False)
    reason: CloseReason | None = None

    def log(self, level: int, text: str) -> None:
        self.lines.append(text)

    def trace(self, op: str, arguments: bytes, payload: bytes | None) -> None:
        self.lines.append(f"<<- {op}")

    def trace_delivery(self, subject: bytes, key: bytes, reply: bytes, headers: int, size: int) -> None:
        self.lines.append(f"->> {subject!r}")

    def resume(self) -> None:
        self.session.link.release()
        self.session.link.feed(b"")

    def says(self, data: bytes) -> bytes:
        """What goes out after that has come in."""
        self.session.link.feed(data)
        return self.said()

    def said(self) -> bytes:
        self.port.settle()
        return self.session.link.take() if self.reason is None else self._last

    _last: bytes = b""

    def over(self) -> None:
        self._last = self.session.link.take()
        self.reason = CloseReason(self.session.link.reason)
        self.session.ended(self.reason)
        self.session.link.detach()

    def lost(self) -> None:
        """The other end is gone."""
        self.session.link.doom(CloseReason.CLIENT_CLOSED)
        self.port.settle()


class TestPort:
    """`dials` are attempts that wait for the test to answer them."""

    __test__ = False
    max_payload = 1 << 20
    max_control_line = 4096
    ping_interval = 120.0
    ping_max = 2

    def __init__(self, options: ClusterOptions, accounts: Iterable[str] = (), **identity: Any) -> None:
        self.router = Router()
        self.now = 1_000_000_000
        self.timers: list[TestTimer] = []
        self.dials: list[tuple[Address, Callable[..., Any], Callable[..., Any]]] = []
        self.lines: list[str] = []
        self.ends: list[str] = []
        self.have_left: list[str] = []
        self.heard_anew = 0
        self.told_clients = 0
        self.names = 0
        self.wires: list[TestWire] = []
        self.own = replace(
            PeerInfo(
                server_id="NME",
                server_name="me",
                version="2.15.1",
                proto=3,
                git_commit="headrace-1",
                go="python3",
                host="0.0.0.0",
                port=6222,
                headers=True,
                auth_required=options.user is not None,
                max_payload=1048576,
            ),
            **identity,
        )
        self.accounts = Accounts(
            Options(accounts=tuple(map(AccountOptions, accounts))), self.router, self._failed, self._no_meter
        )
        self.mesh = Mesh(self, options, "$SYS")

    def identity(self) -> PeerInfo:
        return self.own

    def now_ns(self) -> int:
        return self.now

    def reports(self, attempts: int, *, is_first: bool) -> bool:
        return attempts == 1 or not is_first

    def call_later(self, seconds: float, call: Callable[[], object]) -> TestTimer:
        timer = TestTimer(seconds, call)
        self.timers.append(timer)
        return timer

    def random(self) -> float:
        return 0.5

    def new_nonce(self) -> str:
        return "NONCE"

    def new_name(self) -> str:
        self.names += 1
        return f"made-up-{self.names}"

    def wake(self) -> None:
        """Tests settle when they look."""

    def dial(self, address: Address, connected: Callable[..., Any], failed: Callable[..., Any]) -> None:
        self.dials.append((address, connected, failed))

    def account_names(self) -> list[str]:
        return [account.name for account in self.accounts]

    def interest(self, account: str) -> Interest | None:
        return self.accounts[account].interest if account in self.accounts else None

    def compare(self, stored: str, given: str, judged: Callable[[bool], object]) -> None:
        judged(stored == given)

    def left(self, server_id: str) -> None:
        self.have_left.append(server_id)

    def hear_anew(self, change: Callable[[], object]) -> None:
        self.heard_anew += 1
        change()

    def must_end(self, reason: str) -> None:
        self.ends.append(reason)

    def peers_changed(self) -> None:
        self.told_clients += 1

    def log(self, level: int, text: str) -> None:
        self.lines.append(text)

    def _failed(self, error: Exception) -> None:
        raise error

    def _no_meter(self, *_: object) -> Meter:
        raise NotImplementedError

    # -- what tests do ----------------------------------------------------------------------------

    def accepts(self) -> TestWire:
        """A server connected. What was said to it first is waiting."""
        wire = TestWire(self)
        session = self.mesh.accepted(wire)
        assert session is not None
        return self._opened(wire, session)

    def reaches(self, number: int = 0) -> TestWire:
        """A dial succeeds."""
        _, connected, _ = self.dials.pop(number)
        wire = TestWire(self)
        session = connected(wire)
        assert session is not None
        return self._opened(wire, session)

    def _opened(self, wire: TestWire, session: RouteSession) -> TestWire:
        wire.session = session
        self.wires.append(wire)
        session.opened()
        return wire

    def settle(self) -> None:
        self.router.touch()
        for link in self.router.end_tick():
            next(wire for wire in self.wires if wire.session is link.session).over()

    def due(self, seconds: float) -> None:
        """The timers that were set for that many seconds call, once."""
        for timer in [each for each in self.timers if each.call is not None and each.seconds == seconds]:
            call, timer.call = timer.call, None
            assert call is not None
            call()
        self.settle()

    def waits(self) -> list[float]:
        return sorted(timer.seconds for timer in self.timers if timer.call is not None)

    def client(self, account: str = "$G") -> ClientLink:
        link = ClientLink(self.router, None)
        link.interest = self.accounts[account].interest
        return link

    def stop(self) -> None:
        self.mesh.stop()
        self.settle()
        self.accounts.close()


class Made:
    """What makes ports, and keeps them; the cluster is C1 and has no pool unless something else is said."""

    def __init__(self) -> None:
        self.ports: list[TestPort] = []

    def __call__(
        self, known: Iterable[str] = (), /, own: dict[str, Any] | None = None, **given: Any
    ) -> TestPort:
        options = ClusterOptions(**{"name": "C1", "pool_size": -1, "compression": "off", **given})
        port = TestPort(options, known, **(own or {}))
        port.mesh.start()
        self.ports.append(port)
        return port
