"""A strict reader of what a server writes on a route, or to a leaf node; from the protocols' text alone."""

from __future__ import annotations

import re
from typing import Final

Told = tuple[bytes, bytes, bytes | None]
"""Account, subject, queue group."""

CRLF: Final = b"\r\n"
SIZES: Final = {b"RMSG": 1, b"LMSG": 1, b"HMSG": 2}


def read_route_lines(data: bytes, account: bytes | None, letter: bytes = b"R") -> dict[Told, int]:
    """What the lines have told in the end: members of each queue group, 1 for each subject.

    `account`: the only one on this connection, whose lines do not name it. Raises: ValueError for anything
    but complete lines that a server without leafs writes, and for an end of what was never told.
    `letter`: what most ops begin with.
    """
    told: dict[Told, int] = {}
    at = 0
    while at < len(data):
        end = data.find(CRLF, at)
        if end < 0:
            raise ValueError(f"a line without an end: {data[at : at + 80]!r}")
        op, *words = data[at:end].split(b" ")
        at = end + 2
        if op in (letter + b"S+", letter + b"S-"):
            _read_interest(op, words if account is None else [account, *words], told)
        elif op in (letter + b"MSG", b"HMSG"):
            at = _read_message(op, words if account is None else [account, *words], data, at)
        elif op == b"-ERR":
            _check_error(words)
        elif (op, words) != (b"PONG", []):
            raise ValueError(f"not a line of a server: {op!r} {words!r}")
    return told


def _read_interest(op: bytes, words: list[bytes], told: dict[Told, int]) -> None:
    account, subject, *more = words
    queue = more[0] if more else None
    key = (account, subject, queue)
    if b"" in words:
        raise ValueError(f"a word is missing: {words!r}")
    if op.endswith(b"-"):
        if len(words) > 3:
            raise ValueError(f"{op!r} with {words!r}")
        if key not in told:
            raise ValueError(f"{key!r} ends, but was never told")
        del told[key]
        return
    if len(words) not in (2, 4):
        raise ValueError(f"{op!r} with {words!r}")
    weight = int(more[1]) if more else 1
    if weight < 1:
        raise ValueError(f"a group of {weight} members: {words!r}")
    told[key] = weight


def read_leaf_lines(data: bytes) -> dict[tuple[bytes, bytes | None], int]:
    """As `read_route_lines`, of what a leaf node is written: by subject and queue group."""
    return {told[1:]: n for told, n in read_route_lines(data, b"-", b"L").items()}


def read_legacy_lines(data: bytes) -> dict[bytes, tuple[bytes, bytes | None]]:
    """What the lines of a server of before 2.0 have told in the end: by RSID, subject and queue group.

    Raises: ValueError as `read_route_lines`.
    """
    told: dict[bytes, tuple[bytes, bytes | None]] = {}
    at = 0
    while at < len(data):
        end = data.find(CRLF, at)
        if end < 0:
            raise ValueError(f"a line without an end: {data[at : at + 80]!r}")
        op, *words = data[at:end].split(b" ")
        at = end + 2
        if op in (b"SUB", b"UNSUB"):
            _read_legacy_interest(op, words, told)
        elif op == b"MSG":
            if len(words) not in (3, 4) or b"" in words:
                raise ValueError(f"MSG with {words!r}")
            at += int(words[-1]) + 2
            if data[at - 2 : at] != CRLF:
                raise ValueError(f"no CRLF behind the payload of {words!r}")
        elif op == b"-ERR":
            _check_error(words)
        elif (op, words) != (b"PONG", []):
            raise ValueError(f"not a line of a server: {op!r} {words!r}")
    return told


def _read_legacy_interest(
    op: bytes, words: list[bytes], told: dict[bytes, tuple[bytes, bytes | None]]
) -> None:
    if op == b"UNSUB":
        rsid, *limit = words
        if rsid not in told or len(limit) > 1 or any(int(word) < 1 for word in limit):
            raise ValueError(f"UNSUB with {words!r}")
        if not limit:
            del told[rsid]
        return
    subject, queue, rsid = words
    if not re.fullmatch(rb"QRSID:\d+:\S+" if queue else rb"RSID:\d+:\S+", rsid) or not subject:
        raise ValueError(f"SUB with {words!r}")
    if told.setdefault(rsid, (subject, queue or None)) != (subject, queue or None):
        raise ValueError(f"{rsid!r} is told twice")


def _check_error(words: list[bytes]) -> None:
    if not (words and words[0].startswith(b"'") and words[-1].endswith(b"'")):
        raise ValueError(f"an error that is not quoted: {words!r}")


def _read_message(op: bytes, words: list[bytes], data: bytes, at: int) -> int:
    sizes = SIZES[op]
    between = words[2:-sizes]
    if len(words) < 2 + sizes or b"" in words:
        raise ValueError(f"{op!r} with {words!r}")
    if len(between) > 1 and (
        between[0] not in (b"+", b"|") or len(between) < (3 if between[0] == b"+" else 2)
    ):
        raise ValueError(f"{op!r} with {words!r}")
    numbers = [int(word) for word in words[-sizes:]]
    if sizes == 2 and not 0 < numbers[0] <= numbers[1]:
        raise ValueError(f"headers longer than the whole, or none: {words!r}")
    end = at + numbers[-1]
    if data[end : end + 2] != CRLF:
        raise ValueError(f"no CRLF behind the payload of {words!r}")
    return end + 2
