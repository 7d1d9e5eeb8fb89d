"""INFO and CONNECT: the JSON that opens a client connection, both directions.

Shapes only; who may connect is decided in `server.auth`.
Source: client protocol specification, section 2.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder, encode
from msgspec.structs import replace

from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPATIBLE_VERSION: Final = "2.15.1"
"""The nats-server version whose client protocol is spoken; clients gate features on it."""

JETSTREAM_API_LEVEL: Final = 5
"""The level of the JetStream API that a request can ask for (`Nats-Required-Api-Level`)."""

PROTOCOL_WITH_ASYNC_INFO: Final = 1
"""CONNECT `protocol` from which a client takes INFO at any time."""


def address_text(host: str, port: int) -> str:
    """Return `host:port`, as `connect_urls`, other URLs and log lines have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ClientConnect(Struct, frozen=True, rename={"password": "pass"}, forbid_unknown_fields=True):
    """A CONNECT as it was sent; fields left out stand at the protocol's defaults.

    Secrets never show in a repr.
    """

    verbose: bool = True
    pedantic: bool = True
    echo: bool = True
    headers: bool = False
    no_responders: bool = False
    tls_required: bool = False
    protocol: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0
    user: str = ""
    password: str = ""
    auth_token: str = ""
    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    name: str = ""
    lang: str = ""
    version: str = ""
    account: str = ""
    new_account: bool = False
    proxy_sig: str = ""

    def __repr__(self) -> str:
        client = f"name={self.name!r}, lang={self.lang!r}, version={self.version!r}"
        return f"ClientConnect({client}, user={self.user!r})"

    def merged(self, text: bytes) -> ClientConnect:
        """Return these options with the fields of a CONNECT's JSON put over them.

        Field names match in any case, unknown ones are ignored, null leaves a field as it is.
        Raises: ProtocolError when it is not a JSON object or a field has the wrong type.
        """
        if self is NO_OPTIONS:
            try:
                return _read_plain(text)
            except (MsgspecError, ValueError):
                pass  # it is unusual, or wrong: which of both is decided here
        given = json_fields(text, "CONNECT")
        return replace(self, **dict(filter(None, map(_option, given))))

    def completed(self, stand_ins: Mapping[str, str]) -> ClientConnect:
        """Return the options with values for fields that were left out."""
        if not stand_ins:
            return self
        lacking = {name: value for name, value in stand_ins.items() if not getattr(self, name)}
        return replace(self, **lacking) if lacking else self


NO_OPTIONS: Final = ClientConnect()
"""The options of a client before its CONNECT."""

_read_plain: Final = Decoder(ClientConnect).decode
"""Reads what nearly all clients send, in one pass: known fields by their exact names, each of its type.

It refuses whatever `json_fields` would understand in another way.
"""


def json_fields(text: bytes, op: str) -> list[tuple[str, Any]]:
    """The fields of a JSON object as they come, with their names folded; null is one without any.

    Raises: ProtocolError, which names `op`, when it is something else.
    """
    try:
        found = _DECODER.decode(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{op} is not valid JSON: {error}") from None
    if found is None:
        return []
    if not isinstance(found, JSONObject):
        raise ProtocolError(f"{op} is not a JSON object")
    return [(folded_name(name), value) for name, value in found]


class JSONObject(list[tuple[str, Any]]):
    """A JSON object with every field it has, also those that are there twice."""


def _option(field: tuple[str, Any]) -> tuple[str, Any] | None:
    """The option that one JSON field sets; None for an unknown field, and for null.

    Raises: ProtocolError when the value has the wrong type.
    """
    key, value = field
    name, kind = _FIELDS.get(key, (key, None))
    if kind is None or value is None:
        return None
    if type(value) is not kind or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        raise ProtocolError(f"CONNECT field {key!r} is not of type {kind.__name__}")
    return name, value


def folded_name(key: str) -> str:
    """Return the name of a JSON field as Go compares names: without regard to case.

    Here and not in `go_json`, which no server without JetStream needs to load.
    """
    if key.isascii() and key.islower():
        return key
    return key.translate(_FOLDED).lower()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=JSONObject, parse_constant=_refuse_constant)
"""Made once: `json.loads` would make one for each CONNECT."""
_FOLDED: Final = str.maketrans({"\u017f": "s", "\u212a": "k"})
"""The two characters beyond ASCII that Go's case folding takes for letters when it matches field names."""

_FIELDS: Final[dict[str, tuple[str, type]]] = {
    wire: (name, type(default))
    for wire, name, default in zip(
        ClientConnect.__struct_encode_fields__,
        ClientConnect.__struct_fields__,
        ClientConnect.__struct_defaults__,
        strict=True,
    )
}
"""The options by their fields' names in the JSON, with the type of each."""


class PortInfo(dict[str, Any]):
    """The fields of INFO that all clients of a port are sent; they do not change.

    Fields that are None, False, "" or empty are not sent, but for those that clients always get.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self._heads: dict[tuple[tuple[str, Any], ...], bytes] = {}

    def line(self, own: Mapping[str, Any]) -> bytes:
        """Return the line `INFO {json} CRLF` for one client.

        `own` are fields in place of common ones, and more of them.

        What is common is rendered once for each combination of fields in its place.
        """
        replaced: tuple[tuple[str, Any], ...] = ()
        rest = {}
        for name, value in own.items():
            if name in self:
                replaced += ((name, value),)
            elif value not in _UNSENT or name in _ALWAYS:
                rest[name] = value
        head = self._heads.get(replaced)
        if head is None:
            head = self._head(replaced)
        return b"%b,%b \r\n" % (head, encode(rest)[1:]) if rest else head + b"} \r\n"

    def _head(self, replaced: tuple[tuple[str, Any], ...]) -> bytes:
        """A line up to the last common field, remembered."""
        fields = {**self, **dict(replaced)}
        kept = {name: value for name, value in fields.items() if value not in _UNSENT or name in _ALWAYS}
        if len(self._heads) == _MOST_HEADS:
            self._heads.clear()
        head = self._heads[replaced] = b"INFO " + encode(kept)[:-1]
        return head


_UNSENT: Final[tuple[object, ...]] = (None, False, "", [], ())
_ALWAYS: Final = frozenset(
    ["server_id", "server_name", "version", "proto", "go", "host", "port", "headers", "max_payload"]
)
_MOST_HEADS: Final = 64
"""Combinations of fields that are remembered: limits of payloads can be in every user's token."""
