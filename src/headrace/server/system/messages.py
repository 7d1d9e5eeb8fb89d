"""Messages of the system account: the fields of events and answers, in the Go server's order.

Here live documents. Never lives here: when one is sent, and to whom.
Source: names, order and what is left out compared with the Go server 2.15.1.
"""

from __future__ import annotations

from base64 import b64encode
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.protocol.nuid import new_nuid
from headrace.protocol.rfc3339 import short_time
from headrace.server.monitor import jetstream
from headrace.server.monitor.accstatz import account_statistics
from headrace.server.monitor.text import encode, number
from headrace.server.monitor.varz import FEATURES
from headrace.server.requester import client_fields
from headrace.server.snapshot import account_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.options import Options
    from headrace.core.account import Account
    from headrace.core.accounts import Accounts
    from headrace.server.monitor.jetstream import JetStreamStats
    from headrace.server.monitor.source import (
        GatewaySnapshot,
        GatewaysSnapshot,
        RouteSnapshot,
        ServerSnapshot,
    )
    from headrace.server.ocsp.chains import Certificate
    from headrace.server.port import ConnectedClient

    class _Server(Protocol):
        @property
        def accounts(self) -> Accounts: ...
        @property
        def config_load_ns(self) -> int: ...
        @property
        def cluster_name(self) -> str | None: ...
        @property
        def info(self) -> Mapping[str, Any]: ...
        @property
        def name(self) -> str: ...
        @property
        def options(self) -> Options: ...
        @property
        def server_id(self) -> str: ...


_ADVISORY: Final = "io.nats.server.advisory.v1."
_RUNS_JETSTREAM: Final = 1
"""The bit of a server's capabilities that says so; the others are about clusters."""

Fields = dict[str, Any]


class SystemMessages:
    """The documents of one server; those that name it are numbered."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._sequence = 0

    # -- events -----------------------------------------------------------------------------------

    def connected(self, session: ConnectedClient) -> bytes:
        event = self._typed("client_connect", time_ns())
        return _encoded({**event, "client": self._client(session, _account_name(session))})

    def disconnected(self, session: ConnectedClient, account: str, reason: str, stop_ns: int) -> bytes:
        """Compose the event of a disconnection, also of a client that was refused.

        `sent` and `received` are the client's.
        """
        in_msgs, in_bytes, out_msgs, out_bytes, _ = session.link.counters
        return _encoded(
            {
                **self._typed("client_disconnect", stop_ns),
                "client": self._client(session, account, stop_ns),
                "sent": {"msgs": in_msgs, "bytes": in_bytes},
                "received": {"msgs": out_msgs, "bytes": out_bytes},
                "reason": reason,
            }
        )

    def peer_refused(self, kind: str, peer: Certificate, reason: str) -> bytes:
        return _encoded(
            {
                **_head("ocsp_peer_reject", time_ns()),
                "kind": kind,
                "peer": _certificate(peer),
                "server": self.server_info(),
                "reason": reason,
            }
        )

    def link_invalid(self, peer: Certificate, link: Certificate, reason: str) -> bytes:
        return _encoded(
            {
                **_head("ocsp_peer_link_invalid", time_ns()),
                "link": _certificate(link),
                "peer": _certificate(peer),
                "server": self.server_info(),
                "reason": reason,
            }
        )

    def connections(self, account: Account) -> Fields:
        """Return the number of an account's clients, and its traffic; see `numbered`."""
        snapshot = account_snapshot(account, self._server.config_load_ns)
        head = _head("account_connections", time_ns())
        return {**head, "server": None, **account_statistics(snapshot)}

    def numbered(self, event: Fields) -> bytes:
        """An event that is told on more than one subject: the same one, with a number for each."""
        return _encoded({**event, "server": self.server_info()})

    def server(self) -> bytes:
        """The server itself: what it says when it ends."""
        return _encoded(self.server_info())

    def statsz(
        self, server: ServerSnapshot, active_accounts: int, stats: JetStreamStats | None = None
    ) -> bytes:
        """Compose the server's statistics. `stats` are JetStream's, where it runs."""
        statistics = _statsz(server, active_accounts, stats)
        return _encoded({"server": self.server_info(), "statsz": statistics})

    # -- answers ----------------------------------------------------------------------------------

    def identity(self) -> bytes:
        return _encoded(self._identity())

    def answer(self, data: Mapping[str, Any]) -> Fields:
        """Return the fields of an answer, to be encoded later: it may be long."""
        return {"server": self.server_info(), "data": data}

    def done(self) -> bytes:
        """Compose the answer to a command that was carried out."""
        return _encoded({"server": self.server_info()})

    def refusal(self, code: int, description: str = "", *, has_data: bool = False) -> bytes:
        """Compose an answer that refuses a request.

        `has_data`: an answer would have had some, which the Go server shows as null.
        """
        error = {"code": code, **({"description": description} if description else {})}
        return _encoded(
            {"server": self.server_info(), **({"data": None} if has_data else {}), "error": error}
        )

    # -- parts ------------------------------------------------------------------------------------

    def _typed(self, kind: str, now_ns: int) -> Fields:
        return {**_head(kind, now_ns), "server": self.server_info()}

    def server_info(self) -> Fields:
        """Return the fields about this server; each message is numbered."""
        server = self._server
        self._sequence += 1
        cluster = server.cluster_name
        tags, metadata = list(server.options.server_tags), dict(server.options.server_metadata)
        runs = server.options.jetstream
        return {
            **self._identity(),
            **({"cluster": cluster} if cluster is not None else {}),
            **({"domain": runs.domain} if runs is not None and runs.domain else {}),
            "ver": COMPATIBLE_VERSION,
            **({"tags": tags} if tags else {}),
            **({"metadata": metadata} if metadata else {}),
            "feature_flags": FEATURES,
            "jetstream": runs is not None,
            "flags": _RUNS_JETSTREAM if runs is not None else 0,
            "seq": self._sequence,
            "time": short_time(time_ns()),
        }

    def _identity(self) -> Fields:
        server = self._server
        return {"name": server.name, "host": server.info["host"], "id": server.server_id}

    def _client(self, session: ConnectedClient, account: str, stop_ns: int = 0) -> Fields:
        return client_fields(
            session,
            account=account,
            rtt_ns=_shortened(session.estimated_rtt_ns) if stop_ns else 0,
            stop_ns=stop_ns,
            name_tag=self._title(account),
        )

    def _title(self, account: str) -> str:
        accounts = self._server.accounts
        return accounts[account].options.title if account in accounts else account


