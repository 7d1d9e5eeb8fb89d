"""The options of requests: one JSON object, whose keys and types the Go server's structures give.

Here lives what each request can say and the answer to what cannot be read, word for word as there: the
names of its structures are part of the error texts. Never lives here: what an option does.
Source: the Go server 2.15.1. Keys are found without regard to case, unknown ones and null are passed over,
the last of equal ones counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.errors import HeadraceError
from headrace.protocol.documents import LARGEST
from headrace.protocol.go_json import JSONKind, ValuePlace, only_value
from headrace.protocol.info import folded_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.protocol.go_json import Value

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
TABLES_STATE: Final = _form("TablesStateOptions", offset="int", limit="int")
CONNECTION: Final = Form("KickClientReq", {"cid": "uint64"})
ACCOUNT_CONNECTIONS: Final = Form("accNumConnsReq", {"acc": "string"})


def read(payload: bytes, form: Form) -> dict[str, Any]:
    """The values of the keys that are there; an empty request has none. Raises: BadRequest."""
    if not payload:
        return {}
    if len(payload) > LARGEST:  # here only: there a request may be as large as a message
        raise BadRequest(f"a request of {len(payload)} bytes, {LARGEST} are allowed")
    try:
        value = only_value(payload)
        return {} if value.kind is JSONKind.NULL else _values(value, form)
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _values(value: Value, form: Form) -> dict[str, Any]:
    """Return the values of a request's options. Raises: ValueError."""
    place = ValuePlace(form.name)
    if value.kind is not JSONKind.OBJECT:
        place.refuse(value, f"server.{form.name}")
    found = {}
    for key, given in zip(value.names, value.items, strict=True):
        name = key if key in form.keys else folded_name(key)
        if name in form.keys and given.kind is not JSONKind.NULL:
            found[name] = place.within(key).read(given, form.keys[name])
    return found
