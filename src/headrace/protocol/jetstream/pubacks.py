"""PubAcks: what a stream answers a publication with, byte for byte as the Go server composes it.

Source: JetStream specification, 3.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.protocol.jetstream.errors import ApiError

TAIL: Final = b"}"
DUPLICATE: Final = b',"duplicate": true}'
"""The end of a PubAck for a duplicate, behind the sequence of the message that was stored first."""
_ESCAPED: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def head(stream: str, domain: str = "") -> bytes:
    """Compose the part of a PubAck before the sequence."""
    where = f'"stream":{_quoted(stream)},' + (f'"domain":{_quoted(domain)},' if domain else "")
    return f'{{{where}"seq":'.encode()


def of_batch(batch: bytes, count: int) -> bytes:
    """Compose the part behind the sequence for a batch: its id, and the number of its stored messages."""
    return f',"batch":{_quoted(batch.decode("utf-8", "replace"))},"count":{count}'.encode()


def refusal(error: ApiError, stream: str) -> bytes:
    """Return the PubAck of a message that is not stored."""
    body = _text(error.body())
    return f'{{"error":{body},"stream":{_text(stream)},"seq":0}}'.encode()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text(value: object) -> str:
    """JSON with what could end a script element escaped, as Go does."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)
