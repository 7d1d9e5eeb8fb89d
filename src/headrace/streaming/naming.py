"""Names a streaming service checks or makes: channels, clients, inboxes.

Pure functions; which channels and clients exist is known elsewhere. Source: streaming specification, 2, 3, 4.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.protocol.nuid import new_nuid
from headrace.subjects.grammar import is_valid_literal, is_valid_subject

_CLIENT_ID: Final = re.compile(rb"[a-zA-Z0-9_-]+")
_NOT_IN_CHANNELS: Final = re.compile(rb"[*>/\x00-\x20\x7f]")


def is_client_id(name: bytes) -> bool:
    return _CLIENT_ID.fullmatch(name) is not None


def is_channel_name(name: bytes) -> bool:
    """Tokens joined by dots, none empty, without `*`, `>`, `/`, white space and control characters.

    The reference allows the last two kinds, but no client can publish to such a subject, and they would
    break log lines and file names.
    """
    return bool(name) and b"" not in name.split(b".") and _NOT_IN_CHANNELS.search(name) is None


def is_publishable(subject: bytes) -> bool:
    """True if the service may publish to this subject, which a peer has named."""
    return is_valid_subject(subject) and is_valid_literal(subject)


def new_inbox() -> bytes:
    return b"_INBOX." + new_nuid().encode()


def shown(name: bytes) -> str:
    """A peer's bytes as text for a log line or a document."""
    return name.decode("utf-8", "backslashreplace")
