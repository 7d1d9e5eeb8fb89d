"""Keys of the Go server's configuration that this version of Headrace does not have yet.

Here lives the list, by name, with the values under which a key asks for nothing and is accepted. A key
leaves this list in the change that adds what it is for; none is ever ignored silently.
"""

from __future__ import annotations

from typing import Final

_NEVER: Final[frozenset[object]] = frozenset()
_FALSE: Final[frozenset[object]] = frozenset((False,))
_ZERO: Final[frozenset[object]] = frozenset((0,))

TOP_LEVEL: Final[dict[str, frozenset[object]]] = {
    # other servers and other protocols
    "connect_error_reports": _NEVER,
    "reconnect_error_reports": _NEVER,
    "mqtt": _NEVER,
    # JetStream of other servers
    "default_js_domain": _NEVER,
    # TLS
    "ocsp": _FALSE,
    "ocsp_cache": _FALSE,
    # logging, profiling, monitoring
    "prof_port": _ZERO,
    "prof_block_rate": _ZERO,
    "server_metadata": _NEVER,
    "feature_flags": _NEVER,
    # "close" is what happens to clients by default.
    "write_timeout": frozenset(("default", "close")),
}
