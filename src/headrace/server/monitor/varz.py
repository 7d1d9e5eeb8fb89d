"""`/varz`: the whole server, its limits and its counters.

Field names and order are the Go server's. Sections of features that this server does not have are
empty objects, as they are there when a feature is not configured.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.protocol.rfc3339 import short_time
from headrace.server.monitor import jetstream
from headrace.server.monitor.text import number, uptime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote
    from headrace.conf.operator_options import OperatorOptions
    from headrace.conf.peer_options import ClusterOptions, GatewayOptions
    from headrace.conf.tls_options import TLSOptions
    from headrace.server.monitor.jetstream import JetStreamStats
    from headrace.server.monitor.source import OCSPCacheSnapshot, ServerSnapshot

_PROTOCOL: Final = 1
_NS: Final = 1_000_000_000
FEATURES: Final = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": False,
    "js_snapshot_sources": False,
}
"""Ways of doing things that the Go server names and that can be chosen there; none of them is done here."""


def varz(
    server: ServerSnapshot, request_counts: Mapping[str, int], stats: JetStreamStats | None = None
) -> dict[str, object]:
    """The document; `request_counts` are requests per endpoint path since the monitor started.

    `stats` are JetStream's, where it runs.
    """
    return {
        **_identity(server),
        **_limits(server),
        "cluster": _cluster(server),
        "gateway": _gateway(server),
        "leaf": _leafnodes(server),
        "mqtt": _mqtt(server),
        "websocket": _websocket(server),
        "jetstream": _jetstream(server, stats),
        "tls_timeout": number(server.options.tls.timeout if server.options.tls else limits.TLS_TIMEOUT),
        "write_deadline": round(server.options.write_deadline * _NS),
        **_activity(server),
        "http_req_stats": dict(sorted(request_counts.items())),
        **_configuration(server),
        "slow_consumer_stats": server.slow_consumers.by_kind(),
        "stale_connection_stats": server.stale_connections.by_kind(),
        "disk_io_wait_stats": {"waiters": 0, "waits": 0, "wait_time": 0, "max_wait_time": 0},
        **_given("tls_cert_not_after", _time_or_none(server.tls_certificate_expires_ns)),
    }


def _identity(server: ServerSnapshot) -> dict[str, object]:
    return {
        "server_id": server.server_id,
        "server_name": server.server_name,
        "version": server.version,
        "proto": _PROTOCOL,
        **_given("git_commit", server.git_commit),
        "go": server.language_version,
        "host": server.host,
        "port": server.port,
        **_given("auth_required", server.auth_required),
        **_given("tls_required", server.tls_required),
        **_given("tls_verify", server.tls_verify),
        **_given("tls_ocsp_peer_verify", server.tls_required and _asks_responders(server.options.tls)),
        **_given("connect_urls", list(server.connect_urls)),
        **_given("ws_connect_urls", list(server.ws_connect_urls)),
    }


def _limits(server: ServerSnapshot) -> dict[str, object]:
    options = server.options
    auth_timeout = options.authorization.timeout
    if auth_timeout is None:
        auth_timeout = options.tls.timeout + 1 if options.tls else limits.AUTH_TIMEOUT
    return {
        "max_connections": options.max_connections,
        **_given("max_subscriptions", options.max_subscriptions),
        "ping_interval": round(options.ping_interval * _NS),
        "ping_max": options.ping_max,
        "http_host": server.http_host,
        "http_port": server.http_port,
        "http_base_path": options.http_base_path,
        "https_port": server.https_port,
        "auth_timeout": number(auth_timeout),
        "max_control_line": options.max_control_line,
        "max_payload": options.max_payload,
        "max_pending": options.max_pending,
    }


def _jetstream(server: ServerSnapshot, stats: JetStreamStats | None) -> dict[str, object]:
    options = server.options.jetstream
    return {} if options is None or stats is None else jetstream.section(options, stats)


def _cluster(server: ServerSnapshot) -> dict[str, object]:
    options, cluster = server.options.cluster, server.cluster
    if options is None or cluster is None:
        return {"name": server.gateways.name} if server.gateways is not None else {}
    fields: dict[str, object] = {
        "name": cluster.name,
        "addr": cluster.host,
        "cluster_port": cluster.port,
        "auth_timeout": number(options.auth_timeout),
        "urls": [str(url) for url in options.routes],
        **_tls(options.tls),
        "pool_size": options.pool_size,
        **_writes(options),
        "tls_cert_not_after": _time_or_none(cluster.certificate_expires_ns),
    }
    return {name: value for name, value in fields.items() if value}


def _gateway(server: ServerSnapshot) -> dict[str, object]:
    options, gateways = server.options.gateway, server.gateways
    if options is None or gateways is None:
        return {}
    fields: dict[str, object] = {
        "name": gateways.name,
        "host": gateways.bound_host,
        "port": gateways.bound_port,
        "auth_timeout": number(options.auth_timeout),
        **_tls(options.tls),
        "advertise": options.advertise,
        "connect_retries": options.connect_retries,
        "gateways": [
            {
                "name": each.name,
                **_given("tls_timeout", number(each.tls.timeout) if each.tls else None),
                **_given("urls", list(gateways.urls.get(each.name, ()))),
            }
            for each in options.gateways
        ],
        "reject_unknown": options.reject_unknown,
        **_writes(options),
        "tls_cert_not_after": _time_or_none(gateways.certificate_expires_ns),
    }
    return {name: value for name, value in fields.items() if value}


def _leafnodes(server: ServerSnapshot) -> dict[str, object]:
    options, leafnodes = server.options.leafnodes, server.leafnodes
    if options is None or leafnodes is None:
        return {}
    fields: dict[str, object] = {"remotes": [_remote(remote) for remote in options.remotes]}
    if leafnodes.port:
        fields = {
            "host": leafnodes.host,
            "port": leafnodes.port,
            "auth_timeout": number(options.auth_timeout),
            **_tls(options.tls, always_verifies=False),
            **fields,
            "tls_ocsp_peer_verify": _asks_responders(options.tls),
        }
    fields |= _writes(options)
    fields["tls_cert_not_after"] = _time_or_none(leafnodes.certificate_expires_ns)
    return {name: value for name, value in fields.items() if value}


def _tls(tls: TLSOptions | None, *, always_verifies: bool = True) -> dict[str, object]:
    """Return the TLS fields of a port for servers.

    `always_verifies`: both sides show certificates, whatever `verify` says.
    """
    return {
        "tls_timeout": number(tls.timeout if tls else limits.TLS_TIMEOUT),
        "tls_required": tls is not None,
        "tls_verify": tls is not None and (always_verifies or tls.verify),
    }


def _asks_responders(tls: TLSOptions | None) -> bool:
    """True if peers' certificates are checked with the OCSP responders of their authorities."""
    return tls is not None and tls.ocsp_peer is not None


