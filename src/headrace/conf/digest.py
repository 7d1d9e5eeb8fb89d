"""The digest of a configuration, the same that the Go server shows for the same file.

Here lives the encoding the digest is taken of: JSON with sorted keys, no white space, `<`, `>` and `&`
escaped, and a new line at the end. Never lives here: reading, options.
Source: compared with what `nats-server -t` prints, version 2.15.1.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from json.encoder import encode_basestring as _text
from typing import TYPE_CHECKING, Final

from headrace.conf.tree import ListNode, MapNode, Scalar

if TYPE_CHECKING:
    from headrace.conf.tree import Node

_ESCAPED: Final = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""Characters that are escaped in strings; they cannot stand anywhere else."""

_PLAIN_EXPONENTS: Final = (1e-6, 1e21)


def config_digest(root: MapNode) -> str:
    """The digest of a whole configuration, as `sha256:` and 64 hexadecimal digits."""
    line = _encoded(root) + "\n"
    for char, escape in _ESCAPED.items():
        line = line.replace(char, escape)
    return f"sha256:{sha256(line.encode()).hexdigest()}"


def _encoded(node: Node) -> str:
    if isinstance(node, Scalar):
        return _scalar(node)
    if isinstance(node, MapNode):
        entries = node.entries
        return f"{{{','.join([f'{_text(key)}:{_encoded(entries[key].node)}' for key in sorted(entries)])}}}"
    if isinstance(node, ListNode):
        return f"[{','.join(map(_encoded, node.items))}]"
    return "null"


def _scalar(node: Scalar) -> str:
    value = node.value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime) or (isinstance(value, float) and "e" in node.text.lower()):
        # The Go server takes a number with an exponent for a string.
        return _text(node.text)
    return _float(value) if isinstance(value, float) else str(value)


def _float(value: float) -> str:
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    least, most = _PLAIN_EXPONENTS
    if not least <= abs(value) < most:
        return repr(value).replace("e-0", "e-")
    text = repr(value)
    if "e" in text:
        from decimal import Decimal

        return f"{Decimal(text):f}"
    return text.removesuffix(".0")
