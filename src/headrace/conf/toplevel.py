"""The table of keys of the top level of a configuration.

Here live the rows that read the options of `options.Options`, and those of the keys that are no option by
themselves. Never lives here: rules between options (`options_builder`), blocks with a table of their own
(`authorization`, `permissions`, `accounts`, `tls`, `mappings`, `streaming`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.conf.fields import (
    UNSET,
    Field,
    KeyTable,
    duration,
    fields_of,
    flag,
    lazily,
    text,
    text_map,
    whole,
)
from headrace.conf.options import Options
from headrace.conf.problems import shown
from headrace.protocol.durations import format_duration

if TYPE_CHECKING:
    from headrace.conf.fields import Binder, UnsetType
    from headrace.conf.tree import Entry

_CACHE: Final = "what is remembered of subjects is part of how messages are delivered"
_PROFILER: Final = "there is no profiler of Go to connect to; /stacksz and /debug/vars show the process"
_MIN_LAME_DUCK_DURATION: Final = 30.0  # seconds, in a file; overrides may go below, for tests


# -- readers of single keys -----------------------------------------------------------------------------


def remote_syslog(binder: Binder, entry: Entry) -> str | UnsetType:
    """The URL of a syslog elsewhere."""
    value = text(binder, entry)
    if value is UNSET or not value:
        return value
    scheme, separator, place = value.partition("://")
    if scheme not in ("udp", "tcp", "unix") or not separator or not place.strip("/"):
        message = f"remote_syslog: {shown(value)} is no address of a syslog"
        return binder.problem(message, entry.node.position, 'such as "udp://host:514", tcp or unix')
    return value


def trace_headers(binder: Binder, entry: Entry) -> dict[str, object] | UnsetType:
    """Read `trace_headers`, which turns tracing on or off as well, as in the Go server."""
    value = flag(binder, entry)
    return UNSET if value is UNSET else {"trace": value, "trace_headers": value}


def lame_duck_duration(binder: Binder, entry: Entry) -> float | UnsetType:
    """A duration that gives clients the time to go."""
    value = duration(binder, entry)
    if value is not UNSET and value < _MIN_LAME_DUCK_DURATION:
        message = f"invalid lame_duck_duration of {format_duration(value)}, minimum is 30 seconds"
        return binder.problem(message, entry.node.position)
    return value


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


# -- tables ---------------------------------------------------------------------------------------------

_OPERATOR_KEYS: Final = (
    Field(
        ("trusted_keys", "trusted"),
        lazily("operator:trusted_keys"),
        text="Public keys of operators, in the place of `operator`",
        kind="string or list",
        concerns=("operator",),
    ),
    Field(
        ("resolver", "account_resolver", "accounts_resolver"),
        lazily("operator:resolver"),
        text="Where tokens of accounts come from: `MEMORY`, `URL(https://…)`, or a directory; see below",
        kind="string or map",
        concerns=("operator",),
    ),
    Field(
        ("resolver_tls",),
        lazily("operator:resolver_tls"),
        text="TLS of requests to a URL resolver; see below",
        kind="map",
        concerns=("operator",),
    ),
    Field(
        ("resolver_preload",),
        lazily("operator:preload"),
        text="Tokens of accounts by public key",
        kind="map",
        concerns=("operator",),
    ),
    Field(
        ("resolver_pinned_accounts",),
        lazily("operator:pinned_accounts"),
        text="Accounts that are served, beside the system's",
        kind="string or list",
        default="all",
        concerns=("operator",),
    ),
    Field(
        ("default_sentinel",),
        text,
        text="Token (bearer) of clients that bring none",
        concerns=("operator",),
    ),
)
"""The keys of operator mode, beside `operator`; the module of that name makes one option of all."""

OPERATOR_OPTIONS: Final = frozenset(("operator", *(field.names[0] for field in _OPERATOR_KEYS)))
"""The names that the keys of operator mode are bound to."""

_OTHER_KEYS: Final = (
    Field(
        ("listen",),
        lazily("listen:listen"),
        spreads=True,
        text="Address and port for clients",
        kind='port or "host:port"',
        default="0.0.0.0:4222",
        concerns=("host", "port"),
    ),
    Field(
        ("http",),
        lazily("listen:http_listen"),
        spreads=True,
        text="Monitoring over HTTP",
        kind='port or "host:port"',
        concerns=("http_host", "http_port"),
    ),
    Field(
        ("https",),
        lazily("listen:https_listen"),
        spreads=True,
        text="Monitoring over HTTPS, with the certificate of `tls`; not together with `http`",
        kind='port or "host:port"',
        concerns=("http_host", "https_port"),
    ),
    Field(
        ("no_system_account", "no_system", "no_sys_acc"),
        flag,
        text="Have none",
        default="false",
        concerns=("system_account",),
    ),
    *_OPERATOR_KEYS,
    Field(
        ("default_js_domain",),
        text_map,
        text="By account: the JetStream domain that clients use who name none; for accounts without "
        'JetStream. `""`: its leaf links carry JetStream\'s API without a domain, where both ends say so',
        kind="map",
        concerns=("jetstream",),
    ),
    Field(
        ("console",),
        lazily("console:console"),
        text="`console` of `websocket`, which may have it instead. Not in nats-server",
        kind="true, false or map",
        default="false",
        concerns=("websocket",),
    ),
    Field(
        ("store_dir", "storedir"),
        text,
        text="`store_dir` of `jetstream`, which may have it instead",
        concerns=("jetstream",),
    ),
    Field(
        ("trace_verbose",),
        _trace_verbose,
        option="trace",
        text="Turns `trace` on",
        kind="true or false",
        default="false",
        concerns=("trace",),
    ),
    Field(
        ("feature_flags",),
        _feature_flags,
        binds=False,
        text="Those of nats-server by name; without effect",
        kind="map",
    ),
    Field(
        ("disable_sublist_cache", "no_sublist_cache"),
        flag,
        idle=_CACHE,
        binds=False,
        text="Without effect: what is remembered of subjects is part of how messages are delivered",
        default="false",
    ),
    Field(
        ("prof_port",),
        whole,
        idle=_PROFILER,
        binds=False,
        text="Without effect: there is no profiler of Go to connect to",
    ),
    Field(("prof_block_rate",), whole, idle=_PROFILER, binds=False, text="The same"),
)

_FALSE: Final[frozenset[object]] = frozenset((False,))

_UNSUPPORTED: Final[dict[str, frozenset[object]]] = {
    # TLS
    "ocsp": _FALSE | {("mode", "never")},
    # "close" is what happens to clients by default.
    "write_timeout": frozenset(("default", "close")),
}
"""Keys of nats-server that are not there, with the values that ask for nothing; none is ignored silently."""

_REASONS: Final = {
    "ocsp": (
        "Python's ssl module cannot staple an OCSP response to a handshake: set it to false or remove it, "
        "and use no certificate that demands a stapled response"
    ),
}
"""Why some of them are not there, and what to do."""

TOP_LEVEL: Final = KeyTable(
    (*fields_of(Options), *_OTHER_KEYS),
    _UNSUPPORTED,
    _REASONS,
)
