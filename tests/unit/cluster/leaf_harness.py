"""Leaf nodes with one port that does nothing by itself; see `mesh_harness`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mesh_harness import TestPort, TestWire

from headrace.cluster.leaf_port import LeafGrant
from headrace.cluster.leafs import Leafs
from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote
from headrace.conf.peer_options import ClusterOptions, PeerURL
from headrace.protocol.seeds import SeedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.cluster.leaf import LeafSession

HUB = PeerURL("127.0.0.1", 7422, scheme="nats-leaf")
CONNECT = (
    b'CONNECT {"server_id":"NPEER","name":"peer","cluster":"peers","headers":true,"version":"2.10.0"%s}\r\n'
)
HUB_INFO = (
    b'INFO {"server_id":"NHUB","server_name":"hub","version":"2.15.1","proto":3,"headers":true,"client_id":7,'
    b'"max_payload":1048576,"nonce":"abc","leafnode_urls":["10.0.0.1:7422"]%s}\r\n'
)
ACCEPTED = b'INFO {"server_id":"NHUB","client_id":7,"connect_info":true,"remote_account":"H"%s}\r\n'
ON_CONNECT = b',"info_on_connect":true'


class LeafTestPort(TestPort):
    """`grants` by user name: who may be what; `decisions` wait for the test where `decides_later`."""

    has_headers = True
    system_account = "$SYS"

    def __init__(
        self,
        options: LeafNodeOptions,
        accounts: Iterable[str] = (),
        *,
        cluster_name: str = "",
        **identity: Any,
    ) -> None:
        super().__init__(ClusterOptions(name="C1", pool_size=-1), accounts, **identity)
        self.cluster_name = cluster_name
        self.grants: dict[str, LeafGrant] = {"": LeafGrant("$G")}
        self.decides_later = False
        self.decisions: list[Callable[[], None]] = []
        self.has_place = True
        self.proofs: dict[str, str] | None = {}
        self.always: tuple[bytes, ...] = ()
        self.leafs = Leafs(self, options)  # type: ignore[arg-type]

    def dial(  # type: ignore[override]
        self, _remote: LeafRemote, url: PeerURL, connected: Callable[..., Any], failed: Callable[..., Any]
    ) -> None:
        self.dials.append((url, connected, failed))  # type: ignore[arg-type]

    def authenticate(
        self, _session: LeafSession, _text: bytes, given: Any, decided: Callable[[LeafGrant | None], None]
    ) -> None:
        grant = self.grants.get(given.user)
        if self.decides_later:
            self.decisions.append(lambda: decided(grant))
        else:
            decided(grant)

    def proof(self, _remote: LeafRemote, _nonce: str) -> dict[str, str]:
        if self.proofs is None:
            raise SeedError("cannot read leaf.creds: no such file")
        return self.proofs

    def has_room(self, _account: str) -> bool:
        return self.has_place

    def always_wanted(self, _account: str) -> Iterable[bytes]:
        return self.always

    def request_info(self, *_: Any, **__: Any) -> bytes | None:
        return None

    def registered(self, session: LeafSession) -> None:
        self.lines.append(f"registered {session.account}")

    def ended(self, session: LeafSession) -> None:
        self.lines.append(f"ended {session.account}")

    def forget(self, _session: LeafSession) -> None:
        self.lines.append("forgotten")

    # -- what tests do ----------------------------------------------------------------------------

    def accepts(self) -> TestWire:
        wire = TestWire(self)
        session = self.leafs.accepted(wire)
        assert session is not None
        return self.opened(wire, session)

    def opened(self, wire: TestWire, session: LeafSession) -> TestWire:
        return self._opened(wire, session)  # type: ignore[arg-type]

    def stop(self) -> None:
        self.leafs.stop()
        self.settle()
        self.accounts.close()


class MadeLeafs:
    """What makes ports, and keeps them: `make(accounts, **fields of LeafNodeOptions)`; `remote` for one."""

    def __init__(self) -> None:
        self.ports: list[LeafTestPort] = []

    def __call__(
        self,
        known: Iterable[str] = (),
        /,
        *,
        cluster: str = "",
        own: dict[str, Any] | None = None,
        **given: Any,
    ) -> LeafTestPort:
        given.setdefault("compression", "off")
        port = LeafTestPort(LeafNodeOptions(port=-1, **given), known, cluster_name=cluster, **(own or {}))
        port.leafs.start()
        self.ports.append(port)
        return port

    def remote(self, *urls: PeerURL, own: dict[str, Any] | None = None, **given: Any) -> LeafTestPort:
        """A port with one hub."""
        given.setdefault("compression", "off")
        remote = LeafRemote(urls=urls or (HUB,), no_randomize=True, **given)
        return self(("A",), cluster="leafs", own=own, remotes=(remote,))