def _writes(options: ClusterOptions | GatewayOptions | LeafNodeOptions) -> dict[str, object]:
    """Return the time limit of a write to another server, and its consequence."""
    return {
        "write_deadline": round((options.write_deadline or 0) * _NS),
        "write_timeout": "" if options.write_timeout == "default" else options.write_timeout,
    }


def _remote(remote: LeafRemote) -> dict[str, object]:
    tls = remote.tls.files if remote.tls is not None else None
    denied = {"exports": list(remote.deny_exports), "imports": list(remote.deny_imports)}
    return {
        "local_account": remote.account,
        **_given("tls_timeout", number(tls.timeout) if tls else 0),
        "urls": [str(url) for url in remote.urls],
        **_given("deny", {name: subjects for name, subjects in denied.items() if subjects}),
        **_given("tls_ocsp_peer_verify", _asks_responders(tls)),
    }


def _websocket(server: ServerSnapshot) -> dict[str, object]:
    options = server.options.websocket
    if options is None:
        return {}
    tls = options.tls
    fields: dict[str, object] = {
        "host": options.host,
        "port": server.websocket_port,
        "advertise": options.advertise,
        "no_auth_user": options.no_auth_user,
        "jwt_cookie": options.jwt_cookie,
        "handshake_timeout": round(options.handshake_timeout * _NS),
        "auth_timeout": number(options.authorization.timeout or 0.0),
        "no_tls": options.no_tls,
        "tls_map": tls is not None and tls.verify_and_map,
        "tls_pinned_certs": list(tls.pinned_certs) if tls else [],
        "same_origin": options.keeps_to_origin,
        "allowed_origins": list(options.allowed_origins),
        "compression": options.compression,
        "tls_ocsp_peer_verify": _asks_responders(tls),
        "tls_cert_not_after": _time_or_none(server.websocket_certificate_expires_ns),
    }
    return {name: value for name, value in fields.items() if value}


