"""The top-level keys of a configuration: names, types, and the option each sets.

Here lives the table. Never lives here: rules between options (`draft`), blocks with a table of their own
(`authorization`, `permissions`, `accounts`, `tls`, `mappings`, `streaming`), what is not yet (`unsupported`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.conf import unsupported
from headrace.conf.authorization import authorization
from headrace.conf.durations import format_duration
from headrace.conf.fields import (
    UNSET,
    Field,
    Table,
    duration,
    duration_or_seconds,
    flag,
    strings,
    text,
    text_map,
    whole,
)
from headrace.conf.listen import advertise, http_listen, https_listen, listen
from headrace.conf.mappings import mappings
from headrace.conf.problems import shown

if TYPE_CHECKING:
    from headrace.conf.fields import Binder, Reader, UnsetType
    from headrace.conf.tls_options import TLSOptions
    from headrace.conf.tree import Entry

OPERATOR_KEYS: Final = (
    ("operator", "operators", "root", "roots", "root_operator", "root_operators"),
    ("trusted_keys", "trusted"),
    ("resolver", "account_resolver", "accounts_resolver"),
    ("resolver_tls",),
    ("resolver_preload",),
    ("resolver_pinned_accounts",),
    ("default_sentinel",),
)
"""The keys of operator mode under all their names, the option of each first; `operator` reads them."""

_CACHE: Final = "what is remembered of subjects is part of how messages are delivered"
_PROFILER: Final = "there is no profiler of Go to connect to; /stacksz and /debug/vars show the process"
_MIN_LAME_DUCK_DURATION: Final = 30.0  # seconds, in a file; overrides may go below, for tests


def _tls(binder: Binder, entry: Entry) -> TLSOptions | UnsetType:
    # Only who configures TLS pays for loading it.
    from headrace.conf.tls import tls

    return tls(binder, entry)


def _ocsp_cache(binder: Binder, entry: Entry) -> object:
    from headrace.conf.ocsp import ocsp_cache

    return ocsp_cache(binder, entry)


def _websocket(binder: Binder, entry: Entry) -> object:
    from headrace.conf.websocket import websocket

    return websocket(binder, entry)


def _cluster(binder: Binder, entry: Entry) -> object:
    from headrace.conf.cluster import cluster

    return cluster(binder, entry)


def _gateway(binder: Binder, entry: Entry) -> object:
    from headrace.conf.gateway import gateway

    return gateway(binder, entry)


def _leafnodes(binder: Binder, entry: Entry) -> object:
    from headrace.conf.leafnodes import leafnodes

    return leafnodes(binder, entry)


def _streaming(binder: Binder, entry: Entry) -> object:
    from headrace.conf.streaming import streaming

    return streaming(binder, entry)


def _jetstream(binder: Binder, entry: Entry) -> object:
    from headrace.conf.jetstream import jetstream

    return jetstream(binder, entry)


def _accounts(binder: Binder, entry: Entry) -> object:
    # Only who configures accounts pays for loading them.
    from headrace.conf.accounts import accounts

    return accounts(binder, entry)


def _proxies(binder: Binder, entry: Entry) -> object:
    from headrace.conf.proxies import trusted_proxies

    return trusted_proxies(binder, entry)


def _of_operator(option: str) -> Reader:
    def read(binder: Binder, entry: Entry) -> object:
        from headrace.conf.operator import READERS  # only who has an operator pays for loading tokens

        return READERS[option](binder, entry)

    return read


def _processes(binder: Binder, entry: Entry) -> object:
    from headrace.conf.processes import processes

    return processes(binder, entry)


def _http_authorization(binder: Binder, entry: Entry) -> object:
    from headrace.conf.monitoring import http_authorization

    return http_authorization(binder, entry)


def _remote_syslog(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is UNSET or not value:
        return value
    scheme, separator, place = value.partition("://")
    if scheme not in ("udp", "tcp", "unix") or not separator or not place.strip("/"):
        message = f"remote_syslog: {shown(value)} is no address of a syslog"
        return binder.problem(message, entry.node.position, 'such as "udp://host:514", tcp or unix')
    return value


def _trace_headers(binder: Binder, entry: Entry) -> dict[str, object] | UnsetType:
    """As with the Go server it turns tracing on or off as well."""
    value = flag(binder, entry)
    return UNSET if value is UNSET else {"trace": value, "trace_headers": value}


def _trace_verbose(binder: Binder, entry: Entry) -> bool | UnsetType:
    """Tracing with the system account, of which there is none yet; off says nothing about `trace`."""
    return True if flag(binder, entry) is True else UNSET


def _feature_flags(binder: Binder, entry: Entry) -> UnsetType:
    """Ways of doing things that can be chosen in nats-server, true or false by name; none is done here."""
    node = binder.map(entry)
    if node is not UNSET:
        for inner in node.entries.values():
            if flag(binder, inner) is True:
                binder.problems.remark(f"feature flag {shown(inner.key)} has no effect", inner.position)
    return UNSET


def _lame_duck_duration(binder: Binder, entry: Entry) -> float | UnsetType:
    value = duration(binder, entry)
    if value is not UNSET and value < _MIN_LAME_DUCK_DURATION:
        message = f"invalid lame_duck_duration of {format_duration(value)}, minimum is 30 seconds"
        return binder.problem(message, entry.node.position)
    return value


TOP_LEVEL: Final = Table(
    (
        Field(("listen",), listen, spreads=True),
        Field(("host", "net"), text),
        Field(("port",), whole),
        Field(("server_name",), text),
        Field(("server_tags",), strings),
        Field(("server_metadata",), text_map),
        Field(("feature_flags",), _feature_flags, binds=False),
        Field(("client_advertise",), advertise),
        Field(("processes",), _processes),
        Field(("http",), http_listen, spreads=True),
        Field(("http_port", "monitor_port"), whole),
        Field(("https",), https_listen, spreads=True),
        Field(("https_port",), whole),
        Field(("http_base_path",), text),
        Field(("http_authorization",), _http_authorization),
        Field(("max_payload",), whole),
        Field(("max_pending",), whole),
        Field(("max_control_line",), whole),
        Field(("max_connections", "max_conn"), whole),
        Field(("max_closed_clients",), whole),
        Field(("max_subscriptions", "max_subs"), whole),
        Field(("max_sub_tokens", "max_subscription_tokens"), whole),
        Field(("ping_interval",), duration_or_seconds),
        Field(("ping_max",), whole),
        Field(("write_deadline",), duration_or_seconds),
        Field(("no_header_support",), flag),
        Field(("no_fast_producer_stall",), flag),
        Field(("disable_sublist_cache", "no_sublist_cache"), flag, idle=_CACHE, binds=False),
        Field(("always_enable_nonce",), flag),
        Field(("authorization",), authorization),
        Field(("accounts",), _accounts),
        Field(("system_account", "system"), text),
        Field(("no_system_account", "no_system", "no_sys_acc"), flag, option="no_system_account"),
        Field(("no_auth_user",), text),
        Field(("proxies",), _proxies, option="trusted_proxies"),
        *(Field(names, _of_operator(names[0])) for names in OPERATOR_KEYS),
        Field(("mappings", "maps"), mappings),
        Field(("tls",), _tls),
        Field(("allow_non_tls",), flag),
        Field(("ocsp_cache",), _ocsp_cache),
        Field(("websocket", "ws"), _websocket),
        Field(("proxy_protocol",), flag),
        Field(("cluster",), _cluster),
        Field(("gateway",), _gateway),
        Field(("leafnodes", "leaf"), _leafnodes),
        Field(("connect_error_reports",), whole),
        Field(("reconnect_error_reports",), whole),
        Field(("streaming",), _streaming),
        Field(("jetstream",), _jetstream),
        Field(("default_js_domain",), text_map),
        Field(("store_dir", "storedir"), text),
        Field(("lame_duck_duration",), _lame_duck_duration),
        Field(("lame_duck_grace_period",), duration),
        Field(("ports_file_dir",), text),
        Field(("pid_file", "pidfile"), text),
        Field(("log_file", "logfile"), text),
        Field(("log_size_limit", "logfile_size_limit"), whole),
        Field(("log_max_num", "logfile_max_num"), whole),
        Field(("syslog",), flag),
        Field(("remote_syslog",), _remote_syslog),
        Field(("logtime",), flag),
        Field(("logtime_utc",), flag),
        Field(("debug",), flag),
        Field(("trace",), flag),
        Field(("trace_verbose",), _trace_verbose, option="trace"),
        Field(("trace_headers",), _trace_headers, spreads=True),
        Field(("max_traced_msg_len",), whole),
        Field(("prof_port",), whole, idle=_PROFILER, binds=False),
        Field(("prof_block_rate",), whole, idle=_PROFILER, binds=False),
    ),
    unsupported.TOP_LEVEL,
    unsupported.REASONS,
)