def _head(kind: str, now_ns: int) -> Fields:
    return {"type": _ADVISORY + kind, "id": new_nuid(), "timestamp": short_time(now_ns)}


def _account_name(session: ConnectedClient) -> str:
    return session.account.name if session.account else ""


def _certificate(certificate: Certificate) -> Fields:
    fields = {
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "fingerprint": certificate.fingerprint,
        "raw": b64encode(certificate.der).decode(),
    }
    return {name: value for name, value in fields.items() if value}


def _shortened(duration_ns: int) -> int:
    """A round trip as it is shown: below a millisecond in whole microseconds."""
    return duration_ns - duration_ns % 1000 if 1_000 < duration_ns < 1_000_000 else duration_ns


def _statsz(server: ServerSnapshot, active_accounts: int, stats: JetStreamStats | None) -> Fields:
    slow, stale = server.slow_consumers, server.stale_connections
    fields: Fields = {
        "start": short_time(server.start_ns),
        "mem": server.memory_bytes,
        "cores": server.cores,
        "cpu": number(server.cpu_percent),
        "connections": server.connections,
        "total_connections": server.total_connections,
        "active_accounts": active_accounts,
        "subscriptions": server.subscriptions,
        "sent": {"msgs": server.out_msgs, "bytes": server.out_bytes},
        "sent_to_clients": {"msgs": server.out_client_msgs, "bytes": server.out_client_bytes},
        "received": {"msgs": server.in_msgs, "bytes": server.in_bytes},
        "received_from_clients": {"msgs": server.in_client_msgs, "bytes": server.in_client_bytes},
        "slow_consumers": slow.total,
    }
    if slow.total:
        fields["slow_consumer_stats"] = slow.by_kind()
    if stale.total:
        fields |= {"stale_connections": stale.total, "stale_connection_stats": stale.by_kind()}
    if server.stalled_clients:
        fields["stalled_clients"] = server.stalled_clients
    if server.cluster is not None and server.cluster.routes:
        fields["routes"] = [_route(route) for route in server.cluster.routes]
    if server.gateways is not None and server.gateways.outbound:
        fields["gateways"] = [_gateway(each, server.gateways) for each in server.gateways.outbound]
    fields["active_servers"] = 1 + (server.cluster.remotes if server.cluster else 0)
    options = server.options.jetstream
    if options is not None and stats is not None:
        fields["jetstream"] = jetstream.section(options, stats, shows_directory=False)
    return {**fields, "gomaxprocs": server.max_procs}


def _route(route: RouteSnapshot) -> Fields:
    return {
        "rid": route.rid,
        "name": route.remote_name,
        "sent": {"msgs": route.out_msgs, "bytes": route.out_bytes},
        "received": {"msgs": route.in_msgs, "bytes": route.in_bytes},
        "pending": route.pending_bytes,
    }


def _gateway(gateway: GatewaySnapshot, gateways: GatewaysSnapshot) -> Fields:
    """Return the traffic to another cluster and from it."""
    sent = gateway.connection
    received = [each.connection for each in gateways.inbound if each.gateway == gateway.gateway]
    return {
        "gwid": sent.cid,
        "name": gateway.gateway,
        "sent": {"msgs": sent.out_msgs, "bytes": sent.out_bytes},
        "received": {
            "msgs": sum(each.in_msgs for each in received),
            "bytes": sum(each.in_bytes for each in received),
        },
        "inbound_connections": len(received),
    }


def _encoded(document: Mapping[str, Any]) -> bytes:
    return encode(document, indent=False)
