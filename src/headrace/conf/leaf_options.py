"""What the configuration says of leaf nodes: who may connect as one, and which hubs this server connects to.

Frozen data only, defaults are the Go server's. Durations are seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from headrace import limits
from headrace.conf.options import GLOBAL_ACCOUNT
from headrace.structures import Discreet

if TYPE_CHECKING:
    from headrace.conf.peer_options import PeerURL
    from headrace.conf.tls_options import TLSOptions


class LeafUser(Discreet, frozen=True):
    """One of `leafnodes { authorization { users } }`."""

    HIDDEN = frozenset({"password"})

    user: str
    password: str = ""
    account: str = GLOBAL_ACCOUNT
    proxy_required: bool = False


class LeafAuthorization(Discreet, frozen=True):
    """Who leaf nodes may be, instead of the server's users: one user, one nkey, or several users.

    `account`: of the one user or nkey, and of everybody where nobody needs credentials. `timeout` None: 2 s,
    and a second more than TLS may take.
    """

    HIDDEN = frozenset({"password"})

    user: str | None = None
    password: str | None = None
    nkey: str | None = None
    account: str = GLOBAL_ACCOUNT
    users: tuple[LeafUser, ...] = ()
    timeout: float | None = None
    proxy_required: bool = False

    @property
    def has_users(self) -> bool:
        return bool(self.user or self.nkey or self.users)


class ClientTLS(Struct, frozen=True):
    """TLS towards a server that is connected to. `files` None: no certificate of one's own, the system's
    authorities. `insecure`: whoever it is is believed to be the right one."""

    files: TLSOptions | None = None
    insecure: bool = False


class LeafProxy(Discreet, frozen=True):
    """An HTTP proxy on the way to a hub. `timeout` None: that for reaching the hub."""

    HIDDEN = frozenset({"password"})

    host: str
    port: int
    user: str = ""
    password: str = ""
    timeout: float | None = None


class LeafRemote(Discreet, frozen=True):
    """One connection to a hub, for one account here. `urls` are tried in turn.

    `credentials`: a file with a user's token and seed; `nkey`: a seed. `hub`: this server is the hub although
    it connects. `deny_imports`: subjects not wanted from there, `deny_exports`: not sent there.
    `local_isolation`: the other side hears of no other leaf node; `request_isolation`: nor shall this one.
    `dial_timeout` None: that of the block. `compression` and `compression_rtts` as a cluster's.
    Over WebSocket: `ws_compression` asks for permessage-deflate, `ws_no_masking` not to mask what is sent;
    `proxy` is what the hub is reached through.
    """

    HIDDEN = frozenset({"nkey"})

    urls: tuple[PeerURL, ...] = ()
    account: str = GLOBAL_ACCOUNT
    credentials: str | None = None
    nkey: str | None = None
    tls: ClientTLS | None = None
    hub: bool = False
    deny_imports: tuple[str, ...] = ()
    deny_exports: tuple[str, ...] = ()
    no_randomize: bool = False
    first_info_timeout: float = limits.LEAF_INFO_TIMEOUT
    dial_timeout: float | None = None
    local_isolation: bool = False
    request_isolation: bool = False
    ignore_discovered_servers: bool = False
    compression: str = "s2_auto"
    compression_rtts: tuple[float, ...] = limits.ROUTE_COMPRESSION_RTTS
    disabled: bool = False
    ws_compression: bool = False
    ws_no_masking: bool = False
    proxy: LeafProxy | None = None

    @property
    def is_websocket(self) -> bool:
        """Whether its hub is reached over WebSocket: all URLs say the same."""
        return bool(self.urls) and self.urls[0].is_websocket

    def __str__(self) -> str:
        """What tells it apart from others, as messages show it: without secrets."""
        urls = " ".join(f'"{url.scheme}://{url}"' for url in self.urls)
        proof = f', credentials="{self.credentials}"' if self.credentials else ""
        proof = ', nkey="[REDACTED]"' if self.nkey else proof
        return f'urls=[{urls}], account="{self.account}"{proof}'

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it this one: no two of a configuration have the same."""
        return self.urls, self.account, self.credentials, self.nkey


class LeafNodeOptions(Struct, frozen=True):
    """The `leafnodes` block. `port` 0: nobody connects here, -1: the system chooses.

    `min_version`: of who connects, "" for any. `isolate`: leaf nodes do not hear of each other. `reconnect`:
    how long to wait before a hub is tried again. `write_deadline` None: the server's. `write_timeout` as a
    cluster's. `dial_timeout`: for reaching a hub. `open_api`: accounts (an empty `default_js_domain`) whose
    links carry JetStream's API without a domain, as links of servers that know no domains do.
    """

    host: str = limits.DEFAULT_HOST
    port: int = 0
    advertise: str | None = None
    no_advertise: bool = False
    authorization: LeafAuthorization = LeafAuthorization()
    tls: TLSOptions | None = None
    min_version: str = ""
    isolate: bool = False
    reconnect: float = limits.LEAF_RETRY
    dial_timeout: float = limits.ROUTE_DIAL_TIMEOUT
    write_deadline: float | None = None
    write_timeout: str = "default"
    compression: str = "s2_auto"
    compression_rtts: tuple[float, ...] = limits.ROUTE_COMPRESSION_RTTS
    remotes: tuple[LeafRemote, ...] = ()
    open_api: frozenset[str] = frozenset()

    @property
    def auth_timeout(self) -> float:
        if self.authorization.timeout:
            return self.authorization.timeout
        return self.tls.timeout + 1.0 if self.tls else limits.LEAF_AUTH_TIMEOUT
