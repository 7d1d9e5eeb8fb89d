"""The client behind a request: the `Nats-Request-Info` header of a request to a service of another account,
and the same fields in events.

Here lives the form. Never lives here: when it is sent, and that a requester cannot write the header himself
(`engine.service_imports`).
Source: names, order and what is left out compared with the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.conf.names import is_user_nkey
from headrace.protocol.rfc3339 import short_time
from headrace.server.auth import shown_user
from headrace.server.monitor.text import encode

if TYPE_CHECKING:
    from headrace.cluster.leaf import LeafSession
    from headrace.server.auth import Identity
    from headrace.server.port import ConnectedClient


def request_info(
    session: ConnectedClient, *, account: str, shares: bool, service: str | None, server: str | None
) -> bytes:
    """Return the fields of a requester as JSON.

    `shares`: the import shares who asks; else only the account and the round trip are told. `service`: the
    account that the request came over last. `server`: this server's name, where any import on the way shares.
    """
    fields: dict[str, object] = {"acc": account, "svc": service, "rtt": session.rtt_ns, "server": server}
    if shares:
        fields = client_fields(
            session, account=account, service=service, rtt_ns=session.rtt_ns, server=server or ""
        )
    return encode({name: value for name, value in fields.items() if value}, indent=False)


def leaf_request_info(
    session: LeafSession, *, shares: bool, service: str | None, server: str | None
) -> bytes:
    """Return the fields of a requester behind a leaf node as JSON: no more of the client is known here."""
    fields: dict[str, object] = {
        "acc": session.account,
        "svc": service,
        "rtt": session.rtt_ns,
        "server": server,
    }
    if shares:
        fields |= {
            "id": session.wire.number,
            "host": session.wire.remote.host,
            "name": session.remote_name,
            "user": session.user,
            "kind": "Leafnode",
        }
    return encode({name: value for name, value in fields.items() if value}, indent=False)


def client_fields(
    session: ConnectedClient,
    *,
    account: str,
    service: str | None = None,
    rtt_ns: int = 0,
    server: str = "",
    stop_ns: int = 0,
    name_tag: str = "",
) -> dict[str, Any]:
    """The fields about a client in all messages about clients; empty ones are left out."""
    options, identity = session.options, session.identity
    fields = {
        "start": short_time(session.start_ns),
        "host": session.address,
        "id": session.cid,
        "acc": account,
        "svc": service,
        "user": shown_user(options) or (identity.user if identity else None),
        "name": options.name,
        "lang": options.lang,
        "ver": options.version,
        "rtt": rtt_ns,
        "server": server,
        "stop": short_time(stop_ns) if stop_ns else "",
        "issuer_key": _issuer(identity),
        "name_tag": name_tag,
        "tags": list(identity.token.tags) if identity is not None and identity.token is not None else None,
        "kind": "Client",
        "client_type": session.access.kind,
        "client_id": session.mqtt_client,
    }
    return {name: value for name, value in fields.items() if value}


def _issuer(identity: Identity | None) -> str | None:
    """The key that vouches for a user: its token's issuer; a configuration's account stands for itself."""
    if identity is None or not is_user_nkey(identity.user or ""):
        return None
    return identity.token.issuer if identity.token is not None else identity.account
