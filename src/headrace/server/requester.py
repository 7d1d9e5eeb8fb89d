"""What a service of another account is told of who asks: the value of the `Nats-Request-Info` header.

Here lives its form. Never lives here: when it is sent, and that a requester cannot write it himself
(`engine.exchange`).
Source: names, order and what is left out compared with the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.server.monitor.text import encode, rfc3339

if TYPE_CHECKING:
    from headrace.server.session import ClientSession


def request_info(
    session: ClientSession, server_name: str, *, account: str, shares: bool, service: str | None
) -> bytes:
    """JSON. Who does not share is an account and a round trip; `service`: the account it came over last."""
    options, identity = session.options, session.identity
    fields: dict[str, object] = {"acc": account, "svc": service, "rtt": session.rtt_ns}
    if shares:
        fields = {
            "start": rfc3339(session.start_ns),
            "host": session.address,
            "id": session.cid,
            "acc": account,
            "svc": service,
            "user": identity.user if identity else None,
            "name": options.name,
            "lang": options.lang,
            "ver": options.version,
            "rtt": session.rtt_ns,
            "server": server_name,
            "kind": "Client",
            "client_type": "nats",
        }
    return encode({name: value for name, value in fields.items() if value}, indent=False)
