"""The options of requests: one JSON object, whose keys and types the Go server's structures give.

Here lives what each request can say and the answer to what cannot be read, word for word as there: the
names of its structures are part of the error texts. Never lives here: what an option does.
Source: the Go server 2.15.1. Keys are found without regard to case, unknown ones and null are passed over,
the last of equal ones counts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.errors import HeadraceError
from headrace.protocol.documents import LARGEST
from headrace.protocol.go_json import TOO_DEEP, SyntaxProblem, only_value

if TYPE_CHECKING:
    from collections.abc import Mapping

_INT64: Final = range(-(2**63), 2**63)
_UINT64: Final = range(2**64)
_NUMBERS: Final = {
    "int": _INT64,
    "uint64": _UINT64,
    "server.ConnState": _INT64,
    "time.Duration": _INT64,
}
_TEXTS: Final = frozenset(("string", "server.SortOpt"))
_LIST: Final = "[]string"

_FILTERS: Final = {
    "server_name": "string",
    "cluster": "string",
    "host": "string",
    "exact_match": "bool",
    "tags": _LIST,
    "domain": "string",
}


class BadRequest(HeadraceError):
    """A request that cannot be read; the text is the description in the answer."""


class Form(NamedTuple):
    """The form of a request: the name of nats-server's structure, and its keys with their types."""

    name: str
    keys: Mapping[str, str]


def _form(name: str, /, **keys: str) -> Form:
    return Form(name, {**{key.replace("__", "-"): kind for key, kind in keys.items()}, **_FILTERS})


FILTERS: Final = _form("EventFilterOptions")
STATSZ: Final = _form("StatszEventOptions")
VARZ: Final = _form("VarzEventOptions")
EXPVARZ: Final = _form("ExpvarzEventOptions")
ACCOUNT_INFO: Final = _form("AccInfoEventOptions")
ROUTEZ: Final = _form("RoutezEventOptions", subscriptions="bool", subscriptions_detail="bool")
LEAFZ: Final = _form("LeafzEventOptions", subscriptions="bool", account="string")
ACCOUNTZ: Final = _form("AccountzEventOptions", account="string")
ACCOUNT_STATZ: Final = _form("AccountStatzEventOptions", accounts=_LIST, include_unused="bool")
PROFILEZ: Final = _form("ProfilezEventOptions", name="string", debug="int", duration="time.Duration")
IPQUEUESZ: Final = _form("IpqueueszEventOptions", all="bool", filter="string")
RAFTZ: Final = _form("RaftzEventOptions", account="string", group="string")
SUBSZ: Final = _form(
    "SubszEventOptions", offset="int", limit="int", subscriptions="bool", account="string", test="string"
)
CONNZ: Final = _form(
    "ConnzEventOptions",
    sort="server.SortOpt",
    auth="bool",
    subscriptions="bool",
    subscriptions_detail="bool",
    offset="int",
    limit="int",
    cid="uint64",
    mqtt_client="string",
    state="server.ConnState",
    user="string",
    acc="string",
    filter_subject="string",
)
GATEWAYZ: Final = _form(
    "GatewayzEventOptions",
    name="string",
    accounts="bool",
    account_name="string",
    subscriptions="bool",
    subscriptions_detail="bool",
)
JSZ: Final = _form(
    "JszEventOptions",
    account="string",
    accounts="bool",
    streams="bool",
    consumer="bool",
    direct_consumer="bool",
    config="bool",
    leader_only="bool",
    offset="int",
    limit="int",
    raft="bool",
    stream_leader_only="bool",
)
HEALTHZ: Final = _form(
    "HealthzEventOptions",
    js__enabled="bool",
    js__enabled__only="bool",
    js__server__only="bool",
    js__meta__only="bool",
    account="string",
    stream="string",
    consumer="string",
    details="bool",
)
CONNECTION: Final = Form("KickClientReq", {"cid": "uint64"})
ACCOUNT_CONNECTIONS: Final = Form("accNumConnsReq", {"acc": "string"})


def read(payload: bytes, form: Form) -> dict[str, Any]:
    """The values of the keys that are there; an empty request has none. Raises: BadRequest."""
    if not payload:
        return {}
    if len(payload) > LARGEST:  # here only: there a request may be as large as a message
        raise BadRequest(f"a request of {len(payload)} bytes, {LARGEST} are allowed")
    value = _parsed(payload)
    if value is None:
        return {}
    if not isinstance(value, _Pairs):
        raise BadRequest(f"json: cannot unmarshal {_kind(value)} into Go value of type server.{form.name}")
    values: dict[str, Any] = {}
    for key, given in value:
        name = key if key in form.keys else key.casefold()
        if name not in form.keys or given is None:
            continue
        values[name] = _typed(given, form.keys[name], f"{form.name}.{key}")
    return values


class _Pairs(list[tuple[str, Any]]):
    """An object of the request, with keys that stand twice."""


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _parsed(payload: bytes) -> Any:
    try:
        return json.loads(
            payload.decode("utf-8", "replace"),
            object_pairs_hook=_Pairs,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_no_constant,
        )
    except ValueError:
        usual = "invalid JSON"
    except RecursionError:  # many levels, none of which any request has
        usual = TOO_DEEP
    try:
        only_value(payload)
    except SyntaxProblem as problem:
        raise BadRequest(str(problem)) from None
    raise BadRequest(usual)


def _typed(given: Any, kind: str, place: str) -> Any:
    """Raises: BadRequest."""
    if kind == _LIST and isinstance(given, list) and not isinstance(given, _Pairs):
        return [_element(value, f"{place}.{index}") for index, value in enumerate(given)]
    if kind == "bool" and isinstance(given, bool):
        return given
    if kind in _TEXTS and isinstance(given, str) and not isinstance(given, _Number):
        return _clean(given)
    shown = _kind(given)
    if kind in _NUMBERS and isinstance(given, _Number):
        number = _whole(given, _NUMBERS[kind])
        if number is not None:
            return number
        shown += f" {given}"
    raise BadRequest(f"json: cannot unmarshal {shown} into Go struct field {place} of type {kind}")


def _element(given: Any, place: str) -> str:
    """Raises: BadRequest."""
    if given is None:
        return ""
    if not isinstance(given, str) or isinstance(given, _Number):
        raise BadRequest(f"json: cannot unmarshal {_kind(given)} into {place} of type string")
    return _clean(given)


def _clean(text: str) -> str:
    """Without halves of surrogate pairs, which JSON can have and UTF-8 cannot."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _whole(text: _Number, valid: range) -> int | None:
    if not text.lstrip("-").isdecimal() or len(text) > 24 or (text.startswith("-") and valid.start == 0):
        return None
    return int(text) if int(text) in valid else None


def _kind(given: Any) -> str:
    if isinstance(given, _Number):
        return "number"
    if isinstance(given, _Pairs):
        return "object"
    return {bool: "bool", list: "array"}.get(type(given), "string")
