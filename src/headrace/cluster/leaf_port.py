"""What leaf nodes are given by whoever has sockets, users and accounts. Contracts only.

The life of a connection is that of `headrace.cluster.port`, but for TLS: INFO comes before it, unless it
comes first on both sides. Who accepts a connection with TLS sends `LeafSession.greeting` itself, then opens
TLS, then calls `opened`; who dials reads the first INFO, opens TLS when that or the remote asks for it, and
hands over all it has read as the first bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from headrace.cluster.port import Host, SessionT_contra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.cluster.port import Wire
    from headrace.conf.leaf_options import LeafRemote
    from headrace.conf.options import Permissions
    from headrace.conf.peer_options import PeerURL
    from headrace.protocol.peers import LeafConnect


class LeafGrant(Struct, frozen=True):
    """Who a leaf node is let in as: its account here, and what its user may do (None: everything)."""

    account: str
    permissions: Permissions | None = None
    user: str = ""


class LeafPort(Host, Protocol[SessionT_contra]):
    """What the leaf nodes of a server need of it.

    `identity` also has ip of the port for leaf nodes, jetstream, domain, api_lvl, info_on_connect,
    leafnode_urls and compression, but nothing that concerns one connection.
    """

    @property
    def has_headers(self) -> bool:
        """Whether messages may have headers here."""

    @property
    def cluster_name(self) -> str:
        """That of this server's cluster; its own name where it has none and connects to hubs; else ""."""

    @property
    def system_account(self) -> str | None: ...

    def dial(
        self,
        remote: LeafRemote,
        url: PeerURL,
        connected: Callable[[Wire], SessionT_contra | None],
        failed: Callable[[str | None], object],
    ) -> None:
        """Connects to a hub; one of the two is called, later and once.

        `failed` gets the reason as text; None when something else has said it.
        """

    def always_wanted(self, account: str) -> Iterable[bytes]:
        """Subjects that are wanted in an account whoever subscribes: those of its mappings."""

    def has_room(self, account: str) -> bool:
        """Whether one more leaf node may be in that account."""

    def authenticate(
        self,
        session: SessionT_contra,
        text: bytes,
        given: LeafConnect,
        decided: Callable[[LeafGrant | None], None],
    ) -> None:
        """Decides about a CONNECT, whose JSON is `text` too; `decided` is called once, perhaps at once.

        None: it may not be here. Why is in the log then, unless it is nothing but wrong.
        """

    def proof(self, remote: LeafRemote, nonce: str) -> dict[str, str]:
        """Fields of CONNECT that prove who this server is by a key: jwt, nkey and sig.

        Raises: SeedError for files and seeds that are no use.
        """

    def request_info(
        self, session: SessionT_contra, *, shares: bool, service: str | None, names_server: bool
    ) -> bytes | None:
        """What a service of another account is told of requests that came over this connection."""

    def registered(self, session: SessionT_contra) -> None:
        """Interest and messages pass."""

    def ended(self, session: SessionT_contra) -> None:
        """They do not any more. Only called for a connection that was registered."""

    def forget(self, session: SessionT_contra) -> None:
        """The connection is over, whether it was registered or not."""
