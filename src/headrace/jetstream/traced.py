"""What the trace of a message says of why a stream did not store it.

The Go server has other words for it there than in its PubAck. Source: nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.protocol.jetstream import headers as hdr
from headrace.protocol.jetstream.numbers import UINT64_MAX, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.jetstream.publication import Publication
    from headrace.protocol.jetstream.errors import ApiError

DUPLICATE: Final = "msgid is duplicate"
_TOO_LARGE: Final = "maximum payload exceeded"


def traced_error(p: Publication, error: ApiError) -> str:
    """The text for an error that a publication was answered with."""
    words = _WORDS.get(error.err_code)
    return words(p, error) if words is not None else f"{error.description} ({error.err_code})"


def _wrong_sequence(p: Publication, error: ApiError) -> str:
    actual = error.description.rpartition(" ")[2]
    of_subject = hdr.value(p.headers, hdr.EXPECTED_SUBJECT_SEQUENCE)
    of_stream = hdr.value(p.headers, hdr.EXPECTED_LAST_SEQUENCE)
    if of_subject and not (of_stream and _number(of_subject) == actual):
        return f"last sequence by subject mismatch: {_number(of_subject)} vs {actual}"
    return f"last sequence mismatch: {_number(of_stream)} vs {actual}"


def _number(text: bytes) -> str:
    """What is no number is the largest one."""
    number = whole(text)
    return str(UINT64_MAX if number is None else number)


def _wrong_id(p: Publication, error: ApiError) -> str:
    wanted = hdr.value(p.headers, hdr.EXPECTED_LAST_ID).decode("utf-8", "replace")
    last = error.description.rpartition(": ")[2]
    return f'last msgid mismatch: "{wanted}" vs "{last}"'


_WORDS: Final[dict[int, Callable[[Publication, ApiError], str]]] = {
    10054: lambda _p, _error: _TOO_LARGE,
    10060: lambda _p, _error: "expected stream does not match",
    10070: _wrong_id,
    10071: _wrong_sequence,
    10077: lambda _p, error: error.description,
    10097: lambda _p, _error: _TOO_LARGE,
    10111: lambda _p, error: error.description,
    10166: lambda _p, _error: "message TTL disabled",
}
