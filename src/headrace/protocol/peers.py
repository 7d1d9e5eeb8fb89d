"""INFO and CONNECT between servers, both directions. Shapes only: who may be a peer is decided in `cluster`.

A field is what it is called on the wire, `import` and `export` excepted, which are `imports` and `exports`
here. Source: cluster specification, B1, and nats-server 2.15.1.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from headrace.errors import ProtocolError
from headrace.protocol.info import JSONObject, folded_name, json_fields
from headrace.structures import Discreet

if TYPE_CHECKING:
    from collections.abc import Callable

_Shape = TypeVar("_Shape", "PeerInfo", "PeerConnect", "LeafConnect")

ROUTE_PROTOCOL: Final = 3
"""INFO `proto` of the version we are compatible with; from ASYNC_INFO on INFO may come at any time."""

ASYNC_INFO: Final = 1
RS_PROTOCOL: Final = 2
"""INFO `proto` from which on routes are those of servers since 2.0."""

TRACE_PROTOCOL: Final = 3
"""INFO `proto` (of leaf nodes CONNECT's `protocol`) from which on a server knows of messages to trace."""

OURS: Final = "headrace-"
"""The beginning of `git_commit` in the INFO of a Headrace server."""

GOSSIP, GOSSIP_NO_FURTHER, GOSSIP_ALWAYS = 0, 1, 2
"""`gossip_mode`: whether a server that is reached because of this INFO is told of to others."""


TELL_OF_GATEWAY, ALL_INTEREST, ALL_INTEREST_TOLD = 1, 2, 3
"""`gateway_cmd`: INFO is about another cluster; all interest in an account follows; and has been told."""


class PeerPermission(Struct, frozen=True):
    """Subjects that a peer imports, or exports. Both empty: all."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class PeerInfo(Struct, frozen=True):
    """The INFO of a server about itself, or about another server, whose `server_id` it then has."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    proto: int = 0
    git_commit: str = ""
    go: str = ""
    host: str = ""
    port: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int = 0
    jetstream: bool = False
    ip: str = ""
    nonce: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    domain: str = ""
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    ldm: bool = False
    compression: str = ""
    imports: PeerPermission | None = None
    exports: PeerPermission | None = None
    lnoc: bool = False
    lnocu: bool = False
    info_on_connect: bool = False
    route_pool_size: int = 0
    route_pool_idx: int = 0
    route_account: str = ""
    route_acc_add_reqid: str = ""
    gossip_mode: int = 0
    gateway: str = ""
    gateway_url: str = ""
    gateway_urls: tuple[str, ...] = ()
    gateway_cmd: int = 0
    gateway_cmd_payload: bytes = b""
    gateway_nrp: bool = False
    gateway_iom: bool = False
    leafnode_urls: tuple[str, ...] = ()
    client_id: int = 0
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    streaming: str = ""
    """The subject of discovery, where the server is a streaming server and no other may be one; Headrace
    only.
    """
    bucket: str = ""
    """The object storage of the server's streams, as a URL; Headrace only."""
    streaming_bucket: str = ""
    """The object storage of the channels of `streaming`, as a URL; Headrace only."""
    serving_ns: int = 0
    """The ns for which the server has served what only one can; 0: it still looks for others.

    Headrace only.
    """
    legacy_routes: bool = False
    """True if routes of servers before 2.0 are spoken too; Headrace only."""
    started_ns: int = 0
    """The start of the server, ns since 1970, where `legacy_routes` are spoken; Headrace only."""

    @classmethod
    def read(cls, text: bytes) -> PeerInfo:
        """The JSON of an INFO; unknown fields are ignored, null leaves a field as it is.

        Raises: ProtocolError when it is not a JSON object or a field has the wrong type.
        """
        return _read(cls, text, "INFO", _INFO_KINDS)

    def line(self) -> bytes:
        """Return the line `INFO {json} CRLF`, without fields that say nothing."""
        return b"INFO " + _json(self, _ALWAYS_IN_INFO) + b"\r\n"

    def legacy(self) -> PeerInfo:
        """Return the part of the INFO that a server before 2.0 understands."""
        known = {name: getattr(self, name) for name in _LEGACY_INFO}
        return PeerInfo(**known | {"proto": min(self.proto, ASYNC_INFO)})

    def legacy_line(self) -> bytes:
        """Return the line `INFO {json} CRLF` as a server before 2.0 says it."""
        return b"INFO " + _json(self.legacy(), _ALWAYS_IN_LEGACY_INFO, _LEGACY_INFO) + b"\r\n"


class PeerConnect(Discreet, frozen=True):
    """The CONNECT of a server that has connected. `name` is its server_id; `lang` is only a client's."""

    HIDDEN = frozenset({"password"})

    echo: bool = False
    verbose: bool = False
    pedantic: bool = False
    user: str = ""
    password: str = ""
    tls_required: bool = False
    headers: bool = False
    name: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    lnoc: bool = False
    lnocu: bool = False
    gateway: str = ""
    lang: str = ""

    @classmethod
    def read(cls, text: bytes) -> PeerConnect:
        """The JSON of a CONNECT, as `PeerInfo.read` reads one."""
        return _read(cls, text, "CONNECT", _CONNECT_KINDS)

    def line(self) -> bytes:
        """Return the line `CONNECT {json} CRLF`, without fields that say nothing."""
        return b"CONNECT " + _json(self, _ALWAYS_IN_CONNECT) + b"\r\n"

    def legacy_line(self) -> bytes:
        """Return the CONNECT line for servers before 2.0.

        `CONNECT {json} CRLF` as a server before 2.0 says it.
        """
        return b"CONNECT " + _json(self, _ALWAYS_IN_LEGACY_CONNECT, _LEGACY_CONNECT) + b"\r\n"


class LeafConnect(Discreet, frozen=True):
    """The CONNECT of a leaf node to its hub. `name` is the server's; `lang` is only a client's.

    `remote_account`: its account there. `deny_pub`: subjects that the hub need not send. `is_hub`: the
    connecting server is the hub all the same. Source: leaf node specification, section 1.
    """

    HIDDEN = frozenset({"jwt", "sig", "password", "auth_token"})

    version: str = ""
    nkey: str = ""
    jwt: str = ""
    sig: str = ""
    user: str = ""
    password: str = ""
    auth_token: str = ""
    server_id: str = ""
    domain: str = ""
    name: str = ""
    is_hub: bool = False
    cluster: str = ""
    headers: bool = False
    jetstream: bool = False
    deny_pub: tuple[str, ...] = ()
    isolate: bool = False
    compress_mode: str = ""
    gateway: str = ""
    remote_account: str = ""
    protocol: int = 0
    lang: str = ""

    @classmethod
    def read(cls, text: bytes) -> LeafConnect:
        """The JSON of a CONNECT, as `PeerInfo.read` reads one."""
        return _read(cls, text, "CONNECT", _LEAF_KINDS)

    def line(self) -> bytes:
        """Return the line `CONNECT {json} CRLF`, without fields that say nothing."""
        return b"CONNECT " + _json(self, frozenset()) + b"\r\n"


# ---- JSON ---------------------------------------------------------------------------------------

_WIRE_NAMES: Final = {
    "imports": "import",
    "exports": "export",
    "password": "pass",
    "streaming": "headrace_streaming",
    "bucket": "headrace_bucket",
    "streaming_bucket": "headrace_streaming_bucket",
    "serving_ns": "headrace_serving_ns",
    "started_ns": "headrace_started_ns",
}
_ALWAYS_IN_INFO: Final = frozenset(
    ["server_id", "server_name", "version", "proto", "go", "host", "port", "headers", "max_payload"]
)
_ALWAYS_IN_CONNECT: Final = frozenset(
    ["echo", "verbose", "pedantic", "tls_required", "headers", "name", "cluster"]
)
# Source: cluster specification A1, and gnatsd 1.4.1.
_ALWAYS_IN_LEGACY_INFO: Final = frozenset(
    ["server_id", "version", "proto", "go", "host", "port", "max_payload"]
)
_LEGACY_INFO: Final = _ALWAYS_IN_LEGACY_INFO | frozenset(
    ["git_commit", "auth_required", "tls_required", "tls_verify", "ip", "connect_urls", "imports", "exports"]
)
_ALWAYS_IN_LEGACY_CONNECT: Final = frozenset(["echo", "verbose", "pedantic", "tls_required", "name"])
_LEGACY_CONNECT: Final = _ALWAYS_IN_LEGACY_CONNECT | frozenset(["user", "password"])


def _words(value: object) -> tuple[str, ...]:
    if type(value) is not list or not all(isinstance(word, str) for word in value):
        raise TypeError("a list of strings")
    return tuple(value)


def _permission(value: object) -> PeerPermission:
    if not isinstance(value, JSONObject):
        raise TypeError("an object")
    lists = {folded_name(name): subjects for name, subjects in value}
    return PeerPermission(_words(lists.get("allow") or []), _words(lists.get("deny") or []))


def _exactly(kind: type) -> Callable[[object], object]:
    def read(value: object) -> object:
        if type(value) is not kind or (isinstance(value, int) and not -(2**63) <= value < 2**63):
            raise TypeError(f"of type {kind.__name__}")
        return value

    return read


def _base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError("of base64")
    try:
        return b64decode(value, validate=True)
    except ValueError:
        raise TypeError("of base64") from None


_READERS: Final[dict[str, Callable[[object], object]]] = {
    "str": _exactly(str),
    "int": _exactly(int),
    "bool": _exactly(bool),
    "bytes": _base64,
    "tuple[str, ...]": _words,
    "PeerPermission | None": _permission,
}


def _kinds(shape: type[Struct]) -> dict[str, tuple[str, Callable[[object], object]]]:
    """Return, by name on the wire, the attribute and the function that reads its value."""
    return {
        _WIRE_NAMES.get(name, name): (name, _READERS[shape.__annotations__[name]])
        for name in shape.__struct_fields__
    }


_INFO_KINDS: Final = _kinds(PeerInfo)
_CONNECT_KINDS: Final = _kinds(PeerConnect)
_LEAF_KINDS: Final = _kinds(LeafConnect)


def _read(
    shape: type[_Shape], text: bytes, op: str, kinds: dict[str, tuple[str, Callable[[object], object]]]
) -> _Shape:
    found: dict[str, Any] = {}
    for name, value in json_fields(text, op):
        kind = kinds.get(name)
        if kind is None or value is None:
            continue
        try:
            found[kind[0]] = kind[1](value)
        except TypeError as error:
            raise ProtocolError(f"{op} field {name!r} is not {error}") from None
    return shape(**found)


def _json(
    shape: PeerInfo | PeerConnect | LeafConnect, always: frozenset[str], only: frozenset[str] | None = None
) -> bytes:
    """Return the fields of a structure as JSON. `only`: no other fields are said; None: all are."""
    said: dict[str, Any] = {}
    for name in shape.__struct_fields__:
        if only is not None and name not in only:
            continue
        value = getattr(shape, name)
        if isinstance(value, PeerPermission):
            lists = (("allow", value.allow), ("deny", value.deny))
            said[_WIRE_NAMES[name]] = {verdict: subjects for verdict, subjects in lists if subjects}
            continue
        if isinstance(value, bytes):
            value = b64encode(value).decode()
        if not value and name not in always:
            continue
        said[_WIRE_NAMES.get(name, name)] = value
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
