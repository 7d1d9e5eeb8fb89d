"""Tables from fields of a token's JSON to attributes of its claims, in both versions.

Here live the tables. Never lives here: how a value is read (`reading`), what it may be (`rules`).
Source: nats-server 2.15.1; where it groups fields (limits, permissions) in its own structures, they lie side
by side in the JSON.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from headrace.protocol.jwt import claims
from headrace.protocol.jwt.reading import (
    FieldsReader,
    ShapeError,
    an_object,
    flag,
    integer,
    list_of,
    map_of,
    read_fields,
    text,
    texts,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.protocol.jwt.reading import Fields, Value

OPERATOR: Final = "operator"
ACCOUNT: Final = "account"
USER: Final = "user"
ACTIVATION: Final = "activation"
AUTHORIZATION_REQUEST: Final = "authorization_request"
AUTHORIZATION_RESPONSE: Final = "authorization_response"

_USER_SCOPE: Final = "user_scope"
_KINDS: Final = ("stream", "service")


def identify(body: Value) -> tuple[str, int]:
    """The type of a token and its version; version 1 has its type outside of `nats`."""
    outer = read_fields(body, {"type": ("kind", text), "nats": ("nats", an_object)})
    inner = read_fields(outer.get("nats", {}), {"type": ("kind", text), "version": ("version", integer)})
    if outer.get("kind"):
        return outer["kind"], 1
    return inner.get("kind", ""), inner.get("version", 0)


def claims_of(body: Value, kind: str, version: int) -> claims.Claims:
    """Return the claims of a token's body.

    Raises: ShapeError if a field is of another type, or there is no such kind in this version.
    """
    outer = read_fields(body, _COMMON)
    nats = outer.pop("nats", {})
    make, fields = _TABLES[kind]
    if version == 1 and kind in _VERSION_1:
        older = _VERSION_1[kind]
        moved = read_fields(body, {"tags": ("tags", texts), **older.outer})
        values = {**older.defaults, **read_fields(nats, older.inner), **moved}
    elif version == 2 or kind in (AUTHORIZATION_REQUEST, AUTHORIZATION_RESPONSE):
        values = read_fields(nats, fields)
    else:
        raise ShapeError(f"version 1 or 2 is supported, not {version}")
    return make(**outer, **_grouped(make, values), version=version)


def fields_of(claimed: claims.Claims) -> tuple[str, Fields, Fields]:
    """The type of such claims, what of them lies outside of `nats`, and what inside."""
    for kind, (make, fields) in _TABLES.items():
        if type(claimed) is make:
            return kind, _OUTSIDE, fields
    raise TypeError("claims of no kind")


def _grouped(make: Callable[..., claims.Claims], values: dict[str, Any]) -> dict[str, Any]:
    """A user's limits stand beside its other fields in the JSON, and together in the claims."""
    if make is not claims.UserClaims:
        return values
    rest: dict[str, Any] = {name: values.pop(name) for name in ("tags", "issuer_account") if name in values}
    return {**rest, "limits": _user_limits(values)}


def _user_limits(values: dict[str, Any]) -> claims.UserLimitClaims:
    parts = ("publish", "subscribe", "responses")
    permissions = {name: values.pop(name) for name in parts if name in values}
    return claims.UserLimitClaims(permissions=claims.PermissionClaims(**permissions), **values)