def _mqtt(server: ServerSnapshot) -> dict[str, object]:
    options = server.options.mqtt
    if options is None:
        return {}
    tls = options.tls
    fields: dict[str, object] = {
        "host": options.host,
        "port": server.mqtt_port,
        "no_auth_user": options.no_auth_user,
        "auth_timeout": number(options.authorization.timeout or 0.0),
        "tls_map": tls is not None and tls.verify_and_map,
        "tls_timeout": number(tls.timeout if tls else limits.TLS_TIMEOUT),
        "tls_pinned_certs": list(tls.pinned_certs) if tls else [],
        "js_domain": options.js_domain,
        "ack_wait": round(options.ack_wait * _NS),
        "max_ack_pending": options.max_ack_pending,
        "tls_ocsp_peer_verify": _asks_responders(tls),
        "tls_cert_not_after": _time_or_none(server.mqtt_certificate_expires_ns),
    }
    return {name: value for name, value in fields.items() if value}


def _activity(server: ServerSnapshot) -> dict[str, object]:
    return {
        "start": short_time(server.start_ns),
        "now": short_time(server.now_ns),
        "uptime": uptime(server.now_ns - server.start_ns),
        "mem": server.memory_bytes,
        "cores": server.cores,
        "gomaxprocs": server.max_procs,
        "cpu": number(server.cpu_percent),
        "connections": server.connections,
        "total_connections": server.total_connections,
        "routes": len(server.cluster.routes) if server.cluster else 0,
        "remotes": server.cluster.remotes if server.cluster else 0,
        "leafnodes": len(server.leafnodes.links) if server.leafnodes else 0,
        "in_msgs": server.in_msgs,
        "in_bytes": server.in_bytes,
        "in_client_msgs": server.in_client_msgs,
        "in_client_bytes": server.in_client_bytes,
        "out_msgs": server.out_msgs,
        "out_bytes": server.out_bytes,
        "out_client_msgs": server.out_client_msgs,
        "out_client_bytes": server.out_client_bytes,
        "slow_consumers": server.slow_consumers.total,
        "stale_connections": server.stale_connections.total,
        "stalled_clients": server.stalled_clients,
        "subscriptions": server.subscriptions,
    }


def _configuration(server: ServerSnapshot) -> dict[str, object]:
    return {
        "config_load_time": short_time(server.config_load_time_ns),
        "config_digest": server.config_digest,
        **_given("tags", list(server.options.server_tags)),
        **_given("metadata", dict(server.options.server_metadata)),
        "feature_flags": FEATURES,
        **_operators(server.options.operator),
        **_given("system_account", server.system_account),
        **_given("ocsp_peer_cache", _ocsp_cache(server.ocsp_cache)),
    }


def _ocsp_cache(cache: OCSPCacheSnapshot | None) -> dict[str, object]:
    if cache is None:
        return {}
    fields: dict[str, object] = {
        "cache_type": "local",
        "cache_hits": cache.hits,
        "cache_misses": cache.misses,
        "cached_responses": cache.revoked + cache.good + cache.unknown,
        "cached_revoked_responses": cache.revoked,
        "cached_good_responses": cache.good,
        "cached_unknown_responses": cache.unknown,
    }
    return {name: value for name, value in fields.items() if value}


def _operators(options: OperatorOptions | None) -> dict[str, object]:
    """The tokens of the operators, which are no secrets, and what they claim."""
    tokens = options.operator_tokens if options is not None else ()
    if not tokens:
        return {}
    return {
        "trusted_operators_jwt": list(tokens),
        "trusted_operators_claim": [json.loads(_claims_part(token)) for token in tokens],
    }


def _claims_part(token: str) -> bytes:
    claims = token.split(".")[1]
    return base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))


def _given(name: str, value: object) -> dict[str, object]:
    """The field, unless it says nothing."""
    return {name: value} if value else {}


def _time_or_none(time_ns: int | None) -> str | None:
    return None if time_ns is None else short_time(time_ns)
