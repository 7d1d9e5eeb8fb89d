"""The options of leaf nodes: who may connect as one, and the hubs that this server connects to.

Frozen data only, defaults are the Go server's. Durations are seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from headrace import limits
from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.conf.keys import Keyed, key, required

if TYPE_CHECKING:
    from headrace.conf.peer_options import PeerURL
    from headrace.conf.tls_options import TLSOptions


class LeafUser(Keyed, frozen=True):
    """One of `leafnodes { authorization { users } }`."""

    HIDDEN = frozenset({"password"})

    user: str = required("Name", aliases=("username",))
    password: str = key("", "Password, or a bcrypt hash of it", aliases=("pass",))
    account: str = key(GLOBAL_ACCOUNT, "Account", shown_default="$G")
    proxy_required: bool = key(False, "As above")


class LeafAuthorization(Keyed, frozen=True):
    """The users of leaf nodes, in place of the server's users: one user, one nkey, or several users.

    `account`: of the one user or nkey, and of everybody where nobody needs credentials. `timeout` None: 2 s,
    and a second more than TLS may take.
    """

    HIDDEN = frozenset({"password"})

    user: str | None = key(None, "The only user", aliases=("username",))
    password: str | None = key(None, "Its password, or a bcrypt hash of it", aliases=("pass",))
    nkey: str | None = key(None, "The only user's public key, in the place of both")
    account: str = key(
        GLOBAL_ACCOUNT, "Its account; of everybody where nobody needs credentials", shown_default="$G"
    )
    users: tuple[LeafUser, ...] = key(
        (), "Several: `user`, `password`, `account`, `proxy_required`", "list of maps"
    )
    timeout: float | None = key(
        None, "Time a leaf node has for CONNECT", "seconds or duration", shown_default="2s"
    )
    proxy_required: bool = key(False, "Refuse leaf nodes: there are no proxies for them")

    @property
    def has_users(self) -> bool:
        return bool(self.user or self.nkey or self.users)


class ClientTLS(Struct, frozen=True):
    """TLS towards a server that is connected to. `files` None: no certificate of one's own, the system's
    authorities. `insecure`: whoever it is is believed to be the right one."""

    files: TLSOptions | None = None
    insecure: bool = False


class LeafProxy(Keyed, frozen=True):
    """An HTTP proxy on the way to a hub. `timeout` None: that for reaching the hub."""

    HIDDEN = frozenset({"password"})

    host: str
    port: int
    user: str = key("", "User the proxy asks for", name="username")
    password: str = key("", "And its password")
    timeout: float | None = key(
        None,
        "Time the proxy may take",
        "duration",
        shown_default="that for reaching the hub",
        zero_is_default=True,
    )


class LeafRemote(Keyed, frozen=True):
    """One connection to a hub, for one account here. `urls` are tried in turn.

    `credentials`: a file with a user's token and seed; `nkey`: a seed. `hub`: this server is the hub although
    it connects. `deny_imports`: subjects not wanted from there, `deny_exports`: not sent there.
    `local_isolation`: the other side hears of no other leaf node; `request_isolation`: nor shall this one.
    `dial_timeout` None: that of the block. `compression` and `compression_rtts` as a cluster's.
    Over WebSocket: `ws_compression` asks for permessage-deflate, `ws_no_masking` not to mask what is sent;
    `proxy` is what the hub is reached through.
    """

    HIDDEN = frozenset({"nkey"})

    urls: tuple[PeerURL, ...] = key(
        (),
        "One or several: `nats-leaf://user:password@host:port`; a user without a password is a "
        "token. Port 7422 where there is none",
        aliases=("url",),
    )
    account: str = key(GLOBAL_ACCOUNT, "Account here", aliases=("local",), shown_default="$G")
    credentials: str | None = key(None, "File with a user's token and seed", aliases=("creds",))
    nkey: str | None = key(None, "A user's seed", aliases=("seed",))
    tls: ClientTLS | None = key(
        None,
        "TLS towards the hub: `ca_file`, `cert_file`, `key_file`, `insecure`, `handshake_first`, `timeout`",
        "map",
    )
    hub: bool = key(False, "This server is the hub although it connects")
    deny_imports: tuple[str, ...] = key((), "Subjects not wanted from there", aliases=("deny_import",))
    deny_exports: tuple[str, ...] = key((), "Subjects not sent there", aliases=("deny_export",))
    no_randomize: bool = key(False, "Try the URLs in their order", aliases=("dont_randomize",))
    first_info_timeout: float = key(
        limits.LEAF_INFO_TIMEOUT, "Time the hub has for INFO", zero_is_default=True
    )
    dial_timeout: float | None = key(
        None,
        "Time the connection may take",
        "duration",
        shown_default="that of the block",
        zero_is_default=True,
    )
    local_isolation: bool = key(
        False,
        "The other side hears of no other leaf node",
        name="isolate_leafnode_interest",
        aliases=("isolate",),
    )
    request_isolation: bool = key(False, "Ask the hub for the same")
    ignore_discovered_servers: bool = key(False, "Do not connect to what the hub tells of")
    compression: str = key(
        "s2_auto", "As above", "string, true, false or map", spreads=True, shown_default="s2_auto"
    )
    compression_rtts: tuple[float, ...] = limits.ROUTE_COMPRESSION_RTTS
    disabled: bool = key(False, "Do not connect")
    ws_compression: bool = key(
        False,
        "Over WebSocket (`ws://`, `wss://`): permessage-deflate, where the hub has it",
        aliases=(
            "ws_compress",
            "websocket_compress",
            "websocket_compression",
        ),
    )
    ws_no_masking: bool = key(
        False,
        "Over WebSocket: do not mask what is sent, where the hub agrees; one of Headrace does not",
        aliases=("websocket_no_masking",),
    )
    proxy: LeafProxy | None = key(None, "HTTP proxy on the way to a hub over WebSocket", "map")

    @property
    def is_websocket(self) -> bool:
        """True if the hub is reached over WebSocket: all URLs say the same."""
        return bool(self.urls) and self.urls[0].is_websocket

    def __str__(self) -> str:
        """Return a text that tells the remote from others in messages, without secrets."""
        urls = " ".join(f'"{url.scheme}://{url}"' for url in self.urls)
        proof = f', credentials="{self.credentials}"' if self.credentials else ""
        proof = ', nkey="[REDACTED]"' if self.nkey else proof
        return f'urls=[{urls}], account="{self.account}"{proof}'

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of the remote: no two of a configuration have the same."""
        return self.urls, self.account, self.credentials, self.nkey


