"""Keys of the Go server's configuration that this version of Headrace does not have yet.

Here lives the list, by name, with the values under which a key asks for nothing and is accepted. A key
leaves this list in the change that adds what it is for; none is ever ignored silently.
"""

from __future__ import annotations

from typing import Final

_NEVER: Final[frozenset[object]] = frozenset()
_FALSE: Final[frozenset[object]] = frozenset((False,))

TOP_LEVEL: Final[dict[str, frozenset[object]]] = {
    # other servers and other protocols
    "mqtt": _NEVER,
    # TLS
    "ocsp": _FALSE | {("mode", "never")},
    # "close" is what happens to clients by default.
    "write_timeout": frozenset(("default", "close")),
}

REASONS: Final = {
    "ocsp": (
        "Python's ssl module cannot staple an OCSP response to a handshake: set it to false or remove it, "
        "and use no certificate that demands a stapled response"
    ),
}
"""Why some of them are not there, and what to do."""