def _networks(value: Value) -> tuple[str, ...]:
    """A list of networks, or as in old tokens a string with commas between them."""
    if not isinstance(value, str):
        return texts(value)
    parts = (part.strip().lower() for part in text(value).split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def _export_kind(value: Value) -> str:
    if text(value) not in _KINDS:
        raise ShapeError("unknown export type")
    return text(value)


def _sampling(value: Value) -> int:
    return 0 if isinstance(value, str) and value.lower() == "headers" else integer(value)


def _signing_keys(value: Value) -> Mapping[str, claims.Scope | None]:
    """Keys as strings, or as objects with the scope they may sign within."""
    if not isinstance(value, list):
        return dict.fromkeys(texts(value))  # says what is wrong
    keys: dict[str, claims.Scope | None] = {}
    for entry in value:
        if isinstance(entry, dict):
            scope = _scope(entry)
            keys[scope.key] = scope
        else:
            keys[text(entry)] = None
    return MappingProxyType(keys)


def _scope(value: Value) -> claims.Scope:
    # A kind that is not known might restrict in ways that are not known either. Its name is exact, as are the
    # names of maps: that is how the Go server finds it.
    if an_object(value).get("kind") != _USER_SCOPE:
        raise ShapeError("unknown signing key scope")
    return _SCOPE(value)


def _template(value: Value) -> claims.UserLimitClaims:
    return _user_limits({**_NO_LIMITS, **read_fields(value, _USER_LIMITS)})


_NO_LIMITS: Final = dict.fromkeys(("subscriptions", "data", "payload"), claims.NO_LIMIT)

_subjects: Final = FieldsReader(claims.SubjectClaims, {"allow": ("allow", texts), "deny": ("deny", texts)})
_responses: Final = FieldsReader(
    claims.ResponseClaims, {"max": ("max_messages", integer), "ttl": ("ttl", integer)}
)
_times: Final = list_of(FieldsReader(claims.TimeRange, {"start": ("start", text), "end": ("end", text)}))

_PERMISSIONS: Final[Fields] = {
    "pub": ("publish", _subjects),
    "sub": ("subscribe", _subjects),
    "resp": ("responses", _responses),
}
_NATS_LIMITS: Final[Fields] = {
    "subs": ("subscriptions", integer),
    "data": ("data", integer),
    "payload": ("payload", integer),
}
_VERSION_1_USER: Final[Fields] = {
    **_PERMISSIONS,
    **_NATS_LIMITS,
    "src": ("source_networks", _networks),
    "times": ("times", _times),
    "times_location": ("times_location", text),
    "bearer_token": ("bearer_token", flag),
}
_USER_LIMITS: Final[Fields] = {
    **_VERSION_1_USER,
    "proxy_required": ("proxy_required", flag),
    "allowed_connection_types": ("connection_types", texts),
}
_SCOPE: Final = FieldsReader(
    claims.Scope,
    {
        "key": ("key", text),
        "role": ("role", text),
        "template": ("template", _template),
        "description": ("description", text),
    },
)

_INFO: Final[Fields] = {"description": ("description", text), "info_url": ("info_url", text)}
_JETSTREAM: Final[Fields] = {
    "mem_storage": ("memory_storage", integer),
    "disk_storage": ("disk_storage", integer),
    "streams": ("streams", integer),
    "consumer": ("consumers", integer),
    "max_ack_pending": ("max_ack_pending", integer),
    "mem_max_stream_bytes": ("memory_max_stream_bytes", integer),
    "disk_max_stream_bytes": ("disk_max_stream_bytes", integer),
    "max_bytes_required": ("max_bytes_required", flag),
}
_VERSION_1_ACCOUNT_LIMITS: Final[Fields] = {
    **_NATS_LIMITS,
    "imports": ("imports", integer),
    "exports": ("exports", integer),
    "wildcards": ("wildcard_exports", flag),
    "disallow_bearer": ("disallow_bearer", flag),
    "conn": ("connections", integer),
    "leaf": ("leafnodes", integer),
}
_TIERS: Final[Fields] = {
    "tiered_limits": ("jetstream_tiers", map_of(FieldsReader(claims.JetStreamLimitClaims, _JETSTREAM)))
}


def _account_limits(value: Value) -> claims.AccountLimitClaims:
    values = read_fields(value, {**_VERSION_1_ACCOUNT_LIMITS, **_TIERS})
    # Tiers, where there are any, replace what stands beside them.
    jetstream = claims.JetStreamLimitClaims(**read_fields(value, _JETSTREAM))
    if values.get("jetstream_tiers"):
        jetstream = claims.JetStreamLimitClaims()
    return claims.AccountLimitClaims(**values, jetstream=jetstream)


_export: Final = FieldsReader(
    claims.ExportClaims,
    {
        **_INFO,
        "name": ("name", text),
        "subject": ("subject", text),
        "type": ("kind", _export_kind),
        "token_req": ("token_required", flag),
        "revocations": ("revocations", map_of(integer)),
        "response_type": ("response_type", text),
        "response_threshold": ("response_threshold", integer),
        "service_latency": (
            "latency",
            FieldsReader(claims.Latency, {"sampling": ("sampling", _sampling), "results": ("results", text)}),
        ),
        "account_token_position": ("account_token_position", within(0, (1 << 64) - 1)),
        "advertise": ("advertise", flag),
        "allow_trace": ("allow_trace", flag),
    },
)
_import: Final = FieldsReader(
    claims.ImportClaims,
    {
        "name": ("name", text),
        "subject": ("subject", text),
        "account": ("account", text),
        "token": ("token", text),
        "to": ("to", text),
        "local_subject": ("local_subject", text),
        "type": ("kind", _export_kind),
        "share": ("share", flag),
        "allow_trace": ("allow_trace", flag),
    },
)
_mapping: Final = FieldsReader(
    claims.MappingClaims,
    {"subject": ("subject", text), "weight": ("weight", within(0, 255)), "cluster": ("cluster", text)},
)
_callout: Final = FieldsReader(
    claims.CalloutClaims,
    {
        "auth_users": ("users", texts),
        "allowed_accounts": ("allowed_accounts", texts),
        "xkey": ("curve_key", text),
    },
)
_trace: Final = FieldsReader(
    claims.TraceClaims, {"dest": ("destination", text), "sampling": ("sampling", integer)}
)

_COMMON: Final[Fields] = {
    "aud": ("audience", text),
    "exp": ("expires", integer),
    "jti": ("token_id", text),
    "iat": ("issued_at", integer),
    "iss": ("issuer", text),
    "name": ("name", text),
    "nbf": ("not_before", integer),
    "sub": ("subject", text),
    "nats": ("nats", an_object),
}
_OUTSIDE: Final[Fields] = {name: field for name, field in _COMMON.items() if name != "nats"}
_TAGS: Final[Fields] = {"tags": ("tags", texts)}
_ISSUER_ACCOUNT: Final[Fields] = {"issuer_account": ("issuer_account", text)}
_VERSION_1_OPERATOR: Final[Fields] = {
    "signing_keys": ("signing_keys", texts),
    "account_server_url": ("account_server_url", text),
    "operator_service_urls": ("service_urls", texts),
    "system_account": ("system_account", text),
}
_OPERATOR: Final[Fields] = {
    **_TAGS,
    **_VERSION_1_OPERATOR,
    "assert_server_version": ("server_version", text),
    "strict_signing_key_usage": ("strict_signing_keys", flag),
}
_VERSION_1_ACCOUNT: Final[Fields] = {
    "imports": ("imports", list_of(_import)),
    "exports": ("exports", list_of(_export)),
    "limits": ("limits", FieldsReader(claims.AccountLimitClaims, _VERSION_1_ACCOUNT_LIMITS)),
    "signing_keys": ("signing_keys", lambda value: MappingProxyType(dict.fromkeys(texts(value)))),
    "revocations": ("revocations", map_of(integer)),
}
_ACCOUNT: Final[Fields] = {
    **_TAGS,
    **_INFO,
    **_VERSION_1_ACCOUNT,
    "limits": ("limits", _account_limits),
    "signing_keys": ("signing_keys", _signing_keys),
    "default_permissions": ("default_permissions", FieldsReader(claims.PermissionClaims, _PERMISSIONS)),
    "mappings": ("mappings", map_of(list_of(_mapping))),
    "authorization": ("callout", _callout),
    "trace": ("trace", _trace),
    "cluster_traffic": ("cluster_traffic", text),
}
_ACTIVATION: Final[Fields] = {
    **_TAGS,
    **_ISSUER_ACCOUNT,
    "subject": ("import_subject", text),
    "kind": ("kind", _export_kind),
}
_AUTHORIZATION_REQUEST: Final[Fields] = {
    **_TAGS,
    "server_id": (
        "server",
        FieldsReader(
            claims.ServerClaims,
            {
                "name": ("name", text),
                "host": ("host", text),
                "id": ("server_id", text),
                "version": ("version", text),
                "cluster": ("cluster", text),
                "tags": ("tags", texts),
                "xkey": ("curve_key", text),
            },
        ),
    ),
    "user_nkey": ("user_nkey", text),
    "client_info": (
        "client",
        FieldsReader(
            claims.ClientClaims,
            {
                "host": ("host", text),
                "id": ("client_id", within(0, (1 << 64) - 1)),
                "user": ("user", text),
                "name": ("name", text),
                "tags": ("tags", texts),
                "name_tag": ("name_tag", text),
                "kind": ("kind", text),
                "type": ("connection_type", text),
                "mqtt_id": ("mqtt_id", text),
                "nonce": ("nonce", text),
            },
        ),
    ),
    "connect_opts": (
        "connect",
        FieldsReader(
            claims.ConnectClaims,
            {
                "jwt": ("jwt", text),
                "nkey": ("nkey", text),
                "sig": ("signature", text),
                "auth_token": ("token", text),
                "user": ("user", text),
                "pass": ("password", text),
                "name": ("name", text),
                "lang": ("lang", text),
                "version": ("version", text),
                "protocol": ("protocol", integer),
            },
        ),
    ),
    "client_tls": (
        "tls",
        FieldsReader(
            claims.TLSClaims,
            {
                "version": ("version", text),
                "cipher": ("cipher", text),
                "certs": ("certificates", texts),
                "verified_chains": ("verified_chains", list_of(texts)),
            },
        ),
    ),
    "request_nonce": ("request_nonce", text),
}
_AUTHORIZATION_RESPONSE: Final[Fields] = {
    **_TAGS,
    **_ISSUER_ACCOUNT,
    "jwt": ("jwt", text),
    "error": ("error", text),
}

_TABLES: Final[Mapping[str, tuple[Callable[..., claims.Claims], Fields]]] = {
    OPERATOR: (claims.OperatorClaims, _OPERATOR),
    ACCOUNT: (claims.AccountClaims, _ACCOUNT),
    USER: (claims.UserClaims, {**_TAGS, **_ISSUER_ACCOUNT, **_USER_LIMITS}),
    ACTIVATION: (claims.ActivationClaims, _ACTIVATION),
    AUTHORIZATION_REQUEST: (claims.AuthorizationRequestClaims, _AUTHORIZATION_REQUEST),
    AUTHORIZATION_RESPONSE: (claims.AuthorizationResponseClaims, _AUTHORIZATION_RESPONSE),
}
KINDS: Final = frozenset(_TABLES)


class _Older:
    """Version 1: what lies outside of `nats`, what inside, and what a field that is not there means."""

    def __init__(self, inner: Fields, outer: Fields, defaults: Mapping[str, Any]) -> None:
        self.inner, self.outer, self.defaults = inner, outer, defaults


_VERSION_1: Final[Mapping[str, _Older]] = {
    OPERATOR: _Older(_VERSION_1_OPERATOR, {}, {}),
    ACCOUNT: _Older(_VERSION_1_ACCOUNT, {}, {}),
    USER: _Older(_VERSION_1_USER, _ISSUER_ACCOUNT, _NO_LIMITS),
    ACTIVATION: _Older(
        {"subject": ("import_subject", text), "type": ("kind", _export_kind)}, _ISSUER_ACCOUNT, {}
    ),
}