class LeafNodeOptions(Keyed, frozen=True):
    """The `leafnodes` block. `port` 0: no leaf node can connect; -1: the system chooses.

    `min_version`: of who connects, "" for any. `isolate`: leaf nodes do not hear of each other. `reconnect`:
    how long to wait before a hub is tried again. `write_deadline` None: the server's. `write_timeout` as a
    cluster's. `dial_timeout`: for reaching a hub. `open_api`: accounts (an empty `default_js_domain`) whose
    links carry JetStream's API without a domain, as links of servers that know no domains do.
    """

    host: str = key(limits.DEFAULT_HOST, "Address for leaf nodes", aliases=("net",), reload="restart")
    port: int = key(
        0,
        "Port for leaf nodes; -1 lets the system choose, 0: there is none",
        shown_default="0",
        reload="restart",
    )
    advertise: str | None = key(
        None, "Address told to leaf nodes", '"host:port"', aliases=("leafnode_advertise",)
    )
    no_advertise: bool = key(
        False, "Tell leaf nodes of no other server of the cluster, nor others of this port"
    )
    authorization: LeafAuthorization = key(
        LeafAuthorization(), "Who leaf nodes may be, instead of the server's users; see below", "map"
    )
    tls: TLSOptions | None = key(None, "TLS for leaf nodes, as above", "map")
    min_version: str = key("", "Oldest version of a leaf node, at least 2.8.0", aliases=("minimum_version",))
    isolate: bool = key(
        False, "Leaf nodes do not hear of each other", name="isolate_leafnode_interest", aliases=("isolate",)
    )
    reconnect: float = key(
        limits.LEAF_RETRY,
        "Time before a hub is tried again, and up to as much more",
        aliases=(
            "reconnect_delay",
            "reconnect_interval",
        ),
        zero_is_default=True,
    )
    dial_timeout: float = key(
        limits.ROUTE_DIAL_TIMEOUT, "Time a connection to a hub may take", zero_is_default=True
    )
    write_deadline: float | None = key(
        None, "Time a write may take", "duration", shown_default="the server's", zero_is_default=True
    )
    write_timeout: str = key("default", "As that of a cluster")
    compression: str = key(
        "s2_auto",
        "S2 with leaf nodes, as in a cluster; `true` is `auto`",
        "string, true, false or map",
        spreads=True,
        shown_default="s2_auto",
    )
    compression_rtts: tuple[float, ...] = limits.ROUTE_COMPRESSION_RTTS
    remotes: tuple[LeafRemote, ...] = key((), "Hubs to connect to; see below", "list of maps")
    open_api: frozenset[str] = frozenset()

    @property
    def auth_timeout(self) -> float:
        if self.authorization.timeout:
            return self.authorization.timeout
        return self.tls.timeout + 1.0 if self.tls else limits.LEAF_AUTH_TIMEOUT
