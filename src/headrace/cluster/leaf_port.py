"""The contract between leaf links and whoever has sockets, users and accounts.

The life of a connection is that of `headrace.cluster.port`, but for TLS: INFO comes before it, unless it
comes first on both sides. Who accepts a connection with TLS sends `LeafSession.greeting` itself, then opens
TLS, then calls `opened`; who dials reads the first INFO, opens TLS when that or the remote asks for it, and
hands over all it has read as the first bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from headrace.cluster.port import ClusterHost, SessionT_contra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.cluster.port import Wire
    from headrace.conf.account_options import Permissions
    from headrace.conf.leaf_options import LeafRemote
    from headrace.conf.peer_options import PeerURL
    from headrace.protocol.peers import LeafConnect


class LeafGrant(Struct, frozen=True):
    """The account of a leaf node that is let in, and its user's permissions (None: everything)."""

    account: str
    permissions: Permissions | None = None
    user: str = ""


class LeafPort(ClusterHost, Protocol[SessionT_contra]):
    """The server as its leaf links see it.

    `identity` also has ip of the port for leaf nodes, jetstream, domain, api_lvl, info_on_connect,
    leafnode_urls and compression, but nothing that concerns one connection.
    """

    @property
    def has_headers(self) -> bool:
        """True where messages may have headers."""

    @property
    def cluster_name(self) -> str:
        """The name of this server's cluster; its own name where it has none and connects to hubs; else ""."""

    @property
    def system_account(self) -> str | None: ...

    def dial(
        self,
        remote: LeafRemote,
        url: PeerURL,
        connected: Callable[[Wire], SessionT_contra | None],
        failed: Callable[[str | None], object],
    ) -> None:
        """Connect to a hub; one of the two is called, later and once.

        `failed` gets the reason as text; None when something else has said it.
        """

    def always_wanted(self, account: str) -> Iterable[bytes]:
        """Subjects that are wanted in an account whoever subscribes: those of its mappings."""

    def has_room(self, account: str) -> bool:
        """Return True when one more leaf node may be in that account."""

    def authenticate(
        self,
        session: SessionT_contra,
        text: bytes,
        given: LeafConnect,
        decided: Callable[[LeafGrant | None], None],
    ) -> None:
        """Decide about a CONNECT, whose JSON is `text` too; `decided` is called once, perhaps at once.

        None: it may not be here. Why is in the log then, unless it is nothing but wrong.
        """

    def proof(self, remote: LeafRemote, nonce: str) -> dict[str, str]:
        """Fields of CONNECT that prove by a key who this server is: jwt, nkey and sig.

        Raises: SeedError for files and seeds that are no use.
        """

    def request_info(
        self, session: SessionT_contra, *, shares: bool, service: str | None, names_server: bool
    ) -> bytes | None:
        """The `Nats-Request-Info` of requests that came over this connection; None: there is none."""

    def registered(self, session: SessionT_contra) -> None:
        """Note a connection over which interest and messages pass from now on."""

    def ended(self, session: SessionT_contra) -> None:
        """Note the end of a connection that was registered."""

    def forget(self, session: SessionT_contra) -> None:
        """Forget a connection that is over, registered or not."""
